"""The order of rows by several columns."""

from __future__ import annotations

import numpy as np
import pytest

from sparkcep.columns.arrays import stable_order


@pytest.mark.parametrize("wide", [3, 1 << 20, 1 << 40, 1 << 62])
def test_it_is_that_of_numpy(wide):
    """Whether the values fit one number or not."""
    rng = np.random.default_rng(wide)
    for rows in (0, 1, 2, 50, 1000):
        by = [rng.integers(-wide, wide, rows), rng.integers(0, 2, rows).astype(np.uint8), rng.integers(5, 9, rows)]
        assert stable_order(by).tolist() == np.lexsort(by[::-1]).tolist()
    both = [np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min, 0]), np.array([0.5, np.inf, -0.5])]
    assert stable_order(both[:1]).tolist() == [1, 2, 0] and stable_order(both[1:]).tolist() == [2, 0, 1]
