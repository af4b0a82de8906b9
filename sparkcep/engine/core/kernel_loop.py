"""The loop around a kernel: calls the kernel until it is done, and enlarges its arrays whenever it runs out of room.

All searches run their kernels by a subclass of :class:`KernelLoop`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from sparkcep.compiler.conditions.bytecode import OP, Conditions
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import WIDTH, MatchBatch
from sparkcep.engine.core.task import Task
from sparkcep.errors import MatchRuntimeError
from sparkcep.kernels.common import layout
from sparkcep.kernels.match import backtrack as kernels

Arrays = TypeVar("Arrays", bound=Any)  # a NamedTuple of arrays
MOST_LABELS, STATE_SHARE = 1 << 20, 64  # most labels of a match batch, and their share of ``max_state_bytes``


class KernelLoop:
    """A kernel with its arguments, over one chunk.

    Attributes:
        name: the search, as :mod:`sparkcep.compiler.searches` calls it.
        state: the kernel's progress, from which its next call resumes. int64.
        place: the index in ``state`` of the current row.
        detail: the index in ``state`` of an error's details.
        less: what needs fewer state bytes, for the error message. Empty: see :meth:`Failures.state`.
        outcome: the outcome of the last call.
    """

    name = ""
    state: np.ndarray
    place, detail = layout.S_START, layout.S_DETAIL
    less = ""
    outcome: int

    def __init__(self, task: Task, chunk: Chunk) -> None:
        self.task, self.chunk = task, chunk

    @property
    def row(self) -> int:
        """The current row."""
        return int(self.state[self.place])

    def run(self) -> int:
        """Calls the kernel and returns its outcome."""
        raise NotImplementedError

    def grow(self) -> None:
        """Gives the kernel more working memory."""
        raise NotImplementedError

    def keeps(self) -> bool:
        """Returns whether the output is not ready to be taken, because the kernel needs it or has not finished a row's matches."""
        return False

    def widen(self, kept: bool) -> None:
        """Gives the kernel more room for output. If ``kept``, the output written so far is kept."""
        raise NotImplementedError

    def found(self) -> Any:
        """Returns the output written so far, and empties it."""
        raise NotImplementedError

    def check(self, nbytes: int) -> None:
        """Raises MatchRuntimeError if ``nbytes`` exceeds the limit of state bytes."""
        if nbytes > self.task.limits.max_state_bytes:
            raise self.too_large(self.row)

    def too_large(self, row: int) -> MatchRuntimeError:
        """Returns the error for a search that needs too many state bytes at ``row``."""
        return self.task.failures.state(row, self.chunk.columns, self.less)

    def failure(self, outcome: int) -> MatchRuntimeError:
        """Returns the error for a kernel that ended with ``outcome``."""
        return self.task.failures.of(outcome, self.row, int(self.state[self.detail]), self.chunk.columns)

    def rounds(self) -> Iterator[Any]:
        """Yields the kernel's output each time it is full, and once at the end. Raises MatchRuntimeError."""
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
                raise self.failure(outcome)


class OutputRoom:
    """The arrays into which a kernel writes matches.

    Args:
        events: how many events have room.
        labels: how many labels have room.
        width: the columns of an event.
        rows: whether the kernel writes the row of each label.
        paths: whether the kernel writes the edge of each label.
    """

    def __init__(self, events: int, labels: int, width: int = WIDTH, *, rows: bool = True, paths: bool = False) -> None:
        self.width, self.has_rows, self.has_paths, self.shares = width, rows, paths, False
        self.replace(events, labels)

    def replace(self, events: int, labels: int) -> None:
        """Allocates fresh arrays."""
        self.events = np.zeros((events, self.width), dtype=np.int64)
        self.labels = np.empty(labels, dtype=np.uint8)
        self.rows = np.empty(labels if self.has_rows else 0, dtype=np.int64)
        self.paths = np.empty(labels if self.has_paths else 0, dtype=np.int64)
        self.joins = np.empty((events if self.shares else 0, 4), dtype=np.int64)

    def share(self) -> None:
        """Makes room for matches that share their ends, one for each start row.

        Matches share labels only within one output of the kernel, not with those of a later call.
        """
        self.shares = True
        self.replace(max(len(self.events), len(self.labels)), len(self.labels))

    def double(self) -> None:
        """Doubles the room and keeps the matches written so far."""
        self.events, self.labels, self.rows, self.paths, self.joins = map(doubled, (self.events, self.labels, self.rows, self.paths, self.joins))

    @property
    def nbytes(self) -> int:
        return self.events.nbytes + self.labels.nbytes + self.rows.nbytes + self.paths.nbytes + self.joins.nbytes

    def found(self, state: np.ndarray) -> MatchBatch:
        """Returns the matches written so far, and resets their counts in the kernel's ``state``."""
        count, used = int(state[layout.S_EVENTS]), int(state[layout.S_LABELS])
        state[layout.S_EVENTS] = state[layout.S_LABELS] = 0
        return MatchBatch(self.events[:count], self.labels[:used], self.rows[:used], self.paths[:used], joins=self.joins[:count])

    def widen(self, needed: int, max_bytes: int) -> None:
        """Allocates fresh, larger arrays. Their size is limited, so that the first of very many matches are emitted early.

        Args:
            needed: how many labels one match needs.
            max_bytes: the limit of state bytes.
        """
        size = max(min(2 * len(self.labels), max_bytes // STATE_SHARE, MOST_LABELS), 2 * needed)
        if size > len(self.labels):
            self.replace(max(len(self.events), size // 16), size)


def doubled(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, np.zeros_like(array)])


def with_doubled(arrays: Arrays, *names: str) -> Arrays:
    """Returns a record of arrays with those of these names doubled."""
    return arrays._replace(**{name: doubled(getattr(arrays, name)) for name in names})


def scratch(c: Conditions, rows: int, *, bits: int = 1, entries: int = 1, width: int = 0, depth: int = 4096, slots: int | None = None) -> kernels.Scratch:
    """Allocates working memory for runs of up to ``rows`` rows.

    Args:
        c: the conditions.
        rows: the most rows of a run.
        bits: the words of a memo by bits.
        entries: the entries of a hashed memo.
        width: the words of such an entry. 0: the default for the slots.
        depth: the frames of the stack.
        slots: the values of a run. None: those of the conditions.
    """
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
    """Marks the variables whose condition has a DISTINCT aggregate. uint8 (variables).

    Such an aggregate compares all pairs of the match's rows.
    """
    ops = c.code[:, 0].tolist()
    found = np.zeros(len(c.entry), dtype=np.uint8)
    for variable, at in enumerate(c.entry.tolist()):
        while at >= 0 and ops[at] != OP["RETURN"]:
            found[variable] |= ops[at] == OP["DISTINCT"]
            at += 1
    return found
