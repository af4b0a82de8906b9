"""TOP k over any pattern, and over approximate matches, against the oracles that list, score and sort all matches."""

from __future__ import annotations

import random

import pytest

from tests.property.random_cases import difference
from tests.property.topk.approx_ranked_cases import random_nearest
from tests.property.topk.ranked_cases import engine, random_case, random_choice
from tests.selection import first

CASES = 5  # a seed


@pytest.mark.parametrize("seed", first(range(60), wider=2))
@pytest.mark.parametrize("make", [random_choice, random_nearest])
def test_the_engine_ranks_what_the_oracle_ranks(make, seed):
    rng, rows = random.Random(seed), 0
    for case in (random_case(rng, make) for _ in range(CASES)):
        found = difference(case, engine(case.query, rng.choice([None, None, 1, 3])))
        assert found is None or "PATTERN_TOO_COMPLEX" in found, found
        rows += sum(map(len, case.expected.values()))
    assert rows > 0
