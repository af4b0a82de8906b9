"""How a session reaches Spark: through Py4J to this process's JVM, or through Spark Connect.

Modules of ``spark`` and ``notebook`` that treat the two kinds of session differently use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSION = "org.sparkcep.SparkcepExtensions"


def is_connect(spark: SparkSession) -> bool:
    """Whether this is a Spark Connect session, whose JVM is not reachable through Py4J."""
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
