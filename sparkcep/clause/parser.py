"""Parser of the clause between the parentheses of MATCH_RECOGNIZE, and of its row pattern (LANGUAGE section 1).

It is a recursive descent parser over the statement's tokens. Every node has its span. The rewriter and the tools call it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from sparkcep.clause import nodes, tree
from sparkcep.clause.automaton import AutomatonParser
from sparkcep.clause.diagnose.advice import OPTIONS, advised
from sparkcep.clause.expressions import SUMS, ConstantParser, Cursor, Expr, ExpressionParser
from sparkcep.clause.foreign_expressions import Slices
from sparkcep.clause.possible_columns import uncounted
from sparkcep.clause.tokens import END, NUMBER, OP, QUOTED, WORD, Span, Token, name_of, tokenize
from sparkcep.errors import LIMIT, SEMANTIC, ClauseError, error_at

MAX_CLAUSE = 262_144  # characters
MAX_NESTING = 50  # levels of groups in a row pattern
MAX_BOUND = 1_000_000  # largest bound of a quantifier
_REPORT = "the report of APPROX"
_OF_APPROX = ("weights", _REPORT, "budget")
# words that need AS as the name of a measure: words of expressions, and words that may begin the clause's next part
_NEEDS_AS = frozenset(
    """AFTER ALL AND AS BETWEEN BUDGET BY CASE CAST DEFINE DISTINCT DIV ELSE END FALSE FILTER FINAL FROM IGNORE ILIKE IN INTERVAL IS LIKE MATCH MEASURES NOT NULL NULLS ONE OR ORDER
    PARTITION PROXY RLIKE RUNNING SUBSET THEN TRUE TRY_CAST USING WEIGHTS WHEN WHERE WITH""".split()
) | frozenset(OPTIONS)
VARIABLE, OPTION = "a row pattern variable", "an option"

UNFINISHED = ("UNFINISHED", "TIMEOUT")  # words after SHOW that ask for unfinished matches
_ORDER = "PARTITION BY, ORDER BY, MEASURES, ROWS PER MATCH, AFTER MATCH SKIP, the options and PATTERN, SUBSET, DEFINE"


def parse_clause(text: str, columns: frozenset[str] = frozenset(), parameters: Mapping[str, object] = MappingProxyType({})) -> tree.MatchClause:
    """Parses a clause given as the text between the parentheses.

    ``columns``, ``parameters``: see :class:`Cursor`. Raises ClauseError.
    """
    _check_size(text, 0, len(text))
    return _whole(_ClauseParser(Cursor(text, tokenize(text), columns=columns, parameters=parameters)), "the end of the clause")


def parse_key(text: str, *, ordered: bool) -> Span:
    """The place of a single key of PARTITION BY, or of ORDER BY if ``ordered``, in a text, without comments around it.

    Raises ClauseError if the text is not exactly one key.
    """
    _check_size(text, 0, len(text))
    tokens = tokenize(text)
    cursor = Cursor(text, tokens)
    parser = _ClauseParser(cursor)
    try:
        parser._sort_item() if ordered else parser.expr()
    except RecursionError:
        raise cursor.error("the expression is nested too deep; flatten it", "CLAUSE_TOO_DEEP", LIMIT) from None
    if cursor.token.text == ",":
        raise cursor.error("it has a comma; give several as a list")
    if cursor.token.kind != END:
        raise cursor.error(f"it ends before '{cursor.token.text}'")
    return Span(tokens[0].start, tokens[-2].end)


def parse_between(
    text: str, tokens: list[Token], open_index: int, close_index: int, read: str = "", columns: frozenset[str] = frozenset(),
    parameters: Mapping[str, object] = MappingProxyType({}),
) -> tree.MatchClause:
    """Parses the clause between two parenthesis tokens of a statement.

    Args:
        text: the statement.
        tokens: its tokens.
        open_index, close_index: indexes of the parentheses.
        read: the name of another SQL, "" for Spark's.
        columns, parameters: see :class:`Cursor`.

    Raises:
        ClauseError: for a clause that cannot be read.
    """
    close = tokens[close_index]
    _check_size(text, tokens[open_index].end, close.start)
    inner = tokens[open_index + 1 : close_index] + [Token(END, "", "", close.start, close.start)]
    cursor = Cursor(text, inner, columns=columns, parameters=parameters)
    return _whole(_ForeignClauseParser(cursor) if read else _ClauseParser(cursor), "')' to close MATCH_RECOGNIZE")


def sizes_between(text: str, tokens: list[Token], open_index: int, close_index: int) -> list[Span]:
    """Returns the places of the sizes of WITHIN in the row pattern between two parenthesis tokens of a statement.

    Returns an empty list if the row pattern cannot be read.
    """
    close = tokens[close_index]
    cursor = Cursor(text, tokens[open_index + 1 : close_index] + [Token(END, "", "", close.start, close.start)])
    try:
        return [node.size.span for node in nodes.walk(_PatternParser(cursor).parse()) if isinstance(node, nodes.Within)]
    except (ClauseError, RecursionError):  # reported when the whole clause is parsed
        return []


def read_begun(cursor: Cursor) -> None:
    """Parses an unfinished clause as far as its tokens go. The cursor records what could come next (for completion)."""
    try:
        _ClauseParser(cursor).parse()
    except (ClauseError, RecursionError):  # the text is incomplete or wrong; the cursor has recorded the possible continuations already
        return


def _check_size(text: str, start: int, end: int) -> None:
    if end - start > MAX_CLAUSE:
        message = f"the clause has {end - start} characters; at most {MAX_CLAUSE} are read"
        raise error_at(text, start, start + 20, "CLAUSE_TOO_LARGE", f"{message}. Move long lists into a table and join it", LIMIT)


def _whole(parser: _ClauseParser, end: str) -> tree.MatchClause:
    """Parses the clause that all tokens of the parser's cursor form."""
    cursor = parser.c
    try:
        clause = parser.parse()
        if cursor.token.kind != END:
            raise cursor.error(f"expected {end}; the order is {_ORDER}")
        return clause if isinstance(parser.expressions, Slices) else replace(clause, words=uncounted(clause.expressions(), cursor.tokens), parameters=cursor.parameters)
    except ClauseError as error:
        raise advised(cursor, error) from None
    except RecursionError:  # a caller deep in the stack leaves less room than the depth limits assume
        raise cursor.error("the clause is nested too deep; flatten it", "CLAUSE_TOO_DEEP", LIMIT) from None


