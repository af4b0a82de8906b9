"""Lists all computations of an AUTOMATON over a partition, by the engine, with the values of each arc's comparisons.

The engine runs a changed automaton: all states are FINAL, a further register holds the state, and each state has further arcs.
Such an arc is always taken, leads nowhere, and has EMIT with the values of the comparisons of one arc at the next row. So every
computation is a match, and so is each look of a computation at its next row.

Example: ``ARC a FROM q0 TO q1 WHEN v > n SET n = v`` becomes two arcs. One sets the state: ``SET n = v, state = 1``. The other one
leads from q0 to nowhere, with ``EMIT (0 AS arc, v > n AS value0, v AS value1, n AS value2)``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import pyarrow as pa

from sparkcep.clause.automaton import EMPTY, EXPIRY, ROW
from sparkcep.clause.tree import ONE_ROW
from sparkcep.engine.factory import match_table
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan import records
from sparkcep.plan.limits import MAX_VARIABLES
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import (
    ALL_ROWS,
    CLASSIFIER_COLUMN,
    Arc,
    Assignment,
    Automaton,
    Bound,
    Computed,
    Leaf,
    Lit,
    OfComputation,
    Register,
)
from sparkcep.tracing.conditions import question as asked
from sparkcep.tracing.kinds.listing import LIMITS, beyond_limits
from sparkcep.tracing.rows.local_times import values_of

_NULL = Lit("lit", "null", "NULL")
_MOST_VALUES = MAX_VARIABLES - 3  # of one run of the engine
Registers = tuple[Any, ...]


@dataclass(frozen=True)
class Computation:
    """A computation: first and last row, state, registers, and the arc of each row (None if there are too many arcs)."""

    first: int
    last: int
    state: int
    registers: Registers
    arcs: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Found:
    """A match: its rows, each with the name of its arc ("" without one), and registers and EMIT values at the end."""

    rows: tuple[int, ...]
    names: tuple[str, ...]
    registers: Registers
    emitted: Registers

    @property
    def first(self) -> int:
        return self.rows[0]

    @property
    def last(self) -> int:
        return self.rows[-1]


@dataclass
class Computations:
    """The computations of a partition.

    Attributes:
        from_row: for each first row its computations, in the engine's order.
        matches: the matches, in order.
        right: whether the matches are those of the computations that end in a FINAL state.
    """

    from_row: dict[int, list[Computation]] = field(default_factory=dict)
    matches: list[Found] = field(default_factory=list)
    right: bool = True
    _before: dict[int, dict[tuple[int, str], Computation]] = field(default_factory=dict)
    _looks: dict[tuple, dict[int, Any]] = field(default_factory=dict)

    def look(self, first: int, row: int, state: int, registers: Registers, arc: int) -> dict[int, Any] | None:
        """The values of an arc's probes at a row that comes after a computation. None if the row is outside of its lifetime."""
        return self._looks.get((first, row, state, _key(registers), arc))

    def before(self, row: int) -> list[Computation]:
        """The computations without rows that look at a first row: START, and the states that arcs ON EMPTY reach from it."""
        return list(self._before.get(row, {}).values())

    def farthest(self, first: int) -> list[Computation]:
        """The computations of a first row with most rows."""
        found = self.from_row.get(first, [])
        last = max((one.last for one in found), default=-1)
        return [one for one in found if one.last == last]

    @staticmethod
    def of(question: asked.Question, table: pa.Table) -> Computations:
        """Runs the engine.

        Raises:
            MatchRuntimeError: the query fails for these rows, or has too many computations.
        """
        plan = question.plan
        assert plan.automaton is not None
        found = Computations(matches=_matches(plan, plan.automaton, table))
        for begin in range(0, max(len(question.probes), 1), _MOST_VALUES):
            group = tuple(range(begin, min(begin + _MOST_VALUES, len(question.probes))))
            try:
                found._add(question, plan, plan.automaton, table, group, first=not begin)
            except MatchRuntimeError as error:
                if beyond_limits(error) or not group:
                    raise
                found._add_each(question, plan, plan.automaton, table, group, first=not begin)
        found.right = found._verified(plan, plan.automaton, table)
        return found

    def _add(self, question: asked.Question, plan: Plan, automaton: Automaton, table: pa.Table, group: tuple[int, ...], *, first: bool) -> None:
        """Adds the computations of one run of the engine, with the values of a group of probes."""
        watched = _watched(question, plan, automaton, group)
        rows = _run(watched, table, registers=len(automaton.declared) + 1, emits=len(group) + 1)
        for begin, end, registers, emits, labels in rows:
            *own, state = registers
            if emits[0] is None:
                if first:
                    arcs = tuple(int(name) if name else None for name, _ in labels)
                    self.from_row.setdefault(begin, []).append(Computation(begin, end, state, tuple(own), arcs))
                continue
            if begin == end and automaton.arcs[emits[0]].on == ROW:
                self._before.setdefault(begin, {}).setdefault((state, _key(tuple(own))), Computation(begin, begin - 1, state, tuple(own)))
            look = self._looks.setdefault((begin, end, state, _key(tuple(own)), emits[0]), {})
            look |= {probe: value for probe, value in zip(group, emits[1:], strict=True) if question.probes[probe][0] == emits[0]}

    def _add_each(self, question: asked.Question, plan: Plan, automaton: Automaton, table: pa.Table, group: tuple[int, ...], *, first: bool) -> None:
        """Adds the probes of a group one by one. A probe that fails for some row is left out, since in WHEN an AND may guard it."""
        if first:
            self._add(question, plan, automaton, table, (), first=True)
        for probe in group:
            try:
                self._add(question, plan, automaton, table, (probe,), first=False)
            except MatchRuntimeError as error:
                if beyond_limits(error):
                    raise

    def _verified(self, plan: Plan, automaton: Automaton, table: pa.Table) -> bool:
        """Whether the engine's matches without EMIT and ON EXPIRY are the computations in FINAL states."""
        arcs = tuple(arc._replace(emits=(), label=0) for arc in automaton.arcs if arc.on != EXPIRY)
        plain = replace(plan, automaton=_declared(automaton)._replace(arcs=arcs, emits=()), variables=("",))
        expected = {(begin, end, _key(registers)) for begin, end, registers, _, _ in _run(plain, table, len(automaton.declared), 0)}
        computations = [one for some in self.from_row.values() for one in some]
        final = {(one.first, one.last, _key(one.registers)) for one in computations if one.state in automaton.final}
        if automaton.by_ways:  # a computation may begin and end with rows that its match lacks
            lasts = list(accumulate((max((one.last for one in self.from_row.get(row, ())), default=-1) for row in range(table.num_rows)), max))
            return expected == final and all(match.last <= lasts[match.first] for match in self.matches)
        spans = {(one.first, one.last) for one in computations}
        return expected == final and all((match.first, match.last) in spans for match in self.matches)


