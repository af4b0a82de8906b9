"""Arcs that rows of a table bring as text: parses fences and assignments into trees of operators that the engine computes.

``engine/automaton/dynamic_arcs`` uses it. Spark had planned the query before the texts came, so it computes no part of them. A text
may use names of columns of the rows, registers, and operators and functions of the engine.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field

from sparkcep.clause.automaton import ROW, read_assignments, read_condition
from sparkcep.clause.expressions import Expr
from sparkcep.errors import ClauseError, nearest
from sparkcep.plan.extend.automaton import ArcSplitter
from sparkcep.plan.records import Assignment, Automaton, Here, Lit
from sparkcep.plan.scope import Inputs, Scope
from sparkcep.plan.split.conditions import conjuncts

_COMPUTED = "comparisons, arithmetic, AND, OR, NOT, IN, BETWEEN, IS NULL, CASE, COALESCE, LEAST, GREATEST, ABS and CASTs to numbers"


def field_column(number: int) -> str:
    """The input column for the column with this number of a row."""
    return f"__t{number}"


@dataclass
class TextReader:
    """Parses texts of arcs over the registers of an automaton and the columns of its rows.

    Attributes:
        automaton: the automaton.
        columns: names of the rows' columns.
        case_sensitive: whether names of columns are.
        used: numbers of the columns that texts have read so far.
    """

    automaton: Automaton
    columns: Sequence[str]
    case_sensitive: bool
    used: set[int] = field(default_factory=set)

    def fence(self, text: str | None) -> tuple[tuple, ...]:
        """The trees of the conjuncts of WHEN. Raises ClauseError with a place in the text."""
        if text is None:
            return ()
        condition, splitter = read_condition(text), self._splitter(text)
        splitter.check(condition, ROW)
        return tuple(splitter.tree(conjunct) for conjunct in conjuncts(condition))

    def sets(self, text: str | None) -> tuple[Assignment, ...]:
        """The assignments of SET. Raises ClauseError with a place in the text."""
        if text is None:
            return ()
        splitter, found = self._splitter(text), {}
        for item in read_assignments(text):
            number = splitter.registers.get(splitter.scope.key(item.register))
            if number is None:
                raise splitter.wrong(item.span, f"{item.register} is not a register of the clause{self._like(item.register, [r.name for r in self.automaton.registers])}")
            if number in found:
                raise splitter.wrong(item.span, f"the arc sets {item.register} twice")
            splitter.check(item.value, ROW)
            found[number] = Assignment(number, splitter.tree(item.value))
        return tuple(found.values())

    def column(self, name: str) -> str | None:
        """The input column for a row's column of this name. None if no column or several columns have this name."""
        known = [i for i, column in enumerate(self.columns) if column == name or (not self.case_sensitive and column.lower() == name.lower())]
        if len(known) != 1:
            return None
        self.used.add(known[0])
        return field_column(known[0])

    def unknown(self, name: str) -> str:
        """The message for a name that is not a column of the rows, or that several columns have."""
        several = sum(column.lower() == name.lower() for column in self.columns) > 1
        if several:
            return f"{name} is the name of several columns of the rows. Give them different names below the clause"
        return f"{name} is neither a column of the rows nor a register{self._like(name, [*self.columns, *(r.name for r in self.automaton.registers)])}"

    def _like(self, name: str, known: list[str]) -> str:
        near = nearest(name, known)
        return f"; did you mean {near}?" if near else ""

    def _splitter(self, text: str) -> _TextSplitter:
        return _TextSplitter(Scope(text, {}, {}, (), exact=self.case_sensitive), self)


class _TextSplitter(ArcSplitter):
    """Makes trees of expressions without help from Spark."""

    def __init__(self, scope: Scope, reader: TextReader) -> None:
        super().__init__(scope, Inputs(), reader.automaton.registers, True)
        self.reader = reader

    def wrong(self, span, message: str) -> ClauseError:
        """An error at a place of the text."""
        return self.scope.error(Expr("lit", "", (), frozenset(), span), "ARC_TEXT", message)

    def sees(self, expr: Expr) -> bool:
        return True

    def _lower(self, expr: Expr, variable: int) -> tuple:
        expr = expr.bare()
        held = self.held(expr)
        if held is not None:
            return Here("col", held)
        if expr.op == "col":
            return self._column(expr)
        found = self._literal(expr) or _further_literal(expr) or self._native(expr, variable)
        if found is None:
            what = f"{expr.value}()" if expr.op == "call" else f"CAST to {expr.value}" if expr.op == "cast" else str(expr.value) if expr.op == "lit" else f"this {expr.op}"
            raise self.wrong(expr.span, f"{what} is not computed in an arc as text, which takes {_COMPUTED}. Compute it in a column below the clause, or write the arc in the clause")
        return found

    def _column(self, expr: Expr) -> Here:
        if len(expr.value) > 1:
            raise self.wrong(expr.span, f"an arc as text names a column without a qualifier. Write {expr.value[-1]}, or compute a field of a struct in a column below the clause")
        column = self.reader.column(expr.value[0])
        if column is None:
            raise self.wrong(expr.span, self.reader.unknown(expr.value[0]))
        return Here("col", column)


def _further_literal(expr: Expr) -> Lit | None:
    """A date, or a number that Spark reads as DOUBLE. In a clause Spark would evaluate these."""
    sign = ""
    if expr.op == "un" and expr.value == "-":
        sign, expr = "-", expr.args[0].bare()
    if expr.op != "lit":
        return None
    text = str(expr.value).upper()
    if text.startswith("DATE") and not sign:
        try:
            day = datetime.date.fromisoformat(text[4:].strip()[1:-1])
        except ValueError:
            return None
        return Lit("lit", "date", str((day - datetime.date(1970, 1, 1)).days))
    number = text[:-1] if text.endswith("D") and not text.endswith("BD") else text if "E" in text else ""
    try:
        return Lit("lit", "double", sign + number) if number and number[0] in ".0123456789" and float(number) < float("inf") else None
    except ValueError:
        return None
