"""Offsets of time zones, and the instructions that read them, against Python's own dates and times."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from sparkcep.compiler.conditions.bytecode import OP
from sparkcep.compiler.conditions.time_zones import DAY, SECOND, have_same_rules, transitions
from sparkcep.errors import ClauseError
from sparkcep.kernels.vm.clock_times import zoned

EPOCH = datetime(1970, 1, 1)


def run(op: str, zone: str, value: int, other: int = 0, kind: int = 0) -> int:
    table = transitions(zone)
    code = np.zeros((len(table), 5), dtype=np.int64)
    code[:, :2] = table
    si, sn = np.array([value, other], dtype=np.int64), np.zeros(2, dtype=np.uint8)
    _, bad = zoned(OP[op], 0, len(table), kind, code, 1 if op.startswith("ADD") else 0, si, sn)
    assert bad == 0
    return int(si[0])


def micros(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)


def utc(at: datetime) -> int:
    return micros(at.astimezone(UTC).replace(tzinfo=None))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu", "Africa/Casablanca"])
def test_local_times_and_instants(zone):
    rng, region = random.Random(zone), ZoneInfo(zone)
    changes = [EPOCH + timedelta(microseconds=int(at)) for at in transitions(zone)[1:, 0]]
    for _ in range(300):
        near = rng.choice(changes) if rng.random() < 0.7 else datetime(1850, 1, 1) + timedelta(days=rng.randrange(300_000))
        local = near + timedelta(seconds=rng.randrange(-90_000, 90_000), microseconds=rng.choice([0, 1, 999_999]))
        instant = utc(local.replace(tzinfo=region))
        assert run("INSTANT", zone, micros(local)) == instant
        there = (EPOCH + timedelta(microseconds=instant)).replace(tzinfo=UTC).astimezone(region)
        assert run("LOCAL", zone, instant) == micros(there.replace(tzinfo=None))
        days, rest = rng.randrange(-400, 400), rng.randrange(-DAY + 1, DAY)
        rest = abs(rest) if days > 0 else -abs(rest) if days < 0 else rest
        # the offset is kept where the later time has it, too
        later = [(there.replace(tzinfo=None) + timedelta(days=days)).replace(tzinfo=region, fold=fold) for fold in (0, 1)]
        kept = [at for at in later if at.utcoffset() == there.utcoffset() and at.astimezone(UTC).astimezone(region).utcoffset() == at.utcoffset()]
        expected = instant if days == 0 else utc(kept[0] if kept else later[0])
        assert run("ADDTIME", zone, instant, days * DAY + rest) == expected + rest, (local, days, rest)


@pytest.mark.parametrize(("day", "months", "expected"), [
    ("2024-01-31", 1, "2024-02-29"), ("2023-01-31", 1, "2023-02-28"), ("2024-02-29", 12, "2025-02-28"), ("2024-03-31", -1, "2024-02-29"), ("1600-12-31", 2, "1601-02-28"),
    ("1999-12-15", 1, "2000-01-15"), ("2100-03-31", -13, "2099-02-28"), ("0001-01-31", 23, "0002-12-31"),
    ("2024-03-31", 1, "2024-04-30"), ("2024-08-31", -2, "2024-06-30"), ("2024-07-31", 2, "2024-09-30"), ("2024-12-31", -1, "2024-11-30"),
])  # fmt: skip
def test_months(day, months, expected):
    days = [(datetime.fromisoformat(text) - EPOCH).days for text in (day, expected)]
    assert run("ADDMONTHS", "UTC", days[0], months) == days[1]
    assert run("ADDMONTHS", "Europe/Berlin", days[0] * DAY + SECOND, months, 1) == days[1] * DAY + SECOND


def test_names_of_zones():
    assert transitions("+05:30")[:, 1].tolist() == transitions("UTC+5:30")[:, 1].tolist() == [19_800 * SECOND]
    assert transitions("EST")[0, 1] == transitions("GMT-5")[0, 1] == -18_000 * SECOND
    assert transitions("Z")[0, 1] == transitions("UTC")[0, 1] == 0
    assert (transitions("PST") == transitions("America/Los_Angeles")).all()
    with pytest.raises(ClauseError, match="zoneinfo does not know"):
        transitions("Nowhere/At_All")


def test_zones_with_the_same_rules():
    """Names of one zone are equal, and zones whose clocks differed once are not."""
    for name in ("Etc/UTC", "Z", "+00:00", "GMT", "UTC+0", "Etc/GMT", "Zulu", "Etc/UCT"):
        assert have_same_rules("UTC", name) and have_same_rules(name, "UTC"), name
    assert have_same_rules("Asia/Calcutta", "Asia/Kolkata") and have_same_rules("PST", "America/Los_Angeles") and have_same_rules("Etc/GMT-5", "+05:00")
    for one, other in (("UTC", "Europe/London"), ("Europe/Berlin", "Europe/Madrid"), ("Asia/Kolkata", "+05:30"), ("UTC", "Nowhere/At_All")):
        assert not have_same_rules(one, other), other
    assert have_same_rules("Nowhere/At_All", "Nowhere/At_All")
