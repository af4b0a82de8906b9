"""Converts Arrow columns to the arrays of kernels: values, NULL marks, ranks and partition boundaries.

Example: the keys A, A, B, NULL, NULL have the :func:`boundaries` 0, 2, 3, 5. The strings b, a, b have the :func:`ranks` 1, 0, 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.types import Type, type_of
from sparkcep.errors import MatchRuntimeError

_SORTED_BITS = 63  # of the number that represents a row in sorting


def flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One contiguous array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    try:
        return column.combine_chunks()
    except pa.ArrowInvalid as error:  # strings have offsets of 32 bits
        raise MatchRuntimeError(
            "STATE_LIMIT",
            f"the rows that are needed at once have more than 2 GiB in a column of type {column.type}. SET spark.sql.execution.arrow.useLargeVarTypes = true "
            "(strings), use a smaller WINDOW, or leave the column out",
            sqlstate="54000",
        ) from error


def contiguous(table: pa.Table) -> pa.Table:
    """The table with one contiguous array for each column, see :func:`flat`."""
    if all(column.num_chunks == 1 for column in table.columns):
        return table
    return pa.Table.from_arrays([flat(column) for column in table.columns], schema=table.schema)


def row_bytes(column: pa.Array) -> np.ndarray:
    """Approximate size of each value in bytes, int64 (rows)."""
    t = column.type
    if pa.types.is_struct(t):
        return sum((row_bytes(field) for field in column.flatten()), np.zeros(len(column), dtype=np.int64))
    if is_list(t) or pa.types.is_map(t):
        offsets = np.asarray(column.offsets, dtype=np.int64)
        values = pa.StructArray.from_arrays([column.keys, column.items], names=["key", "value"]) if pa.types.is_map(t) else column.values
        return np.diff(np.concatenate([[0], np.cumsum(row_bytes(values))])[offsets])
    if is_text(t):
        return np.asarray(pc.fill_null(pc.binary_length(column), 0)).astype(np.int64)
    return np.full(len(column), 0 if pa.types.is_null(t) else max(t.bit_width // 8, 1), dtype=np.int64)


def most_bytes(column: pa.Array) -> int:
    """Approximate size of the largest value in bytes."""
    t = column.type
    differ = pa.types.is_nested(t) or is_text(t)
    return int(row_bytes(column if differ else column[:1]).max(initial=0))


def is_text(t: pa.DataType) -> bool:
    """Whether the values are strings or binary."""
    return pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_binary(t) or pa.types.is_large_binary(t)


def is_list(t: pa.DataType) -> bool:
    """Whether the values are arrays."""
    return pa.types.is_list(t) or pa.types.is_large_list(t)


def null_marks(column: pa.Array) -> np.ndarray:
    """1 for each NULL, else 0; uint8 (rows)."""
    if column.null_count == 0:
        return np.zeros(len(column), dtype=np.uint8)
    return np.asarray(column.is_null()).astype(np.uint8)


def words(column: pa.Array, t: Type | None = None) -> np.ndarray:
    """The int64 or float64 values of a column; a NULL has any value. Ranked types need :func:`ranks`."""
    t = t or type_of(column.type)
    if t.kind in ("null", "opaque"):
        return np.zeros(len(column), dtype=np.int64)
    if t.kind == "decimal":
        return _decimal_words(column)
    if t.is_float:
        return np.ascontiguousarray(_plain(column), dtype=np.float64)
    if t.kind == "boolean":
        return np.asarray(column.fill_null(False) if column.null_count else column).astype(np.int64)
    if t.kind == "date":
        return _plain(column.cast(pa.int32())).astype(np.int64)
    if t.kind in ("timestamp", "timestamp_ntz", "interval"):
        return np.ascontiguousarray(_plain(column.view(pa.int64())))
    return np.ascontiguousarray(_plain(column), dtype=np.int64)


def _plain(column: pa.Array) -> np.ndarray:
    if column.null_count:
        column = column.fill_null(0)
    return column.to_numpy(zero_copy_only=False)


def _decimal_words(column: pa.Array) -> np.ndarray:
    low, high = decimal_words(column)
    wide = high != (low >> 63)
    if column.null_count:
        wide &= ~np.asarray(column.is_null())
    if wide.any():
        raise MatchRuntimeError(
            "DECIMAL_RANGE",
            f"a value of {column.type} does not fit into 64 bits, which a window needs. Cast the column to DOUBLE or a smaller decimal",
            sqlstate="22003",
        )
    return low


def decimal_words(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The low and the high int64 words of a column of decimals."""
    if len(column) == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if column.type.bit_width != 128:
        column = column.cast(pa.decimal128(column.type.precision, column.type.scale))
    raw = np.frombuffer(column.buffers()[1], dtype=np.int64)[2 * column.offset : 2 * (column.offset + len(column))]
    return np.ascontiguousarray(raw[0::2]), np.ascontiguousarray(raw[1::2])


