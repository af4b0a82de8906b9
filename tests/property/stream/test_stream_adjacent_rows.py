"""Matches of adjacent rows (R010) over a stream, against the answer over the same rows in a table."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.engine.factory import prepare
from sparkcep.engine.stream.keyed_stream import KeyedStream
from tests.property.in_process import drained
from tests.property.stream.statements import (
    ADJACENT_ROWS,
    compared_clause,
    compared_of_kind,
)
from tests.property.stream.streams import (
    HEAD,
    MS,
    NUMBERED,
    PLAIN,
    ordered,
    planned,
    rows_of,
    streamed,
    timed,
)
from tests.selection import first, one_in


@pytest.mark.parametrize("text", one_in(4, ADJACENT_ROWS))
def test_each_clause(text):
    compared_clause(text, 14)


@pytest.mark.parametrize("seed", first(range(16), wider=2))
def test_random_statements(seed):
    compared_of_kind("adjacent rows", seed)


NEIGHBOURS = [
    f"{HEAD} {NUMBERED} PATTERN (A B+) DEFINE B AS v < PREV(v)",
    f"{HEAD} {NUMBERED} PATTERN (A B{{2,3}} C?) DEFINE B AS v >= PREV(v), C AS w > 0",
    f"{HEAD} {PLAIN} AFTER MATCH SKIP TO NEXT ROW PATTERN (A (B | C)* D) DEFINE A AS v < 3, B AS v > 1, C AS w > FIRST(w), D AS w > 1",
    f"{HEAD} {NUMBERED} PATTERN (A B*? C+) DEFINE B AS v > avg(v), C AS w > 0",
]


@pytest.mark.parametrize("text", one_in(4, NEIGHBOURS))
@pytest.mark.parametrize("seed", first(range(6), wider=1))
def test_a_wide_window_tells_no_match_later(text, seed):
    """Adjacent rows wait for the next row, also under WINDOW."""
    told = 0
    for i in range(12):
        draw = random.Random(f"{seed} {i}")
        plan, wide = planned(text), planned(f"{text.partition(' DEFINE')[0]} WINDOW INTERVAL '1' HOUR DEFINE{text.partition(' DEFINE')[2]}")
        table = timed(plan, rows_of(draw, 3, 30))
        if not table.num_rows:
            continue
        at = draw.random()
        bare, windowed = ([found for _, _, found in streamed(p, table, random.Random(at), 2)] for p in (plan, wide))
        for one, other in zip(bare, windowed, strict=True):
            for part, rows in one.items():
                assert other.get(part, [])[: len(rows)] == rows, (text, seed, i)
                told += len(rows)
    assert told > 0


def test_a_match_is_told_with_the_row_that_ends_it():
    """A search that asks for no further row decides at once, though the window of its first row has not ended."""
    text = f"{HEAD} {PLAIN} PATTERN (A B+ C) WINDOW INTERVAL '1' HOUR DEFINE A AS v = 0, B AS v = 1, C AS v = 2"
    plan = planned(text)
    values = [3, 0, 1, 1, 2, 3, 0, 1]
    table = timed(plan, {0: [{"id": i + 1, "v": v, "w": 0, "s": None} for i, v in enumerate(values)]})
    stream = KeyedStream(ordered(prepare(plan, table.drop_columns(["__s0", "__s1"]).schema), (*plan.order, plan.order[0])), table.schema, ["__s0", "__s1"])
    tables, kept = drained(stream.advance(table, np.zeros(8, dtype=np.int64), [b""], 8 * MS))
    assert [row["__l0"] for part in tables for row in part.to_pylist()] == [2]
    assert kept.rows == 2 and kept.due.tolist() == [7 * MS + 3_600_000_000 - 1]
    tables, early = drained(stream.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), kept.states, 7 * MS + 3_600_000_000 - 2))
    assert not tables and early.rows == 2 and early.due.tolist() == kept.due.tolist()  # a microsecond before the window ends
    tables, kept = drained(stream.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), kept.states, 7 * MS + 3_600_000_000 - 1))
    assert not tables and kept.due.tolist() == [8 * MS + 3_600_000_000 - 1] or kept.states == [b""]


@pytest.mark.parametrize("rows, wanted", [("ALL ROWS PER MATCH WITH UNMATCHED ROWS", [(0, False), (2, False), (1, True), (3, True)]), ("ALL ROWS PER MATCH", [(1, True), (3, True)])])
def test_rows_without_a_time_are_in_no_match(rows, wanted):
    """They are emitted at once under WITH UNMATCHED ROWS, and dropped otherwise."""
    plan = planned(f"{HEAD} MATCH_NUMBER() AS n, count(*) AS c {rows} PATTERN (A B) DEFINE A AS v = 0, B AS v = 1")
    table = timed(plan, {0: [{"id": i + 1, "v": v, "w": i, "s": None} for i, v in enumerate([0, 0, 1, 1])]})
    for name in ("__o0", "__s0"):
        times = table.column(name).to_pylist()
        table = table.set_column(table.column_names.index(name), name, pa.array([None, times[1], None, times[3]], pa.timestamp("us")))
    stream = KeyedStream(ordered(prepare(plan, table.drop_columns(["__s0", "__s1"]).schema), (*plan.order, plan.order[0])), table.schema, ["__s0", "__s1"])
    tables, kept = drained(stream.advance(table, np.zeros(4, dtype=np.int64), [b""], 100 * MS))
    found = [(row["w"], row["__l0"] is not None) for part in tables for row in part.to_pylist()]
    assert found == wanted and kept.pending == 0
