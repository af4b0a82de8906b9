"""Whether the rows of one key may be cut into overlapping slices of time that are searched by themselves.

A slice holds all rows of a stretch of the order key and, behind them, those less than WINDOW farther. A match spans less than
WINDOW, so the slice that owns its first row holds all of it, and all rows that its search may look at: a start row is searched
within its own window. What goes from match to match, counts matches or rows, or looks at rows before the match needs the whole
partition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from sparkcep.clause.tree import NEXT_ROW, OMIT_EMPTY, WITH_UNMATCHED
from sparkcep.plan.costs import ALL
from sparkcep.plan.facts import anchored, leads_with_negation, least, nullable, room
from sparkcep.plan.options import MICROS, NUMBER
from sparkcep.plan.plan import Plan
from sparkcep.plan.pruning import physical
from sparkcep.plan.records import ALL_ROWS, Condition, has, walk


def undivided(plan: Plan) -> str:
    """Why the partitions of a plan with WINDOW must stay whole; "" where they may be cut."""
    if plan.automaton is not None:
        return "an AUTOMATON tells the matches of a partition in the order of their last rows"
    if plan.changes is not None:
        return "rows of CHANGES IN come and go, and punctuations are for whole partitions"
    if plan.windows[0].kind not in (MICROS, NUMBER):
        return "WINDOW counts rows, and where a row is in its partition is known only there"
    if plan.skip.mode != NEXT_ROW:
        return "AFTER MATCH goes from match to match; with SKIP TO NEXT ROW each start row is searched by itself"
    if plan.rows == WITH_UNMATCHED:
        return "a row without a match is told once, whatever slices hold it"
    if nullable(plan.pattern) and plan.rows != OMIT_EMPTY:
        return "the pattern matches no row at all, and empty matches are told"
    if plan.counting or plan.graphing:
        return "MATCH_COUNT() and MATCH_GRAPH() put matches together by their last row, wherever they begin"
    if plan.budgeted:
        return "which candidates a BUDGET leaves out depends on all rows before"
    if plan.approximate is not None and plan.approximate.report != ALL:
        return "proxies and bundles are chosen among matches by their last row, wherever they begin"
    if anchored(plan.pattern):
        return "^ and $ are the partition's own first and last row"
    if leads_with_negation(plan.pattern):
        return "~ at the start of the pattern looks at rows before the match"
    if plan.approximate is not None and has(plan.pattern, "not"):
        return "~ looks at rows before the match where the variables before it are missing"
    if _numbered(plan):
        return "MATCH_NUMBER() counts the matches of the partition"
    if plan.ranking and plan.ranking.top and not plan.slide:
        return "TOP ranks the matches of whole partitions; with SLIDE those of each window"
    if plan.slide and (plan.ranking is None or plan.ranking.overall):
        return "TOP OVERALL ranks the matches of all windows together"
    if plan.slide and plan.order[0].descending:
        return "windows that SLIDE begin at their last row where ORDER BY is descending"
    if plan.ordered_inputs:
        return "a function of several rows in DEFINE is computed over the whole partition"
    return _neighbours(plan)


def _numbered(plan: Plan) -> bool:
    """Whether a condition or a measure reads MATCH_NUMBER(). A leaf that only orders matches of one window, or that no measure
    reads, does not count."""
    if any(has(tree, "mno") for condition in plan.conditions for tree in condition.trees):
        return True
    names = {leaf.name for leaf in plan.leaves if leaf.spec.kind == "mno"}
    texts = [column.text for column in (*plan.outputs, *plan.arrays, *plan.aggregates)] + list(plan.ranking.objectives if plan.ranking else ())
    return any(names & set(re.findall(r"\b__l\d+\b", text)) for text in texts)


def _neighbours(plan: Plan) -> str:
    """Whether PREV and NEXT stay inside the match, whose rows the slice holds with all between them: a variable with n rows of the
    match before it has n rows of the slice before it."""
    within = room(plan.pattern, len(plan.variables)) if plan.approximate is None else [(0, 0)] * len(plan.variables)  # any may be missing
    outside = "{} may look at a row outside the match, which another slice may hold"
    for condition in plan.conditions:
        if not all(_stays(tree, *within[condition.variable]) for tree in condition.trees):
            return outside.format(f"PREV or NEXT in the condition of {plan.variables[condition.variable]}")
    for _, spec in plan.leaves:
        if spec.kind in ("nav", "cls") and spec.physical:
            of = [w for v, w in enumerate(within) if spec.mask == ALL_ROWS or spec.mask >> v & 1]
            if not all(-before <= spec.physical <= after for before, after in of):
                return outside.format("PREV or NEXT in a measure")
    return ""


def _stays(tree: tuple, before: int, after: int) -> bool:
    """Whether a condition's own physical neighbours lie at most so many rows away; those of other rows of the match never count as
    near."""
    if tree[0] == "off":
        return -before <= tree.physical <= after
    if tree[0] == "call":
        return all(_stays(t, before, after) for t in tree[2:])
    if tree[0] == "checked":
        return _stays(tree.tree, before, after)
    return not physical(tree)


def behind(plan: Plan) -> int:
    """How many rows before the first of a match PREV may look at, where rows that no match to come has are gone."""
    found = [_farthest(tree) for condition in plan.conditions for tree in condition.trees]
    if plan.approximate is not None or plan.automaton is not None or plan.changes is not None:
        return max([0, *found, *(-spec.physical for _, spec in plan.leaves if spec.kind in ("nav", "cls"))])
    within = room(plan.pattern, len(plan.variables))
    found = [_before(tree, within[condition.variable][0]) for condition in plan.conditions for tree in condition.trees]
    return max([0, *found, behind_leaves(plan.pattern, len(plan.variables), [(spec.physical, spec.mask) for _, spec in plan.leaves if spec.kind in ("nav", "cls")])])


def behind_leaves(pattern: tuple, variables: int, looks: list[tuple[int, int]]) -> int:
    """The same of measures that look so many rows, negative ones back, from a row of the variables of a mask."""
    within = room(pattern, variables)
    found = [0]
    for physical_rows, mask in looks:
        of = [before for v, (before, _) in enumerate(within) if mask == ALL_ROWS or mask >> v & 1]
        found.append(-physical_rows - min(of, default=0))
    return max(found)


def _before(tree: tuple, before: int) -> int:
    """How many rows a condition may look at before the match, of a row that has so many of the match before it; from other rows
    of the match it may look as far as it says."""
    if tree[0] == "off":
        return -tree.physical - before
    if tree[0] == "call":
        return max([0, *(_before(part, before) for part in tree[2:])])
    if tree[0] == "checked":
        return _before(tree.tree, before)
    return _farthest(tree)


def _farthest(tree: tuple) -> int:
    return max([0, *(-part.physical for part in walk(tree) if part[0] in ("off", "nav", "cls"))])


def ahead(plan: Plan) -> int:
    """How many rows after the last row of a match NEXT may read. A match waits for so many rows.

    A row of the match counts for the rows that every match has after it: in ``A B`` NEXT(A.v) reads a row of the match.
    """
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
        # a row that hides a match, or that a run must not pass over, matters as soon as the next row is taken
        after = min(after, 1) if scattered or condition.variable in negated else after
        found.append(looks_ahead(pattern, condition, len(plan.variables)) - after)
    found += [spec.physical - _after(pattern, within, spec.which, spec.mask, spec.logical) for _, spec in plan.leaves if spec.kind == "nav"]
    return max(found)


def variables_ahead(plan: Plan) -> tuple[int, ...]:
    """How many rows after the candidate row the condition of each variable may read."""
    found = {condition.variable: looks_ahead(plan.pattern, condition, len(plan.variables)) for condition in plan.conditions}
    return tuple(found.get(v, 0) for v in range(len(plan.variables)))


def looks_ahead(pattern: tuple, condition: Condition, variables: int) -> int:
    """How many rows after the candidate row a condition may read, of which ``condition`` has the trees."""
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
    """How many rows at least the candidate row is after the FIRST or LAST row of a mask, but ``logical``."""
    own = mask == ALL_ROWS or mask >> variable & 1
    if which == "L":
        return logical + (0 if own else min((whole.apart.get((v, variable), 1) for v in range(variables) if mask >> v & 1), default=1))
    if mask == ALL_ROWS:
        return max(whole.before.get(variable, 0) - logical, 0)
    return 0 if own else min((whole.apart.get((v, variable), 1) for v in range(variables) if mask >> v & 1), default=1)


class _Around(NamedTuple):
    """Least numbers of a match's rows: ``before`` and ``after`` a row of each variable, and by how many a row of one variable is
    ``apart`` from a later row of another; ``rows`` of all."""

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
        """Of this and what follows it."""
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
    """How many rows of a match are at least after the FIRST or LAST row of a mask, but ``logical``."""
    if has(pattern, "and"):
        return 0
    if which == "F" and mask == ALL_ROWS:
        return max(least(pattern) - 1 - logical, 0)
    of = [after for v, (_, after) in enumerate(within) if mask == ALL_ROWS or mask >> v & 1]
    return min(of, default=0) + (logical if which == "L" else 0)


def _negated(pattern: tuple) -> set[int]:
    """The variables that stand after ``~``."""
    return {part[1] for part in walk(pattern) if part[0] == "not"}


def _farthest_ahead(tree: tuple) -> int:
    return max([0, *(row.physical for part in walk(tree) for row in (part.rows if part[0] == "pair" else (part,) if part[0] in ("off", "nav", "cls") else ()))])
