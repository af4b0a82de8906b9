"""TOP k: the k best matches of whole partitions, and of their sliding windows.

If the score is a sum over the rows, they are k best paths over (node, row) (CPR, 2011, section 3.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import equal_codes, numbered, words
from sparkcep.columns.types import type_of
from sparkcep.compiler.net import row_equalities
from sparkcep.compiler.net.net import ACCEPT, E_LABEL, E_TARGET, E_VAR, Net
from sparkcep.compiler.searches import PATHS, SIDES, STREAMS
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.errors import LESS
from sparkcep.engine.core.matches import MatchBatch, matches_of, together
from sparkcep.engine.core.operator import Found
from sparkcep.engine.core.predicates import kernel_data
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import Slides, plan_windows, window_ends
from sparkcep.engine.match.enumeration import Listing, listed
from sparkcep.engine.match.gap_walk import windowed
from sparkcep.engine.output.moving_windows import held_by
from sparkcep.engine.output.row_weights import (
    MatchScores,
    TypeRangeError,
    float_weights,
    is_floating,
    keeps_types,
    sum_tree,
    whole_weights,
)
from sparkcep.engine.output.tables import sliding_of
from sparkcep.engine.topk.k_best_paths import Keys, Ranked, top_matches, united
from sparkcep.engine.topk.unfolded import Best, Span, Unfolded
from sparkcep.errors import TooMuchStateError
from sparkcep.kernels.common.layout import E_NUMBER, E_PART
from sparkcep.plan.records import Ranking, Term

MOST_SHIFTS = 64  # most differences that a band may allow
MOST_TOGETHER = 1 << 16  # most best matches of partitions that are searched together
SHARE_TOGETHER = 8  # their share of ``max_state_bytes``: a larger search might fail in vain
SPARE = 1024  # matches held in addition to twice the best
MATCH_BYTES, ROW_BYTES = 400, 80  # of a match held as Python objects, and of each of its rows


class Rankings:
    """Base of the searches for the k best matches.

    ``listing`` builds the search that lists all matches. It is used if the rows do not determine the best.

    ``ranks``: whether :meth:`best` finds the matches in order, so that their ranks are added.
    """

    ranks = False

    def __init__(self, task: Task, listing: Listing) -> None:
        self.task, self.listing = task, listing
        assert task.plan.ranking is not None
        self.ranking: Ranking = task.plan.ranking

    def answer(self, chunk: Chunk) -> Iterator[Found]:
        """Yields the best matches of whole partitions."""
        sliding = self.slides(chunk)
        yield from self.output(chunk, self.best(chunk, sliding), sliding)

    def best(self, chunk: Chunk, sliding: Slides | None) -> list[Best] | None:
        """Returns the best matches of each partition, None if all matches are needed to find them."""
        raise NotImplementedError

    def spans(self, chunk: Chunk, sliding: Slides | None) -> Iterator[Span]:
        """Yields the partitions of a chunk."""
        for part, (low, high) in enumerate(zip(chunk.offsets.tolist(), chunk.offsets[1:].tolist())):
            if sliding is None:
                yield Span(part, low, high, None, None, np.zeros(1, dtype=np.int64))
            else:
                first, until, numbers = sliding.of(part)
                yield Span(part, low, high, first - low, until - low, numbers)

    def slides(self, chunk: Chunk) -> Slides | None:
        """Returns the sliding windows of whole partitions that are asked for, None without SLIDE."""
        return sliding_of(self.task, chunk) if self.task.plan.slide else None

    def within(self, chunk: Chunk, side: int = 0) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns the end and the begin of the windows that bound each match of a side or of the pattern, for each row.

        Sliding windows do not count. Returns None without such windows.
        """
        plan, columns = self.task.plan, chunk.columns
        outer = [0] if windowed(self.task) and not plan.slide and self.task.prepared.strategy.search not in (SIDES, STREAMS) else []
        windows = [plan.windows[w] for w in (*outer, *self.task.prepared.strategy.spans[side])]
        if not windows:
            return None
        ends, backs = zip(*(window_ends(w.kind, w.size, columns.get(w.order), chunk.offsets) for w in windows))
        return np.min(ends, axis=0), np.max(backs, axis=0)

    def output(self, chunk: Chunk, found: list[Best] | None, sliding: Slides | None) -> Iterator[Found]:
        """Yields the best matches. If they are not known, yields all matches, for Spark to rank."""
        if found is None:
            for some in listed(self.listing(), chunk):
                yield Found(chunk, some)
            return
        found = [best for best in found if len(best.found.events)]
        best, windows = together([b.found for b in found]), np.concatenate([np.zeros(0, dtype=np.int64), *(b.windows for b in found)])
        by_event = {}
        if sliding is not None:
            by_event["window_start"], by_event["window_end"] = sliding.windows(windows)
            if self.ranking.changes is not None:
                by_event |= sliding.compared(chunk, best.events[:, E_PART], windows)
        if self.ranks:
            # MATCH_RANK(): the place among the matches of a partition and window, which are consecutive
            by_event["rank"] = pa.array((numbered(best.events[:, E_PART], windows) + 1).astype(np.int32))
        yield Found(chunk, replace(best, by_event=by_event))


