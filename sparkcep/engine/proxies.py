"""PROXY MATCHES and MATCH BUNDLES with one run for each state and cost (ACEP, VLDB 2016, section 3.3).

Rows are kept no longer than a run, an open bundle or a neighbour needs them: the buffer behind the search holds the rows of those
only, wherever they lie in the window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from sparkcep.automaton.strategy import PROXIES
from sparkcep.columns.arrays import ranges
from sparkcep.engine.buffer import Buffer, Chunk
from sparkcep.engine.chains import empty_chains, proxy_arrays, wider_chains
from sparkcep.engine.drive import Room, Round
from sparkcep.engine.found import WITH_ERRORS, Found, with_unmatched
from sparkcep.engine.prepared import Task
from sparkcep.engine.reporter import Reporter, bundle_groups
from sparkcep.engine.tables import Tables
from sparkcep.engine.windows import Measured
from sparkcep.search import codes
from sparkcep.search import derivations as finding
from sparkcep.search import proxies as proxying

ENTRIES = 1 << 14  # of chains at first
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class _Bundle:
    """A bundle that may go on: its best match, the rows of its first and last match points, and their number."""

    best: Found
    first: int
    last: int
    size: int

    def moved(self, kept: np.ndarray) -> _Bundle:
        """The same in a buffer of the rows ``kept``, in its first partition."""
        found = self.best
        found.events[:, codes.E_PART] = 0
        found.events[:, codes.E_START] = np.searchsorted(kept, found.events[:, codes.E_START])
        first, last = np.searchsorted(kept, [self.first, self.last]).tolist()
        return replace(self, best=replace(found, rows=np.searchsorted(kept, found.rows)), first=first, last=last)


@dataclass(frozen=True)
class Open:
    """Where the search stands in the partition that the kept rows belong to. ``known`` int64: positions of the kept rows that
    were searched, the first ones of the buffer; ``taken`` uint8: which of those are in a reported match; ``next``: the position
    of the row behind them; ``going``: whether the partition began in an earlier buffer; ``number``: of its last match;
    ``reported``: how many of its bundles were reported; ``bundle``: the one that may go on; ``chains``, ``used``: the entries of
    its runs; ``live``, ``fresh`` int64 (nodes): the run of each node."""

    live: np.ndarray
    fresh: np.ndarray
    known: np.ndarray = field(default_factory=lambda: _NONE)
    taken: np.ndarray = field(default_factory=lambda: _NONE.astype(np.uint8))
    next: int = 0
    going: bool = False
    number: int = 0
    reported: int = 0
    bundle: _Bundle | None = None
    chains: proxying.Chains | None = None
    used: int = 0

    @staticmethod
    def empty(nodes: int) -> Open:
        return Open(np.full(nodes, -1, dtype=np.int64), np.full(nodes, -1, dtype=np.int64))

    @property
    def begin(self) -> int:
        """The row of the buffer that the search goes on from."""
        return len(self.known)

    def positions(self, offsets: np.ndarray) -> np.ndarray:
        """The number of each row of a buffer in its partition."""
        out = ranges(0, np.diff(offsets))
        if self.going:
            out[: self.begin] = self.known
            out[self.begin : int(offsets[1])] += self.next - self.begin
        return out


class Proxies:
    """Finds the best match of each last row, or bundle, in one pass over the rows."""

    def __init__(self, task: Task, reporter: Reporter, tables: Tables) -> None:
        self.task, self.reporter, self.tables = task, reporter, tables
        self.net = proxy_arrays(task.prepared.strategy.automaton)
        self.open = Open.empty(task.prepared.strategy.automaton.nodes)
        # leaves may look at neighbours of any row of a match, conditions at those of the rows to come
        self.neighbours = any(leaf.spec.kind in ("nav", "cls") and leaf.spec.physical for leaf in task.plan.leaves)

    def process(self, buffer: Buffer, last: bool) -> Iterator[pa.Table]:
        """Searches the rows held, and keeps those that are looked at again."""
        chunk = buffer.chunk(self.open.positions)
        work = _Pass(self, chunk, last)
        for found in work.rounds():
            yield from self.tables.of(chunk, work.reported(found))
        begin = chunk.rows if last else max(int(work.state[codes.S_START]), int(chunk.offsets[-2]))
        kept = np.zeros(0, dtype=np.int64) if last else work.compacted(begin)
        stays = np.zeros(chunk.rows, dtype=bool)
        stays[kept], stays[begin:] = True, True
        if self.task.plan.rows == "unmatched":
            none = self.reporter.reported(Found.none(WITH_ERRORS), work.places, chunk)
            yield from self.tables.of(chunk, with_unmatched(none, np.flatnonzero(~stays), chunk, work.taken))
        if last:
            buffer.clear()
            return
        self.open = work.left_open(kept, begin)
        buffer.keep_some(chunk.table.take(pa.array(np.flatnonzero(stays))))


class _Pass(Round):
    """The search over one buffer."""

    name = PROXIES

    def __init__(self, search: Proxies, chunk: Chunk, last: bool) -> None:
        super().__init__(search.task, chunk)
        self.search, self.last = search, last
        self.open = open = search.open
        self.bundle = open.bundle
        self.bundles = (0, open.reported)  # a partition of the buffer, and its bundles reported so far
        self.places: Measured = search.reporter.places(chunk)
        self.letters = np.where(self.places.null, 0, self.data.rows.letters)
        self.taken = np.zeros(chunk.rows, dtype=np.uint8)
        self.taken[: open.begin] = open.taken
        self.state = np.zeros(proxying.PROXY_STATE, dtype=np.int64)
        self.state[codes.S_START], self.state[codes.S_NUMBER], self.state[proxying.P_USED] = open.begin, open.number, open.used
        self.chains = open.chains if open.chains is not None else empty_chains(ENTRIES, self.places.until.dtype)
        size = max(1024, chunk.rows // 4)
        self.room = Room(size, 4 * size, WITH_ERRORS, paths=True)

    def run(self) -> int:
        open, room, places = self.open, self.room, self.places
        return proxying.proxy_partitions(
            self.search.net, self.task.plan.selection.strategy == "STRICT", self.letters, self.chunk.offsets, places.when, places.until, self.chunk.positions,
            open.going, not self.last, self.task.ahead, open.live, open.fresh, self.chains, self.state, room.events, room.labels, room.rows, room.paths,
        )

    def grow(self) -> None:
        """Entries that no run has any more make room for new ones."""
        used = proxying.compact(self.chains, self.open.live, int(self.state[proxying.P_USED]))
        self.state[proxying.P_USED] = used
        self.chains = wider_chains(self.chains, used, max(2 * used, used + 2 * len(self.search.net.by_edge)))
        self.check(sum(a.nbytes for a in self.chains))

    def widen(self, kept: bool) -> None:
        self.room.widen(int(self.state[codes.S_DETAIL]), self.task.limits.max_state_bytes)

    def found(self) -> Found:
        return self.room.found(self.state)

    def reported(self, found: Found) -> Found:
        """What to report of the matches found."""
        if self.search.reporter.bundling:
            found = self._bundled(found)
        else:
            found.by_event.update(self.search.reporter.by_event(found.events, found.paths))
        self.taken[found.rows] = 1
        return found

    def _bundled(self, found: Found) -> Found:
        """The bundles of matches; one that may go on is kept."""
        open_part = int(self.state[codes.S_PART]) if self.outcome == codes.FULL or not self.last else -1
        points = finding.last_rows(found.events, found.rows)
        firsts, sizes = points.copy(), np.ones(len(points), dtype=np.int64)
        if self.bundle is not None:
            found = self.bundle.best.joined(found)
            points = np.concatenate([[self.bundle.last], points])
            firsts = np.concatenate([[self.bundle.first], firsts])
            sizes = np.concatenate([[self.bundle.size], sizes])
        if not len(points):
            return self.search.reporter.reported(found, self.places, self.chunk)
        groups = bundle_groups(found.events[:, codes.E_PART], points, self.places)
        heads = np.flatnonzero(np.diff(groups, prepend=-1))
        tails = np.append(heads[1:], len(groups)) - 1
        best = found.chosen(finding.best_of(found.events, found.rows, groups, self.search.net.edges))
        totals = np.add.reduceat(sizes, heads)
        first, last = firsts[heads], points[tails]
        done = len(heads)
        self.bundle = None
        if best.events[-1, codes.E_PART] == open_part:
            done -= 1
            self.bundle = _Bundle(best.chosen(np.array([done])), int(first[-1]), int(last[-1]), int(totals[-1]))
        best = best.chosen(np.arange(done))
        out = self.search.reporter.bundles(best, first[:done], last[:done], totals[:done], self.chunk)
        if done:
            # numbers go on from the bundles reported before
            number = out.events[:, codes.E_NUMBER]
            number[out.events[:, codes.E_PART] == self.bundles[0]] += self.bundles[1]
            self.bundles = (int(out.events[-1, codes.E_PART]), int(number[-1]))
        return out

    def compacted(self, begin: int) -> np.ndarray:
        """The rows before ``begin`` that are looked at again: those of runs, of a bundle that may go on, and their neighbours."""
        low = int(self.chunk.offsets[-2])
        self.used = proxying.compact(self.chains, self.open.live, int(self.state[proxying.P_USED]))
        wanted = [self.chains.at[: self.used]]
        if self.bundle is not None:
            wanted += [self.bundle.best.rows, np.array([self.bundle.first, self.bundle.last])]
        known = np.unique(np.concatenate(wanted))
        first = int(known[0]) if self.search.neighbours and len(known) else begin
        # one at least: it tells whether the next row is of the same partition
        return np.union1d(known, np.arange(max(low, first - max(self.task.back, 1)), begin))

    def left_open(self, kept: np.ndarray, begin: int) -> Open:
        """The partition that goes on behind row ``begin``, in a buffer that begins with the rows ``kept``."""
        chunk, positions = self.chunk, self.chunk.positions
        self.chains.at[: self.used] = np.searchsorted(kept, self.chains.at[: self.used])
        return replace(
            self.open,
            known=positions[kept],
            taken=self.taken[kept],
            next=int(positions[begin]) if begin < chunk.rows else int(positions[-1]) + 1,
            going=begin > int(chunk.offsets[-2]) or (self.open.going and chunk.parts == 1),
            number=int(self.state[codes.S_NUMBER]),
            reported=self.bundles[1] if self.bundles[0] == chunk.parts - 1 else 0,
            bundle=self.bundle.moved(kept) if self.bundle is not None else None,
            chains=self.chains,
            used=self.used,
        )
