"""Nets of approximate matches of a conjunction ``p & q``: product automata whose sides may leave variables out, at a cost.

``compiler/strategy`` builds them for APPROX with ``&``. The sides are those of :mod:`sparkcep.compiler.net.conjunction`. A run also
knows its cost and its guess (see :mod:`sparkcep.compiler.net.variable_copies`). Each configuration knows the variables left out
there. So the edge that completes a match knows its cost and its missing variables.

The first nodes of ``PATTERN (A B & C)`` with ``APPROX 1``, with sides 1 (``A B``) and 2 (``C``)::

    node 0 (start)         side 0: A -> 1    side 0: B -> 2    side 0: C -> 3
    node 1 at cost 0       side 1: B -> 4    side 2: C -> 5, may be the same row
    node 2 at cost 1       side 2: C -> 6, may be the same row
    node 3 at cost 0       side 1: A -> 7    side 1: B -> 8
    node 4 at cost 0       side 2: C -> 9, may be the same row    complete [missing C] with 1 error

One sequence of (row, variable) pairs may be found in several ways. The walk keeps the cheapest one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sparkcep.compiler.net.conjunction import ENDS, Found, Omitted, Reached, Scope, Sides, far_variables, sided_program
from sparkcep.compiler.net.net import MAX_NODES, Move, Net, build, onward
from sparkcep.compiler.net.variable_copies import Copies
from sparkcep.compiler.pattern import program as p
from sparkcep.compiler.pattern.epsilon import cheapest
from sparkcep.plan.plan import Plan

START = ((), (), None)


class Run(NamedTuple):
    """An approximate run of all sides.

    Attributes:
        cost: cost so far.
        guess: number of the guess that the run assumes.
        missed: mask of the tracked variables that have missing positions and no row yet.
        rows: mask of the tracked variables that have a row.
    """

    cost: int
    guess: int
    missed: int
    rows: int


def approximate_conjunction(plan: Plan, copies: Copies) -> tuple[p.Program, Net]:
    """The program and the net of an approximate plan whose pattern has a conjunction.

    Args:
        plan: the plan with its copies (``with_copies``).
        copies: the copies.

    Raises:
        ClauseError: if the net needs too many sides or states.
    """
    assert plan.approximate is not None
    originals = len(plan.approximate.missing)
    program, sides = sided_program(plan, plan.variables[:originals])
    skipping = _SkippingSides(program, plan, copies)
    net, states = build(
        plan.variables, START, skipping.moves,
        f"approximate matches of this pattern need more than {MAX_NODES} states; allow fewer errors, or use smaller bounds or fewer sides", prune=True,
    )
    at_cost = tuple(() if run is None else (run.cost,) for _, _, run in states)
    net = replace(net, ambiguous=True, sides=sides, far=_far(plan, copies, originals), copies=copies, skipped=tuple(skipping.skipped), at_cost=at_cost)
    return program, net


def _far(plan: Plan, copies: Copies, originals: int) -> np.ndarray:
    """As :func:`far_variables`, for the copies."""
    masks = [sum(1 << copy for copy, variable in enumerate(copies.original) if variable == v) for v in range(originals)]
    of = [sum(masks[v] for v in range(originals) if far >> v & 1) for far in far_variables(plan.pattern, originals).tolist()]
    return np.array([of[variable] for variable in copies.original], dtype=np.int64)


class _SkippingSides(Sides):
    """The moves of a state. Each takes a row for one side, after sides have left variables out."""

    def __init__(self, program: p.Program, plan: Plan, copies: Copies) -> None:
        super().__init__(program)
        assert plan.approximate is not None
        self.approx, self.copies = plan.approximate, copies
        # Runs that lack different variables are distinguished only if MISSING() is asked for.
        self.listing = any(leaf.spec.kind == "missing" for leaf in plan.leaves)
        self.skipped: dict[tuple[int, ...], int] = {(): 0}

    def moves(self, state: tuple, initial: bool) -> list[Move]:
        """The moves. Those that complete a match are the last, cheapest first."""
        states = [state]
        if initial:
            tree = ("at", 0, 0, True, ())
            states = [(tree, (), Run(0, guess, 0, 0)) for guess in range(len(self.copies.guesses))]
        taking: dict[Move, None] = {}
        completing: dict[tuple, Move] = {}
        for tree, last, run in states:
            for found in self.leaving(tree, run).values():
                if run.cost + found.omitted.cost > self.approx.bound:
                    continue
                if found.takes:
                    taking |= dict.fromkeys(self._taken(found, last))
                elif not initial and self._right(found, run):
                    move = self._completed(found, run)
                    key = (move.edge._replace(cost=0), move.checks)
                    if key not in completing or _preference(move) < _preference(completing[key]):
                        completing[key] = move
        return [*taking, *sorted(completing.values(), key=_preference)]

    def _right(self, found: Found, run: Run) -> bool:
        """Whether the run's guess is right if the match ends."""
        guess = self.copies.guesses[run.guess]
        return run.missed | found.omitted.missed == guess.missing and guess.present & ~run.rows == 0

    def _completed(self, found: Found, run: Run) -> Move:
        move = self.move(found, (), ())
        cost, skipped = run.cost + found.omitted.cost, found.omitted.skipped
        number = self.skipped.setdefault(skipped, len(self.skipped))
        return move._replace(edge=move.edge._replace(cost=cost), sources=((0, number, (cost, len(skipped), skipped)),))

    def _taken(self, found: Found, last: tuple[int, ...]) -> list[Move]:
        """The move that takes a row, if the guess lets its variable have one."""
        run, omitted = found.scope.run, found.omitted
        guess = self.copies.guesses[run.guess]
        variable = self.code[found.way.pc][1]
        if (guess.missing | guess.absent) >> variable & 1:
            return []
        move, copy, own = self.move(found, last, ()), guess.copies[variable], 1 << variable & self.copies.tracked
        after = Run(run.cost + omitted.cost, run.guess, (run.missed | omitted.missed) & ~own, run.rows | own)
        edge = move.edge._replace(variable=copy, label=copy | move.edge.label & p.EXCLUDED)
        return [move._replace(edge=edge, target=(*move.target[:2], after))]

    def reached(self, begin: Reached, fresh: bool, scope: Scope) -> list[Reached]:
        """As in the base class, with variables left out. Each place is reached at its least cost."""
        return cheapest(
            begin, self.approx.bound - scope.run.cost, lambda item: ((item.way, item.omitted.missed), _rank(item.omitted)),
            lambda item: self.code[item.way.pc][0] in ENDS, lambda item: self._onward(item, fresh, scope), self.counter,
        )  # fmt: skip

    def _onward(self, item: Reached, fresh: bool, scope: Scope) -> list[Reached]:
        """The ways after one step that takes no row."""
        way, omitted = item
        op, a, _, flags = self.code[way.pc]
        guess = self.copies.guesses[scope.run.guess]
        if op == p.CHAR:
            if guess.absent >> a & 1:
                return []
            missed = omitted.missed | (1 << a if self.copies.tracked >> a & 1 and not scope.run.rows >> a & 1 else 0)
            skipped = (*omitted.skipped, a) if self.listing else ()
            return [Reached(way._replace(pc=way.pc + 1, regs=way.regs | flags), Omitted(omitted.cost + self.approx.missing[a], missed, skipped))]
        if op in ENDS:
            return []
        if op == p.NOT:  # either the negation holds, or it is violated at a cost
            passed, penalty = way._replace(pc=way.pc + 1), self.approx.violation[a]
            held = Reached(passed._replace(checks=(*way.checks, (guess.copies[a], scope.base))), omitted)
            return [held] + [Reached(passed, omitted._replace(cost=omitted.cost + penalty))] * (penalty > 0)
        return [Reached(after, omitted) for after in onward(self.program, way, fresh, True, scope.base)]


def _rank(omitted: Omitted) -> tuple[int, int, tuple[int, ...]]:
    """Ways with a lower rank are preferred: the cheapest, then with the fewest variables left out, then the first by PATTERN."""
    return omitted.cost, len(omitted.skipped), omitted.skipped


def _preference(move: Move) -> tuple:
    """The rank of a move that completes a match."""
    return move.sources[0][2]
