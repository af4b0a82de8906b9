"""A kernel run by Python's interpreter: for small inputs, while it is being compiled.

Each kernel has a twin. It is made of the same source, calls the twins of other kernels, and looks at the clock in the passes of its
loops. The numbers of a twin have the types that numba gives them in the kernel (:mod:`sparkcep.kernels.jit.fallback_arithmetic`):
numbers of the source, constants of modules and arguments become numpy's, so that integers wrap and floating numbers overflow to
infinity. A call that takes too long is given up, and what it wrote is undone.
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

SECONDS = 2.0  # that are good for one call; a compilation takes 5 to 20
MOST_ROWS = 65_536  # of a search; a V pattern over 20,000 rows takes .6 s
MOST_BYTES = 1 << 26  # of the arrays of one call, which are copied before it
_PASSES = 256  # of loops between two looks at the clock
_TICK = "_sparkcep_tick"  # as what the twins know the clock
_NUMBER = "_sparkcep_number_"  # as what they know the numbers of their source


class TooLongError(Exception):
    """A twin took longer than it may."""


def fits(kernel: Any, args: tuple) -> bool:
    """Whether the kernel has a twin, and the arrays of the call are small enough to be copied."""
    try:
        _twin(kernel.py_func)
    except OSError as error:  # a package without its sources
        log.info("%s cannot be interpreted: %s", kernel.py_func.__name__, error)
        return False
    return sum(array.nbytes for array in _written(args)) <= MOST_BYTES


_searches = [0]  # over many rows, that are going on


@contextlib.contextmanager
def over(rows: int) -> Iterator[None]:
    """Inside, kernels go over so many rows. Where these are many nothing is interpreted, as it would be given up."""
    many = int(rows > MOST_ROWS)
    _searches[0] += many
    try:
        yield
    finally:
        _searches[0] -= many


def too_many() -> bool:
    """Whether a search over many rows is going on."""
    return _searches[0] > 0


_one_at_a_time = threading.Lock()
_clock = [0, 0.0]  # passes up to the next look, and when the time is up


def call(kernel: Any, *args: Any, seconds: float = math.inf) -> Any:
    """What the twin of ``kernel`` returns. Raises TooLongError behind so many seconds, and then all arrays are as they were
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
    """Makes names of the numbers, which have numpy's types then. ``names`` says what they are."""

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
    """Puts a look at the clock into each loop."""

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
