"""The daemon of Spark's Python workers that has loaded the engine before it forks them (``spark.python.daemon.module``).

A worker that PySpark's own daemon forks imports pandas, numba and the engine and loads its kernels when the first query comes. Each
worker does so for itself.

A fork keeps one thread, so none may run in the daemon. What is imported here starts none, because OMP_NUM_THREADS is 1, which Spark
sets for workers. If one runs all the same, or a package of the engine is missing, or workers may map less memory than this
process has mapped (``spark.executor.pyspark.memory``), workers are forked from PySpark's daemon.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

_NO_JEMALLOC_THREAD = "JE_ARROW_MALLOC_CONF", "background_thread:false"  # of Arrow's allocator
# Arrow's other allocator maps 1 GiB for its first array. A worker has a limit of mapped memory only after the fork.
_SMALL_ARENAS = "MIMALLOC_ARENA_RESERVE", str(64 << 10)  # in KiB
_ROOM = 160  # MB that a worker maps for itself with its first query
_LIMIT = "PYSPARK_EXECUTOR_MEMORY_MB"  # spark.executor.pyspark.memory for one core, which Spark gives its daemon


def main() -> None:
    os.environ.setdefault(*_NO_JEMALLOC_THREAD)
    limit = _limit()
    if limit:
        os.environ.setdefault(*_SMALL_ARENAS)
    gc.disable()  # what is imported stays
    # the JVM reads a port number from standard output
    with contextlib.redirect_stdout(sys.stderr):
        try:
            with _without_current_folder():
                load()
        except ImportError as error:
            _give_way(f"this Python does not have {error.name}")
    gc.freeze()  # a worker collects behind each task: 0.09 s for what is loaded here
    gc.enable()
    if _threads() > 1:
        _give_way("a thread is running in their daemon")
    if 0 < limit < (least := _mapped() + _ROOM):
        _give_way(f"spark.executor.pyspark.memory gives each of them {limit} MB; set {least} MB for each core of an executor")
    from pyspark import daemon

    daemon.worker = _until_hung_up(daemon.worker)
    daemon.manager()


@contextlib.contextmanager
def _without_current_folder() -> Iterator[None]:
    """Inside, nothing is imported from the current folder, unless sparkcep lies there. Functions of a user may import from it, as
    in PySpark's own daemon."""
    before = sys.path[:]
    own = Path(__file__).resolve().parents[2]
    sys.path[:] = [path for path in before if Path(path).resolve() != Path.cwd() or Path(path).resolve() == own]
    try:
        yield
    finally:
        sys.path[:] = before


def _give_way(reason: str) -> NoReturn:
    """Becomes PySpark's own daemon, which has loaded nothing. The functions of a user run in both."""
    print(f"sparkcep: Python workers start without the engine, because {reason}", file=sys.stderr)
    os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])


def _until_hung_up(work: Callable[[Any, bool], int]) -> Callable[[Any, bool], int]:
    """A worker that ends without a word when the JVM listens no more, because its task was ended: PySpark prints a traceback."""

    def worker(sock: Any, authenticated: bool) -> int:
        try:
            return work(sock, authenticated)
        except BrokenPipeError:
            os._exit(1)

    return worker


def load() -> None:
    """Imports what a worker needs for a query, and those kernels of the exact engine that are on disk."""
    import pandas  # noqa: F401
    import pyspark.worker  # noqa: F401

    import sparkcep.spark.exec.table_function  # noqa: F401
    from sparkcep.precompile import load_first

    load_first()


def _threads() -> int:
    """How many threads run in this process; 1 where there is no /proc."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else 1


def _limit() -> int:
    """Returns how many MB a worker may map; 0 if there is no limit."""
    text = os.environ.get(_LIMIT, "")
    return int(text) if text.isdecimal() else 0


def _mapped() -> int:
    """Returns how many MB this process has mapped; 0 where there is no /proc."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") >> 20 if statm.exists() else 0


if __name__ == "__main__":
    main()
