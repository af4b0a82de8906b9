"""Python processes that sparkcep starts beside this one. They import nothing from the current folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def python(*arguments: str) -> list[str]:
    """The command that runs this Python with ``arguments``. ``-P``: a ``json.py`` in the current folder is not imported."""
    return [sys.executable, "-P", *arguments]


def environment() -> dict[str, str]:
    """This process's variables, so that the other one finds the packages that this one has. The current folder is one of their
    places only if sparkcep itself lies there."""
    own = Path(__file__).resolve().parents[1]
    places = [path for path in sys.path if path and (Path(path).resolve() != Path.cwd() or Path(path).resolve() == own)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(places)}
