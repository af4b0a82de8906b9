"""Matches that overlap share their ends; the expected rows come from Python's own regular expressions.

Each row has one letter, and each variable asks for one letter or for any. Python's ``re`` takes the same match from each start
row as the clause does, because its choices have the order of preferment.
"""

from __future__ import annotations

import functools
import math
import random
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.core import kernel_loop
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.engine.match import backtrack
from sparkcep.engine.output import shared_ends
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS
from tests.selection import first

# the pattern for Python, where X takes any row; each group of variables is lower case there
PATTERNS = [
    "A+", "A*", "A B*", "A B+ C", "A+?", "A*? B", "(A B)+", "(A|B)+ C?", "(A B|C)+", "A{2,} B?", "A{1,3} B*", "(A{2} B){1,} C?", "X* C", "X*? C",
    "A X+", "(A|B C)* X", "((A B?)+ C)*", "A+ B+ C*", "(A+ B){2,3}", "^ X+", "A+ $", "(A|X B)+?  C", "X+ A", "(A? B?)* C", "(C A | A) (X* | B)",
]  # fmt: skip
LETTER = {"A": "a", "B": "b", "C": "c", "X": "."}
MEASURES = {
    "n": "count(*)", "nb": "count(B.i)", "s": "sum(i)", "sb": "sum(B.i)", "f": "sum(x)", "fx": "avg(A.x)", "lo": "min(i)", "hi": "max(B.i)", "lox": "min(x)", "hix": "max(x)",
    "name": "min(t)", "last": "max(t)", "dec": "sum(d)", "mean": "avg(A.d)", "fi": "FIRST(r)", "fb": "FIRST(B.r)", "fb1": "FIRST(B.r, 1)", "l2": "LAST(r, 2)", "la": "LAST(A.r)",
    "la1": "LAST(A.r, 1)", "before": "PREV(FIRST(r), 2)", "after": "NEXT(LAST(r))", "c": "LAST(CLASSIFIER())", "cb": "FIRST(CLASSIFIER(), 1)", "mc": "max(CLASSIFIER())",
    "some": "count(r) FILTER (WHERE i IS NOT NULL)", "number": "MATCH_NUMBER()", "names": "array_agg(t)", "ofb": "array_agg(B.r)",
}  # fmt: skip
SEEDS = first(range(6), wider=1)


