"""Converts the columns of a chunk to kernel arrays: numbers, and for each row a bit mask of the variables that it may be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import decimal_words, null_marks, ranks, words
from sparkcep.columns.types import AS_DOUBLE, HIGH, WORD
from sparkcep.compiler.conditions.bytecode import KNOWN, OP, Conditions
from sparkcep.compiler.searches import PATHS, SEQUENCES, SIDES, STREAMS
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.errors import EagerConditionError, of_condition
from sparkcep.engine.core.input_columns import check_pairs
from sparkcep.engine.core.task import Prepared
from sparkcep.kernels.common.layout import NEVER
from sparkcep.kernels.match import backtrack as kernels
from sparkcep.kernels.vm import decimal128, vm
from sparkcep.plan.plan import LETTERS, Plan
from sparkcep.plan.records import looks_away, walk

_COMPARISONS = {OP[n]: i for i, n in enumerate(("EQI", "NEI", "LTI", "LEI", "GTI", "GEI"))} | {
    OP[n]: i for i, n in enumerate(("EQF", "NEF", "LTF", "LEF", "GTF", "GEF"))
}


@dataclass(frozen=True)
class ChunkArrays:
    """A chunk for the kernels: its rows, and the conditions with this chunk's ranks of strings."""

    rows: kernels.RowArrays
    conditions: kernels.ConditionArrays


def kernel_data(prepared: Prepared, chunk: Chunk) -> ChunkArrays:
    """Returns the arrays of a chunk. Conditions over physical neighbours are folded into the letters.

    Example: ``UP AS price > PREV(price)`` is variable 1. Its condition looks at a physical neighbour only, so it is evaluated over
    the whole chunk. Bit 1 of a row's letters remains set if the condition is true for the row.
    """
    plan, c, strategy = prepared.plan, prepared.conditions, prepared.strategy
    columns, rows = chunk.columns, chunk.rows
    letters = _letters(plan, columns, rows)
    known = _rows_known(prepared, chunk)
    ints, inull, arrays, codes, bytecode = _int_columns(prepared, chunk, rows, known)
    flts = np.empty((len(c.float_columns), rows), dtype=np.float64)
    fnull = np.empty((len(c.float_columns), rows), dtype=np.uint8)
    for i, (name, part) in enumerate(c.float_columns):
        fnull[i] = null_marks(columns[name])
        if part == AS_DOUBLE:  # Arrow's cast would round more than once
            decimal128.as_doubles(*decimal_words(columns[name]), np.int64(columns[name].type.scale), flts[i])
        else:
            flts[i] = words(columns[name])
    slots = c.slots if c.has_history else c.slots[:0]
    compiled = kernels.ConditionArrays(bytecode, c.entry, c.floats, slots, codes)
    data = ChunkArrays(kernels.RowArrays(letters, chunk.offsets, ints, flts, inull, fnull, *arrays), compiled)
    for variable in range(len(plan.variables)):
        if c.shift_entry[variable] >= 0:
            # a condition that may read future rows counts as true: no match completes before these rows have arrived
            open_rows = known < prepared.looks[variable] if prepared.looks[variable] else None
            bits = letters[open_rows] if open_rows is not None else None
            if open_rows is not None:
                letters[open_rows] = bits & ~(1 << variable)
            _mark(c, variable, data, plan)
            if open_rows is not None:
                letters[open_rows] = bits
    if strategy.net is not None and strategy.net.copies is not None:
        # a variable copy takes the rows that do not fulfil the row-local part of another variable's condition
        for copy, of in strategy.net.copies.complements:
            letters &= ~(((letters >> of) & 1) << copy)
    if chunk.unsure is not None:
        letters[np.arange(rows) >= np.repeat(chunk.unsure, np.diff(chunk.offsets))] &= ~_looking_ahead(plan)
    if strategy.search in (PATHS, SEQUENCES, SIDES, STREAMS):
        _refuse_failures(plan, columns, letters)
    return data