class TopkPaths(Rankings):
    """Finds the k best matches, and their ranks, as paths."""

    ranks = True

    def best(self, chunk: Chunk, sliding: Slides | None) -> list[Best]:
        found = self._by_paths(chunk, sliding)
        return found if found is not None else self._listed_best(chunk, sliding)

    def _by_paths(self, chunk: Chunk, sliding: Slides | None) -> list[Best] | None:
        """Returns the best matches of each partition, None if paths do not determine them."""
        letters = kernel_data(self.task.prepared, chunk).rows.letters
        strategy = self.task.prepared.strategy
        assert strategy.links is not None
        linked, weights = Links.of(strategy.links, strategy.sides[0], chunk), summed_weights(self.task, chunk, letters)
        # a sum over NULLs alone is NULL, and paths do not show which matches have only such rows
        if linked is None or weights is None or unclear(self.ranking.terms, chunk.columns, letters):
            return None
        self.task.ran.add(PATHS)
        letters, within = timed(letters, plan_windows(self.task.plan.windows, chunk.columns, chunk.offsets)[0]), self.within(chunk)
        if self.ranking.moving:
            unfolded = Unfolded.in_windows(self.task.plan, chunk, sliding, letters)
            within = None if within is None else (unfolded.ends(within[0]), unfolded.ends(within[1]))
            rows = unfolded.rows
            found = self._of_spans(chunk, unfolded.spans(), rows, unfolded.letters, weights[:, rows], linked.part(rows), within)
            return None if found is None else [unfolded.folded(best) for best in found]
        return self._of_spans(chunk, self.spans(chunk, sliding), np.arange(chunk.rows), letters, weights, linked, within)

    def _of_spans(
        self, chunk: Chunk, all_spans: Iterable[Span], rows: np.ndarray, letters: np.ndarray, weights: np.ndarray, linked: Links,
        within: tuple[np.ndarray, np.ndarray] | None,
    ) -> list[Best] | None:  # fmt: skip
        """Returns the best matches of each partition, None if paths do not determine them.

        ``rows`` are the rows of the chunk that the partitions have. The other arguments have an entry for each of them.
        """
        found = []
        for spans in self._groups(all_spans, within is None and linked.alike, letters, weights):
            if len(spans) > 1:
                try:
                    found.append(self._of_partitions(spans, letters, weights, linked))
                    continue
                except (OverflowError, TooMuchStateError):
                    pass  # searching each partition alone shows which one failed
            for span in spans:
                try:
                    backs = None if within is None else np.maximum(within[1][span.rows] - span.low, 0)
                    found.append(self._of_partition(span, letters[span.rows], weights[:, span.rows], linked.part(span.rows), backs))
                except OverflowError:
                    return None  # the sums are too large
                except TooMuchStateError:
                    raise self.task.failures.state(int(rows[span.low]), chunk.columns, LESS) from None
        return found

    def _groups(self, all_spans: Iterable[Span], together: bool, letters: np.ndarray, weights: np.ndarray) -> Iterator[list[Span]]:
        """Yields groups of consecutive partitions that are searched together: a call costs as much as some hundred rows.

        Without ``together`` each partition is a group. So is a partition with weights that are not finite.
        """
        group: list[Span] = []
        size = held = 0
        infinite, most = np.zeros(len(letters), dtype=bool), self.task.limits.max_state_bytes // SHARE_TOGETHER
        if together and weights.dtype.kind == "f":
            infinite = (np.array([(letters >> v) & 1 == 1 for v in range(len(weights))]) & ~np.isfinite(weights[:, : len(letters)])).any(axis=0)
        some = bool(infinite.any())
        alone = before = False
        for span in all_spans:
            before, alone = alone, some and bool(infinite[span.rows].any())
            best = len(span.numbers) * self.ranking.top
            rows = span.high - span.low if span.first is None or span.until is None else int((span.until - span.first).sum())
            taken = 24 * best + 16 * self.ranking.top * rows
            if group and (not together or size + best > MOST_TOGETHER or held + taken > most or alone or before):
                yield group
                group, size, held = [], 0, 0
            size, held = size + best, held + taken
            group.append(span)
        if group:
            yield group

    def _of_partitions(self, spans: list[Span], letters: np.ndarray, weights: np.ndarray, linked: Links) -> Best:
        """Returns the best matches of consecutive partitions."""
        rows, counts = slice(spans[0].low, spans[-1].high), np.array([len(span.numbers) for span in spans])
        low = np.concatenate([np.zeros(1, dtype=np.int64) + span.low if span.first is None else span.first + span.low for span in spans]) - rows.start
        high = np.concatenate([np.zeros(1, dtype=np.int64) + span.high if span.until is None else span.until + span.low for span in spans]) - rows.start
        heads = np.zeros(len(low), dtype=bool)
        heads[(np.cumsum(counts) - counts)[counts > 0]] = True
        found = top_matches(
            linked.first, linked.edges, letters[rows], weights[:, rows], self.ranking.top, low, high, heads=heads, max_bytes=self.task.limits.max_state_bytes
        )
        parts, numbers = np.repeat([span.part for span in spans], counts), np.concatenate([span.numbers for span in spans])
        return self._best(parts[found.window], replace(found, edges=linked.original[found.edges]), rows.start, numbers)

    def _best(self, parts: np.ndarray | int, found: Ranked, low: int, numbers: np.ndarray) -> Best:
        """Returns the results for windows with ``numbers`` as matches. Their rows are counted from row ``low``."""
        labels = self.task.prepared.strategy.sides[0].edges[found.edges, E_LABEL].astype(np.uint8)
        matches = matches_of(parts, np.diff(found.offsets), labels, found.rows + low)
        matches.events[:, E_NUMBER] = numbered(matches.events[:, E_PART]) + 1 if len(matches.events) else 0
        return Best(matches, numbers[found.window])

    def _of_partition(self, span: Span, letters: np.ndarray, weights: np.ndarray, linked: Links, backs: np.ndarray | None) -> Best:
        """Returns the best matches of a partition. Rows that agree in different values are searched separately."""
        top, parts, held = self.ranking.top, [], 0
        for some in linked.far.apart(letters):
            found = top_matches(
                linked.first, linked.edges, some, weights, top, span.first, span.until, span=backs, keys=linked.keys,
                max_bytes=self.task.limits.max_state_bytes,
            )
            if len(found.score):
                parts.append(found)
                held += len(found.score)
            if len(parts) > 1 and held > 2 * top * len(span.numbers) + SPARE:
                parts = [united(parts, top)]
                held = len(parts[0].score)
        if not parts:
            return Best(MatchBatch.none(), np.zeros(0, dtype=np.int64))
        found = parts[0] if len(parts) == 1 else united(parts, top)
        return self._best(span.part, replace(found, edges=linked.original[found.edges]), span.low, span.numbers)

    def _listed_best(self, chunk: Chunk, sliding: Slides | None) -> list[Best]:
        """Finds the best matches by going through all matches. It holds as few of them as possible."""
        top, failures = self.ranking.top, self.task.failures
        terms, plan = self.ranking.terms, self.task.plan
        scores = MatchScores(terms, sum_tree(self.ranking, terms), chunk.columns, len(plan.variables), _parts(self.task), plan.ansi, plan.precision_loss)
        groups: dict[tuple[int, int], list[tuple]] = {}
        held = 0
        for number, (part, rows, labels) in enumerate(match for found in listed(self.listing(), chunk) for match in found.each()):
            try:
                score = scores.of(rows, labels)
            except TypeRangeError:
                raise failures.score(rows[0], chunk.columns) from None
            for window in [0] if sliding is None else held_by(plan, chunk, sliding, part, rows, labels):
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
        parts, numbers = np.array([key[0] for key, _ in best], dtype=np.int64), [key[1] for key, _ in best]
        windows = np.array(numbers, dtype=np.int64 if max(map(abs, numbers), default=0) <= np.iinfo(np.int64).max else object)
        sizes = np.array([len(match[2]) for _, match in best], dtype=np.int64)
        labels = np.array([label for _, match in best for label in match[4]], dtype=np.uint8)
        taken = np.array([row for _, match in best for row in match[2]], dtype=np.int64)
        return [Best(matches_of(parts, sizes, labels, taken), windows)]


