"""Rows of ARCS FROM: what each does, and which arcs are there when.

An arc stands from its row on. What a row in default mode does begins behind all rows that have come, so that it changes nothing that was found: arcs have it from
the start. What a row with lifetimes of its own does, and what is undone, is an :class:`Effect` that happens when that row comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.columns.arrays import null_marks, ranks, words
from sparkcep.columns.registers import register_type
from sparkcep.columns.types import INT_BITS, MAX_DIGITS, Type, type_of
from sparkcep.engine.buffer import Chunk
from sparkcep.engine.lifetimes import in_order
from sparkcep.engine.prepared import Task
from sparkcep.engine.timetable import ALWAYS, Present
from sparkcep.errors import SEMANTIC, ClauseError, MatchRuntimeError
from sparkcep.plan import arcs as names
from sparkcep.plan.afa import dead_states, leads_nowhere
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import parameter_column
from sparkcep.search.computations import ENDLESS

INSERT, DELETE, RETRACT, PUNCTUATE = range(4)
WORDS = pa.array(["insert", "delete", "retract", "punctuate"])
_WIDE_DIGITS = 76  # more than any two decimals have together
_BEHIND = 1 << 62  # the place of all arcs as text


# -- types ------------------------------------------------------------------------------------------------------------


def check_arcs(plan: Plan, schema: pa.Schema) -> None:
    """Raises ClauseError where the columns of ARCS FROM are not there, or of types that say nothing there."""
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
            "the table of ARCS FROM has a column from_state, and arcs of the clause have parameters: that arcs come as text, too, the column's name behind ARCS FROM tells; write "
            "ARCS FROM (SELECT arc, from_state, to_state, `when`, `set`, ... FROM ...), or leave the column out"
        )
    for name, column in names.own_columns(arcs.texts).items():
        t = kind(column)
        wanted = "boolean" if column == names.FINAL else "string"
        missing = t.kind == "null" and (column == names.NAME and not texts or column == names.TARGET and texts)
        if missing or column not in (names.FROM, names.TO) and t.kind not in (wanted, "null"):
            what = {"arc": ", the name of the arc", "to_state": ", beside from_state"}.get(name, "")
            fail(f"the table of ARCS FROM needs a column {name} of type {wanted.upper()}{what}" + ("" if t.kind == "null" else f", not {t}"))
        if column in (names.FROM, names.TO) and not _fits(t, kind(plan.automaton.time)):
            fail(f"{name} is of type {t}, and the first ORDER BY expression of type {kind(plan.automaton.time)}; cast it in a query behind ARCS FROM")
    for i, parameter in enumerate(plan.automaton.parameters):
        t, wanted = kind(names.written_column(i)), type_of(register_type(parameter))
        if t.kind == "null":
            fail(f"the table of ARCS FROM has no column {parameter.name}, which is a parameter of an arc; add it, or cast its NULL")
        if t != wanted and not (t.is_number and wanted.is_number):
            fail(f"the column {parameter.name} is of type {t} and cannot be assigned to the parameter, which is {wanted}; CAST it in a query behind ARCS FROM")
    for i in range(len(arcs.came)):
        together, rows = kind(names.moment_column(i)), kind(names.came_column(i))
        if (together.kind == "string") != (rows.kind == "string"):
            fail(f"rows and arcs come in one order, and one is text: ARRIVAL BY of the rows is of type {rows}, together with that of the arcs it would be {together}; cast one of them")
    own = [kind(names.key_column(i)).kind != "null" for i in range(len(arcs.keys))]
    if any(own) and not all(own):
        missing = arcs.keys[own.index(False)]
        fail(f"the table of ARCS FROM has partition keys, but no column {missing}; an arc has all keys of its partition, or none and is for all partitions")


def _check_all_declared(plan: Plan, place: dict) -> None:
    """Raises ClauseError where the clause's own arcs are not enough, and the table of arcs brings no others, as it has no column from_state."""
    automaton = plan.automaton
    if not any(arc.template for arc in automaton.arcs):
        message = "no arc has parameters, and the table of ARCS FROM has no column from_state, so that none of its rows could make an arc present: write ARC a(k INT) FROM ..., or "
        raise ClauseError("AUTOMATON", f"{message}ARC a() FROM ..., or give the table the columns from_state, to_state, when and set", sqlstate=SEMANTIC, **place)
    dead = dead_states(automaton)
    for arc in automaton.arcs:
        found = next((state for state in (arc.source, arc.target) if state in dead), None)
        if found is not None:
            at = {"line": arc.line, "column": arc.column, "fragment": arc.text}
            raise ClauseError("AUTOMATON", leads_nowhere(automaton.states[found]), sqlstate=SEMANTIC, **at)


