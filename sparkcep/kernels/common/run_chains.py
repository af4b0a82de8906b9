"""Partial matches as chains of rows that share their tails, and the order of equal scores among them.

A record of ``pool`` int64 (capacity, 8) is one row taken behind a parent record. To compare two chains in logarithmic time a record
keeps digests of all its rows and of all its edges and, beside its parent, a farther ancestor (skew-binary jumps: Myers, "An
applicative random-access stack", 1983): chains of one length jump in step. NONE is the empty chain.
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
    """Writes the record ``entry``: ``row`` taken by ``edge`` behind ``parent``."""
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
    # two jumps of one length become one
    near = pool[parent, C_JUMP]
    far = pool[near, C_JUMP] if near >= 0 else NONE
    depth_near = _field(pool, near, C_DEPTH)
    pool[entry, C_JUMP] = far if near >= 0 and depth - depth_near == depth_near - _field(pool, far, C_DEPTH) else parent


@kernel
def _ancestor(pool, entry, depth):
    """The record of a chain's first ``depth`` rows."""
    if depth == 0:
        return NONE
    while pool[entry, C_DEPTH] > depth:
        j = pool[entry, C_JUMP]
        entry = j if j >= 0 and pool[j, C_DEPTH] >= depth else pool[entry, C_PARENT]
    return entry


@kernel
def _diverge(pool, a, b, digest):
    """The first records (x, y) at which two different chains of one length differ by ``digest``."""
    x = a
    y = b
    while _field(pool, pool[x, C_PARENT], digest) != _field(pool, pool[y, C_PARENT], digest):
        if _field(pool, pool[x, C_JUMP], digest) != _field(pool, pool[y, C_JUMP], digest):
            x = pool[x, C_JUMP]
            y = pool[y, C_JUMP]
        else:
            x = pool[x, C_PARENT]
            y = pool[y, C_PARENT]
    return x, y


@kernel
def compare_rows(pool, a, b):
    """-1: chain ``a`` has the earlier row where the rows first differ; 1: ``b`` has; -2: ``a`` is a proper prefix of ``b``; 2:
    ``b`` is of ``a``; 0: the same rows."""
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
    """Whether chain ``a`` comes before ``b`` where their scores are equal: earlier rows, then the edge that stands first at the
    node where the ways part.

    Of ``complete`` matches a prefix comes first. Of matches yet to be extended it comes last: what the longer one has more are rows
    before any that the shorter one can still take.
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
    """``comes_first`` of ``parent`` with one more row, which lies behind all rows of ``b``; no record is written."""
    c = compare_rows(pool, parent, b)
    if c == 0 or c == 2:
        return not complete
    return c == -1
