"""Lookback and lookahead of a clause: the rows outside of a match that PREV and NEXT may read.

CLASSIFIER() of any row outside of the match is NULL, so it reads none. Retention and emission over streams depend on these numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sparkcep.plan.facts import least, room
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ALL_ROWS, Condition, has, walk


class Reach(NamedTuple):
    """Numbers of rows outside of a match: ``back`` before its first row, ``ahead`` after its last row."""

    back: int
    ahead: int

    @staticmethod
    def of(plan: Plan) -> Reach:
        """The rows that PREV and NEXT may read. A match waits for the rows ahead.

        Rows that every match has before or after a row reduce these numbers: in ``A B``, NEXT(A.v) reads a row of the match.
        """
        return Reach(_back(plan), _ahead(plan))

    @staticmethod
    def of_measures(plan: Plan) -> Reach:
        """The rows that PREV and NEXT in measures reach from the row of a match with one row.

        A step of CLASSIFIER() counts, because it asks whether the row there belongs to the match.
        """
        found = [spec.physical for _, spec in plan.leaves if spec.kind in ("nav", "cls")]
        return Reach(max([0, *(-rows for rows in found)]), max([0, *found]))


def _back(plan: Plan) -> int:
    looks = [(spec.physical, spec.mask) for _, spec in plan.leaves if spec.kind == "nav"]
    if plan.approximate is not None or plan.automaton is not None or plan.changes is not None:
        found = [_farthest(tree) for condition in plan.conditions for tree in condition.trees]
        return max([0, *found, *(-rows for rows, _ in looks)])  # a match may lack any variable
    within = room(plan.pattern, len(plan.variables))
    found = [_before(tree, within[condition.variable][0]) for condition in plan.conditions for tree in condition.trees]
    return max([0, *found, back_of_measures(plan.pattern, len(plan.variables), looks)])


def back_of_measures(pattern: tuple, variables: int, looks: list[tuple[int, int]]) -> int:
    """The number of rows before a match that measures may read.

    Args:
        pattern: the pattern.
        variables: number of variables.
        looks: for each measure, the rows that it steps ahead (negative: back), and the mask of the variables whose rows it starts
            from.
    """
    within = room(pattern, variables)
    found = [0]
    for physical_rows, mask in looks:
        of = [before for v, (before, _) in enumerate(within) if mask == ALL_ROWS or mask >> v & 1]
        found.append(-physical_rows - min(of, default=0))
    return max(found)


def _before(tree: tuple, before: int) -> int:
    """How many rows before the match a condition may read, for a candidate row with ``before`` rows of the match before it.

    From other rows of the match, the condition counts with its full offsets.
    """
    if tree[0] == "off":
        return -tree.physical - before
    if tree[0] == "call":
        return max([0, *(_before(part, before) for part in tree[2:])])
    if tree[0] == "checked":
        return _before(tree.tree, before)
    return _farthest(tree)


def _farthest(tree: tuple) -> int:
    return max([0, *(-part.physical for part in walk(tree) if part[0] in ("off", "nav"))])


def _ahead(plan: Plan) -> int:
    pattern = plan.pattern
    farthest = max([0, *(_farthest_ahead(tree) for condition in plan.conditions for tree in condition.trees)])
    farthest = max([farthest, *(spec.physical for _, spec in plan.leaves if spec.kind == "nav")])
    if not farthest or plan.approximate is not None or plan.automaton is not None or plan.changes is not None:
        return farthest  # a match may lack any variable
    within, negated = room(pattern, len(plan.variables)), _negated(pattern)
    scattered = plan.selection is not None and plan.selection.strategy == "NEXT"
    found = [0]
    for condition in plan.conditions:
        after = within[condition.variable][1]
        # A row that hides a match, or that a run must not skip, matters as soon as the next row is taken.
        after = min(after, 1) if scattered or condition.variable in negated else after
        found.append(looks_ahead(pattern, condition, len(plan.variables)) - after)
        if condition.variable in negated or has(pattern, "and"):  # FIRST and LAST of other variables may be rows after the candidate
            navigations = (part for tree in condition.trees for part in walk(tree) if part[0] in ("nav", "cls") and part.which != "cur")
            found += [part.physical - _after(pattern, within, part.which, part.mask, part.logical) for part in navigations if part.mask != 1 << condition.variable]
    if plan.unfinished is not None:  # an unfinished match may end with any of its rows
        return max([0, *found, *(spec.physical for _, spec in plan.leaves if spec.kind == "nav")])
    found += [spec.physical - _after(pattern, within, spec.which, spec.mask, spec.logical) for _, spec in plan.leaves if spec.kind == "nav"]
    return max(found)


def variables_ahead(plan: Plan) -> tuple[int, ...]:
    """How many rows after the candidate row the condition of each variable may read."""
    found = {condition.variable: looks_ahead(plan.pattern, condition, len(plan.variables)) for condition in plan.conditions}
    return tuple(found.get(v, 0) for v in range(len(plan.variables)))


def looks_ahead(pattern: tuple, condition: Condition, variables: int) -> int:
    """How many rows after the candidate row a condition may read. ``variables``: number of variables."""
    whole = _Around.of(pattern) if not has(pattern, "and") and condition.variable not in _negated(pattern) else None
    found = [0]
    for part in (part for tree in condition.trees for part in walk(tree)):
        if part[0] == "pair":
            found += [row.physical for row in part.rows]
        elif part[0] == "off":
            found.append(part.physical)
        elif part[0] in ("nav", "cls") and part.which != "cur":
            back = _back_to(whole, part.which, part.mask, part.logical, condition.variable, variables) if whole else 0
            found.append(part.physical - back)
    return max(found)


def _back_to(whole: _Around, which: str, mask: int, logical: int, variable: int, variables: int) -> int:
    """The least number of rows from the FIRST or LAST row of a mask, but ``logical``, to the candidate row."""
    own = mask == ALL_ROWS or mask >> variable & 1
    apart = 0 if own else min((whole.apart.get((v, variable), 1) for v in range(variables) if mask >> v & 1), default=1)
    if which == "F" and mask == ALL_ROWS:
        return max(whole.before.get(variable, 0) - logical, 0)
    return apart + (logical if which == "L" else 0)


class _Around(NamedTuple):
    """Least numbers of rows of a match.

    Attributes:
        before: for each variable, rows before one of its rows.
        after: for each variable, rows after one of its rows.
        apart: for each pair of variables, rows from a row of the first to a later row of the second.
        rows: rows of the whole part.
    """

    before: dict[int, int]
    after: dict[int, int]
    apart: dict[tuple[int, int], int]
    rows: int

    @staticmethod
    def of(pattern: tuple) -> _Around:
        kind, parts = pattern[0], [_Around.of(part) for part in pattern if isinstance(part, tuple)]
        if kind == "var":
            return _Around({pattern[1]: 0}, {pattern[1]: 0}, {}, 1)
        if kind in ("not", "empty", "start", "end") or not parts:
            return _Around({}, {}, {}, 0)
        if kind == "alt":
            return _Around(_least(p.before for p in parts), _least(p.after for p in parts), _least(p.apart for p in parts), min(p.rows for p in parts))
        if kind == "permute":  # in any order
            names = {v for p in parts for v in p.before}
            return _Around(dict.fromkeys(names, 0), dict.fromkeys(names, 0), {(u, v): 1 for u in names for v in names}, sum(p.rows for p in parts))
        found = parts[0]
        for part in parts[1:]:
            found = found.then(part)
        if kind == "repeat":
            again = found.then(found) if pattern.high is None or pattern.high > 1 else found
            return _Around(found.before, found.after, again.apart, found.rows * pattern.low)
        return found

    def then(self, other: _Around) -> _Around:
        """The numbers for this part followed by another one."""
        across = {(u, v): after + before + 1 for u, after in self.after.items() for v, before in other.before.items()}
        before = _least((self.before, {v: n + self.rows for v, n in other.before.items()}))
        after = _least(({v: n + other.rows for v, n in self.after.items()}, other.after))
        return _Around(before, after, _least((self.apart, other.apart, across)), self.rows + other.rows)


def _least(found: Iterable[dict]) -> dict:
    """The least number of each key."""
    out: dict = {}
    for some in found:
        for key, number in some.items():
            out[key] = min(number, out.get(key, number))
    return out


def _after(pattern: tuple, within: list[tuple[int, int]], which: str, mask: int, logical: int) -> int:
    """The least number of rows of a match after the FIRST or LAST row of a mask, but ``logical``."""
    if has(pattern, "and"):
        return 0
    if which == "F" and mask == ALL_ROWS:
        return max(least(pattern) - 1 - logical, 0)
    of = [after for v, (_, after) in enumerate(within) if mask == ALL_ROWS or mask >> v & 1]
    return min(of, default=0) + (logical if which == "L" else 0)


def _negated(pattern: tuple) -> set[int]:
    """The variables under ``~``."""
    return {part[1] for part in walk(pattern) if part[0] == "not"}


def _farthest_ahead(tree: tuple) -> int:
    return max([0, *(row.physical for part in walk(tree) for row in (part.rows if part[0] == "pair" else (part,) if part[0] in ("off", "nav", "cls") else ()))])
