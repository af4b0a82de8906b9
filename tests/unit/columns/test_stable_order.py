"""The order of rows by several columns, and where partitions begin."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sparkcep.columns.arrays import boundaries, stable_order


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
