"""A clause over a stream as a program of data frames (sparkcep.stream.route): its rows against those over the same files as a
table, restarts, late rows, what is refused, and Spark Connect, whose server has no extension."""

from __future__ import annotations

import json
import math
import os
import random
import re
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import ParseException, StreamingQueryException  # noqa: E402

import sparkcep  # noqa: E402
from sparkcep.plan.scope import RANK  # noqa: E402
from sparkcep.spark.report.bucket_report import under_way  # noqa: E402
from sparkcep.spark.stream.frames.ranks import best  # noqa: E402
from sparkcep.spark.stream.progress import figures  # noqa: E402
from sparkcep.spark.stream.start_checks import PROVIDER, ROCKSDB  # noqa: E402
from tests.selection import further, slow  # noqa: E402
from tests.spark.programs import connected  # noqa: E402
from tests.spark.report.test_report import tables  # noqa: E402
from tests.spark.stream import kept_checkpoint  # noqa: E402
from tests.spark.stream.test_idle_keys import IDLE  # noqa: E402
from tests.spark.stream.test_streams import END, SCHEMA, STATEMENTS, V, behind, closing, pieces, put, ran, rows_of, stream  # noqa: E402
from tests.support.pages import check  # noqa: E402

ROUTE, BUCKETS = "sparkcep.stream.route", "sparkcep.stream.buckets"
NO_FRAMES = ("two", "twice")  # more than one stateful operator of Spark's
EVERY_TYPE = (
    "SELECT * FROM (SELECT *, price AS __s0, named_struct('a', array(f), 'b', 7) AS two, CAST(price AS DECIMAL(20, 3)) AS d, make_dt_interval(0, 0, n) AS i, "
    "CAST(symbol AS BINARY) AS b, CAST(ts AS DATE) AS day, CAST(ts AS TIMESTAMP_NTZ) AS local, IF(n % 3 = 0, NULL, 9007199254740993L) AS large, map(symbol || 'x', n) AS m "
    "FROM {t} WHERE symbol IS NOT NULL) MATCH_RECOGNIZE (PARTITION BY day, d > 4, two.a ORDER BY ts, n MEASURES LAST(two) AS last, LAST(d) AS ld, array_agg(B.i) AS l "
    "ALL ROWS PER MATCH PATTERN (A B+) WINDOW INTERVAL '60' SECONDS DEFINE B AS price > PREV(price))"
)
MONTHS = (
    "SELECT CAST(m AS STRING) AS m, first, n, CAST(last AS STRING) AS last, CAST(most AS STRING) AS most FROM (SELECT *, make_ym_interval(0, n % 3) AS m, make_ym_interval(n) AS y FROM {t} "
    "WHERE symbol IS NOT NULL) MATCH_RECOGNIZE (PARTITION BY m, symbol ORDER BY ts, n MEASURES FIRST(ts) AS first, count(*) AS n, LAST(m) AS last, max(y) AS most "
    "PATTERN (A B+) WINDOW INTERVAL '60' SECONDS DEFINE B AS y <> PREV(y))"
)


@pytest.fixture(autouse=True)
def route(spark):
    spark.conf.set(ROUTE, "frames")
    spark.conf.set(BUCKETS, "3")
    yield
    spark.conf.unset(ROUTE)
    spark.conf.unset(BUCKETS)


def wanted(spark, source, statement: str, where: str = "true") -> list[str]:
    spark.read.schema(SCHEMA).json(str(source)).where(where).createOrReplaceTempView("ticks_table")
    return sorted(str(row) for row in spark.sql(statement.format(t="ticks_table")).collect() if not behind(row))


def told(spark, folder) -> list[str]:
    return sorted(str(row) for row in spark.read.parquet(str(folder / "out")).collect() if not behind(row))


