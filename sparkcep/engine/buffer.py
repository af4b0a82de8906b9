"""The rows that a task holds: batches come in, and what no later search can need goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

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
    rows' positions in their partitions."""

    table: pa.Table
    columns: dict[str, pa.Array]
    offsets: np.ndarray
    place: Callable[[np.ndarray], np.ndarray]

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

    def partition_of(self, rows: np.ndarray) -> np.ndarray:
        """int64: the number of the partition of each of the rows."""
        return np.searchsorted(self.offsets, rows, side="right") - 1

    def first(self, parts: int) -> Chunk:
        """The first partitions alone."""
        if parts == self.parts:
            return self
        rows = int(self.offsets[parts])
        columns = {name: column.slice(0, rows) for name, column in self.columns.items()}
        return Chunk(self.table.slice(0, rows), columns, self.offsets[: parts + 1], self.place)


def from_first_row(offsets: np.ndarray) -> np.ndarray:
    """Positions of rows whose partitions are there from their first row on."""
    return ranges(0, np.diff(offsets))


class Buffer:
    """Batches until there are enough rows; ``names``: the columns looked at, ``keys``: those that cut partitions."""

    def __init__(self, names: list[str], keys: tuple[str, ...], chunk_rows: int) -> None:
        self.names, self.keys, self.chunk_rows = names, keys, chunk_rows
        self.batches: list[pa.RecordBatch] = []
        self._hold([], chunk_rows)

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    def add(self, batch: pa.RecordBatch) -> bool:
        """Takes a batch, and says whether there are enough rows for a search."""
        self.batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        return self._rows >= self._wanted or self._bytes >= self._wanted_bytes

    def chunk(self, place: Callable[[np.ndarray], np.ndarray] = from_first_row) -> Chunk:
        """All rows held."""
        table = pa.Table.from_batches(self.batches).combine_chunks()
        columns = {name: flat(table.column(name)) for name in self.names}
        return Chunk(table, columns, boundaries([columns[c] for c in self.keys], table.num_rows), place)

    def keep(self, chunk: Chunk, row: int) -> None:
        """Keeps the rows from ``row`` on. The next search waits until there are twice as many, so that the work stays linear."""
        kept = chunk.table.slice(row)
        # a copy, so that the dropped rows' buffers are freed
        batches = [pa.record_batch([pc.take(flat(c), pa.array(np.arange(len(c)))) for c in kept.columns], schema=kept.schema)] if kept.num_rows else []
        self._hold(batches, max(self.chunk_rows, 2 * kept.num_rows))

    def keep_some(self, table: pa.Table) -> None:
        """Keeps rows of which none will be looked at from its start again."""
        self._hold(table.combine_chunks().to_batches(), table.num_rows + self.chunk_rows)

    def clear(self) -> None:
        self._hold([], self.chunk_rows)

    def _hold(self, batches: list[pa.RecordBatch], wanted: int) -> None:
        """The next search waits until there are ``wanted`` rows, or twice the bytes held now."""
        self.batches, self._rows = batches, sum(batch.num_rows for batch in batches)
        self._bytes = sum(batch.nbytes for batch in batches)
        self._wanted, self._wanted_bytes = wanted, max(CHUNK_BYTES, 2 * self._bytes)
