"""The answers of sparkcep.why under SHOW UNFINISHED MATCHES, without Spark: worked examples to the letter."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sparkcep.tracing.answers import explain as module
from sparkcep.tracing.answers.differs import UNTRUE
from sparkcep.tracing.answers.explain import Asked, explain
from sparkcep.tracing.answers.unfinished import unfinished_counts
from sparkcep.tracing.rows.unfinished import unfinished_matches
from tests.support.why_examples import frozen, question
from tests.support.why_unfinished_examples import UNFINISHED
from tests.unit.tracing.test_why import answered

STEPS = "DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c'"


@pytest.mark.parametrize("example", UNFINISHED, ids=lambda example: example.name)
def test_examples_to_the_letter(example):
    why = answered(example)
    assert str(why) == example.text
    assert why.verified


def test_the_record_of_an_answer():
    found = {example.name: json.loads(answered(example).to_json())["unfinished"] for example in UNFINISHED}
    assert found["F2"] == [{"start_row": 1, "rows": [1, 2], "variables": ["A", "B"], "status": "BROKEN", "ended_at": "3", "expected": ["C"], "reported": True, "watermark": ""}]
    assert [(one["start_row"], one["reported"]) for one in found["F6"]] == [(1, True), (2, False)]


def test_the_rest_of_an_answer_is_that_of_the_clause_without_the_option():
    for example in UNFINISHED:
        option = example.clause.partition("ONE ROW")[2].partition("MATCHES")[0]
        plain = answered(replace(example, clause=example.clause.replace(f"ONE ROW{option}MATCHES", "").replace("AS OF 50", "")))
        added = [line for line in answered(example).lines if "UNFINISHED MATCHES" in line or "TIMEOUT MATCHES" in line or "unfinished match of" in line]
        assert [line for line in answered(example).lines if line not in added] == list(plain.lines), example.name
        assert added and not plain.unfinished


def test_redaction_hides_when_a_match_ended():
    (shown,) = answered(UNFINISHED[0], redact="values").unfinished
    assert (shown.ended_at, shown.status, shown.expected) == ("v2", "BROKEN", ("C",))


def test_no_unfinished_match_of_a_matched_row():
    rows = frozen(question(f"ORDER BY t ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (A B) {STEPS.partition(', C')[0]}"), ["t", "e"], list(enumerate("abb", 1)), "t")
    assert "UNFINISHED" not in str(explain(rows, Asked((0, 1, 2)))) and unfinished_matches(rows) == {}


def test_matches_are_numbered_as_without_the_option():
    """With MATCH_NUMBER() in DEFINE an unfinished match inside another one is not searched."""
    clause = "ORDER BY t ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (A+ B) DEFINE A AS MATCH_NUMBER() = 1, B AS e = 'b'"
    why = explain(frozen(question(clause), ["t", "e"], list(enumerate("aax", 1)), "t"), Asked((1,)))
    assert "SHOW UNFINISHED MATCHES returns nothing for this start row: it is inside the unfinished match of rows 1-3 (A A A)." in [line.strip() for line in why.lines]


def test_an_unfinished_match_that_differs_explains_nothing(monkeypatch):
    """Rule 27 also holds for the run that the engine reports."""
    monkeypatch.setattr(module, "unfinished_matches", lambda rows: {start: replace(run, rows=run.rows[:1], variables=run.variables[:1]) for start, run in unfinished_matches(rows).items()})
    why = answered(UNFINISHED[0])
    assert not why.verified and why.lines[:2] == (UNTRUE, "  With unfinished matches from row 1:")
    assert "rows 1-2 (A B)" in why.lines[2] and "row 1 (A)" in why.lines[3]


def test_the_numbers_of_a_whole_table():
    shown = question("ORDER BY t ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (A)").unfinished.unfinished
    counts = [("MATCHED", "C", 1200), ("OPEN", "A", 3), ("BROKEN", "LONG", 12_345), ("OPEN", "LONG", 1)]
    assert list(unfinished_counts(shown, counts)) == [
        "SHOW UNFINISHED MATCHES returns 1,200 matches and 12,349 unfinished matches, over all rows:",
        "  last row  BROKEN  OPEN",
        "  A              0     3",
        "  LONG      12,345     1",
    ]
    assert list(unfinished_counts(shown, [])) == ["SHOW UNFINISHED MATCHES returns 0 matches and 0 unfinished matches, over all rows."]
