"""REPORT CHANGES over a stream: rows that come and go in micro-batches, with bytes between them.

Whatever was told so far, less what was taken back, is the answer over the rows that are there, of a clause without CHANGES IN.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.stream_rules import check_stream, kept
from sparkcep.engine.core.operator import NOTHING_DUE
from sparkcep.engine.factory import match_table, prepare
from sparkcep.engine.stream.keyed_stream import KeyedStream
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.settings import Settings
from tests.oracle import automaton as oracle
from tests.oracle import measures
from tests.property.changelog import test_pattern_changes
from tests.property.in_process import drained, inputs
from tests.selection import first
from tests.support.caught import without_catching

HEAD = "PARTITION BY p ORDER BY id MEASURES"
OWN = "CHANGE() AS change, CHANGE_NUMBER() AS change_number,"
IDENTIFIED = "MATCH_ID() AS match_id,"
ALL = "ALL MATCHES"
WINDOW = "WINDOW INTERVAL '5' MICROSECONDS"
SUM = (
    "AUTOMATON (REGISTER n INT = 0, last INT STATE q2 FINAL ARC a FROM q0 TO q1 WHEN v < 3 SET last = v ARC b FROM q1 TO q1 WHEN v >= last SET n = n + 1, last = v "
    "ARC c FROM q1 TO q2 WHEN w > 0)"
)
AROUND = (  # rows before and after a match's own, which do not make it another one
    "AUTOMATON BY ROWS (STATE q3 FINAL ARC FROM q0 TO q0 WHEN w > 0 ARC a FROM q0 TO q1 WHEN v < 3 ARC b FROM q1 TO q2 WHEN v > 0 ARC FROM q1 TO q2 "
    "ARC FROM q2 TO q2 WHEN w < 2 ARC FROM q2 TO q3)"
)
CLAUSES = [
    f"{HEAD} {{own}} FIRST(id) AS a, LAST(id) AS z, n AS n, MATCH_TO() AS t {SUM} {WINDOW} {{changes}}",
    f"{HEAD} {{own}} FIRST(id) AS a, LAST(id) AS z, n AS n {SUM} {{changes}}",
    f"{HEAD} {{own}} CLASSIFIER() AS c, v AS x ALL ROWS PER MATCH {SUM} {WINDOW} {{changes}}",
    f"{HEAD} {{own}} FIRST(id) AS a, LAST(id) AS z, n AS n {SUM} LIFETIME TO id + 4 {{changes}}",
    f"{HEAD} {{own}} FIRST(id) AS a, count(*) AS c EVENT SELECTION STRICT CONTIGUITY {ALL} PATTERN (A B+) {WINDOW} {{changes}} DEFINE B AS v > 1",
    f"{HEAD} {{own}} A.v AS x, LAST(id) AS z, count(*) AS c EVENT SELECTION SKIP TILL NEXT MATCH {ALL} PATTERN (A B+ C) {WINDOW} {{changes}} DEFINE A AS v < 2, B AS v > A.v, C AS w > 0",
    f"{HEAD} {{own}} B.v AS x, LAST(id) AS z, count(*) AS c EVENT SELECTION SKIP TILL ANY MATCH {ALL} PATTERN (A B? C) {WINDOW} {{changes}} DEFINE A AS v < 3, C AS w > 0",
    f"{HEAD} {{own}} CLASSIFIER() AS c, v AS x ALL ROWS PER MATCH EVENT SELECTION SKIP TILL ANY MATCH {ALL} PATTERN (A B C) {WINDOW} {{changes}} DEFINE A AS v < 3, C AS w > 0",
]
BY_ROWS = [
    f"{HEAD} {{own}} FIRST(id) AS a, LAST(id) AS z, MATCH_TO() AS t {AROUND} {WINDOW} {{changes}}",
    f"{HEAD} {{own}} CLASSIFIER() AS c, v AS x ALL ROWS PER MATCH {AROUND} {{changes}}",
]


@dataclass(frozen=True)
class Event:
    """A row of a key that comes or goes in a micro-batch."""

    key: int
    batch: int
    retracts: int  # the number of the event that it takes away, -1 of a row that comes
    row: dict


def _identified(live: dict, known: dict, id: tuple, change: str, match: tuple, row: tuple) -> None:
    """At any time no two matches of a key have one id, and what is taken back is what was told under it. ``live``: output rows
    by id; ``known``: ids of the changes that were seen."""
    assert known.setdefault(match, id) == id  # all rows of one match have it
    if change == "insert":
        assert live.setdefault(id, (match, []))[0] == match
        live[id][1].append(row)
    else:
        live[id][1].remove(row)
        if not live[id][1]:
            del live[id]


def events_of(rng: random.Random, keys: int, batches: int, delay: int) -> tuple[list[Event], list[int]]:
    """Rows that come and go, and the watermark of each micro-batch: none is late, in the one before."""
    found: list[Event] = []
    there: dict[int, int] = {}
    marks, late, latest = [], 0, 0
    for batch in range(batches):
        watermark = latest
        for _ in range(rng.choice([0, 1, 1, 2, 3, 5, 9])):
            old = [number for number in there if found[number].row["id"] > late]
            if old and rng.random() < 0.3:
                number = rng.choice(old)
                number = max(other for other in old if _equal(found[other], found[number]))  # the last that came of those that are equal
                del there[number]
                found.append(Event(found[number].key, batch, number, found[number].row | {"op": rng.choice(["retract", "RETRACT"])}))
                continue
            again = [event for event in found if event.row["id"] > late]
            row = {"id": late + 1 + rng.choice([0, 0, 1, 2, rng.randint(0, delay + 3)]), "v": rng.choice([0, 1, 2, 3, None]), "w": rng.randint(-1, 2), "s": rng.choice(["a", None]), "n": None}
            one = rng.choice(again) if again and rng.random() < 0.1 else None  # one that equals another
            event = Event(one.key if one else rng.randrange(keys), batch, -1, (one.row if one else row) | {"op": rng.choice([None, "insert", "Insert"])})
            if not any(_equal(other, event) for other in found if other.batch == batch and other.retracts >= 0):  # which is taken away would be another
                there[len(found)] = len(found)
                found.append(event)
        marks.append(watermark)
        late = watermark
        latest = max([latest, *(event.row["id"] - delay - 1 for event in found)])
    return found, marks + [latest, latest]


def _equal(one: Event, other: Event) -> bool:
    return one.key == other.key and one.row | {"op": None} == other.row | {"op": None}


def table_of(plan, events: list[Event]) -> pa.Table:
    """The plan's input columns of all events, each in its own row; times are microseconds."""
    whole = {column.name for column in plan.inputs if column.text.startswith("struct(0 AS __all")}
    ranks = {column.name for column in plan.inputs if column.text.startswith("dense_rank()")}
    asked = replace(plan, inputs=tuple(column if column[0] not in whole | ranks else column._replace(text="0") for column in plan.inputs))
    table = inputs(asked, {number: [event.row] for number, event in enumerate(events)})
    for name in ("__p0", "p"):
        if name in table.column_names:
            table = table.set_column(table.column_names.index(name), name, pa.array([event.key for event in events], pa.int64()))
    times = table.column("__o0").cast(pa.timestamp("us"))
    table = table.set_column(table.column_names.index("__o0"), "__o0", times)
    if plan.changes is not None:
        place = table.column_names.index(plan.changes.column)
        table = table.set_column(place, plan.changes.column, table.column(place).cast(pa.string()))
    for name in whole:  # a struct of the row, which Spark makes
        table = table.set_column(table.column_names.index(name), name, pa.array([event.row | {"op": None} for event in events]))
    if plan.automaton is not None and plan.automaton.lifetime:
        ends = table.column(plan.automaton.lifetime).cast(pa.timestamp("us"))
        table = table.set_column(table.column_names.index(plan.automaton.lifetime), plan.automaton.lifetime, ends)
    return table