def _parts(task: Task) -> int:
    """Returns how many objectives the score averages."""
    return next(leaf.spec.parts for leaf in task.plan.leaves if leaf.spec.kind == "score")


def summed_weights(task: Task, chunk: Chunk, letters: np.ndarray) -> np.ndarray | None:
    """Returns what each row adds to the score for each variable, perhaps less one number for all matches.

    int64 or float64 (variables, rows).
    Returns None if the sums might differ from Spark's.
    """
    terms, count = task.plan.ranking.terms, len(task.plan.variables)
    if is_floating(terms, chunk.columns):
        return float_weights(terms, chunk.columns, count, chunk.rows)
    tree = sum_tree(task.plan.ranking, terms)
    if not keeps_types(terms, tree, chunk.columns, letters):
        return None
    return whole_weights(terms, tree, chunk.columns, count, chunk.offsets, letters, task.plan.precision_loss, relative=True, averaged=_parts(task) > 1)


def unclear(terms: tuple[Term, ...], columns: dict[str, pa.Array], letters: np.ndarray) -> bool:
    """Returns whether a SUM or a column of integers meets a NULL. Integers lack a NaN to represent it."""
    for mask, column, _, kind in terms:
        if column and columns[column].null_count and (kind == "sum" or not type_of(columns[column].type).is_float):
            tested = letters if mask == -1 else letters & mask
            if (tested[columns[column].is_null().to_numpy(zero_copy_only=False)[: len(letters)]] != 0).any():
                return True
    return False


