"""Finds the words of a statement that begin its lists: FROM, SELECT, VALUES etc. The statement is tokenised, not parsed.

``occurrences`` uses it to find where the table of a clause begins. Almost any word may be a name in Spark, also ``window``, ``set``
and ``limit``, so a word counts as a keyword only where it can be one.
"""

from __future__ import annotations

from sparkcep.clause.expressions import INFIX, Cursor, ExpressionParser
from sparkcep.clause.tokens import END, NUMBER, OP, STRING, WORD, Token, statement_places
from sparkcep.errors import ClauseError

KEYWORD = "MATCH_RECOGNIZE"
STARTS = frozenset(["FROM", "JOIN", "LATERAL"])
NOT_A_TABLE = frozenset("WHERE GROUP HAVING SELECT ORDER LIMIT WINDOW UNION INTERSECT EXCEPT QUALIFY SET BY".split())
_HEADS = STARTS | NOT_A_TABLE
# Rows in more levels of parentheses are not read. A row is read once more for each level around it.
_DEEPEST = 100
_LISTS_OF_TABLES = frozenset(["FROM", "JOIN"])
_LISTS_WITH_ALIASES = STARTS | {"SELECT"}
_BEFORE_BY = frozenset("GROUP ORDER PARTITION PARTITIONED SORT SORTED CLUSTER CLUSTERED DISTRIBUTE".split())
_BEFORE_OPERAND = frozenset("AND OR NOT ON WHERE HAVING QUALIFY BY BETWEEN LIKE ILIKE RLIKE REGEXP DIV WHEN CASE SELECT".split())
_BEFORE_VALUES = STARTS | {"UNION", "INTERSECT", "EXCEPT", "MINUS", "ALL", "DISTINCT", "AS", "(", ",", ";"}
# Spark reads SELECT * FROM WHERE x as SELECT * AS FROM WHERE x, and not as a table with an alias.
_AFTER_SELECT = frozenset("WHERE HAVING QUALIFY LIMIT".split())
_AFTER_TABLE = (NOT_A_TABLE - {"BY"}) | frozenset(", ) ; | AS ON USING JOIN INNER CROSS LEFT RIGHT FULL SEMI ANTI NATURAL LATERAL".split())


