"""Checkpoints that are kept as files, tests/spark/stream/checkpoints, for each format of the state: later versions go on from them.

    python -m tests.spark.stream.kept_checkpoint --write [NAME ...]     makes those of the format that this version writes

Without names it makes those that are missing: one that an older version made is worth more than a new one.
``test_streams_faults.py`` reads them.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.spark.configured import configured

FOLDER = Path(__file__).parent / "checkpoints"
BATCHES = 2
_SEED = 3
# written in a kept checkpoint instead of the folder of the files, and of that in which it is
_SOURCE, _FOLDER = b"/the/folder/of/the/files", b"/the/folder/of/the/checkpoint"
_REVISED = """SELECT * FROM {t} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, n
    MEASURES CHANGE() AS change, CHANGE_NUMBER() AS number, MATCH_ID() AS id, FIRST(ts) AS a, LAST(n) AS z, count(*) AS c
    EVENT SELECTION SKIP TILL NEXT MATCH ALL MATCHES CHANGES IN op REPORT CHANGES
    PATTERN (A B+ C) WINDOW INTERVAL '8' SECONDS DEFINE A AS price < 5, B AS price > A.price, C AS price > 5)"""


@dataclass(frozen=True)
class Query:
    """A query whose checkpoint is kept.

    Attributes:
        statement: its text, or its name in tests.spark.stream.test_streams.
        frames: whether it runs as a program of data frames.
        revised: whether some of its rows are retracted.
    """

    statement: str
    frames: bool = False
    revised: bool = False

    @property
    def text(self) -> str:
        from tests.spark.stream.test_streams import STATEMENTS

        return STATEMENTS.get(self.statement, self.statement).format(t="ticks_stream")

    def files(self) -> tuple[list[list[dict]], list[list[dict]]]:
        """The rows of the files before the checkpoint, and of those after it."""
        from tests.spark.stream.test_revised_streams import changes
        from tests.spark.stream.test_streams import closing, pieces, rows_of

        rows = changes(random.Random(_SEED), False) if self.revised else [row | {"f": None} for row in rows_of(_SEED, 200)]
        parts = pieces(rows, random.Random(_SEED), 2 * BATCHES)
        return parts[:BATCHES], [*parts[BATCHES:], closing(sorted({(row["symbol"], None) for row in rows}, key=str))]

    def over(self, spark, source: Path):
        """The query over the files of a folder."""
        from tests.spark.stream.test_streams import stream

        rows = stream(spark, source)
        rows = rows.selectExpr("symbol", "ts", "n", "price", "IF(f < 0, 'retract', NULL) AS op") if self.revised else rows
        rows.createOrReplaceTempView("ticks_stream")
        return spark.sql(self.text)

    @contextlib.contextmanager
    def configured(self, spark) -> Iterator[None]:
        """Inside, the session runs it in its way."""
        from tests.spark.stream.test_streams import PROVIDER, ROCKSDB

        settings = {PROVIDER: ROCKSDB} | ({"sparkcep.stream.route": "frames", "sparkcep.stream.buckets": "2"} if self.frames else {})
        with configured(spark, settings):
            yield


QUERIES = {
    "v": Query("v"),
    "automaton": Query("automaton"),
    "top": Query("top"),
    "budget": Query("budget"),
    "changes": Query(_REVISED, revised=True),
    "frames_budget": Query("budget", frames=True),
    "frames_changes": Query(_REVISED, frames=True, revised=True),
    "frames_two": Query("two", frames=True),  # by transformWithStateInPandas, the others by applyInPandasWithState
}


def files(name: str, source: Path) -> None:
    """Those that the checkpoint's query has read, and those that come behind them."""
    from tests.spark.stream.test_streams import put

    source.mkdir()
    for number, rows in enumerate([part for half in QUERIES[name].files() for part in half]):
        put(source, number, rows)


def unpacked(name: str, folder: Path) -> list[str]:
    """Lays a checkpoint into a folder; the rows that a query tells from there, in order."""
    with zipfile.ZipFile(FOLDER / f"format_2_{name}.zip") as kept:
        for member in kept.namelist():
            if member != "wanted.json":
                path = folder / member
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(kept.read(member).replace(_SOURCE, str(folder / "in").encode()).replace(_FOLDER, str(folder).encode()))
        return json.loads(kept.read("wanted.json"))


def resumed(spark, name: str, folder: Path) -> tuple[list[dict], list[str]]:
    """The progress of a query that goes on from the checkpoint in a folder, and the rows that it emits, in order."""
    from tests.spark.stream.test_several_frames import ran
    from tests.spark.stream.test_streams import behind

    query = QUERIES[name]
    with query.configured(spark):
        progress = ran(query.over(spark, folder / "in"), folder)
    # the sink's own list of files begins before this folder
    written = [str(path) for path in (folder / "out").glob("*.parquet")]
    return progress, sorted(str(row) for row in spark.read.parquet(*written).collect() if not behind(row))


def _write(spark, name: str) -> None:
    from tests.spark.stream import test_streams as t
    from tests.spark.stream.test_several_frames import ran

    query = QUERIES[name]
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        source = folder / "in"
        source.mkdir()
        for number, rows in enumerate(query.files()[0]):
            t.put(source, number, rows)
        own = "spark.sql.streaming.noDataMicroBatches.enabled"
        spark.conf.set(own, "false")  # without a micro-batch of no rows at its end
        with query.configured(spark):
            progress = ran(query.over(spark, source), folder)
        spark.conf.unset(own)
        assert len(progress) == BATCHES, len(progress)
        told = [str(row) for row in spark.read.parquet(str(folder / "out")).collect()]
        FOLDER.mkdir(exist_ok=True)
        kept = {
            str(path.relative_to(folder)): path.read_bytes().replace(str(source).encode(), _SOURCE).replace(str(folder).encode(), _FOLDER)
            for path in sorted((folder / "out.checkpoint").rglob("*")) if path.is_file() and path.suffix != ".crc"
        }  # fmt: skip
        shutil.rmtree(source)
        shutil.rmtree(folder / "out")
        files(name, source)
        _, wanted = resumed(spark, name, folder)
        assert len(told) > 3 and len(wanted) > 5, (len(told), len(wanted))
        if not query.revised:  # all rows together are those over a table
            spark.read.schema(t.SCHEMA).json(str(source)).createOrReplaceTempView("ticks_stream")
            every = [str(row) for row in spark.sql(query.text).collect() if not t.behind(row)]
            assert sorted(every) == sorted([*told, *wanted]), (len(every), len(told), len(wanted))
        with zipfile.ZipFile(FOLDER / f"format_2_{name}.zip", "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr("wanted.json", json.dumps(wanted))
            for member, data in kept.items():
                out.writestr(member, data)


def _main() -> None:
    from sparkcep.spark.session.local import start_spark

    if sys.argv[1:2] != ["--write"] or set(sys.argv[2:]) - QUERIES.keys():
        sys.exit(__doc__)
    spark = start_spark("kept checkpoints", {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"})
    for name in sys.argv[2:] or [name for name in QUERIES if not (FOLDER / f"format_2_{name}.zip").exists()]:
        _write(spark, name)
    spark.stop()


if __name__ == "__main__":
    _main()
