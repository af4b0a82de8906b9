"""Random streams of every family against tables, by the command that counts them."""

from __future__ import annotations

import pytest

from tests.property.stream import stream_cases
from tests.selection import one_in

FAMILIES = [*stream_cases.FAMILIES, *stream_cases.WIDER]


@pytest.mark.parametrize("family", [*stream_cases.FAMILIES, *one_in(4, stream_cases.WIDER)])
def test_a_case_of_each_family(family):
    tally = stream_cases.some(family, 1, "one")
    assert (tally.cases, tally.differ) == (1, []) and tally.rows > 0


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_ten_thousand_cases(family):
    cases = dict(stream_cases.shares(10_000, FAMILIES))[family]
    tally = stream_cases.some(family, cases, "tests")
    assert (tally.cases, tally.differ) == (cases, []) and tally.rows > 2 * cases


def test_what_differs_is_told(monkeypatch, capsys):
    """A case is found again by its name, and alone."""

    def differing(rng):
        number = rng.random()
        assert number < 0.5
        return "a statement", 3

    monkeypatch.setattr(stream_cases, "FAMILIES", {"numbers": differing})
    tally = stream_cases.some("numbers", 9, "0")
    assert tally.cases == 9 and 0 < len(tally.differ) < 9 and tally.rows == 3 * (9 - len(tally.differ))
    assert stream_cases.main(["--case", tally.differ[0][0]]) == 1
    assert "number < 0.5" in capsys.readouterr().out
    assert list(stream_cases.shares(10, ["a", "b", "c"])) == [("a", 3), ("b", 3), ("c", 4)]
