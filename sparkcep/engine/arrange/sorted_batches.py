"""Turns the blocks of a task into sorted batches: the rows of one key after the other, each key's rows by ORDER BY."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkcep.columns.blocks import Description, damaged, read_block
from sparkcep.engine.arrange.groups import group_rows
from sparkcep.engine.arrange.held_columns import HeldColumn, HeldColumns
from sparkcep.engine.arrange.order import key_words, order_words, ordered, texts

BLOCK = 1  # the place of the column with blocks


@dataclass
class Arranged:
    """Counts of a task: rows, keys, and bytes that were written to files."""

    rows: int = 0
    keys: int = 0
    spilled: int = 0


def sorted_batches(batches: Iterable[pa.RecordBatch], rows: int, size: int, arranged: Arranged | None = None) -> Iterator[pa.RecordBatch]:
    """Yields the rows of blocks, sorted.

    Args:
        batches: their second column has blocks of one description.
        rows: the most rows of a batch.
        size: bytes of a batch; more only if one row has more.
        arranged: gets what was done.

    Yields:
        Batches with the columns that go to the engine, which are named by their numbers.

    Raises:
        MatchRuntimeError: a block is damaged.
    """
    held: HeldColumns | None = None
    text = b""
    for data in _blocks(batches):
        block = read_block(data, held.description if held else None)
        if held is None:
            text = block.description
            held = HeldColumns(Description.read(text), os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None)
        elif block.description != text:
            raise damaged("it has other columns than the blocks before it")
        held.add(block)
    if held is None or not held.rows:
        return
    described, columns = held.description, held.columns()
    groups = group_rows([word for key in described.keys for word in key_words(columns[key])], held.rows)
    groups = ordered(groups, [word for by in described.order for word in order_words(columns[by.column], by)], held.rows)
    if arranged is not None:
        arranged.rows, arranged.keys, arranged.spilled = held.rows, len(groups.bounds) - 1, held.spilled
    sent = list(zip(columns, (arrow for _, arrow in described.types), strict=True))[: described.sent]
    step = max(1, min(rows, size * held.rows // max(1, sum(_bytes(column) for column, _ in sent))))
    for low in range(0, held.rows, step):
        high = min(low + step, held.rows)
        places = slice(low, high) if groups.rows is None else groups.rows[low:high].astype(np.intp)
        yield from _halved(sent, places, high - low, size)


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[np.ndarray]:
    for batch in batches:
        for block in batch.column(BLOCK):
            yield np.frombuffer(block.as_buffer(), dtype=np.uint8)


def _bytes(column: HeldColumn) -> int:
    return sum(array.nbytes for array in column if array is not None)


def _halved(sent: list[tuple[HeldColumn, pa.DataType]], places: slice | np.ndarray, count: int, size: int) -> Iterator[pa.RecordBatch]:
    """Yields these rows as one batch, or as several if long values come together."""
    if count > 1 and sum(_gathered_bytes(column, places) for column, _ in sent) > 2 * size:
        half = count // 2
        parts = (slice(places.start, places.start + half), slice(places.start + half, places.stop)) if isinstance(places, slice) else (places[:half], places[half:])
        yield from _halved(sent, parts[0], half, size)
        yield from _halved(sent, parts[1], count - half, size)
        return
    yield pa.RecordBatch.from_arrays([gather(column, arrow, places, count) for column, arrow in sent], names=[str(i) for i in range(len(sent))])


def _gathered_bytes(column: HeldColumn, places: slice | np.ndarray) -> int:
    if column.offsets is None:
        return 0
    return int((column.offsets[1:][places] - column.offsets[:-1][places]).sum())


def gather(column: HeldColumn, arrow: pa.DataType, places: slice | np.ndarray, count: int) -> pa.Array:
    """Returns the values at these places as an Arrow array."""
    nulls = None if column.nulls is None else column.nulls[places]
    valid = None if nulls is None or not nulls.any() else pa.py_buffer(np.packbits(nulls == 0, bitorder="little"))
    if column.offsets is not None:
        return _gather_texts(column, arrow, places, count, valid)
    values = column.values[places]
    if pa.types.is_boolean(arrow):
        return pa.Array.from_buffers(arrow, count, [valid, pa.py_buffer(np.packbits(values != 0, bitorder="little"))])
    if pa.types.is_decimal(arrow) and values.ndim == 1:
        values = np.stack([values, values >> 63], axis=1)
    return pa.Array.from_buffers(arrow, count, [valid, pa.py_buffer(np.ascontiguousarray(values))])


def _gather_texts(column: HeldColumn, arrow: pa.DataType, places: slice | np.ndarray, count: int, valid: pa.Buffer | None) -> pa.Array:
    taken = texts(column)[places] if isinstance(places, slice) else texts(column).take(pa.array(places))
    _, offsets, data = taken.buffers()
    found = np.frombuffer(offsets, dtype=np.int64)[taken.offset : taken.offset + count + 1]
    first = found[0] if count else 0
    large = pa.types.is_large_string(arrow) or pa.types.is_large_binary(arrow)
    ends = (found - first).astype(np.int64 if large else np.int32)
    data = data.slice(int(first)) if data is not None else pa.py_buffer(b"")
    return pa.Array.from_buffers(arrow, count, [valid, pa.py_buffer(ends), data])
