"""Transpiler: translates statements with the clause from one engine's SQL into another's, including Spark's.

``sparkcep.transpile`` and the command use it. sparkcep's own reader parses the clause over that engine's tokens. sqlglot parses the
rest of the statement and the expressions in the clause. Different defaults are written out. Calls and operators keep the values of
the source engine (``dialect/meanings.py``), or a note with its position says where they may not. Anything without a counterpart is
an error.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokens import Token as SqlglotToken
from sqlglot.tokens import TokenType

from sparkcep.clause import tree
from sparkcep.clause.expressions import Expr
from sparkcep.clause.identifiers import backticked
from sparkcep.clause.parser import parse_between
from sparkcep.clause.printer import variable_text
from sparkcep.clause.tokenizer import dialect_of, sqlglot_tokens
from sparkcep.clause.tokens import QUOTED, STRING, WORD, Span, Token, ended, matching, name_of, tokenize
from sparkcep.dialect import flink, meanings, variables
from sparkcep.dialect.building import delimited
from sparkcep.dialect.clauses import clause_text, node_of
from sparkcep.dialect.composed import print_around, read_around
from sparkcep.dialect.engines import ENGINES
from sparkcep.dialect.targets import TARGETS, Target, printed, unsaid
from sparkcep.errors import UNSUPPORTED, ClauseError, error_at, position
from sparkcep.sql.rewrite.occurrences import Statement
from sparkcep.sql.rewrite.rewrite import rewrite

READS = ("trino", "snowflake", "oracle", "flink", "databricks", "duckdb", "bigquery", "spark")
_TRINO, _SNOWFLAKE, _ORACLE, _FLINK = READS[:4]
_SPARK = "spark"
WRITES = (_SPARK, *TARGETS)

_MARK = meanings.MARK
_FAULTS = (SqlglotError, AttributeError, IndexError, KeyError, TypeError, ValueError)
_SAID_ALREADY = ("INITCAP does not support custom delimiters",)  # by sqlglot, about calls with a note of their own
_FUNCTIONS = {name: name for name in ("FIRST", "LAST", "PREV", "NEXT", "CLASSIFIER", "MATCH_NUMBER")}
_OWN_FUNCTIONS = frozenset("PRIOR MATCH_COUNT MATCH_GRAPH MATCH_SCORE MATCH_RANK MATCH_ERRORS MISSING ERROR_KIND WINDOW_START WINDOW_END".split())
_RENAMED = {_FLINK: flink.NAMES, _SNOWFLAKE: {"LAG": "PREV", "LEAD": "NEXT", "FIRST_VALUE": "FIRST", "LAST_VALUE": "LAST"}}
_TIMEOUTS = (
    "each branch that has timed out is emitted there, and here one run for each start row without a match. "
    "There time is infinite at the end of bounded input: write AS OF TIMESTAMP '9999-12-31' after MATCHES for such runs"
)
_INTEGER_DIVISION = (_TRINO, _FLINK)
_UNKNOWN_AGGREGATES = frozenset("COLLECT_UNION COUNT_MIN_SKETCH EVERY HISTOGRAM_NUMERIC MEAN SOME STD TRY_AVG TRY_SUM".split())  # Spark's that sqlglot does not know
_TYPED_DECIMALS = (_TRINO, _FLINK)  # DECIMAL '1.5' has the digits of its text there
_UPPER_CASE = (_TRINO, _ORACLE, _SNOWFLAKE)  # unquoted names are in upper case there
_LIKE_SPARK = (_SPARK, "databricks")
_UNDELIMITED = (*_LIKE_SPARK, _TRINO, _ORACLE, _SNOWFLAKE)  # LISTAGG without a delimiter writes nothing between its values there
# sqlglot's name of a function -> names in engines
_ALSO = {"STR_POSITION": ("POSITION",), "GROUP_CONCAT": ("LISTAGG", "STRING_AGG"), "DECODE_CASE": ("DECODE",)}
_SECONDS = {"DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1}
_INTERVAL = re.compile(r"INTERVAL\s+'(\d+(?:\.\d+)?)'\s+(\w+?)S?", re.I)


@dataclass(frozen=True)
class Note:
    """A remark for the reader of a translated statement. ``line`` and ``column`` count in the original text."""

    line: int
    column: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.text}"


@dataclass(frozen=True)
class Transpiled:
    """The translated statements as ``sql``, and the ``notes`` on them in the order of their positions."""

    sql: str
    notes: tuple[Note, ...]

    def __str__(self) -> str:
        return self.sql


@dataclass(frozen=True)
class _Source:
    """The text that sqlglot read, and a map from its offsets to the statement."""

    text: str
    pieces: tuple[tuple[int, int], ...] = ((0, 0),)  # the begin of each piece, here and in the statement

    def place(self, at: int) -> int:
        here, there = self.pieces[bisect_left(self.pieces, at + 1, key=lambda piece: piece[0]) - 1]
        return there + at - here


def transpile(sql: str, read: str, write: str = _SPARK, double_quoted: bool = False) -> Transpiled:
    """Translates statements from one engine's SQL into another's.

    Args:
        sql: one statement or several.
        read: the source engine, one of ``sparkcep.dialect.transpile.READS``: ``"trino"``, ``"snowflake"``, ...
        write: the target engine, one of ``sparkcep.dialect.transpile.WRITES``; Spark by default.
        double_quoted: whether double quotes enclose names in the Spark statements.

    Returns:
        The statements as ``sql``, and ``notes`` on possibly different values, each with its line and column.

    Raises:
        ClauseError: a statement cannot be read or translated.
        ValueError: an unknown engine.

    Example:
        >>> clause = "ORDER BY d MEASURES LAST(p) AS x PATTERN (a b+) DEFINE b AS p > 1"
        >>> found = sparkcep.transpile(f"SELECT * FROM t MATCH_RECOGNIZE ({clause})", "trino")
        >>> print(found.sql)
        SELECT * FROM t MATCH_RECOGNIZE (
        ORDER BY d NULLS LAST
        MEASURES LAST(p) AS `x`
        ONE ROW PER MATCH
        AFTER MATCH SKIP PAST LAST ROW
        PATTERN (A B+)
        DEFINE B AS p > 1
        )
    """
    for name, given, known in (("read", read, READS), ("write", write, WRITES)):
        if given not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}")
    return _Translation(backticked(sql) if double_quoted and read == _SPARK else sql, read, write).run()


class _Translation:
    def __init__(self, sql: str, read: str, write: str) -> None:
        self.sql = sql
        self.read = read
        self.dialect: Dialect = dialect_of(read)
        self.into: Dialect = dialect_of("databricks" if write == _SPARK else write)
        self.write = write
        self.names = _RENAMED.get(read, {}) | (flink.SPARKS_NAMES if write == _FLINK and read in _LIKE_SPARK else {})
        self.target = TARGETS.get(write)
        self.renamed = dict(self.target.functions) if self.target else {}
        self.texts: dict[int, str] = {}  # the clauses' texts in the target's SQL
        self.statement = Statement(sql, "" if read == _SPARK else read)
        self.tokens = self.statement.tokens
        self.notes: list[tuple[int, str]] = []
        self.order = ""  # the text of the first key of the current clause

    def run(self) -> Transpiled:
        try:
            tokens = sqlglot_tokens(self.sql, self.dialect)
            if self.read in _TYPED_DECIMALS:
                tokens = _with_digits(tokens)
            if _FLINK in (self.read, self.write):
                names = {name: other for name, other in self.names.items() if other.startswith(flink.MARK)}  # those of calls outside of clauses, too
                tokens = flink.marked(tokens, names, _MARK)
            trees = read_around(self.statement, self.dialect, tokens, self._match, self._parsed)
        except SqlglotError as error:
            found = (getattr(error, "errors", None) or [{}])[0]
            token = str(found.get("highlight") or "")
            # sqlglot reports the end of the token.
            line, column = found.get("line") or 1, max((found.get("col") or 1) - len(token) + 1, 1)
            message = f"sqlglot cannot read the statement in the SQL of {self.read} from here on"
            raise ClauseError("TRANSPILE", message, line=line, column=column, fragment=token) from None
        texts = [print_around(found, self._text, self._clause_text) for found in trees if found is not None]
        if self.write == _SPARK:
            self._check(texts)
        notes = {(*position(self.sql, at), text): None for at, text in sorted(self.notes)}
        return Transpiled("\n".join([*map(ended, texts[:-1]), *texts[-1:]]), tuple(Note(*note) for note in notes))

    def _check(self, texts: list[str]) -> None:
        """Raises the error that the clause of a translated statement would have, at its position in the source if it is known."""
        for text in texts:
            try:
                rewrite(text)
            except ClauseError as error:
                message = f"Spark's clause does not accept the translation: {error.message}"
                start, stop = self._place(error.fragment)
                raise error_at(self.sql, start, stop, error.error_class.removeprefix("SPARKCEP."), message, error.sqlstate) from None

    def _place(self, fragment: str) -> tuple[int, int]:
        """Returns the position in the source of a fragment of the translation.

        If its tokens do not occur exactly once, returns the position of the first clause.
        """
        words = [token.upper for token in tokenize(fragment)[:-1]] if fragment else []
        own = [token.upper for token in self.tokens]
        found = [i for i in range(len(own)) if words and own[i : i + len(words)] == words]
        if len(found) != 1:
            i = own.index("MATCH_RECOGNIZE")
            return self.tokens[i].start, self.tokens[i].end
        return self.tokens[found[0]].start, self.tokens[found[0] + len(words) - 1].end

    def _parsed(self, tokens: list) -> list:
        """Returns the trees that sqlglot reads from tokens.

        Its parser raises Python errors for some calls with too few arguments.
        """
        try:
            return self.dialect.parser().parse(tokens, self.sql)
        except SqlglotError:
            raise
        except _FAULTS as error:
            message = f"sqlglot cannot read a call in the SQL of {self.read}, whose arguments it does not expect: {error}"
            raise ClauseError("TRANSPILE", message) from error

    def _text(self, found: exp.Expr, at: int = 0, source: _Source | None = None) -> str:
        """Returns the text of a tree in the target's SQL. If sqlglot cannot express a part, adds a note."""
        generator = self.into.generator(unsupported_level=ErrorLevel.IGNORE)
        if self.read in _UNDELIMITED:  # NULL is also the delimiter of a BINARY
            delimited(found, exp.null() if self.read in _LIKE_SPARK and self.write in _LIKE_SPARK else exp.Literal.string(""))
        found = self._compared(found, at, source or _Source(self.sql))
        if _FLINK in (self.read, self.write) and self.read != self.write:
            found = self._flinks(found, at)
        try:
            text = generator.generate(found if self.target or self.read == _SPARK else found.transform(_dates))
        except _FAULTS as error:  # a call with arguments that sqlglot's generator does not expect
            message = f"sqlglot cannot express this in the SQL of {self.write}: {error}"
            raise error_at(self.sql, at, at + 1, "TRANSPILE", message, UNSUPPORTED) from error
        for message in generator.unsupported_messages:
            if message in _SAID_ALREADY:
                continue
            if self.write in _LIKE_SPARK and self.read not in _LIKE_SPARK:  # the text leaves something out
                raise error_at(self.sql, at, at + 1, "TRANSPILE", f"sqlglot cannot express all of this in Spark SQL: {message}", UNSUPPORTED)
            self._note(at, message)
        return text

    def _flinks(self, found: exp.Expr, at: int) -> exp.Expr:
        """Translates a tree from or to Flink's SQL. Between Flink and an engine other than Spark, Flink's own names remain."""

        def note(text: str) -> None:
            self._note(at, text)

        try:
            if self.write == _FLINK:
                return flink.in_flink(found, _MARK, note)
            return (flink.in_spark if self.write in _LIKE_SPARK else flink.unmarked)(found, _MARK, note)
        except ValueError as error:
            raise error_at(self.sql, at, at + 1, "TRANSPILE", str(error), UNSUPPORTED) from None

    def _compared(self, found: exp.Expr, at: int, source: _Source) -> exp.Expr:
        """Returns a tree with the values of the source engine, as far as Spark has them."""

        def place(node: exp.Expr) -> int:
            starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
            return source.place(min(starts)) if starts else at

        def note(node: exp.Expr, text: str) -> None:
            self._note(place(node), text)

        def written(node: exp.Expr) -> tuple[str, ...]:
            """Returns the name of a call as written, or the names of its function; empty for the clause's functions."""
            if isinstance(node, exp.Anonymous):
                name = node.name.upper()
                marked = name.startswith(_MARK)
                if marked and (not name.startswith(_MARK + flink.MARK) or (self.read == _FLINK and self.target is not None)):
                    return ()  # a function of the clause, or one of Flink's that stays and has a note already
                return (name.removeprefix(_MARK + flink.MARK),)
            text = source.text[node.meta["start"] : node.meta["end"] + 1] if "start" in node.meta else ""
            if text.isidentifier():
                return (text.upper(),)
            names = type(node).sql_names()
            known = (*names, *(other for name in names for other in _ALSO.get(name, ())))
            return tuple(name for name in known if re.search(rf"\b{name}\s*\(", source.text, re.I)) or known

        if isinstance(found, exp.Command):
            note(found, f"{found.name.upper()}: sqlglot does not parse this statement further, so the text after this word stays unchanged")
        if self.read == self.write or (self.read in _LIKE_SPARK and self.write in _LIKE_SPARK):
            return found
        if self.write in _LIKE_SPARK:
            try:
                return meanings.in_spark(found, ENGINES[self.read], written, frozenset(self.into.parser_class.FUNCTIONS), note)
            except meanings.Refused as refused:
                begin = place(refused.node)
                ends = [source.place(part.meta["end"]) for part in refused.node.walk() if "end" in part.meta]
                raise error_at(self.sql, begin, max([begin, *ends]) + 1, "TRANSPILE", str(refused), UNSUPPORTED) from None
        engines = [ENGINES[name] for name in (self.read, self.write) if name in ENGINES]
        return meanings.compared(found, engines, self.write, written, note)

    def _note(self, at: int, text: str) -> None:
        self.notes.append((at, text))

    # -- the clause -----------------------------------------------------------------------------------------

    def _match(self, word: int, close: int) -> exp.MatchRecognize:
        clause = parse_between(self.sql, self.tokens, word + 1, close, "" if self.read == _SPARK else self.read)
        if clause.skip is None and not self.read == self.write == _SPARK:  # beside some of Spark's options it would be an error
            clause = replace(clause, skip=tree.Skip(tree.NEXT_ROW if self.read == _FLINK else tree.PAST_LAST, span=clause.span))
        self.order = self._expression(clause.order_by[0].expr) if clause.order_by else ""
        clause = replace(clause, order_by=tuple(map(self._sorted, clause.order_by)))
        clause = self._named(clause)
        if self.target is not None:
            return self._foreign(clause, self.target)
        if self.read == _SPARK:
            return node_of(clause)
        keys = [item.expr.span.of(self.sql).lower() for item in clause.order_by]
        if self.read == _TRINO and clause.rows != tree.ONE_ROW and len(set(keys)) < len(keys):
            self._note(clause.order_by[0].expr.span.start, "a column that ORDER BY names twice appears twice in SELECT * there, and once here")
        if clause.unfinished is not None:
            self._note(clause.unfinished.span.start, _TIMEOUTS)
        window = clause.window
        clause = replace(clause, window=None)
        match = node_of(clause, lambda expr: exp.Var(this=self._expression(expr)))
        if window is not None:
            match.set("window", exp.Expression(this="Window", size=exp.Var(this=self._size(window))))
        return match

    def _named(self, clause: tree.MatchClause) -> tree.MatchClause:
        """Returns the clause with its engine's names of variables, which CLASSIFIER() shows."""
        upper, there = self.read in _UPPER_CASE, self.write in _UPPER_CASE
        if upper or self.read == _FLINK:  # Flink distinguishes "a" from "A" as well
            twice = variables.differing_in_case(clause, upper)
            if twice is not None:
                message = "names that differ only in case are one name in Spark: rename one of them"
                raise error_at(self.sql, twice.start, twice.end, "TRANSPILE", message, UNSUPPORTED)
        if upper and not there:
            return variables.in_upper_case(clause)
        shown = any(token.upper == "CLASSIFIER" for token in self.tokens if clause.span.start <= token.start < clause.span.end)
        lower = next((node for node in variables.unquoted(clause) if node.name != node.name.upper()), None)
        if there and not upper and shown and lower is not None:
            self._note(lower.span.start, f"CLASSIFIER() gives {lower.name.upper()} there")
        return clause

    def _foreign(self, clause: tree.MatchClause, target: Target) -> exp.MatchRecognize:
        """Returns a node that represents the clause's text in the target's SQL."""
        for span, words in unsaid(clause, target):
            message = f"{target.name} cannot express {words}"
            raise error_at(self.sql, span.start, max(span.end, span.start + 1), "TRANSPILE", message, UNSUPPORTED)
        if target.aggregates is not None:
            for expr in (measure.expr for measure in clause.measures):
                self._check_aggregates(expr, target, target.aggregates)
            for expr in (define.condition for define in clause.defines):
                self._check_aggregates(expr, target, frozenset())
        if clause.window is not None and self.read != target.name:
            self._note(clause.window.span.start, "WITHIN takes a match of exactly this length, and WINDOW does not")

        def named(name: str) -> str:
            return self._identifier(name, variable_text(name) != name)

        def column(name: str) -> str:
            of_flink = target.name == _FLINK and variable_text(name) != name  # sqlglot does not know Flink's reserved words
            return self._identifier(name, of_flink or self._is_always_quoted(name))

        number = len(self.texts)
        self.texts[number] = printed(clause, self._expression, named, column)
        return exp.MatchRecognize(pattern=exp.Literal.number(number))

    def _identifier(self, name: str, quoted: bool) -> str:
        """Returns a name in the target's SQL. sqlglot quotes the target's reserved words, also outside of the clause."""
        plain = name.isascii() and name.isidentifier()
        return exp.to_identifier(name, quoted=quoted or not plain).sql(self.into)

    def _is_always_quoted(self, name: str) -> bool:
        """Whether the statement names an output column elsewhere, and quotes it everywhere."""
        found = [token.kind == QUOTED for token in self.tokens if token.kind in (WORD, QUOTED) and name_of(token).lower() == name.lower()]
        return len(found) > 1 and all(found)

    def _clause_text(self, match: exp.MatchRecognize) -> str:
        return clause_text(match) if self.target is None else self.texts[int(match.args["pattern"].name)]

    def _sorted(self, item: tree.SortItem) -> tree.SortItem:
        """Returns a key with explicit NULLS FIRST or LAST if the defaults of the two engines differ."""

        def first(dialect: Dialect) -> bool:
            return {"nulls_are_small": not item.descending, "nulls_are_large": item.descending}.get(dialect.NULL_ORDERING, False)

        if item.nulls_first is not None or first(self.dialect) == first(self.into):
            return item
        return replace(item, nulls_first=first(self.dialect))

    def _size(self, window: tree.Window) -> str:
        """Returns the size of a window. Flink's WITHIN accepts a match of exactly that length, and WINDOW does not."""
        text = self._expression(window.size)
        if self.read != _FLINK:
            return text
        found = _INTERVAL.fullmatch(window.size.span.of(self.sql).strip())
        if found is None or found[2].upper() not in _SECONDS or len(found[1]) > 100:
            self._note(window.span.start, "WITHIN takes a match of exactly this length, and WINDOW does not: make it slightly larger if that matters")
            return text
        self._note(window.span.start, "WITHIN takes a match of exactly this length: WINDOW is a microsecond longer")
        micros = round(float(found[1]) * _SECONDS[found[2].upper()] * 1_000_000) + 1
        return f"INTERVAL '{micros // 1_000_000}.{micros % 1_000_000:06}' SECOND"

    # -- expressions ----------------------------------------------------------------------------------------

    def _expression(self, expr: Expr) -> str:
        start = expr.span.start
        found, source = self._read(expr)
        self._look_at(found, start)
        text = self._unmasked(self._text(found, start, source))
        missing = next((name for name, other in self.renamed.items() if other is None and re.search(rf"\b{name}\b(?=\(| \w+\()", text)), None)
        if missing:
            raise error_at(self.sql, start, expr.span.end, "TRANSPILE", f"{self.target.name if self.target else ''} does not support {missing}", UNSUPPORTED)
        return text

    def _read(self, expr: Expr) -> tuple[exp.Expr, _Source]:
        """Returns the tree of an expression of the clause, and the text that sqlglot read."""
        source = self._masked(expr.span)
        try:
            query = sqlglot.parse_one(source.text, read=self.dialect)
        except SqlglotError:
            query = None
        if query is None or len(query.selects) != 1 or isinstance(query.selects[0], exp.Alias):
            raise error_at(self.sql, expr.span.start, expr.span.end, "TRANSPILE", f"sqlglot cannot read this expression in the SQL of {self.read}")
        return query.selects[0].pop(), source

    def _check_aggregates(self, expr: Expr, target: Target, allowed: frozenset[str]) -> None:
        """Raises ClauseError for an aggregate that is not allowed, DISTINCT, a window function or a subquery in an expression."""
        for part in self._read(expr)[0].find_all(exp.Func, exp.Window, exp.Query):
            name = part.name.upper() if isinstance(part, exp.Anonymous) else part.sql_name() if isinstance(part, exp.Func) else ""
            if isinstance(part, exp.Query):
                words = "a subquery in MEASURES and DEFINE"
            elif isinstance(part, exp.Window):
                words = "a window function in MEASURES and DEFINE"
            elif name in allowed and part.find(exp.Distinct) is not None:
                words = "DISTINCT in an aggregate"
            elif name in allowed or not (isinstance(part, exp.AggFunc) or name in _UNKNOWN_AGGREGATES or name.endswith("_AGG")):
                continue
            else:
                words = f"an aggregate other than {', '.join(sorted(allowed))} in MEASURES" if allowed else "an aggregate in DEFINE"
            raise error_at(self.sql, expr.span.start, expr.span.end, "TRANSPILE", f"{target.name} cannot express {words}", UNSUPPORTED)

    def _look_at(self, found: exp.Expr, at: int) -> None:
        """Adds notes and raises errors for engines other than Spark."""
        if self.read in _INTEGER_DIVISION and self.target is not None and self.write not in _INTEGER_DIVISION and found.find(exp.Div):
            self._note(at, "/ of two integers cuts off there and does not here; write DIV where both are integers")
        for call in found.find_all(exp.Anonymous):
            if call.name.upper() in _OWN_FUNCTIONS and self.target is not None:
                raise error_at(self.sql, at, at + 1, "TRANSPILE", f"{self.target.name} does not support {call.name}", UNSUPPORTED)

    def _masked(self, span: Span) -> _Source:
        """Returns a query of an expression, and gives its row pattern functions names that no engine knows."""
        first = bisect_left(self.tokens, span.start, key=lambda token: token.start)
        last = bisect_left(self.tokens, span.end, key=lambda token: token.start)
        inside = self.tokens[first:last]
        close = matching(inside)
        renamed = _FUNCTIONS | self.names
        out, at, ends = ["SELECT "], span.start, []
        pieces: list[tuple[int, int]] = []

        def add(text: str, begin: int) -> None:
            pieces.append((sum(map(len, out)), begin))
            out.append(text)

        for i, token in enumerate(inside):
            calls = token.kind == WORD and i + 1 in close
            instead, end = None, token.end
            if token.kind == WORD and token.upper in ("RUNNING", "FINAL") and i + 2 in close and inside[i + 1].kind == WORD:
                instead = f"{_MARK}{token.upper}("
                ends.append(close[i + 2])
            elif calls and token.upper == "COUNT" and close[i + 1] == i + 2:
                instead, end = "count(*)", inside[i + 2].end
            elif calls and token.upper in ("MATCH_SEQUENCE_NUMBER", "MATCH_ROWTIME", "MATCH_PROCTIME"):
                instead, end = self._number_or_time(token), inside[close[i + 1]].end
            elif calls and token.upper in renamed:
                instead = _MARK + renamed[token.upper]
            elif self.read in _TYPED_DECIMALS and token.upper == "DECIMAL" and i + 1 < len(inside) and inside[i + 1].kind == STRING:
                instead = f"DECIMAL({', '.join(map(str, _digits(inside[i + 1].text[1:-1])))})"
            elif self.read == _FLINK and token.upper == "ROW" and i + 1 < len(inside) and inside[i + 1].text == "<":
                instead = "STRUCT"
            if instead is not None and token.start >= at:
                add(self.sql[at : token.start], at)
                add(instead, token.start)
                at = end
            if ends and ends[-1] == i:
                ends.pop()
                add(self.sql[at : token.end], at)
                add(")", token.end)
                at = token.end
        add(self.sql[at : span.end], at)
        return _Source("".join([*out, "\n"]), tuple(pieces))

    def _number_or_time(self, token: Token) -> str:
        """Returns the text for MATCH_SEQUENCE_NUMBER(), MATCH_ROWTIME(...) and MATCH_PROCTIME()."""
        if token.upper == "MATCH_SEQUENCE_NUMBER":
            return "count(*)"
        if token.upper == "MATCH_PROCTIME" or not self.order:
            instead = "write current_timestamp(), the time of the query" if token.upper == "MATCH_PROCTIME" else "write LAST of the column that holds the time of a row"
            message = f"Spark lacks {token.upper}(); {instead}"
            raise error_at(self.sql, token.start, token.end, "TRANSPILE", message, UNSUPPORTED)
        return f"{_MARK}LAST({self.order})"

    def _unmasked(self, text: str) -> str:
        """Restores the clause's own functions in the text, under their names in the target's SQL."""
        while (found := next(self._wrapped(text), None)) is not None:
            begin, inner, end = found
            text = f"{text[:begin.start]}{begin.text[len(_MARK) :].upper()} {inner}{text[end.end :]}"
        return re.sub(rf"\b{_MARK}(\w+)", lambda m: self.renamed.get(m[1].upper()) or m[1], text)

    def _wrapped(self, text: str) -> Iterator[tuple[Token, str, Token]]:
        """Yields the calls that represent RUNNING and FINAL, each with its argument."""
        tokens = tokenize(text, "" if self.target is None else self.write)
        close = matching(tokens)
        for i, token in enumerate(tokens):
            if token.kind == WORD and token.upper in (f"{_MARK}RUNNING", f"{_MARK}FINAL"):
                end = tokens[close[i + 1]]
                yield token, text[tokens[i + 1].end : end.start], end


