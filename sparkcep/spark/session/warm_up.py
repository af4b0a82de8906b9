"""Warms Python workers before the first query, in a background thread of a local session.

``enable`` starts it. One small job starts the daemon of Python workers, which loads the engine. One small statement with the clause
then loads the classes that Spark needs for such a query, and compiles the kernels that most clauses need. Otherwise the first query
would pay for both. If the first query comes earlier, the statement is skipped. If a step fails, the first query does its work, and
the failure is logged. ``sparkcep.warm = false`` turns warming off.
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
    asked: threading.Event  # set once the user has run a statement


_begun: dict[str, _Warming] = {}  # by application id


def warm(spark: SparkSession, pythons: Iterable[str] = ()) -> threading.Thread | None:
    """Starts warming in a thread, once per application, and returns the thread.

    Returns None if the session is not local, its workers run another Python, ``sparkcep.warm`` is false, or warming has started.
    The Pythons in ``pythons`` are those that functions of the session may use, in addition to that of its workers.
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
    """Records that the user has run a statement, so that warming need not run one."""
    begun = _begun.get(spark.sparkContext.applicationId)
    if begun is not None and threading.current_thread() is not begun.thread:
        begun.asked.set()


def wait(spark: SparkSession, seconds: float | None = None) -> None:
    """Waits until warming of the session's application has finished, at most ``seconds``."""
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
    except Exception as error:  # the session works without warming
        log.info("Python workers could not be started in advance; the first query starts them: %s: %s", type(error).__name__, str(error).partition("\n")[0])


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def _start_daemon(spark: SparkSession) -> None:
    """Starts the daemon with a job of the kind that runs the engine, because Spark keeps one daemon per environment.

    DataFrame.mapInArrow would warn about the version of pandas.
    """
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    same = UserDefinedFunction(_same, "id LONG", evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    spark.range(0, 1, 1, 1)._jdf.mapInArrow(same("id")._jc, False, None).collectToPython()


def _choose_daemon(spark: SparkSession, pythons: Iterable[str]) -> None:
    """Makes the JVM fork workers from sparkcep's daemon, unless the user chose a daemon.

    The setting applies to all Python functions of the JVM. Functions made before ``enable`` may use another Python (``python3`` on
    the PATH). They would fail if that Python did not find the daemon. So if any does not, PySpark's daemon stays for all.
    """
    configuration = spark.sparkContext._jsc.sc().conf()
    if configuration.contains(DAEMON_KEY) or os.name != "posix":
        return
    system = spark._jvm.java.lang.System  # the JVM starts the daemon in its own folder and environment
    folder, environment = system.getProperty("user.dir"), dict(system.getenv())
    for python in pythons:
        if problem := _missing_daemon(python, folder, environment):
            warning = "Python workers start without the engine, because %s does not find it (%s). Set PYSPARK_PYTHON=%s"
            log.info(warning, python, problem, sys.executable)
            return
    configuration.set(DAEMON_KEY, DAEMON_MODULE)


def _missing_daemon(python: str, folder: str, environment: dict[str, str]) -> str:
    """Says why ``python`` cannot start sparkcep's daemon. Returns "" if it can."""
    found = shutil.which(python, path=environment.get("PATH"))
    if found is None:
        return "no such program"
    done = subprocess.run([found, "-P", "-c", f"import {DAEMON_MODULE}"], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""
