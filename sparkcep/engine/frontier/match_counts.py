"""MATCH_COUNT() by dynamic programming over the automaton, if conditions read only their row and its neighbours.

The kernel (:mod:`sparkcep.kernels.frontier.counting`) counts in floating numbers, and then modulo primes. The residues give the
exact number.
"""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.searches import NUMBERS
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.predicates import kernel_data
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import plan_windows
from sparkcep.engine.match.gap_walk import CONTIGUITY, windowed
from sparkcep.kernels.frontier import counting

MAX_COUNT = 1e38  # upper bound of a DECIMAL(38)


class MatchCounts:
    """Counts the matches that end at each row."""

    def __init__(self, task: Task) -> None:
        self.task, self.automaton = task, task.prepared.strategy.automaton
        self.accepts = self.automaton.accepts()

    def nbytes(self, chunk: Chunk) -> int:
        """Returns how many bytes the counts of the longest partition take."""
        return 8 * self.automaton.nodes * (int(np.diff(chunk.offsets).max(initial=0)) + 1)

    def of(self, chunk: Chunk) -> tuple[np.ndarray, list[int]]:
        """Returns the last rows of matches, and how many matches end at each. Raises MatchRuntimeError if a number is too large."""
        self.task.ran.add(NUMBERS)
        net, letters = self.automaton, kernel_data(self.task.prepared, chunk).rows.letters
        backs = plan_windows(self.task.plan.windows, chunk.columns, chunk.offsets)[1]
        found: list[np.ndarray] = []
        for prime in (0, *counting.PRIMES):
            kind = np.int64 if prime else np.float64
            counts = np.zeros(chunk.rows, dtype=kind)
            for low, high, cut in zip(chunk.offsets.tolist(), chunk.offsets[1:].tolist(), chunk.cut.tolist()):
                counting.count_matches(
                    net.first, net.edges, net.masks, net.blocks, self.accepts, letters, low, high, -1 if cut else low, backs, windowed(self.task),
                    CONTIGUITY[self.task.plan.selection.strategy], np.int64(prime), np.zeros((high - low + 1, net.nodes), dtype=kind), counts,
                )
            found.append(counts)
            if prime == 0 and counts.max(initial=0.0) >= 2 * MAX_COUNT:  # below this bound the residues determine the number
                raise self.task.failures.count(int(np.argmax(counts >= 2 * MAX_COUNT)), chunk.columns)
            if prime and found[0].max(initial=0.0) < counting.PRIMES[0] // 2:
                break  # numbers this small equal their first residue
        ending = np.flatnonzero(found[0] > 0)
        numbers = _together([f[ending].tolist() for f in found[1:]])
        for row, number in zip(ending.tolist(), numbers, strict=True):
            if number >= 10**38:
                raise self.task.failures.count(row, chunk.columns)
        return ending, numbers


def _together(residues: list[list[int]]) -> list[int]:
    """Returns the numbers with these residues modulo the primes (Garner's algorithm)."""
    primes = counting.PRIMES
    numbers, modulus = residues[0], primes[0]
    for prime, more in zip(primes[1:], residues[1:]):
        inverse = pow(modulus, -1, prime)
        numbers = [x + modulus * ((r - x) * inverse % prime) for x, r in zip(numbers, more)]
        modulus *= prime
    return numbers
