"""Clauses over streams: the checks before a query starts, and a worker's part of a micro-batch.

``spark/session/rewrite_service`` calls the checks for the JVM operator, and ``stream/frames`` for programs of DataFrames. Workers
call :func:`stream_batches`.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import logging
import re
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from sparkcep.compiler.output_watermark import Passed, passed
from sparkcep.compiler.stream_rules import check_stream, check_table, different, place_of, warnings
from sparkcep.errors import SEMANTIC, UNSUPPORTED, ClauseError, MatchRuntimeError
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import LeafPlace, Place
from sparkcep.version import __version__

if TYPE_CHECKING:
    import numpy as np

    from sparkcep.engine.stream.keyed_stream import KeyedStream

log = logging.getLogger("sparkcep")

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
ENCODING, UNSAFE_ROW = "spark.sql.streaming.stateStore.encodingFormat", "unsaferow"
_FORMATS = {1: "0.1.0 before its release", 2: "0.1.0"}  # state format -> the versions that read and write it
STATE_FORMAT = max(_FORMATS)  # this version's format, as in Streams.java
OPERATOR_NAME = "matchRecognize"  # the JVM operator's name in Spark's progress and in checkpoints
FRAME_OPERATORS = "applyInPandasWithState", "transformWithStateInPandasExec"  # of DataFrame programs
OBSERVED = "sparkcep"  # a program of DataFrames is observed under this name and the number of its clause
_OWN = 2  # columns before those of the rows: number of the key, state
_EXTRA_COLUMNS = 3  # columns after those of matches: number of the key, state, and its timer
_PIECE = 1 << 28  # bytes of states in a batch


# -- before a query starts ----------------------------------------------------------------------------------------------


def check_over_stream(asked: dict[str, Any]) -> None:
    """Raises ClauseError for a clause that cannot run over a stream.

    ``asked`` has these items:

    - ``plan``: the clause's plan as JSON.
    - ``on``: whether Spark may run the engine with its own operator.
    - ``known``: whether sparkcep knows the stateful operators of this Spark.
    - ``types``: the types of the ORDER BY expressions; ``time``: the type of the first.
    - ``marked``: whether the first is a watermark column; ``watermarks``: the watermark columns.
    - ``provider``: the provider of state stores, None if any works; ``encoding``: their encoding, in lower case.
    - ``stateful``: stateful nodes below the clause that it cannot be above.
    - ``unbounded``: the kinds of joins of streams below the clause that do not bound their rows' times.
    - ``below``: the plans of the clauses whose output it reads.
    - ``late``: the table of late rows, if any.
    - ``streamed``: the tables read in addition to the rows that are streams themselves.
    """
    plan = Plan.from_json(asked["plan"])
    check_stream(plan)
    for name in asked.get("streamed", ()):
        message = f"{_TABLES[name]} is a stream itself, and beside a stream is read as a table at each micro-batch; write that stream to a table, and name this"
        raise wrong(plan if plan.arcs is None else replace(plan, place=Place(plan.arcs.line, plan.arcs.column, plan.arcs.text)), message, UNSUPPORTED)
    first, ordered = plan.order[0].name, place_of(plan, plan.order[0].column)
    if not asked["watermarks"] and not asked["marked"]:  # a watermark in a WITH is not below the clause
        raise wrong(
            plan, f'a clause over a stream needs a watermark on {first}, which says when its rows are all there: frame.withWatermark("{first}", "5 seconds"), or in SQL '
            f"FROM STREAM t WATERMARK {first} DELAY OF INTERVAL 5 SECONDS", at=ordered,
        )
    if not asked["marked"] and asked.get("below"):
        raise wrong(plan, _unmarked(first, [passed(Plan.from_json(below)) for below in asked["below"]]), SEMANTIC, ordered)
    if not asked["marked"]:
        columns = ", ".join(asked["watermarks"])
        here = f"here {first} is computed below the clause, under the same name; give what is computed another name, and order by {first} itself"
        here = here if first in asked["watermarks"] and plan.order[0].plain else f"here it is {first}"
        raise wrong(plan, f"the first ORDER BY expression over a stream is the column of its watermark, {columns}, as it is; {here}", at=ordered)
    if not asked["time"].startswith("timestamp"):
        raise wrong(plan, f"the first ORDER BY expression over a stream is a timestamp; {first} is of type {asked['time']}", at=ordered)
    for item, kind in zip(plan.order, asked["types"], strict=True):
        nested = kind.startswith(("struct", "array"))
        if nested or " collate " in kind:
            instead = "order by its parts" if nested else f"take lower({item.name}), or {item.name} COLLATE UTF8_BINARY"
            raise wrong(plan, f"rows of a stream are not sorted by {item.name}, of type {kind}; {instead}", UNSUPPORTED, place_of(plan, item.column))
    if asked.get("unbounded"):
        raise wrong(plan, _UNBOUNDED.format(asked["unbounded"][0]))
    if asked["stateful"]:
        raise wrong(plan, _CHAINED.format(f"what keeps a state itself ({asked['stateful'][0]})"), UNSUPPORTED)
    if not asked["on"]:
        raise wrong(plan, "sparkcep.mapInArrow is false, without which a clause over a stream has no operator; set it to true", UNSUPPORTED)
    if not asked["known"]:
        raise wrong(plan, "this Spark's stateful operators are none that sparkcep knows: a clause over a stream runs with Spark 4.1 to 4.3", UNSUPPORTED)
    if asked["provider"] is not None and "RocksDB" not in asked["provider"]:
        raise wrong(plan, f"a clause over a stream keeps its state in RocksDB; set {PROVIDER} to {ROCKSDB}", at=place_of(plan))
    if asked.get("encoding", UNSAFE_ROW) != UNSAFE_ROW:
        raise wrong(plan, f"{ENCODING} is {asked['encoding']}, and the state of a clause over a stream is written as {UNSAFE_ROW}; set it to {UNSAFE_ROW}", UNSUPPORTED, place_of(plan))
    if asked.get("late"):
        _check_late(plan, asked["late"])
    for warning in warnings(plan):
        log.warning("over a stream: %s", warning)


ARCS, HISTORY = "arcs", "history"  # as StreamTables.java names them
_TABLES = {ARCS: "the table of ARCS FROM", HISTORY: "the table of USING HISTORY"}


def _check_late(plan: Plan, late: dict[str, Any]) -> None:
    """Raises ClauseError if late rows cannot be appended to the table ``late``, as LateRows.java describes it."""
    rows, clause, what = late["rows"], place_of(plan), f"sparkcep.stream.lateRows is {late['table']!r}"
    they = f"the clause's rows have {', '.join(f'{name} {kind.upper()}' for name, kind in rows)}"
    if not late["kind"]:
        raise wrong(plan, f"{what}, and there is no such table; make one first with some or all of the columns that late rows have: {they}", at=clause)
    if not late["columns"]:
        raise wrong(plan, f"{what}, which is a view; late rows are appended to a table", at=clause)
    for name, kind in late["columns"]:
        found = [other for own, other in rows if own == name or (not late["cased"] and own.lower() == name.lower())]
        if not found:
            raise wrong(plan, f"{what}, whose column {name} late rows do not have: {they}; leave it out of the table", at=clause)
        if len(found) > 1:
            raise wrong(plan, f"{what}, whose column {name} late rows have twice: {they}; name the columns apart in a subquery", at=clause)
        if found[0] != kind:
            raise wrong(plan, f"{what}, whose column {name} is of type {kind.upper()}, and late rows have it as {found[0].upper()}; make the table's column of that type", at=clause)


_UNBOUNDED = (
    "the join of streams below the clause ({}) does not say how far apart the times of rows may be that it joins, so that a row of it may come at any time; bound the columns of both watermarks, one on "
    "each side, both ways, as ON ... AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 10 SECONDS, or l.ts = r.ts, in a join that is INNER, LEFT or RIGHT"
)
_CHAINED = "a clause over a stream does not stream yet together with {}; write the clause's output to a table, and read that as a stream"
_READ = "write that clause's output to a table, and read that as a stream"


def _unmarked(first: str, below: list[Passed]) -> str:
    """Says why a clause over the output of others cannot be ordered by ``first``, which is not a watermark column there."""
    why = next((one.why for one in below if one.behind is None), "")
    if why:
        return f"the first ORDER BY expression over a stream is the column of a watermark, and the output of the clause below has none, as {why}; {_READ}, or change that clause"
    names = list(dict.fromkeys(one.name for one in below if one.name))
    if not names:
        return (
            f"the first ORDER BY expression over a stream is the column of a watermark; here it is {first}, of the output of a clause that tells none: give that clause FIRST or LAST "
            "of its first ORDER BY column as a measure of its own, and order by it"
        )
    return f"the first ORDER BY expression over a clause's output is the column that has its watermark, {', '.join(names)}, as it is; here it is {first}"


def _check_chained(asked: dict[str, Any]) -> None:
    """Raises ClauseError for a clause that cannot be below the stateful node ``above``.

    ``several``: whether each operator of a query has its own watermark. ``timed``: whether the input of ``above`` has a watermark
    column.
    """
    plan, above = Plan.from_json(asked["plan"]), asked["above"]
    given = passed(plan)
    if above == "EventTimeWatermark":
        instead = f"leave it out: {given.name} has one already" if given.name else _READ
        raise wrong(plan, f"withWatermark over a clause's output would move the watermark of its rows; {instead}", UNSUPPORTED)
    if not asked["several"]:
        raise wrong(
            plan, f"what keeps a state ({above}) stands above the clause, and spark.sql.streaming.statefulOperator.allowMultiple is false, by which all have one watermark; set it to true", UNSUPPORTED
        )
    if given.behind is None and asked["timed"]:
        raise wrong(plan, f"what lets its state go by a watermark ({above}) stands above the clause, whose output has none, as {given.why}; {_READ}", UNSUPPORTED)


def _check_started(asked: dict[str, Any]) -> None:
    """Raises ClauseError for an output ``mode``, or a ``trigger`` (its class), that does not fit a clause.

    ``asked`` also has these items:

    - ``aggregated``: whether Spark aggregates the output of all clauses of the query.
    - ``over``: a stateful Spark node below a clause, or "".
    - ``untimed``: an aggregate above a clause without a watermark column among its keys, or "".
    - ``refused``: Spark's objection to the query, or "".
    """
    plan = Plan.from_json(asked["plan"])
    if asked["mode"] == "Complete" and not asked["aggregated"]:
        raise wrong(
            plan, 'output mode complete gives the whole answer after each micro-batch, and matches over a stream are told once, when they are decided; write outputMode("append")'
        )
    if asked["mode"] != "Append" and asked["over"]:
        raise wrong(plan, f"a clause over what keeps a state ({asked['over']}) reads rows that do not change any more; write outputMode(\"append\")", UNSUPPORTED)
    if asked["mode"] == "Append" and asked["untimed"]:
        given = passed(plan)
        group = "have {} among its columns" if asked["untimed"] in _OF_ALL_COLUMNS else "group by a window of {}"
        instead = group.format(given.name) if given.name else f"the clause's output has none, as {given.why}" if given.why else (
            "the clause tells none: give it FIRST or LAST of its first ORDER BY column as a measure of its own"
        )
        raise wrong(plan, f'in output mode append what is aggregated ({asked["untimed"]}) is told when a watermark has passed its column; {instead}; or write outputMode("update")', SEMANTIC)
    if asked["trigger"] in _UNBATCHED:
        raise wrong(plan, f"a clause over a stream is answered by micro-batches, which {_UNBATCHED[asked['trigger']]} does not make; write trigger(processingTime=\"1 second\")")
    if asked["refused"]:
        raise wrong(plan, not_started(asked["refused"]), UNSUPPORTED)


def not_started(message: str) -> str:
    """Says why Spark does not start a query: the ``message`` of Spark's error without the plan that it shows."""
    shown = PLAN_SHOWN.search(message)
    said = (message[: shown.start()] if shown else message).partition("\n")[0].partition(" SQLSTATE:")[0].rstrip(" .;")
    return f"Spark does not start the query: {said}; {_APPEND if 'mode' in said.partition('Sorting')[0] else INSTEAD}"


