"""A clause over a stream without an operator in the JVM: a program of data frames over buckets of keys, by Spark's public API.

    rows -> mapInArrow (pieces) -> groupBy(bucket).applyInPandasWithState (the engine) -> mapInArrow (rows of output) [-> ranks]

Pandas sees bytes only, so that values are what Arrow says they are. Why this operator, and why buckets: docs/adr/0014-streams.md.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sparkcep.automaton.streams import kept
from sparkcep.engine.buckets import Bucket, Counted, Layout, advance, output, pieces, read
from sparkcep.errors import SEMANTIC, UNSUPPORTED, ClauseError, MatchRuntimeError
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.plan.records import Place
from sparkcep.settings import FRAMES, OPERATOR, Settings
from sparkcep.spark.connection import is_connect
from sparkcep.spark.stream_ranks import ranked
from sparkcep.spark.streaming import OBSERVED, STATE_FORMAT, check_changed, check_over_stream, stream_engine
from sparkcep.spark.table_function import WATERMARK, analyze_planned, arrow_schema, told_alone
from sparkcep.sql.rewrite import stream_input

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.state import GroupState

    from sparkcep.engine.stream import Stream
    from sparkcep.sql.probe import Streamed

log = logging.getLogger("sparkcep")

EXTENSION = "org.sparkcep.SparkcepExtensions"
_STATEFUL = re.compile(
    r"~(Aggregate|Distinct|Deduplicate|DeduplicateWithinWatermark|UpdateEventTimeWatermarkColumn|FlatMapGroups\w*WithState|TransformWithState\w*|GlobalLimit|LocalLimit|Limit)\b"
)
_QUERIES = frozenset(["SELECT", "WITH", "FROM", "VALUES", "TABLE", "(", "EXPLAIN"])
_STATE = "state binary"
_COUNTS = [*Counted._fields]
_OUT = T.StructType([T.StructField("piece", T.BinaryType()), *(T.StructField(name, T.LongType()) for name in _COUNTS)])


# -- what runs in workers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """What workers know of a clause: its plan as JSON, the schema of the pieces, and the statement that a checkpoint keeps."""

    plan: str
    schema: pa.Schema
    layout: Layout
    statement: bytes

    @property
    def engine(self) -> Stream:
        return stream_engine(self.plan, self.schema, self.layout.ordered)


@dataclass(frozen=True)
class Pieces:
    """Makes pieces of a task's rows, as ``mapInArrow`` runs it."""

    layout: Layout

    @property
    def __name__(self) -> str:
        return "match_recognize_pieces"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = self.layout.buckets
        for found in pieces(batches, self.layout):
            columns = {"bucket": pa.array(range(count), pa.int32()), "at": pa.nulls(count, pa.timestamp("us", "UTC")), "piece": pa.array(found, pa.binary())}
            yield pa.record_batch(columns)


