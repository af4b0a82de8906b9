"""Runs a clause over a random stream in process: rows in disorder, cut into micro-batches anywhere, with bytes between them.

``compared`` compares the emitted matches with the answer over the same rows in a table. At a watermark they must be the beginning
of the answer over the released rows followed by any future rows. All matches must be there whose windows, and those of all earlier
rows, have ended.
"""

from __future__ import annotations

import collections
import random
import re
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.emission import window_of
from sparkcep.compiler.searches import BUDGETED, BUNDLED, BY_COST, CHEAPEST, COMPUTATIONS, COUNTED, GRAPH, PROXIES
from sparkcep.compiler.strategy import strategy_of
from sparkcep.compiler.stream_rules import check_stream, kept
from sparkcep.engine.core.effort import Limits
from sparkcep.engine.core.operator import NOTHING_DUE
from sparkcep.engine.core.task import Prepared
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.engine.stream.keyed_stream import KeyedStream
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.plan.extend.approx import ALL
from sparkcep.plan.options import MICROS
from sparkcep.plan.reach import Reach
from sparkcep.settings import Settings
from tests.property.in_process import drained, inputs
from tests.support.caught import without_catching

HEAD = "PARTITION BY p ORDER BY id MEASURES"
NUMBERED = "MATCH_NUMBER() AS n, FIRST(id) AS a, LAST(id) AS z, count(*) AS c"
PLAIN = "FIRST(id) AS a, LAST(id) AS z, count(*) AS c"
ANY = "EVENT SELECTION SKIP TILL ANY MATCH"
MS = 1  # microseconds of one step of the order column
_IN_TIME = re.compile(r"\b(WINDOW|WITHIN|SLIDE|UPDATE) (\d+)\b(?! ROWS)")
WINDOW = "WINDOW INTERVAL '5' MICROSECONDS"


def in_time(text: str) -> str:
    """The statement with windows of time instead of numbers."""
    return _IN_TIME.sub(r"\1 INTERVAL '\2' MICROSECONDS", text)


def rows_of(rng: random.Random, keys: int, longest: int) -> dict[int, list[dict]]:
    """Rows of some keys; times may tie, and then a second expression orders them."""
    found = {}
    for p in range(keys):
        time, rows = 1, []  # a stream's first watermark is the epoch
        for _ in range(rng.randint(0, longest)):
            time += rng.choice([0, 1, 1, 1, 2, 7])
            rows.append({"id": time, "v": rng.choice([0, 1, 2, 3, 4, None]), "w": rng.randint(-1, 2), "s": rng.choice(["a", "b", None])})
        found[p] = rows
    return found


SETTINGS = Settings(prefilter=False, budget_clock=("counted", 200, 400))


def planned(text: str):
    plan = without_catching(make_plan(parse_clause(text.replace("ORDER BY id", "ORDER BY id + 0")), settings=SETTINGS))  # one key cuts partitions, and all rows are searched
    check_stream(plan)
    return plan


def timed(plan, rows: dict[int, list[dict]]) -> pa.Table:
    """The plan's input columns, the order column being a timestamp, with each row's time and its number."""
    table = inputs(plan, rows)
    times = pc.multiply(table.column("__o0").cast(pa.int64()), MS).cast(pa.timestamp("us"))
    table = table.set_column(table.column_names.index("__o0"), "__o0", times)
    if plan.automaton is not None and plan.automaton.lifetime:
        ends = pc.multiply(table.column(plan.automaton.lifetime).cast(pa.int64()), MS).cast(pa.timestamp("us"))
        table = table.set_column(table.column_names.index(plan.automaton.lifetime), plan.automaton.lifetime, ends)
    return table.append_column("__s0", times).append_column("__s1", pa.array(np.arange(table.num_rows)))


@lru_cache(maxsize=16)  # each micro-batch is compared with several answers of one plan
def _prepared(plan, schema: pa.Schema) -> Prepared:
    return prepare(plan, schema)


_OTHER_TYPES = (pa.int64(), pa.int16(), pa.float64(), pa.float64(), pa.decimal128(9, 2), pa.decimal128(38, 0))


