"""Reads saved states for reports: how long each key has had a match in progress, and how many rows it keeps.

The reports of :mod:`sparkcep.spark.report` use it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import words
from sparkcep.compiler.emission import window_of
from sparkcep.engine.stream.keyed_stream import KeyedStream
from sparkcep.plan.options import MICROS


@dataclass(frozen=True)
class StateSummary:
    """A summary of states. All arrays are by states.

    Attributes:
        open: bool, whether a match may be in progress.
        since: int64, the time in microseconds of the row where the search resumes; or of the first kept row, if the search resumes
            from runs or recomputes a window.
        timed: whether the times are known.
        rows: int64, how many released rows are kept.
        pending: int64, how many rows the watermark has not released.
    """

    open: np.ndarray
    since: np.ndarray
    timed: bool
    rows: np.ndarray
    pending: np.ndarray


def summary(stream: KeyedStream, states: pa.Array) -> StateSummary:
    """Reads states, a column of type large_binary. Raises MatchRuntimeError for bytes that are not a state of the stream."""
    inner, waiting = stream.opened(states)
    waiting, _ = stream.pending.read(waiting)
    open, rows = stream.engine.bytes.read(inner)
    begins = np.cumsum(open.rows) - open.rows
    at = begins + stream.engine.pipeline.operator.under_way(open)
    under_way = at < begins + open.rows
    since, name = np.zeros(len(states), dtype=np.int64), _time(stream)
    if name:
        since[under_way] = words(rows.column(name).combine_chunks())[at[under_way]]
    return StateSummary(under_way, since, bool(name), open.rows, waiting.rows)


def _time(stream: KeyedStream) -> str:
    """The kept column with the time; "" if the clause does not read it."""
    window, first = window_of(stream.plan), stream.plan.order[0].column
    if window.kind == MICROS:
        return window.order
    return first if first in stream.engine.bytes.schema.names else ""
