"""Saves and restores the runs of a partition that still grows, under a budget, between two calls.

The best-effort search (:mod:`sparkcep.kernels.budget.best_effort`) calls these functions when it enters and leaves a partition. Of
a run only its rows and the edges that took them are saved. The values that conditions read, the windows of groups and what may
block the run follow from these: they are recomputed by letting the run take its rows once more. A run whose window no future row
can enter is not saved.

Beside the runs, the partition's counts for utility (:mod:`sparkcep.kernels.budget.utility`) and the values that agents have learned
(:mod:`sparkcep.kernels.budget.q_learning`) are saved.

Example: the runs with rows 4, 5 and with rows 4, 6 share their first row. The entries are (row 4, edge 0, -1), (row 5, edge 1, 0)
and (row 6, edge 1, 0). The runs are their last entries 1 and 2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.compiler.net.net import E_TARGET, E_VAR
from sparkcep.kernels.budget.features import begin_copy, code_of, feature_vector
from sparkcep.kernels.budget.layout import (
    Q_AGENTS,
    Q_ENDS,
    Q_SAVED,
    Q_VECTORS,
    R_BUNDLES,
    R_INTERVALS,
    R_LAST,
    V_CODE,
    V_END,
    V_POINTS,
    V_VISITS,
)
from sparkcep.kernels.budget.negation import begins_by_negation, distinguish, free_from, partition_begin
from sparkcep.kernels.budget.q_learning import G_ACTION, G_CLASS, G_STATE
from sparkcep.kernels.budget.utility import P_PART, P_REACHED, P_TRIED
from sparkcep.kernels.common.hash_table import fill, mixed
from sparkcep.kernels.common.run_chains import C_EDGE, C_PARENT, C_START, NONE, append
from sparkcep.kernels.frontier.frontier import fulfils, new_class
from sparkcep.kernels.frontier.payload import K_ENTRIES, mark
from sparkcep.kernels.frontier.run_classes import F_ALIVE, I_AFTER, I_NODE, give_back
from sparkcep.kernels.jit.cache import embedded, kernel

# The lists of each partition:
# L_ENTRIES: entries of runs (row, edge, entry before; a first row has NONE, or UNBLOCKED if no row in its window blocks the run).
# L_RUNS: runs in order of their nodes (last entry).
# L_VECTORS: features (code, tries, match points).
# L_SUMS: places and costs (number, tries, match points).
# L_AGENTS: agents (last entry, position, action, reward).
# L_VALUES: values of the agents' actions (place, tries, value).
# L_BEGUN: how many agents began at a place and cost (number, count).
# Only with REFILL:
# L_COPY: at most one item (last match point of the open bundle, bundles so far, intervals of all these features).
# L_RECORDED: recorded features (code, visits, match points).
# L_LED: bundles that they led to (code, bundle).
# L_SEEN: features of each run's last visits (number of the run, number of the place and cost, 1 + code).
# L_OWN, L_OWN_LED: the history that replaced the clause's, like L_RECORDED and L_LED. The kernel does not read it.
L_ENTRIES, L_RUNS, L_VECTORS, L_SUMS, L_AGENTS, L_VALUES, L_BEGUN, L_COPY, L_RECORDED, L_LED, L_SEEN, L_OWN, L_OWN_LED, LISTS = range(14)
WIDTHS = (3, 1, 3, 3, 4, 3, 2, 3, 3, 2, 3, 3, 2)
UNBLOCKED = NONE - 1


class SavedLists(NamedTuple):
    """The lists of all partitions, concatenated. Each is int64 (n, its width); floats are saved as their bits.

    ``until`` int64 (partitions + 1, LISTS) has the range of each partition. ``saved`` int64 (partitions) is what is saved for
    agents.
    """

    entries: np.ndarray
    runs: np.ndarray
    vectors: np.ndarray
    sums: np.ndarray
    agents: np.ndarray
    values: np.ndarray
    begun: np.ndarray
    copy: np.ndarray
    recorded: np.ndarray
    led: np.ndarray
    seen: np.ndarray
    own: np.ndarray
    own_led: np.ndarray
    until: np.ndarray
    saved: np.ndarray


class SavedRuns(NamedTuple):
    """Saved runs before and after a call.

    Attributes:
        wanted: whether partitions continue from one call to the next.
        before: the lists that the last call saved.
        after: the lists that this call saves.
        floors: int64 (partitions, variables), for each negated variable the first position that no dropped row blocks as a match
            start.
        fresh: int64 (partitions), the first row that ``floors`` does not include.
        over: int64 (partitions), the first row whose window an unsearched row may enter.
        path, number: int64 (rows of the longest run) and int64 (entries), working memory.
    """

    wanted: bool
    before: SavedLists
    after: SavedLists
    floors: np.ndarray
    fresh: np.ndarray
    over: np.ndarray
    path: np.ndarray
    number: np.ndarray


@embedded
def first_row(entry, row, runs):
    """The first row of a run in the buffer, which has all rows of the partition from there to ``row``."""
    return row - (runs.positions[row] - runs.pool[entry, C_START])


@embedded
def labelled(entry, before, e, net, ground):
    """Writes the digest of the variables of a run that continues after the entry ``before``."""
    ground.labels[entry] = np.int64(mixed(np.uint64(ground.labels[before] if before != NONE else 0), net.variables[e]))


# -- a partition goes on ----------------------------------------------------------------------------------------------


@kernel
def resume(part, low, high, saved_runs, arrays, state):
    """Restores the runs of a partition in order. Returns False if a saved run is impossible for these rows. The caller has made
    room."""
    net, utilities, learned, classes, runs = arrays.net, arrays.utilities, arrays.learned, arrays.classes, arrays.runs
    kept = saved_runs.before
    first = kept.until[part, L_ENTRIES]
    if learned.wanted:
        _restore_copy(part, saved_runs, arrays, state)
    for i in range(first, kept.until[part + 1, L_ENTRIES]):
        entry, row, e, before = i - first, kept.entries[i, 0], kept.entries[i, 1], max(kept.entries[i, 2], NONE)
        append(runs.pool, entry, before, e, runs.positions[row])
        runs.at[entry] = row
        labelled(entry, before, e, net, arrays.ground)
        if utilities.wanted:
            last = runs.at[before] if before != NONE else row
            utilities.vector[entry] = code_of(e, first_row(entry, row, runs), last, row, utilities.intervals, net, arrays.clock)
            arrays.learned.mark[entry] = NONE
    state[K_ENTRIES] = kept.until[part + 1, L_ENTRIES] - first
    if learned.wanted and arrays.refill.now[R_INTERVALS] == arrays.clock.intervals:
        _record_entries(part, arrays, state)
    seen = kept.until[part + 1, L_SEEN]
    for i in range(kept.until[part + 1, L_RUNS] - 1, kept.until[part, L_RUNS] - 1, -1):
        c = _class_of(part, kept.runs[i, 0], low, high, saved_runs, net, arrays.looking, arrays.negations, classes, runs, state)
        if c == NONE:
            return False
        node = classes.info[c, I_NODE]
        classes.info[c, I_AFTER] = classes.head[0, node]
        classes.head[0, node] = c
        state[F_ALIVE] += 1
        if learned.wanted:
            fill(learned.seen[c], 0)
            # Both lists are in order of the runs.
            while seen > kept.until[part, L_SEEN] and kept.seen[seen - 1, 0] == i - kept.until[part, L_RUNS]:
                seen -= 1
                learned.seen[c, kept.seen[seen, 1]] = kept.seen[seen, 2]
    return True


@embedded
def _restore_copy(part, saved_runs, arrays, state):
    """Restores what the partition has recorded. The caller has made room."""
    learned, now, kept = arrays.learned, arrays.refill.now, saved_runs.before
    for i in range(kept.until[part, L_COPY], kept.until[part + 1, L_COPY]):
        now[R_LAST] = kept.copy[i, 0]
        now[R_BUNDLES] = kept.copy[i, 1]
        now[R_INTERVALS] = kept.copy[i, 2]
    for i in range(kept.until[part, L_RECORDED], kept.until[part + 1, L_RECORDED]):
        at = feature_vector(part, kept.recorded[i, 0], learned, state)
        learned.vectors[at, V_VISITS] = kept.recorded[i, 1]
        learned.vectors[at, V_POINTS] = kept.recorded[i, 2]
    for i in range(kept.until[part, L_LED], kept.until[part + 1, L_LED]):
        at = feature_vector(part, kept.led[i, 0], learned, state)
        learned.vectors[at, V_END] = max(learned.vectors[at, V_END], kept.led[i, 1])
        learned.ends[state[Q_ENDS], 0] = at
        learned.ends[state[Q_ENDS], 1] = kept.led[i, 1]
        state[Q_ENDS] += 1


@embedded
def _record_entries(part, arrays, state):
    """Restores the features of all entries. They follow from the rows."""
    runs = arrays.runs
    for entry in range(state[K_ENTRIES]):
        row, before = runs.at[entry], runs.pool[entry, C_PARENT]
        last = runs.at[before] if before != NONE else row
        code = code_of(runs.pool[entry, C_EDGE], first_row(entry, row, runs), last, row, arrays.clock.intervals, arrays.net, arrays.clock)
        arrays.learned.vector[entry] = feature_vector(part, code, arrays.learned, state)
        arrays.learned.mark[entry] = NONE


@kernel
def forget_copy(part, arrays, state):
    """Forgets what a partition has recorded, and its own history, because another history has other intervals."""
    learned, classes = arrays.learned, arrays.classes
    begin_copy(arrays.clock, learned, arrays.refill, state)
    arrays.refill.owns[part] = 0
    _record_entries(part, arrays, state)
    for node in range(classes.head.shape[1]):
        c = classes.head[0, node]
        while c != NONE:
            fill(learned.seen[c], 0)
            c = classes.info[c, I_AFTER]


@kernel
def _class_of(part, entry, low, high, saved_runs, net, looking, negations, classes, runs, state):
    """Restores the class of the run with this last entry by taking its rows once more. Returns NONE if a condition does not
    hold."""
    path, edges = saved_runs.path, net.edges
    depth = 0
    at = entry
    while at != NONE:
        path[depth] = at
        depth += 1
        at = runs.pool[at, C_PARENT]
    place = np.int64(NONE)
    for d in range(depth - 1, -1, -1):
        row, e = runs.at[path[d]], runs.pool[path[d], C_EDGE]
        v, target = edges[e, E_VAR], edges[e, E_TARGET]
        if looking.conditions.entry[v] >= 0 or looking.values.valued[target] == 1:
            if fulfils(place, v, e, row, low, high, edges, looking, state) <= 0:
                return np.int64(NONE)
        c = new_class(place, e, row, edges, looking, classes, state)
        classes.until[c] = looking.windows[0, row] - 1 if place == NONE else classes.until[place]
        if negations.some:
            begin = classes.ends[place, negations.windows] if place != NONE else _saved_begin(part, path[d], e, row, saved_runs, edges, negations)
            distinguish(c, begin, target, row, classes, negations)
        if place != NONE:
            give_back(place, classes, state)
        place = c
    runs.run[place] = entry
    return place


@embedded
def _saved_begin(part, entry, e, row, saved_runs, edges, negations):
    """The begin of a run with this first entry, see :func:`run_begin`. Rows of its window may have been dropped."""
    kept = saved_runs.before
    if kept.entries[kept.until[part, L_ENTRIES] + entry, 2] == UNBLOCKED:
        return partition_begin(negations)
    return free_from(e, row, edges, negations)


@kernel
def raise_floor(part, high, saved_runs, negations, runs):
    """Restores what blocks match starts among the rows that were dropped."""
    origin = high - 1 - runs.positions[high - 1]
    count = negations.floor.shape[0] - 2
    for v in range(count):
        negations.floor[v] = origin + saved_runs.floors[part, v]
    negations.floor[count] = origin
    negations.floor[count + 1] = saved_runs.fresh[part]


@kernel
def restore_utilities(part, saved_runs, utilities):
    """Restores the counts of the partition's features."""
    utilities.many[0] = 0
    utilities.many[1] = 0
    kept = saved_runs.before
    _counts_of(kept.vectors, kept.until[part, L_VECTORS], kept.until[part + 1, L_VECTORS], part, 0, utilities.counts, utilities.met, utilities.many)
    _counts_of(kept.sums, kept.until[part, L_SUMS], kept.until[part + 1, L_SUMS], part, 1, utilities.sums, utilities.met_kinds, utilities.many)


