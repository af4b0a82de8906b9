"""The automaton of patterns with a conjunction ``p & q``: its sides side by side (LANGUAGE sections 4 and 9).

A configuration is a tree: a position in the program, or a fork with one configuration for each side of a conjunction. A
node is a configuration and the side that took the last row; an edge takes one row for one side. Where a row serves several sides, it is
taken once for each, in the order of the sides (E_SAME), so that every set of (row, variable) pairs is reached in one order of its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from sparkcep.automaton import program as p
from sparkcep.automaton.compiler import compile_pattern
from sparkcep.automaton.selection import ACCEPT, AT_START, MAX_EDGES, MAX_NODES
from sparkcep.automaton.steps import landing, steps, too_complex, visit
from sparkcep.plan.plan import Plan

MAX_SIDES = 62  # beside the whole pattern: bits of an edge's masks
AT_END = -1  # in ``checks``: the last row of the side is the partition's last

# columns of ``edges``: variable or ACCEPT, label, target node, windows opened, windows checked, AT_START, whether the row may be the last one
# taken, side whose last row the edge is behind, sides that have the row, sides begun, first check and first blocker (their ends: of the next edge)
C_VAR, C_LABEL, C_TARGET, C_OPEN, C_CHECK, C_WHERE, C_SAME, C_SCOPE, C_SETS, C_FORKED, C_CHECKS, C_BLOCKERS = range(12)


@dataclass(frozen=True)
class Conjunction:
    """``first`` int64 (nodes + 1); ``edges`` int64 (m + 1, 12), the last one a sentinel; ``checks`` int64 (c, 2): negated variable or AT_END, side;
    ``blockers`` int64: edges whose condition may not hold at a row that the edge passes over under SKIP TILL NEXT; ``sides``: number of
    sides, the whole pattern being side 0; ``far`` int64 (variables): variables of the other sides."""

    variables: tuple[str, ...]
    first: np.ndarray
    edges: np.ndarray
    checks: np.ndarray
    blockers: np.ndarray
    sides: int
    far: np.ndarray

    @property
    def nodes(self) -> int:
        return len(self.first) - 1

    def across(self, conditions) -> int:
        """Mask of the variables whose condition looks across ``&``, and is judged by the finished match."""
        mask = 0
        for v, far in enumerate(self.far.tolist()):
            if far and conditions.entry[v] >= 0:
                seen = [int(m) for s, m in enumerate(conditions.slots[:, 1]) if conditions.live[v, s]]
                mask |= any(m == -1 or m & far for m in seen) << v
        return mask

    def dump(self, conditions: tuple[str, ...]) -> str:
        """The nodes with their edges; ``conditions``: the text of each variable's condition."""
        lines = []
        for node in range(self.nodes):
            lines.append(f"node {node}" + (" (start)" if node == 0 else ""))
            for e in range(self.first[node], self.first[node + 1]):
                edge = self.edges[e].tolist()
                v = edge[C_VAR]
                notes = ["may be the same row" if edge[C_SAME] else "", "first row of the partition" if edge[C_WHERE] else ""]
                for negated, side in self.checks[edge[C_CHECKS] : self.edges[e + 1, C_CHECKS]].tolist():
                    what = "last row of the partition" if negated == AT_END else f"no {self.variables[negated]}"
                    notes.append(f"{what} since side {side}'s last row" if negated != AT_END else what)
                test = f" if {conditions[v]}" if v >= 0 and conditions[v] else ""
                text = "complete" if v == ACCEPT else f"side {edge[C_SCOPE]}: {self.variables[v]} -> {edge[C_TARGET]}"
                notes = [n for n in notes if n]
                lines.append("  " + text + test + (f" [{'; '.join(notes)}]" if notes else ""))
        return "\n".join(lines)


def conjunction_automaton(plan: Plan) -> tuple[p.Program, Conjunction]:
    """The program and the automaton of a plan whose pattern has a conjunction."""
    program = compile_pattern(
        plan.pattern, plan.variables, runs=False, windows=len(plan.windows), whole_orders=plan.selection.strategy == "NEXT"
    )
    return program, _Builder(program, far_variables(plan.pattern, len(plan.variables))).run()


def has_conjunction(tree: tuple) -> bool:
    """Whether a plan's pattern has a conjunction."""
    return tree[0] == "and" or any(isinstance(t, tuple) and has_conjunction(t) for t in tree[1:])


