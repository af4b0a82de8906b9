"""Run log of a partition: the live rows, with the records of the runs after each row and the matches that end there (AFA paper,
section 5.1).

The changelog (:mod:`sparkcep.engine.changelog.changelog`) owns it. The kernel :mod:`sparkcep.kernels.automaton.run_log` reads and
writes its arrays. Records are appended to the used part of an array. If the array is full, the lists are rewritten without the gaps
that replaced records left.

Example: ``kept`` has three used records. Row 0 has records 0 and 1 (``place`` 0, ``count`` 2), and row 1 has record 2. If row 0
gets other records, they are written from 3 on, and ``place`` of row 0 is 3. Records 0 and 1 are a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import numpy as np

from sparkcep.columns.arrays import ranges
from sparkcep.engine.automaton.register_arrays import RECORDS, RegisterLoop, numbered_paths
from sparkcep.engine.automaton.register_output import RegisterOutput
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.kernel_loop import doubled, with_doubled
from sparkcep.kernels.automaton import register_runs as c
from sparkcep.kernels.automaton import run_log as kernels
from sparkcep.kernels.common import layout

KEPT = 1024  # initial size, in records
CHANGES = 1024  # initial size, in changes of matches, and of their rows
_DOUBLED = {kernels.KEPT: "kept", kernels.CHANGES: "changes", kernels.CHANGE_ROWS: "change_rows"}  # what is full -> its array


@dataclass(frozen=True)
class MatchChanges:
    """Changes of matches, in order of their notes.

    Attributes:
        turn: int64 (changes), the number of the change of the rows.
        comes: bool (changes), whether the match is inserted; else it is retracted.
        cause: int64 (changes), the row that causes the change, -1 for the end of the input.
        sizes: int64 (changes), how many rows the match has.
        words: int64 (changes, width), the match as the kernel wrote it.
        rows, labels: int64 and uint8, the rows of all matches and their labels, one match after the other.
    """

    turn: np.ndarray
    comes: np.ndarray
    cause: np.ndarray
    sizes: np.ndarray
    words: np.ndarray
    rows: np.ndarray
    labels: np.ndarray

    @staticmethod
    def together(parts: list[MatchChanges]) -> MatchChanges:
        """The changes of all parts, one part after the other."""
        return MatchChanges(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(MatchChanges)))

    def chosen(self, which: np.ndarray) -> MatchChanges:
        """The changes with these numbers."""
        at = ranges((np.cumsum(self.sizes) - self.sizes)[which], self.sizes[which])
        return MatchChanges(self.turn[which], self.comes[which], self.cause[which], self.sizes[which], self.words[which], self.rows[at], self.labels[at])


class RunLog(RegisterLoop):
    """The log of the current partition, and the loop around the kernels that change it.

    Args:
        output: describes the matches.
        chunk: the rows.
        numbers, unnumbered: the numbers of CONSECUTIVE BY, see :class:`kernels.LogArrays`.

    Attributes:
        arrays: the arrays of the log.
        cleaned: how many of the first live rows have lost their records.
    """

    def __init__(self, output: RegisterOutput, chunk: Chunk, numbers: np.ndarray, unnumbered: np.ndarray) -> None:
        super().__init__(output.runs, chunk)
        self.output, rows = output, chunk.rows
        room = self.runs.room
        matches = len(room.events)
        self.arrays = kernels.LogArrays(
            live=np.zeros(rows, dtype=np.int64), place=np.zeros(rows, dtype=np.int64), count=np.zeros(rows, dtype=np.int64),
            kept=np.zeros((KEPT, room.made.shape[0]), dtype=np.int64), crossed=np.full(rows, kernels.UNCROSSED), head=np.full(rows, -1),
            next=np.zeros(matches, dtype=np.int64), stands=np.zeros(matches, dtype=np.uint8), changes=np.zeros((CHANGES, kernels.T_WIDTH), dtype=np.int64),
            change_rows=np.zeros(CHANGES, dtype=np.int64), numbers=numbers, unnumbered=unnumbered,
        )  # fmt: skip
        self.cleaned = 0  # how many of the first live rows have lost their records

    def begin(self) -> None:
        """Starts a partition, with an empty log."""
        self.state[kernels.S_AT : kernels.CHANGES_STATE_SIZE] = 0
        self.state[kernels.S_OF] = -1
        self.state[c.S_COUNT] = self.state[c.S_EVENTS] = self.state[c.S_LABELS] = self.state[c.S_WAYS] = self.state[c.S_NUMBER] = 0
        self.cleaned = 0
        if self.state[c.S_KNOWN_WAYS]:  # the paths of the last partition
            self.state[c.S_KNOWN_WAYS] = 0
            self.replace(**numbered_paths(RECORDS))

    @property
    def live(self) -> np.ndarray:
        """The live rows in order. int64."""
        return self.arrays.live[: self.state[kernels.S_LIVE]]

    # -- records ------------------------------------------------------------------------------------------------------

    def records(self, row: int) -> np.ndarray:
        """The records after a row, none after row -1. int64 (n, width)."""
        begin, count = (int(self.arrays.place[row]), int(self.arrays.count[row])) if row >= 0 else (0, 0)
        return self.arrays.kept[begin : begin + count]

    def keep(self, row: int, records: np.ndarray) -> None:
        """Replaces the records after a row. There may be no more than before."""
        arrays = self.arrays
        begin, count = int(arrays.place[row]), int(arrays.count[row])
        assert len(records) <= count
        arrays.kept[begin : begin + len(records)] = records
        arrays.count[row] = len(records)
        self.state[kernels.S_RECORDS] += len(records) - count
        self.state[kernels.S_OF] = -1

    def move(self, row: int, begin: int, count: int) -> None:
        """Attaches the records that the kernel wrote from ``begin`` on to a row."""
        state = self.state
        state[kernels.S_RECORDS] += count - int(self.arrays.count[row])
        state[kernels.S_MOST] = max(state[kernels.S_MOST], state[kernels.S_RECORDS])
        state[kernels.S_OF] = -1
        self.arrays.place[row], self.arrays.count[row] = begin, count

    def clean(self, until: int) -> None:
        """Drops the records and matches of the first ``until`` live rows."""
        rows = self.live[self.cleaned : until]
        self.state[kernels.S_RECORDS] -= int(self.arrays.count[rows].sum())
        self.arrays.count[rows] = 0
        for row in rows[self.arrays.head[rows] >= 0].tolist():
            self.put(row, [])
        self.cleaned = until

    # -- matches ------------------------------------------------------------------------------------------------------

    def matches(self, row: int) -> list[int]:
        """The matches that end at a row."""
        found, match = [], int(self.arrays.head[row])
        while match >= 0:
            found.append(match)
            match = int(self.arrays.next[match])
        return found

    def put(self, row: int, matches: list[int]) -> None:
        """Replaces the matches that end at a row."""
        arrays = self.arrays
        arrays.stands[self.matches(row)] = 0
        arrays.head[row] = matches[0] if matches else -1
        for match, next in zip(matches, [*matches[1:], -1]):
            arrays.next[match], arrays.stands[match] = next, 1

    def note(self, matches: list[int], comes: bool, cause: int) -> None:
        """Notes that matches are inserted or retracted, with their rows as they are now."""
        state, room = self.state, self.runs.room
        state[c.S_NUMBER] += len(matches) if comes else -len(matches)
        for match in matches:
            rows = np.zeros(0, dtype=np.int64)
            if not self.runs.by_ways:
                first = room.events[match, layout.E_START]
                low, high = np.searchsorted(self.live, [first, first + room.events[match, layout.E_ROWS]])
                rows = self.live[low:high]
            at, begin = int(state[kernels.S_CHANGES]), int(state[kernels.S_CHANGE_ROWS])
            while at == len(self.arrays.changes):
                self.arrays = with_doubled(self.arrays, "changes")
            while begin + len(rows) > len(self.arrays.change_rows):
                self.arrays = with_doubled(self.arrays, "change_rows")
            self.arrays.changes[at] = state[kernels.S_TURN], comes, cause, match, begin, len(rows)
            self.arrays.change_rows[begin : begin + len(rows)] = rows
            state[kernels.S_CHANGES], state[kernels.S_CHANGE_ROWS] = at + 1, begin + len(rows)

    def changes(self) -> MatchChanges:
        """The noted changes. They are removed from the log."""
        state, room = self.state, self.runs.room
        changes = self.arrays.changes[: state[kernels.S_CHANGES]].copy()
        matches, sizes = changes[:, kernels.T_MATCH], changes[:, kernels.T_ROWS]
        words = room.matches[matches]
        if self.runs.by_ways:
            sizes, rows, labels = self.output.ways(words[:, c.M_WORDS + self.runs.compiled.way])
        else:
            rows, labels = self.arrays.change_rows[: state[kernels.S_CHANGE_ROWS]].copy(), np.zeros(int(sizes.sum()), dtype=np.uint8)
            # labels of rows that are not live come first
            if self.runs.labelled:
                ends = room.events[matches, layout.E_LABELS] + room.events[matches, layout.E_ROWS]
                labels = room.labels[ranges(ends - sizes, sizes)]
        state[kernels.S_CHANGES] = state[kernels.S_CHANGE_ROWS] = 0
        self._renumber()
        return MatchChanges(changes[:, kernels.T_TURN], changes[:, kernels.T_INSERT] == 1, changes[:, kernels.T_CAUSE], sizes, words, rows, labels)

    def _renumber(self) -> None:
        """Drops the matches that no longer exist, if they are the majority."""
        state, arrays, room = self.state, self.arrays, self.runs.room
        count = int(state[c.S_EVENTS])
        left = np.flatnonzero(arrays.stands[:count])
        if 2 * len(left) > count:
            return
        number = np.full(count + 1, -1)  # the last one is for index -1
        number[left] = np.arange(len(left))
        sizes = room.events[left, layout.E_ROWS] if self.runs.labelled else np.zeros(len(left), dtype=np.int64)
        labels = room.labels[ranges(room.events[left, layout.E_LABELS], sizes)]
        arrays.next[: len(left)] = number[arrays.next[left]]
        for values in (room.events, room.matches):
            values[: len(left)] = values[left]
        if self.runs.labelled:
            room.events[: len(left), layout.E_LABELS] = np.cumsum(sizes) - sizes
        room.labels[: len(labels)] = labels
        arrays.stands[: len(left)], arrays.stands[len(left) : count] = 1, 0
        live = self.live
        arrays.head[live] = number[arrays.head[live]]
        state[c.S_EVENTS], state[c.S_LABELS] = len(left), len(labels)

    # -- the kernels --------------------------------------------------------------------------------------------------

    def calls(self, kernel: Callable[[], int], walking: bool = False) -> Iterator[bool]:
        """Calls a kernel until it is done. Yields True each time enough changes are noted to be emitted, and False at the end.

        ``walking``: whether the kernel writes records that are not attached to a row yet. Raises MatchRuntimeError.
        """
        self.kernel, self.walking = kernel, walking
        return self.rounds()

    def finish(self, kernel: Callable[[], int], walking: bool = False) -> None:
        """Calls a kernel that emits nothing until it is done, see :meth:`calls`."""
        for _ in self.calls(kernel, walking):
            pass

    def run(self) -> int:
        return self.kernel()

    def found(self) -> bool:
        return self.outcome == layout.FULL

    def keeps(self) -> bool:
        return self.state[c.S_DETAIL] != kernels.CHANGES

    def widen(self, kept: bool) -> None:
        """Doubles the room for labels or for matches. Does nothing if the changes have been emitted."""
        room = self.runs.room
        if kept and self.state[c.S_DETAIL] == c.LABELS:
            self.replace(labels=doubled(room.labels))
        elif kept:
            self.arrays = with_doubled(self.arrays, "next", "stands")
            matches, size = doubled(room.matches), 2 * len(room.match_stamps)
            self.replace(
                events=doubled(room.events), matches=matches, float_matches=matches.view(np.float64), match_stamps=np.zeros(size, dtype=np.int64),
                match_places=np.zeros(size, dtype=np.int64),
            )

    def grow(self) -> None:
        """Makes room for what the kernel lacks. Raises MatchRuntimeError if the log has too many records."""
        lacking = int(self.state[c.S_DETAIL])
        if lacking == kernels.STATE:
            raise self.too_large(self.row)
        if lacking == kernels.KEPT and not self.walking:
            self._rewrite()
        elif lacking in _DOUBLED:
            self.arrays = with_doubled(self.arrays, _DOUBLED[lacking])
        else:
            super().grow()

    def _rewrite(self) -> None:
        """Rewrites the lists of records without gaps. The array is doubled if the lists take more than half of it."""
        arrays, state = self.arrays, self.state
        rows = self.live[self.cleaned :]
        counts = arrays.count[rows]
        kept = arrays.kept[ranges(arrays.place[rows], counts)]
        size = len(arrays.kept)
        if 2 * len(kept) > size or len(kept) == state[kernels.S_USED]:
            self.arrays = arrays = arrays._replace(kept=np.zeros((2 * size, arrays.kept.shape[1]), dtype=np.int64))
        arrays.kept[: len(kept)] = kept
        arrays.place[rows] = np.cumsum(counts) - counts
        state[kernels.S_USED] = len(kept)
