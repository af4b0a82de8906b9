"""Output of the register automaton: the rows and the values of the matches that its kernels wrote.

The automaton search (:mod:`sparkcep.engine.automaton.register_runs`) and changelogs (:mod:`sparkcep.engine.changelog.consolidate`)
use it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import null_marks
from sparkcep.compiler.registers.register_code import FLOAT, WIDE, Held
from sparkcep.engine.automaton.lifetimes import Lifetimes, expired
from sparkcep.engine.automaton.register_arrays import RegisterArrays
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.windows import Moments
from sparkcep.engine.output.match_id import ENDING, plain, plain_values, stable_text
from sparkcep.errors import MatchRuntimeError
from sparkcep.kernels.automaton import register_runs as kernels
from sparkcep.kernels.automaton.register_runs import M_EMIT_NULLS, M_END, M_EXPIRED, M_NULLS, M_WORDS
from sparkcep.kernels.common import layout

WAY = "way"  # the name of the column with the number of each match's path


class RegisterOutput:
    """Describes the matches in the arrays ``runs``."""

    def __init__(self, runs: RegisterArrays) -> None:
        self.runs, self.task, self.automaton, self.compiled = runs, runs.task, runs.automaton, runs.compiled

    def described(self, found: MatchBatch) -> MatchBatch:
        """Matches with the rows that their paths took, instead of all rows from the first to the last one. Unchanged if paths do
        not matter."""
        if not self.runs.by_ways:
            return found
        sizes, rows, labels = self.ways(np.asarray(found.by_event[WAY]))
        events = found.events.copy()
        begin = np.cumsum(sizes) - sizes
        events[:, layout.E_START], events[:, layout.E_ROWS], events[:, layout.E_LABELS] = rows[begin], sizes, begin
        return replace(found, events=events, labels=labels, rows=rows)

    def ways(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows of paths, by their numbers.

        Returns:
            How many rows each path took, then all their rows, then the labels of these rows. Paths follow one after the other.
        """
        table = self.runs.room.numbered
        sizes, alive, at = np.zeros(len(numbers), dtype=np.int64), np.arange(len(numbers)), numbers
        while len(alive):
            sizes[alive] += 1
            at = table[at, 0]  # 0 before the first row
            alive, at = alive[at > 0], at[at > 0]
        rows, labels = np.zeros(int(sizes.sum()), dtype=np.int64), np.zeros(int(sizes.sum()), dtype=np.uint8)
        place, at = np.cumsum(sizes) - 1, numbers
        while len(at):
            rows[place], labels[place] = table[at, 2], table[at, 1] - 1
            at = table[at, 0]
            place, at = place[at > 0] - 1, at[at > 0]
        return sizes, rows, labels

    def by_event(self, first: np.ndarray, last: np.ndarray, matches: np.ndarray, chunk: Chunk, alive: Lifetimes) -> dict[str, pa.Array]:
        """The values of the leaves for matches that the kernel has written, by name. ``first``, ``last``: the first and last rows
        of the matches."""
        found = {}
        for leaf in self.task.plan.leaves:
            spec = leaf.spec
            if spec.kind in ("match_from", "match_to"):
                found[spec.kind] = self._edge(spec.kind, first, last, matches, chunk, alive)
            elif spec.kind in ("register", "emit"):
                held = (self.compiled.registers if spec.kind == "register" else self.compiled.emits)[spec.number]
                null = (matches[:, M_NULLS if spec.kind == "register" else M_EMIT_NULLS] >> spec.number) & 1
                found[f"{spec.kind}{spec.number}"] = self._values(held, matches, null.astype(bool))
            elif spec.kind == "match_id" and (not self.runs.by_ways or self.runs.repeats):
                found[ENDING] = self._endings(matches)
        return found

    def _endings(self, matches: np.ndarray) -> pa.Array:
        """The final values of each run as a string for MATCH_ID(): lifetimes, registers and the values of EMIT."""
        ends: list[list] = [matches[:, M_EXPIRED].tolist(), matches[:, M_END].tolist()]
        registers = self.compiled.registers[: len(self.automaton.declared)]  # the number of a path is not the same in another search
        for all, nulls in ((registers, M_NULLS), (self.compiled.emits, M_EMIT_NULLS)):
            for number, held in enumerate(all):
                ends.append(plain_values(self._values(held, matches, ((matches[:, nulls] >> number) & 1).astype(bool))))
        return pa.array([stable_text(plain(end)) for end in zip(*ends, strict=True)], pa.string())

    def _edge(self, kind: str, first: np.ndarray, last: np.ndarray, matches: np.ndarray, chunk: Chunk, alive: Lifetimes) -> pa.Array:
        """The values of MATCH_FROM() or MATCH_TO()."""
        column = chunk.columns[self.automaton.time]
        late, found = matches[:, M_EXPIRED] == 1, matches[:, M_END]
        if kind == "match_from":
            own = column.take(pa.array(last))
            return pc.if_else(pa.array(late), self._times("MATCH_FROM()", found, ~late, first, chunk), own) if late.any() else own
        # A window always ends. So if WINDOW gives the lifetime, ENDLESS means an end beyond 64 bits.
        endless = (found == kernels.ENDLESS) & bool(self.automaton.lifetime or not self.task.plan.windows[0].order)
        return self._times("MATCH_TO()", np.where(late, expired(found, alive.when[first], column.type), found), endless, first, chunk)

    def _times(self, name: str, numbers: np.ndarray, absent: np.ndarray, rows: np.ndarray, chunk: Chunk) -> pa.Array:
        """Times of matches, NULL if ``absent``. Raises MatchRuntimeError if one is beyond the type. ``rows``: the first rows of the
        matches."""
        column = chunk.columns[self.automaton.time]
        found = Moments(column.type, False).values(numbers, absent)
        wrong = np.flatnonzero(~absent & ((null_marks(found) == 1) | (numbers == kernels.ENDLESS)))
        if len(wrong):
            where, endless = self.task.failures.where(int(rows[wrong[0]]), chunk.columns), numbers[wrong[0]] == kernels.ENDLESS
            most, wider = ("64 bits", "DOUBLE") if endless else (f"what {column.type} holds", "a wider type")
            raise MatchRuntimeError("ARITHMETIC_OVERFLOW", f"{name}{where} exceeds {most}. Cast the ORDER BY expression to {wider}", sqlstate="22003")
        return found

    def _values(self, held: Held, matches: np.ndarray, null: np.ndarray) -> pa.Array:
        """The values of a register or of a column of EMIT, by match."""
        low, t = np.ascontiguousarray(matches[:, M_WORDS + held.word]), held.type
        if held.is_string:
            return self.runs.strings.values(low, null)
        if t.kind == "null":
            return pa.nulls(len(low))
        if held.how == FLOAT:
            return pa.array(low.view(np.float64), mask=null).cast(held.arrow)
        if t.kind == "decimal":
            high = matches[:, M_WORDS + held.word + 1] if held.how == WIDE else low >> 63
            raw = np.stack([low, high], axis=1).tobytes()
            return pa.Array.from_buffers(held.arrow, len(low), [pa.array(~null).buffers()[1], pa.py_buffer(raw)])
        if t.kind == "boolean":
            return pa.array(low != 0, mask=null)
        if t.kind == "date":
            return pa.array(low.astype(np.int32), mask=null).cast(held.arrow)
        return pa.array(low, mask=null).cast(held.arrow)
