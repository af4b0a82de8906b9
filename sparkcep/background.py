"""Compiles the kernels that other processes asked for (:mod:`sparkcep.kernels.jit.background`), and ends when no request is left.

``python -m sparkcep.background FOLDER`` is one such process. ``--with-asker`` ends it when its standard input ends, as that does
with the process that started it.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import threading
import time
from pathlib import Path

from sparkcep.kernels.jit import background

log = logging.getLogger("sparkcep")

_LOOK_SECONDS = 0.2
_NICENESS = 5


def main(folder: Path, with_asker: bool = False) -> None:
    """Takes a place among the processes at work, if one is free, and serves requests."""
    os.nice(_NICENESS)  # what users wait for comes first
    if with_asker:
        threading.Thread(target=_end_with_input, name="sparkcep-asker", daemon=True).start()
    while background.waiting(folder):
        with background.slot(folder, one=with_asker) as at_work:
            if not at_work or not _serve(folder):
                return  # behind a request that comes now another process is started


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)  # a lock ends with its process, and the request stays for the next one


def _serve(folder: Path) -> bool:
    """Compiles until nothing of this installation's is left; whether anything was."""
    served = False
    while True:
        own = [(path, request) for path, request in background.waiting(folder) if _is_own(request)]
        if not own:
            return served
        taken = next((entry for entry in own if background.locks.free(entry[0])), None)
        if taken is None:
            time.sleep(_LOOK_SECONDS)  # others compile what is left
            continue
        path, request = taken
        try:
            _compile(request)
        except Exception as error:  # whoever needs the kernel compiles it itself then, and shows the error
            log.warning("the kernel %s of %s could not be compiled: %s: %s", request.name, request.module, type(error).__name__, error)
        finally:
            path.unlink(missing_ok=True)
            background.locks.give(path)
        served = True


def _is_own(request: background.Request) -> bool:
    """Whether the kernel is this installation's."""
    from sparkcep.kernels.jit import cache

    try:
        importlib.import_module(request.module)
    except ImportError:
        return False
    return cache.digest(request.module) == request.digest


def _compile(request: background.Request) -> None:
    from sparkcep.kernels.jit import signatures

    kernel = getattr(importlib.import_module(request.module), request.name)
    kernel.compile(signatures.read(request.types))


if __name__ == "__main__":
    main(Path(sys.argv[1]), background.WITH_ASKER in sys.argv[2:])
