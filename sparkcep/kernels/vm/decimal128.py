"""128-bit decimals: values of more than 18 digits in conditions, with the roundings of Spark's Decimal.

The bytecode interpreter (:mod:`sparkcep.kernels.vm.vm`) calls :func:`wide`. A value on its stack has its low word in ``si[sp]`` and
its high word in ``si[sp + len(si) // 2]``, in two's complement. Arithmetic uses magnitudes of up to four words (uint64, lowest
first), which hold the product of two values of 38 digits.

Example: 12345678901234567890 is below 2**64, so its high word is 0. Its low word reads -6101065172474983726 as int64. The value -1
has both words -1.
"""

from __future__ import annotations

import math

import numpy as np

from sparkcep.compiler.conditions.bytecode import OP
from sparkcep.kernels.jit.cache import kernel, separate

OVERFLOW, DIVIDE_BY_ZERO = -2, -3
FLOOR, HALF_UP, CEILING, TRUNCATE = -1, 0, 1, 2  # how digits are dropped
TRUNCATED = -1  # of a quotient: the digits after its last one are dropped

_I64_MAX = (1 << 63) - 1
_E37 = (10**37 & ((1 << 64) - 1), 10**37 >> 64)
_E38 = (10**38 & ((1 << 64) - 1), 10**38 >> 64)
_globals = globals()
for _name, _value in OP.items():
    _globals["O_" + _name] = _value


@kernel
def _magnitude(low, high):
    a, b = np.uint64(low), np.uint64(high)
    if high >= 0:
        return a, b
    a = np.uint64(0) - a
    b = ~b
    if a == np.uint64(0):
        b = b + np.uint64(1)
    return a, b


@kernel
def _signed(negative, a, b):
    if negative:
        a = np.uint64(0) - a
        b = ~b
        if a == np.uint64(0):
            b = b + np.uint64(1)
    return np.int64(a), np.int64(b)


@kernel
def _times_word(x, m, carry):
    """(x * m + carry) as (word, carry), for m and carry below 2**32."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    low = (x & mask) * m + carry
    high = (x >> half) * m + (low >> half)
    return (high << half) | (low & mask), high >> half


@kernel
def _grown(a, b, c, d, digits):
    """A magnitude times 10**digits."""
    while digits > 0:
        step = min(digits, 9)
        m = np.uint64(1)
        for _ in range(step):
            m = m * np.uint64(10)
        a, carry = _times_word(a, m, np.uint64(0))
        b, carry = _times_word(b, m, carry)
        c, carry = _times_word(c, m, carry)
        d, carry = _times_word(d, m, carry)
        digits -= step
    return a, b, c, d


@kernel
def _over_word(rest, x, m):
    """Divides the word ``x``, after the remainder ``rest`` of the higher words, by m < 2**32: (quotient, remainder)."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    part = (rest << half) | (x >> half)
    high = part // m
    part = ((part - high * m) << half) | (x & mask)
    low = part // m
    return (high << half) | low, part - low * m


@kernel
def _over(a, b, c, d, m):
    d, rest = _over_word(np.uint64(0), d, m)
    c, rest = _over_word(rest, c, m)
    b, rest = _over_word(rest, b, m)
    a, rest = _over_word(rest, a, m)
    return a, b, c, d, rest


@kernel
def _shrunk(a, b, c, d, digits, mode, negative):
    """A magnitude over 10**digits, rounded by ``mode``."""
    if digits <= 0:
        return a, b, c, d
    lost = False
    left = digits - 1
    while left > 0:
        step = min(left, 9)
        m = np.uint64(1)
        for _ in range(step):
            m = m * np.uint64(10)
        a, b, c, d, rest = _over(a, b, c, d, m)
        lost = lost or rest > np.uint64(0)
        left -= step
    a, b, c, d, rest = _over(a, b, c, d, np.uint64(10))
    lost = lost or rest > np.uint64(0)
    if (mode == HALF_UP and rest >= np.uint64(5)) or (lost and ((mode == FLOOR and negative) or (mode == CEILING and not negative))):
        a = a + np.uint64(1)
        if a == np.uint64(0):
            b = b + np.uint64(1)
            if b == np.uint64(0):
                c = c + np.uint64(1)
                if c == np.uint64(0):
                    d = d + np.uint64(1)
    return a, b, c, d


