"""Hash tables with open addressing (linear probing), and FNV-1a hashes of integers.

The memo tables of the searches and their run classes use them. A table is int64 with a power of two of cells. A cell holds the
index of an entry plus one, and 0 if it is free.

Example: a table of 8 cells. Entries 0 and 1 both have a hash that ends in 5. The table is then ``[0, 0, 0, 0, 0, 1, 2, 0]``: entry
1 did not fit into cell 5 and went to the next one.
"""

from __future__ import annotations

import numpy as np

from sparkcep.kernels.common.layout import S_ENTRIES
from sparkcep.kernels.jit.cache import embedded, inlined, kernel

# FNV-1a with 64 bits. Each word is mixed as a whole and folded, because the words are small numbers.
BASIS, PRIME, FOLD = np.uint64(1469598103934665603), np.uint64(1099511628211), np.uint64(29)
GOLDEN, HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)  # 2**64 divided by the golden ratio; half of the bits
ONE = np.uint64(1)


@inlined
def fill(array, value):
    """Sets each element. A slice assignment would bring code for differing shapes, which takes seconds to compile."""
    for i in range(array.shape[0]):
        array[i] = value


@inlined
def mixed(h, word):
    """The hash ``h`` with one more word mixed in."""
    h = (h ^ np.uint64(word)) * PRIME
    return h ^ (h >> FOLD)


@inlined
def spread(h):
    """The hash ``h`` with its high bits mixed down into the low ones, which number the cells.

    The words of whole DOUBLEs differ in their high bits only. If such a word is the last one, so do the hashes.
    """
    h = (h ^ (h >> HALF)) * GOLDEN
    return h ^ (h >> HALF)


@embedded
def place_of(key, entries, table):
    """Cell of ``table`` with the entry that equals ``key``, or the free cell for it.

    Args:
        key: int64 (width).
        entries: int64 (n, width), the keys that were entered.
        table: int64 (a power of two), at least one cell is free.
    """
    h = BASIS
    for i in range(key.shape[0]):
        h = mixed(h, key[i])
    mask = np.uint64(table.shape[0] - 1)
    h = spread(h) & mask
    while table[h] != 0:
        e = table[h] - 1
        same = True
        for k in range(key.shape[0]):
            if entries[e, k] != key[k]:
                same = False
                break
        if same:
            return h
        h = (h + ONE) & mask
    return h


@inlined
def enter(key, at, entries, table, state):
    """Adds ``key`` as a new entry, whose cell in ``table`` is ``at``. The caller makes sure that ``entries`` has room."""
    e = state[S_ENTRIES]
    for k in range(key.shape[0]):
        entries[e, k] = key[k]
    table[at] = e + 1
    state[S_ENTRIES] = e + 1


@kernel
def forget(entries, table, state):
    """Empties the table, in time proportional to the number of its entries."""
    count = state[S_ENTRIES]
    mask = np.uint64(table.shape[0] - 1)
    if 8 * count > table.shape[0]:
        fill(table, 0)
    else:
        for e in range(count):
            h = BASIS
            for i in range(entries.shape[1]):
                h = mixed(h, entries[e, i])
            h = spread(h) & mask
            # The entry lies in its own cell or in a later one. Cells before it may be free by now, so the loop compares numbers of
            # entries and does not stop at 0.
            while table[h] != e + 1:
                h = (h + ONE) & mask
            table[h] = 0
    state[S_ENTRIES] = 0


@inlined
def put(place, h, table):
    """Adds the entry ``place`` with hash ``h`` to a table that does not have it yet."""
    mask = table.shape[0] - 1
    at = h & mask
    while table[at] != 0:
        at = (at + 1) & mask
    table[at] = place + 1