def _letters(plan: Plan, columns: dict[str, pa.Array], rows: int) -> np.ndarray:
    """Returns the variables that each row may take by the parts of their conditions that Spark computed. int64 (rows).

    Bits that move by the same distance move together. Most patterns have one or two such distances.
    Example: the parts of variables 0, 2 and 3 are bits 0, 1 and 2. Bit 0 stays; bits 1 and 2 move by one. Any row may be
    variable 1, so its bit is set in each row.
    """
    free = (1 << len(plan.variables)) - 1
    moved: dict[int, int] = {}  # distance -> the bits that move by it
    for variable, bit, _ in plan.letters:
        free &= ~(1 << variable)
        moved[variable - bit] = moved.get(variable - bit, 0) | 1 << bit
    letters = np.full(rows, free, dtype=np.int64)
    for distance, bits in moved.items():
        part = words(columns[LETTERS]) & bits
        letters |= part << distance if distance >= 0 else part >> -distance
    return letters


def _refuse_failures(plan: Plan, columns: dict[str, pa.Array], letters: np.ndarray) -> None:
    """Raises the error of an expression that Spark failed to compute for a row that the expression's variable may take.

    A ranking by row values does not evaluate conditions one by one, so it would miss the error.
    """
    for condition in plan.conditions:
        for part in (part for tree in condition.trees for part in walk(tree) if part[0] == "checked"):
            taken = letters & (1 << condition.variable if part.failed[0] == "col" else getattr(part.failed, "mask", 0))
            if ((null_marks(columns[part.failed.column]) == 0) & (taken != 0)).any():
                raise of_condition(vm.FAILED - part.number, plan)


def _rows_known(prepared: Prepared, chunk: Chunk) -> np.ndarray:
    """Returns how many rows of its partition have arrived after each row. int64 (rows), empty if no condition looks ahead.

    It is NEVER if the partition gets no more rows. It is also NEVER for an approximate pattern or an automaton, whose search reads
    a row only when all rows that NEXT reads have arrived.
    """
    if not any(prepared.looks):
        return np.zeros(0, dtype=np.int64)
    plan, sizes = prepared.plan, np.diff(chunk.offsets)
    known = np.repeat(chunk.offsets[1:], sizes) - np.arange(chunk.rows) - 1
    waits = chunk.going & (plan.approximate is None and plan.automaton is None)
    known[~np.repeat(waits, sizes)] = NEVER
    return known


def _looking_ahead(plan: Plan) -> int:
    """Returns the mask of variables whose conditions look at later rows."""
    return sum({1 << v for v, trees in plan.conditions if max(looks_away(trees), default=0) > 0})


def _int_columns(prepared: Prepared, chunk: Chunk, rows: int, known: np.ndarray):
    """Returns the integer side of the kernel arrays.

    Returns:
        Integer words, NULL marks, arrays of paired functions, label ranks, and the bytecode with this chunk's string ranks.
    """
    c = prepared.conditions
    if c.pairs:
        check_pairs(prepared.plan, chunk)
    columns = chunk.columns
    ints = np.empty((len(c.int_columns), rows), dtype=np.int64)
    inull = np.empty((len(c.int_columns), rows), dtype=np.uint8)
    ranked = dict(c.ranked)
    for i, (name, part) in enumerate(c.int_columns):
        if name == KNOWN:
            ints[i], inull[i] = known, 0
            continue
        inull[i] = null_marks(columns[name])
        if part != WORD or name not in ranked:
            ints[i] = _part(columns[name], part)
    paired = {name: columns[name].flatten() for name, _ in c.pairs}
    elements = {(name, part): _part(paired[name], part) for name, part in c.pairs if name not in ranked}
    codes = np.zeros(len(prepared.plan.variables), dtype=np.int64)
    bytecode = c.code
    domains = sorted(set(ranked.values()) | ({"string"} if c.strings or c.classifier_read else set()))
    for domain in domains:
        names = [n for n, d in c.ranked if d == domain]
        constants = (*c.strings, *prepared.plan.variables) if domain == "string" else ()
        found, fixed = ranks([paired[n] if n in paired else columns[n] for n in names], constants)
        for name, values in zip(names, found):
            if name in paired:
                elements[name, WORD] = values
            else:
                ints[c.int_columns.index((name, WORD))] = values
        if domain == "string":
            bytecode = c.code.copy()
            for at, which in c.string_patches:
                bytecode[at, 1] = fixed[which]
            codes = fixed[len(c.strings) :].copy()
            codes[[not name for name in prepared.plan.variables]] = vm.NO_LABEL
    arrays = _ragged([columns[n] for n, _ in c.pairs], [paired[n] for n, _ in c.pairs], [elements[pair] for pair in c.pairs], rows)
    return ints, inull, arrays, codes, bytecode