@kernel
def _below(a, b, x, y):
    return b < y or (b == y and a < x)


@kernel
def _fits(a, b, c, d, precision):
    if c != np.uint64(0) or d != np.uint64(0):
        return False
    x, y, _, _ = _grown(np.uint64(1), np.uint64(0), np.uint64(0), np.uint64(0), precision)
    return _below(a, b, x, y)


@kernel
def _negated(a, b):
    """The magnitude after Spark has changed a value's sign: Spark keeps 34 digits then, and rounds half to even."""
    zero, one, lost = np.uint64(0), np.uint64(1), 0
    while not _fits(a, b, zero, zero, 34 + lost):
        lost += 1
    if lost == 0:
        return a, b
    m = one
    for _ in range(lost):
        m = m * np.uint64(10)
    a, b, _, _, rest = _over(a, b, zero, zero, m)
    half = m // np.uint64(2)
    if rest > half or (rest == half and a & one == one):
        a = a + one
        if a == zero:
            b = b + one
    a, b, _, _ = _grown(a, b, zero, zero, lost)
    return a, b


@kernel
def _product_of_words(x, y):
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    xl, xh, yl, yh = x & mask, x >> half, y & mask, y >> half
    p, q, r = xl * yl, xl * yh, xh * yl
    middle = (p >> half) + (q & mask) + (r & mask)
    return (middle << half) | (p & mask), xh * yh + (q >> half) + (r >> half) + (middle >> half)


@kernel
def _product(a, b, x, y):
    """(a, b) * (x, y) in four words."""
    o0, carry = _product_of_words(a, x)
    l1, h1 = _product_of_words(a, y)
    l2, h2 = _product_of_words(b, x)
    l3, h3 = _product_of_words(b, y)
    o1 = l1 + carry
    c1 = np.uint64(1) if o1 < l1 else np.uint64(0)
    o1 = o1 + l2
    if o1 < l2:
        c1 = c1 + np.uint64(1)
    o2 = h1 + h2
    c2 = np.uint64(1) if o2 < h1 else np.uint64(0)
    o2 = o2 + l3
    if o2 < l3:
        c2 = c2 + np.uint64(1)
    o2 = o2 + c1
    if o2 < c1:
        c2 = c2 + np.uint64(1)
    return o0, o1, o2, h3 + c2


@kernel
def _divided(a, b, x, y):
    """(a, b) over (x, y), which is not 0: quotient and remainder, each in two words."""
    zero, one = np.uint64(0), np.uint64(1)
    if b == zero and y == zero:
        q = a // x
        return q, zero, a - q * x, zero
    q0, q1, r0, r1 = zero, zero, zero, zero
    # Long division, bit by bit. It runs only if a word is not enough for both values.
    for i in range(127, -1, -1):
        bit = (b >> np.uint64(i - 64)) & one if i >= 64 else (a >> np.uint64(i)) & one
        r1 = (r1 << one) | (r0 >> np.uint64(63))
        r0 = (r0 << one) | bit
        q1 = (q1 << one) | (q0 >> np.uint64(63))
        q0 = q0 << one
        if not _below(r0, r1, x, y):
            borrow = one if r0 < x else zero
            r0 = r0 - x
            r1 = r1 - y - borrow
            q0 = q0 | one
    return q0, q1, r0, r1


