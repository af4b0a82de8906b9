"""The frontier: all runs advance side by side, and each row is shown to all of them before any takes it.

For each edge that may take the row, each run class at the edge's node proposes a run with the row. Then the proposals settle in the
classes of their target nodes. :mod:`sparkcep.kernels.frontier.run_classes` decides which runs form a class, and
:mod:`sparkcep.kernels.frontier.payload` what a class carries.

This is the runtime of SASE+ (SIGMOD 2008, section 5) for numbers and graphs of matches. For the cheapest match of each last row it
is the optimization of ACEP (VLDB 2016, section 3.3).

Edges are visited by the variables that the row may be: in a net of hundreds of nodes few concern a row.

Measured against the three loops that this one replaced (whole searches, thread time, the minimum of 12 runs in turn). Graphs and
numbers of matches take 0.35 to 1.0 of their time, cheapest runs by class 0.3 to 0.5, cheapest runs by node 0.96 to 1.04. For runs
by node four alternatives are slower: a place that is not the run itself by 0.15, proposals that are not first compared with each
other by 0.05. Proposals that are noted like those of classes are slower by 0.07, and completions that are found when proposals
settle by 0.08.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.compiler.net.net import E_AT_START, E_CHECK, E_LABEL, E_OPEN, E_PASSED, E_TARGET
from sparkcep.kernels.common.cursor import bounds, entered, left
from sparkcep.kernels.common.hash_table import fill
from sparkcep.kernels.common.layout import DONE, ERROR, FULL, GROW, NEXT, O_CUT, S_DETAIL, S_NUMBER, S_PART, S_START, STRICT
from sparkcep.kernels.common.run_chains import C_EDGE, NONE, append
from sparkcep.kernels.frontier.payload import (
    CARGO_STATE,
    K_ENTRIES,
    carry,
    complete,
    join,
    leave,
    move_on,
    preferred,
    report,
    taken,
)
from sparkcep.kernels.frontier.run_classes import (
    CROWD,
    F_ALIVE,
    F_FREE,
    F_HASHED,
    F_SWEEP,
    F_USED,
    I_AFTER,
    I_HASH,
    I_NODE,
    I_OVER,
    ClassValues,
    bury,
    crowd,
    found,
    give_back,
    unlink,
)
from sparkcep.kernels.jit.cache import embedded, kernel
from sparkcep.kernels.vm.vm import MAP, scan

CLASSES_FULL, CARGO_FULL, STARTS_FULL = range(3)  # state[S_DETAIL] after GROW: what is full
# State after that of the payload: whether a row ended classes, how often an edge of a class was tested against a row, whether the
# current row still has to be reported.
R_OVER, R_LOOKS, R_PENDING, FRONT_STATE = range(CARGO_STATE, CARGO_STATE + 4)
BEGINS = 31  # low bits of a window's end
P_CLASS, P_TARGET = range(2)  # columns of ``pending``: place of the class, NONE if no edge leads on; its node


class FrontArrays(NamedTuple):
    """The net, with its edges by variable.

    Attributes:
        edges: as in :mod:`sparkcep.compiler.net.net`.
        by_first, by_edge: int64 (variables + 1) and int64, the edges of each variable.
        source: int64 (edges), the node that each edge leaves.
        masks: int64 (nodes), the variables that can be taken there.
        accept, accept_end: int64 (nodes), the cheapest accepting edge, or NONE. ``accept_end`` also includes edges that hold only
            after the partition's last row.
        tested: int64, mask of all variables.
    """

    edges: np.ndarray
    by_first: np.ndarray
    by_edge: np.ndarray
    source: np.ndarray
    masks: np.ndarray
    accept: np.ndarray
    accept_end: np.ndarray
    tested: int


class Looking(NamedTuple):
    """Arguments of searches whose conditions look at the match, or whose groups have windows.

    Slot values of the class at place p lie in row ``spare`` + p of the scratch, after the rows of the buffer.

    Attributes:
        values: :class:`sparkcep.kernels.frontier.run_classes.ClassValues`.
        windows: int64 (w, rows), the first row outside each window that begins with a row. Those of groups are shifted by BEGINS.
            Their low bits distinguish runs whose groups began at different rows.
        ends: int64 (nodes, rows), the row after the earliest completion; (0, 0) if it is not known.
        conditions, rows, scratch: as in :mod:`sparkcep.kernels.match.backtrack`.
        spare: the first of these rows.
    """

    values: ClassValues
    windows: np.ndarray
    ends: np.ndarray
    conditions: tuple
    rows: tuple
    scratch: tuple
    spare: int


@embedded
def inside(place, e, row, edges, looking, classes):
    """Whether the row lies in the groups' windows that an edge asks for."""
    for w in range(1, looking.windows.shape[0]):
        if (edges[e, E_CHECK] >> w) & 1 == 1 and row >= classes.ends[place, w] >> BEGINS:
            return False
    return True


