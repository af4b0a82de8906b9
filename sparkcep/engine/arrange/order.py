"""The order of the rows of each key: words of ORDER BY that compare as Spark's values do, and the sorted rows.

Spark's order: NULL first or last as written; NaN above all numbers, -0.0 equal to 0.0; strings and binaries by their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.blocks import Order
from sparkcep.engine.arrange.groups import RowsByKey, group_rows, index_type
from sparkcep.engine.arrange.held_columns import HeldColumn
from sparkcep.kernels.arrange import order as kernels

_SIGN = np.int64(np.iinfo(np.int64).min)


def order_words(column: HeldColumn, by: Order) -> list[np.ndarray]:
    """Returns words, int64 (rows) each, whose order (the first word first) is the order of the values."""
    found = [~word if by.descending else word for word in _ascending(column)]
    if column.nulls is None:
        return found
    null = column.nulls.astype(bool)
    for word in found:
        word[null] = 0
    return [(null != by.nulls_first).astype(np.int64), *found]


def _ascending(column: HeldColumn) -> list[np.ndarray]:
    values = column.values
    if column.offsets is not None:
        return [_ranks(column)]
    if values.ndim == 2:  # a decimal: the high word is signed, the low word is not
        return [values[:, 1].copy(), values[:, 0] ^ _SIGN]
    if values.dtype.kind == "f":
        return [float_words(values)]
    return [values.astype(np.int64, copy=column.nulls is not None)]


def float_words(values: np.ndarray) -> np.ndarray:
    """Returns int64 words that compare as Spark compares floating-point numbers."""
    plain = values.astype(np.float64) + 0.0  # -0.0 becomes 0.0
    plain[np.isnan(plain)] = np.nan  # one NaN, which is positive
    bits = plain.view(np.int64)
    return np.where(bits < 0, ~bits ^ _SIGN, bits)


def texts(column: HeldColumn) -> pa.Array:
    """Returns the values of their own lengths as large binaries; the bytes of NULL are empty."""
    assert column.offsets is not None
    return pa.Array.from_buffers(pa.large_binary(), len(column.offsets) - 1, [None, pa.py_buffer(column.offsets), pa.py_buffer(column.values)])


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


def run_kernels() -> None:
    """Runs each kernel of this package over a few rows."""
    count = 2000  # so many keys that their table grows
    ordered(group_rows([np.arange(count) % (count // 2)], count), [-np.arange(count)], count)
