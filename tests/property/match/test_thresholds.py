"""Conditions that compare a row with the match's first row, or with a running extreme: against the oracle over few rows, against
bytecode over many rows, and the values that Spark orders in its own way."""

from __future__ import annotations

import functools
import random
from dataclasses import replace

import numpy as np
import pytest

from sparkcep.columns.arrays import float_words
from sparkcep.engine.core import task
from sparkcep.engine.match import backtrack
from sparkcep.errors import MatchRuntimeError
from sparkcep.settings import DEFAULT
from tests.oracle import measures, pattern
from tests.oracle.cases import _ROWS_TEXT, BASE_MEASURES, Clause
from tests.property.in_process import run
from tests.property.match.test_differential import Tally
from tests.selection import first

CLAUSES, PARTITIONS = 20, 30  # of each seed
# the oracle's names of patterns whose rows before a candidate are of few variables, so that running extremes are tests
PLAIN = ("A+ B", "A+ B C", "A B+ C", "A B*", "A+", "A+? B", "A B+? C", "A{2,} B", "A{1,3} B+", "(A+ | B C) D", "A+ B+ C?", "^ A+ B", "A+ B* $", "A* B+ C", "PERMUTE(A, B) C+", "(A B+)+ C")


def threshold(rng: random.Random, column: tuple) -> tuple:
    """A value of the match that its first row decides, or a running extreme."""
    names = [None, None, "A", "A"]
    found = rng.choice([
        ("nav", "FIRST", rng.choice(names), 0, column), ("nav", "FIRST", None, 0, column), ("nav", "LAST", "A", 0, column),
        ("agg", rng.choice(["max", "min"]), rng.choice(names), column, False),
    ])  # fmt: skip
    return (rng.choice("+-"), found, ("lit", rng.randrange(3))) if rng.random() < 0.3 else found


def comparison(rng: random.Random) -> tuple:
    left = rng.choice([("col", "v"), ("col", "v"), ("col", "id"), ("lit", 2)])
    right = threshold(rng, ("col", "v") if left[0] == "lit" else left)
    sides = (left, right) if rng.random() < 0.7 else (right, left)
    return (rng.choice(["<", "<=", ">", ">=", "=", "<>"]), *sides)


def condition(rng: random.Random) -> tuple:
    found = comparison(rng)
    roll = rng.random()
    if roll < 0.2:
        return ("and", found, comparison(rng))
    return ("and", found, (">=", ("col", "w"), ("lit", rng.randrange(-1, 2)))) if roll < 0.4 else found


def clause_of(rng: random.Random) -> Clause:
    names = ["A", "B", "C"]
    mode = rng.choice(list(_ROWS_TEXT))
    excluding = mode in (measures.SHOW_EMPTY, measures.OMIT_EMPTY)
    found = pattern.random_pattern(rng, names, rng.choice([1, 2, 2, 3]), exclude=excluding, anchors=rng.random() < 0.2)
    used = pattern.variables(found)
    defines = {name: condition(rng) if rng.random() < 0.7 else (">=", ("col", "w"), ("lit", rng.randrange(2))) for name in used if rng.random() < 0.85}
    if "A" not in used:
        defines = {name: (">=", ("col", "v"), ("nav", "FIRST", None, 0, ("col", "v"))) for name in defines}
    skip = rng.choice([("past last row",), ("to next row",), ("to last", rng.choice(used))]) if used else ("past last row",)
    return Clause(found, pattern.to_text(found, rng), defines, skip, mode, {}, dict(BASE_MEASURES))


def few_rows(rng: random.Random) -> list[dict]:
    return [{"id": i, "v": rng.choice([None, 0, 1, 2, 3, 4]), "w": rng.choice([None, 0, 1, 1]), "s": "x"} for i in range(rng.randrange(1, 11))]


@pytest.fixture
def counted(monkeypatch):
    """How many buffers were searched by tests (True), and by bytecode because of their values (False)."""
    found, made = {True: 0, False: 0}, backtrack.thresholds_of

    def counting(*arguments):
        thresholds = made(*arguments)
        found[thresholds is not None] += 1
        return thresholds

    monkeypatch.setattr(backtrack, "thresholds_of", counting)
    return found


