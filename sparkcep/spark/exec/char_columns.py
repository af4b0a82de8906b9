"""Columns of type CHAR(n): strings with metadata that makes Spark pad the values they are compared with.

``spark/exec/table_function`` and ``spark/stream/frames`` use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pyspark.sql import types as T

from sparkcep.errors import UNSUPPORTED, ClauseError
from sparkcep.plan import records
from sparkcep.plan.plan import Plan

_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
_REFERENCES = records.Here, records.Near, records.At, records.Pair
_EQUAL, _ORDERED = ("=", "!=", "<=>", "in"), ("<", "<=", ">", ">=")


def declared(field: T.StructField) -> dict[str, str]:
    """Returns the part of a column's metadata that belongs to its type."""
    given = field.metadata or {}
    return {_DECLARED: given[_DECLARED]} if _DECLARED in given else {}


def check_declared(plan: Plan, schema: T.StructType) -> None:
    """Refuses to compare CHAR(n) values across rows if Spark would pad one side. Raises ClauseError.

    The engine compares strings as they are.
    """
    lengths = {f.name: int(found[1]) for f in schema.fields if (found := re.fullmatch(r"char\((\d+)\)", declared(f).get(_DECLARED, ""), re.IGNORECASE))}
    if not lengths:
        return
    texts = dict(plan.inputs)
    places = {p.variable: {"line": p.line, "column": p.column, "fragment": p.text} for p in plan.places}
    for condition in plan.conditions:
        for column, other in (pair for tree in condition.trees for pair in _padded(tree, lengths)):
            name = texts.get(column, column)
            if isinstance(other, records.Lit):
                right = right_trimmed = f"'{other.text}'"
            else:
                right, right_trimmed = f"a value of type char({lengths[other.column]})", f"rtrim({texts.get(other.column, other.column)})"
            raise ClauseError(
                "DATATYPE_MISMATCH", f"{name} is of type char({lengths[column]}), and cannot be compared across rows with {right}, because Spark would pad the shorter one with spaces. "
                f"Compare rtrim({name}) and {right_trimmed}", sqlstate=UNSUPPORTED, **places[condition.variable],
            )


def _padded(tree: tuple, lengths: Mapping[str, int]) -> Iterator[tuple[str, records.ConditionTree]]:
    """Yields each column that a condition compares with a value of another length, and that value."""
    if isinstance(tree, records.Prior):
        yield from _padded(tree.tree, lengths)
    if tree[0] != "call":
        return
    for argument in tree[2:]:
        yield from _padded(argument, lengths)
    pairs = [(tree[2], item) for item in tree[3:]] if tree[1] in (*_EQUAL, *_ORDERED) else []
    for one, other in (pair for left, right in pairs for pair in ((left, right), (right, left))):
        if not isinstance(one, _REFERENCES) or one.column not in lengths:
            continue
        length = lengths[one.column]
        if isinstance(other, _REFERENCES) and lengths.get(other.column, length) != length:
            yield one.column, other
        # Comparisons by order with a literal come from BETWEEN, and Spark does not pad these.
        elif isinstance(other, records.Lit) and tree[1] in _EQUAL and other.type == "string" and len(other.text) != length:
            yield one.column, other
