"""PROXY MATCHES and MATCH BUNDLES with one run for each state and cost (ACEP, VLDB 2016, section 3.3).

Rows are kept no longer than a run, an open bundle or a neighbour needs them: the buffer behind the search holds the rows of those only, wherever they
lie in the window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sparkcep.automaton.net import ACCEPT, E_AT_END, E_COST, E_VAR, Net
from sparkcep.columns.arrays import ranges
from sparkcep.engine.found import Found, Reporter, bundle_groups, unmatched_events
from sparkcep.engine.run import MatchEngine, Prepared
from sparkcep.engine.windows import Measured, measured
from sparkcep.search import adjacent as kernels
from sparkcep.search import derivations as finding
from sparkcep.search import proxies as proxying
from sparkcep.search.chains import C_FIELDS, NONE

ENTRIES = 1 << 14  # of chains at first


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
        found.events[:, kernels.E_PART] = 0
        found.events[:, kernels.E_START] = np.searchsorted(kept, found.events[:, kernels.E_START])
        first, last = np.searchsorted(kept, [self.first, self.last]).tolist()
        return replace(self, best=replace(found, rows=np.searchsorted(kept, found.rows)), first=first, last=last)


class ProxyEngine(MatchEngine):
    """The best match of each last row, or bundle, in one pass over the rows."""

    scattering = True
    state_size = proxying.PROXY_STATE

    def __init__(self, prepared: Prepared, chunk_rows=None, limits=None) -> None:
        super().__init__(prepared, chunk_rows, limits)
        assert prepared.approximate is not None
        self.reporter = Reporter(self.plan, prepared.approximate)
        self.strict = self.plan.selection.strategy == "STRICT"
        self._arrays = proxy_arrays(prepared.approximate)
        nodes = prepared.approximate.nodes
        self._live, self._fresh = np.full(nodes, -1, dtype=np.int64), np.full(nodes, -1, dtype=np.int64)
        # leaves may look at neighbours of any row of a match, conditions at those of the rows to come
        self._neighbours = any(leaf.spec.kind in ("nav", "cls") and leaf.spec.physical for leaf in self.plan.leaves)
        self._begin = 0  # row of the buffer that the search goes on from
        self._known = np.zeros(0, dtype=np.int64)  # positions of the rows before it
        self._taken = np.zeros(0, dtype=np.uint8)  # of those, which are in a reported match
        self._next = 0  # position of the row to go on from
        self._going = False  # whether the first partition began in an earlier buffer
        self._number = 0
        self._reported = (0, 0)  # a partition of the buffer, and its bundles reported so far
        self._open: _Bundle | None = None
        self._chains: proxying.Chains | None = None
        self._used = 0

    def _process(self, last: bool) -> Iterator[pa.Table]:
        table, columns, offsets = self._buffer()
        rows = table.num_rows
        positions = self._partition_positions(offsets)
        window = self.plan.windows[0]
        places = measured(window, columns.get(window.order), positions, self.reporter.descending)
        data = self._kernel_data(columns, offsets, rows)
        letters = np.where(places.null, 0, data.rows.letters)
        taken = np.zeros(rows, dtype=np.uint8)
        taken[: self._begin] = self._taken
        state = np.zeros(self.state_size, dtype=np.int64)
        state[kernels.S_START], state[kernels.S_NUMBER], state[proxying.P_USED] = self._begin, self._number, self._used
        chains = self._chains if self._chains is not None else empty_chains(ENTRIES, places.until.dtype)
        size = max(1024, rows // 4)
        events = np.zeros((size, 6), dtype=np.int64)
        labels, scattered, paths = np.empty(4 * size, dtype=np.uint8), np.empty(4 * size, dtype=np.int64), np.empty(4 * size, dtype=np.int64)
        while True:
            outcome = proxying.proxy_partitions(
                self._arrays, self.strict, letters, offsets, places.when, places.until, positions, self._going, not last, self.ahead,
                self._live, self._fresh, chains, state, events, labels, scattered, paths,
            )
            if outcome == kernels.GROW:
                chains = self._room(chains, state, columns)
                continue
            count, used = int(state[kernels.S_EVENTS]), int(state[kernels.S_LABELS])
            found = Found(events[:count], labels[:used], scattered[:used], paths[:used])
            more = outcome == kernels.FULL or not last
            yield from self._report(found, places, columns, positions, offsets, taken, open_part=int(state[kernels.S_PART]) if more else -1)
            state[kernels.S_EVENTS] = state[kernels.S_LABELS] = 0
            if outcome != kernels.FULL:
                break
            if state[kernels.S_DETAIL] > len(labels):
                wider = 2 * int(state[kernels.S_DETAIL])
                labels, scattered, paths = np.empty(wider, dtype=np.uint8), np.empty(wider, dtype=np.int64), np.empty(wider, dtype=np.int64)
        yield from self._turn(table, places, positions, columns, offsets, taken, chains, state, last)

    def _partition_positions(self, offsets: np.ndarray) -> np.ndarray:
        out = ranges(0, np.diff(offsets))
        if self._going:
            out[: self._begin] = self._known
            out[self._begin : int(offsets[1])] += self._next - self._begin
        return out

    def _room(self, chains: proxying.Chains, state: np.ndarray, columns: dict[str, pa.Array]) -> proxying.Chains:
        """The chains without entries that no run has any more, and with room for new ones."""
        used = proxying.compact(chains, self._live, int(state[proxying.P_USED]))
        state[proxying.P_USED] = used
        chains = wider_chains(chains, used, max(2 * used, used + 2 * len(self._arrays.by_edge)))
        if sum(a.nbytes for a in chains) > self.limits.max_state_bytes:
            raise self._state_limit(state, columns)
        return chains

    def _report(
        self, found: Found, places: Measured, columns: dict[str, pa.Array], positions: np.ndarray, offsets: np.ndarray, taken: np.ndarray,
        open_part: int,
    ) -> Iterator[pa.Table]:
        """Output of the matches found; a bundle of partition ``open_part`` that may go on is kept."""
        if self.reporter.bundling:
            found = self._bundled(found, places, columns, positions, open_part)
        else:
            found.by_event.update(self.reporter.by_event(found.events, found.paths))
        taken[found.rows] = 1
        yield from self._emit(columns, found.events, found.labels, found.rows, offsets, found.by_event)

    def _bundled(self, found: Found, places: Measured, columns: dict[str, pa.Array], positions: np.ndarray, open_part: int) -> Found:
        points = finding.last_rows(found.events, found.rows)
        firsts, sizes = points.copy(), np.ones(len(points), dtype=np.int64)
        if self._open is not None:
            found = self._open.best.joined(found)
            points = np.concatenate([[self._open.last], points])
            firsts = np.concatenate([[self._open.first], firsts])
            sizes = np.concatenate([[self._open.size], sizes])
        if not len(points):
            return self.reporter.reported(found, places, columns, positions)
        groups = bundle_groups(found.events[:, kernels.E_PART], points, places)
        heads = np.flatnonzero(np.diff(groups, prepend=-1))
        tails = np.append(heads[1:], len(groups)) - 1
        best = found.chosen(finding.best_of(found.events, found.rows, groups, self.p.approximate.edges))
        totals = np.add.reduceat(sizes, heads)
        first, last = firsts[heads], points[tails]
        done = len(heads)
        self._open = None
        if best.events[-1, kernels.E_PART] == open_part:
            done -= 1
            self._open = _Bundle(best.chosen(np.array([done])), int(first[-1]), int(last[-1]), int(totals[-1]))
        best = best.chosen(np.arange(done))
        out = self.reporter.bundles(best, first[:done], last[:done], totals[:done], columns, positions)
        if done:
            # numbers go on from the bundles reported before
            number = out.events[:, kernels.E_NUMBER]
            number[out.events[:, kernels.E_PART] == self._reported[0]] += self._reported[1]
            self._reported = (int(out.events[-1, kernels.E_PART]), int(number[-1]))
        return out

    def _turn(
        self, table: pa.Table, places: Measured, positions: np.ndarray, columns: dict[str, pa.Array], offsets: np.ndarray, taken: np.ndarray, chains: proxying.Chains,
        state: np.ndarray, last: bool,
    ) -> Iterator[pa.Table]:
        """Drops the rows that nothing looks at any more, and reports those that are in no match."""
        low, rows = int(offsets[-2]), table.num_rows
        begin = rows if last else max(int(state[kernels.S_START]), low)
        used = 0 if last else proxying.compact(chains, self._live, int(state[proxying.P_USED]))
        kept = np.zeros(0, dtype=np.int64) if last else self._wanted_rows(chains.at[:used], low, begin)
        stays = np.zeros(rows, dtype=bool)
        stays[kept], stays[begin:] = True, True
        if self.plan.rows == "unmatched":
            none = self.reporter.reported(Found.none(), places, columns, positions)
            alone = unmatched_events(none, np.flatnonzero(~stays), offsets, taken)
            yield from self._emit(columns, alone.events, alone.labels, alone.rows, offsets, alone.by_event)
        if last:
            self._hold([], self.chunk_rows)
            return
        self._going = begin > low or (self._going and len(offsets) == 2)
        self._next = int(positions[begin]) if begin < rows else int(positions[-1]) + 1
        self._begin, self._known, self._taken = len(kept), positions[kept], taken[kept]
        self._number, self._chains, self._used = int(state[kernels.S_NUMBER]), chains, used
        chains.at[:used] = np.searchsorted(kept, chains.at[:used])
        self._reported = (0, self._reported[1] if self._reported[0] == len(offsets) - 2 else 0)
        if self._open is not None:
            self._open = self._open.moved(kept)
        left = table.take(pa.array(np.flatnonzero(stays)))
        self._hold(left.combine_chunks().to_batches(), left.num_rows + self.chunk_rows)

    def _wanted_rows(self, rows: np.ndarray, low: int, begin: int) -> np.ndarray:
        """The rows before ``begin`` that are looked at again: those of runs, of a bundle that may go on, and their neighbours."""
        wanted = [rows]
        if self._open is not None:
            wanted += [self._open.best.rows, np.array([self._open.first, self._open.last])]
        known = np.unique(np.concatenate(wanted))
        first = int(known[0]) if self._neighbours and len(known) else begin
        # one at least: it tells whether the next row is of the same partition
        return np.union1d(known, np.arange(max(low, first - max(self.back, 1)), begin))


def proxy_arrays(automaton: Net) -> proxying.ProxyArrays:
    """The automaton with its edges by variable."""
    edges = automaton.edges
    source = np.repeat(np.arange(automaton.nodes), np.diff(automaton.first))
    taking = np.flatnonzero(edges[:, E_VAR] >= 0)
    by_edge = taking[np.argsort(edges[taking, E_VAR], kind="stable")]
    count = len(automaton.variables)
    by_first = np.searchsorted(edges[by_edge, E_VAR], np.arange(count + 1)).astype(np.int64)
    accept, accept_end = (np.full(automaton.nodes, NONE, dtype=np.int64) for _ in range(2))
    for e in np.flatnonzero(edges[:, E_VAR] == ACCEPT).tolist():
        node = source[e]
        for target, fits in ((accept, not edges[e, E_AT_END]), (accept_end, True)):
            if fits and (target[node] < 0 or edges[e, E_COST] < edges[target[node], E_COST]):
                target[node] = e
    tested = sum(1 << v for v in range(count) if by_first[v + 1] > by_first[v])
    return proxying.ProxyArrays(edges, by_first, by_edge, source.astype(np.int64), accept, accept_end, np.int64(tested))


def empty_chains(size: int, measure: np.dtype) -> proxying.Chains:
    """Room for entries of runs."""
    return proxying.Chains(np.zeros((size, C_FIELDS), dtype=np.int64), np.zeros(size, dtype=np.int64), np.zeros(size, dtype=measure))


def wider_chains(chains: proxying.Chains, used: int, wanted: int) -> proxying.Chains:
    """The chains with room for ``wanted`` entries, of which ``used`` are there."""
    if wanted <= len(chains.at):
        return chains
    return proxying.Chains(*(np.concatenate([a[:used], np.zeros((2 * wanted - used, *a.shape[1:]), dtype=a.dtype)]) for a in chains))
