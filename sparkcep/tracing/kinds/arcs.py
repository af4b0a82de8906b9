"""An AUTOMATON that is asked about: the WHEN of each arc taken apart, and the values that an answer needs.

Comparisons of the row alone are columns that Spark computes. Those that read a register are trees, which the engine evaluates
(:mod:`sparkcep.tracing.kinds.computations`). In a :class:`~sparkcep.tracing.conditions.question.Question` of an automaton the
number of an arc takes the place of a variable.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sparkcep.clause.automaton import ROW
from sparkcep.clause.expressions import Expr
from sparkcep.clause.tokens import Span
from sparkcep.clause.tree import SHOW_EMPTY, MatchClause
from sparkcep.errors import ClauseError
from sparkcep.plan.build import drafted
from sparkcep.plan.extend.automaton import ArcSplitter
from sparkcep.plan.records import Computed
from sparkcep.settings import DEFAULT, Settings
from sparkcep.tracing.conditions.comparisons import Logic, taken_apart
from sparkcep.tracing.conditions.question import Comparison, Question, Value, check_supported, is_literal, refused, sides_of


@dataclass
class _Collector:
    clause: MatchClause
    splitter: ArcSplitter
    by_machine: bool
    values: list[Value] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    probes: list[tuple[int, tuple]] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    known: dict[tuple[Span, int], int] = field(default_factory=dict)

    def value(self, expr: Expr, arc: int, on: str) -> int:
        """The number of a value at an arc."""
        if (expr.span, arc) not in self.known:
            self.known[expr.span, arc] = len(self.values)
            self.values.append(self._value(expr, arc, on))
        return self.known[expr.span, arc]

    def _value(self, expr: Expr, arc: int, on: str) -> Value:
        text = " ".join(expr.span.of(self.clause.text).split())
        if on == ROW and not self.splitter.sees(expr) and not self.by_machine:
            sql = self.splitter.scope.row_text(expr)
            return Value(expr, text, self.columns.setdefault(sql, f"__y{len(self.columns)}"))
        try:
            tree = self.splitter.tree(expr)
        except ClauseError:  # the engine computes it only as part of the comparison
            return Value(expr, text)
        self.probes.append((arc, tree))
        return Value(expr, text, probe=len(self.probes) - 1)

    def comparison(self, expr: Expr, arc: int, on: str) -> int:
        number = len(self.comparisons)
        truth = self.value(expr, arc, on)
        sides = tuple(self.value(side, arc, on) for side in sides_of(expr) if not is_literal(side))
        self.comparisons.append(Comparison(number, arc, expr, self.values[truth].text, truth, sides, ()))
        return number


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
    registers = {register.name.lower(): i for i, register in enumerate(draft.plan.automaton.declared)}
    splitter = ArcSplitter(draft.scope, draft.inputs, registers, settings.ansi)
    collector = _Collector(clause, splitter, by_machine)
    conditions: dict[int, Logic] = {}
    for number, arc in enumerate(written.arcs):
        if arc.when is not None:
            conditions[number] = taken_apart(arc.when, lambda expr, top, number=number, on=arc.on: collector.comparison(expr, number, on))
    plan = draft.with_(inputs=draft.inputs.columns(), failing=(*draft.plan.failing, *splitter.failing())).plan
    columns = tuple(Computed(name, text) for text, name in collector.columns.items())
    return Question(clause, plan, draft.scope, conditions, tuple(collector.comparisons), tuple(collector.values), columns, tuple(collector.probes), stated=clause)


def arc_name(question: Question, number: int) -> str:
    """The name of an arc; its number in the text if it has none."""
    assert question.clause.automaton is not None
    return question.clause.automaton.arcs[number].name or f"arc {number + 1}"
