"""Starts Python subprocesses that import nothing from the current folder.

Precompilation and the background compiler use it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def python(*arguments: str) -> list[str]:
    """Returns the command that runs this Python with ``arguments``. ``-P``: a ``json.py`` in the current folder is not imported."""
    return [sys.executable, "-P", *arguments]


def environment() -> dict[str, str]:
    """Returns this process's environment, so that the subprocess finds the packages that this process has.

    The current folder is on its path only if sparkcep itself lies there.
    """
    own = Path(__file__).resolve().parents[1]
    places = [path for path in sys.path if path and (Path(path).resolve() != Path.cwd() or Path(path).resolve() == own)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(places)}
