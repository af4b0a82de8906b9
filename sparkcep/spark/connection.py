"""How a session reaches Spark: by Py4J, in this process's JVM, or by Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect, which has no JVM of its own."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")
