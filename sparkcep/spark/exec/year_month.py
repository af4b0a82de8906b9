"""Carries year-month intervals through the table function as numbers of months, because Arrow in Python lacks the type.

``spark/session/session`` uses it. Only Spark knows a column's type, and only after analysis. So a statement is rewritten as usual;
if its analysis finds such a column, it is rewritten again with the types of the input's schema.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import IntegerType, StructField, StructType, YearMonthIntervalType

from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Checked, Here, register_column
from sparkcep.settings import Settings
from sparkcep.sql.rewrite.rewrite import AVERAGE, Months, rewrite_all

log = logging.getLogger("sparkcep")

ERROR_CLASS = "SPARKCEP.YEAR_MONTH_INTERVAL"
_KEPT = ("min", "max", "sum")  # aggregates of months that return months
_OF_BOTH_UNITS = "interval year to month"


def find_months(sql: str, settings: Settings, schema_of: Callable[[str], StructType]) -> tuple[Months | None, ...]:
    """Returns the columns of each clause that must travel as months. ``schema_of`` returns the schema of a query.

    A clause has None if it lacks such columns, or if its table cannot be read on its own.
    """
    from sparkcep.spark.exec.table_function import plan_at

    found: list[Months | None] = []
    while len(found) < len(clauses := rewrite_all(sql, settings, tuple(found))[1]):
        clause = clauses[len(found)]
        try:
            fields = schema_of(clause.input).fields
        except PySparkException as error:
            log.info("the table of a clause cannot be read by itself: %s", error)
            found.append(None)
            continue
        at = plan_at([f.name for f in fields])
        schema = StructType(fields if at is None else fields[:at] + fields[at + 1 :])
        found.append(_months(clause.plan, schema))
    return tuple(found)


def _months(plan: Plan, schema: StructType) -> Months | None:
    from sparkcep.engine.core.task import output_schema
    from sparkcep.spark.exec.table_function import arrow_schema

    types = {f.name: f.dataType.simpleString() for f in schema.fields if isinstance(f.dataType, YearMonthIntervalType)}
    if not types:
        return None
    numbers = arrow_schema(StructType([StructField(f.name, IntegerType() if f.name in types else f.dataType) for f in schema.fields]))
    plan = replace(plan, months=tuple(types))
    leaves, emitted = dict(plan.leaves), _emitted(plan, numbers, types)
    outputs = []
    for f in output_schema(plan, numbers):
        kind, spec = types.get(f.name, ""), leaves.get(f.name)
        if spec is not None and spec.kind == "nav":
            kind = types.get(spec.column, "")
        elif spec is not None and spec.kind == "agg" and spec.column in types and spec.function in (*_KEPT, "list"):
            kind = types[spec.column] if spec.function in _KEPT else f"array<{types[spec.column]}>"
        elif spec is not None and spec.kind == "agg" and spec.column in types and spec.function == "avg":
            kind = AVERAGE
        elif spec is not None and spec.kind == "rows" and types.keys() & set(spec.columns):
            kind = f"rows<{','.join(types.get(column, '') for column in spec.columns)}>"
        elif spec is not None and spec.kind == "register":
            kind = types.get(plan.automaton.registers[spec.number].like, "")
        elif spec is not None and spec.kind == "emit":
            kind = emitted[spec.number]
        outputs.append((f.name, kind))
    return Months(tuple(types.items()), tuple(outputs))


def _emitted(plan: Plan, schema: pa.Schema, types: dict[str, str]) -> list[str]:
    """The interval type of each column of EMIT, "" if it is not of months. ``types``: the types of the columns of months."""
    from sparkcep.compiler.registers.register_code import compile_automaton

    automaton = plan.automaton
    if automaton is None:
        return []
    known = types | {register_column(i): types[register.like] for i, register in enumerate(automaton.registers) if register.like in types}
    found = []
    for number, held in enumerate(compile_automaton(plan, schema).emits):
        units = {unit for arc in automaton.arcs if arc.emits for unit in _units(arc.emits[number], known)}
        found.append("" if held.type.kind != "months" else units.pop() if len(units) == 1 else _OF_BOTH_UNITS)
    return found


def _units(tree: tuple, types: dict[str, str]) -> set[str]:
    """The types of the intervals whose common type is that of a tree's value."""
    if isinstance(tree, Checked):
        return _units(tree.tree, types)
    if isinstance(tree, Here):
        return {types[tree.column]} if tree.column in types else set()
    if tree[0] != "call":
        return set()
    name, *operands = tree[1:]
    if name in ("*", "/"):
        return {_OF_BOTH_UNITS}
    values = [*operands[1::2], operands[-1]] if name == "if" else operands
    return {unit for value in values for unit in _units(value, types)}
