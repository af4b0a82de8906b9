"""The answers of sparkcep.why under event selections, without Spark: worked examples to the letter."""

from __future__ import annotations

import json

import pytest

from sparkcep.tracing.answers.reasons import REASONS
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
