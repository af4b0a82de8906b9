"""PUNCTUATE BY over a stream, with bytes between micro-batches: what is told is the answer over the rows that are there, whatever
is promised, and the first micro-batch with a row that was promised not to come fails, by a dictionary of the promises.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.compiler.stream_rules import check_stream, kept
from sparkcep.engine.core.operator import NOTHING_DUE
from sparkcep.engine.factory import match_table, prepare
from sparkcep.engine.stream.keyed_stream import KeyedStream, parted
from sparkcep.errors import ClauseError, MatchRuntimeError
from tests.property.in_process import drained
from tests.property.stream.test_stream_changes import CLAUSES, OWN, Event, advanced, events_of, planned, shown, table_of
from tests.selection import first

TEXTS = [CLAUSES[0], CLAUSES[4], CLAUSES[6]]
PROMISING = "CHANGES IN op PUNCTUATE BY {by} REPORT CHANGES {held}"


def promised(events: list[Event], marks: list[int], by: str, rng: random.Random) -> list[Event]:
    """The events with punctuations behind those of each micro-batch; most promise nothing that does not hold."""
    held, found, place = rng.random() < 0.6, [], {}
    for batch in range(len(marks)):
        for i, event in enumerate(events):
            if event.batch == batch:
                place[i] = len(found)
                found.append(replace(event, retracts=place.get(event.retracts, -1)))
        late = marks[batch - 1] if batch else 0
        for _ in range(rng.choice([0, 1, 1, 2])):
            key, value = rng.randrange(3), rng.choice([0, 1, 2, 3] if by == "v" else ["a"])
            later = [event.row["id"] for event in events if event.batch > batch and event.key == key and event.row[by] == value]
            time = min([*later, late + rng.randint(1, 9)]) if held else late + rng.randint(1, 9)
            if time > late:
                found.append(Event(key, batch, -1, {"id": time, "v": None, "w": 0, "s": None, "n": None, by: value, "op": rng.choice(["punctuate", "Punctuate"])}))
    return found


def says(event: Event) -> bool:
    return (event.row["op"] or "").lower() == "punctuate"


def broken(events: list[Event], by: str) -> int:
    """The first micro-batch with a row that was promised not to come; -1 where there is none."""
    promises: dict[tuple, int] = {}
    for batch in range(max(event.batch for event in events) + 1):
        came = [event for event in events if event.batch == batch]
        if any(event.row["id"] < promises.get((event.key, event.row[by]), 0) for event in came if not says(event)):
            return batch
        for event in filter(says, came):
            at = event.key, event.row[by]
            promises[at] = max(promises.get(at, 0), event.row["id"])
    return -1


def compared(text: str, by: str, rng: random.Random) -> tuple[int, bool]:
    """(changes told, whether a promise was broken) of one clause over one stream."""
    held, ahead = rng.choice([("", 1 << 40), ("SPECULATE NONE", 0), ("SPECULATE INTERVAL '2' MICROSECONDS", 2)])
    plan, plain = planned(text.format(own=OWN, changes=PROMISING.format(by=by, held=held))), planned(text.format(own="", changes=""))
    check_stream(plan)
    events, marks = events_of(rng, 3, 8, rng.choice([0, 2, 5]))
    events = promised(events, marks, by, rng)
    if not events:
        return 0, False
    fails = broken(events, by)
    marks = [*marks, marks[-1] + 40]
    table, whole = table_of(plan, events), table_of(plain, events)
    names = [name for name, _ in plain.outputs]
    table = table.append_column("__s0", table.column("__o0")).append_column("__s1", pa.array(np.arange(len(events))))
    prepared = prepare(plan, table.drop_columns(["__s0", "__s1"]).schema)
    order = (*prepared.plan.order[:1], prepared.plan.order[0]._replace(name="n"))
    prepared = replace(prepared, strategy=replace(prepared.strategy, plan=replace(prepared.plan, order=order)))
    gone = {event.retracts: event.batch for event in events if event.retracts >= 0}
    told, states, due, stream, changes = Counter(), {}, {}, None, 0
    for batch, watermark in enumerate(marks):
        if stream is None or rng.random() < 0.5:  # another worker, which knows the bytes alone
            stream = KeyedStream(prepared, table.schema, ["__s0", "__s1"])
        if batch == fails:
            with pytest.raises(MatchRuntimeError) as raised:
                advanced(stream, table, events, batch, watermark, states, due)
            assert raised.value.error_class == "SPARKCEP.LATE_ROW"
            return changes, True
        for leaves in advanced(stream, table, events, batch, watermark, states, due):
            kinds = leaves.column(dict(plan.outputs)["change"]).to_pylist()
            for row, change in zip(shown(plan, leaves, names), kinds, strict=True):
                told[row] += 1 if change == "insert" else -1
                changes += 1
        there = [
            i for i, event in enumerate(events)
            if event.retracts < 0 and not says(event) and event.batch <= batch and gone.get(i, batch + 1) > batch and event.row["id"] <= watermark + ahead
        ]  # fmt: skip
        there.sort(key=lambda i: (events[i].key, events[i].row["id"], i))
        assert +told == Counter(shown(plain, match_table(plain, whole.take(pa.array(there, pa.int64()))), names)), (text, held, batch, watermark)
    without = KeyedStream(prepared, table.schema, ["__s0", "__s1"])
    for key, when in due.items():  # nothing of a promise is left once the watermark has passed it
        assert when == NOTHING_DUE or when > marks[-1]
        if states[key]:
            _, left = drained(without.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), [states[key]], marks[-1]))
            assert without.stage.promises.bytes.read(_promises(left.column))[1].num_rows == 0
    return changes, False


def _promises(states: pa.Array) -> pa.Array:
    return parted(parted(parted(states)[1])[1])[1]


@pytest.mark.parametrize("seed", first(range(16), wider=2))
@pytest.mark.parametrize("by", ["v", "s"])
def test_promises_change_no_answer_and_are_held(by, seed):
    rng, changes, failed, counted = random.Random(f"{by} {seed}"), 0, 0, 0
    for _ in range(3):
        found = compared(rng.choice(TEXTS), by, rng)
        changes, failed, counted = changes + found[0], failed + found[1], counted + 1
    assert changes > 0 and failed < counted


def _row(op: str | None, v: int | None, at: int, key: int = 0) -> Event:
    return Event(key, 0, -1, {"id": at, "v": v, "w": 1, "s": None, "n": None, "op": op})


def _stream(events: list[Event], idle: int = 0) -> tuple[KeyedStream, pa.Table]:
    plan = replace(planned(TEXTS[0].format(own="CHANGE() AS change,", changes=PROMISING.format(by="v", held=""))), idle=idle)
    table = table_of(plan, events)
    table = table.append_column("__s0", table.column("__o0"))
    return KeyedStream(prepare(plan, table.drop_columns(["__s0"]).schema), table.schema, ["__s0"]), table


def _advance(stream: KeyedStream, table: pa.Table, rows: list[int], state: bytes, watermark: int):
    return drained(stream.advance(table.take(pa.array(rows, pa.int64())), np.zeros(len(rows), dtype=np.int64), [state], watermark))[1]


@pytest.mark.parametrize("idle", [0, 2])
def test_a_promise_is_kept_until_the_watermark_has_passed_it(idle):
    """Whatever becomes of the key's sessions."""
    stream, table = _stream([_row("punctuate", 1, 9), _row("punctuate", 1, 5), _row("punctuate", 2, 12), _row(None, 2, 11)], idle)
    left = _advance(stream, table, [0, 1, 2], b"", 1)
    assert left.states[0] and left.due[0] == 11
    left = _advance(stream, table, [], left.states[0], 8)
    assert left.states[0] and left.due[0] == 11
    with pytest.raises(MatchRuntimeError, match="excluded further changes with that value"):
        _advance(stream, table, [3], left.states[0], 8)
    left = _advance(stream, table, [], left.states[0], 11)
    assert left.states == [b""] and left.due[0] == NOTHING_DUE
    assert any("PUNCTUATE BY" in line and "watermark" in line for line in kept(stream.plan))


