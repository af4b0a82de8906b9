"""Plans that arrive as JSON: another version's, or made by hand."""

from __future__ import annotations

import json
import random
import typing
from dataclasses import replace
from importlib import resources

import pyarrow as pa
import pytest

from sparkcep import __version__
from sparkcep.clause.parser import MAX_BOUND, parse_clause
from sparkcep.engine.factory import match_table, prepare
from sparkcep.errors import ClauseError
from sparkcep.plan import json as plan_json
from sparkcep.plan import limits, records
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS, PLAN_HEAD, Plan
from tests.support.caught import without_catching

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
        ({"future": 1, "made_by": "sparkcep 9.9"}, f"sparkcep 9.9 (format {plan_json.FORMAT})"),
        ({"format": None, "made_by": None}, "an older sparkcep (format None)"),
        ({"format": 1}, f"sparkcep {__version__} (format 1)"),
        ({"format": str(plan_json.FORMAT)}, f"sparkcep {__version__} (format {plan_json.FORMAT})"),
    ],
)
def test_another_version_is_named(change, maker):
    error = refused(members() | change)
    assert error.error_class == "SPARKCEP.VERSION"
    assert maker in error.message and f"given to sparkcep {__version__} (format {plan_json.FORMAT})" in error.message


def test_another_version_of_the_same_format_is_said_once(caplog):
    plan_json._say_other.cache_clear()
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
        ("leaves", [{"name": "__l0", "spec": VALUE | {"logical": -5, "final": True}}]),
        ("leaves", [{"name": "__l0", "spec": VALUE | {"logical": -(1 << 31), "final": True}}]),
        ("leaves", [{"name": "__l0", "spec": VALUE | {"logical": 1 << 31, "final": True}}]),
        ("leaves", [{"name": "__l0", "spec": VALUE | {"logical": 0.0, "final": True}}]),
        ("leaves", [{"name": "__l0", "spec": VALUE | {"final": True}}, {"name": "__l0", "spec": VALUE | {"final": True}}]),
        ("conditions", [{"variable": 0, "trees": [VALUE | {"logical": 501, "absent": None}]}]),
        ("conditions", [{"variable": 0, "trees": [["call", "no such function", ["mno"]]]}]),
        ("conditions", [{"variable": 0, "trees": [["call", "<", ["mno"]]]}]),
        ("conditions", [{"variable": 0, "trees": [["call", "cast", ["mno"], ["mno"]]]}]),
        ("conditions", [{"variable": 0, "trees": [{"kind": "lit", "type": "int", "text": "9" * 5000}]}]),
        ("conditions", [{"variable": 0, "trees": [{"kind": "lit", "type": "long", "text": "9223372036854775808"}]}]),
        ("conditions", [{"variable": 0, "trees": [["call", "timestampdiff", {"kind": "lit", "type": "type", "text": "int"}, ["mno"], ["mno"]]]}]),
        ("conditions", [{"variable": 0, "trees": [["call", "cast", ["mno"], {"kind": "lit", "type": "type", "text": "minute"}]]}]),
        ("failing", [{"error_class": "1e999999999", "line": 1, "column": 1, "text": "a"}]),  # a class that no expression has
        ("windows", [{"kind": "number", "size": "1e999999999", "order": "__o0", "line": 0, "column": 0, "text": ""}]),
        ("bounds", [{"name": "max_steps", "value": 1 << 63}]),
        ("idle", 1 << 62),
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
    ("clause", "path", "value"),
    [
        ("EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A*) WINDOW 5", ("selection", "report"), "FIRST"),  # a graph is of all matches
        ("CHANGES IN op EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) WINDOW 5", ("order",), []),
        ("PATTERN (A B)", ("leaves", 0, "name"), "__p0"),  # another column has this name
    ],
)
def test_parts_that_exclude_each_other(clause, path, value):
    measure = "MATCH_GRAPH()" if "ALL MATCHES PATTERN (A*" in clause else "LAST(v)"
    plan = members(f"PARTITION BY k ORDER BY t MEASURES {measure} AS m {clause}")
    holder = plan
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    assert refused(plan).error_class == "SPARKCEP.ARGUMENT"


def test_a_sum_that_ranks_matches_is_a_value_of_the_engine():
    plan = members("PARTITION BY k ORDER BY t MEASURES LAST(v) AS m EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) WINDOW 5 PREF MAX (A.v + B.v) TOP 3")
    assert any(leaf["spec"]["kind"] == "score" for leaf in plan["leaves"]) and plan["ranking"]["terms"]
    plan["leaves"] = [leaf for leaf in plan["leaves"] if leaf["spec"]["kind"] != "score"]
    assert refused(plan).error_class == "SPARKCEP.ARGUMENT"


