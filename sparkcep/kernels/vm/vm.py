"""The bytecode interpreter: evaluates conditions over a row and the match so far. numba compiles it once and caches it on disk.

All searches call :func:`scan` for conditions that look at the match, and :func:`clear` for those of physical neighbours. The
functions share these arguments (positions index the rows of the buffer):

``code``      int64 (n, 5)   bytecode, see :mod:`sparkcep.compiler.conditions.bytecode`
``floats``    float64        float constants
``slots``     int64 (m, 6)   slot table: kind, mask of variables, k, column, filter column, helper slot
``hi``, ``hf``  int64/float64 (rows, m)  slot values as of each matched row
``si``        int64          the stack; its second half is for the high words of decimals
``labels``    uint8 (rows)   variable of each matched row (low six bits)
``ints``, ``flts``  int64/float64 (columns, rows)  input columns
``inull``, ``fnull``  uint8 (columns, rows)  1 where the value is NULL
``pair_starts``  int64 (arrays, rows + 1)  where each row's array begins in ``pair_ints``, ``pair_flts``, ``pair_null``

A slot is a running value of the match. It is computed from its value at the match's previous row, so a run needs no memory but its
last row.

Example: ``B AS price > FIRST(A.price) AND COUNT(A.price) >= 2`` has the slots FIRST and COUNT of A. The match takes rows 7 (A), 8
(A) and 9 (B). Then ``hi[7]`` is (7, 1), ``hi[8]`` is (7, 2), and ``hi[9]`` is (7, 2). The condition at row 9 compares ``price`` at
rows 9 and 7.
"""

from __future__ import annotations

import math

import numpy as np

from sparkcep.compiler.conditions.bytecode import FLOAT_COLUMN, OP, SLOT, VARIANCE
from sparkcep.kernels.jit.cache import inlined, kernel, separate
from sparkcep.kernels.vm.clock_times import zoned
from sparkcep.kernels.vm.decimal128 import DIVIDE_BY_ZERO, OVERFLOW, compared, is_sum, summed, wide

MAP, SEARCH, EXTEND, CLEAR = range(4)  # modes of :func:`scan`
FAILED = -1_000_000  # errors: this minus the number of the expression that Spark failed to compute
_globals = globals()
for _name, _value in OP.items():
    _globals["O_" + _name] = _value
for _name, _value in SLOT.items():
    _globals["K_" + _name] = _value

UNTAKEN = 255  # in ``labels``: a row between the rows of the match
NO_LABEL = -1  # in ``label_codes``: the variable copy of extra rows, whose label is NULL
I64_MAX = (1 << 63) - 1
I64_MIN = -(1 << 63)


# Arguments of :func:`scan`, in the groups of its signature, and its result.
SCAN = """UniTuple(int64, 2)(
    int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64,
    int64[::1], int64[:, ::1], float64[::1], int64[:, ::1], int64[:, ::1], float64[:, ::1],
    uint8[::1], int64[::1], int64[:, ::1], float64[:, ::1], uint8[:, ::1], uint8[:, ::1],
    int64[:, ::1], int64[::1], float64[::1], uint8[::1], int64[::1], float64[::1], uint8[::1])"""


@inlined
def _less(x, y):
    """Spark's order of doubles: NaN equals NaN and is greater than every other value."""
    if math.isnan(x):
        return False
    return math.isnan(y) or x < y


@inlined
def _same(x, y):
    return x == y or (math.isnan(x) and math.isnan(y))


# LLVM assumes that signed arithmetic never overflows and drops a check of the result. So overflow is detected from the operands,
# and results that may overflow are computed unsigned.


@inlined
def add_overflows(x, y):
    return (y > 0 and x > I64_MAX - y) or (y < 0 and x < I64_MIN - y)


@inlined
def _sub_overflows(x, y):
    return (y < 0 and x > I64_MAX + y) or (y > 0 and x < I64_MIN + y)


@kernel
def _mul_overflows(x, y):
    if x == 0 or y == 0:
        return False
    a = np.uint64(x) if x > 0 else np.uint64(0) - np.uint64(x)
    b = np.uint64(y) if y > 0 else np.uint64(0) - np.uint64(y)
    most = np.uint64(I64_MAX) if (x < 0) == (y < 0) else np.uint64(I64_MAX) + np.uint64(1)
    return a > most // b


@kernel
def _wrap(x, limit):
    """Two's complement of the width whose maximum is ``limit`` (non-ANSI arithmetic)."""
    if limit == I64_MAX:
        return x
    span = 2 * (limit + 1)
    return (x + limit + 1) % span - limit - 1


@kernel
def _truncated(x, y):
    """The remainder of the quotient that is truncated toward zero. Its sign is that of ``x``."""
    if y == -1:
        return 0
    z = x % y
    return z - y if z != 0 and (x < 0) != (y < 0) else z


@kernel
def _power_of_ten(n):
    p = 1
    for _ in range(n):
        p *= 10
    return p


