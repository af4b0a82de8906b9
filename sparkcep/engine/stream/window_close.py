"""Window close: sliding TOP k over a stream. A window is emitted as a whole once no further row can enter it.

Rows are kept from the first window on that has not ended. If a window with rows has ended, a search runs over the kept rows as over
a whole partition. Its output is limited to the windows that have ended since the previous search.

The matches of a last row may depend on all rows that share a window with it. If the cheapest approximate match starts before the
window, there is not a match in the window. In this case, and if a negation may look at rows before a match, rows are kept for one
WINDOW longer.

A window that has ended may still wait for rows that are not final. NEXT may read a future row, and a negation after a match reads
the rows in the match's WINDOW.

With REPORT CHANGES the next list is compared with the last emitted one. So the rows of the last emitted window are kept as well,
until the partition's next window is emitted. That step ranks them once more, and Spark compares both lists.

Example: windows have size 10 and slide 5, so window n is from 5n to before 5n + 10. Windows up to 10 have been emitted, and the
watermark moves to 20. Then windows 1 (5 to 15) and 2 (10 to 20) are emitted, and rows are kept from 15 on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ranges, words
from sparkcep.engine.core.chunk import Chunk, Saved
from sparkcep.engine.core.operator import NOTHING_DUE, RowsAtWatermark
from sparkcep.engine.core.resume import AT_PLACE, ResumeState
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import plan_windows
from sparkcep.engine.stream.recompute import Final, Round, at_once
from sparkcep.kernels.common import layout
from sparkcep.plan.options import MICROS

NEVER = np.iinfo(np.int64).min


class ClosedWindows(Final):
    """Matches are final by sliding window.

    In their state ``start`` is the first row of the windows that were not emitted. ``number`` is the place up to which windows were
    emitted, and ``covered`` is the first row that is not final.

    Attributes:
        timed: whether WINDOW is one of time.
        size, pace: the size and the slide of windows.
        longer: how much longer rows are kept than for their windows.
        late: whether a window waits for the WINDOWs of all its rows.
        delay: how much later windows are emitted, if all keys wait together.
        compares: whether the list of a window is compared with that of the window before.
    """

    saves = AT_PLACE

    def __init__(self, task: Task) -> None:
        self.task = task
        window, slide, ranking = task.plan.windows[0], task.plan.slide, task.plan.ranking
        assert slide is not None and ranking is not None
        self.timed = window.kind == MICROS
        self.size, self.pace = int(Fraction(window.size)), int(Fraction(slide.step))
        # How far before a window a match may begin that hides matches in the window, or a negation may look.
        emission = task.prepared.strategy.emission
        self.longer = self.size if emission.hides or emission.looks_before else 0
        self.late = emission.late
        # With one ranking for all keys, a window is emitted in one micro-batch. So every key waits as long as any key may.
        self.delay = self.size if self.late and ranking.overall else 0
        self.compares = ranking.changes is not None

    def begin(self, chunk: Chunk, state: ResumeState) -> Round:
        """Begins a step: the windows that have ended are searched, and the rows of the others are saved."""
        at = self.at(chunk, state)
        resume = self._undecided(chunk)
        until = at.closable(resume)
        due = self.due(at, until)
        part = replace(parts_of(chunk, due), sliding=self.asked(at, until)[:, due]) if len(due) else None
        return at_once(part, chunk, self.left(state, at, self.first_row(chunk, at.places, until), until, resume))

    def _undecided(self, chunk: Chunk) -> np.ndarray:
        """The first row of each partition that may be in a match which future rows decide, or its end. int64 (partitions)."""
        low, high = chunk.offsets[:-1], chunk.offsets[1:]
        limit = np.where(chunk.going, np.maximum(high - self.task.awaited, low), high)
        if not self.late:
            return limit
        assert chunk.closed is not None
        ends, sizes = plan_windows(self.task.plan.windows, chunk.columns, chunk.offsets)[0][0], high - low
        waits = (ends > np.repeat(limit, sizes)) | ((ends >= np.repeat(high, sizes)) & (np.arange(chunk.rows) >= np.repeat(chunk.closed, sizes)))
        return np.minimum(limit, _first(chunk, waits & np.repeat(chunk.going, sizes)))

    def ends(self, state: ResumeState, kept: RowsAtWatermark) -> np.ndarray:
        """When the first window ends that was not emitted, or the row that it waits for becomes final.

        If a partition keeps rows only because future matches may look at them: when the last of these is dropped.
        """
        due, time, first = np.full(len(state.rows), NOTHING_DUE), kept.time, kept.first
        start = self._first_open(state, kept) if self.compares else state.start
        some = np.flatnonzero(start < state.rows)
        ends = self._first_end(time[first[some] + start[some]], state.number[some])
        due[some] = ends - 1 + self.delay
        if not self.delay:
            waits = np.flatnonzero(state.covered[some] < state.rows[some])
            begun = time[first[some[waits]] + state.covered[some[waits]]]
            waits, begun = waits[begun < ends[waits]], begun[begun < ends[waits]]
            last = begun + self.size - 1
            # otherwise it waits for a future row
            due[some[waits]] = np.where(self.late & (last > kept.watermark), last, NOTHING_DUE)
        if self.longer and not self.compares:
            alone = np.flatnonzero((state.rows > 0) & (state.start == state.rows))
            last = time[first[alone] + state.start[alone] - 1]
            gone = (last + self.longer) // self.pace * self.pace + self.size  # the end of the window that drops the last row
            due[alone] = np.where(gone > state.number[alone], gone - 1 + self.delay, due[alone])
        return due

    def _first_open(self, state: ResumeState, kept: RowsAtWatermark) -> np.ndarray:
        """The first kept row of the windows that were not emitted, or how many rows are kept. int64 (partitions)."""
        gone = kept.time < np.repeat(self._begin(state.number), state.rows)
        counts = np.concatenate([[0], np.cumsum(gone)])
        return counts[kept.end] - counts[kept.first]

    def forgetting(self, state: ResumeState, numbers: bool, positions: bool) -> ResumeState:
        """The number is a place, which is needed as long as rows are kept."""
        return replace(state.forgetting(True, positions), number=np.where(state.rows > 0, state.number, 0))

    def at(self, chunk: Chunk, state: ResumeState) -> _At:
        """The state of each partition before the search."""
        assert chunk.watermark is not None
        opens = state.opens(chunk)
        low, high = chunk.offsets[:-1], chunk.offsets[1:]
        known = np.zeros(chunk.parts, dtype=bool)
        known[: len(state.rows)] = state.rows > 0
        ended = np.full(chunk.parts, chunk.watermark + 1 - self.delay) if self.timed else state.gone(chunk.parts) + high - low
        return _At(chunk, opens, self._places(chunk), np.where(known, opens[:, layout.O_NUMBER], NEVER), ended)

    def due(self, at: _At, until: np.ndarray) -> np.ndarray:
        """The partitions with a window that has rows and ends at ``until`` or before."""
        start = self.first_row(at.chunk, at.places, at.after) if self.compares else at.start
        some = np.flatnonzero(start < at.chunk.offsets[1:])
        return some[self._first_end(at.places[start[some]], at.after[some]) <= until[some]]

    def left(self, state: ResumeState, at: _At, start: np.ndarray, until: np.ndarray, resume: np.ndarray) -> Saved:
        """Saves the rows from ``start`` on, and those that a future match may look at."""
        chunk, opens = at.chunk, at.opens
        opens[:, layout.O_START], opens[:, layout.O_NUMBER], opens[:, layout.O_COVERED] = start, until, resume
        first = start
        if self.longer or self.compares:
            first = np.minimum(start, _from(chunk, at.places, self._begin_kept(chunk, at.places, until) - self.longer))
        return state.left(chunk, opens, first[chunk.going], self.task.back)

    def asked(self, at: _At, until: np.ndarray) -> np.ndarray:
        """The windows to search: those that end after ``at.after``, and not after ``until``. See :attr:`Chunk.sliding`.

        If lists are compared, the last window that was emitted is the first one.
        """
        after = at.after
        emitted = np.where(after == NEVER, NEVER, (np.maximum(after, NEVER + self.size) - self.size) // self.pace)
        first = emitted + (emitted != NEVER)
        if self.compares:
            first = np.minimum(first, self._last_emitted(at.chunk, at.places, after))
        return np.stack([first, (until - self.size) // self.pace, emitted])

    def first_row(self, chunk: Chunk, places: np.ndarray, until: np.ndarray) -> np.ndarray:
        """The first row of the windows that end after ``until``, or the partition's end. int64 (partitions)."""
        return _from(chunk, places, self._begin(until))

    def first_searched(self, chunk: Chunk, places: np.ndarray, until: np.ndarray) -> np.ndarray:
        """The first row that the next search looks at, if windows up to ``until`` were emitted. int64 (partitions)."""
        return _from(chunk, places, self._begin_kept(chunk, places, until))

    def _begin_kept(self, chunk: Chunk, places: np.ndarray, until: np.ndarray) -> np.ndarray:
        """The begin of the windows that the next search needs, if windows up to ``until`` were emitted. int64 (partitions)."""
        begin = self._begin(until)
        return np.minimum(begin, self._last_emitted(chunk, places, until) * self.pace) if self.compares else begin

    def _last_emitted(self, chunk: Chunk, places: np.ndarray, until: np.ndarray) -> np.ndarray:
        """The number of the last window that has a row and does not end after ``until``. int64 (partitions).

        The number of the first window after ``until`` if no window has. Rows that the partition still has decide, which are all
        rows of that window.
        """
        number = self._begin(until) // self.pace
        row = _from(chunk, places, (number - 1) * self.pace + self.size) - 1
        some = np.flatnonzero(row >= chunk.offsets[:-1])
        number[some] = np.minimum(number[some] - 1, places[row[some]] // self.pace)
        return number

    def _places(self, chunk: Chunk) -> np.ndarray:
        return words(chunk.columns[self.task.plan.windows[0].order]) if self.timed else chunk.positions

    def _begin(self, until: np.ndarray) -> np.ndarray:
        """The begin of the first window that ends after ``until``."""
        number = (np.maximum(until, NEVER + 2 * self.size) - self.size) // self.pace + 1
        return (number if self.timed else np.maximum(number, 0)) * self.pace

    def _first_end(self, place: np.ndarray, after: np.ndarray) -> np.ndarray:
        """The end of the first window that ends after both ``place`` and ``after``."""
        return self._begin(np.maximum(place, after)) + self.size


@dataclass(frozen=True)
class _At:
    """The state at the begin of a step.

    Attributes:
        opens: the partitions for kernels.
        places: the rows in the measure of WINDOW.
        after: int64 (partitions), the place up to which windows were emitted, NEVER if there were none.
        ended: int64 (partitions), the place up to which windows have ended.
    """

    chunk: Chunk
    opens: np.ndarray
    places: np.ndarray
    after: np.ndarray
    ended: np.ndarray

    @property
    def start(self) -> np.ndarray:
        """The first row of the windows that were not emitted. int64 (partitions)."""
        return self.opens[:, layout.O_START]

    def closable(self, resume: np.ndarray) -> np.ndarray:
        """The place up to which windows can be emitted if the rows from ``resume`` on are not final. int64 (partitions)."""
        until, some = self.ended.copy(), np.flatnonzero(resume < self.chunk.offsets[1:])
        until[some] = np.minimum(until[some], self.places[resume[some]])
        return np.maximum(until, self.after)


def _from(chunk: Chunk, places: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """The first row of each partition at the place ``begin`` or later, or its end. int64 (partitions)."""
    return _first(chunk, places >= np.repeat(begin, np.diff(chunk.offsets)))


def _first(chunk: Chunk, marks: np.ndarray) -> np.ndarray:
    """The first marked row of each partition, or its end. int64 (partitions). All rows after a marked one must be marked."""
    low, high = chunk.offsets[:-1], chunk.offsets[1:]
    return high - np.add.reduceat(np.append(marks, 0).astype(np.int64), low) * (high > low)


def parts_of(chunk: Chunk, parts: np.ndarray, *, growing: bool = False) -> Chunk:
    """Some partitions of a chunk, as whole ones; with ``growing`` as they are."""
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
