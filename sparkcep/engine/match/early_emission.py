"""Early emission: decides when a stream's ALL MATCHES search runs. Each match is emitted with its last row.

The search restarts from every row whose window is open, to find matches that end at the new rows. If conditions are local to their
rows, it enters only runs that end there. Other conditions make it repeat failed attempts, which costs as much as there are retained
rows. So a partition with many rows is searched only once in each sixteenth of WINDOW. Rows whose window has closed are always
searched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparkcep.columns.arrays import words
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.windows import whole_micros
from sparkcep.plan.options import MICROS
from sparkcep.plan.records import Window

MANY_ROWS, SHARE = 256, 16  # with more rows than MANY_ROWS a partition is searched SHARE times in a WINDOW


@dataclass(frozen=True)
class EarlyEmission:
    """When a partition is searched for new matches.

    Attributes:
        window: the window of the match.
        looks: whether conditions, negations or windows of groups look at the match.
        ahead: how many rows after a row navigation may look.
    """

    window: Window
    looks: bool
    ahead: int

    @property
    def step(self) -> int:
        """By how many microseconds a match may be emitted late."""
        return max(whole_micros(self.window.size) // SHARE, 1)

    def put_off(self, chunk: Chunk, emitted: np.ndarray) -> np.ndarray:
        """Returns whether the search of rows with an open window is put off. bool (partitions).

        ``emitted`` is the row before which all matches that end have been emitted. int64 (partitions).
        """
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
        """Returns the partitions with rows that are not searched yet, and the watermark that makes them due. int64 each.

        Args:
            time: the time of the retained rows. int64 (rows).
            rows: how many rows each partition retains.
            emitted: the row before which all matches that end have been emitted, counted from the partition's first retained row.
        """
        some = np.flatnonzero(emitted < rows) if self.looks else np.zeros(0, dtype=np.int64)
        return some, time[(np.cumsum(rows) - rows + emitted)[some]] + self.step
