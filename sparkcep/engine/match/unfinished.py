"""SHOW UNFINISHED MATCHES: the matches of whole partitions, and the farthest run of each start row without one.

The search for matches knows nothing of runs, so they cannot change it. Afterwards the farthest run of each start row without a
match is searched (:mod:`sparkcep.kernels.match.unfinished`). Such a search visits each state once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import null_marks, words
from sparkcep.columns.types import type_of
from sparkcep.compiler.conditions.time_zones import transitions
from sparkcep.compiler.net.net import ACCEPT, E_NOT, E_TARGET, E_VAR, Net
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.kernel_loop import KernelLoop, doubled, scratch
from sparkcep.engine.core.matches import WIDTH, MatchBatch, together, unmatched
from sparkcep.engine.core.operator import Found
from sparkcep.engine.core.resume import NOTHING_OPEN
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import Moments
from sparkcep.engine.match.enumeration import Matches, MatchSearch
from sparkcep.engine.match.gap_walk import CONTIGUITY
from sparkcep.errors import MatchRuntimeError
from sparkcep.kernels.common import layout
from sparkcep.kernels.common.layout import E_LABELS, E_NUMBER, E_ROWS, E_START
from sparkcep.kernels.match import unfinished as kernels
from sparkcep.kernels.vm.vm import UNTAKEN
from sparkcep.plan.facts import variables_in
from sparkcep.plan.json import wrong
from sparkcep.plan.options import MICROS, NUMBER
from sparkcep.plan.records import ALL_ROWS, Unfinished, masks_of

MATCHED = 3  # the status of a match, after those of runs
STATUS = ("OPEN", "TIMED OUT", "BROKEN", "MATCHED")
_NO_MOMENT = -kernels.NEVER
MEMO_ENTRIES = 1 << 12


class PartitionClock(NamedTuple):
    """The clock of partitions, and the moments of their order column; None if no window is one of time."""

    windows: kernels.WindowClock
    moments: Moments | None


class UnfinishedMatches:
    """Answers for whole partitions."""

    def __init__(self, task: Task, search: MatchSearch) -> None:
        self.task, self.search = task, search
        net = task.prepared.strategy.automaton
        self.deep, self.needed, self.levels = _places_of(net)
        self.negated_after, self.mixed = _negated_after(net, len(task.plan.variables))
        self.at_once = _at_once(task, net)
        self.expected = [[task.plan.variables[v] for v in dict.fromkeys(net.edge(e).variable for e in net.edges_of(node)) if v != ACCEPT] for node in range(net.nodes)]
        self.several = net.ambiguous and any(leaf.spec.kind == "expected" for leaf in task.plan.leaves)
        self.entries = MEMO_ENTRIES

    @property
    def shown(self) -> Unfinished:
        """The option."""
        assert self.task.plan.unfinished is not None
        return self.task.plan.unfinished

    def answer(self, chunk: Chunk) -> Iterator[Found]:
        """Yields the matches and the unfinished ones, by first row."""
        over = self.search.over(chunk, NOTHING_OPEN)
        matches = matches_of(over)
        clock = self.clock(chunk, over.windows)
        runs = RunSearch(self, over, kernels.Starts(*self.starts(chunk, matches), self.all_starts), clock.windows)
        farthest = runs.all()
        unmatched_rows = (lambda marks: np.flatnonzero(marks == 0)) if self.task.plan.rows == "unmatched" else None
        yield Found(chunk, self.shown_of(matches, farthest, runs, clock, unmatched_rows))

    @property
    def all_starts(self) -> bool:
        """Whether a start row inside an unfinished match has one of its own."""
        return self.task.plan.skip.mode == "next_row"

    def shown_of(
        self, matches: MatchBatch, farthest: MatchBatch, runs: RunSearch, clock: PartitionClock, in_none: Callable[[np.ndarray], np.ndarray] | None, marks: np.ndarray | None = None,
    ) -> MatchBatch:
        """Returns what the option shows, by first row.

        Args:
            matches: the matches.
            farthest: the unfinished matches, which ``runs`` found.
            runs: the search for them.
            clock: the clock of their partitions.
            in_none: returns the rows to show that are in no match, given the marks of those that are in one. None: no row is shown.
            marks: 1 for rows in earlier matches. It gets those of the matches. uint8 (rows).
        """
        chunk, over = runs.chunk, runs.over
        ended = runs.ends[farthest.events[:, E_NUMBER]]
        farthest.events[:, E_NUMBER] = kernels.UNFINISHED
        if self.shown.report == "TIMEOUT":
            late = np.flatnonzero(ended[:, kernels.D_STATUS] == kernels.TIMED_OUT)
            farthest, ended = farthest.chosen(late), ended[late]
        elif chunk.watermark is not None:
            ends_known = np.flatnonzero(ended[:, kernels.D_STATUS] != kernels.OPEN)
            farthest, ended = farthest.chosen(ends_known), ended[ends_known]
        both = together([matches, farthest])
        ends = np.zeros((len(both.events), kernels.END), dtype=np.int64)
        ends[:, kernels.D_STATUS] = MATCHED
        ends[len(matches.events) :] = ended
        self._matched(both, ends, len(matches.events), clock.windows, over)
        if in_none is not None:
            marks = np.zeros(chunk.rows, dtype=np.uint8) if marks is None else marks
            both.mark(marks)
            marks[both.events[both.events[:, E_ROWS] == 0, E_START]] = 1
            rest = unmatched(in_none(marks), chunk)
            both = together([both, MatchBatch(rest.events[:, :WIDTH], rest.labels, rest.rows)])
            ends = np.concatenate([ends, np.array([[-1, -1, _NO_MOMENT, 0, 0]] * len(rest.events), dtype=np.int64).reshape(-1, kernels.END)])
        order = np.argsort(both.events[:, E_START], kind="stable")
        chosen = both.chosen(order)
        chosen.by_event.update(self._values(chunk, ends[order], runs.out.nodes, clock.moments))
        return chosen

    def starts(self, chunk: Chunk, matches: MatchBatch) -> tuple[np.ndarray, np.ndarray]:
        """Marks the rows where a match was tried and not found. Also counts the matches of the partition before each row."""
        events, skip = matches.events, self.task.plan.skip
        first, sizes = events[:, E_START], events[:, E_ROWS]
        after = first + 1
        some = np.flatnonzero(sizes > 0)
        last = events[some, E_LABELS] + sizes[some] - 1
        if skip.mode == "past_last":
            after[some] = matches.rows[last] + 1
        elif skip.mode in ("first", "last") and len(some):
            target = (skip.targets >> (matches.labels.astype(np.int64) & 63)) & 1 == 1
            missing = chunk.rows if skip.mode == "first" else -1
            rows = np.where(target, matches.rows, missing)
            reduce = np.minimum if skip.mode == "first" else np.maximum
            after[some] = reduce.reduceat(rows, events[some, E_LABELS])
        taken = np.zeros(chunk.rows + 1, dtype=np.int64)
        np.add.at(taken, first, 1)
        np.add.at(taken, after, -1)
        begun = np.concatenate([[0], np.cumsum(np.bincount(first, minlength=chunk.rows))])
        sizes_of = np.diff(chunk.offsets)
        numbers = begun[:-1] - np.repeat(begun[chunk.offsets[:-1]], sizes_of)
        return (np.cumsum(taken[:-1]) <= 0).astype(np.uint8), numbers

    def clock(self, chunk: Chunk, ends: np.ndarray) -> PartitionClock:
        """Returns when the window of each row ends, and the clock of each partition. Without a clock, rows are counted.

        Over a stream the watermark is the clock.
        """
        plan, shown = self.task.plan, self.shown
        high = np.repeat(chunk.offsets[1:], np.diff(chunk.offsets))
        if not shown.clock:
            return PartitionClock(kernels.WindowClock(np.where(ends < high, ends, kernels.NEVER), np.full(chunk.parts, _NO_MOMENT), ends, np.zeros(chunk.rows, dtype=np.uint8)), None)
        column = chunk.columns[shown.order]
        moments = Moments(column.type, plan.order[0].descending)
        at, null = moments.of(column)
        at = np.where(null, _NO_MOMENT, at)
        closing = np.empty((len(plan.windows), chunk.rows), dtype=np.int64)
        differing = ends.copy()
        for w, window in enumerate(plan.windows):
            if window.kind in (MICROS, NUMBER):
                differing[w] = closing[w] = moments.ends(column, window)
            else:  # a row ends the window, no clock
                closing[w] = np.where(ends[w] < high, at[np.minimum(ends[w], chunk.rows - 1)], kernels.NEVER)
        now = np.full(chunk.parts, _NO_MOMENT)
        np.maximum.at(now, np.repeat(np.arange(chunk.parts), np.diff(chunk.offsets)), at)
        now = np.maximum(now, self._latest(chunk, moments))
        return PartitionClock(kernels.WindowClock(closing, now, differing, null.astype(np.uint8)), moments)

    def _latest(self, chunk: Chunk, moments: Moments) -> int:
        """Returns the time that the input is known up to: the watermark of a stream, AS OF, or the latest time of a table."""
        if chunk.watermark is not None:
            return chunk.watermark + 1  # all future rows are later than the watermark
        if self.shown.clock not in chunk.columns:
            raise wrong(f"the input lacks the column {self.shown.clock}")
        values, unknown = moments.of(_cast(chunk.columns[self.shown.clock], moments.type, self.shown, self.task.plan.zone))
        if self.shown.dated and unknown.any():
            raise _wrong_clock(self.shown, "AS OF is NULL, so no window ends by it. Write a time, or leave AS OF out", "22004")
        return int(values[0]) if chunk.rows and not unknown[0] else _NO_MOMENT

    def _matched(self, both: MatchBatch, ends: np.ndarray, count: int, clock: kernels.WindowClock, over) -> None:
        """Sets when each match ended: with its last row, or with the WINDOW of a negation after that row."""
        events = both.events[:count]
        some = np.flatnonzero(events[:, E_ROWS] > 0)
        last = events[some, E_LABELS] + events[some, E_ROWS] - 1
        ends[:count, kernels.D_ROW] = -1
        ends[:count, kernels.D_MOMENT] = _NO_MOMENT
        ends[some, kernels.D_ROW] = both.rows[last]
        if (self.negated_after or self.mixed) and self.task.plan.windows[0].kind in (MICROS, NUMBER):
            of = both.labels[last].astype(np.int64) & 63
            late = some[(self.negated_after >> of) & 1 == 1]
            unclear = some[(self.mixed >> of) & 1 == 1]
            late = np.concatenate([late, unclear[[self._completed_by_negation(both, event, over) for event in unclear]]]) if len(unclear) else late
            ends[late, kernels.D_ROW] = -1
            ends[late, kernels.D_MOMENT] = clock.closing[0, events[late, E_START]]

    def _completed_by_negation(self, matches: MatchBatch, event: int, over) -> bool:
        """Returns whether a match was complete only with a negation after its last row."""
        net, (start, size, at) = self.task.prepared.strategy.automaton, matches.events[event, [E_START, E_ROWS, E_LABELS]].tolist()
        nodes = [0]
        for label in matches.labels[at : at + size].tolist():
            edges = [net.edge(e) for node in nodes for e in net.edges_of(node)]
            nodes = list(dict.fromkeys(edge.target for edge in edges if edge.variable == label & 63))
        last, end = int(matches.rows[at + size - 1]), over.spans.windows[0, start]
        for edge in (net.edge(e) for node in nodes for e in net.edges_of(node)):
            if edge.variable == ACCEPT and not any(edge.negated >> v & 1 and over.negated.nearest[v, last + 1] < end for v in range(len(over.negated.nearest)) if int(over.negated.local) >> v & 1):
                return edge.negated != 0
        return False

    def _values(self, chunk: Chunk, ends: np.ndarray, nodes: np.ndarray, moments: Moments | None) -> dict[str, pa.Array]:
        """Returns the values of MATCH_STATUS(), MATCH_ENDED_AT() and MATCH_EXPECTED() of each event."""
        kinds = {leaf.spec.kind for leaf in self.task.plan.leaves}
        status, found = ends[:, kernels.D_STATUS], {}
        if "status" in kinds:
            found["status"] = pa.array(STATUS).take(pa.array(status, mask=status < 0))
        if "expected" in kinds:
            found["expected"] = self._expected(nodes, ends[:, kernels.D_NODES], ends[:, kernels.D_COUNT])
        if "ended" in kinds:
            found["ended"] = self._ended(chunk, ends, moments)
        return found

    def _expected(self, nodes: np.ndarray, first: np.ndarray, counts: np.ndarray) -> pa.Array:
        """Returns for each event the variables that may come next at any of its nodes."""
        several = {i: nodes[first[i] : first[i] + counts[i]].tolist() for i in np.flatnonzero(counts > 1).tolist()}
        lists = [*self.expected, [], *(list(dict.fromkeys(name for node in some for name in self.expected[node])) for some in several.values())]
        at = np.full(len(counts), len(self.expected), dtype=np.int64)
        at[counts == 1] = nodes[first[counts == 1]]
        at[list(several)] = len(self.expected) + 1 + np.arange(len(several))
        return pa.array(lists, pa.list_(pa.string())).take(pa.array(at))

    def _ended(self, chunk: Chunk, ends: np.ndarray, moments: Moments | None) -> pa.Array:
        column, status = chunk.columns[self.shown.order], ends[:, kernels.D_STATUS]
        at, when = ends[:, kernels.D_ROW].copy(), ends[:, kernels.D_MOMENT]
        timed = (status == kernels.TIMED_OUT) | ((status == MATCHED) & (at < 0) & (when > _NO_MOMENT))
        if moments is None:
            at = np.where(status == kernels.TIMED_OUT, when, at)
            timed = np.zeros(len(ends), dtype=bool)
        by_row = column.take(pa.array(np.maximum(at, 0), mask=(at < 0) | timed | (status == kernels.OPEN)))
        if moments is None or not timed.any():
            return by_row
        missing = ~timed | (when == _NO_MOMENT)
        values = moments.values(np.where(missing, 0, when), missing)
        if values.null_count > missing.sum() or (when[timed] == kernels.NEVER).any():
            message = f"MATCH_ENDED_AT() does not fit into {values.type}. Cast the ORDER BY expression to a wider type"
            raise MatchRuntimeError("ARITHMETIC_OVERFLOW", message, sqlstate="22003")
        return pc.if_else(pa.array(timed), values, by_row)


class RunSearch(KernelLoop):
    """The search for the farthest run of each start row of a chunk."""

    name = "farthest runs"

    def __init__(self, owner: UnfinishedMatches, over, starts: kernels.Starts, clock: kernels.WindowClock, growing: kernels.Growing | None = None) -> None:
        super().__init__(owner.task, over.chunk)
        self.owner, self.over, self.starts, self.clock, self.growing = owner, over, starts, clock, growing
        prepared, rows = owner.task.prepared, over.chunk.rows
        net = over.search.net
        self.remembers = over.search.remembers and not over.search.negations.late  # such a negation reads rows before the failed one
        self.strategy = CONTIGUITY[owner.task.plan.selection.strategy]
        self.key = 3 + len(owner.task.plan.windows) - 1 + 2 * len(prepared.conditions.slots)
        depth = len(over.work.frames)
        self.state = np.zeros(layout.SELECTION_STATE, dtype=np.int64)
        if growing is not None:
            self.state[[layout.S_START, layout.S_COVERED]] = growing.begin[0], growing.covered[0]
        self.places = kernels.Places(owner.deep, owner.needed, *_following(net.masks, over.data.rows.letters, self.strategy == layout.NEXT), owner.levels, owner.at_once & over.negated.late, int(owner.several))
        self.scratch = scratch(prepared.conditions, rows + 2, entries=owner.entries, width=self.key)
        self.scratch.labels[:] = UNTAKEN
        self.work = kernels.RunWork(
            np.empty((depth, kernels.FRAME), dtype=np.int64), np.full((depth, len(owner.task.plan.windows)), -1, dtype=np.int64),
            np.empty(depth, dtype=np.int64), np.empty(depth, dtype=np.uint8), np.zeros(kernels.END, dtype=np.int64),
            np.empty(len(net.masks), dtype=np.int64), np.zeros((owner.entries, owner.levels), dtype=np.int64), over.work.path, over.work.within,
        )
        size = max(1024, rows // 8)
        self.out = kernels.FarthestRuns(np.zeros((size, WIDTH), dtype=np.int64), np.empty(2 * size, dtype=np.uint8), np.empty(2 * size, dtype=np.int64), np.zeros((size, kernels.END), dtype=np.int64), np.empty(size, dtype=np.int64))

    @property
    def ends(self) -> np.ndarray:
        """How each run ended, see :mod:`sparkcep.kernels.match.unfinished`."""
        return self.out.ends

    def all(self) -> MatchBatch:
        """Returns the farthest runs of all start rows."""
        return together([_kept(batch) for batch in self.rounds()])

    def run(self) -> int:
        over = self.over
        return kernels.farthest_runs(
            over.search.net, over.how, self.remembers, over.spans, over.negated, self.places, self.starts, self.clock,
            over.data.conditions, over.data.rows, self.scratch, self.work, self.state, self.out, self.growing,
        )

    def keeps(self) -> bool:
        return True

    def widen(self, kept: bool) -> None:
        events, labels, rows, ends, nodes = self.out
        if self.state[layout.S_EVENTS] == len(events):
            events, ends = doubled(events), doubled(ends)
        used = int(ends[:, [kernels.D_NODES, kernels.D_COUNT]].sum(axis=1).max(initial=0))
        while used + int(self.work.best[kernels.D_COUNT]) > len(nodes):
            nodes = doubled(nodes)
        while self.state[layout.S_LABELS] + self.state[layout.S_DETAIL] > len(labels):
            labels, rows = doubled(labels), doubled(rows)
        self.out = kernels.FarthestRuns(events, labels, rows, ends, nodes)
        self.check(sum(array.nbytes for array in self.out))

    def grow(self) -> None:
        self.owner.entries *= 2
        fresh = scratch(self.task.prepared.conditions, 1, entries=self.owner.entries, width=self.key)
        reached = np.zeros((self.owner.entries, self.owner.levels), dtype=np.int64)
        self.check(fresh.entries.nbytes + fresh.table.nbytes + reached.nbytes)
        self.scratch = self.scratch._replace(entries=fresh.entries, alive=fresh.alive, table=fresh.table, key=fresh.key)
        self.work = self.work._replace(reached=reached)
        self.state[layout.S_ENTRIES] = 0

    def found(self) -> MatchBatch:
        count, used = self.state[layout.S_EVENTS], self.state[layout.S_LABELS]
        return MatchBatch(self.out.events[:count], self.out.labels[:used], self.out.rows[:used])


def matches_of(search: Matches) -> MatchBatch:
    """Returns all matches of a search, without rows in no match."""
    found = together([_kept(batch) for batch in search.rounds()])
    return found.chosen(np.flatnonzero(found.events[:, E_ROWS] >= 0))


def _kept(batch: MatchBatch) -> MatchBatch:
    """Returns a copy of a batch, which is valid after the next one is requested."""
    return MatchBatch(batch.events.copy(), batch.labels.copy(), batch.rows.copy())


def _following(masks: np.ndarray, letters: np.ndarray, wanted: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each set of letters and row the first row from there on with one of them, and the set of each node.

    The first is int32 (sets, rows + 1), without columns if it is not ``wanted``.
    """
    sets, of = np.unique(masks, return_inverse=True)
    found = np.empty((len(sets), len(letters) + 1 if wanted else 0), dtype=np.int32)
    if wanted:
        kernels.rows_with(letters, sets, found)
    return found, of.astype(np.int64)