def partition(rng: random.Random, size: int) -> list[dict]:
    """Rows whose letters come in runs; some values are NULL, NaN, of many digits."""
    letters = []
    while len(letters) < size:
        letters += rng.choice("aaabbc") * rng.choice([1, 1, 2, 3, rng.randint(1, max(1, size // 4))])
    numbers = [0.1, -0.0, 0.0, 1e300, 1e-300, 3.0, float("nan"), None] if rng.random() < 0.5 else [1.0, 2.0, -0.0, None]
    return [
        {"r": r, "letter": letter, "i": rng.choice([None, 1, 2, 3, -7, rng.choice([5, 2**62]) if size < 30 else 5]), "x": rng.choice(numbers),
         "t": rng.choice(["ab", "b", "a", "é", None]), "d": rng.choice([None, Decimal("1.25"), Decimal("-99999999.99")])}
        for r, letter in enumerate(letters[:size])
    ]  # fmt: skip


def labelled(pattern: str) -> re.Pattern:
    """Python's expression. A letter shows its variable only in patterns without X."""
    return re.compile("".join(LETTER.get(token, token) for token in pattern if token != " "))


class SkipTargetError(Exception):
    """AFTER MATCH SKIP goes to no row, or to the first one of the match."""


def expected(pattern: str, rows: list[dict], skip: str = "NEXT ROW") -> list[dict]:
    """The values of all measures, of each match from each start row."""
    text, found, number, least = "".join(row["letter"] for row in rows), [], 0, 0
    expression = labelled(pattern.replace("^", "").replace("$", r"\Z"))
    for start in range(len(rows)):
        if "^" in pattern and start:
            break
        match = expression.match(text, start) if start >= least else None
        if match is None:
            continue
        number += 1
        if skip != "NEXT ROW" and match.end() > start:
            where, variable = skip.split()
            there = text.find if where == "FIRST" else text.rfind
            least = there(variable.lower(), start, match.end())
            if least <= start:
                raise SkipTargetError
        if match.end() == start:
            found.append({"n": 0, "number": number})
            continue
        taken = rows[start : match.end()]
        a, b = ([row for row in taken if row["letter"] == letter] for letter in "ab")
        found.append(
            {
                "n": len(taken), "nb": sum(row["i"] is not None for row in b), "s": total(taken, "i"), "sb": total(b, "i"), "f": total(taken, "x"),
                "fx": mean(a, "x"), "lo": extreme(min, taken, "i"), "hi": extreme(max, b, "i"), "lox": extreme(min, taken, "x"), "hix": extreme(max, taken, "x"),
                "name": extreme(min, taken, "t"), "last": extreme(max, taken, "t"), "dec": total(taken, "d"),
                "mean": None if (m := mean(a, "d")) is None else m.quantize(Decimal("1.000000"), "ROUND_HALF_UP"), "fi": start, "fb": at(b, 0), "fb1": at(b, 1),
                "l2": at(taken[::-1], 2), "la": at(a[::-1], 0), "la1": at(a[::-1], 1), "before": start - 2 if start > 1 else None,
                "after": match.end() if match.end() < len(rows) else None, "c": taken[-1]["letter"].upper(),
                "cb": taken[1]["letter"].upper() if len(taken) > 1 else None, "mc": max(row["letter"] for row in taken).upper(),
                "some": sum(row["i"] is not None for row in taken), "number": number,
                "names": values(taken, "t"), "ofb": values(b, "r"),
            }  # fmt: skip
        )
    return found


def values(rows: list[dict], column: str) -> list:
    return [row[column] for row in rows if row[column] is not None]


def total(rows: list[dict], column: str):
    """Added from the first row on."""
    there = values(rows, column)
    found = type(there[0])(0) if there else None
    for value in there:
        found += value
    return "overflow" if column == "i" and found is not None and any_overflow(there) else found


def any_overflow(numbers: list[int]) -> bool:
    so_far = 0
    for number in numbers:
        so_far += number
        if not -(2**63) <= so_far < 2**63:
            return True
    return False


def mean(rows: list[dict], column: str):
    there = values(rows, column)
    return total(rows, column) / len(there) if there else None


def extreme(of, rows: list[dict], column: str):
    """NaN is above all numbers; of equal ones the first."""
    there = values(rows, column)
    if column == "t":
        return of(there, key=lambda text: text.encode(), default=None)
    return of(there, key=lambda number: (number != number, number if number == number else 0), default=None)


def at(rows: list[dict], place: int):
    return rows[place]["r"] if place < len(rows) else None


def answered(pattern: str, partitions: list[list[dict]], chunk_rows: int | None, batch: int, skip: str = "NEXT ROW") -> list[dict]:
    names = [v for v in "ABC" if v in pattern]
    told = {name: text for name, text in MEASURES.items() if not (refers(text) - set(names)) and not ("X" in pattern and tells_variables(text))}
    define = f"DEFINE {', '.join(f'{v} AS letter = {LETTER[v]!r}' for v in names)}" if names else ""
    clause = f"PARTITION BY p ORDER BY r MEASURES {', '.join(f'{text} AS {name}' for name, text in told.items())} AFTER MATCH SKIP TO {skip} PATTERN ({pattern}) {define}"
    plan = make_plan(parse_clause(clause))
    rows = [row | {"p": p} for p, some in enumerate(partitions) for row in some]
    types = {"p": pa.int64(), "r": pa.int64(), "i": pa.int64(), "x": pa.float64(), "t": pa.string(), "d": pa.decimal128(10, 2)}
    columns = {}
    for name, sql in plan.inputs:
        if "IS NOT NULL" in sql:
            columns[name] = pa.array([row["i"] is not None for row in rows])
        else:
            columns[name] = pa.array([row[sql.strip("`")] for row in rows], types[sql.strip("`")])
    letters = [sum(1 << bit for variable, bit, _ in plan.letters if LETTER[plan.variables[variable]] == row["letter"]) for row in rows]
    table = pa.table({**columns, LETTERS: pa.array(letters, pa.int64())} if plan.letters else columns)
    engine = engine_for(prepare(plan, table.schema), chunk_rows)
    leaves = pa.concat_tables([engine.prepared.output_schema.empty_table(), *match_batches(engine, table.to_batches(max_chunksize=batch))])
    outputs = dict(plan.outputs)
    return [{name: row[outputs[name]] for name in told} for row in leaves.to_pylist()]


def refers(measure: str) -> set[str]:
    return set(re.findall(r"\b([ABC])\.", measure))


def tells_variables(measure: str) -> bool:
    return "CLASSIFIER" in measure or bool(refers(measure))


def same(mine, theirs) -> bool:
    if isinstance(mine, float) and isinstance(theirs, float):
        return (math.isnan(mine) and math.isnan(theirs)) or (mine == theirs and math.copysign(1, mine) == math.copysign(1, theirs))
    return mine == theirs


def compared(pattern: str, partitions: list[list[dict]], chunk_rows: int | None = None, batch: int = 1 << 20, skip: str = "NEXT ROW") -> int:
    try:
        wanted = [row for some in partitions for row in expected(pattern, some, skip)]
    except SkipTargetError:
        with pytest.raises(MatchRuntimeError, match="SKIP"):
            answered(pattern, partitions, chunk_rows, batch, skip)
        return 0
    if any(value == "overflow" for row in wanted for value in row.values()):
        return 0  # an error of its own: test_a_sum_beyond_64_bits
    got = answered(pattern, partitions, chunk_rows, batch, skip)
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        for name, value in mine.items():
            right = theirs.get(name, 0 if name in ("nb", "some") else [] if name in ("names", "ofb") else None)
            assert same(value, right), (pattern, name, value, right, mine, theirs)
    return len(got)


@pytest.mark.parametrize("seed", SEEDS)
def test_matches_that_share_their_ends(seed, monkeypatch):
    rng = random.Random(seed)
    shared = []
    monkeypatch.setattr(backtrack.kernels, "SharedEnds", lambda *args, of=backtrack.kernels.SharedEnds: shared.append(1) or of(*args))
    matches = 0
    for pattern in PATTERNS:
        partitions = [partition(rng, rng.choice([0, 1, 5, 12, 29, 60])) for _ in range(10)]
        matches += compared(pattern, partitions, *rng.choice([(None, 1 << 20), (1, 1), (7, 3), (40, 25)]))
    assert matches > 700 and len(shared) >= len(PATTERNS)


@pytest.mark.parametrize("seed", first(range(4), 0, wider=1))
def test_matches_that_begin_at_a_variable(seed):
    """AFTER MATCH SKIP TO FIRST and TO LAST of a variable; a partition whose first match fails so is an error."""
    rng, matches = random.Random(seed), 0
    for pattern in ("A B+", "A+ B+ C?", "(A B?)+ B", "A B* C?", "(A|B)+ C", "A (B C?)+", "(A+ B)+ A*"):
        for skip in ("FIRST B", "LAST B", "LAST A"):
            for _ in range(12):
                some = [partition(rng, rng.choice([3, 8, 20, 60]))]
                matches += compared(pattern, some, *rng.choice([(None, 1 << 20), (1, 1), (7, 3)]), skip=skip)
    assert matches > 100


def test_of_many_matches_some_are_told_at_a_time(monkeypatch):
    """With room for few matches, those of the next round share nothing with those of the last one."""
    monkeypatch.setattr(kernel_loop, "MOST_LABELS", 64)
    before = kernel_loop.OutputRoom.__init__
    monkeypatch.setattr(kernel_loop.OutputRoom, "__init__", lambda room, events, labels, *args, **options: before(room, 16, 64, *args, **options))
    rng = random.Random(7)
    assert sum(compared(pattern, [partition(rng, 200), partition(rng, 90)]) for pattern in PATTERNS) > 2000


def test_a_sum_beyond_64_bits():
    """Where sums may leave 64 bits each match is added by itself: the order of the rows decides."""
    rows = [{"r": r, "letter": "a", "i": i, "x": 0.0, "t": "", "d": None} for r, i in enumerate([0, 2**62, -(2**62), 2**62, 2**62 - 1, -(2**62), 3])]
    assert compared("A+", [rows]) == 7
    with pytest.raises(Exception, match="BIGINT overflow in SUM"):
        answered("A+", [[*rows[:4], rows[3], rows[1], *rows[4:]]], None, 100)


def test_sums_of_long_matches(monkeypatch):
    """Sums of many long matches jump over numbers, and still have the bits of adding each match from its first row on."""
    monkeypatch.setitem(globals(), "MEASURES", {"f": "sum(x)", "fx": "avg(A.x)"})
    numbers = np.round(np.random.default_rng(3).lognormal(4, 0.5, 6_000), 2)
    got = answered("A+", [[{"r": r, "letter": "a", "i": 0, "x": x, "t": "", "d": None} for r, x in enumerate(numbers.tolist())]], None, 1 << 20)
    wanted = [float(np.cumsum(numbers[begin:])[-1]) for begin in range(len(numbers))]
    assert got == [{"f": total, "fx": total / (len(wanted) - begin)} for begin, total in enumerate(wanted)]


def test_null_elements_need_no_room(monkeypatch):
    """Arrays leave NULL out, so matches whose arrays have few elements are one output table. Its sums are computed once."""
    monkeypatch.setitem(globals(), "MEASURES", {"f": "sum(x)", "names": "array_agg(t)"})
    calls = []
    before = shared_ends.add_to_slices
    monkeypatch.setattr(shared_ends, "add_to_slices", lambda *args: calls.append(1) or before(*args))
    rows = [{"r": r, "letter": "a", "i": 0, "x": 0.1 * r, "t": None, "d": None} for r in range(3_000)]
    assert len(answered("A+", [rows], None, 1 << 20)) == 3_000
    assert len(calls) <= 2


@pytest.mark.parametrize("pattern", first(["A+", "((A B?)+ C?)*", "A+ B*", "(A|B)+", "X* C"], wider=2))
def test_labels_grow_with_the_rows(pattern):
    """The labels that all matches have together are at most a few for each row, however long the matches are."""
    for size in (500, 1000, 2000, 4000):
        rows = [{"r": r, "letter": "c" if r == size - 1 else "aab"[r % 3] if "(" in pattern else "a", "i": 1, "x": 0.1, "t": "", "d": None} for r in range(size)]
        written = []
        monkey = backtrack._BacktrackMatches.found
        try:
            backtrack._BacktrackMatches.found = lambda matches: written.append(monkey(matches)) or written[-1]
            answered(pattern, [rows], None, 1 << 20)
        finally:
            backtrack._BacktrackMatches.found = monkey
        assert sum(len(found.labels) for found in written) <= 4 * size
        assert sum(int(np.maximum(found.events[:, 2], 0).sum()) for found in written) > size * size / 20


@pytest.mark.further
def test_sums_over_several_tiles():
    """Each sum of fractions is added from the match's first row on, also if there are more rows than are added at a time."""
    rng, size = random.Random(3), 5000
    rows = [{"r": r, "letter": rng.choice("a" * 60 + "b"), "i": 1, "x": rng.choice([None, rng.uniform(-1, 1) * 10 ** rng.randint(-9, 9)]), "t": "", "d": None} for r in range(size)]
    got = answered("(A|B)+", [rows], None, 1 << 20)
    assert len(got) == size
    for start in (*range(0, size, 379), size - 9, size - 1):
        values = [row["x"] for row in rows[start:] if row["x"] is not None]
        assert got[start]["f"] == (functools.reduce(float.__add__, values) if values else None)
