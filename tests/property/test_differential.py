"""The engine against the oracle: random clauses over random partitions, rows compared one by one."""

from __future__ import annotations

import random

import pytest

from sparkcep.errors import MatchRuntimeError
from tests.oracle.cases import random_clause
from tests.oracle.expr import random_rows
from tests.oracle.match import SkipTargetError, TooManySteps
from tests.property.in_process import run

SEEDS = range(8)
CLAUSES = 60  # per seed
PARTITIONS = 50  # per clause


def lively(rng, kinds):
    """A random clause, mostly one that matches something now and then."""
    for _ in range(6):
        clause = random_clause(rng, kinds)
        samples = [answer(clause, random_rows(rng, 8)) for _ in range(8)]
        good = sum(isinstance(a, list) and any((m["m_count"] or 0) > 1 for m in a) for a in samples)
        if good >= 2 or rng.random() < 0.15:
            break
    return clause


def answer(clause, rows):
    """The oracle's output rows as `run` gives the engine's, or the exception that stands in their place."""
    try:
        return [values if row is None else {**values, "id": row} for row, values in clause.answer(rows)]
    except (SkipTargetError, TooManySteps) as problem:
        return problem


def disagreement(clause, rows):
    """None, or how the engine's answer for one partition differs from the oracle's."""
    expected = answer(clause, rows)
    if isinstance(expected, TooManySteps):
        return None
    try:
        got = run(clause.to_sql(), {0: rows}).get(0, [])
    except MatchRuntimeError as problem:
        return None if isinstance(expected, SkipTargetError) else f"engine fails: {problem}"
    if isinstance(expected, SkipTargetError):
        return f"engine does not fail as the oracle does: {expected}; engine: {got}"
    return None if got == expected else f"oracle {expected}\nengine {got}"


def smaller(clause, rows):
    """Fewest rows, by dropping one at a time, that still show the disagreement."""
    while len(rows) > 1:
        for i in range(len(rows)):
            fewer = [dict(row, id=j) for j, row in enumerate(rows[:i] + rows[i + 1 :])]
            if disagreement(clause, fewer):
                rows = fewer
                break
        else:
            break
    return rows


def report(clause, rows):
    rows = smaller(clause, rows)
    return f"{clause.to_sql()}\nrows {rows}\n{disagreement(clause, rows)}"


@pytest.mark.parametrize("kinds", [("row",), ("row", "prev"), ("row", "prev", "history"), ("history",)], ids="-".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_engine_agrees_with_oracle(seed, kinds):
    rng = random.Random(f"{seed} {kinds}")
    pairs = matched = skipped = 0
    for _ in range(CLAUSES):
        clause = lively(rng, kinds)
        partitions, expected, failing = {}, {}, []
        for p in range(PARTITIONS):
            rows = random_rows(rng, rng.randrange(1, 11))
            wanted = answer(clause, rows)
            pairs += 1
            if isinstance(wanted, TooManySteps):
                skipped += 1
            elif isinstance(wanted, SkipTargetError):
                failing.append(rows)
            else:
                partitions[p], expected[p] = rows, wanted
                matched += any(m["m_count"] for m in wanted)
        got = run(clause.to_sql(), partitions) if partitions else {}
        for p, rows in partitions.items():
            if got.get(p, []) != expected[p]:
                pytest.fail(report(clause, rows))
        # An error ends the whole query, so these run alone; a few per clause are enough.
        for rows in failing[:2]:
            with pytest.raises(MatchRuntimeError):
                run(clause.to_sql(), {0: rows})
    assert skipped < pairs * 0.05
    assert matched > pairs * 0.3
