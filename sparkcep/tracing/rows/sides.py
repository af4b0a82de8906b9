"""The sides of ``p & q``, each searched by itself.

The engine searches the whole pattern. A side alone is a pattern without ``&``, which is traced and verified like any other. A
comparison that looks at the match, of a variable whose condition reads rows of another side, is judged by the finished match. The
side alone leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, product

from sparkcep.clause.tree import NEXT_ROW
from sparkcep.engine.factory import prepare
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Selection, Skip, Within, walk
from sparkcep.tracing.conditions import comparisons
from sparkcep.tracing.conditions.comparisons import is_conjunction, numbers
from sparkcep.tracing.conditions.question import Question
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.rows.verify import Difference, compared, engine_plan, matches_changed
from sparkcep.tracing.search.runs import Run
from sparkcep.tracing.search.trace import Effort, Match, Trace

MOST_WAYS = 50  # matches of a side that are combined
MOST_COMBINED = 2_000  # combinations that are tried


@dataclass(frozen=True)
class Side:
    """A side of ``&`` by itself.

    Attributes:
        variables: its variables.
        rows: the rows, with the question about the side.
        trace: the first match of each start row.
        across: the variables whose conditions read other sides.
    """

    variables: frozenset[int]
    rows: FrozenRows
    trace: Trace
    across: frozenset[int]

    def differences(self) -> list[Difference]:
        """The matches of the side that only the trace or only the engine has."""
        return compared(self.trace, matches_changed(self.rows.question, self.rows.table, {}))

    def ways(self, first: int, stop: int) -> Iterator[Match]:
        """All matches of the side that begin at a row or later, and end before another one. Raises Effort if they are too many."""
        pattern = replace(self.trace.pattern, reports_all=True)
        again = Trace(pattern, self.rows, search=False, max_steps=self.trace.max_steps)
        for start in range(first, stop):
            search = again.search(start, 0)
            if search.effort:
                raise Effort
            yield from (match for match in search.matches if match.end <= stop)


@dataclass(frozen=True)
class Combined:
    """Matches of all sides, without a row that two of them take.

    Attributes:
        ways: the match of each side.
        refused: variable and row of each condition across ``&`` that does not hold.
    """

    ways: tuple[Match, ...]
    refused: tuple[tuple[int, int], ...]

    def judged(self, variable: int, row: int) -> Run:
        """The rows that a condition across ``&`` sees: its own variable's up to the row, and all rows of others."""
        pairs = sorted((at, label) for way in self.ways for at, label in zip(way.rows, way.variables, strict=True))
        seen = [(at, label) for at, label in pairs if label != variable or at < row]
        return Run.of(pairs[0][0], 0, [label for _, label in seen], [at for at, _ in seen])


def has_sides(plan: Plan) -> bool:
    """Whether the pattern has ``&``."""
    return any(part[0] == "and" for part in walk(plan.pattern))


def sides_of(rows: FrozenRows, max_steps: int) -> tuple[Side, ...]:
    """The sides of a pattern that is ``p & q`` as a whole; none for a pattern that has ``&`` deeper inside."""
    plan = rows.question.plan
    tree = plan.pattern
    while isinstance(tree, Within):
        tree = tree.item
    if tree[0] != "and" or any(part[0] == "and" for side in tree[1:] for part in walk(side)):
        return ()
    prepared = prepare(engine_plan(plan), rows.table.schema)
    mask = prepared.strategy.automaton.across(prepared.conditions)
    return tuple(_side(rows, side, mask, max_steps) for side in tree[1:])


def _side(rows: FrozenRows, tree: tuple, mask: int, max_steps: int) -> Side:
    question = rows.question
    plan = question.plan
    groups = {part[1] for part in walk(tree) if part[0] == "not"}
    variables = frozenset(part[1] for part in walk(tree) if part[0] == "var")
    across = frozenset(variable for variable in variables if mask >> variable & 1)
    conditions = dict(question.conditions)
    for variable in across:
        logic = conditions.pop(variable)
        kept = [("comparison", n) for n in numbers(logic) if question.values[question.comparisons[n].truth].column] if is_conjunction(logic) else []
        if kept:
            conditions[variable] = ("and", *kept)
    assert plan.selection is not None
    alone = replace(
        plan, pattern=tree, skip=Skip(NEXT_ROW, 0), selection=Selection(plan.selection.strategy, "FIRST"),
        without=tuple(group for group in plan.without if group.variable in groups),
    )  # fmt: skip
    asked: Question = replace(question, plan=alone, conditions=conditions)
    frozen = FrozenRows(asked, rows.table)
    return Side(variables, frozen, Trace(frozen.pattern(), frozen, max_steps=max_steps), across)


def best_combined(rows: FrozenRows, sides: tuple[Side, ...], first: int, stop: int) -> Combined | None:
    """The matches of all sides that begin at a row together, with the fewest conditions across ``&`` that do not hold.

    None if there are none. Raises Effort if a side has too many matches.
    """
    lists = [list(islice(side.ways(first, stop), MOST_WAYS)) for side in sides]
    best: Combined | None = None
    for ways in islice(product(*lists), MOST_COMBINED):
        taken = [row for way in ways for row in way.rows]
        if min(taken, default=-1) != first or len(set(taken)) < len(taken):
            continue
        found = Combined(ways, ())
        refused = [(v, row) for side, way in zip(sides, ways, strict=True) for row, v in zip(way.rows, way.variables, strict=True) if v in side.across and not _holds(rows, found, v, row)]
        if best is None or len(refused) < len(best.refused):
            best = Combined(ways, tuple(refused))
    return best


def _holds(rows: FrozenRows, found: Combined, variable: int, row: int) -> bool:
    logic, run, none = rows.question.conditions[variable], found.judged(variable, row), Run(row, 0)
    return comparisons.combined(logic, lambda number: rows.truth_between(number, row, run, none)) is True
