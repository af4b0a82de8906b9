"""Kernels that become machine code once and are called by all entries, where others are taken into each of them.

This is for a large kernel with a name of its own in the process: callers are compiled against that name, which is the same for
equal sources and types, and say what is to be loaded before their own machine code is. LLVM knows where the name stands.
"""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
from numba.core.caching import CompileResultCacheImpl
from numba.core.compiler import CompileResult, compile_result
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

from sparkcep.search.linking import InnerLibrary, Key, Library, set_environments
from sparkcep.search.sources import digest


@dataclass(frozen=True)
class Needed:
    """Loads a shared kernel for some types, before what calls it is loaded."""

    module: str
    name: str
    types: tuple

    def __call__(self) -> None:
        getattr(importlib.import_module(self.module), self.name).inner.compile(self.types)

    @property
    def symbol(self) -> str:
        """The name that its callers have for it."""
        return f"{self.module}.{self.name}.{digest(self.module)}.{hashlib.sha256(repr(self.types).encode()).hexdigest()[:16]}"


class _Outside(InnerLibrary):
    """What callers of a shared kernel take in, a text with nothing in it. ``code``: its machine code, ``own``: its name there."""

    def __init__(self, code: Library, own: str, needed: Needed) -> None:
        super().__init__(code.codegen, needed.symbol)
        self.code, self.own = code, own
        self._reload_init.add(needed)
        self.finalize()
        self._shared_module = self._final_module
        llvm.add_symbol(needed.symbol, code.get_pointer_to_function(own))


@register_pass(mutates_CFG=True, analysis_only=False)
class SharedLowering(NativeLowering):
    """Lowers a function that only kernels call, and makes machine code of it."""

    _name = "shared_lowering"

    def run_pass(self, state: Any) -> bool:
        code = state.library = Library(state.targetctx.codegen(), state.func_id.func_qualname)
        code.enable_object_caching()
        state.flags.no_compile = True
        done = super().run_pass(state)
        descriptor, environment = state["cr"].fndesc, state["cr"].env
        needed = Needed(descriptor.modname, descriptor.qualname, tuple(state.args))
        state.library = _Outside(code, descriptor.mangled_name, needed)
        code.codegen.set_env(descriptor.env_name, environment)
        set_environments(code)
        descriptor.mangled_name = needed.symbol
        state["cr"] = state["cr"]._replace(cfunc=Key())
        state.targetctx.insert_user_function(state["cr"].cfunc, descriptor, [state.library])
        state.reload_init.extend(code._reload_init)
        return done


class SharedImplementation(CompileResultCacheImpl):
    """Writes a shared kernel to a file, and reads it."""

    def reduce(self, cres: CompileResult) -> tuple:
        cres.fndesc.typemap = cres.fndesc.calltypes = None  # they are not needed any more, and some cannot be written
        code = cres.library.code
        environments = tuple(CompileResult._find_referenced_environments(cres._replace(library=code)))
        return code.serialize_using_object_code(), cres.library.own, environments, cres.fndesc, cres.environment, cres.signature, cres.reload_init

    def rebuild(self, target_context: Any, payload: tuple) -> CompileResult:
        text, own, environments, descriptor, environment, signature, reload_init = payload
        for initialise in reload_init:
            initialise()
        code = target_context.codegen().unserialize_library(text)
        library = _Outside(code, own, Needed(descriptor.modname, descriptor.qualname, tuple(signature.args)))
        for env in (environment, *environments):
            code.codegen.set_env(env.env_name, env)
        return compile_result(
            typing_context=target_context.typing_context, target_context=target_context, entry_point=Key(), library=library, signature=signature,
            objectmode=False, lifted=(), fndesc=descriptor, environment=environment, reload_init=reload_init,
        )  # fmt: skip
