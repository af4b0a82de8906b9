"""Candidates of the walk (:mod:`sparkcep.kernels.match.walk`): the rows that an edge may take after the rows in the frames.

The tables of :mod:`sparkcep.kernels.match.reachability` and the memo of failed runs prune them.
"""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.net.net import E_BLOCKERS, E_BLOCKERS_END, E_LABEL, E_NOT, E_OPEN, E_PASSED, E_SIDE, E_TARGET, E_VAR
from sparkcep.kernels.common.hash_table import enter, fill, forget, place_of
from sparkcep.kernels.common.layout import ANY, NEXT, S_ENTRIES, S_FOUND
from sparkcep.kernels.jit.cache import embedded, kernel
from sparkcep.kernels.match.judge import none_between
from sparkcep.kernels.topk.score_bounds import agrees, may_rank
from sparkcep.kernels.vm.final_conditions import (
    F_DONE,
    F_EDGE,
    F_FIRST,
    F_FOUND,
    F_NEXT,
    F_NODE,
    F_ROW,
    F_STALE,
    FROM,
    map_row,
    open_windows,
    put_start,
    scanned,
    timed,
    window_end,
)
from sparkcep.kernels.vm.vm import EXTEND, MAP, SEARCH, UNTAKEN

F_STOP = F_FIRST  # with sides, whose edges have candidates of their own: the row after the last candidate
# A condition with DISTINCT compares the match's rows. 64 comparisons are counted as one step.
DISTINCT_SHIFT = 6
# Skipping a row by its letters costs about an eighth of a step.
PASSED_SHIFT = 3


@embedded
def put_frame(depth, node, row, first, frames, state):
    """Writes a frame that has not tried any edge yet."""
    frames[depth, F_NODE] = node
    frames[depth, F_ROW] = row
    frames[depth, F_EDGE] = first[node]
    frames[depth, F_NEXT] = -1
    frames[depth, F_FOUND] = state[S_FOUND]
    frames[depth, F_DONE] = 0
    frames[depth, F_STALE] = 0


@embedded
def find_accepted(e, p, depth, stop_all, extends, here, net, plain, spans, conditions, rows, scratch, work, state):
    """Notes in the frame the first row from ``p`` on that an edge of its node accepts under SKIP TILL NEXT, and that edge.

    Returns (depth, row, effort, 0 or an error). With ``extends``, rows of a Kleene variable may be taken in one step. The depth is
    then that of the last one.
    """
    first, edges, masks, letters = net.first, net.edges, net.masks, rows.letters
    frames, labels, entry = work.frames, scratch.labels, conditions.entry
    node = frames[depth, F_NODE]
    last = frames[depth, F_ROW]
    s = here[2]
    effort = np.int64(0)
    begin = p
    frames[depth, F_FIRST] = -1
    f = net.alone[node]
    if f >= 0:
        # One call searches up to the first row that another edge accepts by its letters.
        until = p
        while until < stop_all and letters[until] & net.local[node] == 0:
            until += 1
        u = edges[f, E_VAR]
        # The rows of a Kleene variable up to there are taken in one step.
        loops = extends and e == f and f == first[node] and edges[f, E_TARGET] == node and edges[f, E_OPEN] == 0 and edges[f, E_NOT] == 0 and edges[f, E_PASSED] == 0
        mode = EXTEND if loops else SEARCH
        got, bad = scanned(mode, u, edges[f, E_LABEL], entry[u], here[1], p, last, until, s, here, conditions.slots, conditions, rows, scratch, state)
        if bad < 0:
            return depth, p, effort, bad
        if loops:
            base = depth
            for r in range(p, until):
                if labels[r] == UNTAKEN:
                    continue
                frames[depth, F_NEXT] = r
                frames[depth, F_FIRST] = f
                frames[depth, F_STALE] = 1
                open_windows(f, depth, r, edges, work.opened)
                depth += 1
                put_frame(depth, node, r, first, frames, state)
            if depth > base:
                return depth, until, effort, np.int64(0)
        effort += (got + 1) * (1 + _pairs(u, p, depth, s, plain))
        p += got
        if p < until:
            frames[depth, F_FIRST] = f
            labels[p] = UNTAKEN
    while p < stop_all and frames[depth, F_FIRST] < 0:
        if letters[p] & masks[node] != 0:
            for f in range(first[node], first[node + 1]):
                got = _accepts(f, p, depth, here, net, spans, conditions, rows, scratch, work, state)
                if got < 0:
                    return depth, p, effort, got
                if edges[f, E_VAR] >= 0 and (letters[p] >> edges[f, E_VAR]) & 1 == 1:
                    effort += _pairs(edges[f, E_VAR], p, depth, s, plain)
                if got == 1:
                    frames[depth, F_FIRST] = f
                    break
            if frames[depth, F_FIRST] >= 0:
                break
        p += 1
    frames[depth, F_NEXT] = p
    frames[depth, F_STALE] = 0
    return depth, p, effort + p - begin + 1, np.int64(0)


