"""Values of expressions that look at the match, by the engine's own machine.

Each expression is compiled as a condition of its own (:mod:`sparkcep.compiler.conditions.bytecode`). The machine maps the rows of a
run without conditions, then evaluates the expression at the next row. Rows that two runs in a row share are mapped once.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from decimal import Context, Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import flat
from sparkcep.columns.comparable import readable
from sparkcep.columns.types import WORD, Type
from sparkcep.compiler.conditions.bytecode import SLOT, ConditionCompiler
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.errors import of_condition
from sparkcep.engine.core.predicates import kernel_data
from sparkcep.engine.core.task import Prepared
from sparkcep.errors import MatchRuntimeError
from sparkcep.kernels.vm import vm
from sparkcep.plan.plan import LETTERS
from sparkcep.tracing.rows.local_times import local_time
from sparkcep.tracing.search.runs import Run, judging

Value: TypeAlias = Any
NOT_COMPUTED = "not computed"
_STACK = 512
_EXACT = Context(prec=60)
_EPOCH = datetime.datetime(1970, 1, 1)


class Machine:
    """Evaluates expressions over the rows of one partition."""

    def __init__(self, prepared: Prepared, table: pa.Table, expressions: Sequence[tuple[int, tuple]], first: int = 0) -> None:
        """Compiles the expressions.

        Args:
            prepared: the plan, compiled for the rows.
            table: the rows of the partition.
            expressions: trees, each with the variable that the row gets.
            first: the number of the first row in its partition. Runs and rows are given by these numbers.
        """
        self.first = first
        self.plan = plan = replace(prepared.plan, letters=(), conditions=())
        names = [name for name in table.column_names if name != LETTERS]
        table = table.select(names)
        compiler = ConditionCompiler(plan.variables, table.schema, plan.ansi, plan.adjacent, plan.zone, plan.months, (0,) * len(plan.variables), plan.precision_loss)
        self._variables = [variable for variable, _ in expressions]
        self._entries, self._types = [], []
        for _, tree in expressions:
            self._entries.append(len(compiler.code))
            self._types.append(compiler.emit(tree))
            compiler.op("RETURN")
        compiled = replace(compiler.run(()), stack=_STACK)
        self.count = table.num_rows
        chunk = Chunk.whole(table, names, np.array([0, self.count], dtype=np.int64))
        chunk.columns.update({name: flat(table[name]) for name in names})
        strategy = replace(prepared.strategy, plan=plan, net=None)
        data = kernel_data(replace(prepared, strategy=strategy, conditions=compiled, looks=()), chunk)
        self._slots, self._labels = compiled.slots, np.full(self.count + 2, vm.UNTAKEN, dtype=np.uint8)
        self._whole = np.zeros((self.count + 2, len(compiled.slots)), dtype=np.int64)
        self._floats = np.zeros((self.count + 2, len(compiled.slots)), dtype=np.float64)
        self._stack = np.zeros(2 * _STACK, dtype=np.int64), np.zeros(_STACK, dtype=np.float64), np.zeros(_STACK, dtype=np.uint8)
        rows, conditions, letters = data.rows, data.conditions, np.full(self.count, -1, dtype=np.int64)
        self._arrays = (letters, conditions.code, conditions.floats), (  # before the slots and after them, in the order of vm.scan
            self._whole, self._floats, self._labels, conditions.label_codes, rows.ints, rows.flts, rows.inull, rows.fnull,
            rows.pair_starts, rows.pair_ints, rows.pair_flts, rows.pair_null, *self._stack,
        )  # fmt: skip
        self._mapped: list[Run] = []
        self._strings = self._by_rank(data, compiled, chunk)

    def _by_rank(self, data: Any, compiled: Any, chunk: Chunk) -> dict[str, dict[int, Value]]:
        """The value of each rank, for each kind of ranked values."""
        found: dict[str, dict[int, Value]] = {}
        for name, kind in compiled.ranked:
            ranks = found.setdefault(kind, {})
            if (name, WORD) in compiled.int_columns:
                words = data.rows.ints[compiled.int_columns.index((name, WORD))].tolist()
                ranks.update((rank, value) for rank, value in zip(words, readable(chunk.columns[name]), strict=True) if value is not None)
        ranks = found.setdefault("string", {})
        for at, which in compiled.string_patches:
            ranks[int(data.conditions.code[at, 1])] = compiled.strings[which]
        if compiled.strings or compiled.classifier_read:
            ranks.update(zip(data.conditions.label_codes.tolist(), self.plan.variables))
        return found

    def value(self, expression: int, row: int, run: Run) -> Value:
        """The value of an expression at a row that comes after a run.

        Raises:
            MatchRuntimeError: the expression fails for these rows.
        """
        self._map(run)
        try:
            return self._evaluate(expression, row, run, run.row if run.length else row - 1, self._slots)
        finally:
            self._labels[row - self.first] = vm.UNTAKEN

    def value_between(self, expression: int, row: int, run: Run, others: Run) -> Value:
        """The value of an expression of a negated variable at a row, judged by a match.

        The expression sees the rows of its own variable up to this one.

        Args:
            expression: the number of the expression.
            row: the row, which the match does not take.
            run: the rows of the match.
            others: the rows of the negated group before ``row``, in a run of their own.

        Raises:
            MatchRuntimeError: the expression fails for these rows.
        """
        own, spare = self._variables[expression], self.count + 1
        taken = judging(run, others, own, row)
        self._whole[spare], self._floats[spare] = np.where(self._slots[:, 0] <= SLOT["LABELFIRST"], -1, 0), 0.0
        if taken:
            self._map(Run.joined(run.number, taken))
            last = max(at for at, _ in taken)
            self._whole[spare], self._floats[spare] = self._whole[last - self.first], self._floats[last - self.first]
        merged = sorted([*taken, (row, own)])
        self._map(Run.joined(run.number, merged))
        last = merged[-1][0]
        whole, floats = self._whole[last - self.first].copy(), self._floats[last - self.first].copy()
        self._clear()
        for at, variable in taken:
            self._labels[at - self.first] = variable
        self._whole[row - self.first], self._floats[row - self.first] = whole, floats
        try:
            return self._evaluate(expression, row, Run(min(merged)[0], run.number), spare + self.first, self._slots[:0])
        finally:
            self._labels[:] = vm.UNTAKEN

    def _clear(self) -> None:
        for run in self._mapped:
            self._labels[run.row - self.first] = vm.UNTAKEN
        self._mapped = []

    def _map(self, run: Run) -> None:
        """Maps the rows of a run, from the first one that differs from the run before."""
        missing = []
        node = run
        while node.before is not None and not (len(self._mapped) >= node.length and self._mapped[node.length - 1] is node):
            missing.append(node)
            node = node.before
        for left in self._mapped[node.length :]:
            self._labels[left.row - self.first] = vm.UNTAKEN
        del self._mapped[node.length :]
        for node in reversed(missing):
            assert node.before is not None
            prior = node.before.row if node.before.length else node.row - 1
            self._scan(-1, node.variable, node.row, prior, node.start, node.number, self._slots)
            self._mapped.append(node)

    def _scan(self, entry: int, variable: int, row: int, prior: int, start: int, number: int, slots: Any) -> None:
        row, start = row - self.first, start - self.first
        before, after = self._arrays
        _, bad = vm.scan(vm.MAP, variable, variable, entry, 1, row, prior - self.first, 0, row + 1, self.count, start, number, *before, slots, *after)
        if bad < 0:
            raise of_condition(bad, self.plan, variable=variable)

    def _evaluate(self, expression: int, row: int, run: Run, prior: int, slots: Any) -> Value:
        t = self._types[expression]
        self._scan(self._entries[expression], self._variables[expression], row, prior, run.start, run.number, slots)
        whole, floats, nulls = self._stack
        if nulls[0] or t.kind == "null":
            return None
        if t.is_float:
            return float(floats[0])
        word = int(whole[0])
        if t.is_wide:
            word = (int(whole[_STACK]) << 64) | (word & ((1 << 64) - 1))
        return self._decoded(word, t)

    def _decoded(self, word: int, t: Type) -> Value:
        if t.kind == "boolean":
            return bool(word)
        if t.kind == "decimal":
            return Decimal(word).scaleb(-t.scale, _EXACT)
        if t.is_ranked:
            return self._strings.get(str(t) if t.kind == "nested" else t.kind, {}).get(word)
        if t.kind == "date":
            return (_EPOCH + datetime.timedelta(days=word)).date()
        if t.is_time:
            return local_time(word, self.plan.zone if t.kind == "timestamp" else None)
        if t.kind == "interval":
            return datetime.timedelta(microseconds=word)
        return word


class Failed:
    """A value that could not be computed, with the error's class. It takes the place of the value."""

    def __init__(self, error: MatchRuntimeError) -> None:
        self.error_class = error.error_class.removeprefix("SPARKCEP.")

    def __repr__(self) -> str:
        return f"{NOT_COMPUTED}: {self.error_class}"
