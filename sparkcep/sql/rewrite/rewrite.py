"""The rewriter: replaces each MATCH_RECOGNIZE clause of a statement by a subquery over the table function.

``spark.sql``, ``match_recognize``, the JVM parser and the tools without Spark use it. The statement is tokenised, not parsed, and
all text outside the clauses stays as the user wrote it. A clause

    <table> MATCH_RECOGNIZE ( ... )

becomes

    (SELECT keys, measures FROM match_recognize(TABLE(SELECT row expressions, NULL AS plan FROM <table>
        DISTRIBUTE BY keys SORT BY keys, order)))

The plan, as JSON, is the *name* of a column of NULLs. Spark ships a constant argument with every row. A plan of 1 KB over 2 million
rows would send 2 GB through the Python worker's socket. A NULL column costs nothing.

The rewriter writes `struct` and `array` in backquotes: after these words Spark reads the operator >> of later text as two others.
"""

from __future__ import annotations

import functools
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from sparkcep.clause.identifiers import backticked
from sparkcep.clause.parser import parse_between, parse_clause, sizes_between
from sparkcep.clause.tokens import NUMBER, OP, STRING, WORD, Span, Token, matching, quote, tokenize
from sparkcep.clause.tree import ONE_ROW, WITH_UNMATCHED, MatchClause
from sparkcep.errors import UNSUPPORTED, ClauseError, error_at, position
from sparkcep.plan.build import make_plan
from sparkcep.plan.constants import MARKER, MARKER_PREFIX
from sparkcep.plan.extend.arcs import IS, ROW
from sparkcep.plan.extend.budget import HISTORY, HISTORY_COLUMN, MAX_BUNDLES, not_repeatable
from sparkcep.plan.extend.unfinished import CLOCK, check_second_read, clock_text
from sparkcep.plan.options import NO_WINDOW
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.plan.prune.slicing import undivided
from sparkcep.plan.records import ListChanges, Ranking
from sparkcep.plan.scope import AFTER, BEFORE, CHANGE, LIST_CHANGE, NEXT_END, NEXT_START, RANK, SCORE
from sparkcep.plan.split.conditions import ORDER, ROW_NUMBER
from sparkcep.plan.split.measures import ELEMENT, POSITION
from sparkcep.settings import ALWAYS, DEFAULT, Settings
from sparkcep.sql.explain import as_automaton
from sparkcep.sql.prefilter.questions import Chooser, Framer, Question, Streamed
from sparkcep.sql.prefilter.second_read import KEPT, UNFILTERED, Choice, Filter, kept_keys
from sparkcep.sql.prefilter.slices import (
    AWAY,
    OWN,
    PLACE,
    SLICE,
    UNKNOWN,
    WHOLE,
    Slices,
    Slicing,
    cut,
    owned,
    placed,
    slices_of,
    spread,
)
from sparkcep.sql.rewrite import window_aggregates
from sparkcep.sql.rewrite.arc_sql import with_arcs, with_promises
from sparkcep.sql.rewrite.occurrences import KEYWORD, Statement, has_keyword
from sparkcep.sql.rewrite.places import REGISTER_FIELD, Places
from sparkcep.sql.rewrite.rewritten import Origin, Rewritten
from sparkcep.sql.rewrite.table_names import definers, definitions, reads_itself, runs_at_once, table_names

log = logging.getLogger("sparkcep")

AVERAGE = "average"  # of months: returned as an interval of years and months, rounded half up, as Spark does
# A user's own aggregate function would turn a whole table into one row. Spark refuses such an aggregate beside columns, and this
# column adds one. Spark drops the column if nothing reads it.
_WHOLE = "`struct`(*) AS __whole"
_RANK = re.compile(rf"\b{RANK}\b")
_PLAIN = re.compile(r"`?[^\W\d]\w*`?")  # a column by its name alone
NEEDED = "__sparkcep_needed"  # whether a variable accepts a row
_KEPT = 64
_recent: dict[str, Places] = {}  # the recently rewritten statements
_recent_lock = threading.Lock()  # a driver's threads share them


def rewrite(sql: str, *, settings: Settings | None = None) -> str:
    """Returns a statement as plain Spark SQL, with a call of the table function instead of each clause.

    Args:
        sql: the statement. A statement without a clause is returned unchanged, as the same object.
        settings: the session's settings; None means the defaults.

    Returns:
        The rewritten statement.

    Raises:
        ClauseError: a clause is wrong.

    Example:
        >>> plain = sparkcep.rewrite("SELECT x FROM t MATCH_RECOGNIZE (ORDER BY d MEASURES LAST(p) AS x PATTERN (A B+))")
        >>> "FROM match_recognize(TABLE(" in plain
        True
    """
    return rewrite_all(sql, DEFAULT if settings is None else settings)[0]


def rewrite_all(
    sql: str, settings: Settings = DEFAULT, months: tuple[Months | None, ...] = (), choose: Chooser | None = None, frames: Framer | None = None,
) -> tuple[str, list[Rewritten]]:
    """Returns the rewritten statement and every clause in it, in text order. Raises ClauseError.

    Args:
        sql: the statement.
        settings: the session's settings.
        months: for the first clauses, the year-month intervals that must travel as numbers.
        choose: decides whether a clause's table is read twice for a filter, or cut into slices, if that is possible.
        frames: builds DataFrames for clauses over streams, if the JVM operator is missing.
    """
    if not has_keyword(sql):
        return sql, []
    read = backticked(sql) if settings.double_quoted else sql
    if (explained := as_automaton.asked(read)) is not None:
        return as_automaton.answer(explained, _Rewriter(explained, settings, (), None, None).run()[1], settings), []
    out, found = _Rewriter(read, settings, months, choose, frames).run()
    return (sql if out is read else out), found


def translated(
    sql: str, *, settings: Settings, named_markers: bool, months: tuple[Months | None, ...] = (), choose: Chooser | None = None,
    frames: Framer | None = None,
) -> Places | None:
    """Rewrites the clauses of ``sql``. Returns the source map, or None without a clause. Raises ClauseError.

    ``named_markers`` turns the n-th ``?`` of a rewritten statement into ``:sparkcep_marker_n`` (n from 1). Spark binds ``?`` by
    position, and rewriting may move an expression or write it twice. ``months``, ``choose``, ``frames``: see ``rewrite_all``.
    """
    if not has_keyword(sql):
        return None
    read = backticked(sql) if settings.double_quoted else sql
    marked = name_markers(read) if named_markers else read
    try:
        out, clauses = rewrite_all(marked, settings, months, choose, frames)
    except ClauseError:
        if marked != read:
            # Rewrites the user's own text as well, so that the error has positions in that text.
            values = {f"?{t.start}": settings.parameters.get(f":{MARKER_PREFIX}{i}") for i, t in enumerate(_markers(read), 1)}
            rewrite_all(read, replace(settings, parameters=values))
        raise
    if out == marked:
        return None
    places = Places(marked, out, clauses, sql, int if marked == read else functools.partial(unmarked, marked=marked))
    with _recent_lock:
        _recent.pop(sql, None)
        _recent[sql] = places
        if len(_recent) > _KEPT:
            _recent.pop(next(iter(_recent)))
    return places


