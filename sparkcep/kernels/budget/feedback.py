"""Feedback control of the checks of a row: BUDGET INTERVAL holds the time of matching rows (load shedding by time).

The best-effort search (:mod:`sparkcep.kernels.budget.best_effort`) asks at each matching row how many candidates it may try. Rows
are taken in blocks of 64. After each block the time and the checks of the blocks so far say how many checks fit the allowance of
the next block. Each older block counts half as much.

Example: the interval is 5,000 ns, and the clock counts 200 ns for each row and 400 ns for each check. A block begins with 64 x 8 =
512 checks and takes 64 * 200 + 512 * 400 = 217,600 ns. So the next block may use 64 * 5000 * 512 // 217600 = 752 checks. Its rows
try 11 or 12 candidates each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.kernels.common.clock import nanoseconds
from sparkcep.kernels.jit.cache import embedded, kernel

BLOCK, READ = 64, 8  # rows of a block, and rows between two readings of the clock
FIRST, MOST = 64 * 8, 64 << 20  # checks of the first block, most checks of a block
THREAD, WALL, COUNTED = range(3)
PER_ROW, PER_PARTITION, PER_BATCH = range(3)
# Columns of a controller's state:
# F_CHECKS: checks of the present block (T4's X). F_TIME, F_MADE: time and checks of the blocks before, discounted (SD and SC).
# F_AT: rows of the present block so far. F_ELAPSED, F_TRIED: time and checks of the present block. F_LATE: 1 once it is cut off.
# The first ones are saved of a partition that still grows.
F_CHECKS, F_TIME, F_MADE, F_AT, F_ELAPSED, F_TRIED, F_LATE, SAVED_FEEDBACK = range(8)
# F_ALLOWANCE: nanoseconds of a row in the present block. F_LEFT, F_ROWS: time and matching rows that are left for the partition or
# the micro-batch before the present block.
# F_MARK: the last reading of the clock.
F_ALLOWANCE, F_LEFT, F_ROWS, F_MARK, FEEDBACK_FIELDS = range(7, 12)
# Columns of the totals: finished blocks, late blocks, least and greatest checks of a block (0: no block).
B_BLOCKS, B_LATE, B_LEAST, B_GREATEST, BLOCK_FIELDS = range(5)
R_ALLOWED, R_ELAPSED, R_TRIED, RECORD_FIELDS = range(4)  # columns of a finished block: nanoseconds allowed and used, checks made


class Feedback(NamedTuple):
    """A feedback controller.

    Attributes:
        wanted: whether time limits the checks.
        per: PER_ROW, PER_PARTITION or PER_BATCH.
        interval: the interval in nanoseconds.
        kind: THREAD, WALL or COUNTED.
        row, check: nanoseconds of a matching row and of a check, by a counting clock.
        now: int64 (FEEDBACK_FIELDS), the present state.
        before, after: int64 (partitions, SAVED_FEEDBACK), the states at the beginning and at the end of the call; only PER_ROW.
        rows: int64, how many matching rows are to be searched: of each partition, or PER_BATCH of all; not PER_ROW.
        totals: int64 (BLOCK_FIELDS).
        reading: int64 (2), working memory of the clock.
        record: int64 (n, RECORD_FIELDS), output: the first n finished blocks, for measurements.
    """

    wanted: bool
    per: int
    interval: int
    kind: int
    row: int
    check: int
    now: np.ndarray
    before: np.ndarray
    after: np.ndarray
    rows: np.ndarray
    totals: np.ndarray
    reading: np.ndarray
    record: np.ndarray


@embedded
def start_clock(feedback):
    """Reads the clock, so that the time until now does not count."""
    if feedback.kind != COUNTED:
        feedback.now[F_MARK] = nanoseconds(feedback.kind == THREAD, feedback.reading)


@embedded
def read_clock(feedback):
    """Adds the time since the last reading to the present block."""
    if feedback.kind != COUNTED:
        before = feedback.now[F_MARK]
        start_clock(feedback)
        feedback.now[F_ELAPSED] += feedback.now[F_MARK] - before


@embedded
def _begin_block(feedback):
    now = feedback.now
    now[F_AT] = 0
    now[F_ELAPSED] = 0
    now[F_TRIED] = 0
    now[F_LATE] = 0
    _allow(feedback)
    if now[F_ALLOWANCE] == 0:
        now[F_CHECKS] = BLOCK


@embedded
def _allow(feedback):
    """Sets the allowance of a row: the interval, or what is left of it by the matching rows left."""
    now = feedback.now
    now[F_ALLOWANCE] = feedback.interval if feedback.per == PER_ROW else max(now[F_LEFT], 0) // max(now[F_ROWS], 1)


@embedded
def begin_feedback(feedback, left, rows):
    """Starts over, with this time and so many matching rows left."""
    now = feedback.now
    now[F_CHECKS] = FIRST
    now[F_TIME] = 0
    now[F_MADE] = 0
    now[F_LEFT] = left
    now[F_ROWS] = rows
    _begin_block(feedback)


@kernel
def enter_feedback(part, feedback):
    """Begins or resumes the control of a partition's rows. A micro-batch has one control for all of its partitions."""
    now = feedback.now
    if feedback.per == PER_PARTITION or (feedback.per == PER_BATCH and part == 0):
        begin_feedback(feedback, feedback.interval, feedback.rows[part])
    elif feedback.per == PER_ROW and feedback.before[part, F_CHECKS] == 0:
        begin_feedback(feedback, np.int64(0), np.int64(0))
    elif feedback.per == PER_ROW:
        for k in range(SAVED_FEEDBACK):
            now[k] = feedback.before[part, k]
        now[F_ALLOWANCE] = feedback.interval
    start_clock(feedback)


