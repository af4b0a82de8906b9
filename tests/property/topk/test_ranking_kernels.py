"""The ranking kernels against enumeration, against each other and against Yen's algorithm (networkx)."""

from __future__ import annotations

import itertools
import random

import networkx as nx
import numpy as np
import pytest

from sparkcep.engine.topk import k_best_paths
from sparkcep.engine.topk.k_best_paths import Keys, top_matches
from tests.oracle import ranking as oracle
from tests.selection import first, further
from tests.thesis.strata import DynamicPaths, PQArray, k_ssp
from tests.thesis.yen import DYen, EventGraph
from tests.thesis.yen import yen as plain_yen

PATTERNS = {
    "A B C": [[(0, 1)], [(1, 2)], [(2, 3)], [(-1, 0)]],
    "A B": [[(0, 1)], [(1, 2)], [(-1, 0)]],
    "A": [[(0, 1)], [(-1, 0)]],
    "A B C D": [[(0, 1)], [(1, 2)], [(2, 3)], [(3, 4)], [(-1, 0)]],
    "A B A": [[(0, 1)], [(1, 2)], [(0, 3)], [(-1, 0)]],
    "A+ B": [[(0, 1)], [(0, 1), (1, 2)], [(-1, 0)]],
    "A B*": [[(0, 1)], [(1, 1), (-1, 0)]],
    "A+": [[(0, 1)], [(0, 1), (-1, 0)]],
    "(A | B) C": [[(0, 1), (1, 1)], [(2, 2)], [(-1, 0)]],
    "A B? C": [[(0, 1)], [(1, 2), (2, 3)], [(2, 3)], [(-1, 0)]],
    "A (B | C)* D?": [[(0, 1)], [(1, 1), (2, 1), (3, 2), (-1, 0)], [(-1, 0)]],
    "(A B)+": [[(0, 1)], [(1, 2)], [(0, 1), (-1, 0)]],
    "(A B)+ back to the start": [[(0, 1)], [(1, 0), (-1, 0)]],
    "PERMUTE(A, B)": [[(0, 1), (1, 2)], [(1, 3)], [(0, 3)], [(-1, 0)]],
}


def automaton(pattern: str) -> tuple[np.ndarray, np.ndarray]:
    nodes = PATTERNS[pattern]
    first = np.cumsum([0, *map(len, nodes)])
    return first.astype(np.int64), np.array([e for node in nodes for e in node], dtype=np.int64)


def weights_of(rng: random.Random, shape: tuple[int, int]) -> np.ndarray:
    """Ties (small integers, all the same), decimals whose sums round, outliers, missing and infinite weights."""
    draw = np.random.default_rng(rng.getrandbits(32))
    kind = rng.choice(
        [
            "ties",
            "ties",
            "integers",
            "same",
            "decimals",
            "decimals",
            "tenths",
            "floats",
            "falling",
            "outliers",
            "missing",
            "infinite",
        ]
    )
    if kind == "ties":
        return draw.integers(0, 3, shape)
    if kind == "integers":
        return draw.integers(-1000, 1000, shape)
    if kind == "same":
        return np.full(shape, rng.choice([1.0, 0.1, -0.3]))
    if kind == "decimals":
        return draw.integers(0, 30, shape) / 100
    if kind == "tenths":
        return draw.integers(-3, 4, shape) / 10
    if kind == "falling":
        return -np.arange(shape[1]) + draw.random(shape)
    out = draw.normal(size=shape)
    if kind == "outliers":
        out[draw.random(shape) < 0.2] *= 1e17
        out = np.round(out, 1)
    if kind == "missing":
        out = np.round(out)
        out[draw.random(shape) < rng.choice([0.1, 0.6])] = np.nan
    if kind == "infinite":
        out = np.round(out)
        out[draw.random(shape) < 0.15] = rng.choice([np.inf, -np.inf])
        if rng.random() < 0.5:
            out[draw.random(shape) < 0.15] = -np.inf
        if rng.random() < 0.3:
            out[draw.random(shape) < 0.1] = np.nan
    return out


