"""Nets of approximate matches: edges may skip variables of the pattern, at a cost (ACEP, VLDB 2016, Definition 1 and Algorithm 1).

Any event selection engine can run such a net. The paper's ``propagate`` skips letters of the pattern again from every match node.
The result depends on the program alone, so it is computed here once and stored as edges. An edge takes a row after skipping as
many variables as the bound allows. A node knows the cost so far (the paper's match node without its rows).

A state is a tuple of configurations (a single one for PROXY). A configuration is the rest of the pattern and the cost. Edges name
the copy of the variable that takes the row (see :mod:`sparkcep.compiler.net.variable_copies`).

``PATTERN (A B+ C)`` with ``APPROX 1``::

    node 0 (start)   A -> 1          B -> 2 [skipping A]
    node 1, cost 0   B -> 3          C -> 4 [skipping B]
    node 2, cost 1   B -> 2          C -> 4
    node 3, cost 0   B -> 3          C -> 5      complete [skipping C] with 1 error
    node 4, cost 1   complete with 1 error
    node 5, cost 0   complete with 0 errors

Under SKIP TILL NEXT a run may ignore the rows that it might ignore without APPROX. So only edges that skip nothing forbid to ignore
their rows, and edges that skip are marked ``passed``. An edge may be of no use for a match, for example because the run assumes
that its variable is missing. Its row may not be ignored, either, so such an edge leads to a node without edges (``DEAD_END``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sparkcep.compiler.net.gap_net import rows_decide
from sparkcep.compiler.net.net import ACCEPT, E_VAR, MAX_NODES, Edge, Move, Net, Way, build, mask_of, onward, taking
from sparkcep.compiler.net.variable_copies import Copies, Guess
from sparkcep.compiler.pattern import program as p
from sparkcep.compiler.pattern.backtrack_compiler import compile_pattern
from sparkcep.compiler.pattern.epsilon import StepCounter, begins_again, cheapest
from sparkcep.plan.facts import written_out
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Approx


class Config(NamedTuple):
    """One configuration of a run.

    Attributes:
        pc: instruction of the program.
        regs: register word of the program.
        cost: cost so far.
        guess: number of the :class:`Guess` that the run assumes.
        missed: mask of the tracked variables that have missing positions and no row yet.
        rows: mask of the tracked variables that have a row.
        extra: whether the last row is an extra row. No match ends with one.
    """

    pc: int
    regs: int
    cost: int
    guess: int
    missed: int
    rows: int
    extra: bool


DEAD_END: tuple[Config, ...] = ()  # the state of runs that took a row of no use, which they might not ignore

# choices at a variable, most preferred first
_TAKES, _SUBSTITUTES, _SKIPS = range(3)


class _Reached(NamedTuple):
    """A way that skips variables.

    Attributes:
        way: the path through the program.
        missed: mask of the tracked variables that are missing so far.
        cost: cost of the way together with the run before it.
        skipped: the variables that it skips.
        choices: the choices made on the way.
    """

    way: Way
    missed: int
    cost: int
    skipped: tuple[int, ...] = ()
    choices: tuple[int, ...] = ()


def approximate_automaton(plan: Plan, copies: Copies, *, merge: bool, placed: bool = False) -> tuple[p.Program, Net]:
    """The program and the net of an approximate plan.

    Args:
        plan: the plan with its copies (``with_copies``).
        copies: the copies.
        merge: whether configurations that the same rows lead to become one node, as in a subset construction. Each match is then
            found once. Under SKIP TILL NEXT each way ignores rows depending on its own state, so nothing is merged.
        placed: whether the pattern is written out and edges know their position in it.

    Raises:
        ClauseError: if the net needs too many states.
    """
    assert plan.approximate is not None
    original = plan.variables[: len(plan.approximate.missing)]
    next_match = plan.selection.strategy == "NEXT"
    # Under SKIP TILL NEXT copies of an iteration must know where one may begin again.
    pattern = written_out(plan.pattern, copies=not next_match) if placed else plan.pattern
    merge = merge and not next_match
    program = compile_pattern(
        pattern, original, runs=False, windows=len(plan.windows), next_match=next_match, whole_orders=next_match and rows_decide(plan),
        copies=placed and next_match,
    )  # fmt: skip
    skipping = _Skipping(program, plan.approximate, copies, merge, placed, next_match)
    start = tuple(Config(0, 0, 0, guess, 0, 0, False) for guess in range(len(copies.guesses)))
    net, states = build(
        plan.variables, start, skipping.moves,
        f"approximate matches of this pattern need more than {MAX_NODES} states; allow fewer errors, or use smaller bounds", prune=True,
        dead_end=DEAD_END if next_match else None,
    )
    at_cost = tuple(tuple(config.cost for config in state) for state in states)
    net = replace(net, ambiguous=not merge or _ambiguous(net, copies), skipped=tuple(skipping.skipped), at_cost=at_cost, copies=copies)
    return program, replace(net, ways=_ways(net, states)) if placed else net


def _ways(net: Net, states: list[tuple[Config, ...]]) -> np.ndarray:
    """Numbers the edges.

    Edges of a node with the same pattern position and future share a number, even if cost and conditions differ.
    """
    numbers: dict[tuple, int] = {}
    found = []
    for node in range(net.nodes):
        for e in net.edges_of(node):
            edge, state = net.edge(e), states[net.edge(e).target]
            target = state[0]._replace(cost=0) if state else DEAD_END
            found.append(numbers.setdefault((node, edge.variable, int(net.places[e]), edge.opens, edge.inside, target), len(numbers)))
    return np.array(found, dtype=np.int64)


def _ambiguous(net: Net, copies: Copies) -> bool:
    """Whether a node can be left in two ways by one row, or completed in two ways."""
    for node in range(net.nodes):
        taken = [v for v in net.edges[net.first[node] : net.first[node + 1], E_VAR].tolist() if v != ACCEPT]
        if len(net.edges_of(node)) - len(taken) > 1 or any(_overlap(v, u, copies) for i, v in enumerate(taken) for u in taken[:i]):
            return True
    return False


def _overlap(copy: int, other: int, copies: Copies) -> bool:
    """Whether one row may be taken by both copies, which belong to one variable."""
    if copies.original[copy] != copies.original[other]:
        return False
    return copy == other or not any({copy, other} <= {own, *substitutes} for g in copies.guesses for own, substitutes in zip(g.copies, g.substitutes))


class _Skipping:
    """Moves that may skip variables before they take a row. Each skipped variable has its cost."""

    def __init__(self, program: p.Program, approx: Approx, copies: Copies, merge: bool, placed: bool, next_match: bool) -> None:
        self.program = program
        self.code = program.code.tolist()
        taking = [pc for pc, (op, *_) in enumerate(self.code) if op == p.CHAR]
        self.places = {pc: number for number, pc in enumerate(taking, 1)} if placed else dict.fromkeys(taking, 0)
        self.approx = approx
        self.copies = copies
        self.merge = merge
        self.next_match = next_match
        self.counter = StepCounter()
        self.skipped: dict[tuple[int, ...], int] = {(): 0}

    def moves(self, state: tuple[Config, ...], initial: bool) -> list[Move]:
        """The moves in preference order.

        Moves that complete a match are grouped at the place of the first one, cheapest first.
        """
        groups: dict[tuple, dict[Config, tuple]] = {}
        accepting: dict[Edge, tuple[list, int]] = {}
        dead: list[Move] = []
        for i, config in enumerate(state):
            for edge, target, skipped, choices, place in self._transitions(config, initial):
                source = (i, self.skipped.setdefault(skipped, len(self.skipped)), choices)
                if target is None:
                    dead.append(Move(edge, DEAD_END))
                    continue
                if edge.variable == ACCEPT:
                    groups.setdefault((edge.variable,), {})  # reserves the place of the completing moves in the order
                    known, least = accepting.get(edge, ([], target.cost))
                    if target.cost <= least:
                        accepting[edge] = ([*known, source] if target.cost == least else [source], target.cost)
                    continue
                targets = groups.setdefault((edge, place) if self.merge else (edge, place, target), {})
                future = target._replace(cost=0)
                if future not in targets or target.cost < targets[future][0].cost:
                    targets.pop(future, None)
                    targets[future] = (target, source)
        out = []
        for (edge, *at), targets in groups.items():
            if edge == ACCEPT:
                out += _accepting(accepting)
            else:
                out.append(Move(edge, tuple(t for t, _ in targets.values()), sources=tuple(s for _, s in targets.values()), place=at[0]))
        out += dead
        # Ties between candidates go to the earlier place. Without places the order stays as it is.
        return sorted(out, key=lambda move: (move.edge.variable == ACCEPT, move.place)) if any(move.place for move in out) else out

    def _transitions(self, config: Config, initial: bool) -> list[tuple[Edge, Config | None, tuple[int, ...], tuple[int, ...], int]]:
        """The transitions of a configuration, in preference order.

        Each is (edge, configuration after it, variables skipped before it, choices made, place in the pattern). The configuration
        is None at a dead end.
        """
        guess = self.copies.guesses[config.guess]
        out = []
        again = begins_again(self.program, config.pc, config.regs, self.counter) if self.next_match and not initial else None
        for found in self._reached(config, guess, initial):
            way = found.way
            if self.code[way.pc][0] == p.MATCH:
                right = found.missed == guess.missing and guess.present & ~config.rows == 0  # the guess was right
                if not config.extra and right and not initial:
                    edge = Edge(ACCEPT, negated=mask_of(way.checks), start=way.start, end=way.end)
                    out.append((edge, Config(0, 0, found.cost, config.guess, 0, 0, False), found.skipped, found.choices, 0))
                continue
            place = self.places[way.pc]
            # Without APPROX the run might not ignore a row of this way.
            blocks = self.next_match and not initial and not found.skipped and (again is None or (way.pc, way.regs) in again)
            takes = self._takes(config, found, guess)
            if blocks and not takes and not way.end:
                edge, _, _ = taking(self.program, way.pc, way.regs)
                variable = guess.copies[edge.variable]
                dead = edge._replace(variable=variable, label=variable | edge.label & p.EXCLUDED)
                takes = [(dead, None, _TAKES)]
            passed = int(self.next_match and not initial and not blocks)
            out += [(edge._replace(passed=passed), target, found.skipped, (*found.choices, kind), place) for edge, target, kind in takes]
        if self.copies.extra >= 0 and not initial and config.cost + self.approx.extra <= self.approx.bound:
            edge = Edge(self.copies.extra, self.copies.extra)
            out.append((edge, config._replace(cost=config.cost + self.approx.extra, extra=True), (), (), 0))
        return out

    def _takes(self, config: Config, found: _Reached, guess: Guess) -> list[tuple[Edge, Config, int]]:
        """The edges that take a row at a CHAR: as the variable itself, or as a substitute for it."""
        way = found.way
        variable = self.code[way.pc][1]
        if way.end or (guess.missing | guess.absent) >> variable & 1:
            return []
        edge, raised, pc = taking(self.program, way.pc, way.regs)
        own = 1 << variable & self.copies.tracked
        out = []
        substitutes = [(copy, self.approx.missing[variable], _SUBSTITUTES) for copy in guess.substitutes[variable]]
        for copy, more, kind in [(guess.copies[variable], 0, _TAKES), *substitutes]:
            if found.cost + more > self.approx.bound:
                continue
            label = copy | edge.label & p.EXCLUDED
            taken = edge._replace(variable=copy, label=label, negated=mask_of(way.checks), start=way.start)
            target = Config(pc, way.regs | raised, found.cost + more, config.guess, found.missed & ~own, config.rows | own, False)
            out.append((taken, target, kind))
        return out

    def _reached(self, config: Config, guess: Guess, initial: bool) -> list[_Reached]:
        """Reachable instructions that take a row or complete the match (the paper's ``propagate``).

        They are in preference order, each at its least cost.
        """
        return cheapest(
            _Reached(Way(config.pc, config.regs), config.missed, config.cost), self.approx.bound, lambda item: ((item.way, item.missed), (item.cost,)),
            lambda item: self.code[item.way.pc][0] in (p.CHAR, p.MATCH), lambda item: self._onward(config, item, guess, initial), self.counter,
        )  # fmt: skip

    def _onward(self, config: Config, item: _Reached, guess: Guess, initial: bool) -> list[_Reached]:
        way = item.way
        op, a, _, flags = self.code[way.pc]
        if op == p.MATCH:
            return []
        if op == p.CHAR:
            if guess.absent >> a & 1:
                return []
            missed = item.missed | (1 << a if self.copies.tracked >> a & 1 and not config.rows >> a & 1 else 0)
            without = way._replace(pc=way.pc + 1, regs=way.regs | flags)
            return [_Reached(without, missed, item.cost + self.approx.missing[a], (*item.skipped, a), (*item.choices, _SKIPS))]
        if op == p.NOT:  # either the negation holds (for the copy without the conjuncts that name a missing variable), or it is violated at a cost
            violated = way._replace(pc=way.pc + 1)
            penalty = self.approx.violation[a]
            ways = [(violated._replace(checks=(*way.checks, (guess.copies[a], 0))), 0)] + [(violated, penalty)] * (penalty > 0)
        else:
            ways = [(after, 0) for after in onward(self.program, way, initial, not self.next_match)]
        return [
            _Reached(after, item.missed, item.cost + more, item.skipped, (*item.choices, number)) for number, (after, more) in enumerate(ways)
        ]


def _accepting(found: dict[Edge, tuple[list, int]]) -> list[Move]:
    """The moves that complete a match, cheapest first. Moves after one without a condition add nothing and are dropped."""
    out: list[Move] = []
    for edge, (sources, cost) in sorted(found.items(), key=lambda item: item[1][1]):
        out.append(Move(edge._replace(cost=cost), sources=tuple(sources)))
        if not (edge.negated or edge.start or edge.end):
            break
    return out
