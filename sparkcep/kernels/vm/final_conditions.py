"""Conditions that are judged by the finished match: conditions across ``&``, negated variables and negated groups.

The walk (:mod:`sparkcep.kernels.match.walk`) calls these functions. Its run lies in frames, one for each row taken.

A negated condition sees the rows of the match as of its end, and the rows of its own variable up to the row in question. So
:func:`replay` recomputes the slot values of the match, with the rows of the negated variable merged in.

Example: ``PATTERN (A ~C B)`` where the condition of C reads both ``C.x`` and ``LAST(B.x)``. The match is row 0 (A) and row 3 (B),
and row 2 may be C. The condition is evaluated for row 2 on slots that have seen rows 0, 2 and 3.
"""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.conditions.bytecode import SLOT
from sparkcep.compiler.net.net import E_CHECK, E_LABEL, E_OPEN, E_PASSED, E_TARGET, E_VAR
from sparkcep.kernels.common.hash_table import fill
from sparkcep.kernels.common.layout import NEXT, S_NUMBER, S_STEPS
from sparkcep.kernels.jit.cache import embedded, inlined, kernel
from sparkcep.kernels.vm.vm import MAP, UNTAKEN, scan

# Columns of ``frames``: node, row taken, the edge in progress (it leads to the frame above), next candidate row (-1: not looked for
# yet), first edge that accepts that row, matches at entry, whether the run has completed here already, 1 if rows were taken since
# the candidate was looked at, so that its slot values may be overwritten.
FROM = -2  # in F_NEXT: FROM - row means that candidates are looked for after that row
F_NODE, F_ROW, F_EDGE, F_NEXT, F_FIRST, F_FOUND, F_DONE, F_STALE, FRAME = range(9)

# Columns of ``path``, the rows of negated variables: row, label. A run of a negated group also has the node, the row and the edge
# to try next, and whether that row may not be skipped.
P_ROW, P_LABEL, P_NODE, P_NEXT, P_EDGE, P_HELD, PATH = range(7)

TOO_LONG = -99  # instead of an error: the search for a group took too many steps

_LABELFIRST = SLOT["LABELFIRST"]  # kinds of slots up to this one hold a row or a label, -1 if there is none


@embedded
def window_end(e, depth, stop, edges, opened, windows):
    """The end of an edge's candidate rows by the windows of its groups: the row before which they must lie."""
    checked = edges[e, E_CHECK] >> 1
    w = 1
    while checked != 0:
        if checked & 1 == 1:
            stop = min(stop, windows[w, opened[depth, w]])
        checked >>= 1
        w += 1
    return stop


@embedded
def timed(opening, row, windows):
    """Whether the row has a time in each of the windows that it would open."""
    w = 0
    while opening != 0:
        if opening & 1 == 1 and windows[w, row] <= row:
            return False
        opening >>= 1
        w += 1
    return True


@embedded
def open_windows(e, depth, row, edges, opened):
    """Notes for the frame above which windows the row opens."""
    opening = edges[e, E_OPEN]
    for w in range(opened.shape[1]):
        opened[depth + 1, w] = row if (opening >> w) & 1 == 1 else opened[depth, w]


# -- conditions, and values of the match ------------------------------------------------------------------------


@inlined
def scanned(mode, v, label, entry, most, row, prior, stop, begin, here, slots, conditions, rows, scratch, state):
    """``vm.scan`` with grouped arguments. ``here``: first row and end of the partition, and the start row."""
    return scan(
        mode, v, label, entry, most, row, prior, here[0], stop, here[1], begin, state[S_NUMBER] + 1, rows.letters, conditions.code, conditions.floats,
        slots, scratch.hi, scratch.hf, scratch.labels, conditions.label_codes, rows.ints, rows.flts, rows.inull, rows.fnull, rows.pair_starts,
        rows.pair_ints, rows.pair_flts, rows.pair_null, scratch.si, scratch.sf, scratch.sn,
    )


@inlined
def evaluate(label, entry, prior, begin, row, slots, here, conditions, rows, scratch, state):
    """Maps ``row`` to a label's variable, given the slot values at ``prior``. Returns 1, or 0 if its condition does not hold, or an
    error."""
    got, bad = scanned(MAP, label & 63, label, entry, 1, row, prior, row + 1, begin, here, slots, conditions, rows, scratch, state)
    return bad if bad < 0 else got


