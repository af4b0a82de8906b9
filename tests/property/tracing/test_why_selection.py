"""Traces of sparkcep.why under SKIP TILL, ALL MATCHES, windows and negation against brute force over random clauses."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from sparkcep.tracing.rows import machine
from sparkcep.tracing.search import moves, negation, program, trace
from tests.oracle import pattern, selection
from tests.property.tracing.why_selection import BUDGET, NEGATED, PLAIN, SIDED, SidedCase, checked
from tests.selection import first
from tests.support.planted_faults import plant

CLAUSES = 30  # per seed


@pytest.mark.parametrize("seed", first(range(100), 1, wider=2))
def test_first_matches_equal_brute_force(seed):
    counts = checked(seed, CLAUSES, PLAIN, report=selection.FIRST)
    for what in ("matches", "start rows", "runs", "farthest runs", "decisions", "other options", "answers"):
        assert counts[what] > CLAUSES // 10, counts


@pytest.mark.parametrize("seed", first(range(70), 1, wider=2))
def test_all_matches_equal_brute_force(seed):
    counts = checked(seed, CLAUSES, PLAIN, report=selection.ALL)
    for what in ("matches", "start rows", "runs", "answers", "is the variable"):
        assert counts[what] > CLAUSES // 10, counts


@pytest.mark.parametrize("seed", first(range(70), 1, wider=2))
def test_negations_equal_brute_force(seed):
    counts = checked(seed, CLAUSES, NEGATED)
    for what in ("matches", "start rows", "runs", "answers"):
        assert counts[what] > CLAUSES // 10, counts


@pytest.mark.parametrize("seed", first(range(40), wider=1))
def test_negations_of_taken_variables_equal_brute_force(seed):
    counts = checked(4 + seed, CLAUSES // 2, ("negation of a taken variable",))
    for what in ("start rows", "runs", "answers"):
        assert counts[what] > 0, counts


@pytest.mark.parametrize("seed", first(range(200), 1, wider=2))
def test_sides_agree_with_brute_force(seed):
    counts = checked(seed, CLAUSES // 5, SIDED, ("sides", "answers"), strategy=selection.ANY)
    for what in ("sides", "answers"):
        assert counts[what] > 0, counts


NESTED = (
    ("cat", [("var", "X"), ("and", [("var", "A"), ("var", "B")]), ("var", "Y")]), ("cat", [("and", [("var", "A"), ("var", "B")]), ("var", "Y")]),
    ("cat", [("var", "X"), ("and", [("rep", ("var", "A"), 1, 2, True), ("var", "B")])]), ("and", [("cat", [("and", [("var", "A"), ("var", "B")]), ("var", "Y")]), ("var", "X")]),
    ("rep", ("and", [("var", "A"), ("var", "B")]), 1, 2, True), ("alt", [("and", [("var", "A"), ("var", "B")]), ("var", "X")]),
)  # fmt: skip


def nested(rng: random.Random) -> selection.Query:
    """A random query with ``&`` inside a larger pattern."""
    whole = rng.choice(NESTED)
    names = sorted(set(pattern.variables(whole)))
    defines = {}
    for name in names:
        letter = ("=", ("col", "s"), ("lit", {"X": "a", "A": "b", "B": "c", "Y": "a"}[name]))
        defines[name] = ("and", letter, selection._random_define(rng, name, names, (), "conjunction", selection.ALL, prior=False)) if rng.random() < 0.5 else letter
    return selection.Query(
        whole, pattern.to_text(whole, rng), defines, selection.ANY, selection.ALL, rng.choice([None, ("to next row",)]), rng.choice([None, ("rows", 5), ("range", 9)]),
        measures=dict(selection.BASE_MEASURES), budget=BUDGET,
    )  # fmt: skip


@pytest.mark.parametrize("seed", first(range(80), 1, wider=2))
def test_sides_of_a_nested_conjunction_equal_brute_force(seed):
    """A match has a match of each side, and rows that fit all sides without a match break a condition."""
    rng, counts = random.Random(seed), Counter()
    while counts["cases"] < CLAUSES // 4 or counts["cases"] < 5 * CLAUSES and not counts["nested starts"] + counts["nested"]:
        query, rows = nested(rng), selection.random_rows(rng, rng.choice([4, 5, 6]))
        try:
            if not SidedCase(query, rows, counts).check():
                counts["too large"] += 1
        except AssertionError as error:
            raise AssertionError(f"{query.to_sql()}\n{rows}\n{error}") from error
    assert counts["nested starts"] + counts["nested"] > 0, counts


# -- faults -------------------------------------------------------------------------------------------------------------

FAULTS = [
    (trace.Search, "_fails_later", "<= node.row", ">= node.row"),
    (moves.Moves, "_reaching", "any(takes(option, row) for option in blocking)", "True"),
    (program.Program, "_begin_again", "loop.high is None or done < loop.high", "False"),
    (program.Program, "_begin_again", '"jump", "close", "tail", "not"', '"jump", "close", "not"'),
    (program.Program, "_begin_again", "at = loop.end", "return None"),
    (program.Program, "groups", "row if slot == _EMPTY else slot", "slot"),
    (program.Program, "after", "slot[0] or (is_first and slot[1])", "slot[0]"),
    (moves.Moves, "_among", "bisect_left(rows, first)", "bisect_left(rows, first + 1)"),
    (moves.Moves, "_reaching", "any(takes(option, row) for option in blocking)", "False"),
    (moves.Moves, "blocking", "options if again is None else again", "options"),
    (moves.Moves, "_taking", "for option in turn for row in self", "for option in reversed(turn) for row in self"),
    (trace.Search, "ways", "if found == before", "if True"),
    (trace.Search, "_find", "match.found not in known", "True"),
    (trace.Search, "_intervals", "first > self.rows.first and", "first > self.rows.first + 1 and"),
    (trace.Search, "_intervals", "if ends else row", "if False else row"),
    (trace.Search, "_intervals", "if ends or not negation.late", "if True"),
    (trace.Search, "_intervals", "run.before.row, run.row", "run.before.row, run.row - 1"),
    (trace, "not_overlapping", "match.start >= at", "match.start > at"),
    (negation.Negations, "_found", "range(after + 1, before)", "range(after + 1, before - 1)"),
    (machine.Machine, "value_between", "sorted([*taken, (row, own)])", "sorted(taken)"),
]  # fmt: skip


OF_NEXT = ("_begin_again", "blocking")  # functions that only SKIP TILL NEXT MATCH needs


@pytest.mark.parametrize("owner, name, right, wrong", first([pytest.param(*fault) for fault in FAULTS], 1, wider=1))
def test_faults_are_found(owner, name, right, wrong, monkeypatch):
    """The checks fail for a trace with a planted fault."""
    plant(monkeypatch, owner, name, right, wrong)
    with pytest.raises((AssertionError, IndexError, KeyError, ValueError, StopIteration)):
        for seed in range(20):
            if name in OF_NEXT:
                checked(seed, 60, ("nested",), strategy=selection.NEXT, report=selection.ALL)
            else:
                checked(seed, 20)
                checked(seed, 20, NEGATED)
