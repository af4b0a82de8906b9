"""What the clause costs a statement of the spark-sql shell: against its rewritten text, interleaved in one shell."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import sparkcep

TABLE = """CREATE TABLE ticks USING parquet AS SELECT id DIV 100 AS symbol, id % 100 AS ts, pmod(hash(id), 1000) AS price FROM range(1000)"""
CLAUSE = """SELECT count(*) FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES STRT.ts AS start_ts, LAST(DOWN.ts) AS bottom_ts, LAST(UP.ts) AS end_ts
  PATTERN (STRT DOWN+ UP+)
  DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price))"""

# name: statement. The last two differ in that the first of them is shown to the rewriter, and comes back as it is.
STATEMENTS = {
    "clause": CLAUSE,
    "its rewritten text": sparkcep.rewrite(CLAUSE),
    "statement shown to the rewriter": "SELECT 'match_recognize'",
    "plain statement": "SELECT 'match-recognize'",
}
PAIRS = (("clause", "its rewritten text"), ("statement shown to the rewriter", "plain statement"))
GOAL = 0.050  # seconds


def run(repeats: int = 100, warmup: int = 10) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "statements.sql")
        # what stands behind a heavy statement pays for some of it: each follows a light one, and each pair changes sides
        clause, text, shown, plain = STATEMENTS
        rounds = [[clause, shown, text, plain], [text, plain, clause, shown]]
        order = [name for i in range(warmup + repeats) for name in rounds[i % 2]]
        file.write_text(";\n".join([TABLE, *(STATEMENTS[name] for name in order)]) + ";\n")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "sparkcep", "spark-sql", "--master", "local[2]"),
                *("--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2", "-f", str(file)),
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    took = [float(x) for x in re.findall(r"Time taken: ([\d.]+) seconds", done.stderr)][1:]
    seconds: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for name, t in zip(order, took, strict=True):
        seconds[name].append(t)
    seconds = {name: values[warmup:] for name, values in seconds.items()}
    print(f"\nStatements of one spark-sql shell, local[2], warm, {repeats} interleaved runs")
    for name, values in seconds.items():
        print(
            f"{name:<40} median {statistics.median(values) * 1000:6.0f} ms   min {min(values) * 1000:4.0f}   max {max(values) * 1000:4.0f}"
        )
    more = {}
    for one, other in PAIRS:
        more[one] = statistics.median(a - b for a, b in zip(seconds[one], seconds[other]))
        print(f"{one} - {other}: median {more[one] * 1000:.0f} ms (goal at most {GOAL * 1000:.0f})")
    return {"seconds": seconds, "more": more}
