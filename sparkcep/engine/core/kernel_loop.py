"""The one loop around a kernel: it is called until it is done, and has more room whenever it asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkcep.compiler.conditions.bytecode import OP, Conditions
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import WIDTH, MatchBatch
from sparkcep.engine.core.predicates import kernel_data
from sparkcep.engine.core.task import Task
from sparkcep.kernels.common import layout
from sparkcep.kernels.match import backtrack as kernels

MOST_LABELS, STATE_SHARE = 1 << 20, 64  # of the matches told together, and the share of the state that each may take


class KernelLoop:
    """A kernel with its arguments, over one buffer. ``name``: the search, as :mod:`sparkcep.compiler.searches` calls it;
    ``state`` int64: where the kernel stands; ``place`` and ``detail``: where in it the row at hand stands, and what is to be
    said of an error."""

    name = ""
    state: np.ndarray
    place, detail = layout.S_START, layout.S_DETAIL

    def __init__(self, task: Task, chunk: Chunk) -> None:
        self.task, self.chunk = task, chunk
        self.data = kernel_data(task.prepared, chunk)

    def run(self) -> int:
        """Calls the kernel; how it ended."""
        raise NotImplementedError

    def grow(self) -> None:
        """Gives it more room to work in."""
        raise NotImplementedError

    def keeps(self) -> bool:
        """Whether its output must stay when it is full, because it compares with what it found."""
        return False

    def widen(self, kept: bool) -> None:
        """Gives it more room for output, with what it has written if that is ``kept``."""
        raise NotImplementedError

    def found(self) -> Any:
        """What it has written; its output is empty then."""
        raise NotImplementedError

    def check(self, nbytes: int) -> None:
        """Raises MatchRuntimeError where so many bytes are too many."""
        if nbytes > self.task.limits.max_state_bytes:
            raise self.task.failures.state(int(self.state[self.place]), self.chunk.columns)

    def rounds(self) -> Iterator[Any]:
        """What the kernel finds, each time its output is full and at the end. Raises MatchRuntimeError."""
        self.task.ran.add(self.name)
        while True:
            outcome = self.outcome = self.run()
            if outcome == layout.GROW:
                self.grow()
            elif outcome == layout.FULL and self.keeps():
                self.widen(True)
            elif outcome in (layout.DONE, layout.SUSPENDED, layout.FULL):
                yield self.found()
                if outcome != layout.FULL:
                    return
                self.widen(False)
            else:
                raise self.task.failures.of(outcome, int(self.state[self.place]), int(self.state[self.detail]), self.chunk.columns)


class OutputRoom:
    """Where a kernel writes matches: so many ``events`` of ``width`` columns, and ``labels`` with their ``rows`` and ``paths``
    where it tells these; ``joins`` where matches share their ends."""

    def __init__(self, events: int, labels: int, width: int = WIDTH, *, rows: bool = True, paths: bool = False) -> None:
        self.width, self.has_rows, self.has_paths, self.shares = width, rows, paths, False
        self.replace(events, labels)

    def replace(self, events: int, labels: int) -> None:
        """Fresh arrays."""
        self.events = np.zeros((events, self.width), dtype=np.int64)
        self.labels = np.empty(labels, dtype=np.uint8)
        self.rows = np.empty(labels if self.has_rows else 0, dtype=np.int64)
        self.paths = np.empty(labels if self.has_paths else 0, dtype=np.int64)
        self.joins = np.empty((events if self.shares else 0, 4), dtype=np.int64)

    def share(self) -> None:
        """Room for matches that share their ends, one for each start row: those of a later round share nothing with these."""
        self.shares = True
        self.replace(max(len(self.events), len(self.labels)), len(self.labels))

    def double(self) -> None:
        """Twice as much room, with what is written."""
        self.events, self.labels, self.rows, self.paths, self.joins = map(doubled, (self.events, self.labels, self.rows, self.paths, self.joins))

    @property
    def nbytes(self) -> int:
        return self.events.nbytes + self.labels.nbytes + self.rows.nbytes + self.paths.nbytes + self.joins.nbytes

    def found(self, state: np.ndarray) -> MatchBatch:
        """The matches written; the kernel's ``state`` is told that there are none any more."""
        count, used = int(state[layout.S_EVENTS]), int(state[layout.S_LABELS])
        state[layout.S_EVENTS] = state[layout.S_LABELS] = 0
        return MatchBatch(self.events[:count], self.labels[:used], self.rows[:used], self.paths[:used], joins=self.joins[:count])

    def widen(self, needed: int, max_bytes: int) -> None:
        """Fresh arrays, larger ones unless there are very many matches: the first come at once. ``needed``: labels of one match."""
        size = max(min(2 * len(self.labels), max_bytes // STATE_SHARE, MOST_LABELS), 2 * needed)
        if size > len(self.labels):
            self.replace(max(len(self.events), size // 16), size)


def doubled(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, np.zeros_like(array)])


def scratch(c: Conditions, rows: int, *, bits: int = 1, entries: int = 1, width: int = 0, depth: int = 4096, slots: int | None = None) -> kernels.Scratch:
    """Working memory for runs of up to ``rows`` rows, whose values are in ``slots``, those of the conditions unless given;
    ``entries`` of ``width`` words of a memo by hash, ``bits`` words of one by bits."""
    if slots is None:
        slots = len(c.slots) if c.has_history else 0
    stack = max(c.stack, 8)
    hf = np.empty((rows if slots else 1, max(slots, 1)), dtype=np.float64)
    width = width or 3 + 2 * slots
    return kernels.Scratch(
        labels=np.empty(rows + 1, dtype=np.uint8),
        hi=np.empty(hf.shape, dtype=np.int64),
        hf=hf,
        hbits=hf.view(np.int64),
        si=np.zeros(2 * stack, dtype=np.int64),
        sf=np.zeros(stack, dtype=np.float64),
        sn=np.zeros(stack, dtype=np.uint8),
        stack=np.empty((depth, 5), dtype=np.int64),
        trail=np.empty(depth, dtype=np.int64),
        bits=np.zeros(bits, dtype=np.uint64),
        entries=np.empty((entries, width), dtype=np.int64),
        alive=np.empty(entries, dtype=np.uint8),
        table=np.zeros(4 * entries if entries > 1 else 1, dtype=np.int64),
        key=np.empty(width, dtype=np.int64),
    )


def distinct_variables(c: Conditions) -> np.ndarray:
    """uint8 (variables): 1 where the condition has a DISTINCT aggregate, which compares all pairs of the match's rows."""
    ops = c.code[:, 0].tolist()
    found = np.zeros(len(c.entry), dtype=np.uint8)
    for variable, at in enumerate(c.entry.tolist()):
        while at >= 0 and ops[at] != OP["RETURN"]:
            found[variable] |= ops[at] == OP["DISTINCT"]
            at += 1
    return found
