"""Judges finished matches of the walk (:mod:`sparkcep.kernels.match.walk`) by the conditions that wait for a match's end.

These are negations, conditions across ``&``, and, under SKIP TILL NEXT, whether a condition across ``&`` could have taken a skipped
row.
"""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.net.net import E_AT_END, E_BLOCKERS, E_BLOCKERS_END, E_CHECKS, E_CHECKS_END, E_NOT, E_OPEN, E_SIDE, E_VAR
from sparkcep.kernels.common.layout import NEXT
from sparkcep.kernels.jit.cache import embedded, inlined
from sparkcep.kernels.vm.final_conditions import (
    F_EDGE,
    F_ROW,
    F_STALE,
    group_between,
    holds_finally,
    replay,
    scanned,
    timed,
    window_end,
)
from sparkcep.kernels.vm.vm import MAP, UNTAKEN


@embedded
def none_between(variables, after, before, nearest):
    """Whether no occurrence of the mask's row-local negated variables and groups lies strictly between two rows."""
    v = 0
    while variables != 0:
        if variables & 1 == 1 and before > after + 1 and nearest[v, after + 1] < before:
            return False
        variables >>= 1
        v += 1
    return True


@embedded
def judged(e, depth, here, net, sides, how, spans, negated, conditions, rows, scratch, work, state):
    """Whether the rows taken are a match, by the conditions that wait for its end: 1, 0 or an error."""
    edges, frames = net.edges, work.frames
    last = frames[depth, F_ROW]
    if edges[e, E_AT_END] != 0:
        if sides is None:
            if last + 1 != here[1]:
                return np.int64(0)
        else:
            for side in range(work.since.shape[1]):
                if (edges[e, E_AT_END] >> side) & 1 == 1 and work.since[depth, side] + 1 != here[1]:
                    return np.int64(0)
    if depth == 0:
        return np.int64(1)  # nothing lies between the rows of an empty match
    if sides is None:
        if negated.local | negated.late == 0:
            return np.int64(1)
    frames[depth, F_STALE] = 1  # slot values of rows after the match are overwritten
    for d in range(1, depth + 2):
        by = frames[d - 1, F_EDGE]
        row = frames[d, F_ROW] if d <= depth else spans.windows[0, here[2]]
        if sides is None:
            crossed = edges[by, E_NOT]
            if crossed == 0:
                continue
            after = frames[d - 1, F_ROW] if d > 1 else spans.backs[last] - 1
            if not none_between(crossed & negated.local, after, row, negated.nearest):
                return np.int64(0)
            crossed &= negated.late
            v = np.int64(0)
            while crossed != 0:
                if crossed & 1 == 1:
                    got = _late_between(v, after, row, depth, here, edges, sides, how, spans, negated, conditions, rows, scratch, work, state)
                    if got != 0:
                        return min(got, np.int64(0))
                crossed >>= 1
                v += 1
        else:
            got = _side_judged(d, by, row, depth, here, net, sides, how, spans, negated, conditions, rows, scratch, work, state)
            if got != 1:
                return got
    return np.int64(1)


@embedded
def _side_judged(d, by, row, depth, here, net, sides, how, spans, negated, conditions, rows, scratch, work, state):
    """Judges the edge ``by`` that took ``row`` at depth ``d``, by the finished match: 1, 0 or an error.

    Judged are its condition across ``&``, its negations, and the rows that it skipped.
    """
    edges, since = net.edges, work.since
    v = edges[by, E_VAR]
    if v >= 0 and (sides.across >> v) & 1 == 1:
        got = holds_finally(v, row, np.int64(-1), depth, here, edges, conditions, rows, scratch, work, state)
        if got != 1:
            return got
    for c in range(edges[by, E_CHECKS], edges[by, E_CHECKS_END]):
        v = sides.checks[c, 0]
        after = since[d - 1, sides.checks[c, 1]]
        if after < 0:
            after = spans.backs[work.frames[depth, F_ROW]] - 1
        if not none_between((np.int64(1) << v) & negated.local, after, row, negated.nearest):
            return np.int64(0)
        if (negated.late >> v) & 1 == 1:
            got = _late_between(v, after, row, depth, here, edges, sides, how, spans, negated, conditions, rows, scratch, work, state)
            if got != 0:
                return min(got, np.int64(0))
    after = since[d - 1, edges[by, E_SIDE]]
    if edges[by, E_VAR] < 0 or how.strategy != NEXT or after < 0:
        return np.int64(1)
    for b in range(edges[by, E_BLOCKERS], edges[by, E_BLOCKERS_END]):
        f = sides.blockers[b]
        u = edges[f, E_VAR]
        if (sides.across >> u) & 1 == 0:
            continue
        for x in range(after + 1, window_end(f, d - 1, row, edges, work.opened, spans.windows)):
            if timed(edges[f, E_OPEN], x, spans.windows):
                got = holds_finally(u, x, np.int64(-1), depth, here, edges, conditions, rows, scratch, work, state)
                if got != 0:
                    return min(got, np.int64(0))
    return np.int64(1)


@inlined
def _late_between(v, after, before, depth, here, edges, sides, how, spans, negated, conditions, rows, scratch, work, state):
    """Whether an occurrence of a late negated variable or group lies strictly between two rows: 1, 0 or an error."""
    labels = scratch.labels
    last = work.frames[depth, F_ROW]
    if negated.start[v] >= 0:
        got = group_between(v, after, before, depth, here, edges, sides, how, spans, negated, conditions, rows, scratch, work, state)
        if sides is None:
            # The match continues with its own slot values.
            bad = replay(np.int64(-1), np.int64(0), np.int64(0), depth, scratch.hi.shape[0] - 2, here, edges, conditions, rows, scratch, work, state)
            got = bad if bad < 0 else got
        return got
    for x in range(after + 1, before):
        if (rows.letters[x] >> v) & 1 == 0:
            continue
        if sides is None and (negated.mixed >> v) & 1 == 0:
            # The condition reads the slot values of the finished match at its last row.
            got, bad = scanned(
                MAP, v, v, conditions.entry[v], 1, x, last, x + 1, here[2], here, conditions.slots, conditions, rows, scratch, state
            )
            got = bad if bad < 0 else got
            labels[x] = UNTAKEN
        else:
            begin = np.int64(-1)
            if sides is None:
                begin = min(x, here[2])
            got = holds_finally(v, x, begin, depth, here, edges, conditions, rows, scratch, work, state)
            if sides is None:
                # The match continues with its own slot values.
                labels[x] = UNTAKEN
                bad = replay(np.int64(-1), np.int64(0), np.int64(0), depth, scratch.hi.shape[0] - 2, here, edges, conditions, rows, scratch, work, state)
                got = bad if bad < 0 else got
        if got != 0:
            return got
    return np.int64(0)
