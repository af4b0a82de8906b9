"""A daemon for Spark's Python workers that loads the engine before it forks them (``spark.python.daemon.module``).

``spark/session/warm_up`` and ``spark/session/local`` set it as the daemon of local sessions; an operator may set it for a cluster.
A worker forked from PySpark's own daemon imports pandas, numba and the engine, and loads its kernels, when its first query comes.
Every worker pays that cost again.

A fork keeps only one thread, so the daemon must not run any other. The imports here start none, because Spark sets
OMP_NUM_THREADS to 1 for workers. PySpark's daemon forks the workers instead if a thread runs anyway, or a package of the engine
is missing. It also does so if workers may map less memory than this process has mapped (``spark.executor.pyspark.memory``).
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

_NO_JEMALLOC_THREAD = "JE_ARROW_MALLOC_CONF", "background_thread:false"  # for Arrow's allocator
# Arrow's other allocator maps 1 GiB for its first array. A worker gets its limit of mapped memory only after the fork.
_SMALL_ARENAS = "MIMALLOC_ARENA_RESERVE", str(64 << 10)  # in KiB
_ROOM = 160  # MB that a worker itself maps for its first query
_LIMIT = "PYSPARK_EXECUTOR_MEMORY_MB"  # spark.executor.pyspark.memory per core, which Spark passes to its daemon


def main() -> None:
    os.environ.setdefault(*_NO_JEMALLOC_THREAD)
    limit = _limit()
    if limit:
        os.environ.setdefault(*_SMALL_ARENAS)
    gc.disable()  # imported objects stay alive
    # The JVM reads a port number from standard output.
    with contextlib.redirect_stdout(sys.stderr):
        try:
            with _without_current_folder():
                load()
        except ImportError as error:
            _give_way(f"this Python does not have {error.name}")
    gc.freeze()  # a worker runs the collector after each task: 0.09 s for these objects
    gc.enable()
    if _threads() > 1:
        _give_way("a thread is running in their daemon")
    if 0 < limit < (least := _mapped() + _ROOM):
        _give_way(f"spark.executor.pyspark.memory gives each of them {limit} MB; set at least {least} MB for each core of an executor")
    from pyspark import daemon

    daemon.worker = _until_hung_up(daemon.worker)
    daemon.manager()


@contextlib.contextmanager
def _without_current_folder() -> Iterator[None]:
    """Excludes the current folder from imports in its scope, unless sparkcep lies there.

    Functions of a user may import from it later, as in PySpark's own daemon.
    """
    before = sys.path[:]
    own = Path(__file__).resolve().parents[2]
    sys.path[:] = [path for path in before if Path(path).resolve() != Path.cwd() or Path(path).resolve() == own]
    try:
        yield
    finally:
        sys.path[:] = before


def _give_way(reason: str) -> NoReturn:
    """Replaces this process by PySpark's own daemon, without the engine. A user's functions run in both."""
    print(f"sparkcep: Python workers start without the engine, because {reason}", file=sys.stderr)
    os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])


def _until_hung_up(work: Callable[[Any, bool], int]) -> Callable[[Any, bool], int]:
    """Wraps the worker so that it exits silently when the JVM has closed the connection because its task was killed.

    PySpark would print a traceback.
    """

    def worker(sock: Any, authenticated: bool) -> int:
        try:
            return work(sock, authenticated)
        except BrokenPipeError:
            os._exit(1)

    return worker


def load() -> None:
    """Imports the modules that a worker needs for a query, and loads those kernels of the exact engine that are on disk."""
    import pandas  # noqa: F401
    import pyspark.worker  # noqa: F401

    import sparkcep.spark.exec.table_function  # noqa: F401
    from sparkcep.engine.factory import load_operators
    from sparkcep.precompile import load_first

    load_operators()
    load_first()


def _threads() -> int:
    """Returns the number of threads of this process; 1 if there is no /proc."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else 1


def _limit() -> int:
    """Returns how many MB a worker may map; 0: unlimited."""
    text = os.environ.get(_LIMIT, "")
    return int(text) if text.isdecimal() else 0


def _mapped() -> int:
    """Returns how many MB this process has mapped; 0 if there is no /proc."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") >> 20 if statm.exists() else 0


if __name__ == "__main__":
    main()
