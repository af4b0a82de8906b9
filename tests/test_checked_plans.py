"""Plans that arrive as JSON: another version's, or made by hand."""

from __future__ import annotations

import json
import random
from importlib import resources

import pytest

from sparkcep import __version__
from sparkcep.clause.parser import parse_clause
from sparkcep.errors import ClauseError
from sparkcep.plan import checked
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS, PLAN_HEAD, Plan

CLAUSE = """PARTITION BY k ORDER BY t MEASURES FIRST(A.v) AS f, sum(B.v) AS s, CLASSIFIER() AS c AFTER MATCH SKIP TO LAST B
  PATTERN (A B{2,3} (C | PERMUTE(A, C))? {- D -}) SUBSET U = (A, B) DEFINE A AS v > 1, B AS v > PREV(v) AND v > max(U.v), C AS v = 2"""
APPROXIMATE = "ORDER BY t MEASURES MATCH_ERRORS() AS e PATTERN (A B C) WINDOW 5 APPROX 1 WEIGHTS (A 2) DEFINE A AS v > 1, B AS v < 3"
SELECTED = "ORDER BY t MEASURES LAST(v) AS l EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A ~B (C+) WITHIN 3) WINDOW 5 DEFINE A AS v > 1, C AS v > PRIOR(max(C.v))"
AUTOMATON = """ORDER BY t MEASURES FIRST(t) AS f, n AS n, e AS e, CLASSIFIER() AS c AUTOMATON (REGISTER n INT = 0, m STRING STATE q0 START, q2 FINAL
  ARC up FROM q0 TO q1 WHEN v > 1 SET n = n + 1, m = s ARC FROM q1 TO q1 WHEN v > n SET n = v EMIT (n AS e) ARC FROM q1 TO q2 ON EMPTY WHEN n > 3) WINDOW 5"""

VALUE = {"kind": "nav", "which": "F", "mask": 1, "logical": 0, "physical": 0, "column": "__c0"}
AGGREGATE = {"kind": "agg", "function": "max", "mask": 1, "column": "__c0", "keep": None, "distinct": False}


def members(clause: str = CLAUSE) -> dict:
    return json.loads(make_plan(parse_clause(clause)).to_json())


def refused(found: dict | str) -> ClauseError:
    with pytest.raises(ClauseError) as caught:
        Plan.from_json(found if isinstance(found, str) else json.dumps(found))
    return caught.value


@pytest.mark.parametrize("clause", [CLAUSE, APPROXIMATE, SELECTED, AUTOMATON])
def test_what_the_rewriter_makes_is_read(clause):
    plan = make_plan(parse_clause(clause))
    for made in (plan, plan.without_sql()):
        assert Plan.from_json(made.to_json()) == made
    assert plan.to_json().startswith(PLAN_HEAD)


@pytest.mark.parametrize(
    ("change", "maker"),
    [
        ({"format": 99, "made_by": "sparkcep 9.9"}, "sparkcep 9.9 (format 99)"),
        ({"future": 1, "made_by": "sparkcep 9.9"}, f"sparkcep 9.9 (format {checked.FORMAT})"),
        ({"format": None, "made_by": None}, "an older sparkcep (format None)"),
        ({"format": 1}, f"sparkcep {__version__} (format 1)"),
        ({"format": str(checked.FORMAT)}, f"sparkcep {__version__} (format {checked.FORMAT})"),
    ],
)
def test_another_version_is_named(change, maker):
    error = refused(members() | change)
    assert error.error_class == "SPARKCEP.VERSION"
    assert maker in error.message and f"given to sparkcep {__version__} (format {checked.FORMAT})" in error.message


