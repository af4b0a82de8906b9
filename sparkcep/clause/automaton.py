"""AUTOMATON (...): the registers, states and arcs as the user wrote them, and their parser. ``clause/parser`` calls it."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkcep.clause.expressions import Cursor, Expr, ExpressionParser
from sparkcep.clause.tokens import END, QUOTED, WORD, Span, span_field, tokenize

ROW, EMPTY, EXPIRY = "row", "empty", "expiry"  # an arc takes a row, nothing, or the end of its rows' lifetimes


@dataclass(frozen=True)
class Register:
    """``REGISTER name type = initial``, with NULL as the default of ``initial``.

    ``REGISTER name LIKE (like)`` takes its type from an expression.
    """

    name: str
    type: str
    initial: Expr | None = None
    like: Expr | None = None
    span: Span = span_field()
    type_span: Span = span_field()


@dataclass(frozen=True)
class State:
    """``STATE name START FINAL IGNORE WHEN ignore``."""

    name: str
    start: bool = False
    final: bool = False
    ignore: Expr | None = None
    span: Span = span_field()


@dataclass(frozen=True)
class Assignment:
    """``register = value`` after SET."""

    register: str
    value: Expr
    span: Span = span_field()


@dataclass(frozen=True)
class Emitted:
    """``value AS name`` in EMIT."""

    value: Expr
    name: str
    span: Span = span_field()


@dataclass(frozen=True)
class Parameter:
    """``name type`` in the parentheses after the name of an arc."""

    name: str
    type: str
    span: Span = span_field()
    type_span: Span = span_field()


@dataclass(frozen=True)
class Arc:
    """``ARC name(parameters) FROM source TO target ON ... WHEN ... SET ... EMIT (...)``.

    ``on`` is ROW, EMPTY or EXPIRY. An arc with ``parameters``, even (), is a template: it is present only through rows of ARCS
    FROM.
    """

    source: tuple[str, Span] = field(compare=False)
    target: tuple[str, Span] = field(compare=False)
    ends: tuple[str, str]
    name: str | None = None
    on: str = ROW
    when: Expr | None = None
    sets: tuple[Assignment, ...] = ()
    emits: tuple[Emitted, ...] = ()
    parameters: tuple[Parameter, ...] | None = None
    span: Span = span_field()
    name_span: Span = span_field()
    head: Span = span_field()  # of the name with its parameters


@dataclass(frozen=True)
class ArcTable:
    """``ARCS FROM table ARRIVAL BY arrival``.

    ``table``: the place of the name or of the query in parentheses; ``text``: its text.
    """

    text: str
    arrival: tuple[Expr, ...] = ()
    table: Span = span_field()
    span: Span = span_field()


Item = Register | State | Arc | ArcTable
# words that need AS as the name of a table of arcs: words that may begin the next part, and words of expressions
_NO_ALIAS = frozenset(
    """REGISTER STATE ARC ARCS ARRIVAL ALL AND AS BETWEEN BY CASE CAST DISTINCT DIV ELSE END FALSE FROM ILIKE IN INTERVAL IS LIKE NOT NULL OR RLIKE THEN TRUE TRY_CAST
    USING WHEN WHERE WITH""".split()
)


@dataclass(frozen=True)
class Automaton:
    """An AUTOMATON. ``items``: its items in text order; ``by_rows``: whether it is AUTOMATON BY ROWS."""

    items: tuple[Item, ...]
    by_rows: bool = False
    span: Span = span_field()

    @property
    def registers(self) -> tuple[Register, ...]:
        return tuple(item for item in self.items if isinstance(item, Register))

    @property
    def states(self) -> tuple[State, ...]:
        return tuple(item for item in self.items if isinstance(item, State))

    @property
    def tables(self) -> tuple[ArcTable, ...]:
        return tuple(item for item in self.items if isinstance(item, ArcTable))

    @property
    def arcs(self) -> tuple[Arc, ...]:
        """The arcs in text order. An IGNORE WHEN is an arc from its state to itself."""
        found = []
        for item in self.items:
            if isinstance(item, Arc):
                found.append(item)
            elif isinstance(item, State) and item.ignore is not None:
                at = (item.name, item.span)
                found.append(Arc(at, at, (item.name, item.name), when=item.ignore, span=item.span))
        return tuple(found)

    def name_spans(self) -> list[Span]:
        """The places of the names of registers, states, arcs and EMIT's columns."""
        found = [item.span for item in self.items if isinstance(item, Register | State)]
        for arc in self.items:
            if isinstance(arc, Arc):
                found += [arc.source[1], arc.target[1], *(s.span for s in arc.sets), *(e.span for e in arc.emits)]
                found += [arc.name_span] if arc.name is not None else []
                found += [parameter.span for parameter in arc.parameters or ()]
        return found

    def type_spans(self) -> list[Span]:
        """The places of the types of registers and parameters."""
        parameters = [parameter.type_span for item in self.items if isinstance(item, Arc) for parameter in item.parameters or ()]
        return [register.type_span for register in self.registers if register.like is None] + parameters

    def verbatim(self) -> list[Span]:
        """The places that a formatter leaves unchanged: tables of arcs, and names with parameters."""
        return [item.table for item in self.tables] + [arc.head for arc in self.arcs if arc.parameters is not None]

    def expressions(self) -> list[Expr]:
        """All expressions, in text order."""
        found: list[Expr | None] = []
        for item in self.items:
            if isinstance(item, Register):
                found += [item.like, item.initial]
            elif isinstance(item, State):
                found.append(item.ignore)
            elif isinstance(item, ArcTable):
                found += item.arrival
            else:
                found += [item.when, *(s.value for s in item.sets), *(e.value for e in item.emits)]
        return [expr for expr in found if expr is not None]


