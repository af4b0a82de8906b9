"""Negations of a pattern: no row of a variable, or no match of a group, lies between two rows of a match.

The search (:mod:`sparkcep.tracing.search.trace`) asks :meth:`Negations.violation`. A negation between two rows is looked at when
the later row is taken, if its conditions read rows alone. All others wait for the finished match, since their conditions may read
any of its rows (docs/language.md, negation).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sparkcep.plan.plan import Plan
from sparkcep.plan.records import has, walk
from sparkcep.tracing.search.moves import Moves
from sparkcep.tracing.search.program import Option, Program
from sparkcep.tracing.search.runs import Node, Run
from sparkcep.tracing.search.windows import Windows


@dataclass(frozen=True)
class Negation:
    """A negation.

    Attributes:
        variable: the negated variable, the first one of a group.
        text: how the pattern writes it.
        program: the group's pattern, None for a single variable.
        late: whether it waits for the finished match.
    """

    variable: int
    text: str
    program: Program | None
    late: bool


@dataclass(frozen=True)
class Violation:
    """Rows that a negation forbids.

    Attributes:
        negation: the negation.
        after, before: the rows between which it looks, without them.
        taken: the rows of the negated variable or group, as a run of their own.
        run: the rows of the match that judged them.
    """

    negation: Negation
    after: int
    before: int
    taken: Run
    run: Run


def negations_of(plan: Plan, looks: frozenset[int]) -> dict[int, Negation]:
    """The negations of a plan by their variables. ``looks``: the variables whose conditions look at the match."""
    groups = {group.variable: group for group in plan.without}
    found = {}
    for part in walk(plan.pattern):
        if part[0] == "not":
            variable = part[1]
            if (group := groups.get(variable)) is None:
                found[variable] = Negation(variable, f"~{plan.variables[variable]}", None, variable in looks)
            else:
                inside = {one[1] for one in walk(group.pattern) if one[0] == "var"}
                text = group.text if group.text.startswith("~") else f"~{group.text}" if group.text.startswith("(") else f"~({group.text})"
                found[variable] = Negation(variable, text, Program(group.pattern), bool(inside & looks) or has(group.pattern, "within"))
    return found


class Negations:
    """Looks for rows that the negations of a pattern forbid, in one partition."""

    def __init__(self, strategy: str, windows: Windows, holds: Callable[[int, int, Run, Run], bool]) -> None:
        """
        Args:
            strategy: STRICT, NEXT or ANY.
            windows: the bounds of the match and of groups.
            holds: whether the condition of a variable is true for a row, given the match and the earlier rows of the negated group.
        """
        self.strategy, self.windows, self.holds = strategy, windows, holds
        self._known: dict[tuple[int, int, int], Run | None] = {}

    def violation(self, negation: Negation, after: int, before: int, run: Run, step: Callable[[], None]) -> Violation | None:
        """The first rows strictly between two rows that a negation forbids, None if there are none.

        Args:
            negation: the negation.
            after, before: the rows.
            run: the rows of the match.
            step: called for each row that is looked at.
        """
        key = negation.variable, after, before
        if negation.late or key not in self._known:
            found = next(self._found(negation, after, before, run, step), None)
            if negation.late:
                return None if found is None else Violation(negation, after, before, found, run)
            self._known[key] = found
        known = self._known[key]
        return None if known is None else Violation(negation, after, before, known, run)

    def _found(self, negation: Negation, after: int, before: int, run: Run, step: Callable[[], None]) -> Iterator[Run]:
        for row in range(after + 1, before):
            step()
            none = Run(row, run.number)
            if negation.program is not None:
                yield from self._group(negation.program, row, before, run, step)
            elif self.holds(negation.variable, row, run, none):
                yield none.with_(negation.variable, row)

    def _group(self, program: Program, start: int, before: int, run: Run, step: Callable[[], None]) -> Iterator[Run]:
        """The matches of a group that begin at a row and end before another one. Its conditions read the match and its own rows."""
        moves = Moves(program, self.strategy, start, before, Windows())

        def takes(node: Node, option: Option, row: int) -> bool:
            outside = any(self.windows.refused(window, first, row) for window, first in program.groups(option, row))
            return not outside and self.holds(option.variable, row, run, node.run)

        stack = [Node(program.first, Run(start, run.number), start)]
        while stack:
            node = stack.pop()
            step()
            after = []
            for option, row in moves.of(node, program.options(node.state, False, False), lambda option, row, node=node: takes(node, option, row), step):
                if option.kind == "end":
                    yield node.run
                elif option.kind == "row" and takes(node, option, row):
                    after.append(Node(program.after(option, row), node.run.with_(option.variable, row), row + 1))
            stack.extend(reversed(after))

