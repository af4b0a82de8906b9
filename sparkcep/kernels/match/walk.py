"""Matches whose rows need not be adjacent, by depth-first search over the net.

SASE+ (SIGMOD 2008, sections 3 and 5). A run is a path of the search: its rows lie in the frames, its computation
state in the slots of :mod:`sparkcep.kernels.vm.vm`. In place of the paper's runs side by side over a shared
versioned buffer the search goes depth first in preference order, which needs memory for one run only and gives matches in
their order; what sharing saves the paper, two tables save here (docs/adr/0004):

``ends``   for each (node, row) the end of the earliest completion from there by row-local conditions: a branch that
           cannot complete inside its window is never entered. Exact where no condition looks at the match.
memo       (node, row, window, values of the match still needed) that led to no match: equivalent runs are merged,
           the paper's 5.2.2, on failure.

The sides of ``p & q`` are searched side by side in one run (docs/adr/0005): rows ascend, and a row that serves both sides is taken
twice. A condition that stays in its side is evaluated when its row is taken. One that looks across ``&``, a negation, and (SKIP
TILL NEXT) that a row passed over could not have been taken by such a condition, wait for the finished match and are judged by it.

Plain patterns and those with sides share the walk and differ in few steps. Exactly one of the arguments ``plain`` and ``sides`` is
not None, and numba drops the steps of the other one when it compiles, so that neither pays for the other.

Arrays that other searches have too are described in :mod:`sparkcep.kernels.match.backtrack`.
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

F_STOP = F_FIRST  # with sides, whose edges have candidates of their own: the row behind the last one

# Remembering costs about as much as a few steps, and most start rows need none: it begins when a start row has taken
# ``patience`` steps, and as many again for each 64 rows in reach.
PATIENT_ROWS = 64
# A condition with DISTINCT compares the match's rows; 64 such comparisons are counted as one step.
DISTINCT_SHIFT = 6
# A row that is passed over by its letters costs about an eighth of a step.
PASSED_SHIFT = 3


class NetArrays(NamedTuple):
    """The net: ``first``, ``edges``, ``masks`` as in automaton.net, ``accepts`` uint8 (nodes), ``live`` uint8
    (nodes, slots): slots that decide a node's future; ``alone`` int64 (nodes): a node's only edge whose condition looks at the
    match, -1 where there is none, several, or a group's window that a row opens or lies in; ``local`` int64 (nodes): variables of
    the other edges; ``valued`` uint8 (nodes): 1 where any slot is needed."""

    first: np.ndarray
    edges: np.ndarray
    masks: np.ndarray
    accepts: np.ndarray
    live: np.ndarray
    alone: np.ndarray
    local: np.ndarray
    valued: np.ndarray


class Plain(NamedTuple):
    """Of patterns without ``&``: ``distinct`` uint8 (variables): 1 where the condition looks at all pairs of the match's rows,
    which count as steps. Of approximate matches: ``original`` int64 (variables): the variable each is a copy of; ``sources``,
    ``first_source`` as in automaton.net. These are empty for exact ones."""

    distinct: np.ndarray
    original: np.ndarray
    sources: np.ndarray
    first_source: np.ndarray


class SideArrays(NamedTuple):
    """Of patterns with ``&``: ``checks``, ``blockers`` as in automaton.net; ``across``: mask of the variables whose conditions wait
    for the finished match."""

    checks: np.ndarray
    blockers: np.ndarray
    across: np.int64


class WalkOptions(NamedTuple):
    """What is asked. ``strategy``: STRICT, NEXT or ANY; ``monotone``: where a match that goes on with a row completes too late, so
    do those that go on with later rows; ``report_all``: ALL MATCHES; ``shortest``: of all the one that completes first;
    ``ambiguous``: a match may be found several times, and is reported once; ``windowed``: window 0 bounds the whole match;
    ``memo``: failures are remembered, from so many steps on as ``patience`` says; ``unmatched``: rows in no match are reported,
    too; ``skip``, ``skip_mask``: AFTER MATCH SKIP and its variables; ``ahead``: by how many rows navigation may leave a match;
    ``waits``: rows to come may decide what is found;
    ``at_once``: a match is reported with its last row, whatever else begins where it does; ``behind``: a negation looks at rows
    after the last one of a match; ``releases``: a row whose window has ended is searched to the end of it, and waits for rows that
    NEXT reads only where a match may end that far."""

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
    """``windows`` int64 (windows, rows): for each window and row the first row outside a window that begins with it; ``backs``
    int64 (rows): the first row inside a window that ends with it; ``ends``, ``latest`` and ``alive``: see ``completion_ends`` and
    ``latest_ends``, without columns where there are none."""

    windows: np.ndarray
    backs: np.ndarray
    ends: np.ndarray
    latest: np.ndarray
    alive: np.ndarray


class Negated(NamedTuple):
    """Masks of the negated variables, and of groups by their names: ``local``: whose conditions are local to their row; ``late``:
    whose conditions look at the finished match; ``mixed``: late ones that look at their own rows and at others' together.
    ``nearest`` int32 (variables, rows + 1): of local ones, the last row of what is complete first from each row on, or a row behind
    all.

    Of late groups ``start`` int64 (variables): the node of ``groups``, all their nets in one, where each begins, -1 for what is no
    late group; ``ends``:
    their completions by row-local conditions, see ``completion_ends``."""

    local: np.int64
    late: np.int64
    mixed: np.int64
    nearest: np.ndarray
    start: np.ndarray
    groups: NetArrays
    ends: np.ndarray


class WalkWork(NamedTuple):
    """``frames`` int64 (depth, FRAME); ``opened`` int64 (depth, windows): row that opened each window; ``since`` int64 (depth,
    sides): last row of each side, or before it, -1 without one; ``best_rows`` int64, ``best_labels`` uint8 (2 * depth): the match
    that completes first, and behind it one that may take its place; ``path`` int64 (n, PATH): rows of negated variables that are
    held against the finished match, and ``within`` int64 (n, windows):
    the rows that opened their windows; ``taken`` uint8 (rows): in a reported match; ``seen`` int64 (a power of two, 2), zeros:
    start + 1 and event + 1 of the matches reported, by hash. With sides, rows of ``hi`` and ``hf`` behind those of the input hold
    the slot values after each taken row; the last two are for judging the finished match."""

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
    """``events`` int64 (n, 5), for approximate matches (n, 6) with the accepting edge of the way at least cost; ``labels`` uint8
    and ``rows`` int64 of the matches, and of approximate ones in ``paths`` int64 the edge of each label."""

    events: np.ndarray
    labels: np.ndarray
    rows: np.ndarray
    paths: np.ndarray


@allocating
def completion_ends(net, letters, offsets, strategy, exact, sided, ends):
    """Fills ``ends`` int64 (nodes, rows): the row behind the earliest completion after the row was taken at the node (node 0:
    at which the match begins), NEVER without one. Row-local conditions only; ``exact``: there are no others. ``sided``: a row may
    be taken several times, and the end is a lower bound."""
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
            # a row that serves several sides: as many passes as it may take them
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
    """Fills ``latest`` int64 (nodes, rows): the row behind the last completion after the row was taken at the node (node 0: at
    which the match begins), -1 without one; and ``alive`` uint8: whether rows to come may go on from there. By row-local conditions
    only, of which so many last rows are ``unsure``, and but for ``strict`` any row may be ignored: upper bounds."""
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
    """Matches of every partition as events, labels and rows; returns an outcome as the exact kernel does. ``floors``: None, or of
    TOP k what is known of scores, and then matches that cannot be among the best may be left out.

    With FULL the output is given away and the search goes on where it stands. An ``ambiguous`` search compares matches with those
    of their start row, so it begins that row anew, with all of the output; with state[S_REPEATS] 1 all of it was too small."""
    offsets = rows.offsets
    parts = offsets.shape[0] - 1
    part, s = state[S_PART], state[S_START]
    anchored = False  # whether an edge asks for ``^``
    for e in range(net.edges.shape[0]):
        anchored = anchored or net.edges[e, E_AT_START] != 0
    state[S_REPEATS] = 0
    outcome = DONE
    while part < parts and outcome == DONE:
        low, high, open_end, limit = bounds(part, offsets, opens, how.ahead)
        while s < high or state[S_BEST] > 0:
            if state[S_BEST] > 0:
                if s >= high or s >= state[S_BEST_END] - 1:
                    # no later start completes earlier: the match is reported, and the search goes on behind it
                    outcome = _report_best(part, work, state, out)
                    s = state[S_BEST_END] if outcome == DONE else state[S_BEST_START]
                    state[S_BEST] = 0
                    if outcome != DONE:
                        break
                    continue
            elif how.unmatched and not _covered(_resume_row(s, state), part, work.taken, state, out):
                outcome = FULL
                break
            stop_all = spans.windows[0, s] if how.windowed else high
            undecided = open_end and stop_all >= high and s >= opens[part, O_CLOSED]
            if state[S_BEST] > 0 and not how.behind:
                undecided = False  # one that completes before the best match so far has all its rows here
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
            if touched and how.at_once and (outcome == DONE or outcome == FULL):
                state[S_KEPT] = _resume_row(s, state) + 1
            elif outcome == DONE and depth < 0 and touched:
                outcome = SUSPENDED
            if outcome == FULL and how.ambiguous:
                state[S_REPEATS] = 1 if own_events == 0 else 0
                state[S_EVENTS], state[S_LABELS], state[S_NUMBER] = own_events, own_labels, own_number
                if floors is not None:
                    floors.noted[N_ENTERED] = s + 1
            if outcome != DONE:
                break
            if sides is not None:
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
    """The first row at which a match to come may begin, where the search is at row ``s``."""
    return s if state[S_KEPT] == 0 else state[S_KEPT] - 1


@embedded
def _begins(s, stop_all, emitted, low, net, spans, rows):
    """1 where a match may begin at row ``s`` that ends before ``stop_all`` and is not told; 0 where only rows to come may complete
    one; -1 where none begins."""
    if emitted > low and stop_all <= emitted:
        return 0
    if spans.ends.shape[1] > 0 and net.accepts[0] == 0 and spans.ends[0, s] > stop_all:
        return 0 if rows.letters[s] & net.masks[0] != 0 else -1
    if spans.latest.shape[1] > 0 and spans.latest[0, s] <= emitted:
        return np.int64(spans.alive[0, s]) - 1
    return 1


@kernel
def _covered(upto, part, taken, state, out):
    """Reports the rows before ``upto`` that are in no match; False where the output is full."""
    covered, count = unmatched(state[S_COVERED], upto, taken, out.events, state[S_EVENTS], part, state[S_LABELS])
    state[S_COVERED] = covered
    state[S_EVENTS] = count
    return covered >= upto


@embedded
def _onward(s, depth, how, labels, work, state):
    """Where the search goes on behind the match in the frames, of so many rows: (row, outcome). The frames are let go."""
    frames = work.frames
    to = s + 1
    outcome = DONE
    if depth == 0:
        work.taken[s] = 1  # the row an empty match is shown at
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
    """Takes the labels off the rows in the frames."""
    for d in range(1, depth + 1):
        labels[frames[d, F_ROW]] = UNTAKEN


# -- the walk ---------------------------------------------------------------------------------------------------


@embedded
def _put_frame(depth, node, row, first, frames, state):
    """Writes a frame from which nothing was tried yet."""
    frames[depth, F_NODE] = node
    frames[depth, F_ROW] = row
    frames[depth, F_EDGE] = first[node]
    frames[depth, F_NEXT] = -1
    frames[depth, F_FOUND] = state[S_FOUND]
    frames[depth, F_DONE] = 0
    frames[depth, F_STALE] = 0


@inlined
def _failed(bad, state):
    """A condition has an error, or took too many steps."""
    state[S_DETAIL] = bad
    return EFFORT if bad == TOO_LONG else ERROR


@inlined
def _spent(state):
    """The steps that were taken to judge matches since they were asked for."""
    steps = state[S_STEPS]
    state[S_STEPS] = 0
    return steps


@inlined
def _from_row(
    s, part, low, high, limit, stop_all, undecided, open_end, at_head, emitted, net, plain, sides, how, spans, negated, conditions, rows, scratch, work, state, out, floors,
):
    """Walks through the matches that begin at row ``s``: (outcome, rows of the last match reported or -1, whether rows to come may
    lead to others). ``stop_all``: no row from there on is taken; ``undecided``: because more may come; ``at_head``: ``^`` holds;
    ``emitted``: what ends before this row is reported already. A match that ends from ``limit`` on waits for rows to come."""
    first, edges = net.first, net.edges
    frames, labels = work.frames, scratch.labels
    here = (low, high, s)
    several = sides is not None or how.strategy == ANY  # an edge may have several candidates
    outcome, touched, ahead, reported = DONE, False, False, np.int64(-1)  # ahead: NEXT decides, though the window has ended
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
            outcome = SUSPENDED  # rows to come may complete a run, and all that follow are less preferred
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
            # ---- nothing is left to try behind this row
            if depth == 0:
                break
            if plain is not None:
                if how.memo and steps > patience and ((how.at_once and not ahead) or not touched) and frames[depth, F_FOUND] == state[S_FOUND]:
                    _key(depth, node, last, stop_all, net.live, scratch, work.opened, spans.windows)
                    _remember(scratch.key, scratch.entries, scratch.table, state)
            labels[last] = UNTAKEN
            depth -= 1
            frames[depth, F_STALE] = 1
            if not several:
                frames[depth, F_EDGE] += 1
            steps += 1
            effort += 1 + _spent(state)
            if effort > how.max_steps:
                outcome = EFFORT
                break
            continue
        if not at_head and edges[e, E_AT_START] != 0:
            frames[depth, F_EDGE] += 1
            continue
        if edges[e, E_VAR] < 0:
            # ---- complete?
            got = np.int64(0)
            if edges[e, E_AT_END] != 0 and open_end and last + 1 >= limit:
                touched = True
            elif last < emitted:
                effort = np.int64(0)  # told before
            elif open_end and last >= limit:
                touched, undecided, ahead = True, True, True
            elif _may_complete(depth, how, plain, frames) and _may_rank(s, depth, last, state, floors):
                got = _judged(e, depth, here, net, sides, how, spans, negated, conditions, rows, scratch, work, state)
            if got < 0:
                outcome = _failed(got, state)
                break
            if got == 1 and how.shortest:
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
        # ---- take a row: which may it be?
        if depth == 0:
            p = s if frames[0, F_NEXT] < 0 else s + 1  # there is no gap before the first row
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
                        continue
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
            touched = True  # of neighbours only the next row could be taken
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
    """Notes in the frame the first row from ``p`` on that an edge of its node accepts under SKIP TILL NEXT, and that edge: (depth,
    row, effort, 0 or an error). ``extends``: rows of a Kleene variable may be taken in one go, and then the depth is that of the
    last one."""
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
        # up to the first row that another edge accepts by its letters, one call searches
        until = p
        while until < stop_all and letters[until] & net.local[node] == 0:
            until += 1
        u = edges[f, E_VAR]
        # a Kleene variable's rows up to there are taken in one go
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
    """Whether an edge accepts a row behind the rows taken, in the windows of its groups: 1, 0 or an error."""
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
    """The edge that is tried next, or an error. All edges up to the end of a node, or up to one that completes the match, are tried
    at one row; then the next row is their turn, if this one may be ignored."""
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
    """Whether the run may ignore the row at which the edges of its node were tried, and go on to the next one: 1, 0 or an error.
    The edges before the first one that accepted it did not accept it."""
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
    """Takes the first row from ``p`` to before ``stop`` that the edge accepts: (row, 1, or 0 where there is none, or an error;
    effort; 1 where rows were passed over because their completion lies behind ``stop_all`` or is not there yet, and 2 where they
    were because it is told). ``patient``: failures are remembered by now."""
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
            p = max(p + 1, emitted)  # what ends by then is told, from whichever row
            continue
        if edges[e, E_OPEN] != 0 and not timed(edges[e, E_OPEN], p, spans.windows):
            labels[p] = UNTAKEN
            p += 1
            continue
        if floors is not None:
            if not may_rank(s, label, target, p, depth, floors):
                state[S_FOUND] += 1  # no failure: with other rows before it, it may lead to a match
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
                p = stop  # rows farther on have that row between them as well
                break
            entry = conditions.entry[v]
            prior = work.frames[depth, F_ROW]
            if ready != p and how.strategy == ANY and depth > 0 and entry >= 0:
                until = stop
                if floors is not None:
                    until = p + 1  # of each row the score is asked first
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
            if how.memo and patient:
                _key(depth + 1, target, p, stop_all, net.live, scratch, work.opened, spans.windows)
                effort += 1
                if scratch.table[place_of(scratch.key, scratch.entries, scratch.table)] != 0:
                    labels[p] = UNTAKEN
                    work.frames[depth, F_STALE] = 1
                    if how.at_once:
                        cut |= 1  # it failed so far
                    p += 1
                    continue
        return p, np.int64(1), effort + ((p - begin) >> PASSED_SHIFT), cut
    return p, np.int64(0), effort + ((p - begin) >> PASSED_SHIFT), cut


@embedded
def _evaluated(e, depth, how, frames):
    """Whether the edge's condition was evaluated at its row when the row was looked for, and its values still stand there."""
    return how.strategy == NEXT and depth > 0 and e == frames[depth, F_FIRST] and frames[depth, F_STALE] == 0


