"""Payload of a run class: how many matches it leads to, the nodes of their graph, or its cheapest run.

Runs of one class have equal futures (:mod:`sparkcep.kernels.frontier.frontier`). So a class keeps of its past only what the answer
needs:

=======  ====================================================================================================================
Numbers  how many runs began at each row of the window
Graph    the nodes of a shared match buffer (SASE+, SIGMOD 2008, section 5), see below
Runs     one run: the latest first row, of those the earliest rows, of those the preferred way (ACEP, VLDB 2016,
         section 3.3, Theorem 2). A run is a chain of entries, newest first, that shares its tail with others
         (:mod:`sparkcep.kernels.common.run_chains`). The cost of a run so far is part of its node. So one run of each
         class is also enough for the best match of each cost: all runs of a class complete at equal costs
=======  ====================================================================================================================

A node of the graph is a row taken. Its predecessors are the members that its source class had at that moment. Members are chained
from the newest to the oldest, so a set of edges is one integer. The graph is linear in rows x classes, however many matches it
holds. The paper distinguishes paths by version numbers (5.1). Here each node has the latest start of any path into it. Given the
first row of the current window, every path through the remaining nodes is a match.

Example: the graph of ``A+ B`` under strict contiguity, over rows 0 (A), 1 (A) and 2 (B).

====  ===  =====  ======  =====  =====  =============================================
node  row  label  source  chain  start  meaning
====  ===  =====  ======  =====  =====  =============================================
0     0    A      -1      -1     0      a run begins
1     1    A      -1      -1     1      a run begins
2     1    A      0       1      0      the run of node 0 goes on; 1 is in its class
3     2    B      2       -1     1      completes the matches that end in 2 and in 1
====  ===  =====  ======  =====  =====  =============================================

The functions of the last section get all three payloads, and just one of them is not None. They are compiled for that one alone:
numba leaves out the code under ``is not None`` for the others, but not an ``else``. Each further payload is one more branch in each
function.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.compiler.net.net import E_COST, E_LABEL
from sparkcep.kernels.common.cursor import put_event
from sparkcep.kernels.common.layout import E_ACCEPT, S_DETAIL, S_EVENTS, S_LABELS, S_NUMBER
from sparkcep.kernels.common.run_chains import (
    C_DEPTH,
    C_EDGE,
    C_EDGES,
    C_FIELDS,
    C_JUMP,
    C_PARENT,
    C_ROWS,
    C_START,
    NONE,
    append,
    comes_first,
)
from sparkcep.kernels.frontier.run_classes import FUTURES_STATE, I_AFTER
from sparkcep.kernels.jit.cache import allocating, embedded, inlined, kernel

# State after that of the classes:
# K_BACK: first row of the window.
# K_OLDEST, K_NEXT: Numbers: oldest start in the window, the start after the newest one.
# K_NODES, K_STAMP, K_FRESH: Graph: nodes, stamp of visits, first node of the row.
# K_ENTRIES, K_KEPT: Runs: entries, and how many of them other partitions have.
# K_UNEMITTED, K_LATEST: Runs: the lowest cost of the current row's matches that is not yet emitted, and the latest start of those
#   emitted (NONE: none).
K_BACK, K_OLDEST, K_NEXT, K_NODES, K_STAMP, K_FRESH, K_ENTRIES, K_KEPT, K_UNEMITTED, K_LATEST, CARGO_STATE = range(FUTURES_STATE, FUTURES_STATE + 11)
# Columns of Graph.nodes: row, label, newest predecessor, next older member of its class, latest start, complete.
N_ROW, N_LABEL, N_SOURCE, N_CHAIN, N_START, N_DONE = range(6)
B_RUN, B_EDGE = range(2)  # columns of Runs.best: the run, NONE if there is none, and the edge that completes it
LIVE, CHAINED = 1, 2  # bits of a visit: on a path; member of a set of edges that reaches from there to the oldest


class RunCounts(NamedTuple):
    """Payload for numbers of matches: how many runs of a class began at each start row of the window.

    Attributes:
        sums: uint64 (classes, starts, 2), the number of runs from each start, as low and high word.
        about: float64 (classes, starts), the number as a float.
        added, added_about: the numbers that one row adds.
        starts: int64 (starts), the row of each start, at its number modulo their count. Without a window all runs are of one start.
        rows: int64 (n), output: last rows.
        totals: uint64 (n + 1, 2), output: their numbers of matches, followed by that of the current row.
        totals_about: float64 (n + 1), output: the totals as floats.
    """

    sums: np.ndarray
    about: np.ndarray
    added: np.ndarray
    added_about: np.ndarray
    starts: np.ndarray
    rows: np.ndarray
    totals: np.ndarray
    totals_about: np.ndarray


class GraphArrays(NamedTuple):
    """Payload for graphs of matches.

    Attributes:
        tail, start: int64 (classes), newest member, and latest start of the class's runs.
        nodes: int64 (m, 6), see the module's example.
        mark: int64 (m), working memory of one last row: stamp of the visit and its bits.
        leader, place: int64 (m), first live member of a node's class, and live members up to the node.
        base: int64 (m), where a leader's class begins.
        order, stack: int64 (m).
        sums, about: uint64 (m, 2) and float64 (m), paths into a node and into the older members of its class.
        rows, totals, totals_about: output as in :class:`RunCounts`.
        until: int64 (n + 1), output: the range of ``items`` of each last row.
        items: int64 (k, 5), output: position in the partition, label, range of predecessors (-1: none), complete.
    """

    tail: np.ndarray
    start: np.ndarray
    nodes: np.ndarray
    mark: np.ndarray
    leader: np.ndarray
    place: np.ndarray
    base: np.ndarray
    order: np.ndarray
    stack: np.ndarray
    sums: np.ndarray
    about: np.ndarray
    rows: np.ndarray
    totals: np.ndarray
    totals_about: np.ndarray
    until: np.ndarray
    items: np.ndarray


class Runs(NamedTuple):
    """Payload for cheapest matches.

    Attributes:
        run: int64 (classes), the last entry of each class's run. Empty if a class is its run; then its place is this entry.
        pool: int64 (n, C_FIELDS) as in :mod:`sparkcep.kernels.common.run_chains`. Its rows are positions in the stream, which stay
            when the buffer moves on.
        at: int64 (n), the row of each entry in the buffer.
        positions: int64 (rows), the position of each row of the buffer.
        rank: int64 (edges), the row of ``best`` for the matches that an accepting edge completes.
        best: int64 (m, 2), the best matches that the current row completes, the cheapest first.
        events, labels, rows, paths: output; ``paths`` are the edges of the labels.
    """

    run: np.ndarray
    pool: np.ndarray
    at: np.ndarray
    positions: np.ndarray
    rank: np.ndarray
    best: np.ndarray
    events: np.ndarray
    labels: np.ndarray
    rows: np.ndarray
    paths: np.ndarray


# -- numbers --------------------------------------------------------------------------------------------------------


@inlined
def _add(total, low, high):
    """Adds a number of two words to ``total`` uint64 (2), modulo 2**128."""
    word = total[0] + low
    total[1] = total[1] + high + (np.uint64(1) if word < low else np.uint64(0))
    total[0] = word


@kernel
def begin(row, numbers, state):
    """Adds a start at a row. Returns False if ``starts`` is full. The numbers of the classes in use are 0 there."""
    starts = numbers.starts
    if state[K_NEXT] > state[K_OLDEST] and starts[(state[K_NEXT] - 1) & (starts.shape[0] - 1)] == row:
        return True  # the row is looked at once more, with more room
    if state[K_NEXT] - state[K_OLDEST] == starts.shape[0]:
        return False
    starts[state[K_NEXT] & (starts.shape[0] - 1)] = row
    state[K_NEXT] += 1
    return True


@kernel
def end_starts(classes, numbers, state):
    """Removes the starts before the window from the numbers."""
    size = numbers.starts.shape[0]
    while state[K_OLDEST] < state[K_NEXT] and numbers.starts[state[K_OLDEST] & (size - 1)] < state[K_BACK]:
        x = state[K_OLDEST] & (size - 1)
        for node in range(classes.head.shape[1]):
            c = classes.head[0, node]
            while c != NONE:
                numbers.sums[c, x, 0] = 0
                numbers.sums[c, x, 1] = 0
                numbers.about[c, x] = 0.0
                c = classes.info[c, I_AFTER]
        state[K_OLDEST] += 1


# -- graphs ---------------------------------------------------------------------------------------------------------


@kernel
def drop_nodes(graph, state):
    """Removes the nodes of rows before the window from a full graph. Returns whether that freed half of it."""
    nodes = graph.nodes
    count = state[K_NODES]
    gone = 0
    while gone < count and nodes[gone, N_ROW] < state[K_BACK]:
        gone += 1
    if gone < count // 2 or gone == 0:
        return False
    for n in range(gone, count):
        for k in range(nodes.shape[1]):
            nodes[n - gone, k] = nodes[n, k]
        for k in (N_SOURCE, N_CHAIN):
            # A node whose source was removed is not on a path of this window.
            nodes[n - gone, k] = max(nodes[n, k] - gone, NONE)
    for c in range(graph.tail.shape[0]):
        # This includes free places, whose tails are never read.
        graph.tail[c] = max(graph.tail[c] - gone, NONE)
    state[K_NODES] = count - gone
    return True


@kernel
def _ascend(order, count):
    """Sorts the first numbers of an array in place (Shell sort)."""
    gap = count // 2
    while gap > 0:
        for i in range(gap, count):
            x = order[i]
            j = i
            while j >= gap and order[j - gap] > x:
                order[j] = order[j - gap]
                j -= gap
            order[j] = x
        gap //= 2


@kernel
def _visit(fresh, back, graph, state):
    """Marks the nodes on paths of the window to the complete nodes from ``fresh`` on.

    Returns (their number, the visit's stamp). ``order`` gets them in ascending order.
    """
    nodes, mark, order, stack = graph.nodes, graph.mark, graph.order, graph.stack
    state[K_STAMP] += 1
    stamp = state[K_STAMP] * 4
    count = 0
    top = 0
    oldest = state[K_NODES]
    for n in range(fresh, state[K_NODES]):
        if nodes[n, N_DONE] == 1:
            mark[n] = stamp | LIVE
            order[count] = n
            count += 1
            if nodes[n, N_SOURCE] != NONE:
                stack[top] = nodes[n, N_SOURCE]
                top += 1
    while top > 0:
        top -= 1
        n = stack[top]
        while n != NONE and nodes[n, N_ROW] >= back and mark[n] < stamp:
            mark[n] = stamp | CHAINED
            order[count] = n
            count += 1
            oldest = min(oldest, n)
            if nodes[n, N_START] >= back:
                mark[n] |= LIVE
                source = nodes[n, N_SOURCE]
                if source != NONE and mark[source] < stamp:
                    stack[top] = source
                    top += 1
            n = nodes[n, N_CHAIN]
    # If the visit has marked a large part of the range, a scan of the range is cheaper than sorting.
    if count * 8 > state[K_NODES] - oldest:
        count = 0
        for n in range(min(oldest, fresh), state[K_NODES]):
            if mark[n] >= stamp:
                order[count] = n
                count += 1
    else:
        _ascend(order, count)
    return count, stamp


@kernel
def _number(count, stamp, graph, at):
    """Adds the number of paths to the complete nodes to the totals at ``at``. Ascending nodes are in topological order."""
    nodes, mark, sums, about = graph.nodes, graph.mark, graph.sums, graph.about
    for i in range(count):
        n = graph.order[i]
        sums[n, 0] = 0
        sums[n, 1] = 0
        about[n] = 0.0
        if mark[n] & LIVE != 0:
            source = nodes[n, N_SOURCE]
            if source == NONE:
                sums[n, 0] = 1
                about[n] = 1.0
            else:
                _add(sums[n], sums[source, 0], sums[source, 1])
                about[n] = about[source]
            if nodes[n, N_DONE] == 1 and mark[n] & CHAINED == 0:
                _add(graph.totals[at], sums[n, 0], sums[n, 1])
                graph.totals_about[at] += about[n]
        older = nodes[n, N_CHAIN]
        if older != NONE and mark[n] & CHAINED != 0 and mark[older] >= stamp:
            _add(sums[n], sums[older, 0], sums[older, 1])
            about[n] += about[older]


@kernel
def _draw(count, stamp, fresh, low, graph, items, first):
    """Writes the live nodes, class by class and by age, so that each edge set is a range. Returns their number."""
    nodes, mark, leader, place, base = graph.nodes, graph.mark, graph.leader, graph.place, graph.base
    for i in range(count):
        n = graph.order[i]
        older = nodes[n, N_CHAIN]
        leader[n] = NONE
        place[n] = 0
        if older != NONE and mark[older] >= stamp and leader[older] != NONE:
            leader[n] = leader[older]
            place[n] = place[older]
        if mark[n] & LIVE != 0:
            if leader[n] == NONE:
                leader[n] = n
                base[n] = 0
            place[n] += 1
            base[leader[n]] += 1
    drawn = 0
    for i in range(count):
        n = graph.order[i]
        if leader[n] == n:
            many = base[n]
            base[n] = drawn
            drawn += many
    for i in range(count):
        n = graph.order[i]
        if mark[n] & LIVE == 0:
            continue
        at = first + base[leader[n]] + place[n] - 1
        source = nodes[n, N_SOURCE]
        items[at, 0] = nodes[n, N_ROW] - low
        items[at, 1] = nodes[n, N_LABEL] & 63
        items[at, 2] = NONE if source == NONE else base[leader[source]]
        items[at, 3] = NONE if source == NONE else base[leader[source]] + place[source]
        items[at, 4] = 1 if n >= fresh and nodes[n, N_DONE] == 1 else 0
    return drawn


# -- runs -----------------------------------------------------------------------------------------------------------


@embedded
def preferred(pool, a, b):
    """Whether run ``a`` is kept instead of run ``b`` with an equal future.

    It is the one with the later first row, else the earlier rows, else the preferred path. Rows that only one of them has after the
    other's last come before any that the other can still take.
    """
    if pool[a, C_START] != pool[b, C_START]:
        return pool[a, C_START] > pool[b, C_START]
    return comes_first(pool, a, b, False)


@kernel
def completes_better(pool, a, edge_a, b, edge_b):
    """:func:`preferred` for two runs that complete at the same row at equal cost."""
    if pool[a, C_ROWS] == pool[b, C_ROWS] and pool[a, C_EDGES] == pool[b, C_EDGES]:
        return edge_a < edge_b
    return preferred(pool, a, b)


@kernel
def rebuild(pool, parents, edges, positions):
    """Fills a pool from the saved fields of its entries. Each entry comes after its parent."""
    for entry in range(parents.shape[0]):
        append(pool, entry, parents[entry], edges[entry], positions[entry])


@kernel
def resume(classes, runs, until):
    """Restores ``classes.until`` for the runs of partitions that still grow, if each class is its run.

    ``until`` (rows) is the last place inside a window that begins with each row.
    """
    for part in range(classes.head.shape[0]):
        for node in range(classes.head.shape[1]):
            run = classes.head[part, node]
            if run != NONE:
                entry = run
                while runs.pool[entry, C_PARENT] != NONE:
                    jump = runs.pool[entry, C_JUMP]
                    entry = jump if jump != NONE else runs.pool[entry, C_PARENT]
                classes.until[run] = until[runs.at[entry]]


@kernel
def mark(entry, pool, number):
    """Marks the entries of a run."""
    while entry != NONE and number[entry] == NONE:
        number[entry] = 0
        entry = pool[entry, C_PARENT]


@allocating
def compact(classes, runs, state):
    """Drops the entries that no class has, and renumbers the others."""
    pool, head, used = runs.pool, classes.head, state[K_ENTRIES]
    by_node = runs.run.shape[0] == 0
    number = np.full(used + 1, NONE, dtype=np.int64)
    for part in range(head.shape[0]):
        for node in range(head.shape[1]):
            c = head[part, node]
            while c != NONE:
                mark(c if by_node else runs.run[c], pool, number)
                c = NONE if by_node else classes.info[c, I_AFTER]
    count = 0
    for entry in range(used):
        if entry == state[K_KEPT]:
            state[K_KEPT] = count
        if number[entry] == NONE:
            continue
        number[entry] = count
        for field in range(C_FIELDS):
            pool[count, field] = pool[entry, field]
        for field in (C_PARENT, C_JUMP):
            to = pool[entry, field]
            pool[count, field] = number[to] if to >= 0 else NONE
        runs.at[count] = runs.at[entry]
        if by_node:
            classes.until[count] = classes.until[entry]
        count += 1
    state[K_KEPT] = min(state[K_KEPT], count)
    state[K_ENTRIES] = count
    for part in range(head.shape[0]):
        for node in range(head.shape[1]):
            c = head[part, node]
            if by_node and c != NONE:
                head[part, node] = number[c]
            while c != NONE and not by_node:
                runs.run[c] = number[runs.run[c]]
                c = classes.info[c, I_AFTER]


# -- what the search asks of a cargo --------------------------------------------------------------------------------


@embedded
def move_on(row, until, when, starting, windowed, classes, numbers, graph, state):
    """Moves the window to ``row``: ends the starts before it, and adds a start if one is possible (``starting``). Returns False if
    ``starts`` is full."""
    if numbers is not None or graph is not None:
        back = state[K_BACK]
        while back < row and until[back] < when[row]:
            back += 1
        state[K_BACK] = back
    if numbers is not None:
        if not windowed:
            state[K_NEXT] = 1
            return True
        end_starts(classes, numbers, state)
        return not starting or begin(row, numbers, state)
    if graph is not None:
        state[K_FRESH] = state[K_NODES]
    return True


@embedded
def carry(i, source, edge, row, label, numbers, graph, runs, state):
    """Writes the payload of class ``source`` (NONE: a new run) as the ``i``-th addition of the row. Returns False if the payload's
    array is full."""
    if runs is not None:
        entry = state[K_ENTRIES] + i
        if entry == runs.pool.shape[0]:
            return False
        before = runs.run[source] if source != NONE and runs.run.shape[0] > 0 else source
        append(runs.pool, entry, before, edge, runs.positions[row])
        runs.at[entry] = row
    if graph is not None:
        n = state[K_NODES] + i
        if n == graph.nodes.shape[0]:
            return False
        # The members that the class has now: the additions of this row are not predecessors.
        graph.nodes[n, N_ROW] = row
        graph.nodes[n, N_LABEL] = label
        graph.nodes[n, N_SOURCE] = NONE if source == NONE else graph.tail[source]
        graph.nodes[n, N_CHAIN] = NONE
        graph.nodes[n, N_START] = row if source == NONE else graph.start[source]
        graph.nodes[n, N_DONE] = 0
    if numbers is not None:
        size = numbers.starts.shape[0]
        for number in range(state[K_OLDEST], state[K_NEXT]):
            x = number & (size - 1)
            if source == NONE:
                newest = number == state[K_NEXT] - 1
                numbers.added[i, x, 0] = 1 if newest else 0
                numbers.added[i, x, 1] = 0
                numbers.added_about[i, x] = 1.0 if newest else 0.0
            else:
                numbers.added[i, x, 0] = numbers.sums[source, x, 0]
                numbers.added[i, x, 1] = numbers.sums[source, x, 1]
                numbers.added_about[i, x] = numbers.about[source, x]
    return True


@embedded
def join(i, c, fresh, numbers, graph, runs, state):
    """Adds the ``i``-th addition to class ``c``. If the class is ``fresh``, its earlier payload is discarded."""
    if runs is not None:
        entry = state[K_ENTRIES] + i
        if fresh or preferred(runs.pool, entry, runs.run[c]):
            runs.run[c] = entry
    if graph is not None:
        n = state[K_NODES] + i
        graph.nodes[n, N_CHAIN] = NONE if fresh else graph.tail[c]
        graph.tail[c] = n
        graph.start[c] = graph.nodes[n, N_START] if fresh else max(graph.start[c], graph.nodes[n, N_START])
    if numbers is not None:
        if fresh:
            for x in range(numbers.about.shape[1]):
                numbers.sums[c, x, 0] = 0
                numbers.sums[c, x, 1] = 0
                numbers.about[c, x] = 0.0
        for number in range(state[K_OLDEST], state[K_NEXT]):
            x = number & (numbers.starts.shape[0] - 1)
            if numbers.added_about[i, x] != 0.0:
                _add(numbers.sums[c, x], numbers.added[i, x, 0], numbers.added[i, x, 1])
                numbers.about[c, x] += numbers.added_about[i, x]


@embedded
def complete(i, accepting, first, edges, numbers, graph, runs, state):
    """Notes the matches that the ``i``-th addition completes by the edge ``accepting``.

    ``first``: they are the first ones of the row.
    """
    if runs is not None:
        entry, best, at = state[K_ENTRIES] + i, runs.best, runs.rank[accepting]
        if first:
            for rank in range(best.shape[0]):
                best[rank, B_RUN] = NONE
            state[K_UNEMITTED] = 0
            state[K_LATEST] = NONE
        better = best[at, B_RUN] == NONE
        if not better:
            cost, least = edges[accepting, E_COST], edges[best[at, B_EDGE], E_COST]
            better = cost < least or (cost == least and completes_better(runs.pool, entry, accepting, best[at, B_RUN], best[at, B_EDGE]))
        if better:
            best[at, B_RUN] = entry
            best[at, B_EDGE] = accepting
    if graph is not None:
        graph.nodes[state[K_NODES] + i, N_DONE] = 1
    if numbers is not None:
        at = numbers.rows.shape[0]
        if first:
            numbers.totals[at, 0] = 0
            numbers.totals[at, 1] = 0
            numbers.totals_about[at] = 0.0
        for number in range(state[K_OLDEST], state[K_NEXT]):
            x = number & (numbers.starts.shape[0] - 1)
            if numbers.added_about[i, x] != 0.0:
                _add(numbers.totals[at], numbers.added[i, x, 0], numbers.added[i, x, 1])
                numbers.totals_about[at] += numbers.added_about[i, x]


@embedded
def taken(count, graph, runs, state):
    """Keeps the ``count`` additions of a row."""
    if runs is not None:
        state[K_ENTRIES] += count
    if graph is not None:
        state[K_NODES] += count


@embedded
def report(part, row, low, edges, numbers, graph, runs, state):
    """Writes the output of a last row. Returns False if it does not fit."""
    if runs is not None:
        return _best_runs(part, edges, runs, state)
    if graph is not None:
        return _paths(row, low, graph, state)
    if numbers is not None:
        at, last = state[S_EVENTS], numbers.rows.shape[0]
        if at == last:
            return False
        numbers.rows[at] = row
        for word in range(2):
            numbers.totals[at, word] = numbers.totals[last, word]
        numbers.totals_about[at] = numbers.totals_about[last]
        state[S_EVENTS] = at + 1
    return True


@embedded
def _best_runs(part, edges, runs, state):
    """Emits the best matches that end at a row, the cheapest first. A more expensive one is emitted only if it starts later."""
    for at in range(state[K_UNEMITTED], runs.best.shape[0]):
        state[K_UNEMITTED] = at
        entry = runs.best[at, B_RUN]
        if entry == NONE or runs.pool[entry, C_START] <= state[K_LATEST]:
            continue
        if not emit_match(part, entry, runs.best[at, B_EDGE], edges, runs, state):
            return False
        state[K_LATEST] = runs.pool[entry, C_START]
    return True


@embedded
def emit_match(part, entry, accepting, edges, runs, state):
    """Writes a run as a match. Returns False if it does not fit."""
    depth = runs.pool[entry, C_DEPTH]
    at, begin = state[S_EVENTS], state[S_LABELS]
    if at == runs.events.shape[0] or begin + depth > runs.labels.shape[0]:
        state[S_DETAIL] = depth
        return False
    for d in range(begin + depth - 1, begin - 1, -1):
        runs.rows[d] = runs.at[entry]
        runs.paths[d] = runs.pool[entry, C_EDGE]
        runs.labels[d] = edges[runs.pool[entry, C_EDGE], E_LABEL]
        entry = runs.pool[entry, C_PARENT]
    state[S_NUMBER] += 1
    put_event(runs.events, at, part, runs.rows[begin], depth, state[S_NUMBER], begin)
    runs.events[at, E_ACCEPT] = accepting
    state[S_EVENTS] = at + 1
    state[S_LABELS] = begin + depth
    return True


@kernel
def _paths(row, low, graph, state):
    """Writes the graph of the matches that end at a row, and their number. Returns False if it does not fit."""
    count, stamp = _visit(state[K_FRESH], state[K_BACK], graph, state)
    at = state[S_EVENTS]
    if at == graph.rows.shape[0] or state[S_LABELS] + count > graph.items.shape[0]:
        state[S_DETAIL] = count
        return False
    graph.rows[at] = row
    graph.totals[at, 0] = 0
    graph.totals[at, 1] = 0
    graph.totals_about[at] = 0.0
    _number(count, stamp, graph, at)
    state[S_LABELS] += _draw(count, stamp, state[K_FRESH], low, graph, graph.items, state[S_LABELS])
    graph.until[at + 1] = state[S_LABELS]
    state[S_EVENTS] = at + 1
    return True


@embedded
def leave(goes_on, next_row, numbers, graph, runs, state):
    """Leaves a partition. The next one begins at ``next_row``.

    ``goes_on``: the partition still grows.
    """
    if runs is not None:
        if goes_on:
            state[K_KEPT] = state[K_ENTRIES]
        else:
            state[K_ENTRIES] = state[K_KEPT]
    else:
        state[K_BACK] = next_row
        state[K_OLDEST] = state[K_NEXT] = 0
        state[K_NODES] = 0
