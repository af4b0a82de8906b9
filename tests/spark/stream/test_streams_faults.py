"""A clause over a stream under faults: processes that are killed, keys that come and go for long, checkpoints that were kept."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import sparkcep  # noqa: E402
from tests.selection import first  # noqa: E402
from tests.spark.stream import kept_checkpoint  # noqa: E402
from tests.spark.stream.test_chained_streams import STATEMENTS as CHAINED  # noqa: E402
from tests.spark.stream.test_streams import (  # noqa: E402
    PROVIDER,
    ROCKSDB,
    SCHEMA,
    STATEMENTS,
    behind,
    closing,
    not_started,
    pieces,
    put,
    rows_of,
    stream,
    written,
)

PROGRAM = '''
import sys
from pyspark.sql import SparkSession
import sparkcep
from tests.spark.stream.test_streams import PROVIDER, ROCKSDB, stream
from pathlib import Path

folder, master = Path(sys.argv[1]), sys.argv[2]
builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2").config(PROVIDER, ROCKSDB)
builder = builder.config("sparkcep.stream.route", sys.argv[3]).config("spark.executor.memory", "1g").config("spark.sql.session.timeZone", "UTC")
spark = sparkcep.enable(builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate(), warm=False)
stream(spark, folder / "in").createOrReplaceTempView("ticks_stream")
for name in ("arcs", "history"):
    if (folder / name).exists():
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(f"{name}_now")
query = spark.sql(sys.argv[4].format(t="ticks_stream")).writeStream.format("parquet").option("path", str(folder / "out"))
query.option("checkpointLocation", str(folder / "out.checkpoint")).trigger(availableNow=True).start().awaitTermination()
'''


@pytest.fixture(autouse=True)
def rocksdb(spark):
    spark.conf.set(PROVIDER, ROCKSDB)
    yield
    spark.conf.unset(PROVIDER)


class Run:
    """A query in a process group of its own, over the files of a folder."""

    def __init__(self, folder: Path, master: str, route: str = "operator", statement: str = STATEMENTS["v"], program: str = PROGRAM) -> None:
        self.logs = folder / "out.checkpoint"
        with (folder / "log").open("ab") as log:
            command = [sys.executable, "-c", program, str(folder), master, route, statement]
            self.process = subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log, cwd=Path(sparkcep.__file__).parents[1])

    def under_way(self, batch: int) -> bool:
        """Whether the offsets of a micro-batch are written, and that it is committed is not."""
        return (self.logs / "offsets" / str(batch)).exists() and not (self.logs / "commits" / str(batch)).exists()

    def kept(self, batch: int) -> bool:
        """The same, and a part of its state is written: what changed, or by data frames the whole store."""
        return self.under_way(batch) and any(path.suffix in (".changelog", ".zip") for path in (self.logs / "state" / "0").glob(f"*/{batch + 1}.*"))

    def read(self, batch: int) -> bool:
        """The same, and what it has read of the tables beside the rows is written, of each clause that reads any."""
        clauses = [path for path in (self.logs / "state").glob("*/_sparkcep") if (path / "tables").exists()]
        return self.under_way(batch) and bool(clauses) and all((path / "tables" / str(batch)).exists() for path in clauses)

    def wait(self, until: Callable[[], bool]) -> bool:
        """Waits until something is true, which it is before the query ends."""
        while self.process.poll() is None:
            if until():
                return True
            time.sleep(0.003)
        raise AssertionError((self.logs.parent / "log").read_text()[-3000:])

    def seen(self, least: int) -> int:
        """The first micro-batch from that number on that is seen under way; a machine that is busy may miss some."""
        found: list[int] = []

        def under_way() -> bool:
            numbers = sorted(int(path.name) for path in (self.logs / "offsets").iterdir() if path.name.isdigit())
            found[:] = [number for number in numbers if number >= least and self.under_way(number)]
            return bool(found)

        self.wait(under_way)
        return found[0]

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()

    def kill(self) -> None:
        """The driver, its JVM and workers."""
        os.killpg(self.process.pid, signal.SIGKILL)
        assert self.process.wait(60) == -signal.SIGKILL

    def kill_one(self, words: str) -> bool:
        """One process below the driver whose command has these words, if any; workers have a process group of their own."""
        commands, parents = {}, {}
        for line in subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout.splitlines():
            pid, parent, command = line.split(None, 2)
            commands[int(pid)], parents[int(pid)] = command, int(parent)

        def below(pid: int) -> bool:
            while pid in parents and pid != self.process.pid:
                pid = parents[pid]
            return pid == self.process.pid

        found = [pid for pid, command in commands.items() if words in command and below(pid)]
        if found:
            os.kill(max(found), signal.SIGKILL)  # of daemon and worker the one that began last
        return bool(found)


def fed(folder: Path, seed: int, count: int, files: int) -> Path:
    """A folder with ``count`` rows in so many files, and one that ends all keys."""
    source, rows = folder / "in", rows_of(seed, count)
    source.mkdir()
    keys = list({row["symbol"]: (row["symbol"], None) for row in rows}.values())
    for number, piece in enumerate([*pieces(rows, random.Random(seed), files), closing(keys)]):
        put(source, number, piece)
    return source


@pytest.mark.slow
@pytest.mark.process
def test_twenty_kills(spark, tmp_path):
    """Drivers are killed when offsets are written, and when state is, workers and executors in between; nothing is missing and
    nothing comes twice."""
    source, rng = fed(tmp_path, seed=11, count=3000, files=29), random.Random(11)
    kills = {"driver, offsets": 0, "driver, state": 0, "worker": 0, "executor": 0}
    for batch in range(1, 13):
        what = "driver, offsets" if batch % 2 else "driver, state"
        with Run(tmp_path, "local[2]") as run:
            run.wait(partial(run.under_way if batch % 2 else run.kept, batch))
            if batch % 2:
                time.sleep(rng.random() / 3)
            run.kill()
        kills[what] += 1
    with Run(tmp_path, "local[2,4]") as run:
        batch = 13
        for _ in range(4):
            batch = run.seen(batch + 1)
            kills["worker"] += run.wait(lambda: run.kill_one("sparkcep.spark.daemon") or run.kill_one("pyspark.daemon"))
        run.wait(lambda: (run.logs / "commits" / str(batch)).exists())
    with Run(tmp_path, "local-cluster[2,1,1024]") as run:
        for _ in range(4):
            batch = run.seen(batch + 1)
            kills["executor"] += run.wait(lambda: run.kill_one("CoarseGrainedExecutorBackend"))
        assert run.process.wait(600) == 0, (tmp_path / "log").read_text()[-3000:]
    assert list(kills.values()) == [6, 6, 4, 4]
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    wanted = [row for row in spark.sql(STATEMENTS["v"].format(t="ticks_table")).collect() if not behind(row)]
    assert written(spark, tmp_path) == sorted(map(str, wanted)) and len(wanted) > 100


@pytest.mark.slow
@pytest.mark.process
def test_kills_of_clauses_above_one_another(spark, tmp_path):
    """Three operators commit with one micro-batch: drivers are killed when its offsets are written, and when a state is."""
    source = fed(tmp_path, seed=12, count=600, files=7)
    for batch in (1, 2, 4, 5):
        with Run(tmp_path, "local[2]", statement=CHAINED["three"]) as run:
            run.wait(partial(run.under_way if batch % 2 else run.kept, batch))
            run.kill()
    with Run(tmp_path, "local[2]", statement=CHAINED["three"]) as run:
        assert run.process.wait(600) == 0, (tmp_path / "log").read_text()[-3000:]
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    wanted = [row for row in spark.sql(CHAINED["three"].format(t="ticks_table")).collect() if not behind(row)]
    got = [row for row in spark.read.parquet(str(tmp_path / "out")).collect() if not behind(row)]
    assert sorted(map(str, got)) == sorted(map(str, wanted)) and len(wanted) > 10


@pytest.mark.slow
@pytest.mark.process
def test_kills_of_a_program_of_data_frames(spark, tmp_path):
    """Drivers are killed when offsets are written, and when state is, and workers in between."""
    source = fed(tmp_path, seed=12, count=900, files=9)
    for batch in (1, 2, 4):
        with Run(tmp_path, "local[2]", "frames") as run:
            run.wait(partial(run.under_way if batch % 2 else run.kept, batch))
            run.kill()
    with Run(tmp_path, "local[2,4]", "frames") as run:
        run.wait(partial(run.under_way, 6))
        assert run.wait(lambda: run.kill_one("sparkcep.spark.daemon") or run.kill_one("pyspark.daemon"))
        assert run.process.wait(600) == 0, (tmp_path / "log").read_text()[-3000:]
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    wanted = [row for row in spark.sql(STATEMENTS["v"].format(t="ticks_table")).collect() if not behind(row)]
    assert written(spark, tmp_path) == sorted(map(str, wanted)) and len(wanted) > 100


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("route", ["operator", "frames"])
def test_kills_of_changes_of_lists(spark, tmp_path, route):
    """A micro-batch that runs again compares the same lists."""
    source, statement = fed(tmp_path, seed=13, count=600, files=7), STATEMENTS["list_changes"]
    for batch in (1, 2, 4, 5):
        with Run(tmp_path, "local[2]", route, statement) as run:
            run.wait(partial(run.under_way if batch % 2 else run.kept, batch))
            run.kill()
    with Run(tmp_path, "local[2]", route, statement) as run:
        assert run.process.wait(600) == 0, (tmp_path / "log").read_text()[-3000:]
    spark.read.schema(SCHEMA).json(str(source)).createOrReplaceTempView("ticks_table")
    wanted = [row for row in spark.sql(statement.format(t="ticks_table")).collect() if not behind(row)]
    got = [row for row in spark.read.parquet(str(tmp_path / "out")).collect() if not behind(row)]
    assert sorted(map(str, got)) == sorted(map(str, wanted)) and {row.c for row in wanted} == {"insert", "retract"}


@pytest.mark.slow
def test_keys_come_and_go_for_long(spark, tmp_path):
    """Each micro-batch has keys of its own for a while; the state stays as large as these, and is nothing in the end."""
    source, rng, batches, width = tmp_path / "in", random.Random(5), 60, 200
    source.mkdir()
    for number in range(batches):
        begin = 30 * number
        put(source, number, [
            {"symbol": f"{rng.randint(0, width) + number * width // 4}", "at": 1 + begin + rng.randint(0, 29), "n": i, "price": rng.randint(0, 9), "f": None} for i in range(400)
        ])
    put(source, batches, [{"symbol": "last", "at": 10 * batches * 30, "n": 0, "price": 0, "f": None}])
    put(source, batches + 1, [{"symbol": "last", "at": 20 * batches * 30, "n": 0, "price": 0, "f": None}])
    stream(spark, source).createOrReplaceTempView("ticks_stream")
    # nothing of this statement is kept for ever; where PREV looks at a row, that is
    text = "SELECT * FROM ticks_stream MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n MEASURES FIRST(n) AS a, LAST(n) AS b EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B) " \
        "WINDOW INTERVAL '1' MINUTE DEFINE A AS price < 4, B AS price > 6)"
    query = spark.sql(text).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    try:
        running = query.trigger(availableNow=True).start()
        running.awaitTermination()
    finally:
        spark.conf.unset("spark.sql.streaming.numRecentProgressUpdates")
    counted = [p["stateOperators"][0]["customMetrics"] for p in running.recentProgress]
    assert len(counted) > batches
    middle, end = counted[10:30], counted[30:batches]
    for name in ("openKeys", "keptRows", "pendingRows", "stateBytes"):
        most = [max(c[name] for c in some) for some in (middle, end)]
        assert 0 < most[1] < 1.5 * most[0], (name, most)
    # the row that moved the watermark on last is not released
    assert [counted[-1][name] for name in ("openKeys", "keptRows", "pendingRows")] == [1, 0, 1]


@pytest.mark.parametrize("name", first(kept_checkpoint.QUERIES, wider=len(kept_checkpoint.QUERIES)))
def test_a_kept_checkpoint_is_read(spark, tmp_path, name):
    """That of the version in which the state's format was made: the query goes on from it as that version would."""
    wanted = kept_checkpoint.unpacked(name, tmp_path)
    kept_checkpoint.files(name, tmp_path / "in")
    progress, got = kept_checkpoint.resumed(spark, name, tmp_path)
    assert progress[0]["batchId"] == kept_checkpoint.BATCHES
    assert got == wanted and len(wanted) > 5


def test_a_checkpoint_of_another_format_is_refused(spark, tmp_path):
    kept_checkpoint.unpacked("v", tmp_path)
    kept_checkpoint.files("v", tmp_path / "in")
    stream(spark, tmp_path / "in").createOrReplaceTempView("ticks_stream")
    path = tmp_path / "out.checkpoint" / "state" / "0" / "_sparkcep" / "statement.json"
    statement = json.loads(path.read_text())
    for number, said in ((7, r"format 7, which sparkcep .* reads and writes; this version, .*, reads format 2"), (None, "format 1, which sparkcep 0.1.0 before its release")):
        changed = {k: v for k, v in (statement | {"format": number}).items() if v is not None}
        path.write_text(json.dumps(changed))
        text = not_started(spark.sql(STATEMENTS["v"].format(t="ticks_stream")), tmp_path / "out.checkpoint")
        assert re.search(rf"SPARKCEP.STREAM.*{said}", text), text
    shutil.rmtree(path.parent)
    assert "statement.json, the statement of its state, is missing" in not_started(spark.sql(STATEMENTS["v"].format(t="ticks_stream")), tmp_path / "out.checkpoint")
