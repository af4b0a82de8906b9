"""Values of columns for answers: times have the clock of the session's time zone.

Spark hands on TIMESTAMP as Arrow's timestamps in UTC, also if the session's zone is another one.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from sparkcep.columns.comparable import readable
from sparkcep.compiler.conditions.time_zones import transitions

_EPOCH = datetime.datetime(1970, 1, 1)


def local_time(micros: int, zone: str | None) -> datetime.datetime:
    """A time in microseconds by the clock of a zone, with its offset; without a zone (TIMESTAMP_NTZ) the time itself."""
    if zone is None:
        return _EPOCH + datetime.timedelta(microseconds=micros)
    table = transitions(zone)
    offset = int(table[max(int(np.searchsorted(table[:, 0], micros, side="right")) - 1, 0), 1])
    local = _EPOCH + datetime.timedelta(microseconds=micros + offset)  # the time in UTC may be of the year 0 or 10000
    return local.replace(tzinfo=datetime.timezone(datetime.timedelta(microseconds=offset)))


def values_of(column: pa.ChunkedArray | pa.Array, zone: str) -> list[Any]:
    """The values of a column, TIMESTAMP by the clock of the session's zone. A string that is not UTF-8 becomes bytes."""
    if not pa.types.is_timestamp(column.type) or column.type.tz is None:
        return readable(column)
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    return [None if at is None else local_time(at, zone) for at in micros]
