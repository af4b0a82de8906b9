"""Which part may import what (docs/ARCHITECTURE.md); `import sparkcep` stays light."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "sparkcep"

# Library -> the packages, or modules, that may import it. A library without a line may be imported nowhere.
LIBRARIES = {
    "sqlglot": {"clause", "dialect"},
    "pyspark": {"spark"},
    "py4j": {"spark"},
    "packaging": {"spark"},
    "numba": {"engine/output", "kernels"},
    "llvmlite": {"kernels/jit"},
    "numpy": {"columns", "compiler", "engine", "kernels", "spark", "tracing"},
    "pyarrow": {"columns", "compiler/conditions", "compiler/registers", "engine", "spark", "tracing"},
    "pandas": {"spark"},
    "IPython": {"notebook"},
    "prompt_toolkit": {"cli/shell"},
    "pygments": {"cli/shell"},
    "lsprotocol": {"editor/server"},
    "pygls": {"editor/server"},
    "jinja2": {"draw"},
    "markupsafe": {"draw"},
}

# Library -> packages and modules that may import it inside a function as well, so that importing them costs nothing.
INSIDE_FUNCTIONS = {
    "shtab": {"cli"},
    "packaging": {"cli/doctor"},
    "pyspark": {"cli", "draw", "notebook", "__main__"},
    "numpy": {"cli/demo", "draw"},
    "pyarrow": {"precompile", "cli/demo", "cli/trial", "draw"},
    "pandas": {"cli/demo", "draw", "notebook", "tracing"},
    "matplotlib": {"draw", "notebook"},
    "nbformat": {"cli", "notebook"},
    "nbclient": {"notebook"},
    "ipykernel": {"notebook"},
}

# Part -> the parts that it must not know. The layers, lower first: clause, plan and columns, compiler, kernels, engine, sql, draw,
# tracing, spark, the others.
HIDDEN = {
    "clause": {"cli", "columns", "compiler", "dialect", "draw", "editor", "engine", "kernels", "notebook", "plan", "spark", "sql", "tools", "tracing"},
    "plan": {"cli", "columns", "compiler", "dialect", "draw", "editor", "engine", "kernels", "notebook", "spark", "sql", "tools", "tracing"},
    "columns": {"clause", "cli", "compiler", "dialect", "draw", "editor", "engine", "kernels", "notebook", "plan", "spark", "sql", "tools", "tracing"},
    "compiler": {"cli", "dialect", "draw", "editor", "engine", "kernels", "notebook", "spark", "sql", "tools", "tracing"},
    # columns of edges and opcodes are layouts of the compiler's; their meaning lies above the kernels
    "kernels": {"clause", "cli", "columns", "dialect", "draw", "editor", "engine", "notebook", "plan", "spark", "sql", "tools", "tracing"},
    "engine": {"clause", "cli", "dialect", "draw", "editor", "notebook", "spark", "sql", "tools", "tracing"},
    "sql": {"cli", "columns", "dialect", "draw", "editor", "engine", "kernels", "notebook", "spark", "tools", "tracing"},  # EXPLAIN shows the compiled program
    "dialect": {"cli", "columns", "compiler", "draw", "editor", "engine", "kernels", "notebook", "plan", "spark", "tools", "tracing"},
    "tools": {"cli", "columns", "compiler", "draw", "editor", "engine", "kernels", "notebook", "spark", "tracing"},
    "draw": {"cli", "columns", "dialect", "editor", "engine", "kernels", "notebook", "spark", "tools", "tracing"},
    "tracing": {"cli", "dialect", "editor", "notebook", "spark", "tools"},
    "spark": {"cli", "dialect", "editor", "notebook", "tools"},
    "notebook": {"cli", "columns", "compiler", "editor", "engine", "kernels"},
    "editor": {"cli", "columns", "compiler", "dialect", "draw", "engine", "kernels", "plan", "spark", "tracing"},
    "cli": {"columns", "compiler"},
}

# Modules under their former names, by which older clients and drivers pickle functions and classes. They are kept for one version.
ALIASES = {
    "engine.buckets": "engine.stream.key_buckets",
    "spark.bucket_processor": "spark.stream.frames.processor",
    "spark.bucket_report": "spark.report.bucket_report",
    "spark.latest": "spark.stream.memory_sink",
    "spark.results": "spark.files.results",
    "spark.stream_ranks": "spark.stream.frames.ranks",
    "spark.stream_search": "spark.stream.frames.worker",
    "spark.streaming": "spark.stream.micro_batch",
    "spark.table_function": "spark.exec.table_function",
}
# A process under its former name, by which jars of older versions start it.
PROGRAMS = {"spark.rewrite_server": "spark.session.rewrite_service"}

# A module that compiles kernels sees arrays and scalars: nothing else is imported there.
COMPILERS = {"numba.njit", "numba.jit", "numba.vectorize", *(f"sparkcep.kernels.jit.cache.{n}" for n in ("kernel", "inlined", "embedded", "allocating", "separate"))}
KERNEL_IMPORTS = {"__future__", "math", "numba", "numpy", "sparkcep", "typing"}

# A program crosses processes as JSON and arrays.
NOWHERE = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
NO_CALLS = {"eval", "exec", "__import__"}


class Import(NamedTuple):
    name: str  # dotted
    deferred: bool  # inside a function, or for type checkers only

    @property
    def library(self) -> str:
        return self.name.partition(".")[0]


def last_name(node: ast.expr) -> str:
    """``c`` of ``a.b.c``."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


