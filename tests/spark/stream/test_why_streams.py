"""sparkcep.why over streaming queries: E16 to the letter by both routes, sources that hold the watermark back, late rows, and
refusals."""

from __future__ import annotations

import json
import os
import re
import shutil
import time

import pytest

pytest.importorskip("pyspark")

import sparkcep  # noqa: E402
from sparkcep.errors import ClauseError  # noqa: E402
from sparkcep.redaction import KEYS, REDACTED  # noqa: E402
from sparkcep.spark.stream.command import ran_of  # noqa: E402
from sparkcep.spark.stream.start_checks import PROVIDER, ROCKSDB  # noqa: E402
from tests.selection import further, slow  # noqa: E402
from tests.support.pages import check, text_of  # noqa: E402

SCHEMA = "user int, ts timestamp, e string"
LOGINS = """SELECT user, since FROM logins MATCH_RECOGNIZE (
  PARTITION BY user ORDER BY ts MEASURES FIRST(ts) AS since PATTERN (L F+) WINDOW INTERVAL '5' MINUTE DEFINE L AS e = 'login', F AS e = 'fail')"""
E16 = """\
user = 7, after micro-batch {batch}, watermark 12:03:00. 3 rows are stored, 12:00:10 to 12:03:05.
Rows 1-2 (12:00:10, 12:01:00) match: L F. The match is not emitted: F+ may go on until WINDOW closes at 12:05:10.
Row 3 (12:03:05) waits: it is not below the watermark."""


@pytest.fixture(params=["operator", slow("frames")])
def route(spark, request):
    own = {PROVIDER: ROCKSDB, "sparkcep.stream.route": request.param, "sparkcep.stream.buckets": "2"}
    before = {key: spark.conf.get(key, None) for key in own}
    for key, value in own.items():
        spark.conf.set(key, value)
    yield request.param
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def processed(query) -> None:
    """Waits for all files. The first call may end with a listing of files that began before the last one was written."""
    query.processAllAvailable()
    query.processAllAvailable()