@embedded
def _accepts(f, p, depth, here, net, spans, conditions, rows, scratch, work, state):
    """Whether an edge accepts a row after the rows taken, inside the windows of its groups: 1, 0 or an error."""
    edges = net.edges
    u = edges[f, E_VAR]
    if u < 0 or (rows.letters[p] >> u) & 1 == 0:
        return np.int64(0)
    if p >= window_end(f, depth, p + 1, edges, work.opened, spans.windows) or not timed(edges[f, E_OPEN], p, spans.windows):
        return np.int64(0)
    if conditions.entry[u] < 0 and net.valued[edges[f, E_TARGET]] == 0:
        return np.int64(1)
    got, bad = scanned(
        MAP, u, edges[f, E_LABEL], conditions.entry[u], 1, p, work.frames[depth, F_ROW], p + 1, here[2], here, conditions.slots, conditions, rows,
        scratch, state,
    )
    scratch.labels[p] = UNTAKEN
    return np.int64(bad) if bad < 0 else np.int64(got)


@embedded
def turned(e, depth, stop_all, here, net, spans, conditions, rows, scratch, work, state):
    """The edge to try next, or an error.

    All edges up to the end of a node, or up to one that completes the match, are tried at one row. After that they are tried at the
    next row, if this one may be ignored.
    """
    edges, frames, first = net.edges, work.frames, net.first
    node = frames[depth, F_NODE]
    if frames[depth, F_NEXT] < 0 or (e < first[node + 1] and edges[e, E_VAR] >= 0):
        return e
    got = _passed_over(depth, stop_all, here, net, spans, conditions, rows, scratch, work, state)
    if got < 0:
        return got
    frames[depth, F_NEXT] = FROM - frames[depth, F_NEXT] if got == 1 else -1
    while got == 1 and e > first[node] and edges[e - 1, E_VAR] >= 0:
        e -= 1
    frames[depth, F_EDGE] = e
    return e


@embedded
def _passed_over(depth, stop_all, here, net, spans, conditions, rows, scratch, work, state):
    """Whether the run may ignore the row that the edges of its node were tried at, and continue with the next one: 1, 0 or an
    error.

    Edges before the first accepting one did not accept the row, so only later ones are asked.
    """
    edges, frames = net.edges, work.frames
    node, p, f = frames[depth, F_NODE], frames[depth, F_NEXT], frames[depth, F_FIRST]
    if depth == 0 or f < 0 or p >= stop_all or edges[f, E_PASSED] == 0:
        return np.int64(0)
    for g in range(f + 1, net.first[node + 1]):
        if edges[g, E_PASSED] == 0:
            got = _accepts(g, p, depth, here, net, spans, conditions, rows, scratch, work, state)
            if got != 0:
                return min(got, np.int64(0))
    return np.int64(1)


@embedded
def _pairs(v, p, depth, s, plain):
    """The steps that a condition with DISTINCT counts for."""
    return plain.distinct[v] * (((depth + 1) * (p - s + 1)) >> DISTINCT_SHIFT)


