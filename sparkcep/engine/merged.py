"""MATCH_COUNT() where conditions look at the match, and MATCH_GRAPH(): runs side by side, merged (SASE+ sections 5.1 to 5.3)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sparkcep.automaton.net import E_CHECK, E_OPEN, E_TARGET, E_VAR, Net
from sparkcep.automaton.strategy import FRONT
from sparkcep.columns.bytecode import OP, SLOT, Conditions
from sparkcep.engine.counting import MAX_COUNT, CountingEngine
from sparkcep.engine.last_rows import Ending
from sparkcep.engine.outputs import match_graphs
from sparkcep.engine.run import Data, doubled
from sparkcep.errors import MatchRuntimeError
from sparkcep.search import adjacent as kernels
from sparkcep.search import merged as merging
from sparkcep.search.machine import FLOAT_COLUMN

CLASSES, NODES, STARTS = 64, 1024, 8  # places at first
OUTPUT_ROWS, OUTPUT_ITEMS = 4096, 1 << 17  # of one table


class MergedEngine(CountingEngine):
    """As :class:`CountingEngine`, with graphs of matches as well. What cannot be merged is listed."""

    def __init__(self, prepared, chunk_rows=None, limits=None) -> None:
        super().__init__(prepared, chunk_rows, limits)
        self.drawing = self.plan.graphing
        self.looks = 0  # how often a row was held against a class of runs
        self.merges = prepared.strategy.search == FRONT
        if self.merges:
            self.uses_ends = True
            self._window_live = live_windows(prepared.selection)
            self._present = _only_present(prepared.conditions)
            self._read = columns_read(prepared.conditions)

    def _endings(self, data: Data, offsets: np.ndarray, columns: dict[str, pa.Array]) -> Iterator[Ending]:
        if self.by_numbers and not self.drawing:
            yield self._numbered(data, offsets, columns)
        elif not self.merges:
            yield from super()._endings(data, offsets, columns)
        elif self.drawing:
            yield from self._merged(data, offsets, columns)
        else:
            yield self._counted(data, offsets, columns)

    def _counted(self, data: Data, offsets: np.ndarray, columns: dict[str, pa.Array]) -> Ending:
        """Numbers only: too many classes for the memory allowed are listed."""
        try:
            found = list(self._merged(data, offsets, columns))
        except MatchRuntimeError as error:
            if error.error_class != "SPARKCEP.STATE_LIMIT":
                raise
            return self._listed(data, offsets, columns)
        rows = np.concatenate([np.zeros(0, dtype=np.int64), *(f.rows for f in found)])
        return Ending(rows, [n for f in found for n in f.numbers])

    def _merged(self, data: Data, offsets: np.ndarray, columns: dict[str, pa.Array]) -> Iterator[Ending]:
        """Last rows with their numbers, and their graphs where asked for."""
        c, rows = self.p.conditions, len(data.rows.letters)
        data = Data(data.rows._replace(offsets=offsets), data.codes, data.bytecode)
        ends = self._completion_ends(data)
        slots = c.slots if c.has_history else self._empty_slots
        want = merging.GRAPHS if self.drawing else merging.COUNTS
        scratch = self._scratch(rows + 1, len(offsets))
        starts = STARTS if self.windowed and not self.drawing else 1
        classes, graph = _classes(CLASSES, self._windows.shape[0], len(slots), starts), _graph(NODES)
        output = _output(OUTPUT_ITEMS if self.drawing else 1)
        state = np.zeros(merging.MERGED_STATE, dtype=np.int64)
        while True:
            outcome = merging.merge_partitions(
                self._arrays, self.strategy, self.limits.merging, want, self.windowed, self._windows, self._window_live, self._present, self._read, ends,
                ends.shape[1] > 0, kernels.ConditionArrays(data.bytecode, c.entry, c.floats, slots, data.codes),
                data.rows, scratch, np.int64(rows), classes, graph, output, state,
            )
            if outcome == kernels.GROW:
                if state[merging.M_DETAIL] == merging.CLASSES_FULL:
                    classes = _grown_classes(classes, state)
                elif state[merging.M_DETAIL] == merging.STARTS_FULL:
                    classes = _more_starts(classes, state)
                else:
                    graph = merging.Graph(*map(doubled, graph))
                if sum(a.nbytes for a in (*classes, *graph)) > self.limits.max_state_bytes:
                    raise self._state_limit(self._at(state[merging.M_ROW]), columns)
                continue
            if outcome == kernels.ERROR:
                failed = self._at(state[merging.M_ROW])
                failed[kernels.S_DETAIL] = state[merging.M_DETAIL]
                raise self._runtime_error(outcome, failed, columns)
            if state[merging.M_OUT]:
                yield self._ending(output, state, columns)
            if outcome == kernels.DONE:
                self.looks += int(state[merging.M_LOOKS])
                return
            if not state[merging.M_OUT] and state[merging.M_DETAIL] > len(output.items):
                output = _output(2 * int(state[merging.M_DETAIL]))
            state[merging.M_OUT] = state[merging.M_ITEMS] = 0

    def _ending(self, output: merging.Output, state: np.ndarray, columns: dict[str, pa.Array]) -> Ending:
        count = int(state[merging.M_OUT])
        rows = output.rows[:count].copy()
        numbers = None
        if self.plan.counting:
            numbers = [low + (high << 64) for low, high in output.sums[:count].tolist()]
            for row, about, number in zip(rows.tolist(), output.about[:count].tolist(), numbers):
                # the words hold numbers modulo 2**128, which is above what a DECIMAL(38) holds
                if about >= 2 * MAX_COUNT or number >= 10**38:
                    raise self._count_range(row, columns)
        graphs = None
        if self.drawing:
            graphs = match_graphs(output.until[: count + 1], output.items[: int(state[merging.M_ITEMS])], self.plan.variables)
        return Ending(rows, numbers, graphs)


def _only_present(conditions: Conditions) -> np.ndarray:
    """uint8 (slots): 1 for a count that only tells whether there is a value yet; its number keeps no runs apart."""
    slots, counts = conditions.slots, np.zeros(len(conditions.slots), dtype=np.uint8)
    counts[slots[:, 0] == SLOT["COUNT"]] = 1
    counts[slots[slots[:, 0] == SLOT["MEAN"], 5]] = 0
    for op, a, b, _, _ in conditions.code.tolist():
        if op == OP["SLOTI"]:
            counts[a] = 0
        elif op == OP["STD"]:
            counts[[a, b]] = 0
    return counts


def columns_read(conditions: Conditions) -> np.ndarray:
    """int64 (slots): the only column that the row a FIRST or LAST slot holds, now or in a slot that takes it over, is read for (FLOAT_COLUMN more
    for floats), -1 where there are several or the row itself matters: two rows with equal values there have equal futures."""
    slots = conditions.slots.tolist()
    read: list[set[int]] = [set() for _ in slots]
    for op, a, b, column, _ in conditions.code.tolist():
        if op in (OP["NAVI"], OP["NAVF"]):
            read[a].add(-1 if b else column + (FLOAT_COLUMN if op == OP["NAVF"] else 0))
        elif op in (OP["ROWAT"], OP["NAVH"]):
            read[a].add(-1)
    for k in reversed(range(len(slots))):
        if slots[k][0] == SLOT["LAST"] and slots[k][5] >= 0:
            read[slots[k][5]] |= read[k]  # a helper stands before its slot
    rows = [kind in (SLOT["LAST"], SLOT["FIRST"]) for kind, *_ in slots]
    return np.array([r.pop() if is_row and len(r) == 1 else -1 for is_row, r in zip(rows, read)], dtype=np.int64).reshape(-1)


def live_windows(automaton: Net) -> np.ndarray:
    """int64 (nodes): the groups' windows that an edge reachable from each node checks before any opens them anew."""
    live = np.zeros(automaton.nodes, dtype=np.int64)
    changed = True
    while changed:
        before = live.copy()
        for node in range(automaton.nodes):
            for edge in automaton.edges[automaton.first[node] : automaton.first[node + 1]]:
                if edge[E_VAR] >= 0:
                    live[node] |= (edge[E_CHECK] | live[edge[E_TARGET]] & ~edge[E_OPEN]) & ~1
        changed = bool((live != before).any())
    return live


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