class Finder(ast.NodeVisitor):
    """The imports and the calls of plain names of one module."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.deferred = 0
        self.imports: list[Import] = []
        self.calls: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.If) -> None:
        self.deferred += 1
        self.generic_visit(node)
        self.deferred -= 1

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_If(self, node: ast.If) -> None:
        if last_name(node.test) == "TYPE_CHECKING":
            self.visit_FunctionDef(node)
        else:
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        above = self.package.split(".")[: len(self.package.split(".")) - node.level + 1] if node.level else []
        module = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            self.add(f"{module}.{alias.name}")

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name):
            self.calls.append(node.func.id)
        if last_name(node.func) == "import_module" and node.args and isinstance(node.args[0], ast.Constant):
            self.add(str(node.args[0].value))
        self.generic_visit(node)

    def add(self, name: str) -> None:
        self.imports.append(Import(name, self.deferred > 0))


@cache
def parsed(source: str) -> ast.Module:
    """The tree of a source, made once: several tests read all modules."""
    return ast.parse(source)


@cache
def walked(source: str) -> list[ast.AST]:
    """All nodes of the tree, listed once."""
    return list(ast.walk(parsed(source)))


@cache
def text_of(path: str) -> str:
    """The source of a module, by its path from the package's folder."""
    return (PACKAGE / path).read_text("utf-8")


@cache
def findings(source: str, package: str) -> Finder:
    finder = Finder(package)
    finder.visit(parsed(source))
    return finder


def findings_of(path: str) -> Finder:
    """The imports and calls of a module, by its path from the package's folder."""
    return findings(text_of(path), ".".join(["sparkcep", *Path(path).parts[:-1]]))


def complaints(path: str, source: str) -> Iterator[str]:
    """What ``path`` (from the package's folder) does against the tables above."""
    parts = Path(path).with_suffix("").parts
    part = parts[0]  # a folder, or the name of a module beside them
    places = {"/".join(parts[:n]) for n in range(1, len(parts) + 1)}
    found = findings(source, ".".join(["sparkcep", *parts[:-1]]))
    for item in found.imports:
        where = f"{path} imports {item.name}"
        if item.library == "sparkcep":
            other = (item.name.split(".") + [""])[1]
            if other in HIDDEN.get(part, set()):
                yield f"{where}, but {part} must not know {other}"
        elif item.library in NOWHERE:
            yield f"{where}: data cross processes as JSON and arrays only"
        elif item.library not in sys.stdlib_module_names:
            in_function = item.deferred and places & INSIDE_FUNCTIONS.get(item.library, set())
            if not places & LIBRARIES.get(item.library, set()) and not in_function:
                yield f"{where}; allowed: {LIBRARIES.get(item.library, 'nowhere')}"
    if any(item.name in COMPILERS for item in found.imports):
        for item in found.imports:
            if item.library not in KERNEL_IMPORTS:
                yield f"{path} compiles kernels and imports {item.name}"
    for name in NO_CALLS.intersection(found.calls):
        yield f"{path} calls {name}"


