"""Writes rows, matches and scores of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sparkcep.draw.timeline import Timeline
from sparkcep.errors import SEMANTIC, ClauseError, offered
from sparkcep.tracing.answers.answer import Why
from sparkcep.tracing.answers.values import Values
from sparkcep.tracing.conditions.question import WHY, Question
from sparkcep.tracing.kinds.listing import Listed
from sparkcep.tracing.rows.frozen import FrozenRows

EXTRA_LABEL = "-"


class Names:
    """Writes rows by their numbers and first ORDER BY keys, and matches by their rows and variables."""

    def __init__(self, rows: FrozenRows, values: Values) -> None:
        self.rows, self.values, self.question = rows, values, rows.question
        self.plan = rows.question.plan

    @property
    def partition(self) -> str:
        """The keys of the partition, "" without PARTITION BY."""
        return " and ".join(f"{key.name} = {self.values.text(self.rows.column(key.column)[0], kind='k')}" for key in self.plan.partition)

    def row(self, row: int) -> str:
        """A row with its first ORDER BY key."""
        if not self.plan.order:
            return f"row {row + 1}"
        key = self.plan.order[0]
        return f"row {row + 1} ({key.name} {self.values.text(self.rows.column(key.column)[row], quoted=False)})"

    def head(self, row: int) -> str:
        """A row at the beginning of an answer."""
        return "R" + self.row(row)[1:] + (f" of {self.partition}" if self.partition else "")

    def labels(self, variables: Sequence[int]) -> str:
        """The names of variables; more than three equal ones as a number."""
        found: list[tuple[int, int]] = []
        for variable in variables:
            if found and found[-1][0] == variable:
                found[-1] = (variable, found[-1][1] + 1)
            else:
                found.append((variable, 1))
        named = [(self.question.name(v) if v >= 0 else EXTRA_LABEL, n) for v, n in found]
        return " ".join(f"{name} x{n}" if n > 3 else " ".join([name] * n) for name, n in named)

    def match(self, match: Listed) -> str:
        """A match: its rows, and their variables in parentheses."""
        if not match.rows:
            return "an empty match"
        return f"{span(match.rows)} ({self.labels(match.variables)})"

    def value(self, value: Any) -> str:
        """A score, or another value."""
        return self.values.text(value)


def span(rows: Sequence[int]) -> str:
    """Rows by their numbers, such as ``rows 1-3 and 7``."""
    pieces: list[list[int]] = []
    for row in rows:
        if pieces and row == pieces[-1][1] + 1:
            pieces[-1][1] = row
        else:
            pieces.append([row, row])
    texts = [str(first + 1) if first == last else f"{first + 1}-{last + 1}" for first, last in pieces]
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(texts[:-1])}{' and ' if len(texts) > 1 else ''}{texts[-1]}"


def variable_named(question: Question, expect: str) -> int:
    """The variable that ``expect`` names. Raises ClauseError of class WHY if there is none."""
    variable = question.scope.ids.get(expect.lower())
    if variable is None:
        message = f"expect={expect!r} is not a variable of PATTERN{offered(expect, question.plan.variables)}"
        raise ClauseError(WHY, message, sqlstate=SEMANTIC)
    return variable


def no_match(number: int, count: int, there: str = "") -> ClauseError:
    """The error for a match that does not exist. ``there``: what the partition has, by default the ``count`` of its matches."""
    instead = f"Write match=1{f' to match={count}' if count > 1 else ''}" if count else "Ask about a row with at"
    return ClauseError(WHY, f"match={number}: the partition has {there or counted(count, 'match')}. {instead}", sqlstate=SEMANTIC)


def moved(traced: Iterable[Why], end: int) -> Iterator[Timeline]:
    """The timelines of answers whose lines are the last ones before a line ``end``."""
    for why in traced:
        yield from (replace(timeline, line=timeline.line + end - len(why.lines)) for timeline in why.timelines)


def counted(count: int, what: str) -> str:
    """A number of things."""
    plural = f"{what}es" if what.endswith("ch") else f"{what}s"
    return f"{count:,} {what if count == 1 else plural}"
