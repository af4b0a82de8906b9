"""Runs side by side over a shared match buffer, equivalent ones merged: the runtime of SASE+ (SIGMOD 2008, section 5).

One pass over the rows of a partition. Runs with the same future (node, values still needed, ends of the windows still open) are one
*class*: 5.2.2. The buffer is a graph whose nodes are taken rows; the predecessors of a node are the members its source class had at that
moment. Members are chained from the newest to the oldest, so an edge set is one integer and the graph is linear in rows x classes
however many matches it holds. What the paper tells apart by version numbers (5.1) is told by the start of each path: a node keeps
the latest start row of any path into it, and with the first row of the window at hand every path through the kept nodes is a match.

Shared arguments are those of :mod:`sparkcep.search.walk`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.automaton.net import E_AT_START, E_CHECK, E_LABEL, E_OPEN, E_TARGET, E_VAR
from sparkcep.search.codes import DONE, ERROR, FULL, GROW, NEXT, STRICT
from sparkcep.search.compiled import inlined, kernel
from sparkcep.search.machine import FLOAT_COLUMN, MAP, scan
from sparkcep.search.memo import BASIS, mixed, put

NONE = -1  # no node: before a first row, behind the oldest member of a class
COUNTS, GRAPHS = range(2)  # numbers of matches by last row, kept by class and start; graphs by last row
CLASSES_FULL, NODES_FULL, STARTS_FULL = range(3)  # state[M_DETAIL] of GROW
# state: where the pass stands, classes alive, class places ever used and given back, nodes, first row of the window, whether
# the row's output is still to come, output rows and graph items, what to grow or the error, stamp of visits, first node of the row, oldest
# start in the window and the next one, whether the classes alive stand in the table, how often a class was looked at
(M_PART, M_ROW, M_ALIVE, M_USED, M_FREE, M_NODES, M_BACK, M_PENDING, M_OUT, M_ITEMS, M_DETAIL, M_STAMP, M_FRESH, M_OLDEST, M_NEXT, M_HASHED, M_LOOKS, MERGED_STATE) = range(18)
C_NODE, C_TAIL, C_START, C_HASH, C_OVER = range(5)  # columns of ``info``
# columns of ``nodes``: row, label, newest predecessor, next older member of its class, latest start, complete
N_ROW, N_LABEL, N_SOURCE, N_CHAIN, N_START, N_DONE = range(6)
CROWD = 16  # classes alive up to which looking at each is faster than a table
P_CLASS, P_SOURCE, P_EDGE, P_START = range(4)  # columns of ``pending``
LIVE, CHAINED = 1, 2  # bits of a visit: on a path, member of an edge set from there to the oldest


class Classes(NamedTuple):
    """``info`` int64 (n, 5); ``ends`` int64 (n, windows): first row outside each open window, -1 where it is not needed; ``hi``,
    ``hf``, ``bits``: slot values (n, slots), ``bits`` being ``hf`` as int64; ``alive``, ``free`` int64 (n): places in use in order
    of age, and given back; ``table`` int64 (4n): open addressing by hash, place + 1; ``pending`` int64 (n, 4): what one row adds;
    ``sums`` uint64 (n, starts, 2), ``about`` float64 (n, starts): number of runs from each start in the window, as low and high word and as a
    float; ``added``, ``added_about``: those of ``pending``; ``starts`` int64 (starts): row of each start, which stands at its number modulo their
    count. Without a window all runs are of one start."""

    info: np.ndarray
    ends: np.ndarray
    hi: np.ndarray
    hf: np.ndarray
    bits: np.ndarray
    alive: np.ndarray
    free: np.ndarray
    table: np.ndarray
    pending: np.ndarray
    sums: np.ndarray
    about: np.ndarray
    added: np.ndarray
    added_about: np.ndarray
    starts: np.ndarray


class Graph(NamedTuple):
    """``nodes`` int64 (m, 6); working memory of one last row: ``mark`` int64 (m): stamp of the visit and its bits; ``leader``,
    ``place`` int64 (m): first live member of a node's class, live members up to the node; ``base`` int64 (m): where a
    leader's class begins; ``order``, ``stack`` int64 (m); ``sums`` uint64 (m, 2), ``about`` float64 (m): paths into a node and the older
    members of its class."""

    nodes: np.ndarray
    mark: np.ndarray
    leader: np.ndarray
    place: np.ndarray
    base: np.ndarray
    order: np.ndarray
    stack: np.ndarray
    sums: np.ndarray
    about: np.ndarray


class Output(NamedTuple):
    """``rows`` int64 (n): last rows; ``sums`` uint64 (n, 2), ``about`` float64 (n): their numbers of matches; ``until`` int64 (n + 1): items
    of each; ``items`` int64 (k, 5): position in the partition, label, range of predecessors (-1: none), complete."""

    rows: np.ndarray
    sums: np.ndarray
    about: np.ndarray
    until: np.ndarray
    items: np.ndarray


@inlined
def _add(total, low, high):
    """Adds a number of two words to ``total`` uint64 (2), modulo 2**128."""
    word = total[0] + low
    total[1] = total[1] + high + (np.uint64(1) if word < low else np.uint64(0))
    total[0] = word


@kernel
def _content(k, at, values):
    """What a slot's row is read for, and whether it is there: (value, 0, or 1 for NULL, 2 for no row)."""
    read, ints, fbits, inull, fnull = values
    column = read[k]
    if at < 0:
        return np.int64(0), 2
    if column >= FLOAT_COLUMN:
        column -= FLOAT_COLUMN
        return (np.int64(0), 1) if fnull[column, at] == 1 else (fbits[column, at], 0)
    return (np.int64(0), 1) if inull[column, at] == 1 else (ints[column, at], 0)


