"""Serialization of plans: records to JSON and back, with validation, because kernels use variables and masks without checking them.

A plan travels as a column's name, in views and from a driver to workers. So it can come from another version, or from anybody.
Every number is checked against the bounds of its field (:mod:`sparkcep.plan.limits`), and every tree against its grammar.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from sparkcep.clause.tree import NEXT_ROW, TO_FIRST, TO_LAST
from sparkcep.errors import UNSUPPORTED, ClauseError
from sparkcep.plan.constants import UNIT_MICROS
from sparkcep.plan.extend.arcs import input_columns
from sparkcep.plan.facts import least, of_single_rows, variables_in
from sparkcep.plan.limits import MAX_CELLS, MAX_PERMUTE, MAX_TREE, MAX_VARIABLES, Column, Range, Text, Tree
from sparkcep.plan.options import common_unit
from sparkcep.plan.records import (
    OF_COLUMN,
    SUMS,
    WAY,
    Aggregate,
    Approx,
    Arcs,
    Automaton,
    ConditionTree,
    LeafSpec,
    ListChanges,
    Lit,
    Ranking,
    Repeat,
    Running,
    Window,
    Within,
    has,
    walk,
)
from sparkcep.plan.split.conditions import MATH_CALLS, NUMBER_TYPES
from sparkcep.version import __version__

log = logging.getLogger("sparkcep")

FORMAT = 18  # increased whenever the JSON form of plans changes; the JVM's classes have it, too (Call.java)
MADE_BY = f"sparkcep {__version__}"

# -- records as JSON --------------------------------------------------------------------------------------------------


def written(value: object) -> object:
    """A value of a plan with its records as dictionaries."""
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        parts = map(written, value)
        return dict(zip(fields, parts)) if fields else list(parts)
    return value


def read(hint: Any, value: object, *around: Mapping) -> Any:
    """Reads a value of type ``hint`` that :func:`written` produced.

    ``around``: the dictionaries of the records around it, innermost first. Raises TypeError, ValueError or KeyError if the value is
    of another type, or beyond the bounds of its field.
    """
    if hint in (int, tuple):
        raise TypeError(f"{hint} without bounds")
    origin, inner = _form(hint)
    if origin is Annotated:
        return _marked(inner[0], inner[1], value, around)
    if origin in (UnionType, Union):
        if value is None and NoneType in inner:
            return None
        sorts = [sort for sort in inner if sort is not NoneType]
        return read(sorts[0] if len(sorts) == 1 else _of_kind(hint, value["kind"]), value, *around)
    if origin is Literal:
        return value if any(value == one and type(value) is type(one) for one in inner) else _fail(value)
    if origin is tuple:
        return tuple(read(inner[0], item, *around) for item in value) if isinstance(value, list) else _fail(value)
    if hasattr(hint, "_fields"):
        return hint(**members(hint, value, *around))
    return value if type(value) is hint else _fail(value)


def members(record: type, value: Any, *around: Mapping) -> dict[str, Any]:
    """The members of a record or data class, read from a dictionary."""
    hints = _hints(record)
    if not isinstance(value, dict) or value.keys() != hints.keys():
        _fail(value)
    return {name: read(hint, value[name], value, *around) for name, hint in hints.items()}


def marked(mark: type, value: Any, hint: Any = None) -> Iterator[tuple[Any, Any]]:
    """Each value in a plan or record whose field has a mark of that type, together with the mark. Values in trees are included."""
    origin, inner = _form(hint)
    if origin is Annotated:
        found = inner[1]
        if isinstance(found, mark):
            yield value, found
        elif isinstance(found, Tree):
            for part in walk(value):
                if hasattr(part, "_fields"):
                    yield from _marked_fields(mark, part, trees=False)
    elif isinstance(value, tuple) and not hasattr(value, "_fields"):
        for part in value:
            yield from marked(mark, part, next(iter(inner), None))
    elif value is not None and origin in (UnionType, Union):
        own = [type(value)] if hasattr(value, "_fields") else [one for one in inner if one is not NoneType]
        yield from marked(mark, value, own[0])
    elif hasattr(value, "_fields") or hasattr(value, "__dataclass_fields__"):
        yield from _marked_fields(mark, value, trees=True)


def _marked_fields(mark: type, record: Any, *, trees: bool) -> Iterator[tuple[Any, Any]]:
    for name, hint in _hints(type(record)).items():
        if trees or not _is_tree(hint):  # the enclosing walk visits inner trees
            yield from marked(mark, getattr(record, name), hint)


def _is_tree(hint: Any) -> bool:
    origin, inner = _form(hint)
    return origin is Annotated and isinstance(inner[1], Tree)


def _marked(sort: type, mark: Range | Text | Column | Tree, value: Any, around: tuple[Mapping, ...]) -> Any:
    """Reads a value whose field has a mark."""
    if isinstance(mark, Tree):
        return _TREES[mark.sort](value, around, MAX_TREE, mark.leaves)
    if type(value) is not sort:
        _fail(value)
    if isinstance(mark, Range):
        below = _below(mark.below, around) if isinstance(mark.below, str) else mark.below
        return value if mark.low <= value < below else _fail(value)
    if isinstance(mark, Text):
        return value if mark.pattern.fullmatch(value) else _fail(value)
    return value


def _below(name: str, around: tuple[Mapping, ...]) -> int:
    """The length of the list with that name in the innermost dictionary that has it."""
    if name == "sets":
        variables = _below("variables", around)
        return 1 << variables if variables <= MAX_VARIABLES else _fail(variables)
    inside = around[-1:] if name == "variables" else around  # the plan's list, because inner records may have a member of this name
    found = next((record[name] for record in inside if name in record), None)
    return len(found) if isinstance(found, list) else _fail(found)


@cache
def _form(hint: Any) -> tuple[Any, tuple]:
    """The origin of a type hint, and its arguments. A plan has thousands of values with the same few hints."""
    return get_origin(hint), get_args(hint)


@cache
def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record, include_extras=True)


@cache
def _of_kind(union: Any, kind: str) -> type:
    """The record of a union that has this kind."""
    return next((record for record in get_args(union) if kind in get_args(_hints(record)["kind"])), NoneType)


def _fail(value: object) -> Any:
    raise TypeError(value)


# -- trees ------------------------------------------------------------------------------------------------------------

_MANY = 1 << 31
# least and greatest number of parts of each kind
_PATTERNS = {
    "var": (1, 1), "not": (1, 1), "empty": (0, 0), "start": (0, 0), "end": (0, 0), "exclude": (1, 1), "cat": (1, _MANY), "alt": (1, _MANY), "and": (1, _MANY),
    "permute": (1, MAX_PERMUTE),
}  # fmt: skip
_CALLS = {
    **dict.fromkeys(("and", "or", "coalesce", "greatest", "least", SUMS), (1, _MANY)), **dict.fromkeys(("not", "isnull", "istrue", "isfalse", "exact", "isnan", *MATH_CALLS), (1, 1)),
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "div", "pmod", "pow", "atan2", "hypot", "datediff", "cast", "try_cast"), (2, 2)),
    **dict.fromkeys(("neg", "abs", "sign", "sqrt", "exp", "ln", "log10", "floor", "ceil"), (1, 1)), "round": (1, 2), "timestampdiff": (3, 3), "if": (3, _MANY), "in": (2, _MANY),
}  # fmt: skip
_SCORES = {**dict.fromkeys(("+", "-", "*", "/", "least", "greatest"), (2, 2)), **dict.fromkeys(("neg", "abs", "sqrt"), (1, 1)), "coalesce": (2, _MANY)}
_TYPE = re.compile(r"([a-z]+)\s*(?:\(\s*\d{1,100}\s*(?:,\s*\d{1,100}\s*)?\))?\s*")
_LITERALS = {
    "null": re.compile("NULL"), "bool": re.compile("TRUE|FALSE"), "string": re.compile("(?s:.*)"), "type": re.compile("(?s:.{1,400})"),
    "int": re.compile(r"-?\d{1,10}"), "long": re.compile(r"-?\d{1,19}"), "date": re.compile(r"-?\d{1,10}"), "decimal": re.compile(r"-?(?=\.?\d)\d{0,18}\.?\d{0,18}"),
    "days": re.compile(r"-?\d{1,8}"), "double": re.compile(r"-?(?:\d{1,400}\.?\d{0,400}|\.\d{1,400})(?:[eE][+-]?\d{1,3})?"),
}  # fmt: skip
_BITS = {"int": 31, "date": 31, "long": 63, "decimal": 63}


def _pattern(value: Any, around: tuple[Mapping, ...], depth: int, _: str = "") -> tuple:
    """Reads a pattern's tree. Repeat and Within are records."""
    if isinstance(value, dict):
        record = _of_kind(Repeat | Within, value["kind"])
        hints = _hints(record)
        if value.keys() != hints.keys() or not depth:
            _fail(value)
        found = record(**{name: _pattern(value[name], around, depth - 1) if _is_tree(hint) else read(hint, value[name], value, *around) for name, hint in hints.items()})
        return found if not isinstance(found, Repeat) or found.high is None or found.low <= found.high else _fail(value)
    kind, rest = _parts(value, _PATTERNS, depth)
    if kind in ("var", "not"):
        (variable,) = rest
        return (kind, variable) if type(variable) is int and 0 <= variable < _below("variables", around) else _fail(value)
    return (kind, *(_pattern(part, around, depth - 1) for part in rest))


