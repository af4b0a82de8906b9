"""The code that workers run for a clause over a stream that is a program of DataFrames.

:mod:`sparkcep.spark.stream.frames.program` builds the program. Pandas only sees bytes, so values keep their Arrow types.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark.sql import types as T

from sparkcep.engine.stream.key_buckets import Bucket, CountedKeys, Layout, advance, output, pieces, read
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.plan.plan import Plan
from sparkcep.spark.exec.table_function import reported_alone
from sparkcep.spark.stream.micro_batch import stream_engine
from sparkcep.spark.stream.restart_checks import check_changed

if TYPE_CHECKING:
    import pandas as pd

    from sparkcep.engine.stream.keyed_stream import KeyedStream

COUNTS = [*CountedKeys._fields]
OUT = T.StructType([T.StructField("piece", T.BinaryType()), *(T.StructField(name, T.LongType()) for name in COUNTS)])


@dataclass(frozen=True)
class Job:
    """The clause as workers know it: its plan as JSON, the schema and layout of the pieces, and the checkpoint's statement."""

    plan: str
    schema: pa.Schema
    layout: Layout
    statement: bytes

    @property
    def engine(self) -> KeyedStream:
        return stream_engine(self.plan, self.schema, self.layout.ordered)


@dataclass(frozen=True)
class Pieces:
    """Turns a task's rows into pieces, under ``mapInArrow``.

    ``number``: the clause's number. It keeps Spark from merging the rows of two clauses into one exchange, which would set a
    watermark for the first one only.
    """

    layout: Layout
    number: int

    @property
    def __name__(self) -> str:
        return "match_recognize_pieces"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = self.layout.buckets
        for found in pieces(batches, self.layout):
            columns = {"bucket": pa.array(range(count), pa.int32()), "at": pa.nulls(count, pa.timestamp("us", "UTC")), "piece": pa.array(found, pa.binary())}
            yield pa.record_batch(columns)


class Held(Protocol):
    """The state of a bucket, with the interface of Spark's GroupState."""

    @property
    def exists(self) -> bool: ...

    @property
    def get(self) -> tuple: ...

    def update(self, value: tuple) -> None: ...

    def getCurrentWatermarkMs(self) -> int: ...

    def setTimeoutTimestamp(self, timestampMs: int) -> None: ...


@dataclass(frozen=True)
class Search:
    """Searches a bucket of keys, under ``applyInPandasWithState``.

    It asks to be called again as soon as the watermark moves. So the bucket always knows the previous micro-batch's watermark,
    which decides which rows are late.

    Attributes:
        job: the clause.
        ``states``: the state of each key in words, for EXPLAIN.
        ``behind``: how many milliseconds the watermark of the rows trails Spark's, if they are the output of other clauses.
    """

    job: Job
    states: str
    behind: int = 0

    @property
    def __name__(self) -> str:
        return f"match_recognize by data frames, {self.states}, "

    def __call__(self, key: tuple, frames: Iterator[pd.DataFrame], state: Held) -> Iterator[pd.DataFrame]:
        import pandas as pd

        began, waited = time.perf_counter(), 0.0
        came = [piece for frame in frames for piece in frame["piece"] if piece is not None]
        moved = max(state.getCurrentWatermarkMs(), 0)
        watermark = max(moved - self.behind, 0)
        before = self._before(state)
        search = advance(self.job.engine, came, before, 1000 * watermark)
        with reported_alone(Plan.from_json(self.job.plan)):
            for piece in output(tables := _Returned(search)):
                asked = time.perf_counter()
                yield pd.DataFrame({"piece": [piece], **dict.fromkeys(COUNTS, 0)})
                waited += time.perf_counter() - asked
            after, counted = tables.value
            if after != before or not state.exists:
                state.update((after.written(),))
        state.setTimeoutTimestamp(max(moved, 1))  # it times out once the watermark is larger
        counted = counted._replace(micros=round((time.perf_counter() - began - waited) * 1e6))
        yield pd.DataFrame({"piece": [None], **{name: [count] for name, count in zip(COUNTS, counted, strict=True)}})

    def _before(self, state: Held) -> Bucket:
        job = self.job
        if not state.exists:
            return Bucket.new(job.statement)
        (data,) = state.get
        with reported_alone(Plan.from_json(job.plan)):
            bucket = Bucket.read(bytes(data))
            if bucket.statement != job.statement:
                _check_same(bucket.statement, job.statement)
        return Bucket(bucket.keys, bucket.watermark, job.statement, bucket.kept, bucket.pending)


class _Returned:
    """Iterates a generator and keeps its return value as ``value``."""

    def __init__(self, generator: Any) -> None:
        self.generator, self.value = generator, None

    def __iter__(self) -> Iterator[pa.Table]:
        self.value = yield from self.generator


@dataclass(frozen=True)
class Rows:
    """Turns pieces of output into rows, under ``mapInArrow``. ``name`` identifies the clause in a plan."""

    schema: pa.Schema
    name: str

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for piece in batch.column(0):
                if piece.is_valid:
                    yield from read(piece.as_py(), self.schema)


def _check_same(before: bytes, now: bytes) -> None:
    """Raises MatchRuntimeError if a statement cannot resume from the state of the statement before."""
    try:
        check_changed(json.loads(before), json.loads(now))
    except ClauseError as error:
        place = {"line": error.line, "column": error.column, "fragment": error.fragment}
        raise MatchRuntimeError(error.error_class.removeprefix("SPARKCEP."), error.message, sqlstate=error.sqlstate, **place) from None
