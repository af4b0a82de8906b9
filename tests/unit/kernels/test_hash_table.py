"""Hash tables of the kernels: keys of all kinds are spread over the cells."""

from __future__ import annotations

import numpy as np
import pytest

from sparkcep.kernels.common.hash_table import place_of


@pytest.mark.parametrize("value", [float, int, lambda i: i / 8, lambda i: i << 40], ids=["whole numbers as DOUBLE", "whole numbers", "eighths", "large steps"])
def test_keys_that_differ_in_one_word_have_cells_of_their_own(value):
    """About 900 of 4096 cells would hold 1000 keys at random."""
    entries, table = np.zeros((0, 5), dtype=np.int64), np.zeros(4096, dtype=np.int64)
    words = np.array([value(i) for i in range(1, 1001)]).view(np.int64).tolist()
    for place in (3, 4):
        keys = np.array([[2, 7, 9, 0, 0]] * len(words), dtype=np.int64)
        keys[:, place] = words
        assert len({int(place_of(key, entries, table)) for key in keys}) > 700