@embedded
def take_candidate(e, p, stop, depth, stop_all, emitted, patient, here, net, plain, sides, how, spans, negated, conditions, rows, scratch, work, state, floors):
    """Takes the first row from ``p`` to before ``stop`` that the edge accepts.

    ``patient``: failures are remembered by now.

    Returns:
        (row, got, effort, cut). ``got`` is 1, or 0 if the edge accepts none, or an error. ``cut`` has bit 0 if a row was skipped
        because it completes after ``stop_all``, or not yet. It has bit 1 if a row was skipped because its matches have been
        emitted.
    """
    edges, letters, labels = net.edges, rows.letters, scratch.labels
    v = edges[e, E_VAR]
    label = edges[e, E_LABEL]
    target = edges[e, E_TARGET]
    use_ends = spans.ends.shape[1] > 0
    s = here[2]
    begin = p
    cut = np.int64(0)
    effort = np.int64(0)
    ready = np.int64(-1)  # a row whose condition is known to hold
    while p < stop:
        if (letters[p] >> v) & 1 == 0:
            p += 1
            continue
        # The ``ends`` table prunes: no completion from here lies inside the window.
        if use_ends and spans.ends[target, p] > stop_all:
            cut |= 1
            labels[p] = UNTAKEN
            p = stop if how.monotone else p + 1
            continue
        if spans.latest.shape[1] > 0 and spans.latest[target, p] <= emitted:
            if spans.latest[target, p] >= 0:
                cut |= 2
            if sides is not None or spans.alive[target, p] == 1:
                cut |= 1
            labels[p] = UNTAKEN
            p = max(p + 1, emitted)  # matches that end before ``emitted`` have been emitted, from whichever row
            continue
        if edges[e, E_OPEN] != 0 and not timed(edges[e, E_OPEN], p, spans.windows):
            labels[p] = UNTAKEN
            p += 1
            continue
        if floors is not None:
            if not may_rank(s, label, target, p, depth, floors):
                state[S_FOUND] += 1  # not a failure: after other rows it may lead to a match
                labels[p] = UNTAKEN
                p += 1
                continue
        if sides is not None:
            if floors is not None:
                if not agrees(v, p, depth, edges, work.frames, floors):
                    p += 1
                    continue
            got = _take_for_side(e, p, depth, here, net, sides, conditions, rows, scratch, work, state)
            if got < 0:
                return p, got, effort, cut
            if got == 0:
                p += 1
                continue
        if plain is not None:
            crossed = edges[e, E_NOT] & negated.local
            if crossed != 0 and depth > 0 and not none_between(crossed, work.frames[depth, F_ROW], p, negated.nearest):
                labels[p] = UNTAKEN
                p = stop  # later candidates have that row between them as well
                break
            entry = conditions.entry[v]
            prior = work.frames[depth, F_ROW]
            if ready != p and how.strategy == ANY and depth > 0 and entry >= 0:
                until = stop
                if floors is not None:
                    until = p + 1  # the score of each row is asked first
                got, bad = scanned(SEARCH, v, label, entry, here[1], p, prior, until, s, here, conditions.slots, conditions, rows, scratch, state)
                if bad < 0:
                    return p, bad, effort, cut
                effort += (got + 1) * (1 + _pairs(v, p, depth, s, plain))
                p += got
                if p < until:
                    ready = p
                if got > 0:
                    continue
            elif ready != p and (net.valued[target] == 1 or entry >= 0) and not _evaluated(e, depth, how, work.frames):
                got, bad = scanned(MAP, v, label, entry, 1, p, prior, p + 1, s, here, conditions.slots, conditions, rows, scratch, state)
                if bad < 0:
                    return p, bad, effort, cut
                effort += 1 + _pairs(v, p, depth, s, plain)
                if got == 0:
                    labels[p] = UNTAKEN
                    p += 1
                    continue
            labels[p] = label
            if entry < 0 and net.valued[target] == 0:
                put_start(p, conditions.slots, scratch)  # not needed, but later rows add to the values of this one
        open_windows(e, depth, p, edges, work.opened)
        if plain is not None:
            # The memo prunes: an equal run has failed.
            if how.memo and patient:
                write_key(depth + 1, target, p, stop_all, net.live, scratch, work.opened, spans.windows)
                effort += 1
                if scratch.table[place_of(scratch.key, scratch.entries, scratch.table)] != 0:
                    labels[p] = UNTAKEN
                    work.frames[depth, F_STALE] = 1
                    if how.at_once:
                        cut |= 1  # it has failed so far
                    p += 1
                    continue
        return p, np.int64(1), effort + ((p - begin) >> PASSED_SHIFT), cut
    return p, np.int64(0), effort + ((p - begin) >> PASSED_SHIFT), cut


