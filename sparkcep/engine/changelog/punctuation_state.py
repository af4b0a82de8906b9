"""Saved state of punctuations with values (PUNCTUATE BY), for the keys of a stream.

:class:`sparkcep.engine.stages.retractions.Retractions` advances it once per micro-batch. A punctuation covers the rows of
later micro-batches, because within a micro-batch all rows come before its punctuations. It is kept until the watermark has passed
the times that it covers: any such row would be late anyway.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import contiguous, flat, null_marks, words
from sparkcep.engine.changelog.input_changes import PUNCTUATE
from sparkcep.engine.changelog.punctuation import NEVER, values
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.errors import said
from sparkcep.engine.core.resume import ResumeState, rows_only
from sparkcep.engine.core.state_codec import PUNCTUATED, StateBytes
from sparkcep.engine.core.task import Task
from sparkcep.errors import MatchRuntimeError


class PunctuationState:
    """The punctuations of keys. ``time``: the column of the rows' times. ``schema``: the types of the columns."""

    def __init__(self, task: Task, schema: pa.Schema, time: str) -> None:
        self.task, self.value, self.time = task, task.plan.changes.punctuate, time
        self.bytes = StateBytes(pa.schema([schema.field(self.value), schema.field(time)]), rows_only(PUNCTUATED))

    def advance(self, states: pa.Array, rows: pa.Table, keys: np.ndarray, kinds: np.ndarray, watermark: int) -> tuple[pa.Array, np.ndarray]:
        """Applies a micro-batch. Raises MatchRuntimeError for rows that an earlier punctuation excludes, and for punctuations
        without a value or a key.

        Args:
            states: the state of each key from the previous call, large_binary.
            rows: the new rows.
            keys: int64 (rows), the number of the key.
            kinds: int8 (rows), the operation.
            watermark: in microseconds.

        Returns:
            The states after the micro-batch, large_binary. Then int64 (keys), the watermark that empties each state; NEVER if
            it is empty now.
        """
        said = np.flatnonzero(kinds == PUNCTUATE)
        self._check_keys(rows, said)
        state, kept = self.bytes.read(states)
        both = contiguous(pa.concat_tables([kept, rows.select(self.bytes.schema.names)]))
        of = np.concatenate([np.repeat(np.arange(len(states)), state.rows), keys])
        number = values(Chunk.whole(both, both.column_names, np.array([0, both.num_rows])), self.value)
        time = words(flat(both.column(self.time)))
        came = kept.num_rows
        self._check_values(rows, said, number[came:])
        _, group = np.unique(of * (both.num_rows + 1) + number + 1, return_inverse=True)
        until = np.full(len(group), NEVER)
        np.maximum.at(until, group[:came], time[:came])
        late = np.flatnonzero((kinds < PUNCTUATE) & (time < until[group])[came:])
        if len(late):
            raise self._late(rows, int(late[0]))
        promises = np.concatenate([np.arange(came), came + said])
        np.maximum.at(until, group[promises], time[promises])
        left = promises[(time[promises] == until[group[promises]]) & (until[group[promises]] > watermark + 1)]
        left = left[np.unique(group[left], return_index=True)[1]]
        sizes, due = np.bincount(of[left], minlength=len(states)), np.full(len(states), NEVER)
        np.maximum.at(due, of[left], time[left] - 1)
        return self.bytes.column(ResumeState.of(sizes), both.take(pa.array(left))), due

    def _check_keys(self, rows: pa.Table, said: np.ndarray) -> None:
        """Raises MatchRuntimeError for punctuations that would cover all partitions over a table."""
        keys = [column for _, column, _ in self.task.plan.partition]
        if not keys or not len(said):
            return
        none = np.all([null_marks(flat(rows.column(key)))[said] == 1 for key in keys], axis=0)
        if none.any():
            raise MatchRuntimeError(
                "CHANGE_VALUE", "a punctuation whose partition keys are all NULL is for all partitions, but over a stream each key sees only its own. Write one for each key", sqlstate="22023"
            )

    def _check_values(self, rows: pa.Table, said: np.ndarray, number: np.ndarray) -> None:
        """Raises MatchRuntimeError for punctuations that cover all values."""
        plain = said[number[said] < 0]
        if len(plain):
            where = self._where(rows, int(plain[0]))
            raise MatchRuntimeError(
                "CHANGE_VALUE", f"a row with 'punctuate' lacks a value of PUNCTUATE BY{where}, and over a stream the watermark already excludes earlier changes. Give it a "
                "value, or filter out such rows below the clause", sqlstate="22023",
            )

    def _late(self, rows: pa.Table, row: int) -> MatchRuntimeError:
        when, value = said(rows.column(self.time)[row]), said(rows.column(self.value)[row])
        return MatchRuntimeError(
            "LATE_ROW", f"a change at {when} with the value {value} of PUNCTUATE BY{self._where(rows, row)} comes after a punctuation that excluded further changes with that value "
            "before its time. Filter out late changes, or the punctuations, below the clause", sqlstate="22000",
        )

    def _where(self, rows: pa.Table, row: int) -> str:
        return self.task.failures.where(row, {name: rows.column(name) for name in rows.column_names})
