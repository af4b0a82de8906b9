"""Offsets of a time zone as a table of transitions, for conditions that compute with local clock times as Spark does.

:mod:`sparkcep.columns.bytecode` puts the table behind its instructions, and :mod:`sparkcep.search.zoned` reads it there. Names of
zones are those of ``spark.sql.session.timeZone``; the offsets come from Python's ``zoneinfo``.
"""

from __future__ import annotations

import functools
import re
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np

from sparkcep.errors import ClauseError

SECOND = 1_000_000
DAY = 86_400 * SECOND
CYCLE_DAYS = 146_097  # the Gregorian calendar repeats after 400 years, weekdays included
_DAILY, _WEEKLY, _END = 1800, 2100, 2501  # years: where zones may change on any day, where only their last rule holds, one cycle behind that
# what Spark takes beside names of the time zone database: java.time.ZoneId.SHORT_IDS
_SHORT = {
    "EST": "-05:00", "HST": "-10:00", "MST": "-07:00", "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?:(Z)|([+-])(\d{1,2})(?::?(\d{1,2})(?::?(\d{2}))?)?)?")


@functools.lru_cache(maxsize=16)
def transitions(zone: str) -> np.ndarray:
    """Instants in microseconds and the offset that holds from each on, int64 (n, 2).

    The first offset has no beginning. The rows of the last 400 years hold for every later cycle of 400 years. Raises ClauseError for
    a zone that this computer does not know.
    """
    name = _SHORT.get(zone, zone)
    fixed = _OFFSET.fullmatch(name)
    if fixed is not None:
        hours, minutes, seconds = (int(part or 0) for part in fixed.groups()[2:])
        offset = (hours * 3600 + minutes * 60 + seconds) * (-1 if fixed[2] == "-" else 1)
        return np.array([[np.iinfo(np.int64).min, offset * SECOND]], dtype=np.int64)
    try:
        region = ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        message = f"spark.sql.session.timeZone is {zone}, which Python's zoneinfo does not know; install the package tzdata where Python runs, or take another name of the zone"
        raise ClauseError("SETTING", message, fragment=zone) from None

    def offset_at(second: int) -> int:
        return int(datetime.fromtimestamp(second, region).utcoffset().total_seconds())

    at = _first_second(_DAILY)
    before = offset_at(at)
    found = [(np.iinfo(np.int64).min, before * SECOND)]
    while at < _first_second(_END):
        step = 86_400 if at < _first_second(_WEEKLY) else 7 * 86_400
        after = offset_at(at + step)
        if after != before:
            low, high = at, at + step
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset_at(middle) == before else (low, middle)
            found.append((high * SECOND, after * SECOND))
            before = after
        at += step
    return np.array(found, dtype=np.int64)


def _first_second(year: int) -> int:
    return (datetime(year, 1, 1, tzinfo=timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(seconds=1)


CYCLE_END = _first_second(_END) * SECOND
