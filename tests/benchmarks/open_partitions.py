"""What it costs to go on with many open partitions: some rows of each come in each call, and its state is bytes between them."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from sparkcep.engine.factory import OpenPartitions, match_table, prepare
from tests.property.in_process import drained

from .data import sorted_ticks
from .kernels import inputs_of

SHAPES = [
    ("V shape", "PATTERN (STRT DOWN+ UP+) DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)"),
    ("three steps", "EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B C) WINDOW 20 DEFINE A AS volume > 900, B AS volume < 100, C AS volume > 500 AND price > A.price"),
]
PARTITIONS = (10, 100, 1000, 10_000)
ROWS, CALLS = 3, 12  # of each partition in a call


def run() -> list[dict]:
    """Microseconds of a partition and call, beside those that its rows take where all are there at once."""
    print(f"\nOpen partitions, {ROWS} rows of each in a call, {CALLS} calls, one thread")
    print(f"{'shape':<14}{'partitions':>12}{'us a call':>12}{'of it search':>14}{'bytes':>8}")
    results = []
    for name, clause in SHAPES:
        for count in PARTITIONS:
            plan, table = inputs_of(clause, sorted_ticks(count * ROWS * CALLS, count))
            prepared = prepare(plan, table.schema)
            match_table(plan, table.slice(0, 100))
            start = time.thread_time()
            match_table(plan, table)
            together = time.thread_time() - start
            each = np.arange(count) * ROWS * CALLS
            engine, states = OpenPartitions(prepared, table.schema), [b""] * count
            batches = [table.take(pa.array((each[:, None] + call * ROWS + np.arange(ROWS)).ravel())).combine_chunks() for call in range(CALLS)]
            sizes, going = np.full(count, ROWS), np.ones(count, dtype=bool)
            spent = 0.0
            for call, batch in enumerate(batches):
                start = time.thread_time()
                _, states = drained(engine.advance(batch, sizes, states, going))
                if call:  # the first begins with nothing
                    spent += time.thread_time() - start
            us = spent / (CALLS - 1) / count * 1e6
            results.append({"shape": name, "partitions": count, "us": us, "search_us": together / CALLS / count * 1e6})
            print(f"{name:<14}{count:>12,}{us:>12.1f}{together / CALLS / count * 1e6:>14.1f}{sum(map(len, states)) / count:>8.0f}")
    return results
