"""Checks the limit of mapped memory that ``spark.executor.pyspark.memory`` sets for each Python worker.

The table function and ``spark/session/pickled`` use it. The planner checks the limit before any job. If the planner lacks the
extension, a worker checks it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sparkcep.errors import SEMANTIC, ClauseError

SETTING = "spark.executor.pyspark.memory"
LEAST = 768  # MB of mapped memory: libraries, kernels and small data, for any daemon


def check(limit: int, cores: int = 1) -> None:
    """Raises ClauseError if a worker may map less than the engine needs.

    ``limit``: MB per core of an executor with ``cores`` cores; 0: unlimited.
    """
    if 0 < limit < LEAST:
        message = f"{SETTING} leaves {limit} MB of mapped memory to each Python worker, but sparkcep needs {LEAST} MB. Set {SETTING}={LEAST * cores}m or more"
        raise ClauseError("SETTING", message + (f", {LEAST} MB for each of the {cores} cores of an executor" if cores > 1 else ""), sqlstate=SEMANTIC)


def check_own() -> None:
    """Raises the error of :func:`check` if this process may map less."""
    limit = _limit()
    check(0 if limit is None else max(1, limit >> 20))


def free_memory() -> int | None:
    """Returns how many bytes this process may still map; None without a limit."""
    limit = _limit()
    if limit is None:
        return None
    mapped = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return max(0, limit - mapped)


def _limit() -> int | None:
    """Returns how many bytes this process may map; None without a limit. Only Linux enforces it."""
    if sys.platform != "linux":
        return None
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit
