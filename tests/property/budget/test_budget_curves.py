"""The shapes of RC-ACEP's Figures 9, 10, 12, 14 and 15 by a clock that counts (``python -m tests.benchmarks budget --time``)."""

from __future__ import annotations

import pytest

from tests.benchmarks import budget_time as timing
from tests.benchmarks.budget import LETTERS_QUERY, PROMISING, STREAMS, Recall, learnt, stream
from tests.selection import further


@pytest.mark.parametrize("name, rows", [("Q1", 4_000), further(pytest.param("Q1", 20_000)), further(pytest.param("Q5", 60_000))])
def test_more_is_found_in_more_time_and_by_a_history_sooner(name, rows):
    found = timing.curves(timing.subject(name, rows), "counted")
    assert timing.flaws(found) == []
    assert any(bundles < 0.4 for _, bundles in found[timing.FIFO]) and found[timing.FIFO][-1][1] >= 0.98


@pytest.mark.further
@pytest.mark.parametrize("name", ["a missing, noise of all", "drifting from a to e"])
def test_a_sketch_loses_few_bundles(name):
    taught, tested = stream(20_000, 1, **STREAMS[name]), stream(20_000, 2, **STREAMS[name])
    of = timing.Subject(Recall(tested, "PROXY MATCHES", LETTERS_QUERY, {}), LETTERS_QUERY, learnt(taught, "PROXY", timing.INTERVALS))
    pairs = timing.sketched(of, "counted")
    assert max(whole - sketched for some in pairs.values() for whole, sketched in some) <= 0.05 and min(sketched for _, sketched in pairs[PROMISING]) > 0


@pytest.mark.further
def test_proxies_find_as_many_bundles_as_all_runs():
    pairs = [pair for some in timing.proxies(5_000, "counted").values() for pair in some]
    assert max(every - proxies for every, proxies in pairs) <= 0.05 and min(proxies for _, proxies in pairs) > 0.9


@pytest.mark.further
def test_a_refilled_history_follows_a_stream_that_changes():
    """Words lack other letters from day 3 on. A fixed history then finds less. One that refills nearly keeps up with the stream.

    The stream was chosen because a fixed history loses on it."""
    found = timing.days(6_000, True, "counted")
    fixed, refilled, same = (found[label] for label in (timing.EARLY, timing.REFILLED, timing.SAME))
    assert min(a - b for (a, _), (b, _) in zip(same[1:], fixed[1:])) >= 0.1 and fixed[0][0] >= 0.9
    assert max(a - b for (_, a), (_, b) in zip(same, refilled)) <= 0.05 and min(a - b for (a, _), (b, _) in zip(refilled[1:], fixed[1:])) >= 0.05
    steady = timing.days(6_000, False, "counted")
    assert max(a - b for label in (timing.EARLY, timing.REFILLED) for (_, a), (_, b) in zip(steady[timing.SAME], steady[label])) <= 0.03
