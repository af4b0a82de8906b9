"""The top-k merge module of CPR (sections 3.3 and 3.4), on top of the part of it that sparkcep runs
(sparkcep.engine.topk.rank_join).

Here items join only where their keys are equal, in any order of the rows or queue after queue. Beside NRA there is TA (Nepal and
Ramakrishna 1999; Fagin), which looks up what joins an item in the other queues (random access). Beside WABS the queues are pulled
in turn or by their gradient (Guntzer, Balke, Kiessling 2001). Results and items can be kept from window to window.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sparkcep.engine.topk import rank_join
from sparkcep.engine.topk.rank_join import Joined

CONJUNCTION, SEQUENCE = "CONJUNCTION", "SEQUENCE"
TA, NRA = "TA", "NRA"
ROUND_ROBIN, GRADIENT, STATISTICS, WABS = "ROUND_ROBIN", "GRADIENT", "STATISTICS", "WABS"
GRADIENT_SPAN = 5  # accesses over which a queue's fall is measured
WORTH = 0.9  # share of the cost of even depths that another boundary may have
ALTERNATIVES = 24  # depths of a queue that WABS looks at beside those it solves for


class Merge(NamedTuple):
    """A monotone merge function of one score for each queue; ``not_negative``: monotone only where no score is below 0."""

    function: Callable[[Sequence[float]], float]
    not_negative: bool = False


COMBINE = {
    "SUM": Merge(lambda s: _sum(s)),
    "AVG": Merge(lambda s: _sum(s) / len(s)),
    "MIN": Merge(min),
    "MAX": Merge(max),
    "PRODUCT": Merge(math.prod, True),
    "NORM": Merge(lambda s: math.sqrt(_sum([x * x for x in s])), True),  # square root of the sum of squares
}


def _sum(scores: Sequence[float]) -> float:
    """From the left, so that the bits are the same everywhere (``sum`` of Python 3.12 compensates)."""
    total = scores[0]
    for s in scores[1:]:
        total += s
    return total


class Item(NamedTuple):
    """A match of a sub-pattern: ``rows`` in ascending order; ``key``: items join where their keys are equal; ``identity`` of the
    match within its queue, the same in each window."""

    score: float
    key: object
    rows: tuple[int, ...]
    identity: object


def _minus_score(item: Item) -> float:
    return -item.score


class Queue(rank_join.Queue):
    """A ranked stream with the costs of its accesses. ``lookup``: all items with a key in descending order of score, for random
    access."""

    def __init__(
        self,
        items: Iterable[Item],
        lookup: Callable[[object], Sequence[Item]] | None = None,
        sorted_cost: float = 1.0,
        random_cost: float = 1.0,
    ) -> None:
        super().__init__(items)
        self.lookup = lookup
        self.sorted_cost, self.random_cost = sorted_cost, random_cost
        self.by_key: dict[object, list[Item]] = {}
        self.pulled: set = set()
        self.looked_up: dict[object, Sequence[Item]] = {}
        self.sorted_accesses = self.random_accesses = 0
        self.old: dict[object, Item] = {}  # items that an earlier window had pulled, by identity
        self.reused = 0  # those of them that were passed over
        self.spent = 0.0  # on this queue's items: their sorted accesses and the random ones they led to

    @property
    def cost(self) -> float:
        return self.sorted_accesses * self.sorted_cost + self.random_accesses * self.random_cost

    def pull(self) -> Item | None:
        item = super().pull()
        while item is not None and item.identity in self.old:  # costs nothing
            self.reused += 1
            item = super().pull()
        return item

    def remember(self, item: Item) -> None:
        """Items of one key stand in descending order; those of an earlier window may be ahead of the pulls."""
        some = self.by_key.setdefault(item.key, [])
        if not some or some[-1].score >= item.score:
            some.append(item)
        else:
            bisect.insort(some, item, key=_minus_score)

    def find(self, key: object) -> tuple[Sequence[Item], float]:
        """All items with the key, and what that costs; what was looked up once is kept."""
        if key in self.looked_up:
            return self.looked_up[key], 0.0
        if self.lookup is None:
            raise ValueError("TA needs random access to each queue")
        self.random_accesses += 1
        found = self.looked_up[key] = self.lookup(key)
        return found, self.random_cost


class RankJoin(rank_join.RankJoin):
    """The k best results. ``pattern``: CONJUNCTION, or SEQUENCE: each item's rows before those of the next queue's item;
    ``condition``: what else a tuple of items must fulfil. ``unique``: no key occurs twice in a queue, which lets NRA bound each
    item by itself. ``visited``: results of an earlier window that still hold, with ``old``: the items they were made from, by
    queue; ``keep_all``: results beyond the k best, too (see DynamicJoin)."""

    def __init__(
        self,
        queues: Sequence[Queue],
        k: int,
        combine: str = "SUM",
        pattern: str = CONJUNCTION,
        algorithm: str = NRA,
        schedule: str = ROUND_ROBIN,
        condition: Callable[[tuple[Item, ...]], bool] | None = None,
        unique: bool = False,
        visited: list[Joined] | None = None,
        old: Sequence[dict[object, Item]] | None = None,
        keep_all: bool = False,
    ) -> None:
        merge = COMBINE.get(combine)
        if merge is None:
            raise ValueError(f"unknown merge function {combine}")
        if pattern not in (CONJUNCTION, SEQUENCE) or algorithm not in (TA, NRA) or schedule not in (ROUND_ROBIN, GRADIENT, STATISTICS, WABS):
            raise ValueError(f"unknown pattern, algorithm or schedule: {pattern}, {algorithm}, {schedule}")
        super().__init__(queues, k, merge.function)
        self.not_negative = merge.not_negative
        self.pattern, self.algorithm, self.schedule, self.condition, self.unique = pattern, algorithm, schedule, condition, unique
        self.keep_all = keep_all
        self.results = sorted(visited or [])
        for queue, items in zip(self.queues, old or ()):
            queue.old = items
            for item in items.values():
                queue.remember(item)
        self.partial: dict[object, dict[int, float]] = {}  # with ``unique``: scores by queue of keys that some queue lacks
        self.partial_heaps: dict[int, list[tuple[float, object]]] = {}
        self.planned_at = 0  # accesses when the plan by statistics was made

    # -- results -----------------------------------------------------------------------------------------------

    @property
    def cost(self) -> float:
        return sum(q.cost for q in self.queues)

    @property
    def accesses(self) -> int:
        return sum(q.sorted_accesses + q.random_accesses for q in self.queues)

    def _take(self, h: int, item: Item) -> None:
        queue = self.queues[h]
        if item.score < 0 and self.not_negative:
            raise ValueError("this merge function ranks scores that are not negative only")
        queue.sorted_accesses += 1
        queue.spent += queue.sorted_cost
        self._join(h, item)
        if self.algorithm == NRA:
            queue.remember(item)
        if self.algorithm == TA:
            queue.pulled.add(item.identity)
        if self.unique:
            self._note_partial(h, item)

    def _join(self, h: int, item: Item) -> None:
        """Adds the results that ``item`` makes with items of the other queues."""
        lists: list[Sequence[Item]] = []
        for g, queue in enumerate(self.queues):
            if g == h:
                lists.append((item,))
                continue
            if self.algorithm == TA:
                found, cost = queue.find(item.key)
                self.queues[h].spent += cost
                # with an item pulled before, the result was found then
                found = [other for other in found if other.identity not in queue.pulled]
            else:
                found = queue.by_key.get(item.key, ())
            if not found:
                return
            lists.append(found)
        self._extend(lists, (), [some[0].score for some in lists])

    def _extend(self, lists: Sequence[Sequence[Item]], chosen: tuple[Item, ...], tops: list[float]) -> None:
        at = len(chosen)
        if at == len(lists):
            if self.condition is None or self.condition(chosen):
                self._add(chosen)
            return
        # what cannot be among the best is not looked at
        lower = -math.inf if self.keep_all else self.lower
        scores = [x.score for x in chosen]
        for item in lists[at]:
            if lower > -math.inf and self.combine([*scores, item.score, *tops[at + 1 :]]) < lower:
                break  # and so is what follows
            if self.pattern == SEQUENCE and at > 0 and chosen[-1].rows[-1] >= item.rows[0]:
                continue
            self._extend(lists, (*chosen, item), tops)

    def _add(self, items: tuple[Item, ...]) -> None:
        if not self.keep_all:
            super()._add(items)
            return
        rows = tuple(sorted({r for x in items for r in x.rows}))
        bisect.insort(self.results, Joined(-self.combine([x.score for x in items]), rows, tuple(x.identity for x in items)))

    # -- bounds ------------------------------------------------------------------------------------------------

    def _bound(self) -> float:
        queues = self.queues
        if not any(q.depth == 0 and not q.exhausted for q in queues):
            if self.algorithm == TA:  # all its items are yet to be pulled
                return -math.inf if any(q.exhausted for q in queues) else self.combine([q.bottom for q in queues])
            if self.unique:
                return self._bound_of_partials()
        return super()._bound()

    def _note_partial(self, h: int, item: Item) -> None:
        scores = self.partial.setdefault(item.key, {})
        scores[h] = item.score
        if len(scores) == len(self.queues):
            del self.partial[item.key]
            return
        # all merge functions order partial results as they order the wholes
        mask = sum(1 << g for g in scores)
        heapq.heappush(self.partial_heaps.setdefault(mask, []), (-self.combine([scores[g] for g in sorted(scores)]), item.key))

    def _bound_of_partials(self) -> float:
        """Fagin's upper bounds: of an item seen in some queues its scores there and the others' bottoms; of one never seen, all
        bottoms."""
        queues = self.queues
        bounds = [-math.inf if any(q.exhausted for q in queues) else self.combine([q.bottom for q in queues])]
        for mask, heap in self.partial_heaps.items():
            missing = [g for g in range(len(queues)) if not mask >> g & 1]
            if any(queues[g].exhausted for g in missing):
                continue
            while heap and sum(1 << g for g in self.partial.get(heap[0][1], ())) != mask:
                heapq.heappop(heap)
            if heap:
                scores = self.partial[heap[0][1]]
                bounds.append(self.combine([scores.get(g, q.bottom) for g, q in enumerate(queues)]))
        return max(bounds)

    # -- schedules ---------------------------------------------------------------------------------------------

    def _scheduled(self, alive: list[int]) -> int:
        if self.schedule == GRADIENT:
            falls = [self._fall(h) for h in alive]
            if max(falls) > 0:
                return alive[falls.index(max(falls))]
        if self.schedule == STATISTICS:
            return self._by_statistics(alive)
        if self.schedule != WABS:
            return self._next_in_turn(alive)
        if self.algorithm == NRA:
            return super()._scheduled(alive)
        # with TA a queue that cannot lower the bound adds nothing any more
        bottoms = [q.bottom for q in self.queues]
        alive = [h for h in alive if self._corner(bottoms, h, self._lowest()) < self.bound] or alive
        picked = [h for h in alive if self.ratio is not None and self.ratio[h] > 0]
        if picked and self._reachable(picked):
            return min(picked, key=lambda h: self.queues[h].depth / self.ratio[h])
        return self._next_in_turn(alive)

    def _by_statistics(self, alive: list[int]) -> int:
        """A plan from what was seen so far (Hwang and Chang, TKDE 2007; the thesis collects statistics likewise): the cheapest
        depths at which, would scores go on to fall as they did, the bound meets the k-th score, would results go on to come as they
        did. It is made anew when accesses have doubled."""
        depth = sum(q.depth for q in self.queues)
        if depth >= 2 * max(self.planned_at, self.k, 2 * len(self.queues)):
            self.planned_at = depth
            self.ratio = self._plan()
        picked = [h for h in alive if self.ratio is not None and self.ratio[h] > 0]
        if picked and (self.algorithm == NRA or self._reachable(picked)):
            return min(picked, key=lambda h: self.queues[h].depth / self.ratio[h])
        return self._next_in_turn(alive)

    def _plan(self) -> list[float] | None:
        """The depths; None where too little was seen."""
        queues, found = self.queues, [r.score for r in self.results[: self.k]]
        if len(found) < 2 or any(q.depth < 2 for q in queues):
            return None
        target = found[-1] if len(found) == self.k else found[0] - (found[0] - found[-1]) * self.k / len(found)
        falls = [(q.top - q.bottom) / (q.depth - 1) for q in queues]
        prices = [q.spent / max(q.depth, 1) for q in queues]
        tops, lowest = [q.top for q in queues], self._lowest()

        def least(h: int, others: list[float]) -> float:
            """The depth at which one queue alone brings the bound down to the target."""
            low, high = 0.0, float(1 << 24)
            if self.combine([*others[:h], max(tops[h] - falls[h] * high, lowest), *others[h + 1 :]]) > target:
                return math.inf
            while high - low > 1:
                middle = (low + high) / 2
                low, high = (middle, high) if self.combine([*others[:h], max(tops[h] - falls[h] * middle, lowest), *others[h + 1 :]]) > target else (low, middle)
            return high

        if self.algorithm == NRA:  # each queue by itself, beside the tops of the others
            depths = [least(h, tops) for h in range(len(queues))]
            return [d if d < math.inf else 1.0 for d in depths]
        cheapest, best, last = math.inf, None, len(queues) - 1
        for some in self._multiples(queues[:last]):
            others = [*(max(top - fall * d, lowest) for top, fall, d in zip(tops, falls, some)), tops[last]]
            depths = [*some, least(last, others)]
            cost = sum(p * d for p, d in zip(prices, depths))
            if cost < cheapest:
                cheapest, best = cost, depths
        return best

    def _multiples(self, queues: Sequence[Queue]) -> Iterator[tuple[float, ...]]:
        if not queues:
            yield ()
            return
        for rest in self._multiples(queues[1:]):
            yield (0.0, *rest)
            for exponent in range(-4, 12):
                yield (queues[0].depth * 2.0 ** (exponent / 2), *rest)

    def _lowest(self) -> float:
        """No score of a queue is lower."""
        return 0.0 if self.not_negative else -math.inf

    def _reachable(self, picked: list[int]) -> bool:
        """Whether reading some queues only can make TA's bound low enough for the next result known."""
        target = self.results[self.final].score if self.final < len(self.results) else -math.inf
        return self.combine([self._lowest() if h in picked else q.bottom for h, q in enumerate(self.queues)]) <= target

    def _fall(self, h: int) -> float:
        """How much the combined score of the bottoms fell by the queue's last accesses."""
        bottoms = [q.bottom for q in self.queues]
        return self._corner(bottoms, h, self.queues[h].scores[-GRADIENT_SPAN:][0]) - self.combine(bottoms)

    def _tops(self) -> list[float]:
        if not self.unique:
            return super()._tops()
        tops = [q.bottom for q in self.queues]
        for heap_mask, heap in self.partial_heaps.items():
            if heap and heap[0][1] in self.partial:
                for g, s in self.partial[heap[0][1]].items():
                    if heap_mask >> g & 1:
                        tops[g] = max(tops[g], s)
        return tops

    def _revise(self) -> None:
        if self.schedule == WABS and self.algorithm == NRA:
            super()._revise()
        elif self.schedule == WABS:
            self._revise_with_random_access()

    def _revise_with_random_access(self) -> None:
        target = self.results[self.final - 2].score
        queues = self.queues
        prices = [q.spent / max(q.depth, 1) for q in queues]
        last = len(queues) - 1
        even = self._depth_for_all(target)
        # a boundary hardly cheaper than that of even depths is not worth the way to it
        cheapest, depths = (WORTH * sum(prices) * even, None) if even else (math.inf, None)
        for picked in self._alternatives(queues[:last]):
            scores = [q.scores[max(d - 1, 0)] for q, d in zip(queues, picked)]
            d = self._depth_for(last, lambda s, scores=scores: self.combine([*scores, s]), target)
            if d is None:
                continue
            cost = sum(p * x for p, x in zip(prices, (*picked, d)))
            if cost < cheapest:
                cheapest, depths = cost, (*picked, d)
        if depths is not None and any(depths):
            self.ratio = [float(d) for d in depths]
        else:
            self.ratio = None

    def _depth_for_all(self, target: float) -> int | None:
        """The least depth of all queues together at which TA's bound is at most ``target``."""
        scores = [q.scores for q in self.queues]
        depth = min(map(len, scores))
        if self.combine([s[depth - 1] for s in scores]) > target:
            return None
        return 1 + bisect.bisect_left(range(depth), True, key=lambda d: self.combine([s[d] for s in scores]) <= target)

    def _alternatives(self, queues: Sequence[Queue]) -> Iterator[tuple[int, ...]]:
        if not queues:
            yield ()
            return
        depth = queues[0].depth
        for d in sorted({round(depth * i / ALTERNATIVES) for i in range(ALTERNATIVES + 1)}):
            for rest in self._alternatives(queues[1:]):
                yield (d, *rest)