class AutomatonParser:
    """Parses the items after ``AUTOMATON (``, up to its closing parenthesis."""

    def __init__(self, cursor: Cursor) -> None:
        self.c = cursor
        self.expressions = ExpressionParser(cursor)

    def parse(self, start: int) -> Automaton:
        """The automaton whose first word begins at ``start``."""
        c, items = self.c, []
        by_rows = c.take_word("BY")
        if by_rows:
            c.expect_word("ROWS", "after AUTOMATON BY")
        c.expect_op("(", "after AUTOMATON")
        while not c.at_op(")"):
            if c.take_word("REGISTER"):
                items += self.c.listed(self._register)
            elif c.take_word("STATE"):
                items += self.c.listed(self._state)
            elif c.at_word("ARCS", "FROM"):
                items.append(self._table())
            elif c.at_word("ARC"):
                items.append(self._arc())
            else:
                raise c.error("expected REGISTER, STATE, ARC, ARCS FROM or ')' to close AUTOMATON")
        c.expect_op(")", "to close AUTOMATON")
        return Automaton(tuple(items), by_rows, self.c.span(start))

    def _register(self) -> Register:
        c = self.c
        name, span = self.c.name("a name for the register")
        start, kind, like = c.token.start, "", None
        if c.take_word("LIKE"):
            c.expect_op("(", "after LIKE, and the expression whose type the register takes")
            like = self.expressions.parse()
            c.expect_op(")", "to close LIKE")
        else:
            kind = self.expressions.parse_type()
        typed = self.c.span(start)
        return Register(name, kind, self.expressions.parse() if c.take_op("=") else None, like, span, typed)

    def _state(self) -> State:
        c = self.c
        name, span = self.c.name("the name of a state")
        start, final = c.take_word("START"), c.take_word("FINAL")
        ignore = None
        if c.take_word("IGNORE"):
            c.expect_word("WHEN", "after IGNORE")
            ignore = self.expressions.parse()
        return State(name, start, final, ignore, span)

    def _arc(self) -> Arc:
        c, start = self.c, self.c.next().start
        unnamed = c.at_word("FROM") and (c.peek(2).kind == END or (c.peek(2).kind == WORD and c.peek(2).upper == "TO"))
        name, named = (None, Span(0, 0)) if unnamed else self.c.name("FROM, or a name for the arc")
        parameters = None
        if name is not None and c.take_op("("):
            parameters = () if c.at_op(")") else tuple(self.c.listed(self._parameter))
            c.expect_op(")", "to close the parameters")
        head = self.c.span(named.start)
        c.expect_word("FROM", "and the state that the arc leaves")
        source = self.c.name("the state that the arc leaves")
        c.expect_word("TO", "and the state that the arc leads to")
        target = self.c.name("the state that the arc leads to")
        on, when, sets, emits = ROW, None, (), ()
        if c.take_word("ON"):
            on = c.expect_one_of(("EMPTY", "EXPIRY"), "or EMPTY after ON").lower()
        if c.take_word("WHEN"):
            when = self.expressions.parse()
        if c.take_word("SET"):
            sets = tuple(self.c.listed(self._assignment))
        if c.take_word("EMIT"):
            c.expect_op("(", "after EMIT")
            emits = tuple(self.c.listed(self._emitted))
            c.expect_op(")", "to close EMIT")
        return Arc(source, target, (source[0], target[0]), name, on, when, sets, emits, parameters, self.c.span(start), named, head)

    def _parameter(self) -> Parameter:
        name, span = self.c.name("a name for the parameter")
        start = self.c.token.start
        kind = self.expressions.parse_type()
        return Parameter(name, kind, span, self.c.span(start))

    def _table(self) -> ArcTable:
        c, start = self.c, self.c.next().start
        c.next()
        begin = c.token.start
        if c.at_op("("):
            self.expressions.skip_parens()
        else:
            self.c.name("a table of arcs, or a query in parentheses,")
            while c.take_op("."):
                self.c.name("the next part of the table's name")
        if c.take_word("AS") or c.token.kind == QUOTED or (c.token.kind == WORD and c.token.upper not in _NO_ALIAS):
            self.c.name("a name for the table of arcs")
        table = self.c.span(begin)
        arrival = tuple(self.c.listed(self.expressions.parse)) if c.take_word("ARRIVAL", "BY") else ()
        return ArcTable(table.of(c.text), arrival, table, self.c.span(start))

    def _assignment(self) -> Assignment:
        name, span = self.c.name("the name of a register")
        self.c.expect_op("=", f"after {name} in SET")
        return Assignment(name, self.expressions.parse(), span)

    def _emitted(self) -> Emitted:
        value = self.expressions.parse()
        self.c.expect_word("AS", "and a name after a value of EMIT")
        name, span = self.c.name("a name for the value")
        return Emitted(value, name, span)


def read_condition(text: str) -> Expr:
    """Parses a fence given as a text of its own. Raises ClauseError."""
    cursor = Cursor(text, tokenize(text))
    return _whole(cursor, ExpressionParser(cursor).parse(), "expected the end of the condition, or an operator")


def read_assignments(text: str) -> tuple[Assignment, ...]:
    """Parses the assignments after SET, given as a text of their own. Raises ClauseError."""
    cursor = Cursor(text, tokenize(text))
    parser = AutomatonParser(cursor)
    return _whole(cursor, tuple(cursor.listed(parser._assignment)), "expected the end of the assignments, a comma or an operator")


def _whole(cursor: Cursor, found, what: str):
    if cursor.token.kind != END:
        raise cursor.error(what)
    return found
