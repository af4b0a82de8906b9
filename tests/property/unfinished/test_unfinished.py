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
    """Random cases with rows. ``wanted``: fields of the queries."""
    for i in range(CASES):
        case = random_case(random.Random(f"unfinished {seed} {i}"), **wanted)
        if any(case.partitions.values()) and not case.failing:
            yield case


@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.further) for seed in WIDER)])
def test_engine_and_oracle_agree(seed):
    found = [difference(case, by_the_engine) for case in cases(seed)]
    assert [text for text in found if text is not None] == []
    assert len(found) > CASES // 3


@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.further) for seed in WIDER)])
def test_negations_agree(seed):
    """Negated groups with windows and with conditions on the match, and negations that read several of their rows, too."""
    found = [difference(case, by_the_engine) for case in cases(1000 + seed, shapes=("group", "negation"))]
    assert [text for text in found if text is not None] == []
    assert len(found) > CASES // 3


@pytest.mark.parametrize("seed", SEEDS)
def test_matches_are_those_without_the_option(seed):
    compared = 0
    for case in cases(100 + seed):
        lines = case.text.split("\n")
        if any("WITH UNMATCHED" in line for line in lines):
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


def test_all_orders_of_a_permutation_say_what_may_come_next():
    """C C B begins orders that go on with B and orders that go on with A. C C C reaches some of their states first."""
    clause = """PARTITION BY p ORDER BY t, id MEASURES MATCH_EXPECTED() AS missing, count(*) AS n ONE ROW PER MATCH SHOW UNFINISHED MATCHES
EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (C C PERMUTE(B{2,}?, C | B | A, A{2}))"""
    rows = [{"id": i, "t": i, "v": 0, "w": 0, "s": None} for i in range(3)]
    assert by_the_engine(clause, {1: rows}) == {1: [{"missing": ["B", "A"], "n": 3}]}


def test_a_negation_on_the_match_that_no_row_fulfils_ends_no_run():
    """Under SKIP TILL ANY MATCH the condition of K reads M, which takes no row."""
    clause = """PARTITION BY p ORDER BY t, id MEASURES count(*) AS n ONE ROW PER MATCH SHOW UNFINISHED MATCHES
EVENT SELECTION SKIP TILL ANY MATCH FIRST MATCH PATTERN (~(M M) A A ~K A A) WINDOW 5 ROWS DEFINE A AS s <> 'c', M AS v = 0, K AS v = M.v"""
    rows = [{"id": i, "t": i, "v": 0, "w": 0, "s": s} for i, s in enumerate("dbcb")]
    assert by_the_engine(clause, {1: rows}) == {1: [{"n": 3}]}
