"""The rewriter's result for each clause of a statement: its plan, its text and its position.

EXPLAIN, pictures, reports and the source map read it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkcep.clause.tokens import Span
from sparkcep.clause.tree import MatchClause
from sparkcep.plan.plan import Plan
from sparkcep.sql.prefilter.second_read import UNFILTERED, Choice
from sparkcep.sql.prefilter.slices import WHOLE, Slicing


@dataclass(frozen=True)
class Origin:
    """The position of a clause in the statement.

    Attributes:
        whole: the clause with its table.
        table: the table alone.
        base: the offset that the clause's own spans count from.
        literal: the string that contains the clause, if any. It is the position of anything without a position inside.
        lead: the number of characters before the table's text in its copy.
    """

    whole: Span
    table: Span
    base: int | None = 0
    literal: Span | None = None
    lead: int = 0

    def shifted(self, by: int) -> Origin:
        def moved(span: Span) -> Span:
            return Span(span.start + by, span.end + by)

        base = None if self.base is None else self.base + by
        return Origin(moved(self.whole), moved(self.table), base, None if self.literal is None else moved(self.literal), self.lead)

    def place(self, span: Span) -> Span:
        """Returns a span of the clause as a span of the statement."""
        if self.literal is not None and (self.base is None or self.base + span.start <= self.literal.start):
            return self.literal
        return Span(span.start + (self.base or 0), span.end + (self.base or 0))


@dataclass(frozen=True)
class Rewritten:
    """One clause of a statement.

    Attributes:
        clause: its AST.
        plan: its plan.
        input: a query of the table function's input, with the statement's WITH. It lacks the WITH of an inner query.
        sql: the subquery that replaced it.
        source: the table before it.
        origin: its position.
        filtering: the choice about a second read of the table.
        slicing: the choice about time slices.
    """

    clause: MatchClause
    plan: Plan
    input: str
    sql: str
    source: str
    origin: Origin
    filtering: Choice = UNFILTERED
    slicing: Slicing = WHOLE
