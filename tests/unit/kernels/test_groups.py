"""The hash table that numbers keys: keys of one kind are spread over its cells."""

from __future__ import annotations

import numpy as np
import pytest

from sparkcep.engine.arrange import groups

LETTERS = np.arange(65, 91, dtype=np.int64)
KINDS = {
    "strings of one letter": LETTERS << 56,
    "strings of two letters": (LETTERS[:, None] << 56 | LETTERS << 48).ravel(),
    "strings of three letters": (LETTERS[:, None, None] << 56 | LETTERS[:, None] << 48 | LETTERS << 40).ravel(),
    "whole numbers as DOUBLE": np.arange(1.0, 4000.0).view(np.int64),
    "whole numbers": np.arange(4000, dtype=np.int64),
    "days in microseconds": np.arange(4000, dtype=np.int64) * 86_400_000_000,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", ["one number", "many numbers"])
def test_keys_are_spread(kind, before):
    words = KINDS[kind] ^ np.int64(-(1 << 63)) if "DOUBLE" not in kind else KINDS[kind]
    numbers = np.zeros(len(words), dtype=np.int32) if before == "one number" else np.arange(len(words), dtype=np.int32)
    cells = 1 << int(2 * len(words) - 1).bit_length()
    with np.errstate(over="ignore"):
        taken = {int(groups.kernels._cell.py_func(number, word, cells - 1)) for number, word in zip(numbers, words)}
    # at random, 1 - exp(-n / cells) of the cells are taken
    assert len(taken) > 0.8 * cells * (1 - np.exp(-len(words) / cells))
