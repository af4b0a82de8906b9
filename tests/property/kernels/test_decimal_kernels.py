"""Decimals of two words against Python's whole numbers, with Spark's roundings."""

from __future__ import annotations

import random
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

import numpy as np
import pytest

from sparkcep.compiler.conditions.bytecode import OP
from sparkcep.kernels.vm.decimal128 import DIVIDE_BY_ZERO, OVERFLOW, compared, is_sum, summed, wide
from tests.selection import first

WIDE = Context(prec=400)
MODES = {-1: ROUND_FLOOR, 0: ROUND_HALF_UP, 1: ROUND_CEILING, 2: ROUND_DOWN}
STACK = 4


def words(value: int) -> tuple[int, int]:
    raw = value.to_bytes(16, "little", signed=True)
    return tuple(int.from_bytes(raw[i : i + 8], "little", signed=True) for i in (0, 8))


def run(op: str, operands: tuple, *values: int | None):
    """The value, None for NULL, or the error that the instruction leaves; an int of one word for those that give one."""
    si, sf, sn = np.zeros(2 * STACK, dtype=np.int64), np.zeros(STACK), np.zeros(STACK, dtype=np.uint8)
    for at, value in enumerate(values):
        sn[at] = value is None
        si[at], si[STACK + at] = words(value or 0)
    a, b, c, d = (*operands, 0, 0, 0, 0)[:4]
    sp, bad = wide(OP[op], a, b, c, d, len(values) - 1, si, sf, sn)
    assert sp == 0
    if bad:
        return {OVERFLOW: "overflow", DIVIDE_BY_ZERO: "zero"}[bad]
    if sn[0]:
        return None
    if op == "W2F":
        return float(sf[0])
    if op in ("CMPW", "W2I"):
        return int(si[0])
    return int.from_bytes(b"".join(int(w).to_bytes(8, "little", signed=True) for w in (si[0], si[STACK])), "little", signed=True)


def rounded(value: Fraction, scale: int, mode: int = 0) -> int:
    """The unscaled value with ``scale`` digits behind the point."""
    x = value * 10**scale
    whole, rest = divmod(abs(x.numerator), x.denominator)
    up = {0: 2 * rest >= x.denominator, 2: False, -1: rest > 0 and x < 0, 1: rest > 0 and x > 0}[mode]
    return (whole + up) * (-1 if x < 0 else 1)


def nearest_float(x: Fraction) -> float:
    """The FLOAT nearest to a value, of two the one with an even last digit."""
    near = np.float32(float(x))
    some = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
    return float(min(some, key=lambda f: (abs(Fraction(float(f)) - x), int(f.view(np.int32)) & 1)))


def limited(value: int, precision: int, ansi: bool):
    return value if abs(value) < 10**precision else "overflow" if ansi else None


def some(rng: random.Random, precision: int) -> int:
    digits = rng.choice([1, precision, rng.randint(1, precision)])
    value = rng.choice([rng.randrange(10**digits), 10**digits - 1, 10 ** (digits - 1), 5 * 10 ** (digits - 1), 0])
    return rng.choice([1, -1]) * value


@pytest.mark.parametrize("seed", first(range(16), wider=2))
def test_arithmetic(seed):
    rng = random.Random(seed)
    for _ in range(1000):
        p, q = rng.randint(1, 38), rng.randint(1, 38)
        s, r = rng.randint(0, p), rng.randint(0, q)
        x, y, ansi = some(rng, p), some(rng, q), rng.random() < 0.5
        exact_x, exact_y = Fraction(x, 10**s), Fraction(y, 10**r)
        precision = rng.choice([38, rng.randint(1, 38)])
        fitting, scale = 2 * precision + ansi, max(s, r)
        shown = (x, s, y, r, precision)
        kept = rng.randint(0, scale)
        for op, value in (("ADDW", exact_x + exact_y), ("SUBW", exact_x - exact_y)):
            found = run(op, (scale - s, scale - r, scale - kept, fitting), x, y)
            assert found == limited(rounded(value, kept), precision, ansi), (op, shown, kept)
        kept = rng.randint(0, min(38, s + r))
        found = run("MULW", (0, 0, s + r - kept, fitting), x, y)
        assert found == limited(rounded(exact_x * exact_y, kept), precision, ansi), ("MULW", shown, kept)
        kept = rng.randint(max(0, min(38, s - r)), 38)
        found = run("DIVW", (kept + r - s, 0, 0, fitting), x, y)
        zero = "zero" if ansi else None
        assert found == (limited(rounded(exact_x / exact_y, kept), precision, ansi) if y else zero), ("DIVW", shown, kept)
        found = run("DIVW", (r - s, -1, 0, fitting), x, y)
        assert found == (limited(rounded(exact_x / exact_y, 0, 2), precision, ansi) if y else zero), ("DIV", shown)
        found = run("MODW", (scale - s, scale - r, 0, 2 * 38 + ansi), x, y)
        remainder = exact_x - exact_y * rounded(exact_x / exact_y, 0, 2) if y else 0
        assert found == (rounded(remainder, scale) if y else zero), ("MODW", shown)
        found = run("PMODW", (scale - s, scale - r, 0, fitting), x, y)
        positive = remainder + exact_y if remainder < 0 < exact_y else remainder
        assert found == (limited(rounded(positive, scale), precision, ansi) if y else zero), ("PMODW", shown)


