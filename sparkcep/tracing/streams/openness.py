"""Decides why the search of a start row of a stream is open: runs that a future row may continue.

The runs of a start row are visited in order of preference, up to its first match. Future rows come after all stored rows, so a run
prefers each stored row that it can take to a future row of the same options. ALL MATCHES visits all runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from sparkcep.engine.core.operator import last_begin
from sparkcep.engine.core.windows import whole_micros
from sparkcep.plan.options import MICROS, ROWS
from sparkcep.plan.plan import Plan
from sparkcep.tracing.search.moves import STRICT, Move
from sparkcep.tracing.search.program import Option
from sparkcep.tracing.search.runs import Node
from sparkcep.tracing.search.trace import Effort, Search, Trace
from sparkcep.tracing.streams.stored import StoredRows

_Path: TypeAlias = "tuple[_Path, Option, int] | None"  # the options of a run with their rows, last row first


@dataclass
class Live:
    """An option of an open run: a future row may be its variable.

    Attributes:
        option: the option.
        rows: the rows of the run.
        labels: the variables of its rows.
        places: the places of its rows in the pattern.
        closes: when WINDOW closes in microseconds, None if it is not one of time. Then the engine decides the search.
        within: when the first of its groups with WITHIN closes, None if none bounds it.
    """

    option: Option
    rows: tuple[int, ...]
    labels: tuple[int, ...]
    places: tuple[int, ...]
    closes: int | None
    within: int | None

    @property
    def ends(self) -> int | None:
        """When the first of its windows closes, None if none bounds it."""
        return min((at for at in (self.closes, self.within) if at is not None), default=None)

    @property
    def last(self) -> int:
        """The place of its last row, -1 without one."""
        return self.places[-1] if self.places else -1


@dataclass
class Opened:
    """The reasons why the search of a start row is open.

    Attributes:
        live: the options of open runs, preferred ones first.
        waits: whether a condition waits for rows that NEXT reads.
        effort: whether the search needs too many steps.
        trailing: the negations after the last row of the match, as the pattern writes them.
    """

    live: list[Live] = field(default_factory=list)
    waits: bool = False
    effort: bool = False
    trailing: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        return bool(self.live) or self.waits or self.effort or bool(self.trailing)


class Openness:
    """Visits the runs of start rows over the stored rows of a key."""

    def __init__(self, plan: Plan, count: int, watermark: int, time_of: Callable[[int], int | None]) -> None:
        """
        Args:
            plan: the plan of the stream.
            count: the number of released rows.
            watermark: in microseconds.
            time_of: the time of a row in microseconds, None if it is not stored.
        """
        self.plan, self.count, self.watermark, self.time_of = plan, count, watermark, time_of

    def of(self, trace: Trace, stored: StoredRows, start: int, number: int) -> Opened:
        """Finds the reasons why the search of a start row is open.

        Args:
            trace: searches single start rows of ``stored``.
            stored: the rows. Conditions that read future rows count as true.
            start: the start row.
            number: MATCH_NUMBER() of its match.
        """
        found = Opened()
        stored.waited = False
        try:
            search = trace.search(start, number)
            if search.effort:
                raise Effort
            self._visit(search, found, every=trace.pattern.reports_all)
        except Effort:
            found.effort = True
        found.waits = stored.waited
        return found

    def _visit(self, search: Search, found: Opened, *, every: bool) -> None:
        seen: set[Node] = set()
        stack: list[tuple[Node | Option | None, _Path]] = [(search.root, None)]
        while stack:
            node, path = stack.pop()
            if node is None:
                return  # the match of the start row: runs that come after it are not preferred
            if isinstance(node, Option):
                self._add(found.live, search, node, path)
                continue
            if node in seen:
                continue
            seen.add(node)
            search.step()
            below: list[tuple[Node | Option | None, _Path]] = []
            for move in self._moves(search, node):
                if isinstance(move, Option):
                    if node.row == search.start or search.violation(node, move, self.count) is None:
                        below.append((move, path))
                elif move.option.kind == "end":
                    negated = tuple(search.pattern.negations[search.program.negated[slot]].text for slot in search.program.passed(move.option))
                    if not every and not search.refused(node, move.option, move.row):
                        found.trailing = negated
                        below.append((None, path))
                        break
                elif move.option.kind == "row" and not search.refused(node, move.option, move.row):
                    below.append((search.after(node, move), (path, move.option, move.row)))
            stack.extend(reversed(below))

    def _moves(self, search: Search, node: Node) -> Iterator[Move | Option]:
        """The moves from a node in order of preference, and the options that a future row may be."""
        options = search.options(node)
        is_adjacent = search.pattern.strategy == STRICT or node.row == search.start
        if is_adjacent and node.row < self.count:
            yield from search.moves(node)
            return
        if is_adjacent:
            yield from (option if option.kind == "row" else Move(option, node.row) for option in options)
            return
        yield from search.ahead(node)

    def _add(self, live: list[Live], search: Search, option: Option, path: _Path) -> None:
        """Adds an option of a run, unless a window has closed."""
        taken: list[tuple[Option, int]] = []
        while path is not None:
            path, before, row = path
            taken.append((before, row))
        last = taken[0][0].place if taken else -1
        if any((one.option.place, one.last) == (option.place, last) for one in live):
            return
        window = self.plan.windows[0] if self.plan.windows else None
        if window is not None and window.kind == ROWS and self.count - search.start >= int(window.size):
            return
        closes = None
        if window is not None and window.kind == MICROS:
            begin = self.time_of(search.start)
            if begin is None or begin <= last_begin(window, self.watermark):
                return
            closes = begin + whole_micros(window.size)
        ends = []
        for number, first in search.program.groups(option):
            group, begin = self.plan.windows[number], self.time_of(first)
            if group.kind == MICROS and begin is not None:
                ends.append(begin + whole_micros(group.size))
        if self.plan.unfinished is not None and min(ends, default=self.watermark + 2) <= self.watermark + 1:
            return  # all future rows are later than the watermark
        taken.reverse()
        live.append(
            Live(
                option, tuple(row for _, row in taken), tuple(one.variable for one, _ in taken), tuple(one.place for one, _ in taken), closes,
                min(ends, default=None),
            )
        )
