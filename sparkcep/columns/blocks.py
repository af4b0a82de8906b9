"""Reads blocks: rows of one target partition as columns, which the JVM writes before an exchange (BlockPage.java).

A block is little-endian, and each of its parts begins on a multiple of eight bytes:

- Four numbers (int32): the format's mark, the rows, the bytes of the description, and the bytes of the block.
- The description: JSON, see :class:`Description`.
- A byte per column: 0 without NULL, 1 if some values are NULL, 2 if all are.
- The columns, but nothing of one whose values are all NULL. A column with some NULL begins with a byte per row, 1 for NULL. Then
  come the values at their own width, zeros for NULL. Values of their own lengths are instead the ends of the values (int32 per row)
  and then the bytes of all values.

Example: two rows of one int32 column, 7 and NULL, are after their description the bytes ``1`` and padding, ``0 1`` and padding, and
the int32 numbers 7 and 0.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from sparkcep.errors import MatchRuntimeError

MARK = int.from_bytes(b"scb3", "little")
_HEAD = np.dtype([("mark", "<i4"), ("rows", "<i4"), ("description", "<i4"), ("size", "<i4")])
_TEXTS = ("string", "binary")
_SOME, _ALL = 1, 2  # of a column's values are NULL
# name in a description -> (type of the values in a block, Arrow's type); the others need the time zone, or numbers of their own
_TYPES: dict[str, tuple[Any, pa.DataType]] = {
    "bool": (np.uint8, pa.bool_()),
    "int8": (np.int8, pa.int8()),
    "int16": (np.int16, pa.int16()),
    "int32": (np.int32, pa.int32()),
    "int64": (np.int64, pa.int64()),
    "float": (np.float32, pa.float32()),
    "double": (np.float64, pa.float64()),
    "date": (np.int32, pa.date32()),
    "timestamp_ntz": (np.int64, pa.timestamp("us")),
    "duration": (np.int64, pa.duration("us")),
    "time": (np.int64, pa.time64("ns")),
}
_WIDE = np.dtype((np.int64, 2))  # a decimal of more than 18 digits: low and high word


class ColumnType(NamedTuple):
    """The type of a column: of its values in a block (None for values of their own lengths), and in Arrow."""

    values: np.dtype | None
    arrow: pa.DataType


class Order(NamedTuple):
    """One expression of ORDER BY: the column, and how it is ordered."""

    column: int
    descending: bool
    nulls_first: bool


class Struct(NamedTuple):
    """A struct whose fields are columns.

    Attributes:
        present: a column that is NULL where the struct is.
        fields: the name of each field, whether it may be NULL, and its column or struct.
    """

    present: int
    fields: tuple[tuple[str, bool, int | Struct], ...]


Part: TypeAlias = int | Struct  # what the engine gets as one column


@dataclass(frozen=True)
class Description:
    """The columns of all blocks of a task, and their order.

    Attributes:
        types: of each column.
        sent: how many columns go to the engine. The others only order rows.
        output: what the engine gets of these: columns, and structs of columns.
        keys: columns that are equal in all rows of a partition, and differ between partitions.
        order: ORDER BY.
        held: how many bytes of blocks a worker holds in memory.
    """

    types: tuple[ColumnType, ...]
    sent: int
    output: tuple[Part, ...]
    keys: tuple[int, ...]
    order: tuple[Order, ...]
    held: int

    @staticmethod
    def read(text: bytes) -> Description:
        """Reads a description. Raises MatchRuntimeError."""
        try:
            given = json.loads(text)
            types = tuple(_type(str(name), given["zone"], given["large"]) for name in given["types"])
            order = tuple(Order(_place(column, types), bool(descending), bool(first)) for column, descending, first in given["order"])
            keys = tuple(_place(column, types) for column in given["keys"])
            sent, held = given["sent"], given["held"]
            output = tuple(_part_of(part, types[:sent]) for part in given["output"])
        except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError) as error:
            raise damaged("its description cannot be read") from error
        if not isinstance(sent, int) or not 0 <= sent <= len(types) or not isinstance(held, int):
            raise damaged("its description is wrong")
        return Description(types, sent, output, keys, order, held)


def _place(column: int, types: tuple[ColumnType, ...]) -> int:
    if not isinstance(column, int) or not 0 <= column < len(types):
        raise IndexError
    return column


def _part_of(given: int | dict, types: tuple[ColumnType, ...]) -> Part:
    if not isinstance(given, dict):
        return _place(given, types)
    fields = tuple((str(name), bool(nullable), _part_of(part, types)) for name, nullable, part in given["fields"])
    return Struct(_place(given["present"], types), fields)


def _type(name: str, zone: str, large: bool) -> ColumnType:
    kind, *numbers = name.split()
    if kind == "decimal":
        precision, scale = map(int, numbers)
        return ColumnType(np.dtype(np.int64) if precision <= 18 else _WIDE, pa.decimal128(precision, scale))
    if kind == "timestamp":
        return ColumnType(np.dtype(np.int64), pa.timestamp("us", tz=zone))
    if kind in _TEXTS:
        plain, wide = (pa.string(), pa.large_string()) if kind == "string" else (pa.binary(), pa.large_binary())
        return ColumnType(None, wide if large else plain)
    values, arrow = _TYPES[kind]
    return ColumnType(np.dtype(values), arrow)


class BlockColumn(NamedTuple):
    """A column of a block, as views of its bytes.

    Attributes:
        nulls: 1 for NULL. uint8 (rows); None without NULL.
        values: the values (rows), or the bytes of all values. uint8 (bytes).
        ends: the end of each value in these bytes. int32 (rows); None if the values have one width.
    """

    nulls: np.ndarray | None
    values: np.ndarray
    ends: np.ndarray | None


class Block(NamedTuple):
    """A block: the bytes of its description and what they say, its rows, and its columns."""

    text: bytes
    description: Description
    rows: int
    columns: tuple[BlockColumn, ...]


def read_block(data: np.ndarray, before: Block | None = None) -> Block:
    """Reads a block without copying it.

    Args:
        data: its bytes. uint8 (n).
        before: another block of the same task, if there is one.

    Raises:
        MatchRuntimeError: the block is damaged, of another format, or has other columns than the one before it.
    """
    if len(data) < _HEAD.itemsize:
        raise damaged("it is cut off")
    head = data[: _HEAD.itemsize].view(_HEAD)[0]
    if head["mark"] != MARK:
        raise damaged("it is of another format; the driver and the workers may have different versions of sparkcep")
    rows, described = int(head["rows"]), int(head["description"])
    if int(head["size"]) != len(data) or rows < 0 or not 0 <= described <= len(data) - _HEAD.itemsize:
        raise damaged("it is cut off")
    at = _HEAD.itemsize
    text = data[at : at + described].tobytes()
    at += _padded(described)
    if before is not None and text != before.text:
        raise damaged("it has other columns than the blocks before it")
    description = before.description if before else Description.read(text)
    with_nulls, at = _part(data, at, np.dtype(np.uint8), len(description.types))
    columns = []
    for column, null in zip(description.types, with_nulls, strict=True):
        nulls = None
        if null == _ALL:
            columns.append(_null_column(column, rows))
            continue
        if null not in (0, _SOME):
            raise damaged("its marks of NULL are wrong")
        if null:
            nulls, at = _part(data, at, np.dtype(np.uint8), rows)
        if column.values is not None:
            values, at = _part(data, at, column.values, rows)
            columns.append(BlockColumn(nulls, values, None))
            continue
        ends, at = _part(data, at, np.dtype(np.int32), rows)
        if rows and (ends[0] < 0 or (ends[1:] < ends[:-1]).any()):
            raise damaged("the lengths of its values are wrong")
        values, at = _part(data, at, np.dtype(np.uint8), int(ends[-1]) if rows else 0)
        columns.append(BlockColumn(nulls, values, ends))
    if at != len(data):
        raise damaged("it is longer than its rows")
    return Block(text, description, rows, tuple(columns))


def _null_column(column: ColumnType, rows: int) -> BlockColumn:
    """Returns a column of NULLs, whose arrays have one element in memory."""
    nulls = repeated(np.ones(1, dtype=np.uint8), rows)
    if column.values is None:
        return BlockColumn(nulls, np.empty(0, dtype=np.uint8), repeated(np.zeros(1, dtype=np.int32), rows))
    return BlockColumn(nulls, repeated(np.zeros(1, dtype=column.values), rows), None)


def repeated(value: np.ndarray, rows: int) -> np.ndarray:
    """Returns an array of one element (1, ...) that has it in each row (rows, ...). It shares the memory."""
    return np.broadcast_to(value, (rows, *value.shape[1:]))


def _part(data: np.ndarray, at: int, dtype: np.dtype, count: int) -> tuple[np.ndarray, int]:
    """Returns ``count`` values from the byte ``at`` on, and the byte of the next part."""
    size = dtype.itemsize * count
    if at + size > len(data):
        raise damaged("it is cut off")
    return np.frombuffer(data[at : at + size], dtype), at + _padded(size)


def _padded(size: int) -> int:
    return (size + 7) & ~7


def damaged(what: str) -> MatchRuntimeError:
    """Returns the error of a block that cannot be read."""
    return MatchRuntimeError("BLOCK_FORMAT", f"a block of rows cannot be read: {what}", sqlstate="58030")
