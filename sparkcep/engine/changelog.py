"""Changes of the matches of an automaton, REPORT CHANGES: what each row that comes or goes does to them (AFA paper, section 5.1).

Behind each row that is there stand the records of the computations that have read it last, as the paper's lists of *pmatch*, and
the matches that end there. A row that comes takes the records behind the row before it (Algorithm 1, Insert). Where it comes late,
what had stepped over its place is taken away behind the rows that follow (RemoveInvalidatedSequences), and what goes on through it
is carried over them (PropagateInsert), both as far as there is any. A row that goes takes its own away, and what steps over its
place instead is carried on (Delete). Records of a list stand in the order of their first rows, so what is taken away stands at its
head, and what comes new is put there. A punctuation drops records behind which nothing can come in any
more. Where an arc comes or goes that is valid at rows which are there, computations are made anew from the first of them on, as far
as anything differs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.automaton.strategy import COMPUTATIONS
from sparkcep.columns.arrays import null_marks
from sparkcep.engine import arcs as of_arcs
from sparkcep.engine.buffer import Chunk
from sparkcep.engine.changes import ARC, INSERT, PROMISE, PUNCTUATE, RETRACT, Turns, turns
from sparkcep.engine.compared import Candidate, report
from sparkcep.engine.computations import Computations
from sparkcep.engine.drive import doubled
from sparkcep.engine.foreseen import Foreseen
from sparkcep.engine.lifetimes import in_order, lifetimes
from sparkcep.engine.prepared import Task
from sparkcep.engine.promises import Needed, values
from sparkcep.engine.timetable import BEGIN, END, timetable
from sparkcep.engine.windows import measured
from sparkcep.search import changes as kernels
from sparkcep.search import codes
from sparkcep.search import computations as c

KEPT = 1024  # records of which there is room at first
FLUSH = 8192  # changes of matches that are told together
RUN = 4096  # rows that come in order and are taken together
BLOCK = 64  # rows that are taken at first where computations are carried on
_WITHOUT = -(1 << 63)


@dataclass(frozen=True)
class Match:
    """A match that stands: its first and last row, its words as the kernel wrote them, and the labels of its rows."""

    first: int
    last: int
    words: np.ndarray
    labels: np.ndarray


@dataclass
class _Partition:
    """The rows of a partition that are there, with the records and the matches behind each. ``promised``: the time of the last
    punctuation; ``settled``: how many of the first rows have seen all their computations expire; ``cleaned``: behind how many of
    the first rows no records are kept any more; ``needed``: what PUNCTUATE BY tells of the others, ``forgotten``: behind how many
    of the first ones it has left none, ``crossed``: the rows behind which records were dropped because of it, each with the first
    row of the oldest of their computations."""

    live: list[int] = field(default_factory=list)
    records: dict[int, np.ndarray] = field(default_factory=dict)
    found: dict[int, list[Match]] = field(default_factory=dict)
    candidates: list[Candidate] = field(default_factory=list)
    turn: int = 0
    number: int = 0
    promised: int = _WITHOUT
    settled: int = 0
    matches: int = 0
    bytes: int = 0
    arcs: np.ndarray | None = None
    effects: dict[int, of_arcs.Effect] = field(default_factory=dict)
    cleaned: int = 0
    forgotten: int = 0
    needed: Needed | None = None
    crossed: dict[int, int] = field(default_factory=dict)


class Changelog:
    """Reports what each change of the rows does to the matches. ``cleans``: drops records that punctuations leave without use, by
    which no answer changes."""

    cleans = True

    def __init__(self, task: Task, search: Computations) -> None:
        self.task, self.search = task, search
        self.state = search.state = np.zeros(kernels.CHANGES_STATE_SIZE, dtype=np.int64)
        self.foreseen = Foreseen(task, search)
        self.kept = np.zeros((KEPT, search.room.made.shape[0]), dtype=np.int64)
        self.whole = search.graph
        self.graph = _without_expiry(search.graph)

    def answer(self, chunk: Chunk) -> Iterator[pa.Table]:
        """The output for whole partitions."""
        self.task.ran.add(COMPUTATIONS)
        self.chunk, self.turns = chunk, turns(self.task, chunk)
        foreseen = self.foreseen.partitions(chunk, self.turns, null_marks(chunk.columns[self.task.plan.automaton.time]) == 1)
        if foreseen.any():
            self.search.state = np.zeros(c.STATE_SIZE, dtype=np.int64)
            yield from self.foreseen.answer(chunk, self.turns, foreseen)
            self.search.state = self.state
        if foreseen.all():
            return
        timed = _timed(self.task, chunk, self.turns)
        self.alive = lifetimes(self.task.plan, timed, self.task.failures)
        self.state[:] = 0
        self.search.forget()
        self.rows, self.values = self.search._arrays(chunk, self.alive)
        self.held = _held(self.task, timed, self.turns)
        order = self.turns.order
        for part in np.flatnonzero(~foreseen).tolist():
            low, high = chunk.offsets[part : part + 2]
            if low < high:
                yield from self._partition(part, order[low:high])

    # -- one partition ------------------------------------------------------------------------------------------------

    def _partition(self, part: int, order: np.ndarray) -> Iterator[pa.Table]:
        self.here = here = _Partition()
        state = self.state
        state[c.S_PART], state[c.S_WAYS] = part, 0
        arcs = self.turns.arcs
        if arcs is not None:
            plot = arcs.plot(order, self.turns.kinds == PUNCTUATE)
            here.arcs, here.effects = plot.first, plot.effects
            self.search.use(self.search.present, arcs.given())
            self._arrange()
        here.needed = self._promised(order)
        self._step(lambda: kernels.begin(int(order[0]), self.graph, self.values, self.rows, self.search.room, self.task.limits.max_steps, state))
        self.initial = int(state[c.S_INITIAL])
        for action in self._actions(self._acting(order).tolist()):
            self._act(*action)
            if len(here.candidates) >= FLUSH:
                yield from self._told()
        yield from self._told()

    def _told(self) -> Iterator[pa.Table]:
        here = self.here
        here.number = yield from report(self.search, self.chunk, self.alive, int(self.state[c.S_PART]), here.candidates, here.number)
        here.candidates.clear()

    def _acting(self, order: np.ndarray) -> np.ndarray:
        """The rows that do anything when they come: most changes of arcs in default mode are foreseen from the start."""
        arcs = self.turns.arcs
        if arcs is None:
            return order
        quiet = self.turns.kinds == ARC
        quiet[list(self.here.effects)] = False
        if arcs.punctuates:
            quiet &= arcs.ops != of_arcs.PUNCTUATE
        return order[~quiet[order]]

    def _actions(self, order: list[int]) -> Iterator[tuple[int, list[int], int]]:
        """What happens, as (kind, rows, cause): rows that come one behind the other, each its own cause where that is -2; a row
        that goes; an arc that comes or goes; the punctuation that holds for rows and arcs, where one of either has come. The cause
        of what the end of the input does is -1."""
        kinds, partner, here = self.turns.kinds, self.turns.partner, self.here
        run: list[int] = []
        held: list[int] = []
        limit = None  # rows with times before it are not held back
        newest = -1
        promises = _Promises(self.turns.arcs)
        for row in order:
            kind = kinds[row]
            if kind == INSERT and self.rows.absent[row]:
                continue
            if kind == INSERT and self.held is not None and (limit is None or self.held.when[row] >= limit):
                insort(held, row)
                continue
            if kind == INSERT and row > newest:
                run.append(row)
                newest = row
                if len(run) == RUN:
                    yield INSERT, run, -2
                    run = []
                continue
            if run:
                yield INSERT, run, -2
                run = []
            if kind == INSERT:
                yield INSERT, [row], -2
            elif kind == ARC and row in here.effects:
                yield ARC, [row], row
            elif kind == PROMISE:
                yield PROMISE, [row], row
            elif kind in (PUNCTUATE, ARC):
                said = promises.effective(row, kind == ARC)
                if said < 0:
                    continue
                if self.held is not None and (limit is None or self.held.until[said] > limit):
                    limit = self.held.until[said]
                    count = bisect_left(held, limit, key=lambda r: self.held.when[r])
                    for free in held[:count]:
                        yield INSERT, [free], row
                        newest = max(newest, free)
                    del held[:count]
                yield PUNCTUATE, [said], row
            elif self.rows.absent[row] == 0:
                gone = int(partner[row])
                at = bisect_left(held, gone)
                if at < len(held) and held[at] == gone:
                    del held[at]
                else:
                    yield int(kind), [gone], row
        if run:
            yield INSERT, run, -2
        for free in held:
            yield INSERT, [free], -1
        yield PUNCTUATE, [-1], -1

    def _act(self, kind: int, rows: list[int], cause: int) -> None:
        if kind == PUNCTUATE:
            self._expire(rows[0], cause)
            self._clean(rows[0])
        elif kind == PROMISE:
            self._forget(rows[0])
        elif kind == ARC:
            self._change(rows[0], cause)
        elif kind == INSERT and (not self.here.live or rows[0] > self.here.live[-1]):
            self._append(rows, cause)
        elif kind == INSERT:
            self._insert(rows[0], rows[0] if cause == -2 else cause)
        else:
            self._delete(rows[0], cause)

    def _append(self, rows: list[int], cause: int) -> None:
        """Rows behind all that are there."""
        here = self.here
        before = here.live[-1] if here.live else -1
        taken = self._walk(rows, before, len(rows))
        for row, (records, found) in zip(rows, taken, strict=True):
            here.live.append(row)
            self._keep(row, records)
            here.found[row] = found
            here.turn += 1
            self._tell("insert", found, row if cause == -2 else cause)

    def _insert(self, row: int, cause: int) -> None:
        """A row that comes late."""
        here = self.here
        here.turn += 1
        at = bisect_left(here.live, row)
        before = here.live[at - 1] if at else -1
        follow = here.live[at : at + BLOCK]
        (records, found), *taken = self._walk([row, *follow], before, 1)
        self._remove(at, row, before, cause)
        here.live.insert(at, row)
        self._keep(row, records)
        here.found[row] = found
        self._tell("insert", found, cause)
        self._carried(follow, taken, cause)
        if follow and len(taken) == len(follow):
            self._propagate(at + 1 + len(follow), follow[-1], cause, taken[-1][0])

    def _delete(self, row: int, cause: int) -> None:
        """A row that goes."""
        here = self.here
        here.turn += 1
        at = bisect_left(here.live, row)
        self._tell("retract", here.found[row], cause)
        self._remove(at + 1, row + 1, row, cause)
        del here.live[at], here.found[row]
        here.bytes -= here.records.pop(row).nbytes
        if at:
            self._propagate(at, here.live[at - 1], cause)

    def _remove(self, at: int, place: int, before: int, cause: int) -> None:
        """Takes what begins before ``place`` away behind the rows from the ``at``-th on, where the row ``before`` them hands
        something over."""
        here = self.here
        crossing = before >= 0 and (len(here.records[before]) > 0 or before in here.crossed)
        while crossing and at < len(here.live):
            row = here.live[at]
            found = here.found[row]
            gone = [match for match in found if match.first < place and not match.words[c.M_EXPIRED]] if found else found
            if gone:
                self._tell("retract", gone, cause)
                here.found[row] = [match for match in found if match.first >= place or match.words[c.M_EXPIRED]]
            records = here.records[row]
            crossing = int(records[:, c.I_FIRST].searchsorted(place))
            if crossing:
                self._keep(row, _shifted(records[crossing:], -crossing))
            crossing = crossing > 0 or here.crossed.get(row, place) < place
            at += 1

    def _propagate(self, at: int, before: int, cause: int, records: np.ndarray | None = None) -> None:
        """Carries computations behind the row ``before``, all or these, over the rows from the ``at``-th on."""
        here, size = self.here, BLOCK
        records = here.records[before] if records is None else records
        while len(records) and at < len(here.live):
            rows = here.live[at : at + size]
            taken = self._walk(rows, before, 0, records)
            self._carried(rows, taken, cause)
            if len(taken) < len(rows):
                return
            at, before, size, records = at + len(rows), rows[-1], 2 * size, taken[-1][0]

    def _carried(self, rows: list[int], taken: list[tuple[np.ndarray, list[Match]]], cause: int) -> None:
        """Puts what was carried over rows in front of what stands behind them."""
        here = self.here
        for row, (records, found) in zip(rows, taken):
            if len(records):
                self._keep(row, np.concatenate([records, _shifted(here.records[row], len(records))]))
            if found:
                here.found[row] = found + here.found[row]
                self._tell("insert", found, cause)

    def _expire(self, row: int, cause: int) -> None:
        """Takes the arcs ON EXPIRY that are due by a punctuation, or by the end of the input. They are never undone."""
        here = self.here
        here.turn += 1
        until = c.ENDLESS - 1 if row < 0 else int(self.alive.when[row])
        since, here.promised = here.promised, max(here.promised, until)
        if not self.search.expires or until <= since:
            return
        for at in range(here.settled, len(here.live)):
            q = here.live[at]
            if self.alive.when[q] >= until:
                break
            ends = here.records[q][:, c.I_END]
            if at == here.settled and not ((ends > until) & (ends < c.ENDLESS)).any():  # nothing new begins before a punctuation
                here.settled += 1
            if ((ends > since) & (ends <= until)).any():
                before = here.live[at - 1] if at else -1
                further = here.live[at + 1] if at + 1 < len(here.live) else -1
                ((_, found),) = self._walk([q], before, 1, graph=self.whole, further=further)
                due = [match for match in found if match.words[c.M_EXPIRED] and since < match.words[c.M_END] <= until]
                here.found[q] = here.found[q] + due
                self._tell("insert", due, cause)

    # -- what punctuations leave without use --------------------------------------------------------------------------

    def _clean(self, row: int) -> None:
        """Drops what is behind rows that no change can come behind any more: the last row before the punctuation keeps its
        records."""
        here = self.here
        if row < 0 or not self.cleans:
            return
        until = bisect_left(here.live, self.turns.times[row], key=lambda q: self.turns.times[q]) - 1
        if self.search.expires:  # such arcs are taken by what stands behind the row before
            until = min(until, here.settled - 1)
        until = max(here.cleaned, until)
        for q in here.live[here.cleaned : until]:
            self._keep(q, here.records[q][:0].copy())
            here.found[q] = []
        here.cleaned = until
        if here.needed is not None:
            self._forget(row)

    def _promised(self, order: np.ndarray) -> Needed | None:
        """What tells which records are needed where punctuations are of rows with one value; None where they are not, or where it
        cannot be told: rows that go, or arcs that come, make neighbours of others, and what is held back has come already."""
        plan, turns = self.task.plan, self.turns
        if not self.cleans or not (turns.kinds[order] == PROMISE).any() or turns.arcs is not None or self.held is not None:
            return None
        if (turns.kinds[order] == RETRACT).any() or any(arc.on != "row" for arc in self.search.automaton.arcs):
            return None
        column = plan.changes.punctuate
        is_text = pa.types.is_string(self.chunk.columns[column].type) or pa.types.is_large_string(self.chunk.columns[column].type)
        return Needed(self.search.automaton, is_text, self.rows.packed, turns.times, values(self.chunk, column))

    def _forget(self, row: int) -> None:
        """Drops records from which no row that may still come leads to a match."""
        here = self.here
        if here.needed is None:
            return
        here.needed.promise(row)
        place = 0
        for place, states in here.needed.states(here.live):
            if place < here.cleaned:
                break
            self._drop(here.live[place], states)
        for q in here.live[max(here.cleaned, here.forgotten) : place]:
            self._drop(q, 0)
        here.forgotten = max(here.forgotten, place)

    def _drop(self, row: int, states: int) -> None:
        """Keeps records of these states alone behind a row."""
        here = self.here
        records = here.records[row]
        needed = np.array([states >> int(state) & 1 for state in records[:, c.I_STATE]], dtype=bool)
        if not needed.all():
            oldest = int(records[~needed, c.I_FIRST].min())
            here.crossed[row] = min(oldest, here.crossed.get(row, oldest))
            self._keep(row, records[needed].copy())

    # -- arcs ---------------------------------------------------------------------------------------------------------

    def _arrange(self) -> None:
        """Has the kernel see the arcs of the partition as they are now."""
        search, part = self.search, int(self.state[c.S_PART])
        low, high = self.chunk.offsets[part : part + 2]
        present = timetable(search.automaton, [self.here.arcs])
        search.use(present, search.given)
        self.values, self.whole, self.graph = search.values(), present.graph, _without_expiry(present.graph)
        self.rows.base[low:high] = present.base(0, self.turns.arcs.clock[low:high])
        self.state[c.S_BASE] = -1

    def _change(self, row: int, cause: int) -> None:
        """An arc that comes or goes, or ends earlier."""
        here, clock = self.here, self.turns.arcs.clock
        here.turn += 1
        effect = here.effects[row]
        lifetime = here.arcs[effect.of, BEGIN : END + 1]
        low, high = _between(tuple(lifetime.tolist()), (effect.begin, effect.end))
        lifetime[:] = effect.begin, effect.end
        if low >= high:
            return
        self._arrange()
        at, size = bisect_left(here.live, low, key=lambda q: clock[q]), BLOCK
        while at < len(here.live):
            rows = here.live[at : at + size]
            for q, (records, found) in zip(rows, self._walk(rows, here.live[at - 1] if at else -1, len(rows)), strict=True):
                as_before = self._as_before(here.records[q], records)
                self._keep(q, records)
                self._exchange(q, found, cause)
                if as_before and clock[q] >= high:
                    return
            at, size = at + len(rows), 2 * size

    def _as_before(self, old: np.ndarray, new: np.ndarray) -> bool:
        """Whether what goes on behind a row is what went on before; labels of rows are not compared."""
        others = np.arange(old.shape[1]) != c.I_WAY
        return old.shape == new.shape and not (self.search.labelled and len(old)) and np.array_equal(old[:, others], new[:, others])

    def _exchange(self, row: int, found: list[Match], cause: int) -> None:
        """Other matches end at the row now. None of them has expired, as no arc changes before a punctuation."""
        here = self.here
        old = here.found[row]
        before, after = ({self._same(match) for match in some} for some in (old, found))
        self._tell("retract", [match for match in old if self._same(match) not in after], cause)
        self._tell("insert", [match for match in found if self._same(match) not in before], cause)
        here.found[row] = found

    def _same(self, match: Match) -> tuple:
        """What equal matches have in common."""
        words = np.where((self.search.room.floating == 1) & (match.words == c.NEGATIVE_ZERO), 0, match.words)
        return match.first, words.tobytes(), match.labels.tobytes()

    # -- records and matches ------------------------------------------------------------------------------------------

    def _keep(self, row: int, records: np.ndarray) -> None:
        here = self.here
        here.bytes += records.nbytes - (here.records[row].nbytes if row in here.records else 0)
        here.records[row] = records
        if here.bytes > self.task.limits.max_state_bytes:
            raise self.task.failures.state(row, self.chunk.columns, "WINDOW, or conditions that fewer rows fulfil")

    def _tell(self, change: str, found: list[Match], cause: int) -> None:
        """Notes matches that come or go; their rows are those that are there now."""
        here = self.here
        here.matches += len(found) if change == "insert" else -len(found)
        if self.search.by_ways:
            self._tell_ways(change, found, cause)
            return
        for match in found:
            rows = here.live[bisect_left(here.live, match.first) : bisect_left(here.live, match.last) + 1]
            labels = match.labels[len(match.labels) - len(rows) :] if self.search.labelled else np.zeros(len(rows), dtype=np.uint8)
            here.candidates.append(Candidate(here.turn, change, cause, np.array(rows, dtype=np.int64), match.words, labels))

    def _tell_ways(self, change: str, found: list[Match], cause: int) -> None:
        """The same of matches of which the way tells the rows."""
        if not found:
            return
        at = c.M_WORDS + self.search.compiled.way
        sizes, rows, labels = self.search.ways(np.array([match.words[at] for match in found]))
        ends = np.cumsum(sizes)[:-1]
        for match, own, label in zip(found, np.split(rows, ends), np.split(labels, ends), strict=True):
            self.here.candidates.append(Candidate(self.here.turn, change, cause, own, match.words, label))

    # -- the kernel ---------------------------------------------------------------------------------------------------

    def _walk(
        self, rows: list[int], before: int, begins: int, records: np.ndarray | None = None, graph: c.Graph | None = None, further: int = -1
    ) -> list[tuple[np.ndarray, list[Match]]]:
        """The records and the matches behind each of the rows, from those behind the row ``before`` them; less where no computation
        is left; new ones begin at the first ``begins`` rows. ``further``: the row behind the one row, if an arc ON EXPIRY asks."""
        state, search = self.state, self.search
        if records is None:
            records = self.here.records[before] if before >= 0 else np.zeros((0, len(search.room.made)), dtype=np.int64)
        while search.room.ids.shape[1] < len(records):
            self._grow(c.RECORDS)
        state[c.S_SIDE], state[c.S_COUNT], state[c.S_INITIAL] = 0, len(records), self.initial if begins else 0
        state[c.S_EVENTS] = state[c.S_LABELS] = state[kernels.S_AT] = state[kernels.S_KEPT] = 0
        state[c.S_NUMBER] = self.here.matches
        search.room.ids[0, : len(records)] = records
        order, sizes, told = np.array(rows, dtype=np.int64), np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
        apart = self._apart(order, before)
        limits, high = self.task.limits, 0
        if further >= 0:
            high = int(order[0]) + 2
            seen = self.rows.when[high - 1], self.rows.absent[high - 1]
            self.rows.when[high - 1], self.rows.absent[high - 1] = self.alive.when[further], 0
        try:
            self._step(
                lambda: kernels.walk(
                    order, apart, high, begins, graph or self.graph, self.values, self.rows, search.room, search.labelled, limits.max_steps, limits.max_matches,
                    self.kept, sizes, told, state,
                )
            )
        finally:
            if further >= 0:
                self.rows.when[high - 1], self.rows.absent[high - 1] = seen
        if begins:
            self.initial = int(state[c.S_INITIAL])
        return self._taken(order, sizes, told)

    def _taken(self, order: np.ndarray, sizes: np.ndarray, told: np.ndarray) -> list[tuple[np.ndarray, list[Match]]]:
        state, room = self.state, self.search.room
        count = int(state[kernels.S_AT])
        kept, events = self.kept[: state[kernels.S_KEPT]].copy(), room.events[: state[c.S_EVENTS]]
        words, labels = room.matches[: state[c.S_EVENTS]].copy(), room.labels[: state[c.S_LABELS]].copy()
        labelled = self.search.labelled
        found = []
        for i, (_, first, size, _, begin) in enumerate(events.tolist()):
            found.append(Match(first, first + size - 1, words[i], labels[begin : begin + size] if labelled else labels[:0]))
        out, record, match = [], 0, 0
        for size, until in zip(sizes[:count].tolist(), told[:count].tolist()):
            out.append((kept[record : record + size], found[match:until]))
            record, match = record + size, until
        return out

    def _apart(self, order: np.ndarray, before: int) -> np.ndarray:
        """uint8: the rows to which no computation may step from the one before (CONSECUTIVE BY)."""
        apart = np.zeros(len(order), dtype=np.uint8)
        consecutive = self.task.plan.changes.consecutive
        if consecutive:
            column = self.chunk.columns[consecutive]
            numbers = column.take(pa.array([before, *order.tolist()], mask=[before < 0, *[False] * len(order)])).to_pylist()
            apart[:] = [a is None or b is None or a + 1 != b for a, b in zip(numbers, numbers[1:])]
        return apart

    def _step(self, call) -> None:
        """Calls a kernel until it is through. Raises MatchRuntimeError."""
        while True:
            outcome = call()
            if outcome == codes.DONE:
                return
            if outcome not in (codes.GROW, codes.FULL):
                raise self.search._failure(outcome, self.chunk)
            detail = int(self.state[c.S_DETAIL])
            self._grow(detail if outcome == codes.GROW else {c.MATCHES: -1, c.LABELS: -2}[detail])

    def _grow(self, what: int) -> None:
        search = self.search
        room = search.room
        if what == kernels.KEPT:
            self.kept = doubled(self.kept)
        elif what == c.RECORDS:
            ids = np.concatenate([room.ids, np.zeros_like(room.ids)], axis=1)
            size = 2 * len(room.stamps)
            room = room._replace(
                ids=ids, float_ids=ids.view(np.float64), stack=doubled(room.stack), walk=doubled(room.walk), stamps=np.zeros(size, dtype=np.int64),
                places=np.zeros(size, dtype=np.int64),
            )
        elif what == c.NUMBERED:
            search.more_numbered()
            room = search.room
        elif what == c.WAYS:
            room = room._replace(ways=doubled(room.ways))
        elif what == -2:
            room = room._replace(labels=doubled(room.labels))
        else:
            matches, size = doubled(room.matches), 2 * len(room.match_stamps)
            room = room._replace(
                events=doubled(room.events), matches=matches, float_matches=matches.view(np.float64), match_stamps=np.zeros(size, dtype=np.int64),
                match_places=np.zeros(size, dtype=np.int64),
            )
        search.room = room
        search._check(self.chunk)


class _Promises:
    """The last punctuations of rows and of arcs. ``arcs``: None where there are none, or nothing need be promised of them."""

    def __init__(self, arcs: of_arcs.ArcRows | None) -> None:
        self.arcs = arcs
        self.of_rows = self.of_arcs = -1

    def effective(self, row: int, of_arc: bool) -> int:
        """The row whose time no change comes before, once this punctuation has come; -1 where there is none."""
        if self.arcs is None or not self.arcs.punctuates:
            return row
        clock = self.arcs.clock
        if of_arc:
            self.of_arcs = row if self.of_arcs < 0 else max(self.of_arcs, row, key=lambda q: clock[q])
        else:
            self.of_rows = row if self.of_rows < 0 else max(self.of_rows, row, key=lambda q: clock[q])
        return -1 if min(self.of_rows, self.of_arcs) < 0 else min(self.of_rows, self.of_arcs, key=lambda q: clock[q])


def _between(old: tuple[int, int], new: tuple[int, int]) -> tuple[int, int]:
    """From and before which times two lifetimes differ."""
    if old[0] >= old[1] or new[0] >= new[1]:
        return new if old[0] >= old[1] else old
    low = min(old[0], new[0]) if old[0] != new[0] else min(old[1], new[1])
    return low, max(old[1], new[1]) if old[1] != new[1] else max(old[0], new[0])


def _without_expiry(graph: c.Graph) -> c.Graph:
    """The graph in which arcs ON EXPIRY are not taken."""
    kept = graph.arcs[graph.silent, c.A_ON] != c.ON_EXPIRY
    counts = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    return graph._replace(silent=graph.silent[kept], first_silent=counts[graph.first_silent])


def _timed(task: Task, chunk: Chunk, found: Turns) -> Chunk:
    """The chunk in which rows of ARCS FROM have their own times, and like punctuations no end of a lifetime, which nobody need give
    them."""
    columns, automaton = dict(chunk.columns), task.plan.automaton
    if found.arcs is not None:
        columns[automaton.time] = found.arcs.timed
    if automaton.lifetime:
        ends = columns[automaton.lifetime]
        columns[automaton.lifetime] = pc.if_else(pa.array(found.kinds >= PUNCTUATE), pa.scalar(None, ends.type), ends)
    return replace(chunk, columns=columns)


def _shifted(records: np.ndarray, by: int) -> np.ndarray:
    """Records that stand elsewhere in their list, and so do those that made them."""
    out = records.copy()
    out[:, c.I_PARENT] += np.where(out[:, c.I_PARENT] >= 0, by, 0)
    return out


@dataclass(frozen=True)
class Held:
    """How far rows are held back (SPECULATE): ``when`` each row is, and the time before which each punctuation releases them
    (``until``)."""

    when: np.ndarray
    until: np.ndarray


def _held(task: Task, chunk: Chunk, found: Turns) -> Held | None:
    """None where no rows are held back."""
    changes = task.plan.changes
    if changes.speculate == "ALL":
        return None
    if changes.size is None:
        return Held(found.times, found.times)
    rows = measured(changes.size, chunk.columns[task.plan.automaton.time], np.zeros(chunk.rows, dtype=np.int64), False)
    if rows.when.dtype.kind == "f":
        return Held(in_order(rows.when), in_order(rows.near))
    return Held(rows.when, rows.until + (rows.until < c.ENDLESS))
