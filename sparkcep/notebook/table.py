"""Shows a result as a table: HTML in notebooks, text in terminals.

SQL cells and ``sparkcep shell`` use it.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sparkcep.clause.tokens import WORD, tokenize
from sparkcep.errors import cut, printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WIDTH = 60  # the most characters of a value in a text table


class Table:
    """The first rows of a result.

    Attributes:
        columns: the names of its columns.
        rows: its first rows as tuples of Python values, None for NULL.
        more: whether the result has more rows.
        frame: the whole result, a lazy Spark DataFrame.
        ask: how to ask why the result is empty, "" if there is nothing to ask.
    """

    def __init__(
        self, columns: Sequence[str], rows: Sequence[Sequence[Any]], more: bool, frame: DataFrame | None = None, limit: str = "--limit", ask: str = "",
    ) -> None:  # fmt: skip
        self.columns = list(columns)
        self.rows = [tuple(row) for row in rows]
        self.more = more
        self.frame = frame
        self.ask = ask
        self._limit = limit

    @property
    def count(self) -> str:
        """The number of rows, in words."""
        number = len(self.rows)
        if self.more:
            return f"the first {number} rows; {self._limit} shows more"
        return "1 row" if number == 1 else f"{number} rows"

    def __repr__(self) -> str:
        cells = [[_cut(shown(v)) for v in row] for row in self.rows]
        names = [printable(name).replace("\n", "\\n") for name in self.columns]
        widths = [max(map(len, [name, *(row[i] for row in cells)])) for i, name in enumerate(names)]
        right = self._numeric()
        lines = ["  ".join(name.ljust(w) for name, w in zip(names, widths)), "  ".join("-" * w for w in widths)]
        lines += ["  ".join(v.rjust(w) if r else v.ljust(w) for v, w, r in zip(row, widths, right)) for row in cells]
        return "\n".join(line.rstrip() for line in [*lines, f"({self.count})", *filter(None, [self.ask])])

    def _repr_html_(self) -> str:
        right = self._numeric()
        head = "".join(f"<th>{html.escape(printable(name))}</th>" for name in self.columns)
        body = "".join(f"<tr>{''.join(map(_cell, row, right))}</tr>" for row in self.rows)
        # Notebooks read $...$ as a formula, except in elements of these classes.
        return '<div class="tex2jax_ignore mathjax_ignore">' f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><small>{html.escape('. '.join(filter(None, [self.count, self.ask])))}</small></div>"

    def _numeric(self) -> list[bool]:
        values = [[row[i] for row in self.rows if row[i] is not None] for i in range(len(self.columns))]
        return [bool(column) and all(map(_is_number, column)) for column in values]


def matches(statement: str) -> bool:
    """Whether a statement has a clause."""
    return any(token.kind == WORD and token.upper == "MATCH_RECOGNIZE" for token in tokenize(statement))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _cell(value: Any, right: bool) -> str:
    style = ' style="text-align: right"' if right else ' style="text-align: left"'
    if value is None:
        return f'<td{style}><i style="opacity: 0.5">NULL</i></td>'
    return f"<td{style}>{html.escape(printable(shown(value)))}</td>"


def _cut(text: str) -> str:
    return cut(printable(text).replace("\n", "\\n"), _WIDTH)


def shown(value: Any) -> str:
    """Returns a value of a row as text. Nested values are ``{name: value}``, ``[value, ...]`` and ``{key -> value}``."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (bytes, bytearray)):
        return f"X'{value.hex().upper()}'"
    if hasattr(value, "asDict"):
        return "{" + ", ".join(f"{k}: {shown(v)}" for k, v in zip(value.__fields__, value)) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{shown(k)} -> {shown(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(shown, value)) + "]"
    return str(value)
