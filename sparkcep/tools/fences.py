"""Satisfiability of conditions: finds conditions that can never hold together, as far as their texts show.

``tools/lint`` uses it. A condition is split at AND; OR gives alternatives. Each part compares an expression with a constant or with
another expression, or tests it for NULL. Two parts about one expression contradict each other if no value satisfies both. Types are
unknown, so only rules that hold for every type count. Numbers are compared as numbers. Texts are compared only for equality,
ignoring case. Any other part is assumed to be satisfiable.

Example: ``x > 5 AND (x < 3 OR x IS NULL)`` gives the parts ``[[x > 5]]`` and ``[[x < 3], [x IS NULL]]``. Both combinations
contradict themselves, so the condition never holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

from sparkcep.clause.automaton import ROW, Arc, Automaton
from sparkcep.clause.expressions import Expr
from sparkcep.plan.split.conditions import conjuncts

MOST = 64  # the most alternatives that are examined, and the most constants of a register that are tracked
# the orders of its sides that a comparison allows: less, equal, greater
_ALLOWS = {"<": {-1}, "<=": {-1, 0}, "=": {0}, "!=": {-1, 1}, ">": {1}, ">=": {0, 1}}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NUMBER = re.compile(r"(\d+\.?\d*(?:e[+-]?\d{1,3})?|\.\d+(?:e[+-]?\d{1,3})?)(?:bd|[lsydf])?", re.I)
_WHOLE = frozenset("tinyint byte smallint short int integer bigint long".split())
_UNKNOWN = None  # of a register with an unknown value


@dataclass(frozen=True)
class _Fact:
    """``left operator right``. The operator is a comparison, or says that ``left`` is NULL or known.

    ``right`` is an expression's key or a :class:`_Constant`.
    """

    left: object
    operator: str
    right: object = None


@dataclass(frozen=True)
class _Constant:
    """A number, or a text in lower case. ``text`` is its text as written."""

    value: Fraction | str
    text: str = field(default="", compare=False)


_NEVER = _Fact("", "never")


def never(conditions: Iterable[Expr]) -> bool:
    """Whether the conditions can never be true together."""
    parts = [_alternatives(part) for condition in conditions for part in conjuncts(condition)]
    return _none_holds(parts)


def _none_holds(parts: list[list[list[_Fact]]]) -> bool:
    """Whether every combination of the parts' alternatives contradicts itself."""
    ways = 1
    for part in parts:
        ways *= len(part)
    if ways > MOST:
        parts = [part for part in parts if len(part) == 1]
    return all(_contradict([fact for some in way for fact in some]) for way in product(*parts))


# -- facts that conditions imply ----------------------------------------------------------------------------------


def _alternatives(condition: Expr, holds: bool = True) -> list[list[_Fact]]:
    """Returns the alternatives that make a condition true (or with ``holds`` False, false), each as a list of facts."""
    expr = condition.bare()
    if expr.op == "un" and expr.value == "NOT":
        return _alternatives(expr.args[0], not holds)
    if expr.op in ("and", "or"):
        sides = [_alternatives(side, holds) for side in expr.args]
        if (expr.op == "or") == holds:
            return [way for side in sides for way in side][: MOST + 1]
        ways = list(product(*sides)) if len(sides) < 6 else []
        return [[fact for some in way for fact in some] for way in ways[:MOST]] if 0 < len(ways) <= MOST else [[]]
    if expr.op == "lit":
        word = str(expr.value).upper()
        return [[_NEVER] if word == "NULL" or (word in ("TRUE", "FALSE") and (word == "TRUE") != holds) else []]
    if expr.op == "bin" and expr.value in _ALLOWS:
        return [_compared(expr.args[0], str(expr.value), expr.args[1], holds)]
    if expr.op == "is" and str(expr.value).upper() == "NULL":
        asks_null = ("not" in expr.flags) != holds
        return [[_Fact(_key(expr.args[0]), "null" if asks_null else "known")]]
    if expr.op == "between" and len(expr.args) == 3 and ("not" in expr.flags) != holds:
        low, high = (_compared(expr.args[0], operator, end, True) for operator, end in zip((">=", "<="), expr.args[1:]))
        return [low + high]
    if expr.op == "between" and len(expr.args) == 3:
        return [_compared(expr.args[0], operator, end, True) for operator, end in zip("<>", expr.args[1:])]
    if expr.op == "in" and expr.value != "query" and ("not" in expr.flags) != holds:
        return [_compared(expr.args[0], "=", one, True) for one in expr.args[1:]]
    if expr.op == "in" and expr.value != "query":
        return [[fact for one in expr.args[1:] for fact in _compared(expr.args[0], "!=", one, True)]]
    return [[]]


