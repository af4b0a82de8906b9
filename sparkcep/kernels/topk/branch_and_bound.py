"""The k best sequences of one row per stratum by a monotone score: branch and bound over bounded event queues.

CPR ranks such preferences by a rank join over the strata's event queues (thesis, sections 3.2 and 3.3). Items are pulled best first
until no unjoined pair can reach the k-th result. The corner bound is the score of the rows taken so far, with the best remaining
row of each later stratum. Here it is asked of each row before anything is joined with it.

Joining goes along the rows, so results come in the order of their row vectors. Among equal scores the first k stay, and ties end a
branch as worse scores do. A join by descending scores must read all ties.

The bound needs some results first, so only the best few rows of each stratum are joined at the beginning (``_cut``). Each window is
joined from its rows: keeping results from window to window (dTMM, section 3.4) costs more than it saves here (docs/adr/0008).

Example: strata A with rows 0 (weight 9) and 2 (weight 3), and B with rows 1 (4) and 3 (5); the score is the sum, k is 1. The bound
of row 0 is 9 + 5, and its sequences (0, 1) and (0, 3) have 13 and 14. The bound of row 2 is 3 + 5, which is not above 14, so
nothing is joined with it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparkcep.kernels.jit.cache import inlined, kernel
from sparkcep.kernels.topk.score_program import evaluate

DONE, FULL, STEPS = range(3)
S_WINDOW, S_OUT = range(2)
STATE = 2
TRIAL = 64  # most rows of a stratum in the first, bounded join


class Score(NamedTuple):
    """A monotone score over one weight of each stratum.

    Attributes:
        code, literals: the program, see :mod:`sparkcep.kernels.topk.score_program`.
        rising: int64 (strata), 1 if a larger weight makes the score larger, -1 if a smaller one does.
    """

    code: np.ndarray
    literals: np.ndarray
    rising: np.ndarray


class Strata(NamedTuple):
    """The rows of each stratum.

    Attributes:
        rows: int64, ascending in each stratum; stratum j has ``offsets[j]`` to ``offsets[j + 1]``.
        offsets: int64 (strata + 1).
        behind: int64 (strata, rows + 1), place in ``rows`` of the stratum's first row at or after each row.
        weights: float64 (strata, rows).
    """

    rows: np.ndarray
    offsets: np.ndarray
    behind: np.ndarray
    weights: np.ndarray


class Order(NamedTuple):
    """Conditions on the rows of a sequence beside their order.

    Attributes:
        same: uint8 (strata), 1 if the row is that of the stratum before.
        inside: int64 (n, 3): a window, the stratum whose row it begins with, and the last stratum inside it.
        windows: int64 (windows, rows), the first row outside the window that begins with each row.
    """

    same: np.ndarray
    inside: np.ndarray
    windows: np.ndarray


class SearchRoom(NamedTuple):
    """Working memory of the search.

    Attributes:
        after: float64 (strata, rows + 1), the best weight from each row on, NaN if there is none.
        values, path, next: weights, rows and next candidates of one sequence.
        stack: the stack of the score.
        trial: float64 (TRIAL).
        few: int64 (strata, TRIAL + 1), the rows of the first join, with their number first.
        scores, vectors: (k) and (k, strata), the top-k heap, the worst on top.
    """

    after: np.ndarray
    values: np.ndarray
    path: np.ndarray
    next: np.ndarray
    stack: np.ndarray
    trial: np.ndarray
    few: np.ndarray
    scores: np.ndarray
    vectors: np.ndarray


@inlined
def _better(rising, a, b):
    return a > b if rising >= 0 else a < b


# -- the list --------------------------------------------------------------------------------------------------


@kernel
def _vector_order(a, b):
    """-1 if vector ``a`` is before ``b``, 1 if it is after, 0 if they are equal."""
    for j in range(len(a)):
        if a[j] != b[j]:
            return -1 if a[j] < b[j] else 1
    return 0


@inlined
def _worse(room, a, b):
    """Whether entry ``a`` of the heap ranks after entry ``b``."""
    if room.scores[a] != room.scores[b]:
        return room.scores[a] < room.scores[b]
    return _vector_order(room.vectors[a], room.vectors[b]) > 0


@kernel
def _swap(room, a, b):
    room.scores[a], room.scores[b] = room.scores[b], room.scores[a]
    for j in range(room.vectors.shape[1]):
        room.vectors[a, j], room.vectors[b, j] = room.vectors[b, j], room.vectors[a, j]


@kernel
def _sink(room, at, size):
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and _worse(room, child + 1, child):
            child += 1
        if not _worse(room, child, at):
            return
        _swap(room, child, at)
        at = child


@kernel
def _ordered(room, size):
    """Sorts the heap, the best first. It is not a heap afterwards."""
    for i in range(size // 2 - 1, -1, -1):
        _sink(room, i, size)
    for last in range(size - 1, 0, -1):
        _swap(room, 0, last)
        _sink(room, 0, last)


@kernel
def _enter(room, size, score):
    """Puts ``room.path`` into the heap, instead of the worst entry if it is full. Returns the new size."""
    strata = room.vectors.shape[1]
    if size == len(room.scores):
        room.scores[0] = score
        for j in range(strata):
            room.vectors[0, j] = room.path[j]
        _sink(room, 0, size)
        return size
    at = size
    room.scores[at] = score
    for j in range(strata):
        room.vectors[at, j] = room.path[j]
    while at > 0 and _worse(room, at, (at - 1) // 2):
        _swap(room, at, (at - 1) // 2)
        at = (at - 1) // 2
    return size + 1


@inlined
def _loses(room, size, floor, bound):
    """Whether no later sequence with a score of at most ``bound`` enters the heap, because sequences in it have earlier rows."""
    return bound < floor or (size == len(room.scores) and bound <= room.scores[0])


# -- the search ------------------------------------------------------------------------------------------------


@kernel
def _best_to_come(strata, score, room, low, until, ends):
    """Fills ``after`` for rows ``low`` to ``until``.

    If ``ends`` is not empty, it ascends, and limits what may follow each row.
    """
    for j in range(len(strata.offsets) - 1):
        rising = score.rising[j]
        if len(ends) == 0:
            best = math.nan
            p = strata.behind[j, until] - 1
            room.after[j, until] = best
            for r in range(until - 1, low - 1, -1):
                if p >= strata.offsets[j] and strata.rows[p] == r:
                    w = strata.weights[j, r]
                    if math.isnan(best) or _better(rising, w, best):
                        best = w
                    p -= 1
                room.after[j, r] = best
        else:
            _best_in_spans(strata, rising, room, j, until, ends)


@kernel
def _best_in_spans(strata, rising, room, j, until, ends):
    """The best of rows r to before ``ends[r - 1]``, which may follow row r - 1.

    ``next`` is a monotone queue of candidates: each is better than all later ones.
    """
    head = 0
    tail = 0
    queue = room.next
    p = strata.offsets[j]
    last = strata.offsets[j + 1]
    room.after[j, until] = math.nan
    room.after[j, 0] = math.nan
    for r in range(1, until):
        while p < last and strata.rows[p] < ends[r - 1]:
            while tail > head and not _better(rising, strata.weights[j, strata.rows[queue[tail - 1]]], strata.weights[j, strata.rows[p]]):
                tail -= 1
            queue[tail] = p
            tail += 1
            p += 1
        while tail > head and strata.rows[queue[head]] < r:
            head += 1
        room.after[j, r] = strata.weights[j, strata.rows[queue[head]]] if tail > head else math.nan


@kernel
def _cut(strata, score, room, low, until, count):
    """Sets ``few`` to the ``count`` rows of each stratum with the best weights. Returns whether that leaves out any row."""
    some = False
    for j in range(len(strata.offsets) - 1):
        rising = score.rising[j]
        size = 0
        for p in range(strata.behind[j, low], strata.behind[j, until]):
            w = strata.weights[j, strata.rows[p]]
            if size < count or _better(rising, w, room.trial[size - 1]):
                at = size if size < count else size - 1
                while at > 0 and _better(rising, w, room.trial[at - 1]):
                    room.trial[at] = room.trial[at - 1]
                    at -= 1
                room.trial[at] = w
                if size < count:
                    size += 1
        worst = room.trial[size - 1]
        equal = 0  # how many rows have the worst weight
        for i in range(size):
            equal += room.trial[i] == worst
        taken = 0
        for p in range(strata.behind[j, low], strata.behind[j, until]):
            w = strata.weights[j, strata.rows[p]]
            if w == worst:
                equal -= 1
            if _better(rising, w, worst) or (w == worst and equal >= 0):
                taken += 1
                room.few[j, taken] = strata.rows[p]
        room.few[j, 0] = taken
        some = some or taken < strata.behind[j, until] - strata.behind[j, low]
    return some


@inlined
def _from(strata, room, short, level, row):
    """Place of a stratum's first row at or after ``row``."""
    if not short:
        return strata.behind[level, row]
    p = 1
    while p <= room.few[level, 0] and room.few[level, p] < row:
        p += 1
    return p


