"""Prepares the score bounds of a walk that lists matches for TOP k, so that the walk abandons runs that cannot be among the best.

The kernels are in :mod:`sparkcep.kernels.topk.score_bounds`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.columns.arrays import equal_codes, null_marks, words
from sparkcep.columns.types import type_of
from sparkcep.compiler.net.net import rows_of_match
from sparkcep.compiler.net.row_equalities import comparisons_of
from sparkcep.compiler.strategy import MAX_RANKED, knows_scores
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import WINDOW_BYTES, slides
from sparkcep.engine.match.scores import Scores
from sparkcep.engine.output.score_program import program_of
from sparkcep.errors import TooMuchStateError
from sparkcep.kernels.match import walk as walking
from sparkcep.kernels.topk import score_bounds as searching
from sparkcep.plan.facts import occurrences

MAX_REACH_BYTES = 1 << 28  # most bytes of a table: by how much sums may grow
MAX_HELD = 1 << 20  # most scores in all windows that hold one row
_ORDERS = {"<=": searching.AT_MOST, ">=": searching.AT_LEAST}


class _Slots(NamedTuple):
    """The windows that hold each row.

    Attributes:
        first: the first window. int64 (rows).
        until: the window after the last one. int64 (rows).
        most: the most windows of a row.
    """

    first: np.ndarray
    until: np.ndarray
    most: int


def bounded(task: Task) -> bool:
    """Returns whether the plan allows to omit listed matches that cannot be among the best."""
    ranking = task.plan.ranking
    return ranking is not None and 0 < ranking.top <= MAX_RANKED and knows_scores(task.prepared.strategy)


def floors_of(
    task: Task, chunk: Chunk, scores: Scores | None, net: walking.NetArrays, letters: np.ndarray, strategy: int, longest: int, depth: int, whole: bool
) -> searching.Floors | None:
    """Returns the score bounds for the kernel.

    Returns None if ``scores`` are not known to the bit, or if tables would be too large.

    Args:
        task, chunk: the task and its chunk.
        scores: the scores of matches, if the engine can compute them.
        net, letters: the automaton, and the variables that each row may be.
        strategy: the event selection.
        longest: the most rows that a match spans.
        depth: the most frames of the walk.
        whole: whether the chunk's partitions have lost no rows.
    """
    automaton, ranking = task.prepared.strategy.automaton, task.plan.ranking
    assert ranking is not None
    summed = None if scores is None else scores.summed(chunk, letters, rows_of_match(automaton) or longest * automaton.sides)
    slots = _slots(task, chunk, whole)
    if summed is None or slots is None or slots.most * ranking.top > MAX_HELD:
        return None
    shape = len(summed.weights), len(net.masks), chunk.rows
    if 2 * 8 * shape[0] * shape[1] * shape[2] > MAX_REACH_BYTES:
        return None
    low, high = np.empty(shape), np.empty(shape)
    searching.fill_reach(net.first, net.edges, net.accepts, letters, chunk.offsets, summed.weights, strategy, automaton.sides, max(longest, 1), low, high)
    code, literals = program_of(summed.tree)
    tests, own, other = _tests(task, chunk, letters)
    return searching.Floors(
        code=code, literals=literals, weights=summed.weights, low=low, high=high, slack=summed.slack, first=slots.first, until=slots.until,
        sizes=np.zeros(slots.most, dtype=np.int64), scores=np.zeros((slots.most, ranking.top)), begins=np.zeros((slots.most, ranking.top), dtype=np.int64),
        ordered=_ordered(net, automaton.sides), tests=tests, own=own, other=other, sums=np.zeros((depth + 1, len(summed.weights))), stack=np.zeros((len(code), 2)), noted=np.zeros(2, dtype=np.int64),
    )  # fmt: skip


def _tests(task: Task, chunk: Chunk, letters: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the comparisons across ``&`` as the kernel has them: of integers, or for equality.

    A condition that looks at the finished match can then be tested as soon as both rows are taken.
    """
    plan, far, found = task.plan, task.prepared.strategy.automaton.far, []
    counts, columns = occurrences(plan.pattern), chunk.columns
    for compared in (comparisons_of(plan) or ()) if far is not None else ():
        v, u = compared.variable, compared.mask.bit_length() - 1
        if compared.mask.bit_count() != 1 or not far[v] & compared.mask or counts.get(u) != (1, 1):
            continue
        if compared.operation == "=":
            codes = equal_codes([[columns[compared.own]], [columns[compared.other]]])
            if codes is not None:
                found.append(((v, u, searching.EQUAL), *codes[:, : chunk.rows]))
            continue
        some = [columns[compared.own], columns[compared.other]]
        nulls = [null_marks(column)[: chunk.rows].astype(bool) & (letters >> w & 1).astype(bool) for column, w in zip(some, (v, u))]
        if all(type_of(column.type).is_integer for column in some) and not any(null.any() for null in nulls):
            found.append(((v, u, _ORDERS[compared.operation]), *(words(column)[: chunk.rows].astype(np.int64) for column in some)))
    tests = np.array([test for test, _, _ in found], dtype=np.int64).reshape(-1, 3)
    return tests, *(np.array([values[i] for _, *values in found], dtype=np.int64).reshape(len(found), chunk.rows) for i in range(2))


def _slots(task: Task, chunk: Chunk, whole: bool) -> _Slots | None:
    """Returns the windows that have best matches of their own: partitions, or sliding windows that are asked for.

    Returns None if there are too many windows, or if the rows of the chunk do not determine them.
    """
    plan = task.plan
    if not plan.slide:
        part = np.repeat(np.arange(chunk.parts), np.diff(chunk.offsets))
        return _Slots(part, part + 1, 1)
    if not whole:
        return None
    window = plan.windows[0]
    try:
        found = slides(window, plan.slide, chunk, task.limits.max_state_bytes // WINDOW_BYTES)
    except TooMuchStateError:
        return None
    rows = np.arange(chunk.rows)
    first, until = np.searchsorted(found.until, rows, side="right"), np.searchsorted(found.first, rows, side="right")
    return _Slots(first, until, max(int((until - first).max(initial=0)), 1))


def _ordered(net: walking.NetArrays, sides: int) -> bool:
    """Returns whether the walk finds matches in the order of their row vectors: each node then has one way on."""
    return sides == 1 and bool((np.diff(net.first) <= 1).all())
