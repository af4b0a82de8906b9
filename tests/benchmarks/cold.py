"""The first query of a fresh session against the same session's second one, beyond what a trivial mapInArrow shows.

``python -m tests.benchmarks.cold NAME FOLDER`` is one such session: what ``run`` starts.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import pyarrow.parquet as pq

from .data import ticks
from .query import FLOOR, NEARLY, THREE_STEPS, SETTINGS, V, noop, session

ROWS, SYMBOLS = 10_000, 100
QUERIES = {"V pattern": V, "three steps, skip till next": THREE_STEPS, "five letters, two errors": NEARLY}
CONTROL, SORTED = "mapInArrow", "exchange, sort, mapInArrow"
GOAL = 1.0  # seconds


def _same(batches):
    yield from batches


def measure(name: str, folder: str) -> list[float]:
    """Seconds of the first query and of two more, in a session started here."""
    if name in QUERIES:
        spark = session()
        query = lambda: spark.sql(QUERIES[name])  # noqa: E731
    else:
        from pyspark.sql import SparkSession

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder
        for key, value in SETTINGS.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()

        def query():
            frame = spark.table("ticks") if name == CONTROL else spark.sql(FLOOR.format(more=""))
            return frame.mapInArrow(_same, frame.schema)

    spark.read.parquet(f"{folder}/ticks.parquet").createOrReplaceTempView("ticks")
    times = []
    for _ in range(3):
        start = time.perf_counter()
        noop(query())
        times.append(time.perf_counter() - start)
    spark.stop()
    return times


def run(repeats: int = 5) -> dict:
    """Fresh processes in turn; one round ahead of them compiles kernels that are not on disk yet, and counts nothing."""
    names = (CONTROL, SORTED, *QUERIES)
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(ticks(ROWS, SYMBOLS), f"{folder}/ticks.parquet")
        for i in range(repeats + 1):
            for name in names:
                command = [sys.executable, "-m", "tests.benchmarks.cold", name, folder]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                if i:
                    found[name].append(json.loads(done.stdout.splitlines()[-1]))
    extra = {name: statistics.median(first - second for first, second, _ in runs) for name, runs in found.items()}
    print(f"\nFirst query of a fresh session, local[2], {ROWS:,} rows, medians of {repeats} processes")
    for name, runs in found.items():
        first, second, third = (statistics.median(times) for times in zip(*runs))
        line = f"{name:<32} first {first:6.2f} s   second {second:5.2f}   third {third:5.2f}   first - second {extra[name]:6.2f}"
        print(line + (f"   beyond {CONTROL} {extra[name] - extra[CONTROL]:6.2f} (goal at most {GOAL:.2f})" if name in QUERIES else ""))
    return {"seconds": found, "beyond": {name: extra[name] - extra[CONTROL] for name in QUERIES}}


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
