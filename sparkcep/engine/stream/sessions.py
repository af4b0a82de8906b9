"""Session windows over a stream: a key's rows are cut where two neighbours are at least the idle time apart in event time.

:class:`sparkcep.engine.stream.keyed_stream.KeyedStream` uses it if the plan has an idle time. Each session is a partition of its
own. All sessions of a key but the last have ended. The last one ends when no future row can be near enough to its last row, so a
key's state has the time of its last released row.

Example: the idle time is 10. A key's rows at 1, 5 and 17 form the sessions (1, 5) and (17). At watermark 26 or later the last
session has ended, because a future row is at least at 27.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.row_codec import Sections, bytes_of, slices
from sparkcep.engine.core.state_codec import NO_BYTES, damaged

NO_CLOCK = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Sessions:
    """The sessions of some rows.

    Attributes:
        of: int64 (rows), the session of each row.
        sizes: int64 (sessions), how many of these rows each has.
        key: int64 (sessions), its key.
        last: int64 (keys), the last session of each key.
        going: bool (sessions), whether the session may still get rows.
        clock: int64 (keys), the time of the last row of the last session; NO_CLOCK if there is none or the session has ended.
    """

    of: np.ndarray
    sizes: np.ndarray
    key: np.ndarray
    last: np.ndarray
    going: np.ndarray
    clock: np.ndarray

    @staticmethod
    def whole(of: np.ndarray, keys: int) -> Sessions:
        """One session for each key, which never ends."""
        each = np.arange(keys)
        return Sessions(of, np.bincount(of, minlength=keys), each, each, np.ones(keys, dtype=bool), np.full(keys, NO_CLOCK))

    @staticmethod
    def cut(of: np.ndarray, time: np.ndarray, clock: np.ndarray, idle: int, watermark: int | None) -> Sessions:
        """Cuts rows into sessions. Raises MatchRuntimeError if a clock is later than a row.

        Args:
            of: int64 (rows), the keys, ascending.
            time: int64 (rows), in microseconds, ascending in each key.
            clock: int64 (keys), the clocks before these rows.
            idle: the distance in microseconds that separates two neighbours.
            watermark: future rows are later; None if they may have any time.
        """
        before = np.concatenate([time[:1], time[:-1]])
        first = np.diff(of, prepend=-1) != 0
        before[first] = clock[of[first]]
        known = before != NO_CLOCK
        apart = np.zeros(len(of), dtype=bool)
        if (time[known] < before[known]).any():  # the rows are in order, so a clock is damaged
            raise damaged("a key", "begin with a new checkpoint")
        apart[known] = (time[known] - before[known]).view(np.uint64) >= idle  # unsigned, because two times may be 64 bits apart
        more = np.bincount(of[apart], minlength=len(clock))
        last = np.cumsum(more + 1) - 1
        key = np.repeat(np.arange(len(clock)), more + 1)
        session = of + np.cumsum(apart)
        now = clock.copy()
        tails = np.flatnonzero(np.diff(of, append=-1) != 0)
        now[of[tails]] = time[tails]
        going = np.zeros(len(key), dtype=bool)
        going[last] = True if watermark is None else (now == NO_CLOCK) | (now > watermark + 1 - idle)
        return Sessions(session, np.bincount(session, minlength=len(key)), key, last, going, np.where(going[last], now, NO_CLOCK))

    @property
    def goes(self) -> np.ndarray:
        """Whether the last session of each key may still get rows. bool (keys)."""
        return self.going[self.last]

    def spread(self, states: pa.Array) -> pa.Array:
        """The states of keys as states of their first sessions. The other sessions begin without a state."""
        if len(self.key) == len(self.last):
            return states
        begins = np.diff(self.key, prepend=-1) != 0
        return pc.if_else(pa.array(begins), states.take(pa.array(self.key)), NO_BYTES)

    def gathered(self, states: pa.Array) -> pa.Array:
        """The states of the sessions that may still get rows, as states of their keys."""
        goes = self.goes
        if goes.all():
            return states
        place = np.cumsum(goes) - 1
        return pa.chunked_array([states, pa.array([b""], states.type)]).combine_chunks().take(pa.array(np.where(goes, place, len(states))))

    def of_keys(self, values: np.ndarray, other: int) -> np.ndarray:
        """``values`` of the sessions that may still get rows, by keys; ``other`` for keys without such a session. int64 (keys)."""
        out = np.full(len(self.last), other)
        out[self.goes] = values
        return out


def written(clock: np.ndarray) -> pa.Array:
    """Clocks as bytes: int64, then its complement, so that a flipped bit is detected."""
    both = np.stack([clock, ~clock], axis=1).astype("<i8")
    pieces = Sections(both.ravel(), 2 * np.arange(len(clock) + 1)).pieces()
    return pc.if_else(pa.array(clock != NO_CLOCK), pieces, NO_BYTES)


def read(column: pa.Array) -> np.ndarray:
    """Reads clocks, also those of version 0.1.0, which lack the complement. Raises MatchRuntimeError if they are damaged."""
    data, ends = bytes_of(column)
    sizes = np.diff(ends)
    clock = np.full(len(sizes), NO_CLOCK)
    known, twice = np.flatnonzero(sizes), np.flatnonzero(sizes == 16)
    if np.isin(sizes, (0, 8, 16)).all():
        clock[known] = _times(data, ends[known])
        if np.array_equal(_times(data, ends[twice] + 8), ~clock[twice]):
            return clock
    raise damaged("a key", "begin with a new checkpoint")


def _times(data: pa.Buffer, begins: np.ndarray) -> np.ndarray:
    """The int64 numbers at the given places of ``data``."""
    return np.frombuffer(bytes_of(slices(data, begins, begins + 8))[0], dtype="<i8", count=len(begins))