def _fits(t: Type, time: Type) -> bool:
    """Whether the bounds of an arc's lifetime may be of a type."""
    return t == time or t.kind == "null" or (t.is_number and time.is_number and (time.is_float or not t.is_float))


# -- rows -------------------------------------------------------------------------------------------------------------


class ArcRow(NamedTuple):
    """A row of ARCS FROM: the number of the ``row`` in its chunk, what it does, its arc in the automaton (-1 of a punctuation), where that stands among all (``place``),
    what names the arc, the times as they were ``written`` (None: NULL), and the largest time of all rows before it (``now``, None where there was none)."""

    row: int
    op: int
    arc: int
    place: int
    identity: tuple
    begin: int | None
    end: int | None
    now: int | None


@dataclass(frozen=True)
class Effect:
    """From the row on the arc ``of`` that number is valid from ``begin`` to before ``end``."""

    of: int
    begin: int
    end: int


@dataclass(frozen=True)
class Plot:
    """The arcs of a partition in their order: as they are before any effect (``first``) and at the end (``last``), and the effects of rows."""

    first: tuple[Present, ...]
    last: tuple[Present, ...]
    effects: dict[int, Effect] = field(default_factory=dict)


class ArcRows:
    """The rows of ARCS FROM in a chunk of whole partitions. ``marks`` bool (rows): which rows they are; ``clock`` int64 (rows): times in their order, of an arc
    its valid_from; ``absent`` bool (rows): those without one."""

    def __init__(self, task: Task, chunk: Chunk) -> None:
        self.task, self.chunk, columns = task, chunk, chunk.columns
        self.marks = np.asarray(pc.fill_null(columns[names.IS], False)).astype(bool)
        self.time = columns[task.plan.automaton.time]
        (begin, never), (end, always), (now, _) = (self._times(column) for column in (names.FROM, names.TO, names.NOW))
        self.timed = pc.if_else(pa.array(self.marks), begin, self.time)
        t = type_of(self.time.type)
        self.steps = t.is_integer or t.kind in ("date", "timestamp", "timestamp_ntz", "decimal")
        if t.is_ranked:
            (self.clock, self.ends, self.now), _ = ranks([self.timed, end, now])
        else:
            self.clock, self.ends, self.now = (in_order(words(column)) for column in (self.timed, end, now))
        self.absent, self.endless, self.never = (null_marks(column).astype(bool) for column in (self.timed, end, now))
        self.endless |= always
        self._check_last(never)
        self.clock = np.where(never, ENDLESS, self.clock)  # an arc that begins then is never valid
        self.templates = {arc.template.lower(): i for i, arc in enumerate(task.plan.automaton.arcs) if arc.template}
        self.ops = self._ops()

    @property
    def punctuates(self) -> bool:
        """Whether punctuations of the arcs are waited for."""
        explicit = type_of(self.chunk.columns[names.FROM].type).kind != "null"
        return explicit and bool(self.task.plan.arcs.came)

    def arrival(self, arrival: np.ndarray) -> np.ndarray:
        """int64: the order of arrival of all rows, by that of the rows alone: without an order of their own arcs come first."""
        return arrival if self.task.plan.arcs.came else np.where(self.marks, self.ops - len(WORDS), arrival)

    def _times(self, column: str) -> tuple[pa.Array, np.ndarray]:
        """A column of times in the type of the rows' times, and bool (rows): those behind all times of that type."""
        if column not in self.chunk.columns:
            return pa.nulls(self.chunk.rows, self.time.type), np.zeros(self.chunk.rows, dtype=bool)
        found, t = self.chunk.columns[column], type_of(self.time.type)
        try:
            if (t.is_integer or t.kind == "decimal") and not pa.types.is_null(found.type):
                return self._rounded(found, t)
            return found.cast(self.time.type), np.zeros(len(found), dtype=bool)
        except pa.ArrowInvalid:
            raise _lifetime(f"lies beyond {self.time.type}, the type of the rows' times; leave it NULL where it has no bound") from None

    def _rounded(self, found: pa.Array, t: Type) -> tuple[pa.Array, np.ndarray]:
        """Bounds between two values that a time can have are as good as the next one, and those beyond all values as none."""
        scale = t.scale if t.kind == "decimal" else 0
        finer = found.type.scale if pa.types.is_decimal(found.type) else 0
        exact = pc.round(found.cast(pa.decimal256(_WIDE_DIGITS, max(scale, finer))), ndigits=scale, round_mode="up").cast(pa.decimal256(_WIDE_DIGITS, scale))
        most = 10**t.precision - 1 if t.kind == "decimal" else (1 << INT_BITS[t.kind] - 1) - 1
        high, low = (pa.scalar(Decimal(limit).scaleb(-scale), exact.type) for limit in (most, -most - (t.kind != "decimal")))
        over = pc.fill_null(pc.greater(exact, high), False)
        clipped = pc.if_else(over, high, pc.if_else(pc.less(exact, low), low, exact))
        return clipped.cast(pa.decimal128(MAX_DIGITS, scale)).cast(self.time.type), np.asarray(over)

    def _check_last(self, over: np.ndarray) -> None:
        """Refuses a bound at the last of 64 bits where a row is there, too: such a bound is none."""
        last = self.clock == ENDLESS
        bounds = (self.marks & last & ~over) | (self.marks & ~self.endless & (self.ends == ENDLESS))
        if bounds.any() and (last & ~self.marks & ~self.absent).any():
            raise _lifetime("is the last time that 64 bits hold, and a row has that time; cast the ORDER BY expression to a wider type")

    def _ops(self) -> np.ndarray:
        written = self.chunk.columns[names.OP].cast(pa.string())
        ops = pc.fill_null(pc.index_in(pc.utf8_lower(written), value_set=WORDS), -1).to_numpy(zero_copy_only=False).astype(np.int64)
        ops[null_marks(written) == 1] = INSERT
        bad = np.flatnonzero(self.marks & (ops < 0))
        if len(bad):
            message = f"the column op of ARCS FROM holds {written[int(bad[0])].as_py()!r}; it says 'insert' (or NULL), 'delete', 'retract' or 'punctuate'"
            raise MatchRuntimeError("CHANGE_VALUE", message, sqlstate="22023")
        return ops

    # -- partitions ---------------------------------------------------------------------------------------------------

    def plot(self, order: np.ndarray, punctuations: np.ndarray) -> Plot:
        """The arcs of a partition, whose rows come in this ``order``; ``punctuations`` bool (rows): those among its own rows."""
        marks = self.marks[order]
        rows, limits, now = order[marks], {}, None
        if self.task.plan.arcs.came:
            clock, own = self.clock[order], marks & (self.ops[order] == PUNCTUATE) & ~self.absent[order]
            promised, of_arcs = (np.maximum.accumulate(np.where(some, clock, ALWAYS)) for some in (punctuations[order], own))
            effective = np.minimum(promised, of_arcs) if self.punctuates else promised
            limits = dict(zip(rows.tolist(), zip(np.maximum(effective, of_arcs)[marks].tolist(), effective[marks].tolist())))
            if not self.task.plan.partition:
                now = np.maximum.accumulate(np.where(marks | self.absent[order], ALWAYS, clock))[marks]
        return _Plotter(self, limits).plot(self._rows(rows, now))

    def _rows(self, rows: np.ndarray, now: np.ndarray | None) -> Iterator[ArcRow]:
        """``now``: the largest time before each of the rows, where all rows of the statement are here."""
        columns, taken, automaton = self.chunk.columns, pa.array(rows), self.task.plan.automaton
        arcs = columns[names.NAME].take(taken).to_pylist()
        known = {name: -1 if name is None else self.templates.get(name.lower(), -1) for name in set(arcs)}
        parameters = [columns[parameter_column(i)].take(taken).to_pylist() for i in range(len(automaton.parameters))]
        written = [null_marks(columns[names.written_column(i)].take(taken)) for i in range(len(parameters))]
        own = np.zeros(len(rows), dtype=bool)  # the arcs of this partition alone, whose keys are its keys
        for i in range(len(self.task.plan.arcs.keys)):
            own |= null_marks(columns[names.key_column(i)].take(taken)) == 0
        texts = self._texts(taken)
        begins, ends = _or_none(self.clock[rows], self.absent[rows]), _or_none(self.ends[rows], self.endless[rows])
        nows = _or_none(self.now[rows], self.never[rows]) if now is None else _or_none(now, now == ALWAYS)
        for at, (row, op) in enumerate(zip(rows.tolist(), self.ops[rows].tolist())):
            arc, place, values = -1, -1, ()
            if op != PUNCTUATE and texts is not None and texts[at] is not None:
                place, (arc, values) = _BEHIND, texts[at]
            elif op != PUNCTUATE:
                arc = place = known[arcs[at]]
                if arc < 0:
                    raise self._unknown(arcs[at])
                numbers = range(*automaton.arcs[arc].parameters)
                for i in numbers:
                    if parameters[i][at] is None and not written[i][at]:
                        raise self._beyond(i, row)
                values = tuple([_key(parameters[i][at]) for i in numbers])
            yield ArcRow(row, op, arc, place, (place, values, bool(own[at])), begins[at], ends[at], nows[at])

    def _texts(self, rows: pa.Array) -> list[tuple[int, tuple] | None] | None:
        """Of arcs that come as text the arc and what names it; None where there are none at all."""
        columns = self.chunk.columns
        if names.ARC not in columns:
            return None
        numbers = words(columns[names.ARC].take(rows)).tolist()
        parts = [columns[name].take(rows).to_pylist() for name in (names.NAME, names.SOURCE, names.TARGET, names.WHEN, names.SET)]
        return [None if number < 0 else (number, text_identity(*of)) for number, of in zip(numbers, zip(*parts))]

    def _unknown(self, name: str | None) -> MatchRuntimeError:
        known = ", ".join(arc.template for arc in self.task.plan.automaton.arcs if arc.template)
        instead = "; an arc as text has from_state and to_state" if self.task.plan.arcs.texts else ""
        message = f"ARCS FROM names the arc {name!r}, which is no arc with parameters{'; it may name ' + known if known else ''}{instead}"
        return MatchRuntimeError("UNKNOWN_ARC", message, sqlstate="22023")

    def _beyond(self, parameter: int, row: int) -> MatchRuntimeError:
        value, declared = self.chunk.columns[names.written_column(parameter)][row].as_py(), self.task.plan.automaton.parameters[parameter]
        message = f"the value {value!r} is beyond {declared.type.upper()}, the type of the parameter {declared.name}; declare a wider type"
        return MatchRuntimeError("CAST_OVERFLOW", message, sqlstate="22003")

    def given(self) -> dict[str, pa.Array]:
        """The columns of the parameters, by all rows."""
        return {name: self.chunk.columns[name] for name in map(parameter_column, range(len(self.task.plan.automaton.parameters)))}


