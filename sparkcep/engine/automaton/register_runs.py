"""Automaton search: finds the matches of an automaton with registers, with all runs side by side (AFA, VLDB 2010).

:class:`RegisterRuns` drives :mod:`sparkcep.kernels.automaton.register_runs`, which has an example. The engine uses it over tables
and streams. The changelog (:mod:`sparkcep.engine.changelog.changelog`) shares its arrays and its output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ranges
from sparkcep.engine.automaton.consecutive_rows import apart
from sparkcep.engine.automaton.expiry import AT_EXPIRY, ExpiryState, lives
from sparkcep.engine.automaton.lifetimes import lifetimes
from sparkcep.engine.automaton.register_arrays import RegisterArrays, RegisterLoop
from sparkcep.engine.automaton.register_output import WAY, RegisterOutput
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.kernel_loop import MOST_LABELS, doubled
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.operator import NOTHING_DUE, Found, Operator, Step
from sparkcep.engine.core.resume import AT_START, NOTHING_OPEN, ResumeState
from sparkcep.engine.core.task import Task
from sparkcep.kernels.automaton import register_runs as kernels
from sparkcep.kernels.automaton.register_runs import APART, I_WAY, I_WORDS, M_WORDS, O_LIMIT
from sparkcep.kernels.common import layout


class RegisterRuns(Operator):
    """The operator of the automaton search.

    Attributes:
        runs: the arrays of the kernel.
        output: describes the matches.
        expires: whether there are arcs ON EXPIRY.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.runs = RegisterArrays(task)
        self.output = RegisterOutput(self.runs)
        self.expires = self.runs.automaton.expires
        self.saves = AT_EXPIRY if self.expires else AT_START
        self.initial: ResumeState = ExpiryState.of(NOTHING_OPEN.rows) if self.expires else NOTHING_OPEN

    # -- rows ---------------------------------------------------------------------------------------------------------

    def step(self, chunk: Chunk, state: ResumeState) -> Step:
        """Searches the chunk. Saves the rows from the first row of each partition's oldest run on."""
        opens = self._opens(chunk, state)
        before = opens[:, layout.O_COVERED].copy()
        for found in _SideBySide(self, chunk, opens).rounds():
            yield Found(chunk, self.output.described(found))
        first = opens[:, layout.O_COVERED]
        if chunk.watermark is not None:
            first = np.maximum(first, self._first_alive(chunk, opens[:, layout.O_START], chunk.watermark))
        if self.task.plan.rows == "unmatched":  # Runs that begin at ``first`` or later may still take the rows from there on.
            opens[:, layout.O_COVERED] = first = np.where(chunk.going, first, chunk.offsets[1:])
            yield Found(chunk, MatchBatch.none(), ranges(before, np.maximum(first - before, 0)))
        left = state.left(chunk, opens, first[chunk.going], self.task.back)
        return replace(left, state=ExpiryState.extended(left.state, expired_until=opens[chunk.going, O_LIMIT])) if self.expires else left

    def due(self, state: ResumeState, rows: pa.Table, watermark: int) -> np.ndarray:
        """When the lifetimes of all kept rows have ended. If an earlier end already emits something, when the first of them has
        ended."""
        chunk = Chunk.whole(rows.combine_chunks(), self.task.prepared.input_schema.names, np.concatenate([[0], np.cumsum(state.rows)]))
        ends = lifetimes(self.task.plan, chunk, self.task.failures).ends
        some, due = np.flatnonzero(state.rows), np.full(len(state.rows), NOTHING_DUE)
        # An unmatched row is emitted when no run that begins at it can live.
        # An arc ON EXPIRY is taken when the first lifetime ends.
        if len(some) and (self.task.plan.rows == "unmatched" or self.expires):
            ends = np.where(ends > watermark + 1, ends, NOTHING_DUE)
            last = np.minimum.reduceat(ends, chunk.offsets[some])
        else:
            last = np.maximum.reduceat(ends, chunk.offsets[some]) if len(some) else ends
        waits = (last > watermark + 1) & (last < NOTHING_DUE)
        due[some[waits]] = last[waits] - 1
        return due

    def _opens(self, chunk: Chunk, state: ResumeState) -> np.ndarray:
        """The partitions for the kernel, see :func:`sparkcep.engine.automaton.expiry.lives`.

        If it is not known before which time no row can arrive, arcs ON EXPIRY wait for the next row. If it is known, a row's
        matches are emitted at once, and those by its arcs ON EXPIRY later. Numbered matches wait, so that both are numbered in
        order.
        """
        if not self.expires:
            return lives(chunk, state, self.task.ahead, None)
        expired = state.expired_until  # the state is an ExpiryState
        if chunk.limits is None or not self.task.plan.numbered:
            return lives(chunk, state, self.task.ahead if chunk.limits is not None else max(self.task.ahead, 1), None, expired)
        ends = np.append(lifetimes(self.task.plan, chunk, self.task.failures).ends, 0)
        low, high = chunk.offsets[:-1], chunk.offsets[1:]
        # A run ends with the lifetime of any row that it has read, so the last row's lifetime bounds all waits.
        waits = chunk.going & (low < high) & (ends[high - 1] > chunk.limits)
        return lives(chunk, state, self.task.ahead, waits & (self.task.ahead == 0), expired)

    def _first_alive(self, chunk: Chunk, resume: np.ndarray, watermark: int) -> np.ndarray:
        """The first row of each partition that is still alive at the first unsearched row. int64 (partitions).

        A run that begins earlier takes no further row. ``resume``: int64 (partitions), the first unsearched row, or the partition's
        end.
        """
        alive, high = lifetimes(self.task.plan, chunk, self.task.failures), chunk.offsets[1:]
        next = np.where(resume < high, np.append(alive.when, 0)[resume], watermark + 1)
        rows = np.append(np.flatnonzero(alive.ends > np.repeat(next, np.diff(chunk.offsets))), chunk.rows)
        return np.minimum(rows[np.searchsorted(rows, chunk.offsets[:-1])], resume)

    def rounds(self, chunk: Chunk) -> Iterator[MatchBatch]:
        """The matches of whole partitions, in several batches."""
        return _SideBySide(self, chunk, lives(chunk, NOTHING_OPEN, 0, None)).rounds()


