"""Rank joins against all combinations sorted: every algorithm, schedule, merge function and pattern; bounds hold at every step."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from sparkcep.engine.topk import rank_join
from sparkcep.errors import TooManyStepsError
from tests.oracle import ranking as oracle
from tests.thesis import rank_join as rj

SCHEDULES = (rj.ROUND_ROBIN, rj.GRADIENT, rj.STATISTICS, rj.WABS)


def items_of(
    rng: random.Random, count: int, keys: int, span: tuple[int, int], tied: bool, unique: bool = False, negative: bool = False
) -> list[rj.Item]:
    names = rng.sample(range(max(keys, count)), count) if unique else [rng.randrange(keys) for _ in range(count)]
    items = []
    for i in range(count):
        score = float(rng.randint(0, 4)) if tied else rng.random()
        rows = tuple(sorted(rng.sample(range(*span), rng.randint(1, 3))))
        items.append(rj.Item(score - (2 if negative else 0), names[i], rows, (rows, i)))
    return sorted(items, key=lambda item: (-item.score, item.rows))


def queue_of(items: list[rj.Item], **costs) -> rj.Queue:
    by_key: dict = {}
    for item in items:
        by_key.setdefault(item.key, []).append(item)
    return rj.Queue(items, lambda key: by_key.get(key, ()), **costs)


def expected(queues: list[list[rj.Item]], k: int, combine: str, pattern: str, condition=None) -> list[tuple]:
    def accepts(places: tuple[int, ...]) -> bool:
        items = tuple(q[p] for q, p in zip(queues, places))
        ordered = all(a.rows[-1] < b.rows[0] for a, b in itertools.pairwise(items))
        return (pattern != rj.SEQUENCE or ordered) and (condition is None or condition(items))

    everything = oracle.joined([[(x.score, x.key) for x in q] for q in queues], 10**9, rj.COMBINE[combine].function, accepts)
    full = []
    for score, places in everything:
        items = [q[p] for q, p in zip(queues, places)]
        full.append((-score, tuple(sorted({r for x in items for r in x.rows})), tuple(x.identity for x in items)))
    return sorted(full)[:k]


def plain(found: list[rj.Joined]) -> list[tuple]:
    return [(r.minus, r.rows, r.identities) for r in found]


@pytest.mark.parametrize("algorithm", [rj.TA, rj.NRA])
def test_joins(algorithm):
    rng = random.Random(8000)
    for _ in range(300):
        count = rng.choice([2, 2, 3])
        pattern = rng.choice([rj.CONJUNCTION, rj.SEQUENCE])
        combine = rng.choice(list(rj.COMBINE))
        tied, unique = rng.random() < 0.5, rng.random() < 0.4
        negative = not rj.COMBINE[combine].not_negative and rng.random() < 0.3
        keys = rng.choice([1, 2, 4, 12])
        lists = [
            items_of(rng, rng.randint(0, 12 if count == 2 else 7), keys, (6 * i, 6 * i + 20), tied, unique, negative)
            for i in range(count)
        ]
        k = rng.choice([1, 2, 3, 5, 20])
        condition = None if rng.random() < 0.7 else lambda items: sum(x.rows[0] for x in items) % 2 == 0
        best = expected(lists, k, combine, pattern, condition)
        for schedule in SCHEDULES:
            queues = [queue_of(q, sorted_cost=rng.choice([1.0, 10.0]), random_cost=rng.choice([1.0, 3.0])) for q in lists]
            ranked = rj.RankJoin(queues, k, combine, pattern, algorithm, schedule, condition, unique=unique and algorithm == rj.NRA)
            truth = expected(lists, 10**9, combine, pattern, condition)
            while ranked.final < k and not ranked.done:
                ranked.step()
                # the bound holds: what is above it has been found, and the k-th result so far is no better than the true one
                found = {r.identities for r in ranked.results}
                above = [t for t in truth[:k] if -t[0] > ranked.bound]
                assert all(t[2] in found for t in above)
                assert len(truth) < k or ranked.lower <= -truth[k - 1][0]
                assert plain(ranked.results[: ranked.final]) == best[: ranked.final]
                assert ranked.cost == sum(q.sorted_accesses * q.sorted_cost + q.random_accesses * q.random_cost for q in queues)
            assert plain(ranked.results[:k]) == best, (algorithm, schedule, combine, pattern, k, lists)


def test_the_join_that_ranks_conjunctions():
    """Any item joins any other; no part of the thesis' join that the product does not have."""
    rng = random.Random(8050)
    read = pulled = 0
    for _ in range(600):
        count = rng.choice([1, 2, 2, 3])
        tied = rng.random() < 0.5
        combine = rng.choice([name for name, merge in rj.COMBINE.items() if not merge.not_negative])
        lists = [items_of(rng, rng.randint(0, 30 if count < 3 else 9), 1, (6 * i, 6 * i + 20), tied, negative=True) for i in range(count)]
        k = rng.choice([1, 2, 5, 20])
        items = [[rank_join.Item(x.score, x.rows, i) for i, x in enumerate(q)] for q in lists]
        queues = [rank_join.Queue(q) for q in items]
        found = rank_join.RankJoin(queues, k, rj.COMBINE[combine].function).run()
        by_place = [[x._replace(key=None, identity=i) for i, x in enumerate(q)] for q in lists]
        assert plain(found) == expected(by_place, k, combine, rj.CONJUNCTION), (combine, k, lists)
        read += sum(map(len, lists))
        pulled += sum(q.depth for q in queues)
    assert pulled < 0.7 * read  # it ends before all is read


