"""Choice among the candidates of a row: the most promising ones come first (RC-ACEP, VLDB 2016, Algorithm 2).

The best-effort search (:mod:`sparkcep.kernels.budget.best_effort`) asks for one candidate after the other while it has checks.
"""

from __future__ import annotations

import numpy as np

from sparkcep.kernels.budget.features import code_of
from sparkcep.kernels.budget.layout import (
    A_CODE,
    A_CODE_OF_UTILITY,
    A_EDGE,
    A_ENTRY,
    A_FEATURES,
    A_RESIDUE,
    A_SCORE,
    A_START,
    A_VERSION,
    BEHIND,
    BY_UTILITY,
    COVERING,
    FIRST_IN,
    G_RESIDUE,
    G_ROW,
    G_SCORE,
    G_VERSION,
    M_RESIDUE,
    M_ROW,
    M_UNITS,
    M_VISITS,
    PRIME,
)
from sparkcep.kernels.budget.save_runs import first_row
from sparkcep.kernels.budget.utility import promising
from sparkcep.kernels.common.run_chains import C_EDGES, NONE, comes_first, compare_rows
from sparkcep.kernels.jit.cache import embedded


@embedded
def _number(code, codes):
    """The place of a code in ascending ``codes``, or NONE."""
    low = 0
    high = codes.shape[0]
    while low < high:
        middle = (low + high) // 2
        if codes[middle] < code:
            low = middle + 1
        else:
            high = middle
    return np.int64(low) if low < codes.shape[0] and codes[low] == code else np.int64(NONE)


@embedded
def find_features(count, part, row, choosing, net, clock, history, utilities, learned, runs, ground):
    """Finds the first row of each candidate and, as needed, its features, their history and its utility.

    Utility is computed only when ``choosing``, that is, if some candidates are left out.
    """
    candidates = ground.candidates
    known = history.codes.shape[0] > 0 and (not utilities.wanted or ground.coverage.shape[0] > 0)
    for i in range(count):
        entry = candidates[i, A_ENTRY]
        start = row if entry == NONE else first_row(entry, row, runs)
        candidates[i, A_START] = start
        candidates[i, A_FEATURES] = NONE
        candidates[i, A_VERSION] = 0
        candidates[i, A_SCORE] = 0
        candidates[i, A_RESIDUE] = 0
        last = row if entry == NONE else runs.at[entry]
        if learned.wanted:
            candidates[i, A_CODE] = code_of(candidates[i, A_EDGE], start, last, row, clock.intervals, net, clock)
        if known:
            at = _number(code_of(candidates[i, A_EDGE], start, last, row, history.intervals, net, clock), history.codes)
            candidates[i, A_FEATURES] = at
            if at != NONE and not utilities.wanted:
                candidates[i, A_SCORE] = (history.first[at + 1] - history.first[at]) * history.units[at]
                candidates[i, A_RESIDUE] = history.whole[at]
        if utilities.wanted:
            code = code_of(candidates[i, A_EDGE], start, last, row, utilities.intervals, net, clock)
            candidates[i, A_CODE_OF_UTILITY] = code
            if choosing:
                utilities.utility[i] = promising(code, part, utilities)


@embedded
def _first(a, b, order, net, utilities, runs, ground):
    """Whether candidate ``a`` is tried before ``b``.

    The order is: higher utility or score, least cost, latest start, latest place, earliest rows, preferred way.
    """
    candidates = ground.candidates
    if order == FIRST_IN:
        # The seed is the oldest node. Then come the runs in order of their creation.
        x, y = candidates[a, A_ENTRY], candidates[b, A_ENTRY]
        return x < y if x != y else candidates[a, A_EDGE] < candidates[b, A_EDGE]
    if order == BY_UTILITY and utilities.utility[a] != utilities.utility[b]:
        return utilities.utility[a] > utilities.utility[b]
    if candidates[a, A_RESIDUE] != candidates[b, A_RESIDUE] and candidates[a, A_SCORE] != candidates[b, A_SCORE]:
        return candidates[a, A_SCORE] > candidates[b, A_SCORE]
    e, f = candidates[a, A_EDGE], candidates[b, A_EDGE]
    if net.costs[e] != net.costs[f]:
        return net.costs[e] < net.costs[f]
    if candidates[a, A_START] != candidates[b, A_START]:
        return candidates[a, A_START] > candidates[b, A_START]
    if net.places[e] != net.places[f]:
        return net.places[e] > net.places[f]
    x, y = candidates[a, A_ENTRY], candidates[b, A_ENTRY]
    if x != y and (compare_rows(runs.pool, x, y) != 0 or runs.pool[x, C_EDGES] != runs.pool[y, C_EDGES]):
        return comes_first(runs.pool, x, y, False)
    return e < f


