"""Breaks ties between ways to one match as the clause without its BUDGET does, at match points with no check left out.

Of several ways to one match (same rows, same cost) a report shows one: which variables took the rows, and which are missing. Under
a budget the way with the earliest pattern positions wins, because candidates are identified by position.

If no check was left out, the report must equal that of the clause without a budget. So if a search noticed ties, this clause is
run. It sees only the rows in the windows of these match points, where it does no more work than the search under the budget did.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ranges
from sparkcep.compiler.liveness import selection_live
from sparkcep.compiler.net.net import E_COST
from sparkcep.compiler.searches import CLASSES, PROXIES
from sparkcep.compiler.strategy import Strategy, strategy_of
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.task import Prepared, Task
from sparkcep.engine.frontier.cheapest import CheapestRuns
from sparkcep.engine.frontier.frontier import Frontier
from sparkcep.engine.stages.describe_errors import DescribeErrors
from sparkcep.errors import ClauseError
from sparkcep.kernels.common import layout
from sparkcep.kernels.frontier import traceback as finding
from sparkcep.plan.extend.approx import ALL
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ALL_ROWS

_ALIKE = ("errors", "mno", "bundle_size", "bundle_start", "bundle_end", "complete", "left_out", "coverage")


def distinguishes_ways(plan: Plan) -> bool:
    """Whether a report shows more of a match than its rows and its errors."""
    approx = plan.approximate
    assert approx is not None
    if approx.budget is None or approx.report == ALL:
        return False  # ALL MATCHES reports every way that differs in its variables.
    return plan.rows != "one" or any(spec.kind not in _ALIKE and (spec.kind != "nav" or spec.mask != ALL_ROWS) for _, spec in plan.leaves)


@dataclass(frozen=True)
class UnbudgetedSearch:
    """The search of a clause without its budget, and the describer of its matches."""

    task: Task
    front: Frontier
    reporter: DescribeErrors

    @staticmethod
    def of(task: Task) -> UnbudgetedSearch | None:
        """The unbudgeted search of a task's clause. None if it would list all matches or have too many states."""
        strategy = _strategy(task.prepared)
        if strategy is None:
            return None
        prepared = replace(task.prepared, strategy=strategy, state_live=selection_live(strategy.automaton, task.prepared.conditions))
        plain = Task.of(prepared, task.limits)
        return UnbudgetedSearch(plain, Frontier(plain), DescribeErrors(plain))

    def with_ways(self, found: MatchBatch, chunk: Chunk, since: np.ndarray, left: np.ndarray, tied: np.ndarray, costs: np.ndarray) -> MatchBatch:
        """Replaces labels and missing variables of described matches by those of the clause without a budget.

        A match is replaced if ways tied, and no check was left out, in the window before its last row.

        Args:
            since: int64 (rows), the first row whose window holds each row.
            left: int64 (rows), checks left out.
            tied: uint8 (rows), whether ways tied.
            costs: int64 (matches).
        """
        points = finding.last_rows(found.events, found.rows)
        lost, ties = _sums(left), _sums(tied)
        asked = np.flatnonzero((lost[points + 1] == lost[since[points]]) & (ties[points + 1] > ties[since[points]]))
        if not len(asked):
            return found
        begin, end = since[points[asked]], points[asked] + 1
        search = CheapestRuns(self.front, chunk, self.reporter.by_cost)
        outside = np.ones(chunk.rows, dtype=bool)
        outside[ranges(begin, end - begin)] = False
        search.data.rows.letters[outside] = 0  # so that no variable takes such a row
        (plain,) = search.rounds()
        places = {place: at for at, place in enumerate(zip(finding.last_rows(plain.events, plain.rows).tolist(), self._costs(plain)))}
        costs = costs.tolist()
        labels, source = found.labels.copy(), np.arange(len(points))
        for i in asked.tolist():
            at = places[int(points[i]), costs[i]]
            (_, _, size, _, to, _), (_, _, same, _, begins, _) = found.events[i].tolist(), plain.events[at].tolist()
            assert (found.rows[to : to + size] == plain.rows[begins : begins + same]).all(), "ways to one match have the same rows"
            labels[to : to + size] = plain.labels[begins : begins + size]
            source[i] = len(points) + at
        by_event = dict(found.by_event)
        if "missing" in by_event:
            lists = [by_event["missing"], self.reporter.missing(plain.events, plain.paths)]
            by_event["missing"] = pa.concat_arrays(lists).take(pa.array(source))
        return replace(found, labels=labels, by_event=by_event)

    def _costs(self, plain: MatchBatch) -> list[int]:
        return self.reporter.found.edges[plain.events[:, layout.E_ACCEPT], E_COST].tolist()


def _strategy(prepared: Prepared) -> Strategy | None:
    plan = prepared.strategy.unbudgeted
    if plan is None:
        return None
    try:
        strategy = strategy_of(plan)
    except ClauseError as error:
        if error.error_class != "SPARKCEP.PATTERN_TOO_COMPLEX":
            raise
        return None  # The clause cannot be answered without a budget.
    return strategy if strategy.search in (CLASSES, PROXIES) else None


def _sums(values: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
