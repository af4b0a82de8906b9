"""Nodes of a row pattern as the user wrote it (ISO/IEC 19075-5, <row pattern>), frozen, with spans.

Extended nodes (conjunction, negation, group window) are those of LANGUAGE section 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sparkcep.clause.expression import Expr
from sparkcep.clause.lexer import Span, quote

_NO_SPAN = Span(0, 0)


@dataclass(frozen=True)
class Node:
    span: Span = field(default=_NO_SPAN, compare=False, kw_only=True)

    def children(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class Var(Node):
    """A primary row pattern variable, spelled as written."""

    name: str


@dataclass(frozen=True)
class Empty(Node):
    """``()``: the empty pattern."""


@dataclass(frozen=True)
class Start(Node):
    """``^``: start of the partition."""


@dataclass(frozen=True)
class End(Node):
    """``$``: end of the partition."""


@dataclass(frozen=True)
class _Many(Node):
    items: tuple[Node, ...]

    def children(self) -> tuple[Node, ...]:
        return self.items


@dataclass(frozen=True)
class Concat(_Many):
    """Concatenation."""


@dataclass(frozen=True)
class Alternate(_Many):
    """Alternation; an earlier operand is preferred."""


@dataclass(frozen=True)
class Conjunct(_Many):
    """``p & q``: both occur, in any interleaving (LANGUAGE section 4)."""


@dataclass(frozen=True)
class Permute(_Many):
    """``PERMUTE(p, ...)``: any order; the list's lexicographic order is preferred."""


@dataclass(frozen=True)
class _One(Node):
    item: Node

    def children(self) -> tuple[Node, ...]:
        return (self.item,)


@dataclass(frozen=True)
class Not(_One):
    """``~p``: negation (LANGUAGE section 4)."""


@dataclass(frozen=True)
class Exclude(_One):
    """``{- p -}``: matched, but not in the rows of ALL ROWS PER MATCH."""


@dataclass(frozen=True)
class Repeat(_One):
    """A quantifier: ``min`` to ``max`` iterations (``None``: no bound), greedy or reluctant."""

    min: int
    max: int | None
    greedy: bool


@dataclass(frozen=True)
class Within(_One):
    """``( p ) WITHIN size``: a group with its own window."""

    size: Expr


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, in pattern order."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(top.children()))


def contains(node: Node, *kinds: type) -> bool:
    """Whether a node of one of these classes is there."""
    return any(isinstance(n, kinds) for n in walk(node))


def variable_text(name: str) -> str:
    """A variable as it is printed: quoted where it is no plain word."""
    plain = name.isascii() and name.isidentifier()
    return name if plain and name.upper() not in _QUOTED else quote(name)


# words that begin something else where a variable may stand
_QUOTED = frozenset(
    "PERMUTE WITHIN TO PATTERN EVENT WINDOW APPROX PREF TOP "
    "YEAR YEARS QUARTER QUARTERS MONTH MONTHS WEEK WEEKS DAY DAYS DAYOFYEAR HOUR HOURS MINUTE MINUTES SECOND SECONDS "
    "MILLISECOND MILLISECONDS MICROSECOND MICROSECONDS NANOSECOND NANOSECONDS".split()
)


def to_text(node: Node, text: str) -> str:
    """Pattern text that parses to the same node. ``text``: the statement text window sizes are cut from."""
    return _print(node, text, 0)


# binding strength: alternation 0, conjunction 1, concatenation 2, negation 3, quantifier 4
def _print(node: Node, text: str, level: int) -> str:
    match node:
        case Var(name):
            return variable_text(name)
        case Empty():
            return "()"
        case Start():
            return "^"
        case End():
            return "$"
        case Alternate(items):
            return _group(" | ".join(_print(i, text, 1) for i in items), level > 0)
        case Conjunct(items):
            return _group(" & ".join(_print(i, text, 2) for i in items), level > 1)
        case Concat(items):
            return _group(" ".join(_print(i, text, 3) for i in items), level > 2)
        case Not(item):
            return _group("~" + _print(item, text, 4), level > 3)
        case Permute(items):
            return "PERMUTE(" + ", ".join(_print(i, text, 0) for i in items) + ")"
        case Exclude(item):
            return "{- " + _print(item, text, 0) + " -}"
        case Within(item, size):
            return f"({_print(item, text, 0)}) WITHIN {size.span.of(text)}"
        case Repeat(item, low, high, greedy):
            body = _print(item, text, 5)
            return _group(body + quantifier(low, high) + ("" if greedy else "?"), level > 4)
    raise TypeError(node)


def _group(body: str, needed: bool) -> str:
    return f"({body})" if needed else body


def quantifier(low: int, high: int | None) -> str:
    """The shortest spelling of a quantifier."""
    if (low, high) in _SHORT:
        return _SHORT[low, high]
    if high is None:
        return f"{{{low},}}"
    return f"{{{low}}}" if low == high else f"{{{low},{high}}}"


_SHORT = {(0, None): "*", (1, None): "+", (0, 1): "?"}
