"""TOP k of a monotone preference that is no sum, without enumerating the matches (CPR, sections 3.2 to 3.4;
:mod:`sparkcep.engine.sequences`).

The engine gives the k best matches and Spark ranks them. Where the order of floating scores might not be that of Spark's own, or a
NULL may make the score of too many matches NULL, it gives all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sparkcep.automaton.net import E_LABEL, E_VAR
from sparkcep.automaton.strategy import SEQUENCES
from sparkcep.columns.arrays import null_marks, words
from sparkcep.columns.types import INT_BITS, type_of
from sparkcep.engine import bounds
from sparkcep.engine.bounds import CHOICES, SUMS, keeps_scale, operations
from sparkcep.engine.buffer import Chunk
from sparkcep.engine.found import matches_of
from sparkcep.engine.letters import kernel_data
from sparkcep.engine.listing import Listing
from sparkcep.engine.prepared import Task
from sparkcep.engine.ranked import Best, Far, Rankings, Span, timed
from sparkcep.engine.sequences import best_of, top_sequences
from sparkcep.engine.tables import Tables
from sparkcep.engine.windows import Slides, plan_windows
from sparkcep.errors import TooManyStepsError, TooMuchStateError


class Sequences(Rankings):
    """Finds the k best matches by joining the rows of each variable; which rank they have Spark tells."""

    def __init__(self, task: Task, listing: Listing, tables: Tables) -> None:
        super().__init__(task, listing, tables)
        assert self.ranking.monotone is not None
        edges = task.prepared.strategy.sides[0].edges[list(task.prepared.strategy.chain)]
        self.taken = edges[:, E_VAR].tolist()
        self.written = edges[:, E_LABEL].astype(np.uint8)
        self.monotone = self.ranking.monotone
        self.tree = renumbered(self.monotone.tree, [self.taken.index(variable) for variable, _ in self.monotone.leaves])

    def answer(self, chunk: Chunk) -> Iterator[pa.Table]:
        sliding = self.tables.slides(chunk)
        yield from self.output(chunk, self._joined(chunk, sliding), sliding)

    def _joined(self, chunk: Chunk, sliding: Slides | None) -> list[Best] | None:
        """The best of each partition; None where only all matches tell them."""
        letters = timed(kernel_data(self.task.prepared, chunk).rows.letters, plan_windows(self.task.plan.windows, chunk.columns, chunk.offsets)[0])
        within = self.within(chunk)
        weights = self._weights(chunk.columns, letters)
        far = Far.of(self.task.prepared.strategy.far, chunk.columns)
        if weights is None or far is None:
            return None
        left_out = np.zeros(chunk.rows, dtype=bool)
        for i, (variable, column) in enumerate(self.monotone.leaves):
            there = (letters >> variable & 1).astype(bool)
            own = weights[self.taken.index(variable)]
            missing = there & null_marks(chunk.columns[column]).astype(bool)
            unordered = there & ~missing & np.isnan(own)
            infinite = there & np.isinf(own)
            if infinite.any() or (missing.any() and not self.monotone.strict) or (unordered.any() and operations(self.tree) & CHOICES):
                return None
            if i in self.monotone.positive and (own[there & ~missing] < 0).any():
                return None
            letters = np.where(missing | unordered, letters & ~np.int64(1 << variable), letters)
            left_out |= missing | unordered
        self.task.ran.add(SEQUENCES)
        found = []
        for span in self.spans(chunk, sliding):
            try:
                best = self._of_partition(span, letters[span.rows], weights[:, span.rows], far.part(span.rows), within, bool(left_out[span.rows].any()))
            except TooMuchStateError:
                return None  # as many may be all matches
            except TooManyStepsError as error:
                raise self.task.failures.ranking(span.low + int(span.first[error.args[0]] if span.first is not None else 0), chunk.columns) from None
            if best is None:
                return None
            found.append(best)
        return found

    def _of_partition(
        self, span: Span, letters: np.ndarray, weights: np.ndarray, far: Far, within: tuple[np.ndarray, np.ndarray] | None, left_out: bool,
    ) -> Best | None:
        """The best of a partition; None where matches whose score is NULL come next. ``left_out``: whether there are such."""
        ends = None if within is None else np.clip(within[0][span.rows], span.low, span.high) - span.low
        found = best_of([
            top_sequences(
                self.tree, sum((some >> v & 1) << j for j, v in enumerate(self.taken)), weights, self.ranking.top, span.first, span.until, ends=ends,
                max_steps=self.task.limits.max_steps, max_bytes=self.task.limits.max_state_bytes,
            )
            for some in far.apart(letters)
        ], self.ranking.top, len(self.taken))  # fmt: skip
        if left_out and (np.bincount(found.window, minlength=len(span.numbers)) < self.ranking.top).any():
            return None
        count, size = found.rows.shape
        matches = matches_of(span.part, np.full(count, size, dtype=np.int64), np.tile(self.written, count), found.rows.reshape(-1) + span.low)
        return Best(matches, span.numbers[found.window])

    def _weights(self, columns: dict[str, pa.Array], letters: np.ndarray) -> np.ndarray | None:
        """float64 (strata, rows), NaN and NULL as they may be; None where arithmetic with them is not Spark's own."""
        rows = len(letters)
        types = {variable: type_of(columns[column].type) for variable, column in self.monotone.leaves}
        if any(not t.is_number or t.kind == "float" or t.precision > 18 for t in types.values()):
            return None
        values = {variable: words(columns[column]) for variable, column in self.monotone.leaves}
        scale = max(t.scale for t in types.values())
        if any(t.kind == "decimal" for t in types.values()):
            if any(t.is_float for t in types.values()) or operations(self.tree) - SUMS or not keeps_scale(list(types.values())):
                return None
            values = {v: x * 10.0 ** (scale - types[v].scale) for v, x in values.items()}
        leaves: list[bounds.Interval | None] = [None] * len(self.taken)
        for variable, column in self.monotone.leaves:
            own = values[variable][(letters >> variable & 1).astype(bool) & ~null_marks(columns[column]).astype(bool)]
            bits = bounds.FLOATING if types[variable].is_float else INT_BITS.get(types[variable].kind, 64)
            leaves[self.taken.index(variable)] = bounds.of_values(own, bits)
        if bounds.of_tree(self.tree, leaves) is None:
            return None
        return np.array([values[v].astype(np.float64) if v in values else np.zeros(rows) for v in self.taken])


def renumbered(tree: tuple, strata: list[int]) -> tuple:
    if tree[0] == "leaf":
        return ("leaf", strata[tree[1]])
    return tree if tree[0] == "lit" else (tree[0], *(renumbered(operand, strata) for operand in tree[1:]))