@kernel
def hashed(place, info, ends, hi, bits, live, values):
    """A hash of what decides the future of a class."""
    node = info[place, C_NODE]
    h = mixed(BASIS, node)
    for w in range(1, ends.shape[1]):
        h = mixed(h, ends[place, w])
    for k in range(hi.shape[1]):
        if live[node, k] == 1:
            x, y = hi[place, k], bits[place, k]
            if values[0][k] >= 0:
                x, missing = _content(k, x, values)
                y = np.int64(missing)
            h = mixed(mixed(h, x), y)
    return np.int64(h >> np.uint64(2))


@kernel
def _same_future(x, y, info, ends, hi, bits, live, values):
    node = info[x, C_NODE]
    if info[x, C_HASH] != info[y, C_HASH] or node != info[y, C_NODE]:
        return False
    for w in range(1, ends.shape[1]):
        if ends[x, w] != ends[y, w]:
            return False
    for k in range(hi.shape[1]):
        if live[node, k] == 0:
            continue
        if values[0][k] >= 0:
            if hi[x, k] != hi[y, k] and _content(k, hi[x, k], values) != _content(k, hi[y, k], values):
                return False
        elif hi[x, k] != hi[y, k] or bits[x, k] != bits[y, k]:
            return False
    return True


@kernel
def find(place, classes, live, values):
    """Where in the table the class with the future of ``place`` stands, or the free entry for it."""
    table = classes.table
    mask = table.shape[0] - 1
    h = classes.info[place, C_HASH] & mask
    while table[h] != 0 and not _same_future(table[h] - 1, place, classes.info, classes.ends, classes.hi, classes.bits, live, values):
        h = (h + 1) & mask
    return h


@kernel
def remove(place, info, table):
    """Takes a class out of the table; entries behind it move up, so that no search breaks off."""
    mask = table.shape[0] - 1
    h = info[place, C_HASH] & mask
    while table[h] != place + 1:
        h = (h + 1) & mask
    j = h
    while True:
        table[h] = 0
        while True:
            j = (j + 1) & mask
            if table[j] == 0:
                return
            home = info[table[j] - 1, C_HASH] & mask
            if not ((h <= j and h < home <= j) or (h > j and (h < home or home <= j))):
                break
        table[h] = table[j]
        h = j


@kernel
def refill(classes, alive_count):
    """Fills an empty table with the classes alive."""
    for i in range(alive_count):
        put(classes.alive[i], classes.info[classes.alive[i], C_HASH], classes.table)


