"""What punctuations promise of rows that have one value (PUNCTUATE BY), and which computations may still go on then (AFA paper,
appendix F.2).

A record of a computation behind a row is needed only while a row may come right behind that one, take an arc from the record's
state, and bring the computation, by it and by what stands behind or may come, to a match. Which rows may come before a time is
known by arcs: one whose WHEN compares the column of PUNCTUATE BY with constants takes no row before the least time that was
promised of these values, any other none before the last punctuation of all rows.

The paper's Algorithm 2 takes the time from which the last arc of a path may be taken. That drops too much: a row that comes before
it may begin the path where rows that are there, or come later, end it. Here states are followed from the last row back instead,
which keeps what the definition needs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import null_marks
from sparkcep.columns.types import type_of
from sparkcep.engine.core.chunk import Chunk
from sparkcep.errors import SEMANTIC, ClauseError
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Automaton

NEVER = -(1 << 63)  # of a promise that nobody has made


def check_punctuations(plan: Plan, schema: pa.Schema) -> None:
    """Raises ClauseError where values of PUNCTUATE BY are of a type in which it is hard to say what is equal."""
    changes = plan.changes
    if changes is None or not changes.punctuate:
        return
    kind = type_of(schema.field(changes.punctuate).type)
    if not (kind.is_integer or kind.kind in ("string", "date", "boolean", "null")):
        message = f"PUNCTUATE BY takes a whole number, a STRING, a DATE or a BOOLEAN, not {kind}; cast it"
        raise ClauseError("DATATYPE_MISMATCH", message, sqlstate=SEMANTIC, line=changes.line, column=changes.column_at, fragment=changes.text)


def values(chunk: Chunk, column: str) -> np.ndarray:
    """int64 (rows): numbers that rows with one value of PUNCTUATE BY have in common, -1 of NULL."""
    found = chunk.columns[column]
    if pa.types.is_null(found.type):
        return np.full(chunk.rows, -1, dtype=np.int64)
    encoded = pc.dictionary_encode(found)
    numbers = encoded.indices if isinstance(encoded, pa.DictionaryArray) else encoded.combine_chunks().indices
    return np.where(null_marks(found) == 1, -1, np.asarray(pc.fill_null(numbers, 0)).astype(np.int64))


class Punctuations:
    """What was promised in a partition so far: of all rows, and of those with one value. Times are numbers that rise with t."""

    def __init__(self) -> None:
        self.of_all = NEVER
        self.of: dict[int, int] = {}

    def promise(self, value: int, time: int) -> None:
        if value < 0:
            self.of_all = max(self.of_all, time)
        else:
            self.of[value] = max(self.of.get(value, NEVER), time)

    def before(self, value: int) -> int:
        """The time before which no row of a value comes; of a row without one -1."""
        return max(self.of_all, self.of.get(value, NEVER))


class NeededRuns:
    """Which records are needed behind rows, as far as promises tell. ``packed`` int64: the letters of the rows; ``times`` int64;
    ``values``: as :func:`values` gives them."""

    def __init__(self, automaton: Automaton, is_text: bool, packed: np.ndarray, times: np.ndarray, values: np.ndarray) -> None:
        self.packed, self.times, self.values = packed, times, values
        self.arcs = automaton.arcs
        self.limits = [arc.limits if arc.limits and (arc.limits[2] or not is_text) else () for arc in automaton.arcs]
        self.ends = [bool(arc.emits) or arc.target in automaton.final for arc in automaton.arcs]
        self.promises = Punctuations()
        self.taken: list[dict[int, int]] = [{} for _ in self.arcs]  # the values that an arc takes and that were promised, with a row

    def promise(self, row: int) -> None:
        """Takes a punctuation."""
        value = int(self.values[row])
        self.promises.promise(value, int(self.times[row]))
        for limits, taken in zip(self.limits, self.taken):
            if value >= 0 and limits and self.packed[row] >> limits[0] & 1:
                taken[value] = row

    def _since(self, arc: int) -> int:
        """The time before which no row comes that the arc takes."""
        limits, taken = self.limits[arc], self.taken[arc]
        if not limits or len(taken) < limits[1]:
            return self.promises.of_all
        return min(map(self.promises.before, taken))

    def states(self, live: list[int]) -> Iterator[tuple[int, int]]:
        """From the last row back, (place in ``live``, states of which records are needed behind that row, as bits), up to the place
        behind which nothing that an arc takes can come any more."""
        since = [self._since(arc) for arc in range(len(self.arcs))]
        least = min(since, default=NEVER)
        alive = 0  # states from which a match may come about, by rows behind this place that are there or may come
        for place in range(len(live) - 1, -1, -1):
            after = live[place + 1] if place + 1 < len(live) else -1
            if after >= 0 and least > self.times[after]:
                yield place, 0
                return
            coming = [i for i in range(len(self.arcs)) if after < 0 or since[i] <= self.times[after]]
            here = 0
            if after >= 0:
                here = self._back(alive, [i for i, arc in enumerate(self.arcs) if arc.letter < 0 or self.packed[after] >> arc.letter & 1])
            more = -1
            while more != here:
                more, here = here, here | self._back(here, coming)
            alive = here
            yield place, self._back(alive, coming)

    def _back(self, alive: int, arcs: list[int]) -> int:
        """The states from which one of the arcs ends a match, or leads to a state that is alive."""
        found = 0
        for i in arcs:
            if self.ends[i] or alive >> self.arcs[i].target & 1:
                found |= 1 << self.arcs[i].source
        return found
