"""The order of a stream's rows is Spark's."""

from __future__ import annotations

import decimal
import math
import random

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.engine.stream.keyed_stream import _sorted
from sparkcep.plan.records import Order

_VALUES = {
    pa.float64(): [0.0, -0.0, 1.5, -2.0, math.nan, -math.nan, math.inf, -math.inf, None],
    pa.float32(): [0.0, -0.0, 1.5, -2.0, math.nan, None],
    pa.string(): ["", "a", "B", "b", "\u00e9", "ab", None],
    pa.binary(): [b"", b"\xff", b"a", None],
    pa.decimal128(12, 2): [decimal.Decimal("1.50"), decimal.Decimal("-3.00"), decimal.Decimal("0.00"), None],
    pa.int64(): [3, -(2**63), 2**63 - 1, 0, None],
    pa.bool_(): [True, False, None],
}


def _place(value) -> tuple:
    """NaN is after all numbers; strings are sorted by their bytes."""
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    return (0, value.encode() if isinstance(value, str) else value)


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_sorted_as_in_spark(seed):
    rng = random.Random(seed)
    for _ in range(20):
        types, count = rng.sample(list(_VALUES), 2), rng.randint(0, 30)
        order = [Order(f"o{i}", f"o{i}", rng.random() < 0.5, rng.choice([None, True, False]), True) for i in range(2)]
        rows = [(rng.randint(0, 2), *(rng.choice(_VALUES[t]) for t in types)) for _ in range(count)]
        wanted = list(range(count))
        for i in (1, 0):  # the last of the expressions first, as each keeps the order of what ties
            item, first = order[i], order[i].nulls_first
            there = sorted((r for r in wanted if rows[r][i + 1] is not None), key=lambda r: _place(rows[r][i + 1]))
            if item.descending:  # rows that tie stay as they were
                there = [r for place in sorted({_place(rows[r][i + 1]) for r in there}, reverse=True) for r in there if _place(rows[r][i + 1]) == place]
            null = [r for r in wanted if rows[r][i + 1] is None]
            wanted = null + there if (not item.descending if first is None else first) else there + null
        wanted.sort(key=lambda r: rows[r][0])
        columns = [pa.array([row[i + 1] for row in rows], t) for i, t in enumerate(types)]
        found = _sorted(np.array([row[0] for row in rows], dtype=np.int64), columns, order)
        assert found.tolist() == wanted, (types, order, rows)
