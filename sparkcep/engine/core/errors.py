"""Turns failures of a search into run-time errors, with the partition, the place in the clause and advice."""

from __future__ import annotations

import pyarrow as pa

from sparkcep.columns.arrays import is_list
from sparkcep.columns.comparable import comparable
from sparkcep.engine.core.effort import Limits
from sparkcep.errors import MatchRuntimeError
from sparkcep.kernels.common import layout
from sparkcep.kernels.vm import vm
from sparkcep.plan.options import NO_WINDOW
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Failing, walk

Columns = dict[str, pa.Array]
LESS = "a smaller TOP, a smaller WINDOW"
_DIVISIONS = ("/", "%", "div", "mod", "pmod")
_EXACT = ("and", "or", "not", "=", "!=", "<>", "<", "<=", ">", ">=", "<=>", "isnull", "if", "in", "coalesce", "greatest", "least")
NARROWER = "a smaller WINDOW or a larger step of SLIDE"


def said(value: pa.Scalar) -> str:
    """Formats a value for a message: like Python, or like Arrow for a time beyond Python's calendar.

    A string that is not UTF-8 is shown as bytes.
    """
    try:
        return repr(value.as_py())
    except (OverflowError, ValueError):  # also if a part is such a value, or if two fields of a struct have one name
        if pa.types.is_struct(value.type):
            return f"{{{', '.join(f'{field.name!r}: {said(value[i])}' for i, field in enumerate(value.type))}}}"
        if is_list(value.type):
            return f"[{', '.join(map(said, value.values))}]"
        if pa.types.is_temporal(value.type):
            return str(value.cast(pa.string()).as_py())
        return repr(comparable(pa.array([value], value.type))[0])


class EagerConditionError(MatchRuntimeError):
    """A condition over physical neighbours failed at a row when it was evaluated ahead of the search.

    The row need not be a candidate.
    """


class Failures:
    """Makes the errors of one plan.

    Its methods take a ``row`` of the buffer ``columns``, which identifies the partition in the message.
    """

    def __init__(self, plan: Plan, limits: Limits) -> None:
        self.plan, self.limits = plan, limits

    def where(self, row: int, columns: Columns) -> str:
        keys = ", ".join(f"{n} = {said(columns[c][row])}" for n, c, _ in self.plan.partition)
        return f" in the partition {keys}" if keys else ""

    def state(self, row: int, columns: Columns, instead: str = "") -> MatchRuntimeError:
        """Returns the error for a search that needs too many bytes. ``instead`` says what needs less, by default a WINDOW."""
        instead = instead or f"{'a smaller' if any(window.kind != NO_WINDOW for window in self.plan.windows) else 'a'} WINDOW, tighter quantifiers,"
        return MatchRuntimeError(
            "STATE_LIMIT",
            f"matching{self.where(row, columns)} needs more than sparkcep.maxStateBytes = {self.limits.max_state_bytes} bytes of "
            f"state; use {instead} or raise the bound",
            sqlstate="54000",
        )

    def ranking(self, row: int, columns: Columns) -> MatchRuntimeError:
        """Returns the error for a ranking that takes too many steps."""
        return MatchRuntimeError(
            "EFFORT_LIMIT",
            f"ranking one window{self.where(row, columns)} took more than sparkcep.maxSteps = {self.limits.max_steps} steps; use a smaller "
            "WINDOW, or conditions that fewer rows satisfy",
            sqlstate="54000",
        )

    def count(self, row: int, columns: Columns) -> MatchRuntimeError:
        """Returns the error for a number of matches that is too large."""
        error = MatchRuntimeError(
            "COUNT_RANGE",
            f"MATCH_COUNT(){self.where(row, columns)} exceeds DECIMAL(38); use a smaller WINDOW or fewer Kleene variables",
            sqlstate="22003",
        )
        names = {leaf.name for leaf in self.plan.leaves if leaf.spec.kind == "cnt"}
        return error.at(next(((p.line, p.column, p.text) for p in self.plan.leaf_places if p.name in names), None))

    def score(self, row: int, columns: Columns) -> MatchRuntimeError:
        """Returns the error for an integer score that overflows its type."""
        return MatchRuntimeError("ARITHMETIC_OVERFLOW", f"integer overflow in PREF{self.where(row, columns)}; cast to a wider type", sqlstate="22003")

    def of(self, outcome: int, row: int, detail: int, columns: Columns) -> MatchRuntimeError:
        """Returns the error for a kernel that ended with ``outcome``.

        ``detail`` is what the kernel noted: the code of a condition's error, or the number of a match.
        """
        where = self.where(row, columns)
        if outcome == layout.EFFORT:
            return MatchRuntimeError(
                "EFFORT_LIMIT",
                f"one search{where} took more than sparkcep.maxSteps = {self.limits.max_steps} steps; use tighter quantifiers, "
                "or conditions that do not read CLASSIFIER() of neighbours or DISTINCT aggregates",
                sqlstate="54000",
            )
        if outcome == layout.TOO_MANY:
            return MatchRuntimeError(
                "MATCH_LIMIT",
                f"there are more than sparkcep.maxMatchesPerPartition = {self.limits.max_matches} matches{where}; use a smaller WINDOW, FIRST "
                "MATCH, or MATCH_COUNT() if you need only their number",
                sqlstate="54000",
            )
        if outcome == layout.ERROR:
            return of_condition(detail, self.plan, where)
        skip = self.plan.skip
        names = skip.place.text if skip.place is not None else ", ".join(v for i, v in enumerate(self.plan.variables) if skip.targets >> i & 1)
        names = f"{skip.mode.upper()} {names}"
        if outcome == layout.SKIP_TO_FIRST:
            return MatchRuntimeError(
                "SKIP_TO_FIRST_ROW",
                f"AFTER MATCH SKIP TO {names} would go to the first row of match {detail}{where}, which would match again indefinitely. "
                "Skip to another variable or TO NEXT ROW",
            ).at(skip.place)
        return MatchRuntimeError(
            "SKIP_TO_ABSENT_VARIABLE",
            f"AFTER MATCH SKIP TO {names}: no row of match {detail}{where} is mapped to it; make the variable mandatory or skip elsewhere",
        ).at(skip.place)


