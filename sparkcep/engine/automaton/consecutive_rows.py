"""CONSECUTIVE BY: rows to which no computation may step."""

from __future__ import annotations

import numpy as np

from sparkcep.columns.arrays import null_marks, words
from sparkcep.engine.core.chunk import Chunk


def apart(chunk: Chunk, consecutive: str) -> np.ndarray:
    """bool (rows): whether no computation may step to the row from the one before it; ``consecutive``: the column of numbers."""
    found = np.ones(chunk.rows, dtype=bool)
    numbers, null = words(chunk.columns[consecutive]).astype(np.int64), null_marks(chunk.columns[consecutive]).astype(bool)
    # a number behind another is not the least one, so that nothing wraps
    found[1:] = ~((numbers[1:] > numbers[:-1]) & (numbers[1:] - 1 == numbers[:-1])) | null[1:] | null[:-1]
    found[chunk.offsets[:-1][np.diff(chunk.offsets) > 0]] = True
    return found