@pytest.mark.parametrize("op", [None, "retract"])
def test_a_change_that_was_promised_not_to_come(op):
    stream, table = _stream([_row(None, 1, 6), _row("punctuate", 1, 9), _row(op, 1, 6), _row(None, 2, 6), _row(None, 1, 9)])
    left = _advance(stream, table, [0, 1], b"", 1)  # of one micro-batch a punctuation comes behind all rows
    with pytest.raises(MatchRuntimeError, match="the value 1 of PUNCTUATE BY in the partition p = 0") as raised:
        _advance(stream, table, [2], left.states[0], 1)
    assert raised.value.error_class == "SPARKCEP.LATE_ROW"
    assert _advance(stream, table, [3, 4], left.states[0], 1).pending == 3


def test_punctuations_of_all_rows_or_all_keys_say_nothing():
    for event, words in ((_row("punctuate", None, 6), "Give it a value"), (_row("punctuate", 1, 6, None), "Write one for each key")):
        stream, table = _stream([event])
        with pytest.raises(MatchRuntimeError, match=words) as raised:
            _advance(stream, table, [0], b"", 1)
        assert raised.value.error_class == "SPARKCEP.CHANGE_VALUE"


def test_an_order_is_needed_over_a_table_alone():
    planned(TEXTS[0].format(own="CHANGE() AS change,", changes=PROMISING.format(by="v", held="")))
    with pytest.raises(ClauseError, match="Add ARRIVAL BY"):
        planned(TEXTS[0].format(own="", changes="CHANGES IN op PUNCTUATE BY v"))
