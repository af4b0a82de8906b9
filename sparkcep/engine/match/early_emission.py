"""When ALL MATCHES over a stream are searched, each of which is told with its last row.

A search begins anew at all rows of which WINDOW goes on, for the sake of what ends at rows that came. By conditions local to their
rows it enters only what ends there. Other conditions let it try again what failed before, which costs as much as rows are kept; so
where these are many, they are searched once for each sixteenth of WINDOW. Rows whose WINDOW has ended are searched at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparkcep.columns.arrays import words
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.windows import whole_micros
from sparkcep.plan.options import MICROS
from sparkcep.plan.records import Window

MANY_ROWS, SHARE = 256, 16  # more rows of a partition than that are searched so many times in a WINDOW


@dataclass(frozen=True)
class EarlyEmission:
    """``window``: that of the match; ``looks``: whether conditions, negations or windows of groups look at the match; ``ahead``: by
    how many rows navigation may leave one."""

    window: Window
    looks: bool
    ahead: int

    @property
    def step(self) -> int:
        """Microseconds by which a match may be told late."""
        return max(whole_micros(self.window.size) // SHARE, 1)

    def put_off(self, chunk: Chunk, emitted: np.ndarray) -> np.ndarray:
        """Where rows whose WINDOW goes on are not searched now. bool (partitions). ``emitted``: the row before which all matches that
        end have been emitted, int64 (partitions)."""
        low, high = chunk.offsets[:-1], chunk.offsets[1:]
        found = emitted >= high - self.ahead
        if self.looks and chunk.rows:
            if self.window.kind == MICROS and chunk.watermark is not None:
                time = words(chunk.columns[self.window.order])
                early = time[np.minimum(emitted, chunk.rows - 1)] + self.step > chunk.watermark
            else:
                early = (high - self.ahead - emitted) * SHARE < high - low
            found |= early & (high - low > MANY_ROWS)
        return found & chunk.going

    def dues(self, time: np.ndarray, rows: np.ndarray, emitted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """int64: the partitions of which rows are not searched, and the watermark at which they are. ``time`` int64 (rows) of those
        kept, of each partition so many ``rows``, of which so many are ``emitted``."""
        some = np.flatnonzero(emitted < rows) if self.looks else np.zeros(0, dtype=np.int64)
        return some, time[(np.cumsum(rows) - rows + emitted)[some]] + self.step
