"""CONSECUTIVE BY: finds the rows that no run may reach from the previous row, because the numbers have a gap.

:class:`sparkcep.engine.automaton.register_runs.RegisterRuns` marks these rows for its kernel.
"""

from __future__ import annotations

import numpy as np

from sparkcep.columns.arrays import null_marks, words
from sparkcep.engine.core.chunk import Chunk


def apart(chunk: Chunk, consecutive: str) -> np.ndarray:
    """Whether no run may step to a row from the row before it. bool (rows).

    ``consecutive``: the column of numbers. A NULL and the first row of a partition also count as a gap.
    """
    found = np.ones(chunk.rows, dtype=bool)
    numbers, null = words(chunk.columns[consecutive]).astype(np.int64), null_marks(chunk.columns[consecutive]).astype(bool)
    # A number that is greater than another is not the least one, so the subtraction does not wrap where it counts.
    found[1:] = ~((numbers[1:] > numbers[:-1]) & (numbers[1:] - 1 == numbers[:-1])) | null[1:] | null[:-1]
    found[chunk.offsets[:-1][np.diff(chunk.offsets) > 0]] = True
    return found
