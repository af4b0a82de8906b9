"""Row orders of a pattern of single variables (CPR, section 3.2: a stratum for each variable). The join of rows (SEQUENCES) follows
each order.

A sequence has one order. A conjunction has several: all interleavings of its sides' variables, and rows that serve two sides at
once. Each order is a chain of strata that can be joined separately. A match belongs to exactly one order.

``PATTERN (A B & C)`` has five orders: ``A B C``, ``A C B``, ``C A B``, and two with a shared row, ``(A C) B`` and ``A (B C)``.
"""

from __future__ import annotations

from functools import reduce
from itertools import product
from operator import or_
from typing import NamedTuple

from sparkcep.compiler.pattern.program import EXCLUDED
from sparkcep.plan.facts import of_single_rows, unbounded, variables_in
from sparkcep.plan.records import walk

MOST = 75  # most orders of a pattern; four variables joined by & have this many


class Arrangement(NamedTuple):
    """One order of a pattern's variables.

    Attributes:
        variables: the variables in the order of their rows.
        labels: the label of each variable's row.
        same: for each variable, whether its row is also the row of the variable before it.
        inside: (window, place of the first variable, place of the last one) of each group with a window.
    """

    variables: tuple[int, ...]
    labels: tuple[int, ...]
    same: tuple[bool, ...]
    inside: tuple[tuple[int, int, int], ...]


def arrangements(pattern: tuple) -> tuple[Arrangement, ...]:
    """All orders of a pattern, without the windows that bound it as a whole.

    Returns () if there are more than ``MOST`` orders, or if a match need not take exactly one row of every variable.
    """
    pattern = unbounded(pattern)[0]
    if not of_single_rows(pattern):
        return ()
    groups = [(part.window, variables_in(part)) for part in walk(pattern) if part[0] == "within"]
    hidden = reduce(or_, (variables_in(part) for part in walk(pattern) if part[0] == "exclude"), 0)
    found = _orders(pattern)
    return tuple(_arrangement(steps, groups, hidden) for steps in found or ())


def _arrangement(steps: tuple[tuple[int, ...], ...], groups: list[tuple[int, int]], hidden: int) -> Arrangement:
    order = tuple(v for step in steps for v in sorted(step))
    labels = tuple(v | (EXCLUDED if hidden >> v & 1 else 0) for v in order)
    same = tuple(i > 0 for step in steps for i in range(len(step)))
    places = [(window, [at for at, v in enumerate(order) if mask >> v & 1]) for window, mask in groups]
    return Arrangement(order, labels, same, tuple((window, at[0], at[-1]) for window, at in places if at[0] < at[-1]))


def _orders(tree: tuple) -> list[tuple[tuple[int, ...], ...]] | None:
    """The orders of a part as steps of variables that share a row. None if there are too many."""
    if tree[0] == "var":
        return [((tree[1],),)]
    parts = [_orders(part) for part in tree if isinstance(part, tuple)]
    if any(part is None for part in parts):
        return None
    found: list[tuple[tuple[int, ...], ...]] = [()]
    for part in parts:
        if tree[0] == "and":
            found = [merged for a, b in product(found, part) for merged in _merged(a, b)] if found != [()] else list(part)
        else:
            found = [a + b for a, b in product(found, part)]
        if len(found) > MOST:
            return None
    return found


def _merged(a: tuple, b: tuple) -> list[tuple]:
    """All ways to interleave the steps of two sides, including those that merge two steps into one row."""
    if not a or not b:
        return [a + b]
    return [
        *((a[0], *rest) for rest in _merged(a[1:], b)),
        *((b[0], *rest) for rest in _merged(a, b[1:])),
        *((a[0] + b[0], *rest) for rest in _merged(a[1:], b[1:])),
    ]
