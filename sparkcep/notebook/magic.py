"""The magics ``%%sql`` and ``%sql``: run the statements of a cell, and show, draw, explain or store the last result.

``%load_ext sparkcep`` loads this module.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from IPython.core.magic import no_var_expand

from sparkcep.clause.tokens import split_statements
from sparkcep.errors import ClauseError, printable
from sparkcep.notebook import jobs, picture
from sparkcep.notebook.cell import CellError, Options, bound, parameters, parse
from sparkcep.notebook.completion import MATCHER, matcher
from sparkcep.notebook.progress import Reporter
from sparkcep.notebook.session import session_of
from sparkcep.notebook.table import Table, matches

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from sparkcep.tracing.answers.answer import Why

_KINDS = ("line", "cell")
_before: WeakKeyDictionary[InteractiveShell, dict[tuple[str, str], Any]] = WeakKeyDictionary()  # shell -> its former magics


class _Lazy(NamedTuple):
    """The result of a statement. ``schema`` is empty without a result; ``streams``: whether it is a stream."""

    frame: DataFrame
    schema: StructType
    streams: bool


class _Explained(str):
    """A text that a notebook shows unchanged, not as a Python string."""

    __repr__ = str.__str__


def names() -> tuple[str, ...]:
    """Returns the magics' names. In a Databricks notebook ``sql`` is the platform's own magic, which must be kept."""
    return ("sparkcep",) if "DATABRICKS_RUNTIME_VERSION" in os.environ else ("sparkcep", "sql")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Registers the magics in ``shell`` for ``%load_ext sparkcep``. Does not start Spark."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    registered = shell.magics_manager.magics
    cells, before = Cells(shell), _before.setdefault(shell, {})
    for name in names():
        for kind in _KINDS:
            before.setdefault((kind, name), registered[kind].get(name))
        shell.register_magic_function(cells.sql, "line_cell", name)
    _forget_matcher(shell)
    shell.Completer.custom_matchers.append(matcher(shell, names()))


def _forget_matcher(shell: InteractiveShell) -> None:
    matchers = shell.Completer.custom_matchers
    matchers[:] = [other for other in matchers if getattr(other, "matcher_identifier", None) != MATCHER]


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Removes the magics and their completion, and restores the magics that had their names before."""
    _forget_matcher(shell)
    registered = shell.magics_manager.magics
    for (kind, name), before in _before.pop(shell, {}).items():
        registered[kind].pop(name, None)
        if before is not None:
            registered[kind][name] = before


