"""The experiments of ACEP (VLDB 2016, section 6) in memory, one thread: throughput of approximate matches as in its Figures 5 to 8.

One row in four is a letter of the pattern, each as likely as the others. Q1 to Q4 run over one stream (tweets), Q5 to Q7 over 536
vehicles, which the equivalence test on the vehicle makes partitions; their window counts events of all vehicles. Every query
reports its proxy matches, the paper's optimization, but where it says "all".
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.factory import engine_for, prepare
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS
from tests.benchmarks.sase import _axes, _lines

CHARTS, NEWS, BEARISH = "(B | D | W | R | H | T | C)", "(G | N | U)", "(T1 | T2 | R1 | H1 | B1 | D1)"
TWEETS = {
    "Q1": f"(S A {CHARTS} E){{2,}} (S A {NEWS} E){{2,}}",
    "Q2": "S A (T1 | T2) E S A (R1 | H1) E S A (B1 | D1) E",
    "Q3": "S L G E S L N E S L U E",
    "Q4": f"S A {CHARTS} E S L {BEARISH} E | S L {CHARTS} E S A {BEARISH} E",
}
VEHICLES = {"Q5": "L P{5,} (D | C | A) | P{5,} N (D | C | A)", "Q6": "(Z L){5,}", "Q7": "Z L M1 M2 H"}
SIZES = {
    "Q5": {2 * n + 8: f"L P{{{n},}} (D | C | A) | P{{{n},}} N (D | C | A)" for n in (1, 4, 8, 12)},
    "Q6": {2 * n: f"(Z L){{{n},}}" for n in (2, 4, 8, 16)},
    "Q7": {n: " ".join(f"V{i}" for i in range(n)) for n in (4, 8, 16, 32)},
}
FIVE = "A B C D E"
ERRORS = (0, 1, 2)
VEHICLE_COUNT = 536
GOALS = {FIVE: 5e6, "Q1": 1e6}
CLAUSE = (
    "{partition} ORDER BY id MEASURES MATCH_ERRORS() AS e PATTERN ({pattern}) WINDOW {window} APPROX {k} {report} DEFINE {define}"
)


def measure(
    pattern: str,
    rows: int,
    window: int,
    k: int,
    *,
    report: str = "PROXY MATCHES",
    vehicles: int = 0,
    chunk_rows: int | None = None,
    seed: int = 1,
) -> dict:
    """Rows, seconds (the best of 3), rows of output, nodes of the automaton, the most entries of chains in use between buffers."""
    letters = list(dict.fromkeys(re.findall(r"[A-Z]\w*", pattern)))
    plan = make_plan(
        parse_clause(
            CLAUSE.format(
                partition="PARTITION BY vehicle" if vehicles else "",
                pattern=pattern,
                window=window,
                k=k,
                report=report,
                define=", ".join(f"{v} AS letter = '{v}'" for v in letters),
            )
        )
    )
    table = _table(plan, letters, rows, vehicles, seed)
    prepared = prepare(plan, table.schema)
    batches = table.to_batches(max_chunksize=10_000)
    best, out, used = float("inf"), 0, 0
    for _ in range(3):
        engine = engine_for(prepared, chunk_rows)
        out, start = 0, time.perf_counter()
        for batch in batches:
            out += sum(t.num_rows for t in engine.push(batch))
            used = max(used, getattr(engine.state, "used", 0))
        out += sum(t.num_rows for t in engine.finish())
        best = min(best, time.perf_counter() - start)
    return {
        "rows": rows,
        "seconds": best,
        "rows_per_s": rows / best,
        "output": out,
        "nodes": prepared.strategy.automaton.nodes,
        "entries": used,
    }


def _table(plan, letters: list[str], rows: int, vehicles: int, seed: int) -> pa.Table:
    """The plan's inputs, sorted; events of vehicles come in turn at random."""
    rng = np.random.default_rng(seed)
    which = np.where(rng.random(rows) < 0.25, rng.integers(0, len(letters), rows), -1)
    vehicle = np.sort(rng.integers(0, vehicles, rows)) if vehicles else np.zeros(rows, dtype=np.int64)
    ids = np.arange(rows)
    if vehicles:
        ids = rng.permutation(rows)
        ids = ids[np.lexsort((ids, vehicle))]
    bit = {letters.index(plan.variables[v]): bit for v, bit, _ in plan.letters}
    bits = np.array([1 << bit[i] for i in range(len(letters))] + [0], dtype=np.int64)[which]
    columns = {name: pa.array(vehicle if sql == "vehicle" else ids) for name, sql in plan.inputs}
    columns[LETTERS] = pa.array(bits if len(letters) > 30 else bits.astype(np.int32))
    return pa.table(columns)


