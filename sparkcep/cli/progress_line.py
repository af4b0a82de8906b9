"""A progress line on the terminal while a command works: its activity, its progress and the elapsed time.

All commands in ``cli/cli`` use it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS = 2.0  # before the line appears
_CLEAR = "\r\033[K"


@contextmanager
def waiting(about: str, progress: Callable[[], str] = str) -> Iterator[None]:
    """Shows a line such as ``running the query, 12 of 40 tasks, 5 s`` on standard error while its scope runs.

    It appears after two seconds, and only on a terminal.

    Args:
        about: what the command does.
        progress: returns the progress, or "". Another thread calls it, once a second.
    """
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_show, args=(about, progress, done), daemon=True, name="waiting")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(about: str, progress: Callable[[], str], done: threading.Event) -> None:
    began, shown = time.monotonic(), False
    while not done.wait(1.0 if shown else SECONDS):
        parts = [about, progress(), f"{time.monotonic() - began:.0f} s"]
        print(f"{_CLEAR}{', '.join(filter(None, parts))}", end="", file=sys.stderr, flush=True)
        shown = True
    if shown:
        print(_CLEAR, end="", file=sys.stderr, flush=True)
