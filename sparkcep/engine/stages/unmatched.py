"""Rows in no match (UNMATCHED ROWS): emits a row once no later match can have it.

The operator says which rows are settled, see :class:`sparkcep.engine.core.operator.Found`. The stage marks the rows of all matches
that pass, and saves the marks of retained rows. The depth-first searches of :mod:`sparkcep.engine.match` emit such rows themselves,
between the matches.

Example: the rows 0 to 4 are searched, and a match has the rows 1 and 2. The operator settles the rows 0 to 2. Row 0 is emitted, and
rows 3 and 4 wait.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import unmatched
from sparkcep.engine.core.operator import Flow, Found, Operator, Stage, Step


class UnmatchedRows(Stage):
    """Emits rows in no match. ``asked``: whether the clause asks for them; otherwise only their marks are saved."""

    def __init__(self, inner: Operator, asked: bool = True) -> None:
        super().__init__(inner)
        self.asked = asked

    def step(self, chunk: Chunk, state: Any) -> Step:
        flow, offsets = Flow(self.inner.step(chunk, state)), chunk.offsets
        own = marks = state.marks(chunk)
        for found in flow:
            if found.chunk.offsets is not offsets:  # other rows: whole partitions of the chunk
                offsets, marks = found.chunk.offsets, np.zeros(found.chunk.rows, dtype=np.uint8)
            found.matches.mark(marks)
            yield found
            if self.asked and found.settled is not None:
                yield Found(found.chunk, unmatched(found.settled[marks[found.settled] == 0], found.chunk))
                marks[found.settled] = 1  # PREV may read a settled row later, so it may be retained
        left = flow.result
        return replace(left, state=left.state.marked(left.rows, own))
