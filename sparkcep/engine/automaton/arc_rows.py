"""Rows of ARCS FROM: what each row changes, and which arcs are valid when.

The changelog (:mod:`sparkcep.engine.changelog.changelog`) and the journal of a stream
(:mod:`sparkcep.engine.automaton.arc_history`) use it.

An arc exists from its row on. A row in default mode, which writes no time, takes effect after all earlier rows. So it cannot change
earlier matches, and the arcs have its change from the start. A row that writes a lifetime or undoes an earlier row is an
:class:`Effect`, which happens when the row arrives.

Example: the last time so far is 10. A row (insert, a) makes the arc a valid from 11 on, with no effect. A row (insert, b,
valid_from 5) comes later. Before it b is never valid, and its effect makes b valid from 5 on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import is_text, null_marks, ordered_words, ranks, words
from sparkcep.columns.comparable import as_bytes
from sparkcep.columns.types import INT_BITS, MAX_DIGITS, Type, type_of
from sparkcep.compiler.registers.register_code import register_type
from sparkcep.engine.automaton.arc_validity import ALWAYS, ValidArc
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.errors import said
from sparkcep.engine.core.task import Task
from sparkcep.errors import SEMANTIC, ClauseError, MatchRuntimeError
from sparkcep.kernels.automaton import arc_events as kernels
from sparkcep.kernels.automaton.arc_events import DELETE, INSERT, PUNCTUATE
from sparkcep.kernels.automaton.register_runs import ENDLESS
from sparkcep.kernels.common import layout
from sparkcep.plan.extend import arcs as names
from sparkcep.plan.extend.automaton import dead_states, leads_nowhere
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import parameter_column

WORDS = pa.array(["insert", "delete", "retract", "punctuate"])
_WIDE_DIGITS = 76  # more digits than the integral part and the scale of any two decimals need
_BEHIND = 1 << 62  # the place of all arcs as text: after those of the clause


# -- types ------------------------------------------------------------------------------------------------------------


def check_arcs(plan: Plan, schema: pa.Schema) -> None:
    """Raises ClauseError if a column of ARCS FROM is missing or has a type that does not fit."""
    arcs = plan.arcs
    if arcs is None:
        return
    place = {"line": arcs.line, "column": arcs.column, "fragment": arcs.text}

    def fail(message: str) -> None:
        raise ClauseError("DATATYPE_MISMATCH", message, sqlstate=SEMANTIC, **place)

    def kind(column: str) -> Type:
        return type_of(schema.field(column).type)

    texts = kind(names.SOURCE).kind != "null"
    if not texts:
        _check_all_declared(plan, place)
    if texts and not arcs.texts:
        fail(
            "the table of ARCS FROM has a column from_state, and arcs of the clause have parameters. For arcs as text, too, name the column after ARCS FROM, as in "
            "ARCS FROM (SELECT arc, from_state, to_state, `when`, `set`, ... FROM ...); otherwise leave the column out"
        )
    for name, column in names.own_columns(arcs.texts).items():
        t = kind(column)
        wanted = "boolean" if column == names.FINAL else "string"
        missing = t.kind == "null" and (column == names.NAME and not texts or column == names.TARGET and texts)
        if missing or column not in (names.FROM, names.TO) and t.kind not in (wanted, "null"):
            what = {"arc": ", the name of the arc", "to_state": ", beside from_state"}.get(name, "")
            fail(f"the table of ARCS FROM needs a column {name} of type {wanted.upper()}{what}" + ("" if t.kind == "null" else f", not {t}"))
        if column in (names.FROM, names.TO) and not _fits(t, kind(plan.automaton.time)):
            fail(f"{name} is of type {t}, and the first ORDER BY expression of type {kind(plan.automaton.time)}; cast it in a query after ARCS FROM")
    for i, parameter in enumerate(plan.automaton.parameters):
        t, wanted = kind(names.written_column(i)), type_of(register_type(parameter))
        if t.kind == "null":
            fail(f"the table of ARCS FROM lacks the column {parameter.name}, which is a parameter of an arc. Add it, or cast its NULL")
        if t != wanted and not (t.is_number and wanted.is_number):
            fail(f"the column {parameter.name} is of type {t} and cannot be assigned to the parameter, which is {wanted}; CAST it in a query after ARCS FROM")
    for i in range(len(arcs.came)):
        together, rows = kind(names.moment_column(i)), kind(names.came_column(i))
        if (together.kind == "string") != (rows.kind == "string"):
            fail(f"rows and arcs arrive in one order, but ARRIVAL BY of the rows is of type {rows}, and together with that of the arcs of type {together}. Cast one of them")
    own = [kind(names.key_column(i)).kind != "null" for i in range(len(arcs.keys))]
    if any(own) and not all(own):
        missing = arcs.keys[own.index(False)]
        fail(f"the table of ARCS FROM has some partition keys, but lacks the column {missing}. An arc has all keys of its partition, or none and applies to all partitions")


def _check_all_declared(plan: Plan, place: dict) -> None:
    """Raises ClauseError if the clause's own arcs are not enough. It is called if the table cannot bring others, because it lacks
    the column from_state."""
    automaton = plan.automaton
    if not any(arc.template for arc in automaton.arcs):
        message = "no arc has parameters, and the table of ARCS FROM lacks the column from_state, so its rows cannot add arcs. Write ARC a(k INT) FROM ..., or "
        raise ClauseError("AUTOMATON", f"{message}ARC a() FROM ..., or give the table the columns from_state, to_state, when and set", sqlstate=SEMANTIC, **place)
    dead = dead_states(automaton)
    for arc in automaton.arcs:
        found = next((state for state in (arc.source, arc.target) if state in dead), None)
        if found is not None:
            at = {"line": arc.line, "column": arc.column, "fragment": arc.text}
            raise ClauseError("AUTOMATON", leads_nowhere(automaton.states[found]), sqlstate=SEMANTIC, **at)


def _fits(t: Type, time: Type) -> bool:
    """Whether the bounds of an arc's lifetime may have the type ``t``."""
    return t == time or t.kind == "null" or (t.is_number and time.is_number and (time.is_float or not t.is_float))


