"""The parts of the benchmark run to their end over few rows."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.benchmarks import afa

PARTS = {
    "kernels": 20_000, "afa": 40_000, "acep": 20_000, "budget": 20_000, "sase": 80_000, "open": 20_000, "sliding": 20_000, "rewriting": 20_000, "editor": 20_000,
    "aggregates": 20_000, "why": 20_000, "sequences": 20_000, "unfinished": 20_000, "query": 20_000, "streams": 20_000, "shell": 20_000, "cold": 20_000,
}  # fmt: skip


def test_bytes_of_an_automaton():
    assert afa.state(afa.clause(window=50), afa.quotes(200, 0.5)) > 0
    some = afa.promised(afa.late(afa.quotes(2000, 0.5), 0.05, 100), 100, 200)
    text = afa.clause(1, 50, changes=afa.CHANGED.format(""))
    assert 0 < afa.kept(text, some) < afa.kept(text, some, cleans=False)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_a_part_ends(part, tmp_path):
    command = [sys.executable, "-m", "tests.benchmarks", part, "--rows", str(PARTS[part]), "--json", str(tmp_path / "found.json"), "--repeats", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "found.json").stat().st_size > 100