def known(sql: str) -> Places | None:
    """Returns the source map of a recently rewritten statement, for errors at run time."""
    with _recent_lock:
        return _recent.get(sql)


def rewritten_from(rewritten: str) -> Places | None:
    """Returns the source map of the statement that was recently rewritten to this text."""
    with _recent_lock:
        recent = list(_recent.values())
    return next((places for places in reversed(recent) if places.rewritten == rewritten), None)


def name_markers(sql: str) -> str:
    """Replaces the n-th ``?`` marker of ``sql`` by a named marker. A comment separates it from a word that directly follows."""
    pieces, at = [], 0
    for number, t in enumerate(_markers(sql), 1):
        pieces += [sql[at : t.start], f":{MARKER_PREFIX}{number}", "/**/" if re.match(r"\w", sql[t.end : t.end + 1]) else ""]
        at = t.end
    return "".join([*pieces, sql[at:]])


def _markers(sql: str) -> list[Token]:
    """Returns the ``?`` markers of ``sql``. In a row pattern ``?`` is a quantifier, except in the size of a group's WITHIN."""
    tokens = tokenize(sql)
    close = matching(tokens)
    found = [i for i, t in enumerate(tokens) if t.kind == OP and t.text == "?"]
    for start in _patterns(tokens, close):
        inside = [i for i in found if start < i < close[start]]
        sizes = sizes_between(sql, tokens, start, close[start]) if inside else []
        quantifiers = {i for i in inside if not any(size.start <= tokens[i].start < size.end for size in sizes)}
        found = [i for i in found if i not in quantifiers]
    return [tokens[i] for i in found]


def double_braces(sql: str) -> str:
    """Doubles the braces of quantifiers and exclusions in each PATTERN of a format string, unless they are already doubled."""
    tokens = tokenize(sql)
    inside, doubled = _in_patterns(tokens), []
    for i in sorted(inside):
        if tokens[i].text != "{" or (tokens[i - 1].text == "{" and _touches(tokens, i - 1, "{")) or _touches(tokens, i, "{"):
            continue
        end = next((j for j in range(i + 1, len(tokens)) if tokens[j].text in "{}"), i)
        if _touches(tokens, i, "-"):
            end = next((j for j in range(i + 2, len(tokens)) if tokens[j].text == "}" and _touches(tokens, j - 1, "}") and tokens[j - 1].text == "-"), i)
        elif any(t.kind != NUMBER and t.text != "," for t in tokens[i + 1 : end]) or end == i + 1:
            continue  # the field of a DataFrame or value
        doubled += [tokens[i].start, tokens[end].start]
    for at in sorted(doubled, reverse=True):
        sql = sql[: at + 1] + sql[at:]
    return sql


def _touches(tokens: list[Token], i: int, text: str) -> bool:
    """Whether ``text`` directly follows token ``i``, without a blank."""
    return 0 <= i < len(tokens) - 1 and tokens[i + 1].text == text and tokens[i + 1].start == tokens[i].end


def _in_patterns(tokens: list[Token]) -> set[int]:
    """Returns the indexes of the tokens inside the parentheses of each row pattern."""
    close = matching(tokens)
    return {i for start in _patterns(tokens, close) for i in range(start, close[start])}


def _patterns(tokens: list[Token], close: dict[int, int]) -> Iterator[int]:
    """Yields the index of the opening parenthesis of each row pattern, after PATTERN or SEQUENCE name AS, in a clause."""
    for i, t in enumerate(tokens):
        if t.kind == WORD and t.upper == KEYWORD and i + 1 in close:
            j = i + 2
            while j < close[i + 1]:
                word = tokens[j].upper
                start = j + 1 if word == "PATTERN" else j + 3 if word == "SEQUENCE" and tokens[j + 2].upper == "AS" else None
                if start in close:
                    yield start
                j = close.get(j, j) + 1


def unmarked(offset: int, marked: str) -> int:
    """Maps an offset in ``name_markers(sql)`` to ``sql``."""
    return offset - sum(min(m.end(), offset) - m.start() - 1 for m in MARKER.finditer(marked, 0, offset) if m.start() < offset - 1)


@dataclass(frozen=True)
class Months:
    """Year-month intervals of a clause, which Arrow cannot carry to Python.

    Attributes:
        columns: the input columns with their SQL type.
        outputs: the table function's columns in order, each with the type to restore: a SQL type, "rows<...>" with the types of a
            struct's fields, AVERAGE, or "" to leave it unchanged.
    """

    columns: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]


@dataclass
class _Piece:
    """A replacement of ``text[start:end]``."""

    start: int
    end: int
    sql: str


class _Table(NamedTuple):
    """The table that a clause reads: its place and that of the clause, its SQL, and the names that may qualify its columns.

    ``moved`` maps lines and columns of a clause in a string to the statement. It is None for other clauses.
    """

    origin: Origin
    source: str
    qualifiers: frozenset[str]
    moved: Callable[[int, int], tuple[int, int]] | None = None


