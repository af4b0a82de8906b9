"""Random texts of Spark SQL expressions, and a text with all the brackets that a tree of them means."""

from __future__ import annotations

import random

from sparkcep.clause.expressions import Expr

_BINARY = "DIV % * / + - || << >> >>> & ^ |".split()
_COMPARE = "= == <> != < <= > >= <=> !> !<".split()
_NAMES = ["a", "b", "c", "x", "t.y", "s.p.q", "`odd name`", "first", "year", "r"]
_ATOMS = [
    *_NAMES, "0", "7", "12L", "3S", "1Y", "2.5", ".5", "1E2", "2.5BD", "1.5F", "2D", "'p'", '"q"', "r'\\w'", "'a' 'b'", "'it\\'s'", "X'1F'", "X '1F'",
    "NULL", "true", "DATE '2024-01-01'", "TIMESTAMP '2024-01-01 00:00:00'", "current_date", ":named",
    "INTERVAL 1 DAY", "INTERVAL '2' HOUR", "INTERVAL '1 day'", "INTERVAL '1 2' DAY TO HOUR", "INTERVAL 1 DAY 2 HOURS", "INTERVAL -3 MONTHS",
]
_TYPES = ["INT", "DECIMAL(10, 2)", "STRING", "ARRAY<INT>", "MAP<STRING, ARRAY<INT>>", "STRUCT<a: INT, b: ARRAY<INT>>", "INTERVAL DAY TO SECOND", "TIMESTAMP"]


class Texts:
    """Texts as a user may write them: few brackets, operators of all kinds side by side."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def expression(self, depth: int = 1) -> str:
        parts = [self._boolean(depth)]
        while self.rng.random() < 0.25:
            parts += [self.rng.choice(["AND", "OR"]), self._boolean(depth)]
        return self._joined(parts)

    def _boolean(self, depth: int) -> str:
        rng = self.rng
        text = self._value(depth)
        if rng.random() < 0.35:
            text = self._joined([text, *self._predicate(depth)])
        if rng.random() < 0.15:
            text = self._joined([rng.choice(["NOT", "!", "NOT NOT"]), text])
        return text

    def _predicate(self, depth: int) -> list[str]:
        rng, value = self.rng, self._value
        negated = rng.choice(["", "", "NOT"])
        kind = rng.randrange(8)
        if kind == 0:
            return [negated, "BETWEEN", value(depth - 1), "AND", value(depth - 1)]
        if kind == 1:
            return [negated, "IN", f"({', '.join(self.expression(depth - 1) for _ in range(rng.randrange(1, 4)))})"]
        if kind == 2:
            return [negated, "IN (SELECT z FROM u)"]
        if kind == 3:
            return [negated, rng.choice(["RLIKE", "REGEXP", "rlike"]), value(depth - 1)]
        if kind == 4:
            return [negated, rng.choice(["LIKE", "ILIKE"]), value(depth - 1), rng.choice(["", "", "ESCAPE '!'"])]
        if kind == 5:
            return [negated, rng.choice(["LIKE", "ILIKE"]), rng.choice(["ANY", "SOME", "ALL"]), f"({value(depth - 1)}, {value(depth - 1)})"]
        if kind == 6:
            return ["IS", rng.choice(["", "NOT"]), rng.choice(["NULL", "TRUE", "FALSE", "UNKNOWN"])]
        return ["IS", rng.choice(["", "NOT"]), "DISTINCT FROM", value(depth - 1)]

    def _value(self, depth: int) -> str:
        rng = self.rng
        parts = [self._operand(depth)]
        while rng.random() < 0.55 and len(parts) < 8:
            parts += [rng.choice(_BINARY if rng.random() < 0.75 else _COMPARE), self._operand(depth)]
        return self._joined(parts)

    def _operand(self, depth: int) -> str:
        rng = self.rng
        text = self._primary(depth)
        while rng.random() < 0.2:
            text += rng.choice(["::", " :: "]) + rng.choice(_TYPES) if rng.random() < 0.6 else rng.choice([f"[{self._value(0)}]", ".f", " COLLATE UTF8_LCASE"])
        while rng.random() < 0.2:
            text = rng.choice(["-", "- ", "+", "~"]) + text
        return text

    def _primary(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.75:
            return rng.choice(_ATOMS)
        inner, value = lambda: self.expression(depth - 1), lambda: self._value(depth - 1)
        return rng.choice(
            [
                lambda: f"({inner()})",
                lambda: f"f({inner()}, {inner()})",
                lambda: f"`f`({inner()})",
                lambda: f"PREV({inner()}, 2)",
                lambda: f"first({inner()})",
                lambda: f"sum(DISTINCT {inner()}) FILTER (WHERE {inner()})",
                lambda: "count(*)",
                lambda: f"cast({inner()} AS {rng.choice(_TYPES)})",
                lambda: f"TRY_CAST({inner()} AS {rng.choice(_TYPES)})",
                lambda: f"CASE WHEN {inner()} THEN {inner()} ELSE {inner()} END",
                lambda: f"CASE {inner()} WHEN {inner()} THEN {inner()} WHEN {inner()} THEN {inner()} END",
                lambda: f"transform({value()}, v -> {inner()})",
                lambda: f"aggregate({value()}, {value()}, (u, v) -> {inner()})",
                lambda: f"struct({inner()} AS p, {inner()})",
                lambda: f"named(k => {inner()}, l => {inner()})",
                lambda: f"({inner()}, {inner()})",
                lambda: f"extract(YEAR FROM {value()})",
                lambda: f"trim(BOTH {value()} FROM {value()})",
                lambda: f"substring({value()} FROM {value()} FOR {value()})",
                lambda: f"overlay({value()} PLACING {value()} FROM {value()})",
                lambda: f"position({value()} IN {value()})",
                lambda: f"dateadd(DAY, {value()}, {value()})",
                lambda: "(SELECT max(z) FROM u)",
                lambda: "EXISTS (SELECT 1)",
            ]
        )()

    def _joined(self, parts: list[str]) -> str:
        """The parts with blanks, comments or, between signs and others, nothing between them."""
        out = ""
        for part in filter(None, parts):
            words = out[-1:].isalnum() or out[-1:] in ("_", "`", "'", '"')
            apart = words and (part[0].isalnum() or part[0] in "_`'\"")
            if apart or self.rng.random() < 0.7:
                out += " " if self.rng.random() < 0.95 else self.rng.choice([" /* + ' */ ", " -- - it's\n", "\n", "/* /* a */ b */"])
            out += part
        return out


_LEAVES = ("lit", "col", "star", "interval", "subquery", "paren", "lambda")


def bracketed(text: str, node: Expr) -> str:
    """The text of ``node`` with brackets around every operation, so that no precedence is left to tell."""
    out, pos = [], node.span.start
    for below in sorted(node.args, key=lambda n: n.span.start):
        out += [text[pos : below.span.start], bracketed(text, below)]
        pos = below.span.end
    out.append(text[pos : node.span.end])
    inside = "".join(out)
    return inside if node.op in _LEAVES else f"({inside})"
