"""Matching under a budget (RC-ACEP, VLDB 2016, Figures 9 to 14) in memory, one thread: what share of match points and bundles is found against the checks a row may use, in
which order, what a check costs, and what a sketch of the history loses.

The streams are the paper's kind: letters at random, and words planted among them that lack a letter. A history is learnt from one stream and used on another; of a stream that
drifts the letter that planted words lack is another one in the second half.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.budgeted import Budgeted
from sparkcep.engine.open import engine_for, prepare
from sparkcep.plan.budget import HISTORY_COLUMN
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS
from sparkcep.search.budgeted import FIRST_IN, PLAIN

FIVE = "A B C D E"
WINDOW = 14
BUDGETS = (1, 2, 4, 8, 16)
INTERVALS = (1, 2, 8)
HISTORY = pa.list_(pa.struct([
    ("pattern", pa.string()), ("place", pa.int32()), ("errors", pa.float64()), ("remaining", pa.int32()), ("idle", pa.int32()), ("visits", pa.int64()), ("bundles", pa.list_(pa.int32())),
]))  # fmt: skip


def stream(rows: int, seed: int, noise: str = "ab", lacking: str = "a", density: float = 0.4) -> str:
    """Letters a to e, "." where a row is none: noise at random, and every 40 rows the word abcde without a letter. ``lacking``: the letters that words lack, one in each part of the stream."""
    rng = np.random.default_rng(seed)
    letters = np.where(rng.random(rows) < density, rng.choice(list(noise), rows), ".")
    for at in range(20, rows - 10, 40):
        word = "abcde".replace(lacking[at * len(lacking) // rows], "")
        for i, letter in enumerate(word):
            letters[at + 2 * i] = letter
    return "".join(letters)


STREAMS = {
    "a missing, noise a b": {},
    "c missing, noise a b": {"lacking": "c"},
    "e missing, noise d e": {"lacking": "e", "noise": "de"},
    "a missing, noise of all": {"noise": "abcde", "density": 0.3},
    "drifting from a to e": {"lacking": "ae", "noise": "abde"},
}


class Clause:
    """``PATTERN (A B C D E) WINDOW 14 APPROX 1`` with some report, prepared for streams of letters."""

    def __init__(self, report: str, used: bool = False) -> None:
        measures = "" if "HISTORY OF" in report else "MEASURES LAST(ts) AS point, COMPLETE() AS c" if "BUDGET" in report else "MEASURES LAST(ts) AS point"
        using = " USING HISTORY h AS PUBLISHED" if used else ""
        define = ", ".join(f"{v} AS letter = '{v}'" for v in "ABCDE")
        self.plan = make_plan(parse_clause(f"ORDER BY ts {measures} PATTERN ({FIVE}) WINDOW {WINDOW} APPROX 1 {report}{using} DEFINE {define}"))
        self.bits = {self.plan.variables[v].lower(): 1 << bit for v, bit, _ in self.plan.letters}

    def table(self, letters: str, history: list[dict] | None = None) -> pa.Table:
        columns = {name: pa.array(np.arange(len(letters))) for name, _ in self.plan.inputs if name != HISTORY_COLUMN}
        if any(name == HISTORY_COLUMN for name, _ in self.plan.inputs):
            columns[HISTORY_COLUMN] = pa.array([history, *[None] * (len(letters) - 1)], type=HISTORY)
        columns[LETTERS] = pa.array(np.array([self.bits.get(letter, 0) for letter in letters], dtype=np.int8))
        return pa.table(columns)

    def run(self, letters: str, history: list[dict] | None = None, repeats: int = 1) -> tuple[list[dict], float, int]:
        """(rows of output, the least seconds, checks)."""
        table = self.table(letters, history)
        prepared = prepare(self.plan, table.schema)
        least, out, checks = float("inf"), [], 0
        for _ in range(repeats):
            engine = engine_for(prepared)
            begin = time.perf_counter()
            tables = [t for batch in table.to_batches() for t in engine.push(batch)]
            tables += engine.finish()
            least = min(least, time.perf_counter() - begin)
            out = [row for t in tables for row in t.to_pylist()]
            checks = engine.task.checks
        return out, least, checks


def learnt(letters: str, runs: str, intervals: int) -> list[dict]:
    """The history of a stream."""
    clause = Clause(f"MATCH HISTORY OF {runs} MATCHES INTERVALS {intervals}")
    rows, _, _ = clause.run(letters)
    names = ("place", "errors", "remaining", "idle", "visits", "points", "starts")
    found = [dict(zip(names, row.values())) for row in rows]
    number = {start: i for i, start in enumerate(sorted({start for row in found for start in row["starts"]}))}
    # the last bundles, where there are more than a history may have
    first = max(len(number) - 512, 0)
    kept = [{**row, "bundles": [number[start] - first for start in row["starts"] if number[start] >= first]} for row in found]
    return [{"pattern": None, **{name: row[name] for name in (*names[:5], "bundles")}} for row in kept]


def points_of(rows: list[dict]) -> set[int]:
    return {next(iter(row.values())) for row in rows}


def bundles_of(points: set[int]) -> list[set[int]]:
    groups: list[set[int]] = []
    for point in sorted(points):
        if groups and point - max(groups[-1]) <= WINDOW:
            groups[-1].add(point)
        else:
            groups.append({point})
    return groups


@contextmanager
def tried_in(order: int) -> Iterator[None]:
    """Inside, candidates are tried in an order of which no history decides."""
    Budgeted.order = np.int64(order)
    try:
        yield
    finally:
        Budgeted.order = np.int64(PLAIN)


def run(rows: int) -> dict:
    """All experiments over streams of ``rows`` rows; prints tables."""
    return {"recall": _recall(min(rows, 20_000)), "checks": _checks(min(rows, 200_000)), "sketches": _sketches(min(rows, 20_000))}


def _recall(rows: int) -> dict:
    """B1 (Figures 9 and 10): recall against checks a row."""
    found: dict = {}
    for report, runs in (("ALL MATCHES", "ALL"), ("PROXY MATCHES", "PROXY")):
        for name, how in STREAMS.items():
            teaching, tested = stream(rows, 1, **how), stream(rows, 2, **how)
            all_points = points_of(Clause(report).run(tested)[0])
            all_bundles = bundles_of(all_points)
            print(f"\n{report}, {name}: share of {len(all_points):,} match points / {len(all_bundles):,} bundles found at {', '.join(map(str, BUDGETS))} checks a row")
            histories = {g: learnt(teaching, runs, g) for g in INTERVALS}
            for order in ("first in, first out", "least cost first", *(f"history g = {g}" for g in INTERVALS)):
                shares = []
                for checks in BUDGETS:
                    history = histories[int(order.rpartition(" ")[2])] if order.startswith("history") else None
                    clause = Clause(f"{report} BUDGET {checks} CHECKS", history is not None)
                    with tried_in(FIRST_IN if order.startswith("first") else PLAIN):
                        points = points_of(clause.run(tested, history)[0])
                    shares.append((len(points) / len(all_points), sum(bool(b & points) for b in all_bundles) / len(all_bundles)))
                found[f"{report}, {name}, {order}"] = shares
                print(f"  {order:<22}" + "  ".join(f"{a:.2f}/{b:.2f}" for a, b in shares))
    return found


def _checks(rows: int) -> dict:
    """What a check costs, and a row without a budget; growth with the checks of a row."""
    tested, found = stream(rows, 3, noise="abcde", density=0.5), {}
    history = learnt(stream(20_000, 1, noise="abcde", density=0.5), "ALL", 2)
    _, plain, _ = Clause("PROXY MATCHES").run(tested, repeats=3)
    print(f"\n{rows:,} rows, half of them letters; PROXY MATCHES without a budget {plain / rows * 1e6:.3f} us a row")
    for report in ("PROXY MATCHES", "ALL MATCHES"):
        for using in (False, True):
            if using and report == "PROXY MATCHES":
                continue
            for checks in (1, 4, 16, 64):
                clause = Clause(f"{report} BUDGET {checks} CHECKS", using)
                _, seconds, tried = clause.run(tested, history if using else None, repeats=3)
                found[f"{report}, {checks}, {using}"] = (seconds, tried)
                print(f"  {report:<14} BUDGET {checks:>2}{' with history' if using else '':<14} {seconds / rows * 1e6:8.3f} us a row {seconds / tried * 1e6:8.3f} us a check")
    return found


def _sketches(rows: int) -> dict:
    """B3 (Figures 12 and 14): recall with and without a sketch of the history, and its size."""
    how: dict = STREAMS["a missing, noise of all"]
    teaching, tested, found = stream(rows, 1, **how), stream(rows, 2, **how), {}
    all_points = points_of(Clause("ALL MATCHES").run(tested)[0])
    all_bundles = bundles_of(all_points)
    history = learnt(teaching, "ALL", 8)
    bundles = len({b for row in history for b in row["bundles"]})
    print(f"\nA history of {len(history)} vectors and {bundles} bundles, {len(history) * (8 + bundles // 8 + 1) / 1024:.0f} KB as counts and maps; share of bundles at 1, 2, 4 checks")
    for sketch in ("", " SKETCH AUTO 200", " SKETCH AUTO 400", " SKETCH AUTO 800", " SKETCH (2, 400)", " SKETCH (4, 200)"):
        shares = []
        for checks in (1, 2, 4):
            clause = Clause(f"ALL MATCHES BUDGET {checks} CHECKS USING HISTORY h AS PUBLISHED{sketch}")
            points = points_of(clause.run(tested, history)[0])
            shares.append(sum(bool(b & points) for b in all_bundles) / len(all_bundles))
        found[sketch] = shares
        print(f"  {sketch.strip() or 'no sketch':<18}" + "  ".join(f"{share:.3f}" for share in shares))
    return found
