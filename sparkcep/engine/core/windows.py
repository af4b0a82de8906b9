"""WINDOW as arrays: the end of each row's window, and the sliding windows of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import null_marks, ordered_bits, ordered_words, ranges, words
from sparkcep.columns.types import Type, type_of
from sparkcep.engine.core.chunk import Chunk
from sparkcep.errors import SEMANTIC, ClauseError, TooMuchStateError
from sparkcep.kernels.common import window_ends as searching
from sparkcep.plan.options import MICROS, NO_WINDOW, ROWS, common_unit
from sparkcep.plan.records import Slide, Window

_TOP = np.iinfo(np.int64).max
_UNSIGNED_TOP = np.iinfo(np.uint64).max
_HALF = np.uint64(1 << 63)
WINDOW_BYTES = 24  # memory of one sliding window
_WORDS = {pa.date32(): np.int32, pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32}  # other types have words of 64 bits
_UNITS = {"date": 86_400_000_000, "timestamp": 1, "timestamp_ntz": 1}


def plan_windows(windows: tuple[Window, ...], columns: dict[str, pa.Array], offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the window bounds of each row.

    Returns:
        ends: for each window and row, the first row outside a window that begins with the row. int64 (windows, rows).
        backs: for each row, the first row inside a window 0 that ends with the row. int64 (rows).
    """
    found = [window_ends(window.kind, window.size, columns.get(window.order), offsets) for window in windows]
    return np.array([ends for ends, _ in found]), found[0][1]


def whole_micros(size: str) -> int:
    """Returns the size of a time window in microseconds, rounded up."""
    return _next_whole(Fraction(size))


def check_window(window: Window, schema: pa.Schema) -> None:
    """Raises ClauseError if the type of the order column does not fit the window's size."""
    if not window.order:
        return
    t = type_of(schema.field(window.order).type)
    if window.kind == MICROS and t.kind not in _UNITS:
        message = f"an INTERVAL window needs a timestamp or date as first ORDER BY expression, not {t}; {'cast it, as in ORDER BY to_timestamp(...)' if t.kind == 'string' else 'write WINDOW n for numbers'}"
    elif window.kind != MICROS and not t.is_number:
        message = f"a WINDOW of a plain number needs a number as first ORDER BY expression, not {t}; write WINDOW INTERVAL '...'"
    else:
        return
    raise ClauseError("WINDOW_SIZE", message, sqlstate=SEMANTIC, line=window.line, column=window.column, fragment=window.text)


class Measured(NamedTuple):
    """The places of rows in the measure of a window: times, numbers or positions.

    Attributes:
        when: the place of each row. int64 or float64 (rows).
        until: the last place inside a window that begins with the row. The type is that of ``when``.
        near: the last place whose distance is at most the window's size. The type is that of ``when``.
        null: whether the place is NULL, so that the row is in no match. bool (rows).
    """

    when: np.ndarray
    until: np.ndarray
    near: np.ndarray
    null: np.ndarray


def measured(window: Window, column: pa.Array | None, positions: np.ndarray, descending: bool) -> Measured:
    """Returns the places of rows in the measure of a window.

    Args:
        window: the plan's window.
        column: its order column, None for a window of rows.
        positions: the positions of the rows in their partitions.
        descending: whether the order column descends.
    """
    kind, size = window.kind, window.size
    never = np.zeros(len(positions), dtype=bool)
    if kind == NO_WINDOW:
        everywhere = np.zeros(len(positions), dtype=np.int64)
        return Measured(_alike(everywhere), everywhere, everywhere, never)
    if kind == ROWS:
        return _measured(positions, Fraction(size), never)
    assert column is not None
    t = type_of(column.type)
    values, null = _ordered(column, descending)
    return _measured(values, _in_units(size, kind, t), null)


def next_places(window: Window, chunk: Chunk, places: Measured, parts: np.ndarray, resume: np.ndarray) -> np.ndarray:
    """Returns, over a stream, the first place that a row not searched yet may have in each partition.

    Args:
        window: the plan's window.
        chunk: the chunk.
        places: the places of the chunk's rows.
        parts: the partitions.
        resume: the first row of each that was not searched yet, or the partition's end.
    """
    high = chunk.offsets[parts + 1]
    at = np.minimum(resume, chunk.rows - 1)
    if window.kind == ROWS:
        return np.where(resume < high, chunk.positions[at], chunk.positions[high - 1] + 1)
    assert chunk.watermark is not None
    return np.where(resume < high, places.when[at], chunk.watermark + 1)


