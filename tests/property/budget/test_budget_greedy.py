"""The paper's order against every choice there is: the first candidate covers most, and all that are tried at least 1 - 1/e of what
the best as many cover (RC-ACEP, VLDB 2016, Theorem 1)."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction
from itertools import combinations

import pytest

from sparkcep.engine.budget.best_effort import BestEffort
from tests.oracle import budget as oracle
from tests.property.budget import test_budget as choices
from tests.selection import first

MOST = 12  # candidates of a row of which every choice is looked at


class Watched(oracle.Budgeted):
    """Notes what each candidate of each row may cover: {row: (number of those tried, [{bundle: share}])}."""

    def answer(self, *about, **kinds):
        self.rows = {}
        return super().answer(*about, **kinds)

    def _tried(self, candidates, times, i, answer, promises, used=0):
        tried = super()._tried(candidates, times, i, answer, promises, used)
        known = [self._known(candidate, times, i) for candidate in candidates]
        self.rows[i] = len(tried), [dict.fromkeys(bundles, share) for share, bundles in known]
        return tried


def covered(some) -> Fraction:
    whole: dict = {}
    for shares in some:
        for bundle, share in shares.items():
            whole[bundle] = max(share, whole.get(bundle, Fraction(0)))
    return sum(whole.values(), Fraction(0))


@pytest.mark.parametrize("seed", first(range(8), wider=1))
def test_greedy_choices_cover_nearly_as_much_as_the_best(seed, monkeypatch):
    kept: list = []
    counted = BestEffort.count
    monkeypatch.setattr(BestEffort, "count", lambda self, search: (kept.append(search.ground.coverage.copy()), counted(self, search)))
    rng, tally = random.Random(f"greedy {seed}"), Counter()
    for _ in range(60):
        query = choices.random_budgeted(rng)
        query = Watched(query.pattern, query.takes, query.k, query.weights, query.window, query.proxies, query.checks)
        query.intervals = rng.choice([1, 2, 4])
        query.history = choices.random_history(rng, query) | {(1, Fraction(0), query.intervals, query.intervals - 1): (7, (0,))}
        ((letters, times),) = some = choices.random_partitions(rng, 1)
        kept.clear()
        choices.ran(choices.clause(query, f"{'PROXY' if query.proxies else 'ALL'} MATCHES", f"MEASURES {choices.REPORTED}"), query, some, None, choices.as_rows(query.history))
        (shares,) = kept
        query.answer(letters, times)
        for row, (tried, candidates) in query.rows.items():
            if tried == len(candidates) or len(candidates) > MOST:
                continue
            whole = covered(candidates)
            if not whole:
                assert shares[row] == 1
                continue
            best = max(map(covered, combinations(candidates, tried)))
            got = shares[row] * float(whole)
            assert (1 - 1 / math.e) * float(best) - 1e-9 <= got <= float(best) + 1e-9, f"{query} {letters} {times} {row}"
            if tried == 1:
                assert got == pytest.approx(float(best)), f"{query} {letters} {times} {row}"
                tally["first"] += 1
            tally["rows"] += 1
            tally["less"] += got < float(best) - 1e-9
    assert tally["rows"] >= 60 and tally["first"] >= 20