@kernel
def _crowd(classes, live, values, state):
    """Puts the classes alive into the table, which is empty."""
    for i in range(state[M_ALIVE]):
        c = classes.alive[i]
        classes.info[c, C_HASH] = hashed(c, classes.info, classes.ends, classes.hi, classes.bits, live, values)
    refill(classes, state[M_ALIVE])
    state[M_HASHED] = 1


@kernel
def _bury(everything, back, classes, state):
    """Takes out the classes that are over, or whose runs all began before the window: pruning, SASE+ 5.3."""
    info, alive = classes.info, classes.alive
    kept = 0
    for i in range(state[M_ALIVE]):
        c = alive[i]
        if everything or info[c, C_OVER] == 1 or info[c, C_START] < back:
            if state[M_HASHED] == 1:
                remove(c, info, classes.table)
            classes.free[state[M_FREE]] = c
            state[M_FREE] += 1
        else:
            alive[kept] = c
            kept += 1
    state[M_ALIVE] = kept
    if kept == 0:
        state[M_HASHED] = 0


@kernel
def _drop_nodes(back, nodes, classes, state):
    """Moves the nodes of rows before the window out of a full graph; whether that freed half of it."""
    count = state[M_NODES]
    gone = 0
    while gone < count and nodes[gone, N_ROW] < back:
        gone += 1
    if gone < count // 2 or gone == 0:
        return False
    for n in range(gone, count):
        for k in range(nodes.shape[1]):
            nodes[n - gone, k] = nodes[n, k]
        for k in (N_SOURCE, N_CHAIN):
            # a source that is gone leaves a node no path of this window goes through
            nodes[n - gone, k] = max(nodes[n, k] - gone, NONE)
    for i in range(state[M_ALIVE]):
        classes.info[classes.alive[i], C_TAIL] -= gone
    state[M_NODES] = count - gone
    return True


@kernel
def _ascend(order, count):
    """Sorts the first numbers of an array in place (Shell)."""
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
    """Marks what paths of the window to the complete nodes from ``fresh`` on go through; their number, ascending in ``order``."""
    nodes, mark, order, stack = graph.nodes, graph.mark, graph.order, graph.stack
    state[M_STAMP] += 1
    stamp = state[M_STAMP] * 4
    count = 0
    top = 0
    oldest = state[M_NODES]
    for n in range(fresh, state[M_NODES]):
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
    if count * 8 > state[M_NODES] - oldest:
        count = 0
        for n in range(min(oldest, fresh), state[M_NODES]):
            if mark[n] >= stamp:
                order[count] = n
                count += 1
    else:
        _ascend(order, count)
    return count, stamp


@kernel
def _number(count, stamp, graph, output, at):
    """Number of paths to the complete nodes; ascending nodes are in topological order."""
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
                _add(output.sums[at], sums[n, 0], sums[n, 1])
                output.about[at] += about[n]
        older = nodes[n, N_CHAIN]
        if older != NONE and mark[n] & CHAINED != 0 and mark[older] >= stamp:
            _add(sums[n], sums[older, 0], sums[older, 1])
            about[n] += about[older]


@kernel
def _draw(count, stamp, fresh, low, graph, items, first):
    """Writes the live nodes, class by class and by age, so that each edge set is a range; returns how many."""
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


@kernel
def _put_out(q, low, want, graph, output, state):
    """The output of a last row; False where it does not fit."""
    count, stamp = _visit(state[M_FRESH], state[M_BACK], graph, state)
    at = state[M_OUT]
    if at == output.rows.shape[0] or (want == GRAPHS and state[M_ITEMS] + count > output.items.shape[0]):
        state[M_DETAIL] = count
        return False
    output.rows[at] = q
    output.sums[at, 0] = 0
    output.sums[at, 1] = 0
    output.about[at] = 0.0
    _number(count, stamp, graph, output, at)
    if want == GRAPHS:
        state[M_ITEMS] += _draw(count, stamp, state[M_FRESH], low, graph, output.items, state[M_ITEMS])
        output.until[at + 1] = state[M_ITEMS]
    state[M_OUT] += 1
    return True