@embedded
def _evaluated(e, depth, how, frames):
    """Whether the edge's condition was evaluated when its row was looked for, and the slot values are still valid."""
    return how.strategy == NEXT and depth > 0 and e == frames[depth, F_FIRST] and frames[depth, F_STALE] == 0


@embedded
def _take_for_side(e, p, depth, here, net, sides, conditions, rows, scratch, work, state):
    """Takes a row by an edge, and writes the slot values after it to the place of its depth. Returns 1, or 0 if the condition does
    not hold, or an error."""
    edges, frames = net.edges, work.frames
    v = edges[e, E_VAR]
    base = rows.letters.shape[0] + depth
    twins = np.int64(0)
    d = depth
    while d > 0 and frames[d, F_ROW] == p:
        twins |= np.int64(1) << edges[frames[d - 1, F_EDGE], E_VAR]
        d -= 1
    entry = conditions.entry[v] if (sides.across >> v) & 1 == 0 else np.int64(-1)
    if (twins >> v) & 1 == 1:
        # Both sides have the variable, so the row counts once.
        for k in range(conditions.slots.shape[0]):
            scratch.hi[base + 1, k] = scratch.hi[base, k]
            scratch.hf[base + 1, k] = scratch.hf[base, k]
        return np.int64(1)
    if conditions.slots.shape[0] == 0 and entry < 0:
        return np.int64(1)
    prior = base if depth > 0 else p - 1
    return map_row(v, entry, prior, base + 1, p if depth == 0 else np.int64(-1), p, twins, here, conditions, rows, scratch, state)


@embedded
def find_blocker(e, depth, stop, here, net, sides, spans, conditions, rows, scratch, work, state):
    """Notes in the frame the end of an edge's candidates under SKIP TILL NEXT. Returns 0 or an error.

    The end is the row after the first one, later than its side's last row, that may not be skipped.
    """
    edges = net.edges
    base, spare = rows.letters.shape[0] + depth, scratch.hi.shape[0] - 2
    after = work.since[depth, edges[e, E_SIDE]]
    work.frames[depth, F_STOP] = stop
    if after < 0:
        return np.int64(0)
    for x in range(after + 1, stop):
        for b in range(edges[e, E_BLOCKERS], edges[e, E_BLOCKERS_END]):
            f = sides.blockers[b]
            u = edges[f, E_VAR]
            if (rows.letters[x] >> u) & 1 == 0 or (sides.across >> u) & 1 == 1:
                continue
            if x >= window_end(f, depth, x + 1, edges, work.opened, spans.windows) or not timed(edges[f, E_OPEN], x, spans.windows):
                continue
            got = np.int64(1)
            if conditions.entry[u] >= 0:
                got = map_row(u, conditions.entry[u], base, spare, np.int64(-1), x, np.int64(0), here, conditions, rows, scratch, state)
            if got < 0:
                return got
            if got == 1:
                work.frames[depth, F_STOP] = x + 1
                return np.int64(0)
    return np.int64(0)


@kernel
def remember_failure(key, entries, table, state):
    """Marks a key as failed. A full memo is emptied first, so memory stays bounded."""
    if state[S_ENTRIES] == entries.shape[0]:
        forget(entries, table, state)
    h = place_of(key, entries, table)
    if table[h] == 0:
        enter(key, h, entries, table, state)


@kernel
def write_key(depth, node, row, stop, live, scratch, opened, windows):
    """Writes the key that decides a run's future: node, row, the ends of its windows, and the values of the match still needed."""
    key, hi, hbits = scratch.key, scratch.hi, scratch.hbits
    slots = live.shape[1]
    count = hi.shape[1] if slots > 0 else 0
    fill(key, 0)
    key[0] = node
    key[1] = row
    key[2] = stop
    n = 3
    for w in range(1, windows.shape[0]):
        key[n] = windows[w, opened[depth, w]] if opened[depth, w] >= 0 else -1
        n += 1
    for k in range(min(slots, count)):
        if live[node, k] > 0:
            key[n] = hi[row, k] if live[node, k] == 1 else min(hi[row, k], np.int64(live[node, k]) - 1)
            key[n + 1] = hbits[row, k]
        n += 2
