"""The experiments of CPR (Wang's thesis, chapter 4) in memory, one thread; and on Spark what the clause replaces (``listed``).
``python -m tests.benchmarks cpr``.

The thesis' sensor data are not to be had; the streams here have its event classes' frequencies: an event is of the last class of
the pattern with frequency ref * 0.003, of each other class of the pattern with 0.22, and of none otherwise. Scores are uniform.
Times are the thread's, the least of a few runs, methods in turn.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable

import numba
import numpy as np

from sparkcep.engine.topk.branch_and_bound import top_sequences
from sparkcep.engine.topk.k_best_paths import Ranked, top_matches
from tests.thesis import rank_join as rj
from tests.thesis.strata import DynamicPaths, PQArray, k_ssp
from tests.thesis.yen import DYen, EventGraph
from tests.thesis.yen import yen as plain_yen

from . import listed

DEFAULTS = {"k": 10, "length": 3, "size": 50, "step": 20, "ref": 89}


def sequence(length: int) -> tuple[np.ndarray, np.ndarray]:
    """The automaton of a plain sequence."""
    edges = [[v, v + 1] for v in range(length)] + [[-1, 0]]
    return np.array([*range(length + 1), length + 1], dtype=np.int64), np.array(edges, dtype=np.int64)


def stream(rows: int, length: int, ref: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    chances = np.array([0.22] * (length - 1) + [0.003 * ref])
    drawn = np.searchsorted(np.cumsum(chances), rng.random(rows), side="right")
    return np.where(drawn < length, 1 << drawn, 0).astype(np.int64), rng.random((length, rows))


# -- the methods, each (first, edges, letters, weights, k, low, high) -> matches or scores of each window -----------


def ours(first, edges, letters, weights, k, low, high):
    return top_matches(first, edges, letters, weights, k, low, high)


def scratch(first, edges, letters, weights, k, low, high):
    return top_matches(first, edges, letters, weights, k, low, high, width=k)


def k_ssp_each(first, edges, letters, weights, k, low, high):
    array = PQArray(first, edges, letters, weights)
    return [np.array([p.score for p in k_ssp(array, k, a, b)]) for a, b in zip(low.tolist(), high.tolist())]


def k_dssp(first, edges, letters, weights, k, low, high):
    paths = DynamicPaths(PQArray(first, edges, letters, weights), k)
    return [np.array([p.score for p in paths.move(a, b)]) for a, b in zip(low.tolist(), high.tolist())]


def yen(first, edges, letters, weights, k, low, high):
    import networkx as nx

    out = []
    strata = len(first) - 2
    for a, b in zip(low.tolist(), high.tolist()):
        graph = nx.DiGraph()
        graph.add_nodes_from("sd")
        rows = [[r for r in range(a, b) if letters[r] >> v & 1] for v in range(strata)]
        graph.add_edges_from(("s", (0, r), {"weight": 2.0 - weights[0, r]}) for r in rows[0])
        for v in range(1, strata):
            graph.add_edges_from(
                ((v - 1, p), (v, r), {"weight": 2.0 - weights[v, r]}) for r in rows[v] for p in rows[v - 1] if p < r
            )
        graph.add_edges_from(((strata - 1, r), "d", {"weight": 0.0}) for r in rows[-1])
        paths = (
            itertools.islice(nx.shortest_simple_paths(graph, "s", "d", weight="weight"), k) if nx.has_path(graph, "s", "d") else ()
        )
        out.append(np.array([sum(weights[v, r] for v, r in path[1:-1]) for path in paths]))
    return out


def enumeration(first, edges, letters, weights, k, low, high):
    """All matches through a heap of k, in Python."""
    strata = len(first) - 2

    def scores(v: int, after: int, score: float, rows: list[list[tuple[int, float]]]):
        for r, w in rows[v]:
            if r > after:
                if v + 1 == strata:
                    yield score + w
                else:
                    yield from scores(v + 1, r, score + w, rows)

    out = []
    for a, b in zip(low.tolist(), high.tolist()):
        rows = [[(r, float(weights[v, r])) for r in range(a, b) if letters[r] >> v & 1] for v in range(strata)]
        out.append(np.array(heapq.nlargest(k, scores(0, -1, 0.0, rows))))
    return out


@numba.njit
def _enumerate(letters, weights, low, high, k, best, rows):
    """All matches through a heap of k (its least first), compiled."""
    strata = weights.shape[0]
    best[:] = -np.inf
    score = np.zeros(strata + 1)
    level = 0
    rows[0] = low - 1
    while level >= 0:
        r = rows[level] + 1
        while r < high and letters[r] >> level & 1 == 0:
            r += 1
        rows[level] = r
        if r >= high:
            level -= 1
            continue
        score[level + 1] = score[level] + weights[level, r]
        if level + 1 < strata:
            level += 1
            rows[level] = r
        elif score[strata] > best[0]:
            s = score[strata]
            i = 0
            while 2 * i + 1 < k:
                c = 2 * i + 1
                if c + 1 < k and best[c + 1] < best[c]:
                    c += 1
                if best[c] >= s:
                    break
                best[i] = best[c]
                i = c
            best[i] = s


def enumeration_compiled(first, edges, letters, weights, k, low, high):
    out = []
    rows = np.empty(len(first), dtype=np.int64)
    for a, b in zip(low.tolist(), high.tolist()):
        best = np.empty(k)
        _enumerate(letters, weights, a, b, k, best, rows)
        out.append(np.sort(best[best > -np.inf])[::-1])
    return out


def yen_each(first, edges, letters, weights, k, low, high):
    graph = EventGraph(letters, weights)
    return [np.array([p.score for p in plain_yen(graph, k, a, b)]) for a, b in zip(low.tolist(), high.tolist())]


def d_yen(first, edges, letters, weights, k, low, high):
    paths = DYen(EventGraph(letters, weights), k)
    return [np.array([p.score for p in paths.move(a, b)]) for a, b in zip(low.tolist(), high.tolist())]


METHODS: dict[str, Callable] = {
    "ours": ours,
    "ours from scratch": scratch,
    "k-DSSP": k_dssp,
    "k-SSP": k_ssp_each,
    "Yen (networkx)": yen,
    "Yen": yen_each,
    "D-Yen": d_yen,
    "enumeration": enumeration,
    "enumeration compiled": enumeration_compiled,
}


def per_window(names: list[str], windows: int, repeats: int = 5, budget: float = 3.0, **changed) -> dict[str, float]:
    """Seconds a window. A method that is slow gets fewer of the windows, as many as fit into ``budget`` seconds."""
    p = DEFAULTS | changed
    first, edges = sequence(p["length"])
    letters, weights = stream(p["size"] + windows * p["step"], p["length"], p["ref"])
    low = np.arange(windows, dtype=np.int64) * p["step"]
    high = low + p["size"]
    reference: list = []
    counts, out = {}, dict.fromkeys(names, np.inf)
    for name in names:
        METHODS[name](first, edges, letters, weights, p["k"], low[:1], high[:1])  # compiled
    for turn in range(repeats + 1):
        for name in names:
            if turn > 1 and counts[name] < windows:
                continue
            count = counts.get(name, 2)
            start = time.thread_time()
            scores = METHODS[name](first, edges, letters, weights, p["k"], low[:count], high[:count])
            taken = (time.thread_time() - start) / count
            if turn == 0:
                counts[name] = int(min(windows, max(2, budget / taken)))
                continue
            out[name] = min(out[name], taken)
            if isinstance(scores, Ranked):
                scores = np.split(scores.score, np.searchsorted(scores.window, np.arange(1, count)))
            reference = reference or scores
            for a, b in zip(reference, scores):
                np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=name)
    return out


def _table(title: str, names: list[str], settings: list[dict], windows: int = 200) -> dict:
    print(f"\n{title}: microseconds a window (how many times ours)")
    print(f"{'':<34}" + "".join(f"{name:>24}" for name in names))
    found = {}
    for setting in settings:
        label = ", ".join(f"{a} = {b}" for a, b in setting.items()) or "defaults"
        r = found[label] = per_window(names, windows, **setting)
        print(f"{label:<34}" + "".join(f"{r[n] * 1e6:>15,.1f} ({r[n] / r[names[0]]:>6,.0f})" for n in names))
    return found


def run() -> dict:
    """Figures 4.2 to 4.10, and on Spark what the clause replaces."""
    return {"sequences": sequences(), "monotone": monotone(), **_joins(), **listed.run()}


# -- monotone preferences that are no sums --------------------------------------------------------------------------

_LEAVES = [("leaf", i) for i in range(3)]
MONOTONE = {
    "MIN": ("least", ("least", *_LEAVES[:2]), _LEAVES[2]),
    "MAX": ("greatest", ("greatest", *_LEAVES[:2]), _LEAVES[2]),
    "PRODUCT": ("*", ("*", *_LEAVES[:2]), _LEAVES[2]),
    "NORM": ("sqrt", ("+", ("+", *(("*", leaf, leaf) for leaf in _LEAVES[:2])), ("*", _LEAVES[2], _LEAVES[2]))),
}


def _joined_by_python(combine: str, letters, weights, k, low, high):
    classes = [(rows := np.flatnonzero(letters >> v & 1), weights[v, rows]) for v in range(3)]
    return [np.array([r.score for r in rj.top_sequences(classes, k, combine, None, rj.WABS, a, b)]) for a, b in zip(low.tolist(), high.tolist())]


def _all_sequences(combine: str, letters, weights, k, low, high):
    merge = rj.COMBINE[combine].function
    out = []
    for a, b in zip(low.tolist(), high.tolist()):
        rows = [(np.flatnonzero(letters[a:b] >> v & 1) + a).tolist() for v in range(3)]
        best: list[float] = []
        for x, y, z in itertools.product(*rows):
            if x < y < z:
                score = merge([weights[0, x], weights[1, y], weights[2, z]])
                if len(best) < k:
                    heapq.heappush(best, score)
                elif score > best[0]:
                    heapq.heapreplace(best, score)
        out.append(np.array(sorted(best, reverse=True)))
    return out


def _kernel(combine: str, letters, weights, k, low, high):
    found = top_sequences(MONOTONE[combine], letters, weights, k, low, high)
    return np.split(found.score, np.searchsorted(found.window, np.arange(1, len(low))))


def monotone() -> dict:
    """Three strata: the engine's join, the thesis' rank join in Python, enumeration with a heap in Python."""
    methods = {"ours": _kernel, "NRA, WABS": _joined_by_python, "enumeration": _all_sequences}
    print("\nMonotone scores that are no sums: microseconds a window (how many times the first)")
    print(f"{'':<34}" + "".join(f"{name:>26}" for name in methods))
    found = {}
    settings = [(50, 20, 10), (200, 20, 10), *((size, size // 10, 10) for size in (500, 1000, 2000, 4000, 8000)), *((2000, 200, k) for k in (100, 1000))]
    for combine in MONOTONE:
        for size, step, k in settings:
            if combine not in ("MIN", "PRODUCT") and size not in (200, 2000):
                continue
            windows = 60
            letters, weights = stream(size + windows * step, 3, 89)
            low = np.arange(windows, dtype=np.int64) * step
            times: dict[str, float] = {}
            first = None
            for name, method in methods.items():
                slow = {"enumeration": 200, "NRA, WABS": 500}.get(name, size)
                if size > slow:
                    continue
                count = 3 if name in ("enumeration", "NRA, WABS") else windows
                times[name] = np.inf
                method(combine, letters, weights, k, low[:2], low[:2] + size)  # compiled
                for _ in range(5 if count == windows else 1):
                    start = time.perf_counter()
                    scores = method(combine, letters, weights, k, low[:count], low[:count] + size)
                    times[name] = min(times[name], (time.perf_counter() - start) / count)
                first = first or scores
                for a, b in zip(first, scores):
                    np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=name)
            label = f"{combine}, {size} events, step {step}, k = {k}"
            found[label] = times
            print(f"{label:<34}" + "".join(f"{t * 1e6:>15,.1f} ({t / times['ours']:>8,.1f})" for t in times.values()))
    return found


# -- joins ----------------------------------------------------------------------------------------------------------

SCHEDULES = (rj.ROUND_ROBIN, rj.GRADIENT, rj.WABS, rj.STATISTICS)


def ranked_ids(rows: int, share: float, dist: str, rng: np.random.Generator, queues: int) -> list[list[rj.Item]]:
    """Synthetic queues (section 4.4): unique ids, of which ``share`` occur in every queue."""
    out = []
    common = int(rows * share)
    for q in range(queues):
        ids = np.concatenate([np.arange(common), np.arange(common, rows) + (q + 1) * rows])
        if dist == "uniform":
            scores = rng.random(rows)
        elif dist == "normal":
            scores = np.clip(rng.normal(0.5, 0.15, rows), 0, 1)
        else:
            scores = 1.0 / rng.permutation(np.arange(1, rows + 1)) ** 0.5
        order = np.argsort(-scores, kind="stable")
        out.append([rj.Item(s, i, (i,), i) for s, i in zip(scores[order].tolist(), ids[order].tolist())])
    return out


def ranked_sequences(
    windows: int,
    size: int,
    step: int,
    lengths: tuple[int, ...],
    keys: int,
    seed: int,
    nonlinear: tuple[bool, ...] = (False, False, False),
) -> list[list[list[rj.Item]]]:
    """For each window the matches of each sequence pattern, ranked; classes of events are a pattern's own, all equally frequent.
    The key of a match is drawn for its first event."""
    rng = np.random.default_rng(seed)
    rows = size + windows * step
    drawn = rng.integers(0, sum(lengths), rows)
    weights = rng.random((sum(lengths), rows))
    names = rng.integers(0, keys, (len(lengths), rows))
    low = np.arange(windows, dtype=np.int64) * step
    out: list[list[list[rj.Item]]] = [[] for _ in range(windows)]
    base = 0
    for q, length in enumerate(lengths):
        inside = (drawn >= base) & (drawn < base + length)
        letters = np.where(inside, 1 << np.where(inside, drawn - base, 0), 0)
        own = weights[base : base + length]
        found = top_matches(*sequence(length), letters, own, 3000, low, low + size)
        lists: list[list[rj.Item]] = [[] for _ in range(windows)]
        for window, score, taken, _ in found.matches():
            if nonlinear[q]:
                score = math.sqrt(sum(float(own[v, r]) ** 2 for v, r in enumerate(taken)))
            lists[window].append(rj.Item(score, int(names[q, taken[0]]), taken, taken))
        for window, items in enumerate(lists):
            out[window].append(sorted(items, key=lambda x: (-x.score, x.rows)) if nonlinear[q] else items)
        base += length
    return out


def _queue(items: list[rj.Item], sorted_cost: float = 1.0, random_cost: float = 1.0) -> rj.Queue:
    by_key: dict = {}
    for item in items:
        by_key.setdefault(item.key, []).append(item)
    return rj.Queue(items, lambda key: by_key.get(key, ()), sorted_cost, random_cost)


def _compare(title: str, settings: list[tuple[str, Callable[[int, str], rj.RankJoin]]], seeds: int = 5) -> dict:
    """Mean accesses and cost by schedule over ``seeds`` data sets; wins of WABS in each single one."""
    print(f"\n{title}: accesses / cost; gain of WABS; data sets where it made more accesses than round-robin, cost more")
    print(f"{'':<44}" + "".join(f"{s.lower():>24}" for s in SCHEDULES) + f"{'accesses':>10}{'cost':>7}{'worse':>8}")
    out = {}
    for label, make in settings:
        table = np.zeros((len(SCHEDULES), seeds, 2))
        for seed in range(seeds):
            scores = []
            for i, schedule in enumerate(SCHEDULES):
                join = make(seed, schedule)
                scores.append([r.score for r in join.run()])
                table[i, seed] = join.accesses, join.cost
            assert all(s == scores[0] for s in scores)
        means = table.mean(axis=1)
        worse = (table[2] > table[0]).sum(axis=0)
        out[label] = {s: m.tolist() for s, m in zip(SCHEDULES, means)} | {"worse": worse.tolist()}
        cells = "".join(f"{f'{a:,.0f} / {c:,.0f}':>24}" for a, c in means)
        print(
            f"{label:<44}{cells}{1 - means[2, 0] / means[0, 0]:>10.0%}{means[0, 1] / means[2, 1]:>6.2f}x{worse[0]:>4} {worse[1]:>2}"
        )
    return out


def synthetic(
    algorithm: str = rj.TA,
    k: int = 50,
    combine: str = "MIN",
    share: float = 1.0,
    dist: str = "uniform",
    sorted_costs=(10.0, 1.0),
    random_costs=(1.0, 1.0),
):
    def make(seed: int, schedule: str) -> rj.RankJoin:
        lists = ranked_ids(10_000, share, dist, np.random.default_rng(seed), len(sorted_costs))
        queues = [_queue(items, s, r) for items, s, r in zip(lists, sorted_costs, random_costs)]
        return rj.RankJoin(queues, k, combine, rj.CONJUNCTION, algorithm, schedule, unique=algorithm == rj.NRA)

    return make


def sensors(
    k: int = 20,
    combine: str = "AVG",
    keys: int = 18,
    pattern: str = rj.SEQUENCE,
    lengths: tuple[int, ...] = (3, 3),
    size: int = 100,
    costs: tuple[float, ...] = (1.0, 1.0, 1.0),
    join: type[rj.RankJoin] = rj.RankJoin,
):
    def make(seed: int, schedule: str) -> rj.RankJoin:
        (lists,) = ranked_sequences(1, size, size, lengths, keys, seed)
        return join([_queue(items, cost) for items, cost in zip(lists, costs)], k, combine, pattern, rj.NRA, schedule)

    return make


class StopAtLasts(rj.RankJoin):
    """NRA with the stop test of the thesis (Figures 3.10, 3.12, 3.18): the score of the last items of all queues, joined, is taken
    for a bound."""

    def _bound(self) -> float:
        if all(q.exhausted for q in self.queues):
            return -math.inf
        return self.combine([q.bottom for q in self.queues])


def stop_test(seeds: int = 8) -> dict:
    """In how many data sets the thesis' stop test gives another answer than all matches do."""
    print(f"\nThe thesis' stop test, k = 20: data sets of {seeds} with a wrong answer, by schedule")
    out = {}
    for combine in ("AVG", "MIN"):
        for keys in (18, 54):
            for pattern in (rj.SEQUENCE, rj.CONJUNCTION):
                early = sensors(combine=combine, keys=keys, pattern=pattern, join=StopAtLasts)
                right = sensors(combine=combine, keys=keys, pattern=pattern)
                expected = [[r.score for r in right(seed, rj.ROUND_ROBIN).run()] for seed in range(seeds)]
                wrong = {s: sum([r.score for r in early(seed, s).run()] != expected[seed] for seed in range(seeds)) for s in (rj.ROUND_ROBIN, rj.WABS)}
                label = f"{combine}, keys = {keys}, {pattern}"
                out[label] = wrong
                print(f"{label:<44}" + "".join(f"{name.lower():>16} {count}" for name, count in wrong.items()))
    return out


