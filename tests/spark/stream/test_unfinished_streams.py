"""SHOW UNFINISHED MATCHES over a stream, through Spark: at each watermark the rows are those of the definition.

With and without the extension, after restarts and kills, and for keys that fall silent.
"""

from __future__ import annotations

import datetime
import json
import os
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq  # noqa: E402

from sparkcep.errors import ClauseError  # noqa: E402
from tests.oracle import measures  # noqa: E402
from tests.oracle.match import SkipTargetError  # noqa: E402
from tests.oracle.selection import Budget  # noqa: E402
from tests.property.stream.streams import planned  # noqa: E402
from tests.property.unfinished.unfinished_streams import expected, streaming_query, streaming_rows  # noqa: E402
from tests.selection import first, further  # noqa: E402
from tests.spark.stream.test_streams import pieces, ran, rocksdb  # noqa: E402, F401
from tests.spark.stream.test_streams_faults import Run  # noqa: E402

SCHEMA = "p int, t timestamp, id int, v int, w int, s string"
BEGIN = datetime.datetime(2026, 1, 1)
EPOCH = int(BEGIN.replace(tzinfo=datetime.timezone.utc).timestamp())
DELAY, FILES, FAR = 2, 5, 1000  # the disorder of rows in seconds; the number of files; a time after all windows
KILLED_RUNS, AT_ONCE = 500, 20
PROGRAM = '''
import json
import sys
from pathlib import Path
from pyspark.sql import SparkSession
import sparkcep
from tests.spark.stream.test_streams import PROVIDER, ROCKSDB
from tests.spark.stream.test_unfinished_streams import COMPACT, stream

folder, master = Path(sys.argv[1]), sys.argv[2]
builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1").config(PROVIDER, ROCKSDB).config(COMPACT, "1000")
builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.scheduler.mode", "FAIR")
spark = sparkcep.enable(builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate(), warm=False)
queries = []
for name, (route, statement) in json.loads((folder / "statements.json").read_text()).items():
    spark.conf.set("sparkcep.stream.route", route)
    stream(spark, folder / name / "in").createOrReplaceTempView("unfinished_stream")
    query = spark.sql(statement).writeStream.format("parquet").option("path", str(folder / name / "out"))
    queries.append(query.option("checkpointLocation", str(folder / name / "out.checkpoint")).trigger(availableNow=True).start())
for query in queries:
    query.awaitTermination()
'''
COMPACT = "spark.sql.streaming.fileSink.log.compactInterval"


@pytest.fixture(autouse=True)
def each_batch(spark):
    spark.conf.set(COMPACT, "1000")
    yield
    spark.conf.unset(COMPACT)
    spark.conf.unset("sparkcep.stream.route")


def stream(spark, folder):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder)).withWatermark("t", f"{DELAY} seconds")


def put(folder: Path, number: int, rows: list[dict]) -> None:
    path = folder / f"{number:03}.json"
    path.write_text("".join(json.dumps({**row, "t": str(BEGIN + datetime.timedelta(seconds=row["t"]))}) + "\n" for row in rows))
    os.utime(path, (1_700_000_000 + number,) * 2)  # files are read in the order of their times


def drawn(rng: random.Random, **wanted):
    """A random query, its statement and rows by key, whose answers are not empty."""
    while True:
        query, text = streaming_query(rng, **wanted)
        rows = streaming_rows(rng, query)
        for some in rows.values():
            for i, row in enumerate(some):
                row["id"] = i
        try:
            planned(text)
            told = [row for some in rows.values() for row in expected(replace(query), some, FAR) if row["st"] not in (None, "MATCHED")]
        except (ClauseError, Budget, SkipTargetError):
            continue
        if len(told) > 1:
            text = text.replace("ORDER BY id", "ORDER BY t, id").replace("MICROSECONDS", "SECONDS")
            return query, f"SELECT * FROM unfinished_stream MATCH_RECOGNIZE (\n{text}\n)", rows


def written(folder: Path, rows: dict[int, list[dict]], rng: random.Random) -> None:
    """Writes the rows in disorder to files, and rows of another key that move the watermark after them."""
    every = [{"p": p, **row} for p, some in rows.items() for row in some]
    every.sort(key=lambda row: row["t"] + rng.random() * (DELAY - 0.001))
    folder.mkdir()
    last = [{"p": 99, "t": FAR + i * FAR, "id": 0, "v": None, "w": None, "s": None} for i in range(2)]
    for number, piece in enumerate([*pieces(every, rng, min(FILES, len(every))), *([row] for row in last)]):
        put(folder, number, piece)