class _ClauseParser:
    def __init__(self, cursor: Cursor, expressions: ExpressionParser | Slices | None = None) -> None:
        self.c = cursor
        self.expressions = expressions or ExpressionParser(cursor)
        self.expr = self.expressions.parse

    def parse(self) -> tree.MatchClause:
        c, start = self.c, self.c.token.start
        parts: dict = {
            "partition_by": self._many("PARTITION", "BY", item=self.expr),
            "order_by": self._many("ORDER", "BY", item=self._sort_item),
            "measures": self._many("MEASURES", item=self._measure),
            **self._shown(),
            "skip": self._skip(),
        }
        options: dict = {}
        sequences: list[tree.Sequence] = []
        last, beside = "", []
        while True:
            begin = c.token.start
            c.may_be(OPTION)
            found = self._option()
            if found is None:
                break
            key, value = found
            if key == "sequence":
                sequences.append(value)
                last = key
                continue
            if key in options:
                raise error_at(c.text, begin, c.span(begin).end, "DUPLICATE_OPTION", f"{key.upper() if key != _REPORT else _REPORT} is written twice")
            options[key] = value
            beside += [c.span(begin)] if key in _OF_APPROX else []
            if key in _OF_APPROX and last in ("approx", *_OF_APPROX) and "approx" in options:
                options["approx"] = replace(options["approx"], span=c.span(options["approx"].span.start))
            last = key
        of_approx = {key: options.pop(key) for key in _OF_APPROX if key in options}
        if of_approx and "approx" in options:
            members = {name: value for part in of_approx.values() for name, value in part.items()}
            options["approx"] = replace(options["approx"], parts=tuple(beside), **members)
        elif of_approx:
            raise self._without_approx(beside[0])
        if "automaton" in options:
            span = options["automaton"].span
            if "pattern" in options:
                raise error_at(c.text, span.start, span.start + 9, "AUTOMATON", "AUTOMATON replaces PATTERN and DEFINE. Leave out one or the other")
            options["pattern"] = nodes.Empty(span=span)
        if "pattern" not in options:
            raise c.error(f"expected PATTERN (...) or AUTOMATON (...); the order is {_ORDER}")
        subsets = self._many("SUBSET", item=self._subset)
        defines = self._many("DEFINE", item=self._define)
        return tree.MatchClause(**parts, **options, sequences=tuple(sequences), subsets=subsets, defines=defines, text=c.text, span=c.span(start))

    def _many(self, *words: str, item: Callable) -> tuple:
        """The items after these words, () if the words do not come next."""
        return tuple(self.c.listed(item)) if self.c.take_word(*words) else ()

    def _sort_item(self) -> tree.SortItem:
        c = self.c
        expr = self.expr()
        descending = c.take_word("DESC")
        if not descending:
            c.take_word("ASC")
        nulls = c.expect_one_of(("FIRST", "LAST"), "or FIRST after NULLS") == "FIRST" if c.take_word("NULLS") else None
        return tree.SortItem(expr, descending, nulls)

    def _measure(self) -> tree.Measure:
        expr = self.expr()
        if self.c.at_word("AS") or not self._named_without_as(expr):
            self.c.expect_word("AS", "and a name after the measure's expression")
        return tree.Measure(expr, *self.c.name("a name for the measure"))

    def _named_without_as(self, expr: Expr) -> bool:
        """Whether the word after a measure's expression is its name, and does not begin the clause's next part."""
        t, behind = self.c.token, self.c.peek()
        if self._at_sequence() or expr.op == "col" and expr.span.of(self.c.text).upper() in ("FINAL", "RUNNING"):
            return False  # a SEQUENCE, or FINAL or RUNNING before a plain column, without FIRST or LAST
        return t.kind == QUOTED or (t.kind == WORD and t.upper not in _NEEDS_AS and behind.text not in ("(", ".", "=") and behind.upper != "AS")

    def _shown(self) -> dict[str, object]:
        """The members of the rows per match, and of the unfinished matches that may be named after them."""
        start = self.c.i
        rows = self._rows()
        return {"rows": rows, "unfinished": self._unfinished() if self.c.i > start else None}

    def _rows(self) -> str:
        c = self.c
        if c.take_word("ONE"):
            self._words("ROW", "PER", "MATCH")
            return tree.ONE_ROW
        if not c.take_word("ALL"):
            return tree.ONE_ROW
        self._words("ROWS", "PER", "MATCH")
        if c.peek().upper != "TIMEOUT" and c.take_word("WITH"):
            self._words("UNMATCHED", "ROWS")
            return tree.WITH_UNMATCHED
        if c.take_word("OMIT"):
            self._words("EMPTY", "MATCHES")
            return tree.OMIT_EMPTY
        if c.take_word("SHOW", "EMPTY"):
            self._words("MATCHES")
        elif c.token.upper == "SHOW" and c.peek().kind != END and c.peek().upper not in UNFINISHED:
            c.next()
            self._words("EMPTY", "MATCHES")
        return tree.SHOW_EMPTY

    def _unfinished(self) -> tree.Unfinished | None:
        c, start = self.c, self.c.token.start
        what = next((word for word in UNFINISHED if c.take_word("SHOW", word)), None)
        if what is None:
            return None
        c.expect_word("MATCHES", f"after SHOW {what}")
        as_of = None
        if c.take_word("AS"):
            c.expect_word("OF", f"and a time after SHOW {what} MATCHES AS")
            if c.at_word("PATTERN") and c.peek().text == "(":
                raise c.error("expected a time after AS OF, such as current_timestamp()")
            as_of = self.expr()
        return tree.Unfinished(what, as_of, c.span(start))

    def _words(self, *words: str) -> None:
        for word in words:
            self.c.expect_word(word, f"in ... {' '.join(words)}")

    def _skip(self) -> tree.Skip | None:
        c, start = self.c, self.c.token.start
        if not c.take_word("AFTER"):
            return None
        self._words("MATCH", "SKIP")
        if c.take_word("PAST"):
            self._words("LAST", "ROW")
            return tree.Skip(tree.PAST_LAST, None, c.span(start))
        c.expect_word("TO", "or PAST LAST ROW after AFTER MATCH SKIP")
        if c.take_word("NEXT", "ROW"):
            return tree.Skip(tree.NEXT_ROW, None, c.span(start))
        first = c.at_word("FIRST")
        keyword = (first or c.at_word("LAST")) and self._is_target(c.peek())
        if keyword:
            c.next()
        return tree.Skip(tree.TO_FIRST if first and keyword else tree.TO_LAST, *self.c.name(VARIABLE))

    def _is_target(self, token: Token) -> bool:
        """Whether FIRST or LAST before ``token`` is the keyword, not a variable of that name."""
        return token.kind in (QUOTED, END) or (token.kind == WORD and (token.upper not in OPTIONS or self.c.peek(2).upper in OPTIONS))

    # -- options and PATTERN --------------------------------------------------------------------------------

    def _at_sequence(self) -> bool:
        """Whether ``SEQUENCE name AS (`` comes next. In all other places SEQUENCE is a name."""
        c = self.c
        if not c.at_word("SEQUENCE"):
            return False
        if c.peek().kind == END or (c.peek().kind in (WORD, QUOTED) and c.peek(2).kind == END):
            return True  # an unfinished text
        return c.peek().kind in (WORD, QUOTED) and c.peek(2).upper == "AS" and (c.peek(3).text == "(" or c.peek(3).kind == END)

    def _option(self) -> tuple[str, object] | None:
        c, start = self.c, self.c.token.start
        if self._at_sequence():
            c.next()
            return "sequence", self._sequence(start)
        if c.take_word("PATTERN"):
            c.expect_op("(", "after PATTERN")
            if c.at_op(")"):
                raise c.error("expected a row pattern; the empty pattern is written PATTERN (())")
            pattern = _PatternParser(c).parse()
            c.expect_op(")", "to close PATTERN")
            return "pattern", pattern
        if c.take_word("AUTOMATON"):
            return "automaton", AutomatonParser(c).parse(start)
        if c.take_word("LIFETIME"):
            c.expect_word("TO", "and an expression after LIFETIME")
            return "lifetime", tree.Lifetime(self.expr(), c.span(start))
        if c.take_word("CHANGES", "IN"):
            return "changes", self._changes(start)
        if c.take_word("REPORT"):
            what = c.expect_one_of(("NET", "CHANGES"), "or NET after REPORT")
            punctuations = c.take_word("WITH")
            if punctuations:
                c.expect_word("PUNCTUATIONS", "after WITH")
            return "report", tree.Report(what, punctuations, c.span(start))
        if c.take_word("SPECULATE"):
            what = "ALL" if c.take_word("ALL") else "NONE" if c.take_word("NONE") else "SIZE"
            return "speculate", tree.Speculate(what, self.expressions.parse_operand() if what == "SIZE" else None, c.span(start))
        if c.take_word("EVENT"):
            return "selection", self._selection(start)
        if c.take_word("WINDOW") or c.take_word("WITHIN"):
            return "window", self._window(start)
        if c.take_word("APPROX"):
            return "approx", tree.Approx(self.expressions.parse_operand(), span=c.span(start))
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
            return "top", tree.Top(k, scope, c.span(start))
        return self._of_approx()

    def _sequence(self, start: int) -> tree.Sequence:
        c, operand = self.c, self.expressions.parse_operand
        name, name_span = c.name("a name for the sequence")
        c.expect_word("AS", "after the name of a SEQUENCE")
        c.expect_op("(", "before the pattern of a SEQUENCE")
        pattern = _PatternParser(c).parse()
        c.expect_op(")", "to close the pattern of a SEQUENCE")
        size = step = None
        rows = step_rows = False
        if c.take_word("WITHIN"):
            size, rows = operand(), c.take_word("ROWS")
            if c.take_word("UPDATE"):
                step, step_rows = operand(), c.take_word("ROWS")
        begin, pref = c.token.start, None
        if c.at_word("PREF") and c.peek().upper in ("MAX", "MIN"):
            c.next()
            pref = self._pref(begin, named=True)
        return tree.Sequence(name, pattern, size, rows, step, step_rows, pref, name_span, c.span(start))

    def _changes(self, start: int) -> tree.Changes:
        c, column = self.c, self.expr()
        arrival = tuple(c.listed(self.expr)) if c.take_word("ARRIVAL", "BY") else ()
        consecutive = self.expr() if c.take_word("CONSECUTIVE", "BY") else None
        punctuate = self.expr() if c.take_word("PUNCTUATE", "BY") else None
        return tree.Changes(column, arrival, consecutive, punctuate, c.span(start))

    def _selection(self, start: int) -> tree.EventSelection:
        c = self.c
        c.expect_word("SELECTION", "after EVENT")
        if c.take_word("STRICT"):
            c.expect_word("CONTIGUITY", "after STRICT")
            strategy = "STRICT"
        else:
            c.expect_word("SKIP", "TILL NEXT MATCH, SKIP TILL ANY MATCH or STRICT CONTIGUITY after EVENT SELECTION")
            c.expect_word("TILL", "after SKIP")
            strategy = c.expect_one_of(("NEXT", "ANY"), "or NEXT after SKIP TILL")
            c.expect_word("MATCH", "to end the event selection strategy")
        report = "FIRST" if c.take_word("FIRST", "MATCH") else "ALL" if c.take_word("ALL", "MATCHES") else None
        return tree.EventSelection(strategy, report, c.span(start))

    def _window(self, start: int) -> tree.Window:
        c, operand = self.c, self.expressions.parse_operand
        size, rows = operand(), c.take_word("ROWS")
        slide = operand() if c.take_word("SLIDE") else None
        return tree.Window(size, rows, slide, slide is not None and c.take_word("ROWS"), c.span(start))

    def _of_approx(self) -> tuple[str, dict] | None:
        """Parses a part that belongs to APPROX, directly after it or among the other options.

        Returns the part's name and its members.
        """
        c, start = self.c, self.c.token.start
        if c.at_word("WEIGHTS") and c.peek().text == "(":
            c.i += 2
            weights = c.listed(self._weight)
            c.expect_op(")", "to close WEIGHTS")
            return "weights", {"weights": tuple(weights)}
        if c.at_word("BUDGET"):
            c.next()
            return "budget", {"budget": self._budget(start)}
        reports = {"PROXY": ("PROXY", "MATCHES"), "ALL": ("ALL", "MATCHES"), "BUNDLES": ("MATCH", "BUNDLES"), "HISTORY": ("MATCH", "HISTORY")}
        report = next((name for name, words in reports.items() if c.take_word(*words)), None)
        if report is None:
            return None
        runs = intervals = None
        if report == "PROXY" and c.take_word("PER"):
            c.expect_word("ERROR", "after PROXY MATCHES PER")
            report = "PER ERROR"
        if report == "HISTORY" and c.take_word("OF"):
            runs = c.expect_one_of(("ALL", "PROXY"), "or ALL after MATCH HISTORY OF")
            c.expect_word("MATCHES", f"after MATCH HISTORY OF {runs}")
        if report == "HISTORY" and c.take_word("INTERVALS"):
            intervals = self.expressions.parse_operand()
        return _REPORT, {"report": report, "runs": runs, "intervals": intervals}

    def _without_approx(self, span: Span) -> ClauseError:
        """The error for a part of APPROX in a clause without APPROX."""
        at = next(i for i, t in enumerate(self.c.tokens) if t.start == span.start)
        part, behind = self.c.tokens[at : at + 2]
        if part.upper == "ALL":
            message = "ALL MATCHES belongs to EVENT SELECTION or APPROX. Write EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES"
        else:
            name = part.text if part.upper in ("WEIGHTS", "BUDGET") else f"{part.text} {behind.text}"
            message = f"{name.upper()} belongs to APPROX. Write APPROX and a number of errors, such as APPROX 1, before it"
        return error_at(self.c.text, part.start, behind.end if behind.kind == WORD else part.end, "SYNTAX", message)

    def _budget(self, start: int) -> tree.Budget:
        c = self.c
        amount = self.expressions.parse_operand()
        per = self._per(amount)
        begin = c.token.start
        history = self._history(begin) if c.take_word("USING", "HISTORY") else None
        begin = c.token.start
        explore = c.take_word("EXPLORE")
        if history is None and c.at_word("REFILL"):
            raise error_at(c.text, begin, c.token.end, "BUDGET", "REFILL replaces a history by a newer one. Write USING HISTORY and a table before it", SEMANTIC)
        if explore and history is None:
            raise error_at(c.text, begin, c.span(begin).end, "BUDGET", "EXPLORE looks for vectors that a history does not contain. Write USING HISTORY and a table before it", SEMANTIC)
        return tree.Budget(amount, per, history, explore, c.span(start))

    def _per(self, amount: Expr) -> str | None:
        """Parses the unit of a BUDGET. Returns the scope of its interval, or None for CHECKS."""
        c = self.c
        if c.take_word("PER"):
            return c.expect_one_of(("ROW", "PARTITION", "BATCH"), "or ROW or PARTITION after PER")
        if any(node.op == "interval" for node in amount.walk()) and not c.at_word("CHECKS"):
            message = f"what the interval is for is missing. Write BUDGET {amount.span.of(c.text)} PER ROW, PER PARTITION or PER BATCH"
            raise error_at(c.text, amount.span.start, amount.span.end, "BUDGET", message, SEMANTIC)
        c.expect_word("CHECKS", "after the number of a BUDGET")
        return None

    def _history(self, start: int) -> tree.HistoryTable:
        c, operand = self.c, self.expressions.parse_operand
        begin = c.token.start
        self.c.name("a table, view or CTE after USING HISTORY")
        while c.take_op("."):
            self.c.name("a name after the dot")
        table = c.span(begin)
        refill, bundles = c.take_word("REFILL"), None
        if refill and (c.token.kind == NUMBER or c.token.text in ("(", ":", "?", "-", "+")):
            bundles = operand()
            c.expect_word("BUNDLES", "after the number of REFILL")
        published = c.take_word("AS", "PUBLISHED")
        sketch: tuple[Expr, ...] = ()
        if c.take_word("SKETCH"):
            if c.take_word("AUTO"):
                sketch = (operand(),)
            else:
                c.expect_op("(", "or AUTO after SKETCH")
                depth = operand()
                c.expect_op(",", "between the depth and the width of a SKETCH")
                sketch = (depth, operand())
                c.expect_op(")", "to close SKETCH")
        return tree.HistoryTable(table, table.of(c.text), published, sketch, refill, bundles, c.span(start))

    def _weight(self) -> tuple[str, Expr]:
        negated = self.c.take_op("~")
        name, _ = self.c.name("a row pattern variable or EXTRA")
        return ("~" if negated else "") + name, self.expressions.parse_operand()

    def _pref(self, start: int, *, named: bool = False) -> tree.Preference:
        """Parses a preference after its word. ``named``: it is that of a sequence, so objectives may have names."""
        c = self.c
        objectives: list[tuple[str, Expr]] = []
        names: list[tuple[str, Span] | None] = []
        weights: list[tuple[str, Expr]] = []
        places: list[Span] = []
        sequences = not named and c.at_word("SEQUENCES") and c.peek().text != "("
        if sequences:
            c.next()
            if c.take_word("WEIGHTS"):
                c.expect_op("(", "after WEIGHTS")
                for (name, place), weight in c.listed(lambda: (c.name("the name of a sequence"), self.expressions.parse_operand())):
                    weights.append((name, weight))
                    places.append(place)
                c.expect_op(")", "to close WEIGHTS")
        while not sequences:
            objectives.append(self._objective())
            names.append(c.name("a name for the objective") if named and c.take_word("AS") else None)
            if not c.take_word("AND"):
                break
        combine = None
        if c.take_word("COMBINE"):
            c.expect_word("BY", "after COMBINE")
            combine = next((word for word in ("SUM", "AVG", "MIN", "MAX", "PRODUCT") if c.take_word(word)), None)
            if combine is None:
                raise c.error("expected SUM, AVG, MIN, MAX or PRODUCT after COMBINE BY")
        if named:
            places = [name[1] if name is not None else objective.span for name, (_, objective) in zip(names, objectives)]
        return tree.Preference(
            tuple(objectives), combine, tuple(name and name[0] for name in names) if named else (), sequences, tuple(weights), tuple(places), c.span(start)
        )

    def _objective(self) -> tuple[str, Expr]:
        c = self.c
        direction = c.expect_one_of(("MAX", "MIN"), "or MAX in PREF")
        c.expect_op("(", f"after {direction}")
        objective = self.expr()
        c.expect_op(")", f"to close {direction}(")
        return direction, objective

    # -- SUBSET, DEFINE -------------------------------------------------------------------------------------

    def _subset(self) -> tree.Subset:
        c, start = self.c, self.c.token.start
        name, _ = self.c.name("a name for the subset")
        c.expect_op("=", "after the subset's name")
        c.expect_op("(", "before the subset's variables")
        members = c.listed(lambda: self.c.name(VARIABLE))
        c.expect_op(")", "to close the subset")
        return tree.Subset(name, tuple(nodes.Var(member, span=span) for member, span in members), c.span(start))

    def _define(self) -> tree.Define:
        name, span = self.c.name(VARIABLE)
        self.c.expect_word("AS", f"after {name} in DEFINE")
        return tree.Define(name, self.expr(), span)


