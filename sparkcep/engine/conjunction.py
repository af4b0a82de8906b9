"""The engine of patterns with a conjunction ``p & q`` (LANGUAGE sections 4 and 9)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkcep.engine.run import Data
from sparkcep.engine.scattering import MAX_ENDS_BYTES, ScatteringEngine
from sparkcep.search import adjacent as kernels
from sparkcep.search import conjunction as conjoining
from sparkcep.search.walk import S_ACTIVE, SELECTION_STATE


class ConjunctionEngine(ScatteringEngine):
    """As :class:`ScatteringEngine`, for plans whose pattern has a conjunction; all matches of a start row are held at once."""

    state_size = SELECTION_STATE

    def __init__(self, prepared, chunk_rows=None, limits=None) -> None:
        super().__init__(prepared, chunk_rows, limits)
        automaton, conditions = prepared.conjunction, prepared.conditions
        self._longest = 0  # most (row, variable) pairs of a match
        self.negated_at_start = automaton.negates
        self._arrays = conjoining.ConjunctionArrays(
            automaton.first, automaton.edges, automaton.first_check, automaton.checks, automaton.first_blocker, automaton.blockers,
            np.int64(automaton.across(conditions))
        )

    def _kernel_data(self, columns: dict[str, pa.Array], offsets: np.ndarray, rows: int) -> Data:
        data = super()._kernel_data(columns, offsets, rows)
        automaton = self.p.conjunction
        self._ends = np.zeros((0, 0), dtype=np.int64)
        if self.limits.merging and automaton.nodes * rows * 8 <= MAX_ENDS_BYTES:
            self._ends = np.empty((automaton.nodes, rows), dtype=np.int64)
            conjoining.earliest_ends(self._arrays.first, self._arrays.edges, data.rows.letters, offsets, self._ends)
        longest = int(np.diff(offsets).max(initial=0))
        if self.windowed:
            longest = min(longest, int((self._windows[0] - np.arange(rows)).max(initial=0)))
        self._longest = longest * automaton.sides + 2
        return data

    def _scratch(self, rows: int, offsets: int) -> kernels.Scratch:
        """Behind the rows: values after each row of a match, and two for judging a finished one."""
        return super()._scratch(rows + self._longest + 2, offsets)

    def _search(self, events: int) -> conjoining.ConjunctionScratch:
        depth, windows = self._longest, len(self.plan.windows)
        return conjoining.ConjunctionScratch(
            frames=np.empty((depth, 6), dtype=np.int64),
            opened=np.empty((depth, windows), dtype=np.int64),
            since=np.empty((depth, self.p.conjunction.sides), dtype=np.int64),
            best=np.empty((depth, 2), dtype=np.int64),
            order=np.empty((depth, 2), dtype=np.int64),
            taken=self._taken,
            seen=np.zeros((1 << (2 * events).bit_length(), 2), dtype=np.int64),
        )

    def _keeps_events(self, state: np.ndarray) -> bool:
        return state[S_ACTIVE] == 1

    def _match(self, data: Data, scratch: kernels.Scratch, open_end: bool, state, events, labels, scattered) -> int:
        c = self.p.conditions
        slots = c.slots if c.has_history else self._empty_slots
        return conjoining.conjoin_partitions(
            self._arrays, self.plan.selection.strategy == "NEXT", self.plan.non_overlapping, self.windowed, self._windows, self._backs, self._ends,
            self._ends.shape[1] > 0, kernels.ConditionArrays(data.bytecode, c.entry, c.floats, slots, data.codes), data.rows,
            (scratch.labels, scratch.hi, scratch.hf, scratch.si, scratch.sf, scratch.sn),
            self._search(len(events)), len(data.rows.letters), self._carry.cut, open_end, self.ahead, self.plan.rows == "unmatched",
            self.limits.max_steps, self.limits.max_matches, state, events, labels, scattered,
        )
