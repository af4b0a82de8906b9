"""BUDGET ... USING HISTORY over a stream, through Spark: the history is read at each micro-batch, and what was read stands in the
checkpoint."""

from __future__ import annotations

import random
import shutil

import pytest

pytest.importorskip("pyspark")

from tests.spark.test_streams import END, closing, put, ran, refused, rocksdb, stream  # noqa: E402, F401

CLAUSE = """PARTITION BY symbol ORDER BY ts, n {measures}
    PATTERN (A B C D) WINDOW INTERVAL '9' SECONDS APPROX 1 {budget}
    DEFINE A AS price < 4, B AS price > 2 AND price < 7, C AS price > 4, D AS price = 9 OR price = 0"""
MEASURES = "MEASURES LAST(ts) AS z, MATCH_ERRORS() AS e, MISSING() AS m, COMPLETE() AS c, CHECKS_LEFT_OUT() AS o, round(COVERAGE(), 9) AS g"
STATEMENT = f"SELECT symbol, z, e, m, c, o, g FROM {{t}} MATCH_RECOGNIZE ({CLAUSE})"


def recorded(spark, seed: int, name: str) -> None:
    """A history of random rows, as a table."""
    rng = random.Random(seed)
    values = ", ".join(f"('k', timestamp_seconds({i}), {i}, {rng.randint(0, 9)})" for i in range(300))
    made = f"SELECT * FROM VALUES {values} AS rows(symbol, ts, n, price) MATCH_RECOGNIZE ({CLAUSE.format(measures='', budget='MATCH HISTORY INTERVALS 2')})"
    spark.sql(f"CREATE TABLE {name} USING parquet AS {made}")


@pytest.fixture
def histories(spark, tmp_path):
    names = ["history_now", "history_one", "history_two"]
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")
    recorded(spark, 1, "history_one")
    recorded(spark, 2, "history_two")
    spark.sql("CREATE TABLE history_now USING parquet AS SELECT * FROM history_one")
    yield
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def rows_of(seed: int, count: int) -> list[dict]:
    rng = random.Random(seed)
    rows = [(rng.random() * 9, {"symbol": f"k{rng.randrange(30)}", "at": 1 + i // 20, "n": i, "price": rng.randint(0, 9), "f": None}) for i in range(count)]
    return [row for _, row in sorted(rows, key=lambda r: r[0] + r[1]["at"])]


def test_the_history_is_read_at_each_micro_batch(spark, tmp_path, histories):
    """Of many keys, with one history from beginning to end: the answer of the table, in whatever column is asked for."""
    source = tmp_path / "in"
    source.mkdir()
    rows = rows_of(5, 900)
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    text = STATEMENT.format(t="{t}", measures=MEASURES, budget="BUDGET 1 CHECKS USING HISTORY history_now EXPLORE")
    for number, piece in enumerate([rows[:300], rows[300:650], rows[650:], closing([(f"k{i}", None) for i in range(30)])]):
        put(source, number, piece)
        if number in (1, 3):
            ran(spark.sql(text.format(t="ticks_stream")), tmp_path)
            ran(spark.sql(f"SELECT count(*) AS n, sum(o) AS o FROM ({text.format(t='ticks_stream')}) WHERE symbol IN ('k1', 'k2')"), tmp_path, "counted", "complete") if False else None
    spark.read.schema("symbol string, ts timestamp, n int, price int, f double").json(str(source)).createOrReplaceTempView("ticks_table")
    wanted = [row for row in spark.sql(text.format(t="ticks_table")).collect() if row.z.year == 2026 and row.z.month == 1 and row.z.day == 1]
    got = [row for row in spark.read.parquet(str(tmp_path / "out")).collect() if row.z.day == 1]
    assert len(wanted) > 100 and sorted(map(str, got)) == sorted(map(str, wanted))
    assert sum(row.g < 1 for row in wanted) > 10
