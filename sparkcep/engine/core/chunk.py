"""Chunks and the buffer: a task's rows arrive in batches, and rows that no later search needs are dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import boundaries, contiguous, flat, ranges

CHUNK_ROWS = 131_072
CHUNK_BYTES = 1 << 26  # a search also starts at this many bytes, if the rows are fewer
PAIRED_CHUNK_ROWS = 8_192  # for rows with an array as long as their partition


@dataclass
class Chunk:
    """The rows that are searched together: whole partitions, and growing partitions, which may get more rows.

    Attributes:
        table: the rows, partition by partition.
        columns: the columns that are read, by name.
        offsets: the bounds of the partitions. int64 (partitions + 1).
        place: returns the rows' positions in their partitions for ``offsets``.
        going: whether each partition is growing. bool (partitions).
        least: how many rows of a growing partition must be retained.
        closed: over a stream, the first row whose window a future row may still enter. int64 (partitions).
        watermark: over a stream, a time in microseconds. All future rows are later.
        limits: over a stream, the earliest possible time of a future row. int64 (partitions).
        sliding: over a stream, the numbers of the first and the last sliding window that is asked for, and of the last one that may
            have been emitted before. int64 (3, partitions).
        unsure: over a stream, the first row where NEXT may read future rows. int64 (partitions).
    """

    table: pa.Table
    columns: dict[str, pa.Array]
    offsets: np.ndarray
    place: Callable[[np.ndarray], np.ndarray]
    going: np.ndarray
    least: int = 0
    closed: np.ndarray | None = None
    watermark: int | None = None
    limits: np.ndarray | None = None
    sliding: np.ndarray | None = None
    unsure: np.ndarray | None = None

    @staticmethod
    def whole(table: pa.Table, names: Iterable[str], offsets: np.ndarray) -> Chunk:
        """Makes a chunk of whole partitions. ``names`` are the columns that are read."""
        return Chunk(table, columns_of(table, names), offsets, from_first_row, np.zeros(len(offsets) - 1, dtype=bool))

    @property
    def rows(self) -> int:
        return self.table.num_rows

    @property
    def parts(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def positions(self) -> np.ndarray:
        """The number of each row in its partition. int64 (rows)."""
        return self.place(self.offsets)

    @property
    def cut(self) -> np.ndarray:
        """Whether rows of a partition came before its first one here. bool (partitions)."""
        sizes = np.diff(self.offsets)
        first = np.zeros(self.parts, dtype=bool)
        first[sizes > 0] = self.positions[self.offsets[:-1][sizes > 0]] > 0
        return first

    def partition_of(self, rows: np.ndarray) -> np.ndarray:
        """Returns the partition of each of the rows. int64."""
        return np.searchsorted(self.offsets, rows, side="right") - 1

    def first_of(self, rows: np.ndarray) -> np.ndarray:
        """Returns the first of some rows in each partition, or the partition's end. int64 (partitions)."""
        first = self.offsets[1:].copy()
        np.minimum.at(first, self.partition_of(rows), rows)
        return first

    def ended(self) -> Chunk:
        """Returns only the partitions that get no more rows."""
        parts = np.flatnonzero(~self.going)
        if len(parts) == self.parts:
            return self
        sizes = np.diff(self.offsets)[parts]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        if len(parts) == 0 or parts[-1] == len(parts) - 1:  # they are the first partitions: a slice needs no copy
            table = self.table.slice(0, int(offsets[-1]))
        else:
            table = self.table.take(pa.array(ranges(self.offsets[parts], sizes))).combine_chunks()
        return Chunk.whole(table, self.columns, offsets)


def columns_of(table: pa.Table, names: Iterable[str]) -> dict[str, pa.Array]:
    """Returns columns of a table by name, each contiguous."""
    return {name: flat(table.column(name)) for name in names}


def from_first_row(offsets: np.ndarray) -> np.ndarray:
    """Returns the positions of rows whose partitions have all rows from their first one on."""
    return ranges(0, np.diff(offsets))


