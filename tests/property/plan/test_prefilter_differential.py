"""The filter by a second read changes no result: random clauses with each filter they may have, and without."""

from __future__ import annotations

import random

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.plan.prune.pruning import necessary
from sparkcep.plan.records import Repeat, Within
from sparkcep.settings import ALWAYS, Settings
from sparkcep.sql.prefilter.second_read import Filter, near
from tests.oracle import expr, measures, pattern, selection
from tests.oracle.cases import random_clause
from tests.oracle.match import TooManySteps, _Steps, enumerate_from
from tests.property.in_process import inputs, run
from tests.selection import first, further
from tests.support.caught import without_catching

OFF, ON = Settings(prefilter=False), Settings(prefilter=ALWAYS)


def tree(p, ids):
    """A pattern of the oracle's as a plan holds it."""
    if p[0] == "var":
        return ("var", ids.index(p[1]))
    if p[0] in ("cat", "alt", "permute"):
        return (p[0], *(tree(child, ids) for child in p[1]))
    if p[0] == "rep":
        return Repeat("repeat", tree(p[1], ids), *p[2:])
    return ("exclude", tree(p[1], ids)) if p[0] == "excl" else p


def test_every_match_holds_the_necessary_variables():
    rng, found, exact = random.Random(1), 0, 0
    for _ in range(1500):
        p = pattern.random_pattern(rng, "ABCD", rng.choice([1, 2, 2, 3]))
        ids = pattern.variables(p)
        words = []
        try:
            for size in range(6):
                words += [{name for name, _ in way} for way in enumerate_from(p, size, 0, lambda labels: True, _Steps(3000))]
        except TooManySteps:
            pass  # those that were found are words all the same
        sets = [{ids[v] for v in s} for s in necessary(tree(p, ids))]
        assert all(word & s for word in words for s in sets), (pattern.to_text(p), sets)
        found += bool(sets)
        # and none is forgotten where one variable alone is in all short words
        if words and len(words) < 3000 and not pattern.contains(p, ("start", "end", "empty")):
            exact += 1
            shared = set.intersection(*words)
            assert {frozenset([v]) for v in shared} <= set(map(frozenset, sets)) or not shared, (pattern.to_text(p), shared, sets)
    assert found > 600 and exact > 600


@pytest.mark.parametrize(
    ("tail", "sets"),
    [
        (("cat", ("var", 0), Repeat("repeat", ("var", 1), 0, 1, True), ("var", 2)), [{0}, {2}]),
        (("alt", ("cat", ("var", 0), ("var", 1)), ("cat", ("var", 2), ("var", 1))), [{1}, {0, 1}, {0, 2}, {1, 2}]),
        (("alt", ("var", 0), ("empty",)), []),
        (Repeat("repeat", ("var", 0), 0, None, True), []),
        (("cat", ("var", 0), ("not", 1), ("var", 2)), [{0}, {2}]),
        (("and", ("var", 0), Repeat("repeat", ("var", 1), 2, None, True)), [{0}, {1}]),
        (Within("within", ("exclude", ("var", 0)), 1), [{0}]),
    ],
)
def test_necessary_sets(tail, sets):
    assert list(map(set, necessary(tail))) == sets


def filters(plan):
    """Every filter that a plan may get over integers."""
    distance = near(plan, "int")
    for i in range(len(plan.candidates)):
        if plan.keys:
            yield Filter(i)
        if distance:
            yield Filter(i, distance)


def outcome(text, partitions, settings, chosen=None):
    try:
        return run(text, partitions, None, settings, chosen)
    except MatchRuntimeError as error:
        return type(error)


class Tally:
    def __init__(self):
        self.filtered = self.matched = self.parted = self.windowed = 0

    def compare(self, text, partitions):
        plan = without_catching(make_plan(parse_clause(text), settings=ON))
        tried = list(filters(plan))
        if not tried:
            return
        wanted = outcome(text, partitions, OFF)
        rows = inputs(plan, partitions).num_rows
        self.matched += bool(wanted)
        for chosen in tried:
            got = outcome(text, partitions, ON, chosen)
            if wanted == {} or got == {}:
                assert not wanted and not got, (text, chosen)
            assert got == wanted, (text, chosen, partitions)
            less = inputs(plan, partitions, chosen).num_rows < rows
            self.filtered += less
            self.parted += less and chosen.near is None
            self.windowed += less and chosen.near is not None


@pytest.mark.parametrize("kinds", [further(("row",)), ("row", "prev", "history")], ids="-".join)
@pytest.mark.parametrize("seed", first(range(2), wider=1))
def test_partitions(kinds, seed):
    rng, tally = random.Random(f"filter {kinds} {seed}"), Tally()
    for _ in range(63):
        clause = random_clause(rng, kinds)
        if any(m in clause.to_sql() for m in ("WITH UNMATCHED",)):
            clause.mode = measures.ONE_ROW
        tally.compare(clause.to_sql(), {p: expr.random_rows(rng, rng.randrange(1, 7)) for p in range(25)})
    assert tally.parted > 12 and tally.matched > 6


def spread(rng, rows):
    """The rows with gaps between their order keys, which may be below 0."""
    at = rng.randrange(-60, 20)
    for row in rows:
        at += rng.choice([1, 1, 2, 9])
        row["id"] = at
    return rows


@pytest.mark.parametrize("shapes", [("plain",), *map(further, [("negation",), ("group",)]), ("conjunction",)], ids="-".join)
@pytest.mark.parametrize("seed", first(range(2), wider=1))
def test_windows(shapes, seed):
    rng, tally = random.Random(f"windows {shapes} {seed}"), Tally()
    while tally.windowed < 10:
        query = selection.random_query(rng, shapes=shapes, report=rng.choice([selection.FIRST, selection.ALL]))
        query.window = ("range", rng.randrange(2, 6))
        if query.mode == measures.WITH_UNMATCHED:
            query.mode = measures.OMIT_EMPTY
        # physical neighbours may lie outside, which forbids the filter
        query.measures = {n: e for n, e in query.measures.items() if not ({"prev", "next"} & set(map(str, _flat(e))))}
        tally.compare(query.to_sql(), {p: spread(rng, selection.random_rows(rng, rng.randrange(1, 14))) for p in range(12)})
    assert tally.matched > 2


@pytest.mark.parametrize("pattern_text", ["A B", "A B+", "A (B | C)"])
@pytest.mark.parametrize("window", ["", "WINDOW 6"])
def test_counts(pattern_text, window):
    rng, tally = random.Random(pattern_text + window), Tally()
    text = (
        "PARTITION BY p ORDER BY id MEASURES LAST(id) AS at, MATCH_COUNT() AS c EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES "
        f"PATTERN ({pattern_text}) {window} DEFINE A AS v = 3, B AS w > 0" + (", C AS s = 'a'" if "C" in pattern_text else "")
    )
    tally.compare(text, {p: spread(rng, selection.random_rows(rng, 9)) for p in range(30)})
    assert tally.matched and tally.parted and bool(tally.windowed) is bool(window)


def _flat(e):
    return [x for part in e for x in _flat(part)] if isinstance(e, (tuple, list)) else [e]