def first_ending_behind(until: np.ndarray, ends: np.ndarray, chunk: Chunk) -> np.ndarray:
    """Returns the first row of each partition whose window ends after a given row. int64 (partitions).

    Args:
        until: the given row of each partition. int64 (partitions).
        ends: the row after each window, ascending in each partition. int64 (rows).
        chunk: the chunk.
    """
    inside = np.concatenate([[0], np.cumsum(ends <= np.repeat(until, np.diff(chunk.offsets)))])
    low, high = chunk.offsets[:-1], chunk.offsets[1:]
    return low + inside[high] - inside[low]


def window_measure(window: Window, column: pa.Array | None, positions: np.ndarray) -> tuple[np.ndarray, Fraction]:
    """Returns the places of the rows, and the window's size in the same unit. The places are int64 or float64 (rows).

    ``column`` is the window's order column, None for a window of rows.
    """
    if window.kind == ROWS:
        return _alike(positions), Fraction(window.size)
    assert column is not None
    values = _alike(words(column))
    return values, _in_units(window.size, window.kind, type_of(column.type))


def _alike(values: np.ndarray) -> np.ndarray:
    """Returns a read-only view of the values.

    Those of a BIGINT or TIMESTAMP column are read-only. Kernels are compiled for read-only and writeable arrays separately. As
    read-only views, INT columns and positions use the same kernels.
    """
    view = values.view()
    view.flags.writeable = False
    return view


