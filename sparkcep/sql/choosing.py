"""What the rewriter asks of a session: whether a clause's table is worth filtering by a second read, or cutting into slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sparkcep.plan.plan import Plan
from sparkcep.sql.semijoin import Choice
from sparkcep.sql.slices import Slicing


@dataclass(frozen=True)
class Question:
    """What a choice is made of.

    ``source``: the clause's table, as SQL text; ``names``: the WITH, or nothing, under which that can be read by itself; ``alone``: the
    clause's own SELECT without the filter, of which no job may run before its errors are known.
    """

    plan: Plan
    source: str
    names: str
    alone: str

    def query(self, select: str) -> str:
        """A query over the source."""
        return f"{self.names}SELECT {select} FROM {self.source}"


class Chooser(Protocol):
    """A session that can be asked."""

    def filter(self, question: Question) -> Choice:
        """The second read that pays, if any; asked where the plan has candidates."""

    def slices(self, question: Question, *, sampled: bool) -> Slicing:
        """The slices that pay, if any; asked where the plan may be cut. ``sampled``: whether a sample of the table may be taken."""
