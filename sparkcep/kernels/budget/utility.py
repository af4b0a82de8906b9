"""Utility of a candidate under a budget: the expected number of match points that a run tried there leads to.

The history's numbers are smoothed: features that were seldom visited are assumed to be like those of their place and cost with
coarser intervals. The counts of the current partition are added: how often features, and a place and cost, were tried, and how many
match points followed. So an old history is corrected if the partition differs, and features that the history lacks are judged by
their place and cost.

Every run of a query counts in the same way: all numbers are of one partition, and sums of whole numbers.

Example: by the history, a place and cost lead to 0.2 match points for each visit, and certain features of them to 0.5. In the
partition the place and cost were tried 20 times, with 12 match points, but never with these features. The share is now (12 + 20 *
0.2) / (20 + 20) = 0.4, so the utility is 0.5 * 0.41 / 0.21 = 0.98.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.kernels.jit.cache import embedded

# Weights, in visits: of coarser intervals against the features' own counts, and of the history against the current partition.
COARSER, EARLIER = 10.0, 20.0
LEAST = 0.01  # added to a share, so that no divisor is 0
# Columns of the counts: their partition, tries, and match points that runs tried there led to.
P_PART, P_TRIED, P_REACHED, UTILITY_FIELDS = range(4)


class Utilities(NamedTuple):
    """The data of utility.

    Attributes:
        wanted: whether candidates are tried in order of utility.
        intervals: the intervals of the window.
        prior: float64 (features), match points for each visit by the history.
        overall: float64 (places x costs), the same numbers for places and costs.
        counts: int64 (features, UTILITY_FIELDS), the counts of the current partition.
        sums: int64 (places x costs, UTILITY_FIELDS), its counts for places and costs.
        best: int64 (places x costs), 1 + a candidate of the row.
        utility: float64 (candidates), their utilities.
        vector: int64 (entries), the features of each entry.
        met, met_kinds: int64 (features) and int64 (places x costs), those counted in the partition.
        many: int64 (2), how many both are.
    """

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
    """The utility of a candidate with these features: the expected number of match points."""
    g = utilities.intervals
    at = code // (g * g)
    general = utilities.overall[at]
    share = general
    if utilities.sums[at, P_PART] == part:
        share = (utilities.sums[at, P_REACHED] + EARLIER * general) / (utilities.sums[at, P_TRIED] + EARLIER)
    # The features' own value, scaled by the current ratio of their place and cost.
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
    """Counts a match point that followed from a run tried there."""
    _count(code, part, P_REACHED, utilities)
