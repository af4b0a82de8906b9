"""MATCH BUNDLES over a stream, and saved bundles that are damaged or of another pattern."""

from __future__ import annotations

import numpy as np
import pytest

from sparkcep.errors import MatchRuntimeError
from tests.property.in_process import drained
from tests.property.stream.statements import (
    BUNDLES,
    compared_clause,
)
from tests.property.stream.streams import (
    planned,
    stream_over,
    timed,
)
from tests.selection import one_in


@pytest.mark.parametrize("text", one_in(12, BUNDLES, 3))
def test_each_clause(text):
    compared_clause(text, 20)


PLACED = [text for text in BUNDLES if "MICROSECONDS" in text and "UNMATCHED" not in text]


@pytest.mark.parametrize("text", PLACED)
def test_a_damaged_bundle_is_an_error_or_read(text):
    """A changed byte is an error if numbers point outside of the state, or if ways are not in the net."""
    plan = planned(text.replace(" PATTERN", ", MISSING() AS m PATTERN"))
    table = timed(plan, {0: [{"id": i + 1, "v": v, "w": w, "s": None} for i, (v, w) in enumerate([(1, 1), (3, 1), (4, 2), (0, 1), (3, 2), (1, 1), (4, 2), (2, 1)])]})
    stream = stream_over(plan, table)
    _, left = drained(stream.advance(table, np.zeros(table.num_rows, dtype=np.int64), [b""], 8))
    (state,), refused = left.states, 0
    for at in range(0, len(state), 3):
        damaged = state[:at] + bytes([state[at] ^ 0x55]) + state[at + 1 :]
        try:
            drained(stream.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), [damaged], 100))
        except MatchRuntimeError as error:
            assert error.error_class in ("SPARKCEP.STATE_FORMAT", "SPARKCEP.COUNT_RANGE"), error  # a number may be any
            refused += 1
    assert refused > 0.2 * len(state) / 3


def test_a_bundle_of_another_pattern_is_none():
    text = next(text for text in PLACED if "B AS v > A.v" in text)
    states = []
    for pattern in ("(A B C)", "(A B? C)"):
        plan = planned(text.replace("(A B C)", pattern))
        table = timed(plan, {0: [{"id": i + 1, "v": i % 4, "w": 1, "s": None} for i in range(8)]})
        stream = stream_over(plan, table)
        states.append(drained(stream.advance(table, np.zeros(8, dtype=np.int64), [b""], 8))[1].states)
    with pytest.raises(MatchRuntimeError, match="another pattern"):
        drained(stream.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), states[0], 9))
