"""A clause that is asked about: its conditions taken apart, and the columns that a trace needs.

:func:`question_of` makes it of a parsed clause. Spark computes its ``columns`` beside the plan's own inputs. Expressions that look
at the match are ``probes`` for the machine (:mod:`sparkcep.tracing.rows.machine`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import factorial

from sparkcep.clause.expressions import Expr
from sparkcep.clause.tokens import Span, one_line
from sparkcep.clause.tree import SHOW_EMPTY, MatchClause
from sparkcep.errors import UNSUPPORTED, ClauseError
from sparkcep.plan.build import Draft, drafted
from sparkcep.plan.extend.budget import HISTORY
from sparkcep.plan.extend.unfinished import clock_columns
from sparkcep.plan.facts import straight
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Computed, Repeat, Within, has, walk
from sparkcep.plan.scope import RANDOM, Scope
from sparkcep.settings import DEFAULT, Settings
from sparkcep.tracing.conditions.collector import Collector, Comparison, Value, parts_of
from sparkcep.tracing.conditions.comparisons import Logic, taken_apart
from sparkcep.tracing.conditions.reduced import is_extended, reduced_clause, reduced_plan

WHY = "WHY"  # the class of errors of this package
ROW = "__row"  # the column with the number of a frozen row
MOST_ORDERS = factorial(8)  # of a PERMUTE that are written out
MOST_COUNTERS = 1 << 26  # of quantifiers: each order that is written out begins with those of all orders
_PATTERN = frozenset(["var", "cat", "alt", "permute", "repeat", "exclude", "within", "empty", "start", "end", "not", "and"])  # parts that are explained


@dataclass(frozen=True)
class Question:
    """A clause that is asked about.

    Attributes:
        clause: the clause.
        plan: its plan, with the inputs that the probes read.
        scope: its names.
        conditions: the logic of each variable that has a condition.
        comparisons: the comparisons.
        values: the values of comparisons, their sides and parts.
        columns: the columns that Spark computes for values. Their texts may have the placeholder of ordered inputs.
        probes: the trees that the machine computes, each with its variable.
        named: the columns that DEFINE names, each with the column that holds its values.
        whole: the plan with PREF, TOP, SLIDE and APPROX, which ``plan`` lacks. None if the clause has none of them.
        unfinished: the plan with SHOW UNFINISHED MATCHES, which ``plan`` lacks. None if the clause does not have it.
        stated: the clause as the user wrote it. ``clause`` lacks these options.
        untraced: why the search of ``plan`` is not traced, None if it is.
    """

    clause: MatchClause
    plan: Plan
    scope: Scope
    conditions: dict[int, Logic]
    comparisons: tuple[Comparison, ...]
    values: tuple[Value, ...]
    columns: tuple[Computed, ...]
    probes: tuple[tuple[int, tuple], ...]
    named: tuple[tuple[str, str], ...] = ()
    whole: Plan | None = None
    unfinished: Plan | None = None
    stated: MatchClause | None = None
    untraced: ClauseError | None = None

    def name(self, variable: int) -> str:
        """The name of a variable as the user wrote it."""
        return self.plan.variables[variable]

    @property
    def looks(self) -> frozenset[int]:
        """The variables whose conditions look at the match."""
        return frozenset(c.variable for c in self.comparisons if not self.values[c.truth].column)

    @property
    def numbered(self) -> bool:
        """Whether a condition reads MATCH_NUMBER()."""
        return any(has(tree, "mno") for _, tree in self.probes)


def question_of(clause: MatchClause, settings: Settings = DEFAULT, qualifiers: frozenset[str] = frozenset(), *, by_machine: bool = False) -> Question:
    """Takes a clause apart.

    Args:
        clause: the clause.
        settings: the session's settings.
        qualifiers: lower-case names that may qualify the input's own columns.
        by_machine: whether the machine computes all values, so that an expression fails only where its value is read.

    Raises:
        ClauseError: the clause is wrong, or has an option that is not explained yet.
    """
    stated, clause = clause, reduced_clause(clause)
    draft, untraced = _checked(stated, clause, settings, qualifiers)
    splitter = draft.splitter
    collector = Collector(
        clause.text, lambda expr, variable: None if by_machine else splitter.over_rows(expr, variable),
        lambda expr, variable, conjunct: splitter.tree(expr, variable, conjunct=conjunct), parts_of,
    )
    conditions: dict[int, Logic] = {}
    for define in clause.defines:
        variable = draft.scope.ids[define.variable.lower()]
        conditions[variable] = taken_apart(define.condition, lambda expr, top, variable=variable: collector.comparison(expr, variable, top))
    named: dict[str, str] = {}
    for node in (node for define in clause.defines for node in _columns(define.condition, draft.scope)):
        text = one_line(draft.scope.row_text(node))
        named[text] = collector.column(f"({text})")
    inputs = (*draft.inputs.columns(), *clock_columns(stated, draft.plan, draft.scope))
    whole = draft.with_(inputs=inputs, ordered_inputs=splitter.ordered_inputs(), failing=splitter.failing()).plan
    return Question(
        clause, reduced_plan(whole), draft.scope, conditions, *collector.found(), tuple(named.items()),
        whole if is_extended(stated) else None, whole if stated.unfinished is not None else None, stated, untraced,
    )  # fmt: skip


def _checked(stated: MatchClause, clause: MatchClause, settings: Settings, qualifiers: frozenset[str]) -> tuple[Draft, ClauseError | None]:
    """The draft of a clause, and why its trace is refused, None if it is not. ``clause``: what is traced of it.

    Ranked and approximate matches have answers without a trace. For other clauses the refusal is raised.
    """
    untraced = None
    try:
        check_supported(clause)
    except ClauseError as error:
        if not is_extended(stated):
            raise
        untraced = error
    check_options(stated)
    check_repeatable(stated)
    draft = drafted(replace(stated, measures=(), rows=SHOW_EMPTY), settings=settings, qualifiers=qualifiers)  # measures change no match
    try:
        check_pattern(draft.plan, clause)
    except ClauseError as error:
        if not is_extended(stated):
            raise
        untraced = error
    return draft, untraced


def _columns(condition: Expr, scope: Scope) -> Iterator[Expr]:
    """The columns of a condition. An argument of CLASSIFIER is a variable."""
    calls = [call.span for call in condition.walk() if call.op == "call" and call.value == "CLASSIFIER"]
    return (node for node in scope.columns_outside(condition, calls) if node.op == "col")


# -- refusals ---------------------------------------------------------------------------------------------------------

_LATER = "why does not explain {what} yet. Leave {leave} out, and ask about the rest of the clause"


def refused(clause: MatchClause, span: Span, what: str, leave: str) -> ClauseError:
    """The error for an option that is not explained. ``leave``: the words to leave out."""
    return clause.error(span, WHY, _LATER.format(what=what, leave=leave), UNSUPPORTED)


def check_supported(clause: MatchClause) -> None:
    """Raises ClauseError of class WHY for an option that is not explained, at its place."""
    options = (
        (clause.automaton, "an AUTOMATON", "AUTOMATON"), (clause.changes, "CHANGES IN", "CHANGES IN"), (clause.report, "REPORT", "REPORT"),
        (clause.lifetime, "LIFETIME TO", "LIFETIME TO"),
    )  # fmt: skip
    for option, what, leave in options:
        if option is not None:
            raise refused(clause, option.span, what, leave)


def check_options(clause: MatchClause) -> None:
    """Raises ClauseError of class WHY for a part of APPROX or TOP that is not explained, at its place."""
    if clause.top is not None and clause.changes is None and clause.automaton is None and clause.report is not None:
        raise refused(clause, clause.report.span, "REPORT CHANGES beside TOP k", "REPORT CHANGES")
    approx = clause.approx
    if approx is not None and approx.budget is not None:
        raise refused(clause, approx.budget.span, "BUDGET", "BUDGET")
    if approx is not None and approx.report == HISTORY:
        raise refused(clause, approx.span, "MATCH HISTORY", "MATCH HISTORY")


def check_repeatable(clause: MatchClause) -> None:
    """Raises ClauseError of class WHY for a condition whose values may differ each time."""
    for define in clause.defines:
        for call in define.condition.walk():
            if call.op == "call" and call.value in RANDOM - {"INPUT_FILE_NAME"}:
                raise refused(clause, call.span, "random conditions", call.span.of(clause.text))


def check_pattern(plan: Plan, clause: MatchClause) -> None:
    """Raises ClauseError of class WHY if the pattern has a part that is not explained."""
    if orders := too_many_orders(plan):
        raise refused(clause, clause.pattern.span, orders, "PERMUTE")
    if any(part[0] not in _PATTERN for part in walk(plan.pattern)):
        raise refused(clause, clause.pattern.span, "this pattern", "its extensions")


def too_many_orders(plan: Plan) -> str:
    """Names a PERMUTE whose orders are too many to be written out, "" without one."""
    for pattern, adjacent in ((plan.pattern, plan.adjacent), *((group.pattern, False) for group in plan.without)):
        for part in walk(pattern):
            if part[0] == "permute" and not (adjacent and all(map(straight, part[1:]))):
                orders = factorial(len(part) - 1)
                counters = orders * sum(isinstance(inner, Repeat | Within) for inner in walk(part))
                if orders > MOST_ORDERS or counters * counters > MOST_COUNTERS:
                    return f"a PERMUTE of {len(part) - 1} elements {'with quantifiers or alternatives' if adjacent else 'under SKIP TILL'}"
    return ""
