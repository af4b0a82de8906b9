"""A worker's part of a micro-batch: searches rows and returns states. Also reads the tables of a micro-batch.

Workers call :func:`stream_batches`, the JVM operator :func:`arrived` and :func:`check_history` through
``spark/session/rewrite_service``.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.sql.types import StructType

from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.plan import Plan
from sparkcep.spark.stream.start_checks import ARCS, HISTORY, TABLES

if TYPE_CHECKING:
    import numpy as np

    from sparkcep.engine.stream.keyed_stream import KeyedStream

_OWN = 2  # columns before those of the rows: number of the key, state
_EXTRA_COLUMNS = 3  # columns after those of matches: number of the key, state, and its timer
_PIECE, _LARGEST = 1 << 28, (1 << 31) - 64  # bytes of the states in a batch, and of one state in the JVM.
Beside: TypeAlias = tuple[tuple[str, bytes], ...]  # Names and Arrow streams of tables that are read beside the rows


def stream_batches(
    plan: str, columns: list[list[str]], sent: list[str], ordered: int, tables: list[str], batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Runs one task of a micro-batch: takes the rows and states of its keys, yields matches and then the new states.

    Args:
        plan: the clause's plan as JSON.
        columns: the plan's input columns, as :func:`sparkcep.columns.from_jvm.unpacked` takes them.
        sent: the names that ``columns`` use for the incoming columns, in order.
        ordered: the number of ORDER BY columns after the sent ones.
        tables: the names of the tables that are read in addition. Each arrives as an Arrow stream in a row before the rows.
        batches: as MatchStateExec.java describes them.

    Yields:
        Batches with the columns of :func:`sparkcep.engine.core.task.output_schema`, then the number of a key, its state and its
        timer. The last row has the number -1 and int64 numbers as bytes. They are how many more rows are kept and pending than
        before, the matches, the microseconds, and with BUDGET :class:`sparkcep.engine.core.effort.Totals`.
    """
    import numpy as np
    import pyarrow.compute as pc

    from sparkcep.engine.core.operator import NOTHING_DUE
    from sparkcep.engine.core.state_codec import NO_BYTES
    from sparkcep.spark.exec.table_function import reported_alone

    came = pa.Table.from_batches(list(batches))
    began, waited = time.perf_counter(), 0.0
    said, *read = came.column(1).slice(0, 1 + len(tables)).to_pylist()
    (watermark,), checkpoint = struct.unpack_from(">q", said), said[8:].decode()
    beside = tuple(zip(tables, read, strict=True))
    came = came.slice(1 + len(tables))
    number = came.column(0).to_numpy()
    count = int(np.count_nonzero(number >= 0))  # rows come before states
    keys = int(np.where(number < 0, -1 - number, number).max()) + 1
    rows = pa.Table.from_arrays(came.columns[_OWN:], names=[f"c{i}" for i in range(came.num_columns - _OWN)]).slice(0, count)
    states = _states(came.column(1).slice(count), -1 - number[count:], keys)
    with reported_alone(Plan.from_json(plan)), _of_checkpoint(checkpoint):
        rows = _input(rows, columns, sent, ordered)
        stream = stream_engine(plan, rows.schema, ordered, beside)
    out = stream.engine.task.prepared.output_schema
    names = [*map(str, range(len(out) + _EXTRA_COLUMNS))]

    def of_matches(table: pa.Table) -> list[pa.RecordBatch]:
        nothing = (pa.nulls(table.num_rows, t) for t in (pa.int32(), pa.binary(), pa.int64()))
        return pa.Table.from_arrays([*table.columns, *nothing], names=names).to_batches()

    def of_key(*columns: pa.Array) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([*(pa.nulls(len(columns[0]), field.type) for field in out), *columns], names=names)

    task = stream.engine.task
    advance, before, checked = stream.advance(rows, number[:count].astype(np.int64), states, watermark), task.matches, task.totals.values()
    kept = None
    with reported_alone(stream.plan), _of_checkpoint(checkpoint):
        while kept is None:
            try:
                table = next(advance)
            except StopIteration as done:
                kept = done.value
            else:
                asked = time.perf_counter()
                yield from of_matches(table)
                waited += time.perf_counter() - asked
        parts = [*_pieces(kept.column)]
    for begin, end in parts:
        due = pa.array(kept.due[begin:end], mask=kept.due[begin:end] == NOTHING_DUE)
        state = kept.column.slice(begin, end - begin)
        state = pc.if_else(pc.equal(state, NO_BYTES), pa.scalar(None, state.type), state).cast(pa.binary())
        yield of_key(pa.array(np.arange(begin, end), pa.int32()), state, due)
    numbers = [*kept.more, task.matches - before, round((time.perf_counter() - began - waited) * 1e6)]
    if task.plan.budgeted:
        numbers += task.totals.since(checked)
    counted = struct.pack(f"<{len(numbers)}q", *numbers)
    yield of_key(pa.array([-1], pa.int32()), pa.array([counted], pa.binary()), pa.nulls(1, pa.int64()))


