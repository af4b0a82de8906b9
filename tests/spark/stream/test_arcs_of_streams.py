"""ARCS FROM over a stream, through Spark: a table that changes between micro-batches, against a log of what changed over a table;
micro-batches that are tried again; what is wrong."""

from __future__ import annotations

import datetime
import random

import pytest

pytest.importorskip("pyspark")

import sparkcep  # noqa: E402
from tests.spark.stream.test_streams import BEGIN, END, PROVIDER, ROCKSDB, SCHEMA, not_started, put, stream  # noqa: E402

KEYS, BATCHES = 60, 5
ARC = "arc STRING, k INT, valid_from TIMESTAMP, valid_to TIMESTAMP, symbol STRING, op STRING"
AUTOMATON = """AUTOMATON (REGISTER last INT, rises INT = 0 STATE q2 FINAL ARC low(k INT) FROM q0 TO q1 WHEN price <= k SET last = price
    ARC FROM q1 TO q1 WHEN price >= last SET last = price, rises = rises + 1 ARC high(k INT) FROM q1 TO q2 WHEN price > k {arcs}) WINDOW INTERVAL '9' SECONDS"""
CLAUSE = f"PARTITION BY symbol ORDER BY ts, n MEASURES {{own}} FIRST(ts) AS a, LAST(ts) AS z, rises AS r, count(*) AS c {AUTOMATON} {{changes}}"


@pytest.fixture(autouse=True)
def rocksdb(spark):
    spark.conf.set(PROVIDER, ROCKSDB)
    yield
    spark.conf.unset(PROVIDER)


def at(seconds: float) -> datetime.datetime:
    return BEGIN + datetime.timedelta(seconds=seconds)


class Rules:
    """A table of arcs, as files that are written anew, and the log of what changed in it (``log``: its rows and when)."""

    def __init__(self, spark, folder) -> None:
        self.spark, self.folder = spark, str(folder)
        self.rows: list[tuple] = []
        self.log: list[tuple] = []

    def hold(self, batch: int, rows: list[tuple]) -> None:
        self.log += [(*row[:5], row[5] or "insert", 10 * batch) for row in rows if row not in self.rows]
        self.log += [(*row[:3], None, row[4], "delete", 10 * batch) for row in self.rows if row not in rows and row[5] is None]
        self.rows = rows
        self.spark.createDataFrame(rows, ARC).coalesce(1).write.mode("overwrite").parquet(self.folder)


def went(frame, folder) -> dict[int, list]:
    """Runs a query until its files are read; the rows of each micro-batch."""
    told: dict[int, list] = {}
    query = frame.writeStream.foreachBatch(lambda rows, number: told.__setitem__(number, sorted(map(str, rows.collect()))))
    query.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    return told


def rows_of(rng: random.Random, batch: int) -> list[dict]:
    """Some seconds of rows of all keys, in disorder of less than four seconds."""
    rows = [{"symbol": f"k{rng.randrange(KEYS)}", "at": 8 * batch + rng.randrange(11) + 3, "n": 1000 * batch + i, "price": rng.randrange(10), "f": None} for i in range(220)]
    return rows


