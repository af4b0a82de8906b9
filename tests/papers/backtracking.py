"""The backtracking algorithm of SASE+ (SIGMOD 2008, section 5.2.3) for the paper's query ``a+ b`` and for ``a+ b c``.

It processes one run at a time, the singleton run. A run that nondeterminism creates is put onto a stack. When the singleton run
ends, with a match or without, the newest run of the stack resumes and reads the rows from its own on again. Nothing is remembered
between runs. ``tests/benchmarks/sase`` compares it with the engine for Figure 8d.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

PREDICATES = ("p1", "p2", "p3")
# columns of a run on the stack: state, row to read next, price of the first and of the last a, least price, rows taken
STATE, ROW, FIRST, LAST, LEAST, TAKEN, FIELDS = range(7)
# states: of a[i]; a deferred b, whose row is read again; of c
A, DEFERRED_B, C = range(3)


class Counts(NamedTuple):
    """What a search found.

    Attributes:
        matches: how many matches.
        rows: the sum of their lengths.
        reads: how often a row was read.
    """

    matches: int
    rows: int
    reads: int


def backtrack(columns: dict[str, np.ndarray], predicate: str, next_match: bool, window: int, third: bool) -> Counts:
    """All results of the query over rows that are sorted by symbol and time.

    Args:
        columns: int64 columns symbol, price and volume.
        predicate: one of PREDICATES, the condition of a[i].
        next_match: skip till next match instead of contiguity in the partition.
        window: size of the window in rows.
        third: whether a third component c follows b.
    """
    symbol, price, volume = (np.ascontiguousarray(columns[name], dtype=np.int64) for name in ("symbol", "price", "volume"))
    offsets = np.r_[0, np.flatnonzero(np.diff(symbol)) + 1, len(symbol)]
    return Counts(*_backtrack(offsets, price, volume, PREDICATES.index(predicate), next_match, window, third))


@numba.njit(cache=False)
def _backtrack(offsets, price, volume, predicate, next_match, window, third):
    stack = np.zeros((window + 2, FIELDS), dtype=np.int64)
    matches = rows = reads = 0
    for part in range(len(offsets) - 1):
        low, high = offsets[part], offsets[part + 1]
        for start in range(low, high):
            reads += 1
            if price[start] % 500 != 0:
                continue
            stop = min(start + window, high)
            top = 1
            stack[0] = (A, start + 1, price[start], price[start], price[start], 1)
            while top > 0:
                top -= 1
                state, row, first, last, least, taken = stack[top]
                while row < stop:
                    reads += 1
                    if state == C:
                        if first < price[row] < last:
                            matches += 1
                            rows += taken + 1
                            break
                        if not next_match:
                            break
                    elif state == DEFERRED_B:
                        if not third:
                            matches += 1
                            rows += taken + 1
                            break
                        state = C
                        taken += 1
                    else:
                        takes = predicate == 0 or price[row] > (last if predicate == 1 else least)
                        if volume[row] < 150:
                            stack[top] = (DEFERRED_B, row, first, last, least, taken)
                            top += 1
                        if takes:
                            last, least, taken = price[row], min(least, price[row]), taken + 1
                        elif not next_match:
                            break
                    row += 1
    return matches, rows, reads
