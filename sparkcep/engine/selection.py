"""The engine of event selection: rows of a match need not be adjacent (LANGUAGE section 4, SASE+ section 5)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkcep.engine.run import SKIPS, Data
from sparkcep.engine.scattering import MAX_ENDS_BYTES, ScatteringEngine
from sparkcep.search import adjacent as kernels
from sparkcep.search import machine as interpreter
from sparkcep.search import walk as selecting

MEMO_ENTRIES = 1 << 16
_NO_PATH = np.zeros(0, dtype=np.int64)
_EXACT = selecting.Errors(_NO_PATH, np.zeros((0, 3), dtype=np.int64), _NO_PATH)
_STRATEGIES = {"STRICT": selecting.STRICT, "NEXT": selecting.NEXT, "ANY": selecting.ANY}


class SelectionEngine(ScatteringEngine):
    """As :class:`ScatteringEngine`, for plans with an event selection."""

    state_size = selecting.SELECTION_STATE + 1
    _errors = _EXACT
    _ends: np.ndarray | None = None
    _longest = 0  # rows of the largest partition of the buffer
    uses_ends = False  # whether completion ends prune without merging as well

    def __init__(self, prepared, chunk_rows=None, limits=None) -> None:
        super().__init__(prepared, chunk_rows, limits)
        automaton, conditions = prepared.selection, prepared.conditions
        negated = int(np.bitwise_or.reduce(automaton.edges[:, selecting.E_NOT], initial=0))
        late = sum(1 << v for v in range(len(self.plan.variables)) if negated >> v & 1 and conditions.entry[v] >= 0)
        own_and_others = [(s, int(m)) for s, m in enumerate(conditions.slots[:, 1])] if conditions.has_history else []
        reads_rows = conditions.distinct_read or conditions.labels_read
        self.negative_mixed = sum(
            1 << v
            for v in range(len(self.plan.variables))
            if late >> v & 1 and (reads_rows or any(conditions.live[v, s] and m != 1 << v and m >> v & 1 for s, m in own_and_others))
        )
        self.negative_late, self.negative_local = late, negated & ~late
        self.negated_at_start = bool((automaton.edges[: automaton.first[1], selecting.E_NOT] != 0).any())
        strategy, report = self.plan.selection
        self.strategy = _STRATEGIES[strategy]
        self.all = report == "ALL"
        self.shortest = self.plan.non_overlapping
        self.memo = (
            self.limits.merging and conditions.has_history and prepared.strategy.forgets is None
        )
        self.ambiguous = self.all and automaton.ambiguous
        self._arrays = selecting.SelectionArrays(
            automaton.first, automaton.edges, automaton.masks, automaton.accepts(), prepared.state_live, *self._lone_edges()
        )

    def _lone_edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``alone``, ``local`` and ``valued`` of :class:`selecting.SelectionArrays`."""
        automaton, conditions = self.p.selection, self.p.conditions
        alone = np.full(automaton.nodes, -1, dtype=np.int64)
        local = np.zeros(automaton.nodes, dtype=np.int64)
        for node in range(automaton.nodes):
            edges = [(e, automaton.edges[e]) for e in range(automaton.first[node], automaton.first[node + 1])]
            taking = [(e, edge) for e, edge in edges if edge[selecting.E_VAR] >= 0]
            looking = [e for e, edge in taking if conditions.entry[edge[selecting.E_VAR]] >= 0]
            if len(looking) == 1 and all(edge[selecting.E_CHECK] <= 1 for _, edge in taking):
                alone[node] = looking[0]
                local[node] = sum({1 << int(edge[selecting.E_VAR]) for e, edge in taking if e != looking[0]})
        # a negated variable's condition may read any slot of the finished match
        valued = np.ones(automaton.nodes, dtype=np.uint8) if self.negative_late else self.p.state_live.any(axis=1).astype(np.uint8)
        return alone, local, valued

    def _kernel_data(self, columns: dict[str, pa.Array], offsets: np.ndarray, rows: int) -> Data:
        data = super()._kernel_data(columns, offsets, rows)
        self._longest = int(np.diff(offsets).max(initial=0))
        self._sums = self._prefix_sums(data.rows.letters)
        self._ends = None
        self._search = selecting.SelectionScratch(
            frames=np.empty((rows + 2, 8), dtype=np.int64),
            opened=np.full((rows + 2, len(self.plan.windows) + 1), -1, dtype=np.int64),
            best=np.empty((rows + 1 if self.shortest else 1, 2), dtype=np.int64),
            taken=self._taken,
        )
        return data

    def _completion_ends(self, data: Data) -> np.ndarray:
        """int64 (nodes, rows) of the buffer, filled when a search first asks; (0, 0) where the table would be too large or is not wanted."""
        if self._ends is None:
            nodes, rows = self.p.selection.nodes, len(data.rows.letters)
            self._ends = np.zeros((0, 0), dtype=np.int64)
            if (self.limits.merging or self.uses_ends) and nodes * rows * 8 <= MAX_ENDS_BYTES:
                self._ends = np.empty((nodes, rows), dtype=np.int64)
                selecting.completion_ends(
                    self._arrays.first, self._arrays.edges, self._arrays.masks, self._arrays.accepts, data.rows.letters, data.rows.offsets,
                    self.strategy, not self.p.conditions.has_history and len(self.plan.windows) == 1, self._ends,
                )
        return self._ends

    def _prefix_sums(self, letters: np.ndarray) -> np.ndarray:
        """int32 (variables, rows + 1): how many rows before each fulfil a row-local negated condition."""
        sums = np.zeros((len(self.plan.variables), len(letters) + 1 if self.negative_local else 1), dtype=np.int32)
        for v in range(len(self.plan.variables)):
            if self.negative_local >> v & 1:
                np.cumsum((letters >> v) & 1, out=sums[v, 1:])
        return sums

    def _scratch(self, rows: int, offsets: int) -> kernels.Scratch:
        scratch = super()._scratch(rows, offsets)
        scratch.labels[:] = interpreter.UNTAKEN
        width = 3 + len(self.plan.windows) - 1 + 2 * len(self.p.conditions.slots)
        entries = self._memo_entries(width) if self.memo else 1
        return scratch._replace(
            entries=np.empty((entries, width), dtype=np.int64),
            table=np.zeros(4 * entries, dtype=np.int64),
            key=np.empty(width, dtype=np.int64),
        )

    def _memo_entries(self, width: int) -> int:
        """Room for twice as many runs as nodes and rows of the longest partition make; where values of the match keep more apart, a full memo begins anew."""
        wanted = 1 << max(2 * self._longest * self.p.selection.nodes - 1, MEMO_ENTRIES - 1).bit_length()
        fits = self.limits.max_state_bytes // 4 // (32 + 8 * width)
        return max(min(wanted, 1 << max(fits, 1).bit_length() - 1), MEMO_ENTRIES)

    def _path(self, labels: np.ndarray) -> np.ndarray:
        """Where the kernel writes the edge of each label."""
        return _NO_PATH

    def _keeps_events(self, state: np.ndarray) -> bool:
        return self.ambiguous and state[selecting.S_ACTIVE] == 1

    def _match(self, data: Data, scratch: kernels.Scratch, open_end: bool, state, events, labels, scattered) -> int:
        c = self.p.conditions
        slots = c.slots if c.has_history else self._empty_slots
        ends = self._completion_ends(data)
        return selecting.select_partitions(
            self._arrays, self.strategy, self.all, self.shortest, self.ambiguous, self.windowed, self._windows, self._backs,
            np.int64(self.negative_local), np.int64(self.negative_late), np.int64(self.negative_mixed), self._sums, ends, ends.shape[1] > 0,
            kernels.ConditionArrays(data.bytecode, c.entry, c.floats, slots, data.codes), data.rows, scratch, self._search,
            self.memo, self._carry.cut, open_end, self.ahead, self.plan.rows == "unmatched", SKIPS[self.plan.skip.mode],
            np.int64(self.plan.skip.targets), self.limits.max_steps, self.limits.max_matches, self._paired, state, events, labels, scattered,
            self._errors, self._path(labels),
        )
