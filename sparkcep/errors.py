"""The errors of the clause. Each says what is wrong, where, and what would be right.

Every analysis error is a :class:`ClauseError`, raised before any Spark job starts (LANGUAGE section 8).
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable

_SHOWN = 60  # characters of a text of the user's that a message quotes
# characters that move the cursor, or change the order of a text in a terminal or a browser: controls of C0 and C1 but newlines and
# tabs, marks and embeddings of a direction, and separators of lines and paragraphs
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")

SYNTAX = "42601"  # SQLSTATE: syntax error
SEMANTIC = "42K0E"  # SQLSTATE: an expression is not allowed in its context
UNSUPPORTED = "0A000"  # SQLSTATE: feature not supported
LIMIT = "54000"  # SQLSTATE: program limit exceeded
DATA = "22000"  # SQLSTATE: data exception
INTERNAL = "XX000"  # SQLSTATE: internal error


class ClauseError(Exception):
    """An error in a MATCH_RECOGNIZE clause, with an error class and SQLSTATE as Spark's have, and a position.

    ``line`` and ``column`` are 1-based and count from the start of the statement's text. Both are 0 when the error has no place in
    the text.

    Example:
        >>> try:
        ...     sparkcep.rewrite("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY d PATTERN (A) DEFINE B AS d > 1)")
        ... except sparkcep.ClauseError as error:
        ...     print(error.error_class, error.line, error.column, error.fragment)
        SPARKCEP.UNKNOWN_VARIABLE 1 64 B
    """

    def __init__(
        self, error_class: str, message: str, *, sqlstate: str = SYNTAX, line: int = 0, column: int = 0, fragment: str = "",
    ) -> None:
        self.error_class = f"SPARKCEP.{error_class}"
        self.sqlstate = sqlstate
        self.message = message
        self.line = line
        self.column = column
        self.fragment = fragment
        where = ""
        if line:
            where = f" (line {line}, column {column}" + (f": '{fragment}')" if fragment else ")")
        elif fragment:
            where = f" (at '{fragment}')"
        super().__init__(printable(f"[{self.error_class}] {message}{where} SQLSTATE: {sqlstate}"))

    def moved(self, line: int, column: int, fragment: str | None = None) -> ClauseError:
        """The same error at another place."""
        name, fragment = self.error_class.removeprefix("SPARKCEP."), self.fragment if fragment is None else fragment
        return ClauseError(name, self.message, sqlstate=self.sqlstate, line=line, column=column, fragment=fragment)

    def over(self, sql: str) -> str:
        """The error with its line of a statement."""
        return f"{self}{excerpt(sql, self.line, self.column, self.fragment)}"


class MatchRuntimeError(ClauseError):
    """An error while matching that depends on the data, such as SKIP TO the first row of a match.

    Example:
        >>> try:
        ...     sparkcep.preview("AFTER MATCH SKIP TO FIRST A PATTERN (A B)", "A B")
        ... except sparkcep.MatchRuntimeError as error:
        ...     print(error.error_class, error.sqlstate)
        SPARKCEP.SKIP_TO_FIRST_ROW 22000
    """

    def __init__(self, error_class: str, message: str, *, sqlstate: str = DATA, line: int = 0, column: int = 0, fragment: str = "") -> None:
        super().__init__(error_class, message, sqlstate=sqlstate, line=line, column=column, fragment=fragment)

    def at(self, place: tuple[int, int, str] | None) -> MatchRuntimeError:
        """The same error at a place of the statement (line, column, text), if it has none of its own and that is known."""
        if self.line or place is None or not place[0]:
            return self
        line, column, fragment = place
        name = self.error_class.removeprefix("SPARKCEP.")
        return MatchRuntimeError(name, self.message, sqlstate=self.sqlstate, line=line, column=column, fragment=fragment.split("\n")[0])

    def kept_in(self, path: str) -> MatchRuntimeError:
        """The same error with the path of the checkpoint, if it is of a state."""
        name = self.error_class.removeprefix("SPARKCEP.")
        if name != "STATE_FORMAT" or not path:
            return self
        return MatchRuntimeError(name, f"{self.message} (the state is in {path})", sqlstate=self.sqlstate, line=self.line, column=self.column, fragment=self.fragment)

    def __reduce__(self):  # crosses the worker boundary
        fields = {name: getattr(self, name) for name in ("sqlstate", "line", "column", "fragment")}
        return functools.partial(MatchRuntimeError, **fields), (self.error_class.removeprefix("SPARKCEP."), self.message)


class TooManyStepsError(Exception):
    """A search took more steps than it may. ``args[0]`` is the number of its window."""


class TooMuchStateError(Exception):
    """The lists of a search need more bytes than they may."""


class ToolError(Exception):
    """A command cannot work. The message says what would, or what to install; ``code`` is the command line's exit code."""

    code = 2


class NoSparkError(ToolError, ImportError):
    """PySpark is not installed."""

    code = 3

    def __init__(self) -> None:
        super().__init__("this needs PySpark 4.1 or newer, which is not installed here: pip install 'sparkcep[spark]', or install sparkcep into the environment of your Spark")


def lacks_spark(error: ImportError) -> bool:
    """Whether an import failed for want of PySpark."""
    return (error.name or "").partition(".")[0] in ("pyspark", "py4j")


def position(text: str, offset: int) -> tuple[int, int]:
    """The 1-based (line, column) of a character offset."""
    offset = max(0, min(offset, len(text)))
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return line, column


def error_at(text: str, start: int, end: int, error_class: str, message: str, sqlstate: str = SYNTAX) -> ClauseError:
    """A :class:`ClauseError` for ``text[start:end]``. The fragment is cut to one line; the fragment and names in the message are
    cut to 60 characters."""
    line, column = position(text, start)
    fragment = text[start:end].split("\n", 1)[0]
    message = re.sub(rf"\S{{{_SHOWN + 1},}}", lambda name: shown(name[0]), message)
    return ClauseError(error_class, message, sqlstate=sqlstate, line=line, column=column, fragment=shown(fragment))


def excerpt(sql: str, line: int, column: int, fragment: str) -> str:
    """A line of a statement with a mark below a part of it, the way Spark shows it; empty where there is no such line."""
    lines = sql.split("\n")
    if not 1 <= line <= len(lines):
        return ""
    text = lines[line - 1].rstrip("\r")
    # tabs kept, so that the mark stands below what it means
    indent = "".join("\t" if c == "\t" else " " for c in text[: column - 1])
    mark = "^" * max(1, min(len(fragment), len(text) - column + 1))
    return f"\n\n== SQL (line {line}, position {column}) ==\n{printable(text)}\n{indent}{mark}"


def printable(text: str) -> str:
    """A text of a table or a statement as people are shown it. Each character that a terminal would obey is a replacement
    character, so that no value can hide or rewrite the text beside it."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def nearest(name: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """The one of the ``known`` names of which ``name`` may be a misspelling; ``alike`` says how much of it they must have in
    common."""
    by_upper = {k.upper(): k for k in known}
    found = difflib.get_close_matches(name.upper(), list(by_upper), n=1, cutoff=alike)
    return by_upper[found[0]] if found else None


def offered(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the one that was meant, if one is near, else the known ones, at most eight."""
    names = list(dict.fromkeys(known))
    near = nearest(name, names)
    if near is not None:
        return f"; did you mean {near}?"
    return f"; there {'is' if len(names) == 1 else 'are'} {', '.join(names[:8])}{' and more' if len(names) > 8 else ''}" if names else ""


def shown(text: str) -> str:
    """A text of the user's as messages quote it, at most 60 characters long."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
