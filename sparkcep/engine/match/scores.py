"""Scores of listed matches, computed by the engine exactly as Spark does, and their parts for score bounds.

The top-k heap and the score bounds use them. A score is an integer key that keeps the order: larger is better. The engine computes
none if it lacks an operation, or if values might be rounded differently from Spark or overflow their types.
"""

from __future__ import annotations

from typing import NamedTuple, Union

import numpy as np

from sparkcep.columns.arrays import float_words, words
from sparkcep.columns.types import INT_BITS, Type, type_of
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.task import Task
from sparkcep.engine.output import gather
from sparkcep.engine.output.row_weights import (
    float_weights,
    is_floating,
    keeps_types,
    known_values,
    sum_tree,
    term_type,
    whole_weights,
)
from sparkcep.engine.output.score_program import (
    ARRAYS,
    CHOICES,
    EXACT,
    FLOATING,
    SUMS,
    Interval,
    evaluated,
    interval_of,
    interval_of_values,
    keeps_scale,
    operations,
)
from sparkcep.kernels.common.layout import E_ROWS
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ALL_ROWS, Score, Scored, Term

MISSING = np.iinfo(np.int64).min  # key of a score that is NULL or NaN: it ranks last
_EPSILON = 2.0**-52


class Summed(NamedTuple):
    """A score as a tree over sums of the rows of a match.

    Attributes:
        tree: the score.
        weights: what each row adds. float64 (sums, variables, rows).
        slack: by how much rounding may change a sum. float64 (sums).
    """

    tree: tuple
    weights: np.ndarray
    slack: np.ndarray


Scores = Union["Sum", "Tree"]


def scores_of(task: Task, chunk: Chunk, letters: np.ndarray) -> Scores | None:
    """Returns the scores of a chunk's matches, None if the engine cannot compute them.

    ``letters`` has the variables that each row may be. int64 (rows).
    """
    ranking, variables = task.plan.ranking, len(task.plan.variables)
    assert ranking is not None
    score = next((leaf.spec for leaf in task.plan.leaves if leaf.spec.kind == "score"), None)
    if score is not None:
        return Sum.of_chunk(score, sum_tree(ranking, score.terms), chunk, letters, task.plan)
    return Tree(ranking.scored, chunk, variables) if ranking.scored is not None else None


class Sum:
    """A score that is one sum over the match's rows.

    ``exact``: it is a sum of integers, in units of the smallest decimal place, perhaps less one number for all matches.
    """

    def __init__(self, score: Score, chunk: Chunk, variables: int, weights: np.ndarray, exact: bool) -> None:
        self.score, self.weights, self.exact = score, weights, exact
        self.known = _known(score.terms, chunk, variables)

    @staticmethod
    def of_chunk(score: Score, tree: tuple, chunk: Chunk, letters: np.ndarray, plan: Plan) -> Sum | None:
        """Returns the scores, None if the sums might differ from Spark's. ``tree`` says how the terms are added."""
        terms, columns, variables = score.terms, chunk.columns, len(plan.variables)
        if is_floating(terms, columns):
            return Sum(score, chunk, variables, float_weights(terms, columns, variables, chunk.rows), False)
        if not keeps_types(terms, tree, columns, letters):
            return None
        whole = whole_weights(terms, tree, columns, variables, chunk.offsets, letters, plan.precision_loss, relative=True, averaged=score.parts > 1)
        return None if whole is None else Sum(score, chunk, variables, whole.astype(np.float64), True)

    def of(self, found: MatchBatch) -> np.ndarray | None:
        """Returns the keys of the matches' scores, None if they may be rounded. int64 (matches)."""
        if self.exact and np.abs(self.weights).max(initial=0.0) * int(found.events[:, E_ROWS].max()) >= EXACT:
            return None
        sums = gather.match_sums(found.events, found.labels, found.rows, self.weights) / self.score.parts
        return _ordered(sums, _missing(self.known, found))

    def summed(self, chunk: Chunk, letters: np.ndarray, most: int) -> Summed | None:
        """Returns the parts of the score, None if rows one by one do not show whether a match has a score.

        ``most`` is the most rows of a match.
        """
        there = _there(letters, len(self.weights))
        weights = np.where(there, self.weights[:, : len(letters)], 0.0)
        if np.isinf(weights).any() or (self.exact and np.abs(weights).max(initial=0.0) * most >= EXACT):
            return None
        for term, known in self.known:
            missing = _of_term(term, there) & (known[:, : len(letters)] == 0)
            if missing.any() and term.kind == "sum":
                return None
            weights[missing] = -np.inf
        weights[np.isnan(weights)] = -np.inf
        tree: tuple = ("leaf", 0) if self.score.parts == 1 else ("/", ("leaf", 0), ("lit", self.score.parts))
        slack = 0.0 if self.exact else _slack(np.where(np.isinf(weights), 0.0, weights), chunk, most)
        return Summed(tree, weights[None], np.array([slack]))


