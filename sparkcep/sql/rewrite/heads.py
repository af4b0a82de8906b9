"""Finds the words of a statement that begin its lists: FROM, SELECT, VALUES etc. The statement is tokenised, not parsed.

``occurrences`` uses it to find where the table of a clause begins.
"""

from __future__ import annotations

from sparkcep.clause.expressions import Cursor, ExpressionParser
from sparkcep.clause.tokens import END, OP, WORD, Token
from sparkcep.errors import ClauseError

STARTS = frozenset(["FROM", "JOIN", "LATERAL"])
NOT_A_TABLE = frozenset("WHERE GROUP HAVING SELECT ORDER LIMIT WINDOW UNION INTERSECT EXCEPT QUALIFY SET BY".split())
_HEADS = STARTS | NOT_A_TABLE


def heads(text: str, tokens: list[Token], close: dict[int, int]) -> list[int | None]:
    """Returns for each token the index of the word before it, in the same parentheses, to whose list it belongs.

    The word is VALUES only for tokens of an inline table's rows. ``close`` maps the opening parentheses to the closing ones.
    """
    out: list[int | None] = []
    outer: list[int | None] = []
    head: int | None = None
    resumed: dict[int, int | None] = {}  # the tokens after the rows of inline tables, and the lists that these tables belong to
    for i, t in enumerate(tokens):
        head = resumed.get(i, head)
        out.append(head)
        if t.kind == OP and t.text == "(":
            outer.append(head)
            head = None
        elif t.kind == OP and t.text == ")" and outer:
            head = outer.pop()
        elif t.kind == OP and t.text == ";":
            head = None
        elif t.kind == WORD and t.upper in _HEADS:
            head = i
        elif t.kind == WORD and t.upper == "VALUES" and _begins_rows(tokens, i, head):
            resumed[_after_rows(text, tokens, close, i + 1)] = head
            head = i
    return out


def _begins_rows(tokens: list[Token], i: int, head: int | None) -> bool:
    """Whether the word VALUES at ``i``, in the list of ``head``, begins an inline table, and is not a name."""
    before, after = tokens[i - 1] if i else tokens[-1], tokens[i + 1]
    in_rows = head is not None and tokens[head].upper == "VALUES"
    return not in_rows and (before.text in ("(", ",") or before.upper in STARTS) and not (after.kind == OP and after.text in ".,;)")


def _after_rows(text: str, tokens: list[Token], close: dict[int, int], i: int) -> int:
    """Returns the index of the first token after the rows of an inline table, which begin at ``i``. A row is any expression."""
    while tokens[i].kind != END:
        end = close.get(i, i) + 1  # of a row in parentheses, or of a single token
        if tokens[end].text != ",":
            cursor = Cursor(text, tokens, i)
            try:
                ExpressionParser(cursor).parse()
            except (ClauseError, RecursionError):  # an expression of another engine, or a wrong one
                return _alias_or_end(tokens, close, i)
            end = cursor.i
        if tokens[end].text != ",":
            return end
        i = end + 1
    return i


def _alias_or_end(tokens: list[Token], close: dict[int, int], i: int) -> int:
    """Returns the index of the next AS, or of the end of the parentheses or the statement."""
    while tokens[i].kind != END and tokens[i].text not in (")", ";") and tokens[i].upper != "AS":
        i = close.get(i, i) + 1
    return i
