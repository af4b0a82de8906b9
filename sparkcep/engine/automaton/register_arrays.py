"""Arrays of the kernels that run automata with registers, and the loop around these kernels.

:mod:`sparkcep.kernels.automaton.register_runs` describes the arrays. The automaton search
(:mod:`sparkcep.engine.automaton.register_runs`) and the run log of changelogs (:mod:`sparkcep.engine.changelog.run_log`) share them
and the loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import decimal_words, null_marks, ranges, words
from sparkcep.columns.types import HIGH, WORD
from sparkcep.compiler.registers.register_code import FLOAT, WIDE, Compiled, Held
from sparkcep.compiler.searches import COMPUTATIONS
from sparkcep.engine.automaton.arc_validity import Timetable, whole
from sparkcep.engine.automaton.lifetimes import Lifetimes
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.errors import of_condition
from sparkcep.engine.core.kernel_loop import KernelLoop, doubled, with_doubled
from sparkcep.engine.core.task import Task
from sparkcep.errors import MatchRuntimeError
from sparkcep.kernels.automaton import register_runs as kernels
from sparkcep.kernels.automaton.register_runs import I_WORDS, M_WORDS
from sparkcep.kernels.common import layout
from sparkcep.kernels.vm.vm import DIVIDE_BY_ZERO, FAILED, OVERFLOW
from sparkcep.plan.extend.arcs import BASE
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.plan.records import CLASSIFIER_COLUMN, Automaton, letter_column, parameter_column

RECORDS, MATCHES = 1024, 8192  # initial sizes


def numbered_paths(count: int) -> dict[str, np.ndarray]:
    """New arrays for numbered paths, and the hash table to find them."""
    return {"numbered": np.zeros((count, 4), dtype=np.int64), "way_places": np.zeros(2 * count if count > 1 else 1, dtype=np.int64)}


def _reported(count: int, width: int) -> dict[str, np.ndarray]:
    """New arrays for all matches of a call, and the hash table to find them. ``width``: the words of a match."""
    return {"reported": np.zeros((count, width), dtype=np.int64), "reported_places": np.zeros(2 * count if count > 1 else 1, dtype=np.int64)}


def repeats(automaton: Automaton) -> bool:
    """Whether computations of equal matches may begin or end at different rows.

    This needs BY ROWS, and an arc without a label that takes the first or the last row of a computation.
    """
    if not automaton.by_ways:
        return False
    silent = [arc for arc in automaton.arcs if arc.on != "row" or arc.label == 0]
    begins, ends = {automaton.start}, set(automaton.final)
    for _ in automaton.states:
        begins |= {arc.target for arc in silent if arc.on != "row" and arc.source in begins}
        ends |= {arc.source for arc in silent if arc.on != "row" and (arc.emits or arc.target in ends)}
    # A row that leads to an ending state is a last one. Each longer ending without labels ends with such a row, too.
    return any(arc.on == "row" and (arc.source in begins or arc.emits or arc.target in ends) for arc in silent)


def _table(values: tuple[Held, ...]) -> np.ndarray:
    return np.array([(held.how, held.column, held.word) for held in values], dtype=np.int64).reshape(-1, 3)


@dataclass(frozen=True)
class RankedStrings:
    """The strings in order, so that a rank is the index of its string. ``fixed``: the ranks of the constants."""

    pool: pa.Array
    fixed: np.ndarray

    def values(self, ranks: np.ndarray, null: np.ndarray) -> pa.Array:
        return self.pool.take(pa.array(ranks, mask=null)).cast(pa.string())


def _strings(compiled: Compiled, chunk: Chunk, given: dict[str, pa.Array]) -> tuple[RankedStrings, dict[str, np.ndarray]]:
    """Ranks the values of the string columns, parameters and constants in one common order."""
    names = [name for name in compiled.ranked if name in chunk.columns]
    columns = [chunk.columns[name].cast(pa.large_string()) for name in names]
    others = [values.cast(pa.large_string()) for name, values in given.items() if name in compiled.ranked]
    fixed = pa.array(compiled.strings, type=pa.large_string())
    pool = pc.unique(pa.chunked_array([*columns, *others, fixed], type=pa.large_string())).drop_null()
    pool = pool.take(pc.sort_indices(pool.cast(pa.large_binary())))

    def ranks(values: pa.Array) -> np.ndarray:
        return np.asarray(pc.fill_null(pc.index_in(values, value_set=pool), 0)).astype(np.int64)

    return RankedStrings(pool, ranks(fixed)), {name: ranks(column) for name, column in zip(names, columns)}


def labelled(plan: Plan) -> bool:
    """Whether any leaf asks for the names of the arcs that took rows."""
    return any(
        leaf.spec.kind == "cls" or CLASSIFIER_COLUMN in leaf.spec or (leaf.spec.kind == "rows" and CLASSIFIER_COLUMN in leaf.spec.columns) for leaf in plan.leaves
    )


class RegisterArrays:
    """The arrays of one search, which it keeps from chunk to chunk.

    Attributes:
        given: the columns of parameters.
        present: which arcs are valid when.
        by_ways: whether matches are distinguished by the rows they took, so that their paths have numbers.
        repeats: whether equal matches may begin or end at different rows, see :func:`repeats`.
        labelled: whether the labels of rows are needed.
        of_letters: the bit of each letter's column.
        register_words: how many words the registers take.
        state: the kernel's state.
        strings: the strings of the current rows.
        room: the kernel's records, matches and working memory.
    """

    def __init__(self, task: Task) -> None:
        plan, compiled = task.plan, task.prepared.compiled
        assert plan.automaton is not None and compiled is not None
        self.task, self.automaton, self.compiled = task, plan.automaton, compiled
        self.given: dict[str, pa.Array] = {}  # by parameter column
        self.present = whole(plan.automaton)
        self.by_ways = compiled.way >= 0
        self.repeats = repeats(plan.automaton)
        self.labelled = labelled(plan) and not self.by_ways
        self.of_letters = {letter_column(letter.bit): letter.bit for letter in plan.letters}
        self.register_words = sum(held.words for held in compiled.registers)
        self.state = np.zeros(kernels.STATE_SIZE, dtype=np.int64)
        self.strings = RankedStrings(pa.array([], type=pa.large_string()), np.zeros(0, dtype=np.int64))
        self.room = self._first_room()

    def use(self, present: Timetable, given: dict[str, pa.Array]) -> None:
        """Replaces the valid arcs. ``given``: the columns of their parameters."""
        self.present, self.given = present, given

    def forget(self) -> None:
        """Clears the hash tables, because they have entries of other rows."""
        self.room.stamps[:] = self.room.match_stamps[:] = self.room.way_places[:] = self.room.reported_places[:] = 0

    def of_chunk(self, chunk: Chunk, alive: Lifetimes) -> tuple[kernels.RegisterRows, kernels.RegisterCode]:
        """Returns the arrays of a chunk's rows, and the bytecode for them."""
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
        words_given = sum(held.words for held in compiled.parameters)
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

    def context(self, graph: kernels.ArcGraph, rows: kernels.RegisterRows, code: kernels.RegisterCode) -> kernels.RunContext:
        """Returns the arguments of the kernels for these arcs and rows."""
        limits = self.task.limits
        return kernels.RunContext(graph, code, rows, self.room, self.labelled, limits.max_steps, limits.max_matches)

    def _give(self, held: Held, values: pa.Array, given: np.ndarray) -> None:
        """Writes the values of a parameter into its words."""
        if held.is_string:
            given[:, held.word] = np.asarray(pc.fill_null(pc.index_in(values.cast(pa.large_string()), value_set=self.strings.pool), 0))
        elif held.how == WIDE:
            given[:, held.word], given[:, held.word + 1] = decimal_words(values)
        else:
            given[:, held.word] = words(values, held.type).view(np.int64)

    def _first_room(self) -> kernels.RunRoom:
        compiled = self.compiled
        floating = np.zeros(self.match_width(), dtype=np.uint8)
        for held in (*compiled.registers, *compiled.emits):
            floating[M_WORDS + held.word] = held.how == FLOAT
        made = np.zeros(I_WORDS + self.register_words, dtype=np.int64)
        stack = max(compiled.stack, 8)
        none = np.zeros((1, 1), dtype=np.float64)
        ids = np.zeros((3, RECORDS, len(made)), dtype=np.int64)
        return kernels.RunRoom(
            ids=ids, float_ids=ids.view(np.float64), stack=np.zeros((RECORDS, 2), dtype=np.int64), walk=np.zeros((RECORDS, 2), dtype=np.int64),
            stamps=np.zeros(4 * RECORDS, dtype=np.int64), places=np.zeros(4 * RECORDS, dtype=np.int64),
            ways=np.zeros((RECORDS if self.labelled else 1, 2), dtype=np.int64), **numbered_paths(RECORDS if self.by_ways else 1),
            **_reported(RECORDS if self.repeats else 1, self.match_width()),
            **self.match_room(MATCHES, 16 * MATCHES if self.labelled else 1), made=made, float_made=made.view(np.float64), floating=floating,
            si=np.zeros(2 * stack, dtype=np.int64), sf=np.zeros(stack, dtype=np.float64), sn=np.zeros(stack, dtype=np.uint8),
            slots=np.zeros((0, 6), dtype=np.int64), hi=none.view(np.int64), hf=none, row_labels=np.zeros(1, dtype=np.uint8),
            label_codes=np.zeros(1, dtype=np.int64), pair_starts=np.zeros((0, 1), dtype=np.int64), pair_ints=np.zeros(0, dtype=np.int64),
            pair_flts=np.zeros(0, dtype=np.float64), pair_null=np.zeros(0, dtype=np.uint8),
        )  # fmt: skip

    def match_width(self) -> int:
        """Returns how many words a match has."""
        return M_WORDS + self.register_words + sum(held.words for held in self.compiled.emits)

    def match_room(self, matches: int, labels: int) -> dict[str, np.ndarray]:
        """New arrays for matches, and the hash tables that find equal matches."""
        found = np.zeros((matches, self.match_width()), dtype=np.int64)
        size = 1 << (2 * matches - 1).bit_length()
        return {
            "events": np.zeros((matches, 5), dtype=np.int64), "matches": found, "float_matches": found.view(np.float64),
            "match_stamps": np.zeros(size, dtype=np.int64), "match_places": np.zeros(size, dtype=np.int64), "labels": np.zeros(labels, dtype=np.uint8),
        }  # fmt: skip

    @property
    def nbytes(self) -> int:
        room = self.room
        growing = room.ids, room.stack, room.walk, room.stamps, room.places, room.ways, room.numbered, room.way_places, room.events, room.matches, room.labels
        return sum(a.nbytes for a in (*growing, room.reported, room.reported_places)) + self.strings.pool.nbytes


