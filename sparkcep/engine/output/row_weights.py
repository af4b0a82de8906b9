"""Row weights of an additive score, as arrays (CPR, section 3.2: vertex weights).

Rankings and the score column use them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial, reduce

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import null_marks, whole_numbers, words
from sparkcep.columns.types import BIGINT, INT_BITS, MAX_DIGITS, MAX_WORD_DIGITS, TINYINT, Type, type_of
from sparkcep.engine.output import gather
from sparkcep.engine.output.score_program import EXACT, Interval, common_type, fits, interval_of_values, sum_type
from sparkcep.kernels.common.layout import E_ROWS
from sparkcep.plan.facts import plain_sum
from sparkcep.plan.records import ALL_ROWS, Ranking, Score, Term

SUM_DIGITS = 10  # Spark's SUM of decimals has so many digits more


def scores(
    spec: Score, columns: dict[str, pa.Array], events: np.ndarray, labels: np.ndarray, scattered: np.ndarray, variables: int
) -> pa.Array:
    """Returns the score of each event by a ``score`` leaf, added in row order.

    It is NULL if Spark's own sum is exact, or if the match lacks a score.

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
    missing = np.isnan(sums) | (events[:, E_ROWS] == 0)
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
            values = words(columns[column]) if t.is_float else whole_numbers(columns[column])
            if t.scale > MAX_WORD_DIGITS or (t.scale and max(-int(values.min(initial=0)), int(values.max(initial=0))) > EXACT):
                values = values.astype(object)  # the quotient is rounded once, as by Spark
            added = (values / 10**t.scale if t.scale else values).astype(np.float64)
            added = np.where(null_marks(columns[column]) == 1, 0.0 if kind == "sum" else np.nan, added)
        for v in range(variables):
            if mask == -1 or mask >> v & 1:
                out[v] += sign * added
    return out


def whole_weights(
    terms: tuple[Term, ...], tree: tuple, columns: dict[str, pa.Array], variables: int, offsets: np.ndarray, letters: np.ndarray, precision_loss: bool, *,
    relative: bool, averaged: bool = False, scale: int | None = None,
) -> np.ndarray | None:
    """Returns integer weights in units of the last decimal place. int64 (variables, rows).

    The weight of a NULL, and of a row that no variable of the term may take, is 0.
    Returns None if a term is floating, is not a number, or is too large: weights must stay below 2**60. Also returns None if Spark
    may round their sum.

    Args:
        tree: how the terms are added.
        offsets: the bounds of the partitions. int64 (partitions + 1).
        letters: the variables of each row, int64 (rows).
        precision_loss: see :func:`_added`.
        relative: whether all sums of matches may be less by one number. Then the values of a term of kind ``row`` count from the
            smallest one, because each match has one such row. So differences of large values, such as times, are small sums.
        averaged: whether Spark divides the sum. It divides BIGINTs as DOUBLEs, so they must be exact.
        scale: the decimal places; None for the fewest that hold all values.
    """
    types, rows = [term_type(term, columns) for term in terms], int(offsets[-1])
    if any(t.is_float or not t.is_number for t in types):
        return None
    found = [_whole_values(term, columns, rows, letters, trimmed=scale is None) for term in terms]
    if scale is None:
        scale = max((places for _, places, _ in found), default=0)
    added = _added(tree, types, [_largest(values, places, term.kind, offsets) for term, (values, places, _) in zip(terms, found)], precision_loss)
    if added is None:
        return None
    if averaged and added[2] * 10**scale >= EXACT:
        return None
    kept, largest = added[1], 0
    out = np.zeros((variables, rows), dtype=np.int64)
    for (mask, _, sign, kind), (values, places, there) in zip(terms, found):
        unit = 10 ** (scale - places)
        if places > kept and int(np.gcd.reduce(values)) % 10 ** (places - kept):
            return None
        if relative and kind == "row" and there.any():
            least, most = int(values[there].min()), int(values[there].max())
            largest += max(abs(least), abs(most))
            if largest >= 1 << 62:  # a sum of BIGINTs might leave its type
                return None
            values = np.where(there, values - least, 0)
        if rows and max(abs(int(values.max())), abs(int(values.min()))) * unit * len(terms) >= 1 << 60:
            return None
        values = values.astype(np.int64)
        if values.any():  # then the unit fits int64
            values = unit * values
        for v in range(variables):
            if mask == -1 or mask >> v & 1:
                out[v] += sign * values
    return out