def _condition(value: Any, around: tuple[Mapping, ...], depth: int, _: str = "") -> tuple:
    """Reads a condition's tree."""
    if isinstance(value, dict):
        record = _of_kind(ConditionTree, value["kind"])
        hints = _hints(record)
        if value.keys() != hints.keys() or not depth:
            _fail(value)
        found = record(**{name: _condition(value[name], around, depth - 1) if _is_tree(hint) else read(hint, value[name], value, *around) for name, hint in hints.items()})
        return _literal(found, around) if isinstance(found, Lit) else found
    if value == ["mno"]:
        return ("mno",)
    if not isinstance(value, list) or value[0] != "call":
        _fail(value)
    name, rest = _parts(value[1:], _CALLS, depth)
    found = ("call", name, *(_condition(part, around, depth - 1) for part in rest))
    types = [part for part in found[2:] if isinstance(part, Lit) and part.type == "type"]
    named = {"cast": 3, "try_cast": 3, "timestampdiff": 2}.get(name)
    if types != ([] if named is None else [found[named]]) or (name == "if" and not len(found) % 2):
        _fail(value)
    if named is not None and (found[named].text.upper() in UNIT_MICROS) != (name == "timestampdiff"):
        _fail(value)
    if name == "round" and len(found) > 3 and not (isinstance(found[3], Lit) and found[3].type == "int" and found[3].text.isdigit()):
        _fail(value)
    return found


