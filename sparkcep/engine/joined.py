"""TOP k of a monotone preference that is no sum, without enumerating the matches (CPR, sections 3.2 to 3.4; sparkcep.engine.sequences).

The engine gives the k best matches and Spark ranks them. Where the order of floating scores might not be that of Spark's own, or a NULL may make the
score of too many matches NULL, it gives all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sparkcep.automaton.net import E_LABEL, E_VAR
from sparkcep.columns.arrays import null_marks, words
from sparkcep.columns.types import INT_BITS, Type, decimal_of, type_of
from sparkcep.engine import bounds
from sparkcep.engine.ranked import Best, BestEngine, best_events
from sparkcep.engine.run import Data, Prepared
from sparkcep.engine.selection import SelectionEngine
from sparkcep.engine.sequences import top_sequences
from sparkcep.engine.windows import Slides
from sparkcep.errors import TooManyStepsError, TooMuchStateError

CHOICES, SUMS = {"least", "greatest"}, {"+", "-", "neg", "least", "greatest"}


class JoinedEngine(BestEngine, SelectionEngine):
    """Gives the k best matches of each partition, and window; which rank they have Spark tells."""

    def __init__(self, prepared: Prepared, chunk_rows=None, limits=None) -> None:
        super().__init__(prepared, chunk_rows, limits)
        automaton, ranking = prepared.selection, prepared.plan.ranking
        assert automaton is not None and ranking is not None and ranking.monotone is not None
        edges = automaton.edges[list(prepared.strategy.chain)]
        self.taken = edges[:, E_VAR].tolist()
        self.written = edges[:, E_LABEL].astype(np.uint8)
        self.monotone = ranking.monotone
        strata = [self.taken.index(variable) for variable, _ in self.monotone.leaves]
        self.tree = renumbered(self.monotone.tree, strata)

    def _decided(self, data: Data, offsets: np.ndarray, done: int, columns: dict[str, pa.Array]) -> Iterator[pa.Table]:
        offsets = offsets[: done + 1]
        sliding = self._slides(columns, offsets)
        yield from self._best_or_all(self._joined(data, offsets, columns, sliding), sliding, data, columns, offsets)

    def _joined(self, data: Data, offsets: np.ndarray, columns: dict[str, pa.Array], sliding: Slides | None) -> list[Best] | None:
        """The best of each partition; None where only all matches tell them."""
        rows = int(offsets[-1])
        letters = self._timed(data, 0, rows)
        weights = self._weights(columns, letters)
        if weights is None:
            return None
        left_out = np.zeros(rows, dtype=bool)
        for i, (variable, column) in enumerate(self.monotone.leaves):
            there = (letters >> variable & 1).astype(bool)
            own = weights[self.taken.index(variable)]
            missing = there & null_marks(columns[column])[:rows].astype(bool)
            unordered = there & ~missing & np.isnan(own)
            infinite = there & np.isinf(own)
            if infinite.any() or (missing.any() and not self.monotone.strict) or (unordered.any() and operations(self.tree) & CHOICES):
                return None
            if i in self.monotone.positive and (own[there & ~missing] < 0).any():
                return None
            letters = np.where(missing | unordered, letters & ~np.int64(1 << variable), letters)
            left_out |= missing | unordered
        strata = sum((letters >> v & 1) << j for j, v in enumerate(self.taken))
        found = []
        for part in range(len(offsets) - 1):
            best = self._of_partition(part, strata, weights, offsets, sliding, columns, left_out)
            if best is None:
                return None
            found.append(best)
        return found

    def _of_partition(
        self, part: int, strata: np.ndarray, weights: np.ndarray, offsets: np.ndarray, sliding: Slides | None, columns: dict[str, pa.Array],
        left_out: np.ndarray,
    ) -> Best | None:
        low, high = int(offsets[part]), int(offsets[part + 1])
        ranking = self.plan.ranking
        assert ranking is not None
        first = until = ends = None
        number = np.zeros(1, dtype=np.int64)
        if sliding is not None:
            first, until, number = sliding.of(part)
            first, until = first - low, until - low
        elif self.windowed:
            ends = np.clip(self._windows[0, low:high], low, high) - low
        try:
            found = top_sequences(
                self.tree, strata[low:high], weights[:, low:high], ranking.top, first, until, ends=ends,
                max_steps=self.limits.max_steps, max_bytes=self.limits.max_state_bytes,
            )
        except TooMuchStateError:
            return None  # as many may be all matches
        except TooManyStepsError as error:
            raise self._ranking_effort(low + int(first[error.args[0]] if first is not None else 0), columns) from None
        if left_out[low:high].any() and (np.bincount(found.window, minlength=len(number)) < ranking.top).any():
            return None  # matches whose score is NULL come next
        m = len(self.taken)
        rows = found.rows.reshape(-1)
        starts = np.arange(0, len(rows) + 1, m)
        labels = np.tile(self.written, len(found.window))
        return Best(best_events(starts, rows, part, low), labels, rows + low, number[found.window])

    def _weights(self, columns: dict[str, pa.Array], letters: np.ndarray) -> np.ndarray | None:
        """float64 (strata, rows), NaN and NULL as they may be; None where arithmetic with them is not Spark's own."""
        rows = len(letters)
        types = {variable: type_of(columns[column].type) for variable, column in self.monotone.leaves}
        if any(not t.is_number or t.kind == "float" or t.precision > 18 for t in types.values()):
            return None
        values = {variable: words(columns[column])[:rows] for variable, column in self.monotone.leaves}
        scale = max(t.scale for t in types.values())
        if any(t.kind == "decimal" for t in types.values()):
            if any(t.is_float for t in types.values()) or operations(self.tree) - SUMS or not keeps_scale(list(types.values())):
                return None
            values = {v: x * 10.0 ** (scale - types[v].scale) for v, x in values.items()}
        leaves: list[bounds.Interval | None] = [None] * len(self.taken)
        for variable, column in self.monotone.leaves:
            own = values[variable][(letters >> variable & 1).astype(bool) & ~null_marks(columns[column])[:rows].astype(bool)]
            bits = bounds.FLOATING if types[variable].is_float else INT_BITS.get(types[variable].kind, 64)
            leaves[self.taken.index(variable)] = bounds.of_values(own, bits)
        if bounds.of_tree(self.tree, leaves) is None:
            return None
        return np.array([values[v].astype(np.float64) if v in values else np.zeros(rows) for v in self.taken])


def renumbered(tree: tuple, strata: list[int]) -> tuple:
    if tree[0] == "leaf":
        return ("leaf", strata[tree[1]])
    return tree if tree[0] == "lit" else (tree[0], *(renumbered(operand, strata) for operand in tree[1:]))


def operations(tree: tuple) -> set[str]:
    """Names of the operations of a tree, and ``lit`` where it has numbers."""
    if tree[0] == "leaf":
        return set()
    return {tree[0]}.union(*(operations(operand) for operand in tree[1:] if tree[0] != "lit"))


def keeps_scale(types: list[Type]) -> bool:
    """Whether sums of numbers of these types keep every decimal place: Spark cuts those of more than 38 digits."""
    widened = [decimal_of(t) for t in types]
    scale = max(t.scale for t in widened)
    return max(t.precision - t.scale for t in widened) + scale + len(types) <= 38
