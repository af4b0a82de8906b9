"""Matching under a budget in time (RC-ACEP, VLDB 2016, Figures 9, 10, 12, 14, 15 and 17): what share of match points and bundles is
found against the time that a row may take.

``counted`` clocks make the curves a function of the rows; a check costs in each order what it was measured to cost. The ``thread``
clock gives the curves of this machine, and how near the time of a block comes to its interval while checks become dearer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sparkcep.engine.budget.best_effort import BestEffort
from sparkcep.kernels.budget.feedback import R_ALLOWED, R_ELAPSED
from sparkcep.kernels.budget.layout import FIRST_IN, PLAIN
from sparkcep.plan.records import Pace
from tests.benchmarks.budget import (
    FIFO,
    LETTERS_QUERY,
    PROMISING,
    Q1,
    Q5,
    STREAMS,
    Clause,
    Query,
    Recall,
    Stream,
    learnt,
    stream,
    tried_in,
    tweets,
    vehicles,
)

TIMES = tuple(250 << i for i in range(11))  # nanoseconds of a row: 0.25 to 256 us
ROW = 200  # nanoseconds of a row
PUBLISHED = "as published"
CHECK = {FIFO: 300, PROMISING: 600, PUBLISHED: 1000}  # nanoseconds of a check in each order
INTERVALS = 8
EARLY, REFILLED, EXPLORED, SAME = "day 1", "REFILL", "REFILL EXPLORE", "same day"
Shares = list[tuple[float, float]]


class Timed(Clause):
    """A query whose rows may take so many nanoseconds each. ``order``: how candidates are tried, which says what a check costs."""

    def __init__(self, nanos: int, order: str, clock: str, query: Query, report: str = "PROXY MATCHES", sketch: str = "", more: str = "") -> None:
        used = {FIFO: "", PROMISING: "promising", PUBLISHED: "published"}[order]
        super().__init__(f"{report} BUDGET INTERVAL '1' MICROSECOND PER ROW", used, query, sketch, more)
        self.order = order
        approx = self.plan.approximate
        assert approx is not None and approx.budget is not None
        costs = (ROW, CHECK[order]) if clock == "counted" else (0, 0)
        self.plan = replace(self.plan, approximate=approx._replace(budget=approx.budget._replace(pace=Pace(nanos, "ROW", clock, *costs))))  # type: ignore[arg-type]

    def share(self, recall: Recall, history: list[dict] | None) -> tuple[float, float]:
        with tried_in(FIRST_IN if self.order == FIFO else PLAIN):
            return recall.share(self.points(recall.rows, history if self.order != FIFO else None))


class Subject(NamedTuple):
    """A stream with its query, and a history of another stream of its kind."""

    recall: Recall
    query: Query
    history: list[dict]


def subject(name: str, rows: int) -> Subject:
    """Q1 or Q5."""
    query, make = {"Q1": (Q1, tweets), "Q5": (Q5, vehicles)}[name]
    return Subject(Recall(make(rows, 2), "PROXY MATCHES", query, {}), query, learnt(make(rows, 1), "PROXY", INTERVALS, query))


def curves(of: Subject, clock: str) -> dict[str, Shares]:
    """Figures 9 and 10: the shares of match points and of bundles for each of TIMES, by order."""
    return {order: [Timed(nanos, order, clock, of.query).share(of.recall, of.history) for nanos in TIMES] for order in CHECK}


def flaws(found: dict[str, Shares]) -> list[str]:
    """The places where curves lack the shape of the paper's.

    Each order finds at least twice the bundles of a baseline that finds less than .4. It finds at most .1 less than the baseline,
    and only at times up to which its dearer checks take as long. No curve falls."""
    out, base = [], found[FIFO]
    for order, shares in found.items():
        for k, what in enumerate(("match points", "bundles")):
            values = [share[k] for share in shares]
            fall = max(max(values[:i], default=0.0) - value for i, value in enumerate(values))
            if fall > 0.02:
                out.append(f"{order}: {what} fall by {fall:.3f}")
            if values[-1] < 0.98:
                out.append(f"{order}: {what} reach {values[-1]:.3f} only")
            if order == FIFO:
                continue
            whole = next((i for i, share in enumerate(base) if share[k] >= 0.98), len(base) - 1)
            for i, nanos in enumerate(TIMES):
                if k == 1 and base[i][k] < 0.4 and values[i] < 2 * base[i][k]:
                    out.append(f"{order}: {values[i]:.3f} of the bundles at {nanos} ns, the baseline {base[i][k]:.3f}")
                behind = base[i][k] - values[i]
                if behind > 0.1 or (behind > 0.02 and nanos > TIMES[whole] * CHECK[order] / CHECK[FIFO]):
                    out.append(f"{order}: {behind:.3f} of the {what} behind the baseline at {nanos} ns")
    return out


def sketched(of: Subject, clock: str) -> dict[str, list[tuple[float, float]]]:
    """Figures 12 and 14: the share of the bundles without and with a sketch of 800 cells, for each of TIMES."""
    pairs = {}
    for order in (PUBLISHED, PROMISING):
        both = [[Timed(nanos, order, clock, of.query, sketch=sketch).share(of.recall, of.history)[1] for nanos in TIMES] for sketch in ("", " SKETCH AUTO 800")]
        pairs[order] = list(zip(*both))
    return pairs


def proxies(rows: int, clock: str) -> dict[str, list[tuple[float, float]]]:
    """Figure 15: the share of the bundles by all runs and by proxies, for each of TIMES."""
    found = {}
    for name, how in STREAMS.items():
        tested, both = stream(rows, 2, **how), []
        for runs in ("ALL", "PROXY"):
            recall, history = Recall(tested, "PROXY MATCHES", LETTERS_QUERY, {}), learnt(stream(rows, 1, **how), runs, INTERVALS)
            both.append([Timed(nanos, PROMISING, clock, LETTERS_QUERY, f"{runs} MATCHES").share(recall, history)[1] for nanos in TIMES])
        found[name] = list(zip(*both))
    return found


def days(rows: int, changing: bool, clock: str) -> dict[str, Shares]:
    """Figure 17: days 2 to 5 with a history of day 1 that is fixed, or refilled; and one of the same day.

    From day 3 on words lack other letters in turn if ``changing``. The time is the least at which a history of the same day finds
    .9 of the match points of day 3."""
    some = [stream(rows, 10 + day, lacking="aceb" if changing and day >= 2 else "c", noise="abcde") for day in range(5)]
    recalls = [Recall(day, "PROXY MATCHES", LETTERS_QUERY, {}) for day in some]
    histories = [learnt(day, "PROXY", INTERVALS) for day in some]

    def share(day: int, history: list[dict], nanos: int, report: str = "PROXY MATCHES", more: str = "", sketch: str = "") -> tuple[float, float]:
        return Timed(nanos, PUBLISHED, clock, LETTERS_QUERY, report, sketch, more).share(recalls[day], history)

    nanos = next((nanos for nanos in TIMES if share(2, histories[2], nanos)[0] >= 0.9), TIMES[-1])
    found = {
        EARLY: [share(day, histories[0], nanos) for day in range(1, 5)],
        REFILLED: [share(day, histories[0], nanos, more=" REFILL 32 BUNDLES") for day in range(1, 5)],
        EXPLORED: [share(day, histories[0], nanos, more=" REFILL 32 BUNDLES", sketch=" EXPLORE") for day in range(1, 5)],
    }
    return {**found, SAME: [share(day, histories[day], nanos) for day in range(1, 5)]}


# -- how near a block comes to its interval ---------------------------------------------------------------------------


@contextmanager
def recorded(blocks: int) -> Iterator[list[np.ndarray]]:
    """Inside, each search notes its first blocks."""
    found: list[np.ndarray] = []
    count = BestEffort.count

    def noted(self, search) -> None:
        found.append(search.feedback.record[: search.feedback.totals[0]])
        count(self, search)

    BestEffort.recorded, BestEffort.count = blocks, noted  # type: ignore[method-assign]
    try:
        yield found
    finally:
        BestEffort.recorded, BestEffort.count = 0, count  # type: ignore[method-assign]


def drifting(rows: int, nanos: int) -> np.ndarray:
    """The time of each block over the time it may take, by the thread clock. Checks become three times as dear, and cheap again, in
    waves: their conditions compute more for some rows."""
    wave = 1 + np.round(1 + np.sin(np.arange(rows) * (2 * np.pi / 8000))).astype(int)  # 1 to 3 parts of the work
    work = " + ".join(f"ln(1.0 + abs(v - A.v) + {i})" for i in range(8))
    tests = " AND ".join(f"(less{part} OR {work} > -{part})" for part in (1, 2, 3))
    names = "BCDEFGH"
    query = Query(
        f"ORDER BY ts {{measures}} PATTERN (A {' '.join(names)}) WINDOW 400 APPROX 2 {{report}} DEFINE A AS s = 'a', {', '.join(f'{v} AS s = {v.lower()!r} AND {tests}' for v in names)}", 400
    )
    clause = _Costly(nanos, wave, query)
    rng = np.random.default_rng(5)
    which = rng.integers(0, 8, rows)
    made = Stream(np.zeros(rows, dtype=np.int64), np.arange(rows), {v: which == i for i, v in enumerate(f"A{names}")})
    with recorded(1 << 20) as found:
        clause.run(made)
    (blocks,) = found
    return blocks[8:, R_ELAPSED] / blocks[8:, R_ALLOWED]


class _Costly(Timed):
    """A query whose conditions read a column v, and which parts of the work a row leaves out (less1 to less3)."""

    def __init__(self, nanos: int, wave: np.ndarray, query: Query) -> None:
        super().__init__(nanos, FIFO, "thread", query)
        self.wave = wave

    def table(self, rows: Stream, history: list[dict] | None = None) -> pa.Table:
        table, values = super().table(rows, history), np.random.default_rng(6).random(len(rows.ts))
        own = {"v": values, **{f"less{part}": self.wave < part for part in (1, 2, 3)}}
        for i, (name, text) in enumerate(self.plan.inputs):
            if (column := text.strip("() ")) in own:
                table = table.set_column(i, name, pa.array(own[column]))
        return table


# -- the report -------------------------------------------------------------------------------------------------------


def _line(shares: Shares) -> str:
    return "  ".join(f"{a:.2f}/{b:.2f}" for a, b in shares)


def run(rows: int, figures: str) -> dict:
    """All experiments, by counted clocks and by the thread's; prints tables, draws figures into the folder ``figures``."""
    from tests.benchmarks import budget_figures as draw

    some, found, folder = min(rows, 60_000), {}, Path(figures)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("Q1", "Q5"):
        of = subject(name, some)
        for clock in ("counted", "thread"):
            print(f"\n{name}, {clock} clock: share of {len(of.recall.all):,} match points / {len(of.recall.bundles):,} bundles found at {', '.join(f'{t / 1000:g}' for t in TIMES)} us a row")
            lines = found[f"{name}, {clock}"] = curves(of, clock)
            for order, shares in lines.items():
                print(f"  {order:<22}{_line(shares)}")
            print("  " + ("; ".join(flaws(lines)) or "the shapes of Figures 9 and 10"))
        for order, pairs in sketched(of, "counted").items():
            print(f"  {order:<22}SKETCH AUTO 800 finds at most {max(a - b for a, b in pairs):.3f} of the bundles less")
    draw.times({name: lines for name, lines in found.items()}, [t / 1000 for t in TIMES], folder / "budget_time.png")
    for name, pairs in proxies(min(rows, 5_000), "counted").items():
        print(f"\n{name}: bundles by all runs, proxies  " + "  ".join(f"{a:.2f} {b:.2f}" for a, b in pairs))
    for changing in (True, False):
        print(f"\nDays 2 to 5, AS PUBLISHED, {'words lack other letters from day 3 on' if changing else 'no change'}: match points / bundles")
        for label, shares in days(min(rows, 20_000), changing, "counted").items():
            print(f"  {label:<18}{_line(shares)}")
    for nanos in (5_000, 10_000):
        ratios = drifting(min(rows, 200_000), nanos)
        found[f"drift, {nanos}"] = [float(x) for x in np.quantile(ratios, (0.5, 0.95, 1.0))]
        print(f"\nChecks that become dearer by a factor of 3 in waves, {nanos / 1000:g} us a row, thread clock: measured over allowed time of {len(ratios):,} blocks, median {np.median(ratios):.3f}, 95 % within {np.quantile(ratios, 0.95):.3f}, at most {ratios.max():.2f}")
    return found