def test_the_join_stops_at_its_bound_of_steps():
    items = [rank_join.Item(1.0, (i,), i) for i in range(40)]
    with pytest.raises(TooManyStepsError):
        rank_join.RankJoin([rank_join.Queue(items), rank_join.Queue(items)], 2000, sum, max_steps=300).run()
    assert len(rank_join.RankJoin([rank_join.Queue(items), rank_join.Queue(items)], 2000, sum).run()) == 1600


def test_disjunctions():
    rng = random.Random(8100)
    for _ in range(300):
        lists = [items_of(rng, rng.randint(0, 10), 3, (0, 30), rng.random() < 0.6) for _ in range(rng.choice([1, 2, 3]))]
        k = rng.choice([1, 3, 8, 40])
        queues = [queue_of(q) for q in lists]
        best = sorted((-x.score, x.rows, (h, x.identity)) for h, q in enumerate(lists) for x in q)[:k]
        assert plain(rj.disjunction(queues, k)) == best
        if len(best) == k:  # those as good as the k-th are read, for ties, and one more of each queue
            assert sum(q.depth for q in queues) <= sum(x.score >= -best[-1][0] for q in lists for x in q) + len(queues)


def test_joins_of_sliding_windows():
    rng = random.Random(8200)
    reused = 0
    for _ in range(150):
        combine = rng.choice(list(rj.COMBINE))
        pattern = rng.choice([rj.CONJUNCTION, rj.SEQUENCE])
        tied = rng.random() < 0.5
        lists = [items_of(rng, 40, rng.choice([1, 3, 8]), (0, 60), tied) for _ in range(2)]
        size, step, k = rng.randint(8, 30), rng.randint(1, 15), rng.choice([1, 3, 6])
        schedule = rng.choice(SCHEDULES)
        dynamic = rj.DynamicJoin(k, combine, pattern, schedule, worth=rng.choice([0.0, 0.5]))
        for low in range(0, 60, step):
            inside = [[x for x in q if x.rows[0] >= low and x.rows[-1] < low + size] for q in lists]
            queues = [queue_of(q) for q in inside]
            assert plain(dynamic.move(queues, low)) == expected(inside, k, combine, pattern)
        reused += dynamic.reused
    assert reused > 150


def events_of(classes: list, keys: list | None, low: int, high: int) -> list[list[rj.Item]]:
    queues = []
    for i, (rows, scores) in enumerate(classes):
        names = [None] * len(rows) if keys is None else keys[i].tolist()
        queues.append([rj.Item(s, key, (r,), r) for r, s, key in zip(rows.tolist(), scores.tolist(), names) if low <= r < high])
    return queues


def test_sequences_of_events():
    rng = random.Random(8300)
    for _ in range(150):
        combine = rng.choice(list(rj.COMBINE))
        classes = []
        draw = np.random.default_rng(rng.getrandbits(32))
        for _ in range(rng.choice([2, 3])):
            rows = np.sort(draw.choice(40, rng.randint(0, 10), replace=False))
            scores = draw.integers(0, 4, len(rows)).astype(float) if rng.random() < 0.5 else draw.random(len(rows))
            classes.append((rows, scores))
        keys = None if rng.random() < 0.5 else [draw.integers(0, 2, len(rows)) for rows, _ in classes]
        k, schedule = rng.choice([1, 3, 10]), rng.choice(SCHEDULES)
        best = expected(events_of(classes, keys, 0, 40), k, combine, rj.SEQUENCE)
        assert plain(rj.top_sequences(classes, k, combine, keys, schedule)) == best
        dynamic = rj.DynamicSequences(classes, k, combine, keys, schedule)
        size, step = rng.randint(5, 25), rng.randint(1, 10)
        for low in range(0, 40, step):
            best = expected(events_of(classes, keys, low, low + size), k, combine, rj.SEQUENCE)
            assert plain(dynamic.move(low, low + size)) == best


def test_waste_avoiding_schedule_reads_the_cheap_queue():
    """MIN needs one queue read down to the boundary only: WABS finds that it is the cheap one."""
    rng = random.Random(8400)
    ids = list(range(2000))
    lists = []
    for _ in range(2):
        rng.shuffle(ids)
        lists.append(sorted((rj.Item(rng.random(), key, (key,), key) for key in ids), key=lambda x: -x.score))
    costs = {}
    for schedule in SCHEDULES:
        queues = [queue_of(lists[0], sorted_cost=10.0), queue_of(lists[1])]
        ranked = rj.RankJoin(queues, 50, "MIN", rj.CONJUNCTION, rj.TA, schedule)
        ranked.run()
        costs[schedule] = ranked.cost
    assert costs[rj.WABS] * 2 < costs[rj.ROUND_ROBIN]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rj.RankJoin([], 1, "MEDIAN"), "unknown merge function"),
        (lambda: rj.RankJoin([], 1, "SUM", "CHOICE"), "unknown pattern"),
        (lambda: rj.RankJoin([queue_of([rj.Item(-1.0, 0, (0,), 0)])] * 1, 1, "PRODUCT").run(), "not negative"),
        (
            lambda: rj.RankJoin(
                [rj.Queue([rj.Item(1.0, 0, (0,), 0)]), rj.Queue([rj.Item(1.0, 0, (1,), 0)])], 1, algorithm=rj.TA
            ).run(),
            "random access",
        ),
        (lambda: rj.Queue([rj.Item(math.nan, 0, (0,), 0)]).pull(), "descend"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
