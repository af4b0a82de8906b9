"""Distances between variables of a pattern against all words of the pattern."""

from __future__ import annotations

import itertools
import random

from sparkcep.clause.parser import parse_clause
from sparkcep.plan.facts import distances, tree_of
from sparkcep.plan.records import ALL_ROWS, Repeat

LONGEST = 7


def words(tree: tuple) -> set[tuple[int, ...]]:
    """The rows' variables in all matches of at most so many rows."""
    kind = tree[0]
    if kind == "var":
        return {(tree[1],)}
    if kind == "exclude":
        return words(tree[1])
    if kind == "alt":
        return set().union(*map(words, tree[1:]))
    if kind == "cat":
        return joined([words(part) for part in tree[1:]])
    if kind == "permute":
        return set().union(*(joined(list(order)) for order in itertools.permutations([words(part) for part in tree[1:]])))
    if kind == "repeat":
        item, found = words(tree.item), set()
        for times in range(tree.low, (LONGEST if tree.high is None else tree.high) + 1):
            found |= joined([item] * times)
        return found
    return {()}


def joined(parts: list[set]) -> set[tuple[int, ...]]:
    found = {()}
    for part in parts:
        found = {a + b for a in found for b in part if len(a) + len(b) <= LONGEST}
    return found


def random_tree(rng: random.Random, depth: int, fresh) -> tuple:
    if depth == 0 or rng.random() < 0.25:
        return ("var", next(fresh) if rng.random() < 0.9 else 0)
    kind = rng.choice(["cat", "cat", "cat", "alt", "repeat", "exclude", "permute"])
    if kind == "exclude":
        return (kind, random_tree(rng, depth - 1, fresh))
    if kind == "repeat":
        low, high = rng.choice([(0, 1), (0, None), (1, None), (1, 1), (2, 2), (1, 2), (2, None)])
        return Repeat("repeat", random_tree(rng, depth - 1, fresh), low, high, True)
    return (kind, *(random_tree(rng, depth - 1, fresh) for _ in range(rng.choice([2, 3]))))


def true_of(word: tuple[int, ...], earlier: int, later: int, rows: int, only: bool) -> bool:
    """Whether at each row of the later variable the last row of the earlier one, or the first row, is so many rows before it."""
    if earlier == ALL_ROWS:
        return [at for at, variable in enumerate(word) if variable == later] in ([rows], [])
    for at, variable in enumerate(word):
        before = [i for i in range(at) if word[i] == earlier]
        if variable == later and (not before or at - before[-1] != rows or (only and word.count(earlier) != 1)):
            return False
    return True


def test_distances_hold_in_all_words():
    rng, claimed, of_first = random.Random(1), 0, 0
    for _ in range(1500):
        tree = random_tree(rng, 3, itertools.count(1))
        for (earlier, later), (rows, only) in distances(tree).items():
            claimed += 1
            of_first += earlier == ALL_ROWS and rows > 0
            assert all(true_of(word, earlier, later, rows, only) for word in words(tree)), (tree, earlier, later, rows, only)
    assert claimed > 1000 and of_first > 300


def test_distances_of_some_patterns():
    wanted = {  # ^ is the first row of the match
        "A B C": {"^A": (0, True), "^B": (1, True), "^C": (2, True), "AB": (1, True), "AC": (2, True), "BC": (1, True)}, "A+ B C": {"AB": (1, False), "AC": (2, False), "BC": (1, True)}, "A B+ C": {"^A": (0, True), "BC": (1, False)},
        "(A B)+ C": {"AB": (1, False)}, "A (B C | D) E": {"^A": (0, True), "BC": (1, False)}, "A B? C": {"^A": (0, True)}, "A{2} {- B -}": {"AB": (1, False)}, "PERMUTE(A, B) C": {}, "A B A": {"^B": (1, True)},
    }  # fmt: skip
    for pattern, pairs in wanted.items():
        names, tree = tree_of(parse_clause(f"ORDER BY t MEASURES count(*) AS n PATTERN ({pattern})").pattern)
        assert {('^' if a == ALL_ROWS else names[a]) + names[b]: tuple(found) for (a, b), found in distances(tree).items()} == pairs