def test_another_version_of_the_same_format_is_said_once(caplog):
    checked._say_other.cache_clear()
    for _ in range(2):
        Plan.from_json(json.dumps(members() | {"made_by": "sparkcep 9.9"}))
        Plan.from_json(json.dumps(members()))
    (record,) = caplog.records
    assert record.getMessage().startswith(f"a plan made by sparkcep 9.9 runs with sparkcep {__version__}: ")


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
        ("pattern", {"kind": "repeat", "item": ["var", 0], "low": 3, "high": 2, "greedy": True}),
        ("pattern", {"kind": "repeat", "item": ["var", 0], "low": 0, "high": 1 << 40, "greedy": True}),
        ("pattern", {"kind": "repeat", "item": ["var", 0], "low": 0, "high": 1}),
        ("pattern", {"kind": "repeat", "item": ["var", 4], "low": 0, "high": 1, "greedy": True}),
        ("pattern", ["repeat", ["var", 0], 0, 1, True]),
        ("pattern", {"kind": "within", "item": ["var", 0], "window": 1}),
        ("pattern", ["permute", *[["var", 0]] * 31]),
        ("pattern", "var"),
        ("pattern", []),
        ("skip", {"mode": "last", "targets": 16, "place": None}),
        ("letters", [{"variable": 4, "bit": 0, "text": ""}]),
        ("letters", [{"variable": 0, "bit": 63, "text": ""}]),
        ("letters", [{"variable": 0, "bit": 0, "text": ""}, {"variable": 1, "bit": 0, "text": ""}]),
        ("letters", [[0, 0, ""]]),
        ("conditions", [{"variable": 4, "trees": []}]),
        ("conditions", [{"variable": 0, "trees": [AGGREGATE | {"mask": 16}]}]),
        ("conditions", [{"variable": 0, "trees": [["agg", "max", 16, "__c0", None, False]]}]),
        ("conditions", [{"variable": 0, "trees": [["call", "not", VALUE | {"mask": 99, "absent": None}]]}]),
        ("conditions", [{"variable": 0, "trees": [{"kind": "prior", "mask": 1, "tree": {"kind": "isfirst", "mask": -2}}]}]),
        ("conditions", [{"variable": 0, "trees": [{"kind": "no such thing"}]}]),
        ("leaves", [{"name": "__l0", "spec": VALUE | {"mask": 16, "final": True}}]),
        ("leaves", [{"name": "__l0", "spec": VALUE | {"physical": 1 << 40, "final": True}}]),
        ("leaves", [{"name": "__l0", "spec": VALUE}]),
        ("leaves", [{"name": "__l0", "spec": []}]),
        ("variables", ["A"] * 63),
        ("variables", [1, 2]),
        ("approximate", {"report": "ALL", "scale": 1, "bound": 1, "missing": [1], "extra": 1, "violation": []}),
        ("skip", 5),
    ],
)
def test_numbers_that_no_clause_gives(member, value):
    assert refused(members() | {member: value}).error_class == "SPARKCEP.ARGUMENT"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("start",), 3), (("final", 0), 3), (("arcs", 0, "source"), -1), (("arcs", 0, "target"), 3), (("arcs", 0, "letter"), 63), (("arcs", 0, "label"), 2),
        (("arcs", 0, "on"), "nothing"), (("arcs", 0, "sets", 0, "register"), 2), (("arcs", 1, "emits"), [["mno"], ["mno"]]),
        (("arcs", 0, "sets", 0, "tree"), {"kind": "no such thing"}), (("registers",), []), (("arcs", 0, "on"), None), (("states",), ["q0"]), (("emits",), []),
    ],
)  # fmt: skip
def test_automata_that_no_clause_gives(path, value):
    plan = members(AUTOMATON)
    holder = plan["automaton"]
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    assert refused(plan).error_class == "SPARKCEP.ARGUMENT"


def test_the_smallest_changes_are_plans():
    """The wrong ones above are wrong for what they change."""
    for member, value in (
        ("conditions", [{"variable": 0, "trees": [AGGREGATE, VALUE | {"absent": None}]}]),
        ("leaves", [{"name": "__l0", "spec": VALUE | {"final": True}}]),
        ("pattern", {"kind": "repeat", "item": ["var", 0], "low": 0, "high": 1, "greedy": True}),
        ("skip", {"mode": "last", "targets": 8, "place": None}),
    ):
        Plan.from_json(json.dumps(members() | {member: value}))


@pytest.mark.parametrize(("name", "value"), [("FORMAT", f"{checked.FORMAT};"), ("PLAN_HEAD", json.dumps(PLAN_HEAD)), ("LETTERS", json.dumps(LETTERS))])
def test_the_jvm_reads_what_is_written(name, value):
    source = (resources.files("sparkcep.spark") / "jvm" / "Call.java").read_text("utf-8")
    assert f" {name} = {value}" in source


def _numbers(value, path=()):
    """The paths to all numbers inside."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers(item, (*path, key))
    elif type(value) is int:
        yield path


@pytest.mark.parametrize("clause", [CLAUSE, APPROXIMATE, SELECTED, AUTOMATON])
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
