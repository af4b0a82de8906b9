"""How promising a candidate under a budget is: how many match points a run is expected to lead to that is tried there.

What a history tells is smoothed: a vector that was seldom visited is taken to be like those of its place and cost with coarser
intervals. What the partition at hand has shown so far is added:
how often a vector, and a place and cost, was tried, and how many match points came of it. So a history of another time is corrected
where the partition shows another picture, and a vector that the history lacks is judged by its place and cost.

Both count alike in every run of a query: all numbers are of one partition, and sums of whole numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.kernels.jit.cache import embedded

# as much as so many visits weighs what is known of coarser intervals, and of the history against the partition at hand
COARSER, EARLIER = 10.0, 20.0
LEAST = 0.01  # by which a share is more than 0 where it divides
P_PART, P_TRIED, P_REACHED, UTILITY_FIELDS = range(4)  # columns of the counts: the partition that they are of, tries, match points that runs tried there led to


class Utilities(NamedTuple):
    """``wanted``: whether candidates are tried in this order; ``intervals`` of the window; ``prior`` float64 (vectors), ``overall``
    float64 (places x costs): match points for each visit, as the history tells them; ``counts`` int64 (vectors, PROMISE_FIELDS),
    ``sums`` int64 (places x costs, PROMISE_FIELDS): what the partition at hand shows; ``best`` int64 (places x costs): 1 + a
    candidate of the row; ``utility`` float64 (candidates); ``vector`` int64 (entries): at which each row was taken. ``met`` int64
    (vectors), ``met_kinds`` int64 (places x costs): those that were counted in the partition, ``many`` int64 (2): how many of
    both."""

    wanted: bool
    intervals: int
    prior: np.ndarray
    overall: np.ndarray
    counts: np.ndarray
    sums: np.ndarray
    best: np.ndarray
    utility: np.ndarray
    vector: np.ndarray
    met: np.ndarray
    met_kinds: np.ndarray
    many: np.ndarray


@embedded
def promising(code, part, utilities):
    """The match points that a run of this vector is expected to lead to."""
    g = utilities.intervals
    at = code // (g * g)
    general = utilities.overall[at]
    share = general
    if utilities.sums[at, P_PART] == part:
        share = (utilities.sums[at, P_REACHED] + EARLIER * general) / (utilities.sums[at, P_TRIED] + EARLIER)
    # the vector's own, as much higher or lower as its place and cost are now
    expected = utilities.prior[code] * ((share + LEAST) / (general + LEAST))
    if utilities.counts[code, P_PART] != part:
        return expected
    return (utilities.counts[code, P_REACHED] + EARLIER * expected) / (utilities.counts[code, P_TRIED] + EARLIER)


@embedded
def _counted(counts, at, part, column, met, k, many):
    if counts[at, P_PART] != part:
        counts[at, P_PART] = part
        counts[at, P_TRIED] = 0
        counts[at, P_REACHED] = 0
        met[many[k]] = at
        many[k] += 1
    counts[at, column] += 1


@embedded
def _count(code, part, column, utilities):
    _counted(utilities.counts, code, part, column, utilities.met, 0, utilities.many)
    _counted(utilities.sums, code // (utilities.intervals * utilities.intervals), part, column, utilities.met_kinds, 1, utilities.many)


@embedded
def was_tried(code, part, utilities):
    """Counts a try."""
    _count(code, part, P_TRIED, utilities)


@embedded
def led_on(code, part, utilities):
    """Counts a match point that a run tried there led to."""
    _count(code, part, P_REACHED, utilities)
