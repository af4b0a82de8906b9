"""Values of columns, in Python and as ranks: equal, and ordered, as Spark's."""

from __future__ import annotations

import math
from datetime import date

import pyarrow as pa
import pytest

from sparkcep.columns.arrays import boundaries, value_ranks
from sparkcep.columns.comparable import comparable, readable

# 00:30 and 01:30 by UTC on 2026-10-25: in Berlin the clock shows 02:30 twice
TWICE = [1792888200_000000, 1792891800_000000]
FAR = 1 << 61


def within(values: pa.Array) -> list[pa.Array]:
    """The values themselves, in structs, in arrays, and in structs of arrays."""
    lists = pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), values)
    return [values, pa.StructArray.from_arrays([values], names=["a"]), lists, pa.StructArray.from_arrays([lists], fields=[pa.field("b", lists.type, False)])]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", None])
def test_times_of_a_repeated_hour_differ(zone):
    times = pa.array([*reversed(TWICE), FAR, TWICE[0]], pa.int64()).cast(pa.timestamp("us", zone))
    assert comparable(times) == [*reversed(TWICE), FAR, TWICE[0]]
    for column in within(times):
        assert value_ranks([column]).tolist() == [1, 0, 2, 0]
        assert boundaries([column], 4).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_strings_sort_by_their_bytes(kind):
    texts = pa.array([b"\xff", b"a", "\uffee".encode(), "\U0001f600".encode(), b"a\xff", b""], pa.large_binary()).cast(pa.large_binary() if kind == pa.large_string() else pa.binary()).view(kind)
    for column in within(texts):
        assert boundaries([column], 6).tolist() == [*range(7)]
        assert value_ranks([column]).tolist() == [5, 1, 3, 4, 2, 0]
    assert comparable(texts)[:2] == [b"\xff", b"a"]


def test_null_is_first_and_nan_last():
    numbers = pa.array([math.nan, 1.5, None, math.inf, -0.0, 0.0])
    for column in within(numbers):
        assert value_ranks([column]).tolist() == [4, 2, 0, 3, 1, 1]
    assert value_ranks([pa.array([None, [], [None], [1, None], [1]])]).tolist() == [0, 1, 2, 4, 3]


def test_fields_that_are_not_null_below_a_struct_that_is():
    times = pa.array([None, 5], pa.timestamp("us"))
    column = pa.StructArray.from_buffers(pa.struct([pa.field("a", times.type, False)]), 2, [pa.py_buffer(b"\x02")], children=[times])
    assert comparable(column) == [None, {"a": 5}]


def test_values_that_python_cannot_represent_have_other_forms():
    days = pa.array([0, 4_000_000, 4_000_000], pa.int32()).cast(pa.date32())
    texts = pa.array([b"a", b"b", b"\xff"], pa.binary()).view(pa.string())
    assert readable(days) == [date(1970, 1, 1), 4_000_000, 4_000_000]
    assert readable(texts) == ["a", "b", b"\xff"]
    both = pa.StructArray.from_arrays([days, texts], names=["d", "s"])
    assert readable(both) == [{"d": date(1970, 1, 1), "s": "a"}, {"d": 4_000_000, "s": "b"}, {"d": 4_000_000, "s": b"\xff"}]
    assert readable(pa.chunked_array([both])) == readable(both)
