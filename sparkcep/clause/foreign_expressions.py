"""Expressions of another engine's SQL: finds only where each one ends. ``dialect/transpile`` translates their meaning."""

from __future__ import annotations

from sparkcep.clause.expressions import EXPRESSION, Cursor, Expr
from sparkcep.clause.tokens import END, OP, WORD
from sparkcep.errors import error_at

# words that end an expression of the clause
_BEHIND = (
    ("AS",), ("ASC",), ("DESC",), ("NULLS", "FIRST"), ("NULLS", "LAST"), ("ORDER", "BY"), ("MEASURES",), ("ONE", "ROW"), ("ALL", "ROWS"), ("AFTER", "MATCH"), ("SUBSET",), ("DEFINE",),
)  # fmt: skip
_OPENING, _CLOSING = "([{", ")]}"


class Slices:
    """Replaces :class:`ExpressionParser`: each expression is one node without parts."""

    def __init__(self, cursor: Cursor) -> None:
        self.c = cursor

    def parse(self) -> Expr:
        c, start, depth = self.c, self.c.token, 0
        while c.token.kind != END:
            t = c.token
            if t.kind == OP and t.text in _CLOSING:
                depth -= 1
            if depth < 0 or (depth == 0 and (c.at_op(",") or self._ends())):
                break
            if t.kind == OP and t.text in _OPENING:
                depth += 1
            c.next()
        if depth > 0:
            raise error_at(c.text, start.start, start.end, "SYNTAX", "a bracket of this expression is not closed")
        if c.token is start:
            raise c.expected(EXPRESSION)
        return Expr("slice", span=c.span(start.start))

    parse_operand = parse

    def _ends(self) -> bool:
        c = self.c
        if c.token.kind != WORD:
            return False
        pattern = c.at_word("PATTERN") and c.peek().text == "("
        within = c.at_word("WITHIN") and not c.at_word("WITHIN", "GROUP")
        return pattern or within or any(c.at_word(*words) for words in _BEHIND)
