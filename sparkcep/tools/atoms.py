"""Splits a clause into the pieces that a formatter moves: keywords, names, expressions and comments.

``tools/fmt`` uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sparkcep.clause import nodes
from sparkcep.clause.expressions import Expr
from sparkcep.clause.tokens import WORD, Span, Token, tokenize
from sparkcep.clause.tree import TO_FIRST, TO_LAST, MatchClause
from sparkcep.tools.statements import Place, comments

KEYWORD, NAME, EXPRESSION, PATTERN, COMMENT = "keyword", "name", "expression", "pattern", "comment"
_SECTIONS = frozenset("PARTITION ORDER MEASURES ONE ALL AFTER EVENT PATTERN AUTOMATON WINDOW WITHIN LIFETIME CHANGES REPORT SPECULATE APPROX SEQUENCE PREF TOP SUBSET DEFINE".split())


@dataclass
class Atom:
    """A piece of a clause.

    Attributes:
        text: its text as it is printed.
        kind: KEYWORD, NAME, EXPRESSION, PATTERN or COMMENT.
        gap: the space before it in the source: "", a blank or a line break.
        begins: whether it begins a section.
        part: the number of the expression that it belongs to, if any.
    """

    text: str
    kind: str
    gap: str
    begins: bool = False  # a section
    part: int | None = None

    @property
    def ends_line(self) -> bool:
        return self.kind == COMMENT and self.text.startswith("--")

    @property
    def own_line(self) -> bool:
        """Whether it is a comment that begins its line."""
        return self.kind == COMMENT and self.gap == "\n"


@dataclass
class _Roles:
    """The roles of tokens in the parsed clause."""

    expressions: list[Span] = field(default_factory=list)
    verbatim: list[Span] = field(default_factory=list)  # text with significant blanks
    names: set[int] = field(default_factory=set)  # starts of tokens that are names
    named: list[Span] = field(default_factory=list)  # spans whose words are all names
    options: list[Span] = field(default_factory=list)  # only their first word begins a section
    sequences: list[Span] = field(default_factory=list)  # from the name of a sequence


def atoms(text: str, place: Place) -> list[Atom]:
    """Returns the clause's tokens in order, with the comments between them."""
    roles = _roles(place.clause)
    out: list[Atom] = []
    at, depth, in_pattern = place.start, 0, False
    inside = [t for t in tokenize(text[: place.end]) if place.start <= t.start and t.text]
    opening = {next(t.start for t in inside if t.start > span.start and t.text == "(") for span in roles.sequences}
    for span, token in _joined(text, inside, roles.verbatim):
        gap = _add_comments(text, at, span.start, out)
        part = next((i for i, e in enumerate(roles.expressions) if e.start <= span.start < e.end), None)
        if part is not None:
            kind = EXPRESSION
        elif in_pattern and token.kind != WORD or span.start in roles.names:
            kind = PATTERN if in_pattern else NAME
        else:
            kind = NAME if token.kind != WORD or _inside(span, roles.named) else KEYWORD
        begins = (
            kind == KEYWORD
            and depth == 0
            and token.upper in _SECTIONS
            and not any(o.start < span.start < o.end for o in roles.options)
        )
        words = token.upper if kind == KEYWORD else text[span.start : span.end]
        out.append(Atom(words, kind, gap, begins, part))
        if part is None:
            opened = token.text == "(" and span.end == token.end
            of_pattern = len(out) > 1 and out[-2].begins and out[-2].text == "PATTERN"
            in_pattern = in_pattern or (opened and depth == 0 and (of_pattern or span.start in opening))
            depth += opened - (token.text == ")")
            in_pattern = in_pattern and depth > 0
        at = span.end
    _add_comments(text, at, place.end, out)
    return out


def _joined(text: str, tokens: list[Token], verbatim: list[Span]) -> Iterator[tuple[Span, Token]]:
    """Yields the spans of the atoms, each with its first token.

    A verbatim text, ``{-``, ``-}`` and any other token are one atom each.
    """
    i = 0
    while i < len(tokens):
        token = tokens[i]
        end = token.end
        whole = [s.end for s in verbatim if s.start <= token.start < s.end]
        if whole:
            end = max(whole)
        elif text[token.start : token.start + 2] in ("{-", "-}") and not any(s.start == token.start for s in verbatim):
            end = token.start + 2
        yield Span(token.start, end), token
        while i < len(tokens) and tokens[i].start < end:
            i += 1