def modules() -> list[str]:
    """The paths of all modules, without those that are kept under a former name."""
    former = {f"{name.replace('.', '/')}.py" for name in ALIASES | PROGRAMS}
    return sorted({str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")} - former)


def test_imports():
    assert [said for path in modules() for said in complaints(path, text_of(path))] == []


def circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """The modules that import each other, however far round; ``imports`` has those that each module imports."""
    reached = {module: set(others) for module, others in imports.items()}
    for middle in imports:
        for module in imports:
            if middle in reached[module]:
                reached[module] |= reached[middle]
    round_about = [m for m in imports if m in reached[m]]
    return [set(found) for found in {frozenset(n for n in round_about if n in reached[m] and m in reached[n]) for m in round_about}]


@cache
def imported_modules() -> dict[str, set[str]]:
    """For each module of the package those that it imports, inside functions and for type checkers too."""
    names = {".".join(("sparkcep", *Path(path).with_suffix("").parts)).removesuffix(".__init__") for path in modules()}
    found = {}
    for path in modules():
        name = ".".join(("sparkcep", *Path(path).with_suffix("").parts))
        imports = {item.name for item in findings_of(path).imports}
        # ``from sparkcep.plan import plan`` names a module, ``from sparkcep.plan.plan import Plan`` what is in one
        known = {i if i in names else i.rpartition(".")[0] for i in imports} & names
        found[name.removesuffix(".__init__")] = known - {name.removesuffix(".__init__")}
    return found


def test_no_two_modules_import_each_other_however_far_round():
    assert circles(imported_modules()) == []


def test_a_circle_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}) in (
        [{"a", "b", "c"}, {"d", "e"}], [{"d", "e"}, {"a", "b", "c"}],
    )  # fmt: skip


def test_no_two_parts_import_each_other():
    parts: dict[str, set[str]] = {}
    for module, others in imported_modules().items():
        part, inside = (module.split(".") + ["", ""])[1:3]
        if inside:
            parts.setdefault(part, set()).update(o.split(".")[1] for o in others if o.count(".") > 1 and o.split(".")[1] != part)
    assert circles({part: {o for o in others if o in parts} for part, others in parts.items()}) == []


# Package -> a package that it imports, although that one imports it too, however far round. The list only shrinks.
BACKWARDS = {
    ("engine.core", "engine.output"),  # core/task asks for the schema of the output, and operators write tables
    ("engine.stream", "engine"),  # stream/keyed_stream makes its engine by the factory
    ("plan.split", "plan.extend"),  # split/measures knows the measures of APPROX and BUDGET
    ("sql.explain", "sql.rewrite"),  # EXPLAIN has words about window functions, and EXPLAIN AUTOMATON splices as the rewriter does
}
# Packages whose own modules lie below their sub-packages (records, the connection) and above them (build, the parser), by design.
FRONTS = {"clause", "plan", "spark"}


def package_arrows() -> set[tuple[str, str]]:
    """Which package imports which, by modules in them. A package's own modules may use its sub-packages, and be used there."""
    arrows = set()
    for module, others in imported_modules().items():
        if not (PACKAGE.parent / module.replace(".", "/")).is_dir():
            for other in others:
                one, two = (name.removeprefix("sparkcep.").rpartition(".")[0] for name in (module, other))
                if one != two and one and two and not (one in FRONTS and two.startswith(f"{one}.")):
                    arrows.add((one, two))
    return arrows


def circles_of_packages(arrows: set[tuple[str, str]]) -> list[set[str]]:
    imports: dict[str, set[str]] = {name: set() for arrow in arrows for name in arrow}
    for one, two in arrows:
        imports[one].add(two)
    return circles(imports)


def test_no_two_packages_import_each_other_however_far_round():
    assert circles_of_packages(package_arrows() - BACKWARDS) == []


@pytest.mark.parametrize("arrow", sorted(BACKWARDS))
def test_a_known_circle_is_still_there(arrow):
    assert circles_of_packages(package_arrows() - BACKWARDS | {arrow}) != []


