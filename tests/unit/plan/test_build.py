"""The passes that make a plan: which a clause enters, and each by itself; the facts of patterns."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.errors import ClauseError
from sparkcep.plan import build, facts
from sparkcep.plan.build import PASSES, begun, make_plan
from sparkcep.plan.records import EqualKey, Key, Letter, Order, Repeat, Skip, Window, Within
from sparkcep.plan.split import fallible
from sparkcep.sql.rewrite.rewrite import letters_sql

PLAIN = """PARTITION BY k ORDER BY t MEASURES STRT.v AS first, LAST(UP.t) AS last PATTERN (STRT DOWN+ UP+)
  DEFINE DOWN AS v < PREV(v), UP AS v > PREV(v)"""
ALWAYS = ["options", "names", "pattern", "keys", "conditions", "measures", "leaves", "skip", "inputs"]


def entered(clause: str) -> list[str]:
    draft, found = begun(parse_clause(clause)), []
    for step in PASSES:
        if step.wanted(draft):
            found.append(step.run.__name__)
            draft = step.run(draft)
    assert draft.plan == make_plan(parse_clause(clause))
    return found


@pytest.mark.parametrize(
    ("clause", "more"),
    [
        (PLAIN, []),
        ("ORDER BY t MEASURES 1 AS n PATTERN (A)", ["one_column"]),
        ("ORDER BY t MEASURES A.v AS n PATTERN (A B) WINDOW 5 DEFINE A AS v > 1", ["event_selection", "one_column", "candidates"]),
        (
            "ORDER BY t MEASURES MATCH_COUNT() AS n EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A & B) DEFINE A AS v > 1",
            ["conjunction", "event_selection", "one_column", "counting", "ignored_rows", "candidates"],
        ),
        ("PARTITION BY k ORDER BY t MEASURES MATCH_ERRORS() AS e PATTERN (A B) APPROX 1", ["event_selection", "costs", "ignored_rows"]),
        (
            "PARTITION BY k ORDER BY t MEASURES MATCH_SCORE() AS s EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) PREF MAX (A.v * B.v) TOP 2 DEFINE A AS v > 1",
            ["event_selection", "ranking", "ignored_rows", "joins", "candidates"],
        ),
    ],
)
def test_passes_that_a_clause_enters(clause, more):
    defined = [name for name in ALWAYS if name != "conditions" or "DEFINE" in clause]
    assert sorted(entered(clause)) == sorted(defined + more)


@pytest.mark.parametrize("condition", ["rand() < 0.5", "v > 1 AND `uuid`() < '8'", "Random (7) < v"])
def test_random_conditions_filter_nothing(condition):
    clause = "ORDER BY t MEASURES A.v AS n EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A) DEFINE A AS {}"
    drawn, fixed = (make_plan(parse_clause(clause.format(text))) for text in (condition, "random > 1"))
    assert drawn.prefilter == drawn.candidates == ()
    assert len(fixed.prefilter) == len(fixed.candidates) == 1


@pytest.mark.parametrize(
    ("conditions", "shields"),
    [
        (("n <> 0 AND 12 / n > 3", "n <> 0 AND 12 / n <= 3"), (1, 1)),
        (("A.n <> 0 AND (12/A.N) > 3", "12 / B.n > 1"), (1, 0)),  # B guards nothing
        (("n <> 0 AND 12 / n > 3 AND 12 / n < 10", "u > 0"), (2, 0)),
        (("n = 0 OR 12 / n > 3", "12 / n > 3"), (1, 0)),
        (("n <> 0 AND decode(12 / n, 6, true, 4, true, false)", "u > 0"), (1, 0)),
        (("exists(u, x -> x = 0 OR nullif(12 / x, 2) > 3)", "exists(u, x -> x = 0 OR 12 / x > 3)"), (0, 0)),  # nor in lambdas
        (("d <> 0 AND d * 2 > 3", "d <> 0 AND d * 2 <= 3"), (1, 1)),  # unless d is a DOUBLE
        (("d <> 0 AND u::DATE > v", "hour(u) > 3 AND u::DATE > w"), (1, 1)),  # unless u is a time
        (("n <> 0 AND 12 / n > 3", "n <> 0 AND 13 / n > 3"), (0, 0)),
        (("n > 0 AND u > 1", "n > 0 AND u < 9"), (1, 1)),  # unless u is not a string
        (("n > 0 AND n < 9 AND u > 1", "u > 1"), (0, 0)),  # conversions that every row needs
        (("n > 0 AND length(u) > 1", "n > 0 AND length(u) > 1"), (0, 0)),  # cannot fail
        (("n > 0 AND 12 / n", "n > 0 AND 12 / n > 1"), (0, 1)),  # A is not a condition
    ],
)
def test_what_and_guards_is_not_computed_ahead(conditions, shields):
    """Spark computes an expression ahead that two conditions share."""
    clause = "ORDER BY t MEASURES A.v AS n EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) DEFINE A AS {}, B AS {}".format(*conditions)
    plan = make_plan(parse_clause(clause))
    texts = [letter.text for letter in plan.letters]
    assert tuple(text.count("array_repeat") for text in texts) == shields
    plain = [" AND ".join(f"({part})" for part in re.sub(r"\b[AB]\.", "", condition).split(" AND ")) for condition in conditions]
    assert list(map(fallible.unshielded, texts)) == plain
    assert all(text.startswith("(") for text, condition in zip(texts, conditions) if " OR " not in condition)  # guards are pushed down
    older = replace(plan, letters=tuple(letter._replace(text=text) for letter, text in zip(plan.letters, plain)))
    assert fallible.plainest(letters_sql(plan)[0]) == letters_sql(older)[0]


@pytest.mark.parametrize("conditions", [("u = 1 AND 12 / n > 3", "u = 2 AND 12 / n > 3"), ("u = 1 AND d * n > 3", "u = 2 AND d*B.N > 3")])
def test_equal_conjuncts_behind_two_guards_become_different_cases(conditions):
    """Spark makes ``x AND (a OR b)`` of ``(a AND x) OR (b AND x)``, and computes a common CASE ahead."""
    plan = make_plan(parse_clause("ORDER BY t MEASURES A.v AS n PATTERN (A B) DEFINE A AS {}, B AS {}".format(*conditions)))
    whens = {re.sub(r".*(CASE WHEN .* THEN ).*", r"\1", letter.text) for letter in plan.letters}
    assert len(whens) == 2


@pytest.mark.parametrize(
    ("conditions", "shields"),
    [
        (("n <> 0 AND 12 / n BETWEEN 3 AND 10", "u > 0 AND nullif(12 / u, 3) > 2"), (1, 1)),
        (("n <> 0 AND 12 BETWEEN n AND 12 / n", "u > 0 AND nullif(12, 3 / u) > 2"), (0, 0)),
        (("n > 0 AND u BETWEEN 1 AND 9", "n > 0 AND 5 BETWEEN v AND w"), (1, 0)),
    ],
)
def test_the_first_operand_of_between_and_nullif_is_computed_ahead(conditions, shields):
    plan = make_plan(parse_clause("ORDER BY t MEASURES A.v AS n PATTERN (A B) DEFINE A AS {}, B AS {}".format(*conditions)))
    assert tuple(letter.text.count("array_repeat") for letter in plan.letters) == shields


def test_all_rows_of_a_match_have_one_random_number_of_first_value():
    plan = make_plan(parse_clause("ORDER BY t MEASURES any_value(uuid() || v) AS a, LAST(A.v * (rand() - rand())) AS b ALL ROWS PER MATCH PATTERN (A)"))
    texts = {text for _, text in plan.inputs}
    assert "uuid() || v" in texts and not any("rand" in text for text in texts)
    assert plan.outputs[1].text.count("rand()") == 2


def test_a_plain_clause_calls_nothing_of_options_that_it_does_not_have():
    clause, called = parse_clause(PLAIN), set()
    sys.setprofile(lambda frame, event, _: called.add(frame.f_globals.get("__name__")) if event == "call" else None)
    try:
        make_plan(clause)
    finally:
        sys.setprofile(None)
    ours = {name.removeprefix("sparkcep.plan.") for name in called if name and name.startswith("sparkcep.plan.")}
    assert ours == {"build", "facts", "options", "plan", "records", "scope", "split.conditions", "split.fallible", "split.measures"}


def test_each_pass_gives_its_members():
    draft = build.names(begun(parse_clause(PLAIN)))
    assert draft.plan.variables == ("STRT", "DOWN", "UP") and draft.plan.partition == () and draft.plan.letters == ()
    assert build.keys(draft).plan.partition == (Key("k", "__p0", True),)
    assert build.keys(draft).plan.order == (Order("t", "__o0", False, None, True),)
    assert [condition.variable for condition in build.conditions(draft).plan.conditions] == [1, 2]
    assert build.skip(draft).plan.skip == Skip("past_last", 0)
    windowed = begun(parse_clause("ORDER BY t MEASURES A.v AS v PATTERN (A (B C) WITHIN 2) WINDOW 5"))
    assert build.event_selection(windowed).plan.windows == (Window("number", "5", "__o0", 1, 64, "5"), Window("number", "2", "__o0", 1, 54, "2"))


def test_keys_that_tests_imply():
    plan = make_plan(parse_clause("ORDER BY t MEASURES A.v AS v EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) DEFINE A AS v > 1, B AS u = A.u"))
    (found,) = plan.equal_keys
    assert found == EqualKey("__c0", ("B AS u = A.u",)) and dict(plan.inputs)["__c0"] == "u"
    assert plan.letters == (Letter(0, 0, "(v > 1)"), Letter(1, 1, "(u IS NOT NULL)")) and plan.conditions == ()


@pytest.mark.parametrize("pattern", [" ".join(f"V{i}" for i in range(63)), "A (B", "A | ~(B C)"])
def test_errors_of_patterns(pattern):
    with pytest.raises(ClauseError):
        make_plan(parse_clause(f"ORDER BY t MEASURES 1 AS n PATTERN ({pattern})"))


def tree(pattern: str) -> tuple:
    return facts.tree_of(parse_clause(f"ORDER BY t MEASURES 1 AS n PATTERN ({pattern})").pattern)[1]


A, B, C = (("var", v) for v in range(3))


def test_trees_of_patterns():
    clause = parse_clause("ORDER BY t MEASURES 1 AS n PATTERN (a {- A b+? -} (~C (b | ^)) WITHIN 2 PERMUTE(a, ()) (C & $) WITHIN 1)")
    names, found = facts.tree_of(clause.pattern)
    again = Repeat("repeat", B, 1, None, False)
    group = Within("within", ("cat", ("not", 2), ("alt", B, ("start",))), 1)
    assert names == ("a", "b", "C")
    assert found == ("cat", A, ("exclude", ("cat", A, again)), group, ("permute", A, ("empty",)), Within("within", ("and", C, ("end",)), 2))


@pytest.mark.parametrize(
    ("pattern", "least", "first", "leader", "straight"),
    [
        ("A B+ C", 3, 0b1, 0b1, False),
        ("A? B", 1, 0b11, 0, False),
        ("(A | B C)*", 0, 0b011, 0, False),
        ("A{2} {- B -}", 3, 0b1, 0b1, True),
        ("^ A $", 1, 0b1, 0, True),
        ("A & B C", 2, 0b11, 0, False),
        ("PERMUTE(A, B?)", 1, 0b11, 0, False),
        ("(~A B) WITHIN 2", 1, 0b10, 0, True),
    ],
)
def test_facts(pattern, least, first, leader, straight):
    found = tree(pattern)
    assert (facts.least(found), facts.first_variables(found), facts.leader(found), facts.straight(found)) == (least, first, leader, straight)
    assert facts.nullable(found) == (least == 0) and facts.anchored(found) == ("^" in pattern)
    assert facts.leads_with_negation(found) == ("~" in pattern)


def test_how_often_variables_occur():
    assert facts.occurrences(tree("A (B | C B?) C{2,5}")) == {0: (1, 1), 1: (0, 1), 2: (2, 2)}
    assert facts.variables_in(tree("A ~B C")) == 0b111 and facts.variables_in(tree("A ~B C"), "not") == 0b010


@pytest.mark.parametrize(
    ("condition", "fails"),
    [
        ("levenshtein(A.s, s) > 2", False), ("length(PREV(s)) > -1", False), ("PREV(length(s)) IN (1, 2)", False), ("levenshtein(A.s, s) BETWEEN 1 AND 2", False),
        ("length(PREV(s)) = size(a)", False), ("concat(PREV(s), s) > 2", True), ("year(PREV(s)) > 2000", True), ("length(PREV(s)) = PREV(v)", True),
    ],
)  # fmt: skip
def test_a_function_whose_value_is_a_number_is_compared_with_one_without_a_mark(condition, fails):
    """Spark would compute the function twice or more for a mark of rows on which it fails."""
    plan = make_plan(parse_clause(f"ORDER BY t MEASURES LAST(t) AS x PATTERN (A B) DEFINE B AS {condition}"))
    assert any("try_add(" in column.text for column in (*plan.inputs, *plan.ordered_inputs)) == fails


def test_partitions_without_a_match_have_windows_of_their_own():
    """With OVERALL each window that holds a row of any partition is compared, so no partition may be filtered out."""
    clause = """PARTITION BY k ORDER BY t MEASURES CHANGE() AS c, WINDOW_START() AS w EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B)
      WINDOW 4 SLIDE 2 PREF MAX (B.v) TOP 1 {} REPORT CHANGES DEFINE A AS v > 1"""
    overall, each = (make_plan(parse_clause(clause.format(scope))) for scope in ("OVERALL", "PER PARTITION"))
    assert overall.candidates == () and len(each.candidates) == 1


@pytest.mark.parametrize(
    ("key", "plain"),
    [
        ("id", True), ("t.id", True), ("db.t.id", True), ("`DB`.t.id", True), ("cat.db.t.id", True), ("a.id", True),
        ("db.id", False), ("s.id", False), ("t.db.id", False), ("t.t.id", False), ("db.t.s.id", False), ("cat.t.id", False),
    ],
)  # fmt: skip
def test_a_key_is_a_column_of_the_table_or_a_field(key, plain):
    tables = frozenset({"t", "db.t", "cat.db.t", "a"})
    plan = make_plan(parse_clause(f"PARTITION BY {key} ORDER BY ts MEASURES count(*) AS n PATTERN (A)"), qualifiers=tables)
    assert plan.partition[0].plain is plain
