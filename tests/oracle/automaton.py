"""Automata with registers by brute force: Definition 2 of the AFA paper, word by word.

All contiguous subsequences of a partition's rows are taken one by one, and all computations over each. Nothing is shared between
subsequences, and nothing is remembered of a computation but its state, registers and arcs. Expressions are tuples over the names of
columns and registers:

    ("name", n)  ("lit", v)  ("+"|"-"|"*", a, b)  ("="|"<>"|"<"|"<="|">"|">=", a, b)  ("and"|"or", a, b)  ("not", a)  ("is null", a)
    ("in", a, v, w)  ("coalesce", a, b)  ("least"|"greatest", a, b)  ("case", condition, a, b)

NULL is None everywhere.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace

ROW, EMPTY, EXPIRY = "row", "empty", "expiry"
_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_COMPARISON = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
INT_MAX = (1 << 31) - 1


class OverflowInt(Exception):
    """A number does not fit an INT."""


class TooMany(Exception):
    """More computations than the oracle goes through."""


@dataclass(frozen=True)
class Arc:
    source: str
    target: str
    name: str | None = None
    on: str = ROW
    when: tuple | None = None
    sets: tuple[tuple[str, tuple], ...] = ()
    emits: tuple[tuple[str, tuple], ...] = ()
    parameters: tuple[str, ...] | None = None  # of a template, which is not there by itself
    begin: int | None = None
    end: int | None = None

    def valid(self, time):
        return self.parameters is None and (self.begin is None or self.begin <= time) and (self.end is None or time < self.end)


@dataclass(frozen=True)
class Automaton:
    """``registers``: name to first value; the order of ``arcs`` is that of the text."""

    registers: dict
    start: str
    final: frozenset
    arcs: tuple[Arc, ...]
    window: int | None = None
    lifetime: tuple | None = None
    consecutive: bool = False
    budget: int = 200_000
    spent: list = field(default_factory=lambda: [0])


def value(e, names):
    """The value of an expression where names have these values."""
    kind = e[0]
    if kind == "name":
        return names[e[1]]
    if kind == "lit":
        return e[1]
    if kind in ("and", "or"):
        decides = kind == "or"
        sides = [value(e[1], names), value(e[2], names)]
        return decides if decides in [s for s in sides if s is not None] else None if None in sides else not decides
    if kind == "not":
        x = value(e[1], names)
        return None if x is None else not x
    if kind == "is null":
        return value(e[1], names) is None
    if kind == "in":
        x = value(e[1], names)
        return None if x is None else x in e[2:]
    if kind == "coalesce":
        x = value(e[1], names)
        return value(e[2], names) if x is None else x
    if kind == "case":
        return value(e[2] if value(e[1], names) is True else e[3], names)
    a, b = value(e[1], names), value(e[2], names)
    if kind in ("least", "greatest"):
        known = [x for x in (a, b) if x is not None]
        return (min if kind == "least" else max)(known, default=None)
    if a is None or b is None:
        return None
    if kind in _COMPARISON:
        return _COMPARISON[kind](a, b)
    found = _ARITHMETIC[kind](a, b)
    if not -INT_MAX - 1 <= found <= INT_MAX:
        raise OverflowInt
    return found


@dataclass(frozen=True)
class _Id:
    """A computation: ``path`` has the numbers of its arcs; ``emitted`` is what its last arc has emitted, if that is an EMIT. One
    that is there ``again`` may be a match, but goes on only as it did the first time."""

    state: str
    registers: tuple
    path: tuple = ()
    emitted: tuple | None = None
    again: bool = False


def _stepped(automaton, number, arc, at, row, time):
    """What a computation becomes by an arc at a time, or None. ``row``: the row read last, None before the first one."""
    if not arc.valid(time):
        return None
    automaton.spent[0] += 1
    if automaton.spent[0] > automaton.budget:
        raise TooMany
    names = dict(zip(automaton.registers, at.registers))
    seen = {**row, **names} if arc.on == ROW else names
    if arc.when is not None and value(arc.when, seen) is not True:
        return None
    after = {**names, **{name: value(e, seen) for name, e in arc.sets}}
    emitted = None
    if arc.emits:
        emitted = () if row is None else tuple(sorted((name, value(e, {**row, **after})) for name, e in arc.emits))
    return _Id(arc.target, tuple(after.values()), (*at.path, number), emitted)


def _closed(automaton, at, row, time):
    """The computation at a time and what ON EMPTY arcs make of it, in the order of arcs; a way that comes back to a state with
    equal registers ends there."""
    out, met = [], {(at.state, at.registers)}

    def follow(one):
        out.append(one)
        for number, arc in enumerate(automaton.arcs):
            if arc.on == EMPTY and arc.source == one.state:
                found = _stepped(automaton, number, arc, one, row, time)
                if found is not None:
                    if (found.state, found.registers) in met:
                        out.append(replace(found, again=True))
                        continue
                    met.add((found.state, found.registers))
                    follow(found)

    follow(at)
    return out


def _computations(automaton, rows):
    """Every computation that has read exactly ``rows``."""
    found = _closed(automaton, _Id(automaton.start, tuple(automaton.registers.values())), None, rows[0]["id"])
    for row in rows:
        read = []
        for at in (at for at in found if not at.again):
            for number, arc in enumerate(automaton.arcs):
                if arc.on == ROW and arc.source == at.state:
                    after = _stepped(automaton, number, arc, at, row, row["id"])
                    if after is not None:
                        read += _closed(automaton, after, row, row["id"])
        found = read
    return found


def _end(automaton, row):
    if automaton.lifetime is not None:
        return value(automaton.lifetime, row)
    return None if automaton.window is None else row["id"] + automaton.window


def _stretches(automaton, rows):
    """All contiguous rows that live together: these rows, the end of their lives, and the rows after them."""
    for last in range(len(rows)):
        for first in range(last + 1):
            some = rows[first : last + 1]
            if automaton.consecutive and any(None in (a["n"], b["n"]) or a["n"] + 1 != b["n"] for a, b in zip(some, some[1:])):
                continue
            end = min((end for end in (_end(automaton, row) for row in some) if end is not None), default=None)
            if end is None or end > some[-1]["id"]:
                yield some, end, rows[last + 1 :]


def matches(automaton, rows, until=None, name=lambda row: row["id"]):
    """The matches of a partition, its rows in order, as (first, last, registers, EMIT values, from, to, names of the arcs that took
    the rows).

    ``until``: the time up to which arcs ON EXPIRY have been taken, None where no further row comes; ``name``: what first and last
    row are called by."""
    rows = [row for row in rows if row["id"] is not None]
    names = sorted({name for arc in automaton.arcs for name, _ in arc.emits})
    out = []
    for some, end, behind in _stretches(automaton, rows):
        found = []
        for at in _computations(automaton, some):
            if at.emitted is not None or at.state in automaton.final:
                found.append((at, some[-1]["id"], end))
            if not at.again and end is not None and (until is None or end <= until) and all(row["id"] >= end for row in behind):
                for number, arc in enumerate(automaton.arcs):
                    after = _stepped(automaton, number, arc, at, some[-1], end) if arc.on == EXPIRY and arc.source == at.state else None
                    if after is not None:
                        found.append((after, end, end + (end - some[0]["id"])))
        told = {}
        for at, begins, ends_at in sorted(found, key=lambda match: match[0].path):
            emitted = dict(at.emitted or ())
            told.setdefault((at.registers, tuple((name, emitted.get(name)) for name in names), begins, ends_at), _labels(automaton, at))
        out += [(name(some[0]), name(some[-1]), *key, labels) for key, labels in told.items()]
    return out


def _labels(automaton, at):
    """The names of the arcs that took the rows of a computation."""
    return tuple(automaton.arcs[number].name for number in at.path if automaton.arcs[number].on == ROW)


def matches_by_rows(automaton, rows, until=None, name=lambda row: row["id"]):
    """The matches of AUTOMATON BY ROWS, each once: (first row, last row, (name, label) of the rows that named arcs took, registers,
    EMIT values, to). First and last row are those of one of its computations."""
    names = sorted({name for arc in automaton.arcs for name, _ in arc.emits})
    told = {}
    for some, end, _ in _stretches(automaton, [row for row in rows if row["id"] is not None]):
        for at in _computations(automaton, some):
            taken = tuple((name(row), label) for row, label in zip(some, _labels(automaton, at), strict=True) if label is not None)
            if taken and (at.emitted is not None or at.state in automaton.final):
                emitted = dict(at.emitted or ())
                told.setdefault((taken, at.registers, tuple(emitted.get(name) for name in names), end), (name(some[0]), name(some[-1])))
    return [(*ends, *match) for match, ends in told.items()]


# -- as a clause ------------------------------------------------------------------------------------------------------


def to_sql(e):
    kind = e[0]
    if kind == "name":
        return e[1]
    if kind == "lit":
        return "NULL" if e[1] is None else str(e[1]).upper()
    if kind == "not":
        return f"NOT ({to_sql(e[1])})"
    if kind == "is null":
        return f"({to_sql(e[1])}) IS NULL"
    if kind == "in":
        return f"{to_sql(e[1])} IN ({', '.join(map(str, e[2:]))})"
    if kind in ("coalesce", "least", "greatest"):
        return f"{kind}({to_sql(e[1])}, {to_sql(e[2])})"
    if kind == "case":
        return f"CASE WHEN {to_sql(e[1])} THEN {to_sql(e[2])} ELSE {to_sql(e[3])} END"
    return f"({to_sql(e[1])} {kind.upper()} {to_sql(e[2])})"


def clause(automaton, measures, rows="ONE ROW PER MATCH", changes="", table=""):
    """The automaton's clause with these MEASURES; ``changes``: CHANGES IN and what goes with it; ``table``: ARCS FROM and what goes
    with it."""
    items = [f"REGISTER {name} INT = {'NULL' if first is None else first}" for name, first in automaton.registers.items()]
    items.append(f"STATE {automaton.start} START{' FINAL' if automaton.start in automaton.final else ''}")
    items += [f"STATE {state} FINAL" for state in sorted(automaton.final - {automaton.start})]
    for arc in automaton.arcs:
        declared = "" if arc.parameters is None else f"({', '.join(f'{name} INT' for name in arc.parameters)})"
        text = f"ARC {arc.name + declared + ' ' if arc.name else ''}FROM {arc.source} TO {arc.target}" + ("" if arc.on == ROW else f" ON {arc.on.upper()}")
        text += f" WHEN {to_sql(arc.when)}" if arc.when is not None else ""
        text += " SET " + ", ".join(f"{name} = {to_sql(e)}" for name, e in arc.sets) if arc.sets else ""
        text += " EMIT (" + ", ".join(f"{to_sql(e)} AS {name}" for name, e in arc.emits) + ")" if arc.emits else ""
        items.append(text)
    items += [table] if table else []
    bound = f" WINDOW {automaton.window}" if automaton.window is not None else f" LIFETIME TO {to_sql(automaton.lifetime)}" if automaton.lifetime else ""
    return f"PARTITION BY p ORDER BY id MEASURES {measures} {rows} AUTOMATON ({' '.join(items)}){bound}{' ' + changes if changes else ''}"


# -- random ones ------------------------------------------------------------------------------------------------------

STATES = ("q0", "q1", "q2", "q3")
REGISTERS = ("n", "m")


def random_expression(rng, names, depth=2):
    """A number over the names."""
    if depth == 0 or rng.random() < 0.3:
        return ("name", rng.choice(names)) if names and rng.random() < 0.7 else ("lit", rng.randrange(4))
    kind = rng.choice(("+", "+", "-", "*", "coalesce", "least", "greatest", "case"))
    parts = [random_expression(rng, names, depth - 1) for _ in range(2)]
    return (kind, (rng.choice(("<", "=")), *(random_expression(rng, names, 0) for _ in range(2))), *parts) if kind == "case" else (kind, *parts)


def random_condition(rng, names, depth=1):
    if depth and rng.random() < 0.35:
        return (rng.choice(("and", "and", "or")), random_condition(rng, names, depth - 1), random_condition(rng, names, depth - 1))
    if rng.random() < 0.1:
        return ("not", random_condition(rng, names, 0))
    if rng.random() < 0.1:
        return ("is null", random_expression(rng, names, 0))
    return (rng.choice(tuple(_COMPARISON)), random_expression(rng, names, 1), random_expression(rng, names, 0))


def _bounded(rng, names):
    """A number that stays small, so that loops over registers come to an end."""
    return ("least", ("lit", rng.randrange(3, 6)), ("greatest", ("lit", -rng.randrange(1, 4)), random_expression(rng, names)))


def random_automaton(rng):
    states = STATES[: rng.randrange(2, 5)]
    registers = {name: rng.choice((None, 0, 0, 1)) for name in REGISTERS[: rng.randrange(3)]}
    window = rng.choice((None, 2, 3, 5, 9))
    lifetime = ("+", ("name", "id"), ("+", ("lit", 1), ("case", ("is null", ("name", "w")), ("lit", 4), ("*", ("name", "w"), ("name", "w"))))) if rng.random() < 0.2 else None
    if lifetime is not None:
        window = None
    bounded = window is not None or lifetime is not None
    arcs = []
    for i in range(rng.randrange(2, 8)):
        on = EMPTY if rng.random() < 0.15 else EXPIRY if bounded and rng.random() < 0.15 else ROW
        names = [*registers, *(("v", "w") if on == ROW else ())]
        when = random_condition(rng, names) if rng.random() < 0.8 else None
        sets = tuple((name, _bounded(rng, names)) for name in registers if rng.random() < 0.4)
        source = states[0] if i == 0 else rng.choice(states)
        emits = tuple((name, random_expression(rng, [*registers, "v", "id"], 1)) for name in ("x", "y") if rng.random() < 0.7) if rng.random() < 0.25 else ()
        arcs.append(Arc(source, rng.choice(states), f"a{i}" if rng.random() < 0.7 else None, on, when, sets, emits))
    final = {s for s in states if rng.random() < 0.4} | {states[-1]}
    final |= {a.target for a in arcs if a.on == EXPIRY and not a.emits}
    # states from which nothing can be reached are refused
    named = {s for a in arcs for s in (a.source, a.target)}
    final &= named
    alive = final | {s for a in arcs if a.emits for s in (a.source, a.target)}
    while more := {a.source for a in arcs if a.target in alive} - alive:
        alive |= more
    arcs = tuple(a for a in arcs if a.source in alive and a.target in alive)
    named = {s for a in arcs for s in (a.source, a.target)}
    if states[0] not in named:
        return random_automaton(rng)
    return Automaton(registers, states[0], frozenset(final & named), arcs, window, lifetime)


def with_more(rng, automaton):
    """The automaton with what random ones seldom have: rows whose lives do not end, arcs ON EMPTY that loop, and several FINAL
    states."""
    states, arcs, lifetime = sorted({state for arc in automaton.arcs for state in (arc.source, arc.target)}), list(automaton.arcs), automaton.lifetime
    if lifetime is None and rng.random() < 0.25:
        lifetime = ("+", ("name", "id"), ("lit", rng.randrange(1, 5)))
    if lifetime is not None:
        ever = rng.choice([("=", ("name", "w"), ("lit", 2)), ("is null", ("name", "v")), ("<", ("name", "w"), ("lit", 2))])
        lifetime = ("case", ever, ("lit", None), lifetime)
    for number in range(rng.randrange(4)):
        when = random_condition(rng, [*automaton.registers]) if automaton.registers and rng.random() < 0.6 else None
        sets = tuple((name, _bounded(rng, [*automaton.registers])) for name in automaton.registers if rng.random() < 0.5)
        emits = (("x", random_expression(rng, [*automaton.registers, "v"], 1)),) if rng.random() < 0.25 else ()
        arcs.insert(rng.randrange(len(arcs) + 1), Arc(rng.choice(states), rng.choice(states), rng.choice((None, f"e{number}")), EMPTY, when, sets, emits))
    final = automaton.final | {state for state in states if rng.random() < 0.2}
    return replace(automaton, arcs=tuple(arcs), final=final, lifetime=lifetime, window=None if lifetime is not None else automaton.window, budget=10_000)


def random_by_rows(rng):
    """An automaton for BY ROWS: some arcs lack a name, and some share one."""
    while True:
        automaton = with_more(rng, random_automaton(rng))
        unnamed = rng.random()
        arcs = tuple(replace(arc, name=None if rng.random() < unnamed else rng.choice("AAB")) for arc in automaton.arcs)
        if not any(arc.on == EXPIRY for arc in arcs) and any(arc.on == ROW and arc.name is not None for arc in arcs):
            return replace(automaton, arcs=arcs)


def random_rows(rng, count):
    rows, at = [], rng.randrange(3)
    for _ in range(count):
        rows.append({"id": at, "v": rng.choice((None, 0, 1, 2, 3)), "w": rng.choice((None, 0, 1, 2)), "s": None})
        at += rng.choice((0, 1, 1, 1, 2, 4))
    return rows
