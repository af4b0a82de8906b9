"""MATCH_COUNT(): one output row for each last row of a match, with the number of matches that end there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkcep.automaton.strategy import NUMBERS
from sparkcep.engine.last_rows import Ending, EndingEngine
from sparkcep.engine.run import Data
from sparkcep.engine.selection import SelectionEngine
from sparkcep.search import numbers as counting_kernels

MAX_COUNT = 1e38  # of a DECIMAL(38)


class CountingEngine(EndingEngine, SelectionEngine):
    """Counts by dynamic programming where conditions are local to their row and its neighbours."""

    def __init__(self, prepared, chunk_rows=None, limits=None) -> None:
        super().__init__(prepared, chunk_rows, limits)
        self.by_numbers = prepared.strategy.search == NUMBERS

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


def _together(residues: list[list[int]]) -> list[int]:
    """The numbers with these residues modulo the primes (Garner's algorithm)."""
    primes = counting_kernels.PRIMES
    numbers, modulus = residues[0], primes[0]
    for prime, more in zip(primes[1:], residues[1:]):
        inverse = pow(modulus, -1, prime)
        numbers = [x + modulus * ((r - x) * inverse % prime) for x, r in zip(numbers, more)]
        modulus *= prime
    return numbers