def planned(text: str):
    return without_catching(make_plan(parse_clause(text.replace("ORDER BY id", "ORDER BY id + 0")), settings=Settings(prefilter=False)))


def shown(plan, leaves: pa.Table, names: list[str]) -> list[tuple]:
    """Output rows by the measures of these names, and the key."""
    outputs = dict(plan.outputs)
    columns = [leaves.column("__p0" if plan.rows == "one" else "p").to_pylist(), *(leaves.column(outputs[name]).to_pylist() for name in names)]
    return [tuple(map(str, row)) for row in zip(*columns, strict=True)]


def advanced(stream: KeyedStream, table: pa.Table, events: list[Event], batch: int, watermark: int, states: dict[int, bytes], due: dict[int, int]) -> list[pa.Table]:
    """What a micro-batch tells: of the keys that have rows in it, and of those that are due. ``states`` and ``due`` by key become
    those behind it."""
    came = [i for i, event in enumerate(events) if event.batch == batch]
    touched = sorted({events[i].key for i in came} | {key for key, when in due.items() if when <= watermark})
    of = np.array([touched.index(events[i].key) for i in came], dtype=np.int64)
    tables, left = drained(stream.advance(table.take(pa.array(came, pa.int64())), of, [states.get(key, b"") for key in touched], watermark))
    for key, state, when in zip(touched, left.states, left.due.tolist(), strict=True):
        states[key], due[key] = state, when
        assert when > watermark
    return tables