def _joins() -> dict:
    out = {
        "4.4": _compare("Figure 4.4, sequences, NRA, AVG, [S7;S8]", [(f"k = {k}", sensors(k=k)) for k in (5, 10, 20, 40)]),
        "4.5": _compare(
            "Figure 4.5, two sequences, NRA",
            [(f"keys = {n}, {p}", sensors(keys=n, pattern=p)) for n in (18, 54, 180) for p in (rj.SEQUENCE, rj.CONJUNCTION)]
            + [(f"{c}", sensors(combine=c)) for c in rj.COMBINE]
            + [
                (f"lengths {x}, {p}", sensors(lengths=x, pattern=p))
                for x in ((2, 3), (2, 4))
                for p in (rj.SEQUENCE, rj.CONJUNCTION)
            ]
            + [(f"lengths (2, 4), {p}, accesses cost 1 and 4", sensors(lengths=(2, 4), pattern=p, costs=(1.0, 4.0))) for p in (rj.SEQUENCE, rj.CONJUNCTION)]
            + [("lengths (2, 4), keys = 180, CONJUNCTION", sensors(lengths=(2, 4), keys=180, pattern=rj.CONJUNCTION))],
        ),
        "4.6": _compare(
            "Figure 4.6, three sequences, NRA, windows of 200, keys = 54",
            [
                (f"lengths {x}, {p}", sensors(lengths=x, keys=54, pattern=p, size=200))
                for x in ((2, 2, 2), (3, 3, 3))
                for p in (rj.SEQUENCE, rj.CONJUNCTION)
            ],
        ),
    }
    costs = [
        ((1.0, 1.0), (1.0, 1.0)),
        ((10.0, 1.0), (1.0, 1.0)),
        ((1.0, 1.0), (10.0, 1.0)),
        ((10.0, 1.0), (10.0, 1.0)),
        ((100.0, 1.0), (1.0, 1.0)),
    ]
    out["4.7a"] = _compare(
        "Figure 4.7(a), synthetic, TA, MIN, k = 50",
        [(f"sorted {s} random {r}", synthetic(sorted_costs=s, random_costs=r)) for s, r in costs],
    )
    costs3 = [
        ((1.0,) * 3, (1.0,) * 3),
        ((10.0, 1.0, 1.0), (1.0,) * 3),
        ((10.0, 10.0, 1.0), (1.0,) * 3),
        ((100.0, 10.0, 1.0), (1.0,) * 3),
    ]
    out["4.7b"] = _compare(
        "Figure 4.7(b), synthetic, TA, MIN, k = 50, three queues",
        [(f"sorted {s}", synthetic(sorted_costs=s, random_costs=r)) for s, r in costs3],
        2,
    )
    out["4.8"] = _compare(
        "Figure 4.8, synthetic, TA, sorted (10, 1), random (1, 1)",
        [(f"k = {k}", synthetic(k=k)) for k in (10, 50, 100)]
        + [(c, synthetic(combine=c)) for c in rj.COMBINE]
        + [(f"share {r}", synthetic(share=r)) for r in (1.0, 0.1, 0.01)]
        + [(f"{c}, share 0.01", synthetic(share=0.01, combine=c)) for c in ("AVG", "PRODUCT")]
        + [(d, synthetic(dist=d)) for d in ("uniform", "normal", "zipfian")],
    )
    even = {"sorted_costs": (1.0, 1.0)}
    out["even"] = _compare(
        "Synthetic, equal costs",
        [
            (f"{a}, {c}, share {r}", synthetic(a, combine=c, share=r, **even))
            for a in (rj.TA, rj.NRA)
            for c in ("MIN", "AVG")
            for r in (1.0, 0.1, 0.01)
        ],
    )
    return out | {"stop test": stop_test(), "4.9": _dynamic()}


