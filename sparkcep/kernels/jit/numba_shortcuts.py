"""Shortcuts in numba: work that is done once while kernels are compiled, or not at all.

The type of a call, such as ``a[i]`` or ``x + y`` with these types, never changes. But numba looks through all registrations for it
each time. The end of each name's lifetime is not needed, either: it is for reference counting, which most kernels do not use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from numba.core import postproc, targetconfig, transforms
from numba.core.types.functions import BaseFunction, Function

_MOST = 50_000  # answers that are cached
_depth = 0  # depth of our nested compilations
_answers: dict[tuple, Any] = {}
_hashes: dict[type, int] = {}


@contextlib.contextmanager
def taken() -> Iterator[None]:
    """Inside, the shortcuts are used. Outside, other packages' functions are compiled as usual."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


def _call_type(self: Function, context: Any, args: Any, kws: Any) -> Any:
    """The signature for calling one of numba's functions with some types."""
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
    """Orders the blocks of a function. Without reference counting no pass asks for the lifetime of names."""
    flags = targetconfig.ConfigStack.top_or_none()
    if not _depth or flags is None or flags.nrt or self.func_ir.is_generator:
        _processed(self, emit_dels, extend_lifetimes)
        return
    self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)
    self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)  # computed on demand
    self.func_ir.generator_info = None


def _same(self: targetconfig.TargetConfig, other: Any) -> bool:
    """Whether options are equal. Only options that one of both sets can differ."""
    if type(self) is not type(other):
        return _equal(self, other)
    mine, others, options = self._values, other._values, self.options
    return mine == others or all(mine.get(name, options[name].default) == others.get(name, options[name].default) for name in mine.keys() | others.keys())


def _hashed(self: targetconfig.TargetConfig) -> int:
    """numba's hash of the names of all options, which is the same for each object of a class."""
    kind = type(self)
    if kind not in _hashes:
        _hashes[kind] = _hash(self)
    return _hashes[kind]


_resolved, Function.get_call_type = BaseFunction.get_call_type, _call_type
_processed, postproc.PostProcessor.run = postproc.PostProcessor.run, _post_processed
_equal, targetconfig.TargetConfig.__eq__ = targetconfig.TargetConfig.__eq__, _same
_hash, targetconfig.TargetConfig.__hash__ = targetconfig.TargetConfig.__hash__, _hashed
