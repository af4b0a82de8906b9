"""Time zone offsets as a table of transitions, for conditions that compute with local clock times as Spark does.

:mod:`sparkcep.compiler.conditions.bytecode` appends the table to its instructions, and :mod:`sparkcep.kernels.vm.clock_times` reads
it there. Names of zones are those of ``spark.sql.session.timeZone``. The offsets come from Python's ``zoneinfo``.
"""

from __future__ import annotations

import functools
import re
import struct
from datetime import datetime
from importlib import resources
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo

import numpy as np

from sparkcep.errors import ClauseError

SECOND = 1_000_000
DAY = 86_400 * SECOND
CYCLE_DAYS = 146_097  # the Gregorian calendar repeats after 400 years, weekdays included
_FIRST, _END = -5_364_662_400, 16_756_761_600  # 1800 and 2501 in seconds since 1970; 2501 is 400 years after all recorded transitions
_STEP = 30 * 86_400
# names that Spark accepts beside those of the time zone database: java.time.ZoneId.SHORT_IDS
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
    """The transitions of a zone: instant and the offset that holds from then on, both in microseconds. int64, shape (n, 2).

    The first offset holds since the beginning of time. The rows of the last 400 years repeat for every later cycle of 400 years.
    Raises ClauseError for a zone that this computer does not know.
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
        message = f"spark.sql.session.timeZone is {zone}, which Python's zoneinfo does not know. Install the package tzdata where Python runs, or use another name of the zone"
        raise ClauseError("SETTING", message, fragment=zone) from None

    def offset_at(second: int) -> int:
        return int(datetime.fromtimestamp(second, region).utcoffset().total_seconds())

    written = _written(name)
    at = max(_FIRST, written[-1] if written else _FIRST)
    known = [second for second in written if second > _FIRST]
    found = [(np.iinfo(np.int64).min, offset_at(_FIRST) * SECOND), *((second * SECOND, offset_at(second) * SECOND) for second in known)]
    # After the last recorded transition the zone's rule holds, which changes clocks twice a year.
    before = offset_at(at)
    while at < _END:
        after = offset_at(at + _STEP)
        if after != before:
            low, high = at, at + _STEP
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset_at(middle) == before else (low, middle)
            found.append((high * SECOND, after * SECOND))
            before = after
        at += _STEP
    return np.array(found, dtype=np.int64)


def have_same_rules(zone: str, other: str) -> bool:
    """Whether two zones have one offset at every instant, such as UTC and Etc/UTC. A zone that this computer does not know equals
    only itself."""
    try:
        return zone == other or np.array_equal(transitions(zone), transitions(other))
    except ClauseError:
        return False


def _written(name: str) -> list[int]:
    """The instants, in seconds, when the zone changes something, as recorded in the database's file (RFC 9636)."""
    file = next((path for folder in TZPATH if (path := Path(folder, name)).is_file()), None) or resources.files("tzdata").joinpath("zoneinfo", name)
    data = file.read_bytes()
    utc, standard, leaps, times, types, letters = struct.unpack(">6l", data[20:44])
    second = 44 + 5 * times + 6 * types + letters + 8 * leaps + standard + utc  # the 64-bit part follows the 32-bit part
    count = struct.unpack(">6l", data[second + 20 : second + 44])[3]
    return list(struct.unpack(f">{count}q", data[second + 44 : second + 44 + 8 * count]))


CYCLE_END = _END * SECOND
