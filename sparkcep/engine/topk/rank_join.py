"""The rank join that finds the k best matches of a conjunction among the ranked matches of its sides.

This is NRA (no random access; Fagin) as in CPR, section 3.3: items are pulled from their queues in descending order of score, and
an item joins those of the other queues that were pulled before it. No result that is still to be found has a score above ``bound``,
so results above the bound are final. Among equal scores the lexicographically earliest vector of rows comes first (a prefix before
what it begins), then the places in the queues; so a result is final only when it is strictly above the bound.

CPR's waste-avoiding boundary selection (WABS, Figures 3.12 and 3.13) says which queue is pulled next.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from sparkcep.errors import TooManyStepsError


class Item(NamedTuple):
    """A match of one side: ``rows`` in ascending order; ``identity`` is the match's own in its queue."""

    score: float
    rows: tuple[int, ...]
    identity: int


class Joined(NamedTuple):
    """A result. Results are ordered by rank: ``minus`` is the score with its sign changed, then come all rows, then the items."""

    minus: float
    rows: tuple[int, ...]
    identities: tuple

    @property
    def score(self) -> float:
        return -self.minus


class Queue:
    """A ranked stream of items, best first, and those that were pulled from it."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.source: Iterator[Item] = iter(items)
        self.items: list[Item] = []
        self.scores: list[float] = []  # of the items pulled
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
    """The k best results of joining any item of each queue with any of the others.

    ``combine`` makes one score of one score for each queue, and must not fall where one of them rises. ``run`` raises
    TooManyStepsError when more than ``max_steps`` items were joined to others.
    """

    def __init__(self, queues: Sequence[Queue], k: int, combine: Callable[[Sequence[float]], float], max_steps: int = 2**62) -> None:
        self.queues, self.k, self.combine = list(queues), k, combine
        self.steps, self.max_steps = 0, max_steps
        self.results: list[Joined] = []
        self.bound = math.inf
        self.done = False  # nothing is left to be found
        self.final = 0  # results known to be among the best, in order
        self.turn = -1  # the queue that was pulled last when queues took turns
        self.ratio: list[float] | None = None  # how deep the queues should be read, in proportion

    def run(self) -> list[Joined]:
        while self.final < self.k and not self.done:
            self.step()
        return self.results[: self.k]

    @property
    def lower(self) -> float:
        """The score of the k-th result so far."""
        return self.results[self.k - 1].score if len(self.results) >= self.k else -math.inf

    def step(self) -> None:
        """Pulls one item and does what follows from it."""
        h = self._choose()
        item = self.queues[h].pull()
        if item is not None:
            self._take(h, item)
        self.bound = self._bound()
        self._finalise()

    def _take(self, h: int, item: Item) -> None:
        """Adds the results that an item pulled from queue ``h`` makes, and keeps it for those to come."""
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
        lower = self.lower  # what cannot be among the best is not looked at
        scores = [x.score for x in chosen]
        for item in lists[at]:
            self.steps += 1
            if lower > -math.inf and self.combine([*scores, item.score, *tops[at + 1 :]]) < lower:
                break  # and so is what follows
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
        """No result yet to be found has a higher score."""
        queues = self.queues
        if any(q.depth == 0 and not q.exhausted for q in queues):
            return math.inf
        if any(q.exhausted and not q.scores for q in queues):
            return -math.inf
        # at least one item of such a result is yet to be pulled
        tops = self._tops()
        return max((self._corner(tops, h, q.bottom) for h, q in enumerate(queues) if not q.exhausted), default=-math.inf)

    def _corner(self, tops: list[float], h: int, score: float) -> float:
        """The combined score of ``tops`` with ``score`` in the place of queue ``h``."""
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
        """The next of some queues from each of which an item was pulled."""
        # a queue whose own bound is passed adds nothing any more
        tops = self._tops()
        alive = [h for h in alive if self._corner(tops, h, self.queues[h].bottom) >= self.lower] or alive
        ratio = self.ratio
        if ratio is not None:
            return min(alive, key=lambda h: self.queues[h].depth / ratio[h])
        return self._next_in_turn(alive)

    def _tops(self) -> list[float]:
        """The best score of each queue that a result yet to be found may have."""
        return [q.top for q in self.queues]

    def _next_in_turn(self, alive: list[int]) -> int:
        self.turn = next((h for h in alive if h > self.turn), alive[0])
        return self.turn

    def _revise(self) -> None:
        """Finds the boundary at which the result before the last would have been final, among all items pulled by now. Its depths
        are the ratio of the accesses to come."""
        target = self.results[self.final - 2].score
        tops = self._tops()
        depths = [self._depth_for(h, lambda s, h=h: self._corner(tops, h, s), target) for h in range(len(self.queues))]
        self.ratio = [2.0 * q.depth if d is None else max(d, 0.5) for q, d in zip(self.queues, depths)]

    def _depth_for(self, h: int, bound: Callable[[float], float], target: float) -> int | None:
        """The least depth of queue ``h`` at which ``bound`` of its score is at most ``target``; None where it is not read so
        deep."""
        scores = self.queues[h].scores
        if not scores or bound(scores[-1]) > target:
            return None
        deeper = bisect.bisect_left(scores, True, key=lambda score: bound(score) <= target)
        return deeper + 1 if deeper else 0