class Tree:
    """A score that is arithmetic over sums."""

    def __init__(self, scored: Scored, chunk: Chunk, variables: int) -> None:
        self.scored, columns = scored, chunk.columns
        self.types = [type_of(columns[term.column].type) if term.column else None for term in scored.leaves]
        self.usable = self._usable([term_type(term, columns) for term in scored.leaves])
        if not self.usable:
            return
        scale = max((t.scale for t in self.types if t is not None), default=0)
        units = [10.0 ** (scale - (t.scale if t is not None else 0)) for t in self.types]
        self.weights = [_weights(term, chunk, variables) * unit for term, unit in zip(scored.leaves, units)]
        self.known = [_known((term,), chunk, variables) for term in scored.leaves]

    def _usable(self, added: list[Type]) -> bool:
        """Returns whether arithmetic with these types is that of DOUBLEs, or of integers in units of the smallest decimal place.

        ``added``: the types of the leaves.
        """
        types, used = [t for t in self.types if t is not None], operations(self.scored.tree)
        if any(not t.is_number or t.kind == "float" or t.precision > 18 for t in types):
            return False
        if not any(t.kind == "decimal" for t in types):
            return True
        return None not in self.types and not any(t.is_float for t in types) and not used - SUMS and keeps_scale(added)

    def of(self, found: MatchBatch) -> np.ndarray | None:
        """Returns the keys of the matches' scores, None if they might differ from Spark's. int64 (matches)."""
        if not self.usable:
            return None
        leaves = [gather.match_sums(found.events, found.labels, found.rows, weights) for weights in self.weights]
        missing = [_missing(known, found) for known in self.known]
        absent = np.any(missing, axis=0)
        choosing = bool(operations(self.scored.tree) & CHOICES)
        if (not self.scored.strict and absent.any()) or (choosing and not all(np.isfinite(leaf).all() for leaf in leaves)):
            return None  # least and greatest skip NULLs, and treat NaN as the greatest value; a difference of infinities is NaN
        intervals: list[Interval | None] = [
            interval_of_values(leaf[~none], FLOATING if t is not None and t.is_float else _bits(term, t))
            for leaf, none, term, t in zip(leaves, missing, self.scored.leaves, self.types)
        ]
        if interval_of(self.scored.tree, intervals) is None:
            return None
        with np.errstate(all="ignore"):
            return _ordered(evaluated(self.scored.tree, leaves, ARRAYS), absent)

    def summed(self, chunk: Chunk, letters: np.ndarray, most: int) -> Summed | None:
        """Returns the parts of the score, None if a match may lack a score, or have one that differs from Spark's.

        ``most`` is the most rows of a match.
        """
        if not self.usable:
            return None
        there = _there(letters, len(self.weights[0]))
        found, intervals, slack = [], [], []
        for term, own, known, t in zip(self.scored.leaves, self.weights, self.known, self.types):
            weights = np.where(there, own, 0.0)
            if not np.isfinite(weights).all() or any((_of_term(term, there) & (values[:, : len(letters)] == 0)).any() for _, values in known):
                return None
            floating = t is not None and t.is_float
            intervals.append(_interval(term, weights, there, chunk, FLOATING if floating else _bits(term, t)))
            slack.append(_slack(weights, chunk, most) if floating and term.kind != "row" else 0.0)
            found.append(weights)
        if interval_of(self.scored.tree, intervals) is None:
            return None
        return Summed(self.scored.tree, np.array(found), np.array(slack))


