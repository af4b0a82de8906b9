"""Proxy matches: one run for each state and cost (ACEP, VLDB 2016, section 3.3, Theorem 2).

Where conditions are local to their row and its neighbours, two runs at one node (which knows the cost) have equal futures but for their windows, and
the one that began later outlives the other. So each node keeps one run: the latest first row, of those the earliest rows, of those the preferred way.

A run is a chain of entries, newest first, that shares its tail with others (:mod:`sparkcep.search.chains`).

Shared arguments: ``letters`` int64 (rows): variables whose condition each row fulfils; ``when``, ``until`` (rows, int64 or float64): a row's place in its window's
measure, and the last place inside a window that begins with it; ``positions`` int64 (rows): the row's number in its stream, which
stays when the buffer moves on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.automaton.net import E_AT_START, E_COST, E_LABEL, E_TARGET
from sparkcep.search.chains import C_DEPTH, C_EDGE, C_EDGES, C_FIELDS, C_JUMP, C_PARENT, C_ROWS, C_START, NONE, comes_first
from sparkcep.search.chains import append as append_row
from sparkcep.search.codes import DONE, FULL, GROW, S_DETAIL, STATE_SIZE, SUSPENDED
from sparkcep.search.compiled import allocating, kernel
from sparkcep.search.progress import bounds, put_event, resumed, suspend

P_USED, PROXY_STATE = range(STATE_SIZE, STATE_SIZE + 2)  # state behind that of the exact kernel


class ProxyArrays(NamedTuple):
    """The automaton: ``edges`` as in automaton.net; ``by_first`` int64 (variables + 1), ``by_edge``: the edges of each variable, ``source`` int64
    (edges): the node each leaves; ``accept``, ``accept_end`` int64 (nodes): the cheapest accepting edge, also among those
    that hold behind the partition's last row only, NONE for none; ``tested`` int64: mask of all variables."""

    edges: np.ndarray
    by_first: np.ndarray
    by_edge: np.ndarray
    source: np.ndarray
    accept: np.ndarray
    accept_end: np.ndarray
    tested: int


class Chains(NamedTuple):
    """Runs as chains of entries: ``pool`` int64 (n, C_FIELDS) as in ranking.chains, its rows being positions in the stream; ``at`` int64 (n): the row of each
    entry in the buffer; ``until`` (n): the last place inside the run's window."""

    pool: np.ndarray
    at: np.ndarray
    until: np.ndarray


@kernel
def append(chains, entry, parent, edge, row, position, until):
    """Writes an entry behind ``parent`` (NONE: a run begins)."""
    append_row(chains.pool, entry, parent, edge, position)
    chains.at[entry] = row
    chains.until[entry] = until if parent < 0 else chains.until[parent]


@kernel
def preferred(chains, a, b):
    """Whether run ``a`` is to be kept and not ``b``, where both are at one node: the later first row, else the earlier rows, else the preferred
    way there. Rows that only one of them has behind the other's last come before any that the other can still take."""
    pool = chains.pool
    if pool[a, C_START] != pool[b, C_START]:
        return pool[a, C_START] > pool[b, C_START]
    return comes_first(pool, a, b, False)


