"""Computations over given rows, whose records are kept behind each row (AFA paper, section 5.1, the lists of *pmatch*).

Records and what is done with them are those of :mod:`sparkcep.search.computations`.
"""

from __future__ import annotations

from sparkcep.search.codes import DONE, GROW
from sparkcep.search.compiled import kernel
from sparkcep.search.computations import (
    S_BASE,
    S_COUNT,
    S_DETAIL,
    S_EVENTS,
    S_INITIAL,
    S_LABELS,
    S_NUMBER,
    S_ROW,
    S_SIDE,
    S_WAYS,
    STATE_SIZE,
    _begins_otherwise,
    _row,
)

# state behind that of the computations: which of the rows is next, how many records are kept
S_AT, S_KEPT, CHANGES_STATE_SIZE = range(STATE_SIZE, STATE_SIZE + 3)
KEPT = 100  # of what there is no room, beside those of search.computations


@kernel
def walk(order, apart, high, begins, graph, values, rows, room, labelled, max_steps, max_matches, kept, sizes, told, state):
    """Takes the rows ``order`` int64 one behind the other, from the one at which ``state`` stands, with the records at hand; new
    computations begin at the first ``begins`` of them. Where ``apart`` uint8 says so, no computation steps to a row from the one
    before it. Behind the first ``begins`` rows it ends when no computation is left.

    ``kept`` int64 (room, width) gets the records behind each row, ``sizes`` int64 how many, and ``told`` int64 how many matches
    there are by then. ``high``: row q sees when row q + 1 is if that is less. Returns DONE, FULL or GROW with what there is no room
    for, or an error."""
    while state[S_AT] < order.shape[0]:
        at = state[S_AT]
        if apart[at] == 1:
            state[S_COUNT] = 0
        fresh = at < begins
        if not fresh and state[S_COUNT] == 0:
            break
        side = state[S_SIDE]
        count = state[S_COUNT]
        events = state[S_EVENTS]
        labels = state[S_LABELS]
        ways = state[S_WAYS]
        number = state[S_NUMBER]
        q = order[at]
        state[S_ROW] = q
        if fresh and _begins_otherwise(rows.base[q], graph, state):
            outcome = _row(q, q + 1, True, True, graph, values, rows, room, False, max_steps, 0, state)
            if outcome != DONE:
                return outcome
        if fresh:
            state[S_BASE] = rows.base[q]
        initial = state[S_INITIAL]
        if not fresh:
            state[S_INITIAL] = 0
        outcome = _row(q, high, False, False, graph, values, rows, room, labelled, max_steps, max_matches, state)
        state[S_INITIAL] = initial
        made = state[S_COUNT]
        place = state[S_KEPT]
        if outcome == DONE and place + made > kept.shape[0]:
            state[S_DETAIL] = KEPT
            outcome = GROW
        if outcome != DONE:  # the row is taken again
            state[S_SIDE] = side
            state[S_COUNT] = count
            state[S_EVENTS] = events
            state[S_LABELS] = labels
            state[S_WAYS] = ways
            state[S_NUMBER] = number
            return outcome
        for k in range(made):
            for i in range(kept.shape[1]):
                kept[place + k, i] = room.ids[state[S_SIDE], k, i]
        sizes[at] = made
        told[at] = state[S_EVENTS]
        state[S_KEPT] = place + made
        state[S_AT] = at + 1
    return DONE


@kernel
def begin(q, graph, values, rows, room, max_steps, state):
    """Makes the records before the first row. Returns DONE or what is the matter."""
    state[S_BASE] = rows.base[q]
    return _row(q, q + 1, True, True, graph, values, rows, room, False, max_steps, 0, state)
