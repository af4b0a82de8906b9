"""Background compiler: compiles the kernels that other processes requested, and exits when no request is left.

:mod:`sparkcep.kernels.jit.background` writes the requests and starts ``python -m sparkcep.background FOLDER``. With
``--with-asker`` the process also exits when its standard input ends, that is, when the process that started it ends.
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
    """Serves requests if fewer background compilers than allowed are running; otherwise returns."""
    os.nice(_NICENESS)  # foreground work has priority
    if with_asker:
        threading.Thread(target=_end_with_input, name="sparkcep-asker", daemon=True).start()
    while background.waiting(folder):
        with background.slot(folder, one=with_asker) as at_work:
            if not at_work or not _serve(folder):
                return  # a later request starts another process


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)  # the process's locks end with it; its request stays for the next process


def _serve(folder: Path) -> bool:
    """Compiles until no request of this installation is left. Returns whether it compiled any."""
    served = False
    while True:
        own = [(path, request) for path, request in background.waiting(folder) if _is_own(request)]
        if not own:
            return served
        taken = next((entry for entry in own if background.locks.free(entry[0])), None)
        if taken is None:
            time.sleep(_LOOK_SECONDS)  # other processes compile the remaining kernels
            continue
        path, request = taken
        try:
            _compile(request)
        except Exception as error:  # the process that needs the kernel compiles it itself and reports the error
            log.warning("the kernel %s of %s could not be compiled: %s: %s", request.name, request.module, type(error).__name__, error)
        finally:
            path.unlink(missing_ok=True)
            background.locks.give(path)
        served = True


def _is_own(request: background.Request) -> bool:
    """Whether the kernel belongs to this installation."""
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
