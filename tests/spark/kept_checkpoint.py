"""Checkpoints that are kept as files, tests/spark/checkpoints, for each format of the state: later versions go on from them.

    python -m tests.spark.kept_checkpoint --write     makes those of the format that this version writes

``test_streams_faults.py`` reads them.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import zipfile
from pathlib import Path

FOLDER = Path(__file__).parent / "checkpoints"
STATEMENTS = ("v", "automaton", "top")  # kinds of searches; tests.spark.test_streams has them
BATCHES = 2
_SEED = 3
_SOURCE = b"/the/folder/of/the/files"  # stands for it in a kept checkpoint


def _parts() -> tuple[list[list[dict]], list[list[dict]]]:
    from tests.spark.test_streams import closing, pieces, rows_of

    rows = [row | {"f": None} for row in rows_of(_SEED, 200)]
    parts = pieces(rows, random.Random(_SEED), 2 * BATCHES)
    return parts[:BATCHES], [*parts[BATCHES:], closing(sorted({(row["symbol"], None) for row in rows}, key=str))]


def files(source: Path) -> None:
    """Those that the checkpoint's query has read, and those that come behind them."""
    from tests.spark.test_streams import put

    source.mkdir()
    for number, rows in enumerate([part for half in _parts() for part in half]):
        put(source, number, rows)


def unpacked(name: str, folder: Path) -> list[str]:
    """Lays a checkpoint into a folder; the rows that a query tells from there, in order."""
    with zipfile.ZipFile(FOLDER / f"format_2_{name}.zip") as kept:
        for member in kept.namelist():
            if member != "wanted.json":
                path = folder / member
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(kept.read(member).replace(_SOURCE, str(folder / "in").encode()))
        return json.loads(kept.read("wanted.json"))


def _write(spark, name: str) -> None:
    from tests.spark import test_streams as t

    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        source = folder / "in"
        source.mkdir()
        for number, rows in enumerate(_parts()[0]):
            t.put(source, number, rows)
        t.stream(spark, source).createOrReplaceTempView("ticks_stream")
        # without a micro-batch of no rows at its end
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        progress = t.ran(spark.sql(t.STATEMENTS[name].format(t="ticks_stream")), folder)
        assert len(progress) == BATCHES, len(progress)
        told = {str(row) for row in spark.read.parquet(str(folder / "out")).collect()}
        whole = folder / "whole"
        files(whole)
        spark.read.schema(t.SCHEMA).json(str(whole)).createOrReplaceTempView("ticks_table")
        every = [str(row) for row in spark.sql(t.STATEMENTS[name].format(t="ticks_table")).collect() if not t.behind(row)]
        wanted = sorted(row for row in every if row not in told)
        assert told <= set(every) and len(told) > 3, (len(told), len(every))
        FOLDER.mkdir(exist_ok=True)
        with zipfile.ZipFile(FOLDER / f"format_2_{name}.zip", "w", zipfile.ZIP_DEFLATED) as kept:
            kept.writestr("wanted.json", json.dumps(wanted))
            for path in sorted((folder / "out.checkpoint").rglob("*")):
                if path.is_file() and path.suffix != ".crc":
                    kept.writestr(str(path.relative_to(folder)), path.read_bytes().replace(str(source).encode(), _SOURCE))


def _main() -> None:
    from sparkcep.spark.local import start_spark
    from tests.spark.test_streams import PROVIDER, ROCKSDB

    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    spark = start_spark("kept checkpoints", {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC", PROVIDER: ROCKSDB})
    for name in STATEMENTS:
        _write(spark, name)
    spark.stop()


if __name__ == "__main__":
    _main()
