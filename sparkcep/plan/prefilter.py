"""Rows that cannot matter, found before any engine sees them: Spark filters them ahead of the exchange.

Under a SKIP TILL strategy a row that fulfils no variable's row-local condition is ignored wherever the search stands, so the
result is the same without it - unless something counts or looks at physical rows.
"""

from __future__ import annotations

from sparkcep.plan.window import ROWS


def ignorable(
    pattern: tuple, selection: tuple, windows: tuple, rows: str, conditions: tuple, leaves: tuple, ordered_inputs: tuple
) -> bool:
    """Whether a row that no variable of a match takes changes nothing by being there. Members of a Plan."""
    if selection[:1] not in (("NEXT",), ("ANY",)) or rows == "unmatched" or ordered_inputs:
        return False
    if any(window[0] == ROWS for window in windows) or nullable(pattern) or anchored(pattern):
        return False
    if any(spec == ("graph",) for _, spec in leaves):
        return False  # positions count rows
    trees = [tree for _, conjuncts in conditions for tree in conjuncts]
    return not any(map(physical, trees)) and not any(spec[0] in ("nav", "cls") and spec[4] != 0 for _, spec in leaves)


def prefilter(variables: tuple, letters: tuple) -> tuple[str, ...]:
    """SQL conditions of which a row must fulfil one to be needed, where rows are :func:`ignorable`; () where every row may be."""
    if {v for v, _, _ in letters} != set(range(len(variables))):
        return ()
    return tuple(text for _, _, text in letters)


def physical(tree: tuple) -> bool:
    """Whether a condition looks at physical neighbours."""
    kind = tree[0]
    if kind == "off":
        return True
    if kind == "nav":
        return tree[4] != 0
    if kind == "cls":
        return tree[4] != 0
    if kind == "pair":
        return True
    if kind == "prior":
        return physical(tree[2])
    return kind == "call" and any(map(physical, tree[2:]))


def anchored(pattern: tuple) -> bool:
    """Whether a pattern has ^ or $."""
    return pattern[0] in ("start", "end") or any(isinstance(t, tuple) and anchored(t) for t in pattern[1:])


def nullable(pattern: tuple) -> bool:
    """Whether a pattern may match no row at all."""
    kind = pattern[0]
    if kind == "var":
        return False
    if kind in ("cat", "permute", "and"):
        return all(map(nullable, pattern[1:]))
    if kind == "alt":
        return any(map(nullable, pattern[1:]))
    if kind == "repeat":
        return pattern[2] == 0 or nullable(pattern[1])
    if kind in ("exclude", "within"):
        return nullable(pattern[1])
    return True
