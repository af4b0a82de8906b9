"""Inter-process locks on files that are being made. They end with their process."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparkcep import storage

try:
    import fcntl
except ImportError:  # Windows does not have these locks, so processes may compile the same kernel twice
    fcntl = None

log = logging.getLogger("sparkcep")

_LOCK_SECONDS = 600.0  # after that a waiting process does the work itself: the other may have failed


class Locks:
    """Locks of this process: each is a byte of a file in the folder."""

    def __init__(self) -> None:
        self._files: dict[tuple[int, Path], Any] = {}

    def take(self, path: Path, done: Callable[[], bool]) -> None:
        """Waits for the lock. Returns with it, or when ``done`` says that another process has done the work, or at once without
        locks."""
        end = time.monotonic() + _LOCK_SECONDS
        while time.monotonic() < end and not done() and not self.free(path):
            time.sleep(0.05)

    def free(self, path: Path) -> bool:
        """Takes the lock if no other process has it. Also returns True if the system does not support locks."""
        if fcntl is None:
            return True
        try:
            fcntl.lockf(self._file(path.parent), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._byte(path))
        except (BlockingIOError, PermissionError):  # taken
            return False
        except OSError as error:
            log.debug("no locks in %s: %s", path.parent, error)
        return True

    def give(self, path: Path) -> None:
        if fcntl is None:
            return
        try:
            fcntl.lockf(self._file(path.parent), fcntl.LOCK_UN, 1, self._byte(path))
        except OSError as error:
            log.debug("no locks in %s: %s", path.parent, error)

    def _file(self, folder: Path) -> Any:
        # Closing any file object of it would release all locks of the process on it, so it stays open. A forked worker opens its
        # own.
        at = os.getpid(), folder
        if at not in self._files:
            storage.create(folder)
            self._files[at] = open(folder / ".lock", "ab")
        return self._files[at]

    @staticmethod
    def _byte(path: Path) -> int:
        return int(hashlib.sha256(path.name.encode()).hexdigest()[:7], 16)
