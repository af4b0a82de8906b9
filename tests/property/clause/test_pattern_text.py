"""The pattern parser reads every spelling the oracle prints as the tree it was printed from."""

import random

import pytest

from sparkcep.clause import nodes
from sparkcep.clause.parser import parse_clause
from sparkcep.clause.printer import to_text
from tests.oracle import pattern
from tests.oracle.selection import random_query
from tests.selection import first


def as_tuples(node, text=""):
    """The oracle's form of a pattern; `text` is the clause, for the sizes of groups."""
    match node:
        case nodes.Not(nodes.Var(name)):
            return ("neg", name)
        case nodes.Not(item):
            return ("neg", as_tuples(item, text))
        case nodes.Conjunct(items):
            return ("and", [as_tuples(i, text) for i in items])
        case nodes.Within(item, size, rows):
            return ("within", as_tuples(item, text), (pattern.Rows if rows else int)(size.span.of(text)))
        case nodes.Var(name):
            return ("var", name)
        case nodes.Empty():
            return ("empty",)
        case nodes.Start():
            return ("start",)
        case nodes.End():
            return ("end",)
        case nodes.Concat(items):
            return ("cat", [as_tuples(i, text) for i in items])
        case nodes.Alternate(items):
            return ("alt", [as_tuples(i, text) for i in items])
        case nodes.Permute(items):
            return ("permute", [as_tuples(i, text) for i in items])
        case nodes.Exclude(item):
            return ("excl", as_tuples(item, text))
        case nodes.Repeat(item, low, high, greedy):
            return ("rep", as_tuples(item, text), low, high, greedy)
    raise TypeError(node)


@pytest.mark.parametrize("seed", first([7, 9, *range(11, 17)], wider=8))
def test_parser_and_oracle_mean_the_same_tree(seed):
    rng = random.Random(seed)
    for _ in range(625):
        p = pattern.random_pattern(rng, ["A", "B", "c", "D1"], rng.randrange(0, 5))
        plain, spelled = pattern.to_text(p), pattern.to_text(p, rng)
        for text in (plain, spelled):
            assert as_tuples(parse_clause(f"PATTERN ({text})").pattern) == p, text


@pytest.mark.parametrize("seed", first([8, 10, 12, 14], wider=4))
def test_printed_pattern_parses_to_the_same_tree(seed):
    rng = random.Random(seed)
    for _ in range(500):
        clause = parse_clause(f"PATTERN ({pattern.to_text(pattern.random_pattern(rng, ['A', 'B'], 4), rng)})")
        text = to_text(clause.pattern, clause.text)
        assert parse_clause(f"PATTERN ({text})").pattern == clause.pattern, text


@pytest.mark.parametrize("start", first(range(0, 1000, 125), wider=8))
def test_extended_patterns_parse_to_the_same_tree(start):
    for seed in range(start, start + 125):
        query = random_query(random.Random(seed))
        clause = parse_clause(query.to_sql())
        assert as_tuples(clause.pattern, clause.text) == query.pattern, seed
