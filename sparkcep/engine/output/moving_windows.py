"""Windows of sequences that UPDATE moves: which matches a sliding window holds if sequences have windows of their own.

A sliding window begins at W and is w long. A sequence ``WITHIN v UPDATE u`` then takes only rows from e - v to before e, where e is
w + floor(W / u) * u: the end to which its own window was moved last. Tables of output rows, the top-k heap and the searches for the
k best matches use it.
"""

from __future__ import annotations

from math import lcm

import numpy as np

from sparkcep.columns.arrays import words
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch, label_rows
from sparkcep.engine.core.windows import Grid, Slides, float_steps, windows_holding
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Moving


class OwnWindow:
    """The windows of one sequence, for the numbers of sliding windows."""

    def __init__(self, moving: Moving, grid: Grid) -> None:
        self.mask, self.floating = moving.mask, grid.floating
        size, step = (grid.scaled(text, moving.kind) for text in (moving.size, moving.step))
        self.parts = 1 if self.floating else lcm(size.denominator, step.denominator, grid.parts)
        self.size, self.step = (float(x) if self.floating else int(x * self.parts) for x in (size, step))
        unit = 1 if self.floating else self.parts // grid.parts
        self.pace, self.reach = grid.pace * unit, grid.reach * unit

    def holds(self, low: np.ndarray, high: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Whether the windows of sliding windows hold places from ``low`` to ``high``. bool (pairs)."""
        if self.floating:
            # the difference of both sizes first: if it is 0, the own window begins where the sliding window does
            begins = float_steps(numbers * self.pace, self.step) * self.step
            return (low >= begins + (self.reach - self.size)) & (high < begins + self.reach)
        most = max((abs(int(x)) for values in (low, high) for x in (values.min(initial=0), values.max(initial=0))), default=0)
        far = (most + 1) * self.parts + 2 * (self.size + self.reach + self.pace + self.step)
        kind = object if far >= 1 << 62 or numbers.dtype == object else np.int64
        low, high, starts = low.astype(kind) * self.parts, high.astype(kind) * self.parts, numbers.astype(kind) * self.pace
        ends = starts // self.step * self.step + self.reach
        return ((low >= ends - self.size) & (high < ends)).astype(bool)


def held(plan: Plan, chunk: Chunk, found: MatchBatch, first: np.ndarray, last: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, Grid]:
    """Returns the sliding windows that hold each match, as :func:`windows_holding`, with regard to the windows of sequences.

    ``first`` and ``last`` are the first and the last row of each match of ``found``.
    """
    assert plan.slide is not None
    which, numbers, grid = windows_holding(plan.windows[0], plan.slide, chunk, first, last, most)
    if plan.ranking is None or not plan.ranking.moving or not len(which):
        return which, numbers, grid
    column = chunk.columns.get(plan.windows[0].order)
    places = chunk.positions if column is None else words(column)
    kept = np.ones(len(which), dtype=bool)
    for moving in plan.ranking.moving:
        low, high, there = _bounds(found, places, moving.mask)
        own = np.flatnonzero(there[which])
        match = which[own]
        kept[own] &= OwnWindow(moving, grid).holds(low[match], high[match], numbers[own])
    return which[kept], numbers[kept], grid


def held_by(plan: Plan, chunk: Chunk, sliding: Slides, part: int, rows: list[int], labels: list[int]) -> list[int]:
    """Returns the numbers of a partition's sliding windows that hold a match, with regard to the windows of sequences."""
    numbers = np.array(sliding.holding(part, rows[0], rows[-1]), dtype=sliding.numbers.dtype)
    column = chunk.columns.get(plan.windows[0].order)
    places = chunk.positions if column is None else words(column)
    for moving in plan.ranking.moving if plan.ranking is not None else ():
        own = places[[row for row, label in zip(rows, labels) if moving.mask >> (label & 63) & 1]]
        if len(own) and len(numbers):
            low, high = (np.full(len(numbers), place, dtype=places.dtype) for place in (own.min(), own.max()))
            numbers = numbers[OwnWindow(moving, sliding.grid).holds(low, high, numbers)]
    return numbers.tolist()


def _bounds(found: MatchBatch, places: np.ndarray, mask: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the least and the greatest place of the rows that some variables took, and whether a match has such a row."""
    match, at, rows = label_rows(found.events, found.rows)
    own = (np.int64(mask) >> (found.labels[at].astype(np.int64) & 63) & 1).astype(bool)
    rows, match = rows[own], match[own]
    there = np.bincount(match, minlength=len(found.events)) > 0
    begin = np.flatnonzero(np.diff(match, prepend=-1))
    low, high = np.zeros((2, len(found.events)), dtype=places.dtype)
    if len(rows):
        low[there], high[there] = np.minimum.reduceat(places[rows], begin), np.maximum.reduceat(places[rows], begin)
    return low, high, there
