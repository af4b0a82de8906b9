"""Output watermark: which column of a clause's output over a stream has a watermark, and how far it lags the input's watermark.

Stateful operators above a clause need it, to know which times no future row of their input has. A match is emitted once its window
has closed. So its times are older than the watermark that made it final, but by no more than WINDOW.
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

    Attributes:
        behind: how far the output's watermark lags the input's, in microseconds. None without a watermark.
        why: the reason if the output lacks a watermark, else "".
        column: the engine's column that has the watermark, "" if no output column has it.
        name: the name of that column in the output, "" if no output column has it.
    """

    behind: int | None
    why: str
    column: str
    name: str

    @property
    def milliseconds(self) -> int | None:
        """``behind`` in Spark's unit, rounded up."""
        return None if self.behind is None else -(-self.behind // 1000)


def passed(plan: Plan) -> Passed:
    """The watermark that a clause passes on to stateful operators above it."""
    why = _why_none(plan)
    if why:
        return Passed(None, why, "", "")
    # Some matches are final only after a second WINDOW. Among ALL MATCHES that share no row, the first one to complete is known
    # when the windows of all its rows have closed. A numbered match of an automaton with ON EXPIRY waits for the lives of all
    # matches that end at its last row. A negation after the match may wait for the window that begins at the last row. A sliding
    # window may be ranked only after the windows of its rows have closed.
    waits = plan.non_overlapping or (plan.automaton is not None and plan.automaton.expires and plan.numbered)
    emission = placed_strategy(plan).emission
    waits = waits or emission.looks_behind or (plan.slide is not None and emission.late)
    return Passed(ceil(Fraction(window_of(plan).size) * (2 if waits else 1)), "", *_time_column(plan))


def _why_none(plan: Plan) -> str:
    """Why nothing bounds how long a match of the clause may take, "" if something does."""
    if plan.changes is not None or (plan.ranking is not None and plan.ranking.changes is not None):
        return "REPORT CHANGES may retract a match later"
    if plan.automaton is not None and plan.automaton.lifetime:
        return "with LIFETIME TO each row says how long a match may take"
    if window_of(plan).kind != MICROS:
        return "without WINDOW INTERVAL '...' a match may take any time"
    if placed_strategy(plan).question == BUNDLED:
        return "the last match point of a bundle may come long after the first"
    if plan.rows == "unmatched" and (plan.approximate is not None or plan.automaton is not None):
        return "WITH UNMATCHED ROWS of APPROX or AUTOMATON may emit a row long after its WINDOW"
    if Reach.of(plan).ahead:
        return "NEXT waits for future rows, regardless of WINDOW"
    return ""


def _time_column(plan: Plan) -> tuple[str, str]:
    """The engine's column with the times of the watermark, and its name in the output.

    This is the first ORDER BY column for ALL ROWS, or the first measure that is FIRST or LAST of that column. ("", "") if there is
    none.
    """
    if plan.rows != ONE_ROW:
        return plan.order[0].name, plan.order[0].name
    return next(((output.text, output.name) for output in plan.time_output()), ("", ""))
