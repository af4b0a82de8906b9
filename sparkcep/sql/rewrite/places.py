"""Source map: finds the position in the user's statement of a part of the rewritten statement.

Errors of ``spark.sql`` and the rewrite service use it. Spark's errors name positions in the text that Spark received. Outside the
clauses that text is the user's own, so offsets map exactly. The text that replaced a clause contains the user's expressions, copied
by their spans with small changes: variables before column names and navigations are left out. So the tokens at a position are
searched in the user's expressions of the column that is computed there. Of several occurrences, the one whose neighbouring tokens
agree best is chosen.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from sparkcep.clause.automaton import Automaton, Parameter, Register
from sparkcep.clause.expressions import Expr
from sparkcep.clause.tokens import OP, QUOTED, WORD, Span, Token, name_of, tokenize, unquoted
from sparkcep.plan.scope import AGGREGATES, NAVIGATIONS
from sparkcep.plan.split.fallible import may_fail, pieces, spoken
from sparkcep.sql.rewrite.rewritten import Rewritten

if TYPE_CHECKING:
    from sparkcep.clause.tree import Define, MatchClause

_INNER = re.compile(r"__[poclawu]\d+\b|__letters\b|__d\d+\b")  # columns that the rewriter names
_KEY = re.compile(r"__[po]\d+\b")
REGISTER_FIELD = "__register"  # a field in a column that reveals whether the table has a column of a register's name
_LEAF = "?"  # represents a value of the match among the tokens of a measure
_FAR = 24  # the tokens on either side that are compared


class Places:
    """The source map of one statement: its ``text``, the ``rewritten`` text that Spark receives, and the clauses that connect them.

    If ``text`` differs from the ``user``'s text, ``back`` maps its offsets to that text. ``restored`` says whether Spark already
    names positions in the user's text.
    """

    def __init__(self, text: str, rewritten: str, clauses: list[Rewritten], user: str | None = None, back: Callable[[int], int] = int) -> None:
        self.text = text
        self.rewritten = rewritten
        self.user = text if user is None else user
        self.restored = False
        self._back = back
        self._clauses = list(map(_Clause, clauses))
        self._regions: dict[Span, list[_Clause]] = {}

    def find(self, start: int, end: int) -> Span:
        """Returns the source of ``rewritten[start:end]``. Returns the whole clause if the user did not write that part."""
        return self._own(self._in(Span(0, len(self.text)), start, max(start, end - 1)))

    def key_at(self, span: Span, name: str) -> Span | None:
        """Returns the key of PARTITION BY or ORDER BY that the clause around ``span`` calls ``name``.

        Returns None if there is none.
        """
        clause = self._clause(span)
        key = clause._key(name) if clause is not None and _KEY.fullmatch(name) else None
        return None if clause is None or key is None else self._own(clause.of.origin.place(key))

    def _own(self, span: Span) -> Span:
        return Span(self._back(span.start), self._back(span.end))

    def named(self, message: str) -> str:
        """Returns ``message`` with the rewriter's column names replaced by the expressions they represent."""
        message = message.replace("__auto_generated_subquery_name.", "")  # Spark's own prefix
        if not _INNER.search(message):
            return message
        meant: dict[str, set[str]] = {}
        for clause in self._clauses:
            for name, text in clause.texts.items():
                meant.setdefault(name, set()).add(spoken(text))
        # A name with different meanings in different clauses is not replaced.
        known = {name: next(iter(texts)) for name, texts in meant.items() if len(texts) == 1}
        return _INNER.sub(lambda m: known.get(m[0], m[0]), message)

    def outermost(self) -> list[MatchClause]:
        """Returns the clauses that are not inside another clause."""
        return [clause.of.clause for clause in self._parts(Span(0, len(self.text)))]

    def clause_at(self, span: Span) -> MatchClause | None:
        """Returns the innermost clause around a result of :meth:`find`."""
        clause = self._clause(span)
        return None if clause is None else clause.of.clause

    def around(self, span: Span) -> tuple[Span, Span] | None:
        """Returns the innermost clause around a position, with its table, and the table alone."""
        spans = [(self._own(clause.of.origin.whole), self._own(clause.of.origin.table)) for clause in self._clauses]
        return min((found for found in spans if found[0].holds(span)), key=lambda found: found[0].end - found[0].start, default=None)

    def condition_at(self, span: Span) -> Define | None:
        """Returns the DEFINE whose whole condition is at ``span``."""
        clause = self._clause(span)
        defines = clause.of.clause.defines if clause is not None else ()
        return next((d for d in defines if self._own(clause.of.origin.place(d.condition.span)) == span), None)

    def clock_at(self, span: Span) -> tuple[Span, str] | None:
        """Returns the time after AS OF, if all of its clause is at ``span``, and the text of the first ORDER BY expression."""
        clause = self._clause(span)
        shown = clause.of.clause.unfinished if clause is not None else None
        if clause is None or shown is None or shown.as_of is None or span != self._own(clause.of.origin.whole):
            return None
        own = self._own(clause.of.origin.place(shown.as_of.span))
        return own, clause.of.clause.order_by[0].expr.span.of(clause.of.clause.text)

    def within_condition(self, span: Span) -> bool:
        """Whether a position is inside the condition of a variable."""
        clause = self._clause(span)
        conditions = [] if clause is None else [self._own(clause.of.origin.place(d.condition.span)) for d in clause.of.clause.defines]
        return any(own.holds(span) for own in conditions)

    def column_at(self, name: str) -> Span | None:
        """Returns the expression of the rewriter's column ``name``. Returns None if no clause, or more than one, has it."""
        found = []
        for clause in self._clauses:
            span = clause._key(name) if _KEY.fullmatch(name) else clause._whole(name)
            found += [] if span is None else [self._own(clause.of.origin.place(span))]
        return found[0] if len(found) == 1 else None

    def register_at(self, span: Span) -> str | None:
        """Returns the name of the register or parameter that is declared at ``span``."""
        clause = self._clause(span)
        automaton = clause.of.clause.automaton if clause is not None else None
        return next((r.name for r in _declared(automaton) if self._own(clause.of.origin.place(r.span)) == span), None)

    def word_at(self, span: Span) -> tuple[str, str] | None:
        """Returns the word at ``span`` that was not read as a column, and the sequence if it is the name of an objective."""
        clause = self._clause(span)
        text = clause.of.clause.text if clause is not None else ""
        words = clause.of.clause.no_columns() if clause is not None else ()
        return next(((unquoted(w.of(text)), of) for w, of in words if self._own(clause.of.origin.place(w)) == span), None)

    def _clause(self, span: Span) -> _Clause | None:
        def around(clause: _Clause) -> bool:
            origin = clause.of.origin
            return self._own(origin.whole).holds(span) and not self._own(origin.table).holds(span)

        return min(filter(around, self._clauses), key=lambda c: c.of.origin.whole.end - c.of.origin.whole.start, default=None)

    # -- from the whole to the parts ------------------------------------------------------------------------

    def _parts(self, region: Span) -> list[_Clause]:
        if region not in self._regions:
            self._regions[region] = self._outermost(region)
        return self._regions[region]

    def _outermost(self, region: Span) -> list[_Clause]:
        """Returns the clauses of a part of the statement that are in no other clause of it, in text order."""
        inside = [c for c in self._clauses if region.holds(c.of.origin.whole)]
        outer = [c for c in inside if not any(o is not c and o.of.origin.whole.holds(c.of.origin.whole) for o in inside)]
        return sorted(outer, key=lambda c: c.of.origin.whole.start)

    def _at(self, region: Span, offset: int) -> tuple[int, _Clause | None]:
        """Finds ``offset`` of a part's rewritten text: an offset of the statement, or a clause and the offset in its text."""
        shift = region.start  # from the rewritten text to the statement
        for clause in self._parts(region):
            whole, size = clause.of.origin.whole, len(clause.of.sql)
            begin = whole.start - shift
            if offset < begin:
                break
            if offset < begin + size:
                return offset - begin, clause
            shift += (whole.end - whole.start) - size
        return offset + shift, None

    def _in(self, region: Span, first: int, last: int) -> Span:
        start, one = self._at(region, first)
        end, other = self._at(region, last)
        if one is None or other is None or one is not other:
            begin = start if one is None else one.of.origin.whole.start
            return Span(begin, end + 1 if other is None else other.of.origin.whole.end)
        table = one.table_at(start, end)
        if table is not None:
            return self._in(one.of.origin.table, start - table, end - table)
        found = one.find(start, end + 1)
        return one.of.origin.whole if found is None else one.of.origin.place(found)