@embedded
def _foremost(count, net, utilities, runs, ground):
    """Keeps the utility of the best candidate of each place and cost; all others come after these."""
    square = utilities.intervals * utilities.intervals
    for i in range(count):
        at = ground.candidates[i, A_CODE_OF_UTILITY] // square
        known = utilities.best[at] - 1
        if known == NONE or _first(i, known, BY_UTILITY, net, utilities, runs, ground):
            utilities.best[at] = i + 1
    for i in range(count):
        at = ground.candidates[i, A_CODE_OF_UTILITY] // square
        if utilities.best[at] - 1 != i:
            utilities.utility[i] = BEHIND
    for i in range(count):
        utilities.best[ground.candidates[i, A_CODE_OF_UTILITY] // square] = 0


@embedded
def _sift(at, size, order, net, utilities, runs, ground):
    """Moves the candidate at a place of the heap down to its position."""
    heap = ground.heap
    item = heap[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _first(heap[child + 1], heap[child], order, net, utilities, runs, ground):
            child += 1
        if not _first(heap[child], item, order, net, utilities, runs, ground):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = item


@embedded
def _gain(at, row, version, history):
    """Computes the score of features, given the bundles covered by now, into ``history.memo``: once for all their candidates."""
    memo, cover = history.memo, history.cover
    if memo[at, G_ROW] == row and memo[at, G_VERSION] == version:
        return
    score = np.int64(0)
    residue = np.int64(0)
    for k in range(history.first[at], history.first[at + 1]):
        b = history.bundles[k]
        if cover[b, M_ROW] != row:
            score += history.units[at]
            residue = (residue + history.residues[at]) % PRIME
        elif history.visits[at] < cover[b, M_VISITS]:
            score += history.units[at] - cover[b, M_UNITS]
            residue = (residue + history.residues[at] - cover[b, M_RESIDUE] + PRIME) % PRIME
    memo[at, G_ROW] = row
    memo[at, G_VERSION] = version
    memo[at, G_SCORE] = score
    memo[at, G_RESIDUE] = residue


@embedded
def _stale(i, row, version, history, ground):
    """Whether the score of a candidate has changed since bundles were covered (line 15 of Algorithm 2). It is then updated."""
    candidates, at = ground.candidates, ground.candidates[i, A_FEATURES]
    if at == NONE or candidates[i, A_VERSION] == version:
        return False
    _gain(at, row, version, history)
    candidates[i, A_VERSION] = version
    if candidates[i, A_RESIDUE] == history.memo[at, G_RESIDUE]:
        return False
    candidates[i, A_SCORE] = history.memo[at, G_SCORE]
    candidates[i, A_RESIDUE] = history.memo[at, G_RESIDUE]
    return True


@embedded
def _covers(i, row, history, ground):
    """Covers the bundles of a candidate. Returns the growth of the cover as a float."""
    at = ground.candidates[i, A_FEATURES]
    more = 0.0
    if at == NONE:
        return more
    for k in range(history.first[at], history.first[at + 1]):
        b = history.bundles[k]
        if history.cover[b, M_ROW] != row or history.visits[at] < history.cover[b, M_VISITS]:
            more += 1.0 / history.visits[at]
            if history.cover[b, M_ROW] == row:
                more -= 1.0 / history.cover[b, M_VISITS]
            history.cover[b, M_ROW] = row
            history.cover[b, M_UNITS] = history.units[at]
            history.cover[b, M_RESIDUE] = history.residues[at]
            history.cover[b, M_VISITS] = history.visits[at]
    return more


@embedded
def choose(count, tried, row, order, net, history, utilities, runs, ground):
    """Puts the candidates to try at the end of the heap, the first one last, and writes the covered share."""
    heap = ground.heap
    for i in range(count):
        heap[i] = i
    if tried == count:
        return
    covering, asked = order == COVERING, ground.coverage.shape[0] > 0
    if order == BY_UTILITY:
        _foremost(count, net, utilities, runs, ground)
    for i in range(count // 2 - 1, -1, -1):
        _sift(i, count, order, net, utilities, runs, ground)
    size = count
    version = 0
    covered = 0.0
    while size > count - tried:
        best = heap[0]
        # The lazy greedy choice: only the top of the heap is rescored. If its score has fallen, it sinks.
        if covering and _stale(best, row, version, history, ground):
            _sift(0, size, order, net, utilities, runs, ground)
            continue
        version += 1
        if covering or asked:
            covered += _covers(best, row, history, ground)
        size -= 1
        heap[0] = heap[size]
        heap[size] = best
        _sift(0, size, order, net, utilities, runs, ground)
    if asked:
        more = 0.0
        for i in range(size):
            more += _covers(heap[i], row, history, ground)
        ground.coverage[row] = covered / (covered + more) if more > 0.0 else 1.0
