"""Starts a Spark session on this machine where there is none."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sparkcep.spark.java import require_java
from sparkcep.spark.session import enable
from sparkcep.spark.warming import DAEMON_KEY, DAEMON_MODULE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_spark(name: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A local session in which the clause is enabled and Spark logs errors only. ``settings`` are added to Spark's own. Raises
    JavaNotFoundError."""
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Spark says which of the machine's names it uses
    # of pandas on Spark, which is not used here
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[*]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(2 * (os.cpu_count() or 2)))
        .config("spark.ui.showConsoleProgress", "false")
    )
    if os.name == "posix":
        builder = builder.config(DAEMON_KEY, DAEMON_MODULE)
    if "log4j2.configurationFile" not in os.environ.get("PYSPARK_SUBMIT_ARGS", ""):
        builder = builder.config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}")
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    return enable(builder.getOrCreate(), warm=False)  # the first query comes at once, or none does