def run(rows: int, figures: str) -> dict:
    """All experiments over ``rows`` rows; prints tables, draws figures into the folder ``figures``."""
    folder = Path(figures)
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "5, 6": _windows(rows, folder),
        "five letters": _five(rows),
        "7": _vehicles(rows, folder),
        "8": _sizes(rows, folder),
        "proxies and all": _all(rows // 10, folder),
        "growth": _growth(rows, folder),
    }


def _windows(rows: int, folder: Path) -> dict:
    """Figures 5 and 6, and a window of 1,000 beside them."""
    found: dict = {}
    print(
        f"\nACEP, tweets, {rows:,} rows (at least 4/3 of the window), a quarter of them letters of the pattern: M rows/s at k = 0, 1, 2; entries in use at k = 2"
    )
    print(f"{'window':>12}" + "".join(f"{q:>22}" for q in TWEETS))
    for window, figure in ((1_000, "6a"), (100_000, "6"), (3_000_000, "5")):
        line = ""
        for name, pattern in TWEETS.items():
            measured = [measure(pattern, _longer(rows, window), window, k) for k in ERRORS]
            found[f"{name} W={window}"] = measured
            line += "".join(f"{m['rows_per_s'] / 1e6:>6.2f}" for m in measured) + f" ({measured[2]['entries']})"
        print(f"{window:>12,}{line}")
        series = {q: [m["rows_per_s"] for m in found[f"{q} W={window}"]] for q in TWEETS}
        _groups(folder / f"acep_figure_{figure}.png", series, f"Q1 to Q4, window of {window:,} events")
    goal = min(m["rows_per_s"] for w in (1_000, 100_000, 3_000_000) for m in found[f"Q1 W={w}"])
    print(f"Q1, 32 letters: {goal / 1e6:.2f} M rows/s at least (goal {GOALS['Q1'] / 1e6:.0f})")
    return found


