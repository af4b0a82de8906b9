"""Negations of a clause with BUDGET or MATCH HISTORY, prepared for the best-effort search.

:class:`sparkcep.engine.budget.best_effort.BestEffortSearch` hands the arrays to :mod:`sparkcep.kernels.budget.negation`, which has
an example.
"""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.net.net import E_NOT, E_TARGET, E_VAR, Net
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.predicates import ChunkArrays
from sparkcep.engine.core.task import Prepared, Task
from sparkcep.engine.core.windows import plan_windows
from sparkcep.engine.match.gap_walk import CONTIGUITY, Negations
from sparkcep.kernels.budget import negation as searching
from sparkcep.kernels.frontier.frontier import Looking
from sparkcep.kernels.frontier.payload import Runs
from sparkcep.kernels.match import walk as walking
from sparkcep.kernels.vm import final_conditions

NO_NEGATIONS = searching.NegationArrays(
    False, False, np.int64(0), np.zeros((0, 0), dtype=np.int32), np.zeros(0, dtype=np.int64), 0, *(2 * [np.zeros(0, dtype=np.int64)]), np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.int64),
)  # fmt: skip


class NegationRules:
    """The parts of a clause's negations that do not depend on rows.

    Attributes:
        apart: whether runs never form a class, because a negated condition looks at the match.
        before: mask of the local negations (conditions on their own row alone) before the first row of a match.
        begins: whether there are such.
        closing: uint8 (nodes), whether a local negation may follow the last row of a future match.
        crossed: int64 (nodes), mask of the local negations that the node's edges to a next row cross.
    """

    def __init__(self, prepared: Prepared) -> None:
        self.net = net = prepared.strategy.automaton
        self.negations = Negations.of(prepared)
        self.apart = self.negations.late != 0
        local = net.edges[:, E_NOT] & self.negations.local
        self.before = int(np.bitwise_or.reduce(local[: net.first[1]], initial=0))
        self.begins = self.before != 0
        self.closing = _closing(net, local)
        self.crossed = np.zeros(net.nodes, dtype=np.int64)
        for node in range(1, net.nodes):
            own = np.array(net.edges_of(node), dtype=np.int64)
            self.crossed[node] = np.bitwise_or.reduce(local[own[net.edges[own, E_VAR] >= 0]], initial=0)

    def ways(self) -> np.ndarray:
        """The ways of the net, as numbers. int64 (edges).

        Edges that cross different negations get different numbers, if the negations are judged only when the match is complete.
        """
        net = self.net
        assert net.ways is not None
        asked = net.edges[:, E_NOT] & self.negations.late
        asked[: net.first[1]] = net.edges[: net.first[1], E_NOT]
        return np.unique(np.stack([net.ways, asked], axis=1), axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def distinguishes(self, e: int) -> bool:
        """Whether a negation may distinguish runs that take a row by an edge."""
        return self.apart or self.begins or bool(self.closing[self.net.edges[e, E_TARGET]])

    def over(self, task: Task, chunk: Chunk, data: ChunkArrays, windows: np.ndarray) -> tuple[searching.NegationArrays, MatchJudge | None]:
        """The negations as the kernel reads them, and the judge of complete matches; None if no negated condition looks at the
        match.

        ``windows``: int64 (windows, rows), the ends of the windows.
        """
        backs = plan_windows(task.plan.windows, chunk.columns, chunk.offsets)[1]
        negated = self.negations.over(task, data)
        negations = searching.NegationArrays(True, self.apart, np.int64(self.negations.local), negated.nearest, backs, len(windows), self.net.first, self.crossed, self.closing, np.zeros(len(negated.nearest) + 2, dtype=np.int64))
        return negations, MatchJudge(task, negated, windows) if self.apart else None


class MatchJudge:
    """Decides which complete runs are matches if negated conditions look at the match."""

    def __init__(self, task: Task, negated: walking.Negated, windows: np.ndarray) -> None:
        longest = int((windows[0] - np.arange(windows.shape[1])).max(initial=0)) + 3
        frames, path = np.zeros((longest, final_conditions.FRAME), dtype=np.int64), np.zeros((longest, final_conditions.PATH), dtype=np.int64)
        self.work = searching.JudgeArrays(frames, path, np.zeros((longest, len(windows)), dtype=np.int64))
        self.how = searching.NegationLimits(CONTIGUITY[task.plan.selection.strategy], task.limits.max_steps)
        self.negated, self.spans = negated, searching.WindowEnds(windows)

    def judged(self, done: np.ndarray, count: int, row: int, ends: tuple[int, int], edges: np.ndarray, negations: searching.NegationArrays, looking: Looking, runs: Runs, state: np.ndarray) -> int:
        """Keeps the runs that are matches, in ``done``. Returns their number, or -1 for an error, which is in ``state``.

        Args:
            done: the runs that may be complete, the first ``count``; see :func:`sparkcep.kernels.budget.negation.judge`.
            row: the last row of the matches.
            ends: the first row of its partition, and the row after the partition.
        """
        return searching.judge(done, count, row, *ends, edges, negations, self.negated, self.how, self.spans, self.work, looking, runs, state)


def _closing(net: Net, local: np.ndarray) -> np.ndarray:
    """Whether an edge that completes a match, at the node or later, crosses a local negation. uint8 (nodes)."""
    found = np.array([any(net.edges[e, E_VAR] < 0 and local[e] for e in net.edges_of(node)) for node in range(net.nodes)], dtype=np.uint8)
    changed = True
    while changed:
        changed = False
        for node in range(net.nodes):
            if not found[node] and any(net.edges[e, E_VAR] >= 0 and found[net.edges[e, E_TARGET]] for e in net.edges_of(node)):
                found[node] = changed = True
    return found
