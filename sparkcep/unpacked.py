"""Unpacks the package, once per user, if it was imported from an archive, as with Connect's ``addArtifacts(..., pyfile=True)``.

``sparkcep/__init__`` calls it. Kernels are identified by the source of their modules and loaded from files, so modules must be
files.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

from sparkcep import storage


def folder(package: Path) -> str | None:
    """Returns the folder of the unpacked package. Returns None if the package is not in an archive.

    ``package`` is the path that it was imported from. Raises ImportError if it cannot be unpacked anywhere.
    """
    archive = package.parent
    if package.is_dir() or not archive.is_file():
        return None
    name = f"packed-{hashlib.sha256(archive.read_bytes()).hexdigest()[:20]}"
    place = storage.places(storage.cache_root())[-1]
    if not place.is_dir():
        raise ImportError(
            f"sparkcep was imported from the archive {archive}, but it cannot be unpacked without a cache folder. Set SPARKCEP_CACHE_DIR to a folder that this user can write to, also on the "
            "executors (spark.executorEnv.SPARKCEP_CACHE_DIR)"
        )
    there = place / name
    if not (there.is_dir() and storage.trusted(there)):
        with tempfile.TemporaryDirectory(dir=place) as work:
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(work)
            fresh = Path(work, "whole")
            shutil.move(Path(work, package.name), fresh)
            os.chmod(fresh, 0o755)
            try:
                fresh.rename(there)
            except OSError:  # another process was faster
                if not storage.trusted(there):
                    raise
    return str(there)
