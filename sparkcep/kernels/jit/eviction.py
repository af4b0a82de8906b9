"""Eviction: removes compiled kernels that no installation has used for months, when others are compiled.

A change of sources, Python or numba leaves the folders of earlier kernels unused.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import shutil
import time
from pathlib import Path

log = logging.getLogger("sparkcep")

KEPT_DAYS = 60
_FOLDER = re.compile(r"\w+-[0-9a-f]{16}")


@functools.cache
def mark(folder: Path) -> None:
    """Marks a folder's kernels as used by a process. The folder's modification time is the time of its last use."""
    try:
        os.utime(folder)
    except OSError as error:  # the folder is another user's or read-only, so it is not ours to remove, either
        log.debug("%s cannot be marked as used: %s", folder, error)


def remove(root: Path) -> list[Path]:
    """Removes the folders of kernels below ``root`` that were not marked for KEPT_DAYS, and returns them."""
    oldest = time.time() - KEPT_DAYS * 86_400
    try:
        found = [path for path in root.iterdir() if _FOLDER.fullmatch(path.name) and path.is_dir() and path.stat().st_mtime < oldest]
    except OSError as error:  # another process is removing them, too
        log.debug("%s cannot be looked through: %s", root, error)
        return []
    for path in found:
        shutil.rmtree(path, onerror=lambda _, at, error: log.debug("%s cannot be removed: %s", at, error[1]))
    return [path for path in found if not path.exists()]
