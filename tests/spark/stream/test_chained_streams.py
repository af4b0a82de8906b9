"""Clauses over a stream one above another, and what else keeps a state above or below a clause: rows against those over the same
files as a table, through restarts, and errors where a clause passes no watermark on."""

from __future__ import annotations

import random
import re

import pytest

pytest.importorskip("pyspark")

from tests.selection import further, slow  # noqa: E402
from tests.spark.stream.test_streams import (  # noqa: E402
    PROVIDER,
    ROCKSDB,
    SCHEMA,
    behind,
    closing,
    not_started,
    pieces,
    put,
    ran,
    refused,
    rows_of,
    stream,
)

RISES = (
    "SELECT symbol, a, z, c FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES FIRST(ts) AS a, LAST(ts) AS z, count(*) AS c "
    "PATTERN (A B+) WINDOW INTERVAL '12' SECONDS DEFINE B AS price > PREV(price))"
)
OF_ROWS = (
    "SELECT * FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES MATCH_NUMBER() AS m, CLASSIFIER() AS k ALL ROWS PER MATCH "
    "PATTERN (A B+) WINDOW INTERVAL '5' SECONDS DEFINE B AS price > PREV(price))"
)
GROWS = "PARTITION BY symbol ORDER BY a MEASURES FIRST(a) AS a, LAST(z) AS z, sum(c) AS c PATTERN (S M+) WINDOW INTERVAL '60' SECONDS DEFINE M AS c >= PREV(c)"
PAIRS = "PARTITION BY symbol ORDER BY a, z MEASURES FIRST(a) AS x, LAST(z) AS y PATTERN (P Q) WINDOW INTERVAL '30' SECONDS DEFINE Q AS z > P.z"
TWO = f"SELECT * FROM ({RISES}) MATCH_RECOGNIZE ({GROWS})"
SUMS = "SELECT symbol, window_time(window) AS w, p FROM (SELECT symbol, window, sum(price) AS p FROM {t} GROUP BY symbol, window(ts, '3 seconds'))"
STATEMENTS = {
    "clause": TWO,
    "window": f"SELECT symbol, window.start AS s, count(*) AS n, sum(c) AS c FROM ({RISES}) GROUP BY symbol, window(a, '20 seconds')",
    "three": f"SELECT * FROM ({TWO}) MATCH_RECOGNIZE (ORDER BY a, symbol MEASURES FIRST(a) AS first, LAST(symbol) AS s, LAST(z) AS z, sum(c) AS c PATTERN (X Y) "
    "WINDOW INTERVAL '30' SECONDS DEFINE Y AS symbol <> X.symbol)",
    "all rows": f"SELECT symbol, x, y, k2 FROM ({OF_ROWS}) MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES FIRST(ts) AS x, LAST(ts) AS y, LAST(k) AS k2 "
    "PATTERN (P Q) WINDOW INTERVAL '9' SECONDS DEFINE Q AS m > P.m)",
    "over a window": f"SELECT * FROM ({SUMS}) MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY w MEASURES FIRST(w) AS a, LAST(w) AS z, count(*) AS c "
    "PATTERN (A B+) WINDOW INTERVAL '60' SECONDS DEFINE B AS p > PREV(p))",
    "distinct, above and below": f"SELECT DISTINCT * FROM ({RISES.format(t='(SELECT DISTINCT * FROM {t})')} UNION ALL {RISES})",
    "join": f"SELECT l.symbol, l.a, r.z, l.c FROM ({RISES}) l JOIN (SELECT symbol, a AS a2, z, c FROM ({RISES})) r "
    "ON l.symbol = r.symbol AND l.a BETWEEN r.a2 - INTERVAL 10 SECONDS AND r.a2 + INTERVAL 10 SECONDS AND l.c > r.c",
    "outer join": f"SELECT l.symbol, l.a, l.c, t.n FROM ({RISES}) l LEFT JOIN {{t}} t ON l.symbol = t.symbol AND t.ts BETWEEN l.a AND l.a + INTERVAL 3 SECONDS AND t.price = 9",
    "beside a window": f"SELECT symbol, a, c FROM ({RISES}) UNION ALL SELECT symbol, window.start AS a, count(*) AS c FROM {{t}} GROUP BY symbol, window(ts, '7 seconds')",
    "non-overlapping": "SELECT symbol, x, y FROM (SELECT * FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES FIRST(ts) AS a, LAST(ts) AS z AFTER MATCH SKIP PAST LAST ROW "
    "EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B C) WINDOW INTERVAL '9' SECONDS DEFINE A AS price < 3, B AS price > 5, C AS price < B.price)) MATCH_RECOGNIZE ("
    "PARTITION BY symbol ORDER BY a MEASURES FIRST(a) AS x, LAST(z) AS y PATTERN (P Q))",
    "over a join": "SELECT * FROM (SELECT l.symbol, l.ts, l.n, l.price, r.price AS other FROM {t} l JOIN {t} r ON l.symbol = r.symbol AND r.n % 3 = 0 "
    "AND r.ts BETWEEN l.ts - INTERVAL 2 SECONDS AND l.ts + INTERVAL 1 SECOND) MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n, other, price MEASURES FIRST(ts) AS a, LAST(ts) AS z, "
    "sum(other) AS s PATTERN (A B+) WINDOW INTERVAL '6' SECONDS DEFINE B AS other > PREV(other))",
    "over an outer join": "SELECT * FROM (SELECT l.symbol, l.ts, l.n, l.price, r.price AS other FROM {t} l LEFT JOIN {t} r ON l.symbol = r.symbol AND r.n % 3 = 0 "
    "AND r.ts BETWEEN l.ts - INTERVAL 2 SECONDS AND l.ts + INTERVAL 1 SECOND) MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n, other, price MEASURES FIRST(ts) AS a, LAST(ts) AS z, "
    "count(*) AS c PATTERN (A B+) WINDOW INTERVAL '6' SECONDS DEFINE B AS other IS NULL)",
    "over a join by the other time": "SELECT * FROM (SELECT l.symbol, r.ts AS at, l.n, r.n AS m, r.price FROM {t} l JOIN {t} r ON l.n % 2 = 0 AND r.n % 3 = 0 AND l.ts = r.ts) "
    "MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY at, n, m, price MEASURES FIRST(at) AS a, LAST(at) AS z, count(*) AS c PATTERN (A B+) WINDOW INTERVAL '6' SECONDS DEFINE B AS price > PREV(price))",
    "over arcs of a table": "SELECT * FROM (SELECT * FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES FIRST(ts) AS a, LAST(ts) AS z "
    "AUTOMATON (STATE up IGNORE WHEN price < 6, q2 FINAL ARC low(k INT) FROM q0 TO up WHEN price < k ARC high(k INT) FROM up TO q2 WHEN price >= k "
    "ARCS FROM (SELECT arc, max(k) AS k FROM VALUES ('low', 2), ('low', 3), ('high', 7) AS v(arc, k) GROUP BY arc)) WINDOW INTERVAL '8' SECONDS)) "
    f"MATCH_RECOGNIZE ({PAIRS})",
    "over a budget": "SELECT * FROM (SELECT * FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES FIRST(ts) AS a, LAST(ts) AS z "
    f"PATTERN (A B C) WINDOW INTERVAL '9' SECONDS APPROX 1 BUDGET 2 CHECKS DEFINE A AS price < 3, B AS price > 5, C AS price < 2)) MATCH_RECOGNIZE ({PAIRS})",
}


