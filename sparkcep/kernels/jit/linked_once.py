"""Shared kernels: machine code that exists once and is called by all entries, while other kernels are copied into each of them.

This is for a large kernel with a name of its own in the process (a symbol). Its argument types are declared at its definition. So
callers are compiled against that name before its machine code exists, perhaps while another process makes it. They state what must
be loaded before their own machine code. LLVM knows the address of the name.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from sparkcep.kernels.jit.digest import digest
from sparkcep.kernels.jit.linking import InnerLibrary, Key, Library, set_environments
from sparkcep.kernels.jit.numba_internals import (
    CompileResult,
    CompileResultCacheImpl,
    CPUDispatcher,
    FunctionDescriptor,
    JITCodeLibrary,
    NativeLowering,
    TypingError,
    compile_result,
    register_pass,
    sigutils,
    typing,
)


@dataclass(frozen=True)
class NeededKernels:
    """Loads a shared kernel, or compiles it, before its callers are loaded."""

    module: str
    name: str

    def __call__(self) -> None:
        getattr(importlib.import_module(self.module), self.name).inner.prepare()


class _Outside(InnerLibrary):
    """An empty library, which callers of a shared kernel link instead of its code."""

    def __init__(self, codegen: Any, symbol: str, needed: NeededKernels) -> None:
        super().__init__(codegen, symbol)
        self._reload_init.add(needed)
        self.finalize()
        self._shared_module = self._final_module


class Shared(CPUDispatcher):
    """A kernel for kernels that call it, whose machine code they share. Python cannot call it.

    ``signature`` names the types of its arguments and of its result, as numba writes them.
    """

    def __init__(self, function: Callable, signature: str, **options: Any) -> None:
        super().__init__(function, **options)
        self.arguments, self.returned = sigutils.normalize_signature(signature)
        self._key = Key()

    @functools.cached_property
    def symbol(self) -> str:
        """The name that its callers use."""
        function = self.py_func
        known = hashlib.sha256(repr((self.arguments, self.returned)).encode()).hexdigest()[:16]
        return f"{function.__module__}.{function.__name__}.{digest(function.__module__)}.{known}"

    def prepare(self) -> None:
        """Makes sure that its machine code exists."""
        self.compile(self.arguments)

    def add_overload(self, cres: CompileResult) -> None:
        if cres.signature.return_type != self.returned:
            raise TypeError(f"{self.py_func.__name__} returns {cres.signature.return_type}, and not {self.returned}")
        self.overloads[tuple(cres.signature.args)] = cres
        llvm.add_symbol(self.symbol, cres.library.get_pointer_to_function(cres.fndesc.mangled_name))

    def get_call_template(self, args: tuple, kws: dict) -> tuple:
        """numba's method, but nothing is compiled for it."""
        pysig, args = self._compiler.fold_argument_types(args, kws)
        if tuple(args) != self.arguments:
            raise TypingError(f"{self.py_func.__name__} takes ({', '.join(map(str, self.arguments))}), and not ({', '.join(map(str, args))})")
        name = self.py_func.__name__
        return typing.make_concrete_template(f"CallTemplate({name})", key=name, signatures=[self._declared]), pysig, args, {}

    def get_overload(self, sig: Any) -> Key:
        """The key that represents it in a caller."""
        return self._key

    @functools.cached_property
    def _declared(self) -> typing.Signature:
        """Its signature, once it is registered for code that lowers a call of it."""
        function = self.py_func
        descriptor = FunctionDescriptor(
            native=True, modname=function.__module__, qualname=function.__qualname__, unique_name=function.__name__, doc="", typemap={},
            restype=self.returned, calltypes={}, args=tuple(inspect.signature(function).parameters), kws=(), argtypes=self.arguments,
        )  # fmt: skip
        descriptor.mangled_name = self.symbol
        library = _Outside(self.targetctx.codegen(), self.symbol, NeededKernels(function.__module__, function.__name__))
        self.targetctx.insert_user_function(self._key, descriptor, [library])
        return typing.signature(self.returned, *self.arguments)


@register_pass(mutates_CFG=True, analysis_only=False)
class SharedLowering(NativeLowering):
    """Lowers a function that only kernels call, and makes machine code of it."""

    _name = "shared_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.flags.no_compile = True
        done = super().run_pass(state)
        state.library._ensure_finalized()
        set_environments(state.library)
        state["cr"] = state["cr"]._replace(cfunc=Key())
        state.reload_init.extend(state.library._reload_init)
        return done


class SharedImplementation(CompileResultCacheImpl):
    """Writes a shared kernel to a file, and reads it."""

    def reduce(self, cres: CompileResult) -> tuple:
        cres.fndesc.typemap = cres.fndesc.calltypes = None  # they are not needed any more, and some cannot be pickled
        environments = tuple(cres._find_referenced_environments())
        return cres.library.serialize_using_object_code(), environments, cres.fndesc, cres.environment, cres.signature, cres.reload_init

    def rebuild(self, target_context: Any, payload: tuple) -> CompileResult:
        text, environments, descriptor, environment, signature, reload_init = payload
        for initialise in reload_init:
            initialise()
        library: JITCodeLibrary = target_context.codegen().unserialize_library(text)
        for env in (environment, *environments):
            library.codegen.set_env(env.env_name, env)
        return compile_result(
            typing_context=target_context.typing_context, target_context=target_context, entry_point=Key(), library=library, signature=signature,
            objectmode=False, lifted=(), fndesc=descriptor, environment=environment, reload_init=reload_init,
        )  # fmt: skip