def _literal(found: Lit, around: tuple[Mapping, ...]) -> Lit:
    """Checks that the text of a literal fits its type."""
    kind, text = found.type, found.text
    if not _LITERALS[kind].fullmatch(text):
        _fail(text)
    if kind in _BITS:
        value = int(text.replace(".", ""))
        if not -(1 << _BITS[kind]) <= value < 1 << _BITS[kind]:
            _fail(text)
    if kind == "type":
        name = _TYPE.fullmatch(text)
        if name is None or (name[1] not in NUMBER_TYPES and text.upper() not in UNIT_MICROS):
            _fail(text)
    return found


def _score(value: Any, around: tuple[Mapping, ...], depth: int, leaves: str) -> tuple:
    """Reads a score's tree. Its leaves are indexes into the list ``leaves``."""
    if isinstance(value, list) and len(value) == 2 and value[0] == "lit":
        number = value[1]
        return ("lit", number) if type(number) in (int, float) and abs(number) <= 1 << 53 else _fail(value)  # NaN fails the comparison
    if isinstance(value, list) and len(value) == 2 and value[0] == "leaf":
        return ("leaf", value[1]) if type(value[1]) is int and 0 <= value[1] < _below(leaves, around) else _fail(value)
    kind, rest = _parts(value, _SCORES, depth)
    return (kind, *(_score(part, around, depth - 1, leaves) for part in rest))


