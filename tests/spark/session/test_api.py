"""The package as a user meets it first: its names, and what it says to arguments of another kind."""

from __future__ import annotations

import doctest
import inspect
import re
import subprocess
import sys
import textwrap
from importlib.resources import files
from types import SimpleNamespace

import pandas as pd
import pytest

import sparkcep
from sparkcep.clause.parser import parse_clause
from sparkcep.cli import main
from sparkcep.errors import ClauseError
from sparkcep.settings import Settings
from tests.selection import slow


def test_names_can_be_completed():
    assert {"enable", "explain", "lineage", "match_recognize", "plot", "report", "rewrite", "transpile"} <= set(dir(sparkcep))
    assert all(getattr(sparkcep, name) is not None for name in sparkcep.__all__)


def test_types_are_told():
    assert files("sparkcep").joinpath("py.typed").is_file()


def test_the_command_alone_prints_its_help(capsys):
    assert main([]) == 0
    said = capsys.readouterr()
    assert "run statements over Parquet, CSV or JSON paths" in said.out and said.err == ""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: sparkcep.explain(5), "takes the text of a statement, not int"),
        (lambda: sparkcep.enable(SimpleNamespace(getOrCreate=None)), r"end the builder with \.getOrCreate\(\)"),
        (lambda: sparkcep.enable("local"), "needs a Spark session, not str"),
        (lambda: sparkcep.match_recognize(pd.DataFrame(), clause="PATTERN (A)"), r"spark\.createDataFrame\(frame\)"),
    ],
)
def test_arguments_of_another_kind(call, said):
    with pytest.raises(TypeError, match=said):
        call()


def test_the_text_of_a_clause_has_no_keyword():
    with pytest.raises(ClauseError, match=r"Leave out MATCH_RECOGNIZE \( \)"):
        parse_clause("MATCH_RECOGNIZE (ORDER BY ts PATTERN (A))")


WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
import sparkcep
from sparkcep.cli import main

assert sparkcep.rewrite("SELECT 1") == "SELECT 1"
try:
    sparkcep.match_recognize
except ImportError as error:
    print(error)
sys.exit(main(["run", "-e", "SELECT 1"]))
"""


def test_without_spark_it_says_what_to_install():
    """As on a platform that has a Spark of its own, in an environment beside that."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_SPARK], capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "pip install 'sparkcep[spark]'" in done.stdout and done.stderr == f"error: {done.stdout}"


@pytest.mark.parametrize("named", [*(getattr(sparkcep, name) for name in sparkcep.__all__), Settings], ids=lambda named: named.__name__)
def test_each_public_name_has_an_example_that_runs(spark, named):
    from pyspark.sql import SparkSession

    examples = doctest.DocTestFinder(recurse=False).find(named, named.__name__, globs={"sparkcep": sparkcep, "spark": spark, "SparkSession": SparkSession})
    assert examples and examples[0].examples
    assert doctest.DocTestRunner().run(examples[0]).failed == 0


def test_the_magics_have_an_example_that_runs(spark):
    shells = pytest.importorskip("IPython.core.interactiveshell")
    from sparkcep.notebook.magic import Cells

    example = textwrap.dedent(inspect.getdoc(Cells.sql).partition("Example:\n")[2])
    shell = shells.InteractiveShell(user_ns={"spark": spark})
    shell.run_line_magic("load_ext", "sparkcep")
    shell.run_cell(example).raise_error()
    assert [tuple(row) for row in shell.user_ns["rises"].collect()] == [(2,)]


HEAD = "import sparkcep\nfrom pyspark.sql import SparkSession\nspark = sparkcep.enable(SparkSession.builder.getOrCreate())\n"


def written(line: str):
    """An editor's view of a file with this line, and the place at the end of it (before a closing parenthesis)."""
    jedi = pytest.importorskip("jedi")
    return jedi.Script(HEAD + line + "\n"), 4, len(line) - line.endswith(")")


@pytest.mark.further
def test_an_editor_completes_names_and_arguments():
    script, *place = written("sparkcep.")
    assert set(sparkcep.__all__) <= {name.name for name in script.complete(*place)}
    script, *place = written("sparkcep.match_recognize(part)")
    assert [name.name for name in script.complete(*place)] == ["partition_by="]
    script, *place = written("spark.")
    assert {"sql", "table", "readStream"} <= {name.name for name in script.complete(*place)}
    script, *place = written("sparkcep.match_recognize(spark.range(1), pattern='A').")
    assert {"select", "collect"} <= {name.name for name in script.complete(*place)}
    for call, members in (("preview('A', 'A')", {"rows", "matches"}), ("transpile('', 'trino')", {"sql", "notes"}), ("ClauseError('', '')", {"line", "column", "error_class"})):
        script, *place = written(f"sparkcep.{call}.")
        assert members <= {name.name for name in script.complete(*place)}


@pytest.mark.parametrize("name", sparkcep.__all__)
def test_an_editor_shows_signatures_and_documentation(name):
    script, *place = written(f"sparkcep.{name}()")
    (signature,) = script.get_signatures(*place)
    assert signature.name == name and len(signature.params) == len(inspect.signature(getattr(sparkcep, name)).parameters)
    script, line, column = written(f"sparkcep.{name}")
    assert inspect.getdoc(getattr(sparkcep, name)).split("\n")[0] in script.help(line, column - 1)[0].docstring()


USE = '''
from pyspark.sql import DataFrame, SparkSession

import sparkcep

spark: SparkSession = sparkcep.enable(SparkSession.builder.getOrCreate())
found: DataFrame = sparkcep.match_recognize(spark.table("t"), order_by=["day"], pattern="A B", define={"A": "x > 1"})
text: str = sparkcep.rewrite("SELECT 1") + sparkcep.explain("SELECT 1") + sparkcep.transpile("SELECT 1", "trino").sql
rows: tuple[str, ...] = sparkcep.preview("A B", "A B").rows
try:
    found.collect()
except sparkcep.ClauseError as error:
    line: int = error.line
'''
WRONG = {"no such argument": "sparkcep.match_recognize(found, patern='A')", "another type": "number: int = sparkcep.rewrite('SELECT 1')", "no such name": "sparkcep.enabled(spark)"}


@pytest.mark.process
@pytest.mark.parametrize("checker", [slow(["mypy", "--no-error-summary", "--follow-imports", "silent"]), ["basedpyright", "--level", "error", "--pythonpath", sys.executable]], ids=["mypy", "pyright"])
def test_a_users_file_is_checked(tmp_path, checker):
    pytest.importorskip(checker[0])
    (tmp_path / "sparkcep").symlink_to(files("sparkcep"))  # type checkers cannot follow the hook of an editable installation
    written = {f"{name.replace(' ', '_')}.py": more for name, more in {"right": "", **WRONG}.items()}
    for name, more in written.items():
        (tmp_path / name).write_text(f"{USE}{more}\n")
    done = subprocess.run([sys.executable, "-m", *checker, *written], cwd=tmp_path, capture_output=True, text=True, check=False)  # at once: a start takes seconds
    found = set(re.findall(r"(\w+\.py):(\d+)\b.* error: ", done.stdout))
    assert found == {(name, str(USE.count("\n") + 1)) for name, more in written.items() if more}, done.stdout + done.stderr