class _Clause:
    """One clause with its tokens, and the tokens of its rewritten text. Both are tokenised on demand."""

    def __init__(self, of: Rewritten) -> None:
        self.of = of
        self._known: dict[tuple[Span, bool], list[tuple[str, Span]]] = {}

    # -- the rewritten text ---------------------------------------------------------------------------------

    def table_at(self, first: int, last: int) -> int | None:
        """Returns the start of the table's text that contains both offsets, or None."""
        size = len(self.of.source)
        return next((begin + self.of.origin.lead for begin in self._tables if begin <= first and last < begin + size), None)

    @cached_property
    def _tables(self) -> list[int]:
        """Returns the offsets of the table's text in the rewritten text."""
        return [m.start(1) for m in re.finditer(rf"\bFROM ({re.escape(self.of.source)})(?![\w.])", self.of.sql)]

    @cached_property
    def _tokens(self) -> list[Token]:
        return tokenize(self.of.sql)[:-1]

    @cached_property
    def _starts(self) -> list[int]:
        return [t.start for t in self._tokens]

    def find(self, start: int, end: int) -> Span | None:
        """Returns the position in the clause's text that ``sql[start:end]`` came from, or None."""
        tokens = self._tokens
        i, j = bisect_left(self._starts, start), bisect_left(self._starts, end)
        if i >= j:
            return None
        if [t.text for t in tokens[i + 1 : i + 4]] == [".", REGISTER_FIELD, "."]:
            name = name_of(tokens[i])
            return next((r.span for r in _declared(self.of.clause.automaton) if r.name == name), None) or self._word(name)
        key = next((t.text for t in tokens[i:j] if _KEY.fullmatch(t.text)), None)
        if key is not None:
            return self._key(key)
        asked = self._asked(self.of.sql[start:end])
        if asked is not None:
            return asked.condition.span
        name = self._computed(j)
        found = self._search(self._expressions(name), i, j)
        if found is None and name is not None:
            found = self._whole(name)
        return found

    def _word(self, name: str) -> Span | None:
        """Returns the first occurrence of a word that was not read as a column."""
        return next((span for span, _ in self.of.clause.no_columns() if unquoted(span.of(self.of.clause.text)) == name), None)

    def _key(self, name: str) -> Span | None:
        clause, at = self.of.clause, int(name[3:])
        keys = clause.partition_by if name[2] == "p" else [item.expr for item in clause.order_by]
        return keys[at].span if at < len(keys) else None

    def _computed(self, j: int) -> str | None:
        """Returns the name of the column whose expression ends at or after token ``j``: the name after the expression's AS."""
        depth, tokens = 0, self._tokens
        for k in range(j, len(tokens) - 1):
            t, name = tokens[k], tokens[k + 1]
            if t.kind == OP and t.text in "([":
                depth += 1
            elif t.kind == OP and t.text in ")]":
                depth -= 1
            elif t.upper == "AS" and t.kind == WORD and depth <= 0 and (name.kind == QUOTED or _INNER.fullmatch(name.text)):
                return name_of(name)
            elif depth <= 0 and t.kind == WORD and t.upper == "FROM":
                return None
        return None

    # -- the clause's own text ------------------------------------------------------------------------------

    def _expressions(self, name: str | None) -> list[tuple[Expr, bool]]:
        """Returns the user's expressions that a computed column may come from, each with whether match values are columns in it."""
        clause = self.of.clause
        if name is not None and _KEY.fullmatch(name):
            return [(e, False) for e in self._all if e.span == self._key(name)]
        if name == "__letters":
            return [(e, False) for e in (*(d.condition for d in clause.defines), *self._of_arcs)]
        measures = [(m.expr, True) for m in clause.measures if m.name == name]
        return measures or [(e, False) for e in self._all]

    @cached_property
    def _all(self) -> list[Expr]:
        clause = replace(self.of.clause, unfinished=None)  # clock_at finds the time of AS OF by its clause
        tables = clause.automaton.tables if clause.automaton is not None else ()
        return [*clause.expressions(), *(Expr("subquery", item.text, (), frozenset(), item.table) for item in tables)]

    @property
    def _of_arcs(self) -> list[Expr]:
        automaton = self.of.clause.automaton
        return [] if automaton is None else automaton.expressions()

    @cached_property
    def _variables(self) -> frozenset[str]:
        names = [*self.of.plan.variables, *(s.name for s in (*self.of.clause.subsets, *self.of.clause.sequences))]
        return frozenset(name.lower() for name in names)

    def _kept(self, expr: Expr, of_match: bool) -> list[tuple[str, Span]]:
        """Returns the cached result of ``_read``."""
        key = expr.span, of_match
        if key not in self._known:
            self._known[key] = self._read(expr, of_match)
        return self._known[key]

    def _read(self, expr: Expr, of_match: bool) -> list[tuple[str, Span]]:
        """Returns the tokens of an expression that its copy contains too, each with its span.

        With ``of_match`` each value of the match is one token.
        """
        text = self.of.clause.text
        dropped: list[Span] = []
        leaves: list[Span] = []
        nodes = list(expr.walk())
        clause = self.of.clause
        # In a key, qualifiers are tables.
        key = expr.span in (e.span for e in (*clause.partition_by, *(s.expr for s in clause.order_by)))
        for node in nodes:
            above = self._above(node) if of_match else None
            if above is not None:
                dropped += [Span(node.span.start, above.span.start), Span(above.span.end, node.span.end)]
                leaves += [piece.span for piece in pieces(above, self.of.plan.ansi)]
                continue
            leaf = node.op == "call" and (node.value in NAVIGATIONS or node.value in AGGREGATES or node.value in ("CLASSIFIER", "MATCH_NUMBER"))
            if of_match and (leaf or node.op == "col"):
                if not any(span.holds(node.span) for span in leaves):
                    leaves.append(node.span)
            elif node.op == "col" and len(node.value) > 1 and node.value[0].lower() in self._variables and not key:
                dropped.append(Span(node.span.start, text.index(".", node.span.start) + 1))
            elif node.op == "call" and node.value in NAVIGATIONS and node.args:
                dropped += [Span(node.span.start, node.args[0].span.start), Span(node.args[0].span.end, node.span.end)]
        out: list[tuple[str, Span]] = []
        for t in tokenize(text[expr.span.start : expr.span.end])[:-1]:
            span = Span(t.start + expr.span.start, t.end + expr.span.start)
            leaf_span = next((s for s in leaves if s.holds(span)), None)
            if leaf_span is not None:
                if not out or out[-1][1] != leaf_span:
                    out.append((_LEAF, leaf_span))
            elif t.text not in ("(", ")") and not any(s.holds(span) for s in dropped):
                out.append((t.text, span))
        return out

    def _above(self, node: Expr) -> Expr | None:
        """Returns the expression of a navigation that Spark computes above the engine, because it may fail; else None."""
        if node.op != "call" or node.value not in NAVIGATIONS or not node.args:
            return None
        body = node.args[0]
        while body.bare().op == "call" and body.bare().value in NAVIGATIONS and body.bare().args:
            body = body.bare().args[0]
        apart = any(n.op == "call" and n.value == "CLASSIFIER" for n in body.walk())
        return body if not apart and may_fail(body, self.of.plan.ansi) else None

    def _search(self, expressions: list[tuple[Expr, bool]], i: int, j: int) -> Span | None:
        """Finds the tokens ``i`` to ``j`` (exclusive) in one of the expressions, where most tokens around them agree."""
        best: tuple[int, Span, Expr, list[tuple[str, Span]]] | None = None
        for expr, of_match in expressions:
            kept = self._kept(expr, of_match)
            wanted = self._copied(i, j, of_match)
            if not wanted:
                return None
            if len(wanted) > len(kept):
                continue
            texts, size = [t for t, _ in kept], len(wanted)
            before, behind = self._copied(max(0, i - _FAR), i, of_match)[::-1], self._copied(j, j + _FAR, of_match)
            for k in range(len(texts) - size + 1):
                if texts[k] != wanted[0] or texts[k : k + size] != wanted:
                    continue
                if _dot(texts[:k][-1:]) == _dot(before[:1]) and _dot(texts[k + size :][:1]) == _dot(behind[:1]):
                    score = _agreeing(before, texts[:k][::-1]) + _agreeing(behind, texts[k + size :])
                    if best is None or score > best[0]:
                        best = score, Span(kept[k][1].start, kept[k + size - 1][1].end), expr, kept
        return None if best is None else self._widened(*best[1:])

    def _copied(self, i: int, j: int, of_match: bool) -> list[str]:
        return [t for t in (self._leaves if of_match else self._words)[i:j] if t]

    @cached_property
    def _words(self) -> list[str]:
        """Returns the rewritten tokens in the form that is compared. Parentheses are empty."""
        return ["" if t.text in ("(", ")") else t.text for t in self._tokens]

    @cached_property
    def _leaves(self) -> list[str]:
        return [_LEAF if _INNER.fullmatch(t) else t for t in self._words]

    def _widened(self, span: Span, expr: Expr, kept: list[tuple[str, Span]]) -> Span:
        """Returns the smallest expression whose copy has exactly these tokens.

        It includes its parentheses, and parts at its ends that were left out of the copy.
        """
        around = sorted((n.span for n in expr.walk() if n.span.holds(span)), key=lambda s: s.end - s.start)
        return next((node for node in around if all(span.holds(s) for _, s in kept if node.holds(s))), span)

    # -- names ----------------------------------------------------------------------------------------------

    @cached_property
    def texts(self) -> dict[str, str]:
        """Returns the user's words for the rewriter's columns."""
        clause, plan = self.of.clause, self.of.plan
        out = dict(plan.inputs)
        for i, e in enumerate(clause.partition_by):
            out[f"__p{i}"] = e.span.of(clause.text)
        for i, item in enumerate(clause.order_by):
            out[f"__o{i}"] = item.expr.span.of(clause.text)
        computed = dict(plan.outputs)
        for measure in clause.measures:
            kept = self._kept(measure.expr, True)
            shown = [t.text for t in tokenize(computed.get(measure.name, ""))[:-1] if t.text not in ("(", ")")]
            for (own, span), copy in zip(kept, shown):
                if own == _LEAF and _INNER.fullmatch(copy):
                    out.setdefault(copy, span.of(clause.text))
                elif own != copy:
                    break
        return out

    def _whole(self, name: str) -> Span | None:
        """Returns the whole expression that a computed column belongs to."""
        clause, plan = self.of.clause, self.of.plan
        for measure in clause.measures:
            if measure.name == name:
                return measure.expr.span
        users = {name}
        for column, text in [*plan.leaves, *plan.over_arrays, *plan.arrays, *plan.aggregates]:
            if users & set(_INNER.findall(str(text))):
                users.add(column)
        for measure, (_, text) in zip(clause.measures, plan.outputs):
            if users & set(_INNER.findall(text)):
                return measure.expr.span
        looked_at = {condition.variable for condition in plan.conditions if name in _INNER.findall(str(condition.trees))}
        for define in clause.defines:
            if self._id(define) in looked_at:
                return define.condition.span
        return None

    def _id(self, define: Define) -> int:
        return [v.lower() for v in self.of.plan.variables].index(define.variable.lower())

    def _asked(self, fragment: str) -> Define | None:
        """Returns the DEFINE whose row-local condition this CASE computes, or None."""
        if self.of.plan.automaton is not None:
            return None
        for variable, bit, text in self.of.plan.letters:
            if fragment.startswith(f"CASE WHEN {text} THEN {1 << bit}"):
                return next(d for d in self.of.clause.defines if self._id(d) == variable)
        return None


def _declared(automaton: Automaton | None) -> list[Register | Parameter]:
    """Returns the registers and parameters of a clause."""
    if automaton is None:
        return []
    return [*automaton.registers, *(parameter for arc in automaton.arcs for parameter in arc.parameters or ())]


def _dot(tokens: list[str]) -> bool:
    """Whether a qualified name continues at this token."""
    return tokens == ["."]


def _agreeing(one: list[str], other: list[str]) -> int:
    """Returns the length of the common prefix of two lists."""
    return next((k for k, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
