"""`sparkcep.stream.lateRows`: the late rows of a stream in a table, as many as are counted."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyspark")

from tests.selection import further, slow  # noqa: E402
from tests.spark.stream.test_streams import END, PROVIDER, ROCKSDB, V, put, ran, refused, stream  # noqa: E402

LATE = "sparkcep.stream.lateRows"
TEXT = f"SELECT * FROM ticks_stream MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n {V})"
ANY = "SELECT * FROM ticks_stream MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts MEASURES A.n AS n EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) WINDOW INTERVAL '9' SECONDS " \
    "DEFINE A AS price = 1, B AS price = 2)"


@pytest.fixture(autouse=True)
def late(spark, tmp_path):
    spark.conf.set(PROVIDER, ROCKSDB)
    spark.conf.set(LATE, "late_rows")
    spark.sql(f"CREATE TABLE late_rows (price INT, N INT, symbol STRING, ts TIMESTAMP) USING parquet LOCATION '{tmp_path}/late_rows'")
    yield
    spark.sql("DROP TABLE IF EXISTS late_rows")
    spark.conf.unset(PROVIDER)
    spark.conf.unset(LATE)


def row(at: int, n: int, symbol: str | None = "k0", price: int = 1) -> dict:
    return {"symbol": symbol, "at": at, "n": n, "price": price, "f": None}


def dropped(progress: list) -> int:
    return sum(operator["numRowsDroppedByWatermark"] for p in progress for operator in p["stateOperators"])


@pytest.mark.further
def test_what_is_counted_is_there(spark, tmp_path):
    appended(spark, tmp_path)


def appended(spark, tmp_path):
    """A run with late rows, and one that goes on."""
    source = tmp_path / "in"
    source.mkdir()
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    put(source, 0, [row(100 + i, i, f"k{i % 3}") for i in range(30)])
    put(source, 1, [row(130, 30)])
    put(source, 2, [row(5, 31), row(7, 32, None, 9), row(90, 33, "k7"), row(131, 34)])
    written = spark.sql(TEXT)
    spark.conf.set(LATE, "late_others")  # for statements that are written from now on
    spark.sql("CREATE DATABASE late_base")
    spark.sql("USE late_base")
    try:
        first = ran(written, tmp_path)
    finally:
        spark.sql("USE default")
        spark.sql("DROP DATABASE late_base")
    spark.conf.set(LATE, "late_rows")
    assert dropped(first) == 3
    spark.catalog.refreshTable("late_rows")
    found = {(r.symbol, r.N, r.price) for r in spark.table("late_rows").collect()}
    assert found == {("k0", 31, 1), (None, 32, 9), ("k7", 33, 1)}
    put(source, 3, [row(2, 35), row(END, 36)])
    put(source, 4, [row(END - 5, 38)])
    put(source, 5, [row(END - 20, 37)])
    more = ran(spark.sql(TEXT), tmp_path)
    spark.catalog.refreshTable("late_rows")
    assert sorted(r.N for r in spark.table("late_rows").collect()) == [31, 32, 33, 35, 37] and dropped(more) == 2
    return source


@pytest.mark.parametrize("keys", [further("PARTITION BY symbol"), slow("")])
def test_a_statement_of_which_every_row_and_order_column_is_read(spark, tmp_path, keys):
    """No condition drops rows below the engine, and the clause reads all that ORDER BY sorts by."""
    source = tmp_path / "in"
    source.mkdir()
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    put(source, 0, [row(at, at, price=price) for at, price in ((100, 1), (101, 2), (102, 3), (103, 1))])
    put(source, 1, [row(130, 130)])
    put(source, 2, [row(90, 90, price=9), row(131, 131)])
    text = (
        f"SELECT * FROM ticks_stream MATCH_RECOGNIZE ({keys} ORDER BY ts MEASURES FIRST(price) AS f, LAST(price) AS l PATTERN (A B+) "
        "WINDOW INTERVAL '6' SECOND DEFINE B AS price > PREV(price))"
    )
    progress = ran(spark.sql(text), tmp_path)
    spark.catalog.refreshTable("late_rows")
    assert [(r.f, r.l) for r in spark.read.parquet(str(tmp_path / "out")).collect()] == [(1, 3)]
    assert [r.N for r in spark.table("late_rows").collect()] == [90] and dropped(progress) == 1


@pytest.mark.slow
def test_a_micro_batch_that_is_tried_again_appends_nothing(spark, tmp_path):
    source = appended(spark, tmp_path)
    # a commit is lost: a note says that the late rows are there
    (notes,) = (tmp_path / "out.checkpoint" / "state").glob("*/_sparkcep/late")
    (note,) = (int(path.name) for path in notes.iterdir() if path.name.isdigit())
    for log, least in (("out.checkpoint/commits", note), ("out.checkpoint/offsets", note + 1), ("out/_spark_metadata", note)):
        for path in (tmp_path / log).iterdir():
            if path.name.isdigit() and int(path.name) >= least:
                path.unlink()
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    again = ran(spark.sql(TEXT), tmp_path)
    assert dropped(again) == 1
    spark.catalog.refreshTable("late_rows")
    assert spark.table("late_rows").count() == 5
    # the table belongs to no state: it may be left out, or change
    spark.conf.unset(LATE)
    put(source, 6, [row(3, 40)])
    assert dropped(ran(spark.sql(TEXT), tmp_path)) == 1 and spark.table("late_rows").count() == 5
    # rows that no variable wants never come to the search, and are not counted
    spark.conf.set(LATE, "late_rows")
    plan = spark.sql(ANY).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "other")).trigger(availableNow=True).start()
    plan.awaitTermination()
    counted = dropped([p if isinstance(p, dict) else json.loads(p.json) for p in plan.recentProgress])
    spark.catalog.refreshTable("late_rows")
    assert spark.table("late_rows").count() == 5 + counted and counted > 0
    assert "late rows are appended to spark_catalog.default.late_rows" in plan._jsq.explainInternal(False)


def test_a_table_that_does_not_fit_is_an_error_before_the_query_starts(spark, tmp_path):
    stream(spark, tmp_path).createOrReplaceTempView("ticks_stream")
    spark.conf.set(LATE, "late_nowhere")
    text = refused(spark, TEXT)
    assert "'late_nowhere', but this table does not exist" in text and "symbol STRING, ts TIMESTAMP, n INT, price INT, f DOUBLE" in text and "SPARKCEP.STREAM" in text
    spark.sql("SELECT 1 AS n").createOrReplaceTempView("late_view")
    spark.conf.set(LATE, "late_view")
    assert "which is a view" in refused(spark, TEXT)
    spark.conf.set(LATE, "late_rows")
    for column, message in (("other INT", "but late rows do not have its column other"), ("price STRING", "whose column price is of type STRING, but in late rows it is of type INT")):
        spark.sql("DROP TABLE late_rows")
        spark.sql(f"CREATE TABLE late_rows (ts TIMESTAMP, {column}) USING parquet LOCATION '{tmp_path}/late_{column[:5]}'")
        assert message in refused(spark, TEXT)
