"""Changes of matches as output: what one change of the rows would take away and give again is left out.

A match stays the same where its first and last row, its registers, EMIT's values, its lifetime and all its measures do. Measures
are compared by the values that the engine gives for them.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkcep.engine.buffer import Chunk
from sparkcep.engine.computations import Computations
from sparkcep.engine.found import WIDTH, Found
from sparkcep.engine.lifetimes import Lifetimes
from sparkcep.search import codes
from sparkcep.search.computations import NEGATIVE_ZERO

OF_CHANGES = ("change", "change_number", "changed_by")


@dataclass(frozen=True)
class Candidate:
    """A match that comes (``insert``) or goes (``retract``) by the ``turn``-th change, of which the row ``cause`` is the cause (-1:
    the end of the input); its ``rows`` int64, its ``words`` as the kernel wrote them, and the ``labels`` of its rows."""

    turn: int
    change: str
    cause: int
    rows: np.ndarray
    words: np.ndarray
    labels: np.ndarray


def report(
    search: Computations, chunk: Chunk, alive: Lifetimes, part: int, candidates: list[Candidate], number: int
) -> Generator[pa.Table, None, int]:
    """Yields the output rows of the changes of a partition, of which ``number`` were told before, and returns how many are told by
    now."""
    left = _differing(search, chunk, alive, part, candidates)
    left.sort(key=lambda candidate: (candidate.turn, candidate.change == "insert"))
    if left:
        yield from search.tables.of(chunk, _found(search, chunk, alive, part, left, number))
    return number + len(left)


def _found(search: Computations, chunk: Chunk, alive: Lifetimes, part: int, some: list[Candidate], number: int = 0) -> Found:
    sizes = np.array([len(candidate.rows) for candidate in some])
    rows = np.concatenate([candidate.rows for candidate in some])
    begin = np.cumsum(sizes) - sizes
    events = np.zeros((len(some), WIDTH), dtype=np.int64)
    events[:, codes.E_PART], events[:, codes.E_START], events[:, codes.E_ROWS], events[:, codes.E_LABELS] = part, rows[begin], sizes, begin
    events[:, codes.E_NUMBER] = np.arange(number + 1, number + len(some) + 1)
    words = np.stack([candidate.words for candidate in some])
    by_event = search.by_event(rows[begin], rows[begin + sizes - 1], words, chunk, alive)
    by_event |= {"change": pa.array([candidate.change for candidate in some]), "change_number": pa.array(events[:, codes.E_NUMBER])}
    for leaf in search.task.plan.leaves:
        if leaf.spec.kind == "changed_by":
            cause = np.array([candidate.cause for candidate in some])
            by_event["changed_by"] = chunk.columns[leaf.spec.column].take(pa.array(cause, mask=cause < 0))
    return Found(events, np.concatenate([candidate.labels for candidate in some]), rows, by_event=by_event)


def _differing(search: Computations, chunk: Chunk, alive: Lifetimes, part: int, candidates: list[Candidate]) -> list[Candidate]:
    """Those that do not come and go by one change. Such a match has other rows than before, so that it is another where all its
    rows are given. Not so where rows are passed over: matches of one way have all in common."""
    if search.task.plan.rows != "one" and not search.by_ways:
        return list(candidates)
    floating = search.room.floating == 1
    gone: dict[tuple, int] = {}
    pairs: list[tuple[int, int]] = []
    for i, candidate in enumerate(candidates):
        words = np.where(floating & (candidate.words == NEGATIVE_ZERO), 0, candidate.words)
        key = (candidate.turn, int(candidate.rows[0]), int(candidate.rows[-1]), words.tobytes())
        if candidate.change == "retract":
            gone[key] = i
        elif key in gone:
            pairs.append((gone[key], i))
    if not pairs:
        return list(candidates)
    if search.by_ways:
        same = {i for pair in pairs for i in pair}
        return [candidate for i, candidate in enumerate(candidates) if i not in same]
    some = [candidates[i] for pair in pairs for i in pair]
    table = pa.concat_tables(search.tables.of(chunk, _found(search, chunk, alive, part, some)))
    equal = np.ones(len(pairs), dtype=bool)
    for leaf in search.task.plan.leaves:
        if leaf.spec.kind not in OF_CHANGES:
            numbers = _numbers(table.column(leaf.name))
            equal &= numbers[::2] == numbers[1::2]
    same = {i for pair, is_equal in zip(pairs, equal.tolist()) if is_equal for i in pair}
    return [candidate for i, candidate in enumerate(candidates) if i not in same]


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """int64: numbers that equal values have in common."""
    known: dict[object, int] = {}
    return np.array([known.setdefault(equal_key(value), len(known)) for value in column.to_pylist()], dtype=np.int64)


def equal_key(value: object) -> object:
    """Something by which values are equal as GROUP BY has them: NaN is NaN."""
    match value:
        case float():
            return "NaN" if value != value else value
        case list() | tuple():
            return tuple(map(equal_key, value))
        case dict():
            return tuple((name, equal_key(part)) for name, part in value.items())
    return value
