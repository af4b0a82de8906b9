"""Engines that need whole partitions, above all those that give one output row for each last row of a match: MATCH_COUNT() and MATCH_GRAPH()."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkcep.engine.conjunction import ConjunctionEngine
from sparkcep.engine.outputs import decimals, match_graphs
from sparkcep.engine.run import MOST_LABELS, STATE_SHARE, Data, MatchEngine, doubled
from sparkcep.errors import MatchRuntimeError
from sparkcep.search import adjacent as kernels


@dataclass(frozen=True)
class Ending:
    """``rows`` int64 (n): last rows of matches; ``numbers``: how many matches end there; ``graphs``: what MATCH_GRAPH() gives there."""

    rows: np.ndarray
    numbers: list[int] | None
    graphs: pa.Array | None = None


class EndingEngine(MatchEngine):
    """Beside an engine that finds matches: their numbers and graphs by last row. Here by listing the matches."""

    def _process(self, last: bool) -> Iterator[pa.Table]:
        """Whole partitions only: a match may end in any row to come."""
        table, columns, offsets = self._buffer()
        done = len(offsets) - (1 if last else 2)
        if done > 0:
            yield from self._decided(self._kernel_data(columns, offsets, table.num_rows), offsets, done, columns)
        self._keep(table, self._at(int(offsets[-2])), offsets, last, kernels.SUSPENDED)

    def _decided(self, data: Data, offsets: np.ndarray, done: int, columns: dict[str, pa.Array]) -> Iterator[pa.Table]:
        """Output of the first ``done`` partitions of the buffer, which are all there."""
        for ending in self._endings(data, offsets[: done + 1], columns):
            yield from self._last_rows(ending, columns, offsets)

    def _endings(self, data: Data, offsets: np.ndarray, columns: dict[str, pa.Array]) -> Iterator[Ending]:
        yield self._traced(data, offsets, columns) if self.plan.graphing else self._listed(data, offsets, columns)

    def _last_rows(self, ending: Ending, columns: dict[str, pa.Array], offsets: np.ndarray) -> Iterator[pa.Table]:
        rows = ending.rows
        if not len(rows):
            return
        events = np.zeros((len(rows), 5), dtype=np.int64)
        events[:, kernels.E_PART] = np.searchsorted(offsets, rows, side="right") - 1
        events[:, kernels.E_START], events[:, kernels.E_ROWS] = rows, 1
        events[:, kernels.E_LABELS] = np.arange(len(rows))
        by_event = {}
        if ending.numbers is not None:
            by_event["cnt"] = decimals(ending.numbers, np.ones(len(rows), dtype=np.int64), 38, 0)
        if ending.graphs is not None:
            by_event["graph"] = ending.graphs
        yield from self._emit(columns, events, np.zeros(len(rows), dtype=np.uint8), rows, offsets, by_event)

    def _first_needed(self, start: int) -> int:
        return start

    def _listed(self, data: Data, offsets: np.ndarray, columns: dict[str, pa.Array]) -> Ending:
        """By going through the matches."""
        counts = np.zeros(int(offsets[-1]), dtype=np.int64)
        for found, _, taken in self._found(data, offsets, columns):
            np.add.at(counts, taken[found[:, kernels.E_LABELS] + found[:, kernels.E_ROWS] - 1], 1)
        ending = np.flatnonzero(counts)
        return Ending(ending, counts[ending].tolist())

    def _matches(
        self, data: Data, offsets: np.ndarray, columns: dict[str, pa.Array]
    ) -> Iterator[tuple[int, list[int], list[int]]]:
        """Each match as (partition, rows, labels)."""
        for found, labels, taken in self._found(data, offsets, columns):
            for part, _, size, _, at in found.tolist():
                yield part, taken[at : at + size].tolist(), labels[at : at + size].tolist()

    def _found(
        self, data: Data, offsets: np.ndarray, columns: dict[str, pa.Array]
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(events, labels, rows) of the matches, some at a time."""
        data = Data(data.rows._replace(offsets=offsets), data.codes, data.bytecode)
        scratch = self._scratch(len(data.rows.letters), len(offsets))
        state = np.zeros(self.state_size, dtype=np.int64)
        size = max(len(data.rows.letters), 1024)
        events = np.empty((size, self.event_width), dtype=np.int64)
        labels, taken = np.empty(size, dtype=np.uint8), np.empty(size, dtype=np.int64)
        while True:
            outcome = self._match(data, scratch, False, state, events, labels, taken)
            if outcome not in (kernels.DONE, kernels.FULL):
                raise self._runtime_error(outcome, state, columns)
            if outcome == kernels.FULL and self._keeps_events(state):
                events, labels, taken = (doubled(a) for a in (events, labels, taken))
                if events.nbytes + labels.nbytes + taken.nbytes > self.limits.max_state_bytes:
                    raise self._state_limit(state, columns)
                continue
            yield events[: int(state[kernels.S_EVENTS])], labels, taken
            state[kernels.S_EVENTS] = state[kernels.S_LABELS] = 0
            if outcome == kernels.DONE:
                return
            if 2 * len(labels) <= min(self.limits.max_state_bytes // STATE_SHARE, MOST_LABELS):
                events, labels, taken = (np.empty((2 * len(a), *a.shape[1:]), dtype=a.dtype) for a in (events, labels, taken))

    def _at(self, row: int) -> np.ndarray:
        """The state of a search that begins at a row."""
        state = np.zeros(self.state_size, dtype=np.int64)
        state[kernels.S_START] = row
        return state

    def _count_range(self, row: int, columns: dict[str, pa.Array]) -> MatchRuntimeError:
        state = self._at(row)
        return MatchRuntimeError(
            "COUNT_RANGE",
            f"MATCH_COUNT(){self._where(state, columns)} exceeds DECIMAL(38); use a smaller WINDOW or fewer Kleene variables",
            sqlstate="22003",
        )

    def _traced(self, data: Data, offsets: np.ndarray, columns: dict[str, pa.Array]) -> Ending:
        """Graphs of listed matches: for each last row a trie from that row backwards."""
        tries: dict[int, _Trie] = {}
        for part, rows, labels in self._matches(data, offsets, columns):
            low = int(offsets[part])
            tries.setdefault(rows[-1], _Trie()).add([row - low for row in rows], [label & 63 for label in labels])
        ending = sorted(tries)
        items = [tries[row].items() for row in ending]
        until = np.cumsum([0, *map(len, items)])
        flat = np.array([item for some in items for item in some], dtype=np.int64).reshape(-1, 5)
        numbers = [tries[row].matches for row in ending]
        return Ending(np.array(ending, dtype=np.int64), numbers, match_graphs(until, flat, self.plan.variables))


class ConjunctionEndingEngine(EndingEngine, ConjunctionEngine):
    """Of patterns with a conjunction."""


class _Trie:
    """The matches that end at one row, read backwards; a first row is a leaf of its own."""

    def __init__(self) -> None:
        self.root: dict[tuple[int, int, bool], dict] = {}
        self.matches = 0

    def add(self, rows: list[int], labels: list[int]) -> None:
        self.matches += 1
        at = self.root
        for i in range(len(rows) - 1, -1, -1):
            at = at.setdefault((rows[i], labels[i], i == 0), {})

    def items(self) -> list[tuple[int, int, int, int, int]]:
        """Breadth first, so that the children of a node are neighbours."""
        found: list[tuple[int, int, int, int, int]] = []
        level = list(self.root.items())
        complete = 1
        while level:
            below: list[tuple[tuple[int, int, bool], dict]] = []
            begin = len(found) + len(level)
            for (row, label, is_first), children in level:
                at = begin + len(below)
                below += children.items()
                found.append((row, label, *((-1, -1) if is_first else (at, at + len(children))), complete))
            level, complete = below, 0
        return found
