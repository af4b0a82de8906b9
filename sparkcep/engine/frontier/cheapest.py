"""Cheapest approximate matches of whole partitions with conditions over the match: PROXY MATCHES, PER ERROR and the points of MATCH
BUNDLES.

They come from one run of each run class, or from all matches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sparkcep.compiler.net.net import E_COST
from sparkcep.compiler.searches import CLASSES, NUMBERS
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import WITH_ERRORS, MatchBatch
from sparkcep.engine.core.operator import Found
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import plan_windows
from sparkcep.engine.frontier.frontier import ClassRuns, Frontier
from sparkcep.engine.frontier.match_counts import MatchCounts
from sparkcep.engine.frontier.per_last_row import counted
from sparkcep.engine.frontier.run_room import compacted, with_room
from sparkcep.engine.match.enumeration import Listing, listed
from sparkcep.engine.match.gap_walk import windowed
from sparkcep.engine.stages.describe_errors import DescribeErrors
from sparkcep.kernels.common import layout
from sparkcep.kernels.frontier import traceback

LONG = 300  # above so many rows of a window for each node, matrices of nodes are faster than counts by first row (measured)


class CheapestPerLastRow:
    """Finds the best match of each last row of whole partitions, or the best ones by cost; if asked for, with how many matches end
    there.

    ``listing`` builds the search that lists matches. It is used if run classes do not give the best match.
    """

    def __init__(self, task: Task, listing: Listing, reporter: DescribeErrors) -> None:
        self.task, self.listing, self.reporter = task, listing, reporter
        strategy = task.prepared.strategy
        self.front = Frontier(task) if strategy.search == CLASSES else None
        self.numbers = MatchCounts(task) if NUMBERS in strategy.counts and windowed(task) else None

    def answer(self, chunk: Chunk) -> Iterator[Found]:
        best, ending = self._best(chunk)
        if self.task.plan.sizing:
            rows, numbers = ending or self._counted(chunk)
            totals = [numbers[i] for i in np.searchsorted(rows, traceback.last_rows(best.events, best.rows)).tolist()]
            best = replace(best, totals=np.array(totals, dtype=object))
        yield Found(chunk, best.numbered(), np.arange(chunk.rows))

    def _best(self, chunk: Chunk) -> tuple[MatchBatch, tuple[np.ndarray, list[int]] | None]:
        """Returns the best match of each last row, or the best ones by cost.

        If matches are listed, also returns the last rows and how many matches end at each.
        """
        if self.front is not None:
            (found,) = CheapestRuns(self.front, chunk, self.reporter.by_cost).rounds()
            return found, None
        counts = np.zeros(chunk.rows, dtype=np.int64)
        kept = MatchBatch.none(WITH_ERRORS)
        for found in listed(self.listing(), chunk):
            more = found.matches()
            np.add.at(counts, traceback.last_rows(more.events, more.rows), 1)
            both = kept.joined(more)  # rows in no match are not yet known
            last_rows = traceback.last_rows(both.events, both.rows)
            groups, costs = last_rows, np.zeros_like(last_rows)
            if self.reporter.by_cost:
                costs = self.reporter.found.edges[both.events[:, layout.E_ACCEPT], E_COST]
                _, groups = np.unique(np.stack([last_rows, costs], axis=1), axis=0, return_inverse=True)
            chosen = traceback.best_of(both.events, both.rows, groups.reshape(-1), self.reporter.found.edges)
            kept = both.chosen(chosen[np.lexsort((costs[chosen], last_rows[chosen]))])
        ending = np.flatnonzero(counts)
        return kept.chosen(later_ones(kept)) if self.reporter.by_cost else kept, (ending, counts[ending].tolist())

    def _counted(self, chunk: Chunk) -> tuple[np.ndarray, list[int]]:
        """Returns last rows, and how many matches end at each."""
        assert self.front is not None
        if self.numbers is not None and self.numbers.nbytes(chunk) <= self.task.limits.max_state_bytes:
            ends = plan_windows(self.task.plan.windows, chunk.columns, chunk.offsets)[0][0]
            if np.mean(ends - np.arange(chunk.rows)) > LONG * self.front.nodes:
                return self.numbers.of(chunk)
        return counted(self.front, self.listing, chunk)


def later_ones(found: MatchBatch) -> np.ndarray:
    """Returns the matches that start later than every cheaper match of their last row. int64.

    The matches must be ordered by last row and cost.
    """
    last_rows, starts = traceback.last_rows(found.events, found.rows), found.events[:, layout.E_START]
    # each last row gets its own stretch of numbers, longer than any row number of the chunk
    stretch = np.cumsum(np.diff(last_rows, prepend=-1) != 0) * (int(last_rows.max(initial=0)) + 1)
    latest = np.maximum.accumulate(stretch + starts)
    return np.flatnonzero(np.diff(latest, prepend=-1) > 0)


class CheapestRuns(ClassRuns):
    """The cheapest run of each class over whole partitions, or the best ones by cost."""

    name = CLASSES
    stuck = -1  # the row where the room for entries was last too small

    def carried(self) -> tuple:
        return None, None, with_room(self.cargo, self.room)

    def more_cargo(self) -> None:
        # one row may need more entries than all rows before it
        again = int(self.state[layout.S_START]) == self.stuck
        self.stuck = int(self.state[layout.S_START])
        self.classes, self.cargo = compacted(self.classes, self.cargo, self.state, 2 * len(self.cargo.at) if again else 0)