class _Rewriter:
    def __init__(self, text: str, settings: Settings, months: tuple[Months | None, ...], choose: Chooser | None, frames: Framer | None) -> None:
        self.text = text
        self.choose = choose
        self.frames = frames
        self.settings = settings
        self.months = months
        self.statement = Statement(text)
        self.tokens = self.statement.tokens
        self.close = self.statement.close
        self.withs = definers(self.tokens, self.close)
        self.at_once = runs_at_once(self.tokens)
        self.recursive = any(t.upper == "RECURSIVE" for t in self.tokens)
        self.pieces: list[_Piece] = []
        self.found: list[Rewritten] = []
        self.explaining = self.tokens[0].upper == "EXPLAIN"
        self.in_function = self.tokens[0].upper == "CREATE" and self._created() == "FUNCTION"

    def run(self) -> tuple[str, list[Rewritten]]:
        i = 0
        while i < len(self.tokens):
            i = self._occurrence(i) if self.statement.has_word(i) else i + 1
        if not self.pieces:
            return self.text, self.found
        return self._assemble(0, len(self.text)), self.found

    def _created(self) -> str:
        """Returns the kind of object that the statement creates, from CREATE OR REPLACE TEMPORARY FUNCTION, for example."""
        return next((t.upper for t in self.tokens[1:] if t.upper not in ("OR", "REPLACE", "TEMPORARY", "TEMP")), "")

    def _occurrence(self, i: int) -> int:
        start = self.statement.table_before(i)
        if start == i:
            return self._function(i)
        if start is None:
            return i + 1
        close = self.statement.closing(i)
        self._check_recursion(start, i, i)
        clause = parse_between(self.text, self.tokens, i + 1, close, columns=self.settings.columns, parameters=self.settings.parameters)
        begin, end = self.tokens[start].start, self.tokens[i - 1].end
        origin = Origin(Span(begin, self.tokens[close].end), Span(begin, end))
        self._replace(clause, start, i, _Table(origin, self._assemble(begin, end), table_names(self.tokens, self.close, start, i)))
        return close + 1

    def _replace(self, clause: MatchClause, start: int, word: int, table: _Table) -> None:
        """Replaces a clause and its input, which begin with token ``start``. ``word``: the token that names the clause."""
        if self.in_function:
            message = "Spark cannot run a clause in the body of a SQL function. Create a view of the clause, and select from the view instead of the function"
            raise self.statement.error(word, "SQL_FUNCTION", message, UNSUPPORTED)
        origin, source = table.origin, table.source
        begin = origin.whole.start
        with self._placed(table.moved):
            plan = make_plan(clause, settings=self.settings, qualifiers=table.qualifiers)
            if plan.unfinished is not None:
                check_second_read(plan, [t for t in self.tokens if origin.table.start <= t.start < origin.table.end])
        if table.moved is not None:
            plan = plan.moved(table.moved)
        if plan.changes is not None and plan.automaton is None:
            _check_automaton(plan)
        if not plan.repeatable:
            self._check_repeatable(plan, start)
        if plan.ranking and plan.ranking.top:
            plan = _who_ranks(plan, plan.ranking)
        months = self.months[len(self.found)] if len(self.found) < len(self.months) else None
        try:
            frame = self._frame(plan, source, begin, months)
        except ClauseError as error:
            raise _at_key(error, clause) if table.moved is None else error from None
        filtering = UNFILTERED if frame else self._filtering(plan, source, begin, months)
        slicing = WHOLE if frame else self._slicing(plan, source, begin, months)
        windows = self.settings.windows and frame is None and months is None and slicing.slices is None
        sql = subquery(plan, source, self.explaining, months, filtering, slicing, frame, windows)
        alone = (self._names(begin) or "") + _input(plan, source, None)
        self.found.append(Rewritten(clause, plan, alone, sql, source, origin, filtering, slicing))
        self.pieces = [p for p in self.pieces if p.start < begin]
        self.pieces.append(_Piece(begin, origin.whole.end, sql))

    def _check_repeatable(self, plan: Plan, start: int) -> None:
        """Raises ClauseError if a clause whose rows may differ between two runs is where Spark may run it more than once."""
        verb = self.statement.verb()
        where = verb if verb in ("DELETE", "UPDATE", "MERGE") else "LATERAL" if self.statement.in_lateral(start) else ""
        if where:
            raise not_repeatable(plan.approximate.budget, where)

    def _frame(self, plan: Plan, source: str, begin: int, months: Months | None) -> str | None:
        """Returns the name of the DataFrame with the table function's output if the clause reads a stream without an operator."""
        if self.frames is None:
            return None
        named = tuple(sorted(name for name, _ in months.columns)) if months else ()
        return self.frames.frame(Streamed(plan, source, self._names(begin), self.tokens[0].upper, named))

    def _filtering(self, plan: Plan, source: str, begin: int, months: Months | None) -> Choice:
        """Decides whether a second read of its table filters the clause's input."""
        if not plan.candidates:
            return UNFILTERED
        if not plan.keys and not plan.near:
            return Choice(None, "without PARTITION BY, the clause lacks a WINDOW that contains all rows it reads")
        always = self.settings.prefilter == ALWAYS
        if "match_recognize(" in source.lower():
            return Choice(None, "its table contains a clause, which a second read would search twice")
        if not always and not self.at_once:
            return Choice(None, "the statement is stored and runs later, perhaps over other rows")
        names = self._names(begin)
        if self.choose is None or names is None:
            if always and plan.keys:
                return Choice(Filter(0), "sparkcep.prefilter is always")
            return Choice(None, _unasked(names))
        return self.choose.filter(self._question(plan, source, names, months))

    def _slicing(self, plan: Plan, source: str, begin: int, months: Months | None) -> Slicing:
        """Decides whether the clause's input is cut into time slices."""
        always = self.settings.slices == ALWAYS
        if not self.settings.slices or not plan.windows or plan.windows[0].kind == NO_WINDOW:
            return WHOLE
        if reason := undivided(plan):
            return Slicing(None, reason)
        names = self._names(begin)
        if self.choose is not None and names is not None:
            question = self._question(plan, source, names, months)
            once = "match_recognize(" not in source.lower() and self.at_once
            return self.choose.slices(question, sampled=once)
        found = slices_of(plan, UNKNOWN)
        if isinstance(found, str):
            return Slicing(None, found)
        if always or not plan.keys:
            return Slicing(found, "sparkcep.slices is always" if always else "the clause lacks PARTITION BY")
        return Slicing(None, _unasked(names))

    def _question(self, plan: Plan, source: str, names: str, months: Months | None) -> Question:
        return Question(plan, source, names, f"{names}SELECT * FROM {subquery(plan, source, months=months)}")

    def _names(self, begin: int) -> str | None:
        """Returns the WITH that makes a table at ``begin`` readable on its own, "" if none is needed, or None if it is unknown."""
        spans = definitions(self.tokens, self.close, self.withs, begin)
        if spans is None:
            return None
        return f"WITH {', '.join(self._assemble(*span) for span in spans)} " if spans else ""

    def _assemble(self, start: int, end: int) -> str:
        out, pos = [], start
        for piece in self.pieces:
            if start <= piece.start and piece.end <= end:
                out += [self.text[pos : piece.start], piece.sql]
                pos = piece.end
        return "".join([*out, self.text[pos:end]])

    def _check_recursion(self, start: int, stop: int, at: int) -> None:
        """Raises ClauseError if a clause's input, tokens ``start`` to before ``stop``, is still being defined by WITH RECURSIVE."""
        own = reads_itself(self.tokens, self.close, start, stop) if self.recursive else None
        if own is not None:
            message = f"MATCH_RECOGNIZE cannot read {own.text} inside the definition of {own.text} by WITH RECURSIVE"
            raise self.statement.error(at, "RECURSION", f"{message}. Match over the finished table instead", UNSUPPORTED)

    # -- match_recognize(TABLE(t), '...') -------------------------------------------------------------------

    def _function(self, i: int) -> int:
        """Rewrites a hand-written call of the table function with a clause text to the same fast form."""
        close = self.close.get(i + 1)
        if close is None or self.tokens[i + 2].upper != "TABLE" or self.tokens[i + 3].text != "(":
            return i + 1
        table_close = self.close[i + 3]
        if table_close == close - 1:
            return close + 1  # already rewritten
        literal = self.tokens[close - 1]
        comma = self.tokens[close - 2]
        if literal.kind != STRING or literal.text[0] in "xX" or comma.text != ",":
            return i + 1
        if table_close == i + 4:
            table = self.tokens[i + 2]
            raise error_at(self.text, table.start, self.tokens[table_close].end, "SYNTAX", "expected a table or a query in TABLE(...)")
        self._check_recursion(i + 4, table_close, i)
        text = _string_value(literal.text)
        if text.lstrip().startswith("--sparkcep"):
            return close + 1  # already rewritten
        text = backticked(text) if self.settings.double_quoted else text
        prefix = self._table_arguments(table_close + 1, close - 2)
        # The offset of the clause's text, unless the literal has escapes. Then errors point at the literal.
        begin = literal.start + 1 - len(prefix) if len(literal.text) - 2 == len(text) else None
        moved = functools.partial(self._moved, prefix + text, begin, literal.start)
        with self._placed(moved):
            clause = parse_clause(prefix + text, self.settings.columns)
        inner = self.tokens[i + 4 : table_close]
        inside = self._rewritten(inner[0].start, inner[-1].end)
        is_query = inner[0].kind == WORD and inner[0].upper in ("SELECT", "WITH", "VALUES", "FROM", "TABLE")
        source = f"({inside})" if is_query else inside
        whole, table = Span(self.tokens[i].start, self.tokens[close].end), Span(inner[0].start, inner[-1].end)
        origin = Origin(whole, table, begin, Span(literal.start, literal.end), lead=int(is_query))
        qualifiers = frozenset() if is_query else table_names(self.tokens, self.close, i + 4, table_close)
        self._replace(clause, i, i, _Table(origin, source, qualifiers, moved))
        return close + 1

    @contextmanager
    def _placed(self, moved: Callable[[int, int], tuple[int, int]] | None) -> Iterator[None]:
        """Moves errors to the statement. ``moved`` maps their lines and columns; None if these are those of the statement."""
        try:
            yield
        except ClauseError as error:
            if moved is None or not error.line:
                raise
            raise error.moved(*moved(error.line, error.column)) from None

    def _moved(self, text: str, begin: int | None, first: int, line: int, column: int) -> tuple[int, int]:
        """Maps a position in ``text``, which begins at ``begin``, to the statement. Positions before ``first`` become ``first``."""
        offset = sum(len(before) + 1 for before in text.split("\n")[: line - 1]) + column - 1
        return position(self.text, first if begin is None else max(begin + offset, first))

    def _rewritten(self, start: int, end: int) -> str:
        """Returns a part of the statement with the clauses inside it rewritten."""
        with self._placed(functools.partial(self._moved, self.text[start:end], start, start)):
            sql, found = rewrite_all(self.text[start:end], self.settings, frames=self.frames)
        self.found += [replace(one, origin=one.origin.shifted(start)) for one in found]
        return sql

    def _table_arguments(self, start: int, stop: int) -> str:
        """Returns ``PARTITION BY (a, b) ORDER BY (c)`` after TABLE(...) as the head of the clause. Raises ClauseError."""
        parts, j = [], start
        while j < stop:
            t = self.tokens[j]
            if t.upper in ("PARTITION", "ORDER") and self.tokens[j + 1].upper == "BY":
                words = "PARTITION BY" if t.upper == "PARTITION" else "ORDER BY"
                k = j + 2
                if self.tokens[k].text == "(" and self.close[k] < stop:
                    body = self.text[self.tokens[k].end : self.tokens[self.close[k]].start]
                    k = self.close[k] + 1
                else:
                    first = k
                    while k < stop and self.tokens[k].upper not in ("PARTITION", "ORDER"):
                        k += 1
                    body = self.text[self.tokens[first].start : self.tokens[k - 1].end]
                parts.append((words, body))
                j = k
            elif t.upper == "WITH" and self.tokens[j + 1].upper == "SINGLE":
                j += 3
            else:
                raise self.statement.error(j, "SYNTAX", "expected PARTITION BY (...) or ORDER BY (...) after TABLE(...), then the clause text")
        return "".join(f"{words} {body} " for words, body in sorted(parts, key=lambda p: p[0] == "ORDER BY"))