@pytest.mark.parametrize("name", [
    further("every_type"), slow("months"), *(slow(name) for name in STATEMENTS if name not in NO_FRAMES),
])  # fmt: skip
def test_the_rows_are_those_of_the_table(spark, tmp_path, name):
    source, statement = tmp_path / "in", {**STATEMENTS, "every_type": EVERY_TYPE, "months": MONTHS}[name]
    source.mkdir()
    rows, rng = rows_of(len(name)), random.Random(name)
    keys = list({(row["symbol"], repr(row["f"])): (row["symbol"], row["f"]) for row in rows}.values())
    for number, piece in enumerate([*pieces(rows, rng, 3), closing(keys)]):
        put(source, number, piece)
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    frame = spark.sql(statement.format(t="ticks_stream"))
    assert frame.schema == spark.sql(statement.format(t="ticks_stream")).schema
    progress = ran(frame, tmp_path)
    expected = wanted(spark, source, statement)
    assert told(spark, tmp_path) == expected and len(expected) > 10
    assert [operator["operatorName"] for p in progress for operator in p["stateOperators"]] == ["applyInPandasWithState"] * len(progress)


def test_a_score_that_is_no_number_ranks_as_spark_orders_it():
    scores = [1.0, math.nan, None, math.inf, math.nan]
    rows = pa.table({"word": ["a", "b", "c", "d", "e"], "score": scores})
    assert best(rows, 3, (True,)).to_pydict() == {"word": ["a", "b", "d", "e"], RANK: [3, 1, 2, 1]}
    assert best(rows, 3, (False,)).to_pydict() == {"word": ["a", "c", "d"], RANK: [2, 1, 3]}


@pytest.mark.further
def test_ranks_are_those_of_spark(spark):
    """NULL, NaN, negative zero, arrays of which one begins another, structs and texts, ascending and descending."""
    rng = random.Random(7)
    schema = "score DOUBLE, many ARRAY<BIGINT>, one STRUCT<a: STRING, b: DOUBLE>, word STRING, d DECIMAL(9, 2)"

    def number():
        return rng.choice([0.0, -0.0, 1.5, -2.0, math.nan, math.inf, None])

    rows = [
        (rng.choice([0.0, -0.0, 1.5, None]), rng.choice([None, [], [1], [1, 2], [1, None], [2]]), rng.choice([None, (rng.choice(["a", "\u00e9", "Z", None]), number())]),
         rng.choice(["", "a", "\U0001f600", "\uffee", None]), rng.choice([None, Decimal("1.50"), Decimal("-3.00")]))
        for _ in range(400)
    ]
    frame = spark.createDataFrame(rows, schema)
    order, top = "score DESC NULLS LAST, many, one ASC NULLS FIRST, word, d DESC NULLS LAST", 60
    frame.createOrReplaceTempView("ranked_rows")
    wanted = spark.sql(f"SELECT word, score, rank FROM (SELECT *, dense_rank() OVER (ORDER BY {order}) AS rank FROM ranked_rows) WHERE rank <= {top}").collect()
    table = frame.selectExpr("word AS w", "score AS s", "score", "many", "one", "word", "d").toArrow()
    found = best(table, top, (True, False, False, False, True)).to_pydict()
    assert Counter(map(str, map(tuple, wanted))) == Counter(map(str, zip(*found.values(), strict=True))) and len(wanted) > top


