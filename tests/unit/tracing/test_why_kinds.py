"""Answers of sparkcep.why for ranked and approximate matches: worked examples to the letter, forms, redaction and refusals."""

from __future__ import annotations

import json
import re

import pytest

from sparkcep.errors import ClauseError
from tests.support.why_examples import question
from tests.support.why_kinds import EXAMPLES, TICKS, Example, answered

BY_NAME = {example.name: example for example in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_to_the_letter(example):
    why = answered(example)
    assert str(why) == example.text
    assert why.verified and why.verdict == example.text.split("\n")[0]


def test_reasons():
    reasons = {example.name: [(reason.reason, reason.row) for reason in answered(example).reasons] for example in EXAMPLES}
    assert reasons == {
        "K1": [("RANK", 1)], "K2": [], "K3": [("RANK", 3)], "K4": [("CONDITION_FALSE", 4), ("CONDITION_FALSE", 3)], "K5": [("RANK", 3)],
        "K6": [("CONDITION_FALSE", 3)], "K7": [], "K9": [], "K10": [("CONDITION_FALSE", 6)], "K11": [],
        "K12": [("CONDITION_FALSE", 4), ("CONDITION_FALSE", 4)], "K13": [], "K14": [("RANK", 5)], "K15": [("CONDITION_FALSE", 4), ("CONDITION_FALSE", 3)], "K16": [], "K17": [("WINDOW", 8)], "K18": [],
        "K19": [("CONDITION_FALSE", 4)] * 3, "K20": [], "K21": [("WINDOW", 4)],
    }  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_pages(example):
    """Each answer is a page. A traced part has its timeline."""
    why = answered(example)
    assert why.to_html().count("<svg") >= len(why.timelines)
    assert bool(why.timelines) == (example.name in ("K4", "K6", "K7", "K10", "K11", "K12")), why.timelines


def test_forms():
    why = answered(BY_NAME["K4"])
    found = json.loads(why.to_json())
    assert found["verified"] is True and found["rows"] == [3] and found["run"]["variables"] == ["S"]
    assert why.to_pandas()["comparison"].tolist() == ["price > PREV(price)"] * 2


@pytest.mark.parametrize("level", ["values", "all"])
def test_redaction_leaves_no_score(level):
    """Scores, objectives and keys have names. Ranks, row numbers and the clause's own words stay."""
    lines = str(answered(BY_NAME["K1"], redact=level)).split("\n")
    assert lines[0] == "Row 1 (day v1) is in no match that TOP 2 keeps."
    assert lines[2:5] == [
        "  rank 1  score v2  rows 4 and 6 (BUY SELL)", "  rank 2  score v3  rows 3 and 6 (BUY SELL)", "  rank 3  score v4  rows 1 and 6 (BUY SELL)  left out",
    ]  # fmt: skip
    assert lines[-1] == "TOP 2 keeps scores of v3 or more, and v4 is less."
    assert "score v1: MAX (SELL.price - BUY.price) = v1." in str(answered(BY_NAME["K2"], redact=level))


def test_named_sequences():
    clause = (
        "ORDER BY day EVENT SELECTION SKIP TILL ANY MATCH SEQUENCE S1 AS (A B) PREF MAX (B.price - A.price) AS gain SEQUENCE S2 AS (C) PREF MAX (C.price) "
        "PATTERN (S1 S2) PREF MAX (S1.gain) AND MIN (MATCH_SCORE(S2)) TOP 2 DEFINE C AS price < 14"
    )
    left_out = answered(Example("sequences", clause, "day price", TICKS, "", "day = 5", {}))
    assert left_out.verified and [(reason.reason, reason.row) for reason in left_out.reasons] == [("RANK", 5)]
    assert left_out.lines[-1] == "TOP 2 keeps scores of -4 or more, and -7 is less."
    best = answered(Example("sequences", clause, "day price", TICKS, "", None, {"match": 1}))
    scores = "MAX (B.price - A.price) = 5, MAX (C.price) = 8, MAX (S1.gain) = 5, MIN (MATCH_SCORE(S2)) = 8."
    assert best.lines[:2] == ("Match 1 takes rows 1-2 and 4: A B C.", f"  It has rank 1 and score -3: {scores}")


SECRETS = "7001 8009; 7002 8015; 7003 8007; 7004 8005; 7005 8012; 7006 8017"


@pytest.mark.parametrize("level", ["values", "all"])
@pytest.mark.parametrize(
    "clause",
    [
        "PATTERN (BUY SELL) EVENT SELECTION SKIP TILL ANY MATCH PREF MAX (SELL.price - BUY.price) AND MAX (SELL.price) TOP 2",
        "PATTERN (BUY SELL) WINDOW 4 SLIDE 2 PREF MAX (SELL.price) TOP 1",
        "PATTERN (S UP+) PREF MAX (LAST(price)) DEFINE UP AS price > PREV(price)",
        "PATTERN (A B C) EVENT SELECTION STRICT CONTIGUITY APPROX 1 DEFINE A AS price > PREV(price), B AS price < PREV(price), C AS price > 2 * PREV(price)",
        "AUTOMATON (REGISTER low INT STATE q2 FINAL ARC FROM q0 TO q1 SET low = price ARC FROM q1 TO q1 WHEN price < low SET low = price "
        "ARC FROM q1 TO q2 WHEN price > low + 5 EMIT (price - low AS gain)) WINDOW 3",
    ],
)
def test_redaction_leaves_no_value_in_any_form(clause, level):
    asked = [{"at": f"day = {day}"} for day in range(7001, 7007)] + [{"match": 1}, {}]
    for question_ in asked:
        at, arguments = question_.get("at"), {name: value for name, value in question_.items() if name != "at"}
        try:
            why = answered(Example("secret", f"ORDER BY day {clause}", "day price", SECRETS, "", at, arguments), redact=level)
        except ClauseError as error:
            assert error.message.startswith("match=1")
            continue
        for form in (str(why), why.to_json(), why.to_html(), why.to_pandas().to_csv()):
            assert not re.search(r"\b[78]0\d\d\b", form), form


@pytest.mark.parametrize(
    "option, what",
    [
        ("PATTERN (A B) WINDOW 5 APPROX 1 BUDGET 3 CHECKS", "BUDGET"),
        ("PATTERN (A B) WINDOW 5 APPROX 1 MATCH HISTORY", "MATCH HISTORY"),
        ("EVENT SELECTION STRICT CONTIGUITY ALL MATCHES PATTERN (A B) CHANGES IN op", "CHANGES IN"),
        (", CHANGE() AS c EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A) WINDOW 4 SLIDE 2 PREF MAX (A.price) TOP 1 REPORT CHANGES", "REPORT CHANGES"),
    ],
)
def test_options_that_are_not_explained(option, what):
    """Such an option is refused at its place, with the words to leave out."""
    with pytest.raises(ClauseError) as caught:
        question(f"ORDER BY t MEASURES 1 AS one {option} DEFINE A AS v > 1")
    assert caught.value.error_class == "SPARKCEP.WHY"
    assert f"Leave {what} out" in caught.value.message


STEPS_OF_ANY = "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B C) APPROX 1 {} WINDOW 10 DEFINE A AS k = 'a', B AS k = 'b', C AS k = 'c'"


@pytest.mark.parametrize("report, found", [("ALL MATCHES", "It is in match 4 as B and match 5 as B and match 10 as B and 2 more."), ("PROXY MATCHES", "It is in match 3 as B and match 4 as B.")])
def test_a_row_of_another_approximate_match(report, found):
    """A row that another match has is reported, so no match is shown instead."""
    example = Example("", STEPS_OF_ANY.format(report), "t k", "1 a; 2 b; 3 x; 4 a; 5 c; 6 b; 7 c", "", "t = 6", {"match": 1})
    lines = answered(example).lines
    assert lines[0].startswith("Row 6 (t 6) is not in match 1, which takes rows 1-2") and lines[1:] == (found,)


def test_a_variable_in_a_later_window():
    """The first window leaves the match with the row out, and the second one keeps it."""
    clause = "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) WINDOW 4 ROWS SLIDE 2 ROWS PREF MAX (B.v - A.v) TOP 1"
    lines = answered(Example("", clause, "t v", "1 0; 2 9; 3 0; 4 5; 5 0; 6 1", "", "t = 4", {"expect": "B"})).lines
    assert lines[0] == "Row 4 (t 4) is B in match 1 in the window from row 3."
    lines = answered(Example("", clause, "t v", "1 0; 2 9; 3 0; 4 5; 5 0; 6 1", "", "t = 6", {"match": 2})).lines
    assert lines[0] == "Row 6 (t 6) is in match 2 of the window from row 3 as B."


BY_ROWS = """ORDER BY t AUTOMATON BY ROWS (
    STATE q1 IGNORE WHEN TRUE, q2 FINAL
    ARC a FROM q0 TO q1 WHEN k = 'a'
    ARC b FROM q1 TO q2 WHEN k = 'b'
  ) WINDOW 10"""


def test_rows_that_a_match_by_rows_passes_over():
    """An arc without a name takes them for its computation, and not for the match."""

    def lines(at: str | None, **arguments: int) -> tuple[str, ...]:
        return answered(Example("", BY_ROWS, "t k", "1 a; 2 x; 3 a; 4 b; 5 b", "", at, arguments)).lines

    assert lines(None, match=1) == ("Match 1 takes rows 1 and 4.", "  Its arcs: a, arc 1 x2, b.")
    assert lines("t = 2")[:3] == (
        "Row 2 (t 2) is in no match.", "Match 1 takes rows 1 and 4 and passes over the row. 1 more match around the row does not take it.",
        "No match begins here: no arc of q0 takes the row.",
    )  # fmt: skip
    assert lines("t = 3", match=1) == ("Row 3 (t 3) is not in match 1, which takes rows 1 and 4.", "It is in 2 other matches.")


def test_a_match_by_rows_inside_longer_computations():
    """Arcs without a name begin and end its computations."""
    clause = """ORDER BY t AUTOMATON BY ROWS (
        STATE q4 FINAL
        ARC FROM q0 TO q1 WHEN k = 'x'
        ARC a FROM q1 TO q2 WHEN k = 'a'
        ARC b FROM q2 TO q3 WHEN k = 'b'
        ARC FROM q3 TO q4
      )"""
    assert answered(Example("", clause, "t k", "1 x; 2 a; 3 b; 4 y", "", None, {"match": 1})).lines == ("Match 1 takes rows 2-3.", "  Its arcs: arc 1, a, b, arc 4.")
