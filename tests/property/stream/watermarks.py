"""Checks, for any statement, the watermark that a stream passes on and the rows that it retains."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sparkcep.compiler.output_watermark import passed
from sparkcep.compiler.strategy import strategy_of
from sparkcep.compiler.stream_rules import kept
from sparkcep.engine.core.operator import NOTHING_DUE
from sparkcep.engine.factory import prepare
from sparkcep.engine.stream.keyed_stream import KeyedStream
from tests.property.in_process import drained
from tests.property.stream.streams import (
    MS,
    batch,
    by_partition,
    micro_batches,
    ordered,
    planned,
    rows_of,
    timed,
)


def check_output_watermark(text: str) -> None:
    """Rows that a micro-batch emits have times after the watermark that the clause passed on before. So no operator above calls
    them late."""
    rng, plan = random.Random(text), planned(text)
    if passed(plan).behind is None or not _times(plan):
        assert passed(plan).why or not _times(plan)
        return
    assert sum(told_in_time(text, rng) for _ in range(8)) > 5


def told_in_time(text: str, rng: random.Random) -> int:
    """The same over one stream. How many times were compared; 0 if the clause does not pass a watermark on."""
    plan, before, seen = planned(text), None, 0
    table, behind, times = timed(plan, rows_of(rng, 4, 14)), passed(plan).behind, _times(plan)
    if behind is None or not times or not table.num_rows:
        return 0
    for watermark, _, tables in micro_batches(plan, table, rng, rng.choice([0, 2, 5]), to_the_end=True):
        told = [time for part in tables for name in times for time in part.column(name).to_pylist() if time is not None]
        assert before is None or all(time * MS > before - behind for time in told), (text, before, told)
        seen += len(told) if before is not None else 0
        before = watermark
    return seen


def _times(plan) -> list[str]:
    """The columns of the output that are times of rows of the match."""
    if plan.rows != "one":
        return ["id"]
    texts = dict(plan.inputs)
    return [leaf.name for leaf in plan.leaves if leaf.spec.kind == "nav" and texts.get(leaf.spec.column) == "id" and leaf.spec.mask == -1 and not leaf.spec.physical]


def check_silent_keys(text: str) -> None:
    """Once the watermark is far after a key's rows, its state is empty, unless EXPLAIN says that something is always kept."""
    rng, plan = random.Random(text), planned(text)
    if plan.windows[:1] == () or plan.windows[0].kind != "micros" or any("indefinitely" in line for line in kept(plan)):
        return
    table = timed(plan, rows_of(rng, 8, 14))
    stream = KeyedStream(ordered(prepare(plan, table.drop_columns(["__s0", "__s1"]).schema), (*plan.order[:1], plan.order[0]._replace(name="n"))), table.schema, ["__s0", "__s1"])
    keys, watermark, turns = np.unique(np.asarray(table.column("__p0")), return_inverse=True)[1].astype(np.int64), 3, 0
    told, left = drained(stream.advance(table, keys, [b""] * (int(keys.max()) + 1), watermark))
    while any(left.states):
        assert all(state == b"" or due < NOTHING_DUE for state, due in zip(left.states, left.due.tolist(), strict=True))
        before, watermark, turns = watermark, int(left.due.min()), turns + 1
        assert watermark > before
        due = left.due <= watermark  # a key is searched when it is due
        tables, now = drained(stream.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), [state for state, woken in zip(left.states, due, strict=True) if woken], watermark))
        told += tables
        states, dues = list(left.states), left.due.copy()
        for i, state in zip(np.flatnonzero(due), now.states, strict=True):
            states[i] = state
        dues[due] = now.due
        left = replace(left, column=pa.array(states, pa.large_binary()), due=dues)
    assert turns
    if plan.rows == "unmatched" and (plan.automaton is not None or plan.approximate is not None or strategy_of(plan).emission.early):  # no row is left untold
        found, whole = (by_partition(plan, some) for some in (pa.concat_tables(told), batch(plan, table, np.ones(table.num_rows, dtype=bool))))
        assert {p: sorted(rows) for p, rows in found.items()} == {p: sorted(rows) for p, rows in whole.items()}
