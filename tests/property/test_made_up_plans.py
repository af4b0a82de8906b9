"""Plans that somebody made up: an error of ours or rows, and no index outside an array, whatever a plan says."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.property import made_up_plans as made_up
from tests.selection import first


@pytest.mark.parametrize("seed", first(range(8)))
def test_changed_plans_give_rows_or_an_error_of_ours(seed):
    rng = random.Random(f"made-up plans {seed}")
    files = rng.sample(sorted(made_up.CASES.glob("**/*.test")), 5)
    plans = list({made_up.shape(plan): plan for plan in made_up.of_cases(files)}.values())
    plans = [*rng.sample(plans, min(8, len(plans))), *(made_up.drawn(rng) for _ in range(8))]
    with made_up.interpreted_only():
        counts, wrong = made_up.sweep(plans, str(seed), each=30, structures=6)
    assert wrong == {}
    assert counts["changes"] > 300 and counts["rows"] > 50 and counts["SPARKCEP.ARGUMENT"] > 50


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
    command = [sys.executable, "-m", "tests.property.made_up_plans", "--compiled", "--plans", "300", "--each", "60", "--seed", "compiled"]
    done = subprocess.run(command, cwd=Path(__file__).resolve().parents[2], env=environment, capture_output=True, text=True, timeout=7200)
    assert done.returncode == 0, done.stdout[-5000:]
