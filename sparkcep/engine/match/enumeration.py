"""Matches one by one: of rows that are kept only from where the search stands, or of whole partitions."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import ranges
from sparkcep.engine.core.chunk import Chunk, Saved
from sparkcep.engine.core.errors import EagerConditionError
from sparkcep.engine.core.kernel_loop import KernelLoop, OutputRoom
from sparkcep.engine.core.matches import WIDTH, WITH_ERRORS, MatchBatch
from sparkcep.engine.core.operator import NOTHING_DUE, BaseOperator, RowsAtWatermark
from sparkcep.engine.core.state_codec import FAR, LISTED, WHOLE, check_numbers
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import plan_windows
from sparkcep.engine.match.early_emission import EarlyEmission
from sparkcep.engine.match.scores import Scores, scores_of
from sparkcep.engine.match.topk_heap import TopkHeap
from sparkcep.engine.output.tables import Tables
from sparkcep.kernels.common import layout

SKIPS = {
    "past_last": layout.SKIP_PAST_LAST,
    "next_row": layout.SKIP_NEXT_ROW,
    "first": layout.SKIP_FIRST,
    "last": layout.SKIP_LAST,
}
_NO_MARKS = np.zeros(0, dtype=np.uint8)


@dataclass(frozen=True)
class Open:
    """Where a search stands in partitions that go on, of which the kept rows are; they are the first ones of the next buffer.
    int64 (partitions): ``rows``, how many of each are kept; ``start`` and ``covered``, the next start row and the row up to
    which matches reach, counted from the first kept one (where each match is told with its last row, the row before which all that
    ends is told); ``number`` of the last match; ``dropped``, how many rows are gone.
    ``taken`` uint8: marks of the kept rows that are in a match, where rows in none are asked for."""

    rows: np.ndarray
    start: np.ndarray
    number: np.ndarray
    covered: np.ndarray
    dropped: np.ndarray
    taken: np.ndarray

    @staticmethod
    def of(rows: np.ndarray) -> Open:
        """Partitions that are searched from their first row on."""
        none = np.zeros(len(rows), dtype=np.int64)
        return Open(rows, none, none, none, none, _NO_MARKS)

    def forgetting(self, numbers: bool, positions: bool) -> Self:
        """Without the numbers of matches, and without the positions of partitions that have no rows, unless they are asked for."""
        number = self.number if numbers else np.zeros_like(self.rows)
        return replace(self, number=number, dropped=self.dropped if positions else np.where(self.rows > 0, self.dropped, 0))

    def gone(self, parts: int) -> np.ndarray:
        """int64: how many rows of each partition of a buffer came before it."""
        return np.pad(self.dropped, (0, parts - len(self.rows)))

    def positions(self, offsets: np.ndarray) -> np.ndarray:
        """The number of each row of a buffer in its partition."""
        return ranges(self.gone(len(offsets) - 1), np.diff(offsets))

    def opens(self, chunk: Chunk) -> np.ndarray:
        """The same as kernels have it: int64 (partitions, OPEN_FIELDS), rows counted from the first of the buffer."""
        out, count = np.zeros((chunk.parts, layout.OPEN_FIELDS), dtype=np.int64), len(self.rows)
        out[:, layout.O_START] = out[:, layout.O_COVERED] = chunk.offsets[:-1]
        out[:count, layout.O_START] += self.start
        out[:count, layout.O_COVERED] += self.covered
        out[:, layout.O_EMITTED] = out[:, layout.O_COVERED]
        out[:count, layout.O_NUMBER] = self.number
        out[:, layout.O_CUT] = chunk.cut
        out[:, layout.O_GOING] = chunk.going
        out[:, layout.O_CLOSED] = chunk.offsets[:-1] if chunk.closed is None else chunk.closed
        return out

    def left(self, chunk: Chunk, opens: np.ndarray, first: np.ndarray, back: int, taken: np.ndarray | None = None) -> Saved:
        """What is left of a chunk that was searched from here. ``opens``: as the kernel left them; ``first`` int64: of each
        partition that goes on the first row that a later attempt may take, and ``back``: how many rows before it that may look at;
        ``taken`` uint8 (rows): marks of those in a match."""
        parts = np.flatnonzero(chunk.going)
        low, high = chunk.offsets[parts], chunk.offsets[parts + 1]
        start, number, covered = opens[parts, : layout.O_CUT].T
        first = np.clip(first - back, low, np.maximum(high - chunk.least, low))
        rows = ranges(first, high - first)
        dropped = self.gone(chunk.parts)[parts] + first - low
        return Saved(Open(high - first, start - first, number, np.maximum(covered - first, 0), dropped, _NO_MARKS if taken is None else taken[rows]), rows)


class ListedForm:
    """How :class:`Open` is kept as bytes. ``places``: whether ``number`` is a place in the measure of WINDOW."""

    kind, numbers, arrays = LISTED, 4, (np.dtype(np.uint8),)

    def __init__(self, places: bool = False) -> None:
        self.places = places

    def written(self, state: Open) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        numbers = np.stack([state.start, state.number, state.covered, state.dropped], axis=1)
        return numbers, [(state.taken, state.rows if len(state.taken) else np.zeros_like(state.rows))]

    def read(self, rows: np.ndarray, numbers: np.ndarray, arrays: list[tuple[np.ndarray, np.ndarray]]) -> Open:
        taken, counts = arrays[0]
        start, number, covered, dropped = numbers.T
        check_numbers(
            (counts == rows) | (len(taken) == 0), taken <= 1, start >= 0, start <= rows, covered >= 0, covered <= rows, dropped >= 0, dropped < FAR,
            number < FAR, number >= (-FAR if self.places else 0),
        )
        return Open(rows, start, number, covered, dropped, taken)


class WholeForm:
    """Of partitions that are searched when they are there as a whole only their rows are kept."""

    kind, numbers, arrays = WHOLE, 0, ()

    def written(self, state: Open) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        return np.zeros((len(state.rows), 0), dtype=np.int64), []

    def read(self, rows: np.ndarray, numbers: np.ndarray, arrays: list[tuple[np.ndarray, np.ndarray]]) -> Open:
        return Open.of(rows)


NOTHING_OPEN = Open.of(np.zeros(0, dtype=np.int64))


class MatchSearch(Protocol):
    """What finds matches one by one. ``early``: when it does, if each is emitted with its last row."""

    early: EarlyEmission | None

    def over(self, chunk: Chunk, state: Open) -> Matches:
        """The search over a buffer, from where it stands."""
        ...


class Matches(KernelLoop):
    """A search for matches over one buffer. ``width`` of its events; ``negates``: whether it may look for a negation at rows
    before a match."""

    state_size = layout.STATE_SIZE
    scattered = True  # whether other rows may stand between those of a match

    def __init__(self, task: Task, chunk: Chunk, state: Open, *, width: int = WIDTH, negates: bool = False) -> None:
        super().__init__(task, chunk)
        self.resumed, self.negates = state, negates
        self.opens = state.opens(chunk)
        self.state = np.zeros(self.state_size, dtype=np.int64)
        self.state[[layout.S_START, layout.S_NUMBER, layout.S_COVERED]] = self.opens[0, [layout.O_START, layout.O_NUMBER, layout.O_COVERED]]
        self.room = OutputRoom(max(1024, chunk.rows // 8), max(1024, chunk.rows), width, rows=self.scattered, paths=width == WITH_ERRORS)
        self.taken = np.zeros(chunk.rows if self.scattered else 0, dtype=np.uint8)
        if len(state.taken):
            self.taken[ranges(chunk.offsets[: len(state.rows)], state.rows)] = state.taken
        if self.scattered:
            self.windows, self.backs = plan_windows(task.plan.windows, chunk.columns, chunk.offsets)

    def rounds(self) -> Iterator[MatchBatch]:
        """What it finds; under TOP only what may be among the best."""
        return self.best(self.every())

    def every(self) -> Iterator[MatchBatch]:
        """All that it finds; what is given stands until more is asked for."""
        return super().rounds()

    def best(self, rounds: Iterator[MatchBatch]) -> Iterator[MatchBatch]:
        """Of what was found, under TOP only what may be among the best."""
        ranking = self.task.plan.ranking
        return TopkHeap(self.task, self.chunk, self.scores).of(rounds) if ranking is not None and ranking.top else rounds

    @cached_property
    def scores(self) -> Scores | None:
        """The scores of what it finds under TOP, if the engine knows them."""
        return scores_of(self.task, self.chunk, self.data.rows.letters)

    def grow(self) -> None:
        raise AssertionError("it has all the room it needs")

    def widen(self, kept: bool) -> None:
        if kept:
            self.room.double()
            self.check(self.room.nbytes)
        else:
            self.room.widen(int(self.state[layout.S_DETAIL]), self.task.limits.max_state_bytes)

    def found(self) -> MatchBatch:
        return self.room.found(self.state)

    def left(self) -> Saved:
        """Where the partitions that go on stand, and their rows that later attempts may look at."""
        parts = np.flatnonzero(self.chunk.going)
        first = self.opens[parts, layout.O_START]
        if self.negates:
            # a row still to come looks back no farther than the last one here, nor out of its window
            low, high = self.chunk.offsets[parts], self.chunk.offsets[parts + 1]
            back = self.backs[np.clip(first, low, high - 1)]
            if self.chunk.closed is not None:
                back = np.where(first < high, back, np.maximum(back, self.chunk.closed[parts]))
            first = np.minimum(first, back)
        marked = self.scattered and self.task.plan.rows == "unmatched"
        return self.resumed.left(self.chunk, self.opens, first, self.task.back, self.taken if marked else None)


class DeferringSearch:
    """The search that ``make`` makes. If a condition of physical neighbours fails on some row, which may not be a candidate,
    ``make`` makes a second search, which evaluates conditions at candidates alone."""

    def __init__(self, task: Task, make: Callable[[], MatchSearch]) -> None:
        self.task, self.make, self.search = task, make, make()

    @property
    def early(self) -> EarlyEmission | None:
        """As in :class:`MatchSearch`."""
        return self.search.early

    def over(self, chunk: Chunk, state: Open) -> Matches:
        """As in :class:`MatchSearch`."""
        try:
            return self.search.over(chunk, state)
        except EagerConditionError:
            net = self.task.prepared.strategy.net
            if net is not None and net.copies is not None:  # its copies of variables know conditions by their letters
                raise
            self.task.prepared = self.task.prepared.deferring()
            self.search = self.make()
            return self.search.over(chunk, state)


Listing = Callable[[], MatchSearch]


def listed(search: MatchSearch, chunk: Chunk) -> Iterator[MatchBatch]:
    """The matches of whole partitions, some at a time."""
    return search.over(chunk, NOTHING_OPEN).rounds()


class FromStart(BaseOperator):
    """What operators share that resume at a start row."""

    initial = NOTHING_OPEN

    @property
    def early(self) -> EarlyEmission | None:
        """When ALL MATCHES are searched that are emitted with their last rows; None unless they are."""
        return None

    def ends(self, state: Open, kept: RowsAtWatermark) -> np.ndarray:
        """When the window of the row has ended at which the search resumes."""
        due, at = np.full(len(state.rows), NOTHING_DUE), kept.first + state.start
        if self.task.plan.non_overlapping:  # the match that completes first is known when later rows begin none that completes before
            at = np.maximum(at, kept.first + kept.ended())
        resumed = np.flatnonzero(at < kept.end)
        begun = kept.time[at[resumed]]
        waits = begun > kept.last  # one that has ended waits for a further row
        due[resumed[waits]] = begun[waits] + kept.size - 1
        if self.task.prepared.strategy.emission.looks_before:
            # rows are kept for the negation alone, as long as a match to come may have them in its window
            alone = np.flatnonzero((at == kept.end) & (state.rows > 0))
            last = kept.time[at[alone] - 1]
            due[alone] = np.where(last > kept.last, last + kept.size - 1, NOTHING_DUE)
        if self.early is not None:
            some, when = self.early.dues(kept.time, state.rows, state.covered)
            due[some] = np.where(when > kept.watermark, np.minimum(due[some], when), due[some])
        return due

    def under_way(self, state: Open) -> np.ndarray:
        return state.start


class Enumeration(FromStart):
    """Lists matches as they are decided; ``report`` makes output of those found."""

    form = ListedForm()

    def __init__(self, task: Task, search: MatchSearch, report: Callable[[Chunk, MatchBatch], Iterator[pa.Table]]) -> None:
        self.task, self.search, self.report = task, search, report

    @property
    def early(self) -> EarlyEmission | None:
        return self.search.early

    def step(self, chunk: Chunk, state: Open) -> Generator[pa.Table, None, Saved]:
        """Searches the rows at hand, and leaves those that a later attempt may look at."""
        matches = self.search.over(chunk, state)
        for found in matches.rounds():
            if len(found.events):
                yield from self.report(chunk, found)
        return matches.left()

    def in_no_match(self, chunk: Chunk, tables: Tables) -> Iterator[pa.Table]:
        return self.report(chunk, self._marked(chunk))


class WholePartitions(FromStart):
    """Answers for whole partitions: a match may end in any row to come. ``answer`` makes their output."""

    form = WholeForm()

    def __init__(self, task: Task, answer: Callable[[Chunk], Iterator[pa.Table]]) -> None:
        self.task, self.answer = task, answer

    def step(self, chunk: Chunk, _: Open) -> Generator[pa.Table, None, Saved]:
        """Answers for the partitions that are there as a whole, and leaves the rows of those that may go on."""
        ended = chunk.ended()
        if ended.rows:
            yield from self.answer(ended)
        going = np.flatnonzero(chunk.going)
        sizes = np.diff(chunk.offsets)[going]
        return Saved(Open.of(sizes), ranges(chunk.offsets[going], sizes))
