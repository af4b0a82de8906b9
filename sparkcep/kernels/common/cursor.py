"""What searches over partitions share: where they stand between two calls, and the events they write."""

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
    """Where the search goes on: partition, row, match number, events and labels written, first row not covered."""
    return state[S_PART], state[S_START], state[S_NUMBER], state[S_EVENTS], state[S_LABELS], state[S_COVERED]


@inlined
def suspend(state, part, row, number, events, labels, covered):
    """Keeps where the search stands."""
    state[S_PART] = part
    state[S_START] = row
    state[S_NUMBER] = number
    state[S_EVENTS] = events
    state[S_LABELS] = labels
    state[S_COVERED] = covered


@inlined
def entered(opens, part):
    """Where the search of a partition begins: row, match number, first row not covered."""
    return opens[part, O_START], opens[part, O_NUMBER], opens[part, O_COVERED]


@inlined
def left(opens, part, outcome, open_end, row, number, covered):
    """How the search of a partition ended. Where a partition that goes on stands is kept, and it counts as done."""
    if outcome == SUSPENDED or (outcome == DONE and open_end):
        opens[part, O_START] = row
        opens[part, O_NUMBER] = number
        opens[part, O_COVERED] = covered
        outcome = DONE
    return outcome


@inlined
def bounds(part, offsets, opens, ahead):
    """(first row, end, whether rows are still to come, end of the rows that can be decided) of a partition."""
    low = offsets[part]
    high = offsets[part + 1]
    open_end = opens[part, O_GOING] == 1
    limit = high - ahead if open_end else high
    return low, high, open_end, limit


@inlined
def put_event(events, at, part, start, rows, number, labels):
    """Writes a row of ``events``."""
    events[at, E_PART] = part
    events[at, E_START] = start
    events[at, E_ROWS] = rows
    events[at, E_NUMBER] = number
    events[at, E_LABELS] = labels


@kernel
def unmatched(covered, upto, taken, events, count, part, label_count):
    """Events for the rows from ``covered`` to before ``upto`` that are in no match; (row to go on from, events), short of
    ``upto`` where ``events`` is full."""
    while covered < upto:
        if taken[covered] == 0:
            if count == events.shape[0]:
                break
            put_event(events, count, part, covered, -1, 0, label_count)
            count += 1
        covered += 1
    return covered, count
