"""Unfinished matches of random clauses over random streams, compared with the oracle at every watermark (law 3)."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from sparkcep.engine.core.operator import NOTHING_DUE
from tests.property.in_process import drained
from tests.property.stream.streams import HEAD, PLAIN, WINDOW, rows_of, stream_over, timed
from tests.property.unfinished.unfinished_streams import compared, without_clock
from tests.selection import first

CASES = 18
SHOWN = "ONE ROW PER MATCH SHOW UNFINISHED MATCHES"
FUNNEL = f"{HEAD} {PLAIN}{{}} {{}} EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B C) WINDOW INTERVAL '50' MICROSECONDS DEFINE A AS v > 0, B AS v > 2, C AS v > 9"

@pytest.mark.parametrize("seed", first(range(54), wider=2))
def test_engine_and_oracle_agree_at_every_watermark(seed):
    counts: Counter = Counter()
    assert [found for i in range(CASES) if (found := compared(random.Random(f"law 3 {seed} {i}"), counts)) is not None] == []
    assert counts["watermarks"] > 40 and counts["TIMED OUT"] + counts["BROKEN"] > 0


def test_a_match_waits_for_its_closing_negation_beside_a_row_that_a_loop_takes():
    """The row does not report the match, because the window of the negation is open."""
    assert compared(random.Random("law 3 39 3"), Counter()) is None


@pytest.mark.parametrize("seed", first(range(4), wider=2))
@pytest.mark.parametrize("shape", ["letters with negation", "negation"])
def test_negations(shape, seed):
    """The search for matches waits longer for these than a start row is undecided."""
    counts: Counter = Counter()
    for i in range(CASES * seed, CASES * (seed + 1)):
        assert compared(random.Random(f"{shape} {i}"), counts, shapes=(shape,)) is None
    assert counts["streams"] > CASES // 2


@pytest.mark.parametrize("seed", first(range(6), wider=2))
def test_sessions_of_idle_keys(seed):
    """Open runs end with their session, and the next one starts over."""
    counts: Counter = Counter()
    for i in range(5):
        assert compared(random.Random(f"idle {seed} {i}"), counts, idle=1 + (seed + i) % 7) is None
    assert counts["sessions"] > 1


def test_the_state_is_as_large_as_without_the_option():
    rows = rows_of(random.Random(3), 20, 30)
    sizes = []
    for own, shown in (("", ""), (", MATCH_STATUS() AS st, MATCH_ENDED_AT() AS at, MATCH_EXPECTED() AS x", SHOWN)):
        plan = without_clock(FUNNEL.format(own, shown))
        table = timed(plan, rows)
        keys = np.unique(np.asarray(table.column("__p0")), return_inverse=True)[1].astype(np.int64)
        _, kept = drained(stream_over(plan, table).advance(table, keys, [b""] * (int(keys.max()) + 1), 40))
        sizes.append(sum(map(len, kept.states)))
    assert sizes[0] > 5000 and sizes[1] <= 1.3 * sizes[0], sizes


def test_a_silent_key_is_due_when_its_last_window_ends():
    """Its state is empty afterwards."""
    plan = without_clock(f"{HEAD} FIRST(id) AS a, MATCH_ENDED_AT() AS z, MATCH_STATUS() AS st {SHOWN} EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B) {WINDOW} DEFINE A AS v = 1, B AS v = 2")
    table = timed(plan, {0: [{"id": 3, "v": 1, "w": 0, "s": None}, {"id": 6, "v": 1, "w": 0, "s": None}]})
    stream = stream_over(plan, table)
    told, left = drained(stream.advance(table, np.zeros(2, dtype=np.int64), [b""], 6))
    assert told == [] and left.due.tolist() == [7]
    for watermark, due, statuses in ((6, 7, []), (7, 10, ["TIMED OUT"]), (9, 10, []), (10, NOTHING_DUE, ["TIMED OUT"])):
        told, left = drained(stream.advance(table.slice(0, 0), np.zeros(0, dtype=np.int64), left.states, watermark))
        status = dict(plan.outputs)["st"]
        assert [value for some in told for value in some.column(status).to_pylist()] == statuses and left.due.tolist() == [due]
    assert left.states == [b""]
