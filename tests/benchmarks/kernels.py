"""Kernel throughput on sorted arrays, one thread, and growth over four sizes."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from sparkcep.clause.parser import parse_clause
from sparkcep.columns.arrays import boundaries, flat
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.kernel_loop import OutputRoom
from sparkcep.engine.core.resume import NOTHING_OPEN
from sparkcep.engine.core.task import Task
from sparkcep.engine.factory import prepare
from sparkcep.engine.match.backtrack import Backtracking
from sparkcep.kernels.common import layout
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS

from .data import sorted_ticks

HEAD = "PARTITION BY symbol ORDER BY ts MEASURES MATCH_NUMBER() AS n "

# name, what the conditions look at, goal in rows/s, clause, row expressions over the tick columns
SHAPES = [
    ("rising letters", "row", 50e6, "PATTERN (A B+ C) DEFINE A AS price < 99, B AS price BETWEEN 99 AND 101, C AS price > 101"),
    ("rare letter", "row", 50e6, "PATTERN (A B* C) DEFINE A AS volume > 990, B AS volume < 900, C AS volume > 950"),
    ("V shape", "neighbours", 20e6, "PATTERN (STRT DOWN+ UP+) DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)"),
    ("above first", "match", 5e6, "PATTERN (A B+) DEFINE A AS volume > 500, B AS price >= FIRST(A.price)"),
    ("above last", "match", 5e6, "PATTERN (A B+) DEFINE A AS volume > 500, B AS price > LAST(B.price, 1) OR price > A.price"),
    ("running average", "match", 5e6, "PATTERN (A B+) DEFINE A AS volume > 500, B AS price >= AVG(B.price)"),
]

LINEAR = [
    ("(A|B)* C", "PATTERN ((A|B)* C) DEFINE A AS volume < 500, B AS volume >= 400, C AS volume < 0"),
    ("(A* B?)* C", "PATTERN ((A* B?)* C) DEFINE A AS volume < 500, B AS volume >= 400, C AS volume < 0"),
    ("A* A* A* B", "PATTERN (A* A* A* B) DEFINE A AS volume > 0, B AS volume < 0"),
    ("A{1,500}", "PATTERN (A{1,500} B) DEFINE A AS volume < 995, B AS volume > 995"),
    ("PERMUTE of 8", "PATTERN (PERMUTE(A, B, C, D, E, F, G, H) X) DEFINE X AS volume < 0, "
     + ", ".join(f"{v} AS volume % 8 <> {i}" for i, v in enumerate("ABCDEFGH"))),
]


def inputs_of(clause: str, table: pa.Table):
    """The plan and its input table; row expressions are evaluated with DuckDB-free plain numpy over tick columns."""
    plan = make_plan(parse_clause(HEAD + clause))
    names = {n: table.column(n).to_numpy(zero_copy_only=False) for n in ("ts", "price", "volume")}
    out = {}
    for column, sql in plan.inputs:
        out[column] = table.column("symbol") if sql == "symbol" else pa.array(_row(sql, names))
    letters = np.zeros(table.num_rows, dtype=np.int64)
    for _, bit, sql in plan.letters:
        letters |= np.asarray(_row(sql, names), dtype=np.int64) << bit
    if plan.letters:
        out[LETTERS] = pa.array(letters)
    return plan, pa.table(out)


def _row(sql: str, names: dict[str, np.ndarray]) -> np.ndarray:
    import re

    text = re.sub(r"(\w+) BETWEEN (\S+) AND (\S+)\)", r"((\1 >= \2) & (\1 <= \3)))", sql).replace("<>", "!=")
    text = re.sub(r"\) AND \(", ") & (", text)
    return eval(text, {"__builtins__": {}}, names)  # the texts are this module's own


def kernel_seconds(clause: str, table: pa.Table, repeats: int = 5) -> tuple[float, float, int]:
    """(seconds of the matching alone, seconds with conditions and boundaries, matches); medians."""
    plan, inputs = inputs_of(clause, table)
    prepared = prepare(plan, inputs.schema)
    whole = inputs.combine_chunks()
    columns = {n: flat(whole.column(n)) for n in whole.column_names}
    match, total, found = [], [], 0
    for _ in range(repeats + 1):
        search = Backtracking(Task.of(prepared, None))
        t0 = time.perf_counter()
        offsets = boundaries([columns[c] for _, c, _ in plan.partition], whole.num_rows)
        over = search.over(Chunk.whole(whole, columns, offsets), NOTHING_OPEN)
        t1 = time.perf_counter()
        over.room = OutputRoom(whole.num_rows, 2 * whole.num_rows, rows=False)
        t2 = time.perf_counter()
        while over.run() == layout.GROW:
            over.grow()
        t3 = time.perf_counter()
        match.append(t3 - t2)
        total.append(t3 - t2 + t1 - t0)
        found = int(over.state[layout.S_EVENTS])
    return float(np.median(match[1:])), float(np.median(total[1:])), found


def run(rows: int = 2_000_000, symbols: int = 1000) -> dict:
    table = sorted_ticks(rows, symbols)
    print(f"\nKernels, {rows:,} sorted rows, {symbols} partitions, one thread (medians of 5)")
    print(f"{'shape':<18}{'looks at':<12}{'match ms':>10}{'+conditions ms':>16}{'M rows/s':>10}{'goal':>7}{'matches':>10}")
    shapes = []
    for name, looks, goal, clause in SHAPES:
        match, total, found = kernel_seconds(clause, table)
        shapes.append({"shape": name, "looks_at": looks, "match_s": match, "total_s": total, "rows_per_s": rows / total, "goal": goal})
        print(f"{name:<18}{looks:<12}{match * 1e3:>10.1f}{total * 1e3:>16.1f}{rows / total / 1e6:>10.1f}{goal / 1e6:>7.0f}{found:>10}")
    print("\nGrowth: ns per row of the matching over four sizes (one partition each)")
    growth = []
    for name, clause in LINEAR:
        # PERMUTE keeps a set of 8 elements for each row: 256 states
        sizes = [rows // d for d in ((256, 128, 64, 32) if "PERMUTE" in name else (16, 8, 4, 2))]
        print(" " * 16 + "".join(f"{s:>12,}" for s in sizes) + f"{'last/first':>12}")
        per_row = []
        for size in sizes:
            match, _, _ = kernel_seconds(clause, sorted_ticks(size, 1), repeats=3)
            per_row.append(match / size * 1e9)
        growth.append({"pattern": name, "rows": sizes, "ns_per_row": per_row})
        print(f"{name:<16}" + "".join(f"{x:>12.1f}" for x in per_row) + f"{per_row[-1] / per_row[0]:>12.2f}")
    return {"shapes": shapes, "growth": growth}
