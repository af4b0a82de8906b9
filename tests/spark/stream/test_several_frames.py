"""Several clauses of one query over streams as programs of data frames (sparkcep.stream.route): their rows against those over the
same files as a table, and what cannot stand together, which is an error before a micro-batch."""

from __future__ import annotations

import random
import re

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("google.protobuf")

from pyspark.errors import StreamingQueryException  # noqa: E402

import sparkcep  # noqa: E402
from sparkcep.spark.stream.progress import figures  # noqa: E402
from tests.selection import further, slow  # noqa: E402
from tests.spark.programs import connected  # noqa: E402
from tests.spark.stream.test_chained_streams import GROWS, PAIRS, RISES, TWO  # noqa: E402
from tests.spark.stream.test_chained_streams import STATEMENTS as CHAINED  # noqa: E402
from tests.spark.stream.test_revised_streams import CLAUSE as REVISED  # noqa: E402
from tests.spark.stream.test_streams import (  # noqa: E402
    PROVIDER,
    ROCKSDB,
    SCHEMA,
    STATEMENTS,
    B,
    behind,
    closing,
    not_started,
    pieces,
    put,
    refused,
    rows_of,
    stream,
)
from tests.spark.stream.test_streams import ran as ran_once  # noqa: E402

FALLS = RISES.replace("price > PREV(price)", "price < PREV(price)")
OF_TABLE = FALLS.partition("{t}")[2]  # the clause alone
# a clause over a clause, one of which Spark reads the output twice, one joined to a table, one over a join of a stream and a table,
# and one over two streams, in one query
TOGETHER = f"""WITH falls AS ({FALLS}), known AS (SELECT * FROM VALUES ('k0', 'zero'), ('k1', 'one') AS v(symbol, word))
    SELECT 'above' AS form, symbol, a, z, c FROM ({TWO}) UNION ALL
    SELECT 'once', symbol, a, z, c FROM falls WHERE c > 2 UNION ALL
    SELECT 'again', symbol, a, z, c FROM falls WHERE symbol = 'k1' UNION ALL
    SELECT word, symbol, a, z, c FROM ({RISES}) JOIN known USING (symbol) UNION ALL
    SELECT 'over a table', symbol, a, z, c FROM (SELECT t.* FROM {{t}} t LEFT JOIN known ON t.symbol = known.symbol WHERE coalesce(word, 'one') = 'one') {OF_TABLE} UNION ALL
    SELECT 'over both', symbol, a, z, c FROM (SELECT * FROM {{t}} WHERE n % 2 = 0 UNION ALL SELECT * FROM {{t}} WHERE n % 2 = 1) {OF_TABLE}"""
OVER_BOTH = f"""SELECT symbol, x, y FROM (SELECT symbol, a, z FROM ({RISES}) UNION ALL SELECT symbol, ts AS a, ts AS z FROM {{t}} WHERE price = 9)
    MATCH_RECOGNIZE ({PAIRS})"""
RANKED = f"""SELECT symbol, x, y FROM ({STATEMENTS['top'].replace('SELECT symbol, z, k, s, round(x, 3) AS x', 'SELECT symbol, z AS a, z, k, s')})
    MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY a, s, k MEASURES FIRST(a) AS x, LAST(s) AS y PATTERN (P Q) WINDOW INTERVAL '9' SECONDS DEFINE Q AS k <= P.k)"""
FORMS = {
    "together": TOGETHER, "clause": TWO, "two": STATEMENTS["two"], "twice": STATEMENTS["twice"], "over a clause and a stream": OVER_BOTH, "over ranks": RANKED,
    **{name: CHAINED[name] for name in ("three", "all rows", "over a window", "join", "over a join", "over an outer join", "over a join by the other time", "non-overlapping", "over a budget")},
}


@pytest.fixture(autouse=True)
def route(spark):
    settings = {PROVIDER: ROCKSDB, "sparkcep.stream.route": "frames", "sparkcep.stream.buckets": "2"}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key in settings:
        spark.conf.unset(key)


def ran(frame, folder):
    """What the micro-batches say of a query that reads its files. Spark starts a process of Python for each such clause when a
    query starts and gives it ten seconds, which a very busy machine does not keep: then the query goes on."""
    for _ in range(4):
        try:
            return ran_once(frame, folder)
        except StreamingQueryException as error:
            if "Python worker failed to connect back" not in str(error):
                raise
    return ran_once(frame, folder)