@kernel
def _distinct(kind, mask, column, keep, begin, pos, labels, ints, flts, inull, fnull):
    """Aggregate of the distinct values of the mask's rows so far.

    ``kind`` is count (0; 8 for decimals in two words), integer sum (1), average (2), float sum (4), integer sum that wraps (5) or a
    variance (from VARIANCE on).

    Returns (integer sum, float sum or variance, number of values, error). The number for the variance of a sample is one less.
    """
    total_i = 0
    total_f = 0.0
    mean = 0.0
    count = 0
    is_float = column >= FLOAT_COLUMN
    c = column - FLOAT_COLUMN if is_float else column
    # The match's rows are compared in pairs. This costs no memory, and callers count the pairs as steps.
    for i in range(begin, pos + 1):
        if labels[i] == UNTAKEN or not (mask == -1 or (mask >> (labels[i] & 63)) & 1 == 1):
            continue
        if keep >= 0 and ints[keep, i] == 0:
            continue
        if (fnull[c, i] if is_float else inull[c, i]) == 1:
            continue
        seen = False
        for j in range(begin, i):
            if labels[j] == UNTAKEN or not (mask == -1 or (mask >> (labels[j] & 63)) & 1 == 1):
                continue
            if keep >= 0 and ints[keep, j] == 0:
                continue
            if is_float:
                if fnull[c, j] == 0 and _same(flts[c, i], flts[c, j]):
                    seen = True
                    break
            elif inull[c, j] == 0 and ints[c, i] == ints[c, j] and (kind != 8 or ints[c + 1, i] == ints[c + 1, j]):
                seen = True
                break
        if seen:
            continue
        count += 1
        if kind >= VARIANCE:
            f = flts[c, i] if is_float else float(ints[c, i])
            f -= mean
            mean += f / float(count)
            total_f += f * (f - f / float(count))
        elif is_float:
            total_f += flts[c, i]
        elif kind != 0 and kind != 8:
            total_f += float(ints[c, i])
            if kind == 1 or kind == 5:
                x = ints[c, i]
                if kind == 1 and add_overflows(total_i, x):
                    return 0, 0.0, 0, OVERFLOW
                total_i += x
    if kind >= VARIANCE:
        count -= (kind >> 1) & 1
        if count > 0:
            total_f /= float(count)
            if kind & 1 == 1:
                total_f = math.sqrt(total_f)
    return total_i, total_f, count, 0


@kernel
def _math(which, x):
    """The functions of ``MATH_CALLS`` in :mod:`sparkcep.plan.split.conditions`. Outside their domain they are NaN, as in Java."""
    if which == 0:
        return np.cbrt(x)
    if which == 1:
        return math.log(x) / math.log(2.0)
    if which == 2:
        return math.log1p(x)
    if which == 3:
        return math.expm1(x)
    if which == 4:
        return math.sin(x)
    if which == 5:
        return math.cos(x)
    if which == 6:
        return math.tan(x)
    if which == 7:
        return math.asin(x) if abs(x) <= 1.0 else math.nan
    if which == 8:
        return math.acos(x) if abs(x) <= 1.0 else math.nan
    if which == 9:
        return math.atan(x)
    if which == 10:
        return math.sinh(x)
    if which == 11:
        return math.cosh(x)
    if which == 12:
        return math.tanh(x)
    if which == 13:
        return math.degrees(x)
    if which == 14:
        return math.radians(x)
    return np.rint(x)


@kernel
def _round_half_up(x, digits):
    """Spark's ROUND of a DOUBLE: half up in the shortest decimal text of ``x``."""
    if math.isnan(x) or math.isinf(x) or digits > 22:
        return x
    p = 10.0**digits
    y = abs(x) * p
    if y >= 4503599627370496.0:
        return x
    whole = np.floor(y)
    # The product is rounded. The quotient is the number whose text ends in 5, and no number below it is rounded up.
    r = (whole + 1.0 if abs(x) >= (whole + 0.5) / p else whole) / p
    return -r if x < 0 else r


@kernel
def _rescale(x, digits, mode):
    """``x / 10**digits``, rounded: floor (-1), half up (0), ceiling (1) or toward zero (2)."""
    if digits > 18:
        whole, rest = 0, abs(x)
        half = False
    else:
        p = _power_of_ten(digits)
        whole = abs(x) // p
        rest = abs(x) - whole * p
        half = rest >= p - rest
    negative = x < 0
    if (mode == 0 and half) or (rest > 0 and ((mode == -1 and negative) or (mode == 1 and not negative))):
        whole += 1
    return -whole if negative else whole