@kernel
def _propose(q, source, edge, start, count, edges, masks, windows, window_live, present, hi, hf, valued, classes, state):
    """Notes that runs of the class ``source`` (NONE: new ones) take the row by an edge, in a class place of its own."""
    info, ends, pending = classes.info, classes.ends, classes.pending
    target = edges[edge, E_TARGET]
    c = np.int64(NONE)
    if masks[target] != 0:
        if state[M_FREE] > 0:
            state[M_FREE] -= 1
            c = classes.free[state[M_FREE]]
        else:
            c = state[M_USED]
            state[M_USED] += 1
        info[c, C_NODE] = target
        info[c, C_OVER] = 0
        for w in range(1, windows.shape[0]):
            end = np.int64(-1)
            if (window_live[target] >> w) & 1 == 1:
                end = windows[w, q] if (edges[edge, E_OPEN] >> w) & 1 == 1 else ends[source, w]
            ends[c, w] = end
        if valued[target] == 1:
            for k in range(classes.hi.shape[1]):
                classes.hi[c, k] = min(hi[q, k], 1) if present[k] == 1 else hi[q, k]
                classes.hf[c, k] = hf[q, k]
    pending[count, P_CLASS] = c
    pending[count, P_SOURCE] = NONE if source == NONE else info[source, C_TAIL]
    pending[count, P_EDGE] = edge
    pending[count, P_START] = start
    size = classes.starts.shape[0]
    for number in range(state[M_OLDEST], state[M_NEXT]):
        x = number & (size - 1)
        if source == NONE:
            classes.added[count, x, 0] = 1 if number == state[M_NEXT] - 1 else 0
            classes.added[count, x, 1] = 0
            classes.added_about[count, x] = 1.0 if number == state[M_NEXT] - 1 else 0.0
        else:
            classes.added[count, x, 0] = classes.sums[source, x, 0]
            classes.added[count, x, 1] = classes.sums[source, x, 1]
            classes.added_about[count, x] = classes.about[source, x]


@kernel
def _begin(q, windowed, classes, state):
    """A start at a row; False where there is no room for it. Numbers of the class places in use are 0 there."""
    size = classes.starts.shape[0]
    if not windowed:
        state[M_NEXT] = 1
        return True
    if state[M_NEXT] > state[M_OLDEST] and classes.starts[(state[M_NEXT] - 1) & (size - 1)] == q:
        return True
    if state[M_NEXT] - state[M_OLDEST] == size:
        return False
    classes.starts[state[M_NEXT] & (size - 1)] = q
    state[M_NEXT] += 1
    return True


@kernel
def _end_starts(back, classes, state):
    """Takes the starts before the window out of the numbers."""
    size = classes.starts.shape[0]
    while state[M_OLDEST] < state[M_NEXT] and classes.starts[state[M_OLDEST] & (size - 1)] < back:
        x = state[M_OLDEST] & (size - 1)
        for i in range(state[M_ALIVE]):
            c = classes.alive[i]
            classes.sums[c, x, 0] = 0
            classes.sums[c, x, 1] = 0
            classes.about[c, x] = 0.0
        state[M_OLDEST] += 1


