"""The cost that EXPLAIN shows against the counted steps of the kernels, over partitions of three sizes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.property.kernels.cost_claims import SIZES, clauses
from tests.selection import first

PARTS = 8
SLACK = 300  # steps, of what is done once
LINEAR, QUADRATIC = 2.2, 6.0  # the most that twice as many rows may take; cubic work takes eight times as much
# a match with values of its own for each row is quadratic; of the other words none depends on the number of rows
GROWING = ("rows of a match", "rows of an attempt", "values of the match", "classes of runs", "candidates")


def growth(cost: str) -> float:
    """The most that the steps may grow where the rows become twice as many."""
    if cost.startswith("O(matches)"):
        return QUADRATIC  # of windows of so many rows; all matches are listed
    assert cost.startswith("O(rows"), cost
    factors = cost.partition("(")[2].partition(")")[0].split(" x ")[1:]
    return LINEAR if not any(word in factor for factor in factors for word in GROWING) else QUADRATIC


@pytest.mark.process
@pytest.mark.parametrize("part", first(range(PARTS), wider=1))
def test_steps_grow_as_explain_says(part):
    command = [sys.executable, "-m", "tests.property.kernels.cost_claims", str(part), str(PARTS)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3], env=os.environ | {"SPARKCEP_INTERPRET": "always"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert len(found) >= len(clauses()) // PARTS > 4
    for text, cost, steps in found:
        for name, counts in steps.items():
            for small, large in zip(counts, counts[1:]):
                assert large <= growth(cost) * small + SLACK, (text, cost, name, counts, SIZES)


def test_growth_of_costs():
    assert growth("O(rows)") == growth("O(rows x states x k)") == LINEAR
    assert growth("O(rows x rows of a match x states)") == growth("O(rows x values of the match that conditions still need)") == QUADRATIC
