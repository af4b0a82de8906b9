"""``sparkcep run --stream``: views over folders to which files come, watermarks, one run after the other, and what is wrong."""

from __future__ import annotations

import json
import uuid

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import ArithmeticException  # noqa: E402
from pyspark.sql.streaming.listener import StreamingQueryProgress  # noqa: E402

from sparkcep.cli.cli import main  # noqa: E402
from sparkcep.errors import ToolError  # noqa: E402
from sparkcep.spark.errors.exceptions import shown  # noqa: E402
from sparkcep.spark.files.sources import SourceError  # noqa: E402
from sparkcep.spark.stream.command import Target, define, progress_text, run, streams_of  # noqa: E402
from tests.selection import first  # noqa: E402

STATEMENT = """SELECT symbol, n, price FROM live_ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts
  MEASURES count(*) AS n, LAST(price) AS price PATTERN (A FALL{2,}) WINDOW INTERVAL '1' MINUTE DEFINE FALL AS price < PREV(price))"""


@pytest.fixture(autouse=True)
def as_before(spark):
    yield
    spark.conf.unset("spark.sql.streaming.stateStore.providerClass")


def arrives(folder, name: str, *rows) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps({"symbol": s, "ts": f"2026-01-01 09:{at}", "price": price}) + "\n" for s, at, price in rows))


def shown_rows(rows, first: bool) -> None:
    rows.show(3, truncate=False)


def found(folder) -> list[tuple]:
    return sorted(tuple(json.loads(line).values()) for path in folder.glob("part-*") for line in path.read_text().splitlines())


@pytest.mark.further
def test_two_runs_of_one_checkpoint(spark, tmp_path, capsys):
    """The first run tells what is decided, the second one goes on."""
    ticks, notes = tmp_path / "ticks", []
    arrives(ticks, "1.json", ("A", "00:00", 10), ("A", "00:02", 8), ("A", "00:01", 9), ("A", "00:09", 9), ("B", "00:20", 5))
    target = Target(str(tmp_path / "out"), str(tmp_path / "state"), True)
    given = streams_of([f"live_ticks={ticks}"], [], ["live_ticks.ts=5 seconds"])
    define(spark, given, notes.append)
    run(spark, spark.sql(STATEMENT), target, 50)
    assert found(tmp_path / "out") == [("A", 3, 8)] and notes == ["live_ticks.ts is read as a timestamp"]
    assert "2 open keys, 1 rows kept, 1 waiting" in capsys.readouterr().err
    arrives(ticks, "2.json", ("B", "00:21", 4), ("B", "00:22", 3), ("B", "00:23", 9), ("B", "02:00", 9))
    run(spark, spark.sql(STATEMENT), target, 50)
    assert found(tmp_path / "out") == [("A", 3, 8), ("B", 3, 3)]


@pytest.mark.further
def test_rows_are_shown_where_no_folder_is_named(spark, tmp_path, capfd):
    arrives(tmp_path / "ticks", "1.json", ("A", "00:00", 10), ("A", "00:01", 9), ("A", "00:02", 8), ("A", "00:09", 9), ("B", "00:20", 5))
    define(spark, streams_of([f"live_ticks={tmp_path / 'ticks'}"], [], ["live_ticks.ts=5 seconds"]), print)
    run(spark, spark.sql(STATEMENT), Target(None, None, True), shown_rows)
    assert "|A     |3  |8    |" in capfd.readouterr().out
    with pytest.raises(ToolError, match="does not read a stream"):
        run(spark, spark.sql("SELECT 1"), Target(None, None, True), shown_rows)


@pytest.mark.parametrize("output", first(["out", None]))
def test_what_ends_a_query_is_told_at_its_place(spark, tmp_path, output, capfd):
    arrives(tmp_path / "ticks", "1.json", ("A", "00:00", 10), ("A", "00:01", 9))
    define(spark, streams_of([f"live_ticks={tmp_path / 'ticks'}"], [], ["live_ticks.ts=5 seconds"]), print)
    statement = STATEMENT.replace("price < PREV(price)", "1 / (price - 9) < 0")
    with pytest.raises(ArithmeticException) as ended:
        run(spark, spark.sql(statement), Target(output and str(tmp_path / output), output and str(tmp_path / "state"), True), shown_rows)
    assert "line 2, column 111" in shown(ended.value, statement) and "SQLQueryContextLogger" not in capfd.readouterr().err


@pytest.mark.further
def test_a_part_of_the_rows_is_shown_and_all_states_are_kept(spark, tmp_path, capfd):
    """More keys than are shown have matches, in both parts of the state; the second run goes on from it."""
    keys = [f"K{i}" for i in range(20)]
    target = Target(None, str(tmp_path / "state"), True)
    for number, (rows, told_rows) in enumerate((((("00:00", 10), ("00:01", 9), ("00:02", 8), ("00:09", 9)), 1), ((("00:21", 4), ("00:22", 3), ("02:00", 9)), 4))):
        arrives(tmp_path / "ticks", f"{number}.json", *((key, *row) for key in keys for row in (*rows, ("00:20" if not number else "02:00", 9))))
        define(spark, streams_of([f"live_ticks={tmp_path / 'ticks'}"], [], ["live_ticks.ts=5 seconds"]), print)
        firsts: list[bool] = []

        def show(rows, first: bool) -> None:
            rows.show(3, truncate=False)
            firsts.append(first)  # noqa: B023

        run(spark, spark.sql(STATEMENT), target, show)
        assert firsts == [True] + [False] * (len(firsts) - 1)
        shown = capfd.readouterr()
        assert "only showing top 3 rows" in shown.out and "20 matches" in shown.err
        assert shown.out.count(f"|{'3  |8' if not number else '3  |3'}    |") == 3, told_rows