@pytest.mark.further
def test_a_restart_goes_on_and_another_statement_is_refused(spark, tmp_path, caplog):
    """Late rows are dropped and counted; buckets, the statement and the route are those of the checkpoint."""
    source = tmp_path / "in"
    source.mkdir()
    rows, late = rows_of(7, 200), {"symbol": "k0", "at": 2, "n": 1000, "price": 5, "f": None}
    parts, nothing = pieces(rows, random.Random(7), 3), {"symbol": "k0", "at": None, "n": 1000, "price": 1, "f": None}

    def frame():
        return sparkcep.match_recognize(stream(spark, source), partition_by="symbol", order_by=["ts", "n"], clause=V)

    put(source, 0, parts[0])
    with caplog.at_level("WARNING", "sparkcep"):
        first = frame()
    assert "DataFrame program" in caplog.text and "in 3 buckets" in caplog.text
    ran(first, tmp_path)
    put(source, 10, parts[1])
    (source / "011.json").write_text("".join(json.dumps(row | {"ts": "2026-01-01 00:00:02" if row["at"] else None}) + "\n" for row in (late, late, nothing)))
    os.utime(source / "011.json", (1_700_000_011,) * 2)
    put(source, 12, parts[2])
    put(source, 13, closing([("k0", None)]))
    query = frame().writeStream.format("parquet").option("path", str(tmp_path / "out")).option("checkpointLocation", str(tmp_path / "out.checkpoint"))
    query = query.trigger(availableNow=True).start()
    query.awaitTermination()
    counted = [figures(p)[0] for p in query.recentProgress]
    assert sum(c["lateRows"] for c in counted) == 2 and sum(c["rowsWithoutTime"] for c in counted) == 1
    assert counted[-1]["openKeys"] == counted[-1]["pendingRows"] == 1 and max(c["openKeys"] for c in counted) >= 5
    assert sum(c["engineTimeMs"] for c in counted) > 0
    shown = tables(check(sparkcep.report(query)))
    now = next(dict(zip(table[1::2], table[2::2])) for table in shown if "late rows, in these" in table)
    assert (now["late rows, in these"], now["keys with saved state"]) == ("2", "1")
    told_of = query._jsq.explainInternal(False)
    assert "match_recognize by data frames, state per key: rows later than the watermark, until it passes them" in told_of
    expected = wanted(spark, source, STATEMENTS["v"], "n < 1000")
    assert told(spark, tmp_path) == expected and len(expected) > 10
    put(source, 20, [{"symbol": "k0", "at": 4 * END, "n": 1, "price": 3, "f": None}])
    with pytest.raises(ParseException, match=r"SPARKCEP.STREAM.*another statement.*DEFINE differ.*line 3, column"):
        ran(sparkcep.match_recognize(stream(spark, source), partition_by="symbol", order_by=["ts", "n"], clause=V.replace("price < PREV(price)", "price < PREV(price) AND n > 3")), tmp_path)
    spark.conf.set(BUCKETS, "4")
    with pytest.raises(ParseException, match=r"SPARKCEP.STREAM.*the checkpoint has 3 buckets of keys, but sparkcep.stream.buckets is 4. Set it to 3"):
        ran(frame(), tmp_path)
    spark.conf.set(ROUTE, "operator")
    with pytest.raises(Exception, match=r"ran as DataFrame programs"):
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
        try:
            ran(frame(), tmp_path)
        finally:
            spark.conf.unset("spark.sql.streaming.stateStore.providerClass")


OLDEST = "symbol, day, f", "EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B) WINDOW INTERVAL '1' HOUR DEFINE A AS price = 1, B AS price = 2"


@pytest.mark.further
def test_a_report_tells_the_matches_under_way(spark, tmp_path):
    """The keys that wait for longest, by values that are known by their bits."""
    source = tmp_path / "in"
    source.mkdir()
    rows = [("x", 10, 1, 1.5), ("x", 30, 1, 1.5), ("<y>", 20, 1, None), ("<y>", 25, 2, None), ("<y>", 40, 1, None), (None, 35, 1, -0.0), ("late", 300, 1, 0.0)]
    put(source, 0, [{"symbol": key, "at": at, "n": i, "price": price, "f": f} for i, (key, at, price, f) in enumerate(rows)])
    spark.conf.set(BUCKETS, "1")
    stream(spark, source).selectExpr("*", "CAST(ts AS DATE) AS day").createOrReplaceTempView("ticks_stream")
    text = f"SELECT * FROM ticks_stream MATCH_RECOGNIZE (PARTITION BY {OLDEST[0]} ORDER BY ts, n MEASURES LAST(ts) AS z {OLDEST[1]})"
    query = spark.sql(text).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    page = tables(check(sparkcep.report(query)))
    oldest = next([cell for cell in table if cell.strip()] for table in page if "first row at" in table)
    width = oldest.index("bytes of its state") + 1
    found = [tuple(oldest[i : i + width])[:2] for i in range(width, len(oldest), width)]
    begun = [("x, 2026-01-01, 1.5", 10), ("NULL, 2026-01-01, 0.0", 35), ("<y>, 2026-01-01, NULL", 40)]
    assert found == [(key, f"2026-01-01 00:00:{at}.000000 UTC") for key, at in begun]
    (longest,) = under_way(spark, str(tmp_path / "checkpoint"), 1).collect()
    assert longest.key[0] == "x" and (longest.rows, longest.pending) == (2, 0)
    assert any("the states of all keys, as the last micro-batch left them" in cell for table in page for cell in table)


