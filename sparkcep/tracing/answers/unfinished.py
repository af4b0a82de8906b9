"""Writes which unfinished match a start row has, which one a row is in, and how many there are, under SHOW UNFINISHED MATCHES."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Unfinished, has
from sparkcep.tracing.answers.answer import ShownUnfinished
from sparkcep.tracing.answers.values import counted, row_spans
from sparkcep.tracing.rows.unfinished import MATCHED, OPEN, UnfinishedMatch
from sparkcep.tracing.search.runs import Ended

_LAST = "last row"  # the head of a column


class Words(Protocol):
    """Writes variables and times, as :class:`sparkcep.tracing.answers.values.Names` does."""

    plan: Plan

    def name(self, variable: int) -> str: ...

    def labels(self, variables: Sequence[int]) -> str: ...

    def moment(self, at: Any) -> str: ...


class UnfinishedText:
    """The sentences about the unfinished matches of a partition. There are none if the clause does not show them.

    Attributes:
        matches: the unfinished matches by their start rows.
        named: those that sentences named.
    """

    verb, verbs = "return", "returns"

    def __init__(self, names: Words, option: Unfinished | None, matches: Mapping[int, UnfinishedMatch]) -> None:
        self.names, self.matches = names, matches
        self.named: dict[int, ShownUnfinished] = {}
        self.what = f"SHOW {option.report} MATCHES" if option is not None else ""

    def differs(self, ended: Ended) -> UnfinishedMatch | None:
        """The unfinished match of a start row, if it is not the traced run and no rule allows that.

        Open runs come first, and a complete run that a negation forbids is not unfinished.
        """
        match = self.matches.get(ended.start)
        allowed = match is None or self._is(match, ended) or match.status == OPEN or has(self.names.plan.pattern, "not")
        return None if allowed else match

    def of_start(self, ended: Ended) -> list[str]:
        """The sentences about the start row of the farthest run: what the clause returns for it."""
        if not self.what:
            return []
        match = self.matches.get(ended.start)
        if match is None:
            return [f"{self.what} returns nothing for this start row: {self._nothing(ended)}."] if ended.places else []
        same = self._is(match, ended)
        if match.inside is not None:
            outer = self.matches[match.inside]
            return [self._hidden(match, f"the unfinished match of {self._run(outer)}", same=same)]
        returns = f"{self.what} {self.verbs if match.reported else f'does not {self.verb}'}"
        if same:
            return [f"{returns} this run: {self._ends(match)}."]
        why = "an open run comes first" if match.status == OPEN else "a complete run that a negation forbids is not unfinished"
        return [f"{returns} another run of this start row, because {why}: {self._run(match)}, {self._ends(match)}."]

    def of_row(self, row: int, subject: str = "It") -> list[str]:
        """The unfinished match that the clause returns and that has the row after its first one. ``subject``: the row as text."""
        inside = [match for match in self.matches.values() if match.reported and match.start < row and row in match.rows]
        if not inside:
            return []
        match = inside[0]
        name = self.names.name(match.variables[match.rows.index(row)])
        others = len(inside) - 1
        more = f" {counted(others, 'more unfinished match')} {'have' if others > 1 else 'has'} the row." if others else ""
        return [f"{subject} is {name} in the unfinished match of {self._run(match)}: {self._ends(match)}.{more}"]

    def _hidden(self, match: UnfinishedMatch, outer: str, *, same: bool) -> str:
        """The sentence about a run inside another one. ``same``: whether it is the run that the answer is about."""
        self._name(match)
        which = "this run" if same else "a run of this start row"
        return f"{self.what} does not {self.verb} {which}, because row {match.start + 1} is inside {outer}. AFTER MATCH SKIP TO NEXT ROW {self.verbs} both."

    def _is(self, match: UnfinishedMatch, ended: Ended) -> bool:
        return (match.rows, match.variables) == (ended.rows, ended.variables)

    def _run(self, match: UnfinishedMatch) -> str:
        self._name(match)
        return f"{row_spans(match.rows)} ({self.names.labels(match.variables)})"

    def _name(self, match: UnfinishedMatch) -> ShownUnfinished:
        if match.start not in self.named:
            variables = tuple(self.names.name(variable) for variable in match.variables)
            at = "" if match.ended_at is None else self.names.moment(match.ended_at)
            rows = tuple(row + 1 for row in match.rows)
            self.named[match.start] = ShownUnfinished(match.start + 1, rows, variables, match.status, at, match.expected, match.reported)
        return self.named[match.start]

    def _ends(self, match: UnfinishedMatch) -> str:
        """Its status, when it ended, and what should come next."""
        shown = self._name(match)
        at = f" at {self.names.plan.order[0].name} {shown.ended_at}" if shown.ended_at else ""
        expected = f", expected {' or '.join(match.expected)}" if match.expected else ""
        return f"{match.status}{at}{expected}"

    def _nothing(self, ended: Ended) -> str:
        """Why the clause returns nothing for a start row with a run."""
        outer = next((match for match in self.matches.values() if match.start < ended.start <= match.rows[-1]), None)
        if outer is not None:  # MATCH_NUMBER() in DEFINE, so that the run itself is not known
            return f"it is inside the unfinished match of {self._run(outer)}"
        return "a complete run that a negation forbids is not unfinished"


def unfinished_counts(shown: Unfinished, counts: Sequence[tuple[str, str, int]]) -> Iterator[str]:
    """The lines with the numbers of matches and unfinished matches.

    Args:
        shown: the option.
        counts: MATCH_STATUS(), the variable of the last row, and how many matches have both.
    """
    matches = sum(count for status, _, count in counts if status == MATCHED)
    by: dict[tuple[str, str], int] = {(step, status): count for status, step, count in counts if status != MATCHED}
    yield f"SHOW {shown.report} MATCHES returns {counted(matches, 'match')} and {counted(sum(by.values()), 'unfinished match')}, over all rows{':' if by else '.'}"
    statuses, width = sorted({status for _, status in by}), max(len(step) for step in (_LAST, *(step for step, _ in by)))
    if by:
        yield f"  {_LAST:<{width}}  {'  '.join(statuses)}"
    for step in sorted({step for step, _ in by}):
        yield f"  {step:<{width}}  " + "  ".join(f"{by.get((step, status), 0):>{len(status)},}" for status in statuses)
