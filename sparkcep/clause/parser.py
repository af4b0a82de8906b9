"""Parser of the clause between the parentheses of MATCH_RECOGNIZE (LANGUAGE section 1)."""

from __future__ import annotations

from sparkcep.clause.expression import Cursor, Expr, ExpressionParser
from sparkcep.clause.lexer import END, QUOTED, WORD, Span, Token, name_of, tokenize
from sparkcep.clause.pattern import PatternParser
from sparkcep.clause.tree import (
    NEXT_ROW,
    OMIT_EMPTY,
    ONE_ROW,
    PAST_LAST,
    SHOW_EMPTY,
    TO_FIRST,
    TO_LAST,
    WITH_UNMATCHED,
    Approx,
    Define,
    EventSelection,
    MatchClause,
    Measure,
    Preference,
    Skip,
    SortItem,
    Subset,
    Top,
    Window,
)
from sparkcep.errors import LIMIT, ClauseError, error_at

MAX_CLAUSE = 262_144  # characters

_ORDER = "PARTITION BY, ORDER BY, MEASURES, ROWS PER MATCH, AFTER MATCH SKIP, the options and PATTERN, SUBSET, DEFINE"


def parse_clause(text: str) -> MatchClause:
    """The clause whose text is ``text``, as it stands between the parentheses. Raises ClauseError."""
    _check_size(text, 0, len(text))
    cursor = Cursor(text, tokenize(text))
    clause = parse_at(cursor)
    if cursor.token.kind != END:
        raise cursor.error(f"expected the end of the clause; the order is {_ORDER}")
    return clause


def _check_size(text: str, start: int, end: int) -> None:
    if end - start > MAX_CLAUSE:
        raise error_at(
            text,
            start,
            start + 20,
            "CLAUSE_TOO_LARGE",
            f"the clause has {end - start} characters; at most {MAX_CLAUSE} are read. Move long lists into a table and join it",
            LIMIT,
        )


def parse_between(text: str, tokens: list[Token], open_index: int, close_index: int) -> MatchClause:
    """The clause between the parenthesis tokens at the two indexes of the statement's token list."""
    _check_size(text, tokens[open_index].end, tokens[close_index].start)
    close = tokens[close_index]
    inner = tokens[open_index + 1 : close_index] + [Token(END, "", "", close.start, close.start)]
    cursor = Cursor(text, inner)
    clause = parse_at(cursor)
    if cursor.token.kind != END:
        raise cursor.error(f"expected ')' to close MATCH_RECOGNIZE; the order is {_ORDER}")
    return clause


def parse_at(cursor: Cursor) -> MatchClause:
    """Reads one clause from where the cursor stands and leaves it at the first token that is no part of it."""
    try:
        return _ClauseParser(cursor).parse()
    except RecursionError:  # a caller deep in the stack leaves less than the depth limits count on
        raise cursor.error("the clause is nested too deep; flatten it", "CLAUSE_TOO_DEEP", LIMIT) from None


