"""Digest of a kernel's sources: the texts of its module, and of all modules whose functions and constants it uses."""

from __future__ import annotations

import functools
import hashlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np

_PACKAGE = __name__.partition(".")[0]
# modules that determine how a kernel is compiled
_COMPILER = ("cache", "linking", "numba_pipeline", "linked_once", "numba_internals")


@functools.cache
def digest(module: str) -> str:
    """Digest of the sources of a module's kernels, as 16 hexadecimal digits."""
    h = hashlib.sha256()
    for text in (sys.version_info[:2], numba.__version__, llvmlite.__version__, np.__version__, *(Path(__file__).with_name(f"{name}.py").read_text("utf-8") for name in _COMPILER)):
        h.update(str(text).encode())
    for part in sorted(_sources(module, {}).items()):
        h.update(repr(part).encode())
    return h.hexdigest()[:16]


def _sources(name: str, found: dict[str, tuple[str, list[str]]]) -> dict[str, tuple[str, list[str]]]:
    """Text and constants of a module and of those that its functions and types come from."""
    if name in found or name == f"{_PACKAGE}.kernels.jit.cache":
        return found
    module = sys.modules[name]
    constants = [f"{key}={_constant(value)!r}" for key, value in list(vars(module).items()) if not key.startswith("__") and value is not vars(module)]
    found[name] = Path(module.__file__).read_text("utf-8"), sorted(constants)
    for value in list(vars(module).values()):
        other = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(other, str) and other.partition(".")[0] == _PACKAGE:
            _sources(other, found)
    return found


def _constant(value: Any, depth: int = 4) -> Any:
    """A value that a kernel may have been compiled with, in a form that reads the same in each process; None for any other
    value."""
    match value:
        case bool() | int() | float() | str() | None:
            return value
        case np.ndarray() | np.generic():
            return str(value.dtype), value.tolist()
        case tuple() | list() if depth:
            return [_constant(v, depth - 1) for v in value]
        case dict() if depth:
            return [(_constant(k, 0), _constant(v, depth - 1)) for k, v in value.items()]
    return None