PLAN_SHOWN = re.compile(r";\n[~!']*\w|\n\s*[:+]- ")  # the beginning of a plan in a message
INSTEAD = "write the clause's output to a table, and read that as a stream"
_APPEND = 'matches over a stream are told once, when they are decided; write outputMode("append")'
_OF_ALL_COLUMNS = ("Distinct", "Except")
_UNBATCHED = {"ContinuousTrigger": "trigger(continuous=...)", "RealTimeTrigger": "trigger(realTime=...)"}


def _check_restarted(asked: dict[str, Any]) -> None:
    """Raises ClauseError if the statements ``now``, one per clause of a query, cannot resume from the operators' states ``before``.

    StreamStart.java gives the name of each operator, and the file and text of its statement.
    """
    statements = [json.loads(text) for text in asked["now"]]
    plan = Plan.from_json(statements[0]["plan"])
    before = [_kept_statement(plan, one) for one in asked["before"] if one["text"] is not None or one["operator"] == OPERATOR_NAME]
    if not before and any(one["operator"] in FRAME_OPERATORS for one in asked["before"]):
        raise wrong(plan, _BY_FRAMES, UNSUPPORTED)
    check_times(len(before), statements)
    for one, other in zip(before, statements, strict=True):
        check_changed(one, other)


_BY_FRAMES = (
    "the checkpoint is of a query that keeps its state by applyInPandasWithState or transformWithStateInPandas: its clauses ran as programs of data frames (sparkcep.stream.route, or the "
    "extension was missing), and now they run by the operator of the JVM extension; run the query as it was (SET sparkcep.stream.route = frames), or begin with a new checkpoint"
)


