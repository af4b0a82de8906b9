"""Finds words of a clause that the expression parser did not read as columns, but that Spark may read as columns.

The columns of an expression decide to which row it is moved, so an overlooked column would silently be read from the wrong row.
Each word is therefore classified a second time, by its neighbouring tokens alone. The rewriter (``sql/rewrite/rewrite``) asks Spark
whether the input has a column with the name of such a word. If it has, the statement is an error.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from sparkcep.clause.expressions import CONSTANTS, TRIMMED, UNIT_FUNCTIONS, UNITS_OF_CALLS, Expr
from sparkcep.clause.tokens import NUMBER, OP, QUOTED, STRING, WORD, Span, Token

# words that precede an operand
_PREFIXES = frozenset(["NOT", "CASE", "DISTINCT", "ALL", "RUNNING", "FINAL", *TRIMMED])
# a word and the next word, if that is not an operand
_PAIRS = frozenset(
    [
        ("IS", "NOT"), ("NOT", "NULL"), ("NOT", "TRUE"), ("NOT", "FALSE"), ("NOT", "UNKNOWN"), ("NOT", "DISTINCT"), ("IS", "UNKNOWN"), ("IS", "DISTINCT"),
        ("DISTINCT", "FROM"), ("NOT", "IN"), ("NOT", "BETWEEN"), ("NOT", "LIKE"), ("NOT", "ILIKE"), ("NOT", "RLIKE"), ("NOT", "REGEXP"),
        ("ORDER", "BY"), ("IGNORE", "NULLS"), ("RESPECT", "NULLS"), ("NULLS", "FIRST"), ("NULLS", "LAST"), ("ASC", "NULLS"), ("DESC", "NULLS"),
        ("AT", "TIME"), ("TIME", "ZONE"), ("WITHIN", "GROUP"), ("CASE", "WHEN"), *((option, "FROM") for option in TRIMMED),
    ]
)  # fmt: skip


def uncounted(expressions: Iterable[Expr], tokens: list[Token]) -> tuple[Span, ...]:
    """The places of these words, in text order. ``tokens``: the clause's tokens, closed by an END token."""
    starts = [token.start for token in tokens]
    found: list[Span] = []
    for expr in expressions:
        first, last = bisect_left(starts, expr.span.start), bisect_left(starts, expr.span.end)
        counted, passed = _counted(expr)
        ends = {span.end for span in (*counted, *passed)}
        known = {i for span in (*counted, *passed) for i in range(bisect_left(starts, span.start), bisect_left(starts, span.end))}
        for i in range(first, last):
            if tokens[i].kind in (WORD, QUOTED) and i not in known and _may_be_column(tokens, i, first, ends):
                found.append(Span(tokens[i].start, tokens[i].end))
    return tuple(found)


def _counted(expr: Expr) -> tuple[list[Span], list[Span]]:
    """The places of columns and statement parameters that the parser read, and the places where no column of the input is named.

    The second list has queries, types, intervals, and the parameters of a lambda before its arrow.
    """
    counted, passed = [], []
    for node in expr.walk():
        if node.op in ("col", "star") or (node.op == "lit" and str(node.value)[0] in ":?"):
            counted.append(node.span)
        elif node.op in ("subquery", "interval"):
            passed.append(node.span)
        elif node.op == "cast":
            passed.append(Span(node.args[0].span.end, node.span.end))
        elif node.op == "lambda":
            passed.append(Span(node.span.start, node.args[0].span.start))
    return counted, passed


def _may_be_column(tokens: list[Token], i: int, first: int, ends: set[int]) -> bool:
    """Whether the neighbours of token ``i`` allow it to be a column. The parser did not read it as one."""
    token, behind = tokens[i], tokens[i + 1]
    before = tokens[i - 1] if i > first else None
    word = token.upper if token.kind == WORD else ""
    if behind.text == "(" or behind.kind == STRING:  # a function, or a typed literal
        return False
    if word in CONSTANTS or (behind.text == "=" and tokens[i + 2].text == ">" and tokens[i + 2].start == behind.end):  # the name of a named argument
        return False
    if before is not None and (before.kind in (STRING, NUMBER, QUOTED) or before.end in ends or before.text in (".", ":", ")", "]")):  # an operand cannot begin here
        return False
    if before is not None and before.kind == WORD:
        if (before.upper, word) in _PAIRS or before.upper in ("AS", "COLLATE") or before.upper in CONSTANTS or before.upper == "END":
            return False
    if word in _PREFIXES and (behind.kind in (WORD, QUOTED, NUMBER) or (behind.kind == OP and behind.text in "(+-~!?:*")):
        return False
    if word == "FROM" and i - first > 2 and tokens[i - 2].text == "(" and tokens[i - 3].upper == "EXTRACT":
        return False
    return not _of_its_call(tokens, i, before, word)


def _of_its_call(tokens: list[Token], i: int, before: Token | None, word: str) -> bool:
    """Whether the first word in parentheses belongs to the function before them: a unit, the field of EXTRACT, ORDER or WHERE."""
    if before is None or before.text != "(" or i < 2:
        return False
    name, behind = tokens[i - 2].upper, tokens[i + 1]
    if (name, word) in (("FILTER", "WHERE"), ("GROUP", "ORDER")):
        return True
    if name == "EXTRACT":
        return behind.upper == "FROM"
    if name not in UNIT_FUNCTIONS or word not in UNITS_OF_CALLS or behind.text != ",":
        return False
    depth = commas = 0
    for token in tokens[i:]:
        if token.kind != OP:
            continue
        depth += (token.text in "([") - (token.text in ")]")
        if depth < 0:
            break
        commas += depth == 0 and token.text == ","
    return commas == 2
