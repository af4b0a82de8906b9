"""Depth-first search over the net, for matches whose rows need not be adjacent (SASE+, SIGMOD 2008, sections 3 and 5).

A run is a path of the search. Its rows lie in frames, its computation state in the slots of :mod:`sparkcep.kernels.vm.vm`. The
paper keeps runs side by side over a shared versioned buffer. The walk instead goes depth-first in preference order, so it needs
memory for one run only and finds matches in their order. Two tables replace what sharing saves in the paper (docs/adr/0004):

``ends``   for each (node, row) the end of the earliest completion from there by row-local conditions. A branch that
           cannot complete inside its window is never entered. Exact if no condition looks at the match.
memo       (node, row, window, values of the match still needed) that led to no match: equivalent runs are merged
           (the paper's 5.2.2) when they fail.

The two sides of ``p & q`` are searched in one run (docs/adr/0005). Rows ascend, and a row that serves both sides is taken twice. A
condition that stays within its side is evaluated when its row is taken. Three things wait for the finished match: a condition
across ``&``, a negation, and, under SKIP TILL NEXT, whether a condition across ``&`` could have taken a skipped row.

Plain patterns and those with sides share the walk and differ in few steps. Exactly one of the arguments ``plain`` and ``sides`` is
not None. numba drops the steps of the other one when it compiles, so neither pays for the other.

Example: ``A B`` under SKIP TILL ANY, over rows with the letters A, none, B, A. Node 1 is reached by A, node 2 by B. ``ends[0]`` is
3, NEVER, NEVER, NEVER: only row 0 can begin a match. The run has the frames (node 0, row -1), (node 1, row 0) and (node 2, row 2).

Arrays that other searches share are described in :mod:`sparkcep.kernels.match.backtrack`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.compiler.net.net import E_AT_END, E_AT_START, E_BEGIN, E_HAVE, E_SAME, E_SIDE, E_TARGET, E_VAR
from sparkcep.kernels.common.cursor import bounds, entered, left, unmatched
from sparkcep.kernels.common.hash_table import fill, forget
from sparkcep.kernels.common.layout import (
    ANY,
    DONE,
    EFFORT,
    ERROR,
    FULL,
    NEXT,
    O_CLOSED,
    O_CUT,
    O_EMITTED,
    O_PUT_OFF,
    S_ACTIVE,
    S_BEST,
    S_BEST_END,
    S_BEST_START,
    S_COVERED,
    S_DEPTH,
    S_DETAIL,
    S_ENTRIES,
    S_EVENTS,
    S_FOUND,
    S_KEPT,
    S_LABELS,
    S_NUMBER,
    S_PART,
    S_REPEATS,
    S_START,
    S_STEPS,
    SKIP_FIRST,
    SKIP_NEXT_ROW,
    SKIP_PAST_LAST,
    SKIP_TO_ABSENT,
    SKIP_TO_FIRST,
    STRICT,
    SUSPENDED,
)
from sparkcep.kernels.jit.cache import embedded, inlined, kernel
from sparkcep.kernels.match.candidates import (
    F_STOP,
    find_accepted,
    find_blocker,
    put_frame,
    remember_failure,
    take_candidate,
    turned,
    write_key,
)
from sparkcep.kernels.match.judge import judged
from sparkcep.kernels.match.report import keep_best, report_best, report_match, sort_matches
from sparkcep.kernels.topk.score_bounds import N_ENTERED, enter_row, ranks
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
    TOO_LONG,
    window_end,
)
from sparkcep.kernels.vm.vm import UNTAKEN

# Remembering costs about as much as a few steps, and most start rows need no memo. So it begins once a start row has taken
# ``patience`` steps, and as many again for each 64 rows in reach.
PATIENT_ROWS = 64


class NetArrays(NamedTuple):
    """The net, with what its nodes need of the match.

    Attributes:
        first, edges, masks: as in :mod:`sparkcep.compiler.net.net`.
        accepts: uint8 (nodes).
        live: uint8 (nodes, slots), how a memo takes the slots that decide a node's future, see
            :func:`sparkcep.compiler.liveness.memo_values`.
        alone: int64 (nodes), a node's only edge whose condition looks at the match; -1 if there are none or several, or if a row
            opens or must lie in a group's window.
        local: int64 (nodes), the variables of the other edges.
        valued: uint8 (nodes), 1 if any slot is needed.
    """

    first: np.ndarray
    edges: np.ndarray
    masks: np.ndarray
    accepts: np.ndarray
    live: np.ndarray
    alone: np.ndarray
    local: np.ndarray
    valued: np.ndarray


class Plain(NamedTuple):
    """Arguments of patterns without ``&``.

    Attributes:
        distinct: uint8 (variables), 1 if the condition looks at all pairs of the match's rows, which count as steps.
    """

    distinct: np.ndarray


class SideArrays(NamedTuple):
    """Arguments of patterns with ``&``.

    Attributes:
        checks, blockers: as in :mod:`sparkcep.compiler.net.net`.
        across: mask of the variables whose conditions wait for the finished match.
    """

    checks: np.ndarray
    blockers: np.ndarray
    across: np.int64


class CopyArrays(NamedTuple):
    """The variable copies and the sources of approximate matches. All are empty for exact ones.

    Attributes:
        original: int64 (variables), the variable of each variable copy.
        sources, first_source: as in :mod:`sparkcep.compiler.net.net`.
    """

    original: np.ndarray
    sources: np.ndarray
    first_source: np.ndarray


class WalkOptions(NamedTuple):
    """The question that the walk answers.

    Attributes:
        strategy: STRICT, NEXT or ANY.
        monotone: if a match that continues with a row completes too late, so do matches that continue with later rows.
        report_all: ALL MATCHES.
        shortest: of all matches, the one that completes first.
        ambiguous: a match may be found several times, and is reported once.
        windowed: window 0 bounds the whole match.
        memo: failures are remembered, once a start row has taken as many steps as ``patience`` says.
        unmatched: unmatched rows are reported, too.
        skip, skip_mask: AFTER MATCH SKIP and its variables.
        max_steps, max_matches, patience: the limits of the search.
        ahead: how many rows after a match navigation may read.
        waits: future rows may change which matches are found.
        at_once: early emission: a match is reported with its last row, before other matches of its start row are known.
        behind: a negation looks at rows after the match.
        releases: a row whose window has closed is searched to the end of the window. It waits for rows that NEXT reads only if a
            match may end that far.
    """

    strategy: int
    monotone: bool
    report_all: bool
    shortest: bool
    ambiguous: bool
    windowed: bool
    memo: bool
    patience: int
    unmatched: bool
    skip: int
    skip_mask: int
    max_steps: int
    max_matches: int
    ahead: int
    waits: bool
    at_once: bool
    behind: bool
    releases: bool


class Spans(NamedTuple):
    """Windows, and bounds of completions.

    Attributes:
        windows: int64 (windows, rows), for each window and row the first row outside a window that begins with the row.
        backs: int64 (rows), the first row inside a window that ends with the row.
        ends: see :func:`sparkcep.kernels.match.reachability.completion_ends`; no columns if it is not known.
        latest, alive: see :func:`sparkcep.kernels.match.reachability.latest_ends`; no columns if they are not known.
    """

    windows: np.ndarray
    backs: np.ndarray
    ends: np.ndarray
    latest: np.ndarray
    alive: np.ndarray


class Negated(NamedTuple):
    """Negated variables and groups. Masks have a bit for a variable, and for a group by its name.

    Attributes:
        local: mask of those whose conditions are local to their row.
        late: mask of those whose conditions look at the finished match.
        mixed: mask of late ones that look at their own rows and at rows of the match together.
        nearest: int32 (variables, rows + 1), for local ones: the last row of the occurrence that completes first at or after each
            row, or a row after all rows.
        start: int64 (variables), the node of ``groups`` where a late group begins; -1 if it is not a late group.
        groups: the nets of all late groups as one net.
        ends: their completions by row-local conditions, see :func:`sparkcep.kernels.match.reachability.completion_ends`.
    """

    local: np.int64
    late: np.int64
    mixed: np.int64
    nearest: np.ndarray
    start: np.ndarray
    groups: NetArrays
    ends: np.ndarray


class WalkWork(NamedTuple):
    """Working memory of the walk. With sides, rows of ``hi`` and ``hf`` after those of the input hold the slot values after each
    taken row; the last two are for judging the finished match.

    Attributes:
        frames: int64 (depth, FRAME), the rows of the run.
        opened: int64 (depth, windows), the row that opened each window.
        since: int64 (depth, sides), the last row of each side, or the row after which the side begins; -1 without one.
        best_rows, best_labels: int64 and uint8 (2 * depth), the match that completes first, followed by one that may replace it.
        path: int64 (n, PATH), rows of negated variables that are tested against the finished match.
        within: int64 (n, windows), the rows that opened the windows of the path.
        taken: uint8 (rows), 1 if the row is in a reported match.
        seen: int64 (a power of two, 2), zeros at first: start + 1 and event + 1 of the reported matches, by hash.
    """

    frames: np.ndarray
    opened: np.ndarray
    since: np.ndarray
    best_rows: np.ndarray
    best_labels: np.ndarray
    path: np.ndarray
    within: np.ndarray
    taken: np.ndarray
    seen: np.ndarray


class Output(NamedTuple):
    """The matches. Approximate ones also have the accepting edge of their cheapest way, and the edge of each label.

    Attributes:
        events: int64 (n, 5); (n, 6) for approximate matches.
        labels: uint8, the labels of all matches.
        rows: int64, the row of each label.
        paths: int64, the edge of each label.
    """

    events: np.ndarray
    labels: np.ndarray
    rows: np.ndarray
    paths: np.ndarray


# -- partitions and start rows ----------------------------------------------------------------------------------


@kernel
def walk_partitions(net, plain, sides, copied, how, spans, negated, conditions, rows, scratch, work, opens, state, out, floors):
    """Finds the matches of every partition as events, labels and rows. Returns an outcome as the exact kernel does.

    ``floors`` is None, or for TOP k the score bounds. Then matches that cannot be among the best may be left out.

    After FULL the caller takes the output, and the search resumes. An ``ambiguous`` search compares matches with those of their
    start row. So it searches that row again, with all of the output free; state[S_REPEATS] is 1 if all of it was too small.
    """
    offsets = rows.offsets
    parts = offsets.shape[0] - 1
    part, s = state[S_PART], state[S_START]
    anchored = False  # whether an edge has the anchor ``^``
    for e in range(net.edges.shape[0]):
        anchored = anchored or net.edges[e, E_AT_START] != 0
    state[S_REPEATS] = 0
    outcome = DONE
    while part < parts and outcome == DONE:
        low, high, open_end, limit = bounds(part, offsets, opens, how.ahead)
        while s < high or state[S_BEST] > 0:
            if state[S_BEST] > 0:
                if s >= high or s >= state[S_BEST_END] - 1:
                    # No later start completes earlier, so the match is reported, and the search resumes after it.
                    outcome = report_best(part, work, state, out)
                    s = state[S_BEST_END] if outcome == DONE else state[S_BEST_START]
                    state[S_BEST] = 0
                    if outcome != DONE:
                        break
                    continue
            elif how.unmatched and not _covered(_resume_row(s, state), part, work.taken, state, out):
                outcome = FULL
                break
            # A start row is undecided if future rows may still enter its window.
            stop_all = spans.windows[0, s] if how.windowed else high
            undecided = open_end and stop_all >= high and s >= opens[part, O_CLOSED]
            if state[S_BEST] > 0 and not how.behind:
                # All rows of a match that completes before the best one so far are in the buffer.
                undecided = False
            elif open_end and stop_all > limit and not (how.releases and opens[part, O_PUT_OFF] == 0):
                undecided = True
            if undecided and (s >= limit or how.waits or opens[part, O_PUT_OFF] != 0):
                outcome = SUSPENDED
                if state[S_BEST] > 0:
                    s = state[S_BEST_START]
                    state[S_BEST] = 0
                break
            if undecided:
                stop_all = min(stop_all, limit)
            if state[S_BEST] > 0:
                stop_all = min(stop_all, state[S_BEST_END] - 1)
            own_events, own_labels, own_number = state[S_EVENTS], state[S_LABELS], state[S_NUMBER]
            at_head = not anchored or (s == low and opens[part, O_CUT] == 0)
            # The score bounds open the windows that begin here, before matches are compared with them.
            if floors is not None:
                enter_row(s, floors)
            emitted = opens[part, O_EMITTED] if how.at_once else np.int64(-1)
            begins = _begins(s, stop_all, emitted, low, net, spans, rows) if state[S_ACTIVE] == 0 else 1
            depth, touched = np.int64(-1), begins == 0 and undecided
            if begins > 0:
                outcome, depth, touched = _from_row(
                    s, part, low, high, limit, stop_all, undecided, open_end, at_head, emitted, net, plain, sides, copied, how, spans, negated, conditions, rows,
                    scratch, work, state, out, floors,
                )
            # Early emission goes on with later start rows, and notes where the next call has to begin.
            if touched and how.at_once and (outcome == DONE or outcome == FULL):
                state[S_KEPT] = _resume_row(s, state) + 1
            elif outcome == DONE and depth < 0 and touched:
                outcome = SUSPENDED
            # The matches of this start row are found once more, so the ones written so far are taken back.
            if outcome == FULL and how.ambiguous:
                state[S_REPEATS] = 1 if own_events == 0 else 0
                state[S_EVENTS], state[S_LABELS], state[S_NUMBER] = own_events, own_labels, own_number
                if floors is not None:
                    floors.noted[N_ENTERED] = s + 1
            if outcome != DONE:
                break
            if sides is not None:
                # With sides, the walk finds matches out of preference order.
                sort_matches(own_events, own_number, copied.original, state, out)
            if depth >= 0 and not how.report_all:
                s, outcome = _onward(s, depth, how, scratch.labels, work, state)
                if outcome != DONE:
                    break
            else:
                s += 1
        if how.unmatched and outcome == DONE and not _covered(_resume_row(s, state), part, work.taken, state, out):
            outcome = FULL
        outcome = left(opens, part, outcome, open_end, _resume_row(s, state), state[S_NUMBER], state[S_COVERED])
        if outcome != DONE:
            break
        if opens[part, O_PUT_OFF] == 0:
            opens[part, O_EMITTED] = limit
        state[S_KEPT] = 0
        part += 1
        if part < parts:
            s, number, covered = entered(opens, part)
            state[S_NUMBER] = number
            state[S_COVERED] = covered
        if state[S_ENTRIES] > 0:
            forget(scratch.entries, scratch.table, state)
    state[S_PART] = part
    state[S_START] = s
    return outcome


@inlined
def _resume_row(s, state):
    """The first row where a future match may begin, if the search is at row ``s``."""
    return s if state[S_KEPT] == 0 else state[S_KEPT] - 1


@embedded
def _begins(s, stop_all, emitted, low, net, spans, rows):
    """Whether a match that has not been emitted may begin at row ``s`` and end before ``stop_all``.

    Returns 1 if it may, 0 if only future rows can complete one, -1 if no match begins there.
    """
    if emitted > low and stop_all <= emitted:
        return 0
    if spans.ends.shape[1] > 0 and net.accepts[0] == 0 and spans.ends[0, s] > stop_all:
        return 0 if rows.letters[s] & net.masks[0] != 0 else -1
    if spans.latest.shape[1] > 0 and spans.latest[0, s] <= emitted:
        return np.int64(spans.alive[0, s]) - 1
    return 1


@kernel
def _covered(upto, part, taken, state, out):
    """Reports the unmatched rows before ``upto``. Returns False if the output is full."""
    covered, count = unmatched(state[S_COVERED], upto, taken, out.events, state[S_EVENTS], part, state[S_LABELS])
    state[S_COVERED] = covered
    state[S_EVENTS] = count
    return covered >= upto


@embedded
def _onward(s, depth, how, labels, work, state):
    """The row where the search continues after the match in the frames, by AFTER MATCH SKIP: (row, outcome).

    ``depth`` is the number of the match's rows. The frames are freed.
    """
    frames = work.frames
    to = s + 1
    outcome = DONE
    if depth == 0:
        work.taken[s] = 1  # the row that shows the empty match
    elif how.skip == SKIP_PAST_LAST:
        to = frames[depth, F_ROW] + 1
    elif how.skip != SKIP_NEXT_ROW:
        to = np.int64(-1)
        for d in range(1, depth + 1):
            if (how.skip_mask >> (labels[frames[d, F_ROW]] & 63)) & 1 == 1:
                to = frames[d, F_ROW]
                if how.skip == SKIP_FIRST:
                    break
        if to < 0 or to == s:
            state[S_DETAIL] = state[S_NUMBER]
            return s, SKIP_TO_ABSENT if to < 0 else SKIP_TO_FIRST
    _let_go(depth, frames, labels)
    return to, outcome


@embedded
def _let_go(depth, frames, labels):
    """Removes the labels from the rows in the frames."""
    for d in range(1, depth + 1):
        labels[frames[d, F_ROW]] = UNTAKEN


# -- the walk ---------------------------------------------------------------------------------------------------


@inlined
def _failed(bad, state):
    """Outcome for a condition that has an error, or that took too many steps."""
    state[S_DETAIL] = bad
    return EFFORT if bad == TOO_LONG else ERROR


@inlined
def _spent(state):
    """The steps taken to judge matches since the last call."""
    steps = state[S_STEPS]
    state[S_STEPS] = 0
    return steps


# Arguments of _from_row:
#   limit: a match that ends at or after this row waits for future rows.
#   stop_all: no row from there on is taken.
#   undecided: whether that is so because more rows may arrive.
#   at_head: whether the anchor ``^`` holds.
#   emitted: matches that end before this row have been emitted.
@inlined
def _from_row(
    s, part, low, high, limit, stop_all, undecided, open_end, at_head, emitted, net, plain, sides, copied, how, spans, negated, conditions, rows, scratch, work, state, out, floors,
):
    """Searches the matches that begin at row ``s``. Returns (outcome, rows of the last match reported or -1, whether future rows
    may lead to other matches)."""
    first, edges = net.first, net.edges
    frames, labels = work.frames, scratch.labels
    here = (low, high, s)
    several = sides is not None or how.strategy == ANY  # whether an edge may have several candidates
    outcome, touched, ahead, reported = DONE, False, False, np.int64(-1)  # ahead: NEXT decides, although the window has closed
    patience = how.patience + how.patience * (stop_all - s) // PATIENT_ROWS
    depth, steps, effort = np.int64(0), np.int64(0), np.int64(0)  # effort: steps and rows looked at since the last match
    if state[S_ACTIVE] == 1:
        depth = state[S_DEPTH]
        state[S_ACTIVE] = 0
    else:
        put_frame(depth, np.int64(0), s - 1, first, frames, state)
        if sides is not None:
            fill(work.since[0], -1)
    while True:
        if touched and undecided and not how.report_all:
            outcome = SUSPENDED  # future rows may complete a run, and all later runs are less preferred
            break
        node = frames[depth, F_NODE]
        e = frames[depth, F_EDGE]
        last = frames[depth, F_ROW]
        if plain is not None:
            if how.strategy == NEXT:
                e = turned(e, depth, stop_all, here, net, spans, conditions, rows, scratch, work, state)
                if e < 0:
                    outcome = _failed(e, state)
                    break
        if e == first[node + 1]:
            # ---- Nothing is left to try after this row: the run goes back by one row.
            if depth == 0:
                break
            if plain is not None:  # a failure is remembered if no match was found from here, and no future row can change that
                if how.memo and steps > patience and ((how.at_once and not ahead) or not touched) and frames[depth, F_FOUND] == state[S_FOUND]:
                    write_key(depth, node, last, stop_all, net.live, scratch, work.opened, spans.windows)
                    remember_failure(scratch.key, scratch.entries, scratch.table, state)
            labels[last] = UNTAKEN
            depth -= 1
            frames[depth, F_STALE] = 1
            if not several:
                frames[depth, F_EDGE] += 1
            steps += 1
            effort += 1 + _spent(state)  # judging matches counts, too
            if effort > how.max_steps:
                outcome = EFFORT
                break
            continue
        if not at_head and edges[e, E_AT_START] != 0:
            frames[depth, F_EDGE] += 1
            continue
        if edges[e, E_VAR] < 0:
            # ---- The edge completes the match.
            got = np.int64(0)
            if edges[e, E_AT_END] != 0 and open_end and last + 1 >= limit:
                touched = True  # the anchor ``$`` waits until it is known which row is the last one
            elif last < emitted:
                effort = np.int64(0)  # it has been emitted
            elif open_end and last >= limit:
                touched, undecided, ahead = True, True, True
            elif _may_complete(depth, how, plain, copied, frames) and _may_rank(s, depth, last, state, floors):
                got = judged(e, depth, here, net, sides, how, spans, negated, conditions, rows, scratch, work, state)
            if got < 0:
                outcome = _failed(got, state)
                break
            state[S_FOUND] += np.int64(got == 0 and negated.late != 0)  # not a failure: another run may end in the same way
            if got == 1 and how.shortest:  # only matches that complete earlier are of interest from now on
                stop_all = keep_best(s, depth, stop_all, edges, sides, copied, labels, work, state)
            elif got == 1:
                outcome, got = report_match(s, part, depth, e, edges, plain, sides, copied, how, labels, work, state, out, floors)
                if outcome != DONE:
                    break
            frames[depth, F_EDGE] += 1
            if got == 1:
                frames[depth, F_DONE] = 1
                state[S_FOUND] += 1
                effort, reported = np.int64(0), depth
                if not how.report_all:
                    break
            continue
        # ---- The edge takes a row: the candidates are determined.
        if depth == 0:
            p = s if frames[0, F_NEXT] < 0 else s + 1  # rows before the first one are not skipped
            stop = s + 1
        else:
            p = frames[depth, F_NEXT]
            stop = window_end(e, depth, stop_all, edges, work.opened, spans.windows)
            if p < 0:
                bad = np.int64(0)
                p = last + 1 if p == -1 else FROM - p + 1
                if sides is not None:
                    p -= edges[e, E_SAME]
                    if how.strategy == NEXT:
                        bad = find_blocker(e, depth, stop, here, net, sides, spans, conditions, rows, scratch, work, state)
                if plain is not None:
                    if how.strategy == NEXT:
                        extends = floors is None and not (how.memo and steps > patience)
                        before = depth
                        depth, p, looked, bad = find_accepted(e, p, depth, stop_all, extends, here, net, plain, spans, conditions, rows, scratch, work, state)
                        effort += looked
                        if p >= stop_all and undecided:
                            touched = True
                        if depth > before:
                            continue
                    elif how.strategy == STRICT and open_end and p >= limit:
                        touched = True
                if bad < 0:
                    outcome = _failed(bad, state)
                    break
            if sides is not None:
                if how.strategy == NEXT:
                    stop = min(stop, frames[depth, F_STOP])
            if plain is not None:
                if how.strategy == NEXT:
                    if p >= stop_all or frames[depth, F_FIRST] < 0 or e < frames[depth, F_FIRST]:
                        frames[depth, F_EDGE] += 1
                        continue  # all edges share the candidate row, and this one did not accept it
                    stop = min(stop, p + 1)
                elif how.strategy == STRICT:
                    stop = min(stop, last + 2)
        p, got, looked, cut = take_candidate(
            e, p, stop, depth, stop_all, emitted, steps > patience, here, net, plain, sides, how, spans, negated, conditions, rows, scratch, work, state, floors
        )
        effort = np.int64(0) if cut >= 2 else effort + looked
        if got < 0:
            outcome = _failed(got, state)
            break
        if undecided and (cut & 1 == 1 or (got == 0 and depth > 0 and (last + 1 if plain is not None and how.strategy == STRICT else p) >= stop_all)):
            touched = True  # under STRICT only the next row could be taken
        if got == 0:
            frames[depth, F_EDGE] += 1
            if several:
                frames[depth, F_NEXT] = -1
            continue
        if several:
            frames[depth, F_NEXT] = p + 1
        if sides is not None:
            _note_sides(e, depth, p, edges, work.since)
        depth += 1
        put_frame(depth, edges[e, E_TARGET], p, first, frames, state)
    if outcome == FULL and not how.ambiguous:
        state[S_ACTIVE] = 1
        state[S_DEPTH] = depth
    elif outcome != DONE:
        _let_go(depth, frames, labels)
    return outcome, reported, touched and undecided


@embedded
def _note_sides(e, depth, row, edges, since):
    """Notes the last row of each side for the frame above. A side that begins gets the last row of the side that the edge
    continues."""
    behind = since[depth, edges[e, E_SIDE]]
    for side in range(since.shape[1]):
        if (edges[e, E_HAVE] >> side) & 1 == 1:
            since[depth + 1, side] = row
        elif (edges[e, E_BEGIN] >> side) & 1 == 1:
            since[depth + 1, side] = behind
        else:
            since[depth + 1, side] = since[depth, side]


# -- finished matches -------------------------------------------------------------------------------------------


@embedded
def _may_rank(s, depth, last, state, floors):
    """Whether the score of the match in the frames may be among those asked for."""
    if floors is not None:
        if not ranks(s, depth, last, floors):
            state[S_FOUND] += 1
            return False
    return True


@embedded
def _may_complete(depth, how, plain, copied, frames):
    """Whether a match that is complete here is asked for. An empty one of ALL MATCHES is not, nor is a repeated one."""
    if depth == 0 and how.report_all:
        return False
    if plain is not None:
        if how.ambiguous and copied.original.shape[0] > 0:
            return True  # for approximate matches another way to complete may be preferred
    return frames[depth, F_DONE] == 0


# -- failures remembered ----------------------------------------------------------------------------------------