def _with_digits(tokens: list[SqlglotToken]) -> list[SqlglotToken]:
    """Returns the tokens with the precision and scale of each DECIMAL '...'. sqlglot would read it as a cast to a plain DECIMAL."""
    out = []
    for token, after in zip(tokens, [*tokens[1:], None]):
        out.append(token)
        if token.token_type == TokenType.DECIMAL and after is not None and after.token_type == TokenType.STRING:
            precision, scale = _digits(after.text)
            for kind, text in ((TokenType.L_PAREN, "("), (TokenType.NUMBER, precision), (TokenType.COMMA, ","), (TokenType.NUMBER, scale), (TokenType.R_PAREN, ")")):
                out.append(SqlglotToken(kind, str(text), token.line, token.col, token.start, token.end))
    return out


def _digits(text: str) -> tuple[int, int]:
    """Returns the number of digits of a number, and that after its point."""
    whole, _, fraction = text.lstrip("+-0_").partition(".")
    return max(sum(map(str.isdigit, whole + fraction)), 1), sum(map(str.isdigit, fraction))


def _dates(node: exp.Expr) -> exp.Expr:
    """Turns a date plus a number of units into a sum with an interval, which is a date in Spark too; DATEADD is a timestamp."""
    if not isinstance(node, exp.DateAdd):
        return node
    amount, unit = node.expression, node.args.get("unit")
    count = amount.name if isinstance(amount, exp.Literal) else meanings.whole(amount)
    if unit is not None and count is not None:
        amount = exp.Interval(this=exp.Literal.string(str(count)), unit=unit)
    return exp.Paren(this=exp.Add(this=node.this, expression=amount)) if isinstance(amount, exp.Interval) else node