def keys_of(rng: random.Random, first: np.ndarray, edges: np.ndarray, rows: int) -> Keys | None:
    if rng.random() < 0.7:
        return None
    draw = np.random.default_rng(rng.getrandbits(32))
    keyed = np.array([rng.random() < 0.6 for _ in first[1:]], dtype=np.uint8)
    values = rng.choice([2, 3])
    return Keys(keyed, draw.integers(-1, values, (len(keyed), rows)) * 7, draw.integers(-1, values, (len(edges), rows)) * 7)


def windows_of(rng: random.Random, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Windows of a fixed size and step, or any ascending ones."""
    if rng.random() < 0.7:
        size, step = rng.randint(1, rows), rng.randint(1, 4)
        low = np.arange(0, rows, step)
        return low, np.minimum(low + size, rows)
    count = rng.randint(1, 12)
    low = np.sort(np.array([rng.randint(0, rows) for _ in range(count)]))
    high = np.sort(np.array([rng.randint(0, rows) for _ in range(count)]))
    return low, high


def listed(found, weights: np.ndarray) -> dict[int, list]:
    out: dict[int, list] = {}
    for window, score, rows, edges in found.matches():
        out.setdefault(window, []).append((repr(float(score)), rows, edges))
    return out


def expected(found: list) -> list:
    return [(repr(float(score)), rows, edges) for score, rows, edges in found]


def case(rng: random.Random):
    pattern = rng.choice(list(PATTERNS))
    first, edges = automaton(pattern)
    rows = rng.randint(1, 9 if "+" in pattern or "*" in pattern else 16)
    variables = int(edges[:, 0].max()) + 1
    letters = np.array(
        [
            sum((rng.random() < 0.5) << v for v in range(variables)) if rng.random() < 0.3 else 1 << rng.randrange(variables)
            for _ in range(rows)
        ]
    )
    return pattern, first, edges, letters, weights_of(rng, (variables, rows)), keys_of(rng, first, edges, rows)


def plain_keys(keys: Keys | None) -> dict:
    return {} if keys is None else {"keyed": keys.keyed.tolist(), "left": keys.left.tolist(), "right": keys.right.tolist()}


@pytest.mark.parametrize("seed", first(range(4), wider=1))
def test_windows(seed):
    rng = random.Random(7000 + seed)
    windows = 0
    for _ in range(1300):
        pattern, first, edges, letters, weights, keys = case(rng)
        low, high = windows_of(rng, len(letters))
        k = rng.choice([1, 1, 2, 3, 5, 10, 50])
        width = rng.choice([None, k, k + 1, 2 * k])
        found = top_matches(first, edges, letters, weights, k, low, high, keys=keys, width=width)
        got = listed(found, weights)
        for i, (a, b) in enumerate(zip(low.tolist(), high.tolist())):
            best = oracle.top(first, edges.tolist(), letters.tolist(), weights.tolist(), k, a, b, **plain_keys(keys))
            assert got.get(i, []) == expected(best), (
                f"{pattern} window {i} {a}:{b} k={k} width={width}\n{letters!r}\n{weights!r}\n{low!r}\n{high!r}\n{keys!r}"
            )
            windows += 1
    assert windows >= 5000


@pytest.mark.parametrize("seed", first([1001, 0, 1], 0, wider=1))  # the first: infinite weights make a bound equal to what lies below it
def test_windows_after_windows(seed):
    """Streams of many windows, whose lists are built under guides and whose rows are looked at in blocks: against windows that are
    each built by themselves, and some against enumeration."""
    rng = random.Random(7600 + seed)
    enumerated = built = windows = 0
    for _ in range(60):
        pattern = rng.choice(list(PATTERNS))
        first, edges = automaton(pattern)
        rows, variables = rng.randint(150, 400), int(edges[:, 0].max()) + 1
        draw = np.random.default_rng(rng.getrandbits(32))
        letters = np.where(draw.random(rows) < rng.choice([0.3, 0.7, 1.0]), 1 << draw.integers(0, variables, rows), 0)
        letters |= np.where(draw.random(rows) < rng.choice([0.0, 0.1]), 1 << draw.integers(0, variables, rows), 0)
        weights, keys = weights_of(rng, (variables, rows)), keys_of(rng, first, edges, rows)
        if weights.dtype.kind == "i" and rng.random() < 0.2:
            weights = weights * (2**60 // (rows * max(1, int(np.abs(weights).max()))))  # beyond what floating sums hold
        size, k = rng.choice([20, 40, 140]), rng.choice([1, 2, 4, 5, 10, 30])
        low = np.arange(0, rows - size // 2, rng.choice([1, 3, size // 10, size // 2, size, size + 5]))
        high = np.minimum(low + size, rows)
        where = f"{pattern} {size} k={k}\n{letters!r}\n{weights!r}\n{low!r}\n{keys!r}"
        shared = top_matches(first, edges, letters, weights, k, low, high, keys=keys)
        got = listed(shared, weights)
        assert got == listed(top_matches(first, edges, letters, weights, k, low, high, keys=keys, width=k), weights), where
        built, windows = built + shared.builds, windows + len(low)
        for i in rng.sample(range(len(low)), min(2, len(low))):
            try:
                best = oracle.top(first, edges.tolist(), letters.tolist(), weights.tolist(), k, low[i], high[i], budget=3000, **plain_keys(keys))
            except oracle.TooMany:
                continue
            assert got.get(i, []) == expected(best), where
            enumerated += 1
    assert enumerated >= 30 and built < windows


@pytest.mark.parametrize("seed", first(range(2), wider=1))
def test_partitions_and_spans(seed):
    rng = random.Random(7100 + seed)
    for _ in range(1000):
        pattern, first, edges, letters, weights, keys = case(rng)
        n = len(letters)
        k = rng.choice([1, 2, 3, 5, 10, 50])
        span = None
        if rng.random() < 0.8:
            when = np.cumsum([rng.randint(0, 3) for _ in range(n)])
            span = np.searchsorted(when, when - rng.randint(1, 8), side="right").astype(np.int64)
        found = top_matches(first, edges, letters, weights, k, span=span, keys=keys, width=rng.choice([None, k, k + 1]))
        keep = (lambda rows: True) if span is None else (lambda rows, s=span: s[rows[-1]] <= rows[0])
        best = oracle.top(first, edges.tolist(), letters.tolist(), weights.tolist(), k, 0, n, keep, **plain_keys(keys))
        assert listed(found, weights).get(0, []) == expected(best), (
            f"{pattern} k={k} span={span!r}\n{letters!r}\n{weights!r}\n{keys!r}"
        )


@pytest.mark.further
@pytest.mark.parametrize("seed", first(range(2), wider=1))
def test_algorithms_of_the_thesis(seed):
    """k-SSP and k-DSSP; TOP k is a prefix of TOP k + 1."""
    rng = random.Random(7200 + seed)
    for _ in range(120):
        pattern, first, edges, letters, _, _ = case(rng)
        if "back" in pattern:
            continue
        n = len(letters)
        weights = np.array([[rng.randint(0, rng.choice([1, 3, 50])) for _ in range(n)] for _ in range(int(edges[:, 0].max()) + 1)])
        low, high = windows_of(rng, n)
        k = rng.choice([1, 2, 5, 12])
        array = PQArray(first, edges, letters, weights)
        dynamic = DynamicPaths(array, k)
        got = listed(top_matches(first, edges, letters, weights, k, low, high), weights)
        more = listed(top_matches(first, edges, letters, weights, k + 1, low, high), weights)
        for i, (a, b) in enumerate(zip(low.tolist(), high.tolist())):
            where = f"{pattern} {a}:{b} k={k}\n{letters!r}\n{weights!r}"
            best = got.get(i, [])
            assert more.get(i, [])[:k] == best, where
            assert [(repr(p.score), p.rows, p.edges) for p in k_ssp(array, k, a, b)] == best, where
            assert [(repr(p.score), p.rows, p.edges) for p in dynamic.move(a, b)] == best, where


@pytest.mark.further
@pytest.mark.parametrize("seed", first(range(2), wider=1))
def test_yen_of_the_thesis(seed):
    """Yen's paths, from scratch and from window to window."""
    rng = random.Random(7250 + seed)
    for _ in range(80):
        pattern = rng.choice(["A B", "A B C", "A B C D"])
        nodes, edges = automaton(pattern)
        strata, n, k = len(nodes) - 2, rng.randint(4, 24), rng.choice([1, 3, 10])
        letters = np.array([1 << rng.randrange(strata) for _ in range(n)])
        weights = np.random.default_rng(rng.getrandbits(32)).integers(0, 1 << 40, (strata, n)).astype(np.float64)
        low, high = windows_of(rng, n)
        graph = EventGraph(letters, weights)
        dynamic, thesis = DYen(graph, k), PQArray(nodes, edges, letters, weights)
        for a, b in zip(low.tolist(), high.tolist()):
            best = [(p.score, p.rows) for p in k_ssp(thesis, k, a, b)]
            assert [(p.score, p.rows) for p in plain_yen(graph, k, a, b)] == best
            assert [(p.score, p.rows) for p in dynamic.move(a, b)] == best


def test_against_yen():
    """Plain sequences: the scores of the k shortest paths that networkx finds in the stratified stream graph."""
    rng = random.Random(7300)
    for _ in range(60):
        pattern = rng.choice(["A B", "A B C", "A B C D"])
        first, edges = automaton(pattern)
        n, k = rng.randint(4, 24), rng.choice([1, 3, 10])
        strata = len(first) - 2
        letters = np.array([1 << rng.randrange(strata) for _ in range(n)])
        weights = np.random.default_rng(rng.getrandbits(32)).integers(0, 100, (strata, n))
        expected_scores = yen(letters, weights, 0, n, strata, k)
        assert top_matches(first, edges, letters, weights, k).score.tolist() == expected_scores


def yen(letters: np.ndarray, weights: np.ndarray, low: int, high: int, strata: int, k: int) -> list[int]:
    graph = nx.DiGraph()
    graph.add_nodes_from(["s", "d"])
    rows = [[r for r in range(low, high) if letters[r] >> v & 1] for v in range(strata)]
    for r in rows[0]:
        graph.add_edge("s", (0, r), weight=1000 - int(weights[0, r]))  # positive, and all paths have equally many vertices
    for v in range(1, strata):
        for r in rows[v]:
            for p in rows[v - 1]:
                if p < r:
                    graph.add_edge((v - 1, p), (v, r), weight=1000 - int(weights[v, r]))
    for r in rows[-1]:
        graph.add_edge((strata - 1, r), "d", weight=0)
    if not nx.has_path(graph, "s", "d"):
        return []
    paths = itertools.islice(nx.shortest_simple_paths(graph, "s", "d", weight="weight"), k)
    return [sum(int(weights[v, r]) for v, r in path[1:-1]) for path in paths]


def test_little_room(monkeypatch):
    """Lists, chains and output move to larger places in the middle of a row; what no list reaches is dropped."""
    for name in ("POOL", "ARENA", "CANDIDATES"):
        monkeypatch.setattr(k_best_paths, name, 4)
    rng = random.Random(7400)
    for _ in range(250):
        pattern, first, edges, letters, weights, keys = case(rng)
        low, high = windows_of(rng, len(letters))
        k = rng.choice([1, 3, 10])
        got = listed(top_matches(first, edges, letters, weights, k, low, high, keys=keys), weights)
        for i, (a, b) in enumerate(zip(low.tolist(), high.tolist())):
            expected_here = oracle.top(first, edges.tolist(), letters.tolist(), weights.tolist(), k, a, b, **plain_keys(keys))
            assert got.get(i, []) == expected(expected_here), f"{pattern} {a}:{b} k={k}\n{letters!r}\n{weights!r}\n{keys!r}"


@pytest.mark.parametrize("pattern", first(["A B C", "(A | B) C", "A+ B", "A B? C"], wider=4))
@pytest.mark.parametrize("kind", [further("distinct"), "ties", further("decimals")])
def test_long_streams(kind, pattern, monkeypatch):
    """Windows that share against windows from scratch, and against the k-SSP of the thesis; the pool stays small."""
    rng = np.random.default_rng(5)
    n = 3000
    first, edges = automaton(pattern)
    letters = 1 << rng.integers(0, 3, n)
    weights = {
        "distinct": rng.random((3, n)),
        "ties": rng.integers(0, 3, (3, n)),
        "decimals": rng.integers(0, 50, (3, n)) / 100,
    }[kind]
    if "+" in pattern:
        weights = weights - 1
    low = np.arange(0, n - 200, 20)
    pools = []
    ranked = k_best_paths._Store.ranked

    def measured(store, number):
        pools.append(len(store.pool))
        return ranked(store, number)

    monkeypatch.setattr(k_best_paths._Store, "ranked", measured)
    shared = top_matches(first, edges, letters, weights, 10, low, low + 200)
    scratch = top_matches(first, edges, letters, weights, 10, low, low + 200, width=10)
    monkeypatch.undo()
    assert listed(shared, weights) == listed(scratch, weights)
    assert max(pools) <= k_best_paths.POOL
    if kind != "ties":
        assert shared.builds < len(low) / 3
    if kind != "decimals":
        array = PQArray(first, edges, letters, weights)
        got = listed(shared, weights)
        for i in (0, 40, 139):
            assert [(repr(p.score), p.rows, p.edges) for p in k_ssp(array, 10, int(low[i]), int(low[i]) + 200)] == got[i]


@pytest.mark.parametrize("seed", first(range(6), wider=1))
def test_partitions_side_by_side_are_those_by_themselves(seed):
    """Rows of several partitions in one call, whose windows overlap, or hold a partition each; some have other weights by far."""
    rng, random_numbers = random.Random(seed), np.random.default_rng(seed)
    compared = 0
    for _ in range(12):
        pattern, k = rng.choice(["A B C", "A+ B", "A B? C", "(A | B) C", "A+"]), rng.choice([1, 3, 10])
        net, edges = automaton(pattern)
        parts, offsets, lows, highs, heads = [], [0], [], [], []
        whole, keyed = rng.random() < 0.3, rng.random() < 0.5
        nodes = np.array([rng.random() < 0.6 for _ in net[1:]], dtype=np.uint8)
        for _ in range(rng.randint(2, 7)):
            n = rng.randint(1, 60)
            low, high = (np.array([0]), np.array([n])) if whole else windows_of(rng, n)
            kind = rng.choice(["distinct", "ties", "far"])
            # the keys of partitions overlap
            own = Keys(nodes, *(random_numbers.integers(-1, 3, (some, n)) + rng.choice([0, 1]) for some in (len(nodes), len(edges)))) if keyed else None
            weights = random_numbers.random((3, n)) if kind == "distinct" else random_numbers.integers(0, 3, (3, n)).astype(np.float64)
            parts.append((1 << random_numbers.integers(0, 3, n), weights * (1000 if kind == "far" else 1) - (1 if "+" in pattern else 0), low, high, own))
            lows.append(low + offsets[-1])
            highs.append(high + offsets[-1])
            heads.append(np.arange(len(low)) == 0)
            offsets.append(offsets[-1] + n)
        letters, weights = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts], axis=1)
        keys = Keys(nodes, *(np.concatenate([getattr(part[4], name) for part in parts], axis=1) for name in ("left", "right"))) if keyed else None
        low, high = np.concatenate(lows), np.concatenate(highs)
        together = listed(top_matches(net, edges, letters, weights, k, low, high, heads=np.concatenate(heads), keys=keys), weights)
        window = 0
        for (own, values, low, high, keys), begin in zip(parts, offsets):
            alone = listed(top_matches(net, edges, own, values, k, low, high, keys=keys), values)
            for w in range(len(low)):
                moved = [(score, tuple(row + begin for row in rows), taken) for score, rows, taken in alone.get(w, [])]
                assert together.get(window, []) == moved, (pattern, k)
                compared += len(moved)
                window += 1
    assert compared > 100


