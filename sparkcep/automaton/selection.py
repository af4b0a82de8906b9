"""Nets of event selection over plain patterns, and which questions they answer without listing matches."""

from __future__ import annotations

from dataclasses import replace

from sparkcep.automaton import program as p
from sparkcep.automaton.compiler import compile_pattern
from sparkcep.automaton.net import (
    ACCEPT,
    E_AT_END,
    E_AT_START,
    E_TARGET,
    E_VAR,
    MAX_NODES,
    Edge,
    Move,
    Net,
    Way,
    build,
    mask_of,
    onward,
    taking,
)
from sparkcep.automaton.steps import visit
from sparkcep.plan.options import NO_WINDOW
from sparkcep.plan.plan import Plan

MAX_RANKED = 100_000  # of TOP k without enumeration


def selection_automaton(plan: Plan) -> tuple[p.Program, Net]:
    """The program and the automaton of a plan with an event selection."""
    strategy, report = plan.selection
    program = compile_pattern(
        plan.pattern, plan.variables, runs=False, windows=len(plan.windows), whole_orders=strategy == "NEXT"
    )
    # non-overlapping matches are told apart by preferment, which merging may change
    merge = report == "ALL" and strategy != "NEXT" and not plan.non_overlapping
    return program, build_selection(program, merge=merge)


def build_selection(program: p.Program, *, merge: bool) -> Net:
    """Resolves a program compiled without runs.

    With ``merge`` (ALL MATCHES) the ways to find one match become one, as in a subset construction. Not so for SKIP TILL
    NEXT, where each way ignores rows by its own state.
    """
    plain = _Plain(program, merge)
    return build(
        program.variables, ((0, 0),), plain.moves,
        f"event selection over this pattern needs more than {MAX_NODES} states; use smaller bounds or a shorter PERMUTE",
    )[0]


def counts_by_numbers(plan: Plan, automaton: Net, looks_at_match: bool) -> bool:
    """Whether dynamic programming over the automaton counts a plan's matches."""
    return not looks_at_match and len(plan.windows) == 1 and matches_once(automaton)


def ranks_paths(plan: Plan, k: int, automaton: Net) -> bool:
    """Whether the k best matches of a plan whose conditions are local to their row can be found as paths of the automaton."""
    plain = plan.selection == ("ANY", "ALL") and len(plan.windows) == 1
    return plain and 0 < k <= MAX_RANKED and matches_once(automaton) and not automaton.edges[:, [E_AT_START, E_AT_END]].any()


def chain_of(plan: Plan, k: int, automaton: Net) -> tuple[int, ...]:
    """The edges of an automaton that takes one row for each of its nodes, if ``ranks_paths``; () for any other."""
    edges: list[int] = []
    node = 0
    while ranks_paths(plan, k, automaton) and len(edges) < automaton.nodes:
        low, high = int(automaton.first[node]), int(automaton.first[node + 1])
        if high - low != 1:
            return ()
        if automaton.edges[low, E_VAR] == ACCEPT:
            return tuple(edges)
        edges.append(low)
        node = int(automaton.edges[low, E_TARGET])
    return ()


def side_automata(plan: Plan, k: int) -> tuple[Net, ...]:
    """The automata of the sides of a conjunction, where the k best matches of each can be found as paths and any of them join; () otherwise."""
    if plan.pattern[0] != "and" or (plan.windows[0][0] != NO_WINDOW and not plan.slide):
        return ()
    found = []
    for side in plan.pattern[1:]:
        alone = replace(plan, pattern=side)
        automaton = selection_automaton(alone)[1]
        # a side without rows is no path
        if not ranks_paths(alone, k, automaton) or automaton.accepts()[0]:
            return ()
        found.append(automaton)
    return tuple(found)


def matches_once(automaton: Net) -> bool:
    """Whether each path of the automaton is a match of its own, and nothing but its rows decides that."""
    return not (automaton.ambiguous or automaton.negates)


class _Plain:
    """Moves of a state: (instruction, registers) of each way that the same rows lead to."""

    def __init__(self, program: p.Program, merge: bool) -> None:
        self.program = program
        self.code = program.code.tolist()
        self.merge = merge

    def moves(self, state: tuple, initial: bool) -> list[Move]:
        """In preference order; with ``merge`` those that differ in the target only are one."""
        found: dict[tuple, tuple[Edge, list]] = {}
        done = False  # complete unconditionally: later ways to be complete add nothing
        for config in state:
            for way in self._ways(*config, initial):
                if self.code[way.pc][0] == p.MATCH:
                    edge, target = Edge(ACCEPT, cost=0), None
                    if done:
                        continue
                    done = not (way.checks or way.start or way.end)
                else:
                    edge, raised, pc = taking(self.program, way.pc, way.regs)
                    target = (pc, way.regs | raised)
                edge = edge._replace(negated=mask_of(way.checks), start=way.start, end=way.end)
                targets = found.setdefault((edge,) if self.merge else (edge, target), (edge, []))[1]
                if target is not None and target not in targets:
                    targets.append(target)
        return [Move(edge, tuple(targets)) for edge, targets in found.values()]

    def _ways(self, pc: int, regs: int, initial: bool) -> list[Way]:
        """Ways to instructions that take a row or complete the match, in preference order."""
        out: list[Way] = []

        def follow(way: Way) -> list[Way]:
            op = self.code[way.pc][0]
            if op not in (p.CHAR, p.MATCH):
                return onward(self.program, way, initial, self.merge)
            if op == p.MATCH or not way.end:  # no row comes behind the partition's last one
                out.append(way)
            return []

        visit(Way(pc, regs), follow)
        return out
