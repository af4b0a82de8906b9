"""TOP k of a conjunction ``p & q`` without enumerating the matches: a rank join over the ranked matches of its sides (CPR, sections
3.3 and 3.4).

Any matches of the sides join, so the k best of each are enough, unless sides that score differently may make equal matches (MIN,
rounding): then more of them are read until no other can be equal. Where only the variables of shared rows tell equal matches apart,
or sums are not exact, the engine gives all matches, and Spark ranks them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sparkcep.automaton.net import ACCEPT, E_LABEL, E_TARGET, E_VAR, Net
from sparkcep.automaton.strategy import SIDES
from sparkcep.columns.arrays import null_marks, words
from sparkcep.columns.types import INT_BITS, type_of
from sparkcep.engine import bounds
from sparkcep.engine.best import Ranked, top_matches
from sparkcep.engine.buffer import Chunk
from sparkcep.engine.failures import LESS
from sparkcep.engine.found import matches_of
from sparkcep.engine.join import Item, Joined, Queue, RankJoin
from sparkcep.engine.joined import SUMS, keeps_scale, operations
from sparkcep.engine.letters import kernel_data
from sparkcep.engine.listing import Listing
from sparkcep.engine.prepared import Task
from sparkcep.engine.ranked import Best, Rankings, Span, timed
from sparkcep.engine.sequences import rising_leaves, value
from sparkcep.engine.tables import Tables
from sparkcep.engine.weights import float_weights, whole_weights
from sparkcep.engine.windows import Slides, plan_windows
from sparkcep.errors import TooManyStepsError, TooMuchStateError

DEEPEST = 64  # times k: so many matches of a side are read before all are listed


class _DeeperError(Exception):
    """More matches of a side are needed."""


class Sides(Rankings):
    """Finds the k best matches by joining those of the sides; which rank they have Spark tells."""

    def __init__(self, task: Task, listing: Listing, tables: Tables) -> None:
        super().__init__(task, listing, tables)
        assert self.ranking.by_sides is not None
        self.score, self.top = self.ranking.by_sides, self.ranking.top
        self.sides = task.prepared.strategy.sides
        self.rising = np.where(rising_leaves(self.score.tree, len(self.sides)) < 0, -1, 1).tolist()
        self.lengths = [rows_of_match(side) for side in self.sides]
        self.merge = lambda scores: value(self.score.tree, [s * r for s, r in zip(scores, self.rising)])

    def answer(self, chunk: Chunk) -> Iterator[pa.Table]:
        sliding = self.tables.slides(chunk)
        yield from self.output(chunk, self._joined(chunk, sliding), sliding)

    def _joined(self, chunk: Chunk, sliding: Slides | None) -> list[Best] | None:
        """The best of each partition; None where only all matches tell them."""
        ends, _ = plan_windows(self.task.plan.windows, chunk.columns, chunk.offsets)
        letters = timed(kernel_data(self.task.prepared, chunk).rows.letters, ends[0])
        taken = sum(1 << v for v in {int(v) for side in self.sides for v in side.edges[:, E_VAR]} if v >= 0)
        shared = bool((np.bitwise_count(letters & taken) > 1).any())
        if shared and self.score.across:
            return None  # a row of several sides is counted once
        weights = self._weights(letters, chunk.columns, chunk.offsets)
        if weights is None:
            return None
        self.task.ran.add(SIDES)
        # of two matches of a side the better one then makes the better match; where one is the beginning of the other, the rows of other sides tell which is
        alike = None not in self.lengths and not shared
        self.strict = not self.floating and not operations(self.score.tree) - {"+", "-", "neg"} and alike
        found = []
        for span in self.spans(chunk, sliding):
            try:
                best = self._of_partition(span, letters[span.rows], [own[:, span.rows] for own in weights])
            except TooMuchStateError:
                raise self.task.failures.state(span.low, chunk.columns, LESS) from None
            except TooManyStepsError:
                raise self.task.failures.ranking(span.low, chunk.columns) from None
            if best is None:
                return None
            found.append(best)
        return found

    def _of_partition(self, span: Span, letters: np.ndarray, weights: list[np.ndarray]) -> Best | None:
        """The best of a partition; None where only all matches tell them."""
        streams = self._streams(letters, weights, self.top, span.first, span.until)
        bounds = [np.searchsorted(stream.window, np.arange(len(span.numbers) + 1)) for stream in streams]
        matches = [stream.matches() for stream in streams]
        windows, results = [], []
        for w in range(len(span.numbers)):
            some = [own[at[w] : at[w + 1]] for own, at in zip(matches, bounds)]
            if all(some):
                at = slice(0, len(letters)) if span.first is None or span.until is None else slice(int(span.first[w]), int(span.until[w]))
                best = self._of_window(some, letters[at], [own[:, at] for own in weights], at.start)
                if best is None:
                    return None
                results += best
                windows += [w] * len(best)
        sizes = np.array([len(pairs) for pairs in results], dtype=np.int64)
        flat = np.array([pair for pairs in results for pair in pairs], dtype=np.int64).reshape(-1, 2)
        return Best(matches_of(span.part, sizes, flat[:, 1].astype(np.uint8), flat[:, 0] + span.low), span.numbers[np.array(windows, dtype=np.int64)])

    def _streams(self, letters: np.ndarray, weights: list[np.ndarray], k: int, first=None, until=None) -> list[Ranked]:
        """The ``k`` best matches of each side in each window."""
        return [
            top_matches(side.first, side.edges[:, [E_VAR, E_TARGET]], letters, own, k, first, until, max_bytes=self.task.limits.max_state_bytes)
            for side, own in zip(self.sides, weights)
        ]

    def _of_window(
        self, matches: list[list[tuple]], letters: np.ndarray, weights: list[np.ndarray], base: int
    ) -> list[list[tuple[int, int]]] | None:
        """Pairs (row, label) of the k best matches of a window; None where the best of the sides do not tell them. ``matches``:
        the best of each side; ``base``: the window's first row."""
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
                    for stream in self._streams(letters, weights, depth)
                ]
        if any(a[:2] == b[:2] for a, b in pairwise(best)):
            return None
        return [self._pairs(result, matches) for result in best[: self.top]]

    def _join(self, matches: list[list[tuple]], depth: int) -> list[Joined]:
        """The k best joined matches and, where equal ones may differ in labels only, the next. Raises _DeeperError where the
        best ``depth`` of each side do not tell them."""

        def items(own: list[tuple]) -> Iterator[Item]:
            for i, (_, score, rows, _) in enumerate(own):
                yield Item(float(score), rows, i)
            if len(own) == depth and not self.strict:
                raise _DeeperError

        more = 0 if self.strict else 1
        return RankJoin([Queue(items(own)) for own in matches], self.top + more, self.merge, self.task.limits.max_steps).run()

    def _pairs(self, result: Joined, matches: list[list[tuple]]) -> list[tuple[int, int]]:
        """(row, label) of a joined match, in row order; a row that serves several sides once for each."""
        pairs = []
        for side, own, identity in zip(self.sides, matches, result.identities):
            _, _, rows, edges = own[identity]
            pairs += zip(rows, side.edges[list(edges), E_LABEL].tolist())
        return sorted(pairs, key=lambda pair: pair[0])

    def _weights(self, letters: np.ndarray, columns: dict[str, pa.Array], offsets: np.ndarray) -> list[np.ndarray] | None:
        """What each row adds to the score of each side; None where the sums are not those of Spark."""
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
        if scale and (self.floating or operations(self.score.tree) - SUMS or not keeps_scale(types)):
            return None
        leaves = [self._interval(side, letters, columns, offsets, scale) for side in range(len(self.sides))]
        if None in leaves or bounds.of_tree(self.score.tree, leaves) is None:
            return None
        out = []
        for side, (terms, rising) in enumerate(zip(self.score.sides, self.rising)):
            own = whole_weights(terms, columns, count, rows) if terms else np.zeros((count, rows), dtype=np.int64)
            if own is None:
                if self.score.whole or len(terms) > 1 or not any(term.column and type_of(columns[term.column].type).is_float for term in terms):
                    return None  # rounded in another order than Spark's
                own = float_weights(terms, columns, count, rows)
            if side in self.score.positive and any((own[v][(letters >> v & 1).astype(bool)] < 0).any() for v in range(count)):
                return None
            unit = 10 ** (scale - max((type_of(columns[term.column].type).scale for term in terms if term.column), default=0))
            out.append(own * rising * unit)
        return out

    def _interval(self, side: int, letters: np.ndarray, columns: dict[str, pa.Array], offsets: np.ndarray, scale: int) -> bounds.Interval | None:
        """Between what the sums of a side lie, in units of ``10 ** -scale``; None where one of their parts is not inside its
        type."""
        whole: bounds.Interval = (0.0, 0.0, 64)
        for mask, column, sign, kind in self.score.sides[side]:
            there = letters & mask != 0
            added, bits = np.full(len(letters), float(sign)), 64
            if column:
                t = type_of(columns[column].type)
                added = sign * words(columns[column]).astype(np.float64) * 10.0 ** (0 if t.is_float else scale - t.scale)
                bits = bounds.FLOATING if t.is_float else INT_BITS.get(t.kind, 64) if kind == "row" else 64
            own = _of_rows(np.where(there, added, 0.0), there, offsets, 1 if kind == "row" else self.lengths[side])
            whole = whole[0] + own[0], whole[1] + own[1], min(whole[2], bits)
            if not bounds.inside(whole):
                return None
        return whole


