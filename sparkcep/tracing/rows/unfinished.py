"""The unfinished matches of traced rows, as the engine reports them.

Explanations of a clause with SHOW UNFINISHED MATCHES name them. The trace of a start row without a match knows its farthest run. It
does not know the clock, nor which start rows the engine leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sparkcep.clause.tree import NEXT_ROW
from sparkcep.engine.factory import match_table
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ALL_ROWS, EndedAt, Leaf, OfRun, Skip, Value
from sparkcep.tracing.conditions.question import ROW
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.rows.local_times import values_of
from sparkcep.tracing.rows.verify import LABEL, engine_plan, with_changes

MATCHED, OPEN, TIMED_OUT = "MATCHED", "OPEN", "TIMED OUT"
_START, _STATUS, _ENDED, _EXPECTED = "__l2", "__l3", "__l4", "__l5"


@dataclass(frozen=True)
class UnfinishedMatch:
    """The farthest run of a start row without a match.

    Attributes:
        start: its start row.
        rows, variables: its rows with their variables.
        status: its MATCH_STATUS().
        ended_at: its MATCH_ENDED_AT(), None without ORDER BY.
        expected: its MATCH_EXPECTED().
        inside: the start row of the reported unfinished match that this one begins in, so that it is not reported. Else None.
        reported: whether the clause reports it.
    """

    start: int
    rows: tuple[int, ...]
    variables: tuple[int, ...]
    status: str
    ended_at: Any
    expected: tuple[str, ...]
    inside: int | None = None
    reported: bool = True


def unfinished_matches(of: FrozenRows) -> dict[int, UnfinishedMatch]:
    """The unfinished matches by their start rows, and those that the clause leaves out. None without SHOW UNFINISHED MATCHES.

    MATCH_NUMBER() in DEFINE depends on AFTER MATCH SKIP. So of such a clause, unfinished matches inside other ones are not known.
    """
    plan = of.question.unfinished
    if plan is None or plan.unfinished is None:
        return {}
    if not of.is_whole:  # the engine does not see neighbours beyond the part
        known = with_changes(of.question, {}, None)
        plan = replace(plan, letters=known.letters, conditions=known.conditions, places=known.places)
    report, wanted = plan.unfinished.report, replace(engine_plan(plan), unfinished=plan.unfinished._replace(report="UNFINISHED"))
    found = {run.start: run for run in _searched(wanted, of)}
    runs = {start: replace(run, reported=report == "UNFINISHED" or run.status == TIMED_OUT) for start, run in found.items()}
    if plan.skip.mode != NEXT_ROW and not of.question.numbered:
        for run in _searched(replace(wanted, skip=Skip(NEXT_ROW, 0)), of):
            outer = next((other.start for other in found.values() if other.start < run.start <= other.rows[-1]), None)
            if run.start not in found and outer is not None:
                runs[run.start] = replace(run, inside=outer, reported=False)
    return runs


def _searched(plan: Plan, of: FrozenRows) -> Iterable[UnfinishedMatch]:
    """The engine's unfinished matches, by first row."""
    leaves = [*plan.leaves, Leaf(_START, Value("nav", "F", ALL_ROWS, 0, 0, ROW, False)), Leaf(_STATUS, OfRun("status")), Leaf(_EXPECTED, OfRun("expected"))]
    if plan.order:
        leaves.append(Leaf(_ENDED, EndedAt("ended", plan.order[0].column)))
    table = match_table(replace(plan, leaves=tuple(leaves)), of.table)
    ids = {name: i for i, name in enumerate(plan.variables)}
    ended = values_of(table[_ENDED], plan.zone) if plan.order else [None] * table.num_rows
    found: dict[int, UnfinishedMatch] = {}
    for start, row, label, status, expected, at in zip(*(table[name].to_pylist() for name in (_START, ROW, LABEL, _STATUS, _EXPECTED)), ended, strict=True):
        if status == MATCHED:
            continue
        before = found.get(start + of.first)
        rows, variables = ((), ()) if before is None else (before.rows, before.variables)
        found[start + of.first] = UnfinishedMatch(start + of.first, (*rows, row + of.first), (*variables, ids[label]), status, at, tuple(expected))
    return found.values()
