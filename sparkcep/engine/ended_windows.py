"""TOP k of sliding windows over open partitions: a window is told as a whole once no row of it can come.

Of a partition are kept the rows from the first window on that has not ended. A search goes through them as if the partition were
there as a whole, where a window has ended that holds rows, and of its output are given the windows that have ended since the search
before.

Which match ends at a row may depend on all rows whose WINDOW holds it: the cheapest approximate match that ends there is none of a
window that begins behind its first row, and no other takes its place. Then rows are kept by WINDOW longer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa

from sparkcep.automaton.strategy import BY_COST, CHEAPEST
from sparkcep.columns.arrays import null_marks, ranges, words
from sparkcep.engine.buffer import Chunk, Left
from sparkcep.engine.found import Found
from sparkcep.engine.listing import NOTHING_OPEN, ListedForm, Open
from sparkcep.engine.prepared import Task
from sparkcep.engine.tables import Tables
from sparkcep.plan.options import MICROS
from sparkcep.search import codes

NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Ended:
    """Which windows of each partition are told: those that end behind ``after`` and not behind ``until``, int64 (partitions)."""

    after: np.ndarray
    until: np.ndarray


class EndedTables(Tables):
    """Makes output of the matches in windows that are told."""

    ended: Ended | None = None

    def of(self, chunk: Chunk, found: Found) -> Iterator[pa.Table]:
        assert self.ended is not None
        if not len(found.events):
            return
        if "window_end" not in found.by_event:
            found = self._in_windows(chunk, found)
        ends, part = found.by_event["window_end"], found.events[:, codes.E_PART]
        place = words(ends)
        told = np.flatnonzero((null_marks(ends) == 0) & (place > self.ended.after[part]) & (place <= self.ended.until[part]))
        if len(told):
            by_event = {name: values if name == "kind" else values.take(pa.array(told)) for name, values in found.by_event.items()}
            yield from super().of(chunk, replace(found, events=found.events[told], by_event=by_event))


class EndedWindows:
    """Searches the rows of windows that have ended. ``answer``: makes output of whole partitions by ``tables``."""

    form, begin = ListedForm(), NOTHING_OPEN

    def __init__(self, task: Task, answer: Callable[[Chunk], Iterator[pa.Table]], tables: EndedTables) -> None:
        self.task, self.answer, self.tables = task, answer, tables
        window, slide = task.plan.windows[0], task.plan.slide
        assert slide is not None
        self.timed = window.kind == MICROS
        self.size, self.step = int(Fraction(window.size)), int(Fraction(slide.step))
        # how far before a window a match may begin that ends in it and hides others
        self.longer = self.size if task.prepared.strategy.question in (CHEAPEST, BY_COST) else 0

    def over(self, chunk: Chunk, open: Open) -> Generator[pa.Table, None, Left]:
        """Tells the windows that have ended, and leaves the rows of those that have not. Where a search stands is the first row of
        these; the number kept is the place up to which windows were told."""
        assert chunk.watermark is not None
        opens = open.opens(chunk)
        low, high = chunk.offsets[:-1], chunk.offsets[1:]
        known = np.zeros(chunk.parts, dtype=bool)
        known[: len(open.rows)] = open.rows > 0
        after = np.where(known, opens[:, codes.O_NUMBER], NEVER)
        places = self._places(chunk)
        until = np.full(chunk.parts, chunk.watermark + 1) if self.timed else open.gone(chunk.parts) + high - low
        some = np.flatnonzero(opens[:, codes.O_START] < high)
        ends = np.full(chunk.parts, NEVER)
        ends[some] = self._first_end(places[opens[some, codes.O_START]], after[some])
        due = some[ends[some] <= until[some]]
        if len(due):
            self.tables.ended = Ended(after[due], until[due])
            yield from self.answer(_parts(chunk, due))
        begin = self._begin(until)
        opens[:, codes.O_START] = _from(chunk, places, begin)
        opens[:, codes.O_NUMBER], opens[:, codes.O_COVERED] = until, low
        first = _from(chunk, places, begin - self.longer) if self.longer else opens[:, codes.O_START]
        return open.left(chunk, opens, first[chunk.going], self.task.back)

    def dues(self, time: np.ndarray, open: Open) -> np.ndarray:
        """int64 (partitions of which rows are kept behind those that only PREV may look at, others the largest): the watermark at
        which the first window ends that was not told, or, where rows are kept for those to come alone, at which these go. ``time``
        of the kept rows."""
        due = np.full(len(open.rows), np.iinfo(np.int64).max)
        first = np.cumsum(open.rows) - open.rows + open.start
        some = np.flatnonzero(open.start < open.rows)
        due[some] = self._first_end(time[first[some]], open.number[some]) - 1
        if self.longer:
            alone = np.flatnonzero((open.rows > 0) & (open.start == open.rows))
            last = time[first[alone] - 1]
            gone = (last + self.longer) // self.step * self.step + self.size  # where a window ends, before which rows up to the last are kept
            due[alone] = np.where(gone > open.number[alone], gone - 1, due[alone])
        return due

    def _places(self, chunk: Chunk) -> np.ndarray:
        return words(chunk.columns[self.task.plan.windows[0].order]) if self.timed else chunk.positions

    def _begin(self, until: np.ndarray) -> np.ndarray:
        """Where the first window begins that ends behind ``until``."""
        number = (until - self.size) // self.step + 1
        return (number if self.timed else np.maximum(number, 0)) * self.step

    def _first_end(self, place: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Where the first window ends that holds a place and ends behind ``after``."""
        return self._begin(np.maximum(place, after)) + self.size


def _from(chunk: Chunk, places: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """int64 (partitions): the first row of each from its place ``begin`` on, or its end."""
    low, high = chunk.offsets[:-1], chunk.offsets[1:]
    return high - np.add.reduceat(np.append(places >= np.repeat(begin, high - low), 0).astype(np.int64), low) * (high > low)


def _parts(chunk: Chunk, parts: np.ndarray) -> Chunk:
    """Some partitions of a chunk, as if they were there as a whole."""
    sizes = np.diff(chunk.offsets)[parts]
    rows = ranges(chunk.offsets[parts], sizes)
    positions = chunk.positions[rows]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    part = Chunk.whole(chunk.table.take(pa.array(rows)).combine_chunks(), chunk.columns, offsets)
    return replace(part, place=lambda _: positions)
