"""The frontier over whole partitions: all runs advance side by side, row by row (:mod:`sparkcep.kernels.frontier.frontier`).

This module prepares the kernel's arrays, and computes the numbers and the graphs of the matches that end at each row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkcep.columns.arrays import boundaries
from sparkcep.compiler.liveness import columns_read, largest_counts, live_windows
from sparkcep.compiler.net.net import ACCEPT, E_AT_END, E_COST, E_VAR, Net
from sparkcep.compiler.searches import FRONT
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.kernel_loop import KernelLoop, OutputRoom, doubled, scratch, with_doubled
from sparkcep.engine.core.matches import WITH_ERRORS, MatchBatch
from sparkcep.engine.core.predicates import kernel_data
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import plan_windows
from sparkcep.engine.frontier.match_counts import MAX_COUNT
from sparkcep.engine.frontier.run_room import distinguished, empty_runs
from sparkcep.engine.match.gap_walk import CONTIGUITY, completion_ends, net_of, windowed
from sparkcep.kernels.common import layout
from sparkcep.kernels.common.run_chains import NONE
from sparkcep.kernels.frontier import frontier as fronts
from sparkcep.kernels.frontier import payload, run_classes
from sparkcep.kernels.frontier.graph_order import order_graphs
from sparkcep.kernels.vm import vm

CLASSES, NODES, STARTS, ENTRIES = 64, 1024, 8, 1 << 12  # initial sizes
SPARE = 2  # least rows of values after those of the classes
OUTPUT_ROWS, OUTPUT_ITEMS = 4096, 1 << 17  # limits of one output table
_NONE = np.zeros(0, dtype=np.int64)

# last rows, how many matches end at each (None if nothing asks for that), and their graphs as ``match_graphs`` takes them
Ended = tuple[np.ndarray, list[int] | None, np.ndarray, np.ndarray]


def front_arrays(net: Net) -> fronts.FrontArrays:
    """Returns the net with its edges grouped by variable."""
    edges = net.edges
    source = np.repeat(np.arange(net.nodes), np.diff(net.first))
    taking = np.flatnonzero(edges[:, E_VAR] >= 0)
    by_edge = taking[np.argsort(edges[taking, E_VAR], kind="stable")]
    count = len(net.variables)
    by_first = np.searchsorted(edges[by_edge, E_VAR], np.arange(count + 1)).astype(np.int64)
    accept, accept_end = (np.full(net.nodes, NONE, dtype=np.int64) for _ in range(2))
    for e in np.flatnonzero(edges[:, E_VAR] == ACCEPT).tolist():
        node = source[e]
        for target, fits in ((accept, not edges[e, E_AT_END]), (accept_end, True)):
            if fits and (target[node] < 0 or edges[e, E_COST] < edges[target[node], E_COST]):
                target[node] = e
    tested = sum(1 << v for v in range(count) if by_first[v + 1] > by_first[v])
    return fronts.FrontArrays(edges, by_first, by_edge, source.astype(np.int64), net.masks, accept, accept_end, np.int64(tested))


def empty_classes(nodes: int, size: int, windows: int) -> run_classes.Classes:
    """Makes room for ``size`` classes without values."""
    no_values = np.zeros((size, 0))
    return run_classes.Classes(
        head=np.full((1, nodes), NONE, dtype=np.int64),
        until=np.zeros(size, dtype=np.int64),
        pending=np.zeros((size, 2), dtype=np.int64),
        info=np.zeros((size, 4), dtype=np.int64),
        ends=np.zeros((size, windows), dtype=np.int64),
        hi=no_values.view(np.int64),
        hf=no_values,
        bits=no_values.view(np.int64),
        free=np.zeros(size, dtype=np.int64),
        table=np.zeros(4 * size, dtype=np.int64),
    )


class Frontier:
    """The net of a plan, and the values of a match that distinguish the futures of its runs."""

    def __init__(self, task: Task) -> None:
        self.task, prepared = task, task.prepared
        automaton, conditions = prepared.strategy.automaton, prepared.conditions
        self.net, self.nodes = front_arrays(automaton), automaton.nodes
        live = prepared.state_live
        self.distinguishing = live, live.any(axis=1).astype(np.uint8), live_windows(automaton), largest_counts(conditions), columns_read(conditions)


class FrontierSearch(KernelLoop):
    """The search over whole partitions.

    Attributes:
        by_class: the arrays of ``cargo`` that have a row for each class.
        cargo: the payload of the classes.
    """

    name = FRONT
    by_class: tuple[str, ...] = ()
    cargo: Any

    def __init__(self, front: Frontier, chunk: Chunk, pruning: bool) -> None:
        super().__init__(front.task, chunk)
        self.data = kernel_data(front.task.prepared, chunk)
        self.front, task, data = front, self.task, self.data
        self.windows, _ = plan_windows(task.plan.windows, chunk.columns, chunk.offsets)
        self.when, self.until = np.arange(chunk.rows), self.windows[0] - 1
        self.opens, self.slots = np.zeros((chunk.parts, layout.OPEN_FIELDS), dtype=np.int64), np.zeros(chunk.parts, dtype=np.int64)
        self.opens[:, layout.O_START], self.opens[:, layout.O_CUT] = chunk.offsets[:-1], chunk.cut
        self.state = np.zeros(fronts.FRONT_STATE, dtype=np.int64)
        columns = data.rows.ints, data.rows.flts.view(np.int64), data.rows.inull, data.rows.fnull
        self.classes = empty_classes(front.nodes, CLASSES, len(self.windows))
        # The values of classes follow those of the rows, so that a condition reads them like the values of an earlier row. The
        # values for the conditions of a finished match are last.
        work = scratch(task.prepared.conditions, chunk.rows + CLASSES + SPARE)
        work.labels[:] = vm.UNTAKEN
        ends = completion_ends(task.prepared, net_of(task.prepared), data, pruning)
        self.looking = fronts.Looking(run_classes.ClassValues(*front.distinguishing, *columns), self._ends(), ends, data.conditions, data.rows, work, np.int64(chunk.rows))
        self._place_values()

    def _place_values(self) -> None:
        if len(self.task.slots):
            hi, hf = (a[self.chunk.rows :] for a in (self.looking.scratch.hi, self.looking.scratch.hf))
            self.classes = self.classes._replace(hi=hi, hf=hf, bits=hf.view(np.int64))

    def carried(self) -> tuple:
        """Returns the payload as the kernel takes it: numbers, graph, runs."""
        raise NotImplementedError

    def _ends(self) -> np.ndarray:
        """Returns the first row outside each window that begins with a row. int64 (windows, rows).

        The windows of groups have additional low bits, which distinguish runs whose windows end at one row.
        """
        return np.concatenate([self.windows[:1], self.windows[1:] << fronts.BEGINS])

    def ends_by_begin(self) -> np.ndarray:
        """Returns :meth:`_ends` with runs distinguished if their groups began at different times.

        Whether two such windows end at the same row depends on later rows.
        """
        begins = np.arange(self.chunk.rows)
        found = FrontierSearch._ends(self)
        for window, ends in zip(self.task.plan.windows[1:], found[1:], strict=True):
            if window.order:
                new = boundaries([self.chunk.columns[window.order]], self.chunk.rows)[:-1]
                ends += new[np.searchsorted(new, begins, side="right") - 1]
            else:
                ends += begins
        return found

    def run(self) -> int:
        task, front = self.task, self.front
        return fronts.front_partitions(
            front.net, CONTIGUITY[task.plan.selection.strategy], task.limits.merging, windowed(task), self.data.rows.letters, self.chunk.offsets, self.when, self.until,
            self.opens, self.slots, np.int64(0), self.looking, self.classes, *self.carried(), self.state,
        )

    def grow(self) -> None:
        if self.state[layout.S_DETAIL] == fronts.CLASSES_FULL:
            self._more_classes()
        else:
            self.more_cargo()
        self.check(self.nbytes())

    def more_cargo(self) -> None:
        """Makes room for more payload."""
        raise NotImplementedError

    def nbytes(self) -> int:
        return sum(a.nbytes for a in (*self.classes, *self.cargo))

    def _more_classes(self) -> None:
        head, work, rows = self.classes.head, self.looking.scratch, self.chunk.rows
        self.classes = run_classes.Classes(*map(doubled, self.classes))._replace(head=head)
        self.classes.table[:] = 0
        self.cargo = with_doubled(self.cargo, *self.by_class)
        if len(self.task.slots):
            hi, hf = (np.concatenate([a, np.zeros_like(a[rows:])]) for a in (work.hi, work.hf))
            self.looking = self.looking._replace(scratch=work._replace(hi=hi, hf=hf, hbits=hf.view(np.int64)))
        self._place_values()
        if self.state[run_classes.F_HASHED]:
            run_classes.refill(self.classes)


class ClassRuns(FrontierSearch):
    """A search with runs in each class. Their matches are held until the search is done.

    ``by_cost``: whether a last row has a match for each cost.
    """

    by_class = ("run",)

    def __init__(self, front: Frontier, chunk: Chunk, by_cost: bool) -> None:
        super().__init__(front, chunk, False)
        self.room = OutputRoom(max(1024, chunk.rows // 4), chunk.rows + 1024, WITH_ERRORS, paths=True)
        self.cargo = distinguished(empty_runs(CLASSES, ENTRIES, chunk.positions, self.room), front.net.edges, by_cost)

    def keeps(self) -> bool:
        return True

    def widen(self, kept: bool) -> None:
        self.room.double()
        self.check(self.nbytes())

    def nbytes(self) -> int:
        return super().nbytes() + self.room.nbytes

    def found(self) -> MatchBatch:
        return self.room.found(self.state)


class LastRowSearch(FrontierSearch):
    """Computes an answer for each last row: the number of the matches that end there, or their graph."""

    def widen(self, kept: bool) -> None:
        """Does nothing: the output is already empty."""

    def found(self) -> Ended:
        output, state = self.cargo, self.state
        count, items = int(state[layout.S_EVENTS]), int(state[layout.S_LABELS])
        self.task.looks += int(state[fronts.R_LOOKS])
        state[layout.S_EVENTS] = state[layout.S_LABELS] = state[fronts.R_LOOKS] = 0
        rows, numbers = output.rows[:count].copy(), None
        if self.task.plan.counting or self.task.plan.sizing:
            numbers = [low + (high << 64) for low, high in output.totals[:count].tolist()]
            for row, about, number in zip(rows.tolist(), output.totals_about[:count].tolist(), numbers):
                # the words hold numbers modulo 2**128, more than a DECIMAL(38) holds
                if about >= 2 * MAX_COUNT or number >= 10**38:
                    raise self.task.failures.count(row, self.chunk.columns)
        return rows, numbers, *self.graphs(count, items)

    def graphs(self, count: int, items: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the graphs of ``count`` rows, as ``match_graphs`` takes them."""
        return _NONE, _NONE


