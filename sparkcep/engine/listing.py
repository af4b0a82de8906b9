"""Matches one by one: in a stream of rows that are kept only from where the search stands, or of whole partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ranges
from sparkcep.engine.buffer import Buffer, Chunk
from sparkcep.engine.drive import Room, Round
from sparkcep.engine.found import WIDTH, WITH_ERRORS, Found
from sparkcep.engine.prepared import Task
from sparkcep.engine.windows import plan_windows
from sparkcep.search import codes

SKIPS = {
    "past_last": codes.SKIP_PAST_LAST,
    "next_row": codes.SKIP_NEXT_ROW,
    "first": codes.SKIP_FIRST,
    "last": codes.SKIP_LAST,
}
_NO_MARKS = np.zeros(0, dtype=np.uint8)


@dataclass(frozen=True)
class Open:
    """Where a search stands in the partition that the kept rows belong to. ``start``, ``number``, ``covered``: the next start
    row, the last match's number, the row up to which matches reach; ``cut``: whether rows of the partition are gone,
    ``dropped``: how many; ``taken``: marks of the kept rows that are in a match."""

    start: int = 0
    number: int = 0
    covered: int = 0
    cut: bool = False
    dropped: int = 0
    taken: np.ndarray = field(default_factory=lambda: _NO_MARKS)

    def positions(self, offsets: np.ndarray) -> np.ndarray:
        """The number of each row of a buffer in its partition."""
        out = ranges(0, np.diff(offsets))
        out[: int(offsets[1])] += self.dropped
        return out


class Search(Protocol):
    """What finds matches one by one."""

    def over(self, chunk: Chunk, open: Open, open_end: bool) -> Matches:
        """The search over a buffer, from where it stands. ``open_end``: whether its last partition may go on."""
        ...


class Matches(Round):
    """A search for matches over one buffer. ``width`` of its events; ``negates``: whether it may look for a negation at rows
    before a match."""

    state_size = codes.STATE_SIZE
    scattered = True  # whether other rows may stand between those of a match

    def __init__(self, task: Task, chunk: Chunk, open: Open, open_end: bool, *, width: int = WIDTH, negates: bool = False) -> None:
        super().__init__(task, chunk)
        self.open, self.open_end, self.negates = open, open_end, negates
        self.state = np.zeros(self.state_size, dtype=np.int64)
        self.state[codes.S_START], self.state[codes.S_NUMBER], self.state[codes.S_COVERED] = open.start, open.number, open.covered
        self.room = Room(max(1024, chunk.rows // 8), max(1024, chunk.rows), width, rows=self.scattered, paths=width == WITH_ERRORS)
        self.taken = np.zeros(chunk.rows if self.scattered else 0, dtype=np.uint8)
        self.taken[: len(open.taken)] = open.taken
        if self.scattered:
            self.windows, self.backs = plan_windows(task.plan.windows, chunk.columns, chunk.offsets)

    def grow(self) -> None:
        raise AssertionError("it has all the room it needs")

    def widen(self, kept: bool) -> None:
        if kept:
            self.room.double()
            self.check(self.room.nbytes)
        else:
            self.room.widen(int(self.state[codes.S_DETAIL]), self.task.limits.max_state_bytes)

    def found(self) -> Found:
        return self.room.found(self.state)

    def first_needed(self, start: int) -> int:
        """The first row that attempts from row ``start`` on may look at."""
        if self.negates:
            # a row still to come looks back no farther than the last one here
            start = min(start, int(self.backs[min(start, len(self.backs) - 1)]))
        return start - self.task.back

    def taken_from(self, row: int) -> np.ndarray:
        """Marks of the rows from ``row`` on that are in a match, where rows in none are asked for."""
        return self.taken[row:].copy() if self.task.plan.rows == "unmatched" else _NO_MARKS


Listing = Callable[[], Search]


def listed(search: Search, chunk: Chunk) -> Iterator[Found]:
    """The matches of whole partitions, some at a time."""
    return search.over(chunk, Open(), False).rounds()


class Streaming:
    """Lists matches of partitions that may go on; ``report`` makes output of those found."""

    def __init__(self, search: Search, report: Callable[[Chunk, Found], Iterator[pa.Table]]) -> None:
        self.search, self.report = search, report
        self.open = Open()

    def process(self, buffer: Buffer, last: bool) -> Iterator[pa.Table]:
        """Searches the rows held, of which more are to come unless they are the ``last``, and drops those that no later attempt
        can need."""
        chunk = buffer.chunk(self.open.positions)
        matches = self.search.over(chunk, self.open, not last)
        for found in matches.rounds():
            if len(found.events):
                yield from self.report(chunk, found)
        if last:
            buffer.clear()
            return
        low, suspended, state = int(chunk.offsets[-2]), matches.outcome == codes.SUSPENDED, matches.state
        start = max(int(state[codes.S_START]), low) if suspended else chunk.rows
        cut = min(max(low, matches.first_needed(start)), chunk.rows - 1)
        same = chunk.parts == 1  # the partition that was open before
        self.open = Open(
            start=start - cut,
            number=int(state[codes.S_NUMBER]) if suspended else 0,
            covered=max(0, int(state[codes.S_COVERED]) - cut) if suspended else 0,
            cut=cut > low or (self.open.cut and same),
            dropped=cut - low + (self.open.dropped if same else 0),
            taken=matches.taken_from(cut),
        )
        buffer.keep(chunk, cut)


class Whole:
    """Answers for whole partitions: a match may end in any row to come. ``answer`` makes their output."""

    def __init__(self, answer: Callable[[Chunk], Iterator[pa.Table]]) -> None:
        self.answer = answer

    def process(self, buffer: Buffer, last: bool) -> Iterator[pa.Table]:
        """Answers for the partitions that are there as a whole, and keeps the rows of the one that may go on."""
        chunk = buffer.chunk()
        done = chunk.parts if last else chunk.parts - 1
        if done:
            yield from self.answer(chunk.first(done))
        if last:
            buffer.clear()
        else:
            buffer.keep(chunk, int(chunk.offsets[-2]))
