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

To explore a history, agents (:mod:`sparkcep.kernels.budget.q_learning`) take rows first. Their tries are checks, too. They get the
checks that candidates do not need, and one in eight of the others. The latter are saved up until they are enough for a match.

Example: ``BUDGET 1 CHECKS`` without a history, pattern A B, at a row that may be B. One candidate is the run that has taken A, at
cost 0. Another would begin a run here and skip A, at a cost. The first one is tried, and the other is counted in ``left``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.compiler.net.net import E_AT_START, E_COST, E_TARGET, E_VAR
from sparkcep.kernels.budget.features import code_of, when
from sparkcep.kernels.budget.negation import blocked, completing, distinguish, free_from, set_floor
from sparkcep.kernels.budget.q_learning import (
    G_ACTION,
    G_CLASS,
    G_STATE,
    MOST,
    O_END,
    O_FIRST,
    O_SKIP,
    S_END,
    S_FIRST,
    SHARE,
    chosen,
    learn,
    state_of,
)
from sparkcep.kernels.budget.save_runs import first_row, labelled, raise_floor, restore, restore_utilities, resume, save
from sparkcep.kernels.budget.utility import led_on, promising, was_tried
from sparkcep.kernels.common.cursor import bounds
from sparkcep.kernels.common.hash_table import BASIS, fill, mixed
from sparkcep.kernels.common.layout import DONE, ERROR, FULL, GROW, O_START, S_DETAIL, S_NUMBER, S_PART, S_START
from sparkcep.kernels.common.run_chains import (
    C_EDGES,
    C_JUMP,
    C_PARENT,
    C_ROWS,
    NONE,
    append,
    comes_first,
    compare_rows,
)
from sparkcep.kernels.frontier.frontier import fulfils, inside, new_class, timed
from sparkcep.kernels.frontier.payload import (
    CARGO_STATE,
    K_ENTRIES,
    K_UNEMITTED,
    complete,
    emit_match,
    mark,
    preferred,
    report,
)
from sparkcep.kernels.frontier.run_classes import (
    CROWD,
    F_ALIVE,
    F_FREE,
    F_HASHED,
    F_SWEEP,
    F_USED,
    I_AFTER,
    I_NODE,
    bury,
    crowd,
    found,
    give_back,
    unlink,
)
from sparkcep.kernels.jit.cache import allocating, embedded, kernel

