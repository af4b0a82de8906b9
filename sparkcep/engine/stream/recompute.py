"""Recomputation: a search starts over with all retained rows, and only matches that are final now are emitted.

The engine uses it if the answer at a row depends on all rows of the window that ends there, or of the partition. :class:`Recompute`
is the operator. A :class:`Final` says which rows are searched, which matches are final, and which rows are retained:

- :class:`LastRows`: by last row, for what ends at a row.
- :class:`sparkcep.engine.stream.window_close.ClosedWindows`: by sliding window, for TOP k.
- :class:`EndedPartitions`: by partition, for tables.

:class:`LastRows` retains the rows that may share a window with a future row, and each step searches these and the new rows. A match
is emitted once: when its last row is new and every row that NEXT may read has arrived.

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
from typing import NamedTuple

import numpy as np

from sparkcep.columns.arrays import ranges
from sparkcep.compiler.emission import BUNDLE
from sparkcep.engine.core.chunk import Chunk, Saved
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.operator import NOTHING_DUE, Answer, Found, Left, Operator, RowsAtWatermark, window_ends
from sparkcep.engine.core.resume import AT_START, NOTHING_OPEN, WHOLE_PARTITIONS, ResumeState
from sparkcep.engine.core.state_codec import StateSchema
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import first_ending_behind, plan_windows
from sparkcep.engine.match.enumeration import MatchSearch
from sparkcep.engine.output.columns_out import end_rows
from sparkcep.kernels.common import layout

_NONE = np.zeros(0, dtype=np.int64)


class Round(NamedTuple):
    """One step of a recomputation.

    Attributes:
        searched: the rows to search as whole partitions, None if nothing can be final.
        emitted: returns those of some matches that are final now.
        left: returns what the step leaves, after all matches.
    """

    searched: Chunk | None
    emitted: Callable[[Found], Found]
    left: Callable[[], Left]


class Final:
    """Says what is final in a recomputation. ``saves``: how states are saved as bytes."""

    saves: StateSchema

    def begin(self, chunk: Chunk, state: ResumeState) -> Round:
        """Begins a step."""
        raise NotImplementedError

    def ends(self, state: ResumeState, kept: RowsAtWatermark) -> np.ndarray:
        """See :meth:`sparkcep.engine.core.operator.Operator.ends`."""
        return np.full(len(state.rows), NOTHING_DUE)

    def under_way(self, state: ResumeState) -> np.ndarray:
        """See :meth:`sparkcep.engine.core.operator.Operator.under_way`."""
        return state.start

    def forgetting(self, state: ResumeState, numbers: bool, positions: bool) -> ResumeState:
        """See :meth:`sparkcep.engine.core.operator.Operator.forgetting`."""
        return state.forgetting(numbers, positions)


class Recompute(Operator):
    """The operator that searches its retained rows again.

    Attributes:
        answer: finds the matches of whole partitions.
        final: says which of them are final.
    """

    initial = NOTHING_OPEN

    def __init__(self, task: Task, answer: Answer, final: Final) -> None:
        self.task, self.answers, self.final, self.saves = task, answer, final, final.saves
        self.ends, self.under_way, self.forgetting = final.ends, final.under_way, final.forgetting

    def leaving(self, chunk: Chunk, state: ResumeState) -> Generator[Found, None, Left]:
        step = self.final.begin(chunk, state)
        if step.searched is not None:
            yield from map(step.emitted, self.answers(step.searched))
        return step.left()


def at_once(searched: Chunk | None, chunk: Chunk, saved: Saved) -> Round:
    """Returns a step that emits all matches of the rows searched, and settles no rows for a stage."""
    left = Left(chunk.offsets[1:], chunk.offsets[:-1], lambda *_: saved, lambda _: _NONE)
    return Round(searched, lambda found: found, lambda: left)


class EndedPartitions(Final):
    """Matches are final once their partition gets no more rows, because a match may end at any future row."""

    saves = WHOLE_PARTITIONS

    def begin(self, chunk: Chunk, state: ResumeState) -> Round:
        ended, going = chunk.ended(), np.flatnonzero(chunk.going)
        sizes = np.diff(chunk.offsets)[going]
        return at_once(ended if ended.rows else None, chunk, Saved(ResumeState.of(sizes), ranges(chunk.offsets[going], sizes)))


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

    def hold_back(self, held: Callable[[], HeldBack] | None, chunk: Chunk) -> None:
        """Lowers ``end`` to the first row where a match ends whose window may still change. ``held``: noted the matches."""
        if held is None:
            return
        latest = held().latest
        rows = np.flatnonzero(latest >= np.repeat(self.sure, np.diff(chunk.offsets)))
        part = chunk.partition_of(rows)
        later = rows >= self.begin[part]
        np.minimum.at(self.end, part[later], rows[later])
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


class LastRows(Final):
    """Matches are final by last row. The answer must find all matches before the first one is emitted.

    Attributes:
        held: notes which matches must wait; None if a negation does not look at rows after a match.
        settles: whether a stage asks which rows are settled.
        waits: whether something may be emitted when a window ends, without a new row.
    """

    saves = AT_START

    def __init__(self, task: Task, held: Callable[[], HeldBack] | None) -> None:
        self.task, self.held = task, held
        self.settles = task.plan.rows == "unmatched" or task.prepared.strategy.emission.unit == BUNDLE
        self.waits = task.plan.rows == "unmatched" or held is not None

    def ends(self, state: ResumeState, kept: RowsAtWatermark) -> np.ndarray:
        """When the last kept row of each partition is dropped, or the window of an awaited row ends."""
        return window_ends(kept, state.covered if self.waits else None)

    def under_way(self, state: ResumeState) -> np.ndarray:
        return np.zeros_like(state.rows)

    def begin(self, chunk: Chunk, state: ResumeState) -> Round:
        assert chunk.closed is not None
        opens, high = state.opens(chunk), chunk.offsets[1:]
        begin, ahead = opens[:, layout.O_START], self.task.awaited
        end = np.maximum(begin, np.where(chunk.going, high - ahead, high))
        ends, backs = plan_windows(self.task.plan.windows, chunk.columns, chunk.offsets)
        closed = np.where(chunk.going, chunk.closed, high)
        reads_on = self.held is not None and ahead > 0
        sure = np.minimum(closed, first_ending_behind(end, ends[0], chunk)) if reads_on else closed
        now = EmittedRows(begin, end, sure, high.copy(), opens[:, layout.O_NUMBER])
        whole = replace(chunk, going=np.zeros(chunk.parts, dtype=bool), closed=None, unsure=end if reads_on else None)
        searched = whole if (begin < end).any() else None

        def emitted(found: Found) -> Found:
            now.hold_back(self.held, chunk)
            return Found(chunk, now.new(found.matches))

        def left() -> Left:
            if searched is not None:
                now.hold_back(self.held, chunk)
            before = opens[:, layout.O_COVERED].copy()
            first = np.where(end < high, np.minimum(closed, np.append(backs, 0)[np.minimum(end, chunk.rows)]), closed)
            opens[:, layout.O_START], opens[:, layout.O_NUMBER] = end, now.number
            opens[:, layout.O_COVERED] = first if self.settles else now.waits if self.held is not None else chunk.offsets[:-1]
            settled = ranges(before, np.maximum(first - before, 0))
            return Left(end, before, lambda *_: state.left(chunk, opens, first[chunk.going], self.task.back), lambda _: settled)

        return Round(searched, emitted, left)
