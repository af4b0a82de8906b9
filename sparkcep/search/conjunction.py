"""Matches of patterns with a conjunction: depth-first search over the net of :mod:`sparkcep.automaton.conjunction`.

The sides of ``p & q`` are searched side by side in one run whose rows ascend; a row that serves both sides is taken twice. A
condition that stays in its side is evaluated when its row is taken. One that looks across ``&``, a negation, and (SKIP TILL NEXT) that
a row passed over could not have been taken by such a condition, wait for the finished match and are judged by it.

Shared arguments are those of :mod:`sparkcep.search.adjacent` and :mod:`sparkcep.search.walk`. Rows of ``hi`` and ``hf`` from ``base`` on hold the
slot values after each taken row (base + depth), and two more for judging the finished match.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.automaton.net import (
    E_AT_END,
    E_AT_START,
    E_BEGIN,
    E_BLOCKERS,
    E_BLOCKERS_END,
    E_CHECK,
    E_CHECKS,
    E_CHECKS_END,
    E_HAVE,
    E_LABEL,
    E_OPEN,
    E_SAME,
    E_SIDE,
    E_TARGET,
    E_VAR,
)
from sparkcep.columns.bytecode import SLOT
from sparkcep.search.codes import DONE, EFFORT, ERROR, FULL, NEVER, S_ACTIVE, S_DETAIL, SUSPENDED, TOO_MANY
from sparkcep.search.compiled import allocating, kernel
from sparkcep.search.machine import MAP, scan
from sparkcep.search.memo import BASIS, mixed
from sparkcep.search.progress import bounds, put_event, resumed, suspend, unmatched

_LABELFIRST = SLOT["LABELFIRST"]  # kinds up to this one hold a row or a label, -1 for none
# columns of ``frames``: node, row taken, edge it was taken by, edge being tried, next row for it (-1: not begun), last row it may have
J_NODE, J_ROW, J_BY, J_EDGE, J_NEXT, J_STOP = range(6)


class ConjunctionArrays(NamedTuple):
    """Members of automaton.net.Net; ``across``: mask of the variables whose conditions wait for the finished match."""

    first: np.ndarray
    edges: np.ndarray
    checks: np.ndarray
    blockers: np.ndarray
    across: np.int64


class ConjunctionScratch(NamedTuple):
    """``frames`` int64 (depth, 6); ``opened`` int64 (depth, windows): row that opened each window; ``since`` int64 (depth, sides): last row of
    each side, or before it, -1 without one; ``best`` int64 (depth, 2): rows and labels of the match that completes first; ``order`` int64 (depth, 2); ``taken`` uint8
    (rows): in a reported match; ``seen`` int64 (a power of two, 2), zeros: start and event + 1 of the matches reported."""

    frames: np.ndarray
    opened: np.ndarray
    since: np.ndarray
    best: np.ndarray
    order: np.ndarray
    taken: np.ndarray
    seen: np.ndarray


@allocating
def earliest_ends(first, edges, letters, offsets, ends):
    """Fills ``ends`` int64 (nodes, rows): no completion from the node, after the row was taken (node 0: at which the match begins), ends before this
    row; NEVER without one. By letters alone, under SKIP TILL ANY: a lower bound for all else."""
    nodes = first.shape[0] - 1
    ahead = np.empty(nodes, dtype=np.int64)
    for part in range(offsets.shape[0] - 1):
        ahead[:] = NEVER
        for q in range(offsets[part + 1] - 1, offsets[part] - 1, -1):
            for node in range(nodes):
                ends[node, q] = ahead[node] if node > 0 else NEVER
                for e in range(first[node], first[node + 1]):
                    if edges[e, E_VAR] < 0:
                        ends[node, q] = q + 1
            # a row served by several sides: as many passes as it may take them
            changed = True
            while changed:
                changed = False
                for node in range(1, nodes):
                    for e in range(first[node], first[node + 1]):
                        v = edges[e, E_VAR]
                        if v >= 0 and edges[e, E_SAME] == 1 and (letters[q] >> v) & 1 == 1 and ends[edges[e, E_TARGET], q] < ends[node, q]:
                            ends[node, q] = ends[edges[e, E_TARGET], q]
                            changed = True
            for node in range(nodes):
                for e in range(first[node], first[node + 1]):
                    v = edges[e, E_VAR]
                    if v >= 0 and (letters[q] >> v) & 1 == 1:
                        ahead[node] = min(ahead[node], ends[edges[e, E_TARGET], q])
                        if node == 0:
                            ends[0, q] = min(ends[0, q], ends[edges[e, E_TARGET], q])


@kernel
def _evaluate(v, label, prior, begin, low, row, high, number, program, rows, memory, slots):
    """Maps ``row`` to a variable behind slot values ``prior`` (1, or 0 where its condition does not hold, or an error)."""
    bytecode, entry, floats, _, label_codes = program
    letters, _, ints, flts, inull, fnull, pair_starts, pair_ints, pair_flts, pair_null = rows
    labels, hi, hf, si, sf, sn = memory
    got, bad = scan(
        MAP, v, label, entry, 1, row, prior, low, row + 1, high, begin, number, letters, bytecode, floats, slots, hi, hf, labels, label_codes,
        ints, flts, inull, fnull, pair_starts, pair_ints, pair_flts, pair_null, si, sf, sn,
    )
    return bad if bad < 0 else got


@kernel
def _map(v, label, prior, into, begin, low, row, high, number, entry, twins, program, rows, memory):
    """As ``_evaluate``; on success the slot values are copied to row ``into``. ``twins``: mask of the variables the row is mapped to already."""
    bytecode, _, floats, slots, label_codes = program
    _, hi, hf, _, _, _ = memory
    if twins == 0:
        got = _evaluate(v, label, prior, begin, low, row, high, number, (bytecode, entry, floats, slots, label_codes), rows, memory, slots)
        if got != 1:
            return got
    else:
        got = _evaluate(v, label, prior, begin, low, row, high, number, (bytecode, np.int64(-1), floats, slots, label_codes), rows, memory, slots)
        if got != 1:
            return got
        for k in range(slots.shape[0]):
            mask = slots[k, 1]
            if mask == -1 or ((mask >> v) & 1 == 1 and mask & twins != 0):
                hi[row, k] = hi[prior, k]  # a row counts once in a set of variables
                hf[row, k] = hf[prior, k]
        if entry >= 0:
            got = _evaluate(v, label, prior, begin, low, row, high, number, (bytecode, entry, floats, slots, label_codes), rows, memory, slots[:0])
            if got != 1:
                return got
    for k in range(slots.shape[0]):
        hi[into, k] = hi[row, k]
        hf[into, k] = hf[row, k]
    return 1


@kernel
def _replay(own, upto, extra, depth, frames, edges, into, low, high, number, program, rows, memory):
    """Slot values over the finished match, into row ``into``: without the rows of ``own`` from ``upto`` on, with row ``extra`` (-1: none) as
    ``own``'s. 0 or an error."""
    slots = program[3]
    hi, hf = memory[1], memory[2]
    for k in range(slots.shape[0]):
        hi[into, k] = -1 if slots[k, 0] <= _LABELFIRST else 0
        hf[into, k] = 0.0
    previous = np.int64(-1)
    twins = np.int64(0)
    waiting = extra >= 0
    d = 1
    while d <= depth or waiting:
        if d <= depth:
            row = frames[d, J_ROW]
            v = edges[frames[d, J_BY], E_VAR]
        if waiting and (d > depth or extra < row or (extra == row and own < v)):
            row, v = extra, own
            waiting = False
        else:
            d += 1
            if v == own and row >= upto:
                continue
        if row != previous:
            twins = np.int64(0)
        if (twins >> v) & 1 == 1:
            continue
        got = _map(v, v, into, into, row if previous < 0 else -1, low, row, high, number, np.int64(-1), twins, program, rows, memory)
        if got < 0:
            return got
        twins |= np.int64(1) << v
        previous = row
    return 0


