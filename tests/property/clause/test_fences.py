"""What lint says can never be true, against all values of a small world."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.tools.fences import never
from tests.selection import first

WORLD = [None, -1, 0, 0.5, 1, 1.5, 2, 3, 4]
COMPARED = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, "=": lambda a, b: a == b, "<>": lambda a, b: a != b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def condition(rng: Random, depth: int) -> tuple[str, object]:
    """A condition as text, and as a function of x and y that gives True, False or None."""
    if depth and rng.random() < 0.7:
        if rng.random() < 0.2:
            text, of = condition(rng, depth - 1)
            return f"NOT ({text})", lambda v: None if of(v) is None else not of(v)
        word = rng.choice(["AND", "AND", "OR"])
        (one, left), (two, right) = condition(rng, depth - 1), condition(rng, depth - 1)
        return f"({one}) {word} ({two})", lambda v: _joined(word == "OR", [left(v), right(v)])
    name, low, high = rng.choice("xy"), rng.randrange(4), rng.randrange(4)
    kind = rng.randrange(6)
    if kind == 0:
        return f"{name} IS NULL", lambda v: v[name] is None
    if kind == 1:
        return f"{name} IS NOT NULL", lambda v: v[name] is not None
    if kind == 2:
        return f"{name} BETWEEN {low} AND {high}", lambda v: None if v[name] is None else low <= v[name] <= high
    if kind == 3:
        return f"{name} IN ({low}, {high})", lambda v: None if v[name] is None else v[name] in (low, high)
    operator = rng.choice(list(COMPARED))
    if kind == 4:
        return f"x {operator} y", lambda v: None if None in v.values() else COMPARED[operator](v["x"], v["y"])
    if rng.random() < 0.5:
        return f"{low} {operator} {name}", lambda v: None if v[name] is None else COMPARED[operator](low, v[name])
    return f"{name} {operator} {low}", lambda v: None if v[name] is None else COMPARED[operator](v[name], low)


def _joined(decides: bool, sides: list) -> bool | None:
    return decides if decides in [side for side in sides if side is not None] else None if None in sides else not decides


@pytest.mark.parametrize("seed", first(range(4)))
def test_what_is_never_true_is_true_of_no_value(seed):
    rng = Random(seed)
    said = right = 0
    for _ in range(600):
        text, of = condition(rng, 3)
        (arc,) = parse_clause(f"ORDER BY t AUTOMATON (STATE z FINAL ARC FROM a TO z WHEN {text})").automaton.arcs
        holds = any(of({"x": x, "y": y}) is True for x, y in product(WORLD, WORLD))
        if never([arc.when]):
            said += 1
            assert not holds, text
        elif not holds:
            right += 1
    assert said > 30 and said > right  # it finds most of what it might
