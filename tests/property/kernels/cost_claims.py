"""The steps of clauses over growing partitions, as JSON:
``SPARKCEP_INTERPRET=always python -m tests.property.kernels.cost_claims 0 1``.

Kernels run interpreted, and each pass of a loop counts as a step. So the numbers are the same on each machine.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.strategy import strategy_of
from sparkcep.engine.factory import match_table
from sparkcep.errors import MatchRuntimeError
from sparkcep.kernels.jit import fallback
from sparkcep.plan.build import make_plan
from tests.property.in_process import inputs
from tests.support.caught import without_catching

SIZES = (60, 120, 240)
HEAD = "PARTITION BY p ORDER BY id MEASURES "
ENDS = "FIRST(id) AS a, LAST(id) AS z, count(*) AS n, max(v) AS m"
LETTERS = "DEFINE A AS v >= 0, B AS v >= 1, C AS w < 0"
PATTERNS = ("A", "A B", "A+", "A B+", "A+ B", "A* B* C", "(A | B)* C", "(A* B?)* C", "A+? B", "(A B)+", "A{2,}", "A{1,4} B", "(A+ B){2} C?", "PERMUTE(A, B, C)", "^ A+ $", "A+ {- B -}")
SKIPS = ("", "AFTER MATCH SKIP TO NEXT ROW", "AFTER MATCH SKIP TO LAST A")
NEIGHBOURS = "DEFINE A AS v >= PREV(v, 1) OR PREV(v) IS NULL, B AS v <= NEXT(v), C AS w < PREV(w)"
MATCHES = "DEFINE B AS v >= FIRST(A.v)", "DEFINE B AS v > LAST(A.v)", "DEFINE B AS v >= avg(B.v)", "DEFINE A AS v >= FIRST(v)", "DEFINE B AS count(*) < 1000"
# rows that a threshold decides, which the match's first row gives or a running maximum: each attempt takes blocks of rows
THRESHOLDS = (
    "PATTERN (A+ B) DEFINE B AS FIRST(id) < 0", "PATTERN (A+ B) DEFINE B AS id < FIRST(A.id)", "PATTERN (A+) DEFINE A AS id >= FIRST(id)",
    "PATTERN (A+ B) DEFINE A AS id >= FIRST(id), B AS w < 0", "PATTERN (A+ B) DEFINE B AS v > 100 + max(A.v)", "PATTERN (A B+ C) DEFINE B AS id >= A.id, C AS v > A.v + 1000",
)
ANY, TILL_NEXT = "EVENT SELECTION SKIP TILL ANY MATCH", "EVENT SELECTION SKIP TILL NEXT MATCH"
OTHERS = (
    f"{HEAD}{ENDS} PATTERN (^ (A B+)+ C) DEFINE A AS v >= max(A.v), C AS v < 0",
    f"{HEAD}{ENDS} {TILL_NEXT} PATTERN (A B C) WINDOW 20 DEFINE A AS v > 1, B AS v < 3, C AS v = 2",
    f"{HEAD}{ENDS} {ANY} PATTERN (A B C) WINDOW 20 DEFINE A AS v > 1, B AS v < 3, C AS v = 2",
    f"{HEAD}MATCH_COUNT() AS n {ANY} ALL MATCHES PATTERN (A B+ C) WINDOW 20 DEFINE A AS v > 1, B AS v < 3",
    f"{HEAD}MATCH_COUNT() AS n {ANY} ALL MATCHES PATTERN (A B C) WINDOW 1000 DEFINE A AS v >= 0",
    f"{HEAD}LAST(id) AS z, MATCH_ERRORS() AS e PATTERN (A B C) WINDOW 20 APPROX 1 DEFINE A AS v > 1, B AS v < 3, C AS v = 2",
    f"{HEAD}LAST(id) AS z, MATCH_ERRORS() AS e PATTERN (A B+ C) WINDOW 1000 APPROX 1 DEFINE A AS v >= 0, B AS v >= 0, C AS w < 0",
    f"{HEAD}MATCH_SCORE() AS s {ANY} PATTERN (A B C) WINDOW 20 PREF MAX (A.v + C.v) TOP 2 DEFINE A AS v > 1, B AS v < 3",
    f"{HEAD}MATCH_SCORE() AS s {ANY} PATTERN (A B) WINDOW 1000 PREF MAX (A.v + B.v) TOP 2 DEFINE A AS v >= 0",
    f"{HEAD}{ENDS} ALL ROWS PER MATCH PATTERN (A+ B?) {LETTERS.rpartition(',')[0]}",
    f"{HEAD}{ENDS} ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (A+ B?) {LETTERS.rpartition(',')[0]}",
)


def define(pattern: str, conditions: str) -> str:
    """The conditions of those variables that the pattern has."""
    return "DEFINE " + ", ".join(part for part in conditions.removeprefix("DEFINE ").split(", ") if part.strip()[0] in pattern or part[0] not in "ABC")


def clauses() -> list[str]:
    found = [f"{HEAD}{ENDS} {skip} PATTERN ({pattern}) {define(pattern, LETTERS)}" for pattern in PATTERNS for skip in SKIPS if "A" in pattern and not (skip.endswith("A") and pattern in ("A", "A B"))]
    found += [f"{HEAD}{ENDS} {skip} PATTERN ({pattern}) DEFINE A AS v >= PREV(v) OR v IS NOT NULL" for pattern in ("A+", "A X+", "A+ X") for skip in SKIPS[:2]]
    found += [f"{HEAD}{ENDS} {skip} PATTERN (A+ B C?) {NEIGHBOURS}" for skip in SKIPS[:2]]
    found += [f"{HEAD}{ENDS} {skip} {condition}" for condition in THRESHOLDS for skip in SKIPS[:2]]
    found += [f"{HEAD}{ENDS} {skip} PATTERN (A+ B) {condition}" for condition in MATCHES for skip in SKIPS[:2]]
    return [*found, *OTHERS]


def partitions(size: int) -> dict[str, list[dict]]:
    """Rows that make searches go far: all alike, rising, falling, in turn, the last one apart, at random."""
    rng = random.Random(size)
    values = {
        "alike": [5] * size, "rising": list(range(size)), "falling": list(range(size, 0, -1)), "in turn": [i % 2 for i in range(size)],
        "apart": [5] * (size - 1) + [0], "random": [rng.randint(0, 4) for _ in range(size)],
    }  # fmt: skip
    return {name: [{"id": i, "v": v, "w": 1, "s": "x"} for i, v in enumerate(some)] for name, some in values.items()}


def counted(text: str, rows: list[dict]) -> int:
    """The steps of a clause over one partition; those of a clause that fails up to there."""
    plan = without_catching(make_plan(parse_clause(text)))
    table, before = inputs(plan, {0: rows}), steps[0]
    try:
        match_table(plan, table)
    except MatchRuntimeError as error:
        if "SKIP" not in str(error):
            raise
    return steps[0] - before


steps = [0]


def main(part: int, parts: int) -> None:
    assert os.environ.get("SPARKCEP_INTERPRET") == "always", "compiled kernels count no steps"
    before = fallback._tick

    def ticked() -> None:
        steps[0] += 1
        before()

    fallback._tick = ticked
    data = {size: partitions(size) for size in SIZES}
    found = []
    for text in itertools.islice(clauses(), part, None, parts):
        strategy = strategy_of(make_plan(parse_clause(text)))
        found.append([text, strategy.cost, {name: [counted(text, data[size][name]) for size in SIZES] for name in data[SIZES[0]]}])
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
