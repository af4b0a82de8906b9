"""The experiments of AFA (VLDB 2010, section 6) in memory, one thread: what each costs, over the paper's synthetic quotes.

A price moves up with probability p and down otherwise, by a change of normal size (0.70, 0.30) cut at 0; some rows are ignorable
(change 0). Q1 is a drop, then k V patterns: downs and ups whose numbers are equal at the end, with W events as the life of each.
``id`` is the time, ``v`` the change.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.changelog.changelog import Changelog
from sparkcep.engine.core.task import Prepared
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.kernels.automaton import register_runs
from sparkcep.kernels.automaton.run_log import S_MOST
from sparkcep.plan.build import make_plan
from tests.property.in_process import inputs

from . import afa_figures, afa_joins

# the automaton of Figure 3, reconstructed from Example 3; IGNORE WHEN as in appendix D
Q1 = """PARTITION BY p ORDER BY id MEASURES {measures} AUTOMATON (REGISTER r1 INT = 0, r2 INT = 0  STATE q0 START, q3 FINAL{ignore}
  ARC a0 FROM q0 TO q1 WHEN v < -{drop}  ARC a1 FROM q1 TO q1 WHEN v < 0 SET r1 = r1 + 1  ARC a2 FROM q1 TO q2 WHEN v < 0 SET r1 = r1 + 1
  ARC a3 FROM q2 TO q2 WHEN v > 0 AND r2 < {k} SET r1 = r1 - 1  ARC a4 FROM q2 TO q1 WHEN v > 0 AND r2 + 1 < {k} SET r1 = r1 - 1, r2 = r2 + 1
  ARC a5 FROM q2 TO q3 WHEN v > 0 AND r2 + 1 = {k} AND r1 = 1 SET r1 = 0, r2 = r2 + 1) WINDOW {window} {changes}"""
# the same as a complex event automaton of two states (CAN): the states of Q1 are a register
CAN = """PARTITION BY p ORDER BY id MEASURES r1 AS r1, r2 AS r2 AUTOMATON (REGISTER s INT = 1, r1 INT = 0, r2 INT = 0  STATE q0 START, q3 FINAL
  ARC a0 FROM q0 TO q1 WHEN v < -{drop}  ARC a1 FROM q1 TO q1 WHEN v < 0 AND s = 1 SET r1 = r1 + 1  ARC a2 FROM q1 TO q1 WHEN v < 0 AND s = 1 SET r1 = r1 + 1, s = 2
  ARC a3 FROM q1 TO q1 WHEN v > 0 AND s = 2 AND r2 < {k} SET r1 = r1 - 1  ARC a4 FROM q1 TO q1 WHEN v > 0 AND s = 2 AND r2 + 1 < {k} SET r1 = r1 - 1, r2 = r2 + 1, s = 1
  ARC a5 FROM q1 TO q3 WHEN v > 0 AND s = 2 AND r2 + 1 = {k} AND r1 = 1 SET r1 = 0, r2 = r2 + 1) WINDOW {window}"""
IGNORED = ", q1 IGNORE WHEN v = 0, q2 IGNORE WHEN v = 0"
# the same for k = 2 as a row pattern: counters are aggregates
AS_PATTERN = """PARTITION BY p ORDER BY id MEASURES count(*) AS n EVENT SELECTION STRICT CONTIGUITY ALL MATCHES PATTERN (S DN+ UP+ DN+ UP* E) WINDOW {window}
  DEFINE S AS v < -0.25, DN AS v < 0, UP AS v > 0, E AS v > 0 AND count(UP.*) + 1 = count(DN.*)"""
# half of all rows begin a computation that lasts as long as its window
LASTING = """PARTITION BY p ORDER BY id MEASURES n AS n AUTOMATON (REGISTER n DOUBLE STATE q2 FINAL ARC FROM q0 TO q1 WHEN v < 0 SET n = v ARC FROM q1 TO q1
  ARC FROM q1 TO q2 WHEN v > 2 - n) WINDOW {window}"""
CHANGED = "CHANGES IN op ARRIVAL BY at REPORT CHANGES {}"
# Q3: 8 arcs in a line, each an up or a down and no register; as templates, of which a row of ARCS FROM makes one of the two present
Q3 = "PARTITION BY p ORDER BY id MEASURES {measures} AUTOMATON (STATE q0 START, q8 FINAL  {arcs}{table}) WINDOW 500 {changes}"
LENGTH = 8
SIZES = ("ALL", 1000, 500, 250, "NONE")  # of SPECULATE
SHARES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5)  # of rows that come late


def quotes(rows: int, p: float, ignorable: float = 0.0, seed: int = 1) -> dict[str, np.ndarray]:
    """``id`` and ``v`` of the generator."""
    rng = np.random.default_rng(seed)
    change = np.maximum(rng.normal(0.70, 0.30, rows), 0.01) * np.where(rng.random(rows) < p, 1, -1)
    return {"id": np.arange(rows), "v": np.where(rng.random(rows) < ignorable, 0.0, change)}


def late(columns: dict[str, np.ndarray], share: float, most: int, seed: int = 2) -> dict[str, np.ndarray]:
    """With the order of arrival: a share of the rows comes up to so many events later."""
    rng = np.random.default_rng(seed)
    rows = len(columns["id"])
    when = columns["id"] + np.where(rng.random(rows) < share, rng.integers(1, most + 1, rows), 0) + rng.random(rows) / 2
    return columns | {"at": np.argsort(np.argsort(when))}


def flips(rows: int, every: int, seed: int = 3) -> list[dict]:
    """Rows of ARCS FROM: at first a direction for each of Q3's arcs, then after each ``every``-th event the other one of a random
    arc; none ever changes for 0."""
    rng = np.random.default_rng(seed)
    ups = (rng.random(LENGTH) < 0.5).tolist()
    found = [{"arc": f"{'u' if up else 'd'}{i}", "op": "insert", "at": -1} for i, up in enumerate(ups)]
    for at in range(every, rows, every) if every else ():
        i = int(rng.integers(LENGTH))
        found.append({"arc": f"{'u' if ups[i] else 'd'}{i}", "op": "delete", "at": at})
        ups[i] = not ups[i]
        found.append({"arc": f"{'u' if ups[i] else 'd'}{i}", "op": "insert", "at": at})
    return found


def q3(report: str, ups: list[bool] | None = None) -> str:
    """Q3 over arcs that come and go; with ``ups`` over those directions, which never change."""
    arcs = [
        f"ARC {'u' if up else 'd'}{i}{'' if ups else '()'} FROM q{i} TO q{i + 1} WHEN v {'>' if up else '<'} 0"
        for i in range(LENGTH) for up in ((ups[i],) if ups else (True, False))
    ]  # fmt: skip
    measures = "FIRST(id) AS a" if report == "NET" else "CHANGE() AS c, FIRST(id) AS a"
    changes = f"CHANGES IN op ARRIVAL BY at REPORT {report}"
    return Q3.format(measures=measures, arcs=" ".join(arcs), table="" if ups else " ARCS FROM active ARRIVAL BY at", changes=changes)


def dynamic(rows: int) -> dict:
    """Figure 9: what arcs that change cost, as the share of the static pattern's rate, of the kernel alone and of all. The paper's
    loses less than a tenth where one changes every 10 events."""
    columns = quotes(rows, 0.5) | {"at": np.arange(rows)}
    results = {}
    print(f"\nFigure 9, {rows:,} events, W = 500: rate of Q3 whose arcs change every d events, by that of the static one: of the kernel, and of all")
    print("report     static us             never          d = 1000               100                10")
    for report in ("NET", "CHANGES"):
        ups = [row["arc"][0] == "u" for row in flips(rows, 0)]
        static, alone = measure(q3(report, ups), columns)[0], kernel_alone(q3(report, ups), columns)
        changing = [flips(rows, every) for every in (0, 1000, 100, 10)]
        shares = [static / measure(q3(report), columns, arcs)[0] for arcs in changing]
        of_kernel = [alone / kernel_alone(q3(report), columns, arcs) for arcs in changing]
        results[f"9 {report}"], results[f"9 {report}, kernel"] = shares, of_kernel
        if report == "NET":
            plain = measure(q3("NET", ups).partition(" CHANGES IN")[0], columns)[0]
            results["9 in order"] = rows / plain
            print(f"in order, without CHANGES IN: {rows / plain / 1e6:.2f} M events/s")
        again = restart(rows) / 10
        results["9 restart"] = static / rows / (static / rows + again)
        told = "".join(f"{kernel:>11.2f}{share:>7.2f}" for kernel, share in zip(of_kernel, shares))
        print(f"{report:<10}{static / rows * 1e6:>10.2f}{told}   restart at d = 10: {results['9 restart']:.4f}")
    return results


def kernel_alone(text: str, columns: dict[str, np.ndarray], arcs: list[dict] | None = None) -> float:
    """Seconds of the thread in the kernel (least of 3 warm runs)."""
    prepared, table = prepared_for(text, columns, arcs)
    seconds, run = [], register_runs.run

    def timed(*arguments) -> int:
        start = time.thread_time()
        outcome = run(*arguments)
        seconds[-1] += time.thread_time() - start
        return outcome

    register_runs.run = timed
    try:
        for _ in range(4):
            seconds.append(0.0)
            for _ in match_batches(engine_for(prepared), table.to_batches(max_chunksize=10_000)):
                pass
    finally:
        register_runs.run = run
    return min(seconds[1:])


def measure(text: str, columns: dict[str, np.ndarray], arcs: list[dict] | None = None) -> tuple[float, int]:
    """Seconds of the thread (least of 3 warm runs) and rows of output; ``arcs``: rows of ARCS FROM."""
    prepared, table = prepared_for(text, columns, arcs)
    seconds, found = [], 0
    for _ in range(4):
        start = time.thread_time()
        found = sum(t.num_rows for t in match_batches(engine_for(prepared), table.to_batches(max_chunksize=10_000)))
        seconds.append(time.thread_time() - start)
    return min(seconds[1:]), found


def prepared_for(text: str, columns: dict[str, np.ndarray], arcs: list[dict] | None = None) -> tuple[Prepared, pa.Table]:
    """A compiled clause and its input."""
    names = [name for name in ("id", "v", "at", "n", "w", "op") if name in columns]
    rows = [{"n": 0, "p": 0, "w": 0, "s": "", "op": "insert", **dict(zip(names, values))} for values in zip(*(columns[name].tolist() for name in names))]
    plan = make_plan(parse_clause(text))
    table = inputs(plan, {0: rows}, arcs=arcs)
    return prepare(plan, table.schema), table


def promised(columns: dict[str, np.ndarray], every: int = 500, slack: int = 1000) -> dict[str, np.ndarray]:
    """With a punctuation behind every so many events, of what comes no later than ``slack`` events; ``at`` has room between two
    rows for it."""
    rows = len(columns["id"])
    seen = np.arange(every, rows + 1, every)
    said = np.maximum(seen - slack, 0)
    more = {name: np.concatenate([values, np.zeros(len(said), dtype=values.dtype)]) for name, values in columns.items()}
    more["id"][rows:], more["at"] = said, np.concatenate([2 * columns["at"], 2 * seen - 1])
    order = np.argsort(more["id"], kind="stable")
    more["op"] = np.array(["insert"] * rows + ["punctuate"] * len(said))
    return {name: values[order] for name, values in more.items()}


def kept(text: str, columns: dict[str, np.ndarray], cleans: bool = True) -> int:
    """Bytes of the records of computations that a changelog keeps at most; ``cleans``: punctuations drop what is of no use."""
    before, Changelog.cleans = Changelog.cleans, cleans
    try:
        prepared, table = prepared_for(text, columns)
        engine = engine_for(prepared)
        for _ in match_batches(engine, table.to_batches(max_chunksize=10_000)):
            pass
    finally:
        Changelog.cleans = before
    changelog = engine.pipeline.operator.answers.__self__
    return int(changelog.state[S_MOST]) * changelog.runs.room.made.nbytes


def speculation(rows: int) -> dict:
    """Figures 10 and 11: what is told for each match that is left, and how long after its last row it is told, by SPECULATE; and
    by the share of rows that come late."""
    results: dict[str, object] = {"10 sizes": SIZES, "10 shares": SHARES}
    print("\nFigures 10 and 11: Q1, k = 1, W = 500, 5 % of the rows up to 1000 events late, an event each ms, a punctuation each 500: changes told for each match that is left, and")
    print("mean ms from the last row of a match to the match, by the size of SPECULATE; AFA+O is CONSECUTIVE BY. Then changes told with SPECULATE ALL, by the share of rows that come late")
    print(f"{'':<10}" + "".join(f"{size!s:>14}" for size in (*SIZES, "AFA+O")) + "".join(f"{share:>8.0%}" for share in SHARES))
    for ignorable in (0.7, 0.9):
        quoted = quotes(rows, 0.5, ignorable)
        quoted |= {"n": quoted["id"]}
        some = promised(late(quoted, 0.05, 1000))
        *found, numbered = (told_late(some, "" if size == "AFA+O" else f"SPECULATE {size}", size == "AFA+O") for size in (*SIZES, "AFA+O"))
        by_share = [told_late(promised(late(quoted, share, 1000)), "SPECULATE ALL")["changes"] for share in SHARES]
        results[f"10 {ignorable}"], results[f"10 {ignorable} AFA+O"], results[f"10 {ignorable} by share"] = found, numbered, by_share
        print(f"I = {ignorable:<6.0%}" + "".join(f"{of['changes']:>6.2f}{of['latency']:>8.1f}" for of in (*found, numbered)) + "".join(f"{changes:>8.2f}" for changes in by_share))
    return results


def told_late(columns: dict[str, np.ndarray], held: str, numbered: bool = False) -> dict[str, float]:
    """Changes for each match that is left, and mean ms from the last row of a match to the match."""
    words = CHANGED.format(held).replace("BY at", "BY at CONSECUTIVE BY n" if numbered else "BY at")
    text = clause(1, 500, ignore=True, changes=words).replace("r2 AS r2", "r2 AS r2, CHANGED_BY() AS told, max(at) AS came", 1)
    prepared, table = prepared_for(text, columns)
    told = pa.concat_tables(match_batches(engine_for(prepared), table.to_batches()))
    names = dict(prepared.plan.outputs)
    change, by, came = (told.column(names[name]).to_pylist() for name in ("c", "told", "came"))
    waited = [(a - b) / 2 for what, a, b in zip(change, by, came) if what == "insert" and a is not None]
    left = 2 * change.count("insert") - len(change)
    return {"changes": len(change) / max(left, 1), "latency": float(np.mean(waited)) if waited else 0.0}


def disorder(rows: int) -> dict:
    """Figures 12 and 13: rows that come late, and what is kept of computations."""
    few, results = quotes(rows, 0.5), {}
    print("\nFigures 12 and 13: us an event of REPORT CHANGES, W = 500, k = 1, by the share of rows that come up to 1000 events late; with CONSECUTIVE BY; KB of computations kept")
    print("with a punctuation each 500 events, and without what punctuations drop")
    for share in SHARES:
        some = late(few | {"n": few["id"]}, share, 1000)
        text = clause(1, 500, changes=CHANGED.format(""))
        seconds, found = measure(text, some)
        alone, _ = measure(clause(1, 500, changes=CHANGED.replace("BY at", "BY at CONSECUTIVE BY n").format("")), some)
        results[f"12 {share}"] = [seconds / rows * 1e6, alone / rows * 1e6]
        bounded, whole = (kept(text, promised(some), cleans) for cleans in (True, False))
        results[f"13 {share}"] = bounded
        print(f"{share:>6.0%}{seconds / rows * 1e6:>10.2f}   {found:,} changes; with CONSECUTIVE BY{alone / rows * 1e6:>8.2f}; {bounded // 1024:,} and {whole // 1024:,} KB")
    return results | sources(rows // 4)


def sources(rows: int) -> dict:
    """Path punctuations: two sources of which one lags; each promises for itself."""
    quoted = quotes(rows, 0.5)
    quoted["w"] = np.arange(rows) % 2
    arrival = np.arange(rows) + np.where(quoted["w"] == 1, 4000, 0)
    columns = quoted | {"at": np.argsort(np.argsort(arrival + np.arange(rows) / rows))}
    said = np.arange(500, rows, 500)
    more = {name: np.concatenate([values, np.zeros(len(said), dtype=values.dtype)]) for name, values in columns.items()}
    of_lag = columns["at"][np.minimum(said + said % 2, rows - 1)]
    more["id"][rows:], more["w"][rows:] = said, 0
    more["at"], more["op"] = np.concatenate([2 * columns["at"], 2 * of_lag]), np.array(["insert"] * rows + ["punctuate"] * len(said))
    # what lies before a row of the lagging source that has come is promised by the other one alone
    order = np.argsort(more["id"], kind="stable")
    ordered = {name: values[order] for name, values in more.items()}
    text = """PARTITION BY p ORDER BY id MEASURES CHANGE() AS c AUTOMATON (REGISTER n DOUBLE STATE q3 FINAL ARC FROM q0 TO q1 WHEN w = 0 AND v < 0 SET n = v
      ARC FROM q1 TO q1 WHEN w = 0 ARC FROM q1 TO q2 WHEN w = 0 AND v > -n ARC FROM q2 TO q3 WHEN w = 0 AND v < n) WINDOW 500 CHANGES IN op ARRIVAL BY at PUNCTUATE BY w REPORT CHANGES"""
    found = [kept(text, ordered, cleans) for cleans in (True, False)]
    print(f"PUNCTUATE BY over two sources, one 4000 events behind: {found[0] // 1024:,} KB of computations kept, {found[1] // 1024:,} without path punctuations")
    return {"F.2": found}


def state(text: str, columns: dict[str, np.ndarray]) -> int:
    """Bytes of the records of computations behind a run, as they were needed."""
    prepared, table = prepared_for(text, columns)
    engine = engine_for(prepared)
    for _ in match_batches(engine, table.to_batches(max_chunksize=10_000)):
        pass
    return engine.pipeline.operator.runs.room.ids.nbytes


def restart(rows: int) -> float:
    """Seconds that a new query over the live events of a window of 500 takes, as it would for each change of the pattern."""
    ups = [row["arc"][0] == "u" for row in flips(rows, 0)]
    return measure(q3("NET", ups), quotes(500, 0.5) | {"at": np.arange(500)})[0]


def clause(k: int = 2, window: int = 2000, drop: float = 0.25, ignore: bool = False, changes: str = "") -> str:
    """Q1, or its changelog."""
    measures = "CHANGE() AS c, r1 AS r1, r2 AS r2" if changes else "r1 AS r1, r2 AS r2"
    return Q1.format(measures=measures, ignore=IGNORED if ignore else "", drop=drop, k=k, window=window, changes=changes)


def run(rows: int, figures: str) -> dict:
    """The experiments; prints tables, and draws ``afa.png`` in the folder ``figures``."""
    results: dict[str, object] = {}
    columns = quotes(rows, 0.5)
    print(f"\nFigure 8, in order, {rows:,} events, W = 2000: M events/s (matches)")
    for k in (1, 2, 3):
        seconds, found = measure(clause(k), columns)
        results[f"8 k={k}"] = rows / seconds
        print(f"k = {k:<10}{rows / seconds / 1e6:>8.2f} ({found:,})")
    seconds, _ = measure(CAN.format(drop=0.25, k=2, window=2000), columns)
    results["8 can"] = rows / seconds
    print(f"CAN, k = 2  {rows / seconds / 1e6:>8.2f}  (the rate of k = 2 is {results['8 k=2'] / results['8 can']:.2f} times that)")
    seconds, found = measure(AS_PATTERN.format(window=2000), columns)
    results["8 pattern"] = rows / seconds
    print(f"as PATTERN  {rows / seconds / 1e6:>8.2f} ({found:,})")

    print("\nGrowth, k = 2: us an event by rows, and by W")
    by_rows = [measure(clause(), quotes(rows // part, 0.5))[0] / (rows // part) * 1e6 for part in (8, 4, 2, 1)]
    by_window = [measure(clause(window=w), columns)[0] / rows * 1e6 for w in (500, 1000, 2000, 4000)]
    results["growth"] = [by_rows, by_window]
    print("".join(f"{x:>8.3f}" for x in by_rows) + "   " + "".join(f"{x:>8.3f}" for x in by_window))

    some = [rows // part for part in (8, 4, 2, 1)]
    windows = (500, 1000, 2000, 4000)
    kept_by = [[state(clause(), quotes(count, 0.5)) for count in some], [state(clause(window=w), columns) for w in windows]]
    few = rows // 5
    kept_by += [[state(LASTING.format(window=500), quotes(count // 5, 0.5)) for count in some], [state(LASTING.format(window=4 * w), quotes(few, 0.5)) for w in windows]]
    results["state"] = kept_by
    print("KB of computations by rows, and by W: of Q1" + "; of one that lasts as long as W, by 4 W".join("".join(f"{x // 1024:>7}" for x in (*a, *b)) for a, b in (kept_by[:2], kept_by[2:])))

    results |= disorder(rows // 4) | speculation(rows // 4)

    print("\nFigures 16 and 17: M events/s, and KB that a changelog keeps, by the share of ignorable rows, k = 1, W = 500, drop 0")
    shares = (0.0, 0.2, 0.5, 0.8, 0.9)
    rates = [rows / measure(clause(1, 500, 0.0, ignore=True), quotes(rows, 0.5, share))[0] / 1e6 for share in shares]
    few = rows // 10
    text = clause(1, 500, 0.0, ignore=True, changes=CHANGED.format(""))
    results |= {"16": rates, "16 shares": shares, "17": [kept(text, promised(late(quotes(few, 0.5, share), 0.05, 1000))) for share in shares]}
    print("".join(f"{x:>8.2f}" for x in rates) + "   " + "".join(f"{x // 1024:>7}" for x in results["17"]))
    results |= dynamic(rows // 2)
    afa_figures.draw(results, figures)
    return results | {"8 ipm": afa_joins.run(quotes(5000, 0.5), clause())}
