"""TOP k over named sequences: a rank join over the ranked matches of each sequence (CPR, sections 3.3 and 3.4).

The matches of a sequence are k best paths, best first. In each partition or sliding window the best matches of all sequences are
joined: they must come in order and fulfil the conditions across sequences. A match with an unread item has at most the score of
that item with the best items of the other sequences (the corner bound). If the k-th result is not strictly better, more is read.

Example: k is 1, the score is the sum. S1 has matches with 9, 5 and 4, S2 has 7 and 6, and 9 and 7 do not agree. With two items of
each the best result is 9 + 6 = 15. A match with an unread item of S1 has at most 5 + 7 and one of S2 at most 9 + 6, which is not
less. So a third item of S2 is asked for. There is none, and 15 is final.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sparkcep.columns.arrays import equal_codes, null_marks, words
from sparkcep.columns.types import type_of
from sparkcep.compiler.net.joined_sequences import Across
from sparkcep.compiler.net.net import E_LABEL
from sparkcep.compiler.searches import STREAMS
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.errors import LESS
from sparkcep.engine.core.matches import matches_of
from sparkcep.engine.core.predicates import kernel_data
from sparkcep.engine.core.windows import Slides, plan_windows
from sparkcep.engine.match.gap_walk import windowed
from sparkcep.engine.output.score_program import ARRAYS, evaluated
from sparkcep.engine.topk.k_best_paths import Ranked, top_matches, united
from sparkcep.engine.topk.topk_paths import Links, timed
from sparkcep.engine.topk.topk_sides import TopkSides
from sparkcep.engine.topk.unfolded import Best, Unfolded
from sparkcep.errors import TooMuchStateError
from sparkcep.plan.records import Conjoined

DEEPEST, SPARE = 64, 1000  # a sequence is read up to so many times k, and so many more
MOST_PAIRS, MOST_TESTED = 1 << 22, 1 << 26  # Combinations of a group that may be kept, and tested.
FIRST_BLOCK, LAST_BLOCK = 1 << 14, 1 << 20  # Combinations that are tested at a time.
AT_ONCE, DEEPER_AT_ONCE = 4096, 64  # Groups whose matches are held, in the first reading and in further ones.
READ_AT_ONCE = 1 << 23  # Rows times matches of the groups that are read together.
_FAR = np.iinfo(np.int64).max


class _NotJoinedError(Exception):
    """The matches that were read do not determine the best."""


class _Test(NamedTuple):
    """A comparison of rows of two sequences over a chunk.

    Attributes:
        across: the comparison.
        own: the value of each row that has the condition; ``never`` if it fulfils none. int64 (rows).
        other: the value of each row that is read. int64 (rows).
        never: a value of ``own`` that fulfils no comparison.
    """

    across: Across
    own: np.ndarray
    other: np.ndarray
    never: int

    @staticmethod
    def of(across: Across, chunk: Chunk) -> _Test | None:
        """Returns the comparison, None if its types are not compared here."""
        operation, names = across.compared.operation, (across.compared.own, across.compared.other)
        columns = [chunk.columns[name] for name in names]
        if operation == "=":
            codes = equal_codes([[column] for column in columns])
            return None if codes is None else _Test(across, np.where(codes[0] < 0, -2, codes[0]), codes[1], -2)
        if not all(type_of(column.type).is_integer for column in columns):
            return None
        own, other = (words(column).astype(np.int64) for column in columns)
        if max((abs(int(x)) for values in (own, other) for x in (values.min(initial=0), values.max(initial=0))), default=0) >= 1 << 62:
            return None
        never = _FAR if operation == "<=" else -_FAR
        missing = [null_marks(column).astype(bool) for column in columns]
        return _Test(across, np.where(missing[0], never, own), np.where(missing[1], 1 - never if never > 0 else -1 - never, other), never)


class _Items(NamedTuple):
    """The best matches of a sequence in a group.

    Attributes:
        score: int64 or float64 (items).
        first, last: the first and the last row. int64 (items).
        offsets: item i has the rows from ``offsets[i]`` to before ``offsets[i + 1]``.
        rows, labels: the rows and labels of all items.
        own, other: for each test, the value that the item has for it, None for a test of other sequences. int64 (items).
        complete: whether these are all matches.
    """

    score: np.ndarray
    first: np.ndarray
    last: np.ndarray
    offsets: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    own: tuple[np.ndarray | None, ...]
    other: tuple[np.ndarray | None, ...]
    complete: bool

    def part(self, low: int, high: int, complete: bool) -> _Items:
        """Returns some of the items."""
        at = slice(low, high)
        own, other = (tuple(values if values is None else values[at] for values in some) for some in (self.own, self.other))
        return _Items(self.score[at], self.first[at], self.last[at], self.offsets[low : high + 1], self.rows, self.labels, own, other, complete)


@dataclass
class _Group:
    """A group whose best matches are not final.

    Attributes:
        number: the number of the group.
        streams: the matches read of each sequence.
        depths: how many matches were asked for.
        worst: the k-th best score found so far.
        unread: the sequences that must be read further.
    """

    number: int
    streams: list[_Items]
    depths: list[int]
    worst: float = -np.inf
    unread: tuple[int, ...] = ()


class _SequencePlaces(NamedTuple):
    """The places of all groups, or of one, for the search of one sequence.

    Attributes:
        letters: the variables that each row may be. int64 (places).
        weights: what each row adds to the score. int64 or float64 (variables, places).
        links: the values that conditions between its rows compare.
        backs: the first place of a match that ends at a place. int64 (places), None if no window bounds the sequence.
    """

    letters: np.ndarray
    weights: np.ndarray
    links: Links
    backs: np.ndarray | None

    def part(self, places: slice) -> _SequencePlaces:
        backs = None if self.backs is None else np.maximum(self.backs[places] - places.start, 0)
        return _SequencePlaces(self.letters[places], self.weights[:, places], self.links.part(places), backs)


class TopkSequences(TopkSides):
    """Finds the k best matches by joining those of named sequences. Spark computes their ranks."""

    def form(self) -> Conjoined:
        assert self.ranking.by_sequences is not None
        return self.ranking.by_sequences

    def _joined(self, chunk: Chunk, sliding: Slides | None) -> list[Best] | None:
        """Returns the best matches of each partition, None if all matches are needed to find them."""
        plan, strategy = self.task.plan, self.task.prepared.strategy
        assert strategy.joined is not None
        ends, _ = plan_windows(plan.windows, chunk.columns, chunk.offsets)
        letters = timed(kernel_data(self.task.prepared, chunk).rows.letters, ends[:1])
        weights = self._weights(letters, chunk.columns, chunk.offsets)
        links = [Links.of(found, net, chunk) for found, net in zip(strategy.joined.links, self.sides)]
        tests = [_Test.of(across, chunk) for across in strategy.joined.across]
        if weights is None or None in links or None in tests or (self.floating and self.ranking.terms):
            return None
        self.task.ran.add(STREAMS)
        groups = Unfolded.in_windows(plan, chunk, sliding, letters).having(self.ranking.sequences)
        self.tests, self.ends = [test for test in tests if test is not None], ends[0] if windowed(self.task) and sliding is None else None
        rows, spans = groups.rows, [self.within(chunk, side) for side in range(len(self.sides))]
        self.streams = [
            _SequencePlaces(
                groups.letters if span is None else np.where((span[0] > np.arange(chunk.rows))[rows], groups.letters, 0), own[:, rows], link.part(rows),
                None if span is None else groups.ends(span[1]),
            )
            for span, own, link in zip(spans, weights, links)
            if link is not None
        ]  # fmt: skip
        parts, sizes, windows, pairs = [], [], [], []
        try:
            for number, found in self._of_groups(groups):
                parts += [groups.parts[groups.of[number]]] * len(found)
                windows += [groups.numbers[groups.of[number]]] * len(found)
                sizes += map(len, found)
                pairs += [pair for some in found for pair in some]
        except TooMuchStateError:
            raise self.task.failures.state(int(rows[0]), chunk.columns, LESS) from None
        except _NotJoinedError:
            return None
        flat = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        best = matches_of(np.array(parts, dtype=np.int64), np.array(sizes, dtype=np.int64), flat[:, 1].astype(np.uint8), flat[:, 0])
        return [Best(best, np.array(windows, dtype=groups.numbers.dtype))]

    def _depth(self) -> int:
        return max(self.top, 4)

    def _of_groups(self, groups: Unfolded) -> Iterator[tuple[int, list[list[tuple[int, int]]]]]:
        """Yields the number of each group with the (row, label) pairs of each of its k best matches, in order.

        Raises _NotJoinedError if the matches that may be read do not determine them.
        """
        sides, depth = range(len(self.streams)), self._depth()
        for low in range(0, len(groups.of), AT_ONCE):
            numbers = list(range(low, min(low + AT_ONCE, len(groups.of))))
            read = list(zip(*(self._read_groups(groups, numbers, side, depth) for side in sides)))
            answers, waiting = {}, []
            for number, streams in zip(numbers, read):
                group = _Group(number, list(streams), [depth] * len(streams))
                answers[number] = self._of_group(group)
                waiting += [group] if answers[number] is None else []
            for at in range(0, len(waiting), DEEPER_AT_ONCE):
                some = waiting[at : at + DEEPER_AT_ONCE]
                while some:
                    self._read_deeper(groups, some)
                    answers |= {group.number: self._of_group(group) for group in some}
                    some = [group for group in some if answers[group.number] is None]
            yield from ((number, found) for number, found in sorted(answers.items()) if found)

    def _read_deeper(self, groups: Unfolded, some: list[_Group]) -> None:
        """Reads the unread sequences of some groups further."""
        for side in range(len(self.streams)):
            by_depth: dict[int, list[_Group]] = {}
            for group in (group for group in some if side in group.unread):
                if group.depths[side] > DEEPEST * self.top + SPARE:
                    raise _NotJoinedError
                group.depths[side] *= 4
                by_depth.setdefault(group.depths[side], []).append(group)
            for depth, own in by_depth.items():
                for group, items in zip(own, self._read_groups(groups, [group.number for group in own], side, depth)):
                    group.streams[side] = items

    def _of_group(self, group: _Group) -> list[list[tuple[int, int]]] | None:
        """Returns the (row, label) pairs of each of the k best matches of a group, None if sequences must be read further."""
        streams = group.streams
        if not all(len(items.score) for items in streams):
            return []
        found = _Combinations(self, streams, group.worst)
        found.extend([np.arange(len(streams[0].score))], 1)
        group.worst = found.worst
        tops = [items.score[:1] for items in streams]
        # at most the score of a match with an unread item
        bounds = {
            side: float(self.score_of([items.score[-1:] if i == side else tops[i] for i in range(len(streams))])[0])
            for side, items in enumerate(streams) if not items.complete
        }  # fmt: skip
        group.unread = tuple(side for side, bound in bounds.items() if not found.worst > bound)
        return None if group.unread else self._best(streams, *found.kept())

    def score_of(self, scores: list[np.ndarray]) -> np.ndarray:
        return np.asarray(evaluated(self.score.tree, [own.astype(np.float64) * rising for own, rising in zip(scores, self.rising)], ARRAYS))

    def _read_groups(self, groups: Unfolded, numbers: list[int], side: int, depth: int) -> Iterator[_Items]:
        """Yields the best ``depth`` matches of a sequence in some groups, whose numbers ascend."""
        stream = self.streams[side]
        low, high = groups.offsets[numbers], groups.offsets[np.array(numbers) + 1]
        if stream.links.far.tests or stream.backs is not None:
            yield from (self._read(groups.rows, slice(*bounds), side, depth) for bounds in zip(low.tolist(), high.tolist()))
            return
        batch = np.cumsum((high - low) * depth) // READ_AT_ONCE
        for at in np.split(np.arange(len(numbers)), np.flatnonzero(np.diff(batch)) + 1):
            found = top_matches(
                stream.links.first, stream.links.edges, stream.letters, stream.weights, depth, low[at], high[at],
                heads=np.ones(len(at), dtype=bool), keys=stream.links.keys, max_bytes=self.task.limits.max_state_bytes,
            )
            whole, ends = self._items(groups.rows, 0, side, found, False), np.searchsorted(found.window, np.arange(len(at) + 1)).tolist()
            yield from (whole.part(begin, end, end - begin < depth) for begin, end in zip(ends, ends[1:]))

    def _read(self, rows: np.ndarray, places: slice, side: int, depth: int) -> _Items:
        """Returns the best ``depth`` matches of a sequence in a group."""
        stream = self.streams[side].part(places)
        links, parts = stream.links, []
        for letters in links.far.apart(stream.letters):
            found = top_matches(
                links.first, links.edges, letters, stream.weights, depth, span=stream.backs, keys=links.keys, max_bytes=self.task.limits.max_state_bytes
            )
            parts += [found] if len(found.score) else []
        if not parts:
            none = np.zeros(0, dtype=np.int64)
            return _Items(none, none, none, np.zeros(1, dtype=np.int64), none, none, (none,) * len(self.tests), (none,) * len(self.tests), True)
        found = parts[0] if len(parts) == 1 else united(parts, depth)
        return self._items(rows, places.start, side, found, len(found.score) < depth)

    def _items(self, rows: np.ndarray, base: int, side: int, found: Ranked, complete: bool) -> _Items:
        """Returns matches of a sequence as items. ``base``: the place of their row 0."""
        taken, begin = rows[found.rows + base], found.offsets[:-1]
        labels = self.sides[side].edges[self.streams[side].links.original[found.edges], E_LABEL]
        some = bool(len(begin))
        own = tuple(self._own(test, taken, labels, begin) if some and test.across.sequence == side else None for test in self.tests)
        other = tuple(self._other(test, taken, labels, begin) if some and test.across.other == side else None for test in self.tests)
        return _Items(found.score, taken[begin], taken[found.offsets[1:] - 1], found.offsets, taken, labels, own, other, complete)

    def _own(self, test: _Test, rows: np.ndarray, labels: np.ndarray, begin: np.ndarray) -> np.ndarray:
        """Returns the value that decides the test for all rows with the condition; that of no row fulfils any test."""
        there = labels & 63 == test.across.compared.variable
        values, operation = test.own[rows], test.across.compared.operation
        if operation == "<=":
            return np.maximum.reduceat(np.where(there, values, -_FAR), begin)
        low = np.minimum.reduceat(np.where(there, values, _FAR), begin)
        if operation == ">=":
            return low
        high = np.maximum.reduceat(np.where(there, values, -_FAR), begin)
        return np.where(low == high, low, np.where(low > high, _FAR, test.never))  # _FAR: no such row

    def _other(self, test: _Test, rows: np.ndarray, labels: np.ndarray, begin: np.ndarray) -> np.ndarray:
        """Returns the value of the last row that is read; one that fulfils nothing if there is none."""
        there = labels & 63 == test.across.compared.mask.bit_length() - 1
        last = np.maximum.reduceat(np.where(there, np.arange(len(rows)), -1), begin)
        none = {"=": -1, "<=": 1 - _FAR, ">=": _FAR - 1}[test.across.compared.operation]
        return np.where(last < 0, none, test.other[rows[last]])

    def fitting(self, streams: list[_Items], chosen: list[np.ndarray], side: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns which combinations of the first sequences fit which items of the next one, as indices of both."""
        joined, items = self.task.prepared.strategy.joined, streams[side]
        assert joined is not None
        fits = np.ones((len(chosen[0]), len(items.score)), dtype=bool)
        for a, b in joined.before:
            if b == side and a < side:
                fits &= streams[a].last[chosen[a]][:, None] < items.first[None]
            elif a == side and b < side:
                fits &= streams[b].first[chosen[b]][:, None] > items.last[None]
        for number, test in enumerate(self.tests):
            if max(test.across.sequence, test.across.other) == side:
                fits &= self._passes(number, test, streams, chosen, side)
        return np.nonzero(fits)

    def in_window(self, streams: list[_Items], chosen: list[np.ndarray]) -> list[np.ndarray]:
        """Returns the combinations whose rows lie in one window."""
        if self.ends is None:
            return chosen
        first = np.min([items.first[own] for items, own in zip(streams, chosen)], axis=0)
        last = np.max([items.last[own] for items, own in zip(streams, chosen)], axis=0)
        inside = np.flatnonzero(self.ends[first] > last)
        return [own[inside] for own in chosen]

    def _passes(self, number: int, test: _Test, streams: list[_Items], chosen: list[np.ndarray], side: int) -> np.ndarray:
        """Whether combinations and items of a sequence pass a test. bool (combinations, items)."""
        sequence, other = test.across.sequence, test.across.other
        own, read = streams[sequence].own[number], streams[other].other[number]
        assert own is not None and read is not None
        own = own[None] if sequence == side else own[chosen[sequence]][:, None]
        read = read[None] if other == side else read[chosen[other]][:, None]
        if test.across.compared.operation == "=":
            return (own == read) | (own == _FAR)
        return own <= read if test.across.compared.operation == "<=" else own >= read

    def _best(self, streams: list[_Items], chosen: list[np.ndarray], score: np.ndarray) -> list[list[tuple[int, int]]]:
        """Returns the pairs of the k best combinations. Raises _NotJoinedError if only labels distinguish some of them."""
        if len(score) > self.top:
            kept = np.flatnonzero(score >= -np.sort(-score)[self.top - 1])
            chosen, score = [own[kept] for own in chosen], score[kept]
        joined, ranked = self.task.prepared.strategy.joined, []
        assert joined is not None
        for i, value in enumerate(score.tolist()):
            pairs = []
            for side in joined.written:  # a row that serves several sequences has their labels in the order of PATTERN
                items, own = streams[side], chosen[side]
                at = slice(int(items.offsets[own[i]]), int(items.offsets[own[i] + 1]))
                pairs += zip(items.rows[at].tolist(), items.labels[at].tolist())
            ranked.append((-value, tuple(sorted({row for row, _ in pairs})), sorted(pairs, key=lambda pair: pair[0])))
        ranked.sort(key=lambda found: found[:2])
        del ranked[self.top + 1 :]
        if any(a[:2] == b[:2] for a, b in pairwise(ranked)):
            raise _NotJoinedError
        return [pairs for _, _, pairs in ranked[: self.top]]


