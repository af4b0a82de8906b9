"""The interface between rewriter and session: is a clause's table worth a second read, or worth cutting into slices?

``spark/exec/sampling`` and ``spark/stream/frames/program`` implement it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sparkcep.plan.plan import Plan
from sparkcep.sql.prefilter.second_read import Choice
from sparkcep.sql.prefilter.slices import Slicing


@dataclass(frozen=True)
class Question:
    """The clause that a question is about.

    Attributes:
        plan: its plan.
        source: its table as SQL text.
        names: the WITH that makes the table readable on its own; "" if none is needed.
        alone: the clause's own SELECT without the filter. It is analysed first, because no job may run before its errors are known.
    """

    plan: Plan
    source: str
    names: str
    alone: str

    def query(self, select: str) -> str:
        """Returns a query over the source."""
        return f"{self.names}SELECT {select} FROM {self.source}"


class Chooser(Protocol):
    """A session that answers questions."""

    def filter(self, question: Question) -> Choice:
        """Chooses the second read that pays, if there is one. Called if the plan has candidates."""

    def slices(self, question: Question, *, sampled: bool) -> Slicing:
        """Chooses the slices that pay, if there are any. Called if the plan may be cut.

        ``sampled``: whether the session may sample the table.
        """


@dataclass(frozen=True)
class Streamed:
    """A clause that may read a stream.

    Attributes:
        plan: its plan.
        source: its table as SQL text.
        names: as in :class:`Question`; None if the table cannot be read on its own.
        word: the first word of its statement.
        months: the input columns that travel as numbers of months.
    """

    plan: Plan
    source: str
    names: str | None
    word: str
    months: tuple[str, ...] = ()

    @property
    def table(self) -> str:
        """Returns a query of the whole source."""
        return f"{self.names}SELECT * FROM {self.source}"


class Framer(Protocol):
    """A session that builds DataFrames for clauses over streams."""

    def frame(self, asked: Streamed) -> str | None:
        """Returns the name of a DataFrame with the table function's output. Raises ClauseError.

        Returns None if the clause does not read a stream, or if this is unknown.
        """
