"""Values of columns as Python values that are equal where Spark finds the values equal.

Times become numbers: Python compares two times of one zone by their local clock, which repeats an hour, and its calendar ends with
the year 9999. Strings become bytes: Spark's strings may hold any bytes, and Python decodes only UTF-8.

Example: the strings ``a`` and NULL have the values ``b"a"`` and None.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa


def comparable(column: pa.Array | pa.ChunkedArray) -> list:
    """The values of a column, with numbers for times and bytes for strings, at any depth."""
    plain = with_leaves(column.type, _plain)
    return (column if plain == column.type else column.cast(plain)).to_pylist()


def readable(column: pa.Array | pa.ChunkedArray) -> list:
    """The values of a column as Arrow makes them.

    A value with a string that is not UTF-8 has bytes for its strings, and one with a time beyond Python's calendar numbers for its
    times.
    """
    try:
        return column.to_pylist()
    except (OverflowError, ValueError):
        forms = (column, *(column.cast(with_leaves(column.type, of_leaf)) for of_leaf in (as_bytes, as_number, _plain)))
        return [first_form(values, lambda value: value.as_py()) for values in zip(*forms, strict=True)]


def first_form(forms: tuple[pa.Scalar, ...], value_of: Callable[[pa.Scalar], object]) -> object:
    """The value of the first form that Python can represent."""
    for form in forms[:-1]:
        try:
            return value_of(form)
        except (OverflowError, ValueError):
            continue
    return value_of(forms[-1])


def with_leaves(t: pa.DataType, of_leaf: Callable[[pa.DataType], pa.DataType], nullable: bool = False) -> pa.DataType:
    """The type with ``of_leaf`` of each type in it that is not an array, map or struct. ``nullable``: all of its fields may be
    NULL."""

    def field(one: pa.Field) -> pa.Field:
        return one.with_type(with_leaves(one.type, of_leaf, nullable)).with_nullable(nullable or one.nullable)

    if pa.types.is_struct(t):
        return pa.struct([field(one) for one in t])
    if pa.types.is_map(t):
        return pa.map_(with_leaves(t.key_type, of_leaf, nullable), field(t.item_field))
    if pa.types.is_list(t):
        return pa.list_(field(t.value_field))
    return pa.large_list(field(t.value_field)) if pa.types.is_large_list(t) else of_leaf(t)


def as_number(t: pa.DataType) -> pa.DataType:
    """The type of the numbers of times; any other type as it is."""
    if not pa.types.is_temporal(t):
        return t
    return pa.int32() if pa.types.is_date32(t) or pa.types.is_time32(t) else pa.int64()


def as_bytes(t: pa.DataType) -> pa.DataType:
    """The type of the bytes of strings; any other type as it is."""
    return pa.binary() if pa.types.is_string(t) else pa.large_binary() if pa.types.is_large_string(t) else t


def in_utc(t: pa.DataType) -> pa.DataType:
    """The type of times in UTC instead of another zone; any other type as it is."""
    return pa.timestamp(t.unit, "UTC") if pa.types.is_timestamp(t) and t.tz is not None else t


def _plain(t: pa.DataType) -> pa.DataType:
    return as_bytes(as_number(t))
