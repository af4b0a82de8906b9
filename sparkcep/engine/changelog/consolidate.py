"""Consolidates the output of a change: a retraction and an insertion of equal matches by one change of the rows cancel.

The changelog (:mod:`sparkcep.engine.changelog.changelog`) emits its output by :class:`Reports`. Matches are equal if their
first and last rows, registers, EMIT values, lifetimes and all measures are. Measures are compared by the values that the engine
returns for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import numbered
from sparkcep.engine.automaton.lifetimes import Lifetimes
from sparkcep.engine.automaton.register_runs import RegisterRuns
from sparkcep.engine.changelog.input_changes import changed_by
from sparkcep.engine.changelog.run_log import MatchChanges
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import WIDTH, MatchBatch
from sparkcep.engine.core.operator import Found
from sparkcep.engine.core.task import Task
from sparkcep.engine.output.columns_out import OF_CHANGES
from sparkcep.engine.output.match_id import equal_keys, match_ids
from sparkcep.engine.output.repeated_match_id import Ids, logged
from sparkcep.engine.output.tables import Tables
from sparkcep.kernels.automaton.register_runs import NEGATIVE_ZERO
from sparkcep.kernels.common import layout

_WORDS = np.array(["retract", "insert"], dtype=object)


class Reports:
    """Collects changes of matches, and emits those of several partitions together.

    ``numbers`` int64 (partitions) has the number of each partition's last emitted change, ``held`` the ids of existing matches.
    """

    def __init__(self, search: RegisterRuns, chunk: Chunk, alive: Lifetimes) -> None:
        self.search, self.chunk, self.alive = search, chunk, alive
        self.numbers, self.held = np.zeros(chunk.parts, dtype=np.int64), Ids()
        self._empty()

    def _empty(self) -> None:
        self.parts: list[int] = []
        self.changes: list[MatchChanges] = []
        self.count = self.rows = 0

    def add(self, part: int, changes: MatchChanges, counts: Counter[bytes]) -> None:
        """Adds changes of a partition.

        ``counts``: by match, how many computations give it. The changes update it. It is used if computations of equal matches may
        begin or end at different rows.
        """
        if self.search.runs.repeats and len(changes.turn):
            changes = changes.chosen(_first_and_last(self.search, changes, counts))
        if len(changes.turn):
            self.parts.append(part)
            self.changes.append(changes)
            self.count += len(changes.turn)
            self.rows += len(changes.rows)

    def emitted(self) -> Iterator[Found]:
        """Yields the collected changes as matches, by partition."""
        if not self.count:
            return
        search, chunk, alive, changes = self.search, self.chunk, self.alive, MatchChanges.together(self.changes)
        part = np.repeat(self.parts, [len(some.turn) for some in self.changes])
        self._empty()
        left = np.arange(len(part)) if search.runs.repeats else _differing(search, chunk, alive, part, changes)
        left = left[np.lexsort((changes.comes[left], changes.turn[left], part[left]))]
        if len(left):
            found = _found(search, chunk, alive, part[left], changes.chosen(left), self.numbers)
            np.add.at(self.numbers, part[left], 1)
            yield Found(chunk, logged(search.task, chunk, found, self.held))
            # A partition is emitted together with all before it, so only the last one goes on.
            self.held = {key: own for key, own in self.held.items() if key[0] == part[-1]}


def _found(search: RegisterRuns, chunk: Chunk, alive: Lifetimes, part: np.ndarray, some: MatchChanges, numbers: np.ndarray) -> MatchBatch:
    """Changes as matches. ``part``: the partition of each; ``numbers``: the number of each partition's last emitted change."""
    begin = np.cumsum(some.sizes) - some.sizes
    events = np.zeros((len(some.turn), WIDTH), dtype=np.int64)
    events[:, layout.E_PART], events[:, layout.E_START], events[:, layout.E_ROWS], events[:, layout.E_LABELS] = part, some.rows[begin], some.sizes, begin
    events[:, layout.E_NUMBER] = numbered(part) + 1 + numbers[part]
    by_event = search.output.by_event(some.rows[begin], some.rows[begin + some.sizes - 1], some.words, chunk, alive)
    by_event |= {"change": pa.array(_WORDS[some.comes.astype(np.int64)], pa.string()), "change_number": pa.array(events[:, layout.E_NUMBER])}
    by_event |= changed_by(search.task.plan, chunk, pa.array(some.cause, mask=some.cause < 0))
    if search.task.plan.punctuates:
        by_event["punctuation"] = pa.nulls(len(events), chunk.columns[search.task.plan.changes.time].type)
    found = MatchBatch(events, some.labels, some.rows, by_event=by_event)
    return replace(found, by_event=by_event | match_ids(search.task.plan, chunk, found))


