"""Negations under a budget: rows that may not occur between the rows of a run, before its first or after its last row.

A negation whose condition looks at its own row alone blocks a run at once and costs no check. An edge that crosses it does not make
a candidate if such a row lies after the run's last row. Three kinds are judged when a match is complete: negations at the beginning
and at the end of the pattern, and those whose conditions look at the match. The window bounds how far the first two look.

Runs that a later negation may distinguish do not form a class. For a negation at the beginning they differ by the first row that
nothing blocks, at the end by the end of their windows. Between rows they differ by the next row that blocks them.

Example: ``A ~X B`` over rows 0 (A), 1 (X), 2 (B). ``nearest`` for X has 1 at row 1, which lies between rows 0 and 2. So the edge to
B is blocked at row 2 for the run that took row 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.compiler.net.net import E_AT_END, E_NOT, E_TARGET, E_VAR
from sparkcep.kernels.common.hash_table import BASIS, mixed
from sparkcep.kernels.common.layout import S_DETAIL, S_STEPS
from sparkcep.kernels.common.run_chains import C_DEPTH, C_EDGE, C_PARENT, NONE
from sparkcep.kernels.jit.cache import embedded, kernel
from sparkcep.kernels.vm.final_conditions import F_EDGE, F_ROW, group_between, holds_finally

KEYS = 2  # columns of ``classes.ends`` after those of the windows: see :func:`distinguish`


class NegationArrays(NamedTuple):
    """The negations of a pattern.

    Attributes:
        some: whether there are any.
        late: whether conditions of some look at the match.
        local: mask of the others.
        nearest: int32 (variables, rows + 1), for local ones, as in :class:`sparkcep.kernels.match.walk.Negated`.
        backs: int64 (rows), the first row inside a window that ends with the row.
        windows: how many windows there are.
        first: int64 (nodes + 1), the edges of each node.
        crossed: int64 (nodes), local negations that the node's edges to a next row cross.
        closing: uint8 (nodes), whether a negation may follow the last row of a future match.
        floor: int64 (variables + 2), of the current partition. For each variable, the first row that no dropped row blocks as a
            match start. Then the partition's first row, and the first row of the buffer that is looked at. Dropped rows have
            negative numbers.
    """

    some: bool
    late: bool
    local: int
    nearest: np.ndarray
    backs: np.ndarray
    windows: int
    first: np.ndarray
    crossed: np.ndarray
    closing: np.ndarray
    floor: np.ndarray


class JudgeArrays(NamedTuple):
    """Working memory for :mod:`sparkcep.kernels.vm.final_conditions`."""

    frames: np.ndarray
    path: np.ndarray
    within: np.ndarray


class NegationLimits(NamedTuple):
    """Options for :mod:`sparkcep.kernels.vm.final_conditions`: the strategy of event selection, and how many steps the search for a
    negated group may take."""

    strategy: int
    max_steps: int


class WindowEnds(NamedTuple):
    """Window ends for :mod:`sparkcep.kernels.vm.final_conditions`."""

    windows: np.ndarray


@embedded
def _met(variables, after, before, nearest):
    """Whether an occurrence of one of ``variables`` lies strictly between two rows."""
    v = 0
    while variables != 0:
        if variables & 1 == 1 and after + 1 < before and nearest[v, after + 1] < before:
            return True
        variables >>= 1
        v += 1
    return False


@embedded
def blocked(e, last, row, edges, negations):
    """Whether a negation blocks a run, which took row ``last`` last, from taking ``row`` by an edge."""
    crossed = edges[e, E_NOT] & negations.local
    return crossed != 0 and _met(crossed, last, row, negations.nearest)


@embedded
def free_from(e, row, edges, negations):
    """The first row such that the edge forbids none of the rows from it to before ``row``. The edge begins a run with ``row``."""
    crossed = edges[e, E_NOT] & negations.local
    count = negations.floor.shape[0] - 2
    begin = negations.floor[count + 1]
    free = negations.floor[count]
    v = 0
    while crossed != 0:
        if crossed & 1 == 1:
            # ``nearest`` is monotone in the row, so the last occurrence before ``row`` is found by binary search.
            found = np.int64(begin)
            high = np.int64(row)
            while found < high:
                middle = (found + high) // 2
                if negations.nearest[v, middle] < row:
                    found = middle + 1
                else:
                    high = middle
            free = max(free, found if found > begin else negations.floor[v])
        crossed >>= 1
        v += 1
    return free


@embedded
def partition_begin(negations):
    """The partition's first row, which may have been dropped."""
    return negations.floor[negations.floor.shape[0] - 2]


@embedded
def begins_by_negation(edges, negations):
    """Whether a local negation may lie before the first row of a match."""
    for e in range(negations.first[0], negations.first[1]):
        if edges[e, E_NOT] & negations.local != 0:
            return True
    return False


