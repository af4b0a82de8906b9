"""Whether the rows of one key may be cut into overlapping slices of time that are searched by themselves.

A slice holds all rows of a stretch of the order key and, behind them, those less than WINDOW farther. A match spans less than WINDOW, so the
slice that owns its first row holds all of it, and all rows that its search may look at: a start row is searched within its own window. What
goes from match to match, counts matches or rows, or looks at rows before the match needs the whole partition.
"""

from __future__ import annotations

import re

from sparkcep.clause.tree import NEXT_ROW, OMIT_EMPTY, WITH_UNMATCHED
from sparkcep.plan.costs import ALL
from sparkcep.plan.plan import Plan
from sparkcep.plan.prefilter import anchored, nullable, physical
from sparkcep.plan.scope import ALL_ROWS
from sparkcep.plan.window import MICROS, NUMBER


def undivided(plan: Plan) -> str:
    """Why the partitions of a plan with WINDOW must stay whole; "" where they may be cut."""
    if plan.windows[0][0] not in (MICROS, NUMBER):
        return "WINDOW counts rows, and where a row is in its partition is known only there"
    if plan.skip[0] != NEXT_ROW:
        return "AFTER MATCH goes from match to match; with SKIP TO NEXT ROW each start row is searched by itself"
    if plan.rows == WITH_UNMATCHED:
        return "a row without a match is told once, whatever slices hold it"
    if nullable(plan.pattern) and plan.rows != OMIT_EMPTY:
        return "the pattern matches no row at all, and empty matches are told"
    if plan.counting or plan.graphing:
        return "MATCH_COUNT() and MATCH_GRAPH() put matches together by their last row, wherever they begin"
    if plan.approximate is not None and plan.approximate.report != ALL:
        return "proxies and bundles are chosen among matches by their last row, wherever they begin"
    if anchored(plan.pattern):
        return "^ and $ are the partition's own first and last row"
    if _leads_with_negation(plan.pattern):
        return "~ at the start of the pattern looks at rows before the match"
    if plan.approximate is not None and _has(plan.pattern, "not"):
        return "~ looks at rows before the match where the variables before it are missing"
    if _numbered(plan):
        return "MATCH_NUMBER() counts the matches of the partition"
    if plan.ranking and plan.ranking.top and not plan.slide:
        return "TOP ranks the matches of whole partitions; with SLIDE those of each window"
    if plan.slide and (plan.ranking is None or plan.ranking.overall):
        return "TOP OVERALL ranks the matches of all windows together"
    if plan.slide and plan.order[0][2]:
        return "windows that SLIDE begin at their last row where ORDER BY is descending"
    if plan.ordered_inputs:
        return "a function of several rows in DEFINE is computed over the whole partition"
    return _neighbours(plan)


def _numbered(plan: Plan) -> bool:
    """Whether a condition or a measure reads MATCH_NUMBER(). A leaf that only orders matches of one window, or that no measure reads, does not count."""
    if any(_has(tree, "mno") for _, trees in plan.conditions for tree in trees):
        return True
    names = {name for name, spec in plan.leaves if spec == ("mno",)}
    texts = [text for _, text in (*plan.outputs, *plan.arrays, *plan.aggregates)] + list(plan.ranking.objectives if plan.ranking else ())
    return any(names & set(re.findall(r"\b__l\d+\b", text)) for text in texts)


def _neighbours(plan: Plan) -> str:
    """Whether PREV and NEXT stay inside the match, whose rows the slice holds with all between them: a variable with n rows of the match
    before it has n rows of the slice before it."""
    within = room(plan.pattern, len(plan.variables)) if plan.approximate is None else [(0, 0)] * len(plan.variables)  # any may be missing
    outside = "{} may look at a row outside the match, which another slice may hold"
    for variable, trees in plan.conditions:
        if not all(_stays(tree, *within[variable]) for tree in trees):
            return outside.format(f"PREV or NEXT in the condition of {plan.variables[variable]}")
    for _, spec in plan.leaves:
        if spec[0] in ("nav", "cls") and spec[4] != 0:
            of = [w for v, w in enumerate(within) if spec[2] == ALL_ROWS or spec[2] >> v & 1]
            if not all(-before <= spec[4] <= after for before, after in of):
                return outside.format("PREV or NEXT in a measure")
    return ""


def _stays(tree: tuple, before: int, after: int) -> bool:
    """Whether a condition's own physical neighbours lie at most so many rows away; those of other rows of the match never count as near."""
    if tree[0] == "off":
        return -before <= tree[2] <= after
    if tree[0] == "call":
        return all(_stays(t, before, after) for t in tree[2:])
    return not physical(tree)


def room(pattern: tuple, variables: int) -> list[tuple[int, int]]:
    """For each variable of a Plan's pattern the least number of a match's rows (before, behind) one of its rows, or one that it negates."""
    found: dict[int, tuple[int, int]] = {}

    def visit(node: tuple, before: int, after: int) -> None:
        kind, parts = node[0], node[1:]
        if kind in ("var", "not"):
            known = found.get(node[1], (before, after))
            found[node[1]] = (min(before, known[0]), min(after, known[1]))
        elif kind == "cat":
            sizes = [least(part) for part in parts]
            for i, part in enumerate(parts):
                visit(part, before + sum(sizes[:i]), after + sum(sizes[i + 1 :]))
        elif kind in ("alt", "permute"):
            for part in parts:
                visit(part, before, after)
        elif kind in ("repeat", "exclude", "within"):
            visit(node[1], before, after)  # the first and the last repetition have no other before and behind
        elif kind == "and":
            for part in parts:
                visit(part, 0, 0)  # rows of the sides may come in any order

    visit(pattern, 0, 0)
    return [found.get(v, (0, 0)) for v in range(variables)]


def least(pattern: tuple) -> int:
    """The least number of rows of a match of a Plan's pattern."""
    kind, parts = pattern[0], pattern[1:]
    if kind == "var":
        return 1
    if kind in ("cat", "permute"):
        return sum(map(least, parts))
    if kind == "and":
        return max(map(least, parts))
    if kind == "alt":
        return min(map(least, parts))
    if kind == "repeat":
        return pattern[2] * least(pattern[1])
    return least(pattern[1]) if kind in ("exclude", "within") else 0


def _leads_with_negation(pattern: tuple) -> bool:
    """Whether ~ may have no row of the match before it."""
    if pattern[0] == "not":
        return True
    if pattern[0] == "cat":
        for part in pattern[1:]:
            if _leads_with_negation(part):
                return True
            if not nullable(part):
                return False
        return False
    return any(isinstance(part, tuple) and _leads_with_negation(part) for part in pattern[1:])


def _has(tree: tuple, kind: str) -> bool:
    return tree[:1] == (kind,) or any(isinstance(t, tuple) and _has(t, kind) for t in tree[1:])
