"""TOP k of sliding windows over open partitions: a window is told as a whole once no row of it can come.

Of a partition are kept the rows from the first window on that has not ended. A search goes through them as if the partition were
there as a whole, where a window has ended that holds rows, and of its output are given the windows that have ended since the search
before.

Which match ends at a row may depend on all rows whose WINDOW holds it: the cheapest approximate match that ends there is none of a
window that begins behind its first row, and no other takes its place. Then, and where a negation may stand before a match, rows are
kept by WINDOW longer.

A sliding window that has ended may still wait, up to a row from which on nothing is decided: NEXT may look at a row to come, and a
negation behind a match at those in its WINDOW.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ranges, words
from sparkcep.engine.core.chunk import Chunk, Saved
from sparkcep.engine.core.operator import NOTHING_DUE, BaseOperator, RowsAtWatermark
from sparkcep.engine.core.resume import AT_PLACE, NOTHING_OPEN, ResumeState
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import plan_windows
from sparkcep.kernels.common import layout
from sparkcep.plan.options import MICROS

NEVER = np.iinfo(np.int64).min


class ClosingWindows(BaseOperator):
    """What searches of windows that have ended share. Where a search stands is the first row of those that were not told; the
    number kept is the place up to which windows were, and the row covered the first one that is not decided."""

    def __init__(self, task: Task) -> None:
        self.task = task
        window, slide, ranking = task.plan.windows[0], task.plan.slide, task.plan.ranking
        assert slide is not None and ranking is not None
        self.timed = window.kind == MICROS
        self.size, self.pace = int(Fraction(window.size)), int(Fraction(slide.step))
        # how far before a window a match may begin that ends in it and hides others, or a negation look
        emission = task.prepared.strategy.emission
        self.longer = self.size if emission.hides or emission.looks_before else 0
        self.late = emission.late
        # the matches of all keys are told in one micro-batch, so all wait as long as any may
        self.delay = self.size if self.late and ranking.overall else 0

    def ends(self, state: ResumeState, kept: RowsAtWatermark) -> np.ndarray:
        """When the first window ends that was not emitted, or what it waits for. Of a partition that keeps rows for those to come
        alone, when these go."""
        due, time, first = np.full(len(state.rows), NOTHING_DUE), kept.time, kept.first
        some = np.flatnonzero(state.start < state.rows)
        ends = self._first_end(time[first[some] + state.start[some]], state.number[some])
        due[some] = ends - 1 + self.delay
        if not self.delay:
            waits = np.flatnonzero(state.covered[some] < state.rows[some])
            begun = time[first[some[waits]] + state.covered[some[waits]]]
            waits, begun = waits[begun < ends[waits]], begun[begun < ends[waits]]
            last = begun + self.size - 1
            # else it waits for a row to come
            due[some[waits]] = np.where(self.late & (last > kept.watermark), last, NOTHING_DUE)
        if self.longer:
            alone = np.flatnonzero((state.rows > 0) & (state.start == state.rows))
            last = time[first[alone] + state.start[alone] - 1]
            gone = (last + self.longer) // self.pace * self.pace + self.size  # where a window ends, before which rows up to the last are kept
            due[alone] = np.where(gone > state.number[alone], gone - 1 + self.delay, due[alone])
        return due

    def under_way(self, state: ResumeState) -> np.ndarray:
        return state.start

    def forgetting(self, state: ResumeState, numbers: bool, positions: bool) -> ResumeState:
        """The number is a place, which says something as long as rows are kept."""
        return replace(state.forgetting(True, positions), number=np.where(state.rows > 0, state.number, 0))

    def _at(self, chunk: Chunk, state: ResumeState) -> _At:
        """What is known of each partition before the search."""
        assert chunk.watermark is not None
        opens = state.opens(chunk)
        low, high = chunk.offsets[:-1], chunk.offsets[1:]
        known = np.zeros(chunk.parts, dtype=bool)
        known[: len(state.rows)] = state.rows > 0
        ended = np.full(chunk.parts, chunk.watermark + 1 - self.delay) if self.timed else state.gone(chunk.parts) + high - low
        return _At(chunk, opens, self._places(chunk), np.where(known, opens[:, layout.O_NUMBER], NEVER), ended)

    def _due(self, at: _At, until: np.ndarray) -> np.ndarray:
        """The partitions of which a window that holds rows ends up to a place."""
        some = np.flatnonzero(at.start < at.chunk.offsets[1:])
        return some[self._first_end(at.places[at.start[some]], at.after[some]) <= until[some]]

    def _left(self, state: ResumeState, at: _At, start: np.ndarray, until: np.ndarray, resume: np.ndarray) -> Saved:
        """Leaves the rows from ``start`` on, and those that a match to come may ask about."""
        chunk, opens = at.chunk, at.opens
        opens[:, layout.O_START], opens[:, layout.O_NUMBER], opens[:, layout.O_COVERED] = start, until, resume
        first = _from(chunk, at.places, self._begin(until) - self.longer) if self.longer else start
        return state.left(chunk, opens, first[chunk.going], self.task.back)

    def asked(self, after: np.ndarray, until: np.ndarray) -> np.ndarray:
        """int64 (2, partitions): the numbers of the first and the last window that end behind ``after`` and not behind
        ``until``."""
        first = np.where(after == NEVER, NEVER, (np.maximum(after, NEVER + self.size) - self.size) // self.pace + 1)
        return np.stack([first, (until - self.size) // self.pace])

    def first_row(self, chunk: Chunk, places: np.ndarray, until: np.ndarray) -> np.ndarray:
        """int64 (partitions): the first row of the windows that end behind ``until``, or the end."""
        return _from(chunk, places, self._begin(until))

    def _places(self, chunk: Chunk) -> np.ndarray:
        return words(chunk.columns[self.task.plan.windows[0].order]) if self.timed else chunk.positions

    def _begin(self, until: np.ndarray) -> np.ndarray:
        """Where the first window begins that ends behind ``until``."""
        number = (until - self.size) // self.pace + 1
        return (number if self.timed else np.maximum(number, 0)) * self.pace

    def _first_end(self, place: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Where the first window ends that holds a place and ends behind ``after``."""
        return self._begin(np.maximum(place, after)) + self.size


