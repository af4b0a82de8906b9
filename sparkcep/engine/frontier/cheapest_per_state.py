"""Cheapest approximate matches with one run for each state and cost: PROXY MATCHES, PER ERROR and MATCH BUNDLES.

This is the optimization of ACEP (VLDB 2016, section 3.3). A row is retained only as long as a run, an open bundle or a neighbour
needs it. The next chunk holds only such rows, and they need not be consecutive.
"""

from __future__ import annotations

import functools
from collections.abc import Generator
from dataclasses import dataclass, field, replace

import numpy as np

from sparkcep.columns.arrays import ranges
from sparkcep.compiler.net.net import E_TARGET
from sparkcep.compiler.searches import PROXIES
from sparkcep.engine.core.chunk import Chunk, Retained, Saved
from sparkcep.engine.core.kernel_loop import KernelLoop, OutputRoom
from sparkcep.engine.core.matches import WITH_ERRORS, MatchBatch
from sparkcep.engine.core.operator import Found, Left, Operator, RowsAtWatermark, window_ends
from sparkcep.engine.core.predicates import kernel_data
from sparkcep.engine.core.state_codec import (
    CHEAPEST,
    FAR,
    Ragged,
    StateColumns,
    StateSchema,
    ascending,
    check_numbers,
    distinct,
    signature_of,
)
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import Measured, next_places
from sparkcep.engine.frontier.frontier import front_arrays
from sparkcep.engine.frontier.run_room import compacted, distinguished, empty_runs, follow, node_classes, with_room
from sparkcep.engine.match.gap_walk import CONTIGUITY, windowed
from sparkcep.engine.stages.bundles import BESIDE_RUNS, LISTS
from sparkcep.engine.stages.describe_errors import DescribeErrors
from sparkcep.kernels.common import layout, run_chains
from sparkcep.kernels.common.run_chains import NONE
from sparkcep.kernels.frontier import frontier as fronts
from sparkcep.kernels.frontier import payload
from sparkcep.plan.reach import Reach

