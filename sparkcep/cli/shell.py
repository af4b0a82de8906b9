"""``sparkcep shell``: an interactive SQL shell with completion, history, progress, and errors at their position.

prompt_toolkit edits the lines. A statement ends with ``;``. A line that begins with ``:`` is a command of the shell.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from sparkcep.clause.tokens import END, WORD, matching, name_of, split_statements, tokenize
from sparkcep.errors import ClauseError, ToolError, printable
from sparkcep.notebook import jobs
from sparkcep.notebook.cell import Interrupted
from sparkcep.notebook.progress import Reporter
from sparkcep.notebook.table import Table, matches
from sparkcep.spark.session.catalog import columns_of, functions_of, tables_of
from sparkcep.tools.complete import complete

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# as in other shells
_LEAVE = frozenset([":quit", ":q", ":exit", "quit", "exit", "\\q", ".quit", ".exit"])
_MARKS = (":", "\\", ".")  # the first characters of commands in this and other shells, which never begin a statement
_ASK = frozenset([":help", "help", "?", "\\?", "\\h", ".help"])
_PROMPT, _MORE = "sparkcep> ", "       -> "
_HELP = """A statement ends with ; and Tab completes words, variables, columns and tables. Ctrl-C stops a statement, Ctrl-D leaves.
  :explain STATEMENT   how it runs                    :table NAME=PATH   a view over files
  :why [AT (CONDITION)] STATEMENT   why its rows match or not; without a statement, of the last one
  :fmt STATEMENT       the statement laid out         :limit N           rows shown (now {limit})
  :read ENGINE STATEMENT   of Trino, Snowflake, ...   :save PATH         the last result as .parquet, .csv, .json
  :help                this                           :quit              leave"""


class Shell:
    """The dialogue over one session. The first character distinguishes commands from statements."""

    def __init__(self, session: SparkSession, say: Callable[[str], None] = print) -> None:
        self.session = session
        self.say = lambda text: say(printable(text))
        self.limit = 50
        self.last: DataFrame | None = None
        self.asked = ""  # the last statement with a result

    def run(self, **terminal: Any) -> None:
        """Reads and answers input until the user leaves. ``terminal``: arguments for prompt_toolkit's session."""
        lines: PromptSession = PromptSession(
            history=_history(), completer=Proposals(self.session), lexer=PygmentsLexer(SqlLexer), complete_in_thread=True,
            multiline=Condition(lambda: not finished(lines.default_buffer.text)), prompt_continuation=_MORE, **terminal,
        )  # fmt: skip
        self.say("sparkcep shell; type :help for help")
        while True:
            try:
                text = lines.prompt(_PROMPT)
            except KeyboardInterrupt:  # at the prompt: discards the text
                continue
            except EOFError:
                return
            if not self.answer(text):
                return

    def answer(self, text: str) -> bool:
        """Executes the text. Returns whether the dialogue continues."""
        command, rest = (*text.strip().split(None, 1), "", "")[:2]
        word = _word(text)
        if word in _LEAVE:
            return False
        try:
            if word in _ASK:
                self._help("")
            elif command.startswith(_MARKS):
                self._command(command, rest)
            else:
                with self._placed(text):
                    statements = split_statements(text)
                for statement in statements:
                    self._statement(statement)
        except Interrupted:
            self.say("the Spark job was cancelled")
        except KeyboardInterrupt:
            self.say("interrupted")
        except (ToolError, ValueError) as error:
            self.say(f"error: {error}")
        return True

    def _statement(self, statement: str) -> None:
        with self._jobs(statement) as (job, reporter):
            frame = job(lambda: self.session.sql(statement))
            if frame.columns:
                rows = job(lambda: frame.take(self.limit + 1))
                reporter.clear()
                self.last, self.asked = frame, statement
                ask = "" if rows or not matches(statement) else "Ask why nothing matches: :why"
                self.say(repr(Table(frame.columns, rows[: self.limit], len(rows) > self.limit, frame, ":limit", ask)))

    def _why(self, rest: str) -> None:
        from sparkcep.spark.why.ask import why

        with self._placed(rest):
            asked, statement = question(rest)
        statement = statement or self.asked
        if not statement:
            raise ToolError(":why needs a statement, as in :why AT (day = 3) SELECT ...;")
        with self._jobs(statement) as (job, reporter):
            answer = job(lambda: why(self.session, statement, **asked))
            reporter.clear()
            self.say(str(answer))

    @contextmanager
    def _jobs(self, statement: str) -> Iterator[tuple[Callable[[Callable[[], Any]], Any], Reporter]]:
        """Runs jobs with their progress. Shows errors of the statement."""
        from sparkcep.spark.errors.exceptions import RAISED, shown

        reporter, outcome = Reporter(SimpleNamespace()), "failed"

        def job(work: Callable[[], Any]) -> Any:
            return jobs.run(self.session, work, statement, reporter.show)

        try:
            yield job, reporter
            outcome = "done"
        except (ClauseError, *RAISED) as error:
            reporter.clear()
            self.say(f"error: {shown(error, statement)}")
        except Interrupted:
            outcome = "interrupted"
            raise
        finally:
            reporter.close(outcome)

    def _command(self, command: str, rest: str) -> None:
        known: dict[str, Callable[[str], None]] = {
            ":help": self._help, ":explain": self._explain, ":why": self._why, ":fmt": self._fmt, ":read": self._read, ":table": self._table, ":limit": self._limit, ":save": self._save,
        }  # fmt: skip
        if command not in known:
            raise ToolError(f"unknown command {command}; the commands are {', '.join(known)} and :quit")
        known[command](rest)

    @contextmanager
    def _placed(self, statement: str) -> Iterator[None]:
        """Raises the errors of clauses in its scope as ToolError, with their lines of the statement, redacted."""
        from sparkcep.spark.configured import redaction_of

        try:
            yield
        except ClauseError as error:
            raise ToolError(redaction_of(self.session).of_error(error.over(statement))) from None

    def _help(self, rest: str) -> None:
        self.say(_HELP.format(limit=self.limit))

    def _explain(self, statement: str) -> None:
        from sparkcep.draw.explain import explain
        from sparkcep.spark.configured import settings_of, substituted

        with self._placed(statement):
            statements = split_statements(substituted(self.session, statement))
        for text in statements:
            with self._placed(text):
                self.say(explain(text, settings=settings_of(self.session)).rstrip())

    def _fmt(self, statement: str) -> None:
        from sparkcep.tools.fmt import format_sql

        with self._placed(statement):
            self.say(format_sql(statement).rstrip())

    def _read(self, rest: str) -> None:
        from sparkcep.dialect.transpile import transpile

        engine, statement = (*rest.split(None, 1), "", "")[:2]
        with self._placed(statement):
            done = transpile(statement, engine)
        for note in done.notes:
            self.say(f"note: {note}")
        for text in split_statements(done.sql):
            self._statement(text)

    def _table(self, rest: str) -> None:
        from sparkcep.spark.files.sources import define, sources

        for source in sources([rest], []):
            define(self.session, source, lambda text: self.say(f"note: {text}"))
            self.say(f"{source.name}: {', '.join(self.session.table(source.name).columns)}")

    def _limit(self, rest: str) -> None:
        if not rest.isdecimal() or not rest.strip("0") or len(rest) > 18:
            raise ToolError(f":limit takes a number of rows above 0, not {rest or 'nothing'}")
        self.limit = int(rest)

    def _save(self, path: str) -> None:
        from sparkcep.spark.files import results

        if self.last is None:
            raise ToolError("nothing to save yet; :save writes the last result shown")
        results.checked(path, ":save")
        results.write(self.last, path)
        self.say(f"written to {path}")


