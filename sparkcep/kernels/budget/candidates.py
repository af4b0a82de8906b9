"""Candidates of the best-effort search (:mod:`sparkcep.kernels.budget.best_effort`).

A candidate is a run that may take the current row, together with the edge that takes it.
"""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.net.net import E_AT_START, E_VAR
from sparkcep.kernels.budget.layout import A_CLASS, A_EDGE, A_ENTRY, T_END, T_FIRST, T_NODE
from sparkcep.kernels.budget.negation import blocked
from sparkcep.kernels.common.run_chains import NONE
from sparkcep.kernels.frontier.frontier import fulfils, inside, timed
from sparkcep.kernels.frontier.payload import preferred
from sparkcep.kernels.frontier.run_classes import I_AFTER, I_NODE, I_OVER, bury, unlink
from sparkcep.kernels.jit.cache import embedded


@embedded
def _propose(place, e, count, proxies, net, runs, ground):
    """Notes a candidate. Returns the number of candidates, or -1 if the array is full.

    Of runs that nothing can distinguish only the best one becomes a candidate.
    """
    candidates = ground.candidates
    entry = runs.run[place] if place != NONE else np.int64(NONE)
    at = np.int64(count)
    shared = proxies and net.apart[e] == 0
    if shared:
        known = ground.bucket[net.buckets[e]] - 1
        if known != NONE:
            other = candidates[known, A_ENTRY]
            # A run that begins here began last. The first of its ways is preferred.
            if other == NONE or (entry != NONE and not preferred(runs.pool, entry, other)):
                return count
            at = known
    if at == candidates.shape[0]:
        return -1
    candidates[at, A_CLASS] = place
    candidates[at, A_EDGE] = e
    candidates[at, A_ENTRY] = entry
    if at < count:
        return count
    if shared:
        ground.bucket[net.buckets[e]] = count + 1
    return count + 1


@embedded
def collect(row, here, proxies, net, looking, negations, classes, runs, ground, state):
    """Collects the candidates of a row, and removes classes that are over. Returns their number, or -1 if the array is full."""
    head = classes.head[0]
    count = 0
    v = 0
    while here != 0:
        if here & 1 == 1:
            for k in range(net.by_variable[v], net.by_variable[v + 1]):
                node, first, end = net.stretches[k, T_NODE], net.stretches[k, T_FIRST], net.stretches[k, T_END]
                before = np.int64(NONE)
                place = np.int64(NONE)
                if node != 0:
                    place = head[node]
                    if place == NONE:
                        continue
                while True:
                    after = np.int64(NONE)
                    alive = True
                    if place != NONE:
                        after = classes.info[place, I_AFTER]
                        if row > classes.until[place]:
                            unlink(node, before, place, classes, state)
                            alive = False
                        else:
                            before = place
                    if alive:
                        way = np.int64(NONE)
                        for i in range(first, end):
                            e = net.by_edge[i]
                            if net.ways[e] == way or (net.edges[e, E_AT_START] != 0 and runs.positions[row] != 0):
                                continue
                            if not inside(place, e, row, net.edges, looking, classes) or not timed(e, row, net.edges, looking):
                                continue
                            if negations.some and place != NONE and blocked(e, runs.at[runs.run[place]], row, net.edges, negations):
                                continue
                            way = net.ways[e]
                            count = _propose(place, e, count, proxies, net, runs, ground)
                            if count < 0:
                                return -1
                    place = after
                    if place == NONE:
                        break
        here >>= 1
        v += 1
    return count


@embedded
def _accepts(place, e, row, low, high, net, looking, classes, state):
    """1 if a run may not ignore the row because of an edge, 0 if it may, negative for an error."""
    v = net.edges[e, E_VAR]
    if not inside(place, e, row, net.edges, looking, classes) or not timed(e, row, net.edges, looking):
        return 0
    if looking.conditions.entry[v] < 0:
        return 1
    return fulfils(place, v, e, row, low, high, net.edges, looking, state)


@embedded
def is_stopped(place, row, low, high, here, net, looking, classes, state):
    """Whether a waiting run may not ignore the row (SKIP TILL NEXT): 1, 0, or negative for an error."""
    for v in range(net.by_blocker.shape[0] - 1):
        if (here >> v) & 1 == 0:
            continue
        for k in range(net.by_blocker[v], net.by_blocker[v + 1]):
            if net.blockers[k, 0] == classes.info[place, I_NODE]:
                got = _accepts(place, net.blockers[k, 1], row, low, high, net, looking, classes, state)
                if got != 0:
                    return got
    return 0


@embedded
def end_blocked(row, low, high, here, net, looking, classes, state):
    """Ends the waiting runs that may not ignore the row (SKIP TILL NEXT), whether they were tried or not. That is not a check.

    Returns False for an error.
    """
    if net.blockers.shape[0] == 0:
        return True
    some = False
    for v in range(net.by_blocker.shape[0] - 1):
        if (here >> v) & 1 == 0:
            continue
        for k in range(net.by_blocker[v], net.by_blocker[v + 1]):
            place = classes.head[0, net.blockers[k, 0]]
            while place != NONE:
                if classes.info[place, I_OVER] == 0 and row <= classes.until[place]:
                    got = _accepts(place, net.blockers[k, 1], row, low, high, net, looking, classes, state)
                    if got < 0:
                        return False
                    if got == 1:
                        classes.info[place, I_OVER] = 1
                        some = True
                place = classes.info[place, I_AFTER]
    if some:
        bury(False, row, classes, state)
    return True


@embedded
def forget_candidates(count, proxies, net, ground):
    """Empties the buckets of a row's candidates."""
    if proxies:
        for i in range(count):
            ground.bucket[net.buckets[ground.candidates[i, A_EDGE]]] = 0
