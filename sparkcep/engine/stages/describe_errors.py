"""Describes approximate matches: their errors, their missing variables and their bundles (ACEP, Definition 3).

The searches of :mod:`sparkcep.engine.frontier` and :mod:`sparkcep.engine.budget` pass their matches through it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import numbered
from sparkcep.compiler.net.net import E_COST, Net
from sparkcep.compiler.net.variable_copies import KINDS
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.windows import Measured, measured
from sparkcep.kernels.common import layout
from sparkcep.kernels.common.layout import E_NUMBER, E_PART, E_ROWS
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
        self._kinds = pa.array([KINDS[k] for k in found.copies.kinds])
        lists = found.skipped
        self._skip_first = np.cumsum([0, *map(len, lists)]).astype(np.int64)
        self._skip_variables = np.array([v for skipped in lists for v in skipped], dtype=np.int64)

    def places(self, chunk: Chunk) -> Measured:
        """The rows in the measure of the window."""
        window = self.plan.windows[0]
        return measured(window, chunk.columns.get(window.order), chunk.positions, self.descending)

    def by_event(self, events: np.ndarray, paths: np.ndarray, missing: pa.Array | None = None) -> dict[str, pa.Array]:
        """MATCH_ERRORS() and MISSING() of each event, NULL for rows in no match. ``missing``: the names of the variables, if paths
        are not known."""
        out = {"kind": self._kinds}
        none = events[:, E_ROWS] < 0
        if "errors" in self._asked:
            accepting = np.where(none, 0, events[:, layout.E_ACCEPT])
            costs = self.found.edges[accepting, E_COST]
            out["errors"] = pa.array(costs // self.approx.scale if self.approx.whole else costs / self.approx.scale, mask=none)
        if "missing" in self._asked:
            out["missing"] = self.missing(events, paths) if missing is None else missing
        return out

    def missing(self, events: np.ndarray, paths: np.ndarray) -> pa.Array:
        """The names of the variables that each event lacks."""
        offsets, variables = finding.missing_variables(events, paths, self.found.first_source, self.found.sources, self._skip_first, self._skip_variables)
        names = pa.array(self.plan.variables, type=pa.string()).take(pa.array(variables))
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), names)

    def reported(self, best: MatchBatch, places: Measured, chunk: Chunk) -> MatchBatch:
        """The matches to report: the best matches of last rows, or the best match of each bundle. They are described."""
        if not self.bundling:
            return self.described(best)
        points = finding.last_rows(best.events, best.rows)
        groups = bundle_groups(best.events[:, E_PART], points, places)
        chosen = finding.best_of(best.events, best.rows, groups, self.found.edges)
        firsts = np.flatnonzero(np.diff(groups, prepend=-1))
        sizes = np.diff(np.append(firsts, len(groups)))
        return self.bundles(best.chosen(chosen), points[firsts], points[firsts + sizes - 1], sizes, chunk)

    def bundles(self, best: MatchBatch, first: np.ndarray, last: np.ndarray, sizes: np.ndarray, chunk: Chunk) -> MatchBatch:
        """Describes bundles.

        Args:
            best: the best match of each bundle.
            first, last: int64, the rows of the first and the last match point.
            sizes: int64, the number of match points.
        """
        return self.spanned(self.described(best), first, last, sizes, chunk)

    def spanned(self, found: MatchBatch, first: np.ndarray, last: np.ndarray, sizes: np.ndarray, chunk: Chunk) -> MatchBatch:
        """Adds the values of bundle functions to described matches, see :meth:`bundles`."""
        timed = self.plan.windows[0].order
        values = chunk.columns[timed] if timed else pa.array(chunk.positions)
        found.by_event["bundle_start"] = values.take(pa.array(first))
        found.by_event["bundle_end"] = values.take(pa.array(last))
        found.by_event["bundle_size"] = pa.array(sizes.astype(np.int64))
        if self.approx.budget is not None:
            found.by_event.update({"first_point": pa.array(first), "last_point": pa.array(last)})
        return found

    def described(self, found: MatchBatch) -> MatchBatch:
        """Adds errors and missing variables to matches, and numbers them from 1 in each partition."""
        found.events[:, E_NUMBER] = numbered(found.events[:, E_PART]) + 1
        found.by_event.update(self.by_event(found.events, found.paths))
        return found


def bundle_groups(parts: np.ndarray, points: np.ndarray, places: Measured) -> np.ndarray:
    """The bundle of each match point, which are in order: neighbours no farther apart than the window share a bundle. int64 (n)."""
    if not len(points):
        return points
    apart = (np.diff(parts) != 0) | (places.when[points[1:]] > places.near[points[:-1]])
    return np.concatenate([[0], np.cumsum(apart)]).astype(np.int64)
