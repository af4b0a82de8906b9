"""Describes approximate matches: their errors and their missing variables (ACEP).

All approximate matches pass through the stage :class:`Described`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sparkcep.compiler.net.net import E_COST
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.operator import Flow, Operator, Stage, Step
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import Measured, measured
from sparkcep.engine.output.columns_out import decimals
from sparkcep.kernels.common import layout
from sparkcep.kernels.common.layout import E_ROWS
from sparkcep.kernels.frontier import traceback as finding
from sparkcep.plan.extend.approx import BUNDLES, PER_ERROR

MAX_SIZE = 10**38 - 1  # largest DECIMAL(38)


class DescribeErrors:
    """Describes the matches of one task. ``found``: its net."""

    def __init__(self, task: Task) -> None:
        plan, found = task.plan, task.prepared.strategy.automaton
        assert plan.approximate is not None
        self.task, self.plan, self.approx, self.found = task, plan, plan.approximate, found
        self.descending = bool(plan.order and plan.order[0].descending)
        self.bundling, self.by_cost = self.approx.report == BUNDLES, self.approx.report == PER_ERROR
        self._asked = {leaf.spec.kind for leaf in plan.leaves}
        lists = found.skipped
        self._skip_first = np.cumsum([0, *map(len, lists)]).astype(np.int64)
        self._skip_variables = np.array([v for skipped in lists for v in skipped], dtype=np.int64)
        self._lists = pa.array([[plan.variables[v] for v in skipped] for skipped in lists], type=pa.list_(pa.string()))

    def places(self, chunk: Chunk) -> Measured:
        """The rows in the measure of the window."""
        window = self.plan.windows[0]
        return measured(window, chunk.columns.get(window.order), chunk.positions, self.descending)

    def described(self, found: MatchBatch) -> MatchBatch:
        """Adds MATCH_ERRORS() and MISSING() to each event, NULL for rows in no match.

        Paths that are not known are not needed if ``found`` has the missing variables.
        """
        events, out = found.events, dict(found.by_event)
        none = events[:, E_ROWS] < 0
        if none.all():  # without edges a net does not have costs
            return found
        if "errors" in self._asked:
            accepting = np.where(none, 0, events[:, layout.E_ACCEPT])
            costs = self.found.edges[accepting, E_COST]
            out["errors"] = pa.array(costs // self.approx.scale if self.approx.whole else costs / self.approx.scale, mask=none)
        if "missing" in self._asked and "missing" not in out:
            out["missing"] = self.missing(events, found.paths)
        return replace(found, by_event=out)

    def counted(self, found: MatchBatch, rows: np.ndarray, chunk: Chunk) -> MatchBatch:
        """Replaces the totals of matches by MATCH_COUNT(). Raises MatchRuntimeError if a number is too large.

        ``rows`` are the last rows of the matches, or the first match point of each bundle.
        """
        totals = found.totals.tolist()
        for row, number in zip(rows.tolist(), totals, strict=True):
            if number > MAX_SIZE:
                raise self.task.failures.count(row, chunk.columns)
        count = decimals(totals, np.ones(len(totals), dtype=np.int64), 38, 0)
        return replace(found, by_event=found.by_event | {"cnt": count}, totals=found.totals[:0])

    def missing(self, events: np.ndarray, paths: np.ndarray) -> pa.Array:
        """The names of the variables that each event lacks."""
        if self.found.sides > 1:  # the edge that completes the match knows all of them
            return self._lists.take(pa.array(self.found.sources[self.found.first_source[events[:, layout.E_ACCEPT]], 1]))
        offsets, variables = finding.missing_variables(events, paths, self.found.first_source, self.found.sources, self._skip_first, self._skip_variables)
        names = pa.array(self.plan.variables, type=pa.string()).take(pa.array(variables))
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), names)


class Described(Stage):
    """Describes the matches that pass. ``errors``: the describer."""

    def __init__(self, inner: Operator, errors: DescribeErrors) -> None:
        super().__init__(inner)
        self.errors = errors

    def step(self, chunk: Chunk, state: Any) -> Step:
        flow = Flow(self.inner.step(chunk, state))
        for found in flow:
            matches = self.errors.described(found.matches)
            if len(matches.totals):
                matches = self.errors.counted(matches, finding.last_rows(matches.events, matches.rows), found.chunk)
            yield found._replace(matches=matches)
        return flow.result