@kernel
def leave_feedback(part, feedback):
    """Saves the control of a partition's rows, unless it has seen none."""
    now = feedback.now
    read_clock(feedback)
    if feedback.per == PER_ROW:
        some = now[F_AT] > 0 or now[F_MADE] > 0
        for k in range(SAVED_FEEDBACK):
            feedback.after[part, k] = now[k] if some else 0


@kernel
def checks_allowed(feedback):
    """How many candidates the present row may try. The clock is read at every eighth row of a block."""
    now = feedback.now
    at, checks = now[F_AT], now[F_CHECKS]
    if at > 0 and at % READ == 0 and now[F_LATE] == 0:
        read_clock(feedback)
        if now[F_ELAPSED] >= BLOCK * now[F_ALLOWANCE]:
            now[F_LATE] = 1
    if now[F_LATE] == 1:
        return np.int64(1)
    return (at + 1) * checks // BLOCK - at * checks // BLOCK


@kernel
def count_row(tried, feedback):
    """Counts a row and its checks. The last row of a block sets the checks of the next one."""
    now, totals = feedback.now, feedback.totals
    if now[F_AT] == 0:
        totals[B_LEAST] = now[F_CHECKS] if totals[B_LEAST] == 0 else min(totals[B_LEAST], now[F_CHECKS])
        totals[B_GREATEST] = max(totals[B_GREATEST], now[F_CHECKS])
    now[F_AT] += 1
    now[F_TRIED] += tried
    if feedback.kind == COUNTED:
        now[F_ELAPSED] += feedback.row + feedback.check * tried
    if now[F_AT] == BLOCK:
        read_clock(feedback)
        _end_block(feedback)


@embedded
def _end_block(feedback):
    now, totals, record = feedback.now, feedback.totals, feedback.record
    if totals[B_BLOCKS] < record.shape[0]:
        record[totals[B_BLOCKS], R_ALLOWED] = BLOCK * now[F_ALLOWANCE]
        record[totals[B_BLOCKS], R_ELAPSED] = now[F_ELAPSED]
        record[totals[B_BLOCKS], R_TRIED] = now[F_TRIED]
    totals[B_BLOCKS] += 1
    if now[F_CHECKS] == BLOCK and now[F_ELAPSED] > BLOCK * now[F_ALLOWANCE]:
        totals[B_LATE] += 1
    now[F_TIME] = now[F_TIME] // 2 + now[F_ELAPSED]
    now[F_MADE] = now[F_MADE] // 2 + now[F_TRIED]
    now[F_LEFT] -= now[F_ELAPSED]
    now[F_ROWS] -= BLOCK
    _allow(feedback)
    if now[F_MADE] > 0:
        most = min(4 * now[F_CHECKS], MOST)
        now[F_CHECKS] = max(BLOCK, scaled(BLOCK * now[F_ALLOWANCE], now[F_MADE], max(now[F_TIME], 1), most))
    _begin_block(feedback)


@embedded
def scaled(a, b, c, most):
    """min(a * b // c, most), whose product may need more than 64 bits. ``b`` is at least 1 and c less than 2**61."""
    whole, rest = a // c, a % c
    if whole > most // b:
        return np.int64(most)
    found = whole * b
    # rest * b // c by the bits of b, from the highest one
    quotient = np.int64(0)
    over = np.int64(0)
    bit = np.int64(62)
    while bit >= 0:
        quotient *= 2
        over *= 2
        if (b >> bit) & 1 == 1:
            over += rest
        while over >= c:
            over -= c
            quotient += 1
        bit -= 1
    return min(found + quotient, np.int64(most))
