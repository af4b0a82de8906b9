"""Registers for the conditions of a PATTERN: incremental state that replaces looking back at the match.

A condition of DEFINE reads the rows taken so far: the last or the first row of some variables, their number, or an aggregate. Each
of these becomes a register that every row of the variables updates. The condition becomes a fence, which reads only the current row
and the registers. ``compiler/registers/pattern_automaton`` builds the arcs from them.

``UP AS price > LAST(DOWN.price, 1)`` needs two registers: the last ``price`` of DOWN, and the one before it. Each row of DOWN
copies the first register into the second and stores its own ``price`` in the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from sparkcep.errors import UNSUPPORTED, ClauseError
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import (
    ALL_ROWS,
    LIKE,
    MEAN,
    SUM,
    TOTAL,
    Assignment,
    At,
    Checked,
    Here,
    IsFirst,
    Label,
    Lit,
    Near,
    Prior,
    Register,
    Running,
    register_column,
)

NULL, ZERO, ONE, FALSE = Lit("lit", "null", "NULL"), Lit("lit", "int", "0"), Lit("lit", "int", "1"), Lit("lit", "bool", "FALSE")
LABEL = ""  # used as a column: the name of the variable


class Kept(NamedTuple):
    """The value that one register holds, over the rows of the variables in ``mask``.

    Attributes:
        what: ``count``, ``last``, ``first`` or the name of an aggregate.
        mask: mask of the variables, ALL_ROWS for every row.
        column: the column of the value, LABEL for the variable's name, None for a count of rows.
        number: how many of the mask's rows before the last row, or after the first.
        keep: a Boolean column. An aggregate counts only rows where it is true and ``column`` is not NULL.
    """

    what: str
    mask: int
    column: str | None = None
    number: int = 0
    keep: str | None = None

    def takes(self, variable: int) -> bool:
        """Whether a row of the variable is one of the rows of the register."""
        return self.mask == ALL_ROWS or bool(self.mask >> variable & 1)


@dataclass
class Memory:
    """The registers of one plan, in the order of their first use in conditions.

    Attributes:
        plan: the plan.
        before: for each variable, the least number of rows of the match before one of its rows.
        kept: the value of each register.
    """

    plan: Plan
    before: tuple[int, ...]
    kept: list[Kept] = field(default_factory=list)

    def registers(self) -> tuple[Register, ...]:
        """All registers that were asked for so far."""
        return tuple(Register(self._name(kept), _type(kept), ZERO if kept.what == "count" else NULL, *self.plan.place, _like(kept)) for kept in self.kept)

    def assignments(self, variable: int) -> tuple[Assignment, ...]:
        """The assignments that a row of the variable makes."""
        return tuple(Assignment(number, self._after(kept, variable)) for number, kept in enumerate(self.kept) if kept.takes(variable))

    def fence(self, variable: int) -> tuple[tuple, ...]:
        """The conjuncts of the variable's condition that read more than the row, over registers."""
        trees = next((condition.trees for condition in self.plan.conditions if condition.variable == variable), ())
        return tuple(self._tree(tree, variable, False) for tree in trees)

    def _name(self, kept: Kept) -> str:
        of = "all" if kept.mask == ALL_ROWS else "_".join(name for i, name in enumerate(self.plan.variables) if kept.mask >> i & 1)
        what = "label" if kept.column == LABEL else dict(self.plan.inputs).get(kept.column or "", "")
        return "_".join(part for part in (kept.what, str(kept.number) if kept.number else "", of, what) if part)

    # -- values -------------------------------------------------------------------------------------------------------

    def register(self, kept: Kept) -> Here:
        """The register that holds a value, created if missing. The registers that its updates need are created first."""
        if kept not in self.kept:
            if kept.what == "last" and kept.number:
                self.register(kept._replace(number=kept.number - 1))
            if kept.what == "first":
                self.register(Kept("count", kept.mask))
            self.kept.append(kept)
        return Here("col", register_column(self.kept.index(kept)))

    def _seen(self, kept: Kept, variable: int, prior: bool) -> tuple:
        """The value of a register as a condition of the variable reads it.

        It includes the current row, unless the condition asks for the value before that row (``prior``).
        """
        held = self.register(kept)
        return held if prior or not kept.takes(variable) else self._after(kept, variable)

    def _after(self, kept: Kept, variable: int) -> tuple:
        """The value of a register after a row of the variable, which must be one of the register's rows."""
        held = self.register(kept)
        if kept.what == "last" and kept.number:
            return self.register(kept._replace(number=kept.number - 1))
        value = self._value(kept, variable)
        match kept.what:
            case "last":
                return value
            case "first":
                return ("call", "if", ("call", "=", self.register(Kept("count", kept.mask)), Lit("lit", "int", str(kept.number))), value, held)
            case "count":
                return ("call", "+", held, ONE if value is None else ("call", "if", ("call", "isnull", value), ZERO, ONE))
            case "sum" | "mean":
                total = ("call", "coalesce", ("call", TOTAL, held, value), held, value)
                return ("call", "cast", total, Lit("lit", "type", f"{_type(kept)} {_like(kept)}"))
            case "min" | "max":
                return ("call", "least" if kept.what == "min" else "greatest", held, value)
            case "bool_and" | "bool_or":
                return ("call", "coalesce", ("call", kept.what[5:], held, value), held, value)
        raise ValueError(kept.what)

    def _value(self, kept: Kept, variable: int) -> tuple | None:
        """The current row's contribution to a register. None for a count of all rows."""
        if kept.column == LABEL:
            return Lit("lit", "string", self.plan.variables[variable])
        value = None if kept.column is None else Here("col", kept.column)
        if kept.keep is None:
            return value
        return ("call", "if", Here("col", kept.keep), ONE if value is None else value, NULL)

    # -- conditions ---------------------------------------------------------------------------------------------------

    def _tree(self, tree: tuple, variable: int, prior: bool) -> tuple:
        """A condition's tree, rewritten over the current row and registers."""
        match tree:
            case Here() if any(column.name == tree.column for column in self.plan.ordered_inputs):
                raise self._error(variable, "a register cannot hold a value that Spark computes over neighbouring rows. Compare values of one row each, of equal types")
            case Lit() | Here():
                return tree
            case Checked():
                return tree._replace(tree=self._tree(tree.tree, variable, prior), failed=self._tree(tree.failed, variable, prior))
            case IsFirst():
                return ("call", "=", self.register(Kept("count", tree.mask)), ZERO)
            case Prior():
                began = ("call", "=", self.register(Kept("count", tree.mask)), ZERO)
                return ("call", "if", began, NULL, self._tree(tree.tree, variable, True))
            case Near():
                return self._near(tree, variable, prior)
            case At():
                if tree.physical:
                    raise self._error(variable, "PREV and NEXT around FIRST or LAST read rows next to those of the match, and a register does not hold such rows")
                return self._of_row(tree, tree.column, tree.absent, variable, prior)
            case Label(which="cur", physical=0) if not prior:
                return Lit("lit", "string", self.plan.variables[variable])
            case Label(physical=0):
                return self._of_row(tree, LABEL, None, variable, prior)
            case Running():
                return self._aggregate(tree, variable, prior)
            case ("call", name, *args):
                return ("call", name, *(self._tree(arg, variable, prior) for arg in args))
        what = {"mno": "MATCH_NUMBER()", "pair": "a Spark function over several rows", "by": "MIN_BY or MAX_BY", "cls": "CLASSIFIER() of a neighbouring row"}
        raise self._error(variable, f"a register cannot hold {what.get(tree[0], 'this')}")

    def _of_row(self, tree: At | Label, column: str, absent: str | None, variable: int, prior: bool) -> tuple:
        """The value at the FIRST or LAST row of some variables."""
        mask, number = ALL_ROWS if tree.mask == ALL_ROWS else tree.mask, tree.logical
        mine = not prior and (mask == ALL_ROWS or bool(mask >> variable & 1))
        if tree.which == "F" or not mine:
            value = self._seen(Kept("first" if tree.which == "F" else "last", mask, column, number), variable, prior)
        elif number:
            value = self.register(Kept("last", mask, column, number - 1))
        else:
            value = Lit("lit", "string", self.plan.variables[variable]) if column == LABEL else Here("col", column)
        if absent is None:
            return value
        there = ("call", ">", self._seen(Kept("count", mask), variable, prior), Lit("lit", "int", str(number)))
        return ("call", "if", there, value, Here("col", absent))

    def _near(self, tree: Near, variable: int, prior: bool) -> tuple:
        """PREV as a register. It reads a row of the match: under STRICT CONTIGUITY, if enough rows of the match come before."""
        back = -tree.physical
        if not self.plan.adjacent or back < 0 or prior:
            what = "NEXT reads a row that has not arrived yet" if back < 0 else "PREV reads the neighbouring row, which may be skipped, and another row may arrive in between"
            raise self._error(variable, f"{what}. Compare with LAST of a variable, or keep the value in a column")
        if self.before[variable] < back:
            raise self._error(
                variable, "PREV may read a row before the first row of the match, which a register does not hold. Begin the pattern with a variable that takes that row, as S in "
                "PATTERN (S DOWN+), or keep the value in a column",
            )
        return self.register(Kept("last", ALL_ROWS, tree.column, back - 1))

    def _aggregate(self, tree: Running, variable: int, prior: bool) -> tuple:
        if tree.distinct:
            raise self._error(variable, f"a register cannot hold {tree.function.upper()}(DISTINCT), which needs all values")
        count = Kept("count", tree.mask, tree.column, 0, tree.keep)
        match tree.function:
            case "count":
                return self._seen(count, variable, prior)
            case "sum" | "min" | "max" | "bool_and" | "bool_or":
                return self._seen(Kept(tree.function, tree.mask, tree.column, 0, tree.keep), variable, prior)
            case "avg":
                rows = self._seen(count, variable, prior)
                total = self._seen(Kept("mean", tree.mask, tree.column, 0, tree.keep), variable, prior)
                return ("call", "if", ("call", "=", rows, ZERO), NULL, ("call", "/", total, rows))
        raise self._error(variable, f"a register cannot hold {tree.function.upper()}, only COUNT, SUM, AVG, MIN, MAX, BOOL_AND and BOOL_OR")

    def _error(self, variable: int, message: str) -> ClauseError:
        place = next(place for place in self.plan.places if place.variable == variable)
        of = f"the condition of {self.plan.variables[variable]} cannot be an automaton's"
        return ClauseError("AUTOMATON", f"{of}: {message}", sqlstate=UNSUPPORTED, line=place.line, column=place.column, fragment=place.text)


def _type(kept: Kept) -> str:
    """The SQL type of a register, or how it follows from a column."""
    if kept.what == "count":
        return "bigint"
    if kept.column == LABEL:
        return "string"
    return {"sum": SUM, "mean": MEAN}.get(kept.what, LIKE)


def _like(kept: Kept) -> str:
    """The column that determines a register's type, "" if the type does not depend on a column."""
    return kept.column or "" if kept.what != "count" else ""
