"""TOP k of sliding windows over a stream: each window is emitted once, when it has ended, with its k best matches."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.engine.core.effort import Limits
from sparkcep.engine.factory import prepare
from sparkcep.engine.stream.keyed_stream import KeyedStream
from sparkcep.errors import ClauseError
from tests.property.in_process import drained
from tests.property.stream.streams import (
    ANY,
    WINDOW,
    batch,
    micro_batches,
    ordered,
    planned,
    rows_of,
    stream_over,
    timed,
)
from tests.property.stream.top_k import NEAR, PAIRS, TOPS, best, compared_best, random_late, random_near, random_top
from tests.selection import first, one_in


@pytest.mark.parametrize("text", one_in(24, TOPS, 9))
def test_the_best_of_windows(text):
    rng = random.Random(text)
    assert sum(compared_best(text, rng) for _ in range(6)) > (20 if "^" not in text else 2)


@pytest.mark.parametrize("seed", first(range(16), wider=2))
@pytest.mark.parametrize("make", [random_top, random_near, random_late])
def test_random_rankings(make, seed):
    rng, total, streams = random.Random(500 + seed), 0, 0
    for _ in range(5):
        text = make(rng)
        try:
            planned(text)
        except ClauseError as error:
            assert error.error_class == "SPARKCEP.APPROX" and make is not random_top, (text, error)
            continue
        streams += 1
        total += compared_best(text, rng)
    assert total > 5 and streams > 1


def test_matches_of_several_keys_that_tie_rank_by_the_places_of_their_rows():
    """Rows of a key are counted on although none is kept: a match at its third row ranks after one at another key's first row."""
    plan = planned(f"{PAIRS} PATTERN (A B) WINDOW INTERVAL '5' MICROSECONDS SLIDE INTERVAL '5' MICROSECONDS PREF MAX (A.v + B.v) TOP 1 OVERALL DEFINE A AS v = 1")
    later = [{"id": i, "v": 1, "w": 0, "s": None} for i in (100, 101)]
    table = timed(plan, {0: [{"id": i, "v": 1, "w": 0, "s": None} for i in (1, 2)] + later, 1: later})
    stream = KeyedStream(ordered(prepare(plan, table.drop_columns(["__s0", "__s1"]).schema), (*plan.order, plan.order[0])), table.schema, ["__s0", "__s1"])
    _, kept = drained(stream.advance(table.slice(0, 2), np.zeros(2, dtype=np.int64), [b"", b""], 50))
    assert kept.rows == 0 and kept.states[0] and not kept.states[1]
    tables, _ = drained(stream.advance(table.slice(2), np.array([0, 0, 1, 1]), kept.states, 200))
    told = pa.concat_tables(tables)
    assert sorted(told.column(plan.ranking.vector).to_pylist()) == [[0, 1], [2, 3]]


@pytest.mark.parametrize("report", ["FIRST MATCH", "ALL MATCHES"])
@pytest.mark.parametrize(("at", "told"), [(9, []), (7, []), (6, [(10, 11)])])
def test_a_negation_before_a_match_looks_at_rows_of_windows_that_were_told(report, at, told):
    """The window that holds the negation's row has ended before the match begins. The row counts if it is in WINDOW of the match's
    last row."""
    plan = planned(f"{NEAR} {ANY} {report} PATTERN (~N A B) {WINDOW} SLIDE INTERVAL '5' MICROSECONDS PREF MAX (sum(v)) TOP 2 DEFINE N AS v = 0, A AS v = 1, B AS v = 2")
    table = timed(plan, {0: [{"id": time, "v": v, "w": 0, "s": None} for time, v in ((at, 0), (10, 1), (11, 2))]})
    stream, states, found = stream_over(plan, table), [b""], []
    for watermark, rows in ((9, table.slice(0, 1)), (12, table.slice(1)), (30, table.slice(0, 0))):
        tables, kept = drained(stream.advance(rows, np.zeros(rows.num_rows, dtype=np.int64), states, watermark))
        states = kept.states
        found += [tuple(row[dict(plan.outputs)[name]] for name in ("a", "z")) for part in tables for row in part.to_pylist()]
    assert found == told and states == [b""]


