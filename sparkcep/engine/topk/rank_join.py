"""Rank join: finds the k best matches of a conjunction among the ranked matches of its sides.

This is NRA (no random access; Fagin) as in CPR, section 3.3. Items are pulled from their queues in descending order of score. A
pulled item joins the items of the other queues that were pulled before it. Results not found yet have at most the score ``bound``,
so results above the bound are final. Ties go to the lexicographically earliest row vector (a prefix comes before its extensions),
then to the places in the queues. So a result is final only if it is strictly above the bound.

CPR's waste-avoiding boundary selection (WABS, Figures 3.12 and 3.13) chooses the queue that is pulled next.

Example: k is 1, and the score is the sum. Queue A has 9 and 3, queue B has 5 and 4. The first items of A and B make the result 14.
The bound is also 14, because the next item of B may be a second 5. Pulling 3 from A does not change that. After 4 is pulled from B,
the bound is 9 + 4, and the result 14 is final.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from sparkcep.errors import TooManyStepsError


class Item(NamedTuple):
    """A match of one side.

    Attributes:
        score: its score.
        rows: its rows in ascending order.
        identity: identifies the match in its queue.
    """

    score: float
    rows: tuple[int, ...]
    identity: int


class Joined(NamedTuple):
    """A result. The order of the tuples is the rank.

    Attributes:
        minus: the negated score.
        rows: all rows.
        identities: the identity of each side's item.
    """

    minus: float
    rows: tuple[int, ...]
    identities: tuple

    @property
    def score(self) -> float:
        return -self.minus


class Queue:
    """A ranked stream of items, best first, and the items pulled from it so far."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.source: Iterator[Item] = iter(items)
        self.items: list[Item] = []
        self.scores: list[float] = []  # scores of the pulled items
        self.exhausted = False

    @property
    def top(self) -> float:
        return self.scores[0] if self.scores else math.inf

    @property
    def bottom(self) -> float:
        return self.scores[-1] if self.scores else math.inf

    @property
    def depth(self) -> int:
        return len(self.scores)

    def pull(self) -> Item | None:
        item = next(self.source, None)
        if item is None:
            self.exhausted = True
            return None
        if not item.score <= self.bottom:
            raise ValueError(f"a queue must descend, and no score may be missing: {item.score} after {self.bottom}")
        self.scores.append(item.score)
        return item