@embedded
def _counts_of(table, first, end, part, k, counts, met, many):
    for i in range(first, end):
        at = table[i, 0]
        counts[at, P_PART] = part
        counts[at, P_TRIED] = table[i, 1]
        counts[at, P_REACHED] = table[i, 2]
        met[many[k]] = at
        many[k] += 1


@kernel
def restore(part, low, high, saved_runs, net, looking, negations, classes, agents, runs, state):
    """Restores the agents of a partition. Returns their number, or -1 if a saved run is impossible for these rows.

    An agent whose window has closed does not have a run any more, and ends with the next row.
    """
    kept = saved_runs.before
    agents.many[0] = 0
    for i in range(kept.until[part, L_BEGUN], kept.until[part + 1, L_BEGUN]):
        agents.begun[kept.begun[i, 0]] = kept.begun[i, 1]
    for i in range(kept.until[part, L_VALUES], kept.until[part + 1, L_VALUES]):
        at = kept.values[i, 0]
        agents.owner[at] = part
        agents.tries[at] = kept.values[i, 1]
        agents.value_bits[at] = kept.values[i, 2]
        agents.met[agents.many[0]] = at
        agents.many[0] += 1
    count = 0
    for i in range(kept.until[part, L_AGENTS], kept.until[part + 1, L_AGENTS]):
        entry = kept.agents[i, 0]
        if entry != NONE:
            c = _class_of(part, entry, low, high, saved_runs, net, looking, negations, classes, runs, state)
            if c == NONE:
                return -1
        else:
            c = new_class(np.int64(NONE), np.int64(0), low, net.edges, looking, classes, state)
            classes.until[c] = NONE
            runs.run[c] = NONE
        agents.alive[count, G_CLASS] = c
        agents.alive[count, G_STATE] = kept.agents[i, 1]
        at = kept.agents[i, 2]
        # The action does not have a value yet. The value there belongs to another partition.
        if at != NONE and agents.owner[at] != part:
            agents.owner[at] = part
            agents.tries[at] = 0
            agents.value_bits[at] = 0
        agents.alive[count, G_ACTION] = at
        agents.earned_bits[count] = kept.agents[i, 3]
        count += 1
    return count


