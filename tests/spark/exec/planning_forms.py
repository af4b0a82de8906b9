"""Forms in which a query's rows may be read, each with the rows it must give, computed in Python from the rows of the whole query.

A form reads a table ``{t}`` whose columns are ``c0``, ``c1`` and so on. It gives some of these columns, and a count where
``counted``.
"""

from __future__ import annotations

import decimal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as T

Rows = Sequence[tuple]
TEXTS = (T.DateType, T.TimestampType, T.TimestampNTZType, T.DayTimeIntervalType, T.YearMonthIntervalType, T.CalendarIntervalType, T.TimeType, T.NullType)
NOT_ATOMIC = (T.ArrayType, T.MapType, T.StructType, T.VariantType, T.NullType, T.CalendarIntervalType)


@dataclass(frozen=True)
class Column:
    """A column of the query. ``shown``: how it is written so that Python gets it whole. ``grouped``: whether rows can be told equal
    by it, in Spark and in Python alike. ``atomic``: whether a value can be written as a literal."""

    index: int
    kind: str
    shown: str
    grouped: bool
    atomic: bool

    @property
    def name(self) -> str:
        return f"c{self.index}"


def columns_of(schema: T.StructType) -> list[Column]:
    """The columns of a query with this schema."""
    found = []
    for i, field in enumerate(schema.fields):
        inner = list(_inner(field.dataType))
        if any(isinstance(t, T.VariantType) for t in inner):
            shown = f"to_json(c{i})"
        else:
            shown = f"CAST(c{i} AS STRING)" if any(isinstance(t, TEXTS) for t in inner) else f"c{i}"
        grouped = not any(isinstance(t, (T.MapType, T.VariantType, T.NullType, T.CalendarIntervalType)) or _is_collated(t) for t in inner)
        found.append(Column(i, field.dataType.simpleString(), shown, grouped, grouped and not isinstance(field.dataType, NOT_ATOMIC)))
    return found


def _inner(kind: T.DataType) -> Iterator[T.DataType]:
    yield kind
    if isinstance(kind, T.ArrayType):
        yield from _inner(kind.elementType)
    elif isinstance(kind, T.MapType):
        yield from _inner(kind.keyType)
        yield from _inner(kind.valueType)
    elif isinstance(kind, T.StructType):
        for field in kind.fields:
            yield from _inner(field.dataType)


def _is_collated(kind: T.DataType) -> bool:
    return isinstance(kind, T.StringType) and "collate" in kind.simpleString()


def key(value: Any, zero: bool = False) -> Any:
    """What tells a value from all others, also NaN from NaN and 1 from 1.0; with ``zero`` -0.0 is 0.0, as it is where Spark
    compares."""
    if isinstance(value, float):
        return repr(0.0 if zero and value == 0 else value)
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, dict):
        return tuple((key(k, zero), key(v, zero)) for k, v in value.items())
    if isinstance(value, (tuple, list)):
        return tuple(key(v, zero) for v in value)
    return value if value is None or isinstance(value, (str, int)) else repr(value)


def keys(rows: Rows, zero: bool = False) -> list[tuple]:
    return [key(tuple(row), zero) for row in rows]


@dataclass(frozen=True)
class Form:
    """``query`` gives ``n`` where ``counted``, and ``columns``. ``expected`` makes the rows (count, values) of the reference's
    keys; ``zero``: see :func:`key`; ``at_most``: the rows are so many of the expected ones."""

    name: str
    query: str
    columns: tuple[int, ...]
    expected: Callable[[list[tuple]], Counter]
    counted: bool = False
    zero: bool = False
    at_most: int | None = None

    def differs(self, reference: Rows, found: Sequence[tuple[int | None, tuple]]) -> str:
        """What is wrong with the rows found, each a count and the values of ``columns``; "" where nothing is."""
        wanted = self.expected(keys(reference, self.zero))
        got = Counter((n, key(values, self.zero)) for n, values in found)
        if self.at_most is not None:
            size = min(self.at_most, wanted.total())
            right = got.total() == size and got <= wanted
        else:
            right = got == wanted
        if right:
            return ""
        return f"{self.name}: came {_told(got - wanted)}, should {_told(wanted - got)}" + (f" ({self.at_most} of them)" if self.at_most else "")


