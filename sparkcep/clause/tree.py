"""Parse tree of the clause as the user wrote it: frozen, with spans, nothing resolved (LANGUAGE section 1).

``clause/parser`` makes it; the planner, the printer, the formatter and the linter read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkcep.clause.automaton import Automaton
from sparkcep.clause.expressions import Expr
from sparkcep.clause.nodes import Node, Var, walk
from sparkcep.clause.tokens import Span, span_field
from sparkcep.errors import SEMANTIC, ClauseError, error_at

ONE_ROW, SHOW_EMPTY, OMIT_EMPTY, WITH_UNMATCHED = "one", "show", "omit", "unmatched"
PAST_LAST, NEXT_ROW, TO_FIRST, TO_LAST = "past_last", "next_row", "first", "last"


@dataclass(frozen=True)
class SortItem:
    expr: Expr
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True)
class Measure:
    expr: Expr
    name: str
    name_span: Span = span_field()


@dataclass(frozen=True)
class Skip:
    """AFTER MATCH SKIP. ``mode``: PAST_LAST, NEXT_ROW, TO_FIRST or TO_LAST; ``target``: the variable, for the last two."""

    mode: str
    target: str | None = None
    span: Span = span_field()


@dataclass(frozen=True)
class Unfinished:
    """``SHOW what MATCHES [AS OF as_of]``: ``what`` is UNFINISHED or TIMEOUT."""

    what: str
    as_of: Expr | None = None
    span: Span = span_field()


@dataclass(frozen=True)
class EventSelection:
    strategy: str  # STRICT, NEXT, ANY
    report: str | None = None  # FIRST, ALL
    span: Span = span_field()


@dataclass(frozen=True)
class Window:
    size: Expr
    rows: bool = False
    slide: Expr | None = None
    slide_rows: bool = False
    span: Span = span_field()


@dataclass(frozen=True)
class Lifetime:
    """``LIFETIME TO end``: the end of a row's life."""

    end: Expr
    span: Span = span_field()


@dataclass(frozen=True)
class Changes:
    """``CHANGES IN column ARRIVAL BY arrival CONSECUTIVE BY consecutive PUNCTUATE BY punctuate``."""

    column: Expr
    arrival: tuple[Expr, ...] = ()
    consecutive: Expr | None = None
    punctuate: Expr | None = None
    span: Span = span_field()


@dataclass(frozen=True)
class Report:
    """``REPORT what``: NET or CHANGES.

    Attributes:
        punctuations: WITH PUNCTUATIONS.
    """

    what: str
    punctuations: bool = False
    span: Span = span_field()


@dataclass(frozen=True)
class Speculate:
    """``SPECULATE what``: ALL, NONE, or a ``size``."""

    what: str
    size: Expr | None = None
    span: Span = span_field()


@dataclass(frozen=True)
class HistoryTable:
    """``USING HISTORY table [REFILL [m BUNDLES]] [AS PUBLISHED] [SKETCH (depth, width) | SKETCH AUTO cells]``.

    Attributes:
        table, text: the place of the table's name, and the name as written.
        published: whether AS PUBLISHED is written.
        sketch: depth and width, or cells.
        refill: whether REFILL is written.
        bundles: its number of bundles.
    """

    table: Span = field(compare=False)
    text: str
    published: bool = False
    sketch: tuple[Expr, ...] = ()
    refill: bool = False
    bundles: Expr | None = None
    span: Span = span_field()


@dataclass(frozen=True)
class Budget:
    """``BUDGET {amount CHECKS | amount PER {ROW | PARTITION | BATCH}} [USING HISTORY ... [EXPLORE]]``.

    Attributes:
        amount: a number of checks, or with ``per`` an interval.
        per: ROW, PARTITION or BATCH: the scope of the interval.
        history: the table of USING HISTORY.
        explore: whether EXPLORE is written.
    """

    amount: Expr
    per: str | None = None
    history: HistoryTable | None = None
    explore: bool = False
    span: Span = span_field()


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
    span: Span = span_field()