@embedded
def _note_sides(e, depth, row, edges, since):
    """Notes the last row of each side, for the frame above; a side that begins stands behind the row before it."""
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
    """Whether the match in the frames is asked for by its score."""
    if floors is not None:
        if not ranks(s, depth, last, floors):
            state[S_FOUND] += 1
            return False
    return True


@embedded
def _may_complete(depth, how, plain, frames):
    """Whether a match that is complete here is asked for: not an empty one of ALL MATCHES, nor the same again."""
    if depth == 0 and how.report_all:
        return False
    if plain is not None:
        if how.ambiguous and plain.first_source.shape[0] > 0:
            return True  # approximately: another way to complete it may be preferred
    return frames[depth, F_DONE] == 0


@embedded
def _none_between(variables, after, before, nearest):
    """Whether nothing strictly between fulfils one of the row-local negated conditions of a mask of variables and groups."""
    v = 0
    while variables != 0:
        if variables & 1 == 1 and before > after + 1 and nearest[v, after + 1] < before:
            return False
        variables >>= 1
        v += 1
    return True


@embedded
def _judged(e, depth, here, net, sides, how, spans, negated, conditions, rows, scratch, work, state):
    """Whether the rows taken are a match, as far as only its end tells: 1, 0 or an error."""
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
        return np.int64(1)  # an empty match has no neighbours to look between
    if sides is None:
        if negated.local | negated.late == 0:
            return np.int64(1)
    frames[depth, F_STALE] = 1  # slot values of rows behind the match are overwritten
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
    """What only the finished match tells of the edge ``by`` that took ``row`` at depth ``d``: its condition across ``&``, its
    negations, rows that it passed over. 1, 0 or an error."""
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
    """Whether a row strictly between fulfils a negated condition that looks at the finished match, or a group's match lies there:
    1, 0 or an error."""
    labels = scratch.labels
    last = work.frames[depth, F_ROW]
    if negated.start[v] >= 0:
        got = group_between(v, after, before, depth, here, edges, sides, how, spans, negated, conditions, rows, scratch, work, state)
        if sides is None:
            # the match goes on from its own values
            bad = replay(np.int64(-1), np.int64(0), np.int64(0), depth, scratch.hi.shape[0] - 2, here, edges, conditions, rows, scratch, work, state)
            got = bad if bad < 0 else got
        return got
    for x in range(after + 1, before):
        if (rows.letters[x] >> v) & 1 == 0:
            continue
        if sides is None and (negated.mixed >> v) & 1 == 0:
            # it reads what the finished match has at its last row
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
                # the match goes on from its own values
                labels[x] = UNTAKEN
                bad = replay(np.int64(-1), np.int64(0), np.int64(0), depth, scratch.hi.shape[0] - 2, here, edges, conditions, rows, scratch, work, state)
                got = bad if bad < 0 else got
        if got != 0:
            return got
    return np.int64(0)


