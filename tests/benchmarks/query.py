"""Whole queries on Spark against their floor, with both ways of the rows, interleaved in one run."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping

import pyarrow.parquet as pq

from sparkcep.spark.session.local import start_spark

from .data import ticks

V = """SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES STRT.ts AS start_ts, LAST(DOWN.ts) AS bottom_ts, LAST(UP.ts) AS end_ts,
           STRT.price AS start_price, LAST(DOWN.price) AS bottom_price, LAST(UP.price) AS end_price
  PATTERN (STRT DOWN+ UP+)
  DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price))"""

THREE_STEPS = """SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES A.ts AS a_ts, B.ts AS b_ts, C.ts AS c_ts, A.price AS a_price, C.price AS c_price
  EVENT SELECTION SKIP TILL NEXT MATCH
  PATTERN (A B C)
  WINDOW 200
  DEFINE A AS volume > 900, B AS volume < 100, C AS volume > 500 AND price > A.price)"""

NEARLY = """SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES LAST(ts) AS match_point, FIRST(ts) AS start_ts, MATCH_ERRORS() AS errors, MISSING() AS missing
  PATTERN (A B C D E)
  WINDOW 200
  APPROX 2
  DEFINE A AS volume <= 50, B AS volume BETWEEN 51 AND 100, C AS volume BETWEEN 101 AND 150, D AS volume BETWEEN 151 AND 200, E AS volume BETWEEN 201 AND 250)"""

BEST = """SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES MATCH_SCORE() AS score, A.ts AS a_ts, C.ts AS c_ts, WINDOW_START() AS window_start
  EVENT SELECTION SKIP TILL ANY MATCH
  PATTERN (A B C)
  WINDOW 200 ROWS SLIDE 20 ROWS
  PREF MAX (A.price - B.price + C.price)
  TOP 10
  DEFINE A AS volume > 900, B AS volume < 100, C AS volume > 800)"""

# a volume below 500 is a fall: after a large one, two V patterns of as many rises as falls
Q1 = """SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES FIRST(ts) AS start_ts, LAST(ts) AS end_ts, r2 AS v_patterns
  AUTOMATON (REGISTER r1 INT = 0, r2 INT = 0  STATE q0 START, q3 FINAL  ARC a0 FROM q0 TO q1 WHEN volume < 125  ARC a1 FROM q1 TO q1 WHEN volume < 500 SET r1 = r1 + 1
    ARC a2 FROM q1 TO q2 WHEN volume < 500 SET r1 = r1 + 1  ARC a3 FROM q2 TO q2 WHEN volume >= 500 AND r2 < 2 SET r1 = r1 - 1
    ARC a4 FROM q2 TO q1 WHEN volume >= 500 AND r2 + 1 < 2 SET r1 = r1 - 1, r2 = r2 + 1  ARC a5 FROM q2 TO q3 WHEN volume >= 500 AND r2 + 1 = 2 AND r1 = 1 SET r1 = 0, r2 = r2 + 1)
  WINDOW 2000)"""

FLOOR = "SELECT symbol, ts, price{more} FROM ticks DISTRIBUTE BY symbol SORT BY symbol, ts"

# name: query, its floor, goal as a ratio to it
QUERIES = {
    "V pattern": (V, FLOOR.format(more=""), 0.7),
    "three steps, skip till next": (THREE_STEPS, FLOOR.format(more=", volume"), 1.0),
    "ten best of each sliding window": (BEST, FLOOR.format(more=", volume"), 1.2),
    "automaton with registers (AFA's Q1)": (Q1, FLOOR.format(more=", volume"), 1.0),
    "five letters, two errors": (NEARLY, FLOOR.format(more=", volume"), 0.4),
}


SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.showConsoleProgress": "false",
}


def noop(frame) -> float:
    """Seconds to compute all rows of a data frame and drop them."""
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def exchange_by(spark, way: str) -> None:
    """Lets clauses exchange rows (``rows``) or blocks of columns (``columns``)."""
    spark.conf.set("sparkcep.exchange", way)


def session(settings: Mapping[str, str] | None = None):
    """A session of two cores with the clause enabled; ``settings``: further ones of Spark's."""
    return start_spark("sparkcep-benchmarks", {**SETTINGS, **(settings or {})})


def run(rows: int = 2_000_000, symbols: int = 1000, repeats: int = 5) -> dict:
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(ticks(rows, symbols), f"{folder}/ticks.parquet", row_group_size=250_000)
        spark.read.parquet(f"{folder}/ticks.parquet").createOrReplaceTempView("ticks")
        runs = {}
        for name, (query, floor, _) in QUERIES.items():
            runs[name], runs[f"{name}, rows"], runs[f"floor of {name}"] = (query, "columns"), (query, "rows"), (floor, "rows")
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        for i in range(repeats + 2):
            for name, (text, way) in runs.items():
                exchange_by(spark, way)
                took = noop(spark.sql(text))
                if i >= 2:
                    seconds[name].append(took)
    spark.stop()
    print(f"\nWhole query, local[2], {rows:,} rows, {symbols} keys, warm, {repeats} interleaved runs")
    for name, values in seconds.items():
        print(f"{name:<40} median {statistics.median(values):6.2f} s   min {min(values):6.2f}   max {max(values):6.2f}")
    ratios = {}
    for name, (_, _, goal) in QUERIES.items():
        for way in (name, f"{name}, rows"):
            ratios[way] = statistics.median(v / f for v, f in zip(seconds[way], seconds[f"floor of {name}"]))
        print(f"ratio {name} / floor: median {ratios[name]:.2f} (goal at most {goal:.2f}); {ratios[f'{name}, rows']:.2f} with rows exchanged one by one")
    return {"seconds": seconds, "ratios": ratios}
