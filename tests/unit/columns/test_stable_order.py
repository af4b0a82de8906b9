"""The order of rows by several columns, and where partitions begin."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.columns.arrays import boundaries, ranks, stable_order


@pytest.mark.parametrize("wide", [3, 1 << 20, 1 << 40, 1 << 62])
def test_it_is_that_of_numpy(wide):
    """Whether the values fit one number or not."""
    rng = np.random.default_rng(wide)
    for rows in (0, 1, 2, 50, 1000):
        by = [rng.integers(-wide, wide, rows), rng.integers(0, 2, rows).astype(np.uint8), rng.integers(5, 9, rows)]
        assert stable_order(by).tolist() == np.lexsort(by[::-1]).tolist()
    both = [np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min, 0]), np.array([0.5, np.inf, -0.5])]
    assert stable_order(both[:1]).tolist() == [1, 2, 0] and stable_order(both[1:]).tolist() == [2, 0, 1]


def test_null_and_values_that_are_no_numbers_are_one_partition_each():
    keys = pa.array([float("nan"), float("nan"), 1.0, None, None, 0.0, -0.0])
    assert boundaries([keys], len(keys)).tolist() == [0, 2, 3, 5, 7]
    assert boundaries([keys, pa.array([1, 2, 2, 2, 2, 2, 2])], len(keys)).tolist() == [0, 1, 2, 3, 5, 7]


def struct(*fields: pa.Array, names: str, missing: tuple[bool, ...] | None = None) -> pa.Array:
    return pa.StructArray.from_arrays(fields, names=list(names), mask=None if missing is None else pa.array(missing))


NEW_YORK = pa.timestamp("us", "America/New_York")
# 01:30, and the clock is set back: 01:10, 01:30 again
REPEATED_HOUR = pa.array([datetime(2026, 11, 1, 5, 30, tzinfo=UTC), datetime(2026, 11, 1, 6, 10, tzinfo=UTC), datetime(2026, 11, 1, 6, 30, tzinfo=UTC)]).cast(NEW_YORK)
# column -> the ranks of its values
NESTED = {
    "times of one clock time": (struct(REPEATED_HOUR, names="t"), [0, 1, 2]),
    "arrays of such times": (pa.ListArray.from_arrays([0, 2, 3], REPEATED_HOUR), [0, 1]),
    "times after the year 9999": (struct(pa.array([1 << 61, 1 << 60, None], pa.int64()).cast(NEW_YORK), names="t"), [2, 1, 0]),
    "days after the year 9999": (struct(pa.array([1 << 30, -(1 << 30)], pa.int32()).cast(pa.date32()), names="d"), [1, 0]),
    "two fields of one name": (struct(pa.array([1, 1, 0]), pa.array([3, 2, 9]), names="aa"), [2, 1, 0]),
    "missing structs, missing fields": (struct(pa.array([5, None, 4]), names="a", missing=(True, False, False)), [0, 1, 2]),
    "numbers": (struct(pa.array([float("nan"), float("inf"), -0.0, 0.0, None]), names="a"), [3, 2, 1, 1, 0]),
    "strings": (struct(pa.array([b"\xff", b"", b"\xc3\xa9", b"z"]).view(pa.string()), names="a"), [3, 0, 2, 1]),
    "long strings": (struct(pa.array(["b", "a", None], pa.large_string()), names="a"), [2, 1, 0]),
    "arrays": (pa.array([[1, 2], [1], None, [], [None], [1, None]]), [5, 3, 0, 1, 2, 4]),
    "arrays of structs": (pa.array([[{"a": 2}], [{"a": 1}, {"a": 3}], [None]]), [2, 1, 0]),
    "structs without a value": (struct(pa.nulls(2), pa.array([2, 1]), names="ab"), [1, 0]),
    "structs without a field": (pa.array([{}, None, {}], pa.struct([])), [1, 0, 1]),
}


@pytest.mark.parametrize("column, expected", NESTED.values(), ids=NESTED)
def test_nested_values_have_the_order_of_spark(column, expected):
    whole = pa.concat_arrays([column, column.slice(1)])
    for some, places in ((column, expected), (whole.slice(len(column)), expected[1:])):
        ((found,), _) = ranks([some])
        assert found.tolist() == [sorted(set(places)).index(place) for place in places]
        changes = [i for i in range(1, len(places)) if places[i] != places[i - 1]]
        assert boundaries([some], len(places)).tolist() == [0, *changes, len(places)]
    (left, right), _ = ranks([column, column.slice(1)])
    assert left.tolist() == expected and right.tolist() == expected[1:]


def key_of(value):
    """The order of Spark's values in plain Python."""
    match value:
        case None:
            return (0,)
        case dict():
            return (1, [key_of(part) for part in value.values()])
        case list():
            return (1, [key_of(part) for part in value])
        case float() if value != value:
            return (2,)
    return (1, value.encode() if isinstance(value, str) else value)


def random_value(rng, t):
    if rng.random() < 0.2:
        return None
    if pa.types.is_struct(t):
        return {field.name: random_value(rng, field.type) for field in t}
    if pa.types.is_list(t):
        return [random_value(rng, t.value_type) for _ in range(rng.randrange(3))]
    return rng.choice({pa.float64(): [0.0, -0.0, -1.5, 2.0, float("nan"), float("-inf")], pa.int64(): [-300, -1, 0, 256, 1 << 62], pa.bool_(): [True, False]}.get(t, ["", "a", "ab", "b", "é"]))


@pytest.mark.parametrize("t", [
    pa.list_(pa.list_(pa.int64())),
    pa.struct([("a", pa.float64()), ("b", pa.list_(pa.string())), ("c", pa.bool_())]),
    pa.list_(pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.float64()), ("d", pa.string())]))])),
], ids=str)  # fmt: skip
def test_random_nested_values_have_the_order_of_spark(t):
    rng = random.Random(str(t))
    for _ in range(20):
        values = [random_value(rng, t) for _ in range(rng.randrange(60))]
        keys = [key_of(value) for value in values]
        pool = [key for i, key in enumerate(sorted(keys)) if i == 0 or key != sorted(keys)[i - 1]]
        column = pa.array(values, t)
        cut = rng.randrange(len(values) + 1)
        found, _ = ranks([column.slice(0, cut), column.slice(cut)])
        assert np.concatenate(found).tolist() == [pool.index(key) for key in keys]
        assert boundaries([column], len(values)).tolist() == [*(i for i in range(len(keys)) if i == 0 or keys[i] != keys[i - 1]), len(keys)]