def disjunction(queues: Sequence[Queue], k: int) -> list[Joined]:
    """The k best items of any queue: pulled as needed, one ahead in each."""
    heads: list[tuple[Joined, int]] = []

    def pull(h: int) -> None:
        item = queues[h].pull()
        if item is not None:
            heapq.heappush(heads, (Joined(-item.score, item.rows, (h, item.identity)), h))

    for h in range(len(queues)):
        pull(h)
    results: list[Joined] = []
    while heads and (len(results) < k or heads[0][0].minus == results[-1].minus):
        result, h = heapq.heappop(heads)
        results.append(result)
        pull(h)
    return sorted(results)[:k]


class DynamicJoin:
    """dTMM (Figure 3.19): results and items of one window serve the next. An item that was pulled before makes no results again:
    with items as old as itself they are among those visited, with a new one they are made when that is pulled.

    For that all results of the items pulled are kept, while a window joined by itself needs k of them. So windows share only while
    at least ``worth`` of the items pulled for the last one are still valid (0: always, as in the thesis).
    """

    def __init__(
        self,
        k: int,
        combine: str = "SUM",
        pattern: str = CONJUNCTION,
        schedule: str = WABS,
        condition: Callable[[tuple[Item, ...]], bool] | None = None,
        worth: float = 0.6,
    ) -> None:
        self.options = {"k": k, "combine": combine, "pattern": pattern, "schedule": schedule, "condition": condition}
        self.worth = worth
        self.reused = 0  # windows that used the one before
        self.join: RankJoin | None = None

    def move(self, queues: Sequence[Queue], low: int) -> list[Joined]:
        """The k best results of the window that begins at row ``low``; ``queues``: the window's ranked streams. Windows come in
        ascending order."""
        last = self.join
        if last is None:
            self.join = RankJoin(queues, **self.options, keep_all=True)
            return self.join.run()
        pulled = [item for queue in last.queues for some in queue.by_key.values() for item in some]
        sharing = sum(item.rows[0] >= low for item in pulled) >= self.worth * len(pulled)
        if sharing and last.keep_all:
            self.reused += 1
            visited = [result for result in last.results if result.rows[0] >= low]
            old = [{x.identity: x for some in queue.by_key.values() for x in some if x.rows[0] >= low} for queue in last.queues]
            self.join = RankJoin(queues, **self.options, visited=visited, old=old, keep_all=True)
        else:
            self.join = RankJoin(queues, **self.options, keep_all=sharing)
        return self.join.run()


