"""Question 5 of ``sparkcep.why``: reads the state of a key of a streaming query from its checkpoint, as the report of a query does.

Both ways to run a clause over a stream are read: the JVM operator's states, and the key buckets of a program of DataFrames. One job
finds the key of the rows that are asked about, and one fetches its state. The query is not disturbed.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType, TimestampType

from sparkcep.clause.tokens import quote
from sparkcep.columns.comparable import comparable
from sparkcep.engine.stream.inspection import rows_of
from sparkcep.engine.stream.key_buckets import Bucket
from sparkcep.errors import SEMANTIC, UNSUPPORTED, ClauseError, MatchRuntimeError
from sparkcep.plan.plan import Plan
from sparkcep.spark.exec.physical_plan import nodes
from sparkcep.spark.exec.table_function import arrow_schema
from sparkcep.spark.stream.command import ran_of
from sparkcep.spark.stream.frames.checkpoint import states_at
from sparkcep.spark.stream.micro_batch import stream_engine, stream_of
from sparkcep.spark.stream.progress import figures, last_completed
from sparkcep.spark.why.partition import check_expression, literal
from sparkcep.tracing.answers.answer import Why
from sparkcep.tracing.answers.values import Values
from sparkcep.tracing.conditions.question import WHY
from sparkcep.tracing.rows.local_times import values_of
from sparkcep.tracing.streams.explain_key import INSTEAD, KeyState, check_streamed, explain_key, no_state, zone_of
from sparkcep.tracing.streams.times import Times

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from sparkcep.engine.stream.keyed_stream import KeyedStream

_SHOWN_KEYS, _SHOWN_LATE = 3, 3
_OPERATOR, _LATE, _POLICY = "MatchStateExec", "sparkcep.late", "spark.sql.streaming.multipleWatermarkPolicy"
_ID, _ROW = "__id", "__row"


@dataclass(frozen=True)
class _Stored:
    """The states of a clause after a micro-batch.

    Attributes:
        plan: the clause's plan, as JSON.
        schema: the columns of the engine's rows.
        states: a DataFrame of the states: ``state`` and, beside the JVM operator's, the values of the key.
        bucketed: whether a state is a bucket of keys.
        batch: the micro-batch.
        watermark: in microseconds.
        late: the table of late rows, "" without one.
    """

    plan: str
    schema: pa.Schema
    states: DataFrame
    bucketed: bool
    batch: int
    watermark: int
    late: str

    @property
    def reader(self) -> _Reader:
        keys = [] if self.bucketed else Plan.from_json(self.plan).partition
        return _Reader(self.plan, self.schema, self.bucketed, tuple(key.name for key in keys))


@dataclass(frozen=True)
class _Reader:
    """Reads states in a worker.

    Attributes:
        plan, schema, bucketed: as in :class:`_Stored`.
        keys: names of the key's values beside each state.
    """

    plan: str
    schema: pa.Schema
    bucketed: bool
    keys: tuple[str, ...]

    @property
    def stream(self) -> KeyedStream:
        return stream_engine(self.plan, self.schema, len(Plan.from_json(self.plan).order))

    @property
    def names(self) -> dict[str, str]:
        """The columns of stored rows by the names of the clause's input; values of keys come from the state if they are there."""
        stream, found = self.stream, {}
        plan = stream.plan
        named = [(key.name, key.column) for key in plan.partition]
        named += [(item.name, column) for item, column in zip(plan.order, stream.order, strict=True)]
        named += [(text.rpartition(".")[2].strip("`"), name) for name, text in plan.inputs if text]
        named += [(name, name) for name in stream.schema.names if not name.startswith("__") and name not in stream.order]
        taken = {name.lower() for name in self.keys}
        for name, column in named:
            if column in stream.schema.names and name.lower() not in taken:
                taken.add(name.lower())
                found[name] = column
        return found

    def parts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch | None, list[str], pa.Array]]:
        """Yields the values of some keys (None in buckets), the identity of each, and their states."""
        for batch in batches:
            if self.bucketed:
                for bucket in batch.column(0).to_pylist():
                    keys = Bucket.read(bucket).keys
                    states = keys.column("state").combine_chunks()
                    yield None, [_id(key, state) for key, state in zip(keys.column("key").to_pylist(), states.to_pylist(), strict=True)], states
            else:
                values = pa.RecordBatch.from_arrays(batch.columns[1:], names=list(self.keys)) if self.keys else None
                texts = [repr(row).encode() for row in zip(*map(comparable, values.columns), strict=True)] if values is not None else [b""] * batch.num_rows
                states = batch.column(0).cast(pa.large_binary())
                yield values, [_id(key, state) for key, state in zip(texts, states.to_pylist(), strict=True)], states

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the stored rows of all keys, with the key's identity and the row's number in its key."""
        stream, names = self.stream, self.names
        for values, ids, states in self.parts(batches):
            of, number, table = rows_of(stream, states)
            at = pa.array(of)
            columns = [] if values is None else [column.take(at) for column in values.columns]
            columns += [table.column(name).combine_chunks() for name in names.values()]
            columns += [pa.array(ids, pa.string()).take(at), pa.array(number)]
            yield from pa.Table.from_arrays(columns, names=[*self.keys, *names, _ID, _ROW]).to_batches()

    def of(self, wanted: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the state of the key with this identity."""
        for _, ids, states in self.parts(batches):
            if wanted in ids:
                yield pa.record_batch([states.slice(ids.index(wanted), 1).cast(pa.binary())], names=["state"])

    def row_type(self, values: StructType) -> StructType:
        """The type of :meth:`rows`. ``values``: the type of the key's values."""
        stored = from_arrow_schema(pa.schema([pa.field(name, self.schema.field(column).type) for name, column in self.names.items()]))
        keys = (StructField(name, field.dataType) for name, field in zip(self.keys, values.fields, strict=True))
        return StructType([*keys, *stored.fields]).add(_ID, "string").add(_ROW, "long")


