"""The automaton of approximate matches (ACEP, VLDB 2016, Definition 1 and Algorithm 1).

The paper's ``propagate`` skips letters of the pattern, each at a cost, from every match node anew. What it can reach depends on the program alone, so
here it is resolved once into edges: an edge takes a row after skipping as many variables as the bound allows, and a node knows
the cost so far (the paper's match node without its rows). Any engine of event selection can run such an automaton.

A node is a tuple of configurations (for PROXY a single one), a configuration what is left to match and the cost. Edges name the copy of the variable
that takes the row (see :mod:`sparkcep.automaton.guesses`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sparkcep.automaton import program as p
from sparkcep.automaton.compiler import compile_pattern
from sparkcep.automaton.guesses import EXTRA, MATCHED, SUBSTITUTED, Copies, Guess
from sparkcep.automaton.selection import ACCEPT, AT_END, AT_START, E_VAR, MAX_EDGES, MAX_NODES, Selection
from sparkcep.automaton.steps import MAX_CHOICES, landing, steps, too_complex
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Approx


@dataclass(frozen=True)
class Approximate:
    """``selection``: the automaton; ``costs`` int64 (edges): of the match that an accepting edge completes, -1 at others. What led to a
    configuration: ``sources`` int64 (k, 3): place of the configuration before it in its node, a row of ``skipped`` (the variables missing
    between the two), and the rank of the choices made on the way (less is preferred); those of edge e stand from ``first_source`` int64 (edges + 1)
    on, one for each configuration of its target, or for each cheapest way to complete. ``at_cost``: the costs of each
    node's configurations."""

    selection: Selection
    copies: Copies
    costs: np.ndarray
    first_source: np.ndarray
    sources: np.ndarray
    skipped: tuple[tuple[int, ...], ...]
    at_cost: tuple[tuple[int, ...], ...]

    def dump(self, ignore: str, conditions: tuple[str, ...], approx: Approx) -> str:
        """As :meth:`Selection.dump`, with the costs of nodes and of what edges skip."""
        variables = self.selection.variables
        titles = tuple(f" at cost {', '.join(str(approx.errors(c)) for c in sorted(set(costs)))}" if i else "" for i, costs in enumerate(self.at_cost))
        notes = []
        for e, cost in enumerate(self.costs.tolist()):
            lists = {self.skipped[k] for _, k, _ in self.sources[self.first_source[e] : self.first_source[e + 1]].tolist()}
            texts = sorted(", ".join(variables[v] for v in found) or "nothing" for found in lists)
            kind = self.copies.kinds[self.selection.edges[e, E_VAR]] if cost < 0 else MATCHED
            note = {MATCHED: "", SUBSTITUTED: " (a row that stands for it)", EXTRA: " (an extra row)"}[kind]
            note += f" [skipping {' or '.join(texts)}]" if texts != ["nothing"] else ""
            notes.append(note + (f" with {approx.errors(cost)} {'error' if approx.errors(cost) == 1 else 'errors'}" if cost >= 0 else ""))
        names = tuple(name or "any row" for name in variables)
        return replace(self.selection, variables=names).dump(ignore, conditions, titles, tuple(notes))


class Config(NamedTuple):
    """Where a run stands: ``pc``, ``regs`` of the program; ``cost``; ``guess``; masks of tracked variables ``missed`` (missing places, no row yet)
    and ``rows``; ``extra``: the last row is an extra one, with which no match ends."""

    pc: int
    regs: int
    cost: int
    guess: int
    missed: int
    rows: int
    extra: bool


# choices at a variable, the preferred first
_TAKES, _STANDS, _SKIPS = range(3)


class _Item(NamedTuple):
    pc: int
    regs: int
    negated: int
    where: int
    missed: int