def of_condition(code: int, plan: Plan, where: str = "", variable: int | None = None) -> MatchRuntimeError:
    """Returns the error for a condition that could not be computed.

    It is the condition of ``variable``, or any condition that may fail with this code.
    """
    if code <= vm.FAILED:
        return _of_row(plan.failing[vm.FAILED - code], where)
    may = [c.variable for c in plan.conditions if variable in (None, c.variable) and any(_fails(node, code) for tree in c.trees for node in walk(tree))]
    may = may or [c.variable for c in plan.conditions if variable in (None, c.variable)]
    of = "the condition of " + " or ".join(plan.variables[v] for v in may) if may else "a DEFINE condition"
    place = next(((p.line, p.column, p.text) for p in plan.places if p.variable in may[:1]), None)
    if code == vm.DIVIDE_BY_ZERO:
        return MatchRuntimeError("DIVIDE_BY_ZERO", f"division by zero in {of}{where}; use NULLIF on the divisor", sqlstate="22012").at(place)
    if code == vm.OVERFLOW:
        return MatchRuntimeError("ARITHMETIC_OVERFLOW", f"numeric overflow in {of}{where}; cast to a wider type", sqlstate="22003").at(place)
    raise ValueError(f"a condition failed with the unknown code {code}")


_OF_SPARK = {  # Spark's error class -> problem, advice, SQLSTATE
    "DIVIDE_BY_ZERO": ("division by zero", "use try_divide or NULLIF on the divisor", "22012"),
    "ARITHMETIC_OVERFLOW": ("numeric overflow", "cast to a wider type", "22003"),
    "CAST_INVALID_INPUT": ("a cast of a malformed value", "use try_cast", "22018"),
    "INVALID_ARRAY_INDEX": ("an array index out of bounds", "use get(array, index)", "22003"),
}
_OTHERWISE = "an expression that cannot be computed", "use its try_ form, such as try_divide or try_cast", "22000"


def _of_row(expression: Failing, where: str) -> MatchRuntimeError:
    """Returns the error for a condition that asks for a row's value that Spark failed to compute."""
    what, instead, sqlstate = _OF_SPARK.get(expression.error_class, _OTHERWISE)
    message = f"{what} at a row that a condition reads{where}; {instead}, or test the row to the left of AND or in CASE"
    return MatchRuntimeError(expression.error_class, message, sqlstate=sqlstate).at(expression[1:])


def _fails(node: tuple, code: int) -> bool:
    """Returns whether this node of a condition's tree may fail with ``code``."""
    if code == vm.DIVIDE_BY_ZERO:
        return node[0] == "call" and node[1] in _DIVISIONS
    return (node[0] == "call" and node[1] not in _EXACT) or (node[0] == "agg" and node.function in ("sum", "avg"))