def _id(key: bytes, state: bytes) -> str:
    return hashlib.sha256(key + b"\0" + state).hexdigest()


def why_stream(
    query: StreamingQuery, words: Mapping[str, object], *, rows: int, redact: str, max_steps: int,
) -> Why:  # fmt: skip
    """Explains why a streaming query has not emitted a match of a key.

    Args:
        query: a query of a classic session, running or ended.
        words: the arguments of the question as the user gave them.
        rows: the most stored rows of the key.
        redact: "", "values" or "all".
        max_steps: how many steps a start row may take.

    Raises:
        ClauseError: the question is wrong, or the state is not explained or cannot be read (class WHY).
    """
    at, which = words["at"], words["which"]
    if words["match"] is not None or words["expect"] is not None:
        raise ClauseError(WHY, f"match and expect are not answered over a stream, whose emitted matches are not stored. Ask with at alone, or about a table. {INSTEAD}", sqlstate=UNSUPPORTED)
    if at is not None:
        check_expression(str(at))
    spark, execution = SparkSession.active(), execution_of(query)
    from py4j.protocol import Py4JJavaError  # missing beside a client of Spark Connect, which was refused above

    try:
        last = last_completed(execution)
        if last is None:
            raise ClauseError(WHY, f"The query has not completed a micro-batch since it started, or its checkpoint was removed. Ask again after a micro-batch. {INSTEAD}", sqlstate=UNSUPPORTED)
        stored = _chosen(_stored(spark, execution, *last), which)
        plan = Plan.from_json(stored.plan)
        check_streamed(plan)
        return _answer(spark, stored, query, words, lambda found, stream: explain_key(stream, found, words=words, rows=rows, redact=redact, max_steps=max_steps), Values(redact))
    except MatchRuntimeError as error:
        raise _unreadable(error.message) from error
    except PySparkException as error:
        if isinstance(error, ClauseError):
            raise
        raise _unreadable(str(error).partition("\n")[0]) from error
    except Py4JJavaError as error:  # for example, a removed checkpoint
        raise _unreadable(error.java_exception.toString().partition("\n")[0]) from error


def _unreadable(why: str) -> ClauseError:
    return ClauseError(WHY, f"The state of the query cannot be read here: {why.rstrip('. ')}. {INSTEAD}", sqlstate=UNSUPPORTED)


def execution_of(query: Any) -> Any:
    """Spark's own object of the query. Raises ClauseError over Spark Connect."""
    inner = getattr(query, "_jsq", None)
    if inner is None:
        raise ClauseError(WHY, f"Over Spark Connect the state of a query is not explained. {INSTEAD}", sqlstate=UNSUPPORTED)
    return inner.streamingQuery() if inner.getClass().getSimpleName() == "StreamingQueryWrapper" else inner


# -- finding the states -------------------------------------------------------------------------------------------------


def _stored(spark: SparkSession, execution: Any, batch: int, millis: int) -> list[_Stored]:
    """The states of the clauses of a query after a micro-batch, in the order of the report. ``millis``: the watermark."""
    planned, watermark = execution.lastExecution(), 1000 * millis
    operators = [node for _, node in nodes(planned.executedPlan()) if node.getClass().getSimpleName() == _OPERATOR] if planned is not None else []
    if operators:
        return [_of_operator(spark, operator, batch, watermark, planned.currentBatchId() == batch) for operator in operators]
    checkpoint = execution.resolvedCheckpointRoot()
    found = []
    for kept, states in states_at(spark, checkpoint, batch):
        if not kept:
            raise ClauseError(WHY, f"The query lacks a state: its clause has not received a row yet. {INSTEAD}", sqlstate=UNSUPPORTED)
        statement = json.loads(kept)
        columns = ", ".join(f"`{name}` {kind}" for name, kind in statement["columns"])
        schema = arrow_schema(spark.createDataFrame([], columns).schema)
        found.append(_Stored(statement["plan"], schema, states, True, batch, watermark, ""))
    if not found:
        raise ClauseError(WHY, f"The query lacks a clause over a stream. {INSTEAD}", sqlstate=UNSUPPORTED)
    return found


