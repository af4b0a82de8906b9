"""The numba pipeline for kernels: plain types, only the passes that kernels need, and few garbage collections.

Most of the compile time goes into numba's own Python code, so each pass and each further variant of a function counts. A constant
in a call between kernels has a literal type, for which numba would compile the called function once more. The type of its value is
sufficient.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from sparkcep.garbage_collection import few_collections
from sparkcep.kernels.jit import linked_once, linking, numba_internals
from sparkcep.kernels.jit.numba_internals import CompilerBase, DefaultPassBuilder, NativeLowering, types

log = logging.getLogger("sparkcep")

_SAID_SECONDS = 5.0  # between two lines of the log about the progress

# These passes look for features that kernels do not use: closures, comprehensions, with statements, array expressions, computed
# messages of exceptions, values that need code of their own. The check of features is for generators.
_UNUSED = frozenset({
    "WithLifting", "InlineClosureLikes", "RewriteSemanticConstants", "RewriteDynamicRaises", "MakeFunctionToJitFunction", "FindLiterallyCalls",
    "LiteralUnroll", "LiteralPropagationSubPipelinePass", "InlineOverloads", "NopythonRewrites", "NoPythonSupportedFeatureValidation", "DumpParforDiagnostics",
})  # fmt: skip


class _Pipeline(CompilerBase):
    """numba's passes without those that kernels do not need, and with a lowering of ours."""

    lowering: type

    def define_pipelines(self) -> list[Any]:
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        kept = [entry for entry in manager.passes if entry[0].__name__ not in _UNUSED]
        manager.passes[:] = [(self.lowering, *entry[1:]) if entry[0] is NativeLowering else entry for entry in kept]
        return [manager]


class EntryPipeline(_Pipeline):
    """The passes for a function that Python calls."""

    lowering = linking.EntryLowering


class InnerPipeline(_Pipeline):
    """The passes for a function that kernels call."""

    lowering = linking.InnerLowering


class SharedPipeline(_Pipeline):
    """The passes for a shared kernel, whose machine code kernels call."""

    lowering = linked_once.SharedLowering


def plainly(dispatcher: Any, inner: Any) -> None:
    """Makes kernels that call ``dispatcher`` call ``inner`` for plain types, and compiles both with few garbage collections."""
    template = inner.get_call_template

    def plain(args: tuple, keywords: dict) -> tuple:
        found = template(tuple(types.unliteral(a) for a in args), {name: types.unliteral(a) for name, a in dict(keywords).items()})
        _ready(dispatcher)
        return found

    dispatcher.get_call_template, dispatcher.get_overload, dispatcher.inner = plain, inner.get_overload, inner
    for compiler in (dispatcher._compiler, inner._compiler):
        compiler.compile = _quietly(compiler.compile)


def _quietly(compile_for: Callable) -> Callable:
    def compiled(*args: Any) -> Any:
        with few_collections(), numba_internals.shortcuts():
            return compile_for(*args)

    return compiled


class _Work:
    """Progress of one compilation: the kernels that it needs, and those that are ready."""

    def __init__(self, kernel: Any) -> None:
        self.needed = {other for other in called(kernel) if other.targetoptions.get("inline") != "always"}
        self.ready: set[Any] = set()
        self.said = time.monotonic()


_work: _Work | None = None


@contextlib.contextmanager
def explained(kernel: Any) -> Iterator[None]:
    """Inside, ``kernel`` is compiled, and the log says now and then how many of the kernels that it needs are ready."""
    global _work
    before, _work = _work, _Work(kernel)
    try:
        yield
    finally:
        _work = before


def _ready(kernel: Any) -> None:
    if _work is not None and kernel in _work.needed:
        _work.ready.add(kernel)
        if time.monotonic() > _work.said + _SAID_SECONDS:
            _work.said = time.monotonic()
            log.warning("sparkcep: %d of %d kernels are ready", len(_work.ready), len(_work.needed))


def called(kernel: Any) -> set[Any]:
    """The kernel and its direct and indirect callees. Some of them may not be needed for the current types."""
    found, todo = {kernel}, [kernel]
    while todo:
        function = todo.pop().py_func
        others = {function.__globals__.get(name) for name in function.__code__.co_names}
        new = {other for other in others if hasattr(other, "py_func")} - found
        found |= new
        todo += new
    return found
