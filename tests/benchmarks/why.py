"""sparkcep.why: time and memory of a trace over one partition without Spark, and of the questions over many rows with Spark.

    python -m tests.benchmarks why --rows 2000000
    python -m tests.benchmarks.why V 10000 row    (one traced partition, in this process)
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import time

from sparkcep.settings import DEFAULT
from sparkcep.tracing.answers.answer import Why
from sparkcep.tracing.answers.explain import Asked, explain
from sparkcep.tracing.answers.hints import Totals
from sparkcep.tracing.answers.overall import overall
from sparkcep.tracing.rows.frozen import FrozenRows
from tests.support.why_examples import frozen, question, totals

ROWS = 10_000  # of a traced partition
KEYS = 1_000
CLAUSES = {
    "V": "PATTERN (STRT DOWN{2,} UP) DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)",
    "A+ B, no B": "PATTERN (A+ B) DEFINE A AS price >= 0, B AS price > 1000",
    "A+ B, no B, of the match": "PATTERN (A+ B) DEFINE A AS price >= 0, B AS price > 1000 + count(A.*)",
}


def partition(clause: str, rows: int) -> FrozenRows:
    """A partition of random prices. sqlite computes its columns."""
    rng = random.Random(1)
    return frozen(question(f"ORDER BY day {clause}"), ["day", "price"], [(day, rng.randrange(100)) for day in range(rows)], "day")


def traced(name: str, rows: int, about: str) -> dict[str, object]:
    """Seconds of processor time and MB of this process, for the question about the last "row" or about the "table"."""

    def answer(part: FrozenRows, counted: Totals) -> Why:
        return explain(part, Asked((part.count - 1,))) if about == "row" else overall([part], counted, DEFAULT, words={})

    warm = partition(CLAUSES[name], 20)
    answer(warm, totals(warm))
    part = partition(CLAUSES[name], rows)
    counted, before = totals(part), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    begin = time.process_time()
    why = answer(part, counted)
    end = time.process_time()
    assert why.verified
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"seconds": end - begin, "before": before, "peak": peak, "effort": any(reason.reason == "EFFORT" for reason in why.reasons)}


def run(rows: int) -> dict[str, object]:
    """Both parts. Prints a line for each measurement."""
    results: dict[str, object] = {}
    for name, size in ((name, size) for name in CLAUSES for size in ((300, ROWS) if name.endswith("of the match") else (ROWS,))):
        for about in ("row", "table"):
            command = [sys.executable, "-m", "tests.benchmarks.why", name, str(size), about]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            end = ", EFFORT" if found["effort"] else ""
            print(f"why, {size:,} rows, {name}, a {about}: {found['seconds']:.1f} s, {found['peak']} MB (before: {found['before']} MB){end}", flush=True)
            results[f"{name}, {size:,} rows, {about}"] = found
    results["spark"] = over_spark(rows)
    return results


def over_spark(rows: int) -> dict[str, float]:
    """Seconds of each question over rows of many keys, beside the query and beside the read of its input."""
    from pyspark.sql import SparkSession

    import sparkcep

    spark = sparkcep.enable(SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2").getOrCreate())
    try:
        spark.range(rows).selectExpr(f"CAST(id % {KEYS} AS INT) AS k", f"CAST(id DIV {KEYS} AS INT) AS day", "CAST(pmod(xxhash64(id), 100) AS INT) AS price").createOrReplaceTempView("made")
        spark.sql("CACHE TABLE ticks AS SELECT * FROM made")
        clause = f"SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY k ORDER BY day MEASURES LAST(day) AS last {CLAUSES['V']})"
        jobs = spark.sparkContext.statusTracker()
        asked = {
            "read": lambda: spark.sql("SELECT k, count(*), max(price) FROM ticks GROUP BY k").collect(),
            "query": lambda: spark.sql(f"SELECT count(*) FROM ({clause})").collect(),
            "row": lambda: sparkcep.why(spark, clause, at="k = 7 AND day = 100"),
            "match": lambda: sparkcep.why(spark, clause, at="k = 7 AND day = 3", match=5),
            "expect": lambda: sparkcep.why(spark, clause, at="k = 7 AND day = 100", expect="UP"),
            "table": lambda: sparkcep.why(spark, clause),
        }
        found: dict[str, float] = {}
        for name, ask in asked.items():
            ask()  # once without counting: code is loaded
            spark.sparkContext.setJobGroup(name, name)
            begin = time.perf_counter()
            ask()
            found[name] = time.perf_counter() - begin
            found[f"{name}, jobs"] = len(jobs.getJobIdsForGroup(name))
            print(f"why, {rows:,} rows of {KEYS:,} keys, {name}: {found[name]:.1f} s, {found[f'{name}, jobs']} jobs", flush=True)
        return found
    finally:
        spark.stop()


if __name__ == "__main__":
    print(json.dumps(traced(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