@kernel
def _settle(q, at_end, count, merging, want, automaton, values, classes, graph, output, state):
    """Adds the nodes of a row to their classes; whether any match is complete."""
    edges, accepts, live = automaton.edges, automaton.accepts, automaton.live
    info, pending, nodes = classes.info, classes.pending, graph.nodes
    any_done = False
    state[M_FRESH] = state[M_NODES]
    for i in range(count):
        c, edge, start = pending[i, P_CLASS], pending[i, P_EDGE], pending[i, P_START]
        n = state[M_NODES]
        chain = np.int64(NONE)
        if c != NONE:
            found = False
            if merging:
                same = np.int64(NONE)
                if state[M_HASHED] == 1:
                    info[c, C_HASH] = hashed(c, info, classes.ends, classes.hi, classes.bits, live, values)
                    h = find(c, classes, live, values)
                    same = classes.table[h] - 1
                    if same == NONE:
                        classes.table[h] = c + 1
                else:
                    info[c, C_HASH] = 0
                    for j in range(state[M_ALIVE]):
                        if _same_future(classes.alive[j], c, info, classes.ends, classes.hi, classes.bits, live, values):
                            same = classes.alive[j]
                            break
                found = same != NONE
                if found:
                    classes.free[state[M_FREE]] = c
                    state[M_FREE] += 1
                    c = same
                    chain = info[c, C_TAIL]
                    info[c, C_START] = max(info[c, C_START], start)
            if not found:
                info[c, C_START] = start
                classes.sums[c] = 0
                classes.about[c] = 0.0
                classes.alive[state[M_ALIVE]] = c
                state[M_ALIVE] += 1
            info[c, C_TAIL] = n
        accepted = accepts[edges[edge, E_TARGET]]
        done = accepted == 1 or (accepted == 2 and at_end)
        if want == COUNTS:
            at = state[M_OUT]
            if done and not any_done:
                output.rows[at] = q
                output.sums[at, 0] = 0
                output.sums[at, 1] = 0
                output.about[at] = 0.0
            for number in range(state[M_OLDEST], state[M_NEXT]):
                x = number & (classes.starts.shape[0] - 1)
                if classes.added_about[i, x] == 0.0:
                    continue
                if c != NONE:
                    _add(classes.sums[c, x], classes.added[i, x, 0], classes.added[i, x, 1])
                    classes.about[c, x] += classes.added_about[i, x]
                if done:
                    _add(output.sums[at], classes.added[i, x, 0], classes.added[i, x, 1])
                    output.about[at] += classes.added_about[i, x]
        else:
            nodes[n, N_ROW] = q
            nodes[n, N_LABEL] = edges[edge, E_LABEL]
            nodes[n, N_SOURCE] = pending[i, P_SOURCE]
            nodes[n, N_CHAIN] = chain
            nodes[n, N_START] = start
            nodes[n, N_DONE] = 1 if done else 0
            state[M_NODES] += 1
        any_done |= done
    return any_done