def _compared(left: Expr, operator: str, right: Expr, holds: bool) -> list[_Fact]:
    """Returns the facts that a comparison implies. A comparison with NULL is never true or false."""
    allowed = _ALLOWS[operator] if holds else {-1, 0, 1} - _ALLOWS[operator]
    operator = next(name for name, of in _ALLOWS.items() if of == allowed)
    if any(_is_null(side) for side in (left, right)):
        return [_NEVER]
    constants = _constant(left), _constant(right)
    if constants[0] is not None and constants[1] is not None:
        found = _order(*constants)
        return [_NEVER] if found is not None and found.isdisjoint(allowed) else []
    if constants[0] is not None:
        left, right, operator, constants = right, left, _TURNED.get(operator, operator), constants[::-1]
    known = [_Fact(_key(side), "known") for side in (left, right) if _constant(side) is None]
    return [_Fact(_key(left), operator, constants[1] or _key(right)), *known]


def _key(expr: Expr) -> tuple:
    """Returns the same key for expressions that differ only in blanks and parentheses."""
    expr = expr.bare()
    return expr.op, expr.value, tuple(map(_key, expr.args)), expr.flags


def _is_null(expr: Expr) -> bool:
    expr = expr.bare()
    return expr.op == "lit" and str(expr.value).upper() == "NULL"


def _constant(expr: Expr) -> _Constant | None:
    """Returns the value of a number or text literal, None for anything else. A text with digits may be a number or a time."""
    expr = expr.bare()
    if expr.op == "un" and expr.value == "-":
        found = _constant(expr.args[0])
        return _Constant(-found.value) if found is not None and isinstance(found.value, Fraction) else None
    if expr.op != "lit":
        return None
    text = str(expr.value)
    if number := _NUMBER.fullmatch(text):
        return _Constant(Fraction(number[1])) if len(text) < 40 else None
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" and not re.search(r"\d|\\", text)
    return _Constant(text[1:-1].strip().lower(), text) if quoted else None


def _order(left: _Constant, right: _Constant) -> set[int] | None:
    """Returns the possible orders of two constants. Returns None if the order depends on their types."""
    if isinstance(left.value, Fraction) and isinstance(right.value, Fraction):
        exact = (left.value > right.value) - (left.value < right.value)
        near = (float(left.value) > float(right.value)) - (float(left.value) < float(right.value))
        return {exact, near}
    if isinstance(left.value, str) and isinstance(right.value, str):
        return {-1, 1} if left.value != right.value else {0} if left.text == right.text else {-1, 0, 1}
    return None


# -- satisfiability --------------------------------------------------------------------------------------------


def _contradict(facts: list[_Fact]) -> bool:
    if _NEVER in facts:
        return True
    null = {fact.left for fact in facts if fact.operator == "null"}
    if any(fact.operator != "null" and fact.left in null for fact in facts):
        return True
    related: dict[tuple, set[int]] = {}
    bounds: dict[object, list[tuple[str, _Constant]]] = {}
    for fact in facts:
        if isinstance(fact.right, _Constant):
            bounds.setdefault(fact.left, []).append((fact.operator, fact.right))
        elif fact.operator in _ALLOWS:
            turned = repr(fact.left) > repr(fact.right)
            pair = (fact.right, fact.left) if turned else (fact.left, fact.right)
            allowed = _ALLOWS[fact.operator] if fact.left != fact.right else _ALLOWS[fact.operator] & {0}
            related[pair] = related.get(pair, {-1, 0, 1}) & {-side if turned else side for side in allowed}
    return any(not allowed for allowed in related.values()) or any(map(_empty, bounds.values()))


def _empty(bounds: list[tuple[str, _Constant]]) -> bool:
    """Whether no value satisfies all comparisons with the constants."""
    return any(_exclude(*one, *other) for i, one in enumerate(bounds) for other in bounds[:i])