def of_other_types(plan, table: pa.Table, rng: random.Random) -> pa.Table:
    """The rows with whole numbers of other types, but those made of times. Some floating numbers are NaN or -0.0."""
    for column in plan.inputs:
        if column.name in plan.keys or re.search(r"\bid\b", column.text) or table.schema.field(column.name).type != pa.int64():
            continue
        kind = rng.choice(_OTHER_TYPES)
        values = table.column(column.name).to_pylist()
        if pa.types.is_floating(kind):
            values = [{4: float("nan"), 0: rng.choice([0.0, -0.0])}.get(value, value) for value in values]
            values = [None if value is None else float(value) for value in values]
        if pa.types.is_decimal(kind):
            values = [None if value is None else Decimal(value) for value in values]
        table = table.set_column(table.column_names.index(column.name), column.name, pa.array(values, kind))
    return table


def batch(plan, table: pa.Table, kept: np.ndarray) -> pa.Table:
    """The answer over some of the rows."""
    rows = table.filter(pa.array(kept)).drop_columns(["__s0", "__s1"])
    engine = engine_for(_prepared(plan, rows.schema))
    return pa.concat_tables([engine.prepared.output_schema.empty_table(), *match_batches(engine, rows.to_batches())])


def by_partition(plan, leaves: pa.Table) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for row in leaves.to_pylist():
        found.setdefault(row["__p0" if plan.rows == "one" else "p"], []).append(str(row))
    return found


def streamed(plan, table: pa.Table, rng: random.Random, delay: int, to_the_end: bool = False, states: dict[int, bytes] | None = None):
    """Runs micro-batches over rows in disorder; gives (watermark, released rows, what was reported so far by partition) after
    each. ``to_the_end``, ``states``: see :func:`micro_batches`."""
    found = [prepare(plan, table.drop_columns(["__s0", "__s1"]).schema).output_schema.empty_table()]
    for watermark, released, tables in micro_batches(plan, table, rng, delay, to_the_end=to_the_end, states=states):
        found += tables
        yield watermark, released, by_partition(plan, pa.concat_tables(found))


def stream_over(plan, table: pa.Table, limits: Limits | None = None) -> KeyedStream:
    """A stream of rows as :func:`timed` makes them."""
    return _stream(prepare(plan, table.drop_columns(["__s0", "__s1"]).schema), table, limits)


def _stream(prepared: Prepared, table: pa.Table, limits: Limits | None = None) -> KeyedStream:
    order = prepared.plan.order
    return KeyedStream(ordered(prepared, (*order[:1], order[0]._replace(name="n"))), table.schema, ["__s0", "__s1"], limits)


def micro_batches(plan, table: pa.Table, rng: random.Random, delay: int, history=None, next_stream=None, to_the_end: bool = False, states: dict[int, bytes] | None = None):
    """(watermark, released rows, tables of the output) of each micro-batch over rows in disorder; ``history`` gives the rows of
    the table of USING HISTORY, as of each, and ``next_stream`` the stream that takes its rows. ``to_the_end``: the watermark rises
    after the last row until no key is due. ``states`` is filled with the states of the keys."""
    count = table.num_rows
    time = np.asarray(table.column("__s0").cast(pa.int64()))
    key = np.unique(np.asarray(table.column("__p0")), return_inverse=True)[1]
    arrival = np.argsort(time + np.array([rng.randint(0, delay) for _ in range(count)]) * MS, kind="stable")
    next_stream = next_stream or _workers(plan, table).__next__
    states = {} if states is None else states
    due: dict[int, int] = {}
    watermark, latest, at, idle = 0, 0, 0, 0
    order = np.zeros(0, dtype=np.int64)
    while at < count or idle < 3 or (to_the_end and due):
        size = rng.choice([0, 1, 1, 2, 3, 5, 9, 40])
        batch_rows = arrival[at : at + size]
        at += size
        idle += at >= count
        # what the watermark of the batch before has passed would be late
        assert all(time[row] > watermark for row in batch_rows if watermark)
        woken = {k for k, when in due.items() if when <= latest}
        touched = sorted({int(key[row]) for row in batch_rows} | woken)
        number = {k: i for i, k in enumerate(touched)}
        keys = np.array([number[int(key[row])] for row in batch_rows], dtype=np.int64)
        watermark = latest
        stream = next_stream()
        if history:
            stream.use(history())
        tables, kept = drained(stream.advance(table.take(pa.array(batch_rows, pa.int64())), keys, [states.get(k, b"") for k in touched], watermark))
        for k, state, when in zip(touched, kept.states, kept.due.tolist(), strict=True):
            states[k], due[k] = state, when
            if when == NOTHING_DUE:
                del due[k]
            assert when > watermark
        order = np.concatenate([order, batch_rows])
        latest = max(latest, max((int(time[row]) for row in order), default=0) - delay * MS - 1)
        if to_the_end and due and idle >= 3:
            latest = max(latest, rng.choice([min, max])(due.values()))
            assert (idle := idle + 1) < 1000
        yield watermark, time <= watermark, tables


