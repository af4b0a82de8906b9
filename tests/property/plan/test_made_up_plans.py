"""Any plan that somebody made up gives an error of ours or rows, and no index outside an array."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.factory import match_table
from sparkcep.engine.topk.branch_and_bound import rising_leaves
from sparkcep.errors import ClauseError
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import Plan
from tests.property.in_process import inputs
from tests.property.plan import made_up_plans as made_up
from tests.selection import first
from tests.support.caught import without_catching


@pytest.mark.parametrize("seed", first(range(24), wider=2))
def test_changed_plans_give_rows_or_an_error_of_ours(seed):
    rng = random.Random(f"made-up plans {seed}")
    files = rng.sample(sorted(made_up.CASES.glob("**/*.test")), 5)
    plans = list({made_up.shape(plan): plan for plan in made_up.of_cases(files)}.values())
    plans = [*rng.sample(plans, min(3, len(plans))), *(made_up.drawn(rng) for _ in range(3))]
    with made_up.interpreted_only():
        counts, wrong = made_up.sweep(plans, str(seed), each=30, structures=6)
    assert wrong == {}
    assert counts["changes"] > 100 and counts["rows"] > 10 and counts["SPARKCEP.ARGUMENT"] > 10


NAVIGATION = """PARTITION BY p ORDER BY id MEASURES FIRST(v) AS x, array_agg(id) AS ids, array_agg(CLASSIFIER()) AS labels
  PATTERN (A B* C?) DEFINE A AS v > 0, B AS v <> 2, C AS v = 2"""


@pytest.mark.parametrize("seed", first(range(8), wider=1))
def test_numbers_of_a_navigation_mean_what_they_say(seed):
    """A leaf gives the value of the row that its mask and offsets mean, for all of them within their bounds."""
    rng = random.Random(f"navigation {seed}")
    partitions = {p: [{"p": p, "id": 1000 * p + i, "v": rng.randrange(4), "w": 0, "s": "a"} for i in range(7)] for p in range(3)}
    plan = without_catching(make_plan(parse_clause(NAVIGATION)))
    table, names, compared = inputs(plan, partitions), plan.variables, 0
    values = {row["id"]: row["v"] for rows in partitions.values() for row in rows}
    for _ in range(40):
        which, mask = rng.choice("FL"), rng.choice([-1, 0, 1, 2, 3, 4, 5, 6, 7])
        logical, physical = rng.choice([0, 1, 2, 3, 6, 7, 63, 1 << 20, (1 << 31) - 1]), rng.choice([0, 1, -1, 2, -6, 7, 1 << 20, (1 << 31) - 1, 1 - (1 << 31)])
        whole = json.loads(plan.to_json())
        leaf = next(leaf for leaf in whole["leaves"] if leaf["spec"]["kind"] == "nav")
        leaf["spec"] |= {"which": which, "mask": mask, "logical": logical, "physical": physical}
        with made_up.interpreted_only():
            found = match_table(Plan.from_json(json.dumps(whole)), table)
        lists = [column for column in found.column_names if column not in (leaf["name"], *plan.keys)]
        for value, *match in zip(*(found[column].to_pylist() for column in (leaf["name"], *lists)), strict=True):
            ids, labels = sorted(match, key=lambda part: isinstance(part[0], str))
            taken = [at for at, label in zip(ids, labels, strict=True) if mask == -1 or mask >> names.index(label) & 1]
            row = taken[logical if which == "F" else -1 - logical] + physical if logical < len(taken) else None
            assert value == values.get(row), (which, mask, logical, physical, ids, labels)
            compared += 1
    assert compared > 100


@pytest.mark.parametrize("clause", [
    "MEASURES MISSING() AS m ALL ROWS PER MATCH PATTERN (A B) APPROX 1 ALL MATCHES",
    "MEASURES MATCH_COUNT() AS n EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B)",
    "MEASURES FIRST(id) AS a EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B)",
    "MEASURES FIRST(id) AS a EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) WINDOW 9 PREF MAX (A.v) TOP 2",
    "MEASURES FIRST(id) AS a PATTERN (A B)",
])  # fmt: skip
def test_a_skip_that_the_other_options_exclude_is_refused(clause):
    """A search that skips rows leaves the paths of approximate matches unwritten, and MISSING() would read them."""
    plan = without_catching(make_plan(parse_clause(f"PARTITION BY p ORDER BY id {clause} DEFINE A AS v > 0, B AS count(*) < 9")))
    whole, place = json.loads(plan.to_json()), {"line": 1, "column": 1, "text": "A"}
    skips = [{"mode": mode, "targets": 1, "place": place} for mode in ("first", "last")] + [{"mode": mode, "targets": 0, "place": None} for mode in ("past_last", "next_row")]
    every, alone = plan.approximate is not None or plan.ranking is not None or "MATCH_COUNT" in clause, plan.selection is None
    right = skips if alone else skips[3:] if every else skips[2:]
    for skip in [*skips, {"mode": "next_row", "targets": 1, "place": None}, {"mode": "last", "targets": 0, "place": place}]:
        text = json.dumps(whole | {"skip": skip})
        if skip in right:
            assert Plan.from_json(text).skip.mode == skip["mode"]
            continue
        with pytest.raises(ClauseError, match="was not made by the rewriter"):
            Plan.from_json(text)


def _set(registers, arcs):
    arcs[0]["sets"][0]["register"] = 1


def _begin(registers, arcs):
    registers[1]["initial"]["text"] = "7"


def _declare(registers, arcs):
    registers[0] |= {"type": "way"}


@pytest.mark.parametrize("change", [_set, _begin, _declare])
def test_a_number_of_rows_that_a_kernel_did_not_write_is_refused(change):
    """The last register of AUTOMATON BY ROWS is an index. A made-up number could be outside of its table, or lead in a circle."""
    clause = "ORDER BY id MEASURES n AS n AUTOMATON BY ROWS (REGISTER n INT = 0 STATE q START, f FINAL ARC A FROM q TO f WHEN v > 0 SET n = n + 1)"
    text = make_plan(parse_clause(clause)).to_json()
    whole = json.loads(text)
    registers, arcs = whole["automaton"]["registers"], whole["automaton"]["arcs"]
    assert [register["type"] for register in registers] == ["int", "way"] and Plan.from_json(text)
    change(registers, arcs)
    with pytest.raises(ClauseError, match="was not made by the rewriter"):
        Plan.from_json(json.dumps(whole))


def test_columns_that_the_engine_lacks_are_refused():
    plan = make_plan(parse_clause("PARTITION BY p ORDER BY id MEASURES FIRST(v) AS x PATTERN (A) DEFINE A AS v > 0"))
    partitions = {1: [{"p": 1, "id": 1, "v": 2, "w": 0, "s": "a"}]}
    assert match_table(replace(plan, given=plan.given[:1]), inputs(plan, partitions)).num_rows == 1
    with pytest.raises(ClauseError, match="columns that the engine does not have"):
        match_table(replace(plan, given=("empty",)), inputs(plan, partitions))


def test_a_score_that_rises_and_falls_with_a_number_is_refused():
    assert rising_leaves(("-", ("leaf", 0), ("leaf", 1)), 2).tolist() == [1, -1]
    with pytest.raises(ClauseError, match="rises and falls"):
        rising_leaves(("-", ("leaf", 0), ("leaf", 0)), 1)


@pytest.mark.slow
def test_every_number_of_every_plan():
    """Each place of the plans of the whole case corpus, and of 400 that generators draw, has each value."""
    with made_up.interpreted_only():
        counts, wrong = made_up.sweep(made_up.corpus("whole"), "whole", each=None, structures=40)
    assert wrong == {}
    assert counts["plans"] > 1000


@pytest.mark.slow
def test_compiled_kernels_with_bounds_checks(tmp_path):
    """The same of some plans, by kernels that numba compiles with checks of each index."""
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "SPARKCEP_CACHE_DIR": str(tmp_path), "SPARKCEP_INTERPRET": "false"}
    command = [sys.executable, "-m", "tests.property.plan.made_up_plans", "--compiled", "--plans", "300", "--each", "60", "--seed", "compiled"]
    done = subprocess.run(command, cwd=Path(__file__).resolve().parents[3], env=environment, capture_output=True, text=True, timeout=7200)
    assert done.returncode == 0, done.stdout[-5000:]
