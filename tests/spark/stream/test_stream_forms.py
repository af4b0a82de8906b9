"""What stands above a clause over a stream: one column alone, counts, filters, subqueries, a join with a table; against the same
over the table; and what Spark does not let stand there."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

pytest.importorskip("pyspark")

from tests.selection import further, slow  # noqa: E402
from tests.spark.stream.test_chained_streams import RISES  # noqa: E402
from tests.spark.stream.test_streams import (  # noqa: E402, F401
    ENDS,
    SCHEMA,
    closing,
    not_started,
    pieces,
    put,
    ran,
    rocksdb,
    rows_of,
    stream,
    waiting,
    written,
)

OF_ROWS = "SELECT symbol, z, string({value}) AS value FROM {{t}} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES {measures})"
PAIRS = (
    "(SELECT l.symbol, l.ts, l.n, l.price, r.price AS other FROM {t} l LEFT JOIN {t} r ON l.symbol = r.symbol AND r.n % 3 = 0 "
    "AND r.ts BETWEEN l.ts - INTERVAL 2 SECONDS AND l.ts + INTERVAL 1 SECOND)"
)
ANCHORED = "PATTERN ((^ A | D) B C) WINDOW INTERVAL '9' SECONDS DEFINE B AS price >= 5, C AS price > B.price, D AS price = 8"


def _whole(text: str) -> str:
    """The statement with its columns symbol, z and value."""
    return text.replace("AS value FROM", "AS value, symbol, z FROM", 1)


FAMILIES = {
    "numbers": _whole(ENDS["anchored"]).replace(" WHERE symbol <> 'k1'", ""),
    "graphs": OF_ROWS.format(value="size(g)", measures=f"LAST(ts) AS z, MATCH_GRAPH() AS g EVENT SELECTION SKIP TILL ANY MATCH {ANCHORED}"),
    "no match": ENDS["unmatched"].replace("AS value FROM", "AS value, symbol, ts AS z FROM"),
    "bundles": OF_ROWS.format(
        value="k", measures="BUNDLE_END() AS z, MATCH_COUNT() AS k PATTERN (A B C ~N) WINDOW INTERVAL '3' SECONDS APPROX 1 MATCH BUNDLES "
        "DEFINE A AS price < 2, B AS price > 7, C AS price > A.price + 5, N AS price = 4 AND n > 0",
    ),
    "budget": _whole(ENDS["budget"]).replace(" WHERE symbol <> 'k1'", ""),
    "top, one for each first row": f"SELECT symbol, z, string(x) AS value FROM ({waiting('first', '{t}')})",
    "top, negation": OF_ROWS.format(
        value="x", measures="LAST(ts) AS z, sum(price) AS x EVENT SELECTION SKIP TILL ANY MATCH PATTERN (~N A B ~M) WINDOW INTERVAL '6' SECONDS SLIDE INTERVAL '4' SECONDS "
        "PREF MAX (sum(price)) TOP 2 DEFINE N AS price = 0, A AS price > 3, M AS price = 9",
    ),
    "top, ahead": f"SELECT symbol, z, string(x) AS value FROM ({waiting('ahead', '{t}').replace('NULL, x', 'x')})",
    "join": OF_ROWS.replace("{{t}}", PAIRS.replace("{", "{{").replace("}", "}}")).replace("ts, n", "ts, n, other, price").format(
        value="s", measures="LAST(ts) AS z, sum(other) AS s PATTERN (A B+) WINDOW INTERVAL '6' SECONDS DEFINE B AS other > PREV(other)"
    ),
}  # fmt: skip
WITHOUT_WATERMARK = ("no match", "bundles", "top, ahead")
ABOVE = {
    "one column": "SELECT value FROM ({m}) WHERE symbol <> 'k1'",
    "a filter of a measure, a table": "SELECT concat(value, ' ', rank) AS value FROM ({m}) JOIN ranks USING (symbol) WHERE length(value) <> 3",
}


def above(families, t: str) -> str:
    """All forms in one query. It has the join of streams twice, with a clause above each."""
    texts = {(name, form): text.format(m=FAMILIES[name].format(t=t)) for name in families for form, text in ABOVE.items()}
    return " UNION ALL ".join(
        f"SELECT '{name}' AS name, '{form}' AS form, value FROM ({text})" for (name, form), text in texts.items()
    )


def counted(families, t: str) -> str:
    """How many rows there are in each time; of them nothing but the time is read."""
    return " UNION ALL ".join(f"SELECT '{name}' AS name, window.start AS s, count(*) AS c FROM ({FAMILIES[name].format(t=t)}) GROUP BY window(z, '20 seconds')" for name in families)


def test_each_family_streams_in_one_row_type(spark, tmp_path):
    stream(spark, tmp_path).createOrReplaceTempView("ticks_stream")
    union = spark.sql(" UNION ALL ".join(f"SELECT symbol, z, value FROM ({text.format(t='ticks_stream')})" for text in FAMILIES.values()))
    assert union.isStreaming and [field.dataType.simpleString() for field in union.schema] == ["string", "timestamp", "string"]


def over_equal_parts(t: str) -> str:
    """Two clauses, each over what keeps a state and is the same for both."""
    clause = "(SELECT DISTINCT symbol, ts, price FROM {t}) MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, price MEASURES LAST(ts) AS z, count(*) AS c PATTERN (A B+) WINDOW INTERVAL '6' SECONDS DEFINE B AS price {op} PREV(price))"
    return " UNION ALL ".join(f"SELECT '{op}' AS name, symbol, z, c FROM {clause.format(t=t, op=op)}" for op in "<>")


def arrived(spark, source, count: int) -> None:
    """So many rows as files of three micro-batches, of which the last ends all keys: a stream and a table of them."""
    rows = rows_of(31, count)
    source.mkdir()
    for number, piece in enumerate([*pieces(rows, random.Random(31), 2), closing(sorted({(row["symbol"], None) for row in rows}, key=str))]):
        put(source, number, piece)
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")


@pytest.mark.further
@pytest.mark.codegen
def test_clauses_over_equal_parts_each_have_a_watermark(spark, tmp_path):
    arrived(spark, tmp_path / "in", 150)
    ran(spark.sql(over_equal_parts("ticks_stream")), tmp_path)
    wanted = spark.sql(over_equal_parts("ticks_table")).collect()
    assert written(spark, tmp_path) == sorted(map(str, wanted)) and {row.name for row in wanted} == {"<", ">"}
    assert spark.conf.get("spark.sql.exchange.reuse") == "true"


@pytest.mark.slow
@pytest.mark.codegen
def test_forms_above_a_clause(spark, tmp_path):
    arrived(spark, tmp_path / "in", 260)
    spark.sql("SELECT * FROM VALUES ('k0', 1), ('k1', 2), ('a longer key 3', 3), ('nowhere', 4) AS r(symbol, rank)").createOrReplaceTempView("ranks")
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")  # each clause is an operator of its own
    ran(spark.sql(above(FAMILIES, "ticks_stream")), tmp_path)
    timed = [name for name in FAMILIES if name not in WITHOUT_WATERMARK]
    ran(spark.sql(counted(timed, "ticks_stream")), tmp_path, "counted")
    whole = " UNION ALL ".join(f"SELECT '{name}' AS name, symbol, z, value FROM ({FAMILIES[name].format(t='ticks_stream')})" for name in WITHOUT_WATERMARK)
    of_batches: Counter = Counter()

    def count(frame, number):
        of_batches.update({name: c for name, c in frame.groupBy("name").count().collect()})
        of_batches["all"] += frame.count()
        of_batches["k0"] += frame.where("symbol = 'k0'").count()

    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        query = spark.sql(whole).writeStream.foreachBatch(count).option("checkpointLocation", str(tmp_path / "batches.checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
        wanted = spark.sql(above(FAMILIES, "ticks_table")).collect()
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert written(spark, tmp_path) == sorted(map(str, wanted))
    told = Counter((row.name, row.form) for row in wanted)
    assert all(told[name, form] > 2 for name in FAMILIES for form in ABOVE), told
    windows = [row for row in spark.sql(counted(timed, "ticks_table")).collect()]
    assert written(spark, tmp_path, "counted") == sorted(map(str, windows)) and {row.name for row in windows} == set(timed)
    answer = spark.sql(whole.replace("ticks_stream", "ticks_table")).collect()
    numbers = Counter(row.name for row in answer) + Counter({"all": len(answer), "k0": sum(row.symbol == "k0" for row in answer)})
    assert of_batches == numbers and all(numbers[name] > 2 for name in WITHOUT_WATERMARK)


# Conditions that Spark moves to what they are of: to the rows of the clause where they read its keys, or nothing of it at all.
MEDIANS = RISES.replace("SELECT symbol, a, z, c", "SELECT *").replace("count(*) AS c", "count(*) AS c, median(B.price) AS m")
MOVED = {
    "in": "SELECT symbol, m AS value FROM ({m}) WHERE symbol IN (SELECT symbol FROM ranks)",
    "not in": "SELECT symbol, c AS value FROM ({m}) WHERE symbol NOT IN (SELECT symbol FROM ranks WHERE rank < 2)",
    "exists": "SELECT symbol, c AS value FROM ({m}) q WHERE EXISTS (SELECT 1 FROM ranks r WHERE r.symbol = q.symbol AND r.rank > 1) OR c > 4",
    "a number for each key": "SELECT symbol, m AS value FROM ({m}) q WHERE (SELECT max(rank) FROM ranks r WHERE r.symbol = q.symbol) > 1",
    "a number": "SELECT symbol, c AS value FROM ({m}) WHERE symbol <> 'k1' AND (SELECT max(rank) FROM ranks) > 3",
    "all columns and a number": "SELECT symbol, z AS value FROM (SELECT * FROM ({m}) WHERE (SELECT max(rank) FROM ranks) > 3 AND symbol <> 'k0')",
    "never": "SELECT symbol, c AS value FROM ({m}) WHERE (SELECT max(rank) FROM ranks) > 30",
    "null": "SELECT symbol, c AS value FROM ({m}) WHERE symbol = NULL",
    "semi": "SELECT symbol, c AS value FROM ({m}) LEFT SEMI JOIN ranks ON rank > 3",
    "anti": "SELECT symbol, c AS value FROM (SELECT * FROM ({m}) LEFT ANTI JOIN ranks ON rank > 30)",
    "python": "SELECT symbol, m AS value FROM ({m}) WHERE upper_by_python(symbol) = 'K1' AND c > 2",
}  # fmt: skip
NOTHING = "never", "null"


def moved(t: str) -> str:
    return " UNION ALL ".join(f"SELECT '{name}' AS name, symbol, string(value) AS value FROM ({text.format(m=MEDIANS.format(t=t))})" for name, text in MOVED.items())


def test_conditions_over_subqueries_stay_above_a_clause(spark, tmp_path):
    """Which keys are kept does not follow a table that changes; a condition on keys alone is below the clause."""
    stream(spark, tmp_path).createOrReplaceTempView("ticks_stream")
    spark.sql("SELECT * FROM VALUES ('k0', 1) AS r(symbol, rank)").createOrReplaceTempView("ranks")
    of_keys = MOVED["in"].format(m=MEDIANS.format(t="ticks_stream")) + " AND symbol > 'k0'"
    plan = spark._jsparkSession.sessionState().optimizer().execute(spark.sql(of_keys)._jdf.queryExecution().analyzed()).toString()
    assert plan.index("LeftSemi") < plan.index("ArrowEvalPythonUDTF") < plan.index("> k0)") < plan.index("StreamInput")


@pytest.mark.slow
@pytest.mark.codegen
def test_conditions_that_spark_moves(spark, tmp_path):
    """All in one query, with its restart."""
    arrived(spark, tmp_path / "in", 200)
    spark.sql("SELECT * FROM VALUES ('k1', 1), ('k0', 2), ('a longer key 3', 3), ('nowhere', 4) AS r(symbol, rank)").write.parquet(str(tmp_path / "ranks"))
    spark.read.parquet(str(tmp_path / "ranks")).createOrReplaceTempView("ranks")
    spark.udf.register("upper_by_python", lambda text: text and text.upper(), "string")
    ran(spark.sql(moved("ticks_stream")), tmp_path)
    wanted = spark.sql(moved("ticks_table")).collect()
    assert written(spark, tmp_path) == sorted(map(str, wanted))
    told = Counter(row.name for row in wanted)
    assert all(told[name] > 2 for name in MOVED if name not in NOTHING) and not any(told[name] for name in NOTHING), told
    again = not_started(spark.sql(moved("ticks_stream").replace("symbol <> 'k1'", "symbol <> 'k2'")), tmp_path / "out.checkpoint")
    assert "the keys that WHERE above the clause selects differ" in again


@pytest.mark.further
def test_the_time_at_hand_is_no_part_of_the_statement(spark, tmp_path):
    """A condition on a key that is a day asks at the time of each micro-batch, and a restart is none of another statement."""
    source = tmp_path / "in"
    text = RISES.replace("SELECT symbol, a, z, c FROM {t}", "SELECT symbol, day, c FROM (SELECT *, date_trunc('DAY', ts) AS day FROM {t})").replace("BY symbol", "BY symbol, day")
    text += " WHERE day < current_date() AND day < now() AND day < localtimestamp() AND day < current_timestamp() + INTERVAL '1' DAY AND symbol <> 'k1'"
    arrived(spark, source, 100)
    ran(spark.sql(text.format(t="ticks_stream")), tmp_path)
    put(source, 50, [{"symbol": "k0", "at": 900_000 + 40 * i, "n": i, "price": 4 * i, "f": None} for i in range(4)])
    ran(spark.sql(text.format(t="ticks_stream")), tmp_path)
    wanted = spark.sql(text.format(t="ticks_table")).collect()
    assert written(spark, tmp_path) == sorted(map(str, wanted)) and len(wanted) > 10


ASKED = RISES.replace("B AS price > PREV(price)", "B AS price > PREV(price) + (SELECT min(rank) FROM ranks) AND price IN (SELECT * FROM VALUES (5), (6), (7), (8) AS v(price))")


@pytest.mark.further
def test_subqueries_are_part_of_the_statement(spark, tmp_path):
    """Spark's own text of an expression leaves them out; a restart with others would go on with rows that another statement
    kept."""
    arrived(spark, tmp_path / "in", 150)
    spark.sql("SELECT * FROM VALUES ('k1', 1), ('k0', 2) AS r(symbol, rank)").createOrReplaceTempView("ranks")
    ran(spark.sql(ASKED.format(t="ticks_stream")), tmp_path)
    wanted = spark.sql(ASKED.format(t="ticks_table")).collect()
    assert written(spark, tmp_path) == sorted(map(str, wanted)) and len(wanted) > 5
    for before, after, what in (("min(rank)", "max(rank)", "values that are"), ("(8)", "(9)", "DEFINE"), ("IN (SELECT * ", "IN (SELECT price + 1 ", "DEFINE")):
        told = not_started(spark.sql(ASKED.replace(before, after).format(t="ticks_stream")), tmp_path / "out.checkpoint")
        assert re.match(rf"\[SPARKCEP.STREAM\] this statement cannot resume from the checkpoint: sparkcep \S+ wrote it for another statement \(.*{what}.* differs?\)\. Begin with a new checkpoint", told), told
    ran(spark.sql(ASKED.format(t="ticks_stream")), tmp_path)


@pytest.mark.slow  # tests/spark/exec/test_branch_objectives.py has those of tables
def test_objectives_of_branches(spark, tmp_path):
    """Each match is scored by the objective of its branch, over a stream as over a table."""
    arrived(spark, tmp_path / "in", 150)
    text = OF_ROWS.format(
        value="s", measures="LAST(ts) AS z, MATCH_SCORE() AS s EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B | C D) WINDOW INTERVAL '6' SECONDS SLIDE INTERVAL '4' SECONDS "
        "PREF MAX (A.price + B.price) AND MIN (C.price * D.price) TOP 2 DEFINE A AS price > 7, C AS price < 2",
    )
    ran(spark.sql(text.format(t="ticks_stream")), tmp_path)
    wanted = spark.sql(text.format(t="ticks_table")).collect()
    assert written(spark, tmp_path) == sorted(map(str, wanted)) and len(wanted) > 10
    assert len({row.value for row in wanted} - {None}) > 3


HOURS = """SELECT z FROM {t} MATCH_RECOGNIZE (PARTITION BY date_format(ts, 'HH') ORDER BY ts, n MEASURES LAST(ts) AS z PATTERN (A B+)
    DEFINE B AS price > PREV(price) AND date_format(ts, 'HH') < '24')"""


@pytest.mark.parametrize("route", [further("operator"), slow("frames")])
def test_another_time_zone_is_another_statement(spark, tmp_path, route):
    """Hours of other zones are other keys. A query resumes under another name of the zone, and from a checkpoint without a zone."""
    arrived(spark, tmp_path / "in", 60)
    own = {"sparkcep.stream.route": route, "spark.sql.session.timeZone": "UTC"}
    before = {key: spark.conf.get(key, None) for key in own}
    try:
        for key, value in own.items():
            spark.conf.set(key, value)
        ran(spark.sql(HOURS.format(t="ticks_stream")), tmp_path)
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        with pytest.raises(Exception, match=r"SPARKCEP.STREAM.*cannot resume from the checkpoint: sparkcep \S+ wrote it for another statement \(.*spark.sql.session.timeZone.* differs?\)"):
            ran(spark.sql(HOURS.format(t="ticks_stream")), tmp_path)
        spark.conf.set("spark.sql.session.timeZone", "Etc/UTC")  # another name of the zone
        ran(spark.sql(HOURS.format(t="ticks_stream")), tmp_path)
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        ran(spark.sql(HOURS.format(t="ticks_stream")), tmp_path)
        if route == "operator":
            (kept,) = (tmp_path / "out.checkpoint").rglob("statement.json")
            text = kept.read_text(encoding="utf-8")
            older = re.sub(r',?\\"zone\\":\\"UTC\\"', "", text)
            assert older != text
            kept.write_text(older, encoding="utf-8")
            (kept.parent / ".statement.json.crc").unlink(missing_ok=True)
            ran(spark.sql(HOURS.format(t="ticks_stream")), tmp_path)
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


STATIC = "SELECT * FROM VALUES ('k0', TIMESTAMP '2026-01-01 00:00:00') AS v(symbol, a)"
REFUSED = {  # what Spark does not run over streams, and what is said of it
    "SELECT * FROM ({m}) ORDER BY a": "Spark does not start the query: Sorting is not supported on streaming",
    "SELECT symbol, row_number() OVER (PARTITION BY symbol ORDER BY a) AS r FROM ({m})": r"Spark does not start the query: \[NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING\]",
    f"SELECT * FROM ({STATIC}) LEFT JOIN ({{m}}) USING (symbol)": "Spark does not start the query: LeftOuter join with a streaming DataFrame/Dataset on the right and a static",
    f"SELECT symbol FROM ({{m}}) INTERSECT SELECT symbol FROM ({STATIC})": "Spark does not start the query: Intersect of streaming",
    f"SELECT symbol FROM ({{m}}) UNION ALL SELECT symbol FROM ({STATIC})": "Spark does not start the query: Union between streaming and batch",
    "SELECT symbol FROM ({m}) TABLESAMPLE (10 PERCENT)": "Spark does not start the query: Sampling is not supported",
    "SELECT symbol FROM ({m}) OFFSET 2": "Spark does not start the query: Offset is not supported",
    f"SELECT symbol FROM ({{m}}) EXCEPT SELECT symbol FROM ({STATIC})": r"in output mode append an aggregate \(Except\) .*; have a among its columns, or write outputMode",
    "SELECT DISTINCT symbol, m FROM ({m})": r"in output mode append an aggregate \(Distinct\) .*; have a among its columns, or write outputMode",
}  # fmt: skip


@pytest.mark.further
def test_what_spark_does_not_start(spark, tmp_path):
    """It is told at the clause's place, without the query's plan."""
    (tmp_path / "in").mkdir()
    stream(spark, tmp_path / "in").createOrReplaceTempView("ticks_stream")
    for statement, words in REFUSED.items():
        told = not_started(spark.sql(statement.format(m=MEDIANS.format(t="ticks_stream"))), tmp_path / "checkpoint")
        assert re.match(rf"\[SPARKCEP.STREAM\] {words}.*\(line 1, column \d+: 'A B\+'\) SQLSTATE: (0A000|42K0E)", told), told
        assert "Project [" not in told and "__" not in told and len(told) < 600


@pytest.mark.further
def test_rows_that_a_table_does_not_have(spark, tmp_path):
    """EXCEPT runs where the time is among its columns."""
    arrived(spark, tmp_path / "in", 150)
    text = f"SELECT symbol, a FROM ({MEDIANS}) EXCEPT SELECT symbol, a FROM ({STATIC} UNION ALL SELECT 'k1', TIMESTAMP '2026-01-01 00:00:03')"
    ran(spark.sql(text.format(t="ticks_stream")), tmp_path)
    wanted = spark.sql(text.format(t="ticks_table")).collect()
    assert written(spark, tmp_path) == sorted(map(str, wanted)) and len(wanted) > 10


READ = {  # forms in which the rows of a clause are read, with aggregates of Spark's among its measures
    "either side": "SELECT symbol, m AS value FROM (SELECT symbol, rank FROM ranks) JOIN ({m}) USING (symbol) WHERE rank < 3",
    "all of them": "SELECT symbol, concat(rank, '/', c) AS value FROM ({m}) LEFT JOIN ranks USING (symbol)",
    "elements": "SELECT symbol, concat(i, '/', e) AS value FROM ({m}) LATERAL VIEW OUTER posexplode(l) AS i, e WHERE symbol <> 'k0'",
    "lateral": "SELECT symbol, y AS value FROM ({m}) q, LATERAL (SELECT q.m + q.c AS y)",
    "renamed": "SELECT c AS symbol, concat(k, m) AS value FROM ({m}) AS q(c, a, z, k, m, l)",
    "itself": "SELECT l.symbol, concat(l.m, '/', r.c) AS value FROM ({m}) l JOIN ({m}) r ON l.symbol = r.symbol AND r.a BETWEEN l.a - INTERVAL 5 SECONDS AND l.a + INTERVAL 5 SECONDS AND l.c > r.c",
    "twice": "SELECT symbol, string(m) AS value FROM q WHERE c > 2 UNION ALL SELECT symbol, string(z) FROM q WHERE symbol = 'k1'",
}  # fmt: skip


@pytest.mark.slow
def test_forms_without_adaptive_execution_or_compiled_code(spark, tmp_path):
    arrived(spark, tmp_path / "in", 200)
    spark.sql("SELECT * FROM VALUES ('k1', 1), ('k0', 2), ('a longer key 3', 3), ('nowhere', 4) AS r(symbol, rank)").createOrReplaceTempView("ranks")
    listed = MEDIANS.replace("AS m PATTERN", "AS m, collect_list(price) AS l PATTERN")
    text = "WITH q AS ({m}) " + " UNION ALL ".join(f"SELECT '{name}' AS name, string(symbol) AS symbol, string(value) AS value FROM ({form})" for name, form in READ.items())
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        ran(spark.sql(text.replace("{m}", listed.format(t="ticks_stream"))), tmp_path)
        wanted = spark.sql(text.replace("{m}", listed.format(t="ticks_table"))).collect()
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    assert written(spark, tmp_path) == sorted(map(str, wanted))
    told = Counter(row.name for row in wanted)
    assert all(told[name] > 2 for name in READ), told
