"""Carries year-month intervals through the table function as numbers of months, because Arrow in Python lacks the type.

``spark/session/session`` uses it. Only Spark knows a column's type, and only after analysis. So a statement is rewritten as usual;
if its analysis finds such a column, it is rewritten again with the types of the input's schema.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql.types import IntegerType, StructField, StructType, YearMonthIntervalType

from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Automaton, Here
from sparkcep.settings import Settings
from sparkcep.sql.rewrite.rewrite import AVERAGE, Months, rewrite_all

log = logging.getLogger("sparkcep")

ERROR_CLASS = "SPARKCEP.YEAR_MONTH_INTERVAL"
_KEPT = ("min", "max", "sum")  # aggregates of months that return months


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
    numbers = StructType([StructField(f.name, IntegerType() if f.name in types else f.dataType) for f in schema.fields])
    leaves = dict(plan.leaves)
    outputs = []
    for f in output_schema(plan, arrow_schema(numbers)):
        kind, spec = types.get(f.name, ""), leaves.get(f.name)
        if spec is not None and spec.kind == "nav":
            kind = types.get(spec.column, "")
        elif spec is not None and spec.kind == "agg" and spec.column in types and spec.function in (*_KEPT, "list"):
            kind = types[spec.column] if spec.function in _KEPT else f"array<{types[spec.column]}>"
        elif spec is not None and spec.kind == "agg" and spec.column in types and spec.function == "avg":
            kind = AVERAGE
        elif spec is not None and spec.kind == "rows" and types.keys() & set(spec.columns):
            kind = f"rows<{','.join(types.get(column, '') for column in spec.columns)}>"
        elif spec is not None and spec.kind == "emit":
            kind = _emitted(plan.automaton, spec.number, types)
        outputs.append((f.name, kind))
    return Months(tuple(types.items()), tuple(outputs))


def _emitted(automaton: Automaton, number: int, types: dict[str, str]) -> str:
    """Returns the type of a column of EMIT whose values are all columns of months of one type, else ""."""
    trees = [arc.emits[number] for arc in automaton.arcs if arc.emits]
    found = {types.get(tree.column, "") if isinstance(tree, Here) else "" for tree in trees if tree[:2] != ("lit", "null")}
    return found.pop() if len(found) == 1 else ""
