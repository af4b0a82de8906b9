"""Arrow streams of files that nothing vouches for."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from sparkcep.columns.arrow_streams import read_table

STRINGS = pa.array([b"\x00\xff", b"abc", None], pa.binary()).view(pa.string())


def stream_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    return sink.getvalue().to_pybytes()


def test_a_string_may_hold_any_bytes():
    pairs = pa.MapArray.from_arrays(pa.array([0, 1, 2, 2], pa.int32()), STRINGS.slice(0, 2), STRINGS.slice(0, 2))
    required = pa.StructArray.from_buffers(pa.struct([pa.field("a", pa.string(), False)]), 3, [pa.py_buffer(b"\x03")], children=[STRINGS])  # NULL below NULL
    columns = {
        "required": required, "string": STRINGS, "large": pa.array([b"\xff", b"abc", None], pa.large_binary()).view(pa.large_string()), "struct": pa.StructArray.from_arrays([STRINGS], names=["a"]),
        "list": pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), STRINGS), "map": pairs, "number": pa.array([1, None, 2]),
    }
    table = pa.table(columns)
    assert read_table(stream_of(table)).equals(table)


@pytest.mark.parametrize("nested", [False, True])
def test_lengths_beyond_the_bytes_are_found(nested):
    table = pa.table({"s": pa.ListArray.from_arrays(pa.array([0, 3, 3, 3], pa.int32()), STRINGS) if nested else STRINGS})
    ends = struct.pack("<4i", 0, 2, 5, 5)
    data = stream_of(table)
    assert data.count(ends) == 1 and read_table(data).num_rows == 3
    for wrong in ((0, 2, 1 << 30, 5), (0, 2, 5, 1 << 30), (0, -2, 5, 5), (0, 5, 2, 5)):
        with pytest.raises(ValueError, match="ffset"):
            read_table(data.replace(ends, struct.pack("<4i", *wrong)))
