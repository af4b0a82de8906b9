"""Columns of rows that a worker holds, before they are ordered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sparkcep.columns.blocks import BlockColumn, repeated
from sparkcep.kernels.arrange import texts as kernels


class HeldColumn(NamedTuple):
    """A column of some rows.

    Attributes:
        values: the values (rows), (rows, 2) for wide decimals, or the bytes of all values. uint8 (bytes).
        nulls: 1 for NULL. uint8 (rows); None without NULL.
        offsets: the bounds of the values in these bytes. int64 (rows + 1); None if the values have one width.
    """

    values: np.ndarray
    nulls: np.ndarray | None
    offsets: np.ndarray | None

    @staticmethod
    def of_block(column: BlockColumn) -> HeldColumn:
        """Returns a block's column. It shares the block's memory."""
        if column.ends is None:
            return HeldColumn(column.values, column.nulls, None)
        if not len(column.values):
            return HeldColumn(column.values, column.nulls, _no_texts(len(column.ends)))
        return HeldColumn(column.values, column.nulls, np.concatenate([[0], column.ends]).astype(np.int64))

    @staticmethod
    def of_nulls(like: HeldColumn, rows: int) -> HeldColumn:
        """Returns NULLs of another column's type. Their arrays have one element in memory."""
        nulls = repeated(np.ones(1, dtype=np.uint8), rows)
        if like.offsets is not None:
            return HeldColumn(np.empty(0, dtype=np.uint8), nulls, _no_texts(rows))
        return HeldColumn(repeated(np.zeros((1, *like.values.shape[1:]), dtype=like.values.dtype), rows), nulls, None)

    @property
    def rows(self) -> int:
        return len(self.values) if self.offsets is None else len(self.offsets) - 1

    def sliced(self, low: int, high: int) -> HeldColumn:
        """Returns the rows from ``low`` to ``high - 1``. They share the memory."""
        nulls = None if self.nulls is None else self.nulls[low:high]
        if self.offsets is None:
            return HeldColumn(self.values[low:high], nulls, None)
        first, last = self.offsets[low], self.offsets[high]
        return HeldColumn(self.values[first:last], nulls, self.offsets[low : high + 1] - first)


def _no_texts(rows: int) -> np.ndarray:
    """Returns the offsets of values without bytes. int64 (rows + 1)."""
    return repeated(np.zeros(1, dtype=np.int64), rows + 1)


def byte_count(columns: Sequence[HeldColumn]) -> int:
    """Returns how many bytes these columns have in memory."""
    return sum(array.nbytes for column in columns for array in column if array is not None and array.strides[0])


def joined(pieces: Sequence[HeldColumn]) -> HeldColumn:
    """Returns one column with the rows of all pieces. There must be at least one piece."""
    if len(pieces) == 1:
        return pieces[0]
    if is_null(pieces):
        return HeldColumn.of_nulls(pieces[0], sum(piece.rows for piece in pieces))
    nulls = None
    if any(piece.nulls is not None for piece in pieces):
        nulls = np.concatenate([np.zeros(piece.rows, dtype=np.uint8) if piece.nulls is None else piece.nulls for piece in pieces])
    offsets = None
    if pieces[0].offsets is not None:
        ends = np.cumsum([len(piece.values) for piece in pieces])
        offsets = np.concatenate([pieces[0].offsets, *(piece.offsets[1:] + end for piece, end in zip(pieces[1:], ends, strict=False) if piece.offsets is not None)])
    return HeldColumn(np.concatenate([piece.values for piece in pieces]), nulls, offsets)


def placed(pieces: Sequence[HeldColumn], places: np.ndarray) -> HeldColumn:
    """Returns one column with the rows of all pieces, each at its place.

    Args:
        pieces: at least one.
        places: of the rows of all pieces. intp (rows).
    """
    if is_null(pieces):
        return HeldColumn.of_nulls(pieces[0], len(places))
    if pieces[0].offsets is not None:
        rows = np.empty(len(places), dtype=np.intp)
        rows[places] = np.arange(len(places))
        return taken(joined(pieces), rows)
    values = np.empty((len(places), *pieces[0].values.shape[1:]), dtype=pieces[0].values.dtype)
    nulls = np.zeros(len(places), dtype=np.uint8) if any(piece.nulls is not None for piece in pieces) else None
    first = 0
    for piece in pieces:
        here = places[first : first + piece.rows]
        values[here] = piece.values
        if nulls is not None and piece.nulls is not None:
            nulls[here] = piece.nulls
        first += piece.rows
    return HeldColumn(values, nulls, None)


def is_null(pieces: Sequence[HeldColumn]) -> bool:
    """Whether all values are NULL, such as the strings whose first bytes say all."""
    return all(piece.nulls is not None and (piece.nulls.strides == (0,) or bool(piece.nulls.all())) for piece in pieces)


def taken(column: HeldColumn, rows: np.ndarray | slice) -> HeldColumn:
    """Returns these rows of a column, in this order. A slice shares the memory."""
    if isinstance(rows, slice):
        return column.sliced(rows.start, rows.stop)
    nulls = None if column.nulls is None else column.nulls[rows]
    if column.offsets is None:
        return HeldColumn(column.values[rows], nulls, None)
    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    if not len(column.values):
        return HeldColumn(column.values, nulls, offsets)
    np.cumsum((column.offsets[1:] - column.offsets[:-1])[rows], out=offsets[1:])
    values = np.empty(offsets[-1], dtype=np.uint8)
    kernels.copy_texts(column.values, column.offsets, rows, values)
    return HeldColumn(values, nulls, offsets)


def to_arrow(column: HeldColumn, arrow: pa.DataType) -> pa.Array:
    """Returns a column as an Arrow array of a type that its values have."""
    count, nulls = column.rows, column.nulls
    valid = None if nulls is None or not nulls.any() else pa.py_buffer(np.packbits(nulls == 0, bitorder="little"))
    values = column.values
    if column.offsets is not None:
        large = pa.types.is_large_string(arrow) or pa.types.is_large_binary(arrow)
        ends = column.offsets.astype(np.int64 if large else np.int32)
        return pa.Array.from_buffers(arrow, count, [valid, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(values))])
    if pa.types.is_boolean(arrow):
        return pa.Array.from_buffers(arrow, count, [valid, pa.py_buffer(np.packbits(values != 0, bitorder="little"))])
    if pa.types.is_decimal(arrow) and values.ndim == 1:
        values = np.stack([values, values >> 63], axis=1)
    return pa.Array.from_buffers(arrow, count, [valid, pa.py_buffer(np.ascontiguousarray(values))])
