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

from sparkcep.compiler.net.net import (
    E_AT_END,
    E_AT_START,
    E_BEGIN,
    E_BLOCKERS,
    E_BLOCKERS_END,
    E_CHECKS,
    E_CHECKS_END,
    E_COST,
    E_HAVE,
    E_LABEL,
    E_NOT,
    E_OPEN,
    E_PASSED,
    E_SAME,
    E_SIDE,
    E_TARGET,
    E_VAR,
)
from sparkcep.kernels.common.cursor import bounds, entered, left, put_event, unmatched
from sparkcep.kernels.common.hash_table import BASIS, enter, fill, forget, mixed, place_of
from sparkcep.kernels.common.layout import (
    ANY,
    DONE,
    E_ACCEPT,
    E_LABELS,
    E_NUMBER,
    E_ROWS,
    EFFORT,
    ERROR,
    FULL,
    NEVER,
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
    TOO_MANY,
)
from sparkcep.kernels.frontier.traceback import derived_before
from sparkcep.kernels.jit.cache import allocating, embedded, inlined, kernel
from sparkcep.kernels.topk.score_bounds import N_ENTERED, agrees, enter_row, enter_score, may_rank, ranks
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
    group_between,
    holds_finally,
    map_row,
    open_windows,
    replay,
    scanned,
    timed,
    window_end,
)
from sparkcep.kernels.vm.vm import EXTEND, MAP, SEARCH, UNTAKEN

F_STOP = F_FIRST  # with sides, whose edges have candidates of their own: the row after the last candidate

# Remembering costs about as much as a few steps, and most start rows need no memo. So it begins once a start row has taken
# ``patience`` steps, and as many again for each 64 rows in reach.
PATIENT_ROWS = 64
# A condition with DISTINCT compares the match's rows. 64 comparisons are counted as one step.
DISTINCT_SHIFT = 6
# Skipping a row by its letters costs about an eighth of a step.
PASSED_SHIFT = 3


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
    """Arguments of patterns without ``&``. All but ``distinct`` are for approximate matches, and empty for exact ones.

    Attributes:
        distinct: uint8 (variables), 1 if the condition looks at all pairs of the match's rows, which count as steps.
        original: int64 (variables), the variable of each variable copy.
        sources, first_source: as in :mod:`sparkcep.compiler.net.net`.
    """

    distinct: np.ndarray
    original: np.ndarray
    sources: np.ndarray
    first_source: np.ndarray


class SideArrays(NamedTuple):
    """Arguments of patterns with ``&``.

    Attributes:
        checks, blockers: as in :mod:`sparkcep.compiler.net.net`.
        across: mask of the variables whose conditions wait for the finished match.
    """

    checks: np.ndarray
    blockers: np.ndarray
    across: np.int64


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
        ends: see :func:`completion_ends`; no columns if it is not known.
        latest, alive: see :func:`latest_ends`; no columns if they are not known.
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
        mixed: mask of late ones that look at their own rows and at rows of others together.
        nearest: int32 (variables, rows + 1), for local ones: the last row of the occurrence that completes first at or after each
            row, or a row after all rows.
        start: int64 (variables), the node of ``groups`` where a late group begins; -1 if it is not a late group.
        groups: the nets of all late groups as one net.
        ends: their completions by row-local conditions, see :func:`completion_ends`.
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


@allocating
def completion_ends(net, letters, offsets, strategy, exact, sided, ends):
    """Fills ``ends`` with the row after the earliest completion, once a row was taken at a node, or NEVER.

    Only row-local conditions are used.

    Args:
        net: :class:`NetArrays`.
        letters, offsets: the rows, as in :mod:`sparkcep.kernels.match.backtrack`.
        strategy: STRICT, NEXT or ANY.
        exact: no condition looks at the match.
        sided: a row may be taken several times, and the end is a lower bound.
        ends: int64 (nodes, rows), output. For node 0: if the match begins at the row.
    """
    first, edges, masks, accepts = net.first, net.edges, net.masks, net.accepts
    nodes = masks.shape[0]
    ahead = np.empty(nodes, dtype=np.int64)
    for part in range(offsets.shape[0] - 1):
        low = offsets[part]
        high = offsets[part + 1]
        fill(ahead, NEVER)
        for q in range(high - 1, low - 1, -1):
            for node in range(1, nodes):
                if accepts[node] == 1 or (accepts[node] == 2 and q + 1 == high):
                    ends[node, q] = q + 1
                else:
                    ends[node, q] = ahead[node]
            # A row may serve several sides. The loop runs until the ends no longer change.
            changed = sided
            while changed:
                changed = False
                for node in range(1, nodes):
                    for e in range(first[node], first[node + 1]):
                        v = edges[e, E_VAR]
                        if v >= 0 and edges[e, E_SAME] == 1 and (letters[q] >> v) & 1 == 1 and ends[edges[e, E_TARGET], q] < ends[node, q]:
                            ends[node, q] = ends[edges[e, E_TARGET], q]
                            changed = True
            for node in range(nodes):
                best = NEVER
                any_edge = False
                stays = strategy != STRICT  # whether the row may be ignored
                if letters[q] & masks[node] != 0:
                    for e in range(first[node], first[node + 1]):
                        v = edges[e, E_VAR]
                        if v >= 0 and (letters[q] >> v) & 1 == 1:
                            any_edge = True
                            best = min(best, ends[edges[e, E_TARGET], q])
                            if strategy == NEXT and exact and edges[e, E_PASSED] == 0:
                                stays = False
                if node == 0:
                    ends[0, q] = best
                elif not stays:
                    ahead[node] = best
                elif any_edge:
                    ahead[node] = min(ahead[node], best)


