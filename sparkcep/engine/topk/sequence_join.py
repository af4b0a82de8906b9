"""The k best matches of many groups, joined from the best matches of each named sequence (CPR, section 3.4).

:mod:`sparkcep.engine.topk.topk_sequences` reads the matches of the sequences. The join of all groups is one call of
:mod:`sparkcep.kernels.topk.sequence_join`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.columns.arrays import ranges
from sparkcep.engine.output.score_program import program_of
from sparkcep.kernels.topk import sequence_join as mk

MOST_PAIRS, MOST_TESTED = 1 << 22, 1 << 26  # Combinations of a group that may be kept, and tested.
FIRST_ROOM = 1 << 10  # Combinations for which there is room at first.
OPERATIONS = {"=": mk.EQUAL, "<=": mk.AT_MOST, ">=": mk.AT_LEAST}


class NotJoinedError(Exception):
    """The matches that were read do not determine the best."""


class SequenceItems(NamedTuple):
    """The best matches of a sequence in some groups.

    Attributes:
        low, high: the items of each group, from ``low`` to before ``high``, best first. int64 (groups).
        complete: whether these are all matches of the group. bool (groups).
        value: the item's leaf in the tree of the score. float64 (items).
        offsets: item i has the rows from ``offsets[i]`` to before ``offsets[i + 1]``.
        rows, labels: the rows and labels of all items.
        own, other: the value that each item has for each test; any value for a test of other sequences. int64 (tests, items).
    """

    low: np.ndarray
    high: np.ndarray
    complete: np.ndarray
    value: np.ndarray
    offsets: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    own: np.ndarray
    other: np.ndarray


class JoinedMatches(NamedTuple):
    """The best matches of groups, best first in each group.

    Attributes:
        group: the group of each match. int64 (matches).
        size: how many rows and labels it has.
        rows, labels: the rows and labels of all matches.
    """

    group: np.ndarray
    size: np.ndarray
    rows: np.ndarray
    labels: np.ndarray

    @staticmethod
    def in_order(parts: list[JoinedMatches]) -> JoinedMatches:
        """Returns the matches of all parts, whose groups differ, by ascending group."""
        group, size, rows, labels = (np.concatenate(some) for some in zip(*parts))
        order = np.argsort(group, kind="stable")
        at = ranges((np.cumsum(size) - size)[order], size[order])
        return JoinedMatches(group[order], size[order], rows[at], labels[at])


class JoinResult(NamedTuple):
    """The answer of a join.

    Attributes:
        found: the best matches of groups that need no more items.
        worst: the k-th best score found so far. float64 (groups).
        unread: bit i is set if a group needs more items of sequence i. int64 (groups).
    """

    found: JoinedMatches
    worst: np.ndarray
    unread: np.ndarray


class SequenceJoin:
    """Joins matches of sequences that come in order and agree, by a monotone score.

    Args:
        tree: the score over the values of the sequences.
        top: how many matches.
        before: (first, second) for each pair of sequences if the first must end before the second begins.
        tests: (sequence with the own value, sequence with the other value, operation) of each test.
        any_own: the own value of an item without a row that has the condition.
        ends: the row before which a match must end that begins with a row. int64 (rows), None without such a window.
        written: the sequences in the order of PATTERN.
    """

    def __init__(
        self,
        tree: tuple,
        top: int,
        before: tuple[tuple[int, int], ...],
        tests: list[tuple[int, int, str]],
        any_own: int,
        ends: np.ndarray | None,
        written: tuple[int, ...],
    ) -> None:
        self.top, self.sequences = top, len(written)
        compared = [(own, other, OPERATIONS[operation], max(own, other)) for own, other, operation in tests]
        self.join = mk.Join(
            *program_of(tree), _integers(before, 2), _integers(compared, 4), any_own, np.zeros(0, dtype=np.int64) if ends is None else ends.astype(np.int64),
            np.array(written, dtype=np.int64),
        )  # fmt: skip

    def of(self, read: list[SequenceItems], worst: np.ndarray) -> JoinResult:
        """Returns the best matches of groups.

        Args:
            read: the items of each sequence.
            worst: the k-th best score of each group that was found with fewer items. float64 (groups).

        Raises:
            NotJoinedError: too many combinations are possible, or only labels distinguish some of the best.
        """
        items, state, held = _together(read), np.zeros(mk.STATE, dtype=np.int64), max(FIRST_ROOM, 2 * self.top)
        room, out = self._room(held), _out(min(self.top, 4) * len(worst), worst.copy(), np.zeros(len(worst), dtype=np.int64))
        while (code := mk.join_groups(items, self.join, room, MOST_TESTED, state, out)) != mk.DONE:
            if code == mk.ROOM and held <= MOST_PAIRS:
                held *= 4
                room = self._room(held)
            elif code == mk.OUT:
                out = _larger(out)
            else:
                raise NotJoinedError
        matches, events = int(state[mk.S_MATCHES]), int(state[mk.S_EVENTS])
        return JoinResult(JoinedMatches(out.group[:matches], out.size[:matches], out.rows[:events], out.labels[:events]), out.worst, out.unread)

    def _room(self, held: int) -> mk.JoinRoom:
        whole, m = np.int64, self.sequences
        return mk.JoinRoom(
            np.zeros(m, whole), np.zeros(m, whole), np.zeros(m), np.zeros(len(self.join.code)), np.zeros(self.top), np.empty((held, m), whole), np.empty(held),
            np.empty(held, whole), np.empty(held, whole), np.zeros((2, m), whole),
        )  # fmt: skip


def _together(read: list[SequenceItems]) -> mk.Items:
    """Returns the items of all sequences as the kernel takes them."""
    base, start = (np.cumsum([0, *map(len, some)])[:-1] for some in ([items.value for items in read], [items.rows for items in read]))
    rows, labels, value = (np.concatenate([getattr(items, name) for items in read]) for name in ("rows", "labels", "value"))
    low, high = (np.stack([getattr(items, name) + at for items, at in zip(read, base)], axis=1) for name in ("low", "high"))
    complete = np.stack([items.complete for items in read], axis=1).astype(np.uint8)
    offsets = np.append(np.concatenate([items.offsets[:-1] + at for items, at in zip(read, start)]), len(rows))
    own, other = (np.concatenate([getattr(items, name) for items in read], axis=1) for name in ("own", "other"))
    return mk.Items(low, high, complete, value, rows[offsets[:-1]], rows[offsets[1:] - 1], offsets, rows, labels, own, other)


def _out(matches: int, worst: np.ndarray, unread: np.ndarray) -> mk.JoinOut:
    """Returns an empty output for some matches."""
    whole = np.int64
    return mk.JoinOut(np.empty(matches, whole), np.empty(matches, whole), np.empty(8 * matches, whole), np.empty(8 * matches, whole), worst, unread)


def _larger(out: mk.JoinOut) -> mk.JoinOut:
    """Returns an output with twice the room."""
    larger = _out(2 * len(out.group) + 1, out.worst, out.unread)
    for new, old in zip(larger[:4], out[:4]):
        new[: len(old)] = old
    return larger


def _integers(some: object, width: int) -> np.ndarray:
    return np.array(some, dtype=np.int64).reshape(-1, width)
