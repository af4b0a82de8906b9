"""Leaf columns of the output: values gathered at matched rows, and running and final aggregates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args, get_type_hints

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import decimal_words, most_bytes, null_marks, ranges, ranks, row_bytes, words
from sparkcep.columns.types import MAX_DIGITS, Type, bounded, type_of
from sparkcep.engine.core.matches import distinct_rows, label_rows
from sparkcep.engine.core.windows import window_type
from sparkcep.engine.output import gather, shared_ends
from sparkcep.errors import SEMANTIC, ClauseError, MatchRuntimeError
from sparkcep.kernels.common.layout import E_LABELS, E_NUMBER, E_ROWS, E_START
from sparkcep.kernels.match.unfinished import UNFINISHED
from sparkcep.plan import records
from sparkcep.plan.records import (
    ALL_ROWS,
    CLASSIFIER_COLUMN,
    Aggregate,
    Classifier,
    Leaf,
    LeafSpec,
    OfComputation,
    OfHistory,
    Value,
)

ELEMENT_BYTES = 32  # bytes of an array's element in addition to its value: its row and its label
_NONE_I = np.zeros(0, dtype=np.int64)
_NONE_F = np.zeros(0, dtype=np.float64)
_NONE_B = np.zeros(0, dtype=np.uint8)
# MATCH_GRAPH(): a node's predecessors are a range of the array
GRAPH = pa.list_(
    pa.struct(
        [
            pa.field("position", pa.int64()),
            pa.field("variable", pa.string()),
            pa.field("before_from", pa.int32()),
            pa.field("before_until", pa.int32()),
            pa.field("complete", pa.bool_()),
        ]
    )
)
_TYPES = {  # of leaves whose kind says it
    **dict.fromkeys(("cls", "kind", "status", "change", "match_id"), pa.string()),
    **dict.fromkeys(("mno", "change_number", "bundle_size", "left_out", "allowed", "history_visits", "history_points"), pa.int64()),
    **dict.fromkeys(("rank", "history_place", "history_remaining", "history_idle"), pa.int32()),
    **dict.fromkeys(("coverage", "history_so_far"), pa.float64()),
    **dict.fromkeys(("complete", "emitted"), pa.bool_()),
    **dict.fromkeys(("missing", "expected"), pa.list_(pa.string())),
    **dict.fromkeys(("vector", "pairs"), pa.list_(pa.int64())),
    "cnt": pa.decimal128(38, 0), "graph": GRAPH,
}  # fmt: skip


@dataclass(frozen=True)
class OutputRows:
    """The output rows of one buffer; see :mod:`sparkcep.engine.output.gather`.

    Attributes:
        events, labels, scattered: the matches.
        offsets: the bounds of the partitions.
        out_event: the event of each output row.
        out_upto: how many rows of its match each output row sees under running semantics.
        variables: the names of the variables.
        by_event: for each kind of leaf that describes a whole match, the values of the events.
        ansi: whether overflow is an error.
        forest: the labels of matches that share their ends.
        kinds: of an approximate match, the kind of the row of each label.
        before: the output row before the first one, see :func:`sparkcep.engine.output.gather.collect`.
    """

    events: np.ndarray
    labels: np.ndarray
    scattered: np.ndarray
    offsets: np.ndarray
    out_event: np.ndarray
    out_upto: np.ndarray
    variables: tuple[str, ...]
    by_event: dict[str, pa.Array]
    ansi: bool = True
    forest: shared_ends.Forest | None = None
    before: tuple[int, int] | None = None  # only under a stepwise plan
    kinds: pa.Array | None = None

    @property
    def matches(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.events, self.labels, self.scattered

    def position(self, which: str, mask: int, logical: int, physical: int, final: bool, inside: bool = False) -> tuple:
        """Returns the (row, label) that FIRST or LAST looks at for each output row.

        See :func:`sparkcep.engine.output.gather.navigate`.
        """
        if self.forest is not None:
            at, labels = shared_ends.navigate(which == "F", np.int64(mask), logical, physical, self.forest, self.offsets)
            return at[self.out_event], labels[self.out_event]
        matches = (*self.matches, self.offsets)
        return gather.navigate(which == "F", np.int64(mask), logical, physical, final, matches, self.out_event, self.out_upto, inside)

    def aggregate(
        self, kind: int, mask: int, final: bool, ints: np.ndarray, flts: np.ndarray, nulls: np.ndarray, keep: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns (int64 value, float64 value, count) for each output row. See :func:`sparkcep.engine.output.gather.aggregate`."""
        if self.forest is not None:
            values, sums, counts = shared_ends.aggregate(kind, np.int64(mask), ints, flts, nulls, keep, self.forest)
            return values[self.out_event], sums[self.out_event], counts[self.out_event]
        return gather.aggregate(kind, np.int64(mask), final, ints, flts, nulls, keep, self.matches, self.out_event, self.out_upto)

    def collect(
        self, mask: int, final: bool, pairs: bool, nulls: np.ndarray, keep: np.ndarray, before: tuple[int, int] | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns (offsets, rows, labels) of the rows that each output row gathers.

        See :func:`sparkcep.engine.output.gather.collect`.
        """
        if self.forest is None:
            return gather.collect(np.int64(mask), final, pairs, nulls, keep, self.matches, self.out_event, self.out_upto, before)
        # matches that share their ends have one output row each
        offsets, at, labels = shared_ends.collect(np.int64(mask), nulls, keep, self.forest)
        sizes, marks = np.diff(offsets)[self.out_event], 0 if before is None else gather.FIRST_MARKS
        until = np.concatenate([[0], np.cumsum(sizes + marks)])
        out = np.full((2, int(until[-1])), -1, dtype=np.int64)
        chosen, places = ranges(offsets[self.out_event], sizes), ranges(until[:-1] + marks, sizes)
        out[0, places], out[1, places] = at[chosen], labels[chosen]
        return until, out[0], out[1]


def leaf_type(spec: LeafSpec, schema: pa.Schema) -> pa.DataType:
    """Returns the Arrow type of a leaf. For an aggregate it is Spark's result type."""
    kind = spec.kind
    if kind in _TYPES:
        return _TYPES[kind]
    if kind in ("nav", "match_from", "match_to", "changed_by", "punctuation", "ended"):
        return schema.field(spec.column).type
    if kind == "errors":
        return pa.int64() if spec.whole else pa.float64()
    if kind in ("bundle_start", "bundle_end"):
        return schema.field(spec.column).type if spec.column else pa.int64()
    if kind == "history_starts":
        return pa.list_(schema.field(spec.column).type if spec.column else pa.int64())
    if kind == "score":
        floating = any(term.column and type_of(schema.field(term.column).type).is_float for term in spec.terms)
        return pa.float64() if floating else pa.null()
    if kind in ("window_start", "window_end", "next_start", "next_end"):
        return window_type(schema.field(spec.column).type if spec.column else None, spec.step)
    if kind == "rows":
        return pa.list_(pa.struct([pa.field(f"a{i}", _value_type(c, schema)) for i, c in enumerate(spec.columns)]))
    return _aggregate_type(spec.function, spec.column, schema)


def output_bytes(leaves: tuple[Leaf, ...], kept: list[str], rows: OutputRows, out_pos: np.ndarray, columns: dict[str, pa.Array], most: int) -> np.ndarray | None:
    """Estimates how many bytes each output row takes. int64 (output rows), None if all together take at most ``most``.

    Args:
        leaves: the leaves of the plan.
        kept: the input columns in the output.
        rows: the output rows.
        out_pos: the row of the buffer for each output row.
        columns: the columns of the buffer.
        most: the limit in bytes.
    """
    specs = [leaf.spec for leaf in leaves]
    lists = [spec for spec in specs if spec.kind == "rows" or (spec.kind == "agg" and spec.function == "list")]
    events = [rows.by_event[kind] for kind in {spec.kind for spec in specs} & rows.by_event.keys()]
    names = [*kept, *(c for spec in specs if spec not in lists for c in _columns_of(spec))]
    single = sum(map(most_bytes, [*(columns[c] for c in names), *events]))
    whole = [spec for spec in lists if rows.before is None or spec.kind != "rows"]
    elements = int(np.maximum(rows.events[rows.out_event if whole else np.unique(rows.out_event), E_ROWS], 0).sum()) if lists else 0
    each = sum(ELEMENT_BYTES + sum(most_bytes(columns[c]) for c in _columns_of(spec)) for spec in lists)
    if len(out_pos) * single + elements * each <= most:
        return None
    total = np.full(len(out_pos), 8 * len(leaves), dtype=np.int64)
    for column in kept:
        total += row_bytes(columns[column])[out_pos]
    for values in events:
        total += row_bytes(values)[rows.out_event]
    buffered = max(int(rows.offsets[-1]), *(len(column) for column in columns.values()), 0)
    for spec in specs:
        sizes = sum((row_bytes(columns[c]) for c in _columns_of(spec)), np.zeros(buffered, dtype=np.int64))
        if spec in lists:
            left_out = _left_out(spec, columns) if spec.kind == "agg" else (_NONE_B, _NONE_B)
            summed = rows.aggregate(gather.SUM_INT, spec.mask, spec.final, sizes + ELEMENT_BYTES, _NONE_F, *left_out)[0]
            if spec not in whole:  # without the part that the match's previous output row has
                follows = rows.out_event[1:] == rows.out_event[:-1]
                summed[1:] -= np.where(follows, summed[:-1], 0)
            total += summed
        elif spec.kind == "nav":
            at = rows.position(spec.which, spec.mask, spec.logical, spec.physical, spec.final)[0]
            total += np.where(at >= 0, sizes[np.maximum(at, 0)], 0)
        else:
            total += int(sizes.max(initial=0))
    return total


def _left_out(spec: Aggregate, columns: dict[str, pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the marks of NULLs, and of rows that the filter keeps."""
    column = None if spec.column in (None, CLASSIFIER_COLUMN) else columns[spec.column]
    return _NONE_B if column is None else null_marks(column), _filter(spec.keep, columns)


def _columns_of(spec: LeafSpec) -> tuple[str, ...]:
    """Returns the input columns whose values a leaf contains."""
    if spec.kind == "nav":
        return (spec.column,)
    if spec.kind == "rows":
        return tuple(c for c in spec.columns if c != CLASSIFIER_COLUMN)
    taken = spec.kind == "agg" and spec.function in ("list", "min", "max") and spec.column not in (None, CLASSIFIER_COLUMN)
    return (spec.column,) if taken else ()


def _value_type(column: str, schema: pa.Schema) -> pa.DataType:
    return pa.string() if column == CLASSIFIER_COLUMN else schema.field(column).type


def _aggregate_type(fn: str, column: str | None, schema: pa.Schema) -> pa.DataType:
    if fn == "count":
        return pa.int64()
    value = _value_type(column or "", schema)
    if fn == "list":
        return pa.list_(value)
    t = type_of(value)
    if fn in ("min", "max"):
        if t.kind == "opaque":
            raise ClauseError("DATATYPE_MISMATCH", f"{fn.upper()} compares values of type {t}, which Spark does not compare", sqlstate=SEMANTIC)
        return value
    if t.kind == "decimal":
        if fn == "sum":
            return pa.decimal128(min(38, t.precision + 10), t.scale)
        a = bounded(t.precision + 4, t.scale + 4)
        return pa.decimal128(a.precision, a.scale)
    if fn == "sum" and t.is_integer:
        return pa.int64()
    if t.kind == "interval":
        return value
    if t.is_number or t.kind == "null":
        return pa.float64()
    raise ClauseError("DATATYPE_MISMATCH", f"{fn.upper()} in MEASURES needs a number, not {t}; cast it", sqlstate=SEMANTIC)


def leaf_column(spec: LeafSpec, rows: OutputRows, columns: dict[str, pa.Array]) -> pa.Array:
    """Returns the values of a leaf for every output row. Raises MatchRuntimeError."""
    return _BUILDERS[spec.kind](spec, rows, columns)


def _own(values: np.ndarray) -> np.ndarray:
    """Returns a writeable array: kernels are compiled for writeable arrays only."""
    return values if values.flags.writeable else values.copy()


def _taken(column: pa.Array, at: np.ndarray) -> pa.Array:
    return column.take(pa.array(at, mask=at < 0))


def _navigation(spec: Value, rows: OutputRows, columns: dict[str, pa.Array]) -> pa.Array:
    return _taken(columns[spec.column], rows.position(spec.which, spec.mask, spec.logical, spec.physical, spec.final)[0])


def _classifier(spec: Classifier, rows: OutputRows, columns: dict[str, pa.Array]) -> pa.Array:
    return _names(rows.position(spec.which, spec.mask, spec.logical, spec.physical, spec.final, inside=True)[1], rows.variables)


def _names(ids: np.ndarray, variables: tuple[str, ...]) -> pa.Array:
    # an extra row of an approximate match belongs to no variable
    return pa.array([name or None for name in variables], type=pa.string()).take(pa.array(ids, mask=ids < 0))


def _number(spec: LeafSpec, rows: OutputRows, columns: dict[str, pa.Array]) -> pa.Array:
    numbers, without = rows.events[rows.out_event, E_NUMBER], rows.events[rows.out_event, E_ROWS] < 0
    return pa.array(numbers, mask=without | (numbers == UNFINISHED))


def _by_event(spec: LeafSpec, rows: OutputRows, columns: dict[str, pa.Array]) -> pa.Array:
    return _of_match(spec.kind, rows)


def _of_computation(spec: OfComputation, rows: OutputRows, columns: dict[str, pa.Array]) -> pa.Array:
    return _of_match(f"{spec.kind}{spec.number}", rows)


def _of_match(name: str, rows: OutputRows) -> pa.Array:
    """Returns a value of each output row's match, NULL for rows in no match. A batch of such rows alone need not have it."""
    unmatched = rows.events[rows.out_event, E_ROWS] < 0
    if name not in rows.by_event and unmatched.all():
        return pa.nulls(len(unmatched))
    values = rows.by_event[name]
    if len(rows.out_event) == len(values) and not unmatched.any() and (rows.out_event == np.arange(len(values))).all():
        return values
    return values.take(pa.array(rows.out_event, mask=unmatched))


def _window_edge(spec: LeafSpec, rows: OutputRows, columns: dict[str, pa.Array]) -> pa.Array:
    values = _by_event(spec, rows, columns)
    if values.null_count:
        name = spec.kind.upper()
        message = f"{name}() does not fit into {values.type}. Cast the ORDER BY expression to a wider type"
        raise MatchRuntimeError("ARITHMETIC_OVERFLOW", message, sqlstate="22003")
    return values


def _row_kind(spec: LeafSpec, rows: OutputRows, columns: dict[str, pa.Array]) -> pa.Array:
    """Returns the kind of each output row in its approximate match."""
    labels = rows.position("L", ALL_ROWS, 0, 0, False, inside=True)[1]
    assert rows.kinds is not None
    return rows.kinds.take(pa.array(labels, mask=labels < 0))


def end_rows(events: np.ndarray, scattered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first and the last row of each match. Matches must have at least one row."""
    sizes = events[:, E_ROWS]
    if not len(scattered):
        return events[:, E_START], events[:, E_START] + sizes - 1
    base = events[:, E_LABELS]
    return scattered[base], scattered[base + sizes - 1]


def match_positions(events: np.ndarray, scattered: np.ndarray, positions: np.ndarray) -> pa.Array:
    """Returns the positions of each match's rows. A row that serves both sides of ``&`` comes once."""
    rows, counts = distinct_rows(events, scattered)
    return pa.ListArray.from_arrays(_list_offsets(np.concatenate([[0], np.cumsum(counts)])), pa.array(positions[rows]))


def match_pairs(events: np.ndarray, labels: np.ndarray, scattered: np.ndarray, positions: np.ndarray) -> pa.Array:
    """Returns the (row, label) pairs of each match in order, each as one number. Equal matches of a partition have equal pairs."""
    match, at, rows = label_rows(events, scattered)
    pairs, sizes = positions[rows] << 8 | labels[at].astype(np.int64), np.maximum(events[:, E_ROWS], 0)
    return pa.ListArray.from_arrays(_list_offsets(np.concatenate([[0], np.cumsum(sizes)])), pa.array(pairs[np.lexsort((pairs, match))]))


def match_graphs(until: np.ndarray, items: np.ndarray, variables: tuple[str, ...]) -> pa.Array:
    """Makes the graphs of MATCH_GRAPH().

    Args:
        until: graph i has the items from ``until[i]`` to before ``until[i + 1]``. int64 (n + 1).
        items: position, variable, range of predecessors (-1: none), complete. int64 (k, 5).
        variables: the names of the variables.
    """
    first = items[:, 2] < 0
    before = [pa.array(items[:, k].astype(np.int32), mask=first) for k in (2, 3)]
    complete = pa.array(items[:, 4] == 1)
    arrays = [pa.array(items[:, 0]), _names(items[:, 1], variables), *before, complete]
    return pa.ListArray.from_arrays(_list_offsets(until), pa.StructArray.from_arrays(arrays, fields=list(GRAPH.value_type)))


def _filter(keep: str | None, columns: dict[str, pa.Array]) -> np.ndarray:
    return _NONE_B if keep is None else words(columns[keep]).astype(np.uint8)


def _rows_list(spec: records.Rows, rows: OutputRows, columns: dict[str, pa.Array]) -> pa.Array:
    names = spec.columns
    offsets, at, ids = rows.collect(spec.mask, spec.final, CLASSIFIER_COLUMN in names, _NONE_B, _NONE_B, rows.before)
    values = [_names(ids, rows.variables) if n == CLASSIFIER_COLUMN else _taken(columns[n], at) for n in names]
    fields = [pa.field(f"a{i}", v.type) for i, v in enumerate(values)]
    struct = pa.StructArray.from_arrays(values, fields=fields, mask=None if rows.before is None else pa.array(at < 0))
    return pa.ListArray.from_arrays(_list_offsets(offsets), struct)


def _list_offsets(offsets: np.ndarray) -> pa.Array:
    if offsets[-1] >= 1 << 31:
        raise MatchRuntimeError("TOO_MANY_VALUES", "an array measure would hold more than 2 billion values in one batch", sqlstate="54000")
    return pa.array(offsets.astype(np.int32))


def _aggregate(spec: Aggregate, rows: OutputRows, columns: dict[str, pa.Array]) -> pa.Array:
    fn, mask, name, final = spec.function, spec.mask, spec.column, spec.final
    nulls, kept = _left_out(spec, columns)
    label_values = name == CLASSIFIER_COLUMN
    if label_values and mask == ALL_ROWS and "" in rows.variables:
        mask = sum(1 << i for i, label in enumerate(rows.variables) if label)  # the label of an extra row is NULL
    column = None if name is None or label_values else columns[name]

    def run(kind: int, ints: np.ndarray = _NONE_I, flts: np.ndarray = _NONE_F, mask: int = mask):
        return rows.aggregate(kind, mask, final, _own(ints), _own(flts), nulls, kept)

    if fn == "list":
        offsets, at, ids = rows.collect(mask, final, label_values, nulls, kept)
        values = _names(ids, rows.variables) if column is None else column.take(pa.array(at))
        return pa.ListArray.from_arrays(_list_offsets(offsets), values)
    if fn == "count":
        return pa.array(run(gather.COUNT)[2])
    if label_values:
        return _label_extreme(fn, mask, run, rows.variables)
    t = type_of(column.type)
    if fn in ("min", "max"):
        if t.is_float:
            at, _, counts = run(gather.MIN_FLOAT if fn == "min" else gather.MAX_FLOAT, flts=words(column))
        else:
            values = ranks([column])[0][0] if t.is_ranked or t.is_wide else words(column)
            at, _, counts = run(gather.MIN_INT if fn == "min" else gather.MAX_INT, ints=values)
        return _taken(column, np.where(counts > 0, at, -1))
    if t.kind == "decimal":
        return _decimal(fn, run, column, t, rows.ansi)
    if t.kind == "interval" and fn == "avg":
        total, _, counts = run(gather.SUM_INT, ints=words(column))
        if (counts < 0).any():
            raise MatchRuntimeError("ARITHMETIC_OVERFLOW", "interval overflow in AVG", sqlstate="22003")
        means = [_half_up(x, n) if n else 0 for x, n in zip(total.tolist(), counts.tolist())]
        return pa.array(np.array(means, dtype=np.int64), mask=counts == 0).view(column.type)
    if fn == "sum" and (t.is_integer or t.kind == "interval"):
        total, _, counts = run(gather.SUM_INT, ints=words(column))
        if (rows.ansi or not t.is_integer) and (counts < 0).any():
            what = "BIGINT overflow in SUM; cast to DOUBLE or DECIMAL" if t.is_integer else "interval overflow in SUM"
            raise MatchRuntimeError("ARITHMETIC_OVERFLOW", what, sqlstate="22003")
        return pa.array(total, mask=counts == 0).view(pa.int64() if t.is_integer else column.type)
    _, total, counts = run(gather.SUM_FLOAT, flts=words(column).astype(np.float64))
    if fn == "avg":
        total = total / np.maximum(counts, 1)
    return pa.array(total, mask=counts == 0)


def _decimal(fn: str, run: Callable, column: pa.Array, t: Type, ansi: bool) -> pa.Array:
    """Returns SUM or AVG of decimals as Spark does, from exact sums.

    Beyond the type's digits it is NULL, or an error under ANSI.
    """
    total, counts = _decimal_sums(run, column)
    summed = Type("decimal", min(MAX_DIGITS, t.precision + 10), t.scale)
    over = np.array([abs(x) >= 10**summed.precision for x in total], dtype=bool)
    if fn == "sum":
        values, result = total, summed
    else:
        result = bounded(t.precision + 4, t.scale + 4)
        grow = 10 ** (result.scale - t.scale)
        values = [_half_up(x * grow, n) if n else 0 for x, n in zip(total, counts.tolist())]
        over |= np.array([abs(x) >= 10**result.precision for x in values], dtype=bool)
    if ansi and over.any():
        raise MatchRuntimeError(
            "ARITHMETIC_OVERFLOW", f"{fn.upper()} of {t} gives a number that does not fit into {result}. Cast to DOUBLE or a smaller decimal", sqlstate="22003"
        )
    values = [0 if beyond else x for x, beyond in zip(values, over.tolist())]
    return decimals(values, np.where(over, 0, counts), result.precision, result.scale)


def _decimal_sums(run: Callable, column: pa.Array) -> tuple[list[int], np.ndarray]:
    """Returns the unscaled sums, and how many values each has.

    They are added in parts of 32 bits, so that the rows of a buffer cannot overflow them.
    """
    low, high = decimal_words(column)
    if len(low) == 0 or (max(abs(int(low.min())), abs(int(low.max()))) < 1 << 32 and bool((high == low >> 63).all())):
        total, _, counts = run(gather.SUM_INT, ints=low)
        return total.tolist(), counts
    mask = 0xFFFFFFFF
    parts = (low & mask, (low >> 32) & mask, high & mask, high >> 32)  # the last part has the sign
    found = [run(gather.SUM_INT, ints=part) for part in parts]
    sums = [part[0].tolist() for part in found]
    return [a + (b << 32) + (c << 64) + (d << 96) for a, b, c, d in zip(*sums)], found[0][2]


def _half_up(x: int, n: int) -> int:
    q, r = divmod(abs(x), n)
    q += 2 * r >= n
    return -q if x < 0 else q


def decimals(unscaled: list[int], counts: np.ndarray, precision: int, scale: int) -> pa.Array:
    """Makes decimals from their unscaled values, NULL if the count is 0."""
    raw = b"".join(v.to_bytes(16, "little", signed=True) for v in unscaled)
    mask = pa.array(counts > 0)
    valid = mask.buffers()[1]
    nulls = int((counts == 0).sum())
    return pa.Array.from_buffers(
        pa.decimal128(precision, scale), len(unscaled), [valid if nulls else None, pa.py_buffer(raw)], null_count=nulls
    )


def _label_extreme(fn: str, mask: int, run: Callable, variables: tuple[str, ...]) -> pa.Array:
    """Returns MIN or MAX of CLASSIFIER(): of the names, in byte order."""
    if fn not in ("min", "max"):
        raise ClauseError("DATATYPE_MISMATCH", f"{fn.upper()} of CLASSIFIER() is not defined: CLASSIFIER() is a STRING", sqlstate=SEMANTIC)
    labels = [i for i, name in enumerate(variables) if name and (mask == ALL_ROWS or mask >> i & 1)]
    picks = None
    for i in sorted(labels, key=lambda i: variables[i].encode(), reverse=fn == "min"):
        there = run(gather.COUNT, mask=1 << i)[2] > 0
        picks = np.where(there, i, -1 if picks is None else picks)
    if picks is None:  # of no variable
        picks = np.full(len(run(gather.COUNT, mask=0)[2]), -1)
    return pa.array([None if i < 0 else variables[i] for i in picks.tolist()], type=pa.string())


# leaves of REPORT CHANGES that describe a change
OF_CHANGES = ("change", "change_number", "changed_by", "punctuation")
_BUILDERS = {
    "nav": _navigation, "cls": _classifier, "mno": _number, "agg": _aggregate, "rows": _rows_list, "kind": _row_kind,
    **dict.fromkeys(("cnt", "graph", "errors", "missing", "bundle_start", "bundle_end", "bundle_size", "rank", "score", "vector", "pairs", "emitted"), _by_event),
    **dict.fromkeys(("status", "ended", "expected"), _by_event),
    **dict.fromkeys(("complete", "left_out", "allowed", "coverage"), _by_event), **dict.fromkeys(get_args(get_type_hints(OfHistory)["kind"]), _by_event),
    **dict.fromkeys(("window_start", "window_end", "next_start", "next_end"), _window_edge), **dict.fromkeys(("match_from", "match_to", "change", "change_number", "changed_by", "punctuation", "match_id"), _by_event),
    **dict.fromkeys(("register", "emit"), _of_computation),
}
