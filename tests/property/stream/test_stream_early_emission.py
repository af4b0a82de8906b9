"""ALL MATCHES that nothing numbers: each match is emitted with its last row, and once."""

from __future__ import annotations

import collections
import itertools
import random
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.compiler.emission import emission_of
from sparkcep.engine.core.effort import Limits
from sparkcep.engine.core.kernel_loop import OutputRoom
from tests.property.in_process import drained
from tests.property.stream.statements import (
    compared_of_kind,
)
from tests.property.stream.streams import (
    ANY,
    HEAD,
    PLAIN,
    WINDOW,
    batch,
    by_partition,
    compared,
    micro_batches,
    planned,
    rows_of,
    stream_over,
    streamed,
    timed,
)
from tests.selection import first, further, one_in


@pytest.mark.parametrize("seed", first(range(16), wider=2))
def test_random_statements(seed):
    compared_of_kind("told at once", seed)


@pytest.mark.parametrize("rows", ["ONE ROW PER MATCH", "ALL ROWS PER MATCH WITH UNMATCHED ROWS"])
@pytest.mark.parametrize("pattern", first(["A ~B C", "A B+ C"]))
def test_what_was_kept_while_all_matches_waited_for_their_windows_is_read(monkeypatch, rows, pattern):
    """A checkpoint may be of a version that emitted ALL MATCHES when WINDOW had ended. Its matches are not emitted again."""
    rng, both = random.Random(f"{rows} {pattern}"), 0
    plan = planned(f"{HEAD} {PLAIN} {rows} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN ({pattern}) {WINDOW} DEFINE A AS v < 3, B AS v > 2, C AS w > 0")
    for turn in range(8):
        table, changes = timed(plan, rows_of(rng, 3, 30)), rng.randint(3, 8)
        with monkeypatch.context() as patched:
            patched.setattr("sparkcep.compiler.strategy.emission_of", lambda *of: replace(emission_of(*of), early=False))
            before = stream_over(plan, table)
        turns, told = itertools.chain([before] * changes, itertools.repeat(stream_over(plan, table))), [before.engine.task.prepared.output_schema.empty_table()]
        for number, (_, released, tables) in enumerate(micro_batches(plan, table, rng, 2, next_stream=turns.__next__)):  # noqa: B007
            told += tables
            both |= (1 if number < changes else 2) if any(part.num_rows for part in tables) else 0
        counted, whole = (by_partition(plan, some) for some in (pa.concat_tables(told), batch(plan, table, released)))
        for p, found in counted.items():
            assert not collections.Counter(found) - collections.Counter(whole[p]), turn
        if plan.rows == "one":
            assert sum(map(len, counted.values())) == sum(map(len, whole.values())), turn
    assert both == 3


@pytest.mark.parametrize("rows", first(["ONE ROW PER MATCH", "ALL ROWS PER MATCH WITH UNMATCHED ROWS"]))
@pytest.mark.parametrize("selection", ["SKIP TILL ANY MATCH", *map(further, ["STRICT CONTIGUITY", "SKIP TILL NEXT MATCH"])])
def test_a_first_row_stays_open_though_the_output_is_full_at_its_match(monkeypatch, rows, selection):
    """The last match that fits begins where a match to come may begin, too."""
    monkeypatch.setattr("sparkcep.engine.match.enumeration.OutputRoom", lambda events, labels, width, **kinds: OutputRoom(1, 1, width, **kinds))
    rng, compared_rows = random.Random(f"{rows} {selection}"), 0
    for pattern in ("A B?", "A B*", "A (A B)?", "A B C?"):
        text = f"{HEAD} {PLAIN} {rows} EVENT SELECTION {selection} ALL MATCHES PATTERN ({pattern}) {WINDOW} DEFINE A AS v < 3"
        text += f", B AS v > 0{', C AS w > A.w' if 'C' in pattern else ''}" if "B" in pattern else ""
        compared_rows += sum(compared(text, rng, 3, 12) for _ in range(3))
    assert compared_rows > 100


@pytest.mark.parametrize("seed", range(2))
def test_a_measure_that_looks_ahead_tells_no_match_again(seed):
    """A statement may go on with another measure. NEXT in it lets matches wait longer. Emitted ones are not emitted again."""
    rng, both = random.Random(f"ahead {seed}"), 0
    text = f"{HEAD} FIRST(id) AS a, LAST(id) AS z, LAST(v) AS x {ANY} ALL MATCHES PATTERN (A C) {WINDOW} DEFINE A AS v < 3, C AS w > 0"
    plans = [planned(text), planned(text.replace("LAST(v) AS x", "NEXT(LAST(v), 2) AS x"))]
    for turn in range(10):
        table, changes, told = timed(plans[0], rows_of(rng, 3, 30)), rng.randint(3, 8), []
        turns = itertools.chain([stream_over(plans[0], table)] * changes, itertools.repeat(stream_over(plans[1], table)))
        for number, (_, _, tables) in enumerate(micro_batches(plans[0], table, rng, 2, next_stream=turns.__next__)):
            rows = [(row["__p0"], str(row["__l0"]), str(row["__l1"])) for part in tables for row in part.to_pylist()]
            both |= (1 if number < changes else 2) if rows else 0
            told += rows
        whole = collections.Counter((row["__p0"], str(row["__l0"]), str(row["__l1"])) for row in batch(plans[0], table, np.ones(table.num_rows, dtype=bool)).to_pylist())
        assert not collections.Counter(told) - whole, turn
    assert both == 3


