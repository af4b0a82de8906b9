"""`sparkcep.stream.idleTimeout`: a key's rows over a stream are cut into sessions, against the answer over a table in which the
session is a further key.

Rows are cut here by a plain loop over each key's times. The answer over a table is that of a key for each session.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.strategy import strategy_of
from sparkcep.compiler.stream_rules import check_stream, kept, warnings
from sparkcep.engine.core.operator import NOTHING_DUE
from sparkcep.engine.factory import match_table, prepare
from sparkcep.engine.stream.keyed_stream import KeyedStream
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.plan.reach import Reach
from sparkcep.settings import Settings
from tests.property.in_process import drained
from tests.property.stream import statements, streams, top_k
from tests.property.stream import test_stream_changes as revised
from tests.selection import first, one_in
from tests.support.caught import without_catching

WIDE = 1000  # keys of one stream are fewer sessions than that apart
HEAD, NUMBERED, PLAIN, ANY, WINDOW = streams.HEAD, streams.NUMBERED, streams.PLAIN, streams.ANY, streams.WINDOW
WITHOUT_WINDOW = [  # what waits for ever where no session ends
    f"{HEAD} {NUMBERED} PATTERN (A) DEFINE A AS v >= 0 OR v IS NULL",
    f"{HEAD} {NUMBERED}, PREV(v, 2) AS p2, NEXT(v, 2) AS n2 PATTERN (^ A B+) DEFINE B AS v >= 0",
    f"{HEAD} {NUMBERED} ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B*) DEFINE A AS v > 0, B AS v >= PREV(v)",
    f"{HEAD} {PLAIN} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A ~N C) DEFINE A AS v < 2, N AS v = 2, C AS w > 0",
    f"{HEAD} {PLAIN} EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A ~N C+) DEFINE A AS v < 2, N AS v = 2, C AS w > 0",
    f"{HEAD} {PLAIN} AFTER MATCH SKIP PAST LAST ROW {ANY} ALL MATCHES PATTERN (A B C) DEFINE A AS v < 3, C AS w > 0",
    f"{HEAD} LAST(id) AS z, MATCH_COUNT() AS n {ANY} PATTERN (A B+ C) DEFINE A AS v < 2, C AS w > 0",
    f"{HEAD} LAST(id) AS z, MATCH_GRAPH() AS g {ANY} PATTERN (A B+ C) DEFINE A AS v < 3, C AS w > 0",
    f"{HEAD} LAST(id) AS z, MATCH_ERRORS() AS e, NEXT(v) AS x PATTERN (A B C) APPROX 1 DEFINE A AS v < 2, B AS v > A.v, C AS w > A.w",
    f"{HEAD} LAST(id) AS z, MATCH_COUNT() AS n {ANY} PATTERN ((^ A | D) B* C) DEFINE A AS v < 4, B AS v >= 1, C AS w > 0, D AS v = 3",
    f"{HEAD} MATCH_ERRORS() AS e, MATCH_NUMBER() AS n, PREV(v) AS b ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B ~N C) APPROX 1 DEFINE A AS v < 2, B AS v > 2, N AS v = 2, C AS w > A.w",
    f"{HEAD} LAST(id) AS z, MATCH_ERRORS() AS e, CHECKS_LEFT_OUT() AS o PATTERN (A B C) WINDOW INTERVAL '20' MICROSECONDS APPROX 1 BUDGET 1 CHECKS DEFINE A AS v < 2, B AS v > A.v, C AS w > 0",
    f"{HEAD} FIRST(id) AS a, LAST(id) AS z, n AS n, MATCH_NUMBER() AS m {statements.PEAKS}",
    f"{HEAD} CLASSIFIER() AS c, NEXT(v) AS x ALL ROWS PER MATCH WITH UNMATCHED ROWS {statements.PEAKS} {WINDOW}",
]


def idle(plan, timeout: int):
    plan = replace(plan, idle=timeout)
    check_stream(plan)
    return plan


def planned(text: str):
    return without_catching(make_plan(parse_clause(text.replace("ORDER BY id", "ORDER BY id + 0")), settings=Settings(prefilter=False)))


def sessions_of(keys: list[int], times: list[int], timeout: int) -> tuple[list[int], dict[int, int]]:
    """The session of each row, numbered from 0 in its key, and the last time of each key."""
    order = sorted(range(len(keys)), key=lambda i: (keys[i], times[i]))
    found, last, number = [0] * len(keys), {}, {}
    for i in order:
        if keys[i] in last and times[i] - last[keys[i]] >= timeout:
            number[keys[i]] = number.get(keys[i], 0) + 1
        last[keys[i]] = times[i]
        found[i] = number.get(keys[i], 0)
    return found, last


def batch(plan, table: pa.Table, released: np.ndarray, watermark: int | None = None) -> dict[int, list[str]]:
    """The answer over some rows by key, with the session as a part of it; of sessions alone that have ended at a watermark, where
    there is one."""
    rows = table.filter(pa.array(released))
    keys, times = rows.column("__p0").to_pylist(), rows.column("__s0").cast(pa.int64()).to_pylist()
    session, last = sessions_of(keys, times, plan.idle)
    if watermark is not None:
        latest = {key: max(s for k, s in zip(keys, session, strict=True) if k == key) for key in set(keys)}
        ended = [s < latest[k] or last[k] + plan.idle <= watermark + 1 for k, s in zip(keys, session, strict=True)]
        rows, session = rows.filter(pa.array(ended, pa.bool_())), [s for s, done in zip(session, ended, strict=True) if done]
    for name in {"__p0", "p"} & set(rows.column_names):
        column = rows.column(name)
        parted = pa.array([value * WIDE + number for value, number in zip(column.to_pylist(), session, strict=True)], column.type)
        rows = rows.set_column(rows.column_names.index(name), name, parted)
    answer = match_table(replace(plan, idle=0), rows.drop_columns(["__s0", "__s1"]))
    for name in {"__p0", "p"} & set(answer.column_names):
        column = answer.column(name)
        whole = pa.array([value // WIDE for value in column.to_pylist()], column.type)
        answer = answer.set_column(answer.column_names.index(name), name, whole)
    return streams.by_partition(plan, answer)


def answered(*asked) -> dict[int, list[str]] | None:
    """What a table gives; None where that is an error, which a stream of all rows need not meet."""
    try:
        return batch(*asked)
    except MatchRuntimeError:
        return None


def compared(text: str, rng: random.Random, keys: int, longest: int) -> tuple[int, int]:
    """(output rows compared, keys that were cut) of one clause over one stream."""
    plan = idle(planned(text), rng.choice([1, 2, 3, 5, 7, 8]))
    table = streams.timed(plan, streams.rows_of(rng, keys, longest))
    if not table.num_rows:
        return 0, 0
    times, count = np.asarray(table.column("__s0").cast(pa.int64())), 0
    everything = np.ones(table.num_rows, dtype=bool)
    whole = answered(plan, table, everything)
    if whole is None:
        return 0, 0
    states: dict[int, bytes] = {}
    cut = sum(1 for s in sessions_of(table.column("__p0").to_pylist(), times.tolist(), plan.idle)[0] if s)
    for watermark, released, found in streams.streamed(plan, table, rng, rng.choice([0, 2, 5]), to_the_end=True, states=states):
        prefix, done = answered(plan, table, released), batch(plan, table, released, watermark)
        for p, rows in found.items():
            for answer in (whole, *([] if prefix is None else [prefix])):
                between = plan.rows == "unmatched" and (plan.approximate is not None or plan.automaton is not None)  # rows in no match come between the others
                if between or strategy_of(plan).emission.early:
                    assert not Counter(rows) - Counter(answer.get(p, [])), (text, plan.idle, watermark)
                else:
                    assert rows == answer.get(p, [])[: len(rows)], (text, plan.idle, watermark)
        for p, rows in done.items():
            assert not Counter(rows) - Counter(found.get(p, [])), (text, plan.idle, watermark, p)
        count += sum(map(len, found.values()))
    assert not any(states.values()), (text, plan.idle)
    return count, cut


@pytest.mark.parametrize("text", first([*WITHOUT_WINDOW, *statements.CLAUSES, *statements.LAST_ROWS, *statements.AUTOMATA]))
def test_each_kind(text):
    rng, total, cuts = random.Random(text), 0, 0
    for _ in range(5):
        told, cut = compared(text, rng, 5, 16)
        total, cuts = total + told, cuts + cut
    assert total > 5 and cuts > 5


@pytest.mark.parametrize("seed", first(range(8), wider=1))
@pytest.mark.parametrize("kind", one_in(4, statements.KINDS, wider=2))
def test_random_statements(kind, seed):
    make, count, least = statements.KINDS[kind]
    rng, told, cuts = random.Random(f"sessions {kind} {seed}"), 0, 0
    for _ in range(count // 2):
        text = streams.in_time(make(rng))
        try:
            found, cut = compared(text, rng, 5, 8)
        except ClauseError as error:
            assert error.error_class in ("SPARKCEP.STREAM", "SPARKCEP.PATTERN_TOO_COMPLEX", "SPARKCEP.DATATYPE_MISMATCH"), error
            continue
        told, cuts = told + found, cuts + cut
    assert told > least // 4 and cuts > 3


@pytest.mark.parametrize("text", first(sorted(top_k.TOPS, key=lambda text: "FIRST MATCH" not in text)))
def test_the_best_of_windows(text):
    """Where windows are no longer than the time after which a key is idle, no two sessions are in one."""
    rng, ended = random.Random(text), 0
    plan = planned(text)
    if plan.windows[0].kind != "micros":
        with pytest.raises(ClauseError, match="needs a window of time"):
            idle(plan, 9)
        return
    size = int(plan.windows[0].size)
    with pytest.raises(ClauseError, match="shorter than WINDOW"):
        idle(plan, size - 1)
    after = size if strategy_of(plan).emission.late else 0
    least = size
    if after and plan.ranking.overall:
        least = 2 * size
        with pytest.raises(ClauseError, match="shorter than twice WINDOW"):
            idle(plan, least - 1)
    for _ in range(6):
        one = idle(plan, least + rng.choice([0, 0, 1, 2]))
        table = streams.timed(one, streams.rows_of(rng, 5, 14))
        if not table.num_rows:
            continue
        wanted = best_by_session(one, table)
        told = list(top_k.watched(one, table, rng, 2))[-1]
        found = top_k.best(one, told[2])
        times, keys = table.column("__s0").cast(pa.int64()).to_pylist(), table.column("__p0").to_pylist()
        over = {key for key in set(keys) if max(t for t, k in zip(times, keys, strict=True) if k == key) + one.idle <= told[0] + 1}
        for (key, start), best in wanted.items():
            begin = int(start.timestamp() * 1_000_000) if hasattr(start, "timestamp") else start
            if key in over or (begin + size + after <= told[0] + 1 and not Reach.of(one).ahead):
                ended += 1
                assert found.get((key, start)) == best, (text, key, start)
        assert found.keys() <= wanted.keys()
    assert ended > 2


def best_by_session(plan, table: pa.Table) -> dict[tuple, list[tuple]]:
    """The k best of each key and window over a table of which a key's sessions are keys of their own."""
    keys = table.column("__p0").to_pylist()
    session = sessions_of(keys, table.column("__s0").cast(pa.int64()).to_pylist(), plan.idle)[0]
    parted = pa.array([key * WIDE + number for key, number in zip(keys, session, strict=True)], table.column("__p0").type)
    order = np.lexsort((np.arange(table.num_rows), parted.to_numpy()))
    rows = table.set_column(table.column_names.index("__p0"), "__p0", parted).take(pa.array(order))
    answer = match_table(replace(plan, idle=0), rows.drop_columns(["__s0", "__s1"]))
    whole = pa.array([value // WIDE for value in answer.column("__p0").to_pylist()], answer.column("__p0").type)
    return top_k.best(plan, answer.set_column(answer.column_names.index("__p0"), "__p0", whole))


@pytest.mark.parametrize("text", first(WITHOUT_WINDOW))
def test_nothing_is_kept_of_a_key_that_is_idle(text):
    """Counters and rows at which PREV looks go with the session, too."""
    rng = random.Random(text)
    plan = idle(planned(text), 9)
    assert not any("indefinitely" in line for line in kept(plan)) and not any("waits" in line for line in warnings(plan))
    table = streams.timed(plan, streams.rows_of(rng, 9, 16))
    ordered = streams.ordered(prepare(plan, table.drop_columns(["__s0", "__s1"]).schema), (*plan.order[:1], plan.order[0]._replace(name="n")))
    stream = KeyedStream(ordered, table.schema, ["__s0", "__s1"])
    keys = np.unique(np.asarray(table.column("__p0")), return_inverse=True)[1].astype(np.int64)
    count, latest = int(keys.max()) + 1, int(np.asarray(table.column("__s0").cast(pa.int64())).max())
    told, left = drained(stream.advance(table, keys, [b""] * count, latest - 1))
    assert any(left.states) and all(when < NOTHING_DUE for when, state in zip(left.due.tolist(), left.states, strict=True) if state)
    times = np.asarray(table.column("__s0").cast(pa.int64()))
    more, left = drained(stream.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), left.states, latest + 9 - 2))
    ended = [int(times[keys == key].max()) < latest for key in range(count)]
    assert [state == b"" for state in left.states] == ended  # a microsecond before the last session ends
    rest, left = drained(stream.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), left.states, latest + 9 - 1))
    assert left.states == [b""] * count and left.rows == 0
    found = streams.by_partition(plan, pa.concat_tables([*told, *more, *rest]))
    wanted = batch(plan, table, np.ones(table.num_rows, dtype=bool))
    assert {p: sorted(rows) for p, rows in found.items()} == {p: sorted(rows) for p, rows in wanted.items()} and found