@kernel
def _search(strata, score, order, room, low, until, ends, floor, short, steps, max_steps):
    """Fills the heap with the sequences inside the rows that do not lose. Returns (size, steps)."""
    m = len(strata.offsets) - 1
    rows = strata.rows
    size = 0
    level = 0
    limit = until
    room.path[0] = low
    room.next[0] = _from(strata, room, short, 0, low)
    while level >= 0:
        p = room.next[level]
        last = room.few[level, 0] + 1 if short else strata.offsets[level + 1]
        r = until
        if p < last:
            r = room.few[level, p] if short else rows[p]
        stop = limit if level > 0 else until
        if order.same[level] == 1:
            stop = min(stop, room.path[level - 1] + 1)
        # The row must lie before the end of each window that an earlier row of the sequence has begun.
        for i in range(len(order.inside)):
            if order.inside[i, 1] < level <= order.inside[i, 2]:
                stop = min(stop, order.windows[order.inside[i, 0], room.path[order.inside[i, 1]]])
        if r >= stop:
            level -= 1
            continue
        room.next[level] = p + 1
        steps += 1
        if steps > max_steps:
            return size, steps
        if level == 0 and len(ends) > 0:
            limit = ends[r]
        room.values[level] = strata.weights[level, r]
        room.path[level] = r
        possible = True
        here = True
        # The corner bound: each stratum after this one gets its best remaining weight.
        for j in range(level + 1, m):
            here = here and order.same[j] == 1
            best = room.after[j, r + 1]
            if here:
                best = strata.weights[j, r] if strata.behind[j, r] < strata.behind[j, r + 1] else math.nan
            room.values[j] = best
            possible = possible and not math.isnan(best)
        if not possible:
            continue
        bound = evaluate(score, room.values, room.stack)
        if _loses(room, size, floor, bound):
            continue
        if level == m - 1:
            size = _enter(room, size, bound)
            continue
        level += 1
        room.next[level] = _from(strata, room, short, level, r + 1 - order.same[level])
    return size, steps