def _told(rows: Counter) -> str:
    some = [f"{v if n is None else (n, *v)}" for n, v in sorted(rows.elements(), key=repr)[:4]]
    return (", ".join(some) or "nothing more") + (f" and {rows.total() - 4} more" if rows.total() > 4 else "")


def _alone(rows: list[tuple], *indices: int) -> Counter:
    return Counter((None, tuple(row[i] for i in indices)) for row in rows)


def _grouped(rows: list[tuple], indices: Sequence[int]) -> Counter:
    return Counter((n, values) for values, n in Counter(tuple(row[i] for i in indices) for row in rows).items())


def _list(columns: Sequence[Column]) -> str:
    return ", ".join(c.name for c in columns)


def picked(name: str, columns: Sequence[Column]) -> Form:
    """Some columns, nothing else."""
    indices = tuple(c.index for c in columns)
    return Form(name, f"SELECT {_list(columns)} FROM {{t}}", indices, lambda rows: _alone(rows, *indices))


def counted() -> Form:
    return Form("count(*)", "SELECT count(*) AS n FROM {t}", (), lambda rows: Counter([(len(rows), ())]), counted=True)


def _by(columns: Sequence[Column], name: str) -> Form:
    indices = tuple(c.index for c in columns)
    query = f"SELECT {_list(columns)}, count(*) AS n FROM {{t}} GROUP BY {_list(columns)}"
    return Form(f"GROUP BY {name}", query, indices, lambda rows: _grouped(rows, indices), counted=True, zero=True)


def _distinct(columns: Sequence[Column], name: str) -> Form:
    indices = tuple(c.index for c in columns)
    return Form(
        f"DISTINCT {name}", f"SELECT DISTINCT {_list(columns)} FROM {{t}}", indices, lambda rows: Counter(set(_alone(rows, *indices))), zero=True
    )


def _limit(columns: Sequence[Column], name: str, size: int) -> Form:
    return Form(
        f"{name} LIMIT {size}", f"SELECT {_list(columns)} FROM {{t}} LIMIT {size}", tuple(c.index for c in columns),
        lambda rows: _alone(rows, *(c.index for c in columns)), at_most=size,
    )  # fmt: skip


def _twice(columns: Sequence[Column], name: str) -> Form:
    one = f"SELECT {_list(columns)} FROM {{t}}"

    def expected(rows: list[tuple]) -> Counter:
        found = _alone(rows, *(c.index for c in columns))
        return found + found

    return Form(f"{name} UNION ALL itself", f"{one} UNION ALL {one}", tuple(c.index for c in columns), expected)


def _joined(on: Sequence[Column], given: Sequence[Column], name: str) -> Form:
    condition = " AND ".join(f"a.{c.name} <=> b.{c.name}" for c in on)
    query = f"SELECT {', '.join('a.' + c.name for c in given)} FROM {{t}} a JOIN {{t}} b ON {condition}"

    def expected(rows: list[tuple]) -> Counter:
        partners = Counter(tuple(row[c.index] for c in on) for row in rows)
        found: Counter = Counter()
        for row in rows:
            found[None, tuple(row[c.index] for c in given)] += partners[tuple(row[c.index] for c in on)]
        return found

    return Form(f"self join on {name}", query, tuple(c.index for c in given), expected, zero=True)


def _filtered(by: Column, value: Any, given: Sequence[Column] | None, name: str) -> Form:
    condition = f"{by.name} {'<=>' if value is None else '='} {literal(value, by.kind)}"
    wanted = key(value, zero=True)

    def expected(rows: list[tuple]) -> Counter:
        kept = [row for row in rows if row[by.index] == wanted]
        return Counter([(len(kept), ())]) if given is None else _alone(kept, *(c.index for c in given))

    read = "count(*) AS n" if given is None else _list(given)
    indices = tuple(c.index for c in given or ())
    return Form(f"{name} WHERE {condition}", f"SELECT {read} FROM {{t}} WHERE {condition}", indices, expected, counted=given is None, zero=True)