@kernel
def _holds_finally(v, row, entry, depth, frames, edges, spare, low, high, number, program, rows, memory):
    """Whether the condition of a variable holds at a row, itself running, all others as in the finished match; 1, 0 or an error."""
    if (rows[0][row] >> v) & 1 == 0:
        return 0
    if entry < 0:
        return 1
    bad = _replay(v, row, np.int64(-1), depth, frames, edges, spare, low, high, number, program, rows, memory)
    if bad < 0:
        return bad
    bad = _replay(v, row, row, depth, frames, edges, spare + 1, low, high, number, program, rows, memory)
    if bad < 0:
        return bad
    bytecode, _, floats, slots, label_codes = program
    hi, hf = memory[1], memory[2]
    for k in range(slots.shape[0]):
        hi[row, k] = hi[spare + 1, k]
        hf[row, k] = hf[spare + 1, k]
    return _evaluate(v, v, spare, np.int64(-1), low, row, high, number, (bytecode, entry, floats, slots, label_codes), rows, memory, slots[:0])


@kernel
def _fits(edge, row, depth, opened, windows):
    """Whether a row may be taken as far as the windows of groups go."""
    w = 0
    opens = edge[E_OPEN]
    while opens != 0:
        if opens & 1 == 1 and windows[w, row] <= row:
            return False  # its time is NULL
        opens >>= 1
        w += 1
    w = 1
    checked = edge[E_CHECK] >> 1
    while checked != 0:
        if checked & 1 == 1 and row >= windows[w, opened[depth, w]]:
            return False
        checked >>= 1
        w += 1
    return True