def _kept_statement(plan: Plan, kept: dict[str, Any]) -> dict[str, Any]:
    """Returns the statement of a state. Raises ClauseError if its file is missing or damaged."""
    if kept["text"] is None:
        raise wrong(plan, f"the checkpoint is damaged: {kept['file']} is missing, which has the statement of its state; restore the checkpoint", UNSUPPORTED)
    try:
        statement = json.loads(kept["text"])
        json.loads(statement["plan"])
    except (ValueError, TypeError, KeyError):
        raise wrong(plan, f"the checkpoint is damaged: {kept['file']} is not a whole statement; restore the checkpoint", UNSUPPORTED) from None
    return statement


def check_times(before: int, statements: list[dict[str, Any]]) -> None:
    """Raises ClauseError if the checkpoint's query had another number of clauses, ``before``, than there are ``statements``."""
    plan = Plan.from_json(statements[0]["plan"])
    if not before:
        raise wrong(plan, "the checkpoint is of a query without a clause (no statement is kept in it); begin with a new checkpoint", UNSUPPORTED)
    if before != len(statements):
        raise wrong(
            plan, f"the checkpoint is of another query, in which there is a clause {_times(before)}, and in this one {_times(len(statements))}; begin with a new checkpoint, or run "
            "the query as it was", UNSUPPORTED,
        )


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def check_changed(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raises ClauseError if a statement cannot resume from the state of the statement before.

    Both statements have these items:

    - ``format``: the format of the state.
    - ``plan``: the plan as JSON.
    - ``texts``: the expressions that Spark computes per row, as JSON.
    - ``columns``: the columns of rows with their types.
    - ``tables``: the columns of the tables that are read in addition.
    - ``where``: the keys that are wanted.
    - ``buckets``: the number of key buckets; only in programs of DataFrames.
    """
    plan = Plan.from_json(now["plan"])
    made_by = json.loads(before["plan"]).get("made_by", "an unknown version")
    if before.get("format", 1) != now["format"]:
        raise wrong(
            plan, f"the checkpoint's state is of format {before.get('format', 1)}, which sparkcep {_FORMATS.get(before.get('format', 1), made_by)} reads and writes; this version, {__version__}, "
            f"reads format {now['format']}, of sparkcep {_FORMATS[now['format']]}; begin with a new checkpoint, or go on with that version", UNSUPPORTED,
        )
    if before.get("buckets") != now.get("buckets"):
        raise wrong(
            plan, f"the checkpoint has {before['buckets']} buckets of keys, and sparkcep.stream.buckets is {now['buckets']}; set it to {before['buckets']}, or begin with a new checkpoint",
            UNSUPPORTED,
        )
    found = different(json.loads(before["plan"]), json.loads(now["plan"]), json.loads(before["texts"]), json.loads(now["texts"]))
    if before["where"] != now["where"]:
        found.append("the keys that WHERE above the clause wants")
    if not found and before["columns"] != now["columns"]:
        found = ["the columns that are kept of each row"]
    if before.get("tables", {}) != now.get("tables", {}):
        found += [f"the columns of {_TABLES[name]}" for name in now["tables"] if now["tables"][name] != before.get("tables", {}).get(name)]
    if found:
        raise wrong(
            plan, f"the checkpoint is of another statement (of {made_by}), with whose state this one cannot go on: {', '.join(found)} differ; begin with a new checkpoint, or "
            "run the statement as it was", UNSUPPORTED,
        )


def wrong(plan: Plan, message: str, sqlstate: str = SEMANTIC, at: LeafPlace | None = None) -> ClauseError:
    """Returns an error of a clause over a stream, at a position in the clause, or at its pattern."""
    found = (at.line, at.column, at.text) if at is not None else plan.place
    place = dict(zip(("line", "column", "fragment"), found)) if found else {}
    return ClauseError("STREAM", message, sqlstate=sqlstate, **place)


def _refuse_aggregate(asked: dict[str, Any]) -> None:
    """Raises ClauseError for an aggregate that cannot be computed in the row of a match.

    ``function`` names the aggregate; "" means that its argument is random.
    """
    message = f"{asked['function']} is computed by Python over groups of rows, and over a stream these would be a state of their own; give the values as array_agg, and call a function of the array above the clause"
    if not asked["function"]:
        message = "an aggregate over a stream is computed in the row of its match, and a random value in its argument (rand(), uuid()) is not there; make it a column in a subquery below the clause"
    raise wrong(Plan.from_json(asked["plan"]), message, UNSUPPORTED)


def _check_unordered(asked: dict[str, Any]) -> None:
    check_table(Plan.from_json(asked["plan"]))


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "stream": check_over_stream, "table": _check_unordered, "chained": _check_chained, "started": _check_started, "restarted": _check_restarted,
    "aggregated": _refuse_aggregate,
}


def figures(progress: Any) -> list[dict[str, int]]:
    """Returns the metrics of each clause over a stream in a query's progress, by name, with ``lateRows``, for any operator."""
    found = [
        {**operator["customMetrics"], "lateRows": operator["numRowsDroppedByWatermark"]}
        for operator in progress["stateOperators"] if operator["operatorName"] == OPERATOR_NAME
    ]
    for name, seen in (progress.get("observedMetrics") or {}).items():
        if not name.startswith(f"{OBSERVED} "):
            continue
        if "schema" in seen:  # the form that Connect's client returns
            seen = dict(zip((field["name"] for field in seen["schema"]["fields"]), seen["values"], strict=True))
        seen = seen.asDict() if hasattr(seen, "asDict") else seen
        found.append({name: count or 0 for name, count in seen.items()})
    return found


# -- a micro-batch ------------------------------------------------------------------------------------------------------


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
    rows = _input(rows, columns, sent, ordered)
    with reported_alone(Plan.from_json(plan)), _of_checkpoint(checkpoint):
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
    for begin, end in _pieces(kept.column):
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

    So the states of a batch stay below Arrow's 2 GiB.
    """
    import numpy as np

    from sparkcep.columns.row_codec import bytes_of

    ends, begin = bytes_of(states)[1], 0
    while begin < len(states):
        end = max(begin + 1, int(np.searchsorted(ends, ends[begin] + _PIECE, side="right")) - 1)
        yield begin, end
        begin = end


def _input(rows: pa.Table, columns: list[list[str]], sent: list[str], ordered: int) -> pa.Table:
    """Returns the plan's input columns and those of ORDER BY."""
    from sparkcep.columns.from_jvm import unpacked

    count, names = len(sent), [*(name for name, *_ in columns), *_order_names(ordered)]

    def own(batch: pa.RecordBatch) -> pa.RecordBatch:
        shipped = unpacked(pa.RecordBatch.from_arrays(batch.columns[:count], names=sent), [tuple(column) for column in columns])
        return pa.RecordBatch.from_arrays([*shipped.columns, *batch.columns[count:]], names=names)

    # A batch without rows still has the columns.
    batches = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_arrays([pa.array([], field.type) for field in rows.schema], names=rows.schema.names)]
    return pa.Table.from_batches([own(batch) for batch in batches])


