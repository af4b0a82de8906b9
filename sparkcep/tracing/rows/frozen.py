"""The frozen rows of a partition, with the truth and the sides of each comparison."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import pyarrow as pa

from sparkcep.engine.factory import prepare
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.records import At, Checked, Here, Near
from sparkcep.tracing.conditions.question import Question
from sparkcep.tracing.rows.local_times import values_of
from sparkcep.tracing.rows.machine import Failed, Machine
from sparkcep.tracing.rows.verify import engine_plan, matches_of, with_changes
from sparkcep.tracing.search.moves import STRICT
from sparkcep.tracing.search.negation import negations_of
from sparkcep.tracing.search.program import Program
from sparkcep.tracing.search.runs import Run, judging
from sparkcep.tracing.search.trace import Found, Pattern
from sparkcep.tracing.search.windows import Shifted, Windows


def shown_column(number: int) -> str:
    """The name of a column that is only shown."""
    return f"__s{number}"


class _Values(ABC):
    """Truths of a question's comparisons, from the values at a row that comes after a run."""

    question: Question

    @abstractmethod
    def value(self, number: int, row: int, run: Run) -> Any:
        """A value at a row, :class:`Failed` if it cannot be computed."""

    def shown_truth(self, comparison: int, row: int, run: Run) -> bool | Failed | None:
        """The truth to show. :class:`Failed` if it cannot be computed, such as one that an AND guards."""
        return self.value(self.question.comparisons[comparison].truth, row, run)

    def known_truth(self, comparison: int, row: int, run: Run) -> bool | None:
        """The truth to reason with. A comparison that cannot be computed is not known, like NULL."""
        found = self.shown_truth(comparison, row, run)
        return None if isinstance(found, Failed) else found


class FrozenRows(_Values):
    """The rows of a partition, in their order, with the values of a question's comparisons.

    Attributes:
        question: the clause.
        table: the rows: the plan's inputs, and the question's columns.
        first: the number of the first row in its partition. Every row is given by its number in the partition.
        count: the number after the last row.
        size: the number of rows of the partition; more than those of the table if the rest of it is not known.
        shown: the texts of further columns to show. The table has them under the names of :func:`shown_column`.
    """

    def __init__(self, question: Question, table: pa.Table, first: int = 0, size: int | None = None, shown: tuple[str, ...] = ()) -> None:
        self.question, self.table, self.first, self.count = question, table, first, first + table.num_rows
        self.size, self.shown = self.count if size is None else size, shown
        self._columns: dict[str, list[Any]] = {}

    @cached_property
    def machine(self) -> Machine:
        return Machine(prepare(engine_plan(self.question.plan), self.table.schema), self.table, self.question.probes, self.first)

    def column(self, name: str) -> list[Any]:
        """The values of a column, by the number of the row."""
        if name not in self._columns:
            values = values_of(self.table[name], self.question.plan.zone)
            self._columns[name] = Shifted(values, self.first) if self.first else values
        return self._columns[name]

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows of the partition."""
        return self.table.num_rows == self.size

    def matches(self) -> list[Found]:
        """The engine's matches, in order.

        Over a part of a partition the engine reads neighbours from Spark's columns, because it does not see them beyond the part.
        """
        plan = self.question.plan if self.is_whole else with_changes(self.question, {}, None)
        return [match.moved(self.first) for match in matches_of(plan, self.table)]

    def truth(self, comparison: int, row: int, run: Run) -> bool | None:
        """Whether a comparison holds at a row that comes after the run."""
        number = self.question.comparisons[comparison].truth
        value = self.question.values[number]
        return self.column(value.column)[row] if value.column else self.machine.value(value.probe, row, run)

    def truth_between(self, comparison: int, row: int, run: Run, others: Run) -> bool | None:
        """Whether a comparison of a negated variable holds at a row, given a finished match and the earlier rows of the group."""
        return self.value_between(self.question.comparisons[comparison].truth, row, run, others)

    def value_between(self, number: int, row: int, run: Run, others: Run) -> Any:
        """A value of a negated variable's condition at a row, given a finished match and the earlier rows of the group."""
        value = self.question.values[number]
        return self.column(value.column)[row] if value.column else self.machine.value_between(value.probe, row, run, others)

    def value(self, number: int, row: int, run: Run) -> Any:
        """A value at a row that comes after the run."""
        value = self.question.values[number]
        if value.column:
            return self.column(value.column)[row]
        try:
            return self.machine.value(value.probe, row, run)
        except MatchRuntimeError as error:
            return Failed(error)

    def values_of(self, number: int) -> list[Any]:
        """The column that a value reads, over all rows. Empty if it is not one column, or a neighbour or another row of one."""
        name = self._read(number)
        return self.column(name) if name else []

    def is_text(self, number: int) -> bool:
        """Whether a value is a string that one column holds."""
        name = self._read(number)
        return bool(name) and pa.types.is_string(self.table.schema.field(name).type)

    def _read(self, number: int) -> str:
        """The column that a value reads, "" if it is not one column."""
        value = self.question.values[number]
        if value.column:
            return value.column
        tree = self.question.probes[value.probe][1] if value.probe >= 0 else None
        tree = tree.tree if isinstance(tree, Checked) else tree
        return tree.column if isinstance(tree, Here | Near | At) else ""

    def seen(self, variable: int, row: int, run: Run) -> Run:
        """The rows that a condition sees at a row that comes after the run, with this row."""
        return run.with_(variable, row)

    def judged(self, run: Run, others: Run) -> Judged:
        """The values of a negated variable's conditions, given a finished match and the earlier rows of the group."""
        return Judged(self, run, others)

    def pattern(self) -> Pattern:
        """The pattern to search for in these rows."""
        plan = self.question.plan
        windows = Windows.of(plan, self.table, self.first)
        strategy = STRICT if plan.selection is None else plan.selection.strategy
        return Pattern(
            Program(plan.pattern, adjacent=strategy == STRICT), self.question.conditions, self.question.looks, (plan.skip.mode, plan.skip.targets), windows, strategy, plan.reports_all,
            negations_of(plan, self.question.looks),
        )  # fmt: skip


class Judged(_Values):
    """The values of a negated variable's conditions, judged by a finished match. The run of a question is not looked at.

    Attributes:
        question: the clause.
        count: the number of rows.
    """

    def __init__(self, rows: FrozenRows, run: Run, others: Run) -> None:
        self.rows, self.run, self.others = rows, run, others
        self.question, self.count = rows.question, rows.count

    def seen(self, variable: int, row: int, run: Run) -> Run:
        """The rows that a condition sees at a row, with this row."""
        return Run.joined(self.run.number, [*judging(self.run, self.others, variable, row), (row, variable)])

    def value(self, number: int, row: int, run: Run) -> Any:
        """A value at a row."""
        try:
            return self.rows.value_between(number, row, self.run, self.others)
        except MatchRuntimeError as error:
            return Failed(error)