MOST_MODULES = 12


def test_packages_are_small():
    sizes: dict[str, int] = {}
    for path in modules():
        if not path.endswith("__init__.py"):
            sizes[str(Path(path).parent)] = sizes.get(str(Path(path).parent), 0) + 1
    assert {package for package, size in sizes.items() if size > MOST_MODULES} == set()


def test_packages_are_one_or_two_deep():
    assert {path for path in modules() if len(Path(path).parts) > 3} == {path for path in modules() if path.startswith("spark/stream/frames/")}


def test_every_package_says_what_it_is_for():
    folders = [folder for folder in PACKAGE.rglob("*") if folder.is_dir() and any(folder.glob("*.py"))]
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []
    said = {folder.relative_to(PACKAGE).as_posix(): ast.get_docstring(parsed((folder / "__init__.py").read_text("utf-8"))) for folder in folders}
    assert [name for name, text in said.items() if not text] == []


def test_no_class_name_twice_across_engine_and_kernels():
    found: dict[str, set[str]] = {}
    for path in modules():
        if path.startswith(("engine/", "kernels/")):
            for node in walked(text_of(path)):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, set()).add(path.removesuffix(".py"))
    assert {name for name, where in found.items() if len(where) > 1} == set()


PRIVATE: dict[str, set[str]] = {}  # module -> private names of other modules that it imports


def private_names(path: str, source: str) -> set[str]:
    """Names with an underscore that a module takes of others of the package."""
    found, bound = set(), {}
    for node in walked(source):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sparkcep."):
            for alias in node.names:
                name = f"{node.module}.{alias.name}".removeprefix("sparkcep.")
                if (PACKAGE / f"{name.replace('.', '/')}.py").exists():
                    bound[alias.asname or alias.name] = name
                elif alias.name.startswith("_") and not alias.name.startswith("__"):
                    found.add(name)
    for node in walked(source):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr.startswith("_") and not node.attr.startswith("__"):
            found |= {f"{bound[node.value.id]}.{node.attr}"} if node.value.id in bound else set()
    return found


def test_no_private_name_across_modules():
    found = {path.removesuffix(".py"): private_names(path, text_of(path)) for path in modules()}
    assert {path: names for path, names in found.items() if names} == PRIVATE  # the list only shrinks


def test_a_private_name_is_found():
    assert private_names("a.py", "from sparkcep.plan import records as r\nfrom sparkcep.plan.records import _x\nr._y\n_z._y") == {"plan.records._y", "plan.records._x"}


# The module that uses numba's own modules, which change between its versions.
NUMBA_INTERNALS = {"kernels/jit/numba_internals"}


def test_who_uses_what_numba_keeps_to_itself():
    found = set()
    for path in modules():
        imports = {item.name for item in findings_of(path).imports}
        if any(name.startswith("numba.core.") for name in imports):
            found.add(path.removesuffix(".py"))
    assert found == NUMBA_INTERNALS


@pytest.mark.further
def test_former_names_are_those_modules():
    named = [f"import sparkcep.{name} as m; assert m.__name__ == 'sparkcep.{new}', m" for name, new in ALIASES.items()]
    assert loaded_after("\n".join(named)) >= {"pyspark"}
    for name, new in (ALIASES | PROGRAMS).items():
        assert f"sparkcep.{new}" in (PACKAGE / f"{name.replace('.', '/')}.py").read_text("utf-8")
    imports = {f"{item.name}." for path in modules() for item in findings_of(path).imports}
    assert [name for name in imports if name.startswith(tuple(f"sparkcep.{old}." for old in ALIASES | PROGRAMS))] == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_under_its_former_name(name):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-m", f"sparkcep.{name}", "60000", str(1 << 32)], cwd=ROOT, **pipes) as process:
        assert process.stdout.read(6) == b"\0\0\0\2{}", process.stderr.read()
        process.stdin.close()
        assert process.wait(120) == 0


