"""Enumeration: lists matches one by one, in bounded memory, or answers for whole partitions.

A partition's rows are retained only from the row where its search resumes. The searches of this package are built on
:class:`Matches`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Protocol

import numpy as np

from sparkcep.engine.core.chunk import Chunk, Saved
from sparkcep.engine.core.errors import EagerConditionError
from sparkcep.engine.core.kernel_loop import KernelLoop, OutputRoom
from sparkcep.engine.core.matches import WIDTH, WITH_ERRORS, MatchBatch
from sparkcep.engine.core.operator import NOTHING_DUE, Found, Operator, RowsAtWatermark, Step
from sparkcep.engine.core.predicates import kernel_data
from sparkcep.engine.core.resume import AT_START, NOTHING_OPEN, ResumeState
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import plan_windows
from sparkcep.engine.match.early_emission import EarlyEmission
from sparkcep.engine.match.scores import Scores, scores_of
from sparkcep.engine.match.topk_heap import TopkHeap
from sparkcep.kernels.common import layout

SKIPS = {
    "past_last": layout.SKIP_PAST_LAST,
    "next_row": layout.SKIP_NEXT_ROW,
    "first": layout.SKIP_FIRST,
    "last": layout.SKIP_LAST,
}


class MatchSearch(Protocol):
    """A search that finds matches one by one.

    Attributes:
        early: when ALL MATCHES is searched under early emission; None without early emission.
    """

    early: EarlyEmission | None

    def over(self, chunk: Chunk, state: ResumeState) -> Matches:
        """Returns the search over a chunk, which resumes from ``state``."""
        ...


class Matches(KernelLoop):
    """A search for matches over one chunk.

    Args:
        task, chunk: the task and its chunk.
        state: the state to resume the search from.
        width: the columns of an event.
        negates: whether a negation may look at rows before a match.
    """

    state_size = layout.STATE_SIZE
    scattered = True  # whether other rows may lie between those of a match

    def __init__(self, task: Task, chunk: Chunk, state: ResumeState, *, width: int = WIDTH, negates: bool = False) -> None:
        super().__init__(task, chunk)
        self.data = kernel_data(task.prepared, chunk)
        self.resumed, self.negates = state, negates
        self.opens = state.opens(chunk)
        self.state = np.zeros(self.state_size, dtype=np.int64)
        self.state[[layout.S_START, layout.S_NUMBER, layout.S_COVERED]] = self.opens[0, [layout.O_START, layout.O_NUMBER, layout.O_COVERED]]
        self.room = OutputRoom(max(1024, chunk.rows // 8), max(1024, chunk.rows), width, rows=self.scattered, paths=width == WITH_ERRORS)
        self.taken = state.marks(chunk) if self.scattered else np.zeros(0, dtype=np.uint8)
        if self.scattered:
            self.windows, self.backs = plan_windows(task.plan.windows, chunk.columns, chunk.offsets)

    def rounds(self) -> Iterator[MatchBatch]:
        """Yields the matches. Under TOP it yields only matches that may be among the best."""
        return self.best(self.every())

    def every(self) -> Iterator[MatchBatch]:
        """Yields all matches. A yielded batch is valid until the next one is requested."""
        return super().rounds()

    def best(self, rounds: Iterator[MatchBatch]) -> Iterator[MatchBatch]:
        """Returns the batches. Under TOP only matches that may be among the best are kept."""
        ranking = self.task.plan.ranking
        return TopkHeap(self.task, self.chunk, self.scores).of(rounds) if ranking is not None and ranking.top else rounds

    @cached_property
    def scores(self) -> Scores | None:
        """The scores of the matches under TOP, None if the engine cannot compute them."""
        return scores_of(self.task, self.chunk, self.data.rows.letters)

    def grow(self) -> None:
        raise AssertionError("it has all the room it needs")

    def widen(self, kept: bool) -> None:
        if kept:
            self.room.double()
            self.check(self.room.nbytes)
        else:
            self.room.widen(int(self.state[layout.S_DETAIL]), self.task.limits.max_state_bytes)

    def found(self) -> MatchBatch:
        return self.room.found(self.state)

    def left(self) -> Saved:
        """Returns the resume state of the growing partitions, with the rows that later attempts may look at."""
        return self.left_in(self.chunk, self.opens, self.taken)

    def left_in(self, chunk: Chunk, opens: np.ndarray, taken: np.ndarray) -> Saved:
        """Returns that state for the rows of a ``chunk`` whose partitions may grow.

        Args:
            chunk: the chunk.
            opens: where the search resumes in its partitions, as the kernel leaves it.
            taken: 1 for rows in a match. uint8 (rows).
        """
        parts = np.flatnonzero(chunk.going)
        first = opens[parts, layout.O_START]
        if self.negates:
            # a future row looks back no farther than the last row here does, and not out of its window
            low, high = chunk.offsets[parts], chunk.offsets[parts + 1]
            back = self.backs[np.clip(first, low, high - 1)]
            if chunk.closed is not None:
                back = np.where(first < high, back, np.maximum(back, chunk.closed[parts]))
            first = np.minimum(first, back)
        marked = self.scattered and self.task.plan.rows == "unmatched"
        return self.resumed.left(chunk, opens, first, self.task.back, taken if marked else None)


def drop_earlier_rows(due: np.ndarray, at: np.ndarray, state: ResumeState, kept: RowsAtWatermark) -> None:
    """Sets when the rows of partitions are dropped that are retained for a negation before a match alone.

    They are retained as long as a future match may have them in its window.

    Args:
        due: the watermark that makes each partition due. int64 (partitions).
        at: its next start row. int64 (partitions).
        state: the saved state.
        kept: the retained rows.
    """
    alone = np.flatnonzero((at == kept.end) & (state.rows > 0))
    last = kept.time[at[alone] - 1]
    due[alone] = np.where(last > kept.last, last + kept.size - 1, NOTHING_DUE)


class DeferringSearch:
    """The search that ``make`` builds, with a fallback that evaluates conditions at candidate rows only.

    If a condition over physical neighbours fails at some row, that row need not be a candidate. Then ``make`` builds the fallback.
    """

    def __init__(self, task: Task, make: Callable[[], MatchSearch]) -> None:
        self.task, self.make, self.search = task, make, make()

    @property
    def early(self) -> EarlyEmission | None:
        """See :class:`MatchSearch`."""
        return self.search.early

    def over(self, chunk: Chunk, state: ResumeState) -> Matches:
        """See :class:`MatchSearch`."""
        try:
            return self.search.over(chunk, state)
        except EagerConditionError:
            net = self.task.prepared.strategy.net
            if net is not None and net.copies is not None:  # variable copies need conditions as letters
                raise
            self.task.prepared = self.task.prepared.deferring()
            self.search = self.make()
            return self.search.over(chunk, state)


Listing = Callable[[], MatchSearch]


def listed(search: MatchSearch, chunk: Chunk) -> Iterator[MatchBatch]:
    """Yields the matches of whole partitions, batch by batch."""
    return search.over(chunk, NOTHING_OPEN).rounds()


class Enumeration(Operator):
    """Emits matches as soon as they are final. It resumes at a start row."""

    saves, initial = AT_START, NOTHING_OPEN

    def __init__(self, task: Task, search: MatchSearch) -> None:
        self.task, self.search = task, search

    def step(self, chunk: Chunk, state: ResumeState) -> Step:
        """Searches the chunk, and returns the state with the rows that a later attempt may look at."""
        matches = self.search.over(chunk, state)
        for found in matches.rounds():
            if len(found.events):
                yield Found(chunk, found)
        return matches.left()

    def ends(self, state: ResumeState, kept: RowsAtWatermark) -> np.ndarray:
        """Returns when the window of each partition's next start row closes. int64 (partitions), in microseconds."""
        due, at = np.full(len(state.rows), NOTHING_DUE), kept.first + state.start
        if self.task.plan.non_overlapping:  # the first match to complete is known once no later row can begin an earlier one
            at = np.maximum(at, kept.first + kept.ended())
        resumed = np.flatnonzero(at < kept.end)
        begun = kept.time[at[resumed]]
        waits = begun > kept.last  # after its window has closed, a row waits for a further row
        due[resumed[waits]] = begun[waits] + kept.size - 1
        if self.task.prepared.strategy.emission.looks_before:
            drop_earlier_rows(due, at, state, kept)
        early = self.search.early
        if early is not None:
            some, when = early.dues(kept.time, state.rows, state.covered)
            due[some] = np.where(when > kept.watermark, np.minimum(due[some], when), due[some])
        return due

    def under_way(self, state: ResumeState) -> np.ndarray:
        return state.start
