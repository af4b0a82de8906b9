"""Whether a plan that arrived as JSON is one that this version made: kernels look variables and masks up without a check of their own.

A plan travels as a column's name, in views and from a driver to workers. So it can be another version's, or anybody's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sparkcep import __version__
from sparkcep.errors import UNSUPPORTED, ClauseError

if TYPE_CHECKING:
    from sparkcep.plan.plan import Plan

FORMAT = 1  # raised when the same members come to mean something else
MADE_BY = f"sparkcep {__version__}"
MAX_VARIABLES = 62
MAX_PERMUTE = 30
_MAX_NUMBER = (1 << 31) - 1

_LEAVES = ("empty", "start", "end")
_GROUPS = ("cat", "alt", "and", "permute")
_MASKED = {"nav": 2, "cls": 2, "agg": 2, "by": 2, "rows": 1, "prior": 1, "isfirst": 1}  # where the mask stands in a condition or a leaf
_OFFSETS = {"nav": (3, 4), "cls": (3, 4), "off": (2,)}


def check_version(members: Mapping, known: set[str]) -> None:
    """Raises ClauseError, which names both versions, where a plan is not in this version's format."""
    if members.get("format") == FORMAT and set(members) == known:
        return
    made = members.get("made_by")
    maker = f"{made if isinstance(made, str) else 'an older sparkcep'} (format {members.get('format', 'without a number')})"
    raise ClauseError(
        "VERSION",
        f"a plan made by {maker[:80]} was given to {MADE_BY} (format {FORMAT}); the driver and its workers need the same version of sparkcep, "
        "and a view that an older one made must be created again",
        sqlstate=UNSUPPORTED,
    )


def check(plan: Plan) -> None:
    """Raises ClauseError for variables, masks, counts and offsets that no clause gives."""
    try:
        right = _is_right(plan)
    except (TypeError, ValueError, IndexError, AttributeError, RecursionError):  # another shape than a plan's
        right = False
    if not right:
        raise wrong("its variables, masks or counts are none that a clause gives")


def wrong(why: str) -> ClauseError:
    return ClauseError("ARGUMENT", f"the plan given to match_recognize was not made by the rewriter: {why}; write the clause, or its text as second argument")


def _is_right(plan: Plan) -> bool:
    count = len(plan.variables)
    if count > MAX_VARIABLES or not all(isinstance(name, str) for name in plan.variables):
        return False
    numbered = [v for v, _, _ in plan.letters] + [v for v, _ in plan.conditions] + [place[0] for place in plan.places]
    bits = [bit for _, bit, _ in plan.letters]
    trees = [tree for _, conjuncts in plan.conditions for tree in conjuncts] + [spec for _, spec in plan.leaves]
    windows = len(plan.windows)
    return (
        all(_is_number(v, 0, count) for v in numbered)
        and all(_is_number(bit, 0, MAX_VARIABLES) for bit in bits)
        and len(set(bits)) == len(bits)
        and len({v for v, _ in plan.conditions}) == len(plan.conditions)
        and isinstance(plan.skip[0], str)
        and _is_number(plan.skip[1], 0, 1 << count)
        and _is_pattern(plan.pattern, count, windows)
        and all(_is_expression(tree, count) for tree in trees)
        and (not plan.approx or _are_costs(plan.approx, count))
    )


def _is_number(value: object, low: int, below: int) -> bool:
    return type(value) is int and low <= value < below


def _is_pattern(tree: tuple, variables: int, windows: int) -> bool:
    kind, *rest = tree
    if kind in ("var", "not"):
        return len(rest) == 1 and _is_number(rest[0], 0, variables)
    if kind in _LEAVES:
        return not rest
    if kind in _GROUPS:
        return (kind != "permute" or len(rest) <= MAX_PERMUTE) and all(_is_pattern(item, variables, windows) for item in rest)
    if kind == "exclude":
        return len(rest) == 1 and _is_pattern(rest[0], variables, windows)
    if kind == "within":
        return len(rest) == 2 and _is_pattern(rest[0], variables, windows) and _is_number(rest[1], 1, windows)
    if kind == "repeat":
        item, low, high, greedy = rest
        bounds = _is_number(low, 0, _MAX_NUMBER) and (high is None or _is_number(high, low, _MAX_NUMBER))
        return bounds and isinstance(greedy, bool) and _is_pattern(item, variables, windows)
    return False


def _is_expression(tree: tuple, variables: int) -> bool:
    """Of conditions and of MEASURES: each mask is of variables that there are, each offset a number of rows."""
    kind = tree[0]
    if kind in _MASKED and not _is_number(tree[_MASKED[kind]], -1, 1 << variables):
        return False
    if not all(_is_number(tree[at], -_MAX_NUMBER - 1, _MAX_NUMBER + 1) for at in _OFFSETS.get(kind, ())):
        return False
    if kind == "pair":
        return all(_is_number(row[1], -1, 1 << variables) for row in tree[3])
    inner = tree[2:] if kind == "call" else tree[2:3] if kind == "prior" else ()
    return all(_is_expression(item, variables) for item in inner)


def _are_costs(members: tuple, variables: int) -> bool:
    _, scale, bound, missing, extra, violation = members
    return (
        _is_number(scale, 1, 1 << 63)
        and len(missing) == len(violation) == variables
        and all(_is_number(cost, 0, 1 << 63) for cost in (bound, extra, *missing, *violation))
    )
