"""Finds Java. If there is none, says what to install.

Commands and ``spark/session/jar`` use it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from sparkcep.errors import ToolError

_WHAT_TO_DO = (
    "Spark 4 needs Java 17 or newer. Install a JDK (Debian/Ubuntu: apt install openjdk-17-jdk-headless; "
    "macOS: brew install openjdk@17; conda: conda install -c conda-forge openjdk=17) and put its `java` on PATH "
    "or set JAVA_HOME to its directory."
)


class JavaNotFoundError(ToolError, RuntimeError):
    """This machine lacks a usable Java. The message says what to install."""

    code = 3


def find_java_tool(name: str, java_home: str | None = None) -> Path | None:
    """Finds the executable ``name`` ('java', 'javac') in ``java_home``, $JAVA_HOME or PATH, in this order.

    Returns None if none has it.
    """
    folders = [str(Path(home) / "bin") for home in (java_home, os.environ.get("JAVA_HOME")) if home]
    return next((Path(found) for folder in (*folders, None) if (found := shutil.which(name, path=folder))), None)


def require_java() -> Path:
    """Returns the ``java`` that Spark will start. Raises JavaNotFoundError if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)  # if JAVA_HOME is set, Spark searches only there
    if found is None:
        nowhere = "No Java found: JAVA_HOME is not set, and `java` is not on PATH"
        wrong = f"JAVA_HOME is {home!r}, but it does not contain bin/java" if home else nowhere
        raise JavaNotFoundError(f"{wrong}. {_WHAT_TO_DO}")
    return Path(found)
