"""Clauses over a stream against their floor: the same files, exchanged by key and given to Python, which drops them.

Both are started anew for each round and read the same files, one a micro-batch; what counts are rows a second of a whole run,
processor seconds of the JVM and its workers, and the most memory that a worker ever had. ``--shapes`` chooses among CASES.
With ``--flink PYTHON``, a Python that has apache-flink, Flink's MATCH_RECOGNIZE takes the rows of the V pattern as well (flink.py).
"""

from __future__ import annotations

import datetime
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from .processes import used
from .query import session

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SCHEMA = "symbol STRING, ts TIMESTAMP, price INT, volume INT"
_SELECTION = "SELECT * FROM stream_ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts MEASURES "
CLAUSE = _SELECTION + """FIRST(ts) AS since, LAST(DOWN.price) AS bottom, LAST(ts) AS until
  PATTERN (STRT DOWN+ UP+) WINDOW INTERVAL '1' MINUTE
  DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price))"""
KLEENE = _SELECTION + """FIRST(ts) AS since, avg(B.price) AS mean
  EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B+ C) WINDOW INTERVAL '20' SECONDS
  DEFINE A AS price > 90, B AS price > avg(B.price) - 20 AND volume < 8, C AS price < 5)"""
THREE = _SELECTION + """A.ts AS a, B.ts AS b, C.ts AS c
  EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B C) WINDOW INTERVAL '20' SECONDS
  DEFINE A AS price > 90, B AS price < 10, C AS price > 50)"""
TOP = _SELECTION + """MATCH_SCORE() AS score, A.ts AS a, C.ts AS c
  EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B C) WINDOW INTERVAL '20' SECONDS SLIDE INTERVAL '10' SECONDS
  PREF MAX (A.price - B.price + C.price) TOP 10
  DEFINE A AS price > 90, B AS price < 10, C AS price > 80)"""
ALL = _SELECTION + """A.ts AS a, B.ts AS b, C.ts AS c
  EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B C) WINDOW INTERVAL '20' SECONDS
  DEFINE A AS price > 90, B AS price < 10 AND price < A.price - 80, C AS price > 80)"""
NUMBERED = ALL.replace("A.ts AS a", "MATCH_NUMBER() AS n, A.ts AS a")
Q1 = _SELECTION + """FIRST(ts) AS since, LAST(ts) AS until, r2 AS v_patterns
  AUTOMATON (REGISTER r1 INT = 0, r2 INT = 0  STATE q0 START, q3 FINAL  ARC a0 FROM q0 TO q1 WHEN price < 12  ARC a1 FROM q1 TO q1 WHEN price < 50 SET r1 = r1 + 1
    ARC a2 FROM q1 TO q2 WHEN price < 50 SET r1 = r1 + 1  ARC a3 FROM q2 TO q2 WHEN price >= 50 AND r2 < 2 SET r1 = r1 - 1
    ARC a4 FROM q2 TO q1 WHEN price >= 50 AND r2 + 1 < 2 SET r1 = r1 - 1, r2 = r2 + 1  ARC a5 FROM q2 TO q3 WHEN price >= 50 AND r2 + 1 = 2 AND r1 = 1 SET r1 = 0, r2 = r2 + 1)
  WINDOW INTERVAL '20' SECONDS)"""


class Case(NamedTuple):
    """``share``: of how many rows come up to two seconds late; ``rows``: unless ``--rows`` says fewer; ``frames``: whether the
    clause runs as a program of data frames, too; ``rate``: rows in a second of event time."""

    clause: str
    rows: int = 2_000_000
    keys: int = 1000
    batch: int = 100_000
    share: float = 1.0
    frames: bool = False
    rate: int = 1000


CASES = {
    "v": Case(CLAUSE), "v_keys": Case(CLAUSE, 800_000, 100_000), "v_million": Case(CLAUSE, 2_000_000, 1_000_000, rate=20_000), "v_small": Case(CLAUSE, 3_000, 1000, 100),
    "v_ordered": Case(CLAUSE, share=0.0), "v_5": Case(CLAUSE, share=0.05), "v_20": Case(CLAUSE, share=0.2),
    "v_memory_1": Case(CLAUSE, 250_000, batch=50_000), "v_memory_2": Case(CLAUSE, 500_000, batch=50_000), "v_memory_4": Case(CLAUSE, 1_000_000, batch=50_000),
    "v_memory_8": Case(CLAUSE, batch=50_000),
    "kleene": Case(KLEENE), "three": Case(THREE), "top": Case(TOP, 800_000), "automaton": Case(Q1),
    # each match told with its last row, so that rows are searched in several micro-batches, or once, when WINDOW has ended
    "all": Case(ALL, 800_000), "all_waits": Case(NUMBERED, 800_000),
    "all_short": Case(ALL, 200_000, batch=5_000), "all_short_waits": Case(NUMBERED, 200_000, batch=5_000),
    "v_frames": Case(CLAUSE, 800_000, frames=True), "v_keys_frames": Case(CLAUSE, 400_000, 100_000, frames=True),
}  # fmt: skip


def stored(folder: Path, rows: int, keys: int, batch: int, share: float = 1.0, rate: int = 1000) -> None:
    """Files of ``batch`` rows: ``rate`` rows a second of event time, of which a ``share`` comes up to two seconds late."""
    rng = np.random.default_rng(1)
    at = np.arange(rows) * (1_000_000 // rate)  # microseconds
    order = np.argsort(at + rng.random(rows) * 2e6 * (rng.random(rows) < share), kind="stable")
    begin = int(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC).timestamp() * 1e6)
    table = pa.table({
        "symbol": pa.array(np.char.add("S", (rng.integers(0, keys, rows)).astype(str))), "ts": pa.array(begin + at, pa.timestamp("us", "UTC")),
        "price": pa.array(rng.integers(0, 100, rows), pa.int32()), "volume": pa.array(rng.integers(0, 9, rows), pa.int32()),
    }).take(pa.array(order))
    for i in range(0, rows, batch):
        pq.write_table(table.slice(i, batch), folder / f"{i // batch:05}.parquet")
        time.sleep(0.01)  # files are read in the order of their times


