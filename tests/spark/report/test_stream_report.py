"""The report of a streaming query: its page, and the matches under way, against what the rows say."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("pyspark")

import sparkcep  # noqa: E402
from sparkcep.spark.stream.start_checks import ROCKSDB  # noqa: E402
from tests.selection import first  # noqa: E402
from tests.spark.report.test_report import tables  # noqa: E402
from tests.spark.stream.test_streams import PROVIDER, put, stream  # noqa: E402
from tests.support.pages import check, text_of  # noqa: E402

HEAD = "SELECT symbol, CAST(z AS STRING) AS z FROM ticks_stream MATCH_RECOGNIZE (PARTITION BY symbol, f ORDER BY ts, n MEASURES LAST(ts) AS z"
TAIL = "PATTERN (A B) WINDOW INTERVAL '1' HOUR DEFINE A AS price = 1, B AS price = 2)"
PARTS = f"""{HEAD} EVENT SELECTION SKIP TILL NEXT MATCH {TAIL.replace("= 1", "= 1 AND PREV(price) IS DISTINCT FROM 9")}

{HEAD.replace("LAST(ts)", "MATCH_COUNT()")} EVENT SELECTION SKIP TILL ANY MATCH {TAIL.replace("= 2", "= A.price + 1")}

{HEAD} AUTOMATON (STATE q2 FINAL ARC FROM q0 TO q1 WHEN price = 1 ARC FROM q1 TO q1 ARC FROM q1 TO q2 WHEN price = 2) WINDOW INTERVAL '1' HOUR)""".split("\n\n")


@pytest.mark.parametrize("count", first((1, 3), 0, wider=1))
def test_the_report_of_a_stream(spark, tmp_path, count):
    statement, source = "\nUNION ALL ".join(PARTS[:count]), tmp_path / "in"
    source.mkdir()
    rows = [("x", 10, 1), ("x", 30, 1), ("<y>", 20, 1), ("<y>", 25, 2), ("<y>", 40, 1), (None, 35, 1), (None, 50, 1), ("late", 300, 1)]
    put(source, 0, [{"symbol": key, "at": at, "n": i, "price": price, "f": 1.5} for i, (key, at, price) in enumerate(rows)])
    spark.conf.set(PROVIDER, ROCKSDB)
    if count > 1:  # what it keeps of each key is beside the rest
        spark.conf.set("sparkcep.stream.idleTimeout", "2 hours")
    try:
        stream(spark, source).createOrReplaceTempView("ticks_stream")
        writer = spark.sql(statement).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).queryName("<alerts>")
        query = writer.start()
        query.processAllAvailable()  # the watermark has passed the rows
        put(source, 1, [{"symbol": "late", "at": 3, "n": 0, "price": 1, "f": 1.5}, {"symbol": "late", "at": 301, "n": 0, "price": 1, "f": None}])
        query.processAllAvailable()
        query.processAllAvailable()  # the first may end with a listing of files that began before
        running = sparkcep.report(query, path=tmp_path / "page.html")
        query.stop()
        ended = sparkcep.report(query)
    finally:
        spark.conf.unset(PROVIDER)
        spark.conf.unset("sparkcep.stream.idleTimeout")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == running
    page = check(running)
    assert page.count("svg") == count + 1 and PARTS[0] in text_of(page) and "why it ended" not in text_of(page).lower()
    now, oldest, batches, jobs = ([row for row in table if row.strip()] for table in tables(page)[-4:])
    now = dict(zip(now[1::2], now[2::2], strict=True))
    assert now["query"] == "<alerts>" and now["state"].startswith("runs: ") and now["watermark"] == "2026-01-01T00:04:51.000Z"
    # each clause drops the late row, and tells one match of <y>
    assert (now["rows in, in these"], now["late rows, in these"], now["matches, in these"]) == (str(10 * count), str(count), str(count))
    # of the first clause the row before is kept, too; the second searches the last window again; of the third <y> goes on from its
    # first row, as rows may stay in q1
    since = [{"x": 10, "<y>": 20 if i else 40, "NULL": 35} for i in range(count)]
    wanted = [(*([str(i)] if count > 1 else []), f"{key}, 1.5", at) for i, keys in enumerate(since, 1) for key, at in keys.items()]
    width = 6 + (count > 1)
    shown = [tuple(oldest[i : i + width]) for i in range(width, len(oldest), width)]
    seconds = [int(re.search(r":(\d\d)\.", row[-5])[1]) for row in shown]
    assert sorted((*row[:-5], at) for row, at in zip(shown, seconds)) == sorted(wanted)
    assert seconds == sorted(seconds) and [row[-4] for row in shown] == [f"0:04:{51 - at:02}" for at in seconds]
    assert batches[14:][::14][-1] == "0" and len(batches) == 14 * (1 + int(now["recent micro-batches"]))
    assert any("the states of all keys" in cell for cell in jobs)
    assert dict(zip(tables(check(ended))[-4][1::2], tables(check(ended))[-4][2::2])) != now


def test_what_report_takes(spark):
    with pytest.raises(TypeError, match="a session and the text of a query, or only a streaming query"):
        sparkcep.report(spark)
