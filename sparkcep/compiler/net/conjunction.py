"""Nets of patterns with a conjunction ``p & q``: its sides side by side.

A configuration is a tree: a position in the program, or a fork with one configuration for each side of a conjunction. A
state is a configuration and the side that took the last row; an edge takes one row for one side. Where a row serves several sides,
it is taken once for each, in the order of the sides (E_SAME), so that every set of (row, variable) pairs is reached in one order of
its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from sparkcep.compiler.net.net import ACCEPT, MAX_NODES, Edge, Move, Net, Way, build, onward, taking
from sparkcep.compiler.pattern import program as p
from sparkcep.compiler.pattern.backtrack_compiler import compile_pattern
from sparkcep.compiler.pattern.epsilon import begins_again, too_complex, visit
from sparkcep.plan.plan import Plan

MAX_SIDES = 62  # beside the whole pattern: bits of an edge's masks


def conjunction_automaton(plan: Plan) -> tuple[p.Program, Net]:
    """The program and the net of a plan whose pattern has a conjunction."""
    program = compile_pattern(
        plan.pattern, plan.variables, runs=False, windows=len(plan.windows), next_match=plan.selection.strategy == "NEXT"
    )
    sides = 1 + sum(len(sides) for _, sides, _ in program.ands)
    if sides > MAX_SIDES:
        raise too_complex(f"the conjunctions & of this pattern have more than {MAX_SIDES - 1} sides together; use fewer")
    net, _ = build(
        plan.variables, (("at", 0, 0, True), ()), _Sided(program).moves,
        f"event selection over this pattern needs more than {MAX_NODES} states; use smaller bounds or fewer sides",
    )
    return program, replace(net, sides=sides, far=far_variables(plan.pattern, len(plan.variables)))


def far_variables(tree: tuple, variables: int) -> np.ndarray:
    """int64 (variables): for each variable the mask of those in other sides of the conjunctions it stands in."""
    far = np.zeros(variables, dtype=np.int64)

    def walk(node: tuple) -> int:
        if node[0] in ("var", "not"):
            return 1 << node[1]
        masks = [walk(t) for t in node[1:] if isinstance(t, tuple)]
        whole = 0
        for i, mask in enumerate(masks):
            whole |= mask
            others = 0
            for other in masks[:i] + masks[i + 1 :]:
                others |= other
            if node[0] == "and":
                for v in range(variables):
                    far[v] |= others if mask >> v & 1 else 0
        return whole

    walk(tree)
    return far


# A configuration: ("at", pc, registers, fresh) or ("fork", conjunction, registers, fresh, sides' configurations). ``fresh``: no row
# of the match
# has been taken in the side or before it.


@dataclass(frozen=True)
class _Scope:
    """Where a configuration stands: ``path`` of sides in the tree; ``level``: the path behind whose rows its rows come; ``sides``:
    numbers from the whole pattern inwards; ``base``: the side whose last row comes before its rows; ``around``: window bits raised
    by the forks around; ``begun``: the sides that only now begin; ``wrap``: the whole tree, given what replaces the configuration
    and the register bits its row raises."""

    path: tuple[int, ...] = ()
    level: tuple[int, ...] = ()
    base: int = 0
    sides: tuple[int, ...] = (0,)
    around: int = 0
    begun: int = 0
    wrap: Callable[[tuple, int], tuple] = field(default=lambda tree, raised: tree, compare=False)


class _Group(NamedTuple):
    """The ways to take a row that a side ignores rows by; ``again``: where they may come from (see :func:`begins_again`), None for
    anywhere."""

    again: frozenset[tuple[int, int]] | None
    members: list[_Found]

    def add(self, found: list[_Found]) -> None:
        """Adds those whose rows may not be ignored."""
        self.members.extend(f for f in found if self.again is None or (f.way.pc, f.way.regs) in self.again)


@dataclass(eq=False)
class _Found:
    """A way to an instruction that takes a row or ends the side; ``group``: the rows that a row passed over could have been for."""

    way: Way
    takes: bool
    fresh: bool
    scope: _Scope
    group: _Group

    @property
    def key(self) -> tuple:
        """Two ways with one key make the same move."""
        return self.way, self.takes, self.scope.path, self.scope.level


class _Sided:
    """Moves of a state: each takes a row for one side."""

    def __init__(self, program: p.Program) -> None:
        self.program = program
        self.code = program.code.tolist()

    def moves(self, state: tuple, initial: bool) -> list[Move]:
        tree, last = state
        found = self._ways(tree, _Scope())
        moves = {f.key: f for f in reversed(found)}  # the first of those with one key
        order = list(dict.fromkeys(f.key for f in found))
        numbers = {key: i for i, key in enumerate(order)}
        return [self._move(moves[key], last, tuple(dict.fromkeys(numbers[g.key] for g in moves[key].group.members))) for key in order]

    def _move(self, found: _Found, last: tuple[int, ...], blockers: tuple[int, ...]) -> Move:
        way, scope = found.way, found.scope
        if not found.takes:
            return Move(Edge(ACCEPT, start=way.start, end=way.end, cost=0), None, way.checks)
        edge, raised, pc = taking(self.program, way.pc, scope.around | way.regs)
        tree = scope.wrap(("at", pc, way.regs | raised, False), raised)
        edge = edge._replace(
            start=way.start, same=int(_beside(scope.level, last)), side=scope.base, have=sum(1 << side for side in scope.sides), begin=scope.begun
        )
        return Move(edge, (tree, scope.path if tree[0] == "fork" else ()), way.checks, blockers)

    def _ways(self, tree: tuple, scope: _Scope) -> list[_Found]:
        """All ways on from a configuration."""
        if tree[0] == "at":
            _, pc, regs, fresh = tree
            return self._closure(Way(pc, regs), fresh, scope)
        return self._fork(tree, Way(-1, 0), scope, None)

    def _fork(self, tree: tuple, way: Way, scope: _Scope, begun: _Group | None) -> list[_Found]:
        """Ways on from the sides of a conjunction, which ``way`` has come to; ``begun``: the group of the ways beside one that is
        only now begun."""
        _, number, regs, fresh, children = tree
        after, sides, around = self.program.ands[number]
        windows = self.program.window_bits
        shared = sum(bit for w, bit in enumerate(windows) if around >> w & 1)
        own = sum(windows) & ~shared
        out, ends = [], []
        for i, (child, (side, _)) in enumerate(zip(children, sides)):
            inner = _Scope(
                path=(*scope.path, i),
                level=(*scope.level, i) if begun is None else scope.level,
                base=side if begun is None else scope.base,
                sides=(*scope.sides, side),
                around=scope.around | (regs & shared),
                begun=scope.begun | (0 if begun is None else sum(1 << s for s, _ in sides)),
                wrap=_wrapped(scope.wrap, tree, i, own),
            )
            found = self._ways(child, inner)
            takes = [f for f in found if f.takes and not way.end]
            for f in takes:
                f.way = f.way._replace(checks=way.checks + f.way.checks, start=way.start | f.way.start)
            if begun is not None:
                begun.add(takes)
            out += takes
            ends.append([f for f in found if not f.takes])
        for chosen in product(*ends):
            passed = way
            for f in chosen:  # the negations of a side without rows have nothing to look at
                checks = () if f.fresh else f.way.checks
                passed = passed._replace(checks=passed.checks + checks, start=passed.start | f.way.start, end=passed.end | f.way.end)
            out += self._closure(passed._replace(pc=after, regs=regs), fresh and all(f.fresh for f in chosen), scope, begun is None)
        return out

    def _closure(self, way: Way, fresh: bool, scope: _Scope, behind: bool = True) -> list[_Found]:
        """Ways on from an instruction through those that take no row, in preference order; ``behind``: whether it stands right
        behind a row."""
        out: list[_Found] = []
        group = _Group(begins_again(self.program, way.pc, way.regs) if behind and not fresh else None, [])

        def follow(way: Way) -> list[Way]:
            op, a, _, _ = self.code[way.pc]
            if op in (p.CHAR, p.MATCH, p.JOIN):
                found = _Found(way, op == p.CHAR, fresh, scope, group)
                if op == p.CHAR and not way.end:
                    group.add([found])
                if op != p.CHAR or not way.end:  # no row comes behind the partition's last one
                    out.append(found)
                return []
            if op == p.AND:
                sides = self.program.ands[a][1]
                fork = ("fork", a, way.regs, fresh, tuple(("at", at, way.regs, fresh) for _, at in sides))
                out.extend(self._fork(fork, way, scope, group))
                return []
            return onward(self.program, way, fresh, False, scope.base)

        visit(way, follow)
        return out


def _wrapped(outer: Callable, tree: tuple, i: int, own: int) -> Callable:
    """As ``outer``, with side ``i`` of a fork replaced; ``own``: bits of windows that do not stand around the fork."""
    kind, number, regs, fresh, children = tree

    def wrap(child: tuple, raised: int) -> tuple:
        return outer((kind, number, regs | (raised & ~own), fresh, (*children[:i], child, *children[i + 1 :])), raised)

    return wrap


def _beside(level: tuple[int, ...], last: tuple[int, ...]) -> bool:
    """Whether a row of ``level`` may be the row just taken by ``last``: a later side of a conjunction that both stand in."""
    for mine, other in zip(level, last):
        if mine != other:
            return mine > other
    return False