def _of_operator(spark: SparkSession, operator: Any, batch: int, watermark: int, is_last: bool) -> _Stored:
    """The states of the JVM operator. ``is_last``: whether its parameters are those of the micro-batch ``batch``."""
    if operator.keptVersion() < 0:
        raise ClauseError(WHY, f"The state of the query cannot be read here: its checkpoint lacks a committed state, or Spark does not number its versions. {INSTEAD}", sqlstate=UNSUPPORTED)
    command, row_type = operator.keptReader()
    text, columns, sent, ordered, _ = CloudPickleSerializer().loads(base64.b64decode(command))[0].args
    stream = stream_of(text, columns, sent, ordered, arrow_schema(StructType.fromJson(json.loads(row_type))))
    own = operator.eventTimeWatermarkForEviction()  # trails that of the query if the rows are the output of another clause
    metadata = operator.output().last().metadata()
    states = DataFrame(operator.keptStates(batch + 1), spark)
    own_plan = replace(Plan.from_json(text), arcs=None).to_json()
    return _Stored(
        own_plan, stream.schema, states, False, batch, 1000 * int(own.get()) if is_last and own.isDefined() else watermark,
        metadata.getString(_LATE) if metadata.contains(_LATE) else "",
    )  # fmt: skip


def _chosen(found: list[_Stored], which: object) -> _Stored:
    """The clause that ``which`` names by its number."""
    if which is None and len(found) == 1:
        return found[0]
    number = int(str(which)) if str(which).isdigit() else 0
    if 1 <= number <= len(found):
        return found[number - 1]
    count = len(found)
    raise ClauseError(WHY, f"The query has {count} clause{'s' if count > 1 else ''} over a stream. Write which=1{f' to which={count}' if count > 1 else ''}, as sparkcep.report numbers them", sqlstate=SEMANTIC)


# -- the answer ---------------------------------------------------------------------------------------------------------


def _answer(spark: SparkSession, stored: _Stored, query: StreamingQuery, words: Mapping[str, object], explained: Callable[[KeyState, KeyedStream], Why], values: Values) -> Why:
    at, reader, ran = words["at"], stored.reader, ran_of(query)
    partition = [key.name for key in reader.stream.plan.partition]
    values_type = StructType() if stored.bucketed else cast(StructType, stored.states.schema["values"].dataType)
    keys = StructType(values_type.fields[: len(partition)])  # without PARTITION BY the operator still has a column
    sent = stored.states if stored.bucketed else stored.states.select("state", *(F.col("values").getField(name).alias(f"k{i}") for i, name in enumerate(keys.names)))
    frame = sent.mapInArrow(reader.rows, reader.row_type(keys))
    chosen = _where(frame, at)
    groups = chosen.groupBy(_ID).agg(*(F.first(F.col(quote(name))).alias(f"k{i}") for i, name in enumerate(partition)), F.sort_array(F.collect_list(_ROW)).alias("rows"))
    table = groups.orderBy(F.size("rows").desc(), _ID).limit(_SHOWN_KEYS + 1).toArrow()
    found = [dict(zip(table.column_names, row, strict=True)) for row in zip(*(values_of(table[name], reader.stream.plan.zone) for name in table.column_names), strict=True)]
    late = _late(spark, stored.late, ran, at, values)
    if not found:
        shown = Times(zone_of(reader.stream), values, [stored.watermark])(stored.watermark) if stored.watermark > 0 else "not known yet"
        return no_state(None if at is None else str(at), stored.batch, shown, late, words, unfinished=reader.stream.plan.unfinished is not None)
    if len(found) > 1:
        raise _several(partition, found, at, values)
    (state,) = sent.mapInArrow(lambda batches: reader.of(found[0][_ID], batches), "state binary").collect()
    of = KeyState(
        bytes(state["state"]), {name: found[0][f"k{i}"] for i, name in enumerate(partition)}, stored.batch, stored.watermark,
        tuple(found[0]["rows"]), _held(spark, query, ran), late,
    )  # fmt: skip
    return explained(of, reader.stream)


