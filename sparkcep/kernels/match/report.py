"""Reports the matches of the walk (:mod:`sparkcep.kernels.match.walk`): writes their rows and labels, each match once, in order.

A match that is found in several ways is kept as the preferred one. If only the match that completes first is asked for, it is kept
until no other can complete earlier.
"""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.net.net import E_COST, E_LABEL
from sparkcep.kernels.common.cursor import put_event
from sparkcep.kernels.common.hash_table import BASIS, mixed
from sparkcep.kernels.common.layout import (
    DONE,
    E_ACCEPT,
    E_LABELS,
    E_NUMBER,
    E_ROWS,
    FULL,
    S_BEST,
    S_BEST_END,
    S_BEST_START,
    S_DETAIL,
    S_EVENTS,
    S_FOUND,
    S_LABELS,
    S_NUMBER,
    TOO_MANY,
)
from sparkcep.kernels.frontier.traceback import derived_before
from sparkcep.kernels.jit.cache import allocating, embedded, kernel
from sparkcep.kernels.topk.score_bounds import enter_score
from sparkcep.kernels.vm.final_conditions import F_EDGE, F_ROW


@embedded
def _write(depth, at, edges, sides, copied, frames, labels, out_rows, out_labels):
    """Writes the (row, label) pairs of the match in the frames from ``at`` on, and returns their number.

    With sides they are ordered by row, then variable, each pair once.
    """
    if sides is None:
        for d in range(depth):
            row = frames[d + 1, F_ROW]
            out_rows[at + d] = row
            out_labels[at + d] = labels[row]
        return depth
    end = at
    for d in range(1, depth + 1):
        row, label = frames[d, F_ROW], edges[frames[d - 1, F_EDGE], E_LABEL]
        v = _variable(label, copied.original)
        i = end
        while i > at and out_rows[i - 1] == row and _variable(out_labels[i - 1], copied.original) > v:
            i -= 1
        if i > at and out_rows[i - 1] == row and _variable(out_labels[i - 1], copied.original) == v:
            continue
        for j in range(end, i, -1):
            out_rows[j] = out_rows[j - 1]
            out_labels[j] = out_labels[j - 1]
        out_rows[i] = row
        out_labels[i] = label
        end += 1
    return end - at


@kernel
def report_match(s, part, depth, e, edges, plain, sides, copied, how, labels, work, state, out, floors):
    """Writes the match in the frames, which edge ``e`` completes: (outcome, 1, or 0 if it had been found before)."""
    events, frames = out.events, work.frames
    count, at = state[S_EVENTS], state[S_LABELS]
    if count == events.shape[0] or at + depth > out.labels.shape[0]:
        state[S_DETAIL] = depth
        return FULL, np.int64(0)
    size = _write(depth, at, edges, sides, copied, frames, labels, out.rows, out.labels)
    approximate = copied.original.shape[0] > 0
    if plain is not None:
        if approximate:
            for d in range(depth):
                out.paths[at + d] = frames[d, F_EDGE]
    if how.ambiguous:
        h = _place(at, size, s + 1, copied.original, work.seen, out)
        if work.seen[h, 1] != 0 and work.seen[h, 0] == s + 1:
            # Not a failure: after other rows it leads to other matches.
            state[S_FOUND] += 1
            if approximate:
                if plain is not None:
                    _prefer(work.seen[h, 1] - 1, at, size, e, edges, copied, out)
                if sides is not None:
                    _prefer_completion(work.seen[h, 1] - 1, at, size, e, copied, out)
            return DONE, np.int64(0)
        work.seen[h, 0] = s + 1
        work.seen[h, 1] = count + 1
    if state[S_NUMBER] >= how.max_matches:
        return TOO_MANY, np.int64(0)
    state[S_NUMBER] += 1
    put_event(events, count, part, s, size, state[S_NUMBER], at)
    if approximate:
        events[count, E_ACCEPT] = e
    state[S_EVENTS] = count + 1
    state[S_LABELS] = at + size
    if how.unmatched:
        for i in range(at, at + size):
            work.taken[out.rows[i]] = 1
    if floors is not None:
        enter_score(s, depth, frames[depth, F_ROW], floors)
    return DONE, np.int64(1)


@embedded
def _place(at, size, start, original, seen, out):
    """Cell of ``seen`` with the match written at ``at``, or the free cell for it. Cells of other start rows count as free."""
    h = BASIS
    for i in range(at, at + size):
        h = mixed(h, out.rows[i] * 64 + _variable(out.labels[i], original))
    mask = np.uint64(seen.shape[0] - 1)
    h = h & mask
    while seen[h, 1] != 0 and seen[h, 0] == start:
        e = seen[h, 1] - 1
        other = out.events[e, E_LABELS]
        same = out.events[e, E_ROWS] == size
        i = 0
        while same and i < size:
            same = out.rows[other + i] == out.rows[at + i] and _variable(out.labels[other + i], original) == _variable(out.labels[at + i], original)
            i += 1
        if same:
            return h
        h = (h + np.uint64(1)) & mask
    return h