class CountedMatches(LastRowSearch):
    """Counts the matches that end at each row."""

    by_class = ("sums", "about", "added", "added_about")

    def __init__(self, front: Frontier, chunk: Chunk) -> None:
        super().__init__(front, chunk, True)
        starts = STARTS if windowed(self.task) else 1
        self.cargo = payload.RunCounts(
            *_sums(CLASSES, starts), *_sums(CLASSES, starts), np.full(starts, -1, dtype=np.int64), np.zeros(OUTPUT_ROWS, dtype=np.int64), *_sums(OUTPUT_ROWS + 1),
        )

    def carried(self) -> tuple:
        return self.cargo, None, None

    def more_cargo(self) -> None:
        """Doubles the room for starts. A start is at its number modulo the room."""
        size = len(self.cargo.starts)
        numbers = np.arange(self.state[payload.K_OLDEST], self.state[payload.K_NEXT])
        fresh = {"starts": np.full(2 * size, -1, dtype=np.int64)}
        fresh["starts"][numbers % (2 * size)] = self.cargo.starts[numbers % size]
        for name in self.by_class:
            old = getattr(self.cargo, name)
            fresh[name] = np.zeros((old.shape[0], 2 * size, *old.shape[2:]), dtype=old.dtype)
            fresh[name][:, numbers % (2 * size)] = old[:, numbers % size]
        self.cargo = self.cargo._replace(**fresh)