# -- a partition is left ----------------------------------------------------------------------------------------------


@embedded
def _fits(table, at, more):
    return at + more <= table.shape[0]


@kernel
def save(part, high, going, saved_runs, arrays, state):
    """Saves a partition. Returns False if an array is full."""
    classes, utilities, agents, learned, runs = arrays.classes, arrays.utilities, arrays.agents, arrays.learned, arrays.runs
    after, number, count = saved_runs.after, saved_runs.number, state[Q_AGENTS]
    until = after.until
    for k in range(LISTS):
        until[part + 1, k] = until[part, k]
    after.saved[part] = 0
    if not going:
        return True
    entries = state[K_ENTRIES]
    begun = agents.begun.shape[0] if agents.wanted else 0
    values = agents.many[0] if agents.wanted else 0
    vectors, sums = (utilities.many[0], utilities.many[1]) if utilities.wanted else (0, 0)
    if (
        number.shape[0] < entries or not _fits(after.entries, until[part, L_ENTRIES], entries) or not _fits(after.runs, until[part, L_RUNS], state[F_ALIVE])
        or not _fits(after.vectors, until[part, L_VECTORS], vectors) or not _fits(after.sums, until[part, L_SUMS], sums) or not _fits(after.agents, until[part, L_AGENTS], count)
        or not _fits(after.values, until[part, L_VALUES], values) or not _fits(after.begun, until[part, L_BEGUN], begun)
    ):  # fmt: skip
        return False
    if learned.wanted and (
        not _fits(after.copy, until[part, L_COPY], 1) or not _fits(after.recorded, until[part, L_RECORDED], state[Q_VECTORS]) or not _fits(after.led, until[part, L_LED], state[Q_ENDS])
        or not _fits(after.seen, until[part, L_SEEN], state[F_ALIVE] * learned.seen.shape[1])
    ):  # fmt: skip
        return False
    _park_runs(part, high, saved_runs, learned, classes, agents, count, runs, state)
    if arrays.negations.some and begins_by_negation(arrays.net.edges, arrays.negations):
        _note_unblocked(part, saved_runs, arrays, count)
    if learned.wanted:
        _park_copy(part, saved_runs, learned, arrays.refill, state)
    if utilities.wanted:
        until[part + 1, L_VECTORS] = _saved_counts(after.vectors, until[part, L_VECTORS], utilities.counts, utilities.met, vectors)
        until[part + 1, L_SUMS] = _saved_counts(after.sums, until[part, L_SUMS], utilities.sums, utilities.met_kinds, sums)
    if agents.wanted:
        after.saved[part] = state[Q_SAVED]
        _park_agents(part, saved_runs, agents, runs, count)
    return True


