"""Type inference for the registers of a PATTERN's automaton: each register gets its type from a column.

A plan is made before any types are known, so such a register names its column. ``compiler/registers/register_code`` calls this when
the schema is known.
"""

from __future__ import annotations

import pyarrow as pa

from sparkcep.columns.types import MAX_DIGITS, type_of
from sparkcep.errors import UNSUPPORTED, ClauseError
from sparkcep.plan.records import LIKE, MEAN, OF_COLUMN, SUM, WAY, Automaton, Lit, Register

MONTHS = "<months>"  # the type of a register with the months of a year-month interval, which no clause can write
_PLAIN = frozenset("boolean tinyint smallint int bigint float double date timestamp timestamp_ntz string".split())


def typed(automaton: Automaton, schema: pa.Schema, months: tuple[str, ...]) -> Automaton:
    """The automaton with SQL types instead of names of columns. Raises ClauseError for a type that no register can have.

    ``months``: columns with the months of year-month intervals.
    """
    types = tuple(_type(register, schema, months) for register in automaton.registers)
    named = {f"{register.type} {register.like}": found for register, found in zip(automaton.registers, types)}

    def tree(part: tuple) -> tuple:
        if isinstance(part, Lit):
            return part._replace(text=named.get(part.text, part.text)) if part.type == "type" else part
        if part[:2] == ("call", "cast") and named.get(part[3].text) == MONTHS:  # a sum of months has their type
            return tree(part[2])
        return ("call", part[1], *map(tree, part[2:])) if part[0] == "call" else part

    if types == tuple(register.type for register in automaton.registers):
        return automaton
    arcs = tuple(
        arc._replace(fence=tuple(map(tree, arc.fence)), sets=tuple(item._replace(tree=tree(item.tree)) for item in arc.sets)) for arc in automaton.arcs
    )
    return automaton._replace(registers=tuple(register._replace(type=found, like="") for register, found in zip(automaton.registers, types)), arcs=arcs)


def typed_register(register: Register, schema: pa.Schema, months: tuple[str, ...]) -> Register:
    """One register with a SQL type instead of the name of a column. Raises ClauseError for a type that no register can have."""
    return register._replace(type=_type(register, schema, months), like="")


def _type(register: Register, schema: pa.Schema, months: tuple[str, ...]) -> str:
    if register.type == WAY:
        return "bigint"
    how = register.type
    if how not in OF_COLUMN:
        return register.type
    if register.like in months:
        return MONTHS
    found = type_of(schema.field(register.like).type)
    if found.kind == "null":
        return "int" if how == LIKE else "bigint"
    if how == LIKE and (found.kind in _PLAIN or found.kind == "decimal"):
        return str(found)
    if how != LIKE and found.is_float:
        return "double"
    if how == SUM and found.kind == "decimal":
        return f"decimal({min(MAX_DIGITS, found.precision + 10)},{found.scale})"
    if how != LIKE and found.is_integer:
        return "bigint" if how == SUM else "double"
    what = {LIKE: "a value", SUM: "SUM of a value", MEAN: "AVG of a value"}[how]
    raise ClauseError(
        "DATATYPE_MISMATCH", f"{what} of type {found} cannot be kept in a register. Cast it, or compare it in a column below the clause",
        sqlstate=UNSUPPORTED, line=register.line, column=register.column, fragment=register.text,
    )
