"""Compiled kernels on disk, kept by what they are compiled from, so that equal sources compile once for a user.

numba's own cache has a folder for each place a module is imported from, and looks at one file's text only, while kernels here are built
from several modules. So a kernel's folder is named after the texts of its module and of those whose kernels it calls, the constants they import,
and the versions of numba, LLVM and numpy; a file in it after the types of its arguments and the processor. A file is written whole or not at all. What
several processes need at once is compiled by one of them, while the others wait for its file.

Counting the references of the arrays that a call or a local name holds costs more than the work on a row, so functions that create no array
are compiled without it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator

from sparkcep import storage
from sparkcep.search import old_kernels, pipeline

try:
    import fcntl
except ImportError:  # no such locks on Windows: processes may compile the same kernel twice
    fcntl = None

log = logging.getLogger("sparkcep")

_LOCK_SECONDS = 600.0  # after that whoever waits compiles for itself: the other may have failed
_PACKAGE = __name__.partition(".")[0]
_DIGEST_BYTES = hashlib.sha256().digest_size


# -- names of folders and files -------------------------------------------------------------------------------


@functools.cache
def digest(module: str) -> str:
    """What the kernels of a module are compiled from, as 16 hexadecimal digits."""
    h = hashlib.sha256()
    for text in (sys.version_info[:2], numba.__version__, llvmlite.__version__, np.__version__, Path(__file__).read_text("utf-8"), Path(pipeline.__file__).read_text("utf-8")):
        h.update(str(text).encode())
    for part in sorted(_sources(module, {}).items()):
        h.update(repr(part).encode())
    return h.hexdigest()[:16]


def _sources(name: str, found: dict[str, tuple[str, list[str]]]) -> dict[str, tuple[str, list[str]]]:
    """Text and constants of a module and of those that its functions and types come from."""
    if name in found or name == __name__:
        return found
    module = sys.modules[name]
    constants = [f"{key}={_constant(value)!r}" for key, value in list(vars(module).items()) if not key.startswith("__") and value is not vars(module)]
    found[name] = Path(module.__file__).read_text("utf-8"), sorted(constants)
    for value in list(vars(module).values()):
        other = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(other, str) and other.partition(".")[0] == _PACKAGE:
            _sources(other, found)
    return found


def _constant(value: Any, depth: int = 4) -> Any:
    """A value that a kernel may have been compiled with, as something that reads the same in each process; None for what is none."""
    match value:
        case bool() | int() | float() | str() | None:
            return value
        case np.ndarray() | np.generic():
            return str(value.dtype), value.tolist()
        case tuple() | list() if depth:
            return [_constant(v, depth - 1) for v in value]
        case dict() if depth:
            return [(_constant(k, 0), _constant(v, depth - 1)) for k, v in value.items()]
    return None


def places() -> tuple[Path, ...]:
    """The folders of all kernels: see :func:`sparkcep.storage.places`. NUMBA_CACHE_DIR stands for the user's choice, too."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return storage.places(Path(chosen, _PACKAGE))
    usual = storage.cache_root()
    return storage.places(usual and usual / "kernels")


def root() -> Path:
    """The one of them where kernels are kept that are compiled now."""
    return places()[-1]


class _Locator(_CacheLocator):
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


class _Files(IndexDataCacheFile):
    """A file for each combination of argument types and processor: no index, which two processes could write at once.

    Its last bytes are a digest of the others, by which a damaged one is known: machine code that is not what was compiled would end the process.
    """

    def __init__(self, cache_path: str, filename_base: str, source_stamp: str) -> None:
        super().__init__(cache_path=cache_path, filename_base=filename_base, source_stamp=source_stamp)
        self._folders = [place / Path(cache_path).name for place in places()]  # the last one is cache_path

    def path(self, key: Any) -> Path:
        return self._folders[-1] / self._name(key)

    def _name(self, key: Any) -> str:
        return self._data_name(int(hashlib.sha256(repr(key).encode()).hexdigest()[:12], 16))

    def save(self, key: Any, data: Any) -> None:
        whole = self._dump((key, data))
        storage.write(self.path(key), whole + hashlib.sha256(whole).digest())

    def load(self, key: Any) -> Any:
        for folder in self._folders:
            path = folder / self._name(key)
            if _is_whole(path):
                found, data = self._load_data(str(path))  # what is behind the pickled object is not read
                if found == key:
                    return data
        return None

    def flush(self) -> None:
        for path in self._folders[-1].glob(self._data_name_pattern.replace("{number:d}", "*")):
            path.unlink(missing_ok=True)


def _is_whole(path: Path) -> bool:
    """Whether a kernel's file is there, is the user's or root's, and is as it was written; one that is damaged is removed, so that it is compiled again."""
    if not path.exists():
        return False
    if not (storage.trusted(path.parent) and storage.trusted(path)):
        log.warning("the compiled kernel %s is not read, because others could have written it", path)
        return False
    try:
        data = path.read_bytes()
    except OSError as error:
        log.info("the compiled kernel %s cannot be read: %s", path, error)
        return False
    if hashlib.sha256(data[:-_DIGEST_BYTES]).digest() == data[-_DIGEST_BYTES:]:
        return True
    log.warning("the compiled kernel %s is damaged, and is compiled again", path)
    with contextlib.suppress(OSError):
        path.unlink()
    return False


