"""A clause over a stream, through Spark: its rows against those over the same files as a table, restarts, late rows, and errors
before a query starts."""

from __future__ import annotations

import datetime
import json
import os
import random
import re
import sqlite3
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import sparkcep  # noqa: E402
from tests.selection import further, slow  # noqa: E402

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SCHEMA = "symbol string, ts timestamp, n int, price int, f double"
BEGIN = datetime.datetime(2026, 1, 1)
END = 100_000  # seconds: behind all rows, and far behind all windows

V = """MEASURES FIRST(ts) AS a, LAST(UP.price) AS u, LAST(ts) AS z, count(*) AS c
    PATTERN (STRT DOWN+ UP+) WINDOW INTERVAL '60' SECONDS DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)"""
B = f"SELECT symbol, a, z, c FROM {{t}} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n {V.replace('DOWN+ UP+', 'DOWN UP+')})"
STATEMENTS = {
    "v": f"SELECT * FROM {{t}} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n {V})",
    "no_keys": "SELECT * FROM {t} MATCH_RECOGNIZE (ORDER BY ts, n DESC MEASURES MATCH_NUMBER() AS m, FIRST(ts) AS a, LAST(symbol) AS s PATTERN (A B) "
    "DEFINE A AS price < 3, B AS price > A.price)",
    "all_rows": "SELECT *, upper(symbol) AS big FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol, f ORDER BY ts, n MEASURES count(*) AS c, CLASSIFIER() AS k "
    "ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B+) WINDOW INTERVAL '60' SECONDS DEFINE A AS price < 5, B AS price > PREV(price)) WHERE f IS NULL OR f < 1",
    "nested_keys": "SELECT a, c FROM {t} MATCH_RECOGNIZE (PARTITION BY array(f), named_struct('f', f) ORDER BY ts, n MEASURES FIRST(ts) AS a, count(*) AS c "
    "PATTERN (A B+) WINDOW INTERVAL '60' SECONDS DEFINE B AS price > PREV(price))",
    "selection": "SELECT symbol, a, b FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES A.ts AS a, B.price AS b, LAST(ts) AS z "
    "EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A ~N B) WINDOW INTERVAL '20' SECONDS DEFINE A AS price < 2, N AS price = 5, B AS price > 7)",
    "counts": "SELECT symbol, z, n, size(g) AS g FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES LAST(ts) AS z, MATCH_COUNT() AS n, MATCH_GRAPH() AS g "
    "EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B+ C) WINDOW INTERVAL '9' SECONDS DEFINE A AS price < 3, B AS price >= PREV(price), C AS price > A.price)",
    "bundles": "SELECT * FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES BUNDLE_START() AS s, BUNDLE_END() AS z, BUNDLE_SIZE() AS c, MATCH_ERRORS() AS e "
    "PATTERN (A B C) WINDOW INTERVAL '4' SECONDS APPROX 1 MATCH BUNDLES DEFINE A AS price < 1, B AS price > 8, C AS price > 7)",
    "budget": "SELECT symbol, z, e, c, o, m FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES LAST(ts) AS z, MATCH_ERRORS() AS e, COMPLETE() AS c, CHECKS_LEFT_OUT() AS o, MISSING() AS m "
    "PATTERN (A B C) WINDOW INTERVAL '9' SECONDS APPROX 1 BUDGET 2 CHECKS DEFINE A AS price < 3, B AS price > A.price, C AS price > 6)",
    "budget_bundles": "SELECT * FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES BUNDLE_START() AS s, BUNDLE_END() AS z, BUNDLE_SIZE() AS c, CHECKS_LEFT_OUT() AS o "
    "PATTERN (A B C) WINDOW INTERVAL '4' SECONDS APPROX 1 MATCH BUNDLES BUDGET 1 CHECKS DEFINE A AS price < 1, B AS price > 8, C AS price > 7)",
    "budget_all": "SELECT symbol, r, e FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES array_agg(ts) AS r, MATCH_ERRORS() AS e, LAST(ts) AS z "
    "PATTERN (A B C) WINDOW INTERVAL '6' SECONDS APPROX 1 ALL MATCHES BUDGET 4 CHECKS DEFINE A AS price < 3, B AS price > 5, C AS price > 6)",
    "automaton": "SELECT symbol, a, z, n FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES FIRST(ts) AS a, LAST(ts) AS z, MATCH_NUMBER() AS m, falls AS n "
    "AUTOMATON (REGISTER falls INT = 0, last INT STATE q2 FINAL ARC FROM q0 TO q1 WHEN price > 6 SET last = price "
    "ARC FROM q1 TO q1 WHEN price <= last SET falls = falls + 1, last = price ARC FROM q1 TO q2 WHEN price > 7) WINDOW INTERVAL '8' SECONDS)",
    "absence": "SELECT symbol, a, z, f, k FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES FIRST(ts) AS a, LAST(ts) AS z, MATCH_FROM() AS f, CLASSIFIER() AS k "
    "AUTOMATON (STATE q1 IGNORE WHEN price < 9, q2 FINAL ARC low FROM q0 TO q1 WHEN price < 3 ARC high FROM q1 TO q2 WHEN price = 8 ARC FROM q1 TO q2 ON EXPIRY) "
    "WINDOW INTERVAL '8' SECONDS)",
    "top": "SELECT symbol, z, k, s, round(x, 3) AS x FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES LAST(ts) AS z, MATCH_RANK() AS k, WINDOW_START() AS s, MATCH_SCORE() AS x "
    "EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B+ C) WINDOW INTERVAL '9' SECONDS SLIDE INTERVAL '4' SECONDS PREF MAX (sqrt(A.price) * avg(B.price)) TOP 3 "
    "DEFINE A AS price < 3, B AS price >= PREV(price), C AS price > A.price)",
    "top_overall": "SELECT symbol, z, k, s FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES LAST(ts) AS z, MATCH_RANK() AS k, WINDOW_END() AS s "
    "EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) WINDOW INTERVAL '6' SECONDS SLIDE INTERVAL '3' SECONDS PREF MAX (A.price + B.price) TOP 4 OVERALL DEFINE A AS price > 2)",
    "top_paths": "SELECT symbol, z, k, s FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES LAST(ts) AS z, MATCH_RANK() AS k, WINDOW_END() AS s "
    "EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) WINDOW INTERVAL '6' SECONDS SLIDE INTERVAL '3' SECONDS PREF MAX (A.price + B.price) TOP 4 DEFINE A AS price > 2)",
    "top_near": "SELECT symbol, a, z, k, s, x FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES FIRST(ts) AS a, LAST(ts) AS z, MATCH_RANK() AS k, WINDOW_START() AS s, "
    "MATCH_SCORE() AS x PATTERN (A B C) WINDOW INTERVAL '9' SECONDS SLIDE INTERVAL '4' SECONDS APPROX 1 PROXY MATCHES PER ERROR TOP 3 DEFINE A AS price < 3, B AS price > 7, C AS price < A.price)",
    "list_changes": "SELECT symbol, c, z, k, s FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES CHANGE() AS c, LAST(ts) AS z, MATCH_RANK() AS k, WINDOW_END() AS s "
    "EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B+ C) WINDOW INTERVAL '9' SECONDS SLIDE INTERVAL '4' SECONDS PREF MAX (sqrt(A.price) * avg(B.price)) TOP 3 REPORT CHANGES "
    "DEFINE A AS price < 3, B AS price >= PREV(price), C AS price > A.price)",
    "list_changes_of_the_input": "SELECT c, z, s FROM {t} MATCH_RECOGNIZE (ORDER BY ts, n MEASURES CHANGE() AS c, LAST(ts) AS z, WINDOW_START() AS s "
    "EVENT SELECTION SKIP TILL ANY MATCH FIRST MATCH PATTERN (A B) WINDOW INTERVAL '6' SECONDS SLIDE INTERVAL '3' SECONDS PREF MAX (A.price + B.price) TOP 2 OVERALL REPORT CHANGES DEFINE A AS price > 2)",
    "two": f"SELECT symbol, a, z, c FROM {{t}} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n {V}) UNION ALL {B}",
    "twice": f"WITH m AS ({B}) SELECT * FROM m UNION ALL SELECT * FROM m UNION ALL {B}",
    "one_column": "SELECT c FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES FIRST(ts) AS a, count(*) AS c "
    "AFTER MATCH SKIP TO LAST B PATTERN (A B+ C) DEFINE B AS price >= PREV(price), C AS price < PREV(price)) WHERE symbol <> 'k1'",
}


