"""The operator of a search: what the engine, a stream and its report ask of it, whichever search it is.

An operator goes through the rows of partitions that may still grow. A table is the case in which none may.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import words
from sparkcep.compiler.emission import window_of
from sparkcep.engine.core.chunk import Chunk, Saved
from sparkcep.engine.core.matches import WITH_ERRORS, MatchBatch, with_unmatched
from sparkcep.engine.core.state_codec import StateSchema
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import whole_micros
from sparkcep.engine.output.tables import Tables
from sparkcep.plan.options import MICROS
from sparkcep.plan.records import Window

NOTHING_DUE = np.iinfo(np.int64).max


class Operator(Protocol):
    """Goes through the rows of a chunk.

    Attributes:
        initial: what is known of partitions before their first rows.
        saves: how what is known is saved as bytes.
    """

    initial: Any
    saves: StateSchema

    def step(self, chunk: Chunk, state: Any) -> Generator[pa.Table, None, Saved]:
        """Emits what is final, and returns what is kept of the partitions that go on."""
        ...

    def answer(self, chunk: Chunk) -> Iterator[pa.Table]:
        """Output of partitions that are there as a whole."""
        ...

    def due(self, state: Any, rows: pa.Table, watermark: int) -> np.ndarray:
        """The watermark at which something is emitted or forgotten of each partition though no row of it comes.

        Args:
            open: what is known of the partitions.
            rows: their kept rows.
            watermark: the present one, in microseconds.

        Returns:
            int64 (partitions), in microseconds; NOTHING_DUE if no watermark does.
        """
        ...

    def under_way(self, state: Any) -> np.ndarray:
        """The first row of a match under way. int64 (partitions), counted from the first kept row; the number of kept rows if there
        is none."""
        ...

    def forgetting(self, state: Any, numbers: bool, positions: bool) -> Any:
        """Drops from what is known of the partitions the numbers that nothing asks for.

        Args:
            numbers: whether something asks for the numbers of matches.
            positions: whether something asks for the positions of rows.
        """
        ...

    def in_no_match(self, chunk: Chunk, tables: Tables) -> Iterator[pa.Table]:
        """Output of rows that are in no match, made by ``tables``."""
        ...


class BaseOperator:
    """An operator with the answers that most searches share."""

    task: Task
    initial: Any

    def step(self, chunk: Chunk, state: Any) -> Generator[pa.Table, None, Saved]:
        raise NotImplementedError

    def answer(self, chunk: Chunk) -> Iterator[pa.Table]:
        return self.step(chunk, self.initial)

    def due(self, state: Any, rows: pa.Table, watermark: int) -> np.ndarray:
        if window_of(self.task.plan).kind == MICROS:
            return self.ends(state, RowsAtWatermark(self.task, state.rows, rows, watermark))
        return np.full(len(state.rows), NOTHING_DUE)

    def ends(self, state: Any, kept: RowsAtWatermark) -> np.ndarray:
        """The watermark at which each partition is due, if WINDOW is one of time. int64 (partitions)."""
        raise NotImplementedError

    def under_way(self, state: Any) -> np.ndarray:
        return np.zeros_like(state.rows)

    def forgetting(self, state: Any, numbers: bool, positions: bool) -> Any:
        return state.forgetting(numbers, positions)

    def nothing(self, chunk: Chunk) -> MatchBatch:
        """No match of a chunk, with all that is said of one."""
        return MatchBatch.none(WITH_ERRORS)

    def in_no_match(self, chunk: Chunk, tables: Tables) -> Iterator[pa.Table]:
        return tables.of(chunk, self._marked(chunk))

    def _marked(self, chunk: Chunk) -> MatchBatch:
        """The rows of a chunk as rows in no match."""
        return with_unmatched(self.nothing(chunk), np.arange(chunk.rows), chunk)


class RowsAtWatermark:
    """The kept rows of open partitions, at a watermark.

    Attributes:
        time: int64 (rows), in microseconds.
        first: int64 (partitions), the first row of each.
        end: int64 (partitions), the row after its last one.
        size: of WINDOW, in microseconds.
        last: see :func:`last_begin`.
    """

    def __init__(self, task: Task, sizes: np.ndarray, rows: pa.Table, watermark: int) -> None:
        """Rows of partitions of so many rows each, if WINDOW is one of time."""
        window = window_of(task.plan)
        self.time, self.size, self.watermark = words(rows.column(window.order).combine_chunks()), whole_micros(window.size), watermark
        self.end = np.cumsum(sizes)
        self.first, self.last = self.end - sizes, last_begin(window, watermark)

    def ended(self) -> np.ndarray:
        """How many rows of each partition have a window that has ended. int64 (partitions)."""
        ended = np.concatenate([[0], np.cumsum(self.time <= self.last)])
        return ended[self.end] - ended[self.first]


def last_begin(window: Window, watermark: int) -> int:
    """The last time at which a window may begin that has ended, since rows to come are later than the watermark."""
    return watermark + 1 - whole_micros(window.size)


def window_ends(kept: RowsAtWatermark, covered: np.ndarray | None = None) -> np.ndarray:
    """When the window of each partition's last row ends, or that of an earlier row that something waits for.

    Args:
        covered: int64 (partitions), the rows of each that nothing waits for; None if nothing waits.
    """
    due = np.full(len(kept.end), NOTHING_DUE)
    some = np.flatnonzero(kept.end > kept.first)
    last = kept.time[kept.end[some] - 1]
    waits = last > kept.last
    due[some[waits]] = last[waits] + kept.size - 1
    if covered is not None:  # the next row that something waits for, or the next one whose window ends
        at = kept.first + np.maximum(covered, kept.ended())
        waiting = np.flatnonzero(at < kept.end)
        due[waiting] = np.minimum(due[waiting], kept.time[at[waiting]] + kept.size - 1)
    return due