class _SideBySide(RegisterLoop):
    """The search over one chunk.

    Attributes:
        opens: the partitions, see :func:`sparkcep.engine.automaton.expiry.lives`.
        stuck: the row where paths were last dropped.
    """

    def __init__(self, search: RegisterRuns, chunk: Chunk, opens: np.ndarray) -> None:
        super().__init__(search.runs, chunk)
        self.output, self.opens = search.output, opens
        self.state[:] = 0
        self.state[kernels.S_ONCE] = self.runs.repeats
        self.runs.forget()
        self.stuck = -1
        self.alive = lifetimes(self.task.plan, chunk, self.task.failures)
        self.rows, self.code = self.runs.of_chunk(chunk, self.alive)
        changes = self.task.plan.changes
        if changes is not None and changes.consecutive:
            self.rows.absent[apart(chunk, changes.consecutive)] |= APART

    def run(self) -> int:
        return kernels.run(self.runs.context(self.runs.present.graph, self.rows, self.code), self.opens, self.state)

    def grow(self) -> None:
        """Drops paths and reported matches that are not needed any longer. If that frees less than half, or if one row needs more,
        makes room for twice as many."""
        state, row = self.state, self.row
        if state[kernels.S_DETAIL] not in (kernels.NUMBERED, kernels.REPORTED):
            super().grow()
            return
        if row != self.stuck:
            self._drop_paths()
            self.stuck = row
            used, room = ((kernels.S_KNOWN_WAYS, self.runs.room.numbered) if state[kernels.S_DETAIL] == kernels.NUMBERED else (kernels.S_REPORTED, self.runs.room.reported))
            if 2 * state[used] < len(room):
                return
        super().grow()

    def _drop_paths(self) -> None:
        """Drops the reported matches of earlier partitions, and the paths that no current run and no match has."""
        room, state, way = self.runs.room, self.state, self.runs.compiled.way
        paths, reported = room.numbered[: state[kernels.S_KNOWN_WAYS] + 1], room.reported[1 : state[kernels.S_REPORTED] + 1]
        own = reported[paths[reported[:, M_WORDS + way], 2] >= self.rows.offsets[state[kernels.S_PART]]]
        records, matches = room.ids[state[kernels.S_SIDE], : state[kernels.S_COUNT]], room.matches[: state[kernels.S_EVENTS]]
        users = records[:, I_WORDS + way], matches[:, M_WORDS + way], own[:, M_WORDS + way]
        used = np.arange(len(paths)) == 0
        ways = np.unique(np.concatenate(users))
        while len(ways := ways[~used[ways]]):
            used[ways] = True
            ways = np.unique(paths[ways, 0])
        place = np.cumsum(used) - 1
        for numbers in users:
            numbers[:] = place[numbers]
        kept = paths[used]
        kept[:, 0] = place[kept[:, 0]]
        room.numbered[: len(kept)], room.reported[1 : len(own) + 1] = kept, own
        state[kernels.S_KNOWN_WAYS], state[kernels.S_REPORTED] = len(kept) - 1, len(own)
        room.way_places[:] = room.reported_places[:] = 0
        kernels.place_ways(len(kept) - 1, room)
        kernels.place_reported(len(own), room)

    def more_ways(self) -> None:
        """Drops the path steps that no current run uses. If almost none is dropped, makes room for twice as many."""
        ways, kept = self.runs.room.ways, self._kept_ways()
        # If nothing was dropped, the paths of one row alone do not fit.
        if 2 * len(kept) > len(ways) or len(kept) == self.state[kernels.S_WAYS]:
            ways = doubled(ways)
        ways[: len(kept)] = kept
        self.state[kernels.S_WAYS] = len(kept)
        self.replace(ways=ways)

    def _kept_ways(self) -> np.ndarray:
        """The path steps that current runs use, compacted. The records of the runs are updated to the new places."""
        room, state = self.runs.room, self.state
        ways, records = room.ways, room.ids[state[kernels.S_SIDE], : state[kernels.S_COUNT]]
        used = np.zeros(len(ways), dtype=bool)
        at = np.unique(records[:, I_WAY])
        at = at[at >= 0]
        while len(at):
            used[at] = True
            at = np.unique(ways[at, 0])
            at = at[(at >= 0) & ~used[np.maximum(at, 0)]]
        place = np.cumsum(used) - 1
        records[:, I_WAY] = np.where(records[:, I_WAY] >= 0, place[records[:, I_WAY]], -1)
        kept = ways[used]
        kept[:, 0] = np.where(kept[:, 0] >= 0, place[kept[:, 0]], -1)
        return kept

    def keeps(self) -> bool:
        return self.state[kernels.S_EVENTS] == 0

    def widen(self, kept: bool) -> None:
        """Replaces the arrays for matches. They are larger if the matches of one row did not fit."""
        matches, labels = len(self.runs.room.events), len(self.runs.room.labels)
        if self.state[kernels.S_DETAIL] == kernels.LABELS:
            labels = max(min(2 * labels, MOST_LABELS), 2 * labels if kept else labels, 2 * int(self.state[kernels.S_ARC]))
        elif kept:
            matches *= 2
        self.replace(**self.runs.match_room(matches, labels))

    def found(self) -> MatchBatch:
        state, runs = self.state, self.runs
        count, used = int(state[kernels.S_EVENTS]), int(state[kernels.S_LABELS])
        state[kernels.S_EVENTS] = state[kernels.S_LABELS] = 0
        events, matches = runs.room.events[:count], runs.room.matches[:count]
        labels = runs.room.labels[:used]
        if not runs.labelled:
            labels = np.zeros(int(events[:, layout.E_ROWS].max(initial=0)), dtype=np.uint8)
        first = events[:, layout.E_START]
        last = first + events[:, layout.E_ROWS] - 1
        if runs.by_ways:
            ways = matches[:, M_WORDS + runs.compiled.way]
            last = runs.room.numbered[ways, 2]
        by_event = self.output.by_event(first, last, matches, self.chunk, self.alive)
        if runs.by_ways:
            by_event[WAY] = pa.array(ways)
        return MatchBatch(events, labels, np.zeros(0, dtype=np.int64), by_event=by_event)
