"""Rows that come little by little, in many partitions at a time, with bytes between them: the same output as of all rows at
once."""

from __future__ import annotations

import random

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler import searches as s
from sparkcep.compiler.strategy import strategy_of
from sparkcep.engine.factory import match_table
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.build import make_plan
from tests.oracle import cases, selection
from tests.property.in_process import inputs, little_by_little, run
from tests.selection import first, one_in
from tests.support.caught import without_catching

HEAD = "PARTITION BY p ORDER BY id MEASURES"
ROWS = "MATCH_NUMBER() AS n, FIRST(id) AS a, LAST(id) AS z, count(*) AS c"

ALL = "EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES"

BEST = f"MATCH_RANK() AS n, A.id AS a, LAST(id) AS z {ALL}"

# clauses of which each search answers some
CLAUSES = [
    (s.ADJACENT, f"{HEAD} {ROWS} PATTERN (A B+ C) DEFINE A AS v < 2, B AS v >= PREV(v), C AS w > 0"),
    (s.ADJACENT, f"{HEAD} {ROWS}, PREV(v, 2) AS p2, NEXT(v, 2) AS n2 PATTERN (^ A B*? C) DEFINE B AS v >= avg(v), C AS NEXT(v, 2) > 0"),
    (s.ADJACENT, f"{HEAD} {ROWS} ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP TO NEXT ROW PATTERN (A (B | C){{2}} D?) DEFINE B AS v > FIRST(v), C AS v < FIRST(v)"),
    (s.WALK, f"{HEAD} {ROWS} EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B+ C) WINDOW 6 DEFINE A AS v < 2, B AS v >= PREV(v), C AS v > A.v"),
    (s.WALK, f"{HEAD} {ROWS} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A ~N C) WINDOW 5 DEFINE A AS v < 2, N AS v = 2, C AS w > 0"),
    (s.WALK, f"{HEAD} {ROWS} ALL ROWS PER MATCH WITH UNMATCHED ROWS EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A C) WINDOW 4 DEFINE A AS v < 2, C AS w > 0"),
    (s.CONJUNCTION, f"{HEAD} {ROWS} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN ((A B) & (C D)) WINDOW 5 DEFINE A AS v < 2, B AS v > 1, C AS w > 0, D AS w < 1"),
    (s.NUMBERS, f"{HEAD} MATCH_COUNT() AS n, LAST(id) AS z {ALL} PATTERN (A B+) WINDOW 4 DEFINE A AS v < 2"),
    (s.FRONT, f"{HEAD} MATCH_COUNT() AS n, LAST(id) AS z {ALL} PATTERN (A B+) WINDOW 4 DEFINE B AS v > A.v"),
    (s.FRONT, f"{HEAD} MATCH_GRAPH() AS g, LAST(id) AS z {ALL} PATTERN (A B+) WINDOW 4 DEFINE B AS v > A.v"),
    (s.PROXIES, f"{HEAD} FIRST(id) AS a, MATCH_ERRORS() AS n, LAST(id) AS z, PREV(A.v, 2) AS p2 PATTERN (A B C) WINDOW 5 APPROX 1 DEFINE A AS v < 2, B AS v > 2, C AS NEXT(w) > 0"),
    (s.PROXIES, f"{HEAD} MATCH_NUMBER() AS n, BUNDLE_SIZE() AS b, FIRST(id) AS a, LAST(id) AS z PATTERN (A B $) WINDOW 3 APPROX 1 MATCH BUNDLES DEFINE A AS v < 2, B AS v > 2"),
    (s.PROXIES, f"{HEAD} MATCH_ERRORS() AS n ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B C) WINDOW 5 APPROX 1 DEFINE A AS v < 2, B AS v > 2, C AS w > 0"),
    (s.CLASSES, f"{HEAD} FIRST(id) AS a, MATCH_ERRORS() AS n, LAST(id) AS z PATTERN (A B C) WINDOW 5 APPROX 1 DEFINE A AS v < 2, B AS v > A.v, C AS w > 0"),
    (s.PATHS, f"{HEAD} {BEST} PATTERN (A B) WINDOW 5 PREF MAX (A.v + B.w) TOP 2 DEFINE A AS v < 3"),
    (s.SIDES, f"{HEAD} {BEST} PATTERN ((A B) & (C D)) WINDOW 6 ROWS SLIDE 2 ROWS PREF MAX (A.v + C.w) TOP 2 DEFINE A AS v < 3, D AS w > 0"),
    (s.SEQUENCES, f"{HEAD} {BEST} PATTERN (A B C) WINDOW 6 ROWS SLIDE 2 ROWS PREF MAX (least(A.v, C.w)) TOP 2 DEFINE A AS v < 3"),
]


