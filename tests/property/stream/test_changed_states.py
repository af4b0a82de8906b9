"""States of streams that are damaged or made up: an error of the data or rows, and never a crash."""

from __future__ import annotations

import json

import pytest

from tests.property.stream import changed_states

# one family of each form of a state
FORMS = [
    "event selection, ALL MATCHES", "MATCH_COUNT", "APPROX PROXY MATCHES", "MATCH BUNDLES", "BUDGET", "TOP k, SLIDE of APPROX", "AUTOMATON, ON EXPIRY", "REPORT CHANGES, PUNCTUATE BY",
    "idleTimeout", changed_states.BUCKETS, changed_states.JOURNALS,
]  # fmt: skip


def outcome(changes: int, families: list[str]) -> None:
    code, said = changed_states.in_process(["--changes", str(changes), "--each", "8", "--families", *families])
    assert code == 0, said
    counted = [json.loads(line) for line in said.splitlines()]
    assert [one["family"] for one in counted] == [family for family in changed_states.families() if family in families]
    for one in counted:
        assert one["changes"] >= changes and 0 < one["came"]["STATE_FORMAT"] and one["came"].get("read", 0) > 0, one


@pytest.mark.process
def test_each_form():
    outcome(16, FORMS)


@pytest.mark.slow
@pytest.mark.parametrize("family", FORMS)
def test_each_family(family):
    outcome(10_000, [family])


OTHERS = [family for family in changed_states.families() if family not in FORMS]
PROCESSES = 3  # to start one takes as long as the changes of three families


@pytest.mark.process
@pytest.mark.parametrize("number", range(PROCESSES))
def test_the_other_families(number):
    outcome(100, OTHERS[number::PROCESSES])
