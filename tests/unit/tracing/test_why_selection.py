"""The answers of sparkcep.why under event selections, without Spark: worked examples to the letter."""

from __future__ import annotations

import json

import pytest

from sparkcep.settings import DEFAULT
from sparkcep.tracing.answers.differs import UNTRUE
from sparkcep.tracing.answers.explain import Asked, explain
from sparkcep.tracing.answers.hints import Totals
from sparkcep.tracing.answers.overall import overall
from sparkcep.tracing.answers.reasons import REASONS
from sparkcep.tracing.rows.sides import Side
from tests.support.why_examples import frozen, question, totals
from tests.support.why_selection_examples import SELECTIONS
from tests.unit.tracing.test_why import answered


@pytest.mark.parametrize("example", SELECTIONS, ids=lambda example: example.name)
def test_examples_to_the_letter(example):
    why = answered(example)
    assert str(why) == example.text
    assert why.verified and why.verdict == example.text.split("\n")[0]


def test_reasons_are_of_the_closed_list():
    found = {example.name: [reason["reason"] for reason in json.loads(answered(example).to_json())["reasons"]] for example in SELECTIONS}
    assert {reason for reasons in found.values() for reason in reasons} <= set(REASONS)
    assert found["N1"] == ["CONDITION_FALSE"] and found["L4"] == ["LOST"]


def test_a_row_that_another_derivation_does_not_reach():
    """B+ takes row 3 in the derivation of its alternative, which so cannot pass over it to row 4."""
    asked = question("ORDER BY t EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B X | A B+ Y) DEFINE A AS e = 'a', B AS e = 'b', X AS e = 'x', Y AS e = 'y'")
    why = explain(frozen(asked, ["t", "e"], list(enumerate("abbyx", 1)), "t"), Asked((), 1))
    not_asked = "is not asked: SKIP TILL NEXT MATCH does not pass over an earlier row that the pattern takes"
    assert [line.strip() for line in why.lines if "is not asked" in line] == [f"Y  {not_asked}"], str(why)


@pytest.mark.parametrize(
    "selection, letters, row, number, lines",
    [
        ("SKIP TILL ANY MATCH", "abab", 1, 3, ["It lies before the match's first row.", "  matches 1 and 2 start here."]),
        ("SKIP TILL ANY MATCH", "a" + "b" * 13 + "ab", 1, 15, ["It lies before the match's first row.", "  matches 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 4 more start here."]),
        ("SKIP TILL NEXT MATCH", "axbab", 2, 2, ["It lies before the match's first row. A match starts at the earliest row where one is found:", "  match 1 passes over the row."]),
        ("SKIP TILL NEXT MATCH", "axbab", 3, 2, ["It lies before the match's first row. A match starts at the earliest row where one is found:", "  match 1 has the row."]),
    ],
)
def test_a_row_before_a_match(selection, letters, row, number, lines):
    asked = question(f"ORDER BY t EVENT SELECTION {selection} PATTERN (A B) DEFINE A AS e = 'a', B AS e = 'b'")
    why = explain(frozen(asked, ["t", "e"], list(enumerate(letters, 1)), "t"), Asked((row - 1,), number))
    assert list(why.lines[1:]) == lines


def test_a_row_before_a_match_that_is_lost():
    """Under ALL MATCHES its match is not reported."""
    asked = question("ORDER BY t AFTER MATCH SKIP PAST LAST ROW EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) DEFINE A AS e = 'a', B AS e = 'b'")
    why = explain(frozen(asked, ["t", "e"], list(enumerate("aabab", 1)), "t"), Asked((1,), 2))
    assert why.lines[2].startswith("  Lost to match 1: rows 2-3 would match (A B), but match 1 is complete first (rows 1 and 3)")


@pytest.mark.parametrize("order, rows", [("t NULLS LAST", [(1, "a"), (2, "x"), (None, "x")]), ("t DESC NULLS LAST", [(2, "a"), (1, "x"), (None, "x")])])
def test_the_next_row_has_no_time(order, rows):
    """A row with a NULL time is after the rows of a WINDOW, at a distance that nobody knows."""
    asked = question(f"ORDER BY {order} EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B) WINDOW 10 DEFINE A AS e = 'a', B AS e = 'b'")
    why = explain(frozen(asked, ["t", "e"], rows, order), Asked((0,)))
    assert why.lines[2] == "  It ended because no later row goes on (row 2; t is NULL in row 3, so WINDOW 10 cannot place the next row). The pattern lets come next:"