def test_every_part_has_its_rules():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders == set(HIDDEN)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("plan/plan.py", "import sqlglot"),
        ("plan/plan.py", "def f():\n    from sqlglot import exp"),
        ("engine/run.py", "from pyspark.sql import Row"),
        ("cli/cli.py", "import pyspark"),
        ("errors.py", "def f():\n    import pyspark"),
        ("sql/rewrite/rewrite.py", "from ...spark import session"),
        ("sql/rewrite/rewrite.py", "import importlib\nimportlib.import_module('pyspark')"),
        ("engine/output/gather.py", "import pyarrow\nfrom numba import njit"),
        ("engine/output/gather.py", "import pyarrow\nfrom sparkcep.kernels.jit.cache import kernel"),
        ("engine/run.py", "import scipy"),
        ("compiler/pattern/program.py", "import pickle"),
        ("compiler/pattern/program.py", "eval('1')"),
        ("plan/scope.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pyarrow"),
    ],
)
def test_a_wrong_import_is_found(path, source):
    assert len(list(complaints(path, source))) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("cli/cli.py", "def main():\n    from pyspark.sql import SparkSession"),
        ("cli/demo.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pyspark"),
        ("spark/session/session.py", "from sparkcep.sql.rewrite import rewrite\nimport pyspark, pyarrow, os"),
        ("kernels/match/backtrack.py", "import math\nimport numpy\nfrom numba import njit\nfrom .cache import folder"),
    ],
)
def test_a_right_import_passes(path, source):
    assert list(complaints(path, source)) == []


# -- what really is loaded ------------------------------------------------------------------------------------

HEAVY = {"IPython", "pyspark", "py4j", "numba", "llvmlite", "pyarrow", "pandas", "matplotlib", "sqlglot"}
CLAUSE = """SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY ts MEASURES LAST(B.price) AS low PATTERN (A B+) DEFINE B AS price < PREV(price)
) ORDER BY low"""


def loaded_after(code: str) -> set[str]:
    """The heavy libraries in a fresh interpreter after ``code``."""
    program = f"{code}\nimport sys\nprint(' '.join(sorted({HEAVY!r}.intersection(sys.modules))))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_import_loads_nothing_heavy():
    assert loaded_after("import sparkcep") == set()


def test_rewrite_and_explain_need_no_spark():
    code = f"import sparkcep\nsql = {CLAUSE!r}\nassert 'match_recognize(' in sparkcep.rewrite(sql).lower()\nassert sparkcep.explain(sql)"
    assert loaded_after(code) & {"pyspark", "py4j"} == set()


def test_a_clause_is_rewritten_without_other_libraries_than_sqlglot():
    assert loaded_after(f"import sparkcep\nsparkcep.rewrite({CLAUSE!r})") == {"sqlglot"}


def test_a_statement_without_the_clause_is_not_cut_into_tokens():
    assert "sqlglot" not in loaded_after("import sparkcep\nsql = 'SELECT 1'\nassert sparkcep.rewrite(sql) is sql")


def test_the_check_sees_what_is_loaded():
    assert "pyarrow" in loaded_after("import pyarrow")


# -- prose that can be read ---------------------------------------------------------------------------------------------

WIDEST = 132
NOTES = ("* ", "/**", "//")  # with which lines of Java's comments begin


def long_prose(source: str) -> Iterator[int]:
    """The numbers of lines of docstrings and comments that are too long."""
    lines = source.split("\n")
    prose, quoted, begun = set(), False, False  # of a file without a long line in quotes no tree is needed
    for i, line in enumerate(lines, 1):
        prose |= {i} if line.lstrip().startswith("#") else set()
        begun = begun ^ (line.count('"""') % 2 > 0)
        quoted |= len(line) > WIDEST and (begun or '"""' in line or line.lstrip().startswith(('"', "'")))
    for node in walked(source) if quoted else ():
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            prose |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return (i for i in sorted(prose) if len(lines[i - 1]) > WIDEST)


def test_lines_of_prose_are_not_long():
    files = [path for root in (PACKAGE, PACKAGE.parent / "tests") for path in sorted(root.rglob("*.py"))]
    assert {str(path): found for path in files if (found := list(long_prose(path.read_text("utf-8"))))} == {}
    for path in sorted(PACKAGE.rglob("*.java")):
        assert [line for line in path.read_text("utf-8").split("\n") if len(line) > WIDEST and line.lstrip().startswith(NOTES)] == [], path