@kernel
def _finished(
    automaton, strategy_next, depth, accept, s, windows, backs, entries, search, spare, low, high, number, program, rows, memory
):
    """What only the finished match can tell: conditions across ``&``, negations, rows passed over. 1, 0 or an error."""
    _, edges, checks, blockers, across = automaton
    frames, opened, since = search[0], search[1], search[2]
    if edges[accept, E_AT_END] != 0:
        for side in range(since.shape[1]):
            if (edges[accept, E_AT_END] >> side) & 1 == 1 and since[depth, side] + 1 != high:
                return 0
    for d in range(1, depth + 2):
        e = frames[d, J_BY] if d <= depth else accept
        row = frames[d, J_ROW] if d <= depth else windows[0, s]
        v = edges[e, E_VAR]
        if v >= 0 and (across >> v) & 1 == 1:
            got = _holds_finally(v, row, entries[v], depth, frames, edges, spare, low, high, number, program, rows, memory)
            if got != 1:
                return got
        for c in range(edges[e, E_CHECKS], edges[e, E_CHECKS_END]):
            negated = checks[c, 0]
            after = since[d - 1, checks[c, 1]]
            if after < 0:
                after = backs[frames[depth, J_ROW]] - 1
            for x in range(after + 1, row):
                got = _holds_finally(negated, x, entries[negated], depth, frames, edges, spare, low, high, number, program, rows, memory)
                if got < 0:
                    return got
                if got == 1:
                    return 0
        if v < 0 or not strategy_next or since[d - 1, edges[e, E_SIDE]] < 0:
            continue
        for b in range(edges[e, E_BLOCKERS], edges[e, E_BLOCKERS_END]):
            f = blockers[b]
            u = edges[f, E_VAR]
            if (across >> u) & 1 == 0:
                continue
            for x in range(since[d - 1, edges[e, E_SIDE]] + 1, row):
                if _fits(edges[f], x, d - 1, opened, windows):
                    got = _holds_finally(u, x, entries[u], depth, frames, edges, spare, low, high, number, program, rows, memory)
                    if got < 0:
                        return got
                    if got == 1:
                        return 0
    return 1


@kernel
def _ordered(depth, frames, edges, order):
    """Fills ``order`` with the (row, label) pairs of the match, by row, then variable, each once; their number."""
    n = 0
    for d in range(1, depth + 1):
        row, label = frames[d, J_ROW], edges[frames[d, J_BY], E_LABEL]
        at = n
        while at > 0 and order[at - 1, 0] == row and order[at - 1, 1] & 63 > label & 63:
            at -= 1
        if at > 0 and order[at - 1, 0] == row and order[at - 1, 1] & 63 == label & 63:
            continue
        for i in range(n, at, -1):
            order[i, 0] = order[i - 1, 0]
            order[i, 1] = order[i - 1, 1]
        order[at, 0] = row
        order[at, 1] = label
        n += 1
    return n