def whole_numbers(column: pa.Array) -> np.ndarray:
    """The values of integers, or of decimals in units of their last place: int64, or Python's integers if one of them does not fit.
    A NULL has any value."""
    if not pa.types.is_decimal(column.type):
        return words(column)
    low, high = decimal_words(column)
    return low if (high == low >> 63).all() else (high.astype(object) << 64) + low.view(np.uint64).astype(object)


def normalized(column: pa.Array) -> pa.Array:
    """The column with 0.0 instead of -0.0, at any depth, as Spark's GROUP BY gives keys."""
    t = column.type
    if pa.types.is_floating(t):
        return pc.add(column, pa.scalar(0.0, t))
    if pa.types.is_struct(t):
        return pa.StructArray.from_arrays([normalized(column.field(i)) for i in range(t.num_fields)], fields=list(t), mask=column.is_null())
    if is_list(t):
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32() if pa.types.is_list(t) else pa.int64())
        made = pa.ListArray if pa.types.is_list(t) else pa.LargeListArray
        return made.from_arrays(offsets, normalized(column.flatten()), type=t, mask=column.is_null())
    return column


def ranks(columns: list[pa.Array], constants: tuple[str, ...] = ()) -> tuple[list[np.ndarray], np.ndarray]:
    """The ranks of the columns' values, and of ``constants`` (string columns only), in one common order."""
    if columns and pa.types.is_decimal(columns[0].type):
        found = pc.rank(pa.chunked_array(columns), sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
        return np.split(found, np.cumsum([len(c) for c in columns])[:-1]), np.zeros(0, dtype=np.int64)
    if columns and not is_text(columns[0].type):
        return np.split(value_ranks(columns), np.cumsum([len(c) for c in columns])[:-1]), np.zeros(0, dtype=np.int64)
    t = columns[0].type if columns else pa.string()
    large = pa.types.is_large_string(t) or pa.types.is_large_binary(t)
    texts = [*columns, pa.array(list(constants), type=t)]
    pool = pc.unique(pa.chunked_array(texts, type=t)).drop_null()
    ordered = pool.take(pc.sort_indices(pool.cast(pa.large_binary() if large else pa.binary())))
    *found, fixed = (np.asarray(pc.index_in(c, value_set=ordered).fill_null(0)).astype(np.int64) for c in texts)
    return found, fixed


def value_ranks(columns: list[pa.Array]) -> np.ndarray:
    """The ranks of the values of all columns, which have one type, one column after the other; int64.

    They have Spark's order: NULL first, NaN last, strings by their bytes, structs and arrays by their parts.
    """
    t = columns[0].type
    if pa.types.is_struct(t):  # by position, because two fields may have one name
        by = [value_ranks(list(fields)) for fields in zip(*(column.flatten() for column in columns), strict=True)]
    elif is_list(t):
        # The bytes of a number have its order if the highest one comes first. So an array has the order of all its elements' bytes.
        elements = value_ranks([column.flatten() for column in columns]).astype(">i8")
        lengths = np.concatenate([pc.fill_null(pc.list_value_length(column), 0).to_numpy() for column in columns])
        ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]) * elements.itemsize
        by = ranks([pa.Array.from_buffers(pa.large_binary(), len(lengths), [None, pa.py_buffer(ends), pa.py_buffer(elements.tobytes())])])[0]
    elif is_text(t) or pa.types.is_decimal(t):
        by = [np.concatenate(ranks(columns)[0])]
    else:
        by = [np.concatenate([_ordered_words(column) for column in columns])]
    there = np.concatenate([null_marks(column) == 0 for column in columns])
    return dense_ranks([there.astype(np.int64), *(np.where(there, values, 0) for values in by)])