class Far(NamedTuple):
    """Equalities between all rows of two variables.

    Attributes:
        tests: the two variables, and the values that their rows must share. int64 (2, rows), below 0 for a value that equals
            none.
    """

    tests: tuple[tuple[tuple[int, int], np.ndarray], ...]

    @staticmethod
    def of(far: tuple[row_equalities.Far, ...], columns: dict[str, pa.Array]) -> Far | None:
        """Returns the equalities, None if the types of both sides differ."""
        found = []
        for variables, names in far:
            codes = equal_codes([[columns[name]] for name in names])
            if codes is None:
                return None
            found.append((variables, codes))
        return Far(tuple(found))

    def part(self, rows: slice) -> Far:
        return Far(tuple((variables, codes[:, rows]) for variables, codes in self.tests))

    def apart(self, letters: np.ndarray, at: int = 0) -> Iterator[np.ndarray]:
        """Yields the letters of the rows that agree, for each combination of values."""
        if at == len(self.tests):
            yield letters
            return
        variables, codes = self.tests[at]
        values = [code[(letters >> v & 1).astype(bool) & (code >= 0)] for v, code in zip(variables, codes)]
        for value in np.intersect1d(*values).tolist():
            some = letters
            for v, code in zip(variables, codes):
                some = np.where(code == value, some, some & ~np.int64(1 << v))
            yield from self.apart(some, at + 1)


