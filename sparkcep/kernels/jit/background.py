"""Requests for kernels, which separate processes compile in the background (:mod:`sparkcep.background`).

A request is a file beside the kernels. A few processes at a time serve the requests of the whole machine, so that workers that need
the same kernels do not all compile them. They continue when the process that asked has ended, so that the next one finds the
kernels.

On an executor their memory counts as its own. So one process at a time compiles there, and it ends with the worker that asked for
it. No process does if kernels came with the package.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from sparkcep import processes, storage
from sparkcep.kernels.jit.locks import Locks, fcntl

log = logging.getLogger("sparkcep")

MODULE, WITH_ASKER = "sparkcep.background", "--with-asker"
_FOLDER, _ENDING = "wanted", ".request"
_START_SECONDS = 5.0  # a new process may need that long to take its slot
_STARTS = 6  # limit on the processes that one process starts, because processes that fail at once would be started indefinitely
_DAY = 86_400

locks = Locks()


def _on_no_executor() -> bool:
    return False


# Whether this process works for a cluster. :mod:`sparkcep.spark.exec.table_function` knows.
on_executor: Callable[[], bool] = _on_no_executor


class Request(NamedTuple):
    """A kernel: its module and name, the digest of its sources, and its argument types (see
    :mod:`sparkcep.kernels.jit.signatures`)."""

    module: str
    name: str
    digest: str
    types: list


class Requested:
    """The requests of this process below one folder of kernels.

    ``root`` returns the folder. ``shipped`` is the folder of the kernels that came with the package.
    """

    def __init__(self, root: Callable[[], Path], shipped: Path) -> None:
        self._root = root
        self._shipped = shipped
        self._written: set[Path] = set()
        self._started: list[tuple[float, subprocess.Popen]] = []

    def of(self, request: Request, kept: Callable[[], bool]) -> bool:
        """Makes sure that a process compiles the kernel. Returns False if none does or can; then the caller has to.

        ``kept`` says whether the kernel is in the cache.
        """
        if fcntl is None or not sys.executable or (on_executor() and self._shipped.is_dir()):
            return False
        folder = self._root() / _FOLDER
        data = json.dumps(request).encode()
        path = folder / f"{request.name}-{hashlib.sha256(data).hexdigest()[:16]}{_ENDING}"
        try:
            if path not in self._written:
                storage.create(folder)
                storage.write(path, data)
                self._written.add(path)
            elif not path.exists():
                return kept()  # the request was served, or it failed
        except OSError as error:
            log.info("compilation of kernels cannot be requested in %s: %s", folder, error)
            return False
        return self._served(folder)

    def _served(self, folder: Path) -> bool:
        """Whether a process is at work, or is started now."""
        there = on_executor()
        slots = _slots(folder, one=there)
        free = [slot for slot in slots if locks.free(slot)]
        for slot in free:
            locks.give(slot)
        on_their_way = sum(started > time.monotonic() - _START_SECONDS and process.poll() is None for started, process in self._started)
        if on_their_way >= len(free):
            return True
        if len(self._started) == _STARTS:
            return len(free) < len(slots) or on_their_way > 0
        nothing = subprocess.DEVNULL
        command = processes.python("-m", MODULE, str(folder), *([WITH_ASKER] if there else ()))
        try:
            # The pipe ends with this process.
            process = subprocess.Popen(
                command, env=processes.environment(), stdin=subprocess.PIPE if there else nothing, stdout=nothing, stderr=nothing, start_new_session=True
            )
        except OSError as error:
            log.info("a process that compiles kernels cannot be started: %s", error)
            return False
        self._started.append((time.monotonic(), process))
        log.info("kernels are compiled in the background and cached in %s; until then small inputs are interpreted", folder.parent)
        return True


def _slots(folder: Path, one: bool) -> list[Path]:
    """The slots of processes at work: one per processor, but at most 3; a single one (``one``) on executors."""
    return [folder / f"process {i}" for i in range(1 if one else min(os.cpu_count() or 1, 3))]


@contextlib.contextmanager
def slot(folder: Path, one: bool) -> Iterator[bool]:
    """Inside, this process has one of the slots. Yields False if all slots are taken."""
    taken = next((place for place in _slots(folder, one) if locks.free(place)), None)
    try:
        yield taken is not None
    finally:
        if taken is not None:
            locks.give(taken)


def waiting(folder: Path) -> list[tuple[Path, Request]]:
    """The requests below ``folder``, oldest first, without those that other users could have written.

    A file older than a day is removed, because its kernel's sources are gone.
    """
    found = []
    for path in folder.glob(f"*{_ENDING}"):
        with contextlib.suppress(FileNotFoundError):  # another process has served it
            written = path.stat().st_mtime
            if time.time() - written > _DAY:
                path.unlink()
            elif storage.trusted(folder) and storage.trusted(path):
                found.append((written, path, Request(*json.loads(path.read_text()))))
    return [(path, request) for _, path, request in sorted(found, key=lambda entry: entry[:2])]
