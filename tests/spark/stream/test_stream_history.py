"""BUDGET ... USING HISTORY over a stream, through Spark: the history is read at each micro-batch, and what was read stands in the
checkpoint."""

from __future__ import annotations

import collections
import json
import random

import pytest

pytest.importorskip("pyspark")

import sparkcep  # noqa: E402
from sparkcep.spark.stream.progress import figures  # noqa: E402
from tests.selection import first, further, slow  # noqa: E402
from tests.spark.stream.test_streams import END, closing, put, ran, refused, rocksdb, stream  # noqa: E402, F401

CLAUSE = """PARTITION BY symbol ORDER BY ts, n {measures}
    PATTERN (A B C D) WINDOW INTERVAL '9' SECONDS APPROX 1 {budget}
    DEFINE A AS price < 4, B AS price > 2 AND price < 7, C AS price > 4, D AS price = 9 OR price = 0"""
MEASURES = "MEASURES LAST(ts) AS z, MATCH_ERRORS() AS e, MISSING() AS m, COMPLETE() AS c, CHECKS_LEFT_OUT() AS o, round(COVERAGE(), 9) AS g"
STATEMENT = f"SELECT symbol, z, e, m, c, o, g FROM {{t}} MATCH_RECOGNIZE ({CLAUSE})"


def recorded(spark, seed: int, name: str) -> None:
    """A history of random rows, as a table."""
    rng = random.Random(seed)
    values = ", ".join(f"('k', timestamp_seconds({i}), {i}, {rng.randint(0, 9)})" for i in range(300))
    made = f"SELECT * FROM VALUES {values} AS rows(symbol, ts, n, price) MATCH_RECOGNIZE ({CLAUSE.format(measures='', budget='MATCH HISTORY INTERVALS 2')})"
    spark.sql(f"CREATE TABLE {name} USING parquet AS {made}")