def _parts(value: Any, known: Mapping[str, tuple[int, int]], depth: int) -> tuple[str, list]:
    """The kind and the parts of a tree that is a list."""
    if not isinstance(value, list) or not depth or type(value[0]) is not str:
        _fail(value)
    kind, *rest = value
    least, most = known[kind]
    return (kind, rest) if least <= len(rest) <= most else _fail(value)


_TREES = {"pattern": _pattern, "condition": _condition, "score": _score}

# -- validation -------------------------------------------------------------------------------------------------------


def check_version(found: Mapping, known: set[str]) -> None:
    """Raises ClauseError, with both versions, if a plan is not in this version's format."""
    made = found.get("made_by")
    if found.get("format") == FORMAT and set(found) == known:
        if made != MADE_BY:
            _say_other(made[:80] if isinstance(made, str) else "an unknown version")
        return
    maker = f"{made if isinstance(made, str) else 'an older sparkcep'} (format {found.get('format', 'without a number')})"
    raise ClauseError(
        "VERSION",
        f"a plan made by {maker[:80]} was given to {MADE_BY} (format {FORMAT}); the driver and its workers need the same version of sparkcep. "
        "Create views of an older version again",
        sqlstate=UNSUPPORTED,
    )


@cache
def _say_other(made: str) -> None:
    """Warns once about another version whose plans have the same format, because its results may differ."""
    log.warning("a plan made by %s runs with %s: the driver and its workers should have the same version of sparkcep, and views of other versions should be created again", made, MADE_BY)


def wrong(why: str) -> ClauseError:
    return ClauseError("ARGUMENT", f"the plan given to match_recognize was not made by the rewriter: {why}. Write the clause, or its text as the second argument")


def is_right(found: Mapping) -> bool:
    """Whether the members of a plan, each within its bounds, are consistent with one another. Engines rely on it."""
    count, approx, selection = len(found["variables"]), found["approximate"], found["selection"]
    specs, automaton, changes = [leaf.spec for leaf in found["leaves"]], found["automaton"], found["changes"]
    return (
        count <= MAX_VARIABLES
        and _differ(letter.bit for letter in found["letters"])
        and _differ(letter.variable for letter in found["letters"] if automaton is None)
        and _differ(condition.variable for condition in found["conditions"])
        and _differ([leaf.name for leaf in found["leaves"]])
        and not {leaf.name for leaf in found["leaves"]} & {key.column for key in (*found["partition"], *found["order"])}
        and _differ(found["given"])
        and _are_groups(found)
        and _are_windows(found)
        and (automaton is None or (_is_automaton(automaton, count) and automaton.time in [key.column for key in found["order"][:1]]))
        and all(_is_leaf(spec, found) for spec in specs)
        and all(_is_aggregate(part) for mark_tree in _trees(found) for part in walk(mark_tree) if part[0] == "agg")
        and (approx is None or _is_approximate(approx, found))
        and (found["ranking"] is None or _is_ranking(found["ranking"], found))
        and (selection is not None or automaton is not None or approx is found["slide"] is None)
        and (changes is None or ((changes.size is not None) == (changes.speculate == "SIZE") and changes.time in [key.column for key in found["order"][:1]]))
        and (found["arcs"] is None or (automaton is not None and _are_arcs(found["arcs"], automaton)))
        and (found["unfinished"] is None or _shows_unfinished(found))
        and _skips(found)
        and found["place"] is not None
    )