@kernel
def _place(order, n, start, seen, events, out_rows, out_labels):
    """Where in ``seen`` the pairs in ``order`` stand, or the free place for them."""
    h = BASIS
    for i in range(n):
        h = mixed(h, order[i, 0] * 64 + (order[i, 1] & 63))
    mask = np.uint64(seen.shape[0] - 1)
    h = h & mask
    while seen[h, 1] != 0 and seen[h, 0] == start:
        e = seen[h, 1] - 1
        same = events[e, 2] == n
        i = 0
        while same and i < n:
            at = events[e, 4] + i
            same = out_rows[at] == order[i, 0] and (np.int64(out_labels[at]) ^ order[i, 1]) & 63 == 0
            i += 1
        if same:
            return h
        h = (h + np.uint64(1)) & mask
    return h


@kernel
def conjoin_partitions(
    automaton, strategy_next, shortest, windowed, windows, backs, ends, use_ends, conditions, rows, memory, search, base, head_cut, tail_open,
    ahead, want_unmatched, max_steps, max_matches, state, events, out_labels, out_rows,
):
    """Matches of every partition as events, labels and rows; returns an outcome as the exact kernel does.

    All matches of a start row are found in one go: with FULL and state[S_ACTIVE] 1 the output is too small for them. ``shortest``: of all
    matches the one that completes first, then onward behind it; ``base``: first row of ``hi`` behind those of the input."""
    first, edges, _, blockers, across = automaton
    bytecode, entries, floats, slots, label_codes = conditions
    program = (bytecode, np.int64(-1), floats, slots, label_codes)
    letters, offsets = rows[0], rows[1]
    hi = memory[1]
    frames, opened, since, best, order, taken, seen = search
    spare = hi.shape[0] - 2
    window_count = windows.shape[0]
    parts = offsets.shape[0] - 1
    part, s, number, event_count, label_count, covered = resumed(state)
    state[S_ACTIVE] = 0
    best_count = 0
    best_start = np.int64(-1)
    best_end = np.int64(NEVER)
    outcome = DONE
    while part < parts and outcome == DONE:
        low, high, open_end, limit = bounds(part, offsets, tail_open, ahead)
        s = max(s, low)
        while s < high or best_count > 0:
            if best_count > 0 and (s >= high or s >= best_end - 1):
                # ---- no later start completes earlier
                if event_count == events.shape[0] or label_count + best_count > out_labels.shape[0]:
                    state[S_ACTIVE] = 1 if event_count == 0 else 0
                    s = best_start
                    outcome = FULL
                    break
                number += 1
                for i in range(best_count):
                    out_rows[label_count + i] = best[i, 0]
                    out_labels[label_count + i] = best[i, 1]
                    taken[best[i, 0]] = 1
                put_event(events, event_count, part, best[0, 0], best_count, number, label_count)
                event_count += 1
                label_count += best_count
                s = best_end
                best_count = 0
                best_end = NEVER
                continue
            if want_unmatched and best_count == 0:
                covered, event_count = unmatched(covered, s, taken, events, event_count, part, label_count)
                if covered < s:
                    outcome = FULL
                    break
            stop_all = windows[0, s] if windowed else high
            if open_end and (stop_all >= high or stop_all > limit or s >= limit):
                outcome = SUSPENDED
                if best_count > 0:
                    s = best_start
                break
            if best_count > 0:
                stop_all = min(stop_all, best_end - 1)
            own_events, own_labels, own_number = event_count, label_count, number
            depth = 0
            steps = 0
            frames[0, J_NODE] = 0
            frames[0, J_ROW] = s - 1
            frames[0, J_EDGE] = first[0]
            frames[0, J_NEXT] = -1
            since[0, :] = -1
            if use_ends and ends[0, s] > stop_all:
                frames[0, J_EDGE] = first[1]
            while True:
                node = frames[depth, J_NODE]
                e = frames[depth, J_EDGE]
                last = frames[depth, J_ROW]
                if e == first[node + 1]:
                    if depth == 0:
                        break
                    depth -= 1
                    steps += 1
                    if steps > max_steps:
                        outcome = EFFORT
                        break
                    continue
                v = edges[e, E_VAR]
                if edges[e, E_AT_START] != 0 and (s != low or (head_cut and part == 0)):
                    frames[depth, J_EDGE] += 1
                    continue
                if v < 0:
                    # ---- complete?
                    frames[depth, J_EDGE] += 1
                    if depth == 0:
                        continue  # empty matches are not reported
                    got = _finished(
                        automaton, strategy_next, depth, e, s, windows, backs, entries, search, spare, low, high, number + 1, program, rows, memory
                    )
                    if got < 0:
                        state[S_DETAIL] = got
                        outcome = ERROR
                        break
                    if got == 0:
                        continue
                    count = _ordered(depth, frames, edges, order)
                    if shortest:
                        if best_count > 0 and best_end == last + 1 and not _before(order, np.int64(0), count, best, np.int64(0), best_count):
                            continue
                        for i in range(count):
                            best[i, 0] = order[i, 0]
                            best[i, 1] = order[i, 1]
                        if best_count == 0:
                            best_start = s
                        best_count = count
                        best_end = last + 1
                        stop_all = min(stop_all, last + 1)
                        continue
                    if event_count == events.shape[0] or label_count + count > out_labels.shape[0]:
                        outcome = FULL
                        break
                    h = _place(order, count, s + 1, seen, events, out_rows, out_labels)
                    if seen[h, 1] != 0 and seen[h, 0] == s + 1:
                        continue  # found in another way
                    if number >= max_matches:
                        outcome = TOO_MANY
                        break
                    number += 1
                    seen[h, 0] = s + 1
                    seen[h, 1] = event_count + 1
                    for i in range(count):
                        out_rows[label_count + i] = order[i, 0]
                        out_labels[label_count + i] = order[i, 1]
                    put_event(events, event_count, part, s, count, number, label_count)
                    event_count += 1
                    label_count += count
                    continue
                # ---- the next row for the edge
                p = frames[depth, J_NEXT]
                if p < 0:
                    p = s if depth == 0 else last + 1 - edges[e, E_SAME]
                    stop = s + 1 if depth == 0 else stop_all
                    after = since[depth, edges[e, E_SIDE]]
                    if strategy_next and after >= 0:
                        x = after + 1
                        while x < stop:
                            blocked = False
                            for b in range(edges[e, E_BLOCKERS], edges[e, E_BLOCKERS_END]):
                                u = edges[blockers[b], E_VAR]
                                if (letters[x] >> u) & 1 == 0 or (across >> u) & 1 == 1 or not _fits(edges[blockers[b]], x, depth, opened, windows):
                                    continue
                                if entries[u] >= 0:
                                    got = _map(
                                        u, u, base + depth, spare, np.int64(-1), low, x, high, number + 1, entries[u], np.int64(0), program, rows, memory
                                    )
                                    if got < 0:
                                        state[S_DETAIL] = got
                                        outcome = ERROR
                                        break
                                    if got == 0:
                                        continue
                                blocked = True
                                break
                            if outcome != DONE or blocked:
                                stop = x + 1
                                break
                            x += 1
                        if outcome != DONE:
                            break
                    frames[depth, J_STOP] = stop
                stop = min(frames[depth, J_STOP], stop_all) if depth > 0 else frames[depth, J_STOP]
                target = edges[e, E_TARGET]
                took = False
                while p < stop:
                    if (letters[p] >> v) & 1 == 0 or (use_ends and ends[target, p] > stop_all) or not _fits(edges[e], p, depth, opened, windows):
                        p += 1
                        continue
                    twins = np.int64(0)
                    d = depth
                    while d > 0 and frames[d, J_ROW] == p:
                        twins |= np.int64(1) << edges[frames[d, J_BY], E_VAR]
                        d -= 1
                    entry = entries[v] if (across >> v) & 1 == 0 else np.int64(-1)
                    begin = p if depth == 0 else np.int64(-1)
                    prior = base + depth if depth > 0 else p - 1
                    if (twins >> v) & 1 == 1:
                        # both sides have the variable: the row counts once
                        for k in range(slots.shape[0]):
                            hi[base + depth + 1, k] = hi[base + depth, k]
                            memory[2][base + depth + 1, k] = memory[2][base + depth, k]
                        got = 1
                    elif slots.shape[0] == 0 and entry < 0:
                        got = 1
                    else:
                        got = _map(v, v, prior, base + depth + 1, begin, low, p, high, number + 1, entry, twins, program, rows, memory)
                    if got < 0:
                        state[S_DETAIL] = got
                        outcome = ERROR
                        break
                    p += 1
                    if got == 1:
                        took = True
                        break
                if outcome != DONE:
                    break
                if not took:
                    frames[depth, J_EDGE] += 1
                    frames[depth, J_NEXT] = -1
                    continue
                frames[depth, J_NEXT] = p
                row = p - 1
                for w in range(window_count):
                    opened[depth + 1, w] = row if (edges[e, E_OPEN] >> w) & 1 == 1 else opened[depth, w]
                behind = since[depth, edges[e, E_SIDE]]
                for side in range(since.shape[1]):
                    if (edges[e, E_HAVE] >> side) & 1 == 1:
                        since[depth + 1, side] = row
                    elif (edges[e, E_BEGIN] >> side) & 1 == 1:
                        since[depth + 1, side] = behind
                    else:
                        since[depth + 1, side] = since[depth, side]
                depth += 1
                frames[depth, J_NODE] = target
                frames[depth, J_ROW] = row
                frames[depth, J_BY] = e
                frames[depth, J_EDGE] = first[target]
                frames[depth, J_NEXT] = -1
            if outcome == FULL:
                # ---- this start row once more, with all of the output
                state[S_ACTIVE] = 1 if own_events == 0 else 0
                event_count, label_count, number = own_events, own_labels, own_number
            if outcome != DONE:
                break
            _sort(events, own_events, event_count, own_number, out_rows, out_labels)
            if want_unmatched:
                for i in range(own_labels, label_count):
                    taken[out_rows[i]] = 1
            s += 1
        if outcome != DONE:
            break
        if want_unmatched:
            covered, event_count = unmatched(covered, high, taken, events, event_count, part, label_count)
            if covered < high:
                outcome = FULL
                break
        if open_end:
            outcome = SUSPENDED
            break
        part += 1
        number = 0
        covered = high
    suspend(state, part, s, number, event_count, label_count, covered)
    return outcome