def _word(text: str) -> str:
    return text.strip().removesuffix(";").rstrip().lower()


def finished(text: str) -> bool:
    """Whether Enter ends the input: a command, nothing, or statements with ``;`` after the last one."""
    stripped = text.strip()
    if not stripped or _word(text) in _LEAVE | _ASK:
        return True
    if stripped.startswith(_MARKS):
        command = stripped.split(None, 1)
        return command[0] not in (":explain", ":fmt", ":read", ":why") or len(command) < 2 or stripped.endswith(";")
    try:
        tokens = tokenize(text)
        return tokens[-2].text == ";" and stripped.endswith(";") and not _in_block(text)
    except ClauseError:  # a literal or a comment is open
        return False


def question(text: str) -> tuple[dict[str, Any], str]:
    """Reads AT (CONDITION), MATCH N, EXPECT VARIABLE and WHICH CLAUSE.

    Returns:
        The arguments of :func:`sparkcep.why`, and the statement after them.

    Raises:
        ToolError: a word lacks its value.
    """
    asked: dict[str, Any] = {}
    tokens = tokenize(text)
    closes = matching(tokens)
    at = 0
    while tokens[at].upper in ("AT", "MATCH", "EXPECT", "WHICH") and tokens[at].kind == WORD:
        name, value = tokens[at].upper, tokens[at + 1]
        last = closes.get(at + 1, at + 1)
        if value.kind == END or (name == "AT") != (last > at + 1) or (name == "MATCH" and not value.text.isdecimal()):
            raise ToolError(f":why {name} needs {_VALUES[name]}")
        found = text[value.end : tokens[last].start].strip() if name == "AT" else name_of(value)
        asked[name.lower()] = int(found) if name == "MATCH" else found
        at = last + 1
    return asked, "".join(split_statements(text[tokens[at].start :])[:1])


_VALUES = {
    "AT": "a condition in parentheses, as in AT (day = 3)",
    "MATCH": "a number, as in MATCH 1",
    "EXPECT": "a variable",
    "WHICH": "a clause's alias or number",
}


def _in_block(text: str) -> bool:
    """Whether the text ends inside a BEGIN ... END block, whose statements have semicolons of their own."""
    return any(statement.endswith(";") for statement in split_statements(text)[-1:])


class Proposals(Completer):
    """Completion for prompt_toolkit. Spark is asked once for the columns of a table."""

    def __init__(self, session: SparkSession) -> None:
        self._columns = lru_cache(256)(columns_of(session))
        self._tables = tables_of(session)
        self._functions = functions_of(session)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        at = document.cursor_position
        for proposal in complete(document.text, at, self._columns, self._tables, self._functions):
            yield Completion(proposal.text, proposal.start - at, display_meta=proposal.kind)


def _history() -> History:
    """Returns the history of earlier shells, in a file that only the user can read.

    Without such a file, the history has the lines of this shell only.
    """
    try:
        path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "sparkcep" / "history"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    except (OSError, RuntimeError):  # the home cannot be written to, or is unknown
        return InMemoryHistory()
    return FileHistory(str(path))
