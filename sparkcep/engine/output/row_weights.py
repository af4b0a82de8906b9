"""Row weights of an additive score, as arrays (CPR, section 3.2: vertex weights).

Rankings and the score column use them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import null_marks, words
from sparkcep.columns.types import INT_BITS, type_of
from sparkcep.engine.output import gather
from sparkcep.engine.output.score_program import Interval, fits, interval_of_values
from sparkcep.plan.records import ALL_ROWS, Score, Term


def scores(
    spec: Score, columns: dict[str, pa.Array], events: np.ndarray, labels: np.ndarray, scattered: np.ndarray, variables: int
) -> pa.Array:
    """Returns the score of each event by a ``score`` leaf, added in row order.

    It is NULL if Spark's own sum is exact, or if the match has no score.

    Args:
        spec: the leaf.
        columns: the columns of the buffer.
        events, labels, scattered: the matches, see :mod:`sparkcep.engine.output.gather`.
        variables: the number of variables.
    """
    parts, terms = spec.parts, spec.terms
    if not any(term.column and type_of(columns[term.column].type).is_float for term in terms):
        return pa.nulls(len(events))
    weights = float_weights(terms, columns, variables, _rows(columns))
    sums = gather.match_sums(events, labels, scattered, weights) / parts
    missing = np.isnan(sums)
    for term in terms:
        if term.kind == "sum" and columns[term.column].null_count:
            missing |= gather.match_sums(events, labels, scattered, known_values(term, columns, variables)) == 0
    return pa.array(sums, mask=missing)


def known_values(term: Term, columns: dict[str, pa.Array], variables: int) -> np.ndarray:
    """Returns 1 for each row that has a value for a term. float64 (variables, rows)."""
    there, mask = 1.0 - null_marks(columns[term.column]), term.mask
    return np.array([there if mask == ALL_ROWS or mask >> v & 1 else np.zeros(len(there)) for v in range(variables)])


def float_weights(terms: tuple[Term, ...], columns: dict[str, pa.Array], variables: int, rows: int) -> np.ndarray:
    """Returns the floating weight of each row for each variable. float64 (variables, rows), NaN if a term of the row is NULL.

    A NULL adds 0 to a term of kind ``sum``.
    """
    out = np.zeros((variables, rows), dtype=np.float64)
    for mask, column, sign, kind in terms:
        added = np.ones(rows)
        if column:
            t = type_of(columns[column].type)
            added = words(columns[column]) / 10**t.scale if t.scale else words(columns[column]).astype(np.float64)
            added = np.where(null_marks(columns[column]) == 1, 0.0 if kind == "sum" else np.nan, added)
        for v in range(variables):
            if mask == -1 or mask >> v & 1:
                out[v] += sign * added
    return out


def whole_weights(terms: tuple[Term, ...], columns: dict[str, pa.Array], variables: int, rows: int) -> np.ndarray | None:
    """Returns integer weights in units of the smallest decimal place, 0 for NULL. int64 (variables, rows).

    Returns None if a term is floating, is not a number, or is too large: weights must stay below 2**60.
    """
    types = [type_of(columns[term.column].type) if term.column else None for term in terms]
    if any(t is not None and (t.is_float or not t.is_number) for t in types):
        return None
    scale = max((t.scale for t in types if t is not None), default=0)
    out = np.zeros((variables, rows), dtype=np.int64)
    for (mask, column, sign, _), t in zip(terms, types):
        unit = 10 ** (scale - (t.scale if t is not None else 0))
        values = words(columns[column]) if column else np.ones(rows, dtype=np.int64)
        if column:
            values = np.where(null_marks(columns[column]) == 1, 0, values)
        if rows and max(abs(int(values.max())), abs(int(values.min()))) * unit * len(terms) >= 1 << 60:
            return None
        for v in range(variables):
            if mask == -1 or mask >> v & 1:
                out[v] += sign * unit * values
    return out


def _rows(columns: dict[str, pa.Array]) -> int:
    return len(next(iter(columns.values())))


def is_floating(terms: tuple[Term, ...], columns: dict[str, pa.Array]) -> bool:
    return any(term.column and type_of(columns[term.column].type).is_float for term in terms)


def keeps_types(terms: tuple[Term, ...], columns: dict[str, pa.Array], letters: np.ndarray) -> bool:
    """Returns whether no sum of integers can overflow its type.

    ``letters`` has the variables that each row may be. int64 (rows).
    """
    whole: Interval = (0.0, 0.0, 8)
    for mask, column, sign, kind in terms:
        bits = _bits(column, kind, columns)
        if not bits:
            return True  # decimals; or BIGINT, which ``whole_weights`` bounds
        rows = len(letters)
        own = words(columns[column])[:rows][(letters & mask != 0) & (null_marks(columns[column])[:rows] == 0)]
        low, high, _ = interval_of_values(sign * own, bits)
        if kind == "branch":
            low, high = min(low, 0.0), max(high, 0.0)
        whole = whole[0] + low, whole[1] + high, max(whole[2], bits)
        if not fits(whole):
            return False
    return True


def _bits(column: str, kind: str, columns: dict[str, pa.Array]) -> int:
    """Returns the bits of the integers of one row. 0 for 64 bits, and for values that are not integers."""
    bits = INT_BITS.get(type_of(columns[column].type).kind, 64) if column and kind in ("row", "branch") else 64
    return bits if bits < 64 else 0


class TypeRangeError(Exception):
    """A sum of integers overflows its type."""


class MatchScores:
    """Computes the scores of listed matches as Spark does.

    Floating sums are added in row order, other sums are exact, and integers overflow like their types. A score is an average over
    ``parts`` objectives.
    """

    def __init__(self, terms: tuple[Term, ...], columns: dict[str, pa.Array], variables: int, parts: int, ansi: bool) -> None:
        self.terms, self.parts, self.ansi = terms, parts, ansi
        self.weights = float_weights(terms, columns, variables, _rows(columns)) if is_floating(terms, columns) else None
        types = [type_of(columns[term.column].type) if term.column else None for term in terms]
        self.scale = max((t.scale for t in types if t is not None), default=0)
        self.whole = not any(t is not None and t.kind == "decimal" for t in types)
        self.bits = [_bits(term.column, term.kind, columns) for term in terms]
        units = [10 ** (self.scale - (t.scale if t is not None else 0)) for t in types]
        self.values = [words(columns[term.column]).astype(object) * unit if term.column else unit for term, unit in zip(terms, units)]
        self.there = [null_marks(columns[term.column]) == 0 if term.column else None for term in terms]

    def of(self, rows: Sequence[int], labels: Sequence[int]) -> float | int | None:
        """Returns the score of a match, None for NULL and NaN. A decimal score is in units of the last place.

        Raises TypeRangeError on overflow under ANSI.
        """
        sums = [self._sum(i, rows, labels) for i in range(len(self.terms))]
        if None in sums:
            return None
        if self.weights is not None:
            total = 0.0
            for row, label in zip(rows, labels):
                total += self.weights[label & 63, row].item()
            return None if total != total else total
        score, bits = 0, 8
        for term, added, own in zip(self.terms, sums, self.bits):
            score += term.sign * added
            bits = max(bits, own) if own and bits else 0
            if bits and not -(1 << bits - 1) <= score < 1 << bits - 1:
                if self.ansi:
                    raise TypeRangeError
                score = (score + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
        # Spark divides BIGINTs as DOUBLEs
        return float(score) if self.parts > 1 and self.whole else score

    def _sum(self, term: int, rows: Sequence[int], labels: Sequence[int]):
        """Returns the sum over a match's rows for a term, None for NULL.

        For floating numbers it is 0 or None: whether there is a sum.
        """
        mask, values, there = self.terms[term].mask, self.values[term], self.there[term]
        own = [row for row, label in zip(rows, labels) if mask == -1 or mask >> (label & 63) & 1]
        if there is None:
            return len(own) * values
        known = [row for row in own if there[row]]
        if len(known) < len(own) if self.terms[term].kind == "branch" else not known:
            return None
        return 0 if self.weights is not None else sum(values[row] for row in known)
