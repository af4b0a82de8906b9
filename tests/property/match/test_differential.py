"""The engine against the oracle: random clauses over random partitions, rows compared one by one."""

from __future__ import annotations

import functools
import random

import pytest

from sparkcep.compiler import liveness
from sparkcep.engine.core import task
from sparkcep.errors import MatchRuntimeError
from tests.oracle import measures, pattern
from tests.oracle.cases import BASE_MEASURES, Clause, random_clause
from tests.oracle.expr import random_aggregate_condition, random_rows
from tests.oracle.match import SkipTargetError, TooManySteps
from tests.property.in_process import run
from tests.selection import first, further, slow

SEEDS = first(range(10), wider=2)
CLAUSES = 20  # per seed
PARTITIONS = 30  # per clause


def lively(rng, kinds):
    """A random clause, mostly one that matches something now and then."""
    for _ in range(6):
        clause = random_clause(rng, kinds)
        samples = [answer(clause, random_rows(rng, 8)) for _ in range(8)]
        good = sum(isinstance(a, list) and any((m["m_count"] or 0) > 1 for m in a) for a in samples)
        if good >= 2 or rng.random() < 0.15:
            break
    return clause


def answer(clause, rows):
    """The oracle's output rows as `run` gives the engine's, or the exception that stands in their place."""
    try:
        return [values if row is None else {**values, "id": row} for row, values in clause.answer(rows)]
    except (SkipTargetError, TooManySteps) as problem:
        return problem


def disagreement(clause, rows, chunk_rows=None):
    """None, or how the engine's answer for one partition differs from the oracle's."""
    expected = answer(clause, rows)
    if isinstance(expected, TooManySteps):
        return None
    try:
        got = run(clause.to_sql(), {0: rows}, chunk_rows).get(0, [])
    except MatchRuntimeError as problem:
        return None if isinstance(expected, SkipTargetError) else f"engine fails: {problem}"
    if isinstance(expected, SkipTargetError):
        return f"engine does not fail as the oracle does: {expected}; engine: {got}"
    return None if got == expected else f"oracle {expected}\nengine {got}"


def smaller(clause, rows, chunk_rows):
    """Fewest rows, by dropping one at a time, that still show the disagreement."""
    while len(rows) > 1:
        for i in range(len(rows)):
            fewer = [dict(row, id=j) for j, row in enumerate(rows[:i] + rows[i + 1 :])]
            if disagreement(clause, fewer, chunk_rows):
                rows = fewer
                break
        else:
            break
    return rows


def report(clause, rows, chunk_rows=None):
    if not disagreement(clause, rows, chunk_rows):
        return f"{clause.to_sql()}\nrows {rows}\nwrong only together with other partitions"
    rows = smaller(clause, rows, chunk_rows)
    return f"{clause.to_sql()}\nrows {rows}\n{disagreement(clause, rows, chunk_rows)}"


class Tally:
    """What a test compared, so that it cannot pass by comparing nothing."""

    def __init__(self):
        self.pairs = self.matched = self.skipped = 0

    def compare(self, clause, partitions, chunk_rows=None):
        compared, expected, failing = {}, {}, []
        for p, rows in enumerate(partitions):
            wanted = answer(clause, rows)
            self.pairs += 1
            if isinstance(wanted, TooManySteps):
                self.skipped += 1
            elif isinstance(wanted, SkipTargetError):
                failing.append(rows)
            else:
                compared[p], expected[p] = rows, wanted
                self.matched += any(m["m_count"] for m in wanted)
        got = run(clause.to_sql(), compared, chunk_rows) if compared else {}
        for p, rows in compared.items():
            if got.get(p, []) != expected[p]:
                pytest.fail(report(clause, rows, chunk_rows))
        # An error ends the whole query, so these run alone; a few per clause are enough.
        for rows in failing[:2]:
            with pytest.raises(MatchRuntimeError):
                run(clause.to_sql(), {0: rows}, chunk_rows)

    def check(self, matched, skipped=0.05):
        assert self.skipped < self.pairs * skipped
        assert self.matched > self.pairs * matched


ALL_KINDS = ("row", "prev", "history")


