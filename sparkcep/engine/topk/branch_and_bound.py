"""The k best sequences of single rows by a monotone score, without going through all matches.

These are the nonlinear preferences of CPR (sections 3.2 to 3.4). The method is branch and bound, see
:mod:`sparkcep.kernels.topk.branch_and_bound`. A score is a tree over one weight for each stratum, see
:mod:`sparkcep.engine.output.score_program`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sparkcep.columns.arrays import numbered
from sparkcep.engine.output.score_program import program_of
from sparkcep.errors import TooManyStepsError, TooMuchStateError
from sparkcep.kernels.topk import branch_and_bound as mk
from sparkcep.plan.json import wrong

_FALLING_OPERANDS = {"-": (1, -1), "neg": (-1,)}


@dataclass(frozen=True)
class RowSequences:
    """Results by window, best first.

    Attributes:
        window: the window of each result. int64 (results).
        score: its score. float64 (results).
        rows: its rows. int64 (results, strata).
    """

    window: np.ndarray
    score: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class Inside:
    """Conditions on the rows of a sequence in addition to their order, see :class:`sparkcep.kernels.topk.branch_and_bound.Order`.

    Attributes:
        same: by stratum, see there.
        groups: (window, first stratum, last stratum) for each group with a window.
        windows: the end of the window that begins with each row. int64 (windows, rows).
    """

    same: tuple[bool, ...]
    groups: tuple[tuple[int, int, int], ...]
    windows: np.ndarray

    def part(self, rows: slice) -> Inside:
        """Returns the conditions for some of the rows, if each sequence lies inside these rows."""
        windows = self.windows[:, rows]
        return Inside(self.same, self.groups, np.clip(windows - rows.start, 0, windows.shape[1]))

    def order(self) -> mk.Order:
        """Returns the conditions as the kernel takes them."""
        return mk.Order(np.array(self.same, dtype=np.uint8), np.array(self.groups, dtype=np.int64).reshape(-1, 3), np.ascontiguousarray(self.windows))

    @staticmethod
    def free(strata: int) -> Inside:
        """Returns conditions that are always true."""
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
    """Finds the ``k`` best sequences of each window. A sequence has one row of each stratum, in the order of strata and rows.

    Ties go to the lexicographically earliest rows.

    Args:
        tree: the score.
        letters: bit j is set if the row belongs to stratum j. int64 (rows).
        weights: the weight of each row, finite if the row belongs to the stratum. float64 (strata, rows).
        k: how many sequences.
        low, high: the first row of each window, and the row after its last one, both ascending. int64 (windows). Without them all
            rows are one window.
        ends: for each first row, the row before which its sequences must end. int64 (rows), ascending.
        inside: further conditions.
        max_steps: the limit on the steps of one window's search.
        max_bytes: the limit on the bytes of its results.

    Raises:
        TooManyStepsError: with the number of the window.
        TooMuchStateError: the results need too many bytes.
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
    k = max(1, min(k, math.prod(np.diff(strata.offsets).tolist())))  # there are not more sequences
    if k * (m + 1) * 16 > max_bytes:
        raise TooMuchStateError
    score = mk.Score(*program_of(tree), rising_leaves(tree, m))
    # rows of each stratum that would give k results if their order were random
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
    """Finds the best sequences of each window separately."""
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
    """Returns the ``k`` best of each window among the results of several searches of the same windows, with their labels.

    Ties go to the earliest row vector (each row once, a prefix first), then to the earliest sequence of rows with their labels.

    Args:
        parts: the results of each search, with the labels of its strata. uint8 (strata).
        k: how many results.
        strata: the number of strata.

    Returns:
        The results, and their labels. uint8 (results, strata).
    """
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
    """Returns the direction of each stratum. int64 (strata). Raises ClauseError if the score is not monotone.

    It is 1 if a larger weight makes the score larger, -1 if smaller, and 0 if the score does not depend on the stratum.
    """
    rising = np.zeros(strata, dtype=np.int64)

    def visit(node: tuple, direction: int) -> None:
        if node[0] == "leaf":
            if rising[node[1]] == -direction:
                raise wrong("its score rises and falls with one number")
            rising[node[1]] = direction
        elif node[0] != "lit":
            for operand, turned in zip(node[1:], _directions(node)):
                visit(operand, direction * turned)

    visit(tree, 1)
    return rising


def _directions(node: tuple) -> tuple[int, ...]:
    """Returns for each operand 1, or -1 if a larger operand makes the value smaller."""
    if node[0] in ("*", "/") and any(operand[0] == "lit" and operand[1] < 0 for operand in node[1:]):
        return tuple(-1 for _ in node[1:])
    if node[0] == "/" and node[2][0] != "lit":
        return 1, -1  # for positive operands
    return _FALLING_OPERANDS.get(node[0], tuple(1 for _ in node[1:]))
