"""Preference analysis (CPR, 2011, section 3.2): is the score a sum over the match's rows, so that it can be ranked without enumerating matches?

It is where every objective is a sum of terms, each of which every match has: a number of one row (``A.v * 2`` where each match has exactly one A),
SUM over a variable that no match is without, or a count.
"""

from __future__ import annotations

from typing import NamedTuple

from sparkcep.pattern import nodes
from sparkcep.pattern.scope import ALL_ROWS, Inputs, Scope
from sparkcep.sql.clause import MatchClause
from sparkcep.sql.expression import Expr

MANY = 2  # of how often a variable occurs: more than once


class Term(NamedTuple):
    """What each row of the variables in ``mask`` adds: ``column`` (of ``count``: 1), with a ``sign``; ``kind``: ``row`` (a NULL makes the score NULL), ``sum``
    (a NULL adds nothing) or ``count``."""

    mask: int
    column: str
    sign: int
    kind: str


def additive_terms(clause: MatchClause, scope: Scope, inputs: Inputs) -> tuple[Term, ...]:
    """The terms of an additive preference; () for any other."""
    pref = clause.pref
    # quotients by other numbers than powers of two may be equal where sums differ
    if pref is not None and pref.combine == "AVG" and len(pref.objectives).bit_count() > 1:
        return ()
    if pref is None or pref.combine not in (None, "SUM", "AVG") or clause.approx or nodes.contains(clause.pattern, nodes.Conjunct):
        return ()
    reader = _Reader(scope, _occurrences(clause.pattern))
    found: list[tuple[int, Expr | None, int, str]] = []
    for goal, expr in pref.objectives:
        terms = reader.terms(expr, -1 if goal == "MIN" else 1)
        if terms is None:
            return ()
        found += terms
    return tuple(Term(mask, inputs.column(scope.row_text(expr)) if expr is not None else "", sign, kind) for mask, expr, sign, kind in found)


class _Reader:
    def __init__(self, scope: Scope, occurrences: dict[str, tuple[int, int]]) -> None:
        self.scope = scope
        self.bounds = [occurrences.get(name.lower(), (0, 0)) for name in scope.variables]

    def terms(self, expr: Expr, sign: int) -> list[tuple[int, Expr | None, int, str]] | None:
        """(variables, expression of one row, sign, kind) of each term; None where it is no sum of such."""
        node = expr.bare()
        own = self._of_one_row(node)
        if own is not None:
            return [(own, node, sign, "row")]
        if node.op == "un" and node.value in ("-", "+"):
            return self.terms(node.args[0], -sign if node.value == "-" else sign)
        if node.op == "bin" and node.value in ("+", "-"):
            left = self.terms(node.args[0], sign)
            right = self.terms(node.args[1], -sign if node.value == "-" else sign)
            return None if left is None or right is None else left + right
        if node.op == "call":
            return self._call(node, sign)
        return None

    def _call(self, node: Expr, sign: int) -> list[tuple[int, Expr | None, int, str]] | None:
        if len(node.args) != 1 or node.flags - {"final"}:
            return None
        body = node.args[0].bare()
        if node.value == "COUNT" and body.op == "star":
            return [(self._mask(body), None, sign, "count")]
        if any(True for _ in self.scope.match_functions(body)):
            return None
        masks = {self._mask(c) for c in self.scope.columns(body)}
        if len(masks) != 1 or body.op == "star":
            return None
        mask = masks.pop()
        if node.value == "SUM" and self._certain(mask):
            return [(mask, body, sign, "sum")]
        if node.value in ("FIRST", "LAST") and self._single(mask):
            return [(mask, body, sign, "row")]
        return None

    def _of_one_row(self, node: Expr) -> int | None:
        """The variable whose only row an expression is about."""
        if any(True for _ in self.scope.match_functions(node)):
            return None
        masks = {self._mask(c) for c in self.scope.columns(node)}
        return masks.pop() if len(masks) == 1 and self._single(min(masks)) else None

    def _mask(self, column: Expr) -> int:
        mask = self.scope.qualifier(column)
        return ALL_ROWS if mask is None else mask

    def _single(self, mask: int) -> bool:
        return mask.bit_count() == 1 and mask != ALL_ROWS and self.bounds[mask.bit_length() - 1] == (1, 1)

    def _certain(self, mask: int) -> bool:
        return mask == ALL_ROWS or any(low > 0 for v, (low, _) in enumerate(self.bounds) if mask >> v & 1)


def _occurrences(node: nodes.Node) -> dict[str, tuple[int, int]]:
    """How many rows each variable has in a match: (least, most), each up to MANY."""
    match node:
        case nodes.Var(name):
            return {name.lower(): (1, 1)}
        case nodes.Concat(items) | nodes.Permute(items):
            out: dict[str, tuple[int, int]] = {}
            for found in map(_occurrences, items):
                for name, (low, high) in found.items():
                    known = out.get(name, (0, 0))
                    out[name] = (min(MANY, known[0] + low), min(MANY, known[1] + high))
            return out
        case nodes.Alternate(items):
            parts = [_occurrences(i) for i in items]
            names = {name for part in parts for name in part}
            return {n: (min(p.get(n, (0, 0))[0] for p in parts), max(p.get(n, (0, 0))[1] for p in parts)) for n in names}
        case nodes.Repeat(item, low, high, _):
            most = MANY if high is None or high < 0 else high
            return {n: (min(MANY, low * a), min(MANY, most * b)) for n, (a, b) in _occurrences(item).items()}
        case nodes.Exclude(item) | nodes.Within(item, _):
            return _occurrences(item)
    return {}