def far_variables(tree: tuple, variables: int) -> np.ndarray:
    """int64 (variables): for each variable the mask of those in other sides of the conjunctions it stands in."""
    far = np.zeros(variables, dtype=np.int64)

    def walk(node: tuple) -> int:
        if node[0] in ("var", "not"):
            return 1 << node[1]
        masks = [walk(t) for t in node[1:] if isinstance(t, tuple)]
        if node[0] == "and":
            for i, mask in enumerate(masks):
                others = sum({1 << v for v in range(variables) for j, m in enumerate(masks) if j != i and m >> v & 1})
                for v in range(variables):
                    if mask >> v & 1:
                        far[v] |= others
        return sum({1 << v for v in range(variables) for m in masks if m >> v & 1})

    walk(tree)
    return far


# A configuration: ("at", pc, registers, fresh) or ("fork", conjunction, registers, fresh, sides' configurations). ``fresh``: no row of the match
# has been taken in the side or before it.


@dataclass
class _Scope:
    """Where a configuration stands: ``path`` of sides in the tree; ``level``: the path behind whose rows its rows come; ``sides``: numbers
    from the whole pattern inwards; ``around``: window bits raised by the forks around; ``wrap``: the whole tree, given what replaces it."""

    path: tuple[int, ...]
    level: tuple[int, ...]
    base: int
    sides: tuple[int, ...]
    around: int
    forked: int
    wrap: Callable


@dataclass
class _Move:
    """A way on: a row for the CHAR at ``pc``, or (pc -1) the end of the side."""

    pc: int
    regs: int
    checks: tuple
    start: bool
    fresh: bool
    scope: _Scope
    group: list[_Move] = field(default_factory=list)


