"""Features of runs, as a history has them: the match vectors of RC-ACEP (VLDB 2016, Definition 4).

The features are the place where a run is tried, its cost so far, the remainder of its window, and the time since its last row. The
latter two are in intervals.

Example: the window has size 40 and 4 intervals. A run began at time 0, its last row was at 12, and the row is at 18. The remaining
22 are interval 3 (of 1 to 4), and the idle 6 are interval 0. So :func:`when` returns (3 - 1) * 4 + 0 = 8. At place 2 and cost level
1 of 3 levels :func:`code_of` returns (2 * 3 + 1) * 16 + 8 = 120.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.kernels.jit.cache import embedded


class Clock(NamedTuple):
    """The measure of the window.

    Attributes:
        floating: which of the two representations is used.
        whole, size: int64 (rows) and the window's size, if not ``floating``.
        floats, wide: float64 (rows) and the window's size, if ``floating``.
        intervals: the intervals of the learned features.
        levels: how many costs there are.
    """

    floating: bool
    whole: np.ndarray
    floats: np.ndarray
    size: int
    wide: float
    intervals: int
    levels: int


@embedded
def when(start, last, row, g, clock):
    """Remaining window and time since the last row, in ``g`` intervals each, as one number.

    The run began at row ``start`` and took row ``last`` last. For a run that would begin both are ``row``.
    """
    if clock.floating:
        gone = abs(clock.floats[row] - clock.floats[start])
        still = abs(clock.floats[row] - clock.floats[last])
        remaining = np.int64(np.ceil(g * (clock.wide - gone) / clock.wide))
        idle = np.int64(np.floor(g * still / clock.wide))
    else:
        size = clock.size
        gone_by = abs(clock.whole[row] - clock.whole[start])
        idle_for = abs(clock.whole[row] - clock.whole[last])
        remaining = (g * (size - gone_by) + size - 1) // size
        idle = g * idle_for // size
    remaining = min(max(remaining, 1), g)
    idle = min(max(idle, 0), g - 1)
    return (remaining - 1) * g + idle


@embedded
def code_of(e, start, last, row, g, net, clock):
    """The features of a run, when an edge is tried at ``row``, as one number."""
    return (net.places[e] * clock.levels + net.levels[e]) * (g * g) + when(start, last, row, g, clock)
