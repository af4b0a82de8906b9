"""MATCH_COUNT() and MATCH_GRAPH() over a stream: one answer for each last row, with ^ and negations at the ends."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.property.in_process import drained
from tests.property.stream.statements import (
    MATCH_COUNTS,
    compared_clause,
    compared_of_kind,
)
from tests.property.stream.streams import (
    ANY,
    HEAD,
    WINDOW,
    batch,
    by_partition,
    planned,
    stream_over,
    timed,
)
from tests.selection import first, one_in


@pytest.mark.parametrize("text", one_in(12, MATCH_COUNTS, 9))
def test_each_clause(text):
    compared_clause(text, 20)


@pytest.mark.parametrize("seed", first(range(16), wider=2))
@pytest.mark.parametrize("kind", ["numbers", "ends of matches"])
def test_random_statements(kind, seed):
    compared_of_kind(kind, seed)


@pytest.mark.parametrize("measures", ["MATCH_GRAPH() AS n", "MATCH_COUNT() AS n"])
@pytest.mark.parametrize(("condition", "last"), [("NEXT(v) IS NULL", 0), ("w = B.w AND NEXT(v) IS NULL", 0), ("coalesce(NEXT(v), 9) = 9", 1)])
def test_a_negated_row_by_rows_to_come_hides_no_match(measures, condition, last):
    """The row after the matches is a negated one while it is the last row. A match that it hides then may count later."""
    plan = planned(f"{HEAD} LAST(id) AS z, {measures} {ANY} ALL MATCHES PATTERN (B A ~M C?) WINDOW 4 ROWS DEFINE A AS v >= 0, M AS {condition}, C AS v > 9")
    table = timed(plan, {0: [{"id": i, "v": 1 if i < 5 else last, "w": 0, "s": None} for i in range(1, 12)]})
    stream, states, told = stream_over(plan, table), [b""], []
    for watermark in range(1, 13):
        rows = table.slice(watermark - 1, 1)
        tables, kept = drained(stream.advance(rows, np.zeros(rows.num_rows, dtype=np.int64), states, watermark))
        states, told = kept.states, told + [str(row) for part in tables for row in part.to_pylist()]
    whole = [str(row) for row in batch(plan, table, np.ones(table.num_rows, dtype=bool)).to_pylist()]
    assert told == whole[: len(told)] and len(told) > 4


@pytest.mark.parametrize(
    ("pattern", "values", "told"),
    [
        # A at 1 and C at 5: the window of A ends with the watermark 5, that of C with 9
        ("A C ~N", {1: 0, 5: 1}, {5: [5]}),
        ("A C ~N", {1: 0, 2: 0, 5: 1}, {6: [5]}),  # of two matches that end there the later one decides when
        ("A C ~N", {1: 0, 5: 1, 6: 1}, {5: [5]}),  # nothing ends at 6
        ("A C ~N", {1: 0, 4: 0, 5: 1, 6: 5}, {8: [5]}),  # A at 4 has a window up to 8
        ("(A C ~N) & B", {1: 0, 3: 3, 5: 1}, {5: [5]}),
        ("(A ~N C) & B", {1: 0, 3: 3, 5: 1}, {5: [5]}),  # it reads only rows of the match
        ("(A ~N C) & B", {2: 0, 3: 3, 5: 1}, {5: [5]}),
        ("(A C ~N) & B", {2: 0, 3: 3, 5: 1}, {6: [5]}),
    ],
)
def test_what_ends_at_a_row_waits_for_the_windows_of_its_matches(pattern, values, told):
    plan = planned(f"{HEAD} LAST(id) AS z, MATCH_COUNT() AS n {ANY} PATTERN ({pattern}) {WINDOW} DEFINE A AS v = 0, C AS v = 1, N AS v = 2{', B AS v = 3' * ('B' in pattern)}")
    table = timed(plan, {0: [{"id": i, "v": v, "w": 0, "s": None} for i, v in values.items()]})
    whole = by_partition(plan, batch(plan, table, np.ones(table.num_rows, dtype=bool)))
    stream, states, found, due = stream_over(plan, table), [b""], {}, 5
    for watermark in range(5, 15):
        came = table if watermark == 5 else table.slice(0, 0)
        tables, left = drained(stream.advance(came, np.zeros(came.num_rows, dtype=np.int64), states, watermark))
        assert due == watermark or not any(part.num_rows for part in tables)
        states, due = left.states, int(left.due[0])
        ends = [time for part in tables for time in part.column(dict(plan.outputs)["z"]).cast(pa.int64()).to_pylist()]
        found |= {watermark: ends} if ends else {}
    assert sum(map(len, found.values())) == len(whole.get(0, [])) and states == [b""]
    assert found == told
