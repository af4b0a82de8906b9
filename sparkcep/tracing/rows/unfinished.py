"""The unfinished matches of traced rows, as the engine reports them.

Explanations of a clause with SHOW UNFINISHED MATCHES name them. The trace of a start row without a match knows its farthest run. It
does not know the clock, nor which start rows the engine leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from sparkcep.clause.tree import NEXT_ROW
from sparkcep.engine.factory import match_table
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ALL_ROWS, EndedAt, Leaf, OfRun, Skip, Value
from sparkcep.tracing.conditions.question import ROW
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.rows.local_times import values_of
from sparkcep.tracing.rows.verify import LABEL, engine_plan, with_changes

MATCHED, OPEN, TIMED_OUT = "MATCHED", "OPEN", "TIMED OUT"
EARLIER = -1  # instead of a start row before the first stored row
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
            :data:`EARLIER` if that row is not stored any more.
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


UnfinishedMatches: TypeAlias = dict[int, UnfinishedMatch]  # by their start rows


def unfinished_matches(of: FrozenRows) -> UnfinishedMatches:
    """The unfinished matches by their start rows, and those that the clause leaves out. None without SHOW UNFINISHED MATCHES.

    MATCH_NUMBER() in DEFINE depends on AFTER MATCH SKIP. So of such a clause, unfinished matches inside other ones are not known.
    """
    plan = of.question.unfinished
    if plan is None or plan.unfinished is None:
        return {}
    if not of.is_whole:  # the engine does not see neighbours beyond the part
        known = with_changes(of.question, {}, None)
        plan = replace(plan, letters=known.letters, conditions=known.conditions, places=known.places)
    table, first = of.table, of.first

    def searched(plan: Plan) -> UnfinishedMatches:
        matches = unfinished_in(plan, [match_table(with_ends(plan), table)], lambda times: values_of(times, plan.zone))
        return {start + first: replace(run, start=start + first, rows=tuple(row + first for row in run.rows)) for start, run in matches.items()}

    return with_hidden(plan, searched, numbered=of.question.numbered)


def with_hidden(plan: Plan, searched: Callable[[Plan], UnfinishedMatches], *, numbered: bool, covered: int = 0) -> UnfinishedMatches:
    """The unfinished matches that the engine reports, and those that the clause leaves out.

    Args:
        plan: the plan of the clause.
        searched: the engine's search with a plan.
        numbered: whether conditions read MATCH_NUMBER().
        covered: the row after earlier unfinished matches, which are reported.
    """
    shown = plan.unfinished
    assert shown is not None
    wanted = replace(plan, unfinished=shown._replace(report="UNFINISHED"))
    found = searched(wanted)
    runs = {start: replace(run, reported=shown.report == "UNFINISHED" or run.status == TIMED_OUT) for start, run in found.items()}
    if plan.skip.mode != NEXT_ROW and not numbered:
        for start, run in searched(replace(wanted, skip=Skip(NEXT_ROW, 0))).items():
            outer = next((other.start for other in found.values() if other.start < start <= other.rows[-1]), EARLIER if start < covered else None)
            if start not in found and outer is not None:
                runs[start] = replace(run, inside=outer, reported=False)
    return runs


def with_ends(plan: Plan) -> Plan:
    """The plan whose output :func:`unfinished_in` reads. Its input has the number of each row."""
    plan = engine_plan(plan)
    leaves = [*plan.leaves, Leaf(_START, Value("nav", "F", ALL_ROWS, 0, 0, ROW, False)), Leaf(_STATUS, OfRun("status")), Leaf(_EXPECTED, OfRun("expected"))]
    if plan.order:
        leaves.append(Leaf(_ENDED, EndedAt("ended", plan.order[0].column)))
    return replace(plan, leaves=tuple(leaves))


def unfinished_in(plan: Plan, tables: Iterable[pa.Table], times: Callable[[pa.ChunkedArray], Iterable[Any]]) -> UnfinishedMatches:
    """The unfinished matches in the output of :func:`with_ends`. ``times``: the values of MATCH_ENDED_AT()."""
    ids = {name: i for i, name in enumerate(plan.variables)}
    found: UnfinishedMatches = {}
    for table in tables:
        ended = times(table[_ENDED]) if _ENDED in table.column_names else [None] * table.num_rows
        for start, row, label, status, expected, at in zip(*(table[name].to_pylist() for name in (_START, ROW, LABEL, _STATUS, _EXPECTED)), ended, strict=True):
            if status == MATCHED:
                continue
            before = found.get(start)
            rows, variables = ((), ()) if before is None else (before.rows, before.variables)
            found[start] = UnfinishedMatch(start, (*rows, row), (*variables, ids[label]), status, at, tuple(expected))
    return found