# Order of the tries. COVERING is the paper's, and equals PLAIN without a history. BY_UTILITY is ours, by utility. FIRST_IN is the
# paper's baseline ("ACEPMATCH with timeout"), for comparisons only.
PLAIN = COVERING = 0
FIRST_IN, BY_UTILITY = 1, 2
PRIME = (1 << 61) - 1  # modulus of the residues
# state[S_DETAIL] after GROW.
CANDIDATES_FULL, CLASSES_FULL, ENTRIES_FULL, VECTORS_FULL, UNJUDGED, SAVED_FULL, LOST = range(7)
REPORTED, JUDGED = 1, 2  # state[Q_PENDING]: the row's matches are known, but not all emitted; runs were judged that may be matches
# State after that of the payload:
# Q_DONE, Q_PENDING: matches that the current row completes, and what still has to be done with them.
# Q_VECTORS, Q_ENDS: known feature vectors, and their match points.
# Q_CHECKS, Q_LEFT: checks, and candidates left out so far.
# Q_AGENTS, Q_SAVED: agents, and what is saved for them (a check is SHARE).
# Q_ENTERED: partitions entered.
Q_DONE, Q_PENDING, Q_VECTORS, Q_ENDS, Q_CHECKS, Q_LEFT, Q_AGENTS, Q_SAVED, Q_ENTERED, BUDGET_STATE = range(CARGO_STATE, CARGO_STATE + 10)
# Columns of a candidate:
# A_CLASS, A_EDGE, A_START, A_ENTRY: class (NONE: a run would begin), edge, first row, last entry.
# A_CODE, A_FEATURES, A_CODE_OF_UTILITY: code of its features for learning, their number in the history, their code for utility.
# A_VERSION, A_SCORE, A_RESIDUE: version of its score, the score in units, its residue.
A_CLASS, A_EDGE, A_START, A_ENTRY, A_CODE, A_FEATURES, A_VERSION, A_SCORE, A_RESIDUE, A_CODE_OF_UTILITY, CANDIDATE_FIELDS = range(11)
BEHIND = -1.0  # the utility of candidates that come after all others
# Columns of a bundle's cover: row whose candidates cover it, units and residue of 1/visits, the visits.
M_ROW, M_UNITS, M_RESIDUE, M_VISITS, COVER_FIELDS = range(5)
# Columns of the score of features: row, version, score in units, its residue.
G_ROW, G_VERSION, G_SCORE, G_RESIDUE, GAIN_FIELDS = range(5)
# Columns of learned features: partition, code, visits, match points, the last match point, the last row where a run would begin
# with them.
V_PART, V_CODE, V_VISITS, V_POINTS, V_LAST, V_BEGUN, VECTOR_FIELDS = range(7)
T_NODE, T_FIRST, T_END = range(3)  # columns of a stretch


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
        ends: int64 (m, 2), pairs of vector and match point, each once.
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
        coverage: float64 (rows, or 0 if not asked for), output: the covered share of the bundles.
    """

    candidates: np.ndarray
    heap: np.ndarray
    bucket: np.ndarray
    done: np.ndarray
    labels: np.ndarray
    table: np.ndarray
    left: np.ndarray
    coverage: np.ndarray


# -- candidates -----------------------------------------------------------------------------------------------------


@embedded
def _number(code, codes):
    """The place of a code in ascending ``codes``, or NONE."""
    low = 0
    high = codes.shape[0]
    while low < high:
        middle = (low + high) // 2
        if codes[middle] < code:
            low = middle + 1
        else:
            high = middle
    return np.int64(low) if low < codes.shape[0] and codes[low] == code else np.int64(NONE)


@embedded
def _propose(place, e, count, proxies, net, runs, ground):
    """Notes a candidate. Returns the number of candidates, or -1 if the array is full.

    Of runs that nothing can distinguish only the best one becomes a candidate.
    """
    candidates = ground.candidates
    entry = runs.run[place] if place != NONE else np.int64(NONE)
    at = np.int64(count)
    shared = proxies and net.apart[e] == 0
    if shared:
        known = ground.bucket[net.buckets[e]] - 1
        if known != NONE:
            other = candidates[known, A_ENTRY]
            # A run that begins here began last. The first of its ways is preferred.
            if other == NONE or (entry != NONE and not preferred(runs.pool, entry, other)):
                return count
            at = known
    if at == candidates.shape[0]:
        return -1
    candidates[at, A_CLASS] = place
    candidates[at, A_EDGE] = e
    candidates[at, A_ENTRY] = entry
    if at < count:
        return count
    if shared:
        ground.bucket[net.buckets[e]] = count + 1
    return count + 1


@embedded
def _collect(row, here, proxies, net, looking, negations, classes, runs, ground, state):
    """Collects the candidates of a row, and removes classes that are over. Returns their number, or -1 if the array is full."""
    head = classes.head[0]
    count = 0
    v = 0
    while here != 0:
        if here & 1 == 1:
            for k in range(net.by_variable[v], net.by_variable[v + 1]):
                node, first, end = net.stretches[k, T_NODE], net.stretches[k, T_FIRST], net.stretches[k, T_END]
                before = np.int64(NONE)
                place = np.int64(NONE)
                if node != 0:
                    place = head[node]
                    if place == NONE:
                        continue
                while True:
                    after = np.int64(NONE)
                    alive = True
                    if place != NONE:
                        after = classes.info[place, I_AFTER]
                        if row > classes.until[place]:
                            unlink(node, before, place, classes, state)
                            alive = False
                        else:
                            before = place
                    if alive:
                        way = np.int64(NONE)
                        for i in range(first, end):
                            e = net.by_edge[i]
                            if net.ways[e] == way or (net.edges[e, E_AT_START] != 0 and runs.positions[row] != 0):
                                continue
                            if not inside(place, e, row, net.edges, looking, classes) or not timed(e, row, net.edges, looking):
                                continue
                            if negations.some and place != NONE and blocked(e, runs.at[runs.run[place]], row, net.edges, negations):
                                continue
                            way = net.ways[e]
                            count = _propose(place, e, count, proxies, net, runs, ground)
                            if count < 0:
                                return -1
                    place = after
                    if place == NONE:
                        break
        here >>= 1
        v += 1
    return count


@embedded
def _forget(count, proxies, net, ground):
    """Empties the buckets of a row's candidates."""
    if proxies:
        for i in range(count):
            ground.bucket[net.buckets[ground.candidates[i, A_EDGE]]] = 0


@embedded
def _vectors(count, part, row, choosing, net, clock, history, utilities, learned, runs, ground):
    """Finds the first row of each candidate and, as needed, its features, their history and its utility.

    Utility is computed only when ``choosing``, that is, if some candidates are left out.
    """
    candidates = ground.candidates
    known = history.codes.shape[0] > 0 and (not utilities.wanted or ground.coverage.shape[0] > 0)
    for i in range(count):
        entry = candidates[i, A_ENTRY]
        start = row if entry == NONE else first_row(entry, row, runs)
        candidates[i, A_START] = start
        candidates[i, A_FEATURES] = NONE
        candidates[i, A_VERSION] = 0
        candidates[i, A_SCORE] = 0
        candidates[i, A_RESIDUE] = 0
        last = row if entry == NONE else runs.at[entry]
        if learned.wanted:
            candidates[i, A_CODE] = code_of(candidates[i, A_EDGE], start, last, row, clock.intervals, net, clock)
        if known:
            at = _number(code_of(candidates[i, A_EDGE], start, last, row, history.intervals, net, clock), history.codes)
            candidates[i, A_FEATURES] = at
            if at != NONE and not utilities.wanted:
                candidates[i, A_SCORE] = (history.first[at + 1] - history.first[at]) * history.units[at]
                candidates[i, A_RESIDUE] = history.whole[at]
        if utilities.wanted:
            code = code_of(candidates[i, A_EDGE], start, last, row, utilities.intervals, net, clock)
            candidates[i, A_CODE_OF_UTILITY] = code
            if choosing:
                utilities.utility[i] = promising(code, part, utilities)


