"""Event selection, depth first: rows of a match need not be adjacent (SASE+, section 5). With an approximate automaton it lists
the matches of least cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparkcep.automaton.net import E_CHECK, E_NOT, E_VAR
from sparkcep.automaton.strategy import WALK
from sparkcep.engine.buffer import Chunk
from sparkcep.engine.drive import distinct_variables, scratch
from sparkcep.engine.found import WIDTH, WITH_ERRORS
from sparkcep.engine.letters import Data
from sparkcep.engine.listing import SKIPS, Matches, Open
from sparkcep.engine.prepared import Prepared, Task
from sparkcep.plan.options import NO_WINDOW
from sparkcep.search import codes, machine
from sparkcep.search import walk as walking

MAX_ENDS_BYTES = 1 << 28  # of a table of completions
MEMO_ENTRIES = 1 << 16
CONTIGUITY = {"STRICT": codes.STRICT, "NEXT": codes.NEXT, "ANY": codes.ANY}
_NO_PATH = np.zeros(0, dtype=np.int64)
_EXACT = walking.Errors(_NO_PATH, np.zeros((0, 3), dtype=np.int64), _NO_PATH)


def windowed(task: Task) -> bool:
    """Whether a window bounds the whole match."""
    return task.plan.windows[0].kind != NO_WINDOW


@dataclass(frozen=True)
class Negations:
    """Masks of the negated variables: ``local`` to their row; ``late``: whose conditions look at the finished match; ``mixed``:
    late ones that look at their own rows and at others' together. ``at_start``: whether a negation may look at rows before the
    match."""

    local: int
    late: int
    mixed: int
    at_start: bool

    @staticmethod
    def of(prepared: Prepared) -> Negations:
        automaton, conditions = prepared.strategy.automaton, prepared.conditions
        negated = int(np.bitwise_or.reduce(automaton.edges[:, E_NOT], initial=0))
        variables = range(len(prepared.plan.variables))
        late = sum(1 << v for v in variables if negated >> v & 1 and conditions.entry[v] >= 0)
        slots = [(s, int(m)) for s, m in enumerate(conditions.slots[:, 1])] if conditions.has_history else []
        reads_rows = conditions.distinct_read or conditions.labels_read
        mixed = sum(
            1 << v for v in variables if late >> v & 1 and (reads_rows or any(conditions.live[v, s] and m != 1 << v and m >> v & 1 for s, m in slots))
        )
        at_start = bool((automaton.edges[: automaton.first[1], E_NOT] != 0).any())
        return Negations(negated & ~late, late, mixed, at_start)


def net_of(prepared: Prepared, late: int = 0) -> walking.SelectionArrays:
    """The automaton as the kernels have it. ``late``: the negated variables whose conditions may read any slot of the finished
    match."""
    automaton, conditions = prepared.strategy.automaton, prepared.conditions
    alone = np.full(automaton.nodes, -1, dtype=np.int64)
    local = np.zeros(automaton.nodes, dtype=np.int64)
    for node in range(automaton.nodes):
        edges = [(e, automaton.edges[e]) for e in range(automaton.first[node], automaton.first[node + 1])]
        taking = [(e, edge) for e, edge in edges if edge[E_VAR] >= 0]
        looking = [e for e, edge in taking if conditions.entry[edge[E_VAR]] >= 0]
        if len(looking) == 1 and all(edge[E_CHECK] <= 1 for _, edge in taking):
            alone[node] = looking[0]
            local[node] = sum({1 << int(edge[E_VAR]) for e, edge in taking if e != looking[0]})
    live = prepared.state_live
    valued = np.ones(automaton.nodes, dtype=np.uint8) if late else live.any(axis=1).astype(np.uint8)
    return walking.SelectionArrays(automaton.first, automaton.edges, automaton.masks, automaton.accepts(), live, alone, local, valued)


def completion_ends(prepared: Prepared, net: walking.SelectionArrays, data: Data, wanted: bool) -> np.ndarray:
    """int64 (nodes, rows): by when runs can complete, by conditions local to their rows; (0, 0) where the table would be too
    large or is not ``wanted``."""
    nodes, rows = len(net.masks), len(data.rows.letters)
    if not wanted or nodes * rows * 8 > MAX_ENDS_BYTES:
        return np.zeros((0, 0), dtype=np.int64)
    ends = np.empty((nodes, rows), dtype=np.int64)
    plain = not prepared.conditions.has_history and len(prepared.plan.windows) == 1
    walking.completion_ends(
        net.first, net.edges, net.masks, net.accepts, data.rows.letters, data.rows.offsets, CONTIGUITY[prepared.plan.selection.strategy], plain, ends
    )
    return ends


class Walk:
    """Lists matches in preference order."""

    def __init__(self, task: Task) -> None:
        self.task = task
        prepared, approximate = task.prepared, task.prepared.strategy.approximate
        self.negations = Negations.of(prepared)
        self.net = net_of(prepared, self.negations.late)
        self.all = task.plan.reports_all
        self.ambiguous = self.all and prepared.strategy.automaton.ambiguous
        self.remembers = task.limits.merging and prepared.conditions.has_history and prepared.strategy.forgets is None
        self.distinct = distinct_variables(prepared.conditions)
        self.errors = _EXACT
        if approximate is not None:
            original = np.array(approximate.copies.original, dtype=np.int64)
            self.errors = walking.Errors(original, approximate.sources, approximate.first_source)

    def over(self, chunk: Chunk, open: Open, open_end: bool) -> Matches:
        return _Matches(self, chunk, open, open_end)


class _Matches(Matches):
    name, state_size = WALK, codes.SELECTION_STATE + 1

    def __init__(self, search: Walk, chunk: Chunk, open: Open, open_end: bool) -> None:
        width = WITH_ERRORS if search.errors is not _EXACT else WIDTH
        super().__init__(search.task, chunk, open, open_end, width=width, negates=search.negations.at_start)
        self.search = search
        plan, rows = self.task.plan, chunk.rows
        self.sums = self._prefix_sums()
        self.ends = completion_ends(self.task.prepared, search.net, self.data, self.task.limits.merging)
        key = 3 + len(plan.windows) - 1 + 2 * len(self.task.prepared.conditions.slots)
        self.scratch = scratch(self.task.prepared.conditions, rows, entries=self._memo_entries(key) if search.remembers else 1, width=key)
        self.scratch.labels[:] = machine.UNTAKEN
        self.work = walking.SelectionScratch(
            frames=np.empty((rows + 2, 8), dtype=np.int64),
            opened=np.full((rows + 2, len(plan.windows) + 1), -1, dtype=np.int64),
            best=np.empty((rows + 1 if plan.non_overlapping else 1, 2), dtype=np.int64),
            taken=self.taken,
        )

    def _prefix_sums(self) -> np.ndarray:
        """int32 (variables, rows + 1): how many rows before each fulfil a row-local negated condition."""
        local, letters, variables = self.search.negations.local, self.data.rows.letters, len(self.task.plan.variables)
        sums = np.zeros((variables, len(letters) + 1 if local else 1), dtype=np.int32)
        for v in range(variables):
            if local >> v & 1:
                np.cumsum((letters >> v) & 1, out=sums[v, 1:])
        return sums

    def _memo_entries(self, key: int) -> int:
        """Room for twice as many runs as nodes and rows of the longest partition make; where values of the match keep more
        apart, a full memo begins anew."""
        longest = int(np.diff(self.chunk.offsets).max(initial=0))
        wanted = 1 << max(2 * longest * len(self.search.net.masks) - 1, MEMO_ENTRIES - 1).bit_length()
        fits = self.task.limits.max_state_bytes // 4 // (32 + 8 * key)
        return max(min(wanted, 1 << max(fits, 1).bit_length() - 1), MEMO_ENTRIES)

    def run(self) -> int:
        search, task, plan, room = self.search, self.task, self.task.plan, self.room
        negations, limits = search.negations, task.limits
        return walking.select_partitions(
            search.net, CONTIGUITY[plan.selection.strategy], search.all, plan.non_overlapping, search.ambiguous, windowed(task), self.windows, self.backs,
            np.int64(negations.local), np.int64(negations.late), np.int64(negations.mixed), self.sums, self.ends, self.ends.shape[1] > 0,
            self.data.conditions, self.data.rows, self.scratch, self.work, search.remembers, self.open.cut, self.open_end, task.ahead,
            plan.rows == "unmatched", SKIPS[plan.skip.mode], np.int64(plan.skip.targets), limits.max_steps, limits.max_matches, search.distinct, self.state,
            room.events, room.labels, room.rows, search.errors, room.paths,
        )

    def keeps(self) -> bool:
        return self.search.ambiguous and self.state[codes.S_ACTIVE] == 1
