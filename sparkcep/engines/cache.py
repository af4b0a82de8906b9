"""Where compiled kernels are kept: a per-user folder named after the kernels' own sources.

numba's cache looks at the time stamp of one file only; kernels here are built from several modules, so the folder's name
carries a digest of them all and a changed module never meets a stale kernel. Import this before any ``njit``.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import numba

_SOURCES = ("columns/bytecode.py", "automaton/program.py", "engines/interpreter.py", "engines/kernels.py", "engines/gather.py")


def _digest() -> str:
    root = Path(__file__).resolve().parent.parent
    h = hashlib.sha256(numba.__version__.encode())
    for name in _SOURCES:
        h.update((root / name).read_bytes())
    return h.hexdigest()[:16]


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    path = root / "sparkcep" / _digest()
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".probe{os.getpid()}"
        probe.touch()
        probe.unlink()
        return path
    except OSError:  # no writable home (containers): share a temporary folder among this user's workers
        path = Path(tempfile.gettempdir()) / f"sparkcep-{os.getuid() if hasattr(os, 'getuid') else 'user'}" / _digest()
        path.mkdir(parents=True, exist_ok=True)
        return path


if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = str(_folder())