@pytest.mark.parametrize("seed", first(range(24), wider=2))
def test_tests_agree_with_the_oracle(seed, counted):
    rng, tally = random.Random(f"thresholds {seed}"), Tally()
    for _ in range(CLAUSES):
        tally.compare(clause_of(rng), [few_rows(rng) for _ in range(PARTITIONS)], rng.choice([None, None, 3]))
    tally.check(matched=0.2)
    assert counted[True] > CLAUSES // 4


def many_rows(rng: random.Random, size: int) -> list[dict]:
    """Rows that rise, fall, stay or jump for long, so that blocks hold whole, in part, or not at all."""
    values: list = []
    while len(values) < size:
        at, step = rng.randrange(200), rng.choice([0, 0, 1, -1])
        values += [at + step * k for k in range(rng.choice([1, 3, 40, 150, 300]))]
    holes = rng.choice([0, 0, 0.01, 0.2])
    return [
        {"id": i, "v": None if rng.random() < holes else v, "w": rng.choice([0, 1, 1, 1, 1, 1, 1, 1]) if holes else 1, "s": "x"}
        for i, v in enumerate(values[:size])
    ]


def text_of(rng: random.Random) -> str:
    chosen = rng.choice(PLAIN)
    ends = rng.choice([" + 100", " - 3", "", ""])
    values = ["FIRST(v)", "FIRST(A.v)", "max(v)", "min(v)", "max(A.v)", "min(A.v)", "A.v"]
    conditions = []
    for name in "ABCD":
        if name in chosen and rng.random() < 0.8:
            sides = f"v {rng.choice(['<', '<=', '>', '>=', '>', '<>', '='])} {rng.choice(values)}{ends}"
            conditions.append(f"{name} AS {sides}" + rng.choice(["", "", " AND w > 0", " AND id >= FIRST(id)", " AND FIRST(v) > 5"]))
    skip = rng.choice(["PAST LAST ROW", "TO NEXT ROW", "TO NEXT ROW"])
    told = "FIRST(id) AS f, LAST(id) AS z, count(*) AS n, count(A.v) AS a, MATCH_NUMBER() AS m, LAST(CLASSIFIER()) AS c"
    return f"PARTITION BY p ORDER BY id MEASURES {told} AFTER MATCH SKIP {skip} PATTERN ({chosen}) " + ("DEFINE " + ", ".join(conditions) if conditions else "DEFINE A AS v >= FIRST(v)")


def answer(text: str, partitions: dict, chunk_rows: int | None, cuts: random.Random | None = None):
    try:
        return run(text, partitions, chunk_rows, cuts=cuts)
    except MatchRuntimeError as error:
        return str(error)


@pytest.mark.parametrize("seed", first(range(12), wider=1))
def test_tests_agree_with_bytecode_over_many_rows(seed, counted, monkeypatch):
    rng = random.Random(f"many {seed}")
    for _ in range(30):
        text = text_of(rng)
        most = 65 if ")+" in text else 300  # a repeated group with a running extreme takes rows x rows of a match x values
        partitions = {p: many_rows(rng, min(rng.choice([5, 63, 64, 65, 130, 300]), most)) for p in range(3)}
        chunk_rows = rng.choice([None, 40, 100])
        number = rng.random()
        got = answer(text, partitions, chunk_rows, random.Random(number) if chunk_rows is None and number < 0.3 else None)
        with monkeypatch.context() as without:
            without.setattr(backtrack, "tests_of", lambda prepared: ())
            assert got == answer(text, partitions, None), (text, partitions)
    assert counted[True] > 10


def test_doubles_are_ordered_as_spark_orders_them():
    rising = np.array([-np.inf, -1e300, -1.5, -1e-300, -0.0, 1e-300, 2.0, np.inf, np.nan])
    assert (np.diff(float_words(rising)) > 0).all()
    assert float_words(np.array([0.0]))[0] == float_words(np.array([-0.0]))[0]
    assert float_words(np.array([-np.nan]))[0] == float_words(np.array([np.nan]))[0]