def compared(text: str, rng: random.Random, keys: int = 4, batches: int = 9, identified: bool = True) -> tuple[int, int]:
    """(changes emitted, retractions among them) of one clause over one stream.

    ``identified``: now and then with MATCH_ID(), too.
    """
    held = rng.choice(["", "SPECULATE ALL", "SPECULATE NONE", "SPECULATE INTERVAL '2' MICROSECONDS"])
    ahead = {"SPECULATE NONE": 0, "SPECULATE INTERVAL '2' MICROSECONDS": 2}.get(held, 1 << 40)
    own = OWN + rng.choice(["", IDENTIFIED] if identified else [""])
    plan, plain = planned(text.format(own=own, changes=f"CHANGES IN op REPORT CHANGES {held}")), planned(text.format(own="", changes=""))
    check_stream(plan)
    events, marks = events_of(rng, keys, batches, rng.choice([0, 2, 5]))
    if not events:
        return 0, 0
    table, whole = table_of(plan, events), table_of(plain, events)
    net = planned(text.format(own=IDENTIFIED, changes="CHANGES IN op REPORT NET")) if own != OWN else None
    rows_left = table_of(net, events) if net is not None else None
    names = [name for name, text in plain.outputs if {text, dict(plan.outputs)[name]} <= set(table.column_names) | {leaf.name for leaf in (*plan.leaves, *plain.leaves)}]
    number = pa.array(np.arange(len(events)))
    table = table.append_column("__s0", table.column("__o0")).append_column("__s1", number)
    prepared = prepare(plan, table.drop_columns(["__s0", "__s1"]).schema)
    order = (*prepared.plan.order[:1], prepared.plan.order[0]._replace(name="n"))
    prepared = replace(prepared, strategy=replace(prepared.strategy, plan=replace(prepared.plan, order=order)))
    told, states, due, last, stream = Counter(), {}, {}, {}, None
    live: dict[tuple, tuple] = {}
    changes = retractions = 0
    gone = {event.retracts: event.batch for event in events if event.retracts >= 0}
    for batch, watermark in enumerate(marks):
        if stream is None or rng.random() < 0.3:  # another worker, which knows the bytes alone
            stream = KeyedStream(prepared, table.schema, ["__s0", "__s1"])
        tables = advanced(stream, table, events, batch, watermark, states, due)
        both = {"insert": set(), "retract": set()}
        for leaves in tables:
            outputs = dict(plan.outputs)
            ids = leaves.column(outputs["match_id"]).to_pylist() if own != OWN else [None] * leaves.num_rows
            numbers, kinds = (leaves.column(outputs[name]).to_pylist() for name in ("change_number", "change"))
            known: dict[int, tuple] = {}
            for row, change, count, id in zip(shown(plan, leaves, names), kinds, numbers, ids, strict=True):
                told[row] += 1 if change == "insert" else -1
                both[change].add((row, id))
                if id is not None:
                    _identified(live, known, (row[0], id), change, (row[0], count), row)
                assert count - last.get(row[0], 0) in (0, 1)
                last[row[0]] = count
                changes, retractions = changes + 1, retractions + (change == "retract")
        if plan.rows == "one" and len(names) == len(plain.outputs):  # what would be taken back and told again is left out
            assert not both["insert"] & both["retract"]
        there = [i for i, event in enumerate(events) if event.retracts < 0 and event.batch <= batch and gone.get(i, batch + 1) > batch and event.row["id"] <= watermark + ahead]
        there.sort(key=lambda i: (events[i].key, events[i].row["id"], i))
        answer = match_table(plain, whole.take(pa.array(there, pa.int64())))
        assert +told == Counter(shown(plain, answer, names)) and min(told.values(), default=0) >= 0, (text, held, batch, watermark)
        if net is not None:  # over a table the matches have the same ids
            own_ids = shown(net, match_table(net, rows_left.take(pa.array(there, pa.int64()))), [*names, "match_id"])
            assert Counter(own_ids) == Counter((*row, id) for (_, id), (_, rows) in live.items() for row in rows), (text, held, batch, watermark)
    return changes, retractions


