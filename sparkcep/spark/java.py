"""Finds Java, and says what to install where there is none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_WHAT_TO_DO = (
    "Spark 4 needs Java 17 or newer. Install a JDK (Debian/Ubuntu: apt install openjdk-17-jdk-headless; "
    "macOS: brew install openjdk@17; conda: conda install -c conda-forge openjdk=17) and put its `java` on PATH "
    "or set JAVA_HOME to its directory."
)


class JavaNotFoundError(RuntimeError):
    """No usable Java on this machine; the message says what to install."""


def find_java_tool(name: str, java_home: str | None = None) -> Path | None:
    """The executable ``name`` ('java', 'javac') from ``java_home``, $JAVA_HOME or PATH, in this order."""
    for home in (java_home, os.environ.get("JAVA_HOME")):
        if home:
            found = shutil.which(name, path=str(Path(home) / "bin"))
            if found:
                return Path(found)
    found = shutil.which(name)
    return Path(found) if found else None


def require_java() -> Path:
    """The ``java`` that Spark will start; raises JavaNotFoundError if there is none."""
    home = os.environ.get("JAVA_HOME")
    if home:
        # Spark looks nowhere else when JAVA_HOME is set
        found = shutil.which("java", path=str(Path(home) / "bin"))
        if found is None:
            raise JavaNotFoundError(f"JAVA_HOME is {home!r}, but there is no bin/java in it. {_WHAT_TO_DO}")
        return Path(found)
    found = shutil.which("java")
    if found is None:
        raise JavaNotFoundError(f"No Java found: JAVA_HOME is not set and there is no `java` on PATH. {_WHAT_TO_DO}")
    return Path(found)