def _longer(rows: int, window: int) -> int:
    """Rows enough that the window moves."""
    return max(rows, window + window // 3)


def _five(rows: int) -> dict:
    """Five letters: rows, and rows that are letters, a second."""
    found = {f"W={w}": [measure(FIVE, _longer(rows, w), w, k) for k in ERRORS] for w in (1_000, 100_000, 3_000_000)}
    print(f"\n{FIVE}: M rows/s at k = 0, 1, 2 (goal {GOALS[FIVE] / 1e6:.0f}; a letter is a quarter of a row)")
    for window, measured in found.items():
        print(
            f"{window:>12}"
            + "".join(f"{m['rows_per_s'] / 1e6:>8.2f}" for m in measured)
            + f"   nodes {measured[2]['nodes']}, entries {measured[2]['entries']}"
        )
    return found


def _vehicles(rows: int, folder: Path) -> dict:
    """Figure 7."""
    print(f"\nACEP, {VEHICLE_COUNT} vehicles, window of 50,000 events: M rows/s at k = 0, 1, 2")
    found = {}
    for name, pattern in VEHICLES.items():
        found[name] = [measure(pattern, rows, 50_000, k, vehicles=VEHICLE_COUNT) for k in ERRORS]
        print(
            f"{name:>12}" + "".join(f"{m['rows_per_s'] / 1e6:>8.2f}" for m in found[name]) + f"   nodes {found[name][2]['nodes']}"
        )
    _groups(
        folder / "acep_figure_7.png", {q: [m["rows_per_s"] for m in found[q]] for q in found}, "Q5 to Q7, window of 50,000 events"
    )
    return found


def _sizes(rows: int, folder: Path) -> dict:
    """Figure 8."""
    print("\nACEP, size of the pattern, vehicles, window of 50,000 events: M rows/s at k = 0, 1, 2")
    found: dict = {}
    for name, patterns in SIZES.items():
        for size, pattern in patterns.items():
            found[f"{name} {size}"] = [measure(pattern, rows // 2, 50_000, k, vehicles=VEHICLE_COUNT) for k in ERRORS]
            rates = "".join(f"{m['rows_per_s'] / 1e6:>8.2f}" for m in found[f"{name} {size}"])
            print(f"{name:>6}{size:>6}{rates}   nodes {found[f'{name} {size}'][2]['nodes']}")
    lines = {
        f"{name}, k = {k}": (np.array(list(patterns)), np.array([found[f"{name} {size}"][k]["rows_per_s"] for size in patterns]))
        for name, patterns in SIZES.items()
        for k in (0, 2)
    }
    _lines(folder / "acep_figure_8.png", lines, "letters of the pattern", "rows/s", "Size of the pattern, window of 50,000 events")
    return found


def _all(rows: int, folder: Path) -> dict:
    """Proxies against all matches: time, and what is in memory."""
    print(f"\n{FIVE}, k = 2, {rows:,} rows: proxies against all matches")
    print(
        f"{'window':>8}{'proxies ms':>12}{'all ms':>10}{'ratio':>8}{'proxies':>10}{'all matches':>13}{'entries':>9}{'matches in a window':>21}"
    )
    found, lines = {}, {"proxies": [], "all": []}
    windows = (25, 50, 100, 150)
    for window in windows:
        proxies, every = (measure(FIVE, rows, window, 2, report=r, chunk_rows=10_000) for r in ("PROXY MATCHES", "ALL MATCHES"))
        held = every["output"] * window / rows
        found[f"W={window}"] = {"proxies": proxies, "all": every, "matches in a window": held}
        lines["proxies"].append(proxies["seconds"])
        lines["all"].append(every["seconds"])
        print(
            f"{window:>8}{proxies['seconds'] * 1e3:>12.1f}{every['seconds'] * 1e3:>10.1f}{every['seconds'] / proxies['seconds']:>8.0f}{proxies['output']:>10,}"
            f"{every['output']:>13,}{proxies['entries']:>9}{held:>21,.0f}"
        )
    _lines(
        folder / "acep_proxies.png",
        {n: (np.array(windows), np.array(s)) for n, s in lines.items()},
        "window (events)",
        "seconds",
        f"{FIVE}, k = 2",
    )
    return found


def _growth(rows: int, folder: Path) -> dict:
    """Time for each row, by the number of rows."""
    print(f"\nGrowth, window of 100,000 events, k = 2: ns a row by {rows // 8:,} to {rows:,} rows")
    found, lines = {}, {}
    sizes = [rows // 8, rows // 4, rows // 2, rows]
    for name, pattern in ((FIVE, FIVE), *TWEETS.items()):
        measured = [measure(pattern, n, 100_000, 2) for n in sizes]
        each = [m["seconds"] / m["rows"] * 1e9 for m in measured]
        found[name] = measured
        lines[name] = (np.array(sizes), np.array(each))
        print(
            f"{name:>12}"
            + "".join(f"{e:>9.0f}" for e in each)
            + f"   last/first {each[-1] / each[0]:.2f}, entries {[m['entries'] for m in measured]}"
        )
    _lines(folder / "acep_growth.png", lines, "rows", "ns a row", "Growth, window of 100,000 events, k = 2")
    return found


def _groups(path: Path, series: dict[str, list[float]], title: str) -> None:
    """Bars by query, one for each k."""
    figure, axes = _axes("rows/s", title)
    for k in ERRORS:
        axes.bar(np.arange(len(series)) + (k - 1) * 0.25, [rates[k] for rates in series.values()], width=0.25, label=f"k = {k}")
    axes.set_xticks(np.arange(len(series)), list(series))
    axes.legend()
    figure.savefig(path, dpi=120)