class Retained:
    """The rows of a chunk that a later step reads again, and their places in the next chunk. Only this class renumbers rows.

    Example: a chunk has one partition with the rows 0 to 4, which may still grow. The rows 1, 3 and 4 are retained. So ``rows`` is
    ``[1, 3, 4]``; row 3 becomes row 1 of the next chunk, and ``sizes`` is ``[3]``.

    Attributes:
        parts: the growing partitions, which are the first ones of the next chunk. int64.
        rows: the retained rows of the chunk, ascending. int64.
        begins: where the retained rows of each growing partition begin among ``rows``. int64 (growing partitions).
        sizes: how many rows of each are retained. int64 (growing partitions).
    """

    def __init__(self, chunk: Chunk, first: np.ndarray, others: np.ndarray | None = None) -> None:
        """Retains the rows from ``first`` on of each growing partition, and the rows ``others``.

        ``first`` is int64 (growing partitions).
        """
        self.parts = np.flatnonzero(chunk.going)
        low, high = chunk.offsets[self.parts], chunk.offsets[self.parts + 1]
        self.rows = ranges(first, high - first)
        if others is None:
            self.sizes = high - first
            self.begins = np.cumsum(self.sizes) - self.sizes
        else:
            self.rows = np.union1d(others, self.rows)
            self.begins = self.moved(low)
            self.sizes = self.moved(high) - self.begins
        self._all = chunk.parts

    def moved(self, rows: np.ndarray) -> np.ndarray:
        """Returns the places of rows of the chunk among the retained rows. int64.

        A row that is not retained has the place of the next retained row.
        """
        return np.searchsorted(self.rows, rows)

    def within(self, rows: np.ndarray) -> np.ndarray:
        """Returns the place of one row of each growing partition, counted from the partition's first retained row. int64."""
        return self.moved(rows) - self.begins

    @property
    def numbers(self) -> np.ndarray:
        """The number that each of the chunk's partitions has in the next chunk, if it still grows. int64 (partitions)."""
        numbers = np.zeros(self._all, dtype=np.int64)
        numbers[self.parts] = np.arange(len(self.parts))
        return numbers


@dataclass(frozen=True)
class Saved:
    """The result of a search's step: the retained rows, and the state of the growing partitions.

    Attributes:
        state: the state. These partitions are the first ones of the next chunk.
        rows: the retained rows. int64.
        rescan: whether the next step reads the retained rows again from their start.
    """

    state: Any
    rows: np.ndarray
    rescan: bool = True

    def moved(self, rows: np.ndarray) -> np.ndarray:
        """Returns the places of retained rows of the chunk, see :meth:`Retained.moved`. int64."""
        return np.searchsorted(self.rows, rows)


class Buffer:
    """Collects batches until there are enough rows for a search.

    Args:
        names: the columns that are read.
        keys: the columns that divide rows into partitions.
        chunk_rows: how many rows are enough.
    """

    def __init__(self, names: list[str], keys: tuple[str, ...], chunk_rows: int) -> None:
        self.names, self.keys, self.chunk_rows = names, keys, chunk_rows
        self._hold([], chunk_rows)

    def add(self, batch: pa.RecordBatch) -> bool:
        """Takes a batch, and returns whether there are enough rows for a search."""
        self.batches.append(batch)
        self.rows += batch.num_rows
        self._bytes += batch.nbytes
        return self.rows >= self._wanted or self._bytes >= self._wanted_bytes

    def chunk(self, place: Callable[[np.ndarray], np.ndarray], last: bool) -> Chunk:
        """Returns all rows held as a chunk. Its last partition may get more rows unless this is the ``last`` chunk."""
        table = contiguous(pa.Table.from_batches(self.batches))
        columns = columns_of(table, self.names)
        offsets = boundaries([columns[c] for c in self.keys], table.num_rows)
        going = np.zeros(len(offsets) - 1, dtype=bool)
        going[-1] = not last
        # one row must remain, to compare its keys with those of the next batch
        return Chunk(table, columns, offsets, place, going, least=1)

    def keep(self, chunk: Chunk, left: Saved) -> None:
        """Keeps the retained rows.

        If the next search reads them again from their start, it waits until there are twice as many rows. So the total work stays
        linear.
        """
        rows = len(left.rows)
        # a copy, so that the buffers of dropped rows are freed
        kept = [pc.take(flat(c), pa.array(left.rows)) for c in chunk.table.columns] if rows else []
        batches = [pa.record_batch(kept, schema=chunk.table.schema)] if rows else []
        self._hold(batches, max(self.chunk_rows, 2 * rows) if left.rescan else rows + self.chunk_rows)

    def _hold(self, batches: list[pa.RecordBatch], wanted: int) -> None:
        """Holds batches. The next search waits for ``wanted`` rows, or for twice the bytes held now."""
        self.batches, self.rows = batches, sum(batch.num_rows for batch in batches)
        self._bytes = sum(batch.nbytes for batch in batches)
        self._wanted, self._wanted_bytes = wanted, max(CHUNK_BYTES, 2 * self._bytes)