def wanted(spark, source, statement: str) -> list[str]:
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    return sorted(str(row) for row in spark.sql(statement.format(t="ticks_table")).collect() if not behind(row))


@pytest.mark.parametrize("name", [further("clause"), *(slow(name) for name in FORMS if name != "clause")])
def test_the_rows_are_those_of_the_table(spark, tmp_path, name):
    """Rows in disorder, cut anywhere, with a restart; no clause calls a row late."""
    source = tmp_path / "in"
    source.mkdir()
    rows, rng = rows_of(len(name), 300), random.Random(name)
    keys = list({(row["symbol"], repr(row["f"])): (row["symbol"], row["f"]) for row in rows}.values())
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    progress = []
    for number, piece in enumerate([*pieces(rows, rng, 2), closing(keys)]):
        put(source, number, piece)
        if number in (0, 2):
            progress += ran(spark.sql(FORMS[name].format(t="ticks_stream")), tmp_path)
    expected = wanted(spark, source, FORMS[name])
    assert sorted(str(row) for row in spark.read.parquet(str(tmp_path / "out")).collect() if not behind(row)) == expected and len(expected) > 5
    assert spark.conf.get("spark.sql.exchange.reuse") == "true"
    counted = [figures(p) for p in progress]
    assert not any(clause["lateRows"] for clauses in counted for clause in clauses)
    # one that WITH names counts once, however often the query reads it
    told = len(expected) * 2 // 3 if name == "twice" else len(expected)
    assert sum(clause["matches"] for clauses in counted for clause in clauses) >= told


@pytest.mark.slow
def test_views_and_frames(spark, tmp_path):
    """A view of a clause's data frame stands below another clause, and frames are joined by their methods, with
    sparkcep.stream.several. Two streams have one watermark, the least; the second one begins later."""
    source, other = tmp_path / "in", tmp_path / "other"
    source.mkdir()
    other.mkdir()
    rows = rows_of(5, 200)
    spark.conf.set("sparkcep.stream.several", "true")
    try:
        stream(spark, source).createOrReplaceTempView("ticks_stream")
        spark.sql(RISES.format(t="ticks_stream")).createOrReplaceTempView("rises_of_stream")
        above = sparkcep.match_recognize(spark.table("rises_of_stream"), clause=GROWS).selectExpr("symbol", "a", "z", "c")
        falls = spark.sql(FALLS.format(t="{frame}"), frame=stream(spark, other))
        both = above.unionByName(falls)
        put(source, 0, rows[:100])
        ran(both, tmp_path)
        put(other, 1, rows)
        put(source, 2, rows[100:])
        ran(both, tmp_path)
        for folder in (source, other):
            put(folder, 3, closing(sorted({(row["symbol"], None) for row in rows}, key=str)))
        ran(both, tmp_path)
    finally:
        spark.conf.unset("sparkcep.stream.several")
    expected = wanted(spark, source, f"SELECT symbol, a, z, c FROM ({TWO}) UNION ALL {FALLS}")
    assert sorted(str(row) for row in spark.read.parquet(str(tmp_path / "out")).collect() if not behind(row)) == expected and len(expected) > 20


@pytest.mark.slow  # test_chained_streams.py has such sums by the operator
def test_sums_of_all_matches(spark, tmp_path):
    """What needs no watermark stands above clauses: the whole answer after each micro-batch, of two clauses at once."""
    source = tmp_path / "in"
    source.mkdir()
    put(source, 0, [*rows_of(5, 100), *closing([("k0", None)])])
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    spark.conf.set("sparkcep.stream.several", "true")
    try:
        frame = spark.sql(f"SELECT symbol, count(*) AS n, sum(c) AS c FROM ({RISES} UNION ALL {FALLS}) WHERE symbol = 'k0' GROUP BY symbol".format(t="ticks_stream"))
    finally:
        spark.conf.unset("sparkcep.stream.several")
    query = frame.writeStream.format("memory").queryName("sums_by_frames").outputMode("complete").option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.read.schema(SCHEMA).json(str(source)).where("ts < '2026-01-01 12:00:00'").createOrReplaceTempView("ticks_table")
    statement = f"SELECT symbol, count(*) AS n, sum(c) AS c FROM ({RISES} UNION ALL {FALLS}) WHERE symbol = 'k0' GROUP BY symbol".format(t="ticks_table")
    assert spark.table("sums_by_frames").collect() == spark.sql(statement).collect() != []


