"""APPROX with SKIP TILL NEXT MATCH against its oracle, and against exact matching and SKIP TILL ANY MATCH."""

from __future__ import annotations

import collections
import random

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.searches import CLASSES, PROXIES, WALK
from sparkcep.compiler.strategy import strategy_of
from sparkcep.plan.build import make_plan
from tests.oracle.selection import NEXT
from tests.property.approx import approx_cases
from tests.property.approx.approx_cases import ALL, ANY, BUNDLES, PER_ERROR, PROXY, Case
from tests.property.approx.test_approx_differential import Tally, cases, pieces
from tests.selection import first

LETTERS = {letter.upper(): ("=", ("col", "s"), ("lit", letter)) for letter in "abc"}


def search_of(case) -> str:
    return strategy_of(make_plan(parse_clause(case.to_sql()))).search


@pytest.mark.parametrize("seed", first(range(48), wider=2))
def test_engine_agrees_with_the_oracle(seed):
    rng = random.Random(f"next {seed}")
    tally, searches = Tally(), collections.Counter()
    for i in range(12):
        case = approx_cases.random_case(rng, strategy=NEXT, report=(ALL, PROXY, PER_ERROR, BUNDLES)[i % 4])
        searches[search_of(case)] += 1
        some = approx_cases.partitions(rng, case, 40)
        tally.compare(case, some, **({}, {"chunk_rows": rng.randrange(1, 8)}, {"cuts": rng})[i // 4 % 3])
    assert tally.pairs >= 350 and tally.wrong >= 0.1 * tally.pairs
    assert min(searches[search] for search in (PROXIES, CLASSES, WALK)) >= 1


@pytest.mark.parametrize("seed", first(range(4), wider=1))
def test_sizes(seed):
    rng, tally = random.Random(f"sizes of next {seed}"), Tally()
    for i in range(12):
        case = approx_cases.random_case(rng, strategy=NEXT, report=(PROXY, PER_ERROR, BUNDLES)[i % 3]).with_(sizes=True)
        tally.compare(case, approx_cases.partitions(rng, case, 30), **({}, {"cuts": rng})[i % 2])
    assert tally.pairs >= 300 and tally.wrong >= 0.25 * tally.pairs


@pytest.mark.parametrize("seed", first(range(12), wider=2))
def test_no_errors_allowed_is_exact_matching(seed):
    rng = random.Random(f"exact next {seed}")
    matched = 0
    for case, some in cases(rng, 14, strategy=NEXT, report=ALL):
        case = case.with_(k="0")
        names = ("id", "label", "first", "last", "n")
        approximate, exact = (approx_cases.run(case, some, approx=approx) for approx in (True, False))
        for p in some:
            assert pieces(approximate.get(p, []), *names) == pieces(exact.get(p, []), *names), f"{case.to_sql()}\nrows {some[p]}"
        matched += sum(map(bool, exact.values()))
    assert matched >= 10


@pytest.mark.parametrize("seed", first(range(8), wider=2))
def test_each_match_is_one_of_skip_till_any(seed):
    """With as many errors or more: the cheapest way of SKIP TILL ANY may ignore other rows."""
    rng = random.Random(f"next and any {seed}")
    matched = fewer = 0
    for case, some in cases(rng, 15, strategy=NEXT, report=ALL):
        if approx_cases.has_exclusion(case):
            continue
        own, every = (approx_cases.run(case.with_(strategy=strategy), some) for strategy in (NEXT, ANY))
        for p in some:
            found, all_found = ({ways: float(rows[0]["errors"]) for ways, rows in by_match(got.get(p, [])).items()} for got in (own, every))
            assert found.keys() <= all_found.keys(), f"{case.to_sql()}\nrows {some[p]}"
            assert all(errors >= all_found[ways] for ways, errors in found.items())
            matched += len(found)
            fewer += len(found) < len(all_found)
    assert matched >= 100 and fewer >= 5


def by_match(rows) -> dict:
    found = collections.defaultdict(list)
    for row in rows:
        found[row["m"]].append(row)
    return {tuple((row["id"], row["label"]) for row in of): of for of in found.values()}


def matches_of(pattern_text, pattern, letters, strategy=NEXT) -> dict:
    """{rows: errors} of ALL MATCHES with APPROX 1."""
    defines = {name: condition for name, condition in LETTERS.items() if name in pattern_text}
    case = Case(pattern, pattern_text, defines, strategy, "1", report=ALL)
    rows = [{"id": i, "t": i, "v": 0, "w": 0, "s": letter} for i, letter in enumerate(letters)]
    found = by_match(approx_cases.run(case, {0: rows}).get(0, []))
    assert found.keys() == {tuple(zip(t.rows, t.labels)) for t in case.oracle.all_matches(rows, list(range(len(rows))))}
    return {" ".join(f"{letters[row]}{row + 1}" for row, _ in match): int(rows[0]["errors"]) for match, rows in found.items()}


ABC = ("A B C", ("cat", [("var", "A"), ("var", "B"), ("var", "C")]))
AB = ("A+ B", ("cat", [("rep", ("var", "A"), 1, None, True), ("var", "B")]))


@pytest.mark.parametrize(
    "pattern, letters, found, further",
    [
        (ABC, "abcc", {"a1 b2": 1, "a1 b2 c3": 0, "b2 c3": 1}, {"a1 b2 c4": 0, "a1 c3": 1, "a1 c4": 1, "b2 c4": 1}),
        (ABC, "accb", {"a1 b4": 1, "a1 c2": 1, "a1 c3": 1}, {}),
        (AB, "axab", {"a1": 1, "a1 a3": 1, "a3": 1, "b4": 1, "a1 a3 b4": 0, "a3 b4": 0}, {"a1 b4": 0}),
    ],
)
def test_the_table_of_the_specification(pattern, letters, found, further):
    assert matches_of(*pattern, letters) == found
    assert matches_of(*pattern, letters, ANY) == found | further
