"""Drives the search for matches of adjacent rows (:mod:`sparkcep.kernels.match.backtrack`)."""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.liveness import memo_values
from sparkcep.compiler.searches import ADJACENT
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.kernel_loop import distinct_variables, scratch
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.resume import ResumeState
from sparkcep.engine.core.task import Task
from sparkcep.engine.match.enumeration import SKIPS, Matches
from sparkcep.engine.match.thresholds import tests_of, thresholds_of
from sparkcep.kernels.common import layout
from sparkcep.kernels.match import backtrack as kernels
from sparkcep.kernels.match.thresholds import Thresholds

FUTURE_BYTES = 4  # to remember the future of a state at a row
MEMO_BYTES, MEMO_BYTES_A_ROW = 1 << 23, 256  # size of the hashed memo, unless one start row needs more


class Backtracking:
    """Depth-first search with a memo of failed states.

    Attributes:
        depth: the stack frames that the last chunk needed.
        entries: the entries of the hashed memo that the last chunk needed.
    """

    early = None

    def __init__(self, task: Task) -> None:
        self.task, self.depth, self.entries = task, 4096, 1024
        program = task.prepared.strategy.program
        # a hashed memo needs no bits of states, which many registers would make too many for an integer
        self.width = program.states << program.register_bits if task.prepared.memo == layout.BITMAP else 0
        self.words = max(1, (self.width + 63) // 64)
        self.shares = task.prepared.strategy.shares_ends and not task.prepared.conditions.has_history
        self.distinct = distinct_variables(task.prepared.conditions)
        live = memo_values(task.prepared.state_live, task.prepared.conditions)
        self.program = kernels.ProgramArrays(program.code, program.loops, program.perms, program.targets, program.runs, live)
        self.tests = tests_of(task.prepared)

    def over(self, chunk: Chunk, state: ResumeState) -> Matches:
        return _BacktrackMatches(self, chunk, state)


class _BacktrackMatches(Matches):
    name, scattered = ADJACENT, False

    def __init__(self, search: Backtracking, chunk: Chunk, state: ResumeState) -> None:
        super().__init__(search.task, chunk, state)
        self.search, self.memo = search, search.task.prepared.memo
        if self.memo == layout.BITMAP and chunk.rows * search.words * 8 > self.task.limits.max_state_bytes:
            self.memo = layout.HASHED
        self.looking, self.thresholds, self.program = self._conditions()
        self.futures = None
        places = (chunk.rows + len(chunk.offsets)) * search.width
        if search.shares and self.memo == layout.BITMAP and places * FUTURE_BYTES <= self.task.limits.max_state_bytes:
            self.futures, self.before = np.zeros(places, dtype=np.int32), 0
            self.room.share()
        self.scratch = self.fresh(len(chunk.offsets))

    def _conditions(self) -> tuple[kernels.ConditionArrays | None, Thresholds | None, kernels.ProgramArrays]:
        """Returns the conditions that look at the match, or threshold tests instead, and the program.

        With tests, the future of a state depends at most on the match's first row.
        """
        program = self.search.program
        if not self.task.prepared.conditions.has_history:
            return None, None, program
        thresholds = thresholds_of(self.search.tests, self.data.rows) if self.search.tests else None
        if thresholds is None:
            return self.data.conditions, None, program
        return None, thresholds, program._replace(live=program.live.any(axis=1, keepdims=True).astype(np.uint8))

    def fresh(self, offsets: int) -> kernels.Scratch:
        """Allocates working memory with an empty memo."""
        bits = (self.chunk.rows + offsets) * self.search.words if self.memo == layout.BITMAP and self.futures is None else 1
        entries = self.search.entries if self.memo == layout.HASHED else 1
        width, slots = (0, None) if self.thresholds is None else (5, 0)
        return scratch(self.task.prepared.conditions, self.chunk.rows, bits=bits, entries=entries, width=width, depth=self.search.depth, slots=slots)

    def run(self) -> int:
        search, task, room, skip = self.search, self.task, self.room, self.task.plan.skip
        program = task.prepared.strategy.program
        shared = None if self.futures is None else kernels.SharedEnds(self.futures, self.search.width, self.before, room.joins)
        return kernels.match_partitions(
            self.program, program.nullable, np.int64(program.first), self.memo, search.words, program.register_bits, self.looking,
            self.data.rows, self.scratch, self.opens, task.awaited, task.plan.rows == "unmatched", SKIPS[skip.mode], np.int64(skip.targets),
            task.prepared.conditions.number_read, task.limits.patience, self._most_entries(), task.limits.max_steps, search.distinct, shared,
            self.state, room.events, room.labels, self.thresholds,
        )

    def found(self) -> MatchBatch:
        found = super().found()
        if self.futures is not None:
            self.before += len(found.events)
        return found

    def _most_entries(self) -> int:
        """Returns how many entries the hashed memo may have before the next start row.

        Up to this limit the memo grows linearly with the rows and serves many start rows. Beyond it, it grows only for one start
        row.
        """
        slots, most, entries = len(self.task.prepared.conditions.slots), self.task.limits.max_state_bytes // 4, self.search.entries
        if slots:
            most = min(most, max(MEMO_BYTES, MEMO_BYTES_A_ROW * self.chunk.rows))
        return entries if entries * (32 + 8 * (3 + 2 * slots)) < most else entries // 2

    def grow(self) -> None:
        """Enlarges the stack, the trail or the hashed memo, up to the limit."""
        old = self.scratch
        if 0 < len(old.entries) <= self.state[layout.S_ENTRIES]:
            self.search.entries *= 2
        else:
            self.search.depth *= 2
        self.state[layout.S_ENTRIES] = 0
        fresh = self.fresh(0)
        self.check(sum(a.nbytes for a in (fresh.stack, fresh.trail, fresh.entries, fresh.alive, fresh.table)))
        self.scratch = fresh._replace(labels=old.labels, hi=old.hi, hf=old.hf, hbits=old.hbits, bits=old.bits)