# -- REPORT CHANGES -----------------------------------------------------------------------------------------------------


def compared_changes(text: str, rng: random.Random) -> tuple[int, int]:
    """(changes told, sessions beyond the first of their keys) of one clause over one stream."""
    timeout = rng.choice([1, 2, 3, 5])
    plan = idle(planned(text.format(own=revised.OWN, changes="CHANGES IN op REPORT CHANGES")), timeout)
    plain = planned(text.format(own="", changes=""))
    events, marks = revised.events_of(rng, 4, 9, rng.choice([0, 2, 5]))
    if not events:
        return 0, 0
    table, whole = revised.table_of(plan, events), revised.table_of(plain, events)
    names = [name for name, text in plain.outputs if {text, dict(plan.outputs)[name]} <= set(table.column_names) | {leaf.name for leaf in (*plan.leaves, *plain.leaves)}]
    table = table.append_column("__s0", table.column("__o0")).append_column("__s1", pa.array(np.arange(len(events))))
    prepared = streams.ordered(prepare(plan, table.drop_columns(["__s0", "__s1"]).schema), (*plan.order[:1], plan.order[0]._replace(name="n")))
    told, states, due, changes, cuts = Counter(), {}, {}, 0, 0
    gone = {event.retracts: event.batch for event in events if event.retracts >= 0}
    for number, watermark in enumerate(marks):
        stream = KeyedStream(prepared, table.schema, ["__s0", "__s1"])
        tables = revised.advanced(stream, table, events, number, watermark, states, due)
        for leaves in tables:
            for row, change in zip(revised.shown(plan, leaves, names), leaves.column(dict(plan.outputs)["change"]).to_pylist(), strict=True):
                told[row] += 1 if change == "insert" else -1
                changes += 1
        there = [i for i, event in enumerate(events) if event.retracts < 0 and event.batch <= number and gone.get(i, number + 1) > number]
        there.sort(key=lambda i: (events[i].key, events[i].row["id"], i))
        wanted: Counter = Counter()
        session, _ = sessions_of([events[i].key for i in there], [events[i].row["id"] for i in there], timeout)
        for part in sorted(set(zip((events[i].key for i in there), session, strict=True))):
            cuts += part[1] > 0
            rows = [i for i, s in zip(there, session, strict=True) if (events[i].key, s) == part]
            wanted += Counter(revised.shown(plain, match_table(plain, whole.take(pa.array(rows, pa.int64()))), names))
        assert +told == wanted and min(told.values(), default=0) >= 0, (text, timeout, number, watermark)
    return changes, cuts


@pytest.mark.parametrize("text", first(revised.CLAUSES, 1, 4))
def test_changes(text):
    rng = random.Random(text)
    counts = [compared_changes(text, rng) for _ in range(5)]
    assert sum(changes for changes, _ in counts) > 2 and sum(cut for _, cut in counts) > 10


def test_a_key_without_anything_under_way_forgets_the_number_of_its_changes():
    text = revised.CLAUSES[0].format(own=revised.OWN, changes="CHANGES IN op REPORT CHANGES")
    plan = idle(planned(text), 20)
    events = [revised._event(None, 1, at) for at in (3, 4, 5)]
    table = revised.table_of(plan, events)
    table = table.append_column("__s0", table.column("__o0"))
    stream = KeyedStream(prepare(plan, table.drop_columns(["__s0"]).schema), table.schema, ["__s0"])
    tables, left = drained(stream.advance(table, np.zeros(3, dtype=np.int64), [b""], 0))
    assert sum(t.num_rows for t in tables) == 3
    _, left = drained(stream.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), left.states, 5 + 20 - 2))
    assert left.due.tolist() == [5 + 20 - 1] and left.states != [b""]
    _, left = drained(stream.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), left.states, 5 + 20 - 1))
    assert left.states == [b""]