def test_a_sum_says_how_it_is_added_unless_from_left_to_right():
    clause = "ORDER BY t MEASURES LAST(v) AS m EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) PREF {} TOP 3"
    for plain in ("MAX (A.v + B.v - A.w)", "MIN (A.v - B.v + A.w)", "MAX (A.v - B.v) AND MAX (count(*))"):
        assert members(clause.format(plain))["ranking"]["scored"] is None
    inner = ["+", ["leaf", 1], ["leaf", 2]]
    of_parts = {"MAX (A.v - (B.v + A.w))": ["-", ["leaf", 0], inner], "MAX (count(*)) AND MIN (A.v + B.v)": ["+", ["leaf", 0], ["neg", inner]]}
    for pref, tree in of_parts.items():
        plan = make_plan(parse_clause(clause.format(pref)))
        assert Plan.from_json(plan.to_json()) == plan
        found = members(clause.format(pref))
        assert found["ranking"]["scored"]["tree"] == tree
        for path, value in ((("tree", 0), "*"), (("leaves", 0, "mask"), 2), (("leaves", 0, "sign"), -1), (("leaves",), found["ranking"]["scored"]["leaves"][1:])):
            changed = members(clause.format(pref))
            holder = changed["ranking"]["scored"]
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = value
            assert refused(changed).error_class == "SPARKCEP.ARGUMENT"


def test_only_a_sum_of_terms_chooses_between_branches():
    clause = "ORDER BY t MEASURES count(*) AS m EVENT SELECTION SKIP TILL ANY MATCH PATTERN {} PREF MAX ({}) TOP 3"
    text = clause.format("(A B | C)", "coalesce(A.v + B.v, C.v)")
    found, plan = members(text), make_plan(parse_clause(text))
    assert found["ranking"]["scored"]["tree"] == ["coalesce", ["+", ["leaf", 0], ["leaf", 1]], ["leaf", 2]] and Plan.from_json(plan.to_json()) == plan
    others = {"scored": members(clause.format("(A B)", "abs(A.v + B.v)")), "monotone": members(clause.format("(A B)", "least(A.v, B.v)"))}
    for name, other in others.items():
        score = other["ranking"][name]
        assert refused(other | {"ranking": other["ranking"] | {name: score | {"tree": ["coalesce", score["tree"], ["leaf", 0]]}}}).error_class == "SPARKCEP.ARGUMENT"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("time",), "__c0"),  # the first column of ORDER BY is the rows' time
        (("start",), 3), (("final", 0), 3), (("arcs", 0, "source"), -1), (("arcs", 0, "target"), 3), (("arcs", 0, "letter"), 63), (("arcs", 0, "label"), 2),
        (("arcs", 0, "on"), "nothing"), (("arcs", 0, "sets", 0, "register"), 2), (("arcs", 1, "emits"), [["mno"], ["mno"]]),
        (("arcs", 0, "sets", 0, "tree"), {"kind": "no such thing"}), (("registers",), []), (("arcs", 0, "on"), None), (("states",), ["q0"]), (("emits",), []),
        # an arc reads no rows of a match
        (("arcs", 0, "sets", 0, "tree"), AGGREGATE), (("arcs", 0, "sets", 1, "tree"), VALUE), (("arcs", 1, "fence"), [["call", ">", ["mno"], AGGREGATE]]), (("arcs", 1, "emits"), [["mno"]]),
        (("arcs", 2, "fence"), [{"kind": "isfirst", "mask": 1}]), (("registers", 0, "initial"), {"kind": "near", "physical": -1, "column": "__c0"}),
    ],
)  # fmt: skip
def test_automata_that_no_clause_gives(path, value):
    plan = members(AUTOMATON)
    holder = plan["automaton"]
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    assert refused(plan).error_class == "SPARKCEP.ARGUMENT"


@pytest.mark.parametrize("size", ["1e5", "-1", "0", "", "1/3", "NaN", "9" * 101, "1.5", "\u0663"])
def test_sizes_of_windows_that_are_no_whole_numbers_of_microseconds(size):
    plan = members(SELECTED.replace("WINDOW 5", "WINDOW INTERVAL '5' SECONDS"))
    assert plan["windows"][0]["kind"] == "micros"
    plan["windows"][0]["size"] = size
    assert refused(plan).error_class == "SPARKCEP.ARGUMENT"


