"""``sparkcep run --stream``: views over folders to which files come, watermarks, one run after the other, and what is wrong."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import ArithmeticException  # noqa: E402

from sparkcep.cli import main  # noqa: E402
from sparkcep.errors import ToolError  # noqa: E402
from sparkcep.spark.errors import shown  # noqa: E402
from sparkcep.spark.sources import SourceError  # noqa: E402
from sparkcep.spark.streamed import Given, Target, define, run, told  # noqa: E402

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


def test_two_runs_of_one_checkpoint(spark, tmp_path, capsys):
    """The first run tells what is decided, the second one goes on."""
    ticks, notes = tmp_path / "ticks", []
    arrives(ticks, "1.json", ("A", "00:00", 10), ("A", "00:02", 8), ("A", "00:01", 9), ("A", "00:09", 9), ("B", "00:20", 5))
    target = Target(str(tmp_path / "out"), str(tmp_path / "state"), True)
    given = Given.of([f"live_ticks={ticks}"], [], ["live_ticks.ts=5 seconds"])
    define(spark, given, notes.append)
    run(spark, spark.sql(STATEMENT), target, 50)
    assert found(tmp_path / "out") == [("A", 3, 8)] and notes == ["live_ticks.ts is read as a timestamp"]
    assert "2 open keys, 1 rows kept, 1 waiting" in capsys.readouterr().err
    arrives(ticks, "2.json", ("B", "00:21", 4), ("B", "00:22", 3), ("B", "00:23", 9), ("B", "02:00", 9))
    run(spark, spark.sql(STATEMENT), target, 50)
    assert found(tmp_path / "out") == [("A", 3, 8), ("B", 3, 3)]


def test_rows_are_shown_where_no_folder_is_named(spark, tmp_path, capfd):
    arrives(tmp_path / "ticks", "1.json", ("A", "00:00", 10), ("A", "00:01", 9), ("A", "00:02", 8), ("A", "00:09", 9), ("B", "00:20", 5))
    define(spark, Given.of([f"live_ticks={tmp_path / 'ticks'}"], [], ["live_ticks.ts=5 seconds"]), print)
    run(spark, spark.sql(STATEMENT), Target(None, None, True), shown_rows)
    assert "|A     |3  |8    |" in capfd.readouterr().out
    with pytest.raises(ToolError, match="reads no stream"):
        run(spark, spark.sql("SELECT 1"), Target(None, None, True), shown_rows)


def test_rows_that_are_not_shown_do_not_keep_state_behind(spark, tmp_path):
    """Spark ends a query of which a partition's state was not written in a micro-batch."""
    for minute in range(3):
        arrives(tmp_path / "ticks", f"{minute}.json", *((f"s{k}", f"{minute:02}:{10 * i}", 10 - i) for k in range(40) for i in range(4)))
    define(spark, Given.of([f"live_ticks={tmp_path / 'ticks'}"], ["live_ticks.maxFilesPerTrigger=1"], ["live_ticks.ts=5 seconds"]), print)
    seen: list[tuple[int, bool]] = []

    def shown(rows, first: bool) -> None:
        seen.append((len(rows.limit(2).collect()), first))

    run(spark, spark.sql(STATEMENT), Target(None, None, True), shown)
    assert len(seen) >= 2 and {rows for rows, _ in seen} == {2} and [first for _, first in seen] == [True] + [False] * (len(seen) - 1)


@pytest.mark.parametrize("output", ["out", None])
def test_what_ends_a_query_is_told_at_its_place(spark, tmp_path, output, capfd):
    arrives(tmp_path / "ticks", "1.json", ("A", "00:00", 10), ("A", "00:01", 9))
    define(spark, Given.of([f"live_ticks={tmp_path / 'ticks'}"], [], ["live_ticks.ts=5 seconds"]), print)
    statement = STATEMENT.replace("price < PREV(price)", "1 / (price - 9) < 0")
    with pytest.raises(ArithmeticException) as ended:
        run(spark, spark.sql(statement), Target(output and str(tmp_path / output), output and str(tmp_path / "state"), True), shown_rows)
    assert "line 2, column 111" in shown(ended.value, statement) and "SQLQueryContextLogger" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("streams", "options", "watermarks", "said"),
    [
        (["ticks=x"], [], [], "say how late its rows may come: --watermark ticks.COLUMN='5 seconds'"),
        (["ticks=x"], [], ["ticks.ts"], "write NAME.COLUMN=DELAY"),
        (["ticks=x"], [], ["tick.ts=5 seconds"], "there is no --stream tick=...; there is ticks"),
        (["ticks"], [], [], "write NAME=PATH"),
    ],
)
def test_wrong_arguments(streams, options, watermarks, said):
    with pytest.raises(SourceError, match=said):
        Given.of(streams, options, watermarks)


@pytest.mark.parametrize(
    ("watermark", "said"),
    [("live_ticks.day=5 seconds", "has no column day; it has price, symbol, ts"), ("live_ticks.ts=five", "live_ticks.ts=five: "), ("live_ticks.price=5 seconds", "live_ticks.price=5 seconds: ")],
)
def test_wrong_watermarks(spark, tmp_path, watermark, said):
    arrives(tmp_path / "ticks", "1.json", ("A", "00:00", 10))
    with pytest.raises(SourceError, match=said):
        define(spark, Given.of([f"live_ticks={tmp_path / 'ticks'}"], [], [watermark]), print)


def test_kafka_names_its_package(spark):
    given = Given.of(["ticks=kafka://localhost:9092/ticks"], ["ticks.schema=symbol STRING, ts TIMESTAMP"], ["ticks.ts=5 seconds"])
    with pytest.raises(SourceError, match="spark-sql-kafka-0-10_2.13:4"):
        define(spark, given, print)
    with pytest.raises(SourceError, match="ticks.schema=symbol STRING"):
        define(spark, Given.of(["ticks=kafka://localhost:9092/ticks"], [], ["ticks.ts=5 seconds"]), print)


def test_wrong_folders_and_options(tmp_path, capsys):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(SourceError, match="files in a folder"):
        Target(str(tmp_path / "a.json"), "c", False).check()
    with pytest.raises(SourceError, match="name a --checkpoint"):
        Target(str(tmp_path / "out"), None, False).check()
    assert main(["run", "-e", "SELECT 1", "--once"]) == 2
    assert "belong to --stream" in capsys.readouterr().err


def test_a_line_of_progress():
    progress = {
        "batchId": 3, "numInputRows": 1200, "eventTime": {"watermark": "2026-01-01T09:00:15.000Z"},
        "stateOperators": [{"operatorName": "matchRecognize", "numRowsDroppedByWatermark": 2, "customMetrics": {"openKeys": 4, "keptRows": 5, "pendingRows": 6, "matches": 7}}],
    }  # fmt: skip
    assert told(progress) == "micro-batch 3, 1,200 rows in, 7 matches, 4 open keys, 5 rows kept, 6 waiting, 2 late, watermark 2026-01-01T09:00:15.000Z"
