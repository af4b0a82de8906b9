"""Warms Python workers before the first query. In a local session a thread does so while its user does something else.

One small job starts the daemon of Python workers, which loads the engine. One small statement with the clause then loads the
classes that Spark needs for such a query, and has the kernels compiled that most clauses need. The first query would have to do the
same. If it comes meanwhile, the statement is left out; if one of them fails, the first query does its work, and the log says so.
``sparkcep.warm = false`` leaves all of it out.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

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


def warm(spark: SparkSession) -> threading.Thread | None:
    """Begins to warm, once an application, and returns the thread. Returns None where there is nothing to do: the session is not a
    local one, its workers run another Python, or ``sparkcep.warm`` is false."""
    context = spark.sparkContext
    wanted = spark.conf.get(KEY, "true").strip().lower() != "false"
    if not wanted or not context.master.startswith("local") or context.pythonExec != sys.executable or context.applicationId in _begun:
        return None
    asked = threading.Event()
    thread = threading.Thread(target=_warm, args=(spark, asked), name="sparkcep-warming", daemon=True)
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


def _warm(spark: SparkSession, asked: threading.Event) -> None:
    try:
        _choose_daemon(spark)
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


def _choose_daemon(spark: SparkSession) -> None:
    """Lets workers come from our daemon, unless the user chose one, or ours would not start: then no Python function would run in
    this session."""
    configuration = spark.sparkContext._jsc.sc().conf()
    if configuration.contains(DAEMON_KEY) or os.name != "posix":
        return
    folder = spark._jvm.java.lang.System.getProperty("user.dir")
    done = subprocess.run([sys.executable, "-c", f"import {DAEMON_MODULE}"], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        log.info("Python workers start without the engine, which is not on their path: %s", done.stderr.strip().rpartition("\n")[2])
        return
    configuration.set(DAEMON_KEY, DAEMON_MODULE)
