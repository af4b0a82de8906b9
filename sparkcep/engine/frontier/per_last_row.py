"""MATCH_COUNT() and MATCH_GRAPH(): one output row for each last row of a match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkcep.compiler.searches import FRONT, GRAPH, NUMBERS
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch, last_rows
from sparkcep.engine.core.operator import Found
from sparkcep.engine.core.task import Task
from sparkcep.engine.frontier.frontier import CountedMatches, Ended, Frontier, GraphedMatches
from sparkcep.engine.frontier.match_counts import MatchCounts
from sparkcep.engine.match.enumeration import Listing, listed
from sparkcep.engine.output.columns_out import decimals, match_graphs
from sparkcep.errors import MatchRuntimeError
from sparkcep.kernels.common.layout import E_LABELS, E_ROWS


@dataclass(frozen=True)
class Ending:
    """The answers for last rows of matches.

    Attributes:
        rows: the last rows. int64 (n).
        numbers: how many matches end at each.
        graphs: the values of MATCH_GRAPH().
    """

    rows: np.ndarray
    numbers: list[int] | None
    graphs: pa.Array | None = None


class PerLastRow:
    """Makes the output for whole partitions.

    ``listing`` builds the search that lists matches. It is used if no other search can count them.
    """

    def __init__(self, task: Task, listing: Listing) -> None:
        self.task, self.listing = task, listing
        strategy = task.prepared.strategy
        self.drawing = strategy.question == GRAPH
        self.numbers = MatchCounts(task) if strategy.search == NUMBERS else None
        self.front = Frontier(task) if strategy.search == FRONT else None

    def answer(self, chunk: Chunk) -> Iterator[Found]:
        for ending in self._endings(chunk):
            if len(ending.rows):
                by_event = {}
                if ending.numbers is not None:
                    by_event["cnt"] = decimals(ending.numbers, np.ones(len(ending.rows), dtype=np.int64), 38, 0)
                if ending.graphs is not None:
                    by_event["graph"] = ending.graphs
                yield Found(chunk, last_rows(ending.rows, chunk, by_event))

    def _endings(self, chunk: Chunk) -> Iterator[Ending]:
        if self.numbers is not None:
            yield Ending(*self.numbers.of(chunk))
        elif self.front is not None and self.drawing:
            for rows, numbers, until, items in GraphedMatches(self.front, chunk).rounds():
                yield Ending(rows, numbers, match_graphs(until, _in_partition(items, until, rows, chunk), self.task.plan.variables))
        elif self.front is not None:
            yield Ending(*counted(self.front, self.listing, chunk))
        else:
            yield self._traced(chunk) if self.drawing else Ending(*tallied(listed(self.listing(), chunk), chunk))

    def _traced(self, chunk: Chunk) -> Ending:
        """Returns the graphs of listed matches: for each last row a trie of the matches, read backwards from that row."""
        tries: dict[int, _Trie] = {}
        for found in listed(self.listing(), chunk):
            for part, rows, labels in found.each():
                low = int(chunk.offsets[part])
                tries.setdefault(rows[-1], _Trie()).add([row - low for row in rows], [label & 63 for label in labels])
        ending = sorted(tries)
        items = [tries[row].items() for row in ending]
        until = np.cumsum([0, *map(len, items)])
        flat = np.array([item for some in items for item in some], dtype=np.int64).reshape(-1, 5)
        numbers = [tries[row].matches for row in ending]
        last = np.array(ending, dtype=np.int64)
        return Ending(last, numbers, match_graphs(until, _in_partition(flat, until, last, chunk), self.task.plan.variables))


def _in_partition(items: np.ndarray, until: np.ndarray, rows: np.ndarray, chunk: Chunk) -> np.ndarray:
    """Returns the nodes of the graphs of ``rows`` with positions in the partition.

    The chunk may lack the partition's first rows.
    """
    gone = chunk.positions[rows] - (rows - chunk.offsets[chunk.partition_of(rows)])
    moved = items[: until[-1]].copy()
    moved[:, 0] += np.repeat(gone, np.diff(until))
    return moved


def counted(front: Frontier, listing: Listing, chunk: Chunk) -> tuple[np.ndarray, list[int]]:
    """Returns last rows, and how many matches end at each.

    If the classes need more memory than allowed, the matches are listed instead.
    """
    try:
        found: list[Ended] = list(CountedMatches(front, chunk).rounds())
    except MatchRuntimeError as error:
        if error.error_class != "SPARKCEP.STATE_LIMIT":
            raise
        return tallied((some.matches() for some in listed(listing(), chunk)), chunk)
    return np.concatenate([np.zeros(0, dtype=np.int64), *(rows for rows, *_ in found)]), [n for _, numbers, *_ in found for n in numbers or ()]


def tallied(some: Iterable[MatchBatch], chunk: Chunk) -> tuple[np.ndarray, list[int]]:
    """Returns the last rows of listed matches, and how many end at each."""
    counts = np.zeros(chunk.rows, dtype=np.int64)
    for found in some:
        np.add.at(counts, found.rows[found.events[:, E_LABELS] + found.events[:, E_ROWS] - 1], 1)
    ending = np.flatnonzero(counts)
    return ending, counts[ending].tolist()


class _Trie:
    """The matches that end at one row, read backwards. A match's first row is always a leaf of its own.

    Example: the matches A(0) B(2) and A(0) A(1) B(2) end at row 2. The root has the node (2, B). Below it are the leaf (0, A) of
    the first match, and the node (1, A) with the leaf (0, A) of the second one. ``items`` are (2, B, 1, 3, 1), (0, A, -1, -1, 0),
    (1, A, 3, 4, 0) and (0, A, -1, -1, 0).
    """

    def __init__(self) -> None:
        self.root: dict[tuple[int, int, bool], dict] = {}
        self.matches = 0

    def add(self, rows: list[int], labels: list[int]) -> None:
        self.matches += 1
        at = self.root
        for i in range(len(rows) - 1, -1, -1):
            at = at.setdefault((rows[i], labels[i], i == 0), {})

    def items(self) -> list[tuple[int, int, int, int, int]]:
        """Returns the nodes breadth first, so that the children of a node are neighbours. They are sorted by row and variable.

        A node is (row, label, first child, after the last child, whether a match is complete there). A leaf has -1 for its
        children.
        """
        found: list[tuple[int, int, int, int, int]] = []
        level = sorted(self.root.items(), key=_place)
        complete = 1
        while level:
            below: list[tuple[tuple[int, int, bool], dict]] = []
            begin = len(found) + len(level)
            for (row, label, is_first), children in level:
                at = begin + len(below)
                below += sorted(children.items(), key=_place)
                found.append((row, label, *((-1, -1) if is_first else (at, at + len(children))), complete))
            level, complete = below, 0
        return found


def _place(item: tuple[tuple[int, int, bool], dict]) -> tuple[int, int, bool]:
    return item[0]
