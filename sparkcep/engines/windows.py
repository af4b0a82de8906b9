"""Where windows end, as arrays: one pass of binary search over the order column."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import null_marks, words
from sparkcep.columns.types import Type, type_of
from sparkcep.errors import SEMANTIC, ClauseError
from sparkcep.pattern.options import NO_WINDOW
from sparkcep.pattern.window import MICROS, ROWS

_UNITS = {"date": 86_400_000_000, "timestamp": 1, "timestamp_ntz": 1}


def plan_windows(windows: tuple, columns: dict[str, pa.Array], offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(ends int64 (windows, rows), backs int64 (rows)) of a plan's windows: for each window and row the first row outside a window that
    begins with it; the first row inside a window 0 that ends with it."""
    found = [window_ends(kind, size, columns.get(column), offsets) for kind, size, column, *_ in windows]
    return np.array([ends for ends, _ in found]), found[0][1]


def check_window(window: tuple, schema: pa.Schema) -> None:
    """Raises ClauseError where the order column does not fit the size of a plan's window."""
    kind, _, column, line, at, text = window
    if not column:
        return
    t = type_of(schema.field(column).type)
    if kind == MICROS and t.kind not in _UNITS:
        message = f"an INTERVAL window needs a timestamp or date as first ORDER BY expression, not {t}; write WINDOW n for numbers"
    elif kind != MICROS and not t.is_number:
        message = f"a WINDOW of a plain number needs a number as first ORDER BY expression, not {t}; write WINDOW INTERVAL '...'"
    else:
        return
    raise ClauseError("WINDOW_SIZE", message, sqlstate=SEMANTIC, line=line, column=at, fragment=text)


class Measured(NamedTuple):
    """Rows in the measure of a window, int64 or float64 (rows): ``when``; ``until``: the first place outside a window that begins with the row; ``near``: the
    last place no farther than the window's size. ``null`` bool (rows): the place is NULL, so that the row is in no match."""

    when: np.ndarray
    until: np.ndarray
    near: np.ndarray
    null: np.ndarray


def measured(window: tuple, column: pa.Array | None, positions: np.ndarray, descending: bool) -> Measured:
    """Rows with these ``positions`` in the measure of a plan's window; ``column``: its order column, if it is not of rows."""
    kind, size, *_ = window
    whole = np.zeros(len(positions), dtype=bool)
    if kind == NO_WINDOW:
        everywhere = np.zeros(len(positions), dtype=np.int64)
        return Measured(everywhere, everywhere + 1, everywhere, whole)
    if kind == ROWS:
        return _measured(positions, Fraction(size), whole)
    assert column is not None
    t = type_of(column.type)
    scaled = Fraction(size) / _UNITS[t.kind] if kind == MICROS else Fraction(size) * 10**t.scale
    values, null = words(column), null_marks(column).astype(bool)
    if t.is_float:
        null |= np.isnan(values)
    return _measured(-values if descending else values, scaled, null)


