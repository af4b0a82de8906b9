"""Collects the comparisons of conditions, with the values that an answer shows: truths, sides, and parts of sides.

A value is a column that Spark computes, or a tree for the engine's machine. Clauses with a pattern
(:mod:`sparkcep.tracing.conditions.question`) and automata (:mod:`sparkcep.tracing.kinds.arcs`) use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sparkcep.clause.expressions import Expr, render
from sparkcep.clause.tokens import Span
from sparkcep.errors import ClauseError
from sparkcep.plan.constants import MARKER
from sparkcep.plan.records import Computed
from sparkcep.plan.scope import AGGREGATES, MATCH_FUNCTIONS, NAVIGATIONS


@dataclass(frozen=True)
class Value:
    """An expression whose value is read: the truth or a side of a comparison, or a part of a side.

    Attributes:
        expr: the expression.
        text: its text.
        column: the column that holds it, "" if the machine computes it.
        probe: the number of its probe, -1 if it is a column. Both are missing if the value cannot be computed on its own.
    """

    expr: Expr
    text: str
    column: str = ""
    probe: int = -1

    @property
    def is_known(self) -> bool:
        return bool(self.column) or self.probe >= 0


@dataclass(frozen=True)
class Comparison:
    """A comparison of a condition.

    Attributes:
        number: its number among the comparisons of the clause.
        variable: the variable whose condition it is part of.
        expr: the expression.
        text: its text, on one line.
        truth: number of the value that says whether it holds.
        sides: numbers of the values of its sides. Literals are left out.
        parts: numbers of the columns, navigations and aggregates in its sides.
    """

    number: int
    variable: int
    expr: Expr
    text: str
    truth: int
    sides: tuple[int, ...]
    parts: tuple[int, ...]

    def written(self, text: str, values: Mapping[Span, str]) -> tuple[str, list[str]]:
        """Its text with some values, and the texts of its sides, each on one line. ``text``: the text of the clause."""
        whole = " ".join(render(text, self.expr, values).split())
        return whole, [values.get(side.span, " ".join(side.span.of(text).split())) for side in sides_of(self.expr)]


class Collector:
    """The comparisons of conditions. Each condition is one of a variable or of an arc, which has a number."""

    def __init__(
        self, text: str, column_of: Callable[[Expr, int], str | None], tree_of: Callable[[Expr, int, bool], tuple],
        parts_of: Callable[[Expr], Iterable[Expr]] = lambda side: (),
    ) -> None:  # fmt: skip
        """
        Args:
            text: the text of the clause.
            column_of: the SQL text of an expression of a variable, None if Spark does not compute it.
            tree_of: the tree of an expression of a variable; whether the expression is a top-level conjunct.
            parts_of: the parts of a side whose values can make it NULL.
        """
        self._text, self._column_of, self._tree_of, self._parts_of = text, column_of, tree_of, parts_of
        self._values: list[Value] = []
        self._columns: dict[str, str] = {}
        self._probes: list[tuple[int, tuple]] = []
        self._comparisons: list[Comparison] = []
        self._known: dict[tuple[Span, int], int] = {}

    def comparison(self, expr: Expr, variable: int, conjunct: bool) -> int:
        """Adds a comparison and returns its number. ``conjunct``: whether it is a top-level conjunct of its condition."""
        number = len(self._comparisons)
        truth = self._value(expr, variable, conjunct=conjunct, needed=True)
        sides = [side for side in sides_of(expr) if not is_literal(side)]
        parts = [part for side in sides for part in self._parts_of(side)]
        self._comparisons.append(
            Comparison(
                number, variable, expr, self._values[truth].text, truth, tuple(self._value(side, variable) for side in sides),
                tuple(dict.fromkeys(self._value(part, variable) for part in parts)),
            )
        )
        return number

    def column(self, sql: str) -> str:
        """The name of the column with an SQL text."""
        return self._columns.setdefault(sql, f"__y{len(self._columns)}")

    def found(self) -> tuple[tuple[Comparison, ...], tuple[Value, ...], tuple[Computed, ...], tuple[tuple[int, tuple], ...]]:
        """The comparisons, the values, the columns, and the trees, each with its variable."""
        columns = tuple(Computed(name, text) for text, name in self._columns.items())
        return tuple(self._comparisons), tuple(self._values), columns, tuple(self._probes)

    def _value(self, expr: Expr, variable: int, *, conjunct: bool = False, needed: bool = False) -> int:
        """The number of a value. ``needed``: it must be computed, and an error is not caught."""
        if (expr.span, variable) not in self._known:
            self._known[expr.span, variable] = len(self._values)
            self._values.append(self._computed(expr, variable, conjunct, needed))
        return self._known[expr.span, variable]

    def _computed(self, expr: Expr, variable: int, conjunct: bool, needed: bool) -> Value:
        text = MARKER.sub("?", " ".join(expr.span.of(self._text).split()))
        sql = self._column_of(expr, variable)
        if sql is not None:
            return Value(expr, text, self.column(sql))
        try:
            tree = self._tree_of(expr, variable, conjunct)
        except ClauseError:
            if needed:
                raise
            return Value(expr, text)  # the engine computes it only as part of the comparison
        self._probes.append((variable, tree))
        return Value(expr, text, probe=len(self._probes) - 1)


def sides_of(expr: Expr) -> tuple[Expr, ...]:
    """The sides of a comparison: its operands, the arguments of a call, or a column itself."""
    expr = expr.bare()
    if expr.op in ("bin", "between", "like", "is"):
        return expr.args
    if expr.op == "in":
        return expr.args if expr.value is None else expr.args[:1]
    if expr.op == "call" and expr.value not in MATCH_FUNCTIONS and not expr.flags:
        return expr.args
    return (expr,)


def is_literal(expr: Expr) -> bool:
    """Whether an expression shows its own value, or is a lambda, which has none."""
    expr = expr.bare()
    if expr.op == "un" and expr.value in ("-", "+"):
        expr = expr.args[0].bare()
    return expr.op in ("interval", "lambda") or (expr.op == "lit" and not str(expr.value).startswith((":", "?")))


def parts_of(expr: Expr) -> Iterator[Expr]:
    """The columns, navigations and aggregates in a side. Each of them can make the side NULL."""
    expr = expr.bare()
    if expr.op == "col" or (expr.op == "call" and expr.value in NAVIGATIONS | AGGREGATES):
        yield expr
    elif expr.op not in ("lambda", "subquery") and not (expr.op == "call" and expr.value in MATCH_FUNCTIONS):
        for part in expr.args:
            yield from parts_of(part)
