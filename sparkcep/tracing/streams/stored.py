"""The stored rows of a key of a stream, for a trace, and the engine's own search over them.

A state lacks the values of comparisons. It has the bits that Spark computed for each row, and the columns that the other conditions
read. So a condition is one comparison for its bit and one for each tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sparkcep.engine.core.chunk import Chunk, columns_of
from sparkcep.engine.core.resume import ResumeState
from sparkcep.engine.factory import OpenPartitions, prepare
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.plan.reach import looks_ahead
from sparkcep.plan.records import Condition
from sparkcep.tracing.conditions.comparisons import Logic
from sparkcep.tracing.conditions.question import ROW
from sparkcep.tracing.rows.machine import Machine
from sparkcep.tracing.rows.verify import engine_plan
from sparkcep.tracing.search.program import Option, Program, State
from sparkcep.tracing.search.runs import Run
from sparkcep.tracing.search.trace import Match, Pattern, Trace
from sparkcep.tracing.search.windows import Windows


@dataclass(frozen=True)
class _Check:
    """A part of a condition: a bit of the letters (probe -1), or a tree that reads up to ``ahead`` rows after its row."""

    bit: int
    probe: int = -1
    ahead: int = 0


class StoredRows:
    """The rows of a key that the watermark has released, as the search reads them.

    Attributes:
        plan: the plan of the stream.
        table: the rows: the plan's input columns.
        first: the number of the first row.
        count: the number of rows.
        conditions: the condition of each variable that has one.
        waits: whether a condition that reads future rows counts as true until they are there.
        waited: whether such a condition has been asked.
    """

    def __init__(self, plan: Plan, table: pa.Table, *, waits: bool = False) -> None:
        self.plan, self.table, self.first, self.count, self.waits, self.waited = plan, table, 0, table.num_rows, waits, False
        self.conditions: dict[int, Logic] = {}
        self._checks: list[_Check] = []
        self._trees: list[tuple[int, tuple]] = []
        parts: dict[int, list[Logic]] = {}
        for letter in plan.letters:
            parts.setdefault(letter.variable, []).append(self._added(_Check(letter.bit)))
        for condition in plan.conditions:
            for tree in condition.trees:
                ahead = looks_ahead(plan.pattern, Condition(condition.variable, (tree,)), len(plan.variables))
                self._trees.append((condition.variable, tree))
                parts.setdefault(condition.variable, []).append(self._added(_Check(-1, len(self._trees) - 1, ahead)))
        self.conditions.update((variable, ("and", *logic)) for variable, logic in parts.items())
        self._letters: list[int] = table.column(LETTERS).to_pylist() if plan.letters else []
        self._machine: Machine | None = None

    def _added(self, check: _Check) -> Logic:
        self._checks.append(check)
        return ("comparison", len(self._checks) - 1)

    @property
    def looks(self) -> frozenset[int]:
        """The variables whose conditions look at the match or at other rows."""
        return frozenset(variable for variable, _ in self._trees)

    def truth(self, comparison: int, row: int, run: Run) -> bool | None:
        """Whether a part of a condition holds at a row that comes after the run."""
        check = self._checks[comparison]
        if check.probe < 0:
            return bool(self._letters[row] >> check.bit & 1)
        if self.waits and check.ahead and row + check.ahead >= self.count:
            self.waited = True
            return True
        if self._machine is None:
            self._machine = Machine(prepare(searched(self.plan, self.table.schema), self.table.schema), self.table, self._trees)
        return self._machine.value(check.probe, row, run)

    def pattern(self, *, cut: bool) -> Pattern:
        """The pattern to search for in these rows. ``cut``: rows of the key came before them."""
        plan, program = self.plan, (_Cut if cut else Program)(self.plan.pattern)
        return Pattern(program, self.conditions, self.looks, (plan.skip.mode, plan.skip.targets), Windows.of(plan, self.table))


class _Cut(Program):
    """The program for rows whose first one is not the key's first row."""

    def options(self, state: State, first: bool, last: bool) -> tuple[Option, ...]:
        return super().options(state, False, last)


def matches_from(trace: Trace, state: ResumeState) -> list[Match]:
    """The matches of a key's rows from the row where the search resumes, as if the key ended after them.

    ``trace`` must not have searched. A start row that needs too many steps ends the search (``trace.given_up``).
    """
    start, number = int(state.start[0]), int(state.number[0])
    while start < trace.rows.count and not trace.given_up:
        number += 1
        found = trace.search(start, number)
        trace.given_up = found.effort
        if found.match is None:
            start, number = start + 1, number - 1
        else:
            trace.matches.append(found.match)
            start = trace.resumed(found.match)
    return trace.matches


def engine_matches(plan: Plan, table: pa.Table, state: ResumeState) -> list[tuple[int, tuple[int, ...]]]:
    """The engine's matches of these rows from the saved state, as if the key ended after them: start row and variables of each."""
    rows = table.append_column(ROW, pa.array(np.arange(table.num_rows)))
    found: dict[int, list[tuple[int, str | None]]] = {}
    plan = searched(plan, rows.schema)
    match_number, classifier = (leaf.name for leaf in plan.leaves)
    engine = OpenPartitions(prepare(plan, rows.schema), rows.schema)
    chunk = Chunk(rows, columns_of(rows, rows.schema.names), np.array([0, rows.num_rows]), state.positions, np.array([False]))
    for out in engine.pipeline.step(chunk, state):
        for number, row, label in zip(*(out[name].to_pylist() for name in (match_number, ROW, classifier)), strict=True):
            found.setdefault(number, []).append((row, label))
    ids = {name: i for i, name in enumerate(plan.variables)}
    return [(rows[0][0], tuple(ids[label] for _, label in rows if label is not None)) for _, rows in sorted(found.items())]


def searched(plan: Plan, schema: pa.Schema) -> Plan:
    """The plan that returns each row of each match of a single key."""
    order = tuple(item for item in plan.order if item.column in schema.names)
    return replace(engine_plan(plan), given=(), idle=0, stepwise=False, partition=(), equal_keys=(), order=order, ranking=None)