class RegisterLoop(KernelLoop):
    """The loop around a kernel that steps runs over one chunk.

    Attributes:
        runs: the arrays of the runs.
    """

    name = COMPUTATIONS
    place, detail = kernels.S_ROW, kernels.S_DETAIL
    less = "WINDOW, or conditions that fewer rows satisfy"

    def __init__(self, runs: RegisterArrays, chunk: Chunk) -> None:
        super().__init__(runs.task, chunk)
        self.task.ran.add(self.name)  # also if the rows are wrong
        self.runs, self.state = runs, runs.state

    def grow(self) -> None:
        """Makes room for twice as many records, path steps, numbered paths or matches of the call."""
        lacking = self.state[kernels.S_DETAIL]
        if lacking == kernels.NUMBERED:
            known, fresh = int(self.state[kernels.S_KNOWN_WAYS]), numbered_paths(2 * len(self.runs.room.numbered))
            fresh["numbered"][: known + 1] = self.runs.room.numbered[: known + 1]
            self.replace(**fresh)
            kernels.place_ways(known, self.runs.room)
        elif lacking == kernels.REPORTED:
            known, old = int(self.state[kernels.S_REPORTED]), self.runs.room.reported
            fresh = _reported(2 * len(old), old.shape[1])
            fresh["reported"][: known + 1] = old[: known + 1]
            self.replace(**fresh)
            kernels.place_reported(known, self.runs.room)
        elif lacking == kernels.WAYS:
            self.more_ways()
        else:
            self.more_records()

    def more_records(self) -> None:
        """Makes room for twice as many records."""
        room, size = with_doubled(self.runs.room, "stack", "walk"), 2 * len(self.runs.room.stamps)
        ids = np.concatenate([room.ids, np.zeros_like(room.ids)], axis=1)
        self.replace(
            ids=ids, float_ids=ids.view(np.float64), stack=room.stack, walk=room.walk, stamps=np.zeros(size, dtype=np.int64), places=np.zeros(size, dtype=np.int64),
        )

    def more_ways(self) -> None:
        """Makes room for further path steps."""
        self.replace(ways=doubled(self.runs.room.ways))

    def replace(self, **arrays: np.ndarray) -> None:
        """Replaces arrays of the room. Raises MatchRuntimeError if the room needs too many bytes."""
        self.runs.room = self.runs.room._replace(**arrays)
        self.check(self.runs.nbytes)

    def failure(self, outcome: int) -> MatchRuntimeError:
        state, where = self.state, self.task.failures.where(self.row, self.chunk.columns)
        if outcome == layout.EFFORT:
            return MatchRuntimeError(
                "EFFORT_LIMIT",
                f"the arcs that follow one row{where} are more than sparkcep.maxSteps = {self.task.limits.max_steps}; check that chains of arcs ON EMPTY end, or use "
                f"a smaller {self.less}", sqlstate="54000",
            )
        if outcome != layout.ERROR:
            return super().failure(outcome)
        bad, arc = int(state[kernels.S_DETAIL]), int(state[kernels.S_ARC])
        of = self.runs.automaton.arcs[self.runs.present.arcs[arc]] if arc >= 0 else None
        place = "the constant of a register" if of is None else f"the arc in line {of.line}: {of.text}" if of.line else f"the arc {of.text}"
        if bad <= FAILED:
            return of_condition(bad, self.task.plan, where)
        if bad == OVERFLOW + kernels.CAST:
            return MatchRuntimeError("CAST_OVERFLOW", f"a value does not fit into the type of its register in {place}{where}. Declare a wider type", sqlstate="22003")
        if bad == DIVIDE_BY_ZERO:
            return MatchRuntimeError("DIVIDE_BY_ZERO", f"division by zero in {place}{where}; use NULLIF on the divisor", sqlstate="22012")
        assert bad == OVERFLOW
        return MatchRuntimeError("ARITHMETIC_OVERFLOW", f"numeric overflow in {place}{where}; cast to a wider type", sqlstate="22003")
