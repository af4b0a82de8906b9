"""Timelines of traced rows: values, the run of a question with its places, the rows that were refused, and the matches."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from sparkcep.draw.timeline import ASKED, NO, UNKNOWN, Bar, Lane, Mark, Timeline
from sparkcep.tracing.forms.lines import COMPARISON, Line
from sparkcep.tracing.rows.frozen import FrozenRows, shown_column
from sparkcep.tracing.search.runs import Ended
from sparkcep.tracing.search.trace import Match, Trace

MOST_BARS = 6
_FITTING = 16  # rows that fit on a screen
_BESIDE = 3  # rows that are shown before and after a run, and after its first row
_TAIL = 5  # rows that are shown before the last one of a long run


@dataclass(frozen=True)
class Pictured:
    """The part of a trace that a timeline shows.

    Attributes:
        line: the number of the answer's line that the timeline belongs to.
        about: its title.
        run: the run or match whose rows have their places.
        ended: the row that ended it, None without one.
        asked: the row that the question is about, None without one.
        refused: for each place that could have come where the run ended, why it did not.
        lost: a match with the row that AFTER MATCH passed over.
    """

    line: int
    about: str
    run: Ended | Match | None = None
    ended: int | None = None
    asked: int | None = None
    refused: Mapping[int, str] = field(default_factory=dict)
    lost: Match | None = None


class Timelines:
    """Makes timelines of the rows of one partition.

    Args:
        rows: the rows.
        trace: their trace.
        text: writes a value, perhaps redacted.
        redact: the level of redaction. A redacted timeline lacks the line. At level "all" it has the ORDER BY key alone.
    """

    def __init__(self, rows: FrozenRows, trace: Trace, text: Callable[[Any], str], redact: str) -> None:
        self.rows, self.trace, self.text, self.redact = rows, trace, text, redact
        self.question = rows.question

    def of_run(self, shown: Pictured, lines: Sequence[str]) -> Timeline:
        """The timeline of a run.

        Args:
            shown: the run.
            lines: the lines of its answer. Their comparisons become the marks of refused rows.
        """
        run = shown.run
        rows = () if run is None else run.rows
        around = [*rows, *(row for row in (shown.ended, shown.asked) if row is not None), *(shown.lost.rows if shown.lost else ())]
        listed = chosen(around, self.rows.count, asked=shown.asked, first=self.rows.first)
        bars, left_out = self._bars(listed, run if isinstance(run, Match) else None)
        return Timeline(
            about=shown.about,
            line=shown.line,
            rows=tuple(row + 1 for row in listed),
            last=self.rows.size,
            values=tuple(self._values(listed)),
            series=self._series(listed),
            lanes=tuple(self._lanes(shown, lines)),
            run=tuple(row + 1 for row in rows),
            run_name=f"match {run.number}" if isinstance(run, Match) else "this run",
            asked=0 if shown.asked is None else shown.asked + 1,
            ended=0 if shown.ended is None else shown.ended + 1,
            bars=bars if shown.lost is None else (*bars, self._bar("lost match", shown.lost, listed)),
            left_out=left_out,
        )

    def of_way(self, line: int, about: str, labels: Mapping[int, str], wrong: Mapping[int, str]) -> Timeline:
        """The small timeline of a way that nearly matches: ``labels`` and ``wrong`` are by row, from 0."""
        listed = chosen([*labels, *wrong], self.rows.count, beside=1, first=self.rows.first)
        way = Bar("this way", {row + 1: label for row, label in labels.items()}, {row + 1: words for row, words in wrong.items()})
        return Timeline(about, line, tuple(row + 1 for row in listed), self.rows.size, tuple(self._values(listed)), bars=(way,))

    # -- parts ----------------------------------------------------------------------------------------------

    def _columns(self) -> dict[str, str]:
        """The columns that are shown: the first ORDER BY key, those of DEFINE, and those of ``show``."""
        order = self.question.plan.order[:1]
        found = {key.name: key.column for key in order}
        if self.redact != "all":
            found |= {name: column for name, column in self.question.named if name not in found}
            found |= {name: shown_column(i) for i, name in enumerate(self.rows.shown)}
        return found

    def _values(self, listed: Sequence[int]) -> Iterable[tuple[str, tuple[str | None, ...]]]:
        for name, column in self._columns().items():
            values = [self.rows.column(column)[row] for row in listed]
            texts = [None if value is None else self.text(value) for value in values]
            if not self.redact and all(value is None or isinstance(value, datetime.datetime) for value in values):
                name, texts = _of_one_day(name, texts)
            yield name, tuple(texts)

    def _series(self, listed: Sequence[int]) -> tuple[str, tuple[float | None, ...]] | None:
        if self.redact:
            return None
        for name, column in self.question.named:
            values = [self.rows.column(column)[row] for row in listed]
            if all(value is None or _is_number(value) for value in values):
                numbers = [None if value is None or not math.isfinite(value) else float(value) for value in values]
                if len({number for number in numbers if number is not None}) > 1:
                    return name, tuple(numbers)
        return None

    def _lanes(self, shown: Pictured, lines: Sequence[str]) -> Iterable[Lane]:
        """The places of the pattern. The comparisons of a refused row are the words of its marks."""
        places = self.trace.pattern.program.places
        words: dict[tuple[str, int], list[Line]] = {}
        for line in lines:
            if isinstance(line, Line) and line.kind == COMPARISON:
                words.setdefault((line.cells[0], line.row), []).append(line)
        run = shown.run
        taken: dict[int, set[int]] = {}
        for row, place in zip(run.rows, run.places, strict=True) if run is not None else ():
            taken.setdefault(place, set()).add(row + 1)
        for place, variable in enumerate(places):
            name, marks = self.question.name(variable), {}
            for (of, row), listed in words.items():
                if of == name and (not shown.refused or row != (shown.ended or 0) + 1 or place in shown.refused):
                    marks[row] = Mark(
                        _sign(listed),
                        "; ".join(
                            f"{line.cells[1]}: {line.cells[2]}: {line.cells[3]}"
                            if line.cells[2]
                            else f"{line.cells[1]}: {line.cells[3]}"
                            for line in listed
                        ),
                    )
            reason = shown.refused.get(place, "")
            if shown.ended is not None and shown.ended < self.rows.count and reason and reason != "CONDITION":
                marks.setdefault(shown.ended + 1, Mark(NO, reason))
            yield Lane(name, frozenset(taken.get(place, ())), marks)

    def _bar(self, name: str, match: Match, listed: Sequence[int]) -> Bar:
        """The rows of a match that are shown."""
        shown = set(listed)
        taken = zip(match.rows, match.variables, strict=True)
        return Bar(name, {row + 1: self.question.name(variable) for row, variable in taken if row in shown})

    def _bars(self, listed: Sequence[int], without: Match | None) -> tuple[tuple[Bar, ...], int]:
        """The matches with a row that is shown."""
        found = [
            bar
            for match in self.trace.matches
            if (without is None or match.number != without.number)
            and (bar := self._bar(f"match {match.number}", match, listed)).labels
        ]
        return tuple(found[:MOST_BARS]), max(0, len(found) - MOST_BARS)


def _of_one_day(name: str, texts: list[str | None]) -> tuple[str, list[str | None]]:
    """Times of one day without the day, which goes to the name."""
    days = {text[:10] for text in texts if text is not None}
    if len(days) != 1:
        return name, texts
    return f"{name}, {days.pop()}", [None if text is None else text[11:] for text in texts]


def _sign(listed: Sequence[Line]) -> str:
    """The sign of a row with these comparisons."""
    if listed[0].role == "expected":
        return ASKED
    results = [line.cells[3] for line in listed if line.marked] or [line.cells[3] for line in listed]
    return UNKNOWN if "NULL" in results else NO


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def chosen(around: Sequence[int], count: int, beside: int = _BESIDE, asked: int | None = None, first: int = 0) -> list[int]:
    """The rows of a partition that are shown: all of a short one, else those around a run, of a long run its ends.

    Args:
        around: the rows of the run, and the rows that the question is about; the partition's number of rows is its end.
        count: the number of rows.
        beside: how many rows are shown before and after them.
        asked: a row inside of the run that is shown, too.
        first: the first row that is known.
    """
    low, high = min(around, default=0), min(max(around, default=0), count - 1)
    whole = range(max(first, low - beside), min(count, high + beside + 1))
    if beside == _BESIDE and count - first <= _FITTING:
        return list(range(first, count))
    if len(whole) <= _FITTING:
        return list(whole)
    ends = (*range(low - beside, low + _BESIDE + 1), *range(high - _TAIL, high + beside + 1))
    middle = () if asked is None else range(asked - _BESIDE, asked + _BESIDE + 1)
    return sorted({row for row in (*ends, *middle) if first <= row < count})
