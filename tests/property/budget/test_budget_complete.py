"""Under few checks, with agents and without: COMPLETE() matches have the rows and errors that they have without a budget, and what
is reported at all is a match. Of several ways to one match a budget may report another one."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.strategy import strategy_of
from sparkcep.engine.factory import match_table
from sparkcep.errors import ClauseError
from sparkcep.plan.build import make_plan
from tests.oracle.selection import ANY, NEXT
from tests.property.approx import approx_cases
from tests.property.approx.approx_cases import ALL, BUNDLES
from tests.property.budget.test_budget import budgeted_case
from tests.selection import first
from tests.support.caught import without_catching

OF_WAYS = ("missing", "label", "id")  # columns in which ways to one match differ


def matches(rows) -> list[tuple[bool, tuple]]:
    """Each match of a partition's output rows as (complete, its rows without their number and OF_WAYS)."""
    found: dict = {}
    for row in rows:
        found.setdefault(row["m"], []).append(row)
    return [(some[0].get("complete", True), tuple(repr(sorted((n, v) for n, v in row.items() if n not in ("m", "complete", *OF_WAYS))) for row in some)) for some in found.values()]


def compare(rng, pairs, shapes=("letters", "plain"), strategy=ANY) -> Counter:
    tally: Counter = Counter()
    while tally["pairs"] < pairs:
        case = budgeted_case(rng, shapes, strategy).with_(checks=0)
        if case.report == BUNDLES:
            continue  # what is complete of one may be a part of a greater one
        under = case.with_(checks=rng.choice([1, 1, 2, 3]), complete=True, explore=rng.random() < 0.6)
        try:
            strategy_of(make_plan(parse_clause(under.to_sql())))
        except ClauseError as error:
            assert error.error_class in ("SPARKCEP.BUDGET", "SPARKCEP.PATTERN_TOO_COMPLEX"), error
            continue
        some = dict(enumerate(approx_cases.partitions(rng, case, 24)))
        told, every, got = (approx_cases.run(one, some) for one in (case, case.with_(report=ALL), under))
        for p in some:
            wanted = Counter(match for _, match in matches(told.get(p, [])))
            have = matches(got.get(p, []))
            complete = Counter(match for done, match in have if done)
            assert not complete - wanted, f"{under.to_sql()}\n{some[p]}\n{complete - wanted}"
            places = {(row["first"], row["last"]) for row in every.get(p, [])}
            assert {(row["first"], row["last"]) for row in got.get(p, [])} <= places, f"{under.to_sql()}\n{some[p]}"
            tally["pairs"] += 1
            tally["complete"] += bool(complete)
            tally["lost"] += len(have) > sum(complete.values()) or bool(wanted - Counter(match for _, match in have))
    return tally


@pytest.mark.parametrize("seed", first(range(16), wider=1))
def test_complete_matches_have_the_rows_and_errors_they_have_without_a_budget(seed):
    tally = compare(random.Random(f"complete {seed}"), 600)
    assert tally["complete"] >= 75 and tally["lost"] >= 75


@pytest.mark.parametrize("seed", first(range(12), wider=1))
def test_complete_matches_with_a_negation(seed):
    tally = compare(random.Random(f"complete without {seed}"), 300, ("negation",))
    assert tally["complete"] >= 50 and tally["lost"] >= 50


@pytest.mark.parametrize("seed", first(range(8), 0, wider=1))
def test_complete_matches_under_skip_till_next(seed):
    tally = compare(random.Random(f"complete next {seed}"), 500, ("letters", "plain", "negation"), NEXT)
    assert tally["complete"] >= 50 and tally["lost"] >= 50


def test_of_equally_cheap_ways_a_budget_reports_the_one_whose_places_come_first():
    """One row is an A without its B, or a B without its A: by places the first, without a budget the second."""
    told = []
    for budget in ("", "BUDGET 9 CHECKS"):
        plan = without_catching(make_plan(parse_clause(f"PARTITION BY p ORDER BY t MEASURES array_agg(CLASSIFIER()) AS l, MISSING() AS m PATTERN (A B) WINDOW 6 APPROX 1 {budget} DEFINE A AS v >= B.v")))
        columns = {"p": [1], "t": [1], "v": [1]}
        found = match_table(plan, pa.table({name: pa.array(columns[text.strip("()")]) for name, text in plan.inputs})).to_pylist()
        told.append([[row[leaf] for _, leaf in plan.outputs] for row in found])
    assert told == [[[["B"], ["A"]]], [[["A"], ["B"]]]]
