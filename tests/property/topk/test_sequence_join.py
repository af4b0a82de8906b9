"""The join of sequences against all combinations: order, tests, windows, ties, scores that are NaN, and unread items."""

from __future__ import annotations

import functools
import itertools
import math
import random

import numpy as np
import pytest

from sparkcep.engine.output.score_program import NUMBERS, evaluated
from sparkcep.engine.topk import sequence_join
from sparkcep.engine.topk.sequence_join import NotJoinedError, SequenceItems, SequenceJoin
from tests.selection import first

ANY = 99
LEAVES = [("leaf", 0), ("leaf", 1), ("leaf", 2)]
SCORES = {
    "sum": lambda leaves: functools.reduce(lambda a, b: ("+", a, b), leaves),
    "average": lambda leaves: ("/", ("+", *leaves[:2]), ("lit", 2)),
    "least": lambda leaves: functools.reduce(lambda a, b: ("least", a, b), leaves),
    "greatest": lambda leaves: functools.reduce(lambda a, b: ("greatest", a, b), leaves),
    "root": lambda leaves: ("+", ("sqrt", leaves[0]), leaves[-1]),  # NaN below 0
}
NUMBERS_WITH_ROOT = {**NUMBERS, "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan}


def random_items(rng: random.Random, tests: int) -> list[tuple]:
    """Items of a sequence, best first: (value, rows, own values, other values)."""
    found = []
    for _ in range(rng.choice([0, 1, 2, 4, 7, 12])):
        rows = tuple(sorted(rng.sample(range(12), rng.randint(1, 3))))
        own, other = ([rng.choice([0, 1, 1, 2, ANY]) for _ in range(tests)], [rng.choice([0, 1, 1, 2]) for _ in range(tests)])
        found.append((float(rng.randint(-1, 3)), rows, own, other))
    found.sort(key=lambda item: (-item[0], item[1]))
    return [item for item, before in zip(found, [None, *found]) if before is None or item[:2] != before[:2]]


def items_of(groups: list[list[tuple]], depth: int, side: int, tests: int) -> SequenceItems:
    """The first ``depth`` items of each group as arrays."""
    read = [group[:depth] for group in groups]
    ends = np.cumsum([0, *map(len, read)])
    items = [item for group in read for item in group]
    rows = np.array([row for item in items for row in item[1]], dtype=np.int64)
    own, other = (np.array([item[which] for item in items], dtype=np.int64).reshape(len(items), tests).T.copy() for which in (2, 3))
    return SequenceItems(
        ends[:-1], ends[1:], np.array([len(group) < depth for group in read]), np.array([item[0] for item in items], dtype=np.float64),
        np.cumsum([0, *(len(item[1]) for item in items)]), rows, np.full(len(rows), side), own, other,
    )  # fmt: skip


def agree(operation: str, own: int, other: int) -> bool:
    if operation == "=":
        return own in (other, ANY)
    return own <= other if operation == "<=" else own >= other


def best(group: list[list[tuple]], tree: tuple, top: int, before, tests, ends, written) -> list[tuple] | None:
    """The k best of all combinations as (rows, sequences), None if only labels distinguish some of them."""
    found = []
    for combination in itertools.product(*group):
        rows = [item[1] for item in combination]
        whole = sorted({row for some in rows for row in some})
        if any(rows[a][-1] >= rows[b][0] for a, b in before) or (ends is not None and ends[whole[0]] <= whole[-1]):
            continue
        if not all(agree(operation, combination[a][2][i], combination[b][3][i]) for i, (a, b, operation) in enumerate(tests)):
            continue
        score = evaluated(tree, [item[0] for item in combination], NUMBERS_WITH_ROOT)
        pairs = sorted(((row, side) for side in written for row in rows[side]), key=lambda pair: pair[0])
        found.append(((math.inf if math.isnan(score) else -score, whole), pairs))
    found.sort(key=lambda match: match[0])
    if any(a[0] == b[0] for a, b in itertools.pairwise(found[: top + 1])):
        return None
    return [pairs for _, pairs in found[:top]]


@pytest.mark.parametrize("room", [2, sequence_join.FIRST_ROOM])
@pytest.mark.parametrize("seed", first(range(40), wider=2))
def test_the_best_of_all_combinations(seed, room, monkeypatch):
    monkeypatch.setattr(sequence_join, "FIRST_ROOM", room)
    rng = random.Random(seed)
    matches = unread = unclear = 0
    for _ in range(25):
        m, top, name = rng.choice([2, 3]), rng.choice([1, 2, 5, 20]), rng.choice(list(SCORES))
        tree = SCORES[name](LEAVES[:m])
        pairs = [tuple(rng.sample(range(m), 2)) for _ in range(rng.choice([0, 1, 1, 2]))]
        before = tuple({pair for pair in pairs if pair[0] < pair[1]})
        tests = [(*rng.sample(range(m), 2), rng.choice(["=", "<=", ">="])) for _ in range(rng.choice([0, 0, 1, 2]))]
        ends = np.minimum(np.arange(12) + rng.randint(4, 10), 12) if rng.random() < 0.4 else None
        written = tuple(rng.sample(range(m), m))
        groups = [[random_items(rng, len(tests)) for _ in range(m)] for _ in range(rng.choice([0, 1, 5, 20]))]
        expected = [best(group, tree, top, before, tests, ends, written) for group in groups]
        join, worst = SequenceJoin(tree, top, before, tests, ANY, ends, written), np.full(len(groups), -np.inf)
        for depth in (2, 4, 50):
            read = [items_of([group[side] for group in groups], depth, side, len(tests)) for side in range(m)]
            try:
                joined = join.of(read, worst)
            except NotJoinedError:
                unclear += 1
                assert None in expected
                break
            found: dict[int, list] = {}
            at = np.cumsum([0, *joined.found.size.tolist()])
            for group, low, high in zip(joined.found.group.tolist(), at, at[1:]):
                found.setdefault(group, []).append(list(zip(joined.found.rows[low:high].tolist(), joined.found.labels[low:high].tolist())))
            for i, answer in enumerate(expected):
                if joined.unread[i]:
                    assert depth < 50 and i not in found
                    unread += 1
                else:
                    assert found.get(i, []) == answer, (name, top, before, tests, ends, written, groups[i])
                    matches += len(answer)
            worst = joined.worst
    assert matches > 20 and unread > 20 and unclear > 0
