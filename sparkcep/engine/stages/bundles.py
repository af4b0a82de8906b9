"""Match bundles that may still grow, with their best matches so far, and their saved state (ACEP, Definition 3).

Two operators of MATCH BUNDLES over a stream use it: :mod:`sparkcep.engine.frontier.cheapest_per_state` and
:mod:`sparkcep.engine.stream.recompute_bundles`. A bundle is a sequence of match points (last rows of matches). Its neighbours are at
most a window apart.

Example: the window has size 10 and the match points are at 3, 9, 25 and 30. They form the bundles (3, 9) and (25, 30).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from sparkcep.compiler.net.net import ACCEPT, E_LABEL, E_TARGET, E_VAR
from sparkcep.engine.core.matches import WITH_ERRORS, MatchBatch
from sparkcep.engine.core.operator import RowsAtWatermark
from sparkcep.engine.core.state_codec import FAR, Ragged, StateColumns, check_numbers
from sparkcep.engine.core.windows import Measured
from sparkcep.engine.stages.describe_errors import bundle_groups
from sparkcep.kernels.common import layout
from sparkcep.kernels.frontier import traceback as finding

# The columns of a saved bundle: its number of match points, the rows of the first and the last one, and the accepting edge of its
# best match. The lists are the rows and the edges of that match.
NUMBERS = ("points", "first_point", "last_point", "accepting")
LISTS = {"matched": np.dtype(np.int32), "paths": np.dtype(np.int32)}
_NONE = np.zeros(0, dtype=np.int64)
_NO_TOTALS = np.zeros(0, dtype=object)


@dataclass(frozen=True)
class Bundles:
    """Bundles by partition. All arrays are by bundles.

    Attributes:
        best: the best match of each bundle.
        first, last: int64, the rows of the first and the last match point.
        sizes: int64, the number of match points.
        totals: Python ints, the number of matches that end at the match points; empty if nothing asks for it.
    """

    best: MatchBatch
    first: np.ndarray
    last: np.ndarray
    sizes: np.ndarray
    totals: np.ndarray = field(default_factory=lambda: _NO_TOTALS)

    @property
    def parts(self) -> np.ndarray:
        """The partition of each bundle. int64."""
        return self.best.events[:, layout.E_PART]

    @property
    def newest(self) -> np.ndarray:
        """Whether each bundle is the last one of its partition. bool."""
        return np.diff(self.parts, append=-1) != 0

    def moved(self, parts: np.ndarray, place: Callable[[np.ndarray], np.ndarray]) -> Bundles:
        """The bundles with new numbers: ``parts`` for their partitions, and ``place`` of their rows."""
        if not len(self.sizes):
            return self
        best = replace(self.best, events=self.best.events.copy(), rows=place(self.best.rows))
        best.events[:, layout.E_PART], best.events[:, layout.E_START] = parts[best.events[:, layout.E_PART]], place(best.events[:, layout.E_START])
        return replace(self, best=best, first=place(self.first), last=place(self.last))

    def chosen(self, which: np.ndarray) -> Bundles:
        """The bundles that ``which`` marks (bool)."""
        totals = self.totals[which] if len(self.totals) else self.totals
        return Bundles(self.best.chosen(np.flatnonzero(which)), self.first[which], self.last[which], self.sizes[which], totals)

    def ends(self, due: np.ndarray, kept: RowsAtWatermark) -> np.ndarray:
        """``due`` of each partition, or when no further match point can join its bundle, if that is earlier. A watermark."""
        if len(self.sizes):
            ends = kept.time[self.last] + kept.size
            due[self.parts] = np.where(ends > kept.watermark, np.minimum(due[self.parts], ends), due[self.parts])
        return due

    def with_points(self, found: MatchBatch, totals: np.ndarray, places: Measured, edges: np.ndarray) -> Bundles:
        """Adds match points to these bundles. Before, each partition has at most one bundle, which later match points extend or
        follow.

        Args:
            found: the best match of each new match point, by partition and in order.
            totals: the number of matches that end at each new match point; empty if nothing asks for it.
            places: the rows in the measure of the window.
            edges: the edges of the net.
        """
        points = finding.last_rows(found.events, found.rows)
        firsts, sizes = points, np.ones(len(points), dtype=np.int64)
        if len(self.sizes):
            found = self.best.joined(found)
            order = np.argsort(found.events[:, layout.E_PART], kind="stable")
            found = found.chosen(order)
            points, firsts, sizes = (np.concatenate(pair)[order] for pair in ((self.last, points), (self.first, firsts), (self.sizes, sizes)))
            if len(totals) or len(self.totals):
                totals = np.concatenate([self.totals, totals])[order]
        if not len(points):
            return NO_BUNDLES
        groups = bundle_groups(found.events[:, layout.E_PART], points, places)
        heads = np.flatnonzero(np.diff(groups, prepend=-1))
        tails = np.append(heads[1:], len(groups)) - 1
        best = found.chosen(finding.best_of(found.events, found.rows, groups, edges))
        totals = np.add.reduceat(totals, heads) if len(totals) else totals
        return Bundles(best, firsts[heads], points[tails], np.add.reduceat(sizes, heads), totals)

    def columns(self, rows: np.ndarray) -> StateColumns:
        """The bundles as columns of a saved state. ``rows``: int64 (partitions), the number of kept rows."""
        numbers = np.zeros((len(NUMBERS), len(rows)), dtype=np.int64)
        begins, sizes = np.cumsum(rows) - rows, np.zeros(len(rows), dtype=np.int64)
        begin = begins[self.parts]
        numbers[:, self.parts] = self.sizes, self.first - begin, self.last - begin, self.best.events[:, layout.E_ACCEPT]
        sizes[self.parts] = self.best.events[:, layout.E_ROWS]
        matched = self.best.chosen(np.argsort(self.parts))
        lists = {"matched": Ragged(matched.rows - np.repeat(begins, sizes), sizes), "paths": Ragged(matched.paths, sizes)}
        return StateColumns(rows, dict(zip(NUMBERS, numbers, strict=True)), lists)

    @staticmethod
    def restored(columns: StateColumns, edges: np.ndarray, source: np.ndarray) -> Bundles:
        """The bundles with these columns. Raises ValueError for columns that are impossible for such rows and edges.

        ``edges``: the edges of the net. ``source``: int64 (edges), the node that each edge leaves.
        """
        rows, (matched, sizes), (paths, lengths) = columns.rows, columns.lists["matched"], columns.lists["paths"]
        points, first, last, accepting = (columns.numbers[name] for name in NUMBERS)
        check_numbers(
            (lengths == sizes) & ((points > 0) == (sizes > 0)), points >= 0, points < FAR, (matched >= 0) & (matched < np.repeat(rows, sizes)), (paths >= 0) & (paths < len(edges)),
            (points == 0) | ((first >= 0) & (first <= last) & (last < rows) & (accepting >= 0) & (accepting < len(edges))),
        )  # fmt: skip
        begins = np.zeros(len(paths), dtype=bool)
        begins[(np.cumsum(sizes) - sizes)[sizes > 0]] = True
        behind = np.where(begins, 0, np.concatenate([[0], edges[paths, E_TARGET]])[:-1])
        ends = edges[paths[np.cumsum(sizes)[sizes > 0] - 1], E_TARGET]
        check_numbers(
            source[paths] == behind, edges[paths, E_VAR] >= 0, begins | (np.diff(matched, prepend=-1) > 0),
            source[accepting[points > 0]] == ends, edges[accepting[points > 0], E_VAR] == ACCEPT,
        )  # fmt: skip
        own, offsets = np.flatnonzero(points), np.cumsum(rows) - rows
        events = np.zeros((len(own), WITH_ERRORS), dtype=np.int64)
        each, found = sizes[own], matched + np.repeat(offsets, sizes)
        events[:, layout.E_PART], events[:, layout.E_ROWS], events[:, layout.E_LABELS] = own, each, np.cumsum(each) - each
        events[:, layout.E_START], events[:, layout.E_ACCEPT] = found[events[:, layout.E_LABELS]], accepting[own]
        best = MatchBatch(events, edges[paths, E_LABEL].astype(np.uint8), found, paths.astype(np.int64))
        return Bundles(best, (offsets + first)[own], (offsets + last)[own], points[own])


NO_BUNDLES = Bundles(MatchBatch.none(WITH_ERRORS), _NONE, _NONE, _NONE)
