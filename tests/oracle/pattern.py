"""Row patterns as nested tuples.

    ("var", name)  ("cat", [p..])  ("alt", [p..])  ("rep", p, least, most or None, greedy)
    ("permute", [p..])  ("excl", p)  ("empty",)  ("start",)  ("end",)
    ("neg", name)  ("neg", p)  ("and", [p..])  ("within", p, size)                   only tests.oracle.selection knows these
"""

from __future__ import annotations

# How tightly each form holds together; a weaker form inside a stronger one needs parentheses.
_STRENGTH = {"alt": 0, "and": 1, "cat": 2, "rep": 3}


def children(p) -> list:
    """The forms right inside a form."""
    if p[0] in ("cat", "alt", "and", "permute"):
        return list(p[1])
    return [p[1]] if p[0] in ("rep", "excl", "within") or (p[0] == "neg" and isinstance(p[1], tuple)) else []


def variables(p) -> list[str]:
    """The variables of a pattern, in order of first appearance."""
    if p[0] in ("var", "neg") and not isinstance(p[1], tuple):
        return [p[1]]
    seen = []
    for child in children(p):
        seen += [v for v in variables(child) if v not in seen]
    return seen


def contains(p, kinds) -> bool:
    """Does a form of one of these kinds occur anywhere in the pattern?"""
    return p[0] in kinds or any(contains(child, kinds) for child in children(p))


def to_text(p, rng=None) -> str:
    """SQL text of a pattern; with `rng`, spelled in one of its equivalent ways."""
    text = _text(p, rng)
    if rng and p[0] != "empty" and rng.random() < 0.1:
        return f"({text})"
    return text


class Rows(int):
    """The size of a group's window of so many rows."""

    def __format__(self, form) -> str:
        return f"{int(self)} ROWS"


def _text(p, rng) -> str:
    kind = p[0]
    if kind == "var":
        return p[1]
    if kind == "cat":
        return " ".join(_inside(child, "cat", rng) for child in p[1])
    if kind == "alt":
        return " | ".join(_inside(child, "alt", rng) for child in p[1])
    if kind == "and":
        return " & ".join(_inside(child, "and", rng) for child in p[1])
    if kind == "neg":
        return f"~({to_text(p[1], rng)})" if isinstance(p[1], tuple) else f"~{p[1]}"
    if kind == "within":
        return f"({to_text(p[1], rng)}) WITHIN {p[2]}"
    if kind == "rep":
        return _inside(p[1], "rep", rng) + _quantifier(p[2], p[3], p[4], rng)
    if kind == "permute":
        return "PERMUTE(" + ", ".join(to_text(child, rng) for child in p[1]) + ")"
    if kind == "excl":
        return "{- " + to_text(p[1], rng) + " -}"
    return {"empty": "()", "start": "^", "end": "$"}[kind]


def _inside(p, outer, rng) -> str:
    # A form nested in its own kind is always parenthesised, so that the tree survives as written.
    # An exclusion and an anchor are primaries; parentheses under a quantifier keep them readable.
    weak = _STRENGTH.get(p[0], 4) <= _STRENGTH[outer]
    # What follows a group's size (`|`, `&`, `*`, ..) must not read as a part of it.
    odd = outer == "rep" and p[0] in ("start", "end") or p[0] == "within"
    extra = rng is not None and p[0] not in ("empty", "neg") and rng.random() < 0.1
    text = _text(p, rng)
    return f"({text})" if weak or odd or extra else text


def _quantifier(least, most, greedy, rng) -> str:
    ways = []
    if most is None:
        ways += {0: ["*", "{,}"], 1: ["+"]}.get(least, [])
        ways.append(f"{{{least},}}")
    else:
        if (least, most) == (0, 1):
            ways.append("?")
        if least == most:
            ways.append(f"{{{least}}}")
        if least == 0:
            ways.append(f"{{,{most}}}")
        ways.append(f"{{{least},{most}}}")
    text = ways[0] if rng is None or rng.random() < 0.6 else rng.choice(ways)
    return text if greedy else text + "?"


_QUANTIFIERS = [(0, None), (1, None), (0, 1), (2, None), (2, 2), (1, 2), (0, 2), (2, 3), (3, None), (1, 1)]


def random_pattern(rng, names, depth, *, permute=True, exclude=True, anchors=True, empty=True):
    """A random pattern over `names`, at most `depth` forms deep."""
    options = dict(permute=permute, exclude=exclude, anchors=anchors, empty=empty)

    def smaller(d=depth - 1):
        return random_pattern(rng, names, d, **options)

    if depth <= 0:
        roll = rng.random()
        if empty and roll < 0.04:
            return ("empty",)
        if anchors and roll < 0.08:
            return (rng.choice(["start", "end"]),)
        return ("var", rng.choice(names))
    roll = rng.random()
    if roll < 0.08:
        return smaller(0)
    if roll < 0.45:
        return ("cat", [smaller() for _ in range(rng.choice([2, 2, 2, 3]))])
    if roll < 0.62:
        return ("alt", [smaller() for _ in range(rng.choice([2, 2, 2, 3]))])
    if roll < 0.90 or not (permute or exclude):
        # The common quantifiers come first in the list and are drawn more often.
        least, most = rng.choice(_QUANTIFIERS[:3] if rng.random() < 0.6 else _QUANTIFIERS)
        return ("rep", smaller(), least, most, rng.random() < 0.65)
    if permute and (roll < 0.95 or not exclude):
        return ("permute", [smaller(min(depth - 1, 1)) for _ in range(rng.choice([2, 2, 3]))])
    return ("excl", smaller())
