"""APPROX with a conjunction against its oracle: random clauses over random partitions."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from sparkcep.errors import ClauseError
from tests.oracle.selection import Budget
from tests.property.approx import approx_cases
from tests.property.approx.sides_cases import expected, random_case, seen
from tests.selection import first


class Tally:
    def __init__(self):
        self.pairs = self.matched = self.wrong = self.refused = 0

    def compare(self, case, some, **how):
        wanted = {}
        for p, rows in enumerate(some):
            try:
                wanted[p] = expected(case, rows)
            except Budget:
                continue
        try:
            got = approx_cases.run(case, {p: some[p] for p in wanted}, **how)
        except ClauseError as error:
            assert error.error_class == "SPARKCEP.PATTERN_TOO_COMPLEX", f"{error}\n{case.to_sql()}"
            self.refused += 1
            return
        for p, matches in wanted.items():
            have = seen(got.get(p, []))
            if have != matches:
                lost, added = Counter(matches) - Counter(have), Counter(have) - Counter(matches)
                pytest.fail(f"{case.to_sql()}\nrows {some[p]}\nonly the oracle: {list(lost)}\nonly the engine: {list(added)}\nor another order")
            self.pairs += 1
            self.matched += bool(matches)
            self.wrong += any(match[1] for match in matches)


def compare(rng, cases, count) -> Tally:
    tally = Tally()
    for i in range(cases):
        case = random_case(rng)
        some = [rows[: rng.randrange(1, 7)] for rows in approx_cases.partitions(rng, case, count)]
        tally.compare(case, some, **({}, {"chunk_rows": rng.randrange(1, 8)}, {"cuts": rng})[i % 3])
    return tally


@pytest.mark.parametrize("seed", first(range(24), wider=1))
def test_pairs_of_sides(seed):
    tally = compare(random.Random(f"sides {seed}"), 6, 20)
    assert tally.pairs >= 60 and tally.matched >= 0.1 * tally.pairs and tally.wrong >= 0.1 * tally.pairs