@embedded
def timed(e, row, edges, looking):
    """Whether the row has a time in the groups' windows that an edge opens. It has none if the time is NULL."""
    for w in range(1, looking.windows.shape[0]):
        if (edges[e, E_OPEN] >> w) & 1 == 1 and looking.windows[w, row] >> BEGINS <= row:
            return False
    return True


@embedded
def fulfils(place, v, e, row, low, high, edges, looking, state):
    """1 if the row fulfils a variable's condition on the row and the match, 0 if it does not, negative for an error."""
    data, conditions, scratch = looking.rows, looking.conditions, looking.scratch
    first = row if place == NONE else np.int64(-1)
    before = row - 1 if place == NONE else looking.spare + place
    got, bad = scan(
        MAP, np.int64(v), edges[e, E_LABEL], conditions.entry[v], 1, row, before, low, row + 1, high, first, np.int64(0), data.letters, conditions.code, conditions.floats, conditions.slots, scratch.hi, scratch.hf, scratch.labels,
        conditions.label_codes, data.ints, data.flts, data.inull, data.fnull, data.pair_starts, data.pair_ints, data.pair_flts, data.pair_null, scratch.si,
        scratch.sf, scratch.sn,
    )
    if bad < 0:
        state[S_DETAIL] = bad
        return -1
    return got


@embedded
def new_class(source, e, row, edges, looking, classes, state):
    """Allocates a place for the class that an edge leads to, and writes what decides its future. Returns NONE if all places are in
    use."""
    target = edges[e, E_TARGET]
    values, ends = looking.values, classes.ends
    if state[F_FREE] > 0:
        state[F_FREE] -= 1
        c = classes.free[state[F_FREE]]
    elif state[F_USED] < classes.free.shape[0]:
        c = state[F_USED]
        state[F_USED] += 1
    else:
        return np.int64(NONE)
    classes.info[c, I_NODE] = target
    classes.info[c, I_HASH] = 0
    classes.info[c, I_OVER] = 0
    for w in range(1, ends.shape[1]):
        ends[c, w] = NONE
        if (values.windows_live[target] >> w) & 1 == 1:
            if (edges[e, E_OPEN] >> w) & 1 == 1:
                ends[c, w] = looking.windows[w, row]
            elif source != NONE:
                ends[c, w] = ends[source, w]
    hi, hf = looking.scratch.hi, looking.scratch.hf
    for k in range(classes.hi.shape[1]):
        # Sums that are no longer read start over, so that they do not overflow.
        kept = values.valued[target] == 1
        classes.hi[c, k] = 0 if not kept else min(hi[row, k], values.largest[k]) if values.largest[k] > 0 else hi[row, k]
        classes.hf[c, k] = hf[row, k] if kept else 0.0
    return c


@embedded
def _propose(source, e, row, last, count, net, looking, classes, numbers, graph, runs, state):
    """Notes that runs of class ``source`` (NONE: a new run) take the row by an edge. Returns False if an array is full.

    ``last`` is the last place in the window of these runs.
    """
    edges = net.edges
    target = edges[e, E_TARGET]
    if count == classes.pending.shape[0]:
        state[S_DETAIL] = CLASSES_FULL
        return False
    if not carry(count, source, e, row, edges[e, E_LABEL], numbers, graph, runs, state):
        state[S_DETAIL] = CARGO_FULL
        return False
    c = np.int64(NONE)
    if net.masks[target] != 0:
        c = new_class(source, e, row, edges, looking, classes, state)
        if c == NONE:
            state[S_DETAIL] = CLASSES_FULL
            return False
        classes.until[c] = last
    classes.pending[count, P_CLASS] = c
    classes.pending[count, P_TARGET] = target
    return True


@embedded
def _put(entry, place, e, row, last, net, classes, runs):
    """Writes the run that takes the row by an edge, if each node's class is its run. The caller has made room.

    ``place`` is the node's run, or NONE for a new one. ``last`` is as in :func:`_propose`.
    """
    append(runs.pool, entry, place, e, runs.positions[row])
    runs.at[entry] = row
    classes.until[entry] = last
    target = net.edges[e, E_TARGET]
    if net.masks[target] != 0:
        # The row may make several runs for a node, but only the best one is compared with the node's own run. Mostly it began
        # later, which is the cheapest comparison.
        best = classes.table[target] - 1
        if best == NONE or preferred(runs.pool, entry, best):
            classes.table[target] = entry + 1


