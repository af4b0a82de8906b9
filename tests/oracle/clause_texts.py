"""Reads the clauses of worked examples into the oracle's terms. The tests of oracles use it, so they need no parser of the product.

The texts are small: sequences, alternatives, quantifiers, negation, groups WITHIN, anchors; conditions and measures whose only
functions are navigations, aggregates and those in ``OWN``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import pattern

_TOKEN = re.compile(r"\s*(\d+\.\d+|\d+|\w+|'[^']*'|<=|>=|<>|.)")
OWN = {"MATCH_STATUS": ("status",), "MATCH_ENDED_AT": ("ended at",), "MATCH_EXPECTED": ("expected",), "MATCH_NUMBER": ("match_number",)}


class Tokens:
    """The tokens of a text, to be taken one by one."""

    def __init__(self, text):
        self.left = _TOKEN.findall(text)

    def next(self) -> str:
        return self.left[0] if self.left else ""

    def take(self) -> str:
        return self.left.pop(0)

    def took(self, token) -> bool:
        if self.next() != token:
            return False
        self.take()
        return True


def row_pattern(text) -> tuple:
    """The form of a row pattern."""
    tokens = Tokens(text)
    p = _alternatives(tokens)
    if tokens.left:
        raise ValueError(f"not read: {tokens.left}")
    return p


def _listed(kind, parts):
    return parts[0] if len(parts) == 1 else (kind, parts)


def _alternatives(tokens):
    parts = [_sides(tokens)]
    while tokens.took("|"):
        parts.append(_sides(tokens))
    return _listed("alt", parts)


def _sides(tokens):
    parts = [_sequence(tokens)]
    while tokens.took("&"):
        parts.append(_sequence(tokens))
    return _listed("and", parts)


def _sequence(tokens):
    parts = []
    while tokens.left and tokens.next() not in ("|", "&", ")"):
        parts.append(_quantified(tokens))
    return _listed("cat", parts)


def _quantified(tokens):
    p = _primary(tokens)
    while tokens.next() in ("*", "+", "?", "{"):
        sign = tokens.take()
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign, (0, None))
        if sign == "{":
            least = int(tokens.take()) if tokens.next() != "," else 0
            most = least
            if tokens.took(","):
                most = None if tokens.next() == "}" else int(tokens.take())
            tokens.take()
        p = ("rep", p, least, most, not tokens.took("?"))
    return p


def _primary(tokens):
    token = tokens.take()
    if token == "~":
        p = _primary(tokens)
        return ("neg", p[1] if p[0] == "var" else p)
    if token in ("^", "$"):
        return ({"^": "start", "$": "end"}[token],)
    if token == "(":
        p = _alternatives(tokens)
        tokens.take()
        if tokens.took("WITHIN"):
            size = int(tokens.take())
            p = ("within", p, pattern.Rows(size) if tokens.took("ROWS") else size)
        return p
    return ("var", token)


def expression(text, variables) -> tuple:
    """The form of a condition or a measure; ``variables``: those of the pattern."""
    tokens = Tokens(text)
    e = _compared(tokens, variables)
    while tokens.took("AND"):
        e = ("and", e, _compared(tokens, variables))
    if tokens.left:
        raise ValueError(f"not read: {tokens.left}")
    return e


def _compared(tokens, variables):
    e = _summed(tokens, variables)
    if tokens.next() in ("=", "<>", "<", "<=", ">", ">="):
        e = (tokens.take(), e, _summed(tokens, variables))
    return e


def _summed(tokens, variables):
    e = _multiplied(tokens, variables)
    while tokens.next() in ("+", "-"):
        e = (tokens.take(), e, _multiplied(tokens, variables))
    return e


def _multiplied(tokens, variables):
    e = _value(tokens, variables)
    while tokens.took("*"):
        e = ("*", e, _value(tokens, variables))
    return e


def _value(tokens, variables):
    token = tokens.take()
    if token == "(":
        e = _summed(tokens, variables)
        tokens.take()
        return e
    if token == "-":
        return ("-", ("lit", 0), _value(tokens, variables))
    if re.fullmatch(r"\d+", token):
        return ("lit", int(token))
    if re.fullmatch(r"\d+\.\d+", token):
        return ("lit", float(token))
    if token.startswith("'"):
        return ("lit", token[1:-1])
    if token == "sqrt":
        tokens.take()
        e = _summed(tokens, variables)
        tokens.take()
        return ("sqrt", e)
    if token in ("TRUE", "FALSE", "NULL"):
        return ("lit", {"TRUE": True, "FALSE": False}.get(token))
    if tokens.took("."):
        return ("nav", "LAST", token, 0, ("col", tokens.take()))
    if tokens.took("("):
        e = _call(token, tokens, variables)
        tokens.take()
        return e
    return ("col", token)


def _call(name, tokens, variables):
    if name in OWN:
        return OWN[name]
    if name == "CLASSIFIER":
        return ("classifier", None)
    over = None
    if len(tokens.left) > 1 and tokens.left[1] == "." and tokens.next() in variables:
        over = tokens.take()
        tokens.take()
    if tokens.took("*"):
        return ("agg", name, over, "*", False)
    if name in ("PREV", "NEXT"):
        return (name.lower(), 1, _value(tokens, variables))
    inner = _summed(tokens, variables)
    return ("nav", name, over, 0, inner) if name in ("FIRST", "LAST") else ("agg", name.lower(), over, inner, False)


def split(text, separator=",") -> list[str]:
    """A text at its commas outside of parentheses and quotes."""
    parts, depth, quoted = [""], 0, False
    for letter in text:
        quoted ^= letter == "'"
        depth += 0 if quoted else (letter in "([{") - (letter in ")]}")
        if letter == separator and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def inside(text, word) -> str | None:
    """The text in the parentheses after a word."""
    found = re.search(rf"\b{word} \(", text)
    if not found:
        return None
    depth = 1
    for at in range(found.end(), len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if not depth:
            return text[found.end() : at]
    raise ValueError(f"{word}: no end")


@dataclass
class Example:
    """A worked example: its name, the clause, rows in input order, and the expected rows (or the text of an error)."""

    name: str
    clause: str
    rows: list[dict]
    expected: list[tuple] | str


def examples(text) -> list[Example]:
    """Blocks of four lines: name, clause, ``in   columns: row; row`` and ``out  (row); (row)``."""
    found = []
    for block in text.strip().split("\n\n"):
        name, clause, came, out = block.split("\n")
        columns, cells = came.removeprefix("in").strip().split(":", 1)
        columns = [column.strip() for column in columns.split(",")]
        rows = [dict(zip(columns, map(cell, row.split()), strict=True)) for row in cells.split(";")]
        out = out.removeprefix("out").strip()
        expected = [tuple(map(cell, split(row.strip()[1:-1]))) for row in split(out, ";")] if out.startswith("(") else out
        found.append(Example(name, clause, rows, expected))
    return found


def cell(text):
    """A value as the examples write it."""
    text = text.strip()
    if text.startswith("["):
        return [part.strip() for part in text[1:-1].split(",") if part.strip()]
    if text == "NULL":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