def test_a_changed_match_in_another_order():
    """The engine lists A A B B of the changed matches before A A B A. An answer needs only that it has both."""
    clause = "ORDER BY id EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A (A | B) B? B (A | B)) WINDOW 5 ROWS DEFINE A AS w > 0, B AS s = 'b'"
    rows = [(0, 3, "c"), (2, 0, "b"), (4, 1, None), (6, 0, "b"), (7, 0, "c"), (8, 2, "b"), (9, 3, "b")]
    why = explain(frozen(question(clause), ["id", "w", "s"], rows, "id"), Asked((1,)))
    assert why.verified and any('If "w > 0" were true at row 2, rows 2-4 and 6 would match' in line for line in why.lines), str(why)


def test_a_side_that_differs_explains_nothing(monkeypatch):
    """Rule 27, for a row and for the whole input, with a report."""
    monkeypatch.setattr(Side, "differences", lambda self: ["one"])
    asked = question("ORDER BY t MEASURES 1 AS one EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A & B) DEFINE A AS v > 0, B AS v > 1")
    rows = frozen(asked, ["t", "v"], [(1, 1), (2, 2)], "t")
    for why in (explain(rows, Asked((0,))), overall([rows], Totals(2, 1), DEFAULT, words={})):
        assert not why.verified and why.lines == (UNTRUE,) and json.loads(why.report)["clause"] == asked.stated.text


def test_a_null_of_a_negated_row_has_its_cause():
    """The condition of a negated row sees the rows of the finished match, and those of its group."""
    condition = "v > B.v OR v > LAST(D.v, 3) OR v > A.v OR v > C.v"
    clause = "ORDER BY t EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A ~(B D) C) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c', D AS"
    why = explain(frozen(question(f"{clause} {condition}"), ["t", "e", "v"], [(1, "a", None), (2, "b", None), (3, "d", 5), (4, "c", 1)], "t"), Asked((0,)))
    causes = {shown.comparison: shown.cause for shown in why.next if shown.variable == "D"}
    assert causes == {"v > B.v": "v is NULL in row 2", "v > LAST(D.v, 3)": "LAST(D.v, 3): only 1 row is D yet", "v > A.v": "v is NULL in row 1", "v > C.v": ""}


def test_rows_that_may_not_be_passed_over_are_the_last_ones():
    """A takes row 4, so C is not asked later, although no B follows A."""
    asked = question("ORDER BY t EVENT SELECTION SKIP TILL NEXT MATCH PATTERN ((A B)+ C?) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c'")
    why = explain(frozen(asked, ["t", "e"], list(enumerate("abxacxx", 1)), "t"), Asked((), 1))
    wanted = "C comes first, refused by 2 rows, closest row 3 (t 3); SKIP TILL NEXT MATCH does not pass over row 4:"
    assert [line.strip() for line in why.lines if "C comes first" in line] == [wanted]


def test_a_negation_ends_the_rows_of_a_run():
    """B would take row 4 if the negation allowed it, so the run does not pass over that row."""
    asked = question("ORDER BY t EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A ~N B C) DEFINE A AS e = 'a', N AS e = 'n', B AS e = 'b', C AS e = 'c'")
    why = explain(frozen(asked, ["t", "e"], list(enumerate("axnbbc", 1)), "t"), Asked((0,)))
    assert why.lines[2] == "  B would take row 4 (t 4), but ~N looks at rows 2-3 and forbids row 3:"
    assert why.lines[4] == "  It ended because no later row goes on (rows 2-4; SKIP TILL NEXT MATCH does not pass over row 4). The pattern lets come next:"


def test_one_row_that_serves_two_sides():
    """Only different rows are put together, and the answer says so."""
    asked = question("ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A & B) WINDOW 1 DEFINE A AS e = 'a', B AS v > A.v")
    why = explain(frozen(asked, ["t", "e", "v"], [(1, "a", 1), (2, "b", 3)], "t"), Asked((0,)))
    assert why.lines[-1] == "No rows that begin at row 1 fit all sides, unless one row serves two of them. A match starts at the first row of one of its sides."


def test_comparisons_of_negated_variables_are_not_counted():
    """The match judges them, so the searches of start rows do not ask them one by one."""
    asked = question("ORDER BY t MEASURES 1 AS one EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A ~B C) DEFINE A AS e = 'a', B AS v > A.v, C AS v > A.v")
    rows = frozen(asked, ["t", "e", "v"], [(1, "a", 1), (2, "b", 3), (3, "c", 3)], "t")
    lines = overall([rows], totals(rows), DEFAULT, words={}).lines
    assert [line.split()[0] for line in lines if "looks at the match" in line] == ["C"]