@pytest.fixture(autouse=True)
def rocksdb(spark):
    spark.conf.set(PROVIDER, ROCKSDB)
    yield
    spark.conf.unset(PROVIDER)


@pytest.mark.parametrize("name", [further(name) if name in ("clause", "window") else slow(name) for name in STATEMENTS])
def test_the_rows_are_those_of_the_table(spark, tmp_path, name):
    """Rows in disorder, cut anywhere, with a restart; no operator calls a row late."""
    source = tmp_path / "in"
    source.mkdir()
    rows, rng = rows_of(len(name), 300), random.Random(name)
    keys = list({(row["symbol"], repr(row["f"])): (row["symbol"], row["f"]) for row in rows}.values())
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    progress = []
    for number, piece in enumerate([*pieces(rows, rng, 3), closing(keys)]):
        put(source, number, piece)
        if number in (1, 3):
            progress += ran(spark.sql(STATEMENTS[name].format(t="ticks_stream")), tmp_path)
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    wanted = [row for row in spark.sql(STATEMENTS[name].format(t="ticks_table")).collect() if not behind(row)]
    got = [row for row in spark.read.parquet(str(tmp_path / "out")).collect() if not behind(row)]
    assert sorted(map(str, got)) == sorted(map(str, wanted)) and len(wanted) > 5
    operators = [operator for p in progress for operator in p["stateOperators"]]
    assert len(operators) >= 2 * len(progress) > 6 and not any(operator["numRowsDroppedByWatermark"] for operator in operators)


@pytest.mark.further
def test_a_clause_above_lets_its_keys_go(spark, tmp_path):
    """Each operator has a watermark of its own: that above a clause is behind the stream's by the WINDOW of the clause."""
    source = tmp_path / "in"
    source.mkdir()
    rows = [{"symbol": "k", "at": at, "n": at, "price": price, "f": None} for at, price in ((1, 1), (2, 5), (3, 1), (4, 7), (5, 8), (20, 1))]
    stream(spark, source, "0 seconds").createOrReplaceTempView("ticks_stream")
    told = []
    for number, piece in enumerate([rows, *([{"symbol": "other", "at": at, "n": 0, "price": 0, "f": None}] for at in (70, 75))]):
        put(source, number, piece)
        told.append(ran(spark.sql(TWO.format(t="ticks_stream")), tmp_path)[-1])
    # the second clause's match has begun at 1 and may have rows until 61; its watermark is 12 seconds behind
    open_keys = [[operator["customMetrics"]["openKeys"] for operator in progress["stateOperators"]] for progress in told]
    assert [keys[0] for keys in open_keys] == [1, 1, 0], open_keys
    assert [row.c for row in spark.read.parquet(str(tmp_path / "out")).collect()] == [5]


