"""Dynamic arcs over a stream: a journal of the rows of ARCS FROM that still matter.

The table of arcs is read repeatedly. The function :func:`arrived` compares a reading with the previous one, and appends the
differences to the journal. The class :class:`JournalArcs` derives from the journal which arcs are valid when, as if rows and arcs
had arrived in one order. Spark's operator for streams calls both.

The query has one journal, which is saved in its checkpoint. The journal has a row for each change, in order of arrival. The column
NOW is the largest time of all rows that had arrived before. A row that is no longer in the table ends its arc, as 'delete' would.

Example: the first reading has the row (insert, a), when NOW is 10. The second reading lacks it, when NOW is 25. The journal has the
rows (insert, a, 10) and (vanish, a, 25), so the arc a is valid from 11 to before 26.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import ordered_words, words
from sparkcep.columns.types import type_of
from sparkcep.engine.automaton.arc_rows import WORDS, ArcRows
from sparkcep.engine.automaton.arc_validity import ALWAYS, BEGIN, END, Timetable, ValidArc, timetable
from sparkcep.engine.automaton.dynamic_arcs import ArcTexts, with_columns
from sparkcep.engine.automaton.register_runs import RegisterRuns
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.effort import Limits
from sparkcep.engine.core.errors import said
from sparkcep.engine.core.operator import Step
from sparkcep.engine.core.resume import ResumeState
from sparkcep.engine.core.task import Prepared, Task
from sparkcep.engine.core.windows import Moments
from sparkcep.engine.output.match_id import equal_keys
from sparkcep.errors import SEMANTIC, ClauseError, MatchRuntimeError
from sparkcep.kernels.automaton import arc_events as kernels
from sparkcep.kernels.automaton.arc_events import DELETE, INSERT, PUNCTUATE, RETRACT
from sparkcep.plan.extend import arcs as names
from sparkcep.plan.options import MICROS
from sparkcep.plan.plan import Plan

_VANISH = "vanish"
_OF, _GIVEN = ValidArc._fields.index("arc"), ValidArc._fields.index("given")


@dataclass(frozen=True)
class Moment:
    """When the table of arcs is read, in microseconds.

    Attributes:
        largest: the largest time of the rows of earlier micro-batches, None if there were none.
        late: the watermark of the previous micro-batch.
        watermark: the watermark of this micro-batch.
    """

    largest: int | None
    late: int
    watermark: int

    @property
    def now(self) -> int | None:
        """The time after which changes without a time of their own begin."""
        return None if self.largest is None else max(self.largest, self.watermark + 1)


class JournalRows(ArcRows):
    """The rows of a journal.

    Attributes:
        fresh: the first new row.
        least: the first time that a new row may change.
    """

    words = pa.array([*WORDS.to_pylist(), _VANISH])

    def __init__(self, task: Task, chunk: Chunk, fresh: int, least: int) -> None:
        self.fresh, self.least = fresh, least
        super().__init__(task, chunk)

    @cached_property
    def owners(self) -> np.ndarray:
        """The number of each row's own partition keys, 0 if the arc is for all partitions. int64 (rows)."""
        numbers: dict[tuple, int] = {}
        return np.array([0 if key is None else numbers.setdefault(key, len(numbers) + 1) for key in self.keys], dtype=np.int64)

    @cached_property
    def keys(self) -> list[tuple | None]:
        """The own partition keys of each row, None if the arc is for all partitions."""
        columns = [equal_keys(self.chunk.columns[names.key_column(i)]) for i in range(len(self.task.plan.arcs.keys))]
        values = list(zip(*columns)) if columns else [()] * self.chunk.rows
        return [None if all(value is None for value in of) else of for of in values]

    def where(self, row: int) -> str:
        """The partition of a row, for errors."""
        if self.keys[row] is None:
            return ""
        keys_said = (f"{name} = {said(self.chunk.columns[names.key_column(i)][row])}" for i, name in enumerate(self.task.plan.arcs.keys))
        return f" in the partition {', '.join(keys_said)}"

    def _now(self, order: np.ndarray, marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.now, self.never

    def _too_late(self, order: np.ndarray, marks: np.ndarray, punctuations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        promised = np.maximum.accumulate(np.where((self.ops == PUNCTUATE) & ~self.absent, self.clock, ALWAYS))
        come = np.arange(self.chunk.rows) >= self.fresh
        return np.where(come, np.maximum(promised, self.least), ALWAYS), np.where(come, self.least, ALWAYS)

    def _failure(self, outcome: int, row: int) -> MatchRuntimeError:
        if outcome != kernels.LATE:
            return super()._failure(outcome, row)
        until = "" if self.least == ALWAYS else f" up to {Moments(self.time.type, False).values(np.array([self.least - 1]), np.array([False]))[0].as_py()}"
        return MatchRuntimeError(
            "LATE_ROW",
            f"a change of the arc {self._name(row)} in ARCS FROM affects times{until} for which matches are already final or a punctuation of the arcs has come. Give it a later "
            "valid_from (a delete: valid_to) in the table, or none so that it begins after all rows so far; then restart the query", sqlstate="22000",
        )

    @property
    def every(self) -> np.ndarray:
        """All rows in order. int64."""
        return np.arange(self.chunk.rows)

    @property
    def none(self) -> np.ndarray:
        """The punctuations among the rows that are not of ARCS FROM: a journal has only rows of ARCS FROM. bool (rows)."""
        return np.zeros(self.chunk.rows, dtype=bool)


# -- changes ----------------------------------------------------------------------------------------------------------


def arrived(
    prepared: Prepared, journal: pa.Table | None, before: pa.Table | None, read: pa.Table, moment: Moment, limits: Limits | None = None,
) -> tuple[pa.Table, bool] | None:
    """Appends to the journal what is new in a reading of the table. Returns None if nothing is new.

    Raises MatchRuntimeError for impossible rows, and for changes that are too late.

    Args:
        prepared: the plan, for the columns of the rows and of the table.
        journal: the journal so far, None at first.
        before: the previous reading, None at first.
        read: this reading.

    Returns:
        The journal, and whether the arcs of earlier rows may have changed.
    """
    come, gone = _differences(before, read)
    if before is not None and not len(come) and not len(gone):
        return None
    task = Task.of(prepared, limits)
    new = _typed(task, read.take(pa.array(come)), moment)
    ops = ArcRows(task, _chunk(task, new)).ops  # raises for words that only the journal may have
    new = new.take(pa.array(np.argsort(ops, kind="stable")))
    old = new.slice(0, 0)
    if len(gone):
        were = _typed(task, before.take(pa.array(gone)), moment)
        were = were.filter(pa.array(ArcRows(task, _chunk(task, were)).ops == INSERT))
        at = were.column_names.index(names.OP)
        old = were.set_column(at, names.OP, pa.array([_VANISH] * were.num_rows, pa.string()))
    kept = journal if journal is not None else old.slice(0, 0)
    whole = _numbered(pa.concat_tables([kept, new, old], promote_options="default"))
    # No arc may be inserted or deleted at a time up to which arcs ON EXPIRY have been taken.
    least = ALWAYS if moment.largest is None else moment.late + 1 + int(prepared.plan.automaton.expires)
    journal = JournalArcs.of(prepared, whole, kept.num_rows, least, limits)
    found = journal.rows
    return _numbered(whole.take(pa.array(_kept(found, moment)))), _reaches(found, moment)


def with_table(plan: Plan, rows: pa.Schema, table: pa.Schema) -> pa.Schema:
    """The columns for which a plan is compiled: those of the rows and those of the table of ARCS FROM or a journal."""
    of_table = [field for field in table if field.name in plan.arcs.columns and field.name != names.NUMBER]
    return pa.schema([*rows, *of_table, pa.field(names.IS, pa.bool_()), pa.field(names.NUMBER, pa.int64())])


def check_keys(plan: Plan, schema: pa.Schema) -> None:
    """Raises ClauseError if a partition key of the table of arcs has another type than that of the rows, because keys are compared
    without a cast."""
    if plan.arcs is None:
        return
    for i, key in enumerate(plan.partition):
        own, other = (type_of(schema.field(name).type) for name in (names.key_column(i), key.column))
        if own.kind != "null" and own != other and not (own.is_integer and other.is_integer):
            message = f"the column {plan.arcs.keys[i]} of the table of ARCS FROM is of type {own}, and the key of PARTITION BY of type {other}; CAST it in a query after ARCS FROM"
            raise ClauseError("DATATYPE_MISMATCH", message, sqlstate=SEMANTIC, line=plan.arcs.line, column=plan.arcs.column, fragment=plan.arcs.text)


def _differences(before: pa.Table | None, read: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """The rows of ``read`` that are not in ``before``, and those of ``before`` that are not in ``read``, as multisets. int64."""
    if before is None:
        return np.arange(read.num_rows), np.zeros(0, dtype=np.int64)
    old, new = (list(zip(*map(equal_keys, table.columns))) for table in (before, read))
    return _beyond(new, Counter(old)), _beyond(old, Counter(new))


def _beyond(rows: list[tuple], others: Counter) -> np.ndarray:
    found = []
    for i, row in enumerate(rows):
        if others[row] > 0:
            others[row] -= 1
        else:
            found.append(i)
    return np.array(found, dtype=np.int64)


def _typed(task: Task, rows: pa.Table, moment: Moment) -> pa.Table:
    """Rows of the table with the columns of the journal."""
    at = rows.column_names.index(names.OP)
    rows = rows.set_column(at, names.OP, rows.column(names.OP).cast(pa.string()))
    kind = task.prepared.input_schema.field(task.plan.automaton.time).type
    now = pa.array(np.full(rows.num_rows, moment.now or 0), mask=np.full(rows.num_rows, moment.now is None)).cast(kind)
    return rows.append_column(names.NOW, now).append_column(names.NUMBER, pa.array(np.zeros(rows.num_rows, dtype=np.int64))).combine_chunks()


def _numbered(journal: pa.Table) -> pa.Table:
    at = journal.column_names.index(names.NUMBER)
    return journal.set_column(at, names.NUMBER, pa.array(np.arange(journal.num_rows))).combine_chunks()


def _chunk(task: Task, journal: pa.Table, rows: np.ndarray | None = None) -> Chunk:
    """Rows of a journal as rows of ARCS FROM in one partition."""
    if rows is not None:
        journal = journal.take(pa.array(rows)).combine_chunks()
    time = pa.nulls(journal.num_rows, task.prepared.input_schema.field(task.plan.automaton.time).type)
    table = journal.append_column(names.IS, pa.array(np.ones(journal.num_rows, dtype=bool))).append_column(task.plan.automaton.time, time)
    return Chunk.whole(table, table.column_names, np.array([0, journal.num_rows]))


def _reaches(rows: JournalRows, moment: Moment) -> bool:
    """Whether a new row changes arcs at times of earlier rows."""
    if moment.largest is None:
        return False
    fresh = np.arange(rows.chunk.rows) >= rows.fresh
    begins = (rows.ops == INSERT) & ~rows.absent & (rows.clock <= moment.largest)
    ends = (rows.ops == DELETE) & ~rows.endless & (rows.ends <= moment.largest)
    reaches = begins | ends | (rows.ops == RETRACT)
    if rows.task.plan.arcs.texts:  # A text that calls a state final does so for all times.
        reaches |= np.asarray(pc.fill_null(rows.chunk.columns[names.FINAL].cast(pa.bool_()), False))
    return bool((fresh & reaches).any())


def _kept(rows: JournalRows, moment: Moment) -> np.ndarray:
    """The rows of the journal that still matter. int64.

    Rows of an arc are dropped if no future row, and no row that is searched again, can find the arc.
    """
    plan, every = rows.task.plan, rows.every
    _, arcs, _ = rows.stood(every, rows.none)
    window, cutoff = plan.windows[0], None
    if window.kind == MICROS and not plan.automaton.lifetime and moment.largest is not None:
        size = Fraction(window.size)
        cutoff = moment.late - -(-size.numerator // size.denominator)
    dead = arcs[:, kernels.T_GONE] == 1
    if cutoff is not None:
        dead |= (arcs[:, kernels.T_ENDED] == 1) & (np.minimum(arcs[:, kernels.T_END], arcs[:, kernels.T_EXPECTED]) <= cutoff)
    of = arcs[dead][:, [kernels.T_ROW, kernels.T_ENDER, kernels.T_UNDOER]]
    last = np.flatnonzero(rows.ops == PUNCTUATE)
    if len(last):  # the latest punctuation includes all others
        last = np.delete(last, np.argmax(rows.clock[last]))
    left = np.ones(rows.chunk.rows, dtype=bool)
    left[of[of >= 0]] = False
    left[last] = False
    left[(rows.ops >= len(WORDS)) & ~np.isin(every, arcs[:, kernels.T_ENDER])] = False  # the arc had ended before its row vanished
    if plan.arcs.texts:
        left |= _say_final(rows, left, of)
    return np.flatnonzero(left)


def _say_final(rows: JournalRows, left: np.ndarray, of: np.ndarray) -> np.ndarray:
    """The rows of dropped arcs that must stay, because nothing else says whether their target state is final. bool (rows).

    Future rows may lead to that state without saying it again. ``of``: int64 (arcs, 3), the rows of each dropped arc. The first one
    inserted it, and the others are -1 if there are none.
    """
    columns, owners = rows.chunk.columns, rows.owners.tolist()
    target = [state and state.lower() for state in columns[names.TARGET].cast(pa.string()).to_pylist()]
    final = columns[names.FINAL].cast(pa.bool_()).to_pylist()
    said = {(owners[i], target[i]) for i in np.flatnonzero(left) if final[i] is not None}
    stays = np.zeros(len(left), dtype=bool)
    for group in of.tolist():
        state = owners[group[0]], target[group[0]]
        if final[group[0]] is not None and state not in said:
            said.add(state)
            stays[[row for row in group if row >= 0]] = True
    return stays


# -- valid arcs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JournalArcs:
    """The arcs of a journal.

    Attributes:
        prepared: the plan, with the arcs that came as text.
        present: which arcs are valid when.
        given: the columns of parameters.
        sets: the number of the set of ``present`` for each partition that has arcs of its own.
        texts: reads the columns that texts use; None if no arc may come as text.
        rows: the rows of the journal.
    """

    prepared: Prepared
    present: Timetable
    given: dict[str, pa.Array]
    sets: dict[tuple, int]
    texts: ArcTexts | None
    rows: JournalRows

    @staticmethod
    def of(prepared: Prepared, journal: pa.Table, fresh: int | None = None, least: int = ALWAYS, limits: Limits | None = None) -> JournalArcs:
        """The arcs of a journal. Raises MatchRuntimeError.

        The rows from ``fresh`` on are new and may change nothing before the time ``least``.
        """
        task, texts = Task.of(prepared, limits), None
        fresh = journal.num_rows if fresh is None else fresh
        chunk = _chunk(task, journal)
        rows = JournalRows(task, chunk, fresh, least)
        owners = [0, *dict.fromkeys(rows.owners[rows.owners > 0].tolist())]
        if prepared.plan.arcs.texts:
            # Each partition's rows say which states are final. So one text may be different arcs in different partitions.
            texts = ArcTexts(task, lambda task: None)
            numbers = np.full((len(owners), chunk.rows + 1), -1, dtype=np.int64)  # the last column: arcs without a row
            for i, owner in enumerate(owners):
                mine = np.flatnonzero((rows.owners == 0) | (rows.owners == owner))
                numbers[i, mine] = texts.numbers_of(_chunk(task, journal, mine))
            task = texts.extended()
            own = np.array([numbers[owners.index(owner), row] for row, owner in enumerate(rows.owners.tolist())], dtype=np.int64)
            rows = JournalRows(task, with_columns(chunk, {names.ARC: pa.array(own)}), fresh, least)
        last = rows.plot(rows.every, rows.none).last
        of, sets = np.append(rows.owners, 0)[last[:, _GIVEN]], []
        for i, owner in enumerate(owners):
            found = last[(of == 0) | (of == owner)]
            if texts is not None:
                text = numbers[i, found[:, _GIVEN]]
                found[:, _OF] = np.where(text >= 0, text, found[:, _OF])
            sets.append(found[found[:, BEGIN] < found[:, END]])
        keys = {rows.keys[int(np.flatnonzero(rows.owners == owner)[0])]: i for i, owner in enumerate(owners) if owner}
        return JournalArcs(task.prepared, timetable(task.plan.automaton, sets, growing=texts is not None), rows.given(), keys, texts, rows)

    def placed(self, chunk: Chunk) -> Chunk:
        """A chunk with two additions: the arc list of each row, and the columns that texts read."""
        plan = self.prepared.plan
        clock = ordered_words(words(chunk.columns[plan.automaton.time]))
        base = self.present.base(0, clock)
        if self.sets:
            some = np.flatnonzero(np.diff(chunk.offsets))
            columns = [equal_keys(chunk.columns[key.column].take(pa.array(chunk.offsets[some]))) for key in plan.partition]
            for part, key in zip(some.tolist(), zip(*columns), strict=True):
                number = self.sets.get(key)
                if number is not None:
                    low, high = chunk.offsets[part : part + 2]
                    base[low:high] = self.present.base(number, clock[low:high])
        added = {names.BASE: pa.array(base)}
        return with_columns(chunk, added if self.texts is None else added | self.texts.fields(chunk))


class DatedRegisterRuns(RegisterRuns):
    """The automaton search over a stream with dynamic arcs. Each row finds the arcs that are valid at its time."""

    def __init__(self, task: Task, journal: JournalArcs) -> None:
        super().__init__(task)
        self.journal = journal
        self.runs.use(journal.present, journal.given)

    def step(self, chunk: Chunk, state: ResumeState) -> Step:
        return super().step(self.journal.placed(chunk), state)
