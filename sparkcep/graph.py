"""Reads what MATCH_GRAPH() gives: all matches that end at one row, as one graph.

A graph is a list of nodes (position, variable, before_from, before_until, complete): rows or tuples in this order. A node's
predecessors are the nodes from ``before_from`` to before ``before_until``; a first row has None. Each path from a first row to
a complete node is one match.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Iterator, Sequence

Graph = Sequence[tuple]
Match = list[tuple[int, str]]
_POSITION, _VARIABLE, _FROM, _UNTIL, _COMPLETE = range(5)


def expand_matches(graph: Graph, limit: int | None = None) -> list[Match]:
    """The matches, each as its (position, variable) in row order; at most ``limit`` of them, in the graph's order."""
    found: list[Match] = []
    if limit is not None and limit <= 0:
        return found
    for match in _paths(graph):
        found.append(match)
        if len(found) == limit:
            break
    return found


def _paths(graph: Graph) -> Iterator[Match]:
    """Depth first from the complete nodes backwards; no path leads nowhere."""
    path: list[tuple[int, str]] = []
    todo: list[tuple[int, int]] = [(n, 0) for n in range(len(graph) - 1, -1, -1) if graph[n][_COMPLETE]]
    while todo:
        n, depth = todo.pop()
        node = graph[n]
        del path[depth:]
        path.append((node[_POSITION], node[_VARIABLE]))
        if node[_FROM] is None:
            yield path[::-1]
        else:
            todo.extend((before, depth + 1) for before in range(node[_UNTIL] - 1, node[_FROM] - 1, -1))


def _sums(graph: Graph) -> list[int]:
    """For each index the number of paths into the nodes before it; a node's own are those of its range."""
    counts = [0] * len(graph)
    sums = [0] * (len(graph) + 1)
    # predecessors have earlier positions, but may stand behind in the array, so ranges are summed row by row
    ready = _Prefix(len(graph))
    for n in sorted(range(len(graph)), key=lambda n: graph[n][_POSITION]):
        node = graph[n]
        counts[n] = 1 if node[_FROM] is None else ready.before(node[_UNTIL]) - ready.before(node[_FROM])
        ready.add(n, counts[n])
    for n, count in enumerate(counts):
        sums[n + 1] = sums[n] + count
    return sums


class _Prefix:
    """Sums of the first numbers of an array while it is filled (a Fenwick tree)."""

    def __init__(self, size: int) -> None:
        self.tree = [0] * (size + 1)

    def add(self, at: int, number: int) -> None:
        at += 1
        while at < len(self.tree):
            self.tree[at] += number
            at += at & -at

    def before(self, end: int) -> int:
        total = 0
        while end > 0:
            total += self.tree[end]
            end -= end & -end
        return total


def count_matches(graph: Graph) -> int:
    """How many matches the graph holds, without listing them."""
    sums = _sums(graph)
    return sum(sums[n + 1] - sums[n] for n, node in enumerate(graph) if node[_COMPLETE])


def sample_matches(graph: Graph, n: int, seed: int) -> list[Match]:
    """``n`` matches drawn independently, each match equally likely; the same for the same seed."""
    sums = _sums(graph)
    rng = random.Random(seed)
    complete = [i for i, node in enumerate(graph) if node[_COMPLETE]]
    total = sum(sums[i + 1] - sums[i] for i in complete)
    return [_drawn(graph, sums, complete, rng.randrange(total)) for _ in range(n if total else 0)]


def _drawn(graph: Graph, sums: list[int], complete: list[int], number: int) -> Match:
    """The match of this number: which predecessor it goes through is told by their counts."""
    at = 0
    for at in complete:
        count = sums[at + 1] - sums[at]
        if number < count:
            break
        number -= count
    path: Match = []
    while True:
        node = graph[at]
        path.append((node[_POSITION], node[_VARIABLE]))
        if node[_FROM] is None:
            return path[::-1]
        number += sums[node[_FROM]]
        at = bisect.bisect_right(sums, number, node[_FROM], node[_UNTIL]) - 1
        number -= sums[at]
