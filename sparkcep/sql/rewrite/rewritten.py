"""The rewriter's result for each clause of a statement: its plan, and where it stood."""

from __future__ import annotations

from dataclasses import dataclass

from sparkcep.clause.tokens import Span
from sparkcep.clause.tree import MatchClause
from sparkcep.plan.plan import Plan
from sparkcep.sql.prefilter.second_read import UNFILTERED, Choice
from sparkcep.sql.prefilter.slices import WHOLE, Slicing


@dataclass(frozen=True)
class Origin:
    """The place of a clause in the statement:
    ``whole`` with its table, and the ``table`` alone. The clause's own spans count from ``base``.

    A clause in a string has that string as its ``literal``, which is the place of all that has no place inside. ``lead`` is the
    number of characters ahead of the table's text where it was copied.
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
        """A span of the clause in the statement."""
        if self.literal is not None and (self.base is None or self.base + span.start <= self.literal.start):
            return self.literal
        return Span(span.start + (self.base or 0), span.end + (self.base or 0))


@dataclass(frozen=True)
class Rewritten:
    """One clause of a statement: its AST, its plan, the table function's input, the subquery that replaced it, the table before it,
    and where it stands.

    ``choice``: why it was replaced or left to the platform's own clause; empty where the settings leave no choice. ``native``:
    whether it was left, ``sql`` then being its own text. ``filtering``: whether its input is filtered by a second read of the
    table; ``slicing``: whether it is cut into slices.
    """

    clause: MatchClause
    plan: Plan
    input: str
    sql: str
    source: str
    origin: Origin
    choice: str = ""
    native: bool = False
    filtering: Choice = UNFILTERED
    slicing: Slicing = WHOLE