class GraphedMatches(LastRowSearch):
    """Builds the graph of the matches that end at each row."""

    by_class = ("tail", "start")

    def __init__(self, front: Frontier, chunk: Chunk) -> None:
        super().__init__(front, chunk, True)
        working = [np.zeros(NODES, dtype=np.int64) for _ in range(6)]
        self.cargo = payload.GraphArrays(
            *(np.zeros(CLASSES, dtype=np.int64) for _ in range(2)), np.zeros((NODES, 6), dtype=np.int64), *working, *_sums(NODES), np.zeros(OUTPUT_ROWS, dtype=np.int64),
            *_sums(OUTPUT_ROWS), np.zeros(OUTPUT_ROWS + 1, dtype=np.int64), np.zeros((OUTPUT_ITEMS, 5), dtype=np.int64),
        )

    def carried(self) -> tuple:
        return None, self.cargo, None

    def _ends(self) -> np.ndarray:
        """Returns :meth:`ends_by_begin`, because a graph may only depend on the rows up to its last row."""
        return self.ends_by_begin()

    def more_cargo(self) -> None:
        if not payload.drop_nodes(self.cargo, self.state):
            nodes = payload.GraphArrays._fields[2:11]
            self.cargo = with_doubled(self.cargo, *nodes)

    def widen(self, kept: bool) -> None:
        """Makes room for a graph that did not fit into the empty output."""
        if self.wanted > len(self.cargo.items):
            self.cargo = self.cargo._replace(items=np.zeros((2 * self.wanted, 5), dtype=np.int64))

    def graphs(self, count: int, items: int) -> tuple[np.ndarray, np.ndarray]:
        self.wanted = 0 if count else int(self.state[layout.S_DETAIL])
        until, nodes = self.cargo.until[: count + 1], self.cargo.items[:items]
        if count:
            order_graphs(until, nodes, int(np.diff(self.chunk.offsets).max()))
        return until, nodes


def _sums(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns zeros, as two words each and as floats."""
    return np.zeros((*shape, 2), dtype=np.uint64), np.zeros(shape, dtype=np.float64)
