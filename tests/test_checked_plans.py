"""Plans that arrive as JSON: another version's, or made by hand."""

from __future__ import annotations

import json
import random

import pytest

from sparkcep import __version__
from sparkcep.clause.parser import parse_clause
from sparkcep.errors import ClauseError
from sparkcep.plan import checked
from sparkcep.plan.plan import PLAN_HEAD, Plan, make_plan

CLAUSE = """PARTITION BY k ORDER BY t MEASURES FIRST(A.v) AS f, sum(B.v) AS s, CLASSIFIER() AS c AFTER MATCH SKIP TO LAST B
  PATTERN (A B{2,3} (C | PERMUTE(A, C))? {- D -}) SUBSET U = (A, B) DEFINE A AS v > 1, B AS v > PREV(v) AND v > max(U.v), C AS v = 2"""
APPROXIMATE = "ORDER BY t MEASURES MATCH_ERRORS() AS e PATTERN (A B C) WINDOW 5 APPROX 1 WEIGHTS (A 2) DEFINE A AS v > 1, B AS v < 3"
SELECTED = "ORDER BY t MEASURES LAST(v) AS l EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A ~B (C+) WITHIN 3) WINDOW 5 DEFINE A AS v > 1, C AS v > PRIOR(max(C.v))"


def members(clause: str = CLAUSE) -> dict:
    return json.loads(make_plan(parse_clause(clause)).to_json())


def refused(found: dict | str) -> ClauseError:
    with pytest.raises(ClauseError) as caught:
        Plan.from_json(found if isinstance(found, str) else json.dumps(found))
    return caught.value


@pytest.mark.parametrize("clause", [CLAUSE, APPROXIMATE, SELECTED])
def test_what_the_rewriter_makes_is_read(clause):
    plan = make_plan(parse_clause(clause))
    for made in (plan, plan.without_sql()):
        assert Plan.from_json(made.to_json()) == made
    assert plan.to_json().startswith(PLAN_HEAD)


@pytest.mark.parametrize(
    ("change", "maker"),
    [
        ({"format": 2, "made_by": "sparkcep 9.9"}, "sparkcep 9.9 (format 2)"),
        ({"future": 1, "made_by": "sparkcep 9.9"}, "sparkcep 9.9 (format 1)"),
        ({"format": None, "made_by": None}, "an older sparkcep (format None)"),
        ({"format": "1"}, f"sparkcep {__version__} (format 1)"),
    ],
)
def test_another_version_is_named(change, maker):
    error = refused(members() | change)
    assert error.error_class == "SPARKCEP.VERSION"
    assert maker in error.message and f"given to sparkcep {__version__} (format {checked.FORMAT})" in error.message


@pytest.mark.parametrize("left_out", ["format", "made_by", "selection", "windows", "bounds", "variables"])
def test_a_plan_without_a_member_is_refused(left_out):
    plan = members()
    del plan[left_out]
    assert refused(plan).error_class == "SPARKCEP.VERSION"


@pytest.mark.parametrize("text", ['{"variables":["A"]', '{"variables":' + "[" * 100_000])
def test_text_that_is_no_plan(text):
    assert refused(text).error_class == "SPARKCEP.ARGUMENT"


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("pattern", ["var", 1_000_000_000_000]),
        ("pattern", ["var", 63]),
        ("pattern", ["var", -1]),
        ("pattern", ["var", 4]),
        ("pattern", ["var", "0"]),
        ("pattern", ["var", True]),
        ("pattern", ["no such thing", 0]),
        ("pattern", ["repeat", ["var", 0], 3, 2, True]),
        ("pattern", ["repeat", ["var", 0], 0, 1 << 40, True]),
        ("pattern", ["within", ["var", 0], 1]),
        ("pattern", ["permute", *[["var", 0]] * 31]),
        ("pattern", "var"),
        ("pattern", []),
        ("skip", ["last", 16]),
        ("letters", [[4, 0, ""]]),
        ("letters", [[0, 63, ""]]),
        ("letters", [[0, 0, ""], [1, 0, ""]]),
        ("conditions", [[4, []]]),
        ("conditions", [[0, [["agg", "max", 16, "__c0", None, False]]]]),
        ("conditions", [[0, [["call", "not", ["nav", "F", 99, 0, 0, "__c0", None]]]]]),
        ("conditions", [[0, [["prior", 1, ["isfirst", -2]]]]]),
        ("leaves", [["__l0", ["nav", "F", 16, 0, 0, "__c0", True]]]),
        ("leaves", [["__l0", ["nav", "F", 1, 0, 1 << 40, "__c0", True]]]),
        ("leaves", [["__l0", []]]),
        ("variables", ["A"] * 63),
        ("variables", [1, 2]),
        ("approx", [0, 1, 1, [1], 1, []]),
        ("skip", 5),
    ],
)
def test_numbers_that_no_clause_gives(member, value):
    assert refused(members() | {member: value}).error_class == "SPARKCEP.ARGUMENT"


def _numbers(value, path=()):
    """The paths to all numbers inside."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers(item, (*path, key))
    elif type(value) is int:
        yield path


@pytest.mark.parametrize("clause", [CLAUSE, APPROXIMATE, SELECTED])
def test_random_changes_give_a_plan_or_an_error_of_ours(clause):
    chosen = random.Random(7)
    whole = members(clause)
    outcomes = set()
    for _ in range(300):
        plan = json.loads(json.dumps(whole))
        *above, last = chosen.choice(list(_numbers(plan)))
        holder = plan
        for key in above:
            holder = holder[key]
        holder[last] = chosen.choice([-1, 0, 1, 5, 63, 1 << 31, 10**12, None, "x", [], [0]])
        try:
            Plan.from_json(json.dumps(plan))
            outcomes.add("")
        except ClauseError as error:
            outcomes.add(error.error_class)
    assert "SPARKCEP.ARGUMENT" in outcomes and outcomes <= {"", "SPARKCEP.ARGUMENT", "SPARKCEP.VERSION"}