def test_runs_that_were_told_are_no_effort():
    """Between two rows that may end a match are all runs whose matches were emitted with the first."""
    plan = planned(f"{HEAD} {PLAIN} {ANY} ALL MATCHES PATTERN (A B+ C) WINDOW INTERVAL '90' MICROSECONDS DEFINE A AS v = 0, B AS v = 1, C AS v = 2 AND w > sum(B.w)")
    values = [(0, 0), *[(1, 1)] * 11, (2, 100), (2, 0)]
    table = timed(plan, {0: [{"id": i + 1, "v": v, "w": w, "s": None} for i, (v, w) in enumerate(values)]})
    stream, states, told = stream_over(plan, table, Limits(max_steps=1500)), [b""], []
    for number in range(len(values)):
        tables, kept = drained(stream.advance(table.slice(number, 1), np.zeros(1, dtype=np.int64), states, number + 1))
        states = kept.states
        told.append(sum(part.num_rows for part in tables))
    assert told == [*[0] * 12, 2**11 - 1, 0]


@pytest.mark.parametrize("kind", one_in(2, ["plain", "~", "&", "WITHIN"]))
@pytest.mark.parametrize("seed", first([0, 1, 4, 5], wider=1))
def test_of_many_rows_a_match_is_told_within_a_share_of_window(monkeypatch, kind, seed):
    """Where conditions look at the match, many rows are searched once for each sixteenth of WINDOW: here all are many, and it is a
    fourth."""
    monkeypatch.setattr("sparkcep.engine.match.early_emission.MANY_ROWS", 0)
    monkeypatch.setattr("sparkcep.engine.match.early_emission.SHARE", 4)
    pattern = {"plain": "A B+ C", "~": "A ~N C", "&": "(A B) & C", "WITHIN": "(A B? C) WITHIN INTERVAL '5' MICROSECONDS"}[kind]
    names = {"A": "A AS v < 3", "B": "B AS v > 0", "C": f"C AS w > {'0' if kind == '&' else 'A.w'}", "N": "N AS v = 4"}
    window = "WINDOW INTERVAL '8' MICROSECONDS"
    defines = ", ".join(text for name, text in names.items() if re.search(rf"\b{name}\b", pattern))
    plan = planned(f"{HEAD} {PLAIN} {ANY} ALL MATCHES PATTERN ({pattern}) {window} DEFINE {defines}")
    rng, late, count = random.Random(f"{kind} {seed}"), 0, 0
    for _ in range(8):
        table = timed(plan, rows_of(rng, 3, 30))
        if not table.num_rows:
            continue
        time = np.asarray(table.column("__s0").cast(pa.int64()))
        for watermark, released, found in streamed(plan, table, rng, 2):
            told, whole, before = (
                {p: collections.Counter(rows) for p, rows in some.items()}
                for some in (found, *(by_partition(plan, batch(plan, table, which)) for which in (released, time <= watermark - 2)))
            )
            for p, rows in told.items():
                assert not rows - whole.get(p, collections.Counter()), (kind, watermark)
            for p, rows in before.items():  # a key is searched when it is due
                assert not rows - told.get(p, collections.Counter()), (kind, watermark)
            late += sum((rows - told.get(p, collections.Counter())).total() for p, rows in whole.items())
            count += sum(rows.total() for rows in told.values())
    assert count > 50 and late


def test_a_search_that_is_put_off_is_due_within_a_share_of_window(monkeypatch):
    """A key without a new row is searched again: a tenth of WINDOW after its first row without output."""
    monkeypatch.setattr("sparkcep.engine.match.early_emission.MANY_ROWS", 0)
    monkeypatch.setattr("sparkcep.engine.match.early_emission.SHARE", 10)
    window = "WINDOW INTERVAL '100' MICROSECONDS"
    plan = planned(f"{HEAD} {PLAIN} {ANY} ALL MATCHES PATTERN (A B+ C) {window} DEFINE A AS v < 3, B AS v > 3, C AS w > A.w")
    table = timed(plan, {0: [{"id": i + 1, "v": 3 * (i % 2), "w": 0, "s": None} for i in range(41)]})
    stream, one = stream_over(plan, table), np.zeros(41, dtype=np.int64)
    _, kept = drained(stream.advance(table.slice(0, 40), one[:40], [b""], 40))
    _, kept = drained(stream.advance(table.slice(40, 1), one[:1], kept.states, 41))
    assert kept.due.tolist() == [41 + 10]
    _, kept = drained(stream.advance(table.slice(0, 0), one[:0], kept.states, 51))
    assert kept.due.tolist() == [1 + 100 - 1]
