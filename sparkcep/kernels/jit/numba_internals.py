"""numba's private API: every name of it that kernels need, and the shortcuts that replace some of its functions.

The other modules of this package import numba's own classes from here. A new version of numba may change them. All tests passed
with numba 0.68. ``ATTRIBUTES`` names the private attributes that the package uses of each class.

Shortcuts do work once while kernels are compiled, or not at all. The type of a call, such as ``a[i]`` or ``x + y`` with these
types, never changes. But numba looks through all registrations for it each time. The end of each name's lifetime is not needed,
either: it is for reference counting, which most kernels do not use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from numba.core import sigutils, types, typing
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.caching import _CacheLocator as CacheLocator
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder, compile_result
from numba.core.compiler_lock import require_global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.environment import lookup_environment
from numba.core.errors import TypingError
from numba.core.funcdesc import FunctionDescriptor
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.registry import CPUDispatcher
from numba.core.targetconfig import ConfigStack, TargetConfig
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import NativeLowering
from numba.core.types.functions import BaseFunction, Function
from numba.core.typing.typeof import Purpose, typeof

__all__ = [
    "CPUDispatcher", "CompileResult", "CompileResultCacheImpl", "CompilerBase", "DefaultPassBuilder", "FunctionCache", "FunctionDescriptor", "IndexDataCacheFile",
    "JITCPUCodegen", "JITCodeLibrary", "NativeLowering", "Purpose", "TypingError", "CacheLocator", "compile_result", "lookup_environment", "register_pass",
    "require_global_compiler_lock", "sigutils", "types", "typeof", "typing",
]  # fmt: skip

ATTRIBUTES: dict[type, tuple[str, ...]] = {
    CPUDispatcher: ("_compiler", "_compile_for_args", "_cache"),
    JITCodeLibrary: (
        "_codegen", "_compiled_object", "_ensure_finalized", "_final_module", "_finalize_dynamic_globals", "_finalize_final_module", "_finalized",
        "_get_module_for_linking", "_linking_libraries", "_optimize_final_module", "_optimize_functions", "_raise_if_finalized", "_recorded_timings",
        "_reload_init", "_shared_module",
    ),
    JITCPUCodegen: ("_check_llvm_bugs", "_data_layout", "_module_pass_manager", "_tm"),
    FunctionCache: ("_cache_file", "_cache_path", "_enabled", "_impl", "_impl_class", "_index_key", "_name"),
    IndexDataCacheFile: ("_data_name", "_data_name_pattern", "_dump", "_load_data"),
    CompileResult: ("_find_referenced_environments",),
    TargetConfig: ("_values",),
}

_MOST = 50_000  # answers that are cached
_depth = 0  # depth of our nested compilations
_answers: dict[tuple, Any] = {}
_hashes: dict[type, int] = {}


@contextlib.contextmanager
def shortcuts() -> Iterator[None]:
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
    key = self, context, tuple(args), tuple(dict(kws).items()), ConfigStack.top_or_none()
    found = _answers.get(key)
    if found is None:
        found = _resolved(self, context, args, kws)
        if len(_answers) >= _MOST:
            _answers.clear()
        _answers[key] = found
    return found


def _post_processed(self: PostProcessor, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Orders the blocks of a function. Without reference counting no pass asks for the lifetime of names."""
    flags = ConfigStack.top_or_none()
    if not _depth or flags is None or flags.nrt or self.func_ir.is_generator:
        _processed(self, emit_dels, extend_lifetimes)
        return
    self.func_ir.blocks = canonicalize_cfg(self.func_ir.blocks)
    self.func_ir.variable_lifetime = VariableLifetime(self.func_ir.blocks)  # computed on demand
    self.func_ir.generator_info = None


def _same(self: TargetConfig, other: Any) -> bool:
    """Whether options are equal. Only options that one of both sets can differ."""
    if type(self) is not type(other):
        return _equal(self, other)
    mine, others, options = self._values, other._values, self.options
    return mine == others or all(mine.get(name, options[name].default) == others.get(name, options[name].default) for name in mine.keys() | others.keys())


def _hashed(self: TargetConfig) -> int:
    """numba's hash of the names of all options, which is the same for each object of a class."""
    kind = type(self)
    if kind not in _hashes:
        _hashes[kind] = _hash(self)
    return _hashes[kind]


_resolved, Function.get_call_type = BaseFunction.get_call_type, _call_type
_processed, PostProcessor.run = PostProcessor.run, _post_processed
_equal, TargetConfig.__eq__ = TargetConfig.__eq__, _same
_hash, TargetConfig.__hash__ = TargetConfig.__hash__, _hashed