class Heads:
    """The keywords of a statement that begin a list.

    Attributes:
        of: for each token the index of the keyword before it, in the same parentheses, to whose list it belongs. The keyword is
            VALUES only for tokens of an inline table's rows.
        names: the indexes of words that only look like such keywords. They are names, and the FROM of IS DISTINCT FROM.
    """

    def __init__(self, text: str, tokens: list[Token], close: dict[int, int]) -> None:
        """Reads a statement. ``close`` maps the opening parentheses to the closing ones."""
        self.of: list[int | None] = []
        self.names: set[int] = set()
        self._text, self._tokens, self._close = text, tokens, close
        self._outer: list[int | None] = []  # the lists around the parentheses that are open
        head: int | None = None
        resumed: dict[int, int | None] = {}  # the tokens after the rows of inline tables, and the lists that these tables belong to
        for i, (t, place) in enumerate(zip(tokens, statement_places(tokens))):
            head = None if place.begins else resumed.get(i, head)
            self.of.append(head)
            if t.kind == OP and t.text == "(":
                self._outer.append(head)
                head = None
            elif t.kind == OP and t.text == ")" and self._outer:
                head = self._outer.pop()
            elif t.kind == WORD and self._is_name(i):
                self.names.add(i)
            elif t.kind == WORD and t.upper in _HEADS:
                head = i
            elif t.kind == WORD and t.upper == "VALUES" and len(self._outer) < _DEEPEST and self._begins_rows(i):
                resumed[self._after_rows(i + 1)] = head
                head = i

    def word(self, i: int) -> str:
        """The keyword to whose list token ``i`` belongs; "" without one."""
        head = self.of[i]
        return "" if head is None else self._tokens[head].upper

    def _at(self, i: int) -> Token:
        return self._tokens[min(i, len(self._tokens) - 1)]

    def _is_name(self, i: int) -> bool:
        """Whether the word at ``i`` cannot be a keyword of a list there."""
        t, before = self._tokens[i], self._tokens[i - 1]
        if before.kind == OP and before.text in ".:":
            return True
        if t.upper not in NOT_A_TABLE:
            return self._compares(i)
        if t.upper == "BY":
            return before.upper not in _BEFORE_BY or i - 1 in self.names
        if t.upper in ("GROUP", "ORDER"):
            return self._at(i + 1).upper != "BY"
        if t.upper == "WINDOW" and self._at(i + 2).upper != "AS":
            return True
        if self._begins_table(i):
            return self._may_be_table(i)
        if before.kind == OP and before.text == ">" and self._tokens[i - 2].text == "|":
            return False  # the operator of a pipe
        if t.upper == "SET" and (self._outer or self.word(i) in STARTS):
            return True
        if self._compares(i - 1):
            return True
        if before.kind != WORD or i - 1 in self.names:
            return before.kind == OP and before.text not in "()[]{};*?"
        if before.upper == "AS":
            return bool(self._outer) or self.word(i) in _LISTS_WITH_ALIASES
        return before.upper in _BEFORE_OPERAND

    def _compares(self, i: int) -> bool:
        """Whether token ``i`` is the FROM of IS DISTINCT FROM or IS NOT DISTINCT FROM."""
        return i > 1 and self._tokens[i].upper == "FROM" and self._tokens[i - 1].upper == "DISTINCT" and self._tokens[i - 2].upper in ("IS", "NOT")

    def _begins_table(self, i: int) -> bool:
        """Whether token ``i`` is the first one of a table, also in parentheses."""
        while i and self._tokens[i - 1].text == "(":
            i -= 1
        before = self._tokens[i - 1]
        if before.text == ",":
            return self.word(i - 1) in _LISTS_OF_TABLES
        return before.kind == WORD and before.upper in _LISTS_OF_TABLES and i - 1 not in self.names

    def _may_be_table(self, i: int) -> bool:
        """Whether the word at ``i``, in the place of a table, is its name, and not a keyword before which the table is missing."""
        if self._tokens[i].upper == "SELECT" and self._tokens[i - 1].text == "(":
            return False
        k = i + 1
        while self._at(k).text == "." and self._at(k + 1).kind != OP:
            k += 2
        after, behind = self._at(k), self._at(self._close.get(k + 1, k) + 1)
        if after.upper in _AFTER_TABLE or after.kind == END or (after.upper == KEYWORD and self._at(k + 1).text == "("):
            return True
        if self._tokens[i].upper in _AFTER_SELECT and self._tokens[i - 1].upper == "FROM" and k == i + 1:
            return False
        if after.kind == OP:
            return after.text == "("
        operator = behind.kind == OP and behind.text not in ",();|"
        return not (after.kind in (NUMBER, STRING) or after.upper in INFIX or operator or behind.kind in (NUMBER, STRING) or behind.upper in INFIX)

    def _begins_rows(self, i: int) -> bool:
        """Whether the word VALUES at ``i`` begins an inline table, and is not a name."""
        before, after = self._tokens[i - 1], self._tokens[i + 1]
        begins = before.kind == END or before.upper in _BEFORE_VALUES
        return begins and self.word(i) != "VALUES" and not (after.kind == OP and after.text in ".,;)")

    def _after_rows(self, i: int) -> int:
        """Returns the index of the first token after the rows of an inline table, which begin at ``i``. A row is any expression."""
        tokens = self._tokens
        while tokens[i].kind != END:
            end = self._close.get(i, i) + 1  # of a row in parentheses, or of a single token
            if tokens[end].text != ",":
                cursor = Cursor(self._text, tokens, i)
                try:
                    ExpressionParser(cursor).parse()
                except (ClauseError, RecursionError):  # an expression of another engine, or a wrong one
                    return self._alias_or_end(i)
                end = cursor.i
            if tokens[end].text != ",":
                return end
            i = end + 1
        return i

    def _alias_or_end(self, i: int) -> int:
        """Returns the index of the next AS, or of the end of the parentheses or the statement."""
        while self._tokens[i].kind != END and self._tokens[i].text not in (")", ";") and self._tokens[i].upper != "AS":
            i = self._close.get(i, i) + 1
        return i
