"""Orders rows that are more than a worker may hold: sorted runs in a file, which are merged (external merge sort).

Each run has as many rows as the worker holds, sorted by their keys and by ORDER BY. A merge reads the next rows of every run and
sorts them. No row that was not read comes before the last one read of its own run. So all rows are final that come before or at the
first of these last rows. The others stay for the next step.

Example: of the runs ``1 4 8`` and ``2 3 5`` two rows each are read. The last ones are 4 and 3, so ``1 2 3`` are final and 4 stays.

The file loses its name when it is created, so it disappears with the process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sparkcep.columns.blocks import Description
from sparkcep.engine.arrange.held_columns import HeldColumn, byte_count, is_null, joined, taken

_COPIES = 2  # of columns: their pieces, and all rows key by key; or rows of runs, and all of them
_PLACE = 8  # bytes a row, of its place key by key
_NUMBERS = 16  # bytes a row: two numbers of its key, the word they are made of
_ORDER = 24  # bytes a row: its number, and what the sort of a key keeps
_WORDS = 16  # bytes a row for the words of a column
_WRITTEN_ROWS = 1 << 16  # that are copied at once when a run is written


def needed_bytes(description: Description, columns: Sequence[HeldColumn]) -> int:
    """Returns the memory that ordering these rows needs.

    They are numbered by their keys, then placed key by key, then ordered. Each step gives up the memory of the one before.
    """
    held, rows = byte_count(columns), columns[0].rows
    numbered = held + (_NUMBERS + _word_bytes(columns, description.keys)) * rows
    longest = max((byte_count([column]) for column in columns if column.offsets is not None), default=0)  # joined before it is placed
    placed = _COPIES * held + longest + _PLACE * rows
    return max(numbered, placed, held + (_ORDER + _order_bytes(description, columns)) * rows)


def _merge_bytes(description: Description, columns: Sequence[HeldColumn]) -> int:
    """Returns the memory that these rows need when they are merged with others: rows of each run, and all of them."""
    words = _word_bytes(columns, description.keys) + _order_bytes(description, columns)
    return _COPIES * byte_count(columns) + (_ORDER + words) * columns[0].rows


def _order_bytes(description: Description, columns: Sequence[HeldColumn]) -> int:
    """Returns the bytes a row of words for ORDER BY. Several words are copied to be beside each other."""
    order = [by.column for by in description.order]
    return _word_bytes(columns, order) + (_WORDS * len(order) if len(order) > 1 else 0)


def _word_bytes(columns: Sequence[HeldColumn], used: Sequence[int]) -> int:
    return _WORDS * sum(not _has_words(columns[column]) for column in used)


def _has_words(column: HeldColumn) -> bool:
    """Whether no memory is needed for words of these values: they are int64 without NULL, or all NULL."""
    return is_null([column]) or (column.nulls is None and column.values.dtype == np.int64 and column.values.ndim == 1)


class _StoredColumn(NamedTuple):
    """Where the arrays of a column begin in the file; None for an array that the column does not have."""

    values: int
    nulls: int | None
    offsets: int | None


class _Part(NamedTuple):
    """Rows of a run that lie together in the file."""

    columns: list[_StoredColumn]
    count: int


class _Run:
    """Sorted rows in the file, part by part, and those of them that were read and are not final yet."""

    def __init__(self) -> None:
        self.parts: list[_Part] = []
        self.read = 0  # rows of the first part, which is dropped when all were read
        self.columns: list[HeldColumn] = []
        self.rows = 0  # of columns

    @property
    def ended(self) -> bool:
        """Whether all rows were read."""
        return not self.parts


class SortedRuns:
    """Sorted runs of a task's rows."""

    def __init__(self, description: Description, held: int, folder: str | None, ordered: Callable[[list[HeldColumn]], np.ndarray | None]) -> None:
        """Creates the file.

        Args:
            description: of the rows.
            held: bytes of memory for ordering rows.
            folder: for the file; None for the system's.
            ordered: returns the rows of columns in their order; None if they have it already. Rows that tie keep their order.
        """
        self._types = [np.dtype(np.uint8) if values is None else values for values, _ in description.types]
        self._description, self._held, self._ordered = description, held, ordered
        self._file = tempfile.TemporaryFile(dir=folder)  # closed with the process
        self._runs: list[_Run] = []
        self._last: list[HeldColumn] = []  # the last row that was written
        self._count = 0  # rows
        self.bytes = 0  # of the file
        self._needed = 0  # bytes to merge all rows at once

    def __len__(self) -> int:
        return len(self._runs)

    def write(self, columns: Sequence[HeldColumn], order: np.ndarray | None) -> None:
        """Writes a run, or goes on with the last one if no row comes before its last row.

        ``order``: the rows in their order; None if they have it already.
        """
        stored, count = [], columns[0].rows
        first = [taken(column, np.array([0 if order is None else order[0]], dtype=np.intp)) for column in columns]
        if not self._last or _is_moved(self._ordered([joined(pair) for pair in zip(self._last, first, strict=True)])):
            self._runs.append(_Run())
        self._last = [taken(column, np.array([count - 1 if order is None else order[-1]], dtype=np.intp)) for column in columns]
        parts = [slice(low, min(low + _WRITTEN_ROWS, count)) if order is None else order[low : low + _WRITTEN_ROWS].astype(np.intp) for low in range(0, count, _WRITTEN_ROWS)]
        for column in columns:
            values, nulls, offsets, end = self._file.tell(), None, None, 0
            for part in parts:
                self._append(taken(column, part).values)
            if column.nulls is not None:
                nulls = self._file.tell()
                for part in parts:
                    self._append(column.nulls[part])
            if column.offsets is not None:
                offsets, lengths = self._file.tell(), column.offsets[1:] - column.offsets[:-1]
                self._append(np.zeros(1, dtype=np.int64))
                for part in parts:
                    ends = end + np.cumsum(lengths[part])
                    self._append(ends)
                    end = int(ends[-1])
            stored.append(_StoredColumn(values, nulls, offsets))
        self._runs[-1].parts.append(_Part(stored, count))
        self._count += count
        self._needed += _merge_bytes(self._description, columns)

    def _append(self, array: np.ndarray) -> None:
        self._file.write(np.ascontiguousarray(array).data)
        self.bytes += array.nbytes

    def merged(self) -> Iterator[tuple[list[HeldColumn], np.ndarray | slice]]:
        """Yields columns with the next rows, and these rows in their order."""
        self._file.flush()
        runs = self._runs
        while runs := [run for run in runs if run.rows or not run.ended]:
            share = self._held // len(runs)
            each = max(1, share * self._count // self._needed)
            for run in runs:
                if not run.ended and run.rows <= each // 2:
                    self._read(run, each - run.rows, share // _COPIES)
            columns = [joined([run.columns[i] for run in runs]) for i in range(len(self._types))]
            ends = np.cumsum([run.rows for run in runs])
            rows = self._ordered(columns)
            final = _final(rows, [int(end) - 1 for run, end in zip(runs, ends, strict=True) if not run.ended], int(ends[-1]))
            if rows is None:
                yield columns, slice(0, final)
                taken_rows = np.minimum(ends, final)
            else:
                yield columns, rows[:final]
                is_final = np.zeros(int(ends[-1]), dtype=bool)
                is_final[rows[:final]] = True
                taken_rows = np.cumsum(is_final)[ends - 1]
            for run, used in zip(runs, np.diff(taken_rows, prepend=0), strict=True):
                run.columns = [column.sliced(int(used), run.rows) for column in run.columns]
                run.rows -= int(used)

    def _read(self, run: _Run, rows: int, size: int) -> None:
        """Reads the next rows of a run: at most ``rows``, and ``size`` bytes of a column of strings, but at least one row."""
        part, low = run.parts[0], run.read
        high = min(low + max(1, rows), part.count)
        for column in part.columns:
            if column.offsets is not None:
                bounds = self._array(column.offsets, np.dtype(np.int64), low, high + 1)
                high = max(low + 1, low + int(np.searchsorted(bounds - bounds[0], size, side="right")) - 1)
        found = []
        for column, dtype in zip(part.columns, self._types, strict=True):
            nulls = None if column.nulls is None else self._array(column.nulls, np.dtype(np.uint8), low, high)
            if column.offsets is None:
                found.append(HeldColumn(self._array(column.values, dtype, low, high), nulls, None))
                continue
            bounds = self._array(column.offsets, np.dtype(np.int64), low, high + 1)
            found.append(HeldColumn(self._array(column.values, dtype, int(bounds[0]), int(bounds[-1])), nulls, bounds - bounds[0]))
        run.columns = [joined(pair) for pair in zip(run.columns, found, strict=True)] if run.rows else found
        run.rows += high - low
        run.read = high
        if high == part.count:
            del run.parts[0]
            run.read = 0

    def _array(self, at: int, dtype: np.dtype, low: int, high: int) -> np.ndarray:
        """Returns the values from ``low`` to ``high - 1`` of the array that begins at the byte ``at``."""
        self._file.seek(at + low * dtype.itemsize)
        found = np.fromfile(self._file, dtype.base, (high - low) * (dtype.itemsize // dtype.base.itemsize))
        return found.reshape(-1, *dtype.shape)


def _is_moved(rows: np.ndarray | None) -> bool:
    """Whether the second of two rows comes first."""
    return rows is not None and int(rows[0]) != 0


def _final(rows: np.ndarray | None, lasts: list[int], count: int) -> int:
    """Returns how many rows, in their order, come before or at the first of the ``lasts``; all if there are none."""
    if not lasts:
        return count
    if rows is None:
        return lasts[0] + 1
    is_last = np.zeros(count, dtype=bool)
    is_last[lasts] = True
    return int(np.argmax(is_last[rows])) + 1
