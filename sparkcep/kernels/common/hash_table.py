"""What searches remember: hashes of integers, and tables by open addressing that hold places (plus one; 0 is free)."""

from __future__ import annotations

import numpy as np

from sparkcep.kernels.common.layout import S_ENTRIES
from sparkcep.kernels.jit.cache import embedded, inlined, kernel

# of FNV-1a with 64 bits; each word is mixed as a whole and folded, because words here are small numbers
BASIS, PRIME, FOLD = np.uint64(1469598103934665603), np.uint64(1099511628211), np.uint64(29)
ONE = np.uint64(1)


@inlined
def fill(array, value):
    """Sets each element; an assignment to a slice would bring code for shapes that differ, which takes seconds to compile."""
    for i in range(array.shape[0]):
        array[i] = value


@inlined
def mixed(h, word):
    """The hash ``h`` with one more word."""
    h = (h ^ np.uint64(word)) * PRIME
    return h ^ (h >> FOLD)


@embedded
def place_of(key, entries, table):
    """Where in ``table`` the entry that equals ``key`` stands, or the free place for it. ``entries`` int64 (n, width), ``table``
    int64 (a power of two)."""
    h = BASIS
    for i in range(key.shape[0]):
        h = mixed(h, key[i])
    mask = np.uint64(table.shape[0] - 1)
    h = h & mask
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
    """Writes ``key`` as a new entry, of which there must be room, to the free place ``at``."""
    e = state[S_ENTRIES]
    for k in range(key.shape[0]):
        entries[e, k] = key[k]
    table[at] = e + 1
    state[S_ENTRIES] = e + 1


@kernel
def forget(entries, table, state):
    """Empties the table, in time of the number of its entries."""
    count = state[S_ENTRIES]
    mask = np.uint64(table.shape[0] - 1)
    if 8 * count > table.shape[0]:
        fill(table, 0)
    else:
        for e in range(count):
            h = BASIS
            for i in range(entries.shape[1]):
                h = mixed(h, entries[e, i])
            h = h & mask
            while table[h] != e + 1:  # it lies there or behind, also where those before it are gone already
                h = (h + ONE) & mask
            table[h] = 0
    state[S_ENTRIES] = 0


@inlined
def put(place, h, table):
    """Puts a place into a table that does not hold it; ``h``: its hash."""
    mask = table.shape[0] - 1
    at = h & mask
    while table[at] != 0:
        at = (at + 1) & mask
    table[at] = place + 1
