"""Whether a statement may go on with the state of another over a stream, and what is said of what it keeps, from the plans alone."""

from __future__ import annotations

import json

import pytest

from sparkcep.automaton.streams import different, kept, warnings
from sparkcep.clause.parser import parse_clause
from sparkcep.plan.build import make_plan

BEFORE = (
    "PARTITION BY k ORDER BY ts, n MEASURES PREV(FIRST(x), 2) AS m AFTER MATCH SKIP TO LAST B PATTERN (A B+ C) WINDOW INTERVAL '5' SECOND SUBSET S = (A, B) "
    "DEFINE A AS x = 1, B AS x > 2, C AS abs(x) > FIRST(S.x) AND abs(y) = 2"
)
CHANGES = {
    "keys": ("BY k ORDER", "BY k, j ORDER", "PARTITION BY"),
    "another key": ("BY k ORDER", "BY j ORDER", "PARTITION BY"),
    "order": ("ts, n", "ts, n DESC", "ORDER BY"),
    "skip": ("TO LAST B", "TO LAST C", "AFTER MATCH SKIP"),
    "skip past": ("TO LAST B", "PAST LAST ROW", "AFTER MATCH SKIP"),
    "pattern": ("B+", "B*", "PATTERN"),
    "window": ("'5'", "'6'", "WINDOW"),
    "no window": ("WINDOW INTERVAL '5' SECOND", "", "WINDOW"),
    "rows": (" AFTER", " ALL ROWS PER MATCH AFTER", "the rows that are given of a match"),
    "a number in DEFINE": ("x > 2", "x > 3", "DEFINE"),
    "what a row fulfils": ("abs(y) = 2", "abs(y) = 3", "DEFINE"),
    "what Spark computes": ("abs(x)", "sign(x)", "values that are sign(x) and were abs(x)"),
    "a subset in DEFINE": ("S = (A, B)", "S = (B)", "DEFINE"),
    "MATCH_NUMBER": ("PREV(FIRST(x), 2)", "MATCH_NUMBER()", "MATCH_NUMBER()"),
    "farther back": ("PREV(FIRST(x), 2)", "PREV(FIRST(x), 3)", "by how many rows PREV looks behind a match"),
}
SAME = [("AS m", "AS other"), ("PREV(FIRST(x), 2)", "PREV(FIRST(x))"), ("PREV(FIRST(x), 2)", "LAST(x)"), ("PATTERN", "\n\nPATTERN")]


def compared(text: str) -> list[str]:
    (before, texts_before), (now, texts) = stated(BEFORE), stated(text)
    return different(before, now, texts_before, texts)


def stated(text: str) -> tuple[dict, dict]:
    plan = make_plan(parse_clause(text))
    return json.loads(plan.to_json()), dict(plan.inputs)


@pytest.mark.parametrize("name", CHANGES)
def test_another_statement_is_told(name):
    old, new, what = CHANGES[name]
    assert BEFORE.count(old) == 1
    assert what in compared(BEFORE.replace(old, new))


@pytest.mark.parametrize("old, new", SAME)
def test_other_measures_and_places_are_no_other_statement(old, new):
    assert BEFORE.count(old) == 1 and compared(BEFORE.replace(old, new)) == []


def test_what_is_kept_and_warned_of():
    plan = make_plan(parse_clause(BEFORE.replace("PREV(FIRST(x), 2)", "PREV(FIRST(x), 2) + NEXT(LAST(x), 3)").replace("WINDOW INTERVAL '5' SECOND", "WINDOW 7 ROWS")))
    assert "the last 5 rows for ever, at which PREV and NEXT look" in kept(plan)
    assert "rows of a match under way, until 7 rows of its key have come" in kept(plan)
    assert [text.partition(":")[0] for text in warnings(plan)] == ["it has WINDOW n ROWS", "NEXT looks 3 rows ahead"]
    assert warnings(make_plan(parse_clause(BEFORE))) == []
