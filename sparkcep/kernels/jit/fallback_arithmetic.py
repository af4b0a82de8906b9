"""Arithmetic of compiled kernels, for kernels that Python runs (:mod:`sparkcep.kernels.jit.fallback`).

A compiled kernel has integers of 64 bits that wrap, and IEEE 754 floats that become infinite or NaN. Python's own integers never
wrap, and its module ``math`` raises an error if a result is infinite. So all numbers here are numpy's, and the functions that
kernels call are those of the C library, as numba calls them. Kernels can call what is in ``BUILTINS`` and ``MODULES``; a test
checks that they call nothing else.
"""

from __future__ import annotations

import ast
import ctypes
import math
import operator
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

_SIGNED = 1 << 63  # integers from here on are unsigned, as numba types them


def typed(value: Any) -> Any:
    """``value`` with its numbers in the types that numba gives them: int64 (uint64 above), float64."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return np.uint64(value) if value >= _SIGNED else np.int64(value)
    if isinstance(value, float):
        return np.float64(value)
    if isinstance(value, tuple):
        parts = map(typed, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.LShift: operator.lshift,
    ast.BitOr: operator.or_, ast.USub: operator.neg,
}  # fmt: skip


def constant(node: ast.AST) -> int | float | None:
    """The value of an expression of literals (``-1``, ``1 << 60``), as Python's compiler folds it; None for any other
    expression."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, (int, float)) and not isinstance(node.value, bool) else None
    if not isinstance(node, (ast.UnaryOp, ast.BinOp)) or type(node.op) not in _OPERATORS:
        return None
    values = [constant(part) for part in ([node.operand] if isinstance(node, ast.UnaryOp) else [node.left, node.right])]
    return None if None in values else _OPERATORS[type(node.op)](*values)


def _range(*bounds: Any) -> Iterator[np.int64]:
    return map(np.int64, range(*bounds))


def _library() -> ctypes.CDLL:
    return ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)


def _of_c(name: str, arguments: int = 1) -> Callable[..., np.float64]:
    """The C function that compiled kernels call by this name.

    Python's own raises errors instead of returning infinity and NaN, and numpy's may be a different one, for vectors.
    """
    function = getattr(_library(), name)
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.c_double] * arguments

    def called(*args: Any) -> np.float64:
        return np.float64(function(*args))

    return called


def _ldexp(x: Any, exponent: Any) -> np.float64:
    return np.ldexp(x, int(exponent))


_UNARY = "acos asin atan cos cosh exp expm1 log log10 log1p sin sinh tan tanh".split()
_BINARY = "atan2 hypot".split()
_C = {name: _of_c(name) for name in (*_UNARY, "cbrt")} | {name: _of_c(name, 2) for name in _BINARY}
_SAME = "arange argsort ceil dtype empty empty_like float32 float64 floor fmod full inf int64 nan nextafter rint sqrt trunc uint64 uint8 zeros".split()

BUILTINS = {
    "abs": np.abs,
    "bool": bool,
    "float": np.float64,
    "int": np.int64,
    "len": lambda values: np.int64(len(values)),
    "max": max,
    "min": min,
    "range": _range,
}
MODULES = {
    "math": SimpleNamespace(
        **{name: _C[name] for name in (*_UNARY, *_BINARY)},
        degrees=lambda x: x * np.float64(180.0 / math.pi),
        radians=lambda x: x * np.float64(math.pi / 180.0),
        ldexp=_ldexp,
        sqrt=np.sqrt,
        isnan=math.isnan,
        isinf=math.isinf,
        inf=np.float64(math.inf),
        nan=np.float64(math.nan),
    ),
    "np": SimpleNamespace(
        **{name: getattr(np, name) for name in _SAME},
        cbrt=_C["cbrt"],
        exp=_C["exp"],
    ),
}
