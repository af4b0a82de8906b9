"""The sides of ``p & q``, each searched by itself.

The engine searches the whole pattern. A side alone is a pattern without ``&``, which is traced and verified like any other. If
``&`` is inside a larger pattern, the side alone has the rest of the pattern around it: ``G (p & q) H`` has the sides ``G p H`` and
``G q H``. A comparison that reads rows of another side is judged by rows of all sides, and the side alone leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, islice, product
from math import prod

from sparkcep.clause.tree import NEXT_ROW
from sparkcep.engine.factory import prepare
from sparkcep.plan.facts import nullable
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ALL_ROWS, Repeat, Selection, Skip, Within, has, walk
from sparkcep.tracing.conditions import comparisons
from sparkcep.tracing.conditions.comparisons import is_conjunction, numbers
from sparkcep.tracing.conditions.question import Question
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.rows.verify import Difference, compared, engine_plan, matches_changed
from sparkcep.tracing.search.runs import Run
from sparkcep.tracing.search.trace import Effort, Match, Trace

MOST_WAYS = 50  # matches of a side that are combined
MOST_SIDES = 8
MOST_COMBINED = 2_000  # combinations that are tried


@dataclass(frozen=True)
class Side:
    """A side of ``&`` by itself.

    Attributes:
        variables: its variables.
        rows: the rows, with the question about the side.
        trace: the first match of each start row.
        across: the variables whose conditions read other sides.
        partial: the variables outside of ``&`` whose conditions the side alone leaves out in part.
    """

    variables: frozenset[int]
    rows: FrozenRows
    trace: Trace
    across: frozenset[int]
    partial: frozenset[int] = frozenset()

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
        return self._run(lambda at, label: label != variable or at < row)

    def before(self, row: int) -> Run:
        """The rows that a condition outside of ``&`` sees: all rows before its own."""
        return self._run(lambda at, label: at < row)

    def _run(self, sees: Callable[[int, int], bool]) -> Run:
        pairs = sorted({(at, label) for way in self.ways for at, label in zip(way.rows, way.variables, strict=True)})
        seen = [(at, label) for at, label in pairs if sees(at, label)]
        return Run.of(pairs[0][0], 0, [label for _, label in seen], [at for at, _ in seen])


def has_sides(plan: Plan) -> bool:
    """Whether the pattern has ``&``."""
    return any(part[0] == "and" for part in walk(plan.pattern))


def sides_of(rows: FrozenRows, max_steps: int) -> tuple[Side, ...]:
    """The sides of a pattern with ``&``; none if there are too many."""
    plan = rows.question.plan
    trees = projections(plan.pattern)
    if len(trees) > MOST_SIDES:
        return ()
    prepared = prepare(engine_plan(plan), rows.table.schema)
    mask = prepared.strategy.automaton.across(prepared.conditions)
    outside = frozenset(variables_of(plan.pattern)) - frozenset(v for part in walk(plan.pattern) if part[0] == "and" for v in variables_of(part))
    return tuple(_side(rows, tree, mask, outside, max_steps) for tree in trees)


def projections(tree: tuple) -> list[tuple]:
    """The patterns that are left of a pattern if one side of each ``&`` is chosen. Each side is in one of them."""
    if not any(part[0] == "and" for part in walk(tree)):
        return [tree]
    if tree[0] == "and":
        return [found for side in tree[1:] for found in projections(side)]
    if isinstance(tree, Repeat | Within):
        return [tree._replace(item=found) for found in projections(tree.item)]
    parts = [projections(part) for part in tree[1:]]
    first = [found[0] for found in parts]
    varied = [(tree[0], *first[:i], one, *first[i + 1 :]) for i, found in enumerate(parts) for one in found if len(found) > 1]
    return list(dict.fromkeys(varied))


def begins_outside(tree: tuple) -> bool:
    """Whether each match begins with a row outside of ``&``, so that all sides begin there."""
    while isinstance(tree, Within) or tree[0] == "exclude":
        tree = tree.item if isinstance(tree, Within) else tree[1]
    return tree[0] == "cat" and not any(part[0] in ("and", "not") for part in walk(tree[1])) and not nullable(tree[1])


def combines(tree: tuple) -> bool:
    """Whether matches of the sides can be put together: no ``&`` is repeated or one of several branches, and variables differ."""
    if isinstance(tree, Within):
        return combines(tree.item)
    if not any(part[0] == "and" for part in walk(tree)):
        return True
    places = variables_of(tree)
    return tree[0] in ("and", "cat", "exclude") and len(places) == len(set(places)) and all(map(combines, tree[1:]))


def variables_of(tree: tuple) -> list[int]:
    """The variables of a pattern that take rows, one for each place."""
    return [part[1] for part in walk(tree) if part[0] == "var"]


def _side(rows: FrozenRows, tree: tuple, mask: int, outside: frozenset[int], max_steps: int) -> Side:
    question = rows.question
    plan = question.plan
    groups = {part[1] for part in walk(tree) if part[0] == "not"}
    variables = frozenset(variables_of(tree))
    across = frozenset(variable for variable in variables if mask >> variable & 1)
    conditions, partial = dict(question.conditions), set()
    for variable in [*across, *(outside & variables & conditions.keys())]:
        logic = conditions[variable]
        known = [n for n in numbers(logic) if _is_known(question, n, frozenset() if variable in across else variables)]
        if variable not in across and len(known) == len(set(numbers(logic))):
            continue
        if variable not in across:
            partial.add(variable)
        conditions.pop(variable)
        if is_conjunction(logic) and known:
            conditions[variable] = ("and", *(("comparison", n) for n in known))
    assert plan.selection is not None
    alone = replace(
        plan, pattern=tree, skip=Skip(NEXT_ROW, 0), selection=Selection(plan.selection.strategy, "FIRST"),
        without=tuple(group for group in plan.without if group.variable in groups),
    )  # fmt: skip
    asked: Question = replace(question, plan=alone, conditions=conditions)
    frozen = FrozenRows(asked, rows.table)
    return Side(variables, frozen, Trace(frozen.pattern(), frozen, max_steps=max_steps), across, frozenset(partial))


def _is_known(question: Question, number: int, variables: frozenset[int]) -> bool:
    """Whether a comparison reads rows alone, or only rows of some variables."""
    value = question.values[question.comparisons[number].truth]
    if value.column:
        return True
    tree = question.probes[value.probe][1]
    mask = sum(1 << variable for variable in variables)
    if has(tree, "mno", "pair") or any(part[0] == "cls" and part.physical for part in walk(tree)):
        return False
    return all(part.mask != ALL_ROWS and not part.mask & ~mask for part in walk(tree) if hasattr(part, "mask"))


def best_combined(rows: FrozenRows, sides: tuple[Side, ...], first: int, stop: int) -> tuple[Combined | None, bool]:
    """The matches of all sides that begin at a row together, with the fewest conditions of several sides that do not hold.

    Rows outside of ``&`` are the same in all sides. None if there are none. Also whether all matches of the sides were tried.
    Raises Effort if a side has too many matches.
    """
    lists = [list(islice(side.ways(first, stop), MOST_WAYS + 1)) for side in sides]
    is_whole = max(map(len, lists)) <= MOST_WAYS and prod(map(len, lists)) <= MOST_COMBINED
    lists = [found[:MOST_WAYS] for found in lists]
    best: Combined | None = None
    for ways in islice(product(*lists), MOST_COMBINED):
        if min((row for way in ways for row in way.rows), default=-1) != first or not _fit(sides, ways):
            continue
        found = Combined(ways, ())
        taken = {(v, row): side for side, way in zip(sides, ways, strict=True) for row, v in zip(way.rows, way.variables, strict=True)}
        refused = [(v, row) for (v, row), side in taken.items() if v in side.across | side.partial and not _holds(rows, found, v, row, across=v in side.across)]
        if best is None or len(refused) < len(best.refused):
            best = Combined(ways, tuple(refused))
    return best, is_whole


def _fit(sides: tuple[Side, ...], ways: tuple[Match, ...]) -> bool:
    """Whether matches of the sides have equal rows outside of ``&``, and no other row in common."""
    for (i, one), (j, other) in combinations(enumerate(ways), 2):
        shared = sides[i].variables & sides[j].variables
        pairs = [{(row, v) for row, v in zip(way.rows, way.variables, strict=True) if v in shared} for way in (one, other)]
        if pairs[0] != pairs[1] or len(set(one.rows) & set(other.rows)) != len(pairs[0]):
            return False
    return True


def _holds(rows: FrozenRows, found: Combined, variable: int, row: int, *, across: bool) -> bool:
    logic, none = rows.question.conditions[variable], Run(row, 0)
    if across:
        run = found.judged(variable, row)
        return comparisons.combined(logic, lambda number: rows.truth_between(number, row, run, none)) is True
    run = found.before(row)
    return comparisons.combined(logic, lambda number: rows.truth(number, row, run)) is True
