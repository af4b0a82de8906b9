"""Turns the blocks of a task into sorted batches: the rows of one key after the other, each key's rows by ORDER BY."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from sparkcep.columns.blocks import Block, Description, Part, read_block
from sparkcep.engine.arrange.groups import RowsByKey, group_rows, places_of_rows
from sparkcep.engine.arrange.held_columns import HeldColumn, byte_count, joined, placed, taken, to_arrow
from sparkcep.engine.arrange.order import key_words, order_of_keys, order_words, ordered
from sparkcep.engine.arrange.sorted_runs import SortedRuns, needed_bytes

BLOCK = 1  # the place of the column with blocks
_OF_MEMORY = 4  # the part of the memory that is left for ordering rows; the engine and its output need more


@dataclass
class Arranged:
    """Counts of a task: its rows, and the runs and bytes that were written to a file."""

    rows: int = 0
    runs: int = 0
    spilled: int = 0


def sorted_batches(batches: Iterable[pa.RecordBatch], rows: int, size: int, memory: int | None = None, arranged: Arranged | None = None) -> Iterator[pa.RecordBatch]:
    """Yields the rows of blocks, sorted.

    Args:
        batches: their second column has blocks of one description.
        rows: the most rows of a batch.
        size: bytes of a batch; more only if one row has more.
        memory: bytes that the process may still map; None without a limit.
        arranged: gets what was done.

    Yields:
        Batches with the columns that go to the engine, which are named by their numbers.

    Raises:
        MatchRuntimeError: a block is damaged.
    """
    arranged = arranged or Arranged()
    for columns, order, described in _sorted(_blocks(batches), memory, arranged):
        step = max(1, min(rows, size * columns[0].rows // max(1, byte_count(columns))))
        low, high = (order.start, order.stop) if isinstance(order, slice) else (0, len(order))
        for first in range(low, high, step):
            last = min(first + step, high)
            yield from _halved(columns, described, slice(first, last) if isinstance(order, slice) else order[first:last].astype(np.intp), size)


def _sorted(blocks: Iterable[Block], memory: int | None, arranged: Arranged) -> Iterator[tuple[list[HeldColumn], np.ndarray | slice, Description]]:
    """Yields columns that go to the engine, the next rows of them in their order, and the columns' description."""
    described, runs, most = None, None, 0
    held: list[list[HeldColumn]] = []
    used = 0
    for block in blocks:
        if described is None:
            described = block.description
            most = described.held if memory is None else min(described.held, memory // _OF_MEMORY)
        held.append([HeldColumn.of_block(column) for column in block.columns])
        used += needed_bytes(described, held[-1])
        arranged.rows += block.rows
        if used > most:
            runs = runs or SortedRuns(described, most, os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None, partial(_by_keys, described))
            _write(runs, described, held)
            held, used = [], 0
    if described is None or not arranged.rows:
        return
    if runs is None:
        columns, groups = _grouped(described, held)
        order = ordered(groups, _order_words(described, columns), arranged.rows).rows
        yield columns[: described.sent], slice(0, arranged.rows) if order is None else order, described
        return
    if held:
        _write(runs, described, held)
    arranged.runs, arranged.spilled = len(runs), runs.bytes
    for columns, places in runs.merged():
        yield columns[: described.sent], places, described


def _grouped(described: Description, blocks: list[list[HeldColumn]]) -> tuple[list[HeldColumn], RowsByKey]:
    """Returns the columns of all blocks, the rows of each key together, and the bounds of the keys. Gives up the blocks."""
    words = [word for key in described.keys for word in key_words(joined([block[key] for block in blocks]))]
    places, bounds = places_of_rows(words, sum(block[0].rows for block in blocks))
    columns = [joined(pieces) if places is None else placed(pieces, places) for pieces in zip(*blocks, strict=True)]
    blocks.clear()
    return columns, RowsByKey(None, bounds)


def _order_words(described: Description, columns: Sequence[HeldColumn]) -> list[np.ndarray]:
    return [word for by in described.order for word in order_words(columns[by.column], by)]


def _write(runs: SortedRuns, described: Description, blocks: list[list[HeldColumn]]) -> None:
    columns, groups = _grouped(described, blocks)
    groups = ordered(groups, _order_words(described, columns), columns[0].rows)
    runs.write(columns, order_of_keys(groups, [columns[key] for key in described.keys]).rows)


def _by_keys(described: Description, columns: Sequence[HeldColumn]) -> np.ndarray | None:
    """Returns the rows by ascending keys, each key's by ORDER BY; None if they are so already."""
    count = columns[0].rows
    groups = group_rows([word for key in described.keys for word in key_words(columns[key])], count)
    groups = ordered(groups, _order_words(described, columns), count)
    return order_of_keys(groups, [columns[key] for key in described.keys]).rows


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[Block]:
    """Yields blocks that have one description."""
    first: Block | None = None
    for batch in batches:
        column = batch.column(BLOCK)
        if not len(column):
            continue
        _, offsets, values = column.buffers()
        width = np.int64 if pa.types.is_large_binary(column.type) else np.int32
        bounds = np.frombuffer(offsets, dtype=width)[column.offset : column.offset + len(column) + 1]
        data = np.frombuffer(values, dtype=np.uint8)
        for low, high in itertools.pairwise(bounds.tolist()):  # a scalar of Arrow's would copy the bytes
            block = read_block(data[low:high], first)
            first = first or block
            yield block


def _halved(columns: Sequence[HeldColumn], described: Description, places: slice | np.ndarray, size: int) -> Iterator[pa.RecordBatch]:
    """Yields these rows as one batch, or as several if long values come together."""
    count = places.stop - places.start if isinstance(places, slice) else len(places)
    if count > 1 and sum(_text_bytes(column, places) for column in columns) > 2 * size:
        half = count // 2
        parts = (slice(places.start, places.start + half), slice(places.start + half, places.stop)) if isinstance(places, slice) else (places[:half], places[half:])
        for part in parts:
            yield from _halved(columns, described, part, size)
        return
    arrays = [to_arrow(taken(column, places), arrow) for column, (_, arrow) in zip(columns, described.types, strict=False)]
    yield pa.RecordBatch.from_arrays([_output(part, arrays) for part in described.output], names=[str(i) for i in range(len(described.output))])


def _output(part: Part, arrays: Sequence[pa.Array]) -> pa.Array:
    """Returns a column that goes to the engine."""
    if isinstance(part, int):
        return arrays[part]
    values = [_output(of, arrays) for _, _, of in part.fields]
    fields = [pa.field(name, value.type, nullable) for (name, nullable, _), value in zip(part.fields, values, strict=True)]
    return pa.StructArray.from_arrays(values, fields=fields, mask=arrays[part.present].is_null())


def _text_bytes(column: HeldColumn, places: slice | np.ndarray) -> int:
    if column.offsets is None or not len(column.values):
        return 0
    return int((column.offsets[1:][places] - column.offsets[:-1][places]).sum())
