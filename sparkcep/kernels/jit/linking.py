"""Decides which kernels become machine code: those that Python calls. The others are kept as LLVM IR for their callers.

numba makes machine code of each function, and of a copy of it in each of its callers. So a function deep in the call tree becomes
machine code once for each level above it. Here only an *entry*, which Python calls, becomes machine code, together with all kernels
below it. An *inner* kernel is lowered to LLVM IR and simplified, and its file holds that IR.

Example: entry E calls A, and A calls B. numba makes machine code of B, of A with B, and of E with A and B. Here only E with A and B
is made.
"""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding as llvm

from sparkcep.kernels.jit.numba_internals import (
    CompileResult,
    CompileResultCacheImpl,
    CPUDispatcher,
    JITCodeLibrary,
    NativeLowering,
    compile_result,
    lookup_environment,
    register_pass,
    require_global_compiler_lock,
)

_ENVIRONMENT = "_ZN08NumbaEnv"  # prefix of the names of variables that hold a function's environment

# -- entries ----------------------------------------------------------------------------------------------------


class Library(JITCodeLibrary):
    """Machine code of a kernel and all kernels that it calls, optimised once."""

    def finalize(self) -> None:
        """Links all callees, simplifies the module, and makes machine code."""
        require_global_compiler_lock()
        self._codegen._check_llvm_bugs()
        self._raise_if_finalized()
        for other in below(self):
            self._reload_init.update(other._reload_init)
            self._final_module.link_in(_text(other), preserve=True)
        for function in self._final_module.functions:
            if function.linkage == llvm.Linkage.weak_odr:
                function.linkage = "linkonce_odr"
        self._optimize_final_module()
        self._final_module.verify()
        if not self._reload_init:
            self._finalize_final_module()
            return
        made = self._codegen._tm.emit_object(self._final_module)  # before another process is waited for
        for initialise in self._reload_init:
            initialise()  # callees outside must exist before addresses are looked up
        self._compiled_object = made
        self._finalize_final_module()  # this takes it
        self._compiled_object = made  # for the file

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
        state.library = Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()  # so that it can be cached in a file
        done = super().run_pass(state)
        set_environments(state.library)
        return done


def set_environments(library: Library) -> None:
    """Sets the environment variables of linked kernels, which no other code sets."""
    for variable in library._final_module.global_variables:
        environment = lookup_environment(variable.name) if variable.name.startswith(_ENVIRONMENT) else None
        if environment is not None:
            library.codegen.set_env(variable.name, environment)


# -- inner kernels ----------------------------------------------------------------------------------------------


class InnerLibrary(Library):
    """LLVM IR of a kernel that does not become machine code itself. The IR of its callees is kept beside it."""

    def finalize(self) -> None:
        """Simplifies the IR. Only the entry links callees, or they would be simplified at each level of calls."""
        require_global_compiler_lock()
        self._raise_if_finalized()
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


def _text(library: JITCodeLibrary) -> llvm.ModuleRef:
    """A module for callers of a library. Unlike numba's it stays complete if nothing calls its functions yet."""
    module = library._get_module_for_linking()
    if any(f.linkage == llvm.Linkage.linkonce_odr for f in module.functions):
        for function in module.functions:
            if function.linkage == llvm.Linkage.linkonce_odr:
                function.linkage = "weak_odr"
    return module


def below(library: JITCodeLibrary) -> list[JITCodeLibrary]:
    """The callees of a kernel, and the callees of its inner kernels."""
    found: dict[JITCodeLibrary, None] = {}
    todo = list(library._linking_libraries)
    while todo:
        other = todo.pop(0)
        if other not in found:
            found[other] = None
            todo += other._linking_libraries if isinstance(other, InnerLibrary) else ()
    return list(found)


class Key:
    """Placeholder for numba's Python entry point; inner kernels have none."""


@register_pass(mutates_CFG=True, analysis_only=False)
class InnerLowering(NativeLowering):
    """Lowers a function that only kernels call."""

    _name = "inner_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        done = super().run_pass(state)
        state["cr"] = state["cr"]._replace(cfunc=Key())
        state.targetctx.insert_user_function(state["cr"].cfunc, state["cr"].fndesc, [state.library])
        state.reload_init.extend(state.library._reload_init)
        return done


class Inner(CPUDispatcher):
    """Compiles a kernel for the kernels that call it. Python cannot call it."""

    def add_overload(self, cres: CompileResult) -> None:
        self.overloads[tuple(cres.signature.args)] = cres


@functools.cache
def _read(codegen: Any, name: str, text: bytes) -> InnerLibrary:
    """Parses cached IR, once if several files have it."""
    library = InnerLibrary(codegen, name)
    library._final_module = library._shared_module = llvm.parse_bitcode(text)
    library._finalize_final_module()
    return library


class InnerImplementation(CompileResultCacheImpl):
    """Writes an inner kernel to a file, and reads it."""

    def reduce(self, cres: CompileResult) -> tuple:
        cres.library._ensure_finalized()
        cres.fndesc.typemap = cres.fndesc.calltypes = None  # they are not needed any more, and some cannot be pickled
        reload_init = list(set().union(*(library._reload_init for library in (cres.library, *below(cres.library)))) | set(cres.reload_init))
        texts = [(library.name, _text(library).as_bitcode()) for library in (cres.library, *below(cres.library))]
        return texts, cres.fndesc, cres.environment, cres.signature, reload_init

    def rebuild(self, target_context: Any, payload: tuple) -> CompileResult:
        texts, descriptor, environment, signature, reload_init = payload
        for initialise in reload_init:
            initialise()
        library, *called = (_read(target_context.codegen(), name, text) for name, text in texts)
        library._linking_libraries = called
        library._reload_init.update(reload_init)  # callers of this kernel need the same
        return compile_result(
            typing_context=target_context.typing_context, target_context=target_context, entry_point=Key(), library=library, signature=signature,
            objectmode=False, lifted=(), fndesc=descriptor, environment=environment, reload_init=reload_init,
        )  # fmt: skip
