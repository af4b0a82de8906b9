"""Registers of a PATTERN's automaton in the types of the columns that they are of.

The plan is made where no types are known, so such a register says of which column it is, and this gives it a type where the columns have theirs.
"""

from __future__ import annotations

import pyarrow as pa

from sparkcep.columns.types import MAX_DIGITS, Type, type_of
from sparkcep.errors import UNSUPPORTED, ClauseError
from sparkcep.plan.records import WAY, Automaton, Lit, Register

_PLAIN = frozenset("boolean tinyint smallint int bigint float double date timestamp timestamp_ntz string".split())


def typed(automaton: Automaton, schema: pa.Schema) -> Automaton:
    """The automaton with SQL types in place of names of columns. Raises ClauseError for a type that no register has."""
    named = {register.type: _type(register, schema) for register in automaton.registers}

    def tree(part: tuple) -> tuple:
        if isinstance(part, Lit):
            return part._replace(text=named.get(part.text, part.text)) if part.type == "type" else part
        return ("call", part[1], *map(tree, part[2:])) if part[0] == "call" else part

    if all(name == found for name, found in named.items()):
        return automaton
    arcs = tuple(
        arc._replace(fence=tuple(map(tree, arc.fence)), sets=tuple(item._replace(tree=tree(item.tree)) for item in arc.sets)) for arc in automaton.arcs
    )
    return automaton._replace(registers=tuple(register._replace(type=named[register.type]) for register in automaton.registers), arcs=arcs)


def _type(register: Register, schema: pa.Schema) -> str:
    if register.type == WAY:
        return "bigint"
    how, _, column = register.type.partition(" ")
    if how not in ("like", "sum", "mean"):
        return register.type
    found = type_of(schema.field(column).type)
    if found.kind == "null":
        return "int" if how == "like" else "bigint"
    if how == "like" and (found.kind in _PLAIN or found.kind == "decimal"):
        return _sql(found)
    if how != "like" and found.is_float:
        return "double"
    if how == "sum" and found.kind == "decimal":
        return f"decimal({min(MAX_DIGITS, found.precision + 10)},{found.scale})"
    if how != "like" and found.is_integer:
        return "bigint" if how == "sum" else "double"
    what = {"like": "a value", "sum": "SUM of a value", "mean": "AVG of a value"}[how]
    raise ClauseError(
        "DATATYPE_MISMATCH", f"{what} of type {found} is kept in no register, as the clause's conditions need it; cast it in DEFINE, or compare it in a column below the clause",
        sqlstate=UNSUPPORTED, line=register.line, column=register.column, fragment=register.text,
    )


def _sql(found: Type) -> str:
    return f"decimal({found.precision},{found.scale})" if found.kind == "decimal" else found.kind
