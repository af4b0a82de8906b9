"""Parses a cell: the line of its magic (``name <<``, options, SQL), and the parameters of its statements.

``notebook/magic`` uses it. It also has the errors that a cell shows, without a Python traceback.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from sparkcep.clause.tokens import NUMBER, OP, QUOTED, STRING, WORD, tokenize

_FLAGS = ("plot", "pandas", "explain", "once")
_VALUES = ("limit", "into", "x", "y", "variable", "match", "read", "seconds", "expect", "which")
_SHOWN, _DRAWN = 50, 1000  # the rows of a table, and of a stream's picture
_NAME = re.compile(r"\s*(\w+)\s*<<\s*")
_OPTION = re.compile(r"\s*--([A-Za-z][\w-]*)(?:=|(?=\s|$))")
_QUOTED = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)')""")
_VALUE = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|`([^`]*)`|(\S+))""")


class CellError(Exception):
    """A cell cannot be run, or failed. IPython shows only the message."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


class Interrupted(KeyboardInterrupt):
    """The cell was interrupted, and its Spark job was cancelled."""

    def _render_traceback_(self) -> list[str]:
        return ["interrupted: the Spark job was cancelled"]


@dataclass(frozen=True)
class Options:
    """The options of a cell.

    Attributes:
        sql: the statements.
        into: the variable that takes the result.
        limit: the number of rows that are shown.
        plot: whether the result is drawn.
        pandas: whether the result becomes a pandas DataFrame.
        explain: whether the statements are explained instead of run.
        x: the picture's column for the horizontal axis; None to choose one.
        y: the picture's column for the vertical axis; None to choose one.
        variable: the picture's column of variables; None for ``variable``.
        match: the picture's column of match numbers, None for ``match``; with ``why``, the number of a match.
        read: the engine whose SQL the statements are; None for Spark.
        once: whether the query of a stream reads the available rows and ends.
        seconds: the time limit of the query of a stream; None lets it run until the cell is interrupted.
        why: whether the last statement is explained by its rows instead of run.
        at: the rows that ``why`` is about, as a SQL condition; None without one.
        expect: the variable that ``why`` is about; None without one.
        which: the clause that ``why`` is about; None for the only one.
    """

    sql: str
    into: str | None = None
    limit: int | None = None
    plot: bool = False
    pandas: bool = False
    explain: bool = False
    x: str | None = None
    y: str | None = None
    variable: str | None = None
    match: str | int | None = None
    read: str | None = None
    once: bool = False
    seconds: int | None = None
    why: bool = False
    at: str | None = None
    expect: str | None = None
    which: str | None = None

    @property
    def rows(self) -> int:
        """The number of rows that are shown, or kept of a stream."""
        return self.limit or (_DRAWN if self.plot else _SHOWN)


def parse(line: str, cell: str | None) -> Options:
    """Parses the options of a magic's first line and the SQL after them. Raises CellError."""
    found: dict[str, object] = {}
    rest = line
    while True:
        name, option = _NAME.match(rest), _OPTION.match(rest)
        if name and "into" not in found:
            found["into"], rest = name[1], rest[name.end() :]
        elif option:
            key, rest = option[1].lower(), rest[option.end() :]
            if key in _FLAGS:
                found[key] = True
            elif key == "why":
                found[key], at = True, _QUOTED.match(rest)
                if at is not None:
                    found["at"], rest = at[at.lastindex], rest[at.end() :]
            elif key in _VALUES:
                value = _VALUE.match(rest)
                if value is None:
                    raise CellError(f"--{key} needs a value")
                found[key], rest = value[value.lastindex], rest[value.end() :]
            else:
                known = ", ".join(f"--{f.name}" for f in fields(Options) if f.name not in ("sql", "at"))
                raise CellError(f"unknown option --{option[1]}; the options are {known}. A comment needs a space after --")
        else:
            break
    options = replace(Options("\n".join(part for part in (rest.strip(), cell) if part)), **found)
    return _checked(options)


def _checked(options: Options) -> Options:
    if not options.sql.strip():
        raise CellError("the SQL is missing: write it below %%sql, or after %sql on the same line")
    limit, seconds = _number(options.limit, "--limit takes a number of rows"), _number(options.seconds, "--seconds takes a number of seconds")
    if options.into is not None and not options.into.isidentifier():
        raise CellError(f"--into takes a Python name, not {options.into}")
    if options.plot and (options.pandas or options.into):
        raise CellError("--plot draws the result, and cannot be combined with --pandas or a variable. Use two cells")
    if options.why:
        return replace(options, limit=limit, seconds=seconds, match=_asked(options))
    if options.expect is not None or options.which is not None:
        raise CellError("--expect and --which belong to --why")
    if any((options.x, options.y, options.variable, options.match)) and not options.plot:
        raise CellError("--x, --y, --variable and --match belong to --plot")
    if options.once and seconds is not None:
        raise CellError("--once ends a query when it has read the available rows, --seconds after a time. Write one of them")
    if (options.once or seconds is not None) and (options.into or options.explain):
        raise CellError("--once and --seconds need a query that runs, but with --explain or a variable the query does not run")
    return replace(options, limit=limit, seconds=seconds)


def _asked(options: Options) -> int | None:
    """The number of the match that --why is about. Raises CellError for options that do not go with --why."""
    others = [f"--{name}" for name in ("plot", "pandas", "explain", "once", "seconds", "limit", "x", "y", "variable") if getattr(options, name)]
    if others:
        raise CellError(f"--why explains the rows of a statement, and does not go with {' and '.join(others)}. Use two cells")
    return _number(options.match, "--match takes the number of a match")


def _number(given: object, what: str) -> int | None:
    if given is None:
        return None
    if not str(given).isdigit() or int(str(given)) == 0:
        raise CellError(f"{what} above 0, not {given}")
    return int(str(given))


def parameters(statement: str) -> list[str]:
    """Returns the names in the ``:name`` markers of ``statement``, without duplicates.

    A colon directly after other text is not a marker: ``x::int``, ``a:b`` in a path, ``STRUCT<a: INT>``, ``label: LOOP``.
    """
    tokens, found = tokenize(statement), []
    for i, (colon, word) in enumerate(zip(tokens, tokens[1:])):
        before = tokens[i - 1] if i else None
        touching = before is not None and before.end == colon.start
        part = touching and (before.kind in (WORD, QUOTED, STRING, NUMBER) or before.text in (":", ")", "]", ">"))
        if colon.kind == OP and colon.text == ":" and word.kind == WORD and word.start == colon.end and not part:
            found.append(word.text)
    return list(dict.fromkeys(found))


def bound(statement: str, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of those markers of ``statement`` that are variables in ``namespace``.

    Spark binds them, and they are never pasted into the text. Spark reports the other markers.
    """
    return {name: namespace[name] for name in parameters(statement) if name in namespace}