def test_what_a_query_fails_with_is_told(spark, tmp_path):
    arrives(tmp_path / "ticks", "1.json", ("A", "00:00", 10))
    define(spark, streams_of([f"live_ticks={tmp_path / 'ticks'}"], [], ["live_ticks.ts=5 seconds"]), print)
    with pytest.raises(ArithmeticException, match="DIVIDE_BY_ZERO"):
        run(spark, spark.sql("SELECT 1 / (price - 10) AS x FROM live_ticks"), Target(None, None, True), shown_rows)


@pytest.mark.parametrize(
    ("streams", "options", "watermarks", "said"),
    [
        (["ticks=x"], [], [], "Say how late rows may be: --watermark ticks.COLUMN='5 seconds'"),
        (["ticks=x"], [], ["ticks.ts"], "write NAME.COLUMN=DELAY"),
        (["ticks=x"], [], ["tick.ts=5 seconds"], "unknown --stream tick; the streams are ticks"),
        (["ticks"], [], [], "write NAME=PATH"),
    ],
)
def test_wrong_arguments(streams, options, watermarks, said):
    with pytest.raises(SourceError, match=said):
        streams_of(streams, options, watermarks)


@pytest.mark.parametrize(
    ("watermark", "said"),
    [("live_ticks.day=5 seconds", "does not have a column day; the columns are price, symbol, ts"), ("live_ticks.ts=five", "live_ticks.ts=five: "), ("live_ticks.price=5 seconds", "live_ticks.price=5 seconds: ")],
)
def test_wrong_watermarks(spark, tmp_path, watermark, said):
    arrives(tmp_path / "ticks", "1.json", ("A", "00:00", 10))
    with pytest.raises(SourceError, match=said):
        define(spark, streams_of([f"live_ticks={tmp_path / 'ticks'}"], [], [watermark]), print)


def test_kafka_names_its_package(spark):
    given = streams_of(["ticks=kafka://localhost:9092/ticks"], ["ticks.schema=symbol STRING, ts TIMESTAMP"], ["ticks.ts=5 seconds"])
    with pytest.raises(SourceError, match="spark-sql-kafka-0-10_2.13:4"):
        define(spark, given, print)
    with pytest.raises(SourceError, match="ticks.schema=symbol STRING"):
        define(spark, streams_of(["ticks=kafka://localhost:9092/ticks"], [], ["ticks.ts=5 seconds"]), print)


def test_wrong_folders_and_options(tmp_path, capsys):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(SourceError, match="written to a folder"):
        Target(str(tmp_path / "a.json"), "c", False).check()
    with pytest.raises(SourceError, match="add --checkpoint"):
        Target(str(tmp_path / "out"), None, False).check()
    assert main(["run", "-e", "SELECT 1", "--once"]) == 2
    assert "belong to --stream" in capsys.readouterr().err


def test_a_line_of_progress():
    """As a classic session tells it, and as Connect does, whose sources alone have numbers."""
    operator = {"operatorName": "matchRecognize", "numRowsDroppedByWatermark": 2, "customMetrics": {"openKeys": 4, "keptRows": 5, "pendingRows": 6, "matches": 7}}
    source = {"description": "", "startOffset": "0", "endOffset": "1", "latestOffset": "1", "numInputRows": 1200, "inputRowsPerSecond": 2.0, "processedRowsPerSecond": 2400.0}
    operator |= {name: 0 for name in ("numRowsTotal", "numRowsUpdated", "numRowsRemoved", "allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs", "memoryUsedBytes",
                                      "numShufflePartitions", "numStateStoreInstances")}
    progress = {
        "id": str(uuid.uuid4()), "runId": str(uuid.uuid4()), "name": None, "timestamp": "", "batchId": 3, "batchDuration": 1, "durationMs": {},
        "eventTime": {"watermark": "2026-01-01T09:00:15.000Z"}, "stateOperators": [operator], "sources": [source], "sink": {"description": "", "numOutputRows": -1},
    }
    line = "micro-batch 3, 1,200 rows in (2,400 rows/s), 7 matches, 4 open keys, 5 rows kept, 6 waiting, 2 late, watermark 2026-01-01T09:00:15.000Z"
    assert progress_text(StreamingQueryProgress.fromJson(progress)) == line
    assert progress_text(StreamingQueryProgress.fromJson(progress | {"numInputRows": 1200, "processedRowsPerSecond": 2400.0})) == line
