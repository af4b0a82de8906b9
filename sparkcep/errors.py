"""The errors of the clause. Each says what is wrong, where, and what would be right.

Every analysis error is a :class:`ClauseError`, raised before any Spark job starts (LANGUAGE section 8).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_SHOWN = 60  # characters of a text of the user's that a message quotes

SYNTAX = "42601"  # SQLSTATE: syntax error
SEMANTIC = "42K0E"  # SQLSTATE: an expression is not allowed in its context
UNSUPPORTED = "0A000"  # SQLSTATE: feature not supported
LIMIT = "54000"  # SQLSTATE: program limit exceeded
DATA = "22000"  # SQLSTATE: data exception
INTERNAL = "XX000"  # SQLSTATE: internal error


class ClauseError(Exception):
    """An error in a MATCH_RECOGNIZE clause, with an error class and SQLSTATE as Spark's have, and a position.

    ``line`` and ``column`` are 1-based and count from the start of the statement's text. Both are 0 when the error has no place in
    the text (a run-time error).
    """

    def __init__(
        self,
        error_class: str,
        message: str,
        *,
        sqlstate: str = SYNTAX,
        line: int = 0,
        column: int = 0,
        fragment: str = "",
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
        super().__init__(f"[{self.error_class}] {message}{where} SQLSTATE: {sqlstate}")


class MatchRuntimeError(ClauseError):
    """An error while matching that depends on the data, such as SKIP TO the first row of a match."""

    def __init__(self, error_class: str, message: str, *, sqlstate: str = DATA) -> None:
        super().__init__(error_class, message, sqlstate=sqlstate)

    def __reduce__(self):  # crosses the worker boundary
        return (_rebuild, (self.error_class.removeprefix("SPARKCEP."), self.message, self.sqlstate))


class TooManyStepsError(Exception):
    """A search took more steps than it may. ``args[0]`` is the number of its window."""


class TooMuchStateError(Exception):
    """The lists of a search need more bytes than they may."""


def _rebuild(error_class: str, message: str, sqlstate: str) -> MatchRuntimeError:
    return MatchRuntimeError(error_class, message, sqlstate=sqlstate)


def position(text: str, offset: int) -> tuple[int, int]:
    """The 1-based (line, column) of a character offset."""
    offset = max(0, min(offset, len(text)))
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return line, column


def error_at(
    text: str, start: int, end: int, error_class: str, message: str, sqlstate: str = SYNTAX
) -> ClauseError:
    """A :class:`ClauseError` for ``text[start:end]``. The fragment is cut to one line; the fragment and names in the message are
    cut to 60 characters."""
    line, column = position(text, start)
    fragment = text[start:end].split("\n", 1)[0]
    message = re.sub(rf"\S{{{_SHOWN + 1},}}", lambda name: shown(name[0]), message)
    return ClauseError(
        error_class, message, sqlstate=sqlstate, line=line, column=column, fragment=shown(fragment)
    )


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of the ``known`` names of which ``name`` may be a misspelling."""
    by_upper = {k.upper(): k for k in known}
    found = difflib.get_close_matches(name.upper(), list(by_upper), n=1, cutoff=0.6)
    return by_upper[found[0]] if found else None


def shown(text: str) -> str:
    """A text of the user's as messages quote it, at most 60 characters long."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