# all results kept, as in the thesis, or the k best where windows do not share: (whether they may share, worth)
TMM = {"nTMM, all": (False, 0.0), "dTMM, all": (True, 0.0), "nTMM": (False, 0.6), "dTMM": (True, 0.6)}


def _dynamic() -> dict:
    """Figures 4.9 and 4.10: joins alone, their ranked streams made beforehand for both."""
    print(
        "\nFigures 4.9 and 4.10: milliseconds a window, dTMM's speedup as in the thesis and with results cut off, share of items reused"
    )
    print(" " * 44 + "".join(f"{name:>18}" for name in TMM))
    settings = (
        [{"step": s} for s in (10, 20, 30, 40, 50, 60)]
        + [{"size": s} for s in (60, 80, 100, 120)]
        + [{"k": k} for k in (5, 10, 20, 40)]
    )
    settings += [{"pattern": p} for p in (rj.SEQUENCE, rj.CONJUNCTION)]
    settings += [{"nonlinear": True, "pattern": p} for p in (rj.SEQUENCE, rj.CONJUNCTION)]
    out = {}
    for setting in settings:
        p = {"size": 100, "step": 50, "k": 20, "pattern": rj.SEQUENCE, "keys": 18, "nonlinear": False} | setting
        windows = 40
        made = ranked_sequences(windows, p["size"], p["step"], (3, 3), p["keys"], 5, (False, p["nonlinear"], False))
        shares = [0.0] * len(TMM)
        times = [np.inf] * len(TMM)
        first = None
        for _ in range(3):
            for which, (moves, worth) in enumerate(TMM.values()):
                dynamic = rj.DynamicJoin(p["k"], "AVG", p["pattern"], rj.WABS, worth=worth)
                streams = [[rj.Queue(items) for items in lists] for lists in made]
                pulled = [queue for queues in streams for queue in queues]
                found = []
                start = time.perf_counter()
                for i, queues in enumerate(streams):
                    if moves:
                        found.append(dynamic.move(queues, i * p["step"]))
                    else:
                        found.append(rj.RankJoin(queues, p["k"], "AVG", p["pattern"], rj.NRA, rj.WABS, keep_all=worth == 0).run())
                times[which] = min(times[which], (time.perf_counter() - start) / windows)
                shares[which] = sum(q.reused for q in pulled) / sum(q.depth for q in pulled)
                results = [[r[:3] for r in w] for w in found]
                first = first or results
                assert results == first
        label = ", ".join(f"{a} = {b}" for a, b in setting.items())
        out[label] = dict(zip(TMM, times)) | {"reused": shares}
        print(
            f"{label:<44}"
            + "".join(f"{t * 1e3:>18.2f}" for t in times)
            + f"{times[0] / times[1]:>10.2f}x {times[2] / times[3]:>7.2f}x{shares[1]:>8.0%}"
        )
    return out


