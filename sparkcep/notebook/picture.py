"""The picture of ``--plot``: chooses its columns, and draws it as an object that a notebook shows.

``notebook/magic`` and ``notebook/live`` use it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sparkcep.notebook.cell import CellError, Options

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.types import StructType

NUMBER, TIME, OTHER = "number", "time", "other"
_TIMES = ("date", "timestamp", "timestamp_ntz")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_WRITE = "write ALL ROWS PER MATCH WITH UNMATCHED ROWS with MEASURES CLASSIFIER() AS variable, MATCH_NUMBER() AS match"


@dataclass(frozen=True)
class Axes:
    """The columns of a picture."""

    x: str
    y: str
    variable: str
    match: str


class Picture:
    """A matplotlib ``figure`` that a notebook shows."""

    def __init__(self, figure: Any, about: str) -> None:
        self.figure = figure
        self.about = about

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.figure.savefig(out, format="png", dpi=110)
        return out.getvalue()

    def __repr__(self) -> str:
        return f"<picture of {self.about}; .figure.savefig(path) writes it>"


def kinds(schema: StructType) -> list[tuple[str, str]]:
    """Returns (name, NUMBER, TIME or OTHER) of each column of a Spark result."""
    out = []
    for field in schema.fields:
        name = field.dataType.simpleString()
        out.append((field.name, TIME if name in _TIMES else NUMBER if name in _NUMBERS or name.startswith("decimal") else OTHER))
    return out


def choose(columns: Sequence[tuple[str, str]], options: Options) -> Axes:
    """Chooses the picture's columns. ``columns`` are those of :func:`kinds`. Raises CellError.

    Requested columns come first. The defaults are ``variable`` and ``match``, the first time or number for x, and the first other
    number for y.
    """
    names = [name for name, _ in columns]

    def named(asked: str, option: str) -> str:
        found = [n for n in names if n == asked] or [n for n in names if n.lower() == asked.lower()]
        if not found:
            raise CellError(f"--{option} {asked}: unknown column; the columns are {', '.join(names)}")
        return found[0]

    labels = {}
    for option in ("variable", "match"):
        asked = getattr(options, option)
        if asked is None and not any(n.lower() == option for n in names):
            message = f"--plot needs a column {option}: {_WRITE}, or name yours with --{option}. The result has {', '.join(names)}"
            raise CellError(message)
        labels[option] = named(asked or option, option)
    free = [(n, kind) for n, kind in columns if n not in labels.values()]
    y = named(options.y, "y") if options.y else None
    x = named(options.x, "x") if options.x else next((n for n, kind in free if kind != OTHER and n != y), None)
    y = y or next((n for n, kind in free if kind == NUMBER and n != x), None)
    if x is None or y is None:
        raise CellError(f"--plot needs a time or number for x and a number for y; name them with --x and --y. The result has {', '.join(names)}")
    return Axes(x, y, **labels)


def draw(rows: pd.DataFrame, axes: Axes, columns: Sequence[tuple[str, str]]) -> Picture:
    """Returns the picture of all ``rows``. Raises CellError without matplotlib, or without rows."""
    if rows.empty:
        raise CellError("--plot: the result is empty")
    if find_spec("matplotlib") is None:
        raise CellError("--plot needs matplotlib: pip install 'sparkcep[notebook]'")
    from sparkcep.draw.matches import plot

    numbers = {name: "float64" for name, kind in columns if kind == NUMBER and name in (axes.x, axes.y)}  # decimals are objects
    figure = plot(rows.astype(numbers), axes.x, axes.y, variable=axes.variable, match=axes.match)
    return Picture(figure, f"{axes.y} over {axes.x}, {rows[axes.match].nunique()} matches")