class _ForeignClauseParser(_ClauseParser):
    """Parses another engine's clause. Only the ends of its expressions are found."""

    def __init__(self, cursor: Cursor) -> None:
        super().__init__(cursor, Slices(cursor))

    def _unfinished(self) -> tree.Unfinished | None:
        start = self.c.token.start
        if self.c.take_word("WITH", "TIMEOUT"):  # of Blink, a fork of Flink
            self._words("ROWS")
            return tree.Unfinished("TIMEOUT", None, self.c.span(start))
        return super()._unfinished()

    def _measure(self) -> tree.Measure:
        start = self.c.i
        expr = self.expr()
        last = self.c.tokens[self.c.i - 1]
        if self.c.at_word("AS") or self.c.i - start < 2 or last.kind not in (WORD, QUOTED):
            self.c.expect_word("AS", "and a name after the measure's expression")
            return tree.Measure(expr, *self.c.name("a name for the measure"))
        before = Span(expr.span.start, self.c.tokens[self.c.i - 2].end)  # Snowflake's MEASURES expr name
        return tree.Measure(Expr("slice", span=before), name_of(last), Span(last.start, last.end))


class _SizeParser(ConstantParser):
    """Parses the size in a group's WITHIN. A + or * after it is a quantifier, unless a number or an interval follows."""

    follows = frozenset()
    names = False

    def parse_size(self) -> Expr:
        return self._binary(SUMS)


