"""Interval arithmetic over scores: whether a score and all its parts are exact and inside their types.

Rankings use it to decide whether the engine's arithmetic equals Spark's. An interval is (low, high, bits): integers with the bits
of their type, or floating numbers with 0 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sparkcep.columns.types import Type, decimal_of

EXACT = 1 << 53  # smaller integers are exact in floating arithmetic
FINITE = 1e300  # smaller floating numbers are far from infinity
FLOATING = 0
CHOICES = {"least", "greatest"}
SUMS = {"+", "-", "neg", "abs", *CHOICES}  # operations that map integers to integers of the same unit

Interval = tuple[float, float, int]


def of_values(values: np.ndarray, bits: int) -> Interval:
    """Returns the interval of all finite values."""
    own = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    return (float(own.min()), float(own.max()), bits) if len(own) else (0.0, 0.0, bits)


def inside(interval: Interval) -> bool:
    """Returns whether integers are exact and fit their type, or floating numbers are finite."""
    low, high, bits = interval
    size = max(abs(low), abs(high))
    if bits == FLOATING:
        return size < FINITE
    return size < EXACT and fits(interval)


def fits(interval: Interval) -> bool:
    """Returns whether integers fit their type."""
    low, high, bits = interval
    return -(2.0 ** (bits - 1)) <= low and high < 2.0 ** (bits - 1)


def of_tree(tree: tuple, leaves: Sequence[Interval | None]) -> Interval | None:
    """Returns the interval of a score from those of its leaves. None if the score or one of its parts is not ``inside``."""
    if tree[0] == "lit":
        return tree[1], tree[1], 32
    if tree[0] == "leaf":
        found = leaves[tree[1]]
        assert found is not None
        return found if inside(found) else None
    parts = [of_tree(operand, leaves) for operand in tree[1:]]
    if None in parts:
        return None
    known = [part for part in parts if part is not None]
    if tree[0] == "/" and known[1][0] <= 0 <= known[1][1]:
        return None
    bits = FLOATING if tree[0] in ("/", "sqrt") or any(b == FLOATING for *_, b in known) else max(b for *_, b in known)
    whole = (*_range(tree[0], known), bits)
    return whole if inside(whole) else None


def _range(operation: str, parts: list[Interval]) -> tuple[float, float]:
    low, high, _ = parts[0]
    if operation == "neg":
        return -high, -low
    if operation == "abs":
        return 0.0, max(abs(low), abs(high))
    if operation == "sqrt":
        return 0.0, math.sqrt(max(high, 0.0))
    if operation == "/":
        ends = [a / b for a in (low, high) for b in parts[1][:2]]
        return min(ends), max(ends)
    other_low, other_high, _ = parts[1]
    if operation == "+":
        return low + other_low, high + other_high
    if operation == "-":
        return low - other_high, high - other_low
    if operation == "*":
        ends = [a * b for a in (low, high) for b in (other_low, other_high)]
        return min(ends), max(ends)
    choose = min if operation == "least" else max
    return choose(low, other_low), choose(high, other_high)


def operations(tree: tuple) -> set[str]:
    """Returns the names of a tree's operations, with ``lit`` if it has literals."""
    if tree[0] == "leaf":
        return set()
    return {tree[0]}.union(*(operations(operand) for operand in tree[1:] if tree[0] != "lit"))


def keeps_scale(types: list[Type]) -> bool:
    """Returns whether sums of numbers of these types keep every decimal place: Spark cuts sums of more than 38 digits."""
    widened = [decimal_of(t) for t in types]
    scale = max(t.scale for t in widened)
    return max(t.precision - t.scale for t in widened) + scale + len(types) <= 38