def test_large_integers_are_left_to_bytecode(counted):
    text = "PARTITION BY p ORDER BY id MEASURES LAST(id) AS z PATTERN (A+ B) DEFINE B AS v > 1 + max(A.v)"
    rows = [{"id": i, "v": v, "w": 1, "s": "x"} for i, v in enumerate([2**62, 1, 2**63 - 1])]
    assert run(text, {0: rows}) == {0: [{"z": 2}]}
    with pytest.raises(MatchRuntimeError):
        run(text, {0: [*rows, {"id": 3, "v": 1, "w": 1, "s": "x"}]})
    assert counted == {True: 0, False: 2}


@pytest.mark.parametrize("conditions", ["B AS v > 100 + max(A.v)", "B AS FIRST(id) < 0", "B AS id < FIRST(A.id)", "A AS id >= FIRST(id), B AS v < 0"])
def test_an_attempt_does_not_look_at_each_row(conditions):
    """EFFORT_LIMIT bounds the steps of one attempt, and 5,000 rows follow the first one."""
    text = f"PARTITION BY p ORDER BY id MEASURES LAST(id) AS z PATTERN (A+ B) DEFINE {conditions}"
    rows = [{"id": i, "v": i % 100, "w": 1, "s": "x"} for i in range(5_000)]
    assert run(text, {0: rows}, settings=replace(DEFAULT, max_steps=20)) == {}


def test_an_attempt_that_starts_over_finds_its_match(counted):
    """The first ten rows make the search remember failures. The attempt from row 11 starts over among the rows of C, F and G."""
    looks = "A AS w = 0 AND v >= FIRST(v), B AS w = 0 AND v <= 9 + FIRST(v), X AS w = 9, S AS w = 2, H AS v = 7"
    local = ", ".join(f"{name} AS w = 1" for name in "CDEFG")
    chosen = "(A | B)+ X | B A (A | B)+ X | (A | B)+ S (C | D | E | F)+ G H"
    text = f"PARTITION BY p ORDER BY id MEASURES FIRST(id) AS f, LAST(id) AS z PATTERN ({chosen}) DEFINE {looks}, {local}"
    values = [(0, 0)] * 10 + [(5, 0)] + [(0, 0)] * 7 + [(2, 0), (1, 0), (1, 0), (1, 7)] + [(1, 0)] * 170
    assert run(text, {0: [{"id": i, "v": v, "w": w, "s": "x"} for i, (w, v) in enumerate(values)]}) == {0: [{"f": 11, "z": 21}]}
    assert counted == {True: 1, False: 0}


TAILS = ("(A | B)+ C+ D E", "(A | B)+ (C D?)+ E", "(A | B)* (C{1,3} D)+ E", "(A | B)+? C+? D E", "A+ B* (C | D)+ E", "(A B?)+ PERMUTE(C, D) E", "((A | B) C?)+ D* E $")


@pytest.mark.parametrize("seed", first(range(12), wider=1))
def test_attempts_that_start_over_agree_with_bytecode(seed, counted, monkeypatch):
    """Other variables follow those that look at the match, so some states are remembered before the attempt starts over."""
    rng = random.Random(f"over {seed}")
    for _ in range(8):
        looks = [f"{name} AS v {rng.choice(['>=', '<=', '<>'])} {rng.choice(['FIRST(v)', 'max(v)', 'min(v)', 'FIRST(v) - 1'])}" for name in "AB"]
        chosen = rng.choice(TAILS)
        local = [f"{name} AS {rng.choice('vw')} {rng.choice(['=', '<>', '>=', '<='])} {rng.randrange(4)}" for name in "CDE" if name in chosen]
        text = (
            f"PARTITION BY p ORDER BY id MEASURES FIRST(id) AS f, LAST(id) AS z, count(A.*) AS a, count(C.*) AS c AFTER MATCH SKIP {rng.choice(['PAST LAST', 'TO NEXT'])} ROW "
            f"PATTERN ({chosen}) DEFINE {', '.join(looks + local)}"
        )
        partitions = {p: [{"id": i, "v": rng.randrange(4), "w": rng.randrange(4), "s": "x"} for i in range(rng.randrange(3, 35))] for p in range(10)}
        with monkeypatch.context() as limited:
            limited.setattr(task, "Limits", functools.partial(task.Limits, patience=rng.choice([0, 1, 3, 10])))
            got = answer(text, partitions, None)
            limited.setattr(backtrack, "tests_of", lambda prepared: ())
            assert got == answer(text, partitions, None), (text, partitions)
    assert counted[True] > 4
