"""Punctuations with values (PUNCTUATE BY): which rows may still arrive, and which saved runs are needed then (AFA paper, appendix
F.2).

The changelog (:mod:`sparkcep.engine.changelog.changelog`) drops the other runs. A run is needed only if a future row may follow its
last row, take an arc from its state, and lead it to a match. Existing rows and further future rows may help on the way.

The arcs say which rows may arrive. If WHEN compares the column of PUNCTUATE BY with constants, the arc takes no row before the
least time promised for these values. Any other arc takes no row before the last punctuation of all rows.

The paper's Algorithm 2 uses the first time for the last arc of a path. That drops too much: an earlier row may begin the path if
existing or later rows end it. This module follows states from the last row back instead, which keeps exactly what the definition
needs.

Example: the arcs are S to T WHEN kind = 'a', and T to the final state U WHEN kind = 'b'. Live rows have the times 1 to 9 and take
no arc. A punctuation promises that no further 'b' comes before 20. After the last row runs in S and T are needed, because an 'a'
and a 'b' may follow. After each earlier row no run is needed: an 'a' may still arrive there, but no 'b' can follow it.
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

NEVER = -(1 << 63)  # the time without a promise


def check_punctuations(plan: Plan, schema: pa.Schema) -> None:
    """Raises ClauseError if the column of PUNCTUATE BY has a type without a clear equality."""
    changes = plan.changes
    if changes is None or not changes.punctuate:
        return
    kind = type_of(schema.field(changes.punctuate).type)
    if not (kind.is_integer or kind.kind in ("string", "date", "boolean", "null")):
        message = f"PUNCTUATE BY takes a whole number, a STRING, a DATE or a BOOLEAN, not {kind}; cast it"
        raise ClauseError("DATATYPE_MISMATCH", message, sqlstate=SEMANTIC, line=changes.line, column=changes.column_at, fragment=changes.text)


def values(chunk: Chunk, column: str) -> np.ndarray:
    """A number for each row, which rows with one value of PUNCTUATE BY share; -1 for NULL. int64 (rows)."""
    found = chunk.columns[column]
    if pa.types.is_null(found.type):
        return np.full(chunk.rows, -1, dtype=np.int64)
    encoded = pc.dictionary_encode(found)
    numbers = encoded.indices if isinstance(encoded, pa.DictionaryArray) else encoded.combine_chunks().indices
    return np.where(null_marks(found) == 1, -1, np.asarray(pc.fill_null(numbers, 0)).astype(np.int64))


class Punctuations:
    """The promises in a partition so far, for all rows and for rows with one value. Times are numbers that ascend with time."""

    def __init__(self) -> None:
        self.of_all = NEVER
        self.of: dict[int, int] = {}

    def promise(self, value: int, time: int) -> None:
        if value < 0:
            self.of_all = max(self.of_all, time)
        else:
            self.of[value] = max(self.of.get(value, NEVER), time)

    def before(self, value: int) -> int:
        """The time before which no row with this value can arrive. ``value`` -1: a row without a value."""
        return max(self.of_all, self.of.get(value, NEVER))


class NeededRuns:
    """Finds the states whose records are needed after rows, given the promises so far.

    Args:
        packed: int64 (rows), the letters of the rows.
        times: int64 (rows), numbers that ascend with time.
        values: int64 (rows), see :func:`values`.
    """

    def __init__(self, automaton: Automaton, is_text: bool, packed: np.ndarray, times: np.ndarray, values: np.ndarray) -> None:
        self.packed, self.times, self.values = packed, times, values
        self.arcs = automaton.arcs
        self.limits = [arc.limits if arc.limits and (arc.limits[2] or not is_text) else () for arc in automaton.arcs]
        self.ends = [bool(arc.emits) or arc.target in automaton.final for arc in automaton.arcs]
        self.promises = Punctuations()
        # for each arc, the promised values that it takes, with a row that has the value
        self.taken: list[dict[int, int]] = [{} for _ in self.arcs]

    def promise(self, row: int) -> None:
        """Takes a punctuation."""
        value = int(self.values[row])
        self.promises.promise(value, int(self.times[row]))
        for limits, taken in zip(self.limits, self.taken):
            if value >= 0 and limits and self.packed[row] >> limits[0] & 1:
                taken[value] = row

    def _since(self, arc: int) -> int:
        """The time before which no row that the arc takes can arrive."""
        limits, taken = self.limits[arc], self.taken[arc]
        if not limits or len(taken) < limits[1]:
            return self.promises.of_all
        return min(map(self.promises.before, taken))

    def states(self, live: list[int]) -> Iterator[tuple[int, int]]:
        """Yields (place in ``live``, needed states as bits) from the last row back: after this row records in these states are
        needed.

        Ends with (place, 0) at the first place after which no arc can take a future row.
        """
        since = [self._since(arc) for arc in range(len(self.arcs))]
        least = min(since, default=NEVER)
        alive = 0  # the states that may reach a match by existing or future rows after this place
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
        """The states that one of the arcs leads to a match, or to one of the states ``alive``. As bits."""
        found = 0
        for i in arcs:
            if self.ends[i] or alive >> self.arcs[i].target & 1:
                found |= 1 << self.arcs[i].source
        return found
