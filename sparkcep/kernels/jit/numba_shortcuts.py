"""Work of numba's that is done once while kernels are compiled, or not at all.

A type that is asked for a call, as ``a[i]`` or ``x + y`` with these types, answers the same each time, and numba looks through all
that is registered for it each time. Nor does it need the places where names end: these are for counted references, of which most
kernels have none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from numba.core import postproc, targetconfig, transforms
from numba.core.types.functions import BaseFunction, Function

_MOST = 50_000  # answers that are remembered
_depth = 0  # of compilations of ours
_answers: dict[tuple, Any] = {}
_hashes: dict[type, int] = {}


@contextlib.contextmanager
def taken() -> Iterator[None]:
    """Inside, the shortcuts are taken; others' functions are compiled as ever outside."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


def _call_type(self: Function, context: Any, args: Any, kws: Any) -> Any:
    """The signature with which a function of numba's is called for some types."""
    if not _depth:
        return _resolved(self, context, args, kws)
    key = self, context, tuple(args), tuple(dict(kws).items()), targetconfig.ConfigStack.top_or_none()
    found = _answers.get(key)
    if found is None:
        found = _resolved(self, context, args, kws)
        if len(_answers) >= _MOST:
            _answers.clear()
        _answers[key] = found
    return found


def _post_processed(self: postproc.PostProcessor, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Orders the blocks of a function. Without counted references nobody asks which names live where."""
    flags = targetconfig.ConfigStack.top_or_none()
    if not _depth or flags is None or flags.nrt or self.func_ir.is_generator:
        _processed(self, emit_dels, extend_lifetimes)
        return
    self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)
    self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)  # computed where one asks
    self.func_ir.generator_info = None


def _same(self: targetconfig.TargetConfig, other: Any) -> bool:
    """Whether options are equal. Only those that one of both sets can differ."""
    if type(self) is not type(other):
        return _equal(self, other)
    mine, others, options = self._values, other._values, self.options
    return mine == others or all(mine.get(name, options[name].default) == others.get(name, options[name].default) for name in mine.keys() | others.keys())


def _hashed(self: targetconfig.TargetConfig) -> int:
    """numba's, which is that of the names of all options and the same for each object of a class."""
    kind = type(self)
    if kind not in _hashes:
        _hashes[kind] = _hash(self)
    return _hashes[kind]


_resolved, Function.get_call_type = BaseFunction.get_call_type, _call_type
_processed, postproc.PostProcessor.run = postproc.PostProcessor.run, _post_processed
_equal, targetconfig.TargetConfig.__eq__ = targetconfig.TargetConfig.__eq__, _same
_hash, targetconfig.TargetConfig.__hash__ = targetconfig.TargetConfig.__hash__, _hashed