ENTRIES = 1 << 14  # initial number of entries
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class RunState:
    """The saved runs of a search in partitions that may still grow.

    These partitions are the first ones of the next chunk. Rows are counted over the retained rows of all partitions.

    Attributes:
        rows: how many rows are retained. int64 (partitions).
        known: how many of those were searched; they are the first ones. int64 (partitions).
        next: the position of the row after the searched ones. int64 (partitions).
        number: the number of the last match. int64 (partitions).
        places: the position of each searched row. int64.
        taken: 1 for each searched row that is in an emitted match, or was emitted as a row in no match. uint8.
        runs: the entries of the runs.
        used: how many entries there are.
        run: the run of each node. int64 (partitions, nodes).
    """

    rows: np.ndarray = field(default_factory=lambda: _NONE)
    known: np.ndarray = field(default_factory=lambda: _NONE)
    next: np.ndarray = field(default_factory=lambda: _NONE)
    number: np.ndarray = field(default_factory=lambda: _NONE)
    places: np.ndarray = field(default_factory=lambda: _NONE)
    taken: np.ndarray = field(default_factory=lambda: _NONE.astype(np.uint8))
    runs: payload.Runs | None = None
    used: int = 0
    run: np.ndarray = field(default_factory=lambda: _NONE)

    def forgetting(self, numbers: bool, positions: bool) -> RunState:
        """Drops match numbers, and positions of partitions without rows, unless something asks for them."""
        number = self.number if numbers else np.zeros_like(self.rows)
        return replace(self, number=number, next=self.next if positions else np.where(self.rows > 0, self.next, 0))

    def columns(self) -> StateColumns:
        """Returns the state as columns, see :class:`sparkcep.engine.core.state_codec.State`."""
        count, offsets = len(self.rows), np.concatenate([[0], np.cumsum(self.rows)])
        runs = self.runs
        at, pool = (runs.at[: self.used], runs.pool[: self.used]) if runs is not None else (_NONE, np.zeros((0, run_chains.C_FIELDS), dtype=np.int64))
        # the order of entries in their partition keeps each entry after its predecessor
        part = np.searchsorted(offsets, at, side="right") - 1
        order = np.argsort(part, kind="stable")
        entries = np.bincount(part, minlength=count)
        first = np.cumsum(entries) - entries
        place = np.empty(self.used, dtype=np.int64)
        place[order] = np.arange(self.used) - first[part[order]]
        before = pool[:, run_chains.C_PARENT]
        before = np.where(before == NONE, NONE, place[before]) if self.used else before
        table = np.stack([at - offsets[part], pool[:, run_chains.C_EDGE], before], axis=1)[order]
        run = self.run if self.used else np.full((count, 0), NONE)
        of, node = np.nonzero(run != NONE)
        numbers = {"known": self.known, "next": self.next, "number": self.number}
        lists = {
            "places": Ragged(self.places, self.known), "taken": Ragged(self.taken, self.known), "entries": Ragged(table, 3 * entries),
            "live": Ragged(place[run[of, node]], np.bincount(of, minlength=count)),
        }  # fmt: skip
        return StateColumns(self.rows, numbers, lists)

    def marks(self, chunk: Chunk) -> np.ndarray:
        """Returns the marks of a chunk's rows: 1 for searched rows that are in an emitted match. uint8 (rows)."""
        marks = np.zeros(chunk.rows, dtype=np.uint8)
        marks[ranges(chunk.offsets[: len(self.rows)], self.known)] = self.taken
        return marks

    def marked(self, rows: np.ndarray, marks: np.ndarray) -> RunState:
        """Returns the state with the ``marks`` of its searched rows. Its retained rows are the ``rows`` of the chunk."""
        return replace(self, taken=marks[rows[ranges(np.cumsum(self.rows) - self.rows, self.known)]])

    def positions(self, offsets: np.ndarray) -> np.ndarray:
        """Returns the number of each row of a chunk in its partition. int64 (rows)."""
        first = np.zeros(len(offsets) - 1, dtype=np.int64)
        first[: len(self.rows)] = self.next - self.known
        out = ranges(first, np.diff(offsets))
        out[ranges(offsets[: len(self.rows)], self.known)] = self.places
        return out

    def opens(self, chunk: Chunk) -> np.ndarray:
        """Returns the state as the kernel takes it. int64 (partitions, OPEN_FIELDS)."""
        out, count = np.zeros((chunk.parts, layout.OPEN_FIELDS), dtype=np.int64), len(self.rows)
        out[:, layout.O_START] = chunk.offsets[:-1]
        out[:count, layout.O_START] += self.known
        out[:count, layout.O_NUMBER] = self.number
        out[:, layout.O_CUT] = chunk.cut
        out[:count, layout.O_CUT] |= self.next > 0
        out[:, layout.O_GOING] = chunk.going
        return out


class CheapestPerState(Operator):
    """Finds the best match of each last row, or of each last row and cost, in one pass over the rows."""

    initial = RunState()

    def __init__(self, task: Task, reporter: DescribeErrors) -> None:
        self.task, self.reporter = task, reporter
        self.net = front_arrays(task.prepared.strategy.automaton)
        self.saves = run_schema(self.net)
        # if a match may have to end with its partition, a row is final when the next one has arrived
        self.ahead = max(task.ahead, int((self.net.accept != self.net.accept_end).any()))
        # leaves may look at neighbours of any row of a match, conditions at those of future rows
        self.neighbours = any(Reach.of_measures(task.plan))

    def leaving(self, chunk: Chunk, state: RunState) -> Generator[Found, None, Left]:
        work = _CheapestStep(self, chunk, state)
        for found in work.rounds():
            yield Found(chunk, found)
        return Left(work.opens[:, layout.O_START], chunk.offsets[:-1], work.saved, lambda _: np.delete(np.arange(chunk.rows), work.open))

    def ends(self, state: RunState, kept: RowsAtWatermark) -> np.ndarray:
        """Returns when a partition without new rows drops its last row. int64 (partitions), in microseconds."""
        return window_ends(kept)