def _ordered_words(column: pa.Array) -> np.ndarray:
    """Numbers with the order of the values of a type that has one width, int64. A NULL has any number."""
    if pa.types.is_floating(column.type):
        return float_words(words(column))
    if pa.types.is_temporal(column.type):  # Python's times of one zone have the order of the clock, which repeats an hour a year
        return words(column.view(pa.int32() if column.type.bit_width == 32 else pa.int64()))
    return words(column)


def float_words(values: np.ndarray) -> np.ndarray:
    """int64 words that compare as Spark compares floating numbers: NaN is the greatest one, and -0.0 equals 0.0."""
    plain = values.astype(np.float64) + 0.0  # -0.0 becomes 0.0
    plain[np.isnan(plain)] = np.nan  # one NaN, which is positive
    return ordered_bits(plain.view(np.int64))


def ordered_words(values: np.ndarray) -> np.ndarray:
    """int64 words that compare as Spark compares the values, which are integers or floating numbers."""
    return float_words(values) if values.dtype.kind == "f" else values


def ordered_bits(words: np.ndarray) -> np.ndarray:
    """Turns the bits of floating numbers into int64 that compare as the numbers do, and such int64 into the bits."""
    return np.where(words < 0, words ^ np.iinfo(np.int64).max, words)


def boundaries(keys: list[pa.Array], rows: int) -> np.ndarray:
    """Partition boundaries: the offsets of runs of equal keys, int64 (partitions + 1). NULL equals NULL and NaN equals NaN, as in
    GROUP BY."""
    if rows == 0:
        return np.zeros(1, dtype=np.int64)
    starts = np.flatnonzero(_any_differs(keys, rows)) + 1
    return np.concatenate([[0], starts, [rows]]).astype(np.int64)


def _any_differs(columns: list[pa.Array], rows: int) -> np.ndarray:
    """Whether a row differs from the row before it in one of the columns, bool (rows - 1)."""
    found = np.zeros(rows - 1, dtype=bool)
    for column in columns:
        found |= _differs(column, rows)
    return found


def _differs(key: pa.Array, rows: int) -> np.ndarray:
    if rows <= 1:
        return np.zeros(max(rows - 1, 0), dtype=bool)
    t = key.type
    if is_list(t):
        return np.diff(value_ranks([key])) != 0
    left, right = key.slice(0, rows - 1), key.slice(1)
    if pa.types.is_struct(t):
        differ = _any_differs(key.flatten(), rows)
    elif pa.types.is_floating(t):
        x = words(key)
        nan = np.isnan(x)
        differ = (x[1:] != x[:-1]) & ~(nan[1:] & nan[:-1])
    elif pa.types.is_duration(t) or pa.types.is_timestamp(t):
        x = words(key)
        differ = x[1:] != x[:-1]
    elif pa.types.is_null(t):
        return np.zeros(rows - 1, dtype=bool)
    else:
        differ = np.asarray(pc.not_equal(left, right).fill_null(False))
    if key.null_count:
        null = null_marks(key)
        both = (null[1:] == 1) & (null[:-1] == 1)
        differ = (differ & ~both) | (null[1:] != null[:-1])
    return differ


def ranges(first: np.ndarray | int, counts: np.ndarray) -> np.ndarray:
    """For each i, ``counts[i]`` numbers from ``first[i]`` on, int64."""
    return np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))


