"""The questions that the rewriter asks a session: is a clause's table worth filtering by a second read, or cutting into slices?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sparkcep.plan.plan import Plan
from sparkcep.sql.prefilter.second_read import Choice
from sparkcep.sql.prefilter.slices import Slicing


@dataclass(frozen=True)
class Question:
    """The clause of which a session is asked.

    ``source`` is the clause's table as SQL text. ``names`` is the WITH, or nothing, under which that table can be read by itself.
    ``alone`` is the clause's own SELECT without the filter: no job may run before its errors are known.
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
        """Chooses the second read that pays, if there is one. It is asked where the plan has candidates."""

    def slices(self, question: Question, *, sampled: bool) -> Slicing:
        """Chooses the slices that pay, if there are any. It is asked where the plan may be cut. ``sampled`` says whether it may
        take a sample of the table."""


@dataclass(frozen=True)
class Streamed:
    """A clause that may read a stream: its plan, ``source`` and ``names`` as of a :class:`Question`, and the first ``word`` of its
    statement. ``names`` is None where the table cannot be read by itself. ``months``: input columns that travel as numbers of
    months."""

    plan: Plan
    source: str
    names: str | None
    word: str
    months: tuple[str, ...] = ()

    @property
    def table(self) -> str:
        """A query of the source alone."""
        return f"{self.names}SELECT * FROM {self.source}"


class Framer(Protocol):
    """A session that makes data frames of clauses over streams."""

    def frame(self, asked: Streamed) -> str | None:
        """The name of a data frame with the rows that the table function would give; None for a clause over no stream, or one of
        which this cannot be told. Raises ClauseError."""