@allocating
def latest_ends(net, letters, offsets, strict, unsure, latest, alive):
    """Fills ``latest`` with the row after the last completion, once a row was taken at a node, or -1.

    Both outputs are upper bounds: only row-local conditions are used, and unless ``strict`` any row may be ignored.

    Args:
        net: :class:`NetArrays`.
        letters, offsets: the rows, as in :mod:`sparkcep.kernels.match.backtrack`.
        strict: strict contiguity, where no row may be ignored.
        unsure: how many last rows of a partition are not certain yet.
        latest: int64 (nodes, rows), output. For node 0: if the match begins at the row.
        alive: uint8 (nodes, rows), output: whether future rows may continue the match from there.
    """
    first, edges, masks, accepts = net.first, net.edges, net.masks, net.accepts
    nodes = masks.shape[0]
    ahead = np.empty(nodes, dtype=np.int64)
    goes = np.empty(nodes, dtype=np.uint8)
    for part in range(offsets.shape[0] - 1):
        fill(ahead, -1)
        for node in range(nodes):
            goes[node] = 1 if masks[node] != 0 else 0
        for q in range(offsets[part + 1] - 1, offsets[part] - 1, -1):
            for node in range(1, nodes):
                latest[node, q] = max(ahead[node], q + 1 if accepts[node] == 1 else -1)
                alive[node, q] = goes[node]
            changed = True  # a row that serves several sides is taken again
            while changed:
                changed = False
                for node in range(nodes):
                    best, lives = np.int64(-1), np.uint8(0)
                    if letters[q] & masks[node] != 0:
                        for e in range(first[node], first[node + 1]):
                            v, target = edges[e, E_VAR], edges[e, E_TARGET]
                            if v >= 0 and (letters[q] >> v) & 1 == 1:
                                best, lives = max(best, latest[target, q]), max(lives, alive[target, q])
                                if node > 0 and edges[e, E_SAME] == 1 and (latest[target, q] > latest[node, q] or alive[target, q] > alive[node, q]):
                                    latest[node, q] = max(latest[node, q], latest[target, q])
                                    alive[node, q] = max(alive[node, q], alive[target, q])
                                    changed = True
                    if node == 0:
                        latest[0, q], alive[0, q] = best, lives
                    elif strict:
                        ahead[node] = best
                        if q < offsets[part + 1] - unsure:
                            goes[node] = lives
                    else:
                        ahead[node] = max(ahead[node], best)


# -- partitions and start rows ----------------------------------------------------------------------------------


@kernel
def walk_partitions(net, plain, sides, how, spans, negated, conditions, rows, scratch, work, opens, state, out, floors):
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
                    outcome = _report_best(part, work, state, out)
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
                    s, part, low, high, limit, stop_all, undecided, open_end, at_head, emitted, net, plain, sides, how, spans, negated, conditions, rows,
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
                _sort(own_events, own_number, state, out)
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


