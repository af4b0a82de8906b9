"""Compiled kernels that no installation has used for months are removed, when others are compiled.

A change of sources, Python or numba leaves the folders of the kernels before it behind.
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
    """Tells that a process uses the kernels of a folder; its time of change says when one did last."""
    try:
        os.utime(folder)
    except OSError as error:  # another user's, or not to be written: then not ours to remove, either
        log.debug("%s cannot be marked as used: %s", folder, error)


def remove(root: Path) -> list[Path]:
    """Removes the folders of kernels below ``root`` that were not marked for KEPT_DAYS, and returns them."""
    oldest = time.time() - KEPT_DAYS * 86_400
    try:
        found = [path for path in root.iterdir() if _FOLDER.fullmatch(path.name) and path.is_dir() and path.stat().st_mtime < oldest]
    except OSError as error:  # another process removes them, too
        log.debug("%s cannot be looked through: %s", root, error)
        return []
    for path in found:
        shutil.rmtree(path, onerror=lambda _, at, error: log.debug("%s cannot be removed: %s", at, error[1]))
    return [path for path in found if not path.exists()]