class WindowClose(ClosingWindows):
    """Searches the rows of windows that have ended. ``answer``: makes output of whole partitions."""

    saves, initial = AT_PLACE, NOTHING_OPEN

    def __init__(self, task: Task, answer: Callable[[Chunk], Iterator[pa.Table]]) -> None:
        super().__init__(task)
        self.answer = answer

    def step(self, chunk: Chunk, state: ResumeState) -> Generator[pa.Table, None, Saved]:
        """Tells the windows that have ended, and leaves the rows of those that have not."""
        at = self._at(chunk, state)
        resume = self._undecided(chunk)
        until = at.closable(resume)
        due = self._due(at, until)
        if len(due):
            yield from self.answer(replace(parts_of(chunk, due), sliding=self.asked(at.after[due], until[due])))
        return self._left(state, at, self.first_row(chunk, at.places, until), until, resume)

    def _undecided(self, chunk: Chunk) -> np.ndarray:
        """int64 (partitions): the first row of each that may be in a match which rows to come decide, or its end."""
        low, high = chunk.offsets[:-1], chunk.offsets[1:]
        limit = np.where(chunk.going, np.maximum(high - self.task.awaited, low), high)
        if not self.late:
            return limit
        assert chunk.closed is not None
        ends, sizes = plan_windows(self.task.plan.windows, chunk.columns, chunk.offsets)[0][0], high - low
        waits = (ends > np.repeat(limit, sizes)) | ((ends >= np.repeat(high, sizes)) & (np.arange(chunk.rows) >= np.repeat(chunk.closed, sizes)))
        return np.minimum(limit, _first(chunk, waits & np.repeat(chunk.going, sizes)))


@dataclass(frozen=True)
class _At:
    """Where the search of a chunk begins. ``opens``: as kernels have it; ``places`` of the rows in the measure of WINDOW; int64
    (partitions): ``after``, the place up to which windows were told, and ``ended``, that up to which they have ended."""

    chunk: Chunk
    opens: np.ndarray
    places: np.ndarray
    after: np.ndarray
    ended: np.ndarray

    @property
    def start(self) -> np.ndarray:
        """int64 (partitions): the first row of windows that were not told."""
        return self.opens[:, layout.O_START]

    def closable(self, resume: np.ndarray) -> np.ndarray:
        """int64 (partitions): the place up to which windows can be told, where nothing from the rows ``resume`` on is decided."""
        until, some = self.ended.copy(), np.flatnonzero(resume < self.chunk.offsets[1:])
        until[some] = np.minimum(until[some], self.places[resume[some]])
        return np.maximum(until, self.after)


def _from(chunk: Chunk, places: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """int64 (partitions): the first row of each from its place ``begin`` on, or its end."""
    return _first(chunk, places >= np.repeat(begin, np.diff(chunk.offsets)))


def _first(chunk: Chunk, marks: np.ndarray) -> np.ndarray:
    """int64 (partitions): the first of the marked rows of each, behind which all are marked, or its end."""
    low, high = chunk.offsets[:-1], chunk.offsets[1:]
    return high - np.add.reduceat(np.append(marks, 0).astype(np.int64), low) * (high > low)


def parts_of(chunk: Chunk, parts: np.ndarray, *, growing: bool = False) -> Chunk:
    """Some partitions of a chunk, as if they were there as a whole, or ``open`` as they are."""
    sizes = np.diff(chunk.offsets)[parts]
    rows = ranges(chunk.offsets[parts], sizes)
    positions = chunk.positions[rows]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    part = Chunk.whole(chunk.table.take(pa.array(rows)).combine_chunks(), chunk.columns, offsets)
    part = replace(part, place=lambda _: positions)
    if not growing:
        return part
    assert chunk.closed is not None
    return replace(part, going=chunk.going[parts], closed=chunk.closed[parts] - chunk.offsets[parts] + offsets[:-1], watermark=chunk.watermark)
