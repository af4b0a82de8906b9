"""TOP k over matches that are listed: only those that may be among the k best of their partition and sliding window are kept.

The engine scores them itself, exactly as Spark does, so that what it drops is surely not among the best; Spark, or a later part of the engine,
ranks the rest. Scores are told as whole numbers of the same order, the larger the better. Where the score is no arithmetic that the engine knows,
or values at hand might be rounded otherwise or leave their types, all matches are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from sparkcep.columns.arrays import numbered, ranges, words
from sparkcep.columns.types import INT_BITS, Type, type_of
from sparkcep.engine import bounds, gather
from sparkcep.engine.buffer import Chunk
from sparkcep.engine.found import Found, together
from sparkcep.engine.outputs import end_rows
from sparkcep.engine.prepared import Task
from sparkcep.engine.weights import float_weights, is_floating, keeps_types, known_values, whole_weights
from sparkcep.engine.windows import WINDOW_BYTES, windows_holding
from sparkcep.errors import TooMuchStateError
from sparkcep.plan.records import ALL_ROWS, Score, Scored, Term
from sparkcep.search.codes import E_LABELS, E_PART, E_ROWS, E_START

MISSING = np.iinfo(np.int64).min  # of a score that is NULL or NaN: it ranks last
_ARRAYS = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "least": np.minimum, "greatest": np.maximum,
}  # fmt: skip


class Kept:
    """The best of the matches of one buffer. ``letters`` int64 (rows): the variables that each row may be."""

    def __init__(self, task: Task, chunk: Chunk, letters: np.ndarray) -> None:
        self.task, self.chunk = task, chunk
        ranking = task.plan.ranking
        assert ranking is not None
        self.top = ranking.top
        score = next((leaf.spec for leaf in task.plan.leaves if leaf.spec.kind == "score"), None)
        self.scores: _Sum | _Tree | None = None
        if score is not None:
            self.scores = _Sum.of_chunk(score, chunk, letters, len(task.plan.variables))
        elif ranking.scored is not None:
            self.scores = _Tree(ranking.scored, chunk, len(task.plan.variables))
        # without sliding windows: the last score and first row of each partition that may still be among the best
        self.least = np.full((chunk.parts, 2), (MISSING, chunk.rows), dtype=np.int64)
        self.found, self.pairs = Found.none(), _Pairs.none()

    def of(self, rounds: Iterator[Found]) -> Iterator[Found]:
        """The matches of all rounds that may be among the best, some at a time."""
        for found in rounds:
            for rest in self._take(found):
                if len(rest.events):
                    yield rest
        if len(self.found.events):
            yield self.found

    def _take(self, found: Found) -> Iterator[Found]:
        """Keeps the best of more matches, and gives back those that it cannot judge."""
        rows = found.events[:, E_ROWS] > 0
        if not rows.all():
            yield found.chosen(np.flatnonzero(~rows))
            found = found.chosen(np.flatnonzero(rows))
        keys = self.scores.of(found) if self.scores is not None and len(found.events) else None
        pairs = None if keys is None else self._pairs(found, keys)
        if pairs is None:
            yield found
            return
        which, at = np.unique(pairs.match, return_inverse=True)
        joined = together([self.found, found.chosen(which)], found.events.shape[1])
        pairs = self.pairs.joined(pairs._replace(match=at + len(self.found.events)))
        kept = best(joined, pairs, self.top)
        which, at = np.unique(pairs.match[kept], return_inverse=True)
        self.found, self.pairs = joined.chosen(which), pairs.chosen(kept)._replace(match=at)
        if sum(a.nbytes for a in (self.found.events, self.found.labels, self.found.rows, *self.pairs)) > self.task.limits.max_state_bytes:
            yield self.found  # the k best are too many to be held, and who asks ranks them
            self.found, self.pairs, self.scores = Found.none(), _Pairs.none(), None
            return
        if not self.task.plan.slide:
            self._raise()

    def _pairs(self, found: Found, keys: np.ndarray) -> _Pairs | None:
        """The matches that may be among the best, with partition and window; None where those cannot be told."""
        if self.task.plan.slide:
            return self._in_windows(found, keys)
        part, start = found.events[:, E_PART], found.events[:, E_START]
        key, first = self.least[part].T
        there = np.flatnonzero((keys > key) | ((keys == key) & (start <= first)))
        return _Pairs(there, part[there], np.zeros(len(there), dtype=np.int64), keys[there])

    def _raise(self) -> None:
        """A partition that has k matches needs none that are worse than all of them."""
        pairs, start = self.pairs, self.found.events[self.pairs.match, E_START]
        order = np.lexsort((-start, pairs.key, pairs.part))
        part = pairs.part[order]
        worst = order[np.flatnonzero(np.diff(part, prepend=-1))]
        full = np.bincount(part, minlength=len(self.least))[pairs.part[worst]] >= self.top
        worst = worst[full]
        self.least[pairs.part[worst]] = np.stack([pairs.key[worst], start[worst]], axis=1)

    def _in_windows(self, found: Found, keys: np.ndarray) -> _Pairs | None:
        """Each match once for each sliding window that holds it; None where their numbers are beyond 64 bits, or too many."""
        plan, chunk = self.task.plan, self.chunk
        first, last = end_rows(found.events, found.rows)
        window, most = plan.windows[0], self.task.limits.max_state_bytes // WINDOW_BYTES
        try:
            match, numbers, _ = windows_holding(window, plan.slide, chunk.columns.get(window.order), chunk.positions, first, last, most)
        except TooMuchStateError:
            return None
        return _Pairs(match, found.events[match, E_PART], numbers, keys[match]) if numbers.dtype == np.int64 else None


class _Pairs(NamedTuple):
    """Matches by their places, with partition, number of a window, and score."""

    match: np.ndarray
    part: np.ndarray
    window: np.ndarray
    key: np.ndarray

    @staticmethod
    def none() -> _Pairs:
        return _Pairs(*(np.zeros(0, dtype=np.int64) for _ in _Pairs._fields))

    def joined(self, more: _Pairs) -> _Pairs:
        return _Pairs(*map(np.concatenate, zip(self, more)))

    def chosen(self, which: np.ndarray) -> _Pairs:
        return _Pairs(*(values[which] for values in self))


def best(found: Found, pairs: _Pairs, k: int) -> np.ndarray:
    """int64: the places of the k best of each partition and window, in ascending order. Ties: the earliest vector of rows, then the place."""
    group = _numbers(pairs.part, pairs.window)
    needed = np.full(int(group.max(initial=-1)) + 1, k, dtype=np.int64)
    left, sure = np.arange(len(group)), []
    for column in _columns(found, pairs):
        values = column(left)
        order = np.lexsort((values, group[left]))
        left, values = left[order], values[order]
        at = group[left]
        edge = np.flatnonzero(numbered(at) == needed[at] - 1)
        limit = np.full(len(needed), np.iinfo(np.int64).max)
        limit[at[edge]] = values[edge]
        few = np.bincount(at, minlength=len(needed)) <= needed
        better = few[at] | (values < limit[at])
        sure.append(left[better])
        # of those that are as good as the last that is needed, the next column tells which
        needed -= np.bincount(at[better], minlength=len(needed))
        left = np.sort(left[~better & (values == limit[at])])
        if not len(left):
            break
    left = left[np.argsort(group[left], kind="stable")]
    sure.append(left[numbered(group[left]) < needed[group[left]]])
    return np.sort(np.concatenate(sure))


def _numbers(part: np.ndarray, window: np.ndarray) -> np.ndarray:
    """int64: small numbers that are equal where both are."""
    if not window.any():
        return part
    order = np.lexsort((window, part))
    fresh = (np.diff(part[order]) != 0) | (np.diff(window[order]) != 0)
    out = np.empty(len(part), dtype=np.int64)
    out[order] = np.concatenate([[0], np.cumsum(fresh)])
    return out


def _columns(found: Found, pairs: _Pairs) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
    """By what matches rank, one after the other: functions that give a value for each of some pairs, the least for the best."""
    yield lambda some: ~pairs.key[some]
    sizes = found.events[:, E_ROWS]
    at = ranges(found.events[:, E_LABELS if len(found.rows) else E_START], sizes)
    rows, owner = found.rows[at] if len(found.rows) else at, np.repeat(np.arange(len(sizes)), sizes)
    fresh = np.ones(len(rows), dtype=bool)  # a row that serves both sides of & counts once
    fresh[1:] = (np.diff(rows) != 0) | (np.diff(owner) != 0)
    rows, counts = rows[fresh], np.bincount(owner[fresh], minlength=len(sizes))
    begin = np.cumsum(counts) - counts

    def row(depth: int, some: np.ndarray) -> np.ndarray:
        match = pairs.match[some]
        return np.where(counts[match] > depth, rows[np.minimum(begin[match] + depth, len(rows) - 1)], -1)

    for depth in range(int(counts.max(initial=0))):
        yield lambda some, depth=depth: row(depth, some)


# -- scores -----------------------------------------------------------------------------------------------------------


class _Sum:
    """A score that is one sum over the match's rows. ``exact``: of whole numbers, in units of the smallest decimal place."""

    def __init__(self, score: Score, chunk: Chunk, variables: int, weights: np.ndarray, exact: bool) -> None:
        self.score, self.weights, self.exact = score, weights, exact
        self.known = _known(score.terms, chunk, variables)

    @staticmethod
    def of_chunk(score: Score, chunk: Chunk, letters: np.ndarray, variables: int) -> _Sum | None:
        """None where the sums might not be Spark's."""
        terms, columns = score.terms, chunk.columns
        if is_floating(terms, columns):
            return _Sum(score, chunk, variables, float_weights(terms, columns, variables, chunk.rows), False)
        if not keeps_types(terms, columns, letters):
            return None
        whole = whole_weights(terms, columns, variables, chunk.rows)
        return None if whole is None else _Sum(score, chunk, variables, whole.astype(np.float64), True)

    def of(self, found: Found) -> np.ndarray | None:
        """int64: the keys of the matches' scores; None where they may be rounded."""
        if self.exact and np.abs(self.weights).max(initial=0.0) * int(found.events[:, E_ROWS].max()) >= bounds.EXACT:
            return None
        sums = gather.match_sums(found.events, found.labels, found.rows, self.weights) / self.score.parts
        return _ordered(sums, _missing(self.known, found))