def test_a_long_line_of_prose_is_found():
    long = "x" * WIDEST
    assert list(long_prose(f'"""{long}"""\n# {long}\ny = "{long}"\n')) == [1, 2]


# -- the JVM extension ----------------------------------------------------------------------------------------------------

JVM = PACKAGE / "spark" / "jvm"
# Packages of org.sparkcep, lower first: each imports only packages before it. The extension itself is above all. Versions have the
# classes that differ between versions of Spark.
JAVA = ["catalyst", "errors", "rewriter", "parse", "functions", "budget", "stream", "aggregate", "blocks", "exchange.shuffle", "exchange", "batch", "versions", "stream.exec", ""]
SPARKS_OWN = "org.apache.spark."  # signatures for compilation only
_OURS = re.compile(r"^import (?:static )?org\.sparkcep\.((?:[a-z]\w*\.)*)[A-Z]", re.MULTILINE)
_FULL = re.compile(r"(?<![\w.\"])org\.sparkcep\.((?:[a-z]\w*\.)*)[A-Z]")


def java_package(source: str) -> str:
    """The package below org.sparkcep; "stubs" for signatures of Spark's own classes."""
    name = source.partition(";")[0].removeprefix("package ")
    return "stubs" if name.startswith(SPARKS_OWN) else name.removeprefix("org.sparkcep").removeprefix(".")


def java_imports(source: str) -> set[str]:
    """The packages of org.sparkcep that a Java source names."""
    return {name.rstrip(".") for name in [*_OURS.findall(source), *_FULL.findall(source.partition("\n")[2])]}


@cache
def java_sources() -> dict[str, str]:
    return {path.relative_to(JVM).as_posix(): path.read_text("utf-8") for path in sorted(JVM.rglob("*.java"))}


def test_java_packages_import_lower_ones():
    wrong = set()
    for path, source in java_sources().items():
        if (own := java_package(source)) != "stubs":
            wrong |= {(path, other) for other in java_imports(source) - {own} if JAVA.index(other) > JAVA.index(own)}
    assert wrong == set()


def test_java_classes_lie_in_the_folder_of_their_package():
    for path, source in java_sources().items():
        folder = re.sub(r"^(versions|stubs)/(\d+\.\d+|exchange|stream)/", r"\1/", path).rpartition("/")[0]
        assert java_package(source) == folder.replace("/", "."), path


def test_java_packages_are_small():
    classes: dict[str, set[str]] = {}
    for path, source in java_sources().items():
        classes.setdefault(java_package(source), set()).add(Path(path).stem)
    assert {package for package, names in classes.items() if len(names) > MOST_MODULES} == set()
    assert set(classes) - {"stubs"} == set(JAVA)
    names = [name for package in classes.values() for name in package]
    assert len(names) == len(set(names))  # no name is in two packages


MOST_LINES_OF_A_CLASS = 320


def test_java_classes_are_small():
    assert {path for path, source in java_sources().items() if source.count("\n") > MOST_LINES_OF_A_CLASS} == set()


def test_an_import_in_java_is_found():
    source = "package org.sparkcep.stream;\n\nimport org.sparkcep.batch.Marks;\n\nclass A { org.sparkcep.stream.exec.B b; String c = \"org.sparkcep.parse.D\"; }\n"
    assert (java_package(source), java_imports(source)) == ("stream", {"batch", "stream.exec"})


# -- one protocol of operators ------------------------------------------------------------------------------------------

# Packages of the engine, and its factory, that treat any operator, stage and state alike.
ALIKE = ("engine/core/", "engine/stages/", "engine/stream/", "engine/factory.py")
ASKED = {"pa.Array", "Pair"}  # how states are given; a pair of columns in a condition


def classes_asked(source: str) -> set[str]:
    """The classes that isinstance() is asked for."""
    found: set[str] = set()
    for node in walked(source):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            of = node.args[1]
            found |= {ast.unparse(one) for one in (of.elts if isinstance(of, ast.Tuple) else [of])}
    return found


def test_nothing_asks_an_operator_a_stage_or_a_state_for_its_class():
    asked = {path: classes_asked(text_of(path)) - ASKED for path in modules() if path.startswith(ALIKE)}
    assert {path: classes for path, classes in asked.items() if classes} == {}


