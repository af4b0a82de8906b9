"""TOP k of a conjunction ``p & q``: a rank join over the ranked matches of its sides (CPR, sections 3.3 and 3.4).

Matches are not enumerated. Any matches of the sides join, so the k best of each side are usually enough. Sides with different
scores may make equal matches (MIN, rounding). Then more matches of the sides are read, until no other match can be equal. If equal
matches differ only in the variables of shared rows, or sums are not exact, the engine emits all matches and Spark ranks them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import null_marks, words
from sparkcep.columns.types import INT_BITS, type_of
from sparkcep.compiler.net.net import E_LABEL, E_TARGET, E_VAR, rows_of_match
from sparkcep.compiler.searches import SIDES
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.errors import LESS
from sparkcep.engine.core.matches import matches_of
from sparkcep.engine.core.predicates import kernel_data
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import Slides, plan_windows
from sparkcep.engine.match.enumeration import Listing
from sparkcep.engine.match.gap_walk import windowed
from sparkcep.engine.output.row_weights import float_weights, term_type, whole_weights
from sparkcep.engine.output.score_program import (
    FLOATING,
    NUMBERS,
    SUMS,
    Interval,
    evaluated,
    fits,
    inside,
    interval_of,
    keeps_scale,
    operations,
)
from sparkcep.engine.topk.branch_and_bound import rising_leaves
from sparkcep.engine.topk.k_best_paths import Ranked, top_matches
from sparkcep.engine.topk.rank_join import Item, Joined, Queue, RankJoin
from sparkcep.engine.topk.topk_paths import Rankings, timed
from sparkcep.engine.topk.unfolded import Best, Span
from sparkcep.errors import TooManyStepsError, TooMuchStateError
from sparkcep.plan.facts import plain_sum
from sparkcep.plan.records import Conjoined

DEEPEST = 64  # a side is read up to so many times k, then all matches are listed


class _DeeperError(Exception):
    """More matches of a side are needed."""


class _Stream(NamedTuple):
    """The rows of one side.

    Attributes:
        letters: the variables that each row may be. int64 (rows).
        weights: what each row adds to the side's score. int64 or float64 (variables, rows).
        backs: the earliest first row of a match that ends with the row. int64 (rows), None if no window bounds the side.
    """

    letters: np.ndarray
    weights: np.ndarray
    backs: np.ndarray | None

    @staticmethod
    def of(letters: np.ndarray, weights: np.ndarray, within: tuple[np.ndarray, np.ndarray] | None) -> _Stream:
        return _Stream(letters, weights, None) if within is None else _Stream(timed(letters, within[0][None]), weights, within[1])

    def part(self, rows: slice) -> _Stream:
        return _Stream(self.letters[rows], self.weights[:, rows], None if self.backs is None else np.maximum(self.backs[rows] - rows.start, 0))


class TopkSides(Rankings):
    """Finds the k best matches by joining those of the sides. Spark computes their ranks."""

    def __init__(self, task: Task, listing: Listing) -> None:
        super().__init__(task, listing)
        self.score, self.top = self.form(), self.ranking.top
        self.sides = task.prepared.strategy.sides
        self.rising = np.where(rising_leaves(self.score.tree, len(self.sides)) < 0, -1, 1).tolist()
        self.lengths = [rows_of_match(side) for side in self.sides]
        self.merge = lambda scores: evaluated(self.score.tree, [s * r for s, r in zip(scores, self.rising)], NUMBERS)

    def form(self) -> Conjoined:
        """Returns the form of the score."""
        assert self.ranking.by_sides is not None
        return self.ranking.by_sides

    def best(self, chunk: Chunk, sliding: Slides | None) -> list[Best] | None:
        """Returns the best matches of each partition, None if all matches are needed to find them."""
        ends, _ = plan_windows(self.task.plan.windows, chunk.columns, chunk.offsets)
        letters = timed(kernel_data(self.task.prepared, chunk).rows.letters, ends[:1])
        taken = sum(1 << v for v in {int(v) for side in self.sides for v in side.edges[:, E_VAR]} if v >= 0)
        shared = bool((np.bitwise_count(letters & taken) > 1).any())
        if shared and self.score.across:
            return None  # a row that serves several sides counts once
        weights = self._weights(letters, chunk.columns, chunk.offsets)
        if weights is None:
            return None
        self.task.ran.add(SIDES)
        # ``strict``: the better of two matches of a side always makes the better joined match. If one match is a prefix of the
        # other, this depends on the rows of other sides.
        alike = None not in self.lengths and not shared
        self.strict = not self.floating and not operations(self.score.tree) - {"+", "-", "neg"} and alike
        streams = [_Stream.of(letters, own, self.within(chunk, side)) for side, own in enumerate(weights)]
        found = []
        for span in self.spans(chunk, sliding):
            try:
                best = self._of_partition(span, [stream.part(span.rows) for stream in streams], ends[0, span.rows] - span.low)
            except OverflowError:
                return None  # the sums are too large
            except TooMuchStateError:
                raise self.task.failures.state(span.low, chunk.columns, LESS) from None
            except TooManyStepsError:
                raise self.task.failures.ranking(span.low, chunk.columns) from None
            if best is None:
                return None
            found.append(best)
        return found

    def _of_partition(self, span: Span, streams: list[_Stream], ends: np.ndarray) -> Best | None:
        """Returns the best matches of a partition, None if all matches are needed to find them.

        ``ends`` has the end of the window that begins with each row.
        """
        first, until, numbers = span.first, span.until, span.numbers
        gliding = first is None and windowed(self.task)
        if gliding:
            # a match lies in the window of its first row; of windows with the same end, the first one is enough
            first = np.flatnonzero((ends > np.arange(len(ends))) & (np.diff(ends, prepend=-1) > 0))
            until = ends[first]
        elif first is None or until is None:
            first, until = np.zeros(1, dtype=np.int64), np.full(1, len(ends), dtype=np.int64)
        ranked = self._ranked(streams, self.top, first, until)
        at = [np.searchsorted(stream.window, np.arange(len(first) + 1)) for stream in ranked]
        matches = [stream.matches() for stream in ranked]
        windows: list[int] = []
        results: list[tuple[Joined, tuple]] = []
        for w, rows in enumerate(map(slice, first.tolist(), until.tolist())):
            some = [own[low[w] : low[w + 1]] for own, low in zip(matches, at)]
            if not all(some) or (gliding and len(results) == self.top and self.merge([own[0][1] for own in some]) < results[-1][0].score):
                continue
            best = self._of_window(some, [stream.part(rows) for stream in streams], rows.start)
            if best is None:
                return None
            if gliding:
                results = sorted({(found[:2], pairs): (found, pairs) for found, pairs in (*results, *best)}.values())[: self.top + 1]
                if any(a[0][:2] == b[0][:2] for a, b in pairwise(results)):
                    return None
                del results[self.top :]
            else:
                results += best
                windows += [w] * len(best)
        pairs = [pairs for _, pairs in results]
        sizes = np.array(list(map(len, pairs)), dtype=np.int64)
        flat = np.array([pair for some in pairs for pair in some], dtype=np.int64).reshape(-1, 2)
        found = matches_of(span.part, sizes, flat[:, 1].astype(np.uint8), flat[:, 0] + span.low)
        return Best(found, np.zeros(len(pairs), dtype=np.int64) if gliding else numbers[np.array(windows, dtype=np.int64)])

    def _ranked(self, streams: list[_Stream], k: int, first: np.ndarray | None = None, until: np.ndarray | None = None) -> list[Ranked]:
        """Returns the ``k`` best matches of each side in each window."""
        return [
            top_matches(
                side.first, side.edges[:, [E_VAR, E_TARGET]], stream.letters, stream.weights, k, first, until, span=stream.backs,
                max_bytes=self.task.limits.max_state_bytes,
            )
            for side, stream in zip(self.sides, streams)
        ]

    def _of_window(self, matches: list[list[tuple]], streams: list[_Stream], base: int) -> list[tuple[Joined, tuple]] | None:
        """Returns the k best matches of a window, each with its pairs (row, label).

        Returns None if the best matches of the sides do not determine them.

        Args:
            matches: the best matches of each side.
            streams: the window's rows of each side.
            base: the first row of the window.
        """
        depth = self.top
        while True:
            try:
                best = self._join(matches, depth)
                break
            except _DeeperError:
                depth *= 4
                if depth > DEEPEST * self.top:
                    return None
                matches = [
                    [(w, score, tuple(row + base for row in rows), edges) for w, score, rows, edges in stream.matches()]
                    for stream in self._ranked(streams, depth)
                ]
        if any(a[:2] == b[:2] for a, b in pairwise(best)):
            return None
        return [(result, self._pairs(result, matches)) for result in best[: self.top]]

    def _join(self, matches: list[list[tuple]], depth: int) -> list[Joined]:
        """Returns the k best joined matches. If equal ones may differ only in labels, also returns the next one.

        Raises _DeeperError if the best ``depth`` matches of each side do not determine them.
        """

        def items(own: list[tuple]) -> Iterator[Item]:
            for i, (_, score, rows, _) in enumerate(own):
                yield Item(float(score), rows, i)
            if len(own) == depth and not self.strict:
                raise _DeeperError

        more = 0 if self.strict else 1
        return RankJoin([Queue(items(own)) for own in matches], self.top + more, self.merge, self.task.limits.max_steps).run()

    def _pairs(self, result: Joined, matches: list[list[tuple]]) -> tuple[tuple[int, int], ...]:
        """Returns the (row, label) pairs of a joined match in row order. A row that serves several sides comes once for each."""
        pairs = []
        for side, own, identity in zip(self.sides, matches, result.identities):
            _, _, rows, edges = own[identity]
            pairs += zip(rows, side.edges[list(edges), E_LABEL].tolist())
        return tuple(sorted(pairs, key=lambda pair: pair[0]))

    def _weights(self, letters: np.ndarray, columns: dict[str, pa.Array], offsets: np.ndarray) -> list[np.ndarray] | None:
        """Returns what each row adds to the score of each side, None if the sums might differ from Spark's."""
        count, rows = len(self.task.plan.variables), len(letters)
        types = [type_of(columns[term.column].type) for terms in self.score.sides for term in terms if term.column]
        if any(not t.is_number or t.kind == "float" or t.precision > 18 for t in types):
            return None
        for terms in self.score.sides:
            for term in terms:
                if term.column:
                    bad = null_marks(columns[term.column]).astype(bool) | ~np.isfinite(words(columns[term.column]))
                    if (bad & (letters & term.mask != 0)).any():
                        return None
        self.floating = any(t.is_float for t in types)
        scale = max((t.scale for t in types), default=0)
        added = [term_type(term, columns) for terms in self.score.sides for term in terms]
        if scale and (self.floating or operations(self.score.tree) - SUMS or not keeps_scale(added)):
            return None
        leaves = [self._interval(side, letters, columns, offsets, scale) for side in range(len(self.sides))]
        if None in leaves or interval_of(self.score.tree, leaves) is None or (self.score.whole and not _fit_together(leaves)):
            return None
        out = []
        for side, (terms, rising) in enumerate(zip(self.score.sides, self.rising)):
            own: np.ndarray | None = np.zeros((count, rows), dtype=np.int64)
            if terms:
                tree = plain_sum([term.sign for term in terms])
                own = whole_weights(terms, tree, columns, count, offsets, letters, self.task.plan.precision_loss, relative=False, scale=scale)
            if own is None:
                if self.score.whole or len(terms) > 1 or not any(term.column and type_of(columns[term.column].type).is_float for term in terms):
                    return None  # these sums are rounded in another order than Spark's
                own = float_weights(terms, columns, count, rows)
            if side in self.score.positive and any((own[v][(letters >> v & 1).astype(bool)] < 0).any() for v in range(count)):
                return None
            out.append(own * rising)
        return out

    def _interval(self, side: int, letters: np.ndarray, columns: dict[str, pa.Array], offsets: np.ndarray, scale: int) -> Interval | None:
        """Returns the interval of a side's sums, in units of ``10 ** -scale``.

        Returns None if one of their parts may overflow its type.
        """
        whole: Interval = (0.0, 0.0, 64)
        for mask, column, sign, kind in self.score.sides[side]:
            there = letters & mask != 0
            added, bits = np.full(len(letters), float(sign)), 64
            if column:
                t = type_of(columns[column].type)
                added = sign * words(columns[column]).astype(np.float64) * 10.0 ** (0 if t.is_float else scale - t.scale)
                bits = FLOATING if t.is_float else INT_BITS.get(t.kind, 64) if kind == "row" else 64
            own = _of_rows(np.where(there, added, 0.0), there, offsets, 1 if kind == "row" else self.lengths[side])
            whole = whole[0] + own[0], whole[1] + own[1], min(whole[2], bits)
            if not inside(whole):
                return None
        return whole


def _fit_together(leaves: list[Interval | None]) -> bool:
    """Returns whether no sum of small integers can overflow its type. Spark may add them first, across sides."""
    small = [leaf for leaf in leaves if leaf is not None and FLOATING < leaf[2] < 64]
    most = sum(max(abs(low), abs(high)) for low, high, _ in small)
    return fits((-most, most, min((bits for *_, bits in small), default=64)))


def _of_rows(added: np.ndarray, there: np.ndarray, offsets: np.ndarray, count: int | None) -> tuple[float, float]:
    """Returns the least and the greatest sum over ``count`` rows, or with None over any rows of a partition."""
    if count == 1:
        own = added[there]
        return (float(own.min()), float(own.max())) if len(own) else (0.0, 0.0)
    down, up = np.minimum(added, 0.0), np.maximum(added, 0.0)
    if count is None:
        return float(np.add.reduceat(down, offsets[:-1]).min(initial=0.0)), float(np.add.reduceat(up, offsets[:-1]).max(initial=0.0))
    return count * float(down.min(initial=0.0)), count * float(up.max(initial=0.0))
