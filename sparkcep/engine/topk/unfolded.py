"""Rows of a chunk, unfolded: each row once for each group of rows that is searched by itself.

A group is a partition or a sliding window, or the rows of one of these that agree in a value which all rows of a match share. In a
group of a sliding window, rows outside of the windows that sequences move (UPDATE) lack the letters of these sequences. So searches
need no regard for such windows and values.

Example: rows 0 to 3 with the values x, y, x, y, and windows of rows 0 to 2 and 2 to 3. The groups are the rows 0, 2 and 1 of the
first window, and the rows 2 and 3 of the second window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from sparkcep.columns.arrays import equal_codes, ranges, words
from sparkcep.compiler.net.row_equalities import Far, joins_all
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.windows import Slides
from sparkcep.engine.output.moving_windows import OwnWindow
from sparkcep.kernels.common.layout import E_LABELS, E_PART, E_START
from sparkcep.plan.plan import Plan


@dataclass(frozen=True)
class Best:
    """The best matches of one or several partitions, and the window number of each match."""

    found: MatchBatch
    windows: np.ndarray


@dataclass(frozen=True)
class Span:
    """A partition of a chunk, with its sliding windows.

    Attributes:
        part: the number of the partition.
        low, high: its first row, and the row after its last one.
        first, until: the first row of each window, and the row after its last one, counted in the partition. None without sliding
            windows.
        numbers: the numbers of the windows.
    """

    part: int
    low: int
    high: int
    first: np.ndarray | None
    until: np.ndarray | None
    numbers: np.ndarray

    @property
    def rows(self) -> slice:
        return slice(self.low, self.high)


@dataclass(frozen=True)
class Unfolded:
    """Rows by group.

    Attributes:
        rows: the row of each place, ascending in a group. int64 (places).
        letters: the variables that the row may be in its group. int64 (places).
        offsets: the bounds of the groups. int64 (groups + 1).
        of: the number of each group's partition or window. int64 (groups), ascending.
        parts: the partition of each partition or window. int64.
        numbers: the number of each sliding window, 0 without sliding windows.
    """

    rows: np.ndarray
    letters: np.ndarray
    offsets: np.ndarray
    of: np.ndarray
    parts: np.ndarray
    numbers: np.ndarray

    @staticmethod
    def in_windows(plan: Plan, chunk: Chunk, sliding: Slides | None, letters: np.ndarray) -> Unfolded:
        """Returns the rows of each partition, or of each sliding window with regard to the windows of sequences."""
        if sliding is None:
            parts = np.arange(chunk.parts)
            return Unfolded(np.arange(chunk.rows), letters, chunk.offsets, parts, parts, np.zeros(chunk.parts, dtype=np.int64))
        sizes = sliding.until - sliding.first
        rows, of = ranges(sliding.first, sizes), np.repeat(np.arange(len(sizes)), sizes)
        parts = np.repeat(np.arange(chunk.parts), np.diff(sliding.bounds))
        found, column = letters[rows], chunk.columns.get(plan.windows[0].order)
        places = chunk.positions if column is None else words(column)
        for moving in plan.ranking.moving if plan.ranking is not None else ():
            inside = OwnWindow(moving, sliding.grid).holds(places[rows], places[rows], sliding.numbers[of])
            found = np.where(inside, found, found & ~np.int64(moving.mask))
        return Unfolded(rows, found, np.concatenate([[0], np.cumsum(sizes)]), np.arange(len(sizes)), parts, sliding.numbers)

    def by_values(self, codes: dict[int, np.ndarray]) -> Unfolded:
        """Returns the groups of rows that agree in a value.

        ``codes``: for variables, which are all that rows may be, the value of each row of the chunk, below 0 if it equals none.
        """
        masks: dict[int, tuple[int, np.ndarray]] = {}
        for variable, code in codes.items():
            mask, _ = masks.get(id(code), (0, code))
            masks[id(code)] = mask | 1 << variable, code
        group = np.repeat(self.of, np.diff(self.offsets))
        found = [(code[self.rows], self.letters & mask) for mask, code in masks.values()]
        kept = [np.flatnonzero((own >= 0) & (letters != 0)) for own, letters in found]
        at = np.concatenate(kept)
        value, letters = (np.concatenate([parts[i][some] for parts, some in zip(found, kept)]) for i in range(2))
        order = np.lexsort((self.rows[at], value, group[at]))
        at, value, letters = at[order], value[order], letters[order]
        rows, group = self.rows[at], group[at]
        fresh = np.ones(len(rows), dtype=bool)
        fresh[1:] = (np.diff(rows) != 0) | (np.diff(value) != 0) | (np.diff(group) != 0)
        begin = np.flatnonzero(fresh)
        letters = np.bitwise_or.reduceat(letters, begin) if len(begin) else letters
        rows, value, group = rows[begin], value[begin], group[begin]
        heads = np.flatnonzero(np.append(True, (np.diff(value) != 0) | (np.diff(group) != 0))[: len(rows)])
        return Unfolded(rows, letters, np.append(heads, len(rows)), group[heads], self.parts, self.numbers)

    def having(self, masks: Iterable[int]) -> Unfolded:
        """Returns the groups that have a row of one of the variables of each mask."""
        sizes = np.diff(self.offsets)
        some = np.zeros(len(sizes), dtype=np.int64)
        if len(self.letters):
            some[sizes > 0] = np.bitwise_or.reduceat(self.letters, self.offsets[:-1][sizes > 0])
        kept = np.all([some & mask != 0 for mask in masks], axis=0)
        places = np.repeat(kept, sizes)
        return replace(self, rows=self.rows[places], letters=self.letters[places], offsets=np.append(0, np.cumsum(sizes[kept])), of=self.of[kept])

    def of_variables(self, mask: int) -> Unfolded:
        """Returns the rows that may be one of some variables, in the same groups."""
        kept = np.flatnonzero(self.letters & mask)
        offsets = np.searchsorted(kept, self.offsets).astype(np.int64)
        return replace(self, rows=self.rows[kept], letters=self.letters[kept] & mask, offsets=offsets)

    def spans(self) -> Iterator[Span]:
        """Yields the groups as partitions without sliding windows. Their rows are places."""
        for group, (low, high) in enumerate(zip(self.offsets.tolist(), self.offsets[1:].tolist())):
            yield Span(group, low, high, None, None, np.zeros(1, dtype=np.int64))

    def folded(self, best: Best) -> Best:
        """Returns the best matches of groups as matches of the chunk's partitions and windows, if each of these is one group."""
        events, rows = best.found.events.copy(), self.rows[best.found.rows]
        of = self.of[events[:, E_PART]]
        events[:, E_PART] = self.parts[of]
        events[:, E_START] = rows[events[:, E_LABELS]] if len(events) else 0
        return Best(replace(best.found, events=events, rows=rows), self.numbers[of])

    def ends(self, ends: np.ndarray) -> np.ndarray:
        """Returns the places of ends that are rows of the chunk, in the group of each place.

        ``ends``: for each row of the chunk the row after the last one that may follow. int64 (..., rows).
        """
        most = int(self.rows.max(initial=0)) + 2
        sizes = np.diff(self.offsets)
        base = np.repeat(np.arange(len(sizes)) * most, sizes)
        found = np.searchsorted(self.rows + base, np.clip(ends[..., self.rows], 0, most - 1) + base)
        return found.astype(np.int64)


def common_values(far: tuple[Far, ...], variables: int, chunk: Chunk) -> dict[int, np.ndarray] | None:
    """Returns for each variable of a mask the value of each row that all rows of a match share.

    Returns None unless equalities of one column of each variable join all variables, and the columns have the same type.
    """
    if not joins_all(far, variables):
        return None
    columns = {variable: name for pair, names in far for variable, name in zip(pair, names)}
    names = sorted(set(columns.values()))
    codes = equal_codes([[chunk.columns[name]] for name in names])
    if codes is None:
        return None
    of = {name: codes[i, : chunk.rows] for i, name in enumerate(names)}
    return {v: of[name] for v, name in columns.items() if variables >> v & 1}
