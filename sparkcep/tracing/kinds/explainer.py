"""Answers a question about listed matches row by row. The trace may explain rows that no listed match has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace

from sparkcep.draw.timeline import Timeline
from sparkcep.tracing.answers.answer import Shown, ShownRun, Why
from sparkcep.tracing.answers.explain import IN_FULL, Asked, explain
from sparkcep.tracing.answers.reasons import Reason
from sparkcep.tracing.answers.values import Values, variable_named
from sparkcep.tracing.kinds.names import ListedNames
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.search.trace import MAX_STEPS


class Explainer(ABC):
    """Answers one question about the rows of a partition.

    Attributes:
        plan: the plan of the clause with all options.
        wanted: the variable that the user expects.
        run, shown: the run and the comparisons of the answer.
        traces: the answers of the trace.
    """

    def __init__(self, rows: FrozenRows, asked: Asked, redact: str, max_steps: int = MAX_STEPS) -> None:
        self.rows, self.asked, self.redact, self.max_steps = rows, asked, redact, max_steps
        self.question, self.names = rows.question, ListedNames(rows, Values(redact))
        self.plan = rows.question.whole or rows.question.plan
        self.wanted: int | None = None
        self.reasons: list[Reason] = []
        self.run: ShownRun | None = None
        self.shown: list[Shown] = []
        self.traces: list[Why] = []

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
            traced, before = len(self.traces), len(lines)
            found = self.at(row)
            lines += found if i < IN_FULL else found[:1]
            if i < IN_FULL:
                timelines += _moved(self.traces[traced:], before + len(found))
        wrong = next((why for why in self.traces if not why.verified), None)
        if wrong is not None:
            return replace(wrong, question=dict(asked.words))
        return Why(
            dict(asked.words), True, lines[0], tuple(dict.fromkeys([*self.reasons, *(reason for why in self.traces for reason in why.reasons)])),
            self.run, tuple(self.shown),
            rows=tuple(row + 1 for row in asked.at), lines=tuple(lines), timelines=tuple(timelines),
        )  # fmt: skip

    def explained(self, row: int) -> list[str]:
        """The lines of the trace about a row."""
        why = explain(self.rows, Asked((row,), None, self.asked.expect, self.asked.words), redact=self.redact, max_steps=self.max_steps)
        self.run = self.traces[0].run if self.traces else why.run
        self.shown += why.next
        self.traces.append(why)
        return list(why.lines)


def _moved(traced: Iterable[Why], end: int) -> Iterator[Timeline]:
    """The timelines of answers whose lines are the last ones before a line ``end``."""
    for why in traced:
        yield from (replace(timeline, line=timeline.line + end - len(why.lines)) for timeline in why.timelines)
