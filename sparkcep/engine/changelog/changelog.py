"""Changelog of an automaton (REPORT CHANGES): which matches each inserted or deleted row inserts or retracts (AFA paper, section
5.1).

The engine uses it over tables; streams use :mod:`sparkcep.engine.stages.retractions`. After each live row the log keeps the records
of the runs that read it last (the paper's lists of *pmatch*), and the matches that end there.
:mod:`sparkcep.kernels.automaton.run_log` has an example.

An inserted row extends the records after the previous row (Algorithm 1, Insert). If the row is late, the runs that had stepped over
its place are removed after the later rows (RemoveInvalidatedSequences). Then the runs that go on through it are propagated over
those rows (PropagateInsert). Both stop when no run is left.

A deleted row removes its own runs, and the runs that now step over its place are propagated (Delete). Records of a list are in the
order of their first rows. So records are removed from the head of a list, and new ones are put there. A punctuation drops the
records that no future row can follow.

If an inserted or deleted arc is valid at existing rows, runs are recomputed from the first such row until nothing changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import null_marks, ordered_words, ranges, words
from sparkcep.engine.automaton import arc_rows as of_arcs
from sparkcep.engine.automaton.arc_validity import BEGIN, END, Timetable, timetable
from sparkcep.engine.automaton.lifetimes import lifetimes
from sparkcep.engine.automaton.register_runs import RegisterRuns
from sparkcep.engine.changelog.append_only import AppendOnly
from sparkcep.engine.changelog.consolidate import Reports, punctuation
from sparkcep.engine.changelog.input_changes import ARC, INSERT, PUNCTUATE, RETRACT, VALUE_PUNCTUATE, InputChanges, turns
from sparkcep.engine.changelog.punctuation import NeededRuns
from sparkcep.engine.changelog.run_log import RunLog
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.operator import Found
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import measured
from sparkcep.kernels.automaton import register_runs as c
from sparkcep.kernels.automaton import run_log as kernels
from sparkcep.kernels.common import layout
from sparkcep.plan.extend.arcs import NUMBER

FLUSH, FLUSH_ROWS = 8192, 1 << 19  # changes of matches that are emitted together, and the limit of their rows
BLOCK = 64  # The first number of rows when runs are recomputed; it doubles.
MOST_GRAPHS, MOST_LISTED = 32, 1 << 15  # Small graphs of arcs are kept for further partitions.
ROWS_A_RECORD = 8  # rows that PUNCTUATE BY goes through for each new record
_WITHOUT = -(1 << 63)
_NO_ROWS = np.zeros(0, dtype=np.int64)


@dataclass
class _Partition:
    """The state of a partition beside its log.

    Attributes:
        anchor: the first inserted or retracted row to arrive, -1 if there is none.
        before: the rows that arrive before the anchor.
        latest: the time of the last effective punctuation, as a number that ascends with time.
        promised: the time of the last punctuation.
        settled: the number of first rows whose runs have all expired or never expire.
        arcs: the arcs with their current lifetimes. int64 (arcs, members of ValidArc).
        effects: the effects of rows on these arcs.
        brought: the numbers of the rows that brought the arcs, in order of arrival, as bytes.
        changed: how many of the effects have happened.
        forgotten: how many of the first rows have lost all their records by PUNCTUATE BY.
        left: how many records were left when PUNCTUATE BY last dropped some.
        needed: finds the records that PUNCTUATE BY leaves needed; None if it does not apply.
        counts: how many computations give each match, see :meth:`sparkcep.engine.changelog.consolidate.Reports.add`.
    """

    anchor: int = -1
    before: frozenset[int] = frozenset()
    latest: int = _WITHOUT
    promised: int = _WITHOUT
    settled: int = 0
    arcs: np.ndarray | None = None
    effects: dict[int, of_arcs.Effect] | None = None
    brought: bytes = b""
    changed: int = 0
    forgotten: int = 0
    left: int = 0
    needed: NeededRuns | None = None
    counts: Counter[bytes] = field(default_factory=Counter)


@dataclass(frozen=True)
class _Change:
    """One step of the changelog.

    Attributes:
        kind: INSERT for rows that are inserted or deleted, else PUNCTUATE, ARC or VALUE_PUNCTUATE.
        rows: int64, the changed rows; for another kind the one row of the arc or punctuation, -1 for the end of the input.
        causes: int64, the input row that causes each change, -1 for the end of the input.
        comes: uint8, 1 if the row is inserted, 0 if it is deleted.
    """

    kind: int
    rows: np.ndarray
    causes: np.ndarray
    comes: np.ndarray


class Changelog:
    """Reports what each change of the rows does to the matches.

    Attributes:
        cleans: whether records that punctuations make useless are dropped. The output does not depend on it.
        foreseen: the fast path for append-only partitions.
        whole, graph: the graph of arcs, with and without the arcs ON EXPIRY.
        graphs: the present arcs and the bytecode by the rows that brought the arcs and the number of effects.
    """

    cleans = True

    def __init__(self, task: Task, search: RegisterRuns) -> None:
        self.task, self.search, self.runs = task, search, search.runs
        self.state = self.runs.state = np.zeros(kernels.CHANGES_STATE_SIZE, dtype=np.int64)
        self.foreseen = AppendOnly(task, search)
        self.punctuates = task.plan.punctuates
        self.whole = self.runs.present.graph
        self.graph = _without_expiry(self.whole)
        self.graphs: dict[tuple[bytes, int], tuple[Timetable, c.RegisterCode]] = {}

    def answer(self, chunk: Chunk) -> Iterator[Found]:
        """The changes of matches of whole partitions."""
        self.task.ran.add(RunLog.name)
        self.chunk, self.turns = chunk, turns(self.task, chunk)
        foreseen = self.foreseen.partitions(chunk, self.turns, null_marks(chunk.columns[self.task.plan.automaton.time]) == 1)
        if foreseen.any():
            yield from self.foreseen.answer(chunk, self.turns, foreseen)
        if foreseen.all():
            return
        timed = self.timed = _timed(self.task, chunk, self.turns)
        self.alive = lifetimes(self.task.plan, timed, self.task.failures)
        self.state[:] = 0
        self.runs.forget()
        self.graphs.clear()
        self.rows, self.values = self.runs.of_chunk(chunk, self.alive)
        self.held = _held(self.task, timed, self.turns)
        self.punctuations = self.turns.kinds == PUNCTUATE
        self.arc_numbers = words(chunk.columns[NUMBER]) if self.turns.arcs is not None else _NO_ROWS
        self.log, self.reports = RunLog(self.search.output, chunk, *self._numbers()), Reports(self.search, chunk, self.alive)
        order = self.turns.order
        for part in np.flatnonzero(~foreseen).tolist():
            low, high = chunk.offsets[part : part + 2]
            if low < high:
                yield from self._partition(part, order[low:high])
        yield from self.reports.emitted()

    def _numbers(self) -> tuple[np.ndarray, np.ndarray]:
        column = self.chunk.columns.get(self.task.plan.changes.consecutive)
        if column is None:
            return _NO_ROWS, np.zeros(0, dtype=np.uint8)
        return words(column).astype(np.int64), null_marks(column).astype(np.uint8)

    # -- one partition ------------------------------------------------------------------------------------------------

    def _partition(self, part: int, order: np.ndarray) -> Iterator[Found]:
        self.here = here = _Partition()
        self.log.begin()
        state = self.state
        state[c.S_PART] = part
        arcs = self.turns.arcs
        if arcs is not None:
            plot = arcs.plot(order, self.punctuations)
            here.arcs, here.effects, here.brought = plot.first, plot.effects, self.arc_numbers[order[arcs.marks[order]]].tobytes()
            self.runs.use(self.runs.present, arcs.given())
            self._arrange()
        here.needed = self._promised(order)
        if self.punctuates:
            rows = np.flatnonzero(self.turns.kinds[order] <= RETRACT)
            if len(rows):
                here.anchor, here.before = int(order[rows[0]]), frozenset(order[: rows[0]].tolist())
        self.log.finish(lambda: kernels.begin(int(order[0]), self.runs.context(self.graph, self.rows, self.values), state))
        for action in self._actions(self._acting(order)):
            yield from self._act(action)
            if state[kernels.S_CHANGES] >= FLUSH:
                yield from self._report()
        self._collect()
        if self.reports.count >= FLUSH or self.reports.rows >= FLUSH_ROWS:
            yield from self.reports.emitted()

    def _collect(self) -> None:
        self.reports.add(int(self.state[c.S_PART]), self.log.changes(), self.here.counts)

    def _report(self) -> Iterator[Found]:
        self._collect()
        yield from self.reports.emitted()

    def _acting(self, order: np.ndarray) -> np.ndarray:
        """The rows that do anything when they arrive. Most arcs in default mode have their changes from the start."""
        arcs = self.turns.arcs
        if arcs is None:
            return order
        quiet = (self.turns.kinds[order] == ARC) & ~np.isin(order, list(self.here.effects))
        if arcs.punctuates:
            quiet &= arcs.ops[order] != of_arcs.PUNCTUATE
        return order[~quiet]

    def _actions(self, order: np.ndarray) -> Iterator[_Change]:
        """The steps of a partition, in order of arrival.

        If rows wait for punctuations of the arcs, too, the earlier one of the last two punctuations counts.
        """
        held: list[int] = []
        limit = None  # rows before this time are not held back
        promises = _LastPunctuations(self.turns.arcs)
        kinds = self.turns.kinds[order]
        others = np.flatnonzero((kinds != INSERT) & (kinds != RETRACT))
        last = 0
        for at in [*others.tolist(), len(order)]:
            yield from self._changes(order[last:at], held, limit)
            last = at + 1
            if at == len(order):
                break
            row, kind = int(order[at]), int(kinds[at])
            if kind == ARC and row in self.here.effects:
                yield _one(ARC, row, row)
            elif kind == VALUE_PUNCTUATE:
                yield _one(VALUE_PUNCTUATE, row, row)
            else:
                said = promises.effective(row, kind == ARC)
                if said < 0:
                    continue
                if self.held is not None and (limit is None or self.held.until[said] > limit):
                    limit = self.held.until[said]
                    count = bisect_left(held, limit, key=lambda r: self.held.when[r])
                    yield _coming(held[:count], row)
                    del held[:count]
                yield _one(PUNCTUATE, said, row)
        yield _coming(held, -1)
        yield _one(PUNCTUATE, -1, -1)

    def _changes(self, rows: np.ndarray, held: list[int], limit: int | None) -> Iterator[_Change]:
        """The inserted and deleted rows, without those that SPECULATE holds back. ``limit``: the first time that is held back, None
        for all.

        A deletion of a row in ``held`` removes the row from there.
        """
        rows = rows[self.rows.absent[rows] == 0]
        comes = self.turns.kinds[rows] == INSERT
        changed = np.where(comes, rows, self.turns.partner[rows])
        if self.held is not None:
            released = np.ones(len(rows), dtype=bool)
            waits = comes & ((limit is None) | (self.held.when[changed] >= (0 if limit is None else limit)))
            for i in np.flatnonzero(waits | ~comes).tolist():
                row = int(changed[i])
                at = bisect_left(held, row)
                if comes[i]:
                    held.insert(at, row)
                    released[i] = False
                elif at < len(held) and held[at] == row:
                    del held[at]
                    released[i] = False
            rows, comes, changed = rows[released], comes[released], changed[released]
        if len(rows):
            yield _Change(INSERT, changed, rows, comes.astype(np.uint8))

    def _act(self, action: _Change) -> Iterator[Found]:
        if action.kind == INSERT:
            yield from self._change_rows(action)
            return
        row, cause = int(action.rows[0]), int(action.causes[0])
        if action.kind == PUNCTUATE:
            self._expire(row, cause)
            self._clean(row)
            if self.punctuates and row >= 0:
                yield from self._punctuate(row, cause)
        elif action.kind == VALUE_PUNCTUATE:
            self._forget(row)
        else:
            self._change(row, cause)

    def _change_rows(self, action: _Change) -> Iterator[Found]:
        """Inserts and deletes rows, one after the other."""
        self.state[kernels.S_AT] = 0
        for full in self.log.calls(
            lambda: kernels.change(
                action.rows, action.comes, action.causes, FLUSH, FLUSH_ROWS, self.runs.context(self.graph, self.rows, self.values), self._most_records, self.log.arrays, self.state,
            )
        ):  # fmt: skip
            if full:
                yield from self._report()

    @property
    def _most_records(self) -> int:
        """The limit of records in the log of a partition."""
        return self.task.limits.max_state_bytes // self.runs.room.made.nbytes

    def _expire(self, row: int, cause: int) -> None:
        """Takes the arcs ON EXPIRY that are due by a punctuation or by the end of the input. They are never retracted."""
        here, log = self.here, self.log
        self.state[kernels.S_TURN] += 1
        until = c.ENDLESS - 1 if row < 0 else int(self.alive.when[row])
        since, here.promised = here.promised, max(here.promised, until)
        if not self.search.expires or until <= since:
            return
        live, arrays, when = log.live, log.arrays, self.alive.when
        upto = bisect_left(live, until, key=lambda q: when[q])
        rows, following = live[here.settled : upto], live[here.settled + 1 : upto + 1]
        counts = arrays.count[rows]
        of, ends = np.repeat(np.arange(len(rows)), counts), arrays.kept[ranges(arrays.place[rows], counts), c.I_END]
        # A run expires after its last row: no further row comes before its end.
        last = np.minimum(np.append(when[following], c.ENDLESS), until)
        due = here.settled + np.unique(of[(ends > since) & (ends <= last[of])])
        # Rows are settled if no run is left that may expire; a new one cannot begin before a punctuation.
        here.settled += int(of[(ends > until) & (ends < c.ENDLESS)].min(initial=len(rows)))
        for at in due.tolist():
            q = int(live[at])
            before = int(live[at - 1]) if at else -1
            further = int(live[at + 1]) if at + 1 < len(live) else -1
            ((_, _, found),) = self._walk(live[at : at + 1], before, graph=self.whole, further=further)
            expired = [match for match in found if self.runs.room.matches[match, c.M_EXPIRED] and since < self.runs.room.matches[match, c.M_END] <= until]
            log.put(q, [*log.matches(q), *expired])
            log.note(expired, True, cause)

    def _punctuate(self, row: int, cause: int) -> Iterator[Found]:
        """Emits a punctuation after the changes before it, if it has a later time than those before and the partition has had a
        row."""
        here, time = self.here, int(self.turns.times[row])
        if time <= here.latest:
            return
        here.latest = time
        if here.anchor < 0 or cause in here.before:
            return
        yield from self._report()
        part = int(self.state[c.S_PART])
        self.reports.numbers[part] += 1
        yield punctuation(self.task, self.timed, part, here.anchor, row, cause, int(self.reports.numbers[part]))

    # -- what punctuations leave without use --------------------------------------------------------------------------

    def _clean(self, row: int) -> None:
        """Drops the records that no future change can follow. The last row before the punctuation keeps its records."""
        here, log = self.here, self.log
        if row < 0 or not self.cleans:
            return
        times = self.turns.times
        until = bisect_left(log.live, times[row], key=lambda q: times[q]) - 1
        if self.search.expires:  # Arcs ON EXPIRY are taken by the records after the previous row.
            until = min(until, here.settled - 1)
        until = max(log.cleaned, until)
        log.clean(until)
        if here.needed is not None:
            self._forget(row)

    def _promised(self, order: np.ndarray) -> NeededRuns | None:
        """Finds which records are needed if punctuations have values of PUNCTUATE BY. None without such punctuations, or if it
        cannot be known.

        It cannot be known with deletions and dynamic arcs, because both make rows neighbours of others. Nor can it be known with
        arcs ON EMPTY and ON EXPIRY, or with held-back rows: they are inserted after punctuations before which they arrived.
        """
        plan, turns = self.task.plan, self.turns
        if not self.cleans or not (turns.kinds[order] == VALUE_PUNCTUATE).any() or turns.arcs is not None or self.held is not None:
            return None
        if (turns.kinds[order] == RETRACT).any() or any(arc.on != "row" for arc in self.runs.automaton.arcs):
            return None
        column = plan.changes.punctuate
        is_text = pa.types.is_string(self.chunk.columns[column].type) or pa.types.is_large_string(self.chunk.columns[column].type)
        return NeededRuns(self.runs.automaton, is_text, self.rows.packed, turns.times, turns.values)

    def _forget(self, row: int) -> None:
        """Drops the records that no future row can continue to a match."""
        here, log = self.here, self.log
        if here.needed is None:
            return
        here.needed.promise(row)
        live, records = log.live, int(self.state[kernels.S_RECORDS])
        # This goes through all rows, so it waits until records have come in proportion, unless the log may soon be full.
        if ROWS_A_RECORD * (records - here.left) < len(live) and 2 * records < self._most_records:
            return
        live, place = live.tolist(), 0
        for place, states in here.needed.states(live):
            if place < log.cleaned:
                break
            self._drop(live[place], states)
        for q in live[max(log.cleaned, here.forgotten) : place]:
            self._drop(q, 0)
        here.forgotten = max(here.forgotten, place)
        here.left = int(self.state[kernels.S_RECORDS])

    def _drop(self, row: int, states: int) -> None:
        """Keeps only the records in ``states`` (bits) after a row."""
        records, crossed = self.log.records(row), self.log.arrays.crossed
        needed = np.array([states >> int(state) & 1 for state in records[:, c.I_STATE]], dtype=bool)
        if not needed.all():
            crossed[row] = min(int(records[~needed, c.I_FIRST].min()), int(crossed[row]))
            self.log.keep(row, records[needed])

    # -- arcs ---------------------------------------------------------------------------------------------------------

    def _arrange(self) -> None:
        """Makes the kernel use the partition's arcs as they are now. Partitions with copies of the same arcs share the graph."""
        runs, part, key = self.runs, int(self.state[c.S_PART]), (self.here.brought, self.here.changed)
        low, high = self.chunk.offsets[part : part + 2]
        present, self.values = self.graphs.get(key) or self._graph(key)
        runs.use(present, runs.given)
        self.whole, self.graph = present.graph, _without_expiry(present.graph)
        self.rows.base[low:high] = present.base(0, self.turns.arcs.clock[low:high])
        self.state[c.S_BASE] = -1

    def _graph(self, key: tuple[bytes, int]) -> tuple[Timetable, c.RegisterCode]:
        """Makes the graph of the partition's arcs, and keeps it if it is small."""
        runs, present = self.runs, timetable(self.runs.automaton, [self.here.arcs])
        runs.use(present, runs.given)
        made = present, runs.values()
        if len(present.graph.leaving) + len(present.graph.silent) <= MOST_LISTED:
            if len(self.graphs) == MOST_GRAPHS:
                self.graphs.clear()
            self.graphs[key] = made
        return made

    def _change(self, row: int, cause: int) -> None:
        """Applies the effect of an arc's row: the arc appears, disappears or gets another lifetime."""
        here, log, clock = self.here, self.log, self.turns.arcs.clock
        self.state[kernels.S_TURN] += 1
        effect = here.effects[row]
        here.changed += 1
        lifetime = here.arcs[effect.of, BEGIN : END + 1]
        low, high = _between(tuple(lifetime.tolist()), (effect.begin, effect.end))
        lifetime[:] = effect.begin, effect.end
        if low >= high:
            return
        self._arrange()
        live = log.live
        at, size = bisect_left(live, low, key=lambda q: clock[q]), BLOCK
        while at < len(live):
            rows = live[at : at + size]
            for q, (begin, count, found) in zip(rows.tolist(), self._walk(rows, int(live[at - 1]) if at else -1), strict=True):
                as_before = self._as_before(log.records(q), log.arrays.kept[begin : begin + count])
                log.move(q, begin, count)
                self._exchange(q, found, cause)
                if self.state[kernels.S_RECORDS] > self._most_records:
                    raise log.too_large(q)
                if as_before and clock[q] >= high:
                    return
            at, size = at + len(rows), 2 * size

    def _as_before(self, old: np.ndarray, new: np.ndarray) -> bool:
        """Whether the records after a row are the same as before. Labels of rows are not compared, so the answer is False if labels
        matter."""
        others = np.arange(old.shape[1]) != c.I_WAY
        return old.shape == new.shape and not (self.runs.labelled and len(old)) and np.array_equal(old[:, others], new[:, others])

    def _exchange(self, row: int, found: list[int], cause: int) -> None:
        """Replaces the matches that end at a row, and notes the differences. No match has expired, since no arc changes before a
        punctuation."""
        old = self.log.matches(row)
        before, after = ({self._same(match) for match in some} for some in (old, found))
        self.log.note([match for match in old if self._same(match) not in after], False, cause)
        self.log.note([match for match in found if self._same(match) not in before], True, cause)
        self.log.put(row, found)

    def _same(self, match: int) -> tuple:
        """A key that equal matches share."""
        room = self.runs.room
        words = np.where((room.floating == 1) & (room.matches[match] == c.NEGATIVE_ZERO), 0, room.matches[match])
        first, size, begin = (int(room.events[match, i]) for i in (layout.E_START, layout.E_ROWS, layout.E_LABELS))
        return first, words.tobytes(), room.labels[begin : begin + size].tobytes() if self.runs.labelled else b""

    # -- the kernel ---------------------------------------------------------------------------------------------------

    def _walk(self, rows: np.ndarray, before: int, graph: c.ArcGraph | None = None, further: int = -1) -> list[tuple[int, int, list[int]]]:
        """Computes the records after each of ``rows``, one row after the other, from the records after the row ``before``.

        Args:
            before: the live row before the first one, -1 if there is none.
            graph: the arcs; by default those without arcs ON EXPIRY.
            further: the live row after a single row, whose time an arc ON EXPIRY needs; -1 if there is none.

        Returns:
            For each row: where its records begin in the log, their number, and the matches that end there.
        """
        state, runs, log = self.state, self.runs, self.log
        records = log.records(before)
        while runs.room.ids.shape[1] < len(records):
            log.more_records()
        runs.room.ids[0, : len(records)] = records
        state[c.S_SIDE], state[c.S_COUNT], state[kernels.S_AT], state[kernels.S_OF] = 0, len(records), 0, -1
        number, begin, match = int(state[c.S_NUMBER]), int(state[kernels.S_USED]), int(state[c.S_EVENTS])
        rows = rows.copy()
        sizes, changes = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
        high = 0
        if further >= 0:
            high = int(rows[0]) + 2
            seen = self.rows.when[high - 1], self.rows.absent[high - 1]
            self.rows.when[high - 1], self.rows.absent[high - 1] = self.alive.when[further], 0
        try:
            log.finish(
                lambda: kernels.walk(rows, before, high, runs.context(graph or self.graph, self.rows, self.values), log.arrays, sizes, changes, state), walking=True
            )
        finally:
            if further >= 0:
                self.rows.when[high - 1], self.rows.absent[high - 1] = seen
        state[c.S_NUMBER] = number
        out = []
        for size, until in zip(sizes.tolist(), changes.tolist(), strict=True):
            out.append((begin, size, list(range(match, until))))
            begin, match = begin + size, until
        return out