def _measured(when: np.ndarray, size: Fraction, null: np.ndarray) -> Measured:
    when = _alike(when)
    if when.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # infinite places are in no window
            near = when + float_size(size)
        return Measured(when, np.maximum(np.nextafter(near, -np.inf), when), near, null)
    # distances inside are smaller than the size, rounded up to a whole number
    return Measured(when, _added(when, _next_whole(size) - 1), _added(when, size.numerator // size.denominator), null)


def _added(values: np.ndarray, more: int) -> np.ndarray:
    """Adds ``more``, which is not negative, to int64 ``values``. A sum beyond int64 becomes the largest int64."""
    if more > _UNSIGNED_TOP:
        return np.full(len(values), _TOP)
    if more <= _TOP and int(values.max(initial=0)) <= _TOP - more:
        return values + more
    places = values.view(np.uint64) ^ _HALF
    return (np.where(places > np.uint64(_UNSIGNED_TOP - more), np.uint64(_UNSIGNED_TOP), places + np.uint64(more)) ^ _HALF).view(np.int64)


def _ordered(column: pa.Array, descending: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns the places of a window's order column, and whether they are NULL. The places are int64 or float64.

    Places ascend in the clause's order, and their distances are those of the values. The distance of an infinite value to itself is
    undefined, so it counts as NULL.
    """
    values, null = words(column), null_marks(column).astype(bool)
    if values.dtype.kind == "f":
        null |= ~np.isfinite(values)
        return -values if descending else values, null
    return ~values if descending else values, null  # ``~``, since the negative of the least int64 overflows


def _next_whole(size: Fraction) -> int:
    return -(-size.numerator // size.denominator)


def float_size(size: Fraction) -> float:
    """Returns the size of a window as a DOUBLE, infinite if it is too large for one."""
    try:
        return float(size)
    except OverflowError:
        return np.inf


def float_steps(places: np.ndarray, step: float, begin: float = 0.0) -> np.ndarray:
    """Returns the largest whole numbers n with ``n * step + begin <= place``. float64 (places).

    The products are rounded, as in WINDOW_START(). A quotient may be rounded differently: 0.7 - 0.3 is less than 4 * 0.1.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.floor((places - begin) / step)
        found = np.where(found * step + begin > places, found - 1, found)
        return np.where((found + 1) * step + begin <= places, found + 1, found)


def window_ends(kind: str, size: str, column: pa.Array | None, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the bounds of each row's window within its partition.

    Args:
        kind: the kind of window.
        size: its size.
        column: the order column, sorted in each partition with NULLs at one end.
        offsets: the bounds of the partitions.

    Returns:
        ends: the first row whose distance from the row is the window's size or more. int64 (rows).
        backs: the first row whose distance to the row is less. int64 (rows). A row with a NULL has an empty window.
    """
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
    values, null = _ordered(column, False)
    values = _alike(values)
    scaled = _in_units(size, kind, type_of(column.type))
    ends, backs = at.copy(), at + 1
    reach = _next_whole(scaled)
    if values.dtype.kind == "f":
        searching.float_windows(values, null, offsets, float_size(scaled), ends, backs)
    else:
        searching.whole_windows(values, null, offsets, np.uint64(min(reach, _UNSIGNED_TOP)), reach > _UNSIGNED_TOP, ends, backs)
    return ends, backs


def check_slide(window: Window, slide: Slide, schema: pa.Schema) -> None:
    """Raises ClauseError unless sliding windows over a DATE have whole days as size and step."""
    _, _, column, line, at, text = window
    if not column or type_of(schema.field(column).type).kind != "date":
        return
    if Fraction(slide.step) % _UNITS["date"] or Fraction(window.size) % _UNITS["date"]:
        message = "sliding windows over a DATE are of whole days; cast the ORDER BY expression to TIMESTAMP for others"
        raise ClauseError("SLIDE", message, sqlstate=SEMANTIC, line=window.line, column=window.column, fragment=window.text)


def window_type(column: pa.DataType | None, step: str) -> pa.DataType:
    """Returns the type of WINDOW_START() over an order column. None as column: positions."""
    if column is None:
        return pa.int64()
    t = type_of(column)
    if t.kind in _UNITS:
        return column
    if t.is_float or Fraction(step) * 10**t.scale % 1:
        return pa.float64()
    return pa.decimal128(38, t.scale) if t.kind == "decimal" else pa.int64()


@dataclass(frozen=True)
class Grid:
    """The sliding windows over an order column: window n begins at ``n * pace`` and is ``reach`` long.

    Example: windows of 1.5 seconds every second, over a TIMESTAMP column (microseconds). ``parts`` is 1, ``pace`` is 1,000,000 and
    ``reach`` is 1,500,000. Window 3 holds times from 3,000,000 to before 4,500,000.

    Attributes:
        type: the type of the order column, None for positions.
        target: the type of WINDOW_START().
        parts: into how many parts a unit of the column is divided, so that ``pace`` and ``reach`` are whole. 1 for floats.
        pace: the step, in such parts.
        reach: the size, in such parts.
    """

    type: Type | None
    target: pa.DataType
    parts: int
    pace: float
    reach: float

    @staticmethod
    def of(window: Window, slide: Slide, column: pa.DataType | None) -> Grid:
        t = None if column is None else type_of(column)
        size, step = _in_units(window.size, window.kind, t), _in_units(slide.step, window.kind, t)
        target = window_type(column, common_unit(slide.step, window.size))
        if t is not None and t.is_float:
            return Grid(t, target, 1, float_size(step), float_size(size))
        # the unit is divided into parts, so that both are whole
        parts = lcm(size.denominator, step.denominator)
        return Grid(t, target, parts, int(step * parts), int(size * parts))

    @property
    def floating(self) -> bool:
        """Whether places are floating numbers."""
        return self.type is not None and self.type.is_float

    def scaled(self, size: str, kind: str) -> Fraction:
        """Returns a size of a kind of window in units of the column."""
        return _in_units(size, kind, self.type)

    def exact(self, places: np.ndarray) -> np.ndarray:
        """Converts places or window numbers to Python's integers if arithmetic on them could exceed 64 bits."""
        if places.dtype.kind == "f" or not len(places):
            return places
        far = max(abs(int(places.min())), abs(int(places.max()))) + 1
        return places.astype(object) if far * max(self.parts, self.pace) + self.reach + self.pace > _TOP else places

    def holding(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of the first and the last window that hold both places."""
        if low.dtype.kind == "f":
            return float_steps(high, self.pace, self.reach) + 1, float_steps(low, self.pace)
        bottom = (high * self.parts - self.reach) // self.pace + 1
        return (np.maximum(bottom, 0) if self.type is None else bottom), low * self.parts // self.pace

    def values(self, numbers: np.ndarray) -> tuple[pa.Array, pa.Array]:
        """Returns WINDOW_START and WINDOW_END of the windows with these numbers, NULL if the type cannot hold them."""
        numbers = self.exact(numbers)
        return self._places(numbers * self.pace), self._places(numbers * self.pace + self.reach)

    def _places(self, values: np.ndarray) -> pa.Array:
        t, target = self.type, self.target
        if pa.types.is_floating(target):
            return pa.array((values / (self.parts * (10**t.scale if t is not None and not t.is_float else 1))).astype(np.float64), type=target)
        return _whole_values(values // self.parts, target)


def _whole_values(whole: np.ndarray, target: pa.DataType) -> pa.Array:
    """Returns words of a type that is not a float as values of the type, NULL if it cannot hold them."""
    if pa.types.is_decimal(target):
        top = 10**target.precision
        held = (whole < top) & (whole > -top)
        fitting = np.where(held, whole, 0)
        raw = np.stack([fitting, fitting >> 63], axis=1).tobytes() if whole.dtype == np.int64 else b"".join(v.to_bytes(16, "little", signed=True) for v in fitting.tolist())
        return pa.Array.from_buffers(target, len(whole), [pa.array(held.astype(bool)).buffers()[1], pa.py_buffer(raw)])
    word = np.iinfo(_WORDS.get(target, np.int64))
    beyond = (whole < word.min) | (whole > word.max)
    return pa.array(np.where(beyond, 0, whole).astype(word.dtype), mask=beyond.astype(bool)).cast(target)


class Moments:
    """The moments of an order column as int64 that ascend in the clause's order, so that a kernel compares them.

    Attributes:
        type: the type of the column.
        descending: whether the column descends.
    """

    def __init__(self, type: pa.DataType, descending: bool) -> None:
        self.type, self.descending = type, descending

    def of(self, column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Returns the moments of a column's values, and whether they are NULL."""
        values, null = _ordered(column, self.descending)
        return ordered_words(values), null

    def ends(self, column: pa.Array, window: Window) -> np.ndarray:
        """Returns when windows that begin with the column's values end. It is the largest int64 after all values."""
        values, _ = _ordered(column, self.descending)
        size = _in_units(window.size, window.kind, type_of(self.type))
        if values.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                return ordered_words(values + float_size(size))
        return _added(values, _next_whole(size))

    def values(self, moments: np.ndarray, missing: np.ndarray) -> pa.Array:
        """Returns moments as values of the type, NULL where they are ``missing`` or the type cannot hold them."""
        if type_of(self.type).is_float:
            places = ordered_bits(moments).view(np.float64)
            found = pa.array((-places if self.descending else places) + 0.0).cast(self.type)  # 0.0, also of -0.0
        else:
            found = _whole_values(~moments if self.descending else moments, self.type)
        return pc.if_else(pa.array(missing), pa.nulls(len(moments), self.type), found)


def _in_units(size: str, kind: str, t: Type | None) -> Fraction:
    """Returns a size of a kind of window in units of a column's type, None for positions."""
    if t is None:
        return Fraction(size)
    return Fraction(size) * (Fraction(1, _UNITS[t.kind]) if kind == MICROS else Fraction(10**t.scale))


def _listed(grid: Grid, low: np.ndarray, high: np.ndarray, most: int, asked: np.ndarray | None = None, *, once: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Lists the windows that hold each pair of places.

    Args:
        grid: the windows.
        low, high: the places.
        most: the limit, with ``once`` that of each partition.
        asked: the first and the last window that is asked for. int64 (2, pairs).
        once: the partition of each pair. Places must ascend in a partition. Each window is then listed once, with the first place
            that it holds. int64 (pairs).

    Returns:
        The window numbers of all pairs, and how many each pair has.

    Raises:
        TooMuchStateError: there are more than ``most`` windows. It has the number of the pair in the most windows, with ``once`` of
            the partition.
    """
    bottom, top = grid.holding(low, high)
    if asked is not None:
        bottom, top = np.maximum(bottom, asked[0]), np.minimum(top, asked[1])
    if bottom.dtype.kind == "f":
        # NaN, or windows so narrow that the type cannot distinguish them
        wrong = np.flatnonzero(~(np.maximum(top - bottom + 1, 0) <= most) | (np.abs(bottom) >= _TOP) | (np.abs(top) >= _TOP))
        if len(wrong):
            raise TooMuchStateError(int(wrong[0] if once is None else once[wrong[0]]))
        bottom, top = bottom.astype(np.int64), top.astype(np.int64)  # beyond 2**53 a float cannot hold the next number
    if once is not None and len(once):
        alike = np.append(False, np.diff(once) == 0)
        bottom = np.where(alike, np.maximum(bottom, np.append(bottom[:1], top[:-1] + 1)), bottom)
    counts = np.maximum(top - bottom + 1, 0)
    many = counts.astype(np.float64)  # sums of doubles do not wrap
    of = many if once is None else np.bincount(once, many)
    if (of.sum() if once is None else of.max(initial=0.0)) > most:
        raise TooMuchStateError(int(np.argmax(of)))
    counts = counts.astype(np.int64)
    return ranges(bottom, counts), counts


def windows_holding(
    window: Window, slide: Slide, chunk: Chunk, first: np.ndarray, last: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, Grid]:
    """Returns the sliding windows that are asked for and hold both the ``first`` and the ``last`` row of each match.

    Windows begin at the multiples of the step, like those of Spark's window() function. Windows of rows begin with the partition's
    first row. Raises TooMuchStateError if there are more than ``most``, with the match that is in the most.

    Returns:
        The number of the match (int64), the number of the window, and the grid. The first two have one entry for each pair.
    """
    column = chunk.columns.get(window.order)
    grid = Grid.of(window, slide, None if column is None else column.type)
    values = chunk.positions if column is None else words(column)
    ends = np.stack([values[first], values[last]])
    asked = None if chunk.sliding is None else chunk.sliding[:, chunk.partition_of(first)]
    numbers, counts = _listed(grid, grid.exact(ends.min(axis=0)), grid.exact(ends.max(axis=0)), most, asked)
    return np.repeat(np.arange(len(first)), counts), numbers, grid


@dataclass(frozen=True)
class Slides:
    """The sliding windows of partitions. Those of a partition are in the order of their rows.

    Attributes:
        grid: the windows of the order column.
        bounds: partition p has the windows from ``bounds[p]`` to before ``bounds[p + 1]``. int64 (partitions + 1).
        numbers: the number of each window.
        first: the first row of each window. int64.
        until: the row after the last one of each window. int64.
    """

    grid: Grid
    bounds: np.ndarray
    numbers: np.ndarray
    first: np.ndarray
    until: np.ndarray

    def of(self, part: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns (first rows, rows after the last ones, numbers) of a partition's windows, in the order of their rows."""
        at = slice(int(self.bounds[part]), int(self.bounds[part + 1]))
        return self.first[at], self.until[at], self.numbers[at]

    def holding(self, part: int, first: int, last: int) -> list[int]:
        """Returns the numbers of a partition's windows that hold both rows."""
        low, until, numbers = self.of(part)
        return numbers[(low <= first) & (last < until)].tolist()

    def windows(self, numbers: np.ndarray) -> tuple[pa.Array, pa.Array]:
        """Returns WINDOW_START and WINDOW_END of the windows with these numbers."""
        return self.grid.values(numbers)

    def next_windows(self, parts: np.ndarray, numbers: np.ndarray) -> tuple[pa.Array, pa.Array]:
        """Returns WINDOW_START and WINDOW_END of the next windows of these windows' partitions, or of the last windows themselves.

        ``parts`` and ``numbers``: the partition and the number of each window. Windows must ascend in a partition.
        """
        known, code = np.unique(self.numbers, return_inverse=True)
        width = len(known)
        own = np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds)) * width + code
        after = np.searchsorted(own, parts * width + np.searchsorted(known, numbers), side="right")
        return self.windows(self.numbers[np.minimum(after, self.bounds[parts + 1] - 1)])

    def compared(self, chunk: Chunk, parts: np.ndarray, numbers: np.ndarray) -> dict[str, pa.Array]:
        """Returns the leaves that compare the lists of windows: the next window, and whether an earlier step emitted the window.

        ``parts`` and ``numbers``: the partition and the number of each window.
        """
        before = np.zeros(len(numbers), dtype=bool) if chunk.sliding is None else numbers <= chunk.sliding[2, parts]
        return dict(zip(("next_start", "next_end"), self.next_windows(parts, numbers))) | {"emitted": pa.array(before.astype(bool))}


def slides(window: Window, slide: Slide, chunk: Chunk, most: int) -> Slides:
    """Returns the sliding windows of each partition that are asked for and hold at least one row.

    Raises TooMuchStateError with the partition if the rows of one have more than ``most`` windows.
    """
    column, positions = chunk.columns.get(window.order), chunk.positions
    grid = Grid.of(window, slide, None if column is None else column.type)
    values = null = None
    if column is not None:
        values, null = _ordered(column, False)
    found = _slides_of_all(grid, chunk, grid.exact(positions if values is None else values), null, most)
    if found is not None:
        return found
    bounds, numbers, first, until = [0], [], [], []
    for part, (low, high) in enumerate(zip(chunk.offsets.tolist(), chunk.offsets[1:].tolist())):
        kept = np.arange(high - low) if null is None else np.flatnonzero(~null[low:high])
        if len(kept):
            begin, end = low + int(kept[0]), low + int(kept[-1]) + 1
            x = positions[begin:end] if values is None else grid.exact(values[begin:end])
            down = x[0] > x[-1]
            up = x[::-1] if down else x
            asked = None if chunk.sliding is None else np.repeat(chunk.sliding[:, part : part + 1], len(x), axis=1)
            try:
                found = _listed(grid, up, up, most, asked, once=np.zeros(len(up), dtype=np.int64))[0]
            except TooMuchStateError:
                raise TooMuchStateError(part) from None
            place = grid.exact(found)
            start, stop = place * grid.pace, place * grid.pace + grid.reach
            y = up * grid.parts
            left, right = np.searchsorted(y, start, side="left"), np.searchsorted(y, stop, side="left")
            if down:
                left, right, found = (len(y) - right)[::-1], (len(y) - left)[::-1], found[::-1]
            numbers.append(found)
            first.append(begin + left)
            until.append(begin + right)
        bounds.append(bounds[-1] + (len(numbers[-1]) if len(kept) else 0))
    whole = [np.concatenate(a) if a else np.zeros(0, dtype=np.int64) for a in (numbers, first, until)]
    return Slides(grid, np.array(bounds), *whole)


def _slides_of_all(grid: Grid, chunk: Chunk, places: np.ndarray, null: np.ndarray | None, most: int) -> Slides | None:
    """Computes :func:`slides` for all partitions at once.

    Returns None if places are not int64, if they descend, or if partition and place do not fit one number.
    """
    if places.dtype != np.int64 or not chunk.rows:
        return None
    x, kept, part = places, np.arange(chunk.rows), np.repeat(np.arange(chunk.parts), np.diff(chunk.offsets))
    if null is not None and null.any():
        kept = np.flatnonzero(~null)
        x, part = x[kept], part[kept]
    if not len(x) or ((x[1:] < x[:-1]) & (part[1:] == part[:-1])).any():
        return None
    y = x * grid.parts
    low, high = int(y.min()), int(y.max())
    width = high - low + 2
    if width * chunk.parts >= _TOP:
        return None
    asked = None if chunk.sliding is None else chunk.sliding[:, part]
    numbers, counts = _listed(grid, x, x, most, asked, once=part)
    of = np.repeat(part, counts)
    start = numbers * int(grid.pace)
    key, own = y - low + part * width, of * width
    first, until = (np.searchsorted(key, np.clip(edge, low, high + 1) - low + own) for edge in (start, start + int(grid.reach)))
    rows = np.append(kept, chunk.rows)
    return Slides(grid, np.searchsorted(of, np.arange(chunk.parts + 1)), numbers, rows[first], np.append(kept + 1, 0)[until - 1])
