"""TOP k by a monotone preference over single rows of each variable (CPR, sections 3.2 to 3.4), without enumerating the matches.

The search is :mod:`sparkcep.engine.topk.branch_and_bound`. The engine emits the k best matches, and Spark ranks them. It emits all
matches if floating scores might be ordered differently from Spark's, or if too many matches may have the score NULL.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import null_marks, numbered, words
from sparkcep.columns.types import INT_BITS, type_of
from sparkcep.compiler.net.orders import Arrangement
from sparkcep.compiler.searches import SEQUENCES
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import matches_of
from sparkcep.engine.core.predicates import kernel_data
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import Slides, plan_windows
from sparkcep.engine.match.enumeration import Listing
from sparkcep.engine.output.score_program import (
    CHOICES,
    EXACT,
    FLOATING,
    SUMS,
    Interval,
    interval_of,
    interval_of_values,
    keeps_scale,
    operations,
)
from sparkcep.engine.topk.branch_and_bound import Inside, RowSequences, best_of, top_sequences
from sparkcep.engine.topk.topk_paths import Far, Rankings, summed_weights, unclear
from sparkcep.engine.topk.unfolded import Best, Span, Unfolded, common_values
from sparkcep.errors import TooManyStepsError, TooMuchStateError
from sparkcep.kernels.common.layout import E_NUMBER, E_PART
from sparkcep.plan.facts import variables_in
from sparkcep.plan.records import walk


class TopkRows(Rankings):
    """Finds the k best matches by joining the rows of each variable. Spark computes their ranks."""

    def __init__(self, task: Task, listing: Listing) -> None:
        super().__init__(task, listing)
        self.orders, self.monotone, self.terms = task.prepared.strategy.orders, self.ranking.monotone, self.ranking.terms
        self.variables = sorted(self.orders[0].variables)
        self.bound = [sum(1 << v for v in self.variables)] + [0] * (len(task.plan.windows) - 1)  # the variables in each window
        for group in walk(task.plan.pattern):
            if group[0] == "within":
                self.bound[group.window] |= variables_in(group)

    def best(self, chunk: Chunk, sliding: Slides | None) -> list[Best] | None:
        """Returns the best matches of each partition, None if all matches are needed to find them."""
        ends, _ = plan_windows(self.task.plan.windows, chunk.columns, chunk.offsets)
        letters = kernel_data(self.task.prepared, chunk).rows.letters
        for variables, own in zip(self.bound, ends):
            letters = np.where(own > np.arange(len(letters)), letters, letters & ~np.int64(variables))  # a NULL time lies in no window
        within = self.within(chunk)
        weights = self._of_terms(chunk, letters) if self.terms else self._of_leaves(chunk.columns, letters)
        far = Far.of(self.task.prepared.strategy.far, chunk.columns)
        if weights is None or far is None:
            return None
        left_out = np.zeros(chunk.rows, dtype=bool)
        for v, own in weights.items():
            there = (letters >> v & 1).astype(bool)
            if np.isinf(own[there]).any():
                return None
            missing = there & np.isnan(own)
            letters = np.where(missing, letters & ~np.int64(1 << v), letters)
            left_out |= missing
        self.task.ran.add(SEQUENCES)
        values = common_values(self.task.prepared.strategy.far, sum(1 << v for v in self.variables), chunk)
        if self.ranking.moving or values is not None and within is None:
            return self._of_groups(chunk, sliding, letters, weights, values, ends, within, left_out)
        found = []
        for span in self.spans(chunk, sliding):
            try:
                best = self._of_partition(
                    span, letters[span.rows], {v: own[span.rows] for v, own in weights.items()}, far.part(span.rows), within, ends[:, span.rows] - span.low,
                    bool(left_out[span.rows].any()),
                )  # fmt: skip
            except TooMuchStateError:
                return None  # these may be as many as all matches
            except TooManyStepsError as error:
                raise self.task.failures.ranking(span.low + int(span.first[error.args[0]] if span.first is not None else 0), chunk.columns) from None
            if best is None:
                return None
            found.append(best)
        return found

    def _of_groups(
        self, chunk: Chunk, sliding: Slides | None, letters: np.ndarray, weights: dict[int, np.ndarray], values: dict[int, np.ndarray] | None, ends: np.ndarray,
        within: tuple[np.ndarray, np.ndarray] | None, left_out: np.ndarray,
    ) -> list[Best] | None:
        """Returns the best matches of all partitions and windows from searches of groups of rows, None if a score may be NULL.

        ``values``: the value that all rows of a match share, by variable. None if there is none, or if it is compared later.
        """
        whole = Unfolded.in_windows(self.task.plan, chunk, sliding, letters)
        groups = (whole if values is None else whole.by_values(values)).having([1 << v for v in self.variables])
        far = None if values is not None else Far.of(self.task.prepared.strategy.far, chunk.columns)
        windows, until, parts = groups.ends(ends), None if within is None else groups.ends(within[0]), []
        weights = {v: own[groups.rows] for v, own in weights.items()}
        for some in [groups.letters] if far is None else far.part(groups.rows).apart(groups.letters):
            try:
                found = self._sequences(some, weights, groups.offsets[:-1], groups.offsets[1:], until, windows)
            except TooMuchStateError:
                return None  # these may be as many as all matches
            except TooManyStepsError as error:
                raise self.task.failures.ranking(int(groups.rows[groups.offsets[error.args[0]]]), chunk.columns) from None
            parts += [(replace(best, window=groups.of[best.window], rows=groups.rows[best.rows]), labels) for best, labels in found]
        best, labels = best_of(parts, self.ranking.top, len(self.variables))
        if left_out.any():
            lost = np.add.reduceat(left_out[whole.rows], whole.offsets[:-1]) if len(whole.rows) else np.zeros(0)
            if ((lost > 0) & (np.bincount(best.window, minlength=len(whole.of)) < self.ranking.top)).any():
                return None
        count, size = best.rows.shape
        matches = matches_of(whole.parts[best.window], np.full(count, size, dtype=np.int64), labels.reshape(-1), best.rows.reshape(-1))
        matches.events[:, E_NUMBER] = numbered(matches.events[:, E_PART]) + 1 if count else 0
        return [Best(matches, whole.numbers[best.window])]

    def _of_partition(
        self, span: Span, letters: np.ndarray, weights: dict[int, np.ndarray], far: Far, within: tuple[np.ndarray, np.ndarray] | None, windows: np.ndarray,
        left_out: bool,
    ) -> Best | None:  # fmt: skip
        """Returns the best matches of a partition, None if some of the k best may have the score NULL.

        ``left_out``: the partition has rows that would make a score NULL.
        """
        ends = None if within is None else np.clip(within[0][span.rows], span.low, span.high) - span.low
        windows, parts = np.clip(windows, 0, len(letters)), []
        for some in far.apart(letters):
            parts += self._sequences(some, weights, span.first, span.until, ends, windows)
        best, labels = best_of(parts, self.ranking.top, len(self.variables))
        if left_out and (np.bincount(best.window, minlength=len(span.numbers)) < self.ranking.top).any():
            return None
        count, size = best.rows.shape
        matches = matches_of(span.part, np.full(count, size, dtype=np.int64), labels.reshape(-1), best.rows.reshape(-1) + span.low)
        return Best(matches, span.numbers[best.window])

    def _sequences(
        self, letters: np.ndarray, weights: dict[int, np.ndarray], low: np.ndarray | None, high: np.ndarray | None, ends: np.ndarray | None, windows: np.ndarray,
    ) -> list[tuple[RowSequences, np.ndarray]]:  # fmt: skip
        """Returns the best sequences of rows in each order of the variables, with the labels of their rows."""
        found = []
        for order in self.orders:
            sequences = top_sequences(
                self._tree(order), sum((letters >> v & 1) << j for j, v in enumerate(order.variables)), np.array([weights[v] for v in order.variables]),
                self.ranking.top, low, high, ends=ends, inside=Inside(order.same, order.inside, windows), max_steps=self.task.limits.max_steps,
                max_bytes=self.task.limits.max_state_bytes,
            )  # fmt: skip
            found.append((sequences, np.array(order.labels, dtype=np.uint8)))
        return found

    def _tree(self, order: Arrangement) -> tuple:
        """Returns the score over the strata of an order. A sum adds the rows one by one, as the engine computes scores."""
        if self.monotone is not None:
            return renumbered(self.monotone.tree, [order.variables.index(variable) for variable, _ in self.monotone.leaves])
        tree: tuple = ("leaf", 0)
        for stratum in range(1, len(order.variables)):
            tree = ("+", tree, ("leaf", stratum))
        return tree

    def _of_terms(self, chunk: Chunk, letters: np.ndarray) -> dict[int, np.ndarray] | None:
        """Returns what each row adds to a score that is a sum, by variable. float64 (rows) each, NaN if it is NULL.

        Returns None if the sums might differ from Spark's.
        """
        weights = summed_weights(self.task, chunk, letters)
        if weights is None or unclear(self.terms, chunk.columns, letters):
            return None
        if weights.dtype.kind != "f" and np.abs(weights.astype(np.float64)).max(axis=1, initial=0.0).sum() >= EXACT:
            return None
        return {v: weights[v].astype(np.float64) for v in self.variables}

    def _of_leaves(self, columns: dict[str, pa.Array], letters: np.ndarray) -> dict[int, np.ndarray] | None:
        """Returns the value of each row for the leaves of a monotone score, by variable. float64 (rows) each, NaN if it is NULL.

        Returns None if arithmetic with them might differ from Spark's, or if the score skips NULLs.
        """
        monotone, rows = self.monotone, len(letters)
        assert monotone is not None
        types = {variable: type_of(columns[column].type) for variable, column in monotone.leaves}
        if any(not t.is_number or t.kind == "float" or t.precision > 18 for t in types.values()):
            return None
        values = {variable: words(columns[column]) for variable, column in monotone.leaves}
        scale = max(t.scale for t in types.values())
        if any(t.kind == "decimal" for t in types.values()):
            if any(t.is_float for t in types.values()) or operations(monotone.tree) - SUMS or not keeps_scale(list(types.values())):
                return None
            values = {v: x * 10.0 ** (scale - types[v].scale) for v, x in values.items()}
        found = {v: np.zeros(rows) for v in self.variables}
        leaves: list[Interval | None] = []
        for i, (variable, column) in enumerate(monotone.leaves):
            there, null = (letters >> variable & 1).astype(bool), null_marks(columns[column]).astype(bool)
            own = values[variable].astype(np.float64)
            if (there & null).any() and not monotone.strict or (np.isnan(own[there & ~null]).any() and operations(monotone.tree) & CHOICES):
                return None
            if i in monotone.positive and (own[there & ~null] < 0).any():
                return None
            bits = FLOATING if types[variable].is_float else INT_BITS.get(types[variable].kind, 64)
            leaves.append(interval_of_values(values[variable][there & ~null], bits))
            found[variable] = np.where(null, np.nan, own)
        return None if interval_of(monotone.tree, leaves) is None else found


def renumbered(tree: tuple, strata: list[int]) -> tuple:
    if tree[0] == "leaf":
        return ("leaf", strata[tree[1]])
    return tree if tree[0] == "lit" else (tree[0], *(renumbered(operand, strata) for operand in tree[1:]))
