"""The one comparison whose change at one row would make a match, confirmed by the engine."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from sparkcep.errors import MatchRuntimeError
from sparkcep.tracing.conditions.comparisons import MOST_SETS, smallest_sets
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.rows.verify import changed_matches
from sparkcep.tracing.search.runs import Ended
from sparkcep.tracing.search.trace import Found, Match, Pattern, Search, Trace


@dataclass(frozen=True)
class Change:
    """A comparison that makes a match if it has another truth at one row.

    Attributes:
        comparison: its number.
        row: the row.
        truth: the truth that it needs.
        match: the match.
        engine: the engine's match, the traced one if it has several. None without one.
    """

    comparison: int
    row: int
    truth: bool
    match: Match
    engine: Found | None

    @property
    def verified(self) -> bool:
        """Whether the engine finds the match, too."""
        return self.engine == self.match.found


def alone(rows: FrozenRows, variable: int, row: int, ended: Ended) -> list[tuple[int, bool]]:
    """The comparisons that alone would make a variable's condition true at the row where a run ended."""
    logic, run = rows.question.conditions[variable], ended.seen(variable in rows.question.looks)
    found = smallest_sets(logic, lambda number: rows.known_truth(number, row, run))
    return [next(iter(changes)) for changes in found if len(changes) == 1]


@dataclass(frozen=True)
class Spot:
    """A variable that could have come after a run, and the row whose refusal is the closest one.

    Attributes:
        variable: the variable.
        row: of the rows that its condition refuses, the first one with the fewest comparisons to change.
        refused: how many rows its condition refuses.
    """

    variable: int
    row: int
    refused: int


def closest(rows: FrozenRows, search: Search, ended: Ended, most: int | None = None) -> list[Spot]:
    """The variables that a condition refused after a run, in order of preference, each with its closest row.

    ``most``: the most rows after the run that are looked at.
    """
    refused: dict[int, list[int]] = {}
    for node, option in search.beyond(ended):
        if option.kind == "row" and option.variable not in refused:
            found = [row for row in islice(search.later(node), most) if search.refused(node, option, row) == "CONDITION"]
            if found:
                refused[option.variable] = found
    run = ended.seen(any(len(found) > 1 and variable in rows.question.looks for variable, found in refused.items()))

    def missing(variable: int, row: int) -> int:
        sets = smallest_sets(rows.question.conditions[variable], lambda number: rows.known_truth(number, row, run))
        return len(sets[0]) if sets else MOST_SETS

    return [Spot(variable, found[0] if len(found) == 1 else min(found, key=lambda row: missing(variable, row)), len(found)) for variable, found in refused.items()]


def one_change(rows: FrozenRows, pattern: Pattern, search: Search, ended: Ended) -> Change | None:
    """The first comparison, in order of preference and of the text, whose change at the row where a run ended makes a match.

    If rows may be passed over, it is the closest row of each variable.
    """
    for spot in closest(rows, search, ended):
        for number, truth in alone(rows, spot.variable, spot.row, ended):
            changed = {(number, spot.row): truth}
            found = Trace(pattern, rows, changed, search=False, max_steps=search.trace.max_steps).search(search.start, search.number).match
            if found is not None:
                try:
                    at = {(number, spot.row - rows.first): truth}
                    engine = [one.moved(rows.first) for one in changed_matches(rows.question, rows.table, at, search.start - rows.first, search.number)]
                except MatchRuntimeError:
                    continue  # the changed query fails
                own = found.found  # the engine may list ALL MATCHES in another order
                return Change(number, spot.row, truth, found, own if own in engine else next(iter(engine), None))
    return None
