"""Answers for each last row of a match over open partitions: the rows of a window are searched again, and only what is new is told.

What ends at a row depends on the rows of the window that ends there. So of a partition are kept the rows of which a row to come may
have one in its window, and each search goes through them and those that came. Told is what ends at rows that were not told before,
and behind which stand all rows that conditions and measures may look ahead at.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import numbered
from sparkcep.engine.buffer import Chunk, Left
from sparkcep.engine.found import Found
from sparkcep.engine.listing import NOTHING_OPEN, ListedForm, Open
from sparkcep.engine.outputs import end_rows
from sparkcep.engine.prepared import Task
from sparkcep.engine.tables import Tables
from sparkcep.engine.windows import plan_windows
from sparkcep.search import codes


@dataclass
class Telling:
    """Which rows of each partition are told now: int64 (partitions) from ``begin`` to before ``end``; ``number``: of the last
    match, counted on."""

    begin: np.ndarray
    end: np.ndarray
    number: np.ndarray


class NewTables(Tables):
    """Makes output of the matches alone that end at rows which are told now."""

    telling: Telling | None = None

    def of(self, chunk: Chunk, found: Found) -> Iterator[pa.Table]:
        assert self.telling is not None
        if not len(found.events):
            return
        part, last = found.events[:, codes.E_PART], end_rows(found.events, found.rows)[1]
        new = np.flatnonzero((last >= self.telling.begin[part]) & (last < self.telling.end[part]))
        if not len(new):
            return
        by_event = {name: values if name == "kind" else values.take(pa.array(new)) for name, values in found.by_event.items()}
        chosen = replace(found.chosen(new), by_event=by_event)
        part = chosen.events[:, codes.E_PART]
        chosen.events[:, codes.E_NUMBER] = numbered(part) + 1 + self.telling.number[part]
        np.add.at(self.telling.number, part, 1)
        yield from super().of(chunk, chosen)


class Again:
    """Searches the rows of windows again. ``answer``: makes output of whole partitions by ``tables``."""

    form, begin = ListedForm(), NOTHING_OPEN

    def __init__(self, task: Task, answer: Callable[[Chunk], Iterator[pa.Table]], tables: NewTables) -> None:
        self.task, self.answer, self.tables = task, answer, tables

    def over(self, chunk: Chunk, open: Open) -> Generator[pa.Table, None, Left]:
        """Tells what is new, and leaves the rows that one to come may have in its window."""
        assert chunk.closed is not None
        opens = open.opens(chunk)
        low, high = chunk.offsets[:-1], chunk.offsets[1:]
        begin = opens[:, codes.O_START]
        end = np.maximum(begin, np.where(chunk.going, high - self.task.ahead, high))
        self.tables.telling = telling = Telling(begin, end, opens[:, codes.O_NUMBER])
        if (begin < end).any():
            yield from self.answer(replace(chunk, going=np.zeros(chunk.parts, dtype=bool), closed=None))
        backs = plan_windows(self.task.plan.windows, chunk.columns, chunk.offsets)[1]
        first = np.where(end < high, np.minimum(chunk.closed, np.append(backs, 0)[np.minimum(end, chunk.rows)]), chunk.closed)
        opens[:, codes.O_START], opens[:, codes.O_NUMBER], opens[:, codes.O_COVERED] = end, telling.number, low
        return open.left(chunk, opens, first[chunk.going], self.task.back)
