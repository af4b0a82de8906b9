"""The bounds of WINDOW and of group windows, as the engine computes them for the rows of a partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import flat
from sparkcep.engine.core.windows import plan_windows
from sparkcep.plan.options import NO_WINDOW
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Window

NO_END = 1 << 62


class Shifted(list):
    """Values of a part of a partition, by the number of the row in the partition. ``first``: the row of the first value."""

    def __init__(self, values: Iterable[Any], first: int) -> None:
        super().__init__(values)
        self.first = first

    def __getitem__(self, row: int) -> Any:
        if row < self.first:
            raise IndexError(row)
        return super().__getitem__(row - self.first)


@dataclass(frozen=True)
class Windows:
    """The windows of a plan over the rows of a partition.

    Attributes:
        windows: WINDOW, then the window of each group; empty if the clause has none.
        ends: for each window and row, the first row outside a window that begins with the row.
        nulls: for each window and row, whether the row's time is NULL.
    """

    windows: tuple[Window, ...] = ()
    ends: tuple[list[int], ...] = ()
    nulls: tuple[list[bool], ...] = ()

    @staticmethod
    def of(plan: Plan, table: pa.Table, first: int = 0) -> Windows:
        """The windows over rows. ``first``: the number of the first row in its partition."""
        if not plan.windows:
            return Windows()
        columns: Mapping[str, pa.Array] = {window.order: flat(table[window.order]) for window in plan.windows if window.order}
        ends, _ = plan_windows(plan.windows, dict(columns), np.array([0, table.num_rows], dtype=np.int64))
        nulls = tuple(columns[window.order].is_null().to_pylist() if window.order else [False] * table.num_rows for window in plan.windows)
        if not first:
            return Windows(plan.windows, tuple(found.tolist() for found in ends), nulls)
        return Windows(plan.windows, tuple(Shifted((found + first).tolist(), first) for found in ends), tuple(Shifted(found, first) for found in nulls))

    @property
    def bounded(self) -> bool:
        """Whether WINDOW bounds the match."""
        return bool(self.windows) and self.windows[0].kind != NO_WINDOW

    def end(self, first: int) -> int:
        """The first row outside of WINDOW if the match begins with the row ``first``. Without WINDOW it is after all rows."""
        return self.ends[0][first] if self.bounded else NO_END

    def refused(self, window: int, first: int, row: int) -> str:
        """Why a row cannot be in a window that begins with the row ``first``; "" if it can."""
        if not self.windows or self.windows[window].kind == NO_WINDOW:
            return ""
        if self.nulls[window][first] or self.nulls[window][row]:
            return "NULL_TIME"
        if row < self.ends[window][first]:
            return ""
        return "GROUP_WINDOW" if window else "WINDOW"
