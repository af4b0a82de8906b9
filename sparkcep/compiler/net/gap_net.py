"""Nets of event selection (skip till next or any match) over plain patterns: each move takes a row for one variable.

``compiler/strategy`` builds them for patterns without ``&`` and without APPROX. The construction resolves the epsilon moves of the
NFAb of SASE+ (SIGMOD 2008, section 3).
"""

from __future__ import annotations

from sparkcep.compiler.net.net import ACCEPT, MAX_NODES, Edge, Move, Net, Way, build, mask_of, onward, taking
from sparkcep.compiler.pattern import program as p
from sparkcep.compiler.pattern.backtrack_compiler import compile_pattern
from sparkcep.compiler.pattern.epsilon import StepCounter, begins_again, visit
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import has


def selection_automaton(plan: Plan) -> tuple[p.Program, Net]:
    """The program and the automaton of a plan with an event selection."""
    strategy, report = plan.selection
    # The preferred match wins among non-overlapping matches, and merging may change which one is preferred.
    merge = report == "ALL" and strategy != "NEXT" and not plan.non_overlapping
    program = compile_pattern(
        plan.pattern, plan.variables, runs=False, windows=len(plan.windows), next_match=strategy == "NEXT",
        whole_orders=not merge and rows_decide(plan),
    )  # fmt: skip
    return program, build_selection(program, merge=merge, next_match=strategy == "NEXT")


def rows_decide(plan: Plan) -> bool:
    """Whether a later row of a variable may complete a match that an earlier row cannot complete.

    Conditions on the match, windows of groups and negations may refuse the earlier row. Without them the first order of a PERMUTE
    that has a match begins with the first elements and rows that have one, so its elements are chosen in turn, in fewer states.
    """
    return bool(plan.conditions or len(plan.windows) > 1 or plan.without or has(plan.pattern, "not"))


def negated_groups(plan: Plan) -> tuple[tuple[int, Net], ...]:
    """For each group that a plan's pattern negates, its variable and the net of its matches."""
    next_match = plan.selection.strategy == "NEXT"
    return tuple(
        (
            group.variable,
            build_selection(
                compile_pattern(group.pattern, plan.variables, runs=False, windows=len(plan.windows), next_match=next_match),
                merge=not next_match, next_match=next_match,
            ),
        )
        for group in plan.without
    )  # fmt: skip


def build_selection(program: p.Program, *, merge: bool, next_match: bool = False) -> Net:
    """Resolves a program that was compiled without RUN instructions.

    With ``merge`` (ALL MATCHES) all ways to find one match become one, as in a subset construction. SKIP TILL NEXT
    (``next_match``) does not merge, because each way ignores rows depending on its own state.
    """
    plain = _Plain(program, merge, next_match)
    return build(
        program.variables, ((0, 0),), plain.moves,
        f"event selection over this pattern needs more than {MAX_NODES} states; use smaller bounds or a shorter PERMUTE",
    )[0]


class _Plain:
    """The moves of a state. A state holds the (instruction, registers) of each way that the same rows lead to."""

    def __init__(self, program: p.Program, merge: bool, next_match: bool) -> None:
        self.program = program
        self.code = program.code.tolist()
        self.merge = merge
        self.next_match = next_match
        self.counter = StepCounter()

    def moves(self, state: tuple, initial: bool) -> list[Move]:
        """The moves in preference order. With ``merge``, moves that differ only in the target become one."""
        found: dict[tuple, tuple[Edge, dict, int]] = {}
        done = False  # the match is complete without a condition, so later completions add nothing
        for configs in [state] if self.merge else [(config,) for config in state]:
            again = begins_again(self.program, *configs[0], self.counter) if self.next_match and not initial else None
            for way in self._ways(configs, initial):
                passed = again is not None and (way.pc, way.regs) not in again
                if self.code[way.pc][0] == p.MATCH:
                    edge, target, place = Edge(ACCEPT, cost=0), None, 0
                    if done:
                        continue
                    done = not (way.checks or way.start or way.end)
                else:
                    edge, raised, pc = taking(self.program, way.pc, way.regs)
                    target, place = (pc, way.regs | raised), way.pc
                edge = edge._replace(negated=mask_of(way.checks), start=way.start, end=way.end)
                edge = edge._replace(passed=int(passed and edge.variable != ACCEPT))
                targets = found.setdefault((edge,) if self.merge else (edge, target), (edge, {}, place))[1]
                if target is not None:
                    targets[target] = None
        return [Move(edge, tuple(targets), place=place) for edge, targets, place in found.values()]

    def _ways(self, configs: tuple, initial: bool) -> list[Way]:
        """The ways from configurations to instructions that take a row or complete the match, in preference order, each once."""
        out: list[Way] = []

        def follow(way: Way) -> list[Way]:
            op = self.code[way.pc][0]
            if op not in (p.CHAR, p.MATCH):
                return onward(self.program, way, initial, self.merge)
            if op == p.MATCH or not way.end:  # no row follows the partition's last one
                out.append(way)
            return []

        visit([Way(*config) for config in configs], follow, self.counter)
        return out
