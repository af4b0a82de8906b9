"""ARCS FROM over a stream: a table of arcs that is another one at each micro-batch, with bytes between these, against the
definition.

After each micro-batch exactly the matches are told that hold for the rows which are there, by the arcs that came so far.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.compiler.registers.register_code import register_type
from sparkcep.compiler.stream_rules import check_stream
from sparkcep.engine.automaton.arc_history import JournalArcs, Moment, arrived, with_table
from sparkcep.engine.core.operator import NOTHING_DUE
from sparkcep.engine.factory import prepare
from sparkcep.engine.stream.keyed_stream import KeyedStream
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.plan.extend.arcs import ROW, key_column, own_columns, written_column
from sparkcep.plan.records import parameter_column
from tests.oracle import arcs as oracle_arcs
from tests.oracle import automaton as oracle
from tests.property.automaton.test_arcs import WITH_TEXTS, texts_of
from tests.property.in_process import drained
from tests.property.stream.test_stream_changes import OWN, Event, advanced, events_of, planned, shown, table_of
from tests.property.stream.test_stream_expiries import HELD, MEASURES, told_by, wanted
from tests.selection import first, further, slow

KEYS, BATCHES = 3, 9
TURNS = ("insert", "delete", "retract", "punctuate", "vanish")
TEXTS = ("from_state", "to_state", "when", "set", "final")


def random_automaton(rng: random.Random, texts: bool) -> oracle.Automaton:
    while True:
        automaton = oracle.random_automaton(rng)
        found = oracle_arcs.with_templates(rng, automaton, lambda names: oracle.random_condition(rng, names))
        if texts or any(arc.parameters is not None for arc in found.arcs):
            return found


class Table:
    """The table of arcs, and what happens to it from one reading to the next. ``rows``: what it holds; ``events``: all that it
    told, as the definition has it."""

    def __init__(self, rng: random.Random, automaton: oracle.Automaton, explicit: bool, texts: bool) -> None:
        self.rng, self.automaton, self.explicit = rng, automaton, explicit
        self.templates = [arc for arc in automaton.arcs if arc.parameters is not None]
        self.parameters = sorted({name for arc in self.templates for name in arc.parameters})
        self.text = texts_of(rng, automaton) if texts else None
        self.rows: list[dict] = []
        self.events: list[dict] = []

    def changed(self, batch: int, least: int) -> None:
        """What a reading finds; no time before ``least`` may be touched."""
        rng, new = self.rng, []
        inserted = [row for row in self.rows if (row["op"] or "insert") == "insert"]
        for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
            kind = rng.random()
            if inserted and kind < 0.3:
                gone = inserted.pop(rng.randrange(len(inserted)))
                self.rows.remove(gone)
                new.append(dict(gone, op="vanish"))
            elif kind < 0.5 and (standing := [row for row in self._standing() if not any(_same(row, other, ()) for other in new)]):
                ahead = [row for row in standing if row["valid_from"] is not None and row["valid_from"] >= least]
                new.append(self._undone(rng.choice(ahead or standing), least))
            else:
                new.append(self._inserted(least))
        others = [row for row in self.rows if row["op"] in ("delete", "retract")]
        if others and rng.random() < 0.3:  # which says nothing
            self.rows.remove(rng.choice(others))
        new.sort(key=lambda row: TURNS.index((row["op"] or "insert").lower()))
        self.events += [dict(row, at=10 * batch) for row in new]
        self.rows += [row for row in new if row["op"] != "vanish"]
        if rng.random() < 0.3:
            rng.shuffle(self.rows)

    def _standing(self) -> list[dict]:
        """The rows that have brought arcs which no delete has ended."""
        there: list[dict] = []
        for event in self.events:
            op = (event["op"] or "insert").lower()
            if op == "insert":
                there.append(event)
            else:
                alike = [one for one in there if _same(one, event, () if op == "delete" else ("valid_from", "valid_to"))]
                there = [one for one in there if one is not (alike[-1] if alike else None)]
        return there

    def _undone(self, row: dict, least: int) -> dict:
        told = {name: value for name, value in row.items() if name != "at"}
        if row["valid_from"] is not None and row["valid_from"] >= least and self.rng.random() < 0.7:
            return told | {"op": "retract"}
        return told | {"op": "delete", "valid_to": self._time(least) if self.explicit and self.rng.random() < 0.5 else None}

    def _inserted(self, least: int) -> dict:
        rng = self.rng
        begin = self._time(least) if self.explicit and rng.random() < 0.6 else None
        end = None if not self.explicit or rng.random() < 0.5 else (begin if begin is not None else self._time(least)) + rng.randrange(6)
        row = dict.fromkeys((*self.parameters, *TEXTS, "of", "arc")) | {"op": rng.choice(("insert", None)), "valid_from": begin, "valid_to": end, "p": rng.choice((None, None, *range(KEYS)))}
        if self.text is not None and (not self.templates or rng.random() < 0.6):
            row |= self.text()
            declared = {state for arc in self.automaton.arcs for state in (arc.source, arc.target)} | self.automaton.final
            known = any(event["to_state"] == row["to_state"] and event["final"] is not None and event["p"] is None for event in self.events)
            said = None if known and rng.random() < 0.7 else row["to_state"] != "q3"  # what is said once holds from then on
            return row | {"final": row["final"] if row["to_state"] in declared else said}
        arc = rng.choice(self.templates)
        return row | {"arc": arc.name} | {name: rng.choice((None, 0, 1, 2, 3)) for name in arc.parameters}

    def _time(self, least: int) -> int:
        return least + self.rng.choice((0, 0, 1, 2, 4, 7))

    def arrow(self, plan) -> pa.Table:
        """As the operator reads it."""
        arrays = {}
        for name, column in own_columns(plan.arcs.texts).items():
            kind = pa.bool_() if name == "final" else pa.timestamp("us") if name.startswith("valid") else pa.string()
            if (name.startswith("valid") and not self.explicit) or (name == "from_state" and self.text is None):
                kind = pa.null()
            arrays[column] = pa.array([row[name] for row in self.rows], kind)
        for i, parameter in enumerate(plan.automaton.parameters):
            for column, kind in ((parameter_column(i), register_type(parameter)), (written_column(i), pa.int64())):
                arrays[column] = pa.array([row[parameter.name] for row in self.rows], kind)
        arrays[key_column(0)] = pa.array([row["p"] for row in self.rows], pa.int64())
        return pa.table(arrays)


def _same(one: dict, other: dict, more: tuple) -> bool:
    def known(row: dict) -> tuple:
        states = [row[name] and row[name].lower() for name in ("arc", "from_state", "to_state")]
        return (*states, *(row[name] for name in row if name not in ("arc", "from_state", "to_state", "at", "op", "valid_from", "valid_to", "of", "final")))

    return known(one) == known(other) and all(one[name] == other[name] for name in more)


def _whole(table: pa.Table) -> pa.Table:
    """Rows with the columns that texts see."""
    fields = [name for name in ("r_id", "r_v", "r_w", "r_s") if name in table.column_names]
    if not fields:
        return table
    columns = [table.column(name).combine_chunks() for name in fields]
    return table.drop_columns(fields).append_column(ROW, pa.StructArray.from_arrays(columns, names=[name[2:] for name in fields]))


def _through_bytes(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def compared(rng: random.Random, kind: str, texts: bool) -> int:
    """How many rows are told of one automaton over one stream."""
    automaton, held = random_automaton(rng, texts), rng.choice([*HELD])
    changes = f"CHANGES IN op REPORT CHANGES {held}" if kind == "changes" else ""
    names = [*automaton.registers, *sorted({name for arc in automaton.arcs for name, _ in arc.emits})]
    text = oracle.clause(
        automaton, ", ".join([OWN * (kind == "changes") + MEASURES, *(f"{name} AS {name}_" for name in names)]), changes=changes, table=WITH_TEXTS if texts else "ARCS FROM active",
    )
    plan = planned(text.replace(f"WINDOW {automaton.window}", f"WINDOW INTERVAL '{automaton.window}' MICROSECONDS"))
    check_stream(plan)
    events, marks = events_of(rng, KEYS, BATCHES, rng.choice([0, 2, 5]))
    if kind != "changes":
        events = [event for event in events if event.retracts < 0]
    if not events:
        return 0
    gone = {event.retracts: event.batch for event in events if event.retracts >= 0}
    arcs = Table(rng, automaton, rng.random() < 0.6, texts)
    rows = _whole(table_of(plan, events))
    rows = rows.append_column("__s0", rows.column("__o0")).append_column("__s1", pa.array(np.arange(len(events))))
    own = rows.drop_columns(["__s0", "__s1"]).schema
    prepared = prepare(plan, with_table(plan, own, arcs.arrow(plan).schema))
    order = (*prepared.plan.order[:1], prepared.plan.order[0]._replace(name="n"))
    prepared = replace(prepared, strategy=replace(prepared.strategy, plan=replace(prepared.plan, order=order)))
    told, states, due, stream, count = Counter(), {}, {}, None, 0
    journal = before = None
    for batch, watermark in enumerate(marks):
        late, there = marks[batch - 1] if batch else 0, [event for event in events if event.batch < batch]
        largest = max((event.row["id"] for event in there), default=None)
        if batch < BATCHES:
            arcs.changed(batch, -3 if largest is None else late + 1 + int(any(arc.on == oracle.EXPIRY for arc in automaton.arcs)))
        read = arcs.arrow(plan)
        found = arrived(prepared, journal, before, read, Moment(largest, late, watermark))
        again = found is not None and found[1] and kind == "changes"
        if found is not None:
            journal, before, stream = _through_bytes(found[0]), read, None
        if stream is None or rng.random() < 0.3:
            standing = JournalArcs.of(prepared, journal)
            stream = KeyedStream(replace(standing.prepared, input_schema=own), rows.schema, ["__s0", "__s1"], arcs=standing)
        came = [i for i, event in enumerate(events) if event.batch == batch]
        touched = sorted({events[i].key for i in came} | {key for key, when in due.items() if when <= watermark or (again and when < NOTHING_DUE)})
        of = np.array([touched.index(events[i].key) for i in came], dtype=np.int64)
        tables, left = drained(stream.advance(rows.take(pa.array(came, pa.int64())), of, [states.get(key, b"") for key in touched], watermark))
        for key, state, when in zip(touched, left.states, left.due.tolist(), strict=True):
            states[key], due[key] = state, when
        for key, values, row in told_by(plan, [f"{name}_" for name in names], tables):
            values = tuple(value.microsecond if isinstance(value, datetime) else value for value in values)  # EMIT may give the time
            told[key, values] += -1 if row.get("change") == "retract" else 1
            count += 1
        ahead = HELD[held] if kind == "changes" else 0
        every = tuple({"id": event.row["id"], "at": 10 * event.batch + 5} for event in events if event.retracts < 0)
        expected = Counter()
        for key in range(KEYS):
            found_rows = [i for i, e in enumerate(events) if e.key == key and e.retracts < 0 and e.batch <= batch and gone.get(i, batch + 1) > batch and e.row["id"] <= watermark + ahead]
            now = oracle_arcs.Arcs(automaton, tuple(event for event in arcs.events if event["p"] in (None, key)), every).at_the_end()
            answer = wanted(now, [events[i].row for i in sorted(found_rows, key=lambda i: (events[i].row["id"], i))], watermark + 1)
            expected += Counter((key, values) for values in answer)
        assert +told == expected and min(told.values(), default=0) >= 0, (text, held, batch, watermark, arcs.events, [(e.key, e.batch, e.retracts, e.row) for e in events])
    return count


@pytest.mark.parametrize(("kind", "texts"), [further(pytest.param("told once", False)), ("changes", True), slow(pytest.param("told once", True)), slow(pytest.param("changes", False))])
@pytest.mark.parametrize("seed", first(range(12), 0, wider=1))
def test_what_is_told_is_the_answer_by_the_arcs_that_came(seed, kind, texts):
    rng, told, tried = random.Random(f"arcs {seed} {kind} {texts}"), 0, 0
    for _ in range(12):
        try:
            told += compared(rng, kind, texts)
            tried += 1
        except (ClauseError, oracle.OverflowInt, oracle.TooMany) as error:
            classes = ("SPARKCEP.STREAM", "SPARKCEP.AUTOMATON", "SPARKCEP.DATATYPE_MISMATCH", "SPARKCEP.ARITHMETIC_OVERFLOW", "SPARKCEP.CAST_OVERFLOW", "SPARKCEP.ARC_TEXT")
            assert getattr(error, "error_class", classes[0]) in classes, error
    assert told > 20 and tried > 3


def test_a_state_stays_final_when_the_arc_that_said_so_is_gone():
    """What came is dropped once no row can find it, but for what it said of a state."""
    automaton = oracle.Automaton({}, "q0", frozenset({"q1"}), (oracle.Arc("q0", "q1"),), 2, None)
    text = oracle.clause(automaton, "FIRST(id) AS a", table=WITH_TEXTS).replace("WINDOW 2", "WINDOW INTERVAL '2' MICROSECONDS")
    plan = planned(text)
    arcs = Table(random.Random(0), automaton, False, True)
    rows = _whole(table_of(plan, events_of(random.Random(1), 1, 4, 0)[0]))
    prepared = prepare(plan, with_table(plan, rows.schema, arcs.arrow(plan).schema))
    row = dict.fromkeys((*TEXTS, "arc", "op", "valid_from", "valid_to", "p")) | {"from_state": "q0"}
    saying, other, later = row | {"to_state": "new", "final": True}, row | {"to_state": "q1", "when": "v = 1"}, row | {"to_state": "NEW", "when": "v = 2"}
    journal = before = None
    counts = []
    for i, held in enumerate(([saying, other], [], [], [later])):
        arcs.rows = held
        found = arrived(prepared, journal, before, arcs.arrow(plan), Moment(None if i == 0 else 100 * i, 100 * i - 1, 100 * i))
        if found is not None:
            journal, before = found[0], arcs.arrow(plan)
        counts.append(journal.num_rows)
    assert counts == [2, 4, 4, 3]  # that the other one has gone is known with the next change
    found = JournalArcs.of(prepared, journal).prepared.plan.automaton
    assert found.states.index("new") in found.final


def test_a_match_goes_on_by_an_arc_whose_text_comes_later():
    """An arc that is not known yet may leave any state, so the run that has reached a final one is kept."""
    automaton = oracle.Automaton({}, "q0", frozenset({"q1"}), (oracle.Arc("q0", "q1"),), 9, None)
    plan = planned(oracle.clause(automaton, "FIRST(id) AS a, LAST(id) AS z", table=WITH_TEXTS).replace("WINDOW 9", "WINDOW INTERVAL '9' MICROSECONDS"))
    arcs = Table(random.Random(0), automaton, True, True)
    events = [Event(0, batch, -1, {"id": batch + 1, "v": 1, "w": 0, "s": None, "n": None, "op": "insert"}) for batch in range(2)]
    rows = _whole(table_of(plan, events))
    rows = rows.append_column("__s0", rows.column("__o0")).append_column("__s1", pa.array(np.arange(2)))
    own = rows.drop_columns(["__s0", "__s1"]).schema
    prepared = prepare(plan, with_table(plan, own, arcs.arrow(plan).schema))
    row = dict.fromkeys((*TEXTS, "arc", "op", "valid_from", "valid_to", "p")) | {"from_state": "q1", "to_state": "new", "final": True, "valid_from": 2}
    journal = before = None
    state, found = b"", []
    for batch in range(2):
        arcs.rows = [row] * batch
        read = arcs.arrow(plan)
        come = arrived(prepared, journal, before, read, Moment(batch or None, batch, batch + 1))
        journal, before = (come[0] if come is not None else journal), read
        standing = JournalArcs.of(prepared, journal)
        tables, left = drained(_over(plan, standing.prepared, rows, own, standing).advance(rows.slice(batch, 1), np.zeros(1, dtype=np.int64), [state], batch + 1))
        (state,) = left.states
        names = dict(plan.outputs)
        found.append(sorted(pair for part in tables for pair in zip(part.column(names["a"]).cast(pa.int64()).to_pylist(), part.column(names["z"]).cast(pa.int64()).to_pylist(), strict=True)))
    assert found == [[(1, 1)], [(1, 2), (2, 2)]]


@pytest.mark.parametrize(
    "come, again",
    [({}, False), ({"valid_from": 5}, True), ({"valid_from": 20}, False), ({"op": "delete"}, False), ({"op": "delete", "valid_to": 8}, True), ({"op": "retract", "valid_from": 4}, True), ({"final": True}, True)],
)
def test_what_reaches_back_to_rows_that_came(come, again):
    """By such a change keys without new rows are searched."""
    automaton = oracle.Automaton({}, "q0", frozenset({"q1"}), (oracle.Arc("q0", "q1"),), 9, None)
    plan = planned(oracle.clause(automaton, "FIRST(id) AS a", table=WITH_TEXTS).replace("WINDOW 9", "WINDOW INTERVAL '9' MICROSECONDS"))
    arcs = Table(random.Random(0), automaton, True, True)
    rows = _whole(table_of(plan, events_of(random.Random(1), 1, 4, 0)[0]))
    prepared = prepare(plan, with_table(plan, rows.schema, arcs.arrow(plan).schema))
    row = dict.fromkeys((*TEXTS, "arc", "op", "valid_from", "valid_to", "p")) | {"from_state": "q0", "to_state": "new"}
    arcs.rows = [row | {"valid_from": 4}]
    journal, before = arrived(prepared, None, None, arcs.arrow(plan), Moment(None, 0, 0))[0], arcs.arrow(plan)
    arcs.rows = [*arcs.rows, row | come]
    assert arrived(prepared, journal, before, arcs.arrow(plan), Moment(10, 2, 3))[1] is again


def _always(plan, names: list[str]) -> pa.Table:
    """A table of all arcs of these names, for ever."""
    columns = {column: pa.array(names if name == "arc" else [None] * len(names), pa.string() if name in ("arc", "op") else pa.null()) for name, column in own_columns(plan.arcs.texts).items()}
    return pa.table(columns | {key_column(0): pa.nulls(len(names), pa.int64())})


def _over(plan, prepared, rows: pa.Table, own: pa.Schema, arcs: JournalArcs | None) -> KeyedStream:
    order = (*plan.order[:1], plan.order[0]._replace(name="n"))
    prepared = replace(prepared, input_schema=own, strategy=replace(prepared.strategy, plan=replace(prepared.plan, order=order)))
    return KeyedStream(prepared, rows.schema, ["__s0", "__s1"], arcs=arcs)


@pytest.mark.parametrize("seed", first(range(12), 0, wider=1))
def test_arcs_that_are_always_there_are_as_those_of_the_clause(seed):
    """With all that a clause over a stream may have: rows in no match, labels, numbers, sessions, changes."""
    rng, told = random.Random(f"static {seed}"), 0
    for _ in range(15):
        automaton = oracle.random_automaton(rng)
        among = [arc.name for arc in automaton.arcs if arc.name is not None and rng.random() < 0.7]
        if not among:
            continue
        coming = replace(automaton, arcs=tuple(replace(arc, parameters=()) if arc.name in among else arc for arc in automaton.arcs))
        kind, idle = rng.choice(("told once", "changes", "rows")), rng.choice((0, 0, 3, 6))
        changes = f"CHANGES IN op REPORT CHANGES {rng.choice([*HELD])}" if kind == "changes" else ""
        measures = (OWN if kind == "changes" else "MATCH_NUMBER() AS n, ") + "FIRST(id) AS a, LAST(id) AS z, CLASSIFIER() AS c, MATCH_TO() AS t"
        given = "ALL ROWS PER MATCH WITH UNMATCHED ROWS" if kind == "rows" else "ONE ROW PER MATCH"
        events, marks = events_of(rng, KEYS, BATCHES, rng.choice([0, 2, 5]))
        events = [event for event in events if kind == "changes" or event.retracts < 0]
        try:
            streams = []
            for clause, table in ((automaton, ""), (coming, "ARCS FROM active")):
                text = oracle.clause(clause, measures, given, changes=changes, table=table).replace(f"WINDOW {automaton.window}", f"WINDOW INTERVAL '{automaton.window}' MICROSECONDS")
                plan = replace(planned(text), idle=idle)
                check_stream(plan)
                rows = table_of(plan, events)
                rows = rows.append_column("__s0", rows.column("__o0")).append_column("__s1", pa.array(np.arange(len(events))))
                own, arcs = rows.drop_columns(["__s0", "__s1"]).schema, None
                if table:
                    read = _always(plan, among)
                    prepared = prepare(plan, with_table(plan, own, read.schema))
                    arcs = JournalArcs.of(prepared, arrived(prepared, None, None, read, Moment(None, 0, 0))[0])
                    prepared = arcs.prepared
                else:
                    prepared = prepare(plan, own)
                streams.append((plan, rows, _over(plan, prepared, rows, own, arcs), {}, {}))
            for batch, watermark in enumerate(marks):
                tables = [advanced(stream, rows, events, batch, watermark, states, due) for _, rows, stream, states, due in streams]
                static, dynamic = (
                    [row for leaves in some for row in shown(plan, leaves, [name for name, text in plan.outputs if text in leaves.column_names])]
                    for some, (plan, *_) in zip(tables, streams, strict=True)
                )
                assert static == dynamic, (text, batch)
                told += len(static)
        except (ClauseError, MatchRuntimeError) as error:
            classes = ("SPARKCEP.STREAM", "SPARKCEP.AUTOMATON", "SPARKCEP.DATATYPE_MISMATCH", "SPARKCEP.ARITHMETIC_OVERFLOW", "SPARKCEP.CAST_OVERFLOW")
            assert error.error_class in classes, error
    assert told > 50
