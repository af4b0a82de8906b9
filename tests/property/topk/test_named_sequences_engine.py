"""TOP k over named sequences by the engine, against the oracle that lists, scores and sorts all matches."""

from __future__ import annotations

import collections
import random

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.searches import CONJUNCTION, PATHS, SEQUENCES, STREAMS, WALK
from sparkcep.compiler.strategy import strategy_of
from sparkcep.plan.build import make_plan
from tests.property.random_cases import by_the_engine, difference
from tests.property.topk.named_sequence_cases import random_case, random_query
from tests.selection import first

CASES = 5  # a seed


def cases(seed: int, count: int):
    """Random clauses without REPORT CHANGES, which is refused beside TOP."""
    rng, found = random.Random(seed), 0
    while found < count:
        case = random_case(rng)
        if "REPORT CHANGES" not in case.text:
            found += 1
            yield case


@pytest.mark.parametrize("seed", first(range(60), wider=6))
def test_the_engine_lists_what_the_oracle_lists(seed):
    rows = 0
    for case in cases(seed, CASES):
        assert difference(case, by_the_engine) is None
        rows += sum(map(len, case.expected.values()))
    assert rows > 0


def test_each_search_answers_some_of_the_cases():
    rng, searches, moving = random.Random(1), collections.Counter(), collections.Counter()
    for query in filter(None, (random_query(rng) for _ in range(300))):
        if "REPORT CHANGES" in query.to_sql():
            continue
        plan = make_plan(parse_clause(query.to_sql()))
        strategy = strategy_of(plan)
        searches[strategy.search] += 1
        moving[strategy.search] += plan.ranking is not None and bool(plan.ranking.moving)
    assert min(searches[search] for search in (PATHS, SEQUENCES, STREAMS, WALK, CONJUNCTION)) > 0, searches
    assert sum(moving.values()) > 5, moving
