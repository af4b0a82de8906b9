"""The search for matches of patterns with a conjunction ``p & q``; all matches of a start row are held at once."""

from __future__ import annotations

import numpy as np

from sparkcep.automaton.strategy import CONJUNCTION
from sparkcep.engine.buffer import Chunk
from sparkcep.engine.drive import scratch
from sparkcep.engine.listing import Matches, Open
from sparkcep.engine.prepared import Task
from sparkcep.engine.walk import MAX_ENDS_BYTES, windowed
from sparkcep.search import conjunction as conjoining
from sparkcep.search.codes import S_ACTIVE, SELECTION_STATE


class Conjunction:
    """Lists matches, with the sides of the conjunctions side by side."""

    def __init__(self, task: Task) -> None:
        automaton = task.prepared.strategy.conjunction
        assert automaton is not None
        self.task, self.automaton = task, automaton
        self.net = conjoining.ConjunctionArrays(
            automaton.first, automaton.edges, automaton.checks, automaton.blockers,
            np.int64(automaton.across(task.prepared.conditions)),
        )

    def over(self, chunk: Chunk, open: Open, open_end: bool) -> Matches:
        return _Matches(self, chunk, open, open_end)


class _Matches(Matches):
    name, state_size = CONJUNCTION, SELECTION_STATE

    def __init__(self, search: Conjunction, chunk: Chunk, open: Open, open_end: bool) -> None:
        super().__init__(search.task, chunk, open, open_end, negates=search.automaton.negates)
        self.search = search
        task, automaton, rows = self.task, search.automaton, chunk.rows
        self.ends = np.zeros((0, 0), dtype=np.int64)
        if task.limits.merging and automaton.nodes * rows * 8 <= MAX_ENDS_BYTES:
            self.ends = np.empty((automaton.nodes, rows), dtype=np.int64)
            conjoining.earliest_ends(search.net.first, search.net.edges, self.data.rows.letters, chunk.offsets, self.ends)
        longest = int(np.diff(chunk.offsets).max(initial=0))
        if windowed(task):
            longest = min(longest, int((self.windows[0] - np.arange(rows)).max(initial=0)))
        self.depth = longest * automaton.sides + 2  # (row, variable) pairs of a match, at most
        # behind the rows: values after each row of a match, and two for judging a finished one
        self.scratch = scratch(task.prepared.conditions, rows + self.depth + 2)

    def run(self) -> int:
        task, plan, made, room = self.task, self.task.plan, self.scratch, self.room
        work = conjoining.ConjunctionScratch(
            frames=np.empty((self.depth, 6), dtype=np.int64),
            opened=np.empty((self.depth, len(plan.windows)), dtype=np.int64),
            since=np.empty((self.depth, self.search.automaton.sides), dtype=np.int64),
            best=np.empty((self.depth, 2), dtype=np.int64),
            order=np.empty((self.depth, 2), dtype=np.int64),
            taken=self.taken,
            seen=np.zeros((1 << (2 * len(room.events)).bit_length(), 2), dtype=np.int64),
        )
        return conjoining.conjoin_partitions(
            self.search.net, plan.selection.strategy == "NEXT", plan.non_overlapping, windowed(task), self.windows, self.backs, self.ends,
            self.ends.shape[1] > 0, self.data.conditions, self.data.rows, (made.labels, made.hi, made.hf, made.si, made.sf, made.sn),
            work, self.chunk.rows, self.open.cut, self.open_end, task.ahead, plan.rows == "unmatched", task.limits.max_steps, task.limits.max_matches,
            self.state, room.events, room.labels, room.rows,
        )

    def keeps(self) -> bool:
        return self.state[S_ACTIVE] == 1
