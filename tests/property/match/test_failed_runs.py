"""Searches of ambiguous patterns that fail end within a number of steps, over tables and over partitions that still grow.

Each pattern here lets a row be taken for two variables, so that n rows can be taken in 2^n ways. A search that goes through all
ways needs more steps than it may take.
"""

from __future__ import annotations

import functools
import random
from dataclasses import replace

import pytest

from sparkcep.engine.core import task
from sparkcep.engine.core.kernel_loop import scratch
from sparkcep.settings import DEFAULT
from tests.property.in_process import run

STEPS = 30_000
HEAD = "PARTITION BY p ORDER BY id MEASURES FIRST(id) AS a, LAST(id) AS z "
NEXT, ANY = "EVENT SELECTION SKIP TILL NEXT MATCH", "EVENT SELECTION SKIP TILL ANY MATCH FIRST MATCH"
BOTH = "L AS v < 2, M AS v < 3"


def rows(of: list[int]) -> dict[int, list[dict]]:
    return {0: [{"id": i, "v": v, "w": 1, "s": "x"} for i, v in enumerate(of)]}


NEVER = [i % 2 for i in range(90)]  # no row ends a match
HIDDEN = [5 if i % 30 == 29 else 3 if i % 30 == 28 else i % 2 for i in range(90)]  # each row that ends a match has a negated one before it
FAILING = [
    ("", f"((L | M)+ G) WINDOW 1000 DEFINE {BOTH}, G AS v = 7", NEVER),
    ("", f"((L | M)+? G) WINDOW 1000 DEFINE {BOTH}, G AS v = 7", NEVER),
    ("", f"((L | M)+ G) WINDOW 40 DEFINE {BOTH}, G AS v = 7", NEVER),
    ("", f"((L | M){{1,25}} G) WINDOW 1000 DEFINE {BOTH}, G AS v = 7", NEVER),
    ("", f"((L | M)+ G) DEFINE {BOTH}, G AS v = 7", NEVER),
    ("", f"((L | M)+ G) WINDOW 1000 DEFINE {BOTH}, G AS v + FIRST(v) = 9", NEVER),
    ("", "(((L | M)+ G) WITHIN 20 H) WINDOW 1000 DEFINE L AS v >= 0, M AS v < 4, G AS v = 5, H AS v = 7", HIDDEN),
    ("EVENT SELECTION STRICT CONTIGUITY ALL MATCHES", f"((L | M)+ G) WINDOW 1000 DEFINE {BOTH}, G AS v = 7", NEVER),
    (NEXT, f"((L | M)+ G) WINDOW 1000 DEFINE {BOTH}, G AS v + FIRST(v) = 9", NEVER),
    (NEXT, f"((L | M)+ ~N G) WINDOW 1000 DEFINE {BOTH}, N AS v = 3, G AS v = 5", HIDDEN),
    (ANY, f"((L | M)+ ~N G) WINDOW 1000 DEFINE {BOTH}, N AS v = 3, G AS v = 5", HIDDEN),
    (ANY, "(L+ ~N G) WINDOW 1000 DEFINE L AS v < 2, N AS v = 3, G AS v = 5", HIDDEN),
    (NEXT, f"((L | M)+ ~N G) WINDOW 1000 DEFINE {BOTH}, N AS v = 3, G AS v = 5 + 0 * L.v", HIDDEN),
]  # fmt: skip


@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize(("options", "pattern", "values"), FAILING)
def test_ambiguous_runs_that_fail_are_tried_once(options, pattern, values, grows):
    found = run(f"{HEAD}{options} PATTERN {pattern}", rows(values), settings=replace(DEFAULT, max_steps=STEPS), cuts=random.Random(1) if grows else None)
    assert not found.get(0)


@pytest.mark.parametrize("grows", [False, True])
def test_the_match_behind_runs_that_failed_is_found(grows):
    """The table of completions lets the first rows begin, since the window of the group alone tells that they fail."""
    clause = f"{HEAD}PATTERN (((L | M)+ G) WITHIN 25 H) WINDOW 1000 DEFINE {BOTH}, G AS v = 5, H AS v = 1"
    values = [1] * 40 + [5, 1] + [0] * 10
    found = run(clause, rows(values), settings=replace(DEFAULT, max_steps=STEPS), cuts=random.Random(1) if grows else None)
    assert [(row["a"], row["z"]) for row in found[0]] == [(16, 41)]