def approximate_automaton(plan: Plan, copies: Copies, *, merge: bool) -> tuple[p.Program, Approximate]:
    """The program and the automaton of a plan with its copies (``with_copies``). With ``merge`` configurations that the same rows lead to are one
    node, as in a subset construction: each match is found once."""
    assert plan.approximate is not None
    original = plan.variables[: len(plan.approximate.missing)]
    program = compile_pattern(plan.pattern, original, runs=False, windows=len(plan.windows))
    return program, _Builder(program, plan.approximate, copies, plan.variables, merge).run()


class _Builder:
    def __init__(self, program: p.Program, approx: Approx, copies: Copies, variables: tuple[str, ...], merge: bool) -> None:
        self.program = program
        self.code = program.code.tolist()
        self.approx = approx
        self.copies = copies
        self.variables = variables
        self.merge = merge
        self.skipped: dict[tuple[int, ...], int] = {(): 0}

    def run(self) -> Approximate:
        start = tuple(Config(0, 0, 0, g, 0, 0, False) for g in range(len(self.copies.guesses)))
        nodes = {start: 0}
        todo = [start]
        found: list[list[tuple]] = []
        costs: list[tuple[int, ...]] = []
        edges = 0
        while todo:
            state = todo.pop(0)
            found.append([])
            costs.append(tuple(c.cost for c in state))
            for key, targets, sources, cost in self._edges(state, state is start):
                if key[0] != ACCEPT and targets not in nodes:
                    nodes[targets] = len(nodes)
                    todo.append(targets)
                found[-1].append((key, nodes.get(targets, 0), sources, cost))
                edges += 1
            if len(nodes) > MAX_NODES or edges > MAX_EDGES:
                raise too_complex(
                    f"approximate matches of this pattern need more than {MAX_NODES} states; allow fewer errors, or use smaller bounds"
                )
        return self._arrays(found, costs)

    def _arrays(self, found: list[list[tuple]], at_cost: list[tuple[int, ...]]) -> Approximate:
        alive = _completing(found)
        number = {node: i for i, node in enumerate(n for n in range(len(found)) if n == 0 or alive[n])}
        first, edges, masks, costs, first_source, sources = [0], [], [], [], [0], []
        ambiguous = False
        for node, out in enumerate(found):
            if node and not alive[node]:
                continue
            mask, seen = 0, []
            ambiguous |= sum(key[0] == ACCEPT for key, *_ in out) > 1
            for key, target, came_from, cost in out:
                if key[0] != ACCEPT:
                    if not alive[target]:
                        continue
                    ambiguous |= any(self._overlap(key[0], other) for other in seen)
                    seen.append(key[0])
                    mask |= 1 << key[0]
                edges.append([key[0], key[1], number[target] if key[0] != ACCEPT else 0, *key[2:]])
                costs.append(cost)
                sources += came_from
                first_source.append(len(sources))
            first.append(len(edges))
            masks.append(mask)
        ranks = {choices: rank for rank, choices in enumerate(sorted({choices for _, _, choices in sources}))}
        sources = [(i, skipped, ranks[choices]) for i, skipped, choices in sources]
        selection = Selection(
            variables=self.variables,
            first=np.array(first, dtype=np.int64),
            edges=np.array(edges, dtype=np.int64).reshape(-1, 7),
            masks=np.array(masks, dtype=np.int64),
            ambiguous=ambiguous or not self.merge,
        )
        return Approximate(
            selection, self.copies, np.array(costs, dtype=np.int64), np.array(first_source, dtype=np.int64),
            np.array(sources, dtype=np.int64).reshape(-1, 3), tuple(self.skipped),
            tuple(c for n, c in enumerate(at_cost) if n == 0 or alive[n]),
        )

    def _overlap(self, copy: int, other: int) -> bool:
        """Whether one row may be taken by both, which stand for one variable."""
        original = self.copies.original
        if original[copy] != original[other]:
            return False
        return not any({copy, other} <= {g.copies[v], *g.substitutes[v]} and copy != other for g in self.copies.guesses for v in range(len(g.copies)))

    # -- edges of one node ------------------------------------------------------------------------------------

    def _edges(self, state: tuple[Config, ...], initial: bool) -> list[tuple]:
        """(key, target node, sources, cost) in preference order; the key's members are those of an edge but its target."""
        taking: dict[tuple, dict[tuple, tuple]] = {}
        accepting: dict[tuple, tuple] = {}
        for i, config in enumerate(state):
            for key, target, skipped, choices in self._transitions(config, initial):
                source = (i, self._skipped(skipped), choices)
                if key[0] == ACCEPT:
                    taking.setdefault((ACCEPT,), {})  # its place in the order
                    known, least = accepting.get(key, ([], target.cost))
                    if target.cost <= least:
                        accepting[key] = ([*known, source] if target.cost == least else [source], target.cost)
                    continue
                targets = taking.setdefault(key if self.merge else (*key, target), {})
                future = target._replace(cost=0)
                if future not in targets or target.cost < targets[future][0].cost:
                    targets.pop(future, None)
                    targets[future] = (target, source)
        out = []
        for group, targets in taking.items():
            if group == (ACCEPT,):
                out += _accepting(accepting)
            else:
                out.append((group[:6], tuple(t for t, _ in targets.values()), [s for _, s in targets.values()], -1))
        return out

    def _skipped(self, variables: tuple[int, ...]) -> int:
        return self.skipped.setdefault(variables, len(self.skipped))

    def _transitions(self, config: Config, initial: bool) -> list[tuple[tuple, Config, tuple[int, ...], tuple[int, ...]]]:
        """(key, configuration after it, variables skipped before it, choices made) in preference order."""
        guess = self.copies.guesses[config.guess]
        out = []
        for item, (cost, skipped, choices) in self._closure(config, guess, initial).items():
            if self.code[item.pc][0] == p.MATCH:
                if not config.extra and self._right(config, item, guess) and not initial:
                    end = Config(0, 0, cost, config.guess, 0, 0, False)
                    out.append(((ACCEPT, 0, 0, 0, item.negated, item.where), end, skipped, choices))
                continue
            out += [(key, target, skipped, (*choices, kind)) for key, target, kind in self._takes(config, item, cost, guess)]
        if self.copies.extra >= 0 and not initial and config.cost + self.approx.extra <= self.approx.bound:
            key = (self.copies.extra, self.copies.extra, 0, 0, 0, 0)
            out.append((key, config._replace(cost=config.cost + self.approx.extra, extra=True), (), ()))
        return out

    def _right(self, config: Config, item: _Item, guess: Guess) -> bool:
        """Whether the guess came true."""
        return item.missed == guess.missing and guess.present & ~config.rows == 0

    def _takes(self, config: Config, item: _Item, cost: int, guess: Guess) -> list[tuple[tuple, Config, int]]:
        """Edges by which a row is taken at a CHAR: by the variable, or standing for it."""
        _, variable, excluded, flags = self.code[item.pc]
        if item.where & AT_END or (guess.missing | guess.absent) >> variable & 1:
            return []
        around = self.program.windows[item.pc]
        bits = self.program.window_bits
        opened = sum(1 << w for w in range(len(bits)) if around >> w & 1 and not item.regs & bits[w])
        after = item.regs | flags
        for w in range(len(bits)):
            if opened >> w & 1:
                after |= bits[w]
        own = 1 << variable & self.copies.tracked
        out = []
        standing = [(copy, self.approx.missing[variable], _STANDS) for copy in guess.substitutes[variable]]
        for copy, more, kind in [(guess.copies[variable], 0, _TAKES), *standing]:
            if cost + more > self.approx.bound:
                continue
            key = (copy, copy | (p.EXCLUDED if excluded else 0), opened, around & ~opened, item.negated, item.where)
            rows = config.rows | own
            target = Config(landing(self.program, item.pc + 1), after, cost + more, config.guess, item.missed & ~own, rows, False)
            out.append((key, target, kind))
        return out

    def _closure(self, config: Config, guess: Guess, initial: bool) -> dict[_Item, tuple[int, tuple[int, ...], tuple[int, ...]]]:
        """Instructions that take a row or complete the match, in preference order, with the least cost of getting there, the variables skipped on
        the way and the choices made: the paper's ``propagate``."""
        out: dict[_Item, tuple[int, tuple[int, ...], tuple[int, ...]]] = {}
        best: dict[_Item, int] = {}
        stack: list[tuple] = [(_Item(config.pc, config.regs, 0, 0, config.missed), config.cost, (), ())]
        visits = 0
        while stack:
            item, cost, skipped, choices = stack.pop()
            if best.get(item, self.approx.bound + 1) <= cost:
                continue
            best[item] = cost
            visits += 1
            if visits > MAX_CHOICES:
                raise too_complex("this pattern has too many choices at one row")
            if self.code[item.pc][0] in (p.CHAR, p.MATCH):
                out.pop(item, None)
                out[item] = (cost, skipped, choices)
            onward = self._onward(config, item, cost, skipped, guess, initial)
            for number, (after, costs, without) in reversed(list(enumerate(onward))):
                choice = _SKIPS if without is not skipped else number
                stack.append((after, costs, without, (*choices, choice)))
        return out

    def _onward(self, config: Config, item: _Item, cost: int, skipped: tuple[int, ...], guess: Guess, initial: bool) -> list[tuple]:
        op, a, _, flags = self.code[item.pc]
        if op == p.MATCH:
            return []
        if op == p.CHAR:
            return self._skip(config, item, a, flags, cost, skipped, guess)
        if op == p.START:
            return [(item._replace(pc=item.pc + 1, where=item.where | AT_START), cost, skipped)] if initial else []
        if op == p.END:
            return [(item._replace(pc=item.pc + 1, where=item.where | AT_END), cost, skipped)]
        if op == p.NOT:
            after = item._replace(pc=item.pc + 1)
            veto = [(after._replace(negated=item.negated | 1 << guess.copies[a]), cost, skipped)]
            penalty = self.approx.violation[a]
            return veto + ([(after, cost + penalty, skipped)] if penalty else [])
        if op == p.GROUP:
            return [(item._replace(pc=item.pc + 1, regs=item.regs & ~self.program.window_bits[a]), cost, skipped)]
        return [(item._replace(pc=pc, regs=regs), cost, skipped) for pc, regs in steps(self.program, item.pc, item.regs, True)]

    def _skip(
        self, config: Config, item: _Item, variable: int, flags: int, cost: int, skipped: tuple[int, ...], guess: Guess
    ) -> list[tuple]:
        """The variable is missing here."""
        if guess.absent >> variable & 1:
            return []
        missed = item.missed
        if self.copies.tracked >> variable & 1 and not config.rows >> variable & 1:
            missed |= 1 << variable
        after = item._replace(pc=item.pc + 1, regs=item.regs | flags, missed=missed)
        return [(after, cost + self.approx.missing[variable], (*skipped, variable))]


def _accepting(found: dict[tuple, tuple]) -> list[tuple]:
    """Accepting edges, the cheapest first; behind one without a condition the others add nothing."""
    out: list[tuple] = []
    for key, (sources, cost) in sorted(found.items(), key=lambda item: item[1][1]):
        out.append((key, (), sources, cost))
        if key[4:] == (0, 0):
            break
    return out


def _completing(found: list[list[tuple]]) -> list[bool]:
    """Of each node, whether a match can be completed from it."""
    before: list[list[int]] = [[] for _ in found]
    alive = [False] * len(found)
    todo = []
    for node, out in enumerate(found):
        for key, target, _, _ in out:
            if key[0] != ACCEPT:
                before[target].append(node)
            elif not alive[node]:
                alive[node] = True
                todo.append(node)
    while todo:
        for node in before[todo.pop()]:
            if not alive[node]:
                alive[node] = True
                todo.append(node)
    return alive
