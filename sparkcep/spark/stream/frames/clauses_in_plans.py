"""The clauses over streams in the plans of data frames: where they stand, and what may stand above and below them."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import NamedTuple

from sparkcep.errors import UNSUPPORTED, ClauseError
from sparkcep.plan.plan import Plan
from sparkcep.spark.stream.frames.plan_text import Node
from sparkcep.spark.stream.jvm_operator import INSTEAD, PROVIDER, ROCKSDB, wrong

SEVERAL = "sparkcep.stream.several"
_PASSING = frozenset(["Aggregate", "Distinct", "Deduplicate", "DeduplicateWithinWatermark"])  # tell rows in the order of their watermark


class Made(NamedTuple):
    """A clause over a stream that was made a data frame, as others know it: its ``plan`` as JSON, the ``statement`` that a
    checkpoint keeps, and by how many milliseconds the watermark of its output is behind Spark's, None where it has none."""

    plan: str
    statement: bytes
    behind: int | None


# The clauses of this process by the numbers that their nodes have in plans, which may be those of views.
_made: dict[int, Made] = {}
_numbers, _REMEMBERED = itertools.count(1), 10_000
_ROWS = re.compile(r"match_recognize (\d+) by data frames")


def number_of(node: Node) -> int | None:
    """The number of the clause whose rows a node gives; None for any other node."""
    named = _ROWS.match(node.text) if node.name == "MapInArrow" else None
    return int(named[1]) if named else None


def by_one_call(node: Node) -> bool:
    """Whether the clause whose rows a node gives runs by the operator of which Spark takes one in a query."""
    return any(below.name == "FlatMapGroupsInPandasWithState" for below in node.children[0].children)


def remember(made: Made) -> int:
    number = next(_numbers)
    _made[number] = made
    _made.pop(number - _REMEMBERED, None)
    return number


def clauses(plan: Node) -> list[Node]:
    """The nodes of clauses over streams in a plan, without those that stand below another."""
    return [plan] if number_of(plan) is not None else [node for child in plan.children for node in clauses(child)]


def without_clauses(plan: Node) -> Node:
    """The plan without what stands below the nodes of clauses."""
    return replace(plan, children=() if number_of(plan) is not None else tuple(map(without_clauses, plan.children)))


def watermark(node: Node) -> list[str]:
    """The column of a watermark that begins at a node."""
    column = re.match(r"(?:[0-9a-f-]{36}, )?(.*)#\d+: ", node.text) if node.name == "EventTimeWatermark" else None
    return [column[1]] if column else []


def stateful(rows: Node, several: bool) -> list[str]:
    """What keeps a state of Spark's below a clause, over which it does not stand: what a clause's output goes to has no
    watermark."""
    nodes = (node for node in without_clauses(rows).below() if node.keeps_state)
    return [node.name for node in nodes if clauses(node) or not (node.joins or (several and node.name in _PASSING))]


def check_above(plan: Node) -> None:
    """Raises ClauseError for a query in which a clause over a stream stands below what Spark does not let stand there, or what
    would lose rows of its output: these are behind the watermark that Spark knows."""
    alone = [node for node in clauses(plan) if by_one_call(node)]
    if len(alone) > 1:
        raise at_clause(alone[1], f"the data frames of this query's clauses were each made to stand in a query alone; set {SEVERAL} to true, and {PROVIDER} to {ROCKSDB}, before they are made")
    rest = without_clauses(plan)
    for node in rest.below():
        own = clauses(node)
        if not own or number_of(node) is not None:
            continue
        if node.name in ("EventTimeWatermark", "UpdateEventTimeWatermarkColumn"):
            raise at_clause(own[0], "withWatermark over a clause's output would move the watermark of its rows; leave it out, or write the clause's output to a table, and read that as a stream")
        if not node.keeps_state or "Limit" in node.name:
            continue
        timed = any(below.name == "EventTimeWatermark" for below in node.below())
        if timed or alone or not (node.name in _PASSING or node.text.startswith(("Inner", "Cross"))):
            raise at_clause(own[0], f"what keeps a state of Spark's ({node.name}) stands above the clause, whose output has a watermark with the JVM's extension alone; {INSTEAD}")


def found(node: Node) -> Made | None:
    """What is known of the clause whose rows a node gives."""
    return _made.get(number_of(node) or 0)


def at_clause(clause: Node, message: str) -> ClauseError:
    """The error of a query above a clause, at its place."""
    made = found(clause)
    return ClauseError("STREAM", message, sqlstate=UNSUPPORTED) if made is None else wrong(Plan.from_json(made.plan), message, UNSUPPORTED)