class _CheapestStep(KernelLoop):
    """The search over one chunk.

    ``open``: int64, the rows that a future match may have, or that a stage retains.
    """

    name = PROXIES

    def __init__(self, search: CheapestPerState, chunk: Chunk, state: RunState) -> None:
        super().__init__(search.task, chunk)
        self.data = kernel_data(search.task.prepared, chunk)
        self.search, self.resumed, self.open = search, state, _NONE
        self.measured: Measured = search.reporter.places(chunk)
        self.letters = self.data.rows.letters
        if self.measured.null.any():
            self.letters = np.where(self.measured.null, 0, self.letters)
        size = max(1024, chunk.rows // 4)
        self.room = OutputRoom(size, 4 * size, WITH_ERRORS, paths=True)
        self.opens = state.opens(chunk)
        self.state = np.zeros(fronts.FRONT_STATE, dtype=np.int64)
        self.state[[layout.S_START, layout.S_NUMBER]] = self.opens[0, [layout.O_START, layout.O_NUMBER]]
        self.state[payload.K_ENTRIES] = self.state[payload.K_KEPT] = state.used
        # partitions that were open before the chunk or remain open have classes of their own
        own = chunk.going.copy()
        own[: len(state.rows)] = True
        self.slots = np.cumsum(own) * own
        runs = (state.runs or empty_runs(0, ENTRIES, chunk.positions, self.room))._replace(positions=chunk.positions)
        self.runs = distinguished(runs, search.net.edges, search.reporter.by_cost)
        head = np.full((1 + int(own.sum()), len(search.net.masks)), NONE, dtype=np.int64)
        self.classes = node_classes(head, self.runs, len(search.net.by_edge), self.measured.until.dtype)
        if state.used:  # the new rows of each partition come after its retained rows
            self.runs.at[: state.used] = ranges(chunk.offsets[: len(state.rows)], state.rows)[self.runs.at[: state.used]]
            head[1 : 1 + len(state.rows)] = state.run
            payload.resume(self.classes, self.runs, self.measured.until)

    def run(self) -> int:
        self.runs = with_room(self.runs, self.room)
        return fronts.front_partitions(
            self.search.net, CONTIGUITY[self.task.plan.selection.strategy], True, windowed(self.task), self.letters, self.chunk.offsets, self.measured.when,
            self.measured.until, self.opens, self.slots, np.int64(self.search.ahead), None, self.classes, None, None, self.runs, self.state,
        )

    def grow(self) -> None:
        """Drops entries that belong to no run any more, to make room for new ones."""
        self.classes, self.runs = compacted(self.classes, self.runs, self.state, 2 * len(self.search.net.by_edge))
        self.check(sum(a.nbytes for a in (*self.classes, *self.runs)))

    def widen(self, kept: bool) -> None:
        self.room.widen(int(self.state[layout.S_DETAIL]), self.task.limits.max_state_bytes)

    def found(self) -> MatchBatch:
        return self.room.found(self.state)

    def _next(self, parts: np.ndarray) -> np.ndarray:
        """Returns, over a stream, the first place that a row not searched yet may have."""
        return next_places(self.task.plan.windows[0], self.chunk, self.measured, parts, self.opens[parts, layout.O_START])

    def _expire(self, parts: np.ndarray) -> None:
        """Drops, over a stream, the runs whose windows have closed: no future row can continue them."""
        if self.chunk.watermark is None or not windowed(self.task):
            return
        head = self.classes.head[self.slots[parts]]
        ended = (head != NONE) & (self.classes.until[np.maximum(head, 0)] < self._next(parts)[:, None])
        self.classes.head[self.slots[parts]] = np.where(ended, NONE, head)

    def saved(self, read: np.ndarray, others: np.ndarray) -> Saved:
        """Returns the resume state of the growing partitions, with the retained rows.

        These are the rows not searched yet, the rows of open runs, those that a stage retains, and their neighbours.
        """
        chunk, state = self.chunk, self.resumed
        parts = np.flatnonzero(chunk.going)
        if not len(parts):
            return Saved(RunState(), _NONE)
        low, high = chunk.offsets[parts], chunk.offsets[parts + 1]
        begin = np.clip(self.opens[parts, layout.O_START], low, high)
        self._expire(parts)
        self.state[payload.K_KEPT] = self.state[payload.K_ENTRIES]
        payload.compact(self.classes, self.runs, self.state)
        used = int(self.state[payload.K_ENTRIES])
        looked = np.unique(np.concatenate([self.runs.at[:used], read, others]))
        self.open = np.union1d(looked, ranges(begin, high - begin))
        first = begin
        if self.search.neighbours:
            first = np.minimum(begin, chunk.first_of(looked)[parts])
        kept = Retained(chunk, np.maximum(low, first - max(self.task.back, chunk.least)), looked)
        known = kept.within(begin)
        searched = kept.rows[ranges(kept.begins, known)]
        base = np.zeros(chunk.parts, dtype=np.int64)
        base[: len(state.rows)] = state.next - state.known
        self.runs.at[:used] = kept.moved(self.runs.at[:used])
        return Saved(
            RunState(
                rows=kept.sizes,
                known=known,
                next=base[parts] + begin - low,
                number=self.opens[parts, layout.O_NUMBER],
                places=chunk.positions[searched],
                runs=self.runs,
                used=used,
                run=self.classes.head[self.slots[parts]],
            ),
            kept.rows,
            rescan=False,
        )


def run_schema(net: fronts.FrontArrays) -> StateSchema:
    """Returns the schema of :class:`RunState`.

    A run has entries (retained row, edge, previous entry). The bytes have the columns of bundles, whether or not a clause asks for
    them.
    """
    lists = {"places": np.int64, "taken": np.uint8, "entries": np.int32, "live": np.int32}
    numbers = ("known", "next", "number", *BESIDE_RUNS)
    signature = signature_of(net.edges, net.source, net.accept_end)
    return StateSchema(CHEAPEST, functools.partial(_restored, net), numbers, {name: np.dtype(t) for name, t in lists.items()} | LISTS, signature)


def _restored(net: fronts.FrontArrays, columns: StateColumns) -> RunState:
    """Returns the state with these columns. Raises ValueError."""
    rows = columns.rows
    count, offsets = len(rows), np.cumsum(rows) - rows
    (places, known), (taken, marks), (table, cells), (live, lives) = (columns.lists[name] for name in ("places", "taken", "entries", "live"))
    check_numbers(cells % 3 == 0)
    entries = cells // 3
    searched, next, number = (columns.numbers[name] for name in ("known", "next", "number"))
    table = table.reshape(-1, 3).astype(np.int64)
    before, begin = table[:, 2], np.repeat(np.cumsum(entries) - entries, entries)
    check_numbers(
        (known == searched) & (marks == searched) & (searched <= rows), taken <= 1, next >= known, next < FAR, number >= 0, number < FAR,
        ascending(places, known), places >= 0, places < np.repeat(next, known),
        (table[:, 0] >= 0) & (table[:, 0] < np.repeat(known, entries)), (table[:, 1] >= 0) & (table[:, 1] < len(net.edges)),
        (before >= NONE) & (before < np.arange(len(table)) - begin),
        (live >= 0) & (live < np.repeat(entries, lives)),
    )  # fmt: skip
    at = table[:, 0] + np.repeat(offsets, entries)
    parents = np.where(before == NONE, NONE, before + begin)
    check_numbers(follow(parents, table[:, 1], at, net.edges, net.source))
    position = np.zeros(int(rows.sum()), dtype=np.int64)
    position[ranges(offsets, known)] = places
    pool = np.zeros((max(len(at), ENTRIES), run_chains.C_FIELDS), dtype=np.int64)
    payload.rebuild(pool, parents, table[:, 1], position[at])
    run = np.full((count, len(net.masks)), NONE, dtype=np.int64)
    of = np.repeat(np.arange(count), lives)
    entry = live + (np.cumsum(entries) - entries)[of]
    nodes = net.edges[table[entry, 1], E_TARGET]
    check_numbers(distinct(nodes, lives))
    run[of, nodes] = entry
    padded = np.concatenate([at, np.zeros(len(pool) - len(at), dtype=np.int64)])
    runs = empty_runs(0, 0, _NONE, OutputRoom(0, 0, WITH_ERRORS, paths=True))._replace(pool=pool, at=padded)
    return RunState(rows, known, next, number, places, taken, runs, len(at), run)
