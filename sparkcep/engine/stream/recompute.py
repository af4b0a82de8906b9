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
    """The last rows for which a step emits matches. All arrays but ``taken`` are int64 (partitions).

    Attributes:
        begin, end: matches are emitted that end from row ``begin`` to before row ``end``.
        sure: the first row whose window may still change.
        waits: the first row whose window must end before more is emitted, or the partition's end.
        number: the number of the last match, counted on.
        first: the first row that may be in a match emitted later.
        taken: uint8 (rows), marks of the rows in an emitted match.
    """

    begin: np.ndarray
    end: np.ndarray
    sure: np.ndarray
    waits: np.ndarray
    number: np.ndarray
    first: np.ndarray
    taken: np.ndarray

    def hold_back(self, latest: np.ndarray, chunk: Chunk) -> None:
        """Lowers ``end`` to the first row that ends a match whose window may still change.

        ``latest``: int64 (rows), the latest first row of the matches that end at the row, -1 if none does.
        """
        rows = np.flatnonzero(latest >= np.repeat(self.sure, np.diff(chunk.offsets)))
        part = chunk.partition_of(rows)
        held = rows >= self.begin[part]
        np.minimum.at(self.end, part[held], rows[held])
        stuck = np.flatnonzero(self.end < chunk.offsets[1:])
        beginning = latest[self.end[stuck]]
        self.waits[stuck] = np.where(beginning >= self.sure[stuck], beginning, self.waits[stuck])


class NewMatchTables(Tables):
    """Makes output only of the matches whose last rows are emitted now."""

    emitted: EmittedRows | None = None

    def new(self, found: MatchBatch) -> np.ndarray:
        """The matches whose last rows are emitted now. int64."""
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
        """Output of those ``rows`` that are in no match. ``nothing``: an empty batch with all columns of a match."""
        assert self.emitted is not None
        yield from super().of(chunk, with_unmatched(nothing, rows, chunk, self.emitted.taken))


class HeldBack:
    """Lists matches, and holds back the rows that must wait: those where a match ends whose window may still change."""

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
    """The operator that recomputes windows.

    Attributes:
        answer: makes the output of whole partitions by ``tables``.
        said: makes an empty batch with all columns of a match; only needed if rows in no match are asked for.
        unmatched: whether they are.
        behind: whether a negation looks at rows after a match.
    """

    saves, initial = AT_START, NOTHING_OPEN

    def __init__(self, task: Task, answer: Callable[[Chunk], Iterator[pa.Table]], tables: NewMatchTables, nothing: Callable[[Chunk], MatchBatch] | None = None) -> None:
        self.task, self.answer, self.tables, self.said = task, answer, tables, nothing
        self.unmatched, self.behind = nothing is not None, task.prepared.strategy.emission.looks_behind

    @property
    def waits(self) -> bool:
        """Whether something may be emitted when a window ends, without a new row."""
        return self.unmatched or self.behind

    def ends(self, state: ResumeState, kept: RowsAtWatermark) -> np.ndarray:
        """When the last kept row of each partition is dropped, or the window of an awaited row ends."""
        return window_ends(kept, state.covered if self.waits else None)

    def nothing(self, chunk: Chunk) -> MatchBatch:
        return self.said(chunk) if self.said is not None else super().nothing(chunk)

    def step(self, chunk: Chunk, state: ResumeState) -> Generator[pa.Table, None, Saved]:
        """Emits the new matches, and saves the rows that may share a window with a future row."""
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
