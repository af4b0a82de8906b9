"""The answers of sparkcep.why without Spark: the worked examples to the letter, and the forms of an answer."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sparkcep.errors import ClauseError
from sparkcep.settings import DEFAULT
from sparkcep.tracing.answers import explain as module
from sparkcep.tracing.answers.explain import Asked, explain
from sparkcep.tracing.answers.overall import Totals, overall
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.search.trace import Trace
from tests.support.why_examples import EXAMPLES, Example, frozen, question

BY_NAME = {example.name: example for example in EXAMPLES}


def answered(example: Example, **options):
    """The answer, with the condition evaluated for one ORDER BY key."""
    key = example.names[0]
    asked = question(example.measured)
    rows = frozen(asked, example.names, example.values, key)
    if example.at is None and not example.arguments:
        return overall([rows], totals(rows), replace(DEFAULT, prefilter=False), words={}, **options)
    wanted = None if example.at is None else int(example.at.rpartition(" ")[2])
    at = tuple(i for i, row in enumerate(example.values) if row[0] == wanted)
    return explain(rows, Asked(at, example.arguments.get("match"), example.arguments.get("expect")), **options)


def totals(rows: FrozenRows) -> Totals:
    """The counts that Spark would return."""
    truths = {}
    for comparison in rows.question.comparisons:
        if column := rows.question.values[comparison.truth].column:
            found = rows.column(column)
            truths[comparison.number] = tuple(found.count(value) for value in (True, False, None))
    return Totals(rows.count, 1, truths)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_to_the_letter(example):
    why = answered(example)
    assert str(why) == example.text
    assert why.verified and why.verdict == example.text.split("\n")[0]


def test_redaction_leaves_no_value():
    """Equal values get one name. Row numbers, truth, NULL and the statement's literals stay."""
    why = answered(BY_NAME["E1"], redact="values")
    lines = str(why).split("\n")
    assert lines[0] == "Row 1 (day v1) is in no match."
    assert lines[3:5] == ["    DOWN  price < PREV(price)  v3 < v4      true", "          volume > 1000        NULL > 1000  NULL: volume is NULL in row 3"]
    hidden = str(answered(BY_NAME["E1"], redact="all")).split("\n")
    assert hidden[3:5] == ["    DOWN  price < PREV(price)  true", "          volume > 1000        NULL: volume is NULL in row 3"]
    for example in EXAMPLES:
        for level in ("values", "all"):
            why = answered(example, redact=level)
            for shown in why.next:
                assert level != "all" or (shown.left, shown.right) == ("", "")


def test_forms():
    why = answered(BY_NAME["E1"])
    frame = why.to_pandas()
    assert list(frame.columns) == ["partition", "row", "start_row", "role", "variable", "comparison", "left", "right", "result", "cause", "alone"]
    assert frame.values.tolist() == [
        ["", 3, 1, "next", "DOWN", "price < PREV(price)", "8", "9", True, "", False],
        ["", 3, 1, "next", "DOWN", "volume > 1000", "NULL", "1000", None, "volume is NULL in row 3", True],
    ]
    found = json.loads(why.to_json())
    assert found["schema"] == 1 and found["verified"] is True and found["rows"] == [1]
    assert found["reasons"] == [{"reason": "CONDITION_NULL", "row": 3, "start_row": 1, "variable": "DOWN"}]
    assert found["run"] == {"start_row": 1, "rows": 2, "variables": ["STRT", "DOWN"], "ended": 3}


def test_reasons_are_of_the_closed_list():
    reasons = {example.name: [reason.reason for reason in answered(example).reasons] for example in EXAMPLES}
    assert reasons == {
        "E1": ["CONDITION_NULL"], "E2": ["CONDITION_NULL"], "E3": ["PARTITION_END"], "E4": ["WINDOW", "WINDOW"], "E5": ["CONDITION_FALSE"],
        "E6": ["CONDITION_FALSE", "LOST"], "E7": ["RELUCTANT", "PREFERRED"], "E8": ["RELUCTANT"], "E9": ["CONDITION_FALSE", "CONDITION_FALSE"],
        "E10": ["PREFERRED"], "E11": ["CONDITION_FALSE", "CONDITION_FALSE"], "E12": [], "E13": [], "E14": [],
    }  # fmt: skip


def test_a_trace_that_differs_explains_nothing(monkeypatch):
    """If the trace has other matches than the engine, both lists are given, and no reason."""
    monkeypatch.setattr(Trace, "truth", lambda self, comparison, row, run: True)
    why = answered(BY_NAME["E9"])
    assert not why.verified and why.reasons == () and why.next == ()
    assert str(why).split("\n")[0] == module.UNTRUE
    assert "  Matches of the engine: rows 1-5 (STRT DOWN DOWN UP UP)" in str(why).split("\n")


@pytest.mark.parametrize(
    "example, arguments, message",
    [
        ("E9", {"match": 4}, "match=4: the partition has 1 match. Write match=1"),
        ("E10", {"expect": "C"}, "expect='C' is not a variable of PATTERN"),
        ("E9", {"expect": "DOWM"}, "expect='DOWM' is not a variable of PATTERN; did you mean DOWN?"),
    ],
)
def test_wrong_questions(example, arguments, message):
    chosen = BY_NAME[example]
    asked = Example(chosen.name, chosen.clause, chosen.columns, chosen.rows, "", "day = 2" if example == "E9" and "expect" in arguments else chosen.at, arguments)
    with pytest.raises(ClauseError, match="WHY") as caught:
        answered(asked)
    assert message in caught.value.message


@pytest.mark.parametrize(
    "option, what",
    [
        ("EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B)", "EVENT SELECTION"),
        ("WINDOW 10 EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A & B)", "EVENT SELECTION"),
    ],
)
def test_options_that_are_not_explained(option, what):
    """Such an option is refused at its place, with the words to leave out."""
    with pytest.raises(ClauseError) as caught:
        question(f"ORDER BY t MEASURES 1 AS one {option}")
    assert (caught.value.error_class, caught.value.line) == ("SPARKCEP.WHY", 1)
    assert f"Leave {what} out" in caught.value.message


@pytest.mark.parametrize(
    "clause, hint",
    [
        ("PATTERN (^ A B) DEFINE A AS v = 5, B AS v = 6", "Hint: without ^ there would be 1 match."),
        ("PATTERN ((A B $ | A A)+) DEFINE A AS v = 5, B AS v = 6", "Hint: without $ there would be 1 match."),
        ("PATTERN (^ B A $ ) DEFINE A AS v = 7, B AS v = 6", "Hint: without ^ and $ there would be 1 match."),
        ("WINDOW 2 PATTERN (A+ B) DEFINE A AS v < 7, B AS v = 7", "Hint: without WINDOW 2 there would be 1 match."),
        ("WINDOW 2 PATTERN (A C) DEFINE A AS v < 7, C AS v = 9", None),
        ("WINDOW 3 PATTERN (^ A B) DEFINE A AS v = 4, B AS v = 5", None),
    ],
)
def test_hints_about_anchors_and_windows(clause, hint):
    """Each is verified by the engine over the sample. A clause that matches gives none."""
    why = answered(Example("", f"ORDER BY t {clause}", "t v", "1 4; 2 5; 4 6; 7 7; 9 3", ""))
    assert [line for line in why.hints if line.startswith("Hint: without")] == ([hint] if hint else [])
