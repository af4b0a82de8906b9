"""Reads Spark's physical plan after it ran, node by node, in classic sessions.

Reports and ``budget_totals`` use it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sparkcep.plan.plan import PLAN_HEAD

_WRAPPING = {"AdaptiveSparkPlanExec": "executedPlan", "CommandResultExec": "commandPhysicalPlan"}
_INNER = ("WholeStageCodegenExec", "InputAdapter")


def nodes(node: Any, depth: int = 0) -> Iterator[tuple[int, Any]]:
    """Yields a Java plan node and all nodes below it as (depth, node), parents first. Nodes that only wrap another are left out."""
    kind = node.getClass().getSimpleName()
    if kind in _WRAPPING:
        return (yield from nodes(getattr(node, _WRAPPING[kind])(), depth))
    if kind.endswith("QueryStageExec"):
        return (yield from nodes(node.plan(), depth))
    if kind == "InMemoryTableScanExec" and depth == 0:
        return (yield from nodes(node.relation().cachedPlan(), depth))
    if kind not in _INNER:
        yield depth, node
        depth += 1
    children = node.children()
    for i in range(children.size()):
        yield from nodes(children.apply(i), depth)


def without_plans(text: str) -> str:
    """Returns Spark's text without the clauses' plans, which travel as column names."""
    parts, end = [], 0
    decoder = json.JSONDecoder()
    while (begin := text.find(PLAN_HEAD, end)) >= 0:
        parts += [text[end:begin], "{plan}"]
        end = decoder.raw_decode(text, begin)[1]
    return "".join([*parts, text[end:]])