@embedded
def _park_copy(part, saved_runs, learned, refill, state):
    """Saves what the partition has recorded. Features without visits and match points are as good as unknown."""
    after, vectors = saved_runs.after, learned.vectors
    at = after.until[part, L_RECORDED]
    for i in range(state[Q_VECTORS]):
        if vectors[i, V_VISITS] > 0 or vectors[i, V_POINTS] > 0:
            after.recorded[at, 0] = vectors[i, V_CODE]
            after.recorded[at, 1] = vectors[i, V_VISITS]
            after.recorded[at, 2] = vectors[i, V_POINTS]
            at += 1
    after.until[part + 1, L_RECORDED] = at
    first = after.until[part, L_LED]
    for i in range(state[Q_ENDS]):
        after.led[first + i, 0] = vectors[learned.ends[i, 0], V_CODE]
        after.led[first + i, 1] = learned.ends[i, 1]
    after.until[part + 1, L_LED] = first + state[Q_ENDS]
    first = after.until[part, L_COPY]
    if at > after.until[part, L_RECORDED] or after.until[part + 1, L_SEEN] > after.until[part, L_SEEN] or refill.owns[part] == 1:
        after.copy[first, 0] = refill.now[R_LAST]
        after.copy[first, 1] = refill.now[R_BUNDLES]
        after.copy[first, 2] = refill.now[R_INTERVALS]
        after.until[part + 1, L_COPY] = first + 1


