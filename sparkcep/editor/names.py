"""Finds the names of a clause and their places: variables, subsets, states, registers and measures.

Definition, references, rename, hover and symbols of the language server use it. A place is a span in the statement's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sparkcep.clause.automaton import Arc, Automaton, Register, State
from sparkcep.clause.expressions import Expr
from sparkcep.clause.tokens import QUOTED, WORD, Span, Token, name_of, tokenize
from sparkcep.clause.tree import TO_FIRST, TO_LAST, MatchClause
from sparkcep.tools.statements import Place

VARIABLE, SUBSET, STATE, REGISTER, MEASURE = "variable", "subset", "state", "register", "measure"


@dataclass
class Name:
    """A name of a clause.

    Attributes:
        kind: one of the constants above.
        text: the name as its definition writes it, without quotes.
        definition: the place of its definition, or of its first use.
        places: all its places in order.
        expression: its condition or expression, or None.
        about: a subset's variables, a register's type, an arc's states.
    """

    kind: str
    text: str
    definition: Span
    places: list[Span] = field(default_factory=list)
    expression: Span | None = None
    about: str = ""

    def at(self, offset: int) -> Span | None:
        """Returns its place that holds an offset, or ends there."""
        return next((span for span in self.places if span.start <= offset <= span.end), None)


def names(text: str, place: Place, places: Sequence[Place] = ()) -> list[Name]:
    """Returns the names of a clause of ``text``, each kind in the order of the clause. ``places``: all clauses of the text."""
    return _Names(text, place, places).found()


class _Names:
    """Collects names. Variables, subsets and arcs share one namespace, states and registers have their own."""

    def __init__(self, text: str, place: Place, places: Sequence[Place]) -> None:
        self.text = text
        self.places = [place, *places]
        self.clause: MatchClause = place.clause
        self.place = place
        self.tokens = tokenize(text)
        self.by_start = {token.start: i for i, token in enumerate(self.tokens)}
        self.names: dict[tuple[str, str], Name] = {}

    def found(self) -> list[Name]:
        self._variables()
        if self.clause.automaton is not None:
            self._automaton(self.clause.automaton)
        self._measures()
        for expression in self.clause.expressions():
            self._uses(expression)
        for name in self.names.values():
            name.places = sorted({name.definition, *name.places}, key=lambda span: span.start)
        return list(self.names.values())

    def _token(self, start: int) -> Span:
        token = self.tokens[self.by_start[start]]
        return Span(token.start, token.end)

    def _add(self, kind: str, name: str, place: Span, expression: Span | None = None, about: str = "") -> Name:
        known = self.names.setdefault((_space(kind), name.lower()), Name(kind, name, place, [], expression, about))
        known.places.append(place)
        return known

    def _use(self, space: str, name: str, place: Span) -> bool:
        known = self.names.get((space, name.lower()))
        if known is not None:
            known.places.append(place)
        return known is not None

    def _variables(self) -> None:
        clause = self.clause
        for define in clause.defines:
            self._add(VARIABLE, define.variable, self._token(define.span.start), define.condition.span)
        for subset in clause.subsets:
            members = ", ".join(member.name for member in subset.members)
            self._add(SUBSET, subset.name, self._token(subset.span.start), about=members)
        for sequence in clause.sequences:
            self._add(VARIABLE, sequence.name, sequence.name_span, about="a sequence")
        for node in clause.variables():
            self._add(VARIABLE, node.name, node.span)
        for pref in clause.preferences() if clause.pref is not None and clause.pref.sequences else ():
            for (name, _), place in zip(pref.weights, pref.name_spans):
                self._use(VARIABLE, name, place)
        for subset in clause.subsets:
            for member in subset.members:
                self._add(VARIABLE, member.name, self._token(member.span.start))
        if clause.skip is not None and clause.skip.mode in (TO_FIRST, TO_LAST) and clause.skip.target is not None:
            self._use(VARIABLE, clause.skip.target, self._token(clause.skip.span.start))
        for part in clause.approx.parts if clause.approx is not None else ():
            self._weights(part)

    def _weights(self, part: Span) -> None:
        """Finds the variables of WEIGHTS (name weight, ...)."""
        inside = [token for token in self.tokens if part.start <= token.start < part.end and token.text != "~"]
        if inside and inside[0].upper == "WEIGHTS":
            for before, token in zip(inside, inside[1:]):
                if before.text in ("(", ",") and token.kind in (WORD, QUOTED):
                    self._use(VARIABLE, name_of(token), Span(token.start, token.end))

    def _automaton(self, automaton: Automaton) -> None:
        for item in automaton.items:
            if isinstance(item, Register):
                kind = item.type if item.like is None else f"LIKE ({item.like.span.of(self.text)})"
                self._add(REGISTER, item.name, item.span, item.initial.span if item.initial is not None else None, kind)
            elif isinstance(item, State):
                self._add(STATE, item.name, item.span, item.ignore.span if item.ignore is not None else None)
        for item in automaton.items:
            if isinstance(item, Arc):
                if item.name is not None:
                    about = f"{item.ends[0]} to {item.ends[1]}"
                    self._add(VARIABLE, item.name, item.name_span, item.when.span if item.when is not None else None, about)
                for name, span in (item.source, item.target):
                    self._add(STATE, name, span)
                for assignment in item.sets:
                    self._use(REGISTER, assignment.register, assignment.span)

    def _measures(self) -> None:
        for measure in self.clause.measures:
            self._add(MEASURE, measure.name, measure.name_span, measure.expr.span)
        if self.clause.measures:
            for place in self._outside():
                self._use(MEASURE, name_of(place), Span(place.start, place.end))

    def _outside(self) -> Iterator[Token]:
        """Yields the tokens of the statement around the clause that may name its measures."""
        start, end = self._statement()
        alias = self._alias()
        for i in range(start, end):
            token, before, behind = self.tokens[i], self.tokens[max(i - 1, 0)], self.tokens[min(i + 1, len(self.tokens) - 1)]
            if token.kind not in (WORD, QUOTED) or before.upper == "AS" or behind.text in ("(", "."):
                continue
            if any(place.word.start <= token.start <= place.end for place in self.places):
                continue
            if before.text != "." or (alias is not None and name_of(self.tokens[i - 2]).lower() == alias):
                yield token

    def _alias(self) -> str | None:
        """Returns the word after the clause, which qualifies its measures if it is the clause's alias."""
        close = self.by_start[self.place.end]
        behind = [token for token in self.tokens[close + 1 : close + 3] if token.upper != "AS"]
        return name_of(behind[0]).lower() if behind and behind[0].kind in (WORD, QUOTED) else None

    def _statement(self) -> tuple[int, int]:
        """Returns the range of the tokens of the SELECT around the clause: up to parentheses, set operators or semicolons."""
        word = self.by_start[self.place.word.start]
        return word - _inside(self.tokens[:word][::-1], ")", "("), word + _inside(self.tokens[word:], "(", ")")

    def _uses(self, expression: Expr) -> None:
        for node in expression.walk():
            if node.op not in ("col", "star") or not node.value or node.span.start not in self.by_start:
                continue
            first = self._token(node.span.start)
            name = str(node.value[0])
            if len(node.value) > 1 or node.op == "star":
                self._use(VARIABLE, name, first)
            elif not self._use(REGISTER, name, first) and self._is_argument(node.span.start):
                self._use(VARIABLE, name, first)

    def _is_argument(self, start: int) -> bool:
        """Whether the token is the argument of CLASSIFIER, which is a variable."""
        i = self.by_start[start]
        return i > 1 and self.tokens[i - 1].text == "(" and self.tokens[i - 2].upper == "CLASSIFIER"


def _inside(tokens: Sequence[Token], opening: str, closing: str) -> int:
    """Returns the number of tokens before the first one that ends the SELECT around them. Backwards, ``)`` opens a parenthesis."""
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token.text == opening) - (token.text == closing)
        if depth < 0 or (depth == 0 and _separates(token)):
            return i
    return len(tokens)


def _separates(token: Token) -> bool:
    """Whether a token separates two SELECTs."""
    return token.text == ";" or (token.kind == WORD and token.upper in ("UNION", "EXCEPT", "INTERSECT", "MINUS"))


def _space(kind: str) -> str:
    """Returns the namespace of a kind."""
    return VARIABLE if kind == SUBSET else kind
