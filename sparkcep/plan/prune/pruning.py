"""Pruning before any engine runs: Spark filters rows ahead of the exchange, drops partitions without a match, and partitions by
further keys.

Rows: under a SKIP TILL strategy a row that satisfies no variable's row-local condition is ignored in every state of the search. So
the result is the same without it, unless something counts rows or reads physical neighbours.

Candidates: a match that holds a row of A lies in a partition with a row that satisfies A's row-local condition. Under WINDOW the
match lies within the window's size of that row. 'High-Performance Row Pattern Recognition Using Joins' (VLDB 2023) bounds its
windows in this way, too.

Equivalence tests as partition keys (SASE+, SIGMOD 2008, section 3.2): suppose every row of a match after its first must have the
same value of a column as an earlier row of the match. Then all rows of a match agree in that column, and rows that differ in it
never meet. So the column may partition the rows like a PARTITION BY column. A row whose value is NULL passes no such test. It can
only be a match on its own, and it still is one in the partition of the NULLs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from math import prod
from operator import and_, or_

from sparkcep.clause.expressions import Expr
from sparkcep.clause.tokens import Span
from sparkcep.clause.tree import NEXT_ROW, WITH_UNMATCHED, MatchClause
from sparkcep.plan.facts import anchored, leader, negated_in, nullable, variables_in
from sparkcep.plan.options import MICROS, NUMBER, ROWS
from sparkcep.plan.plan import Plan
from sparkcep.plan.reach import Reach
from sparkcep.plan.records import ALL_ROWS, Approx, Candidate, has, walk
from sparkcep.plan.scope import RANDOM_CALL, Row
from sparkcep.plan.split.conditions import ConditionSplitter, conjuncts

MAX_CHOICES = 16  # most sets that an alternation is resolved into
MAX_CANDIDATES = 8  # most candidates that are kept

# -- rows -------------------------------------------------------------------------------------------------------------


def ignorable(plan: Plan) -> bool:
    """Whether the result is the same without a row that no variable of a match takes."""
    if plan.adjacent or plan.rows == WITH_UNMATCHED or plan.ordered_inputs or plan.graphing or plan.changes is not None:  # positions in a graph count all rows
        return False
    # TOP OVERALL compares positions across partitions, and positions count every row. So does the duration of an approximate match
    # without WINDOW. REPORT CHANGES compares the lists of windows, and any row makes a window.
    ranking = plan.ranking
    timed = bool(plan.windows) and bool(plan.windows[0].order)
    if ranking is not None and (ranking.overall or ranking.changes is not None or (ranking.place is None and not timed)):
        return False
    if any(window.kind == ROWS for window in plan.windows) or nullable(plan.pattern) or anchored(plan.pattern):
        return False
    return not looks_around(plan)


def prefilter(plan: Plan) -> tuple[str, ...]:
    """SQL conditions for rows that are :func:`ignorable`: a row that satisfies none of them can be dropped.

    () if every row may be needed. Random conditions are computed once, because a filter would draw other numbers.
    """
    if {letter.variable for letter in plan.letters} != set(range(len(plan.variables))) or drawn(plan):
        return ()
    return tuple(letter.text for letter in plan.letters)


def drawn(plan: Plan) -> bool:
    """Whether a condition of a single row is random."""
    return any(RANDOM_CALL.search(letter.text) for letter in plan.letters)


def looks_around(plan: Plan) -> bool:
    """Whether a condition or a measure reads physical neighbours."""
    return any(Reach.of_measures(plan)) or any(physical(tree) for condition in plan.conditions for tree in condition.trees)


def physical(tree: tuple) -> bool:
    """Whether a condition reads physical neighbours."""
    return any(part[0] in ("off", "pair") or (part[0] in ("nav", "cls") and part.physical != 0) for part in walk(tree))


# -- candidates -------------------------------------------------------------------------------------------------------


def necessary(pattern: tuple) -> tuple[frozenset[int], ...]:
    """Sets of variables, smallest first. Every match of the pattern maps a row to a variable of each set."""
    return tuple(sorted(dict.fromkeys(_sets(pattern)), key=lambda s: (len(s), sorted(s))))


def candidates(plan: Plan) -> tuple[Candidate, ...]:
    """The conditions that some row of every match satisfies.

    () if the result may depend on a partition without such a row. WITH UNMATCHED ROWS returns its rows, APPROX forgives missing
    variables, and REPORT CHANGES may compare the lists of all partitions in each window that holds a row. A pattern with empty
    matches lacks necessary variables. A variable's row-local conjuncts hold for each of its rows, independent of its other
    conjuncts. () also if a condition is random, because a second read would draw other numbers.
    """
    if plan.rows == WITH_UNMATCHED or plan.approximate is not None or plan.compares_overall or drawn(plan):
        return ()
    texts = {letter.variable: letter.text for letter in plan.letters}
    found = [tuple(sorted(s)) for s in necessary(plan.pattern) if all(v in texts for v in s)]
    return tuple(Candidate(s, " OR ".join(f"({texts[v]})" for v in s)) for s in found[:MAX_CANDIDATES])


def bounded_by_window(plan: Plan) -> bool:
    """Whether rows farther than WINDOW from every row of a necessary variable can be dropped without changing the result.

    A match spans less than W. So its rows and all rows between them (taken, ignored or negated) lie within W of its necessary row,
    and no match loses a row. If a start row's window holds a necessary row, that whole window lies within W of the necessary row.
    The search then reads the same rows, so preferment, contiguity and the rows that SKIP TILL may ignore do not change. If the
    window holds no necessary row, no match starts there, with or without the other rows.

    Clauses that read rows by position in the partition may look farther than W, so this function returns False for them. They use
    PREV, NEXT, anchors, lag and lead, positions in MATCH_GRAPH, or windows of ROWS. It also returns False for sliding windows, and
    if positions are compared across partitions. Match numbers count matches, which all stay.
    """
    if not plan.windows or plan.windows[0].kind not in (MICROS, NUMBER) or any(window.kind == ROWS for window in plan.windows) or plan.slide or (plan.ranking and plan.ranking.overall):
        return False
    return not (plan.ordered_inputs or anchored(plan.pattern) or plan.graphing or looks_around(plan))


def _sets(pattern: tuple) -> list[frozenset[int]]:
    kind, parts = pattern[0], [part for part in pattern if isinstance(part, tuple)]
    if kind == "var":
        return [frozenset([pattern[1]])]
    if kind in ("cat", "permute", "and", "exclude", "within") or (kind == "repeat" and pattern.low > 0):
        return [s for part in parts for s in _sets(part)]
    if kind == "alt":
        branches = [_sets(part) for part in parts]
        shared = [s for s in branches[0] if all(s in b for b in branches[1:])]
        # one variable of each branch: every match has a row of one of them
        return shared + ([frozenset().union(*choice) for choice in product(*branches)] if prod(map(len, branches)) <= MAX_CHOICES else [])
    return []  # not, empty, start, end, and parts that may be left out


# -- keys -------------------------------------------------------------------------------------------------------------


def equal_columns(clause: MatchClause, splitter: ConditionSplitter, plan: Plan) -> list[tuple[str, tuple[str, ...]]]:
    """The columns that are equal in all rows of every match: for each, its text and the tests as texts.

    [] if partitioning by these columns would change how matches are distinguished or numbered, which of them are joined to bundles,
    or which candidates a budget allows. Rows outside a match must be :func:`ignorable`.
    """
    approx = plan.approximate
    if approx is not None and (approx.report in ("BUNDLES", "HISTORY") or approx.budget is not None):
        return []
    if plan.skip.mode != NEXT_ROW or clause.pref or clause.top or _numbered(clause) or has(plan.pattern, "and"):
        return []
    reader = _TestReader(clause, splitter, plan)
    conditions = {splitter.scope.ids[d.variable.lower()]: d.condition for d in clause.defines}
    # a variable without a condition takes any row
    found = [reader.tests(v, conditions[v]) if v in conditions else {} for v in reader.tested()]
    shared = [name for name in found[0] if all(name in tests for tests in found)] if found else []
    return [(found[0][name][0], tuple(tests[name][1] for tests in found)) for name in shared]


def implied_tests(clause: MatchClause, splitter: ConditionSplitter, plan: Plan, columns: list[str]) -> dict[Span, str]:
    """The tests that hold whenever their column is not NULL, because partitions are cut by one of ``columns``.

    Returns the span of each test and the column's text.
    """
    reader = _TestReader(clause, splitter, plan)
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

    def __init__(self, clause: MatchClause, splitter: ConditionSplitter, plan: Plan) -> None:
        self.approx: Approx | None = plan.approximate
        self.text = clause.text
        self.splitter = splitter
        self.scope = splitter.scope
        self.case_sensitive = plan.case_sensitive
        self._places: dict[int, list[_Place]] = {}
        _visit(plan.pattern, _Place(), self._places)
        for group, variables in negated_in(plan.pattern, plan.without).items():
            self._places |= {v: self._places[group] for v in range(len(plan.variables)) if variables >> v & 1}
        self._leader = leader(plan.pattern)

    def tested(self) -> list[int]:
        """The variables that need a test: those that may take a row other than the first, and negated ones."""
        return [v for v, places in self._places.items() if not all(p.first for p in places)]

    def tests(self, variable: int, condition: Expr) -> dict[tuple, tuple[str, str]]:
        """The tests among the condition's conjuncts: maps the column (as a comparable name) to its text and the test's text."""
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
        """The (span, column's text) of each test whose other row certainly exists."""
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
        """The column that a conjunct compares with its value in another row, and that row. (None, None) for any other conjunct."""
        if test.op != "bin" or test.value != "=":
            return None, None
        columns = [_column(side.bare()) for side in test.args]
        if None in columns or self._name(columns[0]) != self._name(columns[1]):
            return None, None
        rows = [self.splitter.row(side.bare(), variable) for side in test.args]
        own, other = rows if rows[0] == Row("cur") else rows[::-1]
        return (columns[0], other) if own == Row("cur") else (None, None)

    def _agrees(self, rows: list[Row], variable: int) -> bool:
        """Whether one of the rows is certainly an earlier row of the match."""
        return any(self._earlier(row, variable) for row in rows)

    def _agrees_approximately(self, rows: list[Row], variable: int) -> bool:
        """Like :meth:`_agrees` for APPROX, where a test that names a missing variable counts as true.

        All variables that may come before must be tested.
        """
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
        """Whether the row certainly is a row of the match before the variable's row.

        The match's first row also counts, even if it is the variable's own row.
        """
        if row.which == "cur" or row.logical or row.physical:
            return False
        before = reduce(and_, (p.certain for p in self._places[variable]))
        if row.mask == ALL_ROWS:
            # a negation at the start of the pattern reads rows before the match, and FIRST may then be such a row
            return row.which == "F" and (not self.splitter.finished >> variable & 1 or before != 0)
        if row.which == "F" and row.mask == self._leader:
            return True
        return row.mask.bit_count() == 1 and row.mask & before != 0


def _column(expr: Expr) -> Expr | None:
    """The column in ``c``, ``X.c``, ``FIRST(X.c)`` or ``LAST(X.c)``."""
    if expr.op == "call" and expr.value in ("FIRST", "LAST"):
        expr = expr.args[0].bare()
    return expr if expr.op == "col" else None


@dataclass(frozen=True)
class _Place:
    """Facts about the part of a match before a place of the pattern.

    Attributes:
        certain: mask of the variables that every match reaching the place has mapped.
        first: whether no row comes before.
        possible: mask of the variables that some match has mapped.
    """

    certain: int = 0
    first: bool = True
    possible: int = 0


def _visit(tree: tuple, place: _Place, found: dict[int, list[_Place]]) -> _Place:
    """Collects the places of each variable. Returns the place after ``tree``."""
    parts = [part for part in tree if isinstance(part, tuple)]
    later = replace(place, first=False)
    match tree[0]:
        case "var":
            found.setdefault(tree[1], []).append(place)
            return _Place(place.certain | 1 << tree[1], False, place.possible | 1 << tree[1])
        case "not":
            found.setdefault(tree[1], []).append(later)
        case "cat" | "exclude" | "within":
            return reduce(lambda at, part: _visit(part, at, found), parts, place)
        case "alt":
            ends = [_visit(part, place, found) for part in parts]
            return _Place(reduce(and_, (e.certain for e in ends)), all(e.first for e in ends), reduce(or_, (e.possible for e in ends)))
        case "permute":
            among = replace(later, possible=place.possible | variables_in(tree))
            return _Place(reduce(or_, [_visit(part, among, found).certain for part in parts]), False, among.possible)
        case "repeat":
            again = replace(later, possible=place.possible | variables_in(tree))
            end = _visit(tree.item, place if tree.high == 1 else again, found)
            return end if tree.low > 0 else _Place(place.certain, place.first and end.first, end.possible)
    return place
