"""Equivalence tests as partition keys (SASE+, SIGMOD 2008, section 3.2).

Where every row of a match behind its first must have the same value of a column as a row before it, all rows of a match agree
in that column, so rows that differ in it never meet: it may cut partitions as a PARTITION BY column does. A row whose
value is NULL passes no such test and can only be a match by itself, which it is among the other NULLs, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_

from sparkcep.clause import nodes
from sparkcep.clause.expression import Expr
from sparkcep.clause.lexer import Span
from sparkcep.clause.tree import NEXT_ROW, MatchClause
from sparkcep.plan.costs import Approx
from sparkcep.plan.define import ConditionSplitter, conjuncts
from sparkcep.plan.scope import ALL_ROWS, Row


def equal_columns(
    clause: MatchClause, splitter: ConditionSplitter, skip: str, case_sensitive: bool, approx: Approx | None = None
) -> list[tuple]:
    """(column's text, the tests as texts) of the columns in which the rows of every match agree; [] where their partitions
    would tell matches apart otherwise. Assumes that rows outside a match do not matter (``prefilter.ignorable``)."""
    if skip != NEXT_ROW or clause.pref or clause.top or _numbered(clause):
        return []
    if nodes.contains(clause.pattern, nodes.Conjunct):
        return []
    reader = _TestReader(clause, splitter, case_sensitive, approx)
    conditions = {splitter.scope.ids[d.variable.lower()]: d.condition for d in clause.defines}
    # a variable without a condition takes any row
    found = [reader.tests(v, conditions[v]) if v in conditions else {} for v in reader.tested()]
    shared = [name for name in found[0] if all(name in tests for tests in found)] if found else []
    return [(found[0][name][0], tuple(tests[name][1] for tests in found)) for name in shared]


def implied_tests(clause: MatchClause, splitter: ConditionSplitter, columns: list[str], case_sensitive: bool, approx: Approx | None = None) -> dict[Span, str]:
    """The tests that hold wherever the column, one of ``columns`` by which partitions are cut, is not NULL: their spans, and the column's text."""
    reader = _TestReader(clause, splitter, case_sensitive, approx)
    return {
        span: text
        for define in clause.defines
        for span, text in reader.sure(splitter.scope.ids[define.variable.lower()], define.condition)
        if text in columns
    }


def _numbered(clause: MatchClause) -> bool:
    """Whether anything reads the number of a match, which counts the matches of one partition."""
    expressions = [*(m.expr for m in clause.measures), *(d.condition for d in clause.defines)]
    return any(n.op == "call" and n.value == "MATCH_NUMBER" for e in expressions for n in e.walk())


class _TestReader:
    """The equivalence tests in the conditions of one clause."""

    def __init__(self, clause: MatchClause, splitter: ConditionSplitter, case_sensitive: bool, approx: Approx | None) -> None:
        self.approx = approx
        self.text = clause.text
        self.splitter = splitter
        self.scope = splitter.scope
        self.case_sensitive = case_sensitive
        self._places: dict[int, list[_Place]] = {}
        _visit(clause.pattern, _Place(), self.scope.ids, self._places)
        leader = _leader(clause.pattern)
        self._leader = 0 if leader is None else self.scope.mask_of(leader.name)

    def tested(self) -> list[int]:
        """The variables that need a test: all that may take another row than the first, and the negated ones."""
        return [v for v, places in self._places.items() if not all(p.first for p in places)]

    def tests(self, variable: int, condition: Expr) -> dict[tuple, tuple[str, str]]:
        """Column (as a comparable name) to (its text, the test's text), for each test among the condition's conjuncts."""
        found: dict[tuple, tuple[str, list[str], list[Row]]] = {}
        for conjunct in conjuncts(condition):
            column, row = self._equality(conjunct.bare(), variable)
            if column is not None and row is not None:
                text, tests, rows = found.setdefault(self._name(column), (self.scope.row_text(column), [], []))
                tests.append(f"{self.scope.variables[variable]} AS {' '.join(conjunct.span.of(self.text).split())}")
                rows.append(row)
        agrees = self._agrees if self.approx is None else self._agrees_approximately
        return {name: (text, " AND ".join(tests)) for name, (text, tests, rows) in found.items() if agrees(rows, variable)}

    def sure(self, variable: int, condition: Expr) -> Iterator[tuple[Span, str]]:
        """(span, column's text) of the tests whose other row is sure to be there."""
        for conjunct in conjuncts(condition):
            column, row = self._equality(conjunct.bare(), variable)
            if column is not None and row is not None and self._there(row, variable):
                yield conjunct.span, self.scope.row_text(column)

    def _there(self, row: Row, variable: int) -> bool:
        if self.approx is None or (row.mask == ALL_ROWS and not self.splitter.finished >> variable & 1):
            return self._earlier(row, variable)
        named = row.mask.bit_count() == 1
        return named and self.approx.missing[row.mask.bit_length() - 1] > self.approx.bound and self._earlier(row, variable)

    def _equality(self, test: Expr, variable: int) -> tuple[Expr | None, Row | None]:
        """The column that a conjunct compares with its value at another row, and that row."""
        if test.op != "bin" or test.value != "=":
            return None, None
        columns = [_column(side.bare()) for side in test.args]
        if None in columns or self._name(columns[0]) != self._name(columns[1]):
            return None, None
        rows = [self.splitter.row(side.bare(), variable) for side in test.args]
        own, other = rows if rows[0] == Row("cur") else rows[::-1]
        return (columns[0], other) if own == Row("cur") else (None, None)

    def _agrees(self, rows: list[Row], variable: int) -> bool:
        """Whether one of the rows is sure to be an earlier one of the match."""
        return any(self._earlier(row, variable) for row in rows)

    def _agrees_approximately(self, rows: list[Row], variable: int) -> bool:
        """As :meth:`_agrees`, where a test that names a missing variable is taken as true: then all that may stand before are tested."""
        approx = self.approx
        assert approx is not None
        tested = 0
        for row in rows:
            if row.which == "cur" or row.logical or row.physical:
                continue
            if row.mask == ALL_ROWS:
                if row.which == "F" and not self.splitter.finished >> variable & 1:
                    return True
            elif row.mask.bit_count() == 1:
                other = row.mask.bit_length() - 1
                if approx.missing[other] > approx.bound and self._earlier(row, variable):
                    return True
                if row.which == "F" or other != variable:
                    tested |= row.mask
        possible = reduce(or_, (p.possible for p in self._places[variable]))
        return not self.splitter.finished >> variable & 1 and possible & ~tested == 0

    def _name(self, column: Expr) -> tuple[str, ...]:
        parts = column.value if self.scope.qualifier(column) is None else column.value[1:]
        return parts if self.case_sensitive else tuple(p.lower() for p in parts)

    def _earlier(self, row: Row, variable: int) -> bool:
        """Whether it is a row of the match before the variable's - or the match's first row, the variable's own then."""
        if row.which == "cur" or row.logical or row.physical:
            return False
        before = reduce(and_, (p.certain for p in self._places[variable]))
        if row.mask == ALL_ROWS:
            # a row before the match is the first of those that ~ at its start sees
            return row.which == "F" and (not self.splitter.finished >> variable & 1 or before != 0)
        if row.which == "F" and row.mask == self._leader:
            return True
        return row.mask.bit_count() == 1 and row.mask & before != 0


def _column(expr: Expr) -> Expr | None:
    """The column of ``c``, ``X.c``, ``FIRST(X.c)`` and ``LAST(X.c)``."""
    if expr.op == "call" and expr.value in ("FIRST", "LAST"):
        expr = expr.args[0].bare()
    return expr if expr.op == "col" else None


@dataclass(frozen=True)
class _Place:
    """What is known before a place of the pattern: ``certain``, a mask of variables mapped by every match that gets there; ``possible``, by
    some match; ``first``, that no row is."""

    certain: int = 0
    first: bool = True
    possible: int = 0


def _visit(node: nodes.Node, place: _Place, ids: dict[str, int], found: dict[int, list[_Place]]) -> _Place:
    """Collects the places of each variable; gives the place behind ``node``."""

    def visit(item: nodes.Node, at: _Place) -> _Place:
        return _visit(item, at, ids, found)

    later = replace(place, first=False)
    match node:
        case nodes.Var(name):
            found.setdefault(ids[name.lower()], []).append(place)
            own = 1 << ids[name.lower()]
            return _Place(place.certain | own, False, place.possible | own)
        case nodes.Not(item):
            found.setdefault(ids[item.name.lower()], []).append(later)
        case nodes.Exclude(item) | nodes.Within(item, _):
            return visit(item, place)
        case nodes.Concat(items):
            return reduce(lambda at, item: visit(item, at), items, place)
        case nodes.Alternate(items):
            ends = [visit(item, place) for item in items]
            return _Place(reduce(and_, (e.certain for e in ends)), all(e.first for e in ends), reduce(or_, (e.possible for e in ends)))
        case nodes.Permute(items):
            among = replace(later, possible=place.possible | _variables(node, ids))
            return _Place(reduce(or_, [visit(item, among).certain for item in items]), False, among.possible)
        case nodes.Repeat(item, low, high, _):
            again = replace(later, possible=place.possible | _variables(node, ids))
            end = visit(item, place if high == 1 else again)
            return end if low > 0 else _Place(place.certain, place.first and end.first, end.possible)
    return place


def _variables(node: nodes.Node, ids: dict[str, int]) -> int:
    """Mask of the variables in a pattern."""
    return reduce(or_, (1 << ids[n.name.lower()] for n in nodes.walk(node) if isinstance(n, nodes.Var)), 0)


def _leader(node: nodes.Node) -> nodes.Var | None:
    """The variable that the first row of every match is mapped to."""
    match node:
        case nodes.Var():
            return node
        case nodes.Concat(items):
            return _leader(items[0])
        case nodes.Repeat(item, low, _, _) if low > 0:
            return _leader(item)
        case nodes.Exclude(item) | nodes.Within(item, _):
            return _leader(item)
    return None
