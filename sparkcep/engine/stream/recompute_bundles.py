"""MATCH BUNDLES over open partitions where conditions look at the match: the rows of windows are searched again
(:mod:`sparkcep.engine.stream.recompute`), and what is new are match points.

A bundle is told when no match point can join it. Its best match may be of any of them, so the rows of that match are kept with
their neighbours, and those of the first and the last match point. They stand apart, in front of the rows that are searched again,
and no search sees them.

A row is in no match once no bundle to be told can have one with it. Rows of a match that is the best one so far wait until its
bundle is told, or another match is better.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ranges
from sparkcep.compiler.net.net import Net
from sparkcep.engine.core.chunk import Chunk, Retained, Saved, columns_of
from sparkcep.engine.core.matches import WITH_ERRORS, MatchBatch, with_unmatched
from sparkcep.engine.core.operator import BaseOperator, RowsAtWatermark, window_ends
from sparkcep.engine.core.resume import ResumeState
from sparkcep.engine.core.state_codec import FAR, POINTS, Ragged, StateColumns, StateSchema, ascending, check_numbers, signature_of
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import next_places
from sparkcep.engine.frontier.cheapest import CheapestPerLastRow
from sparkcep.engine.output.tables import Tables
from sparkcep.engine.stages.bundles import LISTS, NO_BUNDLES, NUMBERS, Bundles
from sparkcep.engine.stream.recompute import EmittedRows, NewMatchTables, Recompute
from sparkcep.kernels.common import layout
from sparkcep.plan.reach import Reach

_NONE = np.zeros(0, dtype=np.int64)
_NO_MARKS = np.zeros(0, dtype=np.uint8)
_NO_TOTALS = np.zeros(0, dtype=object)
_WORD = 64  # bits
_TOTALS = ("total_high", "total_low")  # the two words of how many matches a bundle has


@dataclass(frozen=True)
class BundleState(ResumeState):
    """Where the recomputation of windows resumes, and the bundles that match points to come may join.

    Attributes:
        start, covered: counted from the first kept row.
        dropped: the position of the first row that is searched again, less the lone rows.
        number: the number of the last bundle emitted.
        lone: how many rows of each partition lie before those that are searched again, for a bundle alone. int64 (partitions).
        places: the positions of the lone rows. int64.
        bundles: those that may go on. They count rows over the kept rows of all partitions.
    """

    lone: np.ndarray = field(default_factory=lambda: _NONE)
    places: np.ndarray = field(default_factory=lambda: _NONE)
    bundles: Bundles = NO_BUNDLES

    def positions(self, offsets: np.ndarray) -> np.ndarray:
        """The number of each row of a buffer in its partition."""
        out = super().positions(offsets)
        out[ranges(offsets[: len(self.rows)], self.lone)] = self.places
        return out

    def columns(self) -> StateColumns:
        """As :class:`sparkcep.engine.core.state_codec.State` has it."""
        own, bundles = super().columns(), self.bundles.columns(self.rows)
        words = np.zeros((2, len(self.rows)), dtype=np.int64)
        if len(self.bundles.totals):
            # a total larger than a DECIMAL(38) is an error when it is emitted
            totals = [min(total, (1 << 2 * _WORD) - 1) for total in self.bundles.totals.tolist()]
            parts = [[total >> _WORD, total & (1 << _WORD) - 1] for total in totals]
            words[:, self.bundles.parts] = np.array(parts, dtype=np.uint64).view(np.int64).T
        numbers = own.numbers | {"lone": self.lone} | bundles.numbers | dict(zip(_TOTALS, words, strict=True))
        return StateColumns(self.rows, numbers, own.lists | {"places": Ragged(self.places, self.lone)} | bundles.lists)

    def searched(self) -> ResumeState:
        """The state of the rows that are searched again alone."""
        return ResumeState(self.rows - self.lone, self.start - self.lone, np.zeros_like(self.rows), self.covered - self.lone, self.dropped + self.lone, _NO_MARKS)


class MatchPoints(NewMatchTables):
    """Takes the match points that are told now, in place of making output. ``found``: their best matches; ``totals``: how many
    matches end at each, where it is asked."""

    found, totals = MatchBatch.none(WITH_ERRORS), _NO_TOTALS

    def take(self, found: MatchBatch, totals: list[int]) -> None:
        new = self.new(found)
        self.found = found.chosen(new)
        self.totals = np.array([totals[i] for i in new.tolist()], dtype=object) if totals else _NO_TOTALS


class RecomputeBundles(BaseOperator):
    """Tells bundles of the match points of windows that are searched again. ``best`` finds these; ``points`` takes them."""

    initial = BundleState.of(_NONE)

    def __init__(self, task: Task, best: CheapestPerLastRow, points: MatchPoints, tables: Tables) -> None:
        self.task, self.best, self.points, self.tables = task, best, points, tables
        self.recompute = Recompute(task, self._take, points)
        self.edges = task.prepared.strategy.automaton.edges
        self.saves = bundle_schema(task.prepared.strategy.automaton, task.plan.sizing)
        self.unmatched = task.plan.rows == "unmatched"
        # how far leaves look at the neighbours of a row of a match
        self.back, self.ahead = Reach.of_measures(task.plan)

    @property
    def waits(self) -> bool:
        """Whether something may be told when a window ends though no row came."""
        return self.unmatched or self.recompute.waits

    def ends(self, state: BundleState, kept: RowsAtWatermark) -> np.ndarray:
        """As :meth:`Recompute.ends` has it, or when a bundle is known."""
        return state.bundles.ends(window_ends(kept, state.covered if self.waits else None), kept)

    def nothing(self, chunk: Chunk) -> MatchBatch:
        return self.best.nothing(chunk)

    def step(self, chunk: Chunk, state: BundleState) -> Generator[pa.Table, None, Saved]:
        """Tells the bundles that are complete, and leaves the rows of those that are not, and those that one to come may have in
        its window."""
        self.points.found, self.points.totals = MatchBatch.none(WITH_ERRORS), _NO_TOTALS
        searched, rows = _searched(chunk, state)
        left = yield from self.recompute.step(searched, state.searched())
        assert self.points.emitted is not None
        work = _BundleStep(self, chunk, state, self.points.emitted, searched.offsets, rows)
        yield from work.emitted(self.points.found, self.points.totals)
        return work.left(left)

    def _take(self, chunk: Chunk) -> Iterator[pa.Table]:
        self.points.take(*self.best.points(chunk))
        return iter(())


def _searched(chunk: Chunk, state: BundleState) -> tuple[Chunk, np.ndarray]:
    """The rows that are searched again, and int64 their places in the chunk."""
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
    """One call over some partitions. ``rows`` int64: places of the rows that were searched; ``offsets``: of these in their
    partitions."""

    def __init__(self, search: RecomputeBundles, chunk: Chunk, state: BundleState, emitted: EmittedRows, offsets: np.ndarray, rows: np.ndarray) -> None:
        self.search, self.chunk, self.resumed, self.rows, self.offsets = search, chunk, state, rows, offsets
        self.low = chunk.offsets[:-1]
        self.places = search.best.reporter.places(chunk)
        kept = ranges(self.low, state.rows)
        self.before = state.bundles.moved(np.arange(chunk.parts), kept.__getitem__)
        self.bundles = NO_BUNDLES
        self.number = state.number.copy()
        self.taken = np.zeros(chunk.rows, dtype=np.uint8)
        if len(state.taken):
            self.taken[kept] = state.taken
        # the first row of which is not told yet what ends there, and the first one that may be in a match found later
        self.end, self.first = self._place(emitted.end), self._place(emitted.first)

    def _place(self, at: np.ndarray) -> np.ndarray:
        """int64 (partitions): rows of the searched ones, or their ends, in the chunk."""
        return np.where(at < self.offsets[1:], np.append(self.rows, 0)[np.minimum(at, len(self.rows))], self.chunk.offsets[1:])

    def emitted(self, found: MatchBatch, totals: np.ndarray) -> Iterator[pa.Table]:
        """Output of the bundles that no match point can join, and of rows that are in no match; ``found``: of the match points that
        are new the best matches."""
        search, chunk = self.search, self.chunk
        events = found.events.copy()
        events[:, layout.E_START] = self.rows[events[:, layout.E_START]]
        bundles = self.before.with_points(replace(found, events=events, rows=self.rows[found.rows]), totals, self.places, search.edges)
        waits = chunk.going[bundles.parts] & bundles.newest & (self._next(bundles.parts) <= self.places.near[bundles.last])
        self.bundles, done = bundles.chosen(waits), bundles.chosen(~waits)
        out = search.best.reporter.bundles(done.best, done.first, done.last, done.sizes, chunk)
        if search.task.plan.sizing:
            out.by_event["cnt"] = search.best.sizes(done.totals.tolist(), done.first, chunk)
        out.events[:, layout.E_NUMBER] += self.number[done.parts]
        np.add.at(self.number, done.parts, 1)
        self.taken[done.best.rows] = 1
        if search.unmatched:
            out = with_unmatched(out, self._certain(), chunk, self.taken)
        yield from search.tables.of(chunk, out)

    def _next(self, parts: np.ndarray) -> np.ndarray:
        """Where the next match point of each of some partitions may stand."""
        return next_places(self.search.task.plan.windows[0], self.chunk, self.places, parts, self.end[parts])

    def _certain(self) -> np.ndarray:
        """int64: the rows of which it is now known whether a match has them."""
        covered = self.low + self.resumed.covered
        waited = self.before.best.rows
        waited = waited[waited < covered[self.chunk.partition_of(waited)]]
        rows = np.union1d(waited, ranges(covered, np.maximum(self.first - covered, 0)))
        return np.setdiff1d(rows, self.bundles.best.rows)

    def left(self, left: Saved) -> Saved:
        """What is left; ``left``: of the rows that were searched."""
        search, chunk, bundles = self.search, self.chunk, self.bundles
        parts = np.flatnonzero(chunk.going)
        low, high = chunk.offsets[parts], chunk.offsets[parts + 1]
        begin = chunk.first_of(self.rows[left.rows])[parts]  # from there on all rows are searched again
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
                taken=self.taken[kept.rows] if search.unmatched else _NO_MARKS,
                lone=lone,
                places=chunk.positions[kept.rows[ranges(kept.begins, lone)]],
                bundles=bundles.moved(kept.numbers, kept.moved),
            ),
            kept.rows,
        )


def bundle_schema(net: Net, sizing: bool) -> StateSchema:
    """The schema of :class:`BundleState`. ``sizing``: whether the clause asks for numbers of matches."""
    source = np.repeat(np.arange(net.nodes), np.diff(net.first))
    numbers = (*ResumeState.numbers, "lone", *NUMBERS, *_TOTALS)
    lists = {"taken": np.dtype(np.uint8), "places": np.dtype(np.int64)} | LISTS
    return StateSchema(POINTS, functools.partial(_restored, net.edges, source, sizing), numbers, lists, signature_of(net.edges, net.first))


def _restored(edges: np.ndarray, source: np.ndarray, sizing: bool, columns: StateColumns) -> BundleState:
    """The state with these columns. Raises ValueError."""
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
