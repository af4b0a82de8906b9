"""Bytecode of an automaton with registers (AFA): fences, assignments and EMIT over the current row and a computation's registers.

The kernels of ``kernels/automaton`` run it. To the bytecode machine (:mod:`sparkcep.kernels.vm.vm`) a register is a column: the
kernel writes a computation's registers into the current row before it evaluates. A value is converted to its register's type as by
INSERT (store assignment ANSI).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sparkcep.columns.types import MAX_DIGITS, NULL, Type
from sparkcep.compiler.conditions.bytecode import ConditionCompiler
from sparkcep.compiler.registers.inferred_types import MONTHS, typed
from sparkcep.errors import SEMANTIC, ClauseError
from sparkcep.plan.limits import MAX_VARIABLES
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Arc, Automaton, Parameter, Register, letter_column, parameter_column, register_column

WORD, FLOAT, WIDE = range(3)  # storage of a value: one word, one floating-point word, two words

_TYPES = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "byte": pa.int8(), "smallint": pa.int16(), "short": pa.int16(), "int": pa.int32(), "integer": pa.int32(),
    "bigint": pa.int64(), "long": pa.int64(), "float": pa.float32(), "real": pa.float32(), "double": pa.float64(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ltz": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us"), "string": pa.string(), MONTHS: pa.int32(),
}  # fmt: skip
_OF_KINDS = _TYPES | {"interval": pa.duration("us"), "months": pa.int32()}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?: ?\( ?(\d{1,2}) ?(?:, ?(\d{1,2}) ?)?\))?")


class Held(NamedTuple):
    """Where a register, a parameter or a column of EMIT is stored.

    Attributes:
        how: WORD, FLOAT or WIDE.
        column: its column in the machine, -1 if none.
        word: its first word in a record.
        type: its type.
        arrow: its Arrow type.
    """

    how: int
    column: int
    word: int
    type: Type
    arrow: pa.DataType

    @property
    def is_string(self) -> bool:
        return self.type.kind == "string"

    @property
    def words(self) -> int:
        """How many words it takes."""
        return 1 + (self.how == WIDE)


@dataclass(frozen=True)
class Compiled:
    """An automaton's bytecode.

    ``code``, ``floats``, ``int_columns``, ``float_columns``, ``strings``, ``patches`` and ``stack`` are as in
    :class:`sparkcep.compiler.conditions.bytecode.Conditions`. Registers and parameters are columns among the input columns.

    Attributes:
        ranked: names of the columns that hold ranks.
        fences: int64 (arcs); first instruction of each fence, or -1.
        assigned: int64 (n, 3); register, first instruction with the conversion to the register's type, first one without it.
        initial: number of rows of ``assigned`` that are initial values; these rows come first.
        sets: int64 (arcs + 1); the assignments of arc i are rows ``sets[i]`` to ``sets[i + 1] - 1`` of ``assigned``.
        emitted: int64 (arcs, columns of EMIT, 2); first instruction with and without the conversion, -1 for arcs without EMIT.
        registers: storage of each register.
        emits: storage of each column of EMIT.
        parameters: storage of each parameter. Their words are counted separately.
        way: the word of a record that identifies the rows it took, -1 if there is none.
    """

    code: np.ndarray
    floats: np.ndarray
    int_columns: tuple[tuple[str, str], ...]
    float_columns: tuple[tuple[str, str], ...]
    strings: tuple[str, ...]
    patches: tuple[tuple[int, int], ...]
    ranked: tuple[str, ...]
    stack: int
    fences: np.ndarray
    assigned: np.ndarray
    initial: int
    sets: np.ndarray
    emitted: np.ndarray
    registers: tuple[Held, ...]
    emits: tuple[Held, ...]
    parameters: tuple[Held, ...]
    way: int


def register_type(register: Register | Parameter) -> pa.DataType:
    """The Arrow type of a register or a parameter. Raises ClauseError for a type that neither can have."""
    found = _TYPES.get(register.type)
    decimal = _DECIMAL.fullmatch(register.type)
    if decimal:
        precision, scale = int(decimal[1] or 10), int(decimal[2] or 0)
        if 0 < precision <= MAX_DIGITS and scale <= precision:
            found = pa.decimal128(precision, scale)
    if found is None:
        wanted = "BOOLEAN, a number type, DATE, TIMESTAMP, TIMESTAMP_NTZ or STRING"
        what = "parameter" if isinstance(register, Parameter) else "register"
        raise _at(register, f"the {what} {register.name} cannot be of type {register.type.upper()}. Use {wanted}")
    return found


def _at(part: Register | Parameter | Arc, message: str) -> ClauseError:
    return ClauseError("DATATYPE_MISMATCH", message, sqlstate=SEMANTIC, line=part.line, column=part.column, fragment=part.text)


def compile_automaton(plan: Plan, schema: pa.Schema) -> Compiled:
    """Compiles the automaton of a plan over the columns of ``schema``. Raises ClauseError for type errors, at their arcs."""
    by_ways, automaton = plan.automaton.by_ways, typed(plan.automaton, schema, plan.months)
    types = [register_type(register) for register in automaton.registers]
    months = plan.months + tuple(register_column(i) for i, register in enumerate(automaton.registers) if register.type == MONTHS)
    known = {f.name: f for f in schema}
    known |= {letter_column(bit): pa.field(letter_column(bit), pa.bool_()) for bit in range(MAX_VARIABLES)}
    known |= {register_column(i): pa.field(register_column(i), t) for i, t in enumerate(types)}
    known |= {parameter_column(i): pa.field(parameter_column(i), register_type(parameter)) for i, parameter in enumerate(automaton.parameters)}
    machine = ConditionCompiler((), pa.schema(known.values()), plan.ansi, True, plan.zone, months, precision_loss=plan.precision_loss)
    return _Compiler(automaton, machine).run(types, by_ways)


class _Compiler:
    def __init__(self, automaton: Automaton, machine: ConditionCompiler) -> None:
        self.automaton, self.machine = automaton, machine

    def run(self, types: list[pa.DataType], by_ways: bool) -> Compiled:
        machine, automaton = self.machine, self.automaton
        registers = _stored((*machine.column(register_column(i)), arrow) for i, arrow in enumerate(types))
        parameters = _stored((*machine.column(parameter_column(i)), register_type(parameter)) for i, parameter in enumerate(automaton.parameters))
        emitting = self._emit_types()
        for name, t, _ in emitting:
            if t.kind in ("binary", "nested"):
                raise ClauseError("DATATYPE_MISMATCH", f"EMIT's column {name} cannot be of type {t}. Emit numbers, strings, dates, times or booleans", sqlstate=SEMANTIC)
        emits = _stored(((t, -1, arrow) for _, t, arrow in emitting), sum(held.words for held in registers))
        assigned = [self._assigned(r, i, r.initial, registers[i]) for i, r in enumerate(automaton.registers)]
        initial, fences, sets, emitted = len(assigned), [], [len(assigned)], []
        for arc in automaton.arcs:
            fences.append(self._fence(arc))
            assigned += [self._assigned(arc, item.register, item.tree, registers[item.register]) for item in arc.sets]
            sets.append(len(assigned))
            emitted.append([self._value(arc, tree, held.type, "EMIT") for tree, held in zip(arc.emits, emits)] or [(-1, -1)] * len(emits))
        other = next((kind for kind in machine.ranked.values() if kind != "string"), None)
        if other is not None:
            raise ClauseError("DATATYPE_MISMATCH", f"a value of type {other} cannot be combined with registers. Compare it in a column below the clause", sqlstate=SEMANTIC)
        stack = len(machine.code) + 4
        machine.add_zone()
        return Compiled(
            code=np.array(machine.code or [[0] * 5], dtype=np.int64),
            floats=np.array(machine.floats or [0.0], dtype=np.float64),
            int_columns=tuple(machine.ints), float_columns=tuple(machine.flts), strings=tuple(machine.strings), patches=tuple(machine.patches),
            ranked=tuple(machine.ranked), stack=stack,
            fences=np.array(fences, dtype=np.int64), assigned=np.array(assigned, dtype=np.int64).reshape(-1, 3), initial=initial,
            sets=np.array(sets, dtype=np.int64), emitted=np.array(emitted, dtype=np.int64).reshape(len(fences), len(emits), 2),
            registers=registers, emits=emits, parameters=parameters, way=registers[-1].word if by_ways else -1,
        )

    def _fence(self, arc: Arc) -> int:
        if not arc.fence:
            return -1
        with _placed(arc):
            at = len(self.machine.code)
            t = self.machine.emit(arc.fence[0] if len(arc.fence) == 1 else ("call", "and", *arc.fence))
            if t.kind not in ("boolean", "null"):
                raise _at(arc, f"WHEN is of type {t}, not BOOLEAN. Write a comparison")
            self.machine.op("RETURN")
            return at

    def _assigned(self, part: Arc | Register, number: int, tree: tuple, held: Held) -> tuple[int, int, int]:
        return (number, *self._value(part, tree, held.type, f"the register {self.automaton.registers[number].name}"))

    def _value(self, part: Arc | Register, tree: tuple, target: Type, what: str) -> tuple[int, int]:
        """Emits a tree's value. Returns the first instruction of the value in the type ``target``, and of the unconverted value."""
        with _placed(part):
            machine, plain = self.machine, len(self.machine.code)
            found = machine.emit(tree)
            machine.op("RETURN")
            if found == target or found.kind == "null":
                return plain, plain
            if not _assignable(found, target):
                instead = "Declare it as DOUBLE, or cast the columns to DECIMAL" if found.is_float and target.kind == "decimal" else "CAST the value"
                instead = "Declare it by LIKE (x), where x is an interval of the row" if found.kind == "months" else instead
                raise _at(part, f"a value of type {found} cannot be assigned to {what}, which is {target}. {instead}")
            at = len(machine.code)
            machine.emit(tree)
            self._converted(found, target)
            machine.op("RETURN")
            return at, plain

    def _converted(self, found: Type, target: Type) -> None:
        """Converts the value on top of the stack. A value that the type cannot hold is an error, even with ANSI off."""
        machine = self.machine
        ansi, machine.ansi = machine.ansi, True
        try:
            if target.is_number:
                machine.cast_top(found, str(target))
        finally:
            machine.ansi = ansi

    def _emit_types(self) -> list[tuple[str, Type, pa.DataType]]:
        found = []
        for i, name in enumerate(self.automaton.emits):
            common = NULL
            for arc in self.automaton.arcs:
                if arc.emits:
                    with _placed(arc):
                        common = self.machine.common(common, self.machine.tree_type(arc.emits[i]), f"EMIT's column {name}")
            found.append((name, common, _arrow(common)))
        return found


def _stored(values: Iterable[tuple[Type, int, pa.DataType]], word: int = 0) -> tuple[Held, ...]:
    """Stores values of these types, columns and Arrow types one after the other, from a word on."""
    found = []
    for t, column, arrow in values:
        found.append(Held(FLOAT if t.is_float else WIDE if t.is_wide else WORD, column, word, t, arrow))
        word += found[-1].words
    return tuple(found)


@contextlib.contextmanager
def _placed(part: Arc | Register) -> Iterator[None]:
    """An error without a place gets the place of a part of the automaton."""
    try:
        yield
    except ClauseError as error:
        if error.line:
            raise
        raise _at(part, error.message) from None


def _assignable(found: Type, target: Type) -> bool:
    """Whether INSERT under the ANSI policy assigns one type to the other and the engine computes the conversion."""
    return found.is_number and target.is_number and not (found.is_float and target.kind == "decimal")


def _arrow(t: Type) -> pa.DataType:
    return pa.decimal128(t.precision, t.scale) if t.kind == "decimal" else _OF_KINDS.get(t.kind, pa.null())