@embedded
def _park_runs(part, high, saved_runs, learned, classes, agents, count, runs, state):
    """Saves the runs of a partition and of its agents, if a future row may continue them."""
    after, number = saved_runs.after, saved_runs.number
    for entry in range(state[K_ENTRIES]):
        number[entry] = NONE
    at, seen = after.until[part, L_RUNS], after.until[part, L_SEEN]
    for node in range(classes.head.shape[1]):
        c = classes.head[0, node]
        while c != NONE:
            entry = runs.run[c]
            if first_row(entry, high - 1, runs) >= saved_runs.over[part]:
                mark(entry, runs.pool, number)
                after.runs[at, 0] = entry
                if learned.wanted:
                    for slot in range(learned.seen.shape[1]):
                        if learned.seen[c, slot] > 0:
                            after.seen[seen, 0] = at - after.until[part, L_RUNS]
                            after.seen[seen, 1] = slot
                            after.seen[seen, 2] = learned.seen[c, slot]
                            seen += 1
                at += 1
            c = classes.info[c, I_AFTER]
    after.until[part + 1, L_RUNS] = at
    after.until[part + 1, L_SEEN] = seen
    for i in range(count):
        entry = runs.run[agents.alive[i, G_CLASS]]
        if entry != NONE and first_row(entry, high - 1, runs) >= saved_runs.over[part]:
            mark(entry, runs.pool, number)
        else:
            runs.run[agents.alive[i, G_CLASS]] = NONE
    first = after.until[part, L_ENTRIES]
    written = 0
    for entry in range(state[K_ENTRIES]):
        if number[entry] != NONE:
            number[entry] = written
            before = runs.pool[entry, C_PARENT]
            after.entries[first + written, 0] = runs.at[entry]
            after.entries[first + written, 1] = runs.pool[entry, C_EDGE]
            after.entries[first + written, 2] = number[before] if before != NONE else NONE
            written += 1
    after.until[part + 1, L_ENTRIES] = first + written
    for i in range(after.until[part, L_RUNS], at):
        after.runs[i, 0] = number[after.runs[i, 0]]


