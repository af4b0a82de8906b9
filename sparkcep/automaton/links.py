"""Conditions between neighbours of a match: ``B.id = A.id`` where the row before each B is an A (CPR, section 3.2: edges of the stratified graph that join
conditions prune)."""

from __future__ import annotations

from typing import NamedTuple

from sparkcep.automaton.net import ACCEPT, E_TARGET, E_VAR, Net
from sparkcep.plan.define import looks_at_match
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ALL_ROWS


class Links(NamedTuple):
    """By node: the columns of the row taken last that must equal, one by one, those by edge of the row taken next; () where there are none."""

    nodes: tuple[tuple[str, ...], ...]
    edges: tuple[tuple[str, ...], ...]


def links_of(plan: Plan, automaton: Net) -> Links | None:
    """All conditions of a plan that look at the match as links; None where one of them is anything else."""
    tests: dict[int, list[tuple[int, str, str]]] = {}
    for variable, conjuncts in plan.conditions:
        for tree in filter(looks_at_match, conjuncts):
            test = _test(tree, variable)
            if test is None:
                return None
            tests.setdefault(variable, []).append(test)
    before = _taken_before(automaton)
    nodes: list[tuple[str, ...]] = [()] * automaton.nodes
    edges: list[tuple[str, ...]] = [()] * len(automaton.edges)
    for node in range(automaton.nodes):
        wanted = set()
        for e in range(int(automaton.first[node]), int(automaton.first[node + 1])):
            variable = int(automaton.edges[e, E_VAR])
            if variable == ACCEPT:
                continue
            own = sorted(tests.get(variable, ()))
            # the row that a test looks at must be the one before, whatever way led here
            if any(not before[node] or before[node] & ~mask for mask, *_ in own):
                return None
            wanted.add(tuple(left for _, left, _ in own))
            edges[e] = tuple(right for *_, right in own)
        if len(wanted) > 1:
            return None
        nodes[node] = wanted.pop() if wanted else ()
    return Links(tuple(nodes), tuple(edges))


def _test(tree: tuple, variable: int) -> tuple[int, str, str] | None:
    """(variables, column of their last row, column of this row) of an equality of both."""
    if tree[:2] != ("call", "=") or len(tree) != 4:
        return None
    own, other = tree[2:] if tree[2][0] == "col" else (tree[3], tree[2])
    if own[0] != "col" or other[0] != "nav" or other.mask == ALL_ROWS or other.mask >> variable & 1:
        return None
    plain = other.which == "L" and not other.logical and not other.physical and other.absent is None
    return (other.mask, other.column, own.column) if plain else None


def _taken_before(automaton: Net) -> list[int]:
    """For each node the variables of the rows that may have been taken last; 0 where there may be none."""
    masks = [0] * automaton.nodes
    for edge in automaton.edges.tolist():
        if edge[E_VAR] != ACCEPT:
            masks[edge[E_TARGET]] |= 1 << edge[E_VAR]
    masks[0] = 0  # also where a match comes back to it: the first row has none before
    return masks
