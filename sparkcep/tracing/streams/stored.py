"""The stored rows of a key of a stream, for a trace, and the engine's own search over them.

A state lacks the values of comparisons. It has the bits that Spark computed for each row, and the columns that the other conditions
read. So a condition is one comparison for its bit and one for each tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from sparkcep.clause.tree import PAST_LAST
from sparkcep.engine.core.chunk import Chunk, columns_of
from sparkcep.engine.core.resume import ResumeState
from sparkcep.engine.factory import OpenPartitions, prepare
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.plan.reach import looks_ahead
from sparkcep.plan.records import Condition
from sparkcep.tracing.conditions.comparisons import Logic
from sparkcep.tracing.conditions.question import ROW
from sparkcep.tracing.rows.machine import Machine
from sparkcep.tracing.rows.verify import engine_plan, matches_in
from sparkcep.tracing.search.moves import STRICT
from sparkcep.tracing.search.negation import negations_of
from sparkcep.tracing.search.program import Option, Program, State
from sparkcep.tracing.search.runs import Run
from sparkcep.tracing.search.trace import Found, Match, Pattern, Trace, not_overlapping
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
        return self.machine.value(check.probe, row, run)

    def truth_between(self, comparison: int, row: int, run: Run, others: Run) -> bool | None:
        """Whether a part of a negated variable's condition holds at a row, given a finished match and earlier rows of the group."""
        check = self._checks[comparison]
        if check.probe < 0:
            return bool(self._letters[row] >> check.bit & 1)
        return self.machine.value_between(check.probe, row, run, others)

    @cached_property
    def machine(self) -> Machine:
        return Machine(prepare(searched(self.plan, self.table.schema), self.table.schema), self.table, self._trees)

    def pattern(self, *, cut: bool) -> Pattern:
        """The pattern to search for in these rows. ``cut``: rows of the key came before them."""
        plan = self.plan
        strategy = STRICT if plan.selection is None else plan.selection.strategy
        return Pattern(
            (_Cut if cut else Program)(plan.pattern, adjacent=strategy == STRICT), self.conditions, self.looks, (plan.skip.mode, plan.skip.targets), Windows.of(plan, self.table), strategy, plan.reports_all,
            negations_of(plan, self.looks),
        )  # fmt: skip


class _Cut(Program):
    """The program for rows whose first one is not the key's first row."""

    def options(self, state: State, first: bool, last: bool) -> tuple[Option, ...]:
        return super().options(state, False, last)


def matches_from(trace: Trace, state: ResumeState) -> list[Match]:
    """The matches of a key's rows from the row where the search resumes, as if the key ended after them.

    ``trace`` must not have searched. A start row that needs too many steps ends the search (``trace.given_up``).
    """
    start, before = int(state.start[0]), int(state.number[0])
    if trace.pattern.reports_all:
        return _all_from(trace, start, int(state.covered[0]))
    while start < trace.rows.count and not trace.given_up:
        found = trace.search(start, before + len(trace.matches) + 1)
        trace.given_up = found.effort
        if found.match is None:
            start += 1
        else:
            trace.matches.append(found.match)
            start = trace.resumed(found.match)
    return trace.matches


def _all_from(trace: Trace, first: int, covered: int) -> list[Match]:
    """All matches of a key's rows that begin at a row or later, and that were not emitted: they end after the row ``covered``."""
    found: list[Match] = []
    for start in range(first, trace.rows.count):
        search = trace.search(start, 0)
        trace.given_up = trace.given_up or search.effort
        found += search.matches
    is_apart = trace.pattern.skip[0] == PAST_LAST
    trace.matches = not_overlapping(found, covered) if is_apart else [match for match in found if match.end > covered]
    return trace.matches


def engine_matches(plan: Plan, table: pa.Table, state: ResumeState) -> list[Found]:
    """The engine's matches of these rows from the saved state, as if the key ended after them."""
    rows = table.append_column(ROW, pa.array(np.arange(table.num_rows)))
    plan = searched(plan, rows.schema)
    engine = OpenPartitions(prepare(plan, rows.schema), rows.schema)
    chunk = Chunk(rows, columns_of(rows, rows.schema.names), np.array([0, rows.num_rows]), state.positions, np.array([False]))
    matches = matches_in(plan, engine.pipeline.step(chunk, state))
    if not plan.reports_all:
        return matches
    return [match for match in matches if match.rows and match.rows[-1] >= int(state.covered[0])]


def agree(plan: Plan, traced: list[Found], engine: list[Found], *, given_up: bool) -> bool:
    """Whether a trace has the engine's matches, in any order under ALL MATCHES. A search that was given up has some of them."""
    if plan.reports_all:
        return set(traced) <= set(engine) if given_up else set(traced) == set(engine)
    return traced == (engine[: len(traced)] if given_up else engine)


def searched(plan: Plan, schema: pa.Schema) -> Plan:
    """The plan that returns each row of each match of a single key."""
    return alone(engine_plan(replace(plan, unfinished=None, ranking=None)), schema)


def alone(plan: Plan, schema: pa.Schema) -> Plan:
    """The plan of a single key whose rows have the columns ``schema``."""
    order = tuple(item for item in plan.order if item.column in schema.names)
    return replace(plan, given=(), idle=0, stepwise=False, partition=(), equal_keys=(), order=order)