def _who_ranks(plan: Plan, ranking: Ranking) -> Plan:
    """Returns the plan with ranks from the engine if it finds the best matches itself and each partition is ranked alone."""
    from sparkcep.compiler.searches import PATHS
    from sparkcep.compiler.strategy import strategy_of

    strategy = strategy_of(plan)
    if not strategy.ranks:
        log.warning("TOP %d lists matches one by one, possibly very many, because %s", ranking.top, "; ".join(map(str, strategy.unranked)))
    return plan.ranked_by_engine() if strategy.search == PATHS and not ranking.overall and ranking.changes is None else plan


def _check_automaton(plan: Plan) -> None:
    """Raises ClauseError if a PATTERN with CHANGES IN cannot become an automaton."""
    from sparkcep.compiler.strategy import strategy_of

    strategy_of(plan)


def _at_key(error: ClauseError, clause: MatchClause) -> ClauseError:
    """An error that names a key of PARTITION BY by the rewriter's column, with the key's text and place; others as they are."""
    named = re.fullmatch(r"__p(\d+)", error.fragment)
    if named is None or int(named[1]) >= len(clause.partition_by):
        return error
    span = clause.partition_by[int(named[1])].span
    message = error.message.replace(error.fragment, span.of(clause.text))
    return error_at(clause.text, span.start, span.end, error.error_class.removeprefix("SPARKCEP."), message, error.sqlstate)


def _unasked(names: str | None) -> str:
    """Says why a clause's table cannot be sampled. ``names``: the WITH that makes it readable; None if it is unknown."""
    return "an inner WITH may define its table's names" if names is None else "its table cannot be sampled without a session, as in spark.sql"


_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|U(?:000[0-9a-fA-F]|0010)[0-9a-fA-F]{4}|[01][0-7]{2}|.)|''|\"\"", re.S)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _string_value(literal: str) -> str:
    """Returns the value of a Spark string literal."""
    if literal[0] in "rR":
        return literal[2:-1]

    def value(found: re.Match[str]) -> str:
        escape = found[1]
        if escape is None:
            return literal[0] if found[0][0] == literal[0] else found[0]
        if escape[0] in "uU" and len(escape) > 1:
            return chr(int(escape[1:], 16))
        return chr(int(escape, 8)) if len(escape) == 3 else _ESCAPES.get(escape, escape)

    text = _ESCAPED.sub(value, literal[1:-1])
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two escapes may be the surrogates of one character


