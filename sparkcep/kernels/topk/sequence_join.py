"""Joins the ranked matches of named sequences, in all groups in one call (CPR, sections 3.3 and 3.4).

An item is a match of one sequence. In each group the items of a sequence come best first, so the items of all sequences are joined
depth first: a combination of items is extended by the items of the next sequence until its bound is below the k-th best score so
far. The bound is the score with the best items of the sequences that are still to come.

Items that were not read have at most the score of the last item that was read, with the best items of the other sequences (the
corner bound). If this is not below the k-th best score, the group asks for more items of the sequence. Its result is not written.

Example: k is 1, the score is the sum. S1 has the items 9 and 5, S2 has 7 and 6, and 9 and 7 do not agree. The combination of 9 and
6 has 15. The item 5 is not extended, because 5 + 7 is less. An unread item of S2 could make 9 + 6, so the group asks for more items
of S2.

Nothing is allocated here. A kernel that lacks room returns ROOM or OUT, and resumes at the same group when it is called again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparkcep.kernels.jit.cache import embedded, inlined, kernel
from sparkcep.kernels.topk.score_program import evaluate

DONE, ROOM, OUT, UNCLEAR = range(4)
S_GROUP, S_MATCHES, S_EVENTS = range(3)  # the current group, and what was written
STATE = 3
EQUAL, AT_MOST, AT_LEAST = range(3)  # operations of tests: the own value compared with the other one
T_OWN, T_OTHER, T_OPERATION, T_LAST = range(4)  # columns of Join.tests
NO_ROW = -1
BOUNDED = 16  # The bound is computed for one of so many items that do not fit, since it costs more than the tests.


class Items(NamedTuple):
    """The items of all sequences.

    Attributes:
        low, high: the items of each group and sequence, from ``low`` to before ``high``, best first. int64 (groups, sequences).
        complete: uint8 (groups, sequences), 1 if these are all items of the sequence in the group.
        value: the sum over the rows of each item. float64 (items).
        first, last: its first and its last row. int64 (items).
        offsets: item i has the rows from ``offsets[i]`` to before ``offsets[i + 1]``.
        rows, labels: the rows, ascending in each item, and their labels. int64.
        own, other: the value that each item has for each test, if the test compares its sequence. int64 (tests, items).
    """

    low: np.ndarray
    high: np.ndarray
    complete: np.ndarray
    value: np.ndarray
    first: np.ndarray
    last: np.ndarray
    offsets: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    own: np.ndarray
    other: np.ndarray


class Join(NamedTuple):
    """Conditions on combinations, and their score.

    Attributes:
        code, literals: the program of the score over the values, see :mod:`sparkcep.kernels.topk.score_program`.
        before: int64 (n, 2): the first sequence must end before the second one begins.
        tests: int64 (tests, 4), see T_OWN to T_LAST: the sequences of the own and the other value, the operation, and the last of
            both sequences.
        any_own: the own value that fulfils each test, of an item without a row that has the condition.
        ends: the row before which a match must end that begins with a row. int64 (rows), empty without such a window.
        written: int64 (sequences), the order of PATTERN.
    """

    code: np.ndarray
    literals: np.ndarray
    before: np.ndarray
    tests: np.ndarray
    any_own: int
    ends: np.ndarray
    written: np.ndarray


class JoinRoom(NamedTuple):
    """Working memory.

    Attributes:
        next: int64 (sequences), the next item to try.
        taken: int64 (sequences), the items of the current combination.
        values: float64 (sequences), the values that make a bound.
        stack: float64, of the program.
        heap: float64 (k), the best scores so far; the smallest is at the top.
        chosen: int64 (room, sequences), combinations that may be among the k best.
        score: float64 (room), their scores.
        order, spare: int64 (room), for sorting.
        at: int64 (2, sequences), the next row of each item of two combinations.
    """

    next: np.ndarray
    taken: np.ndarray
    values: np.ndarray
    stack: np.ndarray
    heap: np.ndarray
    chosen: np.ndarray
    score: np.ndarray
    order: np.ndarray
    spare: np.ndarray
    at: np.ndarray


class JoinOut(NamedTuple):
    """The best matches of the groups that need no more items.

    Attributes:
        group: the group of each match. int64 (matches).
        size: the number of its rows; a row that serves several sequences counts once for each. int64 (matches).
        rows, labels: int64.
        worst: float64 (groups), the k-th best score so far. The caller passes what was found with fewer items.
        unread: int64 (groups), bit i is set if the group needs more items of sequence i.
    """

    group: np.ndarray
    size: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    worst: np.ndarray
    unread: np.ndarray


@embedded
def _score(join, values, stack):
    """The score. NaN counts as the lowest."""
    score = evaluate(join, values, stack)
    return -math.inf if math.isnan(score) else score


@inlined
def _agrees(items, join, taken, side):
    """Whether an item of sequence ``side`` fits the items of the sequences before it."""
    item = taken[side]
    for i in range(join.before.shape[0]):
        a = join.before[i, 0]
        b = join.before[i, 1]
        if (b == side and a < side and items.last[taken[a]] >= items.first[item]) or (a == side and b < side and items.last[item] >= items.first[taken[b]]):
            return False
    for i in range(join.tests.shape[0]):
        if join.tests[i, T_LAST] != side:
            continue
        own = items.own[i, taken[join.tests[i, T_OWN]]]
        other = items.other[i, taken[join.tests[i, T_OTHER]]]
        operation = join.tests[i, T_OPERATION]
        if operation == EQUAL:
            if own != other and own != join.any_own:
                return False
        elif (operation == AT_MOST and own > other) or (operation == AT_LEAST and own < other):
            return False
    return True


@embedded
def _in_window(items, join, taken):
    """Whether the rows of a combination lie in one window."""
    if join.ends.shape[0] == 0:
        return True
    first = items.first[taken[0]]
    last = items.last[taken[0]]
    for side in range(1, taken.shape[0]):
        first = min(first, items.first[taken[side]])
        last = max(last, items.last[taken[side]])
    return join.ends[first] > last


@embedded
def _enter(heap, size, score):
    """Adds a score to the ``size`` best ones. Returns their new number."""
    k = heap.shape[0]
    if size < k:
        x = size
        while x > 0 and heap[(x - 1) // 2] > score:
            heap[x] = heap[(x - 1) // 2]
            x = (x - 1) // 2
        heap[x] = score
        return size + 1
    if score <= heap[0]:
        return size
    x = 0
    while 2 * x + 1 < k:
        child = 2 * x + 1
        if child + 1 < k and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= score:
            break
        heap[x] = heap[child]
        x = child
    heap[x] = score
    return size


@embedded
def _drop(room, n, worst):
    """Drops combinations that are worse than ``worst``. Returns how many are left."""
    kept = 0
    for x in range(n):
        if room.score[x] >= worst:
            room.score[kept] = room.score[x]
            for side in range(room.chosen.shape[1]):
                room.chosen[kept, side] = room.chosen[x, side]
            kept += 1
    return kept


@embedded
def _join(items, join, room, group, worst, most_tested):
    """Notes the combinations of a group that may be among the k best.

    Returns (how many there are, the k-th best score). The first is NO_ROW if more room is needed. It is less if more than
    ``most_tested`` combinations were tested.
    """
    m = room.next.shape[0]
    n = 0
    size = 0
    tested = 0
    level = 0
    for side in range(m):
        room.values[side] = items.value[items.low[group, side]]
    room.next[0] = items.low[group, 0]
    while level >= 0:
        item = room.next[level]
        if item == items.high[group, level]:
            room.values[level] = items.value[items.low[group, level]]
            level -= 1
            continue
        room.next[level] = item + 1
        room.taken[level] = item
        tested += 1
        if tested > most_tested:
            return NO_ROW - 1, worst
        fits = _agrees(items, join, room.taken, level)
        if not fits and (item - items.low[group, level]) % BOUNDED != 0:
            continue
        room.values[level] = items.value[item]
        bound = _score(join, room.values, room.stack)
        if bound < worst:  # later items are not better
            room.next[level] = items.high[group, level]
            continue
        if not fits:
            continue
        if level < m - 1:
            level += 1
            room.next[level] = items.low[group, level]
            continue
        if not _in_window(items, join, room.taken):
            continue
        if n == room.score.shape[0]:
            n = _drop(room, n, worst)
            if 2 * n > room.score.shape[0]:
                return NO_ROW, worst
        room.score[n] = bound
        for side in range(m):
            room.chosen[n, side] = room.taken[side]
        n += 1
        size = _enter(room.heap, size, bound)
        if size == room.heap.shape[0]:
            worst = max(worst, room.heap[0])
    return _drop(room, n, worst), worst


@embedded
def _unread(items, join, room, group, worst):
    """The sequences, as bits, whose unread items may make a match that is as good as the k-th."""
    found = 0
    m = room.next.shape[0]
    for side in range(m):
        room.values[side] = items.value[items.low[group, side]]
    for side in range(m):
        if items.complete[group, side] == 1:
            continue
        room.values[side] = items.value[items.high[group, side] - 1]
        if not worst > _score(join, room.values, room.stack):
            found |= 1 << side
        room.values[side] = items.value[items.low[group, side]]
    return found


@embedded
def _begin(items, room, which, x):
    """Sets ``room.at[which]`` to the first rows of a combination."""
    for side in range(room.chosen.shape[1]):
        room.at[which, side] = items.offsets[room.chosen[x, side]]


@embedded
def _next_row(items, room, which, x):
    """The next row of a combination, each row once, NO_ROW at the end."""
    row = NO_ROW
    for side in range(room.chosen.shape[1]):
        at = room.at[which, side]
        if at < items.offsets[room.chosen[x, side] + 1] and (row == NO_ROW or items.rows[at] < row):
            row = items.rows[at]
    for side in range(room.chosen.shape[1]):
        at = room.at[which, side]
        if at < items.offsets[room.chosen[x, side] + 1] and items.rows[at] == row:
            room.at[which, side] = at + 1
    return row


@embedded
def _compared(items, room, x, y):
    """Less than 0 if combination ``x`` ranks before ``y``: by score, then by rows, a prefix first. 0 if both are equal."""
    if room.score[x] != room.score[y]:
        return -1 if room.score[x] > room.score[y] else 1
    _begin(items, room, 0, x)
    _begin(items, room, 1, y)
    while True:
        a = _next_row(items, room, 0, x)
        b = _next_row(items, room, 1, y)
        if a != b:
            return -1 if a < b else 1
        if a == NO_ROW:
            return 0


@embedded
def _sort(items, room, n):
    """Writes the combinations' ranks to ``room.order`` (bottom-up merge sort)."""
    for x in range(n):
        room.order[x] = x
    width = 1
    while width < n:
        for begin in range(0, n, 2 * width):
            i = begin
            middle = min(begin + width, n)
            j = middle
            end = min(begin + 2 * width, n)
            for x in range(begin, end):
                if i == middle or (j < end and _compared(items, room, room.order[j], room.order[i]) < 0):
                    room.spare[x] = room.order[j]
                    j += 1
                else:
                    room.spare[x] = room.order[i]
                    i += 1
        for x in range(n):
            room.order[x] = room.spare[x]
        width *= 2


