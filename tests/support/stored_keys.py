"""Stored keys of a stream, made in this process for the tests of ``sparkcep.why``: sqlite computes what Spark would."""

from __future__ import annotations

import datetime
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sparkcep.clause.parser import parse_clause
from sparkcep.engine.factory import prepare
from sparkcep.engine.stream.keyed_stream import KeyedStream
from sparkcep.plan.build import make_plan
from sparkcep.plan.extend.unfinished import CLOCK
from sparkcep.plan.plan import LETTERS
from sparkcep.settings import DEFAULT
from tests.support.caught import without_catching

NOON = datetime.datetime(2026, 1, 1, 12)
MICROS = pa.timestamp("us", tz="UTC")
ORDERED = "order 0"


def micros(clock: str) -> int:
    """A time of 1 January 2026, such as 12:00:10, in microseconds."""
    at = datetime.datetime.combine(NOON, datetime.time.fromisoformat(clock))
    return (at - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)


class StoredKey:
    """One key of a stream whose rows have a time ``ts`` and further columns.

    Attributes:
        stream: the engine.
        state: its state after the last call of :meth:`advance`.
        emitted: the output rows so far.
        watermark: of the last call, in microseconds. New rows must be later.
    """

    def __init__(self, clause: str, columns: str, idle: int = 0) -> None:
        """``clause`` may lack MEASURES. ``columns``: the names of the columns after ``ts``."""
        text = clause if "MEASURES" in clause else re.sub(r"\b(AFTER|EVENT|WINDOW|PATTERN)\b", r"MEASURES 1 AS one \1", clause, count=1)
        plan = without_catching(make_plan(parse_clause(text), settings=DEFAULT))
        inputs = tuple(column for column in plan.inputs if column.name != CLOCK)  # the watermark is the clock
        self.plan = replace(plan, idle=idle, inputs=inputs)
        self.names, self.state, self.emitted, self.watermark = ["ts", *columns.split()], b"", [], 0
        empty = self._table([])
        schema = pa.schema([field for field in empty.schema if field.name != ORDERED])
        self.stream = KeyedStream(prepare(replace(self.plan.without_sql(), idle=idle), schema), empty.schema, [ORDERED])

    def _table(self, rows: list[tuple]) -> pa.Table:
        wanted = dict(self.plan.inputs)
        if self.plan.letters:
            wanted[LETTERS] = " + ".join(f"(CASE WHEN {text} THEN {1 << bit} ELSE 0 END)" for _, bit, text in self.plan.letters)
        wanted[ORDERED] = "ts"
        database = sqlite3.connect(":memory:")
        try:
            database.execute(f"CREATE TABLE t ({', '.join(self.names)})")
            database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(self.names))})", rows)
            selected = ", ".join(text for text in wanted.values())
            found = list(zip(*database.execute(f"SELECT {selected} FROM t"), strict=True)) or [()] * len(wanted)
        finally:
            database.close()
        numbers = {"n", "price", "user"}

        def column(name: str, text: str, values: tuple) -> pa.Array:
            if text == "ts":
                return pa.array(values, pa.int64()).cast(MICROS)
            if any(sign in text for sign in "=<>") and name != LETTERS:
                return pa.array([None if value is None else bool(value) for value in values], pa.bool_())
            return pa.array(values, pa.int64() if name == LETTERS or text in numbers or text.isdigit() else pa.string())

        return pa.table({name: column(name, text, values) for (name, text), values in zip(wanted.items(), found, strict=True)})

    def advance(self, watermark: int, rows: list[tuple] = ()) -> StoredKey:
        """Runs a micro-batch with ``rows``, whose first value is the time in microseconds."""
        self.watermark = watermark
        step = self.stream.advance(self._table(list(rows)), np.zeros(len(rows), dtype=np.int64), [self.state], watermark)
        for table in _yielded(step, self):
            self.emitted += table.to_pylist()
        return self


def _yielded(step, key: StoredKey) -> Iterator[pa.Table]:
    left = yield from step
    (key.state,) = left.states
