"""Splits MEASURES: the engine returns leaves, Spark computes the expression around them.

Leaves are tuples:

===================================================  =======================================================
``("nav", F|L, mask, n, k, column, final)``          value at FIRST/LAST (offset n) of the mask's rows, k rows away
``("cls", F|L, mask, n, k, final)``                  CLASSIFIER there
``("mno",)``                                         MATCH_NUMBER()
``("agg", fn, mask, column, filter, final)``         count, sum, avg, min, max or list; column ``cls`` is CLASSIFIER
``("rows", mask, (column, ...), final)``             the rows as an array of structs, for any other aggregate
===================================================  =======================================================
"""

from __future__ import annotations

from sparkcep.pattern.conditions import _filter_text, aggregate_parts
from sparkcep.pattern.scope import AGGREGATES, ALL_ROWS, NAVIGATIONS, Inputs, Row, Scope
from sparkcep.sql.expression import Expr, render
from sparkcep.sql.lexer import Span

CLASSIFIER_COLUMN = "cls"

_NATIVE = {
    "COUNT": "count", "COUNT_IF": "count", "SUM": "sum", "AVG": "avg", "MEAN": "avg", "MIN": "min", "MAX": "max",
    "ARRAY_AGG": "list", "COLLECT_LIST": "list",
}


class MeasureSplitter:
    """Collects the leaves of one clause's measures. With ``one_row`` every leaf is FINAL."""

    def __init__(self, scope: Scope, inputs: Inputs, *, one_row: bool) -> None:
        self.scope = scope
        self.inputs = inputs
        self.one_row = one_row
        self._leaves: dict[tuple, str] = {}

    def leaves(self) -> tuple[tuple[str, tuple], ...]:
        return tuple((name, spec) for spec, name in self._leaves.items())

    def ensure_leaf(self) -> None:
        """Makes the engine return a column even where no measure needs one."""
        if not self._leaves:
            self._leaf(("mno",))

    def split(self, expr: Expr) -> str:
        """SQL text of the measure over leaf columns."""
        scope = self.scope
        scope.check_semantics(expr)
        swaps: dict[Span, str] = {}
        for call in scope.match_functions(expr):
            scope.check_planned(call)
            swaps[call.span] = self._call(call)
        for node in scope.columns(expr):
            if any(s.start <= node.span.start and node.span.end <= s.end for s in swaps):
                continue
            if node.op == "star":
                raise scope.error(node, "AGGREGATE", "* can only stand in count(*)")
            mask = scope.qualifier(node)
            row = Row("L", ALL_ROWS if mask is None else mask)
            swaps[node.span] = self._value(row, scope.row_text(node))
        return render(scope.text, expr, swaps)

    def _leaf(self, spec: tuple) -> str:
        return self._leaves.setdefault(spec, f"__l{len(self._leaves)}")

    def _value(self, row: Row, text: str) -> str:
        column = self.inputs.column(text)
        return self._leaf(("nav", row.which, row.mask, row.logical, row.physical, column, row.final or self.one_row))

    def _classifier(self, row: Row) -> str:
        return self._leaf(("cls", row.which, row.mask, row.logical, row.physical, row.final or self.one_row))

    def _call(self, call: Expr) -> str:
        scope, name = self.scope, call.value
        if name == "MATCH_NUMBER":
            if call.args:
                raise scope.error(call, "MATCH_NUMBER", "MATCH_NUMBER takes no argument")
            return self._leaf(("mno",))
        if name == "CLASSIFIER":
            if call.flags & {"final", "running"}:
                raise scope.error(call, "SEMANTICS", "RUNNING and FINAL stand before FIRST, LAST and aggregates; write FINAL LAST(CLASSIFIER())")
            return self._classifier(Row("L", scope.classifier_mask(call)))
        if name in NAVIGATIONS:
            return self._navigation(call)
        return self._aggregate(call)

    def _navigation(self, call: Expr) -> str:
        scope = self.scope
        row, body = scope.navigation(call, in_define=False)
        labels = list(scope.match_functions(body))
        if not labels:
            return self._value(row, scope.row_text(body))
        swaps = {label.span: self._classifier(row) for label in labels}
        if body.bare() in labels:
            return swaps[body.bare().span]
        for node in scope.columns(body):
            if not any(s.start <= node.span.start and node.span.end <= s.end for s in swaps):
                swaps[node.span] = self._value(row, scope.row_text(node))
        return "(" + render(scope.text, body, swaps) + ")"

    def _aggregate(self, call: Expr) -> str:
        scope = self.scope
        final = "final" in call.flags or self.one_row
        mask, argument, keep = aggregate_parts(scope, call)
        plain_args = len(call.args) - ("filter" in call.flags)
        if call.value in _NATIVE and plain_args == 1 and not call.flags & {"distinct", "ordered", "named"}:
            column = filter_column = None
            if argument is not None and call.value == "COUNT_IF":
                filter_column = self.inputs.column(_filter_text(scope.row_text(argument), keep, scope))
            else:
                if argument is not None:
                    column = self._argument(argument)
                if keep is not None:
                    filter_column = self.inputs.column(_filter_text(None, keep, scope))
            return self._leaf(("agg", _NATIVE[call.value], mask, column, filter_column, final))
        return self._by_spark(call, mask, final)

    def _argument(self, argument: Expr) -> str:
        inner = argument.bare()
        if inner.op == "call" and inner.value == "CLASSIFIER":
            self.scope.classifier_mask(inner)
            return CLASSIFIER_COLUMN
        for below in self.scope.match_functions(argument):
            raise self.scope.error(
                below, "CLASSIFIER", "inside an aggregate, CLASSIFIER() stands alone: array_agg(CLASSIFIER(A))"
            )
        return self.inputs.column(self.scope.row_text(argument))

    def _by_spark(self, call: Expr, mask: int, final: bool) -> str:
        """Any other aggregate: the engine gathers its rows, Spark aggregates them in a scalar subquery."""
        fields: list[str] = []
        swaps: dict[Span, str] = {}
        for arg in call.args:
            if not any(True for _ in self.scope.columns(arg)) and not any(True for _ in self.scope.match_functions(arg)):
                continue  # constants, such as a percentage, must stay literal
            column = self._argument(arg)
            if column not in fields:
                fields.append(column)
            swaps[arg.span] = f"e.r.a{fields.index(column)}"
        leaf = self._leaf(("rows", mask, tuple(fields), final))
        text = render(self.scope.text, call, swaps)
        if call.flags & {"running", "final"}:
            text = text[len("final") if "final" in call.flags else len("running") :].lstrip()
        return f"(SELECT {text} FROM explode({leaf}) AS e(r))"


__all__ = ["AGGREGATES", "CLASSIFIER_COLUMN", "MeasureSplitter"]
