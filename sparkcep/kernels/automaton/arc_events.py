"""Which arcs rows of ARCS FROM make present, one row after the other: inserted, ended, undone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.kernels.automaton.register_runs import ENDLESS
from sparkcep.kernels.common.layout import DONE
from sparkcep.kernels.jit.cache import kernel

# what a row does; one that is no longer in the table ends its arc, as DELETE would, of which it has all columns
INSERT, DELETE, RETRACT, PUNCTUATE, VANISH = range(5)
# words of an arc that stands: its row, from and before which times it is valid, the end that it came with, that by all that is
# foreseen, whether it appears by an
# effect, whether a delete has ended it, whether a retract has undone it, the arc of the same name that came before it (-1: none),
# and the rows that have ended and undone it (-1: none)
T_ROW, T_BEGIN, T_END, T_WRITTEN, T_EXPECTED, T_APPEARS, T_ENDED, T_GONE, T_BEFORE, T_ENDER, T_UNDOER, T_WIDTH = range(12)
# words of an effect: its row, the arc, from and before which times it is valid then
F_ROW, F_OF, F_BEGIN, F_END, F_WIDTH = range(5)
NO_ARC, LATE, NO_NEXT, NO_TIME = range(1, 5)  # what is the matter with a row


class Came(NamedTuple):
    """Rows in their order. int64: what each does, the number of what names its arc, its times as written, the time behind all that
    came before it, and the times before which a change with a lifetime of its own, and any, comes too late; uint8: which times are
    NULL, and where there is no time behind all others."""

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
    """Goes through the rows. ``last`` int64 (names): the last arc of each, -1 at first. Writes the arcs int64 (rows, T_WIDTH) and
    the effects int64 (rows, F_WIDTH), and how many there are to ``counts``. Returns DONE, or what is the matter with the row
    ``counts[2]``."""
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
            if at < 0 and op == VANISH:  # it has ended already
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