# -- what cannot stand together -------------------------------------------------------------------------------------------

ENDLESS = RISES.replace("WINDOW INTERVAL '12' SECONDS ", "")
WINDOWS = f"SELECT symbol, window.start AS s, count(*) AS n FROM ({RISES}) GROUP BY symbol, window(a, '20 seconds')"
REFUSED = {  # statements, and what is said of them; the place is that of a pattern
    "no order": (f"SELECT * FROM ({RISES}) MATCH_RECOGNIZE ({GROWS.replace('ORDER BY a', 'ORDER BY z')})", r"its watermark column a, unchanged; here it is z", "z"),
    "no end": (f"SELECT * FROM ({ENDLESS}) MATCH_RECOGNIZE ({GROWS})", r"clause below lacks a watermark: without WINDOW INTERVAL '...' a match may take any time", "a"),
    "one without end": (f"SELECT * FROM ({RISES} UNION ALL {ENDLESS}) MATCH_RECOGNIZE ({GROWS})", r"clause below lacks a watermark: without WINDOW", "a"),
    "a join of two clauses": (f"SELECT * FROM (SELECT l.* FROM ({RISES}) l JOIN ({FALLS}) r USING (symbol)) MATCH_RECOGNIZE ({GROWS})", r"another stateful operator below it \(Join\)", r"S M\+"),
    "a join without bounds": (f"SELECT * FROM (SELECT l.symbol, l.ts, l.n, l.price FROM {{t}} l JOIN {{t}} r USING (symbol)){OF_TABLE}", r"does not limit how far apart the times of joined rows are", r"A B\+"),
    "a join without bounds, and a subquery": (f"SELECT * FROM (SELECT l.symbol, l.ts, l.n, l.price FROM {{t}} l JOIN {{t}} r ON l.symbol = r.symbol AND l.price > (SELECT 1)){OF_TABLE}", r"does not limit how far apart the times of joined rows are", r"A B\+"),
    "beside the stream": (f"SELECT DISTINCT * FROM (SELECT symbol, ts, n AS c FROM {{t}} UNION ALL SELECT symbol, a, c FROM ({RISES}))", r"a stateful operator of Spark \(Distinct\) is above the clause", r"A B\+"),
    "outer join": (f"SELECT l.symbol FROM ({RISES}) l LEFT JOIN ({FALLS}) r USING (symbol)", r"a stateful operator of Spark \(Join\) is above the clause", r"A B\+"),
    "join with the stream": (f"SELECT l.symbol FROM ({RISES}) l JOIN {{t}} t ON t.ts BETWEEN l.a AND l.z AND l.symbol = t.symbol", r"a stateful operator of Spark \(Join\) is above the clause", r"A B\+"),
    "join with the stream, and a subquery": (f"SELECT l.symbol FROM ({RISES}) l JOIN {{t}} t ON t.ts BETWEEN l.a AND l.z AND l.symbol = t.symbol AND l.c > (SELECT 1)", r"a stateful operator of Spark \(Join\) is above the clause", r"A B\+"),
    "a window above": (WINDOWS, r"a stateful operator of Spark \(Aggregate\) is above the clause, whose output has a watermark only with the JVM extension; write the clause's output to a table", r"A B\+"),
    "a view": (f"CREATE TEMP VIEW v AS {TWO}", r"CREATE over a stream needs the JVM extension", r"A B\+"),
}


def test_what_cannot_stand_together(spark, tmp_path):
    stream(spark, tmp_path).createOrReplaceTempView("ticks_stream")
    for name, (statement, words, pattern) in REFUSED.items():
        told = refused(spark, statement.format(t="ticks_stream"))
        assert re.match(rf"\[SPARKCEP.STREAM\] .*{words}.*\(line \d+, column \d+: '{pattern}'\) SQLSTATE: (0A000|42K0E)", told), (name, told)
        assert "Project [" not in told and len(told) < 2000