@kernel
def proxy_partitions(
    automaton, strict, letters, offsets, when, until, positions, head_cut, tail_open, ahead, live, fresh, chains, state, events, out_labels, out_rows,
    out_path,
):
    """The best match of each last row as events, labels, rows and edges; returns DONE, SUSPENDED, FULL or GROW (more entries wanted).

    ``live`` int64 (nodes): the run at each node, NONE for none; ``fresh`` int64 (nodes): those that the row at hand makes. ``head_cut``: the
    first partition began in an earlier buffer; ``tail_open``: the last one goes on; ``ahead``: rows that conditions look ahead.
    """
    edges, by_first, by_edge, source, accept, accept_end, tested = automaton
    parts = offsets.shape[0] - 1
    part, row, number, event_count, label_count, covered = resumed(state)
    used = state[P_USED]
    outcome = DONE
    nodes = live.shape[0]
    ends = False
    for node in range(nodes):
        if accept_end[node] != accept[node]:
            ends = True
    while part < parts:
        low, high, open_end, limit = bounds(part, offsets, tail_open, max(ahead, 1 if ends else 0))
        while row < limit:
            here = letters[row] & tested
            if here == 0:
                if strict:
                    live[:] = NONE
                row += 1
                continue
            if used + by_edge.shape[0] > chains.at.shape[0]:
                outcome = GROW
                break
            begin = used
            best = NONE
            best_edge = NONE
            best_cost = np.int64(0)
            v = 0
            while here != 0:
                if here & 1 == 1:
                    for k in range(by_first[v], by_first[v + 1]):
                        e = by_edge[k]
                        node = source[e]
                        parent = np.int64(NONE)
                        if node == 0:
                            if edges[e, E_AT_START] != 0 and (row != low or (head_cut and part == 0)):
                                continue
                        else:
                            parent = live[node]
                            if parent < 0:
                                continue
                            if when[row] > chains.until[parent]:
                                live[node] = NONE  # outside its window
                                continue
                        target = edges[e, E_TARGET]
                        append(chains, used, parent, e, row, positions[row], until[row])
                        # ---- complete?
                        a = accept_end[target] if row + 1 == high else accept[target]
                        if a >= 0:
                            if best < 0 or edges[a, E_COST] < best_cost or (edges[a, E_COST] == best_cost and completes_better(chains, used, a, best, best_edge)):
                                best = used
                                best_edge = a
                                best_cost = edges[a, E_COST]
                        rival = fresh[target]
                        if rival < 0 or preferred(chains, used, rival):
                            fresh[target] = used
                        used += 1
                here >>= 1
                v += 1
            if best >= 0:
                depth = chains.pool[best, C_DEPTH]
                if event_count == events.shape[0] or label_count + depth > out_labels.shape[0]:
                    for entry in range(begin, used):
                        fresh[edges[chains.pool[entry, C_EDGE], E_TARGET]] = NONE
                    used = begin
                    state[S_DETAIL] = depth
                    outcome = FULL
                    break
                number += 1
                put_event(events, event_count, part, row, depth, number, label_count)
                events[event_count, 5] = best_edge
                event_count += 1
                entry = best
                for d in range(depth - 1, -1, -1):
                    out_rows[label_count + d] = chains.at[entry]
                    out_path[label_count + d] = chains.pool[entry, C_EDGE]
                    out_labels[label_count + d] = edges[chains.pool[entry, C_EDGE], E_LABEL]
                    if d == 0:
                        events[event_count - 1, 1] = chains.at[entry]
                    entry = chains.pool[entry, C_PARENT]
                label_count += depth
            # ---- what the row made takes its place
            if strict:
                live[:] = NONE
            for entry in range(begin, used):
                target = edges[chains.pool[entry, C_EDGE], E_TARGET]
                if fresh[target] != entry:
                    continue
                fresh[target] = NONE
                rival = live[target]
                if rival < 0 or when[row] > chains.until[rival] or preferred(chains, entry, rival):
                    live[target] = entry
            row += 1
        if outcome != DONE:
            break
        if open_end:
            outcome = SUSPENDED
            break
        live[:] = NONE
        used = 0
        part += 1
        number = 0
        row = max(row, high)
    suspend(state, part, row, number, event_count, label_count, covered)
    state[P_USED] = used
    return outcome


@kernel
def completes_better(chains, a, edge_a, b, edge_b):
    """As :func:`preferred`, of two runs that complete at one row at one cost."""
    pool = chains.pool
    if pool[a, C_ROWS] == pool[b, C_ROWS] and pool[a, C_EDGES] == pool[b, C_EDGES]:
        return edge_a < edge_b
    return preferred(chains, a, b)


@allocating
def compact(chains, live, used):
    """Drops the entries that no run of ``live`` has; their numbers change there as well. Returns how many are left."""
    number = np.full(used, NONE, dtype=np.int64)
    for node in range(live.shape[0]):
        entry = live[node]
        while entry >= 0 and number[entry] == NONE:
            number[entry] = 0
            entry = chains.pool[entry, C_PARENT]
    count = 0
    for entry in range(used):
        if number[entry] == NONE:
            continue
        number[entry] = count
        for field in range(C_FIELDS):
            chains.pool[count, field] = chains.pool[entry, field]
        for field in (C_PARENT, C_JUMP):
            to = chains.pool[entry, field]
            chains.pool[count, field] = number[to] if to >= 0 else NONE
        chains.at[count] = chains.at[entry]
        chains.until[count] = chains.until[entry]
        count += 1
    for node in range(live.shape[0]):
        if live[node] >= 0:
            live[node] = number[live[node]]
    return count
