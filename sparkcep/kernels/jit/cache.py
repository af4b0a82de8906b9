"""Persistent cache of compiled kernels, keyed by what they are compiled from: equal sources compile once per user.

numba's own cache has a folder for each place that a module is imported from. It considers the text of one file only, while kernels
are built from several modules. Here a kernel's folder is named after a digest. It covers the texts of its module and of all modules
whose kernels it calls, the constants they import, and the versions of numba, LLVM and numpy. A file in the folder is named after
the types of its arguments and the processor.

A file is written completely or not at all. If several processes need a kernel at the same time, one compiles it, and the others
wait for its file.

Functions that create no array are compiled without reference counting. Counting the references of the arrays that a call or a local
name holds costs more than the work on a row.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba

from sparkcep import storage
from sparkcep.kernels.jit import background, eviction, fallback, linked_once, linking, numba_pipeline, signatures
from sparkcep.kernels.jit.digest import digest
from sparkcep.kernels.jit.locks import Locks
from sparkcep.kernels.jit.numba_internals import (
    CacheLocator,
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    Purpose,
    typeof,
    types,
)

log = logging.getLogger("sparkcep")

_PACKAGE = __name__.partition(".")[0]
SHIPPED = Path(__file__).parents[2] / "shipped" / "kernels"  # a platform's wheel may bring it
_DIGEST_BYTES = hashlib.sha256().digest_size


# -- names of folders and files -------------------------------------------------------------------------------


def places() -> tuple[Path, ...]:
    """The folders of all kernels, see :func:`sparkcep.storage.places`. NUMBA_CACHE_DIR is also honoured."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return storage.places(Path(chosen, _PACKAGE))
    usual = storage.cache_root()
    return storage.places(usual and usual / "kernels")


def root() -> Path:
    """The folder for kernels that are compiled now."""
    return places()[-1]


class _Locator(CacheLocator):
    def __init__(self, py_func: Callable, py_file: str) -> None:
        self._py_file = py_file
        self._line = py_func.__code__.co_firstlineno
        self._stamp = digest(py_func.__module__)
        self._name = f"{py_func.__module__.rpartition('.')[2]}-{self._stamp}"

    def get_cache_path(self) -> str:
        return str(root() / self._name)

    def ensure_cache_path(self) -> None:
        storage.create(root() / self._name)

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Callable, py_file: str) -> _Locator:
        return cls(py_func, py_file)


class _Implementation(CompileResultCacheImpl):
    _locator_classes = [_Locator]


class _InnerImplementation(linking.InnerImplementation):
    _locator_classes = [_Locator]


class _SharedImplementation(linked_once.SharedImplementation):
    _locator_classes = [_Locator]


class _Files(IndexDataCacheFile):
    """A file for each combination of argument types and processor.

    It does not use an index, because two processes could write it at once. Beside the user's files the package may have some, for
    any processor of the machine's kind (``docs/troubleshooting.md``, wheels with kernels).

    The last bytes of a file are a digest of the others, which reveals a damaged file: wrong machine code would end the process.
    """

    def __init__(self, cache_path: str, filename_base: str, source_stamp: str) -> None:
        super().__init__(cache_path=cache_path, filename_base=filename_base, source_stamp=source_stamp)
        # the last one is cache_path
        self._folders = [place / Path(cache_path).name for place in (*places()[:-1], SHIPPED, places()[-1])]

    def path(self, key: Any) -> Path:
        return self._folders[-1] / self._name(key)

    def _name(self, key: Any) -> str:
        return self._data_name(int(hashlib.sha256(repr(key).encode()).hexdigest()[:12], 16))

    def has(self, key: Any) -> bool:
        return any((folder / self._name(k)).exists() for k in (key, _generic(key)) for folder in self._folders)

    def save(self, key: Any, data: Any) -> None:
        whole = self._dump((key, data))
        storage.write(self.path(key), whole + hashlib.sha256(whole).digest())

    def load(self, key: Any) -> Any:
        for wanted in (key, _generic(key)):
            for folder in self._folders:
                path = folder / self._name(wanted)
                if _is_whole(path):
                    found, data = self._load_data(str(path))  # bytes after the pickled object are not read
                    if found == wanted:
                        return data
        return None

    def flush(self) -> None:
        for path in self._folders[-1].glob(self._data_name_pattern.replace("{number:d}", "*")):
            path.unlink(missing_ok=True)


def _generic(key: tuple) -> tuple:
    """The key of a kernel that was compiled for any processor of the same kind."""
    signature, (kind, _, _), *rest = key
    return (signature, (kind, "generic", ""), *rest)


