"""Which of the kernels become machine code: those that Python calls; the others are kept as LLVM's text for those that call them.

numba makes machine code of each function, and of a copy of it in each of its callers, so that what is deep in the tree of calls
becomes machine code once for each level above it. Only an *entry*, which Python calls, becomes machine code here, with all kernels
below it. An *inner* kernel is lowered to LLVM's text and simplified, and its file holds that text.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core.caching import CompileResultCacheImpl
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult, compile_result
from numba.core.compiler_machinery import register_pass
from numba.core.environment import lookup_environment
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering

_ENVIRONMENT = "_ZN08NumbaEnv"  # begins the names of the variables that hold what belongs to a function

# -- entries ----------------------------------------------------------------------------------------------------


class _Library(JITCodeLibrary):
    """Machine code of a kernel and all that it calls, optimised once."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout  # the passes over the whole module simplify each function, too

    def _optimize_final_module(self) -> None:
        manager, builder = self._codegen._module_pass_manager()
        with self._recorded_timings.record("Module passes", builder):
            manager.run(self._final_module, builder)


@register_pass(mutates_CFG=True, analysis_only=False)
class EntryLowering(NativeLowering):
    """Lowers a function that Python calls, and makes machine code of it."""

    _name = "entry_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()  # so that it can be kept in a file
        done = super().run_pass(state)
        for variable in state.library._final_module.global_variables:  # an inner kernel's is set by nobody else
            environment = lookup_environment(variable.name) if variable.name.startswith(_ENVIRONMENT) else None
            if environment is not None:
                state.library.codegen.set_env(variable.name, environment)
        return done


# -- inner kernels ----------------------------------------------------------------------------------------------


class _InnerLibrary(_Library):
    """LLVM's text of a kernel and of those that it calls, of which no machine code is made."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _Key:
    """Names an inner kernel where numba has the function that Python could call."""


@register_pass(mutates_CFG=True, analysis_only=False)
class InnerLowering(NativeLowering):
    """Lowers a function that only kernels call."""

    _name = "inner_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        done = super().run_pass(state)
        state["cr"] = state["cr"]._replace(cfunc=_Key())
        state.targetctx.insert_user_function(state["cr"].cfunc, state["cr"].fndesc, [state.library])
        state.reload_init.extend(state.library._reload_init)
        return done


class Inner(CPUDispatcher):
    """Compiles a kernel for those that call it. Python cannot call it."""

    def add_overload(self, cres: CompileResult) -> None:
        self.overloads[tuple(cres.signature.args)] = cres


class InnerImplementation(CompileResultCacheImpl):
    """Writes an inner kernel to a file, and reads it."""

    def reduce(self, cres: CompileResult) -> tuple:
        cres.library._ensure_finalized()
        cres.fndesc.typemap = cres.fndesc.calltypes = None  # they are not needed any more, and some cannot be written
        text = cres.library._final_module.as_bitcode()
        return cres.library.name, text, cres.fndesc, cres.environment, cres.signature, cres.reload_init

    def rebuild(self, target_context: Any, payload: tuple) -> CompileResult:
        name, text, descriptor, environment, signature, reload_init = payload
        for initialise in reload_init:
            initialise()
        library = _InnerLibrary(target_context.codegen(), name)
        library._final_module = llvm.parse_bitcode(text)
        library._finalize_final_module()
        return compile_result(
            typing_context=target_context.typing_context, target_context=target_context, entry_point=_Key(), library=library, signature=signature,
            objectmode=False, lifted=(), fndesc=descriptor, environment=environment, reload_init=reload_init,
        )  # fmt: skip
