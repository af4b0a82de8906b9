"""Rows as bytes, in pieces of some rows each: the saved rows of growing partitions, without a schema.

A column consists of a few *sections*, which follow from its type. The first one says which of its values are not NULL; it is empty
if all are. The others are:

* Numbers, dates, timestamps, intervals and decimals: their values as Arrow has them. Booleans are a byte each.
* Strings and binary: uint32 lengths, then the bytes.
* Arrays and maps: uint32 lengths, then the sections of the elements, or of keys and items.
* Structs: the sections of the fields.

Bytes may come from a damaged file, so every length is compared with the bytes that are present before it is used.

Example: the strings ``ab``, NULL and ``c`` have the sections ``1 0 1`` (bytes), ``2 0 1`` (uint32) and ``abc``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import flat, is_list, is_text, ranges
from sparkcep.errors import MatchRuntimeError

LENGTH, BYTE = np.dtype("<u4"), np.dtype("u1")


class Sections:
    """Bytes of one section: piece i is ``data[until[i]:until[i + 1]]``."""

    def __init__(self, values: np.ndarray, bounds: np.ndarray) -> None:
        values = np.ascontiguousarray(values)
        self.data = values.view(BYTE).reshape(-1)
        self.until = bounds * values.itemsize if len(values) else np.zeros(len(bounds), dtype=np.int64)
        self.sizes = np.diff(self.until)

    def pieces(self) -> pa.Array:
        """The bytes of each piece."""
        return pa.Array.from_buffers(pa.large_binary(), len(self.until) - 1, [None, pa.py_buffer(self.until), pa.py_buffer(self.data)])


def slices(whole: pa.Buffer, begin: np.ndarray, end: np.ndarray) -> pa.Array:
    """The bytes from each ``begin`` to its ``end``, as one contiguous array. The ranges ascend and do not overlap."""
    ends = np.zeros(2 * len(begin) + 1, dtype=np.int64)
    ends[:-1:2], ends[1::2], ends[-1] = begin, end, end[-1] if len(end) else 0
    among = pa.Array.from_buffers(pa.large_binary(), 2 * len(begin), [None, pa.py_buffer(ends), whole])
    return among.take(pa.array(np.arange(0, 2 * len(begin), 2)))


def bytes_of(column: pa.Array) -> tuple[pa.Buffer, np.ndarray]:
    """The memory of a column of type large_binary, and the begin of each value in it, int64 (values + 1)."""
    _, ends, data = column.buffers()
    begins = np.frombuffer(ends, dtype=np.int64, count=len(column) + 1, offset=8 * column.offset) if len(column) else np.zeros(1, dtype=np.int64)
    return data if data is not None else pa.py_buffer(b""), begins


def described(t: pa.DataType) -> str:
    """A type by the content of its sections. Raises TypeError for one that Spark does not ship."""
    if pa.types.is_struct(t):
        return "struct(" + ",".join(described(field.type) for field in t) + ")"
    if pa.types.is_map(t):
        return f"map({described(t.key_type)},{described(t.item_type)})"
    if is_list(t):
        return f"list({described(t.value_type)})"
    if is_text(t):
        return "binary"
    if pa.types.is_timestamp(t):
        return f"timestamp({t.unit})"  # the zone is the session's, and the values do not depend on it
    if pa.types.is_null(t) or pa.types.is_boolean(t) or pa.types.is_decimal(t) or pa.types.is_temporal(t) or pa.types.is_primitive(t):
        return str(t)
    raise TypeError(f"rows with a column of type {t} cannot be kept")


def packed(table: pa.Table, bounds: np.ndarray) -> list[Sections]:
    """The sections of a table in pieces; ``bounds`` int64 (pieces + 1) are the begins of the pieces."""
    return [section for column in table.columns for section in _sections(flat(column), bounds)]


def section_count(schema: pa.Schema) -> int:
    """How many sections rows have."""
    return sum(map(_count, schema.types))


def has_bytes_of_each_row(schema: pa.Schema) -> bool:
    """Whether some section has bytes of every row. If none has, the bytes do not bound the number of rows."""
    return any(map(_has_bytes, schema.types))


def unpacked(schema: pa.Schema, sections: Sequence[tuple[bytes, np.ndarray]], rows: np.ndarray) -> pa.Table:
    """A table of pieces of ``rows`` int64 (pieces) each.

    ``sections`` has for each section the bytes of all pieces, and int64 (pieces) how many belong to each. Raises ValueError for
    bytes that are not such pieces, or not values of the types, and MatchRuntimeError for more values than Arrow can hold.
    """
    left = iter(sections)
    table = pa.table([_column(t, left, rows) for t in schema.types], schema=schema)
    table.validate()
    return table


def _is_large(t: pa.DataType) -> bool:
    return pa.types.is_large_string(t) or pa.types.is_large_binary(t)


def _count(t: pa.DataType) -> int:
    if pa.types.is_null(t):
        return 0
    if pa.types.is_struct(t):
        return 1 + sum(_count(field.type) for field in t)
    if pa.types.is_map(t):
        return 2 + _count(t.key_type) + _count(t.item_type)
    if is_list(t):
        return 2 + _count(t.value_type)
    return 3 if is_text(t) else 2


def _has_bytes(t: pa.DataType) -> bool:
    if pa.types.is_struct(t):
        return any(_has_bytes(field.type) for field in t)
    return not pa.types.is_null(t)


def _sections(column: pa.Array, bounds: np.ndarray) -> Iterator[Sections]:
    t = column.type
    if pa.types.is_null(t):
        return
    there = np.asarray(column.is_valid()).astype(BYTE) if column.null_count else np.zeros(0, dtype=BYTE)
    yield Sections(there, bounds)
    if pa.types.is_struct(t):
        for i in range(t.num_fields):
            yield from _sections(column.field(i), bounds)
    elif pa.types.is_map(t) or is_list(t):
        offsets = np.asarray(column.offsets, dtype=np.int64)
        yield Sections(np.diff(offsets).astype(LENGTH), bounds)
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        for values in (column.keys, column.items) if pa.types.is_map(t) else (column.values,):
            yield from _sections(values.slice(first, count), offsets[bounds] - first)
    elif is_text(t):
        _, ends, data = column.buffers()
        width = np.int64 if _is_large(t) else np.int32
        offsets = np.frombuffer(ends, dtype=width, count=len(column) + 1, offset=column.offset * np.dtype(width).itemsize).astype(np.int64)
        yield Sections(np.diff(offsets).astype(LENGTH), bounds)
        first, last = int(offsets[0]), int(offsets[-1])
        yield Sections(np.frombuffer(data, dtype=BYTE)[first:last] if last > first else np.zeros(0, dtype=BYTE), offsets[bounds] - first)
    else:
        if pa.types.is_boolean(t):
            column = pc.fill_null(column, False).cast(pa.uint8())
        width = column.type.bit_width // 8
        values = np.frombuffer(column.buffers()[1], dtype=BYTE)[column.offset * width : (column.offset + len(column)) * width]
        yield Sections(values.view(f"V{width}"), bounds)


def _column(t: pa.DataType, sections: Iterator[tuple[bytes, np.ndarray]], rows: np.ndarray) -> pa.Array:
    count = int(rows.sum())
    if pa.types.is_null(t):
        return pa.nulls(count)
    marks = next(sections)  # read last: what is beside them shows whether there are so many rows
    if pa.types.is_struct(t):
        fields = [_column(field.type, sections, rows) for field in t]
        return pa.StructArray.from_buffers(t, count, [_there(*marks, rows)], children=fields)
    if pa.types.is_map(t) or is_list(t):
        lengths, inside = _lengths(*next(sections), rows)
        if pa.types.is_map(t):
            keys, items = _column(t.key_type, sections, inside), _column(t.item_type, sections, inside)
            entries = pa.StructArray.from_arrays([keys, items], fields=[t.key_field, t.item_field])
            return pa.Array.from_buffers(t, count, [_there(*marks, rows), _ends(lengths, np.int32)], children=[entries])
        values = _column(t.value_type, sections, inside)  # before the ends: it compares the lengths with the bytes
        ends = _ends(lengths, np.int64 if pa.types.is_large_list(t) else np.int32)
        return pa.Array.from_buffers(t, count, [_there(*marks, rows), ends], children=[values])
    if is_text(t):
        lengths, inside = _lengths(*next(sections), rows)
        data = pa.py_buffer(_data(*next(sections), inside))
        plain, width = (pa.large_binary(), np.int64) if _is_large(t) else (pa.binary(), np.int32)
        return _checked(pa.Array.from_buffers(plain, count, [_there(*marks, rows), _ends(lengths, width), data])).view(t)  # a string may hold any bytes
    stored = pa.uint8() if pa.types.is_boolean(t) else t
    data = _data(*next(sections), rows * (stored.bit_width // 8))
    return _checked(pa.Array.from_buffers(stored, count, [_there(*marks, rows), pa.py_buffer(data)])).cast(t)


def _checked(values: pa.Array) -> pa.Array:
    """The values. Raises ArrowInvalid if they are not values of their type, such as a decimal with too many digits."""
    values.validate(full=True)
    return values


def _there(data: bytes, sizes: np.ndarray, rows: np.ndarray) -> pa.Buffer | None:
    """Arrow's bitmap of the values that are not NULL. In a piece without bytes all values are present."""
    if not data:
        return None
    marked = np.flatnonzero(sizes)
    if not np.array_equal(sizes[marked], rows[marked]) or rows.sum() >= 1 << 31:
        raise ValueError("marks of other rows")
    there = np.ones(int(rows.sum()), dtype=BYTE)
    there[ranges((np.cumsum(rows) - rows)[marked], rows[marked])] = np.frombuffer(data, dtype=BYTE)
    return pa.py_buffer(np.packbits(there, bitorder="little"))