@pytest.fixture(autouse=True)
def rocksdb(spark):
    spark.conf.set(PROVIDER, ROCKSDB)
    yield
    spark.conf.unset(PROVIDER)


def rows_of(seed: int, count: int = 400) -> list[dict]:
    """Rows in disorder of less than ten seconds, of keys of which some are longer than a number holds; then one of each key, far
    behind."""
    rng = random.Random(seed)
    keys = ["k0", "k1", "a longer key 2", "a longer key 3", None]
    rows = [
        (rng.random() * 9, {"symbol": rng.choice(keys), "at": 1 + i // 2, "n": i, "price": rng.randint(0, 9), "f": rng.choice([0.0, -0.0, 1.5, None])})
        for i in range(count)
    ]
    return [row for _, row in sorted(rows, key=lambda r: r[0] + r[1]["at"])]


def closing(keys: list) -> list[dict]:
    """One row of each key far behind all others, and one that brings the watermark there."""
    return [{"symbol": key, "at": END + i, "n": 0, "price": 4, "f": f} for i, (key, f) in enumerate(keys)] + [
        {"symbol": "last", "at": 3 * END, "n": 0, "price": 4, "f": None}]


def put(folder, number: int, rows: list[dict]) -> None:
    path = folder / f"{number:03}.json"
    path.write_text("".join(json.dumps(row | {"ts": str(BEGIN + datetime.timedelta(seconds=row["at"]))}) + "\n" for row in rows))
    os.utime(path, (1_700_000_000 + number,) * 2)  # files are read in the order of their times


def stream(spark, folder, delay: str = "10 seconds"):
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))
    return files.withWatermark("ts", delay)


def ran(frame, folder, name: str = "out", mode: str = "append"):
    """Runs a query until its files are read; what its micro-batches say."""
    query = frame.writeStream.format("parquet").outputMode(mode).option("path", str(folder / name)).option("checkpointLocation", str(folder / f"{name}.checkpoint"))
    query = query.trigger(availableNow=True).start()
    query.awaitTermination()
    return [json.loads(progress.json) if hasattr(progress, "json") else progress for progress in query.recentProgress]


def written(spark, folder, name: str = "out") -> list:
    return sorted(map(str, spark.read.parquet(str(folder / name)).collect()))


def pieces(rows: list, rng: random.Random, count: int) -> list[list]:
    cuts = sorted(rng.sample(range(len(rows)), count - 1))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)])]


