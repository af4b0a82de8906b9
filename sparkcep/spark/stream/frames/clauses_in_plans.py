"""Finds clauses over streams in the plans of DataFrames, and checks the nodes above and below them.

``program`` and ``query_start`` in this package use it.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import NamedTuple

from sparkcep.errors import UNSUPPORTED, ClauseError
from sparkcep.plan.plan import Plan
from sparkcep.spark.stream.frames.plan_text import Node
from sparkcep.spark.stream.start_checks import INSTEAD, PROVIDER, ROCKSDB, wrong

SEVERAL = "sparkcep.stream.several"
_PASSING = frozenset(["Aggregate", "Distinct", "Deduplicate", "DeduplicateWithinWatermark"])  # emit rows in watermark order


class Made(NamedTuple):
    """A clause over a stream that was turned into a DataFrame, as other clauses see it.

    Attributes:
        plan: the plan as JSON.
        statement: the statement that a checkpoint stores.
        ``behind``: how many milliseconds the output's watermark trails Spark's; None if the output lacks one.
    """

    plan: str
    statement: bytes
    behind: int | None


# The clauses of this process by the numbers of their nodes in plans, which may be plans of views.
_made: dict[int, Made] = {}
_numbers, _REMEMBERED = itertools.count(1), 10_000
_ROWS = re.compile(r"match_recognize (\d+) by data frames")


def number_of(node: Node) -> int | None:
    """Returns the number of the clause whose rows a node returns; None for any other node."""
    named = _ROWS.match(node.text) if node.name == "MapInArrow" else None
    return int(named[1]) if named else None


def by_one_call(node: Node) -> bool:
    """Whether the clause whose rows a node returns uses the operator that Spark allows once per query."""
    return any(below.name == "FlatMapGroupsInPandasWithState" for below in node.children[0].children)


def remember(made: Made) -> int:
    number = next(_numbers)
    _made[number] = made
    _made.pop(number - _REMEMBERED, None)
    return number


def clauses(plan: Node) -> list[Node]:
    """Returns the topmost clauses over streams in a plan."""
    return [plan] if number_of(plan) is not None else [node for child in plan.children for node in clauses(child)]


def without_clauses(plan: Node) -> Node:
    """Returns the plan with the nodes of clauses as leaves."""
    return replace(plan, children=() if number_of(plan) is not None else tuple(map(without_clauses, plan.children)))


def watermarks(node: Node) -> list[str]:
    """Returns the watermark columns of a node's rows. A watermark replaces those below it."""
    column = re.match(r"(?:[0-9a-f-]{36}, )?(.*)#\d+: ", node.text) if node.name == "EventTimeWatermark" else None
    return [column[1]] if column else [name for child in node.children for name in watermarks(child)]


def stateful(rows: Node, several: bool) -> list[str]:
    """Names the stateful Spark nodes below a clause that the clause cannot be above.

    They include every stateful node above another clause, because a clause's output lacks a watermark.
    """
    nodes = (node for node in without_clauses(rows).below() if node.keeps_state)
    return [node.name for node in nodes if clauses(node) or not (node.joins or (several and node.name in _PASSING))]


def check_above(plan: Node) -> None:
    """Raises ClauseError if a clause over a stream is below a node that Spark refuses there, or that would drop rows of its output.

    These rows are later than the watermark that Spark knows.
    """
    alone = [node for node in clauses(plan) if by_one_call(node)]
    if len(alone) > 1:
        raise at_clause(alone[1], f"the DataFrame of each clause in this query was made for a query with one clause. Set {SEVERAL} to true, and {PROVIDER} to {ROCKSDB}, before making them")
    rest = without_clauses(plan)
    for node in rest.below():
        own = clauses(node)
        if not own or number_of(node) is not None:
            continue
        if node.name in ("EventTimeWatermark", "UpdateEventTimeWatermarkColumn"):
            raise at_clause(own[0], "withWatermark over a clause's output would change the watermark of its rows. Leave it out, or write the clause's output to a table, and read the table as a stream")
        if not node.keeps_state or "Limit" in node.name:
            continue
        timed = any(below.name == "EventTimeWatermark" for below in node.below())
        if timed or alone or not (node.name in _PASSING or node.text.startswith(("Inner", "Cross"))):
            raise at_clause(own[0], f"a stateful operator of Spark ({node.name}) is above the clause, whose output has a watermark only with the JVM extension; {INSTEAD}")


def found(node: Node) -> Made | None:
    """Returns the record of the clause whose rows a node returns, if this process built it."""
    return _made.get(number_of(node) or 0)


def at_clause(clause: Node, message: str) -> ClauseError:
    """Returns an error of a query above a clause, at the clause's position."""
    made = found(clause)
    return ClauseError("STREAM", message, sqlstate=UNSUPPORTED) if made is None else wrong(Plan.from_json(made.plan), message, UNSUPPORTED)
