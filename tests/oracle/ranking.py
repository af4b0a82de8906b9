"""Naive twin of the ranking of matches: every match enumerated, then sorted. Imports nothing from sparkcep."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

Match = tuple[float, tuple[int, ...], tuple[int, ...]]  # score, rows, edges


class TooMany(Exception):
    """More matches than are worth sorting."""


def matches(
    first: Sequence[int],
    edges: Sequence[Sequence[int]],
    letters: Sequence[int],
    low: int,
    high: int,
    keyed: Sequence[int] = (),
    left: Sequence[Sequence[int]] = (),
    right: Sequence[Sequence[int]] = (),
    budget: int = 20_000,
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(rows, edges) of every match in rows low..high-1; an edge is (variable, target), variable -1: the match may end."""
    left_of = 0
    todo: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = [(0, (), ())]
    while todo:
        node, rows, taken = todo.pop()
        for e in range(first[node], first[node + 1]):
            variable, target = edges[e][0], edges[e][1]
            if variable < 0:
                if rows:
                    left_of += 1
                    if left_of > budget:
                        raise TooMany
                    yield rows, taken
                continue
            for row in range(rows[-1] + 1 if rows else low, high):
                if not letters[row] >> variable & 1:
                    continue
                if rows and len(keyed) and keyed[node]:
                    key = left[node][rows[-1]]
                    if key < 0 or key != right[e][row]:
                        continue
                todo.append((target, (*rows, row), (*taken, e)))


def scored(
    edges: Sequence[Sequence[int]], weights: Sequence[Sequence[float]], found: tuple[tuple[int, ...], tuple[int, ...]]
) -> Match:
    """The match with its score: weights added in row order."""
    rows, taken = found
    values = [weights[edges[e][0]][row] for row, e in zip(rows, taken)]
    score = values[0]
    for value in values[1:]:
        score = score + value
    return score, rows, taken


def order(match: Match) -> tuple:
    """Larger scores first, NaN last; earliest rows (a prefix first); then the edge that stands first."""
    score, rows, taken = match
    missing = score != score
    return missing, 0 if missing else -score, rows, taken


def top(
    first: Sequence[int],
    edges: Sequence[Sequence[int]],
    letters: Sequence[int],
    weights: Sequence[Sequence[float]],
    k: int,
    low: int,
    high: int,
    keep: Callable[[tuple[int, ...]], bool] = lambda rows: True,
    **keys,
) -> list[Match]:
    """The k best matches of rows low..high-1 whose rows ``keep`` accepts."""
    found = [scored(edges, weights, m) for m in matches(first, edges, letters, low, high, **keys) if keep(m[0])]
    return sorted(found, key=order)[:k]


# -- rank join --------------------------------------------------------------------------------------------------


def joined(
    queues: Sequence[Sequence[tuple[float, int]]],
    k: int,
    combine: Callable[[list[float]], float],
    accepts: Callable[[tuple[int, ...]], bool] = lambda t: True,
) -> list[tuple[float, tuple[int, ...]]]:
    """The k best combinations of one (score, key) of each queue, all keys equal: (score, positions in the queues), best first, then
    earliest positions."""
    out = []
    for positions in itertools.product(*(range(len(q)) for q in queues)):
        items = [q[p] for q, p in zip(queues, positions)]
        if len({key for _, key in items}) == 1 and accepts(positions):
            out.append((combine([score for score, _ in items]), positions))
    return sorted(out, key=lambda item: (-item[0], item[1]))[:k]


# -- objectives of branches ---------------------------------------------------------------------------------------


def alternatives(pattern: tuple) -> Iterator[tuple[list, frozenset]]:
    """(all variables of the branch as they stand, those that stand in it alone) of each branch of each alternation, outer ones
    first. A pattern is ("var", name), ("rep", pattern, ...), or ("cat" | "alt" | "permute", [patterns])."""
    whole = standing(pattern)

    def inside(part: tuple) -> Iterator[tuple[list, frozenset]]:
        for branch in children(part):
            if part[0] == "alt":
                here = standing(branch)
                yield here, frozenset(name for name in here if here.count(name) == whole.count(name))
            yield from inside(branch)

    yield from inside(pattern)


def children(pattern: tuple) -> Sequence[tuple]:
    return [] if pattern[0] == "var" else pattern[1] if isinstance(pattern[1], list) else [pattern[1]]


def standing(pattern: tuple) -> list:
    return [pattern[1]] if pattern[0] == "var" else [name for part in children(pattern) for name in standing(part)]


def score_of_branches(pattern: tuple, objectives: Sequence[tuple], combine: str, taken: dict):
    """The score of a match. ``objectives``: (MAX or MIN, variables without a row of which it is NULL, value in this match or None);
    ``taken``: the rows of each variable. An objective that needs a variable of a branch counts only where the match has a row of
    what stands in that branch alone."""
    branches = list(alternatives(pattern))
    counted = []
    for goal, needed, value in objectives:
        present = True
        for name in needed:
            own = [alone for _, alone in branches if name in alone]
            present = present and (not own or any(taken.get(other) for other in own[-1]))
        if present:
            counted.append(value if goal == "MAX" or value is None else -value)
    if not counted or None in counted:
        return None
    if combine == "PRODUCT":
        whole = counted[0]
        for value in counted[1:]:
            whole = whole * value
        return whole
    return {"SUM": sum, "AVG": lambda found: sum(found) / len(found), "MIN": min, "MAX": max}[combine](counted)
