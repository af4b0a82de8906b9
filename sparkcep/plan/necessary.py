"""Variables that every match holds: rows and partitions far from their rows are in no match.

A match that holds a row of A lies in a partition with a row that fulfils A's row-local condition and, under WINDOW, within the
window's size of that row ('High-Performance Row Pattern Recognition Using Joins', VLDB 2023, bounds its windows likewise).
"""

from __future__ import annotations

from itertools import product

from sparkcep.plan.prefilter import anchored, physical
from sparkcep.plan.window import MICROS, NUMBER

MAX_CHOICES = 16  # sets that an alternation is resolved into
MAX_CANDIDATES = 8  # that are compared


def necessary(pattern: tuple) -> tuple[frozenset[int], ...]:
    """Sets of variables; every match of a Plan's pattern maps a row to a variable of each. The smallest first."""
    return tuple(sorted(dict.fromkeys(_sets(pattern)), key=lambda s: (len(s), sorted(s))))


def candidates(pattern: tuple, letters: tuple, rows: str, approx: bool) -> tuple[tuple[tuple[int, ...], str], ...]:
    """(variables, SQL condition over the input) of the conditions that a row of every match fulfils; () where a partition without a
    match is in the result: its rows are told (WITH UNMATCHED ROWS) or a missing variable is forgiven (APPROX). Empty matches hold
    no variable, so a pattern that has them has no necessary one.

    ``letters``: a Plan's; a variable's row-local conjuncts hold for each of its rows, whatever the other conjuncts say.
    """
    if rows == "unmatched" or approx:
        return ()
    texts = {v: text for v, _, text in letters}
    found = [tuple(sorted(s)) for s in necessary(pattern) if all(v in texts for v in s)]
    return tuple((s, " OR ".join(f"({texts[v]})" for v in s)) for s in found[:MAX_CANDIDATES])


def bounded_by_window(pattern: tuple, windows: tuple, conditions: tuple, leaves: tuple, ordered_inputs: tuple, ranked: bool) -> bool:
    """Whether rows farther than WINDOW from every row of a necessary variable change nothing by being there. Members of a Plan;
    ``ranked``: windows slide, or positions are compared across partitions.

    A match spans less than W, so its rows and all between them, taken, ignored or negated ones, lie within W of its necessary row:
    no match and no row inside one is lost. Where a start row's window holds a necessary row, all of that window lies within W of it:
    the search sees the same rows, so preferment, contiguity and what SKIP TILL may ignore stay. Where it holds none, no match
    starts, before and after. What looks at rows by their place in the partition (PREV, NEXT, anchors, lag and lead, positions in
    MATCH_GRAPH) may look farther than W, and ROWS are counted, not measured: not then. Match numbers count matches, which all stay.
    """
    if not windows or windows[0][0] not in (MICROS, NUMBER) or ranked or ordered_inputs or anchored(pattern):
        return False
    if any(spec == ("graph",) for _, spec in leaves) or any(physical(t) for _, trees in conditions for t in trees):
        return False
    return not any(spec[0] in ("nav", "cls") and spec[4] != 0 for _, spec in leaves)


def _sets(pattern: tuple) -> list[frozenset[int]]:
    kind, parts = pattern[0], pattern[1:]
    if kind == "var":
        return [frozenset([pattern[1]])]
    if kind in ("cat", "permute", "and"):
        return [s for part in parts for s in _sets(part)]
    if kind in ("exclude", "within") or (kind == "repeat" and pattern[2] > 0):
        return _sets(pattern[1])
    if kind == "alt":
        branches = [_sets(part) for part in parts]
        shared = [s for s in branches[0] if all(s in b for b in branches[1:])]
        size = 1
        for branch in branches:
            size *= len(branch)
        # a row of one variable of each branch: one of them is there
        return shared + ([frozenset().union(*choice) for choice in product(*branches)] if size <= MAX_CHOICES else [])
    return []  # not, empty, start, end, what may be left out
