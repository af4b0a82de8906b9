"""TOP k over matches that are listed: only those that may be among the k best of their partition and sliding window are kept.

The engine scores them itself, exactly as Spark does, so that what it drops is surely not among the best; Spark, or a later part of
the engine, ranks the rest. Scores are told as whole numbers of the same order, the larger the better. Where the score is no
arithmetic that the engine knows, or values at hand might be rounded otherwise or leave their types, all matches are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from sparkcep.columns.arrays import numbered, ranges
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch, together
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import WINDOW_BYTES, windows_holding
from sparkcep.engine.match.scores import MISSING, Scores
from sparkcep.engine.output.columns_out import end_rows
from sparkcep.errors import TooMuchStateError
from sparkcep.kernels.common.layout import E_LABELS, E_PART, E_ROWS, E_START


class TopkHeap:
    """The best of the matches of one buffer; ``scores``: theirs, if the engine knows them."""

    def __init__(self, task: Task, chunk: Chunk, scores: Scores | None) -> None:
        self.task, self.chunk, self.scores = task, chunk, scores
        assert task.plan.ranking is not None
        self.top = task.plan.ranking.top
        # without sliding windows: the last score and first row of each partition that may still be among the best
        self.least = np.full((chunk.parts, 2), (MISSING, chunk.rows), dtype=np.int64)
        self.found, self.pairs = MatchBatch.none(), _Pairs.none()

    def of(self, rounds: Iterator[MatchBatch]) -> Iterator[MatchBatch]:
        """The matches of all rounds that may be among the best, some at a time."""
        for found in rounds:
            for rest in self._take(found):
                if len(rest.events):
                    yield rest
        if len(self.found.events):
            yield self.found

    def _take(self, found: MatchBatch) -> Iterator[MatchBatch]:
        """Keeps the best of more matches, and gives back those that it cannot judge."""
        rows = found.events[:, E_ROWS] > 0
        if not rows.all():
            yield found.chosen(np.flatnonzero(~rows))
            found = found.chosen(np.flatnonzero(rows))
        keys = self.scores.of(found) if self.scores is not None and len(found.events) else None
        pairs = None if keys is None else self._pairs(found, keys)
        if pairs is None:
            yield found
            return
        which, at = np.unique(pairs.match, return_inverse=True)
        joined = together([self.found, found.chosen(which)], found.events.shape[1])
        pairs = self.pairs.joined(pairs._replace(match=at + len(self.found.events)))
        kept = best(joined, pairs, self.top)
        which, at = np.unique(pairs.match[kept], return_inverse=True)
        self.found, self.pairs = joined.chosen(which), pairs.chosen(kept)._replace(match=at)
        if sum(a.nbytes for a in (self.found.events, self.found.labels, self.found.rows, *self.pairs)) > self.task.limits.max_state_bytes:
            yield self.found  # the k best are too many to be held, and who asks ranks them
            self.found, self.pairs, self.scores = MatchBatch.none(), _Pairs.none(), None
            return
        if not self.task.plan.slide:
            self._raise()

    def _pairs(self, found: MatchBatch, keys: np.ndarray) -> _Pairs | None:
        """The matches that may be among the best, with partition and window; None where those cannot be told."""
        if self.task.plan.slide:
            return self._in_windows(found, keys)
        part, start = found.events[:, E_PART], found.events[:, E_START]
        key, first = self.least[part].T
        there = np.flatnonzero((keys > key) | ((keys == key) & (start <= first)))
        return _Pairs(there, part[there], np.zeros(len(there), dtype=np.int64), keys[there])

    def _raise(self) -> None:
        """A partition that has k matches needs none that are worse than all of them."""
        pairs, start = self.pairs, self.found.events[self.pairs.match, E_START]
        order = np.lexsort((-start, pairs.key, pairs.part))
        part = pairs.part[order]
        worst = order[np.flatnonzero(np.diff(part, prepend=-1))]
        full = np.bincount(part, minlength=len(self.least))[pairs.part[worst]] >= self.top
        worst = worst[full]
        self.least[pairs.part[worst]] = np.stack([pairs.key[worst], start[worst]], axis=1)

    def _in_windows(self, found: MatchBatch, keys: np.ndarray) -> _Pairs | None:
        """Each match once for each sliding window that holds it; None where their numbers are beyond 64 bits, or too many."""
        plan, chunk = self.task.plan, self.chunk
        first, last = end_rows(found.events, found.rows)
        window, most = plan.windows[0], self.task.limits.max_state_bytes // WINDOW_BYTES
        try:
            match, numbers, _ = windows_holding(window, plan.slide, chunk, first, last, most)
        except TooMuchStateError:
            return None
        return _Pairs(match, found.events[match, E_PART], numbers, keys[match]) if numbers.dtype == np.int64 else None


class _Pairs(NamedTuple):
    """Matches by their places, with partition, number of a window, and score."""

    match: np.ndarray
    part: np.ndarray
    window: np.ndarray
    key: np.ndarray

    @staticmethod
    def none() -> _Pairs:
        return _Pairs(*(np.zeros(0, dtype=np.int64) for _ in _Pairs._fields))

    def joined(self, more: _Pairs) -> _Pairs:
        return _Pairs(*map(np.concatenate, zip(self, more)))

    def chosen(self, which: np.ndarray) -> _Pairs:
        return _Pairs(*(values[which] for values in self))


def best(found: MatchBatch, pairs: _Pairs, k: int) -> np.ndarray:
    """int64: the places of the k best of each partition and window, in ascending order. Ties: the earliest vector of rows, then the
    place."""
    group = _numbers(pairs.part, pairs.window)
    needed = np.full(int(group.max(initial=-1)) + 1, k, dtype=np.int64)
    left, sure = np.arange(len(group)), []
    for column in _columns(found, pairs):
        values = column(left)
        order = np.lexsort((values, group[left]))
        left, values = left[order], values[order]
        at = group[left]
        edge = np.flatnonzero(numbered(at) == needed[at] - 1)
        limit = np.full(len(needed), np.iinfo(np.int64).max)
        limit[at[edge]] = values[edge]
        few = np.bincount(at, minlength=len(needed)) <= needed
        better = few[at] | (values < limit[at])
        sure.append(left[better])
        # of those that are as good as the last that is needed, the next column tells which
        needed -= np.bincount(at[better], minlength=len(needed))
        left = np.sort(left[~better & (values == limit[at])])
        if not len(left):
            break
    left = left[np.argsort(group[left], kind="stable")]
    sure.append(left[numbered(group[left]) < needed[group[left]]])
    return np.sort(np.concatenate(sure))


def _numbers(part: np.ndarray, window: np.ndarray) -> np.ndarray:
    """int64: small numbers that are equal where both are."""
    if not window.any():
        return part
    order = np.lexsort((window, part))
    fresh = (np.diff(part[order]) != 0) | (np.diff(window[order]) != 0)
    out = np.empty(len(part), dtype=np.int64)
    out[order] = np.concatenate([[0], np.cumsum(fresh)])
    return out


def _columns(found: MatchBatch, pairs: _Pairs) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
    """By what matches rank, one after the other: functions that give a value for each of some pairs, the least for the best."""
    yield lambda some: ~pairs.key[some]
    sizes = found.events[:, E_ROWS]
    at = ranges(found.events[:, E_LABELS if len(found.rows) else E_START], sizes)
    rows, owner = found.rows[at] if len(found.rows) else at, np.repeat(np.arange(len(sizes)), sizes)
    fresh = np.ones(len(rows), dtype=bool)  # a row that serves both sides of & counts once
    fresh[1:] = (np.diff(rows) != 0) | (np.diff(owner) != 0)
    rows, counts = rows[fresh], np.bincount(owner[fresh], minlength=len(sizes))
    begin = np.cumsum(counts) - counts

    def row(depth: int, some: np.ndarray) -> np.ndarray:
        match = pairs.match[some]
        return np.where(counts[match] > depth, rows[np.minimum(begin[match] + depth, len(rows) - 1)], -1)

    for depth in range(int(counts.max(initial=0))):
        yield lambda some, depth=depth: row(depth, some)
