"""The rows that a task holds: batches come in, and what no later search can need goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import boundaries, flat, ranges

CHUNK_ROWS = 131_072
CHUNK_BYTES = 1 << 26  # of a buffer's rows, where they are fewer
PAIRED_CHUNK_ROWS = 8_192  # where each row carries an array as long as its partition


@dataclass
class Chunk:
    """The rows that are looked at together: ``columns`` by name, ``offsets`` int64 of their partitions. ``place`` gives the
    rows' positions in their partitions; ``going`` bool (partitions): whether rows of each may still come; ``least``: how many
    rows of those must be kept; over a stream ``closed`` int64 (partitions): the first row whose window a row to come may still
    enter, ``watermark``: the time in microseconds that rows to come are behind, ``limits`` int64 (partitions): the time before
    which none comes, ``sliding`` int64 (2, partitions): the numbers of the first and the last sliding window that is asked for,
    and ``unsure`` int64 (partitions): the first row at which NEXT may look at rows to come."""

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
        """Rows of partitions that are there as a whole; ``names``: the columns looked at."""
        return Chunk(table, columns_of(table, names), offsets, from_first_row, np.zeros(len(offsets) - 1, dtype=bool))

    @property
    def rows(self) -> int:
        return self.table.num_rows

    @property
    def parts(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def positions(self) -> np.ndarray:
        """int64: the number of each row in its partition."""
        return self.place(self.offsets)

    @property
    def cut(self) -> np.ndarray:
        """bool (partitions): whether rows of each came before its first one here."""
        sizes = np.diff(self.offsets)
        first = np.zeros(self.parts, dtype=bool)
        first[sizes > 0] = self.positions[self.offsets[:-1][sizes > 0]] > 0
        return first

    def partition_of(self, rows: np.ndarray) -> np.ndarray:
        """int64: the number of the partition of each of the rows."""
        return np.searchsorted(self.offsets, rows, side="right") - 1

    def first_of(self, rows: np.ndarray) -> np.ndarray:
        """The first of some rows in each partition, or the partition's end. int64 (partitions)."""
        first = self.offsets[1:].copy()
        np.minimum.at(first, self.partition_of(rows), rows)
        return first

    def ended(self) -> Chunk:
        """The partitions alone of which no rows may come."""
        parts = np.flatnonzero(~self.going)
        if len(parts) == self.parts:
            return self
        sizes = np.diff(self.offsets)[parts]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        if len(parts) == 0 or parts[-1] == len(parts) - 1:  # the first ones: their rows need not be copied
            table = self.table.slice(0, int(offsets[-1]))
        else:
            table = self.table.take(pa.array(ranges(self.offsets[parts], sizes))).combine_chunks()
        return Chunk.whole(table, self.columns, offsets)


def columns_of(table: pa.Table, names: Iterable[str]) -> dict[str, pa.Array]:
    """Columns of a table by name, each contiguous."""
    return {name: flat(table.column(name)) for name in names}


def from_first_row(offsets: np.ndarray) -> np.ndarray:
    """Positions of rows whose partitions are there from their first row on."""
    return ranges(0, np.diff(offsets))


class Retained:
    """The rows of a chunk that a later step looks at again, and where they lie then. Kept rows get new numbers nowhere else.

    Attributes:
        parts: the partitions that go on, which are the first ones of the next chunk. int64.
        rows: the rows of the chunk that are kept, ascending. int64.
        begins: where those of each partition that goes on begin among ``rows``. int64 (partitions that go on).
        sizes: how many rows of each are kept. int64 (partitions that go on).
    """

    def __init__(self, chunk: Chunk, first: np.ndarray, others: np.ndarray | None = None) -> None:
        """Keeps the rows from ``first`` on of each partition that goes on, int64 (partitions that go on), and the ``others``."""
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
        """The places of rows of the chunk among all that are kept. A row that is not kept has the place of the next one. int64."""
        return np.searchsorted(self.rows, rows)

    def within(self, rows: np.ndarray) -> np.ndarray:
        """The place of one row of each partition that goes on, counted from the partition's first kept row. int64."""
        return self.moved(rows) - self.begins

    @property
    def numbers(self) -> np.ndarray:
        """The number that each of the chunk's partitions has in the next chunk, if it goes on. int64 (partitions)."""
        numbers = np.zeros(self._all, dtype=np.int64)
        numbers[self.parts] = np.arange(len(self.parts))
        return numbers


@dataclass(frozen=True)
class Saved:
    """What a search leaves of a chunk: ``rows`` int64, those that are looked at again, and in ``state`` what it must know of the
    partitions that go on, which become the first ones. ``rescan``: whether it looks at them from their start again."""

    state: Any
    rows: np.ndarray
    rescan: bool = True


class Buffer:
    """Batches until there are enough rows; ``names``: the columns looked at, ``keys``: those that cut partitions."""

    def __init__(self, names: list[str], keys: tuple[str, ...], chunk_rows: int) -> None:
        self.names, self.keys, self.chunk_rows = names, keys, chunk_rows
        self._hold([], chunk_rows)

    def add(self, batch: pa.RecordBatch) -> bool:
        """Takes a batch, and says whether there are enough rows for a search."""
        self.batches.append(batch)
        self.rows += batch.num_rows
        self._bytes += batch.nbytes
        return self.rows >= self._wanted or self._bytes >= self._wanted_bytes

    def chunk(self, place: Callable[[np.ndarray], np.ndarray], last: bool) -> Chunk:
        """All rows held, of whose last partition more may come unless they are the ``last``."""
        table = pa.Table.from_batches(self.batches).combine_chunks()
        columns = columns_of(table, self.names)
        offsets = boundaries([columns[c] for c in self.keys], table.num_rows)
        going = np.zeros(len(offsets) - 1, dtype=bool)
        going[-1] = not last
        # one row tells whether the next is of the same partition
        return Chunk(table, columns, offsets, place, going, least=1)

    def keep(self, chunk: Chunk, left: Saved) -> None:
        """Keeps the rows that are looked at again. Where that is from their start, the next search waits until there are twice as
        many, so that the work stays linear."""
        rows = len(left.rows)
        # a copy, so that the dropped rows' buffers are freed
        kept = [pc.take(flat(c), pa.array(left.rows)) for c in chunk.table.columns] if rows else []
        batches = [pa.record_batch(kept, schema=chunk.table.schema)] if rows else []
        self._hold(batches, max(self.chunk_rows, 2 * rows) if left.rescan else rows + self.chunk_rows)

    def _hold(self, batches: list[pa.RecordBatch], wanted: int) -> None:
        """The next search waits until there are ``wanted`` rows, or twice the bytes held now."""
        self.batches, self.rows = batches, sum(batch.num_rows for batch in batches)
        self._bytes = sum(batch.nbytes for batch in batches)
        self._wanted, self._wanted_bytes = wanted, max(CHUNK_BYTES, 2 * self._bytes)