def test_many_results():
    """k = 10,000, in lists that are merged as a whole."""
    rng = random.Random(7500)
    first, edges = automaton("A B C")
    for weights in (np.random.default_rng(1).random((3, 90)), np.random.default_rng(1).integers(0, 5, (3, 90))):
        letters = np.array([1 << rng.randrange(3) for _ in range(90)])
        low, high = np.array([0, 20, 40]), np.array([70, 80, 90])
        got = listed(top_matches(first, edges, letters, weights, 10_000, low, high), weights)
        for i, (a, b) in enumerate(zip(low.tolist(), high.tolist())):
            assert got[i] == expected(oracle.top(first, edges.tolist(), letters.tolist(), weights.tolist(), 10_000, a, b))


def test_matches_that_cannot_be_counted():
    """10^15 matches of equal score: the first rows win."""
    first, edges = automaton("A+")
    found = top_matches(first, edges, np.ones(60, dtype=np.int64), np.zeros((1, 60)), 3)
    assert found.matches() == [(0, 0.0, tuple(range(n)), (0, *[1] * (n - 1))) for n in (1, 2, 3)]


def test_large_integers():
    """Sums beyond 2^53 stay exact; beyond 64 bits they are refused."""
    first, edges = automaton("A B")
    letters = np.array([1, 1, 2, 2])
    weights = np.array([[2**55, 2**55 + 1, 0, 0], [0, 0, 1, 2]], dtype=np.int64)
    found = top_matches(first, edges, letters, weights, 2)
    assert found.score.tolist() == [2**55 + 3, 2**55 + 2]
    assert found.matches()[1][2] == (0, 3)
    with pytest.raises(OverflowError):
        top_matches(first, edges, letters, weights * 2**6, 2)