@pytest.mark.slow  # what is read at each micro-batch is seen by the tests below, too
@pytest.mark.parametrize("seed", [0])
def test_a_table_that_changes_is_a_log_of_its_changes(spark, tmp_path, seed):
    """One query of four clauses: told once, with one column of keys that a filter leaves, counted, and as changes."""
    rng, source = random.Random(seed), tmp_path / "in"
    source.mkdir()
    rules, own = Rules(spark, tmp_path / "rules"), [(name, k, None, None, None, None) for name, k in (("low", 3), ("high", 6))]
    held = [
        own,
        [*own, ("low", 5, None, None, "k1", None), ("high", 2, None, None, "k2", None)],
        [own[0], ("high", 4, None, None, None, None), ("high", 2, None, None, "k2", None), ("high", 1, at(23), at(25), None, None)],
        [own[0], ("high", 4, None, None, None, None), ("high", 1, at(23), at(25), None, None), ("low", 7, at(29), None, None, None)],
        [("low", 2, None, None, None, None), ("high", 4, None, None, None, None), ("low", 7, at(29), None, None, None)],
    ]
    rules.hold(0, held[0])
    stream(spark, source, "4 seconds").selectExpr("*", "CAST(NULL AS STRING) AS op").createOrReplaceTempView("arcs_ticks")
    spark.read.schema(ARC).parquet(rules.folder).createOrReplaceTempView("arcs_now")
    once = f"FROM arcs_ticks MATCH_RECOGNIZE ({CLAUSE.format(own='', changes='', arcs='ARCS FROM rules')})"
    changes = CLAUSE.format(own="CHANGE() AS change,", changes="CHANGES IN op REPORT CHANGES", arcs="ARCS FROM rules")
    frame = spark.sql(f"""WITH rules AS (SELECT * FROM arcs_now WHERE k < 100)
        SELECT 'once' AS what, symbol, a, z, r, c, 1 AS sign {once} UNION ALL SELECT 'one', NULL, NULL, z, NULL, NULL, 1 {once} WHERE symbol = 'k1'
        UNION ALL SELECT 'changes', symbol, a, z, r, c, IF(change = 'insert', 1, -1) FROM arcs_ticks MATCH_RECOGNIZE ({changes})""")
    came, told = [], []

    def keep(rows, number):
        told.extend(rows.collect())

    for batch in range(BATCHES):
        if batch:
            rules.hold(batch, held[batch])
        some = rows_of(rng, batch)
        came += [(row["symbol"], at(row["at"]), row["n"], row["price"], None, 10 * batch + 5) for row in some]
        put(source, batch, some)
        frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    put(source, BATCHES, [{"symbol": "last", "at": END, "n": 0, "price": 9, "f": None}])
    frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    watermarks = []  # rows at or before that of the micro-batch before are late
    latest = 0
    for batch in range(BATCHES):
        watermarks.append(latest)
        latest = max(latest, *((row[1] - BEGIN).total_seconds() - 4 for row in came if row[5] == 10 * batch + 5))
    kept = [row for row in came if (row[1] - BEGIN).total_seconds() > watermarks[row[5] // 10]]
    assert len(came) - len(kept) < 200
    spark.createDataFrame(kept, "symbol string, ts timestamp, n int, price int, op string, at int").createOrReplaceTempView("arcs_rows")
    spark.createDataFrame(rules.log, f"{ARC}, at INT").createOrReplaceTempView("arcs_log")
    batched = CLAUSE.format(own="", changes="CHANGES IN op ARRIVAL BY at", arcs="ARCS FROM arcs_log ARRIVAL BY at")
    wanted = spark.sql(f"SELECT symbol, a, z, r, c FROM arcs_rows MATCH_RECOGNIZE ({batched})").collect()
    assert len(wanted) > 100
    assert sorted(str(tuple(row)[1:6]) for row in told if row.what == "once") == sorted(str(tuple(row)) for row in wanted)
    assert sorted(row.z for row in told if row.what == "one") == sorted(row.z for row in wanted if row.symbol == "k1") != []
    left: dict[str, int] = {}
    for row in told:
        if row.what == "changes":
            left[str(tuple(row)[1:6])] = left.get(str(tuple(row)[1:6]), 0) + row.sign
    assert any(row.sign < 0 for row in told)
    assert sorted(name for name, count in left.items() for _ in range(count)) == sorted(str(tuple(row)) for row in wanted)


@pytest.mark.slow  # test_stream_history.py tries one again, too
def test_a_micro_batch_that_is_tried_again_reads_what_it_read(spark, tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    rules, own = Rules(spark, tmp_path / "rules"), [("low", 3, None, None, None, None), ("high", 6, None, None, None, None)]
    rules.hold(0, own)
    put(source, 0, [{"symbol": f"k{i}", "at": 1 + second, "n": second, "price": price, "f": None} for i in range(9) for second, price in enumerate((4, 9, 3, 7))])
    stream(spark, source, "0 seconds").createOrReplaceTempView("arcs_ticks")
    spark.read.schema(ARC).parquet(rules.folder).createOrReplaceTempView("arcs_now")
    frame = spark.sql(f"SELECT * FROM arcs_ticks MATCH_RECOGNIZE ({CLAUSE.format(own='', changes='', arcs='ARCS FROM arcs_now')})")
    first = went(frame, tmp_path)
    last = max(first)
    assert len(first[last]) == 9  # one of each key, with the watermark that the rows have brought
    checkpoint = tmp_path / "checkpoint"
    logged = {path: path.read_bytes() for path in (checkpoint / "state" / "0" / "_sparkcep" / "tables").iterdir()}
    assert len(logged) >= 2
    for path in (checkpoint / "commits").glob(f"*{last}*"):
        path.unlink()  # as if the driver had died before
    rules.hold(1, [*own, ("low", 5, at(1), None, None, None)])  # by which each key has a second match
    assert went(frame, tmp_path) == {last: first[last]}
    assert {path: path.read_bytes() for path in logged} == logged
    put(source, 1, [{"symbol": "k0", "at": 9, "n": 9, "price": 1, "f": None}])
    with pytest.raises(Exception, match=r"LATE_ROW.*low\(5\).*Give it a later valid_from.*line 2, column"):  # it is read now, and reaches back to rows that were decided
        went(frame, tmp_path)
    rules.hold(1, [*own, ("low", 5, at(5), None, None, None)])  # put right, and the query goes on
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    try:
        for number in range(1, 5):
            put(source, number, [{"symbol": "k0", "at": 9 + 20 * number, "n": 9, "price": 1, "f": None}])
            told = went(frame, tmp_path)
    finally:
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
    assert max(told) > last + 3
    there = sorted(int(path.name) for path in (checkpoint / "state" / "0" / "_sparkcep" / "tables").iterdir() if path.name.isdigit())
    assert there[1:] == [max(told) - 2, max(told) - 1, max(told)] and there[0] == last + 1  # the one that they name has the content
    query = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()
    page = sparkcep.report(query)
    query.stop()
    assert "k0" in page and "1970" not in page
    other = frame.sparkSession.sql(f"SELECT * FROM arcs_ticks MATCH_RECOGNIZE ({CLAUSE.format(own='', changes='', arcs='ARCS FROM (SELECT arc, k FROM arcs_now)')})")
    assert "the columns of the table of ARCS FROM differ" in not_started(other, checkpoint)


def test_arcs_as_text_with_all_rows(spark, tmp_path):
    """Texts see the columns of the rows, which come back as they are."""
    source, rng = tmp_path / "in", random.Random(5)
    source.mkdir()
    rules = [("k3", "q0", "q1", "price < 3", "last = price", None), (None, "q0", "q1", "price < 2", "last = price", None), (None, "q1", "rise", "price > last + 2", None, True)]
    spark.createDataFrame(rules, "symbol STRING, from_state STRING, to_state STRING, `when` STRING, `set` STRING, final BOOLEAN").createOrReplaceTempView("arcs_texts")
    clause = """PARTITION BY symbol ORDER BY ts, n MEASURES last AS l, CLASSIFIER() AS c ALL ROWS PER MATCH WITH UNMATCHED ROWS
        AUTOMATON (REGISTER last INT STATE q0 START, q1 IGNORE WHEN price = 9 ARCS FROM arcs_texts) WINDOW INTERVAL '9' SECONDS"""
    for batch in range(3):
        put(source, batch, sorted(rows_of(rng, batch), key=lambda row: row["at"]))
    put(source, 3, [{"symbol": "last", "at": END, "n": 0, "price": 9, "f": None}])
    stream(spark, source, "9 seconds").createOrReplaceTempView("arcs_ticks")
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("arcs_table")
    told = [row for rows in went(spark.sql(f"SELECT * FROM arcs_ticks MATCH_RECOGNIZE ({clause})"), tmp_path).values() for row in rows]
    wanted = sorted(str(row) for row in spark.sql(f"SELECT * FROM arcs_table MATCH_RECOGNIZE ({clause})").collect() if row.symbol != "last")
    assert sorted(told) == wanted and len({row for row in wanted if "l=None" not in row}) > 50