def sequences() -> dict:
    everyone = list(METHODS)
    few = ["ours", "ours from scratch", "k-DSSP", "k-SSP", "D-Yen", "Yen", "Yen (networkx)"]
    results = {
        "4.2": _table("Figure 4.2, k = 10, length 3, window 50, step 20, ref 89", everyone, [{}]),
        "4.3a": _table("Figure 4.3(a)", few, [{"k": k} for k in (10, 20, 30, 40)]),
        "4.3b": _table("Figure 4.3(b)", few, [{"size": s} for s in (50, 100, 150, 200)], 60),
        "4.3c": _table("Figure 4.3(c)", few, [{"length": n} for n in (2, 3, 4)]),
        "4.3d": _table("Figure 4.3(d)", few, [{"step": s} for s in (5, 10, 20, 30, 40)]),
        "4.3e": _table("Figure 4.3(e)", few, [{"ref": f} for f in (1, 10, 89)]),
        "200": _table("Windows of 200 events", everyone, [{"size": 200, "step": s} for s in (20, 200)], 400),
    }
    results["epochs"] = epochs()
    own = ["ours", "ours from scratch"]
    results["linear"] = _table(
        "Larger windows, step 1/10", own, [{"size": s, "step": s // 10} for s in (500, 1000, 2000, 4000, 8000, 16000)], 300
    )
    results["large k"] = _table(
        "Windows of 2,000 events, step 200", own, [{"size": 2000, "step": 200, "k": k} for k in (1, 10, 100, 1000, 10000)], 30
    )
    results["one"] = _one()
    return results


def epochs() -> dict:
    """Windows of 50 epochs of 35 readings, which the thesis may have meant: it gives its window no unit."""
    methods = ["ours", "ours from scratch", "k-DSSP", "enumeration compiled"]
    return _table("Windows of 1,750 events", methods, [{"size": 1750, "step": s} for s in (175, 700)], 120)


def _one() -> dict:
    """TOP k of one partition with about 10^15 matches, of any span and of spans."""
    rows, length = 4000, 7
    first, edges = sequence(length)
    rng = np.random.default_rng(2)
    letters, weights = 1 << rng.integers(0, length, rows), rng.random((length, rows))
    counts = [1.0] + [0.0] * length
    for letter in letters.tolist():
        v = letter.bit_length() - 1
        counts[v + 1] += counts[v]
    print(f"\nTOP k of {rows:,} rows with {counts[-1]:.1e} matches of length {length}, milliseconds")
    found = {}
    span = np.maximum(np.arange(rows) - 500, 0)
    for label, values, spans in (
        ("distinct weights", weights, None),
        ("one weight", np.ones_like(weights), None),
        ("distinct, spans of 500", weights, span),
        ("one weight, spans of 500", np.ones_like(weights), span),
    ):
        for k in (10, 1000, 10000):
            times = []
            for _ in range(4):
                start = time.perf_counter()
                top_matches(first, edges, letters, values, k, span=spans)
                times.append(time.perf_counter() - start)
            found[f"{label}, k = {k}"] = min(times)
            print(f"{label + f', k = {k}':<40}{min(times) * 1e3:>10.2f}")
    return found