@pytest.mark.parametrize("name", [further(name) if name in ("counts", "automaton", "top_near") else slow(name) for name in STATEMENTS])
def test_the_rows_are_those_of_the_table(spark, tmp_path, name):
    source = tmp_path / "in"
    source.mkdir()
    rows, rng = rows_of(len(name)), random.Random(name)
    keys = list({(row["symbol"], repr(row["f"])): (row["symbol"], row["f"]) for row in rows}.values())
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    progress = []
    for number, piece in enumerate([*pieces(rows, rng, 4), closing(keys)]):
        put(source, number, piece)
        if number in (1, 4):  # the query is begun, and goes on from its checkpoint
            progress += ran(spark.sql(STATEMENTS[name].format(t="ticks_stream")), tmp_path)
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    wanted = [row for row in spark.sql(STATEMENTS[name].format(t="ticks_table")).collect() if not behind(row)]
    assert len(wanted) > 10
    assert [row for row in spark.read.parquet(str(tmp_path / "out")).collect() if not behind(row)] != []
    got = [row for row in spark.read.parquet(str(tmp_path / "out")).collect() if not behind(row)]
    assert sorted(map(str, got)) == sorted(map(str, wanted))
    assert all(operator["operatorName"] == "matchRecognize" and not operator["numRowsDroppedByWatermark"] for p in progress for operator in p["stateOperators"])
    assert len(progress) > 4
    if name == "v":
        counted = [p["stateOperators"][0]["customMetrics"] for p in progress]
        assert sum(c["matches"] for c in counted) == spark.read.parquet(str(tmp_path / "out")).count()
        assert max(c["pendingRows"] for c in counted) > 5 and max(c["keptRows"] for c in counted) > 5 and sum(c["engineTimeMs"] for c in counted) > 0


@pytest.mark.parametrize("route", [further("operator"), further("frames")])
def test_keys_that_are_not_utf8(spark, tmp_path, route):
    """As CAST(key AS STRING) gives of the rows of Kafka; the query resumes from a state with such a key."""
    keys, source = ["00000000000000FF", "61FF", "FF", "61"], tmp_path / "in"
    source.mkdir()
    text = """SELECT hex(k) AS k, a, hex(l) AS l FROM (SELECT CAST(unhex(symbol) AS STRING) AS k, ts, price FROM {t}) MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS a, LAST(k) AS l PATTERN (A B) WINDOW INTERVAL '1' MINUTE DEFINE B AS price > A.price)"""
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    spark.conf.set("sparkcep.stream.route", route)
    try:
        for number in range(3):
            put(source, number, [{"symbol": key, "at": 1 + 20 * number + i, "n": i, "price": number, "f": None} for i, key in enumerate(keys)])
            ran(spark.sql(text.format(t="ticks_stream")), tmp_path)
        put(source, 3, [{"symbol": key, "at": END, "n": 0, "price": 0, "f": None} for key in keys])
        ran(spark.sql(text.format(t="ticks_stream")), tmp_path)
    finally:
        spark.conf.unset("sparkcep.stream.route")
    assert [tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).sort("a").collect()] == [(key, BEGIN + datetime.timedelta(seconds=1 + i), key) for i, key in enumerate(keys)]


ENDS = {
    "anchored": "SELECT string(n) AS value FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES LAST(ts) AS z, MATCH_COUNT() AS n "
    "EVENT SELECTION SKIP TILL ANY MATCH PATTERN ((^ A | D) B C) WINDOW INTERVAL '9' SECONDS DEFINE B AS price >= 5, C AS price > B.price, D AS price = 8) WHERE symbol <> 'k1'",
    "negated": "SELECT string(size(g)) AS value FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES LAST(ts) AS z, MATCH_GRAPH() AS g "
    "EVENT SELECTION SKIP TILL ANY MATCH PATTERN ((A B ~N) & (~M C)) WINDOW INTERVAL '6' SECONDS DEFINE A AS price < 3, B AS price > 6, C AS price = 5, N AS price = 4 AND n > 0, M AS price = 9)",
    "bundled": "SELECT string(k) AS value FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES BUNDLE_END() AS z, MATCH_COUNT() AS k "
    "PATTERN (A B C) WINDOW INTERVAL '2' SECONDS APPROX 1 MATCH BUNDLES DEFINE A AS price < 1, B AS price > 8, C AS price > A.price + 6) WHERE symbol <> 'k1'",
    "unmatched": "SELECT concat(price, ' ', coalesce(e, -1)) AS value FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES MATCH_ERRORS() AS e "
    "ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B C) WINDOW INTERVAL '5' SECONDS APPROX 1 DEFINE A AS price < 2, B AS price > A.price + 5, C AS price > 7) WHERE ts < TIMESTAMP '2026-01-02 00:00:00'",
    "budget": "SELECT string(o) AS value FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES LAST(ts) AS z, CHECKS_LEFT_OUT() AS o "
    "PATTERN (A B C ~N) WINDOW INTERVAL '7' SECONDS APPROX 1 BUDGET 2 CHECKS DEFINE A AS price < 3, B AS price > 5, C AS price > 6, N AS price = 4 AND n > 0) WHERE symbol <> 'k1'",
}


@pytest.mark.further
def test_what_ends_at_a_row(spark, tmp_path):
    """One column alone of each clause, some without a key, in one query; and how many bundles there are."""
    source = tmp_path / "in"
    source.mkdir()
    statement = " UNION ALL ".join(f"SELECT '{name}' AS name, value FROM ({text})" for name, text in ENDS.items())
    count = f"SELECT count(*) AS bundles FROM ({ENDS['bundled'].replace('string(k) AS value', '*')})"
    rows, rng = rows_of(11, 300), random.Random("ends")
    keys = sorted({(row["symbol"], None) for row in rows}, key=str)
    for number, piece in enumerate([*pieces(rows, rng, 3), closing(keys)]):
        put(source, number, piece)
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    ran(spark.sql(statement.format(t="ticks_stream")), tmp_path)
    counting = spark.sql(count.format(t="ticks_stream")).writeStream.format("memory").queryName("bundles_counted").outputMode("complete")
    counting.option("checkpointLocation", str(tmp_path / "count.checkpoint")).trigger(availableNow=True).start().awaitTermination()
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    wanted = spark.sql(statement.format(t="ticks_table"))
    told = {name: sum(row.name == name for row in wanted.collect()) for name in ENDS}
    assert all(number > 4 for number in told.values()), told
    assert written(spark, tmp_path) == sorted(map(str, wanted.collect()))
    assert spark.table("bundles_counted").collect() == spark.sql(count.format(t="ticks_table")).collect() == [(told["bundled"],)]


