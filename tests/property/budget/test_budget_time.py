"""BUDGET INTERVAL by a clock that counts, against its oracle, and the worked numbers of its feedback."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.budget.feedback import NO_FEEDBACK
from sparkcep.errors import ClauseError
from sparkcep.kernels.budget import feedback as controlling
from sparkcep.plan.build import make_plan
from sparkcep.settings import DEFAULT
from sparkcep.sql.explain.describe import describe
from tests.oracle import budget as oracle
from tests.oracle.pace import Pace
from tests.property.budget.test_budget import (
    as_rows,
    clause,
    ran,
    random_budgeted,
    random_history,
    random_points,
    random_streams,
    said,
    seen,
)
from tests.selection import first

REPORTED = "array_agg(id) AS ids, MATCH_ERRORS() AS e, COMPLETE() AS c, CHECKS_LEFT_OUT() AS o, COVERAGE() AS v, CHECKS_ALLOWED() AS a"


# -- the controller alone: table T6 ------------------------------------------------------------------------------------


def controlled(interval: int, costs, blocks: int, most=10**9) -> tuple[list[float], list[float]]:
    """Checks a row that the controller sets for each block, and nanoseconds that a row of it takes.

    ``costs``: of a row and of a check in each block; ``most``: the candidates of a row, or of each block."""
    found = controlling.Feedback(
        True, controlling.PER_ROW, interval, controlling.COUNTED, 0, 0, np.zeros(controlling.FEEDBACK_FIELDS, dtype=np.int64), np.zeros((1, controlling.SAVED_FEEDBACK), dtype=np.int64),
        NO_FEEDBACK, np.zeros(0, dtype=np.int64), np.zeros(controlling.BLOCK_FIELDS, dtype=np.int64), np.zeros(2, dtype=np.int64), np.zeros((0, controlling.RECORD_FIELDS), dtype=np.int64),
    )  # fmt: skip
    controlling.enter_feedback(0, found)
    checks, times = [], []
    for block in range(blocks):
        row, check = costs(block)
        found = found._replace(row=row, check=check)
        checks.append(int(found.now[controlling.F_CHECKS]) / 64)
        times.append(0.0)
        for _ in range(64):
            tried = min(controlling.checks_allowed(found), most(block) if callable(most) else most)
            controlling.count_row(tried, found)
            times[-1] += (row + check * tried) / 64
    return checks, times


def plain(block):
    return 200, 400


@pytest.mark.parametrize(
    "interval, checks, last",
    [
        (5_000, [8, 11.75, 11.92, 11.97], 4_994),
        (50_000, [8, 32, 122.4, 124.2], 49_994),
        (1_000, [8, 2.19, 2.09, 2.05], 994),
        (500, [8, 1.05, 1, 1], 600),
    ],
)
def test_checks_approach_the_interval(interval, checks, last):
    found, times = controlled(interval, plain, 40)
    assert found[:4] == pytest.approx(checks, rel=0.005)
    assert times[-1] == pytest.approx(last, abs=1)


def test_a_first_block_of_too_many_checks_is_cut_off():
    _, times = controlled(1_000, plain, 1)
    assert times[0] * 64 == 24 * (200 + 8 * 400) + 40 * 600  # the clock is read at row 24


def test_dearer_checks_are_noticed():
    found, times = controlled(5_000, lambda block: (200, 400 if block < 40 else 1_200), 60)
    assert found[40:45] == pytest.approx([11.98, 7.53, 5.69, 4.88, 4.45], abs=0.02) and found[-1] == pytest.approx(4, abs=0.05)
    assert times[40:44] == pytest.approx([6_331, 6_294, 5_619, 5_469], abs=1)


def test_bursts_keep_what_quiet_blocks_have_shown():
    found, _ = controlled(5_000, plain, 100, lambda block: 500 if block % 10 == 9 else 3)
    assert found[89] == pytest.approx(10.7, abs=0.2)


def test_products_of_more_than_64_bits():
    rng = random.Random("wide")
    for _ in range(2_000):
        a, b, c, most = rng.randrange(1 << rng.randrange(1, 57)), rng.randrange(1, 1 << rng.randrange(1, 28)), rng.randrange(1, 1 << rng.randrange(1, 60)), rng.randrange(1, 1 << 27)
        assert controlling.scaled(a, b, c, most) == min(a * b // c, most)


# -- the search --------------------------------------------------------------------------------------------------------


def test_worked_example():
    """768 matching rows with many candidates each: 8 checks, then 11 or 12."""
    query = oracle.Budgeted(("cat", [("var", "A"), ("var", "B")]), {"A": {"a"}, "B": {"a"}}, 0, {}, 1_000, False, limit="INTERVAL '5' MICROSECONDS PER ROW")
    text = clause(query, "ALL MATCHES", "MEASURES CHECKS_ALLOWED() AS a, LAST(id) AS l")
    (got,) = ran(text, query, [("a" * 768, list(range(768)))], settings=replace(DEFAULT, budget_clock=("counted", 200, 400)), totals=(totals := [])).values()
    allowed = {row["l"]: row["a"] for row in got}
    assert {allowed[i] for i in range(1, 64)} == {8}
    assert {allowed[i] for i in range(64, 768)} == {11, 12}
    assert totals[6:8] == [12, 0] and totals[9] == 512


def timed_query(rng) -> tuple[oracle.Budgeted, tuple[str, int, int]]:
    query = random_budgeted(rng)
    interval, row, check = rng.choice([1, 2, 5, 20]), rng.choice([0, 100, 300]), rng.choice([50, 400, 1500])
    if rng.random() < 0.5:
        query.pace, query.limit = lambda rows: Pace(1000 * interval, row, check), f"INTERVAL '{interval}' MICROSECONDS PER ROW"
    else:
        interval *= rng.choice([10, 100])
        query.pace, query.limit = lambda rows: Pace(1000 * interval, row, check, rows), f"INTERVAL '{interval}' MICROSECONDS PER PARTITION"
    return query, ("counted", row, check)


def with_history(rng, query: oracle.Budgeted) -> None:
    query.intervals = rng.choice([1, 2, 4])
    query.history = random_history(rng, query) | {(1, 0, query.intervals, query.intervals - 1): (7, (0,))}
    query.points = rng.choice([None, random_points(rng, query)])
    query.explore = rng.random() < 0.5


def compare(rng, query: oracle.Budgeted, clock: tuple[str, int, int], tally: Counter) -> None:
    """A random clause over long partitions, its totals included."""
    some = [(3 * letters, [t + k * (times[-1] + 1) for k in range(3) for t in times]) for letters, times in random_streams(rng, 3)]
    text = clause(query, "PROXY MATCHES" if query.proxies else "ALL MATCHES", f"MEASURES {REPORTED}")
    totals: list[int] = []
    history = as_rows(query.history, query.points) if query.history is not None else None
    got = ran(text, query, some, rng.choice([None, 50]), history, totals=totals, settings=replace(DEFAULT, budget_clock=clock))
    blocks, refills = [], 0
    for p, (letters, times) in enumerate(some):
        answer = replace(query).answer(letters, times)
        blocks.append(answer.pace.totals() if answer.pace else [0] * 4)
        refills += answer.refills
        wanted = []
        for point, matches in sorted(answer.matches.items()):
            about = (*said(answer, query, times, [point]), answer.allowed.get(point, query.checks))
            pairs = [(best.rows, best.error) for best in [oracle.proxy(matches)]] if query.proxies else [(rows, error) for (rows, _), error in oracle.distinct(matches).items()]
            wanted += [(*pair, *about) for pair in pairs]
        have = [(*seen(row), row["a"]) for row in got.get(p, [])]
        assert sorted(have, key=lambda x: x[:2]) == sorted(wanted, key=lambda x: x[:2]), f"{text}\n{letters} {times}\n{query.history} {query.points} {clock}"
        tally["pairs"] += 1
        tally["blocks"] += blocks[-1][0]
        tally["left"] += sum(answer.left.values()) > 0
    done, late, least, greatest = zip(*blocks)
    assert totals[6:] == [sum(done), sum(late), refills, min(filter(None, least), default=0), max(greatest)]
    tally["refills"] += refills


@pytest.mark.parametrize("seed", first(range(12), 0, wider=1))
def test_choices_by_time(seed):
    rng, tally = random.Random(f"time {seed}"), Counter()
    for _ in range(8):
        query, clock = timed_query(rng)
        if rng.random() < 0.6:
            with_history(rng, query)
        compare(rng, query, clock, tally)
    assert tally["left"] >= 0.3 * tally["pairs"] and tally["blocks"] >= tally["pairs"]


@pytest.mark.parametrize("seed", first(range(12), 0, wider=1))
def test_choices_by_what_a_partition_has_recorded(seed):
    """REFILL, by checks and by time."""
    rng, tally = random.Random(f"refill {seed}"), Counter()
    for i in range(8):
        query, clock = timed_query(rng) if i % 2 else (random_budgeted(rng), ("thread", 0, 0))
        with_history(rng, query)
        query.refill = rng.choice([1, 1, 2, 3])
        compare(rng, query, clock, tally)
    assert tally["left"] >= 0.3 * tally["pairs"] and tally["refills"] >= tally["pairs"]


def test_a_sketch_without_collisions_changes_nothing():
    """The copy is a sketch of the same size, here so large that no two vectors share all cells."""
    rng, refills = random.Random("sketch"), 0
    for _ in range(3):
        query = random_budgeted(rng)
        with_history(rng, query)
        query.refill = 1
        some = random_streams(rng, 3)
        query.explore = False
        plain = clause(query, "PROXY MATCHES", f"MEASURES {REPORTED}")
        sketched = re.sub(r"(REFILL 1 BUNDLES(?: AS PUBLISHED)?)", r"\1 SKETCH (8, 4096)", plain)
        assert sketched != plain
        history, totals = as_rows(query.history, query.points), []
        assert ran(sketched, query, some, None, history, totals=totals) == ran(plain, query, some, None, history)
        refills += totals[8]
    assert refills >= 3


@pytest.mark.parametrize(
    "clock, line",
    [
        (("thread", 0, 0), "BUDGET by time, thread clock: not repeatable (COMPLETE() rows are)"),
        (("wall", 0, 0), "BUDGET by time, wall clock: not repeatable (COMPLETE() rows are)"),
        (("counted", 200, 400), "BUDGET by time, counted clock (200 ns a row, 400 ns a check): repeatable"),
    ],
)
def test_explain_says_what_repeats(clock, line):
    text = "PARTITION BY p ORDER BY t PATTERN (A B) WINDOW 9 APPROX 1 BUDGET INTERVAL '1500' MICROSECONDS PER PARTITION USING HISTORY h REFILL DEFINE A AS s = 'a'"
    lines = describe(make_plan(parse_clause(text), settings=replace(DEFAULT, budget_clock=clock))).splitlines()
    assert lines[1] == line
    assert "as many candidates are tried as fit 1,500 us of search for all rows of a partition (reading, sorting and output are not in it)" in lines[0]
    assert lines[0].endswith("each partition replaces the history by its own once as many bundles as the history has are closed")


def test_a_real_clock_keeps_what_is_complete():
    """Rows with COMPLETE() are those without a budget, whatever the clock says."""
    query = oracle.Budgeted(("cat", [("var", "A"), ("var", "B"), ("var", "C")]), {v: {v.lower()} for v in "ABC"}, 1, {}, 6, True)
    some = random_streams(random.Random("real"), 4)
    whole = ran(clause(query, "PROXY MATCHES", "MEASURES array_agg(id) AS ids, MATCH_ERRORS() AS e"), query, some)
    for clock in ("thread", "wall"):
        query.limit = "INTERVAL '1' MICROSECOND PER ROW"
        totals: list[int] = []
        found = ran(clause(query, "PROXY MATCHES", "MEASURES array_agg(id) AS ids, MATCH_ERRORS() AS e, COMPLETE() AS c"), query, some, settings=replace(DEFAULT, budget_clock=(clock, 0, 0)), totals=totals)
        for p, rows in found.items():
            assert all({"ids": row["ids"], "e": row["e"]} in whole[p] for row in rows if row["c"])
        assert totals[9] >= 64 and sum(map(len, found.values())) > 0


def test_a_partition_records_its_next_history_or_a_table():
    with pytest.raises(ClauseError, match="REFILL beside MATCH HISTORY is not available"):
        make_plan(parse_clause("ORDER BY t PATTERN (A B) WINDOW 9 APPROX 1 MATCH HISTORY BUDGET 2 CHECKS USING HISTORY h REFILL DEFINE A AS s = 'a'"))


def test_a_parameter_may_be_the_interval():
    text = "PARTITION BY p ORDER BY t PATTERN (A B) WINDOW 9 APPROX 1 BUDGET {} PER ROW DEFINE A AS s = 'a'"
    for written, given in ((":most", {":most": timedelta(microseconds=300)}), ("INTERVAL :n MICROSECONDS", {":n": 300}), ("3 * INTERVAL '0.1' MILLISECONDS", {})):
        assert make_plan(parse_clause(text.format(written), parameters=given)).approximate.budget.pace.nanos == 300_000