def _mark(c: Conditions, variable: int, data: ChunkArrays, plan: Plan) -> None:
    """Folds a condition over physical neighbours into the variable's letter."""
    rows = data.rows
    entry = int(c.shift_entry[variable])
    simple = _comparison(c, entry)
    if simple is not None:
        left, compare, right = simple
        values, nulls = (rows.ints, rows.inull) if left[0] == OP["LOADI"] else (rows.flts, rows.fnull)
        if values is rows.ints or not (np.isnan(values[left[1]]).any() or np.isnan(values[right[1]]).any()):
            vm.mark_comparison(
                rows.letters, variable, _COMPARISONS[compare], values[left[1]], nulls[left[1]], left[2],
                values[right[1]], nulls[right[1]], right[2], rows.offsets,
            )
            return
    stack = max(c.stack, 8)
    si, sf, sn = np.zeros(2 * stack, dtype=np.int64), np.zeros(stack, dtype=np.float64), np.zeros(stack, dtype=np.uint8)
    no_labels, no_values = np.empty(1, dtype=np.uint8), np.empty((1, 1), dtype=np.float64)
    bad = vm.clear(
        np.int64(variable), np.int64(entry), rows, data.conditions, c.slots[:0], no_values.view(np.int64), no_values, no_labels, si, sf, sn
    )
    if bad < 0:
        error = of_condition(bad, plan, variable=variable)
        raise EagerConditionError(error.error_class.removeprefix("SPARKCEP."), error.message, sqlstate=error.sqlstate, line=error.line, column=error.column, fragment=error.fragment)


def _part(column: pa.Array, part: str) -> np.ndarray:
    """Returns a column for the kernels: its values, or one of the two words of its decimals."""
    return words(column) if part == WORD else decimal_words(column)[part == HIGH]


def _ragged(lists: list[pa.Array], values: list[pa.Array], elements: list[np.ndarray], rows: int) -> tuple[np.ndarray, ...]:
    """Concatenates list columns.

    Returns:
        Starts int64 (columns, rows + 1), int64 values, float64 values and NULL marks.
    """
    starts = np.zeros((len(lists), rows + 1), dtype=np.int64)
    begin = 0
    for i, column in enumerate(lists):
        offsets = np.asarray(column.offsets, dtype=np.int64)
        starts[i] = offsets - offsets[0] + begin
        begin += len(values[i])
    whole = np.zeros(begin, dtype=np.int64)
    parts = np.zeros(begin, dtype=np.float64)
    nulls = np.zeros(begin, dtype=np.uint8)
    for i, found in enumerate(elements):
        at = slice(int(starts[i, 0]), int(starts[i, -1]))
        (parts if found.dtype == np.float64 else whole)[at] = found
        nulls[at] = null_marks(values[i])
    return starts, whole, parts, nulls


def _comparison(c: Conditions, entry: int) -> tuple[list[int], int, list[int]] | None:
    """Returns (left, opcode, right) if a condition is one comparison of two loads, None otherwise."""
    code = c.code[entry : entry + 4].tolist()
    loads = (OP["LOADI"], OP["LOADF"])
    if len(code) < 4 or code[0][0] not in loads or code[1][0] != code[0][0] or code[3][0] != OP["RETURN"]:
        return None
    if code[2][0] not in _COMPARISONS or code[0][3] >= 0 or code[1][3] >= 0:
        return None
    return code[0], code[2][0], code[1]