def text_identity(name: str | None, source: str, target: str, when: str | None, assignments: str | None) -> tuple:
    """What an arc as text is known by, in the order of such arcs."""
    return tuple(map(_key, (name and name.lower(), source.lower(), target.lower(), when, assignments)))


def _lifetime(what: str) -> MatchRuntimeError:
    return MatchRuntimeError("ARC_LIFETIME", f"a valid_from or valid_to of ARCS FROM {what}", sqlstate="22003")


def _or_none(numbers: np.ndarray, absent: np.ndarray) -> list[int | None]:
    return [None if none else number for number, none in zip(numbers.tolist(), absent.tolist())]


def _key(value: object) -> tuple:
    """Values in Spark's order: NULL first, NaN last."""
    if value is None:
        return (0,)
    if isinstance(value, float) and value != value:
        return (2,)
    return (1, value.encode() if isinstance(value, str) else value)


@dataclass(slots=True)
class _Standing:
    """An arc from its row on: from when it is valid, until when, and until when by all that is foreseen. It ``appears`` by an effect, or is there from the start;
    a delete has ``ended`` it, a retract has undone it (``gone``)."""

    of: ArcRow
    begin: int
    end: int
    appears: bool
    foreseen: int = ENDLESS
    ended: bool = False
    gone: bool = False