def _whole_values(term: Term, columns: dict[str, pa.Array], rows: int, letters: np.ndarray, *, trimmed: bool) -> tuple[np.ndarray, int, np.ndarray]:
    """Returns what each row adds to a term as whole numbers, their decimal places, and which rows have a value.

    The numbers are int64, or Python's integers if one of them does not fit. ``trimmed`` leaves out places that are 0 in all.
    """
    own = np.ones(rows, dtype=bool)
    own[: len(letters)] = letters & term.mask != 0
    if not term.column:
        return own.astype(np.int64), 0, own
    column = columns[term.column]
    own &= null_marks(column) == 0
    values, places = np.where(own, whole_numbers(column), 0), type_of(column.type).scale
    if trimmed and places:
        shared, given = int(np.gcd.reduce(values)), places
        while places and shared % 10 ** (given - places + 1) == 0:
            places -= 1
        if places < given:
            values = values // 10 ** (given - places) if shared else np.zeros(rows, dtype=np.int64)
    return values, places, own


def _largest(values: np.ndarray, places: int, kind: str, offsets: np.ndarray) -> Fraction:
    """Returns an upper bound of the absolute value that a term has in a match."""
    if kind in ("row", "branch"):
        most = max(-int(values.min(initial=0)), int(values.max(initial=0)))
    else:
        sums = np.add.reduceat(np.abs(values.astype(np.float64)), offsets[:-1][np.diff(offsets) > 0])
        most = math.ceil((1.0 + 1e-9) * float(sums.max(initial=0.0)))  # floating sums are rounded
    return Fraction(most, 10**places)


def _rows(columns: dict[str, pa.Array]) -> int:
    return len(next(iter(columns.values())))


def is_floating(terms: tuple[Term, ...], columns: dict[str, pa.Array]) -> bool:
    return any(term.column and type_of(columns[term.column].type).is_float for term in terms)


def sum_tree(ranking: Ranking, terms: tuple[Term, ...]) -> tuple:
    """Returns the tree that adds the terms of a score."""
    return ranking.scored.tree if ranking.scored is not None and terms == ranking.terms else plain_sum([term.sign for term in terms])


def keeps_types(terms: tuple[Term, ...], tree: tuple, columns: dict[str, pa.Array], letters: np.ndarray) -> bool:
    """Returns whether no sum of integers can overflow its type. BIGINT sums are not checked, because ``whole_weights`` limits them.

    Args:
        terms: the terms of the score.
        tree: how they are added.
        columns: the columns of the rows.
        letters: the variables that each row may be. int64 (rows).
    """
    return _range(tree, [_term_range(term, columns, letters) for term in terms]) is not None


def _term_range(term: Term, columns: dict[str, pa.Array], letters: np.ndarray) -> Interval:
    """Returns the interval of a term. It is empty for a term of 64 bits, or of decimals."""
    bits = INT_BITS.get(term_type(term, columns).kind, 64)
    if bits == 64:
        return 0.0, 0.0, bits
    column, rows = columns[term.column], len(letters)
    low, high, _ = interval_of_values(words(column)[:rows][(letters & term.mask != 0) & (null_marks(column)[:rows] == 0)], bits)
    return (min(low, 0.0), max(high, 0.0), bits) if term.kind == "branch" else (low, high, bits)


def _range(tree: tuple, terms: list[Interval]) -> Interval | None:
    """Returns the interval of a sum, None if a part of less than 64 bits may overflow its type."""
    if tree[0] == "leaf":
        return terms[tree[1]]
    low, high, most = 0.0, 0.0, 8
    for part, sign in zip(tree[1:], _signs(tree)):
        found = _range(part, terms)
        if found is None:
            return None
        ends = sign * found[0], sign * found[1]
        low, high, most = low + min(ends), high + max(ends), max(most, found[2])
    whole = low, high, most
    return whole if most == 64 or fits(whole) else None


def term_type(term: Term, columns: dict[str, pa.Array]) -> Type:
    """Returns the type that a term of a number has in Spark."""
    t = type_of(columns[term.column].type) if term.column else BIGINT
    if t.kind == "null":
        return TINYINT  # a sum with NULL has the type of the other terms
    if term.kind != "sum" or t.is_float:
        return t
    return BIGINT if t.is_integer else replace(t, precision=min(t.precision + SUM_DIGITS, MAX_DIGITS))


def _signs(tree: tuple) -> list[int]:
    """Returns the signs of the operands of a sum. ``coalesce`` is a sum, too, because all of its operands but one are 0."""
    return [-1 if tree[0] == "neg" or (tree[0] == "-" and i) else 1 for i in range(len(tree) - 1)]


