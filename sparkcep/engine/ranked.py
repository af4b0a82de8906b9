"""TOP k of an additive preference without enumerating the matches: k best paths over (node, row) (CPR, 2011, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkcep.automaton.net import E_LABEL, E_TARGET, E_VAR
from sparkcep.columns.arrays import equal_codes, numbered
from sparkcep.columns.types import type_of
from sparkcep.engine.best import Keys, top_matches
from sparkcep.engine.bounds import EXACT
from sparkcep.engine.last_rows import EndingEngine
from sparkcep.engine.run import NARROWER, Data, Prepared
from sparkcep.engine.selection import SelectionEngine
from sparkcep.engine.weights import MatchScores, TypeRangeError, float_weights, is_floating, keeps_types, whole_weights
from sparkcep.engine.windows import Slides, slides
from sparkcep.errors import MatchRuntimeError, TooMuchStateError
from sparkcep.plan.records import Term
from sparkcep.search import adjacent as kernels

SPARE = 1024  # matches that are held beside twice the best
LESS = "a smaller TOP, a smaller WINDOW"
MATCH_BYTES, ROW_BYTES = 400, 80  # of a match that is held as Python's numbers, and of each of its rows


@dataclass(frozen=True)
class Best:
    """Matches as events, labels and rows, and the number of the window of each."""

    events: np.ndarray
    labels: np.ndarray
    rows: np.ndarray
    windows: np.ndarray


class BestEngine(EndingEngine):
    """Gives the best matches of each partition, and window."""

    _window: tuple[pa.Array, pa.Array] | None = None  # WINDOW_START and WINDOW_END of the matches at hand

    def _slides(self, columns: dict[str, pa.Array], offsets: np.ndarray) -> Slides | None:
        """The sliding windows of whole partitions."""
        plan = self.plan
        if not plan.slide:
            return None
        try:
            return slides(plan.windows[0], plan.slide, columns.get(plan.windows[0].order), offsets, self._most_windows)
        except TooMuchStateError:
            raise self._state_limit(self._at(0), columns, NARROWER) from None

    def _timed(self, data: Data, low: int, high: int) -> np.ndarray:
        """Letters of rows; those whose time is NULL are in no match."""
        return np.where(self._windows[0, low:high] > np.arange(low, high), data.rows.letters[low:high], 0)

    def _told(
        self, found: list[Best], sliding: Slides | None, columns: dict[str, pa.Array], offsets: np.ndarray, ranks: bool
    ) -> Iterator[pa.Table]:
        """Output of the matches of all partitions, with their ranks if they are complete and in order."""
        best = _together([f for f in found if len(f.events)])
        self._window = sliding.windows(best.windows) if sliding is not None else None
        by_event = _with_ranks(best.events, best.windows) if ranks else {}
        yield from self._emit(columns, best.events, best.labels, best.rows, offsets, by_event)

    def _best_or_all(
        self, found: list[Best] | None, sliding: Slides | None, data: Data, columns: dict[str, pa.Array], offsets: np.ndarray
    ) -> Iterator[pa.Table]:
        """Output of the best matches, for Spark to rank; of all where the best were not told."""
        if found is not None:
            yield from self._told(found, sliding, columns, offsets, False)
            return
        for events, labels, taken in self._found(data, offsets, columns):
            yield from self._emit(columns, events, labels, taken, offsets)

    def _ranking_effort(self, row: int, columns: dict[str, pa.Array]) -> MatchRuntimeError:
        """The error about a search in the partition of a row."""
        return MatchRuntimeError(
            "EFFORT_LIMIT",
            f"ranking one window{self._where(self._at(row), columns)} took more than sparkcep.maxSteps = {self.limits.max_steps} steps; use a smaller "
            "WINDOW, or conditions that fewer rows fulfil",
            sqlstate="54000",
        )

    def _in_windows(self, columns, events, labels, scattered, offsets, by_event):
        if self._window is None:
            return super()._in_windows(columns, events, labels, scattered, offsets, by_event)
        starts, ends = self._window
        self._window = None
        return events, by_event | {"window_start": starts, "window_end": ends}


class RankedEngine(BestEngine, SelectionEngine):
    """Gives the k best matches of each partition, and window, with their ranks."""

    def __init__(self, prepared: Prepared, chunk_rows=None, limits=None) -> None:
        super().__init__(prepared, chunk_rows, limits)
        assert prepared.selection is not None
        self._links = prepared.strategy.links

    def _decided(self, data: Data, offsets: np.ndarray, done: int, columns: dict[str, pa.Array]) -> Iterator[pa.Table]:
        offsets = offsets[: done + 1]
        ranking = self.plan.ranking
        assert ranking is not None
        rows = int(offsets[-1])
        letters = data.rows.letters[:rows]
        keys = self._keys({name: column[:rows] for name, column in columns.items()})
        weights = self._weights(columns, letters)
        # a sum over NULLs alone is NULL: which matches have no other row, their paths do not tell
        if keys is not None and weights is not None and not self._unclear(ranking.terms, columns, letters):
            sliding = self._slides(columns, offsets)
            found = self._by_paths(data, offsets, weights, keys, sliding, columns)
            if found is not None:
                yield from self._told(found, sliding, columns, offsets, True)
                return
        yield from self._listed_best(data, offsets, columns)

    def _weights(self, columns: dict[str, pa.Array], letters: np.ndarray) -> np.ndarray | None:
        """What each row adds to the score of its variable; None where sums of that are not Spark's."""
        ranking = self.plan.ranking
        assert ranking is not None
        count, rows = len(self.plan.variables), len(next(iter(columns.values())))
        if is_floating(ranking.terms, columns):
            return float_weights(ranking.terms, columns, count, rows)
        if not keeps_types(ranking.terms, columns, letters):
            return None
        weights = whole_weights(ranking.terms, columns, count, rows)
        if weights is not None and self._parts > 1 and np.abs(weights[:, : len(letters)].astype(np.float64)).sum() >= EXACT:
            return None
        return weights

    @property
    def _parts(self) -> int:
        """How many objectives the score is the average of."""
        return next(leaf.spec.parts for leaf in self.plan.leaves if leaf.spec.kind == "score")

    def _by_paths(
        self, data: Data, offsets: np.ndarray, weights: np.ndarray, keys: tuple[Keys, ...], sliding: Slides | None,
        columns: dict[str, pa.Array],
    ) -> list[Best] | None:
        """The best of each partition; None where sums are too large."""
        ranking = self.plan.ranking
        assert ranking is not None
        found = []
        for part in range(len(offsets) - 1):
            try:
                found.append(self._of_partition(part, data, offsets, weights, keys, ranking.top, sliding))
            except OverflowError:
                return None
            except TooMuchStateError:
                raise self._state_limit(self._at(int(offsets[part])), columns, LESS) from None
        return found

    def _listed_best(self, data: Data, offsets: np.ndarray, columns: dict[str, pa.Array]) -> Iterator[pa.Table]:
        """The same by going through all matches, of which as few as may be are held."""
        ranking = self.plan.ranking
        assert ranking is not None
        scores = MatchScores(ranking.terms, columns, len(self.plan.variables), self._parts, self.plan.ansi)
        sliding = self._slides(columns, offsets)
        found: dict[tuple[int, int], list[tuple]] = {}
        held = 0
        for number, (part, rows, labels) in enumerate(self._matches(data, offsets, columns)):
            try:
                score = scores.of(rows, labels)
            except TypeRangeError:
                raise MatchRuntimeError(
                    "ARITHMETIC_OVERFLOW", f"integer overflow in PREF{self._where(self._at(rows[0]), columns)}; cast to a wider type", sqlstate="22003"
                ) from None
            for window in [0] if sliding is None else sliding.holding(part, rows[0], rows[-1]):
                group = found.setdefault((part, window), [])
                group.append((score is None, 0 if score is None else -score, tuple(rows), number, tuple(labels)))
                held += _held([group[-1]])
                if len(group) >= 2 * ranking.top + SPARE:
                    group.sort()
                    held -= _held(group[ranking.top :])
                    del group[ranking.top :]
                if held > self.limits.max_state_bytes:
                    raise self._state_limit(self._at(rows[0]), columns, LESS)
        best = [(key, match) for key in sorted(found) for match in sorted(found[key])[: ranking.top]]
        sizes = np.array([len(match[2]) for _, match in best], dtype=np.int64)
        events = np.zeros((len(best), 5), dtype=np.int64)
        events[:, kernels.E_PART] = [part for (part, _), _ in best]
        events[:, kernels.E_START] = [match[2][0] for _, match in best]
        events[:, kernels.E_ROWS], events[:, kernels.E_LABELS] = sizes, np.cumsum(sizes) - sizes
        events[:, kernels.E_NUMBER] = np.arange(1, len(best) + 1)
        labels = np.array([label for _, match in best for label in match[4]], dtype=np.uint8)
        taken = np.array([row for _, match in best for row in match[2]], dtype=np.int64)
        windows = np.array([number for (_, number), _ in best], dtype=np.int64)
        self._window = sliding.windows(windows) if sliding is not None else None
        yield from self._emit(columns, events, labels, taken, offsets, _with_ranks(events, windows))

    def _unclear(self, terms: tuple[Term, ...], columns: dict[str, pa.Array], letters: np.ndarray) -> bool:
        """Whether SUM meets a NULL, or whole numbers do, which have no NaN to stand for it."""
        for mask, column, _, kind in terms:
            if column and columns[column].null_count and (kind == "sum" or not type_of(columns[column].type).is_float):
                tested = letters if mask == -1 else letters & mask
                if (tested[columns[column].is_null().to_numpy(zero_copy_only=False)[: len(letters)]] != 0).any():
                    return True
        return False

    def _keys(self, columns: dict[str, pa.Array]) -> tuple[Keys, ...] | None:
        """What the conditions between neighbours compare, of all rows, if there are any; None where the types of both sides differ."""
        links = self._links
        assert links is not None
        if not any(links.nodes):
            return ()
        rows = len(next(iter(columns.values())))
        left, right = np.full((len(links.nodes), rows), -1, dtype=np.int64), np.full((len(links.edges), rows), -1, dtype=np.int64)
        keyed = np.array([len(names) > 0 for names in links.nodes], dtype=np.uint8)
        automaton = self.p.selection
        assert automaton is not None
        for node in np.flatnonzero(keyed).tolist():
            edges = [e for e in range(int(automaton.first[node]), int(automaton.first[node + 1])) if links.edges[e]]
            codes = equal_codes([[columns[c] for c in links.nodes[node]], *([columns[c] for c in links.edges[e]] for e in edges)])
            if codes is None:
                return None
            left[node], right[edges] = codes[0], codes[1:]
        return (Keys(keyed, left, right),)

    def _of_partition(
        self, part: int, data: Data, offsets: np.ndarray, weights: np.ndarray, keys: tuple[Keys, ...], k: int, sliding: Slides | None
    ) -> Best:
        low, high = int(offsets[part]), int(offsets[part + 1])
        automaton = self.p.selection
        assert automaton is not None
        letters = self._timed(data, low, high)
        edges = automaton.edges[:, [E_VAR, E_TARGET]]
        own = weights[:, low:high]
        number = np.zeros(1, dtype=np.int64)
        first = until = span = None
        if sliding is not None:
            first, until, number = sliding.of(part)
            first, until = first - low, until - low
        elif self.windowed:
            span = np.maximum(self._backs[low:high], low) - low
        cut = Keys(keys[0].keyed, keys[0].left[:, low:high], keys[0].right[:, low:high]) if keys else None
        found = top_matches(automaton.first, edges, letters, own, k, first, until, span=span, keys=cut, max_bytes=self.limits.max_state_bytes)
        return Best(best_events(found.offsets, found.rows, part, low), automaton.edges[found.edges, E_LABEL].astype(np.uint8), found.rows + low, number[found.window])


