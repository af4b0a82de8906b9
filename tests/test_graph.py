"""The functions over graphs of matches: bounded, and only over graphs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkcep import graph
from sparkcep.clause.parser import parse_clause
from sparkcep.engine.open import match_table
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS
from sparkcep.settings import Settings

# every subsequence of rows 0 to 59 that begins with the first and ends with the last one: 2 ** 58
MANY = [(0, "A", None, None, False)] + [(i, "A", 0, i, i == 59) for i in range(1, 60)]


def test_all_of_very_many_matches_are_an_error_that_names_a_bound():
    assert graph.count_matches(MANY) == 2**58
    with pytest.raises(MatchRuntimeError, match=r"MATCH_LIMIT.*288230376151711744 matches.*maxMatchesPerPartition = 1000000000"):
        graph.expand_matches(MANY, None)
    with pytest.raises(MatchRuntimeError, match=r"MATCH_LIMIT.*expand_matches would list 101 .*maxMatchesPerPartition = 100"):
        graph.expand_matches(MANY, 101, Settings(max_matches=100))
    with pytest.raises(MatchRuntimeError, match=r"STATE_LIMIT.*maxStateBytes = 1000000"):
        graph.expand_matches(MANY, 10_000_000, Settings(max_state_bytes=1_000_000))
    with pytest.raises(MatchRuntimeError, match=r"MATCH_LIMIT.*sample_matches"):
        graph.sample_matches(MANY, 101, 1, Settings(max_matches=100))
    assert len(graph.expand_matches(MANY, 10)) == 10
    assert graph.expand_matches(MANY, 0) == graph.expand_matches(MANY, -1) == graph.sample_matches(MANY, -1, 0) == []


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([(0, "A", 0, 1, True)], "a predecessor of it is not earlier"),
        ([(1, "A", 1, 2, True), (2, "B", 0, 1, False)], "a predecessor of it is not earlier"),
        ([(0, "A", None, None, True), (1, "B", 0, 7, True)], "0 to 7 are no nodes of the 2"),
        ([(0, "A", None, None, True), (1, "B", -1, 1, True)], "-1 to 1"),
        ([(0, "A", None, None, True), (1, "B", 1, 1, True)], "1 to 1"),
        ([(0, "A", None, 1, True)], "only one of"),
        ([(None, "A", None, None, True)], "position is no whole number"),
        ([(0, "A", None, None, None)], "complete is not known"),
        ([None], "no struct"),
        (["abcde"], "no struct"),
        ([(0, "A")], "no struct"),
    ],
)
def test_what_is_no_graph_is_an_error(nodes, why):
    for function in (lambda: graph.expand_matches(nodes, 1), lambda: graph.count_matches(nodes), lambda: graph.sample_matches(nodes, 1, 1)):
        with pytest.raises(MatchRuntimeError, match=f"ARGUMENT.*no graph.*{why}"):
            function()


def test_a_row_that_serves_both_sides_is_its_own_predecessor():
    plan = make_plan(parse_clause("ORDER BY t MEASURES MATCH_COUNT() AS n, MATCH_GRAPH() AS g EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A & B) DEFINE A AS t > 0"))
    table = pa.table({name: pa.array(range(4)) for name, _ in plan.inputs} | {LETTERS: pa.array([0, 1, 1, 1], pa.int8())})
    found = match_table(plan, table)
    leaves = {spec.kind: found[name].to_pylist() for name, spec in plan.leaves}
    assert len(leaves["graph"]) == 3
    for number, nodes in zip(leaves["cnt"], leaves["graph"]):
        nodes = [tuple(node.values()) for node in nodes]
        assert graph.count_matches(nodes) == len(graph.expand_matches(nodes)) == number
