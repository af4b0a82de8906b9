"""Time slicing: decides whether the rows of one key may be cut into overlapping slices that are searched separately.

A slice holds all rows of a stretch of the order key, plus the rows after it that are less than WINDOW away. A match spans less than
WINDOW. So the slice that owns its first row holds the whole match and all rows that its search may read, because a start row is
searched within its own window. Anything that depends on other matches, counts matches or rows, or reads rows before the match needs
the whole partition. ``sql/prefilter/slices`` does the cutting.
"""

from __future__ import annotations

import re

from sparkcep.clause.tree import NEXT_ROW, OMIT_EMPTY, WITH_UNMATCHED
from sparkcep.plan.extend.approx import ALL
from sparkcep.plan.facts import anchored, leads_with_negation, nullable, room
from sparkcep.plan.options import MICROS, NUMBER
from sparkcep.plan.plan import Plan
from sparkcep.plan.prune.pruning import drawn, physical
from sparkcep.plan.records import ALL_ROWS, has


def undivided(plan: Plan) -> str:
    """Why the partitions of a plan with WINDOW must stay whole, "" if they may be cut."""
    if plan.automaton is not None:
        return "an AUTOMATON reports the matches of a partition in the order of their last rows"
    if plan.unfinished is not None:
        return "an unfinished match may hide later ones, and the latest time is that of the whole input"
    if plan.changes is not None:
        return "rows of CHANGES IN are inserted and retracted, and punctuations are for whole partitions"
    if plan.windows[0].kind not in (MICROS, NUMBER):
        return "WINDOW counts rows, and the position of a row is known only in the whole partition"
    if plan.skip.mode != NEXT_ROW:
        return "AFTER MATCH depends on the previous match; with SKIP TO NEXT ROW each start row is searched independently"
    if plan.rows == WITH_UNMATCHED:
        return "an unmatched row is returned once, even if several slices hold it"
    if nullable(plan.pattern) and plan.rows != OMIT_EMPTY:
        return "the pattern matches the empty sequence, and empty matches are returned"
    if plan.counting or plan.graphing:
        return "MATCH_COUNT() and MATCH_GRAPH() group matches by their last row, regardless of their first row"
    if plan.budgeted:
        return "which candidates a BUDGET leaves out depends on all rows before"
    if plan.approximate is not None and plan.approximate.report != ALL:
        return "proxies and bundles are chosen among matches by their last row, regardless of their first row"
    if anchored(plan.pattern):
        return "^ and $ are the partition's own first and last row"
    if leads_with_negation(plan.pattern):
        return "~ at the start of the pattern reads rows before the match"
    if plan.approximate is not None and has(plan.pattern, "not"):
        return "~ reads rows before the match if the variables before it are missing"
    if drawn(plan):
        return "a row of two slices would have two random numbers"
    if _numbered(plan):
        return "MATCH_NUMBER() counts the matches of the partition"
    if plan.ranking and plan.ranking.top and not plan.slide:
        return "TOP ranks the matches of whole partitions; with SLIDE it ranks the matches of each window"
    if plan.slide and (plan.ranking is None or plan.ranking.overall):
        return "TOP OVERALL ranks the matches of all windows together"
    if plan.ranking is not None and plan.ranking.changes is not None:
        return "REPORT CHANGES compares the list of each window with that of the window before"
    if plan.slide and plan.order[0].descending:
        return "windows of SLIDE begin at their last row if ORDER BY descends"
    if plan.ordered_inputs:
        return "a function of several rows in DEFINE is computed over the whole partition"
    return _neighbours(plan)


def _numbered(plan: Plan) -> bool:
    """Whether a condition or a measure reads MATCH_NUMBER().

    A leaf that no measure reads, or that only orders the matches of one window, does not count.
    """
    if any(has(tree, "mno") for condition in plan.conditions for tree in condition.trees):
        return True
    names = {leaf.name for leaf in plan.leaves if leaf.spec.kind == "mno"}
    texts = [column.text for column in (*plan.outputs, *plan.arrays, *plan.aggregates, *plan.over_arrays)] + list(plan.ranking.objectives if plan.ranking else ())
    return any(names & set(re.findall(r"\b__l\d+\b", text)) for text in texts)


def _neighbours(plan: Plan) -> str:
    """Why PREV or NEXT may leave the match, "" if they stay inside it.

    The slice holds a match with all rows in between. If a variable has n rows of the match before it, the slice has n rows before
    it.
    """
    within = room(plan.pattern, len(plan.variables)) if plan.approximate is None else [(0, 0)] * len(plan.variables)  # any variable may be missing
    outside = "{} may read a row outside the match, which another slice may hold"
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
    """Whether a condition's own physical neighbours lie at most ``before`` rows back and ``after`` rows ahead.

    Neighbours of other rows of the match never count as near.
    """
    if tree[0] == "off":
        return -before <= tree.physical <= after
    if tree[0] == "call":
        return all(_stays(t, before, after) for t in tree[2:])
    if tree[0] == "checked":
        return _stays(tree.tree, before, after)
    return not physical(tree)