@embedded
def _note_unblocked(part, saved_runs, arrays, count):
    """Notes at the first rows of saved runs whether a row in the window blocks the run."""
    classes, runs, negations = arrays.classes, arrays.runs, arrays.negations
    for node in range(classes.head.shape[1]):
        c = classes.head[0, node]
        while c != NONE:
            _note_if_unblocked(part, c, saved_runs, classes, runs, negations)
            c = classes.info[c, I_AFTER]
    for i in range(count):
        _note_if_unblocked(part, arrays.agents.alive[i, G_CLASS], saved_runs, classes, runs, negations)


@embedded
def _note_if_unblocked(part, c, saved_runs, classes, runs, negations):
    entry = runs.run[c]
    if entry == NONE or saved_runs.number[entry] == NONE or classes.ends[c, negations.windows] != partition_begin(negations):
        return
    while runs.pool[entry, C_PARENT] != NONE:
        entry = runs.pool[entry, C_PARENT]
    saved_runs.after.entries[saved_runs.after.until[part, L_ENTRIES] + saved_runs.number[entry], 2] = UNBLOCKED


@embedded
def _saved_counts(table, at, counts, met, many):
    for i in range(many):
        table[at + i, 0] = met[i]
        table[at + i, 1] = counts[met[i], P_TRIED]
        table[at + i, 2] = counts[met[i], P_REACHED]
    return at + many


@embedded
def _park_agents(part, saved_runs, agents, runs, count):
    after, number = saved_runs.after, saved_runs.number
    at = after.until[part, L_AGENTS]
    for i in range(count):
        entry = runs.run[agents.alive[i, G_CLASS]]
        after.agents[at, 0] = number[entry] if entry != NONE else NONE
        after.agents[at, 1] = agents.alive[i, G_STATE]
        after.agents[at, 2] = agents.alive[i, G_ACTION]
        after.agents[at, 3] = agents.earned_bits[i]
        at += 1
    after.until[part + 1, L_AGENTS] = at
    at = after.until[part, L_VALUES]
    for i in range(agents.many[0]):
        after.values[at, 0] = agents.met[i]
        after.values[at, 1] = agents.tries[agents.met[i]]
        after.values[at, 2] = agents.value_bits[agents.met[i]]
        at += 1
    after.until[part + 1, L_VALUES] = at
    at = after.until[part, L_BEGUN]
    for k in range(agents.begun.shape[0]):
        if agents.begun[k] > 0:
            after.begun[at, 0] = k
            after.begun[at, 1] = agents.begun[k]
            at += 1
    after.until[part + 1, L_BEGUN] = at
