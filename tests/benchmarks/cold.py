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

import sparkcep
from sparkcep.spark.session import warm_up

from .data import ticks
from .processes import used
from .query import FLOOR, NEARLY, SETTINGS, THREE_STEPS, V, noop

ROWS, SYMBOLS = 10_000, 100
# name: query, whether its user waits until workers are warm (a second or two after ``enable``; the others ask at once)
QUERIES = {
    "V pattern": (V, True),
    "V pattern, at once": (V, False),
    "three steps, skip till next": (THREE_STEPS, True),
    "five letters, two errors": (NEARLY, True),
}
CONTROL, SORTED = "mapInArrow", "exchange, sort, mapInArrow"
GOAL = 1.0  # seconds


def _same(batches):
    yield from batches


def measure(name: str, folder: str) -> list[tuple[float, float]]:
    """(seconds, seconds of processor time) of the first query and of two more, in a session started here."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.config("spark.log.level", "ERROR")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if name in QUERIES:
        text, warm = QUERIES[name]
        sparkcep.enable(spark)
        if warm:
            warm_up.wait(spark)

    def query():
        if name in QUERIES:
            return spark.sql(text)
        frame = spark.table("ticks") if name == CONTROL else spark.sql(FLOOR.format(more=""))
        return frame.mapInArrow(_same, frame.schema)

    spark.read.parquet(f"{folder}/ticks.parquet").createOrReplaceTempView("ticks")
    times = []
    for _ in range(3):
        start, used = time.perf_counter(), _processor_seconds()
        noop(query())
        times.append((time.perf_counter() - start, _processor_seconds() - used))
    spark.stop()
    return times


def _processor_seconds() -> float:
    """Of this process and of all it started; 0 where there is no /proc."""
    return sum(used(os.getpid()).values())


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
    beyond = {}
    print(f"\nFirst query of a fresh session, local[2], {ROWS:,} rows, medians of {repeats} processes")
    for what, which in (("seconds", 0), ("seconds of processor time", 1)):
        print(what)
        extra = {name: statistics.median(first[which] - second[which] for first, second, _ in runs) for name, runs in found.items()}
        for name, runs in found.items():
            first, second, third = (statistics.median(times) for times in zip(*([query[which] for query in run] for run in runs)))
            line = f"  {name:<30} first {first:6.2f}   second {second:5.2f}   third {third:5.2f}   first - second {extra[name]:6.2f}"
            print(line + (f"   beyond {CONTROL} {extra[name] - extra[CONTROL]:6.2f} (goal at most {GOAL:.2f})" if name in QUERIES else ""))
        beyond[what] = {name: extra[name] - extra[CONTROL] for name in QUERIES}
    return {"runs": found, "beyond": beyond}


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
