"""EXPLAIN says what the engine does: the memo, the way proxies and numbers are found, and the work that is done for them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkcep.automaton.strategy import CLASSES, FRONT, NUMBERS, PROXIES, WALK
from sparkcep.clause.parser import parse_clause
from sparkcep.engine.open import engine_for, match_batches, prepare
from sparkcep.plan.plan import LETTERS, make_plan
from sparkcep.search import codes
from sparkcep.search import walk as selecting
from sparkcep.sql.describe import describe

CONDITIONS = [
    "B AS v > 1",
    "B AS v > PREV(v)",
    "B AS v > A.v",
    "B AS v > avg(A.v) AND v > 0",
    "A AS count(DISTINCT A.v) < 3, B AS v > 1",
    "B AS PREV(CLASSIFIER()) = 'A'",
    "B AS PREV(CLASSIFIER(A)) IS NULL",
    "B AS v > A.v AND MATCH_NUMBER() < 3",
    "B AS CLASSIFIER() = 'B' AND v > A.v",
    "B AS v > PRIOR(max(B.v)) AND v > 1",
]
EXACT = ["PATTERN (A B)", "PATTERN (A+ B)", "PATTERN ((A | B)* B)"]
SELECTED = [
    "EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A+ B)",
    "EVENT SELECTION SKIP TILL ANY MATCH FIRST MATCH PATTERN (A+ B)",
    "EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A ~C B) WINDOW 5",
    "PATTERN (A+ B) WINDOW 5",
]


def engine_and_text(clause: str, measure: str = "FIRST(t)"):
    plan = make_plan(parse_clause(f"ORDER BY t MEASURES {measure} AS f {clause}"))
    schema = pa.schema([(name, pa.int8() if name == LETTERS else pa.int64()) for name in (*(n for n, _ in plan.inputs), *([LETTERS] if plan.letters else []))])
    return engine_for(prepare(plan, schema)), " ".join(describe(plan).split())


@pytest.mark.parametrize("define", CONDITIONS)
@pytest.mark.parametrize("pattern", EXACT)
def test_whether_failed_states_are_remembered(pattern, define):
    engine, text = engine_and_text(f"{pattern} DEFINE {define}")
    assert ("failed states are remembered" in text) == (engine.prepared.memo != codes.NO_MEMO)


@pytest.mark.parametrize("define", CONDITIONS)
@pytest.mark.parametrize("pattern", SELECTED)
def test_whether_failed_runs_are_remembered(pattern, define):
    engine, text = engine_and_text(f"{pattern} DEFINE {define}{', C AS v = 2' if '~C' in pattern else ''}")
    assert ("runs that failed are remembered" in text) == engine.passage.search.remembers


@pytest.mark.parametrize("define", CONDITIONS)
@pytest.mark.parametrize("pattern", ["PATTERN (A B+ C) WINDOW 5 APPROX 1", "PATTERN (A B+ C) WINDOW 5 APPROX 1 MATCH BUNDLES", "EVENT SELECTION STRICT CONTIGUITY PATTERN (A B+ C) WINDOW 5 APPROX 1"])
def test_how_proxies_are_found(pattern, define):
    engine, text = engine_and_text(f"{pattern} DEFINE {define}")
    assert ("one run for each node," in text) == (engine.prepared.strategy.search == PROXIES)
    assert ("one run for each node and" in text) == (engine.prepared.strategy.search == CLASSES)


@pytest.mark.parametrize("define", CONDITIONS)
@pytest.mark.parametrize("pattern", ["PATTERN (A B+)", "PATTERN (A B+ A* A*)"])
def test_how_matches_are_counted(pattern, define):
    engine, text = engine_and_text(f"EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES {pattern} DEFINE {define}", "MATCH_COUNT()")
    search = engine.prepared.strategy.search
    assert ("dynamic programming" in text) == (search == NUMBERS)
    assert ("side by side" in text) == (search == FRONT)
    assert ("listed one by one" in text) == (search == WALK)


@pytest.mark.parametrize(
    ("clause", "asked"),
    [
        ("MATCH_COUNT() AS n EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) WINDOW 5", False),
        ("MATCH_SCORE() AS n EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) WINDOW 5 PREF MAX (A.v + B.v) TOP 2", False),
        ("count(*) AS n PATTERN (A B C) WINDOW 5 APPROX 1 DEFINE B AS v > A.v", False),
        ("count(*) AS n EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) WINDOW 5", True),
        ("MATCH_COUNT() AS n EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) WINDOW 5 DEFINE B AS v > A.v", True),
    ],
)
def test_where_branches_end_is_told_only_to_those_who_ask(clause, asked, monkeypatch):
    calls = []
    whole = selecting.completion_ends
    monkeypatch.setattr(selecting, "completion_ends", lambda *given: (calls.append(1), whole(*given)))
    plan = make_plan(parse_clause(f"ORDER BY t MEASURES {clause}"))
    table = pa.table({name: pa.array(range(9)) for name, _ in plan.inputs})
    assert sum(out.num_rows for out in match_batches(engine_for(prepare(plan, table.schema)), table.to_batches())) > 0
    assert bool(calls) == asked