def _order_names(ordered: int) -> list[str]:
    return [f"order {i}" for i in range(ordered)]


def stream_of(plan: str, columns: list[list[str]], sent: list[str], ordered: int, schema: pa.Schema) -> KeyedStream:
    """Returns the engine of :func:`stream_batches`, for rows as Spark ships them. It reads states and does not search.

    Reading states needs no arcs, so the plan's ARCS FROM is dropped.
    """
    return stream_engine(replace(Plan.from_json(plan), arcs=None).to_json(), _input(schema.empty_table(), columns, sent, ordered).schema, ordered)


@functools.lru_cache(maxsize=16)
def stream_engine(plan: str, schema: pa.Schema, ordered: int, beside: tuple[tuple[str, bytes], ...] = ()) -> KeyedStream:
    """Returns the engine for a plan. It is independent of the rows, so a worker builds it once for all its tasks.

    ``beside``: the tables that are read in addition, as (name, Arrow stream). If they change, a new engine is built.
    """
    from sparkcep.engine.automaton.arc_history import JournalArcs, with_table
    from sparkcep.engine.factory import prepare
    from sparkcep.engine.stream.keyed_stream import KeyedStream

    read, names = Plan.from_json(plan), _order_names(ordered)
    own, arcs = pa.schema([field for field in schema if field.name not in names]), None
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
        return read_table(data, MOST_BYTES)
    except ValueError as error:
        raise damaged(f"a stream's tables ({_TABLES[name]})", "restore the checkpoint, or begin with a new one") from error


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
    from sparkcep.spark.exec.table_function import arrow_schema

    plan = Plan.from_json(asked["plan"])
    rows = _input(arrow_schema(StructType.fromJson(json.loads(asked["types"]))).empty_table(), asked["columns"], asked["sent"], asked["ordered"]).schema
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
