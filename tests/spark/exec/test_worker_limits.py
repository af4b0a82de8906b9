"""The planner refuses a clause whose Python workers could not hold the engine, before any job."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException  # noqa: E402

STATEMENT = "SELECT * FROM VALUES (1, 5), (2, 3), (3, 4) AS t(i, v) MATCH_RECOGNIZE (ORDER BY i MEASURES LAST(B.i) AS b PATTERN (A B) DEFINE B AS v > PREV(v))"


def test_too_little_memory_for_workers(spark):
    conf = spark.sparkContext._jsc.sc().conf()  # of the running application, as executors' workers get it
    conf.set("spark.executor.pyspark.memory", "1g").set("spark.executor.cores", "2")
    try:
        with pytest.raises(PySparkException, match=r"leaves 512 MB .* Set spark.executor.pyspark.memory=1536m or more, 768 MB for each of the 2 cores") as caught:
            spark.sql(STATEMENT).collect()
        assert caught.value.getCondition() == "SPARKCEP.SETTING"
        conf.set("spark.executor.cores", "1")
        assert [tuple(row) for row in spark.sql(STATEMENT).collect()] == [(3,)]
    finally:
        conf.remove("spark.executor.pyspark.memory")
        conf.remove("spark.executor.cores")