@dataclass(frozen=True)
class Preference:
    """PREF of the clause or of a sequence.

    Attributes:
        objectives: (MAX | MIN, expression) of each objective. None with ``sequences``.
        combine: the function of COMBINE BY.
        names: of a sequence, the name of each objective, None for an objective without one.
        sequences: whether it is ``PREF SEQUENCES``.
        weights: (sequence, weight) of ``PREF SEQUENCES WEIGHTS``.
        name_spans: the places of the names, and of the sequences in WEIGHTS.
        span: its place.
    """

    objectives: tuple[tuple[str, Expr], ...]
    combine: str | None = None
    names: tuple[str | None, ...] = ()
    sequences: bool = False
    weights: tuple[tuple[str, Expr], ...] = ()
    name_spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)
    span: Span = span_field()


@dataclass(frozen=True)
class Sequence:
    """``SEQUENCE name AS (pattern) [WITHIN size [UPDATE step]] [PREF ...]``: a named part of PATTERN.

    ``rows`` and ``step_rows``: the size and the step count rows.
    """

    name: str
    pattern: Node
    size: Expr | None = None
    rows: bool = False
    step: Expr | None = None
    step_rows: bool = False
    pref: Preference | None = None
    name_span: Span = span_field()
    span: Span = span_field()


@dataclass(frozen=True)
class Top:
    k: Expr
    scope: str | None = None  # PARTITION, OVERALL
    span: Span = span_field()


@dataclass(frozen=True)
class Subset:
    name: str
    members: tuple[Var, ...]
    span: Span = span_field()


@dataclass(frozen=True)
class Define:
    variable: str
    condition: Expr
    span: Span = span_field()


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
    sequences: tuple[Sequence, ...] = ()
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
    span: Span = span_field()

    def expressions(self) -> list[Expr]:
        """All expressions of the clause, over the input's rows and over the rows of a match."""
        found = [*self.partition_by, *(item.expr for item in self.order_by), *(measure.expr for measure in self.measures)]
        found += [expr for pref in self.preferences() for _, expr in pref.objectives]
        found += [self.unfinished.as_of] if self.unfinished is not None and self.unfinished.as_of is not None else []
        found += [self.lifetime.end] if self.lifetime is not None else []
        if self.changes is not None:
            found += [expr for expr in (self.changes.column, *self.changes.arrival, self.changes.consecutive, self.changes.punctuate) if expr is not None]
        found += self.automaton.expressions() if self.automaton is not None else []
        return [*found, *(define.condition for define in self.defines)]

    def no_columns(self) -> list[tuple[Span, str]]:
        """The places of words that were not read as columns, and of the names of objectives with the names of their sequences."""
        named = [(sequence, sequence.pref) for sequence in self.sequences if sequence.pref is not None]
        objectives = [(span, sequence.name) for sequence, pref in named for name, span in zip(pref.names, pref.name_spans) if name is not None]
        return [*((span, "") for span in self.words), *objectives]

    def variables(self) -> list[Var]:
        """The variables of PATTERN and of sequences, and the names of sequences in PATTERN, in the order of the text."""
        patterns = (self.pattern, *(sequence.pattern for sequence in self.sequences))
        return sorted((node for pattern in patterns for node in walk(pattern) if isinstance(node, Var)), key=lambda node: node.span.start)

    def preferences(self) -> list[Preference]:
        """The preferences of the sequences, then that of the clause."""
        return [pref for pref in (*(sequence.pref for sequence in self.sequences), self.pref) if pref is not None]

    def error(self, span: Span, error_class: str, message: str, sqlstate: str = SEMANTIC) -> ClauseError:
        """An error at a place of the clause."""
        return error_at(self.text, span.start, span.end, error_class, message, sqlstate)
