"""What agents know of a pattern before they learn: Algorithm 5 of RC-ACEP (VLDB 2016), by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.net.net import E_VAR
from sparkcep.engine.budget.best_effort import budget_net, shortest
from sparkcep.engine.budget.exploration import Explorer
from sparkcep.engine.factory import prepare
from sparkcep.kernels.budget import q_learning as exploring
from sparkcep.plan.build import make_plan


def explorer(pattern: str, k: int) -> Explorer:
    text = f"PARTITION BY p ORDER BY t PATTERN ({pattern}) WINDOW 9 APPROX {k} MATCH HISTORY DEFINE " + ", ".join(f"{v} AS s = '{v}'" for v in "ABCD" if v in pattern)
    plan = make_plan(parse_clause(text))
    schema = {name: pa.string() if sql.strip("()") == "p" else pa.int64() for name, sql in plan.inputs}
    prepared = prepare(plan, pa.schema([*schema.items(), ("__letters", pa.int8())]))
    assert plan.approximate is not None
    return Explorer(prepared.strategy.automaton, budget_net(prepared, True, None), plan.approximate)


@pytest.mark.parametrize(
    ("pattern", "distance", "after"),
    [
        ("A B C D", {0: 4, 1: 3, 2: 2, 3: 1, 4: 0}, {0: (1,), 1: (2,), 2: (3,), 3: (4,), 4: ()}),
        ("A B? C", {0: 2, 1: 1, 2: 1, 3: 0}, {0: (1,), 1: (2, 3), 2: (3,), 3: ()}),
        ("A (B | C D)", {0: 2, 1: 1, 2: 0, 3: 1, 4: 0}, {0: (1,), 1: (2, 3), 2: (), 3: (4,), 4: ()}),
        ("A B+ C", {0: 3, 1: 2, 2: 1, 3: 0}, {0: (1,), 1: (2,), 2: (3,), 3: ()}),  # a loop leads back, which no agent goes
    ],
)
def test_places_that_come_next_and_the_way_to_the_end(pattern, distance, after):
    found = explorer(pattern, 1).courses
    assert (found.distance, found.after) == (distance, after)


def test_rewards_halve_with_each_row_that_is_missing_to_the_end():
    """R = 1 in R / 2**distance. Another R would scale all values alike, and no choice of an agent would tell."""
    found = explorer("A B C D", 1)
    edges, places, agents = found.edges, found.budget.places, found.agents(1)
    own = [(int(places[edges[first]]), reward) for (first, end, _), reward in zip(found.options, found.rewards) if end > first]
    assert {place: {r for q, r in own if q == place} for place in (2, 3, 4)} == {2: {0.25}, 3: {0.5}, 4: {1.0}}
    assert agents.need == 4 and agents.rewards.tolist() == found.rewards


def test_a_value_goes_up_by_what_was_earned_and_by_what_is_expected():
    """alpha(n) = 60 / (59 + n), so that the first try makes the value, and gamma = 0.9."""
    agents = explorer("A B C D", 1).agents(1)
    agents.alive[0, exploring.G_ACTION] = 0
    for earned, expected, value in ((0.5, 0.0, 0.5), (0.25, 1.0, 0.5 + 60 / 61 * (0.25 + 0.9 - 0.5))):
        agents.earned[0] = earned
        exploring.learn(0, expected, agents)
        assert agents.values[0] == pytest.approx(value)
    assert agents.tries[0] == 2 and np.count_nonzero(agents.values) == 1


def test_a_skip_goes_where_something_may_follow():
    """With one error nothing is skipped behind it, so that a standing behind a skip has none."""
    found = explorer("A B C", 1)
    levels = {number: cost for cost, number in found.levels.items()}
    for number, (first, end, state) in found.rows.items():
        spent = levels[state % len(found.levels)]
        for _, _, on in found.options[first:end]:
            assert on == -1 or spent == 0, (number, spent)
    assert any(on != -1 for _, _, on in found.options) and (found.net.edges[:, E_VAR] >= 0).any()


@pytest.mark.parametrize(("pattern", "k", "rows"), [("A B C D", 1, 3), ("A B C D", 2, 2), ("(A B){3} C", 1, 6), ("A B? C+", 1, 1), ("A (B | C D)", 1, 1), ("A+ B{5,}", 2, 4)])
def test_rows_of_the_shortest_match(pattern, k, rows):
    assert shortest(explorer(pattern, k).net) == rows
