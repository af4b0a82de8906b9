"""A worker's part of a micro-batch, without Spark."""

from __future__ import annotations

import mmap
import struct
import weakref

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.engine.stream.key_buckets import Layout
from sparkcep.engine.stream.keyed_stream import KeyedStream, order_names
from sparkcep.errors import MatchRuntimeError
from sparkcep.spark.stream import micro_batch
from sparkcep.spark.stream.micro_batch import stream_batches, stream_engine, stream_of
from sparkcep.spark.stream.start_checks import ARCS, HISTORY
from tests.property.stream.streams import HEAD, WINDOW, planned, timed

ALL_ROWS = f"{HEAD} FIRST(id) AS a ALL ROWS PER MATCH PATTERN (A B) {WINDOW} DEFINE A AS v = 1, B AS v = 2"


@pytest.mark.parametrize("name", ["order 0", "order"])
def test_a_users_column_with_the_name_of_one_of_order_by(name):
    plan = planned(ALL_ROWS)
    table = timed(plan, {0: [{"id": i + 1, "v": 1 + i % 2, "w": i, "s": None} for i in range(8)]})
    names = [column if column != "w" else name for column in table.column_names if column not in ("__s0", "__s1")]
    columns = [[column, column, ""] for column in names]
    rows = table.select([*(column if column != name else "w" for column in names), "__s0"]).rename_columns([*names, "time"])
    stream = stream_of(plan.to_json(), columns, names, 1, rows.schema)
    assert stream.schema.names == [*names, *stream.order] and name in stream.engine.task.prepared.output_schema.names

    def batch(number: int, state: bytes | None, some: pa.Table) -> pa.RecordBatch:
        own = [pa.array([number] * some.num_rows, pa.int32()), pa.array([state] * some.num_rows, pa.binary())]
        return pa.RecordBatch.from_arrays([*own, *(column.combine_chunks() for column in some.columns)], names=[*map(str, range(2 + some.num_columns))])

    came = [batch(-(1 << 31), (20).to_bytes(8, "big") + b"file:/state", rows.slice(0, 1)), batch(0, None, rows)]
    emitted = pa.Table.from_batches([*stream_batches(plan.to_json(), columns, names, 1, [], iter(came))])
    values = emitted.column(stream.engine.task.prepared.output_schema.names.index(name)).drop_null().to_pylist()
    assert values == [*range(8)]


def test_more_than_two_gib_of_strings_name_the_setting():
    """The bytes are never touched, because Arrow adds up the lengths first."""
    size = 1 << 30
    plan = planned(ALL_ROWS)
    table = timed(plan, {0: [{"id": i + 1, "v": 1, "w": 0, "s": ""} for i in range(3)]})
    names = [column for column in table.column_names if column not in ("__s0", "__s1")]
    columns, order = [[column, column, ""] for column in names], [*names, "__s0"]
    large = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(struct.pack("<2i", 0, size)), pa.py_buffer(mmap.mmap(-1, size))])
    table = table.select(order).set_column(order.index("s"), "s", pa.chunked_array([large] * 3))
    began = [pa.array([-(1 << 31)], pa.int32()), pa.array([bytes(8) + b"file:/state"], pa.binary()), *(pa.nulls(1, t) for t in table.schema.types)]
    came = [began, *([pa.array([0], pa.int32()), pa.nulls(1, pa.binary()), *batch.columns] for batch in table.to_batches())]
    batches = [pa.RecordBatch.from_arrays(batch, names=[*map(str, range(len(batch)))]) for batch in came]
    stream = stream_of(plan.to_json(), columns, names, 1, table.schema)
    for advance in (
        stream_batches(plan.to_json(), columns, names, 1, [], iter(batches)),
        stream.advance(table.rename_columns(stream.schema.names), np.zeros(3, dtype=np.int64), [b""], 0),
    ):
        with pytest.raises(MatchRuntimeError, match="STATE_LIMIT.*2 GiB.*spark.sql.execution.arrow.useLargeVarTypes"):
            list(advance)


def test_a_state_beyond_what_the_jvm_stores_is_a_limit(monkeypatch):
    monkeypatch.setattr(micro_batch, "_LARGEST", 5)
    states = pa.array([b"", b"12345", b""], pa.large_binary())
    assert [*micro_batch._pieces(states)] == [(0, 3)]
    with pytest.raises(MatchRuntimeError, match="STATE_LIMIT.*a key has 6 bytes, but at most 5 are possible"):
        [*micro_batch._pieces(pa.array([b"1", b"123456"], pa.large_binary()))]


def test_only_the_last_engine_of_a_clause_is_kept(monkeypatch):
    """A table of ARCS FROM or USING HISTORY that changes in each micro-batch would fill a worker's memory."""
    made = []

    def engine(plan, schema, ordered, beside):
        assert not beside or all(other() is None for other in made)  # also while the next one is built
        new = KeyedStream.__new__(KeyedStream)
        made.append(weakref.ref(new))
        return new

    monkeypatch.setattr(micro_batch, "_engine", engine)
    asked = ("a plan of this test", pa.schema([("a", pa.int64())]), 1)
    for content in (b"1", b"2", b"2", b"1"):
        assert stream_engine(*asked, ((ARCS, content),)) is made[-1]()
    assert len(made) == 3
    assert stream_engine(*asked) is stream_engine(*asked) is made[3]()  # a report reads states without the tables
    assert stream_engine(*asked, ((ARCS, b"1"),)) is made[2]() and len(made) == 4


def test_a_history_with_a_string_that_is_not_utf8_is_damaged():
    """Its strings are names. Those of ARCS FROM may be keys, which have any bytes."""
    table = pa.table({"a": pa.array([b"\xff"], pa.binary()).view(pa.string())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    data = sink.getvalue().to_pybytes()
    assert micro_batch._read(data, ARCS).equals(table)
    with pytest.raises(MatchRuntimeError, match="STATE_FORMAT.*the state of a stream's tables .the table of USING HISTORY. cannot be read"):
        micro_batch._read(data, HISTORY)


def test_names_beside_those_of_columns():
    assert order_names(["a"], 2) == Layout(("a",), (0,), 2, 1).order == ["order 0", "order 1"]  # stored states have these names
    assert order_names(["order 1", "order_ 0"], 2) == Layout(("order 1", "order_ 0"), (0,), 2, 1).order == ["order__ 0", "order__ 1"]
    assert order_names(["order 2"], 2) == ["order 0", "order 1"]
