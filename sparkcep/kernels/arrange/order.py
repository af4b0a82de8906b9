"""Orders the rows of each key by the words of ORDER BY, which compare as their values do. Rows that tie keep their order.

Rows mostly come in order, or in a few runs, because tables are mostly written in the order of time. So a key's rows are left alone
if they ascend, merged if they are few ascending runs, and else sorted by digits (least significant first, 11 bits each).

Example: the words 5, 7, 1, 2 have two runs, which are merged.
"""

from __future__ import annotations

import numpy as np

from sparkcep.kernels.jit.cache import inlined, kernel

RUNS = 16  # that are merged; more are sorted by digits
_BITS = np.uint64(11)
_DIGITS = 1 << 11
_MASK = np.uint64(_DIGITS - 1)


@inlined
def _ascend(words, rows, low, high):
    """Whether the rows at these places ascend by all words."""
    columns = words.shape[0]
    for i in range(low + 1, high):
        for c in range(columns):
            left, right = words[c, rows[i - 1]], words[c, rows[i]]
            if left < right:
                break
            if left > right:
                return False
    return True


@inlined
def _runs(keys, size, starts):
    """Counts the ascending runs of ``keys`` and writes where each begins; stops after RUNS + 1 of them."""
    count = 1
    starts[0] = 0
    for i in range(1, size):
        if keys[i] < keys[i - 1]:
            if count > RUNS:
                return count
            starts[count] = i
            count += 1
    return count


@inlined
def _merge(keys, rows, low, size, starts, count, spare_keys, spare_rows):
    """Merges ascending runs, pair by pair, until one is left."""
    starts[count] = size
    while count > 1:
        kept = 0
        for r in range(0, count - 1, 2):
            begin, middle, end = starts[r], starts[r + 1], starts[r + 2]
            i, j = begin, middle
            for out in range(begin, end):
                # an equal row of the left run goes first
                if j >= end or (i < middle and keys[i] <= keys[j]):
                    spare_keys[out], spare_rows[out] = keys[i], rows[low + i]
                    i += 1
                else:
                    spare_keys[out], spare_rows[out] = keys[j], rows[low + j]
                    j += 1
            for out in range(begin, end):
                keys[out], rows[low + out] = spare_keys[out], spare_rows[out]
            starts[kept] = begin
            kept += 1
        if count & 1:
            starts[kept] = starts[count - 1]
            kept += 1
        starts[kept] = size
        count = kept


@inlined
def _sort_digits(keys, rows, low, size, spare_keys, spare_rows, counts):
    """Sorts by the digits of the distance from the least key, which is unsigned: two int64 may lie 2**64 - 1 apart."""
    least = most = keys[0]
    for i in range(1, size):
        least, most = min(least, keys[i]), max(most, keys[i])
    span = np.uint64(most) - np.uint64(least)
    shift = np.uint64(0)
    while shift < np.uint64(64) and span >> shift != np.uint64(0):
        for d in range(_DIGITS + 1):
            counts[d] = 0
        for i in range(size):
            counts[np.int64(((np.uint64(keys[i]) - np.uint64(least)) >> shift) & _MASK) + 1] += 1
        for d in range(_DIGITS):
            counts[d + 1] += counts[d]
        for i in range(size):
            d = np.int64(((np.uint64(keys[i]) - np.uint64(least)) >> shift) & _MASK)
            out = counts[d]
            counts[d] = out + 1
            spare_keys[out], spare_rows[out] = keys[i], rows[low + i]
        for i in range(size):
            keys[i], rows[low + i] = spare_keys[i], spare_rows[i]
        shift += _BITS


@kernel
def order_rows(words, rows, bounds, keys, spare_keys, spare_rows, starts, counts):
    """Orders the rows of each key in place.

    Args:
        words: the words of ORDER BY. int64 (columns, rows).
        rows: the rows, key by key. int32 or int64 (rows).
        bounds: the bounds of each key in ``rows``. int64 (keys + 1).
        keys: room for the rows of one key. int64.
        spare_keys: as ``keys``.
        spare_rows: as ``keys``, of the type of ``rows``.
        starts: room for runs. int64 (RUNS + 2).
        counts: room for digits. int64 (2**11 + 1).

    Returns:
        How many keys' rows did not ascend.
    """
    unordered = 0
    for k in range(bounds.shape[0] - 1):
        low, high = bounds[k], bounds[k + 1]
        if _ascend(words, rows, low, high):
            continue
        unordered += 1
        size = high - low
        for c in range(words.shape[0] - 1, -1, -1):
            for i in range(size):
                keys[i] = words[c, rows[low + i]]
            count = _runs(keys, size, starts)
            if count == 1:
                continue
            if count <= RUNS:
                _merge(keys, rows, low, size, starts, count, spare_keys, spare_rows)
            else:
                _sort_digits(keys, rows, low, size, spare_keys, spare_rows, counts)
    return unordered


@kernel
def longest_unordered(words, rows, bounds):
    """Returns the most rows of a key whose rows do not ascend; 0 if all do. For the arguments see :func:`order_rows`."""
    longest = 0
    for k in range(bounds.shape[0] - 1):
        if bounds[k + 1] - bounds[k] > longest and not _ascend(words, rows, bounds[k], bounds[k + 1]):
            longest = bounds[k + 1] - bounds[k]
    return longest
