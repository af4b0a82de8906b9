"""Makes Python's garbage collections rare while a task makes very many objects that live to its end.

Compilations of kernels and traces of ``sparkcep.why`` use it: half of a trace's time would go into collections that free nothing.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_LOCK = threading.Lock()
_users = 0
_before = (0, 0, 0)


@contextlib.contextmanager
def few_collections() -> Iterator[None]:
    """Inside, garbage collections are rare. It is also a decorator. The last of several threads restores the thresholds."""
    global _users, _before
    with _LOCK:
        if not _users:
            _before = gc.get_threshold()
            gc.set_threshold(max(_before[0], 100_000), 50, 100)
        _users += 1
    try:
        yield
    finally:
        with _LOCK:
            _users -= 1
            if not _users:
                gc.set_threshold(*_before)
