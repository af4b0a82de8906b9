"""The engine's stages one by one: program listings, memory over one giant key, bounds on the effort."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.pattern.backtrack_compiler import compile_pattern
from sparkcep.engine.core.effort import Limits
from sparkcep.engine.core.errors import said
from sparkcep.engine.factory import Engine, engine_for, match_batches, match_table, prepare
from sparkcep.engine.output.match_id import equal_keys, plain, plain_values
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS, Plan
from tests.selection import first
from tests.support.caught import plainly


def plan_of(text: str) -> Plan:
    return make_plan(parse_clause(text))


def listing(pattern: str) -> list[str]:
    plan = plan_of(f"MEASURES MATCH_NUMBER() AS n PATTERN ({pattern})")
    lines = compile_pattern(plan.pattern, plan.variables).dump().splitlines()
    return [line.split(maxsplit=1)[1] for line in lines]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("A B", ["CHAR  A", "CHAR  B", "MATCH"]),
        ("A | B C", ["SPLIT 1, 3", "CHAR  A", "JUMP  5", "CHAR  B", "CHAR  C", "MATCH"]),
        ("A+ B*?", ["RUN   A{1,}", "RUN   B{0,}?", "MATCH"]),
        ("(A B)*", ["SPLIT 1, 4", "CHAR  A", "CHAR  B", "JUMP  0", "MATCH"]),
        ("(A B)+?", ["CHAR  A", "CHAR  B", "SPLIT 3, 0", "MATCH"]),
        ("^ {- A -} $", ["START", "CHAR  A excluded", "END", "MATCH"]),
        ("A{1,500}", ["RUN   A{1,500}", "MATCH"]),
        ("(A B){2,3}", ["INIT  loop 0", "LOOP  loop 0 {2,3} exit 5", "CHAR  A", "CHAR  B", "NEXT  loop 0 at 1", "MATCH"]),
        ("()", ["MATCH"]),
    ],
)
def test_program_listing(pattern, expected):
    assert listing(pattern) == expected


@pytest.mark.parametrize("zeros", [[-0.0, 0.0], [0.0, -0.0]])
def test_the_key_of_a_match_is_that_of_group_by(zeros):
    """-0.0 and 0.0 are one partition, and its key is 0.0 whichever comes first."""
    plan, values = plan_of("PARTITION BY d ORDER BY i MEASURES count(*) AS c PATTERN (A+)"), {"d": [*zeros, 1.0], "i": [1, 2, 1]}
    found = match_table(plan, pa.table({name: values[text] for name, text in plan.inputs}))
    assert list(map(str, found.column("__p0").to_pylist())) == ["0.0", "1.0"]


@pytest.mark.parametrize(
    ("pattern", "most"),
    [("A{1,1000000}", 5), ("(A B){500,100000} C", 10), ("PERMUTE(A, B, C, D, E, F, G, H)", 25), ("(A* B?)* C", 10)],
)
def test_programs_do_not_blow_up(pattern, most):
    assert len(listing(pattern)) <= most


def test_too_much_nested_counting_is_an_error():
    with pytest.raises(ClauseError, match="PATTERN_TOO_COMPLEX"):
        listing("((((A B){1000000} C){1000000} D){1000000} E){1000000}")


def test_counters_may_use_nearly_all_bits_of_a_word():
    """The states and the values of their counters are more than a word can number."""
    choices = "(A | B) " * 1024
    plan = plan_of(f"ORDER BY i MEASURES count(*) AS n PATTERN (((({choices}){{1,1000000}} C){{1,1000000}} D){{1,1000000}}) DEFINE C AS i = 1024, D AS i = 1025")
    assert compile_pattern(plan.pattern, plan.variables).register_bits == 60
    letters = [*[0] * 1024, 1, 2]  # of C and D
    found = match_table(plan, pa.table({**{name: list(range(1026)) for name, _ in plan.inputs}, LETTERS: letters}))
    assert found.num_rows == 1


def test_too_many_ways_to_miss_variables_are_an_error():
    named = " AND ".join(f"price > {v}.price" for v in "ABCDEFGHIJ")
    plan = make_plan(parse_clause(f"ORDER BY ts MEASURES price AS p PATTERN (A B C D E F G H I J X) APPROX 5 DEFINE X AS {named}"))
    schema = pa.schema([(name, pa.int64()) for name, _ in plan.inputs])
    with pytest.raises(ClauseError, match="PATTERN_TOO_COMPLEX"):
        prepare(plan, schema)


def batches_of_one_key(plan: Plan, rows: int, size: int = 10_000):
    for start in range(0, rows, size):
        ts = np.arange(start, start + size)
        columns = {"ts": ts, "price": (ts * 7919 % 1000).astype(float)}
        yield pa.record_batch({name: pa.array(columns[sql]) for name, sql in plan.inputs})


@pytest.mark.parametrize(
    "define", ["D AS price < PREV(price), U AS price > PREV(price)", "D AS price < PREV(price), U AS price > AVG(D.price)"]
)
def test_one_giant_key_is_held_only_as_far_as_a_live_match_needs(define):
    plan = plan_of(f"ORDER BY ts MEASURES FIRST(ts) AS a, LAST(ts) AS b PATTERN (S D+ U+) DEFINE {define}")
    engine = engine_for(prepare(plan, next(batches_of_one_key(plan, 1)).schema))
    held, matches = 0, 0
    for batch in batches_of_one_key(plan, 2_000_000):
        matches += sum(t.num_rows for t in engine.push(batch))
        held = max(held, engine.buffer.rows)
    matches += sum(t.num_rows for t in engine.finish())
    assert matches > 100_000
    assert held <= 150_000


def test_the_same_rows_however_the_giant_key_is_cut():
    plan = plan_of("ORDER BY ts MEASURES FIRST(ts) AS a, LAST(ts) AS b PATTERN (S D+ U+) DEFINE D AS price < PREV(price), U AS price > PREV(price)")
    whole = pa.Table.from_batches(batches_of_one_key(plan, 60_000))
    expected = match_table(plan, whole)
    assert expected.num_rows > 3_000
    for chunk in (100, 997, 30_000):
        assert match_table(plan, pa.Table.from_batches(whole.to_batches(max_chunksize=chunk)), chunk).equals(expected)


def test_a_match_longer_than_every_batch():
    plan = plan_of("ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A+)")
    out = pa.concat_tables(match_batches(engine_for(prepare(plan, next(batches_of_one_key(plan, 1)).schema), 5_000), batches_of_one_key(plan, 300_000)))
    assert out.column(0).to_pylist() == [300_000]


CHOICES = "ORDER BY ts MEASURES COUNT(*) AS n PATTERN ((A | B)* C) DEFINE "


def one_key(plan: Plan, rows: int) -> pa.Table:
    return pa.Table.from_batches(batches_of_one_key(plan, rows, rows))


@pytest.mark.parametrize(
    "define",
    [
        "C AS ts < FIRST(A.ts) - ts",
        "A AS MATCH_NUMBER() > 0, C AS ts < FIRST(ts)",
        "A AS CLASSIFIER() = 'A', C AS ts < FIRST(ts)",
        "B AS LAST(CLASSIFIER(), 1) = 'A' OR MATCH_NUMBER() > 0, C AS ts < FIRST(ts)",
        "B AS PREV(CLASSIFIER()) = 'A' OR MATCH_NUMBER() > 0, C AS ts < FIRST(ts)",
    ],
)
def test_a_choice_on_every_row_is_not_tried_in_all_combinations(define):
    plan = plan_of(CHOICES + define)
    columns = {name: pa.array(np.arange(300)) for name, _ in plan.inputs}
    table = pa.table(columns | ({"__letters": pa.array(np.full(300, 255, dtype=np.int16))} if plan.letters else {}))
    engine = engine_for(prepare(plan, table.schema), limits=Limits(max_steps=2_000_000))
    list(match_batches(engine, table.to_batches()))  # no EFFORT_LIMIT: 2 ** 300 combinations are not tried


def test_effort_is_bounded_by_an_error_that_names_the_bound():
    plan = plan_of(CHOICES + "A AS COUNT(DISTINCT A.price) > 0, C AS price < FIRST(price)")
    engine = engine_for(prepare(plan, one_key(plan, 10).schema), limits=Limits(max_steps=10_000))
    with pytest.raises(MatchRuntimeError, match=r"EFFORT_LIMIT.*sparkcep.maxSteps = 10000"):
        list(match_batches(engine, one_key(plan, 40).to_batches()))


def test_state_is_bounded_by_an_error_that_names_the_bound():
    plan = plan_of("ORDER BY ts MEASURES COUNT(*) AS n PATTERN ((A B | B A)* C) DEFINE A AS ts >= FIRST(A.ts), C AS ts < FIRST(A.ts)")
    engine = engine_for(prepare(plan, one_key(plan, 10).schema), limits=Limits(max_state_bytes=500_000))
    with pytest.raises(MatchRuntimeError, match=r"STATE_LIMIT.*sparkcep.maxStateBytes = 500000 .*use a WINDOW, tighter quantifiers, or raise"):
        list(match_batches(engine, one_key(plan, 100_000).to_batches()))


def hopeless(clause: str, rows: int, **limits) -> Engine:
    """The engine behind a search that fails from each start row; every value is near 100."""
    plan = plan_of("ORDER BY ts MEASURES count(*) AS n AFTER MATCH SKIP TO NEXT ROW " + clause)
    values = 100 + np.arange(rows) * 7919 % 50
    columns = {"NULL": pa.array([None] * rows, pa.bool_()), "ts - 100": pa.array(values - 100)}
    table = pa.table({name: columns.get(plainly(sql).replace("(ts)", "ts"), pa.array(values)) for name, sql in plan.inputs})
    engine = engine_for(prepare(plan, table.schema), limits=Limits(**limits))
    assert sum(out.num_rows for out in match_batches(engine, table.to_batches())) == 0
    return engine


@pytest.mark.parametrize("pattern", first(["A Z* B", "A (Z | Y)* B"]))
def test_failed_states_of_all_start_rows_take_no_more_memory_than_those_of_some(pattern):
    sizes = [hopeless(f"PATTERN ({pattern}) DEFINE B AS B.ts < A.ts - 100", rows, max_state_bytes=1 << 24).pipeline.operator.search.search.entries for rows in (1000, 2000)]
    assert sizes[0] == sizes[1]  # the states of 2,000 start rows would take 100 MB


def test_one_start_row_may_have_more_failed_states_than_the_memo_keeps_between_them(monkeypatch):
    monkeypatch.setattr("sparkcep.engine.match.backtrack.MEMO_BYTES", 0)
    monkeypatch.setattr("sparkcep.engine.match.backtrack.MEMO_BYTES_A_ROW", 0)
    engine = hopeless("PATTERN (A ((X | Y)* Z)* B) DEFINE B AS B.ts < A.ts - 100", 300, max_steps=100_000)
    assert engine.pipeline.operator.search.search.entries < 4096


def test_plan_survives_its_json():
    plan = plan_of(
        "PARTITION BY `it's` ORDER BY b DESC NULLS LAST MEASURES FIRST(`x y`) AS `q'\"`, count(*) AS n ALL ROWS PER MATCH "
        "AFTER MATCH SKIP TO LAST B PATTERN (^ A{2,3}? {- B -}$) SUBSET U = (A, B) DEFINE A AS U.x > PREV(x) AND y = 'a''b'"
    )
    text = plan.to_json()
    assert Plan.from_json(text) == plan
    assert not set("'`$") & set(text)


SELECTING = "EVENT SELECTION SKIP TILL {} PATTERN (A B+ C) WINDOW 30 DEFINE A AS price < PREV(price), B AS price > PREV(price), C AS price > AVG(B.price)"


@pytest.mark.parametrize("strategy", ["NEXT MATCH", "NEXT MATCH ALL MATCHES", "ANY MATCH FIRST MATCH"])
def test_a_window_bounds_the_rows_event_selection_holds(strategy):
    plan = plan_of("ORDER BY ts MEASURES FIRST(ts) AS a, LAST(ts) AS b " + SELECTING.format(strategy))
    engine = engine_for(prepare(plan, next(batches_of_one_key(plan, 1)).schema))
    held, matches = 0, 0
    for batch in batches_of_one_key(plan, 400_000):
        matches += sum(t.num_rows for t in engine.push(batch))
        held = max(held, engine.buffer.rows)
    matches += sum(t.num_rows for t in engine.finish())
    assert matches > 10_000
    assert held <= 150_000


@pytest.mark.parametrize("selection", ["", "EVENT SELECTION SKIP TILL NEXT MATCH", "EVENT SELECTION SKIP TILL ANY MATCH"])
def test_within_around_the_whole_pattern_bounds_them_as_a_window_does(selection):
    plan = plan_of(f"ORDER BY ts MEASURES FIRST(ts) AS a {selection} PATTERN (((A B) WITHIN 30) WITHIN 40 ROWS) DEFINE A AS price > PREV(price), B AS price > A.price")
    batches = list(batches_of_one_key(plan, 6_000, 500))
    engine = engine_for(prepare(plan, batches[0].schema), 500)
    held, matches = 0, 0
    for batch in batches:
        matches += sum(t.num_rows for t in engine.push(batch))
        held = max(held, engine.buffer.rows)
    matches += sum(t.num_rows for t in engine.finish())
    assert (matches > 100) == bool(selection)
    assert held < 600


def test_matches_beyond_the_bound_are_an_error():
    plan = plan_of("ORDER BY ts MEASURES COUNT(*) AS n EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B)")
    table = one_key(plan, 2_000)
    engine = engine_for(prepare(plan, table.schema), limits=Limits(max_matches=1_000_000))
    with pytest.raises(MatchRuntimeError, match="maxMatchesPerPartition = 1000000"):
        for _ in match_batches(engine, table.to_batches()):
            pass


def test_the_first_of_very_many_matches_come_at_once():
    plan = plan_of("ORDER BY ts MEASURES FIRST(ts) AS a, LAST(ts) AS b EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B+ C)")
    table = one_key(plan, 50_000)
    first = next(match_batches(engine_for(prepare(plan, table.schema)), table.to_batches()))
    assert first.num_rows >= 1  # of some 2 ** 49998


def test_too_many_sides_of_conjunctions_are_an_error():
    text = "PARTITION BY p ORDER BY id MEASURES count(*) AS n EVENT SELECTION SKIP TILL ANY MATCH PATTERN ({})"
    schema = pa.schema([("__p0", pa.int64()), ("__o0", pa.int64())])
    assert prepare(plan_of(text.format("(A & B) " * 30)), schema).strategy.automaton.sides == 61
    with pytest.raises(ClauseError, match="more than 61 sides"):
        prepare(plan_of(text.format("(A & B) " * 31)), schema)


@pytest.mark.parametrize("t", [pa.timestamp("us"), pa.timestamp("us", "Asia/Tokyo"), pa.duration("us")])
def test_values_beyond_the_calendar_of_python_are_compared(t):
    far = pa.array([1 << 61, 5, None], pa.int64()).cast(t)
    nested = pa.StructArray.from_arrays([pa.ListArray.from_arrays([0, 1, 2, 3], far), pa.array([float("nan"), 1.5, None])], names=["a", "b"])
    assert equal_keys(far) == [1 << 61, 5, None]
    assert equal_keys(nested) == [(("a", (1 << 61,)), ("b", "NaN")), (("a", (5,)), ("b", 1.5)), (("a", (None,)), ("b", None))]
    assert equal_keys(pa.array([3], pa.int32()).cast(pa.date32())) == [3] and equal_keys(pa.array(["x"])) == [b"x"]
    assert said(far[0]) and said(far[2]) == "None"
    assert said(nested[0]) == f"{{'a': [{said(far[0])}], 'b': nan}}" and said(nested[1]) == repr(nested[1].as_py())
    (_, beyond), (_, five) = plain_values(nested)[0][0], plain_values(nested)[1][0]
    assert repr(beyond) and five == (plain(pa.array([5]).cast(t)[0].as_py()),)
    assert pa.types.is_duration(t) or beyond == (1 << 61,)


def test_a_plain_moment_is_that_of_utc():
    late = pa.array([253_402_300_799_000_000])  # the last second of 9999, by UTC
    tokyo, utc = (plain_values(late.cast(pa.timestamp("us", zone))) for zone in ("Asia/Tokyo", "UTC"))
    assert tokyo == utc == [datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)]
