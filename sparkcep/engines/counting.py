"""MATCH_COUNT(): one output row for each last row of a match, with the number of matches that end there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkcep.automaton.selection import counts_by_numbers
from sparkcep.engines import counting_kernels, kernels
from sparkcep.engines.outputs import decimals
from sparkcep.engines.run import Data, doubled
from sparkcep.engines.selection import SelectionEngine
from sparkcep.errors import MatchRuntimeError

MAX_COUNT = 1e38  # of a DECIMAL(38)


@dataclass(frozen=True)
class Ending:
    """``rows`` int64 (n): last rows of matches; ``numbers``: how many matches end there; ``graphs``: what MATCH_GRAPH() gives there."""

    rows: np.ndarray
    numbers: list[int] | None
    graphs: pa.Array | None = None


class CountingEngine(SelectionEngine):
    """As :class:`SelectionEngine`, but matches are counted by their last row.

    Where conditions are local to their row and its neighbours the numbers come from dynamic programming; with
    negation, WITHIN groups and what else needs whole matches these are listed and counted.
    """

    def __init__(self, prepared, chunk_rows=None, limits=None) -> None:
        super().__init__(prepared, chunk_rows, limits)
        self.by_numbers = counts_by_numbers(self.plan, prepared.selection, prepared.conditions.has_history)

    def _process(self, last: bool) -> Iterator[pa.Table]:
        """Whole partitions only: a match may end in any row to come."""
        table, columns, offsets = self._buffer()
        done = len(offsets) - (1 if last else 2)
        if done > 0:
            data = self._kernel_data(columns, offsets, table.num_rows)
            for ending in self._endings(data, offsets[: done + 1], columns):
                yield from self._last_rows(ending, columns, offsets)
        self._keep(table, self._at(int(offsets[-2])), offsets, last, kernels.SUSPENDED)

    def _endings(self, data: Data, offsets: np.ndarray, columns: dict[str, pa.Array]) -> Iterator[Ending]:
        yield (self._numbered if self.by_numbers else self._listed)(data, offsets, columns)

    def _last_rows(self, ending: Ending, columns: dict[str, pa.Array], offsets: np.ndarray) -> Iterator[pa.Table]:
        rows = ending.rows
        if not len(rows):
            return
        events = np.zeros((len(rows), 5), dtype=np.int64)
        events[:, kernels.E_PART] = np.searchsorted(offsets, rows, side="right") - 1
        events[:, kernels.E_START], events[:, kernels.E_ROWS] = rows, 1
        events[:, kernels.E_LABELS] = np.arange(len(rows))
        self._counts = None if ending.numbers is None else decimals(ending.numbers, np.ones(len(rows), dtype=np.int64), 38, 0)
        self._graphs = ending.graphs
        yield from self._emit(columns, events, np.zeros(len(rows), dtype=np.uint8), rows, offsets)

    def _first_needed(self, start: int) -> int:
        return start

    def _numbered(self, data: Data, offsets: np.ndarray, columns: dict[str, pa.Array]) -> Ending:
        """By dynamic programming."""
        rows = int(offsets[-1])
        arrays, nodes = self._arrays, self.p.selection.nodes
        found: list[np.ndarray] = []
        for prime in (0, *counting_kernels.PRIMES):
            kind = np.int64 if prime else np.float64
            counts = np.zeros(rows, dtype=kind)
            for low, high in zip(offsets.tolist(), offsets[1:].tolist()):
                counting_kernels.count_matches(
                    arrays.first, arrays.edges, arrays.masks, arrays.accepts, data.rows.letters, low, high, self._backs,
                    self.windowed, self.strategy, np.int64(prime), np.zeros((high - low + 1, nodes), dtype=kind), counts,
                )
            found.append(counts)
            if prime == 0 and counts.max(initial=0.0) >= MAX_COUNT:
                raise self._count_range(int(np.argmax(counts >= MAX_COUNT)), columns)
            if prime and found[0].max(initial=0.0) < counting_kernels.PRIMES[0] // 2:
                break  # the first residue is the number
        ending = np.flatnonzero(found[0] > 0)
        return Ending(ending, _together([f[ending].tolist() for f in found[1:]]))

    def _listed(self, data: Data, offsets: np.ndarray, columns: dict[str, pa.Array], most: int | None = None) -> Ending | None:
        """By going through the matches; None where they have more rows than ``most`` together."""
        counts = np.zeros(int(offsets[-1]), dtype=np.int64)
        size = 0
        for found, _, taken in self._found(data, offsets, columns):
            size += int(found[:, kernels.E_ROWS].sum())
            if most is not None and size > most:
                return None
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
        events = np.empty((size, 5), dtype=np.int64)
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


def _together(residues: list[list[int]]) -> list[int]:
    """The numbers with these residues modulo the primes (Garner's algorithm)."""
    primes = counting_kernels.PRIMES
    numbers, modulus = residues[0], primes[0]
    for prime, more in zip(primes[1:], residues[1:]):
        inverse = pow(modulus, -1, prime)
        numbers = [x + modulus * ((r - x) * inverse % prime) for x, r in zip(numbers, more)]
        modulus *= prime
    return numbers