def reachable(hint) -> typing.Iterator[tuple[type, str, object]]:
    """Each field of the plan and of all records that it may hold: record, name, hint without the tuples and choices around it."""
    todo, seen = [hint], set()
    while todo:
        record = todo.pop()
        if record in seen:
            continue
        seen.add(record)
        for name, field in typing.get_type_hints(record, include_extras=True).items():
            parts = [field]
            while parts:
                part = parts.pop()
                if typing.get_origin(part) is typing.Annotated or not typing.get_args(part) or typing.get_origin(part) is typing.Literal:
                    yield record, name, part
                    mark = typing.get_args(part)[1:] if typing.get_origin(part) is typing.Annotated else ()
                    if any(isinstance(one, limits.Tree) for one in mark):
                        todo += typing.get_args({"pattern": records.Repeat | records.Within, "condition": records.ConditionTree, "score": records.Term | None}[mark[0].sort])
                    elif hasattr(part, "_fields"):
                        todo.append(part)
                else:
                    parts += [one for one in typing.get_args(part) if one is not ...]
        todo = [one for one in todo if one is not type(None)]


def test_each_number_of_each_record_has_bounds():
    """A field added later is refused until it has some."""
    found = list(reachable(Plan))
    assert {record for record, *_ in found} > {records.At, records.Arc, records.Within, records.Monotone, records.Budget, records.Rows}
    assert [(record.__name__, name) for record, name, hint in found if hint in (int, float, tuple, object, typing.Any)] == []
    marks = [typing.get_args(hint)[1] for _, _, hint in found if typing.get_origin(hint) is typing.Annotated and typing.get_args(hint)[0] is int]
    assert len(marks) > 60 and all(isinstance(mark, limits.Range) for mark in marks)
    with pytest.raises(TypeError):
        plan_json.read(int, 1)


def test_a_quantifier_has_the_bound_of_the_parser():
    assert limits.MAX_BOUND == MAX_BOUND


@pytest.mark.parametrize(
    "clause",
    [
        "ORDER BY t MEASURES LAST(A.v, 2147483647) AS l, NEXT(LAST(A.v), 2147483647) AS n PATTERN (A{1000000,}) DEFINE A AS v > PREV(v, 2147483647)",
        "ORDER BY t MEASURES LAST(v) AS l PATTERN (A+) DEFINE A AS LAST(A.v, 500) IS NULL AND v = -9223372036854775808 OR v < 1.23456789012345678",
        f"ORDER BY t MEASURES LAST(v) AS l EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) WINDOW {'9' * 98}.5 DEFINE A AS v > 1",
        f"ORDER BY t MEASURES LAST(v) AS l EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) WINDOW INTERVAL '{'9' * 88}' WEEK DEFINE A AS v > 1",
        f"ORDER BY t MEASURES WINDOW_START() AS l PATTERN (A B) WINDOW {'9' * 100} SLIDE .{'3' * 99} PREF MAX (A.v) TOP 1000000000 DEFINE A AS v > 1",
        "ORDER BY t MEASURES MATCH_ERRORS() AS e PATTERN (A B C) WINDOW 5 APPROX 1 WEIGHTS (A 1099511627776)",
        "ORDER BY t MEASURES MATCH_ERRORS() AS e PATTERN (A B C) WINDOW 5 APPROX 1 BUDGET 2147483647 CHECKS USING HISTORY h SKETCH (1024, 1024)",
        "ORDER BY t MEASURES count(*) AS n PATTERN (" + " ".join(f"A{i}" for i in range(62)) + ") SUBSET U = (A0, A61) DEFINE A61 AS v > max(U.v)",
        "ORDER BY t MEASURES count(*) AS n PATTERN (A) DEFINE A AS " + " + ".join(["PREV(v)"] * 145) + " > 0",
        "ORDER BY t MEASURES count(*) AS n PATTERN (A) DEFINE A AS " + "ISNOTNULL(NVL2(abs(" * 15 + "PREV(v)" + "), 1, 2))" * 15,
        "ORDER BY t MEASURES count(*) AS n PATTERN (" + "(" * 24 + "A" + "+)" * 24 + ")",
    ],
)  # fmt: skip
def test_what_a_clause_may_say_at_most_is_a_plan(clause):
    made = make_plan(parse_clause(clause))
    for plan in (made, made.without_sql()):
        assert Plan.from_json(plan.to_json()) == plan


# -- the input --------------------------------------------------------------------------------------------------------

FILTERED = """ORDER BY t MEASURES sum(v) FILTER (WHERE v > 1) AS s, FIRST(A.v) AS f PATTERN (A B+)
  DEFINE B AS levenshtein(s, FIRST(A.s)) > 0 AND max(v) FILTER (WHERE v > 0) > 0"""