def _lengths(data: bytes, sizes: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The length of each value, int64, and the sum of the lengths of each piece, int64 (pieces)."""
    lengths = np.frombuffer(_data(data, sizes, rows * LENGTH.itemsize), dtype=LENGTH).astype(np.int64)
    sums = np.concatenate([[0], np.cumsum(lengths)])
    ends = np.cumsum(rows)
    return lengths, sums[ends] - sums[ends - rows]


def _data(data: bytes, sizes: np.ndarray, wanted: np.ndarray) -> bytes:
    """The bytes of a section. Raises ValueError unless each piece has as many as ``wanted``."""
    if not np.array_equal(sizes, wanted):
        raise ValueError("values of other rows")
    return data


def _ends(lengths: np.ndarray, width: type) -> pa.Buffer:
    ends = np.concatenate([[0], np.cumsum(lengths)])
    most = np.iinfo(width).max
    if ends[-1] > most:
        raise MatchRuntimeError(
            "STATE_LIMIT",
            f"the saved rows of the keys that a task searches have more than {most:,} bytes of strings, or elements of arrays, in one column. Set "
            "spark.sql.execution.arrow.useLargeVarTypes to true (strings), use a smaller WINDOW, or leave the column out", sqlstate="54000",
        )
    return pa.py_buffer(ends.astype(width))
