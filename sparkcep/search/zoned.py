"""Local clock times inside conditions: instructions over timestamps, with the session's time zone as a table behind the bytecode.

A row of the table is an instant in microseconds and the offset that holds from then on, see
:mod:`sparkcep.columns.zones`. Its last 400 years stand for all later ones.
"""

from __future__ import annotations

import numpy as np

from sparkcep.columns.bytecode import OP
from sparkcep.columns.zones import CYCLE_DAYS, CYCLE_END, DAY
from sparkcep.search.compiled import kernel, standing_apart
from sparkcep.search.decimals import OVERFLOW

_CYCLE = CYCLE_DAYS * DAY
_I64_MAX = (1 << 63) - 1
_globals = globals()
for _name in ("LOCAL", "INSTANT", "DAYOF", "ADDTIME"):
    _globals["O_" + _name] = OP[_name]


@kernel
def _early(at):
    """How much to subtract so that the table holds the instant."""
    return ((at - CYCLE_END) // _CYCLE + 1) * _CYCLE if at >= CYCLE_END else 0


@kernel
def _row_at(at, code, first, count):
    """The row of the table that holds at an instant."""
    low, high = first, first + count - 1
    while low < high:
        middle = (low + high + 1) // 2
        if code[middle, 0] <= at:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def _offset(at, code, first, count):
    return code[_row_at(at - _early(at), code, first, count), 1]


@kernel
def _instant(local, preferred, starts_day, code, first, count):
    """The instant of a local clock time, as java.time has it: where clocks were set back, that of the ``preferred`` offset if it is
    one of the two, or else the earlier; a time that clocks skipped is moved by as much as they were, but the ``starts_day`` is where
    they went on."""
    early = _early(local)
    local -= early
    row = _row_at(local - DAY, code, first, count)  # no offset is a day
    end = first + count - 1
    while True:
        after = row + 1
        if row == end or local - code[row, 1] < code[after, 0]:
            # the time is one of this offset
            if row < end and preferred == code[after, 1] and local - preferred >= code[after, 0]:
                return local - preferred + early
            return local - code[row, 1] + early
        if local - code[after, 1] < code[after, 0]:
            # skipped
            return (code[after, 0] if starts_day == 1 else local - code[row, 1]) + early
        row = after


@standing_apart("UniTuple(int64, 2)(int64, int64, int64, int64, int64[:, ::1], int64, int64[::1], uint8[::1])")
def zoned(op, first, count, starts_day, code, sp, si, sn):
    """One instruction over timestamps; the table of the zone is ``count`` rows of ``code`` from ``first`` on. Returns (stack
    pointer, 0 or an error).

    LOCAL makes the local clock time of a timestamp, INSTANT the timestamp of a local clock time, DAYOF the date of one, and ADDTIME
    adds an interval of days and time: days of the local calendar, then time that passes.
    """
    if op == O_ADDTIME:
        sp -= 1
        if sn[sp] == 1 or sn[sp + 1] == 1:
            sn[sp] = 1
            return sp, 0
        x, y = si[sp], si[sp + 1]
        days = abs(y) // DAY if y != -_I64_MAX - 1 else _I64_MAX // DAY
        whole = days * DAY if y > 0 else -days * DAY
        z = x
        if days != 0:
            offset = _offset(x, code, first, count)
            if _beyond(x, offset) or _beyond(x + offset, whole) or abs(x + offset + whole) > _I64_MAX - 2 * DAY:
                return sp, OVERFLOW
            z = _instant(x + offset + whole, offset, 0, code, first, count)
        if _beyond(z, y - whole):
            return sp, OVERFLOW
        si[sp] = z + (y - whole)
        return sp, 0
    if sn[sp] == 1:
        return sp, 0
    x = si[sp]
    if op == O_DAYOF:
        si[sp] = x // DAY
        return sp, 0
    if abs(x) > _I64_MAX - 2 * DAY:
        return sp, OVERFLOW
    if op == O_LOCAL:
        si[sp] = x + _offset(x, code, first, count)
    else:
        si[sp] = _instant(x, np.int64(_I64_MAX), starts_day, code, first, count)
    return sp, 0


@kernel
def _beyond(x, y):
    """Whether the sum is beyond 64 bits."""
    return (y > 0 and x > _I64_MAX - y) or (y < 0 and x < -_I64_MAX - 1 - y)