@kernel
def set_floor(low, negations):
    """Sets the floor of a partition whose first row is in the buffer: nothing was dropped."""
    for v in range(negations.floor.shape[0]):
        negations.floor[v] = low


@embedded
def run_begin(place, e, row, edges, classes, negations):
    """The first row that nothing before a run blocks; the partition's first row if nothing in the window does.

    The run takes ``row`` by an edge. ``place`` is the class it comes from, NONE for a run that begins.
    """
    if place != NONE:
        return classes.ends[place, negations.windows]
    free = free_from(e, row, edges, negations)
    # A row that is in no window with the first row of the run is in none with a later one.
    return free if free > negations.backs[row] else partition_begin(negations)


@embedded
def distinguish(c, begin, node, row, classes, negations):
    """Notes in ``classes.ends`` what distinguishes a class that took ``row`` from others of its node: ``begin``, see
    :func:`run_begin`, and a digest of what may block it later."""
    at = negations.windows
    classes.ends[c, at] = begin
    h = BASIS
    if negations.closing[node] == 1:
        h = mixed(h, classes.until[c])
    crossed = negations.crossed[node]
    v = 0
    while crossed != 0:
        if crossed & 1 == 1:
            h = mixed(h, negations.nearest[v, row + 1])
        crossed >>= 1
        v += 1
    classes.ends[c, at + 1] = np.int64(h >> np.uint64(2))


@embedded
def completing(f, target, free, row, high, start, windows, edges, negations):
    """The cheapest edge from ``f`` on that completes a run from row ``start`` to ``row`` at a node, by local negations; NONE
    without one.

    ``free`` is the first row that nothing before the run blocks.
    """
    if free > negations.backs[row]:
        return np.int64(NONE)
    for e in range(max(f, negations.first[target]), negations.first[target + 1]):
        if edges[e, E_VAR] >= 0 or (edges[e, E_AT_END] != 0 and row + 1 != high):
            continue
        crossed = edges[e, E_NOT] & negations.local
        if crossed == 0 or not _met(crossed, row, windows[0, start], negations.nearest):
            return np.int64(e)
    return np.int64(NONE)


# -- conditions that look at the match --------------------------------------------------------------------------------


@kernel
def judge(done, count, row, low, high, edges, negations, negated, how, spans, work, looking, runs, state):
    """Keeps the runs that are complete at a row, each with the cheapest edge that completes it.

    Args:
        done: int64 (n, 3), the entries of the runs that may be complete; overwritten by those that are.
        count: their number.
        negated: as :class:`sparkcep.kernels.match.walk.Negated`.

    Returns:
        The number of runs kept, or -1 for an error, which is in ``state[S_DETAIL]``.
    """
    kept = 0
    for i in range(count):
        entry = done[i, 0]
        depth, at = runs.pool[entry, C_DEPTH], entry
        for d in range(depth, 0, -1):
            work.frames[d, F_ROW] = runs.at[at]
            work.frames[d - 1, F_EDGE] = runs.pool[at, C_EDGE]
            at = runs.pool[at, C_PARENT]
        start, target = work.frames[1, F_ROW], edges[work.frames[depth - 1, F_EDGE], E_TARGET]
        free = free_from(work.frames[0, F_EDGE], start, edges, negations)
        e = completing(np.int64(0), target, free, row, high, start, spans.windows, edges, negations)
        while e != NONE:
            work.frames[depth, F_EDGE] = e
            got = _judged(depth, row, (low, high, start), edges, negations, negated, how, spans, work, looking, state)
            if got < 0:
                state[S_DETAIL] = got
                return -1
            if got == 1:
                done[kept, 0] = entry
                done[kept, 1] = e
                kept += 1
                break
            e = completing(e + 1, target, free, row, high, start, spans.windows, edges, negations)
    return kept


@embedded
def _judged(depth, row, here, edges, negations, negated, how, spans, work, looking, state):
    """Whether the match in the frames has none of the rows that conditions on the match forbid: 1, 0 or an error."""
    data, conditions, scratch = looking.rows, looking.conditions, looking.scratch
    state[S_STEPS] = 0
    for d in range(1, depth + 2):
        crossed = edges[work.frames[d - 1, F_EDGE], E_NOT] & negated.late
        after = work.frames[d - 1, F_ROW] if d > 1 else negations.backs[row] - 1
        before = work.frames[d, F_ROW] if d <= depth else spans.windows[0, here[2]]
        v = np.int64(0)
        while crossed != 0:
            if crossed & 1 == 1:
                if negated.start[v] >= 0:
                    got = group_between(v, after, before, depth, here, edges, None, how, spans, negated, conditions, data, scratch, work, state)
                    if got != 0:
                        return min(got, np.int64(0))
                else:
                    for x in range(after + 1, before):
                        got = holds_finally(v, x, min(x, here[2]), depth, here, edges, conditions, data, scratch, work, state)
                        if got != 0:
                            return min(got, np.int64(0))
            crossed >>= 1
            v += 1
    return np.int64(1)