# -- one process compiles, the others wait --------------------------------------------------------------------


class _Locks:
    """Locks of this process on kernels: bytes of a file in the folder, which end with the process."""

    def __init__(self) -> None:
        self._files: dict[tuple[int, Path], Any] = {}

    def take(self, path: Path, done: Callable[[], bool]) -> None:
        """Returns with the lock, or when ``done`` says that another process has done the work, or where there are no locks."""
        if fcntl is None:
            return
        end = time.monotonic() + _LOCK_SECONDS
        try:
            file = self._file(path.parent)
            while time.monotonic() < end and not done():
                try:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._byte(path))
                    return
                except (BlockingIOError, PermissionError):  # taken
                    time.sleep(0.05)
        except OSError as error:
            log.debug("no locks in %s: %s", path.parent, error)

    def give(self, path: Path) -> None:
        if fcntl is None:
            return
        try:
            fcntl.lockf(self._file(path.parent), fcntl.LOCK_UN, 1, self._byte(path))
        except OSError as error:
            log.debug("no locks in %s: %s", path.parent, error)

    def _file(self, folder: Path) -> Any:
        # closing any file of it would end all locks of the process on it, so it stays open; a forked worker opens its own
        at = os.getpid(), folder
        if at not in self._files:
            storage.create(folder)
            self._files[at] = open(folder / ".lock", "ab")
        return self._files[at]

    @staticmethod
    def _byte(path: Path) -> int:
        return int(hashlib.sha256(path.name.encode()).hexdigest()[:7], 16)


_locks = _Locks()


@functools.cache
def _tell() -> None:
    log.warning(
        "sparkcep compiles the kernels that this query needs: seconds to a minute, once for this user and version (kept in %s). "
        "`sparkcep compile` does it ahead for all.",
        root(),
    )
    old_kernels.remove(root())


_unkept: set[Path] = set()


def _tell_unkept(error: OSError) -> None:
    """Once for a folder: as a rule no other kernel can be kept there, either."""
    folder = root()
    if folder not in _unkept:
        _unkept.add(folder)
        log.warning("compiled kernels cannot be kept in %s, and will be compiled again by the next process: %s", folder, error)


class NotCompiledError(Exception):
    """A kernel is not on disk yet, inside of ``loading_only``."""


_may_compile = True


@contextlib.contextmanager
def loading_only() -> Iterator[None]:
    """Inside, a kernel that would have to be compiled raises NotCompiledError."""
    global _may_compile
    before, _may_compile = _may_compile, False
    try:
        yield
    finally:
        _may_compile = before


class _KernelCache(FunctionCache):
    _impl_class = _Implementation

    def __init__(self, py_func: Callable) -> None:
        super().__init__(py_func)
        locator = self._impl.locator
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        if found is None and self._enabled:
            if not _may_compile:
                raise NotCompiledError(self._name)
            path = self._cache_file.path(self._index_key(sig, target_context.codegen()))
            _locks.take(path, path.exists)
            found = super().load_overload(sig, target_context)
            if found is None:
                _tell()
            else:
                _locks.give(path)
        if found is not None and self._enabled:
            old_kernels.mark(Path(self._cache_path))
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:  # a full disk or quota: what is compiled runs all the same
            _tell_unkept(error)
        finally:
            _locks.give(self._cache_file.path(self._index_key(sig, data.codegen)))


# -- decorators -----------------------------------------------------------------------------------------------


def _kept(compiled: Any, *, called: bool = True) -> Any:
    """``compiled`` with its cache; itself where NUMBA_DISABLE_JIT leaves Python functions as they are. ``called``: by others, not
    compiled into them."""
    if hasattr(compiled, "py_func"):
        compiled._cache = _KernelCache(compiled.py_func)
        if called:
            pipeline.plainly(compiled)
    return compiled


def kernel(function: Callable) -> Callable:
    """Compiles a function that creates no array."""
    return _kept(numba.njit(_nrt=False, pipeline_class=pipeline.Pipeline)(function))


def inlined(function: Callable) -> Callable:
    """Compiles a function into those that call it."""
    return _kept(numba.njit(inline="always", _nrt=False)(function), called=False)


def embedded(function: Callable) -> Callable:
    """Compiles a function whose machine code becomes part of its callers': where passing the arguments costs more than the work."""
    return _kept(numba.njit(forceinline=True, _nrt=False, pipeline_class=pipeline.Pipeline)(function))


def allocating(function: Callable) -> Callable:
    """Compiles a function that creates arrays."""
    return _kept(numba.njit(_nrt=True, pipeline_class=pipeline.Pipeline)(function))
