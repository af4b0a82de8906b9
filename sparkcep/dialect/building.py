"""Builders for sqlglot trees, shared by the translations of other engines' expressions.

``dialect/engines``, ``dialect/flink`` and ``dialect/meanings`` use them.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp


def call(name: str, *args: exp.Expr) -> exp.Expr:
    """Returns a call that sqlglot prints unchanged."""
    return exp.Anonymous(this=name, expressions=list(args))


def text(value: str) -> exp.Expr:
    return exp.Literal.string(value)


def number(value: int) -> exp.Expr:
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def interval(amount: str, unit: str) -> exp.Expr:
    return exp.Interval(this=text(amount), unit=exp.Var(this=unit))


def cast(node: exp.Expr, kind: str) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build(kind, dialect="databricks"))


def truncated(value: exp.Expr, places: exp.Expr | None = None) -> exp.Expr:
    """Returns a number without the digits after ``places``: CEIL below 0, FLOOR otherwise."""
    rest = [places] if places is not None else []
    up = exp.If(this=exp.LT(this=exp.Paren(this=value.copy()), expression=number(0)), true=call("ceil", value.copy(), *(place.copy() for place in rest)))
    return exp.Case(ifs=[up], default=call("floor", value, *rest))


def delimited(tree: exp.Expr, delimiter: exp.Expr) -> exp.Expr:
    """Adds a delimiter to each LISTAGG of a tree that lacks one. sqlglot would print a comma."""
    for node in tree.find_all(exp.GroupConcat):
        if node.args.get("separator") is None:
            node.set("separator", delimiter.copy())
    return tree


def replaced(tree: exp.Expr, of: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Returns a copy of a tree with each node replaced by ``of(node)``, children first."""
    tree = tree.copy()
    for node in reversed(list(tree.dfs())):
        new = of(node)
        if node is tree:
            tree = new
        elif new is not node:
            node.replace(new)
    return tree
