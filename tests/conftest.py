"""One Spark session for all tests of a process: starting one costs seconds. A file's tests run in one process (pytest-xdist, ``--dist loadfile``)."""

from __future__ import annotations

import os
import sys

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A small local session whose ``sql`` understands MATCH_RECOGNIZE."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    sql = pytest.importorskip("pyspark.sql")
    import sparkcep

    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.ui.enabled": "false",
    }
    builder = sql.SparkSession.builder.master("local[2]").appName("sparkcep-tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    sparkcep.enable(session)
    yield session
    session.stop()