def _one(kind: int, row: int, cause: int) -> _Change:
    return _Change(kind, np.array([row]), np.array([cause]), np.zeros(1, dtype=np.uint8))


def _coming(rows: list[int], cause: int) -> _Change:
    """The insertion of rows that were held back."""
    return _Change(INSERT, np.array(rows, dtype=np.int64), np.full(len(rows), cause), np.ones(len(rows), dtype=np.uint8))


class _LastPunctuations:
    """The last punctuations of rows and of arcs. ``arcs``: None if the clause does not have dynamic arcs."""

    def __init__(self, arcs: of_arcs.ArcRows | None) -> None:
        self.arcs = arcs
        self.of_rows = self.of_arcs = -1

    def effective(self, row: int, of_arc: bool) -> int:
        """The row with the time that no future change can precede, after this punctuation. -1 if there is none."""
        if self.arcs is None or not self.arcs.punctuates:
            return row
        clock = self.arcs.clock
        if of_arc:
            self.of_arcs = row if self.of_arcs < 0 else max(self.of_arcs, row, key=lambda q: clock[q])
        else:
            self.of_rows = row if self.of_rows < 0 else max(self.of_rows, row, key=lambda q: clock[q])
        return -1 if min(self.of_rows, self.of_arcs) < 0 else min(self.of_rows, self.of_arcs, key=lambda q: clock[q])