@pytest.mark.parametrize("text", first(CLAUSES, wider=2))
def test_what_was_told_is_the_answer_over_the_rows_that_are_there(text):
    rng = random.Random(text)
    counts = [compared(text, rng) for _ in range(10)]
    assert sum(changes for changes, _ in counts) > 5 and sum(gone for _, gone in counts) > 0


@pytest.mark.parametrize("text", first(BY_ROWS, 0, wider=1))
def test_rows_around_a_match_do_not_make_it_another(text):
    """Without MATCH_ID(): matches of equal rows can be complete at different times, and then share it (docs/decisions.md)."""
    rng = random.Random(text)
    counts = [compared(text, rng, identified=False) for _ in range(10)]
    assert sum(changes for changes, _ in counts) > 5 and sum(gone for _, gone in counts) > 0


def random_automaton(rng: random.Random) -> str:
    automaton = oracle.random_automaton(rng)
    while any(arc.on == oracle.EXPIRY for arc in automaton.arcs):  # the watermark has a part in those (test_stream_expiries)
        automaton = oracle.random_automaton(rng)
    text = oracle.clause(automaton, "<own> FIRST(id) AS a, LAST(id) AS z, MATCH_TO() AS t, count(*) AS c", changes="<changes>")
    return templated(text)


def random_pattern(rng: random.Random) -> str:
    text = test_pattern_changes.random_query(rng, rng.choice([measures.ONE_ROW, measures.ONE_ROW, measures.SHOW_EMPTY])).to_sql()
    return templated(text.replace("MEASURES ", "MEASURES <own> ", 1).replace("PATTERN", "<changes>\nPATTERN", 1))


def templated(text: str) -> str:
    text = re.sub(r"\b(WINDOW|WITHIN) (\d+)(?! ROWS)", r"\1 INTERVAL '\2' MICROSECONDS", text)
    return text.replace("{", "{{").replace("}", "}}").replace("<own>", "{own}").replace("<changes>", "{changes}")


@pytest.mark.parametrize("seed", first(range(32), wider=2))
@pytest.mark.parametrize("make", first([random_pattern, random_automaton]))
def test_random_statements(make, seed):
    rng = random.Random(f"{make.__name__} {seed}")
    told = 0
    for _ in range(3):
        text = make(rng)
        try:
            told += compared(text, rng)[0]
        except ClauseError as error:
            assert error.error_class in ("SPARKCEP.STREAM", "SPARKCEP.AUTOMATON", "SPARKCEP.DATATYPE_MISMATCH"), error
    assert told > 2


def _stream_of(text: str, events: list[Event]) -> tuple[KeyedStream, pa.Table]:
    plan = planned(text)
    table = table_of(plan, events)
    table = table.append_column("__s0", table.column("__o0"))
    return KeyedStream(prepare(plan, table.drop_columns(["__s0"]).schema), table.schema, ["__s0"]), table


def _event(op: str | None, v: int, at: int = 3) -> Event:
    return Event(0, 0, -1, {"id": at, "v": v, "w": 1, "s": None, "n": None, "op": op})


SPLIT = CLAUSES[0].format(own="CHANGE() AS change,", changes="CHANGES IN op REPORT CHANGES")


