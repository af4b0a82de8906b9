"""Unfinished matches of random clauses: the engine and the oracle agree, and both laws of the definition hold."""

from __future__ import annotations

import random
import re
from datetime import datetime

import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.factory import match_table
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.plan.extend.unfinished import CLOCK, clock_matters
from sparkcep.settings import Settings
from tests.oracle import measures
from tests.oracle.selection import ANY, NEXT
from tests.oracle.unfinished import UNFINISHED
from tests.property.random_cases import by_the_engine, comparable, difference
from tests.property.unfinished import unfinished_cases
from tests.property.unfinished.unfinished_cases import OWN, by_laws, random_case
from tests.selection import first

CASES, SEEDS = 12, first(range(40), wider=2)


def cases(seed, **wanted):
    """Random cases with rows. ``wanted``: fields of the queries."""
    for i in range(CASES):
        case = random_case(random.Random(f"unfinished {seed} {i}"), **wanted)
        if any(case.partitions.values()) and not case.failing:
            yield case


@pytest.mark.parametrize("seed", SEEDS)
def test_engine_and_oracle_agree(seed):
    found = [difference(case, by_the_engine) for case in cases(seed)]
    assert [text for text in found if text is not None] == []
    assert len(found) > CASES // 3


@pytest.mark.parametrize("seed", SEEDS)
def test_negations_agree(seed):
    """Negated groups with windows and with conditions on the match, and negations that read several of their rows, too."""
    found = [difference(case, by_the_engine) for case in cases(1000 + seed, shapes=("group", "negation"))]
    assert [text for text in found if text is not None] == []
    assert len(found) > CASES // 3


@pytest.mark.parametrize("seed", SEEDS)
def test_laws_hold(seed):
    """Matches are those without the option, and SHOW TIMEOUT MATCHES returns a part of SHOW UNFINISHED MATCHES."""
    found = [difference(case, by_laws) for case in cases(100 + seed)]
    assert [text for text in found if text is not None] == []
    assert len(found) > CASES // 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_clock_that_is_not_read_changes_nothing(seed):
    """Clauses without MATCH_STATUS() and MATCH_ENDED_AT(): AS OF an early and a late time, and without AS OF."""
    compared = 0
    for i in range(CASES):
        rng = random.Random(f"clock {seed} {i}")
        case = random_case(rng, show=UNFINISHED, shapes=("letters", "plain", "nested"), strategy=rng.choice([NEXT, ANY]), window=("range", rng.randrange(2, 7)))
        text = re.sub(r"SHOW UNFINISHED MATCHES( AS OF \S+)?", "SHOW UNFINISHED MATCHES", re.sub(r"MATCH_(STATUS|ENDED_AT)\(\) AS \w+(, )?", "", case.text)).replace(", \n", "\n")
        plan = make_plan(parse_clause(text))
        if case.failing or not plan.unfinished.clock or clock_matters(plan):
            continue
        dated = [text.replace("SHOW UNFINISHED MATCHES", f"SHOW UNFINISHED MATCHES AS OF {at}") for at in (-1000, 1000)]
        early, late, without = ({p: comparable(rows) for p, rows in by_the_engine(one, case.partitions).items()} for one in (*dated, text))
        assert early == late == without, text
        compared += any(map(len, without.values()))
    assert compared > CASES // 4


def test_a_law_that_does_not_hold_is_a_difference(monkeypatch):
    monkeypatch.setattr(unfinished_cases, "timeouts_alone", lambda text: (text.replace("SHOW UNFINISHED", "SHOW TIMEOUT"), ("MATCHED", "TIMED OUT", "BROKEN", "OPEN"), tuple(OWN)))
    with pytest.raises(AssertionError, match="differ"):
        for case in cases(200, show=UNFINISHED, window=("range", 5), mode=measures.ONE_ROW):
            by_laws(case.text, case.partitions)


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


def test_an_open_run_is_shown_instead_of_a_longer_one_that_timed_out():
    """B A needs another B within 3. B alone is still waiting for C."""
    clause = """PARTITION BY p ORDER BY t, id MEASURES MATCH_STATUS() AS st, count(*) AS n ONE ROW PER MATCH SHOW UNFINISHED MATCHES AS OF 9 AFTER MATCH SKIP TO NEXT ROW
EVENT SELECTION SKIP TILL NEXT MATCH PATTERN ((((A | B A)* B) WITHIN 3) C D) DEFINE A AS s = 'd', B AS s = 'b', C AS s = 'c'"""
    rows = [{"id": i, "t": t, "v": 0, "w": 0, "s": s} for i, (t, s) in enumerate([(1, "b"), (3, "d")])]
    assert by_the_engine(clause, {1: rows}) == {1: [{"st": "OPEN", "n": 1}, {"st": "TIMED OUT", "n": 1}]}


@pytest.mark.parametrize("clock", [pa.array([1.5]), pa.array(["yesterday"]), pa.array([True])])
def test_a_clock_of_another_type_is_an_error(clock):
    """A DataFrame may name any column as the clock. Arrow cannot cast some types, and some values of others."""
    clause = "ORDER BY t MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES AS OF x PATTERN (A B) WINDOW INTERVAL '1' DAY"
    plan = make_plan(parse_clause(clause.replace("AS OF x", "AS OF current_timestamp()")))
    table = pa.table({"__o0": pa.array([1], pa.timestamp("us", "UTC")), CLOCK: clock})
    with pytest.raises(MatchRuntimeError, match="AS OF is of type"):
        match_table(plan, table)


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.date32()])
def test_a_timestamp_as_clock_goes_by_the_session(kind):
    """Half past 15 in UTC is half past midnight of the next day in Tokyo, where the window of a day has ended."""
    clause = "ORDER BY t MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES AS OF current_timestamp() PATTERN (A B) WINDOW INTERVAL '1' DAY"
    begin, clock = (pa.array([datetime(2024, 5, 1, *time)], pa.timestamp("us")) for time in ((0, 0), (15, 30)))
    table = pa.table({"__o0": begin.cast(kind), CLOCK: clock.cast(pa.timestamp("us", "UTC"))})
    for zone, status in (("Asia/Tokyo", "TIMED OUT"), ("UTC", "OPEN")):
        plan = make_plan(parse_clause(clause), settings=Settings(zone=zone))
        assert match_table(plan, table).column(0).to_pylist() == [status]


def test_as_of_null_is_an_error():
    clause = "ORDER BY t MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES AS OF CAST(NULL AS TIMESTAMP) PATTERN (A B) WINDOW INTERVAL '1' DAY"
    table = pa.table({"__o0": pa.array([1], pa.timestamp("us", "UTC")), CLOCK: pa.array([None], pa.timestamp("us", "UTC"))})
    with pytest.raises(MatchRuntimeError, match=r"AS OF is NULL.*\(line 1, column 60: 'SHOW UNFINISHED MATCHES AS OF "):
        match_table(make_plan(parse_clause(clause)), table)
