"""Nearest misses: the first way from a start row to a match with one error.

An error is a row taken although its condition is not true, a variable without a row, or one row too many inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sparkcep.tracing.search.program import State
from sparkcep.tracing.search.runs import Node, Run
from sparkcep.tracing.search.trace import Search

STEPS = 3_000  # of one start row
EXTRA = 62  # the variable of a row too many: no variable of a pattern has this number


@dataclass(frozen=True)
class Miss:
    """A way with one error.

    Attributes:
        start: the start row.
        variables: the variables of its rows, EXTRA for a row too many.
        error: "taken", "missing" or "extra".
        row: the row of the error; for a missing variable, the row after which it is missing, -1 before all rows.
        variable: the variable of the error, -1 for a row too many.
    """

    start: int
    variables: tuple[int, ...]
    error: str
    row: int
    variable: int


@dataclass(frozen=True)
class _Way:
    state: State
    row: int
    run: Run
    error: tuple[str, int, int] | None


def nearest_miss(search: Search) -> tuple[Miss | None, int]:
    """The first way with one error from a start row without a match, and the number of steps that it took to look for it."""
    start = Run(search.start, search.number)
    stack: list[Iterator[_Way | None]] = [_ways(search, _Way(search.program.first, search.start, start, None))]
    ways: list[_Way] = []
    taken = 0
    while stack and taken < STEPS:
        for way in stack[-1]:
            taken += 1
            if way is None:  # the end of the match
                last = ways[-1]
                assert last.error is not None
                return Miss(search.start, last.run.variables, *last.error), taken
            ways.append(way)
            stack.append(_ways(search, way))
            break
        else:
            stack.pop()
            if ways:
                ways.pop()
    return None, taken


def _ways(search: Search, way: _Way) -> Iterator[_Way | None]:
    """The ways that go on from a way, in order of preference; None for the end of the match."""
    count, program = search.rows.count, search.program
    node = Node(way.state, way.run, way.row)
    for option in program.options(way.state, way.row == 0, way.row == count):
        if option.kind == "end":
            if way.run.length and way.run.variable != EXTRA and way.error is not None:
                yield None
            continue
        if option.kind == "anchor":
            continue
        inside = way.row < count and not search.outside(option, way.row)
        after = program.after(option, way.row)
        if inside:
            holds = search.holds(option.variable, node)
            if holds:
                yield _Way(after, way.row + 1, way.run.with_(option.variable, way.row), way.error)
            elif way.error is None:
                yield _Way(after, way.row + 1, way.run.with_(option.variable, way.row), ("taken", way.row, option.variable))
        if way.error is None:
            yield _Way(after, way.row, way.run, ("missing", way.row - 1, option.variable))
            if way.run.length and way.row + 1 < count and not search.outside(option, way.row):
                yield _Way(way.state, way.row + 1, way.run.with_(EXTRA, way.row), ("extra", way.row, -1))