@embedded
def _look(row, low, high, may_start, here, head, net, strategy, when, until, looking, classes, numbers, graph, runs, state):
    """Shows a row to every class.

    Returns (number of proposals, whether a match is complete). If an array is full or a condition fails, the number is -1 - the
    outcome.
    """
    edges, by_first, by_edge = net.edges, net.by_first, net.by_edge
    accept = net.accept_end if row + 1 == high else net.accept
    count = 0
    done = False
    v = 0
    if runs is not None:
        if looking is None and state[K_ENTRIES] + by_edge.shape[0] > runs.pool.shape[0]:
            state[S_DETAIL] = CARGO_FULL
            return -1 - GROW, done
    # Bits of ``here`` are the variables that the row may be; zero bits are skipped cheaply.
    while here != 0:
        if here & 1 == 0:
            here >>= 1
            v += 1
            continue
        for k in range(by_first[v], by_first[v + 1]):
            e = by_edge[k]
            node = net.source[e]
            place = np.int64(NONE)
            if node != 0:
                place = head[node]
                if place == NONE:
                    continue
            elif edges[e, E_AT_START] != 0 and not may_start:
                continue
            if looking is None:
                last = until[row] if place == NONE else classes.until[place]
                if when[row] > last:
                    head[node] = NONE  # outside its window
                    continue
                if runs is not None:
                    _put(state[K_ENTRIES] + count, place, e, row, last, net, classes, runs)
                accepting = accept[edges[e, E_TARGET]]
                if accepting != NONE:
                    complete(count, accepting, not done, edges, numbers, graph, runs, state)
                    done = True
                count += 1
                continue
            before = np.int64(NONE)
            while True:
                after = np.int64(NONE)
                if place != NONE:
                    after = classes.info[place, I_AFTER]
                last = until[row] if place == NONE else classes.until[place]
                if when[row] > last:
                    unlink(node, before, place, classes, state)  # outside its window
                else:
                    before = place
                    state[R_LOOKS] += 1
                    fits = inside(place, e, row, edges, looking, classes) and timed(e, row, edges, looking)
                    if fits and (looking.conditions.entry[v] >= 0 or looking.values.valued[edges[e, E_TARGET]] == 1):
                        got = fulfils(place, v, e, row, low, high, edges, looking, state)
                        if got < 0:
                            return -1 - _withdrawn(count, ERROR, classes, state), done
                        fits = got == 1
                    if fits and strategy == NEXT and place != NONE and edges[e, E_PASSED] == 0:
                        # A run that can take a row by such an edge may not skip the row, even if nothing comes of it.
                        classes.info[place, I_OVER] = 1
                        state[R_OVER] = 1
                    if fits and _completes(edges[e, E_TARGET], row, last, looking):
                        if not _propose(place, e, row, last, count, net, looking, classes, numbers, graph, runs, state):
                            return -1 - _withdrawn(count, GROW, classes, state), done
                        accepting = accept[edges[e, E_TARGET]]
                        if accepting != NONE:
                            complete(count, accepting, not done, edges, numbers, graph, runs, state)
                            done = True
                        count += 1
                place = after
                if place == NONE:
                    break
        here >>= 1
        v += 1
    return count, done


@embedded
def _completes(target, row, last, looking):
    """Whether runs that reach a node can complete up to place ``last`` of their window."""
    return looking.ends.shape[1] == 0 or looking.ends[target, row] <= last + 1


@embedded
def _withdrawn(count, outcome, classes, state):
    """Frees the places of proposals, because the row is looked at once more. Returns ``outcome``."""
    for i in range(count):
        c = classes.pending[i, P_CLASS]
        if c != NONE:
            give_back(c, classes, state)
    return outcome


@embedded
def _settle(row, head, count, merging, when, looking, classes, numbers, graph, runs, state):
    """Moves the proposals of a row into their classes."""
    for i in range(count):
        c, target = classes.pending[i, P_CLASS], classes.pending[i, P_TARGET]
        if c == NONE:
            continue
        known = found(c, classes, looking.values, state) if merging else np.int64(NONE)
        # A class whose window has closed, but that was not looked at since, counts as absent.
        fresh = known == NONE or when[row] > classes.until[known]
        if known == NONE:
            classes.info[c, I_AFTER] = head[target]
            head[target] = c
            state[F_ALIVE] += 1
        else:
            give_back(c, classes, state)
            classes.until[known] = max(classes.until[c], classes.until[known])
            c = known
        join(i, c, fresh, numbers, graph, runs, state)
    taken(count, graph, runs, state)


@embedded
def _replace(row, head, count, when, net, classes, runs, state):
    """Replaces the runs of nodes by those that the row made, if the new ones are preferred."""
    for entry in range(state[K_ENTRIES], state[K_ENTRIES] + count):
        target = net.edges[runs.pool[entry, C_EDGE], E_TARGET]
        if classes.table[target] == entry + 1:
            classes.table[target] = 0
            known = head[target]
            if known == NONE or when[row] > classes.until[known] or preferred(runs.pool, entry, known):
                head[target] = entry
    state[K_ENTRIES] += count