def test_the_factory_knows_every_stage():
    stages = {path.removesuffix(".py").replace("/", ".") for path in modules() if path.startswith("engine/stages/") and "__init__" not in path}
    imported = {name.removeprefix("sparkcep.") for name in imported_modules()["sparkcep.engine.factory"]}
    assert stages <= imported


def test_a_row_pattern_loads_no_other_capability():
    text = "PARTITION BY k ORDER BY t MEASURES LAST(B.v) AS low PATTERN (A B+) DEFINE B AS v < PREV(v)"
    code = (
        "import sys\nfrom sparkcep.clause.parser import parse_clause\nfrom sparkcep.engine.factory import engine_for, prepare\n"
        f"from sparkcep.plan.build import make_plan\nfrom sparkcep.precompile import tables\nplan = make_plan(parse_clause({text!r}))\n"
        "engine_for(prepare(plan, next(tables(plan)).schema))\n"
        "print(' '.join(sorted({name.split('.')[2] for name in sys.modules if name.startswith('sparkcep.engine.')})))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["core", "factory", "match", "output", "stages"], done.stderr


def test_classes_that_are_asked_for_are_found():
    assert classes_asked("isinstance(x, (A, b.C))\nisinstance(y, D)") == {"A", "b.C", "D"}


# -- functions that can be read ------------------------------------------------------------------------------------------

MOST_LINES, MOST_PARAMETERS = 150, 12
# docs/adr/0003 says why the interpreter of conditions and the exact search are one function each; plot is called with names
LONG, WIDE = {"scan", "match_partitions"}, {"plot", "why"}
KERNELS = {"kernel", "inlined", "embedded", "allocating", "separate"}  # decorators: numba's functions take arrays one by one


def is_kernel(function: ast.FunctionDef) -> bool:
    decorators = [decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in function.decorator_list]
    return any(isinstance(decorator, ast.Name) and decorator.id in KERNELS for decorator in decorators)


def too_large(source: str) -> Iterator[str]:
    """The functions with too many lines, or too many parameters."""
    for node in walked(source):
        if isinstance(node, ast.FunctionDef):
            compiled = is_kernel(node)
            given = node.args
            if node.name not in LONG and (node.end_lineno or 0) - node.lineno >= MOST_LINES:
                yield node.name
            elif not compiled and node.name not in WIDE and len(given.args) + len(given.kwonlyargs) > MOST_PARAMETERS:
                yield node.name


def called_by_attribute(source: str) -> Iterator[str]:
    """The calls in kernels of functions that are attributes of a module of ours: the twin that Python interprets knows kernels by
    their names alone, so such a call would wait for the kernel that makes it."""
    imported = [(node.module or "", alias) for node in walked(source) if isinstance(node, ast.ImportFrom) for alias in node.names]
    ours = {alias.asname or alias.name for module, alias in imported if (ROOT / module.replace(".", "/") / f"{alias.name}.py").exists()}
    for node in walked(source):
        if isinstance(node, ast.FunctionDef) and is_kernel(node):
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id in ours:
                    yield ast.unparse(call.func)


def test_kernels_call_each_other_by_name():
    assert {path: calls for path in modules() if (calls := list(called_by_attribute(text_of(path))))} == {}


def test_a_call_by_attribute_is_found():
    head = "from sparkcep.engine.output import gather\n"
    assert list(called_by_attribute(f"{head}@kernel\ndef f(x):\n    return gather.less(x, gather.ONE)")) == ["gather.less"]
    assert list(called_by_attribute(f"{head}def f(x):\n    return gather.less(x)")) == []


def test_functions_are_small():
    paths = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))
    assert {path: names for path in paths if (names := list(too_large(text_of(path))))} == {}


def test_a_large_function_is_found():
    lines = "\n".join("    pass" for _ in range(MOST_LINES))
    names = ", ".join(f"p{i}" for i in range(MOST_PARAMETERS + 1))
    assert list(too_large(f"def long():\n{lines}\ndef wide({names}): ...\n@kernel\ndef compiled({names}): ...\ndef small(): ...")) == ["long", "wide"]
