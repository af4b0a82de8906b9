"""The watermark's column in each branch of a UNION ALL below a clause: Spark gives a union the mark of its first branch."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException  # noqa: E402

from sparkcep.spark.stream.frames.plan_text import read  # noqa: E402
from sparkcep.spark.stream.frames.union_branches import marked_in_branches  # noqa: E402
from tests.selection import further  # noqa: E402
from tests.spark.stream.test_streams import SCHEMA, closing, pieces, put, ran, rocksdb, rows_of, stream  # noqa: E402, F401

CLAUSE = "MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts MEASURES FIRST(ts) AS a, count(*) AS c PATTERN (A B) WINDOW INTERVAL '10' MINUTES DEFINE B AS n > 0)"
ONE = "SELECT symbol, ts, n FROM ticks"
EARLIER = "SELECT symbol, ts - INTERVAL 5 MINUTES AS ts, -n AS n FROM ticks"
FALLS = f"SELECT symbol, a AS ts, c AS n FROM ticks {CLAUSE}"
ROWS = {  # the rows, and whether each branch has the watermark's column
    "the same stream": (f"{ONE} UNION ALL SELECT symbol, ts, -n FROM ticks WHERE price > 2", True),
    "two streams": (f"{ONE} UNION ALL SELECT symbol, ts, n FROM others", True),
    "three under other names": (f"{ONE} UNION ALL (SELECT symbol, u, n FROM (SELECT *, ts AS u FROM ticks) UNION ALL SELECT symbol, v AS w, n FROM (SELECT *, ts AS v FROM others))", True),
    "by name": ("SELECT symbol, ts, n FROM by_name", True),
    "later": (f"{ONE} UNION ALL SELECT symbol, ts + INTERVAL 5 MINUTES, n FROM ticks", True),
    "a union below the watermark": ("SELECT symbol, ts, n FROM above", True),
    "a view": ("SELECT * FROM right_union WHERE n > 1", True),
    "a clause": (f"{FALLS} UNION ALL {ONE}", True),
    "a table beside it": (f"{ONE} UNION ALL SELECT t.symbol, t.ts, t.n FROM ticks t JOIN VALUES ('k0, k1', 1) AS v(symbol, n) ON t.n = v.n", True),
    "texts with commas": ("SELECT 'a, b' AS symbol, ts, n FROM ticks UNION ALL SELECT 'c' AS symbol, ts, n FROM ticks", True),
    "earlier": (f"{ONE} UNION ALL {EARLIER}", False),
    "earlier, by a sign": (f"{ONE} UNION ALL SELECT symbol, ts + INTERVAL '-5' MINUTES AS ts, n FROM ticks", False),
    "earlier, with texts": ("SELECT 'a, b' AS symbol, ts, n FROM ticks UNION ALL SELECT 'c, d', ts - INTERVAL 5 MINUTES AS ts, n FROM ticks", False),
    "earlier in the third": (f"{ONE} UNION ALL ({ONE} UNION ALL {EARLIER})", False),
    "earlier in a view": ("SELECT * FROM wrong_union WHERE n > 1", False),
    "earlier, joined": (f"SELECT symbol, ts, n FROM ({ONE} UNION ALL {EARLIER}) JOIN VALUES ('k0') AS v(symbol) USING (symbol)", False),
    "another time": (f"{ONE} UNION ALL SELECT symbol, timestamp_seconds(n) AS ts, n FROM others", False),
    "no watermark": (f"{ONE} UNION ALL SELECT symbol, ts, n FROM bare", False),
    "a watermark of another column": (f"{ONE} UNION ALL SELECT symbol, at AS ts, n FROM others", False),
    "another measure of a clause": (f"{ONE} UNION ALL SELECT symbol, a - INTERVAL 1 SECOND, n FROM ({FALLS.replace('a AS ts, c AS n', 'a, c AS n')})", False),
}


@pytest.fixture(scope="module")
def views(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unions")
    stream(spark, folder).createOrReplaceTempView("ticks")
    bare = spark.readStream.schema("symbol string, ts timestamp, n int, at timestamp").json(str(folder))
    bare.createOrReplaceTempView("bare")
    bare.withWatermark("ts", "5 seconds").createOrReplaceTempView("others")
    bare.union(bare.selectExpr("symbol", "ts - INTERVAL 5 MINUTES", "n", "at")).withWatermark("ts", "6 minutes").createOrReplaceTempView("above")
    spark.table("ticks").select("symbol", "ts", "n").unionByName(spark.table("others").select("n", "ts", "symbol")).createOrReplaceTempView("by_name")
    for name, second in (("right_union", ONE), ("wrong_union", EARLIER)):
        spark.sql(f"{ONE} UNION ALL {second}").createOrReplaceTempView(name)


def refused(spark, statement: str) -> bool:
    """Whether the statement, or the start of its query, is the error; without it the query is not started."""
    try:
        spark.sql(statement)
    except PySparkException as error:
        assert "must be the watermark column, unchanged, in each branch of UNION ALL; one branch has another value as ts" in str(error), str(error)
        assert "SPARKCEP.STREAM" in str(error) and "'ts')" in str(error)
        return True
    return False


def accepted(spark, names: list[str]) -> dict[str, bool]:
    return {name: not refused(spark, f"SELECT * FROM ({ROWS[name][0]}) {CLAUSE}") for name in names}


@pytest.mark.parametrize("names", [["two streams", "later", "earlier"], further(list(ROWS))], ids=["some", "all"])
def test_rows_of_the_operator(spark, views, names):
    assert accepted(spark, names) == {name: ROWS[name][1] for name in names}


@pytest.mark.further
def test_rows_of_a_program_of_data_frames(spark, views):
    spark.conf.set("sparkcep.stream.route", "frames")
    try:
        assert accepted(spark, list(ROWS)) == {name: right for name, (_, right) in ROWS.items()}
        assert refused(spark, f"WITH b AS ({ROWS['earlier'][0]}) SELECT * FROM b {CLAUSE}")
    finally:
        spark.conf.unset("sparkcep.stream.route")


def test_a_with_is_checked_before_the_first_micro_batch(spark, views, tmp_path):
    """The definitions of WITH are not below the clause until the query starts."""
    for number, name in enumerate(("earlier", "earlier in the third")):
        frame = spark.sql(f"WITH b AS ({ROWS[name][0]}), d AS (SELECT * FROM b WHERE n > 1) SELECT * FROM d {CLAUSE}")
        with pytest.raises(PySparkException, match="must be the watermark column, unchanged, in each branch of UNION ALL"):
            frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / str(number))).trigger(availableNow=True).start()


@pytest.mark.further
def test_rows_of_a_branch_that_adds_an_interval_are_never_late(spark, tmp_path):
    """The answer over a stream in disorder is that over the table."""
    source, rng = tmp_path / "in", random.Random(4)
    source.mkdir()
    text = "SELECT symbol, z, c FROM (SELECT symbol, ts, n, price FROM {t} UNION ALL SELECT symbol, ts + INTERVAL 25 SECONDS, -n, price FROM {t}) MATCH_RECOGNIZE (PARTITION BY symbol " \
        "ORDER BY ts, n MEASURES LAST(ts) AS z, count(*) AS c PATTERN (A B+) WINDOW INTERVAL '20' SECONDS DEFINE B AS price > PREV(price))"
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    rows = rows_of(4)
    for number, piece in enumerate([*pieces(rows, rng, 2), closing([(key, None) for key in sorted({row["symbol"] for row in rows}, key=str)])]):
        put(source, number, piece)
    progress = ran(spark.sql(text.format(t="ticks_stream")), tmp_path)
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    wanted = sorted(str(row) for row in spark.sql(text.format(t="ticks_table")).collect() if row.z.day == 1 and row.z.hour == 0)
    found = sorted(str(row) for row in spark.read.parquet(str(tmp_path / "out")).collect() if row.z.day == 1 and row.z.hour == 0)
    assert found == wanted and len(wanted) > 50
    assert sum(operator["numRowsDroppedByWatermark"] for one in progress for operator in one["stateOperators"]) == 0


PLAN = "\n".join([
    "Project [__needed#31, __o0#32-T10000ms AS __s0#33-T10000ms]",
    "+- Project [symbol#1 AS __p0#30, ts#2-T10000ms AS __o0#32-T10000ms, coalesce(true, false) AS __needed#31]",
    "   +- ~Union false, false",
    "      :- ~Project [a, (b AS symbol#1, ts#2-T10000ms]",
    "      :  +- ~EventTimeWatermark ts#2: timestamp, 10 seconds",
    "      :     +- StreamingRelation FileSource[x], [symbol#0, ts#2]",
    "      +- ~Project [symbol#10, {} AS ts#21]",
    "         +- ~EventTimeWatermark ts#12: timestamp, 10 seconds",
    "            +- StreamingRelation FileSource[x], [symbol#10, ts#12]",
])  # fmt: skip


@pytest.mark.parametrize("value, right", [
    ("ts#12-T10000ms", True), ("cast(ts#12-T10000ms + INTERVAL '05' MINUTE as timestamp)", True), ("cast(ts#12-T10000ms - INTERVAL '05' MINUTE as timestamp)", False),
    ("cast(ts#12-T10000ms + INTERVAL '-05' MINUTE as timestamp)", False), ("coalesce(ts#12-T10000ms, other#13)", False), ("ts#99", True),
])  # fmt: skip
def test_texts_of_plans(value, right):
    """A column whose place is not found passes."""
    assert marked_in_branches(read(PLAN.format(value).replace("a, (b AS symbol", "a, b AS symbol")), "__s0", lambda *_: None) == right
    assert marked_in_branches(read(PLAN.format(value)), "__s0", lambda *_: None)  # the text's parenthesis hides where the first branch has its columns
