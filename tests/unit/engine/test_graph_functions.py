"""The functions over graphs of matches: bounded, and only over graphs."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.draw import match_graph
from sparkcep.engine.factory import match_table
from sparkcep.errors import MatchRuntimeError
from sparkcep.kernels.frontier.graph_order import order_graphs
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS
from sparkcep.settings import Settings

# every subsequence of rows 0 to 59 that begins with the first and ends with the last one: 2 ** 58
MANY = [(0, "A", None, None, False)] + [(i, "A", 0, i, i == 59) for i in range(1, 60)]


def test_all_of_very_many_matches_are_an_error_that_names_a_bound():
    assert match_graph.count_matches(MANY) == 2**58
    with pytest.raises(MatchRuntimeError, match=r"MATCH_LIMIT.*288230376151711744 matches.*maxMatchesPerPartition = 1000000000"):
        match_graph.expand_matches(MANY, None)
    with pytest.raises(MatchRuntimeError, match=r"MATCH_LIMIT.*expand_matches would list 101 .*maxMatchesPerPartition = 100"):
        match_graph.expand_matches(MANY, 101, Settings(max_matches=100))
    with pytest.raises(MatchRuntimeError, match=r"STATE_LIMIT.*maxStateBytes = 1000000"):
        match_graph.expand_matches(MANY, 10_000_000, Settings(max_state_bytes=1_000_000))
    with pytest.raises(MatchRuntimeError, match=r"MATCH_LIMIT.*sample_matches"):
        match_graph.sample_matches(MANY, 101, 1, Settings(max_matches=100))
    assert len(match_graph.expand_matches(MANY, 10)) == 10
    assert match_graph.expand_matches(MANY, 0) == match_graph.expand_matches(MANY, -1) == match_graph.sample_matches(MANY, -1, 0) == []


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([(0, "A", 0, 1, True)], "one of its predecessors is not earlier"),
        ([(1, "A", 1, 2, True), (2, "B", 0, 1, False)], "one of its predecessors is not earlier"),
        ([(0, "A", None, None, True), (1, "B", 0, 7, True)], "0 to 7 are not among the 2 nodes"),
        ([(0, "A", None, None, True), (1, "B", -1, 1, True)], "-1 to 1"),
        ([(0, "A", None, None, True), (1, "B", 1, 1, True)], "1 to 1"),
        ([(0, "A", None, 1, True)], "only one of"),
        ([(None, "A", None, None, True)], "position is not a whole number"),
        ([(0, "A", None, None, None)], "complete is not known"),
        ([None], "not a struct"),
        (["abcde"], "not a struct"),
        ([(0, "A")], "not a struct"),
    ],
)
def test_what_is_no_graph_is_an_error(nodes, why):
    for function in (lambda: match_graph.expand_matches(nodes, 1), lambda: match_graph.count_matches(nodes), lambda: match_graph.sample_matches(nodes, 1, 1)):
        with pytest.raises(MatchRuntimeError, match=f"ARGUMENT.*not a graph.*{why}"):
            function()


def test_a_row_that_serves_both_sides_is_its_own_predecessor():
    plan = make_plan(parse_clause("ORDER BY t MEASURES MATCH_COUNT() AS n, MATCH_GRAPH() AS g EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A & B) DEFINE A AS t > 0"))
    table = pa.table({name: pa.array(range(4)) for name, _ in plan.inputs} | {LETTERS: pa.array([0, 1, 1, 1], pa.int8())})
    found = match_table(plan, table)
    leaves = {spec.kind: found[name].to_pylist() for name, spec in plan.leaves}
    assert len(leaves["graph"]) == 3
    for number, nodes in zip(leaves["cnt"], leaves["graph"]):
        nodes = [tuple(node.values()) for node in nodes]
        assert match_graph.count_matches(nodes) == len(match_graph.expand_matches(nodes)) == number


@pytest.mark.parametrize("seed", range(3))
def test_nodes_stand_in_one_order_however_they_came(seed):
    """Classes of one first row, and nodes of one row in a class, are exchanged: the order is the same, and so are the matches."""
    rng, moved = random.Random(seed), 0
    for _ in range(60):
        given = _graph(rng)
        if len({(row, label) for row, label, *_ in given}) == len(given):
            continue  # the search makes nodes of a row variable by variable
        wanted, other = _ordered(given), _ordered(_exchanged(given, rng))
        assert other == wanted == _ordered(wanted)
        assert sorted(match_graph.expand_matches(_nodes(wanted))) == sorted(match_graph.expand_matches(_nodes(given)))
        moved += wanted != given
    assert moved > 10


def _graph(rng: random.Random) -> list[list[int]]:
    """Classes of nodes in rising rows; a node's predecessors are the first ones of a class, and the last row's nodes complete."""
    classes: list[list[list[int]]] = []
    for row in range(6):
        before = [(i, sum(node[0] < row for node in members)) for i, members in enumerate(classes)]
        before = [(i, count) for i, count in before if count]
        for _ in range(rng.randint(1, 3)):
            source = rng.choice([(-1, 0), *before])
            node = [row, rng.randint(0, 1), *source, int(row == 5)]
            if classes and row < 5 and rng.random() < 0.5:
                rng.choice(classes).append(node)
            else:
                classes.append([node])
    used = [max([node[3] for members in classes for node in members if node[2] == i], default=0) for i in range(len(classes))]
    whole = [i for i, members in enumerate(classes) if used[i] or members[0][0] == 5]
    if sorted(used[i] or 1 for i in whole) != sorted(len(classes[i]) for i in range(len(classes))):
        return _graph(rng)  # a node that leads nowhere is in not a graph
    return _flat(classes)


def _flat(classes: list[list[list[int]]]) -> list[list[int]]:
    begin = [sum(map(len, classes[:i])) for i in range(len(classes))]
    return [[row, label, *((begin[of], begin[of] + count) if of >= 0 else (-1, -1)), done] for members in classes for row, label, of, count, done in members]


def _exchanged(nodes: list[list[int]], rng: random.Random) -> list[list[int]]:
    begins = sorted({node[2] for node in nodes if node[2] >= 0})
    ends = {begin: max(node[3] for node in nodes if node[2] == begin) for begin in begins}
    classes, at = [], 0
    while at < len(nodes):
        classes.append(list(range(at, ends.get(at, at + 1))))
        at = classes[-1][-1] + 1
    classes = [sorted(members, key=lambda i: (nodes[i][0], rng.random())) for members in classes]
    order = sorted(range(len(classes)), key=lambda i: (nodes[classes[i][0]][0], rng.random()))
    number = {begin: place for place, i in enumerate(order) for begin in [min(classes[i])]}
    return _flat([[[*nodes[i][:2], *((number[nodes[i][2]], nodes[i][3] - nodes[i][2]) if nodes[i][2] >= 0 else (-1, 0)), nodes[i][4]] for i in classes[c]] for c in order])


def _ordered(nodes: list[list[int]]) -> list[list[int]]:
    items = np.array(nodes, dtype=np.int64)
    order_graphs(np.array([0, len(nodes)]), items, 6)
    return items.tolist()


def _nodes(items: list[list[int]]) -> list[tuple]:
    return [(row, "AB"[label], *((None, None) if begin < 0 else (begin, until)), bool(done)) for row, label, begin, until, done in items]
