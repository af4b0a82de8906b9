"""Ranks of matches over a stream without the JVM extension."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkcep.plan.scope import RANK
from sparkcep.spark.stream.frames.ranks import best, neighbours

TWICE = 1792891800_000000, 1792888200_000000  # 2026-10-25 01:30 and 00:30 by UTC: in Berlin the clock shows 02:30 both times
COLUMNS = {
    "time": pa.array([TWICE[0], TWICE[1], 1 << 60, None, TWICE[1]]).cast(pa.timestamp("us", "Europe/Berlin")),
    "day after the year 9999": pa.array([9, 8, 1 << 30, None, 8], pa.int32()).cast(pa.date32()),
    "string": pa.array([b"a\xff", b"a", b"\xff", None, b"a"], pa.binary()).view(pa.string()),
}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("name", COLUMNS)
def test_ranks_are_in_the_order_of_spark(name, nested):
    column = pa.StructArray.from_arrays([COLUMNS[name]], names=["a"]) if nested else COLUMNS[name]
    rows = pa.table({"n": range(5), "by": column})
    assert best(rows, 9, (False,)).column(RANK).to_pylist() == [3, 2, 4, 1, 2]
    assert best(rows, 9, (True,)).column(RANK).to_pylist() == [2, 3, 1, 4, 3]


def test_times_are_returned_in_utc():
    """Spark refuses them in another zone."""
    berlin, utc = (COLUMNS["time"].cast(pa.timestamp("us", zone)) for zone in ("Europe/Berlin", "UTC"))
    given, wanted = (pa.table({"t": column, "s": pa.StructArray.from_arrays([column], fields=[pa.field("a", column.type, False)])}) for column in (berlin, utc))
    assert best(given.append_column("by", pa.array(range(5))), 9, (False,)).drop_columns([RANK]).equals(wanted)
    found = neighbours(given, 0, 0)
    assert found.schema.types == [*wanted.schema.types, utc.type, utc.type]
