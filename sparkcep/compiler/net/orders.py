"""The orders in which a pattern of single variables takes its rows (CPR, section 3.2: a stratum for each variable).

A sequence has one order. A conjunction has several: its sides' variables in any interleaving, and rows that serve two sides at
once. Each order is a chain of strata that can be joined by itself, and a match has just one of them.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from sparkcep.compiler.pattern.program import EXCLUDED
from sparkcep.plan.facts import of_single_rows, unbounded, variables_in
from sparkcep.plan.records import walk

MOST = 75  # orders of a pattern: all of four variables that are joined by &


class Arrangement(NamedTuple):
    """``variables`` in the order of their rows, with ``labels``; ``same``: whether the row is that of the variable before;
    ``inside``: (window, place of the first variable, place of the last one) of the groups that have windows."""

    variables: tuple[int, ...]
    labels: tuple[int, ...]
    same: tuple[bool, ...]
    inside: tuple[tuple[int, int, int], ...]


def arrangements(pattern: tuple) -> tuple[Arrangement, ...]:
    """All orders of a pattern without the windows that bound it as a whole; () where it is not of single variables, each of which
    every match takes a row of, or has too many orders."""
    pattern = unbounded(pattern)[0]
    if not of_single_rows(pattern):
        return ()
    groups = [(part.window, variables_in(part)) for part in walk(pattern) if part[0] == "within"]
    hidden = 0
    for part in walk(pattern):
        hidden |= variables_in(part) if part[0] == "exclude" else 0
    found = _orders(pattern)
    return tuple(_arrangement(steps, groups, hidden) for steps in found or ())


def _arrangement(steps: tuple[tuple[int, ...], ...], groups: list[tuple[int, int]], hidden: int) -> Arrangement:
    order = tuple(v for step in steps for v in sorted(step))
    labels = tuple(v | (EXCLUDED if hidden >> v & 1 else 0) for v in order)
    same = tuple(i > 0 for step in steps for i in range(len(step)))
    places = [(window, [at for at, v in enumerate(order) if mask >> v & 1]) for window, mask in groups]
    return Arrangement(order, labels, same, tuple((window, at[0], at[-1]) for window, at in places if at[0] < at[-1]))


def _orders(tree: tuple) -> list[tuple[tuple[int, ...], ...]] | None:
    """The orders of a part: steps of variables that share a row; None where they are too many."""
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
    """All ways to put the steps of two sides into one order, some of them at one row."""
    if not a or not b:
        return [a + b]
    return [
        *((a[0], *rest) for rest in _merged(a[1:], b)),
        *((b[0], *rest) for rest in _merged(a, b[1:])),
        *((a[0] + b[0], *rest) for rest in _merged(a[1:], b[1:])),
    ]