class _Plotter:
    """Goes through the rows of ARCS FROM of a partition. ``limits``: of each row the times before which a change with a lifetime of its own, and any, comes too
    late."""

    def __init__(self, arcs: ArcRows, limits: dict[int, tuple[int, int]]) -> None:
        self.arcs, self.limits = arcs, limits
        self.standing: list[_Standing] = []
        self.known: dict[tuple, list[_Standing]] = {}
        self.done: list[tuple[int, _Standing, int, int]] = []  # (row, arc, begin, end): from the row on, less what is foreseen

    def plot(self, rows: Iterator[ArcRow]) -> Plot:
        for row in rows:
            if row.op == INSERT:
                self._insert(row)
            elif row.op == DELETE:
                self._delete(row)
            elif row.op == RETRACT:
                self._retract(row)
            elif row.begin is None:
                raise MatchRuntimeError(
                    "CHANGE_VALUE", "a punctuation of ARCS FROM has no valid_from; it says before which time no further change of the arcs comes", sqlstate="22023",
                )
        arcs = self.arcs.task.plan.automaton.arcs
        order: list[tuple[tuple, _Standing | None]] = [((i,), None) for i, arc in enumerate(arcs) if arc.is_static]
        order += [((one.of.place, one.begin, one.of.identity[1]), one) for one in self.standing]
        order.sort(key=lambda item: item[0])
        first, last, place = [], [], {}
        for i, (key, one) in enumerate(order):
            if one is None:
                first.append(Present(key[0]))
                last.append(first[-1])
                continue
            place[id(one)], of = i, one.of
            written = ENDLESS if of.end is None else of.end
            first.append(Present(of.arc, ENDLESS, ENDLESS, of.row) if one.appears else Present(of.arc, one.begin, min(written, one.foreseen), of.row))
            last.append(Present(of.arc, ENDLESS, ENDLESS, of.row) if one.gone else Present(of.arc, one.begin, min(one.end, one.foreseen), of.row))
        effects = {row: Effect(place[id(one)], begin, min(end, one.foreseen)) for row, one, begin, end in self.done}
        return Plot(tuple(first), tuple(last), effects)

    def _insert(self, row: ArcRow) -> None:
        end = ENDLESS if row.end is None else row.end
        if row.begin is None:
            one = _Standing(row, self._next(row), end, False)
        else:
            self._check_late(row, row.begin)
            one = _Standing(row, row.begin, end, True)
            self.done.append((row.row, one, one.begin, one.end))
        self.standing.append(one)
        self.known.setdefault(row.identity, []).append(one)

    def _delete(self, row: ArcRow) -> None:
        one = self._meant(row, lambda one: not one.ended and not one.gone, "that no delete has ended")
        one.ended = True
        if row.end is None:
            one.foreseen = min(one.foreseen, self._next(row))
            return
        self._check_late(row, row.end)
        one.end = min(one.end, row.end)
        self.done.append((row.row, one, one.begin, one.end))

    def _retract(self, row: ArcRow) -> None:
        one = self._meant(row, lambda one: not one.gone and (one.of.begin, one.of.end) == (row.begin, row.end), "with this valid_from and valid_to")
        self._check_late(row, one.begin, row.begin is not None)
        one.gone = True
        self.done.append((row.row, one, ENDLESS, ENDLESS))

    def _meant(self, row: ArcRow, wanted: Callable[[_Standing], bool], what: str) -> _Standing:
        """The last arc that came and is equal."""
        found = next((one for one in reversed(self.known.get(row.identity, [])) if wanted(one)), None)
        if found is None:
            verb = "delete" if row.op == DELETE else "retract"
            raise MatchRuntimeError(
                "ARC_CHANGE_WITHOUT_ARC",
                f"a {verb} of ARCS FROM means an arc {self._name(row)} {what}, and none has come before it: an arc is meant that equals it in the columns arc, "
                "parameters, partition keys, from_state, to_state, when and set", sqlstate="22000",
            )
        return found

    def _next(self, row: ArcRow) -> int:
        """The time behind all that have come before the row."""
        if row.now is None:
            return ALWAYS
        if not self.arcs.steps:
            raise MatchRuntimeError(
                "ARC_LIFETIME",
                f"the arc {self._name(row)} has no time at which the change begins, and of type {self.arcs.time.type} no value is the next one; give valid_from (to delete: "
                "valid_to), or order the rows by a whole number, a date or a timestamp", sqlstate="22000",
            )
        return min(row.now + 1, ENDLESS)

    def _check_late(self, row: ArcRow, time: int, explicit: bool = True) -> None:
        limits = self.limits.get(row.row)
        if limits is not None and time < limits[0 if explicit else 1]:
            raise MatchRuntimeError(
                "LATE_ROW", f"a change of the arc {self._name(row)} reaches to before a punctuation that promised no further change before its time", sqlstate="22000",
            )

    def _name(self, row: ArcRow) -> str:
        task, columns = self.arcs.task, self.arcs.chunk.columns
        arc = task.plan.automaton.arcs[row.arc]
        if arc.is_text:
            return f"{arc.text}{task.failures.where(row.row, columns)}"
        values = [repr(columns[parameter_column(i)][row.row].as_py()) for i in range(*arc.parameters)]
        return f"{arc.template}({', '.join(values)}){task.failures.where(row.row, columns)}"
