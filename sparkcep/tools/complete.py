"""Completion: proposes words of the clause, variables, columns and functions for a position of a statement.

Shell, notebooks and editors use it. The clause's own reader parses the text before the position and reports the words and names
that it would accept there (:class:`_Listening`). So the proposals are always what the parser accepts. Outside clauses
:mod:`sparkcep.tools.around` finds tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from sparkcep.clause.expressions import EXPRESSION, TYPE, Cursor
from sparkcep.clause.parser import OPTION, VARIABLE, read_begun
from sparkcep.clause.tokens import END, OP, QUOTED, WORD, Token, matching, quote, tokenize
from sparkcep.errors import ClauseError
from sparkcep.plan.scope import AGGREGATES, CHANGED, MATCH_FUNCTIONS
from sparkcep.sql.rewrite.occurrences import KEYWORD, Statement
from sparkcep.tools import around
from sparkcep.tools.around import Place
from sparkcep.tools.statements import open_clause

WORDS, VARIABLES, COLUMNS, TABLES, FUNCTIONS, TYPES, STATES, REGISTERS = "keyword", "variable", "column", "table", "function", "type", "state", "register"
_BEGIN_EXPRESSIONS = ("CASE", "CAST", "INTERVAL", "RUNNING", "FINAL", "TRUE", "FALSE", "NULL")
_TYPES = "BIGINT BINARY BOOLEAN DATE DECIMAL DOUBLE FLOAT INT INTERVAL SMALLINT STRING TIMESTAMP TIMESTAMP_NTZ TINYINT".split()
_OFTEN = ("AVG", "COUNT", "MAX", "MIN", "SUM")  # the aggregates that are proposed first
_BEHIND_EXPRESSIONS = frozenset(["COLLATE", "AT TIME ZONE", "DIV", "IS", "NOT", "BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "AND", "OR"])
_HEADS = frozenset(["PARTITION BY", "ORDER BY", "MEASURES", "SUBSET", "DEFINE"])
_PATTERNS = frozenset(["PATTERN", "AUTOMATON"])
_ITEMS = frozenset(["REGISTER", "STATE", "ARC", "ARCS"])  # words that begin an item of an automaton
_STATE, _REGISTER, _TABLE = "the state that", "the name of a register", "a table"  # as errors name them, or begin to
_LONGEST = 6  # words of one proposal


@dataclass(frozen=True)
class Proposal:
    """A proposal: ``text`` replaces the statement's text from ``start`` to the requested position.

    ``kind`` is one of the constants above.
    """

    text: str
    kind: str
    start: int


def complete(
    text: str,
    at: int | None = None,
    columns: Callable[[str], Sequence[str]] | None = None,
    tables: Callable[[], Sequence[str]] | None = None,
    functions: Callable[[], Sequence[str]] | None = None,
) -> list[Proposal]:
    """Proposes continuations of a statement at a position, the most specific kind first.

    Functions, and words outside clauses, are proposed after their first letter. There are none inside literals, comments and
    names in backticks.

    Args:
        text: the statement or statements.
        at: the offset in ``text``; None means its end.
        columns: returns the column names of a table. Its argument is the table's text after FROM: a name, a query in parentheses,
            or a table with its clause.
        tables: returns the names of tables.
        functions: returns the names of SQL functions.

    Returns:
        The proposals, each with its ``text``, ``kind`` and ``start``.

    Example:
        >>> [proposal.text for proposal in sparkcep.complete("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY d PATTERN (A) DEF")]
        ['DEFINE']
    """
    at = len(text) if at is None else at
    try:
        before = tokenize(text[:at])[:-1]
    except ClauseError:  # a literal or a comment is open
        return []
    if "--" in text[before[-1].end if before else 0 : at].rpartition("\n")[2]:  # in a comment
        return []
    typed = ""
    if before and before[-1].kind == WORD and before[-1].end == at:
        typed = before.pop().text
    elif before and before[-1].end == at and before[-1].kind not in (OP, QUOTED):
        return []
    start = at - len(typed)
    word = open_clause(before)
    if word is None:
        found = list(_outside(_place(text, start, at, len(before)), typed, columns, tables, functions))
    else:
        found = list(_inside(before[word + 2 :], _Around(text, start, at, word, columns), tables))
    return [Proposal(name, kind, start) for name, kind in dict.fromkeys(found) if name.lower().startswith(typed.lower())]


def _place(text: str, start: int, at: int, before: int) -> Place:
    """Returns the position of a word outside clauses, with the text after it if that can be tokenised."""
    text = _without_word(text, start, at)
    try:
        tokens = tokenize(text)
    except ClauseError:  # the text after the position cannot be tokenised
        tokens = tokenize(text[:at])
    return Place(text, tokens[:-1], before)


def _without_word(text: str, start: int, at: int) -> str:
    """Returns the text with blanks instead of the word being written, which is not a name yet."""
    while at < len(text) and (text[at].isalnum() or text[at] == "_"):
        at += 1
    return text[:start] + " " * (at - start) + text[at:]


def _outside(
    place: Place,
    typed: str,
    columns: Callable[[str], Sequence[str]] | None,
    tables: Callable[[], Sequence[str]] | None,
    functions: Callable[[], Sequence[str]] | None,
) -> Iterator[tuple[str, str]]:
    """Yields proposals for a position outside clauses."""
    if place.wants_table():
        yield from ((name, TABLES) for name in (*place.views(), *(tables() if tables is not None else ())))
    if columns is not None and (place.wants_expression() or place.qualifier() is not None):
        yield from ((_written(name), COLUMNS) for name in around.columns(place, columns))
    if place.qualifier() is not None or not typed:
        return
    if place.behind_a_table():
        yield KEYWORD, WORDS
    yield from ((word, WORDS) for word in around.WORDS_OF_SQL)
    if place.wants_expression() and functions is not None:
        yield from ((name + "(", FUNCTIONS) for name in functions())


class _Around:
    """Names in the rest of the statement: the clause may continue after the position, and it reads a table."""

    def __init__(self, text: str, start: int, at: int, word: int, columns: Callable[[str], Sequence[str]] | None) -> None:
        self._columns = columns
        text = _without_word(text, start, at)
        try:
            whole = Statement(text)
        except ClauseError:  # the text after the position cannot be tokenised
            whole = Statement(text[:at])
        self._statement, self._word = whole, word
        end = whole.close.get(word + 1, len(whole.tokens) - 1)
        self._tokens = whole.tokens[word + 2 : end]

    def columns(self) -> list[str]:
        try:
            first = self._statement.table_before(self._word)
        except ClauseError:
            return []
        if self._columns is None or first is None or first == self._word:
            return []
        tokens = self._statement.tokens
        table = self._statement.text[tokens[first].start : tokens[self._word - 1].end]
        return [_written(name) for name in self._columns(table)]

    def variables(self) -> list[str]:
        """Returns the names in PATTERN, SUBSET and DEFINE. The clause is incomplete, so they are gathered from its tokens."""
        tokens, found = self._tokens, []
        closed = matching(tokens)
        for i, token in enumerate(tokens[:-1]):
            if token.upper == "PATTERN" and token.kind == WORD and tokens[i + 1].text == "(":
                inside = range(i + 2, closed.get(i + 1, len(tokens)))
                found += _named_in(tokens, inside)
            elif token.upper == "SEQUENCE" and token.kind == WORD and i + 3 < len(tokens) and tokens[i + 2].upper == "AS" and tokens[i + 3].text == "(":
                found += [tokens[i + 1].text, *_named_in(tokens, range(i + 4, closed.get(i + 3, len(tokens))))]
        return list(dict.fromkeys([*found, *_heads_of(tokens, "SUBSET", "="), *_heads_of(tokens, "DEFINE", "AS")]))

    def states(self) -> list[str]:
        return _heads_of(self._tokens, "STATE")

    def registers(self) -> list[str]:
        return _heads_of(self._tokens, "REGISTER")


def _named_in(tokens: list[Token], inside: range) -> list[str]:
    """Returns the names in a row pattern."""
    return [tokens[k].text for k in inside if tokens[k].kind == QUOTED or (tokens[k].kind == WORD and tokens[k].upper != "PERMUTE" and not _of_a_window(tokens, k))]


def _of_a_window(tokens: list[Token], k: int) -> bool:
    """Whether the word is WITHIN after a group, or part of its size."""
    while k > 0 and tokens[k].kind != OP:
        if tokens[k].upper == "WITHIN" and tokens[k - 1].text == ")":
            return True
        k -= 1
    return False


def _heads_of(tokens: list[Token], word: str, behind: str | None = None) -> list[str]:
    """Returns the first name of each item in the lists after ``word``; with ``behind``, only names followed by that word."""
    found, depth, within, item = [], 0, None, False
    for i, token in enumerate(tokens):
        if token.kind == OP:
            depth += (token.text in "([") - (token.text in ")]")
            item = item or (token.text == "," and depth == within)
            if within is not None and depth < within:
                within = None
        elif token.kind == WORD and token.upper == word and not (item and within == depth):
            within, item = depth, True
        elif within == depth and token.kind == WORD and token.upper in _ITEMS:
            within = None
        elif within == depth and item and token.kind in (WORD, QUOTED):
            item = False
            if behind is None or (i + 1 < len(tokens) and tokens[i + 1].upper == behind):
                found.append(token.text)
    return found


def _written(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else quote(name)


def _inside(tokens: list[Token], near: _Around, tables: Callable[[], Sequence[str]] | None) -> Iterator[tuple[str, str]]:
    """Yields proposals after ``tokens``, the clause's tokens before the position."""
    if len(tokens) > 1 and tokens[-1].text == "." and tokens[-2].kind in (WORD, QUOTED):
        yield from ((name, COLUMNS) for name in near.columns())
        return
    listening = _read(tokens)
    known = (
        (VARIABLE, near.variables, VARIABLES), (_STATE, near.states, STATES), (_REGISTER, near.registers, REGISTERS), (TYPE, lambda: _TYPES, TYPES),
        (_TABLE, tables if tables is not None else list, TABLES),
    )  # fmt: skip
    for what in listening.names:
        for beginning, names, kind in known:
            if what.startswith(beginning):
                yield from ((name, kind) for name in names())
        if what == EXPRESSION:
            yield from ((name, COLUMNS) for name in near.columns())
            if not listening.in_keys:
                yield from ((name, VARIABLES) for name in near.variables())
                yield from ((name, REGISTERS) for name in near.registers())
                yield from ((name + "(", FUNCTIONS) for name in _functions())
            yield from ((word, WORDS) for word in _BEGIN_EXPRESSIONS)
    written = {*listening.options, *(_PATTERNS if _PATTERNS & {*listening.options} else ())}
    for word in sorted(listening.words, key=_BEHIND_EXPRESSIONS.__contains__):
        if word not in written or OPTION not in listening.names:
            yield _extended(tokens, word), WORDS