def processes(spark) -> dict[int, float]:
    """Seconds of processor time so far of the JVM and of the Python processes below it, by number of the process."""
    return used(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())


def cpu(spark) -> float:
    """Seconds of processor time."""
    return sum(processes(spark).values())


def most_memory(spark) -> float:
    """MB that a Python process below the JVM had at most."""
    found = [0]
    for pid in processes(spark):
        try:
            text = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        if "python" in text.splitlines()[0]:
            found.append(int(next((line.split()[1] for line in text.splitlines() if line.startswith("VmHWM")), 0)))
    return max(found) / 1000


def run(rows: int, shapes: Sequence[str] = (), repeats: int = 3, flink: str | None = None) -> dict:
    """Prints and returns seconds and processor seconds of clauses and their floor, by turns. ``shapes``: names of CASES;
    ``flink``: the Python of Flink."""
    unknown = [name for name in shapes if name not in CASES]
    if unknown:
        raise SystemExit(f"no case of streams: {', '.join(unknown)}; there are {', '.join(CASES)}")
    return {name: _measured(name, case._replace(rows=min(rows, case.rows)), repeats, flink) for name, case in CASES.items() if not shapes or name in shapes}


def _by_flink(python: str, source: Path, repeats: int) -> list[dict]:
    """Seconds and processor seconds of each round of Flink over the same rows, as one file of text, which it reads in order."""
    rows = pa.concat_tables([pq.read_table(file) for file in sorted(source.glob("*.parquet"))])
    rows = rows.set_column(1, "ts", pc.strftime(rows["ts"], "%Y-%m-%d %H:%M:%S"))
    csv.write_csv(rows, source / "rows.csv", csv.WriteOptions(include_header=False, quoting_style="none"))
    done = subprocess.run([python, str(Path(__file__).with_name("flink.py")), str(source / "rows.csv"), str(repeats)], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _by_frames(spark, clause: str):
    spark.conf.set("sparkcep.stream.route", "frames")
    try:
        return spark.sql(clause)
    finally:
        spark.conf.unset("sparkcep.stream.route")


def _measured(case_name: str, case: Case, repeats: int, flink: str | None) -> dict:
    spark = session({"spark.sql.streaming.stateStore.providerClass": PROVIDER, "spark.sql.shuffle.partitions": "2"})
    found: dict[str, list[dict]] = {"floor": [], "clause": [], **({"frames": []} if case.frames else {})}
    with tempfile.TemporaryDirectory() as work:
        source = Path(work, "in")
        source.mkdir()
        stored(source, case.rows, case.keys, case.batch, case.share, case.rate)
        ticks = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source)).withWatermark("ts", "5 seconds")
        ticks.createOrReplaceTempView("stream_ticks")

        def dropped(batches):
            for part in batches:
                yield part.slice(0, 0)

        ways = {
            "floor": lambda: ticks.select("symbol", "ts", "price").repartition("symbol").mapInArrow(dropped, "symbol STRING, ts TIMESTAMP, price INT"),
            "clause": lambda: spark.sql(case.clause),
        }
        if case.frames:
            ways["frames"] = lambda: _by_frames(spark, case.clause)
        for i in range(repeats + 1):
            for name, frame in ways.items():
                checkpoint = Path(work, "checkpoint")
                before, began = cpu(spark), time.perf_counter()
                query = frame().writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
                query.awaitTermination()
                progress = query.recentProgress
                measured = {"seconds": time.perf_counter() - began, "cpu": cpu(spark) - before, "batches": [p["batchDuration"] for p in progress]}
                if name == "clause":
                    counted = [p["stateOperators"][0]["customMetrics"] for p in progress]
                    measured |= {part: max(c[part] for c in counted) for part in ("openKeys", "stateBytes")} | {"matches": sum(c["matches"] for c in counted)}
                if i:  # the first round warms up
                    found[name].append(measured)
                shutil.rmtree(checkpoint)
        memory = most_memory(spark)
        spark.stop()
        if flink and case.clause == CLAUSE:
            found["flink"] = _by_flink(flink, source, repeats)
    told = {name: {part: statistics.median(m[part] for m in rounds) for part in rounds[0] if part != "batches"} for name, rounds in found.items()}
    print(f"{case_name}: {case.rows:,} rows, {case.keys:,} keys, micro-batches of {case.batch:,}, {case.share:.0%} of the rows late by up to 2 s")
    for name, of in told.items():
        batches = [ms for m in found[name] for ms in m.get("batches", ())]
        print(f"  {name:7} {case.rows / of['seconds']:,.0f} rows/s, {of['cpu']:.1f} processor s" + (f", {statistics.median(batches):,.0f} ms a micro-batch" if batches else ""))
    kept = told["clause"]
    print(f"  processor time to floor: {kept['cpu'] / told['floor']['cpu']:.2f}; at most {kept['openKeys']:,.0f} keys, {kept['stateBytes']:,.0f} bytes of state; "
          f"{kept['matches']:,.0f} matches; a worker had at most {memory:,.0f} MB")  # fmt: skip
    return {"medians": told, "rounds": found, "memory": memory}
