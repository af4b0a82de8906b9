"""Where compiled kernels are kept: a per-user folder named after the kernels' own sources.

numba's cache looks at the time stamp of one file only; kernels here are built from several modules, so the folder's name
carries a digest of them all and a changed module never meets a stale kernel. The decorators here come after that.

Counting the references of the arrays that a call or a local name holds costs more than the work on a row, so functions that create no array
are compiled without it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numba

_SOURCES = ("columns/bytecode.py", "automaton/*.py", "engines/*.py", "ranking/*.py")


def _digest() -> str:
    root = Path(__file__).resolve().parent.parent
    h = hashlib.sha256(numba.__version__.encode())
    for pattern in _SOURCES:
        for path in sorted(root.glob(pattern)):
            h.update(path.read_bytes())
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


def kernel(function: Callable) -> Callable:
    """Compiles a function that creates no array."""
    return numba.njit(cache=True, _nrt=False)(function)


def inlined(function: Callable) -> Callable:
    """Compiles a function into those that call it."""
    return numba.njit(cache=True, inline="always", _nrt=False)(function)


def allocating(function: Callable) -> Callable:
    """Compiles a function that creates arrays."""
    return numba.njit(cache=True, _nrt=True)(function)
