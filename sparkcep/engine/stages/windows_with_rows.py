"""Windows with rows: REPORT CHANGES beside TOP k OVERALL marks each sliding window that holds a row of a partition.

Spark compares the list of a window with that of the window before, among the windows that hold a row of any partition. A partition
knows its own rows only, so it emits one event without rows for each of its windows. Spark drops these events after the comparison.
The engine's factory puts the stage around the search of whole partitions.

Example: windows of 10 begin at multiples of 5, and a partition has a row at 12. It marks the windows at 5 and at 10.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import WITH_ERRORS, MatchBatch
from sparkcep.engine.core.operator import Answer, Found
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import Slides
from sparkcep.engine.output.tables import sliding_of
from sparkcep.kernels.common.layout import E_PART, E_START


class WindowsWithRows:
    """Adds the marks of windows to the matches of whole partitions. ``inner``: finds the matches."""

    def __init__(self, task: Task, inner: Answer) -> None:
        self.task, self.inner = task, inner
        schema = task.prepared.output_schema
        self.types = {leaf.spec.kind: schema.field(leaf.name).type for leaf in task.plan.leaves}

    def answer(self, chunk: Chunk) -> Iterator[Found]:
        """Yields the matches of whole partitions, then the marks of their windows."""
        yield from self.inner(chunk)
        yield Found(chunk, self._marks(chunk, sliding_of(self.task, chunk)))

    def _marks(self, chunk: Chunk, sliding: Slides) -> MatchBatch:
        """Returns an event without rows for each window, at its first row."""
        events = np.zeros((len(sliding.numbers), WITH_ERRORS), dtype=np.int64)
        events[:, E_PART] = parts = np.repeat(np.arange(chunk.parts), np.diff(sliding.bounds))
        events[:, E_START] = sliding.first
        found = {kind: pa.nulls(len(events), kind_type) for kind, kind_type in self.types.items()}
        found |= dict(zip(("window_start", "window_end"), sliding.windows(sliding.numbers))) | sliding.compared(chunk, parts, sliding.numbers)
        return MatchBatch(events, np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.int64), by_event=found)
