"""Parser of the row pattern: recursive descent over the statement's tokens, every node with its span.

Precedence, loosest to tightest: alternation, conjunction, concatenation, negation, quantifier (LANGUAGE section 1).
"""

from __future__ import annotations

from sparkcep.clause.expression import Cursor, ExpressionParser
from sparkcep.clause.lexer import NUMBER, OP, QUOTED, WORD, Span, name_of
from sparkcep.clause.nodes import (
    Alternate,
    Concat,
    Conjunct,
    Empty,
    End,
    Exclude,
    Node,
    Not,
    Permute,
    Repeat,
    Start,
    Var,
    Within,
)
from sparkcep.errors import LIMIT, error_at

MAX_NESTING = 50
MAX_BOUND = 1_000_000


class PatternParser:
    """``parse()`` reads a pattern up to, not including, the parenthesis that closes it."""

    def __init__(self, cursor: Cursor) -> None:
        self.c = cursor
        self.nesting = 0

    def parse(self) -> Node:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.c.error(
                f"the row pattern is nested more than {MAX_NESTING} deep; flatten its groups", "PATTERN_TOO_DEEP", LIMIT
            )
        try:
            return self._joined("|", self._conjunction, Alternate)
        finally:
            self.nesting -= 1

    def _span(self, start: int) -> Span:
        return Span(start, self.c.tokens[self.c.i - 1].end)

    def _joined(self, op: str, lower, kind) -> Node:
        start = self.c.token.start
        items = [lower()]
        while self.c.token.kind == OP and self.c.token.text == op:
            self.c.next()
            items.append(lower())
        return items[0] if len(items) == 1 else kind(tuple(items), span=self._span(start))

    def _conjunction(self) -> Node:
        return self._joined("&", self._concatenation, Conjunct)

    def _concatenation(self) -> Node:
        start = self.c.token.start
        items = []
        while self._at_factor():
            items.append(self._factor())
        if not items:
            raise self.c.error("expected a row pattern variable or group; the empty pattern is written ()")
        return items[0] if len(items) == 1 else Concat(tuple(items), span=self._span(start))

    def _at_factor(self) -> bool:
        t = self.c.token
        if t.kind in (WORD, QUOTED):
            return True
        return t.kind == OP and (t.text in "(^$~" or self.c.at_op("{-"))

    def _factor(self) -> Node:
        c, start = self.c, self.c.token.start
        if c.token.kind == OP and c.token.text == "~":
            c.next()
            if c.token.kind == OP and c.token.text == "~":
                raise c.error("~~ means nothing; negate a variable once")
            return Not(self._factor(), span=self._span(start))
        return self._quantified()

    def _quantified(self) -> Node:
        start = self.c.token.start
        node = self._primary()
        bounds = self._quantifier()
        if bounds is None:
            return node
        low, high = bounds
        greedy = not (self.c.token.kind == OP and self.c.token.text == "?")
        if not greedy:
            self.c.next()
        if self.c.token.kind == OP and (self.c.token.text in "*+?" or self._at_bounds()):
            raise self.c.error("a quantifier cannot follow a quantifier; put the quantified pattern in parentheses")
        return Repeat(node, low, high, greedy, span=self._span(start))

    def _at_bounds(self) -> bool:
        return self.c.token.text == "{" and not self.c.at_op("{-")

    def _quantifier(self) -> tuple[int, int | None] | None:
        c = self.c
        if c.token.kind != OP:
            return None
        plain = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(c.token.text)
        if plain:
            c.next()
            return plain
        if c.at_op("{-") and c.peek(2).kind == NUMBER:
            raise error_at(
                c.text, c.token.start, c.peek(2).end, "QUANTIFIER", "a quantifier's bound cannot be negative; write {n}, {n,}, {,m} or {n,m}"
            )
        if not self._at_bounds():
            return None
        start = c.token.start
        c.next()
        low = self._bound()
        if c.take_op(","):
            high = self._bound()
        elif low is None:
            raise c.error("expected a number in the quantifier, as in {2}, {2,}, {,5}, {2,5} or {,}")
        else:
            high = low
        if not (c.token.kind == OP and c.token.text == "}"):
            raise c.error("expected '}' to close the quantifier")
        c.next()
        low = low or 0
        if high is not None and high < 1:
            raise error_at(c.text, start, c.tokens[c.i - 1].end, "QUANTIFIER", "the upper bound must be at least 1")
        if high is not None and high < low:
            raise error_at(
                c.text,
                start,
                c.tokens[c.i - 1].end,
                "QUANTIFIER",
                f"the upper bound {high} is below the lower bound {low}; write {{{high},{low}}}",
            )
        return low, high

    def _bound(self) -> int | None:
        c = self.c
        if c.token.kind != NUMBER:
            return None
        t = c.token
        if not t.text.isdigit():
            raise c.error("a quantifier's bound must be a whole number")
        c.next()
        if len(t.text) > 9 or int(t.text) > MAX_BOUND:
            raise error_at(
                c.text, t.start, t.end, "QUANTIFIER", f"a quantifier's bound must be at most {MAX_BOUND}", LIMIT
            )
        return int(t.text)

    def _primary(self) -> Node:
        c = self.c
        t, start = c.token, c.token.start
        if t.kind == WORD and t.upper == "PERMUTE" and c.peek().text == "(":
            c.i += 2
            items = [self.parse()]
            while c.take_op(","):
                items.append(self.parse())
            c.expect_op(")", "to close PERMUTE(")
            return Permute(tuple(items), span=self._span(start)) if len(items) > 1 else items[0]
        if t.kind in (WORD, QUOTED):
            c.next()
            return Var(name_of(t), span=self._span(start))
        if c.take_op("{-"):
            inner = self.parse()
            c.expect_op("-}", "to close the exclusion {-")
            return Exclude(inner, span=self._span(start))
        if t.kind == OP and t.text == "^":
            c.next()
            return Start(span=self._span(start))
        if t.kind == OP and t.text == "$":
            c.next()
            return End(span=self._span(start))
        if t.kind == OP and t.text == "(":
            c.next()
            if c.take_op(")"):
                return Empty(span=self._span(start))
            inner = self.parse()
            c.expect_op(")", "to close the group")
            if c.take_word("WITHIN"):
                return Within(inner, ExpressionParser(c).parse_operand(), span=self._span(start))
            return inner
        raise c.error("expected a row pattern variable or group")
