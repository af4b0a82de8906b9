"""Arcs ON EXPIRY and CONSECUTIVE BY over a stream, with bytes between micro-batches, against all computations over all contiguous
rows: after each micro-batch exactly the matches are told that hold for the rows which are there, with the arcs ON EXPIRY taken that
the watermark has reached.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.compiler.stream_rules import check_stream
from sparkcep.engine.core.operator import NOTHING_DUE
from sparkcep.engine.factory import prepare
from sparkcep.engine.stream.keyed_stream import KeyedStream
from sparkcep.errors import ClauseError, MatchRuntimeError
from tests.oracle import automaton as oracle
from tests.property.in_process import drained
from tests.property.stream import streams
from tests.property.stream.test_stream_changes import OWN, Event, advanced, events_of, planned, table_of
from tests.selection import first, one_in

MEASURES = "FIRST(id) AS a, LAST(id) AS z, MATCH_FROM() AS f, MATCH_TO() AS t"
HELD = {"": 1 << 40, "SPECULATE NONE": 0, "SPECULATE INTERVAL '2' MICROSECONDS": 2}
KINDS = ("told once", "changes", "numbers")


LIFE = ("+", ("name", "id"), ("+", ("lit", 1), ("case", ("is null", ("name", "w")), ("lit", 4), ("*", ("name", "w"), ("name", "w")))))


def random_automaton(rng: random.Random, consecutive: bool) -> oracle.Automaton:
    """One whose lives end, mostly with an arc ON EXPIRY from where it is behind its first row."""
    while True:
        found = oracle.random_automaton(rng)
        if found.window is None and found.lifetime is None:
            continue
        sources = [arc.target for arc in found.arcs if arc.on == oracle.ROW and arc.source == found.start]
        if sources and rng.random() < 0.7:
            more = oracle.Arc(rng.choice(sources), rng.choice(sorted(found.final) or [found.start]), on=oracle.EXPIRY)
            found = replace(found, arcs=(*found.arcs, more), final=found.final | {more.target})
        if rng.random() < 0.3:
            found = replace(found, window=None, lifetime=LIFE)
        if any(arc.on == oracle.EXPIRY for arc in found.arcs) or (consecutive and rng.random() < 0.3):
            return replace(found, consecutive=consecutive)


def statement(automaton: oracle.Automaton, kind: str, held: str) -> str:
    changes = f"CHANGES IN op{' CONSECUTIVE BY n' if automaton.consecutive else ''} REPORT CHANGES {held}" if kind == "changes" else ""
    own = {"changes": OWN, "numbers": "MATCH_NUMBER() AS number,"}.get(kind, "")
    names = [*automaton.registers, *sorted({name for arc in automaton.arcs for name, _ in arc.emits})]
    text = oracle.clause(automaton, ", ".join([f"{own} {MEASURES}", *(f"{name} AS {name}_" for name in names)]), changes=changes)
    return text.replace(f"WINDOW {automaton.window}", f"WINDOW INTERVAL '{automaton.window}' MICROSECONDS")


def told_by(plan, names: list[str], tables: list[pa.Table]) -> list[tuple]:
    """(key, what is told, the row as a whole) of output rows; times as numbers."""
    outputs = dict(plan.outputs)
    rows = []
    for table in tables:
        for at in ("a", "z", "f", "t"):
            place = table.column_names.index(outputs[at])
            table = table.set_column(place, outputs[at], table.column(place).cast(pa.int64()))
        for row in table.to_pylist():
            values = {name: row[text] for name, text in outputs.items() if text in row}
            rows.append((row["__p0"], tuple(values[name] for name in ("a", "z", "f", "t", *names)), values))
    return rows


def wanted(automaton: oracle.Automaton, rows: list[dict], until: int | None) -> list[tuple]:
    found = oracle.matches(replace(automaton, spent=[0]), rows, until)
    return [(a, z, since, to, *registers, *(value for _, value in emits)) for a, z, registers, emits, since, to, _ in found]


def numbered(events: list[Event], rng: random.Random) -> list[Event]:
    """The rows with numbers, by which mostly the next one in time follows."""
    out = []
    for event in events:
        gone = event.retracts
        n = out[gone].row["n"] if gone >= 0 else rng.choice([event.row["id"], event.row["id"], rng.randint(0, 9), None])
        out.append(replace(event, row=event.row | {"n": n}))
    return out


def compared(kind: str, rng: random.Random) -> tuple[int, int]:
    """(rows told, those of arcs ON EXPIRY among them) of one automaton over one stream."""
    automaton, held = random_automaton(rng, kind == "changes" and rng.random() < 0.6), rng.choice([*HELD])
    text = statement(automaton, kind, held)
    plan = planned(text)
    check_stream(plan)
    events, marks = events_of(rng, 3, 8, rng.choice([0, 2, 5]))
    events = numbered(events, rng)
    if kind != "changes":
        kept = [event for event in events if event.retracts < 0]
        seen, events = set(), []
        for event in kept:  # of equal times only the order in which they came is known
            if (event.key, event.row["id"]) not in seen:
                seen.add((event.key, event.row["id"]))
                events.append(event)
    if not events:
        return 0, 0
    marks = [*marks, *(marks[-1] + step for step in (1, 2, 4, 9, 30))]  # times at which nothing comes
    table = table_of(plan, events)
    table = table.append_column("__s0", table.column("__o0")).append_column("__s1", pa.array(np.arange(len(events))))
    prepared = prepare(plan, table.drop_columns(["__s0", "__s1"]).schema)
    order = (*prepared.plan.order[:1], prepared.plan.order[0]._replace(name="n"))
    prepared = replace(prepared, strategy=replace(prepared.strategy, plan=replace(prepared.plan, order=order)))
    names = [f"{name}_" for name in (*automaton.registers, *sorted({name for arc in automaton.arcs for name, _ in arc.emits}))]
    gone = {event.retracts: event.batch for event in events if event.retracts >= 0}
    told, states, due, stream, in_order = Counter(), {}, {}, None, {}
    rows = late = 0
    for batch, watermark in enumerate(marks):
        if stream is None or rng.random() < 0.5:  # another worker, which knows the bytes alone
            stream = KeyedStream(prepared, table.schema, ["__s0", "__s1"])
        tables = advanced(stream, table, events, batch, watermark, states, due)
        for key, match, values in told_by(plan, names, tables):
            gain = 1 if values.get("change", "insert") == "insert" else -1
            told[key, match] += gain
            rows, late = rows + 1, late + (match[2] > match[1])
            if kind == "numbers":
                in_order.setdefault(key, []).append(match)
                assert values["number"] == len(in_order[key])
        ahead = HELD[held] if kind == "changes" else 0
        for key in range(3):
            there = [
                (event.row["id"], i) for i, event in enumerate(events)
                if event.key == key and event.retracts < 0 and event.batch <= batch and gone.get(i, batch + 1) > batch and event.row["id"] <= watermark + ahead
            ]  # fmt: skip
            answer = wanted(automaton, [events[i].row for _, i in sorted(there)], watermark + 1)
            mine = Counter({match: count for (of_key, match), count in told.items() if of_key == key and count})
            if kind == "numbers":  # a match has its number when all before it have theirs
                some = in_order.get(key, [])
                assert some == wanted(automaton, [events[i].row for _, i in sorted(there)], None)[: len(some)], (text, watermark)
                assert all(count > 0 for count in (Counter(answer) - mine).values()) and not mine - Counter(answer), (text, watermark)
                whole = [event.row for event in events if event.key == key and event.row["id"] <= watermark]
                last = max((row["id"] for row in whole), default=0)
                assert not [match for match in (Counter(answer) - mine) if match[1] < last], (text, watermark)
            else:
                assert mine == Counter(answer), (text, held, batch, watermark, key)
    if kind == "numbers":
        assert all(in_order.get(key, []) == wanted(automaton, sorted((e.row for e in events if e.key == key), key=lambda row: row["id"]), marks[-1] + 1) for key in range(3))
    if kind != "changes" and automaton.window is not None:
        assert all(state == b"" for key, state in states.items()) or kind == "numbers"
        assert all(when == NOTHING_DUE for when in due.values())
    return rows, late


@pytest.mark.parametrize("seed", first(range(12), wider=1))
@pytest.mark.parametrize("kind", one_in(3, KINDS))
def test_what_is_told_holds_for_the_rows_that_are_there(kind, seed):
    rng, told, late, tried = random.Random(f"{kind} {seed}"), 0, 0, 0
    while tried < 6:
        try:
            found = compared(kind, rng)
        except (ClauseError, oracle.OverflowInt, oracle.TooMany) as error:  # times are no numbers here, and an automaton may compare both
            assert not isinstance(error, ClauseError) or error.error_class == "SPARKCEP.DATATYPE_MISMATCH", error
            continue
        tried, told, late = tried + 1, told + found[0], late + found[1]
    assert told > 12 and late > 2


@pytest.mark.parametrize("seed", first(range(8), wider=1))
def test_rows_in_no_match_are_told_once_all_lives_have_ended(seed):
    """Far behind the last row all is told that a table tells, whether arcs ON EXPIRY were taken before or not."""
    rng, compared, told = random.Random(f"unmatched {seed}"), 0, 0
    while compared < 6:
        number = rng.choice(["", "MATCH_NUMBER() AS n,"])
        text = oracle.clause(random_automaton(rng, False), f"FIRST(id) AS a, LAST(id) AS z, {number} MATCH_TO() AS t", "ALL ROWS PER MATCH WITH UNMATCHED ROWS")
        plan = planned(streams.in_time(text))
        table = streams.timed(plan, streams.rows_of(rng, 4, 9))
        time, key = np.asarray(table.column("__s0").cast(pa.int64())), np.asarray(table.column("__p0").cast(pa.int64()))
        if not len(time):
            continue
        try:
            wanted = streams.by_partition(plan, streams.batch(plan, table, np.ones(len(time), dtype=bool)))
        except (ClauseError, MatchRuntimeError):  # times are no numbers here, or a number is too large
            continue
        order = (*plan.order[:1], plan.order[0]._replace(name="n"))
        stream = KeyedStream(streams.ordered(prepare(plan, table.drop_columns(["__s0", "__s1"]).schema), order), table.schema, ["__s0", "__s1"])
        states, watermark, found = [b""] * 4, -1, []
        while watermark < time.max() + 200:
            until = watermark + rng.choice([1, 2, 3, 5, 50])
            came = np.flatnonzero((time > watermark) & (time <= until))
            tables, left = drained(stream.advance(table.take(pa.array(came)), key[came], states, until))
            found, states, watermark = found + tables, left.states, until
        got = streams.by_partition(plan, pa.concat_tables([stream.engine.task.prepared.output_schema.empty_table(), *found]))
        assert {p: Counter(rows) for p, rows in got.items()} == {p: Counter(rows) for p, rows in wanted.items()}, text
        compared, told = compared + 1, told + sum(map(len, wanted.values()))
    assert told > 50