@embedded
def _variable(label, original):
    """The variable of a label. For a variable copy it is the original."""
    v = np.int64(label & 63)
    if original.shape[0] > 0:
        v = original[v]
    return v


@kernel
def _prefer(known, at, size, e, edges, copied, out):
    """Replaces labels and path of a reported approximate match by those of the equal match at ``at``, if that is cheaper or its
    choices are preferred."""
    before, base = out.events[known, E_ACCEPT], out.events[known, E_LABELS]
    if edges[e, E_COST] > edges[before, E_COST]:
        return
    if edges[e, E_COST] == edges[before, E_COST] and not derived_before(out.paths, at, e, base, before, size, copied.sources, copied.first_source):
        return
    out.events[known, E_ACCEPT] = e
    for d in range(size):
        out.labels[base + d] = out.labels[at + d]
        out.paths[base + d] = out.paths[at + d]


@kernel
def _prefer_completion(known, at, size, e, copied, out):
    """As :func:`_prefer`, for sides: an edge that completes the match ranks its cost and its missing variables."""
    before, base = out.events[known, E_ACCEPT], out.events[known, E_LABELS]
    if copied.sources[copied.first_source[e], 2] >= copied.sources[copied.first_source[before], 2]:
        return
    out.events[known, E_ACCEPT] = e
    for d in range(size):
        out.labels[base + d] = out.labels[at + d]


@embedded
def keep_best(s, depth, stop_all, edges, sides, copied, labels, work, state):
    """Keeps the match in the frames if no match completes earlier. Returns the new bound: better matches lie before it."""
    last = work.frames[depth, F_ROW]
    if sides is None:
        # Matches are found in preference order, so only one that completes earlier replaces the best. Its first row is not bounded.
        if state[S_BEST] > 0 and last + 1 >= state[S_BEST_END]:
            return stop_all
        size = _write(depth, np.int64(0), edges, sides, copied, work.frames, labels, work.best_rows, work.best_labels)
        stop_all = min(stop_all, last)
    else:
        stop_all = min(stop_all, last + 1)
        half = work.best_rows.shape[0] // 2
        size = _write(depth, half, edges, sides, copied, work.frames, labels, work.best_rows, work.best_labels)
        if state[S_BEST] > 0 and state[S_BEST_END] == last + 1 and not _before(half, size, 0, state[S_BEST], copied.original, work.best_rows, work.best_labels):
            return stop_all
        for i in range(size):
            work.best_rows[i] = work.best_rows[half + i]
            work.best_labels[i] = work.best_labels[half + i]
    if state[S_BEST] == 0:
        state[S_BEST_START] = s
    state[S_BEST] = size
    state[S_BEST_END] = last + 1
    return stop_all


@embedded
def report_best(part, work, state, out):
    """Reports the match that completes first. Returns an outcome."""
    count, at, size = state[S_EVENTS], state[S_LABELS], state[S_BEST]
    if count == out.events.shape[0] or at + size > out.labels.shape[0]:
        state[S_DETAIL] = size
        return FULL
    state[S_NUMBER] += 1
    put_event(out.events, count, part, work.best_rows[0], size, state[S_NUMBER], at)
    for i in range(size):
        out.rows[at + i] = work.best_rows[i]
        out.labels[at + i] = work.best_labels[i]
        work.taken[work.best_rows[i]] = 1
    state[S_EVENTS] = count + 1
    state[S_LABELS] = at + size
    return DONE


@kernel
def _before(one, size, other, others, original, rows, labels):
    """Whether a sequence of (row, label) pairs is preferred to another: the lexicographically earlier one, or the longer one if it
    extends the other."""
    for i in range(min(size, others)):
        if rows[one + i] != rows[other + i]:
            return rows[one + i] < rows[other + i]
        v, u = _variable(labels[one + i], original), _variable(labels[other + i], original)
        if v != u:
            return v < u
    return size > others


@allocating
def sort_matches(low, number, original, state, out):
    """Sorts the events from ``low`` on, which belong to one start row, into preference order and numbers them (bottom-up merge
    sort)."""
    events = out.events
    n = state[S_EVENTS] - low
    if n < 2:
        return
    source = events[low : low + n].copy()
    target = np.empty_like(source)
    width, fields = 1, source.shape[1]
    while width < n:
        for begin in range(0, n, 2 * width):
            i, middle = begin, min(begin + width, n)
            j, end = middle, min(begin + 2 * width, n)
            for k in range(begin, end):
                second = i == middle or (
                    j < end and _before(source[j, E_LABELS], source[j, E_ROWS], source[i, E_LABELS], source[i, E_ROWS], original, out.rows, out.labels)
                )
                for field in range(fields):
                    target[k, field] = source[j if second else i, field]
                j, i = (j + 1, i) if second else (j, i + 1)
        source, target = target, source
        width *= 2
    for i in range(n):
        for field in range(fields):
            events[low + i, field] = source[i, field]
        events[low + i, E_NUMBER] = number + i + 1
