"""The rows that an event selection lets come after a state: adjacent ones, or later ones with the rows between passed over.

The search (:mod:`sparkcep.tracing.search.trace`) asks :class:`Moves`.

STRICT CONTIGUITY lets the next row come. SKIP TILL ANY MATCH lets any later row come: the pattern's choice comes before the row's,
and earlier rows are preferred. SKIP TILL NEXT MATCH goes row by row, up to the first row that may not be passed over. If the last
row ended an iteration of a quantified part that may be repeated, these are the rows that begin an iteration again. Otherwise they
are the rows that an option takes (docs/language.md, event selection).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from typing import NamedTuple, TypeAlias

from sparkcep.tracing.search.program import Option, Program
from sparkcep.tracing.search.runs import Node
from sparkcep.tracing.search.windows import Windows

STRICT, NEXT, ANY = "STRICT", "NEXT", "ANY"
Takes: TypeAlias = Callable[[Option, int], bool]


class Move(NamedTuple):
    """An option and the row that it would take; for the end of the match and an anchor, the row after the last one."""

    option: Option
    row: int


class Moves:
    """The moves of the search from one start row."""

    def __init__(self, program: Program, strategy: str, start: int, count: int, windows: Windows) -> None:
        """
        Args:
            program: the pattern.
            strategy: STRICT, NEXT or ANY.
            start: the start row.
            count: the number of rows of the partition.
            windows: the bounds of the match and of groups.
        """
        self.program, self.strategy, self.start = program, strategy, start
        self._stop = min(count, windows.end(start))

    def of(self, node: Node, options: tuple[Option, ...], takes: Takes, step: Callable[[], None]) -> Iterator[Move]:
        """The moves from a node, in order of preference. They include those whose row is past the partition, or refused.

        Args:
            node: the node.
            options: its options, in order of preference.
            takes: whether an option takes a row.
            step: called for each row that is looked at beyond the next one.
        """
        if self.strategy == STRICT or node.row == self.start:
            yield from (Move(option, node.row) for option in options)
            return
        rows = _Reach(self.reachable(node, options, takes, step) if self.strategy == NEXT else self._later(node, step))
        for takes_row, turn in _turns(options):
            if not takes_row:
                yield from (Move(option, node.row) for option in turn)
            elif self.strategy == NEXT:
                yield from (Move(option, row) for row in rows for option in turn)
            else:
                yield from (Move(option, row) for option in turn for row in rows)

    def ahead(self, node: Node, options: tuple[Option, ...], takes: Takes, step: Callable[[], None]) -> Iterator[Move | Option]:
        """Like :meth:`of`, but of a partition that still grows: an option alone is for rows that have not come.

        They come after the rows of the partition. Rows may not be adjacent.
        """
        rows = list(self.reachable(node, options, takes, step)) if self.strategy == NEXT else list(self._later(node, step))
        blocking = self.blocking(node, options) if self.strategy == NEXT else ()
        is_blocked = bool(rows) and any(takes(option, rows[-1]) for option in blocking)
        for takes_row, turn in _turns(options):
            if not takes_row:
                yield from (Move(option, node.row) for option in turn)
            elif self.strategy == NEXT:
                yield from (Move(option, row) for row in rows for option in turn)
                yield from () if is_blocked else turn
            else:
                for option in turn:
                    yield from (Move(option, row) for row in rows)
                    yield option

    def taking(self, node: Node, options: tuple[Option, ...], takes: Takes, step: Callable[[], None], rows_of: Callable[[int], Sequence[int]]) -> Iterator[Move]:
        """Like :meth:`of`, but without the rows that conditions on single rows refuse.

        Args:
            node, options, takes, step: as in :meth:`of`.
            rows_of: the rows that a variable may take, in order.
        """
        if self.strategy == STRICT or node.row == self.start:
            return iter([Move(option, node.row) for option in options])
        return self._taking(node, options, takes, step, rows_of)

    def _taking(self, node: Node, options: tuple[Option, ...], takes: Takes, step: Callable[[], None], rows_of: Callable[[int], Sequence[int]]) -> Iterator[Move]:
        reach = _Reach(self._reaching(node, options, takes, step, rows_of)) if self.strategy == NEXT else None
        for takes_row, turn in _turns(options):
            if not takes_row:
                yield from (Move(option, node.row) for option in turn)
            elif reach is not None:
                yield from (Move(option, row) for row in reach for option in turn)
            else:
                yield from (Move(option, row) for option in turn for row in self._among(rows_of(option.variable), node.row, step))

    def _among(self, rows: Sequence[int], first: int, step: Callable[[], None]) -> Iterator[int]:
        for at in range(bisect_left(rows, first), bisect_left(rows, self._stop)):
            step()
            yield rows[at]

    def _reaching(self, node: Node, options: tuple[Option, ...], takes: Takes, step: Callable[[], None], rows_of: Callable[[int], Sequence[int]]) -> Iterator[int]:
        """The rows that may come next under SKIP TILL NEXT MATCH and that a variable may take."""
        blocking = self.blocking(node, options)
        lists = [rows_of(variable) for variable in dict.fromkeys(option.variable for option in (*options, *blocking) if option.kind == "row")]
        before = -1
        for row in merge(*(self._among(rows, node.row, step) for rows in lists)):
            if row != before:
                before = row
                yield row
                if any(takes(option, row) for option in blocking):
                    return

    def later(self, node: Node) -> range:
        """The rows that may come after a node, as far as no option takes one: the next one, or all later ones inside of WINDOW."""
        if self.strategy == STRICT or node.row == self.start:
            return range(node.row, node.row + 1)
        return range(node.row, self._stop)

    def _later(self, node: Node, step: Callable[[], None]) -> Iterator[int]:
        for row in range(node.row, self._stop):
            step()
            yield row

    def reachable(self, node: Node, options: tuple[Option, ...], takes: Takes, step: Callable[[], None]) -> Iterator[int]:
        """The rows that may come next under SKIP TILL NEXT MATCH, up to the first one that may not be passed over."""
        blocking = self.blocking(node, options)
        for row in range(node.row, self._stop):
            step()
            yield row
            if any(takes(option, row) for option in blocking):
                return

    def blocking(self, node: Node, options: tuple[Option, ...]) -> tuple[Option, ...]:
        """The options whose rows SKIP TILL NEXT MATCH does not pass over."""
        again = self.program.begin_again(node.state)
        return tuple(option for option in (options if again is None else again) if option.kind == "row")


class _Reach:
    """Rows that are found once and iterated several times."""

    def __init__(self, rows: Iterator[int]) -> None:
        self._rows, self._known = rows, []

    def __iter__(self) -> Iterator[int]:
        yield from self._known
        for row in self._rows:
            self._known.append(row)
            yield row


def _turns(options: Sequence[Option]) -> Iterator[tuple[bool, list[Option]]]:
    """Neighbouring options that are alike: whether they take a row, and the options."""
    return ((takes_row, list(turn)) for takes_row, turn in groupby(options, key=lambda option: option.kind == "row"))