def behind(row) -> bool:
    """Whether a row of output is of the rows far behind all others, of which none is decided."""
    limit = BEGIN + datetime.timedelta(seconds=END)
    return any(isinstance(value, datetime.datetime) and value >= limit for value in row)


WAITING = {  # clauses of sliding windows that may wait behind their ends, with what is selected of them
    "first": ("symbol, z, k, x", "", "LAST(ts) AS z, MATCH_RANK() AS k, WINDOW_START() AS s, sum(price) AS x EVENT SELECTION SKIP TILL NEXT MATCH FIRST MATCH PATTERN (A B+ C)", "A AS price < 4, B AS price >= PREV(price), C AS price > 5"),
    "alone": ("NULL, s, NULL, NULL", "", "WINDOW_START() AS s EVENT SELECTION STRICT CONTIGUITY FIRST MATCH PATTERN (A B*)", "B AS price >= PREV(price)"),
    "of a key": ("symbol, z, NULL, NULL", "WHERE symbol <> 'k1'", "LAST(ts) AS z EVENT SELECTION SKIP TILL ANY MATCH PATTERN (~N A B ~M)", "N AS price = 0, A AS price > 3, M AS price = 9"),
    "ahead": ("symbol, z, NULL, x", "", "LAST(ts) AS z, NEXT(LAST(price)) AS x EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B)", "A AS price > 6, B AS price <> NEXT(price)"),
    "anchor": ("symbol, z, NULL, NULL", "", "LAST(ts) AS z EVENT SELECTION SKIP TILL ANY MATCH PATTERN (^ A B)", "A AS price >= 0"),
    "number": ("symbol, z, NULL, NULL", "", "LAST(ts) AS z EVENT SELECTION SKIP TILL ANY MATCH FIRST MATCH PATTERN (A B)", "A AS MATCH_NUMBER() % 3 < 2"),
}


def waiting(name: str, table: str, *, rows: str = "", overall: str = "") -> str:
    """A statement of four columns of one of these clauses."""
    columns, where, clause, define = WAITING[name]
    measures, _, rest = clause.partition(" EVENT")
    sliding = f"WINDOW INTERVAL '6' SECONDS SLIDE INTERVAL '4' SECONDS PREF MAX (sum(price)) TOP 2{overall}"
    return f"SELECT {columns} FROM {table} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES {measures}{rows} EVENT{rest} {sliding} DEFINE {define}) {where}"


@pytest.mark.further
def test_commits_write_what_changed_unless_the_user_says_otherwise(spark, tmp_path):
    """A checkpoint goes on with either, and its rows are those of the table."""
    source, setting = tmp_path / "in", "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
    source.mkdir()
    rows = rows_of(7)
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    found = []
    for number, (piece, value) in enumerate([(rows[:150], None), (rows[150:300], "false"), ([*rows[300:], *closing(sorted({(row["symbol"], None) for row in rows}, key=str))], None)]):
        put(source, number, piece)
        if value is not None:
            spark.conf.set(setting, value)
        try:
            ran(spark.sql(STATEMENTS["v"].format(t="ticks_stream")), tmp_path)
        finally:
            spark.conf.unset(setting)
        found.append({int(path.name.partition(".")[0]) for path in (tmp_path / "out.checkpoint" / "state" / "0").glob("*/*.changelog")})
    assert found[0] and found[1] == found[0] and found[2] > found[1]
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    wanted = sorted(str(row) for row in spark.sql(STATEMENTS["v"].format(t="ticks_table")).collect() if not behind(row))
    assert sorted(str(row) for row in spark.read.parquet(str(tmp_path / "out")).collect() if not behind(row)) == wanted and len(wanted) > 10


@pytest.mark.parametrize("names", [slow(("first", "alone")), slow(tuple(WAITING))])
def test_sliding_windows_that_wait_are_those_of_the_table(spark, tmp_path, names):
    """One match for each first row, numbers, NEXT, negations at the ends and ^: one column alone, of some keys, of all keys
    together, all rows of the matches, and how many they are."""
    texts = {"union": " UNION ALL ".join(f"SELECT '{name}' AS name, * FROM ({waiting(name, '{t}')})" for name in names)}
    if len(names) == len(WAITING):
        texts["whole"] = waiting("first", "{t}", rows=" ALL ROWS PER MATCH", overall=" OVERALL").replace("symbol, z, k, x", "*")
    source, rows, rng = tmp_path / "in", rows_of(21, 250), random.Random(21)
    source.mkdir()
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    for number, piece in enumerate([*pieces(rows, rng, 2), closing(sorted({(row["symbol"], None) for row in rows}, key=str))]):
        put(source, number, piece)
        if number != 1:  # the queries are begun, and go on from their checkpoints
            for name, text in texts.items():
                ran(spark.sql(text.format(t="ticks_stream")), tmp_path, name)
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    for name, text in texts.items():
        wanted = [row for row in spark.sql(text.format(t="ticks_table")).collect() if not behind(row)]
        got = [row for row in spark.read.parquet(str(tmp_path / name)).collect() if not behind(row)]
        assert sorted(map(str, got)) == sorted(map(str, wanted)) and len(wanted) > 20, name
        assert name == "whole" or {row.name for row in wanted} == set(names)
    if len(texts) > 1:
        counts = f"SELECT count(*) AS c FROM ({waiting('of a key', '{t}')})"
        counted = spark.sql(counts.format(t="ticks_stream")).writeStream.outputMode("complete").format("memory").queryName("counted_windows")
        counted.trigger(availableNow=True).start().awaitTermination()
        told = spark.sql(f"SELECT * FROM ({waiting('of a key', 'ticks_table')})").collect()
        assert spark.table("counted_windows").collect()[0].c == len([row for row in told if not behind(row)]) > 5


