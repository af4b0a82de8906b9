"""TOP k: the k best matches of whole partitions, and of their sliding windows.

Where the score is a sum over the rows they are k best paths over (node, row) (CPR, 2011, section 3.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sparkcep.automaton.net import E_LABEL, E_TARGET, E_VAR
from sparkcep.automaton.strategy import PATHS
from sparkcep.columns.arrays import equal_codes, numbered
from sparkcep.columns.types import type_of
from sparkcep.engine.best import Keys, top_matches
from sparkcep.engine.bounds import EXACT
from sparkcep.engine.buffer import Chunk
from sparkcep.engine.failures import LESS
from sparkcep.engine.found import Found, matches_of, together
from sparkcep.engine.letters import kernel_data
from sparkcep.engine.listing import Listing, listed
from sparkcep.engine.prepared import Task
from sparkcep.engine.tables import Tables
from sparkcep.engine.walk import windowed
from sparkcep.engine.weights import MatchScores, TypeRangeError, float_weights, is_floating, keeps_types, whole_weights
from sparkcep.engine.windows import Slides, plan_windows
from sparkcep.errors import TooMuchStateError
from sparkcep.plan.records import Ranking, Term
from sparkcep.search.codes import E_PART

SPARE = 1024  # matches that are held beside twice the best
MATCH_BYTES, ROW_BYTES = 400, 80  # of a match that is held as Python's numbers, and of each of its rows


@dataclass(frozen=True)
class Best:
    """The best matches of a partition, and the number of the window of each."""

    found: Found
    windows: np.ndarray


@dataclass(frozen=True)
class Span:
    """A partition of a chunk: its rows, and its sliding windows as ``first`` rows and rows ``until``, counted in the partition,
    with their ``numbers``; without sliding windows ``first`` and ``until`` are None."""

    part: int
    low: int
    high: int
    first: np.ndarray | None
    until: np.ndarray | None
    numbers: np.ndarray

    @property
    def rows(self) -> slice:
        return slice(self.low, self.high)


class Rankings:
    """What the searches for the k best matches share. ``listing``: the search that lists all matches where the rows do not tell
    the best."""

    def __init__(self, task: Task, listing: Listing, tables: Tables) -> None:
        self.task, self.listing, self.tables = task, listing, tables
        assert task.plan.ranking is not None
        self.ranking: Ranking = task.plan.ranking

    def spans(self, chunk: Chunk, sliding: Slides | None) -> Iterator[Span]:
        """The partitions of a chunk."""
        for part, (low, high) in enumerate(zip(chunk.offsets.tolist(), chunk.offsets[1:].tolist())):
            if sliding is None:
                yield Span(part, low, high, None, None, np.zeros(1, dtype=np.int64))
            else:
                first, until, numbers = sliding.of(part)
                yield Span(part, low, high, first - low, until - low, numbers)

    def output(self, chunk: Chunk, found: list[Best] | None, sliding: Slides | None, *, ranks: bool = False) -> Iterator[pa.Table]:
        """Output of the best matches, with their ``ranks`` if they are complete and in order; of all matches, for Spark to rank,
        where the best are not known."""
        if found is None:
            for some in listed(self.listing(), chunk):
                yield from self.tables.of(chunk, some)
            return
        found = [best for best in found if len(best.found.events)]
        best, windows = together([b.found for b in found]), np.concatenate([np.zeros(0, dtype=np.int64), *(b.windows for b in found)])
        by_event = {}
        if sliding is not None:
            by_event["window_start"], by_event["window_end"] = sliding.windows(windows)
        if ranks:
            # MATCH_RANK(): the place among the matches of a partition and window, which stand together
            by_event["rank"] = pa.array((numbered(best.events[:, E_PART], windows) + 1).astype(np.int32))
        yield from self.tables.of(chunk, replace(best, by_event=by_event))


class Paths(Rankings):
    """Finds the k best matches, and their ranks, as paths."""

    def answer(self, chunk: Chunk) -> Iterator[pa.Table]:
        sliding = self.tables.slides(chunk)
        found = self._by_paths(chunk, sliding)
        yield from self.output(chunk, found if found is not None else self._listed_best(chunk, sliding), sliding, ranks=True)

    @property
    def _parts(self) -> int:
        """How many objectives the score is the average of."""
        return next(leaf.spec.parts for leaf in self.task.plan.leaves if leaf.spec.kind == "score")

    def _by_paths(self, chunk: Chunk, sliding: Slides | None) -> list[Best] | None:
        """The best of each partition; None where paths do not tell them."""
        letters = kernel_data(self.task.prepared, chunk).rows.letters
        keys, weights = self._keys(chunk), self._weights(chunk, letters)
        # a sum over NULLs alone is NULL: which matches have no other row, their paths do not tell
        if keys is None or weights is None or self._unclear(self.ranking.terms, chunk.columns, letters):
            return None
        self.task.ran.add(PATHS)
        ends, backs = plan_windows(self.task.plan.windows, chunk.columns, chunk.offsets)
        letters = timed(letters, ends[0])
        found = []
        for span in self.spans(chunk, sliding):
            try:
                found.append(self._of_partition(span, letters[span.rows], weights[:, span.rows], keys, backs[span.rows]))
            except OverflowError:
                return None  # sums are too large
            except TooMuchStateError:
                raise self.task.failures.state(span.low, chunk.columns, LESS) from None
        return found

    def _of_partition(self, span: Span, letters: np.ndarray, weights: np.ndarray, keys: tuple[Keys, ...], backs: np.ndarray) -> Best:
        automaton = self.task.prepared.strategy.automaton
        within = np.maximum(backs, span.low) - span.low if span.first is None and windowed(self.task) else None
        cut = Keys(keys[0].keyed, keys[0].left[:, span.rows], keys[0].right[:, span.rows]) if keys else None
        found = top_matches(
            automaton.first, automaton.edges[:, [E_VAR, E_TARGET]], letters, weights, self.ranking.top, span.first, span.until, span=within, keys=cut,
            max_bytes=self.task.limits.max_state_bytes,
        )
        labels = automaton.edges[found.edges, E_LABEL].astype(np.uint8)
        return Best(matches_of(span.part, np.diff(found.offsets), labels, found.rows + span.low), span.numbers[found.window])

    def _listed_best(self, chunk: Chunk, sliding: Slides | None) -> list[Best]:
        """The same by going through all matches, of which as few as may be are held."""
        top, failures = self.ranking.top, self.task.failures
        scores = MatchScores(self.ranking.terms, chunk.columns, len(self.task.plan.variables), self._parts, self.task.plan.ansi)
        groups: dict[tuple[int, int], list[tuple]] = {}
        held = 0
        for number, (part, rows, labels) in enumerate(match for found in listed(self.listing(), chunk) for match in found.each()):
            try:
                score = scores.of(rows, labels)
            except TypeRangeError:
                raise failures.score(rows[0], chunk.columns) from None
            for window in [0] if sliding is None else sliding.holding(part, rows[0], rows[-1]):
                group = groups.setdefault((part, window), [])
                group.append((score is None, 0 if score is None else -score, tuple(rows), number, tuple(labels)))
                held += _held([group[-1]])
                if len(group) >= 2 * top + SPARE:
                    group.sort()
                    held -= _held(group[top:])
                    del group[top:]
                if held > self.task.limits.max_state_bytes:
                    raise failures.state(rows[0], chunk.columns, LESS)
        best = [(key, match) for key in sorted(groups) for match in sorted(groups[key])[:top]]
        parts, windows = (np.array([key[i] for key, _ in best], dtype=np.int64) for i in range(2))
        sizes = np.array([len(match[2]) for _, match in best], dtype=np.int64)
        labels = np.array([label for _, match in best for label in match[4]], dtype=np.uint8)
        taken = np.array([row for _, match in best for row in match[2]], dtype=np.int64)
        return [Best(matches_of(parts, sizes, labels, taken), windows)]

    def _weights(self, chunk: Chunk, letters: np.ndarray) -> np.ndarray | None:
        """What each row adds to the score of its variable; None where sums of that are not Spark's."""
        terms, count = self.ranking.terms, len(self.task.plan.variables)
        if is_floating(terms, chunk.columns):
            return float_weights(terms, chunk.columns, count, chunk.rows)
        if not keeps_types(terms, chunk.columns, letters):
            return None
        weights = whole_weights(terms, chunk.columns, count, chunk.rows)
        if weights is not None and self._parts > 1 and np.abs(weights.astype(np.float64)).sum() >= EXACT:
            return None
        return weights

    def _unclear(self, terms: tuple[Term, ...], columns: dict[str, pa.Array], letters: np.ndarray) -> bool:
        """Whether SUM meets a NULL, or whole numbers do, which have no NaN to stand for it."""
        for mask, column, _, kind in terms:
            if column and columns[column].null_count and (kind == "sum" or not type_of(columns[column].type).is_float):
                tested = letters if mask == -1 else letters & mask
                if (tested[columns[column].is_null().to_numpy(zero_copy_only=False)[: len(letters)]] != 0).any():
                    return True
        return False

    def _keys(self, chunk: Chunk) -> tuple[Keys, ...] | None:
        """What the conditions between neighbours compare, of all rows, if there are any; None where the types of both sides
        differ."""
        strategy, columns, rows = self.task.prepared.strategy, chunk.columns, chunk.rows
        links, automaton = strategy.links, strategy.automaton
        assert links is not None
        if not any(links.nodes):
            return ()
        left, right = np.full((len(links.nodes), rows), -1, dtype=np.int64), np.full((len(links.edges), rows), -1, dtype=np.int64)
        keyed = np.array([len(names) > 0 for names in links.nodes], dtype=np.uint8)
        for node in np.flatnonzero(keyed).tolist():
            edges = [e for e in range(int(automaton.first[node]), int(automaton.first[node + 1])) if links.edges[e]]
            codes = equal_codes([[columns[c] for c in links.nodes[node]], *([columns[c] for c in links.edges[e]] for e in edges)])
            if codes is None:
                return None
            left[node], right[edges] = codes[0], codes[1:]
        return (Keys(keyed, left, right),)


def timed(letters: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Letters of rows; those whose time is NULL are in no match. ``ends``: where a window that begins with each row ends."""
    return np.where(ends > np.arange(len(letters)), letters, 0)


def _held(matches: list[tuple]) -> int:
    """Bytes, about, of matches held while others are looked at."""
    return sum(MATCH_BYTES + ROW_BYTES * len(match[2]) for match in matches)
