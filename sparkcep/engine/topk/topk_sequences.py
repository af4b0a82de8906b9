"""TOP k over named sequences: a rank join over the ranked matches of each sequence (CPR, sections 3.3 and 3.4).

The matches of a sequence are k best paths, best first. In each partition or sliding window the best matches of all sequences are
joined: they must come in order and fulfil the conditions across sequences. A match with an unread item has at most the score of
that item with the best items of the other sequences (the corner bound). If the k-th result is not strictly better, more is read.

Windows may have few matches, so no Python code runs for a single window: the items of all windows are read in one call for each
sequence, and joined in one call.

Example: k is 1, the score is the sum. S1 has matches with 9, 5 and 4, S2 has 7 and 6, and 9 and 7 do not agree. With two items of
each the best result is 9 + 6 = 15. A match with an unread item of S1 has at most 5 + 7 and one of S2 at most 9 + 6, which is not
less. So a third item of S2 is asked for. There is none, and 15 is final.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sparkcep.columns.arrays import equal_codes, null_marks, ranges, words
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
from sparkcep.engine.topk.k_best_paths import Ranked, top_matches, united
from sparkcep.engine.topk.sequence_join import JoinedMatches, JoinResult, NotJoinedError, SequenceItems, SequenceJoin
from sparkcep.engine.topk.topk_paths import Links, timed
from sparkcep.engine.topk.topk_sides import TopkSides
from sparkcep.engine.topk.unfolded import Best, Unfolded
from sparkcep.errors import TooMuchStateError
from sparkcep.plan.records import Conjoined

DEEPEST, SPARE = 64, 1000  # a sequence is read up to so many times k, and so many more
FIRST_DEPTH, DEEPER = 4, 4  # Items of a sequence that are read at first, at least, and how many times as many are read next.
AT_ONCE, DEEPER_AT_ONCE = 4096, 64  # Groups whose matches are held, in the first reading and in further ones.
READ_AT_ONCE = 1 << 23  # Rows times matches of the groups that are read together.
_FAR = np.iinfo(np.int64).max


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


class _SequencePlaces(NamedTuple):
    """The places of a sequence's rows in all groups, or in some.

    Attributes:
        rows: the row of each place. int64 (places).
        letters: the variables that each row may be. int64 (places).
        weights: what each row adds to the score. int64 or float64 (variables, places).
        links: the values that conditions between its rows compare.
        backs: the first place of a match that ends at a place. int64 (places), None if no window bounds the sequence.
    """

    rows: np.ndarray
    letters: np.ndarray
    weights: np.ndarray
    links: Links
    backs: np.ndarray | None

    @staticmethod
    def of(groups: Unfolded, weights: np.ndarray, links: Links, within: tuple[np.ndarray, np.ndarray] | None) -> _SequencePlaces:
        """``groups``: its rows. The other arguments have an entry for each row of the chunk."""
        letters, rows, backs = groups.letters, groups.rows, None
        if within is not None:
            letters, backs = np.where(within[0][rows] > rows, letters, 0), groups.ends(within[1])
        return _SequencePlaces(rows, letters, weights[:, rows], links.part(rows), backs)

    def part(self, places: slice) -> _SequencePlaces:
        """Returns some consecutive places."""
        backs = None if self.backs is None else np.maximum(self.backs[places] - places.start, 0)
        return self.chosen(places)._replace(backs=backs)

    def chosen(self, places: slice | np.ndarray) -> _SequencePlaces:
        """Returns some places, without windows."""
        return _SequencePlaces(self.rows[places], self.letters[places], self.weights[:, places], self.links.part(places), None)


class TopkSequences(TopkSides):
    """Finds the k best matches by joining those of named sequences. Spark computes their ranks."""

    def form(self) -> Conjoined:
        assert self.ranking.by_sequences is not None
        return self.ranking.by_sequences

    def best(self, chunk: Chunk, sliding: Slides | None) -> list[Best] | None:
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
        self.tests = [test for test in tests if test is not None]
        self.join = SequenceJoin(
            self.score.tree, self.top, strategy.joined.before, [(a.sequence, a.other, a.compared.operation) for a in strategy.joined.across], _FAR,
            ends[0] if windowed(self.task) and sliding is None else None, strategy.joined.written,
        )  # fmt: skip
        self.groups = [groups.of_variables(mask) for mask in self.ranking.sequences]
        self.streams = [
            _SequencePlaces.of(own, of_rows, link, self.within(chunk, side))
            for side, (own, of_rows, link) in enumerate(zip(self.groups, weights, links))
            if link is not None
        ]  # fmt: skip
        try:
            found = JoinedMatches.in_order(list(self._of_groups(len(groups.of))))
        except TooMuchStateError as error:
            raise self.task.failures.state(int(groups.rows[groups.offsets[error.args[0]]]), chunk.columns, LESS) from None
        except (NotJoinedError, OverflowError):
            return None  # the matches that may be read do not determine the best, or their sums are too large
        of = groups.of[found.group]
        return [Best(matches_of(groups.parts[of], found.size, found.labels.astype(np.uint8), found.rows), groups.numbers[of])]

    def _of_groups(self, count: int) -> Iterator[JoinedMatches]:
        """Yields the k best matches of some groups at a time.

        Raises NotJoinedError if the matches that may be read do not determine them.
        """
        for low in range(0, max(count, 1), AT_ONCE):
            numbers = np.arange(low, min(low + AT_ONCE, count))
            depths, worst = np.full((len(numbers), len(self.streams)), max(self.top, FIRST_DEPTH)), np.full(len(numbers), -np.inf)
            found, worst, unread = self._joined_items(numbers, depths, worst)
            yield found
            waiting = np.flatnonzero(unread)
            for at in range(0, len(waiting), DEEPER_AT_ONCE):
                some = waiting[at : at + DEEPER_AT_ONCE]
                yield from self._deeper(numbers[some], depths[some], worst[some], unread[some])

    def _deeper(self, numbers: np.ndarray, depths: np.ndarray, worst: np.ndarray, unread: np.ndarray) -> Iterator[JoinedMatches]:
        """Yields the k best matches of groups, after reading more items of the sequences in ``unread``.

        ``depths``: how many items of each sequence were read. int64 (groups, sequences).
        """
        while len(numbers):
            further = unread[:, None] >> np.arange(depths.shape[1]) & 1 == 1
            if (depths[further] > DEEPEST * self.top + SPARE).any():
                raise NotJoinedError
            depths = np.where(further, DEEPER * depths, depths)
            found, worst, unread = self._joined_items(numbers, depths, worst)
            yield found
            left = unread != 0
            numbers, depths, worst, unread = numbers[left], depths[left], worst[left], unread[left]

    def _joined_items(self, numbers: np.ndarray, depths: np.ndarray, worst: np.ndarray) -> JoinResult:
        """Joins the best items of each sequence in the groups ``numbers``, which ascend."""
        read = [self._read(numbers, side, depths[:, side]) for side in range(len(self.streams))]
        joined = self.join.of(read, worst)
        return joined._replace(found=joined.found._replace(group=numbers[joined.found.group]))

    def _read(self, numbers: np.ndarray, side: int, depths: np.ndarray) -> SequenceItems:
        """Returns the best ``depths`` (groups) matches of a sequence in some groups."""
        low, high, parts, items = np.zeros(len(numbers), dtype=np.int64), np.zeros(len(numbers), dtype=np.int64), [], 0
        for depth in np.unique(depths).tolist():
            for at, found in self._ranked(numbers, np.flatnonzero(depths == depth), side, depth):
                ends = items + np.searchsorted(found.window, np.arange(len(at) + 1))
                low[at], high[at] = ends[:-1], ends[1:]
                items += len(found.score)
                parts.append(found)
        return self._items(side, parts, low, high, high - low < depths)

    def _ranked(self, numbers: np.ndarray, asked: np.ndarray, side: int, depth: int) -> Iterator[tuple[np.ndarray, Ranked]]:
        """Yields the best ``depth`` matches of a sequence in the groups ``numbers[asked]``, for some of these at a time.

        The windows of the matches are counted among the groups of the time. Their rows are places. Raises TooMuchStateError with
        the number of the group that needs too much.
        """
        stream, offsets = self.streams[side], self.groups[side].offsets
        low, sizes = offsets[numbers], offsets[numbers + 1] - offsets[numbers]
        if stream.links.far.tests or stream.backs is not None:
            for i in asked.tolist():
                try:
                    found = self._ranked_alone(stream.part(slice(int(low[i]), int(low[i] + sizes[i]))), depth)
                except TooMuchStateError:
                    raise TooMuchStateError(int(numbers[i])) from None
                if found is not None:
                    yield np.array([i]), replace(found, rows=found.rows + low[i])
            return
        batch = np.cumsum(sizes[asked] * depth) // READ_AT_ONCE
        for at in np.split(asked, np.flatnonzero(np.diff(batch)) + 1):
            places, ends = ranges(low[at], sizes[at]), np.cumsum(sizes[at])
            own = stream.chosen(slice(int(places[0]), int(places[-1]) + 1) if len(places) and places[-1] - places[0] == len(places) - 1 else places)
            try:
                found = top_matches(
                    own.links.first, own.links.edges, own.letters, own.weights, depth, ends - sizes[at], ends, heads=np.ones(len(at), dtype=bool),
                    keys=own.links.keys, max_bytes=self.task.limits.max_state_bytes,
                )
            except TooMuchStateError:
                if len(at) == 1:
                    raise TooMuchStateError(int(numbers[at[0]])) from None
                for half in np.array_split(at, 2):  # each may need less than the limit
                    yield from self._ranked(numbers, half, side, depth)
                continue
            yield at, replace(found, rows=places[found.rows])

    def _ranked_alone(self, stream: _SequencePlaces, depth: int) -> Ranked | None:
        """Returns the best ``depth`` matches of a sequence in a group, None if no rows agree."""
        links = stream.links
        parts = [
            top_matches(
                links.first, links.edges, letters, stream.weights, depth, span=stream.backs, keys=links.keys, max_bytes=self.task.limits.max_state_bytes
            )
            for letters in links.far.apart(stream.letters)
        ]
        return united(parts, depth) if len(parts) > 1 else parts[0] if parts else None

    def _items(self, side: int, parts: list[Ranked], low: np.ndarray, high: np.ndarray, complete: np.ndarray) -> SequenceItems:
        """Returns matches of a sequence as items."""
        none = np.zeros(0, dtype=np.int64)
        score, taken, edges, sizes = (np.concatenate([none, *some]) for some in zip(*((p.score, p.rows, p.edges, np.diff(p.offsets)) for p in parts))) if parts else (none,) * 4
        offsets, taken = np.concatenate([[0], np.cumsum(sizes)]), self.streams[side].rows[taken]
        labels = self.sides[side].edges[self.streams[side].links.original[edges], E_LABEL]
        own, other = np.zeros((2, len(self.tests), len(score)), dtype=np.int64)
        for i, test in enumerate(self.tests if len(score) else ()):
            if test.across.sequence == side:
                own[i] = self._own(test, taken, labels, offsets[:-1])
            if test.across.other == side:
                other[i] = self._other(test, taken, labels, offsets[:-1])
        return SequenceItems(low, high, complete, score.astype(np.float64) * self.rising[side], offsets, taken, labels, own, other)

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
