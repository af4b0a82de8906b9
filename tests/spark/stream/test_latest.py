"""The last rows of a query over a stream, and a cell that shows them: what is kept, what stays, how it ends."""

from __future__ import annotations

import os
import threading
import time

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import ArithmeticException  # noqa: E402

from sparkcep.notebook import live  # noqa: E402
from sparkcep.notebook.cell import CellError, Options  # noqa: E402
from sparkcep.notebook.live import LastRows, follow  # noqa: E402
from sparkcep.notebook.picture import Picture  # noqa: E402
from sparkcep.spark.stream.memory_sink import Running, Seen  # noqa: E402
from sparkcep.spark.stream.start_checks import PROVIDER, ROCKSDB  # noqa: E402
from tests.spark.stream.test_streamed import arrives  # noqa: E402

KEYS = [f"K{i:02}" for i in range(20)]
MATCHES = """SELECT symbol, n, price FROM latest_ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts
  MEASURES count(*) AS n, LAST(price) AS price PATTERN (A FALL{2,}) WINDOW INTERVAL '1' MINUTE DEFINE FALL AS price < PREV(price))"""
ROWS = """SELECT * FROM latest_ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts
  MEASURES CLASSIFIER() AS variable, MATCH_NUMBER() AS match ALL ROWS PER MATCH WITH UNMATCHED ROWS
  PATTERN (A FALL{2,}) WINDOW INTERVAL '1' MINUTE DEFINE FALL AS price < PREV(price)) WHERE symbol = 'K03'"""


class Reporter:
    """Keeps what is shown: the line, what stands below it, and the rows that a terminal adds."""

    def __init__(self) -> None:
        self.shown: list[tuple] = []

    def live(self, text, below, fresh) -> None:
        self.shown.append((text, below, fresh))


@pytest.fixture
def ticks(spark, tmp_path):
    """A stream of three micro-batches. In each of the first two every key has a match of four rows or three."""
    first = [("00:00", 10), ("00:01", 9), ("00:02", 8), ("00:09", 9), ("00:20", 5)]
    for number, rows in enumerate((first, [("00:21", 4), ("00:22", 3), ("02:00", 9)], [("05:00", 1)])):
        arrives(tmp_path / "ticks", f"{number}.json", *((key, *row) for key in KEYS for row in rows))
        os.utime(tmp_path / "ticks" / f"{number}.json", (number, number))  # files are taken in the order of their times
    spark.conf.set(PROVIDER, ROCKSDB)
    stream = spark.readStream.schema("symbol STRING, ts TIMESTAMP, price INT").option("maxFilesPerTrigger", 1).json(str(tmp_path / "ticks"))
    stream.withWatermark("ts", "5 seconds").createOrReplaceTempView("latest_ticks")
    yield
    spark.conf.unset(PROVIDER)


@pytest.mark.further
def test_the_last_rows_are_kept_and_no_more(spark, ticks):
    """Fewer rows than a micro-batch gives are kept, and the states of all keys."""
    running = Running(spark.sql(MATCHES), 3, once=True)
    while not running.ended(1):
        assert len(running.seen().rows) <= 3
    running.stop()
    seen = running.seen()
    assert seen.total == 2 * len(KEYS) and len(seen.rows) == 3
    assert all(row[0] in KEYS and row[1:] == (4, 3) for row in seen.rows)  # of the second micro-batch, not of the first


@pytest.mark.further
def test_a_cell_shows_a_stream_until_it_ends(spark, ticks, monkeypatch):
    monkeypatch.setattr(live, "_LOOK", 0.05)
    reporter, frame = Reporter(), spark.sql(MATCHES)
    table, outcome = follow(frame, frame.schema, Options("", limit=3, once=True), reporter)
    assert isinstance(table, LastRows) and table.total == 40 and len(table.rows) == 3 and table.frame is frame
    assert outcome.startswith("done: micro-batch ") and "20 open keys" in outcome and "watermark 2026-01-01T09:" in outcome
    totals = [below.total for _, below, _ in reporter.shown]
    assert totals[0] == 0 and totals == sorted(totals)  # it was shown before there was anything
    fresh = [rows for _, _, rows in reporter.shown if rows is not None]
    assert sum(rows.total for rows in fresh) == totals[-1] > 0 and all(len(rows.rows) == 3 for rows in fresh)


@pytest.mark.further
def test_a_cell_draws_a_stream(spark, ticks):
    frame = spark.sql(ROWS)
    drawn, _ = follow(frame, frame.schema, Options("", plot=True, once=True), Reporter())
    assert isinstance(drawn, Picture) and drawn.about == "price over ts, 2 matches"
    assert drawn._repr_png_().startswith(b"\x89PNG")
    frame = spark.sql(MATCHES)
    with pytest.raises(CellError, match="--plot needs a column variable"):
        follow(frame, frame.schema, Options("", plot=True, once=True), Reporter())


@pytest.mark.further
def test_a_query_without_an_end_is_ended(spark, ticks):
    """After some seconds, or by an interrupt, which may come at any time; nothing runs on, and what was there stays."""
    frame = spark.sql(MATCHES)
    began = time.monotonic()
    table, outcome = follow(frame, frame.schema, Options("", seconds=2), Reporter())
    assert outcome.startswith("stopped: ") and 2 <= time.monotonic() - began < 60 and not spark.streams.active

    class Interrupting(Reporter):
        def live(self, text, below, fresh) -> None:
            super().live(text, below, fresh)
            if below.total == 40 or time.monotonic() > began + 120:
                raise KeyboardInterrupt

    reporter = Interrupting()
    table, outcome = follow(frame, frame.schema, Options(""), reporter)
    assert outcome.startswith("stopped: ") and table.total == 40 == len(table.rows) and not spark.streams.active
    assert not [thread for thread in threading.enumerate() if thread.name == "sparkcep stream"]


def test_what_a_stream_fails_with_is_raised(spark, ticks):
    frame = spark.sql("SELECT 1 / (price - 3) AS x FROM latest_ticks")
    with pytest.raises(ArithmeticException, match="DIVIDE_BY_ZERO"):
        follow(frame, frame.schema, Options("", once=True), Reporter())
    assert not spark.streams.active


def test_a_table_of_last_rows():
    table = LastRows(None, ["n"], Seen(((8,), (9,)), 9))
    assert repr(table).endswith("(the last 2 of 9 rows (--limit shows more))") and repr(table.after(8)) == "n\n-\n9\n(1 row)"
    assert table.after(9) is None and repr(table.after(4)).endswith("(the last 2 of 5 rows (--limit shows more))")
    assert repr(LastRows(None, ["n"], Seen(((8,),), 1))).endswith("(1 row)")
