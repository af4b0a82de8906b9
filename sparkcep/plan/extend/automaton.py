"""Plans an AUTOMATON with registers (AFA): its states and arcs, and who computes which part of fences, assignments and EMIT.

``plan/build`` calls it. Spark computes expressions that read the row alone: conjuncts of fences become letters, other expressions
input columns. Expressions that read a register become trees of the engine's own operators, with registers as columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from sparkcep.clause import automaton as written
from sparkcep.clause.automaton import EMPTY, EXPIRY, ROW
from sparkcep.clause.expressions import Expr
from sparkcep.clause.tokens import Span, one_line, tokenize
from sparkcep.clause.tree import MatchClause
from sparkcep.errors import LIMIT, SEMANTIC, UNSUPPORTED, ClauseError, error_at, position
from sparkcep.plan.constants import whole_days
from sparkcep.plan.extend.arcs import check_arcs
from sparkcep.plan.extend.changes import Reported, check_changes, reports_changes
from sparkcep.plan.limits import MAX_VARIABLES
from sparkcep.plan.records import (
    LIKE,
    MEAN,
    SUM,
    WAY,
    Arc,
    Assignment,
    Automaton,
    Failing,
    Here,
    Letter,
    LifetimeEdge,
    Lit,
    OfComputation,
    Parameter,
    Register,
    parameter_column,
    register_column,
)
from sparkcep.plan.scope import LIFETIMES, RANDOM, Inputs, Row, Scope
from sparkcep.plan.split.conditions import ConditionSplitter, conjuncts, literal_tree
from sparkcep.plan.split.fallible import RowPart, may_fail, shielded
from sparkcep.plan.split.measures import MeasureSplitter

_NULL = Lit("lit", "null", "NULL")
_TEXT, _WHOLE = re.compile(r"'[^'\\]*'"), re.compile(r"\d+")  # constants whose equality is obvious from the text
_ROW_ONLY = ". Keep what later rows need in a register"


def _fail(clause: MatchClause, span: Span, error_class: str, message: str, sqlstate: str = SEMANTIC) -> ClauseError:
    return error_at(clause.text, span.start, span.end, error_class, message, sqlstate)


def like_a_column(name: str) -> str:
    """The message for a register or a parameter that has the name of a column of the table."""
    return f"the table also has a column {name}, so {name} in an arc is ambiguous. Give the register or parameter another name"


def leads_nowhere(name: str) -> str:
    """The message for a state that cannot reach a match."""
    return f"the state {name} cannot reach a FINAL state or an arc with EMIT. Declare STATE {name} FINAL, or add an arc"


def dead_states(automaton: Automaton) -> set[int]:
    """The states that cannot reach a match."""
    alive = set(automaton.final) | {state for arc in automaton.arcs if arc.emits for state in (arc.source, arc.target)}
    while more := {arc.source for arc in automaton.arcs if arc.target in alive} - alive:
        alive |= more
    return {state for arc in automaton.arcs for state in (arc.source, arc.target)} - alive


def check_beside(clause: MatchClause) -> None:
    """Raises ClauseError for an option that cannot be combined with AUTOMATON, at its place."""
    of_pattern = {
        "EVENT SELECTION": clause.selection, "AFTER MATCH SKIP": clause.skip, "APPROX": clause.approx,
        "SUBSET": None if clause.automaton.by_rows else next(iter(clause.subsets), None), "DEFINE": next(iter(clause.defines), None),
    }
    for words, found in of_pattern.items():
        if found is not None:
            raise _fail(clause, found.span, "AUTOMATON", f"{words} applies to a PATTERN, and the arcs of an AUTOMATON replace it. Leave {words} out")
    for words, found in (("PREF", clause.pref), ("TOP", clause.top)):
        if found is not None and reports_changes(clause):
            message = f"{words} ranks the final matches, but REPORT CHANGES inserts and retracts matches. Leave one of the two out"
            raise _fail(clause, found.span, "AUTOMATON", message)
    if (empty := _empty_matches(clause)) is not None:
        raise _fail(clause, empty, "AUTOMATON", "an AUTOMATON does not have empty matches to SHOW or OMIT. Write ALL ROWS PER MATCH")
    if not clause.order_by:
        raise _fail(clause, _head(clause), "WINDOW_WITHOUT_ORDER", "AUTOMATON needs ORDER BY, with the time of the rows as its first expression")
    first = clause.order_by[0]
    if first.descending:
        raise _fail(clause, first.expr.span, "AUTOMATON", "the first ORDER BY expression of an AUTOMATON is the time of the rows and must ascend. Leave DESC out")
    _check_lifetimes(clause)
    check_changes(clause)
    check_arcs(clause)


def _check_lifetimes(clause: MatchClause) -> None:
    window, lifetime = clause.window, clause.lifetime
    if window is not None and lifetime is not None:
        raise _fail(clause, lifetime.span, "AUTOMATON", "WINDOW and LIFETIME TO both set the lifetime of rows. Leave one of them out")
    if window is not None and window.rows:
        raise _fail(clause, window.span, "WINDOW_SIZE", "a WINDOW of ROWS is not a lifetime. Count rows in a register")
    if window is not None and window.slide is not None:
        raise _fail(clause, window.span, "SLIDE", "SLIDE ranks the matches of windows, but the WINDOW of an AUTOMATON is the lifetime of a row. Leave SLIDE out")


def _head(clause: MatchClause) -> Span:
    start = clause.automaton.span.start
    return Span(start, start + len("AUTOMATON"))


def _empty_matches(clause: MatchClause) -> Span | None:
    """The place of SHOW or OMIT EMPTY MATCHES, None if it is not written."""
    start = clause.span.start
    tokens = tokenize(clause.text[start : clause.automaton.span.start])
    for one, two, three in zip(tokens, tokens[1:], tokens[2:]):
        if one.upper in ("SHOW", "OMIT") and (two.upper, three.upper) == ("EMPTY", "MATCHES"):
            return Span(start + one.start, start + three.end)
    return None


class ArcSplitter(ConditionSplitter):
    """Makes trees of expressions that may read registers, and the parameters of the current arc."""

    def __init__(self, scope: Scope, inputs: Inputs, registers: Sequence[written.Register | Register], ansi: bool) -> None:
        super().__init__(scope, inputs, ordered=False, ansi=ansi)
        self.registers = {scope.key(register.name): i for i, register in enumerate(registers)}
        self.parameters: dict[str, int] = {}

    def check(self, expr: Expr, on: str) -> None:
        """Rejects expressions that an arc cannot compute."""
        scope = self.scope
        scope.check_semantics(expr)
        for call in scope.match_functions(expr):
            raise scope.error(call, "AUTOMATON", f"{call.value} reads other rows, which an arc cannot read{_ROW_ONLY}")
        for node in expr.walk():
            if node.op == "subquery" or (node.op == "in" and node.value == "query"):
                raise scope.error(node, "AUTOMATON", "an arc cannot contain a subquery. Join its table below the clause")
            if node.op == "call" and node.value in RANDOM:
                raise scope.error(node, "AUTOMATON", f"{node.value} gives a different value each time. Compute it in a column below the clause")
            if node.op == "star":
                raise scope.error(node, "AUTOMATON", "an arc cannot contain *. Name columns and registers")
        if on != ROW:
            for node in scope.columns(expr):
                if self.held(node) is None:
                    what = "takes no row" if on == EMPTY else "is taken when the rows' lifetimes end"
                    raise scope.error(node, "AUTOMATON", f"an arc ON {on.upper()} {what}, so {node.value if node.op == 'call' else node.value[-1]} does not have a value{_ROW_ONLY}")

    def held(self, node: Expr) -> str | None:
        """The column of the register or parameter that a node names. None for any other node."""
        name = self.scope.key(node.value[0]) if node.op == "col" and len(node.value) == 1 else ""
        if name in self.registers:
            return register_column(self.registers[name])
        return parameter_column(self.parameters[name]) if name in self.parameters else None

    def sees(self, expr: Expr) -> bool:
        """Whether an expression reads a register or a parameter."""
        return any(self.held(node) is not None for node in self.scope.columns(expr))

    def tree(self, expr: Expr) -> tuple:
        return self._lower(expr, -1)

    def _literal(self, expr: Expr) -> Lit | None:
        """The tree of a literal. Only the text of an interval shows whether it has whole days."""
        days = whole_days(expr, self.scope.text, self.scope.parameters)
        return literal_tree(expr) if days is None else Lit("lit", "days", str(days))

    def _rows(self, expr: Expr, variable: int) -> set[Row]:
        return {Row("special") if self.sees(expr) else Row("cur")}

    def _lower(self, expr: Expr, variable: int) -> tuple:
        expr = expr.bare()
        column = self.held(expr)
        if column is not None:
            return Here("col", column)
        if not self.sees(expr):
            return self._literal(expr) or self._checked(expr, self.scope.row_text(expr), lambda column: Here("col", column))
        found = self._native(expr, variable)
        if found is None:
            what = f"{expr.value}()" if expr.op == "call" else f"CAST to {expr.value}" if expr.op == "cast" else f"this {expr.op}"
            raise self.scope.error(
                expr, "MATCH_DEPENDENT_EXPRESSION",
                f"{what} of a register or a parameter is not computed by the engine. Use comparisons, arithmetic, CASE, COALESCE, LEAST, GREATEST, ABS and CASTs to "
                "numbers of these, and any function of the row", UNSUPPORTED,
            )
        return found


@dataclass
class _Builder:
    """Collects the parts of one automaton."""

    clause: MatchClause
    scope: Scope
    inputs: Inputs
    ansi: bool
    registers: dict[str, int] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    letters: dict[str, int] = field(default_factory=dict)
    rows: dict[str, list[RowPart]] = field(default_factory=dict)  # the conjuncts of each letter
    emits: dict[str, str] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    parameters: list[Parameter] = field(default_factory=list)
    failing: tuple[Failing, ...] = ()

    def error(self, span: Span, message: str, sqlstate: str = SEMANTIC) -> ClauseError:
        return _fail(self.clause, span, "AUTOMATON", message, sqlstate)

    def place(self, span: Span) -> tuple[int, int, str]:
        return (*position(self.clause.text, span.start), span.of(self.clause.text).split("\n")[0][:40])

    def build(self) -> Automaton:
        automaton = self.clause.automaton
        arcs = automaton.arcs
        self._declare(automaton, arcs)
        splitter = ArcSplitter(self.scope, self.inputs, automaton.registers, self.ansi)
        registers = tuple(self._register(item, splitter) for item in automaton.registers)
        start, final = self._ends(automaton, arcs)
        for arc in arcs:
            for item in arc.emits:
                self.emits.setdefault(item.name.lower(), item.name)
        found = tuple(self._arc(arc, splitter, final) for arc in arcs)
        self.failing = splitter.failing()
        if max(len(registers), len(self.emits), len(self.parameters)) > MAX_VARIABLES:
            raise self.error(_head(self.clause), f"an automaton has at most {MAX_VARIABLES} registers, columns of EMIT and parameters", LIMIT)
        if automaton.by_rows:
            self._check_by_rows(arcs)
            registers = (*registers, Register(WAY, WAY, Lit("lit", "int", "0"), *self.place(_head(self.clause))))
        lifetime = ""
        if self.clause.lifetime is not None:
            lifetime = self.inputs.column(self.scope.plain_text(self.clause.lifetime.end, "LIFETIME TO"))
        built = Automaton(registers, tuple(self.names), start, tuple(sorted(final)), found, tuple(self.emits.values()), "__o0", lifetime, tuple(self.parameters))
        if not automaton.tables:  # rows of a table may bring arcs that leave such a state
            self._check_dead(built, arcs)
        return built

    # -- names --------------------------------------------------------------------------------------------------------

    def _declare(self, automaton: written.Automaton, arcs: tuple[written.Arc, ...]) -> None:
        """Numbers registers and states."""
        for item in automaton.registers:
            if item.name.lower() in map(str.lower, self.registers):
                raise self.error(item.span, f"the register {item.name} is declared twice. Give one of the two another name, or leave it out")
            self.registers[self.scope.key(item.name)] = len(self.registers)
        declared: set[str] = set()
        for item in automaton.states:
            if item.name.lower() in declared:
                raise self.error(item.span, f"the state {item.name} is declared twice. Declare it once, with START, FINAL and IGNORE WHEN after its name")
            declared.add(item.name.lower())
        if not arcs and not automaton.tables:
            raise self.error(automaton.span, "an AUTOMATON needs at least one ARC FROM state TO state")
        named: set[str] = set()
        for arc in arcs:
            for name, _ in (arc.source, arc.target):
                if name.lower() not in self.states:
                    self.states[name.lower()] = len(self.names)
                    self.names.append(name)
            if arc.name is not None:
                if arc.name.lower() in named and not automaton.by_rows:
                    raise self.error(arc.span, f"two arcs are called {arc.name}. Give one of them another name, or none")
                if arc.name.lower() not in named:
                    self.labels[arc.name] = len(self.labels) + 1
                named.add(arc.name.lower())
        for item in automaton.states:
            if item.name.lower() not in self.states and automaton.tables:
                self.states[item.name.lower()] = len(self.names)
                self.names.append(item.name)
            elif item.name.lower() not in self.states:
                raise self.error(item.span, f"no arc leaves or reaches the state {item.name}. Leave it out, or check the spelling of its name in the arcs")

    def _ends(self, automaton: written.Automaton, arcs: tuple[written.Arc, ...]) -> tuple[int, set[int]]:
        """The start state and the final states."""
        starts = [item for item in automaton.states if item.start]
        if len(starts) > 1:
            raise self.error(starts[1].span, f"{starts[0].name} and {starts[1].name} are both START, but an automaton begins in one state. Leave START out of one of the two")
        if not starts and not arcs and "q0" not in self.states:  # all arcs come from rows of a table
            self.states["q0"] = len(self.names)
            self.names.append("q0")
        name = starts[0].name if starts else "q0" if "q0" in self.states else arcs[0].source[0]
        return self.states[name.lower()], {self.states[item.name.lower()] for item in automaton.states if item.final}

    def _check_by_rows(self, arcs: tuple[written.Arc, ...]) -> None:
        """Rejects options that cannot be combined with BY ROWS, where a match is identified by its rows."""
        tables = self.clause.automaton.tables
        if tables:
            raise self.error(tables[0].span, "AUTOMATON BY ROWS cannot be combined with ARCS FROM. Leave out one of the two")
        expiring = next((arc for arc in arcs if arc.on == EXPIRY), None)
        if expiring is not None:
            raise self.error(expiring.span, "an arc ON EXPIRY takes no row, but BY ROWS identifies a match by its rows. Leave BY ROWS out")
        if not any(arc.name is not None and arc.on == ROW for arc in arcs):
            raise self.error(_head(self.clause), "AUTOMATON BY ROWS distinguishes matches by the rows of named arcs, and no arc that takes rows has a name. Name such arcs, as in ARC a FROM q0 TO q1")
        if len(self.labels) > MAX_VARIABLES:
            raise self.error(_head(self.clause), f"AUTOMATON BY ROWS can distinguish at most {MAX_VARIABLES} names of arcs", LIMIT)

    def _check_dead(self, built: Automaton, arcs: tuple[written.Arc, ...]) -> None:
        """Rejects a state that cannot reach a match."""
        dead = dead_states(built)
        for arc in arcs:
            for name, span in (arc.source, arc.target):
                if self.states[name.lower()] in dead:
                    raise self.error(span, leads_nowhere(name))

    # -- expressions --------------------------------------------------------------------------------------------------

    def _register(self, item: written.Register, splitter: ArcSplitter) -> Register:
        initial = _NULL
        if item.initial is not None:
            splitter.check(item.initial, ROW)
            for node in self.scope.columns(item.initial):
                raise self.scope.error(node, "AUTOMATON", f"a register begins with a constant, but {node.value[-1]} is a column. SET the register in an arc")
            initial = splitter.tree(item.initial)
        if item.like is None:
            return Register(item.name, one_line(item.type).lower(), initial, *self.place(item.span))
        how, of = _typed_like(item.like)
        splitter.check(of, ROW)
        if splitter.sees(of):
            raise self.scope.error(of, "AUTOMATON", "LIKE takes an expression of the row, not a register. Give the register a type")
        return Register(item.name, how, initial, *self.place(item.span), self.inputs.column(self.scope.row_text(of)))

    def _arc(self, arc: written.Arc, splitter: ArcSplitter, final: set[int]) -> Arc:
        source, target = (self.states[name.lower()] for name in arc.ends)
        first = len(self.parameters)
        splitter.parameters = self._parameters(arc)
        if arc.on == EXPIRY:
            if self.clause.window is None and self.clause.lifetime is None:
                raise self.error(arc.span, "ON EXPIRY happens when the lifetime of a row ends. Add WINDOW or LIFETIME TO")
            if target not in final and not arc.emits:
                raise self.error(arc.span, f"an arc ON EXPIRY ends the computation, so {arc.target[0]} must be FINAL, or the arc must have EMIT")
        letter, fence = self._fence(arc, splitter)
        limits = self._limits(arc)
        sets, seen = [], set()
        for item in arc.sets:
            number = self.registers.get(self.scope.key(item.register))
            if number is None:
                raise self.error(item.span, f"{item.register} is not a register. Declare REGISTER {item.register} with a type")
            if number in seen:
                raise self.error(item.span, f"the arc sets {item.register} twice. Leave one of the two out, or write a second arc")
            seen.add(number)
            splitter.check(item.value, arc.on)
            sets.append(Assignment(number, splitter.tree(item.value)))
        emitted = self._emitted(arc, splitter)
        template = "" if arc.parameters is None else arc.name
        splitter.parameters = {}
        return Arc(
            source, target, arc.on, letter, fence, tuple(sets), emitted, self._label(arc), *self.place(arc.span), template,
            (first, len(self.parameters)), limits,
        )

    def _label(self, arc: written.Arc) -> int:
        """The number of an arc's name, 0 without one. All spellings of a name share the number of the first one."""
        return 0 if arc.name is None else next(number for name, number in self.labels.items() if name.lower() == arc.name.lower())

    def _parameters(self, arc: written.Arc) -> dict[str, int]:
        """Numbers the parameters of an arc."""
        found: dict[str, int] = {}
        for item in arc.parameters or ():
            if item.name.lower() in map(str.lower, found):
                raise self.error(item.span, f"the parameter {item.name} is declared twice. Give one of the two another name, or leave it out")
            if item.name.lower() in map(str.lower, self.registers):
                raise self.error(item.span, f"{item.name} is also a register, so {item.name} in the arc is ambiguous. Give the parameter another name")
            found[self.scope.key(item.name)] = len(self.parameters)
            self.parameters.append(Parameter(item.name, one_line(item.type).lower(), *self.place(item.span)))
        return found

    def _fence(self, arc: written.Arc, splitter: ArcSplitter) -> tuple[int, tuple[tuple, ...]]:
        """The bit for the part of WHEN that Spark computes (-1 if none), and the trees of the other conjuncts."""
        if arc.when is None:
            return -1, ()
        splitter.check(arc.when, arc.on)
        rows, others = [], []
        for conjunct in conjuncts(arc.when):
            if arc.on == ROW and not splitter.sees(conjunct) and not (others and may_fail(conjunct, splitter.ansi)):
                rows.append(RowPart(f"({self.scope.row_text(conjunct)})", conjunct))
            else:
                others.append(splitter.tree(conjunct))
        if not rows:
            return -1, tuple(others)
        text = " AND ".join(row.text for row in rows)
        if text not in self.letters and len(self.letters) == MAX_VARIABLES:
            raise self.error(arc.when.span, f"the arcs have more than {MAX_VARIABLES} different conditions on the row", LIMIT)
        return self._letter(text, rows), tuple(others)

    def _letter(self, text: str, rows: list[RowPart]) -> int:
        """The bit of a condition on the row, given as SQL and by its conjuncts."""
        self.rows.setdefault(text, rows)
        return self.letters.setdefault(text, len(self.letters))

    def _limits(self, arc: written.Arc) -> tuple[int, ...]:
        """The values of PUNCTUATE BY that an arc's rows may have, as in :class:`sparkcep.plan.records.Arc`.

        A conjunct of WHEN may compare PUNCTUATE BY with constants. If the constants are all texts, or all whole numbers, each of
        them is equal to at most one value.
        """
        punctuate = self.clause.changes.punctuate if self.clause.changes is not None else None
        if punctuate is None or arc.on != ROW or arc.when is None:
            return ()
        for conjunct in map(Expr.bare, conjuncts(arc.when)):
            sides = [side.bare() for side in conjunct.args]
            if conjunct.op == "bin" and conjunct.value == "=" and sides[1] == punctuate.bare():
                sides.reverse()
            compares = (conjunct.op == "bin" and conjunct.value == "=") or (conjunct.op == "in" and conjunct.value != "query" and "not" not in conjunct.flags)
            if not compares or sides[0] != punctuate.bare():
                continue
            text = f"({self.scope.row_text(conjunct)})"
            for pattern, texts in ((_TEXT, 1), (_WHOLE, 0)):
                if all(side.op == "lit" and pattern.fullmatch(str(side.value)) for side in sides[1:]) and (text in self.letters or len(self.letters) < MAX_VARIABLES):
                    return self._letter(text, [RowPart(text, conjunct)]), len(sides) - 1, texts
        return ()

    def _emitted(self, arc: written.Arc, splitter: ArcSplitter) -> tuple[tuple, ...]:
        if not arc.emits:
            return ()
        trees: dict[str, tuple] = {}
        for item in arc.emits:
            if item.name.lower() in trees:
                raise self.error(item.span, f"the arc emits {item.name} twice. Give one of the two another name")
            splitter.check(item.value, ROW)  # EMIT reads the row taken last
            trees[item.name.lower()] = splitter.tree(item.value)
        return tuple(trees.get(name, _NULL) for name in self.emits)

    def letter_records(self) -> tuple[Letter, ...]:
        texts = shielded(list(self.rows.values()), self.ansi, self.scope.row_text)
        return tuple(Letter(0, bit, text) for bit, text in enumerate(texts))


