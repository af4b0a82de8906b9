"""The prepared plan, compiled for an input schema, and the task that the parts of one engine share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from sparkcep.compiler.conditions.bytecode import Conditions, compile_conditions
from sparkcep.compiler.liveness import program_live, selection_live
from sparkcep.compiler.registers.inferred_types import typed_register
from sparkcep.compiler.registers.register_code import Compiled, compile_automaton, register_type
from sparkcep.compiler.strategy import Strategy
from sparkcep.engine.core.effort import Limits, Totals
from sparkcep.engine.core.errors import Failures
from sparkcep.engine.output.columns_out import leaf_type
from sparkcep.errors import ClauseError
from sparkcep.kernels.common import layout
from sparkcep.plan.json import wrong
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.plan.reach import Reach
from sparkcep.plan.records import LeafSpec


@dataclass(frozen=True)
class Prepared:
    """A plan compiled for an input schema. The table function's ``analyze`` sends it to its workers.

    Attributes:
        strategy: the search that answers the plan.
        input_schema: the columns of the input.
        conditions: the bytecode of the conditions.
        output_schema: the columns of the output, see :func:`output_schema`.
        memo: how the search for adjacent rows remembers failed states.
        state_live: the slots that decide the future of each state or node. uint8 (states or nodes, slots).
        compiled: the bytecode of an automaton.
        looks: how many rows after the candidate row the condition of each variable may read.
    """

    strategy: Strategy
    input_schema: pa.Schema
    conditions: Conditions
    output_schema: pa.Schema
    memo: int
    state_live: np.ndarray
    compiled: Compiled | None = None
    looks: tuple[int, ...] = ()

    @property
    def plan(self) -> Plan:
        return self.strategy.plan

    def deferring(self) -> Prepared:
        """Compiles the plan again, with conditions over physical neighbours evaluated at candidate rows only.

        Such a condition may fail on a row that is not a candidate.
        """
        conditions = compile_conditions(self.plan, self.input_schema, self.looks, deferred=True)
        memo, live = memo_of(self.strategy, conditions)
        return replace(self, conditions=conditions, memo=memo, state_live=live)

    def arrived(self, schema: pa.Schema) -> Prepared:
        """Returns the prepared plan for batches as they arrived: their timestamps carry the session's time zone."""
        schema = pa.schema([schema.field(f.name) for f in self.input_schema])
        return replace(self, input_schema=schema, output_schema=output_schema(self.plan, schema))


@dataclass
class Task:
    """Shared by the parts of one engine: the prepared plan, its limits and its counters.

    Attributes:
        back, ahead: how many rows before and after a row navigation may look.
        awaited: how many rows after its last row a match waits for.
        ran: the names of the searches that have run so far.
        looks: how often a row was compared with a class of runs.
        totals: counts of the checks under a BUDGET.
        matches: how many matches were emitted.
    """

    prepared: Prepared
    limits: Limits
    failures: Failures
    back: int
    ahead: int
    awaited: int
    ran: set[str] = field(default_factory=set)
    looks: int = 0
    totals: Totals = field(default_factory=Totals)
    matches: int = 0

    @staticmethod
    def of(prepared: Prepared, limits: Limits | None) -> Task:
        limits = limits or Limits(**dict(prepared.plan.bounds))
        back, ahead = prepared.conditions.max_back, prepared.conditions.max_ahead
        for leaf in prepared.plan.leaves:
            if leaf.spec.kind == "nav":
                back, ahead = max(back, -leaf.spec.physical), max(ahead, leaf.spec.physical)
        return Task(prepared, limits, Failures(prepared.plan, limits), back, ahead, Reach.of(prepared.plan).ahead)

    @property
    def plan(self) -> Plan:
        return self.prepared.plan

    @property
    def slots(self) -> np.ndarray:
        """The slots that a kernel fills. There are none if no condition looks at the match."""
        conditions = self.prepared.conditions
        return conditions.slots if conditions.has_history else conditions.slots[:0]


def memo_of(strategy: Strategy, conditions: Conditions) -> tuple[int, np.ndarray]:
    """Returns how a search remembers failed states, and the slots that decide the future of each state."""
    if strategy.net is None and strategy.forgets is None:
        fits, live = program_live(strategy.program, conditions)
        return layout.BITMAP if fits else layout.HASHED, live
    live = selection_live(strategy.net, conditions) if strategy.net is not None and not strategy.conjoined else np.zeros((1, 1), dtype=np.uint8)
    return layout.NO_MEMO, live


def output_schema(plan: Plan, schema: pa.Schema) -> pa.Schema:
    """Returns the columns of the table function: keys, leaves, and under ALL ROWS PER MATCH the user's input columns.

    Spark reads columns by position. So if the plan names the columns (``given``), the schema has just these.
    """
    fields = []
    if plan.rows == "one":
        fields += [pa.field(key.column, schema.field(key.column).type) for key in plan.partition]
    else:
        internal = {LETTERS, *(n for n, _ in plan.inputs), *(n for n, _ in plan.ordered_inputs)}
        internal.update(plan.arcs.columns if plan.arcs is not None else ())
        fields += [pa.field(f.name, f.type) for f in schema if f.name not in internal]
        # keys that are not columns of the user's table
        fields += [pa.field(key.column, schema.field(key.column).type) for key in (*plan.partition, *plan.order) if not key.plain]
        if plan.rows == "unmatched":
            fields.append(pa.field("__matched", pa.bool_()))
    fields += [pa.field(name, _leaf_type(plan, name, spec, schema)) for name, spec in plan.leaves]
    if plan.given:
        named = {f.name: f for f in fields}
        if not named.keys() >= set(plan.given):
            raise wrong("it returns columns that the engine does not have")
        fields = [named[name] for name in plan.given]
    return pa.schema(fields)


def _leaf_type(plan: Plan, name: str, spec: LeafSpec, schema: pa.Schema) -> pa.DataType:
    """Returns the type of a leaf. Raises ClauseError, with the place in the clause if it is known."""
    try:
        return _computed_type(plan, spec, schema) or leaf_type(spec, schema)
    except ClauseError as error:
        raise next((error.moved(p.line, p.column, p.text) for p in plan.leaf_places if p.name == name), error) from None


def _computed_type(plan: Plan, spec: LeafSpec, schema: pa.Schema) -> pa.DataType | None:
    """Returns the type of a register or of EMIT's column, None for other leaves."""
    if spec.kind == "register":
        return register_type(typed_register(plan.automaton.registers[spec.number], schema, plan.months))
    return compile_automaton(plan, schema).emits[spec.number].arrow if spec.kind == "emit" else None