@pytest.mark.parametrize("op, error_class", [("retract", "RETRACTION_WITHOUT_ROW"), ("punctuate", "CHANGE_VALUE"), ("gone", "CHANGE_VALUE")])
def test_changes_that_make_no_sense(op, error_class):
    stream, table = _stream_of(SPLIT, [_event(None, 1), _event(op, 2)])
    with pytest.raises(MatchRuntimeError) as raised:
        drained(stream.advance(table, np.array([0, 0]), [b""], 0))
    assert raised.value.error_class == f"SPARKCEP.{error_class}"


def test_nothing_is_kept_of_a_key_that_is_silent():
    assert not any("indefinitely" in line for line in kept(planned(SPLIT)))
    stream, table = _stream_of(SPLIT, [_event(None, 1, at) for at in (3, 4, 5)])
    tables, left = drained(stream.advance(table, np.zeros(3, dtype=np.int64), [b""], 0))
    told, watermark = sum(t.num_rows for t in tables), 0
    assert told == 3 and left.states != [b""]  # 3 4, 3 4 5 and 4 5
    while left.states != [b""]:
        assert watermark < left.due[0] < NOTHING_DUE
        watermark = int(left.due[0])
        tables, left = drained(stream.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), left.states, watermark))
        assert not tables
    assert watermark >= 5


@pytest.mark.parametrize("text", [CLAUSES[0], CLAUSES[4], CLAUSES[6]])
def test_a_match_that_is_told_again_has_its_id_again(text):
    """Whatever stood before its rows in the meantime."""
    text = text.format(own=OWN + IDENTIFIED, changes="CHANGES IN op REPORT CHANGES")
    events = [_event(None, v, at) for at, v in ((10, 2), (11, 3), (12, 1))] + [_event("retract", 3, 11), _event(None, 0, 4), _event(None, 3, 11)]
    told: list[dict] = []
    states = [b""]
    for came in ([0, 1, 2], [3], [4], [5]):
        stream, table = _stream_of(text, events)
        tables, left = drained(stream.advance(table.take(pa.array(came)), np.zeros(len(came), dtype=np.int64), states, 1))
        states = left.states
        outputs = dict(stream.plan.outputs)
        told += [{name: row[outputs[name]] for name in outputs if outputs[name] in row} for part in tables for row in part.to_pylist()]
    ids: dict[str, set] = {}
    for row in told:
        ids.setdefault(str({name: value for name, value in row.items() if name not in ("change", "change_number", "match_id")}), set()).add(row["match_id"])
    again = [row for row in told if row["change"] == "insert" and row["match_id"] in {other["match_id"] for other in told if other["change"] == "retract"}]
    assert len(again) > 1 and all(len(some) == 1 for some in ids.values())


def test_matches_that_nothing_tells_apart_have_numbers():
    text = CLAUSES[6].format(own=OWN + IDENTIFIED, changes="CHANGES IN op REPORT CHANGES")
    stream, table = _stream_of(text, [_event(None, 1, 3), _event(None, 1, 3), _event(None, 4, 5)])
    tables, _ = drained(stream.advance(table, np.zeros(3, dtype=np.int64), [b""], 1))
    ids = [row[dict(stream.plan.outputs)["match_id"]] for part in tables for row in part.to_pylist()]
    assert len(ids) == len(set(ids)) > 2 and any(id.endswith("-2") for id in ids)


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD} {{own}} LAST(v) AS k EVENT SELECTION SKIP TILL ANY MATCH {ALL} PATTERN (A (B | C)) {WINDOW} {{changes}}",
        f"{HEAD} {{own}} LAST(id) AS k AUTOMATON (REGISTER n INT = 0 STATE q2 FINAL ARC FROM q0 TO q1 SET n = 1 ARC FROM q0 TO q1 SET n = 2 ARC FROM q1 TO q2) {WINDOW} {{changes}}",
    ],
)
def test_what_a_match_is_tells_it_apart(text):
    """Variables of its rows, and registers, though no measure tells them."""
    stream, table = _stream_of(text.format(own=OWN + IDENTIFIED, changes="CHANGES IN op REPORT CHANGES"), [_event(None, 1, 3), _event(None, 4, 5)])
    tables, _ = drained(stream.advance(table, np.zeros(2, dtype=np.int64), [b""], 1))
    ids = [row[dict(stream.plan.outputs)["match_id"]] for part in tables for row in part.to_pylist()]
    assert len(ids) == len(set(ids)) == 2 and not any("-" in id for id in ids)
