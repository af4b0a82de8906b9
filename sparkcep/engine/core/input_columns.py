"""Checks that the input has the columns that a plan names, with types that kernels and engine accept.

A plan that the rewriter made from a clause fits its input. A plan that somebody wrote by hand need not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from sparkcep.columns.types import type_of
from sparkcep.engine.core.chunk import Chunk
from sparkcep.plan.extend import arcs
from sparkcep.plan.facts import finished_in
from sparkcep.plan.json import marked, wrong
from sparkcep.plan.limits import Column
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.plan.records import Pair, letter_column, parameter_column, register_column, walk

_HISTORY = {
    "pattern": pa.string(), "place": pa.int32(), "errors": pa.float64(), "remaining": pa.int32(), "idle": pa.int32(), "visits": pa.int64(), "points": pa.int64(),
    "bundles": pa.list_(pa.int32()),
}  # fmt: skip


def named_columns(plan: Plan, schema: pa.Schema) -> list[tuple[str, Column]]:
    """Returns the columns of the input that a plan names, with their descriptions."""
    own = _own_columns(plan)
    found = [(name, column) for name, column in marked(Column, plan) if not (name is None or name in column.also or (column.own and name in own))]
    # over a stream a history arrives separately from the rows, and the watermark is the clock; over a table the engine reports a
    # missing one
    found = [(name, column) for name, column in found if column.kinds not in ("history", "clock") or name in schema.names]
    if plan.letters:
        found.append((LETTERS, Column("whole")))
    if plan.rows != "one":
        found += [(key.column, Column()) for key in plan.order if not key.plain]
    return found


def check_columns(named: list[tuple[str, Column]], schema: pa.Schema) -> None:
    """Raises ClauseError if ``schema`` lacks a column that the plan names, or if an array column is not an array.

    ``named``: the columns of :func:`named_columns`.
    """
    for name, column in named:
        if schema.get_field_index(name) < 0:  # also if several columns have this name
            raise wrong(f"the input has not one column {name}")
        if column.kinds == "list":
            _check_type(name, column, schema)
    taken = [name for name in (arcs.BASE, arcs.ARC) if name in schema.names]
    if taken:
        raise wrong(f"the name {taken[0]} of an input column is reserved for the engine")


def check_types(named: list[tuple[str, Column]], schema: pa.Schema) -> None:
    """Raises ClauseError if a column has a type that it must not have.

    Columns that a user chooses have errors of their own, with places in the clause. Those errors are raised first.
    """
    for name, column in named:
        _check_type(name, column, schema)


def _check_type(name: str, column: Column, schema: pa.Schema) -> None:
    if not _KINDS[column.kinds](schema.field(name).type):
        raise wrong(f"the column {name} is of type {schema.field(name).type}, which is not possible there")


def _own_columns(plan: Plan) -> set[str]:
    """Returns the columns that an automaton's trees read in addition to those of the input."""
    automaton = plan.automaton
    if automaton is None:
        return set()
    counts = ((register_column, len(automaton.registers)), (parameter_column, len(automaton.parameters)))
    return {letter_column(letter.bit) for letter in plan.letters}.union(*(map(column, range(count)) for column, count in counts))


def _is_history(t: pa.DataType) -> bool:
    """Returns whether a column holds a history as defined in :mod:`sparkcep.plan.extend.budget`."""
    if not (pa.types.is_list(t) and pa.types.is_struct(t.value_type)):
        return False
    found = {field.name: field.type for field in t.value_type}
    return set(_HISTORY) - {"points"} <= set(found) and all(_HISTORY.get(name) == own or (pa.types.is_list(own) and own.value_type == pa.int32()) for name, own in found.items())


def _of_kinds(*kinds: str) -> Callable[[pa.DataType], bool]:
    return lambda t: type_of(t).kind in kinds


_WHOLE = ("tinyint", "smallint", "int", "bigint")
_KINDS: dict[str, Callable[[pa.DataType], bool]] = {
    "": lambda t: True, "boolean": _of_kinds("boolean"), "whole": _of_kinds(*_WHOLE), "number": lambda t: True, "list": pa.types.is_list, "history": _is_history, "clock": lambda t: True,
}  # fmt: skip


def check_pairs(plan: Plan, chunk: Chunk) -> None:
    """Raises ClauseError if a row number that selects an array element lies outside its array.

    The array of a row has an element for each row of the partition up to it, or up to some rows after it. A condition that reads
    the finished match needs an element for every row of the partition. One more element is for no row. For two rows the array has
    an element for each pair.
    """
    if not chunk.rows:
        return
    part, finished = np.repeat(np.arange(chunk.parts), np.diff(chunk.offsets)), finished_in(plan.pattern, plan.without)
    pairs = {(tree, finished >> variable & 1) for variable, trees in plan.conditions for whole in trees for tree in walk(whole) if isinstance(tree, Pair)}
    for pair, whole in pairs:
        numbers, values = chunk.columns[pair.number], chunk.columns[pair.column]
        found, sizes = np.asarray(numbers.fill_null(0)).astype(np.int64), np.diff(np.asarray(values.offsets, dtype=np.int64))
        sides = sizes if len(pair.rows) == 1 else np.rint(np.sqrt(sizes)).astype(np.int64)
        ahead = chunk.rows if whole else min(max(0, *(row.physical for row in pair.rows)), chunk.rows)
        # numbers ascend, so the last row that may be looked at has the largest number
        last = np.minimum(np.arange(chunk.rows) + ahead, chunk.offsets[part + 1] - 1)
        falls = (np.diff(found) <= 0) & (np.diff(part) == 0)
        if found.min() < 1 or falls.any() or (sides ** len(pair.rows) != sizes).any() or (found[last] >= sides).any():
            raise wrong(f"the arrays of the column {pair.column} lack an element for some row that {pair.number} numbers")