def test_a_restart_goes_on_and_late_rows_are_counted(spark, tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    rows = rows_of(7)
    statement, late = STATEMENTS["v"], {"symbol": "k0", "at": 2, "n": 1000, "price": 5, "f": None}
    first_part, second_part = pieces(rows, random.Random(7), 4)[:2], pieces(rows, random.Random(7), 4)[2:]
    for number, piece in enumerate(first_part):
        put(source, number, piece)
    frame = sparkcep.match_recognize(stream(spark, source), partition_by="symbol", order_by=["ts", "n"], clause=V)
    begun = ran(frame, tmp_path)
    assert sum(p["stateOperators"][0]["numRowsDroppedByWatermark"] for p in begun) == 0
    for number, piece in enumerate([second_part[0], [late, late], second_part[1], closing([("k0", None)])]):
        put(source, 10 + number, piece)
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    progress = ran(spark.sql(statement.format(t="ticks_stream")), tmp_path)  # the frame's statement, to the checkpoint
    assert sum(p["stateOperators"][0]["numRowsDroppedByWatermark"] for p in progress) == 2
    spark.read.schema(SCHEMA).json(str(source)).where("n < 1000").createOrReplaceTempView("ticks_table")
    wanted = [row for row in spark.sql(statement.format(t="ticks_table")).collect() if not behind(row)]
    assert written(spark, tmp_path) == sorted(map(str, wanted)) and len(wanted) > 10
    counted = [p["stateOperators"][0]["customMetrics"] for p in (*begun, *progress)]
    assert sum(c["matches"] for c in counted) == spark.read.parquet(str(tmp_path / "out")).count()
    assert max(c["pendingRows"] for c in counted) > 5 and max(c["keptRows"] for c in counted) > 5 and sum(c["engineTimeMs"] for c in counted) > 0
    put(source, 20, [{"symbol": "k0", "at": 4 * END, "n": 1, "price": 3, "f": None}])
    others = {
        "DEFINE differ": statement.replace("price < PREV(price)", "price < PREV(price) AND n > 3"),
        "how many rows PREV reads before a match differ": statement.replace("count(*) AS c", "PREV(FIRST(ts), 3) AS c"),
        "the keys that WHERE above the clause selects differ": f"{statement} WHERE symbol = 'k1'",
        "values that are f differ": statement.replace("count(*) AS c", "LAST(f) AS c"),
        "which has one clause; this query has 2 clauses": STATEMENTS["two"],
    }
    for what, other in others.items():
        text = not_started(spark.sql(other.format(t="ticks_stream")), tmp_path / "out.checkpoint")
        assert re.search(rf"SPARKCEP.STREAM.*(?:the checkpoint is of|wrote it for) another.*{what}.*line 2, column ", text), (what, text)


def not_started(frame, checkpoint, mode: str = "append", **trigger) -> str:
    """What is said of a query that does not start; its checkpoint stays as it is."""
    from pyspark.errors import ParseException

    offsets = sorted(checkpoint.glob("offsets/*"))
    with pytest.raises(ParseException) as raised:
        frame.writeStream.format("noop").outputMode(mode).option("checkpointLocation", str(checkpoint)).trigger(**trigger or {"availableNow": True}).start()
    assert sorted(checkpoint.glob("offsets/*")) == offsets
    return str(raised.value)


@pytest.mark.further
def test_other_measures_and_filters_go_on(spark, tmp_path):
    """A statement that needs no other rows goes on with the state, and its matches have its own measures."""
    source, rows = tmp_path / "in", rows_of(9)
    source.mkdir()
    moved = V.replace("FIRST(ts) AS a, LAST(UP.price) AS u", "max(DOWN.price) - LAST(DOWN.price) AS d, FIRST(UP.price) AS u, FIRST(ts) AS a, median(UP.price) AS h")
    texts = {
        "first": f"SELECT a, z, c, symbol FROM {{t}} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n {V})",
        "second": f"SELECT *, d + 1 AS e FROM {{t}} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY `ts`, n {moved}) WHERE c > 3 AND d IS NOT NULL",
    }
    half, rest = pieces(rows, random.Random(9), 2)
    told = {}
    for name, came in (("first", [half]), ("second", [rest, closing(sorted({(row["symbol"], None) for row in rows}, key=str))])):
        for piece in came:
            put(source, len(list(source.iterdir())), piece)
        stream(spark, source).createOrReplaceTempView("ticks_stream")
        writer = spark.sql(texts[name].format(t="ticks_stream")).writeStream.format("parquet").option("path", str(tmp_path / name))
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
        files = map(str, (tmp_path / name).glob("*.parquet"))  # the sink's own list of the second's would begin with micro-batch 0
        told[name] = [row for row in spark.read.parquet(*files).collect() if not behind(row)]
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    before = {(row.symbol, row.a) for row in told["first"]}
    wanted = [row for row in spark.sql(texts["second"].format(t="ticks_table")).collect() if not behind(row) and (row.symbol, row.a) not in before]
    assert sorted(map(str, told["second"])) == sorted(map(str, wanted)) and len(wanted) > 5 and len(before) > 5


NEIGHBOURS = """SELECT * FROM ticks_stream MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts MEASURES FIRST(n) AS a, {} AS m EVENT SELECTION SKIP TILL NEXT MATCH
    PATTERN (A B) WINDOW INTERVAL '1' MINUTE DEFINE A AS price = 1, B AS price = 2)"""


@pytest.mark.further
def test_a_statement_is_compared_with_the_last_one_that_ran(spark, tmp_path):
    """Without PREV, rows that no variable accepts are dropped. So PREV may be removed, but not added again. A statement whose first
    micro-batch failed has not changed the state."""
    source, before, plain = tmp_path / "in", NEIGHBOURS.format("PREV(B.price)"), NEIGHBOURS.format("LAST(price)")
    source.mkdir()
    stream(spark, source).createOrReplaceTempView("ticks_stream")

    def resumed(text: str, *rows: tuple[int, int]) -> None:
        put(source, len(list(source.iterdir())), [{"symbol": "k0", "at": at, "n": at, "price": price, "f": None} for at, price in rows])
        ran(spark.sql(text), tmp_path)

    resumed(before, (1, 1), (2, 7), (20, 0))
    checkpoint = tmp_path / "out.checkpoint"
    later = next(checkpoint.glob("state/*/_sparkcep")) / "statements"
    later.mkdir()
    failed = later / str(1 + max(int(path.name) for path in checkpoint.glob("commits/[0-9]*")))
    failed.write_text("[]")
    resumed(before, (21, 2), (22, 1), (23, 7))
    assert not failed.exists()
    resumed(plain, (24, 8), (60, 0))
    assert len(list(later.glob("[0-9]*"))) == 1
    assert "(whether PREV and NEXT in MEASURES read neighbouring rows differs)" in not_started(spark.sql(before), checkpoint)
    resumed(plain, (61, 2), (62, 0), (END, 0), (END + 100, 0))
    resumed(plain, (END + 200, 0))
    assert [(row.a, row.m) for row in spark.read.parquet(str(tmp_path / "out")).orderBy("a").collect()] == [(1, 2), (22, 2)]


@pytest.mark.further
def test_the_first_rows_and_the_first_matches(spark, tmp_path):
    """LIMIT below a clause: the rows that came first are searched, and the watermark moves on by all. LIMIT above: that many are
    told."""
    source, rows = tmp_path / "in", rows_of(13)
    source.mkdir()
    parts = pieces(rows, random.Random(13), 4)
    for number, piece in enumerate([*parts, closing([("k0", None)])]):
        put(source, number, piece)
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    firsts = len(parts[0]) + len(parts[1])
    ran(spark.sql(STATEMENTS["v"].format(t=f"(SELECT * FROM ticks_stream LIMIT {firsts})")), tmp_path)
    spark.read.schema(SCHEMA).json([str(source / f"{number:03}.json") for number in (0, 1)]).createOrReplaceTempView("ticks_table")
    wanted = sorted(map(str, spark.sql(STATEMENTS["v"].format(t="ticks_table")).collect()))
    assert written(spark, tmp_path) == wanted and len(wanted) > 10
    ran(spark.sql(f"SELECT * FROM ({STATEMENTS['v'].format(t='ticks_stream')}) LIMIT 3"), tmp_path, "few")
    few = written(spark, tmp_path, "few")
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    assert len(few) == 3 and set(few) <= set(map(str, spark.sql(STATEMENTS["v"].format(t="ticks_table")).collect()))


@pytest.mark.slow  # test_chained_streams.py and test_idle_keys.py count open keys, too
def test_keys_are_let_go(spark, tmp_path):
    """State returns to nothing once nothing is under way."""
    source = tmp_path / "in"
    source.mkdir()
    for number in range(3):
        put(source, number, [{"symbol": f"{number} {i}", "at": 1 + 1000 * number + i % 5, "n": i, "price": i % 3, "f": None} for i in range(60)])
    put(source, 3, [{"symbol": "end", "at": END, "n": 0, "price": 9, "f": None}])
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    text = "SELECT * FROM ticks_stream MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts MEASURES FIRST(n) AS a, LAST(n) AS b EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B) " \
        "WINDOW INTERVAL '1' MINUTE DEFINE A AS price = 0, B AS price = 1)"
    progress = ran(spark.sql(text), tmp_path)
    operators = [p["stateOperators"][0] for p in progress]
    assert max(operator["numRowsTotal"] for operator in operators) >= 60
    for name in ("openKeys", "keptRows", "pendingRows", "stateBytes"):
        counted = [operator["customMetrics"][name] for operator in operators]
        assert counted[-1] == 0 and (max(counted) >= 60 or name == "keptRows"), (name, counted)


# -- errors -------------------------------------------------------------------------------------------------------------

HEAD = "PARTITION BY p ORDER BY timestamp MEASURES FIRST(value) AS v"
WRONG = {
    "no order": ("PARTITION BY p MEASURES count(*) AS c PATTERN (A B)", "needs ORDER BY"),
    "descending": ("PARTITION BY p ORDER BY timestamp DESC MEASURES count(*) AS c PATTERN (A B)", "must ascend, in the order of the watermark. Write ORDER BY timestamp"),
    "another order": ("PARTITION BY p ORDER BY value MEASURES count(*) AS c PATTERN (A B)", "must be the watermark column timestamp, unchanged"),
    "computed order": ("PARTITION BY p ORDER BY timestamp + INTERVAL '1' SECOND MEASURES count(*) AS c PATTERN (A B)", "must be the watermark column timestamp, unchanged"),
    "end": (f"{HEAD} PATTERN (A B $)", r"\$ is the end of a partition"),
    "number": (f"{HEAD} PATTERN (A B) WINDOW 5", "WINDOW INTERVAL"),
    "all matches": (f"{HEAD} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B)", "ALL MATCHES without WINDOW would keep all rows"),
    "top": (f"{HEAD} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) WINDOW INTERVAL '5' SECONDS PREF MAX (A.value) TOP 3", "without SLIDE"),
    "top of all keys": (
        f"{HEAD}, NEXT(LAST(value)) AS z EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) WINDOW INTERVAL '5' SECONDS SLIDE INTERVAL '1' SECOND PREF MAX (A.value) TOP 3 OVERALL",
        "NEXT waits for future rows of each key",
    ),
    "count": ("PARTITION BY p ORDER BY timestamp MEASURES MATCH_COUNT() AS c, LAST(value) AS v EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B)", r"MATCH_COUNT\(\) without WINDOW"),
    "graph": ("PARTITION BY p ORDER BY timestamp MEASURES MATCH_GRAPH() AS c, LAST(value) AS v EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) WINDOW INTERVAL '5' SECONDS DEFINE B AS MATCH_NUMBER() > 2", r"MATCH_GRAPH\(\) does not stream yet"),
    "history": ("PARTITION BY p ORDER BY timestamp PATTERN (A B C) WINDOW INTERVAL '5' SECONDS APPROX 1 MATCH HISTORY DEFINE A AS value = 1", "MATCH HISTORY"),
    "collation": ("PARTITION BY p ORDER BY timestamp, word COLLATE UTF8_LCASE MEASURES count(*) AS c PATTERN (A B)", "cannot be ordered by .*COLLATE UTF8_BINARY"),
    "nested order": ("PARTITION BY p ORDER BY timestamp, array(value) MEASURES count(*) AS c PATTERN (A B)", "Order by its fields or elements"),
}


@pytest.fixture(scope="module")
def rate(spark):
    frame = spark.readStream.format("rate").load().selectExpr("timestamp", "value", "value % 3 AS p", "timestamp AS other", "string(value) AS word")
    frame.withWatermark("timestamp", "5 seconds").createOrReplaceTempView("rate_stream")
    frame.createOrReplaceTempView("rate_without")
    frame.withWatermark("other", "5 seconds").createOrReplaceTempView("rate_other")


def refused(spark, statement: str) -> str:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as raised:
        spark.sql(statement)
    return str(raised.value)


@pytest.mark.parametrize("name", WRONG)
def test_errors_come_with_the_statement(spark, rate, name):
    clause, words = WRONG[name]
    text = refused(spark, f"SELECT * FROM rate_stream\nMATCH_RECOGNIZE ({clause})")
    assert text.startswith("[SPARKCEP.STREAM]") and "line 2, column " in text, text
    assert re.search(words, text), text


def test_errors_of_watermarks_and_settings(spark, rate):
    clause = f"{HEAD} PATTERN (A B)"
    assert 'withWatermark("timestamp"' in refused(spark, f"SELECT * FROM rate_without MATCH_RECOGNIZE ({clause})")
    assert "must be the watermark column other, unchanged; here it is timestamp" in refused(spark, f"SELECT * FROM rate_other MATCH_RECOGNIZE ({clause})")
    again = f"SELECT * FROM STREAM rate_stream WATERMARK other DELAY OF INTERVAL 5 SECONDS MATCH_RECOGNIZE ({clause})"  # of the view, too
    assert "must be the watermark column other, unchanged; here it is timestamp" in refused(spark, again)
    assert spark.sql(f"WITH r AS (SELECT * FROM rate_stream) SELECT * FROM r MATCH_RECOGNIZE ({clause})").isStreaming  # it is not below the clause
    inner = "SELECT * FROM rate_stream MATCH_RECOGNIZE (PARTITION BY p ORDER BY timestamp MEASURES FIRST(value) AS value, FIRST(timestamp) AS timestamp PATTERN (A B))"
    assert "without WINDOW INTERVAL" in refused(spark, f"SELECT * FROM ({inner}) MATCH_RECOGNIZE ({clause})")
    spark.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    assert ROCKSDB in refused(spark, f"SELECT * FROM rate_stream MATCH_RECOGNIZE ({clause})")
    spark.conf.set(PROVIDER, ROCKSDB)
    spark.conf.set("sparkcep.mapInArrow", "false")
    try:
        assert "sparkcep.mapInArrow is false" in refused(spark, f"SELECT * FROM rate_stream MATCH_RECOGNIZE ({clause})")
    finally:
        spark.conf.unset("sparkcep.mapInArrow")


def test_a_misspelled_column_is_told(spark, rate):
    """Spark's own words would be that a streaming query is not allowed in a subquery."""
    text = refused(spark, "SELECT * FROM rate_stream\nMATCH_RECOGNIZE (PARTITION BY p ORDER BY timestamp MEASURES count(*) AS c PATTERN (A B) DEFINE B AS valu > 3)")
    assert "UNRESOLVED_COLUMN" in text and "`valu`" in text and "line 2, column 101" in text, text
    text = refused(spark, "SELECT x FROM rate_stream MATCH_RECOGNIZE (PARTITION BY q ORDER BY timestamp MEASURES count(*) AS c PATTERN (A B))")
    assert "UNRESOLVED_COLUMN" in text and "`q`" in text, text


def test_errors_when_a_query_starts(spark, rate, tmp_path):
    frame = spark.sql(f"SELECT * FROM rate_stream MATCH_RECOGNIZE ({HEAD}, LAST(timestamp) AS z PATTERN (A B))")
    checkpoint = tmp_path / "checkpoint"
    place = r".*\(line 1, column "
    assert re.match(r"\[SPARKCEP.STREAM\] output mode complete .*append" + place, not_started(frame, checkpoint, "complete"))
    assert re.match(r"\[SPARKCEP.STREAM\] a clause over a stream needs micro-batches, and trigger\(continuous=...\) does not make them. Write trigger\(processingTime=\"" + place, not_started(frame, checkpoint, continuous="1 second"))
    without = spark.table("rate_stream").writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    without.processAllAvailable()
    without.stop()
    assert "the checkpoint is of a query without a clause" in not_started(frame, checkpoint)


@pytest.mark.further
def test_a_checkpoint_that_the_operator_cannot_read_is_named(spark, tmp_path):
    """The statement's file is written whole; one that is damaged or missing is named, and so is a state of the other route."""
    source = tmp_path / "in"
    source.mkdir()
    put(source, 0, rows_of(3, 20))
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    text = STATEMENTS["v"].format(t="ticks_stream")
    ran(spark.sql(text), tmp_path)
    (statement,) = tmp_path.glob("out.checkpoint/state/*/_sparkcep/statement.json")
    whole, sums = statement.read_bytes(), statement.with_name(".statement.json.crc")
    for damaged in (whole[:100], b"", b"[]"):
        statement.write_bytes(damaged)  # at first with Hadoop's sum of the whole file
        said = not_started(spark.sql(text), tmp_path / "out.checkpoint")
        assert re.match(r"\[SPARKCEP.STREAM\] the checkpoint is damaged: \S+/_sparkcep/statement.json is not a complete statement. Restore the checkpoint \(line ", said), said
        sums.unlink(missing_ok=True)
    statement.unlink()
    assert re.search(r"damaged: \S+/_sparkcep/statement.json, the statement of its state, is missing. Restore the checkpoint", not_started(spark.sql(text), tmp_path / "out.checkpoint"))
    spark.conf.set("sparkcep.stream.route", "frames")
    try:
        ran(spark.sql(text), tmp_path, "frames")
    finally:
        spark.conf.unset("sparkcep.stream.route")
    assert re.search(r"ran as DataFrame programs.*sparkcep.stream.route = frames", not_started(spark.sql(text), tmp_path / "frames.checkpoint"))


def test_the_encoding_of_states_is_said_before_a_query_starts(spark, rate):
    spark.conf.set("spark.sql.streaming.stateStore.encodingFormat", "avro")
    try:
        assert "spark.sql.streaming.stateStore.encodingFormat is avro" in refused(spark, f"SELECT * FROM rate_stream MATCH_RECOGNIZE ({HEAD} PATTERN (A B))")
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.encodingFormat")


@pytest.mark.further
def test_columns_of_any_name_and_type(spark, tmp_path):
    """ALL ROWS PER MATCH gives the user's columns back, whatever they are called, arrays and structs among them."""
    source = tmp_path / "in"
    source.mkdir()
    put(source, 0, [{"symbol": "k", "at": 1 + i, "n": i, "price": i % 4, "f": None} for i in range(20)])
    put(source, 1, [{"symbol": symbol, "at": at, "n": 0, "price": 0, "f": None} for symbol, at in (("k", END), ("last", 3 * END))])
    text = "SELECT * FROM (SELECT *, price AS __s0, n AS __k, array(price, n) AS many, struct(symbol, n) AS two FROM {t}) MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts " \
        "MEASURES array_agg(B.many) AS l ALL ROWS PER MATCH PATTERN (A B+) DEFINE B AS price > PREV(price))"
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    ran(spark.sql(text.format(t="ticks_stream")), tmp_path)
    wanted = sorted(map(str, spark.sql(text.format(t="ticks_table")).collect()))
    assert written(spark, tmp_path) == wanted and len(wanted) == 20


# -- the page -----------------------------------------------------------------------------------------------------------


@pytest.mark.further
def test_the_page_runs(spark, tmp_path, monkeypatch, capsys):
    """The blocks of docs/streams.md, one after the other, in an empty folder."""
    page = Path(sparkcep.__file__).resolve().parents[1].joinpath("docs", "streams.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for name in ("clicks_so_far", "clicks_history"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
    shown = 0
    for block, text in re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", page, re.S):
        # the JVM stays in the folder in which it began
        block = re.sub(r'((?:json|parquet)\(|"path", |"checkpointLocation", )"', rf'\1"{tmp_path}/', block)
        exec(compile(block, "streams.md", "exec"), names)
        assert capsys.readouterr().out.strip() == text.strip()
        shown += bool(text)
    assert shown == 6
    assert spark.table("clicks_so_far").count() == 13
    operator = names["query"].lastProgress["stateOperators"][0]
    assert operator["operatorName"] == "matchRecognize" and "keysSearched" in operator["customMetrics"]
    told = names["query"]._jsq.explainInternal(False)
    with sqlite3.connect("alerts.db") as database:
        found = database.execute("SELECT symbol, price_was, price FROM alerts ORDER BY symbol, price DESC").fetchall()
    assert found == [("A", 10, 9), ("A", 9, 8), ("A", 8, 7), ("B", 5, 4)]
    parser = spark._jsparkSession.sessionState().sqlParser()
    for block in re.findall(r"```text\n((?:MERGE|CREATE) .*?)```", page, re.S):
        if "AUTO CDC" in block and spark.version < "4.3":
            continue
        assert re.search("MergeInto|AutoCdcInto|CreateStreamingTableAsSelect", parser.parsePlan(block).toString())
    line = re.search(r"```\n(MatchRecognize match_recognize\(.*\))\n```", page)[1]
    assert line.partition("(")[2].rstrip(")") in told