@pytest.mark.parametrize("score", ["A.v % (B.v + 1)", "A.v + B.v"])
def test_more_matches_in_turn_than_a_search_gives_at_once(score):
    """Of a score that the engine does not know all matches of a window are held until it is known how far the search came."""
    rng = random.Random(score)
    plan = planned(f"{NEAR} {ANY} FIRST MATCH PATTERN (A B) WINDOW INTERVAL '5000' MICROSECONDS SLIDE INTERVAL '4000' MICROSECONDS PREF MAX ({score}) TOP 3 DEFINE A AS v > 0")
    table = timed(plan, {0: [{"id": i, "v": rng.randint(0, 4), "w": 0, "s": None} for i in range(1, 8000)]})
    whole, states, told = best(plan, batch(plan, table, np.ones(table.num_rows, dtype=bool))), [b""], []
    stream = stream_over(plan, table, Limits(max_state_bytes=300_000))  # so few that the search writes over what it gave
    for watermark, rows in ((2500, table.slice(0, 2600)), (7999, table.slice(2600)), (20_000, table.slice(0, 0))):
        tables, kept = drained(stream.advance(rows, np.zeros(rows.num_rows, dtype=np.int64), states, watermark))
        states, told = kept.states, told + tables
    assert best(plan, pa.concat_tables(told)) == whole and len(whole) == 3 and states == [b""]
    assert sum(part.num_rows for part in told) > 1024 or score == "A.v + B.v"


@pytest.mark.parametrize(("later", "told"), [(22, []), (24, [(18, 19)])])
def test_a_match_that_may_go_on_keeps_its_window_from_being_told(later, told):
    """The window of a key has ended, and its match may still grow out of it. A key before it has a window that has not ended."""
    plan = planned(f"{NEAR} {ANY} FIRST MATCH PATTERN (A B+) {WINDOW} SLIDE INTERVAL '5' MICROSECONDS PREF MAX (sum(v)) TOP 1 DEFINE A AS v = 1, B AS v = 2")
    values = {0: [(20, 0), (21, 0), (21, 0)], 1: [(18, 1), (19, 2), (later, 2)]}
    table = timed(plan, {key: [{"id": time, "v": v, "w": 0, "s": None} for time, v in rows] for key, rows in values.items()})
    stream, states, found = stream_over(plan, table), [b"", b""], []
    for watermark, which in ((21, [0, 1, 2, 3, 4]), (later, [5]), (60, [])):
        keys = np.array([int(row > 2) for row in which], dtype=np.int64)
        tables, kept = drained(stream.advance(table.take(pa.array(which, pa.int64())), keys, states, watermark))
        states = kept.states
        found.append([tuple(row[dict(plan.outputs)[name]] for name in ("a", "z")) for part in tables for row in part.to_pylist()])
    assert found[0] == [] and found[1] == told and states == [b"", b""]


@pytest.mark.parametrize(("next", "told"), [(7, []), (8, [(11, 12)])])
@pytest.mark.parametrize("report", ["FIRST MATCH", "ALL MATCHES"])
def test_a_negation_behind_a_match_that_looks_ahead_waits_for_its_rows(report, next, told):
    """WINDOW of the match has ended. Whether the next row is the negated one depends on the row after it."""
    plan = planned(
        f"{NEAR} {ANY} {report} PATTERN (A B ~N) {WINDOW} SLIDE INTERVAL '5' MICROSECONDS PREF MAX (sum(v)) TOP 2 DEFINE A AS v = 1, B AS v = 2, N AS v = 0 AND NEXT(v) = 7"
    )
    table = timed(plan, {0: [{"id": time, "v": v, "w": 0, "s": None} for time, v in ((11, 1), (12, 2), (15, 0), (30, next))]})
    stream, states, found = stream_over(plan, table), [b""], []
    for watermark, rows in ((16, table.slice(0, 3)), (30, table.slice(3)), (60, table.slice(0, 0))):
        tables, kept = drained(stream.advance(rows, np.zeros(rows.num_rows, dtype=np.int64), states, watermark))
        states = kept.states
        found.append([tuple(row[dict(plan.outputs)[name]] for name in ("a", "z")) for part in tables for row in part.to_pylist()])
    assert found == [[], told, []]


def test_matches_in_turn_begin_behind_the_one_before_whatever_rows_are_kept():
    """Rows before the search's position are kept for the negation. No match begins at them."""
    plan = planned(f"{NEAR} {ANY} FIRST MATCH PATTERN (~N A B) {WINDOW} SLIDE INTERVAL '1' MICROSECONDS PREF MAX (sum(v)) TOP 3 DEFINE N AS v = 0")
    table = timed(plan, {0: [{"id": i, "v": 1, "w": 0, "s": None} for i in range(1, 13)]})
    whole, stream, states, told = best(plan, batch(plan, table, np.ones(12, dtype=bool))), stream_over(plan, table), [b""], []
    for watermark in range(1, 30):
        rows = table.slice(watermark - 1, 1)
        tables, kept = drained(stream.advance(rows, np.zeros(rows.num_rows, dtype=np.int64), states, watermark))
        states, told = kept.states, told + tables
    assert best(plan, pa.concat_tables(told)) == whole and len(whole) > 10 and states == [b""]


