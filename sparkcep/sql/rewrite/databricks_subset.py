"""Decides which clauses the native MATCH_RECOGNIZE of Databricks Runtime 19 (Beta) runs with the meaning that they have here.

The rewriter uses it for ``sparkcep.native``. The source is the Databricks SQL language manual: "MATCH_RECOGNIZE clause", its
PATTERN, MEASURES and DEFINE clauses, and the functions first, last, prev, next, classifier and match_number for MATCH_RECOGNIZE.
Anything it forbids is outside the subset. So is anything it leaves open: which operand of an alternation is preferred, which row of
B a bare ``B.price`` reads, whether aggregates under ALL ROWS PER MATCH are running.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkcep.clause import nodes
from sparkcep.clause.expressions import Expr
from sparkcep.clause.tree import ONE_ROW, PAST_LAST, MatchClause
from sparkcep.plan.facts import nullable, tree_of
from sparkcep.plan.scope import AGGREGATES, MATCH_FUNCTIONS, NAVIGATIONS, RANDOM

_AGGREGATES = frozenset(["COUNT", "SUM", "AVG", "MIN", "MAX"])
_NODES = {
    nodes.Alternate: "its documentation does not say which operand of | is preferred",
    nodes.Permute: "its documentation does not say which order of PERMUTE is preferred",
    nodes.Exclude: "it does not support an exclusion {- -}",
    nodes.Conjunct: "it does not support a conjunction &",
    nodes.Not: "it does not support a negation ~",
    nodes.Within: "it does not support WITHIN",
    nodes.Empty: "it does not support empty matches",
    nodes.Start: "it takes ^ at the start of the whole pattern only",
    nodes.End: "it takes $ at the end of the whole pattern only",
}


class _Outside(Exception):
    """A clause is outside the subset; the message says why."""


def outside(clause: MatchClause) -> str | None:
    """Says why ``clause`` is not entirely inside the subset, as half a sentence about the native clause.

    Returns None if it is inside.
    """
    try:
        _check_options(clause)
        _check_pattern(clause.pattern)
        variables = frozenset(n.name.lower() for n in nodes.walk(clause.pattern) if isinstance(n, nodes.Var))
        for item in clause.defines:
            _Define(clause.text, variables, item.variable.lower()).check(item.condition)
        keys = frozenset(str(key.value[0]).lower() for key in clause.partition_by)
        for measure in clause.measures:
            _Measures(clause.text, variables, keys).check(measure.expr)
    except _Outside as reason:
        return str(reason)
    return None


def _check_options(clause: MatchClause) -> None:
    all_rows = "under ALL ROWS PER MATCH its documentation leaves open the columns' order and whether aggregates are running"
    for outside, why in (
        (clause.automaton, "it does not support AUTOMATON"),
        (clause.selection, "it does not support EVENT SELECTION"),
        (clause.window, "it does not support WINDOW"),
        (clause.approx, "it does not support APPROX"),
        (clause.pref, "it does not support PREF"),
        (clause.top, "it does not support TOP"),
        (clause.subsets, "it does not support SUBSET"),
        (clause.skip is not None and clause.skip.mode != PAST_LAST, "its only AFTER MATCH SKIP is PAST LAST ROW"),
        (clause.rows != ONE_ROW, all_rows),
        (not clause.defines, "it needs DEFINE"),
        (not clause.measures, "without MEASURES its output is not documented"),
        (not all(map(_is_plain, clause.partition_by)), "its PARTITION BY takes plain columns only"),
        (not all(_is_plain(item.expr) for item in clause.order_by), "its documentation shows plain columns in ORDER BY only"),
    ):
        if outside:
            raise _Outside(why)


def _check_pattern(pattern: nodes.Node) -> None:
    items = list(pattern.items) if isinstance(pattern, nodes.Concat) else [pattern]
    if items and isinstance(items[0], nodes.Start):
        items.pop(0)
    if items and isinstance(items[-1], nodes.End):
        items.pop()
    for node in (below for item in items for below in nodes.walk(item)):
        if type(node) in _NODES:
            raise _Outside(_NODES[type(node)])
        if isinstance(node, nodes.Repeat) and not node.greedy:
            raise _Outside("it does not support reluctant quantifiers")
    if all(nullable(tree_of(item)[1]) for item in items):
        raise _Outside("it does not support empty matches, and the pattern may match the empty sequence")


def _is_plain(expr: Expr) -> bool:
    return expr.op == "col" and len(expr.value) == 1


@dataclass
class _Expressions:
    """The common part of DEFINE and MEASURES.

    ``variables`` are PATTERN's, in lower case. ``column`` checks a column outside navigations and aggregates, and ``call`` a
    function of the clause.
    """

    text: str
    variables: frozenset[str]

    def check(self, expr: Expr) -> None:
        """Raises _Outside if an expression is outside the subset."""
        if expr.op == "subquery":
            raise _Outside("it takes no subqueries inside the clause")
        if expr.op == "star":
            raise _Outside(f"its documentation shows no {self.shown(expr)} but in count(*)")
        if expr.op == "col":
            self.column(expr)
            return
        if expr.op == "call" and expr.value in MATCH_FUNCTIONS:
            if expr.flags & {"running", "final"}:
                raise _Outside("it does not support RUNNING and FINAL")
            self.call(expr)
            return
        for item in expr.args:
            self.check(item)

    def variable(self, column: Expr) -> str:
        """Returns the variable that qualifies ``column``, in lower case, or ""."""
        first = str(column.value[0]).lower()
        return first if len(column.value) > 1 and first in self.variables else ""

    def navigated(self, expr: Expr) -> Expr:
        """Returns the column of a navigation. Its offset, if any, must be a literal."""
        column, *offset = expr.args
        if column.op != "col":
            raise _Outside(f"its {expr.value} takes a column, not an expression such as {self.shown(column)}")
        if any(not (o.op == "lit" and str(o.value).isdigit()) for o in offset):
            raise _Outside(f"its {expr.value} takes a literal offset")
        if expr.value in ("FIRST", "LAST") and offset and str(offset[0].value).strip("0"):
            raise _Outside(f"its documentation lets {expr.value} with an offset leave the match")
        return column

    def shown(self, expr: Expr) -> str:
        return " ".join(expr.span.of(self.text).split())[:40]


@dataclass
class _Define(_Expressions):
    """Checks a condition of DEFINE for the variable ``own``."""

    own: str

    def check(self, expr: Expr) -> None:
        if expr.op == "call" and expr.value in RANDOM:
            raise _Outside(f"its DEFINE takes no function that is not deterministic, such as {expr.value}")
        super().check(expr)

    def column(self, expr: Expr) -> None:
        if self.variable(expr) not in ("", self.own):
            raise _Outside(f"its documentation does not say which row {self.shown(expr)} reads; LAST({self.shown(expr)}) would be inside")

    def call(self, expr: Expr) -> None:
        if expr.value not in NAVIGATIONS:
            raise _Outside(f"its DEFINE does not take {expr.value}, or its documentation leaves the meaning open")
        of = self.variable(self.navigated(expr))
        if expr.value in ("FIRST", "LAST") and of == self.own:
            raise _Outside(f"its documentation leaves open whether {self.shown(expr)} counts the row being tested")
        if expr.value in ("PREV", "NEXT") and of not in ("", self.own):
            raise _Outside(f"its documentation does not say where {self.shown(expr)} starts")


@dataclass
class _Measures(_Expressions):
    """Checks a measure under ONE ROW PER MATCH. ``keys`` are the partition's columns, in lower case."""

    keys: frozenset[str]

    def column(self, expr: Expr) -> None:
        if not (len(expr.value) == 1 and expr.value[0].lower() in self.keys):
            shown = self.shown(expr)
            open_ = f"its documentation does not say which row {shown} reads under ONE ROW PER MATCH"
            raise _Outside(f"{open_}; LAST({shown}) would be inside")

    def call(self, expr: Expr) -> None:
        if expr.value == "MATCH_NUMBER":
            return
        if expr.value in ("FIRST", "LAST"):
            self.navigated(expr)
        elif expr.value in _AGGREGATES:
            self.aggregate(expr)
        elif expr.value in AGGREGATES:
            raise _Outside(f"it supports only the aggregates {', '.join(sorted(_AGGREGATES))}")
        else:
            raise _Outside(f"it does not take {expr.value} in MEASURES, or its documentation leaves the meaning open")

    def aggregate(self, expr: Expr) -> None:
        if expr.flags:
            raise _Outside("it takes no DISTINCT, FILTER or ORDER BY in aggregates")
        if len(expr.args) != 1:
            raise _Outside(f"its {expr.value} takes one argument")
        if expr.value == "COUNT" and expr.args[0].op == "star" and not expr.args[0].value:
            return
        below = list(expr.args[0].walk())
        for node in below:
            if node.op in ("star", "subquery"):
                self.check(node)
        if len({self.variable(node) for node in below if node.op == "col"}) > 1:
            raise _Outside("it takes one row pattern variable in an aggregate")