# -- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Effect:
    """A change of an arc when its row arrives: from then on the arc is valid from ``begin`` to before ``end``.

    ``of``: the number of the arc among those of the partition.
    """

    of: int
    begin: int
    end: int


@dataclass(frozen=True)
class Plot:
    """The arcs of a partition in order, as tables for :func:`sparkcep.engine.automaton.arc_validity.timetable`.

    Attributes:
        first: the arcs before any effect.
        last: the arcs after all effects.
        effects: the effects by their rows.
    """

    first: np.ndarray
    last: np.ndarray
    effects: dict[int, Effect] = field(default_factory=dict)


@dataclass(frozen=True)
class Named:
    """The arcs that rows of ARCS FROM name. All arrays are int64 (rows of the chunk).

    Attributes:
        arc: the arc of the automaton, -1 for a punctuation.
        place: its place in the order of all arcs.
        rank: the rank of its parameters among those of one arc, or the rank of the arc's text.
        number: the number of the whole name.
    """

    arc: np.ndarray
    place: np.ndarray
    rank: np.ndarray
    number: np.ndarray


class ArcRows:
    """The rows of ARCS FROM in a chunk of whole partitions. All arrays are by rows of the chunk.

    Attributes:
        words: the operations that rows may name.
        marks: bool, whether the row is of ARCS FROM.
        clock: int64, the time of a row, or the valid_from of an arc, as numbers in time order.
        absent: bool, whether ``clock`` is NULL.
        ends, endless: int64 and bool, the valid_to of an arc, and whether it does not have one.
        now, never: int64 and bool, the largest time of all earlier rows, and whether there were none.
        steps: whether each time but the last has a next one.
        templates: the number of each arc with parameters, by its name in lower case.
        ops: int64, the operation of the row.
    """

    words = WORDS

    def __init__(self, task: Task, chunk: Chunk) -> None:
        self.task, self.chunk, columns = task, chunk, chunk.columns
        check_texts(columns)
        self.marks = np.asarray(pc.fill_null(columns[names.IS], False)).astype(bool)
        self.time = columns[task.plan.automaton.time]
        (begin, never), (end, always), (now, _) = (self._times(column) for column in (names.FROM, names.TO, names.NOW))
        self.timed = pc.if_else(pa.array(self.marks), begin, self.time)
        t = type_of(self.time.type)
        self.steps = t.is_integer or t.kind in ("date", "timestamp", "timestamp_ntz", "decimal")
        if t.is_ranked:
            (self.clock, self.ends, self.now), _ = ranks([self.timed, end, now])
        else:
            self.clock, self.ends, self.now = (ordered_words(words(column)) for column in (self.timed, end, now))
        self.absent, self.endless, self.never = (null_marks(column).astype(bool) for column in (self.timed, end, now))
        self.endless |= always
        self._check_last(never)
        self.clock = np.where(never, ENDLESS, self.clock)  # an arc that begins at ENDLESS is never valid
        self.templates = {arc.template.lower(): i for i, arc in enumerate(task.plan.automaton.arcs) if arc.template}
        self.ops = self._ops()

    @property
    def punctuates(self) -> bool:
        """Whether rows wait for punctuations of the arcs."""
        explicit = type_of(self.chunk.columns[names.FROM].type).kind != "null"
        return explicit and bool(self.task.plan.arcs.came)

    @property
    def reaching_back(self) -> np.ndarray:
        """Whether the row may change matches of earlier rows. bool (rows)."""
        explicit = np.where(self.ops == INSERT, ~self.absent, np.where(self.ops == DELETE, ~self.endless, self.ops != PUNCTUATE))
        return self.marks & explicit

    def arrival(self, arrival: np.ndarray) -> np.ndarray:
        """The order of arrival of all rows, from that of the rows alone. int64 (rows).

        Arcs come first if they do not have an order of their own.
        """
        return arrival if self.task.plan.arcs.came else np.where(self.marks, self.ops - len(WORDS), arrival)

    def _times(self, column: str) -> tuple[pa.Array, np.ndarray]:
        """A column of times, in the type of the rows' times, and whether each time is later than all times of that type. bool
        (rows)."""
        if column not in self.chunk.columns:
            return pa.nulls(self.chunk.rows, self.time.type), np.zeros(self.chunk.rows, dtype=bool)
        found, t = self.chunk.columns[column], type_of(self.time.type)
        try:
            if (t.is_integer or t.kind == "decimal") and not pa.types.is_null(found.type) and not found.type.equals(self.time.type):
                return self._rounded(found, t)
            return found.cast(self.time.type), np.zeros(len(found), dtype=bool)
        except pa.ArrowInvalid:
            raise _lifetime(f"lies beyond {self.time.type}, the type of the rows' times. Leave it NULL if it is unbounded") from None

    def _rounded(self, found: pa.Array, t: Type) -> tuple[pa.Array, np.ndarray]:
        """Rounds times up to the type ``t``, and marks those that are later than all of its times.

        A bound between two times that a row can have acts as the later one. A bound before all times acts as the first one.
        """
        scale = t.scale if t.kind == "decimal" else 0
        finer = found.type.scale if pa.types.is_decimal(found.type) else 0
        exact = pc.round(found.cast(pa.decimal256(_WIDE_DIGITS, max(scale, finer))), ndigits=scale, round_mode="up").cast(pa.decimal256(_WIDE_DIGITS, scale))
        most = 10**t.precision - 1 if t.kind == "decimal" else (1 << INT_BITS[t.kind] - 1) - 1
        high, low = (pa.scalar(Decimal(limit).scaleb(-scale), exact.type) for limit in (most, -most - (t.kind != "decimal")))
        over = pc.fill_null(pc.greater(exact, high), False)
        clipped = pc.if_else(over, high, pc.if_else(pc.less(exact, low), low, exact))
        return clipped.cast(pa.decimal128(MAX_DIGITS, scale)).cast(self.time.type), np.asarray(over)

    def _check_last(self, over: np.ndarray) -> None:
        """Raises MatchRuntimeError for a bound at the last time of 64 bits if a row has that time, too. That number means that
        there is not a bound."""
        last = self.clock == ENDLESS
        bounds = (self.marks & last & ~over) | (self.marks & ~self.endless & (self.ends == ENDLESS))
        if bounds.any() and (last & ~self.marks & ~self.absent).any():
            raise _lifetime("is the last time that fits into 64 bits, and a row has that time. Cast the ORDER BY expression to a wider type")

    def _ops(self) -> np.ndarray:
        written = self.chunk.columns[names.OP].cast(pa.string())
        ops = pc.fill_null(pc.index_in(pc.utf8_lower(written), value_set=self.words), -1).to_numpy(zero_copy_only=False).astype(np.int64)
        ops[null_marks(written) == 1] = INSERT
        bad = np.flatnonzero(self.marks & (ops < 0))
        if len(bad):
            message = f"the column op of ARCS FROM holds {written[int(bad[0])].as_py()!r}; write 'insert' (or NULL), 'delete', 'retract' or 'punctuate'"
            raise MatchRuntimeError("CHANGE_VALUE", message, sqlstate="22023")
        return ops

    # -- partitions ---------------------------------------------------------------------------------------------------

    def plot(self, order: np.ndarray, punctuations: np.ndarray) -> Plot:
        """The arcs of a partition. Raises MatchRuntimeError.

        Args:
            order: int64, the rows of the partition in order of arrival.
            punctuations: bool (rows of the chunk), the punctuations among the partition's own rows.
        """
        return self._plotted(*self.stood(order, punctuations))

    def stood(self, order: np.ndarray, punctuations: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows of ARCS FROM among ``order``, with the arcs that they insert and the effects that they have. Raises
        MatchRuntimeError.

        The tables are those of :func:`sparkcep.kernels.automaton.arc_events.stand`. Their row numbers count the returned rows.
        """
        marks = self.marks[order]
        rows = order[marks]
        now, never = self._now(order, marks)
        too_late, any_too_late = self._too_late(order, marks, punctuations)
        following = np.where(never, ALWAYS, now + (now < ENDLESS))
        came = kernels.Came(
            self.ops[rows], self.named.number[rows], self.clock[rows], self.absent[rows].astype(np.uint8), self.ends[rows], self.endless[rows].astype(np.uint8),
            following, (~never).astype(np.uint8) * (not self.steps), too_late, any_too_late,
        )  # fmt: skip
        last = np.full(self._names, -1, dtype=np.int64)
        arcs, effects, counts = (np.zeros(shape, dtype=np.int64) for shape in ((len(rows), kernels.T_WIDTH), (len(rows), kernels.F_WIDTH), 3))
        outcome = kernels.stand(came, last, arcs, effects, counts)
        if outcome != layout.DONE:
            raise self._failure(outcome, int(rows[counts[2]]))
        return rows, arcs[: counts[0]], effects[: counts[1]]

    def _now(self, order: np.ndarray, marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The largest time before each row of ARCS FROM, int64, and whether no row came before it, bool."""
        if not self.task.plan.arcs.came or self.task.plan.partition:
            rows = order[marks]
            return self.now[rows], self.never[rows]
        # All rows of the statement are in this partition.
        now = np.maximum.accumulate(np.where(marks | self.absent[order], ALWAYS, self.clock[order]))[marks]
        return now, now == ALWAYS

    def _too_late(self, order: np.ndarray, marks: np.ndarray, punctuations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The times before which each row of ARCS FROM is late: if it writes a time, and in any case. int64 (rows of ARCS FROM),
        twice."""
        never = np.full(int(marks.sum()), ALWAYS, dtype=np.int64)
        if not self.task.plan.arcs.came:
            return never, never
        clock, own = self.clock[order], marks & (self.ops[order] == PUNCTUATE) & ~self.absent[order]
        if not (own.any() or punctuations[order].any()):
            return never, never
        promised, of_arcs = (np.maximum.accumulate(np.where(some, clock, ALWAYS)) for some in (punctuations[order], own))
        effective = np.minimum(promised, of_arcs) if self.punctuates else promised
        return np.maximum(effective, of_arcs)[marks], effective[marks]

    def _plotted(self, rows: np.ndarray, arcs: np.ndarray, effects: np.ndarray) -> Plot:
        automaton, given = self.task.plan.automaton, rows[arcs[:, kernels.T_ROW]]
        static = np.array([i for i, arc in enumerate(automaton.arcs) if arc.is_static], dtype=np.int64)
        none = np.full(len(static), -1, dtype=np.int64)
        places = np.concatenate([static, self.named.place[given]])
        ranks_of, begins = np.concatenate([none, self.named.rank[given]]), np.concatenate([none, arcs[:, kernels.T_BEGIN]])
        order = np.lexsort((ranks_of, begins, places))
        present = np.empty((len(order), len(ValidArc._fields)), dtype=np.int64)
        present[:, 0] = np.concatenate([static, self.named.arc[given]])
        present[:, 1], present[:, 2], present[:, 3] = ALWAYS, ENDLESS, np.concatenate([none, given])
        first, last = present.copy(), present.copy()
        foreseen = arcs[:, kernels.T_EXPECTED]
        for table, until, hidden in ((first, kernels.T_WRITTEN, kernels.T_APPEARS), (last, kernels.T_END, kernels.T_GONE)):
            absent = arcs[:, hidden] == 1
            table[len(static) :, 1] = np.where(absent, ENDLESS, arcs[:, kernels.T_BEGIN])
            table[len(static) :, 2] = np.where(absent, ENDLESS, np.minimum(arcs[:, until], foreseen))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        of = effects[:, kernels.F_OF]
        ends = np.minimum(effects[:, kernels.F_END], foreseen[of])
        listed = zip(rows[effects[:, kernels.F_ROW]].tolist(), place[len(static) + of].tolist(), effects[:, kernels.F_BEGIN].tolist(), ends.tolist())
        return Plot(first[order], last[order], {row: Effect(at, begin, end) for row, at, begin, end in listed})

    # -- names --------------------------------------------------------------------------------------------------------

    @cached_property
    def named(self) -> Named:
        """The arcs that the rows name. Raises MatchRuntimeError."""
        columns, automaton = self.chunk.columns, self.task.plan.automaton
        arc, text = np.full(self.chunk.rows, -1, dtype=np.int64), np.zeros(self.chunk.rows, dtype=np.int64)
        rows = np.flatnonzero(self.marks & (self.ops != PUNCTUATE))
        of = self._arcs(pa.array(rows))
        texts = words(columns[names.ARC])[rows] if names.ARC in columns else np.full(len(rows), -1, dtype=np.int64)
        arc[rows] = np.where(texts >= 0, texts, of)
        bad = np.flatnonzero(arc[rows] < 0)
        if len(bad):
            raise self._unknown(columns[names.NAME][int(rows[bad[0]])].as_py())
        place = np.where(arc >= len(automaton.arcs) - sum(one.is_text for one in automaton.arcs), _BEHIND, arc)
        if (texts >= 0).any():
            text[rows[texts >= 0]] = self._text_ranks(pa.array(rows[texts >= 0]))
        values = [self._values(i, rows, arc) for i in range(len(automaton.parameters))]
        rank = _numbered([*values, text], rows)
        return Named(arc, place, rank, _numbered([place, rank, self.owners], rows))

    @cached_property
    def _names(self) -> int:
        """The number of names, including 0 for punctuations."""
        return int(self.named.number.max(initial=0)) + 1

    @cached_property
    def owners(self) -> np.ndarray:
        """1 if an arc has partition keys of its own, else 0. int64 (rows). Arcs of other partitions are not in the chunk."""
        own = np.zeros(self.chunk.rows, dtype=np.int64)
        for i in range(len(self.task.plan.arcs.keys)):
            own |= null_marks(self.chunk.columns[names.key_column(i)]) == 0
        return own

    def _arcs(self, rows: pa.Array) -> np.ndarray:
        """The arcs with parameters that ``rows`` name, -1 for any other name. int64."""
        known = list(self.templates)
        found = pc.index_in(pc.utf8_lower(self.chunk.columns[names.NAME].take(rows).cast(pa.string())), value_set=pa.array(known, pa.string()))
        numbers = np.array([*self.templates.values(), -1], dtype=np.int64)
        return numbers[np.asarray(pc.fill_null(found, len(known))).astype(np.int64)]

    def _values(self, parameter: int, rows: np.ndarray, arc: np.ndarray) -> np.ndarray:
        """The ranks of a parameter's values, 0 for NULL and for arcs without the parameter. int64 (rows of the chunk)."""
        columns, automaton = self.chunk.columns, self.task.plan.automaton
        having = [i for i, one in enumerate(automaton.arcs) if one.parameters[0] <= parameter < one.parameters[1]]
        mine = rows[np.isin(arc[rows], having)]
        taken = pa.array(mine)
        values, written = columns[parameter_column(parameter)].take(taken), columns[names.written_column(parameter)].take(taken)
        null = null_marks(values) == 1
        beyond = np.flatnonzero(null & (null_marks(written) == 0))
        if len(beyond):
            raise self._beyond(parameter, int(mine[beyond[0]]))
        found = np.zeros(self.chunk.rows, dtype=np.int64)
        if pa.types.is_floating(values.type):  # -0.0 equals 0.0, and NaN is last
            order = np.unique(words(values) + 0.0, return_inverse=True)[1]
        else:
            order = pc.rank(values.cast(pa.large_binary()) if is_text(values.type) else values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values, tiebreaker="dense")
        found[mine] = np.where(null, 0, np.asarray(order).astype(np.int64) + 1)
        return found

    def _text_ranks(self, rows: pa.Array) -> np.ndarray:
        """The ranks of arcs as text, by :func:`text_identity`. int64."""
        columns = self.chunk.columns
        found = [text_identity(*of) for of in zip(*(columns[name].take(rows).to_pylist() for name in (names.NAME, names.SOURCE, names.TARGET, names.WHEN, names.SET)))]
        place = {one: i for i, one in enumerate(sorted(set(found)))}
        return np.array([place[one] for one in found], dtype=np.int64)

    # -- errors -------------------------------------------------------------------------------------------------------

    def _failure(self, outcome: int, row: int) -> MatchRuntimeError:
        if outcome == kernels.NO_TIME:
            message = "a punctuation of ARCS FROM lacks valid_from. Set it to the time before which no further change of the arcs comes"
            return MatchRuntimeError("CHANGE_VALUE", message, sqlstate="22023")
        if outcome == kernels.NO_NEXT:
            return MatchRuntimeError(
                "ARC_LIFETIME",
                f"a change of the arc {self._name(row)} lacks a time, and the type {self.time.type} does not have a next value to begin with. Set valid_from (to delete: "
                "valid_to), or order the rows by a whole number, a date or a timestamp", sqlstate="22000",
            )
        if outcome == kernels.LATE:
            return MatchRuntimeError(
                "LATE_ROW", f"a change of the arc {self._name(row)} affects times before a punctuation, which excluded further changes before its time", sqlstate="22000",
            )
        verb, what = ("delete", "that no delete has ended") if self.ops[row] == DELETE else ("retract", "with this valid_from and valid_to")
        return MatchRuntimeError(
            "ARC_CHANGE_WITHOUT_ARC",
            f"a {verb} of ARCS FROM refers to an arc {self._name(row)} {what}, but no such arc came before it. The arc must be equal in the columns arc, "
            "parameters, partition keys, from_state, to_state, when and set", sqlstate="22000",
        )

    def where(self, row: int) -> str:
        """The partition of a row, for errors."""
        return self.task.failures.where(row, self.chunk.columns)

    def _name(self, row: int) -> str:
        task, columns = self.task, self.chunk.columns
        arc = task.plan.automaton.arcs[int(self.named.arc[row])]
        where = self.where(row)
        if arc.is_text:
            return f"{arc.text}{where}"
        values = [said(columns[parameter_column(i)][row]) for i in range(*arc.parameters)]
        return f"{arc.template}({', '.join(values)}){where}"

    def _unknown(self, name: str | None) -> MatchRuntimeError:
        known = ", ".join(arc.template for arc in self.task.plan.automaton.arcs if arc.template)
        instead = "; an arc as text has from_state and to_state" if self.task.plan.arcs.texts else ""
        message = f"ARCS FROM names the arc {name!r}, which is not an arc with parameters{'; it may name ' + known if known else ''}{instead}"
        return MatchRuntimeError("UNKNOWN_ARC", message, sqlstate="22023")

    def _beyond(self, parameter: int, row: int) -> MatchRuntimeError:
        value, declared = said(self.chunk.columns[names.written_column(parameter)][row]), self.task.plan.automaton.parameters[parameter]
        message = f"the value {value} does not fit into {declared.type.upper()}, the type of the parameter {declared.name}. Declare a wider type"
        return MatchRuntimeError("CAST_OVERFLOW", message, sqlstate="22003")

    def given(self) -> dict[str, pa.Array]:
        """The columns of the parameters, for all rows."""
        return {name: self.chunk.columns[name] for name in map(parameter_column, range(len(self.task.plan.automaton.parameters)))}


def check_texts(columns: dict[str, pa.Array]) -> None:
    """Raises MatchRuntimeError if an operation, or a name or text of an arc, is not UTF-8. ``columns``: those of a chunk."""
    for word in ("arc", "op", "from_state", "to_state", "when", "set"):
        values = columns.get(names.own_columns(True)[word])
        if values is None or as_bytes(values.type) == values.type:
            continue
        try:
            values.validate(full=True)
        except pa.ArrowInvalid as error:
            raise MatchRuntimeError("CHANGE_VALUE", f"the column {word} of ARCS FROM holds a string that is not UTF-8. Correct that row", sqlstate="22023") from error


def text_identity(name: str | None, source: str, target: str, when: str | None, assignments: str | None) -> tuple:
    """The columns that identify an arc as text, as a sort key."""
    return tuple(map(_key, (name and name.lower(), source.lower(), target.lower(), when, assignments)))


def _lifetime(what: str) -> MatchRuntimeError:
    return MatchRuntimeError("ARC_LIFETIME", f"a valid_from or valid_to of ARCS FROM {what}", sqlstate="22003")


def _numbered(columns: list[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """The rank of each of ``rows`` by its values in all ``columns``, the first column first; 0 for other rows. int64 (rows of a
    column)."""
    taken = [column[rows] for column in columns]
    order = np.lexsort(taken[::-1])
    new = np.zeros(len(rows), dtype=np.int64)
    for column in taken:
        new[1:] |= np.diff(column[order]) != 0
    found = np.zeros(len(columns[0]), dtype=np.int64)
    found[rows[order]] = np.cumsum(new)
    return found


def _key(value: str | None) -> tuple:
    """A string as a sort key in Spark's order: NULL first, then by bytes."""
    return (0,) if value is None else (1, value.encode())