def test_rounding_that_makes_scores_equal():
    """0.1 + 0.2 is more than 0.3, but with 0.6 more both are the same: then the earlier rows win, though their prefix is the worse
    one."""
    first, edges = automaton("A B C")
    letters = np.array([1, 2, 1, 2, 4])
    weights = np.array([[0.3, 0, 0.1, 0, 0], [0, 0.0, 0, 0.2, 0], [0, 0, 0, 0, 1.0]])
    assert 0.1 + 0.2 > 0.3 + 0.0 and (0.1 + 0.2) + 1.0 == 0.3 + 1.0
    weights[1, 1], weights[0, 0] = 0.0, 0.3
    found = top_matches(first, edges, letters, weights, 2)
    everything = oracle.top(first, edges.tolist(), letters.tolist(), weights.tolist(), 2, 0, 5)
    assert listed(found, weights)[0] == expected(everything)


def test_what_is_refused_and_what_is_empty():
    first, edges = automaton("A B")
    letters, weights = np.array([1, 2]), np.ones((2, 2))
    with pytest.raises(ValueError, match="positive"):
        top_matches(first, edges, letters, weights, 0)
    with pytest.raises(ValueError, match="ascending"):
        top_matches(first, edges, letters, weights, 1, np.array([1, 0]), np.array([2, 2]))
    for count in (0, 1):
        assert top_matches(first, edges, letters[:count], weights[:, :count], 1).matches() == []
    assert (
        top_matches(first, edges, letters, weights, 1, np.array([], dtype=np.int64), np.array([], dtype=np.int64)).matches() == []
    )


@pytest.mark.parametrize("kind", ["distinct", "ties"])
def test_long_spans(kind):
    """Matches of bounded span are those of the windows that begin at each row."""
    rng = np.random.default_rng(6)
    n, size, k = 1200, 60, 10
    for pattern in ("A B C", "A B? C", "(A B)+"):
        first, edges = automaton(pattern)
        letters = 1 << rng.integers(0, 3, n)
        for trend in (0.0, 0.01, -0.01):
            weights = (rng.random((3, n)) if kind == "distinct" else rng.integers(0, 3, (3, n))) + trend * np.arange(n)
            low = np.arange(n)
            windows = top_matches(first, edges, letters, weights, k, low, np.minimum(low + size, n))
            everything = {(rows, taken): score for _, score, rows, taken in windows.matches()}
            expected_here = sorted(((score, rows, taken) for (rows, taken), score in everything.items()), key=oracle.order)[:k]
            for width in (None, k, k + 1):
                found = top_matches(first, edges, letters, weights, k, span=np.maximum(low - size + 1, 0), width=width)
                assert listed(found, weights)[0] == expected(expected_here)
