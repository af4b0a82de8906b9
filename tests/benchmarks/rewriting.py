"""How long a statement takes to be rewritten, and how much memory: a short one, one of a megabyte, one beside a long literal."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

SHORT = """SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts MEASURES FIRST(price) AS a, LAST(UP.price) - FIRST(DOWN.price) AS gain
PATTERN (STRT DOWN+ UP+) DEFINE DOWN AS price < PREV(price), UP AS price > 3)"""
CLAUSE = "FROM t MATCH_RECOGNIZE (ORDER BY i MEASURES count(*) AS n PATTERN (A))"
LONG = {
    "1 MB of expressions": lambda: f"SELECT * {CLAUSE} WHERE x IN ({', '.join(f'f{i} + {i}' for i in range(64_000))})",
    "4 MB of a literal": lambda: "SELECT '" + "it\\'s\\n" * 500_000 + f"' AS s, * {CLAUSE}",
}
REPEATS = 500


def measure(name: str) -> dict[str, float]:
    """Milliseconds (the median of many) of the short statement, or the seconds of a long one and the megabytes that it takes."""
    from sparkcep.sql.rewrite.rewrite import rewrite

    rewrite(SHORT)
    if name == "short":
        times = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            rewrite(SHORT)
            times.append(time.perf_counter() - start)
        return {"milliseconds": statistics.median(times) * 1e3}
    text = LONG[name]()
    before = _peak()
    start = time.perf_counter()
    rewrite(text)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "megabytes beyond the text": (_peak() - before) / 1024}


def _peak() -> int:
    """The kilobytes that the process has held at most. A child's ``ru_maxrss`` would begin with its parent's."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


def run() -> dict[str, dict[str, float]]:
    """Each in a process of its own, since a process's peak of memory never falls."""
    from sqlglot.tokens import SQLGLOTC_INSTALLED

    print(f"\nrewriting, sqlglot {'compiled' if SQLGLOTC_INSTALLED else 'pure'}")
    results = {}
    for name in ("short", *LONG):
        done = subprocess.run([sys.executable, "-m", "tests.benchmarks.rewriting", name], capture_output=True, text=True, check=True)
        results[name] = json.loads(done.stdout)
        print(f"  {name:24}" + "  ".join(f"{value:8.2f} {unit}" for unit, value in results[name].items()))
    return results


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
