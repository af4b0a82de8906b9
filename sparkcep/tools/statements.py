"""Finds clauses, statements and comments in a SQL text. Text outside the clauses is only tokenised.

Lint and formatter use it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sparkcep.clause.opaque_text import LINE_COMMENT, comment_end
from sparkcep.clause.parser import parse_between
from sparkcep.clause.tokens import WORD, Span, Token, matching
from sparkcep.clause.tree import MatchClause
from sparkcep.errors import ClauseError, position
from sparkcep.sql.rewrite.occurrences import KEYWORD, Statement

_COMMENT = re.compile(rf"{LINE_COMMENT}|/\*")


@dataclass(frozen=True)
class Place:
    """The position of one clause: the word MATCH_RECOGNIZE, and the offsets after ``(`` and before ``)``."""

    word: Span
    start: int
    end: int
    clause: MatchClause


def clauses(text: str, left_out: Callable[[int, int], bool] = lambda start, end: False) -> list[Place]:
    """Returns every ``<table> MATCH_RECOGNIZE (...)`` of ``text``, in order. Raises ClauseError.

    ``left_out``: whether the clause between two offsets is skipped, unread.
    """
    statements = Statement(text)
    tokens, found = statements.tokens, []
    for _, word, close in statements.clauses():
        if left_out(tokens[word].start, tokens[close].end):
            continue
        clause = parse_between(text, tokens, word + 1, close)
        found.append(Place(Span(tokens[word].start, tokens[word].end), tokens[word + 1].end, tokens[close].start, clause))
    return found


def in_text(error: ClauseError, text: str, start: int) -> ClauseError:
    """Returns an error of a statement that begins at offset ``start`` of ``text`` with its position in ``text``."""
    line, column = position(text, start)
    return error.moved(error.line + line - 1, error.column + (column - 1 if error.line == 1 else 0))


def open_clause(tokens: list[Token]) -> int | None:
    """Returns the index of the last MATCH_RECOGNIZE whose parenthesis is still open at the end of the tokens."""
    closed = matching(tokens)
    for i in range(len(tokens) - 2, -1, -1):
        if tokens[i].kind == WORD and tokens[i].upper == KEYWORD and tokens[i + 1].text == "(" and i + 1 not in closed:
            return i
    return None


def comments(text: str, start: int, end: int) -> Iterator[Span]:
    """Yields the comments of ``text[start:end]``, which contains no tokens."""
    at = start
    while found := _COMMENT.search(text, at, end):
        at = found.end() if found[0] != "/*" else comment_end(text, found.start())
        yield Span(found.start(), at)