@dataclass(frozen=True)
class Search:
    """Searches a bucket of keys, as ``applyInPandasWithState`` runs it. ``told``: what is kept of each key, for EXPLAIN.

    It asks to be called again as soon as the watermark moves, so that the bucket always knows the watermark of the micro-batch
    before, by which rows are late.
    """

    job: Job
    told: str

    @property
    def __name__(self) -> str:
        return f"match_recognize by data frames, {self.told}, "

    def __call__(self, key: tuple, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        import pandas as pd

        began, waited = time.perf_counter(), 0.0
        came = [piece for frame in frames for piece in frame["piece"] if piece is not None]
        watermark = max(state.getCurrentWatermarkMs(), 0)
        before = self._before(state)
        search = advance(self.job.engine, came, before, 1000 * watermark)
        with told_alone(Plan.from_json(self.job.plan)):
            for piece in output(tables := _Returned(search)):
                asked = time.perf_counter()
                yield pd.DataFrame({"piece": [piece], **dict.fromkeys(_COUNTS, 0)})
                waited += time.perf_counter() - asked
            after, counted = tables.value
            if after != before or not state.exists:
                state.update((after.written(),))
        state.setTimeoutTimestamp(max(watermark, 1))  # it has timed out once the watermark is larger
        counted = counted._replace(micros=round((time.perf_counter() - began - waited) * 1e6))
        yield pd.DataFrame({"piece": [None], **{name: [count] for name, count in zip(_COUNTS, counted, strict=True)}})

    def _before(self, state: GroupState) -> Bucket:
        job = self.job
        if not state.exists:
            return Bucket.new(job.statement)
        (data,) = state.get
        with told_alone(Plan.from_json(job.plan)):
            bucket = Bucket.read(bytes(data))
            if bucket.statement != job.statement:
                _check_same(bucket.statement, job.statement)
        return Bucket(bucket.keys, bucket.watermark, job.statement, bucket.kept, bucket.pending)


class _Returned:
    """Goes through a generator, and has what that returns as its ``value``."""

    def __init__(self, generator: Any) -> None:
        self.generator, self.value = generator, None

    def __iter__(self) -> Iterator[pa.Table]:
        self.value = yield from self.generator


@dataclass(frozen=True)
class Rows:
    """Makes rows of pieces of output, as ``mapInArrow`` runs it."""

    schema: pa.Schema

    @property
    def __name__(self) -> str:
        return "match_recognize_rows"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for piece in batch.column(0):
                if piece.is_valid:
                    yield from read(piece.as_py(), self.schema)


def _check_same(before: bytes, now: bytes) -> None:
    """Raises MatchRuntimeError where a statement cannot go on with the state of the one before."""
    was, is_now = json.loads(before), json.loads(now)
    if was["buckets"] != is_now["buckets"]:
        raise MatchRuntimeError(
            "STREAM", f"the checkpoint has {was['buckets']} buckets of keys, and sparkcep.stream.buckets is {is_now['buckets']}; set it to {was['buckets']}, or begin with a new checkpoint",
            sqlstate=UNSUPPORTED,
        )
    try:
        check_changed(was, is_now)
    except ClauseError as error:
        place = {"line": error.line, "column": error.column, "fragment": error.fragment}
        raise MatchRuntimeError(error.error_class.removeprefix("SPARKCEP."), error.message, sqlstate=error.sqlstate, **place) from None


# -- what makes the data frames -----------------------------------------------------------------------------------------


def framer(session: SparkSession, settings: Settings, ask: Callable[[str], DataFrame], has_operator: bool) -> Frames | None:
    """What makes data frames of clauses over streams; None where the JVM's operator runs them.

    ``ask`` runs a statement that was rewritten; ``has_operator`` says whether a classic session has the operator.
    """
    if settings.stream_route != FRAMES and (has_operator or (is_connect(session) and _on_server(session))):
        return None
    return Frames(session, settings, ask)


def _on_server(session: SparkSession) -> bool:
    """Whether a Connect server has the extension."""
    try:
        return EXTENSION in (session.conf.get("spark.sql.extensions", "") or "")
    except PySparkException as error:
        if error.getCondition() != "CONFIG_NOT_AVAILABLE":
            raise
        return False


@dataclass
class Frames:
    """Makes data frames of the clauses of one statement (``sql.probe.Framer``).

    ``made``: those that it made, by the names that stand for them in the statement. ``doubtful``: the plan of a clause whose table
    could not be read by itself, and why.
    """

    session: SparkSession
    settings: Settings
    ask: Callable[[str], DataFrame]
    made: dict[str, DataFrame] = field(default_factory=dict)
    doubtful: tuple[Plan, str] | None = None

    def frame(self, asked: Streamed) -> str | None:
        """As ``Framer.frame``."""
        if asked.names is None:
            self.doubtful = asked.plan, "an inner WITH may define its names; put the WITH at the statement's begin"
            return None
        try:
            source = self.ask(f"{asked.names}SELECT * FROM {asked.source}")
            if not source.isStreaming:
                return None
            _check_operators(asked.plan)
            watermarks = [f.name for f in source.schema.fields if WATERMARK in (f.metadata or {})]
            rows = self.ask(f"{asked.names}{stream_input(asked.plan, asked.source)}")
            fields = rows.schema.fields
        except PySparkException as error:
            # the statement itself runs into the same, with its place
            self.doubtful = asked.plan, str(error).partition("\n")[0]
            return None
        name = f"sparkcep_stream_{len(self.made)}_frame"
        self.made[name] = self._made(asked, watermarks, rows, fields)
        if asked.plan.ranking is not None and asked.plan.ranking.by_spark:
            self.made[name] = ranked(asked.plan, name, self.ask)
        return name

    def check(self, frame: DataFrame) -> None:
        """Raises ClauseError where the result of the statement is a stream in which a clause has no data frame."""
        if self.doubtful is not None and frame.isStreaming:
            plan, why = self.doubtful
            raise wrong(plan, f"the table of a clause over a stream is read by itself without the JVM's extension, and cannot be here: {why}", UNSUPPORTED)

    def _made(self, asked: Streamed, watermarks: list[str], rows: DataFrame, fields: list[T.StructField]) -> DataFrame:
        """The data frame of output. ``rows`` go to the engine, with the columns ``fields``; ``watermarks``: the source's columns
        that have one."""
        plan, ordered = asked.plan, len(asked.plan.order)
        if self.settings.stream_route == OPERATOR:
            raise wrong(plan, "sparkcep.stream.route is operator, and there is none: the JVM's extension is missing, or not for this Spark; set it to auto or frames", UNSUPPORTED)
        if asked.word not in _QUERIES:
            raise wrong(
                plan, f"{asked.word} over a stream needs the JVM's extension: without it a clause over a stream is a program of data frames, which a statement that is kept cannot hold; "
                "give the query alone to spark.sql, and use the data frame (frame.createOrReplaceTempView, frame.writeStream)", UNSUPPORTED,
            )
        if self.settings.late_rows:
            raise wrong(plan, f"sparkcep.stream.lateRows is {self.settings.late_rows!r}, and late rows go to a table by the JVM's extension alone; leave the setting out, and count them (lateRows in the query's progress)", UNSUPPORTED)
        if self.made:
            raise wrong(
                plan, "one query can have one clause over a stream without the JVM's extension, as Spark lets one applyInPandasWithState stand in a query; write each clause's output "
                "by a query of its own", UNSUPPORTED,
            )
        shipped, order = T.StructType(fields[: len(fields) - ordered - 1]), fields[len(fields) - ordered :]
        self._check(plan, watermarks, order, rows)
        told = plan.without_sql().to_json()
        plain = [T.StructField(f.name, f.dataType, f.nullable) for f in shipped]  # the output of applyInPandasWithState has no watermark
        analysis = analyze_planned(T.StructType([*plain, T.StructField(told, T.NullType())]), distinct=True, streaming=True)
        layout = Layout(tuple(shipped.names), tuple(map(shipped.names.index, plan.keys)), ordered, self.settings.stream_buckets)
        kinds = [f.dataType for f in (*shipped.fields, *order)]
        schema = arrow_schema(T.StructType([T.StructField(n, kind) for n, kind in zip([*layout.columns, *layout.order], kinds, strict=True)]))
        texts = {**dict(plan.inputs), **({LETTERS: "; ".join(f"{bit} {text}" for _, bit, text in plan.letters)} if plan.letters else {})}
        columns = [[n, kind.simpleString()] for n, kind in zip([*layout.columns, *layout.order], kinds, strict=True)]
        statement = {"format": STATE_FORMAT, "plan": told, "texts": json.dumps(texts), "where": "", "buckets": layout.buckets, "columns": columns}
        job = Job(told, schema, layout, json.dumps(statement).encode())
        log.warning(
            "over a stream: without the JVM's extension (for Spark 4.1 to 4.3: a JDK beside the driver, or `sparkcep jar` on the server) the clause runs as a program of data frames: "
            "each micro-batch reads and writes the states of all keys, in %d buckets", layout.buckets,
        )
        return _program(rows, job, f"of each key are kept: {'; '.join(kept(plan))}", analysis.schema, analysis.prepared.output_schema, order[0].metadata[WATERMARK])

    def _check(self, plan: Plan, watermarks: list[str], order: list[T.StructField], frame: DataFrame) -> None:
        """Raises ClauseError for a clause that cannot run over this stream."""
        if plan.arcs is not None:
            at = replace(plan, place=Place(plan.arcs.line, plan.arcs.column, plan.arcs.text))
            raise wrong(at, "ARCS FROM over a stream needs the JVM's extension, whose operator reads the table at each micro-batch; write the arcs into the clause, and start the query anew where they change", UNSUPPORTED)
        asked = {
            "plan": plan.to_json(), "on": True, "known": True, "provider": None, "watermarks": watermarks, "types": [f.dataType.simpleString() for f in order],
            "time": order[0].dataType.simpleString() if order else "", "marked": bool(order) and WATERMARK in (order[0].metadata or {}),
            "stateful": _STATEFUL.findall(_analyzed(frame)),
        }
        check_over_stream(asked)


def _check_operators(plan: Plan) -> None:
    """Raises ClauseError for a clause for which there are operators in the JVM's extension alone."""
    if plan.approximate is not None and plan.approximate.budget is not None and plan.approximate.budget.history:
        raise wrong(plan, "the table of USING HISTORY is read at each micro-batch over a stream, which the JVM's extension alone does; leave USING HISTORY out", UNSUPPORTED)
    if plan.aggregates:
        name = plan.aggregates[0].text.partition("(")[0].strip()
        raise wrong(
            plan, f"{name} is an aggregate that Spark computes over the rows of a match, over a stream by the JVM's extension alone; give the values as array_agg, and aggregate these above "
            "the clause (aggregate, array_sort)", UNSUPPORTED,
        )


def wrong(plan: Plan, message: str, sqlstate: str = SEMANTIC) -> ClauseError:
    place = dict(zip(("line", "column", "fragment"), plan.place)) if plan.place else {}
    return ClauseError("STREAM", message, sqlstate=sqlstate, **place)


def _analyzed(frame: DataFrame) -> str:
    """The analysed plan as text, in which nodes over a stream have a mark."""
    if is_connect(frame.sparkSession):
        text = frame._explain_string(extended=True)
        return text.partition("== Analyzed Logical Plan ==\n")[2].partition("\n\n==")[0]
    return frame._jdf.queryExecution().analyzed().toString()


def _program(frame: DataFrame, job: Job, told: str, schema: T.StructType, arrow: pa.Schema, delay: int) -> DataFrame:
    """The data frame of output. ``schema``, ``arrow``: its type; ``delay``: that of the watermark, whose column Spark wants to see
    below what times out."""
    bucketed = T.StructType([
        T.StructField("bucket", T.IntegerType()), T.StructField("at", T.TimestampType(), True, {WATERMARK: delay}), T.StructField("piece", T.BinaryType()),
    ])
    # a user's columns may have any names, by which Spark would look for them
    sent = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    groups = sent.mapInArrow(Pieces(job.layout), bucketed).groupBy("bucket")
    found = groups.applyInPandasWithState(Search(job, told), _OUT, _STATE, "append", "EventTimeTimeout")
    seen = found.observe(OBSERVED, *(F.expr(text).alias(name) for name, text in _METRICS.items()))
    return seen.mapInArrow(Rows(arrow), schema)


_METRICS = {
    "lateRows": "sum(late)", "rowsWithoutTime": "sum(untimed)", "keysSearched": "sum(searched)", "matches": "sum(matches)", "openKeys": "sum(open)", "keptRows": "sum(kept)",
    "pendingRows": "sum(pending)", "stateBytes": "sum(bytes)", "engineTimeMs": "CAST(round(sum(micros) / 1000) AS BIGINT)",
}
