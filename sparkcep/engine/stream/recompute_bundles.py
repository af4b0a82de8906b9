"""MATCH BUNDLES by window recomputation over a stream, if conditions look at the match (ACEP, Definition 3).

Each step recomputes the windows (:mod:`sparkcep.engine.stream.recompute`), which yields new match points.
:mod:`sparkcep.engine.stages.bundles` joins them to bundles. A bundle is emitted when no further match point can join it.

The best match of a bundle may belong to any of its match points. So the rows of that match are kept with their neighbours, and the
rows of the first and the last match point. These isolated rows come before the rows that are searched again. No search reads them.

A row is in no match once it cannot be in the best match of a future bundle. The rows of the best match so far wait until its bundle
is emitted, or until another match is better.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ranges
from sparkcep.compiler.net.net import Net
from sparkcep.engine.core.chunk import Chunk, Retained, Saved, columns_of
from sparkcep.engine.core.matches import WITH_ERRORS, MatchBatch, together
from sparkcep.engine.core.operator import BaseOperator, Flow, Found, RowsAtWatermark, Step, window_ends
from sparkcep.engine.core.resume import ResumeState
from sparkcep.engine.core.state_codec import FAR, POINTS, Ragged, StateColumns, StateSchema, ascending, check_numbers, signature_of
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import next_places
from sparkcep.engine.frontier.cheapest import CheapestPerLastRow
from sparkcep.engine.stages.bundles import LISTS, NO_BUNDLES, NUMBERS, Bundles
from sparkcep.engine.stream.recompute import EmittedRows, HeldBack, Recompute
from sparkcep.kernels.common import layout
from sparkcep.plan.reach import Reach

_NONE = np.zeros(0, dtype=np.int64)
_NO_MARKS = np.zeros(0, dtype=np.uint8)
_WORD = 64  # bits
_TOTALS = ("total_high", "total_low")  # the two words of a bundle's number of matches


@dataclass(frozen=True)
class BundleState(ResumeState):
    """The state of the recomputation of windows, and the bundles that future match points may join.

    Attributes:
        start, covered: counted from the first kept row.
        dropped: the position of the first row that is searched again, less the number of isolated rows.
        number: the number of the last emitted bundle.
        lone: int64 (partitions), how many isolated rows are kept for a bundle alone. They precede those that are searched again.
        places: int64, the positions of the isolated rows.
        bundles: the bundles that may still grow. They count rows over the kept rows of all partitions.
    """

    lone: np.ndarray = field(default_factory=lambda: _NONE)
    places: np.ndarray = field(default_factory=lambda: _NONE)
    bundles: Bundles = NO_BUNDLES

    def positions(self, offsets: np.ndarray) -> np.ndarray:
        """The position of each row of a buffer in its partition."""
        out = super().positions(offsets)
        out[ranges(offsets[: len(self.rows)], self.lone)] = self.places
        return out

    def columns(self) -> StateColumns:
        """The columns of the state, see :class:`sparkcep.engine.core.state_codec.State`."""
        own, bundles = super().columns(), self.bundles.columns(self.rows)
        words = np.zeros((2, len(self.rows)), dtype=np.int64)
        if len(self.bundles.totals):
            # A total beyond 128 bits is capped: it is larger than a DECIMAL(38), which is an error when it is emitted.
            totals = [min(total, (1 << 2 * _WORD) - 1) for total in self.bundles.totals.tolist()]
            parts = [[total >> _WORD, total & (1 << _WORD) - 1] for total in totals]
            words[:, self.bundles.parts] = np.array(parts, dtype=np.uint64).view(np.int64).T
        numbers = own.numbers | {"lone": self.lone} | bundles.numbers | dict(zip(_TOTALS, words, strict=True))
        return StateColumns(self.rows, numbers, own.lists | {"places": Ragged(self.places, self.lone)} | bundles.lists)

    def searched(self) -> ResumeState:
        """The state for only the rows that are searched again."""
        return ResumeState(self.rows - self.lone, self.start - self.lone, np.zeros_like(self.rows), self.covered - self.lone, self.dropped + self.lone, _NO_MARKS)


class RecomputeBundles(BaseOperator):
    """The operator of MATCH BUNDLES by recomputation. ``best`` finds the match points."""

    initial = BundleState.of(_NONE)

    def __init__(self, task: Task, best: CheapestPerLastRow, held: Callable[[], HeldBack] | None) -> None:
        self.task, self.best = task, best
        self.recompute = Recompute(task, lambda chunk: iter([Found(chunk, best.points(chunk))]), held)
        self.edges = task.prepared.strategy.automaton.edges
        self.saves = bundle_schema(task.prepared.strategy.automaton, task.plan.sizing)
        self.unmatched = task.plan.rows == "unmatched"
        # how many rows before and after a row of a match leaves read
        self.back, self.ahead = Reach.of_measures(task.plan)

    @property
    def waits(self) -> bool:
        """Whether something may be emitted when a window ends, without a new row."""
        return self.unmatched or self.recompute.waits

    def ends(self, state: BundleState, kept: RowsAtWatermark) -> np.ndarray:
        """See :meth:`Recompute.ends`; or when no match point can join a bundle, if that is earlier."""
        return state.bundles.ends(window_ends(kept, state.covered if self.waits else None), kept)

    def step(self, chunk: Chunk, state: BundleState) -> Step:
        """Emits the bundles that are final. Saves the rows of the others, and the rows that may share a window with a future
        row."""
        searched, rows = _searched(chunk, state)
        flow = Flow(self.recompute.step(searched, state.searched()))
        points = together([found.matches for found in flow if len(found.matches.events)], WITH_ERRORS)
        work = _BundleStep(self, chunk, state, self.recompute.emitted, searched.offsets, rows)
        yield from work.emitted(points)
        return work.left(flow.saved)


def _searched(chunk: Chunk, state: BundleState) -> tuple[Chunk, np.ndarray]:
    """The rows that are searched again as a chunk, and their numbers in the given chunk, int64."""
    lone = state.lone
    low, sizes = chunk.offsets[:-1] + lone, np.diff(chunk.offsets) - lone
    rows = ranges(low, sizes)
    if not lone.any():
        return chunk, rows
    assert chunk.closed is not None
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    table = chunk.table.take(pa.array(rows)).combine_chunks()
    positions, closed = chunk.positions[rows], np.maximum(chunk.closed - low, 0) + offsets[:-1]
    return replace(chunk, table=table, columns=columns_of(table, chunk.columns), offsets=offsets, place=lambda _: positions, closed=closed), rows


class _BundleStep:
    """One step over a chunk.

    Attributes:
        rows: int64, the chunk's rows that were searched.
        offsets: int64 (partitions + 1), the searched rows of each partition.
        before: the bundles from the state.
        bundles: the bundles that may still grow.
        number: int64 (partitions), the number of the last emitted bundle.
        end: int64 (partitions), the first row whose match points are not known yet.
        first: int64 (partitions), the first row that may be in a match found later.
    """

    def __init__(self, search: RecomputeBundles, chunk: Chunk, state: BundleState, emitted: EmittedRows, offsets: np.ndarray, rows: np.ndarray) -> None:
        self.search, self.chunk, self.resumed, self.rows, self.offsets = search, chunk, state, rows, offsets
        self.low = chunk.offsets[:-1]
        self.places = search.best.reporter.places(chunk)
        kept = ranges(self.low, state.rows)
        self.before = state.bundles.moved(np.arange(chunk.parts), kept.__getitem__)
        self.bundles = NO_BUNDLES
        self.number = state.number.copy()
        # ``emitted`` counts the searched rows.
        self.end, self.first = self._place(emitted.end), self._place(emitted.first)

    def _place(self, at: np.ndarray) -> np.ndarray:
        """The chunk's rows with the numbers ``at`` among the searched ones, or the partitions' ends. int64 (partitions)."""
        return np.where(at < self.offsets[1:], np.append(self.rows, 0)[np.minimum(at, len(self.rows))], self.chunk.offsets[1:])

    def emitted(self, found: MatchBatch) -> Iterator[Found]:
        """The bundles that no match point can join, and the rows that are settled. ``found``: the best matches of the new match
        points."""
        search, chunk = self.search, self.chunk
        events = found.events.copy()
        events[:, layout.E_START] = self.rows[events[:, layout.E_START]]
        bundles = self.before.with_points(replace(found, events=events, rows=self.rows[found.rows], totals=found.totals[:0]), found.totals, self.places, search.edges)
        waits = chunk.going[bundles.parts] & bundles.newest & (self._next(bundles.parts) <= self.places.near[bundles.last])
        self.bundles, done = bundles.chosen(waits), bundles.chosen(~waits)
        out = search.best.reporter.bundles(done.best, done.first, done.last, done.sizes, chunk)
        if search.task.plan.sizing:
            out.by_event["cnt"] = search.best.sizes(done.totals.tolist(), done.first, chunk)
        out.events[:, layout.E_NUMBER] += self.number[done.parts]
        np.add.at(self.number, done.parts, 1)
        yield Found(chunk, out, self._certain() if search.unmatched else None)

    def _next(self, parts: np.ndarray) -> np.ndarray:
        """The first place of the window's measure where each of ``parts`` may have another match point."""
        return next_places(self.search.task.plan.windows[0], self.chunk, self.places, parts, self.end[parts])

    def _certain(self) -> np.ndarray:
        """The rows for which it is now final whether a match has them. int64."""
        covered = self.low + self.resumed.covered
        waited = self.before.best.rows
        waited = waited[waited < covered[self.chunk.partition_of(waited)]]
        rows = np.union1d(waited, ranges(covered, np.maximum(self.first - covered, 0)))
        return np.setdiff1d(rows, self.bundles.best.rows)

    def left(self, left: Saved) -> Saved:
        """The state to save. ``left``: the state of the recomputation, for the searched rows."""
        search, chunk, bundles = self.search, self.chunk, self.bundles
        parts = np.flatnonzero(chunk.going)
        low, high = chunk.offsets[parts], chunk.offsets[parts + 1]
        begin = chunk.first_of(self.rows[left.rows])[parts]  # all rows from here on are searched again
        around = bundles.best.rows[:, None] + np.arange(-search.back, search.ahead + 1)
        own = chunk.partition_of(bundles.best.rows)
        inside = (around >= chunk.offsets[own, None]) & (around < chunk.offsets[own + 1, None])
        kept = Retained(chunk, begin, np.concatenate([around[inside], bundles.first, bundles.last]))
        lone = kept.within(begin)
        return Saved(
            BundleState(
                rows=kept.sizes,
                start=left.state.start + lone,
                number=self.number[parts],
                covered=kept.within(np.clip(self.first[parts], low, high)),
                dropped=left.state.dropped - lone,
                taken=_NO_MARKS,
                lone=lone,
                places=chunk.positions[kept.rows[ranges(kept.begins, lone)]],
                bundles=bundles.moved(kept.numbers, kept.moved),
            ),
            kept.rows,
        )