@kernel
def _next(r0, r1, x, y, base):
    """The next digit of a quotient whose remainder is below the divisor (x, y): (digit, remainder in two words)."""
    if r1 == np.uint64(0) and y == np.uint64(0) and r0 < np.uint64(1 << 60):
        r0 = r0 * np.uint64(base)
        digit = r0 // x
        return np.int64(digit), r0 - digit * x, r1
    s0, s1, digit = np.uint64(0), np.uint64(0), 0
    for _ in range(base):
        s0 = s0 + r0
        s1 = s1 + r1
        if s0 < r0:
            s1 = s1 + np.uint64(1)
        if not _below(s0, s1, x, y):
            borrow = np.uint64(1) if s0 < x else np.uint64(0)
            s0 = s0 - x
            s1 = s1 - y - borrow
            digit += 1
    return np.int64(digit), s0, s1


@kernel
def _half_of(r0, r1, x, y):
    """Whether the remainder is at least half of the divisor."""
    digit, _, _ = _next(r0, r1, x, y, 2)
    return digit > 0


@kernel
def _quotient(a, b, x, y, digits, cut):
    """(a, b) * 10**digits over (x, y), rounded half up or TRUNCATED: the quotient in two words, and whether it fits."""
    if digits < 0:
        x, y, up, upper = _grown(x, y, np.uint64(0), np.uint64(0), -digits)
        if up != np.uint64(0) or upper != np.uint64(0) or y >> np.uint64(63):
            return np.uint64(0), np.uint64(0), cut == TRUNCATED
    q0, q1, r0, r1 = _divided(a, b, x, y)
    for _ in range(digits):
        if not _below(q0, q1, np.uint64(_E37[0]), np.uint64(_E37[1])):
            return q0, q1, False
        digit, r0, r1 = _next(r0, r1, x, y, 10)
        q0, q1, _, _ = _grown(q0, q1, np.uint64(0), np.uint64(0), 1)
        q0 = q0 + np.uint64(digit)
        if q0 < np.uint64(digit):
            q1 = q1 + np.uint64(1)
    if cut != TRUNCATED and _half_of(r0, r1, x, y):
        q0 = q0 + np.uint64(1)
        if q0 == np.uint64(0):
            q1 = q1 + np.uint64(1)
    return q0, q1, True


@kernel
def _remainder(a, b, x, y, grow, grow_divisor):
    """(a, b) * 10**grow modulo (x, y) * 10**grow_divisor. One of the two exponents is 0."""
    x, y, up, upper = _grown(x, y, np.uint64(0), np.uint64(0), grow_divisor)
    if up != np.uint64(0) or upper != np.uint64(0) or y >> np.uint64(63):
        return a, b
    _, _, r0, r1 = _divided(a, b, x, y)
    for _ in range(grow):
        _, r0, r1 = _next(r0, r1, x, y, 10)
    return r0, r1


@kernel
def compared(low, high, low2, high2):
    """Compares two values: -1, 0 or 1."""
    if high != high2:
        return -1 if high < high2 else 1
    if low == low2:
        return 0
    return -1 if np.uint64(low) < np.uint64(low2) else 1


@kernel
def _carry(low, low2):
    """The carry of adding two words: 1 or 0."""
    return 1 if np.uint64(low) + np.uint64(low2) < np.uint64(low) else 0


@kernel
def summed(low, high, top, low2, high2):
    """The sum of a value of three words and one of two: (low, high, top). No number of rows makes it overflow."""
    carry = np.uint64(_carry(low, low2))
    middle = np.uint64(high) + np.uint64(high2)
    over = _carry(high, high2) + (1 if middle + carry < middle else 0)
    return np.int64(np.uint64(low) + np.uint64(low2)), np.int64(middle + carry), top + (over - 1 if high2 < 0 else over)


@kernel
def is_sum(low, high, top):
    """Whether a value of three words has at most 38 digits."""
    a, b = _magnitude(low, high)
    return top == (-1 if high < 0 else 0) and _below(a, b, np.uint64(_E38[0]), np.uint64(_E38[1]))


