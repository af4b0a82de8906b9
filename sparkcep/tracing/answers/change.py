"""The one comparison whose change at one row would make a match, confirmed by the engine."""

from __future__ import annotations

from dataclasses import dataclass

from sparkcep.errors import MatchRuntimeError
from sparkcep.tracing.conditions.comparisons import smallest_sets
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.rows.verify import changed_match
from sparkcep.tracing.search.runs import Ended
from sparkcep.tracing.search.trace import Match, Pattern, Search, Trace


@dataclass(frozen=True)
class Change:
    """A comparison that makes a match if it has another truth at one row.

    Attributes:
        comparison: its number.
        row: the row.
        truth: the truth that it needs.
        match: the match.
        engine: the variables of the engine's match, None without one.
    """

    comparison: int
    row: int
    truth: bool
    match: Match
    engine: tuple[int, ...] | None

    @property
    def verified(self) -> bool:
        """Whether the engine finds the match, too."""
        return self.engine == self.match.variables


def alone(rows: FrozenRows, variable: int, row: int, ended: Ended) -> list[tuple[int, bool]]:
    """The comparisons that alone would make a variable's condition true at the row where a run ended."""
    logic, run = rows.question.conditions[variable], ended.taken()
    found = smallest_sets(logic, lambda number: rows.known_truth(number, row, run))
    return [next(iter(changes)) for changes in found if len(changes) == 1]


def one_change(rows: FrozenRows, pattern: Pattern, search: Search, ended: Ended) -> Change | None:
    """The first comparison, in order of preference and of the text, whose change at the row where a run ended makes a match."""
    seen: set[int] = set()
    for option, reason in search.next(ended):
        if reason != "CONDITION" or option.variable in seen:
            continue
        seen.add(option.variable)
        for number, truth in alone(rows, option.variable, ended.row, ended):
            changed = {(number, ended.row): truth}
            found = Trace(pattern, rows, changed, search=False, max_steps=search.trace.max_steps).search(search.start, search.number).match
            if found is not None:
                try:
                    at = {(number, ended.row - rows.first): truth}
                    engine = changed_match(rows.question, rows.table, at, search.start - rows.first, search.number)
                except MatchRuntimeError:
                    continue  # the changed query fails
                return Change(number, ended.row, truth, found, engine)
    return None
