"""Retractions: REPORT CHANGES over a stream emits the difference between a micro-batch's matches and those emitted before.

The rows up to the watermark are final, and so are the matches that end there. The stream's own search
(:mod:`sparkcep.engine.stream.keyed_stream`) finds each of them once. Matches of later rows are provisional: they are searched from
the state of that search, and the state of this second search is dropped. So a key saves the output rows of its provisional matches,
beside the state of its search and its pending rows.

Example, with SPECULATE ALL: the watermark is 10, and the rows 8 and 12 match. The match is inserted at once, and it is provisional.
If row 12 is deleted in the next micro-batch, the match is no longer found, so it is retracted. If the watermark passes 12 first,
the match is final, and its rows are no longer saved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import contiguous, flat
from sparkcep.engine.changelog.input_changes import INSERT, PUNCTUATE, RETRACT, kinds_of
from sparkcep.engine.changelog.punctuation import NEVER
from sparkcep.engine.changelog.punctuation_state import PunctuationState
from sparkcep.engine.core.errors import said
from sparkcep.engine.core.operator import Flow
from sparkcep.engine.core.state_codec import EMITTED, FAR, StateBytes, StateColumns, StateSchema, check_numbers, parted, whole
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import whole_micros
from sparkcep.engine.output.columns_out import OF_CHANGES
from sparkcep.engine.output.keyed_rows import MATCH, PART, MatchTables
from sparkcep.engine.output.match_id import equal_keys
from sparkcep.engine.output.repeated_match_id import apart
from sparkcep.engine.stages.stream_stage import KeysLeft, MicroBatch, StreamStage
from sparkcep.errors import MatchRuntimeError

_EVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Emitted:
    """The output rows of matches that were emitted and may still be retracted.

    Attributes:
        rows: int64 (partitions), how many each partition has.
        number: int64 (partitions), the number of its last change.
    """

    rows: np.ndarray
    number: np.ndarray

    def columns(self) -> StateColumns:
        """The columns of the state, see :class:`sparkcep.engine.core.state_codec.State`."""
        return StateColumns(self.rows, {"number": self.number}, {})

    @staticmethod
    def restored(columns: StateColumns) -> Emitted:
        """The state with these columns. Raises ValueError for impossible numbers."""
        number = columns.numbers["number"]
        check_numbers(number >= 0, number < FAR)
        return Emitted(columns.rows, number)


# The saved states of the stage: the output rows that may still be retracted, and the punctuations, both as bytes. The last member
# has the times when punctuations end. The last two are None without PUNCTUATE BY.
_Own = tuple[pa.Array, pa.Array | None, np.ndarray | None]


class Retractions(StreamStage):
    """The stage of REPORT CHANGES over a stream, around the search of any operator.

    Attributes:
        tables: make output rows tagged with partition and match.
        emitted_rows: the format of saved output rows.
        promises: the punctuations with values; None without PUNCTUATE BY.
        counting: whether a measure asks for the number of a change.
    """

    def __init__(self, task: Task, tables: MatchTables, schema: pa.Schema, time: str) -> None:
        """``schema``: all columns of the rows. ``time``: the first column of ORDER BY."""
        self.task, self.plan, self.tables, self.names, self.time = task, task.plan, tables, schema.names, time
        self.changes = self.plan.changes
        self.out = task.prepared.output_schema
        # Rows of one match are adjacent, and so are matches of one partition.
        self.emitted_rows = StateBytes(pa.schema([*self.out, pa.field(MATCH, pa.int64())]), StateSchema(EMITTED, Emitted.restored, ("number",)))
        self.promises = PunctuationState(task, schema, time) if self.changes.punctuate else None
        self.counting = any(leaf.spec.kind == "change_number" for leaf in self.plan.leaves)

    def parted(self, outer: pa.Array) -> tuple[pa.Array, _Own]:
        waiting, emitted = parted(outer)
        emitted, promised = parted(emitted) if self.promises is not None else (emitted, None)
        return waiting, (emitted, promised, None)

    def remaining(self, table: pa.Table, of: np.ndarray, before: int, own: _Own, watermark: int) -> tuple[np.ndarray, _Own]:
        came = table.slice(before)
        kinds = kinds_of(self.task, flat(came.column(self.changes.column)), {name: flat(came.column(name)) for name in self.names})
        if self.promises is not None:
            own = own[0], *self.promises.advance(own[1], came, of[before:], kinds, watermark)
        return self._left(table, of, kinds), own

    def emitted(self, batch: MicroBatch, inner: pa.Array, own: _Own) -> Generator[pa.Table, None, KeysLeft]:
        self.tables.count, parts, (saved, promised, expires) = 0, len(inner), own
        flow = Flow(batch.final(inner))
        final = self._matches(flow, batch.key)
        left, due, limit, later = flow.result, flow.result.due, self._limit(batch.watermark), batch.later
        seen = later[batch.time[later] <= limit]
        guessed = self._matches(*batch.provisional(seen, left.inner)) if len(seen) else self._matches([], batch.key)
        before, old = self.emitted_rows.read(saved)
        number = before.number.copy()
        yield from self._differences(old, before.rows, final, guessed, number)
        kept = guessed.sort_by([(PART, "ascending"), (MATCH, "ascending")]) if guessed.num_rows else guessed
        sizes = np.bincount(kept.column(PART).to_numpy(), minlength=parts)
        if not self.counting:
            number = np.zeros_like(number)
        if self.plan.idle:  # A key's change number ends with its session, once none of its changes may be retracted.
            number[~(batch.goes | (np.bincount(batch.of[later], minlength=parts) > 0) | (sizes > 0))] = 0
        remembered = self.emitted_rows.column(Emitted(sizes, number), kept.drop_columns([PART]))
        if promised is not None:
            remembered = whole(remembered, promised)
        if expires is not None:
            due = np.where(expires > NEVER, np.minimum(due, expires), due)
        if limit < _EVER:
            unseen = later[batch.time[later] > limit]
            np.minimum.at(due, batch.of[unseen], batch.time[unseen] - (limit - batch.watermark))
        return left._replace(due=due, own=remembered, open=number > 0)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _left(self, table: pa.Table, of: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        """The rows that remain after the changes. int64. ``kinds``: the operations of the last rows, which are new.

        In one micro-batch all insertions come before the retractions.
        """
        old = table.num_rows - len(kinds)
        said = old + np.flatnonzero(kinds == PUNCTUATE)
        if len(said) and self.promises is None:
            raise MatchRuntimeError(
                "CHANGE_VALUE", "over a stream the watermark already excludes earlier changes, so a row with 'punctuate' does nothing. Filter out such rows below the clause",
                sqlstate="22023",
            )
        there = np.ones(table.num_rows, dtype=bool)
        there[said] = False
        gone = old + np.flatnonzero(kinds == RETRACT)
        there[gone] = False
        if len(gone):
            touched = np.isin(of, of[gone])
            stacks: dict[tuple, list[int]] = {}
            some = np.flatnonzero(touched)
            same = equal_keys(table.column(self.changes.same).take(pa.array(some)))
            keys = {row: (int(of[row]), value) for row, value in zip(some.tolist(), same, strict=True)}
            for row in some[there[some]].tolist():
                stacks.setdefault(keys[row], []).append(row)
            for row in gone.tolist():
                stack = stacks.get(keys[row])
                if not stack:
                    raise self._without_row(table, row)
                there[stack.pop()] = False
        return np.flatnonzero(there)

    def _without_row(self, table: pa.Table, row: int) -> MatchRuntimeError:
        when = said(table.column(self.time)[row])
        return MatchRuntimeError(
            "RETRACTION_WITHOUT_ROW",
            f"a retraction at {when} refers to a row that was not inserted before it. The row must be equal in every column except that of CHANGES IN; remove columns that need "
            "not be equal in a subquery", sqlstate="22000",
        )

    def _limit(self, watermark: int) -> int:
        """The last time of rows for which matches are emitted."""
        if self.changes.speculate == "ALL":
            return _EVER
        return watermark + (whole_micros(self.changes.size.size) if self.changes.size is not None else 0)

    def _matches(self, found: Iterable[pa.Table], key: np.ndarray) -> pa.Table:
        """The output rows of the matches that a search finds. ``key``: int64 (partitions), the key of each partition."""
        schema = pa.schema([*self.out, pa.field(PART, pa.int64()), pa.field(MATCH, pa.int64())])
        matches = contiguous(pa.concat_tables([schema.empty_table(), *found]))
        keys = pa.array(key[matches.column(PART).to_numpy()])
        matches = matches.set_column(matches.column_names.index(PART), PART, keys)
        return apart(self.plan, matches)  # Matches with one id end at one time, so one search finds them all.

    # -- output -------------------------------------------------------------------------------------------------------

    def _differences(self, old: pa.Table, sizes: np.ndarray, final: pa.Table, guessed: pa.Table, number: np.ndarray) -> Iterator[pa.Table]:
        """Output rows of the changes, by partition, retractions first. ``number``: the number of each partition's last change,
        counted on."""
        old = old.append_column(PART, pa.array(np.repeat(np.arange(len(sizes)), sizes))).select(final.column_names)
        new = pa.concat_tables([final, guessed])
        kept = self._unlike(old, new)
        gone, come = old.filter(pa.array(kept[0])), new.filter(pa.array(kept[1]))
        change = np.repeat(np.array([RETRACT, INSERT]), [gone.num_rows, come.num_rows])
        both = pa.concat_tables([gone, come])
        if not both.num_rows:
            return
        part, match = both.column(PART).to_numpy(), both.column(MATCH).to_numpy()
        order = np.lexsort((match, change == INSERT, part))
        part, match, change = part[order], match[order], change[order]
        begins = np.flatnonzero((np.diff(part, prepend=-1) != 0) | (np.diff(match, prepend=-1) != 0) | (np.diff(change, prepend=-1) != 0))
        counted = np.cumsum(np.isin(np.arange(len(part)), begins))
        firsts = np.flatnonzero(np.diff(part, prepend=-1))
        emitted = counted - np.repeat(counted[firsts] - 1, np.diff(np.append(firsts, len(part)))) + number[part]
        lasts = np.append(firsts[1:], len(part)) - 1
        number[part[lasts]] = emitted[lasts]
        table = both.take(pa.array(order)).drop_columns([PART, MATCH])
        for leaf in self.plan.leaves:
            if leaf.spec.kind in ("change", "change_number"):
                values = pa.array(np.where(change == INSERT, "insert", "retract"), pa.string()) if leaf.spec.kind == "change" else pa.array(emitted)
                table = table.set_column(table.column_names.index(leaf.name), self.out.field(leaf.name), values.cast(self.out.field(leaf.name).type))
        yield table

    def _unlike(self, old: pa.Table, new: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """Marks the rows of matches that the other table does not have, or has fewer times. bool, for ``old`` and ``new``."""
        here = np.isin(new.column(PART).to_numpy(), np.unique(old.column(PART).to_numpy()))
        gone, come = np.ones(old.num_rows, dtype=bool), np.ones(new.num_rows, dtype=bool)
        if not here.any():
            return gone, come
        compared = [name for name in self.out.names if name not in {leaf.name for leaf in self.plan.leaves if leaf.spec.kind in OF_CHANGES}]
        before, after = _by_match(old, np.arange(old.num_rows), compared), _by_match(new, np.flatnonzero(here), compared)
        both = Counter({key: len(some) for key, some in before.items()}) & Counter({key: len(some) for key, some in after.items()})
        for matches, marks in ((before, gone), (after, come)):
            for key, count in both.items():
                for rows in matches[key][:count]:
                    marks[rows] = False
        return gone, come


def _by_match(table: pa.Table, rows: np.ndarray, names: list[str]) -> dict[tuple, list[list[int]]]:
    """The rows of matches by what identifies them: the partition and the values of ``names`` in all output rows of the match."""
    some = table.take(pa.array(rows))
    of = list(zip(some.column(PART).to_pylist(), some.column(MATCH).to_pylist(), strict=True))
    values = list(zip(*map(equal_keys, some.select(names).columns), strict=True)) if names else [()] * some.num_rows
    matches: dict[tuple[int, int], list[int]] = {}
    for i, match in enumerate(of):
        matches.setdefault(match, []).append(i)
    found: dict[tuple, list[list[int]]] = {}
    for (part, _), own in matches.items():
        found.setdefault((part, tuple(values[i] for i in own)), []).append([int(rows[i]) for i in own])
    return found