@kernel
def merge_partitions(
    automaton, strategy, merging, want, windowed, windows, window_live, present, read, ends, use_ends, conditions, rows, scratch, spare, classes, graph, output, state,
):
    """Goes through the partitions; fills ``output`` and returns DONE, FULL, GROW (``state[M_DETAIL]``: what is full) or ERROR.

    ``merging``: equivalent runs are one class, otherwise each run is; ``want``: COUNTS or GRAPHS; ``windowed``: window 0 bounds the whole match; ``window_live`` int64 (nodes): the
    groups' windows that decide a node's future; ``present`` uint8 (slots): 1 for a count of which matters only whether it is 0; ``read`` int64
    (slots): the column that a slot's row is read for, FLOAT_COLUMN more for floats, -1 where more than its value matters; ``spare``: a row of the slot arrays behind the buffer, which holds a class's values.
    """
    first, edges, masks, accepts, live, alone, local, valued = automaton
    bytecode, entry, floats, slots, label_codes = conditions
    letters, offsets, ints, flts, inull, fnull, pair_starts, pair_ints, pair_flts, pair_null = rows
    labels, hi, hf, hbits, si, sf, sn = scratch[:7]
    info, pending = classes.info, classes.pending
    values = (read, ints, flts.view(np.int64), inull, fnull)
    while state[M_PART] < offsets.shape[0] - 1:
        low = offsets[state[M_PART]]
        high = offsets[state[M_PART] + 1]
        q = state[M_ROW]
        if state[M_PENDING] == 1:
            if not _put_out(q, low, want, graph, output, state):
                return FULL
            state[M_PENDING] = 0
            q += 1
            state[M_ROW] = q
        elif q == low:
            _bury(True, low, classes, state)
            state[M_NODES] = 0
            state[M_BACK] = low
            state[M_OLDEST] = 0
            state[M_NEXT] = 0
        while q < high:
            letter = letters[q]
            back = state[M_BACK]
            while back <= q and windows[0, back] <= q:
                back += 1
            if back != state[M_BACK]:
                state[M_BACK] = back
                _bury(False, back, classes, state)
                if want == COUNTS:
                    _end_starts(back, classes, state)
            # ---- room for what this row may add
            if want == COUNTS and state[M_OUT] == output.rows.shape[0]:
                return FULL
            need = first[1]
            for i in range(state[M_ALIVE]):
                node = info[classes.alive[i], C_NODE]
                if letter & masks[node] != 0:
                    need += first[node + 1] - first[node]
            if state[M_USED] - state[M_FREE] + need > info.shape[0] or need > pending.shape[0]:
                state[M_DETAIL] = CLASSES_FULL
                return GROW
            if want == COUNTS and letter & masks[0] != 0 and not _begin(q, windowed, classes, state):
                state[M_DETAIL] = STARTS_FULL
                return GROW
            if want == GRAPHS and state[M_NODES] + need > graph.nodes.shape[0]:
                if not _drop_nodes(back, graph.nodes, classes, state) or state[M_NODES] + need > graph.nodes.shape[0]:
                    state[M_DETAIL] = NODES_FULL
                    return GROW
            if merging and state[M_HASHED] == 0 and state[M_ALIVE] > CROWD:
                _crowd(classes, live, values, state)
            # ---- every class looks at the row before any of them gets it; i == alive: the start
            count = 0
            over = False
            alive_count = state[M_ALIVE]
            for i in range(alive_count + 1):
                is_start = i == alive_count
                c = np.int64(NONE) if is_start else classes.alive[i]
                node = np.int64(0) if is_start else info[c, C_NODE]
                start = q if is_start else info[c, C_START]
                begin = q if is_start else np.int64(-1)
                prior = q - 1 if is_start else spare
                if letter & masks[node] == 0 or back > q:
                    continue
                if not is_start:
                    state[M_LOOKS] += 1
                loaded = False
                for e in range(first[node], first[node + 1]):
                    v = edges[e, E_VAR]
                    if v < 0 or (letter >> v) & 1 == 0 or (is_start and edges[e, E_AT_START] != 0 and q != low):
                        continue
                    target = edges[e, E_TARGET]
                    inside = True
                    for w in range(1, windows.shape[0]):
                        if (edges[e, E_CHECK] >> w) & 1 == 1 and q >= classes.ends[c, w]:
                            inside = False
                    if not inside:
                        continue
                    if entry[v] >= 0 or valued[target] == 1:
                        if not is_start and not loaded:
                            for k in range(classes.hi.shape[1]):
                                hi[spare, k] = classes.hi[c, k] if valued[node] == 1 else 0
                                hf[spare, k] = classes.hf[c, k] if valued[node] == 1 else 0.0
                            loaded = True
                        got, bad = scan(
                            MAP, v, edges[e, E_LABEL], entry[v], 1, q, prior, low, q + 1, high, begin, np.int64(0),
                            letters, bytecode, floats, slots, hi, hf, labels, label_codes, ints, flts, inull, fnull, pair_starts,
                            pair_ints, pair_flts, pair_null, si, sf, sn,
                        )
                        if bad < 0:
                            state[M_DETAIL] = bad
                            return ERROR
                        if got == 0:
                            continue
                    if not is_start and strategy == NEXT:
                        info[c, C_OVER] = 1
                        over = True
                    for w in range(windows.shape[0]):
                        if (edges[e, E_OPEN] >> w) & 1 == 1 and windows[w, q] <= q:
                            inside = False  # its time is NULL
                    if not inside or (use_ends and ends[target, q] > windows[0, start]):
                        continue
                    _propose(q, c, e, start, count, edges, masks, windows, window_live, present, hi, hf, valued, classes, state)
                    count += 1
            if over or strategy == STRICT:
                _bury(strategy == STRICT, back, classes, state)
            done = count > 0 and _settle(q, q + 1 == high, count, merging, want, automaton, values, classes, graph, output, state)
            if done and want == COUNTS:
                state[M_OUT] += 1
            elif done and not _put_out(q, low, want, graph, output, state):
                state[M_PENDING] = 1
                return FULL
            q += 1
            state[M_ROW] = q
        state[M_PART] += 1
    return DONE
