"""What the tests of engines that rank share: sliding windows by their definition, and an engine's output rows."""

from __future__ import annotations

import math
from fractions import Fraction

import pyarrow as pa

from sparkcep.engine.factory import engine_for, match_batches, prepare


def window_starts(vector: tuple, rows: list, window: tuple | None, slide) -> list:
    """Where the windows of ``slide`` begin that hold all of a match's rows; [None] without SLIDE. ``window``: ("rows" or "range",
    size)."""
    if slide is None:
        return [None]
    of_rows, size = window[0] == "rows", Fraction(window[1])
    ends = (vector[0], vector[-1]) if of_rows else (rows[vector[0]]["t"], rows[vector[-1]]["t"])
    low, high = min(ends), max(ends)
    at, found = math.floor(Fraction(low) / slide), []
    while at * slide + size > high and not (of_rows and at < 0):
        found.append(at * slide)
        at -= 1
    return found


def engine_rows(plan, table: pa.Table, search: str, chunk: int | None) -> dict[str, list] | None:
    """Column -> values of what the engine gives, in batches of ``chunk`` rows; None where another search answers the plan."""
    engine = engine_for(prepare(plan, table.schema), chunk)
    if engine.prepared.strategy.search != search:
        return None
    pieces = list(match_batches(engine, table.to_batches(max_chunksize=chunk or 10_000)))
    return pa.concat_tables([engine.prepared.output_schema.empty_table(), *pieces]).to_pydict()
