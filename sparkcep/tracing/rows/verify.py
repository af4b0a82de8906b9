"""Compares a trace with the engine's own search over the traced rows. A wrong trace is not explained.

A change is verified in the same way: the engine searches with each comparison as a column or a tree, and with the changed truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sparkcep.clause.tree import NEXT_ROW, SHOW_EMPTY
from sparkcep.engine.factory import match_table
from sparkcep.plan.facts import shown
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ALL_ROWS, Classifier, Condition, Here, Leaf, Lit, Plain, Skip
from sparkcep.tracing.conditions.comparisons import Logic
from sparkcep.tracing.conditions.question import ROW, Question
from sparkcep.tracing.search.trace import Changed, Found, Match, Trace

NUMBER, LABEL = "__l0", "__l1"
_LITERALS = {True: Lit("lit", "bool", "TRUE"), False: Lit("lit", "bool", "FALSE"), None: Lit("lit", "null", "NULL")}


@dataclass(frozen=True)
class Difference:
    """A match that only one of the two searches has, and which one: ``trace`` or ``engine``."""

    match: Found
    by: str


def engine_plan(plan: Plan) -> Plan:
    """The plan that returns each row of each match with MATCHNUMBER() and CLASSIFIER()."""
    leaves = (Leaf(NUMBER, Plain("mno")), Leaf(LABEL, Classifier("cls", "L", ALL_ROWS, 0, 0, False)))
    return replace(
        plan, rows=SHOW_EMPTY, leaves=leaves, outputs=(), arrays=(), aggregates=(), over_arrays=(), leaf_places=(), pattern=shown(plan.pattern), prefilter=(),
        candidates=(), near=False,
    )  # fmt: skip


def matches_of(plan: Plan, table: pa.Table) -> list[Found]:
    """The engine's matches, in order."""
    return matches_in(plan, [match_table(engine_plan(plan), table)])


def matches_in(plan: Plan, tables: Iterable[pa.Table]) -> list[Found]:
    """The matches in the output of :func:`engine_plan`."""
    ids = {name: i for i, name in enumerate(plan.variables)}
    matches: dict[int, list[tuple[int, str | None]]] = {}
    for found in tables:
        for number, row, label in zip(*(found[name].to_pylist() for name in (NUMBER, ROW, LABEL)), strict=True):
            matches.setdefault(number, []).append((row, label))
    return [
        Found(rows[0][0], tuple(ids[label] for _, label in rows if label is not None), tuple(row for row, label in rows if label is not None))
        for _, rows in sorted(matches.items())
    ]


def traced(trace: Trace) -> list[Found]:
    """The matches of a trace, in order."""
    return [match.found for match in trace.matches]


def compared(trace: Trace, engine: Sequence[Found]) -> list[Difference]:
    """The matches that only a trace or only the engine has.

    Under ALL MATCHES an ambiguous pattern finds a match in several ways, so that its number depends on the search. There the trace
    takes the engine's numbers.
    """
    ours = trace.matches
    if trace.given_up:
        if trace.pattern.reports_all:
            engine = [match for match in engine if ours and match.start < max(trace.searches)]
        else:
            engine = engine[: len(ours)]
    if trace.pattern.reports_all:
        place = {match: i for i, match in enumerate(engine)}
        trace.number(sorted(ours, key=lambda match: place.get(match.found, len(place))))
    return differences(trace.matches, engine)


def differences(traced: Sequence[Match], engine: Sequence[Found]) -> list[Difference]:
    """The matches that only one of two searches has. If the searches differ only in order, both lists whole."""
    ours = [match.found for match in traced]
    if ours == list(engine):
        return []
    only = [Difference(match, by) for by, one, other in (("trace", ours, engine), ("engine", engine, ours)) for match in one if match not in other]
    return only or [Difference(match, by) for by, one in (("trace", ours), ("engine", engine)) for match in one]


def changed_matches(question: Question, frozen: pa.Table, changed: Changed, start: int, number: int) -> list[Found]:
    """The matches that the engine finds at a start row if comparisons are changed.

    The engine searches from every row. ``number`` takes the place of MATCHNUMBER().
    """
    plan = with_changes(question, changed, number)
    table = frozen
    for (comparison, row), _ in changed.items():
        if row is not None:
            here = pa.array([i == row for i in range(frozen.num_rows)], pa.bool_())
            table = table.append_column(f"__at{comparison}", here)
    found = matches_of(replace(plan, skip=Skip(NEXT_ROW, 0)), table)
    return [match for match in found if match.start == start]


def matches_changed(question: Question, frozen: pa.Table, changed: Changed) -> list[Found]:
    """The engine's matches if comparisons are changed at all rows."""
    return matches_of(with_changes(question, changed, None), frozen)


def with_changes(question: Question, changed: Changed, number: int | None) -> Plan:
    """The plan with each condition put together from its comparisons, and with changed ones replaced."""
    conditions = []
    for variable, logic in question.conditions.items():
        conditions.append(Condition(variable, (_tree(question, logic, changed, number),)))
    return replace(question.plan, letters=(), conditions=tuple(conditions), places=())


def _tree(question: Question, logic: Logic, changed: Changed, number: int | None) -> tuple:
    if logic[0] == "constant":
        return _LITERALS[logic[1]]
    if logic[0] == "comparison":
        value = question.values[question.comparisons[logic[1]].truth]
        tree = Here("col", value.column) if value.column else _numbered(question.probes[value.probe][1], number)
        for (comparison, row), truth in changed.items():
            if comparison == logic[1]:
                tree = _LITERALS[truth] if row is None else ("call", "if", Here("col", f"__at{comparison}"), _LITERALS[truth], tree)
        return tree
    return ("call", "if" if logic[0] == "choice" else logic[0], *(_tree(question, part, changed, number) for part in logic[1:]))


def _numbered(tree: tuple, number: int | None) -> tuple:
    """A tree with a number instead of MATCHNUMBER()."""
    if number is None:
        return tree
    if tree == ("mno",):
        return Lit("lit", "long", str(number))
    parts = [_numbered(part, number) if isinstance(part, tuple) and part and isinstance(part[0], str) else part for part in tree]
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
