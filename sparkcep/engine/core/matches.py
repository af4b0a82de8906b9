"""Match batches: the arrays of matches that searches find and that output rows are made of."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import numbered, ranges
from sparkcep.engine.core.chunk import Chunk
from sparkcep.kernels.common.layout import E_LABELS, E_NUMBER, E_PART, E_ROWS, E_START

WIDTH, WITH_ERRORS = 5, 6  # columns of an event; the sixth is the accepting edge of an approximate match
_NONE = np.zeros(0, dtype=np.int64)
_NO_TOTALS = np.zeros(0, dtype=object)
_NO_JOINS = np.zeros((0, 4), dtype=np.int64)


@dataclass(frozen=True)
class MatchBatch:
    """Matches as arrays: an event for each match, and a label for each of its rows.

    Example: exact matches of adjacent rows. The rows 4, 5 and 6 of partition 1 are a match with the labels A, B and B (variables 0
    and 1). Its event is partition 1, first row 4, 3 rows, match number 1, first label 0. ``labels`` is ``[0, 1, 1]``; ``rows`` and
    ``paths`` are empty.

    Attributes:
        events: int64 (matches, 5 or 6), see the columns ``E_`` of :mod:`sparkcep.kernels.common.layout`.
        labels: the variable of each label. uint8 (labels).
        rows: the row of each label. int64 (labels), empty if the rows of a match are adjacent.
        paths: the edge of each label. int64 (labels), empty for exact matches.
        by_event: for each kind of leaf that describes a whole match, the value of each event. Rows in no match need none.
        totals: how many matches end at the last row of each event. Python's integers (matches), empty if nothing asks for it.
        joins: how matches that share their ends continue, see :class:`sparkcep.kernels.match.backtrack.SharedEnds`. int64 (matches,
            4), empty if each match has all its labels.
        variables: the names of the variables, if arcs of ARCS FROM added some to those of the plan; else empty.
    """

    events: np.ndarray
    labels: np.ndarray
    rows: np.ndarray
    paths: np.ndarray = field(default_factory=lambda: _NONE)
    by_event: dict[str, pa.Array] = field(default_factory=dict)
    joins: np.ndarray = field(default_factory=lambda: _NO_JOINS)
    totals: np.ndarray = field(default_factory=lambda: _NO_TOTALS)
    variables: tuple[str, ...] = ()

    @staticmethod
    def none(width: int = WIDTH) -> MatchBatch:
        return MatchBatch(np.zeros((0, width), dtype=np.int64), np.zeros(0, dtype=np.uint8), _NONE)

    def joined(self, more: MatchBatch) -> MatchBatch:
        """Returns these matches followed by more of them."""
        return together([self, more])

    def matches(self) -> MatchBatch:
        """Drops empty matches and the events of rows that are in no match. The values ``by_event`` are dropped too."""
        events = self.events[self.events[:, E_ROWS] > 0]
        used = int((events[:, E_LABELS] + events[:, E_ROWS]).max(initial=0))  # with sides, events are not in the order of their labels
        return MatchBatch(events, self.labels[:used], self.rows[:used], self.paths[:used], variables=self.variables)

    def chosen(self, which: np.ndarray) -> MatchBatch:
        """Returns the events with these numbers, with their labels and values."""
        assert not len(self.joins)
        events = self.events[which]
        sizes = np.maximum(events[:, E_ROWS], 0)
        at = ranges(events[:, E_LABELS], sizes)
        events[:, E_LABELS] = np.cumsum(sizes) - sizes
        by_event = {name: values.take(pa.array(which)) for name, values in self.by_event.items()}
        labels, rows, paths = (values[at] if len(values) else values for values in (self.labels, self.rows, self.paths))
        return MatchBatch(events, labels, rows, paths, by_event, totals=self.totals[which] if len(self.totals) else self.totals, variables=self.variables)

    def numbered(self, before: np.ndarray | None = None) -> MatchBatch:
        """Numbers the matches of each partition, from 1 or from the number after ``before``. int64 (partitions)."""
        part = self.events[:, E_PART]
        self.events[:, E_NUMBER] = numbered(part) + 1 + (0 if before is None else before[part])
        return self

    def mark(self, marks: np.ndarray) -> None:
        """Sets the marks of the rows that are in a match. uint8 (rows)."""
        if len(self.rows):
            marks[self.rows] = 1
            return
        changes, first = np.zeros(len(marks) + 1, dtype=np.int64), self.events[:, E_START]
        np.add.at(changes, first, 1)
        np.add.at(changes, first + np.maximum(self.events[:, E_ROWS], 0), -1)
        marks |= np.cumsum(changes[:-1]) > 0

    def each(self) -> list[tuple[int, list[int], list[int]]]:
        """Returns each match as (partition, rows, labels). The batch must have ``rows``."""
        return [(e[E_PART], self.rows[e[E_LABELS] : e[E_LABELS] + e[E_ROWS]].tolist(), self.labels[e[E_LABELS] : e[E_LABELS] + e[E_ROWS]].tolist())
                for e in self.events.tolist()]  # fmt: skip


def together(parts: list[MatchBatch], width: int = WIDTH) -> MatchBatch:
    """Concatenates the matches of all parts, with the values that all of them have."""
    some = [part for part in parts if len(part.events)] or parts[:1]
    if len(some) < 2:
        return some[0] if some else MatchBatch.none(width)
    parts = some
    assert not any(len(part.joins) for part in parts)
    sizes = [len(part.labels) for part in parts]
    events = np.concatenate([part.events for part in parts])
    events[:, E_LABELS] += np.repeat(np.cumsum([0, *sizes[:-1]]), [len(part.events) for part in parts])
    labels, rows, paths, totals = (np.concatenate([getattr(part, name) for part in parts]) for name in ("labels", "rows", "paths", "totals"))
    names = [name for name in parts[0].by_event if all(name in part.by_event for part in parts)]
    by_event = {name: pa.concat_arrays([part.by_event[name] for part in parts]) for name in names}
    variables = max((part.variables for part in parts), key=len)  # later arcs are added at the end
    return MatchBatch(events, labels, rows, paths, by_event, totals=totals, variables=variables)


def matches_of(parts: np.ndarray | int, sizes: np.ndarray, labels: np.ndarray, rows: np.ndarray) -> MatchBatch:
    """Makes matches whose rows lie consecutively in ``labels`` and ``rows``. They are numbered from 1.

    Args:
        parts: the partition of each match, or of all.
        sizes: how many rows each match has, at least one.
        labels: the label of each row.
        rows: the rows.
    """
    events = np.zeros((len(sizes), WIDTH), dtype=np.int64)
    begin = np.cumsum(sizes) - sizes
    events[:, E_PART], events[:, E_ROWS], events[:, E_LABELS] = parts, sizes, begin
    events[:, E_START] = rows[begin]
    events[:, E_NUMBER] = np.arange(1, len(sizes) + 1)
    return MatchBatch(events, labels, rows)


def label_rows(events: np.ndarray, scattered: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the match, the place and the row of each label of some matches. int64 (labels) each.

    ``scattered`` is the row of each label, empty if the rows of a match are adjacent.
    """
    sizes = np.maximum(events[:, E_ROWS], 0)
    at = ranges(events[:, E_LABELS], sizes)
    return np.repeat(np.arange(len(events)), sizes), at, scattered[at] if len(scattered) else ranges(events[:, E_START], sizes)


def distinct_rows(events: np.ndarray, scattered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows of all matches, match by match, and how many each has. A row that serves both sides of ``&`` counts once."""
    match, _, rows = label_rows(events, scattered)
    fresh = np.ones(len(rows), dtype=bool)
    fresh[1:] = (np.diff(rows) != 0) | (np.diff(match) != 0)
    return rows[fresh], np.bincount(match[fresh], minlength=len(events))


def last_rows(rows: np.ndarray, chunk: Chunk, by_event: dict[str, pa.Array]) -> MatchBatch:
    """Makes an event of one row for each of ``rows``, which are last rows of matches."""
    found = matches_of(chunk.partition_of(rows), np.ones(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.uint8), rows)
    found.events[:, E_NUMBER] = 0
    found.by_event.update(by_event)
    return found


def unmatched(rows: np.ndarray, chunk: Chunk) -> MatchBatch:
    """Makes an event for each of ``rows``, which are in no match."""
    events = np.zeros((len(rows), WITH_ERRORS), dtype=np.int64)
    events[:, E_PART], events[:, E_START], events[:, E_ROWS] = chunk.partition_of(rows), rows, -1
    return MatchBatch(events, np.zeros(0, dtype=np.uint8), _NONE)