def _measured(when: np.ndarray, size: Fraction, null: np.ndarray) -> Measured:
    if when.dtype.kind == "f":
        return Measured(when, when + float(size), when + float(size), null)
    # whole values are apart by the next whole number or more
    return Measured(when, _added(when, -(-size.numerator // size.denominator)), _added(when, size.numerator // size.denominator), null)


def _added(values: np.ndarray, more: int) -> np.ndarray:
    top = np.iinfo(np.int64).max
    return np.where(values > top - min(more, top), top, values + min(more, top))


def window_ends(kind: str, size: str, column: pa.Array | None, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(ends, backs) int64 (rows): the first row whose distance from the row is the window's size or more, and the first row
    whose distance to it is less, within its partition. ``column`` is sorted in each partition, NULLs at an end; a row
    with a NULL has an empty window."""
    rows = int(offsets[-1])
    at = np.arange(rows, dtype=np.int64)
    sizes = np.diff(offsets)
    low, high = np.repeat(offsets[:-1], sizes), np.repeat(offsets[1:], sizes)
    if kind == NO_WINDOW:
        return high.copy(), low.copy()
    if kind == ROWS:
        n = min(int(size), rows + 1)
        return np.minimum(at + n, high), np.maximum(at - n + 1, low)
    assert column is not None
    t, exact = type_of(column.type), Fraction(size)
    scaled = exact / _UNITS[t.kind] if kind == MICROS else exact * 10**t.scale
    values = words(column)
    # whole values are apart by the next whole number or more
    reach = float(scaled) if t.is_float else -(-scaled.numerator // scaled.denominator)
    null = null_marks(column).astype(bool)
    if t.is_float:
        null |= np.isnan(values)
    ends, backs = at.copy(), at + 1
    for begin, end in zip(offsets.tolist(), offsets[1:].tolist()):
        kept = np.flatnonzero(~null[begin:end])
        if len(kept) == 0:
            continue
        first, last = begin + int(kept[0]), begin + int(kept[-1]) + 1
        x = values[first:last]
        if x[0] > x[-1]:
            x = -x  # descending: the distance counts
        ends[first:last] = first + np.searchsorted(x, x + reach, side="left")
        backs[first:last] = first + np.searchsorted(x, x - reach, side="right")
    return ends, backs


def check_slide(window: tuple, slide: tuple, schema: pa.Schema) -> None:
    """Raises ClauseError where sliding windows cannot be told in the type of the order column."""
    _, _, column, line, at, text = window
    if not column or type_of(schema.field(column).type).kind != "date":
        return
    if Fraction(slide[1]) % _UNITS["date"] or Fraction(window[1]) % _UNITS["date"]:
        message = "sliding windows over a DATE are of whole days; cast the ORDER BY expression to TIMESTAMP for others"
        raise ClauseError("SLIDE", message, sqlstate=SEMANTIC, line=line, column=at, fragment=text)


def window_type(column: pa.DataType | None, step: str) -> pa.DataType:
    """The type of WINDOW_START() over an order column (None: positions)."""
    if column is None:
        return pa.int64()
    t = type_of(column)
    if t.kind in _UNITS:
        return column
    if t.is_float or Fraction(step) * 10**t.scale % 1:
        return pa.float64()
    return pa.decimal128(38, t.scale) if t.kind == "decimal" else pa.int64()


def sliding_windows(
    window: tuple, slide: tuple, column: pa.Array | None, positions: np.ndarray, first: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, pa.Array, pa.Array]:
    """(match int64, WINDOW_START, WINDOW_END) for each match and sliding window that holds both its ``first`` and ``last`` row: windows begin at the
    multiples of the step, as those of Spark's window() function do; of rows, from the partition's first on."""
    kind, size_text, *_ = window
    size, step = Fraction(size_text), Fraction(slide[1])
    t = None if column is None else type_of(column.type)
    if t is not None:
        unit = Fraction(1, _UNITS[t.kind]) if kind == MICROS else Fraction(10**t.scale)
        size, step = size * unit, step * unit
    values = positions if column is None else words(column)
    ends = np.stack([values[first], values[last]])
    low, high = ends.min(axis=0), ends.max(axis=0)
    if t is not None and t.is_float:
        reach, pace, parts = float(size), float(step), 1
        top, bottom = np.floor(low / pace).astype(np.int64), np.floor((high - reach) / pace).astype(np.int64) + 1
    else:
        # in whole parts of a value, so that both are whole
        parts = lcm(size.denominator, step.denominator)
        reach, pace = int(size * parts), int(step * parts)
        top, bottom = low * parts // pace, (high * parts - reach) // pace + 1
    if column is None:
        bottom = np.maximum(bottom, 0)
    counts = np.maximum(top - bottom + 1, 0)
    which = np.repeat(np.arange(len(first)), counts)
    number = np.repeat(bottom - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(len(which)) if len(first) else which
    target = window_type(None if column is None else column.type, slide[1])
    return which, _places(number * pace, parts, t, target), _places(number * pace + reach, parts, t, target)


def _places(values: np.ndarray, parts: int, t: Type | None, target: pa.DataType) -> pa.Array:
    """Places in the measure of a window, in parts of its unit, as values of its type."""
    if pa.types.is_floating(target):
        return pa.array(values / (parts * (10**t.scale if t is not None and not t.is_float else 1)), type=target)
    whole = values // parts
    if pa.types.is_decimal(target):
        raw = b"".join(v.to_bytes(16, "little", signed=True) for v in whole.tolist())
        return pa.Array.from_buffers(target, len(whole), [None, pa.py_buffer(raw)])
    if pa.types.is_date32(target):
        return pa.array(whole.astype(np.int32)).cast(target)
    return pa.array(whole).cast(target)