def _places_of(net: Net) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns the rank of each edge's depth, the rows that each node needs, and the number of depths.

    The depth of a place is the fewest rows that a way from the beginning needs to take it.
    """
    far = np.iinfo(np.int32).max
    begin, needed = np.full(net.nodes, far, dtype=np.int64), np.full(net.nodes, far, dtype=np.int64)
    begin[0] = 0
    taking = net.edges[:, E_VAR] != ACCEPT
    source = np.repeat(np.arange(net.nodes), np.diff(net.first))
    needed[np.unique(source[~taking])] = 0
    source, target, places = source[taking], net.edges[taking, E_TARGET], net.places[taking]
    for _ in range(net.nodes):
        before = begin.copy(), needed.copy()
        np.minimum.at(begin, target, begin[source] + 1)
        np.minimum.at(needed, source, needed[target] + 1)
        if (before[0] == begin).all() and (before[1] == needed).all():
            break
    depth = np.zeros(len(net.edges), dtype=np.int64)
    edge_depth = begin[source] + 1
    of_place = {place: int(edge_depth[places == place].min()) for place in np.unique(places).tolist()}
    ranks = {d: i for i, d in enumerate(sorted(set(of_place.values())))}
    depth[np.flatnonzero(taking)] = [ranks[of_place[place]] for place in places.tolist()]
    return depth, needed, max(len(ranks), 1)


def _at_once(task: Task, net: Net) -> np.ndarray:
    """Returns for each edge the negated variables whose condition reads only rows that are known when the edge may be taken. int64
    (edges)."""
    reads = {c.variable: [mask for tree in c.trees for mask in masks_of(tree)] for c in task.plan.conditions}
    own = {v: 1 << v for v in range(len(task.plan.variables))} | {group.variable: variables_in(group.pattern) for group in task.plan.without}
    reads |= {group.variable: [mask for v, masks in reads.items() if own[group.variable] >> v & 1 for mask in masks] for group in task.plan.without}
    coming = [0] * net.nodes  # the variables that may take rows from each node on
    for _ in range(net.nodes):
        before = list(coming)
        for node in range(net.nodes):
            for edge in map(net.edge, net.edges_of(node)):
                coming[node] |= (1 << edge.variable | coming[edge.target]) if edge.variable != ACCEPT else 0
        if before == coming:
            break
    found = np.zeros(len(net.edges), dtype=np.int64)
    for e in range(len(net.edges)):
        edge = net.edge(e)
        to_come = (1 << edge.variable | coming[edge.target]) if edge.variable != ACCEPT else 0
        for v in range(len(task.plan.variables)):
            if edge.negated >> v & 1 and not any(to_come if mask == ALL_ROWS else to_come & mask & ~own[v] for mask in reads.get(v, ())):
                found[e] |= 1 << v
    return found


def _negated_after(net: Net, variables: int) -> tuple[int, int]:
    """Returns two masks of variables: a match that ends with their row always, or on some ways only, has a negation after it."""
    found = mixed = 0
    for v in range(variables):
        targets = {int(edge[E_TARGET]) for edge in net.edges if edge[E_VAR] == v}
        ends = [edge for node in targets for edge in net.edges[net.first[node] : net.first[node + 1]] if edge[E_VAR] == ACCEPT]
        found |= bool(ends and all(edge[E_NOT] for edge in ends)) << v
        mixed |= bool(any(edge[E_NOT] for edge in ends) and not all(edge[E_NOT] for edge in ends)) << v
    return found, mixed


def _wrong_clock(shown: Unfinished, message: str, sqlstate: str) -> MatchRuntimeError:
    """The error for a value of AS OF, at the place of the option."""
    return MatchRuntimeError("UNFINISHED", message, sqlstate=sqlstate, line=shown.line, column=shown.column, fragment=shown.text)


def _by_clock(column: pa.Array, zone: str) -> pa.Array:
    """Returns TIMESTAMPs as TIMESTAMP_NTZ by the clock of a time zone."""
    micros, table = words(column), transitions(zone)
    offsets = table[np.searchsorted(table[:, 0], micros, side="right") - 1, 1]
    return pa.array(micros + offsets, mask=null_marks(column).astype(bool)).cast(pa.timestamp("us"))


def _cast(column: pa.Array, target: pa.DataType, shown: Unfinished, zone: str) -> pa.Array:
    """Returns the clock in the type of the order column, for a DATE or TIMESTAMP_NTZ by the session's clock (`zone`).

    Raises MatchRuntimeError if it cannot be cast.
    """
    of_clock = type_of(column.type).kind == "timestamp" and type_of(target).kind != "timestamp"
    try:
        return column if column.type == target else (_by_clock(column, zone) if of_clock else column).cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        asked, order = (str(type_of(t)).upper() for t in (column.type, target))
        message = f"AS OF is of type {asked}, which is not a time of the first ORDER BY expression, of type {order}. Write a value of that type"
        raise _wrong_clock(shown, message, "22018") from error