# -- the subquery ---------------------------------------------------------------------------------------------


def subquery(
    plan: Plan, source: str, explaining: bool = False, months: Months | None = None, filtering: Choice = UNFILTERED,
    slicing: Slicing = WHOLE, frame: str | None = None, windows: bool = False,
) -> str:
    """Returns the parenthesised SELECT that replaces a clause over ``source``.

    Args:
        plan: the clause's plan.
        source: the table as SQL text.
        explaining: whether to add the lines for EXPLAIN.
        months: the year-month intervals of the clause.
        filtering: the choice about a second read.
        slicing: the choice about slices.
        frame: a table that replaces the call of the table function, and the ranking that Spark would do above it.
        windows: whether aggregates of several output rows become window functions, if possible.
    """
    about = ""
    steps = window_aggregates.stepwise(plan) if windows else None
    plan = steps or plan
    if explaining:
        from sparkcep.sql.explain.describe import describe

        lines = "\n".join("--sparkcep " + line for line in describe(plan, filtering, slicing).splitlines())
        about = ", r'" + lines.replace("'", '"') + "'"
    slices = slicing.slices
    call = frame or f"match_recognize(TABLE({_input(plan, source, months, filtering.filter, slices)}){about})"
    if months:
        given = [_given_back(name, kind) for name, kind in months.outputs] + ([OWN] if slices else []) + (_framed(plan.ranking) if frame and plan.ranking else [])
        call = f"(SELECT {', '.join(given)} FROM {call})"
    if slices:
        call = f"(SELECT * EXCEPT ({OWN}) FROM {call} WHERE {owned(slices)})"
    if plan.approximate is not None and plan.approximate.report == HISTORY:
        return _history(plan, call)
    below, above = by_rank(plan)
    if steps is not None:
        rows = window_aggregates.in_windows(plan, call, _kept_leaves(plan))
    else:
        rows = _with_aggregates(below, call)
    by_frame = frame and plan.ranking and plan.ranking.by_spark
    if plan.ranking and not by_frame:
        rows = _ranked(plan, plan.ranking, rows)
    rows = _with_aggregates(above, rows)
    if plan.ranking and plan.ranking.changes is not None:
        rows = (_come_and_go if by_frame else functools.partial(_list_changes, plan))(plan.ranking.changes, rows)
    if plan.rows == ONE_ROW and not plan.partition and not any(_PLAIN.fullmatch(text) for _, text in plan.outputs):
        names = ", ".join(quote(name) for name, _ in plan.outputs)
        return f"(SELECT {names} FROM (SELECT {', '.join(_output(plan))}, {_WHOLE} FROM {rows}))"
    return f"(SELECT {', '.join(_output(plan))} FROM {rows})"


def _history(plan: Plan, rows: str) -> str:
    """Returns the run features of all partitions together.

    Bundles are numbered by their first match points, then by the keys of their partitions.
    """
    assert plan.approximate is not None
    whole = "BIGINT" if plan.approximate.whole else "DOUBLE"
    (_, pattern), *columns = plan.outputs
    place, errors, remaining, idle, visits, points, starts = (text for _, text in columns)
    keys = [f"{key.column} ASC NULLS FIRST" for key in plan.partition]
    spread = f"SELECT * FROM {rows} LATERAL VIEW OUTER posexplode({starts}) __b AS {POSITION}, {ELEMENT}"
    order = ", ".join([f"{POSITION} IS NULL", f"{ELEMENT} ASC NULLS FIRST", *keys])
    numbered = f"SELECT *, IF({POSITION} IS NULL, NULL, dense_rank() OVER (ORDER BY {order})) AS __bundle FROM ({spread})"
    counted = f"SELECT *, max(__bundle) OVER () AS __bundles FROM ({numbered})"
    last = f"CAST(min(IF(__bundle > __bundles - {MAX_BUNDLES}, {ELEMENT}, NULL)) OVER () AS STRING)"
    message = f"concat('MATCH HISTORY found ', __bundles, ' bundles, but at most {MAX_BUNDLES} are allowed. Select the rows from ', {last}, ' on with WHERE below the clause')"
    bounded = f"SELECT *, IF(__bundles > {MAX_BUNDLES}, raise_error({message}), __bundle - 1) AS __number FROM ({counted})"
    groups = ", ".join([place, errors, remaining, idle])
    return (
        f"(SELECT {pattern} AS pattern, {place} AS place, CAST({errors} AS {whole}) AS errors, {remaining} AS remaining, {idle} AS idle, "
        f"sum(IF({POSITION} > 0, 0, {visits})) AS visits, sum(IF({POSITION} > 0, 0, {points})) AS points, "
        f"array_sort(collect_set(CAST(__number AS INT))) AS bundles FROM ({bounded}) GROUP BY {groups})"
    )


def _ranked(plan: Plan, ranking: Ranking, rows: str) -> str:
    """Returns the rows with their score; with TOP, the best matches of each partition and window, with their rank."""
    scores = scored(ranking, rows)
    if not ranking.top:
        return f"({scores})"
    if ranking.by_engine:
        rank = next(leaf.name for leaf in plan.leaves if leaf.spec.kind == "rank")
        return f"(SELECT *, {rank} AS {RANK} FROM ({scores}))"
    groups = _groups(plan, ranking)
    if plan.compares_overall:
        groups.append(_without_rows(ranking.changes))
    rank = f"dense_rank() OVER ({by_keys(groups)}ORDER BY {', '.join(ranking.order)}) AS {RANK}"
    return f"(SELECT * FROM (SELECT *, {rank} FROM ({scores})) WHERE {RANK} <= {ranking.top})"


def _with_next_windows(changes: ListChanges, rows: str) -> tuple[ListChanges, str]:
    """Returns the rows of matches with the next window of all partitions, and the columns of this window.

    The rows without a match, one for each window of a partition, are dropped. The last row of a window has the next window's row
    after it, and the last window is its own next one.
    """
    pairs = [(changes.start, NEXT_START), *([(changes.end, NEXT_END)] if changes.end else [])]
    following = ", ".join(f"lead({edge}) OVER (ORDER BY {changes.start}) AS {name}_row" for edge, name in pairs)
    next_edges = ", ".join(f"coalesce(max({name}_row) OVER (PARTITION BY {changes.start}), {edge}) AS {name}" for edge, name in pairs)
    found = f"SELECT *, {next_edges} FROM (SELECT *, {following} FROM {rows})"
    return changes._replace(next_start=NEXT_START, next_end=NEXT_END if changes.end else ""), f"(SELECT * FROM ({found}) WHERE NOT {_without_rows(changes)})"


