"""D-Yen, the thesis' baseline for ranked paths (section 4.2 of CPR): Yen's k shortest loopless paths (Management Science 1971),
called from window to window as in its Figure 3.8.

The graph is what a library for paths is given: vertices (stratum, row) and an edge to each later event of the next stratum, with
lengths that are not negative. A shortest path is a search after Dijkstra with a heap of vertices. It uses nothing of what the
thesis' own algorithm does: that weights belong to vertices, and that of all later events of a stratum only the best one counts.
Patterns are plain sequences, whose paths have equally many vertices.
"""

from __future__ import annotations

import heapq

import numba
import numpy as np

from tests.thesis.strata import END, DynamicPaths, Enumerator, Path, Step


@numba.njit
def _swap(heap, place, a, b):
    heap[a], heap[b] = heap[b], heap[a]
    place[heap[a]] = a
    place[heap[b]] = b


@numba.njit
def _up(heap, place, far, i):
    while i > 0 and far[heap[i]] < far[heap[(i - 1) // 2]]:
        _swap(heap, place, i, (i - 1) // 2)
        i = (i - 1) // 2


@numba.njit
def _down(heap, place, far, size):
    i = 0
    while True:
        least = i
        for child in (2 * i + 1, 2 * i + 2):
            if child < size and far[heap[child]] < far[heap[least]]:
                least = child
        if least == i:
            return
        _swap(heap, place, i, least)
        i = least


@numba.njit
def dijkstra(lengths, letters, stratum, after, low, high, new, banned, path):
    """The shortest way from the event ``after - 1`` of the stratum before ``stratum``, through one event of each stratum from it
    on, to an event from row ``new`` on: its rows are written to ``path``, and whether there is one is returned. ``lengths`` float64
    (strata, rows) of the edges into each event; ``banned``: rows of ``stratum`` that may not come next."""
    strata, rows = lengths.shape
    size = high - low
    far = np.full(strata * size, np.inf)
    before = np.full(strata * size, -1)
    place = np.full(strata * size, -1)
    heap = np.empty(strata * size, dtype=np.int64)
    count = 0
    v, r = stratum - 1, after - 1
    vertex = -1
    reached = 0.0
    while True:
        # ---- all edges from the vertex
        if v + 1 < strata:
            for p in range(r + 1, high):
                if (letters[p] >> (v + 1)) & 1 == 0:
                    continue
                if vertex < 0:
                    skip = False
                    for b in banned:
                        skip = skip or b == p
                    if skip:
                        continue
                other = (v + 1) * size + p - low
                length = reached + lengths[v + 1, p]
                if length < far[other]:
                    far[other] = length
                    before[other] = vertex
                    if place[other] < 0:
                        heap[count] = other
                        place[other] = count
                        count += 1
                    _up(heap, place, far, place[other])
        # ---- the nearest vertex is next
        while True:
            if count == 0:
                return False
            vertex = heap[0]
            count -= 1
            _swap(heap, place, 0, count)
            _down(heap, place, far, count)
            v, r, reached = vertex // size, vertex % size + low, far[vertex]
            if v < strata - 1 or r >= new:
                break
        if v == strata - 1:
            while vertex >= 0:
                path[vertex // size] = vertex % size + low
                vertex = before[vertex]
            return True


class EventGraph:
    """A stream as a graph, in place of the thesis' PQ-array. ``weights`` float64 (strata, rows)."""

    def __init__(self, letters: np.ndarray, weights: np.ndarray) -> None:
        self.letters, self.weights = np.asarray(letters, dtype=np.int64), np.ascontiguousarray(weights, dtype=np.float64)
        self.strata = len(weights)
        self.lengths = self.weights.max(initial=0.0) - self.weights
        self.searches = 0

    def ssp(self, prefix: tuple[Step, ...], banned: set[Step], low: int, high: int, new: int) -> Path | None:
        """As ``PQArray.ssp``; edges are numbered by their strata."""
        if len(prefix) == self.strata:
            return None if END in banned or prefix[-1][1] < new else _ranked(prefix, (), self.weights)
        if high <= low:
            return None
        self.searches += 1
        rows = np.empty(self.strata, dtype=np.int64)
        away = np.array([row for step, row in banned if step >= 0], dtype=np.int64)
        if not dijkstra(self.lengths, self.letters, len(prefix), prefix[-1][1] + 1 if prefix else low, low, high, new, away, rows):
            return None
        return _ranked(prefix, tuple(rows[len(prefix) :].tolist()), self.weights)


def _ranked(prefix: tuple[Step, ...], rows: tuple[int, ...], weights: np.ndarray) -> Path:
    rows = (*(row for _, row in prefix), *rows)
    score = 0.0
    for v, row in enumerate(rows):
        score = weights[v, row] if v == 0 else score + weights[v, row]
    return Path(-float(score), rows, tuple(range(len(rows))))


class YenPaths(Enumerator):
    """One path after the other, best first, each deviation sought from every vertex of the last path, as Yen does."""

    def next(self) -> Path | None:
        path = self.peek()
        if path is None:
            return None
        heapq.heappop(self.heap)
        for prefix in self._ban(path, 0):
            self._deviate(prefix)
        while self.heap and self.heap[0][0] == path:
            heapq.heappop(self.heap)
        return path

    def _deviate(self, prefix: tuple[Step, ...]) -> None:
        path = self.array.ssp(prefix, self.banned.get(prefix, set()), self.low, self.high, self.new)
        if path is not None and all(path != other for other, _ in self.heap):
            heapq.heappush(self.heap, (path, len(prefix)))


def yen(graph: EventGraph, k: int, low: int, high: int) -> list[Path]:
    """The k best paths of one window."""
    paths = YenPaths(graph, low, high)
    return [path for path in (paths.next() for _ in range(k)) if path is not None]


class DYen(DynamicPaths):
    """The top k of each window; those that are still valid are taken from the window before, and Yen's paths go on from there."""

    enumerator = YenPaths
