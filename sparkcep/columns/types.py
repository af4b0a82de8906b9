"""Value types in conditions: how each Arrow type is represented in the kernels' int64 or float64 words.

========================  =========================================================================
boolean, integers         int64 (0/1; the type keeps the width for overflow checks)
decimal(p, s)             int64, scaled by 10**s; with more than 18 digits two words, 128 bits
float, double             float64; float results are rounded to 32 bits after each operation
date, timestamps          int64 days, int64 microseconds
day-time interval         int64 microseconds
year-month interval       int64 months
string, binary            int64 rank in byte order among all values of the batch in use
arrays, structs           int64 rank in Spark's order
map, variant, geometry    only whether it is NULL: Spark does not compare them
========================  =========================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

INT_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
MAX_WORD_DIGITS = 18  # of a decimal in one word
MAX_DIGITS = 38
# Parts of a column that the kernels see: its values, or the words of decimals, or decimals as doubles.
WORD, LOW, HIGH, AS_DOUBLE = "", "low", "high", "double"


@dataclass(frozen=True)
class Type:
    """A value type.

    ``kind`` is null, boolean, tinyint, smallint, int, bigint, decimal, float, double, string, binary, date, timestamp,
    timestamp_ntz, interval, months, nested or opaque.

    ``detail`` distinguishes nested types as Spark's comparisons do: by the types in them. Names of fields and their nullability do
    not count.
    """

    kind: str
    precision: int = 0
    scale: int = 0
    detail: str = ""

    @property
    def is_integer(self) -> bool:
        return self.kind in INT_BITS

    @property
    def is_float(self) -> bool:
        return self.kind in ("float", "double")

    @property
    def is_number(self) -> bool:
        return self.is_integer or self.is_float or self.kind == "decimal"

    @property
    def is_wide(self) -> bool:
        """Whether values are represented by two words."""
        return self.kind == "decimal" and self.precision > MAX_WORD_DIGITS

    @property
    def is_ranked(self) -> bool:
        """Whether values are represented by ranks, so that only comparisons make sense."""
        return self.kind in ("string", "binary", "nested")

    @property
    def is_time(self) -> bool:
        """Whether values are dates or timestamps."""
        return self.kind in ("date", "timestamp", "timestamp_ntz")

    @property
    def is_interval(self) -> bool:
        return self.kind in ("interval", "months")

    def __str__(self) -> str:
        if self.kind == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.kind == "months":
            return "interval year to month"
        return self.detail or self.kind


NULL, BOOLEAN, TINYINT, INT, BIGINT, DOUBLE = Type("null"), Type("boolean"), Type("tinyint"), Type("int"), Type("bigint"), Type("double")
STRING, DATE = Type("string"), Type("date")

_PLAIN = {
    pa.bool_(): BOOLEAN,
    pa.int8(): TINYINT,
    pa.int16(): Type("smallint"),
    pa.int32(): INT,
    pa.int64(): BIGINT,
    pa.float32(): Type("float"),
    pa.float64(): DOUBLE,
    pa.date32(): DATE,
    pa.null(): NULL,
}


def type_of(arrow: pa.DataType) -> Type:
    """The type of an Arrow column as Spark ships it."""
    if arrow in _PLAIN:
        return _PLAIN[arrow]
    if pa.types.is_decimal(arrow):
        return Type("decimal", arrow.precision, arrow.scale)
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return STRING
    if pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow):
        return Type("binary")
    if pa.types.is_timestamp(arrow):
        return Type("timestamp" if arrow.tz else "timestamp_ntz")
    if pa.types.is_duration(arrow):
        return Type("interval")
    if pa.types.is_nested(arrow):
        return Type("nested" if _is_ordered(arrow) else "opaque", detail=_structure(arrow))
    return Type("nested", detail="time" if pa.types.is_time(arrow) else str(arrow))


def _own(arrow: pa.DataType) -> str | None:
    """The name of one of Spark's own types that travel as structs. Metadata of the struct's field names it."""
    metadata = [field.metadata or {} for field in arrow] if pa.types.is_struct(arrow) else []
    return next((name for name in ("variant", "geometry", "geography") for found in metadata if found.get(name.encode()) == b"true"), None)


def _is_ordered(arrow: pa.DataType) -> bool:
    """Whether Spark compares values of a type."""
    if pa.types.is_map(arrow) or _own(arrow):
        return False
    return all(_is_ordered(arrow.field(i).type) for i in range(arrow.num_fields)) if pa.types.is_nested(arrow) else True


def _structure(arrow: pa.DataType) -> str:
    own = _own(arrow)
    if own:
        return own
    if pa.types.is_struct(arrow):
        return f"struct<{', '.join(_structure(field.type) for field in arrow)}>"
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return f"array<{_structure(arrow.value_type)}>"
    if pa.types.is_map(arrow):
        return f"map<{_structure(arrow.key_type)}, {_structure(arrow.item_type)}>"
    return str(arrow) if pa.types.is_nested(arrow) else str(type_of(arrow))


def decimal_of(t: Type) -> Type:
    """The decimal type that holds an integer type, as Spark widens it."""
    if t.kind == "decimal":
        return t
    return Type("decimal", {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}[t.kind], 0)


def adjusted(precision: int, scale: int) -> Type:
    """Spark's DecimalType.adjustPrecisionScale: digits beyond 38 are cut from the scale, down to 6."""
    if precision <= 38:
        return Type("decimal", precision, scale)
    return Type("decimal", 38, max(38 - (precision - scale), min(scale, 6)))


def bounded(precision: int, scale: int) -> Type:
    """Spark's DecimalType.bounded: both are limited to 38."""
    return Type("decimal", min(MAX_DIGITS, precision), min(MAX_DIGITS, scale))


def wider(a: Type, b: Type) -> Type:
    """Spark's common decimal type for comparing two others. Of the digits beyond 38 it drops those after the decimal point."""
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale
    return Type("decimal", min(MAX_DIGITS, precision), max(0, scale - max(0, precision - MAX_DIGITS)))
