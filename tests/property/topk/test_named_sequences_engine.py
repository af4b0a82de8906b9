"""TOP k over named sequences by the engine, against the oracle that lists, scores and sorts all matches."""

from __future__ import annotations

import collections
import random

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.searches import CONJUNCTION, PATHS, SEQUENCES, STREAMS, WALK
from sparkcep.compiler.strategy import strategy_of
from sparkcep.engine.topk import sequence_join, topk_sequences
from sparkcep.plan.build import make_plan
from tests.oracle.selection import Budget
from tests.property.random_cases import Case, by_the_engine, difference
from tests.property.topk import named_sequence_cases
from tests.property.topk.named_sequence_cases import random_case, random_partition, random_query
from tests.selection import first

CASES = 5  # a seed


@pytest.mark.parametrize("seed", first(range(60), wider=2))
def test_the_engine_lists_what_the_oracle_lists(seed):
    rng, rows = random.Random(seed), 0
    for case in (random_case(rng) for _ in range(CASES)):
        assert difference(case, by_the_engine) is None
        rows += sum(map(len, case.expected.values()))
    assert rows > 0


@pytest.mark.parametrize("seed", first(range(20), 0, wider=1))
def test_changes_of_the_list_of_all_partitions(seed):
    """REPORT CHANGES beside OVERALL: the windows are those that hold a row of any partition."""
    rng, retracted, cases = random.Random(seed), 0, 0
    while cases < 4:
        case = random_case(rng, overall=True)
        if not case.query.changes:
            continue
        cases += 1
        assert difference(case, by_the_engine) is None
        retracted += sum(row["change"] == "retract" for rows in case.expected.values() for row in rows)
    assert retracted > 0


@pytest.fixture
def joined(monkeypatch) -> list[bool]:
    """Whether each chunk of rows was answered by a join."""
    answers, whole = [], topk_sequences.TopkSequences.best

    def noted(*arguments):
        found = whole(*arguments)
        answers.append(found is not None)
        return found

    monkeypatch.setattr(topk_sequences.TopkSequences, "best", noted)
    return answers


def joined_query(rng, **wanted):
    """A clause that a join of sequences answers."""
    while True:
        query = random_query(rng, **wanted)
        if query is not None and query.top is not None and strategy_of(make_plan(parse_clause(query.to_sql()))).search == STREAMS:
            return query


@pytest.mark.parametrize("seed", first(range(40), wider=1))
def test_a_join_in_small_steps(seed, monkeypatch, joined):
    """Few groups are read together, and there is room for few combinations."""
    for name, value in (("READ_AT_ONCE", 40), ("AT_ONCE", 2), ("DEEPER_AT_ONCE", 1)):
        monkeypatch.setattr(topk_sequences, name, value)
    monkeypatch.setattr(sequence_join, "FIRST_ROOM", 2)
    rng, cases = random.Random(seed), 0
    while cases < 3 or (cases < 9 and not any(joined)):
        query = joined_query(rng, top=rng.choice([1, 3]))
        case = Case(query, {p: random_partition(rng, query) for p in range(4)})
        case.expected = query.answers(case.partitions)
        assert difference(case, by_the_engine) is None
        cases += 1
    assert any(joined)


@pytest.mark.parametrize("seed", first(range(30), wider=2))
def test_many_small_windows(seed, monkeypatch, joined):
    """Windows with few and with many matches are joined in one call. Some need more items than are read at first."""
    monkeypatch.setattr(named_sequence_cases, "LONGEST", 30)
    monkeypatch.setattr(topk_sequences, "FIRST_DEPTH", 1)
    rng, cases = random.Random(seed), 0
    while cases < 3 or (cases < 12 and not any(joined)):
        query = joined_query(rng, top=rng.choice([1, 3, 10]))
        if query.slide is None:
            continue
        case = Case(query, {p: random_partition(rng, query) for p in range(3)})
        try:
            case.expected = query.answers(case.partitions)
        except Budget:
            continue
        assert difference(case, by_the_engine) is None
        cases += any(case.expected.values())
    assert any(joined)


@pytest.mark.further
def test_an_enumeration_has_a_reason_and_each_search_answers_some_of_the_cases():
    rng, searches, moving = random.Random(1), collections.Counter(), collections.Counter()
    listed = of_update = 0
    for query in filter(None, (random_query(rng) for _ in range(300))):
        plan = make_plan(parse_clause(query.to_sql()))
        strategy = strategy_of(plan)
        if query.top is not None:
            assert strategy.ranks != bool(strategy.unranked), query.to_sql()
            listed += not strategy.ranks
            of_update += any("UPDATE" in reason.text for reason in strategy.unranked)
        searches[strategy.search] += 1
        moving[strategy.search] += plan.ranking is not None and bool(plan.ranking.moving)
    assert listed > 20 and of_update > 0
    assert min(searches[search] for search in (PATHS, SEQUENCES, STREAMS, WALK, CONJUNCTION)) > 0, searches
    assert sum(moving.values()) > 5, moving
