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

from sparkcep.automaton.net import E_AT_END, E_NOT, E_VAR
from sparkcep.search.chains import C_DEPTH, C_EDGE, C_PARENT, NONE
from sparkcep.search.codes import S_DETAIL, S_STEPS
from sparkcep.search.compiled import embedded, kernel
from sparkcep.search.finished import F_EDGE, F_ROW, group_between, holds_finally, replay
from sparkcep.search.memo import BASIS, mixed

KEYS = 2  # columns of ``classes.ends`` behind those of the windows: see :func:`tell_apart`


class Judging(NamedTuple):
    """What :mod:`sparkcep.search.finished` asks for: ``frames``, ``path`` and ``within`` of its working memory."""

    frames: np.ndarray
    path: np.ndarray
    within: np.ndarray


class Asked(NamedTuple):
    """Likewise: the strategy of event selection, and how many steps a search for a negated group may take."""

    strategy: int
    max_steps: int


class Within(NamedTuple):
    """Likewise: the ends of the windows."""

    windows: np.ndarray


class Hinders(NamedTuple):
    """``negated``: as :class:`sparkcep.search.walk.Negated`; ``backs`` int64 (rows): the first row inside a window that ends with
    each; ``windows``: how many there are; ``first`` int64 (nodes + 1): the edges of each node; ``crossed`` int64 (nodes): local
    negations that edges from there to a next row cross; ``closing`` uint8 (nodes): whether a negation may stand behind the last row
    of a match to come. ``how``, ``spans``, ``work``: for conditions that look at the match."""

    negated: tuple
    backs: np.ndarray
    windows: int
    first: np.ndarray
    crossed: np.ndarray
    closing: np.ndarray
    how: Asked
    spans: Within
    work: Judging


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
def hindered(e, last, row, edges, hinders):
    """Whether a run that took row ``last`` last may not take ``row`` by an edge, for what lies between."""
    crossed = edges[e, E_NOT] & hinders.negated.local
    return crossed != 0 and _met(crossed, last, row, hinders.negated.nearest)


@embedded
def free_from(e, row, low, edges, hinders):
    """The first row of the partition from which on nothing that the edge forbids stands before ``row``, with which a run begins."""
    crossed = edges[e, E_NOT] & hinders.negated.local
    free = np.int64(low)
    v = 0
    while crossed != 0:
        if crossed & 1 == 1:
            # what is complete first from each row on rises with the row
            high = np.int64(row)
            while free < high:
                middle = (free + high) // 2
                if hinders.negated.nearest[v, middle] < row:
                    free = middle + 1
                else:
                    high = middle
        crossed >>= 1
        v += 1
    return free


@embedded
def tell_apart(c, place, e, node, row, low, edges, classes, hinders):
    """Notes by what a class that took ``row`` by an edge is told from others of its node: from which row on nothing stands before
    it, and a digest of what may hinder it yet. ``place``: the class that it comes from, NONE for a run that begins."""
    at = hinders.windows
    free = free_from(e, row, low, edges, hinders) if place == NONE else classes.ends[place, at]
    classes.ends[c, at] = free
    h = BASIS
    if hinders.closing[node] == 1:
        h = mixed(h, classes.until[c])
    crossed = hinders.crossed[node]
    v = 0
    while crossed != 0:
        if crossed & 1 == 1:
            h = mixed(h, hinders.negated.nearest[v, row + 1])
        crossed >>= 1
        v += 1
    classes.ends[c, at + 1] = np.int64(h >> np.uint64(2))


@embedded
def completing(target, place, e, entry, row, low, high, start, looking, edges, classes, hinders, runs, state):
    """The cheapest edge that completes the run ``entry``, which took ``row`` by edge ``e`` and began at row ``start``: NONE where
    none does, less for an error."""
    free = free_from(e, row, low, edges, hinders) if place == NONE else classes.ends[place, hinders.windows]
    if free > hinders.backs[row]:
        return np.int64(NONE)
    late = hinders.negated.late
    for f in range(hinders.first[target], hinders.first[target + 1]):
        if edges[f, E_VAR] >= 0 or (edges[f, E_AT_END] != 0 and row + 1 != high):
            continue
        crossed = edges[f, E_NOT] & hinders.negated.local
        if crossed != 0 and _met(crossed, row, looking.windows[0, start], hinders.negated.nearest):
            continue
        if late != 0:
            got = _judged(f, entry, row, low, high, start, looking, edges, hinders, runs, state)
            if got < 0:
                return got - 1
            if got == 0:
                continue
        return np.int64(f)
    return np.int64(NONE)


@kernel
def _judged(accepting, entry, row, low, high, start, looking, edges, hinders, runs, state):
    """Whether nothing stands in a run that completes by an edge what conditions that look at the match forbid: 1, 0 or an error."""
    depth = runs.pool[entry, C_DEPTH]
    frames, late = hinders.work.frames, hinders.negated.late
    frames[depth, F_EDGE] = accepting
    some = edges[accepting, E_NOT] & late
    at = entry
    for d in range(depth, 0, -1):
        frames[d, F_ROW] = runs.at[at]
        frames[d - 1, F_EDGE] = runs.pool[at, C_EDGE]
        some |= edges[runs.pool[at, C_EDGE], E_NOT] & late
        at = runs.pool[at, C_PARENT]
    if some == 0:
        return np.int64(1)
    state[S_STEPS] = 0
    here = (low, high, start)
    data, conditions, scratch = looking.rows, looking.conditions, looking.scratch
    found = np.int64(1)
    for d in range(1, depth + 2):
        crossed = edges[frames[d - 1, F_EDGE], E_NOT] & late
        after = frames[d - 1, F_ROW] if d > 1 else hinders.backs[row] - 1
        before = frames[d, F_ROW] if d <= depth else looking.windows[0, start]
        v = np.int64(0)
        while crossed != 0 and found == 1:
            if crossed & 1 == 1:
                got = _stands(v, after, before, depth, here, edges, data, conditions, scratch, hinders, state)
                found = 1 - got if got >= 0 else got
            crossed >>= 1
            v += 1
        if found != 1:
            break
    # values of the run stand where those of the finished match were made
    bad = replay(np.int64(-1), np.int64(0), np.int64(0), depth, scratch.hi.shape[0] - 2, here, edges, conditions, data, scratch, hinders.work, state)
    if bad < 0:
        found = bad
    if found < 0:
        state[S_DETAIL] = found
    return found


@embedded
def _stands(v, after, before, depth, here, edges, data, conditions, scratch, hinders, state):
    """Whether a row strictly between fulfils a negated condition, or a negated group's match lies there: 1, 0 or an error."""
    if hinders.negated.start[v] >= 0:
        return group_between(v, after, before, depth, here, edges, None, hinders.how, hinders.spans, hinders.negated, conditions, data, scratch, hinders.work, state)
    for x in range(after + 1, before):
        got = holds_finally(v, x, min(x, here[2]), depth, here, edges, conditions, data, scratch, hinders.work, state)
        if got != 0:
            return got
    return np.int64(0)
