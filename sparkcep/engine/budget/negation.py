"""The negations of a clause with a BUDGET, or with MATCH HISTORY, as its search has them."""

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
    """What of a clause's negations does not depend on rows. ``apart``: no two runs are one, because a negated condition looks at
    the match; ``before``: mask of the others that may stand before the first row; ``begins`` and ``closing`` uint8 (nodes): one
    stands before the first row, or behind the last one of a match to come."""

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
        """Numbers of the ways of a net: what is judged with the finished match only is asked of a way as a whole."""
        net = self.net
        assert net.ways is not None
        asked = net.edges[:, E_NOT] & self.negations.late
        asked[: net.first[1]] = net.edges[: net.first[1], E_NOT]
        return np.unique(np.stack([net.ways, asked], axis=1), axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def distinguishes(self, e: int) -> bool:
        """Whether a negation may tell runs apart that take a row by an edge."""
        return self.apart or self.begins or bool(self.closing[self.net.edges[e, E_TARGET]])

    def over(self, task: Task, chunk: Chunk, data: ChunkArrays, windows: np.ndarray) -> tuple[searching.NegationArrays, MatchJudge | None]:
        """As the kernel has them; ``windows`` int64 (windows, rows): their ends. And what judges matches, if conditions look at
        them."""
        backs = plan_windows(task.plan.windows, chunk.columns, chunk.offsets)[1]
        negated = self.negations.over(task, data)
        negations = searching.NegationArrays(True, self.apart, np.int64(self.negations.local), negated.nearest, backs, len(windows), self.net.first, self.crossed, self.closing, np.zeros(len(negated.nearest) + 2, dtype=np.int64))
        return negations, MatchJudge(task, negated, windows) if self.apart else None


class MatchJudge:
    """Says which runs are matches, where negated conditions look at these."""

    def __init__(self, task: Task, negated: walking.Negated, windows: np.ndarray) -> None:
        longest = int((windows[0] - np.arange(windows.shape[1])).max(initial=0)) + 3
        frames, path = np.zeros((longest, final_conditions.FRAME), dtype=np.int64), np.zeros((longest, final_conditions.PATH), dtype=np.int64)
        self.work = searching.JudgeArrays(frames, path, np.zeros((longest, len(windows)), dtype=np.int64))
        self.how = searching.NegationLimits(CONTIGUITY[task.plan.selection.strategy], task.limits.max_steps)
        self.negated, self.spans = negated, searching.WindowEnds(windows)

    def judged(self, done: np.ndarray, count: int, row: int, ends: tuple[int, int], edges: np.ndarray, negations: searching.NegationArrays, looking: Looking, runs: Runs, state: np.ndarray) -> int:
        """Leaves of the first ``count`` runs in ``done`` those that are matches with their last row ``row``; ``ends``: of its
        partition. How many, or -1 for an error."""
        return searching.judge(done, count, row, *ends, edges, negations, self.negated, self.how, self.spans, self.work, looking, runs, state)


def _closing(net: Net, local: np.ndarray) -> np.ndarray:
    """uint8 (nodes): whether an edge that completes a match there, or behind it, crosses a negation."""
    found = np.array([any(net.edges[e, E_VAR] < 0 and local[e] for e in net.edges_of(node)) for node in range(net.nodes)], dtype=np.uint8)
    changed = True
    while changed:
        changed = False
        for node in range(net.nodes):
            if not found[node] and any(net.edges[e, E_VAR] >= 0 and found[net.edges[e, E_TARGET]] for e in net.edges_of(node)):
                found[node] = changed = True
    return found