def _is_whole(path: Path) -> bool:
    """Whether a kernel's file exists, belongs to the user or root, and is intact. A damaged file is removed, so that it is compiled
    again."""
    if not path.exists():
        return False
    if not (storage.trusted(path.parent) and storage.trusted(path)):
        log.warning("the compiled kernel %s is not used, because other users could have written it", path)
        return False
    try:
        data = path.read_bytes()
    except OSError as error:
        log.info("the compiled kernel %s cannot be read: %s", path, error)
        return False
    if hashlib.sha256(data[:-_DIGEST_BYTES]).digest() == data[-_DIGEST_BYTES:]:
        return True
    log.warning("the compiled kernel %s is damaged and is compiled again", path)
    with contextlib.suppress(OSError):
        path.unlink()
    return False


# -- one process compiles, the others wait --------------------------------------------------------------------


_locks = Locks()


@functools.cache
def _explain() -> None:
    log.warning(
        "sparkcep compiles the kernels that this query needs: this takes seconds to a minute, once for this user and version (cached in %s). "
        "`sparkcep compile` compiles all of them in advance.",
        root(),
    )
    eviction.remove(root())


_unkept: set[Path] = set()


def _explain_unkept(error: OSError) -> None:
    """Warns once for a folder, because usually no other kernel can be cached there, either."""
    folder = root()
    if folder not in _unkept:
        _unkept.add(folder)
        log.warning("compiled kernels cannot be cached in %s, so the next process compiles them again: %s", folder, error)


class NotCompiledError(Exception):
    """A kernel is not on disk yet, inside ``loading_only``."""


_INTERPRETED, _COMPILED, _REFUSED = range(3)
_missing = _INTERPRETED  # what happens if a kernel is not on disk


@contextlib.contextmanager
def _where_missing(what: int) -> Iterator[None]:
    global _missing
    before, _missing = _missing, what
    try:
        yield
    finally:
        _missing = before


def loading_only() -> contextlib.AbstractContextManager[None]:
    """Inside, a kernel that would have to be compiled raises NotCompiledError."""
    return _where_missing(_REFUSED)


def at_once() -> contextlib.AbstractContextManager[None]:
    """Inside, a kernel that is not on disk is compiled by this process instead of being interpreted meanwhile."""
    return _where_missing(_COMPILED)


class _KernelCache(FunctionCache):
    _impl_class = _Implementation
    _file_name = "{}"

    def __init__(self, kernel: Any) -> None:
        super().__init__(kernel.py_func)
        self._kernel = kernel
        locator = self._impl.locator
        self._cache_file = _Files(self._cache_path, self._file_name.format(self._impl.filename_base), locator.get_source_stamp())

    def has(self, sig: Any, target_context: Any) -> bool:
        """Whether the kernel is on disk for these types."""
        return self._cache_file.has(self._index_key(sig, target_context.codegen()))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        if found is None and self._enabled:
            if _missing == _REFUSED:
                raise NotCompiledError(self._name)
            path = self._cache_file.path(self._index_key(sig, target_context.codegen()))
            if not _locks.free(path):
                self._beside(sig)
            _locks.take(path, path.exists)
            found = super().load_overload(sig, target_context)
            if found is None:
                _explain()
            else:
                _locks.give(path)
        if found is not None and self._enabled:
            eviction.mark(Path(self._cache_path))
        return found

    def _beside(self, sig: Any) -> None:
        """Compiles the shared kernels that this one calls, while another process compiles the kernel itself.

        A search that gets no conditions does not call the interpreter, so it needs none of them.
        """
        given = dict(zip(inspect.signature(self._kernel.py_func).parameters, sig))
        if isinstance(given.get("conditions"), types.NoneType):
            return
        apart = [other.inner for other in numba_pipeline.called(self._kernel) - {self._kernel} if isinstance(getattr(other, "inner", None), linked_once.Shared)]
        # Kernels that others call come last: the other process may have compiled them by then.
        for other in sorted(apart, key=lambda inner: -len(numba_pipeline.called(inner))):
            other.prepare()

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:  # a full disk or quota: the compiled kernel runs all the same
            _explain_unkept(error)
        finally:
            _locks.give(self._cache_file.path(self._index_key(sig, data.codegen)))


class _InnerCache(_KernelCache):
    """Cache of an inner kernel, for the kernels that call it."""

    _impl_class = _InnerImplementation
    _file_name = "{}-inner"