def bundle_schema(net: Net, sizing: bool) -> StateSchema:
    """The schema of :class:`BundleState`. ``sizing``: whether the clause asks for the number of matches."""
    source = np.repeat(np.arange(net.nodes), np.diff(net.first))
    numbers = (*ResumeState.numbers, "lone", *NUMBERS, *_TOTALS)
    lists = {"taken": np.dtype(np.uint8), "places": np.dtype(np.int64)} | LISTS
    return StateSchema(POINTS, functools.partial(_restored, net.edges, source, sizing), numbers, lists, signature_of(net.edges, net.first))


def _restored(edges: np.ndarray, source: np.ndarray, sizing: bool, columns: StateColumns) -> BundleState:
    """The state with these columns. Raises ValueError if no step can have left it."""
    rows, (taken, marks), (places, apart) = columns.rows, columns.lists["taken"], columns.lists["places"]
    start, number, covered, dropped, lone = (columns.numbers[name] for name in (*ResumeState.numbers, "lone"))
    check_numbers(
        apart == lone, (marks == rows) | (len(taken) == 0), taken <= 1, lone >= 0, lone <= np.minimum(start, covered), np.maximum(start, covered) <= rows,
        number >= 0, number < FAR, np.abs(dropped) < FAR, ascending(places, apart), places >= 0, places < np.repeat(dropped + lone, apart),
    )
    bundles = Bundles.restored(columns, edges, source)
    words = np.stack([columns.numbers[name][bundles.parts] for name in _TOTALS], axis=1).view(np.uint64).tolist() if sizing else []
    totals = np.array([(high << _WORD) + low for high, low in words], dtype=object)
    return BundleState(rows, start, number, covered, dropped, taken, lone, places, replace(bundles, totals=totals))
