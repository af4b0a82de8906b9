"""Ranked paths of the stratified stream graph as in CPR, section 3.2: SSP, NSSP, k-SSP, k-DSSP and the incremental iNSSP (section
3.4).

``sparkcep.engine.topk.k_best_paths`` finds the same matches faster; these are here to be compared with. Strata are the nodes of an
automaton, so that loops, alternatives and optional parts are paths as well. Scores are added in row order; the order is exact where
sums do not round.

A path is a tuple of (edge, row). Deviations follow Lawler (Management Science 1972): from the last found path only behind the
vertex where it left an earlier one, so that no path is found twice.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from tests.thesis import strata_kernels as s

Step = tuple[int, int]
END: Step = (-1, -1)


class Path(NamedTuple):
    """Ordered by rank: ``minus`` the score, rows, edges."""

    minus: float
    rows: tuple[int, ...]
    edges: tuple[int, ...]

    @property
    def score(self) -> float:
        return -self.minus

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(zip(self.edges, self.rows))


class PQArray:
    """A pattern query array over all rows of a stream: ``first`` int64 (nodes + 1), ``edges`` int64 (m, >= 2): variable (-1: the
    match may end) and target, ``letters`` int64 (rows), ``weights`` float64 (variables, rows)."""

    def __init__(self, first: np.ndarray, edges: np.ndarray, letters: np.ndarray, weights: np.ndarray) -> None:
        first = np.asarray(first, dtype=np.int64)
        edges = np.asarray(edges, dtype=np.int64)
        source = np.repeat(np.arange(len(first) - 1), np.diff(first))
        self.graph = s.Graph(
            first,
            source,
            np.ascontiguousarray(edges[:, 0]),
            np.ascontiguousarray(edges[:, 1]),
            np.asarray(letters, dtype=np.int64),
            np.ascontiguousarray(weights, dtype=np.float64),
        )
        nodes, rows = len(first) - 1, len(letters)
        pointers = [np.empty((nodes, rows), dtype=np.int64) for _ in range(3)]
        self.cells = s.Cells(
            np.empty((nodes, rows)), *pointers, np.empty((2, rows), dtype=np.int64), np.empty((2, rows), dtype=np.int64)
        )
        self.ends = [bool((edges[first[q] : first[q + 1], 0] < 0).any()) for q in range(nodes)]
        self.searches = 0

    def ssp(self, prefix: tuple[Step, ...], banned: set[Step], low: int, high: int, new: int) -> Path | None:
        """The best path through rows low..high-1 that begins with ``prefix`` and goes on by none of ``banned`` (END: stops there),
        its last row ``new`` or later."""
        self.searches += 1
        score = 0.0
        for i, (e, row) in enumerate(prefix):
            w = self.graph.weights[self.graph.variable[e], row]
            score = w if i == 0 else score + w
        node, after = (int(self.graph.target[prefix[-1][0]]), prefix[-1][1] + 1) if prefix else (0, low)
        steps = np.array([step for step in banned if step != END], dtype=np.int64).reshape(-1, 2)
        result = np.empty(3, dtype=np.int64)
        found = s.ssp(self.graph, self.cells, node, float(score), bool(prefix), after, low, high, new, steps, result)
        best = None
        if result[0] >= 0:
            at = s.walk(self.graph, self.cells, *result.tolist(), self.cells.one)
            tail_edges, tail_rows = self.cells.one[:, at:].tolist()
            best = _path(found, prefix, tail_rows, tail_edges)
        if prefix and self.ends[node] and END not in banned and prefix[-1][1] >= new:
            stop = _path(score, prefix, [], [])
            best = stop if best is None else min(best, stop)
        return best


def _path(score: float, prefix: tuple[Step, ...], rows: list[int], edges: list[int]) -> Path:
    return Path(-float(score), (*(row for _, row in prefix), *rows), (*(e for e, _ in prefix), *edges))


class Enumerator:
    """Next-Stratified-Shortest-Path (Figure 3.5): one path after the other, best first, through rows low..high-1, the last row
    ``new`` or later; behind those already ``known``, which must be the best ones."""

    def __init__(self, array: PQArray, low: int, high: int, new: int = 0, known: list[Path] | None = None) -> None:
        self.array, self.low, self.high, self.new = array, low, high, new
        self.heap: list[tuple[Path, int]] = []  # with the length of the prefix each deviates from
        self.banned: dict[tuple[Step, ...], set[Step]] = {}
        self.known = known or []
        self.began = False

    def _deviate(self, prefix: tuple[Step, ...]) -> None:
        path = self.array.ssp(prefix, self.banned.get(prefix, set()), self.low, self.high, self.new)
        if path is not None:
            heapq.heappush(self.heap, (path, len(prefix)))

    def _ban(self, path: Path, begin: int) -> list[tuple[Step, ...]]:
        steps = path.steps
        prefixes = [steps[:j] for j in range(begin, len(steps) + 1)]
        for j, prefix in enumerate(prefixes, begin):
            self.banned.setdefault(prefix, set()).add(steps[j] if j < len(steps) else END)
        return prefixes

    def peek(self) -> Path | None:
        if not self.began:
            self.began = True
            prefixes = {(): None}
            for path in self.known:
                prefixes.update(dict.fromkeys(self._ban(path, 0)))
            for prefix in prefixes:
                self._deviate(prefix)
        return self.heap[0][0] if self.heap else None

    def next(self) -> Path | None:
        path = self.peek()
        if path is None:
            return None
        _, begin = heapq.heappop(self.heap)
        for prefix in self._ban(path, begin):
            self._deviate(prefix)
        return path


def k_ssp(array: PQArray, k: int, low: int, high: int) -> list[Path]:
    """k-Stratified-Shortest-Path (Figure 3.6)."""
    paths = Enumerator(array, low, high)
    return [path for path in (paths.next() for _ in range(k)) if path is not None]


class Incremental:
    """iNSSP (Figure 3.16) after dUpdate-LP (Figure 3.15): the next best path of a window, from those known of the window before
    (``exist``) and those that end in a new row (``new``)."""

    def __init__(self, array: PQArray, low: int, high: int, seen: int, known: list[Path], enumerator: type[Enumerator] = Enumerator) -> None:
        self.known = known
        self.at = 0
        self.exist = enumerator(array, low, min(seen, high), 0, known)
        self.new = enumerator(array, low, high, max(seen, low))

    def next(self) -> Path | None:
        old = self.known[self.at] if self.at < len(self.known) else self.exist.peek()
        fresh = self.new.peek()
        if fresh is not None and (old is None or fresh < old):
            return self.new.next()
        if self.at < len(self.known):
            self.at += 1
            return old
        return self.exist.next()


class DynamicPaths:
    """k-Dynamic-Stratified-Shortest-Paths (Figure 3.8): the top k of each window, those that are still valid taken from the window
    before."""

    enumerator = Enumerator

    def __init__(self, array: PQArray, k: int) -> None:
        self.array, self.k = array, k
        self.seen = 0
        self.paths: list[Path] = []

    def move(self, low: int, high: int) -> list[Path]:
        """The k best paths of rows low..high-1; windows come in ascending order."""
        known = [path for path in self.paths if path.rows[0] >= low]
        incremental = Incremental(self.array, low, high, self.seen, known, self.enumerator)
        found = [path for path in (incremental.next() for _ in range(self.k)) if path is not None]
        self.paths, self.seen = found, max(self.seen, high)
        return found