class _PatternParser:
    """``parse()`` parses a row pattern up to, but not including, the parenthesis that closes it.

    Precedence, loosest to tightest: alternation, conjunction, concatenation, negation, quantifier.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.c = cursor
        self.nesting = 0

    def parse(self) -> nodes.Node:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            message = f"the row pattern is nested more than {MAX_NESTING} levels deep; flatten its groups"
            raise self.c.error(message, "PATTERN_TOO_DEEP", LIMIT)
        try:
            return self._joined("|", self._conjunction, nodes.Alternate)
        finally:
            self.nesting -= 1

    def _joined(self, op: str, lower: Callable[[], nodes.Node], kind: type[nodes.Node]) -> nodes.Node:
        start = self.c.token.start
        items = self.c.listed(lower, op)
        return items[0] if len(items) == 1 else kind(tuple(items), span=self.c.span(start))

    def _conjunction(self) -> nodes.Node:
        return self._joined("&", self._concatenation, nodes.Conjunct)

    def _concatenation(self) -> nodes.Node:
        start = self.c.token.start
        items = []
        while self._at_factor():
            items.append(self._factor())
        if not items:
            raise self.c.error("expected a row pattern variable or group; the empty pattern is written ()")
        return items[0] if len(items) == 1 else nodes.Concat(tuple(items), span=self.c.span(start))

    def _at_factor(self) -> bool:
        t = self.c.token
        self.c.may_be(VARIABLE)
        return t.kind in (WORD, QUOTED) or (t.kind == OP and (t.text in "(^$~" or self.c.at_op("{-")))

    def _factor(self) -> nodes.Node:
        c, start = self.c, self.c.token.start
        if not c.take_op("~"):
            return self._quantified()
        if c.at_op("~"):
            raise c.error("~~ means nothing; negate a variable once")
        node = nodes.Not(self._primary(), span=c.span(start))
        if c.token.kind == OP and (c.token.text in "*+?" or self._at_bounds()):
            what = node.span.of(c.text)
            raise error_at(
                c.text, start, node.span.end, "NEGATION",
                f"~ cannot be quantified. Write ~({what[1:]}{c.token.text if c.token.text != '{' else '{...}'}) to forbid that many rows, or quantify "
                "a group with another variable, as in (A ~B)+", SEMANTIC,
            )
        return node

    def _quantified(self) -> nodes.Node:
        c, start = self.c, self.c.token.start
        node = self._primary()
        bounds = self._quantifier()
        if bounds is None:
            return node
        greedy = not c.take_op("?")
        if c.token.kind == OP and (c.token.text in "*+?" or self._at_bounds()):
            raise c.error("a quantifier cannot follow a quantifier; put the quantified pattern in parentheses")
        return nodes.Repeat(node, *bounds, greedy, span=c.span(start))

    def _at_bounds(self) -> bool:
        return self.c.token.text == "{" and not self.c.at_op("{-")

    def _quantifier(self) -> tuple[int, int | None] | None:
        c, start = self.c, self.c.token.start
        for op, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if c.take_op(op):
                return bounds
        if c.at_op("{-") and c.peek(2).kind == NUMBER:
            message = "a quantifier's bound cannot be negative. Write {n}, {n,}, {,m} or {n,m}"
            raise error_at(c.text, start, c.peek(2).end, "QUANTIFIER", message)
        if c.token.kind != OP or not self._at_bounds():
            return None
        c.next()
        low = high = self._bound()
        if c.take_op(","):
            high = self._bound()
        elif low is None:
            if c.token.text in ("?", ":"):
                raise c.error("a quantifier takes numbers, not parameters. Write the number, as in {2}", "QUANTIFIER")
            raise c.error("expected a number in the quantifier, as in {2}, {2,}, {,5}, {2,5} or {,}")
        c.expect_op("}", "to close the quantifier")
        low, end = low or 0, c.span(start).end
        if high is not None and high < 1:
            raise error_at(c.text, start, end, "QUANTIFIER", "the upper bound must be at least 1")
        if high is not None and high < low:
            message = f"the upper bound {high} is below the lower bound {low}. Write {{{high},{low}}}"
            raise error_at(c.text, start, end, "QUANTIFIER", message)
        return low, high

    def _bound(self) -> int | None:
        c, t = self.c, self.c.token
        if t.kind != NUMBER:
            return None
        if not t.text.isdigit():
            raise c.error("a quantifier's bound must be a whole number")
        c.next()
        if len(t.text) > 9 or int(t.text) > MAX_BOUND:
            raise error_at(c.text, t.start, t.end, "QUANTIFIER", f"a quantifier's bound must be at most {MAX_BOUND}", LIMIT)
        return int(t.text)

    def _primary(self) -> nodes.Node:
        c, t, start = self.c, self.c.token, self.c.token.start
        if c.at_word("PERMUTE") and c.peek().text == "(":
            c.i += 2
            items = c.listed(self.parse)
            c.expect_op(")", "to close PERMUTE(")
            return nodes.Permute(tuple(items), span=c.span(start)) if len(items) > 1 else items[0]
        if t.kind in (WORD, QUOTED):
            c.next()
            return nodes.Var(name_of(t), span=c.span(start))
        if c.take_op("{-"):
            inner = self.parse()
            c.expect_op("-}", "to close the exclusion {-")
            return nodes.Exclude(inner, span=c.span(start))
        if c.take_op("^"):
            return nodes.Start(span=c.span(start))
        if c.take_op("$"):
            return nodes.End(span=c.span(start))
        if c.take_op("("):
            if c.take_op(")"):
                return nodes.Empty(span=c.span(start))
            inner = self.parse()
            c.expect_op(")", "to close the group")
            if c.take_word("WITHIN"):
                size = _SizeParser(c).parse_size()
                return nodes.Within(inner, size, c.take_word("ROWS"), span=c.span(start))
            return inner
        raise c.error("expected a row pattern variable or group")
