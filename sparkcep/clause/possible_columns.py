"""Finds words of a clause that the reader of expressions counted as something other than a column, where Spark may see a column.

The columns of an expression decide to which row it is moved, so one that the reader overlooks would silently be read from the wrong
row. Each word is therefore classified a second time, by the tokens beside it alone. The rewriter asks Spark whether the input has a
column of the name of a word that is left (``sql/rewrite/rewrite``), and the statement is an error if it has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from sparkcep.clause.expressions import CONSTANTS, TRIMMED, UNIT_FUNCTIONS, UNITS_OF_CALLS, Expr
from sparkcep.clause.tokens import NUMBER, OP, QUOTED, STRING, WORD, Span, Token

# words that stand before an operand
_PREFIXES = frozenset(["NOT", "CASE", "DISTINCT", "ALL", "RUNNING", "FINAL", *TRIMMED])
# a word and the one behind it that is not an operand
_PAIRS = frozenset(
    [
        ("IS", "NOT"), ("NOT", "NULL"), ("NOT", "TRUE"), ("NOT", "FALSE"), ("NOT", "UNKNOWN"), ("NOT", "DISTINCT"), ("IS", "UNKNOWN"), ("IS", "DISTINCT"),
        ("DISTINCT", "FROM"), ("NOT", "IN"), ("NOT", "BETWEEN"), ("NOT", "LIKE"), ("NOT", "ILIKE"), ("NOT", "RLIKE"), ("NOT", "REGEXP"),
        ("ORDER", "BY"), ("IGNORE", "NULLS"), ("RESPECT", "NULLS"), ("NULLS", "FIRST"), ("NULLS", "LAST"), ("ASC", "NULLS"), ("DESC", "NULLS"),
        ("AT", "TIME"), ("TIME", "ZONE"), ("WITHIN", "GROUP"), ("CASE", "WHEN"), *((option, "FROM") for option in TRIMMED),
    ]
)  # fmt: skip


def uncounted(expressions: Iterable[Expr], tokens: list[Token]) -> tuple[Span, ...]:
    """The places of those words, in the order of the text. ``tokens``: those of the clause, closed by an END token."""
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
    """The places of the columns and the statement's parameters that the reader counted, and those of queries, types, intervals, and
    the parameters of a lambda before its arrow, in which no column of the input is named."""
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
    """Whether token ``i``, which the reader did not count, may be a column by what stands beside it."""
    token, behind = tokens[i], tokens[i + 1]
    before = tokens[i - 1] if i > first else None
    word = token.upper if token.kind == WORD else ""
    if behind.text == "(" or behind.kind == STRING:  # a function, or a literal with its type
        return False
    if word in CONSTANTS or (behind.text == "=" and tokens[i + 2].text == ">" and tokens[i + 2].start == behind.end):  # the name of an argument
        return False
    if before is not None and (before.kind in (STRING, NUMBER, QUOTED) or before.end in ends or before.text in (".", ":", ")", "]")):  # it begins no operand
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
    """Whether the first word in parentheses belongs to the function before them: a unit, the field of EXTRACT, ORDER, WHERE."""
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