def _skips(found: Mapping) -> bool:
    """Whether the other options of a plan allow its AFTER MATCH SKIP.

    A search that skips rows writes no paths of approximate matches.
    """
    skip, selection = found["skip"], found["selection"]
    to_variable = skip.mode in (TO_FIRST, TO_LAST)
    if (skip.targets > 0) != to_variable:
        return False
    if selection is None:
        return True
    ranked = found["ranking"] is not None and found["ranking"].top > 0 and selection.report == "ALL"
    every = ranked or found["approximate"] is not None or found["changes"] is not None or any(leaf.spec.kind in ("cnt", "graph") for leaf in found["leaves"])
    return skip.mode == NEXT_ROW or not (every or (to_variable and selection.report == "ALL"))


def _shows_unfinished(found: Mapping) -> bool:
    """Whether the other options of a plan allow unfinished matches."""
    selection, order, clock = found["selection"], found["order"], found["unfinished"].clock
    return (
        selection is not None
        and selection.report == "FIRST"
        and found["automaton"] is found["approximate"] is found["ranking"] is found["slide"] is found["changes"] is None
        and not has(found["pattern"], "and")
        and (not order or found["unfinished"].order == order[0].column)
        and (bool(order) or not clock)
    )


def _differ(values: Iterable[object]) -> bool:
    all = list(values)
    return len(set(all)) == len(all)


def _trees(found: Mapping) -> list[tuple]:
    """All trees of conditions and assignments."""
    trees = [tree for condition in found["conditions"] for tree in condition.trees]
    if found["automaton"] is not None:
        trees += _of_arcs(found["automaton"])
    return trees


def _of_arcs(automaton: Automaton) -> list[tuple]:
    """The trees of arcs and registers. They read the current row and registers, and no other row of the match."""
    trees = [tree for arc in automaton.arcs for tree in (*arc.fence, *(item.tree for item in arc.sets), *arc.emits)]
    return [*trees, *(register.initial for register in automaton.registers)]


def _are_windows(found: Mapping) -> bool:
    """Whether sizes are in the units of their kinds, and windows exist if and only if something uses them."""
    windows, slide, changes = found["windows"], found["slide"], found["changes"]
    asked = found["selection"] is not None or found["automaton"] is not None
    own = (*windows, *((changes.size,) if changes is not None and changes.size is not None else ()))
    return (
        bool(windows) == asked
        and all(_is_window(window) for window in own)
        and all(window.kind != "none" for window in (*windows[1:], *own[len(windows) :]))
        and (slide is None or (slide.kind == windows[0].kind and _is_size(slide.kind, slide.step) and Fraction(slide.step) <= Fraction(windows[0].size)))
    )


def _is_window(window: Window) -> bool:
    return bool(window.order) == (window.kind in ("micros", "number")) and _is_size(window.kind, window.size)


def _is_size(kind: str, size: str) -> bool:
    """Whether a size is above 0 and in the unit of its kind."""
    if kind == "none":
        return not size
    return bool(size.strip("0.")) and (kind == "number" or size.isdigit())


