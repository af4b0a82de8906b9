"""The bounds end a runaway query in every engine that can run away, with an error that names the setting."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.searches import (
    ADJACENT,
    CLASSES,
    COMPUTATIONS,
    CONJUNCTION,
    FRONT,
    NUMBERS,
    PATHS,
    PROXIES,
    SEQUENCES,
    SIDES,
    STREAMS,
    WALK,
)
from sparkcep.engine.core.effort import Limits
from sparkcep.engine.core.windows import WINDOW_BYTES
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS
from tests.selection import one_in
from tests.support.caught import without_catching

ROWS = 60
ANY = "EVENT SELECTION SKIP TILL ANY MATCH"
LOCAL = "DEFINE A AS v >= 0, B AS v >= 0, C AS v >= 0"
FOUR = f"{LOCAL}, D AS v >= 0"
ALL_IN_ONE = "WINDOW 100000 SLIDE 100000"
LOOKING = "DEFINE A AS v >= 0, B AS v >= A.v, C AS v >= avg(B.v)"
HOPELESS = "DEFINE A AS v >= 0, B AS v >= A.v AND count(DISTINCT B.v) > 0, C AS count(DISTINCT B.v) < 0"
MATCHES, BYTES, STEPS = {"max_matches": 1000}, {"max_state_bytes": 1 << 18}, {"max_steps": 10_000}
COUNTING = "REGISTER n BIGINT = 0 STATE c FINAL ARC FROM a TO b SET n = 1 ARC FROM b TO c WHEN n < 0"
ERRORS = {
    "max_matches": "MATCH_LIMIT.*sparkcep.maxMatchesPerPartition = 1000 .*k = 0",
    "max_state_bytes": "STATE_LIMIT.*k = 0 .*sparkcep.maxStateBytes = 262144 ",
    "max_steps": "EFFORT_LIMIT.*k = 0 .*sparkcep.maxSteps = 10000\\b",
}

# name: engine, the clause behind MEASURES, the bound that ends it
RUNAWAYS = {
    "exact": (ADJACENT, f"count(*) AS n PATTERN (A B* B* B* C) {HOPELESS}", STEPS),
    "exact, remembered": (ADJACENT, "count(*) AS n PATTERN (A B* (B | C)* D) DEFINE B AS v >= A.v, C AS v >= A.v, D AS v < sum(B.v) - 1000000000", BYTES),
    "listed": (WALK, f"count(*) AS n {ANY} ALL MATCHES PATTERN (A B* C) {LOOKING}", MATCHES),
    "first match": (WALK, f"count(*) AS n {ANY} PATTERN (A B* C) {HOPELESS}", STEPS),
    "graph": (FRONT, f"MATCH_GRAPH() AS g {ANY} ALL MATCHES PATTERN (A B* C) {LOOKING}", BYTES),
    "counted, conditions on the match": (FRONT, f"MATCH_COUNT() AS n {ANY} ALL MATCHES PATTERN (A B* C) {LOOKING}", MATCHES | BYTES),  # runs too many to be merged are listed
    "conjunction": (CONJUNCTION, f"count(*) AS n {ANY} ALL MATCHES PATTERN (A B* & C) {LOCAL}", MATCHES),
    "conjunction, counted": (CONJUNCTION, f"MATCH_COUNT() AS n {ANY} ALL MATCHES PATTERN (A B* & C) {LOCAL}", BYTES),
    "approximate, listed": (WALK, f"count(*) AS n PATTERN (A B* C) WINDOW 100000 APPROX 1 ALL MATCHES {LOOKING}", BYTES),
    "proxies by class": (CLASSES, f"count(*) AS n PATTERN (A B* C) WINDOW 100000 APPROX 1 {LOOKING}", BYTES),
    "proxies, listed": (WALK, f"count(*) AS n PATTERN (A B* C) WINDOW 100000 APPROX 1 {HOPELESS}", BYTES),
    "ranked, listed": (WALK, f"MATCH_SCORE() AS s {ANY} PATTERN (A B* C) WINDOW 100000 PREF MAX (A.v + C.v) TOP 3 {LOOKING}", MATCHES),
    "ranked, k best paths": (PATHS, f"MATCH_SCORE() AS s {ANY} PATTERN (A B* C) WINDOW 100000 PREF MAX (A.v + C.v) TOP 100000 {LOCAL}", BYTES),
    "ranked, k best held": (PATHS, f"MATCH_SCORE() AS s {ANY} PATTERN (A B+ C) WINDOW 100000 PREF MAX (SUM(B.gap)) TOP 1000 {LOCAL}", BYTES),
    "ranked, sides": (SIDES, f"MATCH_SCORE() AS s {ANY} PATTERN ((A B+) & (C D+)) {ALL_IN_ONE} PREF MAX (A.v + C.v) TOP 5000 {FOUR}", BYTES),
    "ranked, sides joined": (SIDES, f"MATCH_SCORE() AS s {ANY} PATTERN ((A B) & (C D)) {ALL_IN_ONE} PREF MAX (A.v + C.v) TOP 50000 {FOUR}", STEPS),
    "automaton, arcs that take no row": (COMPUTATIONS, f"n AS n AUTOMATON ({COUNTING} ARC FROM b TO b ON EMPTY SET n = n + 1)", STEPS),
    "automaton, two ways at each row": (COMPUTATIONS, f"n AS n AUTOMATON ({COUNTING} ARC FROM b TO b SET n = 2 * n ARC FROM b TO b SET n = 2 * n + 1)", BYTES),
    "automaton, all of whose rows end matches": (COMPUTATIONS, f"n AS n AUTOMATON ({COUNTING} STATE b FINAL ARC FROM b TO b SET n = n + 1)", MATCHES),
    "ranked, joined": (SEQUENCES, f"MATCH_SCORE() AS s {ANY} PATTERN (A B C) WINDOW 100000 PREF MAX (A.v * B.v * C.v) TOP 1000 {LOCAL}", STEPS),
}


def run(clause: str, limits: dict[str, int], rows: int = ROWS) -> tuple[str, int]:
    """The search that the strategy names, and the number of output rows of one partition that fulfils each row-local condition."""
    search, out = tables(clause, limits, rows)
    return search, sum(table.num_rows for table in out)


def tables(clause: str, limits: dict[str, int], rows: int = ROWS) -> tuple[str, list[pa.Table]]:
    plan = without_catching(make_plan(parse_clause(f"PARTITION BY k ORDER BY t MEASURES {clause}")))
    values = {"k": pa.array([0] * rows), "t": pa.array(range(rows)), "v": pa.array([float(row * 7919 % 1009) for row in range(rows)])}
    values["gap"] = pa.array([None if row % 2 else float(row) for row in range(rows)])
    columns = {column: values.get(sql.rpartition(".")[2], values["v"]) for column, sql in plan.inputs}
    if plan.letters:
        every = sum(1 << bit for _, bit, _ in plan.letters)
        # the sides of a conjunction have no rows in common
        letters = [every & (0b11 << row % 2 * 2) for row in range(rows)] if " & " in clause else [every] * rows
        columns[LETTERS] = pa.array(letters, pa.int8())
    table = pa.table(columns)
    engine = engine_for(prepare(plan, table.schema), limits=Limits(**limits))
    try:
        return engine.prepared.strategy.search, list(match_batches(engine, table.to_batches()))
    except MatchRuntimeError as error:
        error.add_note(engine.prepared.strategy.search)
        raise


@pytest.mark.parametrize("name", RUNAWAYS)
def test_a_runaway_query_ends(name):
    engine, clause, limits = RUNAWAYS[name]
    with pytest.raises(MatchRuntimeError, match=ERRORS[next(iter(limits))]) as raised:
        run(clause, limits, 2000 if engine == SEQUENCES else ROWS)
    assert raised.value.__notes__ == [engine]


OF_SEQUENCES = {
    PATHS: "SEQUENCE S AS (A B) WITHIN 80000 UPDATE 50000 PREF MAX (A.v + B.v) PATTERN (S) WINDOW 100000 SLIDE 50000 TOP 100000",
    STREAMS: "SEQUENCE S1 AS (A+) PREF MAX (SUM(v)) SEQUENCE S2 AS (B) PREF MAX (B.v) PATTERN (S1 S2) WINDOW 100000 SLIDE 50000 PREF SEQUENCES COMBINE BY MIN TOP 9000",
}


@pytest.mark.parametrize("search", OF_SEQUENCES)
def test_the_partition_is_named_whose_sequences_have_too_many_matches(search):
    """Its rows are counted once for each window, or searched together with others. The other partitions have few matches."""
    plan = without_catching(make_plan(parse_clause(f"PARTITION BY k ORDER BY t MEASURES MATCH_SCORE() AS s {ANY} {OF_SEQUENCES[search]} DEFINE A AS v > 0, B AS v > 0")))
    values = {"k": [row // ROWS for row in range(3 * ROWS)], "t": list(range(3 * ROWS)), "v": [row * 7919 % 1009 for row in range(3 * ROWS)]}
    columns = {column: pa.array(values[sql.rpartition(".")[2]]) for column, sql in plan.inputs if column != LETTERS}
    columns[LETTERS] = pa.array([0b11 if k == 1 or row % ROWS < 3 else 0 for row, k in enumerate(values["k"])], pa.int8())
    engine = engine_for(prepare(plan, pa.table(columns).schema), limits=Limits(**BYTES))
    assert engine.prepared.strategy.search == search
    with pytest.raises(MatchRuntimeError, match="STATE_LIMIT.*k = 1 "):
        list(match_batches(engine, pa.table(columns).to_batches()))


@pytest.mark.parametrize("t", [pa.int64(), pa.float64()])
@pytest.mark.parametrize("preferred", ["MAX (A.v + B.v)", "MAX (A.v * B.v / 3)"])
def test_the_partition_is_named_whose_rows_have_too_many_windows(t, preferred):
    """The windows of rows are listed if paths give the best, else those of matches."""
    plan = make_plan(parse_clause(f"PARTITION BY k ORDER BY t MEASURES MATCH_SCORE() AS s {ANY} PATTERN (A B) WINDOW 100000 SLIDE 1 PREF {preferred} TOP 1"))
    values = {"k": pa.array([0, 0, 1, 1, 1, 1]), "t": pa.array([0, 50_000, 0, 500_000, 500_001, 500_002], t), "v": pa.array([1.0] * 6)}
    table = pa.table({column: values[sql.rpartition(".")[2]] for column, sql in plan.inputs})
    engine = engine_for(prepare(plan, table.schema), limits=Limits(max_state_bytes=170_000 * WINDOW_BYTES))
    with pytest.raises(MatchRuntimeError, match="STATE_LIMIT.*k = 1 "):
        list(match_batches(engine, table.to_batches()))


SOON = {
    "very many matches": (f"count(*) AS n {ANY} ALL MATCHES PATTERN (A+)", 60, {"max_matches": 1_000_000}, "MATCH_LIMIT"),
    "first match that never completes": (f"count(*) AS n {ANY} FIRST MATCH PATTERN (A B+ C) DEFINE B AS B.v > A.v - 5000, C AS sum(B.v) < 0", 2000,
        {"max_steps": 10_000_000, "max_state_bytes": 1 << 20}, "EFFORT_LIMIT"),
    "distinct values, selected": (f"count(*) AS n {ANY} FIRST MATCH PATTERN (A B+ C) DEFINE C AS count(DISTINCT B.v) < 0", 2000, {"max_steps": 100_000_000}, "EFFORT_LIMIT"),
    "distinct values": ("count(*) AS n PATTERN (A B* (B | C)* D) DEFINE D AS count(DISTINCT B.v) < 0", 2000, {"max_steps": 100_000_000}, "EFFORT_LIMIT"),
}


@pytest.mark.parametrize("name", one_in(4, SOON, wider=3))
def test_a_bound_comes_in_time(name):
    clause, rows, limits, error = SOON[name]
    with pytest.raises(MatchRuntimeError):
        run(clause, limits | {"max_steps": 1000, "max_matches": 1000}, rows)  # kernels are compiled
    before = time.process_time()
    with pytest.raises(MatchRuntimeError, match=error):
        run(clause, limits, rows)
    assert time.process_time() - before < 60  # without the bound it takes very long


@pytest.mark.parametrize(
    ("engine", "clause"),
    [
        (PROXIES, f"count(*) AS n PATTERN (A B* C) WINDOW 100000 APPROX 1 {LOCAL}"),
        (NUMBERS, f"MATCH_COUNT() AS n {ANY} ALL MATCHES PATTERN (A B* C) WINDOW 50 {LOCAL}"),
    ],
)
def test_what_lists_nothing_stays_within_the_bounds(engine, clause):
    found, rows = run(clause, MATCHES | STEPS)
    assert found == engine
    assert rows > 50


def test_more_results_than_fit_are_ranked_by_spark():
    clause = f"MATCH_SCORE() AS s {ANY} PATTERN (A B C) WINDOW 100000 PREF MAX (A.v * B.v * C.v) TOP 1000 {LOCAL}"
    best, more = (pa.concat_tables(tables(clause, limits)[1]) for limits in ({}, {"max_state_bytes": 1 << 15}))
    assert best.num_rows == 1000 < more.num_rows < ROWS * (ROWS - 1) * (ROWS - 2) // 6  # a walk leaves most that cannot be among the best
    ranked = [sorted((-row["__l0"] * row["__l1"] * row["__l2"], row["__l3"]) for row in table.to_pylist())[:1000] for table in (best, more)]
    assert ranked[0] == ranked[1]
