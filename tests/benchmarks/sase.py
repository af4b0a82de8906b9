"""The experiments of SASE+ (SIGMOD 2008, section 6) in memory, one thread: what each costs, with a figure like its Figure 8.

Two symbols; prices rise by 1 with probability p, fall or stay with (1 - p) / 2 each; volumes are uniform in 1..1000.
The query is the paper's template ``a+ b``: a[1].price % 500 = 0, an iterator predicate on a[i], b.volume < 150, within W rows.
Strategies: s2 is contiguity in the partition, s3 is skip till next match.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.core.effort import Limits
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS
from tests.papers.backtracking import backtrack
from tests.support.caught import without_catching

STRATEGIES = {"s2": "STRICT CONTIGUITY", "s3": "SKIP TILL NEXT MATCH"}
# the last: p3 with a third component that few runs reach
PREDICATES = {
    "p1": "", "p2": " AND price > PRIOR(LAST(A.price))", "p3": " AND price > PRIOR(MIN(A.price))", "avg": " AND price > PRIOR(AVG(A.price))",
    "p3*": " AND price > PRIOR(MIN(A.price)), C AS price > FIRST(A.price) AND price < LAST(A.price)",
}
# mean lengths of matches in section 6.1, W = 500 and p = 0.7
LENGTHS = {"p1s3": 250, "p2s2": 4.5, "p2s3": 140}
GOALS = {"p2": 5.5e6, "avg": 3.3e6}
WINDOWS = (500, 1000, 1500, 2000)
SMALLEST_SHARE = 4  # experiments 5 and 6 take one in so many of the rows
LEAST_ROWS = 2 * SMALLEST_SHARE * max(WINDOWS)
CLAUSE = """PARTITION BY symbol ORDER BY ts MEASURES {measure} AS n {skip} EVENT SELECTION {strategy} ALL MATCHES
    PATTERN (A+ B{more}) WINDOW {window} ROWS DEFINE A AS (count(A.*) > 1 OR price % 500 = 0){predicate}, B AS volume < 150"""


def stream(rows: int, p: float, seed: int = 1) -> dict[str, np.ndarray]:
    """The paper's generator, sorted by symbol and time."""
    rng = np.random.default_rng(seed)
    parts = []
    for symbol in range(2):
        u = rng.random(rows // 2)
        step = np.where(u < p, 1, np.where(u < (1 + p) / 2, -1, 0))
        price = np.cumsum(step) + rng.integers(0, 1000) + 1
        parts.append((np.full(rows // 2, symbol), np.arange(rows // 2), price, rng.integers(1, 1001, rows // 2)))
    return dict(zip(("symbol", "ts", "price", "volume"), map(np.concatenate, zip(*parts))))


def measure(columns: dict[str, np.ndarray], predicate: str, strategy: str, window: int, *, skip: str = "", merging: bool = True, output: str = "COUNT(*)") -> dict:
    """Seconds (median of 3), matches (rows of output) and the sum of their lengths (for ``output`` MATCH_COUNT(): of the numbers;
    for MATCH_GRAPH(): of the graphs' nodes)."""
    query = _query(columns, predicate, strategy, window, skip, output)
    runs = [_run(*query, merging) for _ in range(4)]
    return _figures(runs[-1], float(np.median([run["seconds"] for run in runs[1:]])), columns)


def once(columns: dict[str, np.ndarray], predicate: str, strategy: str, window: int) -> dict:
    """Matches and the sum of their lengths, by one run."""
    run = _run(*_query(columns, predicate, strategy, window, "", "COUNT(*)"), True)
    return _figures(run, run["seconds"], columns)


def in_turn(columns: dict[str, np.ndarray], predicate: str, strategy: str, window: int, output: str) -> tuple[dict, dict]:
    """The same with and without merging, which take turns: the least processor time of the thread in so many runs as last a few
    seconds."""
    query = _query(columns, predicate, strategy, window, "", output)
    pairs, begin = [], time.perf_counter()
    while len(pairs) < 3 or (len(pairs) < 9 and time.perf_counter() - begin < 8):
        pairs.append(tuple(_run(*query, merging) for merging in (True, False)))
    on, off = (_figures(runs[-1], min(run["thread"] for run in runs[1:]), columns) for runs in zip(*pairs))
    return on, off


def _query(columns: dict[str, np.ndarray], predicate: str, strategy: str, window: int, skip: str, output: str) -> tuple:
    """The prepared plan and its input."""
    text = CLAUSE.format(
        measure=output, skip=skip, strategy=STRATEGIES[strategy], window=window, predicate=PREDICATES[predicate], more=" C" if predicate == "p3*" else ""
    )
    plan = without_catching(make_plan(parse_clause(text)))
    columns = columns | {"price % 500 = 0": columns["price"] % 500 == 0}
    inputs = {name: pa.array(columns[sql]) if sql != "NULL" else pa.nulls(len(columns["ts"]), pa.string()) for name, sql in plan.inputs}
    letters = {"B": columns["volume"] < 150}
    inputs[LETTERS] = pa.array(sum(letters[plan.variables[v]].astype(np.int64) << bit for v, bit, _ in plan.letters))
    table = pa.table(inputs)
    return prepare(plan, table.schema), table


def _run(prepared, table: pa.Table, merging: bool) -> dict:
    begin, thread = time.perf_counter(), time.thread_time()
    engine = engine_for(prepared, limits=Limits(merging=merging))
    out = list(match_batches(engine, table.to_batches(max_chunksize=10_000)))
    taken = {"seconds": time.perf_counter() - begin, "thread": time.thread_time() - thread}
    return {**taken, "matches": sum(t.num_rows for t in out), "rows": sum(_total(t.column(t.num_columns - 1)) for t in out), "looks": engine.task.looks}


def _figures(run: dict, seconds: float, columns: dict[str, np.ndarray]) -> dict:
    events = len(columns["ts"])
    return {"seconds": seconds, "events_per_s": events / seconds, "matches": run["matches"], "rows": run["rows"], "looks": run["looks"] / events}


def _total(column: pa.ChunkedArray) -> int:
    """The sum of a column, or of its lists' lengths."""
    return int(pc.sum(pc.list_value_length(column) if pa.types.is_list(column.type) else column).as_py())


def too_few(rows: int) -> str:
    """Why so many rows give no meaningful table; "" if they do."""
    return f"sase has windows of {max(WINDOWS):,} rows, and these rows give it {rows:,} of at least {LEAST_ROWS:,}" if rows < LEAST_ROWS else ""


def run(rows: int, figures: str) -> dict:
    """Experiments 1 to 6; prints tables, draws figures into the folder ``figures``."""
    folder = Path(figures)
    folder.mkdir(parents=True, exist_ok=True)
    results = {}
    for p in (0.7, 0.55):
        columns = stream(rows, p)
        results[f"1 p={p}"] = _first(columns, p, folder)
    columns = stream(rows // 2, 0.7)
    results["2"] = _second(columns, folder)
    results["3, 4"] = _results_kinds(columns, folder)
    results["5, 6"] = _merging(columns, folder)
    for p in (0.7, 0.55):
        results[f"5, 6 runs p={p}"] = _side_by_side(stream(rows // SMALLEST_SHARE, p), p, folder)
    results["tables"] = _tables(stream(rows, 0.7))
    results["many"] = _many()
    return results


def figure_8d(rows: int) -> dict:
    """Experiment 3: all results by all runs at once, by the walk, and by a plain backtracker; prints a table.

    The runs at once return MATCH_GRAPH(), and the walk lists the matches. The backtracker is compiled for the query and only counts
    matches, so its speed is not comparable. Runs at once read each row once. The walk does not count what it reads.
    """
    columns = stream(rows, 0.7)
    print(f"\nFigure 8d, W = 500, {len(columns['ts']):,} events, M events/s; rows that the backtracker reads for each event")
    print(f"{'':<8}{'at once':>10}{'walk':>10}{'backtracker':>13}{'reads':>9}{'matches':>12}")
    found = {}
    for name in ("p1s3", "p2s2", "p2s3", "p3s2", "p3s3", "p3*s2", "p3*s3"):
        predicate, strategy = name[:-2], name[-2:]
        at_once = measure(columns, predicate, strategy, 500, output="MATCH_GRAPH()")
        walked = measure(columns, predicate, strategy, 500)
        arguments = (columns, name[:2], strategy == "s3", 500, "*" in name)
        counts, seconds = backtrack(*arguments), []
        for _ in range(3):
            begin = time.perf_counter()
            backtrack(*arguments)
            seconds.append(time.perf_counter() - begin)
        assert (counts.matches, counts.rows) == (walked["matches"], walked["rows"])
        plain = len(columns["ts"]) / float(np.median(seconds))
        reads = counts.reads / len(columns["ts"])
        found[name] = {"at_once": at_once["events_per_s"], "walk": walked["events_per_s"], "backtracker": plain, "reads": reads, "matches": counts.matches}
        print(f"{name:<8}{at_once['events_per_s'] / 1e6:>10.2f}{walked['events_per_s'] / 1e6:>10.2f}{plain / 1e6:>13.2f}{reads:>9.2f}{counts.matches:>12,}")
    return found


def _tables(columns: dict[str, np.ndarray]) -> dict:
    """What the paper's Tables 2 and 3 list: runs at each event and lengths of matches at W = 500; of runs side by side, how many
    are merged, and how many rows the shared buffer takes up for each event, by W."""
    print(f"\nTable 2, W = 500, {len(columns['ts']):,} events{'runs an event':>16}{'mean length':>13}{'paper':>8}")
    found: dict[str, list] = {}
    for name in ("p1s2", "p1s3", "p2s2", "p2s3", "p3s2", "p3s3"):
        apart = measure(columns, name[:2], name[2:], 500, merging=False, output="MATCH_GRAPH()")
        every = measure(columns, name[:2], name[2:], 500)
        length = every["rows"] / max(every["matches"], 1)
        print(f"{name:<37}{apart['looks'] - 1:>16.3f}{length:>13.1f}{LENGTHS.get(name, ''):>8}")
        found[name] = [apart["looks"] - 1, length]
    print("\nTable 3: runs merged in percent, nodes of the shared buffer an event, by W")
    for name in ("p1s3", "p2s3", "p3s3"):
        pairs = [[measure(columns, name[:2], name[2:], w, merging=m, output="MATCH_GRAPH()") for m in (True, False)] for w in WINDOWS]
        merged = [1 - on["looks"] / off["looks"] for on, off in pairs]
        nodes = [on["rows"] / len(columns["ts"]) for on, _ in pairs]
        print(f"{name:<8}" + "".join(f"{100 * m:>7.0f} %" for m in merged) + "".join(f"{n:>9.2f}" for n in nodes))
        found[f"{name} merged"] = [merged, nodes]
    return found


def _first(columns: dict[str, np.ndarray], p: float, folder: Path) -> dict:
    print(f"\nExpt 1, W = 500, p = {p}, {len(columns['ts']):,} events, all matches")
    print(f"{'query':<8}{'M events/s':>12}{'goal':>7}{'matches':>10}{'mean length':>13}{'paper':>8}")
    found = {}
    for predicate in ("p1", "p2", "p3", "avg"):
        for strategy in STRATEGIES:
            r = measure(columns, predicate, strategy, 500)
            found[predicate + strategy] = r
            goal = f"{GOALS[predicate] / 1e6:.1f}" if predicate in GOALS else ""
            print(f"{predicate + strategy:<8}{r['events_per_s'] / 1e6:>12.2f}{goal:>7}{r['matches']:>10,}{r['rows'] / max(r['matches'], 1):>13.1f}"
                  f"{LENGTHS.get(predicate + strategy, '') if p == 0.7 else '':>8}")
    _bars(folder / f"figure_8a_p{p}.png", {n: r["events_per_s"] for n, r in found.items()}, "events/s", f"Expt 1, p = {p}")
    return found


def _second(columns: dict[str, np.ndarray], folder: Path) -> dict:
    print(f"\nExpt 2, {len(columns['ts']):,} events: events/s as a ratio to W = 500, and ns for each row of output")
    found, lines = {}, {}
    for name in ("p1s3", "p2s2", "p2s3", "p3s3"):
        measured = [measure(columns, name[:2], name[2:], w) for w in WINDOWS]
        found[name] = measured
        x, y = np.array([m["rows"] for m in measured], dtype=float), np.array([m["seconds"] for m in measured])
        lines[name] = (x, y)
        ratios = "".join(f"{m['events_per_s'] / measured[0]['events_per_s']:>8.2f}" for m in measured)
        print(f"{name:<8}{ratios}   {_fit(x, y)}rows {x[0]:,.0f} to {x[-1]:,.0f}")
    _lines(folder / "figure_8b.png", {n: (np.array(WINDOWS), np.array([m["events_per_s"] for m in f])) for n, f in found.items()},
           "W (rows)", "events/s", "Expt 2: window size")
    _lines(folder / "figure_8c.png", lines, "output complexity (rows of all matches)", "seconds", "Expt 2: cost against output")
    return found


def _fit(x: np.ndarray, y: np.ndarray) -> str:
    """The straight line through cost and output, where the output grows."""
    if x[0] == x[-1]:
        return "the output does not grow with W, "
    slope, offset = np.polyfit(x, y, 1)
    fit = 1 - float(((y - slope * x - offset) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    return f"{slope * 1e9:.1f} ns a row, R^2 of the straight line {fit:.3f}, "


def _results_kinds(columns: dict[str, np.ndarray], folder: Path) -> dict:
    print("\nExpt 3 and 4, W = 500: all results and non-overlapping results, M events/s")
    found = {}
    for name in ("p1s3", "p2s2", "p2s3", "p3s2", "p3s3", "p3*s2", "p3*s3"):
        predicate, strategy = name[:-2], name[-2:]
        every = measure(columns, predicate, strategy, 500)
        apart = measure(columns, predicate, strategy, 500, skip="AFTER MATCH SKIP PAST LAST ROW")
        found[name] = {"all": every, "non-overlapping": apart}
        print(f"{name:<8}{every['events_per_s'] / 1e6:>10.2f}{apart['events_per_s'] / 1e6:>10.2f}   matches {every['matches']:,} and {apart['matches']:,}")
    _bars(folder / "figure_8d.png", {n: f["all"]["events_per_s"] for n, f in found.items()}, "events/s", "Expt 3: all results")
    _bars(folder / "figure_8e.png", {n: f["non-overlapping"]["events_per_s"] for n, f in found.items()}, "events/s", "Expt 4: non-overlapping")
    return found


def _merging(columns: dict[str, np.ndarray], folder: Path) -> dict:
    print("\nExpt 5 and 6: gain of the table of completion ends and the memo of failures, by W")
    found, lines = {}, {}
    for name in ("p1s3", "p2s3", "p3s3", "p3*s3"):
        predicate, strategy = name[:-2], name[-2:]
        gains = []
        for window in WINDOWS:
            on, off = (measure(columns, predicate, strategy, window, merging=m) for m in (True, False))
            assert on["matches"] == off["matches"]
            gains.append(off["seconds"] / on["seconds"])
        found[name] = gains
        lines[name] = (np.array(WINDOWS), np.array(gains))
        print(f"{name:<8}" + "".join(f"{g:>8.2f}" for g in gains))
    _lines(folder / "figure_8g.png", lines, "W (rows)", "gain", "Expt 6: gain of the tables")
    return found


def _side_by_side(columns: dict[str, np.ndarray], p: float, folder: Path) -> dict:
    """The paper merges runs of equal value vectors and gains 1.4 to 2.1 on p1s3, p2s3 and p3s3: in time, and in runs looked at for
    each event, which is all that merging can save."""
    print(f"\nExpt 5 and 6, runs side by side, p = {p}: M events/s with merging by W, its gain in time, and in runs looked at for each event")
    found, lines = {}, {}
    for output in ("MATCH_GRAPH()", "MATCH_COUNT()"):
        for name in ("p1s3", "p2s3", "p3s3"):
            if (name, output) == ("p1s3", "MATCH_COUNT()"):
                continue  # dynamic programming, no runs
            pairs = [in_turn(columns, name[:2], name[2:], w, output) for w in WINDOWS]
            assert all(on["matches"] == off["matches"] for on, off in pairs)
            gains = [off["seconds"] / on["seconds"] for on, off in pairs]
            found[f"{name} {output}"] = {"time": gains, "looks": [(on["looks"], off["looks"]) for on, off in pairs]}
            lines[f"{name} {output}"] = (np.array(WINDOWS), np.array(gains))
            rates = "".join(f"{on['events_per_s'] / 1e6:>7.2f}" for on, _ in pairs)
            looks = "".join(f"{off['looks'] / on['looks']:>6.2f}" for on, off in pairs)
            print(f"{name} {output:<14}{rates}  time" + "".join(f"{g:>6.2f}" for g in gains) + f"  runs{looks}  ({pairs[-1][0]['looks']:.3f} an event)")
    _lines(folder / f"figure_8g_runs_p{p}.png", lines, "W (rows)", "gain", f"Expt 6: gain of merging, p = {p}")
    return found


def _bars(path: Path, values: dict[str, float], label: str, title: str) -> None:
    figure, axes = _axes(label, title)
    axes.bar(list(values), list(values.values()))
    axes.set_yscale("log")
    figure.savefig(path, dpi=120)


def _lines(path: Path, series: dict, x_label: str, label: str, title: str) -> None:
    figure, axes = _axes(label, title)
    for name, (x, y) in series.items():
        axes.plot(x, y, marker="o", label=name)
    axes.set_xlabel(x_label)
    axes.legend()
    figure.savefig(path, dpi=120)


def _axes(label: str, title: str):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.set_ylabel(label)
    axes.set_title(title)
    return figure, axes


def _many(rows: int = 100_000) -> dict:
    """More matches than can be listed: their number, and the first of them."""
    kind = np.random.default_rng(1).integers(0, 3, rows)
    text = """ORDER BY id MEASURES {} EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B C) DEFINE A AS kind = 0, B AS kind = 1, C AS kind = 2"""
    found = {}
    for name, measures in (("number", "LAST(id) AS c, MATCH_COUNT() AS n"), ("first matches", "A.id AS a, B.id AS b, C.id AS c")):
        plan = make_plan(parse_clause(text.format(measures)))
        columns = {column: pa.array(np.arange(rows)) for column, _ in plan.inputs}
        columns[LETTERS] = pa.array(sum((kind == v).astype(np.int64) << bit for v, bit, _ in plan.letters))
        table = pa.table(columns)
        prepared = prepare(plan, table.schema)
        for _ in range(2):  # the second one is warm
            start = time.perf_counter()
            tables = match_batches(engine_for(prepared), table.to_batches())
            first = next(tables)
            if name == "number":
                total = int(pc.sum(pa.chunked_array([t.column("__l1").cast(pa.float64()) for t in (first, *tables)])).as_py())
                found["matches"] = total
            found[name] = time.perf_counter() - start
    print(f"\nA B C over {rows:,} rows: {found['matches']:.3g} matches; counted in {found['number'] * 1e3:.0f} ms, the first "
          f"{first.num_rows:,} listed in {found['first matches'] * 1e3:.0f} ms")
    return found
