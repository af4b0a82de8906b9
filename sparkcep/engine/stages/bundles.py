"""Match bundles: joins match points to bundles, and emits a bundle when no match point can join it (ACEP, Definition 3).

A bundle is a sequence of match points (last rows of matches). Its neighbours are no farther apart than the window. The best match
of a bundle may belong to any of its match points. So over a stream the rows of that match are retained, and the rows of the first
and the last match point.

A row is in no match once it cannot be in the best match of a future bundle. The rows of the best match so far wait until its bundle
is emitted, or until another match is better.

Example: the window has size 10 and the match points are at 3, 9, 25 and 30. They form the bundles (3, 9) and (25, 30).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ranges
from sparkcep.compiler.emission import window_of
from sparkcep.compiler.net.net import ACCEPT, E_LABEL, E_TARGET, E_VAR, Net
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import WITH_ERRORS, MatchBatch
from sparkcep.engine.core.operator import Answer, Flow, Found, Operator, RowsAtWatermark, Stage, Step
from sparkcep.engine.core.state_codec import FAR, Ragged, StateColumns, check_numbers
from sparkcep.engine.core.windows import Measured, next_places
from sparkcep.engine.stages.describe_errors import DescribeErrors
from sparkcep.kernels.common import layout
from sparkcep.kernels.frontier import traceback as finding
from sparkcep.plan.options import MICROS
from sparkcep.plan.records import Window

# The columns of a saved bundle: its number of match points, the rows of the first and the last one, and the accepting edge of its
# best match. The lists are the rows and the edges of that match.
NUMBERS = ("points", "first_point", "last_point", "accepting")
TOTALS = ("total_high", "total_low")  # the two words of a bundle's number of matches
# what the stage saves beside runs, and beside rows that are searched again
BESIDE_RUNS, BESIDE_ROWS = ("reported", *NUMBERS), ("number", *NUMBERS, *TOTALS)
_WORD = 64  # bits
LISTS = {"matched": np.dtype(np.int32), "paths": np.dtype(np.int32)}
_NONE = np.zeros(0, dtype=np.int64)


class Groups(NamedTuple):
    """Bundles as they are joined.

    Attributes:
        both: the best matches of the earlier bundles, then those of the new match points.
        best: int64 (bundles), the best match of each bundle in ``both``.
        head: int64 (bundles), its first one in ``both``.
        first, last: int64 (bundles), the rows of its first and its last match point.
        sizes: int64 (bundles), the number of its match points.
        totals: Python's integers (bundles), the number of matches that end there; empty if nothing asks for it.
    """

    both: MatchBatch
    best: np.ndarray
    head: np.ndarray
    first: np.ndarray
    last: np.ndarray
    sizes: np.ndarray
    totals: np.ndarray


@dataclass(frozen=True)
class Bundles:
    """Bundles by partition. All arrays are by bundles.

    Attributes:
        best: the best match of each bundle. Its total is the number of matches that end at the bundle's match points.
        first, last: int64, the rows of the first and the last match point.
        sizes: int64, the number of match points.
    """

    best: MatchBatch
    first: np.ndarray
    last: np.ndarray
    sizes: np.ndarray

    def __len__(self) -> int:
        return len(self.sizes)

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
        if not len(self):
            return self
        best = replace(self.best, events=self.best.events.copy(), rows=place(self.best.rows))
        best.events[:, layout.E_PART], best.events[:, layout.E_START] = parts[best.events[:, layout.E_PART]], place(best.events[:, layout.E_START])
        return replace(self, best=best, first=place(self.first), last=place(self.last))

    def chosen(self, which: np.ndarray) -> Bundles:
        """The bundles with the numbers ``which``."""
        return Bundles(self.best.chosen(which), self.first[which], self.last[which], self.sizes[which])

    def split(self, which: np.ndarray) -> tuple[Bundles, Bundles]:
        """The bundles that ``which`` marks (bool), and the others."""
        return self.chosen(np.flatnonzero(which)), self.chosen(np.flatnonzero(~which))

    def joined(self, more: Bundles) -> Bundles:
        """These bundles, then ``more``."""
        return Bundles(self.best.joined(more.best), *(np.concatenate([getattr(self, name), getattr(more, name)]) for name in ("first", "last", "sizes")))

    def ends(self, due: np.ndarray, kept: RowsAtWatermark) -> np.ndarray:
        """``due`` of each partition, or when no further match point can join its bundle, if that is earlier. A watermark."""
        if len(self):
            ends = kept.time[self.last] + kept.size
            due[self.parts] = np.where(ends > kept.watermark, np.minimum(due[self.parts], ends), due[self.parts])
        return due

    def grouped(self, found: MatchBatch, places: Measured, edges: np.ndarray) -> Groups:
        """Groups these bundles with new match points. Each bundle may grow.

        Args:
            found: the best match of each new match point, by partition and in order.
            places: the rows in the measure of the window.
            edges: the edges of the net.
        """
        points, both = finding.last_rows(found.events, found.rows), self.best.joined(found)
        parts, last = both.events[:, layout.E_PART], np.concatenate([self.last, points])
        order = np.argsort(parts, kind="stable")
        groups = bundle_groups(parts[order], last[order], places)
        begin = np.flatnonzero(np.diff(groups, prepend=-1))
        best = order[finding.best_of(both.events[order], both.rows, groups, edges)]
        sizes, totals = np.concatenate([self.sizes, np.ones(len(points), dtype=np.int64)])[order], both.totals[order] if len(both.totals) else both.totals
        if not len(order):
            return Groups(both, best, best, points, points, sizes, totals)
        head, tails = order[begin], np.append(begin[1:], len(order)) - 1
        totals = np.add.reduceat(totals, begin) if len(totals) else totals
        return Groups(both, best, head, np.concatenate([self.first, points])[head], last[order[tails]], np.add.reduceat(sizes, begin), totals)

    def with_points(self, found: MatchBatch, places: Measured, edges: np.ndarray) -> Bundles:
        """Adds match points to these bundles, see :meth:`grouped`."""
        both, best, _, first, last, sizes, totals = self.grouped(found, places, edges)
        return Bundles(replace(both.chosen(best), totals=totals), first, last, sizes)

    def may_grow(self, window: Window, chunk: Chunk, places: Measured, until: np.ndarray) -> np.ndarray:
        """Whether a further match point may join each bundle. bool (bundles).

        Args:
            window: the window.
            chunk: the chunk.
            places: its rows in the measure of the window.
            until: int64 (partitions), the first row whose matches are not known yet, or the partition's end.
        """
        grows = chunk.going[self.parts] & self.newest
        if chunk.watermark is not None and len(self):
            grows &= next_places(window, chunk, places, self.parts, until[self.parts]) <= places.near[self.last]
        return grows

    def matches(self, errors: DescribeErrors, chunk: Chunk, before: np.ndarray | None = None) -> MatchBatch:
        """The best matches with the values of bundle functions. They are numbered onwards from ``before``, int64 (partitions)."""
        timed = errors.plan.windows[0].order
        values = chunk.columns[timed] if timed else pa.array(chunk.positions)
        spans = {"bundle_start": values.take(pa.array(self.first)), "bundle_end": values.take(pa.array(self.last)), "bundle_size": pa.array(self.sizes)}
        found = replace(self.best, by_event=self.best.by_event | spans).numbered(before)
        return errors.counted(found, self.first, chunk) if errors.plan.sizing else found

    def columns(self, rows: np.ndarray) -> StateColumns:
        """The bundles as columns of a saved state. ``rows``: int64 (partitions), the number of kept rows."""
        numbers, words = np.zeros((len(NUMBERS), len(rows)), dtype=np.int64), np.zeros((len(TOTALS), len(rows)), dtype=np.int64)
        begins, sizes = np.cumsum(rows) - rows, np.zeros(len(rows), dtype=np.int64)
        begin = begins[self.parts]
        numbers[:, self.parts] = self.sizes, self.first - begin, self.last - begin, self.best.events[:, layout.E_ACCEPT]
        sizes[self.parts] = self.best.events[:, layout.E_ROWS]
        matched = self.best.chosen(np.argsort(self.parts))
        lists = {"matched": Ragged(matched.rows - np.repeat(begins, sizes), sizes), "paths": Ragged(matched.paths, sizes)}
        if len(self.best.totals):
            # A total beyond 128 bits is capped: it is larger than a DECIMAL(38), which is an error when it is emitted.
            totals = [min(total, (1 << 2 * _WORD) - 1) for total in self.best.totals.tolist()]
            parts = [[total >> _WORD, total & (1 << _WORD) - 1] for total in totals]
            words[:, self.parts] = np.array(parts, dtype=np.uint64).view(np.int64).T
        return StateColumns(rows, dict(zip((*NUMBERS, *TOTALS), (*numbers, *words), strict=True)), lists)

    @staticmethod
    def restored(columns: StateColumns, net: Net, sizing: bool) -> Bundles:
        """The bundles with these columns. Raises ValueError for columns that are impossible for such rows and edges.

        ``sizing``: whether the clause asks for the number of matches.
        """
        edges, source = net.edges, np.repeat(np.arange(net.nodes), np.diff(net.first))
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
        words = np.stack([columns.numbers[name][own] for name in TOTALS], axis=1).view(np.uint64).tolist() if sizing else []
        totals = np.array([(high << _WORD) + low for high, low in words], dtype=object)
        best = MatchBatch(events, edges[paths, E_LABEL].astype(np.uint8), found, paths.astype(np.int64), totals=totals)
        return Bundles(best, (offsets + first)[own], (offsets + last)[own], points[own])


NO_BUNDLES = Bundles(MatchBatch.none(WITH_ERRORS), _NONE, _NONE, _NONE)


def bundle_groups(parts: np.ndarray, points: np.ndarray, places: Measured) -> np.ndarray:
    """The bundle of each match point, which are in order: neighbours no farther apart than the window share a bundle. int64 (n)."""
    if not len(points):
        return points
    apart = (np.diff(parts) != 0) | (places.when[points[1:]] > places.near[points[:-1]])
    return np.concatenate([[0], np.cumsum(apart)]).astype(np.int64)


def bundled(answer: Answer, errors: DescribeErrors) -> Answer:
    """Returns a function that finds the bundles of whole partitions. ``answer`` finds their match points, all at once."""

    def bundles(chunk: Chunk) -> Iterator[Found]:
        for found in answer(chunk):
            joined = NO_BUNDLES.with_points(found.matches, errors.places(chunk), errors.found.edges)
            yield found._replace(matches=joined.matches(errors, chunk))

    return bundles


@dataclass(frozen=True)
class BundleState:
    """The saved state of an operator, and the bundles that future match points may join.

    Attributes:
        inner: the state of the operator.
        bundles: the bundles. They count rows over the retained rows of all partitions.
        number: int64 (partitions), the number of the last emitted bundle.
        counted: the name of these numbers in the state.
    """

    inner: Any
    bundles: Bundles
    number: np.ndarray
    counted: str

    @property
    def rows(self) -> np.ndarray:
        """How many rows are retained. int64 (partitions)."""
        return self.inner.rows

    def positions(self, offsets: np.ndarray) -> np.ndarray:
        return self.inner.positions(offsets)

    def marks(self, chunk: Chunk) -> np.ndarray:
        return self.inner.marks(chunk)

    def marked(self, rows: np.ndarray, marks: np.ndarray) -> BundleState:
        return replace(self, inner=self.inner.marked(rows, marks))

    def forgetting(self, numbers: bool, positions: bool) -> BundleState:
        return replace(self, inner=self.inner.forgetting(numbers, positions), number=self.number if numbers else np.zeros_like(self.number))

    def columns(self) -> StateColumns:
        """The columns of the state, see :class:`sparkcep.engine.core.state_codec.State`."""
        own, bundles = self.inner.columns(), self.bundles.columns(self.rows)
        return StateColumns(self.rows, own.numbers | {self.counted: self.number} | bundles.numbers, own.lists | bundles.lists)


class MatchBundles(Stage):
    """Joins the match points that an operator finds over a stream to bundles.

    ``numbers``: the names of saved numbers that the stage adds to those of the operator; the first one counts emitted bundles.
    """

    def __init__(self, inner: Operator, errors: DescribeErrors, numbers: tuple[str, ...]) -> None:
        super().__init__(inner)
        self.errors, self.counted, self.plan = errors, numbers[0], errors.plan
        saves = inner.saves
        more = tuple(name for name in numbers if name not in saves.numbers)
        self.saves = replace(saves, restore=self._restored, numbers=(*saves.numbers, *more), lists={**saves.lists, **LISTS})
        self.initial = BundleState(inner.initial, NO_BUNDLES, np.zeros_like(inner.initial.rows), self.counted)

    def step(self, chunk: Chunk, state: BundleState) -> Step:
        errors, places, parts = self.errors, self.errors.places(chunk), np.flatnonzero(chunk.going)
        before = bundles = state.bundles.moved(np.arange(chunk.parts), ranges(chunk.offsets[: len(state.rows)], state.rows).__getitem__)
        number = np.pad(state.number, (0, chunk.parts - len(state.number)))
        flow = Flow(self.inner.leaving(chunk, state.inner))
        for found in flow:
            bundles = bundles.with_points(found.matches, places, errors.found.edges)
        left = flow.result
        waiting, done = bundles.split(bundles.may_grow(self.plan.windows[0], chunk, places, left.until))
        yield Found(chunk, done.matches(errors, chunk, number))
        np.add.at(number, done.parts, 1)
        saved = left.saved(waiting.best.rows, np.concatenate([waiting.first, waiting.last]))
        if self.plan.rows == "unmatched":
            settled, waited = np.zeros(chunk.rows, dtype=bool), before.best.rows  # the operator has settled some of them before
            settled[waited] = waited < left.covered[chunk.partition_of(waited)]
            settled[left.settled(saved)] = True
            settled[waiting.best.rows] = False
            yield Found(chunk, MatchBatch.none(), np.flatnonzero(settled))
        waiting = waiting.moved(np.cumsum(chunk.going) - 1, saved.moved)
        return replace(saved, state=BundleState(saved.state, waiting, number[parts], self.counted))

    def due(self, state: BundleState, rows: pa.Table, watermark: int) -> np.ndarray:
        due = self.inner.due(state.inner, rows, watermark)
        if window_of(self.plan).kind != MICROS:
            return due
        return state.bundles.ends(due, RowsAtWatermark(self.errors.task, state.rows, rows, watermark))

    def under_way(self, state: BundleState) -> np.ndarray:
        return self.inner.under_way(state.inner)

    def forgetting(self, state: BundleState, numbers: bool, positions: bool) -> BundleState:
        return state.forgetting(numbers, positions)

    def _restored(self, columns: StateColumns) -> BundleState:
        number = columns.numbers[self.counted]
        check_numbers(number >= 0, number < FAR)
        return BundleState(self.inner.saves.restore(columns), Bundles.restored(columns, self.errors.found, self.plan.sizing), number, self.counted)