def _of_rows(added: np.ndarray, there: np.ndarray, offsets: np.ndarray, count: int | None) -> tuple[float, float]:
    """Between what the sums over ``count`` rows lie; None: over any of a partition's rows."""
    if count == 1:
        own = added[there]
        return (float(own.min()), float(own.max())) if len(own) else (0.0, 0.0)
    down, up = np.minimum(added, 0.0), np.maximum(added, 0.0)
    if count is None:
        return float(np.add.reduceat(down, offsets[:-1]).min(initial=0.0)), float(np.add.reduceat(up, offsets[:-1]).max(initial=0.0))
    return count * float(down.min(initial=0.0)), count * float(up.max(initial=0.0))


def rows_of_match(automaton: Net) -> int | None:
    """How many rows each match has; None where they differ."""
    depth = {0: 0}
    todo, ends = [0], set()
    while todo:
        node = todo.pop()
        for e in range(int(automaton.first[node]), int(automaton.first[node + 1])):
            if automaton.edges[e, E_VAR] == ACCEPT:
                ends.add(depth[node])
                continue
            target = int(automaton.edges[e, E_TARGET])
            if target not in depth:
                depth[target] = depth[node] + 1
                todo.append(target)
            elif depth[target] != depth[node] + 1:
                return None
    return ends.pop() if len(ends) == 1 else None
