"""Clauses over a stream that read a table beside it, ARCS FROM and BUDGET ... USING HISTORY, under faults: the table is another one
after each kill, and what is told is what a query tells that was never killed and read the same."""

from __future__ import annotations

import os
import random
import shutil
import time
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.spark.stream import test_arcs_of_streams as of_arcs  # noqa: E402
from tests.spark.stream import test_stream_history as of_history  # noqa: E402
from tests.spark.stream.test_streams import behind, ran, rocksdb, stream  # noqa: E402, F401
from tests.spark.stream.test_streams_faults import Run, fed  # noqa: E402

BUDGET = "BUDGET 1 CHECKS USING HISTORY history_now EXPLORE"
STATEMENT = f"""SELECT 'arcs' AS what, symbol, z, to_json(struct(a, r, c)) AS said FROM {{t}} MATCH_RECOGNIZE ({of_arcs.CLAUSE.format(own="", changes="", arcs="ARCS FROM arcs_now")})
    UNION ALL SELECT 'history', symbol, z, to_json(struct(e, m, c, o, g)) FROM {{t}} MATCH_RECOGNIZE ({of_history.CLAUSE.format(measures=of_history.MEASURES, budget=BUDGET)})"""
TABLES = ("arcs", "history")
TURNS = 9
FILES = 12
KILLS = ("offsets", "read", "state") * 2
WORKERS = (8, 10)  # micro-batches in which a worker is killed


class Tables:
    """What stands in both tables, each a file that another one takes the place of in a moment."""

    def __init__(self, spark, folder: Path) -> None:
        self.folder = folder
        rng = random.Random(3)
        for turn in range(TURNS):
            low, high = [1 + turn % 4, rng.randint(1, 4)], [8 - turn % 4, rng.randint(5, 8)]
            arcs = [(name, k, None, None, None, None) for name, some in (("low", low), ("high", high)) for k in some]
            spark.createDataFrame(arcs, of_arcs.ARC).coalesce(1).write.parquet(str(folder / f"arcs {turn}"))
            of_history.recorded(spark, 1 + turn, "history_of_a_turn")
            spark.table("history_of_a_turn").coalesce(1).write.parquet(str(folder / f"history {turn}"))
            spark.sql("DROP TABLE history_of_a_turn")

    def hold(self, into: Path, **turns: int) -> None:
        for name, turn in turns.items():
            (into / name).mkdir(exist_ok=True)
            (path,) = (self.folder / f"{name} {turn}").glob("*.parquet")
            shutil.copy(path, into / "next")
            os.replace(into / "next", into / name / "now.parquet")


def logged(run: Run, batch: int) -> dict[str, bytes]:
    """What is written of the tables that a micro-batch has read, by table."""
    found = {}
    for folder in (run.logs / "state").glob("*/_sparkcep"):
        name = "arcs" if "ARCS FROM" in (folder / "statement.json").read_text().upper() else "history"
        path = folder / "tables" / str(batch)
        if path.exists():
            found[name] = path.read_bytes()
    return found


@pytest.mark.slow
@pytest.mark.process
def test_a_micro_batch_that_is_tried_again_reads_what_it_read(spark, tmp_path):
    """Drivers are killed when offsets are written, when what was read of the tables is, and when state is; and workers. The tables
    change with each kill. What was read stands, and nothing is missing, nothing comes twice."""
    tables, rng = Tables(spark, tmp_path), random.Random(13)
    killed, never = tmp_path / "killed", tmp_path / "never"
    killed.mkdir(), never.mkdir()
    source = fed(killed, seed=13, count=1200, files=FILES)
    turns: dict[str, list[int]] = {name: [0] for name in TABLES}  # of each micro-batch, which content it read
    stand: dict[int, dict[str, bytes]] = {}
    turn = 0
    tables.hold(killed, arcs=turn, history=turn)
    for batch, moment in enumerate(KILLS, 1):
        with Run(killed, "local[2]", statement=STATEMENT) as run:
            run.wait(partial({"offsets": run.under_way, "read": run.read, "state": run.kept}[moment], batch))
            if moment == "offsets":
                time.sleep(rng.random() / 5)
            run.kill()
        stand[batch] = logged(run, batch)
        assert moment == "offsets" or set(stand[batch]) == set(TABLES)
        for name in TABLES:
            turns[name].append(turn if name in stand[batch] else turn + 1)
        turn += 1
        tables.hold(killed, arcs=turn, history=turn)
    with Run(killed, "local[2,4]", statement=STATEMENT) as run:
        for batch in WORKERS:
            run.wait(partial(run.read, batch))
            stand[batch] = logged(run, batch)
            for name in TABLES:
                turns[name] += [turn] * (batch + 1 - len(turns[name]))
            turn += 1
            tables.hold(killed, arcs=turn, history=turn)
            assert run.under_way(batch)  # so the next one reads what is there now
            assert run.wait(lambda: run.kill_one("sparkcep.spark.daemon") or run.kill_one("pyspark.daemon"))
        assert run.process.wait(600) == 0, (killed / "log").read_text()[-3000:]
    for name in TABLES:
        turns[name] += [turn] * (FILES + 1 - len(turns[name]))
    assert all(logged(run, batch)[name] == bytes for batch, some in stand.items() for name, bytes in some.items())
    wanted = told_without_kills(spark, tables, source, never, turns)
    got = [row for row in spark.read.parquet(str(killed / "out")).collect() if not behind(row)]
    assert sorted(map(str, got)) == sorted(map(str, wanted))
    assert all(sum(row.what == name for row in wanted) > 100 for name in TABLES)


def told_without_kills(spark, tables: Tables, source: Path, folder: Path, turns: dict[str, list[int]]) -> list:
    """What a query tells that reads these contents in these micro-batches, each of a file, and is never killed."""
    (folder / "in").mkdir()
    tables.hold(folder, arcs=0, history=0)
    stream(spark, folder / "in").createOrReplaceTempView("ticks_stream")
    for name in TABLES:
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(f"{name}_now")
    frame = spark.sql(STATEMENT.format(t="ticks_stream"))
    files = sorted(source.iterdir())
    try:
        for batch, path in enumerate(files):
            spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", str(path == files[-1]).lower())
            tables.hold(folder, **{name: turns[name][batch] for name in TABLES})
            shutil.copy2(path, folder / "in" / path.name)
            ran(frame, folder)
    finally:
        spark.conf.unset("spark.sql.streaming.noDataMicroBatches.enabled")
    assert (folder / "out.checkpoint" / "commits" / str(len(files) - 1)).exists()
    return [row for row in spark.read.parquet(str(folder / "out")).collect() if not behind(row)]