def test_quotients_are_rounded_once_as_spark_does():
    # 0.4999... with many digits behind the last one kept
    for x, y in ((5 * 10**37 - 1, 10**38 - 1), (10**37 + 1, 2 * 10**37 + 3), (49999999999999999999999999999999999999, 10**37)):
        for kept in (0, 6, 37, 38):
            assert run("DIVW", (kept, 0, 0, 77), x, y) == limited(rounded(Fraction(x, y), kept), 38, True)


@pytest.mark.parametrize("seed", first(range(2), wider=1))
def test_one_value(seed):
    rng = random.Random(seed)
    for _ in range(4000):
        p = rng.randint(1, 38)
        x, s = some(rng, p), rng.randint(0, p)
        negated = -int(Context(prec=34, rounding=ROUND_HALF_EVEN).plus(Decimal(x)))  # of scala.math.BigDecimal
        assert run("NEGW", (38,), x) == limited(negated, 38, True)
        assert run("ABSW", (38,), x) == (limited(negated, 38, True) if x < 0 else x)
        assert run("W2F", (s,), x) == float(WIDE.divide(Decimal(x), Decimal(10) ** s)), (x, s)
        assert run("W2F", (s, 1), x) == nearest_float(Fraction(x, 10**s)), (x, s)
        grow, precision, mode = rng.randint(-38, 38 - p), rng.randint(1, 38), rng.choice(list(MODES))
        wanted = int(WIDE.scaleb(Decimal(x), grow).to_integral_value(rounding=MODES[mode]))
        assert run("FITW", (grow, mode, precision, 1), x) == limited(wanted, precision, True), (x, grow, mode, precision)
        for limit in (127, 2**31 - 1, 2**63 - 1):
            fits = -limit - 1 <= x <= limit
            assert run("W2I", (limit, 1), x) == (x if fits else "overflow")
            assert run("W2I", (limit, 2), x) == (x if fits else None)
            assert run("W2I", (limit, 0), x) == (x + limit + 1) % (2 * limit + 2) - limit - 1


def test_floats_are_rounded_once():
    for digits in range(9, 30):
        for x in (16777217 * 10**digits + 1, 16777219 * 10**digits - 1, -(33554435 * 10**digits) - 1):  # beside the middle of two FLOATs
            assert run("W2F", (digits, 1), x) == nearest_float(Fraction(x, 10**digits))
    assert run("W2F", (38, 1), 1) == float(np.float32("1e-38"))


@pytest.mark.parametrize("seed", first(range(2), wider=1))
def test_sums(seed):
    """A sum may leave 38 digits, and two words, and come back."""
    rng = random.Random(seed)
    beyond = 0
    for _ in range(60):
        total, found = 0, (0, 0, 0)
        precision, drift = rng.choice([3, 18, 19, 37, 38, 38, 38]), rng.random()
        for _ in range(60):
            x = abs(some(rng, precision)) * (1 if rng.random() < drift else -1)
            total += x
            found = summed(*found, *words(x))
            raw = b"".join(int(word).to_bytes(8, "little", signed=True) for word in found)
            assert int.from_bytes(raw, "little", signed=True) == total
            assert is_sum(*found) == (abs(total) < 10**38)
            beyond += abs(total) >= 2**127
    assert beyond > 100


@pytest.mark.parametrize("seed", first(range(2), wider=1))
def test_two_values(seed):
    rng = random.Random(seed)
    for _ in range(3000):
        x = some(rng, rng.randint(1, 38))
        y = rng.choice([x, -x, x + 1, some(rng, rng.randint(1, 38))])
        if abs(y) >= 10**38:
            continue
        order = (x > y) - (x < y)
        assert compared(*words(x), *words(y)) == order
        for i, wanted in enumerate((x == y, x != y, x < y, x <= y, x > y, x >= y, x == y)):
            assert run("CMPW", (i,), x, y) == wanted
        assert run("EXTREMEW", (1,), x, y) == max(x, y) and run("EXTREMEW", (0,), x, y) == min(x, y)
    assert [run("CMPW", (6,), None, 1), run("CMPW", (6,), None, None), run("CMPW", (0,), None, 1)] == [0, 1, None]
    assert [run("EXTREMEW", (1,), None, 1), run("EXTREMEW", (0,), 1, None), run("ADDW", (0, 0, 0, 76), 1, None)] == [1, 1, None]
    assert run("WIDEN", (), -5) == -5
