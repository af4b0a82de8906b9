"""Explains approximate matches: the errors of a match, and the fewest errors of a match with a row (LANGUAGE section 5).

The trace explains the exact matches. The engine then searches with more errors allowed. What it finds with the clause's own k must
be the same each time, or nothing is explained.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.extend.approx import ALL, BUNDLES, PER_ERROR
from sparkcep.plan.facts import least
from sparkcep.plan.plan import Plan
from sparkcep.tracing.answers.answer import Why
from sparkcep.tracing.answers.differs import unconfirmed
from sparkcep.tracing.answers.explain import Asked
from sparkcep.tracing.answers.reasons import Reason
from sparkcep.tracing.answers.values import and_more, counted, no_match, row_spans
from sparkcep.tracing.forms.lines import indented
from sparkcep.tracing.kinds.explainer import Explainer
from sparkcep.tracing.kinds.listing import Compute, Listed, beyond_limits, listed
from sparkcep.tracing.kinds.ranked import NOT_TRACED, as_variables, errors_text, score_text, without_ranking
from sparkcep.tracing.rows.frozen import FrozenRows

MORE = 2  # further errors that are tried
MOST_SHOWN = 3  # match points that are shown
_REPORTS = {
    PER_ERROR: "PROXY MATCHES PER ERROR reports for each match point and number of errors the latest start, then the earliest rows",
    BUNDLES: "MATCH BUNDLES reports the match with the fewest errors of each bundle, then the latest start",
    "PROXY": "PROXY MATCHES reports for each match point the fewest errors, then the latest start, then the earliest rows",
}


class _Differs(Exception):
    """Two searches of the engine differ."""


def explain_approximate(rows: FrozenRows, asked: Asked, compute: Compute, *, redact: str, max_steps: int) -> Why:
    """Answers a question about the rows of one partition under APPROX.

    Args:
        rows: the frozen rows.
        asked: the question.
        compute: computes scores, for PREF.
        redact: "", "values" or "all".
        max_steps: how many steps a start row may take in the trace.

    Raises:
        ClauseError: the question names a match or a variable that does not exist; the exact search cannot be traced.
        MatchRuntimeError: the query fails for these rows.
    """
    try:
        return _Approximate(rows, asked, compute, redact, max_steps).answer()
    except _Differs:
        return unconfirmed(rows, asked.words)


def with_errors(plan: Plan, more: int, report: str | None = None) -> Plan:
    """The plan with further errors allowed, without ranking."""
    assert plan.approximate is not None
    approx = plan.approximate
    changed = approx._replace(bound=approx.bound + more * approx.scale, report=report or approx.report)
    return without_ranking(replace(plan, approximate=changed))


def allows(plan: Plan, more: int) -> bool:
    """Whether further errors are fewer than missing a whole shortest match."""
    approx = plan.approximate
    assert approx is not None
    return approx.bound + more * approx.scale < least(plan.pattern, lambda variable: approx.missing[variable], sum)


def errors_allowed(plan: Plan, more: int = 0) -> str:
    """k of APPROX as text, with further errors."""
    approx = plan.approximate
    assert approx is not None
    return f"{(approx.bound + more * approx.scale) / approx.scale:g}"


class _Approximate(Explainer):
    def __init__(self, rows: FrozenRows, asked: Asked, compute: Compute, redact: str, max_steps: int) -> None:
        super().__init__(rows, asked, redact, max_steps)
        self.compute = compute
        (self.reported,) = listed(self.plan, [rows.table], compute)
        self.all: list[Listed] | None = None

    # -- searches -------------------------------------------------------------------------------------------

    def listed(self, more: int) -> list[Listed]:
        """All matches with further errors allowed."""
        (found,) = listed(with_errors(self.plan, more, ALL), [self.rows.table], self.compute)
        if self.all is None:
            self.all = found if not more else self.listed(0)
            if not {match.labelled for match in self.reported} <= {match.labelled for match in self.all}:
                raise _Differs
        known = {match.labelled: match.errors for match in self.all}
        allowed = float(errors_allowed(self.plan))
        if {match.labelled: match.errors for match in found if match.errors <= allowed} != known:
            raise _Differs
        return found

    # -- a row ----------------------------------------------------------------------------------------------

    def at(self, row: int) -> list[str]:
        """The answer for one row."""
        wanted = self.wanted if self.asked.match is None else None
        head = self.names.head(row)
        inside = [(number, match) for number, match in enumerate(self.reported, 1) if match.has(row, wanted)]
        where = "in " + and_more(inside, MOST_SHOWN, lambda found: f"match {found[0]} {as_variables(found[1], row, self.question)}")
        if self.asked.match is not None:
            match = self.numbered(self.asked.match)
            if row in match.rows:
                return [f"{head} is in match {self.asked.match} {as_variables(match, row, self.question)}.", *self.described(self.asked.match, match)]
            first = f"{head} is not in match {self.asked.match}, which takes {row_spans(match.rows)}: {self.names.labels(match.variables)} ({self.errors(match)})."
            return [first, f"It is {where}."] if inside else [first, *self.others(row, None)]
        if inside:
            return [f"{head} is {where}.", *(line for number, match in inside[:MOST_SHOWN] for line in self.described(number, match))]
        first = f"{head} is in no match." if wanted is None else f"{head} is not {self.question.name(wanted)} in a match."
        return [first, *self.others(row, wanted)]

    def errors(self, match: Listed) -> str:
        return errors_text(match, self.question.plan.variables)

    def others(self, row: int, wanted: int | None) -> list[str]:
        """The matches with the row that are not reported, or the fewest further errors that give one."""
        allowed = errors_allowed(self.plan)
        try:
            found = [match for match in self.listed(0) if match.has(row, wanted)]
        except MatchRuntimeError as error:
            return [self.effort(row, allowed, error)]
        if found:
            return self.unreported(row, found)
        lines = [f"No match with at most {allowed} error{'' if allowed == '1' else 's'} has the row{'' if wanted is None else f' as {self.question.name(wanted)}'}."]
        lines += self.more(row, wanted)
        return lines + self.exact(row)

    def more(self, row: int, wanted: int | None) -> list[str]:
        """The match with the row that further errors allow."""
        for more in range(1, MORE + 1):
            allowed = errors_allowed(self.plan, more)
            if not allows(self.plan, more):
                before = "" if more == 1 else f"APPROX {errors_allowed(self.plan, more - 1)} does not find a match with the row, either. "
                return [f"{before}APPROX {allowed} is not allowed: all rows of a shortest match could be missing."]
            try:
                found = [match for match in self.listed(more) if match.has(row, wanted)]
            except MatchRuntimeError as error:
                return [self.effort(row, allowed, error)]
            if found:
                best = min(found, key=_order)
                return [f"Found with APPROX {allowed}: {self.names.match(best)}, {self.errors(best)}."]
        return [f"APPROX {errors_allowed(self.plan, MORE)} does not find a match with the row, either."]

    def exact(self, row: int) -> list[str]:
        """Why the row is in no exact match, by the trace."""
        if self.question.untraced is not None:
            return [NOT_TRACED.format(self.question.untraced.message)]
        return ["The exact search:", *map(indented, self.explained(row))]

    def effort(self, row: int, allowed: str, error: MatchRuntimeError) -> str:
        if not beyond_limits(error):
            raise error
        self.reasons.append(Reason("EFFORT", row + 1))
        return f"Listing the matches with APPROX {allowed} takes too much work. Add a WINDOW, or ask about a smaller partition."

    def unreported(self, row: int, found: Sequence[Listed]) -> list[str]:
        """Why matches with the row are not reported."""
        assert self.plan.approximate is not None
        report = self.plan.approximate.report
        points: dict[int, list[Listed]] = {}
        for match in found:
            points.setdefault(match.rows[-1], []).append(match)
        lines = [f"{counted(len(found), 'match')} with the row {'is' if len(found) == 1 else 'are'} not reported. {_REPORTS[report]}:"]
        for point, some in list(points.items())[:MOST_SHOWN]:
            best = min(some, key=_order)
            self.reasons.append(Reason("PREFERRED", row + 1, best.rows[0] + 1))
            lines.append(f"  match point {self.names.row(point)}: {self.names.match(best)}, {self.errors(best)}")
            lines += [f"    reported: {self.names.match(other)}, {self.errors(other)}" for other in self.instead(report, point)]
        if len(points) > MOST_SHOWN:
            lines.append(f"  and {counted(len(points) - MOST_SHOWN, 'match point')} more")
        return lines

    def instead(self, report: str, point: int) -> Iterable[Listed]:
        """The reported matches of a match point; with bundles that of the bundle, which ends elsewhere."""
        own = [match for match in self.reported if match.rows[-1] == point]
        return own or (sorted(self.reported, key=lambda match: abs(match.rows[-1] - point))[:1] if report == BUNDLES else [])

    # -- a match --------------------------------------------------------------------------------------------

    def numbered(self, number: int) -> Listed:
        """A match by its number. Raises ClauseError if there is none."""
        if not 1 <= number <= len(self.reported):
            raise no_match(number, len(self.reported))
        return self.reported[number - 1]

    def match(self, number: int) -> list[str]:
        """The rows, variables and errors of a match."""
        return self.described(number, self.numbered(number), self.names.of_partition)

    def described(self, number: int, match: Listed, of: str = "") -> list[str]:
        lines = [f"Match {number}{of} takes {row_spans(match.rows)}: {self.names.labels(match.variables)} ({self.errors(match)})."]
        if self.plan.ranking is not None:
            lines.append(f"  It has score {score_text(self.names, match)}.")
        return lines


def _order(match: Listed) -> tuple[float, int, tuple[int, ...]]:
    """The order of PROXY MATCHES."""
    return match.errors, -match.rows[0], match.rows
