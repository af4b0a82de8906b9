"""The cache folder of compiled code: SPARKCEP_CACHE_DIR, or ``sparkcep`` in the user's cache folder.

Files in it are executed, so sparkcep reads nothing that somebody else could have written. The folder and each folder above it
must belong to the user or to root, and nobody else may write to them. The same holds for each file. If a folder does not qualify,
a temporary folder of the user's is used instead. A folder that is readable but not writable (prepared by root in an image) is
read, and newly compiled code goes to the temporary folder.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import shutil
import stat
import tempfile
from pathlib import Path

try:
    import grp
    import pwd
except ImportError:  # Windows: write permissions are not checked
    grp = pwd = None

log = logging.getLogger("sparkcep")

_NAME = __name__.partition(".")[0]
_GIVEN = "SPARKCEP_TEMPORARY_DIR"  # the temporary folder of the parent process
_NOWHERE = Path(os.devnull, _NAME)  # no file can be there
_FOLDER_MODE, _FILE_MODE = 0o755, 0o644  # before the umask; compiled code is not secret


def cache_root() -> Path | None:
    """Returns the chosen or default folder without creating it. Returns None if the user's home is unknown."""
    chosen = os.environ.get("SPARKCEP_CACHE_DIR")
    if chosen:
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / _NAME
    except RuntimeError:
        return None


@functools.cache
def places(wanted: Path | None) -> tuple[Path, ...]:
    """Returns the folders to search for a file, in order. New files go to the last folder.

    ``wanted`` is the folder that is used alone if it is trusted and writable.
    """
    if wanted is None:
        log.info("the home directory does not exist; compiled code is cached in a temporary folder, unless SPARKCEP_CACHE_DIR names another")
        return (_temporary(),)
    problem = distrust = None
    try:
        wanted = wanted.resolve()
        problem = _unwritable(wanted)
        there = wanted.is_dir()
        distrust = _distrust(wanted) if there else None
    except (OSError, RuntimeError) as error:  # RuntimeError: links form a cycle
        problem, there = str(error), False
    if not (problem or distrust):
        return (wanted,)
    own = _temporary()
    if distrust:
        log.warning(
            "%s is not used for compiled code: %s. Its files are executed, so it must belong to you or root, and other users must not be able to write to it. "
            "%s is used instead; set SPARKCEP_CACHE_DIR to another folder",
            wanted, distrust, own,
        )  # fmt: skip
        return (own,)
    log.info("compiled code cannot be cached in %s (%s), and is cached in %s instead; set SPARKCEP_CACHE_DIR to a writable folder", wanted, problem, own)
    return (wanted, own) if there else (own,)


def create(folder: Path) -> None:
    """Creates ``folder`` and its missing parents so that nobody else may write to them. Raises OSError."""
    if not folder.is_dir():
        create(folder.parent)
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)


def trusted(path: Path) -> bool:
    """Whether a file or folder in one of ``places`` exists and only the user or root can have written it."""
    try:
        return _others(path.lstat()) is None
    except OSError:
        return False


def write(path: Path, data: bytes) -> None:
    """Writes a file atomically: completely or not at all, even if the machine crashes. Raises OSError."""
    temporary = path.with_name(f"{path.name}.tmp.{os.getpid()}.{os.urandom(6).hex()}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), _FILE_MODE), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _unwritable(folder: Path) -> str | None:
    """Creates ``folder`` if it is missing. Says why no file can be created in it, or returns None."""
    try:
        create(folder)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return str(error)
    return None


def _distrust(folder: Path) -> str | None:
    """Says why somebody else may have written the files in ``folder``. Returns None if nobody else can have."""
    problem = _others(folder.lstat())
    for above in folder.parents:
        wrong = _others(above.lstat(), above=True)
        problem = problem or (wrong and f"{above}: {wrong}")
    return problem


def _others(found: os.stat_result, *, above: bool = False) -> str | None:
    """Says why users other than this one and root may write there. Returns None if they may not.

    ``above``: the folder is a parent. Then the question is whether others can replace its entries.
    """
    if pwd is None:
        return None
    # In an unprivileged container, root's folders seem to belong to an unnamed user.
    if found.st_uid not in (os.geteuid(), 0) and not (above and found.st_uid == _owner_of_all()):
        return f"it belongs to user {found.st_uid}"
    if stat.S_ISLNK(found.st_mode):
        return "it is a link"
    if above and found.st_mode & stat.S_ISVTX:  # as in /tmp: users can only remove their own files
        return None
    if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and not _private(found.st_gid)):
        return f"other users can write to it (mode {stat.S_IMODE(found.st_mode):o})"
    return None


@functools.cache
def _owner_of_all() -> int:
    return os.stat(os.sep).st_uid


@functools.cache
def _private(gid: int) -> bool:
    """Whether the user is the group's only member, as on systems whose umask is 002."""
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _temporary() -> Path:
    """Returns a temporary folder that this user's processes share.

    If another user owns that folder, it returns a folder for this process and its children. That folder is removed when this
    process ends.
    """
    user = os.geteuid() if hasattr(os, "geteuid") else "user"
    try:
        path = Path(tempfile.gettempdir()).resolve() / f"{_NAME}-{user}"
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        problem = _distrust(path) if path.is_dir() else "it is not a folder"
        if problem is None:
            return path
        given = os.environ.get(_GIVEN)
        if given and Path(given).is_dir() and _distrust(Path(given)) is None:
            return Path(given)
        own = Path(tempfile.mkdtemp(prefix=f"{_NAME}-"))
    except OSError as error:
        log.warning("a folder for compiled code is missing (%s), so each process compiles again. Set SPARKCEP_CACHE_DIR to a folder", error)
        return _NOWHERE
    log.warning(
        "%s is not used for compiled code: %s. %s is used until this process ends, so each process compiles again. Set SPARKCEP_CACHE_DIR to a permanent folder",
        path, problem, own,
    )  # fmt: skip
    os.environ[_GIVEN] = str(own)  # for processes that this one starts
    atexit.register(_remove, own, os.getpid())
    return own


def _remove(folder: Path, maker: int) -> None:
    if os.getpid() == maker:  # not in a fork
        shutil.rmtree(folder, ignore_errors=True)
