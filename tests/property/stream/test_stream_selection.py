"""EVENT SELECTION over a stream, against the answer over the same rows in a table."""

from __future__ import annotations

import random

import pytest

from tests.property.stream.statements import (
    SELECTIONS,
    compared_clause,
    compared_of_kind,
)
from tests.property.stream.streams import (
    compared,
)
from tests.selection import first, one_in


@pytest.mark.parametrize("text", one_in(4, SELECTIONS))
def test_each_clause(text):
    compared_clause(text, 14)


@pytest.mark.parametrize("seed", first(range(16), wider=2))
def test_random_statements(seed):
    compared_of_kind("event selection", seed)


@pytest.mark.parametrize("strategy", ["STRICT CONTIGUITY", "SKIP TILL NEXT MATCH", "SKIP TILL ANY MATCH"])
@pytest.mark.parametrize("pattern", first(["(A B | C) | (A A | B)", "B | C | A", "B | C | B | A"], wider=3))
def test_of_non_overlapping_matches_that_end_together_the_preferred_one_is_told(pattern, strategy):
    text = (
        f"PARTITION BY p ORDER BY id MEASURES FIRST(id) AS m_first, LAST(id) AS m_last, CLASSIFIER() AS m_class AFTER MATCH SKIP PAST LAST ROW EVENT SELECTION {strategy} ALL MATCHES "
        f"PATTERN ({pattern}) WINDOW INTERVAL '8' MICROSECONDS DEFINE B AS v > 0, C AS v > 1"
    )
    assert sum(compared(text, random.Random(seed), 5, 8) for seed in range(8)) > 80