@cache
def _functions() -> tuple[str, ...]:
    """Returns the names of the clause's functions, functions of matches before aggregates."""
    own = sorted((MATCH_FUNCTIONS | set(CHANGED)) - AGGREGATES)
    return (*own, *(name.lower() for name in (*_OFTEN, *sorted(AGGREGATES - set(_OFTEN)))))


def _extended(tokens: list[Token], word: str) -> str:
    """Returns the word with the words that must follow it: AFTER MATCH SKIP, ROWS PER MATCH."""
    words = word.split()
    while len(words) < _LONGEST:
        listening = _read([*tokens, *_made(words)])
        if listening.names or listening.signs or len(listening.words) != 1:
            break
        words += next(iter(listening.words)).split()
    return " ".join(words)


def _made(words: Iterable[str]) -> Iterator[Token]:
    return (Token(WORD, word, word, 0, 0) for word in words)


def _read(tokens: list[Token]) -> _Listening:
    listening = _Listening("", [*tokens, Token(END, "", "", 0, 0)])
    read_begun(listening)
    return listening


class _Listening(Cursor):
    """Records what the reader expects at the end of the tokens.

    Attributes:
        words: the expected words of the language, without duplicates, in order.
        signs: the expected signs.
        names: the expected other things, in the reader's words.
        options: the words of the options read before.
        in_keys: whether the position is in the expressions of PARTITION BY or ORDER BY.
    """

    def __init__(self, text: str, tokens: list[Token]) -> None:
        super().__init__(text, tokens)
        self.words: dict[str, None] = {}
        self.signs: dict[str, None] = {}
        self.names: dict[str, None] = {}
        self.options: set[str] = set()
        self.in_keys = False
        self._option = -1  # the last token where an option may begin

    def take_word(self, *words: str) -> bool:
        at = self.i
        if not super().take_word(*words):
            return False
        if at == self._option:
            self.options.add(" ".join(words))
        if at == self._option or " ".join(words) in _HEADS:
            self.in_keys = words[-1] == "BY"
        return True

    def at_word(self, *words: str) -> bool:
        for k, word in enumerate(words):
            token = self.peek(k)
            if token.kind == END:
                self.words.setdefault(" ".join(words[k:]))
                return False
            if token.kind != WORD or token.upper != word:
                return False
        return True

    def at_op(self, chars: str) -> bool:
        if self.token.kind == END:
            self.signs.setdefault(chars)
        return super().at_op(chars)

    def may_be(self, what: str) -> None:
        if what == OPTION:
            self._option = self.i
        if self.token.kind == END:
            self.names.setdefault(what)
