"""Warms Python workers before the first query. In a local session a thread does so while its user does something else.

One small job starts the daemon of Python workers, which loads the engine. One small statement with the clause then loads the
classes that Spark needs for such a query, and has the kernels compiled that most clauses need. The first query would have to do the
same. If it comes meanwhile, the statement is left out; if one of them fails, the first query does its work, and the log says so.
``sparkcep.warm = false`` leaves all of it out.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from sparkcep.spark.configured import setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("sparkcep")

KEY = "sparkcep.warm"
DAEMON_MODULE, DAEMON_KEY = "sparkcep.spark.daemon", "spark.python.daemon.module"
DESCRIPTION = "sparkcep: Python workers start"
_STATEMENT = """SELECT * FROM (SELECT id DIV 2 AS k, id AS t, CAST(id AS DOUBLE) AS v FROM range(4)) MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY t MEASURES FIRST(t) AS f, LAST(v) AS l PATTERN (A B+) DEFINE B AS v > PREV(v) AND v > 0)"""


class _Warming(NamedTuple):
    thread: threading.Thread
    asked: threading.Event  # a statement of the user's has come


_begun: dict[str, _Warming] = {}  # by application id


def warm(spark: SparkSession, pythons: Iterable[str] = ()) -> threading.Thread | None:
    """Begins to warm, once an application, and returns the thread. Returns None where there is nothing to do: the session is not a
    local one, its workers run another Python, or ``sparkcep.warm`` is false.

    ``pythons``: those that functions of the session may ask for, beside the one of its workers.
    """
    context = spark.sparkContext
    wanted = (setting(spark, KEY) or "true").strip().lower() != "false"
    if not wanted or not context.master.startswith("local") or context.pythonExec != sys.executable or context.applicationId in _begun:
        return None
    asked = threading.Event()
    thread = threading.Thread(target=_warm, args=(spark, asked, {*pythons, context.pythonExec}), name="sparkcep-warming", daemon=True)
    _begun[context.applicationId] = _Warming(thread, asked)
    thread.start()
    return thread


def asked(spark: SparkSession) -> None:
    """Notes that a statement of the user's has come. It warms itself what is not warm yet."""
    begun = _begun.get(spark.sparkContext.applicationId)
    if begun is not None and threading.current_thread() is not begun.thread:
        begun.asked.set()


def wait(spark: SparkSession, seconds: float | None = None) -> None:
    """Waits until the warming of the session's application is done, or ``seconds`` are over."""
    begun = _begun.get(spark.sparkContext.applicationId)
    if begun is not None:
        begun.thread.join(seconds)


def _warm(spark: SparkSession, asked: threading.Event, pythons: Iterable[str]) -> None:
    try:
        _choose_daemon(spark, pythons)
        spark.sparkContext.setJobDescription(DESCRIPTION)
        _start_daemon(spark)
        if asked.is_set():
            return
        spark.sql(_STATEMENT).write.format("noop").mode("overwrite").save()
    except Exception as error:  # whatever it is, the session works without
        log.info("Python workers could not be warmed; the first query starts them: %s: %s", type(error).__name__, str(error).partition("\n")[0])


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def _start_daemon(spark: SparkSession) -> None:
    """Starts the daemon by a job of the kind that runs the engine, because Spark keeps a daemon for each kind's environment.

    DataFrame.mapInArrow would warn of the version of pandas.
    """
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    same = UserDefinedFunction(_same, "id LONG", evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    spark.range(0, 1, 1, 1)._jdf.mapInArrow(same("id")._jc, False, None).collectToPython()


def _choose_daemon(spark: SparkSession, pythons: Iterable[str]) -> None:
    """Forks workers from our daemon, unless the user chose one.

    The setting is for all Python functions of the JVM. Those made before ``enable`` may ask for another Python (``python3`` of the
    PATH). If one of the Pythons does not find our daemon, its functions would fail, so PySpark's daemon stays for all.
    """
    configuration = spark.sparkContext._jsc.sc().conf()
    if configuration.contains(DAEMON_KEY) or os.name != "posix":
        return
    system = spark._jvm.java.lang.System  # the JVM starts the daemon: in its folder, with its environment
    folder, environment = system.getProperty("user.dir"), dict(system.getenv())
    for python in pythons:
        if problem := _missing_daemon(python, folder, environment):
            warning = "Python workers start without the engine, because %s does not find it (%s); PYSPARK_PYTHON=%s starts them with it"
            log.info(warning, python, problem, sys.executable)
            return
    configuration.set(DAEMON_KEY, DAEMON_MODULE)


def _missing_daemon(python: str, folder: str, environment: dict[str, str]) -> str:
    """Returns why ``python`` cannot start our daemon, in words; "" if it can."""
    found = shutil.which(python, path=environment.get("PATH"))
    if found is None:
        return "no such program"
    done = subprocess.run([found, "-P", "-c", f"import {DAEMON_MODULE}"], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""