# -- choice: Algorithm 2, and our own -----------------------------------------------------------------------------------


@embedded
def _first(a, b, order, net, utilities, runs, ground):
    """Whether candidate ``a`` is tried before ``b``.

    The order is: higher utility or score, least cost, latest start, latest place, earliest rows, preferred way.
    """
    candidates = ground.candidates
    if order == FIRST_IN:
        # The seed is the oldest node. Then come the runs in order of their creation.
        x, y = candidates[a, A_ENTRY], candidates[b, A_ENTRY]
        return x < y if x != y else candidates[a, A_EDGE] < candidates[b, A_EDGE]
    if order == BY_UTILITY and utilities.utility[a] != utilities.utility[b]:
        return utilities.utility[a] > utilities.utility[b]
    if candidates[a, A_RESIDUE] != candidates[b, A_RESIDUE] and candidates[a, A_SCORE] != candidates[b, A_SCORE]:
        return candidates[a, A_SCORE] > candidates[b, A_SCORE]
    e, f = candidates[a, A_EDGE], candidates[b, A_EDGE]
    if net.costs[e] != net.costs[f]:
        return net.costs[e] < net.costs[f]
    if candidates[a, A_START] != candidates[b, A_START]:
        return candidates[a, A_START] > candidates[b, A_START]
    if net.places[e] != net.places[f]:
        return net.places[e] > net.places[f]
    x, y = candidates[a, A_ENTRY], candidates[b, A_ENTRY]
    if x != y and (compare_rows(runs.pool, x, y) != 0 or runs.pool[x, C_EDGES] != runs.pool[y, C_EDGES]):
        return comes_first(runs.pool, x, y, False)
    return e < f