@embedded
def _write(items, join, room, x, out, state):
    """Writes the rows of a combination. A row that serves several sequences comes once for each, in the order of PATTERN."""
    _begin(items, room, 0, x)
    end = state[S_EVENTS]
    while True:
        chosen = -1
        for i in range(join.written.shape[0]):
            side = join.written[i]
            at = room.at[0, side]
            if at < items.offsets[room.chosen[x, side] + 1] and (chosen < 0 or items.rows[at] < items.rows[room.at[0, chosen]]):
                chosen = side
        if chosen < 0:
            break
        out.rows[end] = items.rows[room.at[0, chosen]]
        out.labels[end] = items.labels[room.at[0, chosen]]
        room.at[0, chosen] += 1
        end += 1
    out.group[state[S_MATCHES]] = state[S_GROUP]
    out.size[state[S_MATCHES]] = end - state[S_EVENTS]
    state[S_MATCHES] += 1
    state[S_EVENTS] = end


@kernel
def join_groups(items, join, room, most_tested, state, out):
    """Writes the k best matches of each group, best first, from group ``state[S_GROUP]`` on.

    Returns:
        DONE, ROOM (``room`` holds too few combinations), OUT (``out`` is too small), or UNCLEAR: only labels distinguish some of
        the best, or more than ``most_tested`` combinations of a group were tested.
    """
    m = room.next.shape[0]
    k = room.heap.shape[0]
    while state[S_GROUP] < items.low.shape[0]:
        group = state[S_GROUP]
        out.unread[group] = 0
        some = True
        for side in range(m):
            some = some and items.low[group, side] < items.high[group, side]
        if some:
            n, worst = _join(items, join, room, group, out.worst[group], most_tested)
            if n == NO_ROW:
                return ROOM
            if n < 0:
                return UNCLEAR
            out.unread[group] = _unread(items, join, room, group, worst)
            out.worst[group] = worst
            if out.unread[group] == 0:
                _sort(items, room, n)
                for i in range(1, min(n, k + 1)):
                    if _compared(items, room, room.order[i - 1], room.order[i]) == 0:
                        return UNCLEAR
                n = min(n, k)
                events = 0
                for i in range(n):
                    for side in range(m):
                        item = room.chosen[room.order[i], side]
                        events += items.offsets[item + 1] - items.offsets[item]
                if state[S_MATCHES] + n > out.group.shape[0] or state[S_EVENTS] + events > out.rows.shape[0]:
                    return OUT
                for i in range(n):
                    _write(items, join, room, room.order[i], out, state)
        state[S_GROUP] += 1
    return DONE
