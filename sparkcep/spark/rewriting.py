"""Rewrites one statement as Spark needs it: parameter markers keep their meaning, and errors show their place."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from sparkcep.clause.lexer import OP, WORD, tokenize
from sparkcep.errors import ClauseError
from sparkcep.settings import Settings

if TYPE_CHECKING:
    from sparkcep.sql.places import Places
    from sparkcep.sql.probe import Chooser
    from sparkcep.sql.rewrite import Months

MARKER_PREFIX = "sparkcep_marker_"
_KEPT = 64
_recent: dict[str, Places] = {}  # by statement
_MARKER = re.compile(rf":{MARKER_PREFIX}\d+")


def rewrite_statement(sql: str, *, settings: Settings, named_markers: bool, choose: Chooser | None = None) -> str:
    """``sql`` with its clauses rewritten, or the same object where there is none. See :func:`translated`."""
    places = translated(sql, settings=settings, named_markers=named_markers, choose=choose)
    return sql if places is None else places.rewritten


def translated(
    sql: str, *, settings: Settings, named_markers: bool, months: tuple[Months | None, ...] = (), choose: Chooser | None = None
) -> Places | None:
    """``sql`` with its clauses rewritten, as the places by which Spark's places are found in ``sql``; None where there is no
    clause.

    ``named_markers`` turns the n-th ``?`` of a rewritten statement into ``:sparkcep_marker_n`` (n from 1), because rewriting may
    move an expression or write it twice, and ``?`` is bound by its position. ``choose``: see ``rewrite_all``.
    """
    from sparkcep.sql.places import Places
    from sparkcep.sql.rewrite import rewrite_all

    marked = name_markers(sql) if named_markers else sql
    try:
        out, clauses = rewrite_all(marked, settings, months, choose)
    except ClauseError:
        if marked != sql:
            # once more as the user wrote it, for an error with the user's own positions
            rewrite_all(sql, settings)
        raise
    if out == marked:
        return None
    places = Places(marked, out, clauses) if marked == sql else Places(marked, out, clauses, sql, partial(unmarked, marked=marked))
    _recent.pop(sql, None)
    _recent[sql] = places
    if len(_recent) > _KEPT:
        _recent.pop(next(iter(_recent)), None)
    return places


def known(sql: str) -> Places | None:
    """The places of a statement that was rewritten lately. They serve errors that come while it runs."""
    return _recent.get(sql)


def rewritten_from(rewritten: str) -> Places | None:
    """The places of the statement that was lately rewritten to this text."""
    return next((places for places in reversed(_recent.values()) if places.rewritten == rewritten), None)


def name_markers(sql: str) -> str:
    """Writes the n-th ``?`` marker of ``sql`` as a named one. Inside PATTERN ``?`` is a quantifier and stays."""
    tokens = tokenize(sql)
    pieces, copied, count = [], 0, 0
    depth, clause_depths, pattern_depth = 0, [], None
    word_before = ""
    for token in tokens:
        if token.kind == OP and token.text == "(":
            depth += 1
            if word_before == "MATCH_RECOGNIZE":
                clause_depths.append(depth)
            elif word_before == "PATTERN" and clause_depths and depth == clause_depths[-1] + 1:
                pattern_depth = depth
        elif token.kind == OP and token.text == ")":
            if pattern_depth == depth:
                pattern_depth = None
            if clause_depths and clause_depths[-1] == depth:
                clause_depths.pop()
            depth -= 1
        elif token.kind == OP and token.text == "?" and pattern_depth is None:
            count += 1
            pieces += [sql[copied : token.start], f":{MARKER_PREFIX}{count}"]
            copied = token.end
        word_before = token.upper if token.kind == WORD else ""
    return "".join([*pieces, sql[copied:]])


def unmarked(offset: int, marked: str) -> int:
    """Turns an offset in ``name_markers(sql)`` into one in ``sql``."""
    return offset - sum(min(m.end(), offset) - m.start() - 1 for m in _MARKER.finditer(marked, 0, offset) if m.start() < offset - 1)


def excerpt(sql: str, error: ClauseError) -> str:
    """The offending line with a mark below the fragment, the way Spark shows it; empty without a place."""
    lines = sql.split("\n")
    if not 1 <= error.line <= len(lines):
        return ""
    line = lines[error.line - 1].rstrip("\r")
    # tabs kept, so that the mark stands below what it means
    indent = "".join("\t" if c == "\t" else " " for c in line[: error.column - 1])
    mark = "^" * max(1, min(len(error.fragment), len(line) - error.column + 1))
    return f"\n\n== SQL (line {error.line}, position {error.column}) ==\n{line}\n{indent}{mark}"