def _windowed(by: Column, given: Column) -> Form:
    query = f"SELECT {given.name}, count(*) OVER (PARTITION BY {by.name}) AS n FROM {{t}}"

    def expected(rows: list[tuple]) -> Counter:
        sizes = Counter(row[by.index] for row in rows)
        return Counter((sizes[row[by.index]], (row[given.index],)) for row in rows)

    return Form(f"{given.name}, count(*) OVER (PARTITION BY {by.name})", query, (given.index,), expected, counted=True, zero=True)


def _within(by: Column, given: Column) -> Form:
    query = f"SELECT {given.name} FROM {{t}} WHERE {by.name} IN (SELECT {by.name} FROM {{t}})"

    def expected(rows: list[tuple]) -> Counter:
        return _alone([row for row in rows if row[by.index] is not None], given.index)

    return Form(f"{given.name} WHERE {by.name} IN itself", query, (given.index,), expected, zero=True)


def literal(value: Any, kind: str) -> str:
    """SQL for a value of an atomic type, as Python or Spark's text has it."""
    if value is None:
        return f"CAST(NULL AS {kind})"
    if isinstance(value, (bytes, bytearray)):
        return f"X'{bytes(value).hex()}'"
    if kind.startswith("interval"):
        return str(value)  # Spark shows an interval as the literal it is
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"CAST('{text}' AS {kind})"


def few_forms(columns: Sequence[Column], rows: Rows, number: int) -> Iterator[Form]:
    """All columns, some alone, and a count, a group or a filter; ``number`` chooses them."""
    if len(columns) > 1:
        yield picked("SELECT *", columns)
    for i in sorted({number % len(columns), (number + 1 + len(columns) // 2) % len(columns)}):
        yield picked(columns[i].name, [columns[i]])
    keyed = [c for c in columns if c.atomic]
    if keyed and rows:
        by = keyed[number % len(keyed)]
        other = columns[(by.index + 1) % len(columns)]
        yield _filtered(by, _value(rows, by), [other], other.name)
    some = [c for c in columns if c.grouped]
    if some and number & 256:
        yield _by([some[number % len(some)]], some[number % len(some)].name)
    else:
        yield counted()


def all_forms(columns: Sequence[Column], rows: Rows, number: int) -> Iterator[Form]:
    """Each column alone, under a filter on it, in a group and the like; ``number`` chooses the columns of some forms."""
    one = columns[number % len(columns)]
    for column in columns:
        yield picked(column.name, [column])
    if len(columns) > 1:
        yield picked("SELECT *", columns)
        yield picked("columns from last to first", columns[::-1])
    if len(columns) > 2:
        yield picked("every other column", columns[::2])
        yield picked("every other column from the second", columns[1::2])
    yield counted()
    yield _limit(columns, "SELECT *", 2)
    yield _limit([one], one.name, 2)
    yield _twice(columns, "SELECT *")
    yield _twice([one], one.name)
    some = [c for c in columns if c.grouped]
    if some:
        by = some[(number >> 8) % len(some)]
        yield _by([by], by.name)
        if len(some) > 1:
            yield _by(some, "all")
            yield _distinct(some, "all")
            yield _joined(some, columns, "all")
        yield _distinct([by], by.name)
        yield _joined([by], [one], by.name)
        yield _windowed(by, one)
        yield _within(by, one)
    for column in (c for c in columns if c.atomic and rows):
        value = _value(rows, column)
        other = columns[(column.index + 1) % len(columns)]
        yield _filtered(column, value, [other], other.name)
        if column is one:
            yield _filtered(column, value, columns, "SELECT *")
            yield _filtered(column, value, None, "count(*)")


def _value(rows: Rows, column: Column) -> Any:
    """A value that the column has: the middle one."""
    found = sorted((row[column.index] for row in rows), key=repr)
    return found[len(found) // 2]
