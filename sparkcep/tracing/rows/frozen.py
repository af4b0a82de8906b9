"""The frozen rows of a partition, with the truth and the sides of each comparison."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sparkcep.engine.factory import prepare
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.records import At, Checked, Here, Near
from sparkcep.tracing.conditions.question import Question
from sparkcep.tracing.rows.machine import Failed, Machine
from sparkcep.tracing.rows.verify import engine_plan, matches_of, with_changes
from sparkcep.tracing.search.program import Program
from sparkcep.tracing.search.runs import Run
from sparkcep.tracing.search.trace import Pattern
from sparkcep.tracing.search.windows import Shifted, Windows


def shown_column(number: int) -> str:
    """The name of a column that is only shown."""
    return f"__s{number}"


class FrozenRows:
    """The rows of a partition, in their order, with the values of a question's comparisons.

    Attributes:
        question: the clause.
        table: the rows: the plan's inputs, and the question's columns.
        first: the number of the first row in its partition. Every row is given by its number in the partition.
        count: the number after the last row.
        size: the number of rows of the partition.
        shown: the texts of further columns to show. The table has them under the names of :func:`shown_column`.
    """

    def __init__(self, question: Question, table: pa.Table, first: int = 0, size: int | None = None, shown: tuple[str, ...] = ()) -> None:
        self.question, self.table, self.first, self.count = question, table, first, first + table.num_rows
        self.size, self.shown = self.count if size is None else size, shown
        self._columns: dict[str, list[Any]] = {}
        self._machine: Machine | None = None
        self._found: dict[tuple[int, Run], Any] = {}

    @property
    def machine(self) -> Machine:
        if self._machine is None:
            self._machine = Machine(prepare(engine_plan(self.question.plan), self.table.schema), self.table, self.question.probes, self.first)
        return self._machine

    def column(self, name: str) -> list[Any]:
        """The values of a column, by the number of the row."""
        if name not in self._columns:
            values = self.table[name].to_pylist()
            self._columns[name] = Shifted(values, self.first) if self.first else values
        return self._columns[name]

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows of the partition."""
        return self.table.num_rows == self.size

    def matches(self) -> list[tuple[int, tuple[int, ...]]]:
        """The engine's matches: first row and variables of each, in order.

        Over a part of a partition the engine reads neighbours from Spark's columns, because it does not see them beyond the part.
        """
        plan = self.question.plan if self.is_whole else with_changes(self.question, {}, None)
        return [(start + self.first, variables) for start, variables in matches_of(plan, self.table)]

    def truth(self, comparison: int, row: int, run: Run) -> bool | None:
        """Whether a comparison holds at a row that comes after the run."""
        number = self.question.comparisons[comparison].truth
        value = self.question.values[number]
        return self.column(value.column)[row] if value.column else self.machine.value(value.probe, row, run)

    def shown_truth(self, comparison: int, row: int, run: Run) -> bool | Failed | None:
        """The truth to show. :class:`Failed` if it cannot be computed, such as one that an AND guards."""
        return self.value(self.question.comparisons[comparison].truth, row, run)

    def known_truth(self, comparison: int, row: int, run: Run) -> bool | None:
        """The truth to reason with. A comparison that cannot be computed is not known, like NULL."""
        found = self.shown_truth(comparison, row, run)
        return None if isinstance(found, Failed) else found

    def sides(self, comparison: int, row: int, run: Run) -> tuple[Any, ...]:
        """The values of a comparison's sides; :class:`Failed` for a side that cannot be computed."""
        return tuple(self.value(number, row, run) for number in self.question.comparisons[comparison].sides)

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

    def pattern(self) -> Pattern:
        """The pattern to search for in these rows."""
        plan = self.question.plan
        return Pattern(Program(plan.pattern), self.question.conditions, self.question.looks, (plan.skip.mode, plan.skip.targets), Windows.of(plan, self.table, self.first))
