"""Slices of time change no result: random clauses over their rows as they are, and cut as the rewriter's SQL cuts them."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter

import pytest

from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.pattern.plan import make_plan
from sparkcep.pattern.slicing import least, room, undivided
from sparkcep.settings import Settings
from sparkcep.sql.parser import parse_clause
from sparkcep.sql.slices import Slices, slices_of
from tests.oracle import measures, selection
from tests.property.in_process import in_slices, inputs, run

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


class Tally:
    def __init__(self):
        self.matched = self.compared = self.cut = self.copied = 0
        self.refused = Counter()

    def compare(self, rng, text, partitions, settings=OFF):
        plan = make_plan(parse_clause(text), settings=settings)
        if reason := undivided(plan):
            self.refused[reason] += 1
            return
        found = slices_of(plan, "int", windows=rng.choice([1, 1, 2]))
        assert isinstance(found, Slices)
        # as narrow as whole numbers let them be
        width = int(plan.windows[0][1])
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


@pytest.mark.parametrize("shapes", [("plain",), ("negation",), ("conjunction",)], ids="-".join)
@pytest.mark.parametrize("descending", [False, True], ids=["", "descending"])
def test_random_clauses(shapes, descending):
    rng, tally = random.Random(f"slices {shapes} {descending}"), Tally()
    while tally.compared < 70:
        query = random_query(rng, shapes)
        text = query.to_sql().replace("ORDER BY id", "ORDER BY id DESC") if descending else query.to_sql()
        rows = {p: spread(rng, selection.random_rows(rng, rng.randrange(1, 25 if shapes == ("plain",) else 14)), descending) for p in range(8)}
        try:
            tally.compare(rng, text, rows, Settings(prefilter=rng.random() < 0.5))
        except ClauseError as error:
            assert error.error_class == "SPARKCEP.PATTERN_TOO_COMPLEX", text
    assert tally.matched > 35 and tally.cut > 50 and tally.copied > 50
    assert sum(tally.refused.values()) > 20
