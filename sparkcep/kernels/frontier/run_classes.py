"""Classes of runs with equal futures (SASE+, SIGMOD 2008, section 5.2.2).

Two runs have equal futures if they stand at one node, the values of the match that conditions may still read are equal, and so are
the ends of the groups' windows that are still open. Where conditions are local to their row and its neighbours nothing but the node
counts: then a node has one class, which is its run, and nothing is looked up. Otherwise classes have places that are found by a
hash, and a list for each node leads through them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.compiler.conditions.bytecode import FLOAT_COLUMN
from sparkcep.kernels.common.hash_table import BASIS, mixed, put
from sparkcep.kernels.common.layout import STATE_SIZE
from sparkcep.kernels.common.run_chains import NONE
from sparkcep.kernels.jit.cache import embedded, kernel

I_NODE, I_AFTER, I_HASH, I_OVER = range(4)  # columns of ``info``: node, next class of the node, hash, whether a row ended it
# state behind that of the exact search: places ever used, places given back, classes alive, whether they stand in the table,
# classes alive at which those that
# are over are looked for
F_USED, F_FREE, F_ALIVE, F_HASHED, F_SWEEP, FUTURES_STATE = range(STATE_SIZE, STATE_SIZE + 6)
# Classes alive up to which looking at those of the node is faster than a table: a comparison that fails is a few loads, a hash
# is a multiplication for each value.
CROWD = 16
SWEPT = 64  # fewest classes that are worth a look for those that are over


class Classes(NamedTuple):
    """``head`` int64 (open partitions, nodes): the first class of each node, NONE for none; ``until`` (n): last place in the
    measure of the window at which a class is not over; ``pending`` int64 (m, 2): what one row adds. But for ``table`` the others
    are empty where nothing but the node counts: ``info`` int64 (n, 4);
    ``ends`` int64 (n, windows): of each open window what the search has there for the row that began it, -1 where it is not
    needed;
    ``hi``, ``hf``, ``bits``: slot values (n, slots), ``bits`` being ``hf`` as int64; ``free`` int64 (n): places given back;
    ``table`` int64 (4n): open addressing by hash, place + 1; where nothing but the node counts, int64 (nodes): the class that the
    row at hand makes of each, plus 1."""

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
    """What tells futures apart beside the node. ``live`` uint8 (nodes, slots): the slots that decide each node's future, ``valued``
    uint8 (nodes): whether there are any; ``windows_live`` int64 (nodes): the groups' windows that do; ``largest`` int64 (slots):
    the largest number of a count that is told from greater ones, 0 where all are; ``read`` int64 (slots): the column that a slot's
    row is read for, FLOAT_COLUMN more for floats, -1 where more than its value matters; ``ints`` to ``fnull``: the columns, floats
    as int64."""

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
    """What a slot's row is read for, and whether it is there: (value, 0, or 1 for NULL, 2 for no row)."""
    column = values.read[k]
    if at < 0:
        return np.int64(0), 2
    if column >= FLOAT_COLUMN:
        column -= FLOAT_COLUMN
        return (np.int64(0), 1) if values.fnull[column, at] == 1 else (values.fbits[column, at], 0)
    return (np.int64(0), 1) if values.inull[column, at] == 1 else (values.ints[column, at], 0)


@embedded
def hashed(place, classes, values):
    """A hash of what decides the future of a class."""
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
    return np.int64(h >> np.uint64(2))


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
    """The class with the future of ``place``, which is new; NONE where there is none, and then the table holds ``place``."""
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
    """Takes a class out of the table; entries behind it move up, so that no search breaks off."""
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
    """Puts all classes into the table, which is empty."""
    for node in range(classes.head.shape[1]):
        place = classes.head[0, node]
        while place != NONE:
            classes.info[place, I_HASH] = hashed(place, classes, values)
            place = classes.info[place, I_AFTER]
    refill(classes)
    state[F_HASHED] = 1


@embedded
def give_back(place, classes, state):
    """A place that no class has any more."""
    classes.free[state[F_FREE]] = place
    state[F_FREE] += 1


@embedded
def unlink(node, before, place, classes, state):
    """Takes a class out of the list of its node, where it stands behind ``before`` (NONE: at the head), and out of the table."""
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
    """Takes out all classes, or those that a row ended and those whose windows all end before ``now``: pruning, SASE+ 5.3."""
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