@embedded
def _put_frame(depth, node, row, first, frames, state):
    """Writes a frame that has not tried any edge yet."""
    frames[depth, F_NODE] = node
    frames[depth, F_ROW] = row
    frames[depth, F_EDGE] = first[node]
    frames[depth, F_NEXT] = -1
    frames[depth, F_FOUND] = state[S_FOUND]
    frames[depth, F_DONE] = 0
    frames[depth, F_STALE] = 0


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
    s, part, low, high, limit, stop_all, undecided, open_end, at_head, emitted, net, plain, sides, how, spans, negated, conditions, rows, scratch, work, state, out, floors,
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
        _put_frame(depth, np.int64(0), s - 1, first, frames, state)
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
                e = _turned(e, depth, stop_all, here, net, spans, conditions, rows, scratch, work, state)
                if e < 0:
                    outcome = _failed(e, state)
                    break
        if e == first[node + 1]:
            # ---- Nothing is left to try after this row: the run goes back by one row.
            if depth == 0:
                break
            if plain is not None:  # a failure is remembered if no match was found from here, and no future row can change that
                if how.memo and steps > patience and ((how.at_once and not ahead) or not touched) and frames[depth, F_FOUND] == state[S_FOUND]:
                    _key(depth, node, last, stop_all, net.live, scratch, work.opened, spans.windows)
                    _remember(scratch.key, scratch.entries, scratch.table, state)
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
            elif _may_complete(depth, how, plain, frames) and _may_rank(s, depth, last, state, floors):
                got = _judged(e, depth, here, net, sides, how, spans, negated, conditions, rows, scratch, work, state)
            if got < 0:
                outcome = _failed(got, state)
                break
            if got == 1 and how.shortest:  # only matches that complete earlier are of interest from now on
                stop_all = _keep_best(s, depth, stop_all, edges, sides, labels, work, state)
            elif got == 1:
                outcome, got = _report(s, part, depth, e, edges, plain, sides, how, labels, work, state, out, floors)
                if outcome != DONE:
                    break
            frames[depth, F_EDGE] += 1
            if got == 1:
                frames[depth, F_DONE] = 1
                state[S_FOUND] += 1
                effort = np.int64(0)
                reported = depth
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
                        bad = _find_blocker(e, depth, stop, here, net, sides, spans, conditions, rows, scratch, work, state)
                if plain is not None:
                    if how.strategy == NEXT:
                        extends = floors is None and not (how.memo and steps > patience)
                        before = depth
                        depth, p, looked, bad = _find_accepted(e, p, depth, stop_all, extends, here, net, plain, spans, conditions, rows, scratch, work, state)
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
        p, got, looked, cut = _take(
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
        _put_frame(depth, edges[e, E_TARGET], p, first, frames, state)
    if outcome == FULL and not how.ambiguous:
        state[S_ACTIVE] = 1
        state[S_DEPTH] = depth
    elif outcome != DONE:
        _let_go(depth, frames, labels)
    return outcome, reported, touched and undecided


@embedded
def _find_accepted(e, p, depth, stop_all, extends, here, net, plain, spans, conditions, rows, scratch, work, state):
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
                _put_frame(depth, node, r, first, frames, state)
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
def _turned(e, depth, stop_all, here, net, spans, conditions, rows, scratch, work, state):
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
def _take(e, p, stop, depth, stop_all, emitted, patient, here, net, plain, sides, how, spans, negated, conditions, rows, scratch, work, state, floors):
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
            if crossed != 0 and depth > 0 and not _none_between(crossed, work.frames[depth, F_ROW], p, negated.nearest):
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
        open_windows(e, depth, p, edges, work.opened)
        if plain is not None:
            # The memo prunes: an equal run has failed.
            if how.memo and patient:
                _key(depth + 1, target, p, stop_all, net.live, scratch, work.opened, spans.windows)
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
def _may_complete(depth, how, plain, frames):
    """Whether a match that is complete here is asked for. An empty one of ALL MATCHES is not, nor is a repeated one."""
    if depth == 0 and how.report_all:
        return False
    if plain is not None:
        if how.ambiguous and plain.first_source.shape[0] > 0:
            return True  # for approximate matches another way to complete may be preferred
    return frames[depth, F_DONE] == 0


@embedded
def _none_between(variables, after, before, nearest):
    """Whether no occurrence of the mask's row-local negated variables and groups lies strictly between two rows."""
    v = 0
    while variables != 0:
        if variables & 1 == 1 and before > after + 1 and nearest[v, after + 1] < before:
            return False
        variables >>= 1
        v += 1
    return True


@embedded
def _judged(e, depth, here, net, sides, how, spans, negated, conditions, rows, scratch, work, state):
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
            if not _none_between(crossed & negated.local, after, row, negated.nearest):
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
        if not _none_between((np.int64(1) << v) & negated.local, after, row, negated.nearest):
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


@embedded
def _write(depth, at, edges, sides, frames, labels, out_rows, out_labels):
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
        i = end
        while i > at and out_rows[i - 1] == row and out_labels[i - 1] & 63 > label & 63:
            i -= 1
        if i > at and out_rows[i - 1] == row and out_labels[i - 1] & 63 == label & 63:
            continue
        for j in range(end, i, -1):
            out_rows[j] = out_rows[j - 1]
            out_labels[j] = out_labels[j - 1]
        out_rows[i] = row
        out_labels[i] = label
        end += 1
    return end - at


@embedded
def _report(s, part, depth, e, edges, plain, sides, how, labels, work, state, out, floors):
    """Writes the match in the frames, which edge ``e`` completes: (outcome, 1, or 0 if it had been found before)."""
    events, frames = out.events, work.frames
    count, at = state[S_EVENTS], state[S_LABELS]
    if count == events.shape[0] or at + depth > out.labels.shape[0]:
        state[S_DETAIL] = depth
        return FULL, np.int64(0)
    size = _write(depth, at, edges, sides, frames, labels, out.rows, out.labels)
    approximate = False
    if plain is not None:
        approximate = plain.first_source.shape[0] > 0
        if approximate:
            for d in range(depth):
                out.paths[at + d] = frames[d, F_EDGE]
    if how.ambiguous:
        h = _place(at, size, s + 1, plain, work.seen, out)
        if work.seen[h, 1] != 0 and work.seen[h, 0] == s + 1:
            # Not a failure: after other rows it leads to other matches.
            state[S_FOUND] += 1
            if plain is not None:
                if approximate:
                    _prefer(work.seen[h, 1] - 1, at, size, e, edges, plain, out)
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
def _place(at, size, start, plain, seen, out):
    """Cell of ``seen`` with the match written at ``at``, or the free cell for it. Cells of other start rows count as free."""
    h = BASIS
    for i in range(at, at + size):
        h = mixed(h, out.rows[i] * 64 + _variable(out.labels[i], plain))
    mask = np.uint64(seen.shape[0] - 1)
    h = h & mask
    while seen[h, 1] != 0 and seen[h, 0] == start:
        e = seen[h, 1] - 1
        other = out.events[e, E_LABELS]
        same = out.events[e, E_ROWS] == size
        i = 0
        while same and i < size:
            same = out.rows[other + i] == out.rows[at + i] and _variable(out.labels[other + i], plain) == _variable(out.labels[at + i], plain)
            i += 1
        if same:
            return h
        h = (h + np.uint64(1)) & mask
    return h


@embedded
def _variable(label, plain):
    """The variable of a label. For a variable copy it is the original."""
    v = np.int64(label & 63)
    if plain is not None:
        if plain.original.shape[0] > 0:
            v = plain.original[v]
    return v


@kernel
def _prefer(known, at, size, e, edges, plain, out):
    """Replaces labels and path of a reported approximate match by those of the equal match at ``at``, if that is cheaper or its
    choices are preferred."""
    before, base = out.events[known, E_ACCEPT], out.events[known, E_LABELS]
    if edges[e, E_COST] > edges[before, E_COST]:
        return
    if edges[e, E_COST] == edges[before, E_COST] and not derived_before(out.paths, at, e, base, before, size, plain.sources, plain.first_source):
        return
    out.events[known, E_ACCEPT] = e
    for d in range(size):
        out.labels[base + d] = out.labels[at + d]
        out.paths[base + d] = out.paths[at + d]


@embedded
def _keep_best(s, depth, stop_all, edges, sides, labels, work, state):
    """Keeps the match in the frames if no match completes earlier. Returns the new bound: better matches lie before it."""
    last = work.frames[depth, F_ROW]
    if sides is None:
        # Matches are found in preference order, so only one that completes earlier replaces the best. Its first row is not bounded.
        if state[S_BEST] > 0 and last + 1 >= state[S_BEST_END]:
            return stop_all
        size = _write(depth, np.int64(0), edges, sides, work.frames, labels, work.best_rows, work.best_labels)
        stop_all = min(stop_all, last)
    else:
        stop_all = min(stop_all, last + 1)
        half = work.best_rows.shape[0] // 2
        size = _write(depth, half, edges, sides, work.frames, labels, work.best_rows, work.best_labels)
        if state[S_BEST] > 0 and state[S_BEST_END] == last + 1 and not _before(half, size, 0, state[S_BEST], work.best_rows, work.best_labels):
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
def _report_best(part, work, state, out):
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
def _before(one, size, other, others, rows, labels):
    """Whether a sequence of (row, label) pairs is preferred to another: the lexicographically earlier one, or the longer one if it
    extends the other."""
    for i in range(min(size, others)):
        if rows[one + i] != rows[other + i]:
            return rows[one + i] < rows[other + i]
        if labels[one + i] & 63 != labels[other + i] & 63:
            return labels[one + i] & 63 < labels[other + i] & 63
    return size > others


@allocating
def _sort(low, number, state, out):
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
                    j < end and _before(source[j, E_LABELS], source[j, E_ROWS], source[i, E_LABELS], source[i, E_ROWS], out.rows, out.labels)
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


# -- conditions, and values of sides ----------------------------------------------------------------------------


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
def _find_blocker(e, depth, stop, here, net, sides, spans, conditions, rows, scratch, work, state):
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


# -- failures remembered ----------------------------------------------------------------------------------------


@kernel
def _remember(key, entries, table, state):
    """Marks a key as failed. A full memo is emptied first, so memory stays bounded."""
    if state[S_ENTRIES] == entries.shape[0]:
        forget(entries, table, state)
    h = place_of(key, entries, table)
    if table[h] == 0:
        enter(key, h, entries, table, state)


@kernel
def _key(depth, node, row, stop, live, scratch, opened, windows):
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