@contextlib.contextmanager
def _of_checkpoint(path: str) -> Iterator[None]:
    """Names the checkpoint in an error about its state."""
    try:
        yield
    except MatchRuntimeError as error:
        raise error.kept_in(path) from error.__cause__


def _states(came: pa.ChunkedArray, keys: np.ndarray, count: int) -> pa.Array:
    """Returns the state of each of ``count`` keys; empty for keys without a state. ``keys``: the key of each state, int64."""
    import numpy as np

    from sparkcep.engine.core.state_codec import NO_BYTES

    place = np.full(count, len(came), dtype=np.int64)
    place[keys] = np.arange(len(came))
    all = pa.chunked_array([*came.cast(pa.large_binary()).fill_null(b"").chunks, pa.array([b""], pa.large_binary())], NO_BYTES.type)
    return all.combine_chunks().take(pa.array(place))


def _pieces(states: pa.Array) -> Iterator[tuple[int, int]]:
    """Yields (begin, end) of the states of each batch: at most ``_PIECE`` bytes, unless a single state is larger.

    So the states of a batch stay below Arrow's 2 GiB. Raises MatchRuntimeError if a single state is too large.
    """
    import numpy as np

    from sparkcep.columns.row_codec import bytes_of

    ends, begin = bytes_of(states)[1], 0
    most = int(np.diff(ends).max(initial=0))
    if most > _LARGEST:
        raise MatchRuntimeError(
            "STATE_LIMIT", f"the state of a key has {most:,} bytes, but at most {_LARGEST:,} are possible. Use a smaller WINDOW, or PARTITION BY more keys", sqlstate="54000"
        )
    while begin < len(states):
        end = max(begin + 1, int(np.searchsorted(ends, ends[begin] + _PIECE, side="right")) - 1)
        yield begin, end
        begin = end


def _input(rows: pa.Table, columns: list[list[str]], sent: list[str], ordered: int) -> pa.Table:
    """Returns the plan's input columns and those of ORDER BY."""
    from sparkcep.columns.arrays import contiguous
    from sparkcep.columns.from_jvm import unpacked
    from sparkcep.engine.stream.keyed_stream import order_names

    count, own_names = len(sent), [name for name, *_ in columns]
    names = [*own_names, *order_names(own_names, ordered)]

    def own(batch: pa.RecordBatch) -> pa.RecordBatch:
        shipped = unpacked(pa.RecordBatch.from_arrays(batch.columns[:count], names=sent), [tuple(column) for column in columns])
        return pa.RecordBatch.from_arrays([*shipped.columns, *batch.columns[count:]], names=names)

    # A batch without rows still has the columns.
    batches = contiguous(rows).to_batches() or [pa.RecordBatch.from_arrays([pa.array([], field.type) for field in rows.schema], names=rows.schema.names)]
    return pa.Table.from_batches([own(batch) for batch in batches])


def stream_of(plan: str, columns: list[list[str]], sent: list[str], ordered: int, schema: pa.Schema) -> KeyedStream:
    """Returns the engine of :func:`stream_batches`, for rows as Spark ships them. It reads states and does not search.

    Reading states needs no arcs, so the plan's ARCS FROM is dropped.
    """
    return stream_engine(replace(Plan.from_json(plan), arcs=None).to_json(), _input(schema.empty_table(), columns, sent, ordered).schema, ordered)


def stream_engine(plan: str, schema: pa.Schema, ordered: int, beside: Beside = ()) -> KeyedStream:
    """Returns the engine for a plan. It is independent of the rows, so a worker builds it once for all its tasks.

    ``beside``: the tables that are read in addition, as (name, Arrow stream). If they change, a new engine replaces the old one.
    """
    kept = _engines(plan, schema, ordered, tuple(name for name, _ in beside))
    engine = kept.get(beside)
    if engine is None:
        kept.clear()  # before the new engine is built, because the tables may be large
        engine = kept[beside] = _engine(plan, schema, ordered, beside)
    return engine


@functools.lru_cache(maxsize=16)
def _engines(plan: str, schema: pa.Schema, ordered: int, names: tuple[str, ...]) -> dict[Beside, KeyedStream]:
    """Returns the dictionary for the last engine of a plan, with the tables that it has read.

    ``names``: the names of the tables. A report needs none of them to read states, and its engine does not replace that of a task.
    """
    return {}


