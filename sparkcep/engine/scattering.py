"""What engines share whose matches may have other rows between theirs: windows, and marks of the rows reported."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkcep.engine.run import Data, MatchEngine
from sparkcep.engine.windows import plan_windows
from sparkcep.plan.options import NO_WINDOW

MAX_ENDS_BYTES = 1 << 28  # of a table of completions


class ScatteringEngine(MatchEngine):
    """As :class:`MatchEngine`. ``windowed``: window 0 bounds the whole match; ``negated_at_start``: ``~`` may look at rows before it."""

    scattering = True
    negated_at_start = False

    def __init__(self, prepared, chunk_rows=None, limits=None) -> None:
        super().__init__(prepared, chunk_rows, limits)
        self.windowed = self.plan.windows[0].kind != NO_WINDOW

    def _kernel_data(self, columns: dict[str, pa.Array], offsets: np.ndarray, rows: int) -> Data:
        self._windows, self._backs = plan_windows(self.plan.windows, columns, offsets)
        self._taken = np.zeros(rows, dtype=np.uint8)
        self._taken[: len(self._carry.taken)] = self._carry.taken
        return super()._kernel_data(columns, offsets, rows)

    def _first_needed(self, start: int) -> int:
        first = start
        if self.negated_at_start:
            # a row still to come looks back no farther than the last one here
            first = min(first, int(self._backs[min(start, len(self._backs) - 1)]))
        return first - self.back

    def _taken_from(self, row: int) -> np.ndarray:
        return self._taken[row:].copy() if self.plan.rows == "unmatched" else super()._taken_from(row)
