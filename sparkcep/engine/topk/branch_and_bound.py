"""The k best matches of a sequence of single rows by a monotone score that is no sum (CPR, sections 3.2 to 3.4: nonlinear
preferences), without going through all matches. The method: ``monotone_kernels``.

A score is a tree over one weight for each stratum, as ``plan.extend.score`` writes it: ("leaf", stratum), ("lit", number), or an
operation of ``OPERATIONS`` with its operands. All are exact in IEEE arithmetic or correctly rounded, so that the bits are Spark's.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sparkcep.columns.arrays import numbered
from sparkcep.errors import TooManyStepsError, TooMuchStateError
from sparkcep.kernels.topk import branch_and_bound as mk

OPERATIONS = {
    "+": mk.ADD, "-": mk.SUBTRACT, "*": mk.MULTIPLY, "/": mk.DIVIDE, "neg": mk.NEGATE, "sqrt": mk.ROOT, "least": mk.LEAST, "greatest": mk.GREATEST,
}  # fmt: skip
_FALLING_OPERANDS = {"-": (1, -1), "neg": (-1,)}


@dataclass(frozen=True)
class RowSequences:
    """Results by window, best first: ``window`` int64 (results), ``score`` float64, ``rows`` int64 (results, strata)."""

    window: np.ndarray
    score: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class Inside:
    """What rows of a sequence are asked beside their order, see :class:`sparkcep.kernels.topk.branch_and_bound.Order`: ``same``, by
    stratum; ``groups``: (window, first stratum, last stratum); ``windows`` int64 (windows, rows): where they end."""

    same: tuple[bool, ...]
    groups: tuple[tuple[int, int, int], ...]
    windows: np.ndarray

    def part(self, rows: slice) -> Inside:
        """The same for some of the rows, of which no sequence leaves any."""
        windows = self.windows[:, rows]
        return Inside(self.same, self.groups, np.clip(windows - rows.start, 0, windows.shape[1]))

    def order(self) -> mk.Order:
        """As the kernel has it."""
        return mk.Order(np.array(self.same, dtype=np.uint8), np.array(self.groups, dtype=np.int64).reshape(-1, 3), np.ascontiguousarray(self.windows))

    @staticmethod
    def free(strata: int) -> Inside:
        """Nothing is asked."""
        return Inside((False,) * strata, (), np.zeros((0, 0), dtype=np.int64))


def top_sequences(
    tree: tuple,
    letters: np.ndarray,
    weights: np.ndarray,
    k: int,
    low: np.ndarray | None = None,
    high: np.ndarray | None = None,
    *,
    ends: np.ndarray | None = None,
    inside: Inside | None = None,
    max_steps: int = 2**62,
    max_bytes: int = 2**62,
) -> RowSequences:
    """The ``k`` best of each window among the sequences of one row of each stratum, in the order of the strata and of the rows.

    ``letters`` int64 (rows): bit j where the row belongs to stratum j; ``weights`` float64 (strata, rows), finite there. ``low``,
    ``high`` int64 (windows), both ascending: rows of each window, ``high`` behind the last; without them all rows are one window.
    ``ends`` int64 (rows), ascending, may bound each sequence by its first row; ``inside`` says what else is asked. Ties: the
    lexicographically earliest rows. ``max_steps``, ``max_bytes``: of one window's search, and of its results. Raises
    TooManyStepsError, TooMuchStateError.
    """
    if k < 1:
        raise ValueError(f"k must be positive, not {k}")
    if low is not None and high is not None and ends is not None:
        return _each(tree, letters, weights, k, low, high, ends, inside, max_steps, max_bytes)
    m, n = weights.shape
    order = (inside or Inside.free(m)).order()
    if low is None or high is None:
        low, high = np.zeros(1, dtype=np.int64), np.full(1, n, dtype=np.int64)
    low, high = np.asarray(low, dtype=np.int64), np.asarray(high, dtype=np.int64)
    strata = _strata(np.asarray(letters, dtype=np.int64), np.ascontiguousarray(weights, dtype=np.float64))
    k = max(1, min(k, math.prod(np.diff(strata.offsets).tolist())))  # there are no more
    if k * (m + 1) * 16 > max_bytes:
        raise TooMuchStateError
    score = compiled(tree, m)
    # enough of each stratum for k results, were its rows in any order
    trial = min(mk.TRIAL, math.ceil((2 * k * math.factorial(m)) ** (1 / m)) + 1)
    room = _room(m, n, k, len(score.code))
    limits = np.zeros(0, dtype=np.int64) if ends is None else np.asarray(ends, dtype=np.int64)
    state = np.zeros(mk.STATE, dtype=np.int64)
    found: list[tuple[np.ndarray, ...]] = []
    size = max(k, min(k * len(low), 1 << 16))
    while True:
        out = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.float64), np.empty((size, m), dtype=np.int64)
        state[mk.S_OUT] = 0
        code = mk.best_of_windows(strata, score, order, room, low, high, limits, k, trial, max_steps, state, *out)
        found.append(tuple(a[: state[mk.S_OUT]] for a in out))
        if code == mk.DONE:
            break
        if code == mk.STEPS:
            raise TooManyStepsError(int(state[mk.S_WINDOW]))
    window, scores, rows = (np.concatenate(parts) for parts in zip(*found))
    return RowSequences(window, scores, rows)


def _each(
    tree: tuple, letters: np.ndarray, weights: np.ndarray, k: int, low: np.ndarray, high: np.ndarray, ends: np.ndarray, inside: Inside | None,
    max_steps: int, max_bytes: int,
) -> RowSequences:
    """The same, each window by itself."""
    parts = []
    for w, (begin, end) in enumerate(zip(low.tolist(), high.tolist())):
        at = slice(begin, end)
        try:
            found = top_sequences(
                tree, letters[at], weights[:, at], k, ends=np.clip(ends[at] - begin, 0, end - begin), inside=inside and inside.part(at), max_steps=max_steps,
                max_bytes=max_bytes,
            )
        except TooManyStepsError:
            raise TooManyStepsError(w) from None
        parts.append((np.full(len(found.score), w), found.score, found.rows + begin))
    return RowSequences(*map(np.concatenate, zip(*parts))) if parts else RowSequences(np.zeros(0, np.int64), np.zeros(0), np.zeros((0, len(weights)), np.int64))


def best_of(parts: list[tuple[RowSequences, np.ndarray]], k: int, strata: int) -> tuple[RowSequences, np.ndarray]:
    """The ``k`` best of each window among the results of several searches of the same windows, each with the labels uint8 (strata)
    of its rows; and their labels uint8 (results, strata). Ties: the earliest vector of rows, each once and a prefix first; then the
    earliest sequence of rows with their labels."""
    window = np.concatenate([np.zeros(0, dtype=np.int64), *(part.window for part, _ in parts)])
    score = np.concatenate([np.zeros(0), *(part.score for part, _ in parts)])
    rows = np.concatenate([np.zeros((0, strata), dtype=np.int64), *(part.rows for part, _ in parts)])
    labels = np.concatenate([np.zeros((0, strata), dtype=np.uint8), *(np.tile(own, (len(part.score), 1)) for part, own in parts)])
    fresh = np.diff(rows, axis=1, prepend=-1) != 0
    vectors, place = np.full(rows.shape, -1), np.cumsum(fresh, axis=1) - 1
    at, stratum = np.nonzero(fresh)
    vectors[at, place[at, stratum]] = rows[at, stratum]
    pairs = [column for pair in zip(rows.T, (labels & 63).T) for column in pair]
    order = np.lexsort((*pairs[::-1], *vectors.T[::-1], -score, window))
    order = order[numbered(window[order]) < k]
    return RowSequences(window[order], score[order], rows[order]), labels[order]


def _strata(letters: np.ndarray, weights: np.ndarray) -> mk.Strata:
    rows, offsets, behind = [], [0], []
    for j in range(len(weights)):
        inside = (letters >> j & 1).astype(bool)
        own = np.flatnonzero(inside)
        behind.append(offsets[-1] + np.concatenate([[0], np.cumsum(inside)]))
        rows.append(own)
        offsets.append(offsets[-1] + len(own))
    return mk.Strata(np.concatenate(rows).astype(np.int64), np.array(offsets, dtype=np.int64), np.array(behind, dtype=np.int64), weights)


def _room(m: int, n: int, k: int, depth: int) -> mk.SearchRoom:
    whole, real = np.int64, np.float64
    return mk.SearchRoom(
        np.full((m, n + 1), np.nan), np.zeros(m, real), np.zeros(m, whole), np.zeros(max(m, n + 1), whole), np.zeros(depth, real),
        np.zeros(mk.TRIAL, real), np.zeros((m, mk.TRIAL + 1), whole), np.zeros(k, real), np.zeros((k, m), whole),
    )  # fmt: skip


def rising_leaves(tree: tuple, strata: int) -> np.ndarray:
    """int64 (strata): 1 where a larger weight makes the score larger, -1 where a smaller one does, 0 where it has none. Raises
    ValueError where it is not monotone."""
    return compiled(tree, strata).rising


def compiled(tree: tuple, strata: int) -> mk.Score:
    """The tree as a program. Raises ValueError where it is not monotone: a stratum that both raises and lowers it."""
    code: list[tuple[int, int]] = []
    literals: list[float] = []
    rising = np.zeros(strata, dtype=np.int64)

    def visit(node: tuple, direction: int) -> None:
        op = node[0]
        if op == "leaf":
            if rising[node[1]] == -direction:
                raise ValueError(f"not monotone in stratum {node[1]}")
            rising[node[1]] = direction
            code.append((mk.LEAF, node[1]))
        elif op == "lit":
            code.append((mk.LITERAL, len(literals)))
            literals.append(float(node[1]))
        else:
            for operand, turned in zip(node[1:], _directions(node)):
                visit(operand, direction * turned)
            code.append((OPERATIONS[op], 0))

    visit(tree, 1)
    return mk.Score(np.array(code, dtype=np.int64), np.array(literals, dtype=np.float64), rising)


def _directions(node: tuple) -> tuple[int, ...]:
    """Of each operand: -1 where the larger it is, the smaller is the value."""
    if node[0] in ("*", "/") and any(operand[0] == "lit" and operand[1] < 0 for operand in node[1:]):
        return tuple(-1 for _ in node[1:])
    if node[0] == "/" and node[2][0] != "lit":
        return 1, -1  # of what is above 0
    return _FALLING_OPERANDS.get(node[0], tuple(1 for _ in node[1:]))


def value(tree: tuple, weights: Sequence[float]) -> float:
    """The score of one weight for each stratum."""
    if tree[0] == "leaf":
        return weights[tree[1]]
    if tree[0] == "lit":
        return tree[1]
    return _APPLY[tree[0]](*(value(operand, weights) for operand in tree[1:]))


_APPLY: dict[str, Callable[..., float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "neg": operator.neg, "sqrt": math.sqrt, "least": min, "greatest": max,
}  # fmt: skip
