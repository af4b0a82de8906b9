"""Diagnoses the installation: checks sparkcep's requirements on this machine or on executors, and says how to fix problems.

``sparkcep doctor`` prints its findings.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module, metadata
from importlib.util import find_spec
from types import FunctionType
from typing import TYPE_CHECKING, NamedTuple

import sparkcep
from sparkcep import storage
from sparkcep.errors import ToolError
from sparkcep.spark.java import find_java_tool, require_java
from sparkcep.spark.versions import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PYTHON = "spark.pyspark.python"
_JAVA = 17  # the oldest that Spark 4 runs on
_LIBRARIES = ("pyspark", "pyarrow", "numba", "llvmlite", "numpy", "pandas", "sqlglot")
_STATEMENT = """SELECT n FROM VALUES (1, 3), (2, 2), (3, 4) AS t(ts, v)
  MATCH_RECOGNIZE (ORDER BY ts MEASURES count(*) AS n PATTERN (A B+) DEFINE B AS v > PREV(v) OR v < A.v)"""


class Finding(NamedTuple):
    """The subject of a check, its result, and what to do if the result is not ``good``."""

    what: str
    found: str
    good: bool = True
    advice: str = ""

    def __str__(self) -> str:
        line = f"{'ok  ' if self.good else 'FIX '}  {self.what:<12}{self.found}"
        return f"{line}\n{'':<18}{self.advice}" if self.advice else line


def examined() -> Iterator[Finding]:
    """Yields the findings in order. The last one runs a statement."""
    yield Finding("Python", f"{sys.version.split()[0]}, {sys.executable}")
    java = _java()
    yield java
    yield _compiler()
    libraries = list(_libraries())
    yield from libraries
    yield _folder()
    yield _kernels()
    missing = [finding.what for finding in (java, *libraries) if not finding.good and finding.what in ("Java", "pyspark", "pyarrow", "pandas")]
    yield Finding("a statement", f"not run until {' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} fixed", good=False) if missing else _statement()


def of_executors(master: str, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yields findings about the executors of a cluster. The last one runs a statement there."""
    require_java()
    require_spark()
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    if _PYTHON in settings:
        os.environ["PYSPARK_PYTHON"] = settings[_PYTHON]  # PySpark only reads the setting if spark-submit starts the driver
    from pyspark.sql import SparkSession

    from sparkcep.spark.errors.exceptions import RAISED
    from sparkcep.spark.session.jvm_log import ERRORS_ONLY

    builder = SparkSession.builder.master(master).appName("sparkcep doctor").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.driver.extraJavaOptions", ERRORS_ONLY)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield Finding("driver", ", ".join(f"{name} {version}" for name, version in _seen().items() if name != "place"))
        try:
            yield from _executors(spark)
        except RAISED as error:
            yield _without_workers(error)
            return
        yield _statement_in(sparkcep.enable(spark, warm=False))
    finally:
        spark.stop()


def _without_workers(error: Exception) -> Finding:
    """Returns the finding if no Python function runs on the executors. Raises ``error`` if the package is not the cause."""
    from sparkcep.spark.errors.reword import clause_error

    known = clause_error(str(error))
    if known is None:
        raise error
    return Finding("executors", "no Python worker starts", good=False, advice=known.message)


def _executors(spark: SparkSession) -> Iterator[Finding]:
    """Yields one finding for each executor that a task reached."""
    here = _seen()
    look = FunctionType(_look.__code__, {"__builtins__": __builtins__}, "look")
    look.__module__ = "__main__"  # pickled as code, because executors may lack the package
    tasks = max(16, 4 * spark.sparkContext.defaultParallelism)
    # an RDD, because DataFrames need pandas and pyarrow there
    for host, executor, seen, problem in sorted(set(spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(look).collect())):
        there = dict(part.split(" ", 1) for part in seen.split("\n") if part)
        differ = [f"{name} {there.get(name, 'none')} there, {version} here" for name, version in here.items() if name != "place" and there.get(name) != version]
        advice = problem or ("; ".join(differ) + "; sparkcep, Python and PySpark must have the same versions on both sides, and the other packages should" if differ else "")
        if problem:
            advice += "; install the package there, or send it along: sparkcep pack"
        needed = all(there.get(name) == here[name] for name in ("sparkcep", "Python", "pyspark"))
        yield Finding(f"executor {executor}", f"{host}, sparkcep {there.get('sparkcep', 'none')} in {there.get('place', '-')}", not problem and needed, advice)


