"""Event selection: matches whose rows need not be adjacent, by depth-first search over the selection automaton.

SASE+ (SIGMOD 2008, sections 3 and 5). A run is a path of the search: its rows lie in the frames, its computation
state in the slots of :mod:`sparkcep.search.machine`. In place of the paper's runs side by side over a shared
versioned buffer the search goes depth first in preference order, which needs memory for one run only and gives matches in
their order; what sharing saves the paper, two tables save here (docs/adr/0004):

``ends``   for each (node, row) the end of the earliest completion from there by row-local conditions: a branch that
           cannot complete inside its window is never entered. Exact where no condition looks at the match.
memo       (node, row, window, values of the match still needed) that led to no match: equivalent runs are merged,
           the paper's 5.2.2, on failure.

Shared arguments are those of :mod:`sparkcep.search.adjacent`; ``windows`` int64 (w, rows): for each window and row the first
row outside a window that begins with it; ``backs`` int64 (rows): the first row inside a window that ends with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.automaton.net import E_AT_END, E_AT_START, E_CHECK, E_COST, E_LABEL, E_NOT, E_OPEN, E_TARGET, E_VAR
from sparkcep.search.codes import (
    ANY,
    DONE,
    EFFORT,
    ERROR,
    FULL,
    NEVER,
    NEXT,
    S_ACTIVE,
    S_BEST,
    S_DEPTH,
    S_DETAIL,
    S_ENTRIES,
    S_FOUND,
    S_OWN,
    SKIP_FIRST,
    SKIP_NEXT_ROW,
    SKIP_PAST_LAST,
    SKIP_TO_ABSENT,
    SKIP_TO_FIRST,
    STRICT,
    SUSPENDED,
    TOO_MANY,
)
from sparkcep.search.compiled import allocating, kernel
from sparkcep.search.derivations import derived_before
from sparkcep.search.machine import EXTEND, MAP, SEARCH, UNTAKEN, scan
from sparkcep.search.memo import enter, forget, place_of
from sparkcep.search.progress import bounds, put_event, resumed, suspend, unmatched

# columns of ``frames``: node, row taken, edge, next candidate row (-1: not looked for), first accepting edge, matches at
# entry, complete already, rows taken since the candidate was looked at
F_NODE, F_ROW, F_EDGE, F_NEXT, F_FIRST, F_FOUND, F_DONE, F_STALE = range(8)


class SelectionArrays(NamedTuple):
    """The automaton: ``first``, ``edges``, ``masks`` as in automaton.net, ``accepts`` uint8 (nodes), ``live`` uint8
    (nodes, slots): slots that decide a node's future; ``alone`` int64 (nodes): a node's only edge whose condition looks at the
    match, -1 where there is none, several, or a group's window; ``local`` int64 (nodes): variables of the other edges;
    ``valued`` uint8 (nodes): 1 where any slot is needed."""

    first: np.ndarray
    edges: np.ndarray
    masks: np.ndarray
    accepts: np.ndarray
    live: np.ndarray
    alone: np.ndarray
    local: np.ndarray
    valued: np.ndarray


class Errors(NamedTuple):
    """Of approximate matches: ``original`` int64 (variables): the variable each is a copy of; ``sources``, ``first_source`` as in
    automaton.net. All empty for exact ones."""

    original: np.ndarray
    sources: np.ndarray
    first_source: np.ndarray


class SelectionScratch(NamedTuple):
    """``frames`` int64 (rows + 2, 8); ``opened`` int64 (rows + 2, windows): row that opened each window; ``best`` int64
    (rows + 1, 2): rows and labels of the earliest completion so far; ``taken`` uint8 (rows): in a reported match."""

    frames: np.ndarray
    opened: np.ndarray
    best: np.ndarray
    taken: np.ndarray


@allocating
def completion_ends(first, edges, masks, accepts, letters, offsets, strategy, exact, ends):
    """Fills ``ends`` int64 (nodes, rows): the row behind the earliest completion after the row was taken at the node (node 0:
    at which the match begins), NEVER without one. Row-local conditions only; ``exact``: there are no others."""
    nodes = masks.shape[0]
    ahead = np.empty(nodes, dtype=np.int64)
    for part in range(offsets.shape[0] - 1):
        low = offsets[part]
        high = offsets[part + 1]
        ahead[:] = NEVER
        for q in range(high - 1, low - 1, -1):
            for node in range(1, nodes):
                if accepts[node] == 1 or (accepts[node] == 2 and q + 1 == high):
                    ends[node, q] = q + 1
                else:
                    ends[node, q] = ahead[node]
            for node in range(nodes):
                best = NEVER
                any_edge = False
                if letters[q] & masks[node] != 0:
                    for e in range(first[node], first[node + 1]):
                        v = edges[e, E_VAR]
                        if v >= 0 and (letters[q] >> v) & 1 == 1:
                            any_edge = True
                            best = min(best, ends[edges[e, E_TARGET], q])
                if node == 0:
                    ends[0, q] = best
                elif strategy == STRICT or (strategy == NEXT and exact and any_edge):
                    ahead[node] = best
                elif any_edge:
                    ahead[node] = min(ahead[node], best)


@kernel
def _none_between(negated, after, before, sums):
    """Whether no row strictly between fulfils a row-local negated condition; ``sums`` int32 (variables, rows + 1)."""
    v = 0
    while negated != 0:
        if negated & 1 == 1 and before > after + 1 and sums[v, before] - sums[v, after + 1] > 0:
            return False
        negated >>= 1
        v += 1
    return True


@kernel
def select_partitions(
    automaton, strategy, report_all, shortest, ambiguous, windowed, windows, backs, negative_local, negative_late, negative_mixed, sums, ends, use_ends,
    conditions, rows, scratch, search, memo, head_cut, tail_open, ahead, want_unmatched, skip, skip_mask, max_steps, max_matches, pairs, state, events,
    out_labels, out_rows, errors, out_path,
):
    """Matches of every partition as events, labels and rows; returns an outcome as the exact kernel does.

    ``strategy``: STRICT, NEXT or ANY; ``report_all``: ALL MATCHES; ``shortest``: of all the one that completes first;
    ``ambiguous``: a match may be found twice, and is reported once: the events of a start row must then stay in ``events``
    (from state[S_OWN] on); ``windowed``: window 0 bounds the whole match; ``negative_local``, ``negative_late``: masks of the negated variables whose
    conditions are row-local, or look at the match and wait for its end (``negative_mixed``: also at rows of a set that has
    the negated variable among others); ``memo``: remember failures; ``pairs`` uint8
    (variables): 1 where the condition looks at all pairs of the match's rows (DISTINCT), which count as steps. Approximate matches: see ``Errors``; ``out_path`` int64 gets the edge of each label, and a sixth column of ``events`` the
    accepting edge, of the way at least cost. Both are empty for others.
    """
    first, edges, masks, accepts, live, alone, local, valued = automaton
    bytecode, entry, floats, slots, label_codes = conditions
    letters, offsets, ints, flts, inull, fnull, pair_starts, pair_ints, pair_flts, pair_null = rows
    labels, hi, hf, hbits, si, sf, sn, _, _, _, entries, _, table, key = scratch
    frames, opened, best, taken = search
    parts = offsets.shape[0] - 1
    window_count = windows.shape[0]
    approximate = errors.first_source.shape[0] > 0
    # later rows complete no earlier, unless only the partition's last row completes
    monotone = strategy == ANY
    for node in range(accepts.shape[0]):
        if accepts[node] == 2:
            monotone = False

    part, s, number, event_count, label_count, covered = resumed(state)
    depth = state[S_DEPTH]
    active = state[S_ACTIVE] == 1
    found = state[S_FOUND]
    best_count = state[S_BEST]
    own = state[S_OWN]
    best_start = np.int64(-1)
    best_end = np.int64(NEVER)
    outcome = DONE
    steps = 0
    effort = 0  # steps and rows looked at since the last match
    patience = 0

    while part < parts and outcome == DONE:
        low, high, open_end, limit = bounds(part, offsets, tail_open, ahead)
        if s < low:
            s = low
        while s < high or (shortest and best_count > 0):
            if want_unmatched and best_count == 0:
                covered, event_count = unmatched(covered, s, taken, events, event_count, part, label_count)
                if covered < s:
                    outcome = FULL
                    break
            if shortest and best_count > 0 and (s >= high or s >= best_end - 1):
                # ---- no later start completes earlier: report, go on behind it
                if event_count == events.shape[0] or label_count + best_count > out_labels.shape[0]:
                    state[S_DETAIL] = best_count
                    s = best_start
                    best_count = 0
                    outcome = FULL
                    break
                number += 1
                put_event(events, event_count, part, best[0, 0], best_count, number, label_count)
                event_count += 1
                for k in range(best_count):
                    out_rows[label_count + k] = best[k, 0]
                    out_labels[label_count + k] = best[k, 1]
                    taken[best[k, 0]] = 1
                label_count += best_count
                s = best_end
                best_count = 0
                best_end = NEVER
                continue
            if s >= high:
                break
            if s >= limit:
                outcome = SUSPENDED
                if shortest and best_count > 0:
                    s = best_start
                    best_count = 0
                break
            stop_all = high
            undecided = open_end
            if windowed:
                stop_all = windows[0, s]
                if stop_all < high:
                    undecided = False
            if open_end and stop_all > limit:
                undecided = True
            stop_all = min(stop_all, limit)
            if undecided and (report_all or negative_late != 0 or negative_local != 0):
                outcome = SUSPENDED
                if shortest:
                    if best_count > 0:
                        s = best_start
                    best_count = 0
                break
            if shortest and best_count > 0:
                stop_all = min(stop_all, best_end - 1)
            touched = False
            matched = False
            skip_to = s + 1
            if not active:
                depth = 0
                frames[0, F_NODE] = 0
                frames[0, F_ROW] = s - 1
                frames[0, F_EDGE] = first[0]
                frames[0, F_NEXT] = -1
                frames[0, F_FOUND] = found
                frames[0, F_DONE] = 0
                frames[0, F_STALE] = 0
                steps = 0
                effort = 0
                own = event_count
            patience = 4 * (stop_all - s) + 256
            active = False
            hopeless = False
            if use_ends and accepts[0] == 0 and ends[0, s] > stop_all:
                hopeless = True
                touched = undecided
            while not hopeless:
                node = frames[depth, F_NODE]
                e = frames[depth, F_EDGE]
                last = frames[depth, F_ROW]
                if e == first[node + 1]:
                    # ---- nothing left to try here
                    if depth == 0:
                        break
                    if memo and steps > patience and not touched and frames[depth, F_FOUND] == found:
                        _key(key, node, last, stop_all, live, hi, hbits, opened, depth, windows)
                        _remember(key, entries, table, state)
                    labels[last] = UNTAKEN
                    depth -= 1
                    frames[depth, F_STALE] = 1
                    if strategy != ANY:
                        frames[depth, F_EDGE] += 1
                    steps += 1
                    effort += 1
                    if effort > max_steps:
                        outcome = EFFORT
                        break
                    continue
                v = edges[e, E_VAR]
                negated = edges[e, E_NOT]
                if v < 0:
                    # ---- complete?
                    # approximately: another way to complete may be preferred
                    fine = frames[depth, F_DONE] == 0 or (ambiguous and approximate)
                    if depth == 0 and report_all:
                        fine = False  # empty matches are not reported
                    if edges[e, E_AT_START] != 0 and (s != low or (head_cut and part == 0)):
                        fine = False
                    if fine and edges[e, E_AT_END] != 0:
                        if open_end and last + 1 >= limit:
                            touched = True
                            fine = False
                        elif last + 1 != high:
                            fine = False
                    if fine and depth > 0 and (negative_local | negative_late) != 0:
                        fine = True
                        for d in range(1, depth + 2):
                            crossed = negated if d == depth + 1 else opened[d, window_count]
                            if crossed == 0:
                                continue
                            after = frames[d - 1, F_ROW]
                            before = frames[d, F_ROW] if d <= depth else windows[0, s]
                            if d == 1:
                                after = backs[last] - 1
                            if not _none_between(crossed & negative_local, after, before, sums):
                                fine = False
                                break
                            late = crossed & negative_late
                            b = 0
                            while late != 0 and fine:
                                if late & 1 == 1:
                                    for r in range(after + 1, before):
                                        if (letters[r] >> b) & 1 == 0:
                                            continue
                                        if (negative_mixed >> b) & 1 == 1:
                                            _replay(r, b, depth, frames, low, high, number + 1, letters, conditions, hi, hf, labels, rows, si, sf, sn)
                                            end_row = max(r, last)
                                            for k in range(slots.shape[0]):
                                                hi[r, k] = hi[end_row, k]
                                                hf[r, k] = hf[end_row, k]
                                            used = slots[:0]
                                            begin = min(r, s)
                                        else:
                                            used = slots
                                            begin = s
                                        got, bad = scan(
                                            MAP, np.int64(b), np.int64(b), entry[b], 1, r, last, low, r + 1, high, begin, number + 1,
                                            letters, bytecode, floats, used, hi, hf, labels, label_codes, ints, flts, inull, fnull,
                                            pair_starts, pair_ints, pair_flts, pair_null, si, sf, sn,
                                        )
                                        labels[r] = UNTAKEN
                                        if (negative_mixed >> b) & 1 == 1:
                                            _replay(-1, b, depth, frames, low, high, number + 1, letters, conditions, hi, hf, labels, rows, si, sf, sn)
                                        if bad < 0:
                                            state[S_DETAIL] = bad
                                            outcome = ERROR
                                            fine = False
                                            break
                                        if got == 1:
                                            fine = False
                                            break
                                late >>= 1
                                b += 1
                            if not fine:
                                break
                        frames[depth, F_STALE] = 1
                    if outcome != DONE:
                        break
                    if not fine:
                        frames[depth, F_EDGE] += 1
                        continue
                    if touched and undecided and not report_all:
                        outcome = SUSPENDED
                        break
                    if shortest:
                        for d in range(1, depth + 1):
                            best[d - 1, 0] = frames[d, F_ROW]
                            best[d - 1, 1] = labels[frames[d, F_ROW]]
                        best_count = depth
                        if best_start < 0 or best_end == NEVER:
                            best_start = s
                        best_end = last + 1
                        stop_all = min(stop_all, last)
                        found += 1
                        effort = 0
                        frames[depth, F_EDGE] += 1
                        frames[depth, F_DONE] = 1
                        continue
                    if event_count == events.shape[0] or label_count + depth > out_labels.shape[0]:
                        state[S_DETAIL] = depth
                        active = True
                        outcome = FULL
                        break
                    if ambiguous:
                        known = _reported(events, own, event_count, out_labels, out_rows, frames, labels, errors.original, depth)
                        if known >= 0:
                            found += 1  # no failure: behind other rows it leads to other matches
                            if approximate and edges[e, E_COST] <= edges[events[known, 5], E_COST]:
                                base = events[known, 4]
                                for d in range(depth):
                                    out_path[label_count + d] = frames[d, F_EDGE]
                                if edges[e, E_COST] < edges[events[known, 5], E_COST] or derived_before(
                                    out_path, label_count, e, base, events[known, 5], depth, errors.sources, errors.first_source
                                ):
                                    events[known, 5] = e
                                    for d in range(depth):
                                        out_labels[base + d] = labels[frames[d + 1, F_ROW]]
                                        out_path[base + d] = out_path[label_count + d]
                            frames[depth, F_EDGE] += 1
                            continue
                    if number >= max_matches:
                        outcome = TOO_MANY
                        break
                    number += 1
                    found += 1
                    effort = 0
                    put_event(events, event_count, part, s, depth, number, label_count)
                    if approximate:
                        events[event_count, 5] = e
                        for d in range(depth):
                            out_path[label_count + d] = frames[d, F_EDGE]
                    event_count += 1
                    for d in range(1, depth + 1):
                        p = frames[d, F_ROW]
                        out_rows[label_count] = p
                        out_labels[label_count] = labels[p]
                        label_count += 1
                    if want_unmatched:
                        for d in range(1, depth + 1):
                            taken[frames[d, F_ROW]] = 1
                    frames[depth, F_EDGE] += 1
                    frames[depth, F_DONE] = 1
                    matched = True
                    if not report_all:
                        break
                    continue
                # ---- take a row: which may it be?
                if depth == 0:
                    p = s if frames[0, F_NEXT] < 0 else s + 1  # no gap before the first row
                    stop = s + 1
                    if edges[e, E_AT_START] != 0 and (s != low or (head_cut and part == 0)):
                        stop = s
                else:
                    stop = stop_all
                    checked = edges[e, E_CHECK] >> 1
                    w = 1
                    while checked != 0:
                        if checked & 1 == 1:
                            stop = min(stop, windows[w, opened[depth, w]])
                        checked >>= 1
                        w += 1
                    p = frames[depth, F_NEXT]
                    if p < 0:
                        p = last + 1
                        if strategy == STRICT:
                            if open_end and p >= limit:
                                touched = True
                            stop = min(stop, last + 2)
                        elif strategy == NEXT:
                            # the first row that some edge of this node accepts
                            p = last + 1
                            frames[depth, F_FIRST] = -1
                            f = alone[node]
                            if f >= 0:
                                # up to the first row that another edge accepts, one call searches
                                until = p
                                while until < stop_all and letters[until] & local[node] == 0:
                                    until += 1
                                u = edges[f, E_VAR]
                                # a Kleene variable's rows up to there are taken in one go
                                loops = e == f and f == first[node] and edges[f, E_TARGET] == node and edges[f, E_OPEN] == 0 and edges[f, E_NOT] == 0
                                loops = loops and not (memo and steps > patience)
                                mode = EXTEND if loops else SEARCH
                                got, bad = scan(
                                    mode, u, edges[f, E_LABEL], entry[u], high, p, last, low, until, high, s, number + 1,
                                    letters, bytecode, floats, slots, hi, hf, labels, label_codes, ints, flts, inull,
                                    fnull, pair_starts, pair_ints, pair_flts, pair_null, si, sf, sn,
                                )
                                if bad < 0:
                                    state[S_DETAIL] = bad
                                    outcome = ERROR
                                    break
                                if loops:
                                    base = depth
                                    for r in range(p, until):
                                        if labels[r] == UNTAKEN:
                                            continue
                                        frames[depth, F_EDGE] = f
                                        frames[depth, F_NEXT] = r
                                        frames[depth, F_FIRST] = f
                                        frames[depth, F_STALE] = 1
                                        for w in range(window_count):
                                            opened[depth + 1, w] = opened[depth, w]
                                        opened[depth + 1, window_count] = 0
                                        depth += 1
                                        frames[depth, F_NODE] = node
                                        frames[depth, F_ROW] = r
                                        frames[depth, F_EDGE] = first[node]
                                        frames[depth, F_NEXT] = -1
                                        frames[depth, F_FOUND] = found
                                        frames[depth, F_DONE] = 0
                                        frames[depth, F_STALE] = 0
                                    if depth > base:
                                        if undecided and until >= stop_all:
                                            touched = True
                                        continue
                                effort += (got + 1) * (1 + pairs[u] * (((depth + 1) * (p - s + 1)) >> 6))
                                p += got
                                if p < until:
                                    frames[depth, F_FIRST] = f
                                    labels[p] = UNTAKEN
                            while p < stop_all and frames[depth, F_FIRST] < 0:
                                if letters[p] & masks[node] != 0:
                                    for f in range(first[node], first[node + 1]):
                                        u = edges[f, E_VAR]
                                        if u < 0 or (letters[p] >> u) & 1 == 0:
                                            continue
                                        inside = True
                                        checked = edges[f, E_CHECK] >> 1
                                        w = 1
                                        while checked != 0:
                                            if checked & 1 == 1 and p >= windows[w, opened[depth, w]]:
                                                inside = False
                                            checked >>= 1
                                            w += 1
                                        if not inside:
                                            continue
                                        if entry[u] >= 0 or valued[edges[f, E_TARGET]] == 1:
                                            got, bad = scan(
                                                MAP, u, edges[f, E_LABEL], entry[u], 1, p, last, low, p + 1, high, s, number + 1,
                                                letters, bytecode, floats, slots, hi, hf, labels, label_codes, ints, flts, inull,
                                                fnull, pair_starts, pair_ints, pair_flts, pair_null, si, sf, sn,
                                            )
                                            labels[p] = UNTAKEN
                                            effort += pairs[u] * (((depth + 1) * (p - s + 1)) >> 6)
                                            if bad < 0:
                                                state[S_DETAIL] = bad
                                                outcome = ERROR
                                                break
                                            if got == 0:
                                                continue
                                        frames[depth, F_FIRST] = f
                                        break
                                    if frames[depth, F_FIRST] >= 0 or outcome != DONE:
                                        break
                                p += 1
                            if outcome != DONE:
                                break
                            if p >= stop_all and undecided:
                                touched = True
                            effort += p - last
                            frames[depth, F_NEXT] = p
                            frames[depth, F_STALE] = 0
                if strategy == NEXT and depth > 0:
                    if p >= stop_all or frames[depth, F_FIRST] < 0 or e < frames[depth, F_FIRST]:
                        frames[depth, F_EDGE] += 1
                        continue
                    stop = min(stop, p + 1)
                target = edges[e, E_TARGET]
                opens = edges[e, E_OPEN]
                took = False
                ready = np.int64(-1)  # a row whose condition is known to hold
                begin_p = p
                while p < stop:
                    if (letters[p] >> v) & 1 == 0:
                        p += 1
                        continue
                    if use_ends and ends[target, p] > stop_all:
                        if undecided:
                            touched = True
                        if ready == p:
                            labels[p] = UNTAKEN
                        p = stop if monotone else p + 1
                        continue
                    inside = True
                    for w in range(window_count):
                        if (opens >> w) & 1 == 1 and windows[w, p] <= p:
                            inside = False  # its time is NULL
                    if not inside:
                        if ready == p:
                            labels[p] = UNTAKEN
                        p += 1
                        continue
                    if negated & negative_local != 0 and depth > 0 and not _none_between(negated & negative_local, last, p, sums):
                        if ready == p:
                            labels[p] = UNTAKEN
                        p = stop  # rows farther on have that row between them as well
                        break
                    label = edges[e, E_LABEL]
                    if ready != p and strategy == ANY and depth > 0 and entry[v] >= 0:
                        got, bad = scan(
                            SEARCH, v, label, entry[v], high, p, last, low, stop, high, s, number + 1,
                            letters, bytecode, floats, slots, hi, hf, labels, label_codes, ints, flts, inull, fnull, pair_starts,
                            pair_ints, pair_flts, pair_null, si, sf, sn,
                        )
                        if bad < 0:
                            state[S_DETAIL] = bad
                            outcome = ERROR
                            break
                        effort += (got + 1) * (1 + pairs[v] * (((depth + 1) * (p - s + 1)) >> 6))
                        p += got
                        ready = p
                        if got > 0:
                            continue
                    elif ready != p and (valued[target] == 1 or entry[v] >= 0):
                        if not (strategy == NEXT and depth > 0 and e == frames[depth, F_FIRST] and frames[depth, F_STALE] == 0):
                            got, bad = scan(
                                MAP, v, label, entry[v], 1, p, last, low, p + 1, high, s, number + 1,
                                letters, bytecode, floats, slots, hi, hf, labels, label_codes, ints, flts, inull, fnull, pair_starts,
                                pair_ints, pair_flts, pair_null, si, sf, sn,
                            )
                            if bad < 0:
                                state[S_DETAIL] = bad
                                outcome = ERROR
                                break
                            effort += 1 + pairs[v] * (((depth + 1) * (p - s + 1)) >> 6)
                            if got == 0:
                                labels[p] = UNTAKEN
                                p += 1
                                continue
                    labels[p] = label
                    # ---- push
                    for w in range(window_count):
                        opened[depth + 1, w] = p if (opens >> w) & 1 == 1 else opened[depth, w]
                    opened[depth + 1, window_count] = negated
                    if memo and steps > patience:
                        _key(key, target, p, stop_all, live, hi, hbits, opened, depth + 1, windows)
                        effort += 1
                        if _failed(key, entries, table):
                            labels[p] = UNTAKEN
                            frames[depth, F_STALE] = 1
                            p += 1
                            continue
                    took = True
                    break
                effort += (p - begin_p) >> 3
                if outcome != DONE:
                    break
                if not took:
                    if depth > 0 and p >= stop_all and undecided:
                        touched = True
                    frames[depth, F_EDGE] += 1
                    if strategy != NEXT:
                        frames[depth, F_NEXT] = -1
                    continue
                if strategy != NEXT:
                    # STRICT and the first row have one candidate only
                    frames[depth, F_NEXT] = p + 1 if strategy == ANY else -1
                depth += 1
                frames[depth, F_NODE] = target
                frames[depth, F_ROW] = p
                frames[depth, F_EDGE] = first[target]
                frames[depth, F_NEXT] = -1
                frames[depth, F_FOUND] = found
                frames[depth, F_DONE] = 0
                frames[depth, F_STALE] = 0
            if outcome != DONE:
                if outcome == SUSPENDED:
                    for d in range(1, depth + 1):
                        labels[frames[d, F_ROW]] = UNTAKEN
                    depth = 0
                break
            if not matched and touched and undecided:
                outcome = SUSPENDED
                for d in range(1, depth + 1):
                    labels[frames[d, F_ROW]] = UNTAKEN
                break
            # ---- where the search goes on
            if matched and not report_all:
                end = frames[depth, F_ROW] + 1
                size = depth
                if size == 0:
                    taken[s] = 1  # the row an empty match is shown at
                if size == 0 or skip == SKIP_NEXT_ROW:
                    skip_to = s + 1
                elif skip == SKIP_PAST_LAST:
                    skip_to = end
                else:
                    to = np.int64(-1)
                    for d in range(1, size + 1):
                        p = frames[d, F_ROW]
                        if (skip_mask >> (labels[p] & 63)) & 1 == 1:
                            to = p
                            if skip == SKIP_FIRST:
                                break
                    if to < 0 or to == s:
                        state[S_DETAIL] = number
                        outcome = SKIP_TO_ABSENT if to < 0 else SKIP_TO_FIRST
                        break
                    skip_to = to
                for d in range(1, size + 1):
                    labels[frames[d, F_ROW]] = UNTAKEN
                depth = 0
            s = skip_to if not (shortest and best_count > 0) else s + 1
        if outcome != DONE:
            break
        if want_unmatched:
            covered, event_count = unmatched(covered, s, taken, events, event_count, part, label_count)
            if covered < s:
                outcome = FULL
                break
        if open_end:
            outcome = SUSPENDED
            break
        part += 1
        number = 0
        covered = high
        if state[S_ENTRIES] > 0:
            forget(entries, table, state)
    suspend(state, part, s, number, event_count, label_count, covered)
    state[S_DEPTH] = depth
    state[S_ACTIVE] = 1 if active else 0
    state[S_FOUND] = found
    state[S_BEST] = best_count
    state[S_OWN] = own
    return outcome


@kernel
def _replay(extra, variable, depth, frames, low, high, number, letters, conditions, hi, hf, labels, rows, si, sf, sn):
    """Slot values of the match's rows anew, with row ``extra`` (-1: none) among them as ``variable``'s."""
    bytecode, _, floats, slots, label_codes = conditions
    _, _, ints, flts, inull, fnull, pair_starts, pair_ints, pair_flts, pair_null = rows
    begin = frames[1, F_ROW] if extra < 0 else min(extra, frames[1, F_ROW])
    prior = begin - 1
    waiting = extra >= 0
    d = 1
    while d <= depth or waiting:
        if waiting and (d > depth or extra < frames[d, F_ROW]):
            row = extra
            label = np.int64(variable)
            waiting = False
        else:
            row = frames[d, F_ROW]
            label = np.int64(labels[row])
            d += 1
        scan(
            MAP, label & 63, label, -1, 1, row, prior, low, row + 1, high, begin, number, letters, bytecode, floats, slots, hi, hf,
            labels, label_codes, ints, flts, inull, fnull, pair_starts, pair_ints, pair_flts, pair_null, si, sf, sn,
        )
        prior = row


@kernel
def _reported(events, own, count, out_labels, out_rows, frames, labels, original, depth):
    """The event, from ``own`` on, of the match in the frames; -1 for none."""
    for e in range(own, count):
        if events[e, 2] != depth:
            continue
        base = events[e, 4]
        same = True
        for d in range(depth, 0, -1):
            p = frames[d, F_ROW]
            if out_rows[base + d - 1] != p:
                same = False
                break
            this = out_labels[base + d - 1] & 63
            that = labels[p] & 63
            if this != that and (original.shape[0] == 0 or original[this] != original[that]):
                same = False
                break
        if same:
            return e
    return -1


@kernel
def _failed(key, entries, table):
    return table[place_of(key, entries, table)] != 0


@kernel
def _remember(key, entries, table, state):
    """Marks a key as failed; a full memo begins anew, so that memory stays bounded."""
    if state[S_ENTRIES] == entries.shape[0]:
        forget(entries, table, state)
    h = place_of(key, entries, table)
    if table[h] == 0:
        enter(key, h, entries, table, state)


@kernel
def _key(key, node, row, stop, live, hi, hbits, opened, depth, windows):
    """What decides the future of a run: node, row, the ends of its windows and the values of the match still needed."""
    slots = live.shape[1]
    count = hi.shape[1] if slots > 0 else 0
    key[:] = 0
    key[0] = node
    key[1] = row
    key[2] = stop
    n = 3
    for w in range(1, windows.shape[0]):
        key[n] = windows[w, opened[depth, w]] if opened[depth, w] >= 0 else -1
        n += 1
    for k in range(min(slots, count)):
        if live[node, k] == 1:
            key[n] = hi[row, k]
            key[n + 1] = hbits[row, k]
        n += 2