def _workers(plan, table: pa.Table):
    """The stream of each micro-batch: mostly that of the one before, else another worker's, which knows the bytes alone."""
    rng, stream, prepared = random.Random(table.num_rows), None, prepare(plan, table.drop_columns(["__s0", "__s1"]).schema)
    while True:
        stream = stream if stream and rng.random() < 0.7 else _stream(prepared, table)
        yield stream


def ordered(prepared, order):
    strategy = replace(prepared.strategy, plan=replace(prepared.plan, order=order))
    return replace(prepared, strategy=strategy)


class Answers:
    """The answers over tables of some of the rows; None if that is an error, since a stream of all rows need not raise it."""

    def __init__(self, plan, table: pa.Table) -> None:
        self.plan, self.table = plan, table
        self.known: dict[bytes, pa.Table | None] = {}

    def over(self, which: np.ndarray) -> pa.Table | None:
        rows = which.tobytes()
        if rows not in self.known:
            try:
                self.known[rows] = batch(self.plan, self.table, which)
            except MatchRuntimeError:
                self.known[rows] = None
        return self.known[rows]


def compared(text: str, rng: random.Random, keys: int, longest: int, retyped: bool = False) -> int:
    """Compares one clause over random rows; how many output rows were compared. ``retyped``: columns may have other types."""
    plan = planned(text)
    table = timed(plan, rows_of(rng, keys, longest))
    table = of_other_types(plan, table, rng) if retyped else table
    if not table.num_rows:
        return 0
    time = np.asarray(table.column("__s0").cast(pa.int64()))
    compared = 0
    answers, states = Answers(plan, table), {}
    whole = answers.over(np.ones(table.num_rows, dtype=bool))
    if whole is None:
        return 0
    # rows in no match come between the others, and without numbers all matches under a budget come with their last rows
    budgeted = strategy_of(plan).search == BUDGETED
    unordered = (plan.rows == "unmatched" and (plan.approximate is not None or plan.automaton is not None)) or (budgeted and plan.approximate.report == ALL and not plan.numbered)
    at_once = strategy_of(plan).emission.early  # a match is emitted with its last row, even if others begin before it
    for watermark, released, found in streamed(plan, table, rng, rng.choice([0, 2, 5]), to_the_end=True, states=states):
        prefix, further = (answers.over(rows) for rows in (released, released | (time <= watermark + rng.randint(0, 9) * MS)))
        for answer in (by_partition(plan, one) for one in (prefix, further, whole) if one is not None):
            for p, rows in found.items():
                if unordered or at_once:
                    assert not collections.Counter(rows) - collections.Counter(answer.get(p, [])), (text, watermark)
                else:
                    assert rows == answer.get(p, [])[: len(rows)], (text, watermark)
        if prefix is not None and at_once and not Reach.of(plan).ahead and plan.rows != "unmatched":
            told = {p: sorted(rows) for p, rows in found.items()}
            assert told == {p: sorted(rows) for p, rows in by_partition(plan, prefix).items()}, (text, watermark)
        elif prefix is not None and not at_once:
            for p, rows in ended(plan, prefix, watermark).items():
                assert len(found.get(p, [])) >= rows, (text, watermark, p)
        compared += sum(map(len, found.values()))
    if ends(plan):
        every = by_partition(plan, whole)
        assert {p: sorted(rows) for p, rows in found.items()} == {p: sorted(rows) for p, rows in every.items()}, (text, "in the end")
        assert not any(states.values()) or any("indefinitely" in line for line in kept(plan)), (text, states)
    return compared


def ends(plan) -> bool:
    """Whether everything is emitted once the watermark is far after the last row."""
    return window_of(plan).kind == MICROS and not Reach.of(plan).ahead and not (plan.automaton is not None and plan.automaton.lifetime)


