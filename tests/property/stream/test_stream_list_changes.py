"""REPORT CHANGES beside TOP k of sliding windows over a stream: each window's changes are emitted once, as over a table."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.engine.core.operator import NOTHING_DUE
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.errors import ClauseError
from tests.property.in_process import drained
from tests.property.stream.list_changes import Emitted, compared_changes, expected, random_changes, with_changes
from tests.property.stream.streams import ANY, planned, rows_of, stream_over, timed
from tests.property.stream.top_k import TOPS, random_late, random_near, random_top
from tests.selection import first, one_in, slow

LISTED = [text for text in TOPS if "OVERALL" not in text]


@pytest.mark.parametrize("ranks", first([True, False], wider=1))
@pytest.mark.parametrize("text", one_in(24, LISTED, 12))
def test_the_changes_of_lists(text, ranks):
    rng = random.Random(text)
    assert sum(compared_changes(with_changes(text, ranks), rng) for _ in range(6)) > 10


@pytest.mark.parametrize("seed", first(range(36), wider=2))
@pytest.mark.parametrize("make", [random_top, slow(random_near), slow(random_late)])
def test_changes_of_random_rankings(make, seed):
    rng, total, streams = random.Random(900 + seed), 0, 0
    while streams < 3:
        text = random_changes(rng, make)
        try:
            planned(text)
        except ClauseError as error:
            assert make is not random_top, (text, error)
            continue
        streams += 1
        total += compared_changes(text, rng)
    assert total > 0


def over_watermarks(text: str, rows: list[tuple[int, int]], watermarks: list[int]) -> tuple[list[list[tuple]], list[int], list[int]]:
    """(changes of each micro-batch, how many rows are kept after it, when the key is due). ``rows``: (time, v) of one key."""
    plan = planned(text)
    table = timed(plan, {0: [{"id": time, "v": v, "w": 0, "s": None} for time, v in rows]})
    stream, emitted, states, found, kept_rows, dues, before = stream_over(plan, table), Emitted(plan), [b""], [], [], [], -1
    for watermark in watermarks:
        came = table.filter(pa.array([before < time <= watermark for time, _ in rows]))
        tables, kept = drained(stream.advance(came, np.zeros(came.num_rows, dtype=np.int64), states, watermark))
        states, before = kept.states, watermark
        found.append([change[1:4] for change in emitted.of(pa.concat_tables(tables))] if tables else [])
        kept_rows.append(kept.rows)
        dues.append(int(kept.due[0]))
    emitted.database.close()
    return found, kept_rows, dues


ONE = f"PARTITION BY p ORDER BY id MEASURES CHANGE() AS change, FIRST(id) AS a, LAST(id) AS z, WINDOW_END() AS e {ANY} {{}} PATTERN ({{}}) WINDOW INTERVAL '10' MICROSECONDS SLIDE INTERVAL '5' MICROSECONDS PREF MAX (sum(v)) TOP 1 REPORT CHANGES DEFINE A AS v > 0"


@pytest.mark.parametrize("report", ["ALL MATCHES", "FIRST MATCH"])
def test_a_match_is_retracted_by_the_next_window_that_holds_a_row(report):
    """The rows of the last list are kept, however late the next row comes, and the key is not due before."""
    found, kept, dues = over_watermarks(ONE.format(report, "A"), [(11, 1), (500, 0), (600, 2)], [19, 24, 300, 504, 514, 620])
    assert found == [[("insert", 11, 11)], [], [], [("retract", 11, 11)], [], [("insert", 600, 600)]]
    assert kept == [1, 1, 1, 1, 1, 1]
    assert dues == [NOTHING_DUE, NOTHING_DUE, NOTHING_DUE, 509, NOTHING_DUE, NOTHING_DUE]


def test_a_match_across_the_begin_of_the_last_list_is_not_searched_again():
    """FIRST MATCH: no match begins inside the one from 9 to 11, so the list of the window at 10 has that from 12 on."""
    rows = [(9, 1), (11, 1), (12, 1), (14, 1), (26, 1), (27, 1)]
    found, _, _ = over_watermarks(ONE.format("FIRST MATCH", "A A"), rows, [14, 19, 24, 29, 34, 39])
    assert found == [[("insert", 9, 11)], [("retract", 9, 11), ("insert", 12, 14)], [], [("retract", 12, 14), ("insert", 26, 27)], [], []]


@pytest.mark.parametrize("text", one_in(24, LISTED, 12))
def test_a_table_that_comes_in_pieces_has_the_same_changes(text):
    """The window after the last one of a piece is in the next piece."""
    rng, plan = random.Random(text), planned(with_changes(text, True))
    table = timed(plan, rows_of(rng, 3, 60))
    rows, emitted = table.drop_columns(["__s0", "__s1"]), Emitted(plan)
    engine = engine_for(prepare(plan, rows.schema), 4)
    pieces = match_batches(engine, rows.to_batches(max_chunksize=4))
    found = emitted.of(pa.concat_tables([engine.prepared.output_schema.empty_table(), *pieces]))
    emitted.database.close()
    assert sorted(found) == sorted(change for changes in expected(plan, table).values() for change in changes)