def _add_comments(text: str, start: int, end: int, out: list[Atom]) -> str:
    """Adds the comments of a gap to ``out``. Returns the space between the last comment and the next token."""
    at = start
    for comment in comments(text, start, end):
        before = _gap(text[at : comment.start])
        words = comment.of(text).rstrip()
        # A backslash at the end of a line would continue the comment.
        out.append(Atom(words + " " * words.endswith("\\"), COMMENT, before))
        at = comment.end
    return _gap(text[at:end])


def _gap(blanks: str) -> str:
    return "\n" if "\n" in blanks else " " if blanks else ""


def _inside(span: Span, spans: list[Span]) -> bool:
    return any(s.start <= span.start < s.end for s in spans)


def _roles(clause: MatchClause) -> _Roles:
    r = _Roles()
    # the text of a key names its column in the result
    r.verbatim += [key.span for key in (*clause.partition_by, *(item.expr for item in clause.order_by))]
    expressions = clause.expressions()
    for node in (n for pattern in (clause.pattern, *(s.pattern for s in clause.sequences)) for n in nodes.walk(pattern)):
        if isinstance(node, nodes.Within):
            expressions.append(node.size)
            if node.rows:
                r.options.append(Span(node.size.span.end, node.span.end))
        elif isinstance(node, nodes.Var):
            r.names.add(node.span.start)
    r.names |= {m.name_span.start for m in clause.measures} | {d.span.start for d in clause.defines}
    r.named += [s.span for s in clause.subsets]
    if clause.skip is not None:
        if clause.skip.mode in (TO_FIRST, TO_LAST):
            r.names.add(clause.skip.span.start)
        else:
            r.options.append(clause.skip.span)
    if clause.window is not None:
        expressions += [e for e in (clause.window.size, clause.window.slide) if e is not None]
    if clause.speculate is not None and clause.speculate.size is not None:
        expressions.append(clause.speculate.size)
    if clause.automaton is not None:
        r.names |= {span.start for span in clause.automaton.name_spans()}
        texts = (*clause.automaton.type_spans(), *clause.automaton.verbatim())
        r.verbatim += texts
        r.named += texts
    if clause.approx is not None:
        expressions += [clause.approx.k, *(w for _, w in clause.approx.weights)]
        if clause.approx.weights:
            r.named.append(_weights(clause))
        expressions += [clause.approx.intervals] if clause.approx.intervals is not None else []
        if clause.approx.budget is not None:
            used = clause.approx.budget.history
            expressions.append(clause.approx.budget.amount)
            if used is not None:
                expressions += [*used.sketch, *([used.bundles] if used.bundles is not None else [])]
                r.verbatim.append(used.table)
                r.named.append(used.table)
    for sequence in clause.sequences:
        expressions += [e for e in (sequence.size, sequence.step) if e is not None]
        r.names.add(sequence.name_span.start)
        r.sequences.append(sequence.name_span)
        r.options.append(sequence.span)
    for pref in clause.preferences():
        expressions += [e for _, e in pref.weights]
        r.names |= {span.start for span in pref.name_spans}
    if clause.top is not None:
        expressions.append(clause.top.k)
    of_automaton = (clause.automaton, clause.lifetime, clause.changes, clause.report, clause.speculate)
    r.options += [o.span for o in (*of_automaton, clause.selection, clause.window, clause.approx, clause.pref, clause.top) if o is not None]
    r.options += clause.approx.parts if clause.approx is not None else ()
    r.expressions += [e.span for e in expressions]
    for expression in expressions:
        r.verbatim += [s for node in expression.walk() if (s := _sliced(clause.text, node)) is not None]
    return r


def _weights(clause: MatchClause) -> Span:
    """Returns the tokens from the parenthesis of WEIGHTS to the last weight. Words among them are variables."""
    text, approx = clause.text, clause.approx
    assert approx is not None
    part = next(span for span in approx.parts if span.holds(approx.weights[0][1].span))
    return Span(part.start + tokenize(part.of(text))[1].start, approx.weights[-1][1].span.end)


def _sliced(text: str, node: Expr) -> Span | None:
    """Returns the part of an expression that the parser keeps as text, or None."""
    if node.op == "cast":
        return Span(node.args[0].span.end, node.span.end)
    if node.op == "subquery" and isinstance(node.value, str) and text.startswith(node.value, node.span.start - 1):
        return Span(node.span.start - 1, node.span.start - 1 + len(node.value))  # the argument of a call, which lacks parentheses
    return node.span if node.op in ("lit", "interval", "subquery") else None
