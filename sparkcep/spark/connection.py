"""How a session reaches Spark: through Py4J to this process's JVM, or through Spark Connect.

Modules of ``spark`` and ``notebook`` that treat the two kinds of session differently use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSION = "org.sparkcep.SparkcepExtensions"


def is_connect(spark: SparkSession) -> bool:
    """Whether this is a Spark Connect session, whose JVM is not reachable through Py4J."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


@contextmanager
def where_available() -> Iterator[None]:
    """Ends its scope early if the platform does not make a setting available, like Databricks serverless compute."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if error.getCondition() != "CONFIG_NOT_AVAILABLE":
            raise


@contextmanager
def set_within(session: SparkSession, key: str, value: str) -> Iterator[None]:
    """Changes a setting of the session in its scope."""
    before = session.conf.get(key, None)
    session.conf.set(key, value)
    try:
        yield
    finally:
        session.conf.unset(key) if before is None else session.conf.set(key, before)


def on_server(session: SparkSession) -> bool:
    """Whether a Connect server has the JVM extension."""
    with where_available():
        return EXTENSION in (session.conf.get("spark.sql.extensions", "") or "")
    return False