@pytest.mark.slow  # test_idle_keys.py does by the operator what this does by frames
def test_keys_that_are_idle(spark, tmp_path):
    """sparkcep.stream.idleTimeout holds here as well: a session is a further key of the table."""
    source, clause = tmp_path / "in", "MEASURES MATCH_NUMBER() AS m, FIRST(ts) AS a, count(*) AS c PATTERN (^ A B* | C D+) DEFINE B AS price > PREV(price), D AS price < 8"
    source.mkdir()
    spark.conf.set(IDLE, "4 seconds")
    try:
        for number, piece in enumerate([*pieces([row for row in rows_of(3, 300) if row["at"] % 60 < 40], random.Random(3), 3), closing([("last", None)])]):
            put(source, number, piece)
        put(source, 9, [{"symbol": "last", "at": 3 * END, "n": 0, "price": 9, "f": None}])
        stream(spark, source).createOrReplaceTempView("ticks_stream")
        ran(spark.sql(f"SELECT * FROM ticks_stream MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n {clause})"), tmp_path)
    finally:
        spark.conf.unset(IDLE)
    spark.read.schema(SCHEMA).json(str(source)).where("NOT symbol <=> 'last'").createOrReplaceTempView("ticks_table")
    spark.sql("SELECT *, coalesce(ts - lag(ts) OVER (PARTITION BY symbol ORDER BY ts, n) >= INTERVAL '4' SECOND, false) AS cut FROM ticks_table").createOrReplaceTempView("cut_table")
    spark.sql("SELECT *, count_if(cut) OVER (PARTITION BY symbol ORDER BY ts, n) AS session FROM cut_table").createOrReplaceTempView("session_table")
    of_table = f"SELECT symbol, m, a, c FROM session_table MATCH_RECOGNIZE (PARTITION BY symbol, session ORDER BY ts, n {clause})"
    found = sorted(str(row) for row in spark.read.parquet(str(tmp_path / "out")).collect() if row.symbol != "last")
    assert found == sorted(map(str, spark.sql(of_table).collect())) and len(found) > 20


def test_a_table_of_late_rows_needs_the_operator(spark, tmp_path):
    stream(spark, tmp_path).createOrReplaceTempView("ticks_stream")
    spark.conf.set("sparkcep.stream.lateRows", "late")
    try:
        with pytest.raises(Exception, match=r"SPARKCEP.STREAM.*only the JVM extension writes late rows to a table"):
            spark.sql(STATEMENTS["v"].format(t="ticks_stream"))
    finally:
        spark.conf.unset("sparkcep.stream.lateRows")


def test_a_checkpoint_of_the_operator_is_refused(spark, tmp_path):
    kept_checkpoint.unpacked("v", tmp_path)
    kept_checkpoint.files("v", tmp_path / "in")
    stream(spark, tmp_path / "in").createOrReplaceTempView("ticks_stream")
    with pytest.raises(ParseException, match=r"clauses used the operator of the JVM extension. Now they run as DataFrame programs.*line 2, column"):
        ran(spark.sql(STATEMENTS["v"].format(t="ticks_stream")), tmp_path)


@pytest.mark.slow  # test_session.py has such a column of a table
def test_a_char_column_is_one_above_the_clause(spark, tmp_path):
    """With the operator and by data frames."""
    spark.sql(f"CREATE TABLE padded (ts TIMESTAMP, code CHAR(4)) USING parquet LOCATION '{tmp_path}/padded'")
    try:
        spark.sql("INSERT INTO padded VALUES (TIMESTAMP'2026-01-01', 'a'), (TIMESTAMP'2026-01-01 00:00:01', 'a'), (TIMESTAMP'2026-01-02', 'b'), (TIMESTAMP'2026-01-03', 'c')")
        spark.readStream.table("padded").withWatermark("ts", "1 second").createOrReplaceTempView("ticks_stream")
        text = "SELECT code, c, z FROM ticks_stream MATCH_RECOGNIZE (PARTITION BY code ORDER BY ts MEASURES LAST(A.code) AS c, LAST(ts) AS z PATTERN (A+) WINDOW INTERVAL '9' SECONDS)"
        for way in ("frames", "operator"):
            spark.conf.set(ROUTE, way)
            spark.conf.set(PROVIDER, ROCKSDB)
            ran(spark.sql(f"{text} WHERE code = 'a' AND c IN ('a', 'b')"), tmp_path, way)
            (found,) = spark.read.parquet(str(tmp_path / way)).collect()
            assert (found.code, found.c) == ("a   ", "a   "), way
    finally:
        spark.conf.unset(PROVIDER)
        spark.sql("DROP TABLE padded")