def _between(old: tuple[int, int], new: tuple[int, int]) -> tuple[int, int]:
    """The first time and the end time of the range where two lifetimes differ."""
    if old[0] >= old[1] or new[0] >= new[1]:
        return new if old[0] >= old[1] else old
    low = min(old[0], new[0]) if old[0] != new[0] else min(old[1], new[1])
    return low, max(old[1], new[1]) if old[1] != new[1] else max(old[0], new[0])


def _without_expiry(graph: c.ArcGraph) -> c.ArcGraph:
    """The graph without arcs ON EXPIRY."""
    kept = graph.arcs[graph.silent, c.A_ON] != c.ON_EXPIRY
    counts = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    return graph._replace(silent=graph.silent[kept], first_silent=counts[graph.first_silent])


def _timed(task: Task, chunk: Chunk, found: InputChanges) -> Chunk:
    """The chunk with times of arcs: a row of ARCS FROM gets its own time. Arcs and punctuations lose the end of a lifetime, because
    they need none."""
    columns, automaton = dict(chunk.columns), task.plan.automaton
    if found.arcs is not None:
        columns[automaton.time] = found.arcs.timed
    if automaton.lifetime:
        ends = columns[automaton.lifetime]
        columns[automaton.lifetime] = pc.if_else(pa.array(found.kinds >= PUNCTUATE), pa.scalar(None, ends.type), ends)
    return replace(chunk, columns=columns)


@dataclass(frozen=True)
class Delay:
    """How long rows are held back (SPECULATE).

    Attributes:
        when: int64 (rows), the time of each row.
        until: int64 (rows), the time before which a punctuation releases rows.
    """

    when: np.ndarray
    until: np.ndarray


def _held(task: Task, chunk: Chunk, found: InputChanges) -> Delay | None:
    """The delay of rows; None if no rows are held back."""
    changes = task.plan.changes
    if changes.speculate == "ALL":
        return None
    if changes.size is None:
        return Delay(found.times, found.times)
    rows = measured(changes.size, chunk.columns[task.plan.automaton.time], np.zeros(chunk.rows, dtype=np.int64), False)
    if rows.when.dtype.kind == "f":
        return Delay(ordered_words(rows.when), ordered_words(rows.near))
    return Delay(rows.when, rows.until + (rows.until < c.ENDLESS))
