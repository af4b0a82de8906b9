"""A worker's part of a micro-batch, without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkcep.engine.stream.key_buckets import Layout
from sparkcep.engine.stream.keyed_stream import order_names
from sparkcep.spark.stream.micro_batch import stream_batches, stream_of
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


def test_names_beside_those_of_columns():
    assert order_names(["a"], 2) == Layout(("a",), (0,), 2, 1).order == ["order 0", "order 1"]  # stored states have these names
    assert order_names(["order 1", "order_ 0"], 2) == Layout(("order 1", "order_ 0"), (0,), 2, 1).order == ["order__ 0", "order__ 1"]
    assert order_names(["order 2"], 2) == ["order 0", "order 1"]
