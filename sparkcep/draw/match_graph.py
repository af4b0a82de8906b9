"""Reads the result of MATCH_GRAPH(): all matches that end at one row, as a shared graph.

The SQL functions ``expand_matches``, ``count_matches`` and ``sample_matches`` use it. A graph is a list of nodes (position,
variable, before_from, before_until, complete), given as rows or tuples. A node's predecessors are the nodes with indexes in
[before_from, before_until); a first row has NULL there. Each path from a first row to a complete node is one match. A predecessor
has an earlier position, or the same position and a later index. Any other value is an error.

Example: ``[(1, "A", None, None, False), (2, "A", None, None, False), (3, "B", 0, 2, True)]`` has two matches, the rows 1 and 3, and
the rows 2 and 3.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Iterator, Sequence
from itertools import accumulate

from sparkcep.errors import LIMIT, MatchRuntimeError
from sparkcep.settings import DEFAULT, Settings

PAIR_BYTES = 100  # about the size of a listed row with its variable

Graph = Sequence[tuple]
Match = list[tuple[int, str]]
_POSITION, _VARIABLE, _FROM, _UNTIL, _COMPLETE = range(5)


def expand_matches(graph: Graph, limit: int | None = None, bounds: Settings = DEFAULT) -> list[Match]:
    """Returns at most ``limit`` matches in the graph's order, each as its (position, variable) pairs in row order.

    Raises MatchRuntimeError if they exceed the ``bounds``. If their number alone exceeds a bound, no match is listed first.
    """
    number = count_matches(graph)
    wanted = number if limit is None else max(min(limit, number), 0)
    return _listed("expand_matches", (match for match, _ in zip(_paths(graph), range(wanted))), wanted, bounds)


def _listed(function: str, matches: Iterator[Match], number: int, bounds: Settings) -> list[Match]:
    if number > bounds.max_matches:
        raise MatchRuntimeError(
            "MATCH_LIMIT",
            f"{function} would list {number} matches, more than sparkcep.maxMatchesPerPartition = {bounds.max_matches}; ask for fewer, or use "
            "count_matches or sample_matches",
            sqlstate=LIMIT,
        )
    found, pairs = [], 0
    for match in matches:
        found.append(match)
        pairs += len(match)
        if pairs * PAIR_BYTES > bounds.max_state_bytes:
            raise MatchRuntimeError(
                "STATE_LIMIT",
                f"{function} would list {number} matches, and the first {len(found)} already need more than sparkcep.maxStateBytes = "
                f"{bounds.max_state_bytes} bytes; ask for fewer, or use count_matches or sample_matches",
                sqlstate=LIMIT,
            )
    return found


def _paths(graph: Graph) -> Iterator[Match]:
    """Yields the matches, by a depth-first walk backwards from the complete nodes. Every path reaches a first row."""
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
    """Returns prefix sums: for each index, the number of paths into the nodes before it. Shape (nodes + 1,).

    The paths into a node are those of its range of predecessors. Raises MatchRuntimeError if the value is not a graph.
    """
    for n, node in enumerate(graph):
        _check(node, n, len(graph))
    counts = [0] * len(graph)
    # Predecessors have earlier positions, but may have later indexes, so ranges are summed row by row.
    ready, seen = _Prefix(len(graph)), _Prefix(len(graph))
    for n in sorted(range(len(graph)), key=lambda n: (graph[n][_POSITION], -n)):
        first, until = graph[n][_FROM], graph[n][_UNTIL]
        if first is None:
            counts[n] = 1
        else:
            if seen.before(until) - seen.before(first) < until - first:
                raise _no_graph(n, "one of its predecessors is not earlier")
            counts[n] = ready.before(until) - ready.before(first)
        ready.add(n, counts[n])
        seen.add(n, 1)
    return [0, *accumulate(counts)]


def _check(node: tuple, n: int, size: int) -> None:
    if not isinstance(node, Sequence) or isinstance(node, str) or len(node) != 5:
        raise _no_graph(n, "it is not a struct of position, variable, before_from, before_until, complete")
    position, _, first, until, complete = node
    if not isinstance(position, int) or not isinstance(complete, bool):
        raise _no_graph(n, "its position is not a whole number, or complete is not known")
    if (first is None) != (until is None):
        raise _no_graph(n, "only one of before_from and before_until is NULL")
    if first is not None and not (isinstance(first, int) and isinstance(until, int) and 0 <= first < until <= size):
        raise _no_graph(n, f"its predecessors {first} to {until} are not among the {size} nodes")


def _no_graph(n: int, why: str) -> MatchRuntimeError:
    return MatchRuntimeError("ARGUMENT", f"this array is not a graph from MATCH_GRAPH(): node {n}: {why}", sqlstate="22023")


class _Prefix:
    """Prefix sums of an array that is being filled (a Fenwick tree)."""

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
    """Returns the number of matches in the graph without listing them."""
    sums = _sums(graph)
    return sum(sums[n + 1] - sums[n] for n, node in enumerate(graph) if node[_COMPLETE])


def sample_matches(graph: Graph, n: int, seed: int, bounds: Settings = DEFAULT) -> list[Match]:
    """Returns ``n`` matches drawn independently and uniformly. Equal seeds give equal matches.

    Raises MatchRuntimeError if they exceed the ``bounds``.
    """
    sums = _sums(graph)
    rng = random.Random(seed)
    complete = [i for i, node in enumerate(graph) if node[_COMPLETE]]
    total = sum(sums[i + 1] - sums[i] for i in complete)
    wanted = max(n, 0) if total else 0
    return _listed("sample_matches", (_drawn(graph, sums, complete, rng.randrange(total)) for _ in range(wanted)), wanted, bounds)


def _drawn(graph: Graph, sums: list[int], complete: list[int], number: int) -> Match:
    """Returns the match with this number. The counts of the predecessors determine its path."""
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
