"""Answers a question about listed matches row by row. The trace explains rows that no listed match has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace

from sparkcep.draw.timeline import Timeline
from sparkcep.tracing.answers.answer import Why
from sparkcep.tracing.answers.explain import IN_FULL, Asked, explain
from sparkcep.tracing.answers.reasons import Reason
from sparkcep.tracing.answers.values import Values, variable_named
from sparkcep.tracing.kinds.names import ListedNames
from sparkcep.tracing.rows.frozen import FrozenRows


class Explainer(ABC):
    """Answers one question about the rows of a partition.

    Attributes:
        rows, asked, redact, max_steps: as in :func:`sparkcep.tracing.kinds.kinds.explain_rows`.
        question: the clause.
        plan: its plan with all options.
        names: writes rows, matches and scores.
        wanted: the variable that the question expects, None without one.
        reasons: why rows were not taken.
        base: the answers of the trace.
    """

    def __init__(self, rows: FrozenRows, asked: Asked, redact: str, max_steps: int) -> None:
        self.rows, self.asked, self.redact, self.max_steps = rows, asked, redact, max_steps
        self.question, self.names = rows.question, ListedNames(rows, Values(redact))
        assert rows.question.whole is not None
        self.plan = rows.question.whole
        self.wanted: int | None = None
        self.reasons: list[Reason] = []
        self.base: list[Why] = []

    @abstractmethod
    def at(self, row: int) -> list[str]:
        """The answer for one row."""

    @abstractmethod
    def match(self, number: int) -> list[str]:
        """The answer for a match without a row. Raises ClauseError if there is none with this number."""

    def answer(self) -> Why:
        """Answers the question."""
        asked = self.asked
        self.wanted = None if asked.expect is None else variable_named(self.question, asked.expect)
        lines = [] if asked.at else self.match(asked.match or 0)
        timelines: list[Timeline] = []
        for i, row in enumerate(asked.at):
            traced, before = len(self.base), len(lines)
            found = self.at(row)
            lines += found if i < IN_FULL else found[:1]
            if i < IN_FULL:
                timelines += _moved(self.base[traced:], before + len(found))
        wrong = next((why for why in self.base if not why.verified), None)
        if wrong is not None:
            return replace(wrong, question=dict(asked.words))
        return Why(
            dict(asked.words), True, lines[0], tuple(dict.fromkeys([*self.reasons, *(reason for why in self.base for reason in why.reasons)])),
            self.base[0].run if self.base else None, tuple(shown for why in self.base for shown in why.next),
            rows=tuple(row + 1 for row in asked.at), lines=tuple(lines), timelines=tuple(timelines),
        )  # fmt: skip

    def explained(self, row: int) -> list[str]:
        """The lines of the trace about a row."""
        why = explain(self.rows, Asked((row,), None, self.asked.expect, self.asked.words), redact=self.redact, max_steps=self.max_steps)
        self.base.append(why)
        return list(why.lines)


def _moved(traced: Iterable[Why], end: int) -> Iterator[Timeline]:
    """The timelines of answers whose lines are the last ones before a line ``end``."""
    for why in traced:
        yield from (replace(timeline, line=timeline.line + end - len(why.lines)) for timeline in why.timelines)
