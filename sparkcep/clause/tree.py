"""Parse tree of the clause as the user wrote it: frozen, with spans, nothing resolved (LANGUAGE section 1).

``clause/parser`` makes it; the planner, the printer, the formatter and the linter read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkcep.clause.automaton import Automaton
from sparkcep.clause.expressions import Expr
from sparkcep.clause.nodes import Node, Var
from sparkcep.clause.tokens import Span
from sparkcep.errors import SEMANTIC, ClauseError, error_at

ONE_ROW, SHOW_EMPTY, OMIT_EMPTY, WITH_UNMATCHED = "one", "show", "omit", "unmatched"
PAST_LAST, NEXT_ROW, TO_FIRST, TO_LAST = "past_last", "next_row", "first", "last"


def _span() -> Span:
    return field(default=Span(0, 0), compare=False)


@dataclass(frozen=True)
class SortItem:
    expr: Expr
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True)
class Measure:
    expr: Expr
    name: str
    name_span: Span = _span()


@dataclass(frozen=True)
class Skip:
    """AFTER MATCH SKIP. ``mode``: PAST_LAST, NEXT_ROW, TO_FIRST or TO_LAST; ``target``: the variable, for the last two."""

    mode: str
    target: str | None = None
    span: Span = _span()


@dataclass(frozen=True)
class Unfinished:
    """``SHOW what MATCHES [AS OF as_of]``: ``what`` is UNFINISHED or TIMEOUT."""

    what: str
    as_of: Expr | None = None
    span: Span = _span()


@dataclass(frozen=True)
class EventSelection:
    strategy: str  # STRICT, NEXT, ANY
    report: str | None = None  # FIRST, ALL
    span: Span = _span()


@dataclass(frozen=True)
class Window:
    size: Expr
    rows: bool = False
    slide: Expr | None = None
    slide_rows: bool = False
    span: Span = _span()


@dataclass(frozen=True)
class Lifetime:
    """``LIFETIME TO end``: the end of a row's life."""

    end: Expr
    span: Span = _span()


@dataclass(frozen=True)
class Changes:
    """``CHANGES IN column ARRIVAL BY arrival CONSECUTIVE BY consecutive PUNCTUATE BY punctuate``."""

    column: Expr
    arrival: tuple[Expr, ...] = ()
    consecutive: Expr | None = None
    punctuate: Expr | None = None
    span: Span = _span()


@dataclass(frozen=True)
class Report:
    """``REPORT what``: NET or CHANGES."""

    what: str
    span: Span = _span()


@dataclass(frozen=True)
class Speculate:
    """``SPECULATE what``: ALL, NONE, or a ``size``."""

    what: str
    size: Expr | None = None
    span: Span = _span()


@dataclass(frozen=True)
class HistoryTable:
    """``USING HISTORY table [AS PUBLISHED] [SKETCH (depth, width) | SKETCH AUTO cells]``. ``text``: the table's name as written."""

    table: Span = field(compare=False)
    text: str
    published: bool = False
    sketch: tuple[Expr, ...] = ()  # depth and width, or cells
    span: Span = _span()


@dataclass(frozen=True)
class Budget:
    """``BUDGET checks CHECKS [USING HISTORY ... [EXPLORE]]``."""

    checks: Expr
    history: HistoryTable | None = None
    explore: bool = False
    span: Span = _span()


@dataclass(frozen=True)
class Approx:
    """APPROX and its options.

    Attributes:
        k: the number of errors.
        weights: (name, weight) of each weight.
        report: PROXY, PER ERROR (a variant of it), ALL, BUNDLES or HISTORY.
        runs: which runs a history counts, PROXY or ALL.
        intervals: the number of intervals of a history.
        budget: the BUDGET.
        parts: the places of WEIGHTS, the report and BUDGET.
        span: its place.
    """

    k: Expr
    weights: tuple[tuple[str, Expr], ...] = ()
    report: str | None = None
    runs: str | None = None
    intervals: Expr | None = None
    budget: Budget | None = None
    parts: tuple[Span, ...] = field(default=(), compare=False, repr=False)  # places of WEIGHTS, the report and BUDGET
    span: Span = _span()


@dataclass(frozen=True)
class Preference:
    objectives: tuple[tuple[str, Expr], ...]  # (MAX | MIN, expression)
    combine: str | None = None
    span: Span = _span()


@dataclass(frozen=True)
class Top:
    k: Expr
    scope: str | None = None  # PARTITION, OVERALL
    span: Span = _span()


@dataclass(frozen=True)
class Subset:
    name: str
    members: tuple[Var, ...]
    span: Span = _span()


@dataclass(frozen=True)
class Define:
    variable: str
    condition: Expr
    span: Span = _span()


@dataclass(frozen=True)
class MatchClause:
    """The text between the parentheses of MATCH_RECOGNIZE, as a tree.

    ``text`` is the statement that all spans refer to. With an ``automaton`` the pattern is empty.
    """

    pattern: Node
    partition_by: tuple[Expr, ...] = ()
    order_by: tuple[SortItem, ...] = ()
    measures: tuple[Measure, ...] = ()
    rows: str = ONE_ROW
    unfinished: Unfinished | None = None
    skip: Skip | None = None
    selection: EventSelection | None = None
    window: Window | None = None
    approx: Approx | None = None
    pref: Preference | None = None
    top: Top | None = None
    subsets: tuple[Subset, ...] = ()
    defines: tuple[Define, ...] = ()
    automaton: Automaton | None = None
    lifetime: Lifetime | None = None
    changes: Changes | None = None
    report: Report | None = None
    speculate: Speculate | None = None
    words: tuple[Span, ...] = field(default=(), compare=False, repr=False)  # see clause/possible_columns
    parameters: Mapping[str, object] = field(default_factory=dict, compare=False, repr=False)  # see Cursor
    text: str = field(default="", compare=False, repr=False)
    span: Span = _span()

    def expressions(self) -> list[Expr]:
        """All expressions of the clause, over the input's rows and over the rows of a match."""
        found = [*self.partition_by, *(item.expr for item in self.order_by), *(measure.expr for measure in self.measures)]
        found += [expr for _, expr in self.pref.objectives] if self.pref is not None else []
        found += [self.unfinished.as_of] if self.unfinished is not None and self.unfinished.as_of is not None else []
        found += [self.lifetime.end] if self.lifetime is not None else []
        if self.changes is not None:
            found += [expr for expr in (self.changes.column, *self.changes.arrival, self.changes.consecutive, self.changes.punctuate) if expr is not None]
        found += self.automaton.expressions() if self.automaton is not None else []
        return [*found, *(define.condition for define in self.defines)]

    def error(self, span: Span, error_class: str, message: str, sqlstate: str = SEMANTIC) -> ClauseError:
        """An error at a place of the clause."""
        return error_at(self.text, span.start, span.end, error_class, message, sqlstate)