def _without_rows(changes: ListChanges) -> str:
    """Returns whether a row of the engine only marks a window."""
    return f"(size({changes.identity}) = 0)"


def list_identity(plan: Plan, changes: ListChanges) -> list[str]:
    """Returns the columns that identify a match in the lists of its partition: with its rank if a measure reads the rank."""
    return [*plan.key_texts(), changes.identity, *([RANK] if _of_rank(plan) or any(_RANK.search(text) for _, text in plan.outputs) else [])]


def _framed(ranking: Ranking) -> list[str]:
    """Returns the columns that a frame of ranked matches has beside those of the table function."""
    return [SCORE, RANK, *([BEFORE, AFTER] if ranking.changes is not None else [])] if ranking.by_spark else []


def _list_changes(plan: Plan, changes: ListChanges, rows: str) -> str:
    """Returns how the list of TOP k changes from window to window, see :func:`_come_and_go`."""
    if plan.compares_overall:
        changes, rows = _with_next_windows(changes, rows)
    over = f"OVER (PARTITION BY {', '.join(list_identity(plan, changes))} ORDER BY {changes.start})"
    return _come_and_go(changes, f"(SELECT *, lag({changes.next_start}) {over} AS {BEFORE}, lead({changes.start}) {over} AS {AFTER} FROM {rows})")


def _come_and_go(changes: ListChanges, rows: str) -> str:
    """Returns the rows that come into the list of TOP k and go from it, each with the window of the change.

    A match stays if it is in the list of the partition's window before. If an earlier micro-batch of a stream emitted the window,
    its rows do not come again.

    Args:
        changes: the columns of the rows.
        rows: SQL of the lists. BEFORE is the next window of the match's window before this one. AFTER is the match's window after
            this one.
    """
    starts = f"IF({CHANGE} = 'insert', {changes.start}, {changes.next_start}) AS {LIST_CHANGE['WINDOW_START']}"
    ends = f", IF({CHANGE} = 'insert', {changes.end}, {changes.next_end}) AS {LIST_CHANGE['WINDOW_END']}" if changes.end else ""
    comes = f"NOT {changes.emitted} AND NOT ({BEFORE} <=> {changes.start})"
    goes = f"{changes.next_start} <> {changes.start} AND NOT ({AFTER} <=> {changes.next_start})"  # the last window is its own next one
    return (
        f"(SELECT *, {starts}{ends} FROM {rows} LATERAL VIEW explode(`array`('retract', 'insert')) __t AS {CHANGE} "
        f"WHERE IF({CHANGE} = 'insert', {comes}, {goes}))"
    )


def scored(ranking: Ranking, rows: str) -> str:
    """Returns a query of the rows with their score."""
    guard = "{}" if ranking.changes is None else f"IF({_without_rows(ranking.changes)}, NULL, {{}})"
    objectives = ", ".join(f"{guard.format(text)} AS __g{i}" for i, text in enumerate(ranking.objectives))
    return f"SELECT *, {ranking.score} AS {SCORE} FROM (SELECT *, {objectives} FROM {rows})"


def _groups(plan: Plan, ranking: Ranking) -> list[str]:
    """Returns the columns that group the matches to rank."""
    return [*([] if ranking.overall else plan.key_texts()), *(leaf.name for leaf in plan.leaves if leaf.spec.kind == "window_start")]


def ranked_by(plan: Plan, ranking: Ranking) -> tuple[list[str], list[tuple[str, bool]]]:
    """Returns the columns that group the matches to rank, and the ranking order.

    The order consists of expressions over the rows with their score, each with whether it is descending, NULL last, or ascending,
    NULL first.
    """
    down = " DESC NULLS LAST"
    return _groups(plan, ranking), [(item.removesuffix(down).removesuffix(" ASC NULLS FIRST"), item.endswith(down)) for item in ranking.order]


def _as_months(text: str) -> str:
    whole = f"CAST({text} AS INTERVAL YEAR TO MONTH)"  # an interval of one unit lacks the other to extract
    return f"CAST(12 * EXTRACT(YEAR FROM {whole}) + EXTRACT(MONTH FROM {whole}) AS INT)"


def _given_back(name: str, kind: str) -> str:
    """Restores the interval type of a column of months, for arrays per element, for rows of a match per field."""
    if not kind:
        return quote(name)
    if kind.startswith("array<"):
        return f"transform({quote(name)}, __m -> {_interval_of('__m', kind[6:-1])}) AS {quote(name)}"
    if kind.startswith("rows<"):
        fields = [(f"__m.a{i}", k) for i, k in enumerate(kind[5:-1].split(","))]
        given = ", ".join(f"'{field[4:]}', {_interval_of(field, k) if k else field}" for field, k in fields)
        return f"transform({quote(name)}, __m -> named_struct({given})) AS {quote(name)}"
    if kind == AVERAGE:
        return f"{_interval_of(f'round({quote(name)})', 'INTERVAL YEAR TO MONTH')} AS {quote(name)}"
    return f"{_interval_of(quote(name), kind)} AS {quote(name)}"


def _interval_of(months: str, kind: str) -> str:
    return f"CAST(make_ym_interval(0, CAST({months} AS INT)) AS {kind})"


def by_rank(plan: Plan) -> tuple[Plan, Plan]:
    """Returns the plan with the aggregates that are computed below the ranking, and with those that read the rank of their match.

    Those below the ranking come first, because a score may read them.
    """
    of_rank = _of_rank(plan)
    below, above = (
        replace(
            plan, over_arrays=tuple(column for column in plan.over_arrays if (column.name in of_rank) == later),
            aggregates=tuple(column for column in plan.aggregates if (column.name in of_rank) == later),
        )
        for later in (False, True)
    )  # fmt: skip
    if not of_rank:
        return plan, above
    below, above = (replace(part, arrays=tuple(array for array in plan.arrays if any(_reads(text, array.name) for _, text in part.aggregates))) for part in (below, above))
    below = replace(below, outputs=(*plan.outputs, *above.over_arrays, *above.arrays))
    kept = _kept_leaves(below)
    return below, replace(above, leaves=tuple(leaf for leaf in plan.leaves if leaf.name in kept))


def _of_rank(plan: Plan) -> set[str]:
    """Returns the names of the arrays, functions of arrays and aggregates that read the rank of their match."""
    arrays = {name for name, text in plan.arrays if _RANK.search(text)}
    found = {name for name, text in plan.aggregates if any(_reads(text, array) for array in arrays)}
    return arrays | found | {name for name, text in (*plan.over_arrays, *plan.aggregates) if _RANK.search(text)}