class RankJoin:
    """The k best results of joining any item of each queue with any items of the others.

    ``combine`` makes one score from one score of each queue. It must be monotone: a higher score never makes it lower. ``run``
    raises TooManyStepsError if more than ``max_steps`` items were joined to others.
    """

    def __init__(self, queues: Sequence[Queue], k: int, combine: Callable[[Sequence[float]], float], max_steps: int = 2**62) -> None:
        self.queues, self.k, self.combine = list(queues), k, combine
        self.steps, self.max_steps = 0, max_steps
        self.results: list[Joined] = []
        self.bound = math.inf
        self.done = False  # no further result can be found
        self.final = 0  # how many of the first results are final
        self.turn = -1  # the queue that was pulled last when queues took turns
        self.ratio: list[float] | None = None  # the relative depths to which the queues should be read

    def run(self) -> list[Joined]:
        while self.final < self.k and not self.done:
            self.step()
        return self.results[: self.k]

    @property
    def lower(self) -> float:
        """The score of the k-th result so far."""
        return self.results[self.k - 1].score if len(self.results) >= self.k else -math.inf

    def step(self) -> None:
        """Pulls one item, joins it and updates the bound."""
        h = self._choose()
        item = self.queues[h].pull()
        if item is not None:
            self._take(h, item)
        self.bound = self._bound()
        self._finalise()

    def _take(self, h: int, item: Item) -> None:
        """Adds the results that an item pulled from queue ``h`` makes, and keeps the item for later ones."""
        lists = [[item] if g == h else queue.items for g, queue in enumerate(self.queues)]
        if all(lists):
            self._extend(lists, (), [some[0].score for some in lists])
        self.queues[h].items.append(item)

    def _extend(self, lists: Sequence[Sequence[Item]], chosen: tuple[Item, ...], tops: list[float]) -> None:
        """Adds each result that begins with the items ``chosen``. ``tops`` are the best scores of ``lists``."""
        at = len(chosen)
        if at == len(lists):
            self._add(chosen)
            return
        lower = self.lower  # results below it cannot be among the best
        scores = [x.score for x in chosen]
        for item in lists[at]:
            self.steps += 1
            if lower > -math.inf and self.combine([*scores, item.score, *tops[at + 1 :]]) < lower:
                break  # later items are not better
            self._extend(lists, (*chosen, item), tops)
        if self.steps > self.max_steps:
            raise TooManyStepsError(0)

    def _add(self, items: tuple[Item, ...]) -> None:
        score = self.combine([x.score for x in items])
        if score < self.lower:
            return
        rows = tuple(sorted({r for x in items for r in x.rows}))
        bisect.insort(self.results, Joined(-score, rows, tuple(x.identity for x in items)))
        del self.results[self.k :]

    # -- bounds ------------------------------------------------------------------------------------------------

    def _bound(self) -> float:
        """Returns the highest score that a result not found yet may have."""
        queues = self.queues
        if any(q.depth == 0 and not q.exhausted for q in queues):
            return math.inf
        if any(q.exhausted and not q.scores for q in queues):
            return -math.inf
        # at least one item of such a result was not pulled yet
        tops = self._tops()
        return max((self._corner(tops, h, q.bottom) for h, q in enumerate(queues) if not q.exhausted), default=-math.inf)

    def _corner(self, tops: list[float], h: int, score: float) -> float:
        """Returns the combined score of ``tops``, with ``score`` instead of the top of queue ``h``."""
        return self.combine([score if g == h else top for g, top in enumerate(tops)])

    def _finalise(self) -> None:
        self.done = self.bound == -math.inf
        before = self.final
        limit = min(self.k, len(self.results))
        while self.final < limit and (self.done or self.results[self.final].score > self.bound):
            self.final += 1
        if self.final > before and self.final >= 2:
            self._revise()

    # -- which queue is next -----------------------------------------------------------------------------------

    def _choose(self) -> int:
        alive = [h for h, q in enumerate(self.queues) if not q.exhausted]
        for h in alive:
            if self.queues[h].depth == 0:
                return h
        if len(alive) == 1:
            return alive[0]
        return self._scheduled(alive)

    def _scheduled(self, alive: list[int]) -> int:
        """Returns the next queue to pull, if an item was pulled from each queue."""
        # a queue with a bound below the k-th result adds nothing
        tops = self._tops()
        alive = [h for h in alive if self._corner(tops, h, self.queues[h].bottom) >= self.lower] or alive
        ratio = self.ratio
        if ratio is not None:
            return min(alive, key=lambda h: self.queues[h].depth / ratio[h])
        return self._next_in_turn(alive)

    def _tops(self) -> list[float]:
        """Returns the best score of each queue."""
        return [q.top for q in self.queues]

    def _next_in_turn(self, alive: list[int]) -> int:
        self.turn = next((h for h in alive if h > self.turn), alive[0])
        return self.turn

    def _revise(self) -> None:
        """Sets the ratio of further accesses.

        Finds the boundary that would have made the result before the last one final, among all items pulled so far. The ratio
        is that of the boundary's depths.
        """
        target = self.results[self.final - 2].score
        tops = self._tops()
        depths = [self._depth_for(h, lambda s, h=h: self._corner(tops, h, s), target) for h in range(len(self.queues))]
        self.ratio = [2.0 * q.depth if d is None else max(d, 0.5) for q, d in zip(self.queues, depths)]

    def _depth_for(self, h: int, bound: Callable[[float], float], target: float) -> int | None:
        """Returns the least depth of queue ``h`` where ``bound`` of its score is at most ``target``.

        None if it was not read so deep.
        """
        scores = self.queues[h].scores
        if not scores or bound(scores[-1]) > target:
            return None
        deeper = bisect.bisect_left(scores, True, key=lambda score: bound(score) <= target)
        return deeper + 1 if deeper else 0