class _ClauseParser:
    def __init__(self, cursor: Cursor) -> None:
        self.c = cursor
        self.expressions = ExpressionParser(cursor)
        self.start = cursor.token.start

    def expr(self) -> Expr:
        return self.expressions.parse()

    def name(self, what: str) -> tuple[str, Span]:
        t = self.c.token
        if t.kind not in (WORD, QUOTED):
            raise self.c.error(f"expected {what}")
        self.c.next()
        return name_of(t), Span(t.start, t.end)

    def span(self, start: int) -> Span:
        return Span(start, self.c.tokens[self.c.i - 1].end)

    def parse(self) -> MatchClause:
        c = self.c
        parts: dict = {
            "partition_by": tuple(self._many("PARTITION", self.expr)),
            "order_by": tuple(self._many("ORDER", self._sort_item)),
            "measures": tuple(self._measures()),
            "rows": self._rows(),
            "skip": self._skip(),
        }
        options: dict = {}
        while True:
            start = c.token.start
            found = self._option()
            if found is None:
                break
            key, value = found
            if key in options:
                raise error_at(c.text, start, c.token.start, "DUPLICATE_OPTION", f"{key.upper()} is written twice")
            options[key] = value
        if "pattern" not in options:
            raise c.error(f"expected PATTERN (...); the order is {_ORDER}")
        parts.update(options)
        parts["subsets"] = tuple(self._subsets())
        parts["defines"] = tuple(self._defines())
        return MatchClause(**parts, text=c.text, span=self.span(self.start))

    def _many(self, word: str, item) -> list:
        if not self.c.take_word(word, "BY"):
            return []
        items = [item()]
        while self.c.take_op(","):
            items.append(item())
        return items

    def _sort_item(self) -> SortItem:
        c = self.c
        expr = self.expr()
        descending = False
        if c.take_word("DESC"):
            descending = True
        else:
            c.take_word("ASC")
        nulls = None
        if c.take_word("NULLS"):
            if c.take_word("FIRST"):
                nulls = True
            else:
                c.expect_word("LAST", "or FIRST after NULLS")
                nulls = False
        return SortItem(expr, descending, nulls)

    def _measures(self) -> list[Measure]:
        c = self.c
        if not c.take_word("MEASURES"):
            return []
        out = []
        while True:
            expr = self.expr()
            c.expect_word("AS", "and a name after the measure's expression")
            name, span = self.name("a name for the measure")
            out.append(Measure(expr, name, span))
            if not c.take_op(","):
                return out

    def _rows(self) -> str:
        c = self.c
        if c.take_word("ONE"):
            self._words("ROW", "PER", "MATCH")
            return ONE_ROW
        if not c.take_word("ALL"):
            return ONE_ROW
        self._words("ROWS", "PER", "MATCH")
        if c.take_word("SHOW"):
            self._words("EMPTY", "MATCHES")
        elif c.take_word("OMIT"):
            self._words("EMPTY", "MATCHES")
            return OMIT_EMPTY
        elif c.take_word("WITH"):
            self._words("UNMATCHED", "ROWS")
            return WITH_UNMATCHED
        return SHOW_EMPTY

    def _words(self, *words: str) -> None:
        for word in words:
            self.c.expect_word(word, f"in ... {' '.join(words)}")

    def _skip(self) -> Skip | None:
        c, start = self.c, self.c.token.start
        if not c.take_word("AFTER"):
            return None
        self._words("MATCH", "SKIP")
        if c.take_word("PAST"):
            self._words("LAST", "ROW")
            return Skip(PAST_LAST, None, self.span(start))
        c.expect_word("TO", "or PAST LAST ROW after AFTER MATCH SKIP")
        if c.at_word("NEXT", "ROW"):
            c.i += 2
            return Skip(NEXT_ROW, None, self.span(start))
        mode = TO_LAST
        nxt = c.peek()
        if c.at_word("FIRST") and self._is_target(nxt):
            c.next()
            mode = TO_FIRST
        elif c.at_word("LAST") and self._is_target(nxt):
            c.next()
        target, span = self.name("a row pattern variable")
        return Skip(mode, target, span)

    def _is_target(self, token: Token) -> bool:
        """Whether FIRST or LAST before ``token`` is the keyword, not a variable of that name."""
        if token.kind == QUOTED:
            return True
        if token.kind != WORD:
            return False
        return token.upper not in ("PATTERN", "EVENT", "WINDOW", "WITHIN", "APPROX", "PREF", "TOP") or self.c.peek(2).upper in (
            "PATTERN", "EVENT", "WINDOW", "WITHIN", "APPROX", "PREF", "TOP",
        )

    # -- options and PATTERN --------------------------------------------------------------------------------

    def _option(self) -> tuple[str, object] | None:
        c, start = self.c, self.c.token.start
        if c.take_word("PATTERN"):
            c.expect_op("(", "after PATTERN")
            if c.at_op(")"):
                raise c.error("expected a row pattern; the empty pattern is written PATTERN (())")
            pattern = PatternParser(c).parse()
            c.expect_op(")", "to close PATTERN")
            return "pattern", pattern
        if c.take_word("EVENT"):
            return "selection", self._selection(start)
        if c.take_word("WINDOW") or c.take_word("WITHIN"):
            return "window", self._window(start)
        if c.take_word("APPROX"):
            return "approx", self._approx(start)
        if c.take_word("PREF"):
            return "pref", self._pref(start)
        if c.take_word("TOP"):
            k = self.expressions.parse_operand()
            scope = None
            if c.take_word("PER"):
                c.expect_word("PARTITION", "after PER")
                scope = "PARTITION"
            elif c.take_word("OVERALL"):
                scope = "OVERALL"
            return "top", Top(k, scope, self.span(start))
        return None

    def _selection(self, start: int) -> EventSelection:
        c = self.c
        c.expect_word("SELECTION", "after EVENT")
        if c.take_word("STRICT"):
            c.expect_word("CONTIGUITY", "after STRICT")
            strategy = "STRICT"
        else:
            c.expect_word("SKIP", "TILL NEXT MATCH, SKIP TILL ANY MATCH or STRICT CONTIGUITY after EVENT SELECTION")
            c.expect_word("TILL", "after SKIP")
            if c.take_word("NEXT"):
                strategy = "NEXT"
            else:
                c.expect_word("ANY", "or NEXT after SKIP TILL")
                strategy = "ANY"
            c.expect_word("MATCH", "to end the event selection strategy")
        report = None
        if c.take_word("FIRST", "MATCH"):
            report = "FIRST"
        elif c.take_word("ALL", "MATCHES"):
            report = "ALL"
        return EventSelection(strategy, report, self.span(start))

    def _window(self, start: int) -> Window:
        c = self.c
        size = self.expressions.parse_operand()
        rows = c.take_word("ROWS")
        slide, slide_rows = None, False
        if c.take_word("SLIDE"):
            slide = self.expressions.parse_operand()
            slide_rows = c.take_word("ROWS")
        return Window(size, rows, slide, slide_rows, self.span(start))

    def _approx(self, start: int) -> Approx:
        c = self.c
        k = self.expressions.parse_operand()
        weights = []
        if c.take_word("WEIGHTS"):
            c.expect_op("(", "after WEIGHTS")
            while True:
                negated = c.take_op("~")
                name, _ = self.name("a row pattern variable or EXTRA")
                weights.append((("~" if negated else "") + name, self.expressions.parse_operand()))
                if not c.take_op(","):
                    break
            c.expect_op(")", "to close WEIGHTS")
        report = None
        if c.take_word("PROXY", "MATCHES"):
            report = "PROXY"
        elif c.take_word("ALL", "MATCHES"):
            report = "ALL"
        elif c.take_word("MATCH", "BUNDLES"):
            report = "BUNDLES"
        return Approx(k, tuple(weights), report, self.span(start))

    def _pref(self, start: int) -> Preference:
        c = self.c
        objectives = []
        while True:
            if c.take_word("MAX"):
                direction = "MAX"
            else:
                c.expect_word("MIN", "or MAX in PREF")
                direction = "MIN"
            c.expect_op("(", f"after {direction}")
            objectives.append((direction, self.expr()))
            c.expect_op(")", f"to close {direction}(")
            if not c.take_word("AND"):
                break
        combine = None
        if c.take_word("COMBINE"):
            c.expect_word("BY", "after COMBINE")
            if c.token.upper not in ("SUM", "AVG", "MIN", "MAX", "PRODUCT"):
                raise c.error("expected SUM, AVG, MIN, MAX or PRODUCT after COMBINE BY")
            combine = c.next().upper
        return Preference(tuple(objectives), combine, self.span(start))

    # -- SUBSET, DEFINE -------------------------------------------------------------------------------------

    def _subsets(self) -> list[Subset]:
        c, out = self.c, []
        if not c.take_word("SUBSET"):
            return out
        while True:
            start = c.token.start
            name, _ = self.name("a name for the subset")
            c.expect_op("=", "after the subset's name")
            c.expect_op("(", "before the subset's variables")
            members = [self.name("a row pattern variable")]
            while c.take_op(","):
                members.append(self.name("a row pattern variable"))
            c.expect_op(")", "to close the subset")
            out.append(Subset(name, tuple(members), tuple(m for m, _ in members), self.span(start)))
            if not c.take_op(","):
                return out

    def _defines(self) -> list[Define]:
        c, out = self.c, []
        if not c.take_word("DEFINE"):
            return out
        while True:
            name, span = self.name("a row pattern variable")
            c.expect_word("AS", f"after {name} in DEFINE")
            out.append(Define(name, self.expr(), span))
            if not c.take_op(","):
                return out


__all__ = ["ClauseError", "parse_at", "parse_between", "parse_clause"]
