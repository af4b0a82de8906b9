"""Error classes. Each error says what is wrong, where, and what to write instead.

Every analysis error is a :class:`ClauseError`, raised before any Spark job starts (LANGUAGE section 8).
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable

_SHOWN = 60  # the most characters of the user's text that a message quotes
# Characters that move the cursor, or reorder text in a terminal or a browser: C0 and C1 controls except newline and tab,
# directional marks and embeddings, and line and paragraph separators.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")

SYNTAX = "42601"  # SQLSTATE: syntax error
SEMANTIC = "42K0E"  # SQLSTATE: an expression is not allowed in its context
UNSUPPORTED = "0A000"  # SQLSTATE: feature not supported
LIMIT = "54000"  # SQLSTATE: program limit exceeded
DATA = "22000"  # SQLSTATE: data exception
INTERNAL = "XX000"  # SQLSTATE: internal error


class ClauseError(Exception):
    """An error in a MATCH_RECOGNIZE clause, with an error class and SQLSTATE like Spark's own errors, and a position.

    Attributes:
        error_class: the class with its prefix, such as ``SPARKCEP.UNKNOWN_VARIABLE``.
        sqlstate: the SQLSTATE, five characters.
        message: the problem and the advice, without class and position.
        line: 1-based line in the statement's text; 0 without a position.
        column: 1-based column in that line; 0 without a position.
        fragment: the text at the position; may be empty.

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
        """Returns a copy of this error at another position."""
        name, fragment = self.error_class.removeprefix("SPARKCEP."), self.fragment if fragment is None else fragment
        return ClauseError(name, self.message, sqlstate=self.sqlstate, line=line, column=column, fragment=fragment)

    def over(self, sql: str) -> str:
        """Returns the error's text, followed by its line of the statement ``sql``."""
        return f"{self}{excerpt(sql, self.line, self.column, self.fragment)}"


class MatchRuntimeError(ClauseError):
    """A :class:`ClauseError` that depends on the data, such as SKIP TO the first row of a match. Raised while matching.

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
        """Returns this error at ``place`` (line, column, text), unless it already has a position or ``place`` is unknown."""
        if self.line or place is None or not place[0]:
            return self
        line, column, fragment = place
        name = self.error_class.removeprefix("SPARKCEP.")
        return MatchRuntimeError(name, self.message, sqlstate=self.sqlstate, line=line, column=column, fragment=fragment.split("\n")[0])

    def kept_in(self, path: str) -> MatchRuntimeError:
        """Returns this error with the checkpoint's path in its message if it is a STATE_FORMAT error."""
        name = self.error_class.removeprefix("SPARKCEP.")
        if name != "STATE_FORMAT" or not path:
            return self
        return MatchRuntimeError(name, f"{self.message} (the state is in {path})", sqlstate=self.sqlstate, line=self.line, column=self.column, fragment=self.fragment)

    def __reduce__(self):  # pickled between worker and driver
        fields = {name: getattr(self, name) for name in ("sqlstate", "line", "column", "fragment")}
        return functools.partial(MatchRuntimeError, **fields), (self.error_class.removeprefix("SPARKCEP."), self.message)


class TooManyStepsError(Exception):
    """A search exceeded its step limit. ``args[0]`` is the number of its window."""


class TooMuchStateError(Exception):
    """The data structures of a search need more bytes than the limit allows. ``args[0]`` may be the number of a group of rows."""


class ToolError(Exception):
    """A command failed. The message says what to do or install instead; ``code`` is the command line's exit code."""

    code = 2


class NoSparkError(ToolError, ImportError):
    """PySpark is not installed."""

    code = 3

    def __init__(self) -> None:
        super().__init__("this needs PySpark 4.1 or newer, which is not installed here: pip install 'sparkcep[spark]', or install sparkcep into the environment of your Spark")


def lacks_spark(error: ImportError) -> bool:
    """Whether an import failed because PySpark is missing."""
    return (error.name or "").partition(".")[0] in ("pyspark", "py4j")


def position(text: str, offset: int) -> tuple[int, int]:
    """Returns the 1-based (line, column) of a character offset."""
    offset = max(0, min(offset, len(text)))
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return line, column


def offset(text: str, line: int, column: int) -> int:
    """Returns the character offset of a 1-based (line, column): the inverse of :func:`position`."""
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1 or len(text)
    return min(start + max(column - 1, 0), len(text))


def error_at(text: str, start: int, end: int, error_class: str, message: str, sqlstate: str = SYNTAX) -> ClauseError:
    """Returns a :class:`ClauseError` for ``text[start:end]``.

    The fragment is cut to its first line. The fragment and long names in the message are cut to 60 characters.
    """
    line, column = position(text, start)
    fragment = text[start:end].split("\n", 1)[0]
    message = re.sub(rf"\S{{{_SHOWN + 1},}}", lambda name: shown(name[0]), message)
    return ClauseError(error_class, message, sqlstate=sqlstate, line=line, column=column, fragment=shown(fragment))


def excerpt(sql: str, line: int, column: int, fragment: str) -> str:
    """Returns a line of a statement with carets below a part of it, in Spark's format. Returns "" if the line does not exist."""
    lines = sql.split("\n")
    if not 1 <= line <= len(lines):
        return ""
    text = lines[line - 1].rstrip("\r")
    # Tabs are kept, so that the carets line up with the text above them.
    indent = "".join("\t" if c == "\t" else " " for c in text[: column - 1])
    mark = "^" * max(1, min(len(fragment), len(text) - column + 1))
    return f"\n\n== SQL (line {line}, position {column}) ==\n{printable(text)}\n{indent}{mark}"


def printable(text: str) -> str:
    """Returns a text of a table or a statement as it is safe to show.

    Each character that a terminal would obey becomes a replacement character. So no value can hide or rewrite the text next to it.
    """
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def nearest(name: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """Returns the name in ``known`` that ``name`` probably misspells, or None. ``alike`` is the least similarity, from 0 to 1."""
    by_upper = {k.upper(): k for k in known}
    found = difflib.get_close_matches(name.upper(), list(by_upper), n=1, cutoff=alike)
    return by_upper[found[0]] if found else None


def offered(name: str, known: Iterable[str]) -> str:
    """Returns the end of a message about an unknown name: a close name if there is one, else the known names, at most eight."""
    names = list(dict.fromkeys(known))
    near = nearest(name, names)
    if near is not None:
        return f"; did you mean {near}?"
    return f"; known {'name' if len(names) == 1 else 'names'}: {', '.join(names[:8])}{' and more' if len(names) > 8 else ''}" if names else ""


def shown(text: str) -> str:
    """Returns a text of the user's as messages quote it, at most 60 characters long."""
    return cut(text, _SHOWN)


def cut(text: str, most: int) -> str:
    """Returns a text of at most ``most`` characters. A longer text ends in three dots."""
    return text if len(text) <= most else text[: most - 3] + "..."
