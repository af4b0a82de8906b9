"""TOP k of sliding windows over a stream, beside the same over a table: what a row costs where windows overlap the more.

Each micro-batch brings the rows of one SLIDE, so that a window ends in each: its rows are read with the state, searched and written
again, in as many micro-batches as windows hold them.
"""

from __future__ import annotations

import random
import time

import numpy as np
import pyarrow as pa

from sparkcep.engine.factory import match_table
from tests.property.in_process import drained
from tests.property.stream.streams import planned, stream_over, timed

HEAD = "PARTITION BY p ORDER BY id MEASURES MATCH_SCORE() AS score, FIRST(id) AS a, LAST(id) AS z EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES"
SHAPES = [
    ("best paths", "PATTERN (A B C) {} PREF MAX (A.w - B.w + C.w) TOP 10 DEFINE A AS v = 1, B AS v = 2, C AS v = 3"),
    ("bounded walk", "PATTERN (A B C) {} PREF MAX (A.w * B.w + C.w) TOP 10 DEFINE A AS v < 5, B AS v > 2 AND w > A.w, C AS v < 8 AND w < B.w"),
]
WINDOW, ROWS, KEYS, WINDOWS = 6400, 256, 40, 6  # microseconds; rows of a key in a window; windows that follow each other
OVERLAPS = (1, 4, 16, 64)


def run() -> list[dict]:
    """Microseconds of a row, by how many windows hold it."""
    print(f"\nTOP 10 of sliding windows of {ROWS} rows, {KEYS} keys, one thread, us a row")
    print(f"{'shape':<14}{'windows':>9}{'table':>9}{'stream':>9}{'ratio':>8}")
    results = []
    for name, clause in SHAPES:
        for overlap in OVERLAPS:
            slide = WINDOW // overlap
            plan = planned(f"{HEAD} {clause.format(f'''WINDOW INTERVAL '{WINDOW / 1000}' MILLISECONDS SLIDE INTERVAL '{slide / 1000}' MILLISECONDS''')}")
            table, count = _rows(plan), ROWS * WINDOWS * KEYS
            inner = table.drop_columns(["__s0", "__s1"])
            _streamed(plan, table, slide, 4)  # kernels are there
            begun = time.process_time()
            whole = match_table(plan, inner).num_rows
            alone = time.process_time() - begun
            spent, told = _streamed(plan, table, slide)
            assert told and whole
            row = {"shape": name, "windows": overlap, "table": alone / count * 1e6, "stream": spent / count * 1e6}
            results.append(row)
            print(f"{name:<14}{overlap:>9}{row['table']:>9.2f}{row['stream']:>9.2f}{spent / alone:>8.1f}")
    return results


def _rows(plan) -> pa.Table:
    rng, step = random.Random(1), WINDOW // ROWS
    return timed(plan, {
        p: [{"id": 1 + i * step, "v": rng.randint(0, 9), "w": rng.randint(0, 10**6), "s": None} for i in range(ROWS * WINDOWS)] for p in range(KEYS)
    })  # fmt: skip


def _streamed(plan, table: pa.Table, slide: int, steps: int | None = None) -> tuple[float, int]:
    """Seconds of a processor, and how many rows of matches were told."""
    when = np.asarray(table.column("__s0").cast(pa.int64()))
    key = np.unique(np.asarray(table.column("__p0")), return_inverse=True)[1]
    stream, states, spent, told = stream_over(plan, table), [b""] * KEYS, 0.0, 0
    for step in range(steps or (ROWS * WINDOWS * (WINDOW // ROWS) + 2 * WINDOW) // slide):
        at = np.flatnonzero((when > step * slide) & (when <= (step + 1) * slide))
        rows = table.take(pa.array(at))
        begun = time.process_time()
        tables, kept = drained(stream.advance(rows, key[at], states, (step + 1) * slide))
        spent += time.process_time() - begun
        states, told = kept.states, told + sum(some.num_rows for some in tables)
    return spent, told
