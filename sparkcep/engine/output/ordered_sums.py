"""Floating sums of many overlapping ranges of numbers, with the bits of adding each range's numbers in their order.

:mod:`sparkcep.engine.output.shared_ends` computes SUM and AVG of DOUBLE with it. Each number is added to a slice of the sums. One
addition for each number of each sum takes the square of the rows, if each row begins a match of many rows. So sums that lie side
by side jump over many numbers at once where the outcome of these additions is known.

A sum between 2**52 and 2**53 units of its last bit is a whole number of these units until it leaves this range. Until then, adding
x changes the sum by x / unit, rounded to a whole number of units. The change does not depend on the sum, so changes of several
numbers add up as integers. Only a tie (x / unit ends in .5) depends on the sum, because the new sum is the even one of two. After
a tie each sum is even, so the changes at later ties are known again.

Example with sums of 4 bits, from 8 to 15 units: the numbers 1.3, .5 and 2.5 are added to the sums 8 and 9. The first changes both
by 1, to 9 and 10. At the first tie 9.5 becomes 10, and 10.5 becomes 10. At the second one both become 12, by a change of 2. So the
changes after the first tie are 2 for both sums.

Sums jump together until one of them leaves its range, so sums of nearly equal size should jump together. An addition never changes
the order of two sums, because rounding is monotone. So the sums of a run are sorted once, when they join, and blocks of them have
almost equal sums from then on. The first and the last sum of a block are its extremes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparkcep.kernels.jit.cache import inlined, kernel

PIECE = 1 << 11  # Numbers, and sums, at a time. They fit the first-level cache.
TOGETHER = 8  # Numbers that are added to a sum between loading and storing it.
BLOCK = 384  # Sums that jump together.
CHUNK = 64  # Numbers whose least and greatest change are known.
TABLES = 24  # Units for which changes are known at a time.
RATIO = 8  # A sorted group is merged with the one before it if that has at most so many times its sums.

MANTISSA = 52  # Bits of a double below its leading one.
LEADING = 1 << MANTISSA
LEAST_EXPONENT, EXPONENTS = 53, 2047  # Biased exponents whose sums can jump: the inverse of their unit is a double, too.
MOST_CHANGE = 2.0**50  # A change of more units is not jumped over. So the changes of a chunk fit 64 bits.
NO_JUMP = 1 << 62  # The change of such a number. It leaves the range of each sum.
MARGIN = 3  # Units to the end of the range: ties move a sum by one, and a sum at the very end may have another unit.
INVERSE_UNITS = np.ldexp(1.0, np.clip(1023 + MANTISSA - np.arange(EXPONENTS), -1022, 1022))


class Changes(NamedTuple):
    """How the numbers of a piece change sums of some exponents."""

    tables: np.ndarray  # The table of each biased exponent, -1 without one. int64 (exponents).
    totals: np.ndarray  # The change by all numbers before each number, in units. int64 (tables, PIECE + 1).
    ties: np.ndarray  # The first tie from each number on. int64 (tables, PIECE + 1).
    least: np.ndarray  # The least change from the beginning of each chunk to one of its numbers. int64 (tables, chunks).
    greatest: np.ndarray  # The greatest such change.
    inverse_units: np.ndarray  # float64 (exponents).


def add_to_slices(numbers: np.ndarray, lows: np.ndarray, highs: np.ndarray, runs: np.ndarray, sums: np.ndarray) -> None:
    """Adds each number to ``sums[low:high]``, one after the other.

    Args:
        numbers: float64 (n).
        lows, highs: the slice of each number. int64 (n).
        runs: int64 (n). Equal for consecutive numbers if each one's slice contains the slice of the number before it.
        sums: float64.
    """
    places, chunks = (TABLES, PIECE + 1), (TABLES, PIECE // CHUNK)
    changes = Changes(*(np.empty(shape, dtype=np.int64) for shape in (EXPONENTS, places, places, chunks, chunks)), INVERSE_UNITS)
    starts, ends = np.empty((2, TOGETHER), dtype=np.int64)
    bounds = np.concatenate([np.flatnonzero(np.diff(runs, prepend=runs[:1] - 1)), [len(runs)]])
    sizes = highs[bounds[1:] - 1] - lows[bounds[1:] - 1]  # The last slice of a run is its largest.
    done = 0
    for run in np.flatnonzero(np.minimum(np.diff(bounds), sizes) >= PIECE):
        begin, end, size = int(bounds[run]), int(bounds[run + 1]), int(sizes[run])
        _add_pieces(numbers[done:begin], lows[done:begin], highs[done:begin], sums, starts, ends)
        _add_nested(numbers[begin:end], lows[begin:end], highs[begin:end], sums, size, starts, ends, changes)
        done = end
    _add_pieces(numbers[done:], lows[done:], highs[done:], sums, starts, ends)


@kernel
def _add_pieces(numbers, lows, highs, sums, starts, ends):
    """Adds the numbers of short runs. ``starts`` and ``ends`` are working memory."""
    for n in range(0, numbers.shape[0], PIECE):
        _add_directly(numbers[n : n + PIECE], lows[n : n + PIECE], highs[n : n + PIECE], sums, starts, ends)


@inlined
def _add(x, part):
    for k in range(part.shape[0]):
        part[k] += x


@inlined
def _add_eight(numbers, part):
    """Adds the numbers to each sum, one after the other."""
    a, b, c, d, e, f, g, h = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], numbers[7]
    for k in range(part.shape[0]):
        part[k] = part[k] + a + b + c + d + e + f + g + h


@kernel
def _add_directly(numbers, lows, highs, sums, starts, ends):
    """Adds the numbers of a piece, to some sums at a time, which stay in the cache."""
    least, most = lows[0], highs[0]
    for n in range(1, numbers.shape[0]):
        least = min(least, lows[n])
        most = max(most, highs[n])
    for low in range(least, most, PIECE):
        for n in range(0, numbers.shape[0], TOGETHER):
            taken = min(TOGETHER, numbers.shape[0] - n)
            inner, outer = low, min(low + PIECE, most)  # the sums that get all of these numbers
            for i in range(taken):
                starts[i] = max(lows[n + i], low)
                ends[i] = max(min(highs[n + i], low + PIECE), starts[i])
                inner = max(inner, starts[i])
                outer = min(outer, ends[i])
            if taken < TOGETHER or outer <= inner:
                for i in range(taken):
                    _add(numbers[n + i], sums[starts[i] : ends[i]])
                continue
            for i in range(TOGETHER):
                _add(numbers[n + i], sums[starts[i] : inner])
                _add(numbers[n + i], sums[outer : ends[i]])
            _add_eight(numbers[n : n + TOGETHER], sums[inner:outer])


def _add_nested(numbers, lows, highs, sums, size, starts, ends, changes):
    """Adds the numbers of a run, whose slices grow to ``size`` sums. Sums that join during a piece are sorted after it."""
    (values, spare), (at, spare_at) = np.empty((2, size)), np.empty((2, size), dtype=np.int64)
    bits, groups = values.view(np.int64), [0]  # Where sorted groups of values end.
    low, high = lows[0], lows[0]
    for begin in range(0, len(numbers), PIECE):
        piece = slice(begin, begin + PIECE)
        for joins in (slice(lows[begin], low), slice(high, highs[begin])):
            if joins.stop == joins.start:
                continue
            order = np.argsort(sums[joins])
            used = groups[-1] + len(order)
            values[groups[-1] : used] = sums[joins][order]
            at[groups[-1] : used] = joins.start + order
            while len(groups) > 1 and groups[-1] - groups[-2] <= RATIO * (used - groups[-1]):
                middle = groups.pop()
                _merge(groups[-1], middle, used, values, at, spare, spare_at)
            groups.append(used)
        low, high, used = lows[begin], highs[begin], groups[-1]
        _add_directly(numbers[piece], lows[piece], np.minimum(highs[piece], low), sums, starts, ends)
        _add_directly(numbers[piece], np.maximum(lows[piece], high), highs[piece], sums, starts, ends)
        _add_sorted(numbers[piece], values[:used], bits[:used], changes)
    sums[at[: groups[-1]]] = values[: groups[-1]]


@kernel
def _merge(begin, middle, end, values, at, spare, spare_at):
    """Merges two sorted groups that follow each other. NaN goes last, as far as the groups allow."""
    for k in range(begin, middle):
        spare[k], spare_at[k] = values[k], at[k]
    left, right = begin, middle
    for k in range(begin, end):
        if left == middle:
            break
        if right == end or spare[left] <= values[right] or math.isnan(values[right]):
            values[k], at[k] = spare[left], spare_at[left]
            left += 1
        else:
            values[k], at[k] = values[right], at[right]
            right += 1


@kernel
def _add_sorted(numbers, sums, bits, changes):
    """Adds the numbers of a piece to sorted sums. Each block of sums jumps as far as it can."""
    count = numbers.shape[0]
    changes.tables[:] = -1
    used = 0
    for low in range(0, sums.shape[0], BLOCK):
        high = min(low + BLOCK, sums.shape[0])
        # A block across groups is not sorted, nor is one with NaN. Sorted sums stay so, until none of them is finite.
        ordered = True
        for k in range(low + 1, high):
            ordered &= sums[k - 1] <= sums[k]
        n = 0
        while n < count:
            least, most = min(bits[low], bits[high - 1]), max(bits[low], bits[high - 1])
            end = n
            exponent = least >> MANTISSA & EXPONENTS
            # The sign and the exponent are equal.
            if ordered and least >> MANTISSA == most >> MANTISSA and LEAST_EXPONENT <= exponent < EXPONENTS:
                if changes.tables[exponent] < 0 and used < TABLES:
                    changes.tables[exponent] = used
                    _find_changes(numbers, used, exponent, changes)
                    used += 1
                if changes.tables[exponent] >= 0:
                    end = _reach(n, count, changes.tables[exponent], least, most, changes)
            if end - n >= TOGETHER:
                _jump(numbers, n, end, exponent, bits[low:high], changes)
                n = end
            elif n + TOGETHER <= count:
                _add_eight(numbers[n : n + TOGETHER], sums[low:high])
                n += TOGETHER
            else:
                _add(numbers[n], sums[low:high])
                n += 1


@kernel
def _find_changes(numbers, table, exponent, changes):
    """Fills a table for sums of this exponent."""
    count = numbers.shape[0]
    totals, ties, inverse_unit = changes.totals[table], changes.ties[table], changes.inverse_units[exponent]
    totals[0] = 0
    even = -1  # the number after the last tie, where sums are even
    for n in range(count):
        size = abs(numbers[n]) * inverse_unit
        change = np.int64(NO_JUMP)
        ties[n] = -1
        if size < MOST_CHANGE:
            change = np.int64(size)
            rest = size - change
            if rest > 0.5:
                change += 1
            if numbers[n] < 0:
                change = -change
            if rest == 0.5:
                ties[n] = n
                # Rounded down, as long as nothing is known about the sum.
                if numbers[n] < 0:
                    change -= 1
                if even >= 0:
                    change += (totals[n] - totals[even] + change) & 1
                even = n + 1
        totals[n + 1] = totals[n] + change
        chunk, within = n // CHUNK, totals[n + 1] - totals[n // CHUNK * CHUNK]
        if n % CHUNK == 0:
            changes.least[table, chunk], changes.greatest[table, chunk] = within, within
        changes.least[table, chunk] = min(changes.least[table, chunk], within)
        changes.greatest[table, chunk] = max(changes.greatest[table, chunk], within)
    ties[count] = count
    for n in range(count - 1, -1, -1):
        if ties[n] < 0:
            ties[n] = ties[n + 1]


@kernel
def _reach(n, count, table, least, most, changes):
    """Returns the first number, from ``n`` on, that might give one of the sums another exponent.

    ``least`` and ``most`` are the extremes of the sums' bits, whose signs and exponents are equal.
    """
    totals = changes.totals[table]
    up = LEADING - MARGIN - (most & (LEADING - 1))
    down = (least & (LEADING - 1)) - MARGIN
    if least < 0:
        up, down = down, up
    before = totals[n]
    while n < count:
        chunk, here = n // CHUNK, totals[n] - before
        # Nothing is added to the extremes, because a number that is not jumped over may bring them to the end of 64 bits.
        if n % CHUNK == 0 and n + CHUNK <= count and changes.greatest[table, chunk] <= up - here and changes.least[table, chunk] >= -down - here:
            n += CHUNK
            continue
        if not -down <= totals[n + 1] - before <= up:
            return n
        n += 1
    return count


@kernel
def _jump(numbers, n, end, exponent, bits, changes):
    """Adds the numbers from ``n`` to ``end`` to sums that keep their exponent.

    The bits of a double without its sign are a number of units beside a constant. So a change is added to them as an integer.
    """
    table = changes.tables[exponent]
    totals, tie = changes.totals[table], changes.ties[table, n]
    sign = np.int64(-1 if bits[0] < 0 else 1)
    if tie >= end:
        change = sign * (totals[end] - totals[n])
        for k in range(bits.shape[0]):
            bits[k] += change
        return
    until_tie = sign * (totals[tie] - totals[n] + np.int64(np.floor(numbers[tie] * changes.inverse_units[exponent])))
    after_tie = sign * (totals[end] - totals[tie + 1])
    for k in range(bits.shape[0]):
        bits[k] += until_tie
        bits[k] += sign * (bits[k] & 1) + after_tie