@kernel
def best_of_windows(strata, score, order, room, lows, untils, ends, k, trial, max_steps, state, out_window, out_score, out_rows):
    """Writes the ``k`` best sequences of each window, best first, from window ``state[S_WINDOW]`` on.

    Args:
        strata, score, order, room: the arrays above.
        lows, untils: int64 (windows), ascending, first row of each window and the row after its last one.
        ends: int64 (rows) or empty; the rows of a sequence that begins at a row are before this.
        k: number of sequences.
        trial: how many rows of each stratum are joined first.
        max_steps: bound on the steps of one window.
        state: int64 (STATE).
        out_window, out_score, out_rows: output.

    Returns:
        DONE, FULL (the output is too small for k more results; call again with a larger one), or STEPS (one window took more than
        ``max_steps``).
    """
    m = len(strata.offsets) - 1
    while state[S_WINDOW] < len(lows):
        w = state[S_WINDOW]
        if state[S_OUT] + k > len(out_score):
            return FULL
        low = lows[w]
        until = untils[w]
        _best_to_come(strata, score, room, low, until, ends)
        steps = 0
        floor = -math.inf
        # A first join of the best few rows gives a floor for the bound of the full search.
        if _cut(strata, score, room, low, until, trial):
            size, steps = _search(strata, score, order, room, low, until, ends, floor, True, steps, max_steps)
            if size == k:
                floor = room.scores[0]
        size, steps = _search(strata, score, order, room, low, until, ends, floor, False, steps, max_steps)
        if steps > max_steps:
            return STEPS
        _ordered(room, size)
        at = state[S_OUT]
        for i in range(size):
            out_window[at] = w
            out_score[at] = room.scores[i]
            for j in range(m):
                out_rows[at, j] = room.vectors[i, j]
            at += 1
        state[S_OUT] = at
        state[S_WINDOW] = w + 1
    return DONE