@pytest.mark.parametrize("grows", [False, True])
def test_runs_that_a_waiting_negation_refuses_have_not_failed(grows, monkeypatch):
    """The first row divides by zero, so neighbours are compared at candidate rows only, and the negation waits for the match's end.
    The C refuses the matches of the first A, and not those of the second with equal ends."""
    monkeypatch.setattr(task, "Limits", functools.partial(task.Limits, patience=0))
    letters = [("x", 0, 0), ("d", 0, 1), ("a", 1, 1), ("c", 2, 1), ("a", 0, 1), *[("b", 0, 1)] * 3, *[("d", 0, 1)] * 3]
    partition = [{"id": i, "s": s, "v": v, "w": w} for i, (s, v, w) in enumerate(letters)]
    clause = (
        "PARTITION BY p ORDER BY id MEASURES A.id AS a, B.id AS b, D.id AS d EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A ~C B D) WINDOW 100 "
        "DEFINE A AS s = 'a', B AS s = 'b', C AS s = 'c' AND v > PREV(v), D AS s = 'd' AND (v + 10) / PREV(w) > 1"
    )
    found = run(clause, {0: partition}, cuts=random.Random(1) if grows else None)
    assert found == {0: [{"a": 4, "b": b, "d": d} for b in (5, 6, 7) for d in (8, 9, 10)]}


def test_runs_that_fail_beside_a_waiting_negation_are_tried_once():
    """The row before A divides by zero. No row is the negated C or the last G, and each of 40 rows continues a run in two ways."""
    partition = [{"id": i, "s": "x", "v": v, "w": w} for i, (v, w) in enumerate([(5, 0), (1, 1), (0, 1), *[(1, 1)] * 40, (7, 1)])]
    clause = (
        f"{ANY} PATTERN (A ~C (L | M)+ G) WINDOW 1000 "
        "DEFINE A AS v = 0, L AS v = 1 AND (v + 10) / PREV(w) > 1, M AS v = 1, C AS v > PREV(v) + 100, G AS v + FIRST(v) = 19"
    )
    assert not run(HEAD + clause, {0: partition}, settings=replace(DEFAULT, max_steps=STEPS)).get(0)


@pytest.mark.parametrize("grows", [False, True])
def test_rows_that_no_condition_needs_have_no_values_of_other_runs(grows, monkeypatch):
    """Nothing of the match is needed after C, yet the mean of A goes on with the next A."""

    def used(*arguments, **options):
        found = scratch(*arguments, **options)
        found.hi.fill(-1)
        return found

    monkeypatch.setattr("sparkcep.engine.match.gap_walk.scratch", used)
    monkeypatch.setattr("sparkcep.engine.match.unfinished.scratch", used)
    clause = "EVENT SELECTION SKIP TILL {} MATCH PATTERN (A+ B C A+ D) DEFINE A AS s = 'a', B AS s = 'b' AND STDDEV(A.v) > 1, C AS s = 'c', D AS s = 'd' AND D.v > LAST(A.v)"
    values = {0: [{"id": i, "s": s, "v": v, "w": 1} for i, (s, v) in enumerate([("a", 1), ("a", 5), ("b", 1), ("c", 1), ("a", 3), ("d", 4), ("a", 1), ("a", 5), ("b", 1), ("c", 1), ("a", 3)])]}
    cuts = random.Random(1) if grows else None
    assert run(HEAD + clause.format("NEXT"), values, cuts=cuts) == {0: [{"a": 0, "z": 5}]}
    assert run(HEAD + clause.format("ANY"), values, cuts=cuts) == {0: [{"a": 0, "z": 5}]}
    if not grows:
        shown = run(f"{HEAD}ONE ROW PER MATCH SHOW UNFINISHED MATCHES {clause.format('NEXT')}", values)
        assert shown == {0: [{"a": 0, "z": 5}, {"a": 6, "z": 10}]}
