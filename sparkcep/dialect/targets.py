"""Prints clauses for other engines, and finds the parts that they do not support (docs/coming_from.md names the sources).

``dialect/transpile`` uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

from sparkcep.clause import nodes, tree
from sparkcep.clause.expressions import Expr
from sparkcep.clause.printer import Named, to_sql
from sparkcep.clause.tokens import Span

_STANDARD = {"pattern", "partition_by", "order_by", "measures", "rows", "skip", "window", "subsets", "defines"}
_OURS = (nodes.Not, nodes.Conjunct, nodes.Within)
TRUE = Expr("lit", "TRUE")  # the condition of a variable if one is required


@dataclass(frozen=True)
class Target:
    """The abilities of an engine.

    Attributes:
        name: the engine's name.
        nodes: the nodes of a row pattern that it lacks.
        groups: whether groups may have quantifiers.
        reluctant: whether quantifiers may be reluctant.
        subsets: whether it has SUBSET.
        rows: the forms of ROWS PER MATCH that it has.
        skips: the modes of AFTER MATCH SKIP that it has.
        within: whether it has WITHIN after PATTERN.
        functions: the clause's function -> its name there, None if it is missing.
        anchors: whether ``^`` and ``$`` may be anywhere in the pattern, and not only at its ends.
        aggregates: the aggregates of MEASURES, without DISTINCT; DEFINE then has none. None if it has all of them.
    """

    name: str
    nodes: tuple[type[nodes.Node], ...] = _OURS
    groups: bool = True
    reluctant: bool = True
    subsets: bool = True
    rows: tuple[str, ...] = (tree.ONE_ROW, tree.SHOW_EMPTY, tree.OMIT_EMPTY, tree.WITH_UNMATCHED)
    skips: tuple[str, ...] = (tree.PAST_LAST, tree.NEXT_ROW, tree.TO_FIRST, tree.TO_LAST)
    within: bool = False
    functions: tuple[tuple[str, str | None], ...] = ()
    anchors: bool = True
    aggregates: frozenset[str] | None = None


TARGETS = {
    target.name: target
    for target in (
        Target("trino"),
        Target("snowflake", subsets=False, functions=(("PREV", "LAG"), ("NEXT", "LEAD"))),
        Target(
            "flink", (*_OURS, nodes.Alternate, nodes.Permute, nodes.Start, nodes.End, nodes.Exclude, nodes.Empty), groups=False, subsets=False, rows=(tree.ONE_ROW,), within=True,
            functions=(("PREV", None), ("NEXT", None), ("CLASSIFIER", None), ("MATCH_NUMBER", None), ("RUNNING", None), ("FINAL", None)),
        ),
        Target(
            "databricks", (*_OURS, nodes.Exclude), reluctant=False, subsets=False, rows=(tree.ONE_ROW, tree.SHOW_EMPTY), skips=(tree.PAST_LAST,),
            anchors=False, aggregates=frozenset(["COUNT", "SUM", "AVG", "MIN", "MAX"]),
        ),
    )
}  # fmt: skip


def unsaid(clause: tree.MatchClause, target: Target) -> Iterator[tuple[Span, str]]:
    """Yields the parts of the clause that the target does not support, each with a description."""
    for field in fields(clause):
        value = getattr(clause, field.name)
        if field.name == "sequences":
            yield from ((sequence.span, "SEQUENCE") for sequence in value[:1])
        elif field.compare and field.name not in _STANDARD and value is not None:
            yield value.span, f"SHOW {value.what} MATCHES" if field.name == "unfinished" else field.name.upper()
    if clause.window is not None and (not target.within or clause.window.rows or clause.window.slide is not None):
        yield clause.window.span, "this WINDOW"
    if clause.subsets and not target.subsets:
        yield clause.subsets[0].span, "SUBSET"
    if clause.rows not in target.rows:
        yield clause.span, "these ROWS PER MATCH"
    if clause.skip is not None and clause.skip.mode not in target.skips:
        yield clause.skip.span, "SKIP TO a variable" if clause.skip.target is not None else "SKIP TO NEXT ROW"
    at_ends = () if target.anchors else _at_ends(clause.pattern)
    for node in nodes.walk(clause.pattern):
        if isinstance(node, target.nodes):
            yield node.span, f"{type(node).__name__.lower()} in a pattern"
        elif not target.anchors and isinstance(node, (nodes.Start, nodes.End)) and not any(node is one for one in at_ends):
            yield node.span, "an anchor inside of a pattern"
        elif isinstance(node, nodes.Repeat):
            if not target.groups and not isinstance(node.item, nodes.Var):
                yield node.span, "a quantifier of a group"
            if not node.greedy and (not target.reluctant or (not target.groups and (node.min, node.max) == (0, 1))):
                yield node.span, "this reluctant quantifier"


def _at_ends(pattern: nodes.Node) -> tuple[nodes.Node, ...]:
    """Returns ``^`` at the beginning of a pattern, and ``$`` at its end."""
    items = pattern.items if isinstance(pattern, nodes.Concat) else (pattern,)
    return tuple(item for item, kind in ((items[0], nodes.Start), (items[-1], nodes.End)) if isinstance(item, kind))


def printed(clause: tree.MatchClause, cut: Callable[[Expr], str], named: Named, column: Named) -> str:
    """Returns the clause's text for the target.

    ``cut`` prints expressions, ``named`` the names of variables, ``column`` those of output columns.
    """
    if not clause.defines:
        first = next((node.name for node in nodes.walk(clause.pattern) if isinstance(node, nodes.Var)), None)
        clause = replace(clause, defines=(tree.Define(first, TRUE),) if first else ())
    lines = to_sql(replace(clause, window=None), lambda e: "TRUE" if e is TRUE else cut(e), named, column).split("\n")
    if clause.window is not None:
        lines = [f"{line} WITHIN {cut(clause.window.size)}" if line.startswith("PATTERN (") else line for line in lines]
    return "\n".join(lines)
