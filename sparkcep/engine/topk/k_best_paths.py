"""The k best matches of a partition, of spans or of sliding windows by additive preferences (CPR, section 3.2), as k best paths.

Matches are not enumerated. A match is a sequence of (row, variable). Its score is the sum of its rows' weights in row order; larger
is better. Ties go to the lexicographically earliest row vector (a prefix first), then to preferment (the order of a node's edges).
NaN ranks last. The kernels and their method are in :mod:`sparkcep.kernels.topk.k_best`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparkcep.errors import TooMuchStateError
from sparkcep.kernels.common.run_chains import C_FIELDS
from sparkcep.kernels.topk import k_best as b
from sparkcep.kernels.topk.key_numbers import number_keys

COMPLETE = -1  # instead of a variable: the match may end at the node
POOL, ARENA, CANDIDATES = 1 << 12, 1 << 12, 1 << 8  # initial numbers of records


class Keys(NamedTuple):
    """Equalities between neighbouring rows of a match.

    A row taken into a keyed node has a left key. The next row must have the same right key. A key below 0 equals no key.
    There is a table of all keys, so they must be small.

    Attributes:
        keyed: 1 for nodes with keys. uint8 (nodes).
        left: int64 (nodes, rows).
        right: int64 (edges, rows).
    """

    keyed: np.ndarray
    left: np.ndarray
    right: np.ndarray


@dataclass(frozen=True)
class Ranked:
    """Matches by window, best first.

    Attributes:
        window: the window of each match. int64 (matches).
        score: its score, of the weights' type.
        offsets: match i has the rows from ``offsets[i]`` to before ``offsets[i + 1]``.
        rows, edges: the rows of all matches and the edges that took them. int64.
        builds: how often lists were built from all rows of a window.
    """

    window: np.ndarray
    score: np.ndarray
    offsets: np.ndarray
    rows: np.ndarray
    edges: np.ndarray
    builds: int = 0

    def matches(self) -> list[tuple]:
        """Returns (window, score, rows, edges) of each match."""
        rows, edges, at = self.rows.tolist(), self.edges.tolist(), self.offsets.tolist()
        return [
            (w, s, tuple(rows[low:high]), tuple(edges[low:high]))
            for w, s, low, high in zip(self.window.tolist(), self.score.tolist(), at, at[1:])
        ]


def top_matches(
    first: np.ndarray,
    edges: np.ndarray,
    letters: np.ndarray,
    weights: np.ndarray,
    k: int,
    low: np.ndarray | None = None,
    high: np.ndarray | None = None,
    *,
    heads: np.ndarray | None = None,
    span: np.ndarray | None = None,
    keys: Keys | None = None,
    width: int | None = None,
    max_bytes: int = 2**62,
) -> Ranked:
    """Returns the ``k`` best matches of each window. Rows between two rows of a match may be skipped (SKIP TILL ANY).

    Args:
        first: the first edge of each node. int64 (nodes + 1).
        edges: variable or COMPLETE, and target. int64 (m, >= 2).
        letters: bit v is set if the row fulfils variable v. int64 (rows).
        weights: float64 or int64 (variables, rows).
        k: how many matches.
        low, high: the first row of each window, and the row after its last one, both ascending. int64 (windows). Without them the
            partition is one window.
        heads: whether a window is the first one of a further partition. The rows of partitions are consecutive. bool (windows).
        span: a match that ends at row r begins at row ``span[r]`` or later. int64 (rows), ascending.
        keys: equalities between neighbouring rows.
        width: the entries of a node's list, for experiments. With k, each window is built from scratch.
        max_bytes: the limit on the bytes of lists and results.

    Raises:
        TooMuchStateError: the limit is exceeded.
    """
    if k < 1:
        raise ValueError(f"k must be positive, not {k}")
    n = len(letters)
    bounded = low is not None and high is not None
    if low is None or high is None:
        low, high = np.zeros(1, dtype=np.int64), np.full(1, n, dtype=np.int64)
    low, high = np.asarray(low, dtype=np.int64), np.asarray(high, dtype=np.int64)
    if (np.diff(low) < 0).any() or (np.diff(high) < 0).any() or (high > n).any() or (low < 0).any():
        raise ValueError("windows must be in ascending order, inside the partition")
    weights = np.asarray(weights)
    letters = np.asarray(letters, dtype=np.int64)
    if bounded and span is not None:
        if (span[np.maximum(high - 1, 0)] > low)[high > low].any():
            return _each(first, edges, letters, weights, k, low, high, span, keys, max_bytes)
        span = None
    heads = np.zeros(len(low), dtype=np.uint8) if heads is None else heads.astype(np.uint8)
    heads[:1] = 1
    task = _Task(np.asarray(first, dtype=np.int64), np.asarray(edges, dtype=np.int64), low, high, heads, span, keys, width, max_bytes)
    if weights.dtype.kind in "iu":
        return task.run_integers(letters, weights.astype(np.int64), k)
    return task.run_floats(letters, weights.astype(np.float64), k)


def _each(
    first: np.ndarray, edges: np.ndarray, letters: np.ndarray, weights: np.ndarray, k: int, low: np.ndarray, high: np.ndarray, span: np.ndarray,
    keys: Keys | None, max_bytes: int,
) -> Ranked:
    """Finds the best matches of each window separately."""
    parts = []
    for w, (begin, end) in enumerate(zip(low.tolist(), high.tolist())):
        at = slice(begin, end)
        own = keys and Keys(keys.keyed, keys.left[:, at], keys.right[:, at])
        found = top_matches(first, edges, letters[at], weights[:, at], k, span=np.maximum(span[at] - begin, 0), keys=own, max_bytes=max_bytes)
        parts.append((np.full(len(found.score), w), found.score, np.diff(found.offsets), found.rows + begin, found.edges))
    window, score, sizes, rows, taken = map(np.concatenate, zip(*parts))
    return Ranked(window, score, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), rows, taken)


class _Automaton(NamedTuple):
    """The automaton as the kernels take it.

    Attributes:
        net: the net without the parts that depend on keys: ``base`` and ``keyed`` are empty.
        number: the caller's number of each edge. int64 (edges).
        start: the node that replaces node 0 as the target of edges that lead back to it, or 0.
        variables: the number of variables.
        longest: the most rows of a match, -1 without a limit.
        most: the most rows of each variable in a match, -1 without a limit. int64 (variables).
    """

    net: b.KBestNet
    number: np.ndarray
    start: int
    variables: int
    longest: int
    most: np.ndarray


@functools.lru_cache(maxsize=64)
def _automaton(first_bytes: bytes, edge_bytes: bytes) -> _Automaton:
    """Makes the automaton from the bytes of ``first`` int64 (nodes + 1) and of ``edges`` int64 (m, 2).

    It is cached, because an engine needs it for each partition.
    """
    first = np.frombuffer(first_bytes, dtype=np.int64)
    variable, target = np.frombuffer(edge_bytes, dtype=np.int64).reshape(-1, 2).T
    nodes = len(first) - 1
    source = np.repeat(np.arange(nodes), np.diff(first))
    taking = variable != COMPLETE
    accepts = np.zeros(nodes + 1, dtype=np.uint8)
    accepts[source[~taking]] = 1
    number = np.arange(len(variable))
    start = 0
    if (taking & (target == 0)).any():
        # edges that lead back to the start get a node of their own
        start = nodes
        again = taking & (source == 0)
        target = np.where(taking & (target == 0), nodes, target)
        number = np.concatenate([number, number[again]])
        variable = np.concatenate([variable, variable[again]])
        source = np.concatenate([source, np.full(again.sum(), nodes)])
        target = np.concatenate([target, target[again]])
        taking = variable != COMPLETE
        accepts[nodes] = accepts[0]
    opens = np.zeros(nodes + 1, dtype=np.uint8)
    opens[source[taking]] = 1
    order = np.flatnonzero(taking)
    order = order[np.argsort(variable[order], kind="stable")].astype(np.int64)
    variables = int(variable.max(initial=0)) + 1
    by_first = np.searchsorted(variable[order], np.arange(variables + 1)).astype(np.int64)
    sources, targets, taken = source[taking], target[taking], variable[taking]
    longest = _longest(sources, targets, np.ones(len(taken), dtype=np.int64), nodes + 1)
    most = np.array([longest if longest >= 0 else _longest(sources, targets, (taken == v).astype(np.int64), nodes + 1) for v in range(variables)])
    none = np.empty(0, dtype=np.int64)
    net = b.KBestNet(by_first, order, source.astype(np.int64), target.astype(np.int64), opens, accepts, none, none)
    for array in (*net, number, most):
        array.flags.writeable = False
    return _Automaton(net, number, start, variables, longest, most)


class _Task:
    """One call of ``top_matches``: the automaton and the keys as the kernels take them."""

    def __init__(
        self,
        first: np.ndarray,
        edges: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        heads: np.ndarray,
        span: np.ndarray | None,
        keys: Keys | None,
        width: int | None,
        max_bytes: int,
    ) -> None:
        self.low, self.high, self.heads, self.width, self.max_bytes = low, high, heads, width, max_bytes
        self.rows = int((high - low).max(initial=0))  # rows of the longest window
        self.span = None if span is None else np.ascontiguousarray(span, dtype=np.int64)
        automaton = _automaton(first.tobytes(), edges[:, :2].tobytes())
        nodes, source = len(first) - 1, automaton.net.source
        lists = np.ones(nodes + 1, dtype=np.int64)
        keyed = np.zeros(nodes + 1, dtype=np.uint8)
        left = right = np.zeros((0, 0), dtype=np.int64)
        if keys is not None:
            keyed[:nodes] = keys.keyed
            starts = np.append(low[heads == 1], keys.left.shape[1])
            starts[0] = 0
            left, right = _dense(keys, np.repeat(np.arange(nodes), np.diff(first)), nodes, starts)
            if automaton.start:
                keyed[nodes] = keyed[0]
                left, right = np.vstack([left, left[:1]]), right[automaton.number]
            keyed[0] = 0  # no row comes before a first row
            for node in np.flatnonzero(keyed):
                lists[node] = max(int(left[node].max(initial=-1)), int(right[source == node].max(initial=-1))) + 1
        self.number, self.variables, self.longest, self.most = automaton.number, automaton.variables, automaton.longest, automaton.most
        self.lists = 1 + int(lists.sum())
        self.net = automaton.net._replace(base=1 + np.cumsum(lists) - lists, keyed=keyed)
        self.keys = (np.ascontiguousarray(left), np.ascontiguousarray(right))

    # -- scores ------------------------------------------------------------------------------------------------

    def run_integers(self, letters: np.ndarray, weights: np.ndarray, k: int) -> Ranked:
        largest = max(abs(int(weights.min(initial=0))), abs(int(weights.max(initial=0))))
        size: float = largest * self.longest_in(self.rows)  # an upper bound of all sums
        if size >= 2**53:
            size = min(size, self._largest_sum(weights))
        if size < 2**53:  # sums of floats are exact, and the float kernels are compiled anyway
            found = self._run(letters, weights.astype(np.float64), k, 0.0)
            return Ranked(found.window, found.score.astype(np.int64), found.offsets, found.rows, found.edges, found.builds)
        if size >= 2**61:
            raise OverflowError("sums of weights may exceed 64 bits")
        return self._run(letters, weights, k, 0.0)

    def run_floats(self, letters: np.ndarray, weights: np.ndarray, k: int) -> Ranked:
        """Finds the best matches by floating weights.

        The search relies on the order of sums, so rows with infinite or NaN weights are excluded from it. Searches of their own
        handle them.
        """
        weights = np.ascontiguousarray(weights[: self.variables])
        largest = np.array(b.largest_bits(np.ascontiguousarray(letters), weights.view(np.int64))).view(np.float64)
        if np.isfinite(largest):
            return self._run(letters, weights, k, self._slack(float(largest)))
        used = np.array([(letters >> v) & 1 == 1 for v in range(self.variables)])
        nan, up, down = (used & test for test in (np.isnan(weights), weights == np.inf, weights == -np.inf))
        finite = np.abs(weights, where=used & np.isfinite(weights), out=np.zeros_like(weights))
        slack = np.inf if up.any() or down.any() else self._slack(float(finite.max(initial=0.0)))
        without_nan = _without(letters, nan)
        if up.any() and down.any():
            found = united([self._run(_without(without_nan, bad), weights, k, slack) for bad in (up, down)], k)
        else:
            found = self._run(without_nan, weights, k, slack)
        if not nan.any() and not (up.any() and down.any()):
            return found
        counts = np.bincount(found.window, minlength=len(self.low))
        if (counts >= k).all():
            return found
        # fewer than k matches have a score: the others are among the first 2 k by rows alone
        firsts = self._run(letters, np.zeros_like(weights), 2 * k, 0.0)
        variables = self.net.source * 0
        variables[self.net.by_edge] = np.repeat(np.arange(self.variables), np.diff(self.net.by_first))
        taken = variables[firsts.edges]
        flags = np.array([mask[taken, firsts.rows] for mask in (nan, up, down)]).astype(np.int64)
        any_nan, any_up, any_down = (
            np.add.reduceat(f, firsts.offsets[:-1]) > 0 if len(f) else np.zeros(0, dtype=bool) for f in flags
        )
        return united([found, _chosen(firsts, any_nan | (any_up & any_down), np.nan)], k)

    def _largest_sum(self, weights: np.ndarray) -> float:
        """Returns an upper bound of all sums by the rows of each variable.

        A variable that occurs once in a match adds the weight of one row, such as a time in microseconds.
        """
        sizes = np.abs(weights[: self.variables].astype(np.float64))
        rows = np.where(self.most < 0, self.rows, np.minimum(self.most, self.rows))
        of_variables = np.minimum(rows * sizes.max(axis=1, initial=0.0), sizes.sum(axis=1))
        return (1.0 + 1e-9) * float(of_variables.sum())  # floating sums are rounded

    def longest_in(self, rows: int) -> int:
        return rows if self.longest < 0 else min(rows, self.longest)

    def _slack(self, largest: float) -> float:
        """Returns the largest difference between two sums that rounding may remove. Weights are at most ``largest``."""
        rows = self.longest_in(self.rows)
        size = largest * rows  # an upper bound of all sums of the window
        return 2.0 * (rows + 1) * float(np.spacing(size)) if np.isfinite(size) else np.inf

    # -- kernels -----------------------------------------------------------------------------------------------

    def _run(self, letters: np.ndarray, weights: np.ndarray, k: int, slack: float) -> Ranked:
        dtype = weights.dtype
        neg = dtype.type(-np.inf) if dtype.kind == "f" else np.int64(-(2**62))
        stream = b.KBestRows(np.ascontiguousarray(letters), np.ascontiguousarray(weights), *self.keys)
        width = self.width or self._width(k)
        guided = self.width != k and slack < np.inf
        most = np.fmax.reduce(weights, axis=1, initial=neg) if guided else weights[:0, 0]
        store = _Store(self.net, self.lists, dtype, self.max_bytes)
        if self.span is None:
            item, rest = b.rank_windows, (np.empty(0, dtype=np.int64), self.low, self.high, self.heads, k, width, guided, most, slack, neg)
        else:
            item, rest = b.rank_spans, (self.span, k, width, slack, neg)
        while True:
            code = item(b.KBestArrays(self.net, stream, store.pool, store.lists, store.work, store.used, store.state, store.out), *rest)
            if code == b.DONE:
                break
            if code == b.GROW:
                store.grow()
            else:
                store.grow_out()
        return store.ranked(self.number)

    def _width(self, k: int) -> int:
        """Returns a list size that makes rebuilt windows rare.

        Without a trend in the weights, a list's size varies by its square root.
        """
        if self.span is None and self.heads.all():
            return k  # each partition has one window
        return k + k // 2 + int(6 * k**0.5)


class _Store:
    """The arrays of the kernels."""

    def __init__(self, net: b.KBestNet, lists: int, dtype: np.dtype, max_bytes: int) -> None:
        self.dtype, self.max_bytes = dtype, max_bytes
        edges = max(len(net.source), 1)
        self.pool = np.empty((POOL, C_FIELDS), dtype=np.int64)
        self.lists = b.Lists(np.zeros((lists, 7), dtype=np.int64), np.zeros((lists, 4), dtype=dtype), *self._arena(ARENA))
        self.work = self._work(CANDIDATES, edges)
        self.used = np.zeros(6, dtype=np.int64)
        self.state = np.zeros(b.STATE, dtype=np.int64)
        self.out = self._out(64, 256)

    def _arena(self, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.empty(size, dtype=self.dtype), np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)

    def _work(self, size: int, edges: int) -> b.KBestWork:
        integers = [np.empty(size, dtype=np.int64) for _ in range(3)]
        parent, start, entry = integers
        runs = np.empty((2 * edges + 2, 7), dtype=np.int64)
        return b.KBestWork(
            np.empty(size, dtype=self.dtype),
            parent,
            start,
            np.empty(size, dtype=np.uint8),
            entry,
            runs,
            np.empty((2 * edges + 2, 2), dtype=self.dtype),
            np.empty(2 * edges + 2, dtype=np.int64),
            np.empty((2 * edges + 2, 3), dtype=self.dtype),
            np.empty(b.MARKS, dtype=np.uint8),
        )

    def _out(self, matches: int, events: int) -> b.Out:
        return b.Out(
            np.empty(matches, dtype=np.int64),
            np.empty(matches, dtype=self.dtype),
            np.zeros(matches + 1, dtype=np.int64),
            np.empty(events, dtype=np.int64),
            np.empty(events, dtype=np.int64),
        )

    def grow(self) -> None:
        """Makes room for the current row, after dropping records that no list reaches."""
        if self.used[b.U_CANDIDATES] > len(self.work.score):
            self.work = self._work(2 * int(self.used[b.U_CANDIDATES]), len(self.work.runs) // 2 - 1)
            self._check()
            return
        info = self.lists.info
        wanted = 2 * int(info[:, b.L_SIZE].sum()) + 4 * int(self.used[b.U_ROOM])
        arena = self._arena(max(wanted, len(self.lists.score)))
        b.compact(self.pool, self.lists, self.used, np.empty(len(self.pool), dtype=np.int64), *arena)
        self.lists = b.Lists(info, self.lists.bounds, *arena)
        wanted = 4 * int(self.used[b.U_POOL]) + 2 * (int(self.used[b.U_CANDIDATES]) + len(self.work.runs))
        if wanted > len(self.pool):
            pool = np.empty((2 * wanted, C_FIELDS), dtype=np.int64)
            pool[: self.used[b.U_POOL]] = self.pool[: self.used[b.U_POOL]]
            self.pool = pool
        self._check()

    def grow_out(self) -> None:
        """Doubles the room for matches, with room for at least one more window."""
        info = self.lists.info
        at, size = info[b.MATCHES, b.L_AT], info[b.MATCHES, b.L_SIZE]
        events = int(self.pool[self.lists.entry[at : at + size], 3].sum())
        out = self._out(2 * len(self.out.score) + int(size), 2 * len(self.out.rows) + events)
        for new, old in zip(out, self.out):
            new[: len(old)] = old
        self.out = out
        self._check()

    def _check(self) -> None:
        """Raises TooMuchStateError. It runs before anything is written to the new arrays."""
        if self.pool.nbytes + sum(a.nbytes for part in (self.lists, self.work, self.out) for a in part) > self.max_bytes:
            raise TooMuchStateError

    def ranked(self, number: np.ndarray) -> Ranked:
        m, e = int(self.state[b.S_MATCHES]), int(self.state[b.S_EVENTS])
        out = self.out
        return Ranked(
            out.window[:m], out.score[:m], out.offsets[: m + 1], out.rows[:e], number[out.edges[:e]], int(self.state[b.S_BUILDS])
        )


def _without(letters: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """Returns the letters without the (variable, row) pairs of ``bad``."""
    out = letters.copy()
    for v in np.flatnonzero(bad.any(axis=1)):
        out[bad[v]] &= ~(np.int64(1) << v)
    return out


def _chosen(found: Ranked, which: np.ndarray, score: float) -> Ranked:
    """Returns some of the matches, with the score ``score``."""
    lengths = np.diff(found.offsets)
    events = np.repeat(which, lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths[which])]).astype(np.int64)
    return Ranked(found.window[which], np.full(int(which.sum()), score), offsets, found.rows[events], found.edges[events])


def united(parts: list[Ranked], k: int) -> Ranked:
    """Returns the ``k`` best matches of each window among those of all parts."""
    unique = {(w, rows, edges): s for part in parts for w, s, rows, edges in part.matches()}

    def rank(item: tuple) -> tuple:
        (window, rows, edges), score = item
        return (window, score != score, -score if score == score else 0.0, rows, edges)

    kept, counts = [], {}
    for (window, rows, edges), score in sorted(unique.items(), key=rank):
        counts[window] = counts.get(window, 0) + 1
        if counts[window] <= k:
            kept.append((window, score, rows, edges))
    lengths = [len(rows) for _, _, rows, _ in kept]
    return Ranked(
        np.array([w for w, *_ in kept], dtype=np.int64),
        np.array([s for _, s, *_ in kept], dtype=parts[0].score.dtype),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.array([r for *_, rows, _ in kept for r in rows], dtype=np.int64),
        np.array([e for *_, edges in kept for e in edges], dtype=np.int64),
        sum(part.builds for part in parts),
    )


def _dense(keys: Keys, source: np.ndarray, nodes: int, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the keys as small numbers, separately for each node and partition: they number its lists.

    A right key without an equal left key becomes -1. ``starts``: the first row of each partition, and the end of the last one.
    """
    left, right = np.full((nodes, keys.left.shape[1]), -1, dtype=np.int64), np.full(keys.right.shape, -1, dtype=np.int64)
    for node in np.flatnonzero(keys.keyed):
        own, edges = np.array(keys.left[node]), np.flatnonzero(source == node)
        others = np.array(keys.right[edges])
        number = np.zeros(max(int(own.max(initial=-1)), int(others.max(initial=-1))) + 1, dtype=np.int64)
        number_keys(starts, own, others, number, np.full_like(number, -1))
        left[node], right[edges] = own, others
    return left, right


def _longest(source: np.ndarray, target: np.ndarray, cost: np.ndarray, nodes: int) -> int:
    """Returns the largest cost of a path, -1 if a cycle has a cost. ``cost`` has that of each edge, at least 0. int64 (edges)."""
    best = np.zeros(nodes, dtype=np.int64)
    for _ in range(nodes + 1):
        new = best.copy()
        np.maximum.at(new, target, best[source] + cost)
        if (new == best).all():
            return int(best.max())
        best = new
    return -1