def _where(frame: DataFrame, at: object) -> DataFrame:
    """The stored rows that fulfil ``at``."""
    if at is None:
        return frame
    try:
        return frame.where(str(at))
    except AnalysisException as error:
        said = str(error).partition("\n")[0].partition(" SQLSTATE:")[0].partition("; line ")[0]
        names = ", ".join(name for name in frame.columns if name not in (_ID, _ROW))
        message = f"at={at!r} is not a condition over the stored columns, which are {names}: {said}. A state has only columns that the clause reads after Spark's part"
        raise ClauseError(WHY, message, sqlstate=SEMANTIC) from None


def _several(partition: list[str], found: list[Any], at: object, values: Values) -> ClauseError:
    """The error for rows of several keys. Under redaction it leaves the values of keys out."""
    what = "at selects stored rows of" if at is not None else "The query has stored rows of"
    many = f"more than {_SHOWN_KEYS}" if len(found) > _SHOWN_KEYS else str(len(found))
    if values.redact:
        return ClauseError(WHY, f"{what} {many} keys. Write at with a condition on {', '.join(partition)}", sqlstate=SEMANTIC)

    def condition(row: Any) -> str:
        texts = [(name, literal(row[f"k{i}"], values.text(row[f"k{i}"]))) for i, name in enumerate(partition)]
        return " AND ".join(f"{name} IS NULL" if text == "NULL" else f"{name} = {text}" for name, text in texts)

    listed = ", ".join(f"{condition(row)} ({len(row['rows'])})" for row in found[:_SHOWN_KEYS])
    instead = f"Add AND {condition(found[0])}" if at is not None else f'Write at="{condition(found[0])}"'
    return ClauseError(WHY, f"{what} {many} keys: {listed}. {instead}", sqlstate=SEMANTIC)


def _held(spark: SparkSession, query: StreamingQuery, ran: list[Any]) -> tuple[str, ...]:
    """A line about the sources of the watermark, as far as the query's progress shows them; none for a single source.

    Progress has one watermark for all sources. It shows which source had no rows for longest, and that one may hold the watermark
    back. ``ran``: the micro-batches that Spark remembers. After a long idle time there are none.
    """
    progress = query.lastProgress
    count = len(progress["sources"]) if progress is not None else 0
    if count < 2 or (spark.conf.get(_POLICY, None) or "min") != "min":
        return ()
    if not ran:
        return (f"The watermark is the least of {count} sources. Spark remembers only idle triggers, so the source without rows for longest is not known.",)
    last = [max((int(p["batchId"]) for p in ran if p["sources"][i]["numInputRows"]), default=-1) for i in range(count)]
    slowest = min(last)
    names = " and ".join(dict.fromkeys(ran[-1]["sources"][i]["description"] for i in range(count) if last[i] == slowest))
    if slowest == max(last):
        rows = f"All of them had their last rows in micro-batch {slowest}." if slowest >= 0 else f"None of them had a row in the last {len(ran)} micro-batches."
    elif slowest < 0:
        rows = f"No row came from {names} in the last {len(ran)} micro-batches."
    else:
        rows = f"The last rows of {names} came in micro-batch {slowest}."
    return (f"The watermark is the least of {count} sources. {rows}",)


def _late(spark: SparkSession, table: str, ran: list[Any], at: object, values: Values) -> tuple[str, ...]:
    """Lines about late rows: their number, and those of the table of late rows that fulfil ``at``."""
    count = sum(clause["lateRows"] for progress in ran for clause in figures(progress))
    counted = f"{count:,} row{' was' if count == 1 else 's were'} late in the last {len(ran)} micro-batches"
    if not table:
        return (f"{counted}. Spark does not keep late rows.",) if count else ()
    spark.catalog.refreshTable(table)  # the query appends in its own session
    late = spark.table(table)
    try:
        chosen = late if at is None else late.where(str(at))
    except AnalysisException:  # the table has other columns
        return (f"{counted}. They are in the table {table}, which lacks columns of the condition.",) if count else ()
    times = {field.name for field in late.schema.fields if isinstance(field.dataType, TimestampType)}  # Python would show them by the clock of its process
    columns = [F.col(quote(name)).cast("string").alias(name) if name in times else F.col(quote(name)) for name in late.columns]
    shown = chosen.select(*columns).limit(_SHOWN_LATE + 1).collect()
    if not shown:
        return (f"{counted}, and none in {table} fulfils {at}.",) if count and at is not None else ()
    more = f"more than {_SHOWN_LATE}" if len(shown) > _SHOWN_LATE else str(len(shown))
    rows = f"{more} row{'' if more == '1' else 's'} of {table}" + (f" fulfil{'s' if more == '1' else ''} {at}" if at is not None else "")
    lines = [f"{counted}. Late rows are stored: {rows}." if ran else f"Late rows are stored: {rows}."]
    if values.redact != "all":
        lines += ["  " + ", ".join(f"{name} {values.text(value, quoted=name not in times)}" for name, value in row.asDict().items()) for row in shown[:_SHOWN_LATE]]
    return tuple(lines)
