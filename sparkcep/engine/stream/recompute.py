"""Window recomputation over a stream: a search for the matches of each last row starts over with the rows of open windows, and only
new matches are emitted.

The engine uses it if the answer at a row depends on all rows of the window that ends there. It keeps the rows that may share a
window with a future row, and each step searches these and the new rows. A match is emitted once: when its last row is new and every
row that NEXT may read has arrived.

A negation after the last row looks at rows up to the end of the match's window. Then the matches that end at a row wait for the
windows of all of them (:class:`HeldBack`), and so do the matches at later rows. A row whose negation depends on future rows does
not block a match yet.

A row is in no match once all matches in windows with the row are emitted, and no future row can share a window with it. Rows that
may still get a match are kept. Marks of the kept rows in an emitted match are saved, since the first row of that match may be
dropped.

Example: WINDOW is 10, the rows 1, 4 and 12 have been searched, and the watermark is 12. A row at 13 may share a window with row 4,
so rows 4 and 12 are searched again, and row 1 is dropped. Only matches that end after row 12 are emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

import numpy as np

from sparkcep.columns.arrays import ranges
from sparkcep.compiler.emission import BUNDLE
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.operator import Answer, Found, Left, RetainingOperator, RowsAtWatermark, window_ends
from sparkcep.engine.core.resume import AT_START, NOTHING_OPEN, ResumeState
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import first_ending_behind, plan_windows
from sparkcep.engine.match.enumeration import MatchSearch
from sparkcep.engine.output.columns_out import end_rows
from sparkcep.kernels.common import layout


@dataclass
class EmittedRows:
    """The last rows for which a step emits matches. All arrays are int64 (partitions).

    Attributes:
        begin, end: matches are emitted that end from row ``begin`` to before row ``end``.
        sure: the first row whose window may still change.
        waits: the first row whose window must end before more is emitted, or the partition's end.
        number: the number of the last match, counted on.
    """

    begin: np.ndarray
    end: np.ndarray
    sure: np.ndarray
    waits: np.ndarray
    number: np.ndarray

    def new(self, found: MatchBatch) -> MatchBatch:
        """The matches whose last rows are emitted now, with their numbers."""
        matches = np.flatnonzero(found.events[:, layout.E_ROWS] > 0)
        part, last = found.events[matches, layout.E_PART], end_rows(found.events[matches], found.rows)[1]
        new = found.chosen(matches[(last >= self.begin[part]) & (last < self.end[part])]).numbered(self.number)
        np.add.at(self.number, new.events[:, layout.E_PART], 1)
        return new

    def hold_back(self, latest: np.ndarray, chunk: Chunk) -> None:
        """Lowers ``end`` to the first row at which a match ends whose window may still change.

        ``latest``: int64 (rows), the latest first row of the matches that end at the row, -1 if none does.
        """
        rows = np.flatnonzero(latest >= np.repeat(self.sure, np.diff(chunk.offsets)))
        part = chunk.partition_of(rows)
        held = rows >= self.begin[part]
        np.minimum.at(self.end, part[held], rows[held])
        stuck = np.flatnonzero(self.end < chunk.offsets[1:])
        beginning = latest[self.end[stuck]]
        self.waits[stuck] = np.where(beginning >= self.sure[stuck], beginning, self.waits[stuck])


class HeldBack:
    """Lists matches, and finds the rows that must wait: those where a match ends whose window may still change.

    ``latest``: int64 (rows), the latest first row of the matches that end at each row, -1 if none does.
    """

    early = None
    latest = np.zeros(0, dtype=np.int64)

    def __init__(self, search: MatchSearch) -> None:
        self.search = search

    def over(self, chunk: Chunk, state: ResumeState) -> HeldBack:
        self.latest, self.matches = np.full(chunk.rows, -1), self.search.over(chunk, state)
        return self

    def rounds(self) -> Iterator[MatchBatch]:
        for found in self.matches.rounds():
            events = found.events[found.events[:, layout.E_ROWS] > 0]
            first, last = end_rows(events, found.rows)
            np.maximum.at(self.latest, last, first)
            yield found


class Recompute(RetainingOperator):
    """The operator that recomputes windows.

    Attributes:
        answer: finds the matches of whole partitions, all of them before the first one is emitted.
        held: notes which matches must wait; None if a negation does not look at rows after a match.
        settles: whether a stage asks which rows are settled.
        waits: whether something may be emitted when a window ends, without a new row.
    """

    saves, initial = AT_START, NOTHING_OPEN

    def __init__(self, task: Task, answer: Answer, held: Callable[[], HeldBack] | None) -> None:
        self.task, self.answer, self.held = task, answer, held
        self.settles = task.plan.rows == "unmatched" or task.prepared.strategy.emission.unit == BUNDLE
        self.waits = task.plan.rows == "unmatched" or held is not None

    def ends(self, state: ResumeState, kept: RowsAtWatermark) -> np.ndarray:
        """When the last kept row of each partition is dropped, or the window of an awaited row ends."""
        return window_ends(kept, state.covered if self.waits else None)

    def leaving(self, chunk: Chunk, state: ResumeState) -> Generator[Found, None, Left]:
        """Emits the new matches, and saves the rows that may share a window with a future row."""
        assert chunk.closed is not None
        opens = state.opens(chunk)
        low, high = chunk.offsets[:-1], chunk.offsets[1:]
        begin, ahead = opens[:, layout.O_START], self.task.awaited
        end = np.maximum(begin, np.where(chunk.going, high - ahead, high))
        ends, backs = plan_windows(self.task.plan.windows, chunk.columns, chunk.offsets)
        closed = np.where(chunk.going, chunk.closed, high)
        reads_on = self.held is not None and ahead > 0
        sure = np.minimum(closed, first_ending_behind(end, ends[0], chunk)) if reads_on else closed
        emitted = EmittedRows(begin, end, sure, high.copy(), opens[:, layout.O_NUMBER])
        if (begin < end).any():
            for found in self.answer(replace(chunk, going=np.zeros(chunk.parts, dtype=bool), closed=None, unsure=end if reads_on else None)):
                self._hold_back(emitted, chunk)
                yield Found(chunk, emitted.new(found.matches))
            self._hold_back(emitted, chunk)
        first = np.where(end < high, np.minimum(closed, np.append(backs, 0)[np.minimum(end, chunk.rows)]), closed)
        before = opens[:, layout.O_COVERED].copy()
        opens[:, layout.O_START], opens[:, layout.O_NUMBER] = end, emitted.number
        opens[:, layout.O_COVERED] = first if self.settles else emitted.waits if self.held is not None else low
        settled = ranges(before, np.maximum(first - before, 0))
        return Left(end, before, lambda *_: state.left(chunk, opens, first[chunk.going], self.task.back), lambda _: settled)

    def _hold_back(self, emitted: EmittedRows, chunk: Chunk) -> None:
        if self.held is not None:
            emitted.hold_back(self.held().latest, chunk)
