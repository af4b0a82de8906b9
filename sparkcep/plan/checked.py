"""A plan's records as JSON, and whether JSON that arrives is a plan that this version made: kernels look variables and masks up
without a check of their own.

A plan travels as a column's name, in views and from a driver to workers. So it can be another version's, or anybody's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Literal, get_args, get_origin, get_type_hints

from sparkcep.errors import UNSUPPORTED, ClauseError
from sparkcep.plan.records import Automaton, Checked, ConditionTree, LeafSpec, Repeat, Within, walk
from sparkcep.version import __version__

FORMAT = 16  # raised when plans come to be written in another way; the JVM's classes have it, too (Call.java)
MADE_BY = f"sparkcep {__version__}"
MAX_VARIABLES = 62
MAX_PERMUTE = 30
_MAX_NUMBER = (1 << 31) - 1
_MAX_COST = 1 << 63

# -- records as JSON --------------------------------------------------------------------------------------------------


def written(value: object) -> object:
    """A value of a plan with its records as dictionaries."""
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        parts = map(written, value)
        return dict(zip(fields, parts)) if fields else list(parts)
    return value


def read(hint: object, value: object) -> object:
    """The value of the type ``hint`` that :func:`written` gave. Raises TypeError, ValueError or KeyError where it is of another
    type."""
    if hint is tuple:
        return _tree(value)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is UnionType:
        if value is None and NoneType in inner:
            return None
        sorts = [sort for sort in inner if sort is not NoneType]
        return read(sorts[0] if len(sorts) == 1 else _of_kind(hint, value["kind"]), value)
    if origin is Literal:
        return value if value in inner else _fail(value)
    if origin is tuple:
        return tuple(read(inner[0], item) for item in value) if isinstance(value, list) else _fail(value)
    if hasattr(hint, "_fields"):
        return hint(**members(hint, value))
    return value if type(value) is hint else _fail(value)


def members(record: type, value: object) -> dict[str, object]:
    """The members of a record or data class from a dictionary of them."""
    hints = _hints(record)
    if not isinstance(value, dict) or value.keys() != hints.keys():
        _fail(value)
    return {name: read(hint, value[name]) for name, hint in hints.items()}


def _tree(value: object) -> tuple:
    if isinstance(value, dict):
        return read(_of_kind(_TREES, value["kind"]), value)
    if not isinstance(value, list) or not value or (value[0] != "lit" and _of_kind(_TREES, value[0]) is not NoneType):
        _fail(value)  # what is a record must have its names; scores have literals of their own
    return tuple(_tree(part) if isinstance(part, list | dict) else part for part in value)


@cache
def _hints(record: type) -> dict[str, object]:
    return get_type_hints(record)


@cache
def _of_kind(union: UnionType, kind: str) -> type:
    """The record of a union that has the kind."""
    return next((record for record in get_args(union) if kind in get_args(_hints(record)["kind"])), NoneType)


def _fail(value: object):
    raise TypeError(value)


_TREES = ConditionTree | Repeat | Within

# -- what arrives -----------------------------------------------------------------------------------------------------


def check_version(found: Mapping, known: set[str]) -> None:
    """Raises ClauseError, which names both versions, where a plan is not in this version's format."""
    if found.get("format") == FORMAT and set(found) == known:
        return
    made = found.get("made_by")
    maker = f"{made if isinstance(made, str) else 'an older sparkcep'} (format {found.get('format', 'without a number')})"
    raise ClauseError(
        "VERSION",
        f"a plan made by {maker[:80]} was given to {MADE_BY} (format {FORMAT}); the driver and its workers need the same version of sparkcep, "
        "and a view that an older one made must be created again",
        sqlstate=UNSUPPORTED,
    )


def wrong(why: str) -> ClauseError:
    return ClauseError("ARGUMENT", f"the plan given to match_recognize was not made by the rewriter: {why}; write the clause, or its text as second argument")


def is_right(found: Mapping) -> bool:
    """Whether the members of a plan have variables, masks, counts and offsets that a clause gives."""
    count, bits = len(found["variables"]), [letter.bit for letter in found["letters"]]
    conditioned = [condition.variable for condition in found["conditions"]]
    approx = found["approximate"]
    return (
        count <= MAX_VARIABLES
        and _is_number(found["idle"], 0, _MAX_COST)
        and len(set(bits)) == len(bits)
        and len(set(conditioned)) == len(conditioned)
        and all(_is_pattern_part(part, count, len(found["windows"])) for tree in _patterns(found) for part in walk(tree))
        and _are_groups(found)
        and (approx is None or len(approx.missing) == len(approx.violation) == count)
        and all(_is_number(part.number, 0, len(found["failing"])) for part in _checked_values(found))
        and _is_automaton(found["automaton"], count, [leaf.spec for leaf in found["leaves"]])
        and all(_holds(found[name], count) for name in ("skip", "letters", "conditions", "leaves", "places", "approximate", "ranking", "without"))
    )