@pytest.mark.further
def test_late_rows_of_the_first_clause_alone_go_to_the_table(spark, tmp_path):
    """The table need not fit what the second clause reads, of which nothing is late."""
    source = tmp_path / "in"
    source.mkdir()
    rows, late = rows_of(3, 120), [{"symbol": "k0", "at": 2, "n": 1000 + i, "price": 5, "f": None} for i in range(2)]
    for number, piece in enumerate([rows[:60], rows[60:], late, closing([("k0", None)])]):
        put(source, number, piece)
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    spark.sql(f"CREATE TABLE late_below (symbol STRING, n INT) USING parquet LOCATION '{tmp_path}/late'")
    spark.conf.set("sparkcep.stream.lateRows", "late_below")
    try:
        progress = ran(spark.sql(TWO.format(t="ticks_stream")), tmp_path)
    finally:
        spark.conf.unset("sparkcep.stream.lateRows")
        spark.sql("DROP TABLE late_below")
    assert [sum(p["stateOperators"][i]["numRowsDroppedByWatermark"] for p in progress) for i in (0, 1)] == [0, 2]  # the clause above is the first
    assert sorted(row.n for row in spark.read.parquet(str(tmp_path / "late")).collect()) == [1000, 1001]


def test_what_passes_no_watermark_on(spark, tmp_path):
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    endless = RISES.replace("WINDOW INTERVAL '12' SECONDS ", "").format(t="ticks_stream")
    untold = f"SELECT symbol, c FROM ({RISES.format(t='ticks_stream')})".replace("FIRST(ts) AS a, LAST(ts) AS z, ", "date_format(FIRST(ts), 'ss') AS a, B.ts AS z, ")
    for statement, words in (
        (f"SELECT * FROM ({endless}) MATCH_RECOGNIZE ({GROWS})", r"clause below lacks a watermark: without WINDOW INTERVAL '...' a match may take any time"),
        (f"SELECT * FROM ({RISES.format(t='ticks_stream')}) MATCH_RECOGNIZE ({GROWS.replace('ORDER BY a', 'ORDER BY z')})", "its watermark column a, unchanged; here it is z"),
        (f"SELECT * FROM ({untold.replace('symbol, c', 'symbol, a, z, c')}) MATCH_RECOGNIZE ({GROWS})", "Add FIRST or LAST"),
    ):
        assert re.match(rf"\[SPARKCEP.STREAM\].*{words}.*\(line 1, column \d+: '[az]'\)", refused(spark, statement)), refused(spark, statement)
    counts = spark.sql(f"SELECT symbol, count(*) AS c FROM ({endless}) GROUP BY symbol")
    assert re.match(r"\[SPARKCEP.STREAM\].*the clause's output lacks a watermark: without WINDOW.*outputMode\(\"update\"\)", not_started(counts, checkpoint))
    timed = spark.sql(f"SELECT symbol, count(*) AS c FROM ({RISES.format(t='ticks_stream')}) GROUP BY symbol")
    assert "group by a window of a, or write" in not_started(timed, checkpoint)
    again = spark.sql(RISES.format(t="ticks_stream"))
    assert "Leave it out: a already has one" in not_started(again.withWatermark("z", "1 second"), checkpoint)
    both = spark.sql(f"SELECT DISTINCT * FROM (SELECT symbol, ts, n AS c FROM ticks_stream UNION ALL SELECT symbol, a, c FROM ({endless}))")
    assert "an operator that needs a watermark (" in not_started(both, checkpoint)
    over = spark.sql(STATEMENTS["over a window"].format(t="ticks_stream"))
    assert "reads only final rows" in not_started(over, checkpoint, "update")
    spark.conf.set("spark.sql.streaming.statefulOperator.allowMultiple", "false")
    try:
        assert "allowMultiple is false" in not_started(spark.sql(TWO.format(t="ticks_stream")), checkpoint)
    finally:
        spark.conf.unset("spark.sql.streaming.statefulOperator.allowMultiple")


@pytest.mark.further
def test_sums_of_all_matches(spark, tmp_path):
    """What needs no watermark stands above any clause: the whole answer after each micro-batch."""
    source = tmp_path / "in"
    source.mkdir()
    put(source, 0, [*rows_of(5, 100), *closing([("k0", None)])])
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    statement = f"SELECT symbol, count(*) AS n, sum(c) AS c FROM ({RISES.replace(chr(87) + 'INDOW INTERVAL ' + repr('12') + ' SECONDS ', '')}) GROUP BY symbol"
    frame = spark.sql(statement.format(t="ticks_stream"))
    query = frame.writeStream.format("memory").queryName("sums_of_matches").outputMode("complete").option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.read.schema(SCHEMA).json(str(source)).where("n >= 0 AND ts < '2026-01-01 12:00:00'").createOrReplaceTempView("ticks_table")
    wanted = sorted(map(str, spark.sql(statement.format(t="ticks_table")).collect()))
    assert sorted(map(str, spark.table("sums_of_matches").where("symbol = 'k0'").collect())) == [row for row in wanted if "'k0'" in row] != []
