"""REPORT CHANGES over a stream, through Spark."""

from __future__ import annotations

import datetime
import random
from collections import Counter

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException  # noqa: E402

import sparkcep  # noqa: E402
from sparkcep.settings import DEFAULT  # noqa: E402
from tests.selection import further  # noqa: E402
from tests.spark.compared import differing, rewritten  # noqa: E402
from tests.spark.stream.test_streams import PROVIDER, ROCKSDB, pieces, put, ran, stream  # noqa: E402

CLAUSE = """SELECT * FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n
    MEASURES {own} FIRST(ts) AS a, LAST(n) AS z, count(*) AS c EVENT SELECTION SKIP TILL NEXT MATCH ALL MATCHES {changes}
    PATTERN (A B+ C) WINDOW INTERVAL '8' SECONDS DEFINE A AS price < 5, B AS price > A.price, C AS price > 5)"""


@pytest.fixture(autouse=True)
def rocksdb(spark):
    spark.conf.set(PROVIDER, ROCKSDB)
    yield
    spark.conf.unset("sparkcep.stream.route")
    spark.conf.unset(PROVIDER)


def changes(rng: random.Random, numbered: bool, count: int = 150) -> list[dict]:
    """Rows of which some are taken back within ten seconds; ``f`` is -1 of a retraction. Those of a key may be ``numbered`` one
    after the other."""
    rows, there = [], []
    for i in range(count):
        row = {"symbol": rng.choice(["a", "b", None]), "at": 1 + i // 2 + rng.randint(0, 4), "n": i, "price": rng.randint(0, 9), "f": None}
        if numbered:
            row |= {"symbol": ["a", "b", None][i * 3 // count], "at": 1 + i}
        rows.insert(len(rows) - rng.randint(0, min(3, len(rows))), row)
        there.append(row)
        late = [old for old in there if old["at"] > (i - 5 if numbered else i // 2) and old["n"] < i - 1]
        if late and rng.random() < 0.4:
            gone = rng.choice(late)
            there.remove(gone)
            rows.append(gone | {"f": -1.0})
    return rows


STEPS = "CONSECUTIVE BY n"


@pytest.mark.parametrize(
    "seed, route, by", [pytest.param(5, "operator", "", marks=pytest.mark.slow), further(pytest.param(6, "operator", STEPS)), *(pytest.param(5, "frames", by, marks=pytest.mark.slow) for by in ("", STEPS))]
)
def test_what_was_told_is_the_answer_over_the_rows_that_are_there(spark, tmp_path, seed, route, by):
    spark.conf.set("sparkcep.stream.route", route)
    source, rng = tmp_path / "in", random.Random(seed)
    source.mkdir()
    rows = changes(rng, bool(by))
    files = pieces(rows, rng, 7)
    frame = stream(spark, source).selectExpr("symbol", "ts", "n", "price", "IF(f < 0, 'retract', NULL) AS op")
    frame.createOrReplaceTempView("changes_stream")
    half = "median(price) AS h," if route == "operator" else "FIRST(price) AS h,"  # an aggregate that Spark computes needs the operator
    statement = CLAUSE.format(t="changes_stream", own=f"CHANGE() AS change, CHANGE_NUMBER() AS number, MATCH_ID() AS id, {half}", changes=f"CHANGES IN op {by} REPORT CHANGES")
    for number, piece in enumerate(files):
        put(source, number, piece)
        if number in (3, 6):  # a run, and one that goes on
            ran(spark.sql(statement), tmp_path)
    told, seen, live = Counter(), {}, {}
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("number").collect()
    for row in found:
        told[str((row.symbol, row.a, row.z, row.c, row.h))] += 1 if row.change == "insert" else -1
        assert told[str((row.symbol, row.a, row.z, row.c, row.h))] >= 0
        assert row.number == seen.get(row.symbol, 0) + 1
        seen[row.symbol] = row.number
        match = (row.a, row.z, row.c)
        assert live.setdefault((row.symbol, row.id), match) == match  # no two have one id at a time
        if row.change == "retract":
            del live[row.symbol, row.id]
    gone = {row["n"] for row in rows if row["f"]}
    there = [(row["symbol"], datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=row["at"]), row["n"], row["price"]) for row in rows if row["n"] not in gone]
    spark.createDataFrame(there, "symbol string, ts timestamp, n int, price int").selectExpr("*", "CAST(NULL AS STRING) AS op").createOrReplaceTempView("changes_table")
    wanted = Counter(str((row.symbol, row.a, row.z, row.c, row.h)) for row in spark.sql(CLAUSE.format(t="changes_table", own=half, changes=f"CHANGES IN op {by}" if by else "")).collect())
    assert +told == wanted and len(wanted) > (2 if by else 10)
    over_table = spark.sql(CLAUSE.format(t="changes_table", own="MATCH_ID() AS id,", changes=f"CHANGES IN op {by} REPORT NET")).collect()
    assert {((row.symbol, row.id), (row.a, row.z, row.c)) for row in over_table} == set(live.items())  # one id over both
    assert sum(row.change == "retract" for row in found) > 0


@pytest.mark.parametrize("route", [further("operator"), pytest.param("frames", marks=pytest.mark.slow)])
def test_what_was_promised_of_a_value_is_held(spark, tmp_path, route):
    """Over a restart, and of the row's own key and value alone."""
    spark.conf.set("sparkcep.stream.route", route)
    source = tmp_path / "in"
    source.mkdir()
    frame = stream(spark, source).selectExpr("symbol", "ts", "n", "price", "IF(f > 0, 'punctuate', NULL) AS op")
    frame.createOrReplaceTempView("promising_stream")
    own = "CHANGE() AS change, CHANGE_NUMBER() AS number,"
    statement = CLAUSE.format(t="promising_stream", own=own, changes="CHANGES IN op PUNCTUATE BY price REPORT CHANGES")

    def row(symbol: str, at: int, price: int, f: float | None = None) -> dict:
        return {"symbol": symbol, "at": at, "n": at, "price": price, "f": f}

    put(source, 0, [row("a", 11, 4), row("a", 12, 5), row("a", 18, 6, 1.0)])
    ran(spark.sql(statement), tmp_path)
    put(source, 1, [row("a", 13, 7), row("b", 14, 6), row("a", 18, 6)])
    ran(spark.sql(statement), tmp_path)
    assert [(row.change, row.z) for row in spark.read.parquet(str(tmp_path / "out")).orderBy("number").collect()] == [("insert", 13), ("insert", 18)]
    put(source, 2, [row("a", 14, 6)])
    with pytest.raises(StreamingQueryException, match="LATE_ROW"):
        ran(spark.sql(statement), tmp_path)


ROWS = "SELECT * FROM VALUES ('a', 1, 1, 5, NULL), ('a', 2, 2, 3, NULL), ('a', 3, 2, 3, 'insert'), ('a', 4, 3, 6, NULL), ('a', 5, 1, 5, 'retract'), ('b', 6, 1, 5, NULL), ('b', 7, 9, 1, NULL) AS r(symbol, n, t, price, op)"
FORMS = (
    "SELECT id FROM {m}", "SELECT z FROM {m}", "SELECT count(*) FROM {m}", "SELECT count(DISTINCT symbol, id) FROM {m}", "SELECT * FROM {m} WHERE symbol = 'a'",
    "SELECT x.id, y.z FROM {m} x JOIN {m} y ON x.symbol = y.symbol AND x.id = y.id", "SELECT z FROM {m} WHERE id LIKE '%-2'", "SELECT id, count(*) FROM {m} GROUP BY id",
)


@pytest.mark.further
@pytest.mark.codegen
@pytest.mark.parametrize("shape", ["ONE ROW PER MATCH", pytest.param("ALL ROWS PER MATCH", marks=pytest.mark.slow)])
@pytest.mark.parametrize("adaptive", ["true", pytest.param("false", marks=pytest.mark.slow)])
def test_ids_over_a_table_are_one_column_among_others(spark, shape, adaptive):
    """Whatever of the output is read."""
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    clause = (
        f"({ROWS}) MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY t MEASURES MATCH_ID() AS id, LAST(t) AS z {shape} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES "
        "CHANGES IN op ARRIVAL BY n PATTERN (A B?) DEFINE A AS price > 1, B AS price > A.price)"
    )
    try:
        whole = spark.sql(f"SELECT * FROM {clause}").collect()
        ids = [row.id for row in whole if row.symbol == "a"]
        assert len(set(ids)) == 5 and sum(id.endswith("-2") for id in set(ids)) == 2
        spark.createDataFrame(whole).createOrReplaceTempView("told")
        pairs = {str(i): (rewritten(spark, text.format(m=clause), DEFAULT), text.format(m="told")) for i, text in enumerate(FORMS)}
        wrong, found = differing(spark, pairs)
        assert wrong == set() and found == set(pairs), [FORMS[int(i)] for i in wrong]
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
        spark.catalog.dropTempView("told")


@pytest.mark.parametrize(
    "table, own, changes, error_class, message",
    [
        ("ticks_stream", "CHANGE() AS change,", "CHANGES IN op ARRIVAL BY n REPORT CHANGES", "STREAM", "Leave ARRIVAL BY out of CHANGES IN"),
        ("ticks_stream", "", "CHANGES IN op", "STREAM", "needs REPORT CHANGES"),
        ("ticks_stream", "", "CHANGES IN op PUNCTUATE BY n", "AUTOMATON", "over a stream REPORT CHANGES"),
        ("ticks_stream", "CHANGE() AS change,", "CHANGES IN op PUNCTUATE BY f REPORT CHANGES", "DATATYPE_MISMATCH", "a whole number, a STRING"),
        ("ticks_stream", "CHANGE() AS change, CHANGED_BY() AS b,", "CHANGES IN op REPORT CHANGES", "AUTOMATON", "CHANGED_BY() returns the ARRIVAL BY expression"),
        ("ticks_table", "CHANGE() AS change,", "CHANGES IN op PUNCTUATE BY n REPORT CHANGES", "AUTOMATON", "Add ARRIVAL BY"),
        ("ticks_table", "CHANGE() AS change,", "CHANGES IN op REPORT CHANGES", "AUTOMATON", "over a table needs the order of the changes. Add ARRIVAL BY"),
    ],
)
def test_what_is_no_changelog_of_a_stream_is_an_error_before_it_starts(spark, tmp_path, table, own, changes, error_class, message):
    stream(spark, tmp_path).selectExpr("*", "CAST(NULL AS STRING) AS op").createOrReplaceTempView("ticks_stream")
    spark.sql("SELECT CAST(NULL AS STRING) symbol, now() ts, 1 n, 1 price, CAST(NULL AS STRING) op").createOrReplaceTempView("ticks_table")
    with pytest.raises(sparkcep.ClauseError) as raised:
        spark.sql(CLAUSE.format(t=table, own=own, changes=changes))
    assert raised.value.error_class == f"SPARKCEP.{error_class}" and message in str(raised.value) and raised.value.line
