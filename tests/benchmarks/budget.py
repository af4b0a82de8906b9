"""Matching under a budget (RC-ACEP, VLDB 2016, Figures 9 to 18) in memory, one thread: what share of match points and bundles is
found against the checks a row may use, in which order; the same against the time between rows; what a check costs; what proxies,
and a sketch of the history, lose and save; how a history ages.

The streams are the paper's kind: letters at random, and words planted among them that lack a letter; and the stand-ins of its
tweets and vehicles, with its Q1 and Q5. A history is learnt from one stream and used on another; of a stream that drifts the letter
that planted words lack is another one in the second half.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.budget.best_effort import BestEffort
from sparkcep.engine.factory import engine_for, prepare
from sparkcep.kernels.budget.layout import FIRST_IN, PLAIN
from sparkcep.kernels.frontier.run_classes import F_USED
from sparkcep.plan.build import make_plan
from sparkcep.plan.extend.budget import HISTORY_COLUMN
from sparkcep.plan.plan import LETTERS
from tests.support import acep_data

FIVE = "A B C D E"
WINDOW = 14
BUDGETS = (1, 2, 4, 8, 16)
INTERVALS = (1, 2, 8)
LENGTHS = (4, 8, 16, 32)  # letters of a pattern
HISTORY = pa.list_(pa.struct([
    ("pattern", pa.string()), ("place", pa.int32()), ("errors", pa.float64()), ("remaining", pa.int32()), ("idle", pa.int32()), ("visits", pa.int64()), ("points", pa.int64()),
    ("bundles", pa.list_(pa.int32())),
]))  # fmt: skip
VECTOR = ("place", "errors", "remaining", "idle", "visits", "points", "starts")


class Stream(NamedTuple):
    """Rows by partition and time: ``id``, ``ts`` int64, and of each variable whether it may take a row."""

    id: np.ndarray
    ts: np.ndarray
    taken: dict[str, np.ndarray]


class Query(NamedTuple):
    """A clause with places for its measures and its report, and the size of its window."""

    text: str
    window: int


LETTERS_QUERY = Query(
    f"ORDER BY ts {{measures}} PATTERN ({FIVE}) WINDOW {WINDOW} APPROX 1 {{report}} DEFINE {', '.join(f'{v} AS letter = {v!r}' for v in 'ABCDE')}", WINDOW
)


def stream(rows: int, seed: int, noise: str = "ab", lacking: str = "a", density: float = 0.4) -> Stream:
    """Letters a to e, or none: noise at random, and every 40 rows the word abcde without a letter. ``lacking``: the letters that
    words lack, one in each part of the stream."""
    rng = np.random.default_rng(seed)
    letters = np.where(rng.random(rows) < density, rng.choice(list(noise), rows), ".")
    for at in range(20, rows - 10, 40):
        word = "abcde".replace(lacking[at * len(lacking) // rows], "")
        for i, letter in enumerate(word):
            letters[at + 2 * i] = letter
    return Stream(np.zeros(rows, dtype=np.int64), np.arange(rows), {v: letters == v.lower() for v in "ABCDE"})


# -- the paper's queries ----------------------------------------------------------------------------------------------

_CHARTS, _NEWS = ("b", "d", "w", "r", "h", "t", "c"), ("g", "e", "u")
_Q1 = {"S": "S", "AAPL": "a", "E": "E", **{f"K{x}": x for x in _CHARTS}, **{f"N{x}": x for x in _NEWS}}
_PLACES = {"DOWNTOWN": "downtown", "DEPOT": "depot", "AIRPORT": "airport"}
Q1 = Query(
    f"ORDER BY ts {{measures}} PATTERN ((S AAPL ({' | '.join(f'K{x}' for x in _CHARTS)}) E){{{{2,}}}} (S AAPL ({' | '.join(f'N{x}' for x in _NEWS)}) E){{{{2,}}}}) WINDOW 100 APPROX 2 {{report}} "
    f"DEFINE {', '.join(f'{v} AS letter = {x!r}' for v, x in _Q1.items())}", 100,
)  # fmt: skip
Q5 = Query(
    "PARTITION BY id ORDER BY ts {measures} PATTERN (LOADING PARKED{{5,}} (DOWNTOWN | DEPOT | AIRPORT) | PARKED{{5,}} FULL_UP (DOWNTOWN | DEPOT | AIRPORT)) WINDOW 300 APPROX 2 {report} "
    "DEFINE LOADING AS power > 2.5, PARKED AS parked, FULL_UP AS power = 0, DOWNTOWN AS place = 'downtown', DEPOT AS place = 'depot', AIRPORT AS place = 'airport'", 300,
)  # fmt: skip


def tweets(rows: int, seed: int) -> Stream:
    """Letters of Q1 and others at random, and its words of which each lacks two letters."""
    rng, words = np.random.default_rng(seed), []
    for _ in range(rows // 160):
        word = [x for kinds in (_CHARTS, _CHARTS, _NEWS, _NEWS) for x in ("S", "a", str(rng.choice(kinds)), "E")]
        words.append([x for i, x in enumerate(word) if i not in rng.choice(16, 2, replace=False)])
    columns, _ = acep_data.tweets(rows // 4, words, 130, seed)
    return Stream(np.zeros(len(columns["ts"]), dtype=np.int64), columns["ts"], {v.upper() if v in ("S", "E") else v: columns["letter"] == x for v, x in _Q1.items()})


def vehicles(rows: int, seed: int) -> Stream:
    """Events of four vehicles at random, and words of Q5 of which each lacks a letter or two."""
    rng, words = np.random.default_rng(seed), []
    for _ in range(rows // 90):
        vehicle, place = int(rng.integers(0, 4)), str(rng.choice(list("dca")))
        word = ["l", *"ppppp", place] if rng.random() < 0.5 else [*"ppppp", "n", place]
        words.append([(vehicle, x, None) for i, x in enumerate(word) if i not in rng.choice(7, 2, replace=False)])
    columns, _ = acep_data.vehicles(rows // 4, words, 60, 4, seed)
    order = np.lexsort((columns["ts"], columns["id"]))
    some = {name: values[order] for name, values in columns.items()}
    taken = {"LOADING": some["power"] > 2.5, "PARKED": some["parked"], "FULL_UP": some["power"] == 0, **{v: some["place"] == place for v, place in _PLACES.items()}}
    return Stream(some["id"].astype(np.int64), some["ts"], taken)


# -- runs -------------------------------------------------------------------------------------------------------------

STREAMS: dict[str, dict] = {
    "a missing, noise a b": {},
    "c missing, noise a b": {"lacking": "c"},
    "e missing, noise d e": {"lacking": "e", "noise": "de"},
    "a missing, noise of all": {"noise": "abcde", "density": 0.3},
    "drifting from a to e": {"lacking": "ae", "noise": "abde"},
}
# streams whose history is one of another time, or of another stream altogether
AGED: dict[str, tuple[dict, dict]] = {
    "a to e, learnt of a": ({"noise": "abde"}, {"lacking": "ae", "noise": "abde"}),
    "e missing, learnt of a": ({"noise": "abde"}, {"lacking": "e", "noise": "abde"}),
    "a c e b in turn, learnt of c": ({"lacking": "c", "noise": "abcde"}, {"lacking": "aceb", "noise": "abcde"}),
    "a missing, noise a b, learnt of e missing, noise d e": ({"lacking": "e", "noise": "de"}, {}),
}
FIFO, LEAST_COST, PROMISING = "first in, first out", "least cost first", "most promising"
ORDERS = (FIFO, LEAST_COST, *(f"history g = {g}" for g in INTERVALS), PROMISING)


class Clause:
    """A query with some report, prepared for its streams. ``used``: the order of a history, if one is used. ``more``: REFILL."""

    def __init__(self, report: str, used: str = "", query: Query = LETTERS_QUERY, sketch: str = "", more: str = "") -> None:
        measures = "" if "HISTORY" in report else "MEASURES LAST(ts) AS point"
        using = {"": "", "published": f" USING HISTORY h{more} AS PUBLISHED{sketch}", "promising": f" USING HISTORY h{more}{sketch}"}[used]
        self.plan = make_plan(parse_clause(query.text.format(measures=measures, report=report + using)))

    def table(self, rows: Stream, history: list[dict] | None = None) -> pa.Table:
        size = len(rows.ts)
        columns = {}
        for name, text in self.plan.inputs:
            if name == HISTORY_COLUMN:
                columns[name] = pa.array([history, *[None] * (size - 1)], type=HISTORY)
            else:
                columns[name] = pa.array(rows.id if text.strip("() ") == "id" else rows.ts)
        bits = np.zeros(size, dtype=np.int64)
        for variable, bit, _ in self.plan.letters:
            bits |= rows.taken[self.plan.variables[variable]].astype(np.int64) << bit
        columns[LETTERS] = pa.array(bits)
        return pa.table(columns)

    def run(self, rows: Stream, history: list[dict] | None = None, repeats: int = 1) -> tuple[list[dict], float, int]:
        """(rows of output, the least seconds of a processor, checks)."""
        table = self.table(rows, history)
        prepared = prepare(self.plan, table.schema)
        least, out, checks = float("inf"), [], 0
        for _ in range(repeats):
            engine = engine_for(prepared)
            begin = time.process_time()  # the machine may be shared
            tables = [t for batch in table.to_batches() for t in engine.push(batch)]
            tables += engine.finish()
            least = min(least, time.process_time() - begin)
            out = [row for t in tables for row in t.to_pylist()]
            checks = engine.task.totals.checks
        return out, least, checks

    def points(self, rows: Stream, history: list[dict] | None = None) -> set[int]:
        """The times of the match points."""
        return {row[dict(self.plan.outputs)["point"]] for row in self.run(rows, history)[0]}


def learnt(rows: Stream, runs: str, intervals: int, query: Query = LETTERS_QUERY, budget: str = "", used: list[dict] | None = None, explored: str = "") -> list[dict]:
    """The history of a stream, of a run with a budget if there is one, which may be ``explored``."""
    clause = Clause(f"MATCH HISTORY OF {runs} MATCHES INTERVALS {intervals} {budget}", "promising" if used else "", query, explored)
    merged: dict[tuple, dict] = {}
    for row in clause.run(rows, used)[0]:
        one = dict(zip(VECTOR, list(row.values())[-len(VECTOR) :]))
        known = merged.setdefault(tuple(one[name] for name in VECTOR[:4]), {**one, "visits": 0, "points": 0, "starts": set()})
        known["visits"] += one["visits"]
        known["points"] += one["points"]
        known["starts"].update(one["starts"])
    number = {start: i for i, start in enumerate(sorted({start for row in merged.values() for start in row["starts"]}))}
    # the last bundles, where there are more than the paper keeps
    first = max(len(number) - 512, 0)
    kept = [{**row, "bundles": [number[start] - first for start in sorted(row["starts"]) if number[start] >= first]} for row in merged.values()]
    return [{"pattern": None, **{name: row[name] for name in (*VECTOR[:6], "bundles")}} for row in kept]


def bundles_of(points: set[int], rows: Stream, window: int) -> list[set[int]]:
    """Match points that are at most the window apart, by partition."""
    at, groups, last = np.argsort(rows.ts), [], {}
    for point in sorted(points):
        key = int(rows.id[at[point]])
        if key in last and point - max(last[key]) <= window:
            last[key].add(point)
        else:
            last[key] = {point}
            groups.append(last[key])
    return groups


@contextmanager
def tried_in(order: int) -> Iterator[None]:
    """Inside, candidates are tried in an order of which no history decides."""
    BestEffort.order = np.int64(order)
    try:
        yield
    finally:
        BestEffort.order = np.int64(PLAIN)


class Recall:
    """What share of the match points, and of the bundles, of a stream is found in some order. ``histories`` by their intervals."""

    def __init__(self, rows: Stream, report: str, query: Query, histories: dict[int, list[dict]]) -> None:
        self.rows, self.report, self.query, self.histories = rows, report, query, histories
        # without a budget all reports have the match points of the proxies
        self.all = Clause("PROXY MATCHES", query=query).points(rows)
        self.bundles = bundles_of(self.all, rows, query.window)

    def share(self, points: set[int]) -> tuple[float, float]:
        return len(points) / len(self.all), sum(bool(b & points) for b in self.bundles) / len(self.bundles)

    def of(self, order: str, checks: int, sketch: str = "") -> tuple[float, float]:
        used = "published" if order.startswith("history") else "promising" if order == PROMISING else ""
        history = self.histories[int(order.rpartition(" ")[2]) if used == "published" else max(self.histories)] if used else None
        with tried_in(FIRST_IN if order == FIFO else PLAIN):
            return self.share(Clause(f"{self.report} BUDGET {checks} CHECKS", used, self.query, sketch).points(self.rows, history))


def run(rows: int, figures: str) -> dict:
    """All experiments over streams of ``rows`` rows; prints tables, draws figures into the folder ``figures``."""
    from tests.benchmarks import budget_figures as draw

    some = min(rows, 20_000)
    found = {"recall": _recall(some), "checks": _checks(min(rows, 200_000)), "arrival": _arrival(some), "sketches": _sketches(some), "memory": _memory(some), "proxies": _proxies(some), "held": _held(some), "days": _days(some)}
    folder = Path(figures)
    folder.mkdir(parents=True, exist_ok=True)
    draw.recall(found["recall"], BUDGETS, folder / "budget_recall.png")
    draw.arrival(found["arrival"], folder / "budget_arrival.png")
    draw.memory(found["memory"], folder / "budget_memory.png")
    draw.held(found["held"], folder / "budget_held.png")
    draw.days(found["days"], folder / "budget_days.png")
    return found


def subjects(rows: int) -> Iterator[tuple[str, Recall]]:
    """All streams with their histories, for all reports."""
    for report, runs in (("ALL MATCHES", "ALL"), ("PROXY MATCHES", "PROXY")):
        for name, (teaching, tested) in {**{name: (how, how) for name, how in STREAMS.items()}, **AGED}.items():
            taught = stream(rows, 1, **teaching)
            yield f"{report}, {name}", Recall(stream(rows, 2, **tested), report, LETTERS_QUERY, {g: learnt(taught, runs, g) for g in INTERVALS})
    for name, query, make in (("Q1", Q1, tweets), ("Q5", Q5, vehicles)):
        taught = make(rows, 1)
        yield f"PROXY MATCHES, {name}", Recall(make(rows, 2), "PROXY MATCHES", query, {g: learnt(taught, "PROXY", g, query) for g in INTERVALS})


def _recall(rows: int) -> dict:
    """B1 (Figures 9 and 10): recall against checks a row, and what the order that is most promising loses against the best of the
    others."""
    found: dict = {}
    for name, recall in subjects(rows):
        print(f"\n{name}: share of {len(recall.all):,} match points / {len(recall.bundles):,} bundles found at {', '.join(map(str, BUDGETS))} checks a row")
        shares = {order: [recall.of(order, checks) for checks in BUDGETS] for order in ORDERS}
        for order, some in shares.items():
            print(f"  {order:<22}" + "  ".join(f"{a:.2f}/{b:.2f}" for a, b in some))
        lost = [max(shares[order][i][j] for order in ORDERS[1:-1]) - shares[PROMISING][i][j] for j in (0, 1) for i in range(len(BUDGETS))]
        half = len(BUDGETS)
        print(f"  loses at most          {max(lost[:half]):.3f}/{max(lost[half:]):.3f}")
        found[name] = {**shares, "lost": (max(lost[:half]), max(lost[half:]))}
    own = [some["lost"] for name, some in found.items() if not any(name.endswith(", " + aged) for aged in AGED)]
    print(f"\n{PROMISING}: loses at most {max(a for a, _ in own):.3f} of the match points and {max(b for _, b in own):.3f} of the bundles against the best of the others, anywhere above with a history of the same stream; "
          f"{max(some['lost'][0] for some in found.values()):.3f} and {max(some['lost'][1] for some in found.values()):.3f} with those of others")  # fmt: skip
    for order in ORDERS[2:]:
        pairs = [[(some[other][i][1], some[order][i][1]) for some in found.values() for i in range(half)] for other in (FIFO, LEAST_COST)]
        starved = [b >= 2 * a for a, b in pairs[0] if a < 0.4]
        print(f"{order}: at least twice the bundles of {FIFO} in {sum(starved)} of the {len(starved)} cells where that finds less than 0.4; at most {max(a - b for a, b in pairs[1]):.3f} less than {LEAST_COST}")
    return found


def _checks(rows: int) -> dict:
    """What a check costs, and a row without a budget; growth with the checks of a row."""
    tested, found = stream(rows, 3, noise="abcde", density=0.5), {}
    history = learnt(stream(20_000, 1, noise="abcde", density=0.5), "ALL", 2)
    _, plain, _ = Clause("PROXY MATCHES").run(tested, repeats=3)
    print(f"\n{rows:,} rows, half of them letters; PROXY MATCHES without a budget {plain / rows * 1e6:.3f} us a row")
    for report, used in (("PROXY MATCHES", ""), ("ALL MATCHES", ""), ("ALL MATCHES", "promising"), ("ALL MATCHES", "published")):
        for checks in (1, 4, 16, 64):
            clause = Clause(f"{report} BUDGET {checks} CHECKS", used)
            _, seconds, tried = clause.run(tested, history if used else None, repeats=3)
            found[f"{report}, {checks}, {used}"] = (seconds, tried)
            print(f"  {report:<14} BUDGET {checks:>2} {f'history, {used}' if used else '':<20} {seconds / rows * 1e6:8.3f} us a row {seconds / tried * 1e6:8.3f} us a check")
    return found


def _arrival(rows: int) -> dict:
    """B2 (Figures 9 and 10 as they are drawn): recall against the time between rows. The budget is the greatest that the measured
    time of a row allows, in each order by itself."""
    how = STREAMS["a missing, noise of all"]
    recall = Recall(stream(rows, 2, **how), "ALL MATCHES", LETTERS_QUERY, {g: learnt(stream(rows, 1, **how), "ALL", g) for g in INTERVALS})
    found: dict = {}
    print("\nRecall of bundles against the time between rows (us a row at 1, 2, 4, ... checks)")
    for order in (FIFO, LEAST_COST, "history g = 8", PROMISING):
        used = "published" if order.startswith("history") else "promising" if order == PROMISING else ""
        points = []
        for checks in BUDGETS:
            with tried_in(FIRST_IN if order == FIFO else PLAIN):
                _, seconds, _ = Clause(f"ALL MATCHES BUDGET {checks} CHECKS", used).run(recall.rows, recall.histories[8] if used else None, repeats=3)
            points.append((seconds / rows * 1e6, *recall.of(order, checks)))
        found[order] = points
        print(f"  {order:<22}" + "  ".join(f"{us:.2f} us {b:.2f}" for us, _, b in points))
    return found


def _sketches(rows: int) -> dict:
    """B3 (Figures 12 and 14): recall with and without a sketch of the history, and its size."""
    how = STREAMS["a missing, noise of all"]
    history, found = learnt(stream(rows, 1, **how), "ALL", 8), {}
    recall = Recall(stream(rows, 2, **how), "ALL MATCHES", LETTERS_QUERY, {8: history})
    bundles = len({b for row in history for b in row["bundles"]})
    print(f"\nA history of {len(history)} vectors and {bundles} bundles, {len(history) * (8 + bundles // 8 + 1) / 1024:.0f} KB as counts and maps; match points / bundles at 1, 2, 4 checks")
    for order in ("history g = 8", PROMISING):
        for sketch in ("", " SKETCH AUTO 200", " SKETCH AUTO 400", " SKETCH AUTO 800", " SKETCH (2, 400)", " SKETCH (4, 200)"):
            shares = [recall.of(order, checks, sketch) for checks in (1, 2, 4)]
            found[f"{order}{sketch}"] = shares
            print(f"  {order:<16}{sketch.strip() or 'no sketch':<18}" + "  ".join(f"{a:.3f}/{b:.3f}" for a, b in shares))
    return found


def lettered(rows: int, letters: int) -> tuple[Stream, Query]:
    """Words of so many letters, of which each lacks one, among letters at random; and the query for them."""
    names = [f"V{i}" for i in range(letters)]
    rng = np.random.default_rng(letters)
    which = np.where(rng.random(rows) < 0.3, rng.integers(0, letters, rows), -1)
    for at in range(20, rows - 4 * letters, 6 * letters):
        which[at : at + 2 * letters - 2 : 2] = np.delete(np.arange(letters), rng.integers(0, letters))
    window = 3 * letters
    define = ", ".join(f"{v} AS letter = {v!r}" for v in names)
    query = Query(f"ORDER BY ts {{measures}} PATTERN ({' '.join(names)}) WINDOW {window} APPROX 2 {{report}} DEFINE {define}", window)
    return Stream(np.zeros(rows, dtype=np.int64), np.arange(rows), {v: which == i for i, v in enumerate(names)}), query


@contextmanager
def watched() -> Iterator[list[tuple[int, int]]]:
    """Inside, each search notes how many runs it held at most, and the bytes of all that it worked with."""
    held: list[tuple[int, int]] = []
    count = BestEffort.count

    def noted(self, search) -> None:
        held.append((int(search.state[F_USED]), search.nbytes()))
        count(self, search)

    BestEffort.count = noted  # type: ignore[method-assign]
    try:
        yield held
    finally:
        BestEffort.count = count  # type: ignore[method-assign]


def _held(rows: int) -> dict:
    """B4 (Figure 16): runs that are held at a time, and bytes of the search, against the letters of the pattern, with proxies and
    without. Theorem 2 bounds the first by k + 1 for each place."""
    found: dict = {}
    print("\nLetters of the pattern; runs held at most, KB: all matches with 4 checks a row and with 16, proxies with 4, with all checks; (k + 1) runs for each place")
    for letters in LENGTHS:
        some, query = lettered(rows, letters)
        line = []
        for report in ("ALL MATCHES BUDGET 4 CHECKS", "ALL MATCHES BUDGET 16 CHECKS", "PROXY MATCHES BUDGET 4 CHECKS", "PROXY MATCHES BUDGET 1000000 CHECKS"):
            with watched() as held:
                Clause(report, query=query).run(some)
            line.append((max(runs for runs, _ in held), max(size for _, size in held) / 1024))
        found[letters] = line
        print(f"  {letters:>3}" + "  ".join(f"{runs:>8,} {size:>8,.0f}" for runs, size in line) + f"{3 * letters:>8}")
    return found


def _memory(rows: int) -> dict:
    """B3 (Figures 11 and 13): the size of a history as counts and maps against the letters of the pattern, which a sketch of 800
    cells does not grow with."""
    found: dict = {}
    print("\nLetters of the pattern, vectors of the history, bundles, KB as counts and maps, KB of 800 cells")
    for letters in LENGTHS:
        some, query = lettered(rows, letters)
        history = learnt(some, "PROXY", 8, query)
        bundles = len({b for row in history for b in row["bundles"]})
        size, cells = len(history) * (8 + bundles / 8) / 1024, 800 * (8 + bundles / 8) / 1024
        found[letters] = (len(history), bundles, size, cells)
        print(f"  {letters:>3}{len(history):>8}{bundles:>8}{size:>8.1f}{cells:>8.1f}")
    return found


def _proxies(rows: int) -> dict:
    """B4 (Figures 15 and 16): recall with and without proxies, on one stream at the same budget."""
    found: dict = {}
    print("\nBundles at 1, 2, 4, ... checks, most promising first: all runs, proxies")
    for name, how in STREAMS.items():
        taught, tested = stream(rows, 1, **how), stream(rows, 2, **how)
        shares = [[Recall(tested, f"{runs} MATCHES", LETTERS_QUERY, {8: learnt(taught, runs, 8)}).of(PROMISING, n)[1] for n in BUDGETS] for runs in ("ALL", "PROXY")]
        found[name] = shares
        print(f"  {name:<26}" + "  ".join(f"{a:.2f} {b:.2f}" for a, b in zip(*shares)))
    return found


def _days(rows: int) -> dict:
    """B5 (Figure 17): five days, on the fourth of which words begin to lack another letter. The history of the first day; one
    refreshed daily by what a run with a budget left, with EXPLORE and without; one of the same day."""
    days = [stream(rows, 10 + day, lacking="a" if day < 3 else "e", noise="abde") for day in range(5)]
    found: dict = {}
    print("\nDays 2 to 5, words lack a until day 3, e then; match points / bundles at 1 check with a history of day 1, refreshed daily by so many checks, of the same day")
    kept = {f"{n} check{'s' * (n > 1)}{explored.lower()}": (n, explored) for n in (1, 4) for explored in ("", " EXPLORE")}
    for order in (PROMISING, "history g = 8"):
        first = learnt(days[0], "PROXY", 8)
        lines: dict = {label: [] for label in ("day 1", *kept, "same day")}
        refreshed = dict.fromkeys(kept, first)
        for day in days[1:]:
            for label, history in {"day 1": first, **refreshed, "same day": learnt(day, "PROXY", 8)}.items():
                lines[label].append(Recall(day, "PROXY MATCHES", LETTERS_QUERY, {8: history}).of(order, 1))
            for label, (checks, explored) in kept.items():
                refreshed[label] = learnt(day, "PROXY", 8, budget=f"BUDGET {checks} CHECKS", used=refreshed[label], explored=explored)
        found[order] = lines
        for label, shares in lines.items():
            print(f"  {order:<16}{label:<18}" + "  ".join(f"{a:.2f}/{b:.2f}" for a, b in shares))
        worst = {label: max(same[j] - some[j] for some, same in zip(lines[label], lines["same day"]) for j in (0, 1)) for label in ("day 1", *kept)}
        print(f"  {order}: below a history of the same day by at most " + ", ".join(f"{label} {lost:.3f}" for label, lost in worst.items()))
    return found