@embedded
def _write(depth, at, edges, sides, frames, labels, out_rows, out_labels):
    """Writes the (row, label) pairs of the match in the frames from ``at`` on, with sides by row, then variable, each once; their
    number."""
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
    """Writes the match in the frames that the edge ``e`` completes: (outcome, 1, or 0 where it was found before)."""
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
            state[S_FOUND] += 1  # no failure: behind other rows it leads to other matches
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
    """Where in ``seen`` the match written at ``at`` stands, or the free place for it; matches of other start rows count as none."""
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
    """The variable of a label, and of a copy's label its original."""
    v = np.int64(label & 63)
    if plain is not None:
        if plain.original.shape[0] > 0:
            v = plain.original[v]
    return v


@kernel
def _prefer(known, at, size, e, edges, plain, out):
    """Gives a reported approximate match the labels and the way of the same match written at ``at``, where that costs less or its
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
    """Keeps the match in the frames if none completes earlier; the row that a better one may not reach."""
    last = work.frames[depth, F_ROW]
    if sides is None:
        # found in the order of preferment: only what completes earlier takes its place, of which the first row is not bounded
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
    """Reports the match that completes first: an outcome."""
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
    """Whether a sequence of (row, label) pairs is preferred to another: the lexicographically earlier, the longer where one begins
    the other."""
    for i in range(min(size, others)):
        if rows[one + i] != rows[other + i]:
            return rows[one + i] < rows[other + i]
        if labels[one + i] & 63 != labels[other + i] & 63:
            return labels[one + i] & 63 < labels[other + i] & 63
    return size > others


@allocating
def _sort(low, number, state, out):
    """Puts the events from ``low`` on, those of a start row, into preferment order and numbers them; a merge sort from single
    events up."""
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
    """Takes a row by an edge: values of the match behind it stand at the place of its depth. 1, or 0 where the condition does not
    hold, or an error."""
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
        # both sides have the variable: the row counts once
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
    """Notes in the frame the row behind which the edge has no candidates under SKIP TILL NEXT: the first one behind its side's last
    row that may not be passed over. 0 or an error."""
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
    """Marks a key as failed; a full memo begins anew, so that memory stays bounded."""
    if state[S_ENTRIES] == entries.shape[0]:
        forget(entries, table, state)
    h = place_of(key, entries, table)
    if table[h] == 0:
        enter(key, h, entries, table, state)


@kernel
def _key(depth, node, row, stop, live, scratch, opened, windows):
    """What decides the future of a run: node, row, the ends of its windows and the values of the match still needed."""
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
        if live[node, k] == 1:
            key[n] = hi[row, k]
            key[n + 1] = hbits[row, k]
        n += 2