class _Combinations:
    """The combinations of items that are matches and may be among the k best.

    Combinations of the first sequences are extended in blocks, those with the highest bounds first. The bound is the score with the
    best items of the other sequences. A combination whose bound is below the k-th best score found so far is dropped.

    Attributes:
        worst: the k-th best score found so far.
    """

    def __init__(self, search: TopkSequences, streams: list[_Items], worst: float) -> None:
        self.search, self.streams, self.worst = search, streams, worst
        self.tops = [items.score[:1] for items in streams]
        self.block, self.tested = FIRST_BLOCK, 0
        self.chosen = [np.zeros(0, dtype=np.int64) for _ in streams]
        self.score = np.zeros(0)

    def kept(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Returns the item of each sequence for each combination, and its score."""
        return self.chosen, self.score

    def extend(self, chosen: list[np.ndarray], side: int) -> None:
        """Adds the matches that extend combinations of the sequences before ``side``.

        Raises _NotJoinedError if there are too many combinations.
        """
        if side == len(self.streams):
            return self._add(self.search.in_window(self.streams, chosen))
        bound = self._bounds(chosen)
        order = np.argsort(-bound, kind="stable")
        at, width = 0, len(self.streams[side].score)
        while at < len(order) and bound[order[at]] >= self.worst:
            rows = order[at : at + max(1, self.block // width)]
            at += len(rows)
            rows = rows[bound[rows] >= self.worst]
            self.tested += len(rows) * width
            if self.tested > MOST_TESTED:
                raise _NotJoinedError
            self.block = min(2 * self.block, LAST_BLOCK)
            some = [own[rows] for own in chosen]
            left, right = self.search.fitting(self.streams, some, side)
            self.extend([*(own[left] for own in some), right], side + 1)

    def _bounds(self, chosen: list[np.ndarray]) -> np.ndarray:
        scores = [items.score[own] for items, own in zip(self.streams, chosen)] + self.tops[len(chosen) :]
        return np.broadcast_to(self.search.score_of(scores), len(chosen[0]))

    def _add(self, chosen: list[np.ndarray]) -> None:
        score = self._bounds(chosen)
        self.chosen = [np.concatenate(both) for both in zip(self.chosen, chosen)]
        self.score = np.concatenate([self.score, score])
        top = self.search.top
        if len(self.score) >= top:
            self.worst = max(self.worst, float(-np.partition(-self.score, top - 1)[top - 1]))
            best = np.flatnonzero(self.score >= self.worst)
            self.chosen, self.score = [own[best] for own in self.chosen], self.score[best]
        if len(self.score) > MOST_PAIRS:
            raise _NotJoinedError
