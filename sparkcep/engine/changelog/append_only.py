"""Append-only fast path of the changelog: if no change can retract a match, one pass over the rows yields the changelog.

The class :class:`sparkcep.engine.changelog.changelog.Changelog` uses it for the partitions to which it applies. So ordered input
does not pay for disorder (AFA paper, section 5.3, AFA+O). Each match is inserted with the last of its rows to arrive.

A partition is append-only if rows are only inserted, and no change of an arc reaches back to rows that have arrived. In addition
the rows arrive in their order, or all of them have ascending numbers of CONSECUTIVE BY. A run that steps from a number to the next
one never steps over a place where a row may still arrive. If equal matches may end at different rows, such numbers do not suffice.
The clause must speculate on all rows and may not have arcs ON EXPIRY or WITH PUNCTUATIONS.

Example: rows with the numbers 1, 3 and 2 of CONSECUTIVE BY arrive. A match of rows 1 to 3 is inserted by the arrival of row 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import null_marks, range_extremes, words
from sparkcep.engine.automaton.register_runs import RegisterRuns
from sparkcep.engine.changelog.input_changes import INSERT, RETRACT, InputChanges, NetReport, changed_by, taken
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch, together
from sparkcep.engine.core.operator import Found
from sparkcep.engine.core.task import Task
from sparkcep.engine.output.repeated_match_id import logged
from sparkcep.kernels.common import layout


class AppendOnly:
    """Makes the changelog of append-only partitions."""

    def __init__(self, task: Task, search: RegisterRuns) -> None:
        self.task, self.search, self.net = task, search, NetReport(task, search)

    def partitions(self, chunk: Chunk, turns: InputChanges, absent: np.ndarray) -> np.ndarray:
        """Whether each partition is append-only. bool (partitions).

        ``absent``: bool (rows), whether the row does not have a time.
        """
        changes = self.task.plan.changes
        if changes.speculate != "ALL" or self.search.expires or self.task.plan.punctuates:
            return np.zeros(chunk.parts, dtype=bool)
        undoing = turns.kinds == RETRACT
        if turns.arcs is not None:
            undoing |= turns.arcs.reaching_back
        undone = np.bincount(chunk.partition_of(np.flatnonzero(undoing)), minlength=chunk.parts) > 0
        there = (turns.kinds == INSERT) & ~absent
        rows = turns.order[there[turns.order]]
        foreseen = _rising(rows, rows, chunk)
        if changes.consecutive and not self.search.runs.repeats:  # a later computation of a match may be complete earlier
            rows = np.flatnonzero(there)
            numbers, null = words(chunk.columns[changes.consecutive]).astype(np.int64), null_marks(chunk.columns[changes.consecutive]) == 1
            holes = np.bincount(chunk.partition_of(rows[null[rows]]), minlength=chunk.parts) > 0
            foreseen |= _rising(rows, numbers[rows], chunk) & ~holes
        return foreseen & ~undone

    def answer(self, chunk: Chunk, turns: InputChanges, parts: np.ndarray) -> Iterator[Found]:
        """The insertions of matches of the partitions ``parts``."""
        rows = np.flatnonzero((turns.kinds == INSERT) & parts[chunk.partition_of(np.arange(chunk.rows))])
        some = taken(chunk if turns.arcs is None else self.net.placed(chunk, turns, turns.arcs), rows)
        came = np.empty(chunk.rows, dtype=np.int64)
        came[turns.order] = np.arange(chunk.rows)
        came, held = came[rows], {}
        if (np.diff(came) > 0).all():  # The rows arrived in order, so each match is inserted by its last row.
            for found in self.search.rounds(some):
                described = self._with_changes(some, found, found.events[:, layout.E_START] + found.events[:, layout.E_ROWS] - 1)
                yield Found(some, logged(self.task, some, self.search.output.described(described), held))
            return
        rounds = [(found.events, self.search.output.described(found)) for found in self.search.rounds(some)]
        found = together([described for _, described in rounds])
        read = np.concatenate([events for events, _ in rounds])  # the rows that computations read
        place, first = np.empty(chunk.rows, dtype=np.int64), read[:, layout.E_START]
        place[came] = np.arange(len(came))
        cause = place[range_extremes(np.maximum, came, first, first + read[:, layout.E_ROWS], -1)]  # the row of each that arrived last
        events = found.events
        order = np.lexsort((came[cause], events[:, layout.E_PART]))
        events, cause = events[order], cause[order]
        of = events[:, layout.E_PART]
        first = np.searchsorted(of, of)
        events[:, layout.E_NUMBER] = np.arange(1, len(of) + 1) - first
        by_event = {name: values.take(pa.array(order)) for name, values in found.by_event.items()}
        changed = self._with_changes(some, replace(found, events=events, by_event=by_event), cause)
        yield Found(some, logged(self.task, some, changed, held))

    def _with_changes(self, chunk: Chunk, found: MatchBatch, cause: np.ndarray) -> MatchBatch:
        """The matches with the values of change functions. ``cause``: int64 (matches), the rows that inserted them."""
        count = len(found.events)
        by_event = found.by_event | {"change": pa.array(["insert"] * count, pa.string()), "change_number": pa.array(found.events[:, layout.E_NUMBER])}
        return replace(found, by_event=by_event | changed_by(self.task.plan, chunk, pa.array(cause)))


def _rising(rows: np.ndarray, values: np.ndarray, chunk: Chunk) -> np.ndarray:
    """Whether the values of each partition's rows ascend strictly. bool (partitions). ``rows`` is ordered by partition."""
    parts = chunk.partition_of(rows)
    falls = np.flatnonzero((values[1:] <= values[:-1]) & (parts[1:] == parts[:-1])) + 1
    return np.bincount(parts[falls], minlength=chunk.parts) == 0
