"""APPROX over a stream: all matches, the best one of each last row, and rows in no match."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.compiler.output_watermark import passed
from tests.property.in_process import drained
from tests.property.stream.statements import (
    APPROXIMATE,
    compared_clause,
    compared_of_kind,
)
from tests.property.stream.streams import (
    HEAD,
    MS,
    WINDOW,
    planned,
    stream_over,
    timed,
)
from tests.selection import first, further, one_in


@pytest.mark.parametrize("text", one_in(12, APPROXIMATE, 3))
def test_each_clause(text):
    compared_clause(text, 20)


@pytest.mark.parametrize("seed", first(range(16), wider=1))
@pytest.mark.parametrize("kind", [*map(further, ("approximate", "approximate sides")), "ends of approximate matches"])
def test_random_statements(kind, seed):
    compared_of_kind(kind, seed)


def test_what_waits_for_a_later_match_is_not_behind_the_watermark_that_is_passed_on():
    """B at 4 may be a match of its own, whose window ends with the watermark 9; the better one began at 1."""
    plan = planned(f"{HEAD} FIRST(id) AS a, LAST(id) AS z PATTERN (A B ~N) WINDOW INTERVAL '6' MICROSECONDS APPROX 1 DEFINE A AS v = 0, B AS v = 1, N AS v = 2")
    table = timed(plan, {0: [{"id": 1, "v": 0, "w": 0, "s": None}, {"id": 4, "v": 1, "w": 0, "s": None}]})
    stream, states, told = stream_over(plan, table), [b""], []
    for watermark in range(4, 12):
        came = table if watermark == 4 else table.slice(0, 0)
        tables, left = drained(stream.advance(came, np.zeros(came.num_rows, dtype=np.int64), states, watermark))
        states = left.states
        told += [(time, watermark) for part in tables for time in part.column(dict(plan.outputs)["a"]).cast(pa.int64()).to_pylist()]
    assert told == [(1, 6), (1, 9)]
    assert passed(plan).behind == 12 and all(time > watermark - 1 - 12 for time, watermark in told)


COUNTING = ", MATCH_COUNT() AS k"


@pytest.mark.parametrize(("report", "count"), [("ALL MATCHES", ""), *((r, c) for r in ("PROXY MATCHES", "PROXY MATCHES PER ERROR", "MATCH BUNDLES") for c in ("", COUNTING))])
@pytest.mark.parametrize("condition", ["v = 1", "v = 1 AND v > A.v"])
def test_nothing_is_said_of_rows_without_a_time(report, condition, count):
    """Their measures are NULL in each search."""
    bundle = ", BUNDLE_END() AS b" if report == "MATCH BUNDLES" else ""
    measures = f"MATCH_NUMBER() AS n, MATCH_ERRORS() AS e, MISSING() AS m{count}{bundle}"
    plan = planned(f"{HEAD} {measures} ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B C) {WINDOW} APPROX 1 {report} DEFINE A AS v = 0, B AS {condition}")
    table = timed(plan, {0: [{"id": 1, "v": 0, "w": 5, "s": None}]})
    for name in ("__o0", "__s0"):
        table = table.set_column(table.column_names.index(name), name, pa.array([None], pa.timestamp("us")))
    tables, kept = drained(stream_over(plan, table).advance(table, np.zeros(1, dtype=np.int64), [b""], 100 * MS))
    (row,) = (row for part in tables for row in part.to_pylist())
    assert row["w"] == 5 and not row["__matched"] and all(row[name] is None for name, _ in plan.leaves) and kept.states == [b""]
