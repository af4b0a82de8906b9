"""The backtracking algorithm of SASE+ against the engine."""

from __future__ import annotations

import numpy as np
import pytest

from tests.benchmarks import sase
from tests.papers.backtracking import backtrack
from tests.selection import first


@pytest.mark.parametrize("name", first(["p2s2", "p1s3", "p3*s3", "p2s3", "p3s2", "p3s3", "p3*s2"], 2, wider=7))
def test_backtracking_finds_the_matches_of_the_engine(name):
    columns = sase.stream(4000, 0.7)
    every = sase.once(columns, name[:-2], name[-2:], 60)
    found = backtrack(columns, name[:2], name[-2:] == "s3", 60, "*" in name)
    assert (found.matches, found.rows) == (every["matches"], every["rows"]) and found.rows > 0


def test_reads_are_counted():
    """At 500 a run begins. The row with a small volume is read again for the deferred b."""
    columns = {"symbol": np.zeros(4, dtype=np.int64), "price": np.array([500, 501, 502, 503]), "volume": np.array([900, 900, 100, 900])}
    assert backtrack(columns, "p1", True, 10, False) == (1, 3, 4 + 3 + 1)
