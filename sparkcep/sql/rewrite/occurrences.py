"""Finds the clauses of a statement, and the tables that they read. The statement is tokenised, not parsed.

The rewriter, ``dialect`` and ``tools`` use it.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparkcep.clause.opaque_text import mentions
from sparkcep.clause.tokens import OP, WORD, matching, tokenize
from sparkcep.errors import LIMIT, SYNTAX, UNSUPPORTED, ClauseError, error_at
from sparkcep.sql.rewrite.heads import KEYWORD, NOT_A_TABLE, STARTS, Heads

MAX_STATEMENT = 4_194_304  # the most characters of a statement with a clause
_EXPLAINED = frozenset("CODEGEN COST EXTENDED FORMATTED LOGICAL".split())


def has_keyword(sql: str) -> bool:
    """Whether the statement has the word MATCH_RECOGNIZE outside literals, quoted names and comments.

    The statement is not tokenised. Raises ClauseError if it has the word and is too long to tokenise.
    """
    if not mentions(sql, KEYWORD):
        return False
    if len(sql) > MAX_STATEMENT:
        message = f"the statement has {len(sql)} characters; with MATCH_RECOGNIZE at most {MAX_STATEMENT} are allowed. Move long lists into a table and join it"
        raise error_at(sql, 0, 20, "STATEMENT_TOO_LARGE", message, LIMIT)
    return True


class Statement:
    """A statement's tokens, and the index of the partner of each bracket token.

    ``close`` maps opening parentheses; ``open`` maps all closing brackets.
    """

    def __init__(self, text: str, read: str = "") -> None:
        self.text = text
        self.tokens = tokenize(text, read)
        self.close = matching(self.tokens)
        brackets = (self.close, matching(self.tokens, "[", "]"))
        self.open = {end: start for pairs in brackets for start, end in pairs.items()}
        self.heads = Heads(text, self.tokens, self.close)

    def clauses(self) -> Iterator[tuple[int, int, int]]:
        """Yields the token indexes of each clause: the start of its table, the word MATCH_RECOGNIZE, and ``)``.

        Raises ClauseError.
        """
        i = 0
        while i < len(self.tokens):
            start = self.table_before(i) if self.has_word(i) else None
            if start is not None and start < i:
                close = self.closing(i)
                yield start, i, close
                i = close
            i += 1

    def verb(self) -> str:
        """The word that the statement itself begins with, after EXPLAIN and the CTEs of WITH; "" without one."""
        words = [t.upper for t in self.tokens]
        i = 1 + (words[1] in _EXPLAINED) if words[0] == "EXPLAIN" else 0
        if words[i] != "WITH":
            return words[i]
        i += 1
        while i < len(words):  # each CTE ends with a parenthesis, and a comma or the statement follows
            last = words[i] == "("
            i = self.close.get(i, len(words)) + 1 if last else i + 1
            if last and i < len(words) and words[i] not in (",", "AS", "MAX"):
                return words[i]
        return ""

    def in_lateral(self, i: int) -> bool:
        """Whether token ``i`` is in LATERAL (...), directly after LATERAL, or in a CTE that is read there."""
        around = [start for end, start in self.open.items() if start < i < end]
        if any(self.tokens[start - 1].upper == "LATERAL" for start in (i, *around) if start):
            return True
        return any(self.in_lateral(k) for start in around if self.tokens[start - 1].upper == "AS" for k in self._reads_of(start))

    def _reads_of(self, start: int) -> Iterator[int]:
        """Yields the tokens that read the CTE whose query begins with the parenthesis at ``start``."""
        named = start - 2
        name = self.tokens[self.open.get(named, named + 1) - 1].text.strip("`").lower()
        for k in range(self.close[start] + 1, len(self.tokens)):
            if self.tokens[k].text.strip("`").lower() == name and (self.tokens[k - 1].text == "," or self.tokens[k - 1].upper in ("FROM", "JOIN")):
                yield k

    def has_word(self, i: int) -> bool:
        """Whether the token is the word, followed by a parenthesis."""
        return self.tokens[i].kind == WORD and self.tokens[i].upper == KEYWORD and self.tokens[i + 1].text == "("

    def closing(self, i: int) -> int:
        """Returns the index of the parenthesis that closes the clause whose word is token ``i``. Raises ClauseError."""
        close = self.close.get(i + 1)
        if close is None:
            found = self._left_open(i)
            if found is not None:
                opening, inside = found
                of = " of PATTERN" if self.tokens[opening - 1].upper == "PATTERN" else ""
                raise self.error(opening, "SYNTAX", f"this parenthesis{of} is not closed: {inside} is inside it")
            raise self.error(i + 1, "SYNTAX", "this parenthesis of MATCH_RECOGNIZE is not closed")
        word, name, equals = (self.tokens[min(close + k, len(self.tokens) - 1)] for k in (1, 2, 3))
        if name.kind == WORD and (word.upper, equals.upper) in (("DEFINE", "AS"), ("SUBSET", "=")):
            raise self.error(close, "SYNTAX", f"this parenthesis closes the clause before {word.upper}. Remove it, or add a missing (")
        for k in range(i + 2, close - 1):
            if self.has_word(k):
                instead = "Put it in a CTE or in the input table"
                message = f"MATCH_RECOGNIZE cannot be nested in another MATCH_RECOGNIZE. {instead}"
                raise self.error(k, "NESTED_CLAUSE", message, UNSUPPORTED)
        return close

    def _left_open(self, i: int) -> tuple[int, str] | None:
        """Finds an unclosed parenthesis of the clause whose word is token ``i``.

        Returns its index, and the part of the clause, or the condition of DEFINE, that is inside it.
        """
        opened: list[int] = []
        defining = False
        for k in range(i + 2, len(self.tokens) - 1):
            t, behind = self.tokens[k], self.tokens[k + 1]
            if t.text == "(":
                opened.append(k)
            elif t.text == ")" and opened:
                opened.pop()
            elif t.kind == WORD and (t.upper == "DEFINE" or (t.upper == "PATTERN" and behind.text == "(")):
                if opened:
                    return opened[0] if t.upper == "DEFINE" and self.tokens[opened[0] - 1].upper == "PATTERN" else opened[-1], t.upper
                defining = t.upper == "DEFINE"
            elif defining and opened and t.kind == WORD and behind.upper == "AS" and self.tokens[k - 1].text == ",":
                return opened[-1], f"{t.text} AS"
        return None

    def error(self, at: int, error_class: str, message: str, sqlstate: str = SYNTAX) -> ClauseError:
        """Returns an error at a token."""
        return error_at(self.text, self.tokens[at].start, self.tokens[at].end, error_class, message, sqlstate)

    def table_before(self, i: int) -> int | None:
        """Returns the index of the first token of the table before the clause at token ``i``.

        Returns ``i`` itself for the function form. Returns None if the word is not a clause (a column or CTE of that name). Raises
        ClauseError if the clause does not follow a table.
        """
        joined = view = False  # whether the table is a whole join, or the whole list of FROM with a LATERAL VIEW
        j = i - 1
        while j >= 0:
            t = self.tokens[j]
            if t.kind == OP and t.text in ")]":
                j = self.open.get(j, 0)
            elif self._is_pipe(j):
                message = "MATCH_RECOGNIZE is not a pipe operator. Write FROM (FROM t |> WHERE ...) MATCH_RECOGNIZE (...); further pipes may follow"
                raise self.error(i, "NOT_AFTER_TABLE", message)
            elif t.kind == OP and t.text in "([;":
                break
            elif t.kind == OP and t.text == ",":
                head = self.heads.of[j]
                if head is not None and (self.heads.word(j) == "VALUES" or self._is_view(head)):
                    j = head
                    continue
                if not view and (j == i - 1 or self.heads.word(j) not in ("SELECT", "BY")):
                    break
            elif t.kind == WORD and j not in self.heads.names:
                if self._is_view(j):
                    joined = view = True
                elif t.upper == "ON" or (t.upper == "USING" and self.heads.of[j] is not None):
                    joined = True
                elif joined and (t.upper == "JOIN" or (t.upper == "LATERAL" and (view or self.tokens[j - 1].upper == "JOIN"))):
                    pass
                elif t.upper in STARTS or t.upper == "USING":  # the USING of MERGE
                    break
                elif t.upper in NOT_A_TABLE and j < i - 1:
                    word = f"{self.tokens[j - 1].upper} BY" if t.upper == "BY" else t.upper
                    message = f"MATCH_RECOGNIZE must follow the table it reads, not {word}. Move it into FROM"
                    raise self.error(i, "NOT_AFTER_TABLE", message)
                elif t.upper in NOT_A_TABLE:
                    return None
            j -= 1
        start = j + 1
        if start < i:
            if j < 0:
                raise self.error(i, "NOT_AFTER_TABLE", "MATCH_RECOGNIZE must follow a table in FROM")
            return start
        before = self.tokens[j] if j >= 0 else None
        is_from = before is not None and (before.upper in STARTS or before.text == ",")
        after = self.tokens[i + 2] if i + 2 < len(self.tokens) else None
        named = i + 3 < len(self.tokens) and self.tokens[i + 3].text == "="
        if is_from and after is not None and (after.upper == "TABLE" or named):
            return i
        if before is not None and before.kind == WORD and before.upper in ("FROM", "JOIN") and after is not None:
            message = "expected a table before MATCH_RECOGNIZE, or the function form match_recognize(TABLE(t), '...')"
            raise self.error(i, "NOT_AFTER_TABLE", message)
        return None

    def _is_pipe(self, j: int) -> bool:
        """Whether token ``j`` ends the sign of a pipe."""
        return self.tokens[j].text == ">" and self.tokens[j - 1].text == "|" and self.tokens[j - 1].end == self.tokens[j].start

    def _is_view(self, j: int) -> bool:
        """Whether LATERAL VIEW, which follows the list of FROM, begins at token ``j``."""
        before = self.tokens[j - 1]
        return self.tokens[j].upper == "LATERAL" and self.tokens[j + 1].upper == "VIEW" and before.text != "," and before.upper not in STARTS
