"""Nets of patterns with a conjunction ``p & q``: product automata that match the sides side by side.

``compiler/strategy`` builds them for event selection with ``&``. A configuration is a tree: a position in the program, or a fork
with one configuration for each side of a conjunction. A state is a configuration and the side that took the last row. An edge takes
one row for one side. A row that serves several sides is taken once for each side, in the order of the sides (E_SAME). So every set
of (row, variable) pairs is reached in exactly one order of its rows. In :mod:`sparkcep.compiler.net.skipping_sides` the sides of an
approximate match may leave variables out.

The start of ``PATTERN (A B & C)``, with sides 1 (``A B``) and 2 (``C``)::

    node 0 (start)  A -> 1          C -> 2
    node 1          side 1: B -> 3  side 2: C -> 4, may be the same row
    node 2          side 1: A -> 5

At node 1 the last row is an A, and side 2 may still take that row as its C. At node 2 side 1 may not take the C row as its A,
because side 2 comes later in the order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from operator import or_
from typing import Any, NamedTuple

import numpy as np

from sparkcep.compiler.net.net import ACCEPT, MAX_NODES, Edge, Move, Net, Way, build, onward, taking
from sparkcep.compiler.pattern import program as p
from sparkcep.compiler.pattern.backtrack_compiler import compile_pattern
from sparkcep.compiler.pattern.epsilon import StepCounter, begins_again, too_complex, visit
from sparkcep.plan.plan import Plan

ENDS = (p.CHAR, p.MATCH, p.JOIN, p.AND)  # instructions where epsilon steps end
_BLOCKERS = 64  # so many edges that may block another one cost as much as an epsilon step
MAX_SIDES = 62  # including the whole pattern; an edge's masks have one bit for each side


def conjunction_automaton(plan: Plan) -> tuple[p.Program, Net]:
    """The program and the net of a plan whose pattern has a conjunction. Raises ClauseError for too many sides or states."""
    program, sides = sided_program(plan, plan.variables)
    net, _ = build(
        plan.variables, (("at", 0, 0, True, ()), (), None), Sides(program).moves,
        f"event selection over this pattern needs more than {MAX_NODES} states; use smaller bounds or fewer sides",
    )
    return program, replace(net, sides=sides, far=far_variables(plan.pattern, len(plan.variables)))


def sided_program(plan: Plan, variables: tuple[str, ...]) -> tuple[p.Program, int]:
    """The program of a pattern with a conjunction, and the number of its sides, including the whole pattern."""
    program = compile_pattern(plan.pattern, variables, runs=False, windows=len(plan.windows), next_match=plan.selection.strategy == "NEXT")
    sides = 1 + sum(len(sides) for _, sides, _ in program.ands)
    if sides > MAX_SIDES:
        raise too_complex(f"the conjunctions & of this pattern have more than {MAX_SIDES - 1} sides together; use fewer")
    return program, sides


def far_variables(tree: tuple, variables: int) -> np.ndarray:
    """For each variable the mask of the variables in other sides of the conjunctions around it. int64, shape (variables,)."""
    far = np.zeros(variables, dtype=np.int64)

    def walk(node: tuple) -> int:
        if node[0] in ("var", "not"):
            return 1 << node[1]
        masks = [walk(t) for t in node[1:] if isinstance(t, tuple)]
        for i, mask in enumerate(masks if node[0] == "and" else ()):
            others = reduce(or_, masks[:i] + masks[i + 1 :], 0)
            for v in range(variables):
                far[v] |= others if mask >> v & 1 else 0
        return reduce(or_, masks, 0)

    walk(tree)
    return far


# A configuration: ("at", pc, registers, fresh, skipped) or ("fork", conjunction, registers, fresh, skipped, sides' configurations).
# ``fresh``: the match has taken no row yet, neither in the side nor before it. ``skipped``: the variables that an approximate match
# lacks there, or before the fork.


class Omitted(NamedTuple):
    """The variables that an approximate match leaves out on a way. An exact match leaves nothing out.

    Attributes:
        cost: their cost, together with the cost of violated negations.
        missed: mask of the tracked ones.
        skipped: the variables left out at the configuration so far, in pattern order.
    """

    cost: int = 0
    missed: int = 0
    skipped: tuple[int, ...] = ()


class Reached(NamedTuple):
    """A way and the variables left out on it."""

    way: Way
    omitted: Omitted = Omitted()


@dataclass(frozen=True)
class Scope:
    """The surroundings of a configuration in its tree.

    Attributes:
        path: the sides from the root to the configuration.
        level: the path to the side ``base``.
        base: the side whose last row comes before its rows.
        sides: numbers of the sides around it, from the whole pattern inwards.
        around: window bits that the forks around it have raised.
        begun: mask of the sides that begin with the next row.
        run: the cost and the guess of an approximate run.
        wrap: rebuilds the whole tree, given the new configuration and the register bits that its row raises.
    """

    path: tuple[int, ...] = ()
    level: tuple[int, ...] = ()
    base: int = 0
    sides: tuple[int, ...] = (0,)
    around: int = 0
    begun: int = 0
    run: Any = None
    wrap: Callable[[tuple, int], tuple] = field(default=lambda tree, raised: tree, compare=False)


class _Group(NamedTuple):
    """The ways to take a row from one closure. Under SKIP TILL NEXT they decide which rows the side ignores.

    Attributes:
        again: the positions whose ways count (see :func:`begins_again`), None if all ways count.
        members: the ways that count.
    """

    again: frozenset[tuple[int, int]] | None
    members: list[Found]

    def add(self, found: list[Found]) -> None:
        """Adds the ways whose rows may not be ignored."""
        self.members.extend(f for f in found if self.again is None or (f.way.pc, f.way.regs) in self.again)


@dataclass(eq=False)
class Found:
    """A way to an instruction that takes a row or ends the side. ``group``: the ways that a skipped row could have taken."""

    way: Way
    takes: bool
    fresh: bool
    scope: Scope
    group: _Group
    omitted: Omitted

    @property
    def key(self) -> tuple:
        """Ways with equal keys make the same move."""
        return self.way, self.takes, self.scope.path, self.scope.level, self.omitted


class Sides:
    """The moves of a state. Each takes a row for one side."""

    def __init__(self, program: p.Program) -> None:
        self.program = program
        self.code = program.code.tolist()
        self.counter = StepCounter()

    def moves(self, state: tuple, initial: bool) -> list[Move]:
        tree, last, run = state
        moves = self.leaving(tree, run)
        numbers = {key: i for i, key in enumerate(moves)}
        self.counter.begin()
        self.counter.count(sum(len(found.group.members) for found in moves.values()) // _BLOCKERS)
        return [self.move(found, last, tuple(dict.fromkeys(numbers[g.key] for g in found.group.members))) for found in moves.values()]

    def leaving(self, tree: tuple, run: Any) -> dict[tuple, Found]:
        """The ways that leave a configuration, in preference order. Of ways with equal keys the first one is kept."""
        found = self._ways(tree, Scope(run=run))
        first = {f.key: f for f in reversed(found)}
        return {f.key: first[f.key] for f in found}

    def move(self, found: Found, last: tuple[int, ...], blockers: tuple[int, ...]) -> Move:
        """The move of a way."""
        way, scope = found.way, found.scope
        if not found.takes:
            return Move(Edge(ACCEPT, start=way.start, end=way.end, cost=0), None, way.checks)
        edge, raised, pc = taking(self.program, way.pc, scope.around | way.regs)
        tree = scope.wrap(("at", pc, way.regs | raised, False, found.omitted.skipped), raised)
        edge = edge._replace(
            start=way.start, same=int(_beside(scope.level, last)), side=scope.base, have=sum(1 << side for side in scope.sides), begin=scope.begun
        )
        return Move(edge, (tree, scope.path if tree[0] == "fork" else (), scope.run), way.checks, blockers)

    def _ways(self, tree: tuple, scope: Scope) -> list[Found]:
        """All ways that leave a configuration."""
        if tree[0] == "at":
            _, pc, regs, fresh, skipped = tree
            return self._closure(Reached(Way(pc, regs), Omitted(skipped=skipped)), fresh, scope)
        return self._fork(tree, Reached(Way(-1, 0), Omitted(skipped=tree[4])), scope, None)

    def _fork(self, tree: tuple, reached: Reached, scope: Scope, begun: _Group | None) -> list[Found]:
        """The ways that leave the sides of a conjunction after a way reached it.

        ``begun``: the group to extend if the fork only begins now, else None.
        """
        _, number, regs, fresh, _, children = tree
        way, omitted = reached
        after, sides, around = self.program.ands[number]
        windows = self.program.window_bits
        shared = sum(bit for w, bit in enumerate(windows) if around >> w & 1)
        own = sum(windows) & ~shared
        out, ends = [], []
        for i, (child, (side, _)) in enumerate(zip(children, sides)):
            inner = Scope(
                path=(*scope.path, i),
                level=(*scope.level, i) if begun is None else scope.level,
                base=side if begun is None else scope.base,
                sides=(*scope.sides, side),
                around=scope.around | (regs & shared),
                begun=scope.begun | (0 if begun is None else sum(1 << s for s, _ in sides)),
                run=scope.run,
                wrap=_wrapped(scope.wrap, tree, i, own),
            )
            found = self._ways(child, inner)
            takes = [f for f in found if f.takes and not way.end]
            for f in takes:
                f.way = f.way._replace(checks=way.checks + f.way.checks, start=way.start | f.way.start)
                f.omitted = Omitted(omitted.cost + f.omitted.cost, omitted.missed | f.omitted.missed, f.omitted.skipped)
            if begun is not None:
                begun.add(takes)
            out += takes
            ends.append([f for f in found if not f.takes])
        for chosen in product(*ends):
            self.counter.count()
            passed, left = way, omitted
            for f in chosen:  # negations count from a side's last row, so a side without rows drops them
                checks = () if f.fresh else f.way.checks
                passed = passed._replace(checks=passed.checks + checks, start=passed.start | f.way.start, end=passed.end | f.way.end)
                left = Omitted(left.cost + f.omitted.cost, left.missed | f.omitted.missed, left.skipped + f.omitted.skipped)
            out += self._closure(Reached(passed._replace(pc=after, regs=regs), left), fresh and all(f.fresh for f in chosen), scope, begun is None)
        return out

    def _closure(self, reached: Reached, fresh: bool, scope: Scope, behind: bool = True) -> list[Found]:
        """The ways from an instruction through epsilon steps, in preference order.

        ``behind``: whether the instruction directly follows a row.
        """
        out: list[Found] = []
        group = _Group(begins_again(self.program, reached.way.pc, reached.way.regs, self.counter) if behind and not fresh else None, [])
        for at in self.reached(reached, fresh, scope):
            way = at.way
            op, a, _, _ = self.code[way.pc]
            if op == p.AND:
                sides = self.program.ands[a][1]
                fork = ("fork", a, way.regs, fresh, at.omitted.skipped, tuple(("at", pc, way.regs, fresh, ()) for _, pc in sides))
                out.extend(self._fork(fork, at, scope, group))
            elif op != p.CHAR or not way.end:  # no row follows the partition's last one
                found = Found(way, op == p.CHAR, fresh, scope, group, at.omitted)
                if op == p.CHAR:
                    group.add([found])
                out.append(found)
        return out

    def reached(self, begin: Reached, fresh: bool, scope: Scope) -> list[Reached]:
        """The ways to instructions that take a row, end a side or the match, or begin a conjunction, in preference order."""
        out: list[Reached] = []

        def follow(way: Way) -> list[Way]:
            if self.code[way.pc][0] in ENDS:
                out.append(Reached(way, begin.omitted))
                return []
            return onward(self.program, way, fresh, False, scope.base)

        visit([begin.way], follow, self.counter)
        return out


def _wrapped(outer: Callable, tree: tuple, i: int, own: int) -> Callable:
    """A function like ``outer`` that also replaces side ``i`` of a fork. ``own``: bits of windows that are not around the fork."""
    kind, number, regs, fresh, skipped, children = tree

    def wrap(child: tuple, raised: int) -> tuple:
        return outer((kind, number, regs | (raised & ~own), fresh, skipped, (*children[:i], child, *children[i + 1 :])), raised)

    return wrap


def _beside(level: tuple[int, ...], last: tuple[int, ...]) -> bool:
    """Whether a row of ``level`` may be the row that ``last`` has just taken: true for a later side of their common conjunction."""
    for mine, other in zip(level, last):
        if mine != other:
            return mine > other
    return False
