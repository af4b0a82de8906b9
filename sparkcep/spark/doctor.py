"""Looks at what sparkcep needs on this machine, and says what to do where something is missing."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

from sparkcep import storage
from sparkcep.errors import ToolError
from sparkcep.spark.java import find_java_tool, require_java

_JAVA = 17  # the oldest that Spark 4 runs on
_LIBRARIES = ("pyspark", "pyarrow", "numba", "llvmlite", "numpy", "pandas", "sqlglot")
_STATEMENT = """SELECT n FROM VALUES (1, 3), (2, 2), (3, 4) AS t(ts, v)
  MATCH_RECOGNIZE (ORDER BY ts MEASURES count(*) AS n PATTERN (A B+) DEFINE B AS v > PREV(v) OR v < A.v)"""


class Finding(NamedTuple):
    """What was looked at, what was found, and what to do if that is not ``good``."""

    what: str
    found: str
    good: bool = True
    advice: str = ""

    def __str__(self) -> str:
        line = f"{'ok  ' if self.good else 'MEND'}  {self.what:<12}{self.found}"
        return f"{line}\n{'':<18}{self.advice}" if self.advice else line


def examined() -> Iterator[Finding]:
    """The findings, one after the other; the last one runs a statement."""
    yield Finding("Python", f"{sys.version.split()[0]}, {sys.executable}")
    java = _java()
    yield java
    yield _compiler()
    yield from _libraries()
    yield _folder()
    yield _kernels()
    yield _statement() if java.good else Finding("a statement", "not run: there is no Java", good=False)


def _java() -> Finding:
    try:
        path = require_java()
    except ToolError as error:
        return Finding("Java", "none", good=False, advice=str(error))
    said = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)[^"]*"', said.stderr + said.stdout)
    if found is None:
        return Finding("Java", f"{path}: its version cannot be read", good=False, advice=(said.stderr or said.stdout).strip())
    advice = "" if int(found[1]) >= _JAVA else f"Spark 4 needs Java {_JAVA} or newer: set JAVA_HOME to one"
    return Finding("Java", f"{found[0].removeprefix('version ')}, {path}", not advice, advice)


def _compiler() -> Finding:
    path = find_java_tool("javac")
    advice = "" if path else "without it spark.sql, frames and notebooks work; spark-sql, thriftserver, dbt and fewer columns shipped need a JDK once"
    return Finding("javac", str(path or "none"), advice=advice)


def _libraries() -> Iterator[Finding]:
    """The libraries in the versions that the package asks for."""
    from packaging.requirements import Requirement

    wanted = {r.name: r.specifier for r in map(Requirement, metadata.requires("sparkcep") or ()) if r.marker is None}
    for name in _LIBRARIES:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Finding(name, "none", good=False, advice=f"pip install '{name}{wanted.get(name, '')}'")
            continue
        fits = name not in wanted or wanted[name].contains(version, prereleases=True)
        yield Finding(name, version, fits, "" if fits else f"pip install '{name}{wanted[name]}'")


def _folder() -> Finding:
    """The folder for what is compiled."""
    wanted = storage.cache_root()
    places = storage.places(wanted)
    if wanted is not None and places[-1] == wanted.resolve():
        return Finding("cache", f"{wanted}, can be written")
    advice = "what is compiled there is gone when the folder is; SPARKCEP_CACHE_DIR names a folder that is yours and nobody else's to write"
    return Finding("cache", f"{places[-1]}, in place of {wanted or 'one in the home folder'}", good=False, advice=advice)


def _kernels() -> Finding:
    from sparkcep.precompile import load_first

    there = load_first()
    advice = "" if there else "they are compiled in the background when they are needed, or now, by `sparkcep compile`"
    return Finding("kernels", "compiled" if there else "not compiled yet", advice=advice)


def _statement() -> Finding:
    try:
        found = _run()
    except Exception as error:  # whatever is wrong with this machine is what is asked for
        return Finding("a statement", f"{type(error).__name__}: {str(error).splitlines()[0]}", good=False, advice="docs/troubleshooting.md has the usual causes")
    return Finding("a statement", "runs", found == 3, "" if found == 3 else f"it gives {found} rows in place of 3")


def _run() -> int:
    from sparkcep.spark.local import start_spark

    spark = start_spark("sparkcep doctor")
    try:
        return int(spark.sql(_STATEMENT).first().n)
    finally:
        spark.stop()
