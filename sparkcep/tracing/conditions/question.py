"""A clause that is asked about: its conditions taken apart, and the columns that a trace needs.

:func:`question_of` makes it of a parsed clause. Spark computes its ``columns`` beside the plan's own inputs. Expressions that look
at the match are ``probes`` for the machine (:mod:`sparkcep.tracing.rows.machine`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sparkcep.clause.expressions import Expr
from sparkcep.clause.tokens import Span
from sparkcep.clause.tree import SHOW_EMPTY, MatchClause
from sparkcep.errors import UNSUPPORTED, ClauseError
from sparkcep.plan.build import Draft, drafted
from sparkcep.plan.extend.budget import HISTORY
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Computed, has, walk
from sparkcep.plan.scope import AGGREGATES, MATCH_FUNCTIONS, NAVIGATIONS, Scope
from sparkcep.plan.split.conditions import ConditionSplitter
from sparkcep.settings import DEFAULT, Settings
from sparkcep.sql.rewrite.rewrite import MARKER
from sparkcep.tracing.conditions.comparisons import Logic, taken_apart
from sparkcep.tracing.conditions.reduced import is_extended, reduced_clause, reduced_plan

WHY = "WHY"  # the class of errors of this package
ROW = "__row"  # the column with the number of a frozen row
_PATTERN = frozenset(["var", "cat", "alt", "permute", "repeat", "exclude", "within", "empty", "start", "end", "not", "and"])  # parts that are explained


@dataclass(frozen=True)
class Value:
    """An expression whose value is read: the truth or a side of a comparison, or a part of a side.

    Attributes:
        expr: the expression.
        text: its text.
        column: the column that holds it, "" if the machine computes it.
        probe: the number of its probe, -1 if it is a column. Both are missing if the value cannot be computed on its own.
    """

    expr: Expr
    text: str
    column: str = ""
    probe: int = -1

    @property
    def is_known(self) -> bool:
        return bool(self.column) or self.probe >= 0


@dataclass(frozen=True)
class Comparison:
    """A comparison of a condition.

    Attributes:
        number: its number among the comparisons of the clause.
        variable: the variable whose condition it is part of.
        expr: the expression.
        text: its text, on one line.
        truth: number of the value that says whether it holds.
        sides: numbers of the values of its sides. Literals are left out.
        parts: numbers of the columns, navigations and aggregates in its sides.
    """

    number: int
    variable: int
    expr: Expr
    text: str
    truth: int
    sides: tuple[int, ...]
    parts: tuple[int, ...]


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


@dataclass
class _Collector:
    draft: Draft
    by_machine: bool
    values: list[Value] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    probes: list[tuple[int, tuple]] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    known: dict[tuple[Span, int], int] = field(default_factory=dict)

    @property
    def splitter(self) -> ConditionSplitter:
        return self.draft.splitter

    def value(self, expr: Expr, variable: int, *, conjunct: bool = False, needed: bool = False) -> int:
        """The number of a value. ``needed``: it must be computed, and an error is not caught."""
        if (expr.span, variable) not in self.known:
            self.known[expr.span, variable] = len(self.values)
            self.values.append(self._value(expr, variable, conjunct, needed))
        return self.known[expr.span, variable]

    def _value(self, expr: Expr, variable: int, conjunct: bool, needed: bool) -> Value:
        text = MARKER.sub("?", " ".join(expr.span.of(self.draft.clause.text).split()))
        sql = None if self.by_machine else self.splitter.over_rows(expr, variable)
        if sql is not None:
            return Value(expr, text, self.columns.setdefault(sql, f"__y{len(self.columns)}"))
        try:
            tree = self.splitter.tree(expr, variable, conjunct=conjunct)
        except ClauseError:
            if needed:
                raise
            return Value(expr, text)  # DEFINE computes it only as part of the comparison
        self.probes.append((variable, tree))
        return Value(expr, text, probe=len(self.probes) - 1)

    def comparison(self, expr: Expr, variable: int, conjunct: bool) -> int:
        number = len(self.comparisons)
        truth = self.value(expr, variable, conjunct=conjunct, needed=True)
        sides = [side for side in sides_of(expr) if not is_literal(side)]
        parts = [part for side in sides for part in parts_of(side)]
        self.comparisons.append(
            Comparison(
                number, variable, expr, self.values[truth].text, truth, tuple(self.value(side, variable) for side in sides),
                tuple(dict.fromkeys(self.value(part, variable) for part in parts)),
            )
        )
        return number


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
    collector = _Collector(draft, by_machine)
    conditions: dict[int, Logic] = {}
    for define in clause.defines:
        variable = draft.scope.ids[define.variable.lower()]
        conditions[variable] = taken_apart(define.condition, lambda expr, top, variable=variable: collector.comparison(expr, variable, top))
    named: dict[str, str] = {}
    for node in (node for define in clause.defines for node in _columns(define.condition, draft.scope)):
        text = " ".join(draft.scope.row_text(node).split())
        named[text] = collector.columns.setdefault(f"({text})", f"__y{len(collector.columns)}")
    splitter = draft.splitter
    whole = draft.with_(inputs=draft.inputs.columns(), ordered_inputs=splitter.ordered_inputs(), failing=splitter.failing()).plan
    columns = tuple(Computed(name, text) for text, name in collector.columns.items())
    return Question(
        clause, reduced_plan(whole), draft.scope, conditions, tuple(collector.comparisons), tuple(collector.values), columns, tuple(collector.probes),
        tuple(named.items()), whole if is_extended(stated) else None, stated, untraced,
    )


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


def sides_of(expr: Expr) -> tuple[Expr, ...]:
    """The sides of a comparison: its operands, the arguments of a call, or a column itself."""
    expr = expr.bare()
    if expr.op in ("bin", "between", "like", "is"):
        return expr.args
    if expr.op == "in":
        return expr.args if expr.value is None else expr.args[:1]
    if expr.op == "call" and expr.value not in MATCH_FUNCTIONS and not expr.flags:
        return expr.args
    return (expr,)


def is_literal(expr: Expr) -> bool:
    """Whether an expression shows its own value."""
    expr = expr.bare()
    if expr.op == "un" and expr.value in ("-", "+"):
        expr = expr.args[0].bare()
    return expr.op == "interval" or (expr.op == "lit" and not str(expr.value).startswith((":", "?")))


def parts_of(expr: Expr) -> Iterator[Expr]:
    """The columns, navigations and aggregates in a side. Each of them can make the side NULL."""
    expr = expr.bare()
    if expr.op == "col" or (expr.op == "call" and expr.value in NAVIGATIONS | AGGREGATES):
        yield expr
    elif expr.op not in ("lambda", "subquery") and not (expr.op == "call" and expr.value in MATCH_FUNCTIONS):
        for part in expr.args:
            yield from parts_of(part)


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
    """Raises ClauseError of class WHY for a part of APPROX that is not explained, at its place."""
    approx = clause.approx
    if approx is not None and approx.budget is not None:
        raise refused(clause, approx.budget.span, "BUDGET", "BUDGET")
    if approx is not None and approx.report == HISTORY:
        raise refused(clause, approx.span, "MATCH HISTORY", "MATCH HISTORY")


def check_pattern(plan: Plan, clause: MatchClause) -> None:
    """Raises ClauseError of class WHY if the pattern has a part that is not explained."""
    if any(part[0] not in _PATTERN for part in walk(plan.pattern)):
        raise refused(clause, clause.pattern.span, "this pattern", "its extensions")