@pytest.mark.slow  # test_streams.py has one such checkpoint
def test_a_checkpoint_of_a_query_without_the_clause_is_refused(spark, tmp_path):
    """Whichever way its folder is told; nothing of it is read where no micro-batch was committed."""
    source = tmp_path / "in"
    source.mkdir()
    put(source, 0, rows_of(3, 40))
    ticks, text = stream(spark, source), "SELECT * FROM ticks_stream MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES LAST(ts) AS z PATTERN (A B) DEFINE B AS price > 3)"
    ticks.createOrReplaceTempView("ticks_stream")

    def counted(key, frames, state):
        state.update((sum(map(len, frames)),))
        yield from ()

    clause, own = spark.sql(text), "spark.sql.streaming.checkpointLocation"
    for name, before in (("plain", ticks), ("own", ticks.groupBy("symbol").applyInPandasWithState(counted, "c BIGINT", "c BIGINT", "append", "NoTimeout"))):
        before.writeStream.format("noop").option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True).start().awaitTermination()
    spark.conf.set(own, str(tmp_path))
    try:
        starts = [
            lambda: clause.writeStream.format("noop").option("CheckpointLocation", str(tmp_path / "own")).start(),
            lambda: clause.writeStream.format("noop").start(checkpointLocation=tmp_path / "plain"),
            lambda: clause.writeStream.format("noop").queryName("plain").start(),
            lambda: clause.writeStream.format("noop").start(queryName="own"),
            lambda: clause.writeStream.format("noop").start(None, None, None, None, "own"),
            lambda: clause.writeStream.queryName("plain").toTable("never_written"),
        ]
        for start in starts:
            with pytest.raises(ParseException, match=r"the checkpoint is of a query without a clause \(it does not contain a statement\).*line 1, column 112"):
                start()
    finally:
        spark.conf.unset(own)
    ran(clause, tmp_path)
    for commit in (tmp_path / "out.checkpoint" / "commits").iterdir():
        commit.unlink()
    ran(clause, tmp_path)


@pytest.mark.further
def test_a_checkpoint_that_cannot_be_read_before_the_start_is_compared_by_the_first_micro_batch(spark, tmp_path, caplog, monkeypatch):
    """A platform may have no source of states: what a worker compares is what counts."""
    source, text = tmp_path / "in", "SELECT * FROM ticks_stream MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES LAST(ts) AS z PATTERN (A B) DEFINE B AS price > {})"
    source.mkdir()
    put(source, 0, rows_of(3, 40))
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    ran(spark.sql(text.format(3)), tmp_path)
    put(source, 1, rows_of(3, 40))
    original = type(spark.read).format
    monkeypatch.setattr(type(spark.read), "format", lambda self, name: original(self, "none.such" if name in ("statestore", "state-metadata") else name))
    with pytest.raises(StreamingQueryException, match=r"another statement.*DEFINE differ"):
        ran(spark.sql(text.format(4)), tmp_path)
    assert "cannot be read before the query starts ([DATA_SOURCE_NOT_FOUND] Failed to find the data source: none.such" in caplog.text


# -- a session that has no extension ------------------------------------------------------------------------------------

CLIENT = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
import sparkcep
from sparkcep.spark.stream.memory_sink import Running
from sparkcep.spark.stream.progress import figures
from tests.spark.stream.test_streams import SCHEMA, STATEMENTS, V, stream

source, folder = Path(sys.argv[1]), Path(sys.argv[2])
builder = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "1").config("spark.sql.session.timeZone", "UTC").config("sparkcep.stream.buckets", "2")
spark = sparkcep.enable(builder.getOrCreate(), warm=False)
files = stream(spark, source)
files.createOrReplaceTempView("ticks_stream")
report = {"module": type(spark).__module__}


def run(frame, name):
    query = frame.writeStream.format("json").option("path", str(folder / name)).option("checkpointLocation", str(folder / (name + ".checkpoint")))
    query = query.trigger(availableNow=True).start()
    query.awaitTermination()
    report[name] = [figures(progress) for progress in query.recentProgress]
    report["page"] = sparkcep.report(query)
    try:
        sparkcep.why(query, at="symbol = 'k0'")
    except Exception as error:
        report["why"] = str(error)


