"""Best-effort search for approximate matches under a budget (load shedding; RC-ACEP, VLDB 2016, sections 3 and 4).

At each row the most promising candidates are tried, and the others are left out.

A candidate is a run and a place of the pattern where it may take the current row; the variables between are skipped. Algorithm 2
calls it a match node at pre(sigma). At each row all candidates are collected, and as many are chosen as there are checks. The
chosen ones are tried: conditions are evaluated, and a run that takes the row becomes a new run beside the one that still waits.

Without a history the cheapest candidates go first. With one, utility decides (:mod:`sparkcep.kernels.budget.utility`): first the
best candidate of each place and cost, then the others, the cheapest first. In the paper's order, Algorithm 2 is an online maximum
coverage of the bundles to which the candidates' features led, by lazy greedy choice. A score is recomputed only if a bundle that it
counts has been covered meanwhile. Scores are sums of fractions 1/visits. Residues modulo a prime decide whether two are equal. Else
they are compared in units as small as 64 bits allow.

Features are the match vectors of section 3.3 (Definition 4): place, cost so far, remaining window and time since the last row, the
latter two in intervals. The search learns the number of their visits, and the match points that followed. Their bundles are
assembled after the search.

With an interval instead of a number of checks, a feedback controller sets the checks of each row
(:mod:`sparkcep.kernels.budget.feedback`).

To explore a history, agents (:mod:`sparkcep.kernels.budget.q_learning`) take rows first. Their tries are checks, too. They get the
checks that candidates do not need, and one in eight of the others. The latter are saved up until they are enough for a match.

Example: ``BUDGET 1 CHECKS`` without a history, pattern A B, at a row that may be B. One candidate is the run that has taken A, at
cost 0. Another would begin a run here and skip A, at a cost. The first one is tried, and the other is counted in ``left``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.compiler.net.net import E_COST
from sparkcep.kernels.budget.candidates import collect, end_blocked, forget_candidates
from sparkcep.kernels.budget.choice import choose, find_features
from sparkcep.kernels.budget.exploration import agent_begins, dismiss_agents, explore, seed_agents
from sparkcep.kernels.budget.features import Clock, begin_copy, count_bundle, is_closed
from sparkcep.kernels.budget.feedback import (
    Feedback,
    checks_allowed,
    count_row,
    enter_feedback,
    leave_feedback,
    read_clock,
    start_clock,
)
from sparkcep.kernels.budget.layout import (
    A_EDGE,
    CANDIDATES_FULL,
    CLOSED,
    JUDGED,
    LOST,
    OTHER_HISTORY,
    Q_AGENTS,
    Q_CHECKS,
    Q_DONE,
    Q_ENTERED,
    Q_LEFT,
    Q_PENDING,
    Q_SAVED,
    R_BUNDLES,
    R_INTERVALS,
    R_OWNER,
    REPORTED,
    SAVED_FULL,
    UNJUDGED,
)
from sparkcep.kernels.budget.negation import NegationArrays, set_floor
from sparkcep.kernels.budget.q_learning import G_CLASS, Agents
from sparkcep.kernels.budget.save_runs import forget_copy, raise_floor, restore, restore_utilities, resume, save
from sparkcep.kernels.budget.trial import (
    complete_all,
    count_match_point,
    has_room,
    settle,
    try_candidate,
)
from sparkcep.kernels.budget.utility import Utilities
from sparkcep.kernels.common.cursor import bounds
from sparkcep.kernels.common.hash_table import mixed
from sparkcep.kernels.common.layout import DONE, ERROR, FULL, GROW, O_START, S_DETAIL, S_NUMBER, S_PART, S_START
from sparkcep.kernels.common.run_chains import C_EDGE, C_JUMP, C_PARENT, C_ROWS, NONE
from sparkcep.kernels.frontier.frontier import Looking
from sparkcep.kernels.frontier.payload import K_ENTRIES, K_UNEMITTED, Runs, emit_match, mark, report
from sparkcep.kernels.frontier.run_classes import CROWD, F_ALIVE, F_HASHED, F_SWEEP, I_AFTER, Classes, bury, crowd
from sparkcep.kernels.jit.cache import allocating, embedded, kernel


class BudgetNet(NamedTuple):
    """The net, with its edges by variable and node.

    Attributes:
        edges, masks, accept, accept_end, tested: as in :mod:`sparkcep.kernels.frontier.frontier`.
        by_variable: int64 (variables + 1), the stretches of each variable.
        stretches: int64 (n, 3), a node and a range of ``by_edge``: its edges by that variable.
        by_edge: int64 (m), edges of one way are adjacent, the cheapest first.
        ways, places: int64 (edges), number of the way, and place of the pattern.
        costs, levels: int64 (edges), cost of the target, and its number among all costs.
        buckets: int64 (edges), edges with one bucket share a candidate if nothing distinguishes their runs.
        apart: uint8 (edges), 1 if something distinguishes runs.
        slots: int64 (edges), place and cost among those of the node.
        variables: int64 (edges), the variable of the pattern that takes the row.
        ranks: int64 (edges), the rank of the choices made on the way; smaller is preferred.
        by_blocker: int64 (variables + 1), the stretches of ``blockers`` for each variable.
        blockers: int64 (n, 2), under SKIP TILL NEXT a node, and an edge whose row its runs may not ignore.
    """

    edges: np.ndarray
    masks: np.ndarray
    accept: np.ndarray
    accept_end: np.ndarray
    tested: int
    by_variable: np.ndarray
    stretches: np.ndarray
    by_edge: np.ndarray
    ways: np.ndarray
    places: np.ndarray
    costs: np.ndarray
    levels: np.ndarray
    buckets: np.ndarray
    apart: np.ndarray
    slots: np.ndarray
    variables: np.ndarray
    ranks: np.ndarray
    by_blocker: np.ndarray
    blockers: np.ndarray


class HistoryArrays(NamedTuple):
    """A history. The arrays are empty if none is used.

    Attributes:
        intervals: the intervals of the window.
        codes: int64 (n), ascending, the features with bundles.
        visits, units, residues: int64 (n), visits and 1/visits of the features.
        whole: int64 (n), residues of the scores while nothing is covered.
        first, bundles: int64 (n + 1) and int64, the bundles of each.
        cover: int64 (bundles, COVER_FIELDS).
        memo: int64 (n, GAIN_FIELDS), scores given the bundles covered by now.
    """

    intervals: int
    codes: np.ndarray
    visits: np.ndarray
    units: np.ndarray
    residues: np.ndarray
    whole: np.ndarray
    first: np.ndarray
    bundles: np.ndarray
    cover: np.ndarray
    memo: np.ndarray


class Learned(NamedTuple):
    """The features that are learned.

    Attributes:
        wanted: whether features are learned.
        vectors: int64 (n, VECTOR_FIELDS).
        table: int64 (4n), the vectors by hash.
        ends: int64 (m, 2), pairs of vector and match point, or with REFILL of vector and bundle (numbered from 1), each once.
        vector: int64 (entries), the vector of each entry.
        mark: int64 (entries), the last match point whose runs include the entry; also used for utility.
        seen: int64 (classes, slots), 1 + code of the features at the class's last visit.
    """

    wanted: bool
    vectors: np.ndarray
    table: np.ndarray
    ends: np.ndarray
    vector: np.ndarray
    mark: np.ndarray
    seen: np.ndarray


class Refill(NamedTuple):
    """Replaces the history of a partition by what the search has learned there (REFILL).

    Attributes:
        wanted: whether the history is replaced.
        most: the bundles after which it is replaced.
        when, near: int64 (rows), the place of each row in the window's measure, and the last place that a bundle with it reaches.
        now: int64 (REFILL_FIELDS), the present state.
        owns: uint8 (partitions), 1 if the partition has replaced the history.
    """

    wanted: bool
    most: int
    when: np.ndarray
    near: np.ndarray
    now: np.ndarray
    owns: np.ndarray


class Ground(NamedTuple):
    """Working memory and output.

    Attributes:
        candidates: int64 (n, CANDIDATE_FIELDS).
        heap: int64 (n), the candidates in order of the tries.
        bucket: int64 (buckets), 1 + the candidate of each.
        done: int64 (n, 3), entries and edges of complete matches, and their cells in ``table``.
        labels: int64 (entries), digest of the variables of a run.
        table: int64 (4n), complete matches by hash.
        left: int64 (rows), output: how many candidates were left out.
        allowed: int64 (rows, or 0 if not asked for), output: how many candidates could be tried.
        coverage: float64 (rows, or 0 if not asked for), output: the covered share of the bundles.
    """

    candidates: np.ndarray
    heap: np.ndarray
    bucket: np.ndarray
    done: np.ndarray
    labels: np.ndarray
    table: np.ndarray
    left: np.ndarray
    allowed: np.ndarray
    coverage: np.ndarray


class SearchArrays(NamedTuple):
    """The records that candidates, trials and agents share. The class of each says what it holds."""

    net: BudgetNet
    clock: Clock
    agents: Agents
    history: HistoryArrays
    utilities: Utilities
    learned: Learned
    looking: Looking
    negations: NegationArrays
    classes: Classes
    runs: Runs
    ground: Ground
    feedback: Feedback
    refill: Refill


@kernel
def _entered(part, low, high, saved_runs, arrays, state):
    """Begins or resumes the search of a partition. Returns False if a saved run cannot be restored."""
    agents, utilities, negations, runs = arrays.agents, arrays.utilities, arrays.negations, arrays.runs
    if arrays.refill.wanted:
        begin_copy(arrays.clock, arrays.learned, arrays.refill, state)
    if utilities.wanted:
        utilities.many[0] = 0
        utilities.many[1] = 0
    if agents.wanted:
        agents.many[0] = 0
    if negations.some:
        set_floor(low, negations)
    if arrays.feedback.wanted:
        enter_feedback(part, arrays.feedback)
    if not saved_runs.wanted:
        return True
    if negations.some and high > low:
        raise_floor(part, high, saved_runs, negations, runs)
    if not resume(part, low, high, saved_runs, arrays, state):
        return False
    if utilities.wanted:
        restore_utilities(part, saved_runs, utilities)
    if agents.wanted:
        count = restore(part, low, high, saved_runs, arrays.net, arrays.looking, negations, arrays.classes, agents, runs, state)
        if count < 0:
            return False
        state[Q_AGENTS] = count
        state[Q_SAVED] = saved_runs.before.saved[part]
    return True


@embedded
def _is_other_history(part, row, refill, state):
    """Whether the row needs another history than the one in use. If so, ``state[S_DETAIL]`` says which."""
    if refill.now[R_OWNER] != (part if refill.owns[part] == 1 else NONE):
        state[S_DETAIL] = OTHER_HISTORY
        return True
    if is_closed(row, refill):
        state[S_DETAIL] = CLOSED
        return True
    return False


# -- emission ---------------------------------------------------------------------------------------------------------


@embedded
def _earlier_way(a, edge_a, b, edge_b, ranks, pool):
    """Whether the way of run ``a`` is preferred to that of ``b``, which has the same rows. Each is completed by its edge."""
    found = ranks[edge_a] < ranks[edge_b]
    while a != NONE:
        x, y = ranks[pool[a, C_EDGE]], ranks[pool[b, C_EDGE]]
        if x != y:
            found = x < y
        a = pool[a, C_PARENT]
        b = pool[b, C_PARENT]
    return found


@embedded
def _distinct(runs, ground, net, state):
    """Reduces the complete matches of a row to one for each sequence of rows and variables: the cheapest, among equally cheap ones
    the preferred."""
    table, done, edges = ground.table, ground.done, net.edges
    mask = table.shape[0] - 1
    kept = 0
    for i in range(state[Q_DONE]):
        entry, accepting = done[i, 0], done[i, 1]
        h = np.int64(mixed(np.uint64(runs.pool[entry, C_ROWS]), ground.labels[entry]) >> np.uint64(2)) & mask
        while table[h] != 0:
            other = done[table[h] - 1, 0]
            if runs.pool[other, C_ROWS] == runs.pool[entry, C_ROWS] and ground.labels[other] == ground.labels[entry]:
                break
            h = (h + 1) & mask
        if table[h] == 0:
            done[kept, 0] = entry
            done[kept, 1] = accepting
            done[kept, 2] = h
            kept += 1
            table[h] = kept
        else:
            at = table[h] - 1
            cost, least = edges[accepting, E_COST], edges[done[at, 1], E_COST]
            if cost < least or (cost == least and _earlier_way(entry, accepting, done[at, 0], done[at, 1], net.ranks, runs.pool)):
                done[at, 0] = entry
                done[at, 1] = accepting
    for i in range(kept):
        table[done[i, 2]] = 0
    state[Q_DONE] = kept


@embedded
def _emit_all(part, edges, runs, ground, state):
    """Emits all matches of a row that have not been emitted yet. Returns False if they do not fit."""
    while state[K_UNEMITTED] < state[Q_DONE]:
        if not emit_match(part, ground.done[state[K_UNEMITTED], 0], ground.done[state[K_UNEMITTED], 1], edges, runs, state):
            return False
        state[K_UNEMITTED] += 1
    return True


@allocating
def compact_entries(agents, classes, utilities, learned, runs, ground, state):
    """Drops the entries of runs that no class has, and renumbers the others."""
    pool, used = runs.pool, state[K_ENTRIES]
    number = np.full(used + 1, NONE, dtype=np.int64)
    for node in range(classes.head.shape[1]):
        c = classes.head[0, node]
        while c != NONE:
            mark(runs.run[c], pool, number)
            c = classes.info[c, I_AFTER]
    for i in range(state[Q_AGENTS]):
        mark(runs.run[agents.alive[i, G_CLASS]], pool, number)
    count = 0
    for entry in range(used):
        if number[entry] == NONE:
            continue
        number[entry] = count
        for field in range(pool.shape[1]):
            pool[count, field] = pool[entry, field]
        for field in (C_PARENT, C_JUMP):
            to = pool[entry, field]
            pool[count, field] = number[to] if to >= 0 else NONE
        runs.at[count] = runs.at[entry]
        ground.labels[count] = ground.labels[entry]
        if learned.wanted:
            learned.vector[count] = learned.vector[entry]
        if utilities.wanted:
            utilities.vector[count] = utilities.vector[entry]
        if learned.wanted or utilities.wanted:
            learned.mark[count] = learned.mark[entry]
        count += 1
    state[K_ENTRIES] = count
    for node in range(classes.head.shape[1]):
        c = classes.head[0, node]
        while c != NONE:
            runs.run[c] = number[runs.run[c]]
            c = classes.info[c, I_AFTER]
    for i in range(state[Q_AGENTS]):
        c = agents.alive[i, G_CLASS]
        runs.run[c] = number[runs.run[c]]


@kernel
def budgeted_partitions(checks, order, proxies, merging, letters, offsets, opens, ahead, saved_runs, arrays, state):
    """Searches the partitions. Returns DONE, FULL, GROW (``state[S_DETAIL]``: what is full, or that a run is LOST) or ERROR.

    If conditions of negations look at the match, GROW also asks for a verdict on the runs in ``ground.done`` (UNJUDGED). The caller
    then writes to Q_DONE how many of them are left.

    Args:
        checks: how many candidates of a row are tried, 0 for all. A feedback controller overrides it.
        order: the order of the tries, PLAIN to BY_UTILITY.
        proxies: whether only the best of runs with equal futures is kept; else all are.
        merging: whether runs with equal futures form one class.
        letters: int64 (rows), the variables that each row may be.
        offsets: int64 (partitions + 1).
        opens: int64 (partitions, OPEN_FIELDS), as in :mod:`sparkcep.kernels.frontier.frontier`.
        ahead: int64 (partitions), how many last rows of a growing partition are not searched yet.
        saved_runs: :class:`sparkcep.kernels.budget.save_runs.SavedRuns` of growing partitions.
        arrays: :class:`SearchArrays`.
    """
    net, clock, agents, history, utilities, learned, looking, negations, classes, runs, ground, feedback, refill = arrays
    if feedback.wanted:
        start_clock(feedback)
    parts = offsets.shape[0] - 1
    part, row = state[S_PART], state[S_START]
    outcome = DONE
    while part < parts:
        low, high, going, limit = bounds(part, offsets, opens, ahead[part])
        if state[Q_ENTERED] <= part:
            state[Q_ENTERED] = part + 1
            if not _entered(part, low, high, saved_runs, arrays, state):
                state[S_DETAIL] = LOST
                outcome = GROW
                break
        while row < limit:
            if refill.wanted and refill.now[R_INTERVALS] != clock.intervals:
                forget_copy(part, arrays, state)
            here = letters[row] & net.tested
            if here == 0 or looking.windows[0, row] <= row:
                row += 1  # no variable takes it, or its time is NULL
                continue
            if state[Q_PENDING] == 0:
                if refill.wanted and _is_other_history(part, row, refill, state):
                    outcome = GROW
                    break
                # Classes whose windows have closed are swept once the classes have doubled.
                if state[F_ALIVE] > state[F_SWEEP]:
                    bury(False, row, classes, state)
                if proxies and merging and state[F_HASHED] == 0 and state[F_ALIVE] > CROWD:
                    crowd(classes, looking.values, state)
                count = collect(row, here, proxies, net, looking, negations, classes, runs, ground, state)
                if count < 0:
                    forget_candidates(ground.candidates.shape[0], proxies, net, ground)
                    state[S_DETAIL] = CANDIDATES_FULL
                    outcome = GROW
                    break
                if feedback.wanted:
                    checks = checks_allowed(feedback)
                # The buckets are used only while candidates are collected.
                forget_candidates(count, proxies, net, ground)
                tried = count if checks == 0 else min(count, checks)
                # Room is checked before runs change, so after GROW the row can be taken once more.
                if not has_room(tried + (min(state[Q_AGENTS] + 1, checks) + 1 if agents.wanted else 0), learned, classes, runs, ground, state):
                    outcome = GROW
                    break
                state[Q_DONE] = 0
                used = np.int64(0)
                if agents.wanted:
                    used = explore(count, checks, part, row, low, high, here, proxies, arrays, state)
                    if used < 0:
                        outcome = ERROR
                        break
                    tried = min(count, checks - used)
                    state[Q_CHECKS] += used
                find_features(count, part, row, tried < count, net, clock, history, utilities, learned, runs, ground)
                choose(count, tried, row, order, net, history, utilities, runs, ground)
                state[Q_CHECKS] += tried
                state[Q_LEFT] += count - tried
                ground.left[row] = count - tried
                if ground.allowed.shape[0] > 0:
                    ground.allowed[row] = checks
                added = 0
                seed = seed_agents(count, net, clock, agents, ground, state) if agents.wanted and count <= checks and tried == count else np.int64(NONE)
                # The heap's end has the chosen candidates, the first one last.
                for i in range(count - 1, count - tried - 1, -1):
                    entries = state[K_ENTRIES]
                    added = try_candidate(ground.heap[i], part, row, low, high, added, proxies, arrays, state)
                    if added < 0:
                        break
                    if ground.heap[i] == seed and state[K_ENTRIES] > entries:
                        agent_begins(ground.candidates[seed, A_EDGE], row, agents, net, looking, negations, classes, runs, state)
                if added < 0 or not end_blocked(row, low, high, here, net, looking, classes, state):
                    outcome = ERROR
                    break
                settle(row, added, proxies, merging, looking, classes, learned, runs, state)
                if feedback.wanted:
                    count_row(tried + used, feedback)
                if negations.late and state[Q_DONE] > 0:
                    state[Q_PENDING] = JUDGED
                    state[S_DETAIL] = UNJUDGED
                    outcome = GROW
                    break
            if state[Q_PENDING] != REPORTED:
                if state[Q_DONE] == 0:
                    state[Q_PENDING] = 0
                    row += 1
                    continue
                if proxies and negations.late:
                    complete_all(net.edges, runs, ground, state)
                if refill.wanted:
                    count_bundle(row, refill)
                if learned.wanted or utilities.wanted:
                    end = refill.now[R_BUNDLES] if refill.wanted else row
                    for i in range(state[Q_DONE]):
                        count_match_point(ground.done[i, 0], part, row, end, utilities, learned, runs, state)
                if not proxies:
                    _distinct(runs, ground, net, state)
                    state[K_UNEMITTED] = 0
                state[Q_PENDING] = REPORTED
            # The matches of a row are reported after all tries, so FULL repeats only the report.
            fits = report(part, row, low, net.edges, None, None, runs, state) if proxies else _emit_all(part, net.edges, runs, ground, state)
            if not fits:
                outcome = FULL
                break
            state[Q_PENDING] = 0
            row += 1
        if outcome != DONE:
            break
        if saved_runs.wanted and not save(part, high, going, saved_runs, arrays, state):
            state[S_DETAIL] = SAVED_FULL
            outcome = GROW
            break
        if feedback.wanted:
            leave_feedback(part, feedback)
        opens[part, O_START] = row
        if state[F_ALIVE] > 0:
            bury(True, row, classes, state)
        if agents.wanted:
            dismiss_agents(agents, classes, state)
        state[K_ENTRIES] = 0
        part += 1
        row = opens[part, O_START] if part < parts else high
        state[S_NUMBER] = 0
    if feedback.wanted:
        read_clock(feedback)
    state[S_PART] = part
    state[S_START] = row
    return outcome
