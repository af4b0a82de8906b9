"""Computations whose records are kept behind each row, while rows come and go (AFA paper, section 5.1, the lists of *pmatch*).

Records and what is done with them are those of :mod:`sparkcep.kernels.automaton.register_runs`. A change of the rows is taken step
by step: what it takes away behind the rows that follow (RemoveInvalidatedSequences), the row itself, and what goes on through it or
over its place (PropagateInsert), a row at a time. Each step is whole before the next one begins, so where there is no room the
kernel goes on with the same step once there is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.kernels.automaton.register_runs import (
    BEFORE_ALL,
    ENDLESS,
    I_FIRST,
    I_PARENT,
    M_EXPIRED,
    RECORDS,
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
from sparkcep.kernels.common.layout import DONE, E_ROWS, E_START, FULL, GROW
from sparkcep.kernels.jit.cache import embedded, kernel

# state behind that of the computations: which change or row is next, what of the change comes next, at which of the rows that are
# there, whether computations still cross, the first match that is not told; how many rows are there, how much of ``kept`` is used,
# how many records are kept, and were at most; the number of the change, how many changes of matches are to be told, with how many
# rows; behind which row stand all the records at hand, -1: none
(
    S_AT, S_STEP, S_PLACE, S_CROSSING, S_NEW, S_LIVE, S_USED, S_RECORDS, S_MOST, S_TURN, S_CHANGES, S_CHANGE_ROWS, S_OF, CHANGES_STATE_SIZE,
) = range(STATE_SIZE, STATE_SIZE + 14)  # fmt: skip
TAKE, GONE, REMOVE, LEAVE, ROW, EMIT, CARRY = range(7)  # what of a change comes next
KEPT, CHANGES, CHANGE_ROWS, STATE = range(100, 104)  # of what there is no room, beside those of search.computations
T_TURN, T_INSERT, T_CAUSE, T_MATCH, T_BEGIN, T_ROWS, T_WIDTH = range(7)  # columns of what is told
UNCROSSED = (1 << 63) - 1


class LogArrays(NamedTuple):
    """The rows that are there and what stands behind them. ``live`` int64: these rows, in order; by rows ``place`` and ``count``
    int64: which of ``kept`` int64 (room, width) are the records behind it, ``crossed`` int64: the first row of the oldest record
    that was dropped there (UNCROSSED: none), ``head`` int64: the first match that ends there (-1: none). By matches ``next`` int64:
    the next one at the same row, ``stands`` uint8: whether it is there. ``changes`` int64 (room, T_WIDTH) and ``change_rows``
    int64: the changes to report. ``numbers`` int64 and ``unnumbered`` uint8 by rows: the numbers of CONSECUTIVE BY and whether there is none;
    empty without that."""

    live: np.ndarray
    place: np.ndarray
    count: np.ndarray
    kept: np.ndarray
    crossed: np.ndarray
    head: np.ndarray
    next: np.ndarray
    stands: np.ndarray
    changes: np.ndarray
    change_rows: np.ndarray
    numbers: np.ndarray
    unnumbered: np.ndarray


@embedded
def _position(q, count, live):
    """How many of the first ``count`` rows that are there come before ``q``."""
    low = np.int64(0)
    high = count
    if count > 0 and live[count - 1] < q:
        return count
    while low < high:
        middle = (low + high) // 2
        if live[middle] < q:
            low = middle + 1
        else:
            high = middle
    return low


@embedded
def _apart(before, q, log):
    """Whether no computation may step from the row ``before`` (-1: none) to ``q``: CONSECUTIVE BY."""
    if log.numbers.shape[0] == 0:
        return False
    if before < 0 or log.unnumbered[before] == 1 or log.unnumbered[q] == 1:
        return True
    # a number behind another is not the least one, so that nothing wraps
    return not (log.numbers[q] > log.numbers[before] and log.numbers[q] - 1 == log.numbers[before])


@embedded
def _lacking(what, state):
    state[S_DETAIL] = what
    return GROW


@kernel
def _note(match, insert, cause, by_ways, room, log, state):
    """Notes that a match comes or goes, with the rows that are there now between its first and its last one; where ways tell the
    rows, without them."""
    at = state[S_CHANGES]
    if at == log.changes.shape[0]:
        return _lacking(CHANGES, state)
    begin = state[S_CHANGE_ROWS]
    rows = np.int64(0)
    if not by_ways:
        first = room.events[match, E_START]
        low = _position(first, state[S_LIVE], log.live)
        rows = _position(first + room.events[match, E_ROWS], state[S_LIVE], log.live) - low
        if begin + rows > log.change_rows.shape[0]:
            return _lacking(CHANGE_ROWS, state)
        for k in range(rows):
            log.change_rows[begin + k] = log.live[low + k]
    log.changes[at, T_TURN] = state[S_TURN]
    log.changes[at, T_INSERT] = insert
    log.changes[at, T_CAUSE] = cause
    log.changes[at, T_MATCH] = match
    log.changes[at, T_BEGIN] = begin
    log.changes[at, T_ROWS] = rows
    state[S_CHANGE_ROWS] = begin + rows
    state[S_CHANGES] = at + 1
    if insert == 0:
        state[S_NUMBER] -= 1
    return DONE


@kernel
def _remove(place, cause, by_ways, parents, room, log, state):
    """Takes what begins before ``place`` away behind the rows from the one on at which ``state`` stands."""
    while state[S_CROSSING] == 1 and state[S_PLACE] < state[S_LIVE]:
        row = log.live[state[S_PLACE]]
        last = np.int64(-1)
        match = log.head[row]
        while match >= 0:
            next = log.next[match]
            if room.events[match, E_START] < place and room.matches[match, M_EXPIRED] == 0:
                outcome = _note(match, np.int64(0), cause, by_ways, room, log, state)
                if outcome != DONE:
                    return outcome
                log.stands[match] = 0
                if last < 0:
                    log.head[row] = next
                else:
                    log.next[last] = next
            else:
                last = match
            match = next
        begin = log.place[row]
        count = log.count[row]
        gone = np.int64(0)
        while gone < count and log.kept[begin + gone, I_FIRST] < place:
            gone += 1
        if gone > 0:
            log.place[row] = begin + gone
            log.count[row] = count - gone
            state[S_RECORDS] -= gone
            if parents:
                for k in range(begin + gone, begin + count):
                    if log.kept[k, I_PARENT] >= 0:
                        log.kept[k, I_PARENT] -= gone
        state[S_CROSSING] = 1 if gone > 0 or log.crossed[row] < place else 0
        state[S_PLACE] += 1
    return DONE


@embedded
def _at_hand(row, room, log, state):
    """Has the records behind a row (-1: none) at hand. Returns whether there is room for them."""
    count = log.count[row] if row >= 0 else np.int64(0)
    if count > room.ids.shape[1]:
        return False
    side = state[S_SIDE]
    begin = log.place[row] if row >= 0 else np.int64(0)
    for k in range(count):
        for i in range(log.kept.shape[1]):
            room.ids[side, k, i] = log.kept[begin + k, i]
    state[S_COUNT] = count
    state[S_OF] = row
    return True


@kernel
def _made(q, high, fresh, old, graph, values, rows, room, labelled, max_steps, max_matches, log, state):
    """Gives the row ``q`` to the records at hand; where it is ``fresh``, new computations begin at it. What comes of it is written
    behind what is used of ``kept``, where there is room for as many as ``old`` more. Returns DONE, or what is the matter; then
    nothing of the row is there."""
    side = state[S_SIDE]
    count = state[S_COUNT]
    events = state[S_EVENTS]
    labels = state[S_LABELS]
    ways = state[S_WAYS]
    number = state[S_NUMBER]
    state[S_ROW] = q
    if fresh and _begins_otherwise(rows.base[q], graph, state):
        outcome = _row(q, q + 1, True, True, ENDLESS, BEFORE_ALL, graph, values, rows, room, False, max_steps, 0, state)
        if outcome != DONE:
            return outcome
    if fresh:
        state[S_BASE] = rows.base[q]
    initial = state[S_INITIAL]
    if not fresh:
        state[S_INITIAL] = 0
    outcome = _row(q, high, False, False, ENDLESS, BEFORE_ALL, graph, values, rows, room, labelled, max_steps, max_matches, state)
    state[S_INITIAL] = initial
    made = state[S_COUNT]
    begin = state[S_USED]
    if outcome == DONE and begin + made + old > log.kept.shape[0]:
        outcome = _lacking(KEPT, state)
    if outcome != DONE:  # the row is taken again
        state[S_SIDE] = side
        state[S_COUNT] = count
        state[S_EVENTS] = events
        state[S_LABELS] = labels
        state[S_WAYS] = ways
        state[S_NUMBER] = number
        return outcome
    for k in range(made):
        for i in range(log.kept.shape[1]):
            log.kept[begin + k, i] = room.ids[state[S_SIDE], k, i]
    return DONE


@kernel
def _taken(q, fresh, parents, graph, values, rows, room, labelled, max_steps, max_matches, log, state):
    """Gives the row ``q`` to the records at hand, and puts what comes of it in front of what stands behind that row. Returns DONE,
    or what is the matter; then nothing of the row is there."""
    events = state[S_EVENTS]
    old = log.count[q]
    outcome = _made(q, np.int64(0), fresh, old, graph, values, rows, room, labelled, max_steps, max_matches, log, state)
    if outcome != DONE:
        return outcome
    made = state[S_COUNT]
    if made > 0:
        begin = state[S_USED]
        behind = log.place[q]
        for k in range(old):
            for i in range(log.kept.shape[1]):
                log.kept[begin + made + k, i] = log.kept[behind + k, i]
            if parents and log.kept[begin + made + k, I_PARENT] >= 0:
                log.kept[begin + made + k, I_PARENT] += made
        log.place[q] = begin
        log.count[q] = made + old
        state[S_USED] = begin + made + old
        state[S_RECORDS] += made
        state[S_MOST] = max(state[S_MOST], state[S_RECORDS])
    last = log.head[q]
    for match in range(state[S_EVENTS] - 1, events - 1, -1):
        log.next[match] = last
        log.stands[match] = 1
        last = match
    log.head[q] = last
    state[S_NEW] = events
    return DONE


@kernel
def change(changed, comes, causes, flush, flush_rows, graph, values, rows, room, labelled, max_steps, max_matches, max_records, log, state):
    """Takes the changes one behind the other from the one at which ``state`` stands: the row ``changed`` int64 that comes, or goes
    where ``comes`` uint8 is 0, by the cause ``causes`` int64.

    Returns DONE; FULL where as many changes of matches as ``flush``, or their rows as ``flush_rows``, are to be told, of whole
    changes of rows; FULL or GROW with what there is no room for, or an error."""
    by_ways = values.way[0] >= 0
    parents = graph.silent.shape[0] > 0
    while True:
        at = state[S_AT]
        step = state[S_STEP]
        if step == TAKE:
            if at == changed.shape[0]:
                return DONE
            if state[S_CHANGES] >= flush or state[S_CHANGE_ROWS] >= flush_rows:
                state[S_DETAIL] = CHANGES
                return FULL
            state[S_TURN] += 1
            q = changed[at]
            place = _position(q, state[S_LIVE], log.live)
            state[S_PLACE] = place
            if comes[at] == 0:
                state[S_STEP] = GONE
            elif place == state[S_LIVE]:
                state[S_STEP] = ROW
            else:
                before = log.live[place - 1] if place > 0 else np.int64(-1)
                state[S_CROSSING] = 1 if before >= 0 and (log.count[before] > 0 or log.crossed[before] < UNCROSSED) else 0
                state[S_OF] = -1
                state[S_STEP] = REMOVE
            continue
        q = changed[at]
        if step == GONE:
            while log.head[q] >= 0:
                match = log.head[q]
                outcome = _note(match, np.int64(0), causes[at], by_ways, room, log, state)
                if outcome != DONE:
                    return outcome
                log.stands[match] = 0
                log.head[q] = log.next[match]
            state[S_CROSSING] = 1 if log.count[q] > 0 or log.crossed[q] < UNCROSSED else 0
            state[S_PLACE] += 1
            state[S_OF] = -1
            state[S_STEP] = REMOVE
        elif step == REMOVE:
            outcome = _remove(q if comes[at] == 1 else q + 1, causes[at], by_ways, parents, room, log, state)
            if outcome != DONE:
                return outcome
            state[S_STEP] = ROW if comes[at] == 1 else LEAVE
        elif step == LEAVE:
            place = _position(q, state[S_LIVE], log.live)
            if place > 0 and not _at_hand(log.live[place - 1], room, log, state):
                return _lacking(RECORDS, state)
            for k in range(place, state[S_LIVE] - 1):
                log.live[k] = log.live[k + 1]
            state[S_LIVE] -= 1
            state[S_RECORDS] -= log.count[q]
            log.count[q] = 0
            state[S_PLACE] = place
            state[S_OF] = -1
            state[S_NEW] = state[S_EVENTS]
            if place == 0:
                state[S_COUNT] = 0
            state[S_STEP] = CARRY
        elif step == ROW:
            place = _position(q, state[S_LIVE], log.live)
            before = log.live[place - 1] if place > 0 else np.int64(-1)
            if _apart(before, q, log):
                state[S_COUNT] = 0
            elif state[S_OF] != before or before < 0:
                if not _at_hand(before, room, log, state):
                    return _lacking(RECORDS, state)
            outcome = _taken(q, True, parents, graph, values, rows, room, labelled, max_steps, max_matches, log, state)
            if outcome != DONE:
                return outcome
            for k in range(state[S_LIVE], place, -1):
                log.live[k] = log.live[k - 1]
            log.live[place] = q
            state[S_LIVE] += 1
            state[S_PLACE] = place + 1
            state[S_OF] = q if place + 1 == state[S_LIVE] else -1
            state[S_STEP] = EMIT
        elif step == EMIT:
            while state[S_NEW] < state[S_EVENTS]:
                outcome = _note(state[S_NEW], np.int64(1), causes[at], by_ways, room, log, state)
                if outcome != DONE:
                    return outcome
                state[S_NEW] += 1
            if state[S_RECORDS] > max_records:
                return _lacking(STATE, state)
            state[S_STEP] = CARRY
        else:
            place = state[S_PLACE]
            if place == state[S_LIVE] or state[S_COUNT] == 0 or (place > 0 and _apart(log.live[place - 1], log.live[place], log)):
                state[S_STEP] = TAKE
                state[S_AT] = at + 1
                continue
            outcome = _taken(log.live[place], False, parents, graph, values, rows, room, labelled, max_steps, max_matches, log, state)
            if outcome != DONE:
                return outcome
            state[S_PLACE] = place + 1
            state[S_STEP] = EMIT


@kernel
def walk(order, before, high, graph, values, rows, room, labelled, max_steps, max_matches, log, sizes, changes, state):
    """Takes the rows ``order`` int64 one behind the other, from the one at which ``state`` stands, with the records at hand, which
    stand behind the row ``before``; new computations begin at each of them.

    The records behind each row are put behind what is used of ``kept``, of each row as many as ``sizes`` int64 then says, and
    ``changes`` int64 says how many matches there are by then. ``high``: row q sees when row q + 1 is if that is less. Returns DONE,
    FULL or GROW with what there is no room for, or an error."""
    while state[S_AT] < order.shape[0]:
        at = state[S_AT]
        q = order[at]
        if _apart(order[at - 1] if at > 0 else before, q, log):
            state[S_COUNT] = 0
        events = state[S_EVENTS]
        outcome = _made(q, high, True, np.int64(0), graph, values, rows, room, labelled, max_steps, max_matches, log, state)
        if outcome != DONE:
            return outcome
        for match in range(events, state[S_EVENTS]):
            log.stands[match] = 0
        sizes[at] = state[S_COUNT]
        changes[at] = state[S_EVENTS]
        state[S_USED] += state[S_COUNT]
        state[S_AT] = at + 1
    return DONE


@kernel
def begin(q, graph, values, rows, room, max_steps, state):
    """Makes the records before the first row. Returns DONE or what is the matter."""
    state[S_BASE] = rows.base[q]
    return _row(q, q + 1, True, True, ENDLESS, BEFORE_ALL, graph, values, rows, room, False, max_steps, 0, state)