def _look(rows):
    """Yields the installed versions on an executor, as text. It is self-contained, because it is sent as code."""
    import os
    import platform
    import time
    from importlib import import_module, metadata

    list(rows)
    time.sleep(0.2)  # so that more than the first executor get tasks
    seen, problem = {"Python": ".".join(platform.python_version_tuple()[:2])}, ""
    for name in ("pyspark", "pyarrow", "pandas", "numba", "numpy"):
        try:
            seen[name] = import_module(name).__version__
        except ImportError:
            problem = problem or f"there is no {name}"
    try:
        package, table_function = import_module("sparkcep"), import_module("sparkcep.spark.exec.table_function")
        seen["sparkcep"], seen["place"] = package.__version__, os.path.dirname(package.__file__)
        del table_function  # imported only to check its dependencies
    except ImportError as error:
        problem = problem or str(error)
    except metadata.PackageNotFoundError as error:
        problem = problem or f"there is no {error}"
    text = "\n".join(f"{key} {value}" for key, value in seen.items())
    yield platform.node(), os.path.basename(os.getcwd()), text, problem


def _seen() -> dict[str, str]:
    """Returns this machine's versions, in the form of :func:`_look`."""
    (found,) = _look(())
    return dict(part.split(" ", 1) for part in found[2].split("\n"))


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
    advice = "" if path else "spark.sql, DataFrames and notebooks work without it; spark-sql, thriftserver, dbt and shipping fewer columns need a JDK once"
    return Finding("javac", str(path or "none"), advice=advice)


def _libraries() -> Iterator[Finding]:
    """Yields a finding for each library about the version that the package requires."""
    from packaging.requirements import Requirement

    asked = map(Requirement, metadata.requires("sparkcep") or ())
    wanted = {r.name: r.specifier for r in asked if r.marker is None or r.marker.evaluate({"extra": "spark"})}
    for name in _LIBRARIES:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            if name == "pyspark" and find_spec(name) is not None:  # a platform's own, which pip does not know
                yield Finding(name, f"{import_module(name).__version__}, of the platform")
                continue
            yield Finding(name, "none", good=False, advice=f"pip install '{name}{wanted.get(name, '')}'")
            continue
        fits = name not in wanted or wanted[name].contains(version, prereleases=True)
        yield Finding(name, version, fits, "" if fits else f"pip install '{name}{wanted[name]}'")


def _folder() -> Finding:
    """Checks the cache folder of compiled code."""
    wanted = storage.cache_root()
    places = storage.places(wanted)
    if wanted is not None and places[-1] == wanted.resolve():
        return Finding("cache", f"{wanted}, can be written")
    advice = "compiled code is lost when this folder is deleted. Set SPARKCEP_CACHE_DIR to a folder that only you can write to"
    return Finding("cache", f"{places[-1]}, instead of {wanted or 'a folder in the home directory'}", good=False, advice=advice)


def _kernels() -> Finding:
    from sparkcep.precompile import load_first

    there = load_first()
    advice = "" if there else "kernels are compiled in the background when a query needs them; `sparkcep compile` compiles them now"
    return Finding("kernels", "compiled" if there else "not compiled yet", advice=advice)


def _statement() -> Finding:
    from sparkcep.spark.session.local import start_spark

    spark = start_spark("sparkcep doctor", command=True)
    try:
        return _statement_in(spark)
    finally:
        spark.stop()


def _statement_in(spark: SparkSession) -> Finding:
    try:
        found = int(spark.sql(_STATEMENT).first().n)
    except Exception as error:  # any problem of this machine is a finding
        return Finding("a statement", f"{type(error).__name__}: {str(error).splitlines()[0]}", good=False, advice="docs/troubleshooting.md has the usual causes")
    return Finding("a statement", "runs", found == 3, "" if found == 3 else f"it gives {found} rows instead of 3")

