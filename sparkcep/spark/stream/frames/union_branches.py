"""Checks the watermark column in each branch of a UNION ALL below a clause, in the text of Spark's analysed plan.

Spark gives a union the watermark column of its first branch. :mod:`sparkcep.spark.stream.frames.program` asks whether the other
branches have it as well. A plan whose text cannot be read this far passes the check.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sparkcep.spark.stream.frames.plan_text import Node

_ITEM = re.compile(r"(?:(.*) AS )?(.*)#(\d+)L?(-T\d+ms)?", re.DOTALL)
_COLUMN = r"[^#(),]*#(\d+)L?(?:-T\d+ms)?"
_LATER = rf"cast\({_COLUMN} \+ INTERVAL '[^'-]*' (?:DAY|HOUR|MINUTE|SECOND)(?: TO \w+)? as timestamp(?:_ntz)?\)"
_SAME_TYPE = r"cast\([^#(),]*#(\d+)L?-T\d+ms as timestamp(?:_ntz)?\)"  # of a column with a mark, which is a timestamp
_SOURCE = re.compile(rf"{_COLUMN}|{_LATER}|{_SAME_TYPE}")
# nodes whose columns are those of the node below
_SAME = frozenset([
    "SubqueryAlias", "View", "Filter", "Distinct", "Deduplicate", "DeduplicateWithinWatermark", "EventTimeWatermark", "UpdateEventTimeWatermarkColumn", "WithCTE",
    "Repartition", "RepartitionByExpression", "ResolvedHint", "GlobalLimit", "LocalLimit", "Limit", "Sample", "Sort",
])  # fmt: skip

ClauseColumn = Callable[[Node, str], bool | None]
"""Says of a node and a column's name whether it is the watermark column of a clause's output. None for nodes of Spark's own."""


class _Column(NamedTuple):
    """A column of a node: its number, its name, whether it has a mark, and the number of the column that it is a copy of.

    ``source`` is its own number if the node passes it on, and None if the node computes it.
    """

    number: str
    name: str
    marked: bool
    source: str | None


def marked_in_branches(rows: Node, name: str, of_clause: ClauseColumn) -> bool:
    """Whether the column ``name``, which a projection at the top defines, is a watermark column in each branch of UNION ALL.

    A branch may add a constant interval, because its rows are then never later than the watermark.
    """
    found = [column for column in _columns(rows) or [] if column.name == name]
    return len(found) != 1 or _marked(rows, found[0].number, True, of_clause)


def _marked(node: Node, number: str, marked: bool, of_clause: ClauseColumn) -> bool:
    """Whether column ``number`` of a node is a watermark column in each branch. ``marked``: whether it has a mark above."""
    columns = _columns(node)
    at = None if columns is None else next((i for i, column in enumerate(columns) if column.number == number), None)
    if columns is None or at is None:
        return True
    own = columns[at]
    known = of_clause(node, own.name)
    if known is not None:
        return known
    if node.name == "EventTimeWatermark" and re.match(rf"(?:[0-9a-f-]{{36}}, )?.*#{number}: ", node.text):
        return True
    if node.name in ("Union", "CTERelationRef"):  # columns by their places
        below = [_columns(child) for child in node.children]
        if any(other is None or len(other) != len(columns) for other in below):
            return True
        marked = marked and node.name != "Union"
        return all(_marked(child, other[at].number, marked, of_clause) for child, other in zip(node.children, below, strict=True) if other is not None)
    marked = marked or own.marked
    if own.source is None or not node.children:
        return marked
    below = [child for child in node.children if any(column.number == own.source for column in _columns(child) or ())]
    return all(_marked(child, own.source, marked, of_clause) for child in below)


def _columns(node: Node) -> list[_Column] | None:
    """Returns the columns of a node, None if its text does not say them."""
    if node.name == "Union":
        first = _columns(node.children[0])
        return first and [column._replace(source=column.number) for column in first]
    if node.name == "Join":
        sides = [_columns(side) for side in node.children[: 1 if node.text.startswith(("LeftSemi", "LeftAnti")) else 2]]
        return None if None in sides else [column._replace(source=column.number) for side in sides for column in side or ()]
    if node.name in _SAME and node.children:
        below = _columns(node.children[-1])
        return below and [column._replace(source=column.number) for column in below]
    if node.name not in ("Project", "Aggregate", "CTERelationRef", "MapInArrow") and node.children:
        return None
    found = [_ITEM.fullmatch(item) for item in _items(_list(node))]
    if not found or None in found:
        return None
    return [_column(item) for item in found if item is not None]


def _column(item: re.Match) -> _Column:
    source = item[3]
    if item[1] is not None:
        copied = _SOURCE.fullmatch(item[1])
        source = None if copied is None or copied.lastindex is None else copied[copied.lastindex]
    return _Column(item[3], item[2], item[4] is not None, source)


def _list(node: Node) -> str:
    """Returns the list of a node's columns, without its brackets."""
    text = node.text
    if node.name == "Aggregate":
        text = text[text.find("], [") + 3 :]
    if node.name in ("Project", "Aggregate"):
        return text[1 : text.rfind("]")]
    return text[text.rfind("[") + 1 : text.rfind("]")]


def _items(text: str) -> Iterator[str]:
    """Yields the items of a list. An item ends with the number of its column; a comma may also be part of a value."""
    depth, begin = 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if depth == 0 and text.startswith(", ", i) and _ITEM.fullmatch(text, begin, i):
            yield text[begin:i]
            begin = i + 2
    yield text[begin:]
