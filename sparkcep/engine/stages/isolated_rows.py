"""Isolated rows: rows that are retained for a stage, around an operator that searches all its retained rows again.

They come before the rows that are searched again, with gaps between them, and the operator does not see them. Bundles
(:class:`sparkcep.engine.stages.bundles.MatchBundles`) need the rows of the best match so far, with the neighbours that measures
read. They also need the rows of the first and the last match point.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ranges
from sparkcep.engine.core.chunk import Chunk, Retained, Saved, columns_of
from sparkcep.engine.core.operator import Flow, Found, Left, Operator
from sparkcep.engine.core.resume import ResumeState
from sparkcep.engine.core.state_codec import FAR, POINTS, Ragged, StateColumns, StateSchema, ascending, check_numbers, signature_of
from sparkcep.engine.core.task import Task
from sparkcep.kernels.common import layout
from sparkcep.plan.reach import Reach

_NONE = np.zeros(0, dtype=np.int64)
_NO_MARKS = np.zeros(0, dtype=np.uint8)


@dataclass(frozen=True)
class IsolatedState(ResumeState):
    """The state of an operator with isolated rows before those that it searches again.

    Attributes:
        start, covered: counted from the first retained row.
        dropped: the position of the first row that is searched again, less the number of isolated rows.
        lone: int64 (partitions), how many isolated rows are retained. They precede those that are searched again.
        places: int64, the positions of the isolated rows.
    """

    lone: np.ndarray = field(default_factory=lambda: _NONE)
    places: np.ndarray = field(default_factory=lambda: _NONE)

    def positions(self, offsets: np.ndarray) -> np.ndarray:
        """The position of each row of a buffer in its partition."""
        out = super().positions(offsets)
        out[ranges(offsets[: len(self.rows)], self.lone)] = self.places
        return out

    def columns(self) -> StateColumns:
        """The columns of the state, see :class:`sparkcep.engine.core.state_codec.State`."""
        own = super().columns()
        return StateColumns(self.rows, own.numbers | {"lone": self.lone}, own.lists | {"places": Ragged(self.places, self.lone)})

    def searched(self) -> ResumeState:
        """The state for only the rows that are searched again."""
        return ResumeState(self.rows - self.lone, self.start - self.lone, self.number, self.covered - self.lone, self.dropped + self.lone, _NO_MARKS)


class IsolatedRows(Operator):
    """Retains isolated rows beside those of an operator."""

    initial = IsolatedState.of(_NONE)

    def __init__(self, task: Task, inner: Operator) -> None:
        self.task, self.inner = task, inner
        net = task.prepared.strategy.automaton
        lists = {"taken": np.dtype(np.uint8), "places": np.dtype(np.int64)}
        self.saves = StateSchema(POINTS, _restored, (*ResumeState.numbers, "lone"), lists, signature_of(net.edges, net.first))
        # how many rows before and after a row of a match leaves read
        self.back, self.ahead = Reach.of_measures(task.plan)

    def leaving(self, chunk: Chunk, state: IsolatedState) -> Generator[Found, None, Left]:
        searched, rows = _searched(chunk, state)
        flow = Flow(self.inner.leaving(searched, state.searched()))
        for found in flow:
            matches = found.matches
            events = matches.events.copy()
            events[:, layout.E_START] = rows[events[:, layout.E_START]]
            yield Found(chunk, replace(matches, events=events, rows=rows[matches.rows]))
        left = flow.result
        until = np.where(left.until < searched.offsets[1:], np.append(rows, 0)[np.minimum(left.until, len(rows))], chunk.offsets[1:])
        return Left(
            until, chunk.offsets[:-1] + state.covered, lambda read, others: self._saved(chunk, rows, left.saved(_NONE, _NONE), read, others),
            lambda saved: rows[left.settled(saved)],
        )  # fmt: skip

    def due(self, state: IsolatedState, rows: pa.Table, watermark: int) -> np.ndarray:
        return self.inner.due(state, rows, watermark)

    def _saved(self, chunk: Chunk, rows: np.ndarray, inner: Saved, read: np.ndarray, others: np.ndarray) -> Saved:
        """The saved state. ``rows``: int64, the chunk's rows that were searched. ``inner``: the state for these alone."""
        begin = chunk.first_of(rows[inner.rows])[chunk.going]  # all rows from here on are searched again
        around, own = read[:, None] + np.arange(-self.back, self.ahead + 1), chunk.partition_of(read)
        inside = (around >= chunk.offsets[own, None]) & (around < chunk.offsets[own + 1, None])
        kept = Retained(chunk, begin, np.concatenate([around[inside], others]))
        lone, state = kept.within(begin), inner.state
        places = chunk.positions[kept.rows[ranges(kept.begins, lone)]]
        return Saved(IsolatedState(kept.sizes, state.start + lone, state.number, state.covered + lone, state.dropped - lone, _NO_MARKS, lone, places), kept.rows)


def _searched(chunk: Chunk, state: IsolatedState) -> tuple[Chunk, np.ndarray]:
    """The rows that are searched again as a chunk, and their numbers in the given chunk, int64."""
    lone = state.lone
    low, sizes = chunk.offsets[:-1] + lone, np.diff(chunk.offsets) - lone
    rows = ranges(low, sizes)
    if not lone.any():
        return chunk, rows
    assert chunk.closed is not None
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    table = chunk.table.take(pa.array(rows)).combine_chunks()
    positions, closed = chunk.positions[rows], np.maximum(chunk.closed - low, 0) + offsets[:-1]
    return replace(chunk, table=table, columns=columns_of(table, chunk.columns), offsets=offsets, place=lambda _: positions, closed=closed), rows


def _restored(columns: StateColumns) -> IsolatedState:
    """The state with these columns. Raises ValueError if no step can have left it."""
    rows, (taken, marks), (places, apart) = columns.rows, columns.lists["taken"], columns.lists["places"]
    start, number, covered, dropped, lone = (columns.numbers[name] for name in (*ResumeState.numbers, "lone"))
    check_numbers(
        apart == lone, (marks == rows) | (len(taken) == 0), taken <= 1, lone >= 0, lone <= np.minimum(start, covered), np.maximum(start, covered) <= rows,
        number >= 0, number < FAR, np.abs(dropped) < FAR, ascending(places, apart), places >= 0, places < np.repeat(dropped + lone, apart),
    )
    return IsolatedState(rows, start, number, covered, dropped, taken, lone, places)
