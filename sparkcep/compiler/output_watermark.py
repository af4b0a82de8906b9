"""What a clause over a stream passes on: the column of its output that has a watermark, and how far that is behind the input's.

Whatever keeps a state above a clause asks which times no further row of its input has. A match is told after its rows have come, so
its times are behind the watermark that decided it: by WINDOW at most, as a match is told once its window has ended.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import NamedTuple

from sparkcep.clause.tree import ONE_ROW
from sparkcep.compiler.emission import window_of
from sparkcep.compiler.searches import BUNDLED
from sparkcep.compiler.strategy import placed_strategy
from sparkcep.plan.options import MICROS
from sparkcep.plan.plan import Plan
from sparkcep.plan.reach import Reach


class Passed(NamedTuple):
    """The watermark of a clause's output.

    ``behind``: microseconds by which it is behind that of the rows; None where there is none, and ``why`` then says why.
    ``column``: the engine's column that has it, under the name ``name`` in the output; both are empty where no column has it.
    """

    behind: int | None
    why: str
    column: str
    name: str

    @property
    def milliseconds(self) -> int | None:
        """``behind`` in the unit in which Spark counts, so much at least."""
        return None if self.behind is None else -(-self.behind // 1000)


def passed(plan: Plan) -> Passed:
    """What is passed on to whatever keeps a state above a clause."""
    why = _why_none(plan)
    if why:
        return Passed(None, why, "", "")
    # of ALL MATCHES that share no row the one that completes first is known when the windows of all its rows have ended, and an
    # automaton's match has its number when the lives of all that end at its last row have; what ends at a row may wait for the
    # window that begins there, and a sliding window may be ranked when those of its rows have ended
    waits = plan.non_overlapping or (plan.automaton is not None and plan.automaton.expires and plan.numbered)
    emission = placed_strategy(plan).emission
    waits = waits or emission.looks_behind or (plan.slide is not None and emission.late)
    return Passed(ceil(Fraction(window_of(plan).size) * (2 if waits else 1)), "", *_time_column(plan))


def _why_none(plan: Plan) -> str:
    """Why nothing bounds how long a match of the clause may take; empty where something does."""
    if plan.changes is not None:
        return "REPORT CHANGES tells matches that it may take back"
    if plan.automaton is not None and plan.automaton.lifetime:
        return "by LIFETIME TO each row says itself how long a match may take"
    if window_of(plan).kind != MICROS:
        return "without WINDOW INTERVAL '...' a match may take any time"
    if placed_strategy(plan).question == BUNDLED:
        return "of MATCH BUNDLES the last match point may come long after the first"
    if plan.rows == "unmatched" and (plan.approximate is not None or plan.automaton is not None):
        return "a row WITH UNMATCHED ROWS of APPROX or AUTOMATON may be told long after its WINDOW"
    if Reach.of(plan).ahead:
        return "NEXT waits for further rows, whatever WINDOW is"
    return ""


def _time_column(plan: Plan) -> tuple[str, str]:
    """The engine's column with the times that have the watermark, and its name in the output: the first ORDER BY column of ALL
    ROWS, or the first measure that is FIRST or LAST of it; two empty texts where there is none."""
    if plan.rows != ONE_ROW:
        return plan.order[0].name, plan.order[0].name
    return next(((output.text, output.name) for output in plan.time_output()), ("", ""))
