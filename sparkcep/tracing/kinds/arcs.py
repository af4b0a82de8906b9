"""An AUTOMATON that is asked about: the WHEN of each arc taken apart, and the values that an answer needs.

Comparisons of the row alone are columns that Spark computes. Those that read a register are trees, which the engine evaluates
(:mod:`sparkcep.tracing.kinds.computations`). In a :class:`~sparkcep.tracing.conditions.question.Question` of an automaton the
number of an arc takes the place of a variable.
"""

from __future__ import annotations

from dataclasses import replace

from sparkcep.clause.automaton import ROW
from sparkcep.clause.expressions import Expr
from sparkcep.clause.tree import SHOW_EMPTY, MatchClause
from sparkcep.plan.build import drafted
from sparkcep.plan.extend.automaton import ArcSplitter
from sparkcep.settings import DEFAULT, Settings
from sparkcep.tracing.conditions.collector import Collector
from sparkcep.tracing.conditions.comparisons import Logic, taken_apart
from sparkcep.tracing.conditions.question import Question, check_supported, refused


def question_of_arcs(clause: MatchClause, settings: Settings = DEFAULT, qualifiers: frozenset[str] = frozenset(), *, by_machine: bool = False) -> Question:
    """Takes an AUTOMATON apart. The arguments are those of :func:`sparkcep.tracing.conditions.question.question_of`.

    Raises:
        ClauseError: the clause is wrong, or has an option that is not explained.
    """
    written = clause.automaton
    assert written is not None
    check_supported(replace(clause, automaton=None, lifetime=None))
    for option, words in ((next(iter(written.tables), None), "ARCS FROM"), (clause.pref, "PREF"), (clause.top, "TOP")):
        if option is not None:
            raise refused(clause, option.span, f"{words} beside an AUTOMATON", words)
    draft = drafted(replace(clause, measures=(), rows=SHOW_EMPTY), settings=settings, qualifiers=qualifiers)
    assert draft.plan.automaton is not None
    splitter = ArcSplitter(draft.scope, draft.inputs, draft.plan.automaton.declared, settings.ansi)

    def column_of(expr: Expr, arc: int) -> str | None:
        return None if by_machine or written.arcs[arc].on != ROW or splitter.sees(expr) else splitter.scope.row_text(expr)

    collector = Collector(clause.text, column_of, lambda expr, arc, conjunct: splitter.tree(expr))
    conditions: dict[int, Logic] = {}
    for number, arc in enumerate(written.arcs):
        if arc.when is not None:
            conditions[number] = taken_apart(arc.when, lambda expr, top, number=number: collector.comparison(expr, number, top))
    plan = draft.with_(inputs=draft.inputs.columns(), failing=(*draft.plan.failing, *splitter.failing())).plan
    return Question(clause, plan, draft.scope, conditions, *collector.found(), stated=clause)


def arc_name(question: Question, number: int) -> str:
    """The name of an arc; its number in the text if it has none."""
    assert question.clause.automaton is not None
    return question.clause.automaton.arcs[number].name or f"arc {number + 1}"