def _there(letters: np.ndarray, variables: int) -> np.ndarray:
    """Returns the rows that each variable may take. bool (variables, rows)."""
    return (letters[None] >> np.arange(variables)[:, None] & 1).astype(bool)


def _of_term(term: Term, there: np.ndarray) -> np.ndarray:
    """Restricts the marks to the variables of a term. bool (variables, rows)."""
    own = np.array([term.mask == ALL_ROWS or term.mask >> v & 1 for v in range(len(there))], dtype=bool)
    return there & own[:, None]


def _interval(term: Term, weights: np.ndarray, there: np.ndarray, chunk: Chunk, bits: int) -> Interval:
    """Returns the interval of a sum over any rows that a match may take."""
    if term.kind == "row":
        return interval_of_values(weights[_of_term(term, there)], bits)
    low, high = (np.add.reduceat(worst, chunk.offsets[:-1]) for worst in (weights.min(axis=0, initial=0.0), weights.max(axis=0, initial=0.0)))
    return float(low.min(initial=0.0)), float(high.max(initial=0.0)), bits


def _slack(weights: np.ndarray, chunk: Chunk, most: int) -> float:
    """Returns how far two sums over a match of at most ``most`` rows may differ if they are added in different orders."""
    largest = np.abs(weights).max(axis=0, initial=0.0)
    whole = min(float(np.add.reduceat(largest, chunk.offsets[:-1]).max(initial=0.0)), most * float(largest.max(initial=0.0)))
    return 2 * (most + 2) * _EPSILON * whole


def _bits(term: Term, t: Type | None) -> int:
    return INT_BITS.get(t.kind, 64) if t is not None and term.kind == "row" else 64


def _weights(term: Term, chunk: Chunk, variables: int) -> np.ndarray:
    """Returns what each row adds to a leaf, 0 for NULL. float64 (variables, rows)."""
    there = known_values(term, chunk.columns, variables) if term.column else np.ones((variables, chunk.rows))
    values = words(chunk.columns[term.column]).astype(np.float64)[: chunk.rows] if term.column else np.ones(chunk.rows)
    own = np.array([term.mask == ALL_ROWS or term.mask >> v & 1 for v in range(variables)])
    return np.where(own[:, None] & (there[:, : chunk.rows] > 0), values, 0.0)


def _known(terms: tuple[Term, ...], chunk: Chunk, variables: int) -> list[tuple[Term, np.ndarray]]:
    """Returns for each term with NULLs which rows have a value."""
    return [(term, known_values(term, chunk.columns, variables)) for term in terms if term.column and chunk.columns[term.column].null_count]


def _missing(known: list[tuple[Term, np.ndarray]], found: MatchBatch) -> np.ndarray:
    """Returns whether a term lacks a value, so that the score is NULL. bool (matches)."""
    out = np.zeros(len(found.events), dtype=bool)
    for term, there in known:
        values = gather.match_sums(found.events, found.labels, found.rows, there)
        if term.kind == "branch":
            own = np.array([[float(term.mask >> v & 1)] for v in range(len(there))]) * np.ones(there.shape)
            out |= values < gather.match_sums(found.events, found.labels, found.rows, own)
        else:
            out |= values == 0
    return out


def _ordered(scores: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Returns int64 keys in the order of floating scores. Scores that are missing or NaN come first."""
    return np.where(missing | np.isnan(scores), MISSING, float_words(scores))
