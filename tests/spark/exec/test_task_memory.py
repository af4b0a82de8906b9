"""Blocks of columns, and the exchange that collects them, within the memory of a task."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import sparkcep  # noqa: E402
from tests.spark.programs import environment, needs_javac  # noqa: E402

pytestmark = [needs_javac, pytest.mark.process]

# A task has 8 MB. With more than 200 target partitions, Spark's exchange collects blocks in memory of the task. Three keys give
# large blocks, so nearly each width of rows would leave too little.
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
import sparkcep
settings = {"spark.master": "local[1]", "spark.testing.reservedMemory": "0", "spark.testing.memory": str(8 << 20), "spark.memory.fraction": "1.0", "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "201", "spark.log.level": "OFF", "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1"}
builder = SparkSession.builder
for key, value in settings.items():
    builder = builder.config(key, value)
spark = sparkcep.enable(builder.getOrCreate(), warm=False)
for width in json.loads(sys.argv[1]):
    bytes_of_rows = ", ".join(f"CAST(id % {7 + i} AS TINYINT) AS b{i}" for i in range(width))
    spark.sql(f"CREATE OR REPLACE TEMP VIEW t AS SELECT id % 3 AS k, id, {bytes_of_rows} FROM range(0, 300000, 1, 2)")
    last = ", ".join(f"LAST(b{i}) AS b{i}" for i in range(width))
    clause = f"MATCH_RECOGNIZE (PARTITION BY k ORDER BY id MEASURES count(*) AS n, {last} PATTERN (A+))"
    try:
        found = spark.sql(f"SELECT count(*), sum(n), {', '.join(f'max(b{i})' for i in range(width))} FROM t {clause}").first()
        print(json.dumps([found[0], found[1], len(found)]), flush=True)
    except Exception as error:
        print(json.dumps(str(error)[:800]), flush=True)
"""


def test_rows_of_any_width_leave_memory_for_the_exchange(tmp_path):
    widths = [26, 30]
    variables = environment(PYTHONPATH=str(Path(sparkcep.__file__).parents[1]), PYSPARK_PYTHON=sys.executable)
    done = subprocess.run([sys.executable, "-c", PROGRAM, json.dumps(widths)], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=500)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[3, 300000, 2 + width] for width in widths], done.stderr[-3000:]