def automaton_of(clause: MatchClause, scope: Scope, inputs: Inputs, ansi: bool) -> tuple[Automaton, tuple[Letter, ...], tuple[str, ...], tuple[Failing, ...]]:
    """The automaton of a clause.

    Returns:
        The automaton, the parts of its fences that Spark computes, the names that CLASSIFIER() returns ("" for arcs without one),
        and the arcs' expressions that may fail.
    """
    builder = _Builder(clause, scope, inputs, ansi)
    automaton = builder.build()
    if automaton.by_ways:
        return automaton, builder.letter_records(), tuple(builder.labels), builder.failing
    names = ("", *builder.labels)
    if len(names) > MAX_VARIABLES:  # a label has six bits
        labelled = next((n for m in clause.measures for n in m.expr.walk() if n.op == "call" and n.value == "CLASSIFIER"), None)
        if labelled is not None:
            raise scope.error(labelled, "TOO_MANY_VARIABLES", f"CLASSIFIER() can distinguish at most {MAX_VARIABLES - 1} arcs", LIMIT)
        names = ("",)
        automaton = automaton._replace(arcs=tuple(arc._replace(label=0) for arc in automaton.arcs))
    return automaton, builder.letter_records(), names, builder.failing


def _typed_like(like: Expr) -> tuple[str, Expr]:
    """How a register's type follows from LIKE, and the expression it follows from. SUM and AVG mean the type of the running sum."""
    call = like.bare()
    how = {"SUM": SUM, "AVG": MEAN}.get(call.value) if call.op == "call" and len(call.args) == 1 and not call.flags else None
    return (LIKE, like) if how is None else (how, call.args[0])


