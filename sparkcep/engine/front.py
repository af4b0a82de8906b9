"""Runs side by side, row by row: those of equal futures are one class (SASE+, sections 5.1 to 5.3). A class carries numbers of
matches, or their graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparkcep.automaton.strategy import FRONT
from sparkcep.engine.buffer import Chunk
from sparkcep.engine.drive import Round, doubled, scratch
from sparkcep.engine.live import columns_read, live_windows, only_present
from sparkcep.engine.numbers import MAX_COUNT
from sparkcep.engine.prepared import Task
from sparkcep.engine.walk import CONTIGUITY, completion_ends, net_of, windowed
from sparkcep.engine.windows import plan_windows
from sparkcep.search import machine
from sparkcep.search import merged as merging

CLASSES, NODES, STARTS = 64, 1024, 8  # places at first
OUTPUT_ROWS, OUTPUT_ITEMS = 4096, 1 << 17  # of one table

# last rows, how many matches end at each (None where nobody asks), and their graphs as ``match_graphs`` takes them
Ended = tuple[np.ndarray, list[int] | None, np.ndarray, np.ndarray]


class Front:
    """Finds the last rows of matches; ``drawing``: with their graphs."""

    def __init__(self, task: Task, drawing: bool) -> None:
        self.task, self.drawing = task, drawing
        automaton, conditions = task.prepared.strategy.automaton, task.prepared.conditions
        self.net = net_of(task.prepared)
        self.window_live = live_windows(automaton)
        self.present = only_present(conditions)
        self.read = columns_read(conditions)

    def of(self, chunk: Chunk) -> Iterator[Ended]:
        """The last rows of whole partitions, some at a time."""
        return _Round(self, chunk).rounds()


class _Round(Round):
    name, place, detail = FRONT, merging.M_ROW, merging.M_DETAIL

    def __init__(self, front: Front, chunk: Chunk) -> None:
        super().__init__(front.task, chunk)
        self.front, prepared = front, self.task.prepared
        self.windows, _ = plan_windows(self.task.plan.windows, chunk.columns, chunk.offsets)
        self.windowed = windowed(self.task)
        self.ends = completion_ends(prepared, front.net, self.data, True)
        self.scratch = scratch(prepared.conditions, chunk.rows + 1)
        self.scratch.labels[:] = machine.UNTAKEN
        starts = STARTS if self.windowed and not front.drawing else 1
        self.classes = _classes(CLASSES, self.windows.shape[0], len(self.task.slots), starts)
        self.graph = _graph(NODES)
        self.output = _output(OUTPUT_ITEMS if front.drawing else 1)
        self.state = np.zeros(merging.MERGED_STATE, dtype=np.int64)

    def run(self) -> int:
        front = self.front
        return merging.merge_partitions(
            front.net, CONTIGUITY[self.task.plan.selection.strategy], self.task.limits.merging, merging.GRAPHS if front.drawing else merging.COUNTS, self.windowed,
            self.windows, front.window_live, front.present, front.read, self.ends, self.ends.shape[1] > 0, self.data.conditions, self.data.rows, self.scratch,
            np.int64(self.chunk.rows), self.classes, self.graph, self.output, self.state,
        )

    def grow(self) -> None:
        if self.state[merging.M_DETAIL] == merging.CLASSES_FULL:
            self.classes = _grown_classes(self.classes, self.state)
        elif self.state[merging.M_DETAIL] == merging.STARTS_FULL:
            self.classes = _more_starts(self.classes, self.state)
        else:
            self.graph = merging.Graph(*map(doubled, self.graph))
        self.check(sum(a.nbytes for a in (*self.classes, *self.graph)))

    def widen(self, kept: bool) -> None:
        """The output is empty now; a graph that did not fit into it has its size in the state."""
        if self.wanted > len(self.output.items):
            self.output = _output(2 * self.wanted)

    def found(self) -> Ended:
        output, state, plan = self.output, self.state, self.task.plan
        count, items = int(state[merging.M_OUT]), int(state[merging.M_ITEMS])
        self.wanted = 0 if count else int(state[merging.M_DETAIL])
        self.task.looks += int(state[merging.M_LOOKS])
        state[merging.M_OUT] = state[merging.M_ITEMS] = state[merging.M_LOOKS] = 0
        rows, numbers = output.rows[:count].copy(), None
        if plan.counting:
            numbers = [low + (high << 64) for low, high in output.sums[:count].tolist()]
            for row, about, number in zip(rows.tolist(), output.about[:count].tolist(), numbers):
                # the words hold numbers modulo 2**128, which is above what a DECIMAL(38) holds
                if about >= 2 * MAX_COUNT or number >= 10**38:
                    raise self.task.failures.count(row, self.chunk.columns)
        return rows, numbers, output.until[: count + 1], output.items[:items]


def _classes(size: int, windows: int, slots: int, starts: int) -> merging.Classes:
    hf = np.zeros((size, slots), dtype=np.float64)
    return merging.Classes(
        info=np.zeros((size, 5), dtype=np.int64),
        ends=np.zeros((size, windows), dtype=np.int64),
        hi=np.zeros((size, slots), dtype=np.int64),
        hf=hf,
        bits=hf.view(np.int64),
        alive=np.zeros(size, dtype=np.int64),
        free=np.zeros(size, dtype=np.int64),
        table=np.zeros(4 * size, dtype=np.int64),
        pending=np.zeros((size, 4), dtype=np.int64),
        sums=np.zeros((size, starts, 2), dtype=np.uint64),
        about=np.zeros((size, starts), dtype=np.float64),
        added=np.zeros((size, starts, 2), dtype=np.uint64),
        added_about=np.zeros((size, starts), dtype=np.float64),
        starts=np.full(starts, -1, dtype=np.int64),
    )


def _grown_classes(classes: merging.Classes, state: np.ndarray) -> merging.Classes:
    grown = merging.Classes(*map(doubled, classes))
    grown = grown._replace(bits=grown.hf.view(np.int64), table=np.zeros_like(grown.table), starts=classes.starts)
    if state[merging.M_HASHED]:
        merging.refill(grown, int(state[merging.M_ALIVE]))
    return grown


def _more_starts(classes: merging.Classes, state: np.ndarray) -> merging.Classes:
    """Room for twice as many starts; each stands at its number modulo their count."""
    size = len(classes.starts)
    numbers = np.arange(state[merging.M_OLDEST], state[merging.M_NEXT])
    fresh = {}
    for name in ("sums", "about", "added", "added_about"):
        old = getattr(classes, name)
        fresh[name] = np.zeros((old.shape[0], 2 * size, *old.shape[2:]), dtype=old.dtype)
        fresh[name][:, numbers % (2 * size)] = old[:, numbers % size]
    starts = np.full(2 * size, -1, dtype=np.int64)
    starts[numbers % (2 * size)] = classes.starts[numbers % size]
    return classes._replace(**fresh, starts=starts)


def _graph(size: int) -> merging.Graph:
    return merging.Graph(
        np.zeros((size, 6), dtype=np.int64), *(np.zeros(size, dtype=np.int64) for _ in range(6)),
        np.zeros((size, 2), dtype=np.uint64), np.zeros(size, dtype=np.float64),
    )


def _output(items: int) -> merging.Output:
    return merging.Output(
        rows=np.zeros(OUTPUT_ROWS, dtype=np.int64),
        sums=np.zeros((OUTPUT_ROWS, 2), dtype=np.uint64),
        about=np.zeros(OUTPUT_ROWS, dtype=np.float64),
        until=np.zeros(OUTPUT_ROWS + 1, dtype=np.int64),
        items=np.zeros((items, 5), dtype=np.int64),
    )