def _patterns(found: Mapping) -> list[tuple]:
    """The pattern and those of its negated groups."""
    return [found["pattern"], *(group.pattern for group in found["without"])]


def _checked_values(found: Mapping) -> Iterator[Checked]:
    """The trees of values that Spark may have failed to compute, wherever a plan has them."""
    trees = [tree for condition in found["conditions"] for tree in condition.trees]
    if found["automaton"] is not None:
        trees += [tree for arc in found["automaton"].arcs for tree in (*arc.fence, *(item.tree for item in arc.sets), *arc.emits)]
        trees += [register.initial for register in found["automaton"].registers]
    return (part for tree in trees for part in walk(tree) if part[0] == "checked")


def _are_groups(found: Mapping) -> bool:
    """Whether negated groups are named by variables of their own, of which each is negated in the pattern, and are of parts that a
    group may have."""
    names = [group.variable for group in found["without"]]
    negated = {part[1] for part in walk(found["pattern"]) if part[0] == "not"}
    parts = {part[0] for group in found["without"] for part in walk(group.pattern)}
    return len(set(names)) == len(names) and negated >= set(names) and not parts & {"not", "and", "start", "end", "exclude"}


def _is_automaton(automaton: Automaton | None, variables: int, specs: list[LeafSpec]) -> bool:
    """Whether states, registers, letters and labels that arcs and measures name are there."""
    ends = [spec for spec in specs if spec.kind in ("register", "emit")]
    if automaton is None:
        return not ends
    states, registers, emits = len(automaton.states), len(automaton.registers), len(automaton.emits)
    return (
        max(registers, emits, len(automaton.parameters)) <= MAX_VARIABLES
        and all(_is_number(spec.number, 0, registers if spec.kind == "register" else emits) for spec in ends)
        and all(_is_number(state, 0, states) for state in (automaton.start, *automaton.final))
        and all(
            _is_number(arc.source, 0, states)
            and _is_number(arc.target, 0, states)
            and _is_number(arc.letter, -1, MAX_VARIABLES)
            and _is_number(arc.label, 0, variables + automaton.by_ways)
            and len(arc.emits) in (0, emits)
            and all(_is_number(item.register, 0, registers) for item in arc.sets)
            and len(arc.parameters) == 2
            and all(_is_number(number, 0, len(automaton.parameters) + 1) for number in arc.parameters)
            for arc in automaton.arcs
        )
    )


def _holds(value: object, variables: int) -> bool:
    """Whether all fields of the records in a value are within their bounds."""
    if not isinstance(value, tuple):
        return True
    for name, part in zip(getattr(value, "_fields", ()), value):
        bounds = _bounds(variables).get(name)
        parts = part if isinstance(part, tuple) else (part,)
        if bounds and not all(_is_number(p, *bounds) for p in parts):
            return False
    return all(_holds(part, variables) for part in value)


@cache
def _bounds(variables: int) -> dict[str, tuple[int, int]]:
    """From and below which a field of a record is."""
    offset, cost = (-_MAX_NUMBER - 1, _MAX_NUMBER + 1), (0, _MAX_COST)
    return {
        "variable": (0, variables), "bit": (0, MAX_VARIABLES), "mask": (-1, 1 << variables), "targets": (0, 1 << variables),
        "logical": offset, "physical": offset,
        "scale": (1, _MAX_COST), "bound": cost, "missing": cost, "extra": cost, "violation": cost,
        "checks": (1, _MAX_NUMBER + 1), "sketch": (1, _MAX_NUMBER + 1), "intervals": (1, _MAX_NUMBER + 1),
    }


def _is_number(value: object, low: int, below: int) -> bool:
    return type(value) is int and low <= value < below


def _is_pattern_part(tree: tuple, variables: int, windows: int) -> bool:
    kind, *rest = tree
    if kind in ("var", "not"):
        return len(rest) == 1 and _is_number(rest[0], 0, variables)
    if kind in ("cat", "alt", "and", "permute", "exclude"):
        return all(isinstance(part, tuple) for part in rest) and len(rest) <= {"permute": MAX_PERMUTE, "exclude": 1}.get(kind, len(rest))
    if kind == "within":
        return _is_number(tree.window, 1, windows)
    if kind == "repeat":
        return _is_number(tree.low, 0, _MAX_NUMBER) and (tree.high is None or _is_number(tree.high, tree.low, _MAX_NUMBER))
    return kind in ("empty", "start", "end") and not rest
