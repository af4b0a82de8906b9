"""Automata over rows that come and go, against the definition."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from sparkcep.errors import MatchRuntimeError
from tests.oracle import automaton as oracle
from tests.oracle import changelog
from tests.property.in_process import run
from tests.property.test_automata import measures_of, wanted
from tests.selection import first

AUTOMATA, PARTITIONS = 60, 12  # a seed


@pytest.mark.parametrize("seed", first(range(8)))
def test_net_is_of_the_rows_that_are_left(seed):
    rng = random.Random(8000 + seed)
    compared = matched = 0
    for i in range(AUTOMATA):
        automaton = replace(oracle.random_automaton(rng), consecutive=rng.random() < 0.4)
        bag = rng.random() < 0.4
        partitions = {p: changelog.random_changes(rng, rng.randrange(1, 12)) for p in range(PARTITIONS)}
        words = f"CHANGES IN op{'' if bag else ' ARRIVAL BY at'}{' CONSECUTIVE BY n' if automaton.consecutive else ''}{rng.choice(('', ' REPORT NET'))}"
        expected = {}
        for p, changes in partitions.items():
            automaton.spent[0] = 0
            try:
                rows = changelog.left(changes, bag)
                if bag and len({row["id"] for row in rows}) < len(rows):
                    continue  # rows of one time have no order
                expected[p] = wanted(automaton, rows)
            except (oracle.OverflowInt, oracle.TooMany):
                continue
        text = oracle.clause(automaton, measures_of(automaton)[1], changes=words)
        got = run(text, {p: partitions[p] for p in expected}, (None, 1, 3)[i % 3]) if expected else {}
        for p, rows in expected.items():
            assert got.get(p, []) == rows, f"{text}\nchanges {partitions[p]}"
        compared, matched = compared + len(expected), matched + sum(map(len, expected.values()))
    assert compared >= 0.5 * AUTOMATA * PARTITIONS
    assert matched > compared


@pytest.mark.parametrize("seed", first(range(4)))
def test_rows_that_are_in_no_match(seed):
    rng = random.Random(8100 + seed)
    alone = 0
    for _ in range(AUTOMATA // 2):
        automaton = replace(oracle.random_automaton(rng), consecutive=rng.random() < 0.5)
        partitions = {p: changelog.random_changes(rng, rng.randrange(1, 10)) for p in range(PARTITIONS)}
        words = f"CHANGES IN op ARRIVAL BY at{' CONSECUTIVE BY n' if automaton.consecutive else ''}"
        expected = {}
        for p, changes in partitions.items():
            automaton.spent[0] = 0
            rows = changelog.left(changes)
            try:
                found = oracle.matches(automaton, rows, name=lambda row: (row["id"], row["at"]))
            except (oracle.OverflowInt, oracle.TooMany):
                continue
            expected[p] = [row["at"] for row in rows if not any(a <= (row["id"], row["at"]) <= b for a, b, *_ in found)]
            expected[p] += [change["at"] for change in changes if change["id"] is None and change["op"] != "punctuate"]
        text = oracle.clause(automaton, "LAST(at) AS m_at, count(*) AS m_count", "ALL ROWS PER MATCH WITH UNMATCHED ROWS", words)
        text = text.replace("MEASURES", "MEASURES at AS m_own,")
        got = run(text, {p: partitions[p] for p in expected}) if expected else {}
        for p, rows in expected.items():
            left_out = [row for row in got.get(p, []) if row["m_count"] is None]
            assert len(left_out) == len(rows), f"{text}\nchanges {partitions[p]}"
            alone += len(rows)
    assert alone > 100


@pytest.mark.parametrize("seed", first(range(2)))
def test_changes_that_make_no_sense(seed):
    rng = random.Random(8200 + seed)
    text = "PARTITION BY p ORDER BY id MEASURES LAST(id) AS a AUTOMATON (STATE q1 FINAL ARC FROM q0 TO q1) CHANGES IN op ARRIVAL BY at"
    for _ in range(30):
        changes, kind = changelog.spoiled(rng, changelog.random_changes(rng, rng.randrange(6)))
        with pytest.raises(changelog.Refused):
            changelog.left(changes)
        with pytest.raises(MatchRuntimeError) as raised:
            run(text, {1: changelog.random_changes(rng, 3), 2: changes})
        assert raised.value.error_class == f"SPARKCEP.{kind}", changes
