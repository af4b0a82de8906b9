"""MATCH_COUNT() against the oracle's matches, and beyond 64 bits against plain dynamic programming with Python's integers."""

from __future__ import annotations

import collections
import random
import re

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.factory import match_table
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS
from tests.oracle import measures, selection
from tests.property.in_process import run
from tests.selection import first
from tests.support.caught import without_catching


@pytest.mark.parametrize("seed", first(range(24), wider=2))
def test_numbers_agree_with_the_oracle(seed):
    rng = random.Random(seed)
    compared = 0
    for _ in range(25):
        query = selection.random_query(rng, report="all", shapes=("plain", "plain", "negation", "group"))
        query.mode, query.skip = measures.ONE_ROW, None
        text = re.sub(r"MEASURES .*", "MEASURES LAST(id) AS last, MATCH_COUNT() AS n", query.to_sql())
        partitions = {p: selection.random_rows(rng, rng.randrange(1, 9)) for p in range(10)}
        try:
            expected = {p: collections.Counter(rows[m[-1][0]]["id"] for m in query.matches(rows)) for p, rows in partitions.items()}
        except selection.Budget:
            continue
        got = run(text, partitions, rng.choice([None, None, 1, 3]))
        for p in partitions:
            assert {row["last"]: row["n"] for row in got.get(p, [])} == expected[p], (text, partitions[p])
            compared += 1
    assert compared > 200


def counted(pattern: str, letters: list[str], window: int | None) -> list[int]:
    conditions = ", ".join(f"{x} AS x = '{x}'" for x in "ABC" if x in pattern)
    clause = f"""ORDER BY ts MEASURES LAST(ts) AS last, MATCH_COUNT() AS n EVENT SELECTION SKIP TILL ANY MATCH PATTERN ({pattern})
        {f'WINDOW {window} ROWS' if window else ''} DEFINE {conditions}"""
    plan = without_catching(make_plan(parse_clause(clause)))
    columns = {name: pa.array(range(len(letters))) for name, _ in plan.inputs}
    bits = {plan.variables[v]: bit for v, bit, _ in plan.letters}
    columns[LETTERS] = pa.array([1 << bits[x] for x in letters])
    out = match_table(plan, pa.table(columns)).to_pydict()
    numbers = [0] * len(letters)
    for last, n in zip(out["__l0"], out["__l1"]):
        numbers[last] = int(n)
    return numbers


def plainly(letters: list[str], window: int | None) -> list[int]:
    """A B+ C: for each C, the sum over each A in the window of the non-empty sets of Bs between them."""
    numbers = [0] * len(letters)
    for last, x in enumerate(letters):
        if x == "C":
            bs = 0
            for i in range(last - 1, (-1 if window is None else max(-1, last - window)), -1):
                bs += letters[i] == "B"
                if letters[i] == "A":
                    numbers[last] += 2**bs - 1
    return numbers


@pytest.mark.parametrize("window", [None, 40, 120])
def test_numbers_beyond_64_bits(window):
    letters = np.random.default_rng(3).choice(list("ABC"), 330, p=[0.2, 0.3, 0.5]).tolist()
    expected = plainly(letters, window)
    if window != 40:
        assert max(expected) > 2**70 or window == 120
    assert counted("A B+ C", letters, window) == expected


def test_a_number_beyond_decimals_is_an_error():
    with pytest.raises(MatchRuntimeError, match="COUNT_RANGE"):
        counted("A B+ C", ["A", *"B" * 200, "C"], None)
    assert max(counted("A+", ["A"] * 127, None)) == 2**126
    with pytest.raises(MatchRuntimeError, match="COUNT_RANGE.*'MATCH_COUNT\\(\\)'"):
        counted("A+", ["A"] * 128, None)  # 1.7 * 10**38, which a DECIMAL(38) is near to


def test_a_count_after_a_choice_that_ends_in_a_constant():
    """Counts above 2 decide, too: of 6 Bs at least 5 are taken."""
    rows = [{"id": i, "s": s, "v": 1, "w": 5} for i, s in enumerate("abbbbbbc")]
    clause = "PARTITION BY p ORDER BY id MEASURES LAST(id) AS last, MATCH_COUNT() AS n EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B+ C)"
    found = run(f"{clause} DEFINE A AS s = 'a', B AS s = 'b', C AS s = 'c' AND CASE WHEN A.w > v THEN 5 ELSE 2 END <= count(B.*)", {0: rows})
    assert found == {0: [{"last": 7, "n": 7}]}


@pytest.mark.parametrize(("measure", "options", "number"), [("MATCH_COUNT()", "", 1), ("count(*)", "", 3), ("count(*)", "APPROX 0 PROXY MATCHES", 3)])
def test_a_row_without_a_time_is_ignored_before_a_window(measure, options, number):
    """The second row could be B if it had a time. Counted and listed matches and proxies ignore it."""
    rows = [{"id": at, "s": s, "v": 1, "w": 1} for at, s in zip([None, None, 5, 6], "abbc")]
    every = "" if options else " ALL MATCHES"
    clause = f"PARTITION BY p ORDER BY id MEASURES LAST(id) AS last, {measure} AS n EVENT SELECTION SKIP TILL NEXT MATCH{every} PATTERN (A (B C) WITHIN 3) {options}"
    found = run(f"{clause} DEFINE A AS s = 'a', B AS s = 'b' AND v <= A.v, C AS s = 'c'", {0: rows})
    assert found == {0: [{"last": 6, "n": number}]}
