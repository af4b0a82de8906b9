"""Validity of dynamic arcs: applies the rows of ARCS FROM one after the other, which insert, end and undo arcs.

:mod:`sparkcep.engine.automaton.arc_rows` reads the rows, and gets the arcs and the effects of the rows.

Example: row 0 inserts an arc that is valid from 10 to before 20, and row 1 deletes it as of 15. The effects are (row 0, arc 0, 10,
20) and (row 1, arc 0, 10, 15), and the arc's T_END is 15.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.kernels.automaton.register_runs import ENDLESS
from sparkcep.kernels.common.layout import DONE
from sparkcep.kernels.jit.cache import kernel

# What a row does. VANISH: a row that is no longer in the table ends its arc as DELETE would; it has all columns of the arc.
INSERT, DELETE, RETRACT, PUNCTUATE, VANISH = range(5)
# Words of an arc that is present:
# T_ROW, T_BEGIN, T_END: its row, the first time and the end time of its validity.
# T_WRITTEN, T_EXPECTED: the end in its row, and the end by rows that do not write one.
# T_APPEARS: whether an effect makes it appear.
# T_ENDED, T_GONE: whether a DELETE has ended it, and whether a RETRACT has undone it.
# T_BEFORE: the earlier arc of this name (-1: none).
# T_ENDER, T_UNDOER: the rows that have ended and undone it (-1: none).
T_ROW, T_BEGIN, T_END, T_WRITTEN, T_EXPECTED, T_APPEARS, T_ENDED, T_GONE, T_BEFORE, T_ENDER, T_UNDOER, T_WIDTH = range(12)
# Words of an effect: its row, the arc, the first time and the end time of the arc's validity from then on.
F_ROW, F_OF, F_BEGIN, F_END, F_WIDTH = range(5)
NO_ARC, LATE, NO_NEXT, NO_TIME = range(1, 5)  # errors of a row


class Came(NamedTuple):
    """The rows of ARCS FROM, in order. All arrays are by rows, the flags uint8 and the others int64.

    Attributes:
        ops: INSERT to VANISH.
        named: the number of the arc's name.
        begins, no_begin: the begin as written, and whether it is NULL.
        ends, no_end: the end as written, and whether it is NULL.
        following, no_following: the time after all earlier rows, and whether there is none.
        too_late: a change with a written time is late before this time.
        any_too_late: any change is late before this time.
    """

    ops: np.ndarray
    named: np.ndarray
    begins: np.ndarray
    no_begin: np.ndarray
    ends: np.ndarray
    no_end: np.ndarray
    following: np.ndarray
    no_following: np.ndarray
    too_late: np.ndarray
    any_too_late: np.ndarray


@kernel
def stand(came, last, arcs, effects, counts):
    """Applies the rows. Returns DONE, or the error of the row ``counts[2]``.

    Args:
        came: the rows.
        last: int64 (names), the last arc of each name, -1 at first.
        arcs: int64 (rows, T_WIDTH), output; ``counts[0]`` is their number.
        effects: int64 (rows, F_WIDTH), output; ``counts[1]`` is their number.
        counts: int64 (3), output.
    """
    valid = np.int64(0)
    written = np.int64(0)
    for i in range(came.ops.shape[0]):
        counts[0] = valid
        counts[1] = written
        counts[2] = i
        op = came.ops[i]
        name = came.named[i]
        if op == PUNCTUATE:
            if came.no_begin[i] == 1:
                return NO_TIME
            continue
        asks = came.no_begin[i] == 1 if op == INSERT else op == VANISH or (op == DELETE and came.no_end[i] == 1)
        if asks and came.no_following[i] == 1:
            return NO_NEXT
        if op == INSERT:
            if came.no_begin[i] == 0 and came.begins[i] < came.too_late[i]:
                return LATE
            arcs[valid, T_ROW] = i
            arcs[valid, T_BEGIN] = came.following[i] if came.no_begin[i] == 1 else came.begins[i]
            arcs[valid, T_WRITTEN] = ENDLESS if came.no_end[i] == 1 else came.ends[i]
            arcs[valid, T_END] = arcs[valid, T_WRITTEN]
            arcs[valid, T_EXPECTED] = ENDLESS
            arcs[valid, T_APPEARS] = 1 - came.no_begin[i]
            arcs[valid, T_ENDED] = 0
            arcs[valid, T_GONE] = 0
            arcs[valid, T_BEFORE] = last[name]
            arcs[valid, T_ENDER] = -1
            arcs[valid, T_UNDOER] = -1
            last[name] = valid
            at = valid
            valid += 1
            if came.no_begin[i] == 1:
                continue
        else:
            at = last[name]
            while at >= 0:
                first = arcs[at, T_ROW]
                if arcs[at, T_GONE] == 0:
                    if op == DELETE and arcs[at, T_ENDED] == 0:
                        break
                    if op == RETRACT or (op == VANISH and arcs[at, T_ENDED] == 0):
                        begins = came.no_begin[first] == came.no_begin[i] and (came.no_begin[i] == 1 or came.begins[first] == came.begins[i])
                        if begins and came.no_end[first] == came.no_end[i] and (came.no_end[i] == 1 or came.ends[first] == came.ends[i]):
                            break
                at = arcs[at, T_BEFORE]
            if at < 0 and op == VANISH:  # the arc has ended already
                continue
            if at < 0:
                return NO_ARC
            if op != RETRACT:
                arcs[at, T_ENDED] = 1
                arcs[at, T_ENDER] = i
                if op == VANISH or came.no_end[i] == 1:
                    arcs[at, T_EXPECTED] = min(arcs[at, T_EXPECTED], came.following[i])
                    continue
                if came.ends[i] < came.too_late[i]:
                    return LATE
                arcs[at, T_END] = min(arcs[at, T_END], came.ends[i])
            else:
                if arcs[at, T_BEGIN] < (came.any_too_late[i] if came.no_begin[i] == 1 else came.too_late[i]):
                    return LATE
                arcs[at, T_GONE] = 1
                arcs[at, T_UNDOER] = i
        effects[written, F_ROW] = i
        effects[written, F_OF] = at
        effects[written, F_BEGIN] = ENDLESS if op == RETRACT else arcs[at, T_BEGIN]
        effects[written, F_END] = ENDLESS if op == RETRACT else arcs[at, T_END]
        written += 1
    counts[0] = valid
    counts[1] = written
    return DONE
