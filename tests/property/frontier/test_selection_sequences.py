"""Event selection against its oracle: the (row, variable) sequences of all matches, as the engines find them."""

from __future__ import annotations

import random
import sqlite3
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.searches import CONJUNCTION, WALK
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.kernels.common import layout
from sparkcep.plan.build import make_plan
from sparkcep.settings import Settings
from tests.oracle import selection
from tests.property.frontier.test_selection_differential import partitions
from tests.property.in_process import _inputs
from tests.selection import first
from tests.support.caught import without_catching

SEEDS = first(range(20), wider=1)


def sequences(query, rows_of: dict[int, list[dict]]) -> dict[int, list[tuple]]:
    """The engine's matches by partition, each ((position, variable), ...), in the order of their numbers."""
    plan = without_catching(make_plan(parse_clause(query.to_sql()), settings=Settings(prefilter=False)))  # positions count all rows
    database = sqlite3.connect(":memory:")
    try:
        table = _inputs(plan, rows_of, database)
    finally:
        database.close()
    engine = engine_for(prepare(plan, table.schema))
    found: dict[int, list[tuple]] = {}

    def emit(chunk, matches):
        columns, offsets, scattered, labels = chunk.columns, chunk.offsets, matches.rows, matches.labels
        for part, start, count, _, base in matches.events.tolist():
            if count < 0:
                continue  # an unmatched row
            low = int(offsets[part])
            rows = scattered[base : base + count].tolist() if len(scattered) else range(start, start + count)
            pairs = tuple((row - low, plan.variables[label & 63]) for row, label in zip(rows, labels[base : base + count].tolist()))
            found.setdefault(columns["__p0"][low].as_py(), []).append(pairs)
        yield from ()

    engine.pipeline = replace(engine.pipeline, sink=SimpleNamespace(of=emit))
    assert engine.prepared.strategy.search in (WALK, CONJUNCTION) or not plan.selection
    assert layout.E_ROWS == 2
    for _ in match_batches(engine, table.to_batches()):
        pass
    return found


def compare(query, some) -> tuple[int, int]:
    """Number of partitions compared, and of those with matches."""
    expected = {}
    for p, rows in enumerate(some):
        try:
            expected[p] = [tuple(match.pairs) for match in query.find(rows)]
        except (selection.Budget, selection.SkipTargetError):
            continue
    if not expected:
        return 0, 0
    try:
        got = sequences(query, {p: some[p] for p in expected})
    except ClauseError as error:
        assert error.error_class == "SPARKCEP.PATTERN_TOO_COMPLEX", query.to_sql()
        return 0, 0
    except MatchRuntimeError as error:
        pytest.fail(f"{error}\n{query.to_sql()}")
    for p, matches in expected.items():
        assert sorted(got.get(p, [])) == sorted(matches), f"{query.to_sql()}\nrows {some[p]}"
    return len(expected), sum(map(bool, expected.values()))


@pytest.mark.parametrize("seed", SEEDS)
def test_plain_patterns_and_negations(seed):
    rng = random.Random(3000 + seed)
    counts = [compare(selection.random_query(rng, shapes=("plain", "plain", "negation")), partitions(rng)) for _ in range(30)]
    pairs, matched = map(sum, zip(*counts))
    assert pairs >= 800
    assert matched >= 0.25 * pairs


@pytest.mark.further
@pytest.mark.parametrize("seed", SEEDS)
def test_conjunctions(seed):
    rng = random.Random(4000 + seed)
    counts = [compare(selection.random_query(rng, shapes=("conjunction",), budget=20_000), partitions(rng, 20, 7)) for _ in range(25)]
    pairs, matched = map(sum, zip(*counts))
    assert pairs >= 400
    assert matched >= 0.2 * pairs