def test_a_condition_that_fails_at_a_row_that_is_not_a_candidate_fails_no_search():
    """The second row divides by zero, but only a row after the A is asked whether it is the B."""
    plan = planned(f"{NEAR} {ANY} FIRST MATCH PATTERN (A B) {WINDOW} SLIDE INTERVAL '2' MICROSECONDS PREF MAX (B.w) TOP 1 DEFINE A AS v > 3, B AS w / PREV(v) > 1")
    table = timed(plan, {0: [{"id": i + 1, "v": v, "w": w, "s": None} for i, (v, w) in enumerate([(0, 9), (2, 9), (4, 1), (1, 9)])]})
    whole, stream, states, told = best(plan, batch(plan, table, np.ones(4, dtype=bool))), stream_over(plan, table), [b""], []
    for watermark, rows in ((4, table), (30, table.slice(0, 0))):
        tables, kept = drained(stream.advance(rows, np.zeros(rows.num_rows, dtype=np.int64), states, watermark))
        states, told = kept.states, told + tables
    assert best(plan, pa.concat_tables(told)) == whole and len(whole) == 2 and states == [b""]


def test_a_measure_that_looks_ahead_tells_no_window_again():
    """A statement may go on with another measure. NEXT in it lets windows wait longer. Emitted ones are not emitted again."""
    rng, both = random.Random(7), 0
    text = f"{NEAR}, LAST(v) AS x {ANY} ALL MATCHES PATTERN (A B) {WINDOW} SLIDE INTERVAL '2' MICROSECONDS PREF MAX (A.v + B.v) TOP 2 DEFINE A AS v > 0"
    plan, ahead = planned(text), planned(text.replace("LAST(v) AS x", "NEXT(LAST(v), 3) AS x"))
    start = next(leaf.name for leaf in plan.leaves if leaf.spec.kind == "window_start")
    for turn in range(20):
        table = timed(plan, rows_of(rng, 3, 30))
        changes, before, later = rng.randint(3, 8), stream_over(plan, table), stream_over(ahead, table)
        assert timed(ahead, {0: []}).schema == table.schema
        turns, seen = itertools.chain([before] * changes, itertools.repeat(later)), {}
        for number, (_, _, tables) in enumerate(micro_batches(plan, table, rng, 2, next_stream=turns.__next__)):
            for row in (row for part in tables for row in part.to_pylist()):
                assert seen.setdefault((row["__p0"], row[start]), number) == number, turn
        both += len({number < changes for number in seen.values()}) == 2
    assert both > 3


@pytest.mark.parametrize("text", first([text for text in TOPS if "OVERALL" in text], wider=3))
def test_a_statement_without_overall_goes_on_with_the_state_of_one_with_it(text):
    """Each window is ranked by one of the two, and emitted once. The other way round a restart is refused."""
    rng, compared = random.Random(text), [0, 0]
    plans = [planned(text), planned(text.replace(" OVERALL", ""))]
    start = next(leaf.name for leaf in plans[0].leaves if leaf.spec.kind == "window_start")
    for _ in range(10):
        table, changes = timed(plans[0], rows_of(rng, 3, 30)), rng.randint(2, 8)
        wholes = [best(plan, batch(plan, table, np.ones(table.num_rows, dtype=bool))) for plan in plans]
        streams = [stream_over(plan, table) for plan in plans]
        turns, seen = itertools.chain(streams[:1] * changes, itertools.repeat(streams[1])), {}
        for number, (_, _, tables) in enumerate(micro_batches(plans[0], table, rng, 2, next_stream=turns.__next__)):
            later = int(number >= changes)
            for row in (row for part in tables for row in part.to_pylist()):
                assert seen.setdefault((row["__p0"], row[start]), number) == number
                assert later == 0 or all(seen.get((key, row[start]), number) >= changes for key in range(3))
            found = best(plans[later], pa.concat_tables(tables)) if tables else {}
            assert all(wholes[later][group] == some for group, some in found.items())
            compared[later] += len(found)
    assert min(compared) > 20
