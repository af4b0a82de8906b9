"""What each row adds to an additive score, as arrays (CPR, section 3.2: vertex weights)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import null_marks, words
from sparkcep.columns.types import type_of
from sparkcep.engines import gather


def scores(
    spec: tuple, columns: dict[str, pa.Array], events: np.ndarray, labels: np.ndarray, scattered: np.ndarray, variables: int
) -> pa.Array:
    """The score of each event by a leaf ("score", parts, terms), in row order; NULL where Spark's own sum is exact, or there is none."""
    _, parts, terms = spec
    if not any(column and type_of(columns[column].type).is_float for _, column, *_ in terms):
        return pa.nulls(len(events))
    weights = float_weights(terms, columns, variables, _rows(columns))
    sums = gather.match_sums(events, labels, scattered, weights) / parts
    missing = np.isnan(sums)
    for term in terms:
        if term[3] == "sum" and columns[term[1]].null_count:
            missing |= gather.match_sums(events, labels, scattered, _values(term, columns, variables)) == 0
    return pa.array(sums, mask=missing)


def _values(term: tuple, columns: dict[str, pa.Array], variables: int) -> np.ndarray:
    """float64 (variables, rows): 1 where a row has a value for a term."""
    mask, column, *_ = term
    there = 1.0 - null_marks(columns[column])
    return np.array([there if mask == -1 or mask >> v & 1 else np.zeros(len(there)) for v in range(variables)])


def float_weights(terms: tuple, columns: dict[str, pa.Array], variables: int, rows: int) -> np.ndarray:
    """float64 (variables, rows); NaN where a term of a row is NULL."""
    out = np.zeros((variables, rows), dtype=np.float64)
    for mask, column, sign, kind in terms:
        added = np.ones(rows)
        if column:
            t = type_of(columns[column].type)
            added = words(columns[column]) / 10**t.scale if t.scale else words(columns[column]).astype(np.float64)
            added = np.where(null_marks(columns[column]) == 1, np.nan if kind == "row" else 0.0, added)
        for v in range(variables):
            if mask == -1 or mask >> v & 1:
                out[v] += sign * added
    return out


def whole_weights(terms: tuple, columns: dict[str, pa.Array], variables: int, rows: int) -> np.ndarray | None:
    """int64 (variables, rows) in units of the smallest decimal place, 0 for NULL; None where a term is floating, no number, or too large for that."""
    types = [type_of(columns[column].type) if column else None for _, column, *_ in terms]
    if any(t is not None and (t.is_float or not t.is_number or t.precision > 18) for t in types):
        return None
    scale = max((t.scale for t in types if t is not None), default=0)
    out = np.zeros((variables, rows), dtype=np.int64)
    for (mask, column, sign, _), t in zip(terms, types):
        unit = 10 ** (scale - (t.scale if t is not None else 0))
        values = words(columns[column]) if column else np.ones(rows, dtype=np.int64)
        if column:
            values = np.where(null_marks(columns[column]) == 1, 0, values)
        if rows and max(abs(int(values.max())), abs(int(values.min()))) * unit * len(terms) >= 1 << 52:
            return None
        for v in range(variables):
            if mask == -1 or mask >> v & 1:
                out[v] += sign * unit * values
    return out


def _rows(columns: dict[str, pa.Array]) -> int:
    return len(next(iter(columns.values())))
