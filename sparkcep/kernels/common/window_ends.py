"""How far windows reach over sorted rows: two places move along each partition, so that the cost is linear in the rows.

Shared arguments: ``values`` int64 or float64 (rows), sorted up or down in each partition; ``null`` bool (rows): rows without a
value, which stand at an end of their partition; ``offsets`` int64 (partitions + 1); ``reach``: the size of a window. ``ends`` and
``backs`` int64 (rows) are filled: the first row behind those less than ``reach`` away, and the first row that is less than
``reach`` away. Those of rows without a value stay as they are.
"""

from __future__ import annotations

import numpy as np

from sparkcep.kernels.jit.cache import inlined, kernel


@inlined
def _valued(null, low, high):
    """The first row with a value, and the one behind the last."""
    while low < high and null[low]:
        low += 1
    while low < high and null[high - 1]:
        high -= 1
    return low, high


@kernel
def whole_windows(values, null, offsets, reach, far, ends, backs):
    """Of whole values; ``reach`` uint64, or beyond all values where ``far``. Distances are unsigned, as they may pass the largest
    int64."""
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
    """Of floating values. Those so large that adding ``reach`` rounds to themselves are inside their own window."""
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
            while ends[begin] <= row:  # by the ends, as a difference rounds otherwise than a sum
                begin += 1
            backs[row] = begin