@embedded
def _foremost(count, net, utilities, runs, ground):
    """Keeps the utility of the best candidate of each place and cost; all others come after these."""
    square = utilities.intervals * utilities.intervals
    for i in range(count):
        at = ground.candidates[i, A_CODE_OF_UTILITY] // square
        known = utilities.best[at] - 1
        if known == NONE or _first(i, known, BY_UTILITY, net, utilities, runs, ground):
            utilities.best[at] = i + 1
    for i in range(count):
        at = ground.candidates[i, A_CODE_OF_UTILITY] // square
        if utilities.best[at] - 1 != i:
            utilities.utility[i] = BEHIND
    for i in range(count):
        utilities.best[ground.candidates[i, A_CODE_OF_UTILITY] // square] = 0


@embedded
def _sift(at, size, order, net, utilities, runs, ground):
    """Moves the candidate at a place of the heap down to its position."""
    heap = ground.heap
    item = heap[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _first(heap[child + 1], heap[child], order, net, utilities, runs, ground):
            child += 1
        if not _first(heap[child], item, order, net, utilities, runs, ground):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = item


@embedded
def _gain(at, row, version, history):
    """Computes the score of features, given the bundles covered by now, into ``history.memo``: once for all their candidates."""
    memo, cover = history.memo, history.cover
    if memo[at, G_ROW] == row and memo[at, G_VERSION] == version:
        return
    score = np.int64(0)
    residue = np.int64(0)
    for k in range(history.first[at], history.first[at + 1]):
        b = history.bundles[k]
        if cover[b, M_ROW] != row:
            score += history.units[at]
            residue = (residue + history.residues[at]) % PRIME
        elif history.visits[at] < cover[b, M_VISITS]:
            score += history.units[at] - cover[b, M_UNITS]
            residue = (residue + history.residues[at] - cover[b, M_RESIDUE] + PRIME) % PRIME
    memo[at, G_ROW] = row
    memo[at, G_VERSION] = version
    memo[at, G_SCORE] = score
    memo[at, G_RESIDUE] = residue


@embedded
def _stale(i, row, version, history, ground):
    """Whether the score of a candidate has changed since bundles were covered (line 15 of Algorithm 2). It is then updated."""
    candidates, at = ground.candidates, ground.candidates[i, A_FEATURES]
    if at == NONE or candidates[i, A_VERSION] == version:
        return False
    _gain(at, row, version, history)
    candidates[i, A_VERSION] = version
    if candidates[i, A_RESIDUE] == history.memo[at, G_RESIDUE]:
        return False
    candidates[i, A_SCORE] = history.memo[at, G_SCORE]
    candidates[i, A_RESIDUE] = history.memo[at, G_RESIDUE]
    return True


@embedded
def _covers(i, row, history, ground):
    """Covers the bundles of a candidate. Returns the growth of the cover as a float."""
    at = ground.candidates[i, A_FEATURES]
    more = 0.0
    if at == NONE:
        return more
    for k in range(history.first[at], history.first[at + 1]):
        b = history.bundles[k]
        if history.cover[b, M_ROW] != row or history.visits[at] < history.cover[b, M_VISITS]:
            more += 1.0 / history.visits[at]
            if history.cover[b, M_ROW] == row:
                more -= 1.0 / history.cover[b, M_VISITS]
            history.cover[b, M_ROW] = row
            history.cover[b, M_UNITS] = history.units[at]
            history.cover[b, M_RESIDUE] = history.residues[at]
            history.cover[b, M_VISITS] = history.visits[at]
    return more


@embedded
def _choose(count, tried, row, order, net, history, utilities, runs, ground):
    """Puts the candidates to try at the end of the heap, the first one last, and writes the covered share."""
    heap = ground.heap
    for i in range(count):
        heap[i] = i
    if tried == count:
        return
    covering, asked = order == COVERING, ground.coverage.shape[0] > 0
    if order == BY_UTILITY:
        _foremost(count, net, utilities, runs, ground)
    for i in range(count // 2 - 1, -1, -1):
        _sift(i, count, order, net, utilities, runs, ground)
    size = count
    version = 0
    covered = 0.0
    while size > count - tried:
        best = heap[0]
        # The lazy greedy choice: only the top of the heap is rescored. If its score has fallen, it sinks.
        if covering and _stale(best, row, version, history, ground):
            _sift(0, size, order, net, utilities, runs, ground)
            continue
        version += 1
        if covering or asked:
            covered += _covers(best, row, history, ground)
        size -= 1
        heap[0] = heap[size]
        heap[size] = best
        _sift(0, size, order, net, utilities, runs, ground)
    if asked:
        more = 0.0
        for i in range(size):
            more += _covers(heap[i], row, history, ground)
        ground.coverage[row] = covered / (covered + more) if more > 0.0 else 1.0


# -- what is learned: Definition 4 ------------------------------------------------------------------------------------


@embedded
def _vector(part, code, learned, state):
    """The number of a partition's feature vector, which is added if it is new. The caller has made room."""
    table, vectors = learned.table, learned.vectors
    mask = table.shape[0] - 1
    h = np.int64(mixed(mixed(BASIS, part), code) >> np.uint64(2)) & mask
    while table[h] != 0:
        at = table[h] - 1
        if vectors[at, V_PART] == part and vectors[at, V_CODE] == code:
            return at
        h = (h + 1) & mask
    at = state[Q_VECTORS]
    state[Q_VECTORS] = at + 1
    table[h] = at + 1
    vectors[at, V_PART] = part
    vectors[at, V_CODE] = code
    vectors[at, V_VISITS] = 0
    vectors[at, V_POINTS] = 0
    vectors[at, V_LAST] = NONE
    vectors[at, V_BEGUN] = NONE
    return at


@kernel
def refill_vectors(learned, state):
    """Fills an empty table with all vectors."""
    mask = learned.table.shape[0] - 1
    for at in range(state[Q_VECTORS]):
        h = np.int64(mixed(mixed(BASIS, learned.vectors[at, V_PART]), learned.vectors[at, V_CODE]) >> np.uint64(2)) & mask
        while learned.table[h] != 0:
            h = (h + 1) & mask
        learned.table[h] = at + 1


@embedded
def _visit(i, part, row, net, learned, ground, state):
    """Counts a visit of a candidate's features, once for each run. Returns the vector's number."""
    candidates, vectors = ground.candidates, learned.vectors
    at = _vector(part, candidates[i, A_CODE], learned, state)
    place = candidates[i, A_CLASS]
    if place == NONE:
        if vectors[at, V_BEGUN] != row:
            vectors[at, V_BEGUN] = row
            vectors[at, V_VISITS] += 1
    else:
        slot = net.slots[candidates[i, A_EDGE]]
        if learned.seen[place, slot] != candidates[i, A_CODE] + 1:
            learned.seen[place, slot] = candidates[i, A_CODE] + 1
            vectors[at, V_VISITS] += 1
    return at


@embedded
def _reached(entry, part, row, utilities, learned, runs, state):
    """Notes the match point ``row`` at all features of a complete run. The caller has made room."""
    while entry != NONE and learned.mark[entry] != row:
        learned.mark[entry] = row
        if utilities.wanted:
            led_on(utilities.vector[entry], part, utilities)
        if learned.wanted:
            at = learned.vector[entry]
            if learned.vectors[at, V_LAST] != row:
                learned.vectors[at, V_LAST] = row
                learned.vectors[at, V_POINTS] += 1
                learned.ends[state[Q_ENDS], 0] = at
                learned.ends[state[Q_ENDS], 1] = row
                state[Q_ENDS] += 1
        entry = runs.pool[entry, C_PARENT]


# -- trials -----------------------------------------------------------------------------------------------------------


@embedded
def _room(tried, learned, classes, runs, ground, state):
    """Whether there is enough room for a row's additions. If not, ``state[S_DETAIL]`` names the full array."""
    if ground.done.shape[0] < tried:
        state[S_DETAIL] = CANDIDATES_FULL
        return False
    if classes.free.shape[0] - state[F_USED] + state[F_FREE] < tried or classes.pending.shape[0] < tried:
        state[S_DETAIL] = CLASSES_FULL
        return False
    if runs.pool.shape[0] - state[K_ENTRIES] < tried:
        state[S_DETAIL] = ENTRIES_FULL
        return False
    if learned.wanted:
        vectors = state[Q_VECTORS] + tried
        if vectors > learned.vectors.shape[0] or state[Q_ENDS] + vectors > learned.ends.shape[0]:
            state[S_DETAIL] = VECTORS_FULL
            return False
    return True


@embedded
def _complete_all(edges, runs, ground, state):
    """Compares all judged runs with the best one of the row."""
    for i in range(state[Q_DONE]):
        complete(ground.done[i, 0] - state[K_ENTRIES], ground.done[i, 1], i == 0, edges, None, None, runs, state)


@embedded
def _take(place, e, before, vector, utility_code, row, low, high, proxies, net, looking, negations, classes, utilities, learned, runs, ground, state):
    """Lets a run with last entry ``before`` take the row by an edge, with these features.

    Returns 1 if it does, and then the newest entry is its own. Returns 0 if a condition does not hold, -1 for an error.
    """
    edges = net.edges
    v, target = edges[e, E_VAR], edges[e, E_TARGET]
    if looking.conditions.entry[v] >= 0 or looking.values.valued[target] == 1:
        got = fulfils(place, v, e, row, low, high, edges, looking, state)
        if got <= 0:
            return -1 if got < 0 else 0
    entry = state[K_ENTRIES]
    append(runs.pool, entry, before, e, runs.positions[row])
    runs.at[entry] = row
    labelled(entry, before, e, net, ground)
    if learned.wanted:
        learned.vector[entry] = vector
        learned.mark[entry] = NONE
    if utilities.wanted:
        utilities.vector[entry] = utility_code
        learned.mark[entry] = NONE
    accepting = net.accept_end[target] if row + 1 == high else net.accept[target]
    if accepting != NONE and negations.some and not negations.late:
        free = free_from(e, row, edges, negations) if place == NONE else classes.ends[place, negations.windows]
        accepting = completing(np.int64(0), target, free, row, low, high, first_row(entry, row, runs), looking.windows, edges, negations)
    if accepting != NONE:
        if proxies and not negations.late:
            complete(np.int64(0), accepting, state[Q_DONE] == 0, edges, None, None, runs, state)
        at = state[Q_DONE]
        ground.done[at, 0] = entry
        ground.done[at, 1] = accepting
        state[Q_DONE] = at + 1
    state[K_ENTRIES] = entry + 1
    return 1


@embedded
def _try(i, part, row, low, high, count, proxies, net, looking, negations, classes, utilities, learned, runs, ground, state):
    """Tries a candidate. Returns how many classes the row has added by now, or -1 for an error."""
    place, e, before = ground.candidates[i, A_CLASS], ground.candidates[i, A_EDGE], ground.candidates[i, A_ENTRY]
    vector = np.int64(NONE)
    utility_code = ground.candidates[i, A_CODE_OF_UTILITY]
    if learned.wanted:
        vector = _visit(i, part, row, net, learned, ground, state)
    if utilities.wanted:
        was_tried(utility_code, part, utilities)
    got = _take(place, e, before, vector, utility_code, row, low, high, proxies, net, looking, negations, classes, utilities, learned, runs, ground, state)
    if got < 0:
        return -1
    if got == 0 or net.masks[net.edges[e, E_TARGET]] == 0:
        return count
    c = new_class(place, e, row, net.edges, looking, classes, state)
    classes.until[c] = looking.windows[0, row] - 1 if place == NONE else classes.until[place]
    if negations.some:
        distinguish(c, place, e, net.edges[e, E_TARGET], row, net.edges, classes, negations)
    runs.run[c] = state[K_ENTRIES] - 1
    classes.pending[count, 0] = c
    return count + 1


@embedded
def _settle(row, count, proxies, merging, looking, classes, learned, runs, state):
    """Adds the runs of a row to the waiting ones. With ``proxies`` only the best run of each future is kept."""
    for i in range(count):
        c = classes.pending[i, 0]
        entry = runs.run[c]
        known = found(c, classes, looking.values, state) if proxies and merging else np.int64(NONE)
        if known == NONE:
            node = classes.info[c, I_NODE]
            classes.info[c, I_AFTER] = classes.head[0, node]
            classes.head[0, node] = c
            state[F_ALIVE] += 1
        else:
            give_back(c, classes, state)
            if row <= classes.until[known] and not preferred(runs.pool, entry, runs.run[known]):
                continue
            classes.until[known] = classes.until[c]
            runs.run[known] = entry
            c = known
        if learned.wanted:
            fill(learned.seen[c], 0)


# -- agents: Algorithm 6 ----------------------------------------------------------------------------------------------


@embedded
def _agent_takes(place, e, start, last, part, row, low, high, proxies, net, clock, looking, negations, classes, utilities, learned, runs, ground, state):
    """:func:`_take` for an agent: counts one visit and one try."""
    vector = np.int64(NONE)
    utility_code = np.int64(NONE)
    if learned.wanted:
        vector = _vector(part, code_of(e, start, last, row, clock.intervals, net, clock), learned, state)
        learned.vectors[vector, V_VISITS] += 1
    if utilities.wanted:
        utility_code = code_of(e, start, last, row, utilities.intervals, net, clock)
        was_tried(utility_code, part, utilities)
    before = runs.run[place] if place != NONE else np.int64(NONE)
    return _take(place, e, before, vector, utility_code, row, low, high, proxies, net, looking, negations, classes, utilities, learned, runs, ground, state)


@embedded
def _advances(i, place, e, row, agents, net, looking, negations, classes, runs, state):
    """Moves agent ``i`` to the position it has reached. Returns False if nothing follows that position; the agent is then over."""
    behind = agents.behind[e]
    if behind == NONE or net.masks[net.edges[e, E_TARGET]] == 0:
        return False
    c = new_class(place, e, row, net.edges, looking, classes, state)
    classes.until[c] = looking.windows[0, row] - 1 if place == NONE else classes.until[place]
    if negations.some:
        distinguish(c, place, e, net.edges[e, E_TARGET], row, net.edges, classes, negations)
    runs.run[c] = state[K_ENTRIES] - 1
    agents.alive[i, G_CLASS] = c
    agents.alive[i, G_STATE] = behind
    return True


@embedded
def _next_place(place, at_state, last, row, here, agents, net, looking, negations, classes, runs):
    """Which of the agent's next places the row is of, and the edge that takes it there.

    Returns (index of the place, edge), or (number of places, NONE).
    """
    first, end = agents.agent_states[at_state, S_FIRST], agents.agent_states[at_state, S_END]
    for o in range(first, end):
        for k in range(agents.options[o, O_FIRST], agents.options[o, O_END]):
            e = agents.edges[k]
            if (here >> net.edges[e, E_VAR]) & 1 == 0 or (net.edges[e, E_AT_START] != 0 and runs.positions[row] != 0):
                continue
            if negations.some and blocked(e, last, row, net.edges, negations):
                continue
            if inside(place, e, row, net.edges, looking, classes) and timed(e, row, net.edges, looking):
                return o - first, e
    return end - first, np.int64(NONE)


@embedded
def _turn(i, left, part, row, low, high, here, proxies, agents, net, clock, looking, negations, classes, utilities, learned, runs, ground, state):
    """The turn of an agent that has ``left`` checks: (checks it used, whether it goes on). The first value is -1 for an error."""
    while True:
        place, at_state = agents.alive[i, G_CLASS], agents.alive[i, G_STATE]
        entry = runs.run[place]
        start, last = first_row(entry, row, runs), runs.at[entry]
        letter, e = _next_place(place, at_state, last, row, here, agents, net, looking, negations, classes, runs)
        at = state_of(at_state, when(start, last, row, agents.intervals, clock), letter, agents)
        action, greatest = chosen(at_state, at, letter, part, agents)
        first = agents.agent_states[at_state, S_FIRST]
        count = agents.agent_states[at_state, S_END] - first
        if action < count and left == 0:
            return 0, True  # it waits for a check, and learns nothing
        learn(i, greatest, agents)
        agents.alive[i, G_ACTION] = at + action
        agents.earned[i] = 0.0
        if action == 2 * count:
            return 0, True
        if action >= count:
            agents.alive[i, G_STATE] = agents.options[first + action - count, O_SKIP]
            agents.earned[i] = agents.rewards[first + action - count]
            continue
        got = _agent_takes(place, e, start, last, part, row, low, high, proxies, net, clock, looking, negations, classes, utilities, learned, runs, ground, state)
        if got <= 0:
            return 1 if got == 0 else -1, True
        agents.earned[i] = agents.rewards[first + action]
        goes_on = _advances(i, place, e, row, agents, net, looking, negations, classes, runs, state)
        give_back(place, classes, state)
        return 1, goes_on


@embedded
def _seed(count, net, clock, agents, ground, state):
    """The candidate that begins the next agent: of those that begin a run, the one where the fewest agents began. NONE without one.

    It is also NONE if too little is saved: each agent has the checks of a whole match set aside.
    """
    best, least = np.int64(NONE), np.int64(0)
    if state[Q_AGENTS] == MOST or state[Q_SAVED] < SHARE * agents.need * (state[Q_AGENTS] + 1):
        return best
    for i in range(count):
        if ground.candidates[i, A_CLASS] == NONE:
            e = ground.candidates[i, A_EDGE]
            key = net.places[e] * clock.levels + net.levels[e]
            if best == NONE or agents.begun[key] < agents.begun[least] or (agents.begun[key] == agents.begun[least] and key < least):
                best, least = np.int64(i), key
    if best != NONE:
        agents.begun[least] += 1
    return best


@embedded
def _begins(e, row, agents, net, looking, negations, classes, runs, state):
    """Begins an agent with the run that has just taken the row by an edge."""
    i = state[Q_AGENTS]
    if _advances(i, np.int64(NONE), e, row, agents, net, looking, negations, classes, runs, state):
        agents.alive[i, G_ACTION] = NONE
        state[Q_AGENTS] = i + 1


@kernel
def _explore(count, checks, part, row, low, high, here, proxies, agents, net, clock, looking, negations, classes, utilities, learned, runs, ground, state):
    """Runs the turns of all agents, oldest first, and begins a new one if candidates are left out.

    Returns the number of checks used, or -1 for an error. From the first row that leaves out candidates, one check in SHARE of each
    row is saved for agents. They also have the checks that candidates do not need.
    """
    short = count > checks
    spare = max(checks - count, 0)
    if short or state[Q_SAVED] > 0:  # nothing is to be explored while no candidate is left out
        state[Q_SAVED] = min(state[Q_SAVED] + checks, SHARE * max(checks, agents.need))
    most = min(checks, max(spare, state[Q_SAVED] // SHARE))
    used = np.int64(0)
    kept = 0
    for i in range(state[Q_AGENTS]):
        for k in range(agents.alive.shape[1]):
            agents.alive[kept, k] = agents.alive[i, k]
        agents.earned[kept] = agents.earned[i]
        place = agents.alive[kept, G_CLASS]
        if row > classes.until[place]:
            learn(kept, 0.0, agents)
            give_back(place, classes, state)
            continue
        took, goes_on = _turn(kept, most - used, part, row, low, high, here, proxies, agents, net, clock, looking, negations, classes, utilities, learned, runs, ground, state)
        if took < 0:
            return np.int64(-1)
        used += took
        if goes_on:
            kept += 1
        else:
            learn(kept, 0.0, agents)
    state[Q_AGENTS] = kept
    seed = _seed(count, net, clock, agents, ground, state) if short and used < most else np.int64(NONE)
    if seed != NONE:
        e = ground.candidates[seed, A_EDGE]
        got = _agent_takes(np.int64(NONE), e, row, row, part, row, low, high, proxies, net, clock, looking, negations, classes, utilities, learned, runs, ground, state)
        if got < 0:
            return np.int64(-1)
        if got == 1:
            _begins(e, row, agents, net, looking, negations, classes, runs, state)
        used += 1
    # At least 1, so that saving goes on.
    state[Q_SAVED] = max(state[Q_SAVED] - SHARE * max(used - spare, 0), min(state[Q_SAVED], 1))
    return used


@embedded
def _dismiss(agents, classes, state):
    """Ends all agents with their partition."""
    for i in range(state[Q_AGENTS]):
        give_back(agents.alive[i, G_CLASS], classes, state)
    state[Q_AGENTS] = 0
    state[Q_SAVED] = 0
    for k in range(agents.begun.shape[0]):
        agents.begun[k] = 0


@embedded
def _entered(part, low, high, saved_runs, net, clock, agents, utilities, learned, looking, negations, classes, runs, ground, state):
    """Begins or resumes the search of a partition. Returns False if a saved run cannot be restored."""
    if utilities.wanted:
        utilities.many[0] = 0
        utilities.many[1] = 0
    if agents.wanted:
        agents.many[0] = 0
    if negations.some:
        set_floor(low, negations)
    if not saved_runs.wanted:
        return True
    if negations.some and high > low:
        raise_floor(part, low, high, saved_runs, negations, runs)
    if not resume(part, low, high, saved_runs, net, clock, looking, negations, classes, utilities, learned, runs, ground, state):
        return False
    if utilities.wanted:
        restore_utilities(part, saved_runs, utilities)
    if agents.wanted:
        count = restore(part, low, high, saved_runs, net, looking, negations, classes, agents, runs, state)
        if count < 0:
            return False
        state[Q_AGENTS] = count
        state[Q_SAVED] = saved_runs.before.saved[part]
    return True


# -- emission ---------------------------------------------------------------------------------------------------------


@embedded
def _distinct(runs, ground, net, state):
    """Reduces the complete matches of a row to one for each sequence of rows and variables: the cheapest, among equally cheap ones
    the first."""
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
            if edges[accepting, E_COST] < edges[done[at, 1], E_COST]:
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
def budgeted_partitions(
    net, checks, order, proxies, merging, letters, offsets, opens, ahead, saved_runs, clock, agents, history, utilities, learned, looking, negations, classes, runs, ground, state,
):
    """Searches the partitions. Returns DONE, FULL, GROW (``state[S_DETAIL]``: what is full, or that a run is LOST) or ERROR.

    If conditions of negations look at the match, GROW also asks for a verdict on the runs in ``ground.done`` (UNJUDGED). The caller
    then writes to Q_DONE how many of them are left.

    Args:
        net: :class:`BudgetNet`.
        checks: how many candidates of a row are tried, 0 for all.
        order: the order of the tries, PLAIN to BY_UTILITY.
        proxies: whether only the best of runs with equal futures is kept; else all are.
        merging: whether runs with equal futures form one class.
        letters: int64 (rows), the variables that each row may be.
        offsets: int64 (partitions + 1).
        opens: int64 (partitions, OPEN_FIELDS), as in :mod:`sparkcep.kernels.frontier.frontier`.
        ahead: int64 (partitions), how many last rows of a growing partition are not searched yet.
        saved_runs: :class:`sparkcep.kernels.budget.save_runs.SavedRuns` of growing partitions.
        looking: as in :mod:`sparkcep.kernels.frontier.frontier`.
    """
    parts = offsets.shape[0] - 1
    part, row = state[S_PART], state[S_START]
    outcome = DONE
    while part < parts:
        low, high, going, limit = bounds(part, offsets, opens, ahead[part])
        if state[Q_ENTERED] <= part:
            state[Q_ENTERED] = part + 1
            if not _entered(part, low, high, saved_runs, net, clock, agents, utilities, learned, looking, negations, classes, runs, ground, state):
                state[S_DETAIL] = LOST
                outcome = GROW
                break
        while row < limit:
            here = letters[row] & net.tested
            if here == 0 or looking.windows[0, row] <= row:
                row += 1  # no variable takes it, or its time is NULL
                continue
            if state[Q_PENDING] == 0:
                # Classes whose windows have closed are swept once the classes have doubled.
                if state[F_ALIVE] > state[F_SWEEP]:
                    bury(False, row, classes, state)
                if proxies and merging and state[F_HASHED] == 0 and state[F_ALIVE] > CROWD:
                    crowd(classes, looking.values, state)
                count = _collect(row, here, proxies, net, looking, negations, classes, runs, ground, state)
                if count < 0:
                    _forget(ground.candidates.shape[0], proxies, net, ground)
                    state[S_DETAIL] = CANDIDATES_FULL
                    outcome = GROW
                    break
                # The buckets are used only while candidates are collected.
                _forget(count, proxies, net, ground)
                tried = count if checks == 0 else min(count, checks)
                # Room is checked before runs change, so after GROW the row can be taken once more.
                if not _room(tried + (min(state[Q_AGENTS] + 1, checks) + 1 if agents.wanted else 0), learned, classes, runs, ground, state):
                    outcome = GROW
                    break
                state[Q_DONE] = 0
                if agents.wanted:
                    used = _explore(count, checks, part, row, low, high, here, proxies, agents, net, clock, looking, negations, classes, utilities, learned, runs, ground, state)
                    if used < 0:
                        outcome = ERROR
                        break
                    tried = min(count, checks - used)
                    state[Q_CHECKS] += used
                _vectors(count, part, row, tried < count, net, clock, history, utilities, learned, runs, ground)
                _choose(count, tried, row, order, net, history, utilities, runs, ground)
                state[Q_CHECKS] += tried
                state[Q_LEFT] += count - tried
                ground.left[row] = count - tried
                added = 0
                seed = _seed(count, net, clock, agents, ground, state) if agents.wanted and count <= checks and tried == count else np.int64(NONE)
                # The heap's end has the chosen candidates, the first one last.
                for i in range(count - 1, count - tried - 1, -1):
                    entries = state[K_ENTRIES]
                    added = _try(ground.heap[i], part, row, low, high, added, proxies, net, looking, negations, classes, utilities, learned, runs, ground, state)
                    if added < 0:
                        break
                    if ground.heap[i] == seed and state[K_ENTRIES] > entries:
                        _begins(ground.candidates[seed, A_EDGE], row, agents, net, looking, negations, classes, runs, state)
                if added < 0:
                    outcome = ERROR
                    break
                _settle(row, added, proxies, merging, looking, classes, learned, runs, state)
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
                    _complete_all(net.edges, runs, ground, state)
                if learned.wanted or utilities.wanted:
                    for i in range(state[Q_DONE]):
                        _reached(ground.done[i, 0], part, row, utilities, learned, runs, state)
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
        if saved_runs.wanted and not save(part, high, going, saved_runs, classes, utilities, agents, state[Q_AGENTS], state[Q_SAVED], runs, state):
            state[S_DETAIL] = SAVED_FULL
            outcome = GROW
            break
        opens[part, O_START] = row
        if state[F_ALIVE] > 0:
            bury(True, row, classes, state)
        if agents.wanted:
            _dismiss(agents, classes, state)
        state[K_ENTRIES] = 0
        part += 1
        row = opens[part, O_START] if part < parts else high
        state[S_NUMBER] = 0
    state[S_PART] = part
    state[S_START] = row
    return outcome
