"""Vectors of runs, as a history tells them (RC-ACEP, VLDB 2016, Definition 4): the place at which a run is tried, its cost so far,
what remains of its window, and how long ago its last row was, both in intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.kernels.jit.cache import embedded


class Clock(NamedTuple):
    """The measure of the window, of which the vectors that are learned tell the ``intervals``: ``whole`` int64 (rows) and ``size``,
    or ``floats`` float64 (rows) and ``wide`` where ``floating``; ``levels``: how many costs there are."""

    floating: bool
    whole: np.ndarray
    floats: np.ndarray
    size: int
    wide: float
    intervals: int
    levels: int


@embedded
def when(start, last, row, g, clock):
    """Remaining window and time since the last row, in ``g`` intervals and as one number, of a run that began at row ``start`` and
    took row ``last`` last; of a run that would begin both are ``row``."""
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
    """The vector of a run when an edge is tried at ``row``, as one number."""
    return (net.places[e] * clock.levels + net.levels[e]) * (g * g) + when(start, last, row, g, clock)
