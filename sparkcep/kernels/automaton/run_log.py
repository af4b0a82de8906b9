"""Run log: keeps the records of the runs after each row while rows are inserted and deleted (AFA paper, section 5.1, the lists of
*pmatch*).

The engine's changelog (:mod:`sparkcep.engine.changelog.run_log`) drives it. Records and steps are those of
:mod:`sparkcep.kernels.automaton.register_runs`. A change of the rows is applied in steps. First invalid records are removed after
the later rows (RemoveInvalidatedSequences). Then follows the row itself, and then the runs that go on through it or over its place
(PropagateInsert), one row at a time. Each step is complete before the next one begins. So if an array is full, the kernel resumes
with the same step once it has room.

Example: the automaton and the rows 0, 1, 2 of :mod:`sparkcep.kernels.automaton.register_runs`. Deleting row 1 retracts its match.
Then (T, first 1, low 5) is removed after row 2, and the match of rows 1 and 2 is retracted. The record (T, first 0, low 3) after
row 0 now takes row 2, because 5 > 3. So the match of rows 0 and 2 is inserted.
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
    begins_otherwise,
    take_row,
)
from sparkcep.kernels.common.layout import DONE, E_ROWS, E_START, FULL, GROW
from sparkcep.kernels.jit.cache import embedded, kernel

# State after that of the runs:
# S_AT, S_STEP, S_PLACE: next change or row, its next step, the place among the live rows.
# S_CROSSING: whether runs still cross the change.
# S_NEW: the first match that has not been emitted.
# S_LIVE, S_USED, S_RECORDS, S_MOST: live rows, used part of ``kept``, records that are kept, their maximum.
# S_TURN: number of the change.
# S_CHANGES, S_CHANGE_ROWS: match changes to emit, and their rows.
# S_OF: the row whose records are the current ones, all of them; -1 if there is none.
(
    S_AT, S_STEP, S_PLACE, S_CROSSING, S_NEW, S_LIVE, S_USED, S_RECORDS, S_MOST, S_TURN, S_CHANGES, S_CHANGE_ROWS, S_OF, CHANGES_STATE_SIZE,
) = range(STATE_SIZE, STATE_SIZE + 14)  # fmt: skip
TAKE, GONE, REMOVE, LEAVE, ROW, EMIT, CARRY = range(7)  # steps of a change
KEPT, CHANGES, CHANGE_ROWS, STATE = range(100, 104)  # what is full, beside the values of ``register_runs``
T_TURN, T_INSERT, T_CAUSE, T_MATCH, T_BEGIN, T_ROWS, T_WIDTH = range(7)  # columns of ``changes``
UNCROSSED = (1 << 63) - 1


class LogArrays(NamedTuple):
    """The live rows, and the records after each.

    Attributes:
        live: int64, the live rows in order.
        place, count: int64 (rows), the range of ``kept`` with the records after the row.
        kept: int64 (room, width), records.
        crossed: int64 (rows), the first row of the oldest record that was dropped there (UNCROSSED: none).
        head: int64 (rows), the first match that ends there (-1: none).
        next: int64 (matches), the next match with this last row.
        stands: uint8 (matches), whether the match exists.
        changes: int64 (room, T_WIDTH), output: match changes to emit.
        change_rows: int64, output: their rows.
        numbers, unnumbered: int64 and uint8 (rows), the numbers of CONSECUTIVE BY and whether there is none; empty without that
            option.
    """

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
    """How many of the first ``count`` live rows come before ``q``."""
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
    """Whether CONSECUTIVE BY forbids a run to step from the row ``before`` (-1: none) to ``q``."""
    if log.numbers.shape[0] == 0:
        return False
    if before < 0 or log.unnumbered[before] == 1 or log.unnumbered[q] == 1:
        return True
    # The greater number is not the least one, so subtracting 1 does not wrap.
    return not (log.numbers[q] > log.numbers[before] and log.numbers[q] - 1 == log.numbers[before])


@embedded
def _lacking(what, state):
    state[S_DETAIL] = what
    return GROW


@kernel
def _note(match, insert, cause, by_ways, room, log, state):
    """Notes that a match is inserted or retracted, with the live rows between its first and its last one. If numbered paths give
    the rows, they are left out."""
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
    """Removes the records and matches that begin before ``place``, after the rows from the one in ``state`` on."""
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
    """Makes the records after a row (-1: none) the current ones. Returns False if they do not fit."""
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
def _made(q, high, fresh, old, context, log, state):
    """Lets the current records take row ``q``. If it is ``fresh``, new runs begin at it.

    The new records are written after the used part of ``kept``, where ``old`` more must fit. Returns DONE, or an outcome that says
    why not; then nothing of the row is kept.
    """
    side = state[S_SIDE]
    count = state[S_COUNT]
    events = state[S_EVENTS]
    labels = state[S_LABELS]
    ways = state[S_WAYS]
    number = state[S_NUMBER]
    state[S_ROW] = q
    if fresh and begins_otherwise(context.rows.base[q], context.graph, state):
        outcome = take_row(q, q + 1, True, True, ENDLESS, BEFORE_ALL, context, state)
        if outcome != DONE:
            return outcome
    if fresh:
        state[S_BASE] = context.rows.base[q]
    initial = state[S_INITIAL]
    if not fresh:
        state[S_INITIAL] = 0
    outcome = take_row(q, high, False, False, ENDLESS, BEFORE_ALL, context, state)
    state[S_INITIAL] = initial
    made = state[S_COUNT]
    begin = state[S_USED]
    if outcome == DONE and begin + made + old > log.kept.shape[0]:
        outcome = _lacking(KEPT, state)
    if outcome != DONE:  # the row is taken once more
        state[S_SIDE] = side
        state[S_COUNT] = count
        state[S_EVENTS] = events
        state[S_LABELS] = labels
        state[S_WAYS] = ways
        state[S_NUMBER] = number
        return outcome
    for k in range(made):
        for i in range(log.kept.shape[1]):
            log.kept[begin + k, i] = context.room.ids[state[S_SIDE], k, i]
    return DONE


@kernel
def _taken(q, fresh, parents, context, log, state):
    """Lets the current records take row ``q``, and puts the new records before the existing ones of that row.

    Returns DONE, or an outcome that says why not; then nothing of the row is kept.
    """
    events = state[S_EVENTS]
    old = log.count[q]
    outcome = _made(q, np.int64(0), fresh, old, context, log, state)
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
def change(changed, comes, causes, flush, flush_rows, context, max_records, log, state):
    """Applies the changes one after the other, from the position in ``state``.

    Args:
        changed: int64, the inserted or deleted rows.
        comes: uint8, 1 for an insertion, 0 for a deletion.
        causes: int64, the cause of each change.
        flush, flush_rows: return FULL after a change of the rows, once so many match changes, or rows of them, are to be emitted.
        context: the arguments of the steps.
        max_records: the most records of the log.
        log, state: the log and the position.

    Returns:
        DONE, FULL, GROW (S_DETAIL: what is full), or an error.
    """
    room = context.room
    by_ways = context.values.way[0] >= 0
    parents = context.graph.silent.shape[0] > 0
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
            # A deletion takes the steps GONE, REMOVE and LEAVE, an insertion REMOVE (if rows follow it) and ROW. Both continue with
            # EMIT and CARRY in turn.
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
        # GONE: the matches that end at the deleted row are retracted.
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
        # REMOVE: records that cross the changed place are removed after the later rows, and their matches are retracted.
        elif step == REMOVE:
            outcome = _remove(q if comes[at] == 1 else q + 1, causes[at], by_ways, parents, room, log, state)
            if outcome != DONE:
                return outcome
            state[S_STEP] = ROW if comes[at] == 1 else LEAVE
        # LEAVE: the row leaves the log, and the records before it become the current ones.
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
        # ROW: the records before the new row take it, and new runs begin at it.
        elif step == ROW:
            place = _position(q, state[S_LIVE], log.live)
            before = log.live[place - 1] if place > 0 else np.int64(-1)
            if _apart(before, q, log):
                state[S_COUNT] = 0
            elif state[S_OF] != before or before < 0:
                if not _at_hand(before, room, log, state):
                    return _lacking(RECORDS, state)
            outcome = _taken(q, True, parents, context, log, state)
            if outcome != DONE:
                return outcome
            for k in range(state[S_LIVE], place, -1):
                log.live[k] = log.live[k - 1]
            log.live[place] = q
            state[S_LIVE] += 1
            state[S_PLACE] = place + 1
            state[S_OF] = q if place + 1 == state[S_LIVE] else -1
            state[S_STEP] = EMIT
        # EMIT: new matches are emitted.
        elif step == EMIT:
            while state[S_NEW] < state[S_EVENTS]:
                outcome = _note(state[S_NEW], np.int64(1), causes[at], by_ways, room, log, state)
                if outcome != DONE:
                    return outcome
                state[S_NEW] += 1
            if state[S_RECORDS] > max_records:
                return _lacking(STATE, state)
            state[S_STEP] = CARRY
        # CARRY: the current records take the next row, until none is left.
        else:
            place = state[S_PLACE]
            if place == state[S_LIVE] or state[S_COUNT] == 0 or (place > 0 and _apart(log.live[place - 1], log.live[place], log)):
                state[S_STEP] = TAKE
                state[S_AT] = at + 1
                continue
            outcome = _taken(log.live[place], False, parents, context, log, state)
            if outcome != DONE:
                return outcome
            state[S_PLACE] = place + 1
            state[S_STEP] = EMIT


@kernel
def walk(order, before, high, context, log, sizes, matches_so_far, state):
    """Takes the rows ``order`` int64 one after the other, from the position in ``state``, and begins new runs at each of them.

    The current records are those after the row ``before``. Returns DONE, FULL, GROW (S_DETAIL: what is full), or an error.

    Args:
        high: row q sees the time of row q + 1 if that is less than ``high``.
        sizes: int64, output: how many records are written for each row, after the used part of ``kept``.
        matches_so_far: int64, output: how many matches there are after each row.
    """
    while state[S_AT] < order.shape[0]:
        at = state[S_AT]
        q = order[at]
        if _apart(order[at - 1] if at > 0 else before, q, log):
            state[S_COUNT] = 0
        events = state[S_EVENTS]
        outcome = _made(q, high, True, np.int64(0), context, log, state)
        if outcome != DONE:
            return outcome
        for match in range(events, state[S_EVENTS]):
            log.stands[match] = 0
        sizes[at] = state[S_COUNT]
        matches_so_far[at] = state[S_EVENTS]
        state[S_USED] += state[S_COUNT]
        state[S_AT] = at + 1
    return DONE


@kernel
def begin(q, context, state):
    """Makes the records before the first row. Returns DONE, or an outcome that says why not."""
    state[S_BASE] = context.rows.base[q]
    return take_row(q, q + 1, True, True, ENDLESS, BEFORE_ALL, context, state)
