"""Top-k heap of listed matches: keeps only those that may be among the k best of their partition and sliding window.

The engine scores the matches exactly as Spark does, so a dropped match is certainly not among the best. Spark, or a later part of
the engine, ranks the rest. Scores are the integer keys of :mod:`sparkcep.engine.match.scores`. If the engine cannot compute them,
all matches are emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from sparkcep.columns.arrays import numbered
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch, distinct_rows, together
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import WINDOW_BYTES
from sparkcep.engine.match.scores import MISSING, Scores
from sparkcep.engine.output.columns_out import end_rows
from sparkcep.engine.output.moving_windows import held
from sparkcep.errors import TooMuchStateError
from sparkcep.kernels.common.layout import E_PART, E_ROWS, E_START


class TopkHeap:
    """The best matches of one chunk. ``scores`` computes their scores; None if the engine cannot."""

    def __init__(self, task: Task, chunk: Chunk, scores: Scores | None) -> None:
        self.task, self.chunk, self.scores = task, chunk, scores
        assert task.plan.ranking is not None
        self.top = task.plan.ranking.top
        # without sliding windows: the worst score and first row of each partition that may still be among the best
        self.least = np.full((chunk.parts, 2), (MISSING, chunk.rows), dtype=np.int64)
        self.found, self.pairs = MatchBatch.none(), _Pairs.none()

    def of(self, rounds: Iterator[MatchBatch]) -> Iterator[MatchBatch]:
        """Yields the matches of all batches that may be among the best."""
        for found in rounds:
            for rest in self._take(found):
                if len(rest.events):
                    yield rest
        if len(self.found.events):
            yield self.found

    def _take(self, found: MatchBatch) -> Iterator[MatchBatch]:
        """Keeps the best of further matches, and yields those that it cannot judge."""
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
            yield self.found  # there is not enough memory for the k best: the caller ranks them
            self.found, self.pairs, self.scores = MatchBatch.none(), _Pairs.none(), None
            return
        if not self.task.plan.slide:
            self._raise()

    def _pairs(self, found: MatchBatch, keys: np.ndarray) -> _Pairs | None:
        """Returns the matches that may be among the best, with partition and window.

        Returns None if the windows cannot be determined.
        """
        if self.task.plan.slide:
            return self._in_windows(found, keys)
        part, start = found.events[:, E_PART], found.events[:, E_START]
        key, first = self.least[part].T
        there = np.flatnonzero((keys > key) | ((keys == key) & (start <= first)))
        return _Pairs(there, part[there], np.zeros(len(there), dtype=np.int64), keys[there])

    def _raise(self) -> None:
        """Raises the thresholds: a partition that has k matches needs no match that is worse than all of them."""
        pairs, start = self.pairs, self.found.events[self.pairs.match, E_START]
        order = np.lexsort((-start, pairs.key, pairs.part))
        part = pairs.part[order]
        worst = order[np.flatnonzero(np.diff(part, prepend=-1))]
        full = np.bincount(part, minlength=len(self.least))[pairs.part[worst]] >= self.top
        worst = worst[full]
        self.least[pairs.part[worst]] = np.stack([pairs.key[worst], start[worst]], axis=1)

    def _in_windows(self, found: MatchBatch, keys: np.ndarray) -> _Pairs | None:
        """Returns each match once for each sliding window that holds it.

        Returns None if window numbers exceed 64 bits, or if there are too many pairs.
        """
        plan, chunk = self.task.plan, self.chunk
        first, last = end_rows(found.events, found.rows)
        most = self.task.limits.max_state_bytes // WINDOW_BYTES
        try:
            match, numbers, _ = held(plan, chunk, found, first, last, most)
        except TooMuchStateError:
            return None
        return _Pairs(match, found.events[match, E_PART], numbers, keys[match]) if numbers.dtype == np.int64 else None


class _Pairs(NamedTuple):
    """Matches by their places, with partition, window number and score key. int64 (pairs) each."""

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
    """Returns the places of the k best pairs of each partition and window, in ascending order. int64.

    Ties go to the earliest row vector, then to the lower place.
    """
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
        # the next column decides among the pairs that equal the last one needed
        needed -= np.bincount(at[better], minlength=len(needed))
        left = np.sort(left[~better & (values == limit[at])])
        if not len(left):
            break
    left = left[np.argsort(group[left], kind="stable")]
    sure.append(left[numbered(group[left]) < needed[group[left]]])
    return np.sort(np.concatenate(sure))


def _numbers(part: np.ndarray, window: np.ndarray) -> np.ndarray:
    """Returns small numbers that are equal if and only if partition and window are equal. int64 (pairs)."""
    if not window.any():
        return part
    order = np.lexsort((window, part))
    fresh = (np.diff(part[order]) != 0) | (np.diff(window[order]) != 0)
    out = np.empty(len(part), dtype=np.int64)
    out[order] = np.concatenate([[0], np.cumsum(fresh)])
    return out


def _columns(found: MatchBatch, pairs: _Pairs) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
    """Yields the ranking criteria, the most important one first.

    Each is a function that returns a value for some pairs; the least is best.
    """
    yield lambda some: ~pairs.key[some]
    rows, counts = distinct_rows(found.events, found.rows)
    begin = np.cumsum(counts) - counts

    def row(depth: int, some: np.ndarray) -> np.ndarray:
        match = pairs.match[some]
        return np.where(counts[match] > depth, rows[np.minimum(begin[match] + depth, len(rows) - 1)], -1)

    for depth in range(int(counts.max(initial=0))):
        yield lambda some, depth=depth: row(depth, some)