@embedded
def _end_blocked(here, head, net):
    """Ends the runs of nodes that may not ignore a row, under SKIP TILL NEXT if each node's class is its run."""
    v = 0
    while here != 0:
        if here & 1 == 1:
            for k in range(net.by_first[v], net.by_first[v + 1]):
                e = net.by_edge[k]
                if net.edges[e, E_PASSED] == 0:
                    head[net.source[e]] = NONE
        here >>= 1
        v += 1


@embedded
def _end_all(head, looking, classes, state):
    """Ends all runs of a partition."""
    if looking is not None:
        if state[F_ALIVE] > 0:
            bury(True, classes.until[0], classes, state)
    else:
        fill(head, NONE)


@kernel
def front_partitions(
    net, strategy, merging, windowed, letters, offsets, when, until, opens, slots, ahead, looking, classes, numbers, graph, runs, state,
):
    """Searches the partitions and fills the output of the payload. Returns DONE, FULL, GROW (``state[S_DETAIL]``: what is full) or
    ERROR.

    Args:
        net: :class:`FrontArrays`.
        strategy: STRICT, NEXT or ANY.
        merging: whether runs with equal futures form one class; else each run is its own class.
        windowed: whether a window bounds the whole match.
        letters: int64 (rows), the variables that each row may be.
        offsets: int64 (partitions + 1).
        when, until: int64 or float64 (rows), a row's place in the measure of the window, and the last place inside a window that
            begins with it.
        opens: int64 (partitions, OPEN_FIELDS).
        slots: int64 (partitions), the row of ``classes.head`` for each partition. Partitions that begin and end in the buffer have
            row 0.
        ahead: how many rows conditions look ahead.
        looking: None if conditions are local and only the whole match has a window, else :class:`Looking`.
        classes: :class:`sparkcep.kernels.frontier.run_classes.Classes`.
        numbers, graph, runs: the payload; just one of them is not None.
        state: int64 (FRONT_STATE).
    """
    parts = offsets.shape[0] - 1
    part, row = state[S_PART], state[S_START]
    outcome = DONE
    while part < parts:
        low, high, open_end, limit = bounds(part, offsets, opens, ahead)
        head = classes.head[slots[part]]
        while row < limit:
            here = letters[row] & net.tested
            if looking is not None and until[row] < when[row]:
                here = 0  # its time is NULL
            if here == 0:
                # Strict contiguity: a row that no variable takes ends all runs.
                if strategy == STRICT:
                    _end_all(head, looking, classes, state)
                row += 1
                continue
            if state[R_PENDING] == 0:
                if looking is not None:
                    if state[F_ALIVE] == 0 and here & net.masks[0] == 0:
                        row += 1  # no run waits for a row that begins nothing
                        continue
                    # Classes whose windows have closed are swept once the classes have doubled, so the cost of sweeping is
                    # amortised.
                    if state[F_ALIVE] > state[F_SWEEP]:
                        bury(False, when[row], classes, state)
                    if merging and state[F_HASHED] == 0 and state[F_ALIVE] > CROWD:
                        crowd(classes, looking.values, state)
                if not move_on(row, until, when, here & net.masks[0] != 0, windowed, classes, numbers, graph, state):
                    state[S_DETAIL] = STARTS_FULL
                    outcome = GROW
                    break
                may_start = row == low and opens[part, O_CUT] == 0
                count, done = _look(row, low, high, may_start, here, head, net, strategy, when, until, looking, classes, numbers, graph, runs, state)
                if count < 0:
                    outcome = -1 - count
                    break
                if strategy == STRICT:
                    _end_all(head, looking, classes, state)
                # Runs that may not skip this row end now, after all classes have looked at it.
                elif looking is not None:
                    if state[R_OVER] == 1:
                        bury(False, when[row], classes, state)
                        state[R_OVER] = 0
                if runs is not None:
                    if looking is None:
                        if strategy == NEXT:
                            _end_blocked(here, head, net)
                        _replace(row, head, count, when, net, classes, runs, state)
                if looking is not None:
                    _settle(row, head, count, merging, when, looking, classes, numbers, graph, runs, state)
                if not done:
                    row += 1
                    continue
                state[R_PENDING] = 1
            # A row is reported after all its proposals have settled, so FULL repeats only the report.
            if not report(part, row, low, net.edges, numbers, graph, runs, state):
                outcome = FULL
                break
            state[R_PENDING] = 0
            row += 1
        outcome = left(opens, part, outcome, open_end, row, state[S_NUMBER], row)
        if outcome != DONE:
            break
        if not open_end:
            _end_all(head, looking, classes, state)
        leave(open_end, high, numbers, graph, runs, state)
        part += 1
        if part < parts:
            row, state[S_NUMBER], _ = entered(opens, part)
    state[S_PART] = part
    state[S_START] = row
    return outcome
