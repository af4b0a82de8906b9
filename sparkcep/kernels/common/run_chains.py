"""Partial matches as persistent linked lists that share their prefixes, and the order of chains with equal scores.

The TOP k kernels use them. A record of ``pool`` int64 (capacity, C_FIELDS) is one row taken after a parent record; NONE is the
empty chain. Two chains are compared in logarithmic time. For this a record has digests of all its rows and of all its edges and,
beside its parent, a farther ancestor. These are skew-binary jump pointers (Myers, "An applicative random-access stack", 1983), so
chains of equal length jump in step.

Example: a chain of 8 rows has records of depth 1 to 8. Their jumps lead to depth 0 (NONE), 1, 0, 3, 4, 3, 0, 7. From depth 7 the
first 3 rows are reached by 7 -> 6 -> 3.
"""

from __future__ import annotations

import numpy as np

from sparkcep.kernels.jit.cache import embedded, inlined, kernel

NONE = -1
C_ROW, C_PARENT, C_JUMP, C_DEPTH, C_EDGE, C_START, C_ROWS, C_EDGES = range(8)
C_FIELDS = 8


@inlined
def _mixed(digest, item):
    """The digest of a sequence with one more item."""
    h = (np.uint64(digest) ^ np.uint64(item + 1)) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64(h ^ (h >> np.uint64(29)))


@inlined
def _field(pool, entry, field):
    """A field of a record, 0 for the empty chain."""
    return pool[entry, field] if entry >= 0 else 0


@embedded
def append(pool, entry, parent, edge, row):
    """Writes the record ``entry``: ``row`` taken by ``edge`` after ``parent``."""
    pool[entry, C_ROW] = row
    pool[entry, C_PARENT] = parent
    pool[entry, C_EDGE] = edge
    pool[entry, C_ROWS] = _mixed(_field(pool, parent, C_ROWS), row)
    pool[entry, C_EDGES] = _mixed(_field(pool, parent, C_EDGES), edge)
    if parent < 0:
        pool[entry, C_DEPTH] = 1
        pool[entry, C_JUMP] = NONE
        pool[entry, C_START] = row
        return
    depth = pool[parent, C_DEPTH]
    pool[entry, C_DEPTH] = depth + 1
    pool[entry, C_START] = pool[parent, C_START]
    # Two jumps of equal length are merged into one.
    near = pool[parent, C_JUMP]
    far = pool[near, C_JUMP] if near >= 0 else NONE
    depth_near = _field(pool, near, C_DEPTH)
    pool[entry, C_JUMP] = far if near >= 0 and depth - depth_near == depth_near - _field(pool, far, C_DEPTH) else parent


@kernel
def _ancestor(pool, entry, depth):
    """The record of a chain's first ``depth`` rows, NONE for 0."""
    if depth == 0:
        return NONE
    while pool[entry, C_DEPTH] > depth:
        j = pool[entry, C_JUMP]
        entry = j if j >= 0 and pool[j, C_DEPTH] >= depth else pool[entry, C_PARENT]
    return entry


@kernel
def _diverge(pool, a, b, digest):
    """Records (x, y) where two chains of equal length first differ by ``digest``."""
    x = a
    y = b
    while _field(pool, pool[x, C_PARENT], digest) != _field(pool, pool[y, C_PARENT], digest):
        # If the digests differ at the jump targets, the first difference is there or before, so both chains jump. Else it is after
        # them, so both go back by one row.
        if _field(pool, pool[x, C_JUMP], digest) != _field(pool, pool[y, C_JUMP], digest):
            x = pool[x, C_JUMP]
            y = pool[y, C_JUMP]
        else:
            x = pool[x, C_PARENT]
            y = pool[y, C_PARENT]
    return x, y


@kernel
def compare_rows(pool, a, b):
    """Compares the rows of two chains.

    Returns -1 if ``a`` has the earlier row where they first differ, 1 if ``b`` has it, 0 if the rows are equal. Returns -2 if ``a``
    is a proper prefix of ``b``, and 2 if ``b`` is a proper prefix of ``a``.
    """
    depth_a = _field(pool, a, C_DEPTH)
    depth_b = _field(pool, b, C_DEPTH)
    x = _ancestor(pool, a, depth_b) if depth_a > depth_b else a
    y = _ancestor(pool, b, depth_a) if depth_b > depth_a else b
    if _field(pool, x, C_ROWS) == _field(pool, y, C_ROWS):
        if depth_a == depth_b:
            return 0
        return -2 if depth_a < depth_b else 2
    x, y = _diverge(pool, x, y, C_ROWS)
    return -1 if pool[x, C_ROW] < pool[y, C_ROW] else 1


@kernel
def comes_first(pool, a, b, complete):
    """Whether chain ``a`` precedes chain ``b`` of equal score: by earlier rows, then by the earlier edge of the node where the
    paths part.

    If the matches are ``complete``, a prefix comes first. If they may still be extended, a prefix comes last: the further rows of
    the longer chain lie before any row that the shorter one can still take.
    """
    c = compare_rows(pool, a, b)
    if c == 0:
        if _field(pool, a, C_EDGES) == _field(pool, b, C_EDGES):
            return False
        x, y = _diverge(pool, a, b, C_EDGES)
        return pool[x, C_EDGE] < pool[y, C_EDGE]
    if c == 2 or c == -2:
        return (c == -2) == complete
    return c < 0


@kernel
def extended_first(pool, parent, b, complete):
    """``comes_first`` for ``parent`` with one more row, later than all rows of ``b``. No record is written."""
    c = compare_rows(pool, parent, b)
    if c == 0 or c == 2:
        return not complete
    return c == -1