statement = "WITH ours AS (SELECT * FROM ticks_stream WHERE n >= :least) " + STATEMENTS["v"].format(t="ours") + " WHERE c > 1"
run(spark.sql(statement, {"least": 0}), "text")
running = Running(spark.sql(STATEMENTS["v"].format(t="ticks_stream")), 3, once=True)
while not running.ended(1):
    pass
running.stop()
report["latest"] = [running.seen().total, len(running.seen().rows), running.seen().rows[0][0] is not None]
running.forget()
report["views"] = [table.name for table in spark.catalog.listTables("global_temp") if table.name == running.view]
running = Running(spark.sql("SELECT 1 / (price - 1) AS x FROM ticks_stream"), 3, once=True)
try:
    while not running.ended(1):
        pass
except Exception as error:
    report["failed"] = str(error)
report["frame"] = sparkcep.match_recognize(files, partition_by="symbol", order_by=["ts", "n"], clause=V).isStreaming

wrong = {
    "view": "CREATE TEMP VIEW v AS " + STATEMENTS["v"].format(t="ticks_stream"),
    "column": STATEMENTS["v"].format(t="ticks_stream").replace("DOWN AS price", "DOWN AS pric"),
    "inner": "SELECT * FROM (WITH z AS (SELECT * FROM ticks_stream) " + STATEMENTS["v"].format(t="z") + ")",
    "operator": STATEMENTS["v"].format(t="ticks_stream"),
}
for name, text in wrong.items():
    spark.conf.set("sparkcep.stream.route", "operator" if name == "operator" else "auto")
    try:
        spark.sql(text)
        report[name] = "no error"
    except Exception as error:
        report[name] = str(error)
spark.conf.unset("sparkcep.stream.route")
report["table"] = spark.sql(STATEMENTS["v"].format(t="(SELECT * FROM VALUES ('a', TIMESTAMP '2026-01-01', 1, 2, 0D) AS t(symbol, ts, n, price, f))")).collect()
(folder / "report").write_text(json.dumps(report))
spark.stop()
"""


@pytest.mark.process
def test_spark_connect_whose_server_has_no_extension(spark, tmp_path):
    pytest.importorskip("grpc")
    source = tmp_path / "in"
    source.mkdir()
    waiting = [{"symbol": "k0", "at": 3 * END - 13 + i, "n": 0, "price": 9 - i, "f": None} for i in range(3)]  # a fall under way
    for number, piece in enumerate([rows_of(3, 120), waiting + closing([])]):
        put(source, number, piece)
    report = connected(CLIENT, [str(source), str(tmp_path)], tmp_path, tmp_path / "report")
    assert report["module"].startswith("pyspark.sql.connect.") and report["table"] == []
    shown = tables(check(report["page"]))
    now = next(dict(zip(table[1::2], table[2::2])) for table in shown if "rows in, in these" in table)
    oldest = next(table for table in shown if "first row at" in table)
    assert now["rows in, in these"] == "124" and "k0" in oldest and "FlatMapGroupsInPandasWithState" in report["page"]
    assert "Over Spark Connect the state of a query is not explained" in report["why"]
    assert report["latest"][0] > 10 and report["latest"][1] == 3 and report["failed"].startswith("[DIVIDE_BY_ZERO]") and report["views"] == []
    schema = "symbol string, a timestamp, u int, z timestamp, c bigint"
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    rows = sorted(str(row) for row in spark.sql(STATEMENTS["v"].format(t="ticks_table")).collect() if not behind(row))
    assert sorted(str(row) for row in spark.read.schema(schema).json(str(tmp_path / "text")).collect() if not behind(row)) == rows
    assert sum(counted["matches"] for progress in report["text"] for counted in progress) >= len(rows) > 5 and report["frame"]
    assert re.search(r"SPARKCEP.STREAM\] CREATE over a stream needs the JVM extension.*createOrReplaceTempView.*line 2, column", report["view"])
    assert "UNRESOLVED_COLUMN" in report["column"] and re.search(r"line 2, column \d+", report["column"])
    assert "put the WITH at the beginning of the statement" in report["inner"]
    assert "sparkcep.stream.route is operator, but the JVM extension is missing" in report["operator"]
    assert "DataFrame program" in (tmp_path / "client.log").read_text()
