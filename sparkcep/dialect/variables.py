"""Case of variable names in clauses of engines that turn unquoted names to upper case.

``transpile`` uses it, because CLASSIFIER() shows these names. Trino's analyzer takes the canonical value of an identifier
(``PatternRecognitionAnalyzer``). Oracle (*Database Object Names and Qualifiers*) and Snowflake (*Identifier requirements*) store
names in upper case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from sparkcep.clause import nodes, tree
from sparkcep.clause.tokens import Span


def unquoted(clause: tree.MatchClause) -> Iterator[nodes.Var]:
    """Yields the variables of the pattern with unquoted names."""
    return (node for node in nodes.walk(clause.pattern) if isinstance(node, nodes.Var) and not _quoted(clause, node.span))


def differing_in_case(clause: tree.MatchClause, upper: bool) -> Span | None:
    """Returns the position of a variable that differs from an earlier one there, but not in Spark.

    ``upper``: unquoted names are in upper case there.
    """
    seen: dict[str, str] = {}
    for node in nodes.walk(clause.pattern):
        if isinstance(node, nodes.Var):
            name = _there(clause, node.name, node.span) if upper else node.name
            if seen.setdefault(name.lower(), name) != name:
                return node.span
    return None


def in_upper_case(clause: tree.MatchClause) -> tree.MatchClause:
    """Returns the clause with the unquoted names of its variables in upper case."""
    names = {node.name.lower(): _there(clause, node.name, node.span) for node in nodes.walk(clause.pattern) if isinstance(node, nodes.Var)}
    subsets = tuple(_subset(clause, subset, names) for subset in clause.subsets)
    names |= {subset.name.lower(): subset.name for subset in subsets}
    defines = tuple(replace(define, variable=names.get(define.variable.lower(), define.variable)) for define in clause.defines)
    skip = clause.skip
    if skip is not None and skip.target is not None:
        skip = replace(skip, target=names.get(skip.target.lower(), skip.target))
    return replace(clause, pattern=_renamed(clause.pattern, names), subsets=subsets, defines=defines, skip=skip)


def _subset(clause: tree.MatchClause, subset: tree.Subset, names: dict[str, str]) -> tree.Subset:
    members = tuple(_renamed(member, names) for member in subset.members)
    return replace(subset, name=_there(clause, subset.name, subset.span), members=members)


def _quoted(clause: tree.MatchClause, span: Span) -> bool:
    return clause.text[span.start] in "\"`["


def _there(clause: tree.MatchClause, name: str, span: Span) -> str:
    return name if _quoted(clause, span) else name.upper()


def _renamed(node: nodes.Node, names: dict[str, str]) -> nodes.Node:
    """Returns a pattern with other names of its variables."""
    if isinstance(node, nodes.Var):
        return replace(node, name=names.get(node.name.lower(), node.name))
    changed = {}
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, nodes.Node):
            changed[field.name] = _renamed(value, names)
        elif isinstance(value, tuple) and value and all(isinstance(item, nodes.Node) for item in value):
            changed[field.name] = tuple(_renamed(item, names) for item in value)
    return replace(node, **changed) if changed else node
