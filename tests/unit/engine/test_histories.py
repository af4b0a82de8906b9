"""A history that a user made, as a search reads it."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.budget import history as histories
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.plan.build import make_plan
from tests.oracle import budget as oracle
from tests.property.budget import test_budget as choices

QUERY = oracle.Budgeted(
    ("cat", [("var", name) for name in "ABCD"]), {name: {name.lower()} for name in "ABCD"}, Fraction(3, 10), {"A": Fraction(1, 10), "B": Fraction(1, 5)}, 10, True, 1, {}, 1
)
_NAMES = ("place", "errors", "remaining", "idle", "visits", "bundles")


def history(*rows) -> list[dict]:
    return [{"pattern": None, **dict(zip(_NAMES, row))} for row in rows]


def found(rows: list[dict], sketch: str = "") -> list[tuple[int, ...]]:
    """The rows of the matches of a1 b4 c12 d13, of which one check a row finds the one without its a alone only where the history
    is worth more than the order of costs."""
    text = choices.clause(QUERY, "PROXY MATCHES", f"MEASURES {choices.REPORTED}").replace("AS PUBLISHED", f"AS PUBLISHED {sketch}")
    return [tuple(row["ids"]) for row in choices.ran(text, QUERY, [("abcd", [1, 4, 12, 13])], None, rows).get(0, [])]


def worth(errors, bundles, visits=4) -> list[dict]:
    """A history in which a run that begins without its a leads to these bundles."""
    return history((1, 0.0, 1, 0, 2, [7]), (2, errors, 1, 0, visits, bundles), (3, errors, 1, 0, 2, bundles), (4, errors, 1, 0, 2, bundles))


def test_the_plain_order_finds_another():
    assert found(history((1, 0.0, 1, 0, 2, [7]))) == [(2, 3)]


@pytest.mark.parametrize("errors", [0.1, float(np.float32(0.1))])
def test_errors_of_a_float(errors):
    assert found(worth(errors, [0, 1])) == [(1, 2, 3)]
    assert found(worth(errors, [0, 1]), "SKETCH (7, 101)") == [(1, 2, 3)]


def test_other_errors_are_of_no_run():
    assert found(worth(0.11, [0, 1])) == [(2, 3)]


def test_bundles_of_any_numbers():
    """In a sketch they are bits, of which the greatest of these would take 256 megabytes."""
    assert found(worth(0.1, [2_147_483_647, 5])) == found(worth(0.1, [2_147_483_647, 5]), "SKETCH (7, 101)") == [(1, 2, 3)]


def test_scores_of_very_many_bundles():
    """Of as many as 8192 whole scores, each 2**50, the sum would be below zero."""
    rows = worth(0.1, list(range(10_000)), visits=1)
    rows.append(history((2, 0.0, 1, 0, 1, [10_001]))[0])
    assert found(rows, "SKETCH (9, 1009)") == [(1, 2, 3)]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (worth(float("nan"), [0]), "errors is nan"),
        (worth(-1.0, [0]), "errors is -1.0"),
        (worth(0.1, [0], visits=1 << 61), f"more than {1 << 60} visits"),
        (worth(0.1, [0]) + worth(float(np.float32(0.1)), [0]), "occurs twice"),
    ],
)  # fmt: skip
def test_a_history_that_is_none(rows, why):
    with pytest.raises(MatchRuntimeError, match=why):
        found(rows)


def test_too_many_cells_are_told_before_a_job():
    with pytest.raises(ClauseError, match=r"a SKETCH of 9000000 cells .*line 2.*'3000, 3000'"):
        found(worth(0.1, [0]), "SKETCH (3000, 3000)")


def test_too_many_rows_of_a_sketch():
    with pytest.raises(MatchRuntimeError, match="a SKETCH of fewer rows"):
        found(worth(0.1, [0]), "SKETCH (1000000, 1)")


# pmod(xxhash64(place, errors, remaining, idle, i), 1000) for i of 0, 1 and 19, as Spark computes it
@pytest.mark.parametrize(("vector", "cells"), [
    ((1, 0.0, 1, 0), [407, 785, 38]),
    ((2, 0.5, 8, 7), [500, 762, 641]),
    ((2147483647, 1e300, 1000, 999), [773, 340, 149]),
    ((3, 1.1, 4, 2), [646, 33, 565]),
])  # fmt: skip
def test_cells_are_those_of_spark(vector, cells):
    columns = [np.array([part]) for part in vector]
    assert [int(histories._cells(*columns, i, 1000)[0]) for i in (0, 1, 19)] == cells


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (7, 30), (2, 997)])
def test_sketches_by_the_text_of_their_definition(size):
    """Of each vector the least count of its cells, and the bundles that all of them have."""
    rng, (depth, width) = random.Random(str(size)), size
    costs, places, intervals = [0.0, 0.5, 1.0], 4, 3
    every = [(p, e, r, i) for p in range(1, places + 1) for e in costs for r in range(1, intervals + 1) for i in range(intervals)]
    known = {vector: (rng.randrange(1, 50), rng.randrange(60), set(rng.sample(range(40), rng.randrange(6)))) for vector in rng.sample(every, 30)}

    def cell(vector, i):
        return int(histories._cells(*(np.array([part]) for part in vector), i, width)[0])

    counts, reached, bits = {}, {}, {}
    for vector, (visits, points, bundles) in known.items():
        for i in range(depth):
            at = i, cell(vector, i)
            counts[at] = counts.get(at, 0) + visits
            reached[at] = reached.get(at, 0) + points
            bits[at] = bits.get(at, set()) | bundles
    columns = [np.array(part) for part in zip(*known)]
    made = histories.Features(*columns, *(np.array([told[i] for told in known.values()]) for i in (0, 1)), [sorted(told[2]) for told in known.values()])
    got = histories.sketched(made, size, places, costs, intervals)
    have = {tuple(key): (visits, points, set(bundles)) for *key, visits, points, bundles in zip(*(a.tolist() for a in got[:6]), got.bundles)}
    for vector in every:
        cells = [(i, cell(vector, i)) for i in range(depth)]
        visits = min(counts.get(at, 0) for at in cells)
        common = set.intersection(*(bits.get(at, set()) for at in cells))
        assert have[vector] == (visits, min(reached.get(at, 0) for at in cells), common if visits else set())
        if vector in known:
            assert all(have[vector][i] >= known[vector][i] for i in range(3))


@pytest.mark.parametrize(("one", "other", "equal"), [("s = r'\\A'", "s = r'\\a'", False), ("s  =  'a' /* a */", "S = 'a'", True), ("s = X'AB'", "s = X'AC'", False), ("`s` = 1", "`S` = 1", False), ("s > :sparkcep_marker_1 AND s < 9", "s > :sparkcep_marker_3/**/AND s < 9", True)])
def test_fingerprints(one, other, equal):
    def parts(condition):
        plan = make_plan(parse_clause(f"ORDER BY t PATTERN (A B) WINDOW 3 APPROX 1 MATCH HISTORY DEFINE A AS {condition}"))
        return plan.approximate.history.parts

    assert (parts(one) == parts(other)) is equal
