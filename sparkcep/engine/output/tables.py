"""Makes output tables from match batches, in pieces that fit memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import normalized
from sparkcep.compiler.net.variable_copies import KINDS
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.errors import NARROWER
from sparkcep.engine.core.matches import MatchBatch
from sparkcep.engine.core.task import Task
from sparkcep.engine.core.windows import WINDOW_BYTES, Slides, slides
from sparkcep.engine.output import gather, shared_ends
from sparkcep.engine.output.columns_out import (
    OF_CHANGES,
    OutputRows,
    end_rows,
    leaf_column,
    match_pairs,
    match_positions,
    output_bytes,
)
from sparkcep.engine.output.moving_windows import held
from sparkcep.engine.output.row_weights import scores
from sparkcep.errors import MatchRuntimeError, TooMuchStateError
from sparkcep.kernels.common import layout

OUTPUT_BYTES = 1 << 25  # approximate size of one output table
_ROW_MODES = {"one": gather.ONE, "show": gather.SHOW, "omit": gather.OMIT, "unmatched": gather.UNMATCHED}


class Tables:
    """Makes the output of one task."""

    def __init__(self, task: Task) -> None:
        self.task, self.plan, self.schema = task, task.plan, task.prepared.output_schema
        self.leaves = dict(task.plan.leaves)
        self.punctuates = task.plan.punctuates
        net = task.prepared.strategy.net
        self.kinds = None if net is None or net.copies is None else pa.array([KINDS[kind] for kind in net.copies.kinds])

    def of(self, chunk: Chunk, found: MatchBatch) -> Iterator[pa.Table]:
        """Yields the output rows of matches.

        Each match comes once for each sliding window that holds it, unless ``found`` already has the windows.
        """
        plan = self.plan
        if not len(found.events):
            return
        if plan.slide and "window_start" not in found.by_event:
            found = self._in_windows(chunk, found)
        events, labels, by_event = found.events, found.labels, dict(found.by_event)
        if not self._is_punctuation(by_event):
            self.task.matches += int(np.count_nonzero(events[:, layout.E_ROWS] >= (1 if plan.slide else 0)))  # windows without a match have 0 rows
        score = next((spec for spec in self.leaves.values() if spec.kind == "score"), None)
        if score is not None:
            by_event["score"] = scores(score, chunk.columns, events, labels, found.rows, len(plan.variables))
        if any(spec.kind == "vector" for spec in self.leaves.values()):
            by_event["vector"] = match_positions(events, found.rows, chunk.positions)
        if plan.ranking is not None and plan.ranking.changes is not None:
            by_event["pairs"] = match_pairs(events, labels, found.rows, chunk.positions)
        out_event, out_pos, out_upto = gather.output_rows(events, labels, found.rows, _ROW_MODES[plan.rows])
        if len(out_event) == 0:
            return
        forest = shared_ends.forest(events, labels, found.joins) if len(found.joins) else None
        before = (-1, 0) if plan.stepwise else None
        variables = found.variables or plan.variables
        rows = OutputRows(events, labels, found.rows, chunk.offsets, out_event, out_upto, variables, by_event, plan.ansi, forest, before, self.kinds)
        for piece in self._pieces(rows, out_pos, chunk.columns):
            part = rows if len(out_pos) == piece.stop - piece.start else replace(rows, out_event=out_event[piece], out_upto=out_upto[piece], before=before)
            if before is not None:
                before = int(out_event[piece.stop - 1]), int(out_upto[piece.stop - 1])
            yield self._table(part, out_pos[piece], chunk.columns)

    def _pieces(self, rows: OutputRows, out_pos: np.ndarray, columns: dict[str, pa.Array]) -> Iterator[slice]:
        """Yields slices of the output rows of about OUTPUT_BYTES each.

        With arrays of all rows so far, the output rows of one match may need more than the available memory.
        """
        kept = [f.name for f in self.schema if f.name != "__matched" and f.name not in self.leaves]
        sizes = output_bytes(self.plan.leaves, kept, rows, out_pos, columns, OUTPUT_BYTES)
        if sizes is None:
            yield slice(0, len(out_pos))
            return
        if sizes.max() > self.task.limits.max_state_bytes:
            raise self.task.failures.state(int(out_pos[np.argmax(sizes)]), columns, "measures of fewer rows than whole arrays of them")
        ends = np.cumsum(sizes)
        begin = 0
        while begin < len(sizes):
            before = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + OUTPUT_BYTES, side="right")))
            yield slice(begin, end)
            begin = end

    def _table(self, rows: OutputRows, out_pos: np.ndarray, columns: dict[str, pa.Array]) -> pa.Table:
        arrays = []
        taken = pa.array(out_pos)
        for f in self.schema:
            if f.name == "__matched":
                arrays.append(pa.array(rows.events[rows.out_event, layout.E_ROWS] >= 0))
            elif f.name in self.leaves:
                values = self._leaf(f.name, rows, columns)
                # a NULL struct has NULLs in fields that are declared not nullable; a cast refuses that even to the same type
                arrays.append(values if values.type.equals(f.type) else values.cast(f.type))
            else:
                values = columns[f.name].take(taken)
                arrays.append(normalized(values) if self.plan.rows == "one" else values)
        return pa.table(arrays, schema=self.schema)

    def _is_punctuation(self, by_event: dict[str, pa.Array]) -> bool:
        """Whether the batch is a punctuation. Then all leaves are NULL but those of changes."""
        return self.punctuates and by_event["punctuation"].null_count == 0

    def _leaf(self, name: str, rows: OutputRows, columns: dict[str, pa.Array]) -> pa.Array:
        spec = self.leaves[name]
        if spec.kind not in OF_CHANGES and self._is_punctuation(rows.by_event):
            return pa.nulls(len(rows.out_event), self.schema.field(name).type)
        try:
            return leaf_column(spec, rows, columns)
        except MatchRuntimeError as error:
            raise error.at(next(((p.line, p.column, p.text) for p in self.plan.leaf_places if p.name == name), None)) from None

    def _in_windows(self, chunk: Chunk, found: MatchBatch) -> MatchBatch:
        """Repeats each match for each sliding window that is asked for and holds all its rows."""
        events = found.events
        kept = np.flatnonzero(events[:, layout.E_ROWS] > 0)
        first, last = end_rows(events[kept], found.rows)
        try:
            which, numbers, grid = held(self.plan, chunk, found if len(kept) == len(events) else found.chosen(kept), first, last, most_windows(self.task))
        except TooMuchStateError as error:
            raise self.task.failures.state(int(events[kept[error.args[0]], layout.E_START]), chunk.columns, NARROWER) from None
        edges = dict(zip(("window_start", "window_end"), grid.values(numbers)))
        if self.plan.ranking is not None and self.plan.ranking.changes is not None:
            edges |= sliding_of(self.task, chunk).compared(chunk, events[kept[which], layout.E_PART], numbers)
        which = kept[which]
        chosen = {name: values.take(pa.array(which)) for name, values in found.by_event.items()}
        return replace(found, events=events[which], by_event=chosen | edges)


def most_windows(task: Task) -> int:
    """How many sliding windows may be listed at a time."""
    return task.limits.max_state_bytes // WINDOW_BYTES


def sliding_of(task: Task, chunk: Chunk) -> Slides:
    """Returns the sliding windows of whole partitions. Raises MatchRuntimeError for a partition with too many."""
    assert task.plan.slide is not None
    try:
        return slides(task.plan.windows[0], task.plan.slide, chunk, most_windows(task))
    except TooMuchStateError as error:
        raise task.failures.state(int(chunk.offsets[error.args[0]]), chunk.columns, NARROWER) from None
