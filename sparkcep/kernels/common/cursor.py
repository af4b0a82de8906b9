"""Cursor over partitions: the resume position of a kernel, and the match events that it writes.

The depth-first kernels (:mod:`sparkcep.kernels.match`) and the kernels that follow all runs at once share these functions.
"""

from __future__ import annotations

from sparkcep.kernels.common.layout import (
    DONE,
    E_LABELS,
    E_NUMBER,
    E_PART,
    E_ROWS,
    E_START,
    O_COVERED,
    O_GOING,
    O_NUMBER,
    O_START,
    S_COVERED,
    S_EVENTS,
    S_LABELS,
    S_NUMBER,
    S_PART,
    S_START,
    SUSPENDED,
)
from sparkcep.kernels.jit.cache import inlined, kernel


@inlined
def resumed(state):
    """Resume position of the search: (partition, row, match number, events written, labels written, first row not covered)."""
    return state[S_PART], state[S_START], state[S_NUMBER], state[S_EVENTS], state[S_LABELS], state[S_COVERED]


@inlined
def suspend(state, part, row, number, events, labels, covered):
    """Saves the resume position, for :func:`resumed`."""
    state[S_PART] = part
    state[S_START] = row
    state[S_NUMBER] = number
    state[S_EVENTS] = events
    state[S_LABELS] = labels
    state[S_COVERED] = covered


@inlined
def entered(opens, part):
    """Begin of the search of a partition: (row, match number, first row not covered)."""
    return opens[part, O_START], opens[part, O_NUMBER], opens[part, O_COVERED]


@inlined
def left(opens, part, outcome, open_end, row, number, covered):
    """Ends the search of a partition and returns the outcome for the whole call.

    If the partition still grows, the position is saved in ``opens`` and SUSPENDED becomes DONE, so that the next partition is
    searched.
    """
    if outcome == SUSPENDED or (outcome == DONE and open_end):
        opens[part, O_START] = row
        opens[part, O_NUMBER] = number
        opens[part, O_COVERED] = covered
        outcome = DONE
    return outcome


@inlined
def bounds(part, offsets, opens, ahead):
    """Bounds of a partition: (first row, end, whether the partition still grows, end of the rows that can be decided).

    In a partition that still grows the last ``ahead`` rows cannot be decided yet.
    """
    low = offsets[part]
    high = offsets[part + 1]
    open_end = opens[part, O_GOING] == 1
    limit = high - ahead if open_end else high
    return low, high, open_end, limit


@inlined
def put_event(events, at, part, start, rows, number, labels):
    """Writes row ``at`` of ``events``."""
    events[at, E_PART] = part
    events[at, E_START] = start
    events[at, E_ROWS] = rows
    events[at, E_NUMBER] = number
    events[at, E_LABELS] = labels


@kernel
def unmatched(covered, upto, taken, events, count, part, label_count):
    """Writes an event for each unmatched row from ``covered`` to before ``upto``.

    Returns (first row not covered, events written). The row is less than ``upto`` if ``events`` is full.
    """
    while covered < upto:
        if taken[covered] == 0:
            if count == events.shape[0]:
                break
            put_event(events, count, part, covered, -1, 0, label_count)
            count += 1
        covered += 1
    return covered, count
