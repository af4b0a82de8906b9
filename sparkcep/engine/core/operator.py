"""The pipeline of a clause: an operator finds matches, stages around it change them, and a sink makes output of them.

An operator goes through the rows of partitions that may still grow. A table is the special case without growing partitions. A stage
is an operator around another one. So the engine, a stream and its report call the same methods on every search.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import words
from sparkcep.compiler.emission import window_of
from sparkcep.engine.core.chunk import Chunk, Saved
from sparkcep.engine.core.matches import MatchBatch, unmatched
from sparkcep.engine.core.state_codec import StateSchema
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import whole_micros
from sparkcep.engine.output.tables import Tables
from sparkcep.plan.options import MICROS
from sparkcep.plan.records import Window

Item, Result = TypeVar("Item"), TypeVar("Result")
NOTHING_DUE = np.iinfo(np.int64).max
_NONE = np.zeros(0, dtype=np.int64)


class Found(NamedTuple):
    """Matches on their way from an operator to the output. They are valid until the next ones are requested.

    Attributes:
        chunk: the chunk of their rows.
        matches: the matches.
        settled: the rows of the chunk for which it is now final whether a match has them. int64; None if there are none.
    """

    chunk: Chunk
    matches: MatchBatch
    settled: np.ndarray | None = None


Answer = Callable[[Chunk], Iterator[Found]]
"""Finds the matches of whole partitions."""
Step = Generator[Found, None, Saved]
"""One step of an operator. It yields all final matches, and returns the saved state of the growing partitions."""


class Left(NamedTuple):
    """The rest of a step whose stage retains further rows.

    Attributes:
        until: the first row of each partition whose matches are not known yet, or the partition's end. int64 (partitions).
        covered: the row of each partition up to which earlier steps have settled all rows. int64 (partitions).
        saved: returns the saved state, given rows whose neighbours measures read, and further rows. int64 each.
        settled: returns the rows that this step settles, given the saved state.
    """

    until: np.ndarray
    covered: np.ndarray
    saved: Callable[[np.ndarray, np.ndarray], Saved]
    settled: Callable[[Saved], np.ndarray]


class Flow(Generic[Item, Result]):
    """Iterates over what a step yields. Then ``result`` is what it returns."""

    result: Result

    def __init__(self, step: Generator[Item, None, Result]) -> None:
        self.step = step

    def __iter__(self) -> Iterator[Item]:
        self.result = yield from self.step


class Operator:
    """Goes through the rows of a chunk. A subclass has :meth:`leaving`, or :meth:`step` if no stage retains rows by it.

    Attributes:
        initial: the state of partitions before their first rows.
        saves: how states are saved as bytes.
    """

    task: Task
    initial: Any
    saves: StateSchema

    def leaving(self, chunk: Chunk, state: Any) -> Generator[Found, None, Left]:
        """Yields all final matches, and returns what is left of the growing partitions."""
        raise NotImplementedError

    def step(self, chunk: Chunk, state: Any) -> Step:
        """Yields all final matches, and returns the saved state of the growing partitions."""
        left = yield from self.leaving(chunk, state)
        saved = left.saved(_NONE, _NONE)
        yield Found(chunk, MatchBatch.none(), left.settled(saved))
        return saved

    def answer(self, chunk: Chunk) -> Iterator[Found]:
        """Yields the matches of whole partitions."""
        return self.step(chunk, self.initial)

    def due(self, state: Any, rows: pa.Table, watermark: int) -> np.ndarray:
        """Returns the watermark that makes each partition due: it emits or drops something although it gets no row.

        Args:
            state: the saved state of the partitions.
            rows: their retained rows.
            watermark: the present one, in microseconds.

        Returns:
            Microseconds, NOTHING_DUE if no watermark makes the partition due. int64 (partitions).
        """
        if window_of(self.task.plan).kind == MICROS:
            return self.ends(state, RowsAtWatermark(self.task, state.rows, rows, watermark))
        return np.full(len(state.rows), NOTHING_DUE)

    def ends(self, state: Any, kept: RowsAtWatermark) -> np.ndarray:
        """Returns the watermark that makes each partition due if WINDOW is a time interval. int64 (partitions)."""
        raise NotImplementedError

    def under_way(self, state: Any) -> np.ndarray:
        """Returns the first row of a match in progress, counted from the first retained row. int64 (partitions).

        Without such a match it is the number of retained rows.
        """
        return np.zeros_like(state.rows)

    def forgetting(self, state: Any, numbers: bool, positions: bool) -> Any:
        """Drops the numbers that nothing asks for from the state of the partitions.

        Args:
            numbers: whether something asks for match numbers.
            positions: whether something asks for the positions of rows.
        """
        return state.forgetting(numbers, positions)


class Stage(Operator):
    """A stage: an operator around another one. It passes on what it does not change."""

    def __init__(self, inner: Operator) -> None:
        self.inner, self.initial, self.saves = inner, inner.initial, inner.saves

    def due(self, state: Any, rows: pa.Table, watermark: int) -> np.ndarray:
        return self.inner.due(state, rows, watermark)

    def under_way(self, state: Any) -> np.ndarray:
        return self.inner.under_way(state)

    def forgetting(self, state: Any, numbers: bool, positions: bool) -> Any:
        return self.inner.forgetting(state, numbers, positions)

    def use(self, history: list[dict[str, Any]]) -> None:
        """Takes the rows of a new history (USING HISTORY), which the next steps read."""
        self.inner.use(history)


@dataclass(frozen=True)
class Pipeline:
    """An operator with its stages around it, and the sink of its matches."""

    operator: Operator
    sink: Tables

    def step(self, chunk: Chunk, state: Any) -> Generator[pa.Table, None, Saved]:
        """Yields the output of all final matches, and returns the saved state of the growing partitions."""
        flow = Flow(self.operator.step(chunk, state))
        for found in flow:
            yield from self.sink.of(found.chunk, found.matches)
        return flow.result

    def in_no_match(self, chunk: Chunk) -> Iterator[pa.Table]:
        """Yields the output of rows that no operator sees, because they cannot be in a match."""
        return self.sink.of(chunk, unmatched(np.arange(chunk.rows), chunk))


class RowsAtWatermark:
    """The retained rows of open partitions, at a watermark.

    Attributes:
        time: the time of each row, in microseconds. int64 (rows).
        first: the first row of each partition. int64 (partitions).
        end: the row after the last one of each partition. int64 (partitions).
        size: the size of WINDOW, in microseconds.
        watermark: the watermark, in microseconds.
        last: see :func:`last_begin`.
    """

    def __init__(self, task: Task, sizes: np.ndarray, rows: pa.Table, watermark: int) -> None:
        """Takes the ``rows`` of partitions with ``sizes`` rows each. WINDOW must be a time interval."""
        window = window_of(task.plan)
        self.time, self.size, self.watermark = words(rows.column(window.order).combine_chunks()), whole_micros(window.size), watermark
        self.end = np.cumsum(sizes)
        self.first, self.last = self.end - sizes, last_begin(window, watermark)

    def ended(self) -> np.ndarray:
        """Returns how many rows of each partition have a window that has closed. int64 (partitions)."""
        ended = np.concatenate([[0], np.cumsum(self.time <= self.last)])
        return ended[self.end] - ended[self.first]


def last_begin(window: Window, watermark: int) -> int:
    """Returns the latest begin time of a window that has closed, in microseconds. Future rows are later than the watermark."""
    return watermark + 1 - whole_micros(window.size)


def window_ends(kept: RowsAtWatermark, covered: np.ndarray | None = None) -> np.ndarray:
    """Returns when the window of each partition's last row closes, or that of an earlier row that something waits for.

    Args:
        kept: the retained rows.
        covered: how many rows of each partition nothing waits for. int64 (partitions). None if nothing waits at all.

    Returns:
        Microseconds, NOTHING_DUE for a partition without such a row. int64 (partitions).
    """
    due = np.full(len(kept.end), NOTHING_DUE)
    some = np.flatnonzero(kept.end > kept.first)
    last = kept.time[kept.end[some] - 1]
    waits = last > kept.last
    due[some[waits]] = last[waits] + kept.size - 1
    if covered is not None:  # the next row that something waits for, or the next row whose window closes
        at = kept.first + np.maximum(covered, kept.ended())
        waiting = np.flatnonzero(at < kept.end)
        due[waiting] = np.minimum(due[waiting], kept.time[at[waiting]] + kept.size - 1)
    return due
