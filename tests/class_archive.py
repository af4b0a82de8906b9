"""``python -m tests.class_archive FILE``: an archive of the classes that a session of Spark loads, for the JVMs that tests start.

Java reads classes from it (class data sharing, JEP 350) and neither loads nor checks them. A session then starts with half the
processor time. ``tests/conftest.py`` takes the file that SPARKCEP_TESTS_CLASSES names.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

import sparkcep
from tests.conftest import JAVA

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CLAUSE = """SELECT * FROM {rows} MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY at MEASURES count(*) AS n, avg(v) AS a PATTERN (A B+) WINDOW INTERVAL '1' MINUTE DEFINE B AS v > PREV(v))"""


def write(archive: Path) -> None:
    """Runs statements over a table and a stream, and has the JVM write the archive when it ends."""
    os.environ["SPARK_SUBMIT_OPTS"] = f"{JAVA} -XX:ArchiveClassesAtExit={archive}"
    with tempfile.TemporaryDirectory() as folder:
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
        builder = builder.config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        spark = sparkcep.enable(builder.config("spark.sql.warehouse.dir", folder).getOrCreate(), warm=False)
        rows = "SELECT id % 2 AS k, timestamp_seconds(id) AS at, id % 5 AS v FROM range(100)"
        spark.sql(rows).write.parquet(f"{folder}/rows")
        spark.read.parquet(f"{folder}/rows").createOrReplaceTempView("rows")
        spark.sql(f"SELECT k, sum(n) FROM ({CLAUSE.format(rows='rows')}) GROUP BY k ORDER BY k").collect()
        schema = spark.table("rows").schema
        spark.readStream.schema(schema).parquet(f"{folder}/rows").withWatermark("at", "1 minute").createOrReplaceTempView("stream")
        query = spark.sql(CLAUSE.format(rows="stream")).writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint")
        query.trigger(availableNow=True).start().awaitTermination()
        gateway = SparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
    if not archive.exists():
        raise SystemExit("Java wrote no archive")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
