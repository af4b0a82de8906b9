"""Slices of time change no result: random clauses over their rows as they are, and cut as the rewriter's SQL cuts them."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.plan.build import make_plan
from sparkcep.plan.prune.slicing import undivided
from sparkcep.settings import Settings
from sparkcep.sql.prefilter.slices import Slices, slices_of
from tests.oracle import selection
from tests.property.approx import approx_cases
from tests.property.in_process import in_slices, inputs, run
from tests.selection import first
from tests.support.caught import without_catching

OFF = Settings(prefilter=False)


def spread(rng, rows, descending=False):
    """The rows with gaps, ties and NULLs in their order keys, which may be below 0."""
    at = rng.randrange(-60, 20)
    for row in rows:
        at += rng.choice([0, 1, 1, 1, 2, 5])
        row["id"] = -at if descending else at
    for row in rng.sample(rows, rng.choice([0, 0, 1]) if rows else 0):
        row["id"] = None
    return rows


def rows_of(found):
    """Output rows as a multiset; partitions without one are left out."""
    return Counter((p, tuple(sorted((k, repr(v)) for k, v in row.items()))) for p, rows in found.items() for row in rows)


class Unnumbered(approx_cases.Case):
    """Matches of slices are not numbered through."""

    @property
    def measures(self):
        return {name: sql for name, sql in super().measures.items() if name != "m"}


class Tally:
    def __init__(self):
        self.matched = self.compared = self.cut = self.copied = 0
        self.refused = Counter()

    def compare(self, rng, text, partitions, settings=OFF):
        plan = without_catching(make_plan(parse_clause(text), settings=settings))
        if reason := undivided(plan):
            self.refused[reason] += 1
            return
        found = slices_of(plan, "int", windows=rng.choice([1, 1, 2]))
        assert isinstance(found, Slices)
        # as narrow as whole numbers let them be
        width = int(plan.windows[0].size)
        slices = dataclasses.replace(found, width=width, size=width * rng.choice([1, 1, 2]), reach=width)
        wanted = outcome(text, partitions, settings)
        assert outcome(text, partitions, settings, slices) == wanted, (text, slices, partitions)
        assert outcome(text, partitions, settings, found) == wanted, (text, found, partitions)
        self.compared += 1
        self.matched += bool(wanted)
        table = inputs(plan, partitions)
        more = in_slices(plan, table, slices)
        self.cut += len(set(more["__slice"].to_pylist())) > 3
        self.copied += 1 in more["__away"].to_pylist()


def outcome(text, partitions, settings, slices=None):
    try:
        return rows_of(run(text, partitions, None, settings, slices=slices))
    except MatchRuntimeError as error:
        return type(error)


def random_query(rng, shapes):
    query = selection.random_query(rng, shapes=shapes)
    query.window = ("range", rng.randrange(2, 7))
    if rng.random() < 0.95:
        query.skip = ("to next row",)
    if rng.random() < 0.95:
        query.measures = {k: v for k, v in query.measures.items() if k != "m_no"}
    return query


@pytest.mark.parametrize("shapes", first([pytest.param((shape,), id=shape) for shape in ("plain", "negation", "conjunction", "group")], wider=3))
@pytest.mark.parametrize("seed", first(range(2), wider=1))
@pytest.mark.parametrize("descending", first([False, True]), ids=["", "descending"])
def test_random_clauses(shapes, descending, seed):
    rng, tally = random.Random(f"slices {shapes} {descending} {seed}"), Tally()
    while tally.compared < 18:
        query = random_query(rng, shapes)
        text = query.to_sql().replace("ORDER BY id", "ORDER BY id DESC") if descending else query.to_sql()
        rows = {p: spread(rng, selection.random_rows(rng, rng.randrange(1, 25 if shapes == ("plain",) else 14)), descending) for p in range(8)}
        try:
            tally.compare(rng, text, rows, Settings(prefilter=rng.random() < 0.5))
        except ClauseError as error:
            assert error.error_class == "SPARKCEP.PATTERN_TOO_COMPLEX", text
    assert tally.matched > 6 and tally.cut > 12 and tally.copied > 12
    assert sum(tally.refused.values()) > 4


def longer(rng, case):
    """Rows of a few of the case's partitions one behind the other, ties between them."""
    rows = [row for _ in range(3) for row in approx_cases.random_partition(rng, case)]
    times = sorted((row["t"] for row in rows if row["t"] is not None), reverse=case.descending)
    gone = [None] * (len(rows) - len(times))
    return [{**row, "t": t, "id": i} for i, (row, t) in enumerate(zip(rows, times + gone if case.descending else gone + times, strict=True))]


@pytest.mark.further
def test_approximate_matches():
    rng, compared, matched, refused = random.Random(7), 0, 0, Counter()
    while compared < 60:
        case = approx_cases.random_case(rng, report=rng.choice([approx_cases.ALL] * 9 + [approx_cases.PROXY, approx_cases.BUNDLES]))
        case = Unnumbered(**{f.name: getattr(case, f.name) for f in dataclasses.fields(case)}).with_(window=("range", rng.randrange(2, 5)), unit=None)
        plan = make_plan(parse_clause(case.to_sql()), settings=OFF)
        if reason := undivided(plan):
            refused[reason] += 1
            continue
        found, rows = slices_of(plan, "int", windows=1), {p: longer(rng, case) for p in range(5)}
        slices = dataclasses.replace(found, width=case.window[1], size=case.window[1], reach=case.window[1])
        wanted = rows_of(approx_cases.run(case, rows, settings=OFF))
        assert rows_of(approx_cases.run(case, rows, settings=OFF, slices=slices)) == wanted, (case.to_sql(), rows)
        compared += 1
        matched += bool(wanted)
    assert matched > 40 and len(refused) >= 4
