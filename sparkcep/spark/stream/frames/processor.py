"""Searches a bucket of keys under Spark's transformWithStateInPandas, which one query may use several times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from sparkcep.spark.stream.frames.checkpoint import BUCKET
from sparkcep.spark.stream.frames.worker import Search

if TYPE_CHECKING:
    import pandas as pd

_STATE = T.StructType([T.StructField("state", T.BinaryType()), T.StructField("timer", T.LongType())])


class Processor(StatefulProcessor):
    """Calls a :class:`Search` for each bucket.

    The state also stores the time of the bucket's timer, because Spark would have to list timers.
    """

    def __init__(self, search: Search) -> None:
        self.search = search

    def init(self, handle: Any) -> None:
        self.handle, self.state = handle, handle.getValueState(BUCKET, _STATE)

    def handleInputRows(self, key: tuple, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        return self._searched(key, rows, timerValues, expired=False)

    def handleExpiredTimer(self, key: tuple, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        return self._searched(key, iter(()), timerValues, expired=True)

    def close(self) -> None:
        pass

    def _searched(self, key: tuple, rows: Iterator[pd.DataFrame], timers: Any, *, expired: bool) -> Iterator[pd.DataFrame]:
        held = _Held(self.state.get(), timers.getCurrentWatermarkInMs())
        yield from self.search(key, rows, held)
        if held.asked != held.timer:
            if held.timer is not None and not expired:  # Spark itself removes an expired timer
                self.handle.deleteTimer(held.timer)
            self.handle.registerTimer(held.asked)
        if held.value is not None or held.asked != held.timer:
            self.state.update(((held.value or held.get)[0], held.asked))


@dataclass
class _Held:
    """The state of a bucket during one call.

    Attributes:
        found: the state before the call; None for a new bucket.
        watermark: Spark's watermark in milliseconds.
        value: the state after the call; None if it is unchanged.
        asked: the time of the timer to set, in milliseconds.
    """

    found: tuple | None
    watermark: int
    value: tuple | None = None
    asked: int = 0

    @property
    def exists(self) -> bool:
        return self.found is not None

    @property
    def get(self) -> tuple:
        assert self.found is not None
        return self.found[:1]

    @property
    def timer(self) -> int | None:
        return self.found[1] if self.found is not None else None

    def update(self, value: tuple) -> None:
        self.value = value

    def getCurrentWatermarkMs(self) -> int:
        return self.watermark

    def setTimeoutTimestamp(self, timestampMs: int) -> None:
        self.asked = timestampMs + 1  # a timer expires when the watermark reaches it, a GroupState's when the watermark exceeds it
