"""Reads saved states: how long each key has had a match in progress, and which rows it keeps.

The reports of :mod:`sparkcep.spark.report` use it, and ``sparkcep.why`` (:mod:`sparkcep.tracing.streams`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import contiguous, flat, ranges, words
from sparkcep.compiler.emission import window_of
from sparkcep.engine.core.state_codec import parted
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
        since[under_way] = words(flat(rows.column(name)))[at[under_way]]
    return StateSummary(under_way, since, bool(name), open.rows, waiting.rows)


@dataclass(frozen=True)
class OpenedKey:
    """The saved state of one key.

    Attributes:
        rows: the retained rows that the watermark has released, in order.
        times: int64, their times in microseconds; None if the clause does not read the time.
        waiting: the rows that the watermark has not released, in order, with the columns of ORDER BY.
        later: int64, their times in microseconds.
        search: the state of the search over ``rows``.
        clock: the time of the last released row if the key has sessions, else :data:`sparkcep.engine.stream.sessions.NO_CLOCK`.
    """

    rows: pa.Table
    times: np.ndarray | None
    waiting: pa.Table
    later: np.ndarray
    search: Any
    clock: int


def opened(stream: KeyedStream, state: bytes) -> OpenedKey:
    """Reads the state of one key. Raises MatchRuntimeError for bytes that are not a state of the stream."""
    inner, outer = parted(pa.array([state], pa.large_binary()))
    clock, outer = stream.clocks(outer)
    _, waiting = stream.pending.read(stream.stage.parted(outer)[0])
    search, rows = stream.engine.bytes.read(inner)
    at, later = stream.in_order(waiting, np.zeros(waiting.num_rows, dtype=np.int64))
    name = _time(stream)
    times = words(flat(rows.column(name))) if name else None
    return OpenedKey(contiguous(rows), times, contiguous(waiting.take(pa.array(at))), later[at], search, int(clock[0]))


def rows_of(stream: KeyedStream, states: pa.Array) -> tuple[np.ndarray, np.ndarray, pa.Table]:
    """Reads the rows of many keys: the released ones of each key in order, then the others in order.

    Args:
        states: the states, a column of type large_binary.

    Returns:
        For each row the number of its key and its number in the key, both int64 (rows), and the rows with the columns of the
        stream. The columns of ORDER BY are NULL in released rows whose time is not stored.

    Raises:
        MatchRuntimeError: bytes are not a state of the stream.
    """
    inner, outer = stream.opened(states)
    pending, waiting = stream.pending.read(outer)
    open, rows = stream.engine.bytes.read(inner)
    keys = np.arange(len(states))
    of, later = np.repeat(keys, open.rows), np.repeat(keys, pending.rows)
    at, _ = stream.in_order(waiting, later)
    number = np.concatenate([ranges(0, open.rows), np.repeat(open.rows, pending.rows) + ranges(0, pending.rows)])
    name = _time(stream)
    for field in waiting.schema:
        if field.name not in rows.schema.names:
            is_time = bool(name) and field.name == stream.order[0]
            rows = rows.append_column(field, rows.column(name).cast(field.type) if is_time else pa.nulls(rows.num_rows, field.type))
    return np.concatenate([of, later]), number, contiguous(pa.concat_tables([rows.select(waiting.schema.names), waiting.take(pa.array(at))]))


def _time(stream: KeyedStream) -> str:
    """The kept column with the time; "" if the clause does not read it."""
    window, first = window_of(stream.plan), stream.plan.order[0].column
    if window.kind == MICROS:
        return window.order
    return first if first in stream.engine.bytes.schema.names else ""
