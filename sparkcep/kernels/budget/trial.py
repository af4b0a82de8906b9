"""Trial of a candidate: its conditions are evaluated, and a run that takes the row becomes a new run.

The best-effort search (:mod:`sparkcep.kernels.budget.best_effort`) and agents (:mod:`sparkcep.kernels.budget.exploration`) try. The
visits of features are counted here, and the match points that followed.
"""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.net.net import E_TARGET, E_VAR
from sparkcep.kernels.budget.features import feature_vector
from sparkcep.kernels.budget.layout import (
    A_CLASS,
    A_CODE,
    A_CODE_OF_UTILITY,
    A_EDGE,
    A_ENTRY,
    CANDIDATES_FULL,
    CLASSES_FULL,
    ENTRIES_FULL,
    Q_DONE,
    Q_ENDS,
    Q_VECTORS,
    V_BEGUN,
    V_END,
    V_LAST,
    V_POINTS,
    V_VISITS,
    VECTORS_FULL,
)
from sparkcep.kernels.budget.negation import completing, distinguish, run_begin
from sparkcep.kernels.budget.save_runs import first_row, labelled
from sparkcep.kernels.budget.utility import led_on, was_tried
from sparkcep.kernels.common.hash_table import fill
from sparkcep.kernels.common.layout import S_DETAIL
from sparkcep.kernels.common.run_chains import C_PARENT, NONE, append
from sparkcep.kernels.frontier.frontier import fulfils, new_class
from sparkcep.kernels.frontier.payload import K_ENTRIES, complete, preferred
from sparkcep.kernels.frontier.run_classes import F_ALIVE, F_FREE, F_USED, I_AFTER, I_NODE, found, give_back
from sparkcep.kernels.jit.cache import embedded


@embedded
def count_visit(i, part, row, net, learned, ground, state):
    """Counts a visit of a candidate's features, once for each run. Returns the vector's number."""
    candidates, vectors = ground.candidates, learned.vectors
    at = feature_vector(part, candidates[i, A_CODE], learned, state)
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
def count_match_point(entry, part, row, end, utilities, learned, runs, state):
    """Notes the match point ``row`` at all features of a complete run, and ``end`` (the match point or its bundle) in ``ends``. The
    caller has made room."""
    while entry != NONE and learned.mark[entry] != row:
        learned.mark[entry] = row
        if utilities.wanted:
            led_on(utilities.vector[entry], part, utilities)
        if learned.wanted:
            at = learned.vector[entry]
            if learned.vectors[at, V_LAST] != row:
                learned.vectors[at, V_LAST] = row
                learned.vectors[at, V_POINTS] += 1
                if learned.vectors[at, V_END] != end:
                    learned.vectors[at, V_END] = end
                    learned.ends[state[Q_ENDS], 0] = at
                    learned.ends[state[Q_ENDS], 1] = end
                    state[Q_ENDS] += 1
        entry = runs.pool[entry, C_PARENT]


@embedded
def has_room(tried, learned, classes, runs, ground, state):
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
def complete_all(edges, runs, ground, state):
    """Compares all judged runs with the best one of the row."""
    for i in range(state[Q_DONE]):
        complete(ground.done[i, 0] - state[K_ENTRIES], ground.done[i, 1], i == 0, edges, None, None, runs, state)


@embedded
def take_candidate(place, e, before, vector, utility_code, row, low, high, proxies, arrays, state):
    """Lets a run with last entry ``before`` take the row by an edge, with these features.

    Returns 1 if it does, and then the newest entry is its own. Returns 0 if a condition does not hold, -1 for an error.
    """
    net, looking, negations, classes = arrays.net, arrays.looking, arrays.negations, arrays.classes
    utilities, learned, runs, ground = arrays.utilities, arrays.learned, arrays.runs, arrays.ground
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
        begin = run_begin(place, e, row, edges, classes, negations)
        accepting = completing(np.int64(0), target, begin, row, high, first_row(entry, row, runs), looking.windows, edges, negations)
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
def try_candidate(i, part, row, low, high, count, proxies, arrays, state):
    """Tries a candidate. Returns how many classes the row has added by now, or -1 for an error."""
    net, looking, negations, classes = arrays.net, arrays.looking, arrays.negations, arrays.classes
    utilities, learned, runs, ground = arrays.utilities, arrays.learned, arrays.runs, arrays.ground
    place, e, before = ground.candidates[i, A_CLASS], ground.candidates[i, A_EDGE], ground.candidates[i, A_ENTRY]
    vector = np.int64(NONE)
    utility_code = ground.candidates[i, A_CODE_OF_UTILITY]
    if learned.wanted:
        vector = count_visit(i, part, row, net, learned, ground, state)
    if utilities.wanted:
        was_tried(utility_code, part, utilities)
    got = take_candidate(place, e, before, vector, utility_code, row, low, high, proxies, arrays, state)
    if got < 0:
        return -1
    if got == 0 or net.masks[net.edges[e, E_TARGET]] == 0:
        return count
    c = new_class(place, e, row, net.edges, looking, classes, state)
    classes.until[c] = looking.windows[0, row] - 1 if place == NONE else classes.until[place]
    if negations.some:
        distinguish(c, run_begin(place, e, row, net.edges, classes, negations), net.edges[e, E_TARGET], row, classes, negations)
    runs.run[c] = state[K_ENTRIES] - 1
    classes.pending[count, 0] = c
    return count + 1


@embedded
def settle(row, count, proxies, merging, looking, classes, learned, runs, state):
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