class _Tree:
    """A score that is arithmetic over sums."""

    def __init__(self, scored: Scored, chunk: Chunk, variables: int) -> None:
        self.scored, columns = scored, chunk.columns
        self.types = [type_of(columns[term.column].type) if term.column else None for term in scored.leaves]
        self.usable = self._usable()
        if not self.usable:
            return
        scale = max((t.scale for t in self.types if t is not None), default=0)
        units = [10.0 ** (scale - (t.scale if t is not None else 0)) for t in self.types]
        self.weights = [_weights(term, chunk, variables) * unit for term, unit in zip(scored.leaves, units)]
        self.known = [_known((term,), chunk, variables) for term in scored.leaves]

    def _usable(self) -> bool:
        """Whether arithmetic with these types is that of DOUBLEs, or of whole numbers, in units of the smallest decimal place."""
        types, used = [t for t in self.types if t is not None], bounds.operations(self.scored.tree)
        if any(not t.is_number or t.kind == "float" or t.precision > 18 for t in types):
            return False
        if not any(t.kind == "decimal" for t in types):
            return True
        return None not in self.types and not any(t.is_float for t in types) and not used - bounds.SUMS and bounds.keeps_scale(types)

    def of(self, found: Found) -> np.ndarray | None:
        """int64: the keys of the matches' scores; None where they might not be Spark's."""
        if not self.usable:
            return None
        leaves = [gather.match_sums(found.events, found.labels, found.rows, weights) for weights in self.weights]
        missing = [_missing(known, found) for known in self.known]
        absent = np.any(missing, axis=0)
        choosing = bool(bounds.operations(self.scored.tree) & bounds.CHOICES)
        if (not self.scored.strict and absent.any()) or (choosing and any(np.isnan(leaf).any() for leaf in leaves)):
            return None  # least and greatest pass over NULLs, and have NaN above all
        intervals: list[bounds.Interval | None] = [
            bounds.of_values(leaf[~none], bounds.FLOATING if t is not None and t.is_float else _bits(term, t))
            for leaf, none, term, t in zip(leaves, missing, self.scored.leaves, self.types)
        ]
        if bounds.of_tree(self.scored.tree, intervals) is None:
            return None
        with np.errstate(all="ignore"):
            return _ordered(_value(self.scored.tree, leaves), absent)


