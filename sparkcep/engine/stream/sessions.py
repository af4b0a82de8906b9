"""Sessions of the keys of a stream: a key's rows are cut where two neighbours are so far apart in event time that the key counts as
idle.

Each session is a partition of its own. Of those of a key all but the last have ended, and the last one has when no row to come can
be near enough to its last row. Of that one a key's state has the time of the last row that was released.
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
    """The sessions of some rows. int64: ``of`` (rows), the number of the session of each; ``sizes`` and ``key`` (sessions), how
    many of these rows each has, and its key; ``last`` (keys), the last session of each; ``clock`` (keys), the time of that
    one's last row, NO_CLOCK where there is none. ``going`` bool (sessions): whether rows of it may still come."""

    of: np.ndarray
    sizes: np.ndarray
    key: np.ndarray
    last: np.ndarray
    going: np.ndarray
    clock: np.ndarray

    @staticmethod
    def whole(of: np.ndarray, keys: int) -> Sessions:
        """Each key is one session, which never ends."""
        each = np.arange(keys)
        return Sessions(of, np.bincount(of, minlength=keys), each, each, np.ones(keys, dtype=bool), np.full(keys, NO_CLOCK))

    @staticmethod
    def cut(of: np.ndarray, time: np.ndarray, clock: np.ndarray, idle: int, watermark: int | None) -> Sessions:
        """``of`` int64 (rows): the key of each, ascending; ``time`` int64: its time in microseconds, ascending in each key;
        ``clock`` int64 (keys): as it was before these rows; ``idle``: from how many microseconds on two neighbours are apart;
        ``watermark``: the time that rows to come are behind, None where any may come. Raises MatchRuntimeError for a clock that is
        later than a row."""
        before = np.concatenate([time[:1], time[:-1]])
        first = np.diff(of, prepend=-1) != 0
        before[first] = clock[of[first]]
        known = before != NO_CLOCK
        apart = np.zeros(len(of), dtype=bool)
        if (time[known] < before[known]).any():  # rows are in order, so that a clock is wrong
            raise damaged("a key", "begin with a new checkpoint")
        apart[known] = (time[known] - before[known]).view(np.uint64) >= idle  # times may be more than 63 bits apart
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
        """bool (keys): whether the last session of each goes on."""
        return self.going[self.last]

    def spread(self, states: pa.Array) -> pa.Array:
        """The states of keys as those of their first sessions; the others begin."""
        if len(self.key) == len(self.last):
            return states
        begins = np.diff(self.key, prepend=-1) != 0
        return pc.if_else(pa.array(begins), states.take(pa.array(self.key)), NO_BYTES)

    def gathered(self, states: pa.Array) -> pa.Array:
        """The states of sessions that go on as those of their keys."""
        goes = self.goes
        if goes.all():
            return states
        place = np.cumsum(goes) - 1
        return pa.chunked_array([states, pa.array([b""], states.type)]).combine_chunks().take(pa.array(np.where(goes, place, len(states))))

    def of_keys(self, values: np.ndarray, other: int) -> np.ndarray:
        """int64 (keys): ``values`` of the sessions that go on, and ``other`` of keys of which none does."""
        out = np.full(len(self.last), other)
        out[self.goes] = values
        return out


def written(clock: np.ndarray) -> pa.Array:
    """Clocks as bytes: each as int64, then inverted, so that a flipped bit is found."""
    both = np.stack([clock, ~clock], axis=1).astype("<i8")
    pieces = Sections(both.ravel(), 2 * np.arange(len(clock) + 1)).pieces()
    return pc.if_else(pa.array(clock != NO_CLOCK), pieces, NO_BYTES)


def read(column: pa.Array) -> np.ndarray:
    """Clocks back from bytes, also of version 0.1.0, which wrote them once. Raises MatchRuntimeError."""
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
    """int64: the numbers at those places of bytes."""
    return np.frombuffer(bytes_of(slices(data, begins, begins + 8))[0], dtype="<i8", count=len(begins))
