"""Sums of overlapping ranges have the bits of adding each range's numbers one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from sparkcep.engine.output import ordered_sums
from sparkcep.engine.output.ordered_sums import PIECE, Changes, add_to_slices
from tests.selection import first

HALVES = 0.5, 1.5, -0.5, 0.25, 1.0, 2.5, np.nextafter(0.5, 0), np.nextafter(0.5, 1), -np.nextafter(0.5, 0)
ENDS = 2.0**52, 2.0**52 + 5, -(2.0**52) - 9, 2.0**53 - 900, -(2.0**53) + 1000  # at the ends of the range whose unit is 1
KINDS = {
    "prices": lambda rng, n: np.round(rng.lognormal(4, 0.5, n), 2),
    "eighths": lambda rng, n: rng.integers(0, 1000, n) / 8,
    "both signs": lambda rng, n: rng.normal(size=n),
    "negative": lambda rng, n: -rng.integers(1, 1 << 20, n) * 2.0**-30 - (rng.random(n) < 0.001) * 2.0 ** rng.integers(-5, 12),
    "of many sizes": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-20, 20, n),
    "falls between rises": lambda rng, n: np.where(rng.random(n) < 0.01, -1e6, rng.random(n) * 1e4),
    "ties": lambda rng, n: np.concatenate([rng.choice(ENDS, 1), rng.choice(HALVES, n - 1)]),
    "ties of two units": lambda rng, n: rng.integers(-3, 9, n) * 2.0**-44 + rng.integers(0, 3, n) * 0.5 + (rng.random(n) < 0.01) * 2.0**-53,
    "subnormal": lambda rng, n: np.concatenate([rng.choice([0, 1e-300, 2.3e-308], 1), rng.random(n - 1) * 1e-310]),
    "beyond the largest double": lambda rng, n: rng.random(n) * 1e305 * rng.choice([1, -1]),
    "not finite": lambda rng, n: np.where(np.arange(n) == rng.integers(n), rng.choice([np.inf, -np.inf, np.nan]), rng.normal(size=n) + 0.5),
}


def growing_slices(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Slices that contain those before them, and grow at one end or at both, by one sum or by several at a time."""
    grown = rng.choice([np.ones(n, dtype=np.int64), rng.integers(0, 2, n), rng.multinomial(n, np.ones(n) / n)])
    below = rng.random(n) < rng.choice([0, 0.5, 1])
    lows, highs = -np.cumsum(np.where(below, grown, 0)), 1 + np.cumsum(np.where(below, 0, grown))
    return lows - lows[-1], highs - lows[-1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", first(range(4)))
def test_bits_of_additions_in_order(kind, seed):
    rng = np.random.default_rng([seed, *kind.encode()])
    parts, sums, before = [], 0, 0
    for n in (rng.integers(2 * PIECE, 4 * PIECE), rng.integers(1, 100), rng.integers(2 * PIECE, 3 * PIECE)):
        lows, highs = growing_slices(rng, n)
        parts.append((KINDS[kind](rng, n), lows + before, highs + before, np.full(n, len(parts))))
        before = rng.choice([0, sums := max(sums, highs[-1] + before)])  # a run over the sums of another one, or after them
    numbers, lows, highs, runs = map(np.concatenate, zip(*parts))
    got = rng.choice([0.0, 1.0]) * rng.normal(size=sums) * 10.0 ** rng.integers(-5, 9)
    wanted = got.copy()
    with np.errstate(all="ignore"):
        for number, low, high in zip(numbers, lows, highs):
            wanted[low:high] += number
    add_to_slices(numbers, lows, highs, runs, got)
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    assert np.array_equal(got[~np.isnan(got)].view(np.int64), wanted[~np.isnan(wanted)].view(np.int64))


def test_reach_of_a_jump():
    """Sums go on together until a number may take one of them to another power of two, or is too large to jump over."""
    places, chunks = (1, PIECE + 1), (1, PIECE // ordered_sums.CHUNK)
    changes = Changes(*(np.zeros(shape, dtype=np.int64) for shape in (ordered_sums.EXPONENTS, places, places, chunks, chunks)), ordered_sums.INVERSE_UNITS)

    def reach(sums, numbers, begin=0):
        bits = np.array(sums).view(np.int64)
        exponent = int(bits[0] >> ordered_sums.MANTISSA & ordered_sums.EXPONENTS)
        ordered_sums._find_changes(numbers, 0, exponent, changes)
        return ordered_sums._reach(begin, len(numbers), 0, bits.min(), bits.max(), changes)

    ones = np.ones(PIECE)
    assert reach([1e6, 1.04e6], ones) == PIECE
    assert reach([1e6, 2.0**20 - 500], ones) == 499 and reach([1e6, 2.0**20 - 500], ones, 100) == 599
    assert reach([2.0**19 + 700, 1e6], -ones) == 699
    assert reach([-1e6, -(2.0**20) + 500], -ones) == 499
    assert reach([1e6, 1.04e6], np.where(np.arange(PIECE) == 300, 2.0**19, 1.0)) == 300
    assert reach([1e6, 1.04e6], np.where(np.arange(PIECE) == 300, np.nan, 1.0)) == 300