def _bits(term: Term, t: Type | None) -> int:
    return INT_BITS.get(t.kind, 64) if t is not None and term.kind == "row" else 64


def _value(tree: tuple, leaves: list[np.ndarray]) -> np.ndarray:
    if tree[0] == "leaf":
        return leaves[tree[1]]
    if tree[0] == "lit":
        return np.full(len(leaves[0]), float(tree[1]))
    return _ARRAYS[tree[0]](*(_value(operand, leaves) for operand in tree[1:]))


def _weights(term: Term, chunk: Chunk, variables: int) -> np.ndarray:
    """float64 (variables, rows): what each row adds to a leaf, 0 for NULL."""
    there = known_values(term, chunk.columns, variables) if term.column else np.ones((variables, chunk.rows))
    values = words(chunk.columns[term.column]).astype(np.float64)[: chunk.rows] if term.column else np.ones(chunk.rows)
    own = np.array([term.mask == ALL_ROWS or term.mask >> v & 1 for v in range(variables)])
    return np.where(own[:, None] & (there[:, : chunk.rows] > 0), values, 0.0)


def _known(terms: tuple[Term, ...], chunk: Chunk, variables: int) -> list[tuple[Term, np.ndarray]]:
    """For each term with NULLs which rows have a value."""
    return [(term, known_values(term, chunk.columns, variables)) for term in terms if term.column and chunk.columns[term.column].null_count]


def _missing(known: list[tuple[Term, np.ndarray]], found: Found) -> np.ndarray:
    """bool (matches): whether a term has no value, which makes the score NULL."""
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
    """int64 in the order of floating scores; those that are missing, or no number, come first."""
    bits = (scores + 0.0).view(np.int64)  # one zero
    keys = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)
    return np.where(missing | np.isnan(scores), MISSING, keys)
