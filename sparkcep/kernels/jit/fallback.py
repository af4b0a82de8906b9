"""Interpreted kernels: Python runs a kernel for small inputs while it is being compiled.

Each kernel has a twin. It is made from the same source, calls the twins of other kernels, and checks the clock in its loops. The
numbers of a twin have the types that numba gives them in the kernel (:mod:`sparkcep.kernels.jit.fallback_arithmetic`). Numbers in
the source, constants of modules and arguments become numpy's, so integers wrap and floats overflow to infinity. A call that takes
too long is given up, and its writes are undone.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import logging
import math
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from sparkcep.kernels.jit import fallback_arithmetic

log = logging.getLogger("sparkcep")

SECONDS = 2.0  # allowed for one call; a compilation takes 5 to 20
MOST_ROWS = 65_536  # of a search; a V pattern over 20,000 rows takes .6 s
MOST_BYTES = 1 << 26  # of the arrays of one call, which are copied before it
_PASSES = 256  # iterations of loops between two looks at the clock
_TICK = "_sparkcep_tick"  # name of the clock in the twins
_NUMBER = "_sparkcep_number_"  # prefix of the names of numbers in the twins


class TooLongError(Exception):
    """A twin took longer than allowed."""


def fits(kernel: Any, args: tuple) -> bool:
    """Whether the kernel has a twin, and the arrays of the call are small enough to be copied."""
    try:
        _twin(kernel.py_func)
    except OSError as error:  # a package without its sources
        log.info("%s cannot be interpreted: %s", kernel.py_func.__name__, error)
        return False
    return sum(array.nbytes for array in _written(args)) <= MOST_BYTES


_searches = [0]  # running searches over many rows


@contextlib.contextmanager
def over(rows: int) -> Iterator[None]:
    """Inside, kernels go over so many rows. If these are many, nothing is interpreted, because it would be given up."""
    many = int(rows > MOST_ROWS)
    _searches[0] += many
    try:
        yield
    finally:
        _searches[0] -= many


def too_many() -> bool:
    """Whether a search over many rows is running."""
    return _searches[0] > 0


_one_at_a_time = threading.Lock()
_clock = [0, 0.0]  # iterations up to the next look, and the deadline


def call(kernel: Any, *args: Any, seconds: float = math.inf) -> Any:
    """Runs the twin of ``kernel`` and returns its result. After ``seconds`` it raises TooLongError, and all arrays are as
    before."""
    twin = _twin(kernel.py_func)
    before = [(array, array.copy()) for array in _written(args)] if seconds < math.inf else []
    with _one_at_a_time, np.errstate(all="ignore"):  # numbers wrap or become infinite, as they do in the kernel
        _clock[:] = _PASSES, time.monotonic() + seconds
        try:
            return twin(*map(fallback_arithmetic.typed, args))
        except TooLongError:
            for array, values in before:
                array[...] = values
            raise


def _tick() -> None:
    _clock[0] -= 1
    if _clock[0] < 0:
        _clock[0] = _PASSES
        if time.monotonic() > _clock[1]:
            raise TooLongError


def _written(args: tuple) -> Iterator[np.ndarray]:
    """The arrays that a call can write to."""
    for value in args:
        if isinstance(value, np.ndarray):
            if value.flags.writeable:
                yield value
        elif isinstance(value, tuple):
            yield from _written(value)


class _Typing(ast.NodeTransformer):
    """Replaces numbers by names, which then have numpy's types. ``names`` has their values."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}

    def visit(self, node: ast.AST) -> ast.AST:
        value = fallback_arithmetic.constant(node)
        if value is None:
            return super().visit(node)
        name = f"{_NUMBER}{len(self.names)}"
        self.names[name] = fallback_arithmetic.typed(value)
        return ast.copy_location(ast.Name(name, ast.Load()), node)


class _Ticking(ast.NodeTransformer):
    """Inserts a look at the clock into each loop."""

    def visit_While(self, node: ast.While) -> ast.While:
        return self._with_tick(node)

    def visit_For(self, node: ast.For) -> ast.For:
        return self._with_tick(node)

    def _with_tick(self, loop: Any) -> Any:
        self.generic_visit(loop)
        tick = ast.Expr(ast.Call(ast.Name(_TICK, ast.Load()), [], []))
        loop.body.insert(0, ast.copy_location(tick, loop))
        return loop


_twins: dict[Callable, Callable] = {}


def _twin(function: Callable) -> Callable:
    """The twin of a kernel's Python function."""
    if function not in _twins:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        (definition,) = tree.body
        definition.decorator_list = []
        typing = _Typing()
        definition.body = [_Ticking().visit(typing.visit(statement)) for statement in definition.body]
        ast.fix_missing_locations(tree)
        ast.increment_lineno(tree, first - 1)
        module = compile(tree, inspect.getsourcefile(function), "exec")
        (code,) = (part for part in module.co_consts if isinstance(part, CodeType))
        names = {_TICK: _tick, "__builtins__": fallback_arithmetic.BUILTINS, **typing.names}
        defaults = fallback_arithmetic.typed(function.__defaults__ or ())
        twin = _twins[function] = names[function.__name__] = FunctionType(code, names, function.__name__, defaults)
        for name in twin.__code__.co_names:
            if name in function.__globals__ and name != function.__name__:
                value = function.__globals__[name]
                names[name] = _twin(value.py_func) if hasattr(value, "py_func") else fallback_arithmetic.MODULES.get(name, fallback_arithmetic.typed(value))
    return _twins[function]