@inlined
def map_row(label, entry, prior, into, begin, row, twins, here, conditions, rows, scratch, state):
    """:func:`evaluate` that copies the slot values to row ``into`` on success.

    ``twins`` is the mask of the variables that the row is mapped to already.
    """
    slots, hi, hf = conditions.slots, scratch.hi, scratch.hf
    got = evaluate(label, entry if twins == 0 else np.int64(-1), prior, begin, row, slots, here, conditions, rows, scratch, state)
    if got != 1:
        return got
    if twins != 0:
        for k in range(slots.shape[0]):
            mask = slots[k, 1]
            if mask == -1 or ((mask >> (label & 63)) & 1 == 1 and mask & twins != 0):
                hi[row, k] = hi[prior, k]  # a row counts once in a set of variables
                hf[row, k] = hf[prior, k]
        if entry >= 0:
            got = evaluate(label, entry, prior, begin, row, slots[:0], here, conditions, rows, scratch, state)
            if got != 1:
                return got
    for k in range(slots.shape[0]):
        hi[into, k] = hi[row, k]
        hf[into, k] = hf[row, k]
    return np.int64(1)


@embedded
def put_start(row, slots, scratch):
    """Writes the slot values of a run without rows to ``row``."""
    for k in range(slots.shape[0]):
        scratch.hi[row, k] = -1 if slots[k, 0] <= _LABELFIRST else 0
        scratch.hf[row, k] = 0.0


@kernel
def replay(own, upto, count, depth, into, here, edges, conditions, rows, scratch, work, state):
    """Recomputes the slot values of the finished match into row ``into``, and returns 0 or an error.

    Rows of the variable ``own`` from ``upto`` on are left out. The first ``count`` rows of the ``path``, after its head, are merged
    in.
    """
    slots, frames, path = conditions.slots, work.frames, work.path
    put_start(into, slots, scratch)
    previous = np.int64(-1)
    twins = np.int64(0)
    d, i = np.int64(1), np.int64(1)
    row = np.int64(-1)
    label = np.int64(-1)
    # The frames and the path are merged by row, then by variable.
    while d <= depth or i <= count:
        if d <= depth:
            row = frames[d, F_ROW]
            label = edges[frames[d - 1, F_EDGE], E_LABEL]
        if i <= count and (d > depth or path[i, P_ROW] < row or (path[i, P_ROW] == row and path[i, P_LABEL] < label & 63)):
            row, label = path[i, P_ROW], path[i, P_LABEL]
            i += 1
        else:
            d += 1
            if label & 63 == own and row >= upto:
                continue
        if row != previous:
            twins = np.int64(0)
        if (twins >> (label & 63)) & 1 == 1:
            continue
        begin = row if previous < 0 else np.int64(-1)
        got = map_row(label, np.int64(-1), into, into, begin, row, twins, here, conditions, rows, scratch, state)
        if got < 0:
            return got
        twins |= np.int64(1) << (label & 63)
        previous = row
    return np.int64(0)


@kernel
def _holds_behind(v, own, upto, count, begin, depth, here, edges, conditions, rows, scratch, work, state):
    """Whether the condition of variable ``v`` holds at row ``count + 1`` of the ``path``: 1, 0 or an error.

    The first ``count`` rows of the path are merged into the finished match; ``own`` and ``upto`` as in :func:`replay`.
    """
    hi, hf, spare, row = scratch.hi, scratch.hf, scratch.hi.shape[0] - 2, work.path[count + 1, P_ROW]
    labels, frames = scratch.labels, work.frames
    bad = replay(own, upto, count, depth, spare, here, edges, conditions, rows, scratch, work, state)
    if bad < 0:
        return bad
    bad = replay(own, upto, count + 1, depth, spare + 1, here, edges, conditions, rows, scratch, work, state)
    if bad < 0:
        return bad
    slots = conditions.slots
    for k in range(slots.shape[0]):
        hi[row, k] = hi[spare + 1, k]
        hf[row, k] = hf[spare + 1, k]
    # An aggregate over distinct values finds the match's rows by their labels.
    d, hidden = depth, depth + 1
    while own >= 0 and d > 0 and frames[d, F_ROW] >= upto:
        if edges[frames[d - 1, F_EDGE], E_LABEL] & 63 == own and labels[frames[d, F_ROW]] != UNTAKEN:
            labels[frames[d, F_ROW]] = UNTAKEN
            hidden = d
        d -= 1
    got = evaluate(v, conditions.entry[v], spare, begin, row, slots[:0], here, conditions, rows, scratch, state)
    for d in range(hidden, depth + 1):
        labels[frames[d, F_ROW]] = edges[frames[d - 1, F_EDGE], E_LABEL]
    return got


