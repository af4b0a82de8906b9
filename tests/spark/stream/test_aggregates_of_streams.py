"""Aggregates over the rows of a match that Spark computes, over a stream: their values against those over the same rows as a table,
in all that a clause can be and that can stand around it."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions  # noqa: E402

from tests.selection import first, slow  # noqa: E402
from tests.spark.expressions.test_aggregates import AGGREGATES, drawn  # noqa: E402
from tests.spark.stream.test_streams import (  # noqa: E402, F401
    PROVIDER,
    ROCKSDB,
    SCHEMA,
    behind,
    closing,
    pieces,
    put,
    ran,
    rate,
    refused,
    rows_of,
    stream,
)

HASHED = "spark.sql.objectHashAggregate.sortBased.fallbackThreshold"  # groups, behind which Spark loses the order of rows
# What a group of Spark's has no word for: values of the match, several columns that are distinct together, rows of a variable.
OF_MATCHES = [
    "regr_count(DISTINCT i, l)",
    "regr_count(DISTINCT f, d)",
    "round(covar_pop(DISTINCT i, l), 4)",
    "min_by(DISTINCT f, r)",
    "median(IF(CLASSIFIER() = 'A', i, MATCH_NUMBER()))",
    "median(nullif(IF(CLASSIFIER() = 'A', i, 1) + 1, 2))",
    "avg(DISTINCT IF(CLASSIFIER() = 'Z', n, n + 1))",
    "median(i) FILTER (WHERE CLASSIFIER() = 'A' AND i BETWEEN 1 AND MATCH_NUMBER() + 3)",
    "max_by(struct(i, s), r)",
    "first_value(s) IGNORE NULLS",
    "median(A.i)",
    "listagg(Z.s)",
    "listagg(s, '-')",
    "hex(count_min_sketch(i, 0.5d, 0.5d, 1))",
    "stddev(n) + median(i) * 2",
    "string_agg(DISTINCT s, '-') WITHIN GROUP (ORDER BY s DESC)",
    "try_avg(n)",
    "avg(n) FILTER (WHERE CLASSIFIER() = 'A')",
    "max_by(s, IF(CLASSIFIER() = 'A', r, 0))",
    "median(make_ym_interval(i, r))",
    "collect_set(IF(CLASSIFIER() = 'A', s, 'z'))",
]
ALL = [*AGGREGATES, *OF_MATCHES]
PARTS = 12


def queries_of(texts: list[str]) -> list[list[str]]:
    """The texts that one query over the table has together. Spark cannot plan listagg next to some others, and adds floating
    numbers in another order beside DISTINCT."""
    lists = [text for text in texts if text.startswith(("listagg", "string_agg"))]
    distinct = [text for text in texts if "DISTINCT" in text and text not in lists]
    plain = [text for text in texts if text not in lists and text not in distinct]
    return [some for some in (plain, distinct, *([text] for text in lists)) if some]


@pytest.fixture(autouse=True)
def settings(spark):
    spark.conf.set(PROVIDER, ROCKSDB)
    spark.conf.set(HASHED, "100000")
    yield
    spark.conf.unset(HASHED)
    spark.conf.unset(PROVIDER)


def collected(frame) -> list:
    """The rows of a frame; intervals of months, which Python does not know, as texts."""
    months = [field.name for field in frame.schema if "interval" in field.dataType.simpleString() and "day" not in field.dataType.simpleString()]
    return frame.withColumns({name: functions.col(name).cast("string") for name in months}).collect()


@pytest.mark.parametrize("part", first(range(PARTS), 0, wider=1))
def test_values_and_types_are_those_of_the_table(spark, tmp_path, part):
    """Of all types, with NULLs, of matches without a row that counts; rows in disorder, in several files, over a restart."""
    texts = ALL[part::PARTS]
    timed = f"SELECT *, r = max(r) OVER (PARTITION BY g) AS z, timestamp_seconds(1000 + 2 * g + r) AS ts FROM ({drawn(150)})"
    spark.sql(f"SELECT *, ntile(3) OVER (ORDER BY ts + make_dt_interval(0, 0, 0, pmod(hash(g, r), 30))) AS file FROM ({timed})").write.parquet(str(tmp_path / "rows"))
    rows = spark.read.parquet(str(tmp_path / "rows"))
    for day in (4, 5):  # rows far behind, by which the watermark passes all others
        end = {"g": functions.expr("-1 - g"), "ts": functions.expr(f"ts + make_dt_interval({day})"), "file": functions.lit(day)}
        rows = rows.union(spark.read.parquet(str(tmp_path / "rows")).limit(1).withColumns(end))
    rows.drop("file").createOrReplaceTempView("aggregated_table")
    source = str(tmp_path / "in")

    def query(table: str, of: list[str]) -> str:
        measures = ", ".join(f"{text} AS m{texts.index(text)}" for text in of)
        return f"SELECT * FROM {table} MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts MEASURES {measures} PATTERN (A* Z) DEFINE A AS NOT z, Z AS z)"

    for file in range(1, 6):
        rows.where(f"file = {file}").drop("file").coalesce(1).write.mode("append").parquet(source)
        if file in (1, 5):
            files = spark.readStream.schema(rows.drop("file").schema).option("maxFilesPerTrigger", 1).parquet(source)
            files.withWatermark("ts", "40 seconds").createOrReplaceTempView("aggregated_stream")
            frame = spark.sql(query("aggregated_stream", texts))
            ran(frame, tmp_path)
    found = sorted(collected(spark.read.parquet(str(tmp_path / "out")).where("g >= 0")), key=lambda row: row.g)
    assert len(found) == 150
    for some in queries_of(texts):
        wanted = spark.sql(f"{query('aggregated_table', some)} WHERE g >= 0 ORDER BY g")
        rows_wanted = collected(wanted)
        for text in some:
            name = f"m{texts.index(text)}"
            assert frame.schema[name].dataType.simpleString() == wanted.schema[name].dataType.simpleString(), text
            assert [str(row[name]) for row in found] == [str(row[name]) for row in rows_wanted], text


HEAD = "FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n"
V = "WINDOW INTERVAL '60' SECONDS DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)"
MOVES = f"SELECT * {HEAD} MEASURES FIRST(ts) AS a, LAST(ts) AS z, median(DOWN.price) AS m, round(stddev(UP.price), 4) AS s, sum(DISTINCT price) AS d PATTERN (STRT DOWN* UP+) {V})"
FORMS = {
    "one column": f"SELECT m FROM ({MOVES})",
    "a key": f"SELECT concat(a, m, '/', s, '/', d) AS m FROM ({MOVES}) WHERE symbol <> 'k1'",
    "joined": f"SELECT concat(name, d) AS m FROM ({MOVES}) AS o JOIN (VALUES ('k0', 'zero'), ('k1', 'one')) AS names(symbol, name) ON o.symbol = names.symbol",
    "all rows": f"SELECT concat(n, '/', m, '/', y) AS m {HEAD} MEASURES median(price) AS m, FINAL median(DOWN.price) AS y ALL ROWS PER MATCH PATTERN (STRT DOWN+ UP+) {V})",
    "unmatched": f"SELECT concat(n, coalesce(m, -1)) AS m {HEAD} MEASURES median(price) AS m ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (STRT DOWN+ UP+) {V}) WHERE ts < TIMESTAMP '2026-01-02 00:00:00'",
    "ranked": f"SELECT concat(z, k, m) AS m {HEAD} MEASURES LAST(ts) AS z, MATCH_RANK() AS k, kurtosis(price) AS m EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B C) "
    "WINDOW INTERVAL '6' SECONDS SLIDE INTERVAL '4' SECONDS PREF MAX (median(price)) TOP 2 DEFINE A AS price > 3)",
    "bundles": f"SELECT concat(s, c, m) AS m {HEAD} MEASURES BUNDLE_START() AS s, BUNDLE_SIZE() AS c, median(price) AS m "
    "PATTERN (A B C) WINDOW INTERVAL '4' SECONDS APPROX 1 MATCH BUNDLES DEFINE A AS price < 1, B AS price > 8, C AS price > 7)",
    "automaton": f"SELECT concat(a, m) AS m {HEAD} MEASURES FIRST(ts) AS a, median(price) AS m AUTOMATON (STATE q2 FINAL ARC FROM q0 TO q1 WHEN price > 6 ARC FROM q1 TO q1 WHEN price < 5 "
    "ARC FROM q1 TO q2 WHEN price > 7) WINDOW INTERVAL '8' SECONDS)",
    "above": "SELECT concat_ws('/', a, m, c) AS m FROM (" + MOVES + ") MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY a, z MEASURES FIRST(a) AS a, sum(DISTINCT d) AS m, median(m) AS c "
    "PATTERN (X Y) WINDOW INTERVAL '60' SECONDS DEFINE Y AS m > 2)",
    "neighbours": f"SELECT concat(a, c) AS m FROM (SELECT *, levenshtein(string(price), string(before)) = 0 AS near {HEAD} MEASURES PREV(price) AS before ALL ROWS PER MATCH PATTERN (A) "
    "WINDOW INTERVAL '1' SECOND)) MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES FIRST(ts) AS a, count(*) AS c PATTERN (A B+) WINDOW INTERVAL '60' SECONDS DEFINE B AS near)",
}
# What "neighbours" says in one clause, which is an error over a stream.
AT_ONCE = f"SELECT concat(a, c) AS m {HEAD} MEASURES FIRST(ts) AS a, count(*) AS c PATTERN (A B+) WINDOW INTERVAL '60' SECONDS DEFINE B AS levenshtein(string(price), string(PREV(price))) = 0)"


@pytest.mark.codegen
@pytest.mark.parametrize("names", [slow(("one column", "a key", "above")), slow(tuple(FORMS))])
def test_what_stands_around_it(spark, tmp_path, names):
    """Each kind of clause, one column alone, some keys, a join, a view, a clause above, all in one query; and how many there
    are."""
    source, rows, rng = tmp_path / "in", rows_of(31, 250), random.Random(31)
    source.mkdir()
    statement = " UNION ALL ".join(f"SELECT '{name}' AS name, string(m) AS value FROM ({FORMS[name]})" for name in names)
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    for number, piece in enumerate([*pieces(rows, rng, 3), closing(sorted({(row["symbol"], None) for row in rows}, key=str))]):
        put(source, number, piece)
        if number in (1, 3):
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW moves_of_ticks AS {statement.format(t='ticks_stream')}")
            ran(spark.table("moves_of_ticks"), tmp_path)
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    wanted = spark.sql(statement.format(t="ticks_table")).collect()
    assert sorted(map(str, spark.read.parquet(str(tmp_path / "out")).collect())) == sorted(map(str, wanted))
    told = {name: [row.value for row in wanted if row.name == name] for name in names}
    assert all(len(values) > 2 for values in told.values()), {name: len(values) for name, values in told.items()}
    assert None in told["one column"]  # DOWN has no row
    if "neighbours" in names:
        assert sorted(told["neighbours"]) == sorted(row.m for row in spark.sql(AT_ONCE.format(t="ticks_table")).collect())
    count = f"SELECT count(*) AS c FROM ({MOVES})"
    counted = spark.sql(count.format(t="ticks_stream")).writeStream.outputMode("complete").format("memory").queryName("counted_moves")
    counted.trigger(availableNow=True).start().awaitTermination()
    assert spark.table("counted_moves").collect() == spark.sql(count.format(t="ticks_table")).collect() == [(len(told["one column"]),)]


def test_where_it_stands_in_the_plan(spark, rate):  # noqa: F811
    """There is one operator that keeps a state, a filter on keys is below it, and what nothing reads is not computed."""
    clause = "FROM rate_stream MATCH_RECOGNIZE (PARTITION BY p ORDER BY timestamp MEASURES median(value) AS m, LAST(other) AS o, listagg(word) AS s PATTERN (A B))"
    plan = optimized(spark, f"SELECT o {clause} WHERE p = 1")
    assert "ELEMENTS" not in plan and "Aggregate" not in plan
    assert plan.index("ArrowEvalPythonUDTF") < plan.index("Filter (isnotnull(") < plan.index("StreamInput")
    plan = optimized(spark, f"SELECT s {clause} WHERE p = 1")
    assert plan.count("OVER ELEMENTS OF") == 1 and "percentile" not in plan and "Aggregate" not in plan
    assert plan.index("ArrowEvalPythonUDTF") < plan.index("Filter (isnotnull(") < plan.index("StreamInput")


def test_each_row_of_a_match_is_sent_once(spark, rate):  # noqa: F811
    clause = "SELECT * FROM rate_stream MATCH_RECOGNIZE (PARTITION BY p ORDER BY timestamp MEASURES {} ALL ROWS PER MATCH PATTERN (A B))"
    plan = optimized(spark, clause.format("median(value) AS m, FINAL stddev(value) AS s, count(DISTINCT other) AS d"))
    assert '"stepwise":true' in plan and plan.count("OVER ROWS IN") == 3


def optimized(spark, statement: str) -> str:
    """The plan as Spark optimizes it, which it does for a table or a micro-batch alone."""
    return spark._jsparkSession.sessionState().optimizer().execute(spark.sql(statement)._jdf.queryExecution().analyzed()).toString()


def test_errors(spark, rate):  # noqa: F811
    clause = "SELECT * FROM rate_stream\nMATCH_RECOGNIZE (PARTITION BY p ORDER BY timestamp MEASURES {} AS m PATTERN (A B))"
    for text in ("median(rand())", "median(IF(CLASSIFIER() = 'A', rand(), value))"):
        told = refused(spark, clause.format(text))
        assert told.startswith("[SPARKCEP.STREAM] an aggregate over a stream") and "(line 2, column " in told, told
    spark.conf.set("sparkcep.stream.route", "frames")
    try:
        assert "median is an aggregate that Spark computes" in refused(spark, clause.format("median(value)"))
    finally:
        spark.conf.unset("sparkcep.stream.route")
