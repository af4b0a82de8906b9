"""TOP k over matches that are listed: of all matches those that rank first are kept, and few others."""

from __future__ import annotations

import math
import random

import pyarrow as pa
import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.strategy import strategy_of
from sparkcep.engine.core.effort import Limits
from sparkcep.engine.core.kernel_loop import OutputRoom
from sparkcep.engine.factory import engine_for, match_batches, prepare
from sparkcep.engine.match import enumeration, gap_walk
from sparkcep.plan.build import make_plan
from tests.property.in_process import inputs

SCORES = ["sum(v)", "sum(w)", "sum(v) - sum(w)", "sum(v) + count(*)"]
PATTERNS = ["SKIP TILL NEXT MATCH ALL MATCHES PATTERN (A B+ C?)", "SKIP TILL ANY MATCH PATTERN (A+ ~C B)"]


class All:
    """Keeps all matches."""

    def __init__(self, *_):
        pass

    def of(self, rounds):
        return rounds


def listed(plan, table, limits=None):
    """The matches that are told, as (partition, window, -score, rows)."""
    engine = engine_for(prepare(plan, table.schema), limits=limits)
    rows = pa.concat_tables([engine.prepared.output_schema.empty_table(), *match_batches(engine, table.to_batches())]).to_pylist()
    names, (objective,) = {leaf.spec.kind: leaf.name for leaf in plan.leaves}, plan.ranking.objectives
    return [(row["__p0"], row.get(names.get("window_start")), -score(objective, row), tuple(row[names["vector"]])) for row in rows]


def score(objective, row):
    """A sum of leaves, or a difference; the least number where one is NULL."""
    first, *rest = objective.split(" ")
    signed = [(1, first), *((1 if sign == "+" else -1, name) for sign, name in zip(rest[::2], rest[1::2]))]
    return float("-inf") if any(row[name] is None for _, name in signed) else sum(sign * row[name] for sign, name in signed)


def top(matches, k):
    found: dict = {}
    for match in sorted(matches):
        found.setdefault(match[:2], []).append(match)
    return {group: some[:k] for group, some in found.items()}


@pytest.mark.parametrize(("slide", "limits"), [("", None), (" SLIDE 2", None), ("", Limits(max_state_bytes=1 << 11))])
def test_the_best_are_kept(slide, limits, monkeypatch):
    # so little room that the matches of a buffer come in several rounds
    monkeypatch.setattr(enumeration, "OutputRoom", lambda events, labels, *more, **how: OutputRoom(4, 16, *more, **how))
    rng, dropped, compared = random.Random(f"{slide}{limits}"), 0, 0
    for _ in range(25):
        k, null = rng.choice([1, 2, 3, 5]), rng.choice([0, 0, 0.1])
        measures = "MATCH_SCORE() AS s" + (", WINDOW_START() AS b" if slide else "")
        text = f"PARTITION BY p ORDER BY id MEASURES {measures} EVENT SELECTION {rng.choice(PATTERNS)} WINDOW 6{slide} PREF MAX ({rng.choice(SCORES)}) TOP {k} DEFINE A AS v < 4, B AS w > 0, C AS v = 2"
        plan = make_plan(parse_clause(text))
        assert not strategy_of(plan).ranks, text
        rows = [(p, i, rng.randrange(4), rng.randrange(3)) for p in range(6) for i in range(rng.randrange(1, 11))]
        partitions: dict[int, list[dict]] = {}
        for p, i, v, w in rows:
            partitions.setdefault(p, []).append({"id": i, "v": None if rng.random() < null else v, "w": w, "s": None})
        table = inputs(plan, partitions)
        kept = listed(plan, table, limits)
        with monkeypatch.context() as patched:
            patched.setattr(enumeration, "TopkHeap", All)
            patched.setattr(gap_walk, "bounded", lambda task: False)
            every = listed(plan, table, limits)
        assert top(kept, k) == top(every, k), text
        dropped, compared = dropped + len(every) - len(kept), compared + len(kept)
    assert compared > 200
    assert dropped > 200 or limits is not None


def test_a_score_that_is_no_number_ranks_behind_all_others():
    text = "PARTITION BY p ORDER BY id MEASURES MATCH_SCORE() AS s EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A ~C B) WINDOW 2 PREF MAX (sum(v)) TOP 1"
    plan = make_plan(parse_clause(f"{text} DEFINE A AS w = 1, B AS w = 2, C AS w = 3"))
    values = [1.0, 2.0, math.nan, 3.0, 4.0, 5.0, math.inf]  # an infinite value, so that no bound of the score drops a match
    table = inputs(plan, {0: [{"id": i, "v": 0, "w": 1 + i % 2, "s": None} for i in range(len(values))]})
    table = table.set_column(table.column_names.index("__c0"), "__c0", pa.array(values))
    assert listed(plan, table) == [(0, None, -9.0, (4, 5))]
