"""Resuming at a start row: the saved state of searches that read a partition's rows again from some row on, in row order.

The searches of :mod:`sparkcep.engine.match`, automata and window recomputation save it. Kernels get it with the columns
:data:`sparkcep.kernels.common.layout.OPEN_FIELDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from sparkcep.columns.arrays import ranges
from sparkcep.engine.core.chunk import Chunk, Retained, Saved
from sparkcep.engine.core.state_codec import FAR, LISTED, WHOLE, Ragged, StateColumns, StateSchema, check_numbers
from sparkcep.kernels.common import layout

_NO_MARKS = np.zeros(0, dtype=np.uint8)
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class ResumeState:
    """The row where a search resumes in each partition that may still grow.

    These partitions are the first ones of the next chunk, each with its retained rows before its new ones.

    Attributes:
        rows: how many rows are retained. int64 (partitions), like the other numbers.
        start: the next start row, counted from the first retained row.
        number: the number of the last match.
        covered: the row up to which matches reach, counted from the first retained row. With early emission it is the row before
            which all matches that end have been emitted.
        dropped: how many rows before the first retained one were dropped.
        taken: 1 for each retained row that is in a match. uint8 (rows); empty unless the clause asks for rows in no match.
    """

    numbers: ClassVar[tuple[str, ...]] = ("start", "number", "covered", "dropped")  # the names of the saved numbers

    rows: np.ndarray
    start: np.ndarray
    number: np.ndarray
    covered: np.ndarray
    dropped: np.ndarray
    taken: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> Self:
        """Returns the state of partitions with ``rows`` rows each that are searched from their first row on."""
        none = np.zeros(len(rows), dtype=np.int64)
        return cls(rows=rows, taken=_NO_MARKS, **dict.fromkeys(cls.numbers, none))

    @classmethod
    def extended(cls, state: ResumeState, **more: np.ndarray) -> Self:
        """Returns a ``state`` of the class ``cls``, with the numbers ``more`` that the class adds."""
        return cls(rows=state.rows, taken=state.taken, **{name: getattr(state, name) for name in ResumeState.numbers}, **more)

    def columns(self) -> StateColumns:
        """Returns the state as columns, see :class:`sparkcep.engine.core.state_codec.State`."""
        marked = self.rows if len(self.taken) else np.zeros_like(self.rows)
        return StateColumns(self.rows, {name: getattr(self, name) for name in self.numbers}, {"taken": Ragged(self.taken, marked)})

    def forgetting(self, numbers: bool, positions: bool) -> Self:
        """Drops match numbers unless something asks for them. Drops the positions of partitions without rows in the same way."""
        number = self.number if numbers else np.zeros_like(self.rows)
        return replace(self, number=number, dropped=self.dropped if positions else np.where(self.rows > 0, self.dropped, 0))

    def marks(self, chunk: Chunk) -> np.ndarray:
        """Returns the marks of a chunk's rows: 1 for retained rows that are in a match. uint8 (rows)."""
        marks = np.zeros(chunk.rows, dtype=np.uint8)
        if len(self.taken):
            marks[ranges(chunk.offsets[: len(self.rows)], self.rows)] = self.taken
        return marks

    def marked(self, rows: np.ndarray, marks: np.ndarray) -> Self:
        """Returns the state with the ``marks`` of its retained rows, which are the ``rows`` of the chunk."""
        return replace(self, taken=marks[rows])

    def gone(self, parts: int) -> np.ndarray:
        """Returns how many rows of each of a chunk's partitions came before the chunk. int64 (partitions)."""
        return np.pad(self.dropped, (0, parts - len(self.rows)))

    def positions(self, offsets: np.ndarray) -> np.ndarray:
        """Returns the number of each row of a chunk in its partition. int64 (rows)."""
        return ranges(self.gone(len(offsets) - 1), np.diff(offsets))

    def opens(self, chunk: Chunk) -> np.ndarray:
        """Returns the state for kernels, with rows counted from the first row of the chunk. int64 (partitions, OPEN_FIELDS)."""
        out, count = np.zeros((chunk.parts, layout.OPEN_FIELDS), dtype=np.int64), len(self.rows)
        out[:, layout.O_START] = out[:, layout.O_COVERED] = chunk.offsets[:-1]
        out[:count, layout.O_START] += self.start
        out[:count, layout.O_COVERED] += self.covered
        out[:, layout.O_EMITTED] = out[:, layout.O_COVERED]
        out[:count, layout.O_NUMBER] = self.number
        out[:, layout.O_CUT] = chunk.cut
        out[:, layout.O_GOING] = chunk.going
        out[:, layout.O_CLOSED] = chunk.offsets[:-1] if chunk.closed is None else chunk.closed
        return out

    def left(self, chunk: Chunk, opens: np.ndarray, first: np.ndarray, back: int, taken: np.ndarray | None = None) -> Saved:
        """Returns the state that a search leaves after a chunk if it started from this state.

        Args:
            chunk: the chunk.
            opens: the state as the kernel left it.
            first: the first row that a later attempt may take, for each growing partition. int64.
            back: how many rows before that row an attempt may look at.
            taken: 1 for rows in a match. uint8 (rows).
        """
        parts = np.flatnonzero(chunk.going)
        low, high = chunk.offsets[parts], chunk.offsets[parts + 1]
        start, number, covered = opens[parts, : layout.O_CUT].T
        first = np.clip(first - back, low, np.maximum(high - chunk.least, low))
        kept = Retained(chunk, first)
        dropped = self.gone(chunk.parts)[parts] + first - low
        state = ResumeState(kept.sizes, start - first, number, np.maximum(covered - first, 0), dropped, _NO_MARKS if taken is None else taken[kept.rows])
        return Saved(state, kept.rows)


def restored(columns: StateColumns, least: int = 0) -> ResumeState:
    """Returns the state with these columns. ``least`` is the smallest valid ``number``. Raises ValueError."""
    rows, (taken, counts) = columns.rows, columns.lists["taken"]
    start, number, covered, dropped = (columns.numbers[name] for name in ResumeState.numbers)
    check_numbers(
        (counts == rows) | (len(taken) == 0), taken <= 1, start >= 0, start <= rows, covered >= 0, covered <= rows, dropped >= 0, dropped < FAR,
        number < FAR, number >= least,
    )
    return ResumeState(rows, start, number, covered, dropped, taken)


def restored_at_place(columns: StateColumns) -> ResumeState:
    """Returns the state with these columns. Its ``number`` is a place in the measure of WINDOW. Raises ValueError."""
    return restored(columns, least=-FAR)


def resume_schema(kind: int, restore: Callable[[StateColumns], ResumeState], numbers: tuple[str, ...] = ResumeState.numbers) -> StateSchema:
    """Returns the schema of states that have ``numbers`` and the marks of rows in a match."""
    return StateSchema(kind, restore, numbers, {"taken": np.dtype(np.uint8)})


def rows_only(kind: int) -> StateSchema:
    """Returns the schema of partitions that save nothing but their rows."""
    return StateSchema(kind, lambda columns: ResumeState.of(columns.rows))


AT_START = resume_schema(LISTED, restored)
AT_PLACE = resume_schema(LISTED, restored_at_place)
WHOLE_PARTITIONS = rows_only(WHOLE)
NOTHING_OPEN = ResumeState.of(_NONE)