def _is_leaf(spec: LeafSpec, found: Mapping) -> bool:
    """Whether the plan has what a leaf refers to."""
    automaton, approx, slide, ranking, changes = (found[name] for name in ("automaton", "approximate", "slide", "ranking", "changes"))
    reports_all = found["selection"] is not None and found["selection"].report == "ALL"
    compares = ranking is not None and ranking.changes is not None
    match spec.kind:
        case "register" | "emit":
            return automaton is not None and spec.number < len(automaton.registers if spec.kind == "register" else automaton.emits)
        case "match_from" | "match_to":
            return automaton is not None and spec.column == automaton.time
        case "pairs" | "emitted":
            return compares
        case "window_start" | "window_end" | "next_start" | "next_end":
            known = compares or spec.kind.startswith("window")
            return known and slide is not None and spec.column == found["windows"][0].order and spec.step == common_unit(slide.step, found["windows"][0].size)
        case "change" | "change_number" | "changed_by":
            return changes is not None and changes.report == "CHANGES"
        case "status" | "ended" | "expected":
            return found["unfinished"] is not None
        case "punctuation":
            return changes is not None and changes.report == "CHANGES" and found["rows"] == "one" and spec.column == changes.time
        case "agg":
            return _is_aggregate(spec)
        case "rows":
            return bool(spec.columns)
        case "rank":
            return ranking is not None and ranking.by_engine
        case "errors" | "missing" | "kind":
            return approx is not None and approx.report != "HISTORY" and (spec.kind != "errors" or spec.whole == approx.whole)
        case "bundle_start" | "bundle_end" | "bundle_size":
            return approx is not None and approx.report == "BUNDLES"
        case "complete" | "left_out" | "allowed" | "coverage":
            return approx is not None and approx.budget is not None and approx.report != "HISTORY"
        case kind if kind.startswith("history_"):
            return approx is not None and approx.report == "HISTORY"
        case "cnt" if approx is not None:
            return reports_all and automaton is None and approx.budget is None and approx.report in ("PROXY", "PER ERROR", "BUNDLES")
        case "cnt" | "graph":
            return reports_all and automaton is approx is None and found["rows"] != "unmatched"
    return True


def _is_aggregate(part: Aggregate | Running) -> bool:
    """Whether the aggregate has a column. Only a count may lack one."""
    return part.column is not None or part.function == "count"


def _is_approximate(approx: Approx, found: Mapping) -> bool:
    """Whether the costs fit the pattern's variables, and missing every row would exceed the bound."""
    budget = approx.budget
    return (
        len(approx.missing) == len(approx.violation) == len(found["variables"])
        and found["selection"] is not None
        and found["selection"].report == "ALL"
        and found["automaton"] is None
        and (not has(found["pattern"], "and") or _is_conjoined(approx, found))
        and approx.bound < least(found["pattern"], lambda variable: approx.missing[variable], sum)
        and (approx.report != "BUNDLES" or found["windows"][0].kind != "none")
        and (approx.history is not None) == (approx.report == "HISTORY" or (budget is not None and budget.history != ""))
        and (approx.report != "HISTORY" or found["rows"] == "one")
        and (budget is None or ((budget.pace is None) == (budget.checks > 0) and (budget.refill is None or budget.history != "")))
        and (budget is None or (len(budget.sketch) <= 2 and math.prod(budget.sketch) <= MAX_CELLS and (budget.history != "" or not budget.sketch) and found["rows"] != "unmatched"))
        and (not (budget or approx.history) or (found["windows"][0].kind != "none" and found["selection"].strategy != "STRICT" and found["ranking"] is None))
    )


def _is_conjoined(approx: Approx, found: Mapping) -> bool:
    """Whether approximate matches of a conjunction have only what the engine searches."""
    pattern, ranking = found["pattern"], found["ranking"]
    whole = pattern[0] == "and" and not any(has(side, "and") for side in pattern[1:])
    return whole and found["selection"].strategy == "ANY" and approx.report in ("PROXY", "ALL") and approx.budget is None and not (ranking and ranking.top)