def _result_type(operation: str, types: Sequence[Type], precision_loss: bool) -> Type:
    """Returns Spark's type of an operation on operands of these types."""
    return reduce(common_type if operation == "coalesce" else partial(sum_type, precision_loss=precision_loss), types)


def _added(tree: tuple, types: list[Type], largest: list[Fraction], precision_loss: bool) -> tuple[Type, int, Fraction] | None:
    """Returns the type of a sum, how many decimal places it keeps, and an upper bound of its absolute value.

    Spark may round parts of the sum. Returns None if a sum of decimals may overflow its type, where it is NULL without ANSI.

    Args:
        tree: how the terms are added.
        types, largest: the type of each term, and an upper bound of its absolute value.
        precision_loss: whether decimals of more than 38 digits lose digits after the point.
    """
    if tree[0] == "leaf":
        t, kept, most = types[tree[1]], MAX_DIGITS, largest[tree[1]]
    else:
        found = [_added(part, types, largest, precision_loss) for part in tree[1:]]
        if None in found:
            return None
        parts, places, bounds = zip(*found)
        t, most = _result_type(tree[0], parts, precision_loss), sum(bounds, Fraction())
        kept = min(*places, t.scale if t.scale < max(part.scale for part in parts) else MAX_DIGITS)
    return None if t.kind == "decimal" and most >= 10 ** (t.precision - t.scale) else (t, kept, most)


class TypeRangeError(Exception):
    """A sum of integers overflows its type."""


class MatchScores:
    """Computes the scores of listed matches as Spark does.

    Floating sums are added in row order, integers overflow like their types, and decimals of more than 38 digits are rounded
    (``precision_loss``). A score is an average over ``parts`` objectives. ``tree`` says how the terms are added.
    """

    def __init__(self, terms: tuple[Term, ...], tree: tuple, columns: dict[str, pa.Array], variables: int, parts: int, ansi: bool, precision_loss: bool) -> None:
        self.terms = terms
        self.weights = float_weights(terms, columns, variables, _rows(columns)) if is_floating(terms, columns) else None
        if self.weights is None:
            self.whole, t = _adder(tree, [term_type(term, columns) for term in terms], ansi, precision_loss)
            self.averaged = parts > 1 and t.is_integer  # Spark divides BIGINTs as DOUBLEs
        self.values = [whole_numbers(columns[term.column]).astype(object) if term.column else 1 for term in terms]
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
        score = self.whole(sums)
        return float(score) if self.averaged and score is not None else score

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


def _adder(tree: tuple, types: list[Type], ansi: bool, precision_loss: bool) -> tuple[Callable[[Sequence[int]], int | None], Type]:
    """Returns the function that adds terms as Spark does, and the type of the sum. Decimals are in units of their last place.

    Without ANSI a sum of decimals that overflows its type is None.

    Args:
        tree: how the terms are added.
        types: the types of the terms.
        ansi: whether the function raises TypeRangeError if a sum of less than 64 bits overflows its type. For other sums Spark
            raises an error if it computes the score.
        precision_loss: whether decimals of more than 38 digits lose digits after the point.
    """
    if tree[0] == "leaf":
        number, t = tree[1], types[tree[1]]
        if ansi:
            return operator.itemgetter(number), t
        if t.kind == "decimal":
            return lambda terms: _held(terms[number], t), t
        return (lambda terms: _wrapped(terms[number], INT_BITS[t.kind])), t  # a SUM may wrap
    parts, of = zip(*(_adder(part, types, ansi, precision_loss) for part in tree[1:]))
    t, scale = _result_type(tree[0], of, precision_loss), max(own.scale for own in of)
    units, unit = [sign * 10 ** (scale - own.scale) for sign, own in zip(_signs(tree), of)], 10 ** (scale - t.scale)
    bits = INT_BITS.get(t.kind, 64)
    unlimited = t.kind == "decimal" or (ansi and bits == 64)

    def whole(terms: Sequence[int]) -> int | None:
        operands = [part(terms) for part in parts]
        if None in operands:
            return None
        exact = sum(factor * operand for factor, operand in zip(units, operands))
        if unit > 1:
            half_up = (2 * abs(exact) + unit) // (2 * unit)
            exact = half_up if exact > 0 else -half_up
        if t.kind == "decimal" and not ansi:
            return _held(exact, t)
        if unlimited or (wrapped := _wrapped(exact, bits)) == exact:
            return exact
        if ansi:
            raise TypeRangeError
        return wrapped

    return whole, t


def _held(value: int, t: Type) -> int | None:
    """Returns a decimal in units of its last place, None if its type does not hold it."""
    return value if abs(value) < 10**t.precision else None


def _wrapped(value: int, bits: int) -> int:
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
