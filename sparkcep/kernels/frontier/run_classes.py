"""Run classes: runs that no future row can distinguish (SASE+, SIGMOD 2008, section 5.2.2).

Two runs have equal futures if three things are equal: their node, the values of the match that conditions may still read, and the
ends of the groups' windows that are still open.

If conditions are local to their row and its neighbours, only the node counts. Then a node has one class, which is its run, and no
lookup is needed. Otherwise classes have places that a hash table finds, and a list for each node links them.

Example: ``A+ B`` with ``B AS price > FIRST(A.price)``, and the rows 3, 4 and 5 are A with the prices 10, 12 and 10. After row 5 the
runs that began at rows 3 and 5 form one class, because ``FIRST(A.price)`` is 10 for both. The run that began at row 4 is a class of
its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.compiler.conditions.bytecode import FLOAT_COLUMN
from sparkcep.kernels.common.hash_table import BASIS, mixed, put, spread
from sparkcep.kernels.common.layout import STATE_SIZE
from sparkcep.kernels.common.run_chains import NONE
from sparkcep.kernels.jit.cache import embedded, kernel

I_NODE, I_AFTER, I_HASH, I_OVER = range(4)  # columns of ``info``: node, next class of the node, hash, whether a row ended it
# State after that of the exact search: places ever used, places given back, live classes, whether they are in the table, number of
# live classes that triggers the next sweep.
F_USED, F_FREE, F_ALIVE, F_HASHED, F_SWEEP, FUTURES_STATE = range(STATE_SIZE, STATE_SIZE + 6)
# Up to this number of live classes, comparing with those of the node is faster than a table. A comparison that fails is a few
# loads, while a hash is a multiplication for each value.
CROWD = 16
SWEPT = 64  # fewest live classes that are worth a sweep


class Classes(NamedTuple):
    """The run classes. If only the node counts, all arrays but ``head``, ``until``, ``pending`` and ``table`` are empty.

    Attributes:
        head: int64 (open partitions, nodes), the first class of each node, or NONE.
        until: (n), last place in the measure of the window where a class is still valid.
        pending: int64 (m, 2), the additions of one row.
        info: int64 (n, 4), see the columns I_NODE to I_OVER.
        ends: int64 (n, windows), for each open window the entry of ``Looking.windows`` for the row that began it; -1 if it is not
            needed.
        hi, hf, bits: (n, slots), slot values; ``bits`` is ``hf`` as int64.
        free: int64 (n), places given back.
        table: int64 (4n), open addressing by hash, place + 1. If only the node counts, int64 (nodes): the class that the current
            row makes for each node, plus 1.
    """

    head: np.ndarray
    until: np.ndarray
    pending: np.ndarray
    info: np.ndarray
    ends: np.ndarray
    hi: np.ndarray
    hf: np.ndarray
    bits: np.ndarray
    free: np.ndarray
    table: np.ndarray


class ClassValues(NamedTuple):
    """The values that distinguish futures beside the node.

    Attributes:
        live: uint8 (nodes, slots), the slots that decide each node's future (liveness).
        valued: uint8 (nodes), whether there are any.
        windows_live: int64 (nodes), mask of the groups' windows that decide it.
        largest: int64 (slots), the largest count that is distinguished from greater ones; 0 if all are.
        read: int64 (slots), the column that a slot's row is read for, plus FLOAT_COLUMN for floats; -1 if more than its value
            matters.
        ints, fbits, inull, fnull: the columns; floats are int64 bits.
    """

    live: np.ndarray
    valued: np.ndarray
    windows_live: np.ndarray
    largest: np.ndarray
    read: np.ndarray
    ints: np.ndarray
    fbits: np.ndarray
    inull: np.ndarray
    fnull: np.ndarray


@embedded
def _content(k, at, values):
    """The value that a slot's row is read for: (value, 0), or (0, 1) for NULL and (0, 2) without a row."""
    column = values.read[k]
    if at < 0:
        return np.int64(0), 2
    if column >= FLOAT_COLUMN:
        column -= FLOAT_COLUMN
        return (np.int64(0), 1) if values.fnull[column, at] == 1 else (values.fbits[column, at], 0)
    return (np.int64(0), 1) if values.inull[column, at] == 1 else (values.ints[column, at], 0)