def event_queue(
    rows: np.ndarray, scores: np.ndarray, keys: np.ndarray | None = None, low: int = 0, high: int | None = None
) -> Queue:
    """The events of one class as a queue: ``rows`` int64 ascending, ``scores`` float64 and ``keys`` of the same length; those in
    rows low..high-1."""
    rows, scores = np.asarray(rows), np.asarray(scores, dtype=np.float64)
    inside = np.flatnonzero((rows >= low) & (rows < (high if high is not None else np.iinfo(np.int64).max)))
    inside = inside[np.argsort(-scores[inside], kind="stable")]
    names = [None] * len(inside) if keys is None else np.asarray(keys)[inside].tolist()
    return Queue(Item(s, key, (r,), r) for s, key, r in zip(scores[inside].tolist(), names, rows[inside].tolist()))


def top_sequences(
    classes: Sequence[tuple[np.ndarray, np.ndarray]],
    k: int,
    combine: str,
    keys: Sequence[np.ndarray] | None = None,
    schedule: str = ROUND_ROBIN,
    low: int = 0,
    high: int | None = None,
) -> list[Joined]:
    """Nonlinear Preference Sequence Ranking (section 3.2): the k best sequences of one event of each class, (rows, scores) of
    ``classes`` in order, by a rank join over their queues."""
    queues = [event_queue(rows, scores, None if keys is None else keys[i], low, high) for i, (rows, scores) in enumerate(classes)]
    return RankJoin(queues, k, combine, SEQUENCE, NRA, schedule).run()


class DynamicSequences:
    """The same for sliding windows (Figures 3.9, 3.17 and 3.18, iNNLPS): events seen in an earlier window are joined with new ones
    only."""

    def __init__(
        self,
        classes: Sequence[tuple[np.ndarray, np.ndarray]],
        k: int,
        combine: str,
        keys: Sequence[np.ndarray] | None = None,
        schedule: str = ROUND_ROBIN,
    ) -> None:
        self.classes, self.keys = classes, keys
        self.dynamic = DynamicJoin(k, combine, SEQUENCE, schedule)

    def move(self, low: int, high: int) -> list[Joined]:
        queues = [
            event_queue(rows, scores, None if self.keys is None else self.keys[i], low, high)
            for i, (rows, scores) in enumerate(self.classes)
        ]
        return self.dynamic.move(queues, low)
