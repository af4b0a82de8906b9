"""Checks the limit of mapped memory that ``spark.executor.pyspark.memory`` gives each Python worker.

The planner checks it before any job. A worker checks it where the planner does not know the extension.
"""

from __future__ import annotations

import sys

from sparkcep.errors import SEMANTIC, ClauseError

SETTING = "spark.executor.pyspark.memory"
LEAST = 768  # MB of mapped memory: libraries, kernels and small data, whichever daemon forks the worker


def check(limit: int, cores: int = 1) -> None:
    """Raises a ClauseError if a worker may map less than the engine needs. ``limit``: MB for each of the ``cores`` of an
    executor; 0 for none."""
    if 0 < limit < LEAST:
        message = f"{SETTING} leaves {limit} MB of mapped memory to each Python worker, and sparkcep needs {LEAST} MB; set {SETTING}={LEAST * cores}m or more"
        raise ClauseError("SETTING", message + (f", {LEAST} MB for each of the {cores} cores of an executor" if cores > 1 else ""), sqlstate=SEMANTIC)


def check_own() -> None:
    """Raises the same error if this process may map less. Only Linux holds a process to its limit."""
    if sys.platform != "linux":
        return
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    check(0 if limit == resource.RLIM_INFINITY else max(1, limit >> 20))