@kernel
def _added(x0, x1, y0, y1, grow, grow2, shrink):
    """The sum of two values in the larger of their scales, rounded: (negative, magnitude in four words)."""
    negative, negative2 = x1 < 0, y1 < 0
    a, b = _magnitude(x0, x1)
    x, y = _magnitude(y0, y1)
    zero, one = np.uint64(0), np.uint64(1)
    a, b, c, d = _grown(a, b, zero, zero, grow)
    x, y, z, w = _grown(x, y, zero, zero, grow2)
    if negative == negative2:
        carry = zero
        a = a + x
        carry = one if a < x else zero
        b = b + carry
        carry = one if b < carry else zero
        b = b + y
        if b < y:
            carry = one
        c = c + carry
        carry = one if c < carry else zero
        c = c + z
        if c < z:
            carry = one
        d = d + w + carry
    else:
        less = d < w or (d == w and (c < z or (c == z and _below(a, b, x, y))))
        if less:
            a, b, c, d, x, y, z, w = x, y, z, w, a, b, c, d
            negative = negative2
        borrow = one if a < x else zero
        a = a - x
        more = one if b < y or (b == y and borrow == one) else zero
        b = b - y - borrow
        borrow = one if c < z or (c == z and more == one) else zero
        c = c - z - more
        d = d - w - borrow
    a, b, c, d = _shrunk(a, b, c, d, shrink, HALF_UP, negative)
    return negative, a, b, c, d


@kernel
def as_float(low, high, scale, single):
    """The DOUBLE, or if ``single`` is 1 the FLOAT, nearest to the value over 10**scale."""
    a, b = _magnitude(low, high)
    zero, one = np.uint64(0), np.uint64(1)
    if a == zero and b == zero:
        return 0.0
    x, y, _, _ = _grown(one, zero, zero, zero, scale)
    q0, q1, r0, r1 = _divided(a, b, x, y)
    shift, lost = 0, False
    while q1 != zero or q0 >> np.uint64(62):
        lost = lost or (q0 & one) == one
        q0 = (q0 >> one) | (q1 << np.uint64(63))
        q1 = q1 >> one
        shift += 1
    while q0 >> np.uint64(61) == zero and shift <= 0:
        digit, r0, r1 = _next(r0, r1, x, y, 2)
        q0 = (q0 << one) | np.uint64(digit)
        shift -= 1
    if lost or r0 != zero or r1 != zero:
        q0 = q0 | one  # far below the last bit of a DOUBLE: it only distinguishes a half from more than a half
    f = math.ldexp(float(np.int64(q0)), shift)
    if single == 1:
        f = float(np.float32(math.ldexp(float(np.float32(np.int64(q0))), shift)))  # rounding the DOUBLE would be a second rounding
    return -f if high < 0 else f


@kernel
def as_doubles(low, high, scale, doubles):
    """Writes the DOUBLE nearest to each value over 10**scale into ``doubles``."""
    for i in range(low.shape[0]):
        doubles[i] = as_float(low[i], high[i], scale, 0)