def _exclude(operator: str, constant: _Constant, other_operator: str, other: _Constant) -> bool:
    """Whether no value satisfies both comparisons with two constants."""
    found = _order(constant, other)
    if found is None:
        return False
    # A value is below the lesser constant, equal to it, between the two, equal to the greater one, or above it.
    return all(_none_between(operator, other_operator, order) for order in found)


def _none_between(operator: str, other_operator: str, order: int) -> bool:
    places = {-1: ((-1, -1), (0, -1), (1, -1), (1, 0), (1, 1)), 0: ((-1, -1), (0, 0), (1, 1)), 1: ((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1))}
    return not any(one in _ALLOWS[operator] and two in _ALLOWS[other_operator] for one, two in places[order])


# -- registers ----------------------------------------------------------------------------------------------------


def never_taken(automaton: Automaton, start: str, closed: bool) -> Iterator[tuple[Arc, str | None]]:
    """Yields the arcs with WHEN that no computation takes, each with the register whose value forbids it.

    The register is None if WHEN contradicts itself. ``closed``: no table adds arcs, so the clause determines the registers' values
    in each state.
    """
    impossible = [arc for arc in automaton.arcs if arc.when is not None and never([arc.when])]
    yield from ((arc, None) for arc in impossible)
    if not closed:
        return
    held = _held(automaton, start, [arc for arc in automaton.arcs if arc not in impossible])
    for arc in automaton.arcs:
        if arc.when is None or arc in impossible:
            continue
        own = [_alternatives(part) for part in conjuncts(arc.when)]
        for register, values in held.get(arc.ends[0].lower(), {}).items():
            seen = {_key(node) for node in arc.when.walk() if node.op == "col" and len(node.value) == 1 and node.value[0].lower() == register}
            if values and seen and _none_holds([*own, *([[_holds(name, value)] for value in values] for name in seen)]):
                yield arc, next(item.name for item in automaton.registers if item.name.lower() == register)
                break


def _holds(name: tuple, value: _Constant | str) -> _Fact:
    return _Fact(name, "null") if value == "null" else _Fact(name, "=", value)


def _held(automaton: Automaton, start: str, arcs: list[Arc]) -> dict[str, dict[str, set | None]]:
    """Returns state -> register -> the constants that it may hold there, for all states that arcs lead to.

    Unknown values are None.
    """
    kinds = {item.name.lower(): item.type.lower() for item in automaton.registers}
    first = {item.name.lower(): {_assigned(item.initial, kinds[item.name.lower()])} for item in automaton.registers}
    held: dict[str, dict[str, set | None]] = {start: {name: _UNKNOWN if None in values else values for name, values in first.items()}}
    more = True
    while more:
        more = False
        for arc in arcs:
            source, target = (name.lower() for name in arc.ends)
            if source not in held:
                continue
            sets = {item.register.lower(): item.value for item in arc.sets}
            into = held.setdefault(target, {})
            for name in kinds:
                given = held[source].get(name) if name not in sets else {_assigned(sets[name], kinds[name])}
                if name not in into:
                    joined = given if given is None else set(given)
                else:
                    joined = None if given is None or into[name] is None else into[name] | given
                if joined is not None and (None in joined or len(joined) > MOST):
                    joined = _UNKNOWN
                if name not in into or joined != into[name]:
                    into[name] = joined
                    more = True
    return held


def _assigned(value: Expr | None, kind: str) -> _Constant | str | None:
    """Returns the value of a register after an assignment: a constant, "null", or None if it is unknown."""
    if value is None or _is_null(value):
        return "null"
    found = _constant(value)
    if found is None:
        return None
    whole = isinstance(found.value, Fraction) and found.value.denominator == 1 and kind in _WHOLE
    return found if whole or (isinstance(found.value, str) and kind == "string") else None


def never_together(automaton: Automaton) -> Iterator[tuple[Arc, Arc]]:
    """Yields for each state the first two of its arcs over rows that never take the same row."""
    seen: set[str] = set()
    arcs = [arc for arc in automaton.arcs if arc.on == ROW and arc.when is not None and not _ignores(arc) and not never([arc.when])]
    for i, arc in enumerate(arcs):
        source = arc.ends[0].lower()
        for other in arcs[:i]:
            if source not in seen and other.ends[0].lower() == source and never([other.when, arc.when]):
                seen.add(source)
                yield other, arc


def _ignores(arc: Arc) -> bool:
    """Whether an arc skips a row."""
    return arc.ends[0].lower() == arc.ends[1].lower() and not arc.sets and not arc.emits
