"""Block-wise tests of conditions that compare the row with a value of the match's first row, or with a running maximum.

The exact search (:mod:`sparkcep.kernels.match.backtrack`) asks here which rows a variable may take. Each block of rows has its
least and its greatest value. So a run of rows is taken, and a row that may follow it is found, without looking at each row.

Example: ``A+ B`` with ``B AS v > 100 + max(A.v)``. The test of B compares ``v`` with the running maximum of ``v + 100`` over the
rows from the match's first one up to the row before the candidate. If the greatest ``v`` of a block is at most the maximum before
the block, no row of the block can be B.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.kernels.jit.cache import inlined, kernel

BLOCK = 64  # rows
SHIFT = 6  # BLOCK as a power of two
EQ, NE, LT, LE, GT, GE = range(6)
T_OP, T_RUNNING, T_OWN = range(3)  # columns of ``tests``
B_LEAST, B_MOST, B_RIGHT, B_BEFORE = range(4)  # rows of ``blocks``, four for each test
U_START, U_BLOCK = range(2)  # columns of ``upto``
NONE = -(1 << 63)  # a NULL on the right side


class Thresholds(NamedTuple):
    """Tests in the order of their variables; all of a variable's tests must hold. The search takes them instead of bytecode.

    Attributes:
        first: int64 (variables + 1), the first test of each variable.
        tests: int64 (tests, 3). T_OP is the comparison. T_RUNNING is 1 if the right side is the maximum over the match's rows so
            far, 0 if it is the value at the match's first row. T_OWN is 1 if the candidate row counts in that maximum.
        values: int64 (2 x tests, rows), left and right values.
        blocks: int64 (4 x tests, blocks): least and greatest left value, greatest right value, and the maximum of the right side
            from the match's first row to the row before the block.
        upto: int64 (tests, 2), the start row and the last block for which that maximum is known.
        letters: int64 (2, blocks), the letters of any row and of all rows.
        held: uint8 (BLOCK), working memory.
    """

    first: np.ndarray
    tests: np.ndarray
    values: np.ndarray
    blocks: np.ndarray
    upto: np.ndarray
    letters: np.ndarray
    held: np.ndarray


@inlined
def _compared(op, x, y):
    r = False
    if op == LT:
        r = x < y
    elif op == GT:
        r = x > y
    elif op == GE:
        r = x >= y
    elif op == LE:
        r = x <= y
    elif op == EQ:
        r = x == y
    else:
        r = x != y
    return r and y != NONE


@kernel
def _before_block(t, begin, block, thresholds):
    """The greatest right value from row ``begin`` to before the block, or NONE without a row."""
    first, tests, values, blocks, upto, letters, held = thresholds
    known = 4 * t + B_BEFORE
    at = (begin >> SHIFT) + 1  # the first block after ``begin``
    if block < at:
        return np.int64(NONE)
    if upto[t, U_START] != begin:
        found = np.int64(NONE)
        for row in range(begin, min(at << SHIFT, values.shape[1])):
            found = max(found, values[2 * t + 1, row])
        blocks[known, at] = found
        upto[t, U_START] = begin
        upto[t, U_BLOCK] = at
    # The maximum is extended block by block, and kept for later calls with the same start row.
    for k in range(upto[t, U_BLOCK], block):
        blocks[known, k + 1] = max(blocks[known, k], blocks[4 * t + B_RIGHT, k])
    upto[t, U_BLOCK] = max(upto[t, U_BLOCK], block)
    return blocks[known, block]


@kernel
def _hold(variable, begin, low, high, rows, thresholds):
    """Marks in ``held`` which rows from ``low`` to before ``high`` the variable may take. The rows belong to one block."""
    first, tests, values, blocks, upto, letters, held = thresholds
    for k in range(high - low):
        held[k] = (rows[low + k] >> variable) & 1
    for t in range(first[variable], first[variable + 1]):
        op = tests[t, T_OP]
        if tests[t, T_RUNNING] == 0:
            limit = values[2 * t + 1, begin]
            for k in range(high - low):
                held[k] &= _compared(op, values[2 * t, low + k], limit)
            continue
        at = low & -BLOCK
        limit = _before_block(t, begin, low >> SHIFT, thresholds)
        for row in range(max(at, begin), low):
            limit = max(limit, values[2 * t + 1, row])
        own = tests[t, T_OWN]
        for k in range(high - low):
            if own == 1:
                limit = max(limit, values[2 * t + 1, low + k])
            held[k] &= _compared(op, values[2 * t, low + k], limit)
            if own == 0:
                limit = max(limit, values[2 * t + 1, low + k])


@kernel
def holds(variable, begin, row, rows, thresholds):
    """Whether a match from ``begin`` may map ``row`` to the variable. ``rows`` are the letters of the rows."""
    if (rows[row] >> variable) & 1 == 0:
        return False
    _hold(variable, begin, row, row + 1, rows, thresholds)
    return thresholds.held[0] == 1


@kernel
def _of_block(variable, begin, block, thresholds):
    """How many rows of a block the variable may take: 0 for none, 1 for all, 2 if each row must be tested.

    The block begins at or after ``begin``.
    """
    first, tests, values, blocks, upto, letters, held = thresholds
    if (letters[0, block] >> variable) & 1 == 0:
        return 0
    every = (letters[1, block] >> variable) & 1 == 1
    for t in range(first[variable], first[variable + 1]):
        op = tests[t, T_OP]
        least = blocks[4 * t + B_LEAST, block]
        most = blocks[4 * t + B_MOST, block]
        # The right side of each row of the block lies between these two.
        if tests[t, T_RUNNING] == 1:
            low = _before_block(t, begin, block, thresholds)
            high = max(low, blocks[4 * t + B_RIGHT, block])
        else:
            low = values[2 * t + 1, begin]
            high = low
        if high == NONE:
            return 0
        if op == GT:
            none = most <= low
            fits = least > high
        elif op == GE:
            none = most < low
            fits = least >= high
        elif op == LT:
            none = least >= high
            fits = most < low
        elif op == LE:
            none = least > high
            fits = most <= low
        else:
            apart = most < low or least > high
            alike = least == most and low == high and least == low
            none = apart if op == EQ else alike
            fits = alike if op == EQ else apart
        if none:
            return 0
        every = every and fits and low != NONE
    return 1 if every else 2


@kernel
def end_of_run(variable, begin, row, stop, rows, thresholds):
    """The first row from ``row`` to before ``stop`` that the variable may not take, else ``stop``."""
    while row < stop:
        end = min(stop, (row & -BLOCK) + BLOCK)
        if row & (BLOCK - 1) == 0 and row >= begin:
            known = _of_block(variable, begin, row >> SHIFT, thresholds)
            if known == 0:
                return row
            if known == 1:
                row = end
                continue
        _hold(variable, begin, row, end, rows, thresholds)
        for k in range(end - row):
            if thresholds.held[k] == 0:
                return row + k
        row = end
    return row


@kernel
def last_that_holds(variable, begin, low, row, rows, thresholds):
    """The last row from ``row`` down to ``low`` that the variable may take, else ``low - 1``."""
    while row >= low:
        block = row >> SHIFT
        at = max(block << SHIFT, low)
        if (block << SHIFT) < begin or _of_block(variable, begin, block, thresholds) != 0:
            _hold(variable, begin, at, row + 1, rows, thresholds)
            for k in range(row - at, -1, -1):
                if thresholds.held[k] == 1:
                    return at + k
        row = at - 1
    return row
