"""Ends of windows over sorted rows, by two pointers that move along each partition, so that the cost is linear in the rows.

The functions share these arguments:

Args:
    values: int64 or float64 (rows), sorted in each partition, ascending or descending.
    null: bool (rows), rows without a value; they lie at one end of their partition.
    offsets: int64 (partitions + 1), the first row of each partition.
    reach: the size of the window.
    ends: int64 (rows), output: the first row that is at least ``reach`` away, after the row.
    backs: int64 (rows), output: the first row that is less than ``reach`` away.

``ends`` and ``backs`` of rows without a value are left as they are.

Example: the values 0, 3, 5, 9, 10 with ``reach`` 5 have ``ends`` 2, 3, 4, 5, 5 and ``backs`` 0, 0, 1, 2, 3.
"""

from __future__ import annotations

import numpy as np

from sparkcep.kernels.jit.cache import inlined, kernel


@inlined
def _valued(null, low, high):
    """The first row with a value, and the row after the last one."""
    while low < high and null[low]:
        low += 1
    while low < high and null[high - 1]:
        high -= 1
    return low, high


@kernel
def whole_windows(values, null, offsets, reach, far, ends, backs):
    """Fills ``ends`` and ``backs`` for int64 values.

    ``reach`` is uint64; with ``far`` it is larger than any distance. Distances are unsigned, because they may exceed the largest
    int64.
    """
    for part in range(offsets.shape[0] - 1):
        first, last = _valued(null, offsets[part], offsets[part + 1])
        if first == last:
            continue
        sign = np.int64(-1) if values[first] > values[last - 1] else np.int64(1)
        end = begin = first
        for row in range(first, last):
            while end < last and (far or np.uint64((values[end] - values[row]) * sign) < reach):
                end += 1
            while not far and np.uint64((values[row] - values[begin]) * sign) >= reach:
                begin += 1
            ends[row] = end
            backs[row] = begin


@kernel
def float_windows(values, null, offsets, reach, ends, backs):
    """Fills ``ends`` and ``backs`` for float64 values. A value so large that adding ``reach`` changes nothing is inside its own
    window."""
    for part in range(offsets.shape[0] - 1):
        first, last = _valued(null, offsets[part], offsets[part + 1])
        if first == last:
            continue
        sign = -1.0 if values[first] > values[last - 1] else 1.0
        end = begin = first
        for row in range(first, last):
            here = sign * values[row]
            behind = max(here + reach, np.nextafter(here, np.inf))
            while end < last and sign * values[end] < behind:
                end += 1
            ends[row] = end
            # ``begin`` is moved by ``ends``, because a difference rounds differently from a sum.
            while ends[begin] <= row:
                begin += 1
            backs[row] = begin
