"""Automaton search: finds the matches of an automaton with registers, with all runs side by side (AFA, VLDB 2010).

:class:`RegisterRuns` drives :mod:`sparkcep.kernels.automaton.register_runs`, which has an example. The engine uses it over tables
and streams. The changelog (:mod:`sparkcep.engine.changelog.changelog`) shares its arrays and its output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import decimal_words, null_marks, ranges, words
from sparkcep.columns.types import HIGH, WORD
from sparkcep.compiler.registers.register_code import FLOAT, WIDE, Compiled, Held
from sparkcep.compiler.searches import COMPUTATIONS
from sparkcep.engine.automaton.arc_validity import Timetable, whole
from sparkcep.engine.automaton.consecutive_rows import apart
from sparkcep.engine.automaton.expiry import AT_EXPIRY, ExpiryState, lives
from sparkcep.engine.automaton.lifetimes import Lifetimes, beyond, expired, lifetimes, times
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.errors import of_condition
from sparkcep.engine.core.kernel_loop import MOST_LABELS, doubled
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.operator import NOTHING_DUE, Found, Operator, Step
from sparkcep.engine.core.resume import AT_START, NOTHING_OPEN, ResumeState
from sparkcep.engine.core.task import Task
from sparkcep.engine.output.match_id import ENDING, plain
from sparkcep.errors import MatchRuntimeError
from sparkcep.kernels.automaton import register_runs as kernels
from sparkcep.kernels.automaton.register_runs import (
    APART,
    I_WAY,
    I_WORDS,
    M_EMIT_NULLS,
    M_END,
    M_EXPIRED,
    M_NULLS,
    M_WORDS,
    O_LIMIT,
)
from sparkcep.kernels.common import layout
from sparkcep.kernels.vm.vm import DIVIDE_BY_ZERO, FAILED, OVERFLOW
from sparkcep.plan.extend.arcs import BASE
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.plan.records import CLASSIFIER_COLUMN, letter_column, parameter_column

RECORDS, MATCHES = 1024, 8192  # initial sizes
WAY = "way"  # the name of the column with the number of each match's path
_LESS = "WINDOW, or conditions that fewer rows fulfil"


def _numbered(count: int) -> dict[str, np.ndarray]:
    """New arrays for numbered paths, and the hash table to find them."""
    return {"numbered": np.zeros((count, 3), dtype=np.int64), "way_places": np.zeros(2 * count if count > 1 else 1, dtype=np.int64)}


def _table(values: tuple[Held, ...]) -> np.ndarray:
    return np.array([(held.how, held.column, held.word) for held in values], dtype=np.int64).reshape(-1, 3)


@dataclass(frozen=True)
class _Strings:
    """The strings in order, so that a rank is the index of its string. ``fixed``: the ranks of the constants."""

    pool: pa.Array
    fixed: np.ndarray

    def values(self, ranks: np.ndarray, null: np.ndarray) -> pa.Array:
        return self.pool.take(pa.array(ranks, mask=null)).cast(pa.string())


def _strings(compiled: Compiled, chunk: Chunk, given: dict[str, pa.Array]) -> tuple[_Strings, dict[str, np.ndarray]]:
    """Ranks the values of the string columns, parameters and constants in one common order."""
    names = [name for name in compiled.ranked if name in chunk.columns]
    columns = [chunk.columns[name].cast(pa.large_string()) for name in names]
    others = [values.cast(pa.large_string()) for name, values in given.items() if name in compiled.ranked]
    fixed = pa.array(compiled.strings, type=pa.large_string())
    pool = pc.unique(pa.chunked_array([*columns, *others, fixed], type=pa.large_string())).drop_null()
    pool = pool.take(pc.sort_indices(pool.cast(pa.large_binary())))

    def ranks(values: pa.Array) -> np.ndarray:
        return np.asarray(pc.fill_null(pc.index_in(values, value_set=pool), 0)).astype(np.int64)

    return _Strings(pool, ranks(fixed)), {name: ranks(column) for name, column in zip(names, columns)}


def labelled(plan: Plan) -> bool:
    """Whether any leaf asks for the names of the arcs that took rows."""
    return any(
        leaf.spec.kind == "cls" or CLASSIFIER_COLUMN in leaf.spec or (leaf.spec.kind == "rows" and CLASSIFIER_COLUMN in leaf.spec.columns) for leaf in plan.leaves
    )


class RegisterRuns(Operator):
    """The operator of the automaton search.

    Attributes:
        given: the columns of parameters.
        present: which arcs are valid when.
        by_ways: whether matches are distinguished by the rows they took, so that their paths have numbers.
        labelled: whether the labels of rows are needed.
        of_letters: the bit of each letter's column.
        expires: whether there are arcs ON EXPIRY.
        register_words: how many words the registers take.
        state: the kernel's state.
        strings: the strings of the current rows.
        room: the kernel's arrays.
    """

    def __init__(self, task: Task) -> None:
        plan, compiled = task.plan, task.prepared.compiled
        assert plan.automaton is not None and compiled is not None
        self.task, self.automaton, self.compiled = task, plan.automaton, compiled
        self.given: dict[str, pa.Array] = {}  # by parameter column
        self.present = whole(plan.automaton)
        self.by_ways = compiled.way >= 0
        self.labelled = labelled(plan) and not self.by_ways
        self.of_letters = {letter_column(letter.bit): letter.bit for letter in plan.letters}
        self.expires = plan.automaton.expires
        self.saves = AT_EXPIRY if self.expires else AT_START
        self.initial: ResumeState = ExpiryState.of(NOTHING_OPEN.rows) if self.expires else NOTHING_OPEN
        self.register_words = sum(1 + (held.how == WIDE) for held in compiled.registers)
        self.state = np.zeros(kernels.STATE_SIZE, dtype=np.int64)
        self.strings = _Strings(pa.array([], type=pa.large_string()), np.zeros(0, dtype=np.int64))
        self.room = self._first_room()

    # -- arcs ---------------------------------------------------------------------------------------------------------

    @property
    def graph(self) -> kernels.ArcGraph:
        return self.present.graph

    def use(self, present: Timetable, given: dict[str, pa.Array]) -> None:
        """Replaces the valid arcs. ``given``: the columns of their parameters."""
        self.present, self.given = present, given

    # -- rows ---------------------------------------------------------------------------------------------------------

    def step(self, chunk: Chunk, state: ResumeState) -> Step:
        """Searches the chunk. Saves the rows from the first row of each partition's oldest run on."""
        opens = self._opens(chunk, state)
        before = opens[:, layout.O_COVERED].copy()
        for found in self._rounds(chunk, opens):
            yield Found(chunk, self.described(found))
        first = opens[:, layout.O_COVERED]
        if chunk.watermark is not None:
            first = np.maximum(first, self._first_alive(chunk, opens[:, layout.O_START], chunk.watermark))
        if self.task.plan.rows == "unmatched":  # Runs that begin at ``first`` or later may still take the rows from there on.
            opens[:, layout.O_COVERED] = first = np.where(chunk.going, first, chunk.offsets[1:])
            yield Found(chunk, MatchBatch.none(), ranges(before, np.maximum(first - before, 0)))
        left = state.left(chunk, opens, first[chunk.going], self.task.back)
        return replace(left, state=ExpiryState.extended(left.state, expired_until=opens[chunk.going, O_LIMIT])) if self.expires else left

    def due(self, state: ResumeState, rows: pa.Table, watermark: int) -> np.ndarray:
        """When the lifetimes of all kept rows have ended. If an earlier end already emits something, when the first of them has
        ended."""
        chunk = Chunk.whole(rows.combine_chunks(), self.task.prepared.input_schema.names, np.concatenate([[0], np.cumsum(state.rows)]))
        ends = lifetimes(self.task.plan, chunk, self.task.failures).ends
        some, due = np.flatnonzero(state.rows), np.full(len(state.rows), NOTHING_DUE)
        # An unmatched row is emitted when no run that begins at it can live.
        # An arc ON EXPIRY is taken when the first lifetime ends.
        if len(some) and (self.task.plan.rows == "unmatched" or self.expires):
            ends = np.where(ends > watermark + 1, ends, NOTHING_DUE)
            last = np.minimum.reduceat(ends, chunk.offsets[some])
        else:
            last = np.maximum.reduceat(ends, chunk.offsets[some]) if len(some) else ends
        waits = (last > watermark + 1) & (last < NOTHING_DUE)
        due[some[waits]] = last[waits] - 1
        return due

    def _opens(self, chunk: Chunk, state: ResumeState) -> np.ndarray:
        """The partitions for the kernel, see :func:`sparkcep.engine.automaton.expiry.lives`.

        If it is not known before which time no row can arrive, arcs ON EXPIRY wait for the next row. If it is known, a row's
        matches are emitted at once, and those by its arcs ON EXPIRY later. Numbered matches wait, so that both are numbered in
        order.
        """
        if not self.expires:
            return lives(chunk, state, self.task.ahead, None)
        expired = state.expired_until  # the state is an ExpiryState
        if chunk.limits is None or not self.task.plan.numbered:
            return lives(chunk, state, self.task.ahead if chunk.limits is not None else max(self.task.ahead, 1), None, expired)
        ends = np.append(lifetimes(self.task.plan, chunk, self.task.failures).ends, 0)
        low, high = chunk.offsets[:-1], chunk.offsets[1:]
        # A run ends with the lifetime of any row that it has read, so the last row's lifetime bounds all waits.
        waits = chunk.going & (low < high) & (ends[high - 1] > chunk.limits)
        return lives(chunk, state, self.task.ahead, waits & (self.task.ahead == 0), expired)

    def _first_alive(self, chunk: Chunk, resume: np.ndarray, watermark: int) -> np.ndarray:
        """The first row of each partition that is still alive at the first unsearched row. int64 (partitions).

        A run that begins earlier takes no further row. ``resume``: int64 (partitions), the first unsearched row, or the partition's
        end.
        """
        alive, high = lifetimes(self.task.plan, chunk, self.task.failures), chunk.offsets[1:]
        next = np.where(resume < high, np.append(alive.when, 0)[resume], watermark + 1)
        rows = np.append(np.flatnonzero(alive.ends > np.repeat(next, np.diff(chunk.offsets))), chunk.rows)
        return np.minimum(rows[np.searchsorted(rows, chunk.offsets[:-1])], resume)

    def rounds(self, chunk: Chunk) -> Iterator[MatchBatch]:
        """The matches of whole partitions, in several batches."""
        return self._rounds(chunk, lives(chunk, NOTHING_OPEN, 0, None))

    def _records(self, side: int) -> np.ndarray:
        return self.room.ids[side, : self.state[kernels.S_COUNT]]

    # -- the kernel ---------------------------------------------------------------------------------------------------

    def _rounds(self, chunk: Chunk, opens: np.ndarray) -> Iterator[MatchBatch]:
        """The matches that the kernel finds, each time its output is full and at the end. Raises MatchRuntimeError."""
        self.task.ran.add(COMPUTATIONS)
        limits, state = self.task.limits, self.state
        state[:] = 0
        self.forget()
        alive = lifetimes(self.task.plan, chunk, self.task.failures)
        rows, values = self._arrays(chunk, alive)
        changes = self.task.plan.changes
        if changes is not None and changes.consecutive:
            rows.absent[apart(chunk, changes.consecutive)] |= APART
        while True:
            outcome = kernels.run(self.graph, values, rows, self.room, opens, self.labelled, limits.max_steps, limits.max_matches, state)
            if outcome == layout.GROW:
                self._grow(chunk)
            elif outcome in (layout.DONE, layout.FULL):
                lacking = outcome == layout.FULL and state[kernels.S_EVENTS] == 0
                yield self._found(chunk, alive)
                if outcome != layout.FULL:
                    return
                self._widen(chunk, lacking)
            else:
                raise self._failure(outcome, chunk)

    def forget(self) -> None:
        """Clears the hash tables, because they have entries of other rows."""
        self.room.stamps[:] = self.room.match_stamps[:] = self.room.way_places[:] = 0

    def _arrays(self, chunk: Chunk, alive: Lifetimes) -> tuple[kernels.RegisterRows, kernels.RegisterCode]:
        compiled, count = self.compiled, chunk.rows
        self.strings, ranked = _strings(compiled, chunk, self.given)
        ints = np.zeros((len(compiled.int_columns), count), dtype=np.int64)
        inull = np.zeros((len(compiled.int_columns), count), dtype=np.uint8)
        flts = np.zeros((len(compiled.float_columns), count), dtype=np.float64)
        fnull = np.zeros((len(compiled.float_columns), count), dtype=np.uint8)
        for i, (name, part) in enumerate(compiled.int_columns):
            column = chunk.columns.get(name)  # registers are not columns of the chunk
            if column is not None:
                inull[i] = null_marks(column)
                ints[i] = ranked[name] if name in ranked else words(column) if part == WORD else decimal_words(column)[part == HIGH]
        for i, (name, _) in enumerate(compiled.float_columns):
            column = chunk.columns.get(name)
            if column is not None:
                flts[i], fnull[i] = words(column), null_marks(column)
        packed = words(chunk.columns[LETTERS]) if self.task.plan.letters else np.zeros(count, dtype=np.int64)
        for i, (name, _) in enumerate(compiled.int_columns):
            if name in self.of_letters:
                ints[i] = (packed >> self.of_letters[name]) & 1
        # The kernel is compiled for writeable arrays only.
        base = words(chunk.columns[BASE]) if BASE in chunk.columns else np.zeros(count, dtype=np.int64)
        packed, offsets, when, ends, absent, base = (np.require(a, requirements="W") for a in (packed, chunk.offsets, alive.when, alive.ends, alive.absent, base))
        rows = kernels.RegisterRows(packed, offsets, when, ends, absent, base, ints, flts, inull, fnull, np.ones(count, dtype=np.int64))
        return rows, self.values()

    def values(self) -> kernels.RegisterCode:
        """The bytecode of the present arcs, for the current strings."""
        compiled, arcs = self.compiled, self.present.arcs
        code = compiled.code.copy()
        for at, which in compiled.patches:
            code[at, 1] = self.strings.fixed[which]
        sizes = (compiled.sets[1:] - compiled.sets[:-1])[arcs]
        sets = compiled.initial + np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        assigned = np.concatenate([compiled.assigned[: compiled.initial], compiled.assigned[ranges(compiled.sets[arcs], sizes)]])
        words_given = sum(1 + (held.how == WIDE) for held in compiled.parameters)
        given, null = np.zeros((len(arcs), words_given), dtype=np.int64), np.ones((len(arcs), len(compiled.parameters)), dtype=np.uint8)
        rows = self.present.given
        for i, held in enumerate(compiled.parameters):
            if parameter_column(i) in self.given and (rows >= 0).any():
                of_arcs = self.given[parameter_column(i)].take(pa.array(rows, mask=rows < 0))
                null[:, i] = null_marks(of_arcs)
                self._give(held, of_arcs, given)
        return kernels.RegisterCode(
            code, compiled.floats, compiled.fences[arcs], assigned, sets, compiled.emitted[arcs], _table(compiled.registers), _table(compiled.emits),
            _table(compiled.parameters), given, given.view(np.float64), null, np.array([I_WORDS + compiled.way if self.by_ways else -1], dtype=np.int64),
        )

    def _give(self, held: Held, values: pa.Array, given: np.ndarray) -> None:
        """Writes the values of a parameter into its words."""
        if held.is_string:
            given[:, held.word] = np.asarray(pc.fill_null(pc.index_in(values.cast(pa.large_string()), value_set=self.strings.pool), 0))
        elif held.how == WIDE:
            given[:, held.word], given[:, held.word + 1] = decimal_words(values)
        else:
            given[:, held.word] = words(values, held.type).view(np.int64)

    # -- room ---------------------------------------------------------------------------------------------------------

    def _first_room(self) -> kernels.RunRoom:
        compiled = self.compiled
        floating = np.zeros(self._match_width(), dtype=np.uint8)
        for held in (*compiled.registers, *compiled.emits):
            floating[M_WORDS + held.word] = held.how == FLOAT
        made = np.zeros(I_WORDS + self.register_words, dtype=np.int64)
        stack = max(compiled.stack, 8)
        none = np.zeros((1, 1), dtype=np.float64)
        ids = np.zeros((3, RECORDS, len(made)), dtype=np.int64)
        return kernels.RunRoom(
            ids=ids, float_ids=ids.view(np.float64), stack=np.zeros((RECORDS, 2), dtype=np.int64), walk=np.zeros((RECORDS, 2), dtype=np.int64),
            stamps=np.zeros(4 * RECORDS, dtype=np.int64), places=np.zeros(4 * RECORDS, dtype=np.int64),
            ways=np.zeros((RECORDS if self.labelled else 1, 2), dtype=np.int64), **_numbered(RECORDS if self.by_ways else 1),
            **self._match_room(MATCHES, 16 * MATCHES if self.labelled else 1), made=made, float_made=made.view(np.float64), floating=floating,
            si=np.zeros(2 * stack, dtype=np.int64), sf=np.zeros(stack, dtype=np.float64), sn=np.zeros(stack, dtype=np.uint8),
            slots=np.zeros((0, 6), dtype=np.int64), hi=none.view(np.int64), hf=none, row_labels=np.zeros(1, dtype=np.uint8),
            label_codes=np.zeros(1, dtype=np.int64), pair_starts=np.zeros((0, 1), dtype=np.int64), pair_ints=np.zeros(0, dtype=np.int64),
            pair_flts=np.zeros(0, dtype=np.float64), pair_null=np.zeros(0, dtype=np.uint8),
        )  # fmt: skip

    def _match_width(self) -> int:
        return M_WORDS + self.register_words + sum(1 + (held.how == WIDE) for held in self.compiled.emits)

    def _match_room(self, matches: int, labels: int) -> dict[str, np.ndarray]:
        """New arrays for matches, and the hash tables that find equal matches."""
        found = np.zeros((matches, self._match_width()), dtype=np.int64)
        size = 1 << (2 * matches - 1).bit_length()
        return {
            "events": np.zeros((matches, 5), dtype=np.int64), "matches": found, "float_matches": found.view(np.float64),
            "match_stamps": np.zeros(size, dtype=np.int64), "match_places": np.zeros(size, dtype=np.int64), "labels": np.zeros(labels, dtype=np.uint8),
        }  # fmt: skip

    def _grow(self, chunk: Chunk) -> None:
        """Makes room for twice as many runs or paths."""
        room = self.room
        if self.state[kernels.S_DETAIL] == kernels.NUMBERED:
            self.more_numbered()
        elif self.state[kernels.S_DETAIL] == kernels.WAYS:
            kept = self._kept_ways()
            # If nothing was dropped, the paths of one row alone do not fit.
            crowded = 2 * len(kept) > len(room.ways) or len(kept) == self.state[kernels.S_WAYS]
            ways = doubled(room.ways) if crowded else room.ways
            ways[: len(kept)] = kept
            self.room = room._replace(ways=ways)
            self.state[kernels.S_WAYS] = len(kept)
        else:
            ids = np.concatenate([room.ids, np.zeros_like(room.ids)], axis=1)
            self.room = room._replace(
                ids=ids, float_ids=ids.view(np.float64), stack=doubled(room.stack), walk=doubled(room.walk), stamps=np.zeros(2 * len(room.stamps), dtype=np.int64),
                places=np.zeros(2 * len(room.places), dtype=np.int64),
            )
        self._check(chunk)

    def more_numbered(self) -> None:
        """Makes room for twice as many numbered paths."""
        known = int(self.state[kernels.S_KNOWN_WAYS])
        fresh = _numbered(2 * len(self.room.numbered))
        fresh["numbered"][: known + 1] = self.room.numbered[: known + 1]
        self.room = self.room._replace(**fresh)
        kernels.place_ways(known, self.room)

    def _kept_ways(self) -> np.ndarray:
        """The path steps that current runs use, compacted. The records of the runs are updated to the new places."""
        ways, records = self.room.ways, self._records(self.state[kernels.S_SIDE])
        used = np.zeros(len(ways), dtype=bool)
        at = np.unique(records[:, I_WAY])
        at = at[at >= 0]
        while len(at):
            used[at] = True
            at = np.unique(ways[at, 0])
            at = at[(at >= 0) & ~used[np.maximum(at, 0)]]
        place = np.cumsum(used) - 1
        records[:, I_WAY] = np.where(records[:, I_WAY] >= 0, place[records[:, I_WAY]], -1)
        kept = ways[used]
        kept[:, 0] = np.where(kept[:, 0] >= 0, place[kept[:, 0]], -1)
        return kept

    def _widen(self, chunk: Chunk, lacking: bool) -> None:
        """New arrays for matches. They are larger if the matches of one row did not fit."""
        room = self.room
        matches, labels = len(room.events), len(room.labels)
        if self.state[kernels.S_DETAIL] == kernels.LABELS:
            labels = max(min(2 * labels, MOST_LABELS), 2 * labels if lacking else labels, 2 * int(self.state[kernels.S_ARC]))
        elif lacking:
            matches *= 2
        self.room = room._replace(**self._match_room(matches, labels))
        self._check(chunk)

    def _check(self, chunk: Chunk) -> None:
        room = self.room
        nbytes = sum(a.nbytes for a in (room.ids, room.stack, room.walk, room.stamps, room.places, room.ways, room.numbered, room.way_places, room.events, room.matches, room.labels))
        if nbytes + self.strings.pool.nbytes > self.task.limits.max_state_bytes:
            raise self.task.failures.state(self._place(chunk), chunk.columns, _LESS)

    # -- output -------------------------------------------------------------------------------------------------------

    def _found(self, chunk: Chunk, alive: Lifetimes) -> MatchBatch:
        """The matches that the kernel has written. Its output arrays are empty afterwards."""
        state, room = self.state, self.room
        count, used = int(state[kernels.S_EVENTS]), int(state[kernels.S_LABELS])
        state[kernels.S_EVENTS] = state[kernels.S_LABELS] = 0
        events, matches = room.events[:count], room.matches[:count]
        labels = room.labels[:used]
        if not self.labelled:
            labels = np.zeros(int(events[:, layout.E_ROWS].max(initial=0)), dtype=np.uint8)
        first = events[:, layout.E_START]
        by_event = self.by_event(first, first + events[:, layout.E_ROWS] - 1, matches, chunk, alive)
        if self.by_ways:
            by_event[WAY] = pa.array(matches[:, M_WORDS + self.compiled.way])
        return MatchBatch(events, labels, np.zeros(0, dtype=np.int64), by_event=by_event)

    def described(self, found: MatchBatch) -> MatchBatch:
        """Matches with the rows that their paths took, instead of all rows from the first to the last one. Unchanged if paths do
        not matter."""
        if not self.by_ways:
            return found
        sizes, rows, labels = self.ways(np.asarray(found.by_event[WAY]))
        events = found.events.copy()
        events[:, layout.E_ROWS], events[:, layout.E_LABELS] = sizes, np.cumsum(sizes) - sizes
        return replace(found, events=events, labels=labels, rows=rows)

    def ways(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows of paths, by their numbers.

        Returns:
            How many rows each path took, then all their rows, then the labels of these rows. Paths follow one after the other.
        """
        table = self.room.numbered
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
            elif spec.kind == "match_id" and not self.by_ways:
                found[ENDING] = self._endings(matches)
        return found

    def _endings(self, matches: np.ndarray) -> pa.Array:
        """The final values of each run as a string for MATCH_ID(): lifetimes, registers and the values of EMIT."""
        ends: list[list] = [matches[:, M_EXPIRED].tolist(), matches[:, M_END].tolist()]
        for all, nulls in ((self.compiled.registers, M_NULLS), (self.compiled.emits, M_EMIT_NULLS)):
            for number, held in enumerate(all):
                ends.append(self._values(held, matches, ((matches[:, nulls] >> number) & 1).astype(bool)).to_pylist())
        return pa.array([repr(plain(end)) for end in zip(*ends, strict=True)], pa.string())

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
        wrong = np.flatnonzero(~absent & (beyond(numbers, column.type) | (numbers == kernels.ENDLESS)))
        if len(wrong):
            where, endless = self.task.failures.where(int(rows[wrong[0]]), chunk.columns), numbers[wrong[0]] == kernels.ENDLESS
            most, wider = ("64 bits", "DOUBLE") if endless else (f"what {column.type} holds", "a wider type")
            raise MatchRuntimeError("ARITHMETIC_OVERFLOW", f"{name}{where} lies beyond {most}; cast the ORDER BY expression to {wider}", sqlstate="22003")
        return times(numbers, absent, column.type)

    def _values(self, held: Held, matches: np.ndarray, null: np.ndarray) -> pa.Array:
        """The values of a register or of a column of EMIT, by match."""
        low, t = np.ascontiguousarray(matches[:, M_WORDS + held.word]), held.type
        if held.is_string:
            return self.strings.values(low, null)
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

    # -- errors -------------------------------------------------------------------------------------------------------

    def _place(self, chunk: Chunk) -> int:
        return min(int(self.state[kernels.S_ROW]), chunk.rows - 1)

    def _failure(self, outcome: int, chunk: Chunk) -> MatchRuntimeError:
        row, state = self._place(chunk), self.state
        where = self.task.failures.where(row, chunk.columns)
        if outcome == layout.EFFORT:
            return MatchRuntimeError(
                "EFFORT_LIMIT",
                f"the arcs that follow one row{where} are more than sparkcep.maxSteps = {self.task.limits.max_steps}; check that arcs ON EMPTY come to an end, or use "
                f"a smaller {_LESS}", sqlstate="54000",
            )
        if outcome != layout.ERROR:
            return self.task.failures.of(outcome, row, 0, chunk.columns)
        bad, arc = int(state[kernels.S_DETAIL]), int(state[kernels.S_ARC])
        of = self.automaton.arcs[self.present.arcs[arc]] if arc >= 0 else None
        place = "the constant of a register" if of is None else f"the arc in line {of.line}: {of.text}" if of.line else f"the arc {of.text}"
        if bad <= FAILED:
            return of_condition(bad, self.task.plan, where)
        if bad == OVERFLOW + kernels.CAST:
            return MatchRuntimeError("CAST_OVERFLOW", f"a value is beyond the type of its register in {place}{where}; declare a wider type", sqlstate="22003")
        if bad == DIVIDE_BY_ZERO:
            return MatchRuntimeError("DIVIDE_BY_ZERO", f"division by zero in {place}{where}; use NULLIF on the divisor", sqlstate="22012")
        assert bad == OVERFLOW
        return MatchRuntimeError("ARITHMETIC_OVERFLOW", f"overflow of a number in {place}{where}; cast to a wider type", sqlstate="22003")