@pytest.fixture
def histories(spark, tmp_path):
    names = ["history_now", "history_one", "history_two"]
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")
    recorded(spark, 1, "history_one")
    recorded(spark, 2, "history_two")
    spark.sql("CREATE TABLE history_now USING parquet AS SELECT * FROM history_one")
    yield
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def rows_of(seed: int, count: int) -> list[dict]:
    rng = random.Random(seed)
    rows = [(rng.random() * 9, {"symbol": f"k{rng.randrange(30)}", "at": 1 + i // 20, "n": i, "price": rng.randint(0, 9), "f": None}) for i in range(count)]
    return [row for _, row in sorted(rows, key=lambda r: r[0] + r[1]["at"])]


def table(spark, source) -> None:
    spark.read.schema("symbol string, ts timestamp, n int, price int, f double").json(str(source)).createOrReplaceTempView("ticks_table")


def near(row) -> bool:
    """Whether a match is of none of the rows that bring the watermark on."""
    return row.z.day == 1


@pytest.mark.parametrize("option", [slow("EXPLORE"), further("REFILL 1 BUNDLES EXPLORE")])
def test_the_answer_is_that_of_the_table(spark, tmp_path, histories, option):
    """Of many keys, with one history from beginning to end, by our own order and with agents; then of one column alone, of a count
    and of one key."""
    source = tmp_path / "in"
    source.mkdir()
    rows = rows_of(5, 900)
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    text = STATEMENT.format(t="{t}", measures=MEASURES, budget=f"BUDGET 1 CHECKS USING HISTORY history_now {option}")
    for number, piece in enumerate([rows[:300], rows[300:650], rows[650:], closing([(f"k{i}", None) for i in range(30)])]):
        put(source, number, piece)
        if number in (1, 3):
            ran(spark.sql(text.format(t="ticks_stream")), tmp_path)
    table(spark, source)
    wanted = [row for row in spark.sql(text.format(t="ticks_table")).collect() if near(row)]
    got = [row for row in spark.read.parquet(str(tmp_path / "out")).collect() if near(row)]
    assert len(wanted) > 100 and sorted(map(str, got)) == sorted(map(str, wanted))
    assert sum(row.g < 1 for row in wanted) > 10
    ran(spark.sql(f"SELECT o FROM ({text.format(t='ticks_stream')}) WHERE symbol = 'k3' AND z < timestamp'2026-01-02'"), tmp_path, "one")
    assert sorted(row.o for row in spark.read.parquet(str(tmp_path / "one")).collect()) == sorted(row.o for row in wanted if row.symbol == "k3")
    counted = spark.sql(f"SELECT count(*) AS n FROM ({text.format(t='ticks_stream')}) WHERE z < timestamp'2026-01-02'")
    query = counted.writeStream.format("memory").queryName("counted").outputMode("complete").option("checkpointLocation", str(tmp_path / "counted")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert [row.n for row in spark.sql("SELECT * FROM counted").collect()] == [len(wanted)]


@pytest.mark.further
def test_a_history_that_changes_takes_effect_and_is_read_once_for_a_micro_batch(spark, tmp_path, histories):
    """Rows that are released under one history are searched under that. A micro-batch that is tried again reads what it had read,
    whatever has become of the table."""
    source, told = tmp_path / "in", {}
    source.mkdir()
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    text = STATEMENT.format(t="{t}", measures=MEASURES, budget="BUDGET 1 CHECKS USING HISTORY history_now AS PUBLISHED")

    def keep(batch, number):
        told.setdefault(number, []).append(sorted(map(str, batch.collect())))

    def run():
        query = spark.sql(text.format(t="ticks_stream")).writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "kept")).trigger(availableNow=True).start()
        query.awaitTermination()

    early = [row | {"symbol": f"early {row['symbol']}"} for row in rows_of(6, 500)]
    late = [row | {"symbol": f"late {row['symbol']}", "at": row["at"] + 4 * END} for row in rows_of(6, 500)]
    put(source, 1, early)
    put(source, 2, [{"symbol": "end", "at": 2 * END, "n": 0, "price": 1, "f": None}])
    run()
    first = max(told)
    spark.sql("INSERT OVERWRITE history_now SELECT * FROM history_two")
    put(source, 3, late)
    put(source, 4, [{"symbol": "end", "at": 8 * END, "n": 0, "price": 1, "f": None}])
    run()
    table(spark, source)
    answers = {}
    for name in ("history_one", "history_two"):
        found = spark.sql(text.format(t="ticks_table").replace("history_now", name)).collect()
        answers[name] = {word: sorted(str(row) for row in found if row.symbol.startswith(word)) for word in ("early", "late")}
    assert answers["history_one"] != answers["history_two"]
    got = {word: sorted(row for some in told.values() for rows in some for row in rows if f"symbol='{word}" in row) for word in ("early", "late")}
    assert got["early"] == answers["history_one"]["early"] and got["late"] == answers["history_two"]["late"] and len(got["late"]) > 50

    # the micro-batch in which the late rows were released is tried again, with another history in the table
    spark.sql("INSERT OVERWRITE history_now SELECT * FROM history_one")
    again = next(number for number, some in told.items() if number > first and any("symbol='late" in row for row in some[0]))
    for folder in ("commits", "offsets"):
        for path in (tmp_path / "kept" / folder).iterdir():
            number = int(path.name.strip(".").partition(".")[0]) if path.name.strip(".")[0].isdigit() else -1
            if number > again or (number == again and folder == "commits"):
                path.unlink()
    run()
    assert len(told[again]) == 2 and told[again][0] == told[again][1]

    # what was read is damaged, and then as version 0.1.0 wrote it, without a checksum
    kept = tmp_path / "kept" / "state" / "0" / "_sparkcep" / "tables"
    newest = max((path for path in kept.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    data = newest.read_bytes()
    put(source, 5, [{"symbol": "end", "at": 9 * END, "n": 0, "price": 1, "f": None}])
    for damaged in (data[:15] + bytes([data[15] ^ 1]) + data[16:], data[:-9]):
        kept.joinpath(f".{newest.name}.crc").unlink(missing_ok=True)  # Hadoop's own, which other file systems do not have
        newest.write_bytes(damaged)
        with pytest.raises(Exception, match=rf"SPARKCEP.STATE_FORMAT\] the log of table reads is damaged in .*/tables/{newest.name}"):
            run()
    newest.write_bytes((1).to_bytes(4, "big") + data[4:-8])
    run()


@pytest.mark.parametrize("route", first(["operator", "frames"], 0, wider=1))
def test_the_progress_has_what_checks_came_to(spark, tmp_path, route):
    """All micro-batches together have the totals of the table, whatever runs the clause."""
    source, seen = tmp_path / "in", collections.Counter()
    source.mkdir()
    rows = rows_of(8, 400)
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    text = STATEMENT.format(t="{t}", measures=MEASURES, budget="BUDGET 1 CHECKS")
    put(source, 0, rows[:200])
    put(source, 1, rows[200:])
    table(spark, source)
    frame = spark.sql(text.format(t="ticks_table"))
    assert len(frame.collect()) > 20
    (wanted,) = sparkcep.budget_totals(frame)
    put(source, 2, closing([]))  # its row is not released
    spark.conf.set("sparkcep.stream.route", route)
    try:
        query = spark.sql(text.format(t="ticks_stream")).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checks")).trigger(availableNow=True).start()
        query.awaitTermination()
    finally:
        spark.conf.unset("sparkcep.stream.route")
    for progress in query.recentProgress:
        for found in figures(json.loads(progress.json)):
            seen.update({name: found[name] for name in ("checks", "checksLeftOut", "rowsWithChecksLeftOut", "matches", "completeMatches", "coverageLost")})
    assert wanted.left_out and (seen["checks"], seen["checksLeftOut"], seen["rowsWithChecksLeftOut"], seen["matches"], seen["completeMatches"]) == wanted[:5]
    assert 1 - seen["coverageLost"] / 1_000_000 / wanted.rows == wanted.coverage


def test_errors_of_a_history(spark, tmp_path, histories):
    source = tmp_path / "in"
    source.mkdir()
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    statement = STATEMENT.format(t="ticks_stream", measures=MEASURES, budget="BUDGET 1 CHECKS USING HISTORY {h}")
    assert "TABLE_OR_VIEW_NOT_FOUND" in refused(spark, statement.format(h="nowhere"))
    spark.sql("SELECT pattern, place, errors, remaining, idle, points, bundles FROM history_now").createOrReplaceTempView("history_short")
    assert "lacks the column visits" in refused(spark, statement.format(h="history_short"))
    spark.readStream.table("history_now").createOrReplaceTempView("history_stream")
    text = refused(spark, statement.format(h="history_stream"))
    assert "the table of USING HISTORY is a stream, but" in text and text.startswith("[SPARKCEP.STREAM]")


@pytest.mark.further
def test_a_query_goes_on_when_a_wrong_history_is_corrected(spark, tmp_path, histories):
    """The first micro-batch reads a wrong table, and a later one reads another. Neither is in the checkpoint."""
    source, right = tmp_path / "in", spark.table("history_one")
    source.mkdir()
    rows = rows_of(9, 300)
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    text = STATEMENT.format(t="{t}", measures=MEASURES, budget="BUDGET 1 CHECKS USING HISTORY history_now")
    for number, piece in enumerate([rows[:150], rows[150:] + closing([(f"k{i}", None) for i in range(30)])]):
        put(source, number, piece)
        right.withColumn("visits", right.visits * 0).write.insertInto("history_now", overwrite=True)
        with pytest.raises(Exception, match=r"SPARKCEP.HISTORY\] the table of USING HISTORY cannot be used: visits is 0") as raised:
            ran(spark.sql(text.format(t="ticks_stream")), tmp_path)
        assert "(line 2, column " in str(raised.value)
        right.write.insertInto("history_now", overwrite=True)
        ran(spark.sql(text.format(t="ticks_stream")), tmp_path)
    table(spark, source)
    wanted = [str(row) for row in spark.sql(text.format(t="ticks_table")).collect() if near(row)]
    got = [str(row) for row in spark.read.parquet(str(tmp_path / "out")).collect() if near(row)]
    assert len(wanted) > 20 and sorted(got) == sorted(wanted)
