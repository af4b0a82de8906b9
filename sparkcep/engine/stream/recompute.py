"""Answers for each last row of a match over open partitions: the rows of a window are searched again, and only what is new is told.

What ends at a row depends on the rows of the window that ends there. So of a partition are kept the rows of which a row to come may
have one in its window, and each search goes through them and those that came. Told is what ends at rows that were not told before,
and behind which stand all rows that conditions and measures may look ahead at.

A negation behind the last row looks at rows up to the end of the match's window. Then what ends at a row waits for the windows of
all matches that end there (:class:`HeldBack`), and what ends at later rows waits behind it. Where a negated row is one by rows to
come, it counts as none, so that no match is hidden that they may show.

A row is in no match once all is told that ends at rows of its window, and no row to come has it in its window. Rows from that one
on are kept, and marks of those that are in a match, since its first row may be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import numbered, ranges
from sparkcep.engine.core.chunk import Chunk, Saved
from sparkcep.engine.core.matches import MatchBatch, with_unmatched
from sparkcep.engine.core.operator import BaseOperator, RowsAtWatermark, window_ends
from sparkcep.engine.core.resume import AT_START, NOTHING_OPEN, ResumeState
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import first_ending_behind, plan_windows
from sparkcep.engine.match.enumeration import MatchSearch
from sparkcep.engine.output.columns_out import end_rows
from sparkcep.engine.output.tables import Tables
from sparkcep.kernels.common import layout


@dataclass
class EmittedRows:
    """Which rows of each partition are told now: int64 (partitions) from ``begin`` to before ``end``; ``sure``: the first row whose
    window may still change; ``waits``: a row whose window has to end before more can be told, or behind all rows; ``number``: of
    the last match, counted on; ``first``: from which row on rows may be in a match that is told later. ``taken`` uint8 (rows):
    marks of those in a match that is told."""

    begin: np.ndarray
    end: np.ndarray
    sure: np.ndarray
    waits: np.ndarray
    number: np.ndarray
    first: np.ndarray
    taken: np.ndarray

    def hold_back(self, latest: np.ndarray, chunk: Chunk) -> None:
        """Nothing is told from the first row on at which a match ends whose window may still change. ``latest`` int64 (rows): the
        last one at which a match begins that ends at each, -1 without one."""
        rows = np.flatnonzero(latest >= np.repeat(self.sure, np.diff(chunk.offsets)))
        part = chunk.partition_of(rows)
        held = rows >= self.begin[part]
        np.minimum.at(self.end, part[held], rows[held])
        stuck = np.flatnonzero(self.end < chunk.offsets[1:])
        beginning = latest[self.end[stuck]]
        self.waits[stuck] = np.where(beginning >= self.sure[stuck], beginning, self.waits[stuck])


class NewMatchTables(Tables):
    """Makes output of the matches alone that end at rows which are told now."""

    emitted: EmittedRows | None = None

    def new(self, found: MatchBatch) -> np.ndarray:
        """int64: the matches that end at rows which are told now."""
        assert self.emitted is not None
        matches = np.flatnonzero(found.events[:, layout.E_ROWS] > 0)
        if not len(matches):
            return matches
        events = found.events[matches]
        part, last = events[:, layout.E_PART], end_rows(events, found.rows)[1]
        return matches[(last >= self.emitted.begin[part]) & (last < self.emitted.end[part])]

    def of(self, chunk: Chunk, found: MatchBatch) -> Iterator[pa.Table]:
        assert self.emitted is not None
        new = self.new(found)
        if not len(new):
            return
        by_event = {name: values if name == "kind" else values.take(pa.array(new)) for name, values in found.by_event.items()}
        chosen = replace(found.chosen(new), by_event=by_event)
        part = chosen.events[:, layout.E_PART]
        chosen.events[:, layout.E_NUMBER] = numbered(part) + 1 + self.emitted.number[part]
        np.add.at(self.emitted.number, part, 1)
        self.emitted.taken[chosen.rows] = 1
        yield from super().of(chunk, chosen)

    def unmatched(self, chunk: Chunk, nothing: MatchBatch, rows: np.ndarray) -> Iterator[pa.Table]:
        """Output of those ``rows`` that are in no match; ``nothing``: no match, with all that is said of one."""
        assert self.emitted is not None
        yield from super().of(chunk, with_unmatched(nothing, rows, chunk, self.emitted.taken))


class HeldBack:
    """Lists matches, and holds back what ends at rows at which one ends whose window may still change."""

    early = None

    def __init__(self, search: MatchSearch, tables: NewMatchTables) -> None:
        self.search, self.tables = search, tables

    def over(self, chunk: Chunk, state: ResumeState) -> HeldBack:
        self.chunk, self.matches = chunk, self.search.over(chunk, state)
        return self

    def rounds(self) -> Iterator[MatchBatch]:
        assert self.tables.emitted is not None
        latest = np.full(self.chunk.rows, -1)
        for found in self.matches.rounds():
            events = found.events[found.events[:, layout.E_ROWS] > 0]
            first, last = end_rows(events, found.rows)
            np.maximum.at(latest, last, first)
            yield found
        self.tables.emitted.hold_back(latest, self.chunk)


class Recompute(BaseOperator):
    """Searches the rows of windows again. ``answer``: makes output of whole partitions by ``tables``; ``nothing``: no match of a
    chunk, with all that is said of one, where rows in no match are asked for."""

    saves, initial = AT_START, NOTHING_OPEN

    def __init__(self, task: Task, answer: Callable[[Chunk], Iterator[pa.Table]], tables: NewMatchTables, nothing: Callable[[Chunk], MatchBatch] | None = None) -> None:
        self.task, self.answer, self.tables, self.said = task, answer, tables, nothing
        self.unmatched, self.behind = nothing is not None, task.prepared.strategy.emission.looks_behind

    @property
    def waits(self) -> bool:
        """Whether something may be told when a window ends though no row came."""
        return self.unmatched or self.behind

    def ends(self, state: ResumeState, kept: RowsAtWatermark) -> np.ndarray:
        """When nothing is kept of a partition if no row of it comes, or the window of a row ends that something waits for."""
        return window_ends(kept, state.covered if self.waits else None)

    def nothing(self, chunk: Chunk) -> MatchBatch:
        return self.said(chunk) if self.said is not None else super().nothing(chunk)

    def step(self, chunk: Chunk, state: ResumeState) -> Generator[pa.Table, None, Saved]:
        """Tells what is new, and leaves the rows that one to come may have in its window."""
        assert chunk.closed is not None
        opens = state.opens(chunk)
        low, high = chunk.offsets[:-1], chunk.offsets[1:]
        begin, ahead = opens[:, layout.O_START], self.task.awaited
        end = np.maximum(begin, np.where(chunk.going, high - ahead, high))
        ends, backs = plan_windows(self.task.plan.windows, chunk.columns, chunk.offsets)
        closed = np.where(chunk.going, chunk.closed, high)
        taken = np.zeros(chunk.rows, dtype=np.uint8)
        if len(state.taken):
            taken[ranges(low[: len(state.rows)], state.rows)] = state.taken
        sure = np.minimum(closed, first_ending_behind(end, ends[0], chunk)) if self.behind and ahead else closed
        self.tables.emitted = emitted = EmittedRows(begin, end, sure, high.copy(), opens[:, layout.O_NUMBER], low, taken)
        if (begin < end).any():
            unsure = end if self.behind and ahead else None
            yield from self.answer(replace(chunk, going=np.zeros(chunk.parts, dtype=bool), closed=None, unsure=unsure))
        first = np.where(end < high, np.minimum(closed, np.append(backs, 0)[np.minimum(end, chunk.rows)]), closed)
        emitted.first, covered = first, emitted.waits if self.behind else low
        if self.unmatched:
            before, covered = opens[:, layout.O_COVERED], first
            yield from self.tables.unmatched(chunk, self.nothing(chunk), ranges(before, first - before))
        opens[:, layout.O_START], opens[:, layout.O_NUMBER], opens[:, layout.O_COVERED] = end, emitted.number, covered
        return state.left(chunk, opens, first[chunk.going], self.task.back, taken if self.unmatched else None)