@pytest.mark.parametrize("kinds", [slow(("row",)), slow(("row", "prev")), ALL_KINDS, ("history",), further(("row", "wider"))], ids="-".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_engine_agrees_with_oracle(seed, kinds):
    rng, tally = random.Random(f"{seed} {kinds}"), Tally()
    for _ in range(CLAUSES):
        clause = lively(rng, kinds)
        tally.compare(clause, [random_rows(rng, rng.randrange(1, 11)) for _ in range(PARTITIONS)])
    tally.check(matched=0.3)


@pytest.mark.parametrize("seed", first(range(3), wider=1))
def test_aggregates_over_labels_and_numbers(seed):
    rng, tally = random.Random(seed), Tally()
    for _ in range(30):
        clause = random_clause(rng, ("row",))
        names = pattern.variables(clause.pattern)
        for name in names:
            clause.defines[name] = random_aggregate_condition(rng, names)
        tally.compare(clause, [random_rows(rng, rng.randrange(1, 9)) for _ in range(20)])
    tally.check(matched=0.15)


@pytest.mark.parametrize("chunk_rows", first([1, 2, 3, 7], 0, wider=1))
def test_batches_cut_anywhere(chunk_rows):
    rng, tally = random.Random(chunk_rows), Tally()
    for _ in range(30):
        clause = lively(rng, ALL_KINDS)
        tally.compare(clause, [random_rows(rng, rng.randrange(1, 11)) for _ in range(20)], chunk_rows)
    tally.check(matched=0.3)


def test_long_partitions():
    rng, tally = random.Random(3), Tally()
    for _ in range(20):
        clause = lively(rng, ALL_KINDS)
        tally.compare(clause, [random_rows(rng, rng.randrange(25, 60)) for _ in range(9)])
    tally.check(matched=0.3)


@pytest.mark.parametrize("seed", [further(seed) if seed == 1 else slow(seed) for seed in range(9)])
def test_empty_iterations_and_reluctant_loops(seed):
    """Loops over bodies that match nothing, with a choice before and after the empty way."""
    rng, tally = random.Random(f"empty {seed}"), Tally()

    def body(depth):
        roll = rng.random()
        if depth == 0:
            return ("empty",) if roll < 0.2 else ("var", rng.choice("ABC"))
        if roll < 0.35:
            return ("alt", [body(depth - 1) for _ in range(rng.choice([2, 2, 3]))])
        if roll < 0.8:
            bounds = rng.choice([(0, 1), (0, None), (0, 2), (1, 2), (2, 3), (2, None), (1, None)])
            return ("rep", body(depth - 1), *bounds, rng.random() < 0.5)
        return ("cat", [body(depth - 1), body(depth - 1)])

    for _ in range(50):
        bounds = rng.choice([(1, 2), (1, None), (2, 3), (2, None), (0, None), (0, 2)])
        last = rng.choice([("var", "D"), ("end",), ("cat", [("var", "A"), ("end",)])])
        p = ("cat", [("rep", body(rng.choice([2, 3])), *bounds, rng.random() < 0.6), last])
        defines = {
            v: ("or", ("=", ("col", "v"), ("lit", rng.randrange(4))), ("=", ("col", "s"), ("lit", rng.choice("abc"))))
            for v in pattern.variables(p)
            if rng.random() < 0.8
        }
        clause = Clause(p, pattern.to_text(p), defines, ("to next row",), measures.SHOW_EMPTY, {}, BASE_MEASURES)
        tally.compare(clause, [random_rows(rng, rng.randrange(1, 9)) for _ in range(20)])
    tally.check(matched=0.3, skipped=0.1)


def matches(tail, letters, chunk_rows=None):
    """(match number, labels) of each match over rows s = letters, v = 1, w = NULL."""
    rows = [{"id": i, "v": 1, "w": None, "s": letter} for i, letter in enumerate(letters)]
    text = (
        "PARTITION BY p ORDER BY id MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS c "
        f"ALL ROWS PER MATCH AFTER MATCH SKIP PAST LAST ROW {tail}"
    )
    found = {}
    for row in run(text, {0: rows}, chunk_rows).get(0, []):
        found.setdefault(row["n"], []).append(row["c"] or "")
    return [(n, "".join(labels)) for n, labels in found.items()]


@pytest.mark.parametrize(
    ("tail", "letters", "expected"),
    [
        # Every way to match one order of a PERMUTE is preferred to the next order.
        ("PATTERN (PERMUTE(A*, B, A)) DEFINE B AS s = 'b'", "xbxb", [(1, "ABA")]),
        ("PATTERN (PERMUTE(A, B, C)) DEFINE B AS s <> 'x'", "xxx", []),
        ("PATTERN (PERMUTE(A, B, C)) DEFINE B AS s = 'b'", "xxb", [(1, "ACB")]),
        # An iteration that the lower bound asks for does not end the loop by being empty.
        ("PATTERN ((() | C | B+){2,3} $) DEFINE C AS id = 0", "xx", [(1, "BB")]),
        ("PATTERN ((() | C | B+){,3} $) DEFINE C AS id = 0", "xx", [(1, "CB")]),
        # A navigation to no row is NULL, whatever its argument makes of NULL; the function around it is not.
        ("PATTERN (A) DEFINE A AS PREV(coalesce(v, 0)) = 0", "x", []),
        ("PATTERN (A) DEFINE A AS PREV(coalesce(v, 0)) IS NULL", "xx", [(1, "A")]),
        ("PATTERN (A) DEFINE A AS coalesce(PREV(v), 0) = 0", "xx", [(1, "A")]),
        ("PATTERN (A B) DEFINE B AS LAST(coalesce(B.v, 0), 1) = 0", "xx", []),
        ("PATTERN (A B) DEFINE B AS FIRST(coalesce(B.v, 0), 1) IS NULL", "xx", [(1, "AB")]),
        ("PATTERN (A | B C) DEFINE A AS coalesce(C.v, 0) = 0", "xx", [(1, "A"), (2, "A")]),
    ],
)
def test_readings_that_were_in_doubt(tail, letters, expected):
    assert matches(tail, letters) == expected


@pytest.mark.parametrize("chunk_rows", [1, 2, 3, None])
def test_match_numbers_go_on_behind_a_cut(chunk_rows):
    assert matches("PATTERN (A)", "xxxx", chunk_rows) == [(1, "A"), (2, "A"), (3, "A"), (4, "A")]
    assert matches("PATTERN (^ A)", "xxxx", chunk_rows) == [(1, "A")]


@pytest.mark.parametrize("seed", first(range(6), wider=1))
def test_every_failed_state_remembered_from_the_first_step(seed, monkeypatch):
    """The hashed memo, which otherwise starts only when a search backtracks a lot, on every state of every clause."""
    monkeypatch.setattr(task, "Limits", functools.partial(task.Limits, patience=0))
    monkeypatch.setattr(liveness, "MAX_MEMO_BITS", 0)
    rng, tally = random.Random(f"memo {seed}"), Tally()
    for _ in range(40):
        clause = lively(rng, ALL_KINDS)
        tally.compare(clause, [random_rows(rng, rng.randrange(1, 11)) for _ in range(30)])
    tally.check(matched=0.3)