def _reads(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def _with_aggregates(plan: Plan, rows: str) -> str:
    """Returns the rows with the columns of functions of arrays, and of aggregates."""
    if plan.over_arrays:
        rows = f"(SELECT *, {', '.join(f'{text} AS {name}' for name, text in plan.over_arrays)} FROM {rows})"
    return _aggregated(plan, rows) if plan.aggregates else rows


def _aggregated(plan: Plan, call: str) -> str:
    """Returns the table function's rows with the columns of the aggregates that Spark computes over arrays.

    Each row is exploded into its arrays' elements, and grouped again by a row number. A scalar subquery over an array would be
    shorter, but Spark turns it into a join and calls the table function once for each side.
    """
    arrays = ", ".join(f"{text} AS {name}" for name, text in plan.arrays)
    names = [name for name, _ in plan.arrays]
    kept = _kept_leaves(plan)
    spent = ", ".join(names + [leaf.name for leaf in plan.leaves if leaf.name not in kept])
    columns = [f"any_value(`struct`(__t.* EXCEPT ({spent}))) AS __t", *(f"{text} AS {n}" for n, text in plan.aggregates)]
    numbered = f"SELECT *, {arrays}, monotonically_increasing_id() AS __row_id FROM {call}"
    spread = f"LATERAL VIEW OUTER posexplode(arrays_zip({', '.join(names)})) __z AS {POSITION}, {ELEMENT}"
    rows = f"SELECT {', '.join(columns)} FROM ({numbered}) AS __t {spread} GROUP BY __row_id"
    return f"(SELECT __t.* EXCEPT (__row_id), {', '.join(name for name, _ in plan.aggregates)} FROM ({rows}))"


def _kept_leaves(plan: Plan) -> list[str]:
    """Returns the leaf columns to keep beside the aggregates. Leaves that only the aggregates read are dropped."""
    texts = [text for _, text in plan.outputs]
    if plan.ranking:
        texts += [*plan.ranking.objectives, plan.ranking.score, *plan.ranking.order, *(plan.ranking.changes or ())]
    used = {name for text in texts for name in re.findall(r"\b__l\d+\b", text)}
    used |= {leaf.name for leaf in plan.leaves if leaf.spec.kind == "rank" or (plan.slide and leaf.spec.kind == "window_start")}
    return [leaf.name for leaf in plan.leaves if leaf.name in used or not plan.aggregates]


def letters_sql(plan: Plan) -> list[str]:
    """Returns the column with the letters of each row as SQL, or an empty list if the plan lacks letters."""
    if not plan.letters:
        return []
    size = next(t for t, n in (("TINYINT", 7), ("SMALLINT", 15), ("INT", 31), ("BIGINT", 63)) if len(plan.letters) <= n)
    terms = " + ".join(f"CASE WHEN {text} THEN {1 << bit}{'L' if bit > 30 else ''} ELSE 0 END" for _, bit, text in plan.letters)
    return [f"CAST({terms} AS {size}) AS {LETTERS}"]


def _input(plan: Plan, source: str, months: Months | None, chosen: Filter | None = None, slices: Slices | None = None) -> str:
    """Returns the table function's input: row expressions computed by Spark, distributed and sorted."""
    as_months = {name for name, _ in months.columns} if months else set()
    texts = {n: _as_months(f"({t})") if n in as_months else t for n, t in plan.inputs}
    history = texts.pop(HISTORY_COLUMN, None)
    if CLOCK in texts:
        texts[CLOCK] = clock_text(plan, source)
    keys = plan.keys
    order = [item.over(item.column) for item in plan.order]
    order += [plan.changes.arrival] if plan.changes is not None and plan.changes.arrival else []
    computed = [f"{t} AS {n}" for n, t in texts.items()] + letters_sql(plan)
    order_only = _unread(plan)
    shipped = [n for n in texts if n not in order_only] + ([LETTERS] if plan.letters else [])
    if plan.ordered_inputs:
        window = window_of(plan, keys)
        computed += [f"{text.replace(ORDER, window)} AS {name}" for name, text in plan.ordered_inputs]
        computed.append(f"{ROW_NUMBER.replace(ORDER, window)} AS __rn")
        shipped += [n for n, _ in plan.ordered_inputs]
        order = ["__rn"]
        order_only.add("__rn")
    if plan.rows != ONE_ROW:
        own = [quote(n) for n in as_months if n not in dict(plan.inputs)]
        computed[:0] = [f"* EXCEPT ({', '.join(own)})", *(f"{_as_months(n)} AS {n}" for n in own)] if own else ["*"]
        shipped = [f"* EXCEPT ({', '.join(sorted(order_only))})"] if order_only else ["*"]
    elif not computed:
        # A pattern that reads no column still needs its rows.
        computed.append("0 AS __row")
    elif not any(_PLAIN.fullmatch(text) for text in texts.values()):
        computed.append(_WHOLE)
    computed += free_names(plan)
    if plan.arcs is not None and plan.arcs.texts:
        computed.append(f"`struct`(*) AS {ROW}")
    inner = f"SELECT {', '.join(computed)} FROM {source}"
    if plan.prefilter:
        inner += f" WHERE {needed_rows(plan)}"
    if plan.changes is not None and plan.changes.came:
        inner = with_promises(plan, inner)
        order_only |= set(plan.changes.came) - _needed(plan)
        shipped = [n for n in shipped if n not in order_only]
    if plan.arcs is not None:
        inner = with_arcs(plan, inner)
        shipped += plan.arcs.columns if plan.rows == ONE_ROW else ()
        order.insert(0, f"{IS} DESC")
    spreading, engines = "", replace(plan, months=tuple(sorted(as_months)))
    if slices is not None:
        inner, spreading, engines = placed(f"({inner})", slices), spread(slices), cut(engines, slices)
        keys = engines.keys
        unread = {PLACE, *([AWAY] if slices.start else [])}
        if plan.rows == ONE_ROW:
            shipped += [SLICE, *([] if slices.start else [AWAY])]
        else:
            shipped[0] = f"* EXCEPT ({', '.join(sorted(order_only | unread))})"
    sort = [*keys, *order]
    # Without an order there is a constant one, which costs nothing. Over a stream Spark would refuse to sort, but would search each
    # micro-batch on its own.
    tail = f"{spreading} DISTRIBUTE BY {', '.join(keys) or '0'} SORT BY {', '.join(sort) or 'NULL'}"
    planned = f"NULL AS `{engines.without_sql().to_json()}`"
    if history is not None:
        # The first row of each task carries the history, so it is computed once and shipped once per task.
        ordered = f"SELECT {', '.join(shipped)} FROM ({inner}){tail}"
        return f"SELECT *, IF((monotonically_increasing_id() & 8589934591) = 0, {history}, NULL) AS {HISTORY_COLUMN}, {planned} FROM ({ordered})"
    shipped.append(planned)
    if chosen is not None:
        join = kept_keys(plan, chosen, texts, source)
        return f"SELECT /*+ BROADCAST({KEPT}) */ {', '.join(shipped)} FROM ({inner}) AS __rows{join}{tail}"
    return f"SELECT {', '.join(shipped)} FROM ({inner}){tail}"


def stream_input(plan: Plan, source: str, months: tuple[str, ...] = ()) -> str:
    """Returns a query of the rows that a DataFrame passes to the engine, in no order.

    They are the table function's input, whether a variable accepts the row, and the columns of ORDER BY. ``months``: columns to
    return as numbers of months. The prefilter is a column here. Spark would push a WHERE condition down to the source, and rows
    that no variable accepts would not advance the watermark.
    """
    # the watermark is the clock of a stream
    texts, unread = {n: _as_months(f"({t})") if n in months else t for n, t in plan.inputs if n != CLOCK}, _unread(plan)
    computed = [f"{t} AS {n}" for n, t in texts.items()] + letters_sql(plan)
    shipped = [n for n in texts if n not in unread] + ([LETTERS] if plan.letters else [])
    computed += [f"coalesce({needed_rows(plan)}, false) AS {NEEDED}", *free_names(plan)]
    if plan.rows != ONE_ROW:
        own = [quote(n) for n in months if n not in texts]
        computed[:0] = [f"* EXCEPT ({', '.join(own)})", *(f"{_as_months(n)} AS {n}" for n in own)] if own else ["*"]
        shipped = [f"* EXCEPT ({', '.join(sorted({*unread, NEEDED}))})"]
    elif not any(_PLAIN.fullmatch(text) for text in texts.values()):
        computed.append(_WHOLE)
    order = [f"{item.column} AS __s{i}" for i, item in enumerate(plan.order)]
    return f"SELECT {', '.join([*(shipped or ['0 AS __row']), NEEDED, *order])} FROM (SELECT {', '.join(computed)} FROM {source})"


def needed_rows(plan: Plan) -> str:
    """Returns the condition of rows that some variable accepts; ``true`` if every row may be needed."""
    return " OR ".join(f"({text})" for text in plan.prefilter) or "true"


def _unread(plan: Plan) -> set[str]:
    """Returns computed columns that the engine does not get: those of ORDER BY alone, and those that check names."""
    unread = {item.column for item in plan.order} - _needed(plan)
    return unread | {column for i, name in enumerate(_own_names(plan)) for column in (name, f"__q{i}")}


def free_names(plan: Plan) -> list[str]:
    """Returns unused columns that make Spark's analyzer refuse names that a table column has.

    The names are those of registers and parameters, and words that were not read as a column. A name refers to the table's column
    if there is one, else to the added column, which alone has the field (spark/errors/reword words the error).
    """
    none = f"named_struct('{REGISTER_FIELD}', named_struct('{REGISTER_FIELD}', NULL))"
    return [text for i, name in enumerate(_own_names(plan)) for text in (f"{none} AS {name}", f"{name}.{REGISTER_FIELD}.{REGISTER_FIELD} AS __q{i}")]


def _own_names(plan: Plan) -> list[str]:
    """Returns the names of registers and parameters, and the words of the plan, without duplicates."""
    automaton = plan.automaton
    own = (*plan.words, *((*automaton.declared, *automaton.parameters) if automaton is not None else ()))
    return list({item.name.lower(): quote(item.name) for item in reversed(own)}.values())[::-1]


def text_of(plan: Plan, column: str) -> str:
    """Returns an input column as SQL over the clause's input."""
    return f"({dict(plan.inputs)[column]})"


def window_of(plan: Plan, keys: Iterable[str]) -> str:
    """Returns the window of the input columns ``keys`` and the clause's ORDER BY, over the clause's input."""
    order = ", ".join(item.over(text_of(plan, item.column)) for item in plan.order)
    return f"{by_keys(text_of(plan, key) for key in keys)}ORDER BY {order or 'NULL'}"


def by_keys(texts: Iterable[str]) -> str:
    """Returns a window's PARTITION BY with a blank after it, "" without keys.

    Spark logs a warning for each window without PARTITION BY.
    """
    listed = ", ".join(texts)
    return f"PARTITION BY {listed} " if listed else ""


def _needed(plan: Plan) -> set[str]:
    """Returns the input columns that the engine reads."""
    needed = set(plan.keys)
    if plan.rows != ONE_ROW:
        needed |= {item.column for item in plan.order if not item.plain}

    read: list[object] = [plan.conditions, plan.windows, plan.unfinished, *(leaf.spec for leaf in plan.leaves), plan.changes and plan.changes._replace(came=())]
    if plan.automaton is not None:
        automaton = plan.automaton
        read += [automaton.time, automaton.lifetime, *((register.initial, register.like) for register in automaton.registers)]
        read += [(arc.fence, arc.sets, arc.emits) for arc in automaton.arcs]
    if plan.ranking:
        read += [plan.ranking.monotone, plan.ranking.by_sides, plan.ranking.scored, plan.ranking.by_sequences]
    return needed | {text for text in _texts_in(tuple(read)) if text.startswith("__")}


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, tuple):
        for part in value:
            yield from _texts_in(part)
    elif isinstance(value, str):
        yield value


