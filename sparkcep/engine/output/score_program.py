"""Trees of scores over numbers, arrays and intervals, and the postfix programs of :mod:`sparkcep.kernels.topk.score_program`.

Rankings use them. Intervals show whether a score and all its parts are exact and inside their types, so that the engine's
arithmetic equals Spark's. An interval is (low, high, bits): integers with the bits of their type, or floating numbers with 0 bits.

A tree is ``("leaf", number)``, ``("lit", number)``, or an operation with its operands, as
:mod:`sparkcep.plan.extend.score` writes it. All operations are exact in IEEE arithmetic or rounded correctly, so the bits of a
score equal Spark's.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from sparkcep.columns.types import INT_BITS, Type, adjusted, bounded, decimal_of, wider
from sparkcep.kernels.topk import score_program as kernels

EXACT = 1 << 53  # smaller integers are exact in floating arithmetic
FINITE = 1e300  # smaller floating numbers are far from infinity
FLOATING = 0
CHOICES = {"least", "greatest"}
SUMS = {"+", "-", "neg", "abs", *CHOICES}  # operations that map integers to integers of the same unit

Interval = tuple[float, float, int]
Value = TypeVar("Value", float, np.ndarray)
_CODES = {
    "+": kernels.ADD, "-": kernels.SUBTRACT, "*": kernels.MULTIPLY, "/": kernels.DIVIDE, "neg": kernels.NEGATE, "abs": kernels.ABSOLUTE,
    "sqrt": kernels.ROOT, "least": kernels.LEAST, "greatest": kernels.GREATEST,
}  # fmt: skip
NUMBERS: Mapping[str, Callable[..., float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "neg": operator.neg, "sqrt": math.sqrt, "least": min, "greatest": max,
}  # fmt: skip
ARRAYS: Mapping[str, Callable[..., np.ndarray]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "least": np.minimum, "greatest": np.maximum,
}  # fmt: skip


def evaluated(tree: tuple, leaves: Sequence[Value], functions: Mapping[str, Callable[..., Value]]) -> Value:
    """Returns the value of a tree over the values of its leaves. ``functions`` are :data:`NUMBERS` or :data:`ARRAYS`."""
    if tree[0] == "leaf":
        return leaves[tree[1]]
    if tree[0] == "lit":
        return tree[1]
    return functions[tree[0]](*(evaluated(operand, leaves, functions) for operand in tree[1:]))


def operations(tree: tuple) -> set[str]:
    """Returns the names of a tree's operations, with ``lit`` if it has literals."""
    if tree[0] == "leaf":
        return set()
    return {tree[0]}.union(*(operations(operand) for operand in tree[1:] if tree[0] != "lit"))


def program_of(tree: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Returns the code and the literals of a tree's program."""
    code: list[tuple[int, int]] = []
    literals: list[float] = []

    def visit(node: tuple) -> None:
        if node[0] == "leaf":
            code.append((kernels.LEAF, node[1]))
        elif node[0] == "lit":
            code.append((kernels.LITERAL, len(literals)))
            literals.append(float(node[1]))
        else:
            for operand in node[1:]:
                visit(operand)
            code.append((_CODES[node[0]], 0))

    visit(tree)
    return np.array(code, dtype=np.int64), np.array(literals, dtype=np.float64)


# -- intervals --------------------------------------------------------------------------------------------------


def interval_of_values(values: np.ndarray, bits: int) -> Interval:
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


def interval_of(tree: tuple, leaves: Sequence[Interval | None], rises: bool | None = True) -> Interval | None:
    """Returns the interval of a score from those of its leaves. None if the score or one of its parts is not ``inside``.

    It is also None if a root of a negative number may make the score better. Such a root is NaN, which ranks last: the score
    ``-sqrt(x)`` rises as x falls, but only to 0. For ``least`` and ``greatest`` NaN is the greatest number: ``least(NaN, 5)`` is 5.

    Args:
        tree: the score, or a part of it.
        leaves: the intervals of the leaves.
        rises: whether the score rises with this part, and is NaN if the part is; None if that depends on other parts.
    """
    if tree[0] == "lit":
        return tree[1], tree[1], 32
    if tree[0] == "leaf":
        found = leaves[tree[1]]
        assert found is not None
        return found if inside(found) else None
    directions = _directions(tree, rises)
    parts = [part for operand, direction in zip(tree[1:], directions, strict=True) if (part := interval_of(operand, leaves, direction)) is not None]
    if len(parts) < len(tree) - 1 or (tree[0] == "/" and parts[1][0] <= 0 <= parts[1][1]):
        return None
    if tree[0] == "sqrt" and not rises and parts[0][0] < 0:
        return None
    bits = FLOATING if tree[0] in ("/", "sqrt") or any(b == FLOATING for *_, b in parts) else max(b for *_, b in parts)
    low, high, _ = parts[0]
    if tree[0] == "abs":
        ends = [0.0, abs(low), abs(high)]
    elif tree[0] == "sqrt":
        ends = [0.0, math.sqrt(max(high, 0.0))]
    else:  # monotone in each operand, so the ends of the operands make those of the result
        ends = [NUMBERS[tree[0]](*operands) for operands in itertools.product(*(part[:2] for part in parts))]
    whole = (min(ends), max(ends), bits)
    return whole if inside(whole) else None


def _directions(tree: tuple, rises: bool | None) -> list[bool | None]:
    """Returns whether the score rises with each operand, see :func:`interval_of`."""
    falls = None if rises is None else not rises
    if tree[0] == "neg":
        return [falls]
    if tree[0] == "-":
        return [rises, falls]
    return [None if tree[0] in ("*", "/", "abs", *CHOICES) else rises] * (len(tree) - 1)


def keeps_scale(types: list[Type]) -> bool:
    """Returns whether sums of numbers of these types keep every decimal place: Spark cuts sums of more than 38 digits."""
    widened = [decimal_of(t) for t in types]
    scale = max(t.scale for t in widened)
    return max(t.precision - t.scale for t in widened) + scale + len(types) <= 38


def sum_type(a: Type, b: Type, precision_loss: bool) -> Type:
    """Returns Spark's type of a sum of two integers or decimals.

    With ``precision_loss`` a sum beyond 38 digits loses decimal places, but keeps six.
    """
    if a.is_integer and b.is_integer:
        return max(a, b, key=lambda t: INT_BITS[t.kind])
    a, b = decimal_of(a), decimal_of(b)
    digits, scale = max(a.precision - a.scale, b.precision - b.scale) + 1, max(a.scale, b.scale)
    return (adjusted if precision_loss else bounded)(digits + scale, scale)


def common_type(a: Type, b: Type) -> Type:
    """Returns Spark's type of ``coalesce`` of two integers or decimals."""
    return max(a, b, key=lambda t: INT_BITS[t.kind]) if a.is_integer and b.is_integer else wider(decimal_of(a), decimal_of(b))
