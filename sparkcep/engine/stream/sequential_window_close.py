"""Sliding TOP k over sequential (non-overlapping) matches of a stream.

It is :mod:`sparkcep.engine.stream.window_close` for searches whose matches depend on earlier matches: if a match may not begin
inside an earlier one, or if conditions read MATCH_NUMBER().

The search resumes with the state that it had at the first kept row, and stops where future rows decide. A window is emitted when it
has ended and the search has passed its rows. For the remaining windows the search resumes at their first row. If a match lies
across this row, the search resumes after the match.

Example: windows have size 10 and slide 10, and a match has the rows 8 to 12. Window 0 to 10 is emitted, and the next search resumes
at row 13, not at row 10.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.errors import LESS
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.operator import Found, Operator, Step
from sparkcep.engine.core.resume import ResumeState, restored_at_place, resume_schema
from sparkcep.engine.core.state_codec import FAR, IN_TURN, StateColumns, check_numbers
from sparkcep.engine.core.task import Task
from sparkcep.engine.match.enumeration import MatchSearch
from sparkcep.engine.stream.window_close import ClosedWindows, parts_of
from sparkcep.kernels.common import layout


@dataclass(frozen=True)
class SequentialState(ResumeState):
    """The state of a search for sequential matches. ``matched``: int64 (partitions), the number of the last match before the start
    row."""

    numbers: ClassVar[tuple[str, ...]] = (*ResumeState.numbers, "matched")

    matched: np.ndarray


def _restored(columns: StateColumns) -> SequentialState:
    matched = columns.numbers["matched"]
    check_numbers(matched >= 0, matched < FAR)
    return SequentialState.extended(restored_at_place(columns), matched=matched)


_NONE = np.zeros(0, dtype=np.int64)


class SequentialWindowClose(Operator):
    """The operator of sliding TOP k over sequential matches. ``search`` lists the matches."""

    saves, initial = resume_schema(IN_TURN, _restored, SequentialState.numbers), SequentialState.of(_NONE)

    def __init__(self, task: Task, search: MatchSearch) -> None:
        self.task, self.search, self.windows = task, search, ClosedWindows(task)
        self.ends, self.under_way, self.forgetting = self.windows.ends, self.windows.under_way, self.windows.forgetting

    def step(self, chunk: Chunk, state: SequentialState) -> Step:
        """Emits the windows that have ended and that the search has passed, and saves the rows of the others."""
        windows = self.windows
        at = windows.at(chunk, state)
        high, start, passed = chunk.offsets[1:], at.start.copy(), _Passed()
        resume, matched = high.copy(), np.pad(state.matched, (0, chunk.parts - len(state.rows)))
        due = windows.due(at, at.ended)
        if len(due):
            part = replace(parts_of(chunk, due, growing=True), sliding=windows.asked(at, at.ended)[:, due])
            moved = chunk.offsets[due] - part.offsets[:-1]
            known = replace(ResumeState.of(np.diff(part.offsets)), start=start[due] - chunk.offsets[due], number=matched[due])
            matches = self.search.over(part, known)
            found = self._held(matches.best(passed.noted(matches.every())), part)
            resume[due] = np.where(part.going, matches.opens[:, layout.O_START] + moved, high[due])
            closable = replace(part, sliding=windows.asked(at, at.closable(resume))[:, due])
            for some in found:
                yield Found(closable, some)
            passed = passed.moved(due, moved)
        until = at.closable(resume)
        start = np.maximum(start, windows.first_searched(chunk, at.places, until))
        if not self.task.plan.reports_all:  # A match cannot begin inside another one, so the search resumes after it.
            inside = np.flatnonzero((passed.first < start[passed.part]) & (passed.last >= start[passed.part]))
            start[passed.part[inside]] = passed.last[inside] + 1
        before = np.flatnonzero(passed.first < start[passed.part])
        np.maximum.at(matched, passed.part[before], passed.number[before])
        if not self.task.prepared.conditions.number_read:
            matched[:] = 0
        left = windows.left(state, at, start, until, resume)
        return replace(left, state=SequentialState.extended(left.state, matched=matched[chunk.going]))

    def _held(self, found: Iterator[MatchBatch], chunk: Chunk) -> list[MatchBatch]:
        """The matches that may be among the best. They are emitted when it is known how far the search came."""
        held, size = [], 0
        for some in found:
            held.append(some.chosen(np.arange(len(some.events))))  # a copy, because the search reuses its batches
            size += sum(a.nbytes for a in (held[-1].events, held[-1].labels, held[-1].rows, held[-1].paths))
            if size > self.task.limits.max_state_bytes:
                raise self.task.failures.state(int(some.events[0, layout.E_START]), chunk.columns, LESS)
        return held


@dataclass
class _Passed:
    """The matches that a search found. All arrays are int64 (matches).

    Attributes:
        part: the partition.
        first, last: the first and the last row.
        number: the match number.
    """

    part: np.ndarray = field(default_factory=lambda: _NONE)
    first: np.ndarray = field(default_factory=lambda: _NONE)
    last: np.ndarray = field(default_factory=lambda: _NONE)
    number: np.ndarray = field(default_factory=lambda: _NONE)

    def noted(self, rounds: Iterator[MatchBatch]) -> Iterator[MatchBatch]:
        """Notes the matches and passes them on. An empty match counts at the row where it is shown."""
        for found in rounds:
            events = found.events
            last = np.append(found.rows, 0)[np.maximum(events[:, layout.E_LABELS] + events[:, layout.E_ROWS] - 1, 0)]
            more = (events[:, layout.E_PART], events[:, layout.E_START], np.where(events[:, layout.E_ROWS] > 0, last, events[:, layout.E_START]), events[:, layout.E_NUMBER])
            self.part, self.first, self.last, self.number = (np.concatenate(pair) for pair in zip((self.part, self.first, self.last, self.number), more))
            yield found

    def moved(self, parts: np.ndarray, by: np.ndarray) -> _Passed:
        """The matches with the partition numbers ``parts``, and with row numbers raised ``by`` an amount for each partition."""
        return _Passed(parts[self.part], self.first + by[self.part], self.last + by[self.part], self.number)
