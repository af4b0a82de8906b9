"""Starts a local Spark session if there is none.

Commands and notebooks use it.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sparkcep.spark.java import require_java
from sparkcep.spark.session import jvm_log
from sparkcep.spark.session.session import enable
from sparkcep.spark.session.warm_up import DAEMON_KEY, DAEMON_MODULE
from sparkcep.spark.versions import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_spark(name: str, settings: Mapping[str, str] | None = None, *, command: bool = False, verbose: bool = False) -> SparkSession:
    """Starts a local session with the clause enabled.

    Args:
        name: the application's name.
        settings: added to Spark's own.
        command: whether the session belongs to a command, whose standard output the JVM must not write to.
        verbose: whether Spark logs as it does by default; otherwise it logs errors only.

    Raises:
        JavaNotFoundError: Java is missing.
        SparkVersionError: the installed PySpark is not supported.
    """
    require_java()
    require_spark()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # otherwise Spark logs which of the machine's addresses it uses
    # The warning concerns pandas on Spark, which is not used here.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    chosen = {
        "spark.master": "local[*]",
        "spark.app.name": name,
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 2)),
        "spark.ui.showConsoleProgress": "false",
    }
    if os.name == "posix":
        chosen[DAEMON_KEY] = DAEMON_MODULE
    if not verbose and "log4j2.configurationFile" not in os.environ.get("PYSPARK_SUBMIT_ARGS", ""):
        chosen["spark.driver.extraJavaOptions"] = jvm_log.ERRORS_ONLY
    conf = SparkConf().setAll([*chosen.items(), *(settings or {}).items()])
    if command and not SparkContext._gateway:  # otherwise the session reuses the JVM that is running
        SparkContext(conf=conf, gateway=jvm_log.launch(conf, verbose))
    return enable(SparkSession.builder.config(conf=conf).getOrCreate(), warm=False)  # the first query comes at once, or never


def tasks(spark: SparkSession) -> str:
    """Returns the progress of the running stages, such as ``12 of 40 tasks``. Returns "" if none runs."""
    tracker = spark.sparkContext.statusTracker()
    stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number)) is not None]
    of = sum(stage.numTasks for stage in stages)
    return f"{sum(stage.numCompletedTasks for stage in stages)} of {of} tasks" if of else ""