@kernel
def _before(one, at, count, other, there, others):
    """Whether a sequence of (row, label) pairs is preferred to another: the lexicographically earlier, the longer where one begins the other."""
    for i in range(min(count, others)):
        if one[at + i, 0] != other[there + i, 0]:
            return one[at + i, 0] < other[there + i, 0]
        if one[at + i, 1] & 63 != other[there + i, 1] & 63:
            return one[at + i, 1] & 63 < other[there + i, 1] & 63
    return count > others


@allocating
def _sort(events, low, high, number, out_rows, out_labels):
    """Puts the events of a start row into preferment order and numbers them; a merge sort from single events up."""
    n = high - low
    if n < 2:
        return
    base = events[low, 4]
    total = events[high - 1, 4] + events[high - 1, 2] - base
    pairs = np.empty((total, 2), dtype=np.int64)
    for i in range(total):
        pairs[i, 0] = out_rows[base + i]
        pairs[i, 1] = out_labels[base + i]
    source = events[low:high].copy()
    target = np.empty_like(source)
    width = 1
    while width < n:
        for begin in range(0, n, 2 * width):
            i, middle = begin, min(begin + width, n)
            j, end = middle, min(begin + 2 * width, n)
            for k in range(begin, end):
                second = i == middle or (
                    j < end and _before(pairs, source[j, 4] - base, source[j, 2], pairs, source[i, 4] - base, source[i, 2])
                )
                if second:
                    target[k] = source[j]
                    j += 1
                else:
                    target[k] = source[i]
                    i += 1
        source, target = target, source
        width *= 2
    for i in range(n):
        events[low + i] = source[i]
        events[low + i, 3] = number + i + 1
