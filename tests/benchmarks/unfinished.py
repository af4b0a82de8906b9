"""SHOW UNFINISHED MATCHES on Spark beside the clause without it: a funnel, and orders that must be shipped in time (SLA).

The ways take turns in one session. Of a third of the keys the last step is missing. A clause with the option is measured with the
measures of the clause without it, and with MATCH_STATUS(), MATCH_ENDED_AT() and MATCH_EXPECTED() beside them. Only with these a
clock is read.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .query import noop, session

PER_KEY = 10  # rows of an order or a visitor
AS_OF = " AS OF TIMESTAMP '2030-01-01'"
SHOWN = "SHOW UNFINISHED MATCHES"
STATUS = ", MATCH_STATUS() AS status, MATCH_ENDED_AT() AS ended, MATCH_EXPECTED() AS missing"
# the option and the further measures of each way
WAYS = {
    "without": ("", ""), "AS OF": (SHOWN + AS_OF, ""), "no clock": (SHOWN, ""), "AS OF, status": (SHOWN + AS_OF, STATUS), "second read, status": (SHOWN, STATUS),
}  # fmt: skip
GOALS = {"AS OF": 1.2, "second read, status": 1.4}
SLA = """SELECT * FROM events MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY t
  MEASURES FIRST(t) AS since, LAST(t) AS until, LAST(CLASSIFIER()) AS step{measures}
  ONE ROW PER MATCH {option}
  EVENT SELECTION SKIP TILL NEXT MATCH
  PATTERN (P S) WINDOW INTERVAL '2' DAY
  DEFINE P AS e = 'placed', S AS e = 'shipped')"""
FUNNEL = """SELECT * FROM events MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY t
  MEASURES FIRST(t) AS since, LAST(t) AS until, LAST(CLASSIFIER()) AS step, count(*) AS steps{measures}
  ONE ROW PER MATCH {option}
  EVENT SELECTION SKIP TILL NEXT MATCH
  PATTERN (V+ C B) WINDOW INTERVAL '2' DAY
  DEFINE V AS e = 'view', C AS e = 'cart', B AS e = 'buy')"""
QUERIES = {"SLA": (SLA, ("placed", "paid", "packed", "shipped", "noted")), "funnel": (FUNNEL, ("view", "view", "cart", "buy", "other"))}


def run(rows: int = 2_000_000, repeats: int = 5) -> dict:
    """Medians of seconds and of ratios, by query and way."""
    spark, found = session(), {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name, (text, words) in QUERIES.items():
                pq.write_table(events(rows, words), Path(folder) / f"{name}.parquet", row_group_size=250_000)
                spark.read.parquet(f"{folder}/{name}.parquet").createOrReplaceTempView("events")
                found[name] = measured(spark, name, text, repeats)
    finally:
        spark.stop()
    return found


def events(rows: int, words: tuple[str, ...]) -> pa.Table:
    """Rows in random order: ``k`` a key with :data:`PER_KEY` rows, ``t`` 5 hours apart on average, ``e`` one of the words."""
    rng = np.random.default_rng(7)
    keys = rows // PER_KEY
    key, nth = np.repeat(np.arange(keys), PER_KEY), np.tile(np.arange(PER_KEY), keys)
    hours = rng.integers(0, 24 * 300, size=keys)[key] * 60 + nth * 300 + rng.integers(0, 300, size=len(key))
    word = np.where(nth == 0, 0, rng.integers(1, len(words), size=len(key)))
    # of a third of the keys the last step is missing
    word[(key % 3 == 0) & (word == 3)] = 4
    table = pa.table({
        "k": key, "t": pa.array(hours * 60_000_000 + 1_700_000_000_000_000, pa.timestamp("us", "UTC")),
        "e": pa.DictionaryArray.from_arrays(word.astype(np.int8), list(words)).cast(pa.string()),
    })  # fmt: skip
    return table.take(pa.array(rng.permutation(len(key))))


def measured(spark, name: str, text: str, repeats: int) -> dict:
    queries = {way: text.format(option=option, measures=measures) for way, (option, measures) in WAYS.items()}
    counts = {way: spark.sql(query).count() for way, query in queries.items()}
    assert counts["AS OF"] >= counts["second read, status"] > counts["without"] > 0
    seconds: dict[str, list[float]] = {way: [] for way in queries}
    for turn in range(repeats + 1):
        for way, query in queries.items():
            took = noop(spark.sql(query))
            if turn:
                seconds[way].append(took)
    ratios = {way: statistics.median(s / w for s, w in zip(seconds[way], seconds["without"], strict=True)) for way in queries if way != "without"}
    print(f"\n{name}: {counts['without']:,} matches, {counts['AS OF']:,} with unfinished ones, medians of {repeats} runs in turn")
    for way, values in seconds.items():
        goal = f"   {ratios[way]:.2f} of without" if way in ratios else ""
        goal += f" (goal {GOALS[way]})" if way in GOALS else ""
        print(f"{way:<22}{statistics.median(values):6.2f} s{goal}", flush=True)
    return {"seconds": seconds, "ratios": ratios, "rows": counts}
