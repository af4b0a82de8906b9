"""Negations under a budget: what may not stand between the rows of a run, before its first and behind its last one.

A negation whose condition looks at its own row alone ends what a run may do at once, and costs no check: an edge that crosses it is
no candidate once such a row lies behind the run's last row. One at the beginning and one at the end of the pattern are judged where
a match is complete, because the window tells how far they look; so are those whose conditions look at the match. Runs that a
negation to come may tell apart are no class: at the beginning by the first row from which on nothing stands before them, at the end
by where their windows end, and between rows by the next row that hinders them.
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

KEYS = 2  # columns of ``classes.ends`` behind those of the windows: see :func:`distinguish`


class NegationArrays(NamedTuple):
    """Whether there are negations (``some``), and such as look at the match (``late``). ``local``: mask of the others; ``nearest``
    int32 (variables, rows + 1): of those, as in :class:`sparkcep.kernels.match.walk.Negated`; ``backs`` int64 (rows): the first row
    inside a window that ends with each; ``windows``: how many there are; ``first`` int64 (nodes + 1): the edges of each node;
    ``crossed`` int64 (nodes): local negations that edges from there to a next row cross; ``closing`` uint8 (nodes): whether a
    negation may stand behind the last row of a match to come. ``floor`` int64 (variables + 2): of the partition at hand, behind
    which row nothing that is gone hinders a match to begin, the partition's first row, and the first one of the buffer that is
    looked at: rows that are gone count before 0."""

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
    """What :mod:`sparkcep.kernels.vm.final_conditions` asks for: ``frames``, ``path`` and ``within`` of its working memory."""

    frames: np.ndarray
    path: np.ndarray
    within: np.ndarray


class NegationLimits(NamedTuple):
    """Likewise: the strategy of event selection, and how many steps a search for a negated group may take."""

    strategy: int
    max_steps: int


class WindowEnds(NamedTuple):
    """Likewise: the ends of the windows."""

    windows: np.ndarray


@embedded
def _met(variables, after, before, nearest):
    """Whether what one of ``variables`` stands for lies strictly between two rows."""
    v = 0
    while variables != 0:
        if variables & 1 == 1 and after + 1 < before and nearest[v, after + 1] < before:
            return True
        variables >>= 1
        v += 1
    return False


@embedded
def blocked(e, last, row, edges, negations):
    """Whether a run that took row ``last`` last may not take ``row`` by an edge, for what lies between."""
    crossed = edges[e, E_NOT] & negations.local
    return crossed != 0 and _met(crossed, last, row, negations.nearest)


@embedded
def free_from(e, row, edges, negations):
    """The first row of the partition from which on nothing that the edge forbids stands before ``row``, with which a run begins."""
    crossed = edges[e, E_NOT] & negations.local
    count = negations.floor.shape[0] - 2
    begin = negations.floor[count + 1]
    free = negations.floor[count]
    v = 0
    while crossed != 0:
        if crossed & 1 == 1:
            # what is complete first from each row on rises with the row
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


@kernel
def set_floor(low, negations):
    """Of a partition that is there from its first row on nothing is gone."""
    for v in range(negations.floor.shape[0]):
        negations.floor[v] = low


@embedded
def distinguish(c, place, e, node, row, edges, classes, negations):
    """Notes by what a class that took ``row`` by an edge is told from others of its node: from which row on nothing stands before
    it, and a digest of what may hinder it yet. ``place``: the class that it comes from, NONE for a run that begins."""
    at = negations.windows
    free = free_from(e, row, edges, negations) if place == NONE else classes.ends[place, at]
    classes.ends[c, at] = free
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
def completing(f, target, free, row, low, high, start, windows, edges, negations):
    """Of the edges from ``f`` on the cheapest that completes at a node a run from row ``start`` to ``row``, as far as local
    negations tell: NONE where none does. ``free``: the first row from which on nothing stands before the run."""
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
    """Leaves of the runs that may be complete at a row those that are, each with the cheapest edge that completes it; ``done``
    int64 (n, 3): their entries, ``count`` of them. How many are left, or -1 for an error, which ``state[S_DETAIL]`` tells.
    ``negated``: as :class:`sparkcep.kernels.match.walk.Negated`."""
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
        e = completing(np.int64(0), target, free, row, low, high, start, spans.windows, edges, negations)
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
            e = completing(e + 1, target, free, row, low, high, start, spans.windows, edges, negations)
    return kept


@embedded
def _judged(depth, row, here, edges, negations, negated, how, spans, work, looking, state):
    """Whether nothing stands in the match in the frames what conditions that look at it forbid: 1, 0 or an error."""
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
