"""Finds clauses, statements and comments in a text of SQL. It reads nothing outside the clauses any closer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sparkcep.clause.islands import LINE_COMMENT, comment_end
from sparkcep.clause.lexer import QUOTED, WORD, Span, Token, matching, tokenize
from sparkcep.clause.parser import parse_between
from sparkcep.clause.tree import MatchClause
from sparkcep.errors import error_at

# behind these words the name is that of a function or of a column
_NO_TABLE = frozenset(
    "SELECT FROM JOIN LATERAL WHERE AND OR NOT ON BY HAVING SET USING WHEN THEN ELSE CASE IN WITH DISTINCT ALL FUNCTION TABLE VIEW".split()
)
_COMMENT = re.compile(rf"{LINE_COMMENT}|/\*")


@dataclass(frozen=True)
class Place:
    """The place of one clause: the word MATCH_RECOGNIZE, and the offsets behind ``(`` and before ``)``."""

    word: Span
    start: int
    end: int
    clause: MatchClause


def clauses(text: str) -> list[Place]:
    """Every ``<table> MATCH_RECOGNIZE (...)`` of ``text``, in its order. Raises ClauseError."""
    tokens = tokenize(text)
    closing = matching(tokens)
    found: list[Place] = []
    for i, token in enumerate(tokens):
        if token.upper != "MATCH_RECOGNIZE" or token.kind != WORD or tokens[i + 1].text != "(" or not _behind_a_table(tokens, i):
            continue
        if found and token.start < found[-1].end:
            continue  # inside another one: an expression, and Spark's or the rewriter's to judge
        close = closing.get(i + 1)
        if close is None:
            raise error_at(text, tokens[i + 1].start, tokens[i + 1].end, "SYNTAX", "this parenthesis of MATCH_RECOGNIZE is not closed")
        clause = parse_between(text, tokens, i + 1, close)
        found.append(Place(Span(token.start, token.end), tokens[i + 1].end, tokens[close].start, clause))
    return found


def _behind_a_table(tokens: list[Token], i: int) -> bool:
    if i == 0:
        return False
    before = tokens[i - 1]
    if before.kind == WORD:
        return before.upper not in _NO_TABLE
    return before.kind == QUOTED or before.text in (")", "}")


def comments(text: str, start: int, end: int) -> Iterator[Span]:
    """The comments of ``text[start:end]``, which holds no tokens."""
    at = start
    while found := _COMMENT.search(text, at, end):
        at = found.end() if found[0] != "/*" else comment_end(text, found.start())
        yield Span(found.start(), at)
