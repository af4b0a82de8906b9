"""Times of answers have the clock of the session's time zone."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from sparkcep.tracing.rows.local_times import local_time, values_of

UTC = datetime.UTC
TIMES = [datetime.datetime(2026, *at, tzinfo=UTC) for at in ((3, 29, 0, 59, 59), (3, 29, 1), (10, 25, 0, 30), (10, 25, 1, 30), (7, 1, 12), (1, 1, 12))]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"])
def test_values_are_those_of_the_zone(zone):
    found = values_of(pa.chunked_array([pa.array([*TIMES, None], pa.timestamp("us", "UTC"))]), zone)
    assert found == [*TIMES, None]  # the same instants
    assert [at.replace(tzinfo=None) for at in found[:-1]] == [at.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for at in TIMES]


def test_an_hour_that_comes_twice_has_two_instants():
    first, second = values_of(pa.array(TIMES[2:4], pa.timestamp("us", "UTC")), "Europe/Berlin")
    assert first.replace(tzinfo=None) == second.replace(tzinfo=None) and first != second


def test_times_without_a_zone_and_other_values_stay():
    assert local_time(0, None) == datetime.datetime(1970, 1, 1)
    naive = pa.array([datetime.datetime(2026, 1, 1)], pa.timestamp("us"))
    assert values_of(naive, "Asia/Kolkata") == naive.to_pylist() and values_of(pa.array([1, None]), "UTC") == [1, None]


@pytest.mark.parametrize("zone, at", [("America/Los_Angeles", datetime.datetime(9999, 12, 31, 23, 59, 59)), ("Europe/Berlin", datetime.datetime(1, 1, 1))])
def test_times_whose_instant_is_of_no_year(zone, at):
    """The first and the last time, as tables have them for "always" and "never". In UTC they are of the year 0 or 10000."""
    utc = (at - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    offset = ZoneInfo(zone).utcoffset(at)
    assert offset is not None
    found = local_time(utc - offset // datetime.timedelta(microseconds=1), zone)
    assert found.replace(tzinfo=None) == at and found - found == datetime.timedelta(0)


def test_a_string_that_is_not_utf8_is_bytes():
    strings = pa.array([b"a", b"\xff", None], pa.binary()).view(pa.string())
    assert values_of(strings, "UTC") == ["a", b"\xff", None]
    assert values_of(pa.chunked_array([pa.StructArray.from_arrays([strings], names=["s"])]), "UTC") == [{"s": "a"}, {"s": b"\xff"}, {"s": None}]