@separate(SCAN)
def scan(
    mode, variable, label, entry, most, first, prior, low, stop, bound, begin, number, letters, code, floats, slots, hi, hf,
    labels, label_codes, ints, flts, inull, fnull, pair_starts, pair_ints, pair_flts, pair_null, si, sf, sn,
):
    """Evaluates a variable's condition row by row from ``first`` on.

    Modes:
        MAP: maps rows to ``variable`` (writes ``label`` and slot values) while the condition holds, at most ``most`` rows and
            before ``stop``.
        SEARCH: maps the first row before ``stop`` for which the condition holds.
        EXTEND: maps every such row; each one sees those before it.
        CLEAR: maps no row, but clears the variable's letter at rows where the condition (of physical neighbours only) is not true.

    Args:
        prior: the row of the match before ``first``.
        entry: the condition's first instruction, or -1.
        low, bound: first row and end of the partition.
        begin: first row of the match.
        number: MATCH_NUMBER.
        label_codes: rank of each variable's name, or NO_LABEL.
        si, sf, sn: stack of values and NULL marks.

    Returns:
        (number of rows, 0 or an error). MAP and CLEAR count the rows done, SEARCH and EXTEND the rows from ``first`` to before
        where they stopped.

    Slots and interpreter are one function, because passing this many arrays to another one costs more than a row's condition.
    """
    q = first
    slot_count = slots.shape[0]
    up = si.shape[0] // 2  # where the stack of high words begins
    while q < stop and q - first < most:
        # The row-local part of the condition decides first, as a bit of ``letters``.
        if (letters[q] >> variable) & 1 == 0:
            if mode != MAP:
                q += 1
                continue
            break
        if mode != CLEAR:
            labels[q] = label
            fresh_start = q == begin
            # ---- Slot values after mapping this row, from those of the row before.
            for k in range(slot_count):
                kind = slots[k, 0]
                mask = slots[k, 1]
                column = slots[k, 3]
                keep = slots[k, 4]
                helper = slots[k, 5]
                taken = mask == -1 or (mask >> variable) & 1 == 1
                # The value is carried over.
                if fresh_start:
                    hi[q, k] = -1 if kind <= K_LABELFIRST else 0
                    hf[q, k] = 0.0
                else:
                    hi[q, k] = hi[prior, k]
                    hf[q, k] = hf[prior, k]
                if not taken:
                    continue
                if kind == K_LAST:
                    if helper < 0:
                        hi[q, k] = q
                    else:
                        hi[q, k] = -1 if fresh_start else hi[prior, helper]
                    continue
                if kind == K_LABELLAST:
                    if helper < 0:
                        hi[q, k] = variable
                    else:
                        hi[q, k] = -1 if fresh_start else hi[prior, helper]
                    continue
                if kind == K_FIRST or kind == K_LABELFIRST:
                    # The n-th such row: it is not found yet, and the one before it was found in an earlier row.
                    if hi[q, k] < 0 and (helper < 0 or (not fresh_start and hi[prior, helper] >= 0)):
                        hi[q, k] = q if kind == K_FIRST else variable
                    continue
                if keep >= 0 and ints[keep, q] == 0:
                    continue
                is_float = column >= FLOAT_COLUMN
                if column >= 0:
                    if is_float:
                        if fnull[column - FLOAT_COLUMN, q] == 1:
                            continue
                    elif inull[column, q] == 1:
                        continue
                if kind == K_COUNT:
                    hi[q, k] += 1
                    continue
                fresh = fresh_start or hi[prior, helper] == 0 if kind != K_M2 else False
                x = 0
                f = 0.0
                if is_float:
                    f = flts[column - FLOAT_COLUMN, q]
                else:
                    x = ints[column, q]
                    f = float(x)
                if kind == K_SUMI:
                    hi[q, k] = np.int64(np.uint64(hi[q, k]) + np.uint64(x))
                elif kind == K_SUMOVER:
                    # The sum in the slot ``helper`` wraps. It is exact if it wrapped as often upward as downward.
                    if not fresh_start and add_overflows(hi[prior, helper], x):
                        hi[q, k] += 1 if x > 0 else -1
                elif kind == K_SUMF:
                    hf[q, k] += f
                elif kind == K_MINI:
                    if fresh or x < hi[q, k]:
                        hi[q, k] = x
                elif kind == K_MAXI:
                    if fresh or x > hi[q, k]:
                        hi[q, k] = x
                elif kind == K_MINF:
                    if fresh or _less(f, hf[q, k]):
                        hf[q, k] = f
                elif kind == K_MAXF:
                    if fresh or _less(hf[q, k], f):
                        hf[q, k] = f
                elif kind == K_MEAN:
                    if slots[k, 2] > 0:
                        f = f / float(_power_of_ten(slots[k, 2]))
                    hf[q, k] += (f - hf[q, k]) / float(hi[q, helper])
                elif kind == K_M2:
                    if slots[k, 2] > 0:
                        f = f / float(_power_of_ten(slots[k, 2]))
                    f -= 0.0 if fresh_start else hf[prior, helper]  # as Spark adds a value, to the last bit
                    hf[q, k] += f * (f - f / float(hi[q, slots[helper, 5]]))
                elif kind == K_SUMLOW:
                    hi[q, k] = np.int64(np.uint64(hi[q, k]) + np.uint64(x))
                elif kind == K_SUMHIGH or kind == K_SUMTOP:
                    # The three words of a sum are adjacent slots.
                    y = ints[column + 1, q] if slots[k, 2] == 1 else (-1 if x < 0 else 0)
                    at = k - 1 if kind == K_SUMHIGH else k - 2
                    z = 0 if fresh_start else hi[prior, at]
                    w = 0 if fresh_start else hi[prior, at + 1]
                    _, z, w = summed(z, w, 0 if kind == K_SUMHIGH else hi[q, k], x, y)
                    hi[q, k] = z if kind == K_SUMHIGH else w
                elif kind == K_EXTREME:
                    at = k - (slots[k, 2] & 1)
                    order = 0 if fresh else compared(x, ints[column + 1, q], hi[prior, at], hi[prior, at + 1])
                    if fresh or (order > 0 if slots[k, 2] >= 2 else order < 0):
                        hi[q, k] = ints[column + 1, q] if slots[k, 2] & 1 == 1 else x
                elif _same(f, hf[q, helper]) if is_float else x == hi[q, helper]:
                    # Among rows with the extreme value, the last one gives the value beside it.
                    at = slots[k, 2]
                    if kind == K_BYI:
                        hi[q, k] = ints[at, q]
                    elif kind == K_BYF:
                        hf[q, k] = flts[at - FLOAT_COLUMN, q]
                    elif kind == K_BYSOME:
                        hi[q, k] = 1 - (fnull[at - FLOAT_COLUMN, q] if at >= FLOAT_COLUMN else inull[at, q])
                    else:
                        hi[q, k] = variable
        if entry >= 0:
            # ---- The condition.
            pc = entry
            got = 0
            sp = -1
            view = q  # the row whose slot values are read; inside PRIOR, the match's row before it
            while True:
                op = code[pc, 0]
                a = code[pc, 1]
                b = code[pc, 2]
                pc += 1
                if op == O_RETURN:
                    got = 1 if sn[0] == 0 and si[0] != 0 else 0
                    break
                elif op == O_LOADI or op == O_LOADF:
                    # Inside PRIOR, where ``view`` is another row, only a constant is loaded.
                    sp += 1
                    at = q + b
                    null = 1
                    column = a
                    if low <= at < bound:
                        null = 0
                    elif code[pc - 1, 3] >= 0:
                        column = code[pc - 1, 3]
                        at = q
                        null = 0
                    if null == 0:
                        if op == O_LOADI:
                            si[sp] = ints[column, at]
                            null = inull[column, at]
                        else:
                            sf[sp] = flts[column, at]
                            null = fnull[column, at]
                    sn[sp] = null
                elif op == O_NAVI or op == O_NAVF:
                    sp += 1
                    at = hi[view, a]
                    column = code[pc - 1, 3]
                    null = 1
                    if at >= 0 and low <= at + b < bound:
                        at = at + b
                        null = 0
                    elif code[pc - 1, 4] >= 0:
                        column = code[pc - 1, 4]
                        at = q
                        null = 0
                    if null == 0:
                        if op == O_NAVI:
                            si[sp] = ints[column, at]
                            null = inull[column, at]
                        else:
                            sf[sp] = flts[column, at]
                            null = fnull[column, at]
                    sn[sp] = null
                elif op == O_CONSTI:
                    sp += 1
                    si[sp] = a
                    sn[sp] = 0
                elif op >= O_EQI and op <= O_NSI:
                    sp -= 1
                    if op == O_NSI:
                        if sn[sp] == 1 or sn[sp + 1] == 1:
                            si[sp] = 1 if sn[sp] == sn[sp + 1] else 0
                        else:
                            si[sp] = 1 if si[sp] == si[sp + 1] else 0
                        sn[sp] = 0
                    elif sn[sp] == 1 or sn[sp + 1] == 1:
                        sn[sp] = 1
                    else:
                        x = si[sp]
                        y = si[sp + 1]
                        r = False
                        if op == O_LTI:
                            r = x < y
                        elif op == O_GTI:
                            r = x > y
                        elif op == O_EQI:
                            r = x == y
                        elif op == O_LEI:
                            r = x <= y
                        elif op == O_GEI:
                            r = x >= y
                        else:
                            r = x != y
                        si[sp] = 1 if r else 0
                elif op >= O_EQF and op <= O_NSF:
                    sp -= 1
                    if op == O_NSF:
                        if sn[sp] == 1 or sn[sp + 1] == 1:
                            si[sp] = 1 if sn[sp] == sn[sp + 1] else 0
                        else:
                            si[sp] = 1 if _same(sf[sp], sf[sp + 1]) else 0
                        sn[sp] = 0
                    elif sn[sp] == 1 or sn[sp + 1] == 1:
                        sn[sp] = 1
                    else:
                        x = sf[sp]
                        y = sf[sp + 1]
                        r = False
                        if op == O_LTF:
                            r = _less(x, y)
                        elif op == O_GTF:
                            r = _less(y, x)
                        elif op == O_EQF:
                            r = _same(x, y)
                        elif op == O_LEF:
                            r = not _less(y, x)
                        elif op == O_GEF:
                            r = not _less(x, y)
                        else:
                            r = not _same(x, y)
                        si[sp] = 1 if r else 0
                elif op == O_SLOTI:
                    sp += 1
                    si[sp] = hi[view, a]
                    sn[sp] = 1 if b >= 0 and hi[view, b] == 0 else 0
                elif op == O_SLOTF:
                    sp += 1
                    sf[sp] = hf[view, a]
                    sn[sp] = 1 if b >= 0 and hi[view, b] == 0 else 0
                elif op == O_JFALSE:
                    if sn[sp] == 0 and si[sp] == 0:
                        pc = a
                elif op == O_JTRUE:
                    if sn[sp] == 0 and si[sp] != 0:
                        pc = a
                elif op == O_AND:
                    sp -= 1
                    if (sn[sp] == 0 and si[sp] == 0) or (sn[sp + 1] == 0 and si[sp + 1] == 0):
                        si[sp] = 0
                        sn[sp] = 0
                    elif sn[sp] == 1 or sn[sp + 1] == 1:
                        sn[sp] = 1
                    else:
                        si[sp] = 1
                elif op == O_OR:
                    sp -= 1
                    if (sn[sp] == 0 and si[sp] != 0) or (sn[sp + 1] == 0 and si[sp + 1] != 0):
                        si[sp] = 1
                        sn[sp] = 0
                    elif sn[sp] == 1 or sn[sp + 1] == 1:
                        sn[sp] = 1
                    else:
                        si[sp] = 0
                elif op == O_NOT:
                    si[sp] = 1 - si[sp]
                elif op == O_ADDF or op == O_SUBF or op == O_MULF or op == O_DIVF or op == O_MODF or op == O_POW:
                    sp -= 1
                    if sn[sp] == 1 or sn[sp + 1] == 1:
                        sn[sp] = 1
                    elif op == O_ADDF:
                        sf[sp] = sf[sp] + sf[sp + 1]
                    elif op == O_SUBF:
                        sf[sp] = sf[sp] - sf[sp + 1]
                    elif op == O_MULF:
                        sf[sp] = sf[sp] * sf[sp + 1]
                    elif op == O_POW:
                        if math.isnan(sf[sp + 1]) or (abs(sf[sp]) == 1.0 and math.isinf(sf[sp + 1])):
                            sf[sp] = math.nan  # as in Java; in C the result is 1
                        else:
                            sf[sp] = sf[sp] ** sf[sp + 1]
                    elif sf[sp + 1] == 0.0:
                        if b == 1:
                            got = DIVIDE_BY_ZERO
                            break
                        sn[sp] = 1
                    elif op == O_DIVF:
                        sf[sp] = sf[sp] / sf[sp + 1]
                    else:
                        sf[sp] = np.fmod(sf[sp], sf[sp + 1])
                elif op == O_ADDI or op == O_SUBI:
                    sp -= 1
                    if sn[sp] == 1 or sn[sp + 1] == 1:
                        sn[sp] = 1
                    else:
                        x = si[sp]
                        y = si[sp + 1]
                        if op == O_ADDI:
                            z = np.int64(np.uint64(x) + np.uint64(y))
                            over = add_overflows(x, y)
                        else:
                            z = np.int64(np.uint64(x) - np.uint64(y))
                            over = _sub_overflows(x, y)
                        if over or z > a or z < -a - 1:
                            if b == 1:
                                got = OVERFLOW
                                break
                            z = _wrap(z, a)
                        si[sp] = z
                elif op == O_MULI:
                    sp -= 1
                    if sn[sp] == 1 or sn[sp + 1] == 1:
                        sn[sp] = 1
                    else:
                        z = np.int64(np.uint64(si[sp]) * np.uint64(si[sp + 1]))
                        if _mul_overflows(si[sp], si[sp + 1]) or z > a or z < -a - 1:
                            if b == 1:
                                got = OVERFLOW
                                break
                            z = _wrap(z, a)
                        si[sp] = z
                elif op == O_DIVI or op == O_MODI:
                    sp -= 1
                    if sn[sp] == 1 or sn[sp + 1] == 1:
                        sn[sp] = 1
                    elif si[sp + 1] == 0:
                        if b == 1:
                            got = DIVIDE_BY_ZERO
                            break
                        sn[sp] = 1
                    else:
                        x = si[sp]
                        y = si[sp + 1]
                        if y == -1:
                            if op == O_DIVI:
                                if x != I64_MIN:
                                    si[sp] = -x
                                elif b == 1:
                                    got = OVERFLOW
                                    break
                            else:
                                si[sp] = 0
                        else:
                            quotient = x // y
                            if quotient < 0 and quotient * y != x:  # SQL truncates toward zero
                                quotient += 1
                            si[sp] = quotient if op == O_DIVI else x - quotient * y
                elif op == O_STD:
                    sp += 1
                    n = hi[view, b] - code[pc - 1, 3]
                    sn[sp] = 1 if n <= 0 else 0
                    if n > 0:
                        v = hf[view, a] / float(n)
                        sf[sp] = math.sqrt(v) if code[pc - 1, 4] == 1 else v
                elif op == O_I2F:
                    if b == 1:
                        sf[sp] = float(np.float32(si[sp]))  # rounded once, as in Java
                    elif a == 0:
                        sf[sp] = float(si[sp])
                    else:
                        sf[sp] = float(si[sp]) / float(_power_of_ten(a)) if a < 19 else float(si[sp]) / 10.0**a
                elif op == O_SCALE:
                    si[sp] = si[sp] * _power_of_ten(a)  # at most 18 digits
                elif op == O_NULL:
                    sp += 1
                    si[sp] = 0
                    sf[sp] = 0.0
                    sn[sp] = 1
                elif op == O_CONSTF:
                    sp += 1
                    sf[sp] = floats[a]
                    sn[sp] = 0
                elif op == O_MNO:
                    sp += 1
                    si[sp] = number
                    sn[sp] = 0
                elif op == O_CLS:
                    sp += 1
                    at = view if a < 0 else hi[view, a]
                    if at >= 0:
                        at += b
                    if begin <= at <= q and labels[at] != UNTAKEN:
                        si[sp] = label_codes[labels[at] & 63]
                        sn[sp] = 1 if si[sp] == NO_LABEL else 0
                    else:
                        sn[sp] = 1
                elif op == O_CLSSLOT:
                    sp += 1
                    sn[sp] = 1
                    if hi[view, a] >= 0:
                        si[sp] = label_codes[hi[view, a]]
                        sn[sp] = 1 if si[sp] == NO_LABEL else 0
                elif op == O_ISNULL:
                    si[sp] = sn[sp]
                    sn[sp] = 0
                elif op == O_ISTRUE:
                    si[sp] = 1 if sn[sp] == 0 and si[sp] != 0 else 0
                    sn[sp] = 0
                elif op == O_ISFALSE:
                    si[sp] = 1 if sn[sp] == 0 and si[sp] == 0 else 0
                    sn[sp] = 0
                elif op == O_ISNAN:
                    si[sp] = 1 if sn[sp] == 0 and math.isnan(sf[sp]) else 0
                    sn[sp] = 0
                elif op == O_JNOT:
                    if sn[sp] == 1 or si[sp] == 0:
                        pc = a
                    sp -= 1
                elif op == O_JUMP:
                    pc = a
                elif op == O_JSOME:
                    if sn[sp] == 0:
                        pc = a
                elif op == O_POP:
                    sp -= 1
                elif op == O_MAXI or op == O_MINI:
                    sp -= 1
                    if sn[sp] == 1:
                        si[sp] = si[sp + 1]
                        sn[sp] = sn[sp + 1]
                    elif sn[sp + 1] == 0 and (si[sp + 1] > si[sp]) == (op == O_MAXI):
                        si[sp] = si[sp + 1]
                elif op == O_MAXF or op == O_MINF:
                    sp -= 1
                    if sn[sp] == 1:
                        sf[sp] = sf[sp + 1]
                        sn[sp] = sn[sp + 1]
                    elif sn[sp + 1] == 0:
                        if op == O_MAXF:
                            if _less(sf[sp], sf[sp + 1]):
                                sf[sp] = sf[sp + 1]
                        elif _less(sf[sp + 1], sf[sp]):
                            sf[sp] = sf[sp + 1]
                elif op == O_NEGI:
                    if sn[sp] == 0:
                        if si[sp] == -a - 1:
                            if b == 1:
                                got = OVERFLOW
                                break
                        else:
                            si[sp] = -si[sp]
                elif op == O_ABSI:
                    if sn[sp] == 0 and si[sp] < 0:
                        if si[sp] == -a - 1:
                            if b == 1:
                                got = OVERFLOW
                                break
                        else:
                            si[sp] = -si[sp]
                elif op == O_NEGF:
                    sf[sp] = -sf[sp]
                elif op == O_ABSF:
                    sf[sp] = abs(sf[sp])
                elif op == O_SIGNF:
                    if sf[sp] > 0.0:
                        sf[sp] = 1.0
                    elif sf[sp] < 0.0:
                        sf[sp] = -1.0
                elif op == O_ROUND32:
                    if sn[sp] == 0:
                        sf[sp] = float(np.float32(sf[sp]))
                elif op == O_SQRT:
                    sf[sp] = math.sqrt(sf[sp]) if sf[sp] >= 0.0 else math.nan
                elif op == O_EXP:
                    if sn[sp] == 0:
                        sf[sp] = np.exp(sf[sp])
                elif op == O_LN or op == O_LOG10:
                    if sn[sp] == 0:
                        if sf[sp] <= 0.0:  # NULL, as in Spark
                            sn[sp] = 1
                        elif op == O_LN:
                            sf[sp] = math.log(sf[sp])
                        else:
                            sf[sp] = math.log10(sf[sp])
                elif op == O_FLOOR or op == O_CEIL:
                    if sn[sp] == 0:
                        f = np.floor(sf[sp]) if op == O_FLOOR else np.ceil(sf[sp])
                        if a == 1 and abs(f) >= 9223372036854775808.0:
                            got = OVERFLOW
                            break
                        if math.isnan(f):
                            si[sp] = 0
                        elif f >= 9223372036854775808.0:
                            si[sp] = I64_MAX
                        elif f <= -9223372036854775808.0:
                            si[sp] = I64_MIN
                        else:
                            si[sp] = int(f)
                elif op == O_DISTINCT:
                    sp += 1
                    # A row of a negated variable sees the whole match, whose last row is ``prior``.
                    upto = max(q, prior) if view == q else view
                    x, f, n, bad = _distinct(a, b, code[pc - 1, 3], code[pc - 1, 4], begin, upto, labels, ints, flts, inull, fnull)
                    if bad != 0:
                        got = bad
                        break
                    sn[sp] = 0
                    if a == 0 or a == 8:
                        si[sp] = n
                    else:
                        sn[sp] = 1 if n <= 0 else 0
                        si[sp] = x
                        if a == 2:
                            sf[sp] = f / float(n) if n > 0 else 0.0
                        else:
                            sf[sp] = f
                elif op == O_MATH:
                    if sn[sp] == 0:
                        if a <= 2 and a >= 1 and sf[sp] <= (0.0 if a == 1 else -1.0):
                            sn[sp] = 1  # logarithms outside their domain are NULL in Spark
                        else:
                            sf[sp] = _math(a, sf[sp])
                elif op == O_ATAN2 or op == O_HYPOT or op == O_PMODF:
                    sp -= 1
                    if sn[sp] == 1 or sn[sp + 1] == 1:
                        sn[sp] = 1
                    elif op == O_ATAN2:
                        sf[sp] = math.atan2(sf[sp] + 0.0, sf[sp + 1] + 0.0)  # Spark turns -0.0 into 0.0
                    elif op == O_HYPOT:
                        sf[sp] = math.hypot(sf[sp], sf[sp + 1])
                    elif sf[sp + 1] == 0.0:
                        if b == 1:
                            got = DIVIDE_BY_ZERO
                            break
                        sn[sp] = 1
                    else:
                        f = np.fmod(sf[sp], sf[sp + 1])
                        if f < 0:
                            f = f + sf[sp + 1]
                            f = np.fmod(float(np.float32(f)) if a == 1 else f, sf[sp + 1])
                        sf[sp] = f
                elif op == O_PMODI:
                    sp -= 1
                    if sn[sp] == 1 or sn[sp + 1] == 1:
                        sn[sp] = 1
                    elif si[sp + 1] == 0:
                        if b == 1:
                            got = DIVIDE_BY_ZERO
                            break
                        sn[sp] = 1
                    else:
                        y = si[sp + 1]
                        z = _truncated(si[sp], y)
                        if z < 0:
                            # Java adds in the width of the type. The sum wraps if both are near its minimum.
                            z = _truncated(_wrap(np.int64(np.uint64(z) + np.uint64(y)), a), y)
                        si[sp] = z
                elif op == O_ROUNDF:
                    sf[sp] = _round_half_up(sf[sp], a)
                elif op == O_RESCALE:
                    si[sp] = _rescale(si[sp], a, b)
                elif op == O_F2I:
                    if sn[sp] == 0:
                        f = sf[sp]
                        f = np.trunc(f)
                        if math.isnan(f) or f > float(a) or f < -float(a) - 1.0 or (a == I64_MAX and f >= 9223372036854775808.0):
                            if b == 1:
                                got = OVERFLOW
                                break
                            sn[sp] = 1 if b == 2 else 0
                            bound_ = np.int64(2147483647) if a < 2147483647 else np.int64(a)
                            if math.isnan(f):
                                si[sp] = 0
                            elif f >= float(bound_):
                                si[sp] = _wrap(bound_, a)
                            elif f <= -float(bound_) - 1.0:
                                si[sp] = _wrap(-bound_ - 1, a)
                            else:
                                si[sp] = _wrap(int(f), a)
                        else:
                            si[sp] = int(f)
                elif op == O_NARROW:
                    if sn[sp] == 0 and (si[sp] > a or si[sp] < code[pc - 1, 3]):
                        if b == 1:
                            got = OVERFLOW
                            break
                        if b == 2:
                            sn[sp] = 1
                        else:
                            si[sp] = _wrap(si[sp], a)
                elif op == O_ROWAT:
                    sp += 1
                    at = hi[view, a]
                    sn[sp] = 1
                    if at >= 0 and low <= at + b < bound:
                        sn[sp] = 0
                        si[sp] = ints[code[pc - 1, 3], at + b] - 1
                elif op == O_PRIOR:
                    # The variable's first row does not have an earlier one.
                    if prior < begin or hi[prior, a] == 0:
                        sp += 1
                        si[sp] = 0
                        sf[sp] = 0.0
                        sn[sp] = 1
                        pc = code[pc - 1, 3]
                    else:
                        view = prior
                elif op == O_CURRENT:
                    view = q
                elif op == O_ISFIRST:
                    sp += 1
                    si[sp] = 1 if prior < begin or hi[prior, a] == 0 else 0
                    sn[sp] = 0
                elif op == O_PAIRI or op == O_PAIRF:
                    at = pair_starts[a, q]
                    n = pair_starts[a, q + 1] - at
                    if b == 2:
                        sp -= 1
                        n = np.int64(np.rint(math.sqrt(float(n))))
                        at += (n - 1 if sn[sp] == 1 else si[sp]) * n + (n - 1 if sn[sp + 1] == 1 else si[sp + 1])
                    else:
                        at += n - 1 if sn[sp] == 1 else si[sp]
                    si[up + sp] = at
                    sn[sp] = pair_null[at]
                    if op == O_PAIRI:
                        si[sp] = pair_ints[at]
                    else:
                        sf[sp] = pair_flts[at]
                elif op == O_JNULL:
                    if sn[sp] == 1:
                        pc = a
                elif op == O_SWAP:
                    si[sp - 1], si[sp] = si[sp], si[sp - 1]
                    si[up + sp - 1], si[up + sp] = si[up + sp], si[up + sp - 1]
                    sf[sp - 1], sf[sp] = sf[sp], sf[sp - 1]
                    sn[sp - 1], sn[sp] = sn[sp], sn[sp - 1]
                elif op == O_FAIL:
                    sp -= 1
                    if sn[sp + 1] == 0 and si[sp + 1] != 0:
                        got = FAILED - a
                        break
                elif op == O_LOADH or op == O_NAVH:
                    # The high word of the value that the instruction before has loaded, at the same place.
                    shift = b
                    column = a
                    absent = code[pc - 1, 3]
                    at = q
                    if op == O_NAVH:
                        column = code[pc - 1, 3]
                        absent = code[pc - 1, 4]
                        at = hi[view, a]
                    if at >= 0 and low <= at + shift < bound:
                        si[up + sp] = ints[column, at + shift]
                    elif absent >= 0:
                        si[up + sp] = ints[absent, q]
                elif op == O_SLOTH:
                    if sn[sp] == 0:
                        si[up + sp] = hi[view, a]
                        if b >= 0 and not is_sum(si[sp], hi[view, a], hi[view, a + 1]):
                            if b == 1:
                                got = OVERFLOW
                                break
                            sn[sp] = 1
                elif op == O_FITS:
                    if sn[sp] == 0 and hi[view, a] != 0:
                        got = OVERFLOW
                        break
                elif op == O_PAIRH:
                    si[up + sp] = pair_ints[si[up + sp] + pair_starts[a, q] - pair_starts[b, q]]
                elif op >= O_LOCAL:
                    sp, bad = zoned(op, a, b, code[pc - 1, 3], code, sp, si, sn)
                    if bad < 0:
                        got = bad
                        break
                elif op >= O_WIDEN:
                    sp, bad = wide(op, a, b, code[pc - 1, 3], code[pc - 1, 4], sp, si, sf, sn)
                    if bad < 0:
                        got = bad
                        break

            if got < 0:
                return q - first, got
            if got == 0:
                if mode == MAP:
                    break
                if mode == SEARCH or mode == EXTEND:
                    labels[q] = UNTAKEN
                    q += 1
                    continue
                letters[q] &= ~(np.int64(1) << variable)
        if mode == SEARCH:
            break
        prior = q
        q += 1
    return q - first, 0


