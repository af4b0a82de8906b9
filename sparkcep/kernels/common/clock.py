"""Clocks for kernels: the thread's processor time and the time that has passed, in nanoseconds.

A kernel calls the system's ``clock_gettime``, because a call back into Python costs more than many checks. Where a kernel is
interpreted, Python's own function answers.
"""

from __future__ import annotations

import time

import numpy as np
from numba import types
from numba.extending import overload

KNOWN = hasattr(time, "clock_gettime_ns")  # Windows lacks it
THREAD_CLOCK = np.int32(getattr(time, "CLOCK_THREAD_CPUTIME_ID", -1))
WALL_CLOCK = np.int32(getattr(time, "CLOCK_MONOTONIC", -1))
_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.voidptr))


def nanoseconds(thread, reading):
    """The thread's processor time, or without ``thread`` the time of a monotonic clock, in nanoseconds.

    ``reading``: int64 (2), working memory.
    """
    return np.int64(time.clock_gettime_ns(int(THREAD_CLOCK if thread else WALL_CLOCK)))


@overload(nanoseconds, inline="never")
def _nanoseconds(thread, reading):
    if not KNOWN:
        return lambda thread, reading: np.int64(0)

    def compiled(thread, reading):
        _clock_gettime(THREAD_CLOCK if thread else WALL_CLOCK, reading.ctypes)
        return reading[0] * 1_000_000_000 + reading[1]

    return compiled
