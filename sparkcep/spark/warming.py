"""Python workers that are warm before the first query: in a local session, in a thread, while its user does something else.

One small statement with the clause starts the daemon of Python workers, loads the engine's kernels and the classes Spark needs for such a query. What it does
the first query would have to do; if it fails, the first query does it, and the log says so. ``sparkcep.warm = false`` leaves it out.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("sparkcep")

KEY = "sparkcep.warm"
DAEMON_MODULE, DAEMON_KEY = "sparkcep.spark.daemon", "spark.python.daemon.module"
DESCRIPTION = "sparkcep: Python workers start"
_STATEMENT = """SELECT * FROM (SELECT id DIV 2 AS k, id AS t, CAST(id AS DOUBLE) AS v FROM range(4)) MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY t MEASURES FIRST(t) AS f, LAST(v) AS l PATTERN (A B+) DEFINE B AS v > PREV(v) AND v > 0)"""

_threads: dict[str, threading.Thread] = {}  # by application id


def warm(spark: SparkSession) -> threading.Thread | None:
    """Begins, once an application, and returns the thread; None where there is nothing to do: the session is not a local one, its workers
    run another Python, or it wants none of this."""
    context = spark.sparkContext
    wanted = spark.conf.get(KEY, "true").strip().lower() != "false"
    if not wanted or not context.master.startswith("local") or context.pythonExec != sys.executable or context.applicationId in _threads:
        return None
    thread = threading.Thread(target=_warm, args=(spark,), name="sparkcep-warming", daemon=True)
    _threads[context.applicationId] = thread
    thread.start()
    return thread


def wait(spark: SparkSession, seconds: float | None = None) -> None:
    """Returns when the warming of the session's application is done, or ``seconds`` are over."""
    thread = _threads.get(spark.sparkContext.applicationId)
    if thread is not None:
        thread.join(seconds)


def _warm(spark: SparkSession) -> None:
    try:
        _choose_daemon(spark)
        if not _compiled():
            return  # a query of the user's may compile for a minute, and says so
        spark.sparkContext.setJobDescription(DESCRIPTION)
        spark.sql(_STATEMENT).write.format("noop").mode("overwrite").save()
    except Exception as error:  # whatever it is, the session works without
        log.info("Python workers could not be warmed; the first query starts them: %s: %s", type(error).__name__, str(error).partition("\n")[0])


def _compiled() -> bool:
    from sparkcep.compiling import load_first

    return load_first()


def _choose_daemon(spark: SparkSession) -> None:
    """Workers come from our daemon, unless the user chose one, or it would not start: then no Python function would run in this session."""
    configuration = spark.sparkContext._jsc.sc().conf()
    if configuration.contains(DAEMON_KEY) or os.name != "posix":
        return
    folder = spark._jvm.java.lang.System.getProperty("user.dir")
    done = subprocess.run([sys.executable, "-c", f"import {DAEMON_MODULE}"], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        log.info("Python workers start without the engine, which is not on their path: %s", done.stderr.strip().rpartition("\n")[2])
        return
    configuration.set(DAEMON_KEY, DAEMON_MODULE)