def check(folder: Path, query, rows: dict[int, list[dict]]) -> Counter:
    """Compares what has been reported after each micro-batch with the definition at its watermark (law 3)."""
    told: dict[int, list[dict]] = {p: [] for p in rows}
    seen: Counter = Counter()
    batches = sorted(int(path.name) for path in (folder / "out.checkpoint" / "commits").iterdir() if path.name.isdigit())
    assert batches == list(range(len(batches)))
    for batch in batches:
        offsets = (folder / "out.checkpoint" / "offsets" / str(batch)).read_text().splitlines()
        watermark = json.loads(offsets[1])["batchWatermarkMs"] * 1000
        log = folder / "out" / "_spark_metadata" / str(batch)
        for line in log.read_text().splitlines()[1:] if log.exists() else ():
            path = folder / "out" / json.loads(line)["path"].rsplit("/", 1)[1]
            for row in pq.read_table(path).to_pylist():
                if row["p"] in told:
                    told[row["p"]].append({name: plain(value) for name, value in row.items() if name in query.measures or (name == "id" and query.mode != measures.ONE_ROW)})
                    seen[row["st"]] += 1
        for p, some in rows.items():
            wanted = expected(query, some, Fraction(watermark + 1, 10**6) - EPOCH) if watermark else []
            assert in_any_order(told[p]) == in_any_order(wanted), (query.to_sql(), some, batch, watermark, p)
    return seen


def plain(value):
    """A time as seconds after the begin."""
    return round((value.replace(tzinfo=None) - BEGIN).total_seconds()) if isinstance(value, datetime.datetime) else value


def in_any_order(rows: list[dict]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)


@pytest.mark.parametrize("route", ["operator", further("frames")])
@pytest.mark.parametrize("seed", first(range(12), wider=1))
def test_each_micro_batch_reports_what_the_definition_says(spark, tmp_path, route, seed):
    """The query is restarted once, and most keys have fallen silent when their windows end."""
    rng = random.Random(f"unfinished {seed}")
    query, statement, rows = drawn(rng)
    source, later = tmp_path / "in", tmp_path / "later"
    written(later, rows, rng)
    source.mkdir()
    spark.conf.set("sparkcep.stream.route", route)
    stream(spark, source).createOrReplaceTempView("unfinished_stream")
    files = sorted(later.iterdir())
    for some in (files[:3], files[3:]):
        for path in some:
            path.rename(source / path.name)
        ran(spark.sql(statement), tmp_path)
    seen = check(tmp_path, query, rows)
    assert seen["TIMED OUT"] + seen["BROKEN"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("group", range(KILLED_RUNS // AT_ONCE))
def test_queries_that_are_killed_twice_report_what_the_definition_says(tmp_path, group):
    """Many queries run in one application, which is killed twice.

    Each of them begins a micro-batch before each kill, unless it has ended.
    """
    cases, statements = {}, {}
    for seed in range(group * AT_ONCE, (group + 1) * AT_ONCE):
        rng, folder = random.Random(f"killed {seed}"), tmp_path / str(seed)
        folder.mkdir()
        query, statement, rows = drawn(rng)
        written(folder / "in", rows, rng)
        cases[folder], statements[folder.name] = (query, rows), (rng.choice(["operator", "frames"]), statement)
    (tmp_path / "statements.json").write_text(json.dumps(statements))
    before, open_at_kills = dict.fromkeys(cases, -1), 0
    for _ in range(2):
        with Run(tmp_path, "local[2]", program=PROGRAM) as run:
            run.wait(lambda: all(begun(folder) > before[folder] or ended(folder) for folder in cases) and any(begun(folder) != done(folder) for folder in cases))
            run.kill()
        before = {folder: begun(folder) for folder in cases}
        open_at_kills += sum(not ended(folder) for folder in cases)
    with Run(tmp_path, "local[2]", program=PROGRAM) as run:
        assert run.process.wait(900) == 0, (tmp_path / "log").read_text()[-3000:]
    seen = sum((check(folder, *case) for folder, case in cases.items()), Counter())
    assert open_at_kills > AT_ONCE
    assert seen["TIMED OUT"] > AT_ONCE and seen["BROKEN"] > 0


def begun(folder: Path) -> int:
    """The last micro-batch that a query has begun, -1 for none."""
    return last_of(folder / "out.checkpoint" / "offsets")


def done(folder: Path) -> int:
    """The last micro-batch that is committed, -1 for none."""
    return last_of(folder / "out.checkpoint" / "commits")


def ended(folder: Path) -> bool:
    """Whether all files of a query are read, and what they caused is committed."""
    return done(folder) >= len(list((folder / "in").iterdir()))


def last_of(folder: Path) -> int:
    return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=-1) if folder.exists() else -1
