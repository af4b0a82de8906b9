"""Matches that AFTER MATCH SKIP passes over."""

from __future__ import annotations

from sparkcep.clause.tree import NEXT_ROW
from sparkcep.tracing.search.trace import Match, Trace


def lost(trace: Trace, row: int, variable: int | None = None, *, numbered: bool) -> Match | None:
    """The first match with a row that only AFTER MATCH SKIP TO NEXT ROW reports, from a row that an earlier match passed over.

    Args:
        trace: the trace.
        row: the row.
        variable: the variable of the row, by default any.
        numbered: whether conditions read MATCH_NUMBER(), so that earlier matches count.
    """

    def has(match: Match) -> bool:
        return row in match.rows and variable in (None, match.variable_at(row))

    if trace.pattern.reports_all:
        reported, searches = {match.found for match in trace.matches}, (trace.searches[start] for start in range(trace.rows.first, row + 1))
        return next((match for search in searches for match in search.matches if has(match) and match.found not in reported), None)
    starts = [start for start in range(trace.rows.first, row + 1) if start not in trace.searches]
    if not starts:
        return None
    if numbered:
        found = iter(Trace(trace.pattern, trace.rows, max_steps=trace.max_steps, skip=(NEXT_ROW, 0)).matches)
    else:
        again = Trace(trace.pattern, trace.rows, max_steps=trace.max_steps, search=False)
        found = (match for start in starts for match in again.search(start, 1).matches)
    return next((match for match in found if match.start not in trace.searches and has(match)), None)