def _held(matches: list[tuple]) -> int:
    """Bytes, about, of matches held while others are looked at."""
    return sum(MATCH_BYTES + ROW_BYTES * len(match[2]) for match in matches)


def _with_ranks(events: np.ndarray, windows: np.ndarray) -> dict[str, pa.Array]:
    """MATCH_RANK() of each match: its place among those of its partition and window, which stand together."""
    return {"rank": pa.array((numbered(events[:, kernels.E_PART], windows) + 1).astype(np.int32))}


def best_events(offsets: np.ndarray, rows: np.ndarray, part: int, low: int) -> np.ndarray:
    """Matches of a partition that begins at row ``low`` as events: match i has ``rows`` from ``offsets[i]`` to ``offsets[i + 1]``, counted in the partition."""
    sizes = np.diff(offsets)
    events = np.zeros((len(sizes), 5), dtype=np.int64)
    events[:, kernels.E_PART] = part
    events[:, kernels.E_START] = rows[offsets[:-1]] + low if len(sizes) else 0
    events[:, kernels.E_ROWS] = sizes
    events[:, kernels.E_NUMBER] = np.arange(1, len(sizes) + 1)
    events[:, kernels.E_LABELS] = offsets[:-1]
    return events


def _together(parts: list[Best]) -> Best:
    if not parts:
        whole = np.zeros(0, dtype=np.int64)
        return Best(np.zeros((0, 5), dtype=np.int64), np.zeros(0, dtype=np.uint8), whole, whole)
    base = 0
    for part in parts:
        part.events[:, kernels.E_LABELS] += base
        base += len(part.rows)
    return Best(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("events", "labels", "rows", "windows")))