@embedded
def hashed(place, classes, values):
    """A hash of the values that decide the future of a class."""
    node = classes.info[place, I_NODE]
    h = mixed(BASIS, node)
    for w in range(1, classes.ends.shape[1]):
        h = mixed(h, classes.ends[place, w])
    for k in range(classes.hi.shape[1]):
        if values.live[node, k] == 1:
            x, y = classes.hi[place, k], classes.bits[place, k]
            if values.read[k] >= 0:
                x, missing = _content(k, x, values)
                y = np.int64(missing)
            h = mixed(mixed(h, x), y)
    return np.int64(spread(h) >> np.uint64(2))


@embedded
def _same_future(x, y, classes, values):
    info, ends, hi, bits = classes.info, classes.ends, classes.hi, classes.bits
    node = info[x, I_NODE]
    if info[x, I_HASH] != info[y, I_HASH] or node != info[y, I_NODE]:
        return False
    for w in range(1, ends.shape[1]):
        if ends[x, w] != ends[y, w]:
            return False
    for k in range(hi.shape[1]):
        if values.live[node, k] == 0:
            continue
        if values.read[k] >= 0:
            if hi[x, k] != hi[y, k] and _content(k, hi[x, k], values) != _content(k, hi[y, k], values):
                return False
        elif hi[x, k] != hi[y, k] or bits[x, k] != bits[y, k]:
            return False
    return True


@embedded
def found(place, classes, values, state):
    """Finds the class with the same future as the new ``place``, else NONE. If classes are hashed, a new future is added to the
    table."""
    # With few classes, comparing with each of the node is faster than hashing.
    if state[F_HASHED] == 0:
        other = classes.head[0, classes.info[place, I_NODE]]
        while other != NONE and not _same_future(other, place, classes, values):
            other = classes.info[other, I_AFTER]
        return other
    classes.info[place, I_HASH] = hashed(place, classes, values)
    table = classes.table
    mask = table.shape[0] - 1
    h = classes.info[place, I_HASH] & mask
    while table[h] != 0 and not _same_future(table[h] - 1, place, classes, values):
        h = (h + 1) & mask
    if table[h] != 0:
        return table[h] - 1
    table[h] = place + 1
    return np.int64(NONE)


@kernel
def remove(place, info, table):
    """Removes a class from the table. Later entries move up, so that no lookup ends too early."""
    mask = table.shape[0] - 1
    h = info[place, I_HASH] & mask
    while table[h] != place + 1:
        h = (h + 1) & mask
    j = h
    while True:
        table[h] = 0
        while True:
            j = (j + 1) & mask
            if table[j] == 0:
                return
            home = info[table[j] - 1, I_HASH] & mask
            # The entry at ``j`` fills the gap at ``h``, unless its own cell lies after the gap.
            if not ((h <= j and h < home <= j) or (h > j and (h < home or home <= j))):
                break
        table[h] = table[j]
        h = j


@kernel
def refill(classes):
    """Fills an empty table with all classes."""
    for node in range(classes.head.shape[1]):
        place = classes.head[0, node]
        while place != NONE:
            put(place, classes.info[place, I_HASH], classes.table)
            place = classes.info[place, I_AFTER]


@kernel
def crowd(classes, values, state):
    """Hashes all classes into the table, which is empty."""
    for node in range(classes.head.shape[1]):
        place = classes.head[0, node]
        while place != NONE:
            classes.info[place, I_HASH] = hashed(place, classes, values)
            place = classes.info[place, I_AFTER]
    refill(classes)
    state[F_HASHED] = 1


@embedded
def give_back(place, classes, state):
    """Frees a place."""
    classes.free[state[F_FREE]] = place
    state[F_FREE] += 1


@embedded
def unlink(node, before, place, classes, state):
    """Removes a class from its node's list and from the table. ``before`` is the class before it in the list, or NONE."""
    if state[F_HASHED] == 1:
        remove(place, classes.info, classes.table)
    if before == NONE:
        classes.head[0, node] = classes.info[place, I_AFTER]
    else:
        classes.info[before, I_AFTER] = classes.info[place, I_AFTER]
    give_back(place, classes, state)
    state[F_ALIVE] -= 1
    if state[F_ALIVE] == 0:
        state[F_HASHED] = 0


@kernel
def bury(everything, now, classes, state):
    """Removes all classes, or those that a row ended and those whose windows all end before ``now`` (pruning, SASE+ 5.3)."""
    for node in range(classes.head.shape[1]):
        before = np.int64(NONE)
        place = classes.head[0, node]
        while place != NONE:
            after = classes.info[place, I_AFTER]
            if everything or classes.info[place, I_OVER] == 1 or now > classes.until[place]:
                unlink(node, before, place, classes, state)
            else:
                before = place
            place = after
    state[F_SWEEP] = max(2 * state[F_ALIVE], SWEPT)