def input_of(plan: Plan) -> dict[str, pa.Array]:
    """Three rows for :data:`FILTERED`."""
    parts = [part for condition in plan.conditions for tree in condition.trees for part in records.walk(tree)]
    failed = {inner.column for part in parts if part[0] == "checked" for inner in records.walk(part.failed)}
    kinds = {name: column.kinds for name, column in plan_json.marked(limits.Column, plan) if name}
    found = {}
    for name, _ in (*plan.inputs, *plan.ordered_inputs):
        kind = kinds.get(name)
        own = [[None if name in failed else True] * (n + 1) for n in (1, 2, 3)] if kind == "list" else [None] * 3 if name in failed else [True] * 3 if kind == "boolean" else [1, 2, 3]
        found[name] = pa.array(own, pa.list_(pa.bool_()) if kind == "list" else pa.bool_() if kind == "boolean" else pa.int64())
    return found


def test_ranks_of_a_search_that_tells_none():
    plan = without_catching(make_plan(parse_clause("ORDER BY i MEASURES LAST(v) AS l EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A C) PREF MAX (A.v + C.v) TOP 1"))).ranked_by_engine()
    schema = pa.schema([(name, pa.int64()) for name, _ in plan.inputs])
    assert "rank" in [spec.kind for _, spec in prepare(plan, schema).plan.leaves]
    with pytest.raises(ClauseError, match="takes ranks from a search that computes none"):
        prepare(replace(plan, selection=plan.selection._replace(strategy="NEXT")), schema)


def test_the_largest_label_of_no_variable():
    whole = json.loads(without_catching(make_plan(parse_clause("ORDER BY i MEASURES max(CLASSIFIER()) AS m, count(*) AS n PATTERN (A B*)"))).to_json())
    next(leaf["spec"] for leaf in whole["leaves"] if leaf["spec"].get("column") == "cls")["mask"] = 0
    found = match_table(Plan.from_json(json.dumps(whole)), pa.table({"__o0": pa.array([1, 2], pa.int64())}))
    assert [list(row.values()) for row in found.to_pylist()] == [[None, 2]]


def test_columns_that_the_input_has_not():
    plan = without_catching(make_plan(parse_clause(FILTERED)))
    whole = input_of(plan)
    assert match_table(plan, pa.table(whole)).num_rows == 1
    named = {name for name, _ in plan_json.marked(limits.Column, plan) if name}
    for name in named:
        with pytest.raises(ClauseError, match=f"the input has not one column {name}"):
            prepare(plan, pa.table({other: column for other, column in whole.items() if other != name}).schema)
    with pytest.raises(ClauseError, match="the input has not one column"):
        prepare(plan, pa.schema([*pa.table(whole).schema, (min(named), pa.int64())]))


def test_columns_of_types_that_kernels_do_not_take_there():
    plan = without_catching(make_plan(parse_clause(FILTERED)))
    whole = input_of(plan)
    wrong = {"boolean": pa.array([1.5] * 3), "list": pa.array([1] * 3), "whole": pa.array([1.5] * 3)}
    tried = {(name, column.kinds) for name, column in plan_json.marked(limits.Column, plan) if column.kinds in wrong}
    assert {kind for _, kind in tried} == set(wrong)
    for name, kind in tried:
        with pytest.raises(ClauseError, match=f"the column {name} is of type"):
            prepare(plan, pa.table(whole | {name: wrong[kind]}).schema)


@pytest.mark.parametrize(
    ("which", "values"),
    [
        ("number", [1, 2, 1 << 40]), ("number", [1, 2, -5]), ("number", [0, 1, 2]), ("number", [3, 2, 1]), ("number", [1, 2, None]), ("column", [[], [], []]), ("column", [[True]] * 3),
        ("column", [None] * 3),
    ],
)  # fmt: skip
def test_numbers_of_rows_that_lie_outside_the_arrays(which, values):
    plan = without_catching(make_plan(parse_clause(FILTERED)))
    pair = next(part for condition in plan.conditions for tree in condition.trees for part in records.walk(tree) if part[0] == "pair")
    whole = input_of(plan)
    name = getattr(pair, which)
    with pytest.raises(ClauseError, match="lack an element for some row"):
        match_table(plan, pa.table(whole | {name: pa.array(values, whole[name].type)}))