def _engine(plan: str, schema: pa.Schema, ordered: int, beside: Beside) -> KeyedStream:
    """Builds the engine of :func:`stream_engine`."""
    from sparkcep.engine.automaton.arc_history import JournalArcs, with_table
    from sparkcep.engine.factory import prepare
    from sparkcep.engine.stream.keyed_stream import KeyedStream

    read, names = Plan.from_json(plan), schema.names[len(schema) - ordered :]
    own, arcs = pa.schema(list(schema)[: len(schema) - ordered]), None
    if ARCS in dict(beside):
        journal = _read(dict(beside)[ARCS], ARCS)
        arcs = JournalArcs.of(prepare(read, with_table(read, own, journal.schema)), journal)
    prepared = prepare(read, own) if arcs is None else replace(arcs.prepared, input_schema=own)
    stream = KeyedStream(prepared, schema, names, arcs=arcs)
    if HISTORY in dict(beside):
        stream.use(_read(dict(beside)[HISTORY], HISTORY).column(0)[0].as_py())
    return stream


# -- tables that are read in addition to the rows -----------------------------------------------------------------------


def _read(data: bytes, name: str) -> pa.Table:
    """Reads a table that is stored in the checkpoint. Raises MatchRuntimeError if it is damaged."""
    from sparkcep.columns.arrow_streams import MOST_BYTES, read_table
    from sparkcep.engine.core.state_codec import damaged

    try:
        table = read_table(data, MOST_BYTES)
        if name == HISTORY:
            table.validate(full=True)  # its strings are names of variables, so they are UTF-8
    except ValueError as error:
        raise damaged(f"a stream's tables ({TABLES[name]})", "restore the checkpoint, or begin with a new one") from error
    return table


def arrived(asked: dict[str, Any]) -> dict[str, Any]:
    """Merges the table of ARCS FROM into the arcs' journal, before the rows of a micro-batch. Raises MatchRuntimeError.

    ``asked`` has these items:

    - ``plan``, ``columns``, ``sent``, ``ordered``: as in :func:`stream_batches`.
    - ``types``: the types of the sent columns (Spark's JSON).
    - ``read``, ``before``: the table now and at the last micro-batch, as Arrow streams in base64; ``before`` is None at first.
    - ``journal``: the journal of the last micro-batch, in the same form; None at first.
    - ``largest``, ``late``, ``watermark``: see :class:`sparkcep.engine.automaton.arc_history.Moment`.

    The answer has ``journal``, None if it is unchanged, and ``again``: whether keys without new rows are searched again.
    """
    from sparkcep.engine.automaton import arc_history
    from sparkcep.engine.factory import prepare

    plan, rows = Plan.from_json(asked["plan"]), _sent_schema(asked)
    read, before, journal = (None if asked[name] is None else _read(base64.b64decode(asked[name]), ARCS) for name in ("read", "before", "journal"))
    moment = arc_history.Moment(asked["largest"], asked["late"], asked["watermark"])
    try:
        found = arc_history.arrived(prepare(plan, arc_history.with_table(plan, rows, read.schema)), journal, before, read, moment)
    except MatchRuntimeError as error:
        raise error.at((plan.arcs.line, plan.arcs.column, plan.arcs.text)) from None
    if found is None:
        return {"journal": None, "again": False}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found[0].schema) as out:
        out.write_table(found[0])
    return {"journal": base64.b64encode(sink.getvalue()).decode("ascii"), "again": found[1] and plan.changes is not None}


def check_history(asked: dict[str, Any]) -> None:
    """Raises MatchRuntimeError if the table of USING HISTORY is not a history of the clause, as a worker would.

    The table is not yet in the checkpoint then. So the query can start again once the table is corrected. ``asked`` has ``plan``,
    ``columns``, ``sent``, ``ordered``, ``types`` and ``read`` as for :func:`arrived`.
    """
    try:
        _engine(asked["plan"], _sent_schema(asked), asked["ordered"], ((HISTORY, base64.b64decode(asked["read"])),))
    except MatchRuntimeError as error:
        raise error.at(Plan.from_json(asked["plan"]).place) from None


def _sent_schema(asked: dict[str, Any]) -> pa.Schema:
    """Returns the schema of the rows that a worker gets."""
    from sparkcep.spark.exec.table_function import arrow_schema

    types = StructType.fromJson(json.loads(asked["types"]))
    return _input(arrow_schema(types).empty_table(), asked["columns"], asked["sent"], asked["ordered"]).schema