@separate("UniTuple(int64, 2)(int64, int64, int64, int64, int64, int64, int64[::1], float64[::1], uint8[::1])")
def wide(op, a, b, c, d, sp, si, sf, sn):
    """Runs one instruction over decimals of two words, and returns (stack pointer, 0 or an error).

    ``op`` and its operands ``a`` to ``d`` are those of :mod:`sparkcep.compiler.conditions.bytecode`.
    """
    up = si.shape[0] // 2
    zero = np.uint64(0)
    if op == O_WIDEN:
        si[up + sp] = -1 if si[sp] < 0 else 0
        return sp, 0
    if op == O_NEGW or op == O_ABSW:
        if sn[sp] == 0 and (op == O_NEGW or si[up + sp] < 0):
            x, y = _magnitude(si[sp], si[up + sp])
            x, y = _negated(x, y)
            if not _fits(x, y, zero, zero, a):
                return sp, OVERFLOW  # as in Spark, whether or not ANSI is on
            si[sp], si[up + sp] = _signed(si[up + sp] >= 0, x, y)
        return sp, 0
    if op == O_W2F:
        if sn[sp] == 0:
            sf[sp] = as_float(si[sp], si[up + sp], a, b)
        return sp, 0
    if op == O_W2I:
        if sn[sp] == 0 and (si[up + sp] != (-1 if si[sp] < 0 else 0) or si[sp] > a or si[sp] < -a - 1):
            if b == 1:
                return sp, OVERFLOW
            if b == 2:
                sn[sp] = 1
            elif a != _I64_MAX:
                span = 2 * (a + 1)
                si[sp] = (si[sp] % span + a + 1) % span - a - 1
        return sp, 0
    if op == O_FITW:
        if sn[sp] == 0:
            negative = si[up + sp] < 0
            x, y = _magnitude(si[sp], si[up + sp])
            x, y, z, w = _grown(x, y, zero, zero, max(a, 0))
            x, y, z, w = _shrunk(x, y, z, w, -a, b, negative)
            if _fits(x, y, z, w, c):
                si[sp], si[up + sp] = _signed(negative, x, y)
            elif d == 1:
                return sp, OVERFLOW
            else:
                sn[sp] = 1
        return sp, 0
    sp -= 1
    if op == O_CMPW:
        if a == 6:
            same = si[sp] == si[sp + 1] and si[up + sp] == si[up + sp + 1]
            if sn[sp] == 1 or sn[sp + 1] == 1:
                same = sn[sp] == sn[sp + 1]
            si[sp] = 1 if same else 0
            sn[sp] = 0
        elif sn[sp] == 1 or sn[sp + 1] == 1:
            sn[sp] = 1
        else:
            order = compared(si[sp], si[up + sp], si[sp + 1], si[up + sp + 1])
            yes = order == 0
            if a == 1:
                yes = order != 0
            elif a == 2:
                yes = order < 0
            elif a == 3:
                yes = order <= 0
            elif a == 4:
                yes = order > 0
            elif a == 5:
                yes = order >= 0
            si[sp] = 1 if yes else 0
        return sp, 0
    if op == O_EXTREMEW:
        order = compared(si[sp], si[up + sp], si[sp + 1], si[up + sp + 1])
        if sn[sp] == 1 or (sn[sp + 1] == 0 and ((a == 1 and order < 0) or (a == 0 and order > 0))):
            si[sp] = si[sp + 1]
            si[up + sp] = si[up + sp + 1]
            sn[sp] = sn[sp + 1]
        return sp, 0
    if sn[sp] == 1 or sn[sp + 1] == 1:
        sn[sp] = 1
        return sp, 0
    precision, failing = d >> 1, d & 1
    negative = si[up + sp] < 0
    u, v = zero, zero
    fits = True
    if op == O_ADDW or op == O_SUBW:
        y0, y1 = si[sp + 1], si[up + sp + 1]
        if op == O_SUBW:
            x, y = _magnitude(y0, y1)
            y0, y1 = _signed(y1 >= 0, x, y)
        negative, x, y, u, v = _added(si[sp], si[up + sp], y0, y1, a, b, c)
    else:
        negative2 = si[up + sp + 1] < 0
        x, y = _magnitude(si[sp], si[up + sp])
        z, w = _magnitude(si[sp + 1], si[up + sp + 1])
        if op == O_MULW:
            negative = negative != negative2
            x, y, u, v = _product(x, y, z, w)
            x, y, u, v = _shrunk(x, y, u, v, c, HALF_UP, negative)
        elif z == zero and w == zero:
            if failing == 1:
                return sp, DIVIDE_BY_ZERO
            sn[sp] = 1
            return sp, 0
        elif op == O_DIVW:
            negative = negative != negative2
            x, y, fits = _quotient(x, y, z, w, a, b)
        else:
            x, y = _remainder(x, y, z, w, a, b)
            if op == O_PMODW and negative and not negative2 and (x != zero or y != zero):
                z, w, u, v = _grown(z, w, zero, zero, b)  # the divisor is added to a negative remainder
                borrow = np.uint64(1) if z < x else zero
                x, y = z - x, w - y - borrow
                negative = False
    if fits and _fits(x, y, u, v, precision):
        si[sp], si[up + sp] = _signed(negative, x, y)
    elif failing == 1:
        return sp, OVERFLOW
    else:
        sn[sp] = 1
    return sp, 0
