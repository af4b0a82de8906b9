"""Equivalence tests as partition keys change no result: random queries, with the keys and without, against the oracle."""

from __future__ import annotations

import random

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.plan.build import make_plan
from sparkcep.settings import DEFAULT, Settings
from tests.oracle import measures, pattern, selection
from tests.property.frontier.test_selection_differential import Tally, partitions
from tests.selection import first

ON_AND_OFF = (DEFAULT, Settings(prefilter=False))
QUERIES = 9  # with keys, a seed
PARTITIONS = 12  # a query


def equated(rng, query):
    """The query with equivalence tests in most conditions, with a chance to be split by them."""
    column = ("col", rng.choice("vws"))
    names = pattern.variables(query.pattern)

    def anchor(name):
        over = rng.choice([None, names[0], names[0], name, *names])
        which = "FIRST" if over in (None, name) else rng.choice(["FIRST", "LAST", "LAST"])
        return ("nav", which, over, 0, column)

    every = rng.random() < 0.5
    for name in names:
        if not every and rng.random() < 0.3:
            continue
        both = [column, anchor(name)]
        rng.shuffle(both)
        rest = query.defines.get(name)
        parts = [("=", *both)] + ([rest] if rest is not None and rng.random() < 0.5 else [])
        rng.shuffle(parts)
        query.defines[name] = parts[0] if len(parts) == 1 else ("and", *parts)
    query.skip = None if query.report == selection.ALL and rng.random() < 0.5 else ("to next row",)
    query.window = query.window and ("range", query.window[1])
    if query.mode == measures.WITH_UNMATCHED:
        query.mode = measures.OMIT_EMPTY
    query.measures = {name: e for name, e in query.measures.items() if not selection._contains(e, "match_number")}
    return query


def cut(query):
    return bool(make_plan(parse_clause(query.to_sql())).equal_keys)


def queries(rng, count):
    """Random queries that are cut by further keys, most of them over several variables."""
    found = 0
    while found < count:
        strategy = rng.choice([selection.NEXT, selection.ANY])
        query = equated(rng, selection.random_query(rng, strategy=strategy, shapes=("plain", "plain", "negation", "group")))
        if cut(query) and (len(pattern.variables(query.pattern)) > 1 or rng.random() < 0.2):
            found += 1
            yield query


@pytest.mark.parametrize("seed", first(range(16), wider=2))
def test_the_keys_change_nothing(seed):
    rng = random.Random(7000 + seed)
    tally = Tally()
    for query in queries(rng, QUERIES):
        some = partitions(rng, PARTITIONS, 9)
        tally.compare(query, some, choices=ON_AND_OFF)
    assert tally.pairs >= 0.9 * QUERIES * PARTITIONS
    assert tally.matched >= 0.1 * tally.pairs


@pytest.mark.parametrize("chunk_rows", first([1, 3], 0, wider=1))
def test_batches_of_keys_change_nothing(chunk_rows):
    rng = random.Random(7100 + chunk_rows)
    tally = Tally()
    for query in queries(rng, 15):
        tally.compare(query, partitions(rng, 10), chunk_rows)
    assert tally.pairs >= 130
