"""`sparkcep.stream.idleTimeout` through Spark: keys of a stream in sessions, against a table in which the session is a key."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("pyspark")

from tests.spark.stream.test_streams import BEGIN, END, PROVIDER, ROCKSDB, SCHEMA, pieces, put, ran, rows_of, stream  # noqa: E402

IDLE = "sparkcep.stream.idleTimeout"
# what counts on, looks at rows before, waits for rows to come; rows of no variable, and of other values, count as rows
CLAUSES = [
    "MEASURES MATCH_NUMBER() AS m, FIRST(ts) AS a, count(*) AS c, PREV(FIRST(n), 1) AS b PATTERN (^ A B* | C D+) DEFINE B AS price > PREV(price), D AS price < 8",
    "MEASURES 0 AS m, A.ts AS a, B.price AS c, 0 AS b EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A ~N B) DEFINE A AS price = 2, N AS price = 3, B AS price = 4 AND B.f <=> A.f",
]


@pytest.fixture(autouse=True)
def sessions(spark):
    spark.conf.set(PROVIDER, ROCKSDB)
    spark.conf.set(IDLE, "4 seconds")
    yield
    spark.conf.unset(PROVIDER)
    spark.conf.unset(IDLE)


def statement(table: str, key: str) -> str:
    return " UNION ALL ".join(f"SELECT symbol, m, a, c, b FROM {table} MATCH_RECOGNIZE (PARTITION BY {key} ORDER BY ts, n {clause})" for clause in CLAUSES)


@pytest.mark.further
def test_a_session_is_a_further_key(spark, tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    rows = [row for row in rows_of(3, 300) if row["at"] % 60 < 40]  # all keys are idle for long, and single ones in between
    files = pieces(rows, random.Random(3), 4)
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    progress = []
    for number, piece in enumerate([*files, [{"symbol": "last", "at": at, "n": 0, "price": 9, "f": None} for at in (END, 3 * END)]]):
        put(source, number, piece)
        if number in (1, 4):  # a run, and one that goes on
            progress += ran(spark.sql(statement("ticks_stream", "symbol")), tmp_path)
    spark.read.schema(SCHEMA).json(str(source)).where(f"ts < timestamp'{BEGIN}' + INTERVAL '{END - 1}' SECOND").createOrReplaceTempView("ticks_table")
    spark.sql("SELECT *, coalesce(ts - lag(ts) OVER (PARTITION BY symbol ORDER BY ts, n) >= INTERVAL '4' SECOND, false) AS cut FROM ticks_table").createOrReplaceTempView("cut_table")
    spark.sql("SELECT *, count_if(cut) OVER (PARTITION BY symbol ORDER BY ts, n) AS session FROM cut_table").createOrReplaceTempView("session_table")
    wanted = sorted(map(str, spark.sql(statement("session_table", "symbol, session")).collect()))
    found = sorted(str(row) for row in spark.read.parquet(str(tmp_path / "out")).collect() if row.symbol != "last")
    assert found == wanted and len(wanted) > 40
    assert len({row.session for row in spark.table("session_table").collect()}) > 4
    for operator in progress[-1]["stateOperators"]:  # of the key that came last alone something is kept
        assert operator["customMetrics"]["openKeys"] <= 1 and operator["numRowsDroppedByWatermark"] == 0
    assert max(operator["customMetrics"]["openKeys"] for p in progress for operator in p["stateOperators"]) > 3
    for other in ("5 seconds", None):
        spark.conf.set(IDLE, other) if other else spark.conf.unset(IDLE)
        put(source, 9, [{"symbol": "last", "at": 4 * END, "n": 0, "price": 9, "f": None}])
        with pytest.raises(Exception, match=f"SPARKCEP.STREAM.*another statement.*{IDLE} differ|ALL MATCHES"):
            ran(spark.sql(statement("ticks_stream", "symbol")), tmp_path)


# the first clause looks no farther than a session, and the second one counts on and begins anew with each
BELOW = (
    "MEASURES FIRST(ts) AS a, LAST(ts) AS z, count(*) AS c, MATCH_NUMBER() AS m, PREV(FIRST(n), 1) AS b AFTER MATCH SKIP TO NEXT ROW PATTERN (A B+) WINDOW INTERVAL '9' SECONDS "
    "DEFINE B AS price > PREV(price)"
)
WINDOW = "WINDOW INTERVAL '9' SECONDS"
ABOVE = "ORDER BY a, m MEASURES FIRST(a) AS first, LAST(z) AS last, sum(c) AS s, MATCH_NUMBER() AS number, PREV(FIRST(c), 1) AS before PATTERN (^ X Y* | P Q+) DEFINE Y AS c >= PREV(c), Q AS c < 9"


@pytest.mark.slow
def test_a_clause_above_another_has_sessions_of_its_own(spark, tmp_path):
    """Both cut their rows: the second one those that the first gives, by the times that these have."""
    source = tmp_path / "in"
    source.mkdir()
    rows = [row for row in rows_of(5, 400) if row["at"] % 60 < 40]
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    spark.conf.set(IDLE, "7 seconds")
    text = f"SELECT * FROM (SELECT * FROM ticks_stream MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n {BELOW})) MATCH_RECOGNIZE (PARTITION BY symbol {ABOVE})"
    progress = []
    for number, piece in enumerate([*pieces(rows, random.Random(5), 4), *([{"symbol": "last", "at": at, "n": 0, "price": 9, "f": None}] for at in (END, 2 * END, 3 * END))]):
        put(source, number, piece)
        if number in (1, 6):
            progress += ran(spark.sql(text), tmp_path)
    spark.read.schema(SCHEMA).json(str(source)).where("symbol IS NULL OR symbol <> 'last'").createOrReplaceTempView("ticks_table")

    def cut(table: str, time: str) -> str:
        apart = f"SELECT *, coalesce({time} - lag({time}) OVER (PARTITION BY symbol ORDER BY {time}) >= INTERVAL '7' SECOND, false) AS cut FROM {table}"
        return f"(SELECT * EXCEPT (cut), count_if(cut) OVER (PARTITION BY symbol ORDER BY {time}) AS session FROM ({apart}))"

    spark.sql(f"SELECT * FROM {cut('ticks_table', 'ts')} MATCH_RECOGNIZE (PARTITION BY symbol, session ORDER BY ts, n {BELOW})").createOrReplaceTempView("below")
    spark.sql("SELECT * EXCEPT (session) FROM below").createOrReplaceTempView("below_rows")
    table = spark.sql(f"SELECT * EXCEPT (session) FROM {cut('below_rows', 'a')} MATCH_RECOGNIZE (PARTITION BY symbol, session {ABOVE})")
    wanted = sorted(map(str, table.collect()))
    found = sorted(str(row) for row in spark.read.parquet(str(tmp_path / "out")).collect() if row.symbol != "last")
    assert found == wanted and len(wanted) > 20
    assert spark.sql(f"SELECT max(session) FROM {cut('below_rows', 'a')}").first()[0] > spark.sql("SELECT max(session) FROM below").first()[0] - 3 >= 0
    operators = [operator for p in progress for operator in p["stateOperators"]]
    assert len(operators) == 2 * len(progress) and not any(operator["numRowsDroppedByWatermark"] for operator in operators)
    assert all(operator["customMetrics"]["openKeys"] <= 1 for operator in progress[-1]["stateOperators"])


@pytest.mark.further
def test_no_watermark_passes_on_without_a_window(spark, tmp_path):
    """A session may be of any length, so that nothing bounds how far behind a match is told."""
    stream(spark, tmp_path).createOrReplaceTempView("ticks_stream")
    below = f"(SELECT * FROM ticks_stream MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n {BELOW.replace(WINDOW, '')}))"
    with pytest.raises(Exception, match="SPARKCEP.STREAM.*the output of the clause below lacks a watermark: without WINDOW INTERVAL"):
        spark.sql(f"SELECT * FROM {below} MATCH_RECOGNIZE (PARTITION BY symbol {ABOVE})")


@pytest.mark.parametrize("text", ["soon", "0 seconds", "1.5 seconds", "3"])
def test_what_is_no_time_is_an_error(spark, tmp_path, text):
    stream(spark, tmp_path).createOrReplaceTempView("ticks_stream")
    spark.conf.set(IDLE, text)
    with pytest.raises(Exception, match=r"SPARKCEP.SETTING.*sparkcep.stream.idleTimeout must be a time above 0.*10 minutes"):
        spark.sql(statement("ticks_stream", "symbol"))
