"""Nodes of a row pattern as the user wrote it (ISO/IEC 19075-5, <row pattern>), frozen, with spans.

Extended nodes (conjunction, negation, group window) are those of LANGUAGE section 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sparkcep.clause.expressions import Expr
from sparkcep.clause.tokens import Span


@dataclass(frozen=True)
class Node:
    span: Span = field(default=Span(0, 0), compare=False, kw_only=True)

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
    """A quantifier: ``min`` to ``max`` iterations (``None``: unbounded), greedy or reluctant."""

    min: int
    max: int | None
    greedy: bool


@dataclass(frozen=True)
class Within(_One):
    """``( p ) WITHIN size``: a group with its own window. ``rows``: the size counts rows."""

    size: Expr
    rows: bool = False


def walk(node: Node) -> Iterator[Node]:
    """The node and all nodes below it, in pattern order."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(top.children()))


def contains(node: Node, *kinds: type) -> bool:
    """Whether the tree contains a node of one of these classes."""
    return any(isinstance(n, kinds) for n in walk(node))


def quantifier(low: int, high: int | None) -> str:
    """The shortest spelling of a quantifier."""
    if (low, high) in _SHORT:
        return _SHORT[low, high]
    if high is None:
        return f"{{{low},}}"
    return f"{{{low}}}" if low == high else f"{{{low},{high}}}"


_SHORT = {(0, None): "*", (1, None): "+", (0, 1): "?"}
