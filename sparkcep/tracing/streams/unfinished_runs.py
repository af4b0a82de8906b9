"""The unfinished matches of a stored key, and the watermark that decides a start row if no other row of the key comes.

The engine searches the stored rows from the saved state: as a table up to a watermark, which also has open runs, and as a stream at
a watermark. Explanations of a clause with SHOW UNFINISHED MATCHES name what it finds.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sparkcep.engine.core.chunk import Chunk, columns_of
from sparkcep.engine.core.operator import Flow
from sparkcep.engine.core.windows import whole_micros
from sparkcep.engine.factory import OpenPartitions, prepare
from sparkcep.engine.stream.inspection import OpenedKey
from sparkcep.engine.stream.keyed_stream import KeyedStream
from sparkcep.engine.stream.sessions import NO_CLOCK
from sparkcep.plan.options import MICROS
from sparkcep.plan.plan import Plan
from sparkcep.tracing.conditions.question import ROW
from sparkcep.tracing.rows.unfinished import UnfinishedMatches, unfinished_in, with_ends, with_hidden
from sparkcep.tracing.search.trace import Found
from sparkcep.tracing.streams.stored import alone, engine_matches


class KeyRuns:
    """Searches the stored rows of a key.

    Rows that the watermark has not released count from the watermark on that releases them, if they are of the key's session.

    Attributes:
        released: how many rows the watermark has released.
        now: the watermark of the saved state. All watermarks are in microseconds.
        ends: the watermark that ends the session. It is None without one.
        last: the last watermark that decides something. No other row of the key comes.
    """

    def __init__(self, stream: KeyedStream, key: OpenedKey, watermark: int) -> None:
        self.stream, self.key, self.now, self.released = stream, key, watermark, key.rows.num_rows
        later, last, self.ends = [], key.clock, None
        for at in key.later.tolist():
            if stream.plan.idle and (last == NO_CLOCK or at - last >= stream.plan.idle):
                break
            later.append(at)
            last = at
        if stream.plan.idle and last != NO_CLOCK:
            self.ends = last + stream.plan.idle - 1
        self.later = np.array(later, dtype=np.int64)
        waiting = key.waiting.slice(0, len(later)).select(key.rows.schema.names)
        rows = pa.concat_tables([key.rows, waiting]).combine_chunks()
        self.rows = rows.append_column(ROW, pa.array(np.arange(rows.num_rows)))
        plan = replace(stream.plan, unfinished=stream.plan.unfinished._replace(order=self._order))
        self.plan = alone(plan, self.rows.schema)
        sizes = [whole_micros(window.size) for window in self.plan.windows if window.kind == MICROS]
        times = [] if key.times is None else key.times.tolist()
        moments = {at + size - 1 for at in (*times, *later) for size in sizes} | set(later) | ({self.ends} if self.ends is not None else set())
        self._moments = sorted(at for at in moments if at > watermark)
        self.last = self._moments[-1] if self._moments else watermark
        self._engines: dict[tuple, OpenPartitions] = {}
        self._known: dict[int, UnfinishedMatches] = {}

    @property
    def _order(self) -> str:
        """The column with the time, "" if the clause does not read it."""
        order = self.stream.plan.unfinished.order
        return order if order in self.rows.schema.names else ""

    def count(self, watermark: int) -> int:
        """How many rows a watermark has released."""
        return self.released + int(np.searchsorted(self.later, watermark, side="right"))

    def is_going(self, watermark: int) -> bool:
        """Whether the session may get more rows."""
        return self.ends is None or watermark < self.ends

    def at(self, watermark: int) -> UnfinishedMatches:
        """The unfinished matches of the rows that a watermark has released, as if the key ended with them.

        Times are microseconds.
        """
        if watermark not in self._known:
            self._known[watermark] = self._at(watermark)
        return self._known[watermark]

    def _at(self, watermark: int) -> UnfinishedMatches:
        count = self.count(watermark)
        clock = pa.nulls(count, pa.int64()).fill_null(watermark + 1)

        def searched(plan: Plan) -> UnfinishedMatches:
            table = self.rows.slice(0, count)
            if plan.unfinished.clock:
                table = table.append_column(plan.unfinished.clock, clock.cast(table.schema.field(plan.unfinished.order).type))
            engine = self._engine(plan, table.schema)
            return unfinished_in(plan, engine.pipeline.step(self._chunk(engine, table, going=False), self.key.search), _micros)

        numbered = self.stream.engine.task.prepared.conditions.number_read
        return with_hidden(self.plan, searched, numbered=numbered, covered=int(self.key.search.covered[0]))

    def matches(self, watermark: int) -> list[Found]:
        """The matches of the rows that a watermark has released, as if the key ended with them."""
        return engine_matches(self.stream.plan, self.rows.slice(0, self.count(watermark)).drop_columns([ROW]), self.key.search)

    def decided(self, start: int) -> int | None:
        """The watermark that decides a start row if no other row of the key comes, None if no watermark does.

        Such a watermark releases a row, or ends a window or the session.
        """
        at = bisect_right(self._moments, start, key=self.undecided)
        return self._moments[at] if at < len(self._moments) else None

    def undecided(self, watermark: int) -> int:
        """The first start row that is undecided at a watermark. Without one, the number of rows that it has released."""
        count = self.count(watermark)
        if not count or not self.is_going(watermark):
            return count
        engine = self.stream.engine  # its operator knows how far NEXT reads
        chunk = self.stream.known(self._chunk(engine, self.rows.slice(0, count), going=True), watermark)
        flow = Flow(engine.pipeline.operator.step(chunk, self.key.search))
        for _ in flow:
            pass
        state = flow.result.state
        return int(state.dropped[0] - self.key.search.dropped[0] + state.start[0])

    def _engine(self, plan: Plan, schema: pa.Schema) -> OpenPartitions:
        key = plan.skip, tuple(schema.names)
        if key not in self._engines:
            self._engines[key] = OpenPartitions(prepare(with_ends(plan), schema), schema, endless=True)
        return self._engines[key]

    def _chunk(self, engine: OpenPartitions, table: pa.Table, *, going: bool) -> Chunk:
        names = engine.task.prepared.input_schema.names
        return Chunk(table, columns_of(table, names), np.array([0, table.num_rows]), self.key.search.positions, np.array([going]))


def _micros(times: pa.ChunkedArray) -> list[int | None]:
    return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()).to_pylist()