class AutomatonMeasures(MeasureSplitter):
    """Splits the MEASURES of an automaton.

    Names of EMIT's columns and of registers mean their values at the end of a computation.
    """

    def __init__(
        self, scope: Scope, inputs: Inputs, automaton: Automaton, *, one_row: bool, changes: Reported | None, ranked: tuple[str, ...], identity: str, ansi: bool,
    ) -> None:
        """Parameters are as in the base class, plus the automaton."""
        super().__init__(scope, inputs, one_row=one_row, ranked=ranked, changes=changes, identity=identity, ansi=ansi)
        self.automaton = automaton
        self.registers = {scope.key(register.name): OfComputation("register", i) for i, register in enumerate(automaton.declared)}
        self.emits = {name.lower(): OfComputation("emit", i) for i, name in enumerate(automaton.emits)}

    def defaults(self) -> list[tuple[str, str]]:
        """The default measures as (name, leaf), used without MEASURES."""
        names = self.automaton.emits or tuple(register.name for register in self.automaton.declared)
        return self.of_changes() + [(name, self._leaf(self._known((name,)))) for name in names]

    def _known(self, name: tuple[str, ...]) -> OfComputation | None:
        """The column of EMIT or the register of this name. None for any other name."""
        return (self.emits.get(name[0].lower()) or self.registers.get(self.scope.key(name[0]))) if len(name) == 1 else None

    def _column(self, node: Expr) -> str:
        found = self._known(node.value)
        return super()._column(node) if found is None else self._leaf(found)

    def _call(self, call: Expr) -> str:
        if call.value == "MATCH_NUMBER" and self.changes is not None:
            raise self.scope.error(call, "MATCH_NUMBER", "under REPORT CHANGES matches are inserted and retracted, so they cannot be numbered. CHANGE_NUMBER() counts the output rows")
        if call.value in LIFETIMES:
            if call.args:
                raise self.scope.error(call, call.value, f"{call.value} takes no argument")
            return self._leaf(LifetimeEdge(LIFETIMES[call.value], self.automaton.time))
        for node in self.scope.columns(call):
            if node.op == "col" and self._known(node.value) is not None:
                raise self.scope.error(node, "AUTOMATON", f"{node.value[0]} has one value for the whole match. Write it outside of {call.value}()")
        return super()._call(call)