def tried(text: str, rng: random.Random, compare=None) -> int | None:
    """How many output rows were compared, or what else ``compare`` counts; None of a statement that does not stream."""
    text = in_time(text)
    try:
        planned(text)
    except ClauseError as error:
        assert error.error_class in ("SPARKCEP.STREAM", "SPARKCEP.PATTERN_TOO_COMPLEX", "SPARKCEP.BUDGET", "SPARKCEP.APPROX"), error
        return None
    try:
        return compared(text, rng, 5, 8) if compare is None else compare(text, rng)
    except ClauseError as error:  # times are not numbers here, and an automaton may compare both
        assert error.error_class == "SPARKCEP.DATATYPE_MISMATCH", error
        return None


def ended(plan, answer: pa.Table, watermark: int) -> dict[int, int]:
    """How many output rows of each partition belong to matches whose windows have ended, by the times of their first rows. It is
    checked for ONE ROW PER MATCH whose measure ``a`` is that time, if the clause reads only rows of the match."""
    window = next((window for window in plan.windows[:1] if window.kind == "micros"), None)
    strategy = strategy_of(plan)
    if plan.automaton is not None and any(arc.on == "expiry" for arc in plan.automaton.arcs):
        return {}  # of a table they are taken at its end (test_stream_expiries)
    if strategy.search == COMPUTATIONS and plan.rows == "one" and not Reach.of(plan).ahead:
        return {p: len(rows) for p, rows in by_partition(plan, answer).items()}
    if strategy.question in (COUNTED, GRAPH, CHEAPEST, BY_COST) and not Reach.of(plan).ahead and strategy.search != BUDGETED and (plan.rows == "one" or strategy.search != PROXIES):
        return ended_of_last_rows(plan, answer, window, strategy.automaton.negates_behind, watermark)
    if strategy.question == BUNDLED and plan.rows == "one" and window is not None and not Reach.of(plan).ahead:
        last = collections.Counter()
        # under a budget a row is searched when its window has ended, if a negation reads rows after matches
        size = int(window.size) * (2 if strategy.search == BUDGETED and strategy.automaton.negates_behind else 1)
        for p, place in zip(answer.column("__p0").to_pylist(), answer.column(next(dict(plan.outputs)[name] for name in ("z", "b_end") if name in dict(plan.outputs))).cast(pa.int64()).to_pylist(), strict=True):
            last[p] += place * MS + size <= watermark
        return dict(last)
    if strategy.search == BUDGETED and strategy.question != BUNDLED and not plan.numbered and plan.rows == "one" and not Reach.of(plan).ahead:
        return ended_of_last_rows(plan, answer, window, strategy.automaton.negates_behind, watermark)
    # of these the one that completes first is known when its own window has ended, as all rows before its last are there
    leaf = dict(plan.outputs).get("z" if plan.non_overlapping and strategy.automaton.negates_behind else "a")
    if window is None or plan.rows != "one" or leaf not in answer.column_names or Reach.of(plan).ahead:
        return {}
    found: dict[int, int] = {}
    if strategy.search == BUDGETED and strategy.automaton.negates_behind:
        return found
    places = collections.Counter()
    for p, begun in zip(answer.column("__p0").to_pylist(), answer.column(leaf).cast(pa.int64()).to_pylist(), strict=True):
        places[p] += 1  # all matches before it are emitted, too
        if begun is not None and begun * MS + int(window.size) <= watermark + 1:
            found[p] = places[p]
    return found


def ended_of_last_rows(plan, answer: pa.Table, window, negates_behind: bool, watermark: int) -> dict[int, int]:
    """The same of answers for last rows. A negation after the last row waits for the windows of the matches that end there, which
    begin there at the latest; a row in no match for all that end in its window."""
    if plan.rows == "one":
        last = next((dict(plan.outputs)[name] for name in ("z", "last") if name in dict(plan.outputs)), "")
        waits = {last: 1} if negates_behind else {}
        certain = np.zeros(answer.num_rows, dtype=bool)
    else:
        last, certain = "id", np.asarray(answer.column("__matched")) if plan.rows == "unmatched" and not negates_behind else np.zeros(answer.num_rows, dtype=bool)
        waits = {last: 2 if negates_behind else 1} if plan.rows == "unmatched" or negates_behind else {}
    if waits and (window is None or last not in answer.column_names):
        return {}
    if waits:
        certain |= np.asarray(answer.column(last).cast(pa.int64())) * MS + waits[last] * int(window.size) <= watermark + 1
    found: dict[int, int] = collections.Counter()
    for p, known in zip(answer.column("__p0" if plan.rows == "one" else "p").to_pylist(), (certain if waits else ~certain).tolist(), strict=True):
        found[p] += known
    return found
