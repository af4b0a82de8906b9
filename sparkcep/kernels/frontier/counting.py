"""Counts the matches that end at each row, without listing them: dynamic programming over (node, row).

A row turns the vector of open runs by node into the next one, so runs at one node are one number. This is the merging of equivalent
runs of SASE+ 5.2.2, where runs at equal nodes are equal.

Under a window the oldest start rows leave the vector again. That needs no inverse. A queue of two stacks keeps the suffix products
of the older half of the window, and the running product of the newer one. The work per row is constant, amortised.

Numbers are kept modulo primes below 2**31 and combined by the Chinese remainder theorem.

Example: ``A B`` under SKIP TILL ANY, over rows A, A, B, B. The number of open runs at the node after A is 1, 2, 2, 2 after each
row. The counts of matches are 0, 0, 2, 2.
"""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.net.net import E_AT_START, E_TARGET, E_VAR
from sparkcep.kernels.common.hash_table import fill
from sparkcep.kernels.common.layout import ANY, NEXT
from sparkcep.kernels.jit.cache import allocating, embedded, inlined

# five of them exceed 10**46; 0 selects floating point
PRIMES = (2147483647, 2147483629, 2147483587, 2147483579, 2147483563)


@inlined
def _plus(x, y, prime):
    z = x + y
    if prime > 0 and z >= prime:
        z -= prime
    return z


@embedded
def _copy(vector, other):
    for i in range(vector.shape[0]):
        vector[i] = other[i]


@allocating
def _apply(old, new, letter, strategy, first, edges, masks, blocks, prime):
    """Sets ``new`` to ``old`` after a row with these letters: each run takes the row by its edges, ignores it, or ends."""
    nodes = masks.shape[0]
    for node in range(nodes):
        keeps = strategy == ANY or (strategy == NEXT and letter & blocks[node] == 0)
        new[node] = old[node] if keeps else 0
    for node in range(1, nodes):
        if old[node] != 0 and letter & masks[node] != 0:
            for e in range(first[node], first[node + 1]):
                v = edges[e, E_VAR]
                if v >= 0 and (letter >> v) & 1 == 1:
                    target = edges[e, E_TARGET]
                    new[target] = _plus(new[target], old[node], prime)


@allocating
def _start(vector, letter, at_head, first, edges, prime):
    """Adds the runs that begin at a row."""
    for e in range(first[0], first[1]):
        v = edges[e, E_VAR]
        if v >= 0 and (letter >> v) & 1 == 1 and (at_head or edges[e, E_AT_START] == 0):
            target = edges[e, E_TARGET]
            vector[target] = _plus(vector[target], 1, prime)


@allocating
def _completed(open_runs, letter, at_head, at_high, first, edges, masks, accepts, prime, zero):
    """The number of matches whose last row this is."""
    total = zero
    for node in range(masks.shape[0]):
        if letter & masks[node] == 0:
            continue
        many = open_runs[node] if node > 0 else zero + 1
        if many == 0:
            continue
        for e in range(first[node], first[node + 1]):
            v = edges[e, E_VAR]
            if v < 0 or (letter >> v) & 1 == 0 or (node == 0 and edges[e, E_AT_START] != 0 and not at_head):
                continue
            accepted = accepts[edges[e, E_TARGET]]
            if accepted == 1 or (accepted == 2 and at_high):
                total = _plus(total, many, prime)
    return total


@allocating
def count_matches(first, edges, masks, blocks, accepts, letters, low, high, head, backs, windowed, strategy, prime, older, counts):
    """Fills ``counts`` (rows) for the rows low .. high - 1 of one partition.

    The dtype of ``counts`` and ``older`` chooses int64 or float64 arithmetic.

    Args:
        first, edges, masks, blocks, accepts: the net, see :mod:`sparkcep.compiler.net.net`.
        letters: int64 (rows), the variables that each row may be.
        head: the row where ``^`` holds, or a row before them.
        backs: int64 (rows), first row of the window that ends with each row.
        windowed: whether a window bounds the match.
        strategy: STRICT, NEXT or ANY.
        prime: counts are modulo this number; 0 for no modulus.
        older: (rows of the partition, nodes), working memory.
        counts: (rows), output.
    """
    nodes = masks.shape[0]
    zero = counts.dtype.type(0)
    newer = np.zeros(nodes, dtype=counts.dtype)  # runs that begin after the middle
    scratch = np.zeros(nodes, dtype=counts.dtype)
    total = np.zeros(nodes, dtype=counts.dtype)
    product = np.zeros((nodes, nodes), dtype=counts.dtype)  # of the rows after the middle
    middle = low - 1
    for q in range(low, high):
        letter = letters[q]
        # A queue of two stacks: ``older`` has runs begun up to ``middle``, ``newer`` those begun later.
        if windowed:
            begin = backs[q]
            if begin > q:
                counts[q] = zero  # its time is NULL, so it is in no match
                continue
            if begin > middle and q > low:
                # ---- The older half is used up. The rows so far become the older half, as suffix sums from the end.
                suffix = np.zeros((nodes, nodes), dtype=counts.dtype)
                for i in range(nodes):
                    suffix[i, i] = 1
                for s in range(q - 1, begin - 1, -1):
                    # older[s]: runs begun at s, through the rows s + 1 .. q - 1, plus runs begun later.
                    fill(scratch, zero)
                    _start(scratch, letters[s], s == head, first, edges, prime)
                    for j in range(nodes):
                        x = older[s + 1 - low, j] if s < q - 1 else zero
                        for i in range(nodes):
                            if scratch[i] != 0 and suffix[i, j] != 0:
                                x += scratch[i] * suffix[i, j]
                                if prime > 0:
                                    x %= prime
                        older[s - low, j] = x
                    # suffix: row s, followed by the rows after it.
                    turned = np.zeros((nodes, nodes), dtype=counts.dtype)
                    for i in range(nodes):
                        fill(scratch, zero)
                        scratch[i] = 1
                        _apply(scratch, total, letters[s], strategy, first, edges, masks, blocks, prime)
                        for j in range(nodes):
                            x = zero
                            for k in range(nodes):
                                if total[k] != 0 and suffix[k, j] != 0:
                                    x += total[k] * suffix[k, j]
                                    if prime > 0:
                                        x %= prime
                            turned[i, j] = x
                    for i in range(nodes):
                        _copy(suffix[i], turned[i])
                middle = q - 1
                fill(newer, zero)
                for i in range(nodes):
                    fill(product[i], zero)
                    product[i, i] = 1
            # All open runs: those of the newer half, and those of the older half carried over the newer rows by ``product``.
            _copy(total, newer)
            if begin <= middle:
                for j in range(nodes):
                    x = newer[j]
                    for i in range(nodes):
                        if older[begin - low, i] != 0 and product[i, j] != 0:
                            x += older[begin - low, i] * product[i, j]
                            if prime > 0:
                                x %= prime
                    total[j] = x
        else:
            _copy(total, newer)
        counts[q] = _completed(total, letter, q == head, q + 1 == high, first, edges, masks, accepts, prime, zero)
        # The transition of this row is applied to ``product`` and to ``newer``, so both stay current.
        if windowed and middle >= low:
            for i in range(nodes):
                _copy(scratch, product[i])
                _apply(scratch, product[i], letter, strategy, first, edges, masks, blocks, prime)
        _copy(scratch, newer)
        _apply(scratch, newer, letter, strategy, first, edges, masks, blocks, prime)
        _start(newer, letter, q == head, first, edges, prime)