@kernel
def holds_finally(v, row, begin, depth, here, edges, conditions, rows, scratch, work, state):
    """Whether the condition of variable ``v`` holds at a row: 1, 0 or an error.

    Of its own variable the condition sees the rows up to this one. Of all others it sees the finished match.
    """
    if (rows.letters[row] >> v) & 1 == 0:
        return np.int64(0)
    if conditions.entry[v] < 0:
        return np.int64(1)
    work.path[1, P_ROW] = row
    work.path[1, P_LABEL] = v
    return _holds_behind(v, v, row, np.int64(0), begin, depth, here, edges, conditions, rows, scratch, work, state)


# -- negated groups ---------------------------------------------------------------------------------------------


@kernel
def group_between(v, after, before, depth, here, edges, sides, how, spans, negated, conditions, rows, scratch, work, state):
    """Whether a match of the negated group ``v`` lies strictly between two rows: 1, 0 or an error.

    The search is depth-first from each row. A row is not taken if the run cannot complete from it by row-local conditions.
    """
    net, path, letters, labels = negated.groups, work.path, rows.letters, scratch.labels
    first, own = net.first, net.edges
    use_ends = negated.ends.shape[1] > 0
    start, found = negated.start[v], np.int64(0)
    for s in range(after + 1, before):
        if letters[s] & net.masks[start] == 0 or (use_ends and negated.ends[start, s] > before):
            continue
        begin = np.int64(-1)
        if sides is None:
            begin = min(s, here[2])
        count = np.int64(0)
        _put_run(count, start, s, first, path)
        fill(work.within[0], -1)
        while count >= 0:
            e, x = path[count, P_EDGE], path[count, P_NEXT]
            node = path[count, P_NODE]
            # No candidate is left, or the last one may not be skipped: the run goes back by one row.
            if x >= before or (e == first[node + 1] and (count == 0 or path[count, P_HELD] == 1)):
                if sides is None and count > 0:
                    labels[path[count, P_ROW]] = UNTAKEN
                count -= 1
                continue
            if e == first[node + 1]:
                path[count, P_NEXT] = x + 1
                path[count, P_EDGE] = first[node]
                continue
            path[count, P_EDGE] = e + 1
            u, target = own[e, E_VAR], own[e, E_TARGET]
            if u < 0 or (letters[x] >> u) & 1 == 0:
                continue
            if x >= window_end(e, count, x + 1, own, work.within, spans.windows) or not timed(own[e, E_OPEN], x, spans.windows):
                continue
            state[S_STEPS] += 1 + count
            if state[S_STEPS] > how.max_steps:
                found = np.int64(TOO_LONG)
                break
            path[count + 1, P_ROW] = x
            path[count + 1, P_LABEL] = u
            if conditions.entry[u] >= 0:
                state[S_STEPS] += depth
                got = _holds_behind(u, np.int64(-1), np.int64(0), count, begin, depth, here, edges, conditions, rows, scratch, work, state)
                if got < 0:
                    found = got
                    break
                if sides is None:
                    labels[x] = UNTAKEN
                if got == 0:
                    continue
            if how.strategy == NEXT and own[e, E_PASSED] == 0:
                path[count, P_HELD] = 1
            if use_ends and negated.ends[target, x] > before:
                continue
            if net.accepts[target] != 0:
                found = np.int64(1)
                break
            open_windows(e, count, x, own, work.within)
            if sides is None:
                labels[x] = u
            count += 1
            _put_run(count, target, x + 1, first, path)
        if sides is None:
            for i in range(1, count + 2):
                if path[i, P_ROW] > after and path[i, P_ROW] < before:
                    labels[path[i, P_ROW]] = UNTAKEN
        if found != 0:
            break
    return found


@embedded
def _put_run(count, node, row, first, path):
    """Writes the position after the first ``count`` rows of a group's run: its candidates are tried from ``row`` on."""
    path[count, P_NODE] = node
    path[count, P_NEXT] = row
    path[count, P_EDGE] = first[node]
    path[count, P_HELD] = 0
