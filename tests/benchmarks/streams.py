"""A clause over a stream against its floor: the same files, exchanged by key and given to Python, which drops them.

Both are started anew for each round and read the same files, one a micro-batch; what counts are rows a second of a whole run, and
processor seconds of the JVM and its workers.
"""

from __future__ import annotations

import datetime
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .query import session

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SCHEMA = "symbol STRING, ts TIMESTAMP, price INT, volume INT"
CLAUSE = """SELECT * FROM stream_ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES FIRST(ts) AS since, LAST(DOWN.price) AS bottom, LAST(ts) AS until
  PATTERN (STRT DOWN+ UP+) WINDOW INTERVAL '1' MINUTE
  DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price))"""


def stored(folder: Path, rows: int, keys: int, batch: int, disorder: float = 2.0) -> None:
    """Files of ``batch`` rows: a thousand rows a second of event time, which come up to ``disorder`` seconds late."""
    rng = np.random.default_rng(1)
    at = np.arange(rows) * 1000  # microseconds
    order = np.argsort(at + rng.random(rows) * disorder * 1e6, kind="stable")
    begin = int(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC).timestamp() * 1e6)
    table = pa.table({
        "symbol": pa.array(np.char.add("S", (rng.integers(0, keys, rows)).astype(str))), "ts": pa.array(begin + at, pa.timestamp("us", "UTC")),
        "price": pa.array(rng.integers(0, 100, rows), pa.int32()), "volume": pa.array(rng.integers(0, 9, rows), pa.int32()),
    }).take(pa.array(order))
    for i in range(0, rows, batch):
        pq.write_table(table.slice(i, batch), folder / f"{i // batch:05}.parquet")
        time.sleep(0.01)  # files are read in the order of their times


def cpu(spark) -> float:
    """Seconds of processor time of the JVM and of the Python processes below it so far."""
    top = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)], used[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))

    def below(pid: int) -> bool:
        while pid > 1 and pid != top:
            pid = parents.get(pid, 0)
        return pid == top

    return sum(ticks for pid, ticks in used.items() if below(pid)) / 100


def run(rows: int, keys: int = 1000, batch: int = 100_000, repeats: int = 3) -> dict:
    """Prints and returns seconds and processor seconds of the clause and its floor, by turns."""
    spark = session({"spark.sql.streaming.stateStore.providerClass": PROVIDER, "spark.sql.shuffle.partitions": "2"})
    found: dict[str, list[dict]] = {"floor": [], "clause": []}
    with tempfile.TemporaryDirectory() as work:
        source = Path(work, "in")
        source.mkdir()
        stored(source, rows, keys, batch)
        ticks = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source)).withWatermark("ts", "5 seconds")
        ticks.createOrReplaceTempView("stream_ticks")

        def dropped(batches):
            for part in batches:
                yield part.slice(0, 0)

        ways = {
            "floor": lambda: ticks.select("symbol", "ts", "price").repartition("symbol").mapInArrow(dropped, "symbol STRING, ts TIMESTAMP, price INT"),
            "clause": lambda: spark.sql(CLAUSE),
        }
        for i in range(repeats + 1):
            for name, frame in ways.items():
                checkpoint = Path(work, "checkpoint")
                before, began = cpu(spark), time.perf_counter()
                query = frame().writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
                query.awaitTermination()
                measured = {"seconds": time.perf_counter() - began, "cpu": cpu(spark) - before, "batches": [p["batchDuration"] for p in query.recentProgress]}
                if i:  # the first round warms up
                    found[name].append(measured)
                shutil.rmtree(checkpoint)
    spark.stop()
    told = {name: {part: statistics.median(m[part] for m in rounds) for part in ("seconds", "cpu")} for name, rounds in found.items()}
    for name, of in told.items():
        batches = statistics.median(ms for m in found[name] for ms in m["batches"])
        print(f"{name:7} {rows:,} rows, {keys:,} keys, micro-batches of {batch:,}: {rows / of['seconds']:,.0f} rows/s, {of['cpu']:.1f} processor s, {batches:,.0f} ms a micro-batch")
    print(f"processor time to floor: {told['clause']['cpu'] / told['floor']['cpu']:.2f}")
    return {"medians": told, "rounds": found}