class _SharedCache(_KernelCache):
    """Cache of the machine code of shared kernels."""

    _impl_class = _SharedImplementation
    _file_name = "{}-shared"


# -- calls from Python ----------------------------------------------------------------------------------------

# ``false``: wait for kernels. ``always``: compile none, so that a debugger can step through them.
KEY = "SPARKCEP_INTERPRET"
_asked = background.Requested(root, SHIPPED)


def _entered(kernel: Any, compile_for: Callable) -> Callable:
    """Returns the function that numba calls if Python calls ``kernel`` for types it is not compiled for.

    That function returns the callable to use: the kernel from disk, if it is there. If it is not, the first calls with small arrays
    are interpreted while another process compiles it.
    """
    cache = kernel._cache

    def entered(*args: Any) -> Callable:
        signature = tuple(typeof(a, Purpose.argument) for a in args)

        def kept() -> bool:
            return cache.has(signature, kernel.targetctx)

        wish = os.environ.get(KEY, "true").strip().lower()
        if wish == "always":
            return functools.partial(fallback.call, kernel)
        if wish == "false" or _missing != _INTERPRETED or fallback.too_many() or kept() or not fallback.fits(kernel, args):
            return compiling(*args)
        function = kernel.py_func
        types = signatures.written(signature)
        if types is None:
            return compiling(*args)
        wanted = background.Request(function.__module__, function.__name__, digest(function.__module__), types)
        return call if _asked.of(wanted, kept) else compiling(*args)

    def call(*args: Any) -> Any:
        try:
            return fallback.call(kernel, *args, seconds=fallback.SECONDS)
        except fallback.TooLongError:
            return compiling(*args)(*args)

    def compiling(*args: Any) -> Callable:
        with numba_pipeline.explained(kernel):
            return compile_for(*args)

    return entered


# -- decorators -----------------------------------------------------------------------------------------------


def _kept(compiled: Any) -> Any:
    """``compiled`` with its cache. With NUMBA_DISABLE_JIT Python functions are left as they are."""
    if hasattr(compiled, "py_func"):
        compiled._cache = _KernelCache(compiled)
        compiled._compile_for_args = _entered(compiled, compiled._compile_for_args)
    return compiled


def _entry(function: Callable, references: bool = False, embed: bool = False) -> Any:
    return _kept(numba.njit(pipeline_class=numba_pipeline.EntryPipeline, no_cfunc_wrapper=True, _nrt=references, forceinline=embed)(function))


def _for_both(function: Callable, *, references: bool = False, embed: bool = False) -> Any:
    """``function`` as an entry, which Python calls, with the inner kernel, which kernels call.

    Both options are always passed. To a function without options of its own, numba gives the options of the function it is compiled
    for.
    """
    compiled = _entry(function, references, embed)
    if hasattr(compiled, "py_func"):
        inner = linking.Inner(function, **_inside(compiled), pipeline_class=numba_pipeline.InnerPipeline)
        inner._cache = _InnerCache(compiled)
        numba_pipeline.plainly(compiled, inner)
    return compiled


def _inside(compiled: Any) -> dict[str, Any]:
    """The options of an entry, for a kernel that only kernels call."""
    return {"targetoptions": {**compiled.targetoptions, "no_cpython_wrapper": True}}


def kernel(function: Callable) -> Callable:
    """Compiles a function that creates no array."""
    return _for_both(function)


def inlined(function: Callable) -> Callable:
    """Compiles a function into its callers, before type inference."""
    return _kept(numba.njit(inline="always", _nrt=False)(function))


def embedded(function: Callable) -> Callable:
    """Compiles a function whose machine code becomes part of its callers', because passing the arguments costs more than the work.

    For steps of every row only. The code of rarer ones, such as reporting a match, would make the rows around it slower by a
    seventh: they are kernels of their own.
    """
    return _for_both(function, embed=True)


def separate(signature: str) -> Callable[[Callable], Callable]:
    """Compiles a large function whose machine code is shared by all kernels that call it.

    ``signature`` are its types. With them it can be called before it is compiled.
    """

    def apart(function: Callable) -> Any:
        compiled = _entry(function)
        if hasattr(compiled, "py_func"):
            inner = linked_once.Shared(function, signature, **_inside(compiled), pipeline_class=numba_pipeline.SharedPipeline)
            inner._cache = _SharedCache(compiled)
            numba_pipeline.plainly(compiled, inner)
        return compiled

    return apart


def allocating(function: Callable) -> Callable:
    """Compiles a function that creates arrays."""
    return _for_both(function, references=True)
