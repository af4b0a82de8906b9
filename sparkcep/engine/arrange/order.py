"""The order of the rows of each key: words of ORDER BY that compare as Spark's values do, and the sorted rows.

Spark's order: NULL first or last as written; NaN above all numbers, -0.0 equal to 0.0; strings and binaries by their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import float_words
from sparkcep.columns.blocks import Order
from sparkcep.engine.arrange.groups import RowsByKey, group_rows, index_type
from sparkcep.engine.arrange.held_columns import HeldColumn, is_null, taken
from sparkcep.kernels.arrange import order as kernels

_SIGN = np.int64(np.iinfo(np.int64).min)


def key_words(column: HeldColumn) -> list[np.ndarray]:
    """Returns words, int64 (rows) each, that are equal where Spark's GROUP BY finds the values equal."""
    if is_null([column]):
        return []
    found = _ascending(column) if column.offsets is None else [text_numbers(column)[0]]
    return _with_nulls(column, found, nulls_first=True)


def order_words(column: HeldColumn, by: Order) -> list[np.ndarray]:
    """Returns words, int64 (rows) each, whose order (the first word first) is the order of the values."""
    if is_null([column]):
        return []
    found = _ascending(column) if column.offsets is None else [_ranks(column)]
    return _with_nulls(column, [~word for word in found] if by.descending else found, nulls_first=by.nulls_first)


def _with_nulls(column: HeldColumn, words: list[np.ndarray], *, nulls_first: bool) -> list[np.ndarray]:
    """Returns the words with equal ones for NULL, after a word that places NULL."""
    if column.nulls is None:
        return words
    null = column.nulls.astype(bool)
    return [(null != nulls_first).astype(np.int64), *(np.where(null, 0, word) for word in words)]


def _ascending(column: HeldColumn) -> list[np.ndarray]:
    """Returns words of the values of a column with values of one width."""
    values = column.values
    if values.ndim == 2:  # a decimal: the high word is signed, the low word is not
        return [values[:, 1].copy(), values[:, 0] ^ _SIGN]
    return [float_words(values) if values.dtype.kind == "f" else values.astype(np.int64, copy=False)]


def texts(column: HeldColumn) -> pa.Array:
    """Returns the values of their own lengths as large binaries; the bytes of NULL are empty."""
    assert column.offsets is not None
    offsets = np.ascontiguousarray(column.offsets)
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(column.values)])


def text_numbers(column: HeldColumn) -> tuple[np.ndarray, pa.Array]:
    """Returns a number for each value, int64 (rows), and the value of each number."""
    encoded = texts(column).dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary


def _ranks(column: HeldColumn) -> np.ndarray:
    numbers, values = text_numbers(column)
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[pc.sort_indices(values).to_numpy()] = np.arange(len(values))
    return ranks[numbers]


def ordered(groups: RowsByKey, words: Sequence[np.ndarray], count: int) -> RowsByKey:
    """Returns the groups with the rows of each key in the order of ``words`` (int64 (rows) each)."""
    if not words:
        return groups
    both = words[0].reshape(1, -1) if len(words) == 1 else np.stack(words)
    rows = groups.rows
    if rows is None:
        rows = np.arange(count, dtype=index_type(count))
    longest = kernels.longest_unordered(both, rows, groups.bounds)
    if not longest:
        return groups
    keys, spare = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    kernels.order_rows(
        both, rows, groups.bounds, keys, spare, np.empty(longest, dtype=rows.dtype), np.zeros(kernels.RUNS + 2, dtype=np.int64),
        np.zeros((1 << 11) + 1, dtype=np.int64),
    )
    return RowsByKey(rows, groups.bounds)


def order_of_keys(groups: RowsByKey, keys: Sequence[HeldColumn]) -> RowsByKey:
    """Returns the groups in the order of their keys: any order that is the same for all rows of a task."""
    count = len(groups.bounds) - 1
    firsts = groups.bounds[:-1] if groups.rows is None else groups.rows[groups.bounds[:-1]]
    words = [word for key in keys for word in order_words(taken(key, firsts), Order(0, descending=False, nulls_first=True))]
    places = np.lexsort(words[::-1]) if words else np.arange(count)
    if (places[1:] > places[:-1]).all():
        return groups
    sizes = np.diff(groups.bounds)[places]
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    moved = np.repeat(groups.bounds[:-1][places] - bounds[:-1], sizes) + np.arange(bounds[-1])
    return RowsByKey(moved if groups.rows is None else groups.rows[moved], bounds)


def run_kernels() -> None:
    """Runs each kernel of this package over a few rows."""
    count = 2000  # so many keys that their table grows
    ordered(group_rows([np.arange(count) % (count // 2)], count), [-np.arange(count)], count)
    taken(HeldColumn(np.zeros(1, dtype=np.uint8), None, np.array([0, 1])), np.zeros(1, dtype=np.intp))
