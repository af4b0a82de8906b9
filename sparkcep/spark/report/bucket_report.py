"""Reads the matches in progress of a clause over a stream that runs as a program of DataFrames, for the report of a query.

It reads the key buckets from the checkpoint with Spark's state data source, in classic sessions and over Spark Connect.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sparkcep.engine.stream.key_buckets import Bucket
from sparkcep.plan.plan import Plan
from sparkcep.spark.exec.table_function import arrow_schema
from sparkcep.spark.stream.frames.checkpoint import statement_of, states
from sparkcep.spark.stream.micro_batch import stream_engine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACE = re.compile(r"FlatMapGroupsInPandasWithState match_recognize by data frames.*?state info \[ checkpoint = (.*?)/state, runId", re.S)
_FOUND = "key ARRAY<STRING>, since BIGINT, rows BIGINT, pending BIGINT, bytes BIGINT"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def checkpoint_of(physical: str) -> str | None:
    """Returns the checkpoint folder of a query whose plan as text is ``physical``. Returns None if the query runs otherwise."""
    found = _PLACE.search(physical)
    return found[1] if found else None


def under_way(spark: SparkSession, checkpoint: str, most: int) -> DataFrame | None:
    """Returns the keys whose match has been in progress longest, at most ``most`` per bucket.

    Returns None before any state is committed.
    """
    kept = states(spark, checkpoint)
    text = statement_of(kept, checkpoint)
    if text is None:
        return None
    statement = json.loads(text)
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in statement["columns"])
    schema = arrow_schema(spark.createDataFrame([], ddl).schema)
    return kept.mapInArrow(functools.partial(_oldest, statement["plan"], schema, most), _FOUND)


def _oldest(text: str, schema: pa.Schema, most: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the keys of each bucket that have waited longest."""
    from sparkcep.engine.stream.inspection import summary

    plan = Plan.from_json(text)
    stream = stream_engine(text, schema, len(plan.order))
    kinds = [schema.field(name).type for name in plan.keys]
    for batch in batches:
        for state in batch.column(0):
            keys = Bucket.read(state.as_py()).keys
            states = keys.column("state").combine_chunks()
            found = summary(stream, states)
            some = np.flatnonzero(found.open)
            some = some[np.lexsort((-found.rows[some], found.since[some]))][:most]
            values = [
                pa.array([_shown(key, kinds) for key in keys.column("key").take(pa.array(some)).to_pylist()], pa.list_(pa.string())),
                pa.array(found.since[some], mask=np.full(len(some), not found.timed)), pa.array(found.rows[some]), pa.array(found.pending[some]),
                pa.array([len(states[i].as_py()) for i in some.tolist()], pa.int64()),
            ]
            yield pa.record_batch(values, names=["key", "since", "rows", "pending", "bytes"])


def _shown(key: bytes, kinds: list[pa.DataType]) -> list[str | None]:
    """Returns the values of a key as texts. If the key's stored text cannot be parsed, returns that text."""
    try:
        values = ast.literal_eval(key.decode())
    except ValueError:  # decimals, and values that contain them
        return [key.decode()]
    return [None if value is None else _text(value, kind) for value, kind in zip(values, kinds, strict=True)]


def _text(value: object, kind: pa.DataType) -> str:
    """Returns a value of a key as text. Numbers and times are stored as their bits."""
    if isinstance(value, bool):
        return str(value).lower()
    if pa.types.is_floating(kind) and isinstance(value, int):
        double = pa.types.is_float64(kind)
        return str(struct.unpack("<d" if double else "<f", struct.pack("<q" if double else "<i", value))[0])
    if pa.types.is_timestamp(kind) and isinstance(value, int):
        return (_EPOCH + timedelta(microseconds=value)).strftime("%Y-%m-%d %H:%M:%S.%f") + (" UTC" if kind.tz else "")
    if pa.types.is_date(kind) and isinstance(value, int):
        return (_EPOCH + timedelta(days=value)).strftime("%Y-%m-%d")
    return str(value)
