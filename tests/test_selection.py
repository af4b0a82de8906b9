"""Which run takes which test: the default one, the wider one of ``.ci/run`` and the slow one are all tests, and none twice."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections import OrderedDict
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from tests.cases.sql_case_files import in_spark_alone, name_of, read_case_file
from tests.cases.test_sql_cases import FILES, found_by_the_reader
from tests.conftest import FOUND, OF_SPARK, Together, together
from tests.selection import first, further, one_in

TESTS = Path(__file__).resolve().parent
SETTINGS = tomllib.loads((TESTS.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
MARKS = {mark.partition(":")[0] for mark in SETTINGS["markers"]}


def expression_of(command: str) -> str:
    """What stands behind -m in a command that runs tests, the module to run left out."""
    words = shlex.split(command.partition("-m pytest")[2] or command)
    return words[words.index("-m") + 1]


DEFAULT = expression_of(SETTINGS["addopts"])
(WIDER,) = (expression_of(line) for line in (TESTS.parent / ".ci" / "run").read_text(encoding="utf-8").splitlines() if re.search(r'-m pytest -m "', line))
RUNS = {"default": DEFAULT, "wider": WIDER, "slow": "slow"}


def takes(expression: str, marks: set[str]) -> bool:
    """Whether ``-m expression`` takes a test with these marks."""
    return eval(expression, {"__builtins__": {}}, {mark: mark in marks for mark in MARKS})


def runs_of(marks: set[str]) -> set[str]:
    return {name for name, expression in RUNS.items() if takes(expression, marks)}


@pytest.fixture(scope="module")
def items(request) -> list[pytest.Item]:
    """Every test there is."""
    items = request.config.stash[FOUND]
    if {item.path for item in items} != set(TESTS.rglob("test_*.py")):
        pytest.skip("only some of the files were collected")
    return items


@pytest.fixture(scope="module")
def found(items) -> list[tuple[Path, str, set[str]]]:
    """File, name and marks of every test."""
    return [(item.path, item.name, {mark.name for mark in item.iter_markers()} & MARKS) for item in items]


def test_what_asks_for_a_session_is_known_by_its_path(items):
    for item in items:
        own = item.callspec.params if hasattr(item, "callspec") else {}  # "spark" may be a test's own parameter
        assert item.get_closest_marker("spark") is None or "spark" in own or OF_SPARK.match(item.nodeid), item.nodeid


def test_each_set_of_marks_belongs_to_one_run():
    for i in range(1 << len(MARKS)):  # codegen changes nothing
        marks = {mark for bit, mark in enumerate(sorted(MARKS)) if i >> bit & 1}
        assert len(runs_of(marks)) == 1, (marks, runs_of(marks))


def test_the_readme_and_ci_run_the_default():
    command = '.venv/bin/pip install ".[test]" && .venv/bin/python -m pytest\n'
    assert command in (TESTS.parent / "README.md").read_text(encoding="utf-8")
    assert '"$venv/bin/python" -m pytest\n' in (TESTS.parent / ".ci" / "run").read_text(encoding="utf-8")
    assert 'pip" install --quiet --no-compile ".[test]"\n' in (TESTS.parent / ".ci" / "run").read_text(encoding="utf-8")


def test_the_workflow_runs_it_for_the_versions_that_the_package_names():
    root = TESTS.parent
    workflow = (root / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {found[1] for text in project["classifiers"] if (found := re.search(r"Python :: (3\.\d+)$", text))}
    assert set(re.findall(r'python: "(\S+)"', workflow)) == named and set(re.findall(r'spark: "(\S+)"', workflow)) == {"4.1", "4.2", "4.3"}
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert "- run: .ci/run" in workflow and "Spark 4.1 or newer" in readme and "Python 3.11 or newer" in readme and "Spark 4.1 to 4.3" in readme


def test_every_file_has_a_test_in_the_default_run_or_starts_programs(found):
    by_file: dict[Path, list[set[str]]] = {}
    for path, _, marks in found:
        by_file.setdefault(path, []).append(marks)
    for path, marks in by_file.items():
        assert any("default" in runs_of(m) for m in marks) or all(m & {"process", "slow"} for m in marks), path


def test_every_case_file_has_a_case_in_the_default_run(found):
    names = [name for _, name, marks in found if "default" in runs_of(marks)]
    here = {name.removeprefix("test_rows[").removesuffix("]") for name in names if name.startswith("test_rows[")}
    alone = in_spark_alone()
    for file in map(read_case_file, FILES):
        name = f"{file.path.parent.name}/{file.path.stem}"
        without_spark = any(case.asks_for_rows() and name_of(file, case) not in alone for case in file.cases)
        in_spark = any(found.startswith(f"test_case[{name}/") for found in names)
        # test_errors_that_the_reader_finds asks for all of its errors
        assert name in here and without_spark or in_spark or any(map(found_by_the_reader, file.cases)), name


def without_place(folder: Path, guide: str) -> list[str]:
    """What lies in a folder of tests and is not in its guide: helpers and folders."""
    some = (p for p in sorted(folder.iterdir()) if p.name not in ("__init__.py", "__pycache__", "README.md"))
    wanted = (f"{p.name}/" if p.is_dir() else p.name for p in some if not p.match("test_*.py"))
    return [name for name in wanted if f"`{name}`" not in guide]


def test_everything_has_its_place_in_the_guide():
    assert not without_place(TESTS, (TESTS / "README.md").read_text(encoding="utf-8"))


def test_what_has_no_place_is_found(tmp_path):
    (tmp_path / "spark").mkdir()
    for name in ("test_new.py", "helper.py", "conftest.py", "README.md"):
        (tmp_path / name).touch()
    assert without_place(tmp_path, "`conftest.py`") == ["helper.py", "spark/"]
    assert without_place(tmp_path, "`conftest.py` `helper.py` `spark/`") == []


def test_the_default_run_takes_some():
    def left_out(values, to="further"):
        return [getattr(value, "id", None) or value.values for value in values if hasattr(value, "marks") and any(m.name == to for m in value.marks)]

    assert left_out(first(range(3))) == [(1,)] and left_out(first(range(3)), "slow") == [(2,)] and left_out(first("abc", 2)) == [("c",)]
    assert left_out(first(range(3), wider=3)) == [(1,), (2,)] and left_out(first(range(3), wider=1)) == []
    assert left_out(one_in(2, range(5))) == [(1,), (3,)]
    some = one_in(4, range(7), wider=2)
    assert left_out(some) == [(2,), (6,)] and left_out(some, "slow") == [(1,), (3,), (5,)] and [value for value in some if isinstance(value, int)] == [0, 4]
    both = further(pytest.param(1, 2, id="x", marks=pytest.mark.slow))
    assert both.values == (1, 2) and both.id == "x" and [m.name for m in both.marks] == ["slow", "further"]


def test_what_one_process_runs():
    assert together("tests/spark/session/test_session.py::test_a[b::c]") == together("tests/spark/session/test_session.py::test_d") == "tests/spark/session/test_session.py"
    assert together("tests/property/match/test_differential.py::test_a[0]") != together("tests/property/match/test_differential.py::test_a[1]")
    assert together("tests/grammar/test_grammar.py::test_a[0]") == together("tests/grammar/test_editors.py::test_b")
    cases = [together(f"tests/cases/test_sql_cases.py::test_case[{name}]") for name in ("pattern/empty/a", "pattern/groups/b", "values/ansi/c")]
    assert cases[0] == cases[1] != cases[2]


def test_the_first_process_begins_with_files_that_need_a_session():
    scopes = ["tests/spark/test_a.py", "tests/test_b.py", "tests/test_c.py", "tests/docs/test_docs.py", "tests/spark/test_d.py"]
    scheduling, nodes = object.__new__(Together), [MagicMock(), MagicMock()]
    scheduling.assigned_work = {node: {} for node in nodes}
    scheduling.registered_collections = {node: [f"{scope}::test" for scope in scopes] for node in nodes}
    scheduling.workqueue = OrderedDict((scope, {f"{scope}::test": False}) for scope in scopes)
    for node in (*nodes, *nodes, nodes[1]):
        scheduling._assign_work_unit(node)
    assert [list(scheduling.assigned_work[node]) for node in nodes] == [["tests/spark/test_a.py", "tests/docs/test_docs.py"], ["tests/test_b.py", "tests/test_c.py", "tests/spark/test_d.py"]]
