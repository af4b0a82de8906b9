"""Takes conditions apart into comparisons, and finds the smallest sets of comparisons whose change makes a condition true.

AND, OR, NOT, CASE and IF are taken apart. Everything below them is a comparison. Truth values are never computed here: Spark or the
engine computes those of the comparisons, and :func:`combined` joins them by SQL's three-valued logic.

Example: ``x = 1 AND (y > 2 OR NOT z)`` has the comparisons 0 (``x = 1``), 1 (``y > 2``) and 2 (``z``), and the logic
``("and", ("comparison", 0), ("or", ("comparison", 1), ("not", ("comparison", 2))))``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from sparkcep.clause.expressions import Expr
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.scope import PRIOR

Logic: TypeAlias = tuple
Truth: TypeAlias = "bool | None"
Change: TypeAlias = tuple[int, bool]  # a comparison, and the truth that it gets

MOST_SETS = 64
_TRUE, _FALSE = frozenset([True]), frozenset([False])
_NOT_TRUE, _NOT_FALSE = frozenset([False, None]), frozenset([True, None])
_TURNED = {_TRUE: _FALSE, _FALSE: _TRUE, _NOT_TRUE: _NOT_FALSE, _NOT_FALSE: _NOT_TRUE}


def taken_apart(condition: Expr, number: Callable[[Expr, bool], int], *, top: bool = True) -> Logic:
    """The logic of a condition.

    Args:
        condition: the condition, or a part of it.
        number: registers a comparison and returns its number. It also gets whether the comparison is an operand of the top AND.
        top: whether ``condition`` is an operand of the top AND.
    """
    expr = condition.bare()
    if top and expr.op != "and" and any(node.op == "call" and node.value == PRIOR for node in expr.walk()):
        return ("comparison", number(expr, True))  # the first iteration counts for the whole operand
    if expr.op in ("and", "or"):
        return (expr.op, *(taken_apart(part, number, top=top and expr.op == "and") for part in expr.args))
    if expr.op == "un" and expr.value == "NOT":
        return ("not", taken_apart(expr.args[0], number, top=False))
    if expr.op == "case" and not str(expr.value).startswith("o"):
        parts = [taken_apart(part, number, top=False) for part in expr.args]
        return ("choice", *parts, *([] if str(expr.value).endswith("e") else [("constant", None)]))
    if expr.op == "call" and expr.value == "IF" and len(expr.args) == 3 and not expr.flags:
        return ("choice", *(taken_apart(part, number, top=False) for part in expr.args))
    return ("comparison", number(expr, top))


def numbers(logic: Logic) -> Iterator[int]:
    """The comparisons of a condition, in the order of its text."""
    if logic[0] == "comparison":
        yield logic[1]
    elif logic[0] != "constant":
        for part in logic[1:]:
            yield from numbers(part)


def is_conjunction(logic: Logic) -> bool:
    """Whether a condition is a comparison, or comparisons joined by AND."""
    return logic[0] == "comparison" or (logic[0] == "and" and all(map(is_conjunction, logic[1:])))


def combined(logic: Logic, truth: Callable[[int], Truth]) -> Truth:
    """The truth of a condition, from the truth of its comparisons.

    Raises:
        MatchRuntimeError: a comparison fails, and no other operand of its AND or OR decides.
    """
    kind = logic[0]
    if kind == "comparison":
        return truth(logic[1])
    if kind == "constant":
        return logic[1]
    if kind == "not":
        found = combined(logic[1], truth)
        return None if found is None else not found
    if kind == "choice":
        *branches, otherwise = logic[1:]
        for when, then in zip(branches[::2], branches[1::2], strict=True):
            if combined(when, truth) is True:
                return combined(then, truth)
        return combined(otherwise, truth)
    decides = kind == "or"
    unknown, failed = False, None
    for part in logic[1:]:
        try:
            found = combined(part, truth)
        except MatchRuntimeError as error:  # an operand after it may decide: AND and OR are evaluated in any order
            failed = failed or error
            continue
        if found is decides:
            return decides
        unknown = unknown or found is None
    if failed is not None:
        raise failed
    return None if unknown else not decides


def smallest_sets(logic: Logic, truth: Callable[[int], Truth]) -> list[frozenset[Change]]:
    """The sets of changes that make a condition true, without those that contain another one.

    There are at most :data:`MOST_SETS`, smallest first, then in the order of the text.
    """
    places = {number: place for place, number in enumerate(numbers(logic))}
    return sorted(_sets(logic, truth, _TRUE), key=lambda changes: (len(changes), sorted(places[number] for number, _ in changes)))


def _sets(logic: Logic, truth: Callable[[int], Truth], wanted: frozenset[Truth]) -> list[frozenset[Change]]:
    """The minimal sets of changes that give a condition one of the ``wanted`` values."""
    kind = logic[0]
    if kind == "comparison":
        return [frozenset()] if truth(logic[1]) in wanted else [frozenset([(logic[1], True in wanted)])]
    if kind == "constant":
        return [frozenset()] if logic[1] in wanted else []
    if kind == "not":
        return _sets(logic[1], truth, _TURNED[wanted])
    if kind == "choice":
        return _minimal([found for branch in _branches(logic) for found in _all_of([_sets(part, truth, needed or wanted) for part, needed in branch])])
    parts = [_sets(part, truth, wanted) for part in logic[1:]]
    if (kind == "and") == (True in wanted):
        return _all_of(parts)
    return _minimal([found for part in parts for found in part])


def _branches(logic: Logic) -> Iterator[list[tuple[Logic, frozenset[Truth] | None]]]:
    """For each branch of a choice, its parts with the values that they need (None: the value that the choice needs)."""
    *branches, otherwise = logic[1:]
    before: list[tuple[Logic, frozenset[Truth] | None]] = []
    for when, then in zip(branches[::2], branches[1::2], strict=True):
        yield [*before, (when, _TRUE), (then, None)]
        before.append((when, _NOT_TRUE))
    yield [*before, (otherwise, None)]


def _all_of(parts: list[list[frozenset[Change]]]) -> list[frozenset[Change]]:
    """The minimal unions of one set of each part."""
    found: list[frozenset[Change]] = [frozenset()]
    for part in parts:
        found = _minimal([one | other for one in found for other in part])
    return found


def _minimal(sets: list[frozenset[Change]]) -> list[frozenset[Change]]:
    kept: list[frozenset[Change]] = []
    for changes in sorted(dict.fromkeys(sets), key=len):
        if not any(other < changes for other in kept):
            kept.append(changes)
    return kept[:MOST_SETS]