@kernel
def clear(variable, entry, rows, conditions, no_slots, hi, hf, labels, si, sf, sn):
    """Clears the variable's letter at rows where its condition, of physical neighbours only, is not true. Returns 0 or an error.

    ``no_slots``, ``hi``, ``hf`` and ``labels`` are passed to :func:`scan` but not read.
    """
    none = np.int64(0)
    for part in range(rows.offsets.shape[0] - 1):
        low = rows.offsets[part]
        high = rows.offsets[part + 1]
        _, bad = scan(
            CLEAR, variable, none, entry, high - low, low, low - 1, low, high, high, low, none, rows.letters, conditions.code, conditions.floats, no_slots,
            hi, hf, labels, conditions.label_codes, rows.ints, rows.flts, rows.inull, rows.fnull, rows.pair_starts, rows.pair_ints, rows.pair_flts,
            rows.pair_null, si, sf, sn,
        )
        if bad < 0:
            return bad
    return none


@kernel
def mark_comparison(letters, bit, op, left, left_null, left_shift, right, right_null, right_shift, offsets):
    """Clears the letter ``bit`` at rows where a comparison of two shifted columns is not true: the most common condition, in one
    pass.

    ``op`` is EQ, NE, LT, LE, GT or GE as 0 to 5. No value may be NaN.
    """
    keep = ~(np.int64(1) << bit)
    less = op == 1 or op == 2 or op == 3
    equal = op == 0 or op == 3 or op == 5
    more = op == 1 or op == 4 or op == 5
    for part in range(offsets.shape[0] - 1):
        low = offsets[part]
        high = offsets[part + 1]
        first = min(high, low + max(0, -left_shift, -right_shift))
        last = max(first, high - max(0, left_shift, right_shift))
        for pos in range(low, first):
            letters[pos] &= keep
        # without branches, which random values would mispredict
        for pos in range(first, last):
            x = left[pos + left_shift]
            y = right[pos + right_shift]
            ok = (less & (x < y)) | (equal & (x == y)) | (more & (x > y))
            ok &= (left_null[pos + left_shift] | right_null[pos + right_shift]) == 0
            letters[pos] &= keep | (np.int64(ok) << bit)
        for pos in range(last, high):
            letters[pos] &= keep
