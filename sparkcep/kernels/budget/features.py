"""Features of runs, as a history has them: the match vectors of RC-ACEP (VLDB 2016, Definition 4).

The best-effort search records features (``learned``) for MATCH HISTORY. With REFILL they become the history of the partition.

The features are the place where a run is tried, its cost so far, the remainder of its window, and the time since its last row. The
latter two are in intervals.

Example: the window has size 40 and 4 intervals. A run began at time 0, its last row was at 12, and the row is at 18. The remaining
22 are interval 3 (of 1 to 4), and the idle 6 are interval 0. So :func:`when` returns (3 - 1) * 4 + 0 = 8. At place 2 and cost level
1 of 3 levels :func:`code_of` returns (2 * 3 + 1) * 16 + 8 = 120.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.kernels.budget.layout import (
    Q_ENDS,
    Q_VECTORS,
    R_BUNDLES,
    R_INTERVALS,
    R_LAST,
    V_BEGUN,
    V_CODE,
    V_END,
    V_LAST,
    V_PART,
    V_POINTS,
    V_VISITS,
)
from sparkcep.kernels.common.hash_table import BASIS, fill, mixed
from sparkcep.kernels.common.run_chains import NONE
from sparkcep.kernels.jit.cache import embedded, kernel


class Clock(NamedTuple):
    """The measure of the window.

    Attributes:
        floating: which of the two representations is used.
        whole, size: int64 (rows) and the window's size, if not ``floating``.
        floats, wide: float64 (rows) and the window's size, if ``floating``.
        intervals: the intervals of the learned features.
        levels: how many costs there are.
    """

    floating: bool
    whole: np.ndarray
    floats: np.ndarray
    size: int
    wide: float
    intervals: int
    levels: int


@embedded
def when(start, last, row, g, clock):
    """Remaining window and time since the last row, in ``g`` intervals each, as one number.

    The run began at row ``start`` and took row ``last`` last. For a run that would begin both are ``row``.
    """
    if clock.floating:
        gone = abs(clock.floats[row] - clock.floats[start])
        still = abs(clock.floats[row] - clock.floats[last])
        remaining = np.int64(np.ceil(g * (clock.wide - gone) / clock.wide))
        idle = np.int64(np.floor(g * still / clock.wide))
    else:
        size = clock.size
        gone_by = abs(clock.whole[row] - clock.whole[start])
        idle_for = abs(clock.whole[row] - clock.whole[last])
        remaining = (g * (size - gone_by) + size - 1) // size
        idle = g * idle_for // size
    remaining = min(max(remaining, 1), g)
    idle = min(max(idle, 0), g - 1)
    return (remaining - 1) * g + idle


@embedded
def code_of(e, start, last, row, g, net, clock):
    """The features of a run, when an edge is tried at ``row``, as one number."""
    return (net.places[e] * clock.levels + net.levels[e]) * (g * g) + when(start, last, row, g, clock)


# -- recorded features ------------------------------------------------------------------------------------------------


@embedded
def feature_vector(part, code, learned, state):
    """The number of a partition's feature vector, which is added if it is new. The caller has made room."""
    table, vectors = learned.table, learned.vectors
    mask = table.shape[0] - 1
    h = np.int64(mixed(mixed(BASIS, part), code) >> np.uint64(2)) & mask
    while table[h] != 0:
        at = table[h] - 1
        if vectors[at, V_PART] == part and vectors[at, V_CODE] == code:
            return at
        h = (h + 1) & mask
    at = state[Q_VECTORS]
    state[Q_VECTORS] = at + 1
    table[h] = at + 1
    vectors[at, V_PART] = part
    vectors[at, V_CODE] = code
    vectors[at, V_VISITS] = 0
    vectors[at, V_POINTS] = 0
    vectors[at, V_LAST] = NONE
    vectors[at, V_END] = NONE
    vectors[at, V_BEGUN] = NONE
    return at


@kernel
def refill_vectors(learned, state):
    """Fills an empty table with all vectors."""
    mask = learned.table.shape[0] - 1
    for at in range(state[Q_VECTORS]):
        h = np.int64(mixed(mixed(BASIS, learned.vectors[at, V_PART]), learned.vectors[at, V_CODE]) >> np.uint64(2)) & mask
        while learned.table[h] != 0:
            h = (h + 1) & mask
        learned.table[h] = at + 1


@embedded
def begin_copy(clock, learned, refill, state):
    """Begins to record the history of a partition."""
    if state[Q_VECTORS] > 0:
        fill(learned.table, 0)
    state[Q_VECTORS] = 0
    state[Q_ENDS] = 0
    refill.now[R_LAST] = NONE
    refill.now[R_BUNDLES] = 0
    refill.now[R_INTERVALS] = clock.intervals


@embedded
def is_closed(row, refill):
    """Whether the last of the bundles that replace the history is closed at a row: more than the window after its last match
    point."""
    last = refill.now[R_LAST]
    if last != NONE and refill.when[row] > refill.near[last]:
        refill.now[R_LAST] = NONE
    return refill.now[R_LAST] == NONE and refill.now[R_BUNDLES] >= refill.most


@embedded
def count_bundle(row, refill):
    """Adds a match point to the open bundle, or begins one."""
    if refill.now[R_LAST] == NONE:
        refill.now[R_BUNDLES] += 1
    refill.now[R_LAST] = row
