"""Unfinished matches of random clauses: the engine and the oracle agree, and both laws of the definition hold."""

from __future__ import annotations

import random

import pytest

from tests.oracle import measures
from tests.oracle.unfinished import TIMEOUT
from tests.property.random_cases import by_the_engine, comparable, difference
from tests.property.unfinished.unfinished_cases import random_case

CASES, SEEDS = 12, range(2)
WIDER = range(2, 40)


def cases(seed, **wanted):
    """Random cases with rows. Some negations are refused yet. ``wanted``: fields of the queries."""
    for i in range(CASES):
        case = random_case(random.Random(f"unfinished {seed} {i}"), **wanted)
        if any(case.partitions.values()) and not case.failing:
            yield case


def is_refused(text) -> bool:
    return text is not None and "are not supported yet" in text


@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.further) for seed in WIDER)])
def test_engine_and_oracle_agree(seed):
    found = [difference(case, by_the_engine) for case in cases(seed)]
    assert [text for text in found if text is not None and not is_refused(text)] == []
    assert sum(text is None for text in found) > CASES // 3


@pytest.mark.parametrize("seed", SEEDS)
def test_matches_are_those_without_the_option(seed):
    compared = 0
    for case in cases(100 + seed):
        lines = case.text.split("\n")
        if is_refused(difference(case, by_the_engine)) or any("WITH UNMATCHED" in line for line in lines):
            continue
        own = ("st", "ended", "missing")
        found = by_the_engine(case.text, case.partitions)
        plain = "\n".join(_without_option(line) for line in lines)
        matches = {p: [{name: v for name, v in row.items() if name not in own} for row in rows if row["st"] == "MATCHED"] for p, rows in found.items()}
        assert {p: comparable(rows) for p, rows in matches.items()} == {p: comparable(rows) for p, rows in by_the_engine(plain, case.partitions).items()}, case.text
        compared += 1
    assert compared


@pytest.mark.parametrize("seed", SEEDS)
def test_timeouts_are_a_part_of_all(seed):
    compared = 0
    for case in cases(200 + seed, show=TIMEOUT, window=("range", 5), mode=measures.ONE_ROW):
        if is_refused(difference(case, by_the_engine)):
            continue
        every = by_the_engine(case.text.replace("SHOW TIMEOUT", "SHOW UNFINISHED"), case.partitions)
        late = {p: [row for row in rows if row["st"] in ("MATCHED", "TIMED OUT")] for p, rows in every.items()}
        found = by_the_engine(case.text, case.partitions)
        assert {p: comparable(rows) for p, rows in found.items()} == {p: comparable(rows) for p, rows in late.items()}, case.text
        compared += 1
    assert compared


def _without_option(line) -> str:
    if line.startswith("MEASURES"):
        kept = [part for part in line.removeprefix("MEASURES ").split(", ") if not part.startswith("MATCH_STATUS") and not part.startswith(("MATCH_ENDED_AT", "MATCH_EXPECTED"))]
        return "MEASURES " + ", ".join(kept)
    return line.split(" SHOW UNFINISHED")[0].split(" SHOW TIMEOUT")[0] if " PER MATCH" in line else line