def _is_ranking(ranking: Ranking, found: Mapping) -> bool:
    """Whether scores fit the variables and sides of the pattern."""
    monotone, sides, leaves = ranking.monotone, ranking.by_sides, {leaf.name for leaf in found["leaves"]}
    if monotone is not None:
        own = [leaf.variable for leaf in monotone.leaves]
        if not own or not _differ(own) or not of_single_rows(found["pattern"]) or sum(1 << v for v in own) & ~variables_in(found["pattern"], "var"):
            return False
    if ranking.changes is not None and not _are_list_changes(ranking.changes, ranking, found):
        return False
    if ranking.terms and all(leaf.spec.kind != "score" for leaf in found["leaves"]):
        return False
    if sides is not None:
        masks = [variables_in(side, "var") for side in found["pattern"][1:]] if found["pattern"][0] == "and" else []
        if len(masks) != len(sides.sides) or any(a & b for i, a in enumerate(masks) for b in masks[:i]):
            return False
    sequences = ranking.sequences
    if any(a & b for i, a in enumerate(sequences) for b in sequences[:i]) or (ranking.by_sequences is not None and len(ranking.by_sequences.sides) != len(sequences)):
        return False
    others = [score.tree for score in (monotone, sides, ranking.by_sequences) if score is not None]
    if ranking.scored is not None and ranking.terms:
        leaves_of_terms = tuple(term._replace(sign=1) for term in ranking.terms)
        if ranking.scored.leaves != leaves_of_terms or any(part[0] not in ("leaf", "neg", "+", "-", "coalesce") for part in walk(ranking.scored.tree)):
            return False
    elif ranking.scored is not None:
        others.append(ranking.scored.tree)
    if any(part[0] == "coalesce" for tree in others for part in walk(tree)):
        return False  # only a sum of terms chooses between branches
    preferred = bool(ranking.terms or monotone or sides or ranking.scored or ranking.by_sequences)
    return (ranking.place is not None or not preferred) and (ranking.scored is None or bool(ranking.scored.leaves)) and (not ranking.vector or ranking.vector in leaves) and (not ranking.by_engine or ranking.top > 0)


def _are_list_changes(changes: ListChanges, ranking: Ranking, found: Mapping) -> bool:
    """Whether lists of sliding windows are compared, by the leaves for it."""
    kinds = {leaf.name: leaf.spec.kind for leaf in found["leaves"]}
    right = [kinds.get(name) == kind for name, kind in zip(changes, ("pairs", "emitted", "window_start", "next_start"))]
    ends = [kinds.get(name) if name else "" for name in (changes.end, changes.next_end)]
    compared = found["slide"] is not None and found["changes"] is None and ranking.by_spark and found["rows"] == "one"
    return compared and all(right) and ends in (["", ""], ["window_end", "next_end"])


def _are_groups(found: Mapping) -> bool:
    """Whether each negated group has its own variable, is negated in the pattern, and contains only parts that a group may have."""
    names = [group.variable for group in found["without"]]
    negated = {part[1] for part in walk(found["pattern"]) if part[0] == "not"}
    parts = {part[0] for group in found["without"] for part in walk(group.pattern)}
    return _differ(names) and negated >= set(names) and not parts & {"not", "and", "start", "end", "exclude"} and (not names or found["selection"] is not None)


def _are_arcs(arcs: Arcs, automaton: Automaton) -> bool:
    """Whether the columns of ARCS FROM are those that the engine expects."""
    return arcs.columns == input_columns(len(automaton.parameters), len(arcs.keys), len(arcs.came), arcs.texts)


def _has_own_ways(automaton: Automaton) -> bool:
    """Whether only the kernel writes the register of type WAY, whose value is an index."""
    if any(register.type == WAY for register in automaton.declared):
        return False
    last = len(automaton.declared)
    return not automaton.by_ways or (
        automaton.registers[last].initial == Lit("lit", "int", "0") and all(item.register < last for arc in automaton.arcs for item in arc.sets)
    )


def _is_automaton(automaton: Automaton, variables: int) -> bool:
    """Whether the labels, EMIT columns and parameters that arcs name exist, and arcs look at nothing else."""
    emits, parameters = len(automaton.emits), len(automaton.parameters)
    return (
        max(len(automaton.registers), emits, parameters) <= MAX_VARIABLES
        and all(register.type not in OF_COLUMN or register.like for register in automaton.registers)
        and _has_own_ways(automaton)
        and all(part[0] in ("call", "col", "lit", "checked") for tree in _of_arcs(automaton) for part in walk(tree))
        and all(
            arc.label < variables + automaton.by_ways
            and len(arc.emits) in (0, emits)
            and len(arc.parameters) == 2
            and arc.parameters[0] <= arc.parameters[1] <= parameters
            and len(arc.limits) in (0, 3)
            and (not arc.limits or arc.limits[0] < MAX_VARIABLES)
            for arc in automaton.arcs
        )
    )