class Links(NamedTuple):
    """The automaton with an edge for each difference that a band allows, and the values that its rows compare.

    Attributes:
        first, edges: the automaton.
        original: the strategy's edge of each edge. int64 (edges).
        keys: equalities between neighbouring rows.
        far: equalities between all rows of two variables.
    """

    first: np.ndarray
    edges: np.ndarray
    original: np.ndarray
    keys: Keys | None
    far: Far

    @staticmethod
    def of(found: row_equalities.Links, automaton: Net, chunk: Chunk) -> Links | None:
        """Returns the values that conditions between rows of a match compare.

        Returns None if the types of both sides differ, or if bands are too wide.
        """
        columns, rows = chunk.columns, chunk.rows
        shifts = [_shifts(band, columns) for band in found.bands]
        if None in shifts:
            return None
        counts = np.array([len(some) for some in shifts if some is not None], dtype=np.int64)
        original = np.repeat(np.arange(len(counts)), counts)
        first = np.concatenate([[0], np.cumsum(counts)])[automaton.first]
        edges, rights = automaton.edges[original][:, [E_VAR, E_TARGET]], [right for some in shifts for right in some or ()]
        keys = None
        if any(found.nodes):
            left, right = np.full((len(found.nodes), rows), -1, dtype=np.int64), np.full((len(edges), rows), -1, dtype=np.int64)
            keyed = np.array([len(names) > 0 for names in found.nodes], dtype=np.uint8)
            for node in np.flatnonzero(keyed).tolist():
                own = [e for e in range(int(first[node]), int(first[node + 1])) if edges[e, 0] != ACCEPT]
                banded = any(rights[e] is not None for e in own)
                taken = [columns[c] for c in found.nodes[node]]
                if banded:
                    last = _lower_ends(taken[-1], [found.bands[original[e]] for e in own], columns)
                    if last is None:
                        return None
                    taken[-1] = last
                codes = equal_codes([taken, *([*(columns[c] for c in found.edges[original[e]]), *([] if rights[e] is None else [rights[e]])] for e in own)])
                if codes is None:
                    return None
                left[node], right[own] = codes[0], codes[1:]
            keys = Keys(keyed, left, right)
        compared = Far.of(found.far, columns)
        return None if compared is None else Links(first, edges, original, keys, compared)

    @property
    def alike(self) -> bool:
        """Whether nothing is compared between rows, so that several partitions can be searched together."""
        return self.keys is None and not self.far.tests

    def part(self, rows: slice) -> Links:
        keys = self.keys and Keys(self.keys.keyed, self.keys.left[:, rows], self.keys.right[:, rows])
        return self._replace(keys=keys, far=self.far.part(rows))


def _shifts(band: row_equalities.Band | None, columns: dict[str, pa.Array]) -> list[pa.Array | None] | None:
    """Returns for each copy of an edge the right key of the next row in a band. There is one copy for each difference.

    The left key is the lower end or the number of the row before. Returns None if there are too many copies, or if numbers are not
    integers.
    """
    if band is None:
        return [None]
    if not all(type_of(columns[name].type).is_integer for name in band[1:]):
        return None
    number, low, high = (columns[name].cast(pa.int64()) for name in band[1:])
    there = ~(np.asarray(low.is_null()) | np.asarray(high.is_null()))
    values, floor, ceiling = words(number), words(low), words(high)
    far = max((abs(int(x)) for own in (values, floor, ceiling) for x in (own.min(initial=0), own.max(initial=0))), default=0)
    if far > 1 << 61:
        return None
    width = (ceiling - floor)[there]
    if not len(width) or width.max() >= MOST_SHIFTS or (band.own and width.min() != width.max()):
        return None
    shifts = range(int(width.max()) + 1)
    if band.own:
        return [pa.array(values - shift, mask=np.asarray(number.is_null())) for shift in shifts]
    return [pa.array(floor + shift, mask=~there | (floor + shift > ceiling)) for shift in shifts]


def _lower_ends(column: pa.Array, bands: Sequence[row_equalities.Band | None], columns: dict[str, pa.Array]) -> pa.Array | None:
    """Returns the left key of bands: the lower end or the number of the row before. It is NULL if the upper end is.

    Returns None if only some of the upper ends of a row are NULL.
    """
    there = ~np.asarray(column.is_null())
    open_ended = [there & np.asarray(columns[band.high].is_null()) if band is not None and band.own else np.zeros_like(there) for band in bands]
    if any((some != open_ended[0]).any() for some in open_ended):
        return None
    return pc.if_else(pa.array(open_ended[0]), pa.scalar(None, pa.int64()), column.cast(pa.int64()))


def timed(letters: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns the letters, 0 for rows with a NULL time. Such rows are in no match.

    ``ends`` has the end of each window that begins with a row. int64 (windows, rows).
    """
    return np.where((ends > np.arange(len(letters))).all(axis=0), letters, 0)


def _held(matches: list[tuple]) -> int:
    """Estimates the bytes of matches that are held while others are looked at."""
    return sum(MATCH_BYTES + ROW_BYTES * len(match[2]) for match in matches)