def punctuation(task: Task, chunk: Chunk, part: int, anchor: int, said: int, cause: int, number: int) -> Found:
    """An output row that is a punctuation and no match.

    Args:
        anchor: a row of the partition, whose keys the output row has.
        said: the row with the time of the punctuation.
        cause: the row that brings it.
        number: the number of the change.
    """
    event = np.zeros((1, WIDTH), dtype=np.int64)
    event[0, layout.E_PART], event[0, layout.E_START], event[0, layout.E_ROWS], event[0, layout.E_NUMBER] = part, anchor, 1, number
    by_event = {"change": pa.array(["punctuate"]), "change_number": pa.array([number]), "punctuation": chunk.columns[task.plan.changes.time].take(pa.array([said]))}
    by_event |= changed_by(task.plan, chunk, pa.array([cause]))
    return Found(chunk, MatchBatch(event, np.zeros(1, dtype=np.uint8), np.array([anchor]), by_event=by_event))


def _differing(search: RegisterRuns, chunk: Chunk, alive: Lifetimes, part: np.ndarray, changes: MatchChanges) -> np.ndarray:
    """The changes without pairs that cancel. int64.

    With ALL ROWS PER MATCH no pair cancels: the match has other rows than before, so its output differs. If rows may be skipped,
    two matches with equal paths are equal in all respects, so their measures are not compared. ``part``: the partition of each.
    """
    count = len(changes.turn)
    if search.task.plan.rows != "one" and not search.runs.by_ways:
        return np.arange(count)
    ends = np.cumsum(changes.sizes)
    keys = np.column_stack([changes.turn, changes.rows[ends - changes.sizes], changes.rows[ends - 1], _grouped(search, changes)])
    gone: dict[bytes, int] = {}
    pairs: list[tuple[int, int]] = []
    for i, (key, comes) in enumerate(zip(map(bytes, keys), changes.comes.tolist(), strict=True)):
        if not comes:
            gone[key] = i
        elif key in gone:
            pairs.append((gone[key], i))
    if not pairs:
        return np.arange(count)
    some = np.array(pairs).ravel()
    equal = np.ones(len(pairs), dtype=bool)
    if not search.runs.by_ways:
        unseen = Tables(replace(search.task))  # a copy of the task, since these rows are not emitted
        table = pa.concat_tables(unseen.of(chunk, _found(search, chunk, alive, part[some], changes.chosen(some), np.zeros(chunk.parts, dtype=np.int64))))
        for leaf in search.task.plan.leaves:
            if leaf.spec.kind not in OF_CHANGES:
                numbers = _numbers(table.column(leaf.name))
                equal &= numbers[::2] == numbers[1::2]
    return np.setdiff1d(np.arange(count), some[np.repeat(equal, 2)])


def _grouped(search: RegisterRuns, changes: MatchChanges) -> np.ndarray:
    """The words of the matches as GROUP BY distinguishes values: -0.0 becomes 0.0."""
    return np.where((search.runs.room.floating == 1) & (changes.words == NEGATIVE_ZERO), 0, changes.words)


def _first_and_last(search: RegisterRuns, changes: MatchChanges, counts: Counter[bytes]) -> np.ndarray:
    """The insertions of matches that no computation gave before, and the retractions of those that none gives any more. int64.

    What changes give a match and take it away in one turn does not count. A path is part of a match's words, so these identify it.
    """
    keys = [key.tobytes() for key in _grouped(search, changes)]
    left: list[int] = []
    ends = np.append(np.flatnonzero(np.diff(changes.turn)) + 1, len(keys)).tolist()
    for low, high in zip([0, *ends], ends):
        before: dict[bytes, int] = {}
        noted: dict[tuple[bytes, bool], int] = {}
        for i, comes in enumerate(changes.comes[low:high].tolist(), low):
            before.setdefault(keys[i], counts[keys[i]])
            noted.setdefault((keys[i], comes), i)
            counts[keys[i]] += 1 if comes else -1
        for key, count in before.items():
            if (count > 0) != (counts[key] > 0):
                left.append(noted[key, count == 0])
            if not counts[key]:
                del counts[key]
    return np.array(sorted(left), dtype=np.int64)


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """A number for each value, which equal values share. int64."""
    known: dict[object, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in equal_keys(column)], dtype=np.int64)
