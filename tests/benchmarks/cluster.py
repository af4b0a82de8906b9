"""Rows a second on a cluster of one and of two workers: the clause, and for comparison plain SQL over the same rows, exchanged and
sorted alike.

A worker has a processor of this machine for itself, on which its JVM and its Python run. Otherwise one worker would take two
processors, one for each. The driver and the master run where there is room."""

from __future__ import annotations

import json
import re
import statistics
import tempfile
from pathlib import Path

from sparkcep.cli import pack
from tests.spark.exec.cluster import run as run_there
from tests.spark.exec.cluster import settings_of, standalone

KEYS = 1000
# the second statement reads, exchanges and sorts as the first does, and then asks for one row before
PROGRAM = """
import json
spark = start(**{"spark__cores__max": "WORKERS", "spark__scheduler__minRegisteredResourcesRatio": "1.0"})
spark.range(ROWS).selectExpr("id % KEYS AS k", "id AS t", "pmod(xxhash64(id), 100) AS v").write.mode("overwrite").parquet(settings["folder"])
spark.read.parquet(settings["folder"]).createOrReplaceTempView("t")
statements = {
    "clause": f"SELECT count(*), sum(s) FROM t {CLAUSE}",
    "one row before": "SELECT count(*), sum(v - before) FROM (SELECT v, lag(v) OVER (PARTITION BY k ORDER BY t) AS before FROM t)",
}
answers = {name: list(spark.sql(statement).first()) for name, statement in statements.items()}  # workers start, kernels are loaded
for i in range(REPEATS):
    for name, statement in statements.items():
        begin = time.perf_counter()
        found = list(spark.sql(statement).first())
        print("answer", json.dumps([name, time.perf_counter() - begin, found == answers[name], found]), flush=True)
spark.stop()
"""


def run(rows: int, repeats: int = 5) -> dict:
    results: dict = {"rows": rows, "keys": KEYS}
    print(f"\nA cluster on this machine, {rows:,} rows of {KEYS:,} keys in Parquet files, workers of one processor, {repeats} interleaved runs")
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "sparkcep.zip")
        pack.pack(archive)
        answers = set()
        with standalone(Path(folder), workers=2, cores=1, pinned=True) as master:
            for workers in (1, 2):
                program = PROGRAM.replace("WORKERS", str(workers)).replace("ROWS", str(rows)).replace("KEYS", str(KEYS)).replace("REPEATS", str(repeats))
                said = run_there(program, master, {**settings_of(archive), "folder": str(Path(folder, "rows"))})
                found: dict[str, list[float]] = {}
                for line in re.findall(r"^answer (.+)$", said, re.M):
                    name, seconds, same, answer = json.loads(line)
                    assert same, (name, answer)
                    answers.add((name, str(answer)))
                    found.setdefault(name, []).append(rows / seconds)
                results[str(workers)] = found
                for name, speeds in found.items():
                    print(f"{workers} workers   {name:<16} median {statistics.median(speeds):12,.0f} rows/s   max {max(speeds):12,.0f}")
        assert len(answers) == 2, answers
    for name in results["1"]:
        print(f"{name}: two workers are {statistics.median(results['2'][name]) / statistics.median(results['1'][name]):.2f} times as fast as one")
    return results
