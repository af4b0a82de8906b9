"""Arcs as text: reads and compiles each text of ARCS FROM once. From then on it is an arc of the automaton.

The engine uses :class:`ArcTexts` over tables and changelogs, and :mod:`sparkcep.engine.automaton.arc_history` over streams.

The rows of each partition say which states are final. So a state that the clause does not name may become two states of the
automaton: one for the partitions that call it final, and one for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import null_marks, words
from sparkcep.compiler.registers.register_code import compile_automaton
from sparkcep.engine.automaton.arc_rows import check_texts
from sparkcep.engine.automaton.register_arrays import labelled
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.errors import Failures
from sparkcep.engine.core.operator import Answer, Found
from sparkcep.engine.core.task import Task
from sparkcep.errors import ClauseError, MatchRuntimeError, shown
from sparkcep.plan.extend import arcs as names
from sparkcep.plan.extend.arc_text import TextReader, field_column
from sparkcep.plan.limits import MAX_VARIABLES
from sparkcep.plan.records import Arc


class ArcTextRow(NamedTuple):
    """A row of ARCS FROM that brings an arc as text."""

    name: str | None
    source: str
    target: str | None
    final: bool | None
    when: str | None
    set: str | None


class ArcTexts:
    """Answers chunks by an engine for the automaton with all arcs that have come as text so far. ``engine``: makes the engine of a
    task.

    Attributes:
        states: the number of each state, by its name in lower case and whether it is final.
        declared: whether each state that the clause names is final.
        labels: the number of each arc name, for CLASSIFIER().
        added: the names of states that texts have added.
        arcs: the arcs that texts have added.
        numbers: the number of each of these arcs in the automaton, by its name, states, fence and assignments.
        compiled: how many of these arcs the current engine has.
    """

    def __init__(self, task: Task, engine: Callable[[Task], Answer]) -> None:
        self.task, self.engine = task, engine
        automaton, row = task.plan.automaton, task.prepared.input_schema.field(names.ROW).type
        self.reader = TextReader(automaton, [row.field(i).name for i in range(row.num_fields)], task.plan.case_sensitive)
        self.states = {(name.lower(), number in automaton.final): number for number, name in enumerate(automaton.states)}
        self.declared = {name.lower(): number in automaton.final for number, name in enumerate(automaton.states)}
        self.templates = {arc.template.lower() for arc in automaton.arcs if arc.template}
        self.labelled = labelled(task.plan)
        self.labels = {name: number for number, name in reversed(list(enumerate(task.plan.variables)))}
        self.added: list[str] = []  # states that texts have added
        self.arcs: list[Arc] = []
        self.numbers: dict[tuple, int] = {}
        self.compiled = -1  # how many added arcs the current engine has
        self.answers: Answer | None = None

    def answer(self, chunk: Chunk) -> Iterator[Found]:
        """The matches of whole partitions."""
        numbers = pa.array(self.numbers_of(chunk))
        if self.answers is None or self.compiled < len(self.arcs):
            self.answers, self.compiled = self.engine(self.extended()), len(self.arcs)
        for found in self.answers(with_columns(chunk, {names.ARC: numbers} | self.fields(chunk))):
            yield found._replace(matches=replace(found.matches, variables=self.variables()))

    def variables(self) -> tuple[str, ...]:
        """The names of the clause's arcs and of those that texts have added."""
        return tuple(sorted(self.labels, key=self.labels.get)) if self.labelled else self.task.plan.variables

    def fields(self, chunk: Chunk) -> dict[str, pa.Array]:
        """The columns of the rows that the texts so far read."""
        return {field_column(i): chunk.columns[names.ROW].field(i) for i in sorted(self.reader.used)}

    # -- rows ---------------------------------------------------------------------------------------------------------

    def numbers_of(self, chunk: Chunk) -> np.ndarray:
        """The number of the arc in the automaton that each row brings as text, -1 for other rows. int64 (rows)."""
        columns = chunk.columns
        check_texts(columns)
        marks = np.asarray(pc.fill_null(columns[names.IS], False)).astype(bool)
        marks &= np.asarray(pc.fill_null(pc.not_equal(pc.utf8_lower(columns[names.OP].cast(pa.string())), "punctuate"), True)).astype(bool)
        given = null_marks(columns[names.SOURCE]) == 0
        self._check_alone(columns, marks & ~given)
        rows = np.flatnonzero(marks & given)
        numbers, known = np.full(chunk.rows, -1, dtype=np.int64), {}
        order, parts = words(columns[names.NUMBER])[rows], chunk.partition_of(rows)
        for some in np.split(rows, np.flatnonzero(np.diff(parts)) + 1) if len(rows) else ():
            key = order[np.searchsorted(rows, some[0]) :][: len(some)].tobytes()
            if key not in known:
                known[key] = self._of_partition(chunk, some)
            numbers[some] = known[key]
        return numbers

    def _check_alone(self, columns: dict[str, pa.Array], others: np.ndarray) -> None:
        """Raises MatchRuntimeError if a row without from_state has columns that only arcs as text may have."""
        for name, column in (("to_state", names.TARGET), ("final", names.FINAL), ("when", names.WHEN), ("set", names.SET)):
            bad = np.flatnonzero(others & (null_marks(columns[column]) == 0))
            if len(bad):
                arc = columns[names.NAME][int(bad[0])].as_py()
                raise _error(f"a row of ARCS FROM for the arc {arc!r} has {name}, but no from_state; an arc with parameters has neither, an arc as text both")

    def _of_partition(self, chunk: Chunk, rows: np.ndarray) -> list[int]:
        taken = pa.array(rows)
        columns = (names.NAME, names.SOURCE, names.TARGET, names.FINAL, names.WHEN, names.SET)
        found = [ArcTextRow(*of) for of in zip(*(chunk.columns[column].take(taken).to_pylist() for column in columns))]
        final: dict[str, bool] = {}
        for one in found:
            if one.name is not None and one.name.lower() in self.templates:
                raise _error(f"{_named(one)} has the name of an arc of the clause that has parameters. Leave from_state out, or use another name")
            if one.target is None:
                raise _error(f"{_named(one)} lacks to_state, the state that it leads to")
            if one.final is not None and self.declared.get(one.target.lower(), final.get(one.target.lower(), one.final)) != one.final:
                where = "the clause says" if one.target.lower() in self.declared else "another row says"
                raise _error(f"{_named(one)} has final = {str(one.final).lower()} for the state {one.target}, but {where} the opposite. Leave final NULL there")
            if one.final is not None:
                final.setdefault(one.target.lower(), one.final)
        return [self._number(one, final) for one in found]

    # -- arcs ---------------------------------------------------------------------------------------------------------

    def _number(self, one: ArcTextRow, final: dict[str, bool]) -> int:
        """The number of an arc in the automaton. A new arc is added."""
        key = (one.name, self._state(one.source, final), self._state(one.target, final), one.when, one.set)
        if key not in self.numbers:
            _, source, target, _, _ = key
            text = f"{'without a name' if one.name is None else one.name} of ARCS FROM, from {one.source} to {one.target}"
            fence, sets = self._read(one, "when", self.reader.fence), self._read(one, "set", self.reader.sets)
            arc = Arc(source, target, "row", -1, fence, sets, (), self._label(one.name), 0, 0, text, "", (0, 0))
            self._check(one, arc)
            self.arcs.append(arc)
            self.numbers[key] = len(self.task.plan.automaton.arcs) + len(self.arcs) - 1
        return self.numbers[key]

    def _state(self, name: str, final: dict[str, bool]) -> int:
        key = (name.lower(), self.declared.get(name.lower(), final.get(name.lower(), False)))
        if key not in self.states:
            self.states[key] = len(self.task.plan.automaton.states) + len(self.added)
            self.added.append(name)
        return self.states[key]

    def _label(self, name: str | None) -> int:
        if name is None or not self.labelled:
            return 0
        number = self.labels.setdefault(name, len(self.labels))
        if number >= MAX_VARIABLES:
            raise MatchRuntimeError("TOO_MANY_VARIABLES", f"CLASSIFIER() can distinguish at most {MAX_VARIABLES - 1} arcs, and ARCS FROM has more. Leave CLASSIFIER() out", sqlstate="54000")
        return number

    def _read(self, one: ArcTextRow, column: str, read: Callable) -> tuple:
        text = getattr(one, column)
        try:
            return read(text)
        except ClauseError as error:
            place = f"line {error.line}, column {error.column}" if "\n" in text else f"column {error.column}"
            raise _error(f"{_named(one)}: {error.message} ({place} of its {column}, {shown(text)!r})") from None

    def _check(self, one: ArcTextRow, arc: Arc) -> None:
        """Compiles an arc on its own, so that an error names it."""
        plan = self.task.plan
        for column, part in (("when", arc._replace(sets=())), ("set", arc._replace(fence=()))):
            try:
                compile_automaton(replace(plan, automaton=self._automaton([part])), self._schema())
            except ClauseError as error:
                raise _error(f"{_named(one)}: {error.message} (in its {column}, {shown(getattr(one, column))!r})") from None

    # -- the engine ---------------------------------------------------------------------------------------------------

    def _automaton(self, arcs: list[Arc]):
        automaton = self.task.plan.automaton
        final = {number for (_, is_final), number in self.states.items() if is_final}
        return automaton._replace(states=(*automaton.states, *self.added), final=tuple(sorted(final)), arcs=(*automaton.arcs, *arcs))

    def _schema(self) -> pa.Schema:
        schema = self.task.prepared.input_schema
        row = schema.field(names.ROW).type
        return pa.schema([*schema, *(pa.field(field_column(i), row.field(i).type) for i in sorted(self.reader.used))])

    def extended(self) -> Task:
        """The task with all arcs that have come so far."""
        prepared, schema = self.task.prepared, self._schema()
        plan = replace(prepared.plan, automaton=self._automaton(self.arcs), variables=self.variables())
        whole = replace(prepared, strategy=replace(prepared.strategy, plan=plan), input_schema=schema, compiled=compile_automaton(plan, schema))
        return replace(self.task, prepared=whole, failures=Failures(plan, self.task.limits))


def with_columns(chunk: Chunk, added: dict[str, pa.Array]) -> Chunk:
    """The chunk with additional columns."""
    table = chunk.table
    for name, column in added.items():
        table = table.append_column(name, column)
    return replace(chunk, table=table, columns=chunk.columns | added)


def _named(one: ArcTextRow) -> str:
    """The name of a row of ARCS FROM in errors."""
    return f"the row of ARCS FROM with arc {one.name!r}, from_state {one.source!r} and to_state {one.target!r}"


def _error(message: str) -> MatchRuntimeError:
    return MatchRuntimeError("ARC_TEXT", message, sqlstate="22023")