def put(folder, number: int, *rows: tuple[int, str, str]) -> None:
    """Writes a file of rows: user, clock time and event."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{number:03}.json"
    path.write_text("".join(json.dumps({"user": user, "ts": f"2026-01-01 {at}", "e": e}) + "\n" for user, at, e in rows))
    os.utime(path, (1_700_000_000 + number,) * 2)


def logins(spark, folder, delay: str = "5 seconds"):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder)).withWatermark("ts", delay)


def started(frame, folder):
    return frame.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint")).start()


@pytest.mark.further
def test_e16(spark, tmp_path, route):
    source = tmp_path / "in"
    put(source, 0, (7, "12:00:10", "login"), (7, "12:01:00", "fail"), (8, "12:00:30", "login"), (7, "12:03:05", "fail"), (9, "12:02:00", "click"))
    logins(spark, source).createOrReplaceTempView("logins")
    query = started(spark.sql(LOGINS), tmp_path)
    try:
        processed(query)
        why = sparkcep.why(query, at="user = 7")
        assert str(why) == E16.format(batch=ran_of(query)[-1]["batchId"]) and why.verified
        rows = sparkcep.why(query, at="user = 7 AND ts = TIMESTAMP '2026-01-01 12:01:00'")
        assert str(rows).split("\n")[-1] == "Row 2 (12:01:00) is F there." and rows.rows == (2,)
        put(source, 1, (7, "12:00:50", "fail"), (8, "12:02:00", "fail"))
        processed(query)
        ran = ran_of(query)  # an idle trigger may have reported its progress, too
        batch = ran[-1]["batchId"]
        late = str(sparkcep.why(query, at="user = 5")).split("\n")
        assert late[0] == f"No stored row fulfils user = 5, after micro-batch {batch}, watermark 12:03:00."
        assert late[1:] == ["No row came, or all rows are decided. Emitted matches are not stored.", f"2 rows were late in the last {len(ran)} micro-batches. Spark does not keep late rows."]
        with pytest.raises(Exception, match=r"SPARKCEP.WHY.*at selects stored rows of 2 keys: user = 7 \(3\), user = 8 \(1\). Add AND user = 7"):
            sparkcep.why(query, at="user < 9")
        with pytest.raises(Exception, match=r"SPARKCEP.WHY.*The query has stored rows of .* Write at=\"user = 7\""):
            sparkcep.why(query)
        with pytest.raises(Exception, match=r"SPARKCEP.WHY.*not a condition over the stored columns, which are user, ts"):
            sparkcep.why(query, at="nobody = 7")
        spark.conf.set(KEYS[0], "no[a-z]+y")
        with pytest.raises(Exception, match=r"not a condition over the stored columns") as caught:
            sparkcep.why(query, at="nobody = 7")
        spark.conf.unset(KEYS[0])
        assert REDACTED in str(caught.value) and "nobody" not in str(caught.value)
        with pytest.raises(Exception, match=r"SPARKCEP.WHY.*match and expect are not answered over a stream"):
            sparkcep.why(query, at="user = 7", match=1)
    finally:
        query.stop()
    assert str(sparkcep.why(query, at="user = 7")).startswith("user = 7, after micro-batch")


@pytest.fixture
def forgetful(spark):
    """Spark reports idle triggers often, and remembers few of them."""
    own = {"spark.sql.streaming.noDataProgressEventInterval": "5", "spark.sql.streaming.numRecentProgressUpdates": "3"}
    before = {key: spark.conf.get(key) for key in own}
    for key, value in own.items():
        spark.conf.set(key, value)
    yield
    for key, value in before.items():
        spark.conf.set(key, value)


def wait_until_idle(query) -> None:
    """Waits until Spark remembers only idle triggers of the query."""
    while ran_of(query) or query.lastProgress is None:
        assert query.isActive, query.exception()
        time.sleep(0.05)


@pytest.mark.parametrize("route", [slow("operator"), further("frames")], indirect=True)
def test_an_idle_query_is_explained(spark, tmp_path, route, forgetful):
    """The last micro-batch and its watermark come from the checkpoint if Spark remembers only idle triggers."""
    source, silent = tmp_path / "in", tmp_path / "silent"
    put(source, 0, (7, "12:00:10", "login"), (7, "12:01:00", "fail"), (8, "12:00:30", "login"), (7, "12:03:05", "fail"), (9, "12:02:00", "click"))
    logins(spark, source).createOrReplaceTempView("logins")
    query = started(spark.sql(LOGINS), tmp_path)
    try:
        processed(query)
        wait_until_idle(query)
        assert str(sparkcep.why(query, at="user = 7")) == E16.format(batch=1)  # micro-batch 1 moved the watermark
        page = text_of(check(sparkcep.report(query)))
        assert "Spark remembers only idle triggers of this query." in page and "2026-01-01T12:03:00.000Z" in page and "0:02:50" in page
        assert "No micro-batch is complete yet." not in page
    finally:
        query.stop()
    silent.mkdir()
    logins(spark, source).union(logins(spark, silent)).createOrReplaceTempView("logins")
    query = started(spark.sql(LOGINS), tmp_path / "two")
    try:
        processed(query)
        wait_until_idle(query)
        why = str(sparkcep.why(query, at="user = 7")).split("\n")
        assert why[0] == "user = 7, after micro-batch 0, watermark not known yet. 3 rows are stored, 12:00:10 to 12:03:05."
        assert why[-1] == "The watermark is the least of 2 sources. Spark remembers only idle triggers, so the source without rows for longest is not known."
        shutil.rmtree(tmp_path / "two" / "checkpoint" / "commits")
        with pytest.raises(Exception, match=r"SPARKCEP.WHY.*(since it started, or its checkpoint was removed. Ask again after|cannot be read here: java.io.FileNotFoundException)"):
            sparkcep.why(query, at="user = 7")
    finally:
        query.stop()


SELECTED = """SELECT user, since FROM logins MATCH_RECOGNIZE (
  PARTITION BY user ORDER BY ts MEASURES FIRST(ts) AS since{measure} EVENT SELECTION {selection} PATTERN (L ~X F+ G) WINDOW INTERVAL '5' MINUTE
  DEFINE L AS e = 'login', X AS e = 'reset', F AS e = 'fail', G AS e = 'ok' AND ts > LAST(F.ts))"""


@pytest.mark.further
def test_event_selection(spark, tmp_path, route):
    """Rows between the rows of a run are passed over, and a negation ends a run."""
    source = tmp_path / "in"
    rows = [("12:00:10", "login"), ("12:00:20", "x"), ("12:00:30", "fail"), ("12:00:40", "login"), ("12:00:50", "reset"), ("12:01:00", "fail"), ("12:03:05", "fail")]
    put(source, 0, *[(7, at, e) for at, e in rows], (9, "12:02:00", "click"))
    logins(spark, source).createOrReplaceTempView("logins")
    for name, selection, measure in (("first", "SKIP TILL NEXT MATCH FIRST MATCH", ""), ("all", "SKIP TILL ANY MATCH ALL MATCHES", ", MATCH_NUMBER() AS n")):
        query = started(spark.sql(SELECTED.format(selection=selection, measure=measure)), tmp_path / name)
        try:
            processed(query)
            why = sparkcep.why(query, at="user = 7")
            assert why.verified and why.lines[1].endswith("F+ may go on or G may come until WINDOW closes at 12:05:10."), str(why)
            assert "may begin a match: L F F." in why.lines[1] and [reason.reason for reason in why.reasons][-1] == "WATERMARK"
            assert why.lines[-1].endswith("(12:03:05) waits: it is not below the watermark.")
        finally:
            query.stop()


LACKING = """SELECT user, since, st FROM logins MATCH_RECOGNIZE (
  PARTITION BY user ORDER BY ts MEASURES FIRST(ts) AS since, MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES
  PATTERN (L F F) WINDOW INTERVAL '5' MINUTE DEFINE L AS e = 'login', F AS e = 'fail')"""


def test_unfinished_matches(spark, tmp_path, route):
    """The stream emits the open run when the answer says so, and as it says."""
    source, sink = tmp_path / "in", tmp_path / "out"
    put(source, 0, (7, "12:00:10", "login"), (7, "12:01:00", "fail"), (8, "12:00:20", "login"), (9, "12:03:05", "click"))
    logins(spark, source).createOrReplaceTempView("logins")
    lacking = spark.sql(LACKING)
    query = lacking.writeStream.format("json").option("path", str(sink)).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        processed(query)
        why = sparkcep.why(query, at="user = 7")
        assert why.verified and why.lines[1:] == (
            "Rows 1-2 (12:00:10, 12:01:00) may begin a match: L F. F may come until WINDOW closes at 12:05:10.",
            "Without further rows SHOW UNFINISHED MATCHES emits this run when the watermark reaches 12:05:10: TIMED OUT at ts 12:05:10, expected F.",
        )
        seen = []
        for number, at in enumerate(("12:05:14.999", "12:05:15"), 1):  # watermarks just before 12:05:10, and there
            put(source, number, (9, at, "click"))
            processed(query)
            seen.append({row.user: row.st for row in spark.read.schema(lacking.schema).json(str(sink)).collect()}.get(7))
        assert seen == [None, "TIMED OUT"]
        gone = str(sparkcep.why(query, at="user = 7")).split("\n")
        assert gone[1] == "No row came, or all rows are decided. Emitted matches and emitted unfinished matches are not stored."
    finally:
        query.stop()


SEVERAL = """SELECT since FROM all_logins MATCH_RECOGNIZE (ORDER BY ts MEASURES FIRST(ts) AS since PATTERN (L F+) WINDOW INTERVAL '5' MINUTE DEFINE L AS e = 'login', F AS e = 'fail')
UNION ALL SELECT since FROM all_logins MATCH_RECOGNIZE (PARTITION BY user, upper(e) ORDER BY ts MEASURES FIRST(ts) AS since PATTERN (X X) DEFINE X AS user > 6 OR PREV(e) = 'x')"""


@pytest.mark.further
def test_sources_late_rows_and_several_clauses(spark, tmp_path):
    """The watermark waits for the source without rows. The table of late rows has the late ones."""
    first, second = tmp_path / "first", tmp_path / "second"
    put(first, 0, (7, "12:00:10", "login"), (7, "12:01:00", "fail"), (7, "12:30:00", "fail"))
    second.mkdir()
    own = {PROVIDER: ROCKSDB, "sparkcep.stream.lateRows": "late_logins"}
    spark.sql("DROP TABLE IF EXISTS late_logins")
    spark.sql("CREATE TABLE late_logins (ts TIMESTAMP, user INT) USING parquet")
    for key, value in own.items():
        spark.conf.set(key, value)
    query = None
    try:
        logins(spark, first).union(logins(spark, second)).createOrReplaceTempView("all_logins")
        query = started(spark.sql(SEVERAL), tmp_path)
        processed(query)
        why = str(sparkcep.why(query, which=1)).split("\n")
        assert why[0] == "After micro-batch 0, watermark not known yet. 3 rows are stored, 12:00:10 to 12:30:00."
        assert why[1] == "Rows 1-3 (12:00:10 to 12:30:00) wait: they are not below the watermark."
        held = re.fullmatch(r"The watermark is the least of (\d) sources\. No row came from (.*) in the last 1 micro-batches\.", why[2])
        assert set(held[2].split(" and ")) == {f"FileStreamSource[file:{second}]"}
        with pytest.raises(Exception, match=r"SPARKCEP.WHY.*The query has 2 clauses over a stream. Write which=1 to which=2"):
            sparkcep.why(query)
        put(second, 0, (8, "12:02:00", "x"))
        processed(query)
        put(second, 1, (8, "12:00:20", "fail"), (8, "12:10:00", "x"))
        processed(query)
        why = str(sparkcep.why(query, at="user = 8", which=2)).split("\n")
        assert why[-4].endswith(f"The last rows of FileStreamSource[file:{first}] came in micro-batch 0.")
        assert "Late rows are stored: 2 rows of spark_catalog.default.late_logins fulfil user = 8." in why[-3]  # one by each clause
        assert why[-2:] == ["  ts 2026-01-01 12:00:20, user 8"] * 2
        assert why[0].startswith("user = 8 and upper(e) = 'X', after") and why[0].endswith("2 rows are stored, 12:02:00 to 12:10:00.")
        assert why[1] == "Row 1 (12:02:00) may begin a match: X. X may come with the key's next row." and why[2] == "Row 2 (12:10:00) waits: it is not below the watermark."
        hidden = str(sparkcep.why(query, at="user = 8", which=2, redact="all"))
        assert not re.search(r"12:|2026", hidden) and "2 rows of spark_catalog.default.late_logins" in hidden
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")  # not the process's zone
        assert str(sparkcep.why(query, at="user = 8", which=2)).split("\n")[-2:] == ["  ts 2026-01-01 21:00:20, user 8"] * 2
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        if query is not None:
            query.stop()
        for key in own:
            spark.conf.unset(key)
        spark.sql("DROP TABLE late_logins")


@pytest.mark.further
def test_queries_that_are_refused(spark, tmp_path):
    source = tmp_path / "in"
    put(source, 0, (7, "12:00:10", "login"))
    query = started(logins(spark, source), tmp_path)
    try:
        processed(query)
        with pytest.raises(Exception, match=r"SPARKCEP.WHY.*The query lacks a clause over a stream. Ask about a table of the same rows"):
            sparkcep.why(query)
        with pytest.raises(TypeError, match="a StreamingQuery is given"):
            sparkcep.why(query, "SELECT 1")
    finally:
        query.stop()


def test_spark_connect_is_refused():
    """A query of Spark Connect lacks the objects of the JVM."""
    with pytest.raises(ClauseError, match=r"SPARKCEP.WHY.*Over Spark Connect the state of a query is not explained. Ask about a table of the same rows: sparkcep.why\(spark, sql"):
        sparkcep.why(type("StreamingQuery", (), {})(), at="user = 7")
