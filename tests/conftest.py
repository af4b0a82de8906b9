"""One Spark session for all tests: starting one costs seconds. The tests that need it run in one process, those that start programs of Spark's in another."""

from __future__ import annotations

import os
import sys

import pytest

PROGRAMS = {"test_connect", "test_dbt", "test_notebook", "test_shell", "test_thrift"}  # of tests/spark


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if "spark" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("session"))
        elif item.path.parent.name == "spark" and item.path.stem in PROGRAMS:
            item.add_marker(pytest.mark.xdist_group("programs"))


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
