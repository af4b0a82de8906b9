"""Completion outside clauses: the tables, columns, functions and words of SQL that may be written at a position.

``tools/complete`` uses it. The columns are those of the tables that the SELECT reads, including the output of clauses. The SQL is
not parsed: a SELECT is the text between parentheses that are not a function's. Its tables are the names after FROM, JOIN and
the commas between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sparkcep.clause.tokens import OP, QUOTED, WORD, Token, matching
from sparkcep.sql.rewrite.occurrences import KEYWORD

_BEGIN_TABLES = frozenset(["FROM", "JOIN"])
_END_TABLES = frozenset("WHERE GROUP ORDER HAVING LIMIT WINDOW SELECT CLUSTER DISTRIBUTE SORT OFFSET".split())
_SETS = frozenset(["UNION", "EXCEPT", "INTERSECT", "MINUS"])
# words followed by an expression
_BEFORE_EXPRESSIONS = frozenset("SELECT DISTINCT WHERE BY ON AND OR NOT HAVING CASE WHEN THEN ELSE BETWEEN IN LIKE SET".split())
_NO_ALIAS = (
    frozenset("ON USING JOIN LEFT RIGHT INNER OUTER FULL CROSS SEMI ANTI NATURAL LATERAL AS TABLESAMPLE PIVOT UNPIVOT".split())
    | frozenset([KEYWORD]) | _END_TABLES | _SETS
)  # fmt: skip
WORDS_OF_SQL = """AND AS ASC BETWEEN BY CASE CREATE CROSS DELETE DESC DESCRIBE DISTINCT DROP ELSE END EXCEPT EXISTS EXPLAIN FROM FULL GROUP HAVING IN INNER INSERT INTERSECT INTO IS
JOIN LATERAL LEFT LIKE LIMIT NOT NULL OFFSET ON OR ORDER OUTER OVER PARTITION REPLACE RIGHT SELECT SET SHOW TABLE TABLES TEMPORARY THEN UNION USING VALUES VIEW WHEN WHERE WINDOW
WITH""".split()


@dataclass(frozen=True)
class Table:
    """A table of a SELECT.

    Attributes:
        text: its text after FROM, with its clause if it has one.
        name: the name that qualifies its columns; "" if it lacks one.
    """

    text: str
    name: str


@dataclass(frozen=True)
class Place:
    """A position in a statement that is in no clause.

    ``tokens`` are those of the whole text without the word being written. The first ``before`` of them precede the position.
    """

    text: str
    tokens: Sequence[Token]
    before: int

    @property
    def last(self) -> Token | None:
        return self.tokens[self.before - 1] if self.before else None

    def wants_table(self) -> bool:
        if self.last is None:
            return False
        return self.last.upper in (*_BEGIN_TABLES, "TABLE", "INTO") if self.last.kind == WORD else self.last.text == "," and self._in_tables()

    def wants_expression(self) -> bool:
        """Whether an expression of a SELECT begins here."""
        last, tables = self.last, self._in_tables()
        if last is None or self._select() is None or tables:
            return False
        return last.upper in _BEFORE_EXPRESSIONS if last.kind == WORD else last.kind == OP and last.text not in (")", "]", ".", ";")

    def qualifier(self) -> str | None:
        """Returns the name before the dot that precedes the position. Returns None without such a dot."""
        if self.before < 2 or self.last is None or self.last.text != ".":
            return None
        name = self.tokens[self.before - 2]
        return name.text if name.kind in (WORD, QUOTED) else ""

    def behind_a_table(self) -> bool:
        """Whether the token before the position ends a table of FROM or JOIN."""
        last = self.last
        begun = last is not None and (last.upper in _BEGIN_TABLES if last.kind == WORD else last.text in (".", ","))
        return last is not None and not begun and self._in_tables()

    def tables(self) -> list[Table]:
        """Returns the tables of the SELECT around the position, and of the enclosing ones, nearest first."""
        found: list[Table] = []
        close = matching(self.tokens)
        block = self._select()
        while block is not None:
            low, high = block
            found += self._tables(low, high, close)
            block = self._select(low - 1) if self._correlated(low) else None
        return found

    def _correlated(self, low: int) -> bool:
        """Whether the SELECT that begins at token ``low`` is a correlated subquery, which sees the enclosing tables."""
        return low > 1 and self.tokens[low - 1].text == "(" and self.tokens[low - 2].upper not in (*_BEGIN_TABLES, "AS")

    def views(self) -> dict[str, str]:
        """Returns name -> query in parentheses, as the statement's WITH defines them."""
        close, found = matching(self.tokens), {}
        for i, token in enumerate(self.tokens[:-2]):
            if token.kind in (WORD, QUOTED) and self.tokens[i + 1].upper == "AS" and self.tokens[i + 2].text == "(" and i + 2 in close and i:
                if self.tokens[i - 1].upper in ("WITH", "RECURSIVE") or self.tokens[i - 1].text == ",":
                    found[token.text] = self._text(i + 2, close[i + 2])
        return found

    def _text(self, first: int, last: int) -> str:
        return self.text[self.tokens[first].start : self.tokens[last].end]

    def _in_tables(self) -> bool:
        """Whether the position is in the list of tables of its SELECT, and not in a condition of a JOIN."""
        depth = 0
        for i in range(self.before - 1, -1, -1):
            token = self.tokens[i]
            if token.kind == OP:
                depth += (token.text == ")") - (token.text == "(")
                if depth < 0 or (depth == 0 and token.text == ";"):
                    return False
            elif depth == 0 and token.kind == WORD and token.upper in (*_BEGIN_TABLES, *_END_TABLES, "ON", "USING", "SET", "VALUES"):
                return token.upper in _BEGIN_TABLES
        return False

    def _select(self, before: int | None = None) -> tuple[int, int] | None:
        """Returns the token range [low, high) of the SELECT around the position, or around the token ``before``, or None."""
        place = self.before if before is None else before
        low, depth, outside, found = place, 0, 0, False
        while low > 0:
            token = self.tokens[low - 1]
            if token.kind == OP:
                depth += (token.text == ")") - (token.text == "(")
                if (depth == 0 and token.text == ";") or (depth < 0 and found):
                    break
                if depth < 0:  # a function's parenthesis
                    depth, outside = 0, outside + 1
            elif depth == 0 and token.kind == WORD:
                if token.upper in _SETS and found:
                    break
                found = found or token.upper == "SELECT"
            low -= 1
        if not found:
            return None
        high, depth = place, 0
        while high < len(self.tokens):
            token = self.tokens[high]
            if token.kind == OP:
                depth += (token.text == "(") - (token.text == ")")
                if depth < -outside or token.text == ";":
                    break
            elif depth == -outside and token.kind == WORD and token.upper in _SETS:
                break
            high += 1
        return low, high

    def _tables(self, low: int, high: int, close: dict[int, int]) -> Iterator[Table]:
        """Yields the tables of the SELECT between two tokens."""
        i, among = low, False  # inside a list of tables, where a comma begins another table
        while i < high:
            token = self.tokens[i]
            begins = token.kind == WORD and token.upper in _BEGIN_TABLES
            if begins or (among and token.text == "," and token.kind == OP):
                among = True
                i += 1
                while i < high and self.tokens[i].upper == "LATERAL":
                    i += 1
                end = self._end_of_table(i, high, close)
                if end > i:
                    text_end, name, end = self._named(end, high, close)
                    yield Table(self._text(i, text_end), name)
                    i = end
                continue
            if token.kind == WORD and token.upper in (*_END_TABLES, "ON", "USING"):
                among = False
            i = close.get(i, i) + 1 if token.text == "(" and token.kind == OP else i + 1

    def _end_of_table(self, i: int, high: int, close: dict[int, int]) -> int:
        """Returns the index after a table's name or query, and after the arguments of a function."""
        if i < high and self.tokens[i].text == "(" and self.tokens[i].kind == OP:
            return min(close.get(i, high) + 1, high)
        while i < high and self.tokens[i].kind in (WORD, QUOTED):
            i += 1
            if i + 1 < high and self.tokens[i].text == ".":
                i += 1
                continue
            break
        if i < high and self.tokens[i].text == "(" and self.tokens[i].kind == OP and i in close:
            return min(close[i] + 1, high)
        return i

    def _named(self, end: int, high: int, close: dict[int, int]) -> tuple[int, str, int]:
        """Returns three facts about the table that ends before ``end``.

        They are the last token of the table with its clause, the name that qualifies its columns, and the index after both.
        """
        last, name = end - 1, self.tokens[end - 1].text if self.tokens[end - 1].kind in (WORD, QUOTED) else ""
        while end < high:
            token = self.tokens[end]
            if token.kind == WORD and token.upper == KEYWORD and end + 1 in close:
                last, name = close[end + 1], ""
                end = last + 1
            elif token.kind == WORD and token.upper == "AS" and end + 1 < high and self.tokens[end + 1].kind in (WORD, QUOTED):
                name, end = self.tokens[end + 1].text, end + 2
            elif token.kind == QUOTED or (token.kind == WORD and token.upper not in _NO_ALIAS):
                name, end = token.text, end + 1
            else:
                break
        return last, name, end


def columns(place: Place, of: Callable[[str], Sequence[str]]) -> list[str]:
    """Returns the columns that may be named at the position: those of all tables there, or of the table before a dot.

    ``of`` returns the columns of a table or a query.
    """
    qualifier, views = place.qualifier(), {name.lower(): text for name, text in place.views().items()}
    found: list[str] = []
    for table in place.tables():
        if qualifier is None or table.name.lower() == qualifier.lower():
            found += of(views.get(table.text.lower(), table.text))
    return found
