"""Proxy matches where conditions look at the match: one run for each node and values still needed (ACEP, VLDB 2016, section 3.3).

As :mod:`sparkcep.search.proxies`, but two runs at one node have equal futures only if the values of the match that conditions may still read, and the
ends of the groups' windows still open, are equal as well: they are one *class* then, as in :mod:`sparkcep.search.merged` (SASE+,
SIGMOD 2008, 5.2.2), and of a class the run with the latest first row is kept.

Shared arguments are those of these two modules; a row's place in the window is its number in the buffer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.automaton.net import E_AT_START, E_CHECK, E_COST, E_LABEL, E_OPEN, E_TARGET
from sparkcep.search.chains import C_DEPTH, C_EDGE, C_PARENT, NONE
from sparkcep.search.codes import DONE, ERROR, FULL, GROW, S_DETAIL, S_EVENTS, S_LABELS, S_PART, S_START
from sparkcep.search.compiled import kernel
from sparkcep.search.machine import MAP, scan
from sparkcep.search.memo import put
from sparkcep.search.merged import C_HASH, C_NODE, find, hashed, remove
from sparkcep.search.progress import put_event
from sparkcep.search.proxies import P_USED, PROXY_STATE, append, completes_better, preferred

# state behind that of proxy_kernels: places given back, places ever used
P_FREE, P_PLACES, CLASS_STATE = range(PROXY_STATE, PROXY_STATE + 3)


class Places(NamedTuple):
    """Classes of runs: ``info``, ``ends``, ``hi``, ``hf``, ``bits``, ``free``, ``table`` as in merged_kernels.Classes; int64 (n) ``entry``: the run, an
    entry of the chains, ``after``: the next class of the node; ``head`` int64 (nodes): the first; ``pending`` int64 (n): classes that one row makes."""

    info: np.ndarray
    ends: np.ndarray
    hi: np.ndarray
    hf: np.ndarray
    bits: np.ndarray
    free: np.ndarray
    table: np.ndarray
    entry: np.ndarray
    after: np.ndarray
    head: np.ndarray
    pending: np.ndarray


@kernel
def _place(places, state):
    """A free place, NONE where there is none."""
    if state[P_FREE] > 0:
        state[P_FREE] -= 1
        return places.free[state[P_FREE]]
    if state[P_PLACES] == places.entry.shape[0]:
        return np.int64(NONE)
    state[P_PLACES] += 1
    return state[P_PLACES] - 1


@kernel
def _give_back(place, places, state):
    places.entry[place] = NONE
    places.free[state[P_FREE]] = place
    state[P_FREE] += 1


@kernel
def refill(places):
    """Fills an empty table with the classes of all nodes."""
    for node in range(places.head.shape[0]):
        place = places.head[node]
        while place != NONE:
            put(place, places.info[place, C_HASH], places.table)
            place = places.after[place]


@kernel
def clear(places, state):
    """No class is left."""
    places.head[:] = NONE
    places.table[:] = 0
    state[P_FREE] = 0
    state[P_PLACES] = 0


@kernel
def _settle(place, row, places, chains, live, values, state):
    """Puts a class that a row made among the others, or its run into the class with the same future if it is preferred there."""
    info = places.info
    info[place, C_HASH] = hashed(place, info, places.ends, places.hi, places.bits, live, values)
    h = find(place, places, live, values)
    if places.table[h] == 0:
        node = info[place, C_NODE]
        places.table[h] = place + 1
        places.after[place] = places.head[node]
        places.head[node] = place
        return
    known = places.table[h] - 1
    rival = places.entry[known]
    if row > chains.until[rival] or preferred(chains, places.entry[place], rival):
        places.entry[known] = places.entry[place]
        for k in range(places.hi.shape[1]):
            places.hi[known, k] = places.hi[place, k]
            places.hf[known, k] = places.hf[place, k]
    _give_back(place, places, state)


@kernel
def class_partitions(
    automaton, strict, windows, window_live, valued, live, read, conditions, rows, scratch, spare, places, chains, state, events, out_labels,
    out_rows, out_path,
):
    """The best match of each last row of whole partitions, as events, labels, rows and edges; DONE, FULL, GROW (state[S_DETAIL]: 0 entries, 1 places) or
    ERROR.

    ``windows`` int64 (w, rows): first row outside each window that begins with a row; ``window_live`` int64 (nodes): groups' windows that are checked
    behind a node; ``valued`` uint8 (nodes), ``live`` uint8 (nodes, slots): slots that are needed; ``read``: as in merged_kernels; ``spare``: a row of the scratch behind all others.
    """
    edges, by_first, by_edge, source, accept, accept_end, tested = automaton
    bytecode, entry, floats, slots, label_codes = conditions
    letters, offsets, ints, flts, inull, fnull, pair_starts, pair_ints, pair_flts, pair_null = rows
    labels, hi, hf, _, si, sf, sn, _, _, _, _, _, _, _ = scratch
    values = (read, ints, flts.view(np.int64), inull, fnull)
    parts = offsets.shape[0] - 1
    while state[S_PART] < parts:
        part = state[S_PART]
        low = offsets[part]
        high = offsets[part + 1]
        if state[S_START] < low:
            state[S_START] = low
        if state[S_START] == low:
            clear(places, state)
            state[P_USED] = 0
        while state[S_START] < high:
            row = state[S_START]
            here = letters[row] & tested
            if windows[0, row] <= row:
                here = 0  # its time is NULL
            if here == 0:
                if strict:
                    clear(places, state)
                state[S_START] = row + 1
                continue
            begin = state[P_USED]
            used = begin
            count = 0
            best = np.int64(NONE)
            best_edge = np.int64(NONE)
            best_cost = np.int64(0)
            lacking = NONE
            v = 0
            while here != 0 and lacking == NONE:
                k = by_first[v]
                while here & 1 == 1 and k < by_first[v + 1] and lacking == NONE:
                    e = by_edge[k]
                    k += 1
                    node = source[e]
                    target = edges[e, E_TARGET]
                    if node == 0 and edges[e, E_AT_START] != 0 and row != low:
                        continue
                    before = np.int64(NONE)
                    place = np.int64(NONE) if node == 0 else places.head[node]
                    while lacking == NONE and (node == 0 or place != NONE):
                        parent = np.int64(NONE)
                        following = np.int64(NONE)
                        if node != 0:
                            parent = places.entry[place]
                            following = places.after[place]
                            if row > chains.until[parent]:
                                # outside its window
                                remove(place, places.info, places.table)
                                if before == NONE:
                                    places.head[node] = following
                                else:
                                    places.after[before] = following
                                _give_back(place, places, state)
                                place = following
                                continue
                        fits = True
                        for w in range(1, windows.shape[0]):
                            if (edges[e, E_CHECK] >> w) & 1 == 1 and row >= places.ends[place, w]:
                                fits = False
                            if (edges[e, E_OPEN] >> w) & 1 == 1 and windows[w, row] <= row:
                                fits = False
                        if fits and (entry[v] >= 0 or valued[target] == 1):
                            if node != 0:
                                for s in range(places.hi.shape[1]):
                                    hi[spare, s] = places.hi[place, s] if valued[node] == 1 else 0
                                    hf[spare, s] = places.hf[place, s] if valued[node] == 1 else 0.0
                            first_row = row if node == 0 else np.int64(-1)
                            prior = row - 1 if node == 0 else spare
                            got, bad = scan(
                                MAP, np.int64(v), edges[e, E_LABEL], entry[v], 1, row, prior, low, row + 1, high, first_row, np.int64(0), letters, bytecode, floats, slots, hi, hf, labels, label_codes, ints, flts,
                                inull, fnull, pair_starts, pair_ints, pair_flts, pair_null, si, sf, sn,
                            )
                            if bad < 0:
                                state[S_DETAIL] = bad
                                return ERROR
                            fits = got == 1
                        if fits and used == chains.at.shape[0]:
                            lacking = 0
                        elif fits:
                            made = _place(places, state)
                            if made == NONE:
                                lacking = 1
                            else:
                                append(chains, used, parent, e, row, row - low, windows[0, row] - 1)
                                places.entry[made] = used
                                places.info[made, C_NODE] = target
                                for w in range(1, windows.shape[0]):
                                    opened = (edges[e, E_OPEN] >> w) & 1 == 1
                                    end = windows[w, row] if opened else (np.int64(NONE) if node == 0 else places.ends[place, w])
                                    places.ends[made, w] = end if (window_live[target] >> w) & 1 == 1 else NONE
                                for s in range(places.hi.shape[1]):
                                    places.hi[made, s] = hi[row, s] if valued[target] == 1 else 0
                                    places.hf[made, s] = hf[row, s] if valued[target] == 1 else 0.0
                                a = accept_end[target] if row + 1 == high else accept[target]
                                if a >= 0:
                                    if best < 0 or edges[a, E_COST] < best_cost or (edges[a, E_COST] == best_cost and completes_better(chains, used, a, best, best_edge)):
                                        best = used
                                        best_edge = a
                                        best_cost = edges[a, E_COST]
                                places.pending[count] = made
                                count += 1
                                used += 1
                        if node == 0:
                            break
                        before = place
                        place = following
                here >>= 1
                v += 1
            depth = chains.pool[best, C_DEPTH] if best >= 0 else 0
            full = best >= 0 and (state[S_EVENTS] == events.shape[0] or state[S_LABELS] + depth > out_labels.shape[0])
            if lacking != NONE or full:
                for i in range(count):
                    _give_back(places.pending[i], places, state)
                state[S_DETAIL] = depth if lacking == NONE else lacking
                return FULL if lacking == NONE else GROW
            if best >= 0:
                label_count = state[S_LABELS]
                put_event(events, state[S_EVENTS], part, row, depth, 0, label_count)
                events[state[S_EVENTS], 5] = best_edge
                at = best
                for d in range(depth - 1, -1, -1):
                    out_rows[label_count + d] = chains.at[at]
                    out_path[label_count + d] = chains.pool[at, C_EDGE]
                    out_labels[label_count + d] = edges[chains.pool[at, C_EDGE], E_LABEL]
                    events[state[S_EVENTS], 1] = chains.at[at]
                    at = chains.pool[at, C_PARENT]
                state[S_EVENTS] += 1
                state[S_LABELS] = label_count + depth
            if strict:
                # runs that the row does not go on with are over; the row's own stay at their places
                places.head[:] = NONE
                places.table[:] = 0
                state[P_FREE] = 0
                for place in range(state[P_PLACES]):
                    kept = False
                    for i in range(count):
                        kept = kept or places.pending[i] == place
                    if not kept:
                        _give_back(place, places, state)
            state[P_USED] = used
            for i in range(count):
                _settle(places.pending[i], row, places, chains, live, values, state)
            state[S_START] = row + 1
        state[S_PART] = part + 1
    return DONE
