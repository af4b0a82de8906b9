"""How a session reaches Spark: by Py4J, in this process's JVM, or by Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSION = "org.sparkcep.SparkcepExtensions"


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect, which has no JVM of its own."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def on_server(session: SparkSession) -> bool:
    """Whether a Connect server has the JVM extension."""
    from pyspark.errors import PySparkException

    try:
        return EXTENSION in (session.conf.get("spark.sql.extensions", "") or "")
    except PySparkException as error:
        if error.getCondition() != "CONFIG_NOT_AVAILABLE":
            raise
        return False