def _key(registers: Registers) -> str:
    return repr(registers)


def _declared(automaton: Automaton) -> Automaton:
    """The automaton without the register that identifies rows: computations in one state with equal registers are one."""
    return automaton._replace(registers=automaton.declared)


def _matches(plan: Plan, automaton: Automaton, table: pa.Table) -> list[Found]:
    """The matches. BY ROWS they lack the rows of arcs without a name."""
    found = []
    for _, _, registers, emits, labels in _run(plan, table, len(automaton.declared), len(automaton.emits)):
        taken = [(row, name) for name, row in labels if name or not automaton.by_ways]
        found.append(Found(tuple(row for row, _ in taken), tuple(name for _, name in taken), registers, emits))
    return found


def _watched(question: asked.Question, plan: Plan, automaton: Automaton, group: tuple[int, ...]) -> Plan:
    """The changed automaton. ``group``: the probes whose values its further arcs emit."""
    state, nowhere = len(automaton.declared), len(automaton.states)
    registers = (*automaton.declared, Register("__state", "int", _number(automaton.start), 0, 0, ""))
    named = len(automaton.arcs) < MAX_VARIABLES
    arcs: list[Arc] = []
    for i, arc in enumerate(automaton.arcs):
        if arc.on != EXPIRY:
            sets = (*arc.sets, Assignment(state, _number(arc.target)))
            arcs.append(arc._replace(sets=sets, emits=(), label=i + 1 if named and arc.on == ROW else 0, limits=()))
    for i, arc in enumerate(automaton.arcs):
        values = tuple(question.probes[probe][1] if question.probes[probe][0] == i else _NULL for probe in group)
        on = ROW if arc.on == ROW else EMPTY
        arcs.append(arc._replace(target=nowhere, on=on, letter=-1, fence=(), sets=(), emits=(_number(i), *values), label=0, limits=()))
    changed = automaton._replace(
        registers=registers, states=(*automaton.states, "__nowhere"), final=tuple(range(nowhere)), arcs=tuple(arcs),
        emits=("__arc", *(f"__value{probe}" for probe in group)),
    )  # fmt: skip
    return replace(plan, automaton=changed, variables=("", *(str(i) for i in range(len(automaton.arcs)))) if named else ("",))


def _number(value: int) -> Lit:
    return Lit("lit", "int", str(value))


def _run(plan: Plan, table: pa.Table, registers: int, emits: int) -> list[tuple[int, int, Registers, Registers, list[tuple[str, int]]]]:
    """The matches of an automaton: first row, last row, registers, EMIT values, and the label of each row with the row."""
    named = {"__w_first": records.Value("nav", "F", ALL_ROWS, 0, 0, asked.ROW, True), "__w_last": records.Value("nav", "L", ALL_ROWS, 0, 0, asked.ROW, True)}
    leaves = [Leaf(name, spec) for name, spec in named.items()]
    leaves += [Leaf(f"__w_register{i}", OfComputation("register", i)) for i in range(registers)]
    leaves += [Leaf(f"__w_emit{i}", OfComputation("emit", i)) for i in range(emits)]
    leaves.append(Leaf("__w_labels", records.Rows("rows", ALL_ROWS, (CLASSIFIER_COLUMN, asked.ROW), True)))
    others = tuple(Computed(name, "") for name in table.column_names if name not in dict(plan.inputs))
    given = replace(
        plan, rows=ONE_ROW, leaves=tuple(leaves), outputs=(), leaf_places=(), arrays=(), aggregates=(), over_arrays=(), inputs=(*plan.inputs, *others),
        bounds=tuple(Bound(*limit) for limit in sorted((dict(plan.bounds) | LIMITS).items())),
    )  # fmt: skip
    found = match_table(given, table)
    columns = {name: values_of(found[name], plan.zone) for name in found.column_names}
    return [
        (
            columns["__w_first"][i], columns["__w_last"][i], tuple(columns[f"__w_register{n}"][i] for n in range(registers)),
            tuple(columns[f"__w_emit{n}"][i] for n in range(emits)), [(label["a0"] or "", label["a1"]) for label in columns["__w_labels"][i]],
        )
        for i in range(found.num_rows)
    ]  # fmt: skip