def range_extremes(choose: np.ufunc, values: np.ndarray, begin: np.ndarray, end: np.ndarray, none: float) -> np.ndarray:
    """The least or the greatest value from ``begin`` to before ``end``, for each pair; ``none`` if the range is empty.

    ``choose`` is np.minimum or np.maximum. It uses a sparse table: level i holds the extremes of each 2**i neighbours, and two of
    these cover a range.
    """
    out, sizes = np.full(len(begin), none, dtype=values.dtype), end - begin
    level, wide = values, 1
    while True:
        now = (sizes >= wide) & (sizes < 2 * wide)
        out[now] = choose(level[begin[now]], level[end[now] - wide])
        if (sizes < 2 * wide).all():
            return out
        level = choose(level[: len(level) - wide], level[wide:])
        wide *= 2


def numbered(*keys: np.ndarray) -> np.ndarray:
    """The number of each element, from 0, among those with its keys; int64 (n). Elements with equal keys must be adjacent."""
    fresh = np.ones(len(keys[0]), dtype=bool)
    fresh[1:] = np.any([np.diff(key) != 0 for key in keys], axis=0)
    starts = np.flatnonzero(fresh)
    return ranges(0, np.diff(np.append(starts, len(fresh))))


def equal_codes(lists: list[list[pa.Array]]) -> np.ndarray | None:
    """Numbers that are equal if Spark's ``=`` finds the columns of two lists equal, one by one; int64 (lists, rows).

    A row with a NULL in one of its columns has -1. All lists have the same number of columns and rows. Returns None if columns to
    compare differ in type, or are nested.
    """
    codes = np.zeros((len(lists), len(lists[0][0])), dtype=np.int64)
    for number, columns in enumerate(zip(*lists)):
        if len({c.type for c in columns}) > 1 or pa.types.is_nested(columns[0].type):
            return None
        values = pa.concat_arrays(columns)
        if pa.types.is_floating(values.type):
            # All NaN become one NaN, and both zeros one zero.
            values = pc.if_else(pc.is_nan(values), pa.scalar(math.nan, values.type), pc.add(values, pa.scalar(0.0, values.type)))
        found = _numbered(values).reshape(codes.shape)
        if number == 0:
            codes = found
            continue
        missing = (found < 0) | (codes < 0)
        # Both are less than the number of values, so the pair fits one number.
        paired = _numbered(pa.array((codes * (int(found.max(initial=0)) + 1) + found).ravel()))
        codes = np.where(missing, -1, paired.reshape(codes.shape))
    return codes


def _numbered(values: pa.Array) -> np.ndarray:
    """Small numbers that are equal if the values are, -1 for NULL; int64."""
    return pc.fill_null(values.dictionary_encode().indices, -1).to_numpy().astype(np.int64)


def stable_order(by: Sequence[np.ndarray]) -> np.ndarray:
    """The places of rows, sorted by the first of ``by``, then the next; int64 (rows). Ties keep their order.

    If the values are so close together that they fit one number, with the row's place as the low bits, these numbers are sorted.
    That is several times as fast as numpy's sort by several keys. The stable sort profits from parts that are already in order.
    """
    rows = len(by[0])
    if rows == 0:
        return np.zeros(0, dtype=np.int64)
    if all(np.issubdtype(values.dtype, np.integer) for values in by):
        lows = [int(values.min()) for values in by]
        bits = [(int(values.max()) - low).bit_length() for values, low in zip(by, lows, strict=True)]
        place = (rows - 1).bit_length()
        if sum(bits) + place < _SORTED_BITS:
            packed = np.zeros(rows, dtype=np.int64)
            for values, low, width in zip(by, lows, bits, strict=True):
                packed = (packed << width) | (values.astype(np.int64) - low)
            return np.sort((packed << place) | np.arange(rows), kind="stable") & ((1 << place) - 1)
    return np.lexsort(by[::-1])


def dense_ranks(by: Sequence[np.ndarray]) -> np.ndarray:
    """The rank of each row, from 0, in the order of the first of ``by``, then the next; int64 (rows). Equal rows have one rank."""
    order = stable_order(by)
    rises = np.zeros(len(order), dtype=np.int64)
    for values in by:
        rises[1:] |= np.diff(values[order]) != 0
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.cumsum(rises)
    return found
