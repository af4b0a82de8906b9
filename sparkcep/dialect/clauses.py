"""Converts a clause to a sqlglot node and back.

The dialect ``sparkcep`` and ``transpile`` use it. The node is sqlglot's own MatchRecognize, with its ``partition_by``, ``order``,
``measures``, ``rows`` and ``define``. Every other part of the clause is a node whose ``this`` is the class's name. Its name and
members are those in :mod:`sparkcep.clause.tree`, :mod:`~sparkcep.clause.nodes` and :mod:`~sparkcep.clause.automaton`. sqlglot's
generators of other dialects do not know such a node and raise ValueError, so no part is lost silently.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from sparkcep.clause import automaton, nodes, tree
from sparkcep.clause.expressions import Expr
from sparkcep.clause.printer import ROWS_TEXT, to_sql
from sparkcep.dialect.expressions import Reader, text_of

_CLASSES = {
    kind.__name__: kind
    for module in (tree, nodes, automaton)
    for kind in vars(module).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__
}
_PAIR = "Pair"
# Members with another form in sqlglot's node, and members that represent positions.
_OWN = ("partition_by", "order_by", "measures", "rows", "defines")
_ROWS = {text: rows for rows, text in ROWS_TEXT.items()}


def node_of(clause: tree.MatchClause, read: Callable[[Expr], exp.Expr] | None = None) -> exp.MatchRecognize:
    """Returns the node of a clause. ``read`` makes the trees of its expressions."""
    read = read or Reader(clause.text).tree

    def alias(expr: Expr, name: str) -> exp.Alias:
        return exp.Alias(this=read(expr), alias=exp.to_identifier(name, quoted=not name.isidentifier() or None))

    order = [exp.Ordered(this=read(item.expr), desc=item.descending, nulls_first=item.nulls_first) for item in clause.order_by]
    return exp.MatchRecognize(
        partition_by=[read(key) for key in clause.partition_by],
        order=exp.Order(expressions=order) if order else None,
        measures=[alias(measure.expr, measure.name) for measure in clause.measures],
        rows=exp.var(ROWS_TEXT[clause.rows]),
        define=[alias(define.condition, define.variable) for define in clause.defines],
        **{name: value for name, value in _members(clause, read).items() if name not in _OWN},
    )


def clause_of(node: exp.MatchRecognize) -> tree.MatchClause:
    """Returns the clause of a node, with sqlglot trees as its expressions."""
    order = node.args.get("order")
    return tree.MatchClause(
        partition_by=tuple(node.args.get("partition_by") or ()),
        order_by=tuple(tree.SortItem(item.this, bool(item.args.get("desc")), item.args.get("nulls_first")) for item in (order.expressions if order else ())),
        measures=tuple(tree.Measure(item.this, item.alias) for item in node.args.get("measures") or ()),
        rows=_ROWS[node.args["rows"].name] if node.args.get("rows") else tree.ONE_ROW,
        defines=tuple(tree.Define(item.alias, item.this) for item in node.args.get("define") or ()),
        **{name: _value(value) for name, value in node.args.items() if name in _names(tree.MatchClause) and name not in _OWN and value is not None},
    )


def clause_text(node: exp.MatchRecognize) -> str:
    """Returns the text between the parentheses of MATCH_RECOGNIZE."""
    return to_sql(clause_of(node), text_of)


def _names(kind: type) -> list[str]:
    """Returns the members of a record without those that are positions."""
    return [field.name for field in dataclasses.fields(kind) if field.compare]


def _members(record: Any, read: Callable[[Expr], exp.Expr]) -> dict[str, object]:
    members = ((field, getattr(record, field.name)) for field in dataclasses.fields(record) if field.compare)
    return {field.name: _node(value, read) for field, value in members if value != field.default}


def _node(value: object, read: Callable[[Expr], exp.Expr]) -> object:
    """Converts a member of a record to an argument of a node."""
    if isinstance(value, Expr):
        return read(value)
    if isinstance(value, tuple):
        return [_pair(item, read) if isinstance(item, tuple) else _node(item, read) for item in value]
    if dataclasses.is_dataclass(value):
        return exp.Expression(this=type(value).__name__, **_members(value, read))
    return value


def _pair(items: tuple, read: Callable[[Expr], exp.Expr]) -> exp.Expr:
    return exp.Expression(this=_PAIR, items=[_node(item, read) for item in items])


def _value(value: object) -> object:
    """Converts an argument of a node to a member of a record."""
    if isinstance(value, list):
        return tuple(_value(item) for item in value)
    if type(value) is not exp.Expression:
        return value
    if value.this == _PAIR:
        return _value(value.args["items"])
    kind = _CLASSES[value.this]
    members = {name: _value(argument) for name, argument in value.args.items() if name != "this"}
    for field in dataclasses.fields(kind):
        if field.name not in members and field.default is dataclasses.MISSING:  # false, none, or a position
            members[field.name] = False if field.type == "bool" else () if str(field.type).startswith("tuple") else None
    return kind(**members)
