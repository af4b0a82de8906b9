"""Threshold tests: conditions that look back at the match, as comparisons of a row's value with a threshold.

The exact search uses them instead of bytecode, which it would evaluate for each pair of a start row and a row. The kernels are in
:mod:`sparkcep.kernels.match.thresholds`. This module reads a condition's bytecode as a conjunction of comparisons. A comparison
becomes a test if one side depends on the candidate row alone. The other side must be a value at the match's first row, or the
running MIN or MAX over all rows of the match so far. Values are int64 in Spark's order: DOUBLE by the order of its bits, with NaN
above all numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparkcep.columns.arrays import float_words
from sparkcep.compiler.conditions.bytecode import FLOAT_COLUMN, OP_NAMES, SLOT
from sparkcep.compiler.liveness import reachable
from sparkcep.compiler.pattern.program import CHAR, R_MAX, R_VAR, RUN, Program
from sparkcep.engine.core.task import Prepared
from sparkcep.kernels.match import backtrack as kernels
from sparkcep.kernels.match.thresholds import BLOCK, EQ, GE, GT, LE, LT, NE, NONE, Thresholds
from sparkcep.plan.facts import leader, occurrences

ROW, START, MOST, LEAST = "row", "start", "most", "least"  # where a value is read: candidate row, first row, running extremes
_COMPARED = {"EQ": EQ, "NE": NE, "LT": LT, "LE": LE, "GT": GT, "GE": GE}
_MIRRORED = {EQ: EQ, NE: NE, LT: GT, LE: GE, GT: LT, GE: LE}
_RUNNING = {"MAXI": MOST, "MAXF": MOST, "MINI": LEAST, "MINF": LEAST}
_MOST = (1 << 62) - 1  # limit of integers and intermediate results; beyond it bytecode is evaluated, which detects overflow


class _Value(NamedTuple):
    """A value on the stack.

    Attributes:
        postfix: how it is computed.
        at: where its columns are read, None for a constant.
        own: whether the candidate row counts in a running extreme.
    """

    postfix: tuple[tuple, ...]
    at: str | None
    own: bool = False


@dataclass(frozen=True)
class Test:
    """A comparison of a value ``left`` of the candidate row with a value ``right`` of the match. ``floats``: they are DOUBLE."""

    op: int
    left: _Value
    right: _Value
    floats: bool


def tests_of(prepared: Prepared) -> tuple[tuple[Test, ...], ...]:
    """Returns the tests of each variable. Returns () if some condition is not a conjunction of tests."""
    c, program = prepared.conditions, prepared.strategy.program
    if not c.has_history or not len(c.slots):
        return ()
    reader = _Reader(prepared, _before(program))
    found = tuple(reader.tests(variable, int(at)) if at >= 0 else () for variable, at in enumerate(c.entry.tolist()))
    return () if any(tests is None for tests in found) or not any(found) else found


def _before(program: Program) -> list[int]:
    """Returns for each variable the mask of variables that rows before one of its rows may be mapped to."""
    found = [0] * len(program.variables)
    taken = {}
    for at, (op, a, _, _) in enumerate(program.code.tolist()):
        if op in (CHAR, RUN):
            taken[at] = a if op == CHAR else int(program.runs[a, R_VAR])
    for at, variable in taken.items():
        for behind in reachable(program, at + 1):
            if behind in taken:
                found[taken[behind]] |= 1 << variable
        op, a = program.code[at, :2].tolist()
        if op == RUN and program.runs[a, R_MAX] != 1:
            found[variable] |= 1 << variable
    return found


class _Reader:
    """Reads tests from the bytecode of conditions."""

    def __init__(self, prepared: Prepared, before: list[int]) -> None:
        self.conditions, self.before = prepared.conditions, before
        pattern = prepared.plan.pattern
        lead = leader(pattern)
        once = [variable for variable, times in occurrences(pattern).items() if times == (1, 1)]
        self.first, self.single = prepared.strategy.program.first, lead if any(lead == 1 << v for v in once) else 0

    def tests(self, variable: int, at: int) -> tuple[Test, ...] | None:
        stack: list = []  # items: a _Value, or a list of comparisons that are all true
        code, patched = self.conditions.code.tolist(), {at for at, _ in self.conditions.string_patches}
        while True:
            if at in patched:
                return None  # the rank of a string constant differs from chunk to chunk
            op, a, b, c, d = code[at]
            name, at = OP_NAMES[op], at + 1
            if name == "RETURN":
                tests = _held(stack[0])
                return tuple(tests) if tests else None
            if name in ("JFALSE", "JNULL"):
                continue  # the value after the jump is the one without it: the operation that is skipped is NULL if its operand is
            if name == "FAIL":
                failed, value = stack.pop(), stack.pop()
                known = isinstance(failed, _Value) and isinstance(value, _Value)
                found = value._replace(postfix=(*value.postfix, *failed.postfix, (name, a))) if known else None
            elif name == "AND":
                right, left = _held(stack.pop()), _held(stack.pop())
                found = left + right if left and right else None
            elif name[:2] in _COMPARED and len(name) == 3 and name[2] in "IF":
                right, left = stack.pop(), stack.pop()
                found = self._comparison(_COMPARED[name[:2]], left, right, name[2] == "F")
            elif name in ("ADDI", "SUBI", "MULI", "ADDF", "SUBF", "MULF"):
                right, left = stack.pop(), stack.pop()
                found = _joined(name, a, left, right)
            elif name in ("I2F", "SCALE"):
                found = stack.pop()
                found = found._replace(postfix=(*found.postfix, (name, a, b))) if isinstance(found, _Value) else None
            else:
                found = self._loaded(name, variable, a, b, c, d)
            if found is None:
                return None
            stack.append(found)

    def _loaded(self, name: str, variable: int, a: int, b: int, c: int, d: int) -> _Value | None:
        if name == "CONSTI":
            return _Value((("INT", a),), None)
        if name == "CONSTF":
            return _Value((("FLOAT", float(self.conditions.floats[a])),), None)
        if name in ("LOADI", "LOADF"):
            return _Value(((name, a),), ROW) if b == 0 and c < 0 else None
        if name in ("NAVI", "NAVF"):
            kind, mask, _, _, _, helper = self.conditions.slots[a].tolist()
            first = kind == SLOT["FIRST"] and self.first & ~mask == 0
            last = kind == SLOT["LAST"] and 0 < mask == self.single
            return _Value((("LOAD" + name[-1], c),), START) if b == 0 and d < 0 and helper < 0 and (first or last) else None
        if name in ("SLOTI", "SLOTF"):
            kind, mask, _, column, keep, _ = self.conditions.slots[a].tolist()
            running = next((at for kind_name, at in _RUNNING.items() if kind == SLOT[kind_name]), None)
            if running is None or keep >= 0 or self.before[variable] & ~mask != 0:
                return None
            loaded = ("LOADF", column - FLOAT_COLUMN) if column >= FLOAT_COLUMN else ("LOADI", column)
            return _Value((loaded,), running, own=mask == -1 or bool(mask >> variable & 1))
        return None

    def _comparison(self, op: int, left, right, floats: bool) -> list[Test] | None:
        if not isinstance(left, _Value) or not isinstance(right, _Value):
            return None
        if left.at in (START, MOST, LEAST):
            op, left, right = _MIRRORED[op], right, left
        if left.at not in (None, ROW) or right.at not in (START, MOST, LEAST):
            return None
        return [Test(op, left, right, floats)]


def _held(found) -> list[Test] | None:
    """Returns the tests of a stack item, None if it has none. A BOOLEAN of the match is one test."""
    if isinstance(found, _Value) and found.at in (START, MOST, LEAST):
        return [Test(EQ, _Value((("INT", 1),), None), found, False)]
    return found if isinstance(found, list) else None


def _joined(name: str, limit: int, left, right) -> _Value | None:
    """Combines two values. A running extreme may take part only in an addition or subtraction that keeps the order of values."""
    if not isinstance(left, _Value) or not isinstance(right, _Value):
        return None
    places = {value.at for value in (left, right)} - {None}
    if len(places) > 1:
        return None
    at = places.pop() if places else None
    if at in (MOST, LEAST) and (right.at is not None or name[:3] not in ("ADD", "SUB")) and (left.at is not None or name[:3] != "ADD"):
        return None
    return _Value((*left.postfix, *right.postfix, (name, limit)), at, left.own or right.own)


# -- values of a buffer's rows ----------------------------------------------------------------------------------------


def thresholds_of(tests: tuple[tuple[Test, ...], ...], rows: kernels.RowArrays) -> Thresholds | None:
    """Returns the tests over a chunk's rows. Returns None if a value is too large for them, or has an error.

    A row whose left value is NULL loses the variable's letter.
    """
    count = len(rows.letters)
    every = [(variable, test) for variable, some in enumerate(tests) for test in some]
    values = np.empty((2 * len(every), count), dtype=np.int64)
    table = np.zeros((len(every), 3), dtype=np.int64)
    unmatched: list[tuple[int, np.ndarray]] = []
    for t, (variable, test) in enumerate(every):
        op = test.op
        for side, value in enumerate((test.left, test.right)):
            found = _computed(value.postfix, rows, count)
            if found is None:
                return None
            numbers, null = found
            values[2 * t + side] = float_words(numbers) if test.floats else numbers
            if test.right.at == LEAST:
                values[2 * t + side] = -values[2 * t + side]
            if side == 1:
                values[2 * t + 1][null] = NONE
            elif null.any():
                unmatched.append((variable, null))
        table[t] = _MIRRORED[op] if test.right.at == LEAST else op, test.right.at != START, test.right.own
    for variable, null in unmatched:
        rows.letters[null] &= ~(1 << variable)
    first = np.concatenate([[0], np.cumsum([len(some) for some in tests])]).astype(np.int64)
    starts = np.arange(0, count, BLOCK)
    blocks = np.empty((4 * len(every), len(starts) + 1), dtype=np.int64)
    for t in range(len(every)):
        for at, (side, reduced) in enumerate(((0, np.minimum), (0, np.maximum), (1, np.maximum))):
            blocks[4 * t + at, : len(starts)] = reduced.reduceat(values[2 * t + side], starts) if count else 0
    letters = np.array([f.reduceat(rows.letters, starts) if count else [] for f in (np.bitwise_or, np.bitwise_and)], dtype=np.int64).reshape(2, -1)
    return Thresholds(first, table, values, blocks, np.full((len(every), 2), -1, dtype=np.int64), letters, np.zeros(BLOCK, dtype=np.uint8))


def _computed(postfix: tuple[tuple, ...], rows: kernels.RowArrays, count: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns a value of each row, and whether it is NULL.

    Returns None if an integer may overflow its type, or if Spark failed to compute a value.
    """
    stack: list[tuple[np.ndarray, np.ndarray]] = []
    with np.errstate(all="ignore"):
        for name, a, *rest in postfix:
            if name in ("INT", "FLOAT"):
                stack.append((np.full(count, a, dtype=np.int64 if name == "INT" else np.float64), np.zeros(count, dtype=bool)))
            elif name in ("LOADI", "LOADF"):
                columns, nulls = (rows.ints, rows.inull) if name == "LOADI" else (rows.flts, rows.fnull)
                null = nulls[a] != 0
                stack.append((np.where(null, 0, columns[a]), null))
            elif name == "I2F":
                numbers, null = stack.pop()
                single, scaled = rest[0] == 1, float(10**a)
                stack.append(((numbers.astype(np.float32) if single else numbers / scaled if a else numbers).astype(np.float64), null))
            elif name == "FAIL":
                failed, unknown = stack.pop()
                if (failed[~unknown] != 0).any():
                    return None  # the bytecode raises the error if a match asks for this row
            elif name == "SCALE":
                numbers, null = stack.pop()
                stack.append((numbers * 10**a, null))
            else:
                (y, b), (x, n) = stack.pop(), stack.pop()
                if name[-1] == "I" and not _fits(name[:3], x, y, a):
                    return None
                stack.append(({"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply}[name[:3]](x, y), n | b))
            numbers, null = stack[-1]
            if numbers.dtype == np.int64 and _extent(numbers) > _MOST:
                return None
    return stack[0]


def _extent(numbers: np.ndarray) -> int:
    """Returns the greatest absolute value."""
    return max(abs(int(numbers.min())), abs(int(numbers.max()))) if len(numbers) else 0


def _fits(operation: str, x: np.ndarray, y: np.ndarray, limit: int) -> bool:
    """Returns whether results for integers of these sizes stay in a type with the greatest value ``limit``."""
    a, b = _extent(x), _extent(y)
    return (a * b if operation == "MUL" else a + b) <= min(limit, _MOST)