def test_several_clauses_need_rocksdb(spark, tmp_path):
    """Without it a statement with two clauses ends in an error, and so does one over a view's clause, or a union of frames."""
    spark.conf.unset(PROVIDER)
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    for statement, place in ((STATEMENTS["two"], r"STRT DOWN UP\+"), (TWO, r"S M\+"), (f"WITH m AS ({B}) SELECT * FROM m UNION ALL SELECT * FROM m", r"STRT DOWN UP\+")):
        told = refused(spark, statement.format(t="ticks_stream"))
        assert re.match(rf"\[SPARKCEP.STREAM\] .*Set {re.escape(PROVIDER)} to \S*RocksDB.*pip install protobuf.*or write each clause's output with its own query \(line \d+, column \d+: '{place}'\)", told), told
    one, other = (spark.sql(text.format(t="ticks_stream")) for text in (RISES, FALLS))
    told = not_started(one.union(other), checkpoint)
    assert re.match(r"\[SPARKCEP.STREAM\] .*made for a query with one clause. Set sparkcep.stream.several to true, and .* \(line 1, column \d+: 'A B\+'\)", told), told
    one.createOrReplaceTempView("rises_of_stream")
    told = refused(spark, f"SELECT * FROM rises_of_stream MATCH_RECOGNIZE ({GROWS})")
    assert re.match(r"\[SPARKCEP.STREAM\] a clause below, .* was made for a query with one clause. Set sparkcep.stream.several to true.* \(line 1, column \d+: 'S M\+'\)", told), told


@pytest.mark.further
def test_what_does_not_start(spark, tmp_path):
    """What a user builds upon a clause's data frame is known when the query starts: one of ours in place of Spark's plan."""
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    ticks = stream(spark, source)
    ticks.createOrReplaceTempView("ticks_stream")
    alone = spark.sql(RISES.format(t="ticks_stream"))
    spark.conf.set("sparkcep.stream.several", "true")
    try:
        one = spark.sql(RISES.format(t="ticks_stream"))
    finally:
        spark.conf.unset("sparkcep.stream.several")
    for frame, mode, words in (
        (one.groupBy("symbol").count(), "append", r'in output mode append an aggregate \(Aggregate\).*[Ww]rite outputMode\("update"\)'),
        (spark.sql("SELECT DISTINCT * FROM {one}", one=one), "append", r"in output mode append an aggregate \(Distinct\)"),
        (alone.groupBy("symbol").count(), "complete", r"a stateful operator of Spark \(Aggregate\) is above the clause"),
        (one.withWatermark("z", "1 second"), "append", "withWatermark over a clause's output would change the watermark"),
        (ticks.select("symbol", "ts").union(one.select("symbol", "a")).dropDuplicates(), "append", r"a stateful operator of Spark \(Deduplicate\) is above the clause"),
        (one.dropDuplicatesWithinWatermark(["symbol"]), "append", r"a stateful operator of Spark \(DeduplicateWithinWatermark\) is above|Spark does not start the query"),
        (one.orderBy("a"), "append", "Spark does not start the query: .*Sorting is not supported"),
        (one, "complete", r"output mode: complete.*[Ww]rite outputMode\(\"append\"\)"),
        (alone, "update", r"not supported with Update output mode.*[Ww]rite outputMode\(\"append\"\)"),
    ):
        told = not_started(frame, checkpoint, mode)
        assert re.match(rf"\[SPARKCEP.STREAM\] .*({words}).*\(line 1, column \d+: 'A B\+'\) SQLSTATE: 0A000", told), told
        assert "MapInArrow" not in told and "Project [" not in told
    spark.conf.unset(PROVIDER)
    assert "whose states are in RocksDB. Set" in not_started(one, checkpoint)


# -- what is read of a clause ---------------------------------------------------------------------------------------------


def part(name: str, value: str, clause: str, where: str = "true", times: str = "1") -> str:
    return f"SELECT '{name}' AS name, {times} AS times, {value} AS value FROM {clause} WHERE {where}"


