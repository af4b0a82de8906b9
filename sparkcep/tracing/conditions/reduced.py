"""A clause without the options that its trace leaves out: PREF, TOP, SLIDE, APPROX and SHOW UNFINISHED MATCHES.

The trace explains which exact matches the reduced clause has. :mod:`sparkcep.tracing.kinds` explains the first four options. The
last one changes no match: :mod:`sparkcep.tracing.rows.unfinished` asks the engine for its runs.
"""

from __future__ import annotations

from dataclasses import replace

from sparkcep.clause import nodes
from sparkcep.clause.tree import NEXT_ROW, EventSelection, MatchClause
from sparkcep.plan.extend.sequences import without_sequences
from sparkcep.plan.options import NO_WINDOW
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Selection, Skip, has

FIRST, ALL, STRICT = "FIRST", "ALL", "STRICT"


def is_extended(clause: MatchClause) -> bool:
    """Whether a clause has PREF, TOP or APPROX."""
    return bool(clause.preferences()) or clause.top is not None or clause.approx is not None


def reduced_clause(clause: MatchClause) -> MatchClause:
    """The clause that is traced.

    Under TOP and APPROX it reports the first match of each row, which exists if and only if one of ALL MATCHES begins there.
    """
    if not is_extended(clause):
        return replace(clause, unfinished=None)
    if clause.sequences:
        clause = without_sequences(clause)
    window = clause.window if clause.window is None else replace(clause.window, slide=None, slide_rows=False)
    chosen = clause.selection
    strategy = chosen.strategy if chosen is not None else "ANY" if clause.approx is not None else STRICT
    report = chosen.report if chosen is not None else None
    if clause.top is not None or clause.approx is not None:
        report = ALL if nodes.contains(clause.pattern, nodes.Conjunct) else FIRST
    option = chosen or clause.top or clause.approx or clause.pref
    assert option is not None
    return replace(clause, pref=None, top=None, approx=None, window=window, selection=EventSelection(strategy, report, option.span), measures=())


def reduced_plan(plan: Plan) -> Plan:
    """The plan of the clause that is traced, from the plan of the whole clause. Its input columns are those of the whole."""
    if plan.ranking is None and plan.approximate is None and plan.unfinished is None:
        return plan
    selection, windows, skip = plan.selection, plan.windows, plan.skip
    listing = plan.approximate is not None or (plan.ranking is not None and plan.ranking.top > 0)
    if listing and selection is not None and selection.report == ALL and not has(plan.pattern, "and"):
        selection, skip = Selection(selection.strategy, FIRST), Skip(NEXT_ROW, 0)
    if selection == (STRICT, FIRST) and all(window.kind == NO_WINDOW for window in windows):
        selection, windows = None, ()
    return replace(plan, ranking=None, approximate=None, slide=None, unfinished=None, leaves=(), arrays=(), aggregates=(), over_arrays=(), selection=selection, windows=windows, skip=skip)
