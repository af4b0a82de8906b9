"""SHOW UNFINISHED MATCHES over a stream: reports each start row once it is decided, in the order of start rows.

A start row is undecided while one of its runs is open and goes before its match. The watermark is the clock. So a run that times
out is reported as soon as the watermark passes the end of its last window, with or without further rows of its key.

Nothing of a run is saved. The state has the rows from the first undecided start row on, and the row up to which reported runs reach
(``covered``), because start rows up to there are not reported (AFTER MATCH SKIP). A step searches again from the first undecided
start row, and ends at the next one. It goes through each decided start row once, and costs the rows in reach of the undecided one.

The search for matches goes as far as matches are final (:class:`sparkcep.engine.match.enumeration.Enumeration`). With windows of
groups, with negations, and if conditions look at the match, it may wait longer than a start row is undecided. With these, or if it
stops at a start row without open runs, matches are searched as if partitions had ended. Those of undecided start rows are dropped.

Example: ``A B`` within 5, and the rows 0 (A), 3 (A) and 4 (none of them), under SKIP TILL NEXT MATCH. At the watermark 4 both A may
still be followed by a B, so row 0 is the first undecided one. At the watermark 5 its window has ended. It is reported as timed out,
and the state has the rows 3 and 4. They are due when the watermark is 7.999999, because all future rows are then at 8 or later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ranges
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.operator import NOTHING_DUE, Found, Operator, RowsAtWatermark, Step
from sparkcep.engine.core.resume import AT_START, NOTHING_OPEN, ResumeState
from sparkcep.engine.core.task import Task
from sparkcep.engine.match.enumeration import Matches, MatchSearch, drop_earlier_rows
from sparkcep.engine.match.unfinished import PartitionClock, RunSearch, UnfinishedMatches, matches_of
from sparkcep.kernels.common import layout
from sparkcep.kernels.common.layout import E_LABELS, E_PART, E_ROWS, E_START
from sparkcep.kernels.match import unfinished as kernels
from sparkcep.plan.reach import Reach


@dataclass(frozen=True)
class UndecidedState(ResumeState):
    """The state, and the watermark that decides the first undecided start row of each partition. int64 (partitions).

    It is not saved: the stream saves when a key is due.
    """

    decided: np.ndarray


class UnfinishedStream(Operator):
    """Emits matches and unfinished matches over a stream."""

    saves, initial = AT_START, NOTHING_OPEN

    def __init__(self, task: Task, search: MatchSearch) -> None:
        self.task, self.search, self.batch = task, search, UnfinishedMatches(task, search)
        self.ahead = Reach.of(task.plan).ahead
        prepared = task.prepared
        self.waits = prepared.conditions.has_history or len(task.plan.windows) > 1 or prepared.strategy.automaton.negates

    def step(self, chunk: Chunk, state: ResumeState) -> Step:
        """Searches the chunk, and returns the state with the rows that a later attempt may look at."""
        opens = state.opens(chunk)
        begin, number = opens[:, layout.O_START].copy(), opens[:, layout.O_NUMBER].copy()
        found = None if self.waits else self._going(chunk, state, opens)
        found = found or self._as_ended(chunk, state, opens)
        until = self._until(found)
        matches, farthest = _before(until, found.matches), _before(until, found.farthest)
        marks, settled = state.marks(chunk), ranges(begin, until - begin)
        rest = (lambda marks: settled[marks[settled] == 0]) if self.task.plan.rows == "unmatched" else None
        shown = self.batch.shown_of(matches, farthest, found.runs, found.clock, rest, marks)
        if len(shown.events):
            yield Found(chunk, shown)
        opens[:, layout.O_START] = until
        opens[:, layout.O_NUMBER] = number + np.bincount(matches.events[:, E_PART], minlength=chunk.parts)
        np.maximum.at(opens[:, layout.O_COVERED], farthest.events[:, E_PART], last_rows_of(farthest) + 1)
        saved, parts = found.over.left_in(chunk, opens, marks), np.flatnonzero(chunk.going)
        decided = np.where(until[parts] == found.runs.growing.until[parts], found.decided[parts], NOTHING_DUE)
        return replace(saved, state=UndecidedState.extended(saved.state, decided=decided))

    def _going(self, chunk: Chunk, state: ResumeState, opens: np.ndarray) -> _Searched | None:
        """Searches as far as matches are final. Returns None if the search stops at a start row that may be decided."""
        over = self.search.over(chunk, replace(state, covered=state.start))
        matches, high = matches_of(over), chunk.offsets[1:]
        reached = np.where(chunk.going, over.opens[:, layout.O_START], high)
        found = self._runs(over, chunk, opens, matches, reached)
        undecided = found.runs.growing.until
        return found if (undecided <= reached).all() else None

    def _as_ended(self, chunk: Chunk, state: ResumeState, opens: np.ndarray) -> _Searched:
        """Searches all rows as if partitions got no more."""
        ended = replace(chunk, going=np.zeros(chunk.parts, dtype=bool), closed=None)
        over = self.search.over(ended, replace(state, covered=state.start))
        return self._runs(over, chunk, opens, matches_of(over), chunk.offsets[1:])

    def _runs(self, over: Matches, chunk: Chunk, opens: np.ndarray, matches: MatchBatch, reached: np.ndarray) -> _Searched:
        """Searches the farthest runs of the start rows up to the first undecided one, or to ``reached``. int64 (partitions)."""
        clock, sizes, high = self.batch.clock(chunk, over.windows), np.diff(chunk.offsets), chunk.offsets[1:]
        tried, before = self.batch.starts(chunk, matches)
        tried[np.arange(chunk.rows) > np.repeat(reached, sizes)] = 0
        at, counts = np.full(chunk.rows, -1), np.zeros(chunk.rows, dtype=np.int64)
        at[matches.events[:, E_START]], counts[matches.events[:, E_START]] = matches.events[:, E_LABELS], matches.events[:, E_ROWS]
        nothing = np.full(chunk.parts, NOTHING_DUE)
        growing = kernels.Growing(
            np.where(chunk.cut, -1, chunk.offsets[:-1]), opens[:, layout.O_START].copy(), chunk.going.astype(np.uint8), at, counts, matches.rows, matches.labels, opens[:, layout.O_COVERED].copy(),
            high.copy(), nothing, np.zeros(2, dtype=np.int64),
        )
        starts = kernels.Starts(tried, before + np.repeat(opens[:, layout.O_NUMBER], sizes), self.batch.all_starts)
        runs = RunSearch(self.batch, over, starts, clock.windows, growing)
        farthest = runs.all()
        decided = np.where((growing.moments < kernels.NEVER) & (clock.moments is not None), growing.moments - 1, NOTHING_DUE)
        return _Searched(over, matches, farthest, runs, clock, decided)

    def _until(self, found: _Searched) -> np.ndarray:
        """Returns the first start row of each partition that is not reported. int64 (partitions).

        It is undecided, or NEXT reads rows after its match that have not come.
        """
        until, chunk = found.runs.growing.until.copy(), found.runs.chunk
        going, high = found.runs.growing.going, chunk.offsets[1:]
        for some in (found.matches, found.farthest) if self.ahead else ():
            part = some.events[:, E_PART]
            waits = np.flatnonzero((last_rows_of(some) + self.ahead >= high[part]) & (going[part] == 1))
            np.minimum.at(until, part[waits], some.events[waits, E_START])
        return until

    def due(self, state: UndecidedState, rows: pa.Table, watermark: int) -> np.ndarray:
        return np.minimum(super().due(state, rows, watermark), state.decided)

    def ends(self, state: ResumeState, kept: RowsAtWatermark) -> np.ndarray:
        """Returns when rows are dropped that are kept for a negation before a match alone. int64 (partitions)."""
        due = np.full(len(state.rows), NOTHING_DUE)
        if self.task.prepared.strategy.emission.looks_before:
            drop_earlier_rows(due, kept.first + state.start, state, kept)
        return due

    def under_way(self, state: ResumeState) -> np.ndarray:
        return state.start


@dataclass(frozen=True)
class _Searched:
    """The result of the searches of a step.

    Attributes:
        over, matches: the search for matches, and the matches.
        runs, farthest: the search for runs, and the farthest ones.
        clock: the clock of the partitions.
        decided: the watermark that decides the first undecided start row of each partition. int64 (partitions).
    """

    over: Matches
    matches: MatchBatch
    farthest: MatchBatch
    runs: RunSearch
    clock: PartitionClock
    decided: np.ndarray


def _before(until: np.ndarray, some: MatchBatch) -> MatchBatch:
    """Returns the matches that begin before ``until``. int64 (partitions)."""
    return some.chosen(np.flatnonzero(some.events[:, E_START] < until[some.events[:, E_PART]]))


def last_rows_of(some: MatchBatch) -> np.ndarray:
    """Returns the last row of each match, its start row if it is empty. int64 (matches)."""
    last = some.events[:, E_START].copy()
    rows = np.flatnonzero(some.events[:, E_ROWS] > 0)
    last[rows] = some.rows[some.events[rows, E_LABELS] + some.events[rows, E_ROWS] - 1]
    return last
