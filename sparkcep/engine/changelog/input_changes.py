"""Changes of the input: what each row of CHANGES IN does, and the matches of the rows that remain (REPORT NET).

The changelog uses :func:`turns`; :class:`NetReport` answers an AUTOMATON with REPORT NET. A retraction deletes the last earlier row
with the same number. Spark gives equal numbers to rows that a retraction cannot distinguish (:mod:`sparkcep.plan.extend.changes`).
Without ARRIVAL BY the changes are a multiset: all insertions come before all retractions, and punctuations are ignored.

Example: the rows are (insert, 1), (insert, 1), (retract, 1) with equal values. The retraction's partner is row 1, so row 0 remains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import boundaries, null_marks, words
from sparkcep.columns.types import type_of
from sparkcep.engine.automaton.arc_rows import ArcRows
from sparkcep.engine.automaton.arc_validity import timetable
from sparkcep.engine.automaton.register_runs import RegisterRuns
from sparkcep.engine.changelog.punctuation import Punctuations, check_punctuations, values
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.errors import said
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.operator import Found
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import check_window
from sparkcep.engine.output.repeated_match_id import identified
from sparkcep.errors import SEMANTIC, ClauseError, MatchRuntimeError
from sparkcep.plan.extend.arcs import BASE, NUMBER
from sparkcep.plan.plan import Plan

# ARC: a row of ARCS FROM, which has its own operation. VALUE_PUNCTUATE: a punctuation with a value of PUNCTUATE BY, which covers
# only rows with this value.
INSERT, RETRACT, PUNCTUATE, ARC, VALUE_PUNCTUATE = range(5)
_WORDS = pa.array(["insert", "retract", "punctuate"])


def check_changes(plan: Plan, schema: pa.Schema) -> None:
    """Raises ClauseError if a column of CHANGES IN has a type that does not fit."""
    changes = plan.changes
    if changes is None:
        return
    place = {"line": changes.line, "column": changes.column_at, "fragment": changes.text}
    kind = type_of(schema.field(changes.column).type)
    if kind.kind not in ("string", "null"):
        message = f"CHANGES IN takes a column of type STRING, not {kind}: 'insert' (or NULL), 'retract' or 'punctuate'"
        raise ClauseError("DATATYPE_MISMATCH", message, sqlstate=SEMANTIC, **place)
    if changes.consecutive and not type_of(schema.field(changes.consecutive).type).is_integer:
        message = f"CONSECUTIVE BY takes a whole number, not {type_of(schema.field(changes.consecutive).type)}; cast it"
        raise ClauseError("DATATYPE_MISMATCH", message, sqlstate=SEMANTIC, **place)
    check_punctuations(plan, schema)
    if changes.size is not None:
        check_window(changes.size, schema)


@dataclass(frozen=True)
class InputChanges:
    """The changes that the rows of a chunk make.

    Attributes:
        kinds: int8 (rows), INSERT, RETRACT, PUNCTUATE, ARC or VALUE_PUNCTUATE.
        order: int64, the rows by partition and arrival.
        partner: int64 (rows), the row that a retraction deletes, or the retraction that deletes the row; -1 for other rows.
        times: int64 (rows), numbers that ascend with time, also from partition to partition.
        arcs: the rows of ARCS FROM; None without that clause.
        values: int64 (rows), see :func:`sparkcep.engine.changelog.punctuation.values`; None without PUNCTUATE BY.
    """

    kinds: np.ndarray
    order: np.ndarray
    partner: np.ndarray
    times: np.ndarray
    arcs: ArcRows | None
    values: np.ndarray | None = None

    @property
    def left(self) -> np.ndarray:
        """The rows that remain at the end."""
        return np.flatnonzero((self.kinds == INSERT) & (self.partner < 0))


def turns(task: Task, chunk: Chunk) -> InputChanges:
    """The changes of whole partitions. Raises MatchRuntimeError for impossible changes."""
    plan, changes = task.plan, task.plan.changes
    arcs = ArcRows(task, chunk) if plan.arcs is not None else None
    kinds = kinds_of(task, chunk.columns[changes.column], chunk.columns) if changes is not None else np.zeros(chunk.rows, dtype=np.int8)
    parts = chunk.partition_of(np.arange(chunk.rows))
    arrival = words(chunk.columns[changes.arrival]) if changes is not None and changes.arrival else kinds
    if arcs is not None:
        kinds[arcs.marks] = ARC
        arrival = arcs.arrival(arrival)
    # Rows of one moment keep their order. Arrival numbers count rows, so the product is far from 62 bits.
    turn = arrival.astype(np.int64) * (ARC + 1) + kinds
    order = np.argsort(turn, kind="stable") if chunk.parts == 1 else np.lexsort((turn, parts))
    if changes is None:
        return InputChanges(kinds, order, np.full(chunk.rows, -1, dtype=np.int64), kinds, arcs)
    time = chunk.columns[plan.automaton.time]
    times = _times(chunk, time) if arcs is None else _ranked(parts, arcs.clock)
    of = values(chunk, changes.punctuate) if changes.punctuate else None
    if of is not None:
        kinds[(kinds == PUNCTUATE) & (of >= 0)] = VALUE_PUNCTUATE
    found = InputChanges(kinds, order, _partners(task, chunk, kinds, order, parts), times, arcs, of)
    _check_punctuations(task, chunk, found, null_marks(time).astype(bool))
    return found


def _times(chunk: Chunk, time: pa.Array) -> np.ndarray:
    begins = np.zeros(chunk.rows, dtype=np.int64)
    begins[boundaries([time], chunk.rows)[:-1]] = 1
    begins[chunk.offsets[:-1][np.diff(chunk.offsets) > 0]] = 1
    return np.cumsum(begins)


def _ranked(parts: np.ndarray, clock: np.ndarray) -> np.ndarray:
    """Ranks rows by partition and time, in any order of the rows."""
    order = np.lexsort((clock, parts))
    times = np.empty(len(order), dtype=np.int64)
    times[order] = np.cumsum((np.diff(parts[order], prepend=-1) != 0) | (np.diff(clock[order], prepend=0) != 0))
    return times


def kinds_of(task: Task, column: pa.Array, columns: dict[str, pa.Array]) -> np.ndarray:
    """The operations of rows by the column of CHANGES IN. int8 (rows). ``columns``: those that identify a row in an error."""
    written = column.cast(pa.string())
    kinds = pc.fill_null(pc.index_in(pc.ascii_lower(written), value_set=_WORDS), -1).to_numpy(zero_copy_only=False).astype(np.int8)
    kinds[null_marks(written) == 1] = INSERT
    bad = np.flatnonzero(kinds < 0)
    if len(bad):
        raise MatchRuntimeError(
            "CHANGE_VALUE",
            f"the column of CHANGES IN holds {said(written[int(bad[0])])}{task.failures.where(int(bad[0]), columns)}; write 'insert' (or NULL), 'retract' "
            "or 'punctuate'", sqlstate="22023",
        )
    return kinds


def _partners(task: Task, chunk: Chunk, kinds: np.ndarray, order: np.ndarray, parts: np.ndarray) -> np.ndarray:
    partner = np.full(chunk.rows, -1, dtype=np.int64)
    if not (kinds == RETRACT).any():
        return partner
    same = words(chunk.columns[task.plan.changes.same]).astype(np.int64)
    group = parts * (int(same.max()) + 1) + same
    touched = np.isin(group, group[kinds == RETRACT]) & (kinds < PUNCTUATE)
    there: dict[int, list[int]] = {}
    for row in order[touched[order]].tolist():
        rows = there.setdefault(int(group[row]), [])
        if kinds[row] == INSERT:
            rows.append(row)
        elif rows:
            partner[row] = rows.pop()
            partner[partner[row]] = row
        else:
            time = said(chunk.columns[task.plan.automaton.time][row])
            before = " before it" if task.plan.changes.arrival else ""
            raise MatchRuntimeError(
                "RETRACTION_WITHOUT_ROW",
                f"a retraction at {time}{task.failures.where(row, chunk.columns)} refers to a row that was not inserted{before}. The row must be equal in every "
                "column except those of CHANGES IN and ARRIVAL BY; remove columns that need not be equal in a subquery", sqlstate="22000",
            )
    return partner


def _check_punctuations(task: Task, chunk: Chunk, found: InputChanges, absent: np.ndarray) -> None:
    """Raises MatchRuntimeError for punctuations without a time, and for changes that an earlier punctuation excludes."""
    punctuations = np.flatnonzero((found.kinds == PUNCTUATE) | (found.kinds == VALUE_PUNCTUATE))
    if not len(punctuations):
        return
    columns, plan = chunk.columns, task.plan
    if absent[punctuations].any():
        row = int(punctuations[absent[punctuations]][0])
        message = f"a punctuation lacks a time{task.failures.where(row, columns)}. Set it to the time before which no further change comes"
        raise MatchRuntimeError("CHANGE_VALUE", message, sqlstate="22023")
    if not plan.changes.arrival:
        return
    order = found.order
    promised = np.maximum.accumulate(np.where(found.kinds[order] == PUNCTUATE, found.times[order], 0))
    late = order[(found.times[order] < promised) & (found.kinds[order] < PUNCTUATE) & ~absent[order]]
    if (found.kinds == VALUE_PUNCTUATE).any():
        late = _late_of_values(chunk, found, absent)
    if len(late):
        row = int(late[0])
        raise MatchRuntimeError(
            "LATE_ROW", f"a change at {said(columns[plan.automaton.time][row])}{task.failures.where(row, columns)} comes after a punctuation that excluded further changes "
            "before its time", sqlstate="22000",
        )


def _late_of_values(chunk: Chunk, found: InputChanges, absent: np.ndarray) -> np.ndarray:
    """The first change that an earlier punctuation excludes, of all rows or of its value; empty if there is none."""
    of, kinds, times, parts = found.values.tolist(), found.kinds.tolist(), found.times.tolist(), chunk.partition_of(found.order).tolist()
    promises, part = Punctuations(), -1
    for row, its in zip(found.order.tolist(), parts):
        if its != part:
            promises, part = Punctuations(), its
        if kinds[row] in (PUNCTUATE, VALUE_PUNCTUATE):
            promises.promise(of[row], times[row])
        elif kinds[row] != ARC and not absent[row] and times[row] < promises.before(of[row]):
            return np.array([row])
    return np.zeros(0, dtype=np.int64)


def taken(chunk: Chunk, rows: np.ndarray) -> Chunk:
    """The chunk with only the ``rows``, which are in order."""
    sizes = np.bincount(chunk.partition_of(rows), minlength=chunk.parts) if len(rows) else np.zeros(chunk.parts, dtype=np.int64)
    table = chunk.table.take(pa.array(rows)).combine_chunks()
    return Chunk.whole(table, chunk.columns, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


def changed_by(plan: Plan, chunk: Chunk, causes: pa.Array) -> dict[str, pa.Array]:
    """The values of CHANGED_BY() for changes by the rows ``causes``, if a measure asks for them. NULL is the end of the input."""
    return {"changed_by": chunk.columns[leaf.spec.column].take(causes) for leaf in plan.leaves if leaf.spec.kind == "changed_by"}


class NetReport:
    """Reports the matches of the rows that remain at the end."""

    def __init__(self, task: Task, search: RegisterRuns) -> None:
        self.task, self.search = task, search

    def answer(self, chunk: Chunk) -> Iterator[Found]:
        """The matches of whole partitions."""
        found = turns(self.task, chunk)
        if found.arcs is not None:
            chunk = self.placed(chunk, found, found.arcs)
        left = taken(chunk, found.left)
        for matches in identified(self.task, left, map(self.search.output.described, self.search.rounds(left))):
            yield Found(left, matches)
        yield Found(left, MatchBatch.none(), np.arange(left.rows))

    def placed(self, chunk: Chunk, found: InputChanges, arcs: ArcRows) -> Chunk:
        """The chunk with a column that has the arc list of each row. Partitions with equal arcs share their lists."""
        punctuations = found.kinds == PUNCTUATE
        numbers = words(chunk.columns[NUMBER])
        sets, known = [], {}
        of_part = np.zeros(chunk.parts, dtype=np.int64)
        for part in range(chunk.parts):
            order = found.order[chunk.offsets[part] : chunk.offsets[part + 1]]
            key: object = numbers[order[arcs.marks[order]]].tobytes()
            if punctuations[order].any():  # a punctuation may make a change of the arcs too late
                key = part
            if key not in known:
                known[key] = len(sets)
                sets.append(arcs.plot(order, punctuations).last)
            of_part[part] = known[key]
        present = timetable(self.task.plan.automaton, sets)
        base = np.zeros(chunk.rows, dtype=np.int64)
        for part in range(chunk.parts):
            low, high = chunk.offsets[part : part + 2]
            base[low:high] = present.base(int(of_part[part]), arcs.clock[low:high])
        self.search.runs.use(present, arcs.given())
        column = pa.array(base)
        return replace(chunk, table=chunk.table.append_column(BASE, column), columns=chunk.columns | {BASE: column})