CHANGED = REVISED.format(t="(SELECT *, CAST(NULL AS STRING) AS op FROM {t})", own="CHANGE() AS change, MATCH_ID() AS id,", changes="CHANGES IN op REPORT CHANGES")
SETTLED = REVISED.format(t="{t}", own="'insert' AS change,", changes="")
AT_ONCE = [  # of each family one column alone, a filter on the key, or nothing at all
    part("top", "string(k)", f"({STATEMENTS['top']})"),
    part("top of a key", "string(s)", STATEMENTS["top_paths"].partition(" FROM ")[2], "symbol = 'k1'"),
    part("overall", "NULL", f"({STATEMENTS['top_overall']})"),
    part("unmatched", "concat(price, k)", STATEMENTS["all_rows"].partition(" FROM ")[2].partition(" WHERE")[0], "ts < TIMESTAMP '2026-01-01 12:00:00' AND f = 1.5"),
    part("count", "string(n)", STATEMENTS["counts"].partition(" FROM ")[2], "symbol IS NULL"),
    part("budget", "string(o)", f"({STATEMENTS['budget']})"),
    part("all of a budget", "NULL", STATEMENTS["budget_all"].partition(" FROM ")[2], "symbol = 'k0'"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.codegen
def test_what_is_read_of_a_clause(spark, tmp_path):
    """One column alone, count(*), a filter on a key, with and without adaptive execution, of all that is not listed match by
    match."""
    source = tmp_path / "in"
    source.mkdir()
    rows = rows_of(21, 240)
    keys = list({(row["symbol"], repr(row["f"])): (row["symbol"], row["f"]) for row in rows}.values())
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    statement = "SELECT name, value, sum(times) AS n FROM ({parts}) GROUP BY name, value"
    changed = part("changes", "string(c)", f"({CHANGED})", times="IF(change = 'retract', -1, 1)"), part("changes of a key", "NULL", f"({CHANGED})", "symbol = 'k1'", "IF(change = 'retract', -1, 1)")
    told = statement.format(parts=" UNION ALL ".join([*AT_ONCE, *changed])).format(t="ticks_stream")
    for adaptive, piece in zip(("true", "false"), (pieces(rows, random.Random(1), 2)[0], None), strict=True):
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
        put(source, 0 if piece else 1, piece or rows[len(pieces(rows, random.Random(1), 2)[0]) :])
        if piece is None:
            put(source, 2, closing(keys))
        try:
            query = spark.sql(told).writeStream.format("memory").queryName("read_of_clauses").outputMode("complete")
            query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
            query.awaitTermination()
        finally:
            spark.conf.unset("spark.sql.adaptive.enabled")
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    settled = part("changes", "string(c)", f"({SETTLED})"), part("changes of a key", "NULL", f"({SETTLED})", "symbol = 'k1'")
    expected = spark.sql(statement.format(parts=" UNION ALL ".join([*AT_ONCE, *settled])).format(t="ticks_table")).collect()
    found = [row for row in spark.table("read_of_clauses").collect() if row.n]
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert {row.name for row in expected} == {text.split("'")[1] for text in (*AT_ONCE, *settled)} and all(row.n > 0 for row in expected)


# -- Spark Connect --------------------------------------------------------------------------------------------------------

CLIENT = """
import json, shutil, sys
from pathlib import Path
from pyspark.sql import SparkSession
import sparkcep
from tests.spark.stream.test_several_frames import CONNECTED
from tests.spark.stream.test_streams import PROVIDER, ROCKSDB, V, stream

folder, way = Path(sys.argv[1]), sys.argv[2]
builder = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "1").config("spark.sql.session.timeZone", "UTC").config("sparkcep.stream.buckets", "2")
if way == "operator":
    from sparkcep.spark.session.jar import EXTENSION_CLASS, extension_jar

    builder = builder.config("spark.driver.extraClassPath", str(extension_jar())).config("spark.sql.extensions", EXTENSION_CLASS)
spark = sparkcep.enable(builder.getOrCreate(), warm=False)
spark.conf.set(PROVIDER, ROCKSDB)
report = {"operators": [], "module": type(spark).__module__}


def arrives(*numbers):
    for number in numbers:
        shutil.copy2(folder / "files" / f"{number:03}.json", folder / "in")


def frame(name, text):
    files = stream(spark, folder / "in")
    if name == "frame":
        return sparkcep.match_recognize(files, partition_by="symbol", order_by=["ts", "n"], clause=V)
    files.createOrReplaceTempView("ticks_stream")
    return spark.sql(text.format(t="ticks_stream"))


def run(name, text, how, mode="append"):
    writer = frame(name, text).writeStream.outputMode(mode).option("checkpointLocation", str(folder / (name + ".checkpoint"))).trigger(availableNow=True)
    path = str(folder / name)
    if how == "start":
        query = writer.start(path, format="parquet")
    elif how == "toTable":
        query = writer.toTable("told_" + name)
    else:
        query = writer.foreachBatch(lambda rows, number: rows.write.mode("append").parquet(path)).start()
    query.awaitTermination()
    report["operators"] += [operator["operatorName"] for progress in query.recentProgress for operator in progress["stateOperators"]]


asked = {name: CONNECTED[name] for name in sys.argv[3:]}
for numbers in ((0,), (1, 2)):
    arrives(*numbers)
    for name, (text, how) in asked.items():
        run(name, text, how)
for name, (_, how) in asked.items():
    if how == "toTable":
        spark.table("told_" + name).write.parquet(str(folder / name))


def refused(name, text, mode="append"):
    how = CONNECTED[name][1]
    try:
        run(name, text, how, mode)
        return "no error"
    except Exception as error:
        return type(error).__name__ + " " + str(error)


arrives(3)
two, one = CONNECTED["above"][0], CONNECTED["one"][0]
report["define"] = refused("above", two.replace("price > PREV(price)", "price >= PREV(price)"))
report["one less"] = refused("above", one)
report["one more"] = refused("one", two)
report["another"] = refused("one", one.replace("price < PREV(price)", "price < PREV(price) AND n > 3"))
report["mode"] = refused("above", two, "complete")  # a file sink itself refuses it
report["order"] = refused("one", one + " ORDER BY a")
report["as it was"] = refused("above", two)
(folder / "report").write_text(json.dumps(report))
spark.stop()
"""
CONNECTED = {
    "above": (TWO, "foreachBatch"), "beside": (STATEMENTS["two"], "toTable"), "joined": (CHAINED["over a join"], "start"), "one": (STATEMENTS["v"], "start"),
    "frame": (STATEMENTS["v"], "foreachBatch"),
}  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize(("way", "names"), [slow(pytest.param("frames", tuple(CONNECTED))), slow(pytest.param("operator", tuple(CONNECTED))), slow(pytest.param("operator", ("above", "beside", "one")))])
def test_clauses_over_spark_connect(spark, tmp_path, way, names):
    """Several clauses of a query, and one, by start, toTable and foreachBatch, with restarts; then other statements over the old
    checkpoints. The server has the extension, or has none."""
    pytest.importorskip("grpc")
    rows = rows_of(31, 160)
    files, source = tmp_path / "files", tmp_path / "in"
    files.mkdir()
    source.mkdir()
    for number, piece in enumerate([*pieces(rows, random.Random(31), 2), closing(sorted({(row["symbol"], None) for row in rows}, key=str)), closing([("k0", None)])]):
        put(files, number, piece)
    report = connected(CLIENT, [str(tmp_path), way, *names], tmp_path, tmp_path / "report", 500)
    own = "matchRecognize" if way == "operator" else "transformWithStateInPandasExec"
    assert report["module"].startswith("pyspark.sql.connect.") and own in report["operators"], sorted(set(report["operators"]))
    for name in names:
        statement = CONNECTED[name][0]
        expected = wanted(spark, source, statement)
        assert sorted(str(row) for row in spark.read.parquet(str(tmp_path / name)).collect() if not behind(row)) == expected and len(expected) > 5, name
    for name, words in (("define", "DEFINE"), ("another", "DEFINE")):
        assert re.search(rf"\[SPARKCEP.STREAM\] this statement cannot resume from the checkpoint: sparkcep \S+ wrote it for another statement \(.*{words}.* differs?\).*\(line \d, column \d+: '", report[name]), report[name]
    for name, words in (("one less", "2 clauses; this query has one clause"), ("one more", "one clause; this query has 2 clauses")):
        assert re.search(rf"the checkpoint is of another query, which has {words}", report[name]), report[name]
    assert all(re.match(r"\w*ParseException ", report[name]) for name in ("define", "another", "one less", "one more")), report  # of start()
    assert re.match(r"\w*ParseException .*output mode.*[Ww]rite outputMode\(\"append\"\)", report["mode"]), report["mode"]
    assert re.match(r"\w*ParseException \[SPARKCEP.STREAM\] Spark does not start the query: Sorting is not supported", report["order"]), report["order"]
    assert report["as it was"] == "no error"


def test_the_watermark_of_several_streams_is_the_least(spark, tmp_path):
    """By the largest one a stream that has brought no row yet would keep its first late rows."""
    (tmp_path / "in").mkdir()
    policy = "spark.sql.streaming.multipleWatermarkPolicy"
    stream(spark, tmp_path / "in").createOrReplaceTempView("ticks_stream")
    stream(spark, tmp_path / "in").createOrReplaceTempView("other_stream")
    both = spark.sql(f"{RISES.format(t='ticks_stream')} UNION ALL {RISES.format(t='other_stream')}")
    spark.conf.set(policy, "max")
    try:
        assert "multipleWatermarkPolicy is max" in not_started(both, tmp_path / "checkpoint")
    finally:
        spark.conf.unset(policy)
