"""Local clock times in conditions: instructions over timestamps in the session's time zone.

The bytecode interpreter (:mod:`sparkcep.kernels.vm.vm`) calls :func:`zoned`. The time zone is a table at the end of the bytecode,
see :mod:`sparkcep.compiler.conditions.time_zones`. A row of it is an instant in microseconds and the offset that holds from then
on. The last 400 years of the table are repeated for all later ones.

Example: the table of Europe/Berlin has the rows (2024-03-31 01:00 UTC, 2 h) and (2024-10-27 01:00 UTC, 1 h). The instant 2024-07-01
12:00 UTC finds the first of them, so its local time is 14:00.
"""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.conditions.bytecode import OP
from sparkcep.compiler.conditions.time_zones import CYCLE_DAYS, CYCLE_END, DAY, SECOND
from sparkcep.kernels.jit.cache import kernel, separate
from sparkcep.kernels.vm.decimal128 import OVERFLOW

_CYCLE = CYCLE_DAYS * DAY
_MOST_DAYS = 106_751_990  # bound on a timestamp's days since 1970
_I64_MAX = (1 << 63) - 1
_globals = globals()
for _name in ("LOCAL", "INSTANT", "DAYOF", "SECONDS", "ADDTIME", "ADDMONTHS"):
    _globals["O_" + _name] = OP[_name]


@kernel
def _early(at):
    """Microseconds to subtract from an instant, a multiple of 400 years, so that the table covers it."""
    return ((at - CYCLE_END) // _CYCLE + 1) * _CYCLE if at >= CYCLE_END else 0


@kernel
def _row_at(at, code, first, count):
    """The row of the table that holds at an instant, by binary search."""
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
    """The instant of a local clock time, by the rules of java.time.

    A time that clocks show twice gets the ``preferred`` offset if it is one of the two, else the earlier one. A time that clocks
    skipped is moved by the skipped amount. With ``starts_day`` it becomes the instant of the transition.
    """
    early = _early(local)
    local -= early
    row = _row_at(local - DAY, code, first, count)  # every offset is shorter than a day
    end = first + count - 1
    while True:
        after = row + 1
        if row == end or local - code[row, 1] < code[after, 0]:
            # The time belongs to this offset.
            if row < end and preferred == code[after, 1] and local - preferred >= code[after, 0]:
                return local - preferred + early
            return local - code[row, 1] + early
        if local - code[after, 1] < code[after, 0]:
            # The time was skipped.
            return (code[after, 0] if starts_day == 1 else local - code[row, 1]) + early
        row = after


@separate("UniTuple(int64, 2)(int64, int64, int64, int64, int64[:, ::1], int64, int64[::1], uint8[::1])")
def zoned(op, first, count, starts_day, code, sp, si, sn):
    """Runs one instruction over timestamps, and returns (stack pointer, 0 or an error).

    LOCAL turns a timestamp into its local clock time, INSTANT a local clock time into the timestamp. DAYOF is the date of a local
    clock time, SECONDS the whole seconds of a timestamp. ADDTIME adds an interval of days and time: first days of the local
    calendar, then elapsed time. ADDMONTHS adds months and limits the day to the last one of the month.

    Args:
        op: the opcode.
        first, count: the time zone's table is ``count`` rows of ``code`` from ``first`` on.
        starts_day: for INSTANT, 1 if the time begins a day. For ADDMONTHS, the type of the operand: date (0), timestamp without a
            zone (1) or timestamp (2).
        code: int64 (n, 5), the bytecode.
        sp: the stack pointer.
        si, sn: the stack and its NULL marks.
    """
    if op == O_ADDMONTHS:
        sp -= 1
        if sn[sp] == 1 or sn[sp + 1] == 1:
            sn[sp] = 1
            return sp, 0
        x, offset = si[sp], np.int64(0)
        if starts_day == 2:
            if abs(x) > _I64_MAX - 2 * DAY:
                return sp, OVERFLOW
            offset = _offset(x, code, first, count)
            x += offset
        days = x if starts_day == 0 else x // DAY
        later = _months_later(days, si[sp + 1])
        if starts_day == 0:
            if later > 2147483647 or later < -2147483648:
                return sp, OVERFLOW
            si[sp] = later
            return sp, 0
        if abs(later) > _MOST_DAYS:
            return sp, OVERFLOW
        x = later * DAY + (x - days * DAY)
        si[sp] = _instant(x, offset, 0, code, first, count) if starts_day == 2 else x
        return sp, 0
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
    if op == O_SECONDS:
        si[sp] = x // SECOND
        return sp, 0
    if abs(x) > _I64_MAX - 2 * DAY:
        return sp, OVERFLOW
    if op == O_LOCAL:
        si[sp] = x + _offset(x, code, first, count)
    else:
        si[sp] = _instant(x, np.int64(_I64_MAX), starts_day, code, first, count)
    return sp, 0


@kernel
def _months_later(days, months):
    """The day that is ``months`` after ``days``, both counted from 1970-01-01."""
    # The year begins in March here, so that a leap day is its last day.
    z = days + 719468
    era = z // CYCLE_DAYS
    of_era = z - era * CYCLE_DAYS
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    march = (5 * of_year + 2) // 153
    day = of_year - (153 * march + 2) // 5 + 1
    total = 12 * (year + 400 * era) + march + months
    year = total // 12
    march = total - 12 * year
    length = 31
    if march == 11:
        calendar = year + 1
        length = 29 if calendar % 4 == 0 and (calendar % 100 != 0 or calendar % 400 == 0) else 28
    elif march == 1 or march == 3 or march == 6 or march == 8:
        length = 30
    era = year // 400
    year -= 400 * era
    return era * CYCLE_DAYS + 365 * year + year // 4 - year // 100 + (153 * march + 2) // 5 + min(day, length) - 1 - 719468


@kernel
def _beyond(x, y):
    """Whether ``x + y`` does not fit into 64 bits."""
    return (y > 0 and x > _I64_MAX - y) or (y < 0 and x < -_I64_MAX - 1 - y)