class _Builder:
    def __init__(self, program: p.Program, far: np.ndarray) -> None:
        self.program, self.far = program, far
        self.code = program.code.tolist()

    def run(self) -> Conjunction:
        sides = 1 + sum(len(sides) for _, sides, _ in self.program.ands)
        if sides > MAX_SIDES:
            raise too_complex(f"the conjunctions & of this pattern have more than {MAX_SIDES - 1} sides together; use fewer")
        start = (("at", 0, 0, True), ())
        numbers, todo = {start: 0}, [start]
        first, edges, checks, blockers = [0], [], [], []
        while todo:
            tree, last = todo.pop(0)
            moves: list[_Move] = []
            kept, at = [], {}  # kept: so that no two moves have one id
            for move in self._moves(tree, _Scope((), (), 0, (0,), 0, 0, lambda t, raised: t), []):
                twin = next((i for i, m in enumerate(moves) if _same_move(move, m)), len(moves))
                if twin == len(moves):
                    moves.append(move)
                at[id(move)] = len(edges) + twin
                kept.append(move)
            for move in moves:
                edge, target = self._edge(move, last)
                if target is not None:
                    if target not in numbers:
                        numbers[target] = len(numbers)
                        todo.append(target)
                    edge[C_TARGET] = numbers[target]
                edge[C_CHECKS], edge[C_BLOCKERS] = len(checks), len(blockers)
                checks += move.checks
                blockers += dict.fromkeys(at[id(m)] for m in move.group)
                edges.append(edge)
            first.append(len(edges))
            if len(numbers) > MAX_NODES or len(edges) > MAX_EDGES:
                raise too_complex(f"event selection over this pattern needs more than {MAX_NODES} states; use smaller bounds or fewer sides")
        edges.append([0] * C_CHECKS + [len(checks), len(blockers)])
        return Conjunction(
            variables=self.program.variables,
            first=np.array(first, dtype=np.int64),
            edges=np.array(edges, dtype=np.int64),
            checks=np.array(checks, dtype=np.int64).reshape(-1, 2),
            blockers=np.array(blockers, dtype=np.int64),
            sides=sides,
            far=self.far,
        )

    def _edge(self, move: _Move, last: tuple[int, ...]) -> tuple[list[int], tuple | None]:
        where = AT_START if move.start else 0
        if move.pc < 0:
            return [ACCEPT, 0, 0, 0, 0, where, 0, 0, 0, 0, 0, 0], None
        scope = move.scope
        _, variable, excluded, flags = self.code[move.pc]
        around, bits = self.program.windows[move.pc], self.program.window_bits
        raised = scope.around | move.regs
        opened = sum(1 << w for w in range(len(bits)) if around >> w & 1 and not raised & bits[w])
        raise_ = flags | sum(bits[w] for w in range(len(bits)) if opened >> w & 1)
        tree = scope.wrap(("at", landing(self.program, move.pc + 1), move.regs | raise_, False), raise_)
        target = (tree, scope.path if tree[0] == "fork" else ())
        label = variable | (p.EXCLUDED if excluded else 0)
        same = int(_beside(scope.level, last))
        taken = sum(1 << side for side in scope.sides)
        return [variable, label, 0, opened, around & ~opened, where, same, scope.base, taken, scope.forked, 0, 0], target

    def _moves(self, tree: tuple, scope: _Scope, group: list[_Move]) -> list[_Move]:
        """All ways on from a configuration; those that take rows are put into ``group``."""
        if tree[0] == "at":
            _, pc, regs, fresh = tree
            return self._closure(pc, regs, fresh, (), False, scope, group)
        return self._fork(tree, (), False, scope, None)

    def _fork(self, tree: tuple, checks: tuple, start: bool, scope: _Scope, begun: list[_Move] | None) -> list[_Move]:
        """Ways on from the sides of a conjunction; ``begun``: the group of the moves beside one that is only now begun."""
        _, number, regs, fresh, children = tree
        after, sides, around = self.program.ands[number]
        windows = self.program.window_bits
        shared = sum(bit for w, bit in enumerate(windows) if around >> w & 1)
        own = sum(windows) & ~shared
        out, ends = [], []
        for i, (child, (side, _)) in enumerate(zip(children, sides)):
            inner = _Scope(
                path=(*scope.path, i),
                level=scope.level if begun is not None else (*scope.level, i),
                base=scope.base if begun is not None else side,
                sides=(*scope.sides, side),
                around=scope.around | (regs & shared),
                forked=scope.forked | (sum(1 << s for s, _ in sides) if begun is not None else 0),
                wrap=_wrapped(scope.wrap, tree, i, own),
            )
            found = self._moves(child, inner, [])
            takes = [m for m in found if m.pc >= 0]
            for m in takes:
                m.checks, m.start = checks + m.checks, start or m.start
            if begun is not None:
                begun += takes
            out += takes
            ends.append([m for m in found if m.pc < 0])
        for chosen in product(*ends):
            passed = tuple(c for m in chosen for c in m.checks if not (m.fresh and c[0] != AT_END))
            untouched = fresh and all(m.fresh for m in chosen)
            begins = start or any(m.start for m in chosen)
            out += self._closure(after, regs, untouched, checks + passed, begins, scope, [])
        return out

    def _closure(
        self, pc: int, regs: int, fresh: bool, checks: tuple, start: bool, scope: _Scope, group: list[_Move]
    ) -> list[_Move]:
        """Ways on from an instruction through those that take no row, in preference order."""
        out: list[_Move] = []
        side = scope.base

        def follow(item: tuple) -> list[tuple]:
            pc, regs, checks, start = item
            op, a, _, _ = self.code[pc]
            if op == p.CHAR:
                move = _Move(pc, regs, checks, start, fresh, scope, group)
                group.append(move)
                out.append(move)
            elif op in (p.MATCH, p.JOIN):
                out.append(_Move(-1, regs, checks, start, fresh, scope))
            elif op == p.AND:
                sides = self.program.ands[a][1]
                fork = ("fork", a, regs, fresh, tuple(("at", at, regs, fresh) for _, at in sides))
                out.extend(self._fork(fork, checks, start, scope, group))
            elif op == p.START:
                return [(pc + 1, regs, checks, True)] if fresh else []
            elif op == p.END:
                return [(pc + 1, regs, (*checks, (AT_END, side)), start)]
            elif op == p.NOT:
                return [(pc + 1, regs, (*checks, (a, side)), start)]
            elif op == p.GROUP:
                return [(pc + 1, regs & ~self.program.window_bits[a], checks, start)]
            else:
                return [(*step, checks, start) for step in steps(self.program, pc, regs, merge=False)]
            return []

        visit((pc, regs, checks, start), follow)
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


def _same_move(a: _Move, b: _Move) -> bool:
    return (a.pc, a.regs, a.checks, a.start, a.scope.path, a.scope.level) == (b.pc, b.regs, b.checks, b.start, b.scope.path, b.scope.level)