def _output(plan: Plan) -> list[str]:
    def measure(text: str) -> str:
        return f"IF(__matched, {text}, NULL)" if plan.rows == WITH_UNMATCHED else text

    measures = [f"{measure(text)} AS {quote(name)}" for name, text in plan.outputs]
    if plan.rows == ONE_ROW:
        return [f"{key.column} AS {quote(key.name)}" for key in plan.partition] + measures
    keys, hidden, seen = [], [], set()
    for key in (*plan.partition, *plan.order):
        name = key.name if not key.plain or plan.case_sensitive else key.name.lower()
        if key.plain and name in seen:
            continue
        if key.plain:
            seen.add(name)
        keys.append(quote(key.name) if key.plain else f"{key.column} AS {quote(key.name)}")
        hidden.append(quote(key.name) if key.plain else key.column)
    above = by_rank(plan)[1]  # without an aggregate above the ranking the leaves below it stay
    leaves = [leaf.name for leaf in above.leaves] if above.over_arrays and not above.aggregates else _kept_leaves(plan)
    hidden += leaves + [column.name for column in (*plan.aggregates, *plan.over_arrays)] + (["__matched"] if plan.rows == WITH_UNMATCHED else [])
    if plan.ranking:
        hidden += [*(f"__g{i}" for i in range(len(plan.ranking.objectives))), SCORE, *([RANK] if plan.ranking.top else [])]
    rest = f"* EXCEPT ({', '.join(hidden)})" if hidden else "*"
    return [*keys, *measures, rest]