def partitions(rng: random.Random, count: int, longest: int = 14, nulls: float = 0.05) -> dict[int, list[dict]]:
    def value(least, most):
        return None if rng.random() < nulls else rng.randint(least, most)

    return {
        p: [{"id": i, "v": value(0, 4), "w": value(-1, 2), "s": rng.choice(["a", "b", "ab", "", None])} for i in range(rng.randint(0, longest))]
        for p in range(count)
    }


@pytest.mark.parametrize(("search", "clause"), one_in(8, [pytest.param(*each) for each in CLAUSES]))
def test_each_search(search, clause):
    plan = without_catching(make_plan(parse_clause(clause)))
    assert strategy_of(plan).search == search
    rng, compared = random.Random(clause), 0
    for _ in range(6):
        # where a score is NULL all matches of a buffer are listed, so that the output depends on what lies beside
        table = inputs(plan, partitions(rng, 40, nulls=0 if plan.ranking else 0.05))
        wanted = by_partition(plan, match_table(plan, table))
        assert by_partition(plan, little_by_little(plan, table, rng)) == wanted
        compared += sum(map(len, wanted.values()))
    assert compared > 50


def by_partition(plan, leaves) -> dict[int, list[str]]:
    if plan.ranking:  # matches of the k best are numbered through a buffer
        leaves = leaves.drop_columns([leaf.name for leaf in plan.leaves if leaf.spec.kind == "mno"])
    found: dict[int, list[dict]] = {}
    for row in leaves.to_pylist():
        found.setdefault(row["__p0" if plan.rows == "one" else "p"], []).append(row)
    if plan.ranking and plan.ranking.by_sides:
        found = {p: best(rows) for p, rows in found.items()}
    # rows in no match of a search that keeps few rows come when they leave it
    ordered = sorted if plan.approximate and plan.rows == "unmatched" else list
    return {p: ordered(map(str, rows)) for p, rows in found.items()}  # NaN is no equal of itself


def best(rows: list[dict]) -> list[dict]:
    """The two best matches of each window as Spark ranks them: more than these are listed where a buffer has too many ties."""
    kept: dict[int, list[dict]] = {}
    for row in sorted(rows, key=lambda row: (row["__l5"], -row["__l2"] - row["__l3"], row["__l4"])):
        some = kept.setdefault(row["__l5"], [])
        if len(some) < 2 and row not in some:
            some.append(row)
    return [row for some in kept.values() for row in some]


@pytest.mark.parametrize("seed", first(range(16), wider=1))
def test_adjacent_rows(seed):
    rng, compared = random.Random(seed), 0
    for _ in range(30):
        clause = cases.random_clause(rng)
        clause.measures = cases.BASE_MEASURES
        compared += _same(clause.to_sql(), partitions(rng, 20, longest=9), rng)
    assert compared > 250


@pytest.mark.parametrize("seed", first(range(32), wider=2))
def test_event_selection(seed):
    rng, compared = random.Random(100 + seed), 0
    for _ in range(15):
        query = selection.random_query(rng, shapes=("plain", "plain", "negation", "group", "conjunction"))
        compared += _same(query.to_sql(), partitions(rng, 12, longest=8), rng)
    assert compared > 40


def _same(text: str, rows: dict[int, list[dict]], rng: random.Random) -> int:
    """Compares the two ways, partition by partition where one has an error; how many output rows were the same."""
    try:
        wanted = run(text, rows)
    except MatchRuntimeError:
        return 0
    got = run(text, rows, cuts=rng)
    assert got == wanted, text
    return sum(map(len, wanted.values()))
