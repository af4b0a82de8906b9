"""The engine over a stream: rows of many keys arrive in any order, and a watermark releases them.

Spark's operators for streams call :meth:`KeyedStream.advance` once per micro-batch. Released rows go to the engine in the clause's
order. All partitions may still grow, so the engine emits only matches that no future row can change.

Between two micro-batches the state of a key is bytes: the length of the engine's state, the engine's state
(:mod:`sparkcep.engine.core.state_codec`), and the rows that the watermark has not released, in the same format.

Example: the engine's state of a key has 5 bytes, and its pending rows have 9. The state of the key is 05 00 00 00, the 5 bytes and
the 9 bytes. If both are empty, so is the state.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import contiguous, flat, null_marks, ordered_words, stable_order, words
from sparkcep.columns.row_codec import bytes_of
from sparkcep.columns.types import type_of
from sparkcep.compiler.emission import window_of
from sparkcep.engine.core.chunk import Chunk, Saved
from sparkcep.engine.core.effort import Limits
from sparkcep.engine.core.operator import NOTHING_DUE, last_begin
from sparkcep.engine.core.resume import ResumeState, rows_only
from sparkcep.engine.core.state_codec import NO_BYTES, PENDING, StateBytes, damaged, parted, whole
from sparkcep.engine.core.task import Prepared
from sparkcep.engine.factory import OpenPartitions, stream_stage
from sparkcep.engine.stages.stream_stage import KeysLeft, MicroBatch
from sparkcep.engine.stream import sessions
from sparkcep.kernels.automaton.register_runs import ENDLESS
from sparkcep.kernels.jit import fallback
from sparkcep.plan.options import MICROS, ROWS
from sparkcep.plan.records import Order, has

if TYPE_CHECKING:
    from sparkcep.engine.automaton.arc_history import JournalArcs


@dataclass(frozen=True)
class KeyStates:
    """The saved states of keys after a micro-batch.

    Attributes:
        column: the states, large_binary; empty bytes if nothing is kept.
        due: int64 (keys), the watermark in microseconds that gives the key work without a new row; NOTHING_DUE if none.
        rows: how many rows the engine keeps.
        pending: how many rows are not released.
        more: by how many ``rows`` and ``pending`` have grown.
    """

    column: pa.Array
    due: np.ndarray
    rows: int
    pending: int
    more: tuple[int, int]

    @property
    def states(self) -> list[bytes]:
        """The state of each key."""
        return self.column.to_pylist()


class KeyedStream:
    """One clause over a stream.

    Rows have the plan's input columns and one column for each expression of ORDER BY. The first of these is the time.
    """

    def __init__(self, prepared: Prepared, schema: pa.Schema, order: Sequence[str], limits: Limits | None = None, arcs: JournalArcs | None = None) -> None:
        """The stream of a clause.

        Args:
            schema: the schema of the rows.
            order: the names of the columns that sort the rows.
            arcs: the arcs of ARCS FROM.
        """
        self.plan, self.order = prepared.plan, list(order)
        inner = pa.schema([field for field in schema if field.name not in set(order)])
        self.engine = OpenPartitions(prepared, inner, limits, endless=True, arcs=arcs)
        self.pending = StateBytes(schema, rows_only(PENDING))
        self.schema = schema
        self.stage = stream_stage(self.engine, schema, self.order[0])
        self.numbered = self.plan.numbered or prepared.conditions.number_read
        self.positioned = has(self.plan.pattern, "start") or prepared.strategy.emission.positions

    def use(self, history: list[dict[str, Any]]) -> None:
        """Takes the rows of a new history (USING HISTORY). The rows released from now on are searched with it. Raises
        MatchRuntimeError."""
        self.engine.pipeline.operator.use(history)

    def advance(self, rows: pa.Table, keys: np.ndarray, states: Sequence[bytes] | pa.Array, watermark: int) -> Generator[pa.Table, None, KeyStates]:
        """Runs a micro-batch. Yields output of the matches that are final at the watermark, and returns the states of the keys.

        Rows at or before the previous watermark may not be among ``rows``.

        Args:
            rows: the new rows in any order.
            keys: int64 (rows), the number of each row's key.
            states: the state of each key from the previous call, b"" for a new key; a list or a column of type large_binary.
            watermark: in microseconds.
        """
        parts = len(states)
        inner, outer = parted(states if isinstance(states, pa.Array) else pa.array(states, pa.large_binary()))
        clock, outer = self.clocks(outer)
        rows = rows.select(self.schema.names)
        timed = null_marks(flat(rows.column(self.order[0]))) == 0
        if not timed.all():
            if self.plan.rows == "unmatched":
                yield from self._alone(rows.filter(pa.array(~timed)))
            rows, keys = rows.filter(pa.array(timed)), keys[timed]
        outer, own = self.stage.parted(outer)
        state, waiting = self.pending.read(outer)
        table, before = contiguous(pa.concat_tables([waiting, self.typed(rows)])), waiting.num_rows
        of = np.concatenate([np.repeat(np.arange(parts), state.rows), keys])
        remaining, own = self.stage.remaining(table, of, before, own, watermark)
        if len(remaining) < len(of):
            table, of = contiguous(table.take(pa.array(remaining))), of[remaining]
        at, time = self.in_order(table, of)
        released = time[at] <= watermark
        now, later = at[released], at[~released]
        cut = self.sessions(of[now], time[now], clock, watermark)

        def final(inner: pa.Array) -> Generator[pa.Table, None, KeysLeft]:
            return self._final(table, now, cut, inner, watermark)

        def provisional(seen: np.ndarray, inner: pa.Array) -> tuple[Iterator[pa.Table], np.ndarray]:
            further = self.sessions(of[seen], time[seen], cut.clock, None)
            return self._provisional(table, seen, further, inner, watermark), further.key

        batch = MicroBatch(of, time, later, watermark, cut.key, cut.goes, final, provisional)
        left = yield from self.stage.emitted(batch, inner, own)
        waiting, due = np.bincount(of[later], minlength=parts), left.due
        outer = self.pending.column(ResumeState.of(waiting), table.take(pa.array(later)))
        outer = self.clocked(cut.clock, (np.diff(bytes_of(left.inner)[1]) > 0) | left.open, outer if left.own is None else whole(outer, left.own), due)
        some = np.flatnonzero(waiting)
        due[some] = np.minimum(due[some], time[later[(np.cumsum(waiting) - waiting)[some]]])
        return KeyStates(whole(left.inner, outer), due, left.rows, len(later), (left.rows - left.before, len(later) - before))

    def _final(self, table: pa.Table, rows: np.ndarray, cut: sessions.Sessions, inner: pa.Array, watermark: int) -> Generator[pa.Table, None, KeysLeft]:
        """Searches rows that the watermark has released."""
        chunk, state = self.engine.joined(table, cut.sizes, cut.spread(inner), cut.going, rows)
        due, kept = np.full(len(inner), NOTHING_DUE), 0
        if chunk.rows:
            with fallback.over(chunk.rows):
                left = yield from self.engine.pipeline.step(self.known(chunk, watermark), state)
            inner, due, kept = self.left(chunk, left, cut, watermark)
        elif not cut.goes.all():
            inner = pc.if_else(pa.array(cut.goes), inner, NO_BYTES)
        return KeysLeft(inner, due, kept, int(state.rows.sum()))

    def _provisional(self, table: pa.Table, rows: np.ndarray, cut: sessions.Sessions, inner: pa.Array, watermark: int) -> Iterator[pa.Table]:
        """Searches later rows. Arcs ON EXPIRY are taken only as far as the watermark allows."""
        chunk, state = self.engine.joined(table, cut.sizes, cut.spread(inner), cut.going, rows)
        return self.engine.pipeline.step(replace(chunk, limits=np.full(chunk.parts, watermark + 1)), state)

    def opened(self, states: pa.Array) -> tuple[pa.Array, pa.Array]:
        """The engine's states, and the bytes of the rows that are not released."""
        inner, outer = parted(states)
        return inner, self.stage.parted(self.clocks(outer)[1])[0]

    # -- sessions -----------------------------------------------------------------------------------------------------

    def clocks(self, outer: pa.Array) -> tuple[np.ndarray, pa.Array]:
        """The time of the last released row of each key, if rows are cut into sessions, int64 (keys); and the rest of the key's
        state."""
        if not self.plan.idle:
            return np.full(len(outer), sessions.NO_CLOCK), outer
        clocks, outer = parted(outer)
        return sessions.read(clocks), outer

    def sessions(self, of: np.ndarray, time: np.ndarray, clock: np.ndarray, watermark: int | None) -> sessions.Sessions:
        """Cuts rows into sessions. ``of``: int64 (rows), their keys. The rows are in order."""
        if not self.plan.idle:
            return sessions.Sessions.whole(of, len(clock))
        return sessions.Sessions.cut(of, time, clock, self.plan.idle, watermark)

    def clocked(self, clock: np.ndarray, kept: np.ndarray, outer: pa.Array, due: np.ndarray) -> pa.Array:
        """The states with the time of the last released row, for keys with something ``kept`` of their session. Lowers their
        ``due`` to its end.

        If nothing is kept of a session, the next row may begin a new one without a difference.
        """
        if not self.plan.idle:
            return outer
        clock = np.where(kept, clock, sessions.NO_CLOCK)
        some = np.flatnonzero(clock != sessions.NO_CLOCK)
        due[some] = np.minimum(due[some], clock[some] + self.plan.idle - 1)
        return whole(sessions.written(clock), outer)

    def left(self, chunk: Chunk, left: Saved, cut: sessions.Sessions, watermark: int) -> tuple[pa.Array, np.ndarray, int]:
        """The saved states that a search leaves for each key, when each key is due, and how many rows are kept in all."""
        last = chunk.table.take(pa.array(left.rows))
        operator = self.engine.pipeline.operator
        state = operator.forgetting(left.state, self.numbered, self.positioned)
        inner = self.engine.bytes.column(state, last)
        return cut.gathered(inner), cut.of_keys(operator.due(left.state, last, watermark), NOTHING_DUE), len(left.rows)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def typed(self, rows: pa.Table) -> pa.Table:
        """The rows with the schema's types. Rows of the right types are not cast: a cast also reads struct fields outside of the
        rows, which may be NULL."""
        return rows if rows.schema.equals(self.schema) else rows.cast(self.schema)

    def in_order(self, table: pa.Table, of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The order of the rows by key and the clause's ORDER BY, and the time of each row. Both int64 (rows). ``of``: int64
        (rows), the keys."""
        columns = [flat(table.column(name)) for name in self.order]
        return _sorted(of, columns, self.plan.order), words(columns[0])

    def known(self, chunk: Chunk, watermark: int) -> Chunk:
        """The chunk with the facts that a watermark implies. Raises MatchRuntimeError if its rows are not in order.

        New rows are in order, but a damaged state may have rows in any order.
        """
        if not are_in_order(self._times(chunk), chunk.offsets):
            raise damaged("a key", "begin with a new checkpoint", "its rows are in another order")
        limits = np.where(chunk.going, watermark + 1, ENDLESS)
        return replace(chunk, closed=self._closed(chunk, watermark), watermark=watermark, limits=limits)

    def _times(self, chunk: Chunk) -> np.ndarray:
        """The times of the rows, int64; empty if the engine does not read the time. A NULL would sort last, but there are none."""
        automaton = self.plan.automaton
        window = window_of(self.plan)
        name = automaton.time if automaton is not None else window.order if window.kind == MICROS else ""
        if name not in chunk.columns:
            return np.zeros(0, dtype=np.int64)
        column = chunk.columns[name]
        return np.where(null_marks(column) == 1, NOTHING_DUE, words(column)) if column.null_count else words(column)

    def _closed(self, chunk: Chunk, watermark: int) -> np.ndarray:
        """The first row of each partition whose window a future row may enter. int64 (partitions)."""
        window, low, high = window_of(self.plan), chunk.offsets[:-1], chunk.offsets[1:]
        if window.kind not in (MICROS, ROWS):
            return low
        if window.kind == ROWS:
            return np.clip(high - min(int(window.size), chunk.rows + 1) + 1, low, high)
        ended = np.concatenate([[0], np.cumsum(words(chunk.columns[window.order]) <= last_begin(window, watermark))])
        return low + ended[high] - ended[low]

    def _alone(self, rows: pa.Table) -> Generator[pa.Table, None, None]:
        """Output of rows without a time, which are in no match."""
        chunk = Chunk.whole(contiguous(rows), self.engine.task.prepared.input_schema.names, np.array([0, rows.num_rows]))
        yield from self.engine.pipeline.in_no_match(chunk)


def order_names(columns: Collection[str], ordered: int) -> list[str]:
    """The names of so many columns of ORDER BY beside other columns. A user's column may have such a name."""
    word = "order"
    while any(f"{word} {i}" in columns for i in range(ordered)):
        word += "_"
    return [f"{word} {i}" for i in range(ordered)]


def are_in_order(values: np.ndarray, offsets: np.ndarray) -> bool:
    """Whether the values of each partition ascend. ``offsets``: int64 (partitions + 1), where each begins."""
    descends = values[1:] < values[:-1]
    begins = offsets[1:-1]
    descends[begins[(begins > 0) & (begins < len(values))] - 1] = False
    return not descends.any()


def _sorted(keys: np.ndarray, columns: list[pa.Array], order: Sequence[Order]) -> np.ndarray:
    """The rows sorted by key, then as Spark sorts them; ties keep their order. int64 (rows)."""
    by: list[np.ndarray] = []
    for column, item in zip(columns, order, strict=True):
        values, null = _places(column), null_marks(column)
        values = np.where(null == 1, 0, ~values if item.descending else values)
        first = not item.descending if item.nulls_first is None else item.nulls_first
        by += [null ^ 1 if first else null, values] if null.any() else [values]
    return stable_order([keys, *by])


def _places(column: pa.Array) -> np.ndarray:
    """The values as numbers in Spark's order. int64 (rows); arbitrary for NULL."""
    t = type_of(column.type)
    if t.is_float or t.kind in ("null", "boolean", "date", "timestamp", "timestamp_ntz", "interval") or pa.types.is_integer(column.type):
        return ordered_words(words(column))
    return np.asarray(pc.rank(column, tiebreaker="dense")).astype(np.int64)