class Cells:
    """The magics of one shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    @property
    def namespace(self) -> MutableMapping[str, Any]:
        return self.shell.user_ns

    @no_var_expand  # braces are quantifiers
    def sql(self, line: str, cell: str | None = None) -> Any:
        """Run SQL, with MATCH_RECOGNIZE, in the notebook's Spark session.

        %%sql [name <<] [--read ENGINE] [--limit N] [--into NAME] [--pandas] [--explain] [--plot [--x COL] [--y COL] [--variable
        COL] [--match COL]] [--once | --seconds N] statements, separated by ;

        %%sql --why ["CONDITION"] [--match N] [--expect VARIABLE] [--which CLAUSE] explains the rows of the last statement.

        The last result is shown as a table; the result of a stream is updated while its query runs. ``:name`` in a statement refers
        to the notebook's variable of that name.

        Example:
            %%sql rises <<
            SELECT * FROM VALUES (1), (2), (3) AS t(day) MATCH_RECOGNIZE (
              ORDER BY day MEASURES count(*) AS days PATTERN (UP{2,}) DEFINE UP AS day > PREV(day)
            )
        """
        options = parse(line, cell)
        try:
            statements = split_statements(self._sparks(options))
        except ClauseError as error:
            raise self._wrong(error, options.sql) from None
        if not statements:
            raise CellError("this cell contains only comments. Write SQL in it")
        return self._explained(statements) if options.explain else self._run(statements, options)

    def _sparks(self, options: Options) -> str:
        """Returns the cell's statements in Spark's SQL. Prints notes on a translation from another engine."""
        if options.read is None:
            return options.sql
        from sparkcep.dialect.transpile import transpile

        try:
            done = transpile(options.sql, options.read)
        except ValueError as error:
            raise CellError(f"--{error}") from None
        for note in done.notes:
            print(f"note: {printable(str(note))}")
        return done.sql

    def _explained(self, statements: list[str]) -> _Explained:
        from sparkcep.draw.explain import explain
        from sparkcep.settings import DEFAULT
        from sparkcep.spark.configured import settings_of, substituted

        session = session_of(self.namespace, start=False)
        settings = DEFAULT if session is None else settings_of(session)
        parts = []
        for statement in statements:
            statement = statement if session is None else substituted(session, statement)
            try:
                parts.append(explain(statement, settings=settings).rstrip())
            except ClauseError as error:
                raise self._wrong(error, statement) from None
        return _Explained(printable("\n\n".join(parts)))

    def _wrong(self, error: ClauseError, sql: str) -> CellError:
        """Returns the cell's error for an error in its SQL."""
        from sparkcep.spark.configured import redaction_of

        session = session_of(self.namespace, start=False)
        return CellError(error.over(sql) if session is None else redaction_of(session).of_error(error.over(sql)))

    def _run(self, statements: list[str], options: Options) -> Any:
        reporter = Reporter(self.shell)
        outcome = "failed"
        try:
            if session_of(self.namespace, start=False) is None:
                reporter.say("no Spark session found; starting a local one")
            session = session_of(self.namespace)
            result, outcome = self._results(session, statements, options, reporter)
        finally:
            reporter.close(outcome)
        if options.into is not None:
            self.namespace[options.into] = result
            return None
        return result

    def _results(self, session: SparkSession, statements: list[str], options: Options, reporter: Reporter) -> tuple[Any, str]:
        """Returns the result of a cell, and a text about how it ended."""
        if options.why:
            return self._why(session, statements, options, reporter), ""
        last = None
        for statement in statements:
            found = self._job(session, statement, lambda s=statement: self._frame(session, s), reporter)
            if found.schema.fields:
                last = (*found, statement)
        if last is None:
            if options.into or options.plot or options.pandas:
                raise CellError("no statement of this cell returns a result")
            return None, "done"
        frame, schema, streams, of = last
        if streams and not options.into:
            return self._live(frame, schema, of, options, reporter)
        if options.once or options.seconds is not None:
            raise CellError("--once and --seconds need a statement over a stream, and this one does not read a stream. Leave them out")
        if options.plot:
            columns = picture.kinds(schema)
            axes = picture.choose(columns, options)
            return picture.draw(self._job(session, of, frame.toPandas, reporter), axes, columns), ""
        if options.pandas:
            return self._job(session, of, frame.toPandas, reporter), ""
        if options.into:
            return frame, ""
        rows = self._job(session, of, lambda: frame.take(options.rows + 1), reporter)
        ask = "" if rows or not matches(of) else "Ask why nothing matches: %%sql --why"
        return Table(schema.names, rows[: options.rows], len(rows) > options.rows, frame, ask=ask), ""

    def _why(self, session: SparkSession, statements: list[str], options: Options, reporter: Reporter) -> Why:
        """Runs the statements before the last one, and explains the rows of the last one."""
        from sparkcep.spark.why.ask import why

        *before, last = statements
        for statement in before:
            self._job(session, statement, lambda s=statement: self._frame(session, s), reporter)
        args = bound(last, self.namespace) or None
        asked = {"at": options.at, "match": options.match, "expect": options.expect, "which": options.which}
        return self._job(session, last, lambda: why(session, last, args=args, **asked), reporter)

    def _live(self, frame: DataFrame, schema: StructType, statement: str, options: Options, reporter: Reporter) -> tuple[Any, str]:
        """Runs the query of a stream. Returns its last rows, and a text about how it ended."""
        from sparkcep.notebook.live import follow

        if options.pandas:
            raise CellError("--pandas needs all rows of a result, and a stream never ends. Leave it out, or write the stream elsewhere (name <<, then name.writeStream)")
        with self._reporting(statement):
            return follow(frame, schema, options, reporter)

    def _frame(self, session: SparkSession, statement: str) -> _Lazy:
        """Returns the statement's lazy result. Commands are run at once."""
        args = bound(statement, self.namespace)
        frame = session.sql(statement, args=args) if args else session.sql(statement)
        return _Lazy(frame, frame.schema, frame.isStreaming)

    def _job(self, session: SparkSession, statement: str, work: Any, reporter: Reporter) -> Any:
        with self._reporting(statement):
            return jobs.run(session, work, statement, reporter.show)

    @contextmanager
    def _reporting(self, statement: str) -> Iterator[None]:
        """Turns errors of Spark in its scope into messages."""
        from sparkcep.spark.errors.exceptions import RAISED, shown

        try:
            yield
        except (*RAISED, ClauseError) as error:
            raise CellError(shown(error, statement) + self._unbound(error, statement)) from None

    def _unbound(self, error: Exception, statement: str) -> str:
        """Returns a hint for an error about a parameter without a value, or ""."""
        condition = getattr(error, "getCondition", lambda: None)()
        missing = [name for name in parameters(statement) if name not in self.namespace]
        if condition != "UNBOUND_SQL_PARAMETER" or not missing:
            return ""
        return f"\nThe notebook does not define {', '.join(missing)}. Set the variable, or write a value instead of :{missing[0]}"