@pytest.mark.parametrize("pattern", ["A & B", "A ~B C"])
def test_arrays_that_end_at_their_row_do_not_serve_a_finished_match(pattern):
    plan = without_catching(make_plan(parse_clause(f"ORDER BY t MEASURES A.t AS a EVENT SELECTION SKIP TILL ANY MATCH PATTERN ({pattern}) DEFINE B AS levenshtein(s, A.s) > 0")))
    pair = next(part for condition in plan.conditions for tree in condition.trees for part in records.walk(tree) if part[0] == "pair")
    assert "UNBOUNDED FOLLOWING" in dict(plan.ordered_inputs)[pair.column]
    whole = input_of(plan)
    with pytest.raises(ClauseError, match="lack an element for some row"):
        match_table(plan, pa.table(whole))
    match_table(plan, pa.table(whole | {pair.column: pa.array([[True] * 4] * 3, pa.list_(pa.bool_()))}))


def test_the_smallest_changes_are_plans():
    """The wrong ones above are wrong for what they change."""
    for member, value in (
        ("conditions", [{"variable": 0, "trees": [AGGREGATE, VALUE | {"absent": None}]}]),
        ("leaves", [{"name": "__l0", "spec": VALUE | {"final": True}}]),
        ("pattern", {"kind": "repeat", "item": ["var", 0], "low": 0, "high": 1, "greedy": True}),
        ("skip", {"mode": "last", "targets": 8, "place": None}),
    ):
        Plan.from_json(json.dumps(members() | {member: value}))


@pytest.mark.parametrize(("name", "value"), [("FORMAT", f"{plan_json.FORMAT};"), ("PLAN_HEAD", json.dumps(PLAN_HEAD)), ("LETTERS", json.dumps(LETTERS))])
def test_the_jvm_reads_what_is_written(name, value):
    source = (resources.files("sparkcep.spark") / "jvm" / "functions" / "Call.java").read_text("utf-8")
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


# -- work that grows ----------------------------------------------------------------------------------------------------


def test_many_variables_that_others_name_are_told_at_once():
    """Which of 30 variables are missing can be so in few ways if one may be; all others were tried, too."""
    names = [f"V{i}" for i in range(30)]
    conditions = ", ".join(f"{b} AS {b}.v > {a}.v" for a, b in zip(names, names[1:]))
    plan = make_plan(parse_clause(f"ORDER BY t MEASURES MATCH_ERRORS() AS e PATTERN ({' '.join(names)}) WINDOW 50 APPROX 1 DEFINE {conditions}"))
    found = prepare(plan, pa.schema([(name, pa.int64()) for name, _ in plan.inputs]))
    assert len(found.strategy.automaton.copies.guesses) == 30


@pytest.mark.further
def test_instructions_of_a_condition_have_a_bound():
    """IN computes its value for each item."""
    value, items = " + ".join(["FIRST(A.v)", *["v"] * 99]), ", ".join(["FIRST(A.v)"] * 1100)
    plan = make_plan(parse_clause(f"ORDER BY t MEASURES count(*) AS n PATTERN (A) DEFINE A AS {value} IN ({items})"))
    with pytest.raises(ClauseError, match="need more than 200000 instructions"):
        prepare(plan, pa.schema([(name, pa.decimal128(10, 2)) for name, _ in plan.inputs]))


def test_trees_that_are_nested_too_deep():
    plan = members()
    tree = VALUE | {"absent": None}
    for _ in range(limits.MAX_TREE - 2):
        tree = ["call", "neg", tree]
    plan["conditions"] = [{"variable": 0, "trees": [["call", ">", tree, ["mno"]]]}]
    found = Plan.from_json(json.dumps(plan))
    with pytest.raises(ClauseError, match="nested too deep|has a chain"):
        prepare(found, pa.schema([*((name, pa.int64()) for name, _ in found.inputs), (LETTERS, pa.int64())]))
    plan["conditions"] = [{"variable": 0, "trees": [["call", ">", ["call", "neg", tree], ["mno"]]]}]
    assert refused(plan).error_class == "SPARKCEP.ARGUMENT"


def test_the_stack_holds_what_is_inside_of_checked_values():
    """A sum whose right side is a sum needs a place for each left side, also where it is inside another tree."""
    plan = members()
    tree, one = VALUE | {"absent": None}, {"kind": "lit", "type": "int", "text": "1"}
    for _ in range(100):
        tree = ["call", "+", one, tree]
    plan["conditions"] = [{"variable": 0, "trees": [["call", ">", {"kind": "prior", "mask": 1, "tree": tree}, one]]}]
    found = Plan.from_json(json.dumps(plan))
    prepared = prepare(found, pa.schema([*((name, pa.int64()) for name, _ in found.inputs), (LETTERS, pa.int64())]))
    assert prepared.conditions.stack > 102
