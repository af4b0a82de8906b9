"""Describes approximate matches: their errors, their missing variables and their bundles (ACEP, Definition 3).

All approximate matches pass through the stage :class:`Described`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from sparkcep.compiler.net.net import E_COST, Net
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.operator import Found, Operator, Stage
from sparkcep.engine.core.windows import Measured, measured
from sparkcep.kernels.common import layout
from sparkcep.kernels.common.layout import E_PART, E_ROWS
from sparkcep.kernels.frontier import traceback as finding
from sparkcep.plan.extend.approx import BUNDLES, PER_ERROR
from sparkcep.plan.plan import Plan


class DescribeErrors:
    """Describes the matches of one plan. ``found``: its net."""

    def __init__(self, plan: Plan, found: Net) -> None:
        assert plan.approximate is not None
        self.plan, self.approx, self.found = plan, plan.approximate, found
        self.descending = bool(plan.order and plan.order[0].descending)
        self.bundling, self.by_cost = self.approx.report == BUNDLES, self.approx.report == PER_ERROR
        self._asked = {leaf.spec.kind for leaf in plan.leaves}
        lists = found.skipped
        self._skip_first = np.cumsum([0, *map(len, lists)]).astype(np.int64)
        self._skip_variables = np.array([v for skipped in lists for v in skipped], dtype=np.int64)

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

    def missing(self, events: np.ndarray, paths: np.ndarray) -> pa.Array:
        """The names of the variables that each event lacks."""
        offsets, variables = finding.missing_variables(events, paths, self.found.first_source, self.found.sources, self._skip_first, self._skip_variables)
        names = pa.array(self.plan.variables, type=pa.string()).take(pa.array(variables))
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), names)

    def reported(self, best: MatchBatch, places: Measured, chunk: Chunk) -> MatchBatch:
        """The matches to report: the best matches of last rows, or the best match of each bundle."""
        if not self.bundling:
            return best.numbered()
        points = finding.last_rows(best.events, best.rows)
        groups = bundle_groups(best.events[:, E_PART], points, places)
        chosen = finding.best_of(best.events, best.rows, groups, self.found.edges)
        firsts = np.flatnonzero(np.diff(groups, prepend=-1))
        sizes = np.diff(np.append(firsts, len(groups)))
        return self.bundles(best.chosen(chosen), points[firsts], points[firsts + sizes - 1], sizes, chunk)

    def bundles(self, best: MatchBatch, first: np.ndarray, last: np.ndarray, sizes: np.ndarray, chunk: Chunk) -> MatchBatch:
        """Makes matches of bundles.

        Args:
            best: the best match of each bundle.
            first, last: int64, the rows of the first and the last match point.
            sizes: int64, the number of match points.
        """
        return self.spanned(best.numbered(), first, last, sizes, chunk)

    def spanned(self, found: MatchBatch, first: np.ndarray, last: np.ndarray, sizes: np.ndarray, chunk: Chunk) -> MatchBatch:
        """Adds the values of bundle functions to matches, see :meth:`bundles`."""
        timed = self.plan.windows[0].order
        values = chunk.columns[timed] if timed else pa.array(chunk.positions)
        found.by_event["bundle_start"] = values.take(pa.array(first))
        found.by_event["bundle_end"] = values.take(pa.array(last))
        found.by_event["bundle_size"] = pa.array(sizes.astype(np.int64))
        if self.approx.budget is not None:
            found.by_event.update({"first_point": pa.array(first), "last_point": pa.array(last)})
        return found


class Described(Stage):
    """Describes the matches that pass. ``errors``: the describer."""

    def __init__(self, inner: Operator, errors: DescribeErrors) -> None:
        super().__init__(inner)
        self.errors = errors

    def changed(self, found: Found) -> Found:
        return found._replace(matches=self.errors.described(found.matches))


def bundle_groups(parts: np.ndarray, points: np.ndarray, places: Measured) -> np.ndarray:
    """The bundle of each match point, which are in order: neighbours no farther apart than the window share a bundle. int64 (n)."""
    if not len(points):
        return points
    apart = (np.diff(parts) != 0) | (places.when[points[1:]] > places.near[points[:-1]])
    return np.concatenate([[0], np.cumsum(apart)]).astype(np.int64)
